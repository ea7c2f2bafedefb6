/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Which server of a lessor owns which of its slots (lease/hash.h), and in which life. A server that owns a slot is its lessor: each slot has an
 * epoch of its own, and only ever a larger one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lease/hash.h"
#include "leasegate/bounds.h"

#define LG_REPLICAS_MAX 32		/* servers of one lessor */
#define LG_REPLICA_ADDRESS_LEN 128
#define LG_NO_REPLICA 0xffu

struct lg_slot_set {
	uint64_t w[LG_KEY_SLOTS / 64];
};

static inline bool lg_slot_set_has(const struct lg_slot_set *set, uint32_t slot)
{
	return set->w[slot / 64] >> (slot % 64) & 1;
}

static inline void lg_slot_set_add(struct lg_slot_set *set, uint32_t slot)
{
	set->w[slot / 64] |= 1ull << (slot % 64);
}

static inline void lg_slot_set_del(struct lg_slot_set *set, uint32_t slot)
{
	set->w[slot / 64] &= ~(1ull << (slot % 64));
}

static inline bool lg_slot_set_is_empty(const struct lg_slot_set *set)
{
	return !(set->w[0] | set->w[1] | set->w[2] | set->w[3]);
}

static inline uint32_t lg_slot_set_count(const struct lg_slot_set *set)
{
	uint32_t n = 0;

	for (size_t i = 0; i < LG_KEY_SLOTS / 64; i++)
		n += (uint32_t)__builtin_popcountll(set->w[i]);
	return n;
}

static inline void lg_slot_set_fill(struct lg_slot_set *set)
{
	memset(set, 0xff, sizeof(*set));
}

/* Slots and a number that is the same for all of them: an epoch of the lessor, or an incarnation of the holder. */
struct lg_slot_part {
	struct lg_slot_set slots;
	uint64_t number;
};

struct lg_replica {
	char name[LG_NAME_LEN];
	char address[LG_REPLICA_ADDRESS_LEN];	/* "": none that could be dialled */
};

struct lg_slot_map {
	size_t n;
	struct lg_replica v[LG_REPLICAS_MAX];
	uint8_t owner[LG_KEY_SLOTS];		/* index in v, or LG_NO_REPLICA */
	uint32_t epoch[LG_KEY_SLOTS];		/* of the owner's life; 0 without owner */
};

static inline void lg_slot_map_init(struct lg_slot_map *map)
{
	memset(map, 0, sizeof(*map));
	memset(map->owner, LG_NO_REPLICA, sizeof(map->owner));
}

/* Gathers slots by their number: slot s has numbers[s], 0 is left out. Returns how many parts, at most LG_KEY_SLOTS. */
size_t lg_slot_parts(const uint64_t numbers[LG_KEY_SLOTS], struct lg_slot_part *ret_parts);
