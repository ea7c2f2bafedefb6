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
 * Sliding window: slots, see slots.h. Fixed window: a sum, which begins anew with each window.
 */
#include "lease/budget.h"

#include <errno.h>
#include <string.h>

#include "base/pool.h"
#include "lease/arith.h"
#include "lease/slots.h"

typedef unsigned __int128 u128;

#define LEVEL_MAX (((u128)1 << 96) - 1)
#define FULL_SHIFT 20
#define FULL_KEPT_NS 20000000000ull	/* since its end; well within the 68 s after which its digits repeat */
#define FULL_GAP_NS 250000000ull	/* two that are further apart do not become one */

/* When level was 0 and minting went to waste, oldest first. */
struct lg_budget_full {
	uint32_t n;
	struct {
		uint64_t from_ns;
		uint64_t to_ns;
	} v[LG_BUDGET_FULL_MAX];
};

static bool is_bucket(const struct lg_terms *t)
{
	return t->algorithm == LG_TOKEN_BUCKET;
}

static bool is_fixed(const struct lg_terms *t)
{
	return t->algorithm == LG_FIXED_WINDOW;
}

uint64_t lg_window_end_ns(const struct lg_terms *t, uint64_t origin_ns, uint64_t now_ns)
{
	return now_ns + t->per_ns - (now_ns % t->per_ns + t->per_ns - origin_ns % t->per_ns) % t->per_ns;
}

int lg_budget_init(struct lg_budget *b, const struct lg_terms *t, uint64_t origin_ns, uint64_t now_ns)
{
	int r;

	*b = (struct lg_budget){ .at_ns = is_fixed(t) ? lg_window_end_ns(t, origin_ns, now_ns) : now_ns };
	if (is_bucket(t) || is_fixed(t))
		return 0;
	b->window = lg_pool_get(sizeof(*b->window));
	if (!b->window)
		return -ENOMEM;
	r = lg_slots_init(b->window, t->per_ns, t->slot_ns, LG_BUDGET_SLOTS);
	if (r < 0) {
		lg_pool_put(b->window, sizeof(*b->window));
		b->window = NULL;
	}
	return r;
}

void lg_budget_fini(struct lg_budget *b, const struct lg_terms *t)
{
	if (is_bucket(t)) {
		lg_pool_put(b->full, sizeof(*b->full));
		b->full = NULL;
	} else if (!is_fixed(t) && b->window) {
		lg_slots_fini(b->window);
		lg_pool_put(b->window, sizeof(*b->window));
		b->window = NULL;
	}
}

size_t lg_budget_bytes(const struct lg_budget *b, const struct lg_terms *t)
{
	if (is_bucket(t))
		return b->full ? sizeof(*b->full) : 0;
	return is_fixed(t) ? 0 : sizeof(*b->window) + lg_slots_bytes(b->window);
}

static void full_drop(struct lg_budget_full *f, uint32_t i)
{
	memmove(&f->v[i], &f->v[i + 1], (f->n - i - 1) * sizeof(f->v[0]));
	f->n--;
}

static void full_insert(struct lg_budget_full *f, uint32_t i, uint64_t from_ns, uint64_t to_ns)
{
	if (f->n == LG_BUDGET_FULL_MAX) {
		if (i == 0)
			return;
		full_drop(f, 0);
		i--;
	}
	memmove(&f->v[i + 1], &f->v[i], (f->n - i) * sizeof(f->v[0]));
	f->v[i].from_ns = from_ns;
	f->v[i].to_ns = to_ns;
	f->n++;
}

static bool remembers_full(const struct lg_terms *t)
{
	return (u128)t->budget_tok * t->per_ns <= (u128)t->limit_tok * LG_BUDGET_FULL_SPAN_NS;
}

static u128 level_of(const struct lg_budget *b)
{
	return (u128)b->level_high << 64 | b->level_low;
}

/* Full is full: a level that does not fit says that the bucket is empty for ages. */
static void set_level(struct lg_budget *b, u128 level)
{
	if (level > LEVEL_MAX)
		level = LEVEL_MAX;
	b->level_low = (uint64_t)level;
	b->level_high = (uint32_t)(level >> 64);
}

