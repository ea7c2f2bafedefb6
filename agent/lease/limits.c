// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law. Of each holder i the home knows a number P_i, promised: the most of the limit it may hold until it is told more. Of a token
 * bucket there are two, of the burst and of the rate; of a window one, which covers what the holder's window still has in it. The sum of
 * P_i, and of what counts as spent (S), is never above the limit. Then
 *
 *   token bucket: holders work queues off at rates with sum <= r and keep them below bursts with sum <= B. What is known of the whole queue
 *                 needs no keeping here: burst always comes empty, so what is lent of it is as good as spent at that moment;
 *   window:       what was spent in the trailing window, by all, is at most sum P_i + S.
 *
 *   raise   P_i grows at once, by what is free, then the holder is told          shrink  the holder is told; P_i shrinks when it says so
 *   lapse   silent beyond ttl and grace: P_i goes. A bucket's is free, for it    time    S of a window leaves it
 *           comes empty; a window's is spent in the worst case: it goes to S
 *
 * Versions make this safe on any network: each limit told to a holder has a number, and only a message that knows the newest one
 * may lower P_i. A message that was overtaken, or one sent before the raise was known, cannot. A holder may give up a part of its limit
 * unasked: it says that it holds less, and runs no version again but a newer one.
 *
 * A successor knows no P_i. Each holder tells its own with its first message, and may go on with it; nobody is told more before all who
 * may hold anything have spoken or must have lapsed. Of a bucket nothing else is to be known. Of a window all that nobody owned up to
 * counts as spent at that moment, and what a holder spent under leases that lapsed is in its history.
 *
 * Division. Everybody who uses the key gets what it would use, max-min fair, with some room above the mean; what is left over goes in equal
 * parts to all of them, so that who needs more tomorrow finds it there (not of a window of many round trips). A limit is lowered only for
 * somebody who is short: who would use notably more than its limit and is due notably more. So steady traffic, however it flickers, costs
 * no message.
 */
#include "lease/limits.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lease/age.h"
#include "lease/arith.h"
#include "lease/ledger.h"
#include "lease/slots.h"

#define PARTS_FIRST 4u
#define GONE_SLOTS 512
#define RATE_TOTAL 1000u	/* thousandths */
#define SPREAD_MAX_NS 2000000000ull
#define NOTABLE 20		/* a twentieth of a limit is worth a message */

enum { TOK, RATE, KINDS };	/* burst or window; rate of a bucket */

struct part {
	uint32_t index;		/* the role's, of the holder */
	uint32_t generation;
	uint32_t version;	/* of the limit told last; 0 none yet */
	bool wants;		/* it uses the key */
	bool changed;		/* to be told */
	uint64_t incarnation;
	uint64_t life;		/* of the holder's memory of the key */
	uint64_t seq;		/* last message processed */
	uint32_t acked;		/* the version it runs, as it says */
	uint64_t expires_ns;	/* when it lapses */
	uint64_t demand_mtps;
	uint64_t want_tok;	/* window: what it would have its limit be */
	uint64_t spent_tok;	/* as it says, in this generation: for those who look at it */
	uint64_t limit[KINDS];
	uint64_t promised[KINDS];
	uint64_t target[KINDS];	/* of the last division */
	uint64_t need;		/* of the water that is being poured */
	uint64_t fill;
};

struct lg_limits {
	struct lg_lessor *lessor;
	struct part *v;		/* sorted by index */
	uint32_t n;
	uint32_t cap;
	bool window;
	bool recovering;
	uint64_t settle_ns;	/* recovering ends at the latest */
	uint64_t end_ns;	/* nothing lapses before this */
	uint64_t promised[KINDS]; /* sums */
	struct lg_slots gone;	/* window: parts that lapsed */
	const struct lg_home_effects *fx;	/* of the call in progress, or NULL */
};

/* ---- what there is ---- */

static uint64_t total(const struct lg_limits *l, int kind)
{
	if (kind == RATE)
		return l->window ? 0 : RATE_TOTAL;
	return l->lessor->terms->budget_tok;
}

static uint64_t free_of(struct lg_limits *l, int kind, uint64_t now_ns)
{
	uint64_t gone = kind == TOK && l->window ? lg_slots_sum(&l->gone, now_ns) : 0;

	if (l->recovering)
		return 0;
	return lg_sub_floor(total(l, kind), l->promised[kind] + gone);
}

