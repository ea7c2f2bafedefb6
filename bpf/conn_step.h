/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rules about connections on a packet's way. They look at SYNs alone: one that is new is charged, and what was charged is noted in the
 * connection's entry. All other TCP packets move the entry once they may pass, whatever rules they match, as the answers match others.
 *
 * Who gives back: whoever swaps an entry's word to CLOSED, be it by a packet, because its time is over, or for the agent, has all its
 * charges; a charge is taken out by a swap of its own word, too, as what a SYN was charged is undone where another rule refuses it.
 *
 * An entry is deleted at once, and its place may become another connection's while a packet still looks at it. So an entry is inserted
 * blank, its tag is written, then its word; who has read a word looks at the tag, and swaps from the word it read, which has a
 * random half. A SYN that is charged at the very moment in which its entry ends may so be counted for none; that takes a reset that
 * arrives within the same microsecond on another CPU, and one more connection that gets the same place.
 *
 * What stands on the stack of 512 bytes is little: keys lie in a value of this CPU, which packets have for themselves.
 */
#pragma once

#include "conn.h"
#include "step.h"

static const struct lg_conn lg_blank_conn;

static __always_inline struct lg_conn_scratch *lg_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&conn_scratch, &zero);
}

static __always_inline const struct lg_conn_terms *lg_conn_terms(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&conn_terms, &zero);
}

/* Not the visit's: which of its clocks was read a call cannot tell. */
static __always_inline __u64 lg_conn_now(void)
{
	return lg_clock(true);
}

/* The entry of the packet's connection and its word; NULL where there is none, or it is another's by now. */
static __always_inline struct lg_conn *lg_conn_find(struct lg_conn_scratch *scratch, __u64 *ret_word)
{
	struct lg_conn *conn = bpf_map_lookup_elem(&conns, &scratch->key);

	if (!conn)
		return NULL;
	*ret_word = lg_read(conn->word);
	return lg_read(conn->tag) == lg_conn_tag(&scratch->key) ? conn : NULL;
}

/* ---- the end ---- */

/* Takes one charge out of the count it is in. */
static __always_inline void lg_charge_free(struct lg_conn_scratch *scratch, struct lg_conn_charge *charge, __u64 word)
{
	struct lg_bucket *bucket;

	scratch->bucket = charge->key;
	if (__sync_val_compare_and_swap(&charge->word, word, 0) != word || lg_charge_kind(word) == LG_CONNECTION_NEW)
		return;
	bucket = lg_bucket_of(&scratch->bucket);
	if (bucket)
		lg_count_put(&bucket->open);
}

/* Takes out the charges of these kinds, bits by enum lg_rule_connection. Returns how many are left. */
static __always_inline __u32 lg_charges_free(struct lg_conn_scratch *scratch, struct lg_conn *conn, __u32 kinds)
{
	__u32 i, left = 0;
	__u64 word;

	for (i = 0; i < LG_CONN_CHARGES_MAX; i++) {
		word = lg_read(conn->charge[i].word);
		if (kinds >> (lg_charge_kind(word) & 31) & 1)
			lg_charge_free(scratch, &conn->charge[i], word);
		else if (word)
			left++;
	}
	return left;
}

__noinline int lg_conn_release(struct lg_conn *conn, __u32 kinds)
{
	struct lg_conn_scratch *scratch = lg_scratch();

	return conn && scratch ? lg_charges_free(scratch, conn, kinds) : 0;
}

enum { LG_CONN_ALL_KINDS = 1 << LG_CONNECTION_NEW | 1 << LG_CONNECTION_OPEN | 1 << LG_CONNECTION_HALF_OPEN };

/* Ends the entry of the key at hand, if its word still is that. Returns whether it was this call that did. */
__noinline int lg_conn_end(struct lg_conn *conn, __u64 word)
{
	struct lg_conn_scratch *scratch = lg_scratch();

	if (!conn || !scratch || !lg_conn_is_live(word))
		return 0;
	if (__sync_val_compare_and_swap(&conn->word, word, lg_conn_with(word, LG_CONN_CLOSED)) != word)
		return 0;
	lg_charges_free(scratch, conn, LG_CONN_ALL_KINDS);
	bpf_map_delete_elem(&conns, &scratch->key);
	return 1;
}

/* ---- what is over, without the agent ---- */

static long lg_conn_sweep_one(void *map, const struct lg_conn_key *key, struct lg_conn *conn, __u64 *now_ns)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	__u64 word = lg_read(conn->word);

	(void)map;
	if (!scratch || !lg_conn_is_over(conn, word, *now_ns))
		return 0;
	scratch->key = *key;
	lg_conn_end(conn, word);
	return 0;
}

