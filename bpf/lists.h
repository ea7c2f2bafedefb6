/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What decides before buckets do: exemptions, the lists of addresses, bans. None of it is on the way of a packet that has to do with
 * none of it: one test of a word that lies at hand leads here.
 */
#pragma once

#include "ban.h"
#include "step.h"

#define LG_EXEMPT_TICK_NS (1000000000ull / LG_EXEMPT_PER_S)
#define LG_EXEMPT_BURST_NS 1000000000ull
#define LG_ADDRESS_BITS 128

/* ---- exemptions ---- */

static __always_inline _Bool lg_bits_meet(const struct lg_bits *a, const struct lg_bits *b)
{
	return !!((a->w[0] & b->w[0]) | (a->w[1] & b->w[1]) | (a->w[2] & b->w[2]) | (a->w[3] & b->w[3]));
}

static __always_inline enum lg_exempt_kind lg_exempt_kind(const struct lg_pkt *pkt, _Bool is_named)
{
	if (is_named)
		return pkt->protocol == LG_PROTO_TCP ? LG_EXEMPT_STREAM : LG_EXEMPT_DATAGRAM;
	if (pkt->family == LG_RULE_NOT_IP)
		return LG_EXEMPT_ARP;
	if (pkt->protocol == LG_PROTO_ICMP)
		return pkt->icmp_type == LG_ICMP_UNREACHABLE ? LG_EXEMPT_PATH : LG_EXEMPT_CONTROL;
	if (pkt->protocol != LG_PROTO_ICMPV6)
		return LG_EXEMPT_CONTROL;
	if (pkt->icmp_type == LG_ICMP6_TOO_BIG)
		return LG_EXEMPT_PATH;
	return pkt->icmp_type >= LG_ICMP6_ND_FIRST && pkt->icmp_type <= LG_ICMP6_ND_LAST ? LG_EXEMPT_ND : LG_EXEMPT_CONTROL;
}

/**
 * lg_exempt() - the verdict on what no rule limits
 * @hook:     enum lg_hook
 * @is_named: an exemption with LG_RULE_BOUNDED names it; else it is of the kinds that keep links alive
 *
 * They pass, but no faster than any link needs: else a flood of them would be a way round all limits.
 */
__noinline int lg_exempt(const struct lg_pkt *pkt, __u32 hook, __u32 is_named)
{
	__u64 now_ns = lg_clock(true), seen, from, was, *word;
	struct lg_shared *words;
	__u32 zero = 0, kind;
	int i;

	words = bpf_map_lookup_elem(&shared, &zero);
	if (!pkt || !words || hook >= _LG_HOOK_N)
		return LG_PASS_EXEMPT;
	kind = lg_exempt_kind(pkt, is_named);
	lg_opaque(kind);
	if (kind >= _LG_EXEMPT_N)
		return LG_PASS_EXEMPT;
	word = &words->exempt_full_at_ns[hook][kind];
	seen = lg_read(*word);
	for (i = 0; i < LG_TAKE_TRIES; i++) {
		from = (__s64)(seen - now_ns) > 0 ? seen : now_ns;
		if (from + LG_EXEMPT_TICK_NS - now_ns > LG_EXEMPT_BURST_NS)
			return LG_DROP_EXEMPT_FLOOD;
		was = __sync_val_compare_and_swap(word, seen, from + LG_EXEMPT_TICK_NS);
		if (was == seen)
			return LG_PASS_EXEMPT;
		seen = was;
	}
	return LG_DROP_EXEMPT_FLOOD;
}

/* The first exemption among those a packet matches; they are few, and those without a bound go first. */
static __always_inline enum lg_reason lg_exempt_by(const struct lg_pkt *pkt, __u32 hook, const struct lg_rule *rule)
{
	return rule->flags & LG_RULE_BOUNDED ? lg_exempt(pkt, hook, 1) : LG_PASS_EXEMPT;
}

/* Of a packet that matches several rules and an exemption. */
static __always_inline enum lg_reason lg_exempt_among(const struct lg_pkt *pkt, __u32 hook, const struct lg_ruleset *set,
						      struct lg_bits *hits)
{
	lg_bits_keep(hits, &set->pass);
	return lg_exempt_by(pkt, hook, &set->rules[lg_bits_take(hits) & (LG_RULES_MAX - 1)]);
}

