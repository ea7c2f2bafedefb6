/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * When a holder speaks to its lessor about one key: the same for a host and for a region. Knows nothing of tokens but the numbers given;
 * keeps the numbering of messages, the times at which the last two were sent (a grant's life counts from there), and whether an
 * answer is awaited. Extra messages, sent while one is awaited, take numbers; of them only the last is remembered with its time. What
 * is the same for all keys of a connection is in the struct lg_upstream.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/holding.h"
#include "lease/msg.h"

/* Small: there is one for every key. */
struct lg_asker {
	uint64_t life;		/* the first of our numbers: names this memory of the key */
	uint64_t sent_64ns : 58;/* the last message but for extra ones, rounded down: sent earlier means that a lease ends earlier */
	uint64_t n_extra : 6;	/* sent after it while its answer was awaited */
	uint64_t n_sent : 33;	/* the last message has number life + n_sent - 1; enough for five years at the shortest tick */
	uint64_t awaits : 1;	/* an answer to the one that has its time in sent_64ns */
	uint64_t prev_open : 1;	/* the one before has not been answered either */
	uint64_t partial : 1;	/* the last answer was less than wanted: more will be pushed */
	uint64_t was_partial : 1;	/* as the last answer had it, whatever was sent since */
	uint64_t heard : 1;	/* a grant of this epoch has arrived */
	uint64_t flush : 1;	/* something to be told at the next chance */
	uint64_t refused : 1;	/* says nothing for a while */
	uint64_t n_tries : 4;	/* unanswered in a row */
	uint64_t status : 4;	/* enum lg_grant_status of the last answer */
	uint64_t epoch_high : 16;	/* of the lessor, when we last spoke of this key; 0 never */
	float sent_target_tok;
	union {
		uint16_t prev_gap_ms;	/* without extra ones: the message before was sent so much earlier; 0 that is not known */
		uint16_t extra_gap_16us;/* with them: the last of them was sent so much later (in 2^14 ns), rounded down */
	};
	uint16_t epoch_low;
};
_Static_assert(sizeof(struct lg_asker) == 32, "one for each key");

struct lg_asker_need {
	uint64_t own_tok;	/* held, unspent */
	uint64_t low_tok;
	uint64_t target_tok;	/* 0: wants nothing */
	bool wanting;		/* somebody below is short although own_tok is not low */
	bool news;		/* something changed that the lessor should know at the end of the period */
	uint64_t unreported_tok;/* spent since the last message */
	bool cramped;		/* what may be out is less than is spent in two round trips: it must be told soon to be lent again */
	uint64_t part_tok;	/* so much is told even to a lessor that had nothing to give; 0: half of target_tok */
};

enum lg_say { LG_SAY_NOTHING, LG_SAY_REPORT, LG_SAY_REQUEST };

/* Constants of the tier. */
struct lg_asker_pace {
	uint64_t gap_ns;	/* least time between two messages */
	uint64_t period_ns;
	uint64_t renew_ns;	/* a lease that is only kept is prolonged this often */
	uint64_t rtt_guess_ns;	/* until one was measured */
};

/* first_seq: larger than any number used before for the key; periods of keys that begin with the same number are in step. */
void lg_asker_init(struct lg_asker *a, uint64_t first_seq);
/* In an earlier memory of the key we last spoke to that life of the lessor. */
void lg_asker_spoke(struct lg_asker *a, uint32_t epoch);
/* Whether the lessor began another life since we last spoke of this key. */
bool lg_asker_is_behind(const struct lg_asker *a, const struct lg_upstream *u);
/* The stream is there, and a first message about to be sent. */
void lg_asker_up(struct lg_asker *a, const struct lg_upstream *u);

/* What to say now, and when to ask again if nothing changes. */
enum lg_say lg_asker_check(const struct lg_asker *a, const struct lg_upstream *u, const struct lg_asker_need *need,
			   const struct lg_asker_pace *pace, uint64_t now_ns, uint64_t *ret_due_ns);
/* When the last message was sent that is no extra one. */
uint64_t lg_asker_sent_ns(const struct lg_asker *a);
/* Numbers a message about to be sent. */
void lg_asker_sent(struct lg_asker *a, const struct lg_upstream *u, struct lg_ask *ask, uint64_t target_tok, uint64_t now_ns);
/* Whether a grant is for us: of the lessor's newest life, and an answer to this memory of the key. (Both ends may have forgotten the key
 * since and begun to count from 1 again.) */
bool lg_asker_is_addressed(const struct lg_asker *a, const struct lg_upstream *u, const struct lg_grant *grant);
/* It says what is granted; else it is a refusal. */
bool lg_grant_is_answer(const struct lg_grant *grant);
/* A grant addressed to us arrived. Returns when the message it names was sent, of an extra one when that was sent which it followed; 0 if
 * that is not known: it is older than the last two. */
uint64_t lg_asker_answered(struct lg_asker *a, struct lg_upstream *u, const struct lg_grant *grant, uint64_t now_ns);

/* Nothing can be had from above: the stream is down, or two messages in a row had no answer in time. */
bool lg_asker_is_cut_off(const struct lg_asker *a, const struct lg_upstream *u);

/* Why somebody is refused for want of tokens. */
enum lg_want_reason {
	LG_WANT_LIMIT,		/* the lessor has no more to give now */
	LG_WANT_PENDING,	/* more is on its way, or nothing was answered yet */
	LG_WANT_OVERLOADED,	/* the lessor has too much to do */
	LG_WANT_UNREACHABLE,	/* nobody answers, here or further up */
};
enum lg_want_reason lg_asker_reason(const struct lg_asker *a, const struct lg_upstream *u);

uint64_t lg_asker_rtt_ns(const struct lg_upstream *u, const struct lg_asker_pace *pace);
