/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * How the servers of one lessor come to own its slots, and to own them no more: what one of them has to do, from what all can see. A slot is
 * claimed by a server that is known to be there, in one session of its being so; with the session the claim ends.
 */
#pragma once

#include "lease/slot_map.h"

#define LG_SLOTS_GIVEN_AT_ONCE (LG_KEY_SLOTS / 4)

/* Who has a slot, as all can see. */
struct lg_slot_claim {
	char name[LG_NAME_LEN];		/* "": nobody */
	uint32_t session, epoch;
	uint64_t revision;
};

/* A server's being there, as it knows itself: until when on its own clock that is certain; 0: it is not. */
struct lg_presence {
	uint32_t session;
	uint64_t until_ns;
};

/* May a server lend now by what it claimed in that session? */
bool lg_presence_covers(const struct lg_presence *here, uint32_t session, uint64_t now_ns);

/* May the server of that name claim it, in that session? A claim that it made in an earlier one is nobody's any more. */
bool lg_slot_claim_is_free(const struct lg_slot_claim *claim, const char *name, uint32_t session);

/* What one server of n, the one with index self, sees. */
struct lg_claims_sight {
	size_t n;
	uint8_t self;
	uint8_t owner[LG_KEY_SLOTS];	/* an index, or LG_NO_REPLICA: free, or of somebody who is not there any more */
	struct lg_slot_set free;	/* can be claimed now */
	struct lg_slot_set held;	/* it is their owner */
};
/* Slots that it should claim, and such that it should give away: as long as there are any of these, it claims nothing. */
struct lg_claims_plan {
	struct lg_slot_set claim, give;
};
void lg_claims_plan(const struct lg_claims_sight *sight, struct lg_claims_plan *ret_plan);

/* The epoch of a new claim: above the newest there was, and not below the wall clock, should that have been lost. */
uint64_t lg_claims_epoch(uint64_t newest, uint64_t unix_s);

/* What a new owner has to suppose of a slot's earlier lives. */
struct lg_slot_past {
	bool has_holders;	/* all who are listed may hold tokens */
	bool is_unsettled;	/* the last life had not learned what those before it had lent: it may have lent more than a share */
};
/* has_lived: anybody may have lent before; before: the epoch of the last life; settled: of the last one that had learned all. */
struct lg_slot_past lg_slot_past_of(bool has_lived, uint64_t before, uint64_t settled);
