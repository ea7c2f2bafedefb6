// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/holding.h"

#include "lease/arith.h"

#define MS 1000000ull
#define SMALL_FLEET 64u		/* so many at once are no crowd */
#define HOLDER_NS (6 * MS)	/* of a lessor's time for each */
#define SPREAD_MAX_NS (10000 * MS)

bool lg_upstream_up(struct lg_upstream *u, uint32_t epoch)
{
	u->up = epoch >= u->epoch;
	if (u->up)
		u->epoch = epoch;
	return u->up;
}

uint64_t lg_upstream_spread_ns(uint32_t hosts, uint64_t seed)
{
	return hosts > SMALL_FLEET ? lg_rand_next(&seed) % lg_min_u64(hosts * HOLDER_NS, SPREAD_MAX_NS) : 0;
}

void lg_upstream_down(struct lg_upstream *u)
{
	u->up = false;
}
