// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The bucket in the kernel counts for itself and outlives this object, so nothing here is the truth about tokens: each tick reads the
 * bucket's totals, and what is reported are differences of totals. Within one generation of the lease: granted = totals now - totals
 * at its start, returned likewise, spent by traffic = (spent - returned) now - then.
 *
 * A reading may be too high by a take that the kernel undoes within the same packet. Reported as spent, such tokens would be booked before
 * somebody really spends them, and so be refilled or leave the window too early. So what is reported is what two readings in a row have seen.
 *
 * Three ways end a lease. Idleness: after 1.5 s without cost all but a few tokens go back, more of them after 10 s, and the last after
 * five minutes; the few let a burst or a rare caller in without a round trip. Its time: the kernel stops by itself, and what is left is
 * taken back here so that it can be reported as returned. A new generation: the lessor has counted everything as spent, so everything
 * is dropped.
 */
#include "lease/lessee.h"

#include <errno.h>
#include <stdlib.h>

#include "lease/age.h"
#include "lease/asker.h"
#include "lease/demand.h"
#include "lease/arith.h"
#include "lease/report.h"
#include "lease/slots.h"

#define MS 1000000ull
#define S (1000 * MS)
#define IDLE_NS (1500 * MS)
#define PAUSE_NS (10 * S)		/* a longer pause is no pause between bursts */
#define DORMANT_NS (300 * S)		/* the last few tokens go back after this */
#define CHECK_NS (500 * MS)		/* idleness is looked at this often */
#define STUCK_NS (5 * S)		/* tokens that cannot be taken for this long are not there */
#define RTT_GUESS_NS (2 * MS)		/* host and region share a site */
#define HISTORY_SLOTS (LG_HISTORY_MAX - 8)

struct lg_lessee {
	struct lg_terms terms;
	struct lg_asker asker;
	struct lg_report report;
	struct lg_demand demand;
	struct lg_slots history;	/* windows: what traffic spent in the last one */
	bool has_history;
	uint32_t generation;
	uint64_t granted_tok;		/* of the generation, as granted */
	uint64_t base_returned_tok;	/* totals at its start */
	uint64_t base_traffic_tok;
	struct lg_usage last;		/* totals, never falling (spent: see below) */
	uint64_t seen_tok;		/* spent by traffic, as last read */
	uint64_t traffic_tok;		/* the same, as two readings have seen it; never falling */
	uint64_t sent_traffic_tok;	/* as the last message had it */
	uint64_t sent_returned_tok;
	uint64_t expires_ns;
	uint64_t cap_tok;
	uint64_t offered_ns;		/* when there last was cost */
	uint64_t read_ns;
	uint64_t read_gap_ns;		/* reads the bucket this often: grows while nothing happens */
	uint64_t excess_ns;		/* since when it has held more than twice what it needs; 0 it has not */
	uint64_t low_water_tok;		/* as the kernel has it */
	bool idle;
	uint64_t burst_tok;		/* when idle: twice the largest burst of before */
	uint64_t stuck_ns;		/* since when tokens that should be in the bucket could not be taken from it; 0 not */
	enum lg_grant_status status;
	bool partial;
};

static struct lg_asker_pace pace_of(const struct lg_lessee *l)
{
	return (struct lg_asker_pace){
		.gap_ns = l->terms.host_tick_ns,
		.period_ns = l->terms.host_period_ns,
		.renew_ns = l->terms.ttl_ns / 3,
		.rtt_guess_ns = RTT_GUESS_NS,
	};
}

static uint64_t traffic_of(const struct lg_usage *u)
{
	return lg_sub_floor(u->spent_tok, u->returned_tok);
}

static uint64_t left_tok(const struct lg_lessee *l)
{
	return lg_sub_floor(l->last.granted_tok, l->seen_tok + l->last.returned_tok);
}

/* Left and not yet over. */
static uint64_t own_tok(const struct lg_lessee *l, uint64_t now_ns)
{
	return now_ns < l->expires_ns ? left_tok(l) : 0;
}

static void generation_starts(struct lg_lessee *l)
{
	l->traffic_tok = lg_max_u64(l->traffic_tok, l->seen_tok);
	l->base_returned_tok = l->last.returned_tok;
	l->base_traffic_tok = l->sent_traffic_tok = l->traffic_tok;
	l->sent_returned_tok = l->last.returned_tok;
	l->granted_tok = 0;
	l->expires_ns = 0;
	lg_report_clear(&l->report);
}

