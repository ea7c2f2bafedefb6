/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a sender is told of a packet that was dropped: a RST, or ICMP "administratively prohibited" with the packet's head in it. The reply
 * takes the packet's place and leaves by the way it came: it is put together from nothing in a room of this CPU's, then written over
 * the packet, so that nothing that a sender chose gets into it but addresses, ports and numbers, and the quote.
 *
 * A reply must never be an answer to a reply, nor reach whoever did not ask: none goes to ICMP errors, RSTs and fragments, to or from what
 * is no single host's address, nor more than LG_REPLIES_PER_S, for addresses may be forged.
 */
#pragma once

#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#include "step.h"

#define LG_QUOTE4_BYTES 548 /* RFC 1812: the whole within 576 bytes */
#define LG_QUOTE6_BYTES 1232 /* RFC 4443: the whole within 1280 bytes */
#define LG_QUOTE_L4_BYTES 8 /* RFC 792: of what follows the IP header, at least */
#define LG_REPLY_TICK_NS (1000000000ull / LG_REPLIES_PER_S)
#define LG_REPLY_BURST_NS ((LG_REPLIES_BURST - 1) * LG_REPLY_TICK_NS)
#define LG_IP_DONT 0x4000 /* fragment */
#define LG_HOP_LIMIT 64
#define LG_L2_MAX_BYTES (ETH_HLEN + LG_VLAN_TAGS_MAX * sizeof(struct lg_vlan))
#define LG_FRAME_MIN_BYTES 60
#define LG_PAD_MAX_BYTES 8 /* a RST over IPv4 is 54 bytes long at least */

/* Every reply's quote begins here, or where there is none, it ends here; what is in front ends here. */
#define LG_QUOTE_AT 128
#define LG_SUM_STEP 512 /* most that a helper adds up at once */
#define LG_LENGTHS 2048 /* what a reply's length is below, as far as the verifier knows */
#define LG_REPLY_BYTES (LG_QUOTE_AT + 4 * LG_SUM_STEP)

/* TC: bytes that are taken out between Ethernet and the reply: what an offload was to sum up then lies in front of it, and is let be. */
#define LG_CUT_BYTES 128

/* Where a reply is put together; what it is made from stands beside it, as there is little stack. */
struct lg_reply_room {
	__u8 l2[24];
	union {
		struct iphdr ip4;
		__be32 ip6[10];
	} was;
	struct tcphdr tcp;
	__u8 _pad[4];
	__u8 bytes[LG_REPLY_BYTES];
} __attribute__((aligned(8)));

_Static_assert(sizeof(struct lg_reply_room) <= LG_REPLY_ROOM_BYTES, "a reply has room");

struct lg_icmp_error {
	__u8 type;
	__u8 code;
	__sum16 check;
	__be32 unused;
};

enum {
	LG_ICMP_PROHIBITED = 13, /* code of "destination unreachable" */
	LG_ICMP6_UNREACHABLE = 1,
	LG_ICMP6_PROHIBITED = 1, /* code */
	LG_ICMP6_FIRST_QUERY = 128,
};

struct lg_reply {
	__u32 l2_bytes;
	__u32 was_bytes;   /* of the packet, from its IP header on */
	__u32 head_bytes;  /* of the reply, between Ethernet and quote */
	__u32 quote_bytes; /* 0: a RST */
	bool may_grow;	   /* and shrink: the frame */
};

static __always_inline bool lg_is_query4(__u8 type)
{
	return type == 8 || type == 13 || type == 15 || type == 17;
}

/* Whether the packet's kind may be answered so. */
static __always_inline bool lg_may_reply(const struct lg_visit *visit)
{
	const struct lg_pkt *pkt = &visit->pkt;

	if (visit->act != LG_ACTION_RESET && visit->act != LG_ACTION_PROHIBITED)
		return false;
	if (pkt->fragment || !pkt->l4_off || (pkt->family != LG_RULE_IPV4 && pkt->family != LG_RULE_IPV6))
		return false;
	if (pkt->protocol == LG_PROTO_TCP)
		return !(pkt->tcp_flags & LG_TCP_RST);
	if (visit->act == LG_ACTION_RESET)
		return false;
	if (pkt->protocol == LG_PROTO_ICMP)
		return pkt->family == LG_RULE_IPV4 && pkt->has_icmp && lg_is_query4(pkt->icmp_type);
	if (pkt->protocol == LG_PROTO_ICMPV6)
		return pkt->family == LG_RULE_IPV6 && pkt->has_icmp && pkt->icmp_type >= LG_ICMP6_FIRST_QUERY;
	return true;
}

