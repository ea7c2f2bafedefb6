/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What benches of interleaved rounds share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* CPU time of this thread. */
static inline double lg_bench_thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline uint32_t lg_bench_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* Puts order[0 .. n), which is 0 .. n - 1 in any order, into another one. */
static inline void lg_bench_shuffle(uint32_t *seed, size_t *order, size_t n)
{
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = lg_bench_random(seed) % (i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
}

/* Whether a list of names with commas between has this one, or there is no list. */
static inline bool lg_bench_is_listed(const char *list, const char *name)
{
	const char *at = list;

	while (at && *at) {
		size_t len = strcspn(at, ",");

		if (!strncmp(at, name, len) && !name[len])
			return true;
		at += len + (at[len] == ',');
	}
	return !list;
}

/* For qsort, of doubles. */
static inline int lg_bench_by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}
