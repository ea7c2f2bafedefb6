/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One rule's part of a packet's way: what it asks, whose bucket that is, what the bucket answers, what is counted and what the agent
 * should hear of it. A packet that matches one rule, the common case, takes straight away, as test-then-take is one loop.
 *
 * Whatever is seldom or needs many branches is a global function: the verifier checks it once, whatever calls it.
 */
#pragma once

#include <linux/errno.h>
#include <stdbool.h>

#include "classify.h"
#include "clock.h"
#include "count.h"
#include "demand.h"
#include "key.h"
#include "log.h"
#include "window.h"

#define LG_ANNOUNCE_TICK_NS (1000000000ull / LG_ANNOUNCE_PER_S)
#define LG_ANNOUNCE_BURST_NS (1000 * LG_ANNOUNCE_TICK_NS) /* a thousand keys at once */

/* A packet on its way through the rules. */
struct lg_visit {
	struct lg_pkt pkt;
	__u64 clock_ns[2];  /* fine, coarse; 0: not read yet */
	struct lg_key key;  /* under the rule at hand; lies on the stack of the entry, as 6.1 wants the keys of look-ups */
	__u8 is_reachable;  /* struct lg_control */
	__u8 hook;          /* enum lg_hook */
	__u8 act;           /* enum lg_action: what to do when the verdict is there */
	__u8 _pad;
	__u32 act_value;    /* mark, priority, DSCP, or how long to wait */
};

/* In act.h: what a rule that is not like most says of its own answer. */
int lg_answer(struct lg_visit *visit, const struct lg_rule *rule, __u32 reason);

/* What a new key's bucket is made from; lg_bucket_init does the rest in place, as it does for overflow buckets. */
static const struct lg_bucket lg_blank_bucket;
static const struct lg_log lg_blank_log;

/* Time for a rule, each clock read at most once per packet. Leases and wide bursts bear the coarse one, at half the price. */
static __always_inline __u64 lg_visit_now(struct lg_visit *visit, const struct lg_rule *rule)
{
	__u32 is_coarse = (rule->flags / LG_RULE_GLOBAL | rule->rate.coarse) & 1;
	__u64 *now_ns = &visit->clock_ns[is_coarse];

	if (!*now_ns)
		*now_ns = lg_clock(is_coarse);
	return *now_ns;
}

/* Whether one more of what happens at most once a tick, but for a burst, may happen now: GCRA on one shared word. */
static __always_inline bool lg_admit(__u64 *full_at_ns, __u64 now_ns, __u64 tick_ns, __u64 burst_ns)
{
	__u64 seen = lg_read(*full_at_ns), from, was;
	int i;

	for (i = 0; i < LG_TAKE_TRIES; i++) {
		from = (__s64)(seen - now_ns) > 0 ? seen : now_ns;
		if (from - now_ns > burst_ns)
			return false;
		was = __sync_val_compare_and_swap(full_at_ns, seen, from + tick_ns);
		if (was == seen)
			return true;
		seen = was;
	}
	return false;
}

/* Makes the packet's key under a rule of any kind the key at hand. */
__noinline int lg_visit_key(struct lg_visit *visit, const struct lg_rule *rule)
{
	const struct lg_control *ctl;
	__u32 zero = 0;

	if (!visit || !rule)
		return 0;
	if (rule->key_form) {
		lg_key_make(rule, &visit->pkt, &visit->key);
		return 0;
	}
	ctl = bpf_map_lookup_elem(&control, &zero);
	lg_product_make(rule, &visit->pkt, ctl ? ctl->hash_seed : 0, &visit->key);
	return 0;
}

static __always_inline __u64 lg_cost(const struct lg_rule *rule, const struct lg_pkt *pkt)
{
	return lg_pick(pkt->packets, pkt->bytes, rule->flags / LG_RULE_BYTES & 1) * rule->cost;
}

/* What the packet asks of a rule. */
static __always_inline struct lg_ask lg_ask_make(struct lg_visit *visit, const struct lg_rule *rule)
{
	return (struct lg_ask){
		.now_ns = lg_visit_now(visit, rule),
		.cost_tok = lg_cost(rule, &visit->pkt),
		.is_reachable = visit->is_reachable,
	};
}

/*
 * For a key without a bucket of its own, as its rule says: the overflow bucket, or NULL with the verdict in
 * *ret_reason. The key at hand becomes the name under which the agent knows that bucket.
 */