/* The full time kept beside the level, never more than was. None: false. */
static bool last_full(const struct lg_budget *b, uint64_t *ret_from_ns, uint64_t *ret_to_ns)
{
	uint64_t at = b->at_ns >> FULL_SHIFT, to = at - (uint16_t)(at - b->full_to);

	if (!b->full_for)
		return false;
	*ret_from_ns = (to - b->full_for) << FULL_SHIFT;
	*ret_to_ns = to << FULL_SHIFT;
	return true;
}

/* at_ns becomes that. The end of a full time is told by its last digits, so one that ended long ago must be forgotten. */
static void set_last_full(struct lg_budget *b, uint64_t from_ns, uint64_t to_ns, uint64_t at_ns)
{
	uint64_t from = (from_ns + (1ull << FULL_SHIFT) - 1) >> FULL_SHIFT, to = to_ns >> FULL_SHIFT;
	bool fresh = to_ns + FULL_KEPT_NS > at_ns;

	b->at_ns = at_ns;
	b->full_to = (uint16_t)to;
	b->full_for = fresh ? (uint16_t)lg_min_u64(lg_sub_floor(to, from), UINT16_MAX) : 0;
}

/* Time goes on, and the bucket is not full. */
static void go_on(struct lg_budget *b, uint64_t at_ns)
{
	uint64_t from_ns, to_ns;

	if (last_full(b, &from_ns, &to_ns))
		set_last_full(b, from_ns, to_ns, at_ns);
	b->at_ns = at_ns;
}

/* Moved to the end of the earlier one, the new one is of less use, by the gap between them: alone it may be worth more. */
static void add_last_full(struct lg_budget *b, uint64_t now_ns)
{
	uint64_t from_ns, to_ns, gap_ns;

	if (last_full(b, &from_ns, &to_ns)) {
		gap_ns = lg_sub_floor(b->at_ns, to_ns);
		if (gap_ns <= FULL_GAP_NS && gap_ns <= (to_ns - from_ns) / 4) {
			set_last_full(b, from_ns, to_ns + (now_ns - b->at_ns), now_ns);
			return;
		}
	}
	set_last_full(b, b->at_ns, now_ns, now_ns);
}

static void add_full(struct lg_budget_full *f, uint64_t from_ns, uint64_t to_ns)
{
	if (f->n && f->v[f->n - 1].to_ns == from_ns)
		f->v[f->n - 1].to_ns = to_ns;
	else
		full_insert(f, f->n, from_ns, to_ns);
}

/* The bucket has been full since at_ns, and something will be booked. */
static void close_full(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns)
{
	if (!b->full && remembers_full(t))
		b->full = lg_pool_get(sizeof(*b->full));
	if (b->full) {
		add_full(b->full, b->at_ns, now_ns);
		b->at_ns = now_ns;
	} else {
		add_last_full(b, now_ns);
	}
}

bool lg_budget_turn(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns)
{
	if (!is_fixed(t) || now_ns < b->at_ns)
		return false;
	b->at_ns += ((now_ns - b->at_ns) / t->per_ns + 1) * t->per_ns;
	b->level_low = 0;
	return true;
}

void lg_budget_advance(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns)
{
	u128 level = level_of(b), drained;

	if (!is_bucket(t) || level == 0 || now_ns <= b->at_ns)
		return;
	drained = (u128)t->limit_tok * (now_ns - b->at_ns);
	if (drained < level || t->limit_tok == 0) {
		set_level(b, level - drained);
		go_on(b, now_ns);
	} else {
		set_level(b, 0);
		go_on(b, now_ns - (uint64_t)((drained - level) / t->limit_tok));
	}
}

/* What of need a time would have drained is taken from it; *ret_used_ns of it, from its beginning. */
static u128 use(const struct lg_terms *t, u128 need, uint64_t time_ns, uint64_t *ret_used_ns)
{
	if (need >= (u128)time_ns * t->limit_tok) {
		*ret_used_ns = time_ns;
		return need - (u128)time_ns * t->limit_tok;
	}
	*ret_used_ns = (uint64_t)((need + t->limit_tok - 1) / t->limit_tok);
	return 0;
}

