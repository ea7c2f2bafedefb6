/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Random numbers of a test that can be replayed: SEED in the environment is where they begin. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The next number of a state that is not 0. */
static inline uint64_t chance_next(uint64_t *rng)
{
	*rng ^= *rng << 13;
	*rng ^= *rng >> 7;
	*rng ^= *rng << 17;
	return *rng;
}

/* Where this run begins; says so. */
static inline uint64_t chance_seed(void)
{
	const char *seed = getenv("SEED");
	uint64_t rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;

	printf("SEED=%llu replays this run\n", (unsigned long long)rng);
	return rng;
}
