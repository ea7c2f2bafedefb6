// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/claims.h"

#include "lease/arith.h"
#include "lease/shares.h"

bool lg_presence_covers(const struct lg_presence *here, uint32_t session, uint64_t now_ns)
{
	return here->session == session && now_ns < here->until_ns;
}

bool lg_slot_claim_is_free(const struct lg_slot_claim *claim, const char *name, uint32_t session)
{
	return !claim->name[0] || (strcmp(claim->name, name) == 0 && claim->session != session);
}

void lg_claims_plan(const struct lg_claims_sight *sight, struct lg_claims_plan *ret_plan)
{
	struct lg_claims_plan plan = { 0 };
	uint8_t target[LG_KEY_SLOTS];
	uint32_t n_given = 0;

	lg_shares(sight->n, sight->owner, target);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		bool is_ours = target[slot] == sight->self, is_held = lg_slot_set_has(&sight->held, slot);
		/* A claim of ours of which we did not learn: its life has not begun. */
		bool is_stray = sight->owner[slot] == sight->self && !is_held;

		if (is_ours && lg_slot_set_has(&sight->free, slot))
			lg_slot_set_add(&plan.claim, slot);
		if ((is_stray || (is_held && !is_ours)) && n_given++ < LG_SLOTS_GIVEN_AT_ONCE)
			lg_slot_set_add(&plan.give, slot);
	}
	*ret_plan = plan;
}

uint64_t lg_claims_epoch(uint64_t newest, uint64_t unix_s)
{
	return lg_max_u64(newest + 1, unix_s);
}

struct lg_slot_past lg_slot_past_of(bool has_lived, uint64_t before, uint64_t settled)
{
	return (struct lg_slot_past){ .has_holders = has_lived, .is_unsettled = has_lived && settled != before };
}
