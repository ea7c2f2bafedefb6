/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Hash table from keys of one fixed size (compared bytewise, so padding must be 0) to pointers it does not own. Bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct lg_table;

int lg_table_new(size_t key_len, size_t max, struct lg_table **ret_table);
/* Frees the table; what it points at is the owner's to free before. */
struct lg_table *lg_table_free(struct lg_table *t);
LG_CLEANUP(struct lg_table, lg_table_free)

size_t lg_table_count(const struct lg_table *t);
/* The value of a key, or NULL. */
void *lg_table_get(const struct lg_table *t, const void *key);
/* 0, -EEXIST, -ENOSPC (max reached) or -ENOMEM. value is not NULL. */
int lg_table_put(struct lg_table *t, const void *key, void *value);
/* Takes the entry out; returns its value, or NULL. */
void *lg_table_del(struct lg_table *t, const void *key);
/* Calls fn for each entry, in no order; fn may delete the entry it is called for and no other, and must not put. Stops when fn returns
 * other than 0 and returns that. */
int lg_table_each(struct lg_table *t, int (*fn)(void *arg, const void *key, void *value), void *arg);
