// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Greedy: each part of a plan is taken away or made simpler for as long as what is left still breaks a law. Whatever is changed shifts
 * all that is drawn by chance while it runs, so each simpler plan is tried with a few sequences of chance before it is given up.
 */
#include <stdio.h>
#include <string.h>

#include "lease/arith.h"
#include "tests/lib/sim_plan.h"

#define CHANCES 12
#define TRIES_MAX 1500

struct search {
	struct sim_plan best;
	char broken[256];
	uint32_t n_tried;
};

/* Whether this plan still breaks a law; then it is the best. */
static bool is_smaller(struct search *search, const struct sim_plan *candidate)
{
	struct sim_plan plan = *candidate;

	for (uint64_t chance = 0; chance < CHANCES && search->n_tried < TRIES_MAX; chance++) {
		_cleanup_(sim_free) struct sim *s = NULL;

		search->n_tried++;
		if (chance)
			plan.c.seed = chance;
		if (sim_plan_start(&plan, &s) < 0)
			return false;
		sim_run(s);
		if (!sim_result_of(s)->broken[0])
			continue;
		plan.c.end_ns = lg_min_u64(plan.c.end_ns, sim_now_ns(s) + 1);
		search->best = plan;
		snprintf(search->broken, sizeof(search->broken), "%s", sim_result_of(s)->broken);
		return true;
	}
	return false;
}

static bool without_faults(struct search *search)
{
	bool any = false;

	for (uint32_t i = search->best.n_faults; i-- > 0;) {
		struct sim_plan plan = search->best;

		plan.n_faults--;
		memmove(&plan.faults[i], &plan.faults[i + 1], (plan.n_faults - i) * sizeof(plan.faults[0]));
		any |= is_smaller(search, &plan);
	}
	return any;
}

/* One simpler thing after the other; false: there is no such step. */
static bool simplify(struct sim_config *c, uint32_t step)
{
	struct sim_config old = *c;

	switch (step) {
	case 0: c->n_regions -= c->n_regions > 1; break;
	case 1: c->hosts_per_region -= c->hosts_per_region > 1; break;
	case 2: c->subs_per_region -= c->subs_per_region > 1; break;
	case 3: c->loss = 0; break;
	case 4: c->repeat = 0; break;
	case 5: c->straggle = 0; break;
	case 6: c->hostile = 0; break;
	case 7: c->hoards = false; break;
	case 8: c->misread = false; break;
	case 9: c->clock_ppm = 0; break;
	case 10: c->batch = 1; break;
	case 11: c->cost_max_tok = 1; break;
	case 12: c->shape = 0; break;
	default: return false;
	}
	return memcmp(&old, c, sizeof(old)) != 0;
}

#define N_STEPS 13

static bool simpler(struct search *search)
{
	bool any = false;

	for (uint32_t step = 0; step < N_STEPS; step++) {
		struct sim_plan plan = search->best;

		if (simplify(&plan.c, step))
			any |= is_smaller(search, &plan);
	}
	return any;
}

static bool shorter(struct search *search)
{
	struct sim_plan plan = search->best;

	plan.c.end_ns = plan.c.end_ns / 4 * 3;
	return is_smaller(search, &plan);
}

uint32_t sim_plan_shrink(struct sim_plan *plan, char *ret_broken, size_t len)
{
	struct search search = { .best = *plan };

	if (is_smaller(&search, plan))
		while (search.n_tried < TRIES_MAX && (without_faults(&search) | simpler(&search) | shorter(&search)))
			;
	*plan = search.best;
	snprintf(ret_broken, len, "%s", search.broken);
	return search.n_tried;
}
