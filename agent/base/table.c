// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Open addressing with linear probing and backward-shift deletion, at most half full. Hashes are seeded per table, so that a peer
 * cannot choose keys that collide.
 */
#include "base/table.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

struct table_slot {
	void *value;	/* NULL: free */
	uint8_t *key;
};

struct lg_table {
	size_t key_len;
	size_t max;
	size_t count;
	size_t mask;		/* slots - 1 */
	uint64_t seed;
	struct table_slot *slots;
};

int lg_table_new(size_t key_len, size_t max, struct lg_table **ret_table)
{
	_cleanup_(lg_table_free) struct lg_table *t = NULL;

	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->key_len = key_len;
	t->max = max;
	t->mask = 63;
	if (getrandom(&t->seed, sizeof(t->seed), 0) != sizeof(t->seed))
		return -EIO;
	t->slots = calloc(t->mask + 1, sizeof(*t->slots));
	if (!t->slots)
		return -ENOMEM;
	*ret_table = TAKE(t);
	return 0;
}

struct lg_table *lg_table_free(struct lg_table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; t->slots && i <= t->mask; i++)
		free(t->slots[i].key);
	free(t->slots);
	free(t);
	return NULL;
}

size_t lg_table_count(const struct lg_table *t)
{
	return t->count;
}

static size_t slot_home(const struct lg_table *t, const void *key)
{
	return XXH3_64bits_withSeed(key, t->key_len, t->seed) & t->mask;
}

/* The key's slot, or the free one where it would go. */
static size_t slot_find(const struct lg_table *t, const void *key)
{
	size_t i = slot_home(t, key);

	while (t->slots[i].value && memcmp(t->slots[i].key, key, t->key_len) != 0)
		i = (i + 1) & t->mask;
	return i;
}

static int table_grow(struct lg_table *t)
{
	struct table_slot *old = t->slots;
	size_t n = t->mask + 1;

	t->slots = calloc(n * 2, sizeof(*t->slots));
	if (!t->slots) {
		t->slots = old;
		return -ENOMEM;
	}
	t->mask = n * 2 - 1;
	for (size_t i = 0; i < n; i++)
		if (old[i].value)
			t->slots[slot_find(t, old[i].key)] = old[i];
	free(old);
	return 0;
}

void *lg_table_get(const struct lg_table *t, const void *key)
{
	return t->slots[slot_find(t, key)].value;
}

int lg_table_put(struct lg_table *t, const void *key, void *value)
{
	size_t i;
	int r;

	if (t->slots[slot_find(t, key)].value)
		return -EEXIST;
	if (t->count >= t->max)
		return -ENOSPC;
	if (2 * (t->count + 1) > t->mask + 1) {
		r = table_grow(t);
		if (r < 0)
			return r;
	}
	i = slot_find(t, key);
	t->slots[i].key = malloc(t->key_len);
	if (!t->slots[i].key)
		return -ENOMEM;
	memcpy(t->slots[i].key, key, t->key_len);
	t->slots[i].value = value;
	t->count++;
	return 0;
}

/* Closes the gap at i: entries after it that probed past i move up. */
static void gap_close(struct lg_table *t, size_t i)
{
	size_t j = i, home;

	for (;;) {
		t->slots[i] = (struct table_slot){ 0 };
		do {
			j = (j + 1) & t->mask;
			if (!t->slots[j].value)
				return;
			home = slot_home(t, t->slots[j].key);
		} while (((j - home) & t->mask) < ((j - i) & t->mask));
		t->slots[i] = t->slots[j];
		i = j;
	}
}

void *lg_table_del(struct lg_table *t, const void *key)
{
	size_t i = slot_find(t, key);
	void *value = t->slots[i].value;

	if (!value)
		return NULL;
	free(t->slots[i].key);
	gap_close(t, i);
	t->count--;
	return value;
}

int lg_table_each(struct lg_table *t, int (*fn)(void *arg, const void *key, void *value), void *arg)
{
	size_t start = 0, n = t->mask + 1, i;
	void *value;
	int r;

	/* Begin after a free slot, so that a deletion never moves an entry across the start and past us. */
	while (t->slots[start].value)
		start++;
	for (size_t k = 1; k <= n;) {
		i = (start + k) & t->mask;
		value = t->slots[i].value;
		if (!value) {
			k++;
			continue;
		}
		r = fn(arg, t->slots[i].key, value);
		if (r)
			return r;
		/* The same slot again if its entry is gone and another moved in. */
		if (t->slots[i].value == value)
			k++;
	}
	return 0;
}
