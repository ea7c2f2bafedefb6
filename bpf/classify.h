/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * struct lg_pkt to the rules it matches. Pure.
 *
 * Each field of the packet that rules look at leads, by a table or a tree made in user space, to the vector of the rules it is in
 * (struct lg_classifier); a packet matches the AND. So what a packet costs depends on how many fields the rules use, and hardly on
 * how many rules there are. All is arithmetic on one map value: a branch that depends on the packet is mispredicted every other
 * time, and each way it can go is one more for the verifier. Every index is bounded by a mask.
 */
#pragma once

#include "bits.h"
#include "parse.h"

/* ---- sets of rules ---- */

/* Index of the lowest set bit of x, which is not 0: a de Bruijn sequence, as BPF has no such instruction. */
static __always_inline __u32 lg_lowest_bit(__u64 x)
{
	static const __u8 index[64] = {
		0,
		1,
		48,
		2,
		57,
		49,
		28,
		3,
		61,
		58,
		50,
		42,
		38,
		29,
		17,
		4,
		62,
		55,
		59,
		36,
		53,
		51,
		43,
		22,
		45,
		39,
		33,
		30,
		24,
		18,
		12,
		5,
		63,
		47,
		56,
		27,
		60,
		41,
		37,
		16,
		54,
		35,
		52,
		21,
		44,
		32,
		23,
		11,
		46,
		26,
		40,
		15,
		34,
		20,
		31,
		10,
		25,
		14,
		19,
		9,
		13,
		8,
		7,
		6,
	};

	__u32 bit = index[((x & -x) * 0x03f79d71b4cb0a89ull) >> 58];

	/* clang knows what the table holds and would drop a bound check that the verifier needs. */
	lg_opaque(bit);
	return bit & 63;
}

static __always_inline _Bool lg_bits_empty(const struct lg_bits *bits)
{
	return !(bits->w[0] | bits->w[1] | bits->w[2] | bits->w[3]);
}

/* Leaves those that are in both. */
static __always_inline void lg_bits_keep(struct lg_bits *bits, const struct lg_bits *other)
{
	bits->w[0] &= other->w[0];
	bits->w[1] &= other->w[1];
	bits->w[2] &= other->w[2];
	bits->w[3] &= other->w[3];
}

/* The lowest rule of a set that is not empty, taken out of it. */
static __always_inline __u32 lg_bits_take(struct lg_bits *bits)
{
	__u64 word = bits->w[0], none0, none1, none2;
	__u32 first;

	/* 1 where all words so far are empty: then the next one is it, and loses its lowest bit. */
	none0 = lg_is_zero(word);
	none1 = none0 & lg_is_zero(bits->w[1]);
	none2 = none1 & lg_is_zero(bits->w[2]);
	word |= (bits->w[1] & -none0) | (bits->w[2] & -none1) | (bits->w[3] & -none2);
	bits->w[0] &= bits->w[0] - 1;
	bits->w[1] &= bits->w[1] - none0;
	bits->w[2] &= bits->w[2] - none1;
	bits->w[3] &= bits->w[3] - none2;
	first = (none0 + none1 + none2) * 64 + lg_lowest_bit(word);
	/* Else clang drops the mask of whoever takes this as a place, and 6.1 does not know the bounds of the `or` that is left. */
	lg_opaque(first);
	return first;
}

/**
 * lg_bits_single() - the one rule of a set
 * @bits: not empty
 * @ret:  the rule, if there is no other
 *
 * Return: whether there is no other.
 */
static __always_inline _Bool lg_bits_single(const struct lg_bits *bits, __u32 *ret)
{
	__u64 high = bits->w[1] | bits->w[2] | bits->w[3], word = bits->w[0] | high, in0, in1, in2, in3;
	__u32 only = lg_lowest_bit(word);

	word &= word - 1;
	if (__builtin_expect(high != 0, 1)) { /* seldom, but the way that the verifier should take first: it covers the other one */
		in0 = lg_is_zero(bits->w[0]) ^ 1;
		in1 = lg_is_zero(bits->w[1]) ^ 1;
		in2 = lg_is_zero(bits->w[2]) ^ 1;
		in3 = lg_is_zero(bits->w[3]) ^ 1;
		only += (in1 + 2 * in2 + 3 * in3) * 64;
		word |= in0 + in1 + in2 + in3 - 1;
	}
	/* Else clang masks both parts of the sum and joins them by an `or`, whose bounds 6.1 does not see. */
	lg_opaque(only);
	*ret = only;
	return !word;
}

static __always_inline _Bool lg_is_wide(const struct lg_classifier *c)
{
	return c->n_rules > 64;
}

static __always_inline const struct lg_bits *lg_vector(const struct lg_classifier *c, __u32 index)
{
	return &c->vectors[index & (LG_VECTORS_MAX - 1)];
}

static __always_inline void lg_bits_and(struct lg_bits *bits, const struct lg_classifier *c, __u32 index)
{
	const struct lg_bits *vector = lg_vector(c, index);

	bits->w[0] &= vector->w[0];
	if (!lg_is_wide(c))
		return;
	bits->w[1] &= vector->w[1];
	bits->w[2] &= vector->w[2];
	bits->w[3] &= vector->w[3];
}

