// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a user gets of a limit that is spent within a few round trips, whose home lends the limit in parts: 1,000 a second, and a bucket that
 * holds a tenth of that; the home, two more regions 100 and 150 ms away, four hosts in each, against a limiter that sees everything at
 * once. Bands, not digits. The law is checked in every run.
 */
#include "tests/sim/rows.h"

#define ROW(of, of_shape, of_load, share, within_s, ...)                                                                                \
	{                                                                                                                               \
		{ of, PARTS, SECOND, .burst_tok = 100, .shape = of_shape, .load = of_load, .back_share = 0.95, .n_seeds = 2,              \
		  __VA_ARGS__ },                                                                                                        \
			.least = share, .back_s = within_s                                                                              \
	}

static void traffic_in_all_regions_is_served(void **state)
{
	CHECK("even", ROW(BUCKET, SCENE_EVEN, 0.95, 0.97, 0), ROW(BUCKET, SCENE_EVEN, 1.5, 0.97, 0), ROW(WINDOW, SCENE_EVEN, 0.95, 0.96, 0),
	      ROW(WINDOW, SCENE_EVEN, 1.5, 0.965, 0));
}

static void traffic_that_moves_to_another_region_is_served_again_within_seconds(void **state)
{
	CHECK("move", ROW(BUCKET, SCENE_MOVE, 0.95, 0.95, 3, .event_s = 30), ROW(BUCKET, SCENE_MOVE, 1.5, 0.95, 6, .event_s = 30),
	      ROW(WINDOW, SCENE_MOVE, 0.95, 0.95, 3, .event_s = 30), ROW(WINDOW, SCENE_MOVE, 1.5, 0.945, 6, .event_s = 30));
}

static void traffic_that_hops_each_second_never_exceeds_the_limit(void **state)
{
	CHECK("hop", ROW(BUCKET, SCENE_HOP, 0.95, 0.2, 0), ROW(BUCKET, SCENE_HOP, 1.5, 0.2, 0), ROW(WINDOW, SCENE_HOP, 0.95, 0.55, 0),
	      ROW(WINDOW, SCENE_HOP, 1.5, 0.55, 0));
}

static void a_tenth_of_all_messages_lost_hardly_shows(void **state)
{
	CHECK("loss 10 %", ROW(BUCKET, SCENE_EVEN, 0.95, 0.92, 0, .loss = 0.1), ROW(WINDOW, SCENE_EVEN, 0.95, 0.92, 0, .loss = 0.1));
}

#define DOWN(what, for_s) .fault = what, .fault_for_s = for_s, .event_s = 30

static void a_home_that_restarts_leaves_the_parts_in_force(void **state)
{
	CHECK("home down 3 s", ROW(BUCKET, SCENE_EVEN, 0.95, 0.97, 1, DOWN(SIM_HOME_RESTART, 3)),
	      ROW(WINDOW, SCENE_EVEN, 0.95, 0.96, 1, DOWN(SIM_HOME_RESTART, 3)));
}

static void a_region_that_restarts_is_back_within_seconds(void **state)
{
	CHECK("region down 1 s", ROW(BUCKET, SCENE_EVEN, 0.95, 0.97, 3, DOWN(SIM_REGION_RESTART, 1)),
	      ROW(WINDOW, SCENE_EVEN, 0.95, 0.94, 3, DOWN(SIM_REGION_RESTART, 1)));
}

#define RIVALS(of)                                                                                                                      \
	{                                                                                                                               \
		{ of, PARTS, SECOND, .burst_tok = 100, .shape = SCENE_RIVALS, .load = 2 }, .least = 0.93, .small = 0.95                 \
	}
static void a_small_region_is_served_beside_one_that_wants_everything(void **state)
{
	CHECK("rivals", RIVALS(BUCKET), RIVALS(WINDOW));
}

static void steady_traffic_costs_a_report_per_second_and_region(void **state)
{
	static const struct scene scenes[] = {
		{ BUCKET, PARTS, SECOND, .burst_tok = 100, .shape = SCENE_EVEN, .load = 0.5 },
		{ WINDOW, PARTS, SECOND, .shape = SCENE_EVEN, .load = 0.5 },
		{ BUCKET, PARTS, SECOND, .burst_tok = 100, .shape = SCENE_EVEN, .load = 1.5 },
		{ WINDOW, PARTS, SECOND, .shape = SCENE_EVEN, .load = 1.5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		struct scene_result r = measured("steady", &scenes[i]);

		assert_true(r.reports_per_s <= 3.3);
		assert_true(r.grants_per_s <= 3.6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
