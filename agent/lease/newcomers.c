// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/newcomers.h"

#define HALF_TICK_NS (2 * 1000000000ull / LG_NEW_KEYS_PER_S) /* from one to the next at half of the pace */

#define KEPT_PART 8

static bool take(struct lg_newcomers *part, uint64_t tick_ns, uint64_t now_ns)
{
	uint64_t from_ns = part->at_ns > now_ns ? part->at_ns : now_ns;

	if (from_ns - now_ns >= LG_NEW_KEYS_BURST_NS)
		return false;
	part->at_ns = from_ns + tick_ns;
	return true;
}

bool lg_newcomers_admit(struct lg_newcomers *shared, struct lg_newcomers *own, uint32_t n_holders, uint64_t now_ns)
{
	return take(own, HALF_TICK_NS * (n_holders ? n_holders : 1), now_ns) || take(shared, HALF_TICK_NS, now_ns);
}

bool lg_newcomers_fit(uint32_t own, size_t n_keys, size_t max, uint32_t n_holders)
{
	size_t kept = max / KEPT_PART;

	return n_keys < max - kept || (n_keys < max && own < kept / (n_holders ? n_holders : 1));
}
