/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Time. All of it is CLOCK_BOOTTIME, in here and in the agent: a host that sleeps spends its leases' time, as its lessor does, which
 * lends elsewhere what lapsed; and windows and buckets go by the time that passed for everybody else.
 */
#pragma once

#include <stdbool.h>

#include "bucket.h"
#include "maps.h"

/* Set by tests before loading: time is then what map `test_clock` says. In what ships the verifier removes that path. */
const volatile bool lg_test_clock = false;

/*
 * The coarse clock is asked once per tick and CPU: jiffies, which move with the tick, are a mere load. It is the time of the first question
 * in a tick, so it is late by up to a tick, and a clock that is late mints nothing. A program that checks requests can be interrupted by a
 * packet on its CPU: the time is written before the tick that it is of, so what another finds is of that tick or of one before.
 */
static __always_inline __u64 lg_clock_coarse(void)
{
	__u64 jiffies = bpf_jiffies64();
	struct lg_memo *memo;
	__u32 zero = 0;

	memo = bpf_map_lookup_elem(&memos, &zero);
	if (!memo)
		return bpf_ktime_get_boot_ns();
	if (memo->jiffies == jiffies)
		return lg_read(memo->now_ns);
	lg_write(memo->now_ns, bpf_ktime_get_boot_ns());
	lg_write(memo->jiffies, jiffies);
	return lg_read(memo->now_ns);
}

/* The same, if this CPU has asked in this tick; else 0. */
static __always_inline __u64 lg_clock_kept(const struct lg_memo *memo)
{
	return !lg_test_clock && memo->jiffies == bpf_jiffies64() ? memo->now_ns : 0;
}

static __always_inline __u64 lg_clock(bool is_coarse)
{
	__u32 zero = 0;
	__u64 *test_ns;

	if (lg_test_clock) {
		test_ns = bpf_map_lookup_elem(&test_clock, &zero);
		return test_ns ? *test_ns : 0;
	}
	return is_coarse ? lg_clock_coarse() : bpf_ktime_get_boot_ns();
}
