/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The agent's way to connections: requests in map `conn_ops`, answered in place. Entries and counts change here by the same swaps as
 * under packets. Syscall programs may not read the coarse clock, so `now` is a tick ahead of what packets work with.
 */
#pragma once

#include "lists.h"
#include "ops.h"

/* The connection of a request, with its SYN's end first, as a packet. */
static __always_inline void lg_conn_op_pkt(const struct lg_conn_op *op, struct lg_pkt *pkt)
{
	__builtin_memset(pkt, 0, sizeof(*pkt));
	__builtin_memcpy(&pkt->source, op->from, sizeof(op->from));
	__builtin_memcpy(&pkt->destination, op->to, sizeof(op->to));
	pkt->source_port = op->from_port;
	pkt->destination_port = op->to_port;
	pkt->protocol = op->protocol;
	pkt->packets = 1;
	pkt->has_port = 1;
	pkt->tcp_flags = LG_TCP_SYN;
	pkt->ifindex = op->ifindex;
	pkt->direction = op->is_egress;
	pkt->source_is4 = lg_addr_is4(&pkt->source);
	pkt->destination_is4 = lg_addr_is4(&pkt->destination);
	pkt->family = pkt->source_is4 ? LG_RULE_IPV4 : LG_RULE_IPV6;
	pkt->ethertype = pkt->source_is4 ? ETH_P_IP : ETH_P_IPV6;
}

/* The key of a request becomes the key at hand. */
__noinline int lg_conn_op_key(__u32 i)
{
	struct lg_conn_op *op = bpf_map_lookup_elem(&conn_ops, &i);
	struct lg_conn_scratch *scratch = lg_scratch();
	struct lg_pkt pkt;

	if (!op || !scratch)
		return -EINVAL;
	lg_conn_op_pkt(op, &pkt);
	lg_conn_key_make(&pkt, &scratch->key);
	return 0;
}

/* EXPIRE, END and KEEP. */
__noinline int lg_conn_op_state(__u32 i)
{
	struct lg_conn_op *op = bpf_map_lookup_elem(&conn_ops, &i);
	struct lg_conn_scratch *scratch = lg_scratch();
	const struct lg_conn_terms *terms = lg_conn_terms();
	__u64 word = 0, now_ns = lg_clock(false);
	struct lg_conn *conn;

	if (!op || !scratch || !terms)
		return -EINVAL;
	conn = lg_conn_find(scratch, &word);
	if (!conn)
		return -ENOENT;
	if (op->code == LG_CONN_OP_KEEP) {
		lg_write(conn->until_ns, now_ns + lg_conn_idle_ns(terms, word));
		return 0;
	}
	if (op->code == LG_CONN_OP_EXPIRE && !lg_conn_is_over(conn, word, now_ns - LG_COARSE_LAG_NS))
		return -EBUSY;
	if (op->code == LG_CONN_OP_END && word != op->word)
		return -EBUSY;
	return lg_conn_end(conn, word) ? 0 : -EBUSY;
}

/* FORGET: the buckets are gone or going, so nothing is counted down. */
__noinline int lg_conn_op_forget(__u32 i)
{
	struct lg_conn_op *op = bpf_map_lookup_elem(&conn_ops, &i);
	struct lg_conn_scratch *scratch = lg_scratch();
	struct lg_conn *conn;
	__u64 word = 0;

	if (!op || !scratch)
		return -EINVAL;
	conn = lg_conn_find(scratch, &word);
	if (!conn)
		return -ENOENT;
	lg_conn_uncharge(scratch, conn, op->rule_id);
	return lg_conn_release(conn, 0) || lg_conn_end(conn, word) ? 0 : -EBUSY;
}

/* One rule's part in adopting a connection. Returns 1 if the rule has charged it, now or before. */
__noinline int lg_conn_adopt_one(struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_conn_scratch *scratch = lg_scratch();
	enum lg_reason reason;
	struct lg_bucket *bucket;
	struct lg_conn *conn;
	__u64 word = 0;

	if (!visit || !rule || !scratch || rule->connection != LG_CONNECTION_OPEN || rule->product_form & LG_KEY_CGROUP)
		return 0;
	lg_conn_key_make(&visit->pkt, &scratch->key);
	conn = lg_conn_find(scratch, &word);
	if (conn && lg_conn_is_live(word) && lg_charge_find(conn, rule->rule_id) < LG_CONN_CHARGES_MAX)
		return 1;
	lg_visit_key(visit, rule);
	scratch->bucket = visit->key;
	bucket = lg_bucket_of(&scratch->bucket);
	if (!bucket && lg_newcomer(visit))
		bucket = lg_bucket_of(&scratch->bucket);
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	if (!bucket)
		return 0;
	lg_bucket_init(bucket, rule, visit->clock_ns[0]);
	/* It is there, whatever the limit says. */
	if ((__s64)__sync_fetch_and_add(&bucket->open, 1) < 0) {
		__sync_fetch_and_add(&bucket->open, -1ull);
		return 0;
	}
	if (lg_conn_note(visit, rule, visit->clock_ns[0]))
		return 1;
	lg_count_put(&bucket->open);
	return 0;
}

