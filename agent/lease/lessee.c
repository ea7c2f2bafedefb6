// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The bucket in the kernel counts for itself and outlives this object, so nothing here is the truth about tokens: each tick reads the
 * bucket's totals, and what is reported are those of one generation of the lease: granted, spent by traffic, returned.
 *
 * A reading may be too high by a take that the kernel undoes within the same packet. Reported as spent, such tokens would be booked before
 * somebody really spends them, and so be refilled or leave the window too early. So what is reported is what two readings in a row have seen.
 *
 * Three ways end a lease. Idleness: after 1.5 s without cost all but a few tokens go back, more of them after 10 s, and the last after
 * five minutes; the few let a burst or a rare caller in without a round trip. Its time: the kernel stops by itself, and what is left is
 * taken back here so that it can be reported as returned. A new generation: the lessor has counted everything as spent, so everything
 * is dropped.
 *
 * A key at rest is one that has been idle for 10 s and has nothing to tell. Of the part it then does without, struct busy, only what
 * can be had again is lost: that it was idle is known from its absence, its burst from the few tokens it was left. Where there is no
 * memory for the busy part the reading is put off: what was spent is told later, and stays lent until then.
 */
#include "lease/lessee.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "lease/arith.h"
#include "lease/demand.h"
#include "lease/report.h"
#include "lease/slots.h"

#define MS 1000000ull
#define S (1000 * MS)
#define IDLE_NS (1500 * MS)
#define PAUSE_NS (10 * S)		/* a longer pause is no pause between bursts */
#define DORMANT_NS (300 * S)		/* the last few tokens go back after this */
#define CHECK_NS (500 * MS)		/* idleness is looked at this often */
#define READ_TICKS 4			/* not yet idle, the bucket is read so often: what came in between seems to have come at once */
#define STUCK_NS (5 * S)		/* tokens that cannot be taken for this long are not there */
#define RTT_GUESS_NS (2 * MS)		/* host and region share a site */
#define HISTORY_SLOTS (LG_HISTORY_MAX - 8)
#define PEAK_FADE_S 30.0		/* as of lease/demand.h */
#define COARSE_SHIFT 24			/* 17 ms: 32 bits of them wrap after two years, and only differences count */

/* What a key at rest does without. */
struct busy {
	struct lg_demand demand;
	struct lg_report report;
	uint64_t seen_tok;		/* spent by traffic, as last read */
	uint64_t sent_spent_tok;	/* as the last message had it */
	uint64_t sent_returned_tok;
	uint64_t cap_tok;
	uint64_t low_water_tok;		/* as the kernel has it */
	uint64_t burst_tok;		/* when idle: twice the largest burst of before */
	uint64_t offered_ns;		/* when there last was cost */
	uint64_t read_ns;
	uint64_t excess_ns;		/* since when it has held more than twice what it needs; 0 it has not */
	uint64_t stuck_ns;		/* since when tokens that should be in the bucket could not be taken from it; 0 not */
	uint32_t read_gap_ns;		/* reads the bucket this often: grows while nothing happens */
	bool idle;
	bool has_history;
	struct lg_slots history;	/* windows: what traffic spent in the last one. Buckets do not have this part */
};

struct lg_lessee {
	struct lg_holding *holding;
	struct busy *busy;		/* NULL at rest */
	struct lg_asker asker;
	uint64_t granted_tok;		/* of the generation, as granted */
	uint64_t spent_tok;		/* by traffic, as two readings have seen it; never falling */
	uint64_t returned_tok;
	uint64_t expires_ns;
	uint32_t generation;
	uint32_t denied_tok;		/* low half of the bucket's, as last read */
	uint32_t offered_coarse;	/* at rest: when there last was cost */
	uint32_t last_slot;		/* at rest */
};
_Static_assert(sizeof(struct lg_lessee) == LG_LESSEE_BYTES, "one for each key that a host leases");

static const struct lg_terms *terms_of(const struct lg_lessee *l)
{
	return l->holding->terms;
}

static struct lg_asker_pace pace_of(const struct lg_lessee *l)
{
	return (struct lg_asker_pace){
		.gap_ns = terms_of(l)->host_tick_ns,
		.period_ns = terms_of(l)->host_period_ns,
		.renew_ns = terms_of(l)->ttl_ns / 3,
		.rtt_guess_ns = RTT_GUESS_NS,
	};
}

