// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/demand.h"

#include "lease/arith.h"
#include "tests/unit/lease/lease_test.h"

/* tok offered and admitted each 20 ms from *now_ns for as long as for_ns. */
static void run(struct lg_demand *d, uint64_t offered_tok, uint64_t admitted_tok, uint64_t for_ns, uint64_t *now_ns)
{
	for (uint64_t end_ns = *now_ns + for_ns; *now_ns < end_ns; *now_ns += 20 * MS)
		lg_demand_add(d, offered_tok, admitted_tok, 30 * MS, 20 * MS, *now_ns);
}

TEST(a_newcomer_who_was_admitted_nothing_has_a_demand_and_a_flood_has_no_more_than_it_can_show)
{
	static const struct { uint64_t offered_tok, admitted_tok, floor_mtps, low_mtps, high_mtps; } rows[] = {
		{ 2, 0, 10000, 20000, 20000 },		/* 100/s offered, none admitted, r/H = 10/s: 20/s */
		{ 2, 0, 100000, 99000, 101000 },	/* less offered than twice the floor: what is offered */
		{ 20, 2, 10000, 297000, 303000 },	/* 1000/s offered, 100 admitted: 300 */
		{ 20, 20, 10000, 990000, 1010000 },	/* all admitted: all */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_demand d = { .at_ns = T0 };
		uint64_t now_ns = T0;

		run(&d, rows[i].offered_tok, rows[i].admitted_tok, 60 * S, &now_ns);
		assert_in_range(lg_demand_mtps(&d, rows[i].floor_mtps, now_ns), rows[i].low_mtps, rows[i].high_mtps);
	}
}

TEST(demand_rises_within_a_second_and_falls_within_ten)
{
	struct lg_demand d = { .at_ns = T0 };
	uint64_t now_ns = T0;

	run(&d, 2, 2, 1 * S, &now_ns);
	assert_in_range(lg_demand_mtps(&d, 1, now_ns), 55000, 70000);	/* 63 % of 100/s */
	run(&d, 2, 2, 60 * S, &now_ns);
	assert_in_range(lg_demand_mtps(&d, 1, now_ns), 98000, 102000);
	assert_in_range(lg_demand_mtps(&d, 1, now_ns + 10 * S), 35000, 38000);
	assert_int_equal(lg_demand_mtps(&d, 1, now_ns + 400 * S), 0);
}

TEST(the_floor_is_an_equal_part_of_the_limit)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 120, 1 * S, 120);

	assert_int_equal(lg_demand_floor_mtps(&t), 10000);
	t.limit_tok = 1;
	t.per_ns = 3600 * S;
	t.hosts = 4096;
	assert_int_equal(lg_demand_floor_mtps(&t), 1);	/* never nothing: who is admitted nothing could never begin */
}

TEST(the_peak_is_the_largest_cost_in_one_interval_and_fades)
{
	struct lg_demand d = { .at_ns = T0 };

	lg_demand_add(&d, 10, 10, 30 * MS, 20 * MS, T0 + 1 * S);
	lg_demand_add(&d, 10, 10, 30 * MS, 20 * MS, T0 + 1 * S + 20 * MS);	/* same interval */
	assert_int_equal(lg_demand_peak_tok(&d, T0 + 1 * S + 20 * MS), 20);
	lg_demand_add(&d, 15, 15, 30 * MS, 20 * MS, T0 + 1 * S + 40 * MS);	/* next */
	assert_int_equal(lg_demand_peak_tok(&d, T0 + 1 * S + 40 * MS), 20);
	assert_in_range(lg_demand_peak_tok(&d, T0 + 31 * S), 7, 8);	/* 1/e of it 30 s later */
}

TEST(steady_traffic_of_a_small_host_is_not_taken_for_more_than_it_is)
{
	struct lg_demand d = { .at_ns = T0 };
	uint64_t now_ns = T0, rand = 1, sum = 0, n = 0;

	/* one in 20 ms with a chance of a hundredth: 0.5 a second */
	for (uint64_t i = 0; i < 200000; i++, now_ns += 20 * MS) {
		uint64_t tok = lg_rand_next(&rand) % 100 == 0;

		lg_demand_add(&d, tok, tok, 30 * MS, 20 * MS, now_ns);
		if (i % 7 == 0 && i > 1000) {
			sum += lg_demand_mtps(&d, 1, now_ns);
			n++;
		}
	}
	assert_in_range(sum / n, 480, 580);
}

TEST(traffic_that_rises_is_seen_within_a_second)
{
	struct lg_demand d = { .at_ns = T0 };
	uint64_t now_ns = T0;

	run(&d, 1, 1, 60 * S, &now_ns);
	run(&d, 10, 10, 1 * S, &now_ns);
	assert_in_range(lg_demand_mtps(&d, 1, now_ns), 300000, 350000);	/* 63 % of the way from 50/s to 500/s, less what may be chance */
}

TEST(of_what_came_between_two_distant_readings_only_what_is_more_than_chance_seems_to_have_come_at_once)
{
	struct lg_demand d = { .at_ns = T0 };
	uint64_t now_ns = T0;

	run(&d, 1, 1, 60 * S, &now_ns);	/* 50/s; the peak is the two of 40 ms */
	assert_int_equal(lg_demand_peak_tok(&d, now_ns), 2);
	lg_demand_add(&d, 8, 8, 30 * MS, 80 * MS, now_ns + 80 * MS);
	assert_in_range(lg_demand_peak_tok(&d, now_ns + 80 * MS), 2, 3);
	lg_demand_add(&d, 60, 60, 30 * MS, 80 * MS, now_ns + 160 * MS);
	assert_in_range(lg_demand_peak_tok(&d, now_ns + 160 * MS), 50, 58);
}