/* ---- lists ---- */

/* What the entry says at this time. */
static __always_inline __u32 lg_list_verdict(const struct lg_list_entry *entry, __u64 now_ns)
{
	__u64 until_ns = lg_read(entry->until_ns);

	if (entry->of_operator && (!until_ns || now_ns < until_ns))
		return entry->of_operator;
	return entry->of_file;
}

/* The way from the longest prefix that an address lies in to ever shorter ones. */
struct lg_list_walk {
	struct lg_list_key key;
	__u32 least; /* bits that a prefix for the packet's family has at least */
	__u32 verdict;
	__u64 now_ns;
};

/* 0: the next shorter prefix is to be asked. */
static long lg_list_step(__u32 i, struct lg_list_walk *walk)
{
	const struct lg_list_entry *entry = bpf_map_lookup_elem(&lists, &walk->key);

	(void)i;
	if (!entry || entry->prefix_len < walk->least)
		return 1;
	walk->verdict = lg_list_verdict(entry, walk->now_ns);
	if (walk->verdict || !entry->prefix_len)
		return 1;
	walk->key.prefix_len = entry->prefix_len - 1;
	return 0;
}

/* Of the longest prefix that decides; LG_LIST_NONE: none does. Mostly the first one asked tells. */
__noinline int lg_list_find(const struct lg_pkt *pkt)
{
	struct lg_list_walk walk = { .key = { .prefix_len = LG_ADDRESS_BITS } };

	if (!pkt)
		return LG_LIST_NONE;
	walk.least = pkt->family == LG_RULE_IPV4 ? 96 : 0;
	walk.now_ns = lg_clock(true);
	__builtin_memcpy(walk.key.addr, pkt->direction ? &pkt->destination : &pkt->source, sizeof(walk.key.addr));
	if (!lg_list_step(0, &walk))
		bpf_loop(LG_ADDRESS_BITS, lg_list_step, &walk, 0);
	return walk.verdict;
}

/**
 * lg_listed() - the verdict on a packet whose peer is on the deny list
 * @active: entry of `rules` and `classifiers`
 * @hook:   enum lg_hook
 *
 * It may still be exempt. That is asked here, and then not once more: few packets come by.
 */
__noinline int lg_listed(const struct lg_pkt *pkt, __u32 active, __u32 hook)
{
	const struct lg_classifier *classifier;
	const struct lg_ruleset *set;
	__u32 index = active; /* 6.1 wants keys on the stack */
	struct lg_bits hits;

	classifier = bpf_map_lookup_elem(&classifiers, &index);
	set = bpf_map_lookup_elem(&rules, &index);
	if (!pkt || !classifier || !set || !set->n_pass)
		return LG_DROP_LISTED;
	lg_classify(classifier, pkt, &hits);
	return lg_bits_meet(&hits, &set->pass) ? lg_exempt_among(pkt, hook, set, &hits) : LG_DROP_LISTED;
}

/* ---- bans ---- */

/* Whether the key at hand is banned. */
__noinline int lg_is_banned(const struct lg_visit *visit)
{
	const struct lg_ban *ban;
	struct lg_key key;

	if (!visit)
		return 0;
	key = visit->key;
	ban = bpf_map_lookup_elem(&bans, &key);
	return ban && (__s64)(lg_clock(true) - lg_read(ban->until_ns)) < 0;
}

/* One ban more of the rule, or one for which there is no room. */
static __always_inline void lg_ban_count(const struct lg_rule *rule, int done)
{
	struct lg_rule_counts *counts;
	struct lg_shared *words;
	__u32 zero = 0, id = rule->rule_id;

	if (!done) {
		words = bpf_map_lookup_elem(&shared, &zero);
		if (words)
			__sync_fetch_and_add(&words->bans_full, 1);
		return;
	}
	counts = bpf_map_lookup_elem(&rule_counts, &id);
	if (counts)
		__sync_fetch_and_add(&counts->bans.packets, 1);
}

