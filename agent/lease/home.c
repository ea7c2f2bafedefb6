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
 *
 * A fixed window is simpler: a lease never runs beyond the window it was granted in. So when one begins all that was lent is void, Q and
 * O are 0, and each holder's account starts a new generation: what was spent late of the old one counted in the old window. A successor
 * knows nothing until the next window begins, or until all holders have told what they hold and spent in this one.
 *
 * Where the lessor reserves, the predecessor wrote down how much it would lend before it lent it, and a successor knows as much from the
 * beginning: see escrow.c and home_escrow.c.
 *
 * All this is about tokens. Where the terms have the home lend the limit itself in parts, limits.c does the work of a key, and this file
 * only hands on. A key is of one kind as long as it is here, that of its first lease; a successor goes on with the kind it finds.
 */
#include "lease/home.h"

#include <errno.h>
#include <string.h>

#include "base/pool.h"
#include "lease/age.h"
#include "lease/home_inner.h"
#include "lease/limits.h"

/* What the callbacks of the ledger work with. */
struct home_call {
	struct lg_home *h;
	uint64_t now_ns;
	const struct lg_home_effects *fx;
};

static void note(const struct lg_home *h, const struct lg_home_effects *fx, enum lg_note_kind kind, const struct lg_holder *holder,
		 uint32_t generation, uint64_t tok)
{
	struct lg_note n;

	if (!fx->note || !tok)
		return;
	n = lg_ledger_note(kind, h->lessor, holder, generation, tok);
	fx->note(fx->arg, &n);
}

static struct lg_limits *limits_of(const struct lg_home *h)
{
	return h->more ? h->more->limits : NULL;
}

uint64_t lg_home_consumed_tok(struct lg_home *h, uint64_t now_ns)
{
	return lg_budget_consumed_tok(&h->budget, h->lessor->terms, now_ns);
}

uint64_t lg_home_unknown_tok(struct lg_home *h, uint64_t now_ns)
{
	if (!is_recovering(h))
		return 0;
	if (!is_window(h))
		return h->more->unknown_tok;
	return lg_sub_floor(lg_home_past_tok(h, now_ns), lg_home_consumed_tok(h, now_ns) + h->ledger.outstanding_tok);
}

uint64_t lg_home_free_tok(struct lg_home *h, uint64_t now_ns)
{
	const struct lg_terms *t = h->lessor->terms;
	uint64_t bound_tok = lg_home_consumed_tok(h, now_ns) + h->ledger.outstanding_tok + lg_home_unknown_tok(h, now_ns);

	return lg_min_u64(lg_sub_floor(t->budget_tok, bound_tok), lg_sub_floor(t->max_outstanding_tok, h->ledger.outstanding_tok));
}

static uint64_t pool_tok(struct lg_home *h, uint64_t now_ns)
{
	return lg_home_reserved_tok(h, lg_home_free_tok(h, now_ns));
}

/* Recovering is over as of at_ns: what nobody owned up to was spent. */
static void settle_at(struct lg_home *h, uint64_t at_ns)
{
	h->more->recovering = h->more->changing = false;
	if (is_window(h))
		return;
	lg_budget_book(&h->budget, h->lessor->terms, h->more->unknown_tok, at_ns, at_ns);
	if (h->more->escrow)
		return;
	lg_pool_put(h->more, sizeof(*h->more));
	h->more = NULL;
}

/* tok tokens were spent until spent_ns, as somebody remembers; 0: never. What was spent before a fixed window does not count in it. */
static void recall(struct lg_home *h, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	if (is_window(h) && spent_ns && (!is_fixed(h) || spent_ns + h->lessor->terms->per_ns > window_end_ns(h)))
		lg_budget_book(&h->budget, h->lessor->terms, tok, spent_ns, now_ns);
}

static void settle(struct lg_home *h, uint64_t now_ns)
{
	const struct lg_lessor *lessor = h->lessor;

	if (!is_recovering(h))
		return;
	if (!h->more->changing && (!lessor->succession || lg_ledger_knows_all(&h->ledger, lessor->succession))) {
		settle_at(h, lg_min_u64(now_ns, h->more->settle_ns));
		if (lessor->succession)
			recall(h, lessor->terms->limit_tok, lg_succession_forgot_ns(lessor->succession), now_ns);
	} else if (now_ns >= h->more->settle_ns) {
		settle_at(h, h->more->settle_ns);
	}
	lg_budget_advance(&h->budget, lessor->terms, now_ns);
}

