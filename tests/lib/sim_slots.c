// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The key's slot changes its owner while both processes go on. Whoever had it lends nothing from the moment at which he gives it away, or at
 * which by his own clock he cannot be certain of it; regions come to know of the new owner one by one, or are told when they ask the former.
 */
#include "tests/lib/sim_world.h"

#include <stdlib.h>
#include <string.h>

bool sim_slot_is_owned(const struct node_home *n)
{
	return !n->has_given && lg_presence_covers(&n->here, n->process, n->sim->now_ns);
}

/* An earlier one is nobody's home any more. */
static bool former_goes(struct sim *s)
{
	struct node_home *former = &s->homes[SIM_DEPOSED];

	if (former->sim && !former->is_former)
		return false;
	for (uint32_t i = 0; i < s->n_regions; i++)
		if (s->regions[i].with_former && s->regions[i].list == 1)
			return false;
	lg_home_free(former->home);
	free(former->lessor);
	lg_succession_free(former->succession);
	*former = (struct node_home){ 0 };
	return true;
}

bool sim_slot_fault_begins(struct sim *s, const struct fault *f)
{
	struct node_home *n = &s->homes[s->home], *former = &s->homes[SIM_DEPOSED];
	const struct lg_terms *t = &s->c.terms;

	if (s->home || !n->running || !former_goes(s))
		return false;
	if (f->kind == SIM_SLOT_GIVEN)
		sim_escrow_end(n);
	n->unsettled = n->succession && lg_succession_missing(n->succession) &&
		       s->now_ns < lg_succession_since_ns(n->succession) + t->ttl_ns + t->grace_ns;
	*former = *n;
	former->is_former = true;
	former->has_given = f->kind == SIM_SLOT_GIVEN;
	former->here.until_ns = s->now_ns + f->for_ns / 10 * 9;
	n->running = false;
	n->process = ++s->n_processes;
	n->home = NULL;
	n->lessor = NULL;
	n->succession = NULL;
	for (uint32_t i = 0; i < s->n_regions; i++)
		s->regions[i].with_former = !s->regions[i].above;
	return true;
}

void sim_slot_claimed(struct sim *s, const struct fault *f)
{
	sim_home_start(&s->homes[0]);
	for (uint32_t i = 0; i < s->n_regions; i++)
		sim_push(s, s->now_ns + (uint64_t)(sim_random(s) * 4 * (double)f->for_ns), EV_MOVE, i, NULL);
}

void sim_slot_follow(struct node_region *n)
{
	if (!n->with_former)
		return;
	n->with_former = false;
	if (n->running)
		sim_region_disconnect(n, true);
}
