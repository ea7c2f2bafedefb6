/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Requests, as map `checks` has them. They are charged by the steps that packets are charged by, so that whoever comes, packet or request,
 * finds one bucket: all charges are tested, then all are taken, and given back if one of them was lost to somebody else meanwhile. Of the last
 * one test and take are one step.
 *
 * Unlike a packet a request can be interrupted, on its CPU, by a packet: so what packets add to without an atomic operation, because nothing
 * interrupts them, is added to by one here, and what they keep for each CPU in more than one word is left alone.
 *
 * One function for each charge and step: the verifier checks it once, and not for each of LG_CHECKS_MAX requests.
 */
#pragma once

#include "ops.h"

#define LG_CHECK_UNDO_TRIES 16

static __always_inline struct lg_charge *lg_check_charge(__u32 i, __u32 k)
{
	struct lg_check *check = bpf_map_lookup_elem(&checks, &i);

	if (!check)
		return NULL;
	lg_opaque(k); /* else clang works out the place before it knows that there is one */
	return &check->charge[k & (LG_MATCHES_MAX - 1)];
}

/* The rule of a charge in the set in force, mostly where the caller knows it to be; or NULL. */
static __always_inline const struct lg_rule *lg_check_rule(const struct lg_charge *charge)
{
	const struct lg_control *ctl;
	const struct lg_ruleset *set;
	const struct lg_rule *rule;
	__u32 active = 0, index = charge->rule_index;

	ctl = bpf_map_lookup_elem(&control, &active);
	if (!ctl)
		return NULL;
	active = lg_read(ctl->active_set);
	set = bpf_map_lookup_elem(&rules, &active);
	if (set && index < set->n_rules) {
		rule = &set->rules[index & (LG_RULES_MAX - 1)];
		if (rule->rule_id == charge->key.rule_id)
			return rule;
	}
	return lg_op_rule(charge->key.rule_id);
}

/* A request as a packet, as far as the steps look at one. What asks without taking asks for one unit. */
static __always_inline struct lg_visit *lg_check_visit(__u32 i, const struct lg_charge *charge)
{
	struct lg_check *check = bpf_map_lookup_elem(&checks, &i);
	const struct lg_control *ctl;
	struct lg_visit *visit;
	__u32 zero = 0;

	_Static_assert(sizeof(*visit) <= sizeof(check->room), "LG_CHECK_ROOM_WORDS are too few");
	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!check || !ctl)
		return NULL;
	visit = (struct lg_visit *)check->room;
	__builtin_memset(visit, 0, sizeof(*visit));
	visit->key = charge->key;
	__builtin_memcpy(&visit->pkt.source, charge->source, sizeof(charge->source));
	visit->pkt.source_is4 = lg_addr_is4(&visit->pkt.source);
	visit->pkt.destination = visit->pkt.source;
	visit->pkt.destination_is4 = visit->pkt.source_is4;
	visit->pkt.packets = charge->units ? charge->units : 1;
	visit->pkt.bytes = visit->pkt.packets;
	visit->is_reachable = ctl->reachable;
	visit->hook = LG_HOOK_XDP;
	visit->clock_ns[0] = check->now_ns;
	visit->clock_ns[1] = check->now_ns;
	return visit;
}

/* ---- what buckets say ---- */

static __always_inline void lg_check_tell_window(struct lg_charge *charge, const struct lg_bucket *bucket, const struct lg_rule *rule,
						 __u64 now_ns)
{
	struct lg_window_view view = lg_window_look(bucket, &rule->window, now_ns);

	charge->kind = LG_CHARGE_WINDOW;
	charge->state[0] = view.now_tok;
	charge->state[1] = view.before_tok;
	charge->state[2] = view.into_ns;
}

