/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Durable bytes under keys, with a revision for compare-and-swap, watched by all who share them. Knows nothing of leases of tokens. One
 * interface, drivers listed in table.c; tests/unit/store/contract_test.c runs on each.
 *
 * Nothing here waits. What a store holds is read at once, from memory where the bytes lie elsewhere; writes are told of when they are
 * durable. One thread: callbacks come from the loop, never from inside a function of this file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "leasegate/bounds.h"

#define LG_STORE_KEY_MAX 512
#define LG_STORE_VALUE_MAX 65536
#define LG_STORE_WRITES_MAX 128		/* of one commit: what etcd takes in one transaction */
#define LG_STORE_COMMIT_BYTES_MAX 900000	/* keys and values of one commit: what etcd takes in one request, with room to spare */
#define LG_STORE_REVISION_ANY (~0ull)

struct lg_loop;
struct lg_store;
struct lg_tls;

struct lg_store_options {
	const char *driver;	/* "sqlite", "memory", "etcd" */
	const char *path;	/* sqlite: the file. etcd: what all keys begin with, such as "/leasegate/eu-west/" */
	const char *witness;	/* sqlite: a file that outlives this process, but no boot: see lg_store_is_doubted(). NULL: none */
	/* etcd */
	const char *endpoints[LG_ETCD_ENDPOINTS_MAX];
	size_t n_endpoints;
	const char *user, *password;	/* NULL: without */
	struct lg_tls *tls;		/* NULL: clear text */
};

/* changed: whether the store can be read and whether this process is known to be here may have changed. */
typedef void lg_store_changed(void *arg);

/* Negative errno with *c filled if it cannot work; a cluster that cannot be reached yet is no error: it is not ready. */
int lg_store_open(struct lg_loop *loop, const struct lg_store_options *o, lg_store_changed *changed, void *arg,
		  struct lg_store **ret_store, struct lg_complaint *c);
/* Writes under way may still become durable; nobody is told. Not from inside a callback. */
struct lg_store *lg_store_free(struct lg_store *store);
LG_CLEANUP(struct lg_store, lg_store_free)

/* Can it be read? If not, *ret_why, which may be NULL, tells why not yet; it lives until the next call. */
bool lg_store_is_ready(const struct lg_store *store, const char **ret_why);

/* Is it known to be an older copy than the one that was open last? It stays so, in later lives too, until it is said that what it lacks
 * matters no more. */
bool lg_store_is_doubted(const struct lg_store *store);
void lg_store_trust(struct lg_store *store);

/* Keys are 1 to LG_STORE_KEY_MAX bytes and values at most LG_STORE_VALUE_MAX; anything else is -EINVAL from each function. Before the store
 * is ready they return -EAGAIN. */

/* 0 with bytes copied into buf (at most `size`; -ENOSPC if larger), 1 if there is no such key, negative errno. */
int lg_store_get(struct lg_store *store, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision);
/*
 * Calls fn for each key that begins with prefix (which may be ""), in order of their bytes. Stops when fn returns other than 0 and
 * returns that. fn may read the store; what it is given is valid until it returns.
 */
typedef int lg_store_fn(void *arg, const char *key, const void *value, size_t len, uint64_t revision);
int lg_store_each(struct lg_store *store, const char *prefix, lg_store_fn *fn, void *arg);

enum lg_store_how {
	LG_STORE_WRITE = 0,	/* put when value is not NULL, else delete */
	LG_STORE_CHECK,		/* nothing is written: if_revision must hold, no more */
	LG_STORE_TEMPORARY,	/* put, until this process is here no longer: see lg_store_join() */
};

/* One write of a transaction. */
struct lg_store_write {
	const char *key;
	const void *value;
	size_t len;
	uint64_t if_revision;	/* revision the key must have now; 0: must not exist; LG_STORE_REVISION_ANY: whatever */
	enum lg_store_how how;
};

/*
 * result: 0 all are durable, and can be read; 1 some if_revision did not hold when it was carried out: nothing was written; -EHOSTUNREACH
 * nothing was written, as nobody takes it; another negative errno: it is not known whether they are durable, so read back before relying
 * on either.
 */
typedef void lg_store_done(void *arg, int result);
/*
 * All writes or none, in the order of calls. At most LG_STORE_WRITES_MAX of them and LG_STORE_COMMIT_BYTES_MAX, no key twice (-EINVAL).
 * A revision is never used again, for any key. Inside lg_store_each() -EBUSY. They are copied.
 */
int lg_store_commit(struct lg_store *store, const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg);

/*
 * Tells what there is behind a prefix (which may be ""), once the store is ready, and from then on each change of it, whoever made it; of
 * changes of a key that follow each other quickly perhaps only the last. value NULL, revision 0: it was deleted. A change of our own is
 * told before its `done`. fn comes from the loop, and may use the store. Until the store is freed.
 */
typedef void lg_store_seen(void *arg, const char *key, const void *value, size_t len, uint64_t revision);
int lg_store_watch(struct lg_store *store, const char *prefix, lg_store_seen *fn, void *arg);
/* The same once the store is ready, and what there is is told before it returns as well; inside of that the store can be read only. */
int lg_store_watch_now(struct lg_store *store, const char *prefix, lg_store_seen *fn, void *arg);

/* ---- being there ---- */

/* Do other processes share it? If not, temporary keys of an earlier process may still be there: nobody else's. */
bool lg_store_is_shared(const struct lg_store *store);
/* From now on this process wants to be known as alive to those who share the store; each time it is not, it tries again. */
int lg_store_join(struct lg_store *store);
/*
 * Until when the temporary keys that were committed since we are here are certain to be there, on our own clock; 0: we are not. To be asked
 * before each act that rests on them. UINT64_MAX where nobody shares the store.
 */
uint64_t lg_store_here_until_ns(const struct lg_store *store);
/* Grows each time this process is here anew: temporary keys of an earlier time are gone, or go. */
uint32_t lg_store_here_since(const struct lg_store *store);
