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
		uint64_t region_period_ms, host_period_ms, home_tick_ms, region_tick_ms, host_tick_ms, slot_ms, out_tok, ttl_ms;
	} rows[] = {
		{ LG_TOKEN_BUCKET, 10000, 60000, 10000, 3000, 750, 100, 10, 20, 100, 3000, 30000 },
		{ LG_SLIDING_WINDOW, 10000, 60000, 0, 3000, 750, 100, 10, 20, 100, 3000, 30000 },
		{ LG_TOKEN_BUCKET, 10000, 10000, 10000, 1000, 250, 100, 10, 20, 50, 3000, 10000 },
		{ LG_SLIDING_WINDOW, 10000, 10000, 0, 1000, 250, 20, 10, 20, 20, 3000, 10000 },
		{ LG_TOKEN_BUCKET, 1000, 1000, 1000, 100, 25, 20, 2, 5, 10, 500, 10000 },
		{ LG_SLIDING_WINDOW, 1000, 1000, 0, 100, 25, 20, 2, 5, 10, 500, 10000 },
		/* A day's window: the longest period. A bucket of six milliseconds: the shortest. */
		{ LG_SLIDING_WINDOW, 1000000, 86400000, 0, 5000, 1250, 100, 10, 20, 100, 300000, 30000 },
		{ LG_TOKEN_BUCKET, 10000000, 1000, 65536, 100, 25, 20, 2, 5, 10, 32768, 10000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_terms t = make(rows[i].algorithm, rows[i].limit_tok, rows[i].per_ms * MS, rows[i].burst_tok);

		assert_int_equal(t.algorithm, rows[i].algorithm);
		assert_int_equal(t.budget_tok, rows[i].burst_tok ? rows[i].burst_tok : rows[i].limit_tok);
		assert_int_equal(t.region_period_ns, rows[i].region_period_ms * MS);
		assert_int_equal(t.host_period_ns, rows[i].host_period_ms * MS);
		assert_int_equal(t.home_tick_ns, rows[i].home_tick_ms * MS);
		assert_int_equal(t.region_tick_ns, rows[i].region_tick_ms * MS);
		assert_int_equal(t.host_tick_ns, rows[i].host_tick_ms * MS);
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

/* 10,000 per second: spans of so many milliseconds are bursts of ten times as many tokens. */
static struct lg_terms of_class(enum lg_rule_class class, uint64_t span_ms, uint64_t far_rtt_ns)
{
	struct lg_rule_def rule = { .class = class, .algorithm = LG_TOKEN_BUCKET, .limit_tok = 10000, .per_ns = S,
				    .burst_tok = 10 * span_ms };
	struct lg_terms t;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12, .far_rtt_ns = far_rtt_ns }, &t);
	return t;
}

