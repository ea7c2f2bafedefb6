/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Bytes to struct lg_pkt. Pure.
 *
 * What cannot be read is a class of its own, never a guess: ports, flags and types are taken only from inside the IP
 * packet (Ethernet padding is no payload) and only where offset 0 of their header lies; a later fragment has none. The
 * walk is bounded: two VLAN tags, LG_IP6_EXT_MAX extension headers, and headers within LG_HEADERS_MAX_BYTES. Every length is
 * compared with the frame before it is used.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>

#include "frame.h"

#define LG_HEADERS_MAX_BYTES 20000 /* eight extension headers of 2 KiB; the verifier wants offsets below 64 Ki */
#define LG_IP_OFFSET_MASK 0x1fff
#define LG_IP_MORE 0x2000
#define LG_IP6_OFFSET_MASK 0xfff8
#define LG_IP6_MORE 0x0001
#define LG_ETHERTYPE_MIN 0x600 /* below it the field is a length (802.3, LLC) */

enum lg_ip_protocol {
	LG_PROTO_HOPOPTS = 0,
	LG_PROTO_ICMP = 1,
	LG_PROTO_IGMP = 2,
	LG_PROTO_TCP = 6,
	LG_PROTO_UDP = 17,
	LG_PROTO_ROUTING = 43,
	LG_PROTO_FRAGMENT = 44,
	LG_PROTO_AH = 51,
	LG_PROTO_ICMPV6 = 58,
	LG_PROTO_DSTOPTS = 60,
	LG_PROTO_SCTP = 132,
};

/* Types and, behind them, codes that a limit must not touch unless a rule names them. */
enum lg_icmp_kept {
	LG_ICMP_UNREACHABLE = 3,
	LG_ICMP_FRAG_NEEDED = 4, /* code */
	LG_ICMP6_TOO_BIG = 2,
	LG_ICMP6_MLD_FIRST = 130, /* listener query, report, done */
	LG_ICMP6_MLD_LAST = 132,
	LG_ICMP6_MLD2_REPORT = 143,
	LG_ICMP6_ND_FIRST = 133, /* router solicitation */
	LG_ICMP6_ND_LAST = 137,  /* redirect */
};

enum lg_tcp_flag {
	LG_TCP_FIN = 1 << 0,
	LG_TCP_SYN = 1 << 1,
	LG_TCP_RST = 1 << 2,
	LG_TCP_ACK = 1 << 4,
};

enum lg_class {
	LG_CLASS_IP,
	LG_CLASS_EXEMPT, /* what keeps links and paths alive: limited only by rules that name it */
	LG_CLASS_NOT_IP,
	LG_CLASS_UNPARSABLE,
	LG_CLASS_RETRY, /* of a fast frame only: it takes the other way to tell */
};

struct lg_addr {
	__u64 w[2]; /* 16 bytes in network order, IPv4 as ::ffff:a.b.c.d */
};

/* What its header is; a bit each. */
enum lg_family { LG_RULE_IPV4 = 1 << 4,
		 LG_RULE_IPV6 = 1 << 5,
		 LG_RULE_NOT_IP = 1 << 7 };
enum lg_fragment { LG_FRAGMENT_NONE = 0,
		   LG_FRAGMENT_FIRST = 1,
		   LG_FRAGMENT_LATER = 2 };

