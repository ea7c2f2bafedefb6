// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "ctl/rules_do.h"
#include "rules/action.h"
#include "rules/compile.h"
#include "rules/words.h"

static const char *key_name(const struct lg_rule *rule, char *buf, size_t len)
{
	struct lg_key_shape shape;

	lg_key_shape_of(rule, &shape);
	lg_key_shape_text(&shape, 0, buf, len);
	return buf;
}

static json_t *counts_json(const struct lg_rule_counts *counts)
{
	json_t *object = json_object();

	for (unsigned reason = 0; reason < _LG_REASON_N; reason++) {
		const struct lg_count *count = &counts->by_reason[reason];

		if (count->packets || count->bytes)
			json_object_set_new(object, lg_ctl_reason_label(reason),
					    json_pack("{s:I, s:I}", "packets", (json_int_t)count->packets, "bytes",
						      (json_int_t)count->bytes));
	}
	return object;
}

/* The daemon knows what class and keys of a global rule stand for; the kernel does not. Borrowed from the reply; NULL. */
static json_t *settings_find(json_t *reply, uint32_t rule_id)
{
	json_t *item;
	size_t i;

	json_array_foreach(json_object_get(reply, "rules"), i, item)
		if (json_integer_value(json_object_get(item, "rule_id")) == rule_id)
			return json_object_get(item, "settings");
	return NULL;
}

/* What the kernel runs; NULL for a global rule, whose algorithm is its home's. */
static const char *algorithm_name(const struct lg_rule *rule)
{
	if (rule->connection > LG_CONNECTION_NEW)
		return "count";
	return rule->flags & LG_RULE_GLOBAL ? NULL : lg_algorithm_name((enum lg_algorithm)rule->algorithm);
}

static const char *unit_name(const struct lg_rule *rule)
{
	switch ((enum lg_rule_connection)rule->connection) {
	case LG_CONNECTION_NEW: return lg_unit_name(LG_UNIT_CONNECTIONS);
	case LG_CONNECTION_OPEN: return lg_unit_name(LG_UNIT_CONCURRENT);
	case LG_CONNECTION_HALF_OPEN: return lg_unit_name(LG_UNIT_HALF_OPEN);
	case LG_CONNECTION_NONE: break;
	}
	return lg_unit_name(rule->flags & LG_RULE_BYTES ? LG_UNIT_BYTES : LG_UNIT_PACKETS);
}

static json_t *rule_json(const struct lg_rule *rule, const char *name, const char *match, const struct lg_rule_counts *counts,
			 json_t *settings)
{
	bool bytes = rule->flags & LG_RULE_BYTES;
	char key[LG_KEY_TEXT_LEN], limit[LG_LIMIT_TEXT_LEN], action[LG_ACTION_TEXT_LEN];

	lg_action_text((enum lg_action)rule->action, rule->action_value, action, sizeof(action));
	lg_limit_format(rule->rate_tok, rule->per_ns, bytes ? LG_UNIT_BYTES : LG_UNIT_PACKETS, limit, sizeof(limit));
	return json_pack("{s:s, s:i, s:s, s:b, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s?, s:s, s:s, s:o, s:O?}", "rule", name, "rule_id",
			 (int)rule->rule_id, "scope", rule->flags & LG_RULE_GLOBAL ? "global" : "host", "shadow",
			 (rule->flags & LG_RULE_SHADOW) != 0, "action", action, "unit", unit_name(rule), "limit", limit, "rate_tok",
			 (json_int_t)rule->rate_tok, "per_ns", (json_int_t)rule->per_ns, "burst_tok",
			 (json_int_t)rule->burst_tok, "cost", (json_int_t)rule->cost, "algorithm", algorithm_name(rule), "key",
			 key_name(rule, key, sizeof(key)), "match", match, "counts",
			 counts_json(counts), "settings", settings);
}

static unsigned long long counts_sum(const struct lg_rule_counts *counts, bool drop)
{
	static const bool drops[_LG_REASON_N] = {
#define PASS false
#define DROP true
#define LG_REASON(id, name, label, verdict, help) [id] = verdict,
#include "leasegate/reason.def"
#undef LG_REASON
#undef PASS
#undef DROP
	};
	unsigned long long sum = 0;

	for (unsigned reason = 0; reason < _LG_REASON_N; reason++)
		if (drops[reason] == drop && reason != LG_PASS_SHADOW)
			sum += counts->by_reason[reason].packets;
	return sum;
}