static __always_inline void lg_check_tell_block(struct lg_charge *charge, const struct lg_bucket *bucket, const struct lg_rule *rule,
						__u64 now_ns)
{
	__s64 lease_ns = lg_read(bucket->expires_ns) - now_ns, share_ns = lease_ns + rule->share_delay_ns;
	__u64 empty_vt, v;

	charge->kind = LG_CHARGE_BLOCK;
	charge->state[0] = lg_block_left(bucket);
	charge->state[1] = lease_ns > 0 ? lease_ns : 0;
	charge->state[2] = ~0ull;
	if (lease_ns > 0 || share_ns > 0 || rule->fallback != LG_FALLBACK_SHARE)
		return;
	v = lg_rate_now(&rule->share, now_ns);
	empty_vt = lg_rate_now(&rule->share, now_ns + share_ns) + rule->share.burst_vt;
	charge->state[2] = lg_max_vt(lg_max_vt(lg_read(bucket->share_full_at_vt), empty_vt), v) - v;
}

/* The same of a log: how many tokens count, by halving, as the older ones come first. */
__noinline int lg_check_tell_log(__u32 i, __u32 k, __u64 now_ns)
{
	struct lg_charge *charge = lg_check_charge(i, k);
	const struct lg_rule *rule;
	__u32 step, n = 0, units;
	struct lg_log *log;
	struct lg_key key;
	__u64 head, at;

	rule = charge ? lg_check_rule(charge) : NULL;
	if (!charge || !rule)
		return 0;
	key = charge->key;
	log = bpf_map_lookup_elem(&logs, &key);
	if (!log)
		return 0;
	head = lg_read(log->head);
	for (step = LG_LOG_SLOTS / 2; step; step /= 2) {
		if (n + step <= rule->rate_tok && !lg_log_is_old(lg_read(*lg_log_slot(log, head - n - step)), now_ns, rule->window.length_ns))
			n += step;
		n = lg_forget(n); /* whichever it was: else each way would be walked to its end */
	}
	charge->kind = LG_CHARGE_LOG;
	charge->state[0] = n;
	at = n ? (lg_read(*lg_log_slot(log, head - n)) & ~LG_LOG_COST_MASK) + rule->window.length_ns : now_ns;
	charge->state[1] = (__s64)(at - now_ns) > 0 ? at - now_ns : 0;
	units = (charge->units ? charge->units : 1) * rule->cost;
	at = lg_read(*lg_log_slot(log, head + units - 1 - rule->rate_tok)) & ~LG_LOG_COST_MASK;
	at = at ? at + rule->window.length_ns : now_ns;
	charge->state[2] = (__s64)(at - now_ns) > 0 ? at - now_ns : 0;
	return 1;
}

/* What is left of the bucket that answered. */
__noinline int lg_check_tell(__u32 i, __u32 k, const struct lg_bucket *bucket, __u64 now_ns)
{
	struct lg_charge *charge = lg_check_charge(i, k);
	const struct lg_rule *rule;
	__u64 v;

	rule = charge ? lg_check_rule(charge) : NULL;
	if (!charge || !rule || !bucket)
		return 0;
	if (rule->algorithm == LG_RULE_SLIDING_LOG)
		return lg_check_tell_log(i, k, now_ns);
	if (rule->flags & LG_RULE_GLOBAL) {
		lg_check_tell_block(charge, bucket, rule, now_ns);
	} else if (rule->algorithm) {
		lg_check_tell_window(charge, bucket, rule, now_ns);
	} else {
		v = lg_rate_now(&rule->rate, now_ns);
		charge->kind = LG_CHARGE_RATE;
		charge->state[0] = lg_max_vt(lg_read(bucket->full_at_vt), v) - v;
	}
	return 1;
}

