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

#define SHRINKS_MAX 3	/* broken seeds that are looked at more closely */

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* What broke it, and the smallest plan that still does. */
static void print_broken(uint64_t seed, struct sim_plan *plan, const char *broken)
{
	char text[4096], smaller[256];
	uint32_t n_tried;

	sim_plan_describe(plan, text, sizeof(text));
	print_error("seed %llu: %s\n  %s\n  replay: FIRST_SEED=%llu SEEDS=1 build/tests/sim/law_test\n", (unsigned long long)seed, broken, text,
		    (unsigned long long)seed);
	n_tried = sim_plan_shrink(plan, smaller, sizeof(smaller));
	sim_plan_describe(plan, text, sizeof(text));
	print_error("smallest of %u tried: %s\n  %s\n", n_tried, smaller, text);
}

static void search(enum lg_algorithm algorithm)
{
	uint64_t first = from_env("FIRST_SEED", 1), n = from_env("SEEDS", 200), n_broken = 0;
	uint64_t admitted = 0, perfect = 0;

	for (uint64_t seed = first; seed < first + n; seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		const struct sim_result *result;
		struct sim_plan plan;

		sim_plan_draw(seed, algorithm, 0, &plan);
		assert_int_equal(sim_plan_start(&plan, &s), 0);
		sim_run(s);
		result = sim_result_of(s);
		admitted += result->admitted;
		perfect += result->perfect;
		if (!result->broken[0])
			continue;
		if (n_broken++ < SHRINKS_MAX)
			print_broken(seed, &plan, result->broken);
		else
			print_error("seed %llu: %s\n", (unsigned long long)seed, result->broken);
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

static void a_fixed_window_never_admits_more_than_its_limit(void **state)
{
	(void)state;
	search(LG_FIXED_WINDOW);
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
		cmocka_unit_test(a_fixed_window_never_admits_more_than_its_limit),
		cmocka_unit_test(a_window_never_holds_more_than_its_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
