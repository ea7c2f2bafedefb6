/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a store driver provides, all of it required. Arguments are checked by store.c, keys of a commit are distinct. */
#pragma once

#include "store/store.h"

typedef int lg_store_fn(void *arg, const char *key, const void *value, size_t len, uint64_t revision);

struct lg_store_driver {
	const char *name;
	int (*open)(const char *path, void **ret_state, struct lg_complaint *c);
	void (*close)(void *state);
	/* as the functions of store.h */
	int (*get)(void *state, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision);
	int (*commit)(void *state, const struct lg_store_write *writes, size_t n);
	int (*each)(void *state, const char *prefix, lg_store_fn *fn, void *arg);
};

extern const struct lg_store_driver lg_store_memory;
extern const struct lg_store_driver lg_store_sqlite;

/* The driver at an index, or NULL behind the last one. */
const struct lg_store_driver *lg_store_driver_at(size_t i);
