/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What one rule costs and risks at one region's server, over the last minute: messages per second, counted where they come in from and go
 * out to the wire, and the most tokens of keys homed here that were out at once. Time is an argument; nothing is allocated.
 *
 * Seconds are counted whole: a reading covers up to LG_METER_SECONDS of them, the one that runs now is not among them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LG_METER_SECONDS 60

enum lg_tier { LG_TIER_HOME, LG_TIER_REGION, _LG_TIER_N };

struct lg_meter_second {
	uint32_t n_reports[_LG_TIER_N];
	uint32_t n_grants[_LG_TIER_N];
	uint64_t worst_tok;
	uint64_t demand_mtps;
	uint32_t active;
	bool sampled;
};

struct lg_meter {
	uint64_t n_reports[_LG_TIER_N];	/* since the start */
	uint64_t n_grants[_LG_TIER_N];
	uint64_t outstanding_tok;	/* now, all keys of the rule that are homed here */
	uint64_t first_s;		/* first whole second of this meter */
	uint64_t now_s;			/* the second that runs */
	struct lg_meter_second seconds[LG_METER_SECONDS + 1];	/* by second, modulo their number */
};

void lg_meter_init(struct lg_meter *m, uint64_t now_ns);
/* A request or report came in over the wire. */
void lg_meter_report(struct lg_meter *m, enum lg_tier tier, uint64_t now_ns);
/* A grant went out over the wire. */
void lg_meter_grant(struct lg_meter *m, enum lg_tier tier, uint64_t now_ns);
/* A key that is homed here has now_tok out, which had before_tok. */
void lg_meter_outstanding(struct lg_meter *m, uint64_t before_tok, uint64_t now_tok, uint64_t now_ns);
/* Once a second: the demand that holders report of keys homed here, and how many other regions report, counted for each key. */
void lg_meter_sample(struct lg_meter *m, uint64_t demand_mtps, uint32_t active, uint64_t now_ns);

struct lg_meter_reading {
	uint32_t seconds;			/* that it covers; 0: it is too early to say anything */
	double reports_per_s[_LG_TIER_N];
	double grants_per_s[_LG_TIER_N];
	uint64_t worst_tok;			/* out at once */
	double demand_tps;			/* mean */
	double active;				/* mean */
	double product;				/* reports per second at the home x worst_tok */
	double ratio;				/* product / (demand x active); 0 where that is nothing */
};
void lg_meter_read(struct lg_meter *m, uint64_t now_ns, struct lg_meter_reading *ret);
