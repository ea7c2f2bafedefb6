/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Choices by arithmetic: where the verifier would follow both ways of a branch, there is one. Pure.
 */
#pragma once

#include "frame.h"

/* 1 if x is 0, else 0, without a jump. Opaque at each step: clang knows the idiom and would turn it back into a branch. */
static __always_inline __u64 lg_is_zero(__u64 x)
{
	x |= -x;
	lg_opaque(x);
	x >>= 63;
	lg_opaque(x);
	return x ^ 1;
}

/* a, or b where bit is 1.  */
static __always_inline __u64 lg_pick(__u64 a, __u64 b, __u64 bit)
{
	lg_opaque(bit);
	return a ^ ((a ^ b) & -bit);
}

static __always_inline __u64 lg_mix(__u64 x)
{
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}
