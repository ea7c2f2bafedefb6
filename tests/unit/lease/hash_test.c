// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/hash.h"

#include <stdio.h>

#include "tests/unit/lease/lease_test.h"

#define N_KEYS 30000u

static size_t home(const char *const *regions, size_t n, uint32_t key)
{
	return lg_home_of(regions, n, &key, sizeof(key));
}

TEST(a_region_more_takes_its_part_of_the_keys_and_no_other_key_moves)
{
	const char *const regions[] = { "us-east", "eu-west", "ap-south", "sa-east" };

	for (size_t n = 1; n < 4; n++) {
		uint32_t n_moved = 0;

		for (uint32_t key = 0; key < N_KEYS; key++) {
			size_t before = home(regions, n, key), after = home(regions, n + 1, key);

			if (before == after)
				continue;
			assert_int_equal(after, n);
			n_moved++;
		}
		/* 1/(n+1) of the keys, give or take five standard deviations. */
		assert_in_range(n_moved, N_KEYS / (n + 1) - 420, N_KEYS / (n + 1) + 420);
	}
}

TEST(every_region_is_home_to_its_part)
{
	const char *const regions[] = { "a", "b", "c", "d", "e" };
	uint32_t n[5] = { 0 };

	for (uint32_t key = 0; key < N_KEYS; key++)
		n[home(regions, 5, key)]++;
	for (size_t i = 0; i < 5; i++)
		assert_in_range(n[i], N_KEYS / 5 - 350, N_KEYS / 5 + 350);
}

TEST(the_home_depends_on_the_names_and_not_on_their_order)
{
	const char *const one[] = { "us-east", "eu-west", "ap-south" }, *const other[] = { "ap-south", "us-east", "eu-west" };

	for (uint32_t key = 0; key < 2000; key++)
		assert_string_equal(one[home(one, 3, key)], other[home(other, 3, key)]);
}

TEST(one_region_is_home_to_all)
{
	const char *const one[] = { "here" };

	for (uint32_t key = 0; key < 100; key++)
		assert_int_equal(home(one, 1, key), 0);
}

/* What is written here is written in the rules of a running cluster: both ends of an upgrade must agree. */
TEST(the_home_of_a_key_never_changes_with_the_version)
{
	const char *const regions[] = { "us-east", "eu-west", "ap-south" };
	static const struct { const char *key; size_t home; } rows[] = {
		{ "per-user", 2 }, { "per-host", 0 }, { "dns", 2 }, { "", 2 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(lg_home_of(regions, 3, rows[i].key, strlen(rows[i].key)), rows[i].home);
}

TEST(keys_are_spread_over_all_slots_wherever_their_home_is)
{
	const char *const regions[] = { "a", "b", "c" };
	uint32_t n[3][LG_KEY_SLOTS] = { 0 };

	for (uint32_t key = 0; key < 256 * N_KEYS / 100; key++) {
		uint32_t slot = lg_slot_of((const uint8_t *)&key, sizeof(key));

		assert_in_range(slot, 0, LG_KEY_SLOTS - 1);
		n[home(regions, 3, key)][slot]++;
	}
	for (size_t i = 0; i < 3; i++)
		for (size_t slot = 0; slot < LG_KEY_SLOTS; slot++)
			assert_in_range(n[i][slot], 50, 150);
}

/* Two versions that disagreed here would both own a key. */
TEST(the_slot_of_a_key_never_changes_with_the_version)
{
	const uint8_t a[16] = { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 7 }, b[16] = { 0 };
	static const struct { const char *rule; uint32_t form; uint32_t slot; } rows[] = {
		{ "per-user", 2, 180 }, { "per-user", 3, 190 }, { "dns", 1, 76 }, { "", 0, 133 },
	};
	uint8_t bytes[LG_KEY_BYTES_MAX];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(lg_slot_of(bytes, lg_key_bytes(rows[i].rule, rows[i].form, a, b, bytes)), rows[i].slot);
}

TEST(a_key_is_hashed_as_the_wire_has_it)
{
	const uint8_t a[16] = { 1 }, b[16] = { 2 };
	uint8_t bytes[LG_KEY_BYTES_MAX];

	assert_int_equal(lg_key_bytes("dns", 0x04030201, a, b, bytes), 4 + 4 + 32);
	assert_memory_equal(bytes, "dns\0\1\2\3\4\1", 9);
	assert_memory_equal(bytes + 24, b, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_more_takes_its_part_of_the_keys_and_no_other_key_moves),
		cmocka_unit_test(every_region_is_home_to_its_part),
		cmocka_unit_test(the_home_depends_on_the_names_and_not_on_their_order),
		cmocka_unit_test(one_region_is_home_to_all),
		cmocka_unit_test(the_home_of_a_key_never_changes_with_the_version),
		cmocka_unit_test(keys_are_spread_over_all_slots_wherever_their_home_is),
		cmocka_unit_test(the_slot_of_a_key_never_changes_with_the_version),
		cmocka_unit_test(a_key_is_hashed_as_the_wire_has_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