static int history_init(struct lg_lessee *l, uint64_t now_ns)
{
	int r;

	if (l->terms.algorithm == LG_TOKEN_BUCKET)
		return 0;
	r = lg_slots_init(&l->history, l->terms.per_ns, l->terms.slot_ns, HISTORY_SLOTS);
	if (r < 0)
		return r;
	l->has_history = true;
	/* An earlier agent spent this, nobody knows when: as late as it can be. */
	lg_slots_add(&l->history, now_ns, lg_min_u64(l->traffic_tok, l->terms.limit_tok), now_ns);
	return 0;
}

/* The lease goes on; what of it was reported is not known, so all of it is news. */
static void take_over(struct lg_lessee *l, const struct lg_lessee_resume *resume)
{
	l->generation = resume->generation;
	l->asker.epoch = resume->epoch;
	l->expires_ns = resume->expires_ns;
	l->base_returned_tok = lg_min_u64(resume->base.returned_tok, l->last.returned_tok);
	l->base_traffic_tok = lg_min_u64(traffic_of(&resume->base), l->traffic_tok);
	l->sent_traffic_tok = l->base_traffic_tok;
	l->sent_returned_tok = l->base_returned_tok;
	l->granted_tok = lg_sub_floor(resume->now.granted_tok, resume->base.granted_tok);
}

int lg_lessee_new(const struct lg_terms *terms, uint64_t now_ns, uint64_t first_seq, uint64_t seed,
		  const struct lg_lessee_resume *resume, const struct lg_usage *start, struct lg_lessee **ret_lessee)
{
	_cleanup_(lg_lessee_free) struct lg_lessee *l = calloc(1, sizeof(*l));
	const struct lg_usage *found = resume ? &resume->now : start;
	int r;

	if (!l)
		return -ENOMEM;
	l->terms = *terms;
	lg_asker_init(&l->asker, first_seq, seed);
	lg_report_init(&l->report, first_seq);
	l->last = *found;
	l->seen_tok = l->traffic_tok = traffic_of(found);
	generation_starts(l);
	/* A bucket made by a packet that found no tokens: that packet is demand. */
	if (!found->granted_tok && !found->spent_tok)
		l->last.denied_tok = 0;
	if (resume)
		take_over(l, resume);
	l->demand.at_ns = l->demand.peak_ns = l->read_ns = l->offered_ns = now_ns;
	l->read_gap_ns = terms->host_tick_ns;
	r = history_init(l, now_ns);
	if (r < 0)
		return r;
	*ret_lessee = TAKE(l);
	return 0;
}

struct lg_lessee *lg_lessee_free(struct lg_lessee *lessee)
{
	if (!lessee)
		return NULL;
	lg_report_fini(&lessee->report);
	lg_slots_fini(&lessee->history);
	free(lessee);
	return NULL;
}

void lg_lessee_forgot(struct lg_lessee *l, uint64_t until_ns)
{
	if (l->has_history)
		lg_slots_add(&l->history, until_ns, l->terms.limit_tok, l->read_ns);
}

void lg_lessee_terms(struct lg_lessee *l, const struct lg_terms *terms)
{
	l->terms = *terms;
	if (l->has_history)
		lg_slots_reshape(&l->history, terms->per_ns, terms->slot_ns, HISTORY_SLOTS, l->read_ns);
}

/* New totals. Returns the cost offered since the last reading. */
static uint64_t read_usage(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns)
{
	uint64_t seen_tok = traffic_of(now), new_tok = lg_sub_floor(seen_tok, l->seen_tok);
	uint64_t sure_tok = lg_sub_floor(lg_min_u64(seen_tok, l->seen_tok), l->traffic_tok);
	uint64_t denied_tok = lg_sub_floor(now->denied_tok, l->last.denied_tok);
	struct lg_asker_pace pace = pace_of(l);
	uint64_t ask_ns = lg_asker_rtt_ns(&l->asker, &pace) + l->terms.region_tick_ns + l->terms.host_tick_ns;

	l->seen_tok = seen_tok;
	l->traffic_tok += sure_tok;
	l->last.granted_tok = lg_max_u64(l->last.granted_tok, now->granted_tok);
	l->last.returned_tok = lg_max_u64(l->last.returned_tok, now->returned_tok);
	l->last.denied_tok += denied_tok;
	l->read_ns = now_ns;
	lg_demand_add(&l->demand, new_tok + denied_tok, new_tok, ask_ns, now_ns);
	lg_report_add(&l->report, now_ns, sure_tok, l->terms.slot_ns);
	if (l->has_history)
		lg_slots_add(&l->history, now_ns, new_tok, now_ns);
	if (new_tok + denied_tok) {
		l->offered_ns = now_ns;
		l->idle = false;
	}
	return new_tok + denied_tok;
}

