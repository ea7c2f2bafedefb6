// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One time scale rules all: the span, how long the limit takes to mint the whole budget (a token bucket's burst / rate) or the
 * window. What a holder spent and has not yet reported stands in nobody's account but still counts as lent, so at rate r a period T
 * binds r (T + round trip) of the budget: T must be a small part of the span, a tenth, or a twentieth where the span is long enough
 * to afford it. Half a dozen reports a second of a hot key are the price at the short end.
 */
#include "lease/terms.h"

#include "lease/arith.h"

#define MS 1000000ull
#define S (1000 * MS)

#define REGION_TICK_NS (10 * MS)
#define HOST_TICK_NS (20 * MS)
#define FAR_RTT_NS (150 * MS)	/* unless it is configured */

static uint64_t span_ns(const struct lg_terms *t)
{
	if (t->algorithm == LG_TOKEN_BUCKET)
		return lg_mul_div(t->budget_tok, t->per_ns, t->limit_tok);
	return t->per_ns;
}

/*
 * Unwritten: 30 % of the budget, half of it where it is spent within a second, and a few tokens for every host where the budget is
 * so small that shares would round to nothing. What may be out is what a successor cannot lend before it has heard of all holders.
 */
static uint64_t max_outstanding_tok(const struct lg_terms *t, uint32_t written_permille, uint64_t span)
{
	uint64_t permille = written_permille ? lg_min_u64(written_permille, 1000) : span <= S ? 500 : 300;
	uint64_t share_tok = lg_mul_div(t->budget_tok, permille, 1000);

	if (!written_permille)
		share_tok = lg_max_u64(share_tok, lg_min_u64(t->budget_tok, 8ull * t->hosts));
	return lg_max_u64(share_tok, 1);
}

/* The longest period at which `max_outstanding` still serves the whole limit: worst outstanding is 1.6 r T + 2 r Lambda. */
static uint64_t written_period_ns(const struct lg_terms *t)
{
	uint64_t lambda_ns = t->far_rtt_ns + t->slot_ns + 2 * t->home_tick_ns;
	uint64_t covers_ns = lg_mul_div(t->max_outstanding_tok, t->per_ns, t->limit_tok);
	uint64_t period_ns = lg_mul_div(lg_sub_floor(covers_ns, 2 * lambda_ns), 10, 16);

	return lg_clamp_u64(period_ns, 100 * MS, 40 * S);
}

void lg_terms_init(const struct lg_rule_def *rule, const struct lg_fleet *fleet, struct lg_terms *ret_terms)
{
	bool bucket = rule->algorithm == LG_TOKEN_BUCKET;
	struct lg_terms t = {
		.algorithm = rule->algorithm == LG_SLIDING_LOG ? LG_SLIDING_WINDOW : rule->algorithm,
		.kind = LG_LEASE_BLOCK,
		.far_rtt_ns = fleet->far_rtt_ns ? fleet->far_rtt_ns : FAR_RTT_NS,
		.limit_tok = rule->limit_tok,
		.per_ns = rule->per_ns,
		.budget_tok = bucket ? rule->burst_tok : rule->limit_tok,
		.regions = (uint32_t)lg_max_u64(fleet->regions, 1),
		.hosts = (uint32_t)lg_max_u64(fleet->hosts, 1),
		.low_water_permille = rule->lease.low_water_permille,
		.region_tick_ns = REGION_TICK_NS,
		.host_tick_ns = HOST_TICK_NS,
		.grace_ns = 1 * S,
	};
	uint64_t span = span_ns(&t);

	/* A window serves W / (W + Lambda): what it frees waits for the end of its slot, a tick of the home and a round trip. So slot
	 * and tick are short beside the round trip, which nothing can shorten. */
	t.home_tick_ns = lg_clamp_u64(span / (bucket ? 100 : 500), 20 * MS, 100 * MS);
	t.slot_ns = lg_clamp_u64(span / (bucket ? 200 : 500), 10 * MS, 100 * MS);
	t.max_outstanding_tok = max_outstanding_tok(&t, rule->lease.max_outstanding_permille, span);
	if (rule->lease.max_outstanding_permille)
		t.region_period_ns = written_period_ns(&t);
	else
		t.region_period_ns = lg_clamp_u64(span / (span >= 60 * S ? 20 : 10), 100 * MS, 5 * S);
	t.host_period_ns = t.region_period_ns / 4;
	/* Long enough to outlive a few lost reports; a holder that is gone strands its lease no longer than that. */
	t.ttl_ns = lg_max_u64(lg_clamp_u64(10 * t.region_period_ns, 10 * S, 30 * S), 3 * t.region_period_ns);
	*ret_terms = t;
}
