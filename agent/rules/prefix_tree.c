// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A tree of tables with compressed paths. Where all prefixes below some point share their next bits, as those of one operator do, a
 * node asks for these at once and goes on behind them; a table is as wide as the number of its prefixes wants and somewhat wider,
 * so that most of its slots hold one prefix at the most. Real sets take one node or two for an address, however long it is.
 *
 * The number of nodes in a way is bounded. A node with two prefixes or more below what they share takes at least one bit of the
 * address, from the seventh on eight, or what is left of the half of the address that it looks at: 6 + 8 + 8 nodes, and one that
 * compares the rest of the upper half. Only the last two nodes, with one prefix each, take none. That is 25.
 */
#include "rules/prefix_tree.h"

#include <errno.h>
#include <string.h>

#define WIDE_LEVEL 6	  /* nodes from here on take at least WIDE_BITS */
#define WIDE_BITS 8
#define ROOT_BITS_MAX 16
#define NODE_BITS_MAX 12
#define HEADER_WORDS (sizeof(struct lg_tree_node) / sizeof(uint32_t))

/* Bits more than log2 of the prefixes in a node, by the space's spread: of the root, and of other nodes. */
static const uint8_t extra_bits[4][2] = { { 0, 0 }, { 1, 1 }, { 3, 1 }, { 5, 2 } };

static uint32_t log2_up(size_t n)
{
	uint32_t bits = 0;

	while (n > 1ull << bits)
		bits++;
	return bits;
}

/* How many of their first bits two addresses share. */
static uint32_t common_bits(uint64_t high_a, uint64_t low_a, uint64_t high_b, uint64_t low_b)
{
	if (high_a != high_b)
		return (uint32_t)__builtin_clzll(high_a ^ high_b);
	return low_a != low_b ? 64 + (uint32_t)__builtin_clzll(low_a ^ low_b) : 128;
}

int lg_tree_prefix_compare(const struct lg_tree_prefix *a, const struct lg_tree_prefix *b)
{
	if (a->high != b->high)
		return a->high < b->high ? -1 : 1;
	if (a->low != b->low)
		return a->low < b->low ? -1 : 1;
	return a->len < b->len ? -1 : a->len > b->len;
}

bool lg_tree_prefix_has(const struct lg_tree_prefix *prefix, uint64_t high, uint64_t low)
{
	return common_bits(prefix->high, prefix->low, high, low) >= prefix->len;
}

/* ---- building ---- */

/* Where a tree is being built: below `len` bits that are known, for the prefixes v[0 .. n), all at least as long. */
struct place {
	const struct lg_tree_prefix *v;
	size_t n;
	uint32_t len;
	uint32_t leaf; /* of addresses here that are in none of them */
	uint32_t level;
};

/* A node: the prefix it asks for and the bits it then takes. */
struct shape {
	uint32_t len;
	uint32_t bits;
	bool is_low;
};

static int place_build(struct lg_tree_space *space, struct place place, uint32_t *ret_entry);

/* Prefixes that are the whole place only say what its leaf is. */
static void place_trim(struct place *place)
{
	while (place->n && place->v->len <= place->len) {
		place->leaf = place->v->leaf;
		place->v++;
		place->n--;
	}
}

static struct shape shape_of(const struct lg_tree_space *space, const struct place *place)
{
	const struct lg_tree_prefix *first = place->v, *last = &place->v[place->n - 1];
	uint32_t len = common_bits(first->high, first->low, last->high, last->low), limit, bits;
	size_t n = place->n;

	len = len < first->len ? len : first->len;
	if (place->len < 64 && len > 64)
		len = 64;
	limit = place->len < 64 ? 64 : 128;
	n -= first->len == len;
	bits = n > 1 ? log2_up(n) + extra_bits[space->spread][place->level > 0] : 0;
	if (n > 1 && place->level >= WIDE_LEVEL && bits < WIDE_BITS)
		bits = WIDE_BITS;
	if (bits > (place->level ? NODE_BITS_MAX : ROOT_BITS_MAX))
		bits = place->level ? NODE_BITS_MAX : ROOT_BITS_MAX;
	return (struct shape){ .len = len, .bits = bits < limit - len ? bits : limit - len, .is_low = place->len >= 64 };
}

static uint64_t half_of(const struct lg_tree_prefix *prefix, const struct shape *shape)
{
	return shape->is_low ? prefix->low : prefix->high;
}

static uint32_t shift_of(const struct shape *shape)
{
	return (shape->is_low ? 128 : 64) - shape->len - shape->bits;
}

/* Which slot of the node a prefix in it is in, or is the first of. */
static uint32_t slot_of(const struct lg_tree_prefix *prefix, const struct shape *shape)
{
	return (uint32_t)(half_of(prefix, shape) >> shift_of(shape) & ((1ull << shape->bits) - 1));
}

