// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Grows the table in one piece of memory, so that places in it stay right while it is moved. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rules/request_table.h"

struct builder {
	char *mem; /* the table */
	size_t len, room;
	int error; /* -ENOMEM: all that follows does nothing */
	const struct lg_rules *rules;
	const struct lg_ruleset *set;
	const struct lg_rule_name *names;
	uint64_t hash_seed;
	uint32_t scratch; /* place of what could not be made */
};

static void *at(struct builder *b, uint32_t place)
{
	return b->mem + place;
}

static struct lg_request_table *table_of(struct builder *b)
{
	return at(b, 0);
}

/* Zeroed, at a multiple of 8. Places are valid, pointers only until the next one. */
static uint32_t add(struct builder *b, size_t len)
{
	size_t begin = (b->len + 7) & ~(size_t)7, need = begin + len, room = b->room ? b->room : 65536;
	char *mem;

	while (room < need)
		room *= 2;
	if (!b->error && room > b->room) {
		mem = need > UINT32_MAX / 2 ? NULL : realloc(b->mem, room);
		if (mem) {
			memset(mem + b->room, 0, room - b->room);
			b->mem = mem;
			b->room = room;
		} else {
			b->error = -ENOMEM;
		}
	}
	if (b->error)
		return b->scratch;
	b->len = need;
	return (uint32_t)begin;
}

static uint32_t text_add(struct builder *b, const void *text, size_t len)
{
	uint32_t place = add(b, len + 1);

	if (!b->error)
		memcpy(at(b, place), text, len);
	return place;
}

/* Of several entries of one text the one added last is found first. */
static void name_add(struct builder *b, uint32_t scope, enum lg_request_name kind, const void *text, size_t len, uint32_t value)
{
	uint32_t place = add(b, sizeof(struct lg_request_entry)), copy = text_add(b, text, len);
	struct lg_request_entry *e = at(b, place);
	uint32_t *head;

	if (b->error)
		return;
	*e = (struct lg_request_entry){ .hash = lg_request_hash(scope, kind, text, len), .scope = scope, .kind = kind, .text = copy,
					.len = (uint32_t)len, .value = value };
	head = (uint32_t *)at(b, table_of(b)->heads) + (e->hash & (table_of(b)->n_heads - 1));
	e->next = *head;
	*head = place;
}

static uint32_t name_find(struct builder *b, uint32_t scope, enum lg_request_name kind, const void *text, size_t len)
{
	const struct lg_request_entry *e = b->error ? NULL : lg_request_look(table_of(b), scope, kind, text, len, NULL);

	return e ? e->value : UINT32_MAX;
}

/* ---- trees ---- */

/* A rule that is to be put into a tree. */
struct leaf {
	const struct lg_request_match *match;
	uint32_t number;
};

static bool is_same_matcher(const struct lg_entry_match *a, const struct lg_entry_match *b)
{
	if (a->n != b->n || a->is_one != b->is_one)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->values[i], b->values[i]) != 0)
			return false;
	return true;
}

/* A way to take a value, with the node behind it. */
struct way {
	const char *text;
	size_t literal; /* bytes that are no `*` */
	bool is_prefix; /* one `*`, at its end */
	bool is_pattern;
	bool is_one;
	uint32_t node;
};

static struct way way_of(const char *text, bool is_one, uint32_t node)
{
	size_t len = strlen(text), stars = 0;

	for (size_t i = 0; i < len; i++)
		stars += text[i] == '*';
	return (struct way){ .text = text, .literal = len - stars, .is_prefix = stars == 1 && text[len - 1] == '*', .is_pattern = stars > 0,
			     .is_one = is_one, .node = node };
}

/* What is to be found first comes last: values of lists before single ones, short prefixes before long ones. */
static int way_compare(const void *pa, const void *pb)
{
	const struct way *a = pa, *b = pb;

	if (a->is_pattern != b->is_pattern)
		return a->is_pattern ? -1 : 1;
	if (a->literal != b->literal)
		return a->literal < b->literal ? -1 : 1;
	return (int)a->is_one - (int)b->is_one;
}

