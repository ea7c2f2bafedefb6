// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Where the home lends the limit itself, in parts, the region mints: its pool is what its own limit lets it lend now (see sublimit.h), and
 * what is spent needs no report. It speaks once a second, and when the home would divide differently for it: when demand grows or falls
 * notably, when it was told less and holds less now, and while its window shrinks. Without use it gives all back.
 */
#include "lease/arith.h"
#include "lease/region_inner.h"

#define MS 1000000ull
#define IDLE_NS (1500 * MS)
#define QUIET_NS (200 * MS)	/* it is said sooner that hosts use it no more, of traffic that would have spent */
#define QUIET_TOK 20		/* so many in that time */
#define REPORTS 50		/* of a window that shrinks, in one of it */
#define AHEAD_NS (750 * MS)	/* of a long window so much is asked for ahead of its use */
#define NEWS_MTPS 5000		/* less is no news of demand */

uint64_t lg_region_limit_idle_ns(const struct lg_region *r)
{
	return lg_max_u64(IDLE_NS, 2 * r->lessor->terms->host_period_ns);
}

/* Whether hosts use the key: when many tokens should have been spent by now and none was, the traffic has gone elsewhere. */
static bool uses_limit(const struct lg_region *r, uint64_t now_ns)
{
	uint64_t many_ns = lg_mul_div(QUIET_TOK, 1000000000000ull, r->ledger.demand_mtps);
	uint64_t least_ns = lg_min_u64(QUIET_NS + 2 * r->lessor->terms->host_period_ns, lg_region_limit_idle_ns(r));

	return r->ledger.want_tok && now_ns - r->active_ns < lg_clamp_u64(many_ns, least_ns, lg_region_limit_idle_ns(r));
}

/* What hosts spend in a time. */
static uint64_t spend_tok(const struct lg_region *r, uint64_t ns)
{
	return lg_mul_div(r->ledger.demand_mtps, ns, 1000000000000ull);
}

/* What our limit should be: what is used of it, and what will be until the next report is answered and one more. */
static uint64_t limit_want_tok(const struct lg_region *r, uint64_t now_ns)
{
	uint64_t ahead_ns = 2 * r->holding->upstream->rtt_ns + AHEAD_NS;

	if (!uses_limit(r, now_ns))
		return 0;
	return lg_min_u64(lg_sublimit_used_tok(r->limit, r->ledger.outstanding_tok, now_ns) + spend_tok(r, ahead_ns) + 2, LG_BURST_MAX_TOK);
}

void lg_region_limit_tell(struct lg_region *r, uint64_t now_ns, struct lg_ask *ask)
{
	r->told_wants = uses_limit(r, now_ns);
	r->told_mtps = r->told_wants ? r->ledger.demand_mtps : 0;
	ask->request = r->told_wants;
	ask->granted_tok = r->spent_tok;
	ask->want_tok = r->told_want_tok = limit_want_tok(r, now_ns);
	ask->demand_mtps = r->told_mtps;
	ask->n_slots = 0;
	lg_sublimit_tell(r->limit, ask, r->ledger.outstanding_tok, now_ns);
	r->told_held_tok = ask->held_tok;
}

/* Whether there is demand that the home would divide by differently. */
static bool is_news(const struct lg_region *r, uint64_t now_ns)
{
	bool uses = uses_limit(r, now_ns);
	uint64_t mtps = uses ? r->ledger.demand_mtps : 0, less_mtps = lg_min_u64(mtps, r->told_mtps);
	uint64_t soon_tok = spend_tok(r, r->holding->upstream->rtt_ns + QUIET_NS), want_tok = limit_want_tok(r, now_ns);

	/* It will be used up soon. */
	if (r->lessor->terms->algorithm != LG_TOKEN_BUCKET && want_tok > r->told_want_tok + r->told_want_tok / 10 &&
	    lg_sublimit_free_tok(r->limit, r->ledger.outstanding_tok, now_ns) < soon_tok)
		return true;
	return uses != r->told_wants || lg_max_u64(mtps, r->told_mtps) - less_mtps > less_mtps / 4 + NEWS_MTPS;
}

struct lg_asker_need lg_region_limit_need(struct lg_region *r, uint64_t now_ns, uint64_t *ret_due_ns)
{
	uint64_t held_tok = lg_sublimit_held_tok(r->limit, r->ledger.outstanding_tok, now_ns);
	const struct lg_terms *t = r->lessor->terms;
	bool changed = held_tok != r->told_held_tok, shrinks = changed && held_tok > r->limit->limit_tok;

	*ret_due_ns = shrinks ? lg_asker_sent_ns(&r->asker) + lg_max_u64(t->home_tick_ns, t->per_ns / REPORTS) : UINT64_MAX;
	if (is_news(r, now_ns) || (changed && !shrinks) || now_ns >= *ret_due_ns)
		r->asker.flush = true;
	return (struct lg_asker_need){
		.own_tok = held_tok,
		.target_tok = uses_limit(r, now_ns),
		.news = changed || r->spent_tok != r->sent_spent_tok,
	};
}

void lg_region_limit_give_back(struct lg_region *r, uint64_t now_ns)
{
	uint64_t out_tok = r->ledger.outstanding_tok;

	if (now_ns - r->active_ns < lg_region_limit_idle_ns(r) || (r->limit->limit_tok <= out_tok && !r->limit->permille))
		return;
	lg_sublimit_give_back(r->limit, r->lessor->terms, out_tok, out_tok, now_ns);
	r->asker.flush = true;
}
