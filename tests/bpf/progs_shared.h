/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * For tests whose rows share programs that are loaded once, with tables of 64 keys, on the test clock.
 */
#pragma once

#include "progs.h"

static struct progs *p;

static inline int load(void **state)
{
	(void)state;
	p = progs_load(64, true);
	return 0;
}

static inline int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}