TEST(a_strict_rule_lends_less_the_longer_its_span_but_what_its_period_needs)
{
	static const struct { uint64_t span_ms, rtt_ms, permille; } rows[] = {
		{ 600000, 1, 100 }, { 60000, 1, 100 }, { 10000, 1, 200 }, { 8500, 1, 250 }, { 5500, 1, 300 },
		{ 1000, 1, 500 },
		/* below a minute the period is a tenth: 1.6 x 3.5 + 2 x 0.23 s */
		{ 35000, 1, 173 },
		/* a round trip of 2 s: 1.6 x 1 s + 2 x 2.18 s are needed, and 30 % is the most */
		{ 10000, 2000, 300 },
		/* 1.6 x 1 + 2 x 0.33 = 2.26 s */
		{ 10000, 150, 226 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_terms t = of_class(LG_CLASS_STRICT, rows[i].span_ms, rows[i].rtt_ms * MS);
		struct lg_terms lease = of_class(LG_CLASS_LEASE, rows[i].span_ms, rows[i].rtt_ms * MS);

		assert_int_equal(t.max_outstanding_tok * 1000 / t.budget_tok, rows[i].permille);
		assert_true(t.max_outstanding_tok <= lease.max_outstanding_tok);
		assert_int_equal(t.region_period_ns, lease.region_period_ns);
	}
}

TEST(a_sync_rule_reports_as_often_as_can_be_and_lends_what_that_needs)
{
	struct lg_terms t = of_class(LG_CLASS_SYNC, 60000, 150 * MS);

	assert_int_equal(t.region_period_ns, 100 * MS);
	assert_int_equal(t.host_period_ns, 25 * MS);
	assert_int_equal(t.max_outstanding_tok, 60000);
	/* a tenth of 5 s is less than 1.6 x 0.1 + 2 x 0.255 s (slot 25, home 50, region 10, host 20 ms) */
	t = of_class(LG_CLASS_SYNC, 5000, 150 * MS);
	assert_int_equal(t.max_outstanding_tok, 6700);
}

TEST(a_message_budget_sets_the_period_as_long_as_half_of_the_budget_covers_it)
{
	static const struct { uint32_t mps; uint64_t period_ms, out_permille; } rows[] = {
		{ 30000, 100, 300 },	/* 3 regions, 30/s */
		{ 31000, 100, 300 },	/* no shorter */
		{ 1000, 3000, 300 },
		{ 250, 12000, 332 },	/* 1.6 x 12 + 2 x 0.38 of 60 s */
		{ 10, 18275, 500 },	/* 300 s were needed; half of the budget is 30 s */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .class = LG_CLASS_LEASE, .algorithm = LG_SLIDING_WINDOW, .limit_tok = 60000, .per_ns = 60 * S,
					    .burst_tok = 60000, .lease.rpc_budget_mps = rows[i].mps };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.region_period_ns / MS, rows[i].period_ms);
		assert_int_equal(t.max_outstanding_tok / 60, rows[i].out_permille);
	}
}

TEST(limits_that_are_small_for_their_hosts_are_owned_by_one)
{
	static const struct { enum lg_algorithm algorithm; uint64_t cost, limit_tok; enum lg_lease_owner written; bool owner; } rows[] = {
		{ LG_TOKEN_BUCKET, 1, 95, LG_OWNER_AUTO, true }, { LG_TOKEN_BUCKET, 1, 96, LG_OWNER_AUTO, false },
		{ LG_SLIDING_WINDOW, 1, 959, LG_OWNER_AUTO, true }, { LG_SLIDING_WINDOW, 1, 960, LG_OWNER_AUTO, false },
		{ LG_FIXED_WINDOW, 1, 959, LG_OWNER_AUTO, true }, { LG_TOKEN_BUCKET, 1, 95, LG_OWNER_OFF, false },
		{ LG_TOKEN_BUCKET, 1, 100000, LG_OWNER_ON, true }, { LG_TOKEN_BUCKET, 5, 479, LG_OWNER_AUTO, true },
		{ LG_TOKEN_BUCKET, 5, 480, LG_OWNER_AUTO, false }, { LG_SLIDING_WINDOW, 5, 4799, LG_OWNER_AUTO, true },
		{ LG_SLIDING_WINDOW, 5, 4800, LG_OWNER_AUTO, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .algorithm = rows[i].algorithm, .cost = rows[i].cost, .limit_tok = rows[i].limit_tok,
					    .per_ns = 60 * S, .burst_tok = rows[i].limit_tok, .lease.owner = rows[i].written };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.owner, rows[i].owner);
	}
}

TEST(what_hosts_may_spend_at_first_leaves_half_of_the_budget_to_lend)
{
	static const struct { uint64_t written_tok, cold_tok; } rows[] = { { 0, 0 }, { 1, 1 }, { 5, 5 }, { 6, 5 }, { 120, 5 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .algorithm = LG_TOKEN_BUCKET, .limit_tok = 120, .per_ns = 60 * S, .burst_tok = 120,
					    .lease.cold_start_tok = rows[i].written_tok };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.cold_tok, rows[i].cold_tok);
	}
}

