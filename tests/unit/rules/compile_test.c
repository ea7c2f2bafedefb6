// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/compile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "rules/rate.h"
#include "rules/yaml.h"

#define S 1000000000ull

/* Rules loaded one file after the other, as a node does. */
struct loads {
	struct lg_compile_env env;
	struct lg_ruleset set;
	struct lg_rule_name names[LG_RULES_MAX + 1];
	struct lg_complaint c;
};

static struct lg_classifier classifier;

static struct lg_rules *parse(const char *text)
{
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;

	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%s:%u:%u: %s\n%s", c.file, c.line, c.col, c.text, text);
	return rules;
}

static void loads_init(struct loads *l)
{
	memset(l, 0, sizeof(*l));
	l->env = (struct lg_compile_env){ .now_ns = 1000 * S, .n_regions = 3, .hosts_in_region = 4, .grace_ns = S, .max_rules = 64 };
}

static int load(struct loads *l, const char *text)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse(text);
	int r;

	r = lg_rules_compile(rules, &l->env, &l->set, &classifier, l->names, &l->c);
	l->env.old_set = &l->set;
	l->env.old_names = l->names;
	return r;
}

static void load_ok(struct loads *l, const char *text)
{
	if (load(l, text) < 0)
		fail_msg("%u: %s", l->c.line, l->c.text);
}

static const struct lg_rule *rule_named(const struct loads *l, const char *name)
{
	for (uint32_t id = 1; id <= LG_RULES_MAX; id++)
		if (strcmp(l->names[id].name, name) == 0 && !l->names[id].retired_ns)
			return lg_ruleset_find(&l->set, id);
	return NULL;
}

/* What a test sees of a bucket: a taker that began with a full one. */
static uint64_t left_tok(const struct lg_rate *rate, uint64_t full_at_vt, uint64_t now_ns)
{
	uint64_t v = lg_rate_vt(rate, now_ns);
	uint64_t owed_vt = (int64_t)(full_at_vt - v) > 0 ? full_at_vt - v : 0;

	return owed_vt > rate->burst_vt ? 0 : (rate->burst_vt - owed_vt) / rate->unit_per_tok;
}

static void every_field_of_a_host_rule_reaches_the_kernel(void **state)
{
	static const uint8_t mask24[16] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };
	uint8_t mask56[16] = { 255, 255, 255, 255, 255, 255, 255 };
	const struct lg_rule *rule;
	struct lg_rate rate;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n"
		    "  - name: a\n"
		    "    match: {protocol: udp, destination_port: [53, 8000-8099], source: 198.51.100.0/24}\n"
		    "    key: {source: 24}\n"
		    "    unit: bytes\n"
		    "    limit: 1MB/s\n"
		    "    burst: 64KiB\n"
		    "    on_full: deny\n"
		    "    shadow: true\n"
		    "    evaluate: all\n"
		    "  - {name: b, limit: 5/1m, key: {destination: 56}, on_full: pass}\n");
	assert_int_equal(l.set.version, 1);
	assert_int_equal(l.set.n_rules, 2);
	rule = rule_named(&l, "a");
	assert_string_equal(l.names[rule->rule_id].match, "UDP packets to port 53 or 8000-8099 from 198.51.100.0/24 to anywhere");
	assert_int_equal(classifier.dims, LG_DIM_SOURCE | LG_DIM_NUMBER);
	assert_int_equal(rule->flags, LG_RULE_SHADOW | LG_RULE_EVALUATE_ALL | LG_RULE_BYTES);
	assert_memory_equal(rule->key_mask4, mask24, 16);
	assert_int_equal(rule->key_form, LG_FORM_SOURCE);
	assert_int_equal(rule->on_full, LG_ON_FULL_DENY);
	assert_int_equal(rule->cold_burst_tok, 65536);
	assert_int_equal(rule->rate_tok, 1000000);
	assert_int_equal(rule->per_ns, S);
	assert_int_equal(rule->burst_tok, 65536);
	assert_int_equal(rule->share_delay_ns, 0);
	assert_int_equal(lg_rate_init(1000000, S, 65536, 1000 * S, &rate), 0);
	assert_memory_equal(&rule->rate, &rate, sizeof(rate));

	rule = rule_named(&l, "b");
	assert_int_equal(rule->flags, 0);
	assert_string_equal(l.names[rule->rule_id].match, "all IP packets");
	assert_memory_equal(rule->key_mask6, mask56, 16);
	assert_int_equal(rule->key_form, LG_FORM_DESTINATION);
	assert_int_equal(rule->on_full, LG_ON_FULL_PASS);
}

