/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The agent's way to a bucket: requests in map `ops`, answered in place. Packets run at the same time, so words they
 * change are swapped or added to here as well; what the agent takes back it takes like a packet, so no token is both
 * spent and returned. There is one agent, so what only the agent changes (granted, returned, generation, bases) is
 * simply written. Each operation is a global function: the verifier checks it once and not LG_OPS_MAX times.
 */
#pragma once

#include "decide.h"

#define LG_OP_TRIES 64            /* lost races before an operation is put off (-EAGAIN): each means that a packet got through */
#define LG_COARSE_LAG_NS 20000000 /* the coarse clock lags less than two ticks of 10 ms; syscall programs may not read it */

/* Where the rule in force under an id is: entry of `rules` * LG_RULES_MAX + index, or -1. Of its own: its loop is walked once. */
__noinline int lg_op_rule_at(__u32 rule_id)
{
	const struct lg_control *ctl;
	const struct lg_ruleset *set;
	__u32 active = 0, found = 0, i;

	ctl = bpf_map_lookup_elem(&control, &active);
	if (!ctl)
		return -1;
	active = ctl->active_set;
	set = bpf_map_lookup_elem(&rules, &active);
	if (!set)
		return -1;
	/* Behind n_rules are rules that left; ids are different. Without a branch, which would be one more way for each rule. */
	for (i = 0; i < LG_RULES_MAX; i++)
		found |= (i + 1) & -(__u32)lg_is_zero(set->rules[i].rule_id ^ rule_id);
	return found && found <= set->n_rules ? (int)(active * LG_RULES_MAX + found - 1) : -1;
}

/* The rule in force under an id, or NULL. */
static __always_inline const struct lg_rule *lg_op_rule(__u32 rule_id)
{
	const struct lg_ruleset *set;
	__u32 active;
	int at;

	at = lg_op_rule_at(rule_id);
	if (at < 0)
		return NULL;
	active = (__u32)at / LG_RULES_MAX;
	set = bpf_map_lookup_elem(&rules, &active);
	return set ? &set->rules[(__u32)at & (LG_RULES_MAX - 1)] : NULL;
}

/* Takes back up to want_tok of what is left, whether the lease still runs or not. Returns 0, or -EAGAIN with nothing taken. */
static __always_inline int lg_op_take_back(struct lg_bucket *bucket, __u64 want_tok, __u64 *ret_tok)
{
	__u64 left_tok, take_tok, spent_tok;
	int i;

	*ret_tok = 0;
	for (i = 0; i < LG_OP_TRIES; i++) {
		spent_tok = lg_read(bucket->spent_tok);
		left_tok = bucket->granted_tok > spent_tok ? bucket->granted_tok - spent_tok : 0;
		take_tok = left_tok < want_tok ? left_tok : want_tok;
		if (!take_tok)
			return 0;
		if (__sync_val_compare_and_swap(&bucket->spent_tok, spent_tok, spent_tok + take_tok) != spent_tok)
			continue;
		__sync_fetch_and_add(&bucket->returned_tok, take_tok);
		*ret_tok = take_tok;
		return 0;
	}
	return -EAGAIN;
}

/* A lease's end moves only forward, and only by compare-and-swap, as packets move it too (lg_lease_wake). */
static __always_inline int lg_op_prolong(struct lg_bucket *bucket, __u64 expires_ns)
{
	__u64 was;
	int i;

	for (i = 0; i < LG_OP_TRIES; i++) {
		was = lg_read(bucket->expires_ns);
		if (was >= expires_ns || __sync_val_compare_and_swap(&bucket->expires_ns, was, expires_ns) == was)
			return 0;
	}
	return -EAGAIN;
}

static __always_inline int lg_op_grant(struct lg_op *op, struct lg_bucket *bucket)
{
	__sync_fetch_and_add(&bucket->granted_tok, op->tok);
	if (op->low_water_tok != ~0ull)
		lg_write(bucket->low_water_tok, op->low_water_tok);
	bucket->lease_epoch = op->epoch;
	return lg_op_prolong(bucket, op->expires_ns);
}