static __always_inline bool lg_is_host4(__be32 addr)
{
	__u32 first = bpf_ntohl(addr) >> 24;

	return first && first != 127 && first < 224;
}

static __always_inline bool lg_is_host6(const __be32 *addr)
{
	if (!(addr[0] | addr[1] | addr[2]) && bpf_ntohl(addr[3]) <= 1) /* :: and ::1 */
		return false;
	return bpf_ntohl(addr[0]) >> 24 != 0xff;
}

/*
 * Whether a length is 1 .. most. What the verifier needs to know of it is said by its bits, and so goes where the length goes: 6.1 learns
 * nothing of copies, nor from "it is not 0" that it is at least 1.
 */
static __always_inline bool lg_is_within(__u32 *len, __u32 most)
{
	__u32 last = *len - 1;

	lg_opaque(last);
	*len = (last & (LG_LENGTHS - 1)) + 1;
	return last < most;
}

static __always_inline __u64 lg_sum(const __u8 *p, __u32 n_bytes, __u64 sum)
{
	__u32 i, n;

	for (i = 0; i < 3; i++) {
		n = n_bytes < LG_SUM_STEP ? n_bytes : LG_SUM_STEP;
		lg_opaque(n);
		if (n > LG_SUM_STEP)
			n = LG_SUM_STEP;
		sum += (__u32)bpf_csum_diff(NULL, 0, (__be32 *)(p + i * LG_SUM_STEP), (n + 3) & ~3u, 0);
		n_bytes -= n;
	}
	return sum;
}

static __always_inline __sum16 lg_sum_fold(__u64 sum)
{
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__sum16)~sum;
}

/* ---- what the packet was ---- */

/* Ethernet and tags, turned round. Returns their length; 0: the frame was not from one station to one. */
static __always_inline __u32 lg_reply_l2(const struct lg_frame *f, __u8 *l2)
{
	const __be16 *proto = (const __be16 *)(l2 + offsetof(struct ethhdr, h_proto));
	__u8 mac[ETH_ALEN];

	if (!lg_frame_at(f, 0, LG_L2_MAX_BYTES, l2) || (l2[0] | l2[ETH_ALEN]) & 1)
		return 0;
	__builtin_memcpy(mac, l2, ETH_ALEN);
	__builtin_memcpy(l2, l2 + ETH_ALEN, ETH_ALEN);
	__builtin_memcpy(l2 + ETH_ALEN, mac, ETH_ALEN);
	if (!lg_is_vlan(proto[0]))
		return ETH_HLEN;
	return ETH_HLEN + (lg_is_vlan(proto[2]) ? 2 : 1) * sizeof(struct lg_vlan);
}

/* The IP header. Returns how long the packet is with it; 0: it is not from one host to one, or too long for its length field. */
static __always_inline __u32 lg_reply_l3(const struct lg_frame *f, const struct lg_pkt *pkt, __u32 off, struct lg_reply_room *room)
{
	const struct iphdr *ip4 = &room->was.ip4;
	const __be32 *ip6 = room->was.ip6;
	__u32 n;

	if (pkt->family == LG_RULE_IPV4) {
		if (!lg_frame_at(f, off, sizeof(*ip4), &room->was) || !lg_is_host4(ip4->saddr) || !lg_is_host4(ip4->daddr))
			return 0;
		return bpf_ntohs(ip4->tot_len);
	}
	if (!lg_frame_at(f, off, sizeof(struct lg_ip6), &room->was) || !lg_is_host6(ip6 + 2) || !lg_is_host6(ip6 + 6))
		return 0;
	n = bpf_ntohl(ip6[1]) >> 16;
	return n ? n + sizeof(struct lg_ip6) : 0;
}

/* ---- what it is told ---- */

