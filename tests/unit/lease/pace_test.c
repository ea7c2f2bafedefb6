// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lease/pace.h"

#define MS 1000000ull
#define S (1000 * MS)
#define TEST(name) static void name(void **state __attribute__((unused)))

/* Of so many that are ready, those sent within ms, looked at each millisecond. */
static uint32_t send_some(struct lg_pace *p, uint32_t n_holders, uint32_t n, uint64_t ready_ns, uint64_t from_ns, uint32_t ms)
{
	uint32_t n_sent = 0;

	for (uint64_t now_ns = from_ns; now_ns < from_ns + ms * MS; now_ns += MS)
		while (n_sent < n && lg_pace_may_send(p, n_holders, ready_ns, now_ns)) {
			lg_pace_count(p, n_holders, now_ns);
			n_sent++;
		}
	return n_sent;
}

TEST(a_few_holders_never_wait)
{
	struct lg_pace p = { 0 };

	assert_false(lg_pace_is_crowd(64));
	assert_int_equal(send_some(&p, 64, 10000, 10 * S, 10 * S, 1), 10000);
	p = (struct lg_pace){ 0 };
	assert_true(lg_pace_is_crowd(65));
	assert_in_range(send_some(&p, 65, 10000, 10 * S, 10 * S, 1), 1, 2);
}

TEST(of_a_thousand_so_many_are_answered_in_a_tenth_of_a_second_as_are_no_herd)
{
	struct lg_pace p = { 0 };

	assert_in_range(send_some(&p, 1000, 1000, 10 * S, 10 * S, 100), 27, 33);
	assert_in_range(send_some(&p, 1000, 1000, 10 * S, 10 * S + 100 * MS, 100), 27, 31);
}

TEST(what_is_heard_leaves_less_to_be_said)
{
	struct lg_pace p = { 0 };
	uint32_t n_sent = 0;

	for (uint32_t ms = 0; ms < 100; ms++) {
		if (ms % 5 == 0)
			lg_pace_count(&p, 1000, 10 * S + ms * MS);
		n_sent += send_some(&p, 1000, 1000, 10 * S, 10 * S + ms * MS, 1);
	}
	assert_in_range(n_sent, 7, 12); /* and 20 were heard */
}

TEST(nobody_waits_for_longer_than_a_holder_is_patient)
{
	struct lg_pace p = { 0 };

	for (uint32_t i = 0; i < 10000; i++)
		lg_pace_count(&p, 1000, 10 * S + LG_PACE_WAIT_MAX_NS - 1);
	assert_false(lg_pace_may_send(&p, 1000, 10 * S, 10 * S + LG_PACE_WAIT_MAX_NS - 1));
	assert_true(lg_pace_may_send(&p, 1000, 10 * S, 10 * S + LG_PACE_WAIT_MAX_NS));
}

TEST(what_is_usual_is_no_reason_to_wait)
{
	struct lg_pace p = { 0 };
	uint32_t n_late = 0;

	/* 133 of a thousand in each tenth of a second, and as many answers. */
	for (uint64_t us = 0; us < 60000000; us += 750) {
		uint64_t now_ns = S + us * 1000;

		lg_pace_count(&p, 1000, now_ns);
		if (us > 30000000 && !lg_pace_may_send(&p, 1000, now_ns, now_ns))
			n_late++;
		lg_pace_count(&p, 1000, now_ns);
	}
	assert_int_equal(n_late, 0);
	/* Gone after a while. */
	assert_in_range(send_some(&p, 1000, 1000, 160 * S, 160 * S, 100), 27, 33);
}

TEST(time_that_stands_still_or_runs_back_is_no_pace)
{
	struct lg_pace p = { 0 };

	while (lg_pace_may_send(&p, 1000, 10 * S, 10 * S))
		lg_pace_count(&p, 1000, 10 * S);
	assert_false(lg_pace_may_send(&p, 1000, 10 * S, 9 * S));
	lg_pace_count(&p, 1000, 9 * S);
	assert_false(lg_pace_may_send(&p, 1000, 10 * S, 10 * S));
	assert_true(lg_pace_may_send(&p, 1000, 10 * S, 10 * S + 10 * MS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_holders_never_wait),
		cmocka_unit_test(of_a_thousand_so_many_are_answered_in_a_tenth_of_a_second_as_are_no_herd),
		cmocka_unit_test(what_is_heard_leaves_less_to_be_said),
		cmocka_unit_test(nobody_waits_for_longer_than_a_holder_is_patient),
		cmocka_unit_test(what_is_usual_is_no_reason_to_wait),
		cmocka_unit_test(time_that_stands_still_or_runs_back_is_no_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