static void rule_print(const struct lg_rule *rule, const char *name, const char *match, const struct lg_rule_counts *counts,
		       const json_t *settings)
{
	char key[LG_KEY_TEXT_LEN], limit[LG_LIMIT_TEXT_LEN], action[LG_ACTION_TEXT_LEN];

	lg_limit_format(rule->rate_tok, rule->per_ns, rule->flags & LG_RULE_BYTES ? LG_UNIT_BYTES : LG_UNIT_PACKETS, limit,
			sizeof(limit));
	printf("%3u  %-20s %-6s %-16s passed %llu, denied %llu, would deny %llu packets%s\n", rule->rule_id,
	       name, rule->flags & LG_RULE_GLOBAL ? "global" : "host", limit, counts_sum(counts, false),
	       counts_sum(counts, true), (unsigned long long)counts->by_reason[LG_PASS_SHADOW].packets,
	       rule->flags & LG_RULE_SHADOW ? " (shadow)" : "");
	printf("     matches %s; key: %s", match, key_name(rule, key, sizeof(key)));
	if (rule->connection)
		printf("; counts %s", unit_name(rule));
	if (rule->algorithm)
		printf("; %s", algorithm_name(rule));
	if (rule->cost > 1)
		printf("; cost %u", rule->cost);
	if (rule->action) {
		lg_action_text((enum lg_action)rule->action, rule->action_value, action, sizeof(action));
		printf("; action %s", action);
	}
	printf("\n");
	if (settings)
		printf("     class %s: kind %s, owner %s, fallback %s, at most %lld lent, reports each %gms\n",
		       json_string_value(json_object_get(settings, "class")), json_string_value(json_object_get(settings, "kind")),
		       json_is_true(json_object_get(settings, "owner")) ? "on" : "off",
		       json_string_value(json_object_get(settings, "fallback")),
		       (long long)json_integer_value(json_object_get(settings, "max_outstanding_tok")),
		       json_number_value(json_object_get(settings, "region_period_ms")));
}

/* The kernel has bits of them, a running node their names. */
static void exemptions_print(const json_t *list)
{
	const json_t *e;
	size_t i;

	json_array_foreach(list, i, e)
		printf("  -  %-20s exempt: %s (%s)\n", json_string_value(json_object_get(e, "name")),
		       json_string_value(json_object_get(e, "match")),
		       strcmp(json_string_value(json_object_get(e, "by")), "node") == 0 ? "the node's own, within bounds" : "rules file");
}

static int in_force(const struct lg_ctl *ctl)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_rule_counts counts;
	static struct lg_ruleset set;
	struct lg_complaint c = { 0 };
	json_t *list, *reply = NULL, *settings;
	char buf[LG_NAME_LEN];
	int r;

	r = lg_ctl_pins(ctl, &kern);
	if (r)
		return r;
	r = lg_kern_rules_read(kern, &set, names);
	if (r < 0)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "cannot read the rules in the kernel: %s", strerror(-r));
	/* Without a daemon the rules are in force as well: only their settings are not told then. */
	if (lg_ctl_ask(ctl, "node", "rules", &reply, &c) != 0)
		reply = NULL;
	list = json_array();
	for (uint32_t i = 0; i < set.n_rules && i < LG_RULES_MAX; i++) {
		const struct lg_rule *rule = &set.rules[i];
		const char *name = lg_ctl_rule_name(names, rule->rule_id, buf, sizeof(buf));
		const char *match = rule->rule_id <= LG_RULES_MAX ? names[rule->rule_id].match : "?";

		memset(&counts, 0, sizeof(counts));
		lg_kern_rule_counts_read(kern, rule->rule_id, &counts);
		settings = settings_find(reply, rule->rule_id);
		if (ctl->json)
			json_array_append_new(list, rule_json(rule, name, match, &counts, settings));
		else
			rule_print(rule, name, match, &counts, settings);
	}
	if (!ctl->json)
		exemptions_print(json_object_get(reply, "exemptions"));
	json_decref(reply);
	if (ctl->json)
		return lg_ctl_print(list);
	json_decref(list);
	if (!set.n_rules)
		printf("no rules in force\n");
	return LG_CTL_OK;
}

int lg_ctl_rules(const struct lg_ctl *ctl, int argc, char **argv)
{
	return argc > 1 ? lg_ctl_rules_do(ctl, argc - 1, argv + 1) : in_force(ctl);
}
