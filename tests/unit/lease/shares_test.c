// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/shares.h"

#include "lease/arith.h"
#include "tests/unit/lease/lease_test.h"

static uint32_t count(const uint8_t target[LG_KEY_SLOTS], size_t who)
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		n += target[slot] == who;
	return n;
}

static void assert_even(const uint8_t target[LG_KEY_SLOTS], size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_in_range(count(target, i), LG_KEY_SLOTS / n, LG_KEY_SLOTS / n + (LG_KEY_SLOTS % n != 0));
}

static uint32_t moved(const uint8_t before[LG_KEY_SLOTS], const uint8_t after[LG_KEY_SLOTS])
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		n += before[slot] != after[slot];
	return n;
}

static void nobody(uint8_t owner[LG_KEY_SLOTS])
{
	memset(owner, LG_NO_REPLICA, LG_KEY_SLOTS);
}

TEST(one_server_owns_all)
{
	uint8_t owner[LG_KEY_SLOTS], target[LG_KEY_SLOTS];

	nobody(owner);
	lg_shares(1, owner, target);
	assert_int_equal(count(target, 0), LG_KEY_SLOTS);
}

TEST(shares_differ_by_at_most_one_and_what_is_so_stays_so)
{
	uint8_t owner[LG_KEY_SLOTS], target[LG_KEY_SLOTS], again[LG_KEY_SLOTS];

	for (size_t n = 1; n <= LG_REPLICAS_MAX; n++) {
		nobody(owner);
		lg_shares(n, owner, target);
		assert_even(target, n);
		lg_shares(n, target, again);
		assert_memory_equal(target, again, sizeof(target));
	}
}

TEST(a_server_that_joins_gets_its_share_and_nothing_else_moves)
{
	uint8_t owner[LG_KEY_SLOTS], target[LG_KEY_SLOTS];

	nobody(owner);
	lg_shares(1, owner, target);
	for (size_t n = 2; n <= LG_REPLICAS_MAX; n++) {
		memcpy(owner, target, sizeof(owner));
		lg_shares(n, owner, target);
		assert_even(target, n);
		/* As many as the newcomer now has, all of them to it. */
		assert_int_equal(moved(owner, target), count(target, n - 1));
		assert_int_equal(count(target, n - 1), LG_KEY_SLOTS / n);
	}
}

TEST(of_a_server_that_leaves_its_slots_move_and_no_others)
{
	uint8_t owner[LG_KEY_SLOTS], target[LG_KEY_SLOTS];

	for (size_t n = 2; n <= LG_REPLICAS_MAX; n++) {
		uint32_t n_free;

		nobody(owner);
		lg_shares(n, owner, target);
		memcpy(owner, target, sizeof(owner));
		/* The last of them, so that the others keep their places. */
		n_free = count(owner, n - 1);
		for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
			if (owner[slot] == n - 1)
				owner[slot] = LG_NO_REPLICA;
		lg_shares(n - 1, owner, target);
		assert_even(target, n - 1);
		assert_int_equal(moved(owner, target), n_free);
	}
}

TEST(from_whatever_state_shares_become_even_with_no_more_moves_than_that_needs)
{
	uint8_t owner[LG_KEY_SLOTS], target[LG_KEY_SLOTS];
	uint64_t seed = 7;

	for (int run = 0; run < 2000; run++) {
		size_t n = 1 + lg_rand_next(&seed) % LG_REPLICAS_MAX;
		uint32_t over = 0, each = LG_KEY_SLOTS / (uint32_t)n, n_over = 0;

		for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
			uint64_t who = lg_rand_next(&seed) % (n + 2);

			owner[slot] = who < n ? (uint8_t)(who * who / n) : LG_NO_REPLICA;
		}
		lg_shares(n, owner, target);
		assert_even(target, n);
		/* What must move: what nobody has, and what somebody has beyond the larger share, or beyond the smaller one if there are not
		 * enough of the larger. */
		for (size_t i = 0; i < n; i++) {
			uint32_t has = count(owner, i);

			over += has > each ? has - each : 0;
			n_over += has > each;
		}
		over -= n_over < LG_KEY_SLOTS % n ? n_over : LG_KEY_SLOTS % (uint32_t)n;
		assert_int_equal(moved(owner, target), over + count(owner, LG_NO_REPLICA));
	}
}

TEST(slots_with_the_same_number_are_one_part)
{
	uint64_t numbers[LG_KEY_SLOTS] = { [0] = 7, [1] = 9, [64] = 7, [255] = 7 };
	struct lg_slot_part parts[LG_KEY_SLOTS];

	assert_int_equal(lg_slot_parts(numbers, parts), 2);
	assert_int_equal(parts[0].number, 7);
	assert_int_equal(lg_slot_set_count(&parts[0].slots), 3);
	assert_true(lg_slot_set_has(&parts[0].slots, 255) && !lg_slot_set_has(&parts[0].slots, 1));
	assert_int_equal(parts[1].number, 9);
	assert_int_equal(lg_slot_set_count(&parts[1].slots), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_server_owns_all),
		cmocka_unit_test(shares_differ_by_at_most_one_and_what_is_so_stays_so),
		cmocka_unit_test(a_server_that_joins_gets_its_share_and_nothing_else_moves),
		cmocka_unit_test(of_a_server_that_leaves_its_slots_move_and_no_others),
		cmocka_unit_test(from_whatever_state_shares_become_even_with_no_more_moves_than_that_needs),
		cmocka_unit_test(slots_with_the_same_number_are_one_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
