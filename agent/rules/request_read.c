// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a rule says of requests. Entries are put in one order, and values too, so that the same rule is the same however it was written. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/reader.h"
#include "rules/request.h"

struct lg_request_match *lg_request_match_free(struct lg_request_match *match)
{
	if (!match)
		return NULL;
	for (size_t i = 0; i < match->n; i++)
		if (!match->v[i].set_name[0])
			lg_values_free((char **)(uintptr_t)match->v[i].values, match->v[i].n);
	free(match);
	return NULL;
}

void lg_values_free(char **values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(values[i]);
	free(values);
}

/* ---- values ---- */

bool lg_value_matches(const char *pattern, const char *text, size_t len)
{
	const char *star = NULL, *end = text + len, *again = NULL;

	while (text < end) {
		if (*pattern == '*') {
			star = pattern++;
			again = text;
		} else if (*pattern && *pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++again;
		} else {
			return false;
		}
	}
	return pattern[strspn(pattern, "*")] == '\0';
}

static int text_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int value_check(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c)
{
	if (node->kind != LG_NODE_SCALAR)
		return lg_field_complain(field, node, c, "expected a value such as gold, or a pattern such as \"vip:*\", in the list");
	if (strlen(node->text) >= LG_VALUE_PATTERN_LEN)
		return lg_field_complain(field, node, c, "a value here has at most %d bytes", LG_VALUE_PATTERN_LEN - 1);
	return 0;
}

static int values_copy(const struct lg_field *field, const struct lg_node *first, bool is_list, char **values, size_t *n,
		       struct lg_complaint *c)
{
	int r = 0;

	for (const struct lg_node *p = first; p && r == 0; p = is_list ? p->next : NULL) {
		r = value_check(field, p, c);
		if (r < 0)
			break;
		values[*n] = strdup(p->text);
		r = values[*n] ? 0 : -ENOMEM;
		*n += r == 0;
	}
	return r;
}

/* A list, or a single value. */
static int values_read(const struct lg_field *field, const struct lg_node *node, size_t max, char ***ret_values, size_t *ret_n,
		       struct lg_complaint *c)
{
	bool is_list = node->kind == LG_NODE_LIST;
	size_t room = is_list ? node->n : 1, n = 0, kept = 0;
	char **values;
	int r;

	if (!room || room > max)
		return lg_field_complain(field, node, c, "has %zu values, but 1 to %zu are possible", room, max);
	values = calloc(room, sizeof(*values));
	if (!values)
		return -ENOMEM;
	r = values_copy(field, is_list ? node->child : node, is_list, values, &n, c);
	if (r < 0) {
		lg_values_free(values, n);
		return r;
	}
	qsort(values, n, sizeof(*values), text_compare);
	for (size_t i = 0; i < n; i++) {
		if (kept && strcmp(values[kept - 1], values[i]) == 0)
			free(values[i]);
		else
			values[kept++] = values[i];
	}
	*ret_values = values;
	*ret_n = kept;
	return 0;
}

int lg_values_read(const struct lg_field *field, const struct lg_node *list, size_t max, char ***ret_values, size_t *ret_n,
		   struct lg_complaint *c)
{
	return values_read(field, list, max, ret_values, ret_n, c);
}

/* ---- one entry of a match ---- */

struct entry_reader {
	struct lg_reader *r;
	const struct lg_field *field;
	struct lg_entry_match *entry;
};

static const char *const entry_keys[] = { "key", "value", "value_set" };

static const char *entry_key(const void *arg, size_t i)
{
	(void)arg;
	return entry_keys[i];
}

static const char *set_name(const void *arg, size_t i)
{
	return ((const struct lg_rules *)arg)->sets[i].name;
}

static int set_use(const struct entry_reader *e, const struct lg_node *node)
{
	const struct lg_rules *rules = e->r->rules;
	const char *nearest;

	for (size_t i = 0; i < rules->n_sets; i++) {
		if (strcmp(rules->sets[i].name, node->text) != 0)
			continue;
		if (!rules->sets[i].values)
			return lg_field_complain(e->field, node, e->r->c, "\"%.48s\" (line %u) is a set of prefixes, not of values", node->text,
						 rules->sets[i].line);
		e->entry->n = rules->sets[i].n_values;
		e->entry->values = rules->sets[i].values;
		snprintf(e->entry->set_name, sizeof(e->entry->set_name), "%s", node->text);
		return 0;
	}
	nearest = lg_nearest(node->text, set_name, rules, rules->n_sets);
	if (nearest)
		return lg_field_complain(e->field, node, e->r->c, "there is no set \"%.48s\": did you mean \"%s\"?", node->text, nearest);
	return lg_field_complain(e->field, node, e->r->c, "there is no set \"%.48s\": list it under `sets`", node->text);
}