static void the_key_of_a_whole_rule_has_no_mask(void **state)
{
	static const uint8_t zero[16];
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n  - {name: a, limit: 1/s}\n");
	assert_int_equal(rule_named(&l, "a")->key_form, LG_FORM_RULE);
	assert_memory_equal(rule_named(&l, "a")->key_mask4, zero, 16);
	assert_memory_equal(rule_named(&l, "a")->key_mask6, zero, 16);
}

static void the_fallback_share_is_the_hosts_part_rounded_down(void **state)
{
	static const struct {
		const char *limit;
		uint32_t n_regions, hosts;
		uint64_t rate_tok, burst_tok; /* of the share */
	} rows[] = {
		{ "limit: 10000/1m", 3, 4, 833, 833 },
		{ "limit: 12/1m", 3, 4, 1, 1 },
		{ "limit: 11/1m", 3, 4, 0, 0 },
		{ "limit: 0/1m", 3, 4, 0, 0 },
		{ "limit: 10000/1m, burst: 24", 3, 4, 833, 2 },
		{ "limit: 10000/1m, burst: 11", 3, 4, 0, 0 },
		{ "limit: 11/1m, burst: 1000", 3, 4, 0, 0 },
		{ "limit: 10000/1m", 1, 1, 10000, 10000 },
		{ "limit: 10000/1m", 0, 0, 0, 0 },
		{ "limit: 10000/1m", 64, 4096, 0, 0 },
		{ "limit: 10000/1m, algorithm: sliding_window", 3, 4, 833, 833 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		const struct lg_rule *rule;
		struct lg_rate share;
		struct loads l;
		char text[200];

		loads_init(&l);
		l.env.n_regions = rows[i].n_regions;
		l.env.hosts_in_region = rows[i].hosts;
		snprintf(text, sizeof(text), "rules:\n  - {name: a, scope: global, %s}\n", rows[i].limit);
		load_ok(&l, text);
		rule = rule_named(&l, "a");
		assert_int_equal(lg_rate_init(rows[i].rate_tok, 60 * S, rows[i].burst_tok, 1000 * S, &share), 0);
		assert_memory_equal(&rule->share, &share, sizeof(share));
		assert_true((rule->share.burst_vt == 0) == (rows[i].rate_tok == 0));
		assert_int_equal(rule->flags & LG_RULE_GLOBAL, LG_RULE_GLOBAL);
	}
}

static void the_share_waits_for_grace_or_for_the_window(void **state)
{
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n"
		    "  - {name: bucket, scope: global, limit: 60/1m, burst: 7}\n"
		    "  - {name: window, scope: global, limit: 60/1m, algorithm: sliding_window, fallback: closed}\n");
	assert_int_equal(rule_named(&l, "bucket")->share_delay_ns, S);
	assert_int_equal(rule_named(&l, "bucket")->cold_burst_tok, 7);
	assert_int_equal(rule_named(&l, "bucket")->fallback, LG_FALLBACK_SHARE);
	assert_int_equal(rule_named(&l, "window")->share_delay_ns, 60 * S);
	assert_int_equal(rule_named(&l, "window")->cold_burst_tok, 60);
	assert_int_equal(rule_named(&l, "window")->fallback, LG_FALLBACK_CLOSED);
}