static __always_inline struct lg_bucket *lg_crowded(struct lg_visit *visit, const struct lg_rule *rule,
						    enum lg_reason *ret_reason)
{
	const struct lg_control *ctl;
	__u32 zero = 0, slot, index;

	*ret_reason = rule->on_full == LG_ON_FULL_PASS ? LG_PASS_TABLE_FULL : LG_DROP_TABLE_FULL;
	ctl = bpf_map_lookup_elem(&control, &zero);
	if (rule->on_full != LG_ON_FULL_OVERFLOW || !ctl)
		return NULL;
	if (visit->key.form == LG_FORM_OVERFLOW) {
		slot = *(__u32 *)visit->key.a & (LG_OVERFLOW_BUCKETS - 1);
	} else {
		slot = lg_overflow_slot(rule, &visit->key, &visit->pkt, ctl->hash_seed);
		visit->key.form = LG_FORM_OVERFLOW;
		__builtin_memset(visit->key.a, 0, sizeof(visit->key.a) + sizeof(visit->key.b));
		*(__u32 *)visit->key.a = slot;
	}
	index = (rule->rule_id - 1) * LG_OVERFLOW_BUCKETS + slot;
	return bpf_map_lookup_elem(&overflow, &index);
}

/* Notes what the key at hand is a hash of. */
__noinline int lg_wide_note(struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_wide_key wide;
	struct lg_key key;

	if (!visit || !rule)
		return 0;
	key = visit->key;
	lg_wide_make(rule, &visit->pkt, &wide);
	return (int)bpf_map_update_elem(&wide_keys, &key, &wide, BPF_ANY);
}

/* Makes a blank bucket. Returns 0 or a negative errno, -EEXIST if there is one. */
static __always_inline int lg_bucket_make(const struct lg_key *key)
{
	/* As int: before 6.4 map operations return one, and what stands in the upper half of the register is anybody's guess. */
	if (key->form & LG_FORM_PRODUCT)
		return (int)bpf_map_update_elem(&products, key, &lg_blank_bucket, BPF_NOEXIST);
	return (int)bpf_map_update_elem(&buckets, key, &lg_blank_bucket, BPF_NOEXIST);
}

/* Makes a bucket for the key at hand. Returns 2 if it did, 1 if another CPU was first, 0 if there is no room. */
__noinline int lg_newcomer(struct lg_visit *visit)
{
	struct lg_shared *words;
	struct lg_key key;
	__u32 zero = 0;
	int r;

	if (!visit)
		return 0;
	key = visit->key;
	r = lg_bucket_make(&key);
	if (!r)
		return 2;
	if (r == -EEXIST)
		return 1;
	words = bpf_map_lookup_elem(&shared, &zero);
	if (words)
		__sync_fetch_and_add(&words->map_full, 1);
	return 0;
}

/**
 * lg_announce() - tell the agent about a key of a global rule
 * @bucket: of the key at hand, or NULL: its overflow bucket
 * @type:   enum lg_event_type
 *
 * At most once per LG_ANNOUNCE_GAP_NS for the key (whoever swaps asked_ns tells), and within LG_ANNOUNCE_PER_S for the
 * host. What is held back is counted; the key's next packet after the gap tries again.
 */
__noinline int lg_announce(struct lg_visit *visit, const struct lg_rule *rule, struct lg_bucket *bucket, __u32 type)
{
	struct lg_shared *words;
	struct lg_event *event;
	enum lg_reason reason;
	__u64 asked_ns;
	struct lg_ask ask;
	__u32 zero = 0;

	if (!visit || !rule)
		return 0;
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	words = bpf_map_lookup_elem(&shared, &zero);
	if (!bucket || !words)
		return 0;
	ask = lg_ask_make(visit, rule);
	asked_ns = lg_read(bucket->asked_ns);
	if (asked_ns && (__s64)(ask.now_ns - asked_ns) < (__s64)LG_ANNOUNCE_GAP_NS)
		return 0;
	if (__sync_val_compare_and_swap(&bucket->asked_ns, asked_ns, ask.now_ns) != asked_ns)
		return 0;
	if (!lg_admit(&words->announce_full_at_ns, ask.now_ns, LG_ANNOUNCE_TICK_NS, LG_ANNOUNCE_BURST_NS)) {
		__sync_fetch_and_add(&words->events_limited, 1);
		return 0;
	}
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&words->events_lost, 1);
		return 0;
	}
	event->type = type;
	event->_pad = 0;
	event->key = visit->key;
	event->cost_tok = ask.cost_tok;
	event->now_ns = ask.now_ns;
	bpf_ringbuf_submit(event, 0);
	return 1;
}

