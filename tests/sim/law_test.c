// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A search for a schedule that breaks the law: random clusters, traffic and faults, each from one seed. SEEDS says how many (200),
 * FIRST_SEED where to begin. A seed that fails is printed with the line that runs it alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/lib/sim_plan.h"

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void search(enum lg_algorithm algorithm)
{
	uint64_t first = from_env("FIRST_SEED", 1), n = from_env("SEEDS", 200), n_broken = 0;
	uint64_t admitted = 0, perfect = 0;

	for (uint64_t seed = first; seed < first + n; seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		const struct sim_result *result;
		char plan[256];

		assert_int_equal(sim_plan_new(seed, algorithm, NULL, &s), 0);
		sim_run(s);
		result = sim_result_of(s);
		admitted += result->admitted;
		perfect += result->perfect;
		if (!result->broken[0])
			continue;
		n_broken++;
		sim_plan_describe(s, plan, sizeof(plan));
		print_error("seed %llu: %s\n  %s\n  replay: FIRST_SEED=%llu SEEDS=1 build/tests/sim/law_test\n", (unsigned long long)seed,
			    result->broken, plan, (unsigned long long)seed);
	}
	print_message("%llu seeds, %llu broke the law; served %.3f of what a perfect limiter admits\n", (unsigned long long)n,
		      (unsigned long long)n_broken, (double)admitted / (double)perfect);
	assert_int_equal(n_broken, 0);
}

static void a_token_bucket_never_admits_more_than_burst_and_rate_times_time(void **state)
{
	(void)state;
	search(LG_TOKEN_BUCKET);
}

static void a_window_never_holds_more_than_its_limit(void **state)
{
	(void)state;
	search(LG_SLIDING_WINDOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_token_bucket_never_admits_more_than_burst_and_rate_times_time),
		cmocka_unit_test(a_window_never_holds_more_than_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
