/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a home knows to be consumed of a rule's budget: of a token bucket, what was spent and has not been refilled since; of a
 * window, what was spent in it. Budget less consumed less what is lent or unknown may be lent. Exact: no rounding adds up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/slots.h"
#include "rules/rule.h"

#define LG_BUDGET_SLOTS 512	/* most slots a window is cut into: 0.2 % of it is the price in service */
#define LG_BUDGET_FULL_MAX 16	/* times of a full bucket remembered */

struct lg_budget {
	enum lg_algorithm algorithm;
	uint64_t limit_tok;
	uint64_t per_ns;
	/* token bucket */
	unsigned __int128 level;	/* not yet refilled, in tok * per_ns */
	uint64_t at_ns;			/* time of level */
	uint32_t n_full;
	struct {
		uint64_t from_ns;
		uint64_t to_ns;
	} full[LG_BUDGET_FULL_MAX];	/* when level was 0 and minting went to waste, oldest first */
	/* window */
	struct lg_slots window;
};

/* Nothing consumed at now_ns. 0 or -ENOMEM. */
int lg_budget_init(struct lg_budget *b, enum lg_algorithm algorithm, uint64_t limit_tok, uint64_t per_ns, uint64_t slot_ns,
		   uint64_t now_ns);
void lg_budget_fini(struct lg_budget *b);

/* Time passes. Never back. */
void lg_budget_advance(struct lg_budget *b, uint64_t now_ns);

/* tok tokens turned out to have been spent at spent_ns or a little before; spent_ns <= now_ns. What a token bucket wasted since then
 * because it was thought full is taken first. */
void lg_budget_book(struct lg_budget *b, uint64_t tok, uint64_t spent_ns, uint64_t now_ns);

uint64_t lg_budget_consumed_tok(struct lg_budget *b, uint64_t now_ns);

/* Another rate or window; what is consumed stays consumed. */
void lg_budget_change(struct lg_budget *b, uint64_t limit_tok, uint64_t per_ns, uint64_t slot_ns, uint64_t now_ns);
