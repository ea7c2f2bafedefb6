/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * TCP connections as the packets of either end tell them. Pure.
 *
 * Whose packets are seen depends on the hooks: at ingress only those of the peer, with TC egress, or on a router, those of both ends. So a
 * state goes on by what is seen, and nothing waits for what may not be: the handshake is over with the first ACK of the end that began
 * it, a FIN of one end ends nothing, and what no packet ends a timeout does, or the agent, who knows the sockets.
 *
 * Sequence numbers are not looked at: an ACK or a reset that somebody makes up counts. What was made up the sockets tell.
 */
#pragma once

#include "bits.h"
#include "bucket.h"
#include "parse.h"

#define LG_SYN_WAIT_MAX_NS 130000000000ull /* longest wait for the same SYN again: Linux doubles it, up to two minutes */
#define LG_SYN_SLACK_NS 1000000000ull

/* Does it ask for a connection? With FIN or RST nobody would answer it. */
static __always_inline _Bool lg_is_syn(__u8 flags)
{
	return (flags & (LG_TCP_FIN | LG_TCP_SYN | LG_TCP_RST | LG_TCP_ACK)) == LG_TCP_SYN;
}

/* Whether its ports are known, which are part of what a connection is. */
static __always_inline _Bool lg_is_tcp(const struct lg_pkt *pkt)
{
	return pkt->protocol == LG_PROTO_TCP && pkt->has_port;
}

/* Of the two ends the one whose bytes are less comes first. Returns 1 if the packet is sent by the second. */
static __always_inline _Bool lg_conn_key_make(const struct lg_pkt *pkt, struct lg_conn_key *ret)
{
	__u64 s0 = bpf_be64_to_cpu(pkt->source.w[0]), s1 = bpf_be64_to_cpu(pkt->source.w[1]);
	__u64 d0 = bpf_be64_to_cpu(pkt->destination.w[0]), d1 = bpf_be64_to_cpu(pkt->destination.w[1]);
	_Bool is_b = s0 != d0 ? s0 > d0 : s1 != d1 ? s1 > d1 : pkt->source_port > pkt->destination_port;
	const struct lg_addr *a = is_b ? &pkt->destination : &pkt->source, *b = is_b ? &pkt->source : &pkt->destination;
	__u64 *words = (__u64 *)ret;

	words[0] = a->w[0];
	words[1] = a->w[1];
	words[2] = b->w[0];
	words[3] = b->w[1];
	words[4] = 0;
	ret->a_port = is_b ? pkt->destination_port : pkt->source_port;
	ret->b_port = is_b ? pkt->source_port : pkt->destination_port;
	ret->protocol = pkt->protocol;
	return is_b;
}

static __always_inline __u64 lg_conn_tag(const struct lg_conn_key *key)
{
	const __u64 *words = (const __u64 *)key;

	return lg_mix(lg_mix(lg_mix(lg_mix(lg_mix(words[0]) ^ words[1]) ^ words[2]) ^ words[3]) ^ words[4]);
}

static __always_inline enum lg_conn_state lg_conn_state(__u64 word)
{
	return word & LG_CONN_STATE;
}

/* Is it one whose packets move it? */
static __always_inline _Bool lg_conn_is_live(__u64 word)
{
	return lg_conn_state(word) != LG_CONN_BLANK && lg_conn_state(word) != LG_CONN_CLOSED;
}

static __always_inline __u64 lg_conn_with(__u64 word, enum lg_conn_state state)
{
	return (word & ~(__u64)LG_CONN_STATE) | state;
}

static __always_inline __u64 lg_conn_began(_Bool of_b, __u32 nonce)
{
	return (__u64)nonce << 32 | LG_CONN_PENDING | (of_b ? LG_CONN_OF_B : 0);
}

/**
 * lg_conn_next() - what a packet makes of a connection
 * @word: as it is
 * @of_b: the packet is sent by end b
 *
 * A SYN while one end has closed is a new connection between the same ports: the old one's FIN is not the new one's. Elsewhere a SYN
 * changes nothing, be it the same again or one that its receiver will not believe.
 */
