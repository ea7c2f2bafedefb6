// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A tier more: regions whose lessor is a region, as where a host lends on to its processes. The same law, searched in the same way; each tier
 * restarts and loses its store as in two. SEEDS and FIRST_SEED as for law_test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim_search.h"

#define SUBS 2	/* regions below each region */

static void search(enum lg_algorithm algorithm, enum lg_lease_kind kind, const char *law)
{
	int64_t n_broken = sim_search(algorithm, kind, SUBS, law);

	if (n_broken < 0)
		skip();
	assert_int_equal(n_broken, 0);
}

static void a_bucket_lent_on_over_three_tiers_keeps_its_law(void **state)
{
	(void)state;
	search(LG_TOKEN_BUCKET, LG_LEASE_BLOCK, "bucket");
}

static void a_fixed_window_lent_on_over_three_tiers_keeps_its_law(void **state)
{
	(void)state;
	search(LG_FIXED_WINDOW, LG_LEASE_BLOCK, "fixed");
}

static void a_window_lent_on_over_three_tiers_keeps_its_law(void **state)
{
	(void)state;
	search(LG_SLIDING_WINDOW, LG_LEASE_BLOCK, "window");
}

static void parts_of_a_bucket_lent_on_over_three_tiers_keep_its_law(void **state)
{
	(void)state;
	search(LG_TOKEN_BUCKET, LG_LEASE_LIMIT, "bucket-parts");
}

static void parts_of_a_fixed_window_lent_on_over_three_tiers_keep_its_law(void **state)
{
	(void)state;
	search(LG_FIXED_WINDOW, LG_LEASE_LIMIT, "fixed-parts");
}

static void parts_of_a_window_lent_on_over_three_tiers_keep_its_law(void **state)
{
	(void)state;
	search(LG_SLIDING_WINDOW, LG_LEASE_LIMIT, "window-parts");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_lent_on_over_three_tiers_keeps_its_law),
		cmocka_unit_test(a_fixed_window_lent_on_over_three_tiers_keeps_its_law),
		cmocka_unit_test(a_window_lent_on_over_three_tiers_keeps_its_law),
		cmocka_unit_test(parts_of_a_bucket_lent_on_over_three_tiers_keep_its_law),
		cmocka_unit_test(parts_of_a_fixed_window_lent_on_over_three_tiers_keep_its_law),
		cmocka_unit_test(parts_of_a_window_lent_on_over_three_tiers_keep_its_law),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
