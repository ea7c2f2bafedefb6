// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law. Let Q be what is known to be consumed (budget.h), O what holders have outstanding, U what may be out of an earlier life and
 * nobody has told yet. Grants keep Q + O + U <= B; everything else moves tokens between the three or lets Q fall with time:
 *
 *   report   O -> Q as spent, at the time it was spent or later      return   O -> free, taken from the bucket by its holder
 *   lapse    O -> Q, after the holder has stopped spending            refill   Q falls by r t, not below 0; a slot leaves the window
 *
 * What is really spent at any moment and not yet known here is part of O or U. So the true consumption is at most Q + O + U <= B: a
 * queue worked off at rate r never exceeds B, which is the same as "at most B + r t in every interval t"; and a window never holds more
 * than its limit. Late booking only makes Q larger than the truth.
 *
 * A successor knows nothing. Whatever its predecessor did, Q + O <= B held. Token bucket: at most max_outstanding was out, so U is that,
 * Q the rest, and both drain as the truth does at least; a holder that reports what it has moves that part from U to O; when all who
 * may hold anything have reported, or the last lease of the old life must have lapsed, what is left of U was spent: it moves to
 * Q. Window: consumption does not drain evenly, so everything is unknown until the holders have told what they hold and what they spent
 * in the last window, or until all of it has left the window.
 */
#include "lease/home.h"

#include <errno.h>
#include <stdlib.h>

#include "lease/age.h"
#include "lease/budget.h"
#include "lease/ledger.h"
#include "lease/arith.h"

#define STRETCH_MAX_NS 10000000000ull
#define USED_SLOTS 512	/* grain of a holder's part of the window: only fairness hangs on it */

struct lg_home {
	struct lg_terms terms;
	const struct lg_succession *succession;
	struct lg_budget budget;
	struct lg_ledger ledger;
	bool recovering;
	uint64_t settle_ns;	/* recovering ends at the latest */
	uint64_t unknown_tok;	/* token bucket, recovering */
	uint64_t granted_total_tok;
	uint64_t lapsed_total_tok;
};

static bool is_window(const struct lg_home *h)
{
	return h->terms.algorithm != LG_TOKEN_BUCKET;
}

static uint64_t unknown_tok(struct lg_home *h, uint64_t now_ns)
{
	if (!h->recovering)
		return 0;
	if (!is_window(h))
		return h->unknown_tok;
	return lg_sub_floor(h->terms.budget_tok, lg_budget_consumed_tok(&h->budget, now_ns) + h->ledger.outstanding_tok);
}

static uint64_t pool_tok(struct lg_home *h, uint64_t now_ns)
{
	uint64_t bound_tok = lg_budget_consumed_tok(&h->budget, now_ns) + h->ledger.outstanding_tok + unknown_tok(h, now_ns);

	return lg_min_u64(lg_sub_floor(h->terms.budget_tok, bound_tok),
			  lg_sub_floor(h->terms.max_outstanding_tok, h->ledger.outstanding_tok));
}

/* Recovering is over as of at_ns: what nobody owned up to was spent. */
static void settle_at(struct lg_home *h, uint64_t at_ns)
{
	h->recovering = false;
	if (!is_window(h))
		lg_budget_book(&h->budget, h->unknown_tok, at_ns, at_ns);
	h->unknown_tok = 0;
}

static void settle(struct lg_home *h, uint64_t now_ns)
{
	if (!h->recovering)
		return;
	if (lg_ledger_knows_all(&h->ledger, h->succession)) {
		settle_at(h, lg_min_u64(now_ns, h->settle_ns));
		if (is_window(h) && lg_succession_forgot_ns(h->succession))
			lg_budget_book(&h->budget, h->terms.limit_tok, lg_succession_forgot_ns(h->succession), now_ns);
	} else if (now_ns >= h->settle_ns) {
		settle_at(h, h->settle_ns);
	}
	lg_budget_advance(&h->budget, now_ns);
}

