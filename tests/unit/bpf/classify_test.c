// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/classify.h on the host: sets of rules. What packets match: tests/unit/rules/vectors_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "classify.h"

static void the_lowest_bit_of_every_word_is_found(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 64; i++) {
		assert_int_equal(lg_lowest_bit(1ull << i), i);
		assert_int_equal(lg_lowest_bit(~0ull << i), i);
	}
}

static void zero_is_told_from_all_else_without_a_branch(void **state)
{
	(void)state;
	assert_int_equal(lg_is_zero(0), 1);
	assert_int_equal(lg_is_zero(~0ull), 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(lg_is_zero(1ull << i), 0);
}

/* Every set of one rule and of two. */
static void the_rules_of_a_set_come_out_in_order(void **state)
{
	struct lg_bits bits;
	uint32_t only;

	(void)state;
	for (uint32_t i = 0; i < LG_RULES_MAX; i++) {
		for (uint32_t j = i; j < LG_RULES_MAX; j++) {
			memset(&bits, 0, sizeof(bits));
			bits.w[i / 64] |= 1ull << i % 64;
			bits.w[j / 64] |= 1ull << j % 64;
			assert_false(lg_bits_empty(&bits));
			assert_int_equal(lg_bits_single(&bits, &only), i == j);
			if (i == j)
				assert_int_equal(only, i);
			assert_int_equal(lg_bits_take(&bits), i);
			assert_int_equal(lg_bits_empty(&bits), i == j);
			if (i != j)
				assert_int_equal(lg_bits_take(&bits), j);
			assert_true(lg_bits_empty(&bits));
		}
	}
}

static void a_full_set_is_taken_from_rule_by_rule(void **state)
{
	struct lg_bits bits = { { ~0ull, ~0ull, ~0ull, ~0ull } };
	uint32_t only;

	(void)state;
	for (uint32_t i = 0; i < LG_RULES_MAX; i++) {
		assert_int_equal(lg_bits_single(&bits, &only), i == LG_RULES_MAX - 1);
		assert_int_equal(lg_bits_take(&bits), i);
	}
	assert_true(lg_bits_empty(&bits));
}

static void two_sets_leave_what_is_in_both(void **state)
{
	struct lg_bits a = { { 0x3, 0, 0x8, ~0ull } }, b = { { 0x6, ~0ull, 0x8, 1ull << 63 } };

	(void)state;
	lg_bits_keep(&a, &b);
	assert_true(a.w[0] == 2 && a.w[1] == 0 && a.w[2] == 8 && a.w[3] == 1ull << 63);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_bit_of_every_word_is_found),
		cmocka_unit_test(zero_is_told_from_all_else_without_a_branch),
		cmocka_unit_test(the_rules_of_a_set_come_out_in_order),
		cmocka_unit_test(a_full_set_is_taken_from_rule_by_rule),
		cmocka_unit_test(two_sets_leave_what_is_in_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
