// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define S 1000000000ull

static struct lg_prefix net10; /* the source of rule_make() */

static struct lg_rule_def rule_make(void)
{
	struct lg_rule_def rule = {
		.name = "a",
		.line = 7,
		.scope = LG_SCOPE_GLOBAL,
		.class = LG_CLASS_LEASE,
		.match = { .has_protocol = true, .protocol = 17, .destination_ports = { 1, { { 53, 53 } } } },
		.key = { LG_FORM_SOURCE, LG_KEY_SOURCE, { 32, 64 }, { 32, 64 } },
		.limit_tok = 100,
		.per_ns = S,
		.burst_tok = 100,
	};

	net10 = (struct lg_prefix){ 4, 8, { [10] = 0xff, [11] = 0xff, 10 } };
	rule.match.source = (struct lg_prefix_list){ .n = 1, .v = &net10 };
	return rule;
}

static void change_none(struct lg_rule_def *r)
{
	(void)r;
}
static void change_name(struct lg_rule_def *r)
{
	r->name[0] = 'b';
}
static void change_line(struct lg_rule_def *r)
{
	r->line++;
}
static void change_shadow(struct lg_rule_def *r)
{
	r->shadow = true;
}
static void change_cost(struct lg_rule_def *r)
{
	r->cost = 2;
}
static void change_evaluate(struct lg_rule_def *r)
{
	r->evaluate_all = true;
}
static void change_on_full(struct lg_rule_def *r)
{
	r->on_full = LG_ON_FULL_DENY;
}
static void change_low_water(struct lg_rule_def *r)
{
	r->lease.low_water_permille = 200;
}
static void change_class(struct lg_rule_def *r)
{
	r->class = LG_CLASS_STRICT;
}
static void change_limit(struct lg_rule_def *r)
{
	r->limit_tok++;
}
static void change_per(struct lg_rule_def *r)
{
	r->per_ns++;
}
static void change_burst(struct lg_rule_def *r)
{
	r->burst_tok++;
}
static void change_fallback(struct lg_rule_def *r)
{
	r->fallback = LG_FALLBACK_OPEN;
}
static void change_kind(struct lg_rule_def *r)
{
	r->lease.kind = LG_LEASE_BLOCK;
}
static void change_outstanding(struct lg_rule_def *r)
{
	r->lease.max_outstanding_permille = 100;
}
static void change_owner(struct lg_rule_def *r)
{
	r->lease.owner = LG_OWNER_ON;
}
static void change_rpc_budget(struct lg_rule_def *r)
{
	r->lease.rpc_budget_mps = 1000;
}
static void change_cold_start(struct lg_rule_def *r)
{
	r->lease.cold_start_tok = 1;
}
static void change_scope(struct lg_rule_def *r)
{
	r->scope = LG_SCOPE_HOST;
}
static void change_protocol(struct lg_rule_def *r)
{
	r->match.protocol = 6;
}
static void change_no_protocol(struct lg_rule_def *r)
{
	r->match.has_protocol = false;
}
static void change_port(struct lg_rule_def *r)
{
	r->match.destination_ports.v[0].hi = 54;
}
static void change_ports(struct lg_rule_def *r)
{
	r->match.destination_ports.n = 0;
}
static void change_source(struct lg_rule_def *r)
{
	static const struct lg_prefix net11 = { 4, 8, { [10] = 0xff, [11] = 0xff, 11 } };

	r->match.source.v = &net11;
}
static void change_source_len(struct lg_rule_def *r)
{
	static const struct lg_prefix half = { 4, 9, { [10] = 0xff, [11] = 0xff, 10 } };

	r->match.source.v = &half;
}
static void change_no_source(struct lg_rule_def *r)
{
	r->match.source = (struct lg_prefix_list){ .n = 0 };
}
static void change_destination(struct lg_rule_def *r)
{
	r->match.destination = r->match.source;
}
static void change_form(struct lg_rule_def *r)
{
	r->key.form = LG_FORM_DESTINATION;
	r->key.parts = LG_KEY_DESTINATION;
}
static void change_len4(struct lg_rule_def *r)
{
	r->key.source.ipv4 = 24;
}
static void change_len6(struct lg_rule_def *r)
{
	r->key.source.ipv6 = 56;
}
static void change_unit(struct lg_rule_def *r)
{
	r->unit = LG_UNIT_BYTES;
}
static void change_algorithm(struct lg_rule_def *r)
{
	r->algorithm = LG_SLIDING_WINDOW;
}

