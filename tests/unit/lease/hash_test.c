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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_more_takes_its_part_of_the_keys_and_no_other_key_moves),
		cmocka_unit_test(every_region_is_home_to_its_part),
		cmocka_unit_test(the_home_depends_on_the_names_and_not_on_their_order),
		cmocka_unit_test(one_region_is_home_to_all),
		cmocka_unit_test(the_home_of_a_key_never_changes_with_the_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
