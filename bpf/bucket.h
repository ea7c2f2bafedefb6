/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Taking tokens. Pure: time and state are arguments, so tests, fuzzers and replay run the very same code on the host.
 *
 * A rate bucket is one word, the virtual time at which it is full again (struct lg_rate); a block is spent_tok against
 * granted_tok. Both change by compare-and-swap from a value that was tested first: nothing is taken on a refusal, and
 * whoever comes second tests again. After LG_TAKE_TRIES lost races the packet is refused, never let through. A `now`
 * that is older than another CPU's only makes the test stricter, as positions never move back, so shuffled clocks mint
 * nothing. Virtual times wrap at 2^64 and are compared by their signed difference.
 */
#pragma once

#include "frame.h"

#define LG_SEEN_STEP_NS (1ull << 28) /* seen_ns is written at most this often: a store per packet would bounce the line */

#define LG_POISON_VT (1ull << 62) /* a position this far ahead refuses whatever comes */

#define lg_read(x) (*(const volatile __typeof__(x) *)&(x))
#define lg_write(x, v) (*(volatile __typeof__(x) *)&(x) = (v))

/* What a packet asks of one rule. */
struct lg_ask {
	__u64 now_ns;
	__u64 cost_tok;
	__u32 may_owe;      /* the cost is beyond the burst, but a full bucket lets it pass and is charged whole */
	__u32 is_reachable; /* struct lg_control */
};

static __always_inline __u64 lg_max_vt(__u64 a, __u64 b)
{
	return (__s64)(a - b) > 0 ? a : b;
}

/* High and low half of a * b, shifted right by 0 .. 63; the result is cut to 64 bits. clang has no 128-bit product for BPF. */
static __always_inline __u64 lg_mul_shift(__u64 a, __u64 b, __u32 shift, __u64 *ret_high)
{
	__u64 al = (__u32)a, ah = a >> 32, bl = (__u32)b, bh = b >> 32;
	__u64 mid = ah * bl + (al * bl >> 32);
	__u64 mid2 = al * bh + (__u32)mid;
	__u64 high = ah * bh + (mid >> 32) + (mid2 >> 32);
	__u64 low = a * b;

	*ret_high = high;
	/* Two steps, as a shift by 64 is undefined where shift is 0. */
	return low >> shift | high << 1 << (63 - shift);
}

/* Virtual time of a rate at now; a time before the anchor counts as the anchor. */
static __always_inline __u64 lg_rate_now(const struct lg_rate *rate, __u64 now_ns)
{
	__u64 elapsed_ns = (__s64)(now_ns - rate->anchor_ns) > 0 ? now_ns - rate->anchor_ns : 0, high, low;

	if (!rate->shift)
		return rate->v0 + elapsed_ns * rate->mult;
	low = lg_mul_shift(elapsed_ns, rate->mult, rate->shift & 63, &high);
	return rate->v0 + (rate->shift > 63 ? high >> (rate->shift & 63) : low);
}

/**
 * lg_rate_take() - take tokens from a rate bucket, or only see whether they are there
 * @full_at_vt: the bucket
 * @v:          virtual time of ask->now_ns
 * @floor_vt:   no fuller than this, at least @v: an earlier position counts as this one
 * @ask:        the cost fits the rate (lg_rate_fits), as any cost up to its burst does
 * @take:       0 tests only
 *
 * Return: LG_PASS_ADMITTED, LG_DROP_LIMIT or LG_DROP_CONTENDED.
 */
static __always_inline enum lg_reason lg_rate_take(__u64 *full_at_vt, __u64 v, __u64 floor_vt,
						   const struct lg_rate *rate, const struct lg_ask *ask, _Bool take)
{
	__u64 cost_vt = ask->cost_tok * rate->unit_per_tok, seen = lg_read(*full_at_vt), from, was;
	__u64 limit_vt = ask->may_owe ? cost_vt : rate->burst_vt;
	int i;

	for (i = 0; i < LG_TAKE_TRIES; i++) {
		from = lg_max_vt(seen, floor_vt);
		if (from - v + cost_vt > limit_vt)
			return LG_DROP_LIMIT;
		if (!take)
			return LG_PASS_ADMITTED;
		was = __sync_val_compare_and_swap(full_at_vt, seen, from + cost_vt);
		if (was == seen)
			return LG_PASS_ADMITTED;
		seen = was;
	}
	return LG_DROP_CONTENDED;
}