/* The state an earlier life left behind, as of the moment this one began. */
static void inherit(struct lg_home *h)
{
	const struct lg_terms *t = &h->terms;
	bool unsettled = lg_succession_is_unsettled(h->succession);

	h->recovering = true;
	h->settle_ns = lg_succession_since_ns(h->succession) + t->ttl_ns + t->grace_ns;
	if (is_window(h)) {
		h->settle_ns += t->per_ns;
		return;
	}
	h->unknown_tok = unsettled ? t->budget_tok : lg_min_u64(t->max_outstanding_tok, t->budget_tok);
	lg_budget_book(&h->budget, t->budget_tok - h->unknown_tok, h->budget.at_ns, h->budget.at_ns);
}

int lg_home_new(const struct lg_terms *terms, uint32_t epoch, const struct lg_succession *succession, uint64_t now_ns,
		uint64_t seed, struct lg_home **ret_home)
{
	_cleanup_(lg_home_free) struct lg_home *h = calloc(1, sizeof(*h));
	uint64_t since_ns = succession ? lg_succession_since_ns(succession) : now_ns;
	int r;

	if (!h)
		return -ENOMEM;
	h->terms = *terms;
	h->succession = succession;
	lg_ledger_init(&h->ledger, epoch, seed);
	r = lg_budget_init(&h->budget, terms->algorithm, terms->limit_tok, terms->per_ns, terms->slot_ns, since_ns);
	if (r < 0)
		return r;
	if (succession)
		inherit(h);
	settle(h, now_ns);
	*ret_home = TAKE(h);
	return 0;
}

struct lg_home *lg_home_free(struct lg_home *home)
{
	if (!home)
		return NULL;
	lg_ledger_fini(&home->ledger);
	lg_budget_fini(&home->budget);
	free(home);
	return NULL;
}

void lg_home_terms(struct lg_home *h, const struct lg_terms *terms, uint64_t now_ns)
{
	settle(h, now_ns);
	lg_budget_change(&h->budget, terms->limit_tok, terms->per_ns, terms->slot_ns, now_ns);
	for (uint32_t i = 0; i < h->ledger.n; i++)
		if (h->ledger.v[i].used)
			lg_slots_reshape(h->ledger.v[i].used, terms->per_ns, terms->slot_ns, USED_SLOTS, now_ns);
	h->terms = *terms;
}

static void book(struct lg_home *h, struct lg_holder *holder, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	lg_budget_book(&h->budget, tok, spent_ns, now_ns);
	if (holder->used)
		lg_slots_add(holder->used, spent_ns, tok, now_ns);
}

struct lapse {
	struct lg_home *h;
	uint64_t now_ns;
};

static void lapsed(void *arg, struct lg_holder *holder, uint64_t tok)
{
	struct lapse *lapse = arg;

	lapse->h->lapsed_total_tok += tok;
	book(lapse->h, holder, tok, lapse->now_ns, lapse->now_ns);
}

/* What each message and each tick begins with: time passes. */
static void advance(struct lg_home *h, uint64_t now_ns)
{
	settle(h, now_ns);
	lg_budget_advance(&h->budget, now_ns);
	lg_ledger_expire(&h->ledger, now_ns, lapsed, &(struct lapse){ h, now_ns });
}

/* What a holder's fair part of the window is cut from: a little more than it would spend in one. */
static uint64_t window_want_tok(const struct lg_home *h, const struct lg_holder *holder)
{
	uint64_t tok = lg_mul_div(holder->demand_mtps, h->terms.per_ns, 1000000000000ull);

	return lg_min_u64(tok, LG_BURST_MAX_TOK) * 105 / 100 + 2;
}

/* Demand as it has been for a while: of traffic that comes and goes, or moves between holders, the least. */
static void see_demand(const struct lg_home *h, struct lg_holder *holder, uint64_t now_ns)
{
	uint64_t stretch_ns = lg_min_u64(h->terms.per_ns / 2, STRETCH_MAX_NS);

	if (!holder->stretch_ns)
		holder->lowest_mtps[0] = holder->lowest_mtps[1] = holder->demand_mtps;
	if (!holder->stretch_ns || now_ns - holder->stretch_ns >= stretch_ns) {
		holder->lowest_mtps[1] = holder->lowest_mtps[0];
		holder->lowest_mtps[0] = holder->demand_mtps;
		holder->stretch_ns = now_ns;
	}
	holder->lowest_mtps[0] = lg_min_u64(holder->lowest_mtps[0], holder->demand_mtps);
}