TEST(what_hosts_may_spend_at_first_is_taken_off_what_is_leased)
{
	static const struct {
		enum lg_algorithm algorithm;
		uint64_t limit_tok, burst_tok, written_tok, cold_tok, leased_limit_tok, leased_budget_tok;
	} rows[] = {
		{ LG_SLIDING_WINDOW, 100, 100, 0, 0, 100, 100 },
		{ LG_SLIDING_WINDOW, 100, 100, 1, 1, 88, 88 },
		{ LG_SLIDING_LOG, 100, 100, 5, 4, 52, 52 },
		{ LG_FIXED_WINDOW, 24, 24, 1, 1, 12, 12 },
		{ LG_FIXED_WINDOW, 23, 23, 1, 0, 23, 23 },
		{ LG_TOKEN_BUCKET, 1000, 120, 1, 1, 900, 108 },
		{ LG_TOKEN_BUCKET, 7, 120, 1, 1, 6, 108 },
		{ LG_TOKEN_BUCKET, 2, 24, 1, 1, 1, 12 },
		{ LG_TOKEN_BUCKET, 1, 24, 1, 0, 1, 24 }, /* of the rate nothing would be left */
		{ LG_TOKEN_BUCKET, 0, 24, 1, 0, 0, 24 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .algorithm = rows[i].algorithm, .limit_tok = rows[i].limit_tok, .per_ns = 60 * S,
					    .burst_tok = rows[i].burst_tok, .lease.cold_start_tok = rows[i].written_tok };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.cold_tok, rows[i].cold_tok);
		assert_int_equal(t.limit_tok, rows[i].leased_limit_tok);
		assert_int_equal(t.budget_tok, rows[i].leased_budget_tok);
		assert_int_equal(t.rule_limit_tok, rows[i].limit_tok);
		assert_int_equal(t.rule_budget_tok, rows[i].burst_tok);
	}
}

TEST(unwritten_it_is_one_packet_of_a_fair_share_that_is_large_for_its_hosts)
{
	static const struct {
		enum lg_rule_class class;
		enum lg_algorithm algorithm;
		enum lg_unit unit;
		uint64_t limit_tok, burst_tok, per_s, written_tok;
		uint32_t hosts;
		uint64_t cold_tok, cost;
	} rows[] = {
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 60, LG_COLD_START_AUTO, 12, 1, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1199, 1199, 60, LG_COLD_START_AUTO, 12, 0, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 60, LG_COLD_START_AUTO, 13, 0, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 60, LG_COLD_START_AUTO, 0, 0, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 60, 0, 12, 0, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1199, 1199, 60, 1, 12, 1, 1 },
		{ LG_CLASS_STRICT, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 60, LG_COLD_START_AUTO, 12, 0, 1 },
		{ LG_CLASS_SYNC, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 60, LG_COLD_START_AUTO, 12, 0, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_BYTES, 1200, 1200, 60, LG_COLD_START_AUTO, 12, 0, 1 },
		{ LG_CLASS_LEASE, LG_FIXED_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 600, LG_COLD_START_AUTO, 12, 1, 1 },
		{ LG_CLASS_LEASE, LG_FIXED_WINDOW, LG_UNIT_PACKETS, 1200, 1200, 601, LG_COLD_START_AUTO, 12, 0, 1 },
		{ LG_CLASS_LEASE, LG_TOKEN_BUCKET, LG_UNIT_PACKETS, 100, 1200, 50, LG_COLD_START_AUTO, 12, 1, 1 },
		{ LG_CLASS_LEASE, LG_TOKEN_BUCKET, LG_UNIT_PACKETS, 100, 1200, 51, LG_COLD_START_AUTO, 12, 0, 1 }, /* 612 s to mint it */
		{ LG_CLASS_LEASE, LG_TOKEN_BUCKET, LG_UNIT_PACKETS, 9999, 1199, 60, LG_COLD_START_AUTO, 12, 0, 1 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 6000, 6000, 60, LG_COLD_START_AUTO, 12, 5, 5 },
		{ LG_CLASS_LEASE, LG_SLIDING_WINDOW, LG_UNIT_PACKETS, 5999, 5999, 60, LG_COLD_START_AUTO, 12, 0, 5 },
		{ LG_CLASS_LEASE, LG_TOKEN_BUCKET, LG_UNIT_PACKETS, 0, 1200, 60, LG_COLD_START_AUTO, 12, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .class = rows[i].class, .algorithm = rows[i].algorithm, .unit = rows[i].unit, .cost = rows[i].cost,
					    .limit_tok = rows[i].limit_tok, .per_ns = rows[i].per_s * S, .burst_tok = rows[i].burst_tok,
					    .lease.cold_start_tok = rows[i].written_tok };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = rows[i].hosts }, &t);
		assert_int_equal(t.cold_tok, rows[i].cold_tok);
		assert_int_equal(t.budget_tok, rows[i].burst_tok - rows[i].cold_tok * rows[i].hosts);
	}
}

