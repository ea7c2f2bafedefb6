// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Versions of rules: order, bytes, gates, overrides and their end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/document.h"

#define MS 1000000ull
#define S 1000000000ull
#define TEXT                                                                  \
	"rules:\n"                                                            \
	"  - {name: a, limit: 100/1s, burst: 200, match: {protocol: udp}}\n" \
	"  - {name: g, scope: global, limit: 10/1s, match: {protocol: tcp}}\n"
#define OTHER "rules:\n  - {name: g, scope: global, limit: 10/1s, match: {protocol: tcp}}\n"

static struct lg_rules_doc *make(const char *text)
{
	struct lg_rules_doc *doc = calloc(1, sizeof(*doc));

	assert_non_null(doc);
	doc->stamp = (struct lg_rules_stamp){ .counter = 7, .unix_ms = 1000, .region = "eu" };
	snprintf(doc->by, sizeof(doc->by), "root");
	snprintf(doc->what, sizeof(doc->what), "apply rules.yaml");
	assert_int_equal(lg_rules_text_set(&doc->text, text, strlen(text)), 0);
	return doc;
}

static struct lg_rules_doc *through(const struct lg_rules_doc *doc, uint64_t packed_ns, uint64_t packed_unix_ms, uint64_t now_ns,
				    uint64_t unix_ms, uint64_t age_ms)
{
	_cleanup_text_ struct lg_text text = { 0 };
	struct lg_rules_doc *back = NULL;
	struct lg_complaint c = { 0 };

	lg_rules_doc_pack(doc, packed_ns, packed_unix_ms, true, &text);
	assert_true(lg_text_ok(&text));
	assert_int_equal(lg_rules_doc_parse(text.s, text.len, now_ns, unix_ms, age_ms, &back, &c), 0);
	return back;
}

static void put(struct lg_rules_doc *doc, enum lg_override_kind kind, const char *rule, const char *limit, uint64_t until_ns)
{
	struct lg_rules_override o = { .kind = kind, .until_ns = until_ns };

	snprintf(o.rule, sizeof(o.rule), "%s", rule);
	snprintf(o.limit, sizeof(o.limit), "%s", limit);
	assert_int_equal(lg_rules_override_put(doc, &o), 0);
}

static void the_newest_is_the_same_everywhere(void **state)
{
	const struct lg_rules_stamp sorted[] = {
		{ 0, 0, "" }, { 1, 500, "eu" }, { 1, 501, "ap" }, { 1, 501, "eu" }, { 2, 3, "ap" },
	};

	(void)state;
	for (size_t i = 0; i < 5; i++)
		for (size_t k = 0; k < 5; k++)
			assert_int_equal(lg_rules_stamp_compare(&sorted[i], &sorted[k]) < 0, i < k);
}

static void a_version_goes_through_its_bytes(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *back = NULL;

	(void)state;
	doc->gate.permille = 125;
	assert_int_equal(lg_rules_text_set(&doc->base, OTHER, strlen(OTHER)), 0);
	put(doc, LG_OVERRIDE_SET, "a", "5/1s", 0);
	put(doc, LG_OVERRIDE_DISABLE, "g", "", 50 * S);
	back = through(doc, 10 * S, 9, 1000 * S, 0, 0);
	assert_int_equal(lg_rules_stamp_compare(&back->stamp, &doc->stamp), 0);
	assert_string_equal(back->by, "root");
	assert_string_equal(back->what, "apply rules.yaml");
	assert_string_equal(back->text.text, TEXT);
	assert_string_equal(back->base.text, OTHER);
	assert_int_equal(back->gate.permille, 125);
	assert_false(back->is_forced);
	assert_int_equal(back->n_overrides, 2);
	assert_string_equal(back->overrides[0].limit, "5/1s");
	assert_string_equal(back->overrides[0].burst, "");
	assert_int_equal(back->overrides[0].until_ns, 0);
	assert_int_equal(back->overrides[1].until_ns, 1040 * S);
}

static void whether_it_may_cut_off_anybody_goes_with_it(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *back = NULL;

	(void)state;
	doc->is_forced = true;
	back = through(doc, 1, 1, 1, 1, 0);
	assert_true(back->is_forced);
}