/* What of need the full times after spent_ns would have drained is taken from them; returns the rest. */
static u128 use_full(struct lg_budget_full *f, const struct lg_terms *t, u128 need, uint64_t spent_ns)
{
	for (uint32_t i = 0; i < f->n && need;) {
		uint64_t from_ns = lg_max_u64(f->v[i].from_ns, spent_ns);
		uint64_t left_from_ns = f->v[i].from_ns, to_ns = f->v[i].to_ns;
		uint64_t used_ns;

		if (from_ns >= to_ns) {
			i++;
			continue;
		}
		need = use(t, need, to_ns - from_ns, &used_ns);
		full_drop(f, i);
		if (from_ns + used_ns < to_ns)
			full_insert(f, i, from_ns + used_ns, to_ns);
		if (left_from_ns < from_ns) {
			full_insert(f, i, left_from_ns, from_ns);
			i++;
		}
	}
	return need;
}

/* The same of the one kept beside the level. */
static u128 use_last_full(struct lg_budget *b, const struct lg_terms *t, u128 need, uint64_t spent_ns)
{
	uint64_t left_from_ns, from_ns, to_ns, used_ns;

	if (!last_full(b, &left_from_ns, &to_ns))
		return need;
	from_ns = lg_max_u64(left_from_ns, spent_ns);
	if (from_ns >= to_ns)
		return need;
	need = use(t, need, to_ns - from_ns, &used_ns);
	set_last_full(b, left_from_ns, to_ns - used_ns, b->at_ns);
	return need;
}

void lg_budget_book(struct lg_budget *b, const struct lg_terms *t, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	u128 need = (u128)tok * t->per_ns;

	lg_budget_advance(b, t, now_ns);
	if (is_fixed(t)) {
		b->level_low = lg_add_cap(b->level_low, tok);
		return;
	}
	if (!is_bucket(t)) {
		lg_slots_add(b->window, spent_ns, tok, now_ns);
		return;
	}
	if (!b->level_low && !b->level_high && b->at_ns < now_ns)
		close_full(b, t, now_ns);
	if (spent_ns < now_ns)
		need = b->full ? use_full(b->full, t, need, spent_ns) : use_last_full(b, t, need, spent_ns);
	set_level(b, level_of(b) + need);
}

/* level / per_ns rounded up; nearly always it fits into 64 bits, where dividing costs a tenth. */
static uint64_t level_tok(const struct lg_budget *b, const struct lg_terms *t)
{
	u128 tok;

	if (!b->level_low && !b->level_high)
		return 0;
	if (!b->level_high)
		return (b->level_low - 1) / t->per_ns + 1;
	tok = (level_of(b) - 1) / t->per_ns + 1;
	return tok > UINT64_MAX ? UINT64_MAX : (uint64_t)tok;
}

uint64_t lg_budget_consumed_tok(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns)
{
	if (!is_bucket(t) && !is_fixed(t))
		return lg_slots_sum(b->window, now_ns);
	lg_budget_advance(b, t, now_ns);
	if (is_fixed(t))
		return now_ns < b->at_ns ? b->level_low : 0;
	return level_tok(b, t);
}

void lg_budget_change(struct lg_budget *b, const struct lg_terms *from, const struct lg_terms *to, uint64_t origin_ns, uint64_t now_ns)
{
	u128 tok, rest;

	lg_budget_advance(b, from, now_ns);
	if (is_fixed(from)) {
		if (from->per_ns != to->per_ns)
			b->at_ns = lg_window_end_ns(to, origin_ns, now_ns);
		return;
	}
	if (!is_bucket(from)) {
		lg_slots_reshape(b->window, to->per_ns, to->slot_ns, LG_BUDGET_SLOTS, now_ns);
		return;
	}
	tok = level_of(b) / from->per_ns;
	rest = level_of(b) % from->per_ns;
	set_level(b, tok * to->per_ns + (rest * to->per_ns + from->per_ns - 1) / from->per_ns);
	b->at_ns = lg_max_u64(b->at_ns, now_ns);
	b->full_for = 0;	/* wasted at another rate */
	if (b->full)
		b->full->n = 0;
}
