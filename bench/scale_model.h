/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A fleet on virtual time: five regions, their hosts, all keys of one rule, with the core that runs in production at each of them. Inside
 * of bench-lease-scale. See lease-scale.c for what is modelled and what is not. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "lease/home.h"
#include "lease/lessee.h"
#include "lease/lessor.h"
#include "lease/region.h"

#define SCALE_REGIONS 5u
#define SCALE_NS_PER_MS 1000000ull	/* the grain of time */
#define SCALE_START_MS 1000ull		/* 0 means "never" to the core */
#define SCALE_NONE UINT32_MAX

struct scale_load {
	uint32_t n_keys;
	uint32_t hosts;			/* of each region */
	double requests_per_s;
	double zipf;			/* key k has a part of 1 / k^zipf; 0: all alike */
	double key_per_host_per_s;	/* a host takes so much of a key before the next one sees it too; 0: one host */
	double share_two, share_all;	/* of keys with traffic in two regions, in all */
	uint64_t limit_tok;		/* a minute */
	uint64_t burst_tok;
	uint32_t rpc_budget_mps;	/* thousandths of a report a second, of all regions; 0: as the rule has it unwritten */
	uint32_t warm_s, run_s;
	uint64_t seed;
};

/* OWN: between a region and itself as the home of the key, in one process. */
enum scale_tier { HOST_TO_REGION, REGION_TO_HOST, REGION_TO_HOME, HOME_TO_REGION, OWN_ASKS, OWN_GRANTS, _SCALE_TIER_N };

struct scale_traffic {
	uint64_t keys;		/* asks or grants */
	uint64_t messages;	/* of a stream: all that was said in one millisecond, at most 512 keys */
	uint64_t bytes;		/* as encoded: measured of one in 64 */
};

struct scale_result {
	/* perfect: what a limiter admits that sees everything at once. Keys to which it refuses something are above their limit. */
	uint64_t admissions;			/* of all keys, with the warm-up */
	uint64_t above_admitted, above_perfect;	/* of keys above, with the warm-up: a burst may be spent in it or later */
	uint64_t below_admitted, below_perfect;	/* of the others, without the warm-up */
	uint64_t first_denied;			/* of these, not admitted because their host had never seen the key */
	int64_t worst_over_tok;			/* over all admissions of all keys */
	uint64_t worst_outstanding_tok;		/* of key 0, at its home */
	struct scale_traffic tiers[_SCALE_TIER_N];
	uint64_t active_keys;			/* keys with a request in a period, mean over the periods */
	uint64_t active_parts;			/* the same by region and key */
	uint64_t away_parts;			/* of these, in another region than the key's home */
	uint64_t everywhere_keys;		/* active in all regions within a period */
	uint64_t n_lessees, n_regions, n_homes;	/* objects at the end */
	uint64_t pool_used_bytes, pool_held_bytes;
	uint64_t resident_bytes;
	uint64_t model_bytes;			/* of this model: meters, buckets, timers */
	double cpu_s;
	uint64_t period_ns;
};

/* Runs it. 0, or a negative errno. */
int scale_run(const struct scale_load *load, struct scale_result *ret);

/* ---- timers: each object has one, and each of its dues is a whole millisecond ---- */

#define WHEEL_SLOTS 1024u

struct scale_timer {
	uint32_t next, prev;	/* prev: a timer, or a list with WHEEL_HEAD set */
	uint32_t due_ms;	/* 0: not armed */
};

struct scale_wheel {
	struct scale_timer *v;
	uint32_t now_ms;
	uint32_t near[WHEEL_SLOTS];	/* by the millisecond */
	uint32_t far[WHEEL_SLOTS];	/* by 1024 of them; later ones go round again */
};

int scale_wheel_init(struct scale_wheel *w, uint32_t n, uint32_t now_ms);
void scale_wheel_fini(struct scale_wheel *w);
/* due_ms is after now; earlier than it was armed for, or later. */
void scale_wheel_arm(struct scale_wheel *w, uint32_t id, uint32_t due_ms);
void scale_wheel_disarm(struct scale_wheel *w, uint32_t id);
static inline bool scale_wheel_is_before(const struct scale_wheel *w, uint32_t id, uint32_t due_ms)
{
	return w->v[id].due_ms && w->v[id].due_ms <= due_ms;
}
/* The next millisecond. */
void scale_wheel_turn(struct scale_wheel *w);
/* Takes one that is due, or SCALE_NONE. */
uint32_t scale_wheel_take(struct scale_wheel *w);

/* ---- chance ---- */

/* Draws an index by weight in constant time (Walker's alias method). */
struct scale_alias {
	uint32_t n;
	uint32_t *other;
	float *stay;
};
int scale_alias_init(struct scale_alias *a, const double *weights, uint32_t n);
void scale_alias_fini(struct scale_alias *a);
uint32_t scale_alias_draw(const struct scale_alias *a, uint64_t *rand);
double scale_random(uint64_t *rand);
uint64_t scale_hash(uint64_t x);