TEST(shares_of_a_strict_rule_are_taken_off_what_is_leased)
{
	static const struct {
		enum lg_rule_class class;
		enum lg_fallback fallback;
		enum lg_algorithm algorithm;
		uint64_t limit_tok, burst_tok, written_tok, shares_tok, leased_limit_tok, leased_budget_tok;
	} rows[] = {
		{ LG_CLASS_STRICT, LG_FALLBACK_SHARE, LG_SLIDING_WINDOW, 1009, 1009, 0, 100, 909, 909 },
		{ LG_CLASS_SYNC, LG_FALLBACK_SHARE, LG_FIXED_WINDOW, 1000, 1000, 0, 100, 900, 900 },
		{ LG_CLASS_STRICT, LG_FALLBACK_SHARE, LG_TOKEN_BUCKET, 1000, 300, 0, 30, 900, 270 },
		{ LG_CLASS_STRICT, LG_FALLBACK_SHARE, LG_TOKEN_BUCKET, 1000, 300, 1, 30, 860, 258 },
		{ LG_CLASS_STRICT, LG_FALLBACK_SHARE, LG_TOKEN_BUCKET, 9, 300, 0, 0, 9, 300 },
		{ LG_CLASS_STRICT, LG_FALLBACK_SHARE, LG_TOKEN_BUCKET, 1000, 9, 0, 0, 1000, 9 },
		{ LG_CLASS_STRICT, LG_FALLBACK_DENY, LG_SLIDING_WINDOW, 1000, 1000, 0, 0, 1000, 1000 },
		{ LG_CLASS_LEASE, LG_FALLBACK_SHARE, LG_SLIDING_WINDOW, 1000, 1000, 0, 0, 1000, 1000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .scope = LG_SCOPE_GLOBAL, .class = rows[i].class, .fallback = rows[i].fallback,
					    .algorithm = rows[i].algorithm, .limit_tok = rows[i].limit_tok, .per_ns = 60 * S,
					    .burst_tok = rows[i].burst_tok, .lease.cold_start_tok = rows[i].written_tok };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.shares_tok, rows[i].shares_tok);
		assert_int_equal(t.limit_tok, rows[i].leased_limit_tok);
		assert_int_equal(t.budget_tok, rows[i].leased_budget_tok);
		assert_int_equal(t.rule_limit_tok, rows[i].limit_tok);
		assert_int_equal(t.rule_budget_tok, rows[i].burst_tok);
	}
}

TEST(a_host_that_forgot_starts_keys_with_nothing_for_a_span)
{
	struct lg_rule_def rule = { .algorithm = LG_SLIDING_WINDOW, .limit_tok = 120, .per_ns = 500 * S, .burst_tok = 120,
				    .lease.cold_start_tok = 2 };
	struct lg_terms t;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
	assert_int_equal(lg_terms_cold_rest_ns(&t), 502 * S); /* two thousandths and a second more */
	assert_int_equal(lg_terms_cold_now_tok(&t, 0, 0), 2);
	assert_int_equal(lg_terms_cold_now_tok(&t, 9 * S, 9 * S), 0);
	assert_int_equal(lg_terms_cold_now_tok(&t, 9 * S, 511 * S - 1), 0);
	assert_int_equal(lg_terms_cold_now_tok(&t, 9 * S, 511 * S), 2);
	t.algorithm = LG_TOKEN_BUCKET;
	t.limit_tok = 1;
	t.per_ns = LG_PER_MAX_NS;
	t.budget_tok = LG_BURST_MAX_TOK;
	assert_true(lg_terms_cold_rest_ns(&t) > LG_PER_MAX_NS); /* and does not wrap */
}

