// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/ledger.h"

#include <errno.h>
#include <string.h>

#include "base/pool.h"
#include "lease/arith.h"

#define MS 1000000ull
#define GROW_BY_ONE_MAX 8u
#define DIVIDE_PASSES_MAX 64
#define TELL_SLICE_NS (100 * MS)
#define TOTAL_MAX (1ull << 62)
#define DEMAND_MAX_MTPS (1ull << 50)
#define FEW_PER_HOST 8ull	/* fewer tokens are too few to divide */
#define WEIGHT_MAX 255u
#define ENDS_MAX_MS ((1ull << 23) - 1)

void lg_ledger_init(struct lg_ledger *l)
{
	*l = (struct lg_ledger){ .end_ns = UINT64_MAX };
}

void lg_ledger_fini(struct lg_ledger *l)
{
	lg_pool_put(l->v, lg_ledger_bytes(l));
	l->v = NULL;
	l->n = l->cap = 0;
}

size_t lg_ledger_bytes(const struct lg_ledger *l)
{
	return l->cap * sizeof(*l->v);
}

/* The sums are kept, not counted: with a holder out of them its account may be changed, then it goes back in. */
static void sums_without(struct lg_ledger *l, const struct lg_holder *h)
{
	l->outstanding_tok -= h->outstanding_tok;
	l->want_tok -= h->want_tok;
	l->n_short -= h->want_tok > h->outstanding_tok;
	l->demand_mtps -= (uint64_t)h->demand_mtps;
}

static void sums_with(struct lg_ledger *l, const struct lg_holder *h)
{
	l->outstanding_tok += h->outstanding_tok;
	l->want_tok += h->want_tok;
	l->n_short += h->want_tok > h->outstanding_tok;
	l->demand_mtps += (uint64_t)h->demand_mtps;
}

static uint32_t index_at(const void *accounts, uint32_t i)
{
	return ((const struct lg_holder *)accounts)[i].index;
}

static uint32_t lower_bound(const struct lg_ledger *l, uint32_t index)
{
	return lg_lower_bound(l->v, l->n, index, index_at);
}

struct lg_holder *lg_ledger_find(const struct lg_ledger *l, uint32_t index)
{
	uint32_t i = lower_bound(l, index);

	return i < l->n && l->v[i].index == index ? &l->v[i] : NULL;
}

/* A few accounts take what they need, as most keys have only a few; more of them grow by a quarter. */
static int grow(struct lg_ledger *l)
{
	uint32_t cap = l->n < GROW_BY_ONE_MAX ? l->n + 1u : l->n + l->n / 4u;
	struct lg_holder *v;

	cap = cap < LG_HOLDERS_MAX ? cap : LG_HOLDERS_MAX;
	v = lg_pool_get(cap * sizeof(*v));
	if (!v)
		return -ENOMEM;
	if (l->n)
		memcpy(v, l->v, l->n * sizeof(*v));
	lg_pool_put(l->v, lg_ledger_bytes(l));
	l->v = v;
	l->cap = cap;
	return 0;
}

int lg_ledger_open(struct lg_ledger *l, uint32_t index, uint32_t incarnation, uint32_t generation, struct lg_holder **ret_holder)
{
	uint32_t i = lower_bound(l, index);

	if (i < l->n && l->v[i].index == index) {
		*ret_holder = &l->v[i];
		return 0;
	}
	if (index >= LG_HOLDERS_MAX)
		return -EINVAL;
	if (l->n == l->cap && grow(l) < 0)
		return -ENOMEM;
	memmove(&l->v[i + 1], &l->v[i], (l->n - i) * sizeof(*l->v));
	l->v[i] = (struct lg_holder){ .index = index, .incarnation = incarnation, .generation = generation + 1 };
	l->n++;
	*ret_holder = &l->v[i];
	return 1;
}

static uint32_t slot_of(uint64_t id)
{
	return (uint32_t)lg_min_u64(id, UINT32_MAX);
}

static uint32_t last_slot(const struct lg_holder *h, const struct lg_ask *ask)
{
	uint32_t last = h->slot;

	for (size_t i = 0; i < ask->n_slots; i++)
		if (slot_of(ask->slots[i].id) > last)
			last = slot_of(ask->slots[i].id);
	return last;
}