/* The same of a key in lines. A refusal is counted on that occasion. */
__noinline int lg_check_tell_line(struct lg_visit *visit, const struct lg_rule *rule, __u64 *ret_owed_vt, __u32 is_denied)
{
	const struct lg_control *ctl;
	struct lg_line_spot spot;
	struct lg_line_key *note;
	struct lg_line *line;
	__u32 zero = 0, s;
	__u64 word;

	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!visit || !rule || !ctl || !ret_owed_vt)
		return 0;
	*ret_owed_vt = 0;
	spot = lg_line_spot(&visit->key, rule, ctl);
	line = bpf_map_lookup_elem(&lines, &spot.index);
	s = line ? lg_line_find(line, spot.tag, &word) : LG_LINE_SLOTS;
	if (s >= LG_LINE_SLOTS)
		return 0;
	*ret_owed_vt = lg_line_debt(word, lg_rate_now(&rule->rate, lg_visit_now(visit, rule)), rule->live_vt);
	if (!is_denied)
		return 0;
	s += spot.index * LG_LINE_SLOTS;
	note = bpf_map_lookup_elem(&line_keys, &s);
	if (note)
		__sync_fetch_and_add(&note->denied_tok, lg_cost(rule, &visit->pkt));
	return 0;
}

__noinline int lg_check_tell_ban(__u32 i, __u32 k)
{
	struct lg_charge *charge = lg_check_charge(i, k);
	struct lg_ban *ban;
	struct lg_key key;
	__s64 left_ns;

	if (!charge)
		return 0;
	key = charge->key;
	ban = bpf_map_lookup_elem(&bans, &key);
	left_ns = ban ? lg_read(ban->until_ns) - lg_clock(false) : 0;
	charge->kind = LG_CHARGE_BAN;
	charge->state[0] = left_ns > 0 ? left_ns : 0;
	return 0;
}

/* ---- one step of one charge ---- */

/* The bucket of the key at hand: found, made if it may be, or NULL. */
static __always_inline struct lg_bucket *lg_check_bucket(struct lg_visit *visit, bool may_make)
{
	struct lg_key key = visit->key;
	struct lg_bucket *bucket = lg_bucket_of(&key);

	if (bucket || !may_make)
		return bucket;
	return lg_newcomer(visit) ? lg_bucket_of(&key) : NULL;
}

/* What a key that nobody asked for yet would be answered. */
static __always_inline int lg_check_blank(const struct lg_visit *visit, const struct lg_rule *rule)
{
	if (!(rule->flags & LG_RULE_GLOBAL) || lg_cost(rule, &visit->pkt) <= rule->cold_start_tok)
		return LG_PASS_ADMITTED;
	return visit->is_reachable ? LG_DROP_LEASE_PENDING : LG_DROP_UNREACHABLE;
}

static __always_inline int lg_check_step_bucket(__u32 i, __u32 k, struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule,
						enum lg_step step, bool is_peek)
{
	struct lg_bucket *bucket = lg_check_bucket(visit, !is_peek);
	enum lg_reason reason;
	int r;

	if (!bucket && is_peek)
		return lg_check_blank(visit, rule);
	if (rule->algorithm == LG_RULE_SLIDING_LOG)
		r = lg_log_step(visit, match, rule, bucket, step);
	else
		r = lg_step(visit, match, rule, bucket, step);
	if (bucket)
		lg_check_tell(i, k, bucket, visit->clock_ns[0]);
	if (is_peek)
		return lg_step_reason(r);
	if (lg_step_event(r))
		lg_announce(visit, rule, bucket, lg_step_event(r));
	if (!(r & LG_STEP_DENIED))
		return lg_step_reason(r);
	if (!bucket)
		bucket = lg_crowded(visit, rule, &reason);
	if (bucket)
		__sync_fetch_and_add(&bucket->denied_tok, lg_cost(rule, &visit->pkt));
	if (rule->special)
		lg_strike(visit, rule, lg_step_reason(r));
	return lg_step_reason(r);
}

/* As lg_line_match_step(). */
static __always_inline int lg_check_step_line(__u32 i, __u32 k, struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule,
					      enum lg_step step, bool is_peek)
{
	struct lg_charge *charge;
	int r = LG_LINE_FULL;
	__u64 owed_vt = 0;
	bool is_denied;

