/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Clocks. Logic takes time as an argument; only roles, loop and kern call these. */
#pragma once

#include <stdint.h>
#include <time.h>

#define LG_NS_PER_S 1000000000ull
#define LG_NS_PER_MS 1000000ull

/* CLOCK_BOOTTIME, nanoseconds: the clock of the kernel's part. It never steps back, and goes on while the machine sleeps: so do leases. */
uint64_t lg_clock_now_ns(void);
/* A time of that clock for functions that wait until a time of CLOCK_MONOTONIC, the only one that many of them know. */
struct timespec lg_clock_deadline(uint64_t at_ns);

/* Wall time, seconds. For people only. */
uint64_t lg_clock_unix_s(void);

/* Wall time, nanoseconds: for what must be the same over restarts and machines as well as their clocks agree. */
uint64_t lg_clock_unix_ns(void);
