// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/reader.h"
#include "rules/request.h"

/* By family and address, wider ones first: a prefix stands behind all that it lies in. */
static int prefix_compare(const void *a, const void *b)
{
	const struct lg_prefix *x = a, *y = b;
	int order;

	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	order = memcmp(x->addr, y->addr, sizeof(x->addr));
	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static bool lies_in(const struct lg_prefix *inner, const struct lg_prefix *outer)
{
	uint8_t addr[16];

	if (inner->family != outer->family || inner->len < outer->len)
		return false;
	memcpy(addr, inner->addr, sizeof(addr));
	lg_addr_mask(addr, outer->len + (outer->family == 4 ? 96u : 0u));
	return memcmp(addr, outer->addr, sizeof(addr)) == 0;
}

/* Sorted, and without what lies in another: the same addresses are then the same list. */
static size_t prefixes_merge(struct lg_prefix *v, size_t n)
{
	size_t kept = 0;

	qsort(v, n, sizeof(*v), prefix_compare);
	for (size_t i = 0; i < n; i++)
		if (!kept || !lies_in(&v[i], &v[kept - 1]))
			v[kept++] = v[i];
	return kept;
}

static int prefixes_read(const struct lg_node *list, struct lg_prefix_set *set, struct lg_complaint *c)
{
	const struct lg_field *field = &lg_rules_fields[LG_RF_SET_PREFIXES];
	struct lg_complaint why = { 0 };

	set->v = calloc(list->n, sizeof(*set->v));
	if (!set->v)
		return -ENOMEM;
	for (const struct lg_node *item = list->child; item; item = item->next) {
		struct lg_prefix *prefix = &set->v[set->n++];

		if (item->kind != LG_NODE_SCALAR)
			return lg_field_complain(field, item, c, "expected a prefix such as 192.0.2.0/24 in the list");
		if (lg_prefix_parse(item->text, prefix->addr, &prefix->family, &prefix->len, &why) < 0)
			return lg_field_complain(field, item, c, "%s", why.text);
	}
	set->n = prefixes_merge(set->v, set->n);
	return 0;
}

static int set_read(const struct lg_node *node, struct lg_rules *rules, struct lg_complaint *c)
{
	struct lg_prefix_set *set = &rules->sets[rules->n_sets];
	struct lg_field_at at[_LG_RF_N];
	int r;

	if (node->kind != LG_NODE_MAP)
		return lg_node_complain(node, c, "a set is a mapping of keys to values, beginning with `- name:`");
	r = lg_fields_collect(lg_rules_fields, _LG_RF_N, "sets[]", LG_FIELD_BOTH, node, at, c);
	if (r < 0)
		return r;
	snprintf(set->name, sizeof(set->name), "%s", at[LG_RF_SET_NAME].node->text);
	set->line = node->line;
	for (size_t i = 0; i < rules->n_sets; i++)
		if (strcmp(rules->sets[i].name, set->name) == 0)
			return lg_field_complain(&lg_rules_fields[LG_RF_SET_NAME], at[LG_RF_SET_NAME].node, c,
						 "\"%s\" is the name of the set on line %u too", set->name, rules->sets[i].line);
	rules->n_sets++;
	if (!at[LG_RF_SET_PREFIXES].node == !at[LG_RF_SET_VALUES].node)
		return lg_node_complain(node, c, "set \"%s\": write prefixes, for packets, or values, for requests: one of them", set->name);
	if (at[LG_RF_SET_VALUES].node)
		return lg_values_read(&lg_rules_fields[LG_RF_SET_VALUES], at[LG_RF_SET_VALUES].node, LG_SET_VALUES_MAX, &set->values,
				      &set->n_values, c);
	return prefixes_read(at[LG_RF_SET_PREFIXES].node, set, c);
}

int lg_sets_read(const struct lg_node *list, struct lg_rules *rules, struct lg_complaint *c)
{
	int r = 0;

	if (!list || !list->n)
		return 0;
	rules->sets = calloc(list->n, sizeof(*rules->sets));
	if (!rules->sets)
		return -ENOMEM;
	for (const struct lg_node *node = list->child; r == 0 && node; node = node->next)
		r = set_read(node, rules, c);
	return r;
}
