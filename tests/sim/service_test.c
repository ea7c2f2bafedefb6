// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a user gets: a key's home, two more regions 100 and 150 ms away, four hosts in each, against a limiter that sees everything at once.
 * Bands, not digits: each row holds for any seed. The law is checked in every run.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

#define MS 1000000ull
#define S (1000 * MS)

enum shape { EVEN, ONE, MOVE, HOP, RIVALS, SAW, RARE };
enum limit { PER_MINUTE, PER_10_S, LONG_RUN };	/* of 10,000, if nothing else is said */

struct run {
	enum lg_algorithm algorithm;
	enum limit limit;
	enum shape shape;
	uint64_t limit_tok;	/* 0: 10,000 */
	double load;		/* offered, in parts of the limit */
	double loss;
	double batch;
	double period_s;	/* 0: as the terms have it */
	enum sim_fault_kind fault;
	double fault_for_s;	/* 0: none */
	uint64_t seed;
	/* expected */
	double share;		/* of a perfect limiter's service */
	double back_s;		/* until 95 % of it after the event; 0 no matter */
};

static const struct { uint64_t per_s, end_s, warm_s, event_s; } spans[] = {
	[PER_MINUTE] = { 60, 360, 120, 200 },
	[PER_10_S] = { 10, 150, 40, 80 },
	[LONG_RUN] = { 60, 3600, 600, 0 },
};

/* The shape of the run in progress; rate() has nothing else to know it by. */
static struct run now_running;

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	const struct sim_config *c = sim_config_of(s);
	double all = c->load * (double)c->terms.limit_tok / (double)spans[now_running.limit].per_s, one = all / c->hosts_per_region;

	(void)host;
	switch (now_running.shape) {
	case EVEN: return one / c->n_regions;
	case ONE: return region == 2 ? one : 0;
	case MOVE: return region == (now_s < (double)spans[now_running.limit].event_s ? 1u : 2u) ? one : 0;
	case HOP: return region == (uint32_t)now_s % c->n_regions ? one : 0;
	case RIVALS: return region == 1 ? 0.9 * one : region == 2 ? 0.1 * one : 0;
	case SAW: return 2 * fmod(now_s + 7 * region, 20) / 20 * one / c->n_regions;
	case RARE: return 0.1;
	}
	return 0;
}

static struct lg_terms terms_of(const struct run *run)
{
	uint64_t limit_tok = run->limit_tok ? run->limit_tok : 10000;
	struct lg_rule_def rule = { .algorithm = run->algorithm, .limit_tok = limit_tok, .per_ns = spans[run->limit].per_s * S,
				    .burst_tok = limit_tok };
	struct lg_terms t;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = 3, .hosts = 12 }, &t);
	if (run->period_s > 0) {
		t.region_period_ns = (uint64_t)(run->period_s * 1e9);
		t.host_period_ns = t.region_period_ns / 4;
		t.max_outstanding_tok = t.budget_tok;
		t.ttl_ns = 60 * S;
		t.adaptive = false;
	}
	return t;
}

/* When the fault is over, or the traffic has moved. */
static uint64_t event_ns(const struct run *run)
{
	return spans[run->limit].event_s * S + (run->fault_for_s > 0 ? 300 * MS + (uint64_t)(run->fault_for_s * 1e9) : 0);
}

static void start(const struct run *run, struct sim **ret_sim)
{
	struct sim_config c = {
		.terms = terms_of(run), .n_regions = 3, .hosts_per_region = 4, .rtt_ns = { 1 * MS, 100 * MS, 150 * MS },
		.host_rtt_ns = 500000, .loss = run->loss, .clock_ppm = 100, .seed = run->seed, .load = run->load, .rate = rate,
		.batch = run->batch > 1 ? run->batch : 1,
		.cost_max_tok = 1, .end_ns = spans[run->limit].end_s * S, .warm_ns = spans[run->limit].warm_s * S,
	};

	now_running = *run;
	c.rate_max = 2 * run->load * (double)c.terms.limit_tok / (double)spans[run->limit].per_s / 4;
	assert_int_equal(sim_new(&c, ret_sim), 0);
	if (run->fault_for_s > 0)
		sim_fault(*ret_sim, run->fault, 1, spans[run->limit].event_s * S + 300 * MS, (uint64_t)(run->fault_for_s * 1e9));
	sim_run(*ret_sim);
	assert_string_equal(sim_result_of(*ret_sim)->broken, "");
	assert_true(sim_result_of(*ret_sim)->worst_over_tok <= 0);
	assert_true(sim_result_of(*ret_sim)->worst_potential_tok <= 0);
}

