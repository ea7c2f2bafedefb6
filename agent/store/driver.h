/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a store driver provides, all of it required. Arguments are checked by store.c, keys of a commit are distinct. */
#pragma once

#include "store/store.h"

/* What a driver tells, at any time, from the loop. */
struct lg_store_news {
	lg_store_changed *changed;
	lg_store_seen *seen;	/* of drivers whose bytes others change: a key is what it was not before, by whomever */
	void *arg;
};

struct lg_store_driver {
	const char *name;
	bool is_shared;
	int (*open)(struct lg_loop *loop, const struct lg_store_options *o, const struct lg_store_news *news, void **ret_state,
		    struct lg_complaint *c);
	void (*close)(void *state);
	/* as the functions of store.h */
	bool (*is_ready)(const void *state, const char **ret_why);
	int (*get)(void *state, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision);
	int (*each)(void *state, const char *prefix, lg_store_fn *fn, void *arg);
	/* Carries it out, or returns -EINPROGRESS and calls `done` later, from the loop. */
	int (*commit)(void *state, const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg);
	int (*join)(void *state);
	uint64_t (*here_until_ns)(const void *state);
	uint32_t (*here_since)(const void *state);
	bool (*is_doubted)(const void *state);
	void (*trust)(void *state);
};

extern const struct lg_store_driver lg_store_memory;
extern const struct lg_store_driver lg_store_sqlite;
extern const struct lg_store_driver lg_store_etcd;

/* The driver at an index, or NULL behind the last one. */
const struct lg_store_driver *lg_store_driver_at(size_t i);

/* ---- for drivers whose bytes are this process's own ---- */

struct lg_store_own {
	bool is_here;
};
bool lg_store_own_is_ready(const void *state, const char **ret_why);
/* `state` begins with struct lg_store_own. */
int lg_store_own_join(void *state);
uint64_t lg_store_own_here_until_ns(const void *state);
uint32_t lg_store_own_here_since(const void *state);

/* ---- for drivers that have no older copies ---- */

bool lg_store_never_doubted(const void *state);
void lg_store_ever_trusted(void *state);
