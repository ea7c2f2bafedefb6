// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "rules/request_table.h"

#define ENTRIES_MAX 16
#define PATH_BYTES_MAX (ENTRIES_MAX * LG_ENTRY_KEY_LEN)

uint64_t lg_request_hash(uint32_t scope, uint32_t kind, const void *text, size_t len)
{
	return XXH3_64bits_withSeed(text, len, (uint64_t)scope << 8 | kind);
}

const struct lg_request_entry *lg_request_look(const struct lg_request_table *t, uint32_t scope, uint32_t kind, const void *text, size_t len,
					       const struct lg_request_entry *from)
{
	const uint32_t *heads = lg_request_at(t, t->heads);
	uint64_t hash = from ? from->hash : lg_request_hash(scope, kind, text, len);
	uint32_t at = from ? from->next : heads[hash & (t->n_heads - 1)];
	const struct lg_request_entry *e;

	for (; at; at = e->next) {
		e = lg_request_at(t, at);
		if (e->hash == hash && e->scope == scope && e->kind == kind && e->len == len &&
		    memcmp(lg_request_at(t, e->text), text, len) == 0)
			return e;
	}
	return NULL;
}

size_t lg_requests_bytes(const struct lg_request_table *table)
{
	return table->len_bytes;
}

bool lg_requests_check(const struct lg_request_table *table, size_t len)
{
	return len >= sizeof(*table) && table->magic == LG_REQUESTS_MAGIC && table->abi_version == LG_ABI_VERSION && table->len_bytes == len;
}

uint32_t lg_requests_count(const struct lg_request_table *table)
{
	return table->n_rules;
}

const struct lg_request_rule *lg_requests_rule(const struct lg_request_table *table, uint32_t rule)
{
	return (const struct lg_request_rule *)lg_request_at(table, table->rules) + rule;
}

int lg_requests_named(const struct lg_request_table *table, struct lg_slice name)
{
	const struct lg_request_entry *e = lg_request_look(table, 0, LG_NAME_RULE, name.s, name.len, NULL);

	return e ? (int)e->value : -ENOENT;
}

/* ---- down a tree ---- */

/* A descriptor on its way: the value that each level of the group looks at. */
struct walk {
	const struct lg_request_table *t;
	const struct lg_slice *values;
	uint32_t n;
	uint8_t place[LG_RULE_ENTRIES_MAX]; /* of each level's entry in the descriptor */
};

/* The node at which the most specific rules end, or 0. No node is come by twice. */
static uint32_t walk(const struct walk *w, uint32_t at, uint32_t level)
{
	const struct lg_request_node *node = lg_request_at(w->t, at);
	const struct lg_request_pattern *patterns = lg_request_at(w->t, node->patterns);
	const uint32_t *prefixes = lg_request_at(w->t, node->prefixes);
	const struct lg_request_entry *e = NULL;
	struct lg_slice value;
	uint32_t found = 0;

	if (level == w->n)
		return node->first_rule ? at : 0;
	value = w->values[w->place[level]];
	while (!found && (e = lg_request_look(w->t, at, LG_NAME_VALUE, value.s, value.len, e)))
		found = walk(w, e->value, level + 1);
	for (uint32_t i = 0; !found && i < node->n_prefixes; i++) {
		e = NULL;
		while (!found && prefixes[i] <= value.len && (e = lg_request_look(w->t, at, LG_NAME_PREFIX, value.s, prefixes[i], e)))
			found = walk(w, e->value, level + 1);
	}
	for (uint32_t i = 0; !found && i < node->n_patterns; i++)
		if (lg_value_matches(lg_request_at(w->t, patterns[i].text), value.s, value.len))
			found = walk(w, patterns[i].node, level + 1);
	return found || !node->any ? found : walk(w, node->any, level + 1);
}

/* ---- what was found ---- */

struct hits {
	struct lg_request_hit *v;
	uint32_t n, max;
};

/* All rules that end at a node. */
static int hits_add(struct hits *hits, const struct walk *w, uint32_t at)
{
	const struct lg_request_node *node = lg_request_at(w->t, at);
	const uint32_t *next = lg_request_at(w->t, w->t->next_rule);
	struct lg_slice texts[LG_RULE_ENTRIES_MAX], address = { "", 0 };

	for (uint32_t number = node->first_rule; number; number = next[number - 1]) {
		const struct lg_request_rule *rule = lg_requests_rule(w->t, number - 1);

		if (hits->n == hits->max)
			return -E2BIG;
		for (uint32_t i = 0; i < rule->n_texts; i++)
			texts[i] = w->values[w->place[rule->text_places[i]]];
		if (rule->has_address)
			address = w->values[w->place[rule->address_place]];
		hits->v[hits->n].rule = number - 1;
		lg_request_key_make(rule, texts, address, &hits->v[hits->n++]);
	}
	return 0;
}

