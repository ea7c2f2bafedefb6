// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs of the object: two hooks for packets (XDP, TC both ways) and two for the agent. */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set by tests before loading: time is then what map `test_clock` says. In what ships the verifier removes that path. */
const volatile bool lg_test_clock = false;

static __always_inline void count(__u32 hook, __u32 len)
{
	__u32 key = hook * LG_REASON_SLOTS + LG_PASS_NO_RULE;
	struct lg_count *c = bpf_map_lookup_elem(&verdicts, &key);

	if (c) {
		c->packets++;
		c->bytes += len;
	}
}

SEC("xdp.frags")
int lg_xdp(struct xdp_md *ctx)
{
	count(LG_HOOK_XDP, ctx->data_end - ctx->data);
	return XDP_PASS;
}

SEC("tc")
int lg_tc_ingress(struct __sk_buff *skb)
{
	count(LG_HOOK_TC_INGRESS, skb->len);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int lg_tc_egress(struct __sk_buff *skb)
{
	count(LG_HOOK_TC_EGRESS, skb->len);
	return TC_ACT_UNSPEC;
}

SEC("syscall")
int lg_grant(struct lg_ops_args *args)
{
	args->done = 0;
	return lg_test_clock ? 0 : 0;
}

SEC("syscall")
int lg_collect(struct lg_ops_args *args)
{
	args->done = 0;
	return 0;
}
