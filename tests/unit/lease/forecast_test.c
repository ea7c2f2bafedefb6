// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/forecast.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/lease/lease_test.h"

#define BUCKET LG_TOKEN_BUCKET
#define WINDOW LG_SLIDING_WINDOW
#define FIXED LG_FIXED_WINDOW

static const struct lg_fleet fleet = { .regions = 3, .hosts = 12 };

static struct lg_rule_def rule_of(enum lg_algorithm algorithm, uint64_t limit_tok, uint64_t per_ms, uint64_t burst_tok)
{
	return (struct lg_rule_def){ .scope = LG_SCOPE_GLOBAL, .class = LG_CLASS_LEASE, .algorithm = algorithm, .limit_tok = limit_tok,
				     .per_ns = per_ms * MS, .burst_tok = burst_tok };
}

static struct lg_forecast forecast_of(struct lg_rule_def rule)
{
	struct lg_forecast f;

	lg_forecast_init(&rule, &fleet, &f);
	return f;
}

TEST(a_region_with_all_the_traffic_is_served_as_the_formulas_say)
{
	static const struct {
		enum lg_algorithm algorithm;
		enum lg_lease_kind kind;
		uint64_t limit_tok, per_ms, burst_tok, rtt_ms;
		uint32_t below, above;
	} rows[] = {
		/* by Erlang, W / (W + Lambda) far above: Lambda is the round trip and 37 ms at 1 s, 70 ms at 10 s, 230 ms at a minute */
		{ WINDOW, LG_LEASE_BLOCK, 1000, 1000, 0, 150, 884, 843 },
		{ WINDOW, LG_LEASE_BLOCK, 1000, 1000, 0, 50, 956, 920 },
		{ WINDOW, LG_LEASE_BLOCK, 10000, 10000, 0, 150, 1000, 978 },
		{ WINDOW, LG_LEASE_BLOCK, 10000, 60000, 0, 150, 1000, 994 },
		/* of so many that chance is nothing beside them */
		{ WINDOW, LG_LEASE_BLOCK, 100001, 1000, 0, 150, 887, 842 },
		/* of few tokens perfect service is little, and nearly reached */
		{ WINDOW, LG_LEASE_BLOCK, 5, 1000, 0, 150, 905, 876 },
		/* by itself, over half a millisecond: 22.5 ms, and a window 2 ms longer */
		{ WINDOW, LG_LEASE_LIMIT, 1000, 1000, 0, 150, 993, 976 },
		{ FIXED, LG_LEASE_LIMIT, 1000, 1000, 0, 150, 990, 974 },
		{ BUCKET, LG_LEASE_LIMIT, 1000, 1000, 50, 150, 1000, 998 },
		/* once in 17.5 ms */
		{ BUCKET, LG_LEASE_LIMIT, 1000, 1000, 10, 150, 602, 571 },
		/* 1 - RTT / W below the limit */
		{ FIXED, LG_LEASE_BLOCK, 1000, 1000, 0, 150, 850, 1000 },
		{ FIXED, LG_LEASE_BLOCK, 10000, 10000, 0, 150, 985, 1000 },
		{ FIXED, LG_LEASE_BLOCK, 10000, 10000, 0, 0, 1000, 1000 },
		/* all that may be out once in 187 ms and a thirty-second of it: half of a burst of 200, all of a small one */
		{ BUCKET, LG_LEASE_BLOCK, 1000, 1000, 200, 150, 546, 519 },
		{ BUCKET, LG_LEASE_BLOCK, 1000, 1000, 50, 150, 273, 259 },
		{ BUCKET, LG_LEASE_BLOCK, 1000, 1000, 50, 50, 587, 557 },
		{ BUCKET, LG_LEASE_BLOCK, 1000, 1000, 1000, 150, 1000, 1000 },
		{ BUCKET, LG_LEASE_BLOCK, 10000, 60000, 10000, 150, 1000, 1000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = rule_of(rows[i].algorithm, rows[i].limit_tok, rows[i].per_ms, rows[i].burst_tok);
		struct lg_terms t;

		lg_terms_init(&rule, &fleet, &t);
		t.kind = rows[i].kind;
		assert_int_equal(lg_forecast_served(&t, LG_FORECAST_BELOW_PERMILLE, rows[i].rtt_ms * MS), rows[i].below);
		assert_int_equal(lg_forecast_served(&t, LG_FORECAST_ABOVE_PERMILLE, rows[i].rtt_ms * MS), rows[i].above);
	}
}

TEST(little_traffic_is_served_whole_and_no_load_divides_by_nothing)
{
	struct lg_rule_def rule = rule_of(WINDOW, 1000, 1000, 0), nothing = rule_of(BUCKET, 0, 1000, 0);
	struct lg_terms t;

	lg_terms_init(&rule, &fleet, &t);
	t.kind = LG_LEASE_BLOCK;
	assert_int_equal(lg_forecast_served(&t, 0, 150 * MS), 1000);
	assert_int_equal(lg_forecast_served(&t, 700, 150 * MS), 1000);
	assert_int_equal(lg_forecast_served(&t, 800, 150 * MS), 996);
	assert_int_equal(lg_forecast_served(&t, 900, 150 * MS), 926);
	lg_terms_init(&nothing, &fleet, &t);
	assert_int_equal(lg_forecast_served(&t, 950, 150 * MS), 1000);
}

TEST(a_small_limit_is_served_by_tokens_per_host)
{
	static const struct { enum lg_algorithm algorithm; uint64_t limit_tok; uint32_t low, high; } rows[] = {
		{ BUCKET, 1, 40, 60 }, { BUCKET, 5, 255, 270 }, { BUCKET, 12, 569, 569 }, { BUCKET, 18, 690, 700 }, { BUCKET, 24, 822, 822 },
		{ BUCKET, 48, 987, 987 }, { BUCKET, 95, 990, 995 }, { BUCKET, 96, 1000, 1000 }, { BUCKET, 1000000, 1000, 1000 },
		{ WINDOW, 5, 240, 255 }, { WINDOW, 96, 919, 919 }, { WINDOW, 200, 938, 942 }, { WINDOW, 959, 973, 975 },
		{ WINDOW, 960, 1000, 1000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = rule_of(rows[i].algorithm, rows[i].limit_tok, 60000, rows[i].limit_tok);
		struct lg_terms t;

		lg_terms_init(&rule, &fleet, &t);
		assert_in_range(lg_forecast_small(&t), rows[i].low, rows[i].high);
		/* A limit of as many packets, each of which costs 7. */
		rule = rule_of(rows[i].algorithm, 7 * rows[i].limit_tok, 60000, 7 * rows[i].limit_tok);
		rule.cost = 7;
		lg_terms_init(&rule, &fleet, &t);
		assert_in_range(lg_forecast_small(&t), rows[i].low, rows[i].high);
	}
}

TEST(one_host_shares_with_nobody)
{
	struct lg_rule_def rule = rule_of(BUCKET, 1, 60000, 1);
	struct lg_terms t;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = 1, .hosts = 1 }, &t);
	assert_int_equal(lg_forecast_small(&t), 1000);
}

