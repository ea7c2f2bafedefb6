// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A search for a schedule that breaks the law: random clusters, traffic and faults, each from one seed. SEEDS says how many (200),
 * FIRST_SEED where to begin, LAW which one to search (bucket, fixed, window), FIRST_BROKEN=1 that one broken seed is enough. A seed that
 * fails is printed with the line that runs it alone, the first few with the smallest plan that still fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim_search.h"

static void search(enum lg_algorithm algorithm, enum lg_lease_kind kind, const char *law)
{
	int64_t n_broken = sim_search(algorithm, kind, 0, law);

	if (n_broken < 0)
		skip();
	assert_int_equal(n_broken, 0);
}

static void a_token_bucket_never_admits_more_than_burst_and_rate_times_time(void **state)
{
	(void)state;
	search(LG_TOKEN_BUCKET, LG_LEASE_BLOCK, "bucket");
}

static void a_fixed_window_never_admits_more_than_its_limit(void **state)
{
	(void)state;
	search(LG_FIXED_WINDOW, LG_LEASE_BLOCK, "fixed");
}

static void a_window_never_holds_more_than_its_limit(void **state)
{
	(void)state;
	search(LG_SLIDING_WINDOW, LG_LEASE_BLOCK, "window");
}

static void parts_of_a_bucket_never_admit_more_than_the_whole(void **state)
{
	(void)state;
	search(LG_TOKEN_BUCKET, LG_LEASE_LIMIT, "bucket-parts");
}

static void parts_of_a_fixed_window_never_admit_more_than_the_whole(void **state)
{
	(void)state;
	search(LG_FIXED_WINDOW, LG_LEASE_LIMIT, "fixed-parts");
}

static void parts_of_a_window_never_admit_more_than_the_whole(void **state)
{
	(void)state;
	search(LG_SLIDING_WINDOW, LG_LEASE_LIMIT, "window-parts");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_bucket_never_admits_more_than_burst_and_rate_times_time),
		cmocka_unit_test(a_fixed_window_never_admits_more_than_its_limit),
		cmocka_unit_test(a_window_never_holds_more_than_its_limit),
		cmocka_unit_test(parts_of_a_bucket_never_admit_more_than_the_whole),
		cmocka_unit_test(parts_of_a_fixed_window_never_admit_more_than_the_whole),
		cmocka_unit_test(parts_of_a_window_never_admit_more_than_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