/* The IP header of a reply whose transport part begins at @at. */
static __always_inline void lg_reply_ip4(struct lg_reply_room *room, __u32 at, __u8 protocol, __u32 l4_bytes)
{
	struct iphdr *ip = (struct iphdr *)&room->bytes[at - sizeof(*ip)];

	*ip = (struct iphdr){
		.version = 4,
		.ihl = 5,
		.tot_len = bpf_htons(sizeof(*ip) + l4_bytes),
		.frag_off = bpf_htons(LG_IP_DONT),
		.ttl = LG_HOP_LIMIT,
		.protocol = protocol,
		.saddr = room->was.ip4.daddr,
		.daddr = room->was.ip4.saddr,
	};
	ip->check = lg_sum_fold((__u32)bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0));
}

static __always_inline void lg_reply_ip6(struct lg_reply_room *room, __u32 at, __u8 protocol, __u32 l4_bytes)
{
	__be32 *ip = (__be32 *)&room->bytes[at - sizeof(struct lg_ip6)];
	__u32 i;

	ip[0] = bpf_htonl(6u << 28);
	ip[1] = bpf_htonl(l4_bytes << 16 | (__u32)protocol << 8 | LG_HOP_LIMIT);
	for (i = 0; i < 4; i++) {
		ip[2 + i] = room->was.ip6[6 + i];
		ip[6 + i] = room->was.ip6[2 + i];
	}
}

/* The IP header, and the checksum of what follows it. */
static __always_inline __sum16 lg_reply_finish(struct lg_reply_room *room, bool is4, __u32 at, __u8 protocol, __u32 l4_bytes, bool has_pseudo)
{
	__u64 sum = has_pseudo ? (__u64)bpf_htons(protocol) + bpf_htons(l4_bytes) : 0;

	if (is4) {
		lg_reply_ip4(room, at, protocol, l4_bytes);
		if (has_pseudo)
			sum += (__u32)bpf_csum_diff(NULL, 0, (__be32 *)&room->bytes[at - 8], 8, 0);
	} else {
		lg_reply_ip6(room, at, protocol, l4_bytes);
		sum += (__u32)bpf_csum_diff(NULL, 0, (__be32 *)&room->bytes[at - 32], 32, 0);
	}
	return lg_sum_fold(lg_sum(&room->bytes[at], l4_bytes, sum));
}

/* As one who knows nothing of the connection answers (RFC 9293 3.10.7.1). Returns whether there is a whole TCP header to answer to. */
static __always_inline bool lg_reply_reset(const struct lg_frame *f, const struct lg_pkt *pkt, struct lg_reply_room *room,
					   struct lg_reply *reply)
{
	const __u32 at = LG_QUOTE_AT - sizeof(struct tcphdr);
	struct tcphdr *rst = (struct tcphdr *)&room->bytes[at];
	const struct tcphdr *tcp = &room->tcp;
	__u32 off = pkt->l4_off, head_bytes;
	bool is4 = pkt->family == LG_RULE_IPV4;

	if (off > LG_HEADERS_MAX_BYTES || !lg_frame_at(f, off, sizeof(*tcp), &room->tcp))
		return false;
	head_bytes = off - reply->l2_bytes + tcp->doff * 4;
	if (tcp->doff < 5 || head_bytes > reply->was_bytes)
		return false;
	*rst = (struct tcphdr){ .source = tcp->dest, .dest = tcp->source, .doff = 5, .rst = 1 };
	if (tcp->ack) {
		rst->seq = tcp->ack_seq;
	} else {
		rst->ack = 1;
		rst->ack_seq = bpf_htonl(bpf_ntohl(tcp->seq) + reply->was_bytes - head_bytes + tcp->syn + tcp->fin);
	}
	__builtin_memset(&room->bytes[LG_QUOTE_AT], 0, LG_PAD_MAX_BYTES); /* another packet's head may stand there */
	reply->quote_bytes = 0;
	reply->head_bytes = (is4 ? sizeof(struct iphdr) : sizeof(struct lg_ip6)) + sizeof(*rst);
	rst->check = lg_reply_finish(room, is4, at, LG_PROTO_TCP, sizeof(*rst), true);
	return true;
}

