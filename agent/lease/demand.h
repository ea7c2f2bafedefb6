/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * How much a key is asked for, and how much a holder should therefore have at hand. Estimates, in floating point: they decide when to
 * ask and for how much, never what may be lent.
 */
#pragma once

#include <stdint.h>

#include "lease/terms.h"

/* Single precision: there is one for every key that sees traffic. */
struct lg_demand {
	uint64_t at_ns;		/* averages and peak are as of this time */
	uint64_t burst_ns;	/* when the interval of burst_tok began */
	float offered_fast;	/* tokens per second, averaged over 1 s */
	float offered_slow;	/* over 10 s */
	float admitted_fast;
	float admitted_slow;
	float peak_tok;		/* largest cost in one interval, fading over 30 s */
	float burst_tok;
};

/* Cost offered and admitted since the last reading, gap_ns ago. peak_interval_ns: how long a request for more takes. */
void lg_demand_add(struct lg_demand *d, uint64_t offered_tok, uint64_t admitted_tok, uint64_t peak_interval_ns, uint64_t gap_ns,
		   uint64_t now_ns);

/*
 * Thousandths of a token per second. What was denied counts, but at most at twice what was admitted or at twice floor_mtps: a flood
 * cannot claim more than it has room to show, and a newcomer who was admitted nothing still has a demand.
 */
uint64_t lg_demand_mtps(struct lg_demand *d, uint64_t floor_mtps, uint64_t now_ns);
/* What a home is told: who is held to exactly what he needs on average is refused whenever chance sends him more. */
uint64_t lg_demand_told_mtps(uint64_t mtps);
/* An equal part of the limit for each host, as a rate. */
uint64_t lg_demand_floor_mtps(const struct lg_terms *terms);
uint64_t lg_demand_peak_tok(struct lg_demand *d, uint64_t now_ns);

/* How long a host's request for more takes: the interval of peaks. */
uint64_t lg_demand_interval_ns(const struct lg_terms *terms, uint64_t rtt_ns);

/* How much to hold: ask when below low_tok, up to target_tok. */
struct lg_sizes {
	uint64_t low_tok;
	uint64_t target_tok;
};
/* cap_tok: the most it may hold as its lessor says, 0 not known. */
struct lg_sizes lg_sizes_of_host(const struct lg_terms *terms, uint64_t demand_mtps, uint64_t peak_tok, uint64_t rtt_ns, uint64_t cap_tok);
/* host_want_tok: sum of what the hosts would like to hold; peak_tok: the largest peak of a host; period_ns: until its next report. */
struct lg_sizes lg_sizes_of_region(const struct lg_terms *terms, uint64_t demand_mtps, uint64_t host_want_tok, uint64_t peak_tok,
				   uint64_t rtt_ns, uint64_t cap_tok, uint64_t period_ns);
