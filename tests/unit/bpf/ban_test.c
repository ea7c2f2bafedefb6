// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How refusals are counted towards a ban, and how long a ban is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ban.h"

#define S 1000000000ull
#define N(a) (sizeof(a) / sizeof((a)[0]))
#define TAG(n) ((uint64_t)(n) << LG_STRIKE_TAG_SHIFT)

static const struct lg_ban_terms terms = { .after = 3, .within_ns = 10 * S, .for_ns = 60 * S };

static uint64_t at(uint64_t unit)
{
	return unit * LG_STRIKE_UNIT_NS;
}

static int strike(uint64_t *word, uint64_t tag, uint64_t now_ns)
{
	__u64 next;
	int r = lg_strike_next(*word, tag, now_ns, &terms, &next);

	*word = next;
	return r;
}

static void the_last_refusal_within_the_time_is_one_too_many(void **state)
{
	const uint64_t within = (10 * S + LG_STRIKE_UNIT_NS - 1) / LG_STRIKE_UNIT_NS;
	uint64_t word = 0;

	(void)state;
	assert_int_equal(strike(&word, TAG(1), at(1000)), LG_STRIKE_COUNTED);
	assert_int_equal(strike(&word, TAG(1), at(1000 + within - 1)), LG_STRIKE_COUNTED);
	assert_int_equal(strike(&word, TAG(1), at(1000 + within) - 1), LG_STRIKE_OUT);
	assert_int_equal(word, 0);
	/* One later: it begins anew. */
	assert_int_equal(strike(&word, TAG(1), at(1000)), LG_STRIKE_COUNTED);
	assert_int_equal(strike(&word, TAG(1), at(1000)), LG_STRIKE_COUNTED);
	assert_int_equal(strike(&word, TAG(1), at(1000 + within)), LG_STRIKE_COUNTED);
	assert_int_equal(strike(&word, TAG(1), at(1000 + within)), LG_STRIKE_COUNTED);
	assert_int_equal(strike(&word, TAG(1), at(1000 + within)), LG_STRIKE_OUT);
}

static void one_refusal_can_be_enough(void **state)
{
	struct lg_ban_terms one = terms;
	__u64 next;

	(void)state;
	one.after = 1;
	assert_int_equal(lg_strike_next(0, TAG(1), at(7), &one, &next), LG_STRIKE_OUT);
	assert_int_equal(next, 0);
}

static void another_keys_word_is_counted_down_and_then_taken(void **state)
{
	uint64_t word = 0;

	(void)state;
	strike(&word, TAG(1), at(5));
	strike(&word, TAG(1), at(5));
	assert_int_equal(strike(&word, TAG(2), at(6)), LG_STRIKE_OTHER);
	assert_int_equal(word & LG_STRIKE_COUNT, 1);
	assert_int_equal(word >> LG_STRIKE_TAG_SHIFT, 1);
	assert_int_equal(strike(&word, TAG(2), at(6)), LG_STRIKE_OTHER);
	assert_int_equal(word, 0);
	assert_int_equal(strike(&word, TAG(2), at(6)), LG_STRIKE_COUNTED);
	assert_int_equal(word >> LG_STRIKE_TAG_SHIFT, 2);
	/* One whose time is over is taken at once. */
	assert_int_equal(strike(&word, TAG(3), at(6) + 11 * S), LG_STRIKE_COUNTED);
	assert_int_equal(word >> LG_STRIKE_TAG_SHIFT, 3);
}

/* Two CPUs read clocks that differ, and the start wraps: neither makes a refusal old. */
static void a_clock_that_is_late_or_wraps_ends_nothing(void **state)
{
	const uint64_t round = 1ull << LG_STRIKE_START_BITS;
	uint64_t word = 0;

	(void)state;
	strike(&word, TAG(1), at(2000));
	assert_int_equal(strike(&word, TAG(1), at(2000 - LG_STRIKE_LAG + 1)), LG_STRIKE_COUNTED);
	assert_int_equal(word & LG_STRIKE_COUNT, 2);
	word = 0;
	strike(&word, TAG(1), at(round - 1));
	strike(&word, TAG(1), at(round + 1));
	assert_int_equal(word & LG_STRIKE_COUNT, 2);
}

static void bans_double_up_to_their_maximum_and_are_forgotten_after_it(void **state)
{
	static const struct {
		uint64_t max_s;
		uint32_t times;
		uint64_t quiet_s; /* since the last one ended */
		uint64_t want_s;
		uint32_t want_times;
	} rows[] = {
		{ 0, 1, 0, 60, 1 },
		{ 300, 0, 0, 60, 1 },
		{ 300, 1, 0, 120, 2 },
		{ 300, 2, 299, 240, 3 },
		{ 300, 2, 300, 60, 1 },
		{ 300, 3, 0, 300, 4 },
		{ 300, 1000000, 0, 300, 1000001 },
		{ 60, 5, 0, 60, 6 },
		{ 2678400, 40, 0, 2678400, 41 },
	};

	(void)state;
	for (size_t i = 0; i < N(rows); i++) {
		struct lg_ban_terms t = { .after = 1, .within_ns = S, .for_ns = 60 * S, .max_ns = rows[i].max_s * S };
		__u32 times = rows[i].times;

		assert_int_equal(lg_ban_length_ns(&t, 1000 * S, (1000 + rows[i].quiet_s) * S, &times), rows[i].want_s * S);
		assert_int_equal(times, rows[i].want_times);
	}
}

static void keys_of_different_rules_have_different_places(void **state)
{
	struct lg_control ctl = { .hash_seed = 1, .line_seed = { 2, 3 } };
	struct lg_key key = { .rule_id = 1, .form = LG_FORM_SOURCE };
	struct lg_strike_spot a, b;
	int same = 0;

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		memcpy(key.a + 12, &i, sizeof(i));
		key.rule_id = 1;
		a = lg_strike_spot(&key, &ctl);
		key.rule_id = 2;
		b = lg_strike_spot(&key, &ctl);
		assert_true(a.index < LG_STRIKE_SLOTS && a.tag && !(a.tag & (TAG(1) - 1)));
		same += a.index == b.index;
	}
	assert_true(same < 5);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_refusal_within_the_time_is_one_too_many),
		cmocka_unit_test(one_refusal_can_be_enough),
		cmocka_unit_test(another_keys_word_is_counted_down_and_then_taken),
		cmocka_unit_test(a_clock_that_is_late_or_wraps_ends_nothing),
		cmocka_unit_test(bans_double_up_to_their_maximum_and_are_forgotten_after_it),
		cmocka_unit_test(keys_of_different_rules_have_different_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
