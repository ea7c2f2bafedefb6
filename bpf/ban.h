/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Refusals counted towards a ban. Pure: time, word and terms are arguments.
 *
 * Each refusal writes one word that all keys of a hash share, so that memory is bounded and there is nothing to sweep. A key that
 * finds another's word counts it down and has it when nothing is left; so whoever is refused more often than all others of his word
 * together is counted up to his ban, whatever else there is, and keys that were refused a few times are no shelter.
 *
 * A word is believed to be as old as its start says, modulo 78 hours: a key that is refused once in that very millisecond of a later
 * round goes on from what it left. Two keys of one word with the same tag, one pair in 2^33, are counted as one.
 */
#pragma once

#include "lines.h"

#define LG_STRIKE_COUNT ((1ull << LG_STRIKE_COUNT_BITS) - 1)
#define LG_STRIKE_START ((1ull << LG_STRIKE_START_BITS) - 1)
#define LG_STRIKE_TAG_SHIFT (LG_STRIKE_COUNT_BITS + LG_STRIKE_START_BITS)
#define LG_STRIKE_LAG 1024 /* units that a clock may be behind the one that wrote the start: such a start is now */

enum lg_strike_outcome {
	LG_STRIKE_COUNTED,
	LG_STRIKE_OUT,   /* it was the last that is forgiven: the key is to be banned, and its word is free */
	LG_STRIKE_OTHER, /* the word is another key's */
};

/* Where a key's refusals are counted. */
struct lg_strike_spot {
	__u64 tag; /* in its place in a word, never 0 */
	__u32 index;
};

static __always_inline struct lg_strike_spot lg_strike_spot(const struct lg_key *key, const struct lg_control *ctl)
{
	__u64 h = lg_mix(lg_line_hash(key, ctl) ^ ((__u64)key->rule_id << 32 | key->form));
	__u64 tag = h >> LG_STRIKE_TAG_SHIFT;

	return (struct lg_strike_spot){
		.tag = (tag ? tag : 1) << LG_STRIKE_TAG_SHIFT,
		.index = h & (LG_STRIKE_SLOTS - 1),
	};
}

/**
 * lg_strike_next() - one more refusal
 * @word:     what stands there
 * @ret_next: what is to stand there
 *
 * Return: enum lg_strike_outcome.
 */
static __always_inline int lg_strike_next(__u64 word, __u64 tag, __u64 now_ns, const struct lg_ban_terms *terms, __u64 *ret_next)
{
	__u64 now = now_ns / LG_STRIKE_UNIT_NS & LG_STRIKE_START, within = (terms->within_ns + LG_STRIKE_UNIT_NS - 1) / LG_STRIKE_UNIT_NS;
	__u64 age = (now - (word >> LG_STRIKE_COUNT_BITS)) & LG_STRIKE_START, count = word & LG_STRIKE_COUNT;

	if (age > LG_STRIKE_START - LG_STRIKE_LAG)
		age = 0;
	if (age >= within)
		count = 0;
	if (count && word >> LG_STRIKE_TAG_SHIFT != tag >> LG_STRIKE_TAG_SHIFT) {
		*ret_next = count > 1 ? word - 1 : 0;
		return LG_STRIKE_OTHER;
	}
	if (count + 1 >= terms->after) {
		*ret_next = 0;
		return LG_STRIKE_OUT;
	}
	*ret_next = count ? word + 1 : tag | now << LG_STRIKE_COUNT_BITS | 1;
	return LG_STRIKE_COUNTED;
}

/**
 * lg_ban_length_ns() - how long the next ban is
 * @ret_times: bans in a row with this one; in: those before it
 * @until_ns:  when the last of them ended
 */
static __always_inline __u64 lg_ban_length_ns(const struct lg_ban_terms *terms, __u64 until_ns, __u64 now_ns, __u32 *times)
{
	__u64 length_ns = terms->for_ns;
	__u32 i;

	if (!terms->max_ns || now_ns - until_ns >= terms->max_ns)
		*times = 0;
	for (i = 0; i < 32; i++) {
		if (i >= *times || length_ns >= terms->max_ns)
			break;
		length_ns *= 2;
	}
	if (*times && length_ns > terms->max_ns)
		length_ns = terms->max_ns;
	if (*times < ~0u)
		++*times;
	return length_ns;
}
