/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What rules do with packets that they have no tokens for, other than to drop them. A rule chooses where its answer is concluded; what
 * was chosen is done once, by the entry, when the verdict is there. Of several rules:
 *
 *   a refusal comes before all that lets pass; of those that refuse and reply the last one asked replies;
 *   pacing comes before marks, and of two the longer wait holds for both; of marks the first one asked.
 *
 * None of it is on the way of a packet that no such rule has to do with.
 */
#pragma once

#include <linux/pkt_cls.h>

#include "many.h"
#include "pace.h"
#include "reply.h"

#define LG_ECN_MASK 3 /* of TOS and traffic class */

/* Chooses for a packet that has to wait. Its tokens are taken, those of other rules too. */
static __always_inline enum lg_reason lg_hold_back(struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_key key = visit->key;
	struct lg_bucket *bucket;
	enum lg_reason reason;
	__u32 delay_ns;

	bucket = lg_bucket_of(&key);
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	if (!bucket)
		return LG_PASS_ADMITTED;
	delay_ns = lg_pace_delay_ns(&rule->rate, rule->burst_tok, lg_read(bucket->full_at_vt),
				    lg_rate_now(&rule->rate, lg_visit_now(visit, rule)));
	if (!delay_ns)
		return LG_PASS_ADMITTED;
	if (visit->act == LG_ACTION_PACE && visit->act_value > delay_ns)
		return LG_PASS_PACED;
	visit->act = LG_ACTION_PACE;
	visit->act_value = delay_ns;
	return LG_PASS_PACED;
}

static __always_inline enum lg_reason lg_choose(struct lg_visit *visit, const struct lg_rule *rule, enum lg_reason reason)
{
	if (reason == LG_DROP_BANNED) /* who is shut out gets neither a mark nor an answer */
		return reason;
	switch ((enum lg_action)rule->action) {
	case LG_ACTION_RESET:
	case LG_ACTION_PROHIBITED:
		if (visit->hook != LG_HOOK_TC_EGRESS)
			visit->act = rule->action;
		return reason;
	case LG_ACTION_ECN:
		if (!visit->pkt.ecn)
			return reason;
		break;
	case LG_ACTION_MARK:
	case LG_ACTION_PRIORITY:
	case LG_ACTION_DSCP: break;
	default: return reason;
	}
	if (visit->hook == LG_HOOK_XDP)
		return reason;
	if (!visit->act) {
		visit->act = rule->action;
		visit->act_value = rule->action_value;
	}
	return LG_PASS_MARKED;
}

/* What a rule that is not like most says of its own answer, for the key at hand. Returns the reason that counts. */
__noinline int lg_answer(struct lg_visit *visit, const struct lg_rule *rule, __u32 reason)
{
	if (!visit || !rule)
		return reason;
	if (lg_is_pass(reason))
		return reason == LG_PASS_ADMITTED && rule->action == LG_ACTION_PACE ? lg_hold_back(visit, rule) : reason;
	return rule->flags & LG_RULE_SHADOW ? LG_PASS_SHADOW : lg_choose(visit, rule, reason);
}

/* ---- done at TC ---- */

/* Of a frame that the parser has read. */
static __always_inline __u32 lg_l3_off(struct __sk_buff *skb, __be16 *ret_proto)
{
	__u32 off = offsetof(struct ethhdr, h_proto), i;
	__be16 proto = 0;

	for (i = 0; i <= LG_VLAN_TAGS_MAX; i++, off += sizeof(struct lg_vlan)) {
		if (bpf_skb_load_bytes(skb, off, &proto, sizeof(proto)) || !lg_is_vlan(proto))
			break;
	}
	*ret_proto = proto;
	return off + sizeof(proto);
}

/* The first two bytes of the IP header, which have TOS or traffic class. Returns where they are; 0: there is no IP. */
static __always_inline __u32 lg_tos_read(struct __sk_buff *skb, __u16 *ret_word, __u8 *ret_shift)
{
	__be16 proto, word;
	__u32 off = lg_l3_off(skb, &proto);

	if ((proto != bpf_htons(ETH_P_IP) && proto != bpf_htons(ETH_P_IPV6)) || bpf_skb_load_bytes(skb, off, &word, sizeof(word)))
		return 0;
	*ret_word = bpf_ntohs(word);
	*ret_shift = proto == bpf_htons(ETH_P_IPV6) ? 4 : 0;
	return off;
}

/* Whether a packet may be marked: the ECN bits of its header, 0 where its ends have not agreed on it. */
__noinline int lg_ecn_of(struct __sk_buff *skb)
{
	__u8 shift = 0;
	__u16 word = 0;

	return lg_tos_read(skb, &word, &shift) ? word >> shift & LG_ECN_MASK : 0;
}

/*
 * Writes the bits of TOS or traffic class that @mask has. What the kernel knows of the sum of an IPv4 packet stays right, as the header's
 * own checksum makes up for the change; IPv6 has none.
 */
static __always_inline void lg_tos_write(struct __sk_buff *skb, __u8 bits, __u8 mask)
{
	__u16 word = 0, next;
	__u8 shift = 0;
	__be16 was, is;
	__u32 off;

	off = lg_tos_read(skb, &word, &shift);
	next = (word & ~((__u16)mask << shift)) | (__u16)bits << shift;
	if (!off || next == word)
		return;
	was = bpf_htons(word);
	is = bpf_htons(next);
	if (!shift && bpf_l3_csum_replace(skb, off + offsetof(struct iphdr, check), was, is, sizeof(is)))
		return;
	bpf_skb_store_bytes(skb, off, &is, sizeof(is), shift ? BPF_F_RECOMPUTE_CSUM : 0);
}

/* fq lets a packet go at the time it carries; one that the sender set for later stays. */
static __always_inline void lg_depart(struct __sk_buff *skb, const struct lg_visit *visit)
{
	__u64 since_ns = lg_clock(false) - visit->clock_ns[0];
	__u64 at_ns = bpf_ktime_get_ns() + visit->act_value - since_ns;

	if ((__s64)(at_ns - skb->tstamp) > 0)
		bpf_skb_set_tstamp(skb, at_ns, BPF_SKB_TSTAMP_DELIVERY_MONO);
}

/* Does what the rules chose for a packet that may pass. Returns the verdict at TC. */
__noinline int lg_act_tc(struct __sk_buff *skb, struct lg_visit *visit)
{
	if (!visit)
		return TC_ACT_UNSPEC;
	switch ((enum lg_action)visit->act) {
	case LG_ACTION_MARK: skb->mark = visit->act_value; break;
	case LG_ACTION_PRIORITY: skb->priority = visit->act_value; break;
	case LG_ACTION_DSCP: lg_tos_write(skb, visit->act_value << 2, (__u8)~LG_ECN_MASK); break;
	case LG_ACTION_ECN: lg_tos_write(skb, LG_ECN_MASK, LG_ECN_MASK); break;
	case LG_ACTION_PACE: lg_depart(skb, visit); break;
	default: break;
	}
	return TC_ACT_UNSPEC;
}