static void prefixes_add(struct builder *b, uint32_t node, const struct way *ways, size_t n)
{
	uint32_t place = add(b, (n + 1) * sizeof(uint32_t)), count = 0;
	uint32_t *lens;

	for (size_t i = n; i-- > 0 && !b->error;) {
		lens = at(b, place);
		if (ways[i].is_prefix && (!count || lens[count - 1] != ways[i].literal))
			lens[count++] = (uint32_t)ways[i].literal;
	}
	for (size_t i = 0; i < n; i++)
		if (ways[i].is_prefix)
			name_add(b, node, LG_NAME_PREFIX, ways[i].text, ways[i].literal, ways[i].node);
	if (b->error)
		return;
	((struct lg_request_node *)at(b, node))->prefixes = place;
	((struct lg_request_node *)at(b, node))->n_prefixes = count;
}

static void patterns_add(struct builder *b, uint32_t node, const struct way *ways, size_t n)
{
	uint32_t place = add(b, (n + 1) * sizeof(struct lg_request_pattern)), count = 0, text;

	for (size_t i = n; i-- > 0;) {
		if (!ways[i].is_pattern || ways[i].is_prefix)
			continue;
		text = text_add(b, ways[i].text, strlen(ways[i].text));
		if (!b->error)
			((struct lg_request_pattern *)at(b, place))[count++] = (struct lg_request_pattern){ text, ways[i].node };
	}
	if (b->error)
		return;
	((struct lg_request_node *)at(b, node))->patterns = place;
	((struct lg_request_node *)at(b, node))->n_patterns = count;
}

static void ways_add(struct builder *b, uint32_t node, struct way *ways, size_t n)
{
	qsort(ways, n, sizeof(*ways), way_compare);
	for (size_t i = 0; i < n; i++)
		if (!ways[i].is_pattern)
			name_add(b, node, LG_NAME_VALUE, ways[i].text, strlen(ways[i].text), ways[i].node);
	prefixes_add(b, node, ways, n);
	patterns_add(b, node, ways, n);
}

static uint32_t tree_add(struct builder *b, const struct leaf *leaves, size_t n, uint32_t level);

/* All leaves that take the same values at this level go on together. Returns how many ways lead there. */
static size_t children_add(struct builder *b, uint32_t node, const struct leaf *leaves, size_t n, uint32_t level, struct way *ways)
{
	_cleanup_free_ struct leaf *same = calloc(n, sizeof(*same));
	_cleanup_free_ bool *done = calloc(n, sizeof(*done));
	size_t n_ways = 0, n_same;
	uint32_t child;

	if (!same || !done) {
		b->error = -ENOMEM;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		const struct lg_entry_match *m = &leaves[i].match->v[level];

		if (done[i])
			continue;
		n_same = 0;
		for (size_t j = i; j < n; j++) {
			if (!is_same_matcher(m, &leaves[j].match->v[level]))
				continue;
			done[j] = true;
			same[n_same++] = leaves[j];
		}
		child = tree_add(b, same, n_same, level + 1);
		if (!m->n && !b->error)
			((struct lg_request_node *)at(b, node))->any = child;
		for (size_t k = 0; k < m->n; k++)
			ways[n_ways++] = way_of(m->values[k], m->is_one, child);
	}
	return n_ways;
}

static uint32_t tree_add(struct builder *b, const struct leaf *leaves, size_t n, uint32_t level)
{
	uint32_t node = add(b, sizeof(struct lg_request_node));
	_cleanup_free_ struct way *ways = NULL;
	size_t room = 1, n_ways;
	uint32_t *next;

	if (b->error)
		return node;
	if (level == leaves[0].match->n) {
		next = at(b, table_of(b)->next_rule);
		for (size_t i = n; i-- > 0;) {
			next[leaves[i].number] = ((struct lg_request_node *)at(b, node))->first_rule;
			((struct lg_request_node *)at(b, node))->first_rule = leaves[i].number + 1;
		}
		return node;
	}
	for (size_t i = 0; i < n; i++)
		room += leaves[i].match->v[level].n;
	ways = calloc(room, sizeof(*ways));
	if (!ways) {
		b->error = -ENOMEM;
		return node;
	}
	n_ways = children_add(b, node, leaves, n, level, ways);
	ways_add(b, node, ways, n_ways);
	return node;
}

