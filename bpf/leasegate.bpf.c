// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs of the object: packets at XDP and at TC both ways, and the agent's requests. */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

#include "check.h"
#include "conn_ops.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/*
 * The hooks want Ethernet devices: a frame begins with its MAC header. On a drop nothing else is touched, so the
 * verdict of programs that come after ours at TC still counts: "unspecified" lets them decide.
 */
SEC("xdp.frags")
int lg_xdp(struct xdp_md *ctx)
{
	struct lg_frame f = lg_frame_of_xdp(ctx, true);
	struct lg_visit visit;

	if (lg_decide(&f, &visit))
		return XDP_PASS;
	return visit.act ? lg_reply_xdp(ctx, &visit) : XDP_DROP;
}

/* The same in libxdp's dispatcher. */
SEC("xdp.frags")
int lg_xdp_shared(struct xdp_md *ctx)
{
	struct lg_frame f = lg_frame_of_xdp(ctx, true);
	struct lg_visit visit;

	if (lg_decide(&f, &visit))
		return XDP_PASS;
	return visit.act ? lg_reply_xdp_in_place(ctx, &visit) : XDP_DROP;
}

static __always_inline int lg_tc(struct __sk_buff *skb, __u32 hook)
{
	struct lg_frame f = lg_frame_of_skb(skb, hook, true);
	struct lg_visit visit;
	bool is_pass = lg_decide(&f, &visit);

	if (visit.act)
		return is_pass ? lg_act_tc(skb, &visit) : lg_reply_tc(skb, &visit);
	return is_pass ? TC_ACT_UNSPEC : TC_ACT_SHOT;
}

SEC("tc")
int lg_tc_ingress(struct __sk_buff *skb)
{
	return lg_tc(skb, LG_HOOK_TC_INGRESS);
}

SEC("tc")
int lg_tc_egress(struct __sk_buff *skb)
{
	return lg_tc(skb, LG_HOOK_TC_EGRESS);
}

/* The result of a call is args->done; errors of single requests stand in them. */
SEC("syscall")
int lg_grant(struct lg_ops_args *args)
{
	return lg_ops_run(args, LG_OPS_GRANT);
}

SEC("syscall")
int lg_collect(struct lg_ops_args *args)
{
	lg_denials_book_all();
	return lg_ops_run(args, LG_OPS_COLLECT);
}

SEC("syscall")
int lg_track(struct lg_ops_args *args)
{
	return lg_conn_ops_run(args);
}

SEC("syscall")
int lg_check(struct lg_check_args *args)
{
	return lg_checks_run(args);
}