TEST(short_spans_are_lent_as_limits)
{
	static const struct {
		enum lg_algorithm algorithm;
		uint64_t limit_tok, per_ms, burst_tok, rtt_ms;
		enum lg_lease_kind written, kind;
	} rows[] = {
		{ LG_SLIDING_WINDOW, 1000, 1000, 0, 150, LG_LEASE_AUTO, LG_LEASE_LIMIT },
		{ LG_FIXED_WINDOW, 1000, 1000, 0, 150, LG_LEASE_AUTO, LG_LEASE_LIMIT },
		{ LG_SLIDING_WINDOW, 10000, 60000, 0, 150, LG_LEASE_AUTO, LG_LEASE_BLOCK },
		{ LG_SLIDING_WINDOW, 10000, 10000, 0, 150, LG_LEASE_AUTO, LG_LEASE_BLOCK },
		/* Lambda is the round trip and 70 ms at 10 s: a twentieth of it */
		{ LG_SLIDING_WINDOW, 10000, 10000, 0, 430, LG_LEASE_AUTO, LG_LEASE_BLOCK },
		{ LG_SLIDING_WINDOW, 10000, 10000, 0, 431, LG_LEASE_AUTO, LG_LEASE_LIMIT },
		/* and 37 ms of a bucket that lasts a second or less: half of it, which may be out, against 2 x 187 ms of 1,000 per second */
		{ LG_TOKEN_BUCKET, 1000, 1000, 748, 150, LG_LEASE_AUTO, LG_LEASE_BLOCK },
		{ LG_TOKEN_BUCKET, 1000, 1000, 747, 150, LG_LEASE_AUTO, LG_LEASE_LIMIT },
		{ LG_TOKEN_BUCKET, 1000, 1000, 10, 150, LG_LEASE_BLOCK, LG_LEASE_BLOCK },
		{ LG_TOKEN_BUCKET, 1000, 1000, 1000, 150, LG_LEASE_LIMIT, LG_LEASE_LIMIT },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .algorithm = rows[i].algorithm, .limit_tok = rows[i].limit_tok, .per_ns = rows[i].per_ms * MS,
					    .burst_tok = rows[i].burst_tok, .lease.kind = rows[i].written };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12, .far_rtt_ns = rows[i].rtt_ms * MS }, &t);
		assert_int_equal(t.kind, rows[i].kind);
	}
}

