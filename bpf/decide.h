/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The pipeline of all three entries: parse, bypass, exempt, classify, test and take, count. One exit, one verdict, one count.
 */
#pragma once

#include "act.h"

/* For a rule set that asks for it: which of the interfaces that it names the packet is on. */
__noinline int lg_find_interface(struct lg_pkt *pkt, __u32 active)
{
	const struct lg_interface_class *class;
	__u32 ifindex;

	if (!pkt)
		return 0;
	ifindex = pkt->ifindex; /* 6.1 wants keys on the stack */
	class = bpf_map_lookup_elem(&interfaces, &ifindex);
	return class ? class->of_set[active & 1] : 0;
}

/* What few rules look at. */
static __always_inline void lg_look_further(const struct lg_frame *f, struct lg_visit *visit, __u32 active, __u32 needs)
{
	if (needs & LG_NEEDS_INTERFACE)
		visit->pkt.iface_class = lg_find_interface(&visit->pkt, active);
	if (f->hook != LG_HOOK_XDP && needs & LG_NEEDS_ECN)
		visit->pkt.ecn = lg_ecn_of(f->ctx);
}

/*
 * The rule found, which most often is the last packet's again. A CPU that guessed that right goes on with what the guess says, and need
 * not wait until what it looks up has led to the same rule.
 */
static __always_inline __u32 lg_guessed(struct lg_visit *visit, __u32 found)
{
	__u32 zero = 0, guess;
	struct lg_memo *memo = bpf_map_lookup_elem(&memos, &zero);

	if (!memo)
		return found;
	visit->clock_ns[1] = lg_clock_kept(memo); /* at hand, and most rules ask for it */
	guess = memo->rule;
	lg_opaque(guess); /* else clang knows that both are the same, and takes the one that comes later */
	if (guess == found)
		return guess;
	memo->rule = found;
	return found;
}

static __always_inline enum lg_reason lg_judge(const struct lg_frame *f, enum lg_class class, struct lg_visit *visit,
					       const struct lg_control *ctl)
{
	const struct lg_classifier *classifier;
	const struct lg_ruleset *set;
	const struct lg_rule *rule;
	__u32 active = lg_read(ctl->active_set), only;
	bool is_plain = true;
	struct lg_bits hits;
	int r;

	visit->is_reachable = ctl->reachable;
	classifier = bpf_map_lookup_elem(&classifiers, &active);
	set = bpf_map_lookup_elem(&rules, &active);
	if (!classifier || !set)
		return LG_PASS_NO_RULE;
	if (f->hook == LG_HOOK_TC_EGRESS && set->needs & LG_NEEDS_CGROUP)
		visit->pkt.cgroup_id = bpf_skb_cgroup_id(f->ctx);
	/* What was read as a plain frame may have more of it in fragments, behind the end of its IP packet. */
	if (f->hook == LG_HOOK_XDP && set->needs & LG_NEEDS_BYTES)
		visit->pkt.bytes = bpf_xdp_get_buff_len(f->ctx);
	if (set->needs & (LG_NEEDS_INTERFACE | LG_NEEDS_ECN))
		lg_look_further(f, visit, active, set->needs);
	if (ctl->has_lists && class == LG_CLASS_IP) {
		r = lg_list_find(&visit->pkt);
		if (r != LG_LIST_NONE)
			return r == LG_LIST_ALLOW ? LG_PASS_ALLOWED : (enum lg_reason)lg_listed(&visit->pkt, active, f->hook);
	}
	lg_classify(classifier, &visit->pkt, &hits);
	if (class == LG_CLASS_EXEMPT)
		lg_bits_keep(&hits, &set->exempt);
	if (set->needs & (LG_NEEDS_CONNECTIONS | LG_NEEDS_INITIATED)) {
		lg_flow_before(visit, set);
		lg_flow_sift(&hits, &set->initiated, &visit->pkt.flow);
		is_plain = !visit->pkt.flow;
	}
	if (lg_bits_empty(&hits)) {
		if (!is_plain)
			lg_flow_after(visit, NULL, NULL, LG_PASS_NO_RULE);
		return class == LG_CLASS_IP ? LG_PASS_NO_RULE : class == LG_CLASS_EXEMPT ? (enum lg_reason)lg_exempt(&visit->pkt, f->hook, 0)
											 : LG_PASS_NOT_IP;
	}
	if (is_plain && lg_bits_single(&hits, &only)) {
		rule = &set->rules[lg_guessed(visit, only) & (LG_RULES_MAX - 1)];
		lg_opaque(rule); /* else clang adds set and place anew for each of its members */
		if (rule->special) {
			r = lg_special(visit, rule, f->hook);
			if (r >= 0)
				return r;
		}
		if (rule->table != LG_TABLE_LINES)
			return lg_judge_one(visit, rule);
		r = lg_line_hit(visit, rule, ctl);
		if (r >= 0)
			return r;
	}
	if (lg_bits_meet(&hits, &set->pass))
		return lg_exempt_among(&visit->pkt, f->hook, set, &hits);
	return lg_judge_many(visit, set, &hits);
}

/* By the times of the word, of which one is set. */
__noinline int lg_bypass_holds(void)
{
	__u32 zero = 0;
	const struct lg_bypass *word = bpf_map_lookup_elem(&bypass, &zero);
	__u64 now_ns = lg_clock(true);

	return word && lg_read(word->from_ns) <= now_ns && now_ns < lg_read(word->until_ns);
}

static __always_inline bool lg_is_bypassed(void)
{
	__u32 zero = 0;
	const struct lg_bypass *word = bpf_map_lookup_elem(&bypass, &zero);

	return word && lg_read(word->until_ns) && lg_bypass_holds();
}

