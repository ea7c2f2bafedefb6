/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * When a holder speaks to its lessor: the same for a host and for a region. Knows nothing of tokens but the numbers given; keeps the
 * numbering of messages, the round trip, the times at which messages were sent (a grant's life counts from there), and whether
 * an answer is awaited.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/msg.h"
#include "lease/terms.h"

#define LG_ASKER_SENDS 8	/* send times remembered; a grant that names an older message prolongs nothing */

struct lg_asker {
	bool up;		/* the stream to the lessor is there */
	bool awaits;		/* an answer, since sent_ns */
	bool partial;		/* the last answer was less than wanted: more will be pushed */
	bool heard;		/* a grant of this epoch has arrived */
	bool flush;		/* something to be told at the next chance */
	uint8_t n_tries;	/* unanswered in a row */
	uint8_t n_sends;
	uint8_t last_send;
	uint32_t epoch;		/* newest of the lessor, 0 none */
	uint64_t life;		/* the first of our numbers: names this memory of the key */
	uint64_t seq;		/* of the last message sent */
	uint64_t answered_seq;
	uint64_t sent_ns;
	uint64_t period_end_ns;	/* a report is due */
	uint64_t quiet_ns;	/* refused: says nothing before this */
	uint64_t rtt_ns;	/* smoothed; 0 not measured yet */
	uint64_t sent_target_tok;
	uint64_t rand;
	struct {
		uint64_t seq;
		uint64_t at_ns;
	} sends[LG_ASKER_SENDS];
};

struct lg_asker_need {
	uint64_t own_tok;	/* held, unspent */
	uint64_t low_tok;
	uint64_t target_tok;	/* 0: wants nothing */
	bool wanting;		/* somebody below is short although own_tok is not low */
	bool news;		/* something changed that the lessor should know at the end of the period */
	uint64_t unreported_tok;/* spent since the last message */
};

enum lg_say { LG_SAY_NOTHING, LG_SAY_REPORT, LG_SAY_REQUEST };

/* Constants of the tier. */
struct lg_asker_pace {
	uint64_t gap_ns;	/* least time between two messages */
	uint64_t period_ns;
	uint64_t renew_ns;	/* a lease that is only kept is prolonged this often */
	uint64_t rtt_guess_ns;	/* until one was measured */
};

void lg_asker_init(struct lg_asker *a, uint64_t first_seq, uint64_t seed);
/* The stream is there, to a lessor in that life. False: it is an older one than we know, and stays unheard. */
bool lg_asker_up(struct lg_asker *a, uint32_t epoch);
void lg_asker_down(struct lg_asker *a);

/* What to say now, and when to ask again if nothing changes. */
enum lg_say lg_asker_check(struct lg_asker *a, const struct lg_asker_need *need, const struct lg_asker_pace *pace, uint64_t now_ns,
			   uint64_t *ret_due_ns);
/* Numbers a message about to be sent. */
void lg_asker_sent(struct lg_asker *a, struct lg_ask *ask, const struct lg_asker_pace *pace, uint64_t target_tok, uint64_t now_ns);
/* Whether a grant is for us: of the lessor's newest life, and an answer to this memory of the key. (Both ends may have forgotten the key
 * since and begun to count from 1 again.) */
bool lg_asker_is_addressed(const struct lg_asker *a, const struct lg_grant *grant);
/* A grant addressed to us arrived. Returns when the message it names was sent, 0 if that is not known. */
uint64_t lg_asker_answered(struct lg_asker *a, const struct lg_grant *grant, uint64_t now_ns);

uint64_t lg_asker_rtt_ns(const struct lg_asker *a, const struct lg_asker_pace *pace);