static uint64_t demand_mtps(struct lg_lessee *l, uint64_t now_ns)
{
	return l->idle ? 0 : lg_demand_mtps(&l->demand, lg_demand_floor_mtps(&l->terms), now_ns);
}

static struct lg_sizes sizes(struct lg_lessee *l, uint64_t now_ns)
{
	struct lg_asker_pace pace = pace_of(l);

	return lg_sizes_of_host(&l->terms, demand_mtps(l, now_ns), lg_demand_peak_tok(&l->demand, now_ns),
				lg_asker_rtt_ns(&l->asker, &pace), l->cap_tok);
}

/* The totals as last read. */
static struct lg_usage known(const struct lg_lessee *l)
{
	struct lg_usage u = l->last;

	u.spent_tok = l->seen_tok + u.returned_tok;
	return u;
}

static void take(struct lg_lessee *l, uint64_t tok, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_usage now = known(l);
	uint64_t before_tok = left_tok(l);

	fx->take(fx->arg, tok, &now);
	read_usage(l, &now, now_ns);
	if (left_tok(l) < before_tok)
		l->stuck_ns = 0;
	else if (!l->stuck_ns)
		l->stuck_ns = now_ns;
}

/*
 * A grant that found no room in the kernel's table: the tokens are on our account and nowhere else. They cannot be returned, for a
 * bucket that is merely slow to answer might still spend them; so the lease is not prolonged and lapses.
 */
static bool is_lost(const struct lg_lessee *l, uint64_t now_ns)
{
	return l->stuck_ns && now_ns - l->stuck_ns >= STUCK_NS;
}

/* Speaks: says all there is to say. */
static void say(struct lg_lessee *l, bool request, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_asker_pace pace = pace_of(l);
	struct lg_sizes size = sizes(l, now_ns);
	struct lg_ask ask;

	ask.generation = l->generation;
	ask.request = request;
	ask.granted_tok = l->granted_tok;
	/* A take that will be undone can make it seem more than granted. */
	ask.returned_tok = lg_min_u64(l->last.returned_tok - l->base_returned_tok, l->granted_tok);
	ask.spent_tok = lg_min_u64(l->traffic_tok - l->base_traffic_tok, l->granted_tok - ask.returned_tok);
	ask.want_tok = request ? size.target_tok : 0;
	ask.demand_mtps = demand_mtps(l, now_ns);
	ask.peak_tok = lg_demand_peak_tok(&l->demand, now_ns);
	lg_report_fill(&l->report, &ask, now_ns);
	ask.kind = LG_LEASE_BLOCK;
	ask.limit_version = ask.held_permille = 0;
	ask.held_tok = 0;
	ask.n_history = 0;
	if (l->has_history && !l->asker.heard)
		ask.n_history = lg_slots_export(&l->history, now_ns, ask.history, LG_HISTORY_MAX);
	lg_asker_sent(&l->asker, &ask, &pace, size.target_tok, now_ns);
	l->sent_traffic_tok = l->traffic_tok;
	l->sent_returned_tok = l->last.returned_tok;
	fx->ask(fx->arg, &ask);
}

void lg_lessee_up(struct lg_lessee *l, uint32_t epoch, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	bool lost = l->asker.epoch && epoch > l->asker.epoch && l->generation;

	if (!lg_asker_up(&l->asker, epoch))
		return;
	/* A region in a new life knows none of its old leases, and its home counts them as spent as soon as all hosts have said hello: from
	 * that message on nothing of them may be spent. */
	if (lost && left_tok(l))
		take(l, UINT64_MAX, now_ns, fx);
	if (!is_lost(l, now_ns))
		say(l, sizes(l, now_ns).target_tok > 0, now_ns, fx);
}

void lg_lessee_down(struct lg_lessee *l)
{
	lg_asker_down(&l->asker);
}

