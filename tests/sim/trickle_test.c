// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keys that are hardly used, which is most keys: what they cost between a region and the home with periods that grow and with fixed ones,
 * that they are served no worse for it, and that nobody else pays. The law is checked in every run.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lease/forecast.h"
#include "tests/lib/sim.h"

#define MS 1000000ull
#define S (1000 * MS)
#define REGIONS 3
#define HOSTS 4
#define SEEDS 2
#define WARM_S 80
#define EVENT_S 180
#define END_S 280

enum shape {
	EVEN,		/* all hosts alike */
	ONE_HOST,	/* one in each region */
	WAKES,		/* as EVEN, and at EVENT_S all at once 0.95 of the limit */
	BESIDE_HOG,	/* in the first two regions; in the farthest all that is offered besides */
};

struct run {
	enum lg_algorithm algorithm;
	uint64_t limit_tok;
	uint64_t per_s;
	enum shape shape;
	double load;		/* of the trickle in all regions, in parts of the limit */
	bool fixed;		/* periods */
	/* expected */
	double times_fewer;	/* messages to the home than with fixed periods */
};

struct outcome {
	double served;		/* of what a limiter that sees everything at once admits */
	double far_served;	/* the same of the farthest region, where it has all but the trickle */
	double reports_per_s;
	double back_s;
};

/* The run in progress; rate() has nothing else to know it by. */
static struct run now_running;

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	double limit = (double)now_running.limit_tok / (double)now_running.per_s, trickle = now_running.load * limit / REGIONS;

	(void)s;
	switch (now_running.shape) {
	case EVEN: return trickle / HOSTS;
	case ONE_HOST: return host % HOSTS == 0 ? trickle : 0;
	case WAKES: return (now_s < EVENT_S ? trickle : 0.95 * limit / REGIONS) / HOSTS;
	case BESIDE_HOG: return (region == REGIONS - 1 ? 1.5 * limit : trickle) / HOSTS;
	}
	return 0;
}

static void terms_of(const struct run *run, struct lg_terms *ret_terms)
{
	struct lg_rule_def rule = { .algorithm = run->algorithm, .limit_tok = run->limit_tok, .per_ns = run->per_s * S,
				    .burst_tok = run->limit_tok, .lease.kind = LG_LEASE_BLOCK };

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = REGIONS, .hosts = REGIONS * HOSTS }, ret_terms);
	assert_true(ret_terms->adaptive);
	ret_terms->adaptive = !run->fixed;
}

static void add(struct outcome *sum, const struct sim *s)
{
	const struct sim_result *r = sim_result_of(s);
	double far = (double)r->region_admitted[REGIONS - 1], others = (double)(r->admitted - r->region_admitted[REGIONS - 1]);
	double back_s = sim_back_after_s(s, EVENT_S * S, 0.97);

	sum->served += (double)r->admitted / (double)r->perfect / SEEDS;
	sum->far_served += far / ((double)r->perfect - others) / SEEDS;
	sum->reports_per_s += (double)r->asks_to_home / (END_S - WARM_S) / SEEDS;
	sum->back_s = back_s < 0 || sum->back_s < 0 ? -1 : fmax(sum->back_s, back_s);
}

static struct outcome outcome_of(const struct run *run)
{
	struct sim_config c = {
		.n_regions = REGIONS, .hosts_per_region = HOSTS, .rtt_ns = { 1 * MS, 100 * MS, 150 * MS }, .host_rtt_ns = 500000,
		.clock_ppm = 100, .load = run->load, .rate = rate, .batch = 1, .cost_max_tok = 1, .end_ns = END_S * S, .warm_ns = WARM_S * S,
		.rate_max = 1.5 * (double)run->limit_tok / (double)run->per_s / HOSTS,
	};
	struct outcome sum = { 0 };

	terms_of(run, &c.terms);
	now_running = *run;
	for (c.seed = 1; c.seed <= SEEDS; c.seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;

		assert_int_equal(sim_new(&c, &s), 0);
		sim_run(s);
		assert_string_equal(sim_result_of(s)->broken, "");
		assert_true(sim_result_of(s)->worst_over_tok <= 0);
		assert_true(sim_result_of(s)->worst_potential_tok <= 0);
		add(&sum, s);
	}
	print_message("%s %llu per %llu s, %.4fx, %s periods: served %.4f, %.3f reports/s to the home, back %.1f s\n",
		      run->algorithm == LG_TOKEN_BUCKET ? "bucket" : "window", (unsigned long long)run->limit_tok,
		      (unsigned long long)run->per_s, run->load, run->fixed ? "fixed" : "growing", sum.served, sum.reports_per_s, sum.back_s);
	return sum;
}

#define BUCKET LG_TOKEN_BUCKET
#define WINDOW LG_SLIDING_WINDOW

