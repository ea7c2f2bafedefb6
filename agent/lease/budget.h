/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a home knows to be consumed of a rule's budget: of a token bucket, what was spent and has not been refilled since; of a
 * window, sliding or fixed, what was spent in it. Budget less consumed less what is lent or unknown may be lent. Exact: no rounding adds up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/terms.h"

#define LG_BUDGET_SLOTS 512	/* most slots a window is cut into: 0.2 % of it is the price in service */
#define LG_BUDGET_FULL_MAX 16	/* times of a full bucket remembered, where the budget is minted within this time: */
#define LG_BUDGET_FULL_SPAN_NS 10000000000ull

struct lg_slots;
struct lg_budget_full;

/* The terms are those of the rule, the same with each call until lg_budget_change(). */
struct lg_budget {
	uint64_t level_low;			/* token bucket: not yet refilled, in tok * per_ns, 96 bits of it; fixed window: tok */
	uint32_t level_high;
	uint16_t full_to, full_for;		/* an earlier time when it was full: its end modulo 2^16, its length; of 2^20 ns */
	uint64_t at_ns;				/* time of level; level is 0: full since then; fixed window: its end */
	union {
		struct lg_budget_full *full;	/* token bucket that fills quickly: all such times; made when needed */
		struct lg_slots *window;
	};
};
_Static_assert(sizeof(struct lg_budget) == 32, "a budget is a part of each key");

/* Nothing consumed at now_ns. origin_ns: a time at which a fixed window began. 0 or -ENOMEM. */
int lg_budget_init(struct lg_budget *b, const struct lg_terms *t, uint64_t origin_ns, uint64_t now_ns);
void lg_budget_fini(struct lg_budget *b, const struct lg_terms *t);
/* Of its parts outside. */
size_t lg_budget_bytes(const struct lg_budget *b, const struct lg_terms *t);

/* Fixed windows: whether a new one has begun, with nothing consumed. Nothing else begins one. */
bool lg_budget_turn(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns);
/* Time passes. Never back. */
void lg_budget_advance(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns);

/* tok tokens turned out to have been spent at spent_ns or a little before; spent_ns <= now_ns. What a token bucket wasted since then
 * because it was thought full is taken first. */
void lg_budget_book(struct lg_budget *b, const struct lg_terms *t, uint64_t tok, uint64_t spent_ns, uint64_t now_ns);

uint64_t lg_budget_consumed_tok(struct lg_budget *b, const struct lg_terms *t, uint64_t now_ns);

/* Another rate or window; what is consumed stays consumed. */
void lg_budget_change(struct lg_budget *b, const struct lg_terms *from, const struct lg_terms *to, uint64_t origin_ns, uint64_t now_ns);

/* Fixed windows: the end of the one of now_ns. (Its beginning may be before the clock's.) */
uint64_t lg_window_end_ns(const struct lg_terms *t, uint64_t origin_ns, uint64_t now_ns);