/* Until when an earlier life can matter: its last lease is over, and what it spent has left the window. */
static uint64_t settle_ns(const struct lg_home *h, uint64_t since_ns)
{
	const struct lg_terms *t = h->lessor->terms;

	if (is_fixed(h))
		return window_end_ns(h);
	return since_ns + t->ttl_ns + t->grace_ns + (is_window(h) ? t->per_ns : 0);
}

/* The state an earlier life left behind without a mark, as of the moment this one began. */
static void inherit(struct lg_home *h)
{
	const struct lg_succession *old = h->lessor->succession;
	const struct lg_terms *t = h->lessor->terms;
	struct home_more *more = h->more;

	if (is_window(h))
		return;
	more->unknown_tok = lg_succession_is_unsettled(old) ? t->budget_tok : lg_min_u64(t->max_outstanding_tok, t->budget_tok);
	lg_budget_book(&h->budget, t, t->budget_tok - more->unknown_tok, h->budget.at_ns, h->budget.at_ns);
}

static int more_begin(struct lg_home *h, bool needed)
{
	if (!needed || h->more)
		return 0;
	h->more = lg_pool_get(sizeof(*h->more));
	if (!h->more)
		return -ENOMEM;
	h->more->level_tok = UINT64_MAX;
	return 0;
}

static int blocks_begin(struct lg_home *h, const struct lg_home_past *past, uint64_t now_ns)
{
	const struct lg_lessor *lessor = h->lessor;
	uint64_t since_ns = past->since_ns ? past->since_ns : now_ns;
	int r;

	r = lg_budget_init(&h->budget, lessor->terms, lessor->origin_ns, since_ns);
	if (r == 0 && lessor->reserves)
		r = lg_home_escrow_begin(h);
	if (r < 0)
		return r;
	if (past->since_ns) {
		h->more->recovering = true;
		h->more->settle_ns = settle_ns(h, since_ns);
		if (past->mark)
			lg_home_escrow_inherit(h, past->mark, since_ns);
		else
			inherit(h);
	}
	lg_budget_turn(&h->budget, lessor->terms, now_ns);
	settle(h, now_ns);
	return 0;
}

static int begin(struct lg_home *h, enum lg_lease_kind kind, const struct lg_home_past *past, uint64_t now_ns)
{
	int r;

	r = more_begin(h, past->since_ns || is_window(h) || kind == LG_LEASE_LIMIT || h->lessor->reserves);
	if (r < 0)
		return r;
	return kind == LG_LEASE_LIMIT ? lg_limits_new(h->lessor, now_ns, &h->more->limits) : blocks_begin(h, past, now_ns);
}

static struct lg_home_past past_of(const struct lg_lessor *lessor)
{
	return (struct lg_home_past){ .since_ns = lessor->succession ? lg_succession_since_ns(lessor->succession) : 0 };
}

