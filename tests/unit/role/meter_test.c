// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"

#define S LG_NS_PER_S
#define START (1000 * S + S / 3) /* in the middle of a second */

static void nothing_is_said_before_a_whole_second_has_passed(void **state)
{
	struct lg_meter_reading v;
	struct lg_meter m;

	(void)state;
	lg_meter_init(&m, START);
	lg_meter_report(&m, LG_TIER_HOME, START);
	lg_meter_read(&m, 1002 * S - 1, &v);
	assert_int_equal(v.seconds, 0);
	assert_true(v.reports_per_s[LG_TIER_HOME] == 0);
	lg_meter_report(&m, LG_TIER_HOME, 1002 * S - 1);
	lg_meter_read(&m, 1002 * S, &v);
	assert_int_equal(v.seconds, 1);
	assert_true(v.reports_per_s[LG_TIER_HOME] == 1);
}

static void messages_are_counted_by_tier_and_for_a_minute(void **state)
{
	struct lg_meter_reading v;
	struct lg_meter m;

	(void)state;
	lg_meter_init(&m, START);
	for (uint64_t s = 1001; s <= 1120; s++) {
		lg_meter_report(&m, LG_TIER_HOME, s * S);
		lg_meter_report(&m, LG_TIER_HOME, s * S + S / 2);
		lg_meter_grant(&m, LG_TIER_HOME, s * S);
		for (int i = 0; i < 5; i++)
			lg_meter_report(&m, LG_TIER_REGION, s * S + 1);
	}
	lg_meter_read(&m, 1121 * S - 1, &v);
	assert_int_equal(v.seconds, LG_METER_SECONDS);
	assert_true(v.reports_per_s[LG_TIER_HOME] == 2 && v.reports_per_s[LG_TIER_REGION] == 5);
	assert_true(v.grants_per_s[LG_TIER_HOME] == 1 && v.grants_per_s[LG_TIER_REGION] == 0);
	assert_int_equal(m.n_reports[LG_TIER_HOME], 240);
	/* Half a minute of silence halves it, a whole one ends it. */
	lg_meter_read(&m, 1151 * S, &v);
	assert_true(v.reports_per_s[LG_TIER_HOME] == 1);
	lg_meter_read(&m, 1180 * S, &v);
	assert_true(v.reports_per_s[LG_TIER_HOME] == 2.0 / 60);
	lg_meter_read(&m, 1181 * S, &v);
	assert_true(v.reports_per_s[LG_TIER_HOME] == 0);
	assert_int_equal(m.n_reports[LG_TIER_HOME], 240);
}

static void the_worst_is_over_all_keys_at_once_and_lasts_a_minute(void **state)
{
	struct lg_meter_reading v;
	struct lg_meter m;

	(void)state;
	lg_meter_init(&m, START);
	lg_meter_outstanding(&m, 0, 100, 1010 * S);
	lg_meter_outstanding(&m, 0, 50, 1010 * S + 1);	/* another key */
	lg_meter_outstanding(&m, 100, 20, 1010 * S + 2);
	lg_meter_outstanding(&m, 50, 60, 1010 * S + 3);
	assert_int_equal(m.outstanding_tok, 80);
	lg_meter_read(&m, 1011 * S, &v);
	assert_int_equal(v.worst_tok, 150);
	lg_meter_read(&m, 1070 * S, &v);
	assert_int_equal(v.worst_tok, 150);
	/* What is still out counts in seconds in which nothing happens. */
	lg_meter_read(&m, 1071 * S, &v);
	assert_int_equal(v.worst_tok, 80);
	lg_meter_read(&m, 5000 * S, &v);
	assert_int_equal(v.worst_tok, 80);
	lg_meter_outstanding(&m, 20, 0, 5000 * S);
	lg_meter_outstanding(&m, 60, 0, 5000 * S);
	lg_meter_read(&m, 5061 * S, &v);
	assert_int_equal(v.worst_tok, 0);
}

static void the_ratio_is_the_product_over_arrivals_times_regions(void **state)
{
	struct lg_meter_reading v;
	struct lg_meter m;

	(void)state;
	lg_meter_init(&m, START);
	lg_meter_outstanding(&m, 0, 450, 1001 * S);
	for (uint64_t s = 1001; s < 1021; s++) {
		lg_meter_report(&m, LG_TIER_HOME, s * S);
		lg_meter_sample(&m, 150000, s % 2 ? 1 : 3, s * S);
	}
	lg_meter_read(&m, 1021 * S, &v);
	assert_true(v.demand_tps == 150 && v.active == 2);
	assert_true(v.product == 450 && v.ratio == 1.5);
}

static void without_arrivals_there_is_no_ratio(void **state)
{
	struct lg_meter_reading v;
	struct lg_meter m;

	(void)state;
	lg_meter_init(&m, START);
	lg_meter_outstanding(&m, 0, 450, 1001 * S);
	lg_meter_report(&m, LG_TIER_HOME, 1001 * S);
	lg_meter_sample(&m, 0, 0, 1001 * S);
	lg_meter_read(&m, 1002 * S, &v);
	assert_true(v.product == 450 && v.ratio == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_said_before_a_whole_second_has_passed),
		cmocka_unit_test(messages_are_counted_by_tier_and_for_a_minute),
		cmocka_unit_test(the_worst_is_over_all_keys_at_once_and_lasts_a_minute),
		cmocka_unit_test(the_ratio_is_the_product_over_arrivals_times_regions),
		cmocka_unit_test(without_arrivals_there_is_no_ratio),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