static int key_use(const struct entry_reader *e, const struct lg_node *node)
{
	if (node->kind != LG_NODE_SCALAR || !*node->text)
		return lg_field_complain(e->field, node, e->r->c, "an entry has a key such as user");
	if (strlen(node->text) >= LG_ENTRY_KEY_LEN)
		return lg_field_complain(e->field, node, e->r->c, "a key has at most %d bytes", LG_ENTRY_KEY_LEN - 1);
	snprintf(e->entry->key, sizeof(e->entry->key), "%s", node->text);
	return 0;
}

static int value_use(const struct entry_reader *e, const struct lg_node *node)
{
	char **values = NULL;
	int r;

	if (node->kind == LG_NODE_MAP)
		return lg_field_complain(e->field, node, e->r->c, "expected a value, or a list of values");
	r = values_read(e->field, node, LG_RULE_VALUES_MAX, &values, &e->entry->n, e->r->c);
	e->entry->values = values;
	e->entry->is_one = node->kind == LG_NODE_SCALAR;
	return r;
}

static int part_read(const struct entry_reader *e, const struct lg_node *node)
{
	char quoted[LG_QUOTE_LEN];
	const char *nearest;

	if (strcmp(node->key, "key") == 0)
		return key_use(e, node);
	if (e->entry->values && (strcmp(node->key, "value") == 0 || strcmp(node->key, "value_set") == 0))
		return lg_field_complain(e->field, node, e->r->c, "value and value_set both say which values: write one of them");
	if (strcmp(node->key, "value") == 0)
		return value_use(e, node);
	if (strcmp(node->key, "value_set") == 0)
		return node->kind == LG_NODE_SCALAR ? set_use(e, node)
						    : lg_field_complain(e->field, node, e->r->c, "expected the name of a set");
	nearest = lg_nearest(node->key, entry_key, NULL, N_ELEMS(entry_keys));
	lg_text_quote(node->key, quoted);
	if (nearest)
		return lg_node_key_complain(node, e->r->c, "unknown key %s: did you mean \"%s\"?", quoted, nearest);
	return lg_node_key_complain(node, e->r->c, "unknown key %s: known here are key, value, value_set", quoted);
}

static int entry_read(const struct entry_reader *e, const struct lg_node *node)
{
	int r = 0;

	if (node->kind == LG_NODE_SCALAR)
		return key_use(e, node);
	if (node->kind != LG_NODE_MAP)
		return lg_field_complain(e->field, node, e->r->c, "an entry is a key such as user, or {key: plan, value: gold}");
	for (const struct lg_node *p = node->child; p && r == 0; p = p->next)
		r = part_read(e, p);
	if (r == 0 && !e->entry->key[0])
		return lg_field_complain(e->field, node, e->r->c, "key is missing: write the key of the entry");
	return r;
}

/* ---- the match ---- */

static int entry_compare(const void *a, const void *b)
{
	return strcmp(((const struct lg_entry_match *)a)->key, ((const struct lg_entry_match *)b)->key);
}

static int entries_read(struct lg_reader *r, enum lg_rules_field id, struct lg_request_match *m)
{
	const struct lg_field *field = &lg_rules_fields[id];
	int err;

	for (const struct lg_node *node = r->at[id].node->child; node; node = node->next) {
		const struct entry_reader e = { r, field, &m->v[m->n++] };

		err = entry_read(&e, node);
		if (err < 0)
			return err;
		for (size_t i = 0; !m->is_path && i + 1 < m->n; i++)
			if (strcmp(m->v[i].key, e.entry->key) == 0)
				return lg_field_complain(field, node, r->c, "\"%s\" is listed twice", e.entry->key);
	}
	if (!m->is_path)
		qsort(m->v, m->n, sizeof(m->v[0]), entry_compare);
	return 0;
}