static void promise(struct lg_limits *l, struct part *p, int kind, uint64_t amount)
{
	l->promised[kind] += amount - p->promised[kind];
	p->promised[kind] = amount;
}

static void note(const struct lg_limits *l, const struct part *p, enum lg_note_kind kind, uint64_t tok)
{
	if (!l->fx || !l->fx->note)
		return;
	l->fx->note(l->fx->arg, &(struct lg_note){ .kind = kind, .holder = p->index, .epoch = l->lessor->epoch, .generation = p->generation,
						    .tok = tok, .outstanding_tok = p->promised[TOK], .spent_tok = p->spent_tok });
}

/* A part ends, and with it all that was told of it. What it may still have spent of a window counts from now. */
static void begin(struct lg_limits *l, struct part *p, uint32_t generation, uint64_t now_ns)
{
	uint64_t tok = p->promised[TOK];

	if (l->window)
		lg_slots_add(&l->gone, now_ns, tok, now_ns);
	l->lessor->lapsed_tok += tok;
	for (int k = 0; k < KINDS; k++) {
		promise(l, p, k, 0);
		p->limit[k] = 0;
	}
	if (tok)
		note(l, p, LG_NOTE_LAPSE, tok);
	p->generation = generation;
	p->version = p->acked = 0;
	p->spent_tok = 0;
}

/* ---- an earlier life ---- */

static uint32_t index_at(const void *parts, uint32_t i)
{
	return ((const struct part *)parts)[i].index;
}

static void settle(struct lg_limits *l, uint64_t now_ns)
{
	const struct lg_succession *s = l->lessor->succession;

	if (!l->recovering)
		return;
	if (lg_succession_knows_all(s, l->v, l->n, index_at)) {
		l->recovering = false;
		if (l->window && lg_succession_forgot_ns(s))
			lg_slots_add(&l->gone, lg_succession_forgot_ns(s), total(l, TOK), now_ns);
	} else if (now_ns >= l->settle_ns) {
		uint64_t known_tok = l->window ? l->promised[TOK] + lg_slots_sum(&l->gone, l->settle_ns) : 0;

		l->recovering = false;
		if (l->window)
			lg_slots_add(&l->gone, l->settle_ns, lg_sub_floor(total(l, TOK), known_tok), now_ns);
	}
}

/* The first message of a holder to this life, which goes on with what an earlier one told it. */
static void adopt(struct lg_limits *l, struct part *p, const struct lg_ask *ask, uint64_t now_ns)
{
	const struct lg_succession *s = l->lessor->succession;

	if (!l->recovering || !lg_succession_is_listed(s, p->index) || lg_succession_is_synced(s, p->index))
		return;
	for (size_t i = 0; l->window && i < ask->n_history; i++)
		lg_slots_add(&l->gone, lg_age_end_ns(ask->history[i].age_ms, now_ns), ask->history[i].tok, now_ns);
	if (ask->generation == 0 || ask->kind != LG_LEASE_LIMIT)
		return;
	p->generation = ask->generation;
	p->version = ask->limit_version;
	p->limit[TOK] = ask->held_tok;
	p->limit[RATE] = l->window ? 0 : ask->held_permille;
	for (int k = 0; k < KINDS; k++)
		promise(l, p, k, p->limit[k]);
}

/* ---- messages ---- */

/* 1 new, 0 found. What a new one's message tells of is a generation that nobody here knows, unless it is adopted. */
static int open_part(struct lg_limits *l, uint32_t index, uint64_t incarnation, uint32_t generation, struct part **ret_part)
{
	uint32_t i = lg_lower_bound(l->v, l->n, index, index_at);

	if (i < l->n && l->v[i].index == index) {
		*ret_part = &l->v[i];
		return 0;
	}
	if (index >= LG_HOLDERS_MAX)
		return -EINVAL;
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : PARTS_FIRST;
		struct part *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	memmove(&l->v[i + 1], &l->v[i], (l->n - i) * sizeof(*l->v));
	l->v[i] = (struct part){ .index = index, .incarnation = incarnation, .generation = generation + 1 };
	l->n++;
	*ret_part = &l->v[i];
	return 1;
}

static bool is_sane(const struct lg_ask *ask)
{
	return lg_ask_is_sane(ask) && ask->held_tok <= LG_BURST_MAX_TOK && ask->held_permille <= RATE_TOTAL;
}