/* What the packet does not have is 0. */
struct lg_pkt {
	struct lg_addr source;
	struct lg_addr destination;
	__u64 cgroup_id;        /* of the sending socket, at TC egress */
	__u32 packets;          /* a superframe counts as its segments */
	__u32 bytes;            /* on the wire, without FCS */
	__u32 l4_off;           /* of the transport header; 0: there is none to be seen */
	__u32 family;           /* enum lg_family; 0: not read */
	__u32 ifindex;          /* of the interface the hook is on */
	__u32 iface_class;      /* 1 .. 63: which of the interfaces that rules name; 0: none of them */
	__u16 destination_port; /* host order, as all numbers here */
	__u16 source_port;
	__u16 ethertype; /* behind the tags; 0: 802.3 with a length */
	__u16 vlan;      /* 1 + id of the outer tag, priority bits masked off; 0: untagged */
	__u16 inner_vlan;
	__u8 protocol; /* behind extension headers */
	__u8 has_port;
	__u8 tcp_flags; /* 0 unless a TCP header was seen */
	__u8 has_icmp;  /* type and code were seen */
	__u8 icmp_type;
	__u8 icmp_code;
	__u8 fragment;   /* enum lg_fragment */
	__u8 direction;  /* 0: ingress, 1: egress */
	__u8 source_is4; /* the address is IPv4, which those mapped into IPv6 are too, whatever the family */
	__u8 destination_is4;
	__u8 ecn;        /* at TC, if a rule marks by it: the bits of its header */
	__u8 flow; /* enum lg_flow: what is noted of its connection once it may pass */
};

struct lg_ip6 {
	__be32 version; /* in the first four bits */
	__be16 payload_bytes;
	__u8 next;
	__u8 hop_limit;
	__u64 source[2];
	__u64 destination[2];
};

struct lg_ip6_ext {
	__u8 next;
	__u8 len;
	__be16 fragment; /* offset and flags, in a fragment header */
	__u32 _rest;
};

struct lg_vlan {
	__be16 tci;
	__be16 proto;
};

struct lg_ports {
	__be16 source;
	__be16 destination;
};

/* The first part of a TCP header, up to the flags. */
struct lg_tcp {
	struct lg_ports ports;
	__be16 seq[2];
	__be16 ack[2];
	__u8 data_off;
	__u8 flags;
};

struct lg_icmp {
	__u8 type;
	__u8 code;
};

/* Room for one header at a time, where it cannot be read in place: one for all saves stack. */
union lg_head {
	struct ethhdr eth;
	struct lg_vlan vlan;
	struct iphdr ip4;
	struct lg_ip6 ip6;
	struct lg_ip6_ext ext;
	struct lg_ports ports;
	struct lg_tcp tcp;
	struct lg_icmp icmp;
};

/*
 * Extension headers by protocol number: 0 none, else 1 + the bytes one unit of the length field stands for. A table and
 * no switch, so that the verifier walks one path through the chain and not four to the power of eight.
 */
static const __u8 lg_ip6_ext_unit[256] = {
	[LG_PROTO_HOPOPTS] = 1 + 8,
	[LG_PROTO_ROUTING] = 1 + 8,
	[LG_PROTO_DSTOPTS] = 1 + 8,
	[LG_PROTO_FRAGMENT] = 1 + 0,
	[LG_PROTO_AH] = 1 + 4,
};

static __always_inline _Bool lg_is_vlan(__be16 proto)
{
	return proto == bpf_htons(ETH_P_8021Q) || proto == bpf_htons(ETH_P_8021AD);
}

/* What to say of bytes that are not there. */
static __always_inline enum lg_class lg_no_bytes(const struct lg_frame *f)
{
	return f->is_fast ? LG_CLASS_RETRY : LG_CLASS_UNPARSABLE;
}

/* What to say of a header that is wrong, or longer than a plain frame, which may have more than its length says. */
static __always_inline enum lg_class lg_not_plain(const struct lg_frame *f)
{
	return f->is_plain ? LG_CLASS_RETRY : LG_CLASS_UNPARSABLE;
}

static __always_inline _Bool lg_is_plain_l4(__u8 protocol)
{
	return protocol == LG_PROTO_TCP || protocol == LG_PROTO_UDP;
}

static __always_inline void lg_ports_set(struct lg_pkt *pkt, const struct lg_ports *ports)
{
	pkt->source_port = bpf_ntohs(ports->source);
	pkt->destination_port = bpf_ntohs(ports->destination);
	pkt->has_port = 1;
}