/* What only packets have. */
static const enum lg_rules_field packet_fields[] = {
	LG_RF_PROTOCOL, LG_RF_SOURCE, LG_RF_DESTINATION, LG_RF_SOURCE_SET, LG_RF_DESTINATION_SET, LG_RF_SOURCE_PORTS, LG_RF_PORTS,
	LG_RF_TCP_FLAGS, LG_RF_ICMP_TYPES, LG_RF_FRAGMENTS, LG_RF_ETHERTYPE, LG_RF_VLANS, LG_RF_INNER_VLANS, LG_RF_DIRECTION,
	LG_RF_MATCH_INTERFACES,
};

static int units_check(struct lg_reader *r, enum lg_rules_field id)
{
	enum lg_unit unit = (enum lg_unit)r->at[LG_RF_UNIT].num;

	if (unit == LG_UNIT_REQUESTS) {
		for (size_t i = 0; i < N_ELEMS(packet_fields); i++)
			if (lg_is_written(r, packet_fields[i]))
				return lg_reader_complain(r, packet_fields[i], "belongs to packets, and the unit is requests");
		return 0;
	}
	if (!r->requests)
		return lg_reader_complain(r, id, "belongs to requests, and this is about packets");
	if (unit != LG_UNIT_PACKETS && unit != LG_UNIT_BYTES)
		return lg_reader_complain(r, id, "belongs to requests, which share a bucket with packets or bytes: the unit is %s",
					  lg_unit_name(unit));
	return 0;
}

int lg_request_match_read(struct lg_reader *r)
{
	const enum lg_rules_field ids[] = { LG_RF_DOMAIN, LG_RF_ENTRIES, LG_RF_DESCRIPTORS };
	bool is_requests = r->at[LG_RF_UNIT].num == LG_UNIT_REQUESTS;
	enum lg_rules_field id = _LG_RF_N;
	struct lg_request_match *m;
	int err;

	for (size_t i = 0; i < N_ELEMS(ids) && id == _LG_RF_N; i++)
		if (lg_is_written(r, ids[i]))
			id = ids[i];
	if (id == _LG_RF_N && !is_requests)
		return 0;
	err = units_check(r, id);
	if (err < 0)
		return err;
	if (!is_requests && id != LG_RF_DOMAIN)
		return lg_reader_complain(r, id, "belongs to requests: write domain beside it, or `unit: requests`");
	if (lg_is_written(r, LG_RF_ENTRIES) && lg_is_written(r, LG_RF_DESCRIPTORS))
		return lg_reader_complain(r, LG_RF_DESCRIPTORS, "and entries both say which entries: write one of them");
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	*r->requests = m;
	r->rule->match.requests = m;
	m->has_packets = !is_requests;
	m->is_path = lg_is_written(r, LG_RF_DESCRIPTORS);
	m->address = -1;
	snprintf(m->domain, sizeof(m->domain), "%s", lg_is_written(r, LG_RF_DOMAIN) ? lg_text_of(r, LG_RF_DOMAIN) : "default");
	if (lg_is_written(r, LG_RF_ENTRIES) || m->is_path)
		return entries_read(r, m->is_path ? LG_RF_DESCRIPTORS : LG_RF_ENTRIES, m);
	return 0;
}

/* ---- the key ---- */

static const char *entry_name(const void *arg, size_t i)
{
	return ((const struct lg_request_match *)arg)->v[i].key;
}

/* The place of an entry in the match, or a complaint. */
static int place_find(struct lg_reader *r, enum lg_rules_field id, const struct lg_node *node)
{
	const struct lg_request_match *m = r->rule->match.requests;
	char quoted[LG_QUOTE_LEN];
	const char *nearest;

	if (node->kind != LG_NODE_SCALAR || !*node->text)
		return lg_field_complain(&lg_rules_fields[id], node, r->c, "expected the key of an entry, such as user");
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->v[i].key, node->text) == 0)
			return (int)i;
	nearest = lg_nearest(node->text, entry_name, m, m->n);
	lg_text_quote(node->text, quoted);
	if (nearest)
		return lg_field_complain(&lg_rules_fields[id], node, r->c, "the match does not ask for %s: did you mean \"%s\"?", quoted,
					 nearest);
	return lg_field_complain(&lg_rules_fields[id], node, r->c, "the match does not ask for %s, so not every request has it: list it there",
				 quoted);
}

