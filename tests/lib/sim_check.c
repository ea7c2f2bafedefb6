// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <stdio.h>

#include "lease/arith.h"

void sim_broken(struct sim *s, const char *what, int64_t by)
{
	if (s->r.broken[0])
		return;
	snprintf(s->r.broken, sizeof(s->r.broken), "%s: %lld above the budget of %llu at %.3f s", what, (long long)by,
		 (unsigned long long)s->c.terms.rule_budget_tok, (double)s->now_ns / 1e9);
}

uint64_t sim_spendable_tok(const struct sim *s)
{
	uint64_t tok = 0;

	for (uint32_t i = 0; i < s->n_hosts; i++) {
		const struct node_host *h = &s->hosts[i];

		if (h->powered && sim_local_ns(s, &h->clock) < h->bucket.expires_ns)
			tok += lg_sub_floor(h->bucket.total.granted_tok, h->bucket.total.spent_tok);
	}
	for (uint32_t i = 0; i < s->n_regions; i++)
		if (sim_local_ns(s, &s->regions[i].clock) < s->regions[i].expires_ns)
			tok += s->regions[i].pool_tok;
	return tok;
}

void sim_check_potential(struct sim *s)
{
	int64_t over = sim_meter_over(&s->law, s->now_ns) + (int64_t)sim_spendable_tok(s);

	if (over > s->r.worst_potential_tok)
		s->r.worst_potential_tok = over;
	if (over > 0)
		sim_broken(s, "admitted and spendable", over);
}

/* Whoever lends must have it. (Books may stand above the budget while it lends nothing: what holders could not remember counts in full.) */
void sim_check_home(struct node_home *n)
{
	struct sim *s = n->sim;
	struct lg_home_view v;
	uint64_t sum;

	if (!n->home)
		return;
	lg_home_view(n->home, s->now_ns, &v);
	sum = v.consumed_tok + v.outstanding_tok + v.unknown_tok;
	if (sum > v.budget_tok && n->lessor->granted_tok > n->granted_tok)
		sim_broken(s, "the home's books", (int64_t)(sum - v.budget_tok));
	n->granted_tok = n->lessor->granted_tok;
	if (s->now_ns >= s->c.warm_ns)
		s->r.max_outstanding_tok = lg_max_u64(s->r.max_outstanding_tok, v.outstanding_tok);
}

void sim_check_region(struct node_region *n)
{
	struct lg_region_view v;
	uint64_t sum;

	lg_region_view(n->region, sim_local_ns(n->sim, &n->clock), &v);
	sum = v.pool_tok + v.outstanding_tok + v.spent_tok + v.returned_tok;
	if (sum > v.granted_tok)
		sim_broken(n->sim, "a region's books", (int64_t)(sum - v.granted_tok));
	n->pool_tok = v.pool_tok;
	n->expires_ns = v.expires_ns;
}

/*
 * A share is empty at the lease's end and the time that the lessor may still count on it (the grace; of windows, until what was spent
 * under the lease has left), and grows from there at its part of the limit.
 */
void sim_check_share(struct node_host *h, uint64_t cost_tok)
{
	const struct lg_rule_def *rule = &h->sim->c.rule;
	const struct lg_terms *t = &h->sim->c.terms;
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);
	struct lg_share share;
	uint64_t delay_ns = rule->algorithm == LG_TOKEN_BUCKET ? t->grace_ns : t->per_ns, minted_tok;

	if (h->share_end_ns != h->bucket.expires_ns) {
		h->share_end_ns = h->bucket.expires_ns;
		h->share_tok = 0;
	}
	h->share_tok += cost_tok;
	h->sim->r.by_share_tok += cost_tok;
	lg_rule_share(rule, (uint64_t)h->sim->c.n_regions * h->sim->c.hosts_per_region, &share);
	minted_tok = lg_mul_div(lg_sub_floor(now_ns, h->share_end_ns + delay_ns), share.rate_tok, share.per_ns);
	if (h->share_tok > minted_tok)
		sim_broken(h->sim, "a fallback share", (int64_t)(h->share_tok - minted_tok));
}
