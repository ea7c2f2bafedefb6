// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Entries in an array sorted by key: small, and a walk in order costs nothing. A new key moves the pointers behind it, at most
 * 8 MiB at the bound. Durable only as long as the process: for tests and for those who accept that.
 */
#include <errno.h>
#include <string.h>

#include "store/driver.h"

#define KEYS_MAX (1u << 20)

struct entry {
	char *key;
	void *value;
	size_t len;
	uint64_t revision;
};

struct memory {
	struct entry **v;
	size_t n;
	size_t room;
	uint64_t revision; /* of the last commit */
};

static struct entry *entry_free(struct entry *entry)
{
	if (!entry)
		return NULL;
	free(entry->key);
	free(entry->value);
	free(entry);
	return NULL;
}
LG_CLEANUP(struct entry, entry_free)

static int entry_new(const struct lg_store_write *write, uint64_t revision, struct entry **ret_entry)
{
	_cleanup_(entry_free) struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->key = strdup(write->key);
	entry->value = malloc(write->len + 1);
	if (!entry->key || !entry->value)
		return -ENOMEM;
	memcpy(entry->value, write->value, write->len);
	entry->len = write->len;
	entry->revision = revision;
	*ret_entry = TAKE(entry);
	return 0;
}

static int memory_open(const char *path, void **ret_state, struct lg_complaint *c)
{
	struct memory *m = calloc(1, sizeof(*m));

	(void)path;
	if (!m) {
		lg_complain(c, "not enough memory for a store");
		return -ENOMEM;
	}
	*ret_state = m;
	return 0;
}

static void memory_close(void *state)
{
	struct memory *m = state;

	for (size_t i = 0; i < m->n; i++)
		entry_free(m->v[i]);
	free(m->v);
	free(m);
}

/* Index of the first entry whose key is not before `key`. */
static size_t position(const struct memory *m, const char *key)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(m->v[mid]->key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct entry *find(const struct memory *m, const char *key)
{
	size_t i = position(m, key);

	return i < m->n && strcmp(m->v[i]->key, key) == 0 ? m->v[i] : NULL;
}

static int memory_get(void *state, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	const struct entry *entry = find(state, key);

	if (!entry)
		return 1;
	if (entry->len > size)
		return -ENOSPC;
	memcpy(buf, entry->value, entry->len);
	*ret_len = entry->len;
	*ret_revision = entry->revision;
	return 0;
}

static int room_make(struct memory *m, size_t n)
{
	size_t room = m->room ? m->room : 64;
	struct entry **v;

	if (m->n + n > KEYS_MAX)
		return -ENOSPC;
	while (room < m->n + n)
		room *= 2;
	if (room == m->room)
		return 0;
	v = realloc(m->v, room * sizeof(*v));
	if (!v)
		return -ENOMEM;
	m->v = v;
	m->room = room;
	return 0;
}

/* Cannot fail: there is room. A NULL entry deletes. */
static void entry_put(struct memory *m, const char *key, struct entry *entry)
{
	size_t i = position(m, key);

	if (i < m->n && strcmp(m->v[i]->key, key) == 0) {
		entry_free(m->v[i]);
		m->v[i] = entry;
		if (!entry)
			memmove(&m->v[i], &m->v[i + 1], (--m->n - i) * sizeof(*m->v));
	} else if (entry) {
		memmove(&m->v[i + 1], &m->v[i], (m->n++ - i) * sizeof(*m->v));
		m->v[i] = entry;
	}
}

static int memory_commit(void *state, const struct lg_store_write *writes, size_t n)
{
	struct memory *m = state;
	_cleanup_free_ struct entry **entries = calloc(n, sizeof(*entries));
	const struct entry *now;
	int r;

	for (size_t i = 0; i < n; i++) {
		now = find(m, writes[i].key);
		if (writes[i].if_revision != LG_STORE_REVISION_ANY && writes[i].if_revision != (now ? now->revision : 0))
			return 1;
	}
	r = entries ? room_make(m, n) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (writes[i].value)
			r = entry_new(&writes[i], m->revision + 1, &entries[i]);
	if (r < 0) {
		for (size_t i = 0; entries && i < n; i++)
			entry_free(entries[i]);
		return r;
	}
	m->revision++;
	for (size_t i = 0; i < n; i++)
		entry_put(m, writes[i].key, entries[i]);
	return 0;
}

static int memory_each(void *state, const char *prefix, lg_store_fn *fn, void *arg)
{
	struct memory *m = state;
	size_t len = strlen(prefix);
	int r = 0;

	for (size_t i = position(m, prefix); r == 0 && i < m->n && strncmp(m->v[i]->key, prefix, len) == 0; i++)
		r = fn(arg, m->v[i]->key, m->v[i]->value, m->v[i]->len, m->v[i]->revision);
	return r;
}

const struct lg_store_driver lg_store_memory = {
	.name = "memory",
	.open = memory_open,
	.close = memory_close,
	.get = memory_get,
	.commit = memory_commit,
	.each = memory_each,
};