/*
 * Most frames are TCP or UDP right behind a plain IP header: these are read in place. All others are read in functions of their own: what
 * the verifier learns on the many ways through a frame ends with them, and what follows is walked once. First by direct reads alone;
 * what these cannot do is read again by copies.
 */
static __always_inline enum lg_class lg_read_frame(const struct lg_frame *f, struct lg_pkt *pkt)
{
	enum lg_class class = lg_parse_into(f, pkt);

	return lg_measure(f, pkt) ? class : LG_CLASS_RETRY;
}

static __always_inline enum lg_class lg_read_anew(const struct lg_frame *f, struct lg_pkt *pkt)
{
	__builtin_memset(pkt, 0, sizeof(*pkt));
	return lg_read_frame(f, pkt);
}

static __always_inline enum lg_class lg_reread_frame(struct lg_frame *f, struct lg_pkt *pkt)
{
	f->is_fast = false;
	return lg_read_anew(f, pkt);
}

__noinline int lg_read_xdp(struct xdp_md *ctx, struct lg_pkt *pkt)
{
	struct lg_frame f = lg_frame_of_xdp(ctx, false);

	return pkt ? lg_read_anew(&f, pkt) : LG_CLASS_UNPARSABLE;
}

__noinline int lg_reread_xdp(struct xdp_md *ctx, struct lg_pkt *pkt)
{
	struct lg_frame f = lg_frame_of_xdp(ctx, false);

	return pkt ? lg_reread_frame(&f, pkt) : LG_CLASS_UNPARSABLE;
}

__noinline int lg_read_tc(struct __sk_buff *skb, struct lg_pkt *pkt)
{
	struct lg_frame f = lg_frame_of_skb(skb, LG_HOOK_TC_INGRESS, false);

	return pkt ? lg_read_anew(&f, pkt) : LG_CLASS_UNPARSABLE;
}

__noinline int lg_reread_tc(struct __sk_buff *skb, struct lg_pkt *pkt)
{
	struct lg_frame f = lg_frame_of_skb(skb, LG_HOOK_TC_INGRESS, false);

	return pkt ? lg_reread_frame(&f, pkt) : LG_CLASS_UNPARSABLE;
}

/* An IPv6 packet to or from IPv4, by the prefix of this host's NAT64. */
__noinline int lg_translate(struct lg_pkt *pkt)
{
	const struct lg_control *ctl;
	__u32 zero = 0;

	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!pkt || !ctl)
		return 0;
	lg_nat64(ctl->nat64, &pkt->source, &pkt->source_is4);
	lg_nat64(ctl->nat64, &pkt->destination, &pkt->destination_is4);
	return 0;
}

/*
 * A packet of which nothing is known, the verifier included: to it zeros that some ways leave and others do not would be different
 * packets. Half slots of the stack are written, as whole ones would be remembered.
 */
static __always_inline void lg_pkt_clear(struct lg_pkt *pkt)
{
	volatile __u32 *word = (volatile __u32 *)pkt;
	__u32 zero = lg_forget(0), i;

	for (i = 0; i < sizeof(*pkt) / sizeof(*word); i++)
		word[i] = zero;
}

static __always_inline enum lg_class lg_read_unusual(const struct lg_frame *f, struct lg_pkt *pkt)
{
	enum lg_class class = f->hook == LG_HOOK_XDP ? lg_read_xdp(f->ctx, pkt) : lg_read_tc(f->ctx, pkt);

	if (class == LG_CLASS_RETRY)
		class = f->hook == LG_HOOK_XDP ? lg_reread_xdp(f->ctx, pkt) : lg_reread_tc(f->ctx, pkt);
	if (pkt->fragment == LG_FRAGMENT_LATER)
		lg_count_later_fragment(f->hook);
	return class;
}

static __always_inline enum lg_class lg_read_any(const struct lg_frame *f, struct lg_visit *visit)
{
	struct lg_pkt *pkt = &visit->pkt;
	enum lg_class class;

	lg_pkt_clear(pkt);
	class = lg_read_frame(f, pkt);
	if (class == LG_CLASS_RETRY)
		class = lg_read_unusual(f, pkt);
	class = lg_forget(class);
	lg_place(f, pkt);
	return class;
}

/* Everything from bytes to verdict, without the count. */
static __always_inline enum lg_reason lg_reason_for(const struct lg_frame *f, struct lg_visit *visit)
{
	const struct lg_control *ctl;
	enum lg_class class;
	__u32 zero = 0;

	class = lg_read_any(f, visit);
	visit->clock_ns[0] = lg_forget(0);
	visit->clock_ns[1] = visit->clock_ns[0];
	ctl = bpf_map_lookup_elem(&control, &zero);
	if (lg_is_bypassed() || !ctl)
		return LG_PASS_BYPASS;
	if (class == LG_CLASS_UNPARSABLE || class == LG_CLASS_RETRY)
		return ctl->unparsable_drop ? LG_DROP_UNPARSABLE : LG_PASS_UNPARSABLE;
	if (*(const __u64 *)ctl->nat64 && visit->pkt.family == LG_RULE_IPV6)
		lg_translate(&visit->pkt);
	return lg_judge(f, class, visit, ctl);
}

/* True if the frame may pass. Then, and if not, there may be something to be done in visit->act. */
static __always_inline bool lg_decide(const struct lg_frame *f, struct lg_visit *visit)
{
	enum lg_reason reason;

	visit->hook = f->hook;
	visit->act = lg_forget(LG_ACTION_DROP);
	reason = lg_reason_for(f, visit);
	lg_count_verdict(f->hook, reason, &visit->pkt);
	return lg_is_pass(reason);
}