void lg_ledger_adopt(struct lg_ledger *l, struct lg_holder *h, const struct lg_ask *ask)
{
	if (ask->generation == 0)
		return;
	sums_without(l, h);
	h->generation = ask->generation;
	h->granted_tok = ask->granted_tok;
	h->spent_tok = ask->spent_tok;
	h->outstanding_tok = ask->granted_tok - ask->spent_tok - ask->returned_tok;
	sums_with(l, h);
}

/* A lease of generation `generation` begins, empty. Returns what was outstanding of the old one. */
static uint64_t begin(struct lg_holder *h, uint32_t generation)
{
	uint64_t tok = h->outstanding_tok;

	h->generation = generation;
	h->granted_tok = h->spent_tok = 0;
	h->outstanding_tok = 0;
	h->untold = 0;
	return tok;
}

static void add_part(struct lg_news *news, uint64_t tok, uint64_t age_ms)
{
	news->parts[news->n_parts].tok = tok;
	news->parts[news->n_parts].age_ms = age_ms;
	news->n_parts++;
	news->spent_tok += tok;
}

/*
 * The total says how much was spent, the slots say when. Where they tell of more than the total grew by (slots that were merged after
 * one of them had been booked), the youngest count: booked late, never early. What no slot tells of counts as spent now.
 */
static void split(struct lg_holder *h, const struct lg_ask *ask, uint64_t new_tok, struct lg_news *news)
{
	bool used[LG_SLOTS_MAX];
	size_t n = new_tok ? ask->n_slots : 0;

	memset(used, 0, n * sizeof(used[0]));
	for (size_t round = 0; round < n && new_tok; round++) {
		const struct lg_slot *young = NULL;

		for (size_t i = n; i-- > 0;)
			if (!used[i] && slot_of(ask->slots[i].id) > h->slot && (!young || ask->slots[i].age_ms < young->age_ms))
				young = &ask->slots[i];
		if (!young)
			break;
		used[young - ask->slots] = true;
		if (young->tok == 0)
			continue;
		add_part(news, lg_min_u64(young->tok, new_tok), young->age_ms);
		new_tok -= lg_min_u64(young->tok, new_tok);
	}
	if (new_tok)
		add_part(news, new_tok, 0);
	h->slot = last_slot(h, ask);
}

/* Totals only grow; what is said beyond what was granted is not believed. */
static void book(struct lg_holder *h, const struct lg_ask *ask, struct lg_news *news)
{
	uint64_t returned_tok = lg_holder_returned_tok(h);
	uint64_t spent_tok = lg_min_u64(ask->spent_tok, h->granted_tok - returned_tok);
	uint64_t new_tok = lg_sub_floor(spent_tok, h->spent_tok);

	split(h, ask, new_tok, news);
	h->spent_tok += new_tok;
	news->returned_tok = lg_sub_floor(lg_min_u64(ask->returned_tok, h->granted_tok - h->spent_tok), returned_tok);
	h->outstanding_tok -= new_tok + news->returned_tok;
}

/* A message of another memory of the key, whose numbers of slots begin anew. */
static bool is_new_life(const struct lg_holder *h, const struct lg_ask *ask)
{
	return ask->life > h->seq;
}

static void lease_of(struct lg_holder *h, uint32_t incarnation, const struct lg_ask *ask, struct lg_news *news)
{
	news->lapsed_generation = h->generation;
	if (incarnation != h->incarnation || is_new_life(h, ask))
		h->slot = 0;
	if (incarnation != h->incarnation) {
		h->incarnation = incarnation;
		news->lapsed_tok = begin(h, (uint32_t)lg_max_u64(h->generation, ask->generation) + 1);
	} else if (ask->generation > h->generation) {
		news->lapsed_tok = begin(h, ask->generation + 1);
	} else if (ask->generation == 0 && is_new_life(h, ask) && h->granted_tok) {
		/* It has forgotten this lease: its totals would be news to it. (One that only has not heard of it yet is told again.) */
		news->lapsed_tok = begin(h, h->generation + 1);
	} else if (ask->generation == h->generation) {
		book(h, ask, news);
	}
}

/* The time of the last message moves on, the end of the lease stays: counted in whole milliseconds, a little later at most. */
static void set_asked(struct lg_holder *h, uint64_t now_ns)
{
	h->ends_ms = (lg_sub_floor(lg_holder_expires_ns(h), now_ns) + MS - 1) / MS;
	h->asked_ns = now_ns;
}

