/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Of one key at its home: how much may be lent, because it is durable that it may be. A *mark* is what is written down: how much of the
 * budget was consumed or out when it was made, and what may be lent beyond that, the reserve, until another mark is durable. Whoever takes
 * over finds the last mark, and knows what is out at most, whether or not anybody tells.
 *
 * No clock and no I/O: the home makes marks, its role makes them durable and says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/terms.h"

struct lg_escrow_mark {
	uint64_t consumed_tok;	/* of what was lent, known to be spent: a bucket has it back at its rate, a window within its length */
	uint64_t out_tok;	/* all else that was or will be lent before another mark is durable */
	uint64_t next_tok;	/* fixed windows: what will be lent in the window that begins with window_end_ns */
	uint64_t window_end_ns;	/* fixed windows: of the one that the two first count in; else 0 */
	uint64_t per_ns;	/* length of windows; of a bucket it says nothing */
};

/* So far may it lend by one mark. */
struct lg_escrow_line {
	uint64_t window_end_ns;
	uint64_t lent_tok;	/* the most that lent_tok may become */
	uint64_t next_tok;
};

/* When a mark was made, and of what. */
struct lg_escrow_made {
	uint64_t at_ns;			/* 0: none was */
	uint64_t lent_tok;
	uint64_t size_tok;		/* of its reserve */
	uint64_t marked_tok;		/* what it says is consumed or out */
};

/* All zeros: nothing is durable, nothing may be lent. */
struct lg_escrow {
	uint64_t lent_tok;		/* in this life of the key, whatever came back of it */
	uint64_t turn_tok;		/* lent_tok when the window began */
	struct lg_escrow_line durable;	/* by each mark that may be the one that is durable */
	struct lg_escrow_line asked;	/* by the one that is on its way */
	struct lg_escrow_made last, next;	/* the last one known to be durable; the one on its way */
	bool is_asked;			/* one is */
	uint64_t pace_tok;		/* lent in a period, as it has been lately */
	uint64_t pace_ns;		/* the stretch of time at hand began then; 0: none did */
	uint64_t pace_lent_tok;
};

/* What the home knows when it makes a mark. */
struct lg_escrow_books {
	uint64_t consumed_tok;
	uint64_t out_tok;		/* lent or unknown */
	uint64_t most_out_tok;		/* no more than this is ever out, unless it is now */
	uint64_t budget_tok;
	uint64_t window_end_ns;
};

/* Now, in the window that ends then (0: no fixed ones) and is so long. */
uint64_t lg_escrow_left_tok(const struct lg_escrow *e, uint64_t window_end_ns, uint64_t per_ns);
void lg_escrow_lent(struct lg_escrow *e, uint64_t tok);
/* Another fixed window has begun. */
void lg_escrow_turn(struct lg_escrow *e);
/* What marks say no longer holds: the rule has another limit. Nothing may be lent before another is durable. */
void lg_escrow_void(struct lg_escrow *e);

/*
 * How much the next reserve is to be: what is lent in two periods at the pace of the last one, which falls by half at most with each. A reserve
 * that was used up within a period is at least doubled, so that however fast a key becomes busy it soon asks once a period.
 * wanted_tok: what could be lent right now, were it reserved.
 */
uint64_t lg_escrow_size_tok(struct lg_escrow *e, const struct lg_terms *t, uint64_t wanted_tok, uint64_t now_ns);
/*
 * Is another mark due? The reserve is used up but for a quarter, or somebody waits for it; or the last mark says of much more than a
 * sixteenth of the budget that it is consumed or out, which it is no longer, and is four periods old.
 */
bool lg_escrow_is_due(const struct lg_escrow *e, const struct lg_terms *t, const struct lg_escrow_books *books, uint64_t left_tok,
		      uint64_t wanted_tok, uint64_t now_ns);
/* When it may become due by time alone. */
uint64_t lg_escrow_due_ns(const struct lg_escrow *e, const struct lg_terms *t);

/* A mark with a reserve of size_tok (0: the last one, which gives back what is not used). It is on its way from now on. */
void lg_escrow_mark(struct lg_escrow *e, const struct lg_terms *t, const struct lg_escrow_books *books, uint64_t size_tok, uint64_t now_ns,
		    struct lg_escrow_mark *ret_mark);
/* What became of it: it is durable, or it is not, or (which is the same) nobody knows. */
void lg_escrow_marked(struct lg_escrow *e, bool is_durable);
