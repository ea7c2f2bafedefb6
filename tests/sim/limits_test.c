// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a user gets of a limit that is spent within a few round trips, whose home lends the limit in parts: 1,000 a second, and a bucket that
 * holds a tenth of that; the home, two more regions 100 and 150 ms away, four hosts in each, against a limiter that sees everything at
 * once. Bands, not digits. The law is checked in every run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

#define MS 1000000ull
#define S (1000 * MS)
#define END_S 60
#define WARM_S 10
#define MOVE_S 30

enum shape { EVEN, ONE, MOVE, HOP, RIVALS, NOBODY };

struct run {
	enum lg_algorithm algorithm;
	enum shape shape;
	double load;		/* offered, in parts of the limit */
	double loss;
	enum sim_fault_kind fault;
	double fault_for_s;	/* 0: none */
	uint64_t seed;
	/* expected */
	double share;		/* of a perfect limiter's service */
	double back_s;		/* until 95 % of it after the event; 0 no matter */
};

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	const struct sim_config *c = sim_config_of(s);
	double one = c->load * (double)c->terms.limit_tok * 1e9 / (double)c->terms.per_ns / c->hosts_per_region;

	(void)host;
	switch ((enum shape)c->shape) {
	case EVEN: return one / c->n_regions;
	case ONE: return region == 2 ? one : 0;
	case MOVE: return region == (now_s < MOVE_S ? 1u : 2u) ? one : 0;
	case HOP: return region == (uint32_t)now_s % c->n_regions ? one : 0;
	case RIVALS: return region == 1 ? 0.9 * one : region == 2 ? 0.1 * one : 0;
	case NOBODY: return now_s < 20 ? one / c->n_regions : 0;
	}
	return 0;
}

static void start(const struct run *run, struct sim **ret_sim)
{
	struct lg_rule_def rule = { .algorithm = run->algorithm, .limit_tok = 1000, .per_ns = 1 * S, .burst_tok = 100,
				    .lease.kind = LG_LEASE_LIMIT };
	struct sim_config c = {
		.n_regions = 3, .hosts_per_region = 4, .rtt_ns = { 1 * MS, 100 * MS, 150 * MS }, .host_rtt_ns = 500000,
		.loss = run->loss, .clock_ppm = 100, .seed = run->seed, .load = run->load, .rate = rate, .shape = run->shape,
		.batch = 1, .cost_max_tok = 1, .end_ns = END_S * S, .warm_ns = WARM_S * S, .rate_max = 2 * run->load * 1000 / 4,
	};

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &c.terms);
	c.terms.kind = rule.lease.kind;
	assert_int_equal(sim_new(&c, ret_sim), 0);
	if (run->fault_for_s > 0)
		sim_fault(*ret_sim, run->fault, 1, MOVE_S * S, (uint64_t)(run->fault_for_s * 1e9));
	sim_run(*ret_sim);
	assert_string_equal(sim_result_of(*ret_sim)->broken, "");
	assert_true(sim_result_of(*ret_sim)->worst_over_tok <= 0);
	assert_true(sim_result_of(*ret_sim)->worst_potential_tok <= 0);
}

static double served(const struct sim *s)
{
	return (double)sim_result_of(s)->admitted / (double)sim_result_of(s)->perfect;
}

static double per_s(uint64_t n)
{
	return (double)n / (END_S - WARM_S);
}

/* Runs a row with two seeds. */
static void check(const char *what, const struct run *row)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		struct run run = *row;
		double back_s;

		run.seed = seed;
		start(&run, &s);
		back_s = sim_back_after_s(s, MOVE_S * S + (uint64_t)(run.fault_for_s * 1e9), 0.95);
		print_message("%s %s %.2fx: served %.4f, back after %.1f s, home %.2f + %.2f msg/s, regions %.1f + %.1f\n", what,
			      run.algorithm == LG_TOKEN_BUCKET ? "bucket" : "window", run.load, served(s), row->back_s > 0 ? back_s : 0,
			      per_s(sim_result_of(s)->asks_to_home), per_s(sim_result_of(s)->grants_from_home),
			      per_s(sim_result_of(s)->asks_to_regions), per_s(sim_result_of(s)->grants_from_regions));
		assert_true(served(s) >= row->share);
		assert_true(row->back_s == 0 || (back_s >= 0 && back_s <= row->back_s));
	}
}

#define CHECK(what, ...)                                                                                              \
	do {                                                                                                          \
		static const struct run rows[] = { __VA_ARGS__ };                                                     \
		(void)state;                                                                                          \
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)                                           \
			check(what, &rows[i]);                                                                        \
	} while (0)

#define BUCKET LG_TOKEN_BUCKET
#define WINDOW LG_SLIDING_WINDOW

static void all_traffic_in_the_farthest_region_is_served(void **state)
{
	CHECK("one region", { BUCKET, ONE, .load = 0.95, .share = 0.97 }, { BUCKET, ONE, .load = 1.5, .share = 0.97 },
	      { WINDOW, ONE, .load = 0.95, .share = 0.97 }, { WINDOW, ONE, .load = 1.5, .share = 0.97 });
}