/* A header cut off before its flags would be TCP that no rule about flags sees: it is none at all. */
static __always_inline enum lg_class lg_parse_tcp(const struct lg_frame *f, __u32 end, struct lg_pkt *pkt, union lg_head *buf)
{
	const struct lg_tcp *tcp;

	tcp = lg_frame_at(f, pkt->l4_off, sizeof(*tcp), buf);
	if (!tcp)
		return lg_no_bytes(f);
	if (pkt->l4_off + sizeof(*tcp) > end)
		return lg_not_plain(f);
	lg_ports_set(pkt, &tcp->ports);
	pkt->tcp_flags = tcp->flags;
	return LG_CLASS_IP;
}

/* What stands in a header at l4_off, which must lie before @end; ICMP is for the families to read. */
static __always_inline enum lg_class lg_parse_l4(const struct lg_frame *f, __u32 end, struct lg_pkt *pkt, union lg_head *buf)
{
	const struct lg_ports *ports;

	if (pkt->protocol == LG_PROTO_TCP)
		return lg_parse_tcp(f, end, pkt, buf);
	if (pkt->protocol != LG_PROTO_UDP && pkt->protocol != LG_PROTO_SCTP)
		return LG_CLASS_IP;
	ports = lg_frame_at(f, pkt->l4_off, sizeof(*ports), buf);
	if (!ports)
		return lg_no_bytes(f);
	if (pkt->l4_off + sizeof(*ports) > end)
		return lg_not_plain(f);
	lg_ports_set(pkt, ports);
	return LG_CLASS_IP;
}

static __always_inline enum lg_class lg_parse_icmp(const struct lg_frame *f, __u32 end, struct lg_pkt *pkt, union lg_head *buf)
{
	const struct lg_icmp *icmp;

	icmp = lg_frame_at(f, pkt->l4_off, sizeof(*icmp), buf);
	if (!icmp)
		return lg_no_bytes(f);
	if (pkt->l4_off + sizeof(*icmp) > end)
		return LG_CLASS_UNPARSABLE;
	pkt->icmp_type = icmp->type;
	pkt->icmp_code = icmp->code;
	pkt->has_icmp = 1;
	return LG_CLASS_IP;
}

static __always_inline __u64 lg_mapped_word(__be32 addr)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (__u64)addr << 32 | bpf_htonl(0xffff);
#else
	return (__u64)0xffff << 32 | addr;
#endif
}

/* The length field, or the rest of a superframe too long for it (the kernel's own BIG TCP leaves it 0). */
static __always_inline __u32 lg_ip_len(__u32 field_bytes, __u32 rest_bytes)
{
	return !field_bytes && rest_bytes > 0xffff ? rest_bytes : field_bytes;
}

/*
 * Routers keep each other alive by link-local multicast, switches learn from IGMP who listens, and without "fragmentation
 * needed" TCP hangs behind a narrow path. None of the multicast comes through a router, so nobody from afar gets through
 * under its name.
 */
static __always_inline _Bool lg_is_kept4(__be32 destination, const struct lg_pkt *pkt)
{
	if ((destination & bpf_htonl(0xf0000000)) == bpf_htonl(0xe0000000))
		return pkt->protocol == LG_PROTO_IGMP || (destination & bpf_htonl(0xffffff00)) == bpf_htonl(0xe0000000);
	return pkt->has_icmp && pkt->icmp_type == LG_ICMP_UNREACHABLE && pkt->icmp_code == LG_ICMP_FRAG_NEEDED;
}

