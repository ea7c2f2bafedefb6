// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A region lends on what it was lent: pool = granted - returned - spent - outstanding at its hosts, all within one generation of its
 * own lease. Three things pass through it:
 *
 *   Time. No host is given a lease beyond the region's own end, counted from before the host asked. Past that end the pool is
 *   returned and nothing is lent until the home prolongs.
 *   Lapses. A silent host's lease is spent, for the region and in its reports. When the region's own lease is void (a newer
 *   generation from the home) so are those of all its hosts: the home has counted the whole as spent, so the region starts empty.
 *   Lives. A region that restarts does not know what its hosts hold; the home counts the old life's lease as spent when it first
 *   hears of the new one. A token spent after it was counted would be free, so the region keeps silent towards the home until
 *   every host that may hold something has said hello (and so holds nothing: see lg_lessee_up()), or until their leases are over.
 *
 * Of most keys a region uses little. While that is so it reports rarely, and keeps in its pool what it would soon ask for again: each of
 * the two is a fiftieth of the budget at most, in all regions together, which nobody misses. As soon as it has spent more, or the home had
 * less than it was asked for, it reports as often as of any busy key.
 *
 * Where the home lends the limit itself, in parts, the region mints; see region_limit.c for when it speaks then.
 *
 * It also remembers, for windows, what was spent in the last one: a home in a new life learns it from here. What it cannot know (a host
 * that never came back after the region's restart) it states as the whole limit.
 */
#include "lease/region.h"

#include <errno.h>
#include <stdlib.h>

#include "lease/age.h"
#include "lease/arith.h"
#include "lease/demand.h"
#include "lease/region_inner.h"

#define MS 1000000ull
#define IDLE_NS (2000 * MS)		/* a little longer than its hosts: they may come back, or others need it */
#define RTT_GUESS_NS (100 * MS)
#define HISTORY_SLOTS (LG_HISTORY_MAX - 8)
#define PEAK_FADE_NS (30000 * MS)

/* Held and not lent on. */
static uint64_t pool_tok(const struct lg_region *r)
{
	return lg_sub_floor(r->granted_tok, r->returned_tok + r->spent_tok + r->ledger.outstanding_tok);
}

/* How often it reports on tokens. What the home was told to be busy stays so until it is told otherwise. */
static uint64_t period_ns(const struct lg_region *r)
{
	const struct lg_terms *t = r->lessor->terms;

	if (r->partial || r->spent_tok - r->sent_spent_tok > lg_terms_quiet_tok(t))
		return t->region_period_ns;
	return lg_terms_period_ns(t, lg_max_u64(r->ledger.demand_mtps, r->told_mtps));
}

static struct lg_asker_pace pace_of(const struct lg_region *r)
{
	return (struct lg_asker_pace){
		.gap_ns = r->lessor->terms->home_tick_ns,
		.period_ns = r->limit ? LG_REGION_LIMIT_PERIOD_NS : period_ns(r),
		.renew_ns = r->lessor->terms->ttl_ns / 3,
		.rtt_guess_ns = RTT_GUESS_NS,
	};
}

static uint64_t lendable_tok(const struct lg_region *r, uint64_t now_ns)
{
	if (now_ns >= r->expires_ns)
		return 0;
	return r->limit ? lg_sublimit_free_tok(r->limit, r->ledger.outstanding_tok, now_ns) : pool_tok(r);
}

/* A little longer than the window by the home's clock, whichever of the two is slower. */
static uint64_t history_ns(const struct lg_terms *terms)
{
	return terms->per_ns + terms->per_ns / 499 + 1;
}

int lg_region_new(struct lg_lessor *lessor, struct lg_holding *holding, uint64_t now_ns, uint64_t first_seq,
		  struct lg_region **ret_region)
{
	_cleanup_(lg_region_free) struct lg_region *r = calloc(1, sizeof(*r));
	const struct lg_terms *terms = lessor->terms;

	if (!r)
		return -ENOMEM;
	r->lessor = lessor;
	r->holding = holding;
	r->learning = lessor->succession != NULL;
	r->active_ns = r->peak_ns = now_ns;
	lg_ledger_init(&r->ledger);
	lg_asker_init(&r->asker, first_seq);
	lg_report_init(&r->report, 0);
	if (terms->algorithm != LG_TOKEN_BUCKET) {
		if (lg_slots_init(&r->history, history_ns(terms), terms->slot_ns, HISTORY_SLOTS) < 0)
			return -ENOMEM;
		r->has_history = true;
	}
	*ret_region = TAKE(r);
	return 0;
}

static void limit_free(struct lg_region *r)
{
	if (r->limit)
		lg_sublimit_fini(r->limit);
	free(r->limit);
	r->limit = NULL;
}

struct lg_region *lg_region_free(struct lg_region *region)
{
	if (!region)
		return NULL;
	lg_ledger_fini(&region->ledger);
	lg_report_fini(&region->report);
	lg_slots_fini(&region->history);
	limit_free(region);
	free(region);
	return NULL;
}

void lg_region_terms(struct lg_region *r, const struct lg_terms *terms)
{
	if (r->has_history)
		lg_slots_reshape(&r->history, history_ns(terms), terms->slot_ns, HISTORY_SLOTS, r->active_ns);
	if (r->limit)
		lg_sublimit_terms(r->limit, r->lessor->terms, terms, r->ledger.outstanding_tok, r->active_ns);
}

/* tok tokens of our own lease are spent. */
static void book(struct lg_region *r, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	if (!tok)
		return;
	r->spent_tok += tok;
	r->active_ns = now_ns;
	if (r->limit) {
		lg_sublimit_book(r->limit, tok, spent_ns, now_ns);
		return;
	}
	lg_report_add(&r->report, spent_ns, tok, r->lessor->terms->slot_ns);
	if (r->has_history)
		lg_slots_add(&r->history, spent_ns, tok, now_ns);
}

/* What the callbacks of the ledger work with. */
struct region_call {
	struct lg_region *r;
	uint64_t now_ns;
	const struct lg_region_effects *fx;
};

static void note(const struct lg_region *r, const struct lg_region_effects *fx, enum lg_note_kind kind, const struct lg_holder *holder,
		 uint32_t generation, uint64_t tok)
{
	struct lg_note n;

	if (!fx->note || !tok)
		return;
	n = lg_ledger_note(kind, r->lessor, holder, generation, tok);
	fx->note(fx->arg, &n);
}

static void lapsed(void *arg, struct lg_holder *holder, uint64_t tok)
{
	struct region_call *call = arg;

	call->r->lessor->lapsed_tok += tok;
	book(call->r, tok, call->now_ns, call->now_ns);
	note(call->r, call->fx, LG_NOTE_LAPSE, holder, holder->generation - 1, tok);
}

/* What a host spent before until_ns is anybody's guess. */
static void forgotten(struct lg_region *r, uint64_t until_ns, uint64_t now_ns)
{
	if (r->has_history && until_ns)
		lg_slots_add(&r->history, until_ns, r->lessor->terms->limit_tok, now_ns);
}

/* Whether every lease of an earlier life is known to be over. */
static void learn(struct lg_region *r, uint64_t now_ns)
{
	uint64_t over_ns;

	if (!r->learning)
		return;
	if (lg_ledger_knows_all(&r->ledger, r->lessor->succession)) {
		r->learning = false;
		forgotten(r, lg_succession_forgot_ns(r->lessor->succession), now_ns);
		return;
	}
	over_ns = lg_succession_since_ns(r->lessor->succession) + r->lessor->terms->ttl_ns + r->lessor->terms->grace_ns;
	if (now_ns < over_ns)
		return;
	/* Somebody has never come back. */
	r->learning = false;
	forgotten(r, over_ns, now_ns);
}

/* What each message and each tick begins with. */
static void advance(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	learn(r, now_ns);
	lg_ledger_expire(&r->ledger, now_ns, lapsed, &(struct region_call){ r, now_ns, fx });
	if (now_ns < r->expires_ns)
		return;
	if (r->limit)
		lg_sublimit_give_back(r->limit, r->lessor->terms, 0, r->ledger.outstanding_tok, now_ns);
	else
		r->returned_tok += pool_tok(r);
}

static uint64_t peak_tok(const struct lg_region *r, uint64_t now_ns)
{
	uint64_t halvings = (now_ns - r->peak_ns) / PEAK_FADE_NS;

	return halvings < 64 ? r->peak_tok >> halvings : 0;
}

static void see_peak(struct lg_region *r, uint64_t tok, uint64_t now_ns)
{
	if (tok < peak_tok(r, now_ns))
		return;
	r->peak_tok = lg_min_u64(tok, LG_BURST_MAX_TOK);
	r->peak_ns = now_ns;
}

/* It uses little, and its pool is so small that nobody misses it. */
static bool is_quiet(const struct lg_region *r)
{
	return !r->limit && period_ns(r) > r->lessor->terms->region_period_ns && pool_tok(r) <= lg_terms_quiet_tok(r->lessor->terms);
}

/* Without use for so long a lease goes back; hosts whose reports are rare say nothing of their use between two of them. */
static uint64_t idle_ns(const struct lg_region *r)
{
	uint64_t ns = lg_max_u64(IDLE_NS, 2 * r->lessor->terms->host_period_ns);

	if (r->limit)
		return lg_region_limit_idle_ns(r);
	return is_quiet(r) ? lg_max_u64(ns, lg_terms_quiet_period_ns(r->lessor->terms)) : ns;
}

static bool is_idle(const struct lg_region *r, uint64_t now_ns)
{
	return now_ns - r->active_ns >= idle_ns(r);
}

/* Nothing while it is idle: what hosts say they want is of before, and none of them is short. */
static struct lg_sizes sizes(const struct lg_region *r, uint64_t now_ns)
{
	struct lg_asker_pace pace = pace_of(r);

	if (is_idle(r, now_ns))
		return (struct lg_sizes){ 0 };
	return lg_sizes_of_region(r->lessor->terms, r->ledger.demand_mtps, r->ledger.want_tok, peak_tok(r, now_ns),
				  lg_asker_rtt_ns(r->holding->upstream, &pace), r->cap_tok, pace.period_ns);
}

static void tell_tokens(struct lg_region *r, bool request, uint64_t now_ns, struct lg_ask *ask)
{
	r->told_mtps = r->ledger.demand_mtps;
	/* A message of its own it is not worth. */
	if (is_quiet(r) && is_idle(r, now_ns))
		r->returned_tok += pool_tok(r);
	ask->request = request;
	ask->granted_tok = r->granted_tok;
	ask->want_tok = request ? sizes(r, now_ns).target_tok : 0;
	ask->demand_mtps = lg_demand_told_mtps(r->told_mtps);
	lg_report_fill(&r->report, ask, now_ns);
	ask->kind = LG_LEASE_BLOCK;
	ask->limit_version = ask->held_permille = 0;
	ask->held_tok = 0;
}

/* Speaks to the home: says all there is to say. */
static void say(struct lg_region *r, bool request, uint64_t now_ns, const struct lg_region_effects *fx)
{
	struct lg_ask ask;

	if (r->limit)
		lg_region_limit_tell(r, now_ns, &ask);
	else
		tell_tokens(r, request, now_ns, &ask);
	ask.generation = r->generation;
	ask.spent_tok = r->spent_tok;
	ask.returned_tok = r->returned_tok;
	ask.demand_mtps = lg_min_u64(ask.demand_mtps, 1ull << 50);
	ask.peak_tok = peak_tok(r, now_ns);
	ask.hosts = lg_ledger_hosts(&r->ledger, r->lessor->terms);
	ask.n_history = 0;
	if (r->has_history && !r->asker.heard)
		ask.n_history = lg_slots_export(&r->history, now_ns, ask.history, LG_HISTORY_MAX);
	lg_asker_sent(&r->asker, r->holding->upstream, &ask, ask.want_tok, now_ns);
	r->sent_spent_tok = r->spent_tok;
	r->sent_returned_tok = r->returned_tok;
	fx->ask(fx->arg, &ask);
}

static struct lg_asker_need token_need(const struct lg_region *r, uint64_t now_ns)
{
	struct lg_sizes size = sizes(r, now_ns);

	return (struct lg_asker_need){
		.own_tok = lendable_tok(r, now_ns) + r->ledger.outstanding_tok,
		.low_tok = size.low_tok,
		.target_tok = size.target_tok,
		.wanting = r->ledger.n_short && !lendable_tok(r, now_ns),
		.news = r->spent_tok != r->sent_spent_tok || r->returned_tok != r->sent_returned_tok || r->report.n,
		.unreported_tok = r->spent_tok - r->sent_spent_tok,
		.cramped = lg_terms_is_cramped(r->lessor->terms),
	};
}

static uint64_t ask_home(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	struct lg_asker_pace pace = pace_of(r);
	struct lg_asker_need need;
	uint64_t due_ns, shrink_due_ns = UINT64_MAX;
	enum lg_say what;

	if (r->learning)
		return now_ns + r->lessor->terms->home_tick_ns;
	if (r->owes_hello) {
		r->owes_hello = false;
		r->asker.flush = true;
	}
	need = r->limit ? lg_region_limit_need(r, now_ns, &shrink_due_ns) : token_need(r, now_ns);
	what = lg_asker_check(&r->asker, r->holding->upstream, &need, &pace, now_ns, &due_ns);
	if (what == LG_SAY_NOTHING)
		return lg_min_u64(due_ns, lg_max_u64(shrink_due_ns, now_ns + 1));
	say(r, what == LG_SAY_REQUEST, now_ns, fx);
	return now_ns + pace.gap_ns;
}

bool lg_region_up(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	if (!r->holding->upstream->up)
		return false;
	lg_asker_up(&r->asker, r->holding->upstream);
	advance(r, now_ns, fx);
	r->owes_hello = r->learning;
	if (r->learning)
		return false;
	say(r, sizes(r, now_ns).target_tok > 0, now_ns, fx);
	return true;
}

/* From when the host's message was here: it was sent earlier, so its lease ends before our own does. */
static uint64_t host_ttl_ns(const struct lg_region *r, const struct lg_holder *holder)
{
	return lg_min_u64(r->lessor->terms->ttl_ns, lg_sub_floor(r->expires_ns, holder->asked_ns));
}

/* The home is silent, or the region above has told that its own is; and nothing of ours is left to lend. */
static bool is_dry(const struct lg_region *r)
{
	return !r->limit && !pool_tok(r) && lg_asker_reason(&r->asker, r->holding->upstream) == LG_WANT_UNREACHABLE;
}

static void fill_grant(struct lg_region *r, struct lg_holder *holder, struct lg_grant *ret_grant)
{
	lg_ledger_grant(&r->ledger, r->lessor, holder, host_ttl_ns(r, holder), ret_grant);
	ret_grant->cap_tok = r->limit ? r->limit->limit_tok : r->cap_tok;
	if (r->learning)
		ret_grant->status = LG_GRANT_RECOVERING;
	else if (is_dry(r))
		ret_grant->status = LG_GRANT_UNREACHABLE;
}

static void answer(struct lg_region *r, struct lg_holder *holder, const struct lg_region_effects *fx)
{
	struct lg_grant grant;

	fill_grant(r, holder, &grant);
	fx->grant(fx->arg, holder->index, &grant);
}

static void tell(void *arg, struct lg_holder *holder)
{
	struct region_call *call = arg;

	answer(call->r, holder, call->fx);
}

static void given(void *arg, struct lg_holder *holder, uint64_t tok)
{
	struct region_call *call = arg;

	note(call->r, call->fx, LG_NOTE_GRANT, holder, holder->generation, tok);
}

/* What a limit mints is lent as soon as it is there, so little that whoever has one token more than another lets it lie: here it is the
 * stock of the hosts that is kept even, not what they are given. */
static uint64_t divide_evenly(struct lg_region *r, uint64_t now_ns, struct region_call *call)
{
	uint64_t most_tok[LG_LEDGER_FEW], free_tok = lendable_tok(r, now_ns);
	uint64_t level = lg_ledger_level_tok(&r->ledger, free_tok + r->ledger.outstanding_tok);

	for (uint32_t i = 0; i < r->ledger.n; i++)
		most_tok[i] = level;
	return lg_ledger_divide(&r->ledger, r->lessor, free_tok, most_tok, now_ns, given, call);
}

/* Lends what can be lent. */
static void divide(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	struct region_call call = { r, now_ns, fx };
	uint64_t tok;

	if (r->limit && r->ledger.n_short && r->ledger.n <= LG_LEDGER_FEW)
		tok = divide_evenly(r, now_ns, &call);
	else
		tok = lg_ledger_divide(&r->ledger, r->lessor, lendable_tok(r, now_ns), NULL, now_ns, given, &call);
	r->lessor->granted_tok += tok;
	if (r->ledger.n_short)
		r->active_ns = now_ns;
}

/* Of a few hosts those who wait are served at once; of many at the tick, and not all of them at the same. */
static void tell_few(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	if (r->ledger.n <= LG_LEDGER_FEW)
		lg_ledger_tell(&r->ledger, r->ledger.n, tell, &(struct region_call){ r, now_ns, fx });
}

/* How long the host's account is kept: as long as its lease; and what it wants is not forgotten before we have learned what is out. */
static uint64_t account_ns(const struct lg_region *r, const struct lg_holder *holder)
{
	return r->learning ? r->lessor->terms->ttl_ns : host_ttl_ns(r, holder);
}

static void serve(struct lg_region *r, struct lg_holder *holder, uint64_t now_ns, const struct lg_region_effects *fx)
{
	uint64_t unmet_tok = lg_holder_unmet_tok(holder);

	lg_ledger_prolong(&r->ledger, holder, account_ns(r, holder), r->lessor->terms->grace_ns);
	if (!(r->limit && r->ledger.n <= LG_LEDGER_FEW) &&
	    lg_ledger_serves_alone(&r->ledger, r->lessor, holder, lendable_tok(r, now_ns))) {
		lg_ledger_give(&r->ledger, holder, unmet_tok);
		r->lessor->granted_tok += unmet_tok;
		note(r, fx, LG_NOTE_GRANT, holder, holder->generation, unmet_tok);
	} else if (r->ledger.n <= LG_LEDGER_FEW) {
		divide(r, now_ns, fx);
	}
	answer(r, holder, fx);
	tell_few(r, now_ns, fx);
}

static void refuse(const struct lg_region *r, uint32_t holder, const struct lg_ask *ask, const struct lg_region_effects *fx)
{
	struct lg_grant grant = { .ack_seq = ask->seq, .epoch = r->lessor->epoch, .status = LG_GRANT_OVERLOADED };

	fx->grant(fx->arg, holder, &grant);
	if (fx->note)
		fx->note(fx->arg, &(struct lg_note){ .kind = LG_NOTE_REFUSE, .holder = holder, .epoch = grant.epoch,
						     .generation = ask->generation, .status = grant.status });
}

/* What a message changed goes to the books. */
static void book_news(struct lg_region *r, const struct lg_holder *account, const struct lg_news *news, uint64_t now_ns,
		      const struct lg_region_effects *fx)
{
	r->lessor->lapsed_tok += news->lapsed_tok;
	book(r, news->lapsed_tok, now_ns, now_ns);
	for (size_t i = 0; i < news->n_parts; i++)
		book(r, news->parts[i].tok, lg_age_end_ns(news->parts[i].age_ms, now_ns), now_ns);
	note(r, fx, LG_NOTE_LAPSE, account, news->lapsed_generation, news->lapsed_tok);
	note(r, fx, LG_NOTE_REPORT, account, account->generation, news->spent_tok);
	note(r, fx, LG_NOTE_RETURN, account, account->generation, news->returned_tok);
}

void lg_region_ask(struct lg_region *r, uint32_t holder, uint32_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		   const struct lg_region_effects *fx)
{
	struct lg_holder *account;
	struct lg_news news;
	int is_new;

	if (ask->epoch != r->lessor->epoch || !lg_ask_is_sane(ask))
		return;
	advance(r, now_ns, fx);
	is_new = lg_ledger_open(&r->ledger, holder, incarnation, ask->generation, &account);
	if (is_new < 0) {
		refuse(r, holder, ask, fx);
		return;
	}
	if (is_new && r->has_history)
		for (size_t i = 0; i < ask->n_history; i++)
			lg_slots_add(&r->history, lg_age_end_ns(ask->history[i].age_ms, now_ns), ask->history[i].tok, now_ns);
	if (lg_ledger_ask(&r->ledger, account, incarnation, ask, now_ns, &news) == LG_LEDGER_STALE)
		return;
	see_peak(r, ask->peak_tok, now_ns);
	book_news(r, account, &news, now_ns, fx);
	learn(r, now_ns);
	serve(r, account, now_ns, fx);
	ask_home(r, now_ns, fx);
}

/* Our lease is void, and with it all that was lent on. The hosts are told at once; what they may have spent is remembered. */
static void start_generation(struct lg_region *r, uint32_t generation, uint64_t now_ns, const struct lg_region_effects *fx)
{
	if (r->limit)
		lg_sublimit_void(r->limit, r->lessor->terms, &r->history, now_ns);
	r->told_held_tok = 0;
	r->generation = generation;
	r->granted_tok = r->returned_tok = r->spent_tok = r->sent_returned_tok = r->sent_spent_tok = 0;
	r->expires_ns = 0;
	lg_report_clear(&r->report);
	for (uint32_t i = 0; i < r->ledger.n; i++) {
		struct lg_holder *holder = &r->ledger.v[i];
		uint64_t tok;

		if (!holder->granted_tok)
			continue;
		tok = lg_ledger_void(&r->ledger, holder);
		if (r->has_history)
			lg_slots_add(&r->history, now_ns, tok, now_ns);
		note(r, fx, LG_NOTE_LAPSE, holder, holder->generation - 1, tok);
		answer(r, holder, fx);
	}
}

/* A lease is of one kind from its first grant to its end. */
static int set_kind(struct lg_region *r, enum lg_lease_kind kind, uint64_t now_ns)
{
	if ((kind == LG_LEASE_LIMIT) == (r->limit != NULL))
		return 0;
	if (r->limit) {
		lg_sublimit_void(r->limit, r->lessor->terms, &r->history, now_ns);
		limit_free(r);
		return 0;
	}
	r->limit = calloc(1, sizeof(*r->limit));
	if (r->limit && lg_sublimit_init(r->limit, r->lessor->terms, now_ns) == 0)
		return 0;
	free(r->limit);
	r->limit = NULL;
	return -ENOMEM;
}

/* The home has told us to hold no more than cap_tok: the pool goes back first, then each host gives back its part of what is still above. */
static void cut(struct lg_region *r, const struct lg_region_effects *fx)
{
	uint64_t pool = pool_tok(r), own = pool + r->ledger.outstanding_tok, out_tok = r->ledger.outstanding_tok;
	struct lg_grant grant;

	if (r->limit || !r->cap_tok || own <= r->cap_tok)
		return;
	if (pool) {
		r->returned_tok += lg_min_u64(pool, own - r->cap_tok);
		r->asker.flush = true;
	}
	for (uint32_t i = 0; i < r->ledger.n && out_tok > r->cap_tok; i++) {
		struct lg_holder *holder = &r->ledger.v[i];

		if (!holder->outstanding_tok)
			continue;
		fill_grant(r, holder, &grant);
		grant.cap_tok = lg_max_u64(lg_mul_div(holder->outstanding_tok, r->cap_tok, out_tok), 1);
		fx->grant(fx->arg, holder->index, &grant);
	}
}

/* Our lease runs on, and so may those of hosts that wait: they need not ask again to be pushed tokens. */
static void prolong(struct lg_region *r, uint64_t expires_ns)
{
	if (expires_ns <= r->expires_ns)
		return;
	r->expires_ns = expires_ns;
	for (uint32_t i = 0; i < r->ledger.n; i++)
		if (lg_holder_unmet_tok(&r->ledger.v[i]))
			lg_ledger_prolong(&r->ledger, &r->ledger.v[i], host_ttl_ns(r, &r->ledger.v[i]), r->lessor->terms->grace_ns);
}

void lg_region_grant(struct lg_region *r, const struct lg_grant *grant, uint64_t now_ns, const struct lg_region_effects *fx)
{
	uint64_t sent_ns;

	if (!lg_asker_is_addressed(&r->asker, r->holding->upstream, grant))
		return;
	sent_ns = lg_asker_answered(&r->asker, r->holding->upstream, grant, now_ns);
	r->status = grant->status;
	if (!lg_grant_is_answer(grant))
		return;
	if (grant->generation < r->generation)
		return;
	advance(r, now_ns, fx);
	if (grant->generation > r->generation) {
		if (set_kind(r, grant->kind, now_ns) < 0)
			return;	/* as if it had been lost: told again */
		start_generation(r, grant->generation, now_ns, fx);
	}
	if ((grant->kind == LG_LEASE_LIMIT) != (r->limit != NULL))
		return;
	if (r->limit && lg_sublimit_follow(r->limit, r->lessor->terms, grant, r->ledger.outstanding_tok, now_ns))
		r->asker.flush = true;
	lg_report_ack(&r->report, grant->ack_slot);
	r->partial = grant->partial;
	r->cap_tok = grant->cap_tok;
	r->granted_tok = lg_max_u64(r->granted_tok, grant->granted_tok);
	if (sent_ns)
		prolong(r, sent_ns + lg_mul_div(grant->ttl_ms, MS, 1));
	cut(r, fx);
	if (r->ledger.n <= LG_LEDGER_FEW)
		divide(r, now_ns, fx);
	tell_few(r, now_ns, fx);
}

/* Gives back what no host needs, if there is somebody to give it to. */
static void give_back(struct lg_region *r, uint64_t now_ns)
{
	struct lg_sizes size = sizes(r, now_ns);
	uint64_t pool = pool_tok(r), own = pool + r->ledger.outstanding_tok, back;

	if (!pool || !r->holding->upstream->up || is_quiet(r)) {
		r->excess_ns = 0;
		return;
	}
	if (is_idle(r, now_ns)) {
		back = pool;
	} else {
		if (own <= 2 * size.target_tok) {
			r->excess_ns = 0;
			return;
		}
		if (!r->excess_ns)
			r->excess_ns = now_ns;
		if (now_ns - r->excess_ns < IDLE_NS)
			return;
		back = lg_min_u64(pool, own - size.target_tok);
	}
	r->excess_ns = 0;
	r->returned_tok += back;
	r->asker.flush = true;
}

static uint64_t next_ns(const struct lg_region *r, uint64_t say_ns, uint64_t now_ns)
{
	uint64_t due = lg_min_u64(say_ns, r->ledger.end_ns);

	if (r->limit ? r->limit->limit_tok || r->limit->permille : pool_tok(r)) {
		due = lg_min_u64(due, r->expires_ns);
		if (!is_quiet(r))
			due = lg_min_u64(due, lg_max_u64(r->active_ns + idle_ns(r), now_ns + r->lessor->terms->region_tick_ns));
		if (r->excess_ns)
			due = lg_min_u64(due, r->excess_ns + IDLE_NS);
		if (r->ledger.n_short)
			due = lg_min_u64(due, now_ns + r->lessor->terms->region_tick_ns);
	}
	if (r->ledger.untold)
		due = lg_min_u64(due, now_ns + r->lessor->terms->region_tick_ns);
	return lg_max_u64(due, now_ns + 1);
}

uint64_t lg_region_tick(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	if (r->holding->upstream->up && lg_asker_is_behind(&r->asker, r->holding->upstream))
		lg_region_up(r, now_ns, fx);
	advance(r, now_ns, fx);
	if (r->limit)
		lg_region_limit_give_back(r, now_ns);
	else
		give_back(r, now_ns);
	divide(r, now_ns, fx);
	lg_ledger_tell(&r->ledger, lg_ledger_tell_max(&r->ledger, r->lessor->terms->region_tick_ns), tell,
		       &(struct region_call){ r, now_ns, fx });
	return next_ns(r, ask_home(r, now_ns, fx), now_ns);
}

void lg_region_close(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx)
{
	advance(r, now_ns, fx);
	if (r->limit)
		lg_sublimit_give_back(r->limit, r->lessor->terms, r->ledger.outstanding_tok, r->ledger.outstanding_tok, now_ns);
	else
		r->returned_tok += pool_tok(r);
	if (r->holding->upstream->up && !r->learning)
		say(r, false, now_ns, fx);
}

bool lg_region_is_idle(const struct lg_region *r, uint64_t now_ns)
{
	bool told = r->spent_tok == r->sent_spent_tok && r->returned_tok == r->sent_returned_tok && !r->asker.awaits;
	bool moot = now_ns >= r->expires_ns + r->lessor->terms->ttl_ns + r->lessor->terms->grace_ns;

	if (r->limit && (lg_sublimit_held_tok(r->limit, r->ledger.outstanding_tok, now_ns) || (r->told_held_tok && !moot)))
		return false;
	return !r->learning && !r->ledger.outstanding_tok && !r->ledger.want_tok && !pool_tok(r) && (told || moot) &&
	       (!r->has_history || now_ns >= lg_slots_last_ns(&r->history));
}

void lg_region_view(const struct lg_region *r, uint64_t now_ns, struct lg_region_view *ret)
{
	struct lg_asker_pace pace = pace_of(r);
	uint64_t held_tok = r->limit ? lg_sublimit_held_tok(r->limit, r->ledger.outstanding_tok, now_ns) : 0;

	*ret = (struct lg_region_view){
		.epoch = r->holding->upstream->epoch,
		.generation = r->generation,
		.granted_tok = r->limit ? held_tok + r->spent_tok : r->granted_tok,
		.returned_tok = r->returned_tok,
		.pool_tok = lendable_tok(r, now_ns),
		.outstanding_tok = r->ledger.outstanding_tok,
		.spent_tok = r->spent_tok,
		.expires_ns = r->expires_ns,
		.demand_mtps = r->ledger.demand_mtps,
		.target_tok = sizes(r, now_ns).target_tok,
		.rtt_ns = lg_asker_rtt_ns(r->holding->upstream, &pace),
		.n_holders = r->ledger.n,
		.partial = r->partial,
		.status = r->status,
	};
}