static void what_is_cut_or_changed_is_refused(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	_cleanup_text_ struct lg_text text = { 0 };
	struct lg_rules_doc *back = NULL;
	struct lg_complaint c = { 0 };
	size_t head;

	(void)state;
	doc->gate.permille = 1;
	assert_int_equal(lg_rules_text_set(&doc->base, OTHER, strlen(OTHER)), 0);
	lg_rules_doc_pack(doc, 0, 0, true, &text);
	head = text.len - strlen(TEXT) - strlen(OTHER);
	for (size_t len = 0; len < text.len; len++) {
		/* Without texts, or with the first of them: that is what a store has. */
		bool is_whole = len == head || len == head + strlen(TEXT);

		assert_int_equal(lg_rules_doc_parse(text.s, len, 0, 0, 0, &back, &c), is_whole ? 0 : -EINVAL);
		back = lg_rules_doc_free(back);
	}
	text.s[text.len - 2] ^= 1;
	assert_int_equal(lg_rules_doc_parse(text.s, text.len, 0, 0, 0, &back, &c), -EINVAL);
	assert_int_equal(lg_rules_doc_parse("#leasegate rules 1\n\n", 20, 0, 0, 0, &back, &c), -EINVAL);
	assert_null(back);
}

static void an_override_is_older_by_what_passed_on_the_way(void **state)
{
	static const struct {
		uint64_t unix_ms, age_ms, want_left_ms;	/* 0: it is over */
	} rows[] = {
		{ 0, 0, 10000 },
		{ 0, 1, 9999 },
		{ 0, 9999, 1 },
		{ 0, 10000, 0 },
		{ 5000, 0, 10000 },	/* kept, and read at once */
		{ 7500, 0, 7500 },
		{ 14999, 0, 1 },
		{ 15000, 0, 0 },
		{ 4000, 0, 10000 },	/* the wall clock stepped back: not longer than it was */
		{ 900000, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
		_cleanup_(lg_rules_doc_free) struct lg_rules_doc *back = NULL;

		put(doc, LG_OVERRIDE_SHADOW, "a", "", 20 * S);
		back = through(doc, 10 * S, 5000, 70 * S, rows[i].unix_ms, rows[i].age_ms);
		assert_int_equal(back->n_overrides, rows[i].want_left_ms != 0);
		if (rows[i].want_left_ms)
			assert_int_equal(back->overrides[0].until_ns, 70 * S + rows[i].want_left_ms * MS);
	}
}

static struct lg_rules *rules_of(const struct lg_rules_doc *doc, bool has_text, uint64_t now_ns)
{
	struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };

	if (lg_rules_doc_rules(doc, has_text, &lg_gate_nobody, now_ns, "test", &rules, &c) < 0)
		fail_msg("%s", c.text);
	return rules;
}

static void overrides_count_until_their_time(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	struct lg_rules *rules;

	(void)state;
	put(doc, LG_OVERRIDE_SET, "a", "5/1s", 10 * S);
	put(doc, LG_OVERRIDE_DISABLE, "g", "", 20 * S);
	put(doc, LG_OVERRIDE_SHADOW, "nobody", "", 0);
	assert_int_equal(lg_rules_doc_end_ns(doc, 0), 10 * S);
	assert_int_equal(lg_rules_doc_end_ns(doc, 10 * S), 20 * S);
	assert_int_equal(lg_rules_doc_end_ns(doc, 20 * S), 0);

	rules = rules_of(doc, true, 10 * S - 1);
	assert_int_equal(rules->n, 1);
	assert_int_equal(rules->v[0].limit_tok, 5);
	assert_int_equal(rules->v[0].burst_tok, 200);
	lg_rules_free(rules);
	rules = rules_of(doc, true, 10 * S);
	assert_int_equal(rules->n, 1);
	assert_int_equal(rules->v[0].limit_tok, 100);
	lg_rules_free(rules);
	rules = rules_of(doc, true, 20 * S);
	assert_int_equal(rules->n, 2);
	lg_rules_free(rules);

	lg_rules_doc_expire(doc, 10 * S);
	assert_int_equal(doc->n_overrides, 2);
	assert_int_equal(lg_rules_override_drop(doc, NULL), 1);
	assert_int_equal(lg_rules_override_drop(doc, "a"), 0);
	assert_int_equal(lg_rules_override_drop(doc, "g"), 1);
}

static void an_override_is_checked_as_a_file_is(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };

	(void)state;
	put(doc, LG_OVERRIDE_SET, "a", "5/1fortnight", 0);
	assert_int_equal(lg_rules_doc_rules(doc, true, &lg_gate_nobody, 0, "test", &rules, &c), -EINVAL);
	assert_non_null(strstr(c.text, "limit"));
	assert_int_equal(c.line, 2);
	/* In the place of the former one, and what is not written is added. */
	put(doc, LG_OVERRIDE_SHADOW, "a", "", 0);
	assert_int_equal(doc->n_overrides, 1);
	rules = rules_of(doc, true, 0);
	assert_true(rules->v[0].shadow);
	assert_false(rules->v[1].shadow);
	lg_rules_free(rules);
}