TEST(the_fleet_is_what_the_configuration_lists)
{
	struct lg_config config = { .n_regions = 2, .regions = { { .hosts = 4 }, { .hosts = 7 } }, .far_rtt_ns = 80 * MS };
	struct lg_fleet fleet;

	lg_fleet_init(&config, &fleet);
	assert_int_equal(fleet.regions, 2);
	assert_int_equal(fleet.hosts, 11);
	assert_int_equal(fleet.far_rtt_ns, 80 * MS);
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

TEST(periods_grow_with_little_use_where_nothing_else_is_written)
{
	static const struct { enum lg_rule_class class; uint32_t permille, mps; bool adaptive; } rows[] = {
		{ LG_CLASS_LEASE, 0, 0, true }, { LG_CLASS_STRICT, 0, 0, true }, { LG_CLASS_SYNC, 0, 0, false },
		{ LG_CLASS_LEASE, 300, 0, false }, { LG_CLASS_LEASE, 0, 1000, false }, { LG_CLASS_STRICT, 100, 0, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_rule_def rule = { .class = rows[i].class, .algorithm = LG_TOKEN_BUCKET, .limit_tok = 10000, .per_ns = 60 * S,
					    .burst_tok = 10000, .lease = { .max_outstanding_permille = rows[i].permille,
									   .rpc_budget_mps = rows[i].mps } };
		struct lg_terms t;

		lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
		assert_int_equal(t.adaptive, rows[i].adaptive);
		assert_int_equal(lg_terms_quiet_tok(&t), rows[i].adaptive ? 66 : 0);
		assert_int_equal(lg_terms_quiet_period_ns(&t), rows[i].adaptive ? 10 * S : t.region_period_ns);
		assert_int_equal(lg_terms_period_ns(&t, 0), rows[i].adaptive ? 10 * S : t.region_period_ns);
	}
}

TEST(a_period_is_as_long_as_a_fiftieth_of_the_budget_covers_it_in_all_regions)
{
	struct lg_terms t = make(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);

	/* 66 tokens: at 6.6 per second they last for a third of a lease, at 22 for the period */
	assert_int_equal(lg_terms_period_ns(&t, 6600), 10 * S);
	assert_int_equal(lg_terms_period_ns(&t, 13200), 5 * S);
	assert_int_equal(lg_terms_period_ns(&t, 21999) / MS, 3000);
	assert_int_equal(lg_terms_period_ns(&t, 22000), 3 * S);
	assert_int_equal(lg_terms_period_ns(&t, UINT64_MAX), 3 * S);
	/* a lease of 10 s */
	t = make(LG_TOKEN_BUCKET, 10000, 10 * S, 10000);
	assert_int_equal(lg_terms_quiet_period_ns(&t) / MS, 3333);
	/* never longer than 40 s */
	t.ttl_ns = 150 * S;
	assert_int_equal(lg_terms_quiet_period_ns(&t), 40 * S);
	/* so few tokens that each of them counts */
	t = make(LG_TOKEN_BUCKET, 149, 60 * S, 149);
	assert_int_equal(lg_terms_quiet_tok(&t), 0);
	assert_int_equal(lg_terms_period_ns(&t, 0), 3 * S);
	t = make(LG_TOKEN_BUCKET, 150, 60 * S, 150);
	assert_int_equal(lg_terms_quiet_tok(&t), 1);
	assert_int_equal(lg_terms_period_ns(&t, 0), 10 * S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_numbers_follow_from_how_long_the_budget_lasts),
		cmocka_unit_test(both_sliding_algorithms_are_leased_as_one),
		cmocka_unit_test(small_budgets_may_be_out_whole_so_that_shares_do_not_round_to_nothing),
		cmocka_unit_test(a_written_max_outstanding_sets_the_period),
		cmocka_unit_test(a_strict_rule_lends_less_the_longer_its_span_but_what_its_period_needs),
		cmocka_unit_test(a_sync_rule_reports_as_often_as_can_be_and_lends_what_that_needs),
		cmocka_unit_test(a_message_budget_sets_the_period_as_long_as_half_of_the_budget_covers_it),
		cmocka_unit_test(limits_that_are_small_for_their_hosts_are_owned_by_one),
		cmocka_unit_test(what_hosts_may_spend_at_first_leaves_half_of_the_budget_to_lend),
		cmocka_unit_test(what_hosts_may_spend_at_first_is_taken_off_what_is_leased),
		cmocka_unit_test(unwritten_it_is_one_packet_of_a_fair_share_that_is_large_for_its_hosts),
		cmocka_unit_test(shares_of_a_strict_rule_are_taken_off_what_is_leased),
		cmocka_unit_test(a_host_that_forgot_starts_keys_with_nothing_for_a_span),
		cmocka_unit_test(short_spans_are_lent_as_limits),
		cmocka_unit_test(periods_grow_with_little_use_where_nothing_else_is_written),
		cmocka_unit_test(a_period_is_as_long_as_a_fiftieth_of_the_budget_covers_it_in_all_regions),
		cmocka_unit_test(the_fleet_is_what_the_configuration_lists),
		cmocka_unit_test(a_rule_without_hosts_or_rate_divides_by_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