/* Less is quoted where the frame cannot grow, though no less than the packet's IP header and what names its sender behind it. */
static __always_inline bool lg_reply_fits(const struct lg_frame *f, const struct lg_pkt *pkt, const struct lg_reply *reply,
					  __u32 head_bytes, __u32 *n)
{
	__u32 in_front = reply->l2_bytes + head_bytes, room = f->len_bytes > in_front ? f->len_bytes - in_front : 0;

	if (*n > room)
		*n = room;
	return *n >= pkt->l4_off - reply->l2_bytes + LG_QUOTE_L4_BYTES || *n == reply->was_bytes;
}

static __always_inline bool lg_reply_prohibited(const struct lg_frame *f, const struct lg_pkt *pkt, struct lg_reply_room *room,
						struct lg_reply *reply)
{
	const __u32 at = LG_QUOTE_AT - sizeof(struct lg_icmp_error);
	struct lg_icmp_error *icmp = (struct lg_icmp_error *)&room->bytes[at];
	bool is4 = pkt->family == LG_RULE_IPV4;
	__u32 n = reply->was_bytes, most = is4 ? LG_QUOTE4_BYTES : LG_QUOTE6_BYTES;
	long r;

	n = n < most ? n : most;
	if (!reply->may_grow && !lg_reply_fits(f, pkt, reply, (is4 ? sizeof(struct iphdr) : sizeof(struct lg_ip6)) + sizeof(*icmp), &n))
		return false;
	if (!lg_is_within(&n, LG_QUOTE6_BYTES))
		return false;
	r = f->hook == LG_HOOK_XDP ? bpf_xdp_load_bytes(f->ctx, reply->l2_bytes, &room->bytes[LG_QUOTE_AT], n)
				   : bpf_skb_load_bytes(f->ctx, reply->l2_bytes, &room->bytes[LG_QUOTE_AT], n);
	if (r)
		return false;
	__builtin_memset(&room->bytes[LG_QUOTE_AT + n], 0, sizeof(__u32)); /* the sum goes by words */
	*icmp = is4 ? (struct lg_icmp_error){ .type = LG_ICMP_UNREACHABLE, .code = LG_ICMP_PROHIBITED }
		    : (struct lg_icmp_error){ .type = LG_ICMP6_UNREACHABLE, .code = LG_ICMP6_PROHIBITED };
	reply->quote_bytes = n;
	reply->head_bytes = (is4 ? sizeof(struct iphdr) : sizeof(struct lg_ip6)) + sizeof(*icmp);
	icmp->check = lg_reply_finish(room, is4, at, is4 ? LG_PROTO_ICMP : LG_PROTO_ICMPV6, sizeof(*icmp) + n, !is4);
	return true;
}

/* Puts a reply together. Returns false if there is none to be given. */
static __always_inline bool lg_reply_make(const struct lg_frame *f, struct lg_visit *visit, struct lg_reply_room *room,
					  struct lg_shared *words, struct lg_reply *reply)
{
	const struct lg_pkt *pkt = &visit->pkt;

	if (!lg_may_reply(visit))
		return false;
	reply->l2_bytes = lg_reply_l2(f, room->l2);
	if (!reply->l2_bytes)
		return false;
	reply->was_bytes = lg_reply_l3(f, pkt, reply->l2_bytes, room);
	if (!reply->was_bytes || !lg_admit(&words->replies_full_at_ns, lg_clock(false), LG_REPLY_TICK_NS, LG_REPLY_BURST_NS))
		return false;
	if (visit->act == LG_ACTION_RESET)
		return lg_reply_reset(f, pkt, room, reply);
	return visit->act == LG_ACTION_PROHIBITED && lg_reply_prohibited(f, pkt, room, reply);
}

/* ---- how it leaves ---- */

/*
 * Puts Ethernet in front. Returns where the frame begins in the room, and its length in *ret_len. A short one is padded with zeros up to
 * what the packet had.
 */
