// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/arith.h"

uint64_t lg_sub_floor(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t lg_add_cap(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint64_t lg_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

uint64_t lg_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t lg_clamp_u64(uint64_t x, uint64_t lo, uint64_t hi)
{
	return lg_min_u64(lg_max_u64(x, lo), hi);
}

uint64_t lg_mul_div(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 q;

	if (c == 0)
		return UINT64_MAX;
	q = (unsigned __int128)a * b / c;
	return q > UINT64_MAX ? UINT64_MAX : (uint64_t)q;
}

/* A counter with an odd step, mixed until each output bit depends on each counter bit. */
uint64_t lg_rand_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

uint64_t lg_rand_jitter(uint64_t *state, uint64_t base_ns)
{
	uint64_t permille = 850 + lg_rand_next(state) % 301;

	return lg_mul_div(base_ns, permille, 1000);
}
