/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a packet tells of its connection beside its rules: before them, whether this host began it, so that rules for what peers begin do
 * not match; after them, if it may pass, where it leaves the connection.
 *
 * Who began it: of TCP whose SYN was first. This host's are noted at TC egress, a peer's need no note: what is not known is the peer's.
 * Of UDP and SCTP whose packet was first, so those of peers are noted, too, if a rule that asks let them in; one that goes out
 * where nothing is noted begins a flow of this host. Where the table is full all counts as the peer's: it is limited, never let through.
 */
#pragma once

#include "conn_step.h"

enum lg_flow {
	LG_FLOW_CONN = 1 << 0,	/* it moves the entry of its connection */
	LG_FLOW_SIDE = 1 << 1,	/* it tells who began */
	LG_FLOW_OURS = 1 << 2,  /* this host did */
	LG_FLOW_ASKED = 1 << 3, /* a rule asks who did */
	LG_FLOW_RULES = 1 << 4, /* there are rules about connections */
};

static __always_inline bool lg_initiated_is_over(const struct lg_initiated *side, __u64 now_ns)
{
	return (__s64)(now_ns - lg_read(side->until_ns)) > 0;
}

/* Whether this host began what the packet belongs to. */
__noinline int lg_initiated_is_ours(struct lg_visit *visit)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	struct lg_initiated *side;

	if (!visit || !scratch)
		return 0;
	lg_conn_key_make(&visit->pkt, &scratch->key);
	side = bpf_map_lookup_elem(&initiated, &scratch->key);
	return side && lg_read(side->bits) & LG_INITIATED_OURS && !lg_initiated_is_over(side, lg_conn_now());
}

/* Notes in the packet what there is to know of its connection, for a set that needs it: enum lg_flow; 0: nothing. */
__noinline int lg_flow_before(struct lg_visit *visit, const struct lg_ruleset *set)
{
	__u32 flow = 0;

	if (!visit || !set)
		return 0;
	if (set->needs & LG_NEEDS_CONNECTIONS)
		flow = lg_is_tcp(&visit->pkt) ? LG_FLOW_RULES | LG_FLOW_CONN : LG_FLOW_RULES;
	if (set->needs & LG_NEEDS_INITIATED && visit->pkt.has_port)
		flow |= lg_initiated_is_ours(visit) ? LG_FLOW_SIDE | LG_FLOW_OURS : LG_FLOW_SIDE;
	visit->pkt.flow = flow;
	return 1;
}

/*
 * Takes the rules that ask who began out of those that a packet matches, where this host did; else notes in @flow that one asks. By
 * arithmetic: nothing here is a branch for the verifier.
 */
static __always_inline void lg_flow_sift(struct lg_bits *hits, const struct lg_bits *asking, __u8 *flow)
{
	__u64 ours = -(__u64)(*flow / LG_FLOW_OURS & 1), asked = 0;
	__u32 i;

	for (i = 0; i < LG_RULES_MAX / 64; i++) {
		asked |= hits->w[i] & asking->w[i];
		hits->w[i] &= ~(asking->w[i] & ours);
	}
	*flow |= (lg_is_zero(asked) ^ 1) * LG_FLOW_ASKED;
}

static long lg_initiated_sweep_one(void *map, const struct lg_conn_key *key, struct lg_initiated *side, __u64 *now_ns)
{
	(void)map;
	if (lg_initiated_is_over(side, *now_ns))
		bpf_map_delete_elem(&initiated, key);
	return 0;
}

/* As lg_conn_sweep(). */
__noinline int lg_initiated_sweep(void)
{
	__u64 now_ns = lg_conn_now(), seen_ns;
	struct lg_shared *words;
	__u32 zero = 0;

	words = bpf_map_lookup_elem(&shared, &zero);
	if (!words)
		return 0;
	__sync_fetch_and_add(&words->initiated_full, 1);
	seen_ns = lg_read(words->initiated_swept_ns);
	if ((__s64)(now_ns - seen_ns) < (__s64)LG_CONN_SWEEP_NS ||
	    __sync_val_compare_and_swap(&words->initiated_swept_ns, seen_ns, now_ns) != seen_ns)
		return 0;
	bpf_for_each_map_elem(&initiated, lg_initiated_sweep_one, &now_ns, 0);
	return 1;
}