/* ---- groups and domains ---- */

static bool is_same_group(const struct lg_request_match *a, const struct lg_request_match *b)
{
	if (strcmp(a->domain, b->domain) != 0 || a->is_path != b->is_path || a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i].key, b->v[i].key) != 0)
			return false;
	return true;
}

static uint32_t domain_get(struct builder *b, const char *name)
{
	uint32_t place = name_find(b, 0, LG_NAME_DOMAIN, name, strlen(name));

	if (place != UINT32_MAX)
		return place;
	place = add(b, sizeof(struct lg_request_domain));
	name_add(b, 0, LG_NAME_DOMAIN, name, strlen(name), place);
	place = name_find(b, 0, LG_NAME_DOMAIN, name, strlen(name));
	return place == UINT32_MAX ? b->scratch : place;
}

/* The number of an entry's key in its domain: they count up. */
static uint32_t key_get(struct builder *b, uint32_t domain, const char *key, uint32_t *n_keys)
{
	uint32_t number = name_find(b, domain, LG_NAME_KEY, key, strlen(key));

	if (number != UINT32_MAX)
		return number;
	name_add(b, domain, LG_NAME_KEY, key, strlen(key), *n_keys);
	return (*n_keys)++;
}

static void path_add(struct builder *b, uint32_t domain, const struct lg_request_match *m, uint32_t group)
{
	uint8_t path[LG_RULE_ENTRIES_MAX * LG_ENTRY_KEY_LEN];
	size_t len = 0;

	for (size_t i = 0; i < m->n; i++) {
		size_t n = strlen(m->v[i].key);

		path[len++] = (uint8_t)n;
		memcpy(path + len, m->v[i].key, n);
		len += n;
	}
	name_add(b, domain, LG_NAME_PATH, path, len, group);
}

/* One more group of a domain: its list is made anew, which a few hundred groups at most can bear. */
static void group_list(struct builder *b, uint32_t domain, uint32_t group)
{
	struct lg_request_domain *d = at(b, domain);
	uint32_t n = d->n_groups, list = add(b, (n + 1) * sizeof(uint32_t));

	if (b->error)
		return;
	d = at(b, domain);
	if (n)
		memcpy(at(b, list), at(b, d->groups), n * sizeof(uint32_t));
	((uint32_t *)at(b, list))[n] = group;
	d->groups = list;
	d->n_groups = n + 1;
}

static void group_add(struct builder *b, const struct leaf *leaves, size_t n, uint32_t *n_keys)
{
	const struct lg_request_match *m = leaves[0].match;
	uint32_t domain = domain_get(b, m->domain), place = add(b, sizeof(struct lg_request_group)), root = tree_add(b, leaves, n, 0);
	struct lg_request_group group = { .n = (uint32_t)m->n, .root = root };

	for (size_t i = 0; i < m->n && !m->is_path; i++) {
		group.keys[i] = key_get(b, domain, m->v[i].key, n_keys);
		group.mask |= 1ull << group.keys[i] % 64;
	}
	if (b->error)
		return;
	*(struct lg_request_group *)at(b, place) = group;
	if (m->is_path)
		path_add(b, domain, m, place);
	else
		group_list(b, domain, place);
}

static void groups_add(struct builder *b, const struct leaf *leaves, size_t n)
{
	bool done[LG_RULES_MAX] = { false };
	struct leaf same[LG_RULES_MAX];
	uint32_t n_keys = 0;
	size_t n_same;

	for (size_t i = 0; i < n && !b->error; i++) {
		if (done[i])
			continue;
		n_same = 0;
		for (size_t j = i; j < n; j++) {
			if (!is_same_group(leaves[i].match, leaves[j].match))
				continue;
			done[j] = true;
			same[n_same++] = leaves[j];
		}
		group_add(b, same, n_same, &n_keys);
	}
}

/* ---- rules ---- */

static const struct lg_rule_def *def_find(const struct builder *b, uint32_t rule_id)
{
	const char *name = b->names[rule_id].name;

	for (size_t i = 0; i < b->rules->n; i++)
		if (strcmp(b->rules->v[i].name, name) == 0)
			return &b->rules->v[i];
	return NULL;
}