static __always_inline enum lg_class lg_parse_ip4(const struct lg_frame *f, __u32 off, struct lg_pkt *pkt, union lg_head *buf)
{
	__u32 header_bytes, total_bytes, rest_bytes;
	enum lg_class class = LG_CLASS_IP;
	const struct iphdr *ip;
	__be32 destination;

	ip = lg_frame_at(f, off, sizeof(*ip), buf);
	if (!ip)
		return lg_no_bytes(f);
	rest_bytes = f->len_bytes - off;
	header_bytes = ip->ihl * 4;
	total_bytes = lg_ip_len(bpf_ntohs(ip->tot_len), rest_bytes);
	if (ip->version != 4 || header_bytes < sizeof(*ip) || total_bytes < header_bytes || total_bytes > rest_bytes)
		return lg_not_plain(f);
	if (f->is_plain && (ip->ihl != 5 || ip->frag_off & bpf_htons(LG_IP_OFFSET_MASK | LG_IP_MORE) || !lg_is_plain_l4(ip->protocol)))
		return LG_CLASS_RETRY;
	destination = ip->daddr;
	/* In one piece, though they are 0 by now: two halves would not be there yet for whoever reads the whole. */
	pkt->source.w[0] = lg_blur(0);
	pkt->destination.w[0] = lg_blur(0);
	pkt->source.w[1] = lg_mapped_word(ip->saddr);
	pkt->destination.w[1] = lg_mapped_word(destination);
	pkt->source_is4 = 1;
	pkt->destination_is4 = 1;
	pkt->family = LG_RULE_IPV4;
	pkt->protocol = ip->protocol;
	if (ip->frag_off & bpf_htons(LG_IP_OFFSET_MASK)) {
		pkt->fragment = LG_FRAGMENT_LATER;
	} else {
		if (ip->frag_off & bpf_htons(LG_IP_MORE))
			pkt->fragment = LG_FRAGMENT_FIRST;
		pkt->l4_off = off + header_bytes;
		class = pkt->protocol == LG_PROTO_ICMP ? lg_parse_icmp(f, off + total_bytes, pkt, buf)
						       : lg_parse_l4(f, off + total_bytes, pkt, buf);
	}
	return class == LG_CLASS_IP && lg_is_kept4(destination, pkt) ? LG_CLASS_EXEMPT : class;
}

static __always_inline _Bool lg_addr_is4(const struct lg_addr *addr)
{
	return !addr->w[0] && !((addr->w[1] ^ lg_mapped_word(0)) & bpf_cpu_to_be64(~0ull << 32));
}

/*
 * Neighbour discovery lives or dies with the link: a limit must not touch it. Hop limit 255 proves that no router
 * forwarded it, and it is never fragmented. Listener discovery comes from a link-local address or from none, which
 * routers do not forward either. "Too big" is what TCP needs to learn of a narrow path.
 */
static __always_inline _Bool lg_is_kept_icmp6(const struct lg_pkt *pkt, __u8 hop_limit, _Bool is_fragment)
{
	__u8 type = pkt->icmp_type;

	if (type == LG_ICMP6_TOO_BIG)
		return 1;
	if (type >= LG_ICMP6_ND_FIRST && type <= LG_ICMP6_ND_LAST)
		return hop_limit == 255 && !is_fragment;
	if ((type < LG_ICMP6_MLD_FIRST || type > LG_ICMP6_MLD_LAST) && type != LG_ICMP6_MLD2_REPORT)
		return 0;
	return (pkt->source.w[0] & bpf_cpu_to_be64(0xffc0ull << 48)) == bpf_cpu_to_be64(0xfe80ull << 48) ||
	       !(pkt->source.w[0] | pkt->source.w[1]);
}

/* Link-local multicast, ff02::/16. */
static __always_inline _Bool lg_is_kept6(const struct lg_pkt *pkt)
{
	return (pkt->destination.w[0] & bpf_cpu_to_be64(0xffffull << 48)) == bpf_cpu_to_be64(0xff02ull << 48);
}