/* What it says to hold. Only who knows the newest version can hold less for good. If that is less than the limit it gave it up, and all
 * of it, unless it is told anew. */
static void acknowledge(struct lg_limits *l, struct part *p, const struct lg_ask *ask)
{
	uint64_t held[KINDS] = { ask->held_tok, l->window ? 0 : ask->held_permille }, was_tok = p->promised[TOK];

	p->acked = ask->limit_version;
	for (int k = 0; k < KINDS; k++) {
		if (p->acked != p->version) {
			promise(l, p, k, lg_max_u64(p->promised[k], held[k]));
			continue;
		}
		promise(l, p, k, held[k]);
		if (held[k] < p->limit[k])
			p->limit[k] = 0;
	}
	if (p->promised[TOK] < was_tok)
		note(l, p, LG_NOTE_RETURN, was_tok - p->promised[TOK]);
}

static void hear_spent(struct lg_limits *l, struct part *p, uint64_t spent_tok)
{
	uint64_t new_tok = lg_sub_floor(spent_tok, p->spent_tok);

	p->spent_tok += new_tok;
	if (new_tok)
		note(l, p, LG_NOTE_REPORT, new_tok);
}

/* Whether it is news. Of an earlier life of the holder: -ESTALE. */
static int hear(struct lg_limits *l, struct part *p, uint64_t incarnation, const struct lg_ask *ask, uint64_t now_ns)
{
	if (incarnation < p->incarnation)
		return -ESTALE;
	if (incarnation == p->incarnation && ask->seq <= p->seq)
		return 0;
	if (incarnation > p->incarnation) {
		p->incarnation = incarnation;
		begin(l, p, (uint32_t)lg_max_u64(p->generation, ask->generation) + 1, now_ns);
	} else if (ask->generation > p->generation) {
		begin(l, p, ask->generation + 1, now_ns);
	} else if (ask->generation == 0 && ask->life != p->life && p->version) {
		begin(l, p, p->generation + 1, now_ns);	/* it has forgotten this lease */
	} else if (ask->generation == p->generation && ask->kind == LG_LEASE_LIMIT) {
		acknowledge(l, p, ask);
		hear_spent(l, p, ask->spent_tok);
	}
	p->life = ask->life;
	p->seq = ask->seq;
	p->expires_ns = lg_max_u64(p->expires_ns, now_ns + l->lessor->terms->ttl_ns + l->lessor->terms->grace_ns);
	l->end_ns = lg_min_u64(l->end_ns, p->expires_ns);
	p->demand_mtps = ask->demand_mtps;
	p->want_tok = lg_min_u64(ask->want_tok, LG_BURST_MAX_TOK);
	p->wants = ask->request && (ask->want_tok || ask->demand_mtps);
	return 1;
}

static void expire(struct lg_limits *l, uint64_t now_ns)
{
	if (now_ns < l->end_ns)
		return;
	l->end_ns = UINT64_MAX;
	for (uint32_t i = 0; i < l->n; i++) {
		struct part *p = &l->v[i];

		if (!p->promised[TOK] && !p->promised[RATE] && !p->wants)
			continue;
		if (now_ns < p->expires_ns) {
			l->end_ns = lg_min_u64(l->end_ns, p->expires_ns);
			continue;
		}
		if (p->promised[TOK] || p->promised[RATE])
			begin(l, p, p->generation + 1, now_ns);
		p->wants = false;
		p->demand_mtps = 0;
	}
}

/* What each message and each tick begins with: time passes. Nothing else ends a lease, for nothing else can tell of it. */
static void advance(struct lg_limits *l, uint64_t now_ns)
{
	settle(l, now_ns);
	expire(l, now_ns);
}

/* ---- division ---- */

/* Max-min: nobody gets more than it needs, nobody less than another who needs more; the odd ones go to the first. Returns the rest. */
static uint64_t pour(struct lg_limits *l, uint64_t amount)
{
	uint32_t n_short = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		l->v[i].fill = 0;
		n_short += l->v[i].need > 0;
	}
	while (n_short) {
		uint64_t each = amount / n_short;
		uint32_t n_filled = 0;

		for (uint32_t i = 0; i < l->n; i++) {
			struct part *p = &l->v[i];

			if (!p->fill && p->need && p->need <= each) {
				p->fill = p->need;
				amount -= p->need;
				n_filled++;
			}
		}
		if (!n_filled)
			break;
		n_short -= n_filled;
	}
	for (uint32_t i = 0; n_short && i < l->n; i++) {
		struct part *p = &l->v[i];

		if (p->fill || !p->need)
			continue;
		p->fill = amount / n_short + (amount % n_short != 0);
		amount -= p->fill;
		n_short--;
	}
	return amount;
}