/* Notes who began the flow of the key at hand. Returns whether there was no room. */
static __always_inline int lg_initiated_note(struct lg_conn_scratch *scratch, __u64 bits, __u64 until_ns)
{
	struct lg_initiated side = { .until_ns = until_ns, .bits = bits };

	return (int)bpf_map_update_elem(&initiated, &scratch->key, &side, BPF_ANY) != 0;
}

/* A TCP packet of a connection that this host began, at either hook. */
static __always_inline void lg_initiated_move(struct lg_initiated *side, bool of_b, __u8 flags, const struct lg_conn_terms *terms,
					      __u64 now_ns)
{
	const __u64 fins = LG_INITIATED_FIN_A | LG_INITIATED_FIN_B;
	__u64 bits = lg_read(side->bits), next = bits, until_ns;

	if (flags & LG_TCP_FIN)
		next |= of_b ? LG_INITIATED_FIN_B : LG_INITIATED_FIN_A;
	if (flags & LG_TCP_RST || (next & fins) == fins)
		next |= LG_INITIATED_OVER;
	if (next != bits)
		__sync_val_compare_and_swap(&side->bits, bits, next);
	if (bits & LG_INITIATED_OVER)
		return;
	/* What comes after the end, to be acknowledged, is part of it. */
	until_ns = now_ns + (next & LG_INITIATED_OVER ? terms->handshake_ns : next & fins ? terms->closing_ns : terms->established_ns);
	if (next != bits || (__s64)(until_ns - lg_read(side->until_ns)) > (__s64)LG_SEEN_STEP_NS)
		lg_write(side->until_ns, until_ns);
}

/* Notes who began, and that the flow goes on. Returns whether there was no room for it. */
__noinline int lg_initiated_track(struct lg_visit *visit, __u32 flow)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	const struct lg_conn_terms *terms = lg_conn_terms();
	struct lg_initiated *side;
	__u64 now_ns = lg_conn_now();
	bool of_b, is_out;

	if (!visit || !scratch || !terms)
		return 0;
	of_b = lg_conn_key_make(&visit->pkt, &scratch->key);
	is_out = visit->pkt.direction;
	side = bpf_map_lookup_elem(&initiated, &scratch->key);
	if (side && lg_initiated_is_over(side, now_ns))
		side = NULL;
	if (visit->pkt.protocol == LG_PROTO_TCP) {
		if (is_out && lg_is_syn(visit->pkt.tcp_flags))
			return lg_initiated_note(scratch, LG_INITIATED_OURS, now_ns + terms->established_ns);
		if (side)
			lg_initiated_move(side, of_b, visit->pkt.tcp_flags, terms, now_ns);
		return 0;
	}
	if (!side && (is_out || flow & LG_FLOW_ASKED))
		return lg_initiated_note(scratch, is_out ? LG_INITIATED_OURS : 0, now_ns + terms->datagram_ns);
	if (side && (__s64)(now_ns + terms->datagram_ns - lg_read(side->until_ns)) > (__s64)LG_SEEN_STEP_NS)
		lg_write(side->until_ns, now_ns + terms->datagram_ns);
	return 0;
}

/**
 * lg_flow_after() - what a packet tells of its connection, once the verdict is known
 * @set, @m: rules that it matched, or NULL
 */
__noinline int lg_flow_after(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m, __u32 verdict)
{
	__u32 flow;

	if (!visit)
		return 0;
	flow = visit->pkt.flow;
	if (flow & LG_FLOW_RULES && set && m)
		lg_conn_conclude(visit, set, m, verdict);
	if (!lg_is_pass(verdict))
		return 0;
	if (flow & LG_FLOW_CONN)
		lg_conn_track(visit);
	if (flow & LG_FLOW_SIDE && lg_initiated_track(visit, flow))
		lg_initiated_sweep();
	return 0;
}
