// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The law. Let V be what of the budget is truly consumed or out. A mark made at t0 says that V <= C + A for as long as it is the last one that
 * is durable, and that no more than A of it is out. It is true at t0 with A = out + unknown, and V grows by nothing but lending; so it
 * stays true while no more than the reserve is lent after t0, whatever is spent, returned or lapses meanwhile.
 *
 * Which mark is durable is not always known: one that is on its way may have arrived, and one whose answer was lost may arrive yet. So from
 * the moment a mark leaves, no more is lent than each of them allows, and it counts for more only when it is certain.
 *
 * V never grows beyond the budget, so a mark need not say more: then it is C that says less, for it is A that is not to be lent again
 * before it is told. And as no more than most_out is ever out, what is reserved beyond that will have been spent: it is part of C.
 */
#include "lease/escrow.h"

#include "lease/arith.h"

#define LEAST_PART 64u	/* of the budget: the first reserve of a key */
#define STALE_PART 16u
#define STALE_PERIODS 4u
#define LOW_PART 4u

static uint64_t line_left_tok(const struct lg_escrow *e, const struct lg_escrow_line *line, uint64_t window_end_ns, uint64_t per_ns)
{
	if (line->window_end_ns == window_end_ns)
		return lg_sub_floor(line->lent_tok, e->lent_tok);
	if (line->window_end_ns + per_ns == window_end_ns)
		return lg_sub_floor(line->next_tok, e->lent_tok - e->turn_tok);
	return 0;
}

static uint64_t line_next_tok(const struct lg_escrow_line *line, uint64_t window_end_ns)
{
	return line->window_end_ns == window_end_ns ? line->next_tok : 0;
}

uint64_t lg_escrow_left_tok(const struct lg_escrow *e, uint64_t window_end_ns, uint64_t per_ns)
{
	return line_left_tok(e, &e->durable, window_end_ns, per_ns);
}

void lg_escrow_lent(struct lg_escrow *e, uint64_t tok)
{
	e->lent_tok += tok;
}

void lg_escrow_turn(struct lg_escrow *e)
{
	e->turn_tok = e->lent_tok;
}

void lg_escrow_void(struct lg_escrow *e)
{
	e->durable = e->asked = (struct lg_escrow_line){ 0 };
}

/* What can be lent in a period at most: all of it, and of a bucket what is minted meanwhile. */
static uint64_t most_tok(const struct lg_terms *t)
{
	if (t->algorithm != LG_TOKEN_BUCKET)
		return t->budget_tok;
	return lg_add_cap(t->budget_tok, lg_mul_div(t->limit_tok, t->escrow_period_ns, t->per_ns));
}

/* However often marks are made, it is measured over a period. */
static void pace_see(struct lg_escrow *e, const struct lg_terms *t, uint64_t now_ns)
{
	uint64_t used_tok = e->lent_tok - e->pace_lent_tok, took_ns = lg_sub_floor(now_ns, e->pace_ns);

	if (e->pace_ns && took_ns < t->escrow_period_ns) {
		e->pace_tok = lg_max_u64(e->pace_tok, used_tok);
		return;
	}
	if (e->pace_ns)
		e->pace_tok = lg_max_u64(e->pace_tok / 2, lg_mul_div(used_tok, t->escrow_period_ns, took_ns));
	e->pace_ns = now_ns;
	e->pace_lent_tok = e->lent_tok;
}

uint64_t lg_escrow_size_tok(struct lg_escrow *e, const struct lg_terms *t, uint64_t wanted_tok, uint64_t now_ns)
{
	uint64_t least_tok = lg_max_u64(t->budget_tok / LEAST_PART, t->cost_tok);
	uint64_t took_ns = lg_sub_floor(now_ns, e->last.at_ns), used_tok = e->lent_tok - e->last.lent_tok, size_tok;

	pace_see(e, t, now_ns);
	if (!e->last.at_ns)
		return lg_min_u64(lg_max_u64(least_tok, lg_add_cap(wanted_tok, wanted_tok)), most_tok(t));
	size_tok = lg_add_cap(e->pace_tok, e->pace_tok);
	if (wanted_tok && took_ns < t->escrow_period_ns && used_tok >= e->last.size_tok - e->last.size_tok / LOW_PART)
		size_tok = lg_max_u64(size_tok, lg_add_cap(e->last.size_tok, lg_max_u64(e->last.size_tok, wanted_tok)));
	return lg_min_u64(lg_max_u64(size_tok, lg_max_u64(least_tok, wanted_tok)), most_tok(t));
}