static void windows_and_logs_reach_the_kernel(void **state)
{
	const struct lg_rule *rule;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n"
		    "  - {name: f, limit: 100/999ms, algorithm: fixed_window, cost: 3}\n"
		    "  - {name: s, limit: 1MB/1s, algorithm: sliding_window, unit: bytes}\n"
		    "  - {name: l, limit: 1000/1m, algorithm: sliding_log}\n");
	rule = rule_named(&l, "f");
	assert_int_equal(rule->algorithm, LG_RULE_FIXED_WINDOW);
	assert_int_equal(rule->cost, 3);
	assert_int_equal(rule->rate_tok, 100);
	assert_int_equal(rule->cold_burst_tok, 100);
	assert_int_equal(rule->window.anchor_ns, 0);
	assert_int_equal(rule->window.index0, 0);
	assert_int_equal(rule->window.length_ns, 999000000);
	assert_int_equal(rule->rate.coarse, 0); /* below a second a tick of the coarse clock is too much */
	assert_int_equal(rule_named(&l, "s")->rate.coarse, 1);
	rule = rule_named(&l, "l");
	assert_int_equal(rule->algorithm, LG_RULE_SLIDING_LOG);
	assert_int_equal(rule->cold_burst_tok, LG_LOG_COST_MAX);
	assert_int_equal(rule->rate.coarse, 0);
	assert_int_equal(rule->window.length_ns, 60 * S);
}

static void a_window_of_another_length_begins_now_and_keeps_its_index(void **state)
{
	struct lg_window first, same, other;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n  - {name: a, limit: 100/1m, algorithm: sliding_window}\n");
	first = rule_named(&l, "a")->window;
	l.env.now_ns = 1200 * S;
	load_ok(&l, "rules:\n  - {name: a, limit: 200/1m, algorithm: sliding_window}\n");
	same = rule_named(&l, "a")->window;
	assert_memory_equal(&first, &same, sizeof(first));
	load_ok(&l, "rules: []\n");
	load_ok(&l, "rules:\n  - {name: a, limit: 200/1s, algorithm: sliding_window}\n");
	other = rule_named(&l, "a")->window;
	assert_int_equal(other.anchor_ns, 1200 * S);
	assert_int_equal(other.index0, 20);
	assert_int_equal(other.length_ns, S);
}

static void a_packet_matches_one_log_at_most_and_logs_come_last(void **state)
{
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n"
		    "  - {name: t, limit: 9/1m, algorithm: sliding_log, match: {protocol: tcp, destination: 192.0.2.1}}\n"
		    "  - {name: u, limit: 9/1m, algorithm: sliding_log, match: {protocol: udp}}\n"
		    "  - {name: all, limit: 9/1m}\n");
	assert_int_equal(l.set.n_rules, 3);
	assert_int_equal(l.set.rules[0].rule_id, rule_named(&l, "all")->rule_id);
	assert_int_equal(load(&l, "rules:\n"
				  "  - {name: u, limit: 9/1m, algorithm: sliding_log, match: {protocol: udp}}\n"
				  "  - {name: g, scope: global, limit: 9/1m, algorithm: sliding_log}\n"
				  "  - {name: d, limit: 9/1m, algorithm: sliding_log, match: {destination_port: 53}}\n"),
			 -EINVAL);
	assert_string_equal(l.c.text, "a UDP packet from 0.0.0.0 to 0.0.0.0 port 53 would match \"u\" and \"d\": a packet can be charged "
				      "to one sliding_log of scope host");
	assert_int_equal(l.c.line, 4);
}