static void identity_is_what_is_limited_and_fingerprint_how_much_too(void **state)
{
	static const struct {
		void (*change)(struct lg_rule_def *rule);
		bool identity, fingerprint; /* does it change? */
	} rows[] = {
		{ change_none, false, false },      { change_name, false, false },
		{ change_line, false, false },      { change_shadow, false, false },
		{ change_evaluate, false, false },  { change_on_full, false, false },
		{ change_low_water, false, false }, { change_class, false, true },
		{ change_limit, false, true },      { change_per, false, true },
		{ change_cost, false, true },       { change_burst, false, true },      { change_fallback, false, true },
		{ change_kind, false, true },       { change_outstanding, false, true },
		{ change_owner, false, true },      { change_rpc_budget, false, true },
		{ change_cold_start, false, true },
		{ change_scope, true, true },       { change_protocol, true, true },
		{ change_no_protocol, true, true }, { change_port, true, true },
		{ change_ports, true, true },       { change_source, true, true },
		{ change_source_len, true, true },  { change_no_source, true, true },
		{ change_destination, true, true }, { change_form, true, true },
		{ change_len4, true, true },        { change_len6, true, true },
		{ change_unit, true, true },        { change_algorithm, true, true },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_rule_def a = rule_make(), b = rule_make();

		rows[i].change(&b);
		if ((lg_rule_identity(&a) != lg_rule_identity(&b)) != rows[i].identity)
			fail_msg("identity of row %zu", i);
		if ((lg_rule_fingerprint(&a) != lg_rule_fingerprint(&b)) != rows[i].fingerprint)
			fail_msg("fingerprint of row %zu", i);
	}
}

static void source_and_destination_are_not_interchangeable(void **state)
{
	struct lg_rule_def a = rule_make(), b = rule_make();

	(void)state;
	b.match.destination = b.match.source;
	b.match.source = (struct lg_prefix_list){ .n = 0 };
	assert_true(lg_rule_identity(&a) != lg_rule_identity(&b));
}

static void without_a_key_its_lengths_do_not_count(void **state)
{
	struct lg_rule_def a = rule_make(), b = rule_make();

	(void)state;
	a.key.form = b.key.form = LG_FORM_RULE;
	a.key.parts = b.key.parts = 0;
	b.key.source.ipv4 = 24;
	b.key.source.ipv6 = 48;
	assert_true(lg_rule_identity(&a) == lg_rule_identity(&b));
}

/* Hosts and regions of different versions compare these: a change of the bytes hashed would part them. */
static void hashes_stay_as_they_are(void **state)
{
	struct lg_rule_def rule = rule_make();

	(void)state;
	assert_true(lg_rule_identity(&rule) == 0xc8afad5c5549e4feull);
	assert_true(lg_rule_fingerprint(&rule) == 0xdef15998436c0918ull);
}