/* The handshake of what was adopted is long over. */
static __always_inline void lg_conn_adopted(__u32 i)
{
	const struct lg_conn_terms *terms = lg_conn_terms();
	struct lg_conn_scratch *scratch = lg_scratch();
	struct lg_conn *conn;
	__u64 word = 0;

	if (!scratch || !terms || lg_conn_op_key(i))
		return;
	conn = lg_conn_find(scratch, &word);
	if (!conn || lg_conn_state(word) != LG_CONN_PENDING)
		return;
	lg_write(conn->until_ns, lg_clock(false) + terms->established_ns);
	__sync_val_compare_and_swap(&conn->word, word, lg_conn_with(word, LG_CONN_ESTABLISHED));
}

/* ADOPT: finds the rules that the connection's SYN matches; who is exempt from them is not counted. */
__noinline int lg_conn_op_adopt(__u32 i)
{
	struct lg_conn_op *op = bpf_map_lookup_elem(&conn_ops, &i);
	const struct lg_classifier *classifier;
	const struct lg_control *ctl;
	const struct lg_ruleset *set;
	struct lg_visit visit;
	struct lg_bits hits;
	__u32 active = 0, k;
	int n = 0;

	ctl = bpf_map_lookup_elem(&control, &active);
	if (!op || !ctl)
		return -EINVAL;
	active = lg_read(ctl->active_set);
	classifier = bpf_map_lookup_elem(&classifiers, &active);
	set = bpf_map_lookup_elem(&rules, &active);
	if (!classifier || !set)
		return -EINVAL;
	lg_conn_op_pkt(op, &visit.pkt);
	visit.clock_ns[0] = visit.clock_ns[1] = lg_clock(false);
	visit.is_reachable = 0;
	__builtin_memset(&visit.key, 0, sizeof(visit.key));
	if (op->ifindex && set->needs & LG_NEEDS_INTERFACE)
		visit.pkt.iface_class = lg_find_interface(&visit.pkt, active);
	lg_classify(classifier, &visit.pkt, &hits);
	if (lg_bits_meet(&hits, &set->pass))
		return 0;
	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (lg_bits_empty(&hits))
			break;
		n += lg_conn_adopt_one(&visit, &set->rules[lg_bits_take(&hits) & (LG_RULES_MAX - 1)]);
	}
	if (n)
		lg_conn_adopted(i);
	return n;
}

/* OURS and OURS_EXPIRE. */
__noinline int lg_conn_op_side(__u32 i)
{
	struct lg_conn_op *op = bpf_map_lookup_elem(&conn_ops, &i);
	struct lg_conn_scratch *scratch = lg_scratch();
	const struct lg_conn_terms *terms = lg_conn_terms();
	struct lg_initiated fresh = {};
	__u64 now_ns = lg_clock(false);
	struct lg_initiated *side;

	if (!op || !scratch || !terms)
		return -EINVAL;
	side = bpf_map_lookup_elem(&initiated, &scratch->key);
	if (op->code == LG_CONN_OP_OURS_EXPIRE) {
		if (!side)
			return -ENOENT;
		return lg_initiated_is_over(side, now_ns - LG_COARSE_LAG_NS) ? bpf_map_delete_elem(&initiated, &scratch->key) : -EBUSY;
	}
	fresh.until_ns = now_ns + terms->established_ns;
	fresh.bits = LG_INITIATED_OURS;
	return side ? 0 : (int)bpf_map_update_elem(&initiated, &scratch->key, &fresh, BPF_NOEXIST);
}

__noinline int lg_conn_op_one(__u32 i)
{
	struct lg_conn_op *op = bpf_map_lookup_elem(&conn_ops, &i);
	int r;

	if (!op)
		return -EINVAL;
	if (op->code == LG_CONN_OP_ADOPT)
		return lg_conn_op_adopt(i);
	r = lg_conn_op_key(i);
	if (r)
		return r;
	switch (op->code) {
	case LG_CONN_OP_EXPIRE:
	case LG_CONN_OP_END:
	case LG_CONN_OP_KEEP: return lg_conn_op_state(i);
	case LG_CONN_OP_FORGET: return lg_conn_op_forget(i);
	case LG_CONN_OP_OURS:
	case LG_CONN_OP_OURS_EXPIRE: return lg_conn_op_side(i);
	default: return -EOPNOTSUPP;
	}
}

/* Runs the first args->n requests in order, as lg_ops_run(). With it packets need not look for what is over themselves. */
static __always_inline int lg_conn_ops_run(struct lg_ops_args *args)
{
	struct lg_shared *words;
	struct lg_conn_op *op;
	__u32 n = args->n, i, index = 0;
	__u64 now_ns = lg_clock(false);

	args->done = 0;
	if (n > LG_OPS_MAX)
		return -EINVAL;
	words = bpf_map_lookup_elem(&shared, &index);
	if (words) {
		lg_write(words->conns_swept_ns, now_ns);
		lg_write(words->initiated_swept_ns, now_ns);
	}
	for (i = 0; i < LG_OPS_MAX; i++) {
		if (i >= n)
			break;
		index = i;
		op = bpf_map_lookup_elem(&conn_ops, &index);
		if (op)
			op->result = lg_conn_op_one(i);
	}
	args->done = n;
	return 0;
}