/*
 * Closes the books of a generation. The new number comes first: a packet that undoes its take from now on leaves the
 * tokens spent (lg_bucket_undo), as they are booked here. The old lease ends now: grants never lower an end, so that a
 * shorter new lease would else stay spendable until the old one's end, should the agent be gone by then.
 */
static __always_inline int lg_op_generation(struct lg_op *op, struct lg_bucket *bucket)
{
	__u64 expires_ns = lg_read(bucket->expires_ns), now_ns = lg_clock(false);
	int r;

	lg_write(bucket->lease_generation, op->generation);
	r = lg_op_take_back(bucket, ~0ull, &op->tok);
	if (r)
		return r;
	/* Packets move only an end that is past (lg_lease_wake). */
	if ((__s64)(expires_ns - now_ns) > 0)
		__sync_val_compare_and_swap(&bucket->expires_ns, expires_ns, now_ns);
	bucket->lease_epoch = op->epoch;
	bucket->base_tok = bucket->granted_tok;
	bucket->base_returned_tok = bucket->returned_tok;
	return 0;
}

/* With its log. An overflow bucket stays where it is, and becomes blank: what can be spent goes first. */
static __always_inline int lg_op_delete(const struct lg_op *op)
{
	struct lg_bucket *bucket = lg_bucket_of(&op->key);

	if (op->key.form != LG_FORM_OVERFLOW) {
		bpf_map_delete_elem(&logs, &op->key);
		if (op->key.form & LG_FORM_HASHED)
			bpf_map_delete_elem(&wide_keys, &op->key);
		return op->key.form & LG_FORM_PRODUCT ? bpf_map_delete_elem(&products, &op->key) : bpf_map_delete_elem(&buckets, &op->key);
	}
	if (!bucket)
		return -ENOENT;
	lg_write(bucket->granted_tok, 0);
	__builtin_memset(bucket, 0, sizeof(*bucket));
	return 0;
}

__noinline int lg_grant_one(__u32 i)
{
	struct lg_op *op = bpf_map_lookup_elem(&ops, &i);
	struct lg_bucket *bucket;

	if (!op)
		return -EINVAL;
	bucket = lg_bucket_of(&op->key);
	if (!bucket && op->code == LG_OP_GRANT) {
		lg_bucket_make(&op->key);
		bucket = lg_bucket_of(&op->key);
		if (!bucket)
			return -ENOSPC;
	}
	if (!bucket)
		return -ENOENT;
	if (op->code == LG_OP_FORGET)
		return lg_op_delete(op);
	if (op->code == LG_OP_GRANT && !lg_read(bucket->kind)) {
		bucket->rule_id = op->key.rule_id;
		lg_write(bucket->kind, LG_BUCKET_BLOCK);
	}
	if (lg_read(bucket->kind) != LG_BUCKET_BLOCK)
		return -EINVAL;
	switch (op->code) {
	case LG_OP_GRANT: op->result = lg_op_grant(op, bucket); break;
	case LG_OP_TAKE: op->result = lg_op_take_back(bucket, op->tok, &op->tok); break;
	case LG_OP_GENERATION: op->result = lg_op_generation(op, bucket); break;
	default: return -EOPNOTSUPP;
	}
	op->after = *bucket;
	return op->result;
}

/* lg_op_may_reap() for windows. */
__noinline int lg_reap_window(struct lg_bucket *bucket, const struct lg_rule *rule)
{
	if (!bucket || !rule)
		return -EINVAL;
	return lg_window_retire(bucket, rule, lg_clock(false) - LG_COARSE_LAG_NS) ? 0 : -EBUSY;
}