/* Whether the holders have been asking for so much more than the limit that who is small would go short without a share of its own. */
static bool is_overloaded(const struct lg_home *h)
{
	uint64_t sum_mtps = 0;

	for (uint32_t i = 0; i < h->ledger.n; i++) {
		const struct lg_holder *holder = &h->ledger.v[i];

		sum_mtps += lg_min_u64(holder->demand_mtps, lg_min_u64(holder->lowest_mtps[0], holder->lowest_mtps[1]));
	}
	return lg_mul_div(sum_mtps, h->terms.per_ns, 1000000000000ull) / 5 >= h->terms.limit_tok / 4;
}

/* The height of water that fills vessels as high as the wants with limit tokens; all of them to the brim: UINT64_MAX. */
static uint64_t window_level_tok(const struct lg_home *h)
{
	const struct lg_ledger *l = &h->ledger;
	uint64_t left_tok = h->terms.limit_tok, level_tok = 0;
	uint32_t n_short = l->n;

	for (uint32_t pass = 0; n_short && pass <= l->n; pass++) {
		uint32_t n_over = 0;
		uint64_t below_tok = 0;

		level_tok = left_tok / n_short;
		for (uint32_t i = 0; i < l->n; i++) {
			uint64_t want_tok = window_want_tok(h, &l->v[i]);

			if (want_tok > level_tok)
				n_over++;
			else
				below_tok += want_tok;
		}
		if (n_over == 0)
			return UINT64_MAX;
		if (n_over == n_short)
			break;
		n_short = n_over;
		left_tok = lg_sub_floor(h->terms.limit_tok, below_tok);
	}
	return level_tok;
}

/*
 * Tokens of a window come back in the pulses in which they were spent, so who took them first would have them again and again. While
 * the holders would spend more than the limit, each may hold and have spent no more than its max-min fair part of it.
 */
static void cap_shares(struct lg_home *h, uint64_t now_ns)
{
	uint64_t level_tok = is_overloaded(h) ? window_level_tok(h) : UINT64_MAX;

	for (uint32_t i = 0; i < h->ledger.n; i++) {
		struct lg_holder *holder = &h->ledger.v[i];
		uint64_t share_tok = lg_min_u64(level_tok, window_want_tok(h, holder));
		uint64_t used_tok = holder->used ? lg_slots_sum(holder->used, now_ns) : 0;

		if (level_tok == UINT64_MAX)
			lg_ledger_cap(&h->ledger, holder, UINT64_MAX);
		else
			lg_ledger_cap(&h->ledger, holder, lg_sub_floor(share_tok, used_tok));
	}
}

static void answer(struct lg_home *h, struct lg_holder *holder, const struct lg_home_effects *fx)
{
	struct lg_grant grant;

	lg_ledger_grant(&h->ledger, holder, h->terms.ttl_ns, h->terms.grace_ns, &grant);
	grant.cap_tok = h->terms.max_outstanding_tok;
	if (h->recovering && is_window(h))
		grant.status = LG_GRANT_RECOVERING;
	fx->grant(fx->arg, holder->index, &grant);
}

/* Lends what can be lent; tells those who got something, and `asked` in any case. Whether somebody is still short. */
static bool divide(struct lg_home *h, const struct lg_holder *asked, uint64_t now_ns, const struct lg_home_effects *fx)
{
	bool short_of = false;

	if (h->ledger.want_tok && is_window(h))
		cap_shares(h, now_ns);
	h->granted_total_tok += lg_ledger_divide(&h->ledger, pool_tok(h, now_ns), now_ns, h->terms.grace_ns);
	for (uint32_t i = 0; i < h->ledger.n; i++) {
		struct lg_holder *holder = &h->ledger.v[i];

		short_of |= holder->want_tok > lg_holder_outstanding_tok(holder);
		if (holder->give_tok || holder == asked)
			answer(h, holder, fx);
	}
	return short_of;
}