/* Whether cost tokens of a rate fit a word with room to spare: only then lg_rate_take may be asked for them. */
static __always_inline _Bool lg_rate_fits(const struct lg_rate *rate, __u64 cost_tok)
{
	__u64 high, low = lg_mul_shift(cost_tok, rate->unit_per_tok, 0, &high);

	return !high && low < 1ull << 62;
}

/* Tokens of a block that can still be taken, were its lease in force. */
static __always_inline __u64 lg_block_left(const struct lg_bucket *bucket)
{
	__u64 granted_tok = lg_read(bucket->granted_tok), spent_tok = lg_read(bucket->spent_tok);

	return granted_tok > spent_tok ? granted_tok - spent_tok : 0;
}

/* Takes from a block, whatever its lease's end. Returns as lg_rate_take. */
static __always_inline enum lg_reason lg_block_take(struct lg_bucket *bucket, __u64 cost_tok, _Bool take)
{
	__u64 granted_tok = lg_read(bucket->granted_tok), seen = lg_read(bucket->spent_tok), was;
	int i;

	for (i = 0; i < LG_TAKE_TRIES; i++) {
		if (seen > granted_tok || granted_tok - seen < cost_tok)
			return LG_DROP_LIMIT;
		if (!take)
			return LG_PASS_ADMITTED;
		was = __sync_val_compare_and_swap(&bucket->spent_tok, seen, seen + cost_tok);
		if (was == seen)
			return LG_PASS_ADMITTED;
		seen = was;
	}
	return LG_DROP_CONTENDED;
}

/* Whether a block holds what its key started with, and no lease yet. */
static __always_inline _Bool lg_is_cold(const struct lg_bucket *bucket, const struct lg_rule *rule)
{
	return rule->cold_start_tok && !lg_read(bucket->lease_generation);
}

/* Why a global rule refuses: with the upstream in reach more tokens are on their way, or there are none for this host. */
static __always_inline enum lg_reason lg_lease_refusal(const struct lg_ask *ask, _Bool is_valid)
{
	if (!ask->is_reachable)
		return LG_DROP_UNREACHABLE;
	return is_valid ? LG_DROP_LIMIT : LG_DROP_LEASE_PENDING;
}

/*
 * Gives the agent time to answer a key whose lease ended while nobody asked for it. Such a key is in no want of a
 * fallback: the upstream is in reach, it just has not been told. Without this a key that comes back after a pause would
 * find its share full, beside the tokens that the lessor lends to others. So the end moves to half a delay ago: the
 * lease stays ended for every CPU, however late the `now` it holds, and the fallback starts half a delay from now.
 */
static __always_inline void lg_lease_wake(struct lg_bucket *bucket, const struct lg_rule *rule, const struct lg_ask *ask,
					  __u64 expires_ns)
{
	__u64 moved_ns = ask->now_ns - rule->share_delay_ns / 2;

	if (ask->is_reachable && lg_read(bucket->asked_ns) < expires_ns && (__s64)(moved_ns - expires_ns) > 0)
		__sync_val_compare_and_swap(&bucket->expires_ns, expires_ns, moved_ns);
}

/*
 * After the lease's end, from share_delay_ns on: the rule's fallback. Its share starts empty at that time, so whatever
 * was taken before or under an older lease, it mints nothing.
 */
