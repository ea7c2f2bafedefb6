/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * struct lg_pkt to the rules it matches. Pure.
 *
 * The scan walks one map value with arithmetic instead of branches: comparing a rule takes some 30 instructions without
 * a jump, and the verifier sees one path through 64 rules. (With a branch per rule the bitmap of hits becomes a set of
 * known constants, and the number of states doubles with each rule.)
 */
#pragma once

#include "bits.h"
#include "parse.h"

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

/* 0 if the packet's destination port lies in one of the rule's ranges, else not 0. */
static __always_inline __u64 lg_ports_miss(const struct lg_rule *rule, const struct lg_pkt *pkt)
{
	__u64 miss = 1, beyond;
	__u32 i;

	for (i = 0; i < LG_PORT_RANGES_MAX; i++) {
		if (i >= rule->n_ports)
			break;
		/* Negative, top bit set, iff port < lo or port > hi. */
		beyond = ((__u64)pkt->destination_port - rule->ports[i].lo) | ((__u64)rule->ports[i].hi - pkt->destination_port);
		lg_opaque(beyond);
		miss &= beyond >> 63;
	}
	return miss | (pkt->has_port ^ 1);
}

/* 0 if the rule matches the packet, else not 0. */
static __always_inline __u64 lg_rule_miss(const struct lg_rule *rule, const struct lg_pkt *pkt)
{
	const __u64 *source = (const __u64 *)rule->source, *source_mask = (const __u64 *)rule->source_mask;
	const __u64 *destination = (const __u64 *)rule->destination;
	const __u64 *destination_mask = (const __u64 *)rule->destination_mask;
	__u64 compare_protocol, miss;

	miss = (pkt->source.w[0] ^ source[0]) & source_mask[0];
	miss |= (pkt->source.w[1] ^ source[1]) & source_mask[1];
	miss |= (pkt->destination.w[0] ^ destination[0]) & destination_mask[0];
	miss |= (pkt->destination.w[1] ^ destination[1]) & destination_mask[1];
	miss |= pkt->family & ~rule->flags;
	compare_protocol = -(__u64)(rule->flags / LG_RULE_PROTOCOL & 1);
	miss |= (pkt->protocol ^ rule->protocol) & compare_protocol;
	if (rule->n_ports)
		miss |= lg_ports_miss(rule, pkt);
	return miss;
}

/* Bit i is set iff rule i of the set matches. */
static __always_inline __u64 lg_classify(const struct lg_ruleset *set, const struct lg_pkt *pkt)
{
	__u64 hits = 0;
	__u32 i;

	for (i = 0; i < LG_RULES_MAX; i++) {
		if (i >= set->n_rules)
			break;
		hits |= (__u64)lg_forget(lg_is_zero(lg_rule_miss(&set->rules[i], pkt))) << i;
	}
	return hits;
}
