// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which rules are in lines, which lines they get, and what becomes of them over reloads. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "base/mem.h"
#include "rules/compile.h"
#include "rules/rate.h"
#include "rules/yaml.h"

#define S 1000000000ull
#define LINES 1024u

static struct lg_compile_env env;
static struct lg_ruleset set;
static struct lg_rule_name names[LG_RULES_MAX + 1];
static struct lg_complaint c;

static int begin(void **state)
{
	(void)state;
	env = (struct lg_compile_env){ .now_ns = 1000 * S, .grace_ns = S, .n_lines = LINES };
	memset(&set, 0, sizeof(set));
	memset(names, 0, sizeof(names));
	memset(&c, 0, sizeof(c));
	return 0;
}

static int load(const char *text)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	int r;

	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%u:%u: %s\n%s", c.line, c.col, c.text, text);
	r = lg_rules_compile(rules, &env, &set, NULL, names, &c);
	env.old_set = &set;
	env.old_names = names;
	return r;
}

static void load_ok(const char *text)
{
	if (load(text) < 0)
		fail_msg("%u: %s", c.line, c.text);
}

static const struct lg_rule *rule_named(const char *name)
{
	for (uint32_t i = 0; i < set.n_rules; i++)
		if (strcmp(names[set.rules[i].rule_id].name, name) == 0)
			return &set.rules[i];
	fail_msg("no rule %s", name);
	return NULL;
}

static void lines_are_for_token_buckets_of_this_host_with_a_key(void **state)
{
	(void)state;
	load_ok("rules:\n"
		"  - {name: keyed, limit: 10/s, key: {source: 32}}\n"
		"  - {name: one-bucket, limit: 10/s}\n"
		"  - {name: exact, limit: 10/s, key: {source: 24}, table: exact}\n"
		"  - {name: global, limit: 10/s, key: {source: 32}, scope: global}\n"
		"  - {name: huge, limit: 1/s, burst: 274877906944, key: {source: 32}, match: {protocol: tcp}}\n"
		"  - {name: large, limit: 1/s, burst: 274877906943, key: {source: 32}, match: {protocol: udp}}\n");
	assert_int_equal(rule_named("keyed")->table, LG_TABLE_LINES);
	assert_int_equal(rule_named("large")->table, LG_TABLE_LINES);
	assert_int_equal(rule_named("one-bucket")->table, LG_TABLE_EXACT);
	assert_int_equal(rule_named("exact")->table, LG_TABLE_EXACT);
	assert_int_equal(rule_named("global")->table, LG_TABLE_EXACT);
	assert_int_equal(rule_named("huge")->table, LG_TABLE_EXACT);
	assert_int_equal(rule_named("exact")->n_lines, 0);
	assert_int_equal(rule_named("keyed")->rate.unit_per_tok, 1024);
	assert_int_equal(rule_named("keyed")->rate.burst_vt, 10240);
	assert_int_equal(rule_named("keyed")->live_vt, 65536 * 1024);
}

static void without_the_table_all_rules_are_exact(void **state)
{
	(void)state;
	env.n_lines = 0;
	load_ok("rules:\n  - {name: a, limit: 10/s, key: {source: 32}}\n");
	assert_int_equal(rule_named("a")->table, LG_TABLE_EXACT);
	assert_int_equal(load("rules:\n  - {name: a, limit: 10/s, key: {source: 32}, table: lines}\n"), -EINVAL);
	assert_int_equal(c.line, 2);
	assert_string_equal(c.text,
			    "rule \"a\": there is no table of lines: set line_keys in the configuration, or write `table: exact`");
}

