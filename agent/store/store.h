/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Durable bytes under keys, with a revision for compare-and-swap. Knows nothing of leases. One interface, drivers listed in
 * table.c; tests/unit/store/contract_test.c runs on each.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"

#define LG_STORE_KEY_MAX 512
#define LG_STORE_VALUE_MAX 65536
#define LG_STORE_WRITES_MAX 4096	/* of one commit: a change for each holder of a ledger */
#define LG_STORE_REVISION_ANY (~0ull)

struct lg_store;

/* One write of a transaction: put when value is not NULL, else delete. */
struct lg_store_write {
	const char *key;
	const void *value;
	size_t len;
	uint64_t if_revision;	/* revision the key must have now; 0: must not exist; LG_STORE_REVISION_ANY: whatever */
};

/* Opens `driver` ("sqlite", "memory") at `path` (a file for sqlite, ignored by memory). Negative errno with *c filled. */
int lg_store_open(const char *driver, const char *path, struct lg_store **ret_store, struct lg_complaint *c);
struct lg_store *lg_store_free(struct lg_store *store);
LG_CLEANUP(struct lg_store, lg_store_free)

/* Keys are 1 to LG_STORE_KEY_MAX bytes and values at most LG_STORE_VALUE_MAX; anything else is -EINVAL from each function. */

/* 0 with bytes copied into buf (at most `size`; -ENOSPC if larger), 1 if there is no such key, negative errno. */
int lg_store_get(struct lg_store *store, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision);
/*
 * All writes or none, durable when it returns. 0 done, 1 some if_revision did not hold (nothing written), negative errno: it is
 * not known to be durable, so read back before relying on either. At most LG_STORE_WRITES_MAX writes, no key twice (-EINVAL).
 * A revision is never used again, for any key. Inside lg_store_each() -EBUSY.
 */
int lg_store_commit(struct lg_store *store, const struct lg_store_write *writes, size_t n);
/*
 * Calls fn for each key that begins with prefix (which may be ""), in order of their bytes. Stops when fn returns other than 0 and
 * returns that. fn may read the store; what it is given is valid until it returns.
 */
int lg_store_each(struct lg_store *store, const char *prefix,
		  int (*fn)(void *arg, const char *key, const void *value, size_t len, uint64_t revision), void *arg);