static void limits_print_as_short_as_they_can_be_said(void **state)
{
	static const struct {
		uint64_t tok, per_ns;
		enum lg_unit unit;
		const char *text;
	} rows[] = {
		{ 10000, 60 * S, LG_UNIT_PACKETS, "10000/1m" },
		{ 0, S, LG_UNIT_PACKETS, "0/1s" },
		{ 7, 90 * S, LG_UNIT_PACKETS, "7/90s" },
		{ 10000000, S, LG_UNIT_BYTES, "10MB/1s" },
		{ 65536, S / 10, LG_UNIT_BYTES, "64KiB/100ms" },
		{ 1ull << 40, LG_PER_MAX_NS, LG_UNIT_BYTES, "1TiB/31d" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		lg_limit_format(rows[i].tok, rows[i].per_ns, rows[i].unit, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

static void keys_print_as_addresses(void **state)
{
	static const struct {
		struct lg_key key;
		uint8_t len4, len6;
		const char *text;
	} rows[] = {
		{ { .form = LG_FORM_RULE }, 32, 64, "*" },
		{ { .form = LG_FORM_SOURCE, .a = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 7 } }, 32, 64, "192.0.2.7" },
		{ { .form = LG_FORM_SOURCE, .a = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 0 } }, 24, 64, "192.0.2.0/24" },
		{ { .form = LG_FORM_DESTINATION, .a = { 0x20, 1, 0xd, 0xb8 } }, 32, 64, "2001:db8::/64" },
		{ { .form = LG_FORM_DESTINATION, .a = { 0x20, 1, 0xd, 0xb8, [15] = 1 } }, 32, 128, "2001:db8::1" },
		{ { .form = LG_FORM_SOURCE, .a = { 0 } }, 32, 64, "::/64" },
	};
	struct lg_key_shape shape = { 0 };
	struct lg_key overflow = { .form = LG_FORM_OVERFLOW };
	uint32_t index = 1017;
	char text[64];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		shape.source = shape.destination = (struct lg_key_len){ rows[i].len4, rows[i].len6 };
		lg_key_format(&rows[i].key, &shape, NULL, NULL, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
	memcpy(overflow.a, &index, sizeof(index));
	lg_key_format(&overflow, &shape, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "overflow 1017");
}

static void names_are_the_words_of_the_file(void **state)
{
	(void)state;
	assert_string_equal(lg_scope_name(LG_SCOPE_GLOBAL), "global");
	assert_string_equal(lg_scope_name(LG_SCOPE_HOST), "host");
	assert_string_equal(lg_class_name(LG_CLASS_LOCAL), "local");
	assert_string_equal(lg_class_name(LG_CLASS_SYNC), "sync");
	assert_string_equal(lg_algorithm_name(LG_TOKEN_BUCKET), "token_bucket");
	assert_string_equal(lg_algorithm_name(LG_SLIDING_LOG), "sliding_log");
	assert_string_equal(lg_unit_name(LG_UNIT_BYTES), "bytes");
	assert_string_equal(lg_unit_name(LG_UNIT_REQUESTS), "requests");
	assert_string_equal(lg_on_full_name(LG_ON_FULL_PASS), "pass");
	assert_string_equal(lg_fallback_name(LG_FALLBACK_CLOSED), "closed");
}

static void shares_are_the_limit_once_more_or_a_tenth_of_it_on_any_clock(void **state)
{
	static const struct {
		enum lg_rule_class class;
		enum lg_algorithm algorithm;
		uint64_t limit_tok, burst_tok, per_ns, parts, rate_tok, share_per_ns, share_burst_tok;
	} rows[] = {
		{ LG_CLASS_LEASE, LG_TOKEN_BUCKET, 1200, 600, 1000, 12, 100, 1000, 50 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, 1200, 1200, 1000, 12, 100, 1000, 100 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, 1200, 1200, 1000, 0, 0, 1000, 0 },
		{ LG_CLASS_STRICT, LG_TOKEN_BUCKET, 1200, 600, 1000, 12, 10, 1003, 5 },
		{ LG_CLASS_SYNC, LG_TOKEN_BUCKET, 1200, 600, 1000, 12, 10, 1003, 5 },
		{ LG_CLASS_STRICT, LG_TOKEN_BUCKET, 119, 600, 1000, 12, 0, 1000, 0 },
		{ LG_CLASS_STRICT, LG_TOKEN_BUCKET, 1200, 119, 1000, 12, 0, 1000, 0 },
		{ LG_CLASS_STRICT, LG_SLIDING_WINDOW, 1200, 1200, 1000, 12, 5, 1003, 5 },
		{ LG_CLASS_STRICT, LG_FIXED_WINDOW, 1320, 1320, 1000, 12, 5, 1003, 6 },
		{ LG_CLASS_STRICT, LG_SLIDING_LOG, 240, 240, 1000, 12, 1, 1003, 1 },
		{ LG_CLASS_STRICT, LG_SLIDING_LOG, 239, 239, 1000, 12, 0, 1000, 0 },
		{ LG_CLASS_STRICT, LG_TOKEN_BUCKET, 120000, 1200, LG_PER_MAX_NS, 12, 997, LG_PER_MAX_NS, 10 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_rule_def rule = { .scope = LG_SCOPE_GLOBAL, .class = rows[i].class, .algorithm = rows[i].algorithm,
					    .fallback = LG_FALLBACK_SHARE, .limit_tok = rows[i].limit_tok,
					    .burst_tok = rows[i].burst_tok, .per_ns = rows[i].per_ns };
		struct lg_share share;

		lg_rule_share(&rule, rows[i].parts, &share);
		assert_int_equal(share.rate_tok, rows[i].rate_tok);
		assert_int_equal(share.per_ns, rows[i].share_per_ns);
		assert_int_equal(share.burst_tok, rows[i].share_burst_tok);
	}
}

static void only_strict_rules_with_shares_set_them_aside(void **state)
{
	struct lg_rule_def rule = { .scope = LG_SCOPE_GLOBAL, .class = LG_CLASS_STRICT, .fallback = LG_FALLBACK_SHARE };

	(void)state;
	assert_true(lg_rule_sets_shares_aside(&rule));
	assert_int_equal(lg_rule_shares_tok(&rule, 109), 10);
	rule.class = LG_CLASS_SYNC;
	assert_true(lg_rule_sets_shares_aside(&rule));
	rule.class = LG_CLASS_LEASE;
	assert_false(lg_rule_sets_shares_aside(&rule));
	assert_int_equal(lg_rule_shares_tok(&rule, 109), 109);
	rule.class = LG_CLASS_STRICT;
	rule.fallback = LG_FALLBACK_OPEN;
	assert_false(lg_rule_sets_shares_aside(&rule));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity_is_what_is_limited_and_fingerprint_how_much_too),
		cmocka_unit_test(source_and_destination_are_not_interchangeable),
		cmocka_unit_test(without_a_key_its_lengths_do_not_count),
		cmocka_unit_test(hashes_stay_as_they_are),
		cmocka_unit_test(limits_print_as_short_as_they_can_be_said),
		cmocka_unit_test(keys_print_as_addresses),
		cmocka_unit_test(names_are_the_words_of_the_file),
		cmocka_unit_test(shares_are_the_limit_once_more_or_a_tenth_of_it_on_any_clock),
		cmocka_unit_test(only_strict_rules_with_shares_set_them_aside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
