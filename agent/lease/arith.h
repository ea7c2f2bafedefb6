/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Arithmetic that cannot wrap, and a small random generator whose state is the caller's. Used inside lease/ only. */
#pragma once

#include <stdint.h>

/* a - b, or 0 when b is larger. */
uint64_t lg_sub_floor(uint64_t a, uint64_t b);
/* a + b, or UINT64_MAX. */
uint64_t lg_add_cap(uint64_t a, uint64_t b);
uint64_t lg_min_u64(uint64_t a, uint64_t b);
uint64_t lg_max_u64(uint64_t a, uint64_t b);
/* x, moved into [lo, hi]. */
uint64_t lg_clamp_u64(uint64_t x, uint64_t lo, uint64_t hi);
/* a * b / c rounded down, or UINT64_MAX when it does not fit or c is 0. */
uint64_t lg_mul_div(uint64_t a, uint64_t b, uint64_t c);

/* The next of a sequence of 64-bit numbers; every state is a good seed. */
uint64_t lg_rand_next(uint64_t *state);
/* base_ns changed by up to 15 % either way, so that equal periods do not stay in step. */
uint64_t lg_rand_jitter(uint64_t *state, uint64_t base_ns);