static double served(const struct sim *s)
{
	return (double)sim_result_of(s)->admitted / (double)sim_result_of(s)->perfect;
}

static double per_s(const struct sim *s, uint64_t n)
{
	const struct sim_config *c = sim_config_of(s);

	return (double)n * 1e9 / (double)(c->end_ns - c->warm_ns);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Runs a row with two seeds; with three where it is to be back in time, which is judged by the median: by chance traffic can look as if it
 * were not. */
static void check(const char *what, const struct run *row)
{
	uint64_t n_seeds = row->back_s > 0 ? 3 : 2;
	double backs_s[3] = { 0 };

	for (uint64_t seed = 1; seed <= n_seeds; seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		struct run run = *row;
		double back_s;

		run.seed = seed;
		start(&run, &s);
		back_s = sim_back_after_s(s, event_ns(&run), 0.95);
		print_message("%s %s %s %.2fx: served %.4f, back after %.1f s, home %.2f + %.2f msg/s, regions %.1f + %.1f, out %llu\n",
			      what, run.algorithm == LG_TOKEN_BUCKET ? "bucket" : "window",
			      run.limit == PER_MINUTE ? "10000/60s" : "10000/10s", run.load, served(s), row->back_s > 0 ? back_s : 0,
			      per_s(s, sim_result_of(s)->asks_to_home), per_s(s, sim_result_of(s)->grants_from_home),
			      per_s(s, sim_result_of(s)->asks_to_regions), per_s(s, sim_result_of(s)->grants_from_regions),
			      (unsigned long long)sim_result_of(s)->max_outstanding_tok);
		assert_true(served(s) >= row->share);
		assert_true(row->back_s == 0 || back_s >= 0);
		backs_s[seed - 1] = back_s;
	}
	qsort(backs_s, n_seeds, sizeof(backs_s[0]), compare);
	assert_true(row->back_s == 0 || backs_s[n_seeds / 2] <= row->back_s);
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

static void traffic_in_all_regions_is_served(void **state)
{
	CHECK("even", { BUCKET, PER_MINUTE, EVEN, .load = 0.5, .share = 0.999 }, { BUCKET, PER_MINUTE, EVEN, .load = 0.95, .share = 0.999 },
	      { BUCKET, PER_MINUTE, EVEN, .load = 1.5, .share = 0.995 }, { BUCKET, PER_MINUTE, EVEN, .load = 5, .share = 0.995 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 0.5, .share = 0.999 }, { WINDOW, PER_MINUTE, EVEN, .load = 0.95, .share = 0.998 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 1.5, .share = 0.995 }, { WINDOW, PER_MINUTE, EVEN, .load = 5, .share = 0.99 },
	      { BUCKET, PER_10_S, EVEN, .load = 0.95, .share = 0.999 }, { BUCKET, PER_10_S, EVEN, .load = 1.5, .share = 0.995 },
	      { WINDOW, PER_10_S, EVEN, .load = 0.95, .share = 0.99 }, { WINDOW, PER_10_S, EVEN, .load = 1.5, .share = 0.97 });
}

static void all_traffic_in_the_farthest_region_is_served(void **state)
{
	CHECK("one region", { BUCKET, PER_MINUTE, ONE, .load = 0.95, .share = 0.995 }, { BUCKET, PER_MINUTE, ONE, .load = 1.5, .share = 0.995 },
	      { WINDOW, PER_MINUTE, ONE, .load = 0.95, .share = 0.995 }, { WINDOW, PER_MINUTE, ONE, .load = 1.5, .share = 0.995 },
	      { BUCKET, PER_10_S, ONE, .load = 0.95, .share = 0.995 }, { BUCKET, PER_10_S, ONE, .load = 1.5, .share = 0.995 },
	      { WINDOW, PER_10_S, ONE, .load = 0.95, .share = 0.985 }, { WINDOW, PER_10_S, ONE, .load = 1.5, .share = 0.955 });
}

static void traffic_that_moves_to_another_region_is_served_again_within_two_periods(void **state)
{
	CHECK("move", { BUCKET, PER_MINUTE, MOVE, .load = 0.95, .share = 0.997, .back_s = 3 },
	      { BUCKET, PER_MINUTE, MOVE, .load = 1.5, .share = 0.997, .back_s = 6 },
	      { WINDOW, PER_MINUTE, MOVE, .load = 0.95, .share = 0.985, .back_s = 6 },
	      { WINDOW, PER_MINUTE, MOVE, .load = 1.5, .share = 0.985, .back_s = 6 },
	      { BUCKET, PER_10_S, MOVE, .load = 0.95, .share = 0.985, .back_s = 3 },
	      { BUCKET, PER_10_S, MOVE, .load = 1.5, .share = 0.99, .back_s = 6 },
	      { WINDOW, PER_10_S, MOVE, .load = 0.95, .share = 0.965, .back_s = 6 },
	      { WINDOW, PER_10_S, MOVE, .load = 1.5, .share = 0.93 });
}

static void traffic_that_hops_each_second_is_served(void **state)
{
	CHECK("hop", { BUCKET, PER_MINUTE, HOP, .load = 0.95, .share = 0.995 }, { BUCKET, PER_MINUTE, HOP, .load = 1.5, .share = 0.99 },
	      { WINDOW, PER_MINUTE, HOP, .load = 0.95, .share = 0.985 }, { WINDOW, PER_MINUTE, HOP, .load = 1.5, .share = 0.99 },
	      { BUCKET, PER_10_S, HOP, .load = 0.95, .share = 0.98 }, { WINDOW, PER_10_S, HOP, .load = 0.95, .share = 0.82 });
}

static void traffic_that_swells_and_fades_is_served(void **state)
{
	CHECK("saw", { BUCKET, PER_MINUTE, SAW, .load = 0.95, .share = 0.995 }, { WINDOW, PER_MINUTE, SAW, .load = 0.95, .share = 0.99 },
	      { BUCKET, PER_10_S, SAW, .load = 0.95, .share = 0.99 }, { WINDOW, PER_10_S, SAW, .load = 0.95, .share = 0.9 });
}

static void bursts_are_served(void **state)
{
	CHECK("bursts of 20", { BUCKET, PER_MINUTE, EVEN, .load = 0.95, .batch = 20, .share = 0.95 },
	      { BUCKET, PER_MINUTE, ONE, .load = 0.95, .batch = 20, .share = 0.98 },
	      { WINDOW, PER_MINUTE, ONE, .load = 0.95, .batch = 20, .share = 0.93 });
}

static void a_tenth_of_all_messages_lost_hardly_shows(void **state)
{
	CHECK("loss 10 %", { BUCKET, PER_MINUTE, EVEN, .load = 0.95, .loss = 0.1, .share = 0.995 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 0.95, .loss = 0.1, .share = 0.985 });
}

static void a_small_region_is_served_beside_one_that_wants_everything(void **state)
{
	static const struct run runs[] = {
		{ BUCKET, PER_MINUTE, RIVALS, .load = 2 }, { WINDOW, PER_MINUTE, RIVALS, .load = 2 },
		{ BUCKET, PER_10_S, RIVALS, .load = 2 }, { WINDOW, PER_10_S, RIVALS, .load = 2 },
		{ WINDOW, PER_MINUTE, RIVALS, .load = 1.3 }, { WINDOW, PER_MINUTE, RIVALS, .load = 1.5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct run run = runs[i];
		double small = 0, all = 0;

		/* What the large one leaves at one moment is chance: single seeds are off by two hundredths. */
		for (run.seed = 1; run.seed <= 8; run.seed++) {
			_cleanup_(sim_free) struct sim *s = NULL;

			start(&run, &s);
			small += (double)sim_result_of(s)->region_admitted[2] / (double)sim_result_of(s)->region_offered[2] / 8;
			all += served(s) / 8;
		}
		print_message("rivals %s %.1fx: the small one is served %.4f of its offer, together %.4f\n",
			      run.algorithm == BUCKET ? "bucket" : "window", run.load, small, all);
		assert_true(small >= 0.98);
		assert_true(all >= 0.96);
	}
}

static void a_region_that_is_cut_off_serves_its_lease_and_disturbs_nobody(void **state)
{
	static const struct run runs[] = {
		{ BUCKET, PER_MINUTE, EVEN, .load = 0.95, .fault = SIM_CUT_REGION, .fault_for_s = 20 },
		{ WINDOW, PER_MINUTE, EVEN, .load = 0.95, .fault = SIM_CUT_REGION, .fault_for_s = 20 },
	};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		const struct sim_result *r;
		struct run run = runs[i];
		double denied_s, back_s;

		run.seed = 1;
		start(&run, &s);
		r = sim_result_of(s);
		denied_s = (double)(r->region_offered[1] - r->region_admitted[1]) / (0.95 * 10000 / 60 / 3);
		back_s = sim_back_after_s(s, event_ns(&run), 0.95);
		print_message("cut off 20 s: %.1f s of its traffic denied, back %.1f s after\n", denied_s, back_s);
		assert_true((double)r->region_admitted[0] >= 0.995 * (double)r->region_offered[0]);
		assert_true((double)r->region_admitted[2] >= 0.995 * (double)r->region_offered[2]);
		assert_true(denied_s >= 13 && denied_s <= 19.5);
		assert_true(back_s >= 0 && back_s <= 1.5);
	}
}

static void a_home_that_restarts_is_back_within_a_second(void **state)
{
	CHECK("home down 3 s",
	      { BUCKET, PER_MINUTE, EVEN, .load = 0.95, .fault = SIM_HOME_RESTART, .fault_for_s = 3, .share = 0.99, .back_s = 1.5 },
	      { BUCKET, PER_MINUTE, EVEN, .load = 1.5, .fault = SIM_HOME_RESTART, .fault_for_s = 3, .share = 0.98, .back_s = 1 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 0.95, .fault = SIM_HOME_RESTART, .fault_for_s = 3, .share = 0.98, .back_s = 1 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 1.5, .fault = SIM_HOME_RESTART, .fault_for_s = 3, .share = 0.98, .back_s = 1 });
}

static void a_server_that_restarts_with_home_and_region_is_back_within_seconds(void **state)
{
	CHECK("server down 1 s",
	      { BUCKET, PER_MINUTE, EVEN, .load = 0.95, .fault = SIM_SERVER_RESTART, .fault_for_s = 1, .share = 0.99, .back_s = 2 },
	      { BUCKET, PER_MINUTE, EVEN, .load = 1.5, .fault = SIM_SERVER_RESTART, .fault_for_s = 1, .share = 0.98, .back_s = 2 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 0.95, .fault = SIM_SERVER_RESTART, .fault_for_s = 1, .share = 0.98, .back_s = 3 },
	      { WINDOW, PER_MINUTE, EVEN, .load = 1.5, .fault = SIM_SERVER_RESTART, .fault_for_s = 1, .share = 0.98, .back_s = 3 });
}

static void who_calls_now_and_then_is_let_in(void **state)
{
	static const struct run runs[] = { { BUCKET, PER_MINUTE, RARE, .load = 0.01 }, { WINDOW, PER_MINUTE, RARE, .load = 0.01 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		struct run run = runs[i];

		run.seed = 1;
		start(&run, &s);
		print_message("once in ten seconds and host: served %.4f of %llu\n", served(s),
			      (unsigned long long)sim_result_of(s)->offered);
		assert_true(served(s) >= 0.99);
	}
}

/* n hosts cannot hold fewer than n tokens between them: what a limit below eight per host is worth, and that it is no less. */
static void small_limits_are_served_as_far_as_there_are_tokens_for_the_hosts(void **state)
{
	static const struct { uint64_t limit_tok; enum shape shape; double low, high; } rows[] = {
		{ 5, EVEN, 0.15, 0.32 }, { 12, EVEN, 0.42, 0.62 }, { 24, EVEN, 0.75, 0.93 }, { 48, EVEN, 0.93, 1 }, { 96, EVEN, 0.98, 1 },
		{ 5, ONE, 0.5, 0.75 }, { 24, ONE, 0.95, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct run run = { BUCKET, LONG_RUN, rows[i].shape, .limit_tok = rows[i].limit_tok, .load = 0.95 };
		double mean = 0;

		/* So few tokens: one seed's share is off by some hundredths. */
		for (run.seed = 1; run.seed <= 4; run.seed++) {
			_cleanup_(sim_free) struct sim *s = NULL;

			start(&run, &s);
			mean += served(s) / 4;
		}
		print_message("%llu a minute over %d hosts: served %.3f\n", (unsigned long long)rows[i].limit_tok,
			      rows[i].shape == EVEN ? 12 : 4, mean);
		assert_true(mean >= rows[i].low && mean <= rows[i].high);
	}
}

/* Slope of a straight line through the logarithms. */
static double log_slope(const double *x, const double *y, size_t n)
{
	double mean_x = 0, mean_y = 0, xy = 0, xx = 0;

	for (size_t i = 0; i < n; i++) {
		mean_x += log(x[i]) / (double)n;
		mean_y += log(y[i]) / (double)n;
	}
	for (size_t i = 0; i < n; i++) {
		xy += (log(x[i]) - mean_x) * (log(y[i]) - mean_y);
		xx += (log(x[i]) - mean_x) * (log(x[i]) - mean_x);
	}
	return xy / xx;
}

/* Who halves what can be stranded doubles the messages, and pays little more than that. */
static void reports_times_worst_outstanding_is_the_rate_of_arrival_times_regions(void **state)
{
	static const double periods_s[] = { 2, 5, 10 };
	double reports[3] = { 0 }, out_tok[3] = { 0 }, slope;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct run run = { BUCKET, PER_MINUTE, EVEN, .load = 0.9, .period_s = periods_s[i] };
		double product;

		for (run.seed = 1; run.seed <= 4; run.seed++) {
			_cleanup_(sim_free) struct sim *s = NULL;

			start(&run, &s);
			reports[i] += per_s(s, sim_result_of(s)->asks_to_home) / 4;
			out_tok[i] += (double)sim_result_of(s)->max_outstanding_tok / 4;
		}
		product = reports[i] * out_tok[i] / (0.9 * 10000 / 60 * 3);
		print_message("period %.0f s: %.2f reports/s, %.0f out at worst, product %.2f of arrivals times regions\n", run.period_s,
			      reports[i], out_tok[i], product);
		assert_true(product >= 1.3 && product <= 2.1);
	}
	slope = log_slope(out_tok, reports, 3);
	print_message("slope %.3f\n", slope);
	assert_true(slope >= -1.1 && slope <= -0.85);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traffic_in_all_regions_is_served),
		cmocka_unit_test(all_traffic_in_the_farthest_region_is_served),
		cmocka_unit_test(traffic_that_moves_to_another_region_is_served_again_within_two_periods),
		cmocka_unit_test(traffic_that_hops_each_second_is_served),
		cmocka_unit_test(traffic_that_swells_and_fades_is_served),
		cmocka_unit_test(bursts_are_served),
		cmocka_unit_test(a_tenth_of_all_messages_lost_hardly_shows),
		cmocka_unit_test(a_small_region_is_served_beside_one_that_wants_everything),
		cmocka_unit_test(a_region_that_is_cut_off_serves_its_lease_and_disturbs_nobody),
		cmocka_unit_test(a_home_that_restarts_is_back_within_a_second),
		cmocka_unit_test(a_server_that_restarts_with_home_and_region_is_back_within_seconds),
		cmocka_unit_test(who_calls_now_and_then_is_let_in),
		cmocka_unit_test(small_limits_are_served_as_far_as_there_are_tokens_for_the_hosts),
		cmocka_unit_test(reports_times_worst_outstanding_is_the_rate_of_arrival_times_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
