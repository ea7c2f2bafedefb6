// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What the kernel has against what was asked for: rules, and lists of addresses. */
#include "role/node.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

#define APART_MAX 1000	/* differences that are told */

/* ---- rules ---- */

static void limit_text(const struct lg_rule *rule, char *buf, size_t len)
{
	char limit[LG_LIMIT_TEXT_LEN];

	lg_limit_format(rule->rate_tok, rule->per_ns, rule->flags & LG_RULE_BYTES ? LG_UNIT_BYTES : LG_UNIT_PACKETS, limit, sizeof(limit));
	snprintf(buf, len, "%s, burst %" PRIu64 ", cost %" PRIu32 "%s", limit, (uint64_t)rule->burst_tok, rule->cost,
		 rule->flags & LG_RULE_SHADOW ? ", shadow" : "");
}

static void apart_add(json_t *list, const char *rule, const char *asked, const char *kernel)
{
	json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "rule", rule, "asked", asked, "kernel", kernel));
}

/* What may move by itself is left out: anchors and levels. */
static void rule_compare(json_t *list, const char *name, const struct lg_rule *asked, const struct lg_rule *kernel, const char *asked_match,
			 const char *kernel_match)
{
	char texts[2][LG_LIMIT_TEXT_LEN + 64];

	limit_text(asked, texts[0], sizeof(texts[0]));
	limit_text(kernel, texts[1], sizeof(texts[1]));
	if (strcmp(texts[0], texts[1]) != 0)
		apart_add(list, name, texts[0], texts[1]);
	if (strcmp(asked_match, kernel_match) != 0)
		apart_add(list, name, asked_match, kernel_match);
	if (asked->action != kernel->action || asked->action_value != kernel->action_value || asked->flags != kernel->flags ||
	    asked->algorithm != kernel->algorithm || asked->connection != kernel->connection)
		apart_add(list, name, "its action, algorithm or flags", "others");
}

static json_t *sets_compare(const struct lg_ruleset *asked, const struct lg_rule_name *asked_names, const struct lg_ruleset *kernel,
			    const struct lg_rule_name *kernel_names)
{
	json_t *list = json_array();
	const struct lg_rule *other;

	for (uint32_t i = 0; i < asked->n_rules; i++) {
		const struct lg_rule *rule = &asked->rules[i];
		const struct lg_rule_name *name = &asked_names[rule->rule_id];

		other = lg_ruleset_find(kernel, rule->rule_id);
		if (!other)
			apart_add(list, name->name, "in force", "not there");
		else
			rule_compare(list, name->name, rule, other, name->match, kernel_names[rule->rule_id].match);
	}
	for (uint32_t i = 0; i < kernel->n_rules; i++)
		if (!lg_ruleset_find(asked, kernel->rules[i].rule_id))
			apart_add(list, kernel_names[kernel->rules[i].rule_id].name, "not there", "in force");
	return list;
}

/* ---- lists ---- */

struct entry {
	struct lg_list_key key;
	uint8_t verdict;
};

static int entry_order(const void *a, const void *b)
{
	return memcmp(&((const struct entry *)a)->key, &((const struct entry *)b)->key, sizeof(struct lg_list_key));
}

static const char *verdict_text(const struct entry *e)
{
	return !e ? "nothing" : e->verdict == LG_LIST_ALLOW ? "allow" : "deny";
}

static void entry_apart(json_t *list, const struct lg_list_key *key, const struct entry *asked, const struct entry *kernel)
{
	char prefix[LG_IP_TEXT_LEN], text[LG_IP_TEXT_LEN + 16];
	struct lg_prefix p;

	lg_list_prefix_of(key, &p);
	lg_prefix_format(p.addr, p.family, p.len, prefix, sizeof(prefix));
	snprintf(text, sizeof(text), "list entry %s", prefix);
	apart_add(list, text, verdict_text(asked), verdict_text(kernel));
}

/* Both sorted. */
static void entries_compare(json_t *list, const struct entry *asked, size_t n_asked, const struct entry *kernel, size_t n_kernel)
{
	size_t i = 0, k = 0;

	while ((i < n_asked || k < n_kernel) && json_array_size(list) < APART_MAX) {
		int order = i == n_asked ? 1 : k == n_kernel ? -1 : entry_order(&asked[i], &kernel[k]);

		if (order < 0)
			entry_apart(list, &asked[i].key, &asked[i], NULL);
		else if (order > 0)
			entry_apart(list, &kernel[k].key, NULL, &kernel[k]);
		else if (asked[i].verdict != kernel[k].verdict)
			entry_apart(list, &asked[i].key, &asked[i], &kernel[k]);
		i += order <= 0;
		k += order >= 0;
	}
}

/* What rules say of addresses; the operator's own entries are nobody's to ask for. */
static int lists_compare(struct lg_node *n, const struct lg_rules *rules, json_t *list)
{
	_cleanup_free_ struct entry *asked = calloc(rules->n_listed + 1, sizeof(*asked));
	_cleanup_free_ struct lg_list_row *rows = NULL;
	_cleanup_free_ struct entry *kernel = NULL;
	size_t n_rows = 0, n_kernel = 0;
	int r;

	r = asked ? lg_kern_lists_read(n->kern, &rows, &n_rows) : -ENOMEM;
	kernel = r < 0 ? NULL : calloc(n_rows + 1, sizeof(*kernel));
	if (!kernel)
		return r < 0 ? r : -ENOMEM;
	for (size_t i = 0; i < rules->n_listed; i++)
		asked[i] = (struct entry){ lg_list_key_of(&rules->listed[i].prefix), rules->listed[i].verdict };
	for (size_t i = 0; i < n_rows; i++)
		if (rows[i].entry.of_file)
			kernel[n_kernel++] = (struct entry){ rows[i].key, rows[i].entry.of_file };
	qsort(asked, rules->n_listed, sizeof(*asked), entry_order);
	qsort(kernel, n_kernel, sizeof(*kernel), entry_order);
	entries_compare(list, asked, rules->n_listed, kernel, n_kernel);
	return 0;
}

/* ---- all of it ---- */

json_t *lg_node_rules_diff(struct lg_node *n)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1], kernel_names[LG_RULES_MAX + 1];
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	static struct lg_ruleset set, kernel_set;
	struct lg_complaint c = { 0 };
	char text[1024] = "";
	json_t *list = NULL;
	int r;

	r = lg_node_rules_asked(n, &rules, &c);
	if (r == 0)
		r = lg_node_rules_compile(n, rules, &set, NULL, names, &c);
	if (r == 0 && lg_kern_rules_read(n->kern, &kernel_set, kernel_names) < 0)
		r = lg_complain(&c, "cannot read the rules in the kernel");
	if (r == 0)
		list = sets_compare(&set, names, &kernel_set, kernel_names);
	if (r == 0 && lists_compare(n, rules, list) < 0)
		r = lg_complain(&c, "cannot read the lists in the kernel");
	if (r < 0)
		lg_complaint_format(&c, text, sizeof(text));
	list = list ? list : json_array();
	return json_pack("{s:b, s:s, s:s, s:o, s:o}", "ok", 1, "asked_by", n->config.rules_from_region ? "region" : n->config.rules,
			 "unusable", text, "version", lg_node_rules_json(n), "apart", list);
}