static uint64_t traffic_of(const struct lg_usage *u)
{
	return lg_sub_floor(u->spent_tok, u->returned_tok);
}

static uint64_t seen_tok(const struct lg_lessee *l)
{
	return l->busy ? l->busy->seen_tok : l->spent_tok;
}

static uint64_t left_tok(const struct lg_lessee *l)
{
	return lg_sub_floor(l->granted_tok, seen_tok(l) + l->returned_tok);
}

/* Left and not yet over. */
static uint64_t own_tok(const struct lg_lessee *l, uint64_t now_ns)
{
	return now_ns < l->expires_ns ? left_tok(l) : 0;
}

static uint64_t offered_ns(const struct lg_lessee *l, uint64_t now_ns)
{
	uint32_t ago = (uint32_t)(now_ns >> COARSE_SHIFT) - l->offered_coarse;

	return l->busy ? l->busy->offered_ns : now_ns - ((uint64_t)ago << COARSE_SHIFT);
}

static bool is_idle(const struct lg_lessee *l)
{
	return !l->busy || l->busy->idle;
}

/* ---- the busy part comes and goes ---- */

static size_t busy_size(bool has_history)
{
	return has_history ? sizeof(struct busy) : offsetof(struct busy, history);
}

static void busy_free(struct busy *b)
{
	if (!b)
		return;
	lg_report_fini(&b->report);
	if (b->has_history)
		lg_slots_fini(&b->history);
	lg_pool_put(b, busy_size(b->has_history));
}

static struct busy *busy_new(const struct lg_lessee *l, uint64_t now_ns)
{
	const struct lg_terms *t = terms_of(l);
	bool has_history = t->algorithm != LG_TOKEN_BUCKET;
	struct busy *b = lg_pool_get(busy_size(has_history));

	if (!b)
		return NULL;
	if (has_history && lg_slots_init(&b->history, t->per_ns, t->slot_ns, HISTORY_SLOTS) < 0) {
		lg_pool_put(b, busy_size(true));
		return NULL;
	}
	b->has_history = has_history;
	b->demand.at_ns = b->read_ns = b->offered_ns = now_ns;
	b->read_gap_ns = (uint32_t)t->host_tick_ns;
	return b;
}

/* From rest. False: there is no memory for it. */
static bool wake(struct lg_lessee *l, uint64_t now_ns)
{
	double idle_s = (double)(now_ns - offered_ns(l, now_ns)) / 1e9;
	struct busy *b = l->busy ? NULL : busy_new(l, now_ns);

	if (!b)
		return l->busy != NULL;
	b->offered_ns = offered_ns(l, now_ns);
	b->idle = true;
	b->burst_tok = left_tok(l);
	b->demand.peak_tok = (float)((double)b->burst_tok / 2 * exp(-idle_s / PEAK_FADE_S));
	b->seen_tok = b->sent_spent_tok = l->spent_tok;
	b->sent_returned_tok = l->returned_tok;
	lg_report_init(&b->report, l->last_slot);
	l->busy = b;
	return true;
}

static bool is_told(const struct lg_lessee *l)
{
	const struct busy *b = l->busy;

	if (l->asker.awaits || l->asker.flush)
		return false;
	return !b || (b->seen_tok <= b->sent_spent_tok && l->returned_tok == b->sent_returned_tok);
}

static bool remembers(const struct lg_lessee *l, uint64_t now_ns)
{
	return l->busy && l->busy->has_history && now_ns < lg_slots_last_ns(&l->busy->history);
}

/* To rest, if nothing that matters is lost by it. */
static void rest(struct lg_lessee *l, uint64_t now_ns)
{
	struct busy *b = l->busy;

	if (!b || !b->idle || now_ns - b->offered_ns < PAUSE_NS || !is_told(l) || b->seen_tok != l->spent_tok || b->report.n ||
	    b->stuck_ns || remembers(l, now_ns))
		return;
	l->offered_coarse = (uint32_t)(b->offered_ns >> COARSE_SHIFT);
	l->last_slot = b->report.last_id;
	l->busy = NULL;
	busy_free(b);
}

/* ---- making one ---- */

