/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A limit of its own, at the region that runs it: a part of the rule's limit that the home told. It mints by it and lends what is minted
 * to its hosts, as a home does: consumed + outstanding at hosts <= its limit. The lease itself (generation, time, who asks when) is the
 * region's; here is only what may be lent, and the most that is held of the limit, which is what the home goes by.
 *
 * out_tok: what hosts have unspent, wherever it is asked for. Spent tokens are booked before they are taken off it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/msg.h"
#include "lease/queue.h"
#include "lease/slots.h"
#include "lease/terms.h"

struct lg_sublimit {
	bool bucket;
	uint32_t version;	/* of the last one told; 0 none yet */
	uint32_t permille;	/* token bucket: of the rule's rate */
	uint64_t limit_tok;	/* burst or window: as told, or less after some was given back */
	uint64_t burst_tok;	/* token bucket: held; more than the limit as long as hosts have more */
	union {
		struct lg_queue queue;	/* token bucket: consumed */
		struct lg_slots window;
	};
};

/* Nothing held. 0 or -ENOMEM. */
int lg_sublimit_init(struct lg_sublimit *s, const struct lg_terms *terms, uint64_t now_ns);
void lg_sublimit_fini(struct lg_sublimit *s);
/*
 * A changed rule: the parts of it change with it, what is consumed stays consumed. Of a limit that is cut nobody has more from now on than his
 * part of the new one, whether the home can say so or not; of one that is raised he has what he had until it does.
 */
void lg_sublimit_terms(struct lg_sublimit *s, const struct lg_terms *old, const struct lg_terms *terms, uint64_t out_tok, uint64_t now_ns);

/* The limit that a grant tells, if it is a newer one. Returns whether something is to be given up for it: the home waits to hear so. */
bool lg_sublimit_follow(struct lg_sublimit *s, const struct lg_terms *terms, const struct lg_grant *grant, uint64_t out_tok,
			uint64_t now_ns);
/* tok tokens that hosts had were spent then, or a little before. */
void lg_sublimit_book(struct lg_sublimit *s, uint64_t tok, uint64_t spent_ns, uint64_t now_ns);
/* May be lent. */
uint64_t lg_sublimit_free_tok(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns);
/* Consumed, or at hosts. */
uint64_t lg_sublimit_used_tok(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns);
/* The most it holds until it is told more: never grows but by lg_sublimit_follow(). */
uint64_t lg_sublimit_held_tok(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns);
/* Gives all up but keep_tok and what hosts have; unasked, for good: only a newer version brings it back. */
void lg_sublimit_give_back(struct lg_sublimit *s, const struct lg_terms *terms, uint64_t keep_tok, uint64_t out_tok, uint64_t now_ns);
/* The lease is void: as after init. What was consumed of a window is added to history. */
void lg_sublimit_void(struct lg_sublimit *s, const struct lg_terms *terms, struct lg_slots *history, uint64_t now_ns);

/* What a message says of it. */
void lg_sublimit_tell(struct lg_sublimit *s, struct lg_ask *ask, uint64_t out_tok, uint64_t now_ns);
