/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A scene to measure service in: a key's home with a region beside it, two more regions far away, four hosts in each, and traffic of one
 * shape. Run with a few seeds; the law is checked in every run, and a broken one ends the program.
 */
#pragma once

#include <stdint.h>

#include "tests/lib/sim.h"

#define SCENE_REGIONS 3
#define SCENE_SEEDS_MAX 64
#define SCENE_FAR 2		/* the region that is farthest from the home */

enum scene_shape {
	SCENE_EVEN,
	SCENE_ONE,		/* all traffic in the farthest region */
	SCENE_MOVE,		/* from the second farthest to the farthest, at event_s */
	SCENE_HOP,		/* over the regions, one each second */
	SCENE_RIVALS,		/* nine tenths in region 1, one tenth in the farthest */
	SCENE_SAW,		/* each region swells and fades in 20 s */
	SCENE_STEP,		/* a fifth of it until event_s, in all regions */
	SCENE_RAMP,		/* from nothing at event_s to all of it a minute later, in all regions */
	SCENE_RARE,		/* each host sees a request in ten seconds, whatever the load */
};

struct scene {
	enum lg_algorithm algorithm;
	enum lg_lease_kind kind;	/* LG_LEASE_AUTO: as the terms have it */
	uint64_t limit_tok;
	double per_s;
	uint64_t burst_tok;		/* 0: the limit */
	enum scene_shape shape;
	double load;			/* offered, in parts of the limit */
	double far_ms;			/* round trip of the farthest region, on average; 0: 150 ms */
	double loss;
	double batch;			/* mean size of bursts; 0: none */
	double period_s;		/* 0: as the terms have it, and so on */
	double home_tick_ms, region_tick_ms, host_tick_ms, slot_ms;
	bool shared;			/* no owner, however small the limit */
	bool all_out;			/* the whole budget may be out at once */
	bool strict;			/* a strict rule, which lends what is durable */
	bool lost;			/* region 1 is cut off for good, a second before the event */
	double warm_s, end_s, event_s;
	enum sim_fault_kind fault;	/* at event_s, of region 1 */
	double fault_for_s;		/* 0: none */
	double back_share;		/* of a perfect service, which ends what back_s tells; 0: 0.97 */
	uint32_t n_seeds;		/* 0: one; at most SCENE_SEEDS_MAX */
};

/* Means over the seeds, but for the worst. */
struct scene_result {
	double served;			/* of what a limiter that sees everything at once admits */
	double region[SCENE_REGIONS];	/* admitted of what was offered there */
	double denied_s[SCENE_REGIONS];	/* what was denied there, in seconds of its mean traffic */
	double lost_s;			/* what a perfect limiter admits and this did not, in seconds of the whole traffic */
	double back_s;			/* worst: from the event or the end of the fault until back_share is served over 2 s; INFINITY: never */
	double median_back_s;		/* the same, of the middle one of the seeds: by chance traffic can look unserved for a while */
	double variation;		/* standard deviation by mean of what each region is admitted in 10 s, the worst region */
	double reports_per_s, grants_per_s;	/* between the regions and the home */
	double host_reports_per_s, host_grants_per_s;	/* between the hosts and their regions */
	double out_tok;
	double failover_tok;		/* worst: what a new life of the home took for out or spent, and was not */
	double commits_per_s;		/* of marks, over the whole run */
	double stop_s;			/* until region 1, from the event, admits nothing any more */
};

void scene_terms(const struct scene *scene, struct lg_terms *ret_terms);
void scene_run(const struct scene *scene, struct scene_result *ret);