static void overrides_are_bounded(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	struct lg_rules_override o = { .kind = LG_OVERRIDE_DISABLE };

	(void)state;
	for (int i = 0; i <= LG_RULES_OVERRIDES_MAX; i++) {
		snprintf(o.rule, sizeof(o.rule), "rule-%d", i);
		assert_int_equal(lg_rules_override_put(doc, &o), i < LG_RULES_OVERRIDES_MAX ? 0 : -ENOSPC);
	}
}

static void outside_the_gate_is_what_was_before(void **state)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	struct lg_rules *rules;

	(void)state;
	assert_int_equal(lg_rules_text_set(&doc->base, OTHER, strlen(OTHER)), 0);
	doc->gate.permille = 1;
	rules = rules_of(doc, false, 0);
	assert_int_equal(rules->n, 1);
	lg_rules_free(rules);
	rules = rules_of(doc, true, 0);
	assert_int_equal(rules->n, 2);
	lg_rules_free(rules);
}

static void an_override_for_some_nodes_changes_the_rule_on_those(void **state)
{
	static const struct lg_label labels[] = { { "tier", "canary" } };
	const struct lg_gate_node chosen = { .name = "n", .labels = labels, .n_labels = 1 }, other = { .name = "n" };
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *back = NULL;
	struct lg_rules_override o = { .kind = LG_OVERRIDE_SET, .rule = "a", .limit = "7/1s",
				       .gate = { .label = "tier", .value = "canary" } };
	char text[LG_RULES_OVERRIDE_TEXT_LEN];
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;

	(void)state;
	assert_int_equal(lg_rules_override_put(doc, &o), 0);
	o = (struct lg_rules_override){ .kind = LG_OVERRIDE_SHADOW, .rule = "g", .gate = { .permille = 125 }, .until_ns = 9 * S };
	assert_int_equal(lg_rules_override_put(doc, &o), 0);
	back = through(doc, 1 * S, 1, 1 * S, 1, 0);
	assert_int_equal(back->n_overrides, 2);
	lg_rules_override_text(&back->overrides[0], text, sizeof(text));
	assert_string_equal(text, "limit 7/1s on nodes with tier=canary");
	lg_rules_override_text(&back->overrides[1], text, sizeof(text));
	assert_string_equal(text, "shadow on 12.5% of the nodes");
	assert_int_equal(lg_rules_doc_rules(back, true, &chosen, 1 * S, "test", &rules, &c), 0);
	assert_int_equal(rules->v[0].limit_tok, 7);
	rules = lg_rules_free(rules);
	assert_int_equal(lg_rules_doc_rules(back, true, &other, 1 * S, "test", &rules, &c), 0);
	assert_int_not_equal(rules->v[0].limit_tok, 7);
	rules = lg_rules_free(rules);
	assert_int_equal(lg_rules_doc_rules(back, true, &lg_gate_everybody, 1 * S, "test", &rules, &c), 0);
	assert_int_equal(rules->v[0].limit_tok, 7);
	assert_true(rules->v[1].shadow);
	lg_rules_free(rules);
}

static void a_gate_with_two_limits_of_one_global_rule_is_refused(void **state)
{
	static const struct {
		const char *base;
		int want;
	} rows[] = {
		{ OTHER, 0 },
		{ "rules:\n  - {name: g, scope: global, limit: 11/1s, match: {protocol: tcp}}\n", -EINVAL },
		{ "rules: []\n", -EINVAL },
		{ OTHER "  - {name: h, scope: global, limit: 11/1s, match: {protocol: icmp}}\n", -EINVAL },
	};
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = make(TEXT);
	struct lg_rules *text = rules_of(doc, true, 0);

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_doc_free) struct lg_rules_doc *other = make(rows[i].base);
		struct lg_rules *base = rules_of(other, true, 0);
		struct lg_complaint c = { 0 };

		assert_int_equal(lg_rules_gate_check(text, base, &c), rows[i].want);
		if (rows[i].want)
			assert_non_null(strstr(c.text, i == 3 ? "\"h\"" : "\"g\""));
		lg_rules_free(base);
	}
	lg_rules_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_is_the_same_everywhere),
		cmocka_unit_test(a_version_goes_through_its_bytes),
		cmocka_unit_test(whether_it_may_cut_off_anybody_goes_with_it),
		cmocka_unit_test(what_is_cut_or_changed_is_refused),
		cmocka_unit_test(an_override_is_older_by_what_passed_on_the_way),
		cmocka_unit_test(overrides_count_until_their_time),
		cmocka_unit_test(an_override_is_checked_as_a_file_is),
		cmocka_unit_test(overrides_are_bounded),
		cmocka_unit_test(outside_the_gate_is_what_was_before),
		cmocka_unit_test(an_override_for_some_nodes_changes_the_rule_on_those),
		cmocka_unit_test(a_gate_with_two_limits_of_one_global_rule_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