	if (step != LG_STEP_UNDO || match->generation == LG_GENERATION_LINE)
		r = lg_line_step(visit, rule, step, 0);
	if (r == LG_LINE_FULL)
		return lg_check_step_bucket(i, k, visit, match, rule, step, is_peek);
	if (r > 0 && r & LG_STEP_NOTE) {
		if (!is_peek)
			lg_line_note(visit, rule, 0);
		r &= ~LG_STEP_NOTE;
	}
	match->generation = LG_GENERATION_LINE;
	match->reason = r;
	is_denied = (r == LG_DROP_LIMIT || r == LG_DROP_CONTENDED) && !is_peek;
	lg_check_tell_line(visit, rule, &owed_vt, is_denied);
	charge = lg_check_charge(i, k);
	if (charge) {
		charge->kind = LG_CHARGE_RATE;
		charge->state[0] = owed_vt;
	}
	if (is_denied && rule->special)
		lg_strike(visit, rule, r);
	return r;
}

/* Counts what a rule made of a request: as one packet, of as many bytes as units. */
static __always_inline void lg_check_count(__u32 rule_id, enum lg_reason reason, __u32 units)
{
	struct lg_rule_counts *counts = bpf_map_lookup_elem(&rule_counts, &rule_id);
	struct lg_count *count;

	if (!counts)
		return;
	count = &counts->by_reason[reason & (LG_REASON_SLOTS - 1)];
	__sync_fetch_and_add(&count->packets, 1);
	__sync_fetch_and_add(&count->bytes, units);
}

/* What a rule makes of its bucket's answer. */
static __always_inline enum lg_reason lg_check_meant(const struct lg_rule *rule, enum lg_reason reason)
{
	if (lg_is_pass(reason))
		return reason;
	if (rule->flags & LG_RULE_SHADOW)
		return LG_PASS_SHADOW;
	return rule->action == LG_ACTION_SOFT && reason != LG_DROP_BANNED ? LG_PASS_MARKED : reason;
}

enum {
	LG_CHECK_PEEKS = 1 << 8, /* or-ed with enum lg_step */
	LG_CHECK_QUIET = 1 << 9, /* another rule has refused: what this one says is of no consequence */
};

/**
 * lg_check_step() - one rule's part of a request
 * @how: enum lg_step and the bits above
 *
 * A refusal is counted here, as lg_conclude() does for packets.
 *
 * Return: what the rule makes of it, enum lg_reason; the charge has the rest.
 */
__noinline int lg_check_step(__u32 i, __u32 k, __u32 how)
{
	bool is_peek = how & (LG_CHECK_PEEKS | LG_CHECK_QUIET);
	__u32 step = how & 0xff, meant;
	struct lg_match match = {};
	const struct lg_rule *rule;
	struct lg_charge *charge;
	struct lg_visit *visit;
	int reason;

	charge = lg_check_charge(i, k);
	rule = charge ? lg_check_rule(charge) : NULL;
	visit = charge ? lg_check_visit(i, charge) : NULL;
	if (!charge || !rule || !visit)
		return LG_PASS_NO_RULE;
	if (how & LG_CHECK_QUIET && rule->flags & LG_RULE_EVALUATE_ALL)
		is_peek = how & LG_CHECK_PEEKS;
	match.generation = charge->generation;
	match.reason = charge->reason;
	if (step != LG_STEP_UNDO && rule->special && lg_is_barred(visit, rule)) {
		reason = LG_DROP_BANNED;
		lg_check_tell_ban(i, k);
	} else if (lg_cost(rule, &visit->pkt) > rule->cold_burst_tok) {
		reason = rule->cold_burst_tok ? LG_DROP_COST : LG_DROP_LIMIT;
	} else if (rule->table == LG_TABLE_LINES) {
		reason = lg_check_step_line(i, k, visit, &match, rule, step, is_peek);
	} else {
		reason = lg_check_step_bucket(i, k, visit, &match, rule, step, is_peek);
	}
	charge = lg_check_charge(i, k);
	if (!charge || step == LG_STEP_UNDO)
		return LG_PASS_NO_RULE;
	meant = lg_check_meant(rule, reason);
	charge->generation = match.generation;
	charge->reason = reason;
	charge->meant = meant;
	if (!is_peek && !lg_is_pass(reason))
		lg_check_count(rule->rule_id, meant, charge->units);
	return meant;
}