/* ---- one field ---- */

/* The leaf below @entry for an address: its vector. See struct lg_tree_node. */
static __always_inline __u32 lg_tree_find(const struct lg_classifier *c, __u32 entry, __u64 high, __u64 low, _Bool is_ip4)
{
	__u64 differ = high ^ low, x, i, is_outside;
	const struct lg_tree_node *node;
	__u32 level;

	for (level = 0; level < LG_TREE_LEVELS; level++) {
		if (!(entry & LG_TREE_NODE))
			break;
		entry &= LG_TREE_WORDS - 1;
		node = (const struct lg_tree_node *)&c->tree[entry];
		x = is_ip4 ? high : high ^ (differ & -(__u64)node->is_low);
		i = (x - node->base) >> node->shift;
		is_outside = i >> node->bits;
		i = (i + 1) & -lg_is_zero(is_outside);
		entry = c->tree[(entry + __builtin_offsetof(struct lg_tree_node, outside) / sizeof(entry) + i) & (LG_TREE_WORDS - 1)];
	}
	return entry;
}

/*
 * ANDs the rules that an address is in. With an IPv4 header it is in IPv4 prefixes only; with an IPv6 header in IPv6 ones and, if it
 * is an IPv4 address mapped into IPv6, in IPv4 ones too.
 */
static __always_inline void lg_address_and(struct lg_bits *bits, const struct lg_classifier *c, const struct lg_addr *addr,
					   __u32 root4, __u32 root6, __u64 is_ip4)
{
	const struct lg_bits *in6, *in4;
	__u64 high, low, index;

	low = bpf_be64_to_cpu(addr->w[1]);
	if (is_ip4) {
		lg_bits_and(bits, c, lg_tree_find(c, root4, low << 32, 0, 1));
		return;
	}
	high = bpf_be64_to_cpu(addr->w[0]);
	index = lg_tree_find(c, root6, high, low, 0);
	if (high || low >> 32 != 0xffff) {
		lg_bits_and(bits, c, index);
		return;
	}
	in6 = lg_vector(c, index);
	in4 = lg_vector(c, lg_tree_find(c, root4, low << 32, 0, 1));
	bits->w[0] &= in6->w[0] | in4->w[0];
	bits->w[1] &= in6->w[1] | in4->w[1];
	bits->w[2] &= in6->w[2] | in4->w[2];
	bits->w[3] &= in6->w[3] | in4->w[3];
}

static __always_inline __u32 lg_kind_of(const struct lg_pkt *pkt)
{
	__u32 kind = pkt->protocol | (pkt->family / LG_RULE_IPV4 & 3) * LG_KIND_FAMILY;

	kind |= (pkt->has_port | pkt->has_icmp) * LG_KIND_L4;
	kind |= pkt->fragment * LG_KIND_FRAGMENT;
	return (kind | pkt->direction * LG_KIND_EGRESS) & (_LG_KIND_N - 1);
}

/* Only one of the three is there; what is not is 0. */
static __always_inline __u16 lg_number_of(const struct lg_pkt *pkt, __u64 is_ip)
{
	__u64 number = pkt->destination_port | (__u32)pkt->icmp_type << 8 | pkt->icmp_code;

	return lg_pick(pkt->ethertype, number, is_ip);
}

/* ---- all of them ---- */

/**
 * lg_classify() - the rules that a packet matches
 * @c:        of the set in force
 * @ret_bits: bit i is set iff rule i of the set matches
 */
static __always_inline void lg_classify(const struct lg_classifier *c, const struct lg_pkt *pkt, struct lg_bits *ret_bits)
{
	__u64 is_ip4 = pkt->family / LG_RULE_IPV4 & 1, is_ip = is_ip4 | (pkt->family / LG_RULE_IPV6 & 1);
	__u32 dims = c->dims;

	*ret_bits = *lg_vector(c, c->kinds[lg_kind_of(pkt)]);
	if (dims & LG_DIM_SOURCE)
		lg_address_and(ret_bits, c, &pkt->source, c->source4, c->source6, is_ip4);
	if (dims & LG_DIM_DESTINATION)
		lg_address_and(ret_bits, c, &pkt->destination, c->destination4, c->destination6, is_ip4);
	if (dims & LG_DIM_NUMBER)
		lg_bits_and(ret_bits, c, c->numbers[lg_number_of(pkt, is_ip)]);
	if (dims & LG_DIM_SOURCE_PORT)
		lg_bits_and(ret_bits, c, c->source_ports[pkt->source_port]);
	if (dims & LG_DIM_TCP_FLAGS)
		lg_bits_and(ret_bits, c, c->tcp_flags[pkt->tcp_flags]);
	if (dims & LG_DIM_VLAN)
		lg_bits_and(ret_bits, c, c->vlans[pkt->vlan & (LG_VLAN_SLOTS - 1)]);
	if (dims & LG_DIM_INNER_VLAN)
		lg_bits_and(ret_bits, c, c->inner_vlans[pkt->inner_vlan & (LG_VLAN_SLOTS - 1)]);
	if (dims & LG_DIM_INTERFACE)
		lg_bits_and(ret_bits, c, c->interfaces[pkt->iface_class & (LG_INTERFACE_CLASSES - 1)]);
}
