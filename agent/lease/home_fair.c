// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Who may have how much of a window while more is asked for than there is. Fairness only: the law does not hang on it. */
#include "lease/home_inner.h"

#define STRETCH_MAX_NS 10000000000ull

/* What a holder's fair part of the window is cut from: a little more than it would spend in one. */
static uint64_t window_want_tok(const struct lg_home *h, const struct lg_holder *holder)
{
	uint64_t tok = lg_mul_div((uint64_t)holder->demand_mtps, h->lessor->terms->per_ns, 1000000000000ull);

	return lg_min_u64(tok, LG_BURST_MAX_TOK) * 105 / 100 + 2;
}

/* Demand as it has been for a while: of traffic that comes and goes, or moves between holders, the least. Whoever is short shows less than
 * it has, as denied demand counts only in part: that is no sign of less. */
void lg_home_see_demand(const struct lg_home *h, const struct lg_holder *holder, uint64_t now_ns)
{
	uint64_t stretch_ns = lg_min_u64(h->lessor->terms->per_ns / 2, STRETCH_MAX_NS), mtps = (uint64_t)holder->demand_mtps;
	struct home_part *part = part_of(h, holder);

	if (!part)
		return;
	if (!part->stretch_ns)
		part->lowest_mtps[0] = part->lowest_mtps[1] = mtps;
	if (!part->stretch_ns || now_ns - part->stretch_ns >= stretch_ns) {
		part->lowest_mtps[1] = part->lowest_mtps[0];
		part->lowest_mtps[0] = lg_holder_unmet_tok(holder) ? lg_max_u64(part->lowest_mtps[0], mtps) : mtps;
		part->stretch_ns = now_ns;
	}
	if (!lg_holder_unmet_tok(holder))
		part->lowest_mtps[0] = lg_min_u64(part->lowest_mtps[0], mtps);
}

/* Whether the holders have been asking for so much more than the limit that who is small would go short without a share of its own. */
static bool is_overloaded(const struct lg_home *h)
{
	const struct lg_terms *t = h->lessor->terms;
	uint64_t sum_mtps = 0;

	for (uint32_t i = 0; i < h->ledger.n; i++) {
		const struct home_part *part = &h->more->parts[i];
		const struct lg_holder *holder = &h->ledger.v[i];
		uint64_t lowest_mtps = lg_min_u64(part->lowest_mtps[0], part->lowest_mtps[1]);

		if (!lg_holder_unmet_tok(holder))
			lowest_mtps = lg_min_u64(lowest_mtps, (uint64_t)holder->demand_mtps);
		sum_mtps += lowest_mtps;
	}
	return lg_mul_div(sum_mtps, t->per_ns, 1000000000000ull) / 5 >= t->limit_tok / 4;
}

/* The height of water that fills vessels as high as the wants with limit tokens; all of them to the brim: UINT64_MAX. */
static uint64_t water_level_tok(const struct lg_home *h)
{
	const struct lg_ledger *l = &h->ledger;
	uint64_t left_tok = h->lessor->terms->limit_tok, level_tok = 0;
	uint32_t n_short = l->n;

	for (uint32_t pass = 0; n_short && pass <= l->n; pass++) {
		uint32_t n_over = 0;
		uint64_t below_tok = 0;

		level_tok = left_tok / n_short;
		for (uint32_t i = 0; i < l->n; i++) {
			uint64_t want_tok = window_want_tok(h, &l->v[i]);

			if (want_tok > level_tok)
				n_over++;
			else
				below_tok += want_tok;
		}
		if (n_over == 0)
			return UINT64_MAX;
		if (n_over == n_short)
			break;
		n_short = n_over;
		left_tok = lg_sub_floor(h->lessor->terms->limit_tok, below_tok);
	}
	return level_tok;
}

uint64_t lg_home_level_tok(const struct lg_home *h)
{
	return is_overloaded(h) ? water_level_tok(h) : UINT64_MAX;
}

/*
 * Tokens of a window come back in the pulses in which they were spent, so who took them first would have them again and again. While
 * the holders would spend more than the limit, each may hold and have spent no more than its max-min fair part of it.
 */
uint64_t lg_home_most_tok(const struct lg_home *h, const struct lg_holder *holder, uint64_t now_ns)
{
	uint64_t share_tok = lg_min_u64(h->more->level_tok, window_want_tok(h, holder));

	if (h->more->level_tok == UINT64_MAX)
		return UINT64_MAX;
	if (is_fixed(h))
		return lg_sub_floor(share_tok, holder->spent_tok);
	return lg_sub_floor(share_tok, lg_slots_sum(&part_of(h, holder)->used, now_ns));
}