static void four_rules_about_connections_may_match_a_packet_and_five_may_not(void **state)
{
	static const char five[] = "rules:\n"
				   "  - {name: a, unit: connections, limit: 9/1s, match: {destination_port: 443}}\n"
				   "  - {name: b, unit: connections, limit: 9/1m, match: {source: 10.0.0.0/8}}\n"
				   "  - {name: packets, limit: 9/1s}\n"
				   "  - {name: c, unit: concurrent, limit: 9}\n"
				   "  - {name: d, unit: half_open, limit: 9}\n"
				   "  - {name: e, unit: half_open, limit: 9, key: {source: 32}}\n";
	char text[sizeof(five)];
	struct loads l;

	(void)state;
	loads_init(&l);
	memcpy(text, five, sizeof(five));
	*strstr(text, "  - {name: e,") = 0;
	load_ok(&l, text);
	assert_int_equal(load(&l, five), -EINVAL);
	assert_string_equal(l.c.text,
			    "a TCP packet from 10.0.0.0 to 0.0.0.0 port 443 would match 5 rules about connections, and 4 is the most");
	assert_int_equal(l.c.line, 7);
}

static void rules_go_from_most_specific_to_most_general(void **state)
{
	static const char *const want[] = { "both",  "host",  "net-port", "net-ports", "net-udp",
					    "net-1", "net-2", "port",     "udp",       "all" };
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n"
		    "  - {name: all, limit: 1/s}\n"
		    "  - {name: udp, limit: 1/s, match: {protocol: udp}}\n"
		    "  - {name: port, limit: 1/s, match: {destination_port: 53}}\n"
		    "  - {name: net-1, limit: 1/s, match: {source: 10.0.0.0/24}}\n"
		    "  - {name: net-2, limit: 1/s, match: {source: 10.0.1.0/24}}\n"
		    "  - {name: net-udp, limit: 1/s, match: {source: 10.0.0.0/24, protocol: udp}}\n"
		    "  - {name: net-ports, limit: 1/s, match: {source: 10.0.0.0/24, destination_port: 50-60}}\n"
		    "  - {name: net-port, limit: 1/s, match: {source: 10.0.0.0/24, destination_port: 54}}\n"
		    "  - {name: host, limit: 1/s, match: {source: 10.0.0.1/32}}\n"
		    "  - {name: both, limit: 1/s, match: {source: 10.0.0.0/24, destination: 10.2.0.0/16}}\n");
	assert_int_equal(l.set.n_rules, N_ELEMS(want));
	for (size_t i = 0; i < N_ELEMS(want); i++)
		assert_string_equal(l.names[l.set.rules[i].rule_id].name, want[i]);
}

static void ids_stay_with_what_they_limit(void **state)
{
	uint32_t a, b, c;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n"
		    "  - {name: a, limit: 1/s, key: {source: 32}}\n"
		    "  - {name: b, limit: 1/s, match: {protocol: udp}}\n");
	a = rule_named(&l, "a")->rule_id;
	b = rule_named(&l, "b")->rule_id;
	assert_true(a >= 1 && b >= 1 && a != b);

	/* Another order, other numbers, another name, one more. */
	load_ok(&l, "rules:\n"
		    "  - {name: c, limit: 1/s}\n"
		    "  - {name: bee, limit: 9/s, match: {protocol: 17}, shadow: true}\n"
		    "  - {name: a, limit: 1/s, key: {source: 32}}\n");
	assert_int_equal(l.set.version, 2);
	assert_int_equal(rule_named(&l, "a")->rule_id, a);
	assert_int_equal(rule_named(&l, "bee")->rule_id, b);
	assert_null(rule_named(&l, "b"));
	c = rule_named(&l, "c")->rule_id;
	assert_true(c != a && c != b);

	/* The name stays, what is limited does not. */
	load_ok(&l, "rules:\n  - {name: a, limit: 1/s, key: {source: 24}}\n");
	assert_true(rule_named(&l, "a")->rule_id != a);
	assert_true(l.names[a].retired_ns != 0);
	assert_string_equal(l.names[a].name, "a");
}

