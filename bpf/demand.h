/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What is refused, by key. A flood of one key would have all CPUs write the same word for each packet. So each CPU adds up the
 * refusals of one key in a place of its own, and books them under the key LG_DENIALS_MAX at a time; those of all other keys are booked
 * at once. Which key is added up follows the traffic: the one that comes when there were LG_DENIALS_MISSES refusals of others in a row.
 *
 * What waits is booked by the agent, too, before it reads or deletes buckets. Who books first moves booked_tok up by a swap, then adds
 * the difference under the key: nothing is booked twice, and what comes meanwhile waits for the next time. The CPU books all that waits
 * before another key takes the place, so the swap of whoever found the old key fails then. Packets of one CPU never interrupt each other.
 */
#pragma once

#include "bucket.h"

#define LG_DENIALS_CPUS 8192 /* more than any kernel has */

/* The bucket of a key, or NULL. */
static __always_inline struct lg_bucket *lg_bucket_of(const struct lg_key *key)
{
	__u32 slot = *(const __u32 *)key->a, index = (key->rule_id - 1) * LG_OVERFLOW_BUCKETS + slot;

	if (key->form & LG_FORM_PRODUCT)
		return bpf_map_lookup_elem(&products, key);
	if (key->form != LG_FORM_OVERFLOW)
		return bpf_map_lookup_elem(&buckets, key);
	if (slot >= LG_OVERFLOW_BUCKETS)
		return NULL;
	return bpf_map_lookup_elem(&overflow, &index);
}

static __always_inline _Bool lg_denials_are_of(const struct lg_denials *cell, const struct lg_key *key, __u32 slot)
{
	const __u64 *x = (const __u64 *)&cell->key, *y = (const __u64 *)key;

	if (slot)
		return cell->slot == slot;
	if (x[2] ^ y[2])
		return 0; /* another address: mostly that is all it takes */
	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[3] ^ y[3]) | (x[4] ^ y[4]) | cell->slot);
}

/* The word that counts the refusals of a cell's key, or NULL: it is gone, and its counts with it. */
static __always_inline __u64 *lg_denials_total(const struct lg_denials *cell)
{
	__u32 slot = cell->slot - 1;
	struct lg_line_key *note;
	struct lg_bucket *bucket;

	if (slot == ~0u) {
		bucket = lg_bucket_of(&cell->key);
		return bucket ? &bucket->denied_tok : NULL;
	}
	note = bpf_map_lookup_elem(&line_keys, &slot);
	return note ? &note->denied_tok : NULL;
}

/* Books what waits. */
static __always_inline void lg_denials_book(struct lg_denials *cell)
{
	__u64 turn = lg_read(cell->turn), booked_tok = lg_read(cell->booked_tok), tok = lg_read(cell->added_tok) - booked_tok;
	__u64 *total;

	if (turn & 1 || (__s64)tok <= 0)
		return;
	total = lg_denials_total(cell);
	if (lg_read(cell->turn) != turn)
		return; /* so that may have been anyone's */
	if (__sync_val_compare_and_swap(&cell->booked_tok, booked_tok, booked_tok + tok) == booked_tok && total)
		__sync_fetch_and_add(total, tok);
}

/* From now on this CPU adds up the refusals of this key. */
__noinline int lg_denials_turn(const struct lg_key *key, __u32 slot)
{
	struct lg_denials *cell;
	__u32 zero = 0;

	cell = bpf_map_lookup_elem(&denials, &zero);
	if (!key || !cell)
		return 0;
	lg_denials_book(cell);
	__sync_fetch_and_add(&cell->turn, 1);
	cell->key = *key;
	cell->slot = slot;
	cell->packets = 0;
	cell->misses = 0;
	__sync_fetch_and_add(&cell->turn, 1);
	return 1;
}

/**
 * lg_denials_add() - count a refusal
 * @key:  as its bucket is known by
 * @slot: 1 + its place in `line_keys`, or 0
 *
 * Return: what the caller is to book under the key now; mostly 0 if this CPU refuses this key again and again.
 */
static __always_inline __u64 lg_denials_add(const struct lg_key *key, __u32 slot, __u64 cost_tok)
{
	struct lg_denials *cell;
	__u64 added_tok, booked_tok;
	__u32 zero = 0;

	cell = bpf_map_lookup_elem(&denials, &zero);
	if (!cell)
		return cost_tok;
	if (!lg_denials_are_of(cell, key, slot)) {
		if (++cell->misses >= LG_DENIALS_MISSES)
			lg_denials_turn(key, slot);
		return cost_tok;
	}
	cell->misses = 0;
	added_tok = cell->added_tok + cost_tok;
	lg_write(cell->added_tok, added_tok);
	if (++cell->packets < LG_DENIALS_MAX)
		return 0;
	booked_tok = lg_read(cell->booked_tok);
	if (__sync_val_compare_and_swap(&cell->booked_tok, booked_tok, added_tok) != booked_tok)
		return 0;
	cell->packets = 0;
	return added_tok - booked_tok;
}

static long lg_denials_book_cpu(__u32 cpu, void *unused)
{
	__u32 zero = 0;
	struct lg_denials *cell = bpf_map_lookup_percpu_elem(&denials, &zero, cpu);

	(void)unused;
	if (!cell)
		return 1;
	lg_denials_book(cell);
	return 0;
}

/* Books what waits on all CPUs. */
static __always_inline void lg_denials_book_all(void)
{
	bpf_loop(LG_DENIALS_CPUS, lg_denials_book_cpu, NULL, 0);
}
