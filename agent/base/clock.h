/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Clocks. Logic takes time as an argument; only roles, loop and kern call these. */
#pragma once

#include <stdint.h>

#define LG_NS_PER_S 1000000000ull
#define LG_NS_PER_MS 1000000ull

/* CLOCK_MONOTONIC, nanoseconds: the clock of bpf_ktime_get_ns(). */
uint64_t lg_clock_now_ns(void);

/* Wall time, seconds. For people only. */
uint64_t lg_clock_unix_s(void);

/* Wall time, nanoseconds: for what must be the same over restarts and machines as well as their clocks agree. */
uint64_t lg_clock_unix_ns(void);