static void a_rule_that_left_is_retired_once_and_returns_to_its_id(void **state)
{
	uint32_t id;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n  - {name: a, limit: 1/s}\n");
	id = rule_named(&l, "a")->rule_id;
	assert_int_equal(l.names[id].retired_ns, 0);

	l.env.now_ns = 2000 * S;
	load_ok(&l, "rules:\n  - {name: b, limit: 1/s, match: {protocol: tcp}}\n");
	assert_int_equal(l.names[id].retired_ns, 2000 * S);
	assert_null(lg_ruleset_find(&l.set, id));
	assert_true(rule_named(&l, "b")->rule_id != id);

	l.env.now_ns = 3000 * S;
	load_ok(&l, "rules: []\n");
	assert_int_equal(l.set.n_rules, 0);
	assert_int_equal(l.names[id].retired_ns, 2000 * S);

	load_ok(&l, "rules:\n  - {name: again, limit: 2/s}\n");
	assert_int_equal(rule_named(&l, "again")->rule_id, id);
	assert_int_equal(l.names[id].retired_ns, 0);
}

static void what_was_spent_stays_spent(void **state)
{
	static const struct {
		const char *between; /* a file loaded in between */
		const char *limit;
		uint64_t left_tok; /* of a bucket from which 70 of 100 were taken, 10 s later at 1 per second */
	} rows[] = {
		{ NULL, "100/100s", 40 },  /* the same */
		{ NULL, "200/200s", 140 }, /* raised: 200 - 60 */
		{ NULL, "60/60s", 0 },     /* cut to what is spent */
		{ NULL, "61/61s", 1 },
		{ "rules: []\n", "100/100s", 40 }, /* gone and back */
		{ "rules: []\n", "200/200s", 140 },
		{ "rules:\n  - {name: a, limit: 0/1s}\n", "100/100s", 30 }, /* nothing refilled while it was 0 */
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		const struct lg_rate *rate;
		uint64_t full_at_vt;
		struct loads l;
		char text[200];

		loads_init(&l);
		load_ok(&l, "rules:\n  - {name: a, limit: 100/100s}\n");
		rate = &rule_named(&l, "a")->rate;
		full_at_vt = lg_rate_vt(rate, 1000 * S) + 70 * rate->unit_per_tok;
		assert_int_equal(left_tok(rate, full_at_vt, 1000 * S), 30);
		if (rows[i].between)
			load_ok(&l, rows[i].between);
		l.env.now_ns = 1010 * S;
		snprintf(text, sizeof(text), "rules:\n  - {name: a, limit: %s}\n", rows[i].limit);
		load_ok(&l, text);
		if (left_tok(&rule_named(&l, "a")->rate, full_at_vt, 1010 * S) != rows[i].left_tok)
			fail_msg("row %zu: %llu left", i,
				 (unsigned long long)left_tok(&rule_named(&l, "a")->rate, full_at_vt, 1010 * S));
	}
}

static void a_limit_of_nothing_can_be_lifted(void **state)
{
	const struct lg_rate *rate;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n  - {name: a, limit: 0/1s}\n");
	assert_int_equal(rule_named(&l, "a")->rate.burst_vt, 0);
	assert_int_equal(rule_named(&l, "a")->cold_burst_tok, 0);
	l.env.now_ns = 1010 * S;
	load_ok(&l, "rules:\n  - {name: a, limit: 5/1s}\n");
	rate = &rule_named(&l, "a")->rate;
	assert_int_equal(left_tok(rate, 0, 1010 * S), 5);
}

static void loading_the_same_file_again_moves_nothing(void **state)
{
	static const char text[] = "rules:\n"
				   "  - {name: a, limit: 7/90s, key: {source: 32}}\n"
				   "  - {name: b, limit: 999999937/31d}\n"
				   "  - {name: c, scope: global, limit: 10000/1m}\n"
				   "  - {name: d, limit: 0/1m, match: {protocol: tcp}}\n";
	struct lg_ruleset first;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, text);
	first = l.set;
	for (unsigned int i = 0; i < 100; i++) {
		l.env.now_ns += 12345678901ull;
		load_ok(&l, text);
	}
	assert_int_equal(l.set.version, 101);
	assert_memory_equal(l.set.rules, first.rules, sizeof(first.rules));
}