TEST(messages_follow_from_periods_and_pushes_from_ticks)
{
	struct lg_forecast f = forecast_of(rule_of(BUCKET, 10000, 60000, 10000));

	assert_int_equal(f.home.reports_mps, 1000);		/* three regions, each once in 3 s */
	assert_int_equal(f.home.pushes_mps, 30000);		/* to each at each tick of 100 ms */
	assert_int_equal(f.region.reports_mps, 16000);		/* twelve hosts, each once in 750 ms */
	assert_int_equal(f.region.pushes_mps, 120000);		/* what the home pushes is passed on at once */
}

TEST(a_key_that_is_hardly_used_costs_a_report_in_a_third_of_its_lease)
{
	struct lg_rule_def rule = rule_of(BUCKET, 10000, 60000, 10000);
	struct lg_forecast f = forecast_of(rule);

	assert_int_equal(f.quiet.reports_mps, 300);	/* three regions, each once in 10 s */
	assert_int_equal(f.quiet.pushes_mps, 0);
	assert_int_equal(f.quiet_mtps, 6600);		/* 66 tokens in 10 s: a fiftieth of the budget in all regions */
	/* a written period is kept, so few tokens are not, and parts of a limit have a period of their own */
	rule.lease.rpc_budget_mps = 1000;
	assert_int_equal(forecast_of(rule).quiet_mtps, 0);
	assert_int_equal(forecast_of(rule).quiet.reports_mps, 1000);
	assert_int_equal(forecast_of(rule_of(BUCKET, 149, 60000, 149)).quiet_mtps, 0);
	assert_int_equal(forecast_of(rule_of(BUCKET, 150, 60000, 150)).quiet_mtps, 100);
	rule = rule_of(BUCKET, 10000, 60000, 10000);
	rule.lease.kind = LG_LEASE_LIMIT;
	assert_int_equal(forecast_of(rule).quiet_mtps, 0);
	assert_int_equal(forecast_of(rule).quiet.reports_mps, forecast_of(rule).home.reports_mps);
}

TEST(what_is_out_at_worst_is_what_the_period_needs)
{
	/* 10,000 a minute: 1.6 x 3 s + 2 x 380 ms of 166.7 per second, and a token for each host */
	assert_int_equal(forecast_of(rule_of(BUCKET, 10000, 60000, 10000)).out_tok, 926 + 12);
	assert_int_equal(forecast_of(rule_of(BUCKET, 10000, 60000, 10000)).stranded_tok, 3000);
	/* never more than may be out */
	assert_int_equal(forecast_of(rule_of(WINDOW, 1000, 1000, 0)).out_tok, forecast_of(rule_of(WINDOW, 1000, 1000, 0)).stranded_tok);
}

