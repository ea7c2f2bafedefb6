// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "store/mirror.h"

#include <errno.h>
#include <string.h>

#define KEYS_MAX (1u << 20)

struct lg_mirror_entry {
	char *key;
	void *value;
	size_t len;
	uint64_t revision;
	bool is_deleted;	/* what is left of a key, so that older news of it are known to be old */
};

struct lg_mirror_entry *lg_mirror_entry_free(struct lg_mirror_entry *entry)
{
	if (!entry)
		return NULL;
	free(entry->key);
	free(entry->value);
	free(entry);
	return NULL;
}

int lg_mirror_entry_new(const char *key, const void *value, size_t len, uint64_t revision, struct lg_mirror_entry **ret_entry)
{
	_cleanup_(lg_mirror_entry_free) struct lg_mirror_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	entry->key = strdup(key);
	entry->value = malloc(len + 1);
	if (!entry->key || !entry->value)
		return -ENOMEM;
	if (len)
		memcpy(entry->value, value, len);
	entry->len = len;
	entry->revision = revision;
	*ret_entry = TAKE(entry);
	return 0;
}

void lg_mirror_fini(struct lg_mirror *m)
{
	for (size_t i = 0; i < m->n; i++)
		lg_mirror_entry_free(m->v[i]);
	free(m->v);
	*m = (struct lg_mirror){ 0 };
}

/* Index of the first entry whose key is not before `key`. */
static size_t position(const struct lg_mirror *m, const char *key)
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

static const struct lg_mirror_entry *find(const struct lg_mirror *m, const char *key)
{
	size_t i = position(m, key);

	return i < m->n && strcmp(m->v[i]->key, key) == 0 ? m->v[i] : NULL;
}

uint64_t lg_mirror_revision(const struct lg_mirror *m, const char *key)
{
	const struct lg_mirror_entry *entry = find(m, key);

	return entry && !entry->is_deleted ? entry->revision : 0;
}

int lg_mirror_get(const struct lg_mirror *m, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	const struct lg_mirror_entry *entry = find(m, key);

	if (!entry || entry->is_deleted)
		return 1;
	if (entry->len > size)
		return -ENOSPC;
	memcpy(buf, entry->value, entry->len);
	*ret_len = entry->len;
	*ret_revision = entry->revision;
	return 0;
}

int lg_mirror_reserve(struct lg_mirror *m, size_t n)
{
	size_t room = m->room ? m->room : 64;
	struct lg_mirror_entry **v;

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

void lg_mirror_put(struct lg_mirror *m, const char *key, struct lg_mirror_entry *entry)
{
	size_t i = position(m, key);

	if (i < m->n && strcmp(m->v[i]->key, key) == 0) {
		lg_mirror_entry_free(m->v[i]);
		m->v[i] = entry;
		if (!entry)
			memmove(&m->v[i], &m->v[i + 1], (--m->n - i) * sizeof(*m->v));
	} else if (entry) {
		memmove(&m->v[i + 1], &m->v[i], (m->n++ - i) * sizeof(*m->v));
		m->v[i] = entry;
	}
}

int lg_mirror_each(const struct lg_mirror *m, const char *prefix, lg_store_fn *fn, void *arg)
{
	size_t len = strlen(prefix);
	int r = 0;

	for (size_t i = position(m, prefix); r == 0 && i < m->n && strncmp(m->v[i]->key, prefix, len) == 0; i++)
		r = m->v[i]->is_deleted ? 0 : fn(arg, m->v[i]->key, m->v[i]->value, m->v[i]->len, m->v[i]->revision);
	return r;
}

int lg_mirror_learn(struct lg_mirror *m, const char *key, const void *value, size_t len, uint64_t revision)
{
	const struct lg_mirror_entry *known = find(m, key);
	struct lg_mirror_entry *entry;
	int r;

	if (!value && known && known->is_deleted && known->revision == revision) {
		lg_mirror_put(m, key, NULL);
		return 0;
	}
	if ((!value && !known) || (known && known->revision >= revision))
		return 0;
	r = lg_mirror_reserve(m, 1);
	if (r == 0)
		r = lg_mirror_entry_new(key, value, value ? len : 0, revision, &entry);
	if (r < 0)
		return r;
	entry->is_deleted = !value;
	lg_mirror_put(m, key, entry);
	return 1;
}
