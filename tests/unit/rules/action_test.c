// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What may be written as an action, what the kernel is told of it, and where it is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "pace.h"
#include "rules/action.h"
#include "rules/compile.h"
#include "rules/rate.h"
#include "rules/yaml.h"

#define S 1000000000ull

static struct lg_complaint c;

/* One rule, of which that is written; NULL with the complaint in c. */
static struct lg_rules *parse(const char *keys)
{
	struct lg_rules *rules = NULL;
	char text[512];

	memset(&c, 0, sizeof(c));
	snprintf(text, sizeof(text), "rules:\n  - {name: a, %s}\n", keys);
	return lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0 ? NULL : rules;
}

static void each_action_is_read_and_said_again(void **state)
{
	static const struct {
		const char *written;
		enum lg_action action;
		uint32_t value;
		const char *text;
	} rows[] = {
		{ "limit: 5/s", LG_ACTION_DROP, 0, "drop" },
		{ "limit: 5/s, action: drop", LG_ACTION_DROP, 0, "drop" },
		{ "limit: 5/s, action: reset", LG_ACTION_RESET, 0, "reset" },
		{ "limit: 5/s, action: prohibited", LG_ACTION_PROHIBITED, 0, "prohibited" },
		{ "limit: 5/s, match: {direction: egress}, action: pace", LG_ACTION_PACE, 0, "pace" },
		{ "limit: 5/s, action: {mark: 0}", LG_ACTION_MARK, 0, "mark 0x0" },
		{ "limit: 5/s, action: {mark: 0xffffffff}", LG_ACTION_MARK, 0xffffffff, "mark 0xffffffff" },
		{ "limit: 5/s, action: {mark: 4294967295}", LG_ACTION_MARK, 0xffffffff, "mark 0xffffffff" },
		{ "limit: 5/s, action: {priority: 6}", LG_ACTION_PRIORITY, 6, "priority 6" },
		{ "limit: 5/s, action: {priority: 1:1f}", LG_ACTION_PRIORITY, 0x1001f, "priority 1:1f" },
		{ "limit: 5/s, action: {dscp: ef}", LG_ACTION_DSCP, 46, "dscp ef" },
		{ "limit: 5/s, action: {dscp: af41}", LG_ACTION_DSCP, 34, "dscp af41" },
		{ "limit: 5/s, action: {dscp: be}", LG_ACTION_DSCP, 0, "dscp cs0" },
		{ "limit: 5/s, action: {dscp: 63}", LG_ACTION_DSCP, 63, "dscp 63" },
		{ "limit: 5/s, action: {ecn: ce}", LG_ACTION_ECN, 0, "ecn ce" },
	};
	char text[LG_ACTION_TEXT_LEN];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].written);

		if (!rules)
			fail_msg("%s: %s", rows[i].written, c.text);
		assert_int_equal(rules->v[0].action, rows[i].action);
		assert_int_equal(rules->v[0].action_value, rows[i].value);
		lg_action_text(rules->v[0].action, rules->v[0].action_value, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

static void what_cannot_be_done_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *written, *why;
	} rows[] = {
		{ "action: reject", "action: \"reject\" is none of drop, reset, prohibited, pace, deny, soft" },
		{ "action: {}", "action: a packet has one action, and 0 are written" },
		{ "action: {mark: 1, dscp: ef}", "action: a packet has one action, and 2 are written" },
		{ "action: {mark: 4294967296}", "action.mark: \"4294967296\" is not a number such as 7 or 0x10, below 2^32" },
		{ "action: {mark: -1}", "action.mark: \"-1\" is not a number such as 7 or 0x10, below 2^32" },
		{ "action: {mark: 0x}", "action.mark: \"0x\" is not a number such as 7 or 0x10, below 2^32" },
		{ "action: {mark: 1:2}", "action.mark: \"1:2\" is not a number such as 7 or 0x10, below 2^32" },
		{ "action: {priority: 10000:1}", "action.priority: \"10000:1\" is not a number such as 6 below 2^32, or a class such as 1:10" },
		{ "action: {priority: \"1:\"}", "action.priority: \"1:\" is not a number such as 6 below 2^32, or a class such as 1:10" },
		{ "action: {dscp: 64}", "action.dscp: \"64\" is not a DSCP such as ef, af41 or 46, 0 to 63" },
		{ "action: {dscp: af44}", "action.dscp: \"af44\" is not a DSCP such as ef, af41 or 46, 0 to 63" },
		{ "action: {ecn: ect}", "action.ecn: \"ect\" is none of ce" },
		{ "match: {ethertype: arp}, action: {dscp: ef}",
		  "action.dscp: is part of an IP header, and the rule matches frames that are no IP" },
		{ "match: {ethertype: arp}, action: prohibited", "action: answers IP, and the rule matches frames that are no IP" },
		{ "match: {protocol: udp}, action: reset", "action: answers TCP, which the rule does not match: write `protocol: tcp`" },
		{ "match: {direction: egress}, action: reset",
		  "action: answers what comes in: what goes out was sent here, and there is nobody to answer" },
		{ "match: {direction: egress}, action: prohibited",
		  "action: answers what comes in: what goes out was sent here, and there is nobody to answer" },
		{ "action: pace", "action: holds packets back where they leave: write `direction: egress` in the rule's match" },
		{ "match: {direction: egress}, scope: global, action: pace",
		  "action: is for host rules: tokens that are lent are there or not, there is no telling when" },
		{ "match: {direction: egress}, algorithm: fixed_window, action: pace",
		  "action: is for token_bucket, which refills steadily, and the algorithm is fixed_window" },
		{ "match: {direction: egress}, key: {source: 32}, table: lines, action: pace",
		  "action: needs `table: exact`: leave `table` and `keys` out" },
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		snprintf(text, sizeof(text), "limit: 5/s, %s", rows[i].written);
		assert_null(parse(text));
		assert_string_equal(c.text, rows[i].why);
	}
}