/* The kernel spends nothing after the end; what is left goes on the account of returns. */
static void end_lease(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	if (l->expires_ns && now_ns >= l->expires_ns && left_tok(l) && !is_lost(l, now_ns))
		take(l, UINT64_MAX, now_ns, fx);
}

/* An equal part of a share of the budget for each host, at least a token. */
static uint64_t part_tok(const struct lg_lessee *l, uint64_t share)
{
	return lg_max_u64(l->terms.budget_tok / (share * l->terms.hosts), 1);
}

/*
 * What an idle key keeps, so that a caller who comes by now and then need not wait: twice its largest burst. What all idle hosts keep
 * together is missing where the traffic is, so it is at most a sixteenth of the budget while the pause may be one between bursts,
 * a hundredth later, and nothing in the end. A single token stays even of a small budget: five a minute for one host that sees a
 * caller now and then would all be refused if each time the token had just gone back.
 */
static uint64_t kept_tok(const struct lg_lessee *l, uint64_t now_ns)
{
	uint64_t idle_ns = now_ns - l->offered_ns;

	if (idle_ns >= DORMANT_NS)
		return 0;
	return lg_min_u64(l->burst_tok, part_tok(l, idle_ns < PAUSE_NS ? 16 : 100));
}

/* What is not needed any more: above this. UINT64_MAX as long as it is not certain. */
static uint64_t most_tok(struct lg_lessee *l, uint64_t now_ns)
{
	uint64_t target_tok;

	if (!l->idle && now_ns - l->offered_ns >= IDLE_NS) {
		l->idle = true;
		l->burst_tok = lg_max_u64(2 * lg_demand_peak_tok(&l->demand, now_ns), 1);
	}
	if (l->idle) {
		l->excess_ns = 0;
		return kept_tok(l, now_ns);
	}
	target_tok = sizes(l, now_ns).target_tok;
	if (left_tok(l) <= 2 * target_tok) {
		l->excess_ns = 0;
		return UINT64_MAX;
	}
	if (!l->excess_ns)
		l->excess_ns = now_ns;
	if (now_ns - l->excess_ns < IDLE_NS)
		return UINT64_MAX;
	l->excess_ns = 0;
	return target_tok;
}

/* Gives back what is not needed, if there is somebody to give it to. */
static void give_back(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	uint64_t most = most_tok(l, now_ns), left = left_tok(l);

	if (!l->asker.up || left <= most || is_lost(l, now_ns))
		return;
	take(l, left - most, now_ns, fx);
	l->asker.flush = true;
}

static struct lg_asker_need need_of(struct lg_lessee *l, uint64_t now_ns)
{
	struct lg_sizes size = sizes(l, now_ns);

	return (struct lg_asker_need){
		.own_tok = own_tok(l, now_ns),
		.low_tok = size.low_tok,
		.target_tok = size.target_tok,
		.news = l->traffic_tok != l->sent_traffic_tok || l->last.returned_tok != l->sent_returned_tok || l->report.n,
		.unreported_tok = l->traffic_tok - l->sent_traffic_tok,
	};
}

/* When the bucket must be read again: each tick while there is cost, then ever more rarely, and at the times something ends. */
static uint64_t next_ns(const struct lg_lessee *l, uint64_t say_ns, uint64_t now_ns)
{
	uint64_t due = now_ns + l->read_gap_ns;

	if (l->idle) {
		due = l->offered_ns + (now_ns - l->offered_ns < PAUSE_NS ? PAUSE_NS : DORMANT_NS);
		due = left_tok(l) ? due : UINT64_MAX;
		due = lg_max_u64(due, now_ns + CHECK_NS);
	}
	if (left_tok(l) && l->expires_ns > now_ns)
		due = lg_min_u64(due, l->expires_ns);
	return lg_max_u64(lg_min_u64(due, say_ns), now_ns + 1);
}

uint64_t lg_lessee_tick(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_asker_pace pace = pace_of(l);
	struct lg_asker_need need;
	uint64_t say_ns;
	enum lg_say what;

	if (read_usage(l, now, now_ns))
		l->read_gap_ns = l->terms.host_tick_ns;
	else
		l->read_gap_ns = lg_min_u64(2 * l->read_gap_ns, CHECK_NS);
	end_lease(l, now_ns, fx);
	give_back(l, now_ns, fx);
	if (is_lost(l, now_ns))
		return next_ns(l, UINT64_MAX, now_ns);
	need = need_of(l, now_ns);
	what = lg_asker_check(&l->asker, &need, &pace, now_ns, &say_ns);
	if (what != LG_SAY_NOTHING) {
		say(l, what == LG_SAY_REQUEST, now_ns, fx);
		need = need_of(l, now_ns);
		lg_asker_check(&l->asker, &need, &pace, now_ns, &say_ns);
	}
	return next_ns(l, say_ns, now_ns);
}