static __always_inline __u8 *lg_reply_frame(struct lg_reply_room *room, const struct lg_reply *reply, __u32 had_bytes, __u32 *ret_len)
{
	__u32 at = LG_QUOTE_AT - reply->head_bytes - reply->l2_bytes, len = reply->l2_bytes + reply->head_bytes + reply->quote_bytes, i;

	if (had_bytes > LG_FRAME_MIN_BYTES)
		had_bytes = LG_FRAME_MIN_BYTES;
	if (len < had_bytes)
		len = had_bytes;
	lg_opaque(at);
	if (at > LG_QUOTE_AT - LG_L2_MAX_BYTES || !lg_is_within(&len, LG_QUOTE_AT + LG_QUOTE6_BYTES))
		return NULL;
	for (i = 0; i < LG_L2_MAX_BYTES; i++)
		if (i < reply->l2_bytes)
			room->bytes[at + i] = room->l2[i];
	*ret_len = len;
	return &room->bytes[at];
}

static __always_inline void lg_reply_count(struct lg_shared *words, const struct lg_reply *reply)
{
	__sync_fetch_and_add(reply->quote_bytes ? &words->prohibited : &words->resets, 1);
}

/* Writes a reply over the frame. A frame grows at its head alone: with a quote; for a RST it need not. */
static __always_inline int lg_reply_xdp_in(struct xdp_md *ctx, struct lg_visit *visit, bool may_grow)
{
	struct lg_frame f = lg_frame_of_xdp(ctx, false);
	struct lg_reply reply = { .may_grow = may_grow };
	__u32 zero = 0, had = f.len_bytes, len = 0;
	struct lg_reply_room *room;
	struct lg_shared *words;
	__u8 *frame;

	room = bpf_map_lookup_elem(&reply_rooms, &zero);
	words = bpf_map_lookup_elem(&shared, &zero);
	f.is_fast = false;
	if (!visit || !room || !words || !lg_reply_make(&f, visit, room, words, &reply))
		return XDP_DROP;
	frame = lg_reply_frame(room, &reply, had, &len);
	if (!frame)
		return XDP_DROP;
	if (may_grow && reply.quote_bytes && bpf_xdp_adjust_head(ctx, -(int)reply.head_bytes))
		return XDP_DROP;
	had += reply.quote_bytes ? reply.head_bytes : 0;
	if ((may_grow && bpf_xdp_adjust_tail(ctx, (int)len - (int)had)) || bpf_xdp_store_bytes(ctx, 0, frame, len))
		return XDP_DROP;
	lg_reply_count(words, &reply);
	return XDP_TX;
}

/* Returns the verdict at XDP on a packet that is not let through. */
__noinline int lg_reply_xdp(struct xdp_md *ctx, struct lg_visit *visit)
{
	return lg_reply_xdp_in(ctx, visit, true);
}

/*
 * The same without a helper that moves a frame's ends, which no program may call that takes the place of a function that calls none. The
 * frame keeps its length: behind a short reply stands, as padding, the rest of what its receiver sent.
 */
__noinline int lg_reply_xdp_in_place(struct xdp_md *ctx, struct lg_visit *visit)
{
	return lg_reply_xdp_in(ctx, visit, false);
}

/* The same at TC ingress. A tag that the kernel holds apart goes out again. */
__noinline int lg_reply_tc(struct __sk_buff *skb, struct lg_visit *visit)
{
	struct lg_frame f = lg_frame_of_skb(skb, LG_HOOK_TC_INGRESS, false);
	struct lg_reply reply = { .may_grow = true };
	struct lg_reply_room *room;
	struct lg_shared *words;
	__u32 zero = 0, len = 0;
	__u8 *frame;

	room = bpf_map_lookup_elem(&reply_rooms, &zero);
	words = bpf_map_lookup_elem(&shared, &zero);
	f.is_fast = false;
	if (!visit || !room || !words || visit->pkt.l4_off >= LG_CUT_BYTES || !lg_reply_make(&f, visit, room, words, &reply))
		return TC_ACT_SHOT;
	frame = lg_reply_frame(room, &reply, 0, &len);
	if (!frame || bpf_skb_change_tail(skb, len + LG_CUT_BYTES, 0) || bpf_skb_adjust_room(skb, -LG_CUT_BYTES, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_store_bytes(skb, 0, frame, len, BPF_F_RECOMPUTE_CSUM | BPF_F_INVALIDATE_HASH))
		return TC_ACT_SHOT;
	lg_reply_count(words, &reply);
	return (int)bpf_redirect(skb->ifindex, 0);
}