static __always_inline enum lg_class lg_parse_ip6(const struct lg_frame *f, __u32 off, struct lg_pkt *pkt, union lg_head *buf)
{
	const struct lg_ip6_ext *ext;
	const struct lg_ip6 *ip;
	_Bool is_fragment = 0;
	__u8 next, hop_limit;
	enum lg_class class;
	__u32 end, unit, i;

	ip = lg_frame_at(f, off, sizeof(*ip), buf);
	if (!ip)
		return lg_no_bytes(f);
	if ((ip->version & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000))
		return lg_not_plain(f);
	if (f->is_plain && !lg_is_plain_l4(ip->next))
		return LG_CLASS_RETRY;
	pkt->source.w[0] = ip->source[0];
	pkt->source.w[1] = ip->source[1];
	pkt->destination.w[0] = ip->destination[0];
	pkt->destination.w[1] = ip->destination[1];
	pkt->source_is4 = lg_addr_is4(&pkt->source);
	pkt->destination_is4 = lg_addr_is4(&pkt->destination);
	pkt->family = LG_RULE_IPV6;
	next = ip->next;
	hop_limit = ip->hop_limit;
	off += sizeof(*ip);
	end = off + lg_ip_len(bpf_ntohs(ip->payload_bytes), f->len_bytes - off);
	if (end > f->len_bytes)
		return lg_not_plain(f);

	for (i = 0; i < LG_IP6_EXT_MAX; i++) {
		unit = lg_ip6_ext_unit[next];
		if (!unit)
			break;
		if (f->is_fast)
			return LG_CLASS_RETRY;
		ext = lg_frame_at(f, off, sizeof(*ext), buf);
		if (!ext || off + sizeof(*ext) > end)
			return LG_CLASS_UNPARSABLE;
		if (next == LG_PROTO_FRAGMENT) {
			is_fragment = 1;
			if (ext->fragment & bpf_htons(LG_IP6_MORE))
				pkt->fragment = LG_FRAGMENT_FIRST;
			if (ext->fragment & bpf_htons(LG_IP6_OFFSET_MASK)) {
				pkt->fragment = LG_FRAGMENT_LATER;
				pkt->protocol = ext->next;
				return lg_is_kept6(pkt) ? LG_CLASS_EXEMPT : LG_CLASS_IP;
			}
		}
		next = ext->next;
		off = lg_forget(off + sizeof(*ext) + ext->len * (unit - 1));
		if (off > end || off > LG_HEADERS_MAX_BYTES)
			return LG_CLASS_UNPARSABLE;
	}
	if (lg_ip6_ext_unit[next])
		return LG_CLASS_UNPARSABLE;
	pkt->protocol = next;
	pkt->l4_off = off;
	if (next != LG_PROTO_ICMPV6) {
		class = lg_parse_l4(f, end, pkt, buf);
	} else {
		class = lg_parse_icmp(f, end, pkt, buf);
		if (class == LG_CLASS_IP && lg_is_kept_icmp6(pkt, hop_limit, is_fragment))
			return LG_CLASS_EXEMPT;
	}
	return class == LG_CLASS_IP && lg_is_kept6(pkt) ? LG_CLASS_EXEMPT : class;
}

/* One more tag: the first one is the outer, the second the inner. */
static __always_inline void lg_tag_add(struct lg_pkt *pkt, __u16 tag)
{
	if (pkt->vlan)
		pkt->inner_vlan = tag;
	else
		pkt->vlan = tag;
}

/* What follows Ethernet header and tags. */
static __always_inline enum lg_class lg_parse_l3(const struct lg_frame *f, __be16 proto, __u32 off, struct lg_pkt *pkt,
						 union lg_head *buf)
{
	if (bpf_ntohs(proto) >= LG_ETHERTYPE_MIN)
		pkt->ethertype = bpf_ntohs(proto);
	if (proto == bpf_htons(ETH_P_IP))
		return lg_parse_ip4(f, off, pkt, buf);
	if (proto == bpf_htons(ETH_P_IPV6))
		return lg_parse_ip6(f, off, pkt, buf);
	if (lg_is_vlan(proto))
		return LG_CLASS_UNPARSABLE;
	pkt->family = LG_RULE_NOT_IP;
	return proto == bpf_htons(ETH_P_ARP) ? LG_CLASS_EXEMPT : LG_CLASS_NOT_IP;
}