/* Bans the key at hand. Whoever moves the end of a ban that is over writes the rest. */
static __always_inline int lg_ban(const struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_ban fresh = {}, *ban;
	__u64 now_ns, until_ns;
	struct lg_key key;
	__u32 times = 0;
	int done;

	if (!visit || !rule)
		return 0;
	now_ns = lg_clock(true);
	key = visit->key;
	ban = bpf_map_lookup_elem(&bans, &key);
	if (ban) {
		until_ns = lg_read(ban->until_ns);
		if ((__s64)(now_ns - until_ns) < 0)
			return 0;
		times = ban->times;
		now_ns += lg_ban_length_ns(&rule->ban, until_ns, now_ns, &times);
		if (__sync_val_compare_and_swap(&ban->until_ns, until_ns, now_ns) != until_ns)
			return 0;
		ban->since_ns = lg_clock(true);
		ban->times = times;
		ban->by_operator = 0;
		lg_ban_count(rule, 1);
		return 1;
	}
	fresh.since_ns = now_ns;
	fresh.until_ns = now_ns + rule->ban.for_ns;
	fresh.times = 1;
	done = !(int)bpf_map_update_elem(&bans, &key, &fresh, BPF_NOEXIST);
	lg_ban_count(rule, done);
	return done;
}

/* Counts a refusal of the key at hand. Returns enum lg_strike_outcome. */
static __always_inline int lg_strike_count(const struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_strike_spot spot;
	const struct lg_control *ctl;
	struct lg_strikes *strike;
	__u64 now_ns, word, next, was;
	__u32 zero = 0;
	int r, i;

	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!visit || !rule || !ctl)
		return LG_STRIKE_COUNTED;
	spot = lg_strike_spot(&visit->key, ctl);
	strike = bpf_map_lookup_elem(&strikes, &spot.index);
	if (!strike)
		return LG_STRIKE_COUNTED;
	now_ns = lg_clock(true);
	word = lg_read(strike->word);
	for (i = 0; i < LG_TAKE_TRIES; i++) {
		r = lg_strike_next(word, spot.tag, now_ns, &rule->ban, &next);
		was = __sync_val_compare_and_swap(&strike->word, word, next);
		if (was == word)
			return r;
		word = was;
	}
	return LG_STRIKE_COUNTED;
}

/*
 * A refusal of the key at hand for want of tokens: that is what a sender can be blamed for, not a lease that is late or a table that
 * is full. Nobody is blamed either for what a bucket refuses that he shares with strangers.
 */
__noinline int lg_strike(const struct lg_visit *visit, const struct lg_rule *rule, __u32 reason)
{
	struct lg_shared *words;
	__u32 zero = 0;
	int r;

	if (!visit || !rule || !(rule->special & LG_SPECIAL_BAN) || reason != LG_DROP_LIMIT || visit->key.form == LG_FORM_OVERFLOW)
		return 0;
	r = lg_strike_count(visit, rule);
	if (r == LG_STRIKE_OUT)
		return lg_ban(visit, rule);
	words = r == LG_STRIKE_OTHER ? bpf_map_lookup_elem(&shared, &zero) : NULL;
	if (words)
		__sync_fetch_and_add(&words->strikes_lost, 1);
	return 0;
}

/* The same for a packet that matches several rules, of which none is an exemption: the key at hand is the rule's. */
static __always_inline _Bool lg_is_barred(const struct lg_visit *visit, const struct lg_rule *rule)
{
	return rule->special & LG_SPECIAL_BAN && lg_is_banned(visit);
}

/**
 * lg_special() - what comes before the buckets of a rule that is not like most
 *
 * Return: the verdict, counted, or -1: go on.
 */
__noinline int lg_special(struct lg_visit *visit, const struct lg_rule *rule, __u32 hook)
{
	if (!visit || !rule)
		return -1;
	if (rule->special & LG_SPECIAL_PASS)
		return lg_exempt_by(&visit->pkt, hook, rule);
	if (!(rule->special & LG_SPECIAL_BAN))
		return -1;
	lg_visit_key(visit, rule);
	return lg_is_banned(visit) ? (int)lg_conclude(visit, rule, LG_DROP_BANNED) : -1;
}
