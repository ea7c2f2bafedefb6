/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A whole cluster on virtual time: one key, its home, regions, hosts with their kernels, and a network that loses, repeats, delays and
 * cuts. The objects of agent/lease run as they are; what roles do around them (streams, durable lists of holders, ticks) is done here
 * in the same way. Everything follows from the configuration and its seed.
 *
 * Two things are checked all the time. At each admission the law itself, exactly. After every step something stronger: what was admitted
 * and still counts, and all that could be admitted at once from the tokens lying in kernels and region pools, stay within the budget.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/home.h"
#include "lease/lessee.h"
#include "lease/region.h"
#include "tests/lib/sim_meter.h"

#define SIM_REGIONS_MAX 12	/* over both tiers of them */
#define SIM_HOSTS_MAX 16	/* over all regions */
#define SIM_FAULTS_MAX 64
#define SIM_BIN_NS 500000000ull

enum sim_fault_kind {
	SIM_CUT_REGION,		/* between region and home, for a time */
	SIM_CUT_HOST,		/* between host and region, for a time */
	SIM_AGENT_RESTART,	/* of a host; its kernel goes on. Down for a time */
	SIM_HOST_REBOOT,	/* maps lost. Down for a time */
	SIM_HOST_GONE,		/* for good */
	SIM_REGION_RESTART,	/* down for a time */
	SIM_HOME_RESTART,	/* down for a time */
	SIM_SERVER_RESTART,	/* home and region in one process. Down for a time */
	SIM_REGION_LOST,	/* a restart that finds the store empty: who had leases is not known */
	SIM_HOME_LOST,
	SIM_HOME_DEPOSED,	/* the process stands still, another takes over after a time, and as long after that the old one goes on */
	SIM_REHOME,		/* a newer region list: the key has another home, and each region starts anew with the list, sooner or later */
	SIM_CLOCK_STEP,		/* of the wall clocks of a region, its hosts and the home */
	SIM_STORE_FULL,		/* the home's store takes no writes for a time */
	SIM_SLOT_GIVEN,		/* the key's home gives its slot away, and another process claims it after a time */
	SIM_SLOT_LOST,		/* it is known to be there no more, and lends on by its own clock; another claims after a time that is longer */
	_SIM_FAULT_N
};

struct sim;

/* Changes a message on its way, or drops it (false). Tests use it to show that the checks bite. */
struct sim_mutant {
	bool (*ask)(struct sim *s, uint32_t holder, bool to_home, struct lg_ask *ask);
	bool (*grant)(struct sim *s, uint32_t holder, bool from_home, struct lg_grant *grant);
};

struct sim_config {
	struct lg_terms terms;
	uint64_t origin_ns;			/* fixed windows: when one began, on the home's clock */
	uint32_t n_regions;
	uint32_t subs_per_region;		/* regions below each region, which lend to its hosts; 0: it does so itself */
	uint32_t hosts_per_region;
	uint64_t rtt_ns[SIM_REGIONS_MAX];	/* region to home, at least: each way takes up to a tenth longer */
	uint64_t host_rtt_ns;			/* host to region */
	double loss;				/* share of messages */
	double repeat;
	double straggle;			/* share of messages that take up to 3 s longer */
	int32_t clock_ppm;			/* clocks of hosts and regions run up to this much faster or slower */
	double hostile;				/* share of messages that arrive as a lease ends, or a tick to either side; as many come again
						 * within 10 s, and processes hear what was meant for others */
	bool hoards;				/* hosts that are cut off keep what they have and spend it at the very end of its lease */
	uint64_t seed;
	uint64_t end_ns;
	uint64_t warm_ns;			/* service is counted from here */
	/* Arrivals per second at a host, at most rate_max. */
	double (*rate)(const struct sim *s, uint32_t region, uint32_t host, double now_s);
	double rate_max;
	double batch;				/* mean size of bursts, geometric; 1 none */
	uint64_t cost_max_tok;			/* costs are 1 .. this */
	double load;				/* for rate() */
	uint32_t shape;				/* for rate() */
	bool misread;				/* readings of totals are sometimes too high, as by a take about to be undone */
	const struct sim_mutant *mutant;
	struct lg_rule_def rule;		/* if its fallback is a share, hosts take that when their lease is over; else they deny */
};

struct sim_result {
	int64_t worst_over_tok;		/* largest level - budget */
	int64_t worst_potential_tok;	/* the same with what lies in kernels and pools */
	uint64_t offered, admitted, perfect;
	uint64_t region_offered[SIM_REGIONS_MAX], region_admitted[SIM_REGIONS_MAX];
	uint64_t asks_to_home, grants_from_home, asks_to_regions, grants_from_regions;
	uint64_t max_outstanding_tok;
	uint64_t lapsed_tok;
	uint64_t by_share_tok;		/* admitted by fallback shares; the law of the limit leaves them out, unless they are set aside */
	uint64_t commits;		/* writes of the home that became durable */
	uint64_t failover_tok;		/* most that a home's new life had to take for out or consumed, which was not */
	uint64_t worst_all_tok;		/* largest level of all that was admitted, shares included */
	char broken[256];		/* "" or the first broken law and when */
};

int sim_new(const struct sim_config *config, struct sim **ret_sim);
struct sim *sim_free(struct sim *s);
LG_CLEANUP(struct sim, sim_free)

/* kind at at_ns; index is a region's or a host's. */
void sim_fault(struct sim *s, enum sim_fault_kind kind, uint32_t index, uint64_t at_ns, uint64_t for_ns);
/* Runs to the end, or until a law breaks. */
void sim_run(struct sim *s);

const struct sim_config *sim_config_of(const struct sim *s);
const struct sim_result *sim_result_of(const struct sim *s);
uint64_t sim_now_ns(const struct sim *s);
/* Admitted and perfect in the bin of SIM_BIN_NS that begins at that time. */
void sim_bin(const struct sim *s, uint64_t at_ns, uint64_t *ret_admitted, uint64_t *ret_perfect);
/* Admitted in one region in that bin. */
uint64_t sim_region_bin(const struct sim *s, uint32_t region, uint64_t at_ns);
/* Seconds from at_ns until over two seconds at least `share` of the perfect service was given again; -1 never. */
double sim_back_after_s(const struct sim *s, uint64_t at_ns, double share);
double sim_random(struct sim *s);
