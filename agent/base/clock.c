// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/clock.h"

static uint64_t read_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * LG_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t lg_clock_now_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

struct timespec lg_clock_deadline(uint64_t at_ns)
{
	uint64_t now_ns = lg_clock_now_ns(), until_ns = read_ns(CLOCK_MONOTONIC) + (at_ns > now_ns ? at_ns - now_ns : 0);

	return (struct timespec){ (time_t)(until_ns / LG_NS_PER_S), (long)(until_ns % LG_NS_PER_S) };
}

uint64_t lg_clock_unix_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec;
}

uint64_t lg_clock_unix_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}
