/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Who holds what of one key: the account a lessor keeps of each holder, and the division of what is free among them. The same at a
 * home and at a region; what differs is where the free tokens come from and who books what was spent.
 *
 * Outstanding = granted - spent - returned, per holder and in sum, is what the lessor may not lend again. It shrinks only by a report
 * of the same lease (same incarnation, same generation, a newer seq) or by a lapse, and whatever leaves it as spent is handed
 * to the caller to be booked: nothing is lost between the two.
 *
 * There are a million keys with a few holders each, so an account is one cache line, and no message touches more than its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/lessor.h"
#include "lease/msg.h"
#include "lease/note.h"
#include "lease/slots.h"
#include "lease/succession.h"

#define LG_LEDGER_FEW 64u	/* up to so many accounts each message is followed by a division; of more, at the tick only */

struct lg_holder {
	uint64_t want_tok : 41;		/* at most LG_BURST_MAX_TOK, as is what it holds */
	uint64_t ends_ms : 23;		/* the lease lapses so long after asked_ns: no earlier than the holder stops spending it */
	uint64_t outstanding_tok : 41;	/* what it returned is granted - spent - outstanding */
	uint64_t index : 13;		/* the role's */
	uint64_t untold : 1;		/* was given tokens that no grant has told yet */
	uint64_t owner : 1;		/* of a small limit: is served first */
	uint64_t weight : 8;		/* hosts behind it: who has more gets more, where there is too little */
	uint64_t seq;			/* last message processed. A message whose life is later is of another memory of the key */
	uint64_t granted_tok;		/* totals of the generation */
	uint64_t spent_tok;
	uint64_t asked_ns;		/* when message seq was processed: what a grant's ttl counts from here */
	uint32_t generation;
	uint32_t incarnation;		/* the role's count of the holder's lives */
	uint32_t slot;			/* last slot booked of this memory of the key */
	float demand_mtps;		/* a whole number */
};
_Static_assert(sizeof(struct lg_holder) == 64, "an account is one cache line");
_Static_assert(LG_BURST_MAX_TOK < 1ull << 41, "what a holder wants and holds has 41 bits");
_Static_assert(LG_HOLDERS_MAX < 1u << 13, "holders are counted in 13 bits");

struct lg_ledger {
	struct lg_holder *v;		/* sorted by index */
	uint64_t outstanding_tok;	/* sums over holders */
	uint64_t want_tok;
	uint64_t demand_mtps;
	uint64_t end_ns;		/* no holder's lease ends before this */
	uint64_t n : 13;
	uint64_t cap : 13;
	uint64_t n_short : 13;		/* who want more than they hold */
	uint64_t next : 13;		/* whose turn it is to be told */
	uint64_t untold : 1;		/* somebody is */
	uint64_t _unused : 11;
};
_Static_assert(sizeof(struct lg_ledger) == 48, "a ledger is a part of each key");

void lg_ledger_init(struct lg_ledger *l);
void lg_ledger_fini(struct lg_ledger *l);
/* Of its accounts. */
size_t lg_ledger_bytes(const struct lg_ledger *l);

struct lg_holder *lg_ledger_find(const struct lg_ledger *l, uint32_t index);
/* Find or open the account of a holder. A new one's lease is one generation later than the one the message is of: what the holder has
 * of that is not in this ledger. 1 new, 0 found, -EINVAL or -ENOMEM. Pointers to holders end with each new one. */
int lg_ledger_open(struct lg_ledger *l, uint32_t index, uint32_t incarnation, uint32_t generation, struct lg_holder **ret_holder);
/* A new account takes over the lease as the message tells it: what is out of an earlier life's grants. */
void lg_ledger_adopt(struct lg_ledger *l, struct lg_holder *h, const struct lg_ask *ask);