/*
 * Ends all entries whose time is over. The agent does so each second; where it is gone a SYN that is refused does, so that those after it
 * need not suffer from handshakes that nobody will finish.
 */
__noinline int lg_conn_sweep(void)
{
	__u64 now_ns = lg_conn_now(), seen_ns;
	struct lg_shared *words;
	__u32 zero = 0;

	words = bpf_map_lookup_elem(&shared, &zero);
	if (!words)
		return 0;
	seen_ns = lg_read(words->conns_swept_ns);
	if ((__s64)(now_ns - seen_ns) < (__s64)LG_CONN_SWEEP_NS ||
	    __sync_val_compare_and_swap(&words->conns_swept_ns, seen_ns, now_ns) != seen_ns)
		return 0;
	bpf_for_each_map_elem(&conns, lg_conn_sweep_one, &now_ns, 0);
	return 1;
}

/* ---- SYNs ---- */

/* The charge of a rule, or LG_CONN_CHARGES_MAX. */
static __always_inline __u32 lg_charge_find(const struct lg_conn *conn, __u32 rule_id)
{
	__u32 i;

	for (i = 0; i < LG_CONN_CHARGES_MAX; i++) {
		__u64 word = lg_read(conn->charge[i].word);

		if (word && lg_charge_rule(word) == rule_id)
			break;
	}
	return i;
}

/* Whether what a rule wants of this connection has been charged, or is not to be charged any more. */
static __always_inline bool lg_conn_has_paid(const struct lg_conn *conn, __u64 word, const struct lg_rule *rule, __u64 now_ns)
{
	if (!lg_conn_is_live(word))
		return false;
	if (rule->connection == LG_CONNECTION_HALF_OPEN && lg_conn_state(word) == LG_CONN_ESTABLISHED)
		return true; /* nobody opens a second one between the same ports */
	if (lg_charge_find(conn, rule->rule_id) == LG_CONN_CHARGES_MAX)
		return false;
	return rule->connection != LG_CONNECTION_NEW || (__s64)(now_ns - lg_read(conn->syn_until_ns)) <= 0;
}

/* Whether a rule about connections has nothing to charge for a SYN whose entry, if it has one, is that. */
static __always_inline bool lg_conn_is_paid(const struct lg_conn *conn, __u64 word, const struct lg_rule *rule, __u64 now_ns)
{
	return conn && lg_conn_has_paid(conn, word, rule, now_ns);
}

/**
 * lg_conn_gate() - settle what rules about connections have nothing to charge for, before the others are asked
 * @m: those rules become LG_MATCH_DONE under LG_PASS_CONNECTION
 *
 * Return: LG_PASS_CONNECTION if there are any, else LG_PASS_ADMITTED.
 */
__noinline int lg_conn_gate(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	struct lg_conn *conn = NULL;
	const struct lg_rule *rule;
	int verdict = LG_PASS_ADMITTED;
	__u64 word = 0, now_ns;
	bool is_syn;
	__u32 k;

	if (!visit || !set || !m || !scratch)
		return LG_PASS_ADMITTED;
	now_ns = lg_conn_now();
	is_syn = lg_is_tcp(&visit->pkt) && lg_is_syn(visit->pkt.tcp_flags);
	if (is_syn) {
		lg_conn_key_make(&visit->pkt, &scratch->key);
		conn = lg_conn_find(scratch, &word);
	}
	if (conn && lg_conn_is_over(conn, word, now_ns)) {
		lg_conn_end(conn, word);
		conn = NULL;
	}
	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= m->n)
			break;
		rule = lg_match_rule(set, &m->match[k]);
		if (!(rule->special & LG_SPECIAL_CONNECTION) || (is_syn && !lg_conn_is_paid(conn, word, rule, now_ns)))
			continue;
		m->match[k].reason = LG_PASS_CONNECTION;
		m->match[k].state = LG_MATCH_DONE;
		verdict = LG_PASS_CONNECTION;
	}
	return verdict;
}