/* lg_op_may_reap() for the log beside a bucket, or one whose bucket is gone: 0 also where there is none. */
__noinline int lg_reap_log(__u32 i)
{
	struct lg_op *op = bpf_map_lookup_elem(&ops, &i);
	const struct lg_rule *rule;
	struct lg_log *log;

	if (!op)
		return -EINVAL;
	rule = lg_op_rule(op->key.rule_id);
	if (!rule)
		return -EBUSY;
	log = bpf_map_lookup_elem(&logs, &op->key);
	return !log || lg_log_close(log, lg_clock(false), rule->window.length_ns) ? 0 : -EBUSY;
}

/*
 * Whether the bucket may go: it holds nothing, neither debt nor tokens. What a key without a lease has left of its
 * start is taken first, so that no packet can spend it while the bucket goes. A rate is poisoned on the way, by a
 * compare-and-swap from the position found full: a packet that still holds the bucket then finds it empty for ages, and
 * cannot be let through uncharged.
 */
static __always_inline int lg_op_may_reap(struct lg_bucket *bucket, const struct lg_rule *rule)
{
	__u64 now_ns = lg_clock(false) - LG_COARSE_LAG_NS, seen, left_tok, v;

	if (rule->flags & LG_RULE_GLOBAL) {
		if (bucket->kind != LG_BUCKET_BLOCK || (__s64)(now_ns - bucket->expires_ns - rule->share_delay_ns) < 0)
			return -EBUSY;
		if (!lg_read(bucket->lease_generation) && lg_op_take_back(bucket, ~0ull, &left_tok))
			return -EBUSY;
		return bucket->granted_tok == lg_read(bucket->spent_tok) ? 0 : -EBUSY;
	}
	if (bucket->kind == LG_BUCKET_COUNT)
		return __sync_val_compare_and_swap(&bucket->open, 0, LG_COUNT_CLOSED) ? -EBUSY : 0;
	if (rule->algorithm)
		return lg_reap_window(bucket, rule);
	seen = lg_read(bucket->full_at_vt);
	v = lg_rate_now(&rule->rate, now_ns);
	if (bucket->kind != LG_BUCKET_RATE || (__s64)(seen - v) > 0)
		return -EBUSY;
	return __sync_val_compare_and_swap(&bucket->full_at_vt, seen, v + LG_POISON_VT) == seen ? 0 : -EBUSY;
}

__noinline int lg_collect_one(__u32 i)
{
	struct lg_op *op = bpf_map_lookup_elem(&ops, &i);
	const struct lg_rule *rule;
	struct lg_bucket *bucket;
	int r;

	if (!op)
		return -EINVAL;
	bucket = lg_bucket_of(&op->key);
	if (!bucket && op->code != LG_OP_REAP)
		return -ENOENT;
	if (bucket && op->code == LG_OP_READ) {
		op->after = *bucket;
		return 0;
	}
	if (op->code != LG_OP_REAP)
		return -EOPNOTSUPP;
	rule = lg_op_rule(op->key.rule_id);
	if (!rule || (bucket && bucket->seen_ns >= op->before_ns))
		return -EBUSY;
	r = bucket && rule->algorithm != LG_RULE_SLIDING_LOG ? lg_op_may_reap(bucket, rule) : lg_reap_log(i);
	return r ? r : lg_op_delete(op);
}

enum lg_ops_kind { LG_OPS_GRANT,
		   LG_OPS_COLLECT };

/* Runs the first args->n requests in order. Returns 0, or -EINVAL and nothing done. */
static __always_inline int lg_ops_run(struct lg_ops_args *args, enum lg_ops_kind kind)
{
	struct lg_op *op;
	__u32 n = args->n, i, index;

	args->done = 0;
	if (!n || n > LG_OPS_MAX)
		return -EINVAL;
	for (i = 0; i < LG_OPS_MAX; i++) {
		if (i >= n)
			break;
		index = i;
		op = bpf_map_lookup_elem(&ops, &index);
		if (op)
			op->result = kind == LG_OPS_GRANT ? lg_grant_one(i) : lg_collect_one(i);
	}
	args->done = n;
	return 0;
}