static int texts_read(struct lg_reader *r)
{
	struct lg_request_match *m = *r->requests;
	int place;

	for (const struct lg_node *node = r->at[LG_RF_KEY_TEXTS].node->child; node; node = node->next) {
		place = place_find(r, LG_RF_KEY_TEXTS, node);
		if (place < 0)
			return place;
		for (size_t i = 0; i < m->n_texts; i++)
			if (m->texts[i] == place)
				return lg_field_complain(&lg_rules_fields[LG_RF_KEY_TEXTS], node, r->c, "\"%s\" is listed twice", node->text);
		m->texts[m->n_texts++] = (uint8_t)place;
	}
	return 0;
}

static int address_read(struct lg_reader *r)
{
	int place = place_find(r, LG_RF_KEY_ADDRESS, r->at[LG_RF_KEY_ADDRESS].node);

	if (place < 0)
		return place;
	(*r->requests)->address = place;
	return 0;
}

int lg_request_key_read(struct lg_reader *r)
{
	static const enum lg_rules_field foreign[] = { LG_RF_KEY_DESTINATION, LG_RF_KEY_SOURCE_PORT, LG_RF_KEY_DESTINATION_PORT,
						       LG_RF_KEY_PROTOCOL, LG_RF_KEY_VLAN, LG_RF_KEY_INNER_VLAN, LG_RF_KEY_INTERFACE,
						       LG_RF_KEY_CGROUP };
	bool has_texts = lg_is_written(r, LG_RF_KEY_TEXTS), has_address = lg_is_written(r, LG_RF_KEY_ADDRESS);
	struct lg_key_shape *key = &r->rule->key;
	int err;

	for (size_t i = 0; i < N_ELEMS(foreign); i++)
		if (lg_is_written(r, foreign[i]))
			return lg_reader_complain(r, foreign[i], "belongs to packets, and the unit is requests: write descriptors, or address");
	if (lg_is_written(r, LG_RF_KEY_SOURCE) && !has_address)
		return lg_reader_complain(r, LG_RF_KEY_SOURCE, "says how long prefixes are, and no entry is an address: write address, too");
	if (lg_is_written(r, LG_RF_KEY) && !has_texts && !has_address)
		return lg_reader_complain(r, LG_RF_KEY, "names no part: write descriptors, or leave key out for one bucket");
	err = lg_key_source_read(r);
	if (err == 0 && has_texts)
		err = texts_read(r);
	if (err == 0 && has_address)
		err = address_read(r);
	key->n_texts = (uint8_t)(*r->requests)->n_texts;
	key->parts = (has_texts ? LG_KEY_TEXTS : 0) | (has_address ? LG_KEY_SOURCE : 0);
	key->form = lg_key_form(key->parts);
	return err;
}

int lg_request_key_check(struct lg_reader *r)
{
	const struct lg_key_shape *key = &r->rule->key;

	if (lg_is_written(r, LG_RF_KEY_TEXTS))
		return lg_reader_complain(r, LG_RF_KEY_TEXTS, "belongs to `unit: requests`: packets do not have it");
	if (!r->rule->match.requests)
		return lg_is_written(r, LG_RF_KEY_ADDRESS)
			       ? lg_reader_complain(r, LG_RF_KEY_ADDRESS, "belongs to requests: write match.domain, or leave it out")
			       : 0;
	if (key->parts != 0 && key->parts != LG_KEY_SOURCE && key->parts != LG_KEY_DESTINATION)
		return lg_reader_complain(r, LG_RF_KEY,
					  "of a rule that takes requests as well is source, destination, or nothing: requests have no more");
	if (key->parts && !lg_is_written(r, LG_RF_KEY_ADDRESS))
		return lg_reader_complain(r, LG_RF_KEY, "the rule takes requests as well: write address, the entry that has theirs");
	if (!key->parts && lg_is_written(r, LG_RF_KEY_ADDRESS))
		return lg_reader_complain(r, LG_RF_KEY_ADDRESS, "takes the place of source or destination: write one of them beside it");
	return key->parts ? address_read(r) : 0;
}