/* The entry of the key at hand, made for a SYN of end b or a; NULL: there is no room, or it is just ending. */
static __always_inline struct lg_conn *lg_conn_make(struct lg_conn_scratch *scratch, bool of_b, const struct lg_conn_terms *terms,
						    __u64 now_ns, __u64 *ret_word)
{
	struct lg_conn *conn;

	if (bpf_map_update_elem(&conns, &scratch->key, &lg_blank_conn, BPF_NOEXIST))
		return NULL;
	conn = bpf_map_lookup_elem(&conns, &scratch->key);
	if (!conn)
		return NULL;
	*ret_word = lg_conn_began(of_b, bpf_get_prandom_u32());
	conn->tag = lg_conn_tag(&scratch->key);
	conn->syn_ns = now_ns;
	conn->syn_until_ns = lg_syn_until_ns(now_ns, 0, terms->handshake_ns);
	conn->until_ns = now_ns + terms->established_ns;
	return __sync_val_compare_and_swap(&conn->word, 0, *ret_word) ? NULL : conn;
}

/* Notes a charge of the key at hand in an entry. Returns whether it is there. */
static __always_inline bool lg_charge_note(struct lg_conn *conn, const struct lg_rule *rule, const struct lg_key *key)
{
	__u64 word = lg_charge_word(rule, bpf_get_prandom_u32()), busy = word & ~0xffull;
	__u32 i = lg_charge_find(conn, rule->rule_id);

	if (i < LG_CONN_CHARGES_MAX)
		return true; /* new connections alone come here twice */
	for (i = 0; i < LG_CONN_CHARGES_MAX; i++) {
		if (lg_read(conn->charge[i].word) || __sync_val_compare_and_swap(&conn->charge[i].word, 0, busy))
			continue;
		conn->charge[i].key = *key;
		return __sync_val_compare_and_swap(&conn->charge[i].word, busy, word) == busy;
	}
	return false;
}

/* Takes a rule's charge out of an entry. */
static __always_inline void lg_conn_uncharge(struct lg_conn_scratch *scratch, struct lg_conn *conn, __u32 rule_id)
{
	__u32 i = lg_charge_find(conn, rule_id);

	if (i < LG_CONN_CHARGES_MAX)
		lg_charge_free(scratch, &conn->charge[i], lg_read(conn->charge[i].word));
}

/**
 * lg_conn_note() - note that the key at hand was charged for the packet's connection
 *
 * Return: 1, or 0 if it cannot be: there is no room.
 */
__noinline int lg_conn_note(struct lg_visit *visit, const struct lg_rule *rule, __u64 now_ns)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	const struct lg_conn_terms *terms = lg_conn_terms();
	struct lg_shared *words;
	struct lg_conn *conn;
	__u32 zero = 0;
	__u64 word = 0;
	bool of_b;

	if (!visit || !rule || !scratch || !terms)
		return 0;
	of_b = lg_conn_key_make(&visit->pkt, &scratch->key);
	conn = lg_conn_find(scratch, &word);
	if (!conn || !lg_conn_is_live(word))
		conn = lg_conn_make(scratch, of_b, terms, now_ns, &word);
	if (conn && lg_charge_note(conn, rule, &visit->key)) {
		/* Whoever ended it meanwhile may have missed the charge. */
		if (!lg_conn_is_live(lg_read(conn->word)) || lg_read(conn->tag) != lg_conn_tag(&scratch->key))
			lg_conn_uncharge(scratch, conn, rule->rule_id);
		return 1;
	}
	words = bpf_map_lookup_elem(&shared, &zero);
	if (words)
		__sync_fetch_and_add(&words->conns_full, 1);
	return 0;
}

/* Takes out again what lg_conn_note() noted; an entry without a charge ends. */
static __always_inline void lg_conn_unnote(struct lg_conn_scratch *scratch, const struct lg_pkt *pkt, const struct lg_rule *rule)
{
	struct lg_conn *conn;
	__u64 word = 0;

	lg_conn_key_make(pkt, &scratch->key);
	conn = lg_conn_find(scratch, &word);
	if (!conn)
		return;
	lg_conn_uncharge(scratch, conn, rule->rule_id);
	if (!lg_conn_release(conn, 0))
		lg_conn_end(conn, word);
}

/* What befalls a connection that cannot be noted: it would never be counted down, so it must not be counted up. */
static __always_inline enum lg_reason lg_conn_no_room(const struct lg_rule *rule, struct lg_bucket *bucket)
{
	lg_count_put(&bucket->open);
	return rule->on_full == LG_ON_FULL_PASS ? LG_PASS_TABLE_FULL : LG_DROP_CONNECTIONS;
}

/**
 * lg_count_step() - lg_step() for a rule that counts what is open
 *
 * The count goes up for a SYN that is let in, and its entry notes that; whoever ends the entry brings it down.
 */
