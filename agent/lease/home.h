/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One key at its home: mints the budget by the rule and leases it to regions, so that consumption known + outstanding + unknown <= budget
 * at every moment (token bucket), or <= limit in every trailing window (sliding window), or in each window (fixed). See lease/home.c for
 * the proof.
 */
#pragma once

#include "base/mem.h"
#include "lease/escrow.h"
#include "lease/lessor.h"
#include "lease/msg.h"
#include "lease/note.h"

struct lg_home;

struct lg_home_effects {
	void *arg;
	void (*grant)(void *arg, uint32_t holder, const struct lg_grant *grant);
	void (*note)(void *arg, const struct lg_note *note);	/* what changes on the books; NULL: nobody keeps them */
	void (*reserve)(void *arg);	/* a mark is due: see lg_home_mark(). Of lessors that reserve */
};

/* The lessor is the rule's. With a succession the key starts with an empty pool and everything unknown. */
int lg_home_new(struct lg_lessor *lessor, uint64_t now_ns, struct lg_home **ret_home);
/* What is known of the time before, where all that was lent was marked. */
struct lg_home_past {
	uint64_t since_ns;			/* this life lends the key since then; 0: nothing that was lent before still counts */
	const struct lg_escrow_mark *mark;	/* the last one; NULL: there is none, and all is unknown */
};
int lg_home_new_after(struct lg_lessor *lessor, const struct lg_home_past *past, uint64_t now_ns, struct lg_home **ret_home);
struct lg_home *lg_home_free(struct lg_home *home);
LG_CLEANUP(struct lg_home, lg_home_free)
/* A changed limit, before the lessor's terms are set: what was spent stays spent. Of a limit that was cut each holder is told at once to
 * give back what it holds beyond its part. */
void lg_home_terms(struct lg_home *h, const struct lg_terms *terms, uint64_t now_ns, const struct lg_home_effects *fx);

void lg_home_ask(struct lg_home *h, uint32_t holder, uint32_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		 const struct lg_home_effects *fx);
/* Each home tick. Returns when it next wants to be called; a message in between makes it due at the next tick. */
uint64_t lg_home_tick(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx);

/* Does it lend only by marks that are durable? (Parts of a limit, and keys there was no memory for, are lent without.) */
bool lg_home_reserves(const struct lg_home *h);
/* A mark of the key as it is now, on its way from now on; what was said to be due is done with it. last: no reserve, nothing more is lent
 * by it. There is one at a time: false while another is on its way, or it does not reserve. */
bool lg_home_mark(struct lg_home *h, bool last, uint64_t now_ns, struct lg_escrow_mark *ret_mark);
/* It is durable, and what waited for that is lent; or it is not, or nobody knows. Returns as lg_home_tick(). */
uint64_t lg_home_marked(struct lg_home *h, bool is_durable, uint64_t now_ns, const struct lg_home_effects *fx);

/* Budget full, nothing out, nothing unknown: forgetting it changes nothing. */
bool lg_home_is_idle(struct lg_home *h, uint64_t now_ns);

struct lg_home_view {
	uint64_t budget_tok;
	uint64_t pool_tok;		/* could be granted now */
	uint64_t outstanding_tok;	/* at holders */
	uint64_t consumed_tok;		/* token bucket: not yet refilled; window: booked in the trailing window */
	uint64_t unknown_tok;		/* of an earlier life */
	uint64_t reserved_tok;		/* of what could be granted: so much is durable; 0 where nothing is reserved */
	uint64_t window_end_ns;		/* fixed windows: of this one */
	uint32_t n_holders;
};
void lg_home_view(struct lg_home *h, uint64_t now_ns, struct lg_home_view *ret);
/* Of the view, for who looks after each message. */
uint64_t lg_home_outstanding_tok(const struct lg_home *h);
/* One holder's line of the ledger; 0, or -ENOENT. */
struct lg_holder_view {
	uint32_t generation;
	uint64_t granted_tok;
	uint64_t spent_tok;
	uint64_t returned_tok;
	uint64_t expires_ns;
	uint64_t demand_mtps;
	uint64_t want_tok;
};
int lg_home_holder(const struct lg_home *h, uint32_t holder, struct lg_holder_view *ret);

/* What the key takes of memory, all its parts. */
size_t lg_home_bytes(const struct lg_home *h);
