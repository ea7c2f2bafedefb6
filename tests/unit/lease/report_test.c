// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/report.h"

#include "lease/age.h"
#include "tests/unit/lease/lease_test.h"

static uint64_t sum_of(const struct lg_ask *ask)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < ask->n_slots; i++)
		sum += ask->slots[i].tok;
	return sum;
}

TEST(what_was_spent_in_one_slot_is_told_as_one_with_the_age_of_its_end)
{
	struct lg_report r;
	struct lg_ask ask;

	lg_report_init(&r, 70);
	lg_report_add(&r, T0 + 10 * MS, 3, 100 * MS);
	lg_report_add(&r, T0 + 90 * MS, 4, 100 * MS);
	lg_report_add(&r, T0 + 100 * MS, 5, 100 * MS);
	lg_report_add(&r, T0 + 110 * MS, 0, 100 * MS);
	lg_report_fill(&r, &ask, T0 + 1 * S);
	assert_int_equal(ask.n_slots, 2);
	assert_int_equal(ask.slots[0].id, 71);
	assert_int_equal(ask.slots[0].tok, 7);
	assert_int_equal(ask.slots[0].age_ms, lg_age_ms(T0 + 90 * MS, T0 + 1 * S));
	assert_int_equal(ask.slots[1].id, 72);
	assert_int_equal(ask.slots[1].tok, 5);
	lg_report_fini(&r);
}

TEST(a_slot_that_was_sent_is_closed_and_sent_again_until_acknowledged)
{
	struct lg_report r;
	struct lg_ask ask;

	lg_report_init(&r, 0);
	lg_report_add(&r, T0 + 10 * MS, 3, 100 * MS);
	lg_report_fill(&r, &ask, T0 + 20 * MS);
	lg_report_add(&r, T0 + 30 * MS, 4, 100 * MS);	/* the same tenth of a second, but told as another */
	lg_report_fill(&r, &ask, T0 + 40 * MS);
	assert_int_equal(ask.n_slots, 2);
	assert_int_equal(ask.slots[0].tok, 3);
	assert_int_equal(ask.slots[1].tok, 4);
	lg_report_ack(&r, 1);
	lg_report_add(&r, T0 + 50 * MS, 5, 100 * MS);
	lg_report_ack(&r, 99);	/* open ones were never sent: no acknowledgement is of them */
	lg_report_fill(&r, &ask, T0 + 60 * MS);
	assert_int_equal(ask.n_slots, 1);
	assert_int_equal(ask.slots[0].id, 3);
	assert_int_equal(ask.slots[0].tok, 5);
	lg_report_clear(&r);
	lg_report_fill(&r, &ask, T0 + 70 * MS);
	assert_int_equal(ask.n_slots, 0);
	lg_report_fini(&r);
}

TEST(what_hosts_tell_late_goes_into_its_own_slot)
{
	struct lg_report r;
	struct lg_ask ask;

	lg_report_init(&r, 0);
	lg_report_add(&r, T0 + 550 * MS, 5, 100 * MS);
	lg_report_add(&r, T0 + 150 * MS, 1, 100 * MS);
	lg_report_add(&r, T0 + 350 * MS, 3, 100 * MS);
	lg_report_add(&r, T0 + 320 * MS, 10, 100 * MS);	/* same slot, earlier: the later end stays */
	lg_report_fill(&r, &ask, T0 + 1 * S);
	assert_int_equal(ask.n_slots, 3);
	assert_int_equal(ask.slots[0].tok, 1);
	assert_int_equal(ask.slots[1].tok, 13);
	assert_int_equal(ask.slots[1].age_ms, lg_age_ms(T0 + 350 * MS, T0 + 1 * S));
	assert_int_equal(ask.slots[2].tok, 5);
	lg_report_fini(&r);
}

TEST(with_too_many_slots_the_oldest_are_told_as_one_with_the_later_age)
{
	struct lg_report r;
	struct lg_ask ask;

	lg_report_init(&r, 0);
	for (uint64_t i = 0; i < 300; i++) {
		lg_report_add(&r, T0 + i * 100 * MS, 1, 100 * MS);
		if (i % 10 == 0)
			lg_report_fill(&r, &ask, T0 + i * 100 * MS);
	}
	lg_report_fill(&r, &ask, T0 + 30 * S);
	assert_int_equal(ask.n_slots, LG_SLOTS_MAX);
	assert_int_equal(sum_of(&ask), 300);
	assert_int_equal(ask.slots[0].tok, 300 - LG_SLOTS_MAX + 1);
	assert_int_equal(ask.slots[0].age_ms, lg_age_ms(T0 + (300 - LG_SLOTS_MAX) * 100 * MS, T0 + 30 * S));
	for (size_t i = 1; i < ask.n_slots; i++) {
		assert_true(ask.slots[i].id > ask.slots[i - 1].id);
		assert_true(ask.slots[i].age_ms < ask.slots[i - 1].age_ms);
	}
	lg_report_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_spent_in_one_slot_is_told_as_one_with_the_age_of_its_end),
		cmocka_unit_test(a_slot_that_was_sent_is_closed_and_sent_again_until_acknowledged),
		cmocka_unit_test(what_hosts_tell_late_goes_into_its_own_slot),
		cmocka_unit_test(with_too_many_slots_the_oldest_are_told_as_one_with_the_later_age),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
