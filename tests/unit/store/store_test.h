/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Stores in tests: what a loop would be told is waited for. */
#pragma once

#include "store/store.h"
#include "tests/unit/net/net_test.h"

struct outcome {
	unsigned int n_done;
	int result;
};

static inline void outcome_note(void *arg, int result)
{
	struct outcome *o = arg;

	o->n_done++;
	o->result = result;
}

static inline void store_changed(void *arg)
{
	(void)arg;
}

static inline struct lg_store *store_open(struct net_loop *n, const struct lg_store_options *options)
{
	struct lg_complaint c = { 0 };
	struct lg_store *store = NULL;

	if (lg_store_open(n->loop, options, store_changed, NULL, &store, &c) < 0)
		fail_msg("%s: %s", c.file, c.text);
	WAIT_FOR(n->loop, lg_store_is_ready(store, NULL));
	return store;
}

static inline int store_commit(struct net_loop *n, struct lg_store *store, const struct lg_store_write *writes, size_t n_writes)
{
	struct outcome o = { 0 };
	int r = lg_store_commit(store, writes, n_writes, outcome_note, &o);

	if (r < 0)
		return r;
	WAIT_FOR(n->loop, o.n_done == 1);
	return o.result;
}

static inline int store_put(struct net_loop *n, struct lg_store *store, const char *key, const char *value)
{
	struct lg_store_write write = { .key = key, .value = value, .len = strlen(value), .if_revision = LG_STORE_REVISION_ANY };

	return store_commit(n, store, &write, 1);
}

static inline bool store_get_is(struct lg_store *store, const char *key, const char *value)
{
	char buf[64];
	uint64_t revision;
	size_t len;

	return lg_store_get(store, key, buf, sizeof(buf), &len, &revision) == 0 && len == strlen(value) && memcmp(buf, value, len) == 0;
}