TEST(a_new_life_of_a_home_withholds_what_is_reserved_or_all)
{
	static const struct { enum lg_algorithm algorithm; enum lg_rule_class class; uint64_t tok, ms; } rows[] = {
		{ BUCKET, LG_CLASS_LEASE, 10000, 60000 },
		{ BUCKET, LG_CLASS_STRICT, 1752, 10512 },	/* two and a half periods of 3 s, and 3 s until it begins */
		{ WINDOW, LG_CLASS_LEASE, 10000, 91000 },
		{ WINDOW, LG_CLASS_STRICT, 1752, 91000 },
		{ WINDOW, LG_CLASS_SYNC, 918, 71000 },	/* its periods are shorter, but marks are no more than one a second */
		{ FIXED, LG_CLASS_STRICT, 1752, 60000 },
	};
	struct lg_rule_def rule;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		rule = rule_of(rows[i].algorithm, 10000, 60000, 10000);
		rule.class = rows[i].class;
		assert_int_equal(forecast_of(rule).failover_tok, rows[i].tok);
		assert_int_equal(forecast_of(rule).failover_ns / MS, rows[i].ms);
	}
	/* never more than there is, and parts go on */
	rule = rule_of(BUCKET, 10000, 60000, 100);
	rule.class = LG_CLASS_STRICT;
	rule.lease.kind = LG_LEASE_BLOCK;
	assert_int_equal(forecast_of(rule).failover_tok, 100);
	rule.lease.kind = LG_LEASE_LIMIT;
	assert_int_equal(forecast_of(rule).failover_ns / MS, 11000);
}

TEST(a_wider_window_of_the_same_rate_is_told_where_round_trips_are_more_than_a_hundredth)
{
	struct lg_rule_def second = rule_of(WINDOW, 1000, 1000, 0), ten = rule_of(WINDOW, 10000, 10000, 0);
	struct lg_rule_def minute = rule_of(WINDOW, 10000, 60000, 0), bucket = rule_of(BUCKET, 1000, 1000, 100);
	struct lg_forecast f;

	second.lease.kind = ten.lease.kind = bucket.lease.kind = LG_LEASE_BLOCK;
	f = forecast_of(second);
	assert_int_equal(f.price[f.wider].factor, 60);
	assert_in_range(f.price[0].unserved_ppm, 156500, 157500);
	assert_in_range(f.price[1].unserved_ppm, 21000, 22000);
	assert_in_range(f.price[2].unserved_ppm, 6000, 6500);
	assert_int_equal(f.price[2].span_ns, 60 * S);
	assert_int_equal(f.price[0].home.reports_mps, 30000);
	assert_int_equal(f.price[2].home.reports_mps, 1000);
	f = forecast_of(ten);
	assert_int_equal(f.price[f.wider].factor, 10);
	f = forecast_of(minute);
	assert_int_equal(f.wider, 0);
	/* a burst of 100 ms is short, one of a second is not */
	f = forecast_of(bucket);
	assert_int_equal(f.price[f.wider].factor, 10);
	assert_int_equal(f.price[f.wider].span_ns, 1 * S);
}

static const char *warned(struct lg_rule_def rule, size_t i)
{
	static char text[512];
	struct lg_forecast f = forecast_of(rule);

	return lg_forecast_warning(&f, &rule, i, text, sizeof(text)) == 0 ? text : NULL;
}

TEST(what_the_terms_cannot_keep_is_warned_of)
{
	struct lg_rule_def rule = rule_of(BUCKET, 10000, 60000, 10000);

	assert_null(warned(rule, 0));
	rule.lease.rpc_budget_mps = 165;
	assert_null(warned(rule, 0));
	rule.lease.rpc_budget_mps = 100;
	assert_non_null(strstr(warned(rule, 0), "rpc_budget of 0.1/s cannot be kept"));
	assert_null(warned(rule, 1));
	rule.lease.cold_start_tok = 416;	/* of 10,000 / 2 / 12 */
	assert_null(warned(rule, 1));
	rule.lease.cold_start_tok = 417;
	assert_non_null(strstr(warned(rule, 1), "416 each are set aside"));
	assert_null(warned(rule, 2));

	rule = rule_of(BUCKET, 10000, 1000, 20000);
	rule.lease.max_outstanding_permille = 300;	/* 600 ms; 1.6 x 0.1 + 2 x 0.21 s are needed */
	assert_null(warned(rule, 0));
	rule.lease.max_outstanding_permille = 250;
	assert_non_null(strstr(warned(rule, 0), "max_outstanding of 5000 is less"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_with_all_the_traffic_is_served_as_the_formulas_say),
		cmocka_unit_test(little_traffic_is_served_whole_and_no_load_divides_by_nothing),
		cmocka_unit_test(a_small_limit_is_served_by_tokens_per_host),
		cmocka_unit_test(one_host_shares_with_nobody),
		cmocka_unit_test(messages_follow_from_periods_and_pushes_from_ticks),
		cmocka_unit_test(a_key_that_is_hardly_used_costs_a_report_in_a_third_of_its_lease),
		cmocka_unit_test(what_is_out_at_worst_is_what_the_period_needs),
		cmocka_unit_test(a_new_life_of_a_home_withholds_what_is_reserved_or_all),
		cmocka_unit_test(a_wider_window_of_the_same_rate_is_told_where_round_trips_are_more_than_a_hundredth),
		cmocka_unit_test(what_the_terms_cannot_keep_is_warned_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
