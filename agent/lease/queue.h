/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What was spent of a token bucket and has not been refilled since: a queue of tokens, worked off at a rate that may change. Exact: the rate
 * is a fraction, and no rounding adds up. Of a key that runs a limit of its own; what a home knows of a bucket is in budget.h.
 */
#pragma once

#include <stdint.h>

#define LG_QUEUE_IDLE_MAX 8	/* times without work remembered */

struct lg_queue {
	unsigned __int128 level;	/* in tok * per_ns */
	uint64_t at_ns;			/* time of level */
	uint64_t limit_tok;		/* worked off per per_ns */
	uint64_t per_ns;
	uint32_t n_idle;
	struct {
		uint64_t from_ns;
		uint64_t to_ns;
	} idle[LG_QUEUE_IDLE_MAX];	/* when there was nothing to work off, oldest first */
};

void lg_queue_init(struct lg_queue *q, uint64_t limit_tok, uint64_t per_ns, uint64_t now_ns);
/* Another rate from now on; what waits goes on waiting. */
void lg_queue_pace(struct lg_queue *q, uint64_t limit_tok, uint64_t per_ns, uint64_t now_ns);
/* tok tokens have waited since at_ns <= now_ns. Had that been known, they would have been worked off when there was nothing else to do. */
void lg_queue_add(struct lg_queue *q, uint64_t tok, uint64_t at_ns, uint64_t now_ns);
/* tok tokens need not be worked off here, as far as so many wait. */
void lg_queue_drop(struct lg_queue *q, uint64_t tok, uint64_t now_ns);
/* Tokens waiting, a part of one counts as one. */
uint64_t lg_queue_tok(struct lg_queue *q, uint64_t now_ns);