/**
 * lg_parse_into() - what kind of frame it is and, for IP, whose
 * @f:   a fast one answers LG_CLASS_RETRY where direct reads do not reach, and on extension headers
 * @pkt: all 0; what stands in the frame is set, but packets and bytes (lg_measure) and where it is (lg_place)
 */
static __always_inline enum lg_class lg_parse_into(const struct lg_frame *f, struct lg_pkt *pkt)
{
	union lg_head buf;
	const struct lg_vlan *vlan;
	const struct ethhdr *eth;
	__u32 off = ETH_HLEN, i;
	__be16 proto;

	pkt->vlan = f->tag;
	eth = lg_frame_at(f, 0, sizeof(*eth), &buf.eth);
	if (!eth)
		return lg_no_bytes(f);
	proto = eth->h_proto;
	if (f->is_plain && proto != bpf_htons(ETH_P_IP) && proto != bpf_htons(ETH_P_IPV6))
		return LG_CLASS_RETRY;
	for (i = f->tag != 0; i < LG_VLAN_TAGS_MAX && lg_is_vlan(proto); i++) {
		vlan = lg_frame_at(f, off, sizeof(*vlan), &buf.vlan);
		if (!vlan)
			return lg_no_bytes(f);
		lg_tag_add(pkt, 1 + (bpf_ntohs(vlan->tci) & LG_VLAN_ID_MASK));
		proto = vlan->proto;
		off += sizeof(*vlan);
	}
	return lg_parse_l3(f, proto, off, pkt, &buf);
}

/* Set where the packet is. */
static __always_inline void lg_place(const struct lg_frame *f, struct lg_pkt *pkt)
{
	pkt->ifindex = f->ifindex;
	pkt->direction = f->hook == LG_HOOK_TC_EGRESS;
}

static __always_inline enum lg_class lg_parse(const struct lg_frame *f, struct lg_pkt *pkt)
{
	__builtin_memset(pkt, 0, sizeof(*pkt));
	lg_place(f, pkt);
	return lg_parse_into(f, pkt);
}

/* All headers in front of the payload, as each segment of a superframe will carry them; 0: not read, the other way can tell. */
static __always_inline __u32 lg_headers_bytes(const struct lg_frame *f, const struct lg_pkt *pkt)
{
	__u32 off = pkt->l4_off;
	const __u8 *data_off;
	__u8 buf;

	if (!off)
		return ETH_HLEN;
	if (pkt->protocol == LG_PROTO_UDP)
		return off + 8;
	lg_opaque(off);
	if (pkt->protocol != LG_PROTO_TCP || off > LG_HEADERS_MAX_BYTES)
		return off;
	data_off = lg_frame_at(f, off + 12, sizeof(buf), &buf);
	if (!data_off)
		return f->is_fast ? 0 : off + 20;
	return off + (*data_off >> 4) * 4;
}

/**
 * lg_measure() - set packets and bytes: what the frame is on the wire, without FCS
 *
 * A superframe (GRO, GSO; seen by TC only) is counted as the segments it came as or will leave as, each with its own
 * headers, and a tag that the kernel holds apart belongs to each; so XDP and TC charge the same for the same traffic.
 *
 * Return: 1, or 0 for a fast frame that takes the other way to tell.
 */
static __always_inline _Bool lg_measure(const struct lg_frame *f, struct lg_pkt *pkt)
{
	__u32 tag_bytes = f->tag ? sizeof(struct lg_vlan) : 0, segs, headers_bytes;

	pkt->packets = 1;
	pkt->bytes = f->len_bytes + tag_bytes;
	if (!f->gso_size)
		return 1;
	headers_bytes = lg_headers_bytes(f, pkt);
	segs = f->gso_segs;
	if (!segs && f->len_bytes > headers_bytes)
		segs = (f->len_bytes - headers_bytes + f->gso_size - 1) / f->gso_size;
	if (segs < 2)
		return 1;
	pkt->packets = segs;
	pkt->bytes += (segs - 1) * (headers_bytes + tag_bytes);
	return headers_bytes != 0;
}
