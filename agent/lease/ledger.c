// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lease/arith.h"

#define HOLDERS_FIRST 4u
#define DIVIDE_PASSES_MAX 32
#define TOTAL_MAX (1ull << 62)
#define DEMAND_MAX_MTPS (1ull << 50)

void lg_ledger_init(struct lg_ledger *l, uint32_t epoch, uint64_t seed)
{
	*l = (struct lg_ledger){ .epoch = epoch, .rand = seed, .end_ns = UINT64_MAX };
}

void lg_ledger_fini(struct lg_ledger *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		if (!l->v[i].used)
			continue;
		lg_slots_fini(l->v[i].used);
		free(l->v[i].used);
	}
	free(l->v);
	l->v = NULL;
	l->n = 0;
}

uint64_t lg_holder_outstanding_tok(const struct lg_holder *h)
{
	return h->granted_tok - h->spent_tok - h->returned_tok;
}

uint64_t lg_holder_unmet_tok(const struct lg_holder *h)
{
	return lg_sub_floor(lg_min_u64(h->want_tok, h->most_tok), lg_holder_outstanding_tok(h));
}

/* The sums are kept, not counted: with a holder out of them its account may be changed, then it goes back in. */
static void sums_without(struct lg_ledger *l, const struct lg_holder *h)
{
	l->outstanding_tok -= lg_holder_outstanding_tok(h);
	l->want_tok -= h->want_tok;
	l->unmet_tok -= lg_holder_unmet_tok(h);
	l->demand_mtps -= h->demand_mtps;
}

static void sums_with(struct lg_ledger *l, const struct lg_holder *h)
{
	l->outstanding_tok += lg_holder_outstanding_tok(h);
	l->want_tok += h->want_tok;
	l->unmet_tok += lg_holder_unmet_tok(h);
	l->demand_mtps += h->demand_mtps;
}