static __always_inline enum lg_reason lg_fallback_take(struct lg_bucket *bucket, const struct lg_rule *rule,
						       const struct lg_ask *ask, __u64 expires_ns, _Bool take)
{
	const struct lg_rate *share = &rule->share;
	__u64 start_ns, empty_vt, v;
	enum lg_reason reason;

	if (rule->fallback != LG_FALLBACK_SHARE && rule->fallback != LG_FALLBACK_OPEN)
		return LG_DROP_LIMIT;
	lg_lease_wake(bucket, rule, ask, expires_ns);
	start_ns = lg_read(bucket->expires_ns) + rule->share_delay_ns;
	if ((__s64)(ask->now_ns - start_ns) < 0)
		return LG_DROP_LIMIT;
	if (rule->fallback == LG_FALLBACK_OPEN)
		return LG_PASS_FALLBACK;
	if (!lg_rate_fits(&rule->share, ask->cost_tok))
		return LG_DROP_LIMIT;
	v = lg_rate_now(&rule->share, ask->now_ns);
	lg_opaque(share); /* else both are worked out at once, which takes more stack than there is */
	empty_vt = lg_rate_now(share, start_ns) + share->burst_vt;
	reason = lg_rate_take(&bucket->share_full_at_vt, v, lg_max_vt(empty_vt, v), &rule->share, ask, take);
	return reason == LG_PASS_ADMITTED ? LG_PASS_FALLBACK : reason;
}

static __always_inline enum lg_reason lg_lease_take(struct lg_bucket *bucket, const struct lg_rule *rule,
						    const struct lg_ask *ask, _Bool take)
{
	__u64 expires_ns = lg_read(bucket->expires_ns);
	_Bool is_valid = (__s64)(ask->now_ns - expires_ns) < 0;
	enum lg_reason reason;

	if (rule->fallback == LG_FALLBACK_CLOSED && !ask->is_reachable)
		return LG_DROP_UNREACHABLE;
	reason = is_valid ? lg_block_take(bucket, ask->cost_tok, take) : lg_fallback_take(bucket, rule, ask, expires_ns, take);
	if (reason != LG_DROP_LIMIT)
		return reason;
	return lg_lease_refusal(ask, is_valid && !lg_is_cold(bucket, rule));
}

/**
 * lg_bucket_take() - take what a packet asks of a rule from its bucket, or only see whether it is there
 * @take: 0 tests only and changes no level
 *
 * Return: LG_PASS_ADMITTED, LG_PASS_FALLBACK, or the reason of the refusal.
 */
static __always_inline enum lg_reason lg_bucket_take(struct lg_bucket *bucket, const struct lg_rule *rule,
						     const struct lg_ask *ask, _Bool take)
{
	enum lg_reason reason;
	__u64 v;

	if (rule->flags & LG_RULE_GLOBAL)
		return lg_lease_take(bucket, rule, ask, take);
	v = lg_rate_now(&rule->rate, ask->now_ns);
	reason = lg_rate_take(&bucket->full_at_vt, v, v, &rule->rate, ask, take);
	if (take && reason == LG_PASS_ADMITTED)
		__sync_fetch_and_add(&bucket->spent_tok, ask->cost_tok);
	return reason;
}

/**
 * lg_bucket_undo() - give back what the same packet took, as another rule refused it after all
 * @took:       what lg_bucket_take returned
 * @generation: low byte of lease_generation at that time
 *
 * No bucket ends above its cap: a rate's position before v counts as v, and a block gets back what came from it. If the
 * agent has closed the books of that generation meanwhile the tokens stay spent, as they were booked.
 */
static __always_inline void lg_bucket_undo(struct lg_bucket *bucket, const struct lg_rule *rule, const struct lg_ask *ask,
					   enum lg_reason took, __u8 generation)
{
	__u64 cost_tok = ask->cost_tok;

	if (!(rule->flags & LG_RULE_GLOBAL)) {
		__sync_fetch_and_add(&bucket->full_at_vt, -(cost_tok * rule->rate.unit_per_tok));
		__sync_fetch_and_add(&bucket->spent_tok, -cost_tok);
	} else if (took == LG_PASS_ADMITTED) {
		if ((__u8)lg_read(bucket->lease_generation) == generation)
			__sync_fetch_and_add(&bucket->spent_tok, -cost_tok);
	} else if (rule->fallback == LG_FALLBACK_SHARE) {
		__sync_fetch_and_add(&bucket->share_full_at_vt, -(cost_tok * rule->share.unit_per_tok));
	}
}

