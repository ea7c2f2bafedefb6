// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/queue.h"

#include "tests/unit/lease/lease_test.h"

TEST(a_queue_is_worked_off_at_its_rate_to_the_nanosecond)
{
	struct lg_queue q;

	lg_queue_init(&q, 3, 1 * S, T0);
	lg_queue_add(&q, 2, T0, T0);
	assert_int_equal(lg_queue_tok(&q, T0), 2);
	assert_int_equal(lg_queue_tok(&q, T0 + 333333333), 2);
	assert_int_equal(lg_queue_tok(&q, T0 + 333333334), 1);
	assert_int_equal(lg_queue_tok(&q, T0 + 666666666), 1);
	assert_int_equal(lg_queue_tok(&q, T0 + 666666667), 0);
}

TEST(looking_often_loses_nothing)
{
	struct lg_queue q;

	lg_queue_init(&q, 3, 1 * S, T0);
	lg_queue_add(&q, 3, T0, T0);
	for (uint64_t t = 0; t < 1 * S; t += 999983)
		lg_queue_tok(&q, T0 + t);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S - 1), 1);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S), 0);
}

TEST(tokens_told_of_late_use_the_time_there_was_nothing_to_do)
{
	struct lg_queue q;

	lg_queue_init(&q, 10, 1 * S, T0);
	/* 700 ms since: seven of nine are gone. */
	lg_queue_add(&q, 9, T0 + 300 * MS, T0 + 1 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S), 2);
	/* That time is used up; the 300 ms before it are there still, for what was spent then. */
	lg_queue_add(&q, 1, T0 + 300 * MS, T0 + 1 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S), 3);
	lg_queue_add(&q, 4, T0, T0 + 1 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S), 4);
}

TEST(a_time_used_in_part_leaves_the_later_part)
{
	struct lg_queue q;

	lg_queue_init(&q, 10, 1 * S, T0);
	lg_queue_add(&q, 3, T0, T0 + 1 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S), 0);
	lg_queue_add(&q, 8, T0, T0 + 1 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 1 * S), 1);
}

TEST(only_the_last_few_times_are_remembered)
{
	struct lg_queue q;

	lg_queue_init(&q, 10, 1 * S, T0);
	for (uint64_t i = 1; i <= LG_QUEUE_IDLE_MAX + 4; i++)
		lg_queue_add(&q, 1, T0 + i * S, T0 + i * S);	/* 100 ms of work in each second */
	lg_queue_add(&q, 1000, T0, T0 + (LG_QUEUE_IDLE_MAX + 4) * S);
	assert_int_equal(lg_queue_tok(&q, T0 + (LG_QUEUE_IDLE_MAX + 4) * S), 1001 - 9 * LG_QUEUE_IDLE_MAX);
}

TEST(another_rate_keeps_what_waits_and_forgets_when_there_was_nothing_to_do)
{
	struct lg_queue q;

	lg_queue_init(&q, 10, 1 * S, T0);
	lg_queue_add(&q, 5, T0 + 1 * S, T0 + 1 * S);
	lg_queue_pace(&q, 1, 2 * S, T0 + 1 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 3 * S - 1), 5);
	assert_int_equal(lg_queue_tok(&q, T0 + 3 * S), 4);
	lg_queue_add(&q, 1, T0, T0 + 3 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 3 * S), 5);
	lg_queue_pace(&q, 0, 1 * S, T0 + 3 * S);
	assert_int_equal(lg_queue_tok(&q, T0 + 99 * S), 5);
}

TEST(no_more_is_dropped_than_waits)
{
	struct lg_queue q;

	lg_queue_init(&q, 10, 1 * S, T0);
	lg_queue_add(&q, 5, T0, T0);
	lg_queue_drop(&q, 2, T0);
	assert_int_equal(lg_queue_tok(&q, T0), 3);
	lg_queue_drop(&q, 9, T0);
	lg_queue_add(&q, 1, T0, T0);
	assert_int_equal(lg_queue_tok(&q, T0), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_is_worked_off_at_its_rate_to_the_nanosecond),
		cmocka_unit_test(looking_often_loses_nothing),
		cmocka_unit_test(tokens_told_of_late_use_the_time_there_was_nothing_to_do),
		cmocka_unit_test(a_time_used_in_part_leaves_the_later_part),
		cmocka_unit_test(only_the_last_few_times_are_remembered),
		cmocka_unit_test(another_rate_keeps_what_waits_and_forgets_when_there_was_nothing_to_do),
		cmocka_unit_test(no_more_is_dropped_than_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