__noinline int lg_count_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule, struct lg_bucket *bucket,
			     __u32 step)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	enum lg_reason reason;
	__u64 now_ns;

	if (!visit || !match || !rule || !scratch)
		return LG_DROP_TABLE_FULL;
	if (step == LG_STEP_UNDO) {
		if (match->reason == LG_PASS_ADMITTED)
			lg_conn_unnote(scratch, &visit->pkt, rule);
		return LG_PASS_ADMITTED;
	}
	if (!rule->rate_tok)
		return LG_DROP_LIMIT;
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	if (bucket) {
		now_ns = lg_conn_now();
		lg_bucket_init(bucket, rule, now_ns);
		reason = lg_count_take(&bucket->open, rule->rate_tok, step == LG_STEP_TAKE);
		if (step == LG_STEP_TAKE || !lg_is_pass(reason))
			lg_bucket_touch(bucket, rule, now_ns);
		if (!lg_is_pass(reason)) {
			match->reason = reason;
			return reason | LG_STEP_DENIED;
		}
		if (step == LG_STEP_TAKE && !lg_conn_note(visit, rule, now_ns))
			reason = lg_conn_no_room(rule, bucket);
	}
	match->reason = reason;
	return reason;
}

/* What has to be done once the verdict is known: notes which new connections were charged, or looks for entries that are over. */
static __always_inline int lg_conn_conclude(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m, __u32 verdict)
{
	const struct lg_rule *rule;
	__u32 k;

	if (verdict == LG_DROP_LIMIT || verdict == LG_DROP_CONNECTIONS || verdict == LG_PASS_TABLE_FULL)
		return lg_conn_sweep();
	if (!lg_is_pass(verdict))
		return 0;
	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= m->n)
			break;
		rule = lg_match_rule(set, &m->match[k]);
		/* Without room it is charged all the same; only that it is sent again will not be known. */
		if (rule->connection == LG_CONNECTION_NEW && m->match[k].state == LG_MATCH_DONE &&
		    m->match[k].reason != LG_PASS_CONNECTION)
			lg_conn_note(visit, rule, lg_conn_now());
	}
	return 0;
}

/* ---- all other packets ---- */

/* The handshake is over: what was charged for it alone goes, and an entry that nothing else needs goes with it. */
static __always_inline void lg_conn_settled(struct lg_conn *conn, __u64 word)
{
	if (!lg_conn_release(conn, 1 << LG_CONNECTION_HALF_OPEN | 1 << LG_CONNECTION_NEW))
		lg_conn_end(conn, word);
}

/* The same SYN again, or a new one between the same ports. */
static __always_inline void lg_conn_syn(struct lg_conn *conn, const struct lg_conn_terms *terms, __u64 now_ns)
{
	__u64 last_ns = lg_read(conn->syn_ns);

	if (now_ns == last_ns)
		return; /* the one that made the entry */
	lg_write(conn->syn_until_ns, lg_syn_until_ns(now_ns, last_ns, terms->handshake_ns));
	lg_write(conn->syn_ns, now_ns);
}

/* A packet that may pass moves the entry of its connection. */
__noinline int lg_conn_track(struct lg_visit *visit)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	const struct lg_conn_terms *terms = lg_conn_terms();
	__u64 word = 0, next, now_ns, until_ns;
	struct lg_conn *conn;
	bool of_b;
	__u8 flags;

	if (!visit || !scratch || !terms)
		return 0;
	of_b = lg_conn_key_make(&visit->pkt, &scratch->key);
	conn = lg_conn_find(scratch, &word);
	if (!conn || !lg_conn_is_live(word))
		return 0;
	now_ns = lg_conn_now();
	flags = visit->pkt.tcp_flags;
	next = lg_conn_next(word, of_b, flags);
	if (lg_conn_is_over(conn, word, now_ns) || lg_conn_state(next) == LG_CONN_CLOSED)
		return lg_conn_end(conn, word);
	if (lg_is_syn(flags))
		lg_conn_syn(conn, terms, now_ns);
	until_ns = now_ns + lg_conn_idle_ns(terms, next);
	if (next != word || (__s64)(until_ns - lg_read(conn->until_ns)) > (__s64)LG_SEEN_STEP_NS)
		lg_write(conn->until_ns, until_ns);
	if (next == word)
		return 0;
	if (__sync_val_compare_and_swap(&conn->word, word, next) != word)
		return 0; /* a packet on another CPU was first; what this one said the next one, or a timeout, will say again */
	if (lg_conn_state(word) == LG_CONN_PENDING)
		lg_conn_settled(conn, next);
	return 1;
}
