/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Sliding logs: exact, at a word of memory for each token. Pure, like bucket.h; struct lg_log says how a log is laid out.
 *
 * Why it is exact: number h is admitted only when number h - limit was a window ago, and slot h is claimed by compare-and-swap from
 * the value that was found old enough. Values of slots only grow. So of the numbers h, h + limit, h + 2 limit, ... each is a window
 * after the one before, and as there are `limit` such chains, no trailing window holds more than `limit` numbers. The head is no
 * part of this: one that lags makes a CPU find a slot claimed already, and one that is ahead only forgoes a token.
 */
#pragma once

#include "bucket.h"

#define LG_LOG_TRIES 8		   /* each means that another CPU got through, or was helped on */
#define LG_LOG_CLOSED (1ull << 63) /* of the head */
#define LG_LOG_COST_MASK (LG_LOG_COST_MAX - 1ull)
#define LG_LOG_REST_NS 1000000000ull /* a log closes this long after its last window: neighbours in it may be out of order */

/* The two with loops: checked by the verifier once, not once for each try. */
#ifdef __bpf__
#define LG_LOG_LOOP __noinline
#else
#define LG_LOG_LOOP static inline
#endif

static __always_inline __u64 *lg_log_slot(struct lg_log *log, __u64 number)
{
	return &log->time_ns[number & (LG_LOG_SLOTS - 1)];
}

/* Whether what a slot holds is a window ago, or nothing. */
static __always_inline _Bool lg_log_is_old(__u64 slot, __u64 now_ns, __u64 length_ns)
{
	__u64 time_ns = slot & ~LG_LOG_COST_MASK;

	return !time_ns || (__s64)(now_ns - time_ns) >= (__s64)length_ns;
}

/* Whether the next numbers, cost_tok of them, may be admitted, as far as those a limit before them tell. */
LG_LOG_LOOP int lg_log_has(struct lg_log *log, __u64 head, const struct lg_rule *rule, __u64 now_ns, __u64 cost_tok)
{
	__u64 i;

	if (!log || !rule)
		return 0;
	for (i = 0; i < LG_LOG_COST_MAX; i++) {
		if (i >= cost_tok)
			break;
		if (!lg_log_is_old(lg_read(*lg_log_slot(log, head + i - rule->rate_tok)), now_ns, rule->window.length_ns))
			return 0;
	}
	return 1;
}

/* Finishes what a claim on slot `head` began. Whoever meets it does so; what others have done already is left as it is. */
LG_LOG_LOOP int lg_log_finish(struct lg_log *log, __u64 head, __u64 claim)
{
	__u64 n = claim & LG_LOG_COST_MASK, time_ns = claim & ~LG_LOG_COST_MASK, *slot, seen, i;

	if (!log)
		return 0;
	for (i = 1; i < LG_LOG_COST_MAX; i++) {
		if (i > n)
			break;
		slot = lg_log_slot(log, head + i);
		seen = lg_read(*slot);
		if ((__s64)(time_ns - (seen & ~LG_LOG_COST_MASK)) > 0)
			__sync_val_compare_and_swap(slot, seen, time_ns);
	}
	return __sync_val_compare_and_swap(&log->head, head, head + n + 1) == head;
}

/**
 * lg_log_take() - take slots of a log, all that are asked for or none, or only see whether they are there
 * @ask:  the cost is at most LG_LOG_COST_MAX and the limit (lg_rule_refusal())
 * @take: 0 tests only
 *
 * Return: LG_PASS_ADMITTED, LG_DROP_LIMIT or LG_DROP_CONTENDED.
 */
static __always_inline enum lg_reason lg_log_take(struct lg_log *log, const struct lg_rule *rule, const struct lg_ask *ask, _Bool take)
{
	__u64 claim = ((ask->now_ns + LG_LOG_COST_MASK) & ~LG_LOG_COST_MASK) | ((ask->cost_tok - 1) & LG_LOG_COST_MASK);
	__u64 head, seen, *slot;
	int i;

	for (i = 0; i < LG_LOG_TRIES; i++) {
		head = lg_read(log->head);
		if (head & LG_LOG_CLOSED)
			break;
		if (!lg_log_has(log, head, rule, ask->now_ns, ask->cost_tok)) {
			if (lg_read(log->head) == head)
				return LG_DROP_LIMIT;
			continue;
		}
		slot = lg_log_slot(log, head);
		seen = lg_read(*slot);
		if (!lg_log_is_old(seen, ask->now_ns, rule->window.length_ns)) {
			lg_log_finish(log, head, seen);
			continue;
		}
		if (!take)
			return LG_PASS_ADMITTED;
		if (__sync_val_compare_and_swap(slot, seen, claim) != seen)
			continue;
		lg_log_finish(log, head, claim);
		return LG_PASS_ADMITTED;
	}
	return LG_DROP_CONTENDED;
}

/**
 * lg_log_close() - end a log in which nothing counts any more, so that it can be deleted
 *
 * The head is marked first, which stops whoever comes; then the next slot gets a time far ahead, by compare-and-swap from what was
 * found old, which stops whoever had read the head before.
 *
 * Return: 1, or 0 if something counts, then or meanwhile.
 */
static __always_inline _Bool lg_log_close(struct lg_log *log, __u64 now_ns, __u64 length_ns)
{
	__u64 head = lg_read(log->head), far = (now_ns + (1ull << 62)) & ~LG_LOG_COST_MASK, *slot, seen;

	if (head & LG_LOG_CLOSED)
		return 1;
	slot = lg_log_slot(log, head);
	seen = lg_read(*slot);
	if (!lg_log_is_old(lg_read(*lg_log_slot(log, head - 1)), now_ns, length_ns + LG_LOG_REST_NS) ||
	    !lg_log_is_old(seen, now_ns, length_ns))
		return 0;
	if (__sync_val_compare_and_swap(&log->head, head, head | LG_LOG_CLOSED) != head)
		return 0;
	if (__sync_val_compare_and_swap(slot, seen, far) == seen)
		return 1;
	__sync_val_compare_and_swap(&log->head, head | LG_LOG_CLOSED, head);
	return 0;
}