/* First account at or after index. */
static uint32_t lower_bound(const struct lg_ledger *l, uint32_t index)
{
	uint32_t lo = 0, hi = l->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (l->v[mid].index < index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct lg_holder *lg_ledger_find(const struct lg_ledger *l, uint32_t index)
{
	uint32_t i = lower_bound(l, index);

	return i < l->n && l->v[i].index == index ? &l->v[i] : NULL;
}

int lg_ledger_open(struct lg_ledger *l, uint32_t index, uint64_t incarnation, uint32_t generation, struct lg_holder **ret_holder)
{
	uint32_t i = lower_bound(l, index);

	if (i < l->n && l->v[i].index == index) {
		*ret_holder = &l->v[i];
		return 0;
	}
	if (index >= LG_HOLDERS_MAX)
		return -EINVAL;
	if (l->n == l->cap) {
		uint32_t cap = l->cap ? 2 * l->cap : HOLDERS_FIRST;
		struct lg_holder *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	memmove(&l->v[i + 1], &l->v[i], (l->n - i) * sizeof(*l->v));
	l->v[i] = (struct lg_holder){
		.index = index,
		.incarnation = incarnation,
		.generation = generation + 1,
		.most_tok = UINT64_MAX,
	};
	l->n++;
	*ret_holder = &l->v[i];
	return 1;
}

void lg_ledger_adopt(struct lg_ledger *l, struct lg_holder *h, const struct lg_ask *ask)
{
	if (ask->generation == 0)
		return;
	sums_without(l, h);
	h->generation = ask->generation;
	h->granted_tok = ask->granted_tok;
	h->spent_tok = ask->spent_tok;
	h->returned_tok = ask->returned_tok;
	for (size_t i = 0; i < ask->n_slots; i++)
		h->slot = lg_max_u64(h->slot, ask->slots[i].id);
	sums_with(l, h);
}

/* A lease of generation `generation` begins, empty. Returns what was outstanding of the old one. */
static uint64_t begin(struct lg_holder *h, uint32_t generation)
{
	uint64_t tok = lg_holder_outstanding_tok(h);

	h->generation = generation;
	h->granted_tok = h->spent_tok = h->returned_tok = h->give_tok = 0;
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
	bool used[LG_SLOTS_MAX] = { false };
	uint64_t last = h->slot;

	for (size_t round = 0; round < ask->n_slots && new_tok; round++) {
		const struct lg_slot *young = NULL;

		for (size_t i = ask->n_slots; i-- > 0;)
			if (!used[i] && ask->slots[i].id > h->slot && (!young || ask->slots[i].age_ms < young->age_ms))
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
	for (size_t i = 0; i < ask->n_slots; i++)
		last = lg_max_u64(last, ask->slots[i].id);
	h->slot = last;
}

/* Totals only grow; what is said beyond what was granted is not believed. */
static void book(struct lg_holder *h, const struct lg_ask *ask, struct lg_news *news)
{
	uint64_t spent_tok = lg_min_u64(ask->spent_tok, h->granted_tok - h->returned_tok);
	uint64_t new_tok = lg_sub_floor(spent_tok, h->spent_tok);
	uint64_t returned_tok;

	split(h, ask, new_tok, news);
	h->spent_tok += new_tok;
	returned_tok = lg_min_u64(ask->returned_tok, h->granted_tok - h->spent_tok);
	h->returned_tok = lg_max_u64(h->returned_tok, returned_tok);
}

enum lg_ledger_outcome lg_ledger_ask(struct lg_ledger *l, struct lg_holder *h, uint64_t incarnation, const struct lg_ask *ask,
				     uint64_t now_ns, struct lg_news *ret_news)
{
	ret_news->lapsed_tok = ret_news->spent_tok = 0;
	ret_news->n_parts = 0;
	if (incarnation < h->incarnation)
		return LG_LEDGER_STALE;
	if (incarnation == h->incarnation && ask->seq <= h->seq)
		return LG_LEDGER_REPEATED;
	sums_without(l, h);
	/* Slots are numbered anew by each memory of the key. */
	if (incarnation > h->incarnation || ask->life != h->life)
		h->slot = 0;
	if (incarnation > h->incarnation) {
		h->incarnation = incarnation;
		ret_news->lapsed_tok = begin(h, (uint32_t)lg_max_u64(h->generation, ask->generation) + 1);
	} else if (ask->generation > h->generation) {
		ret_news->lapsed_tok = begin(h, ask->generation + 1);
	} else if (ask->generation == 0 && ask->life != h->life && h->granted_tok) {
		/* It has forgotten this lease: its totals would be news to it. (One that only has not heard of it yet is told again.) */
		ret_news->lapsed_tok = begin(h, h->generation + 1);
	} else if (ask->generation == h->generation) {
		book(h, ask, ret_news);
	}
	h->life = ask->life;
	h->seq = ask->seq;
	h->asked_ns = now_ns;
	h->want_tok = ask->request ? lg_min_u64(ask->want_tok, LG_BURST_MAX_TOK) : 0;
	h->demand_mtps = ask->demand_mtps;
	sums_with(l, h);
	return LG_LEDGER_BOOKED;
}

uint64_t lg_ledger_void(struct lg_ledger *l, struct lg_holder *h)
{
	uint64_t tok;

	sums_without(l, h);
	tok = begin(h, h->generation + 1);
	sums_with(l, h);
	return tok;
}

void lg_ledger_cap(struct lg_ledger *l, struct lg_holder *h, uint64_t most_tok)
{
	l->unmet_tok -= lg_holder_unmet_tok(h);
	h->most_tok = most_tok;
	l->unmet_tok += lg_holder_unmet_tok(h);
}

uint64_t lg_ledger_lapse(struct lg_ledger *l, struct lg_holder *h)
{
	uint64_t tok = lg_holder_outstanding_tok(h);

	sums_without(l, h);
	if (tok)
		begin(h, h->generation + 1);
	h->want_tok = h->demand_mtps = 0;
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

		if (!lg_holder_outstanding_tok(h) && !h->want_tok && !h->demand_mtps)
			continue;
		if (now_ns >= h->expires_ns) {
			uint64_t tok = lg_ledger_lapse(l, h);

			if (tok)
				lapsed(arg, h, tok);
		} else {
			l->end_ns = lg_min_u64(l->end_ns, h->expires_ns);
		}
	}
}

/* May be given tokens: wants some, and its lease, which a push does not prolong, goes on. */
static bool takes_part(const struct lg_holder *h, uint64_t now_ns, uint64_t grace_ns)
{
	return now_ns + grace_ns < h->expires_ns && lg_holder_unmet_tok(h) > 0;
}

/*
 * Fills the holders like vessels of different height under one tap: as long as an equal part of the rest would overfill someone, those
 * are filled to the brim and drop out. Each pass drops at least one; few are needed, and after the last everybody left gets the
 * same. *ret_n_short are the holders not filled.
 */
static uint64_t fill(struct lg_ledger *l, uint64_t free_tok, uint64_t now_ns, uint64_t grace_ns, uint32_t *ret_n_short)
{
	uint32_t n_short = 0;
	uint64_t each;

	for (uint32_t i = 0; i < l->n; i++) {
		l->v[i].give_tok = 0;
		n_short += takes_part(&l->v[i], now_ns, grace_ns);
	}
	for (int pass = 0; pass < DIVIDE_PASSES_MAX && n_short; pass++) {
		uint32_t n_filled = 0;

		each = free_tok / n_short;
		for (uint32_t i = 0; i < l->n; i++) {
			struct lg_holder *h = &l->v[i];
			uint64_t unmet_tok = lg_holder_unmet_tok(h);

			if (h->give_tok || unmet_tok > each || !takes_part(h, now_ns, grace_ns))
				continue;
			h->give_tok = unmet_tok;
			free_tok -= unmet_tok;
			n_filled++;
		}
		n_short -= n_filled;
		if (!n_filled)
			break;
	}
	each = n_short ? free_tok / n_short : 0;
	for (uint32_t i = 0; i < l->n; i++) {
		struct lg_holder *h = &l->v[i];

		if (each && !h->give_tok && takes_part(h, now_ns, grace_ns)) {
			h->give_tok = lg_min_u64(each, lg_holder_unmet_tok(h));
			free_tok -= h->give_tok;
		}
	}
	*ret_n_short = n_short;
	return free_tok;
}

uint64_t lg_ledger_divide(struct lg_ledger *l, uint64_t free_tok, uint64_t now_ns, uint64_t grace_ns)
{
	uint64_t given_tok = 0;
	uint32_t n_short, start;

	if (!free_tok || !l->unmet_tok)
		return 0;
	free_tok = fill(l, free_tok, now_ns, grace_ns, &n_short);
	start = n_short && free_tok ? (uint32_t)(lg_rand_next(&l->rand) % l->n) : 0;
	for (uint32_t i = 0; i < l->n; i++) {
		struct lg_holder *h = &l->v[(start + i) % l->n];

		if (free_tok && takes_part(h, now_ns, grace_ns) && h->give_tok < lg_holder_unmet_tok(h)) {
			h->give_tok++;
			free_tok--;
		}
		given_tok += h->give_tok;
		lg_ledger_give(l, h, h->give_tok);
	}
	return given_tok;
}

void lg_ledger_give(struct lg_ledger *l, struct lg_holder *h, uint64_t tok)
{
	sums_without(l, h);
	h->granted_tok += tok;
	h->give_tok = tok;
	sums_with(l, h);
}

void lg_ledger_prolong(struct lg_ledger *l, struct lg_holder *h, uint64_t ttl_ns, uint64_t grace_ns)
{
	h->expires_ns = lg_max_u64(h->expires_ns, lg_add_cap(h->asked_ns, ttl_ns + grace_ns));
	l->end_ns = lg_min_u64(l->end_ns, h->expires_ns);
}

void lg_ledger_grant(struct lg_ledger *l, struct lg_holder *h, uint64_t ttl_ns, uint64_t grace_ns, struct lg_grant *ret_grant)
{
	*ret_grant = (struct lg_grant){
		.ack_seq = h->seq,
		.ack_slot = h->slot,
		.epoch = l->epoch,
		.generation = h->generation,
		.granted_tok = h->granted_tok,
		.ttl_ms = ttl_ns / 1000000,
		.partial = lg_sub_floor(h->want_tok, lg_holder_outstanding_tok(h)) > 0,
		.kind = LG_LEASE_BLOCK,
		.status = LG_GRANT_OK,
	};
	h->give_tok = 0;
	lg_ledger_prolong(l, h, ttl_ns, grace_ns);
}

bool lg_ledger_knows_all(const struct lg_ledger *l, const struct lg_succession *s)
{
	uint32_t missing = lg_succession_missing(s), n_told = 0;

	for (uint32_t i = 0; i < l->n && n_told < missing; i++)
		n_told += lg_succession_is_listed(s, l->v[i].index) && !lg_succession_is_synced(s, l->v[i].index);
	return n_told == missing;
}

bool lg_ask_is_sane(const struct lg_ask *ask)
{
	return ask->seq > 0 && ask->n_slots <= LG_SLOTS_MAX && ask->n_history <= LG_HISTORY_MAX && ask->granted_tok <= TOTAL_MAX &&
	       ask->spent_tok <= ask->granted_tok && ask->returned_tok <= ask->granted_tok - ask->spent_tok &&
	       ask->granted_tok - ask->spent_tok - ask->returned_tok <= LG_BURST_MAX_TOK &&
	       ask->demand_mtps <= DEMAND_MAX_MTPS && ask->generation < UINT32_MAX - 1;
}
