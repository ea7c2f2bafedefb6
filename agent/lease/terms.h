/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The numbers of a rule's leases, the same for all of its keys: periods, ticks, slots, shares. Derived once, pure. */
#pragma once

#include "rules/config.h"
#include "rules/rule.h"

/* What the terms of a rule depend on besides the rule. */
struct lg_fleet {
	uint32_t regions;	/* R, at least 1 */
	uint32_t hosts;		/* H, over all regions, at least 1 */
	uint64_t far_rtt_ns;	/* largest round trip between a region and a home; 0: taken as 150 ms */
};

struct lg_terms {
	enum lg_algorithm algorithm;	/* never LG_SLIDING_LOG: leased, the two sliding ones are the same */
	enum lg_lease_kind kind;	/* what a home lends to regions: LG_LEASE_BLOCK or LG_LEASE_LIMIT, never auto */
	bool owner;			/* small for its hosts: who asks for most is served first, whole */
	bool adaptive;			/* a region that hardly uses a key reports more rarely */
	uint64_t cold_tok;		/* each declared host may spend it of a new key before its first grant */
	uint64_t shares_tok;		/* of the budget: set aside for hosts that are cut off and take their fallback share */
	uint64_t rule_limit_tok;	/* as the rule has them: what all hosts together admit, with what is set aside */
	uint64_t rule_budget_tok;
	uint64_t far_rtt_ns;
	uint64_t limit_tok;		/* what is leased: limit_tok per per_ns; a window holds limit_tok in any trailing per_ns */
	uint64_t per_ns;
	uint64_t cost_tok;		/* of one packet or byte, the least that is of use to anybody */
	uint64_t budget_tok;		/* B: burst of a token bucket, limit of a window */
	uint32_t regions;		/* R */
	uint32_t hosts;			/* H, over all regions */
	uint32_t low_water_permille;	/* floor of low water as a share of the lease; 0 none */
	uint64_t max_outstanding_tok;	/* most that may be out at once, all holders together */
	bool reserves;			/* tokens are lent only when it is durable that they may be */
	uint64_t escrow_period_ns;	/* which a key that is used makes durable once in so long */
	uint64_t home_tick_ns;
	uint64_t region_tick_ns;
	uint64_t host_tick_ns;
	uint64_t region_period_ns;	/* T at a region */
	uint64_t host_period_ns;	/* T at a host, a quarter of it */
	uint64_t slot_ns;		/* grain of usage slots */
	uint64_t ttl_ns;
	uint64_t grace_ns;
};

void lg_fleet_init(const struct lg_config *config, struct lg_fleet *ret_fleet);
void lg_terms_init(const struct lg_rule_def *rule, const struct lg_fleet *fleet, struct lg_terms *ret_terms);

/* How long the limit takes to mint the whole budget: burst / rate, or the window. */
uint64_t lg_terms_span_ns(const struct lg_terms *terms);
/* A host that has spent what a new key may spend before its first grant may do so again when it has not spent of the key for so long. */
uint64_t lg_terms_cold_rest_ns(const struct lg_terms *terms);
/* cold_tok, or 0 while a host may have spent it before forgot_until_ns, of which it knows nothing; 0: it knows all. */
uint64_t lg_terms_cold_now_tok(const struct lg_terms *terms, uint64_t forgot_until_ns, uint64_t now_ns);
/* Lambda: how long a token that was spent in a region rtt_ns away from the home is in nobody's hands before it can be spent again. */
uint64_t lg_terms_lambda_ns(const struct lg_terms *terms, uint64_t rtt_ns);
/* The most that is out at once while the rate of the limit is spent, of which none may lack. */
uint64_t lg_terms_needed_tok(const struct lg_terms *terms);
/* So much of the budget is missed by nobody: unreported at a region that hardly uses the key, or in its pool. A fiftieth in all regions
 * together; 0 where periods are fixed. */
uint64_t lg_terms_quiet_tok(const struct lg_terms *terms);
/* The longest period of a region: a lease must be prolonged in time. */
uint64_t lg_terms_quiet_period_ns(const struct lg_terms *terms);
/* The period of a region with that demand: as long as no more than lg_terms_quiet_tok() comes together in it, but no shorter than T. */
uint64_t lg_terms_period_ns(const struct lg_terms *terms, uint64_t demand_mtps);
/* Are there so few packets for each host that one who has none would be refused what another one keeps? */
bool lg_terms_is_small(const struct lg_terms *terms);
/* All that may be out is less than is minted in two Lambda: what is spent must be told soon. */
bool lg_terms_is_cramped(const struct lg_terms *terms);
/* Is the span so short beside the longest round trip that regions had better run parts of the limit than wait for tokens? */
bool lg_terms_is_short(const struct lg_terms *terms);