enum lg_ledger_outcome lg_ledger_ask(struct lg_ledger *l, struct lg_holder *h, uint32_t incarnation, const struct lg_ask *ask,
				     uint64_t now_ns, struct lg_news *ret_news)
{
	ret_news->lapsed_tok = ret_news->spent_tok = ret_news->returned_tok = 0;
	ret_news->n_parts = 0;
	if (incarnation < h->incarnation)
		return LG_LEDGER_STALE;
	if (incarnation == h->incarnation && ask->seq <= h->seq)
		return LG_LEDGER_REPEATED;
	sums_without(l, h);
	lease_of(h, incarnation, ask, ret_news);
	h->seq = ask->seq;
	set_asked(h, now_ns);
	h->want_tok = ask->request ? lg_min_u64(ask->want_tok, LG_BURST_MAX_TOK) : 0;
	h->demand_mtps = (float)ask->demand_mtps;
	h->weight = lg_min_u64(ask->hosts, WEIGHT_MAX);
	sums_with(l, h);
	return LG_LEDGER_BOOKED;
}

/* The vessel's width. */
static uint64_t weight(const struct lg_holder *h)
{
	return h->weight ? h->weight : 1;
}

uint32_t lg_ledger_hosts(const struct lg_ledger *l, const struct lg_terms *terms)
{
	uint64_t n = 0;

	if (terms->budget_tok < FEW_PER_HOST * terms->hosts)
		return 1;
	for (uint32_t i = 0; i < l->n; i++)
		n += weight(&l->v[i]);
	return (uint32_t)n;
}

uint64_t lg_ledger_void(struct lg_ledger *l, struct lg_holder *h)
{
	uint64_t tok;

	sums_without(l, h);
	tok = begin(h, h->generation + 1);
	sums_with(l, h);
	return tok;
}

uint64_t lg_ledger_lapse(struct lg_ledger *l, struct lg_holder *h)
{
	uint64_t tok = h->outstanding_tok;

	sums_without(l, h);
	if (tok)
		begin(h, h->generation + 1);
	h->want_tok = 0;
	h->demand_mtps = 0;
	sums_with(l, h);
	return tok;
}

void lg_ledger_expire(struct lg_ledger *l, uint64_t now_ns, void (*lapsed)(void *arg, struct lg_holder *h, uint64_t tok), void *arg)
{
	if (now_ns < l->end_ns)
		return;
	l->end_ns = UINT64_MAX;
	for (uint32_t i = 0; i < l->n; i++) {
		struct lg_holder *h = &l->v[i];

		if (!h->outstanding_tok && !h->want_tok && !(h->demand_mtps > 0))
			continue;
		if (now_ns >= lg_holder_expires_ns(h)) {
			uint64_t tok = lg_ledger_lapse(l, h);

			if (tok)
				lapsed(arg, h, tok);
		} else {
			l->end_ns = lg_min_u64(l->end_ns, lg_holder_expires_ns(h));
		}
	}
}

struct division {
	const struct lg_ledger *l;
	const uint64_t *most_tok;
	uint64_t after_ns;	/* only leases that end later take part: a push does not prolong them */
};

/* What the i-th may be given. */
static uint64_t room_tok(const struct division *d, uint32_t i)
{
	const struct lg_holder *h = &d->l->v[i];
	uint64_t want_tok = h->want_tok;

	if (d->most_tok)
		want_tok = lg_min_u64(want_tok, d->most_tok[i]);
	if (want_tok <= h->outstanding_tok || d->after_ns >= lg_holder_expires_ns(h))
		return 0;
	return want_tok - h->outstanding_tok;
}

struct water {
	uint64_t level_tok;	/* per unit of width; UINT64_MAX: all are full */
	uint64_t odd_tok;	/* above it */
	uint64_t width;		/* of those it does not fill */
};

/*
 * Fills the holders like vessels of different height and width under one tap: as long as an equal part of the rest, by width, would overfill
 * someone, those are filled to the brim and drop out. Each pass drops at least one; few are needed.
 */
static struct water pour(const struct division *d, uint64_t free_tok)
{
	struct water w = { 0 };
	uint64_t left_tok = free_tok;