/* ---- giving back ---- */

/* A position moves back, but not before now: there a bucket is full. */
static __always_inline bool lg_check_back_vt(__u64 *full_at_vt, const struct lg_rate *rate, __u64 now_ns, __u64 tok)
{
	__u64 v = lg_rate_now(rate, now_ns), seen, owed_vt, back_vt;
	int t;

	if (!lg_rate_fits(rate, tok))
		return false;
	for (t = 0; t < LG_CHECK_UNDO_TRIES; t++) {
		seen = lg_read(*full_at_vt);
		owed_vt = lg_max_vt(seen, v) - v;
		back_vt = tok * rate->unit_per_tok;
		if (back_vt > owed_vt)
			back_vt = owed_vt;
		if (!back_vt || __sync_val_compare_and_swap(full_at_vt, seen, seen - back_vt) == seen)
			return true;
	}
	return false;
}

/*
 * Tokens that a lease lent become spendable again, as long as its books are not closed and no more of them than traffic has taken. What was
 * reported as spent stays booked there: what is spent in place of it is not booked again, and what comes back to the lessor is less.
 */
static __always_inline bool lg_check_back_block(struct lg_bucket *bucket, __u64 tok, __u8 generation)
{
	__u64 spent_tok, taken_tok;
	int t;

	for (t = 0; t < LG_CHECK_UNDO_TRIES; t++) {
		spent_tok = lg_read(bucket->spent_tok);
		taken_tok = spent_tok - bucket->base_tok - (bucket->returned_tok - bucket->base_returned_tok);
		if ((__u8)lg_read(bucket->lease_generation) != generation || (__s64)taken_tok < (__s64)tok)
			return false;
		if (__sync_val_compare_and_swap(&bucket->spent_tok, spent_tok, spent_tok - tok) == spent_tok)
			return true;
	}
	return false;
}

static __always_inline bool lg_check_back_bucket(struct lg_bucket *bucket, const struct lg_rule *rule, const struct lg_charge *charge,
						 __u64 now_ns, __u64 tok)
{
	bool is_back;

	if (rule->flags & LG_RULE_GLOBAL) {
		if (charge->reason == LG_PASS_ADMITTED)
			return lg_check_back_block(bucket, tok, charge->generation);
		return rule->fallback == LG_FALLBACK_SHARE && lg_check_back_vt(&bucket->share_full_at_vt, &rule->share, now_ns, tok);
	}
	if (rule->algorithm == LG_RULE_SLIDING_LOG)
		return false;
	if (rule->algorithm) {
		lg_window_undo(bucket, tok, charge->generation);
		return true;
	}
	is_back = lg_check_back_vt(&bucket->full_at_vt, &rule->rate, now_ns, tok);
	if (is_back)
		__sync_fetch_and_add(&bucket->spent_tok, -tok);
	return is_back;
}

