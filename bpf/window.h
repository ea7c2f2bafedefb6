/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Fixed and sliding windows of one host. Pure, like bucket.h.
 *
 * A bucket keeps two counts, of the windows with even and with odd index, each in one word together with that index. A packet
 * changes the word of its own window alone, by compare-and-swap from a value that was tested, so a window never counts more than
 * its limit, whoever races. A word whose index is not the one looked for counts nothing, so no sweep is needed.
 *
 * A `now` can be older than what another CPU has counted at already, where a CPU was held up in between. It then counts at the
 * beginning of that newer window: time does not move back, so no newer count is ever overwritten by an older window's.
 *
 * The sliding window weighs the count of the window before by the part of it that still lies within the trailing window, as if it
 * had been spread evenly. Weighing divides by the length; both sides are multiplied by it instead, so nothing is rounded.
 */
#pragma once

#include "bucket.h"

#define LG_WINDOW_INDEX_MASK ((1u << LG_WINDOW_INDEX_BITS) - 1)
#define LG_WINDOW_COUNT_MAX ((1ull << (64 - LG_WINDOW_INDEX_BITS)) - 1)
#define LG_WINDOW_STALE_SHIFT (LG_WINDOW_INDEX_BITS - 2) /* a quarter of the indexes: newer and older are told apart by far */
#define LG_WINDOW_UNDO_TRIES 16

/* What a bucket's words mean at a certain time. */
struct lg_window_view {
	__u32 index;	  /* of the window at hand, low bits */
	__u64 into_ns;	  /* since it began */
	__u64 word;	  /* its word, as found */
	__u64 now_tok;	  /* counted in it */
	__u64 before_tok; /* and in the one before */
};

/* How much newer a word's window is than index; 0 or less: it is not, or counts nothing. */
static __always_inline __s32 lg_window_ahead(__u64 word, __u32 index)
{
	__s32 ahead = (__s32)(((__u32)word - index) << (32 - LG_WINDOW_INDEX_BITS)) >> (32 - LG_WINDOW_INDEX_BITS);

	return word >> LG_WINDOW_INDEX_BITS ? ahead : 0;
}

static __always_inline __u64 lg_window_count(__u64 word, __u32 index)
{
	return ((__u32)word & LG_WINDOW_INDEX_MASK) == index ? word >> LG_WINDOW_INDEX_BITS : 0;
}

/* Whether the bucket was unused for so long that indexes may have come round. */
static __always_inline _Bool lg_window_is_stale(const struct lg_bucket *bucket, __u64 length_ns, __u64 now_ns)
{
	__u64 stale_ns = length_ns < 1ull << (62 - LG_WINDOW_STALE_SHIFT) ? length_ns << LG_WINDOW_STALE_SHIFT : 1ull << 62;

	return (__s64)(now_ns - lg_read(bucket->seen_ns)) >= (__s64)stale_ns;
}

/*
 * Clears words that nobody can read any more, and only then notes the bucket as used: whoever finds it in use reads words that mean
 * something. While it is noted as unused nobody counts, so a word that is swapped from what was found holds no count of today.
 */
static __always_inline void lg_window_refresh(struct lg_bucket *bucket, const struct lg_window *window, __u64 now_ns)
{
	__u64 even = lg_read(bucket->window[0]), odd = lg_read(bucket->window[1]);

	if (!lg_window_is_stale(bucket, window->length_ns, now_ns))
		return;
	__sync_val_compare_and_swap(&bucket->window[0], even, 0);
	__sync_val_compare_and_swap(&bucket->window[1], odd, 0);
	lg_write(bucket->seen_ns, now_ns);
}

static __always_inline struct lg_window_view lg_window_look(const struct lg_bucket *bucket, const struct lg_window *window, __u64 now_ns)
{
	__u64 elapsed_ns = (__s64)(now_ns - window->anchor_ns) > 0 ? now_ns - window->anchor_ns : 0;
	__u64 number = elapsed_ns / window->length_ns, even = lg_read(bucket->window[0]), odd = lg_read(bucket->window[1]);
	__u32 index = (__u32)(window->index0 + number) & LG_WINDOW_INDEX_MASK;
	__s32 ahead = lg_window_ahead(even, index), ahead_odd = lg_window_ahead(odd, index);
	struct lg_window_view view = { .into_ns = elapsed_ns - number * window->length_ns };

	ahead = ahead_odd > ahead ? ahead_odd : ahead;
	if (ahead > 0) {
		index = (index + (__u32)ahead) & LG_WINDOW_INDEX_MASK;
		view.into_ns = 0;
	}
	view.index = index;
	view.word = index & 1 ? odd : even;
	view.now_tok = lg_window_count(view.word, index);
	view.before_tok = lg_window_count(index & 1 ? even : odd, (index - 1) & LG_WINDOW_INDEX_MASK);
	return view;
}