static void a_host_more_changes_the_share_and_keeps_its_level(void **state)
{
	const struct lg_rule *rule;
	uint64_t full_at_vt;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n  - {name: a, scope: global, limit: 1200/1m}\n");
	rule = rule_named(&l, "a");
	full_at_vt = lg_rate_vt(&rule->share, 1000 * S) + 90 * rule->share.unit_per_tok;
	assert_int_equal(left_tok(&rule->share, full_at_vt, 1000 * S), 10);
	l.env.hosts_in_region = 2;
	load_ok(&l, "rules:\n  - {name: a, scope: global, limit: 1200/1m}\n");
	assert_int_equal(left_tok(&rule_named(&l, "a")->share, full_at_vt, 1000 * S), 110);
}

static void a_limit_raised_beyond_its_units_begins_anew_under_another_id(void **state)
{
	uint32_t id;
	struct loads l;

	(void)state;
	loads_init(&l);
	load_ok(&l, "rules:\n  - {name: a, limit: 1/s}\n");
	id = rule_named(&l, "a")->rule_id;
	load_ok(&l, "rules:\n  - {name: a, limit: 60000000/1ms, burst: 1}\n");
	assert_true(rule_named(&l, "a")->rule_id != id);
	assert_true(l.names[id].retired_ns != 0);
	assert_true(l.names[id].fingerprint == l.names[rule_named(&l, "a")->rule_id].fingerprint);

	/* Of the two, the one in force is gone on from. */
	id = rule_named(&l, "a")->rule_id;
	load_ok(&l, "rules:\n  - {name: a, limit: 59999999/1ms, burst: 1}\n");
	assert_int_equal(rule_named(&l, "a")->rule_id, id);
}

static void ids_run_out_until_retired_ones_are_forgotten(void **state)
{
	char text[8192];
	struct loads l;
	size_t n = (size_t)sprintf(text, "rules:\n");

	(void)state;
	loads_init(&l);
	for (int i = 0; i < 64; i++)
		n += (size_t)sprintf(text + n, "  - {name: r%d, limit: 1/s, match: {protocol: %d}}\n", i, i);
	load_ok(&l, text);
	assert_int_equal(l.set.n_rules, 64);

	/* All 64 stay in force or retired: there is no room for a 65th identity. */
	assert_int_equal(
		load(&l, "rules:\n  - {name: old, limit: 1/s, match: {protocol: 3}}\n  - {name: new, limit: 1/s}\n"),
		-EINVAL);
	assert_string_equal(
		l.c.text,
		"rule \"new\": no id is free, because the buckets of rules that left the file still hold theirs: "
		"load it again in a minute");
	assert_int_equal(l.c.line, 3);
	assert_int_equal(l.set.n_rules, 64); /* untouched */
	assert_int_equal(l.set.version, 1);

	load_ok(&l, "rules:\n  - {name: old, limit: 1/s, match: {protocol: 3}}\n");
	memset(&l.names[64], 0, sizeof(l.names[64])); /* as the agent does when its buckets are gone */
	load_ok(&l, "rules:\n  - {name: new, limit: 1/s}\n");
	assert_int_equal(rule_named(&l, "new")->rule_id, 64);
	assert_int_equal(rule_named(&l, "new")->rate.v0, 0); /* nothing is taken over from who had the id before */
	assert_int_equal(rule_named(&l, "new")->rate.anchor_ns, l.env.now_ns);
}

static void more_rules_than_fit_are_refused(void **state)
{
	struct lg_rule_def defs[LG_RULES_MAX + 1] = { 0 };
	struct lg_rules rules = { .n = LG_RULES_MAX + 1, .v = defs };
	struct loads l;

	(void)state;
	loads_init(&l);
	for (size_t i = 0; i < N_ELEMS(defs); i++) {
		snprintf(defs[i].name, sizeof(defs[i].name), "r%zu", i);
		defs[i].line = (uint32_t)i + 2;
		defs[i].per_ns = S;
	}
	assert_int_equal(lg_rules_compile(&rules, &l.env, &l.set, &classifier, l.names, &l.c), -EINVAL);
	assert_string_equal(l.c.text, "rule \"r64\" is one too many: 64 is the most (max_rules in the configuration)");
	assert_int_equal(l.c.line, 66);
	l.env.max_rules = LG_RULES_MAX;
	assert_int_equal(lg_rules_compile(&rules, &l.env, &l.set, &classifier, l.names, &l.c), -EINVAL);
	assert_string_equal(l.c.text, "rule \"r256\" is one too many: 256 is the most");
	assert_int_equal(l.c.line, 258);
}