/* The first message of a holder in this life. While recovering, one that may hold a lease of the old life goes on with it. */
static void welcome(struct lg_home *h, struct lg_holder *holder, const struct lg_ask *ask, uint64_t now_ns)
{
	if (is_window(h)) {
		holder->used = calloc(1, sizeof(*holder->used));
		if (holder->used && lg_slots_init(holder->used, h->terms.per_ns, h->terms.slot_ns, USED_SLOTS) < 0) {
			free(holder->used);
			holder->used = NULL;
		}
	}
	if (!h->recovering || !lg_succession_is_listed(h->succession, holder->index) ||
	    lg_succession_is_synced(h->succession, holder->index))
		return;
	lg_ledger_adopt(&h->ledger, holder, ask);
	h->unknown_tok = lg_sub_floor(h->unknown_tok, lg_holder_outstanding_tok(holder));
	if (is_window(h))
		for (size_t i = 0; i < ask->n_history; i++)
			book(h, holder, ask->history[i].tok, lg_age_end_ns(ask->history[i].age_ms, now_ns), now_ns);
}

static void refuse(struct lg_home *h, uint32_t holder, const struct lg_ask *ask, const struct lg_home_effects *fx)
{
	struct lg_grant grant = { .ack_seq = ask->seq, .epoch = h->ledger.epoch, .status = LG_GRANT_OVERLOADED };

	fx->grant(fx->arg, holder, &grant);
}

void lg_home_ask(struct lg_home *h, uint32_t holder, uint64_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		 const struct lg_home_effects *fx)
{
	struct lg_holder *account;
	struct lg_news news;
	int r;

	if (ask->epoch != h->ledger.epoch || !lg_ask_is_sane(ask))
		return;
	advance(h, now_ns);
	r = lg_ledger_open(&h->ledger, holder, incarnation, ask->generation, &account);
	if (r < 0) {
		refuse(h, holder, ask, fx);
		return;
	}
	if (r)
		welcome(h, account, ask, now_ns);
	if (lg_ledger_ask(&h->ledger, account, incarnation, ask, now_ns, &news) == LG_LEDGER_STALE)
		return;
	if (news.lapsed_tok)
		lapsed(&(struct lapse){ h, now_ns }, account, news.lapsed_tok);
	for (size_t i = 0; i < news.n_parts; i++)
		book(h, account, news.parts[i].tok, lg_age_end_ns(news.parts[i].age_ms, now_ns), now_ns);
	settle(h, now_ns);
	see_demand(h, account, now_ns);
	lg_ledger_prolong(&h->ledger, account, h->terms.ttl_ns, h->terms.grace_ns);
	divide(h, account, now_ns, fx);
}

uint64_t lg_home_tick(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx)
{
	advance(h, now_ns);
	if (divide(h, NULL, now_ns, fx) || h->recovering)
		return now_ns + h->terms.home_tick_ns;
	return h->ledger.end_ns;
}

bool lg_home_is_idle(struct lg_home *h, uint64_t now_ns)
{
	advance(h, now_ns);
	return !h->recovering && !h->ledger.outstanding_tok && !h->ledger.want_tok && !lg_budget_consumed_tok(&h->budget, now_ns);
}

void lg_home_view(struct lg_home *h, uint64_t now_ns, struct lg_home_view *ret)
{
	advance(h, now_ns);
	*ret = (struct lg_home_view){
		.budget_tok = h->terms.budget_tok,
		.pool_tok = pool_tok(h, now_ns),
		.outstanding_tok = h->ledger.outstanding_tok,
		.consumed_tok = lg_budget_consumed_tok(&h->budget, now_ns),
		.unknown_tok = unknown_tok(h, now_ns),
		.granted_total_tok = h->granted_total_tok,
		.lapsed_total_tok = h->lapsed_total_tok,
		.n_holders = h->ledger.n,
	};
}

uint64_t lg_home_outstanding_tok(const struct lg_home *h)
{
	return h->ledger.outstanding_tok;
}

int lg_home_holder(const struct lg_home *h, uint32_t holder, struct lg_holder_view *ret)
{
	const struct lg_holder *account = lg_ledger_find(&h->ledger, holder);

	if (!account)
		return -ENOENT;
	*ret = (struct lg_holder_view){
		.generation = account->generation,
		.granted_tok = account->granted_tok,
		.spent_tok = account->spent_tok,
		.returned_tok = account->returned_tok,
		.expires_ns = account->expires_ns,
		.demand_mtps = account->demand_mtps,
		.want_tok = account->want_tok,
	};
	return 0;
}
