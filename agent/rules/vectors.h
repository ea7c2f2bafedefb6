/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What rules match -> struct lg_classifier, by which packets find their rules. Pure.
 */
#pragma once

#include "rules/rule.h"

/**
 * lg_vectors_build() - the classifier of a set
 * @matches:    of its rules, in the order of the set; at most LG_RULES_MAX
 * @interfaces: name of each class, "" where there is none
 * @ret:        megabytes; undefined after a failure
 *
 * Return: 0, -ENOMEM, or -EINVAL with *c: prefixes and ranges cut addresses and numbers into too many pieces.
 */
int lg_vectors_build(const struct lg_match *const *matches, size_t n, const char (*interfaces)[16], struct lg_classifier *ret,
		     struct lg_complaint *c);

static inline void lg_bits_set(struct lg_bits *bits, size_t i)
{
	bits->w[i / 64] |= 1ull << i % 64;
}

static inline bool lg_bits_have(const struct lg_bits *bits, size_t i)
{
	return bits->w[i / 64] >> i % 64 & 1;
}

static inline struct lg_bits lg_bits_both(const struct lg_bits *a, const struct lg_bits *b)
{
	return (struct lg_bits){ { a->w[0] & b->w[0], a->w[1] & b->w[1], a->w[2] & b->w[2], a->w[3] & b->w[3] } };
}

static inline struct lg_bits lg_bits_either(const struct lg_bits *a, const struct lg_bits *b)
{
	return (struct lg_bits){ { a->w[0] | b->w[0], a->w[1] | b->w[1], a->w[2] | b->w[2], a->w[3] | b->w[3] } };
}

static inline unsigned int lg_bits_count(const struct lg_bits *bits)
{
	return (unsigned int)(__builtin_popcountll(bits->w[0]) + __builtin_popcountll(bits->w[1]) + __builtin_popcountll(bits->w[2]) +
			      __builtin_popcountll(bits->w[3]));
}
