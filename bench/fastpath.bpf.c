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
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} textbook SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} textbook_lru SEC(".maps");

/*
 * Steps the generator in the packet's payload. No map and no helper call is needed for it, and its price is the same in
 * every program. A locked addition in front keeps the cache misses of two packets apart: with programs as short as these
 * a CPU would else begin to fetch what the next packet needs while this one still waits, as no real traffic lets it.
 */
static __always_inline __u32 bench_next(struct lg_bench_gen *gen)
{
	__u64 fence = 0;
	__u32 state;

	__sync_fetch_and_add(&fence, 1);
	state = gen->state * 1664525u + 1013904223u;
	gen->state = state;
	return ((__u64)state * gen->n_keys) >> 32;
}

static __always_inline struct lg_bench_packet *bench_step(struct xdp_md *ctx)
{
	struct lg_bench_packet *p = (void *)(long)ctx->data;

	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return NULL;
	p->ip.saddr = bpf_htonl(LG_BENCH_FIRST_SOURCE + bench_next(&p->gen));
	return p;
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
	struct lg_frame f;

	if (!bench_step(ctx))
		return XDP_ABORTED;
	f = lg_frame_of_xdp(ctx, true);
	if (lg_read_frame(&f, &pkt) != LG_CLASS_IP)
		return XDP_ABORTED;
	return (pkt.source.w[1] ^ pkt.destination.w[1] ^ pkt.source.w[0] ^ pkt.destination.w[0] ^ pkt.destination_port ^ pkt.bytes ^
		pkt.protocol ^ pkt.family ^ pkt.has_port) == 0x1234567
		       ? XDP_PASS
		       : XDP_DROP;
}

/* One look-up by IPv4 source, one position in ns, the fine clock, a compare-and-swap: what a tutorial would write. */
static __always_inline int bench_by_the_book(struct xdp_md *ctx, void *map)
{
	struct lg_bench_packet *p = bench_step(ctx);
	__u64 now_ns, from_ns, was_ns, *full_at_ns;
	__u32 key;

	if (!p || p->eth.h_proto != bpf_htons(ETH_P_IP) || p->ip.ihl < 5)
		return XDP_ABORTED;
	key = p->ip.saddr;
	full_at_ns = bpf_map_lookup_elem(map, &key);
	if (!full_at_ns) {
		now_ns = bpf_ktime_get_ns();
		bpf_map_update_elem(map, &key, &now_ns, BPF_ANY);
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
int bench_textbook(struct xdp_md *ctx)
{
	return bench_by_the_book(ctx, &textbook);
}

SEC("xdp.frags")
int bench_textbook_lru(struct xdp_md *ctx)
{
	return bench_by_the_book(ctx, &textbook_lru);
}

SEC("xdp.frags")
int bench_decide(struct xdp_md *ctx)
{
	struct lg_visit visit;
	struct lg_frame f;

	if (!bench_step(ctx))
		return XDP_ABORTED;
	f = lg_frame_of_xdp(ctx, true);
	return lg_decide(&f, &visit) ? XDP_PASS : XDP_DROP;
}

/* The same with sources in 2001:db8::/96. */
SEC("xdp.frags")
int bench_decide6(struct xdp_md *ctx)
{
	struct lg_bench_packet6 *p = (void *)(long)ctx->data;
	struct lg_visit visit;
	struct lg_frame f;

	if ((void *)(p + 1) > (void *)(long)ctx->data_end)
		return XDP_ABORTED;
	p->ip.saddr.in6_u.u6_addr32[3] = bpf_htonl(bench_next(&p->gen));
	f = lg_frame_of_xdp(ctx, true);
	return lg_decide(&f, &visit) ? XDP_PASS : XDP_DROP;
}