static __always_inline __u64 lg_conn_next(__u64 word, _Bool of_b, __u8 flags)
{
	const __u64 fins = LG_CONN_FIN_A | LG_CONN_FIN_B;
	__u64 next = word;

	if (!lg_conn_is_live(word))
		return word;
	if (flags & LG_TCP_RST)
		return lg_conn_with(word, LG_CONN_CLOSED);
	if (lg_is_syn(flags)) {
		if (lg_conn_state(word) != LG_CONN_CLOSING)
			return word;
		return lg_conn_with(word & ~(fins | LG_CONN_OF_B), LG_CONN_PENDING) | (of_b ? LG_CONN_OF_B : 0);
	}
	if (flags & LG_TCP_SYN)
		return word;
	if (flags & LG_TCP_ACK && lg_conn_state(word) == LG_CONN_PENDING && of_b == !!(word & LG_CONN_OF_B))
		next = lg_conn_with(word, LG_CONN_ESTABLISHED);
	if (!(flags & LG_TCP_FIN))
		return next;
	next |= of_b ? LG_CONN_FIN_B : LG_CONN_FIN_A;
	return lg_conn_with(next, (next & fins) == fins ? LG_CONN_CLOSED : LG_CONN_CLOSING);
}

/*
 * Until when a SYN counts as this one sent again. A sender waits twice as long each time; one that is patient must not be charged for
 * it, nor be counted longer than it tries.
 */
static __always_inline __u64 lg_syn_until_ns(__u64 now_ns, __u64 last_ns, __u64 handshake_ns)
{
	__u64 gap_ns = last_ns && (__s64)(now_ns - last_ns) > 0 ? now_ns - last_ns : 0;
	__u64 wait_ns = 2 * gap_ns + LG_SYN_SLACK_NS;

	if (gap_ns > LG_SYN_WAIT_MAX_NS / 2)
		wait_ns = LG_SYN_WAIT_MAX_NS;
	return now_ns + (wait_ns > handshake_ns ? wait_ns : handshake_ns);
}

static __always_inline __u64 lg_conn_idle_ns(const struct lg_conn_terms *terms, __u64 word)
{
	return lg_conn_state(word) == LG_CONN_CLOSING ? terms->closing_ns : terms->established_ns;
}

/* Whether the time of a connection is over. */
static __always_inline _Bool lg_conn_is_over(const struct lg_conn *conn, __u64 word, __u64 now_ns)
{
	__u64 until_ns = lg_conn_state(word) == LG_CONN_PENDING ? lg_read(conn->syn_until_ns) : lg_read(conn->until_ns);

	return lg_conn_is_live(word) && (__s64)(now_ns - until_ns) > 0;
}

/* ---- charges ---- */

static __always_inline __u64 lg_charge_word(const struct lg_rule *rule, __u32 nonce)
{
	return (__u64)nonce << 32 | (__u64)rule->rule_id << 8 | rule->connection;
}

static __always_inline __u32 lg_charge_rule(__u64 word)
{
	return (__u32)word >> 8;
}

static __always_inline __u32 lg_charge_kind(__u64 word)
{
	return word & 0xff;
}

/* ---- how many there are ---- */

#define LG_COUNT_CLOSED (1ull << 63)

/* One more, if there are fewer than the limit; or only whether there are. */
static __always_inline enum lg_reason lg_count_take(__u64 *open, __u64 limit, _Bool take)
{
	__u64 seen = lg_read(*open), was;
	int i;

	for (i = 0; i < LG_TAKE_TRIES; i++) {
		if (seen >= limit)
			return LG_DROP_LIMIT;
		if (!take)
			return LG_PASS_ADMITTED;
		was = __sync_val_compare_and_swap(open, seen, seen + 1);
		if (was == seen)
			return LG_PASS_ADMITTED;
		seen = was;
	}
	return LG_DROP_CONTENDED;
}

/* One less, but never less than none: a count that was none, or whose bucket is on its way out, is put back as it was. */
static __always_inline void lg_count_put(__u64 *open)
{
	__u64 was = __sync_fetch_and_add(open, -1ull);

	if ((__s64)was <= 0)
		__sync_fetch_and_add(open, 1);
}