/* Counts a refusal by the bucket of the key at hand, or NULL: its overflow bucket. */
__noinline int lg_denied(struct lg_visit *visit, const struct lg_rule *rule, struct lg_bucket *bucket)
{
	enum lg_reason reason;
	__u64 tok;

	if (!visit || !rule)
		return 0;
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	if (!bucket)
		return 0;
	tok = lg_denials_add(&visit->key, 0, lg_cost(rule, &visit->pkt));
	if (tok)
		__sync_fetch_and_add(&bucket->denied_tok, tok);
	return 1;
}

/* lists.h: a refusal of the key at hand may be one too many. */
__noinline int lg_strike(const struct lg_visit *visit, const struct lg_rule *rule, __u32 reason);

/* All that a refusal by a bucket leads to; NULL as above. */
static __always_inline void lg_refused(struct lg_visit *visit, const struct lg_rule *rule, struct lg_bucket *bucket,
				       enum lg_reason reason)
{
	lg_denied(visit, rule, bucket);
	if (rule->special)
		lg_strike(visit, rule, reason);
}

/* The same, without a call for what is common. */
static __always_inline void lg_refused_at_once(struct lg_visit *visit, const struct lg_rule *rule, struct lg_bucket *bucket,
					       const struct lg_ask *ask, enum lg_reason reason)
{
	__u64 tok = lg_denials_add(&visit->key, 0, ask->cost_tok);

	if (tok)
		__sync_fetch_and_add(&bucket->denied_tok, tok);
	if (rule->special)
		lg_strike(visit, rule, reason);
}

/* Notes that a bucket answered; a refusal is counted by lg_denied(). Returns what the agent should hear of the key, as lg_event_type, or 0. */
static __always_inline __u32 lg_settle(struct lg_bucket *bucket, const struct lg_rule *rule, const struct lg_ask *ask,
				       enum lg_reason reason)
{
	lg_bucket_touch(bucket, rule, ask->now_ns);
	if (!(rule->flags & LG_RULE_GLOBAL))
		return 0;
	/* A key that is served by what it started with needs no lease yet. */
	if (!lg_read(bucket->asked_ns))
		return reason == LG_PASS_ADMITTED && lg_is_cold(bucket, rule) ? 0 : LG_EVENT_NEW_KEY;
	if (!lg_is_pass(reason))
		return LG_EVENT_DENIED;
	return reason == LG_PASS_FALLBACK || lg_block_left(bucket) < lg_read(bucket->low_water_tok) ? LG_EVENT_LOW_WATER : 0;
}

/* Counts a rule's own part. Returns what it means for the packet: what a rule refuses may pass all the same, and what it admits may wait. */
static __always_inline enum lg_reason lg_conclude(struct lg_visit *visit, const struct lg_rule *rule, enum lg_reason reason)
{
	if (rule->flags & (LG_RULE_SHADOW | LG_RULE_ACTS))
		reason = lg_answer(visit, rule, reason);
	lg_count_rule(rule->rule_id, reason, &visit->pkt);
	return reason;
}

/* What became of a packet at one of the rules it matches. */
enum lg_match_state {
	LG_MATCH_IDLE,  /* nothing to take: it refuses, would refuse, or was not asked */
	LG_MATCH_READY, /* has what it takes */
	LG_MATCH_DONE,  /* taken, or let through without a bucket: `reason` says how */
};

struct lg_match {
	__u8 rule_index;
	__u8 state;      /* enum lg_match_state */
	__u8 reason;     /* enum lg_reason */
	__u8 generation; /* low byte, of the lease or the window that the tokens came from */
};

/* The rules that a packet matches. */
struct lg_matches {
	struct lg_match match[LG_MATCHES_MAX];
	__u32 n;
};

static __always_inline const struct lg_rule *lg_match_rule(const struct lg_ruleset *set, const struct lg_match *match)
{
	return &set->rules[match->rule_index & (LG_RULES_MAX - 1)];
}

