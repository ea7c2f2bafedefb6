// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/pace.h"

#include <math.h>

#include "lease/arith.h"

#define MS 1000000ull
#define SMALL_FLEET 64u	/* so many at once are no crowd */
#define TENTH_NS 100e6
#define USUAL_NS 10e9	/* averaged over */
#define PART 0.028	/* of the holders, in a tenth of a second, beyond what is usual */
#define AHEAD 0.05	/* so much of a tenth may be said at once */
#define BEHIND 2	/* so many tenths are remembered: what is too much for long is not made up for */

bool lg_pace_is_crowd(uint32_t n_holders)
{
	return n_holders > SMALL_FLEET;
}

static double per_tenth(const struct lg_pace *p, uint32_t n_holders)
{
	return PART * n_holders + p->usual;
}

static void pass(struct lg_pace *p, uint32_t n_holders, uint64_t now_ns)
{
	double ns = (double)lg_sub_floor(now_ns, p->at_ns);

	p->level = fmax(p->level - per_tenth(p, n_holders) * ns / TENTH_NS, 0);
	p->usual *= exp(-ns / USUAL_NS);
	p->at_ns = lg_max_u64(p->at_ns, now_ns);
}

void lg_pace_count(struct lg_pace *p, uint32_t n_holders, uint64_t now_ns)
{
	pass(p, n_holders, now_ns);
	p->level = fmin(p->level + 1, per_tenth(p, n_holders) * BEHIND);
	p->usual += TENTH_NS / USUAL_NS;
}

bool lg_pace_may_send(struct lg_pace *p, uint32_t n_holders, uint64_t ready_ns, uint64_t now_ns)
{
	if (!lg_pace_is_crowd(n_holders) || now_ns >= ready_ns + LG_PACE_WAIT_MAX_NS)
		return true;
	pass(p, n_holders, now_ns);
	return p->level <= per_tenth(p, n_holders) * AHEAD;
}
