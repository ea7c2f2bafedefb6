/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Who holds what of one key: the account a lessor keeps of each holder, and the division of what is free among them. The same at a
 * home and at a region; what differs is where the free tokens come from and who books what was spent.
 *
 * Outstanding = granted - spent - returned, per holder and in sum, is what the lessor may not lend again. It shrinks only by a report
 * of the same lease (same incarnation, same generation, a newer seq) or by a lapse, and whatever leaves it as spent is handed
 * to the caller to be booked: nothing is lost between the two.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/msg.h"
#include "lease/slots.h"
#include "lease/succession.h"

struct lg_holder {
	uint32_t index;			/* the role's */
	uint32_t generation;
	uint64_t incarnation;
	uint64_t life;			/* of the holder's memory of the key */
	uint64_t seq;			/* last message processed */
	uint64_t slot;			/* last slot booked */
	uint64_t granted_tok;		/* totals of the generation */
	uint64_t spent_tok;
	uint64_t returned_tok;
	uint64_t asked_ns;		/* when message seq was processed: what a grant's ttl counts from here */
	uint64_t expires_ns;		/* when the lease lapses: no earlier than the holder stops spending it */
	uint64_t demand_mtps;
	uint64_t want_tok;
	uint64_t most_tok;		/* may hold no more than this, whatever it wants */
	uint64_t give_tok;		/* what the last division gave and no grant has told yet */
	struct lg_slots *used;		/* what it spent of a window, where the home divides by it */
	uint64_t lowest_mtps[2];	/* demand, in this stretch of time and the one before, kept by the home of a window */
	uint64_t stretch_ns;		/* when this one began */
};

struct lg_ledger {
	struct lg_holder *v;		/* sorted by index */
	uint32_t n;
	uint32_t cap;
	uint32_t epoch;
	uint64_t outstanding_tok;	/* sums over holders */
	uint64_t want_tok;
	uint64_t unmet_tok;		/* of want - outstanding where positive */
	uint64_t demand_mtps;
	uint64_t end_ns;		/* no holder's lease ends before this */
	uint64_t rand;
};

void lg_ledger_init(struct lg_ledger *l, uint32_t epoch, uint64_t seed);
void lg_ledger_fini(struct lg_ledger *l);

struct lg_holder *lg_ledger_find(const struct lg_ledger *l, uint32_t index);
/* Find or open the account of a holder. A new one's lease is one generation later than the one the message is of: what the holder has
 * of that is not in this ledger. 1 new, 0 found, -EINVAL or -ENOMEM. Pointers to holders end with each new one. */
int lg_ledger_open(struct lg_ledger *l, uint32_t index, uint64_t incarnation, uint32_t generation, struct lg_holder **ret_holder);
/* A new account takes over the lease as the message tells it: what is out of an earlier life's grants. */
void lg_ledger_adopt(struct lg_ledger *l, struct lg_holder *h, const struct lg_ask *ask);

/* What a message changed, to be booked by the caller. */
struct lg_news {
	uint64_t lapsed_tok;	/* of a lease that ended with this message: spent now */
	uint64_t spent_tok;	/* sum of the parts */
	size_t n_parts;
	struct {
		uint64_t tok;
		uint64_t age_ms;
	} parts[LG_SLOTS_MAX + 1];
};

enum lg_ledger_outcome {
	LG_LEDGER_BOOKED = 1,	/* answer it */
	LG_LEDGER_REPEATED,	/* nothing new: answer as before */
	LG_LEDGER_STALE,	/* of an earlier life of the holder: no answer */
};
enum lg_ledger_outcome lg_ledger_ask(struct lg_ledger *l, struct lg_holder *h, uint64_t incarnation, const struct lg_ask *ask,
				     uint64_t now_ns, struct lg_news *ret_news);

/* Ends the lease for good. Returns what was outstanding, to be booked as spent now. */
uint64_t lg_ledger_lapse(struct lg_ledger *l, struct lg_holder *h);
/* A new generation, because the lessor's own lease is void. Returns what the holder may still have spent of the old one. */
uint64_t lg_ledger_void(struct lg_ledger *l, struct lg_holder *h);
/* h may hold at most most_tok from now on, whatever it wants. */
void lg_ledger_cap(struct lg_ledger *l, struct lg_holder *h, uint64_t most_tok);
/* Calls lapsed() for each lease that ended, as soon as now_ns passes end_ns. */
void lg_ledger_expire(struct lg_ledger *l, uint64_t now_ns, void (*lapsed)(void *arg, struct lg_holder *h, uint64_t tok), void *arg);

/* Max-min fair: nobody gets more than it wants, nobody less than another who wants more; the last few tokens go round from a random
 * start. Only to holders whose lease goes on; each gets give_tok, in its account already. Returns what was given. */
uint64_t lg_ledger_divide(struct lg_ledger *l, uint64_t free_tok, uint64_t now_ns, uint64_t grace_ns);

/* tok tokens, which the caller has, go to h. */
void lg_ledger_give(struct lg_ledger *l, struct lg_holder *h, uint64_t tok);

/* The lease runs for ttl_ns from the last message, at least; grace_ns more until it lapses. */
void lg_ledger_prolong(struct lg_ledger *l, struct lg_holder *h, uint64_t ttl_ns, uint64_t grace_ns);
/* Fills a grant to h that answers its last message, or pushes; takes give_tok as told and prolongs the lease as promised. */
void lg_ledger_grant(struct lg_ledger *l, struct lg_holder *h, uint64_t ttl_ns, uint64_t grace_ns, struct lg_grant *ret_grant);

uint64_t lg_holder_outstanding_tok(const struct lg_holder *h);
uint64_t lg_holder_unmet_tok(const struct lg_holder *h);

/* Every holder that may have a lease of an earlier life has told of it: this key's by a message, the others by having told all. */
bool lg_ledger_knows_all(const struct lg_ledger *l, const struct lg_succession *s);

/* Messages out of all bounds are not processed. */
bool lg_ask_is_sane(const struct lg_ask *ask);