/* The group whose keys are those of the descriptor, in this order. */
static int path_find(struct walk *w, uint32_t domain, const struct lg_slice *keys, uint32_t n, struct hits *hits)
{
	const struct lg_request_entry *e;
	uint8_t path[PATH_BYTES_MAX];
	size_t len = 0;
	uint32_t at;

	if (n > LG_RULE_ENTRIES_MAX)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		path[len++] = (uint8_t)keys[i].len;
		memcpy(path + len, keys[i].s, keys[i].len);
		len += keys[i].len;
		w->place[i] = (uint8_t)i;
	}
	e = lg_request_look(w->t, domain, LG_NAME_PATH, path, len, NULL);
	if (!e)
		return 0;
	w->n = n;
	at = walk(w, ((const struct lg_request_group *)lg_request_at(w->t, e->value))->root, 0);
	return at ? hits_add(hits, w, at) : 0;
}

/* Whether a descriptor has all entries of a group, and where. */
static bool group_fits(struct walk *w, const struct lg_request_group *group, const uint32_t *numbers, uint32_t n)
{
	uint32_t i;

	for (uint32_t level = 0; level < group->n; level++) {
		for (i = 0; i < n && numbers[i] != group->keys[level]; i++)
			continue;
		if (i == n)
			return false;
		w->place[level] = (uint8_t)i;
	}
	w->n = group->n;
	return true;
}

static int groups_find(struct walk *w, uint32_t domain, const struct lg_slice *keys, uint32_t n, struct hits *hits)
{
	const struct lg_request_domain *d = lg_request_at(w->t, domain);
	const uint32_t *groups = lg_request_at(w->t, d->groups);
	const struct lg_request_group *group;
	const struct lg_request_entry *e;
	uint32_t numbers[ENTRIES_MAX], at;
	uint64_t mask = 0;
	int r = 0;

	for (uint32_t i = 0; i < n && d->n_groups; i++) {
		e = lg_request_look(w->t, domain, LG_NAME_KEY, keys[i].s, keys[i].len, NULL);
		numbers[i] = e ? e->value : UINT32_MAX;
		mask |= e ? 1ull << e->value % 64 : 0;
	}
	for (uint32_t i = 0; i < d->n_groups && r == 0; i++) {
		group = lg_request_at(w->t, groups[i]);
		if (group->mask & ~mask || !group_fits(w, group, numbers, n))
			continue;
		at = walk(w, group->root, 0);
		r = at ? hits_add(hits, w, at) : 0;
	}
	return r;
}

int lg_requests_find(const struct lg_request_table *table, struct lg_slice domain, const struct lg_slice *keys, const struct lg_slice *values,
		     uint32_t n, struct lg_request_hit *ret_hits, uint32_t max)
{
	struct walk w = { .t = table, .values = values };
	struct hits hits = { .v = ret_hits, .max = max };
	const struct lg_request_entry *e;
	int r;

	if (n > ENTRIES_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++)
		if (keys[i].len >= LG_ENTRY_KEY_LEN)
			return -EINVAL;
	e = lg_request_look(table, 0, LG_NAME_DOMAIN, domain.s, domain.len, NULL);
	if (!e)
		return 0;
	r = groups_find(&w, e->value, keys, n, &hits);
	if (r == 0)
		r = path_find(&w, e->value, keys, n, &hits);
	return r < 0 ? r : (int)hits.n;
}

static int value_find(const char *key, const struct lg_slice *keys, const struct lg_slice *values, uint32_t n, struct lg_slice *ret)
{
	for (uint32_t i = 0; i < n; i++) {
		if (strlen(key) != keys[i].len || memcmp(key, keys[i].s, keys[i].len) != 0)
			continue;
		*ret = values[i];
		return 0;
	}
	return -ENOENT;
}

int lg_requests_key(const struct lg_request_table *table, uint32_t number, const struct lg_slice *keys, const struct lg_slice *values,
		    uint32_t n, struct lg_request_hit *ret_hit)
{
	const struct lg_request_rule *rule = lg_requests_rule(table, number);
	struct lg_slice texts[LG_RULE_ENTRIES_MAX], address = { "", 0 };
	int r = 0;

	for (uint32_t i = 0; i < rule->n_texts && r == 0; i++)
		r = value_find(rule->text_keys[i], keys, values, n, &texts[i]);
	if (r == 0 && rule->has_address)
		r = value_find(rule->address_key, keys, values, n, &address);
	if (r < 0)
		return r;
	ret_hit->rule = number;
	lg_request_key_make(rule, texts, address, ret_hit);
	return 0;
}