/* No two rules share a line, and all are inside. */
static void regions_check(void)
{
	bool taken[LINES] = { false };

	for (uint32_t i = 0; i < LG_RULES_MAX; i++) {
		const struct lg_rule *rule = &set.rules[i];

		if (!rule->rule_id || !names[rule->rule_id].name[0])
			continue;
		assert_int_equal(rule->n_lines & (rule->n_lines - 1), 0);
		for (uint32_t l = rule->first_line; l < rule->first_line + rule->n_lines; l++) {
			assert_in_range(l, 0, LINES - 1);
			assert_false(taken[l]);
			taken[l] = true;
		}
	}
}

static void keys_are_rounded_up_to_a_power_of_two_of_lines(void **state)
{
	static const struct {
		unsigned int keys, n_lines;
	} rows[] = { { 1, 1 }, { 8, 1 }, { 9, 2 }, { 17, 4 }, { 4096, 512 }, { 4097, 1024 }, { 8192, 1024 } };
	char text[128];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		begin(NULL);
		snprintf(text, sizeof(text), "rules:\n  - {name: a, limit: 1/s, key: {source: 32}, keys: %u}\n", rows[i].keys);
		load_ok(text);
		assert_int_equal(rule_named("a")->n_lines, rows[i].n_lines);
		regions_check();
	}
}

static void rules_that_do_not_say_share_and_leave_half_to_those_to_come(void **state)
{
	(void)state;
	load_ok("rules:\n"
		"  - {name: says, limit: 1/s, key: {source: 32}, keys: 2048}\n"
		"  - {name: a, limit: 1/s, key: {destination: 32}}\n"
		"  - {name: b, limit: 1/s, key: {source: 24}}\n");
	assert_int_equal(rule_named("says")->n_lines, 256);
	assert_int_equal(rule_named("a")->n_lines, 128); /* 768 are free, half of them for two */
	assert_int_equal(rule_named("b")->n_lines, 128);
	regions_check();
	load_ok("rules:\n"
		"  - {name: says, limit: 1/s, key: {source: 32}, keys: 2048}\n"
		"  - {name: a, limit: 1/s, key: {destination: 32}}\n"
		"  - {name: b, limit: 1/s, key: {source: 24}}\n"
		"  - {name: c, limit: 1/s, key: {destination: 24}}\n");
	assert_int_equal(rule_named("c")->n_lines, 256);
	regions_check();
	/* On its own in a large table it gets what is enough for most. */
	begin(NULL);
	env.n_lines = 1 << 20;
	load_ok("rules:\n  - {name: a, limit: 1/s, key: {source: 32}}\n");
	assert_int_equal(rule_named("a")->n_lines, 262144 / 8);
}

static void every_rule_of_a_full_file_finds_room(void **state)
{
	char text[LG_RULES_MAX * 128] = "rules:\n";
	size_t len = strlen(text);

	(void)state;
	for (int i = 0; i < LG_RULES_MAX; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"  - {name: r%d, limit: 1/s, key: {source: 32}, match: {destination: 192.0.2.%d}}\n", i, i);
	env.n_lines = LG_LINE_KEYS_DEFAULT / LG_LINE_SLOTS;
	load_ok(text);
	for (uint32_t i = 0; i < set.n_rules; i++) {
		assert_int_equal(set.rules[i].table, LG_TABLE_LINES);
		assert_in_range(set.rules[i].n_lines, 128, 32768);
	}
}

static void no_room_is_refused_with_what_to_do(void **state)
{
	(void)state;
	assert_int_equal(load("rules:\n"
			      "  - {name: a, limit: 1/s, key: {source: 32}, keys: 6000}\n"
			      "  - {name: b, limit: 1/s, key: {source: 24}, keys: 8}\n"),
			 -EINVAL);
	assert_int_equal(c.line, 3);
	assert_string_equal(c.text,
			    "rule \"b\": no room for 8 keys in lines: of line_keys 8192 there are 0 free, 0 in one piece: write fewer keys, "
			    "or `table: exact`, or raise line_keys (rules that left the file keep their keys until all are full again)");
}