static void numbers_that_no_file_can_hold_are_refused_too(void **state)
{
	struct lg_rule_def def = { .name = "a", .line = 9, .limit_tok = ~0ull, .per_ns = S, .burst_tok = 1 };
	struct lg_rules rules = { .n = 1, .v = &def };
	struct loads l;

	(void)state;
	loads_init(&l);
	assert_int_equal(lg_rules_compile(&rules, &l.env, &l.set, &classifier, l.names, &l.c), -EINVAL);
	assert_string_equal(
		l.c.text,
		"rule \"a\": a limit of 18446744073709551615/1s with a burst of 1 is outside what the kernel can "
		"count");
	assert_int_equal(l.c.line, 9);
}

/* ---- how many rules a packet can match ---- */

/* Rules a..z of the given matches, one each. */
static void rules_text(char *text, const char *const *matches, size_t n)
{
	size_t len = (size_t)sprintf(text, "rules:\n");

	for (size_t i = 0; i < n; i++)
		len += (size_t)sprintf(text + len, "  - {name: %c, limit: 1/s, match: {%s}}\n", (int)('a' + i),
				       matches[i]);
}

static void eight_rules_may_match_a_packet_and_nine_may_not(void **state)
{
	static const char *const nested[] = {
		"source: 10.0.0.0/8",  "source: 10.0.0.0/9",  "source: 10.0.0.0/10",
		"source: 10.0.0.0/11", "source: 10.0.0.0/12", "source: 10.0.0.0/13",
		"source: 10.0.0.0/14", "source: 10.0.0.0/15", "source: 10.0.0.0/16",
	};
	char text[4096];
	struct loads l;

	(void)state;
	loads_init(&l);
	rules_text(text, nested, 8);
	load_ok(&l, text);
	rules_text(text, nested, 9);
	assert_int_equal(load(&l, text), -EINVAL);
	assert_string_equal(
		l.c.text,
		"a UDP packet from 10.0.0.0 to 0.0.0.0 port 0 would match 9 rules, and 8 is the most: a, b, c, d, e, "
		"f, g, h, i");
	assert_int_equal(l.c.line, 10);
}

static void the_example_packet_is_one_that_matches(void **state)
{
	static const struct {
		const char *matches[9];
		const char *packet;
	} rows[] = {
		{ { "", "protocol: udp", "destination_port: 53", "source: 10.0.0.0/8", "destination: 192.0.2.0/24",
		    "protocol: udp, destination_port: 53", "protocol: udp, source: 10.0.0.0/8",
		    "destination_port: 50-60, destination: 192.0.2.0/25", "source: 10.1.0.0/16" },
		  "a UDP packet from 10.1.0.0 to 192.0.2.0 port 53" },
		{ { "protocol: icmpv6", "", "source: \"::/0\"", "destination: \"::/0\"", "source: \"2001:db8::/32\"",
		    "source: \"2001:db8::/33\"", "source: \"2001:db8::/34\"", "source: \"2001:db8::/35\"",
		    "protocol: 58, destination: \"2001:db8::5\"" },
		  "an ICMPv6 packet from 2001:db8:: to 2001:db8::5" },
		{ { "protocol: 47", "", "source: 10.0.0.0/8", "source: 10.0.0.0/9", "source: 10.0.0.0/10",
		    "source: 10.0.0.0/11", "source: 10.0.0.0/12", "source: 10.0.0.0/13",
		    "destination: 10.0.0.0/8, protocol: 47" },
		  "a protocol 47 packet from 10.0.0.0 to 10.0.0.0" },
		{ { "destination_port: 80", "destination_port: 80-90", "destination_port: 70-80",
		    "destination_port: [1, 80]", "destination_port: 79-81", "destination_port: 0-65535",
		    "destination_port: 60-80", "destination_port: 80-81", "protocol: sctp" },
		  "an SCTP packet from 0.0.0.0 to 0.0.0.0 port 80" },
	};
	char text[4096], want[256];
	struct loads l;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		loads_init(&l);
		rules_text(text, rows[i].matches, 9);
		assert_int_equal(load(&l, text), -EINVAL);
		snprintf(want, sizeof(want), "%s would match 9 rules, and 8 is the most: a, b, c, d, e, f, g, h, i",
			 rows[i].packet);
		assert_string_equal(l.c.text, want);
	}
}

