/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Memory for many small objects of a few sizes: no header per object, so an object costs its size rounded up to 16 bytes and nothing
 * more, and a slab that has become empty goes back to the system. One pool for the process; of one thread. */
#pragma once

#include <stddef.h>

#define LG_POOL_OBJECT_MAX 4096	/* larger ones come from malloc */

/* Zeroed, at 16 bytes; NULL when there is no memory. */
void *lg_pool_get(size_t size);
/* size as it was asked for. Takes NULL. */
void lg_pool_put(void *p, size_t size);

struct lg_pool_stat {
	size_t used_bytes;	/* of objects, as rounded; large ones included */
	size_t held_bytes;	/* of slabs, and of large ones: taken from the system */
	size_t large_bytes;	/* in both: of large ones, which malloc() counts too */
};
void lg_pool_stat(struct lg_pool_stat *ret);
