/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * How long a packet that was let through on credit has to wait. Pure.
 *
 * The bucket of a rule that paces lets packets through that it has no tokens for yet, as far as those of the horizon go; by its
 * position a packet then knows when the last of its own tokens comes, and that is when it may leave.
 */
#pragma once

#include "bucket.h"

/* What is owed has up to 40 bits (292 units in a nanosecond), so the product has 60, and the quotient is good to a thousandth. */
#define LG_PACE_SCALE 20

/* Nanoseconds in which so many units come, rounded up. At most LG_PACE_HORIZON_NS, beyond which nobody owes. */
static __always_inline __u64 lg_pace_ns(const struct lg_rate *rate, __u64 vt)
{
	__u64 per_ns = rate->mult, ns;
	__u32 scale = 0;

	if (vt >= 1ull << (63 - LG_PACE_SCALE))
		return LG_PACE_HORIZON_NS;
	if (rate->shift) {
		scale = LG_PACE_SCALE;
		per_ns = rate->shift > scale ? per_ns >> ((rate->shift - scale) & 63) : per_ns << ((scale - rate->shift) & 63);
	}
	if (!per_ns)
		return LG_PACE_HORIZON_NS;
	ns = ((vt << scale) + per_ns - 1) / per_ns;
	return ns < LG_PACE_HORIZON_NS ? ns : LG_PACE_HORIZON_NS;
}

/* How long from v on a packet waits whose bucket stands at full_at_vt with its tokens taken; the burst is there at once. */
static __always_inline __u64 lg_pace_delay_ns(const struct lg_rate *rate, __u64 burst_tok, __u64 full_at_vt, __u64 v)
{
	__s64 owed_vt = (__s64)(full_at_vt - v - burst_tok * rate->unit_per_tok);

	return owed_vt > 0 ? lg_pace_ns(rate, (__u64)owed_vt) : 0;
}
