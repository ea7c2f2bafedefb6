// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/holding.h"

#include "lease/arith.h"
#include "lease/pace.h"

#define MS 1000000ull
#define HOLDER_NS (7 * MS)	/* of a lessor's time for each */
#define SPREAD_MAX_NS (10000 * MS)

bool lg_upstream_up(struct lg_upstream *u, uint32_t epoch)
{
	u->up = epoch >= u->epoch;
	if (u->up)
		u->epoch = epoch;
	return u->up;
}

void lg_upstream_stalled(struct lg_upstream *u, bool stalled, uint64_t now_ns)
{
	if (u->stalled && !stalled)
		u->reached_ns = now_ns;
	u->stalled = stalled;
}

void lg_upstream_crowd(struct lg_upstream *u, uint32_t hosts)
{
	u->patience_ns = lg_pace_is_crowd(hosts) ? LG_PACE_WAIT_MAX_NS : 0;
}

uint64_t lg_upstream_spread_ns(uint32_t hosts, uint64_t seed)
{
	return lg_pace_is_crowd(hosts) ? lg_rand_next(&seed) % lg_min_u64(hosts * HOLDER_NS, SPREAD_MAX_NS) : 0;
}

void lg_upstream_down(struct lg_upstream *u)
{
	u->up = false;
}