static void generation_starts(struct lg_lessee *l)
{
	struct busy *b = l->busy;

	l->granted_tok = l->spent_tok = l->returned_tok = l->expires_ns = 0;
	if (!b)
		return;
	b->seen_tok = b->sent_spent_tok = b->sent_returned_tok = b->stuck_ns = 0;
	lg_report_clear(&b->report);
}

/* The lease goes on; what of it was reported is not known, so all of it is news. */
static void take_over(struct lg_lessee *l, const struct lg_lessee_found *found)
{
	struct lg_upstream *u = l->holding->upstream;

	if (u->epoch < found->epoch)
		u->epoch = found->epoch;
	l->generation = found->generation;
	lg_asker_spoke(&l->asker, found->epoch);
	l->expires_ns = found->expires_ns;
	l->granted_tok = found->granted_tok;
	l->busy->sent_spent_tok = l->busy->sent_returned_tok = 0;
}

int lg_lessee_new(struct lg_holding *holding, uint64_t now_ns, uint64_t first_seq, const struct lg_lessee_found *found,
		  struct lg_lessee **ret_lessee)
{
	_cleanup_(lg_lessee_free) struct lg_lessee *l = lg_pool_get(sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->holding = holding;
	lg_asker_init(&l->asker, first_seq);
	l->busy = busy_new(l, now_ns);
	if (!l->busy)
		return -ENOMEM;
	lg_report_init(&l->busy->report, 0);
	/* A bucket made by a packet that found no tokens: that packet is demand. */
	if (found->generation || found->traffic_tok)
		l->denied_tok = (uint32_t)found->usage.denied_tok;
	l->spent_tok = l->busy->seen_tok = l->busy->sent_spent_tok = traffic_of(&found->usage);
	l->returned_tok = l->busy->sent_returned_tok = found->usage.returned_tok;
	if (found->generation)
		take_over(l, found);
	/* An earlier agent spent this, nobody knows when: as late as it can be. */
	if (l->busy->has_history)
		lg_slots_add(&l->busy->history, now_ns, lg_min_u64(found->traffic_tok, holding->terms->limit_tok), now_ns);
	*ret_lessee = TAKE(l);
	return 0;
}

struct lg_lessee *lg_lessee_free(struct lg_lessee *lessee)
{
	if (!lessee)
		return NULL;
	busy_free(lessee->busy);
	lg_pool_put(lessee, sizeof(*lessee));
	return NULL;
}

void lg_lessee_forgot(struct lg_lessee *l, uint64_t until_ns)
{
	if (l->busy && l->busy->has_history)
		lg_slots_add(&l->busy->history, until_ns, terms_of(l)->limit_tok, l->busy->read_ns);
}

void lg_lessee_terms(struct lg_lessee *l, uint64_t now_ns)
{
	if (l->busy && l->busy->has_history)
		lg_slots_reshape(&l->busy->history, terms_of(l)->per_ns, terms_of(l)->slot_ns, HISTORY_SLOTS, now_ns);
}

/* ---- readings ---- */

/* Since the last one; a bucket that was made anew counts from 0 again. */
static uint64_t denied_since(const struct lg_lessee *l, const struct lg_usage *now)
{
	int32_t more = (int32_t)((uint32_t)now->denied_tok - l->denied_tok);

	return more > 0 ? (uint64_t)more : 0;
}

/* New totals, of a busy key. Returns the cost offered since the last reading. */
static uint64_t read_usage(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns)
{
	struct busy *b = l->busy;
	uint64_t seen = traffic_of(now), new_tok = lg_sub_floor(seen, b->seen_tok);
	uint64_t sure_tok = lg_sub_floor(lg_min_u64(seen, b->seen_tok), l->spent_tok);
	uint64_t denied_tok = denied_since(l, now);
	struct lg_asker_pace pace = pace_of(l);
	uint64_t ask_ns = lg_demand_interval_ns(terms_of(l), lg_asker_rtt_ns(l->holding->upstream, &pace));

	/* Before its first lease a key spends what it started with: that is demand, and nothing of it is reported or remembered. */
	if (!l->generation) {
		l->spent_tok = b->sent_spent_tok = seen;
		sure_tok = 0;
	}
	b->seen_tok = seen;
	l->spent_tok += sure_tok;
	l->returned_tok = lg_max_u64(l->returned_tok, now->returned_tok);
	l->denied_tok = (uint32_t)now->denied_tok;
	lg_demand_add(&b->demand, new_tok + denied_tok, new_tok, ask_ns, now_ns - b->read_ns, now_ns);
	b->read_ns = now_ns;
	lg_report_add(&b->report, now_ns, sure_tok, terms_of(l)->slot_ns);
	if (b->has_history && l->generation)
		lg_slots_add(&b->history, now_ns, new_tok, now_ns);
	if (new_tok + denied_tok) {
		b->offered_ns = now_ns;
		b->idle = false;
	}
	return new_tok + denied_tok;
}

static uint64_t demand_mtps(struct lg_lessee *l, uint64_t now_ns)
{
	return is_idle(l) ? 0 : lg_demand_mtps(&l->busy->demand, lg_demand_floor_mtps(terms_of(l)), now_ns);
}

static uint64_t peak_tok(struct lg_lessee *l, uint64_t now_ns)
{
	return l->busy ? lg_demand_peak_tok(&l->busy->demand, now_ns) : 0;
}

static struct lg_sizes sizes(struct lg_lessee *l, uint64_t now_ns)
{
	struct lg_asker_pace pace = pace_of(l);

