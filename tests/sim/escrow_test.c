// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Strict rules on virtual time: what a new life of the home withholds, which is what `explain` says; that it serves whether or not all holders
 * tell; and how often what is going to be lent is made durable. Half of the homes end in order, half do not.
 */
#include "lease/forecast.h"
#include "tests/sim/rows.h"

#define MINUTE_SHORT .limit_tok = 10000, .per_s = 60, .warm_s = 60, .end_s = 150, .event_s = 130
#define TEN_S_SHORT .limit_tok = 10000, .per_s = 10, .warm_s = 20, .end_s = 60, .event_s = 50
#define DOWN(of, span, of_load)                                                                                                         \
	{                                                                                                                               \
		of, .kind = BLOCKS, span, .shape = SCENE_EVEN, .load = of_load, .strict = true, .fault = SIM_HOME_RESTART,              \
		    .fault_for_s = 3, .n_seeds = 3                                                                         \
	}

static uint64_t forecast_of(const struct scene *c)
{
	const struct lg_rule_def rule = { .scope = LG_SCOPE_GLOBAL, .class = LG_CLASS_STRICT, .algorithm = c->algorithm,
					  .limit_tok = c->limit_tok, .burst_tok = c->limit_tok, .per_ns = (uint64_t)(c->per_s * 1e9),
					  .lease = { .kind = LG_LEASE_BLOCK } };
	struct lg_forecast f;

	lg_forecast_init(&rule, &(struct lg_fleet){ .regions = SCENE_REGIONS, .hosts = 12 }, &f);
	return f.failover_tok;
}

static void a_new_life_withholds_no_more_than_explain_says_and_not_much_less(void **state)
{
	static const struct scene rows[] = {
		DOWN(BUCKET, MINUTE_SHORT, 0.5), DOWN(BUCKET, MINUTE_SHORT, 0.95), DOWN(WINDOW, MINUTE_SHORT, 0.95),
		DOWN(WINDOW, MINUTE_SHORT, 1.5), DOWN(FIXED, MINUTE_SHORT, 0.95),  DOWN(BUCKET, TEN_S_SHORT, 0.95),
		DOWN(BUCKET, TEN_S_SHORT, 1.5),	 DOWN(WINDOW, TEN_S_SHORT, 0.95),  DOWN(FIXED, TEN_S_SHORT, 0.95),
	};
	double worst = 0, most;
	size_t n_bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct scene_result r = measured("home down", &rows[i]);

		most = (double)forecast_of(&rows[i]);
		print_message("withheld %.0f, at most %.0f\n", r.failover_tok, most);
		n_bad += r.failover_tok > most;
		worst = fmax(worst, r.failover_tok / most);
	}
	assert_int_equal(n_bad, 0);
	assert_true(worst > 0.5);
}

/* Two of three regions are there, a third of the traffic each; the other one holds some, and is never heard of again. */
static void a_window_is_served_though_a_region_never_tells(void **state)
{
	static const enum lg_algorithm algorithms[] = { WINDOW, FIXED };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct scene scene = { algorithms[i], .kind = BLOCKS, MINUTE_SHORT, .shape = SCENE_EVEN, .load = 0.6, .strict = true,
				       .fault = SIM_HOME_RESTART, .fault_for_s = 3, .lost = true, .back_share = 0.6, .n_seeds = 3 };
		struct scene_result strict = measured("a region lost, strict", &scene), lease;

		scene.strict = false;
		lease = measured("a region lost, lease", &scene);
		assert_true(strict.back_s <= 2);
		assert_true(lease.back_s > 10);
	}
}

/*
 * Parts of a limit are not marked: a home that is new lends nothing beyond them before all have told, or their leases are over. Whoever is
 * there goes on by his own part meanwhile, so little is missing.
 */
static void parts_of_a_strict_limit_go_on_though_a_region_never_tells(void **state)
{
	static const enum lg_algorithm algorithms[] = { BUCKET, WINDOW };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct scene scene = { algorithms[i], .kind = PARTS, .limit_tok = 1000, .per_s = 1, .burst_tok = 100, .warm_s = 10, .end_s = 50,
				       .event_s = 30, .shape = SCENE_EVEN, .load = 0.6, .strict = true, .fault = SIM_HOME_RESTART,
				       .fault_for_s = 3, .lost = true, .back_share = 0.6, .n_seeds = 3 };

		assert_true(measured("a region lost, parts", &scene).back_s <= 2);
	}
}

static void what_is_made_durable_does_not_grow_with_the_rate(void **state)
{
	static const enum lg_algorithm algorithms[] = { BUCKET, WINDOW };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct scene scene = { algorithms[i], .kind = BLOCKS, MINUTE_SHORT, .shape = SCENE_EVEN, .load = 0.45, .strict = true,
				       .n_seeds = 3 };
		double slow = measured("marks", &scene).commits_per_s, fast;
		struct lg_terms t;

		scene.load = 0.9;
		fast = measured("marks", &scene).commits_per_s;
		scene_terms(&scene, &t);
		print_message("%.3f and %.3f marks/s, a period of %.0f s\n", slow, fast, (double)t.escrow_period_ns / 1e9);
		assert_true(slow <= 1e9 / (double)t.escrow_period_ns && fast <= 1e9 / (double)t.escrow_period_ns);
		assert_true(fast <= 1.1 * slow);
	}
}

static void a_full_store_costs_service_and_nothing_else_and_is_over_by_itself(void **state)
{
	struct scene scene = { BUCKET, .kind = BLOCKS, .limit_tok = 10000, .per_s = 10, .warm_s = 20, .end_s = 60, .event_s = 40,
			       .shape = SCENE_EVEN, .load = 0.95, .strict = true, .n_seeds = 3, .fault = SIM_STORE_FULL, .fault_for_s = 8 };
	struct scene_result r;

	(void)state;
	r = measured("store full", &scene);
	assert_true(r.lost_s > 3 && r.lost_s < 8);	/* what was durable lasted for a few seconds */
	assert_true(r.back_s <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_life_withholds_no_more_than_explain_says_and_not_much_less),
		cmocka_unit_test(a_window_is_served_though_a_region_never_tells),
		cmocka_unit_test(parts_of_a_strict_limit_go_on_though_a_region_never_tells),
		cmocka_unit_test(what_is_made_durable_does_not_grow_with_the_rate),
		cmocka_unit_test(a_full_store_costs_service_and_nothing_else_and_is_over_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
