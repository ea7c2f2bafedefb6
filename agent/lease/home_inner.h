/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the files of a home share among themselves; nobody outside includes it. */
#pragma once

#include "lease/arith.h"
#include "lease/budget.h"
#include "lease/home.h"
#include "lease/ledger.h"

#define LG_HOME_USED_SLOTS 512	/* grain of a holder's part of the window: only fairness hangs on it */

/* A window's part of an account, at the same place in its array. */
struct home_part {
	struct lg_slots used;		/* what the holder spent of the window */
	uint64_t lowest_mtps[2];	/* its demand, in this stretch of time and the one before */
	uint64_t stretch_ns;		/* when this one began */
};

/* What most keys do without. */
struct home_more {
	bool recovering;
	bool changing;			/* it is not of an earlier life: windows of another length begin */
	bool marked;			/* the earlier life left a mark */
	uint64_t settle_ns;		/* it ends at the latest */
	uint64_t unknown_tok;		/* recovering. Token bucket: not told yet; window: out by the mark, or spent since */
	uint64_t past_tok;		/* window, recovering: spent before the mark, and in the window until then: */
	uint64_t past_until_ns;
	struct lg_escrow *escrow;	/* only what was made durable before is lent; NULL: all that is free */
	/* windows */
	struct home_part *parts;
	uint32_t cap;
	uint64_t level_tok;		/* of the last division: nobody holds and has spent more; UINT64_MAX none */
	struct lg_limits *limits;	/* the key lends parts of the limit; nothing else here is used then */
};

struct lg_home {
	struct lg_budget budget;
	struct lg_ledger ledger;
	struct lg_lessor *lessor;
	struct home_more *more;		/* windows have it, whoever is recovering, and who lends by marks */
};
_Static_assert(sizeof(struct lg_home) + sizeof(struct lg_holder) <= 160, "a key with one holder has 160 bytes");

static inline bool is_window(const struct lg_home *h)
{
	return h->lessor->terms->algorithm != LG_TOKEN_BUCKET;
}

static inline bool is_fixed(const struct lg_home *h)
{
	return h->lessor->terms->algorithm == LG_FIXED_WINDOW;
}

/* Of a fixed window. */
static inline uint64_t window_end_ns(const struct lg_home *h)
{
	return h->budget.at_ns;
}

static inline bool is_recovering(const struct lg_home *h)
{
	return h->more && h->more->recovering;
}

static inline struct lg_escrow *escrow_of(const struct lg_home *h)
{
	return h->more ? h->more->escrow : NULL;
}

static inline struct home_part *part_of(const struct lg_home *h, const struct lg_holder *account)
{
	return h->more && h->more->parts ? &h->more->parts[account - h->ledger.v] : NULL;
}

/* ---- home.c ---- */

uint64_t lg_home_consumed_tok(struct lg_home *h, uint64_t now_ns);
uint64_t lg_home_unknown_tok(struct lg_home *h, uint64_t now_ns);
/* Could be lent, were all of it reserved. */
uint64_t lg_home_free_tok(struct lg_home *h, uint64_t now_ns);

/* ---- home_escrow.c: what is durable, and what an earlier life left ---- */

/* It lends by marks from now on. 0 or -ENOMEM. */
int lg_home_escrow_begin(struct lg_home *h);
void lg_home_escrow_end(struct home_more *more);
/* What of an earlier life counts in the window, as long as nobody has told. */
uint64_t lg_home_past_tok(const struct lg_home *h, uint64_t now_ns);
/* An earlier life left this mark: what may be lent beside it. */
void lg_home_escrow_inherit(struct lg_home *h, const struct lg_escrow_mark *mark, uint64_t since_ns);
/* So much of what is free is reserved. */
uint64_t lg_home_reserved_tok(const struct lg_home *h, uint64_t free_tok);
/* Asks for a mark, if one is due. */
void lg_home_escrow_look(struct lg_home *h, uint64_t now_ns, const struct lg_home_effects *fx);

/* ---- home_fair.c: fair parts of a window ---- */

/* What its message tells of how much the holder has been asking for. */
void lg_home_see_demand(const struct lg_home *h, const struct lg_holder *holder, uint64_t now_ns);
/* How much each may hold and have spent at most; UINT64_MAX: as much as it wants. */
uint64_t lg_home_level_tok(const struct lg_home *h);
/* The most that this one may hold. */
uint64_t lg_home_most_tok(const struct lg_home *h, const struct lg_holder *holder, uint64_t now_ns);
