// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The generator of the bench of peers: it turns each live frame into a packet of the next random source and sends it on. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "peers.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u32 gen_state = 1;
__u32 gen_sources = 1;
__u32 gen_ifindex = 0; /* 0: the frame ends here, which is what the generator costs by itself */

SEC("xdp")
int peers_generate(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	__u32 state = gen_state * 1664525u + 1013904223u, sum = 0;
	__u16 *word = (__u16 *)ip;
	int i;

	if ((void *)(ip + 1) > end)
		return XDP_ABORTED;
	gen_state = state;
	ip->saddr = bpf_htonl(LG_PEERS_FIRST_SOURCE + (__u32)(((__u64)state * gen_sources) >> 32));
	ip->check = 0;
	for (i = 0; i < (int)sizeof(*ip) / 2; i++)
		sum += word[i];
	sum = (sum & 0xffff) + (sum >> 16);
	ip->check = ~((sum & 0xffff) + (sum >> 16));
	return gen_ifindex ? bpf_redirect(gen_ifindex, 0) : XDP_DROP;
}

/* What XDP takes by itself. */
SEC("xdp")
int peers_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
