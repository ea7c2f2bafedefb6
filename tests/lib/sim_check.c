// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <stdio.h>

#include "lease/arith.h"

void sim_broken(struct sim *s, const char *what, int64_t by)
{
	if (s->r.broken[0])
		return;
	snprintf(s->r.broken, sizeof(s->r.broken), "%s: %lld above the budget of %llu at %.3f s", what, (long long)by,
		 (unsigned long long)s->c.terms.budget_tok, (double)s->now_ns / 1e9);
}

static uint64_t spendable_tok(struct sim *s)
{
	uint64_t tok = 0;

	for (uint32_t i = 0; i < s->n_hosts; i++) {
		const struct node_host *h = &s->hosts[i];

		if (h->powered && sim_local_ns(s, &h->clock) < h->bucket.expires_ns)
			tok += lg_sub_floor(h->bucket.total.granted_tok, h->bucket.total.spent_tok);
	}
	for (uint32_t i = 0; i < s->c.n_regions; i++) {
		struct lg_region_view v;

		if (!s->regions[i].region)
			continue;
		lg_region_view(s->regions[i].region, sim_local_ns(s, &s->regions[i].clock), &v);
		tok += v.pool_tok;
	}
	return tok;
}

void sim_check_potential(struct sim *s)
{
	int64_t over = sim_meter_over(&s->law, s->now_ns) + (int64_t)spendable_tok(s);

	if (over > s->r.worst_potential_tok)
		s->r.worst_potential_tok = over;
	if (over > 0)
		sim_broken(s, "admitted and spendable", over);
}

/* Whoever lends must have it. (Books may stand above the budget while it lends nothing: what holders could not remember counts in full.) */
void sim_check_home(struct sim *s)
{
	struct lg_home_view v;
	uint64_t sum;

	if (!s->home.home)
		return;
	lg_home_view(s->home.home, s->now_ns, &v);
	sum = v.consumed_tok + v.outstanding_tok + v.unknown_tok;
	if (sum > v.budget_tok && v.granted_total_tok > s->home.granted_total_tok)
		sim_broken(s, "the home's books", (int64_t)(sum - v.budget_tok));
	s->home.granted_total_tok = v.granted_total_tok;
	if (s->now_ns >= s->c.warm_ns)
		s->r.max_outstanding_tok = lg_max_u64(s->r.max_outstanding_tok, v.outstanding_tok);
}

void sim_check_region(struct sim *s, const struct node_region *n)
{
	struct lg_region_view v;
	uint64_t sum;

	lg_region_view(n->region, sim_local_ns(s, &n->clock), &v);
	sum = v.pool_tok + v.outstanding_tok + v.spent_tok + v.returned_tok;
	if (sum > v.granted_tok)
		sim_broken(s, "a region's books", (int64_t)(sum - v.granted_tok));
}