/* What a message changed, to be booked by the caller. */
struct lg_news {
	uint64_t lapsed_tok;	/* of a lease that ended with this message: spent now */
	uint32_t lapsed_generation;
	uint64_t spent_tok;	/* sum of the parts */
	uint64_t returned_tok;
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
enum lg_ledger_outcome lg_ledger_ask(struct lg_ledger *l, struct lg_holder *h, uint32_t incarnation, const struct lg_ask *ask,
				     uint64_t now_ns, struct lg_news *ret_news);

/* What the lessor tells as its own weight: hosts that use the key, all holders' together. Where the budget is a handful of tokens, 1: they
 * go to whoever asks, one at a time. */
uint32_t lg_ledger_hosts(const struct lg_ledger *l, const struct lg_terms *terms);

/* Ends the lease for good. Returns what was outstanding, to be booked as spent now. */
uint64_t lg_ledger_lapse(struct lg_ledger *l, struct lg_holder *h);
/* A new generation, because the lessor's own lease is void. Returns what the holder may still have spent of the old one. */
uint64_t lg_ledger_void(struct lg_ledger *l, struct lg_holder *h);
/* Calls lapsed() for each lease that ended, as soon as now_ns passes end_ns. */
void lg_ledger_expire(struct lg_ledger *l, uint64_t now_ns, void (*lapsed)(void *arg, struct lg_holder *h, uint64_t tok), void *arg);

/* Max-min fair by weight: nobody gets more than it wants, nobody less per host behind it than another who wants more; the last few tokens
 * go round from a random start. Only to holders whose lease goes on. most_tok, one for each account in their order or NULL: may hold no
 * more than this, whatever it wants. Who gets something is untold. Returns what was given.
 *
 * Under terms with an owner, whoever asks for most is served first, whole, and stays the owner until another asks for twice as much:
 * a few tokens split among many are of no use to anybody. */
uint64_t lg_ledger_divide(struct lg_ledger *l, struct lg_lessor *lessor, uint64_t free_tok, const uint64_t *most_tok, uint64_t now_ns,
			  void (*given)(void *arg, struct lg_holder *h, uint64_t tok), void *arg);
/* The height of water that fills vessels as high as the wants with tok tokens, and a token more for the odd ones: a most_tok that leaves
 * holders with even stocks rather than giving each as much. */
uint64_t lg_ledger_level_tok(const struct lg_ledger *l, uint64_t tok);
/* Whether h can be served out of free_tok without a look at the other accounts: of a few, when nobody else is short; of many, when a
 * division would give it all it wants too. (What the others would get waits for the tick.) */
bool lg_ledger_serves_alone(const struct lg_ledger *l, const struct lg_lessor *lessor, const struct lg_holder *h, uint64_t free_tok);

/* tok tokens, which the caller has, go to h, who is untold then. */
void lg_ledger_give(struct lg_ledger *l, struct lg_holder *h, uint64_t tok);
/* Calls tell() for up to n of those who are untold, beginning where it ended last. */
void lg_ledger_tell(struct lg_ledger *l, uint32_t n, void (*tell)(void *arg, struct lg_holder *h), void *arg);
/* How many of them may be told at one tick: all of a few, so that nobody waits; of many, so few that their answers do not come in a
 * herd. */
uint32_t lg_ledger_tell_max(const struct lg_ledger *l, uint64_t tick_ns);

/* The lease runs for ttl_ns from the last message, at least; grace_ns more until it lapses. */
void lg_ledger_prolong(struct lg_ledger *l, struct lg_holder *h, uint64_t ttl_ns, uint64_t grace_ns);
/* Fills a grant to h that answers its last message, or pushes; prolongs the lease as promised. */
void lg_ledger_grant(struct lg_ledger *l, const struct lg_lessor *lessor, struct lg_holder *h, uint64_t ttl_ns,
		     struct lg_grant *ret_grant);

static inline uint64_t lg_holder_outstanding_tok(const struct lg_holder *h)
{
	return h->outstanding_tok;
}

static inline uint64_t lg_holder_returned_tok(const struct lg_holder *h)
{
	return h->granted_tok - h->spent_tok - h->outstanding_tok;
}

static inline uint64_t lg_holder_unmet_tok(const struct lg_holder *h)
{
	return h->want_tok > h->outstanding_tok ? h->want_tok - h->outstanding_tok : 0;
}

static inline uint64_t lg_holder_expires_ns(const struct lg_holder *h)
{
	return h->asked_ns + h->ends_ms * 1000000ull;
}

/* Every holder that may have a lease of an earlier life has told of it: this key's by a message, the others by having told all. */
bool lg_ledger_knows_all(const struct lg_ledger *l, const struct lg_succession *s);

/* What has just changed on h's account, of the lease of that generation. */
struct lg_note lg_ledger_note(enum lg_note_kind kind, const struct lg_lessor *lessor, const struct lg_holder *h, uint32_t generation,
			      uint64_t tok);

/* Messages out of all bounds are not processed. */
bool lg_ask_is_sane(const struct lg_ask *ask);
