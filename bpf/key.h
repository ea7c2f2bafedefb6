/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * struct lg_pkt to its key under a rule. Pure.
 *
 * An IPv4 address is keyed with IPv4's mask wherever it stands: in an IPv4 header, mapped into IPv6, or behind NAT64. What a packet
 * does not have is 0 in its key: a later fragment has the key without ports, an untagged frame that without a tag.
 */
#pragma once

#include "bits.h"
#include "parse.h"

/* NAT64: an address of the prefix, a /96, is the IPv4 address in its last 32 bits. */
static __always_inline void lg_nat64(const __u8 prefix[16], struct lg_addr *addr, __u8 *ret_is4)
{
	const __u64 *p = (const __u64 *)prefix;
	__u64 high = bpf_cpu_to_be64(~0ull << 32);

	if ((addr->w[0] ^ p[0]) | ((addr->w[1] ^ p[1]) & high))
		return;
	addr->w[0] = 0;
	addr->w[1] = (addr->w[1] & ~high) | lg_mapped_word(0);
	*ret_is4 = 1;
}

/* The key of a rule with one address or none. */
static __always_inline void lg_key_make(const struct lg_rule *rule, const struct lg_pkt *pkt, struct lg_key *ret_key)
{
	__u64 is_destination = rule->key_form & 1, has_address = -(__u64)(rule->key_form >> 1);
	__u64 is6 = (lg_pick(pkt->source_is4, pkt->destination_is4, is_destination) & 1) ^ 1;
	__u64 *a = (__u64 *)ret_key->a, *b = (__u64 *)ret_key->b;
	const __u64 *mask;

	_Static_assert(LG_FORM_RULE == 1 && LG_FORM_SOURCE == 2 && LG_FORM_DESTINATION == 3, "is_destination means nothing of a rule");
	_Static_assert(__builtin_offsetof(struct lg_rule, key_mask6) == __builtin_offsetof(struct lg_rule, key_mask4) + 16, "is6 chooses");
	lg_opaque(is6); /* else clang takes both masks and chooses then */
	mask = (const __u64 *)((const __u8 *)rule + __builtin_offsetof(struct lg_rule, key_mask4) + is6 * sizeof(rule->key_mask4));
	ret_key->rule_id = rule->rule_id;
	ret_key->form = rule->key_form;
	a[0] = lg_pick(pkt->source.w[0], pkt->destination.w[0], is_destination) & mask[0] & has_address;
	a[1] = lg_pick(pkt->source.w[1], pkt->destination.w[1], is_destination) & mask[1] & has_address;
	b[0] = 0;
	b[1] = 0;
}

/* ---- products ---- */

/* An address under the mask of its family. */
static __always_inline void lg_addr_key(const struct lg_addr *addr, __u8 is4, const __u8 mask4[16], const __u8 mask6[16], __u64 *ret)
{
	const __u64 *m4 = (const __u64 *)mask4, *m6 = (const __u64 *)mask6;

	ret[0] = addr->w[0] & lg_pick(m6[0], m4[0], is4);
	ret[1] = addr->w[1] & lg_pick(m6[1], m4[1], is4);
}

static __always_inline void lg_wide_make(const struct lg_rule *rule, const struct lg_pkt *pkt, struct lg_wide_key *ret)
{
	lg_addr_key(&pkt->source, pkt->source_is4, rule->key_mask4, rule->key_mask6, (__u64 *)ret->source);
	lg_addr_key(&pkt->destination, pkt->destination_is4, rule->destination_mask4, rule->destination_mask6, (__u64 *)ret->destination);
	ret->cgroup_id = pkt->cgroup_id & -(__u64) !!(rule->product_form & LG_KEY_CGROUP);
}

static __always_inline void lg_narrow_make(const struct lg_rule *rule, const struct lg_pkt *pkt, struct lg_key_narrow *ret)
{
	const struct lg_key_narrow *mask = &rule->narrow_mask;

	*ret = (struct lg_key_narrow){
		.source_port = pkt->source_port & mask->source_port,
		.destination_port = pkt->destination_port & mask->destination_port,
		.vlan = pkt->vlan & mask->vlan,
		.inner_vlan = pkt->inner_vlan & mask->inner_vlan,
		.interface = pkt->ifindex & mask->interface,
		.protocol = pkt->protocol & mask->protocol,
	};
}

/* SipHash's round. */
static __always_inline __u64 lg_rotate(__u64 x, __u32 bits)
{
	return x << bits | x >> (64 - bits);
}

static __always_inline void lg_sip_round(__u64 v[4])
{
	v[0] += v[1];
	v[1] = lg_rotate(v[1], 13) ^ v[0];
	v[0] = lg_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = lg_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = lg_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = lg_rotate(v[1], 17) ^ v[2];
	v[2] = lg_rotate(v[2], 32);
}

static __always_inline void lg_sip_word(__u64 v[4], __u64 word, bool is_secret)
{
	v[3] ^= word;
	lg_sip_round(v);
	if (is_secret)
		lg_sip_round(v);
	v[0] ^= word;
}