	if (is_idle(l))
		return (struct lg_sizes){ 0 };
	return lg_sizes_of_host(terms_of(l), demand_mtps(l, now_ns), peak_tok(l, now_ns),
				lg_asker_rtt_ns(l->holding->upstream, &pace), l->busy->cap_tok);
}

/* The totals as last read. */
static struct lg_usage known(const struct lg_lessee *l)
{
	return (struct lg_usage){ .spent_tok = seen_tok(l) + l->returned_tok, .returned_tok = l->returned_tok,
				  .denied_tok = l->denied_tok };
}

static void take(struct lg_lessee *l, uint64_t tok, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_usage now = known(l);
	uint64_t before_tok = left_tok(l);

	fx->take(fx->arg, tok, &now);
	if (!wake(l, now_ns)) {
		l->returned_tok = lg_max_u64(l->returned_tok, now.returned_tok);
		l->asker.flush = true;
		return;
	}
	read_usage(l, &now, now_ns);
	if (left_tok(l) < before_tok)
		l->busy->stuck_ns = 0;
	else if (!l->busy->stuck_ns)
		l->busy->stuck_ns = now_ns;
}

/*
 * A grant that found no room in the kernel's table: the tokens are on our account and nowhere else. They cannot be returned, for a
 * bucket that is merely slow to answer might still spend them; so the lease is not prolonged and lapses.
 */
static bool is_lost(const struct lg_lessee *l, uint64_t now_ns)
{
	return l->busy && l->busy->stuck_ns && now_ns - l->busy->stuck_ns >= STUCK_NS;
}

/* ---- speaking ---- */

/* Says all there is to say. */
static void say(struct lg_lessee *l, bool request, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_sizes size = sizes(l, now_ns);
	struct busy *b = l->busy;
	struct lg_ask ask;

	ask.generation = l->generation;
	ask.request = request;
	ask.granted_tok = l->granted_tok;
	/* A take that will be undone can make it seem more than granted. */
	ask.returned_tok = lg_min_u64(l->returned_tok, l->granted_tok);
	ask.spent_tok = lg_min_u64(l->spent_tok, l->granted_tok - ask.returned_tok);
	ask.want_tok = request ? size.target_tok : 0;
	ask.demand_mtps = demand_mtps(l, now_ns);
	ask.peak_tok = peak_tok(l, now_ns);
	ask.hosts = 1;
	ask.kind = LG_LEASE_BLOCK;
	ask.limit_version = ask.held_permille = 0;
	ask.held_tok = 0;
	ask.n_slots = ask.n_history = 0;
	if (b) {
		lg_report_fill(&b->report, &ask, now_ns);
		if (b->has_history && !l->asker.heard)
			ask.n_history = lg_slots_export(&b->history, now_ns, ask.history, LG_HISTORY_MAX);
		b->sent_spent_tok = l->spent_tok;
		b->sent_returned_tok = l->returned_tok;
	}
	lg_asker_sent(&l->asker, l->holding->upstream, &ask, size.target_tok, now_ns);
	fx->ask(fx->arg, &ask);
}

void lg_lessee_up(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	const struct lg_upstream *u = l->holding->upstream;
	bool lost = l->generation && lg_asker_is_behind(&l->asker, u);

	if (!u->up)
		return;
	lg_asker_up(&l->asker, u);
	/* A region in a new life knows none of its old leases, and its home counts them as spent as soon as all hosts have said hello: from
	 * that message on nothing of them may be spent. */
	if (lost && left_tok(l))
		take(l, UINT64_MAX, now_ns, fx);
	if (!is_lost(l, now_ns))
		say(l, sizes(l, now_ns).target_tok > 0, now_ns, fx);
}

/* ---- giving back ---- */

static bool is_over(const struct lg_lessee *l, uint64_t now_ns)
{
	return l->expires_ns && now_ns >= l->expires_ns && left_tok(l);
}

/* The kernel spends nothing after the end; what is left goes on the account of returns. */
static void end_lease(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	if (is_over(l, now_ns) && !is_lost(l, now_ns))
		take(l, UINT64_MAX, now_ns, fx);
}

/* An equal part of a share of the budget for each host, at least a token. */
static uint64_t part_tok(const struct lg_lessee *l, uint64_t share)
{
	return lg_max_u64(terms_of(l)->budget_tok / (share * terms_of(l)->hosts), 1);
}

/*
 * What an idle key keeps, so that a caller who comes by now and then need not wait: twice its largest burst. What all idle hosts keep
 * together is missing where the traffic is, so it is at most a sixteenth of the budget while the pause may be one between bursts,
 * a hundredth later, and nothing in the end. A single token stays even of a small budget: five a minute for one host that sees a
 * caller now and then would all be refused if each time the token had just gone back.
 */
static uint64_t kept_tok(const struct lg_lessee *l, uint64_t now_ns)
{
	uint64_t idle_ns = now_ns - offered_ns(l, now_ns);

	if (idle_ns >= DORMANT_NS)
		return 0;
	return lg_min_u64(l->busy ? l->busy->burst_tok : left_tok(l), part_tok(l, idle_ns < PAUSE_NS ? 16 : 100));
}

/* What is not needed any more: above this. UINT64_MAX as long as it is not certain. */
static uint64_t most_tok(struct lg_lessee *l, uint64_t now_ns)
{
	struct busy *b = l->busy;
	uint64_t target_tok;

	if (b && !b->idle && now_ns - b->offered_ns >= IDLE_NS) {
		b->idle = true;
		b->burst_tok = lg_max_u64(2 * peak_tok(l, now_ns), 1);
	}
	if (is_idle(l)) {
		if (b)
			b->excess_ns = 0;
		return kept_tok(l, now_ns);
	}
	target_tok = sizes(l, now_ns).target_tok;
	if (left_tok(l) <= 2 * target_tok) {
		b->excess_ns = 0;
		return UINT64_MAX;
	}
	if (!b->excess_ns)
		b->excess_ns = now_ns;
	if (now_ns - b->excess_ns < IDLE_NS)
		return UINT64_MAX;
	b->excess_ns = 0;
	return target_tok;
}

/* Gives back what is not needed, if there is somebody to give it to. */
static void give_back(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	uint64_t most = most_tok(l, now_ns), left = left_tok(l);

	if (!l->holding->upstream->up || left <= most || is_lost(l, now_ns))
		return;
	take(l, left - most, now_ns, fx);
	l->asker.flush = true;
}

/* ---- time ---- */

static struct lg_asker_need need_of(struct lg_lessee *l, uint64_t now_ns)
{
	struct lg_sizes size = sizes(l, now_ns);
	const struct busy *b = l->busy;