static __always_inline __u16 lg_bucket_kind(const struct lg_rule *rule)
{
	if (rule->connection > LG_CONNECTION_NEW)
		return LG_BUCKET_COUNT;
	switch ((enum lg_rule_algorithm)rule->algorithm) {
	case LG_RULE_FIXED_WINDOW: return LG_BUCKET_FIXED;
	case LG_RULE_SLIDING_WINDOW: return LG_BUCKET_SLIDING;
	case LG_RULE_SLIDING_LOG: return LG_BUCKET_LOG;
	case LG_RULE_TOKEN_BUCKET: break;
	}
	return rule->flags & LG_RULE_GLOBAL ? LG_BUCKET_BLOCK : LG_BUCKET_RATE;
}

/* struct lg_bucket's `numbers`, never 0. */
static __always_inline __u16 lg_rule_numbers(const struct lg_rule *rule)
{
	return (rule->rate_tok * 0xd6e8feb86659fd93ull ^ rule->per_ns) * 0xd6e8feb86659fd93ull >> 48 | 1;
}

/* Tells readers what the rule's numbers are by now. They lie in a line of memory that packets have no other use for. */
static __always_inline void lg_bucket_tell(struct lg_bucket *bucket, const struct lg_rule *rule)
{
	__u16 numbers = lg_rule_numbers(rule);

	if (lg_read(bucket->numbers) == numbers)
		return;
	bucket->rate_tok = rule->rate_tok;
	bucket->per_ns = rule->per_ns;
	lg_write(bucket->numbers, numbers);
}

/*
 * Makes a blank bucket, all zeros, what its first packet should find: a rate's is full, windows count nothing, a block is without a
 * lease and empty as of now, or with what its rule lets a key start with. Several CPUs may meet it blank, so the words that
 * packets change are set by compare-and-swap here too, and the kind last.
 */
static __always_inline void lg_bucket_init(struct lg_bucket *bucket, const struct lg_rule *rule, __u64 now_ns)
{
	if (lg_read(bucket->kind))
		return;
	bucket->rule_id = rule->rule_id;
	if (rule->flags & LG_RULE_GLOBAL) {
		__sync_val_compare_and_swap(&bucket->expires_ns, 0, rule->cold_start_tok ? now_ns + LG_COLD_START_NS : now_ns);
		__sync_val_compare_and_swap(&bucket->granted_tok, 0, rule->cold_start_tok);
	} else if (!rule->algorithm) {
		__sync_val_compare_and_swap(&bucket->full_at_vt, 0, lg_rate_now(&rule->rate, now_ns));
	}
	lg_bucket_tell(bucket, rule);
	bucket->seen_ns = now_ns;
	lg_write(bucket->kind, lg_bucket_kind(rule));
}

/* Notes that the key is in use, and on that occasion what its rule's numbers are by now. */
static __always_inline void lg_bucket_touch(struct lg_bucket *bucket, const struct lg_rule *rule, __u64 now_ns)
{
	if ((__s64)(now_ns - lg_read(bucket->seen_ns)) < (__s64)LG_SEEN_STEP_NS)
		return;
	lg_bucket_tell(bucket, rule);
	lg_write(bucket->seen_ns, now_ns);
}

/**
 * lg_rule_refusal() - whether a cost can pass the rule at all
 * @packets: of the frame; more than one is a superframe, which may owe: bulk TCP would die otherwise. Its debt is at most
 *           one superframe. Blocks never owe, the tokens would be somebody else's, nor do logs, which are exact.
 * @ask:     cost_tok is read, may_owe is set
 *
 * Return: LG_PASS_ADMITTED when the bucket decides.
 */
static __always_inline enum lg_reason lg_rule_refusal(const struct lg_rule *rule, __u32 packets, struct lg_ask *ask)
{
	ask->may_owe = 0;
	if (ask->cost_tok <= rule->cold_burst_tok)
		return LG_PASS_ADMITTED;
	if (!rule->cold_burst_tok)
		return LG_DROP_LIMIT;
	if (packets < 2 || rule->flags & LG_RULE_GLOBAL || rule->algorithm == LG_RULE_SLIDING_LOG ||
	    ask->cost_tok > LG_BURST_MAX_TOK || !lg_rate_fits(&rule->rate, ask->cost_tok))
		return LG_DROP_COST;
	ask->may_owe = 1;
	return LG_PASS_ADMITTED;
}