static uint64_t stale_ns(const struct lg_terms *t)
{
	return STALE_PERIODS * t->escrow_period_ns;
}

static bool is_stale(const struct lg_escrow *e, const struct lg_terms *t, const struct lg_escrow_books *books, uint64_t now_ns)
{
	uint64_t tok = books->consumed_tok + books->out_tok + e->last.size_tok / 2 + t->budget_tok / STALE_PART;

	return e->last.marked_tok > tok && now_ns >= e->last.at_ns + stale_ns(t);
}

bool lg_escrow_is_due(const struct lg_escrow *e, const struct lg_terms *t, const struct lg_escrow_books *books, uint64_t left_tok,
		      uint64_t wanted_tok, uint64_t now_ns)
{
	if (e->is_asked)
		return false;
	return wanted_tok > 0 || (e->last.at_ns && (left_tok < e->last.size_tok / LOW_PART || is_stale(e, t, books, now_ns)));
}

uint64_t lg_escrow_due_ns(const struct lg_escrow *e, const struct lg_terms *t)
{
	return e->last.at_ns ? e->last.at_ns + stale_ns(t) : UINT64_MAX;
}

/* From now on either of two may be the durable one. */
static void fold(struct lg_escrow *e, const struct lg_escrow_line *line, const struct lg_terms *t)
{
	uint64_t end_ns = line->window_end_ns;
	uint64_t left_tok = lg_min_u64(line_left_tok(e, &e->durable, end_ns, t->per_ns), line_left_tok(e, line, end_ns, t->per_ns));

	e->durable = (struct lg_escrow_line){
		.window_end_ns = end_ns,
		.lent_tok = e->lent_tok + left_tok,
		.next_tok = lg_min_u64(line_next_tok(&e->durable, end_ns), line->next_tok),
	};
}

void lg_escrow_mark(struct lg_escrow *e, const struct lg_terms *t, const struct lg_escrow_books *books, uint64_t size_tok, uint64_t now_ns,
		    struct lg_escrow_mark *ret_mark)
{
	uint64_t all_tok = lg_add_cap(books->out_tok, size_tok);
	uint64_t cap_tok = lg_max_u64(books->budget_tok, lg_add_cap(books->consumed_tok, books->out_tok));
	uint64_t out_tok = lg_min_u64(lg_min_u64(all_tok, lg_max_u64(books->most_out_tok, books->out_tok)), cap_tok);

	*ret_mark = (struct lg_escrow_mark){
		.consumed_tok = lg_min_u64(lg_add_cap(books->consumed_tok, all_tok - out_tok), cap_tok - out_tok),
		.out_tok = out_tok,
		.next_tok = books->window_end_ns ? lg_min_u64(size_tok, books->budget_tok) : 0,
		.window_end_ns = books->window_end_ns,
		.per_ns = t->per_ns,
	};
	e->asked = (struct lg_escrow_line){ .window_end_ns = books->window_end_ns, .lent_tok = e->lent_tok + size_tok,
					    .next_tok = ret_mark->next_tok };
	fold(e, &e->asked, t);
	e->is_asked = true;
	e->next = (struct lg_escrow_made){ .at_ns = now_ns, .lent_tok = e->lent_tok, .size_tok = size_tok,
					   .marked_tok = ret_mark->consumed_tok + out_tok };
}

void lg_escrow_marked(struct lg_escrow *e, bool is_durable)
{
	if (e->is_asked && is_durable) {
		e->durable = e->asked;
		e->last = e->next;
	}
	e->is_asked = false;
}
