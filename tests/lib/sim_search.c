// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_search.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sim_plan.h"

#define SHRINKS_MAX 3	/* broken seeds that are looked at more closely */

static uint64_t from_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* What broke it, and the smallest plan that still does. */
static void print_broken(uint64_t seed, const char *law, struct sim_plan *plan, const char *broken)
{
	char text[4096], smaller[256];
	uint32_t n_tried;

	sim_plan_describe(plan, text, sizeof(text));
	fprintf(stderr, "seed %llu: %s\n  %s\n  replay: LAW=%s FIRST_SEED=%llu SEEDS=1 build/tests/sim/%s\n", (unsigned long long)seed, broken,
		text, law, (unsigned long long)seed, plan->c.subs_per_region ? "tiers_test" : "law_test");
	n_tried = sim_plan_shrink(plan, smaller, sizeof(smaller));
	sim_plan_describe(plan, text, sizeof(text));
	fprintf(stderr, "smallest of %u tried: %s\n  %s\n", n_tried, smaller, text);
}

int64_t sim_search(enum lg_algorithm algorithm, enum lg_lease_kind kind, uint32_t subs, const char *law)
{
	const char *chosen = getenv("LAW");
	uint64_t first = from_env("FIRST_SEED", 1), n = from_env("SEEDS", 200), n_broken = 0;
	uint64_t admitted = 0, perfect = 0;

	if (chosen && *chosen && strcmp(chosen, law) != 0)
		return -1;
	for (uint64_t seed = first; seed < first + n; seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		const struct sim_result *result;
		struct sim_plan plan;
		int r;

		sim_plan_draw(seed, algorithm, subs, &plan);
		if (kind == LG_LEASE_LIMIT)
			sim_plan_of_parts(&plan);
		r = sim_plan_start(&plan, &s);
		assert(r == 0);
		sim_run(s);
		result = sim_result_of(s);
		admitted += result->admitted;
		perfect += result->perfect;
		if (!result->broken[0])
			continue;
		if (n_broken++ < SHRINKS_MAX && !from_env("FIRST_BROKEN", 0))
			print_broken(seed, law, &plan, result->broken);
		else
			fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, result->broken);
		if (from_env("FIRST_BROKEN", 0))
			break;
	}
	printf("%llu seeds, %llu broke the law; served %.3f of what a perfect limiter admits\n", (unsigned long long)n,
	       (unsigned long long)n_broken, (double)admitted / (double)perfect);
	return (int64_t)n_broken;
}
