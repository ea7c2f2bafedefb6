/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Entries of a store in memory, in an array sorted by key: small, and a walk in order costs nothing. A new key moves the pointers behind it,
 * at most 8 MiB at the bound. The store itself in the driver "memory", and what a cluster holds in the driver "etcd".
 */
#pragma once

#include "store/store.h"

struct lg_mirror_entry;

struct lg_mirror {
	struct lg_mirror_entry **v;
	size_t n;
	size_t room;
};

void lg_mirror_fini(struct lg_mirror *m);
/* Makes room for so many more keys: -ENOMEM, or -ENOSPC at the bound. */
int lg_mirror_reserve(struct lg_mirror *m, size_t n);
int lg_mirror_entry_new(const char *key, const void *value, size_t len, uint64_t revision, struct lg_mirror_entry **ret_entry);
struct lg_mirror_entry *lg_mirror_entry_free(struct lg_mirror_entry *entry);
LG_CLEANUP(struct lg_mirror_entry, lg_mirror_entry_free)
/* Takes an entry, or with NULL deletes the key. Cannot fail where there is room. */
void lg_mirror_put(struct lg_mirror *m, const char *key, struct lg_mirror_entry *entry);
/* The revision of a key, 0 if it is not there. */
uint64_t lg_mirror_revision(const struct lg_mirror *m, const char *key);
/* What a key has become at a revision, by news that come in any order: news of before what is known change nothing. value NULL: it was deleted,
 * which is remembered until the same is told again. 1: it was news; 0; -ENOMEM, or -ENOSPC at the bound. */
int lg_mirror_learn(struct lg_mirror *m, const char *key, const void *value, size_t len, uint64_t revision);
/* As the functions of store.h. */
int lg_mirror_get(const struct lg_mirror *m, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision);
int lg_mirror_each(const struct lg_mirror *m, const char *prefix, lg_store_fn *fn, void *arg);