	return (struct lg_asker_need){
		.own_tok = own_tok(l, now_ns),
		.low_tok = size.low_tok,
		.target_tok = size.target_tok,
		.news = b && (l->spent_tok != b->sent_spent_tok || l->returned_tok != b->sent_returned_tok || b->report.n),
		.unreported_tok = b ? l->spent_tok - b->sent_spent_tok : 0,
		.cramped = lg_terms_is_cramped(terms_of(l)),
		.part_tok = lg_terms_is_cramped(terms_of(l)) ? part_tok(l, 4) : 0,
	};
}

/* When the bucket must be read again: each tick while there is cost, then ever more rarely, and at the times something ends. */
static uint64_t next_ns(const struct lg_lessee *l, uint64_t say_ns, uint64_t now_ns)
{
	uint64_t due = l->busy ? now_ns + l->busy->read_gap_ns : UINT64_MAX, last_ns = offered_ns(l, now_ns);

	if (is_idle(l)) {
		due = last_ns + (now_ns - last_ns < PAUSE_NS ? PAUSE_NS : DORMANT_NS);
		due = left_tok(l) || (l->busy && now_ns - last_ns < PAUSE_NS) ? due : UINT64_MAX;
		due = lg_max_u64(due, now_ns + CHECK_NS);
	}
	if (left_tok(l) && l->expires_ns > now_ns)
		due = lg_min_u64(due, l->expires_ns);
	/* Nothing else would make it due when it can be forgotten. */
	if (remembers(l, now_ns))
		due = lg_min_u64(due, lg_slots_last_ns(&l->busy->history));
	return lg_max_u64(lg_min_u64(due, say_ns), now_ns + 1);
}

/* Speaks if it is time. Returns when it next may be. */
static uint64_t speak(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	const struct lg_upstream *u = l->holding->upstream;
	struct lg_asker_pace pace = pace_of(l);
	struct lg_asker_need need = need_of(l, now_ns);
	enum lg_say what;
	uint64_t say_ns;

	what = lg_asker_check(&l->asker, u, &need, &pace, now_ns, &say_ns);
	if (what == LG_SAY_NOTHING)
		return say_ns;
	say(l, what == LG_SAY_REQUEST, now_ns, fx);
	need = need_of(l, now_ns);
	lg_asker_check(&l->asker, u, &need, &pace, now_ns, &say_ns);
	return say_ns;
}

/* Of a key at rest: whether a reading has news. */
static bool has_news(const struct lg_lessee *l, const struct lg_usage *now)
{
	return traffic_of(now) != l->spent_tok || now->returned_tok > l->returned_tok || denied_since(l, now);
}

/* Takes in a reading. */
static void see(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns)
{
	if (!l->busy && (!has_news(l, now) || !wake(l, now_ns)))
		return;
	if (read_usage(l, now, now_ns))
		l->busy->read_gap_ns = (uint32_t)terms_of(l)->host_tick_ns;
	else
		l->busy->read_gap_ns = (uint32_t)lg_min_u64(2ull * l->busy->read_gap_ns, READ_TICKS * terms_of(l)->host_tick_ns);
}

uint64_t lg_lessee_tick(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	struct lg_usage as_known = known(l);
	uint64_t say_ns;

	see(l, now ? now : &as_known, now_ns);
	if (l->holding->upstream->up && lg_asker_is_behind(&l->asker, l->holding->upstream))
		lg_lessee_up(l, now_ns, fx);
	end_lease(l, now_ns, fx);
	give_back(l, now_ns, fx);
	if (is_lost(l, now_ns))
		return next_ns(l, UINT64_MAX, now_ns);
	say_ns = speak(l, now_ns, fx);
	rest(l, now_ns);
	return next_ns(l, say_ns, now_ns);
}

/* ---- grants ---- */

static int start_generation(struct lg_lessee *l, uint32_t generation, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	int r;

	/* What traffic spent of the old one up to its end belongs into the history. */
	if (left_tok(l))
		take(l, UINT64_MAX, now_ns, fx);
	r = fx->generation(fx->arg, generation, l->holding->upstream->epoch);
	if (r < 0)
		return r;
	l->generation = generation;
	generation_starts(l);
	return 0;
}

/* What the lessor lends goes to the kernel. */
static void accept(struct lg_lessee *l, const struct lg_grant *grant, uint64_t sent_ns, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	uint64_t add_tok = lg_sub_floor(grant->granted_tok, l->granted_tok), expires_ns, low_tok;

	l->granted_tok += add_tok;
	/* A lessor that is over its own time prolongs nothing, not even by the time the question was under way. */
	expires_ns = sent_ns && grant->ttl_ms ? sent_ns + lg_mul_div(grant->ttl_ms, MS, 1) : 0;
	/* Of an idle key the kernel is to announce any cost. */
	low_tok = is_idle(l) ? lg_max_u64(kept_tok(l, now_ns), 1) : sizes(l, now_ns).low_tok;
	/* No tokens are an answer too: the lessor is there, so the fallback of the rule must not begin. */
	if (!add_tok && expires_ns <= l->expires_ns && (!l->busy || low_tok == l->busy->low_water_tok))
		return;
	l->expires_ns = lg_max_u64(l->expires_ns, expires_ns);
	if (l->busy)
		l->busy->low_water_tok = low_tok;
	fx->grant(fx->arg, add_tok, l->expires_ns, low_tok, l->holding->upstream->epoch);
}

void lg_lessee_grant(struct lg_lessee *l, const struct lg_grant *grant, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	uint64_t sent_ns;

	if (!lg_asker_is_addressed(&l->asker, l->holding->upstream, grant))
		return;
	sent_ns = lg_asker_answered(&l->asker, l->holding->upstream, grant, now_ns);
	if (!lg_grant_is_answer(grant))
		return;
	if (grant->generation < l->generation)
		return;
	/* One that cannot be closed goes on; the next answer says the same again. */
	if (grant->generation > l->generation && start_generation(l, grant->generation, now_ns, fx) < 0)
		return;
	if (l->busy) {
		lg_report_ack(&l->busy->report, grant->ack_slot);
		l->busy->cap_tok = grant->cap_tok;
	}
	accept(l, grant, sent_ns, now_ns, fx);
	/* The limit was cut, and our part of it with it. */
	if (grant->cap_tok && left_tok(l) > grant->cap_tok) {
		take(l, left_tok(l) - grant->cap_tok, now_ns, fx);
		l->asker.flush = true;
	}
}

void lg_lessee_close(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx)
{
	/* Twice, for a second reading. */
	if (left_tok(l))
		take(l, UINT64_MAX, now_ns, fx);
	take(l, UINT64_MAX, now_ns, fx);
	if (l->holding->upstream->up && !is_lost(l, now_ns))
		say(l, false, now_ns, fx);
}

bool lg_lessee_is_idle(const struct lg_lessee *l, uint64_t now_ns)
{
	/* By then the lessor has counted the lease as spent: there is nothing left to tell. */
	bool moot = now_ns >= l->expires_ns + terms_of(l)->ttl_ns + terms_of(l)->grace_ns;

	return now_ns - offered_ns(l, now_ns) >= IDLE_NS && (!left_tok(l) || (moot && is_lost(l, now_ns))) && (is_told(l) || moot) &&
	       !remembers(l, now_ns);
}

size_t lg_lessee_busy_bytes(const struct lg_lessee *l)
{
	const struct busy *b = l->busy;

	if (!b)
		return 0;
	return busy_size(b->has_history) + b->report.cap * sizeof(b->report.v[0]) +
	       (b->has_history ? b->history.cap * sizeof(b->history.v[0]) : 0);
}

void lg_lessee_view(const struct lg_lessee *l, uint64_t now_ns, struct lg_lessee_view *ret)
{
	struct lg_asker_pace pace = pace_of(l);
	struct lg_lessee copy = *l;	/* averages fade with the reading */
	struct lg_sizes size;
	struct busy busy;

	if (l->busy) {
		memcpy(&busy, l->busy, offsetof(struct busy, history));
		copy.busy = &busy;
	}
	size = sizes(&copy, now_ns);
	*ret = (struct lg_lessee_view){
		.epoch = l->holding->upstream->epoch,
		.generation = l->generation,
		.left_tok = own_tok(l, now_ns),
		.expires_ns = l->expires_ns,
		.granted_tok = l->granted_tok,
		.spent_tok = l->spent_tok,
		.returned_tok = l->returned_tok,
		.demand_mtps = demand_mtps(&copy, now_ns),
		.target_tok = size.target_tok,
		.low_water_tok = size.low_tok,
		.rtt_ns = lg_asker_rtt_ns(l->holding->upstream, &pace),
		.partial = l->asker.partial,
		.status = (enum lg_grant_status)l->asker.status,
		.reason = lg_asker_reason(&l->asker, l->holding->upstream),
	};
}
