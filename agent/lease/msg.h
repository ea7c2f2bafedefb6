/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What holders and lessors tell each other about one key, as structs. Totals, never differences: loss, repetition and reordering
 * are harmless. Durations, never dates: each end ages them on its own monotonic clock.
 *
 * A *holder* (a host, or a region towards the key's home) has a lease from a *lessor*. A lease is named by (key, holder, epoch,
 * generation): `epoch` counts the lives of the lessor, `generation` the leases that lapsed; all totals restart with a generation.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "leasegate/bounds.h"
#include "rules/rule.h"

/* Tokens spent by traffic in one slot of time, as a part of spent_tok. */
struct lg_slot {
	uint64_t id;		/* grows with each slot of this holder and key; a lessor books an id once */
	uint64_t age_ms;	/* since the END of the slot, never overstated; at each tier a little is taken off (clock rate errors) */
	uint64_t tok;
};

/* Holder to lessor: a request (want_tok may be granted) or a report (it may not); both carry the usage so far. */
struct lg_ask {
	uint64_t seq;		/* grows with each message of this holder and key, also over a restart of the agent */
	uint64_t life;		/* first seq of this memory of the key: one that forgot the key and starts anew (generation 0) has another
				 * life, so the lessor lapses what it still has on its books and starts a new generation for it; without
				 * this a grant total of the old generation would look like new tokens to a holder that forgot it */
	uint32_t epoch;		/* newest epoch of the lessor this holder knows; 0 none */
	uint32_t generation;	/* of the lease whose totals follow; 0 none yet (a lessor's generations start at 1) */
	bool request;
	uint64_t granted_tok;	/* totals within the generation, as this holder knows them */
	uint64_t spent_tok;	/* by traffic; at a region: by its hosts, as far as reported, with what it lapsed itself */
	uint64_t returned_tok;	/* unspent and given back; spent + returned <= granted */
	uint64_t want_tok;	/* request: what it would like to hold unspent */
	uint64_t demand_mtps;	/* offered demand, thousandths of a token per second, clamped as the rules of demand say */
	uint64_t peak_tok;	/* largest cost seen in one round trip */
	uint32_t hosts;		/* behind it that use the key: its weight when there is too little. 0 counts as 1, more than 255 as 255 */
	/* What it has: tokens that are spent once (LG_LEASE_BLOCK), or a limit of its own that it runs itself (LG_LEASE_LIMIT). Of a limit: */
	enum lg_lease_kind kind;
	uint32_t limit_version;	/* the one it runs; 0 none yet */
	uint64_t held_tok;	/* the most it holds until it is told more: its limit, or what is consumed and lent if that is more */
	uint32_t held_permille;	/* token bucket: of the rule's rate, as it mints */
	size_t n_slots;		/* slots not yet acknowledged, oldest first */
	struct lg_slot slots[LG_SLOTS_MAX];
	size_t n_history;	/* first message to a new epoch, windows: what was spent in the last window, lapsed leases included */
	struct lg_slot history[LG_HISTORY_MAX];
};

enum lg_grant_status {
	LG_GRANT_OK = 0,
	LG_GRANT_UNKNOWN_RULE,		/* the lessor has no such rule, or with another fingerprint: nothing is granted */
	LG_GRANT_NOT_HOME,		/* under the newest region list this key lives elsewhere */
	LG_GRANT_OVERLOADED,		/* too many keys or requests; ask again later */
	LG_GRANT_RECOVERING,		/* a successor is learning what is out; nothing can be granted yet */
	LG_GRANT_UNREACHABLE,		/* a region's own lessor is silent and it has nothing left to lend; else as OK */
	LG_GRANT_NOT_OWNER,		/* another server of the lessor has the key's slot */
};

/* Lessor to holder: the answer to `ack_seq`, or unasked. */
struct lg_grant {
	uint64_t ack_seq;	/* last message processed */
	uint64_t ack_slot;	/* last slot booked */
	uint32_t epoch;
	uint32_t generation;
	uint64_t granted_tok;	/* total within the generation */
	uint64_t ttl_ms;	/* the lease ends this long after the holder SENT message ack_seq */
	uint64_t cap_tok;	/* the most it may hold unspent: sizes its period, and what it holds beyond goes back at once; 0 unknown */
	bool partial;		/* less than it wants: more is pushed when there is more */
	enum lg_lease_kind kind;
	/* LG_LEASE_LIMIT: the holder's limit from now on. */
	uint32_t limit_version;	/* grows with each change for this holder and generation */
	uint64_t limit_tok;	/* token bucket: burst; window: limit */
	uint32_t limit_permille;/* token bucket: of the rule's rate */
	enum lg_grant_status status;
};