enum lg_step {
	LG_STEP_TEST, /* see whether the rule has what the packet asks; a refusal is noted */
	LG_STEP_TAKE, /* take it; both answers are noted */
	LG_STEP_UNDO, /* give it back */
};

enum {
	LG_STEP_DENIED = 1 << 16,
	LG_STEP_NOTE = 1 << 17,
};

static __always_inline enum lg_reason lg_step_reason(int r)
{
	return r & 0xff;
}

static __always_inline __u32 lg_step_event(int r)
{
	return r >> 8 & 0xff;
}

/* The log of a key, found or made, or that of all of the rule's keys without one; NULL where there is none. */
static __always_inline struct lg_log *lg_log_find(const struct lg_key *at, const struct lg_rule *rule)
{
	struct lg_key key = *at;
	struct lg_log *log;

	if (key.form != LG_FORM_OVERFLOW) {
		log = bpf_map_lookup_elem(&logs, &key);
		if (log)
			return log;
		bpf_map_update_elem(&logs, &key, &lg_blank_log, BPF_NOEXIST);
		log = bpf_map_lookup_elem(&logs, &key);
		if (log || rule->on_full != LG_ON_FULL_OVERFLOW)
			return log;
	}
	__builtin_memset(&key, 0, sizeof(key));
	key.rule_id = rule->rule_id;
	key.form = LG_FORM_OVERFLOW;
	return bpf_map_lookup_elem(&logs, &key);
}

/* lg_step() for a rule with a log, which lies beside the bucket. It is taken from last, so nothing is ever given back. */
__noinline int lg_log_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule, struct lg_bucket *bucket,
			   __u32 step)
{
	enum lg_reason reason;
	struct lg_log *log;
	struct lg_ask ask;

	if (!visit || !match || !rule)
		return LG_DROP_TABLE_FULL;
	ask = lg_ask_make(visit, rule);
	reason = lg_rule_refusal(rule, visit->pkt.packets, &ask);
	if (reason != LG_PASS_ADMITTED || step == LG_STEP_UNDO)
		return reason;
	reason = rule->on_full == LG_ON_FULL_PASS ? LG_PASS_TABLE_FULL : LG_DROP_TABLE_FULL;
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	log = bucket ? lg_log_find(&visit->key, rule) : NULL;
	if (bucket)
		lg_bucket_init(bucket, rule, ask.now_ns);
	if (log)
		reason = lg_log_take(log, rule, &ask, step == LG_STEP_TAKE);
	if (bucket && step == LG_STEP_TAKE && reason == LG_PASS_ADMITTED)
		__sync_fetch_and_add(&bucket->spent_tok, ask.cost_tok);
	if (bucket && (step == LG_STEP_TAKE || !lg_is_pass(reason)))
		lg_settle(bucket, rule, &ask, reason);
	match->reason = reason;
	return bucket && !lg_is_pass(reason) ? reason | LG_STEP_DENIED : reason;
}

/* Takes by the rule's algorithm, or only sees whether there is enough. Returns as lg_bucket_take(). */
static __always_inline enum lg_reason lg_take(struct lg_match *match, const struct lg_rule *rule, struct lg_bucket *bucket,
					      const struct lg_ask *ask, bool take)
{
	if (rule->algorithm)
		return lg_window_take(bucket, rule, ask, take, &match->generation);
	match->generation = lg_read(bucket->lease_generation);
	return lg_bucket_take(bucket, rule, ask, take);
}

/* Gives back what lg_take() took. */
static __always_inline void lg_give_back(struct lg_bucket *bucket, const struct lg_rule *rule, const struct lg_ask *ask,
					 const struct lg_match *match)
{
	if (rule->algorithm)
		lg_window_undo(bucket, ask->cost_tok, match->generation);
	else
		lg_bucket_undo(bucket, rule, ask, match->reason, match->generation);
}

/**
 * lg_step() - one rule's part of the way, in full generality
 * @match:  reason and generation are set by the first two steps and read by the last
 * @bucket: of the packet's key under the rule, or NULL: there is no room for one
 * @step:   enum lg_step
 *
 * Return: the reason, LG_PASS_ADMITTED, LG_PASS_FALLBACK, LG_PASS_TABLE_FULL or a refusal; in the second byte what the agent
 * should hear of the key (enum lg_event_type); and LG_STEP_DENIED if a bucket refused, which the caller has to count.
 */