static void start_generation(struct lg_lessee *l, uint32_t generation, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_usage now = known(l);

	fx->generation(fx->arg, generation, l->asker.epoch, &now);
	read_usage(l, &now, now_ns);
	l->generation = generation;
	generation_starts(l);
}

void lg_lessee_grant(struct lg_lessee *l, const struct lg_grant *grant, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	uint64_t sent_ns, add_tok, expires_ns, low_tok;

	if (!lg_asker_is_addressed(&l->asker, grant))
		return;
	sent_ns = lg_asker_answered(&l->asker, grant, now_ns);
	l->status = grant->status;
	if (grant->status != LG_GRANT_OK && grant->status != LG_GRANT_RECOVERING)
		return;
	if (grant->generation < l->generation)
		return;
	if (grant->generation > l->generation)
		start_generation(l, grant->generation, now_ns, fx);
	lg_report_ack(&l->report, grant->ack_slot);
	l->partial = grant->partial;
	l->cap_tok = grant->cap_tok;
	add_tok = lg_sub_floor(grant->granted_tok, l->granted_tok);
	l->granted_tok += add_tok;
	l->last.granted_tok += add_tok;
	/* A lessor that is over its own time prolongs nothing, not even by the time the question was under way. */
	expires_ns = sent_ns && grant->ttl_ms ? sent_ns + lg_mul_div(grant->ttl_ms, MS, 1) : 0;
	/* Of an idle key the kernel is to announce any cost. */
	low_tok = l->idle ? lg_max_u64(kept_tok(l, now_ns), 1) : sizes(l, now_ns).low_tok;
	/* No tokens are an answer too: the lessor is there, so the fallback of the rule must not begin. */
	if (!add_tok && expires_ns <= l->expires_ns && low_tok == l->low_water_tok)
		return;
	l->expires_ns = lg_max_u64(l->expires_ns, expires_ns);
	l->low_water_tok = low_tok;
	fx->grant(fx->arg, add_tok, l->expires_ns, low_tok, l->asker.epoch);
}

void lg_lessee_close(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	/* Twice, for a second reading. */
	if (left_tok(l))
		take(l, UINT64_MAX, now_ns, fx);
	take(l, UINT64_MAX, now_ns, fx);
	if (l->asker.up && !is_lost(l, now_ns))
		say(l, false, now_ns, fx);
}

bool lg_lessee_is_idle(const struct lg_lessee *l, uint64_t now_ns)
{
	bool told = l->seen_tok <= l->sent_traffic_tok && l->last.returned_tok == l->sent_returned_tok &&
		    l->asker.answered_seq == l->asker.seq;
	/* By then the lessor has counted the lease as spent: there is nothing left to tell. */
	bool moot = now_ns >= l->expires_ns + l->terms.ttl_ns + l->terms.grace_ns;

	return now_ns - l->offered_ns >= IDLE_NS && (!left_tok(l) || (moot && is_lost(l, now_ns))) && (told || moot) &&
	       (!l->has_history || now_ns >= lg_slots_last_ns(&l->history));
}

void lg_lessee_view(const struct lg_lessee *l, uint64_t now_ns, struct lg_lessee_view *ret)
{
	struct lg_asker_pace pace = pace_of(l);
	struct lg_lessee copy = *l;	/* averages fade with the reading */
	struct lg_sizes size = sizes(&copy, now_ns);

	*ret = (struct lg_lessee_view){
		.epoch = l->asker.epoch,
		.generation = l->generation,
		.left_tok = own_tok(l, now_ns),
		.expires_ns = l->expires_ns,
		.granted_tok = l->granted_tok,
		.spent_tok = l->traffic_tok - l->base_traffic_tok,
		.returned_tok = l->last.returned_tok - l->base_returned_tok,
		.demand_mtps = demand_mtps(&copy, now_ns),
		.target_tok = size.target_tok,
		.low_water_tok = size.low_tok,
		.rtt_ns = lg_asker_rtt_ns(&l->asker, &pace),
		.partial = l->partial,
		.status = l->status,
	};
}