static void a_rule_keeps_its_lines_and_its_levels(void **state)
{
	struct lg_rule was, is;
	uint64_t position;

	(void)state;
	load_ok("rules:\n"
		"  - {name: first, limit: 1/s, key: {destination: 32}, keys: 512}\n"
		"  - {name: a, limit: 100/100s, key: {source: 32}, keys: 1024}\n");
	was = *rule_named("a");
	assert_int_equal(was.first_line, 64);
	position = lg_rate_vt(&was.rate, 1000 * S) + 70 * was.rate.unit_per_tok;
	/* Another place in the file, another name, a smaller burst, another size: 70 of 100 were spent. */
	env.now_ns = 1010 * S;
	load_ok("rules:\n"
		"  - {name: b, limit: 80/80s, key: {source: 32}, keys: 4096}\n"
		"  - {name: other, limit: 1/s, key: {source: 24}, keys: 512}\n"
		"  - {name: first, limit: 1/s, key: {destination: 32}, keys: 512}\n");
	is = *rule_named("b");
	assert_int_equal(is.rule_id, was.rule_id);
	assert_int_equal(is.first_line, was.first_line);
	assert_int_equal(is.n_lines, was.n_lines);
	assert_int_equal(is.rate.unit_per_tok, was.rate.unit_per_tok);
	assert_int_equal((position - lg_rate_vt(&is.rate, 1010 * S)) / is.rate.unit_per_tok, 60);
	assert_true(is.live_vt >= was.live_vt);
	regions_check();
	/* Once more the same: nothing moves. */
	env.now_ns = 1020 * S;
	load_ok("rules:\n  - {name: b, limit: 80/80s, key: {source: 32}, keys: 4096}\n");
	assert_memory_equal(&rule_named("b")->rate, &is.rate, sizeof(is.rate));
}

static void a_rule_that_left_keeps_its_lines_until_it_is_forgotten(void **state)
{
	struct lg_rule was;

	(void)state;
	load_ok("rules:\n  - {name: a, limit: 1/s, key: {source: 32}, keys: 8192}\n");
	was = *rule_named("a");
	assert_int_equal(load("rules:\n  - {name: b, limit: 1/s, key: {source: 24}, keys: 8}\n"), -EINVAL);
	env.n_lines *= 2;
	load_ok("rules:\n  - {name: b, limit: 1/s, key: {source: 24}, keys: 4096}\n");
	assert_int_equal(rule_named("b")->first_line, 1024);
	/* It returns to them. */
	load_ok("rules:\n  - {name: a, limit: 1/s, key: {source: 32}}\n");
	assert_int_equal(rule_named("a")->rule_id, was.rule_id);
	assert_int_equal(rule_named("a")->first_line, was.first_line);
	assert_int_equal(rule_named("a")->n_lines, was.n_lines);
	/* Forgotten, its lines are anybody's. */
	load_ok("rules: []\n");
	memset(&names[was.rule_id], 0, sizeof(names[0]));
	load_ok("rules:\n  - {name: c, limit: 1/s, key: {source: 28}, keys: 8192}\n");
	assert_int_equal(rule_named("c")->first_line, 0);
}

static void a_rule_that_goes_to_another_table_is_another_rule(void **state)
{
	uint32_t id;

	(void)state;
	load_ok("rules:\n  - {name: a, limit: 1/s, key: {source: 32}, table: exact}\n");
	id = rule_named("a")->rule_id;
	load_ok("rules:\n  - {name: a, limit: 1/s, key: {source: 32}}\n");
	assert_true(rule_named("a")->rule_id != id);
	assert_true(names[id].retired_ns != 0);
	load_ok("rules:\n  - {name: a, limit: 1/s, key: {source: 32}, table: exact}\n");
	assert_int_equal(rule_named("a")->rule_id, id);
}