	for (uint32_t i = 0; i < d->l->n; i++)
		w.width += weight(&d->l->v[i]);
	for (int pass = 0; w.width && pass < DIVIDE_PASSES_MAX; pass++) {
		uint64_t below_tok = 0, over_width = 0;

		w.level_tok = left_tok / w.width;
		for (uint32_t i = 0; i < d->l->n; i++) {
			uint64_t room = room_tok(d, i), width = weight(&d->l->v[i]);

			if (room > w.level_tok * width)
				over_width += width;
			else
				below_tok += room;
		}
		left_tok = free_tok - below_tok;
		w.odd_tok = left_tok - w.level_tok * over_width;
		if (over_width == 0)
			w.level_tok = UINT64_MAX;
		if (over_width == 0 || over_width == w.width)
			break;
		w.width = over_width;
	}
	return w;
}

/* Who is served first: who asks for most, or still the one before if that is not twice as much. NULL: nobody can be. */
static struct lg_holder *owner_of(struct lg_ledger *l, const struct division *d)
{
	struct lg_holder *most = NULL, *old = NULL;

	for (uint32_t i = 0; i < l->n; i++) {
		struct lg_holder *h = &l->v[i];

		if (h->owner)
			old = h;
		if (h->demand_mtps > 0 && d->after_ns < lg_holder_expires_ns(h) && (!most || h->demand_mtps > most->demand_mtps))
			most = h;
	}
	if (!most)
		return NULL;
	if (old && old->demand_mtps > 0 && d->after_ns < lg_holder_expires_ns(old) && most->demand_mtps < 2 * old->demand_mtps)
		return old;
	if (old)
		old->owner = 0;
	most->owner = 1;
	return most;
}

struct giving {
	void (*given)(void *arg, struct lg_holder *h, uint64_t tok);
	void *arg;
	uint64_t tok;		/* all together */
};

static void give(struct lg_ledger *l, struct lg_holder *h, uint64_t tok, struct giving *g)
{
	if (!tok)
		return;
	lg_ledger_give(l, h, tok);
	g->tok += tok;
	if (g->given)
		g->given(g->arg, h, tok);
}

static void give_level(struct lg_ledger *l, struct lg_lessor *lessor, const struct division *d, uint64_t free_tok, struct giving *g)
{
	struct water w = pour(d, free_tok);
	uint64_t last_tok = w.odd_tok;
	uint32_t start = 0;

	if (w.level_tok != UINT64_MAX && w.odd_tok)
		start = (uint32_t)(lg_rand_next(&lessor->rand) % l->n);
	for (uint32_t i = 0; i < l->n && w.level_tok != UINT64_MAX; i++)
		if (room_tok(d, i) > w.level_tok * weight(&l->v[i]))
			last_tok -= w.odd_tok * weight(&l->v[i]) / w.width;
	for (uint32_t k = 0, i = start; k < l->n; k++, i = i + 1 < l->n ? i + 1 : 0) {
		uint64_t width = weight(&l->v[i]), room = room_tok(d, i), tok = room;

		if (w.level_tok != UINT64_MAX && room > w.level_tok * width) {
			tok = w.level_tok * width + w.odd_tok * width / w.width;
			if (last_tok && tok < room) {
				tok++;
				last_tok--;
			}
		}
		give(l, &l->v[i], tok, g);
	}
}

uint64_t lg_ledger_divide(struct lg_ledger *l, struct lg_lessor *lessor, uint64_t free_tok, const uint64_t *most_tok, uint64_t now_ns,
			  void (*given)(void *arg, struct lg_holder *h, uint64_t tok), void *arg)
{
	struct division d = { .l = l, .most_tok = most_tok, .after_ns = now_ns + lessor->terms->grace_ns };
	struct giving g = { .given = given, .arg = arg };
	struct lg_holder *owner;

	if (!free_tok || !l->n_short)
		return 0;
	owner = lessor->terms->owner ? owner_of(l, &d) : NULL;
	if (owner)
		give(l, owner, lg_min_u64(free_tok, room_tok(&d, (uint32_t)(owner - l->v))), &g);
	if (free_tok > g.tok && l->n_short)
		give_level(l, lessor, &d, free_tok - g.tok, &g);
	return g.tok;
}

uint64_t lg_ledger_level_tok(const struct lg_ledger *l, uint64_t tok)
{
	uint64_t level = 0, left = tok;
	uint32_t n_over = l->n;

	while (n_over && left / n_over > level) {
		uint64_t below = 0;

		level = left / n_over;
		n_over = 0;
		for (uint32_t i = 0; i < l->n; i++) {
			n_over += l->v[i].want_tok > level;
			below += l->v[i].want_tok > level ? 0 : l->v[i].want_tok;
		}
		left = lg_sub_floor(tok, below);
	}
	return level + 1;
}

