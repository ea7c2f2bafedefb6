// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the home of a key makes durable before it lends, and what it takes over by that from an earlier life. See escrow.c for what a mark says.
 *
 * A successor finds C consumed and A out, at most. Token bucket: A is unknown until it is told, C drains from now on. It drained before
 * too, but how long ago the mark was made is not asked, for no two machines have one clock. Sliding window: C leaves the window within its
 * length from now on, A when the last lease is over and what was spent of it has left. Fixed window: both count in the window they were
 * marked in; in the next one it is the reserve that was made for it; in later ones nothing was lent.
 *
 * Of windows what holders tell does not make the unknown less, before all have told: they tell a little too much (ages are never overstated),
 * and what they told of leaves the window while others may still have as much. So until then all that counts of the earlier life is bounded
 * by what the mark says, and what is lent in this one adds to it, whatever comes back.
 */
#include "lease/home_inner.h"

#include <errno.h>

#include "base/pool.h"

int lg_home_escrow_begin(struct lg_home *h)
{
	h->more->escrow = lg_pool_get(sizeof(*h->more->escrow));
	return h->more->escrow ? 0 : -ENOMEM;
}

void lg_home_escrow_end(struct home_more *more)
{
	lg_pool_put(more->escrow, sizeof(*more->escrow));
	more->escrow = NULL;
}

bool lg_home_reserves(const struct lg_home *h)
{
	return escrow_of(h) != NULL;
}

uint64_t lg_home_past_tok(const struct lg_home *h, uint64_t now_ns)
{
	const struct home_more *more = h->more;
	uint64_t tok = more->unknown_tok + (now_ns < more->past_until_ns ? more->past_tok : 0);

	if (!more->marked)
		return h->lessor->terms->budget_tok;
	return lg_min_u64(lg_add_cap(tok, more->escrow->lent_tok), h->lessor->terms->budget_tok);
}

/* Of fixed windows. The clocks of two lives may differ, so a window that is still to come is taken for this one. */
static void inherit_fixed(struct lg_home *h, const struct lg_escrow_mark *mark, uint64_t since_ns)
{
	const struct lg_terms *t = h->lessor->terms;
	struct home_more *more = h->more;

	if (mark->window_end_ns >= window_end_ns(h))
		more->unknown_tok = lg_add_cap(mark->consumed_tok, mark->out_tok);
	else
		more->unknown_tok = mark->window_end_ns + t->per_ns == window_end_ns(h) ? mark->next_tok : 0;
	if (mark->window_end_ns > window_end_ns(h))
		more->settle_ns = lg_min_u64(mark->window_end_ns,
					     lg_window_end_ns(t, h->lessor->origin_ns, since_ns + t->ttl_ns + t->grace_ns));
	more->recovering = more->unknown_tok > 0;
}

/* Of windows of another length a mark says nothing. */
static bool is_of_other_windows(const struct lg_home *h, const struct lg_escrow_mark *mark)
{
	return is_window(h) && (mark->per_ns != h->lessor->terms->per_ns || !h->more->escrow);
}

void lg_home_escrow_inherit(struct lg_home *h, const struct lg_escrow_mark *mark, uint64_t since_ns)
{
	const struct lg_terms *t = h->lessor->terms;
	struct home_more *more = h->more;

	if (is_of_other_windows(h, mark)) {
		if (is_fixed(h))
			more->settle_ns = lg_window_end_ns(t, h->lessor->origin_ns, since_ns + t->ttl_ns + t->grace_ns);
		more->changing = is_fixed(h);
		return;
	}
	more->marked = true;
	if (is_fixed(h)) {
		inherit_fixed(h, mark, since_ns);
		return;
	}
	more->unknown_tok = mark->out_tok;
	if (is_window(h)) {
		more->past_tok = mark->consumed_tok;
		more->past_until_ns = since_ns + t->per_ns;
	} else {
		lg_budget_book(&h->budget, t, mark->consumed_tok, since_ns, since_ns);
	}
}

static struct lg_escrow_books books_of(struct lg_home *h, uint64_t now_ns)
{
	const struct lg_terms *t = h->lessor->terms;
	struct lg_escrow_books b = { .most_out_tok = t->max_outstanding_tok, .budget_tok = t->budget_tok,
				     .window_end_ns = is_fixed(h) ? window_end_ns(h) : 0 };

	if (!is_window(h) || !is_recovering(h)) {
		b.consumed_tok = lg_home_consumed_tok(h, now_ns);
		b.out_tok = h->ledger.outstanding_tok + lg_home_unknown_tok(h, now_ns);
		return b;
	}
	/* What holders told of it is part of the same. */
	b.consumed_tok = h->more->marked && now_ns < h->more->past_until_ns ? h->more->past_tok : 0;
	b.out_tok = lg_sub_floor(lg_home_past_tok(h, now_ns), b.consumed_tok);
	return b;
}

static uint64_t left_tok(const struct lg_home *h)
{
	return lg_escrow_left_tok(escrow_of(h), is_fixed(h) ? window_end_ns(h) : 0, h->lessor->terms->per_ns);
}

uint64_t lg_home_reserved_tok(const struct lg_home *h, uint64_t free_tok)
{
	return escrow_of(h) ? lg_min_u64(free_tok, left_tok(h)) : free_tok;
}

/* What those who are short could be lent, were it reserved. */
static uint64_t wanted_tok(struct lg_home *h, uint64_t now_ns)
{
	uint64_t unmet_tok = lg_sub_floor(h->ledger.want_tok, h->ledger.outstanding_tok);

	if (!h->ledger.n_short)
		return 0;
	return lg_sub_floor(lg_min_u64(lg_max_u64(unmet_tok, h->lessor->terms->cost_tok), lg_home_free_tok(h, now_ns)), left_tok(h));
}

void lg_home_escrow_look(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx)
{
	struct lg_escrow_books books;

	if (!escrow_of(h) || !fx->reserve || escrow_of(h)->is_asked)
		return;
	books = books_of(h, now_ns);
	if (lg_escrow_is_due(escrow_of(h), h->lessor->terms, &books, left_tok(h), wanted_tok(h, now_ns), now_ns))
		fx->reserve(fx->arg);
}

bool lg_home_mark(struct lg_home *h, bool last, uint64_t now_ns, struct lg_escrow_mark *ret_mark)
{
	const struct lg_terms *t = h->lessor->terms;
	struct lg_escrow *e = escrow_of(h);
	struct lg_escrow_books books;

	if (!e || e->is_asked)
		return false;
	books = books_of(h, now_ns);
	lg_escrow_mark(e, t, &books, last ? 0 : lg_escrow_size_tok(e, t, wanted_tok(h, now_ns), now_ns), now_ns, ret_mark);
	return true;
}