static void a_burst_beyond_the_ring_of_its_units_begins_anew(void **state)
{
	struct lg_rule was;

	(void)state;
	load_ok("rules:\n  - {name: a, limit: 1/s, burst: 10, key: {source: 32}, keys: 800}\n");
	was = *rule_named("a");
	load_ok("rules:\n  - {name: a, limit: 1/s, burst: 268435455, key: {source: 32}, keys: 800}\n");
	assert_int_equal(rule_named("a")->rule_id, was.rule_id);
	load_ok("rules:\n  - {name: a, limit: 1/s, burst: 268435456, key: {source: 32}, keys: 800}\n");
	assert_true(rule_named("a")->rule_id != was.rule_id);
	assert_true(rule_named("a")->first_line != was.first_line);
	assert_true(names[was.rule_id].retired_ns != 0);
	regions_check();
}

static void a_table_made_anew_and_smaller_gives_new_lines(void **state)
{
	(void)state;
	load_ok("rules:\n"
		"  - {name: a, limit: 1/s, key: {source: 24}, keys: 4096}\n"
		"  - {name: b, limit: 1/s, key: {source: 32}, keys: 512}\n");
	assert_int_equal(rule_named("b")->first_line, 512);
	env.n_lines = 544;
	load_ok("rules:\n  - {name: b, limit: 1/s, key: {source: 32}, keys: 64}\n");
	assert_int_equal(rule_named("b")->first_line, 512);
	assert_int_equal(rule_named("b")->n_lines, 8);
}

/* Rules come and go at random; whoever is there has lines of its own, and whoever stays keeps them. */
static void regions_never_meet(void **state)
{
	static const char row[] = "  - {name: r%d, limit: 1/s, key: {source: 32}, keys: %u, match: {protocol: %d}}\n";
	uint64_t rng = (uint64_t)time(NULL) * 2654435761u + 1;
	char text[4096];

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct lg_ruleset old = set;
		size_t len = (size_t)snprintf(text, sizeof(text), "rules:\n");

		for (int i = 0; i < 16; i++) {
			rng ^= rng << 13;
			rng ^= rng >> 7;
			rng ^= rng << 17;
			if (rng & 1)
				len += (size_t)snprintf(text + len, sizeof(text) - len, row, i, 1u << (rng >> 40 & 7), 100 + i);
		}
		if (!strchr(text, '-'))
			continue;
		load_ok(text);
		regions_check();
		for (uint32_t i = 0; i < set.n_rules; i++) {
			const struct lg_rule *was = lg_ruleset_find(&old, set.rules[i].rule_id);

			assert_true(!was || (was->first_line == set.rules[i].first_line && was->n_lines == set.rules[i].n_lines));
		}
		rng ^= rng << 13;
		for (uint32_t id = 1; id <= LG_RULES_MAX; id++)
			if (names[id].retired_ns && rng >> (id & 31) & 1)
				memset(&names[id], 0, sizeof(names[id]));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(lines_are_for_token_buckets_of_this_host_with_a_key, begin),
		cmocka_unit_test_setup(without_the_table_all_rules_are_exact, begin),
		cmocka_unit_test_setup(keys_are_rounded_up_to_a_power_of_two_of_lines, begin),
		cmocka_unit_test_setup(rules_that_do_not_say_share_and_leave_half_to_those_to_come, begin),
		cmocka_unit_test_setup(every_rule_of_a_full_file_finds_room, begin),
		cmocka_unit_test_setup(no_room_is_refused_with_what_to_do, begin),
		cmocka_unit_test_setup(a_rule_keeps_its_lines_and_its_levels, begin),
		cmocka_unit_test_setup(a_rule_that_left_keeps_its_lines_until_it_is_forgotten, begin),
		cmocka_unit_test_setup(a_rule_that_goes_to_another_table_is_another_rule, begin),
		cmocka_unit_test_setup(a_burst_beyond_the_ring_of_its_units_begins_anew, begin),
		cmocka_unit_test_setup(a_table_made_anew_and_smaller_gives_new_lines, begin),
		cmocka_unit_test_setup(regions_never_meet, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