static int node_new(struct lg_tree_space *space, const struct shape *shape, const struct place *place, uint32_t *ret_at)
{
	uint32_t words = (uint32_t)(HEADER_WORDS + (1u << shape->bits)), at = space->n;
	uint64_t base = half_of(place->v, shape), rest = (1ull << shift_of(shape) << shape->bits) - 1;
	struct lg_tree_node node = { .shift = (uint8_t)shift_of(shape), .bits = (uint8_t)shape->bits, .is_low = shape->is_low };

	words += words & 1; /* nodes begin at even words, as their first is one of 64 bits */
	if (words > LG_TREE_WORDS - at)
		return -ENOSPC;
	space->n += words;
	/* With all 64 bits taken the shift above has pushed the one out: the base is 0. */
	node.base = base & ~rest;
	node.outside = place->leaf;
	memcpy(&space->words[at], &node, sizeof(node));
	*ret_at = at;
	return 0;
}

/* The leaf of each slot, as far as prefixes tell that are no longer than what the node takes. */
static void slots_fill(uint32_t *slots, const struct shape *shape, const struct place *inside)
{
	for (uint32_t i = 0; i < 1u << shape->bits; i++)
		slots[i] = inside->leaf;
	for (size_t i = 0; i < inside->n; i++) {
		const struct lg_tree_prefix *prefix = &inside->v[i];
		uint32_t first = slot_of(prefix, shape);

		if (prefix->len > shape->len + shape->bits)
			continue;
		for (uint32_t slot = 0; slot < 1u << (shape->len + shape->bits - prefix->len); slot++)
			slots[first + slot] = prefix->leaf;
	}
}

/* Longer prefixes lie in one slot each, and all those of a slot follow each other. */
static int slots_build(struct lg_tree_space *space, uint32_t at, const struct shape *shape, const struct place *inside)
{
	uint32_t len = shape->len + shape->bits, entry;
	size_t first = 0, end;
	int r;

	for (; first < inside->n; first = end) {
		const struct lg_tree_prefix *prefix = &inside->v[first];
		struct place place = { .v = prefix, .len = len, .level = inside->level + 1 };
		uint32_t slot = slot_of(prefix, shape);

		end = first + 1;
		if (prefix->len <= len)
			continue;
		while (end < inside->n && inside->v[end].len > len && slot_of(&inside->v[end], shape) == slot)
			end++;
		place.n = end - first;
		place.leaf = space->words[at + HEADER_WORDS + slot];
		r = place_build(space, place, &entry);
		if (r < 0)
			return r;
		space->words[at + HEADER_WORDS + slot] = entry;
	}
	return 0;
}

static int place_build(struct lg_tree_space *space, struct place place, uint32_t *ret_entry)
{
	struct shape shape;
	struct place inside;
	uint32_t at;
	int r;

	place_trim(&place);
	if (!place.n) {
		*ret_entry = place.leaf;
		return 0;
	}
	shape = shape_of(space, &place);
	r = node_new(space, &shape, &place, &at);
	if (r < 0)
		return r;
	inside = place;
	inside.len = shape.len;
	place_trim(&inside);
	slots_fill(&space->words[at + HEADER_WORDS], &shape, &inside);
	*ret_entry = LG_TREE_NODE | at;
	return slots_build(space, at, &shape, &inside);
}

int lg_prefix_tree_build(struct lg_tree_space *space, const struct lg_tree_prefix *v, size_t n, uint32_t any, uint32_t *ret_root)
{
	return place_build(space, (struct place){ .v = v, .n = n, .leaf = any }, ret_root);
}

/* ---- looking ---- */

uint32_t lg_prefix_tree_find(const uint32_t *words, uint32_t root, uint64_t high, uint64_t low)
{
	struct lg_tree_node node;
	uint32_t entry = root, at;
	uint64_t i;

	while (entry & LG_TREE_NODE) {
		at = entry & (LG_TREE_WORDS - 1);
		memcpy(&node, &words[at], sizeof(node));
		i = ((node.is_low ? low : high) - node.base) >> node.shift;
		entry = i >> node.bits ? node.outside : words[at + HEADER_WORDS + i];
	}
	return entry;
}

struct walk {
	const uint32_t *words;
	int (*fn)(void *arg, uint32_t leaf, uint64_t high, uint64_t low);
	void *arg;
};

/* Below `len` bits that are known, those of high and low. */
static int walk_entry(const struct walk *w, uint32_t entry, uint32_t len, uint64_t high, uint64_t low)
{
	uint32_t at = entry & (LG_TREE_WORDS - 1), node_len;
	struct lg_tree_node node;
	uint64_t half;
	int r = 0;

	if (!(entry & LG_TREE_NODE))
		return w->fn(w->arg, entry, high, low);
	memcpy(&node, &w->words[at], sizeof(node));
	node_len = (node.is_low ? 128u : 64u) - node.shift - node.bits;
	if (node_len > len) {
		half = node.base ^ 1ull << node.shift << node.bits;
		r = walk_entry(w, node.outside, node_len, node.is_low ? high : half, node.is_low ? half : low);
	}
	for (uint32_t i = 0; i < 1u << node.bits && r == 0; i++) {
		half = node.base + ((uint64_t)i << node.shift);
		r = walk_entry(w, w->words[at + HEADER_WORDS + i], node_len + node.bits, node.is_low ? high : half,
			       node.is_low ? half : low);
	}
	return r;
}

int lg_prefix_tree_walk(const uint32_t *words, uint32_t root, int (*fn)(void *arg, uint32_t leaf, uint64_t high, uint64_t low),
			void *arg)
{
	const struct walk w = { .words = words, .fn = fn, .arg = arg };

	return walk_entry(&w, root, 0, 0, 0);
}