static __always_inline __u64 lg_sip_end(__u64 v[4], bool is_secret)
{
	__u32 i;

	for (i = 0; i < 3; i++)
		lg_sip_round(v);
	if (is_secret)
		lg_sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/*
 * SipHash-1-3 of 128 bits, of the five words of a wide key: nobody without the key finds two that share a bucket. Of a secret key
 * SipHash-2-4, and of the two words of its narrow parts as well: nobody without the key finds what was hashed.
 */
static __always_inline void lg_wide_hash(const struct lg_wide_key *wide, const struct lg_key_narrow *narrow, bool is_secret,
					 const __u64 key[2], __u64 ret[2])
{
	const __u64 *words = (const __u64 *)wide;
	__u64 v[4] = { key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull ^ 0xee, key[0] ^ 0x6c7967656e657261ull,
		       key[1] ^ 0x7465646279746573ull };
	__u64 first, word;
	__u32 i;

	for (i = 0; i < sizeof(*wide) / 8; i++)
		lg_sip_word(v, words[i], is_secret);
	if (is_secret) {
		__builtin_memcpy(&word, narrow, sizeof(word));
		lg_sip_word(v, word, true);
		__builtin_memcpy(&word, (const __u8 *)narrow + sizeof(word), sizeof(word));
		lg_sip_word(v, word, true);
	}
	lg_sip_word(v, (__u64)(sizeof(*wide) + (is_secret ? sizeof(struct lg_key_narrow) : 0)) << 56, is_secret);
	v[2] ^= 0xee;
	first = lg_sip_end(v, is_secret);
	v[1] ^= 0xdd;
	ret[1] = lg_sip_end(v, is_secret);
	ret[0] = first;
}

#define LG_KEY_NARROW (LG_KEY_SOURCE_PORT | LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL | LG_KEY_VLAN | LG_KEY_INNER_VLAN | LG_KEY_INTERFACE)

/* The key of a rule that has a product: where the parts go is said in abi.h. @seed: secret of this instance. */
static __always_inline void lg_product_make(const struct lg_rule *rule, const struct lg_pkt *pkt, __u64 seed, struct lg_key *ret_key)
{
	__u64 *a = (__u64 *)ret_key->a, *b = (__u64 *)ret_key->b;
	__u32 form = rule->product_form;
	struct lg_wide_key wide;

	ret_key->rule_id = rule->rule_id;
	ret_key->form = form;
	b[0] = 0;
	b[1] = 0;
	lg_wide_make(rule, pkt, &wide);
	if (form & LG_FORM_SECRET) {
		lg_narrow_make(rule, pkt, (struct lg_key_narrow *)b);
		lg_wide_hash(&wide, (const struct lg_key_narrow *)b, true, rule->hash_seed, a);
		__builtin_memset(ret_key->b, 0, sizeof(ret_key->b));
		return;
	}
	if (form & LG_FORM_HASHED) {
		const __u64 key[2] = { rule->hash_seed[0], rule->flags & LG_RULE_GLOBAL ? rule->hash_seed[1] : seed };

		lg_wide_hash(&wide, NULL, false, key, a);
	} else if (form & LG_KEY_SOURCE) {
		__builtin_memcpy(a, wide.source, sizeof(wide.source));
		if (form & LG_KEY_DESTINATION)
			__builtin_memcpy(b, wide.destination, sizeof(wide.destination));
		else
			b[0] = wide.cgroup_id;
	} else if (form & LG_KEY_DESTINATION) {
		__builtin_memcpy(a, wide.destination, sizeof(wide.destination));
		b[0] = wide.cgroup_id;
	} else {
		a[0] = wide.cgroup_id;
		a[1] = 0;
	}
	if (form & LG_KEY_NARROW)
		lg_narrow_make(rule, pkt, (struct lg_key_narrow *)b);
}

/**
 * lg_overflow_slot() - which overflow bucket of its rule a key that found no room is charged to
 * @key:  the key that found `buckets` full
 * @seed: secret of this instance, so that nobody can choose whom to share a bucket with
 *
 * By the prefix of the key's first address, /24 or /64: a flood of made-up sources shares few buckets, whatever else it
 * makes up, and one bucket is all that a rule with a single key, or one destination, ever gets. Keys without an address
 * are few, and go by what they are.
 */
static __always_inline __u32 lg_overflow_slot(const struct lg_rule *rule, const struct lg_key *key, const struct lg_pkt *pkt, __u64 seed)
{
	__u64 is_destination = rule->key_form == LG_FORM_DESTINATION || !(rule->key_form | (rule->product_form & LG_KEY_SOURCE));
	const __u64 *a = (const __u64 *)key->a, *b = (const __u64 *)key->b;
	__u64 h = lg_mix(seed), first[2] = { a[0], a[1] };

	if (!rule->key_form && !(rule->product_form & (LG_KEY_SOURCE | LG_KEY_DESTINATION)))
		return lg_mix(lg_mix(lg_mix(lg_mix(h ^ a[0]) ^ a[1]) ^ b[0]) ^ b[1]) & (LG_OVERFLOW_BUCKETS - 1);
	if (!rule->key_form && is_destination)
		lg_addr_key(&pkt->destination, pkt->destination_is4, rule->destination_mask4, rule->destination_mask6, first);
	else if (!rule->key_form)
		lg_addr_key(&pkt->source, pkt->source_is4, rule->key_mask4, rule->key_mask6, first);
	h = lg_mix(h ^ first[0]);
	if (is_destination ? pkt->destination_is4 : pkt->source_is4)
		h = lg_mix(h ^ (first[1] & bpf_cpu_to_be64(~0xffull)));
	return h & (LG_OVERFLOW_BUCKETS - 1);
}