/* Gives back what an earlier request took. */
__noinline int lg_check_refund(__u32 i, __u32 k)
{
	const struct lg_rule *rule;
	struct lg_charge *charge;
	struct lg_bucket *bucket;
	struct lg_visit *visit;
	__u64 owed_vt = 0;

	charge = lg_check_charge(i, k);
	rule = charge ? lg_check_rule(charge) : NULL;
	visit = charge ? lg_check_visit(i, charge) : NULL;
	if (!charge || !rule || !visit || !charge->units)
		return 0;
	if (rule->table == LG_TABLE_LINES) {
		lg_line_step(visit, rule, LG_STEP_UNDO, 0);
		lg_check_tell_line(visit, rule, &owed_vt, 0);
		charge->kind = LG_CHARGE_RATE;
		charge->state[0] = owed_vt;
		charge->done = 1;
		return 0;
	}
	bucket = lg_check_bucket(visit, false);
	if (!bucket)
		return 0;
	charge->done = lg_check_back_bucket(bucket, rule, charge, visit->clock_ns[0], lg_cost(rule, &visit->pkt));
	lg_check_tell(i, k, bucket, visit->clock_ns[0]);
	return 0;
}

/* ---- a request ---- */

/* What a rule took of a request that passes. */
__noinline int lg_check_taken(__u32 i, __u32 k)
{
	struct lg_charge *charge = lg_check_charge(i, k);

	if (charge && lg_is_pass(charge->reason) && charge->meant != LG_PASS_NO_RULE)
		lg_check_count(charge->key.rule_id, charge->meant, charge->units);
	return 0;
}

static __always_inline void lg_check_mark(__u32 i, __u32 k, __u8 done)
{
	struct lg_charge *charge = lg_check_charge(i, k);

	if (charge)
		charge->done = done;
}

static __always_inline bool lg_check_is_ready(__u32 i, __u32 k)
{
	struct lg_charge *charge = lg_check_charge(i, k);

	return charge && !charge->done && charge->units && lg_is_pass(charge->reason) && charge->meant != LG_PASS_NO_RULE &&
	       charge->reason != LG_PASS_TABLE_FULL;
}

static __always_inline bool lg_check_is_done(__u32 i, __u32 k)
{
	struct lg_charge *charge = lg_check_charge(i, k);

	return charge && charge->done;
}

/* Whether test and take may be one: the last charge, when all others have what it takes, and it takes something. */
static __always_inline bool lg_check_is_last(__u32 i, __u32 k, __u32 n)
{
	struct lg_charge *charge = lg_check_charge(i, k);
	const struct lg_rule *rule = charge ? lg_check_rule(charge) : NULL;

	return k + 1 == n && rule && charge->units && (rule->algorithm != LG_RULE_SLIDING_LOG || n == 1);
}

/*
 * Tests a charge, or takes it where test and take may be one. What all charges before it came to, verdict and the place of who decided << 8,
 * becomes that with this one.
 */
__noinline int lg_check_test_one(__u32 i, __u32 k, __u32 n, __u32 is_peek, __u32 so_far)
{
	__u32 verdict = so_far & 0xff, how = LG_STEP_TEST, bits = is_peek ? LG_CHECK_PEEKS : 0, meant, louder;

	if (!lg_is_pass(verdict))
		bits |= LG_CHECK_QUIET;
	else if (!is_peek && lg_check_is_last(i, k, n))
		how = LG_STEP_TAKE;
	meant = lg_check_step(i, k, how | bits) & 0xff;
	if (how == LG_STEP_TAKE && lg_check_is_ready(i, k))
		lg_check_mark(i, k, 1);
	if (!lg_is_pass(verdict) || meant == LG_PASS_NO_RULE)
		return so_far;
	if (!lg_is_pass(meant))
		return meant | k << 8;
	louder = lg_louder(verdict, meant);
	return louder != verdict ? louder | k << 8 : so_far;
}

/* All of them. Returns the verdict, and the place of who decided << 8. */
__noinline int lg_check_test(__u32 i, __u32 n, __u32 is_peek)
{
	__u32 so_far = LG_PASS_ADMITTED, k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= n)
			break;
		so_far = lg_check_test_one(i, k, n, is_peek, so_far);
	}
	return so_far;
}

