// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/terms.h"

#include "tests/unit/lease/lease_test.h"

static struct lg_terms make(enum lg_algorithm algorithm, uint64_t limit_tok, uint64_t per_ns, uint64_t burst_tok)
{
	struct lg_rule_def rule = { .algorithm = algorithm, .limit_tok = limit_tok, .per_ns = per_ns, .burst_tok = burst_tok };
	struct lg_terms t;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
	return t;
}

TEST(the_numbers_follow_from_how_long_the_budget_lasts)
{
	static const struct {
		enum lg_algorithm algorithm;
		uint64_t limit_tok, per_ms, burst_tok;
		uint64_t region_period_ms, host_period_ms, home_tick_ms, slot_ms, out_tok, ttl_ms;
	} rows[] = {
		{ LG_TOKEN_BUCKET, 10000, 60000, 10000, 3000, 750, 100, 100, 3000, 30000 },
		{ LG_SLIDING_WINDOW, 10000, 60000, 0, 3000, 750, 100, 100, 3000, 30000 },
		{ LG_TOKEN_BUCKET, 10000, 10000, 10000, 1000, 250, 100, 50, 3000, 10000 },
		{ LG_SLIDING_WINDOW, 10000, 10000, 0, 1000, 250, 20, 20, 3000, 10000 },
		{ LG_TOKEN_BUCKET, 1000, 1000, 1000, 100, 25, 20, 10, 500, 10000 },
		{ LG_SLIDING_WINDOW, 1000, 1000, 0, 100, 25, 20, 10, 500, 10000 },
		/* A day's window: the longest period. A bucket of six milliseconds: the shortest. */
		{ LG_SLIDING_WINDOW, 1000000, 86400000, 0, 5000, 1250, 100, 100, 300000, 30000 },
		{ LG_TOKEN_BUCKET, 10000000, 1000, 65536, 100, 25, 20, 10, 32768, 10000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_terms t = make(rows[i].algorithm, rows[i].limit_tok, rows[i].per_ms * MS, rows[i].burst_tok);

		assert_int_equal(t.algorithm, rows[i].algorithm);
		assert_int_equal(t.budget_tok, rows[i].burst_tok ? rows[i].burst_tok : rows[i].limit_tok);
		assert_int_equal(t.region_period_ns, rows[i].region_period_ms * MS);
		assert_int_equal(t.host_period_ns, rows[i].host_period_ms * MS);
		assert_int_equal(t.home_tick_ns, rows[i].home_tick_ms * MS);
		assert_int_equal(t.region_tick_ns, 10 * MS);
		assert_int_equal(t.host_tick_ns, 20 * MS);
		assert_int_equal(t.slot_ns, rows[i].slot_ms * MS);
		assert_int_equal(t.max_outstanding_tok, rows[i].out_tok);
		assert_int_equal(t.ttl_ns, rows[i].ttl_ms * MS);
		assert_int_equal(t.grace_ns, 1 * S);
	}
}

TEST(both_sliding_algorithms_are_leased_as_one)
{
	assert_int_equal(make(LG_FIXED_WINDOW, 10, S, 10).algorithm, LG_FIXED_WINDOW);
	assert_int_equal(make(LG_SLIDING_LOG, 10, S, 10).algorithm, LG_SLIDING_WINDOW);
}

TEST(small_budgets_may_be_out_whole_so_that_shares_do_not_round_to_nothing)
{
	assert_int_equal(make(LG_TOKEN_BUCKET, 24, 60 * S, 24).max_outstanding_tok, 24);
	assert_int_equal(make(LG_TOKEN_BUCKET, 200, 60 * S, 200).max_outstanding_tok, 96);
	assert_int_equal(make(LG_TOKEN_BUCKET, 1, 60 * S, 1).max_outstanding_tok, 1);
	/* 30 % is more than a few for every host */
	assert_int_equal(make(LG_TOKEN_BUCKET, 1000, 60 * S, 1000).max_outstanding_tok, 300);
}

TEST(a_written_max_outstanding_sets_the_period)
{
	static const struct { uint32_t permille; uint64_t out_tok, low_ms, high_ms; } rows[] = {
		{ 100, 1000, 3100, 3300 },	/* (6 s - 2 x 0.45) / 1.6 */
		{ 300, 3000, 10500, 10800 },
		{ 10, 100, 100, 100 },		/* too little for any period: the shortest */
		{ 1000, 10000, 36500, 37500 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .algorithm = LG_TOKEN_BUCKET, .limit_tok = 10000, .per_ns = 60 * S, .burst_tok = 10000,
					    .lease.max_outstanding_permille = rows[i].permille };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.max_outstanding_tok, rows[i].out_tok);
		assert_in_range(t.region_period_ns, rows[i].low_ms * MS, rows[i].high_ms * MS);
		assert_true(t.ttl_ns >= 3 * t.region_period_ns);
	}
}

TEST(a_rule_without_hosts_or_rate_divides_by_nothing)
{
	struct lg_rule_def rule = { .algorithm = LG_TOKEN_BUCKET, .limit_tok = 0, .per_ns = S, .burst_tok = 5 };
	struct lg_terms t;

	lg_terms_init(&rule, &(struct lg_fleet){ 0 }, &t);
	assert_int_equal(t.regions, 1);
	assert_int_equal(t.hosts, 1);
	assert_int_equal(t.region_period_ns, 5 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_numbers_follow_from_how_long_the_budget_lasts),
		cmocka_unit_test(both_sliding_algorithms_are_leased_as_one),
		cmocka_unit_test(small_budgets_may_be_out_whole_so_that_shares_do_not_round_to_nothing),
		cmocka_unit_test(a_written_max_outstanding_sets_the_period),
		cmocka_unit_test(a_rule_without_hosts_or_rate_divides_by_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