__noinline int lg_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule, struct lg_bucket *bucket,
		       __u32 step)
{
	enum lg_reason reason;
	struct lg_ask ask;
	__u32 event = 0;

	if (!visit || !match || !rule)
		return LG_DROP_TABLE_FULL;
	ask = lg_ask_make(visit, rule);
	reason = lg_rule_refusal(rule, visit->pkt.packets, &ask);
	if (reason != LG_PASS_ADMITTED)
		return reason; /* the caller has looked */
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	if (bucket)
		lg_bucket_init(bucket, rule, ask.now_ns);
	if (bucket && step == LG_STEP_UNDO) {
		lg_give_back(bucket, rule, &ask, match);
	} else if (bucket) {
		reason = lg_take(match, rule, bucket, &ask, step == LG_STEP_TAKE);
		if (step == LG_STEP_TAKE || !lg_is_pass(reason))
			event = lg_settle(bucket, rule, &ask, reason);
	}
	match->reason = reason;
	if (bucket && step != LG_STEP_UNDO && !lg_is_pass(reason))
		event |= LG_STEP_DENIED >> 8;
	return reason | event << 8;
}

/* Of rules that count what is open: conn_step.h. */
int lg_count_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule, struct lg_bucket *bucket, __u32 step);

/* The step of a rule that keeps its keys in `buckets`, by its algorithm. */
static __always_inline int lg_bucket_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule,
					  struct lg_bucket *bucket, enum lg_step step)
{
	int r;

	if (rule->connection > LG_CONNECTION_NEW)
		r = lg_count_step(visit, match, rule, bucket, step);
	else if (rule->algorithm == LG_RULE_SLIDING_LOG)
		r = lg_log_step(visit, match, rule, bucket, step);
	else
		r = lg_step(visit, match, rule, bucket, step);
	if (r & LG_STEP_DENIED)
		lg_refused(visit, rule, bucket, lg_step_reason(r));
	return r;
}

/* The bucket of the key at hand, which is no product: found, made or, where there is no room, NULL. */
static __always_inline struct lg_bucket *lg_find(struct lg_visit *visit)
{
	struct lg_bucket *bucket = bpf_map_lookup_elem(&buckets, &visit->key);

	if (bucket)
		return bucket;
	return lg_newcomer(visit) ? bpf_map_lookup_elem(&buckets, &visit->key) : NULL;
}

/* The same of a product. */
static __always_inline struct lg_bucket *lg_find_product(struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_bucket *bucket = bpf_map_lookup_elem(&products, &visit->key);
	int r;

	if (bucket)
		return bucket;
	r = lg_newcomer(visit);
	if (r == 2 && (visit->key.form & (LG_FORM_HASHED | LG_FORM_SECRET)) == LG_FORM_HASHED)
		lg_wide_note(visit, rule);
	return r ? bpf_map_lookup_elem(&products, &visit->key) : NULL;
}

/* ---- one rule ---- */

static __always_inline enum lg_reason lg_judge_one(struct lg_visit *visit, const struct lg_rule *rule)
{
	struct lg_match match = {};
	struct lg_bucket *bucket;
	enum lg_reason reason;
	struct lg_ask ask;
	__u32 event;
	int r;

	ask = lg_ask_make(visit, rule);
	reason = lg_rule_refusal(rule, visit->pkt.packets, &ask);
	if (reason != LG_PASS_ADMITTED)
		return lg_conclude(visit, rule, reason);
	if (rule->key_form) {
		lg_key_make(rule, &visit->pkt, &visit->key);
		bucket = lg_find(visit);
	} else {
		lg_visit_key(visit, rule);
		bucket = lg_find_product(visit, rule);
	}
	if (bucket && !rule->algorithm && lg_read(bucket->kind)) {
		reason = lg_bucket_take(bucket, rule, &ask, true);
		event = lg_settle(bucket, rule, &ask, reason);
		if (!lg_is_pass(reason))
			lg_refused_at_once(visit, rule, bucket, &ask, reason);
	} else {
		r = lg_bucket_step(visit, &match, rule, bucket, LG_STEP_TAKE);
		reason = lg_step_reason(r);
		event = lg_step_event(r);
	}
	if (event)
		lg_announce(visit, rule, bucket, event);
	return lg_conclude(visit, rule, reason);
}
