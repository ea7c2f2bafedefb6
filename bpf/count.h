/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Counters, per CPU, so plain additions: a program is neither preempted nor interrupted by another packet's on its CPU.
 */
#pragma once

#include "maps.h"
#include "parse.h"

/* Bit n is set iff reason n lets the packet pass. */
enum {
	LG_VERDICT_PASS = 1,
	LG_VERDICT_DROP = 0,
	LG_PASS_REASONS = 0
#define LG_REASON(id, name, label, verdict, help) | LG_VERDICT_##verdict << id
#include <leasegate/reason.def>
#undef LG_REASON
};

static __always_inline _Bool lg_is_pass(enum lg_reason reason)
{
	return LG_PASS_REASONS >> reason & 1;
}

static __always_inline void lg_count_add(struct lg_count *count, const struct lg_pkt *pkt)
{
	count->packets += pkt->packets;
	count->bytes += pkt->bytes;
}

/* The one count of a packet at its hook. */
static __always_inline void lg_count_verdict(__u32 hook, enum lg_reason reason, const struct lg_pkt *pkt)
{
	__u32 index = hook * LG_REASON_SLOTS + reason;
	struct lg_count *count = bpf_map_lookup_elem(&verdicts, &index);

	if (count)
		lg_count_add(count, pkt);
}

/* Packets at a hook that are told apart by nothing but addresses and protocol, as their ports went with the fragment before. */
__noinline int lg_count_later_fragment(__u32 hook)
{
	__u64 *packets = bpf_map_lookup_elem(&later_fragments, &hook);

	if (packets)
		++*packets;
	return 0;
}

/* What one rule made of the packet. */
static __always_inline void lg_count_rule(__u32 rule_id, enum lg_reason reason, const struct lg_pkt *pkt)
{
	struct lg_rule_counts *counts = bpf_map_lookup_elem(&rule_counts, &rule_id);

	if (counts)
		lg_count_add(&counts->by_reason[reason & (LG_REASON_SLOTS - 1)], pkt);
}