static const struct lg_rule *compiled(const char *keys)
{
	static const struct lg_compile_env env = { .now_ns = 1000 * S, .n_lines = 1024 };
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse(keys);

	if (!rules || lg_rules_compile(rules, &env, &set, NULL, names, &c) < 0)
		fail_msg("%s: %s", keys, c.text);
	return &set.rules[0];
}

static void the_kernel_is_told_of_actions_and_a_shadow_has_none(void **state)
{
	const struct lg_rule *rule = compiled("limit: 5/s, action: {mark: 9}");

	(void)state;
	assert_int_equal(rule->flags & LG_RULE_ACTS, LG_RULE_ACTS);
	assert_int_equal(rule->action, LG_ACTION_MARK);
	assert_int_equal(rule->action_value, 9);
	assert_int_equal(compiled("limit: 5/s, action: {mark: 9}, shadow: true")->flags & LG_RULE_ACTS, 0);
	assert_int_equal(compiled("limit: 5/s")->flags & LG_RULE_ACTS, 0);
}

static void a_rule_that_paces_promises_two_seconds_beside_its_burst(void **state)
{
	const struct lg_rule *rule = compiled("limit: 1000/s, burst: 10, match: {direction: egress}, key: {source: 32}, action: pace");

	(void)state;
	assert_int_equal(rule->table, LG_TABLE_EXACT);
	assert_int_equal(rule->burst_tok, 10);
	assert_int_equal(rule->cold_burst_tok, 2010);
	assert_int_equal(rule->rate.burst_vt, 2010 * rule->rate.unit_per_tok);
	assert_int_equal(rule->rate.coarse, 0);
	rule = compiled("limit: 1000/s, burst: 10, match: {direction: egress}, action: pace, shadow: true");
	assert_int_equal(rule->cold_burst_tok, 10);
	/* No burst is above the largest there is. */
	rule = compiled("limit: 1000000000/s, burst: 1099511627776, match: {direction: egress}, action: pace");
	assert_int_equal(rule->cold_burst_tok, LG_BURST_MAX_TOK);
}