static void traffic_in_all_regions_is_served(void **state)
{
	CHECK("even", { BUCKET, EVEN, .load = 0.95, .share = 0.97 }, { BUCKET, EVEN, .load = 1.5, .share = 0.97 },
	      { WINDOW, EVEN, .load = 0.95, .share = 0.96 }, { WINDOW, EVEN, .load = 1.5, .share = 0.965 });
}

static void traffic_that_moves_to_another_region_is_served_again_within_seconds(void **state)
{
	CHECK("move", { BUCKET, MOVE, .load = 0.95, .back_s = 3 }, { BUCKET, MOVE, .load = 1.5, .back_s = 6 },
	      { WINDOW, MOVE, .load = 0.95, .back_s = 3 }, { WINDOW, MOVE, .load = 1.5, .back_s = 6 });
}

static void traffic_that_hops_each_second_never_exceeds_the_limit(void **state)
{
	CHECK("hop", { BUCKET, HOP, .load = 0.95 }, { BUCKET, HOP, .load = 1.5 }, { WINDOW, HOP, .load = 0.95 },
	      { WINDOW, HOP, .load = 1.5 });
}

static void a_tenth_of_all_messages_lost_hardly_shows(void **state)
{
	CHECK("loss 10 %", { BUCKET, EVEN, .load = 0.95, .loss = 0.1, .share = 0.92 },
	      { WINDOW, EVEN, .load = 0.95, .loss = 0.1, .share = 0.92 });
}

static void a_home_that_restarts_leaves_the_parts_in_force(void **state)
{
	CHECK("home down 3 s", { BUCKET, EVEN, .load = 0.95, .fault = SIM_HOME_RESTART, .fault_for_s = 3, .share = 0.97, .back_s = 1 },
	      { WINDOW, EVEN, .load = 0.95, .fault = SIM_HOME_RESTART, .fault_for_s = 3, .share = 0.96, .back_s = 1 });
}

static void a_region_that_restarts_is_back_within_seconds(void **state)
{
	CHECK("region down 1 s", { BUCKET, EVEN, .load = 0.95, .fault = SIM_REGION_RESTART, .fault_for_s = 1, .back_s = 3 },
	      { WINDOW, EVEN, .load = 0.95, .fault = SIM_REGION_RESTART, .fault_for_s = 1, .back_s = 3 });
}

static void a_small_region_is_served_beside_one_that_wants_everything(void **state)
{
	static const struct run runs[] = { { BUCKET, RIVALS, .load = 2 }, { WINDOW, RIVALS, .load = 2 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		struct run run = runs[i];
		double small;

		run.seed = 1;
		start(&run, &s);
		small = (double)sim_result_of(s)->region_admitted[2] / (double)sim_result_of(s)->region_offered[2];
		print_message("rivals %s: the small one is served %.4f of its offer, together %.4f; home %.2f + %.2f msg/s\n",
			      run.algorithm == BUCKET ? "bucket" : "window", small, served(s), per_s(sim_result_of(s)->asks_to_home),
			      per_s(sim_result_of(s)->grants_from_home));
		assert_true(small >= 0.95);
		assert_true(served(s) >= 0.93);
	}
}

static void steady_traffic_costs_a_report_per_second_and_region(void **state)
{
	static const struct run runs[] = { { BUCKET, EVEN, .load = 0.5 }, { WINDOW, EVEN, .load = 0.5 },
					   { BUCKET, EVEN, .load = 1.5 }, { WINDOW, EVEN, .load = 1.5 } };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		struct run run = runs[i];

		run.seed = 1;
		start(&run, &s);
		print_message("steady %s %.1fx: %.2f reports and %.2f answers per second of three regions\n",
			      run.algorithm == BUCKET ? "bucket" : "window", run.load, per_s(sim_result_of(s)->asks_to_home),
			      per_s(sim_result_of(s)->grants_from_home));
		assert_true(per_s(sim_result_of(s)->asks_to_home) <= 3.3);
		assert_true(per_s(sim_result_of(s)->grants_from_home) <= 3.6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_traffic_in_the_farthest_region_is_served),
		cmocka_unit_test(traffic_in_all_regions_is_served),
		cmocka_unit_test(traffic_that_moves_to_another_region_is_served_again_within_seconds),
		cmocka_unit_test(traffic_that_hops_each_second_never_exceeds_the_limit),
		cmocka_unit_test(a_tenth_of_all_messages_lost_hardly_shows),
		cmocka_unit_test(a_home_that_restarts_leaves_the_parts_in_force),
		cmocka_unit_test(a_region_that_restarts_is_back_within_seconds),
		cmocka_unit_test(a_small_region_is_served_beside_one_that_wants_everything),
		cmocka_unit_test(steady_traffic_costs_a_report_per_second_and_region),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