/* Takes a charge that has what it takes and is not taken yet. Returns as lg_check_step(), or LG_PASS_ADMITTED. */
__noinline int lg_check_take_one(__u32 i, __u32 k)
{
	__u32 meant;

	if (!lg_check_is_ready(i, k))
		return LG_PASS_ADMITTED;
	meant = lg_check_step(i, k, LG_STEP_TAKE) & 0xff;
	if (lg_is_pass(meant) && lg_check_is_ready(i, k))
		lg_check_mark(i, k, 1);
	return meant;
}

/* Takes the rest. Returns as lg_check_test(). */
__noinline int lg_check_take(__u32 i, __u32 n, __u32 verdict)
{
	__u32 k, meant;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= n)
			break;
		meant = lg_check_take_one(i, k) & 0xff;
		if (!lg_is_pass(meant))
			return meant | k << 8;
	}
	return verdict;
}

__noinline int lg_check_undo_one(__u32 i, __u32 k)
{
	if (!lg_check_is_done(i, k))
		return 0;
	lg_check_step(i, k, LG_STEP_UNDO);
	lg_check_mark(i, k, 0);
	return 1;
}

__noinline int lg_check_undo(__u32 i, __u32 n)
{
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= n)
			break;
		lg_check_undo_one(i, k);
	}
	return 0;
}

static __always_inline void lg_check_charges(struct lg_check *check, __u32 i, __u32 n)
{
	__u32 is_peek = check->way == LG_CHECK_WAY_PEEK, verdict, k;

	verdict = lg_check_test(i, n, is_peek);
	/* A single charge was taken by its test. */
	if (!is_peek && lg_is_pass(verdict & 0xff) && n > 1)
		verdict = lg_check_take(i, n, verdict);
	check->verdict = verdict;
	check->decider = verdict >> 8;
	if (is_peek)
		return;
	if (!lg_is_pass(verdict & 0xff)) {
		lg_check_undo(i, n);
		return;
	}
	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= n)
			break;
		lg_check_taken(i, k);
	}
}

/* Answers nothing as yet. */
static __always_inline void lg_check_clear(struct lg_check *check, __u32 n)
{
	struct lg_charge *charge;
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= n)
			break;
		charge = &check->charge[k];
		if (check->way != LG_CHECK_WAY_REFUND) {
			charge->generation = 0;
			charge->reason = LG_PASS_NO_RULE;
		}
		charge->meant = LG_PASS_NO_RULE;
		charge->kind = LG_CHARGE_NONE;
		charge->done = 0;
	}
}

__noinline int lg_check_one(__u32 i, __u64 now_ns)
{
	struct lg_check *check = bpf_map_lookup_elem(&checks, &i);
	__u32 n, k;

	if (!check)
		return 0;
	n = check->n;
	lg_check_clear(check, n);
	check->now_ns = now_ns;
	check->verdict = LG_PASS_ADMITTED;
	check->decider = 0;
	if (check->way == LG_CHECK_WAY_REFUND) {
		for (k = 0; k < LG_MATCHES_MAX; k++) {
			if (k >= n)
				break;
			lg_check_refund(i, k);
		}
	} else if (lg_is_bypassed()) {
		check->verdict = LG_PASS_BYPASS;
	} else {
		lg_check_charges(check, i, n);
	}
	return 1;
}

/*
 * The result of a call is args->done; what became of each request stands in it. All of them are of one time: a clock that is late by the others
 * mints nothing.
 */
static __always_inline int lg_checks_run(struct lg_check_args *args)
{
	__u32 first = args->first, n = args->n, i;
	__u64 now_ns = lg_clock(false);

	args->done = 0;
	if (!n || n > LG_CHECKS_MAX || first > (LG_CHECK_USERS - 1) * LG_CHECKS_MAX)
		return -EINVAL;
	for (i = 0; i < LG_CHECKS_MAX; i++) {
		if (i >= n)
			break;
		lg_check_one(first + i, now_ns);
	}
	args->done = n;
	return 0;
}