/* Whether tok more fit: before x (length - into) / length + now + tok <= limit, both sides times length. */
static __always_inline _Bool lg_window_has(const struct lg_rule *rule, const struct lg_window_view *view, __u64 tok)
{
	__u64 length_ns = rule->window.length_ns, before, before_high, room, room_high;

	if (view->now_tok + tok > rule->rate_tok)
		return 0;
	if (rule->algorithm == LG_RULE_FIXED_WINDOW)
		return 1;
	before = lg_mul_shift(view->before_tok, length_ns - view->into_ns, 0, &before_high);
	room = lg_mul_shift(rule->rate_tok - view->now_tok - tok, length_ns, 0, &room_high);
	return before_high < room_high || (before_high == room_high && before <= room);
}

/* A superframe beyond the limit passes where nothing at all was counted. */
static __always_inline _Bool lg_window_admits(const struct lg_rule *rule, const struct lg_window_view *view, const struct lg_ask *ask)
{
	if (!ask->may_owe)
		return lg_window_has(rule, view, ask->cost_tok);
	return !view->now_tok && (rule->algorithm == LG_RULE_FIXED_WINDOW || !view->before_tok);
}

/**
 * lg_window_take() - take what a packet asks of a rule with windows from its bucket, or only see whether it is there
 * @take:      0 tests only and changes no count
 * @ret_index: low byte of the index of the window that was taken from, for lg_window_undo()
 *
 * Return: LG_PASS_ADMITTED, LG_DROP_LIMIT or LG_DROP_CONTENDED.
 */
static __always_inline enum lg_reason lg_window_take(struct lg_bucket *bucket, const struct lg_rule *rule, const struct lg_ask *ask,
						     _Bool take, __u8 *ret_index)
{
	struct lg_window_view view;
	__u64 *word;
	int i;

	lg_window_refresh(bucket, &rule->window, ask->now_ns);
	for (i = 0; i < LG_TAKE_TRIES; i++) {
		view = lg_window_look(bucket, &rule->window, ask->now_ns);
		if (!lg_window_admits(rule, &view, ask))
			return LG_DROP_LIMIT;
		if (!take)
			return LG_PASS_ADMITTED;
		word = view.index & 1 ? &bucket->window[1] : &bucket->window[0];
		if (__sync_val_compare_and_swap(word, view.word,
						(view.now_tok + ask->cost_tok) << LG_WINDOW_INDEX_BITS | view.index) == view.word) {
			__sync_fetch_and_add(&bucket->spent_tok, ask->cost_tok);
			*ret_index = view.index;
			return LG_PASS_ADMITTED;
		}
	}
	return LG_DROP_CONTENDED;
}

/* Gives back what the same packet took, as long as its window's count is there. */
static __always_inline void lg_window_undo(struct lg_bucket *bucket, __u64 cost_tok, __u8 index)
{
	__u64 *word = index & 1 ? &bucket->window[1] : &bucket->window[0], seen;
	int i;

	for (i = 0; i < LG_WINDOW_UNDO_TRIES; i++) {
		seen = lg_read(*word);
		if ((__u8)seen != index || seen >> LG_WINDOW_INDEX_BITS < cost_tok)
			return;
		if (__sync_val_compare_and_swap(word, seen, seen - (cost_tok << LG_WINDOW_INDEX_BITS)) == seen) {
			__sync_fetch_and_add(&bucket->spent_tok, -cost_tok);
			return;
		}
	}
}

/**
 * lg_window_retire() - make a bucket that counts nothing any more refuse whatever comes, so that it can be deleted
 *
 * A packet that has found the bucket already would else be counted in something that is gone. Both words get a full window far
 * ahead, by compare-and-swap from what was found to count nothing.
 *
 * Return: 1, or 0 if something is counted, then or meanwhile.
 */
static __always_inline _Bool lg_window_retire(struct lg_bucket *bucket, const struct lg_rule *rule, __u64 now_ns)
{
	__u64 even, odd, full = LG_WINDOW_COUNT_MAX << LG_WINDOW_INDEX_BITS, last;
	struct lg_window_view view;
	__u32 far;

	lg_window_refresh(bucket, &rule->window, now_ns);
	even = lg_read(bucket->window[0]);
	odd = lg_read(bucket->window[1]);
	view = lg_window_look(bucket, &rule->window, now_ns);
	if (view.now_tok || (view.before_tok && rule->algorithm == LG_RULE_SLIDING_WINDOW))
		return 0;
	lg_write(bucket->seen_ns, now_ns); /* in use, so that these words are not taken for stale ones */
	far = (view.index & ~1u) + (1u << LG_WINDOW_STALE_SHIFT);
	last = full | ((far + 1) & LG_WINDOW_INDEX_MASK);
	if (__sync_val_compare_and_swap(&bucket->window[1], odd, last) != odd)
		return 0;
	if (__sync_val_compare_and_swap(&bucket->window[0], even, full | (far & LG_WINDOW_INDEX_MASK)) == even)
		return 1;
	__sync_val_compare_and_swap(&bucket->window[1], last, odd);
	return 0;
}