/* What it would use of a window, or of the rate: its mean and a little more, for traffic is never even. Of a long window only what it says
 * to want for now: it takes a while to fill it. */
static uint64_t use_of(const struct lg_limits *l, const struct part *p)
{
	const struct lg_terms *t = l->lessor->terms;
	double mean = (double)p->demand_mtps * (double)t->per_ns / 1e12;	/* per_ns */
	double use = 1.1 * mean + 2 * sqrt(mean) + 2;

	if (!p->wants)
		return 0;
	if (l->window)
		return (uint64_t)fmin(use, (double)p->want_tok);
	return (uint64_t)fmin(1.2 * mean / (double)t->limit_tok * RATE_TOTAL + 1, RATE_TOTAL);
}

/* Equal parts of what is left over, to all who use the key. */
static void spread(struct lg_limits *l, int kind, uint64_t amount)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += l->v[i].wants;
	for (uint32_t i = 0; n && i < l->n; i++) {
		uint64_t each = amount / n + (amount % n != 0);

		if (!l->v[i].wants)
			continue;
		l->v[i].target[kind] += each;
		amount -= each;
		n--;
	}
}

static void target_of(struct lg_limits *l, int kind)
{
	uint64_t rest;

	for (uint32_t i = 0; i < l->n; i++)
		l->v[i].need = use_of(l, &l->v[i]);
	rest = pour(l, total(l, kind));
	for (uint32_t i = 0; i < l->n; i++)
		l->v[i].target[kind] = l->v[i].fill;
	/* What is left of a longer window is told in time to who needs it: it is better kept for that than spread. */
	if (!l->window || l->lessor->terms->per_ns <= SPREAD_MAX_NS)
		spread(l, kind, rest);
}

/* Burst follows the rate; one token at least where there is one. */
static void target_burst(struct lg_limits *l)
{
	uint64_t left = total(l, TOK);

	for (uint32_t i = 0; i < l->n; i++) {
		struct part *p = &l->v[i];

		p->target[TOK] = lg_mul_div(total(l, TOK), p->target[RATE], RATE_TOTAL);
		left -= p->target[TOK];
	}
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < l->n && left; i++) {
			struct part *p = &l->v[i];

			if (!p->target[RATE] || (round == 0 && p->target[TOK]))
				continue;
			p->target[TOK]++;
			left--;
		}
}

static void set_targets(struct lg_limits *l)
{
	target_of(l, l->window ? TOK : RATE);
	if (!l->window)
		target_burst(l);
}

static bool is_notable(uint64_t from, uint64_t to)
{
	return to > from && to - from >= lg_max_u64(from / NOTABLE, 1);
}

/* Its lease goes on, which a push does not prolong. */
static bool takes_part(const struct lg_limits *l, const struct part *p, uint64_t now_ns)
{
	return p->wants && now_ns + l->lessor->terms->grace_ns < p->expires_ns;
}

/* It would use notably more than it has, and is due notably more. */
static bool is_short(const struct lg_limits *l, const struct part *p, uint64_t now_ns)
{
	int kind = l->window ? TOK : RATE;

	if (!takes_part(l, p, now_ns))
		return false;
	return is_notable(p->limit[kind], lg_min_u64(p->target[kind], use_of(l, p))) ||
	       (!l->window && p->limit[TOK] < (p->target[TOK] + 1) / 2);
}

/* Whoever has more than is due to it gives up the difference, if that is what it takes. */
static void shrink(struct lg_limits *l, uint64_t now_ns)
{
	bool missing = false;

	for (int k = 0; k < KINDS; k++) {
		uint64_t need = 0, coming = 0, limits = 0;

		for (uint32_t i = 0; i < l->n; i++) {
			const struct part *p = &l->v[i];

			limits += p->limit[k];
			if (is_short(l, p, now_ns))
				need += lg_sub_floor(p->target[k], p->promised[k]);
			else if (p->acked != p->version)
				coming += p->promised[k] - p->limit[k];
		}
		missing |= need > free_of(l, k, now_ns) + coming || limits > total(l, k);
	}
	for (uint32_t i = 0; missing && i < l->n; i++)
		for (int k = 0; k < KINDS; k++) {
			struct part *p = &l->v[i];

			if (p->limit[k] <= p->target[k])
				continue;
			p->limit[k] = p->target[k];
			p->changed = true;
		}
}