bool lg_ledger_serves_alone(const struct lg_ledger *l, const struct lg_lessor *lessor, const struct lg_holder *h, uint64_t free_tok)
{
	uint64_t unmet_tok = lg_holder_unmet_tok(h);

	if (l->n <= LG_LEDGER_FEW || lessor->terms->owner)
		return l->n_short == (unmet_tok > 0) && unmet_tok <= free_tok;
	return unmet_tok * l->n_short <= free_tok;
}

void lg_ledger_give(struct lg_ledger *l, struct lg_holder *h, uint64_t tok)
{
	if (!tok)
		return;
	sums_without(l, h);
	h->granted_tok += tok;
	h->outstanding_tok += tok;
	h->untold = l->untold = 1;
	sums_with(l, h);
}

void lg_ledger_tell(struct lg_ledger *l, uint32_t n, void (*tell)(void *arg, struct lg_holder *h), void *arg)
{
	uint32_t i = l->next < l->n ? l->next : 0;

	if (!l->untold)
		return;
	for (uint32_t k = 0; k < l->n && n; k++, i = i + 1 < l->n ? i + 1 : 0) {
		if (!l->v[i].untold)
			continue;
		tell(arg, &l->v[i]);
		n--;
	}
	l->next = i;
	l->untold = n == 0;
}

uint32_t lg_ledger_tell_max(const struct lg_ledger *l, uint64_t tick_ns)
{
	uint64_t slice = lg_max_u64(16, l->n / 50);

	if (l->n <= LG_LEDGER_FEW)
		return l->n;
	return (uint32_t)lg_max_u64(slice * lg_min_u64(tick_ns, TELL_SLICE_NS) / TELL_SLICE_NS, 1);
}

void lg_ledger_prolong(struct lg_ledger *l, struct lg_holder *h, uint64_t ttl_ns, uint64_t grace_ns)
{
	uint64_t ends_ms = lg_min_u64((lg_add_cap(ttl_ns, grace_ns) + MS - 1) / MS, ENDS_MAX_MS);

	if (ends_ms > h->ends_ms)
		h->ends_ms = ends_ms;
	l->end_ns = lg_min_u64(l->end_ns, lg_holder_expires_ns(h));
}

void lg_ledger_grant(struct lg_ledger *l, const struct lg_lessor *lessor, struct lg_holder *h, uint64_t ttl_ns,
		     struct lg_grant *ret_grant)
{
	*ret_grant = (struct lg_grant){
		.ack_seq = h->seq,
		.ack_slot = h->slot,
		.epoch = lessor->epoch,
		.generation = h->generation,
		.granted_tok = h->granted_tok,
		.ttl_ms = ttl_ns / MS,
		.partial = h->want_tok > h->outstanding_tok,
		.kind = LG_LEASE_BLOCK,
		.status = LG_GRANT_OK,
	};
	h->untold = 0;
	lg_ledger_prolong(l, h, ttl_ns, lessor->terms->grace_ns);
}

bool lg_ledger_knows_all(const struct lg_ledger *l, const struct lg_succession *s)
{
	return lg_succession_knows_all(s, l->v, l->n, index_at);
}

struct lg_note lg_ledger_note(enum lg_note_kind kind, const struct lg_lessor *lessor, const struct lg_holder *h, uint32_t generation,
			      uint64_t tok)
{
	bool goes_on = generation == h->generation;

	return (struct lg_note){
		.kind = kind,
		.holder = h->index,
		.epoch = lessor->epoch,
		.generation = generation,
		.tok = tok,
		.outstanding_tok = goes_on ? h->outstanding_tok : 0,
		.spent_tok = goes_on ? h->spent_tok : 0,
		.status = LG_GRANT_OK,
	};
}

bool lg_ask_is_sane(const struct lg_ask *ask)
{
	return ask->seq > 0 && ask->n_slots <= LG_SLOTS_MAX && ask->n_history <= LG_HISTORY_MAX && ask->granted_tok <= TOTAL_MAX &&
	       ask->spent_tok <= ask->granted_tok && ask->returned_tok <= ask->granted_tok - ask->spent_tok &&
	       ask->granted_tok - ask->spent_tok - ask->returned_tok <= LG_BURST_MAX_TOK &&
	       ask->demand_mtps <= DEMAND_MAX_MTPS && ask->generation < UINT32_MAX - 1;
}
