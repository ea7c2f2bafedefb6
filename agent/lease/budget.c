// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Token bucket: `level` is the queue of a server that works off limit_tok per per_ns, counted in tok * per_ns so that time * limit_tok
 * is subtracted as it is: 128 bits, no division, no remainder to lose. It is this queue that the law bounds: one that is
 * never above B is the same as "at most B + r t in every interval t".
 *
 * Reports arrive late. Tokens spent at s and booked at now > s: had they been booked at s, they would have drained while the bucket was
 * thought full. So the times of a full bucket are kept, and what was wasted after s is used up by the late tokens, earliest first, just
 * as it would have happened. A time that is forgotten (there is room for a few) costs service, not the law.
 *
 * Window: slots, see slots.h.
 */
#include "lease/budget.h"

#include <string.h>

#include "lease/arith.h"

typedef unsigned __int128 u128;

int lg_budget_init(struct lg_budget *b, enum lg_algorithm algorithm, uint64_t limit_tok, uint64_t per_ns, uint64_t slot_ns,
		   uint64_t now_ns)
{
	*b = (struct lg_budget){
		.algorithm = algorithm,
		.limit_tok = limit_tok,
		.per_ns = lg_max_u64(per_ns, 1),
		.at_ns = now_ns,
	};
	if (algorithm == LG_TOKEN_BUCKET)
		return 0;
	return lg_slots_init(&b->window, b->per_ns, slot_ns, LG_BUDGET_SLOTS);
}

void lg_budget_fini(struct lg_budget *b)
{
	lg_slots_fini(&b->window);
}

static void full_drop(struct lg_budget *b, uint32_t i)
{
	memmove(&b->full[i], &b->full[i + 1], (b->n_full - i - 1) * sizeof(b->full[0]));
	b->n_full--;
}

static void full_insert(struct lg_budget *b, uint32_t i, uint64_t from_ns, uint64_t to_ns)
{
	if (b->n_full == LG_BUDGET_FULL_MAX) {
		if (i == 0)
			return;
		full_drop(b, 0);
		i--;
	}
	memmove(&b->full[i + 1], &b->full[i], (b->n_full - i) * sizeof(b->full[0]));
	b->full[i].from_ns = from_ns;
	b->full[i].to_ns = to_ns;
	b->n_full++;
}

static void full_append(struct lg_budget *b, uint64_t from_ns, uint64_t to_ns)
{
	if (b->n_full && b->full[b->n_full - 1].to_ns == from_ns)
		b->full[b->n_full - 1].to_ns = to_ns;
	else if (from_ns < to_ns)
		full_insert(b, b->n_full, from_ns, to_ns);
}

void lg_budget_advance(struct lg_budget *b, uint64_t now_ns)
{
	u128 drained;

	if (b->algorithm != LG_TOKEN_BUCKET || now_ns <= b->at_ns)
		return;
	drained = (u128)b->limit_tok * (now_ns - b->at_ns);
	if (drained < b->level || b->limit_tok == 0) {
		b->level -= drained;
	} else {
		uint64_t idle_ns = (uint64_t)((drained - b->level) / b->limit_tok);

		b->level = 0;
		full_append(b, now_ns - idle_ns, now_ns);
	}
	b->at_ns = now_ns;
}

/* What of need the full times after spent_ns would have drained is taken from them; returns the rest. */
static u128 use_waste(struct lg_budget *b, u128 need, uint64_t spent_ns)
{
	for (uint32_t i = 0; i < b->n_full && need;) {
		uint64_t from_ns = lg_max_u64(b->full[i].from_ns, spent_ns);
		uint64_t left_from_ns = b->full[i].from_ns, to_ns = b->full[i].to_ns;
		uint64_t used_ns;

		if (from_ns >= to_ns) {
			i++;
			continue;
		}
		if (need >= (u128)(to_ns - from_ns) * b->limit_tok) {
			used_ns = to_ns - from_ns;
			need -= (u128)used_ns * b->limit_tok;
		} else {
			used_ns = (uint64_t)((need + b->limit_tok - 1) / b->limit_tok);
			need = 0;
		}
		full_drop(b, i);
		if (from_ns + used_ns < to_ns)
			full_insert(b, i, from_ns + used_ns, to_ns);
		if (left_from_ns < from_ns) {
			full_insert(b, i, left_from_ns, from_ns);
			i++;
		}
	}
	return need;
}

void lg_budget_book(struct lg_budget *b, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	lg_budget_advance(b, now_ns);
	if (b->algorithm == LG_TOKEN_BUCKET)
		b->level += use_waste(b, (u128)tok * b->per_ns, spent_ns);
	else
		lg_slots_add(&b->window, spent_ns, tok, now_ns);
}

uint64_t lg_budget_consumed_tok(struct lg_budget *b, uint64_t now_ns)
{
	u128 tok;

	if (b->algorithm != LG_TOKEN_BUCKET)
		return lg_slots_sum(&b->window, now_ns);
	lg_budget_advance(b, now_ns);
	if (b->level == 0)
		return 0;
	tok = (b->level - 1) / b->per_ns + 1;
	return tok > UINT64_MAX ? UINT64_MAX : (uint64_t)tok;
}

void lg_budget_change(struct lg_budget *b, uint64_t limit_tok, uint64_t per_ns, uint64_t slot_ns, uint64_t now_ns)
{
	per_ns = lg_max_u64(per_ns, 1);
	lg_budget_advance(b, now_ns);
	if (b->algorithm == LG_TOKEN_BUCKET) {
		u128 tok = b->level / b->per_ns, rest = b->level % b->per_ns;

		b->level = tok * per_ns + (rest * per_ns + b->per_ns - 1) / b->per_ns;
		b->n_full = 0;	/* wasted at another rate */
	} else {
		lg_slots_reshape(&b->window, per_ns, slot_ns, LG_BUDGET_SLOTS, now_ns);
	}
	b->limit_tok = limit_tok;
	b->per_ns = per_ns;
}