int lg_home_new_after(struct lg_lessor *lessor, const struct lg_home_past *past, uint64_t now_ns, struct lg_home **ret_home)
{
	_cleanup_(lg_home_free) struct lg_home *h = lg_pool_get(sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	h->lessor = lessor;
	lg_ledger_init(&h->ledger);
	r = begin(h, lessor->reserves ? LG_LEASE_BLOCK : lessor->terms->kind, past, now_ns);
	if (r < 0)
		return r;
	*ret_home = TAKE(h);
	return 0;
}

int lg_home_new(struct lg_lessor *lessor, uint64_t now_ns, struct lg_home **ret_home)
{
	struct lg_home_past past = past_of(lessor);

	return lg_home_new_after(lessor, &past, now_ns, ret_home);
}

static bool holds_anything(const struct lg_ask *ask)
{
	if (ask->kind == LG_LEASE_LIMIT)
		return ask->held_tok || ask->held_permille;
	return ask->granted_tok > ask->spent_tok + ask->returned_tok;
}

/*
 * Whether the lease that a message tells of is of the kind we lend. While recovering it may be of another, which an earlier life lent by
 * other terms: then we go on with that one. Leases of one life are of one kind, as far as anybody holds anything of them.
 */
static bool suits(struct lg_home *h, const struct lg_ask *ask, uint32_t holder, uint64_t now_ns)
{
	struct lg_limits *limits = limits_of(h);
	const struct lg_succession *old = h->lessor->succession;
	struct lg_home_past past = past_of(h->lessor);

	if (ask->generation == 0 || !holds_anything(ask) || (ask->kind == LG_LEASE_LIMIT) == (limits != NULL))
		return true;
	if (!(limits ? lg_limits_is_recovering(limits) : is_recovering(h) && !h->more->marked) ||
	    !lg_succession_is_listed(old, holder) || lg_succession_is_synced(old, holder))
		return true;	/* a lease that is void */
	if (lg_home_outstanding_tok(h) || begin(h, ask->kind, &past, now_ns) < 0)
		return false;
	/* What somebody told to have spent of a window, holding nothing any more, is lost with the other kind's books: it may be all. */
	if (limits) {
		if (is_window(h) && lg_limits_n_holders(limits))
			lg_budget_book(&h->budget, h->lessor->terms, h->lessor->terms->limit_tok, now_ns, now_ns);
		h->more->limits = lg_limits_free(limits);
	} else {
		if (is_window(h) && h->ledger.n)
			lg_limits_count_full(h->more->limits, now_ns);
		lg_budget_fini(&h->budget, h->lessor->terms);
		lg_home_escrow_end(h->more);
		h->more->recovering = false;
	}
	return true;
}

static void more_free(struct home_more *more, uint32_t n)
{
	if (!more)
		return;
	for (uint32_t i = 0; i < n && more->parts; i++)
		lg_slots_fini(&more->parts[i].used);
	lg_pool_put(more->parts, more->cap * sizeof(*more->parts));
	lg_limits_free(more->limits);
	lg_home_escrow_end(more);
	lg_pool_put(more, sizeof(*more));
}

struct lg_home *lg_home_free(struct lg_home *home)
{
	if (!home)
		return NULL;
	if (!limits_of(home))
		lg_budget_fini(&home->budget, home->lessor->terms);
	more_free(home->more, home->ledger.n);
	lg_ledger_fini(&home->ledger);
	lg_pool_put(home, sizeof(*home));
	return NULL;
}

/* tok tokens of a holder count in the budget as spent. */
static void book(struct lg_home *h, struct lg_holder *holder, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	struct home_part *part = part_of(h, holder);

	lg_budget_book(&h->budget, h->lessor->terms, tok, spent_ns, now_ns);
	if (part && part->used.v)	/* there may have been no memory for it: it is fairness only */
		lg_slots_add(&part->used, spent_ns, tok, now_ns);
}

static void lapsed(void *arg, struct lg_holder *holder, uint64_t tok)
{
	struct home_call *call = arg;

	call->h->lessor->lapsed_tok += tok;
	book(call->h, holder, tok, call->now_ns, call->now_ns);
	note(call->h, call->fx, LG_NOTE_LAPSE, holder, holder->generation - 1, tok);
}

/* A fixed window is over, and with it all leases of it. What was not reported of them counts in it. */
static void end_window(struct lg_home *h, const struct lg_home_effects *fx)
{
	for (uint32_t i = 0; i < h->ledger.n; i++) {
		struct lg_holder *holder = &h->ledger.v[i];
		uint64_t tok;

		if (!holder->granted_tok)
			continue;
		tok = lg_ledger_void(&h->ledger, holder);
		h->lessor->lapsed_tok += tok;
		note(h, fx, LG_NOTE_LAPSE, holder, holder->generation - 1, tok);
	}
	if (escrow_of(h))
		lg_escrow_turn(escrow_of(h));
}

/* What each message and each tick begins with: time passes. */
static void advance(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx)
{
	if (lg_budget_turn(&h->budget, h->lessor->terms, now_ns))
		end_window(h, fx);
	settle(h, now_ns);
	lg_budget_advance(&h->budget, h->lessor->terms, now_ns);
	lg_ledger_expire(&h->ledger, now_ns, lapsed, &(struct home_call){ h, now_ns, fx });
}

/* ---- grants ---- */

/* From when the holder's message was here: a lease does not run beyond a fixed window, though the holder's clock is a little slow. */
static uint64_t ttl_ns(const struct lg_home *h, const struct lg_holder *holder)
{
	uint64_t ttl = h->lessor->terms->ttl_ns;

	if (!is_fixed(h))
		return ttl;
	return lg_min_u64(ttl, lg_mul_div(lg_sub_floor(window_end_ns(h), holder->asked_ns), 998, 1000));
}

static void answer_within(struct lg_home *h, struct lg_holder *holder, uint64_t cap_tok, const struct lg_home_effects *fx)
{
	struct lg_grant grant;

	lg_ledger_grant(&h->ledger, h->lessor, holder, ttl_ns(h, holder), &grant);
	grant.cap_tok = cap_tok;
	if (is_recovering(h) && is_window(h) && !h->more->marked)
		grant.status = LG_GRANT_RECOVERING;
	fx->grant(fx->arg, holder->index, &grant);
}

static void answer(struct lg_home *h, struct lg_holder *holder, const struct lg_home_effects *fx)
{
	answer_within(h, holder, h->lessor->terms->max_outstanding_tok, fx);
}

static void tell(void *arg, struct lg_holder *holder)
{
	struct home_call *call = arg;

	answer(call->h, holder, call->fx);
}

static void given(void *arg, struct lg_holder *holder, uint64_t tok)
{
	struct home_call *call = arg;

	note(call->h, call->fx, LG_NOTE_GRANT, holder, holder->generation, tok);
}

static uint64_t divide_window(struct lg_home *h, uint64_t now_ns, struct home_call *call)
{
	uint64_t most[LG_HOLDERS_MAX];

	if (!h->ledger.n_short)
		return 0;
	h->more->level_tok = lg_home_level_tok(h);
	for (uint32_t i = 0; i < h->ledger.n; i++)
		most[i] = lg_home_most_tok(h, &h->ledger.v[i], now_ns);
	return lg_ledger_divide(&h->ledger, h->lessor, pool_tok(h, now_ns), most, now_ns, given, call);
}

static void lent(struct lg_home *h, uint64_t tok)
{
	h->lessor->granted_tok += tok;
	if (escrow_of(h))
		lg_escrow_lent(escrow_of(h), tok);
}

/* Lends what can be lent. */
static void divide(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx)
{
	struct home_call call = { h, now_ns, fx };
	uint64_t tok;

	if (is_window(h) && !h->lessor->terms->owner)
		tok = divide_window(h, now_ns, &call);
	else
		tok = lg_ledger_divide(&h->ledger, h->lessor, pool_tok(h, now_ns), NULL, now_ns, given, &call);
	lent(h, tok);
}

/* What `account` can be given without a look at the others, if that is all it can be given. */
static bool serve_alone(struct lg_home *h, struct lg_holder *account, uint64_t now_ns, const struct lg_home_effects *fx)
{
	uint64_t unmet_tok = lg_holder_unmet_tok(account);

	if (!lg_ledger_serves_alone(&h->ledger, h->lessor, account, pool_tok(h, now_ns)))
		return false;
	if (unmet_tok && is_window(h)) {
		if (h->ledger.n <= LG_LEDGER_FEW)
			return false;	/* what it would have it divide by may have changed with this message */
		unmet_tok = lg_min_u64(unmet_tok, lg_sub_floor(lg_home_most_tok(h, account, now_ns), account->outstanding_tok));
	}
	lg_ledger_give(&h->ledger, account, unmet_tok);
	lent(h, unmet_tok);
	note(h, fx, LG_NOTE_GRANT, account, account->generation, unmet_tok);
	return true;
}

static void serve(struct lg_home *h, struct lg_holder *account, uint64_t now_ns, const struct lg_home_effects *fx)
{
	if (!serve_alone(h, account, now_ns, fx) && h->ledger.n <= LG_LEDGER_FEW)
		divide(h, now_ns, fx);
	answer(h, account, fx);
	if (h->ledger.n <= LG_LEDGER_FEW)
		lg_ledger_tell(&h->ledger, h->ledger.n, tell, &(struct home_call){ h, now_ns, fx });
}

/* Room for one more account's part, before there is the account. */
static int reserve_part(struct lg_home *h)
{
	struct home_more *more = h->more;
	uint32_t cap = more->cap + more->cap / 4 + 1;
	struct home_part *parts;

	if (h->ledger.n < more->cap)
		return 0;
	parts = lg_pool_get(cap * sizeof(*parts));
	if (!parts)
		return -ENOMEM;
	if (h->ledger.n)
		memcpy(parts, more->parts, h->ledger.n * sizeof(*parts));
	lg_pool_put(more->parts, more->cap * sizeof(*parts));
	more->parts = parts;
	more->cap = cap;
	return 0;
}

static void insert_part(struct lg_home *h, const struct lg_holder *account)
{
	const struct lg_terms *t = h->lessor->terms;
	struct home_part *part = part_of(h, account);

	memmove(part + 1, part, (size_t)(&h->ledger.v[h->ledger.n - 1] - account) * sizeof(*part));
	*part = (struct home_part){ 0 };
	lg_slots_init(&part->used, t->per_ns, t->slot_ns, LG_HOME_USED_SLOTS);
}

static int open_account(struct lg_home *h, uint32_t holder, uint32_t incarnation, uint32_t generation, struct lg_holder **ret)
{
	int r = is_window(h) ? reserve_part(h) : 0;

	if (r == 0)
		r = lg_ledger_open(&h->ledger, holder, incarnation, generation, ret);
	if (r > 0 && is_window(h))
		insert_part(h, *ret);
	return r;
}

/* The holder remembers to have spent that in an earlier life's time. */
static void remember(struct lg_home *h, struct lg_holder *holder, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	struct home_part *part = part_of(h, holder);

	recall(h, tok, spent_ns, now_ns);
	if (part->used.v)
		lg_slots_add(&part->used, spent_ns, tok, now_ns);
}

/* The first message of a holder in this life. While recovering, one that may hold a lease of the old life goes on with it. */
static void welcome(struct lg_home *h, struct lg_holder *holder, const struct lg_ask *ask, uint64_t now_ns)
{
	const struct lg_succession *old = h->lessor->succession;

	if (!is_recovering(h) || h->more->changing || !lg_succession_is_listed(old, holder->index) ||
	    lg_succession_is_synced(old, holder->index))
		return;
	if (ask->kind != LG_LEASE_LIMIT)
		lg_ledger_adopt(&h->ledger, holder, ask);
	if (!is_window(h))
		h->more->unknown_tok = lg_sub_floor(h->more->unknown_tok, holder->outstanding_tok);
	else
		for (size_t i = 0; i < ask->n_history; i++)
			remember(h, holder, ask->history[i].tok, lg_age_end_ns(ask->history[i].age_ms, now_ns), now_ns);
}

static void refuse(struct lg_home *h, uint32_t holder, const struct lg_ask *ask, const struct lg_home_effects *fx)
{
	struct lg_grant grant = { .ack_seq = ask->seq, .epoch = h->lessor->epoch, .status = LG_GRANT_OVERLOADED };

	fx->grant(fx->arg, holder, &grant);
	if (fx->note)
		fx->note(fx->arg, &(struct lg_note){ .kind = LG_NOTE_REFUSE, .holder = holder, .epoch = grant.epoch,
						     .generation = ask->generation, .status = grant.status });
}

/* What a message changed goes to the books. */
static void book_news(struct lg_home *h, struct lg_holder *account, const struct lg_news *news, uint64_t now_ns,
		      const struct lg_home_effects *fx)
{
	h->lessor->lapsed_tok += news->lapsed_tok;
	if (news->lapsed_tok)
		book(h, account, news->lapsed_tok, now_ns, now_ns);
	for (size_t i = 0; i < news->n_parts; i++)
		book(h, account, news->parts[i].tok, lg_age_end_ns(news->parts[i].age_ms, now_ns), now_ns);
	note(h, fx, LG_NOTE_LAPSE, account, news->lapsed_generation, news->lapsed_tok);
	note(h, fx, LG_NOTE_REPORT, account, account->generation, news->spent_tok);
	note(h, fx, LG_NOTE_RETURN, account, account->generation, news->returned_tok);
}

void lg_home_ask(struct lg_home *h, uint32_t holder, uint32_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		 const struct lg_home_effects *fx)
{
	const struct lg_terms *t = h->lessor->terms;
	struct lg_holder *account;
	struct lg_news news;
	int r;

	if (ask->epoch != h->lessor->epoch || !lg_ask_is_sane(ask) || !suits(h, ask, holder, now_ns))
		return;
	if (limits_of(h)) {
		lg_limits_ask(limits_of(h), holder, incarnation, ask, now_ns, fx);
		return;
	}
	advance(h, now_ns, fx);
	r = open_account(h, holder, incarnation, ask->generation, &account);
	if (r < 0) {
		refuse(h, holder, ask, fx);
		return;
	}
	if (r)
		welcome(h, account, ask, now_ns);
	if (lg_ledger_ask(&h->ledger, account, incarnation, ask, now_ns, &news) == LG_LEDGER_STALE)
		return;
	book_news(h, account, &news, now_ns, fx);
	settle(h, now_ns);
	lg_home_see_demand(h, account, now_ns);
	lg_ledger_prolong(&h->ledger, account, t->ttl_ns, t->grace_ns);
	serve(h, account, now_ns, fx);
	lg_home_escrow_look(h, now_ns, fx);
}

/* The part of a holder in a limit that was cut: as much less as the limit. */
static void tell_cut(struct lg_home *h, struct lg_holder *holder, const struct lg_terms *terms, const struct lg_home_effects *fx)
{
	uint64_t cap_tok = lg_mul_div(holder->outstanding_tok, terms->budget_tok, h->lessor->terms->budget_tok);

	/* 0 would say that there is none. */
	answer_within(h, holder, lg_max_u64(lg_min_u64(cap_tok, terms->max_outstanding_tok), 1), fx);
}

/* Windows of another length begin: what is out may be spent in any of them, until the last such lease is over. */
static void change_windows(struct lg_home *h, const struct lg_terms *terms, uint64_t now_ns)
{
	const struct lg_terms *old = h->lessor->terms;
	uint64_t over_ns = now_ns + old->ttl_ns + old->grace_ns;

	if (!is_fixed(h) || old->per_ns == terms->per_ns || (!h->ledger.outstanding_tok && !is_recovering(h)))
		return;
	h->more->recovering = h->more->changing = true;
	h->more->marked = false;
	h->more->settle_ns = lg_window_end_ns(terms, h->lessor->origin_ns, over_ns);
}

void lg_home_terms(struct lg_home *h, const struct lg_terms *terms, uint64_t now_ns, const struct lg_home_effects *fx)
{
	if (limits_of(h)) {
		lg_limits_terms(limits_of(h), terms, now_ns);
		return;
	}
	advance(h, now_ns, fx);
	change_windows(h, terms, now_ns);
	for (uint32_t i = 0; i < h->ledger.n && terms->budget_tok < h->lessor->terms->budget_tok; i++)
		if (h->ledger.v[i].outstanding_tok)
			tell_cut(h, &h->ledger.v[i], terms, fx);
	lg_budget_change(&h->budget, h->lessor->terms, terms, h->lessor->origin_ns, now_ns);
	for (uint32_t i = 0; i < h->ledger.n && is_window(h); i++)
		lg_slots_reshape(&h->more->parts[i].used, terms->per_ns, terms->slot_ns, LG_HOME_USED_SLOTS, now_ns);
	/* Without memory for it the key lends as ever, and says that it does. */
	if (terms->reserves && more_begin(h, true) == 0 && !h->more->escrow)
		lg_home_escrow_begin(h);
	if (escrow_of(h))
		lg_escrow_void(escrow_of(h));
}

uint64_t lg_home_tick(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx)
{
	uint64_t tick_ns = h->lessor->terms->home_tick_ns, due_ns;

	if (limits_of(h))
		return lg_limits_tick(limits_of(h), now_ns, fx);
	advance(h, now_ns, fx);
	divide(h, now_ns, fx);
	lg_ledger_tell(&h->ledger, lg_ledger_tell_max(&h->ledger, tick_ns), tell, &(struct home_call){ h, now_ns, fx });
	lg_home_escrow_look(h, now_ns, fx);
	if (h->ledger.n_short || h->ledger.untold || is_recovering(h))
		return now_ns + tick_ns;
	due_ns = escrow_of(h) ? lg_min_u64(h->ledger.end_ns, lg_escrow_due_ns(escrow_of(h), h->lessor->terms)) : h->ledger.end_ns;
	/* Whoever wants something is served out of the next window as it begins. */
	return is_fixed(h) && h->ledger.want_tok ? lg_min_u64(due_ns, window_end_ns(h)) : due_ns;
}

uint64_t lg_home_marked(struct lg_home *h, bool is_durable, uint64_t now_ns, const struct lg_home_effects *fx)
{
	if (escrow_of(h))
		lg_escrow_marked(escrow_of(h), is_durable);
	return is_durable ? lg_home_tick(h, now_ns, fx) : now_ns;
}

bool lg_home_is_idle(struct lg_home *h, uint64_t now_ns)
{
	if (limits_of(h))
		return lg_limits_is_idle(limits_of(h), now_ns);
	settle(h, now_ns);
	return !is_recovering(h) && !h->ledger.outstanding_tok && !h->ledger.want_tok && !lg_home_consumed_tok(h, now_ns);
}

void lg_home_view(struct lg_home *h, uint64_t now_ns, struct lg_home_view *ret)
{
	if (limits_of(h)) {
		lg_limits_view(limits_of(h), now_ns, ret);
		return;
	}
	settle(h, now_ns);
	*ret = (struct lg_home_view){
		.budget_tok = h->lessor->terms->budget_tok,
		.pool_tok = pool_tok(h, now_ns),
		.outstanding_tok = h->ledger.outstanding_tok,
		.consumed_tok = lg_home_consumed_tok(h, now_ns),
		.unknown_tok = lg_home_unknown_tok(h, now_ns),
		.reserved_tok = escrow_of(h) ? lg_home_reserved_tok(h, UINT64_MAX) : 0,
		.window_end_ns = is_fixed(h) ? window_end_ns(h) : 0,
		.n_holders = h->ledger.n,
	};
}

uint64_t lg_home_outstanding_tok(const struct lg_home *h)
{
	return limits_of(h) ? lg_limits_outstanding_tok(limits_of(h)) : h->ledger.outstanding_tok;
}

int lg_home_holder(const struct lg_home *h, uint32_t holder, struct lg_holder_view *ret)
{
	const struct lg_holder *account = lg_ledger_find(&h->ledger, holder);

	if (limits_of(h))
		return lg_limits_holder(limits_of(h), holder, ret);
	if (!account)
		return -ENOENT;
	*ret = (struct lg_holder_view){
		.generation = account->generation,
		.granted_tok = account->granted_tok,
		.spent_tok = account->spent_tok,
		.returned_tok = lg_holder_returned_tok(account),
		.expires_ns = lg_holder_expires_ns(account),
		.demand_mtps = (uint64_t)account->demand_mtps,
		.want_tok = account->want_tok,
	};
	return 0;
}

size_t lg_home_bytes(const struct lg_home *h)
{
	size_t bytes = sizeof(*h) + lg_ledger_bytes(&h->ledger) + (escrow_of(h) ? sizeof(struct lg_escrow) : 0);

	if (limits_of(h))
		return bytes + sizeof(*h->more) + lg_limits_bytes(limits_of(h));
	bytes += lg_budget_bytes(&h->budget, h->lessor->terms);
	if (!h->more)
		return bytes;
	bytes += sizeof(*h->more) + h->more->cap * sizeof(*h->more->parts);
	for (uint32_t i = 0; h->more->parts && i < h->ledger.n; i++)
		bytes += lg_slots_bytes(&h->more->parts[i].used);
	return bytes;
}