/* What is free goes to those who are short; `asked`, who is answered anyway, need not be. */
static void raise(struct lg_limits *l, int kind, const struct part *asked, uint64_t now_ns)
{
	for (uint32_t i = 0; i < l->n; i++) {
		struct part *p = &l->v[i];
		bool due = is_short(l, p, now_ns) || (p == asked && takes_part(l, p, now_ns));

		p->need = due ? lg_sub_floor(p->target[kind], p->promised[kind]) : 0;
		/* What it has not yet said to have given up is still its own. */
		p->fill = 0;
		if (!due || p->limit[kind] >= lg_min_u64(p->target[kind], p->promised[kind]))
			continue;
		p->limit[kind] = lg_min_u64(p->target[kind], p->promised[kind]);
		p->changed = true;
	}
	pour(l, free_of(l, kind, now_ns));
	for (uint32_t i = 0; i < l->n; i++) {
		struct part *p = &l->v[i];
		uint64_t limit = p->promised[kind] + p->fill;

		if (!p->fill || (p != asked && p->fill < p->need && !is_notable(p->limit[kind], limit)))
			continue;
		l->lessor->granted_tok += kind == TOK ? p->fill : 0;
		p->limit[kind] = limit;
		promise(l, p, kind, limit);
		p->changed = true;
	}
}

static void answer(const struct lg_limits *l, const struct part *p)
{
	const struct lg_terms *t = l->lessor->terms;
	struct lg_grant grant = {
		.ack_seq = p->seq,
		.epoch = l->lessor->epoch,
		.generation = p->generation,
		.ttl_ms = t->ttl_ns / 1000000,
		.cap_tok = t->budget_tok,
		.kind = LG_LEASE_LIMIT,
		.limit_version = p->version,
		.limit_tok = p->limit[TOK],
		.limit_permille = (uint32_t)p->limit[RATE],
		.status = l->recovering ? LG_GRANT_RECOVERING : LG_GRANT_OK,
	};

	l->fx->grant(l->fx->arg, p->index, &grant);
}

/* Cuts the limit anew; tells those whose part changed, and `asked` in any case. Whether time alone may bring somebody more. */
static bool divide(struct lg_limits *l, struct part *asked, uint64_t now_ns)
{
	bool waits = false;

	if (!l->recovering) {
		set_targets(l);
		shrink(l, now_ns);
		for (int k = 0; k < KINDS; k++)
			raise(l, k, asked, now_ns);
	}
	for (uint32_t i = 0; i < l->n; i++) {
		struct part *p = &l->v[i];

		waits |= is_short(l, p, now_ns);
		if (!p->changed && p != asked)
			continue;
		p->version += p->changed;
		if (p->changed)
			note(l, p, LG_NOTE_GRANT, p->limit[TOK]);
		p->changed = false;
		answer(l, p);
	}
	return waits && l->window && lg_slots_sum(&l->gone, now_ns);
}

/* ---- the interface ---- */

int lg_limits_new(struct lg_lessor *lessor, uint64_t now_ns, struct lg_limits **ret_limits)
{
	_cleanup_(lg_limits_free) struct lg_limits *l = calloc(1, sizeof(*l));
	const struct lg_terms *t = lessor->terms;

	if (!l)
		return -ENOMEM;
	l->lessor = lessor;
	l->window = t->algorithm != LG_TOKEN_BUCKET;
	l->end_ns = UINT64_MAX;
	if (l->window && lg_slots_init(&l->gone, t->per_ns, t->slot_ns, GONE_SLOTS) < 0)
		return -ENOMEM;
	if (lessor->succession) {
		l->recovering = true;
		l->settle_ns = lg_succession_since_ns(lessor->succession) + t->ttl_ns + t->grace_ns;
	}
	settle(l, now_ns);
	*ret_limits = TAKE(l);
	return 0;
}

struct lg_limits *lg_limits_free(struct lg_limits *l)
{
	if (!l)
		return NULL;
	lg_slots_fini(&l->gone);
	free(l->v);
	free(l);
	return NULL;
}

void lg_limits_terms(struct lg_limits *l, const struct lg_terms *terms, uint64_t now_ns)
{
	settle(l, now_ns);
	if (l->window)
		lg_slots_reshape(&l->gone, terms->per_ns, terms->slot_ns, GONE_SLOTS, now_ns);
}