static void nine_rules_that_never_meet_are_fine(void **state)
{
	static const char *const rows[][9] = {
		/* of two families */
		{ "source: 0.0.0.0/0", "source: \"::/0\"", "protocol: udp", "protocol: tcp", "destination_port: 1",
		  "destination_port: 2", "destination_port: 3", "protocol: 47", "" },
		/* ports that touch and do not overlap */
		{ "destination_port: 1", "destination_port: 2", "destination_port: 3", "destination_port: 4",
		  "destination_port: 5", "destination_port: 6", "destination_port: 7", "destination_port: 8",
		  "destination_port: 9" },
		/* only packets without ports have this protocol */
		{ "protocol: icmp", "destination_port: 0-65535", "destination_port: 1-65535",
		  "destination_port: 2-65535", "destination_port: 3-65535", "destination_port: 4-65535",
		  "destination_port: 5-65535", "destination_port: 6-65535", "" },
		/* neighbours */
		{ "source: 10.0.0.0/31", "source: 10.0.0.0/32", "source: 10.0.0.1/32", "source: 10.0.0.2/31",
		  "source: 10.0.0.2/32", "source: 10.0.0.3/32", "source: 10.0.0.0/30", "source: 10.0.0.4/30", "" },
	};
	char text[4096];
	struct loads l;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		loads_init(&l);
		rules_text(text, rows[i], 9);
		load_ok(&l, text);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_of_a_host_rule_reaches_the_kernel),
		cmocka_unit_test(the_key_of_a_whole_rule_has_no_mask),
		cmocka_unit_test(the_fallback_share_is_the_hosts_part_rounded_down),
		cmocka_unit_test(the_share_waits_for_grace_or_for_the_window),
		cmocka_unit_test(windows_and_logs_reach_the_kernel),
		cmocka_unit_test(a_window_of_another_length_begins_now_and_keeps_its_index),
		cmocka_unit_test(a_packet_matches_one_log_at_most_and_logs_come_last),
		cmocka_unit_test(four_rules_about_connections_may_match_a_packet_and_five_may_not),
		cmocka_unit_test(rules_go_from_most_specific_to_most_general),
		cmocka_unit_test(ids_stay_with_what_they_limit),
		cmocka_unit_test(a_rule_that_left_is_retired_once_and_returns_to_its_id),
		cmocka_unit_test(what_was_spent_stays_spent),
		cmocka_unit_test(a_limit_of_nothing_can_be_lifted),
		cmocka_unit_test(loading_the_same_file_again_moves_nothing),
		cmocka_unit_test(a_host_more_changes_the_share_and_keeps_its_level),
		cmocka_unit_test(a_limit_raised_beyond_its_units_begins_anew_under_another_id),
		cmocka_unit_test(ids_run_out_until_retired_ones_are_forgotten),
		cmocka_unit_test(more_rules_than_fit_are_refused),
		cmocka_unit_test(numbers_that_no_file_can_hold_are_refused_too),
		cmocka_unit_test(eight_rules_may_match_a_packet_and_nine_may_not),
		cmocka_unit_test(the_example_packet_is_one_that_matches),
		cmocka_unit_test(nine_rules_that_never_meet_are_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