/* For rates of all kinds: the n-th token behind the burst comes n intervals later, to a thousandth, and never early. */
static void a_packet_waits_until_its_last_token_is_there(void **state)
{
	static const struct {
		uint64_t rate_tok, per_ns, burst_tok;
	} rows[] = {
		{ 1000, S, 10 },
		{ 3, S, 1 },
		{ 7, 3 * S, 100 },
		{ 1250000, S, 65536 },
		{ 12500000, S, 1u << 20 },
		{ 1250000000, S, 1u << 22 },
		{ 64ull * S, S, 1u << 25 },
		{ 999999937, 86399 * S / 7, 12345 },
		{ 1, 2 * S, 1ull << 40 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		double tick_ns = (double)rows[i].per_ns / (double)rows[i].rate_tok;
		uint64_t v, now_ns = 5000 * S;
		struct lg_rate rate;

		assert_int_equal(lg_rate_init(rows[i].rate_tok, rows[i].per_ns, rows[i].burst_tok, 1000 * S, &rate), 0);
		v = lg_rate_now(&rate, now_ns);
		assert_int_equal(lg_pace_delay_ns(&rate, rows[i].burst_tok, v, v), 0);
		assert_int_equal(lg_pace_delay_ns(&rate, rows[i].burst_tok, v + rate.burst_vt, v), 0);
		for (double share = 1e-6; share < 1; share *= 3) {
			uint64_t tok = (uint64_t)(share * 1.9e9 / tick_ns), delay_ns;

			delay_ns = lg_pace_delay_ns(&rate, rows[i].burst_tok, v + rate.burst_vt + tok * rate.unit_per_tok, v);
			assert_true((double)delay_ns >= (double)tok * tick_ns - 1);
			assert_true((double)delay_ns <= (double)tok * tick_ns * 1.001 + 2);
		}
		assert_int_equal(lg_pace_delay_ns(&rate, rows[i].burst_tok, v + rate.burst_vt + (1ull << 62), v), LG_PACE_HORIZON_NS);
	}
}

static void marks_are_refused_where_xdp_is_on(void **state)
{
	static const struct {
		const char *rule, *interfaces;
		const char *interface; /* the one it is refused for; NULL: none */
	} rows[] = {
		{ "action: {mark: 1}", "[{name: eth0, xdp: native}]", "eth0" },
		{ "action: {ecn: ce}", "[{name: eth0, tc: on}, {name: eth1, xdp: generic}]", "eth1" },
		{ "action: {mark: 1}", "[{name: eth0, tc: on}]", NULL },
		{ "action: {mark: 1}, shadow: true", "[{name: eth0, xdp: native}]", NULL },
		{ "action: {mark: 1}, match: {direction: egress}", "[{name: eth0, xdp: native, tc_egress: on}]", NULL },
		{ "action: {mark: 1}, match: {interface: eth0}", "[{name: eth0, tc: on}, {name: eth1, xdp: native}]", NULL },
		{ "action: {mark: 1}, match: {interface: eth1}", "[{name: eth0, tc: on}, {name: eth1, xdp: native}]", "eth1" },
		{ "action: reset", "[{name: eth0, xdp: native}]", NULL },
		{ "action: prohibited", "[{name: eth0, xdp: native}]", NULL },
	};
	static struct lg_config config;
	char text[512];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;

		snprintf(text, sizeof(text), "limit: 5/s, %s", rows[i].rule);
		rules = parse(text);
		assert_non_null(rules);
		snprintf(text, sizeof(text), "name: h\nrules: r.yaml\ninterfaces: %s\n", rows[i].interfaces);
		if (lg_config_parse(text, strlen(text), "/etc/node.yaml", LG_CONFIG_NODE, &config, &c) < 0)
			fail_msg("%s: %s", text, c.text);
		if (!rows[i].interface) {
			assert_int_equal(lg_actions_check(rules, &config, &c), 0);
			continue;
		}
		assert_true(lg_actions_check(rules, &config, &c) < 0);
		assert_int_equal(c.line, 2);
		snprintf(text, sizeof(text), "interface %s has XDP on", rows[i].interface);
		assert_non_null(strstr(c.text, text));
		assert_non_null(strstr(c.text, "rule \"a\": action "));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_action_is_read_and_said_again),
		cmocka_unit_test(what_cannot_be_done_is_refused_with_the_reason),
		cmocka_unit_test(the_kernel_is_told_of_actions_and_a_shadow_has_none),
		cmocka_unit_test(a_rule_that_paces_promises_two_seconds_beside_its_burst),
		cmocka_unit_test(a_packet_waits_until_its_last_token_is_there),
		cmocka_unit_test(marks_are_refused_where_xdp_is_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