static void a_trickle_costs_a_fraction_of_the_messages_and_is_served_no_worse(void **state)
{
	static const struct run rows[] = {
		{ BUCKET, 10000, 60, EVEN, .load = 0.005, .times_fewer = 2.5 },
		{ BUCKET, 10000, 60, EVEN, .load = 0.01, .times_fewer = 3.5 },
		{ BUCKET, 10000, 60, EVEN, .load = 0.02, .times_fewer = 4 },
		{ BUCKET, 10000, 60, EVEN, .load = 0.1, .times_fewer = 3 },
		{ BUCKET, 10000, 60, ONE_HOST, .load = 0.01, .times_fewer = 4 },
		{ WINDOW, 10000, 60, EVEN, .load = 0.01, .times_fewer = 3.5 },
		{ BUCKET, 10000, 10, EVEN, .load = 0.01, .times_fewer = 2.5 },
		{ BUCKET, 1000, 1, EVEN, .load = 0.01, .times_fewer = 8 },
	};
	size_t n_bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct run fixed = rows[i];
		struct outcome before, now = outcome_of(&rows[i]);

		fixed.fixed = true;
		before = outcome_of(&fixed);
		print_message("%.1f times fewer\n", before.reports_per_s / now.reports_per_s);
		n_bad += before.reports_per_s < rows[i].times_fewer * now.reports_per_s || now.served < 0.99 ||
			 now.served < before.served - 0.005;
	}
	assert_int_equal(n_bad, 0);
}

static void the_forecast_says_what_a_key_costs_that_is_hardly_used(void **state)
{
	static const struct run runs[] = {
		{ BUCKET, 10000, 60, EVEN, .load = 0.1 }, { WINDOW, 10000, 60, EVEN, .load = 0.1 }, { BUCKET, 10000, 10, EVEN, .load = 0.05 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct lg_rule_def rule = { .algorithm = runs[i].algorithm, .limit_tok = runs[i].limit_tok, .per_ns = runs[i].per_s * S,
					    .burst_tok = runs[i].limit_tok };
		double reports_per_s = outcome_of(&runs[i]).reports_per_s, told;
		struct lg_forecast f;

		lg_forecast_init(&rule, &(struct lg_fleet){ .regions = REGIONS, .hosts = REGIONS * HOSTS }, &f);
		told = (double)f.quiet.reports_mps / 1000;
		print_message("forecast %.3f\n", told);
		assert_true(runs[i].load * (double)runs[i].limit_tok / (double)runs[i].per_s / REGIONS <= (double)f.quiet_mtps / 1000);
		assert_true(reports_per_s >= 0.95 * told && reports_per_s <= 1.4 * told);
	}
}

static void a_busy_key_reports_as_often_as_ever(void **state)
{
	static const enum lg_algorithm algorithms[] = { BUCKET, WINDOW };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct run run = { algorithms[i], 10000, 60, EVEN, .load = 0.5 }, fixed = run;
		struct outcome now, before;

		fixed.fixed = true;
		now = outcome_of(&run);
		before = outcome_of(&fixed);
		assert_true(fabs(now.reports_per_s / before.reports_per_s - 1) <= 0.05);
	}
}

/* A thousandth of the limit, and the next moment nearly all of it. */
static void a_key_that_wakes_up_is_served_at_once(void **state)
{
	static const struct run rows[] = {
		{ BUCKET, 10000, 60, WAKES, .load = 0.001 }, { BUCKET, 10000, 60, WAKES, .load = 0.01 },
		{ WINDOW, 10000, 60, WAKES, .load = 0.01 }, { BUCKET, 10000, 10, WAKES, .load = 0.01 },
	};
	size_t n_bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct outcome now = outcome_of(&rows[i]);

		n_bad += now.served < 0.995 || now.back_s < 0 || now.back_s > 1;
	}
	assert_int_equal(n_bad, 0);
}

/* What the others keep is missing where it is wanted. */
static void a_trickle_elsewhere_costs_who_wants_everything_no_more_than_with_fixed_periods(void **state)
{
	static const enum lg_algorithm algorithms[] = { BUCKET, WINDOW };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct run run = { algorithms[i], 10000, 60, BESIDE_HOG, .load = 0.01 }, fixed = run;
		double now, before;

		fixed.fixed = true;
		now = outcome_of(&run).far_served;
		before = outcome_of(&fixed).far_served;
		print_message("who wants everything is served %.4f, with fixed periods %.4f\n", now, before);
		assert_true(now >= 0.96 && now >= before - 0.01);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trickle_costs_a_fraction_of_the_messages_and_is_served_no_worse),
		cmocka_unit_test(the_forecast_says_what_a_key_costs_that_is_hardly_used),
		cmocka_unit_test(a_busy_key_reports_as_often_as_ever),
		cmocka_unit_test(a_key_that_wakes_up_is_served_at_once),
		cmocka_unit_test(a_trickle_elsewhere_costs_who_wants_everything_no_more_than_with_fixed_periods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