static void rule_fill(const struct builder *b, const struct lg_rule_def *def, uint32_t index, struct lg_request_rule *r)
{
	const struct lg_request_match *m = def->match.requests;
	const struct lg_rule *rule = &b->set->rules[index];

	*r = (struct lg_request_rule){ .rule = *rule, .index = index, .is_sync = def->class == LG_CLASS_SYNC, .is_shadow = def->shadow,
				       .is_soft = def->action == LG_ACTION_SOFT, .n_texts = (uint8_t)m->n_texts,
				       .has_address = m->address >= 0 };
	snprintf(r->name, sizeof(r->name), "%s", def->name);
	snprintf(r->domain, sizeof(r->domain), "%s", m->domain);
	for (size_t i = 0; i < m->n_texts; i++) {
		r->text_places[i] = m->texts[i];
		snprintf(r->text_keys[i], sizeof(r->text_keys[i]), "%s", m->v[m->texts[i]].key);
	}
	if (m->address >= 0) {
		r->address_place = (uint8_t)m->address;
		snprintf(r->address_key, sizeof(r->address_key), "%s", m->v[m->address].key);
	}
	r->hash_key[0] = rule->hash_seed[0];
	r->hash_key[1] = def->is_secret || def->scope == LG_SCOPE_GLOBAL ? rule->hash_seed[1] : b->hash_seed;
}

/* Most specific first, as the kernel's set has them. */
static void rules_add(struct builder *b)
{
	struct leaf leaves[LG_RULES_MAX];
	uint32_t n = 0, place;

	place = add(b, (size_t)b->set->n_rules * sizeof(struct lg_request_rule));
	if (b->error)
		return;
	table_of(b)->rules = place;
	for (uint32_t i = 0; i < b->set->n_rules; i++) {
		const struct lg_rule_def *def = def_find(b, b->set->rules[i].rule_id);

		if (!def || !def->match.requests)
			continue;
		rule_fill(b, def, i, (struct lg_request_rule *)at(b, place) + n);
		leaves[n] = (struct leaf){ def->match.requests, n };
		n++;
	}
	table_of(b)->n_rules = n;
	place = add(b, (n + 1) * sizeof(uint32_t));
	if (b->error)
		return;
	table_of(b)->next_rule = place;
	for (uint32_t i = 0; i < n; i++) {
		const struct lg_request_rule *r = (const struct lg_request_rule *)at(b, table_of(b)->rules) + i;
		char name[LG_NAME_LEN];

		snprintf(name, sizeof(name), "%s", r->name);
		name_add(b, 0, LG_NAME_RULE, name, strlen(name), i);
	}
	groups_add(b, leaves, n);
}

/* Enough heads that a chain has one entry or two. */
static uint32_t heads_wanted(const struct lg_rules *rules)
{
	size_t n = 64, heads = 64;

	for (size_t i = 0; i < rules->n; i++) {
		const struct lg_request_match *m = rules->v[i].match.requests;

		n += m ? 4 + m->n : 0;
		for (size_t k = 0; m && k < m->n; k++)
			n += m->v[k].n;
	}
	while (heads < n)
		heads *= 2;
	return (uint32_t)heads;
}

int lg_requests_build(const struct lg_rules *rules, const struct lg_ruleset *set, const struct lg_rule_name *names, uint64_t hash_seed,
		      struct lg_request_table **ret_table)
{
	struct builder b = { .rules = rules, .set = set, .names = names, .hash_seed = hash_seed };
	uint32_t n_heads = heads_wanted(rules), heads;

	add(&b, sizeof(struct lg_request_table));
	heads = add(&b, n_heads * sizeof(uint32_t));
	if (!b.error) {
		table_of(&b)->heads = heads;
		table_of(&b)->n_heads = n_heads;
		rules_add(&b);
	}
	if (b.error) {
		free(b.mem);
		return b.error;
	}
	table_of(&b)->magic = LG_REQUESTS_MAGIC;
	table_of(&b)->abi_version = LG_ABI_VERSION;
	table_of(&b)->len_bytes = b.len;
	*ret_table = table_of(&b);
	return 0;
}
