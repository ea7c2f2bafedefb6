// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs of the fast-path bench. Each but the first begins with the same step, which chooses this packet's source
 * address, and then does more: nothing but parse, what a textbook limiter does, or all of the shipped pipeline, from
 * the same headers.
 */
#include <linux/bpf.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>

#include "decide.h"
#include "fastpath.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, LG_BENCH_TEXTBOOK_KEYS);
	__type(key, __u32);
	__type(value, __u64);
} textbook SEC(".maps");

/*
 * Steps the generator in the packet's payload and writes the source address that comes out of it. A packet's bytes live
 * on from one repeat to the next, so no map and no helper call is needed, and the price is the same in every program.
 */
static __always_inline int bench_step(struct xdp_md *ctx)
{
	struct lg_bench_packet *p = (void *)(long)ctx->data;
	__u32 state;

	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return -1;
	state = p->state * 1664525u + 1013904223u;
	p->state = state;
	p->ip.saddr = bpf_htonl(LG_BENCH_FIRST_SOURCE + (__u32)(((__u64)state * p->n_keys) >> 32));
	return 0;
}

SEC("xdp.frags")
int bench_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/* The shipped parser with its measure of bytes; what it found decides the return code, so that nothing is optimised away. */
SEC("xdp.frags")
int bench_parse(struct xdp_md *ctx)
{
	struct lg_pkt pkt = {};

	if (bench_step(ctx) || lg_read_xdp(ctx, &pkt) != LG_CLASS_IP)
		return XDP_ABORTED;
	return (pkt.source.w[1] ^ pkt.destination.w[1] ^ pkt.source.w[0] ^ pkt.destination.w[0] ^ pkt.destination_port ^ pkt.bytes ^
		pkt.protocol ^ pkt.family ^ pkt.has_port) == 0x1234567
		       ? XDP_PASS
		       : XDP_DROP;
}

/* One hash look-up by IPv4 source, one position in ns, the fine clock, a compare-and-swap: what a tutorial would write. */
SEC("xdp.frags")
int bench_textbook(struct xdp_md *ctx)
{
	struct lg_bench_packet *p = (void *)(long)ctx->data;
	__u64 now_ns, from_ns, was_ns, *full_at_ns;
	__u32 key;

	if (bench_step(ctx))
		return XDP_ABORTED;
	if ((void *)(p + 1) > (void *)(long)ctx->data_end || p->eth.h_proto != bpf_htons(ETH_P_IP) || p->ip.ihl < 5)
		return XDP_ABORTED;
	key = p->ip.saddr;
	full_at_ns = bpf_map_lookup_elem(&textbook, &key);
	if (!full_at_ns) {
		now_ns = 0;
		bpf_map_update_elem(&textbook, &key, &now_ns, BPF_ANY);
		return XDP_PASS;
	}
	now_ns = bpf_ktime_get_ns();
	was_ns = *full_at_ns;
	from_ns = was_ns > now_ns ? was_ns : now_ns;
	if (from_ns - now_ns > LG_BENCH_BURST_NS)
		return XDP_DROP;
	return __sync_val_compare_and_swap(full_at_ns, was_ns, from_ns + 1) == was_ns ? XDP_PASS : XDP_DROP;
}

SEC("xdp.frags")
int bench_decide(struct xdp_md *ctx)
{
	struct lg_frame f;

	if (bench_step(ctx))
		return XDP_ABORTED;
	f = lg_frame_of_xdp(ctx);
	return lg_decide(&f) ? XDP_PASS : XDP_DROP;
}