TEST(a_home_is_told_a_little_more_than_the_mean)
{
	assert_int_equal(lg_demand_told_mtps(0), 0);
	assert_int_equal(lg_demand_told_mtps(50000), 55000);
	assert_in_range(lg_demand_told_mtps(5000000), 5049000, 5051000);
}

TEST(a_host_holds_what_lasts_two_round_trips_and_a_period)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_sizes s = lg_sizes_of_host(&t, 100000, 0, 10 * MS, 0);

	/* 100/s for 20 + 2.2 x 10 + 50 ms: 9 on average, 9 + 2 sqrt(9) + 1 are enough; and 75 for a period */
	assert_int_equal(s.low_tok, 17);
	assert_int_equal(s.target_tok, 92);
	/* what 100/s bring by chance within 60 ms is no burst: 6 + 4 sqrt(6) */
	assert_int_equal(lg_sizes_of_host(&t, 100000, 15, 10 * MS, 0).target_tok, 92);
	/* of 40 at once it holds nearly twice that besides, of 200 more than that */
	s = lg_sizes_of_host(&t, 100000, 40, 10 * MS, 0);
	assert_int_equal(s.low_tok, 84);
	assert_int_equal(s.target_tok, 159);
	assert_in_range(lg_sizes_of_host(&t, 100000, 200, 10 * MS, 0).target_tok, 486, 490);
	/* but no more than a tenth of the budget for it */
	s = lg_sizes_of_host(&t, 100000, 5000, 10 * MS, 0);
	assert_int_equal(s.target_tok, 1092);
	assert_int_equal(s.low_tok, 819);	/* three quarters of the target: one token less must not make it ask */
	s = lg_sizes_of_host(&t, 0, 100, 10 * MS, 0);
	assert_int_equal(s.low_tok, 0);
	assert_int_equal(s.target_tok, 0);
	/* the smallest demand there is wants a token or two */
	assert_in_range(lg_sizes_of_host(&t, 1, 0, 10 * MS, 0).target_tok, 1, 2);
}

TEST(a_written_low_water_is_a_floor)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);

	t.low_water_permille = 500;
	assert_int_equal(lg_sizes_of_host(&t, 100000, 0, 10 * MS, 0).low_tok, 46);
	t.low_water_permille = 100;
	assert_int_equal(lg_sizes_of_host(&t, 100000, 0, 10 * MS, 0).low_tok, 17);
	t.low_water_permille = 1000;	/* still below the target, or it would ask for each token */
	assert_int_equal(lg_sizes_of_host(&t, 100000, 0, 10 * MS, 0).low_tok, 69);
}

TEST(the_lessors_cap_bounds_what_is_held)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_sizes s = lg_sizes_of_host(&t, 1000000, 0, 10 * MS, 100);

	assert_int_equal(s.target_tok, 100);
	assert_int_equal(s.low_tok, 75);
	s = lg_sizes_of_region(&t, 1000000, 5000, 0, 100 * MS, 3000, 3 * S);
	assert_int_equal(s.target_tok, 3000);
	assert_int_equal(s.low_tok, 2250);
	s = lg_sizes_of_host(&t, 1000000, 0, 10 * MS, 1);
	assert_int_equal(s.target_tok, 1);
	assert_int_equal(s.low_tok, 1);
}

TEST(a_region_holds_its_own_reserve_on_top_of_what_its_hosts_want)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_sizes s = lg_sizes_of_region(&t, 100000, 200, 3, 100 * MS, 0, 3 * S);

	/* 200, 100/s for 10 + 100 ms: 11 + 2 sqrt(11) + 1, a peak of 3 is none; and 300 for a period */
	assert_int_equal(s.low_tok, 238);	/* an eighth of a period is more than the 19 */
	assert_int_equal(s.target_tok, 519);
	assert_in_range(lg_sizes_of_region(&t, 100000, 200, 40, 100 * MS, 0, 3 * S).low_tok, 302, 306);
	/* in a long period it does not wait until no more than that is left */
	s = lg_sizes_of_region(&t, 100000, 200, 3, 100 * MS, 0, 20 * S);
	assert_int_equal(s.low_tok, 450);
	assert_int_equal(s.target_tok, 2219);
	/* hosts that want something though nothing flows: just that */
	s = lg_sizes_of_region(&t, 0, 40, 3, 100 * MS, 0, 3 * S);
	assert_int_equal(s.target_tok, 40);
	assert_int_equal(s.low_tok, 30);
	s = lg_sizes_of_region(&t, 0, 0, 3, 100 * MS, 0, 3 * S);
	assert_int_equal(s.target_tok, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_newcomer_who_was_admitted_nothing_has_a_demand_and_a_flood_has_no_more_than_it_can_show),
		cmocka_unit_test(demand_rises_within_a_second_and_falls_within_ten),
		cmocka_unit_test(the_floor_is_an_equal_part_of_the_limit),
		cmocka_unit_test(the_peak_is_the_largest_cost_in_one_interval_and_fades),
		cmocka_unit_test(steady_traffic_of_a_small_host_is_not_taken_for_more_than_it_is),
		cmocka_unit_test(traffic_that_rises_is_seen_within_a_second),
		cmocka_unit_test(of_what_came_between_two_distant_readings_only_what_is_more_than_chance_seems_to_have_come_at_once),
		cmocka_unit_test(a_home_is_told_a_little_more_than_the_mean),
		cmocka_unit_test(a_host_holds_what_lasts_two_round_trips_and_a_period),
		cmocka_unit_test(a_written_low_water_is_a_floor),
		cmocka_unit_test(the_lessors_cap_bounds_what_is_held),
		cmocka_unit_test(a_region_holds_its_own_reserve_on_top_of_what_its_hosts_want),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