static void refuse(const struct lg_limits *l, uint32_t holder, const struct lg_ask *ask)
{
	struct lg_grant grant = { .ack_seq = ask->seq, .epoch = l->lessor->epoch, .status = LG_GRANT_OVERLOADED };

	l->fx->grant(l->fx->arg, holder, &grant);
	if (l->fx->note)
		l->fx->note(l->fx->arg, &(struct lg_note){ .kind = LG_NOTE_REFUSE, .holder = holder, .epoch = grant.epoch,
							    .generation = ask->generation, .status = grant.status });
}

static void ask_part(struct lg_limits *l, uint32_t holder, uint64_t incarnation, const struct lg_ask *ask, uint64_t now_ns)
{
	struct part *p;
	int r;

	advance(l, now_ns);
	r = open_part(l, holder, incarnation, ask->generation, &p);
	if (r < 0) {
		refuse(l, holder, ask);
		return;
	}
	if (r)
		adopt(l, p, ask, now_ns);
	if (hear(l, p, incarnation, ask, now_ns) < 0)
		return;
	settle(l, now_ns);
	divide(l, p, now_ns);
}

void lg_limits_ask(struct lg_limits *l, uint32_t holder, uint64_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		   const struct lg_home_effects *fx)
{
	if (ask->epoch != l->lessor->epoch || !is_sane(ask))
		return;
	l->fx = fx;
	ask_part(l, holder, incarnation, ask, now_ns);
	l->fx = NULL;
}

uint64_t lg_limits_tick(struct lg_limits *l, uint64_t now_ns, const struct lg_home_effects *fx)
{
	bool waits;

	l->fx = fx;
	advance(l, now_ns);
	waits = divide(l, NULL, now_ns);
	l->fx = NULL;
	return waits || l->recovering ? now_ns + l->lessor->terms->home_tick_ns : l->end_ns;
}

void lg_limits_count_full(struct lg_limits *l, uint64_t now_ns)
{
	if (l->window)
		lg_slots_add(&l->gone, now_ns, total(l, TOK), now_ns);
}

bool lg_limits_is_idle(struct lg_limits *l, uint64_t now_ns)
{
	settle(l, now_ns);
	for (uint32_t i = 0; i < l->n; i++)
		if (l->v[i].wants)
			return false;
	return !l->recovering && !l->promised[TOK] && !l->promised[RATE] && (!l->window || !lg_slots_sum(&l->gone, now_ns));
}

void lg_limits_view(struct lg_limits *l, uint64_t now_ns, struct lg_home_view *ret)
{
	uint64_t gone_tok;

	settle(l, now_ns);
	gone_tok = l->window ? lg_slots_sum(&l->gone, now_ns) : 0;
	*ret = (struct lg_home_view){
		.budget_tok = total(l, TOK),
		.pool_tok = free_of(l, TOK, now_ns),
		.outstanding_tok = l->promised[TOK],
		.consumed_tok = gone_tok,
		.unknown_tok = l->recovering ? lg_sub_floor(total(l, TOK), l->promised[TOK] + gone_tok) : 0,
		.n_holders = l->n,
	};
}

uint64_t lg_limits_outstanding_tok(const struct lg_limits *l)
{
	return l->promised[TOK];
}

uint32_t lg_limits_n_holders(const struct lg_limits *l)
{
	return l->n;
}

bool lg_limits_is_recovering(const struct lg_limits *l)
{
	return l->recovering;
}

size_t lg_limits_bytes(const struct lg_limits *l)
{
	return sizeof(*l) + l->cap * sizeof(*l->v) + lg_slots_bytes(&l->gone);
}

int lg_limits_holder(const struct lg_limits *l, uint32_t holder, struct lg_holder_view *ret)
{
	uint32_t i = lg_lower_bound(l->v, l->n, holder, index_at);
	const struct part *p = &l->v[i];

	if (i == l->n || p->index != holder)
		return -ENOENT;
	*ret = (struct lg_holder_view){
		.generation = p->generation,
		.granted_tok = p->limit[TOK] + p->spent_tok,
		.spent_tok = p->spent_tok,
		.expires_ns = p->expires_ns,
		.demand_mtps = p->demand_mtps,
		.want_tok = use_of(l, p),
	};
	return 0;
}
