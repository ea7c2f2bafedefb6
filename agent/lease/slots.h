/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Sums of tokens by time over a trailing span: the window of a home, one holder's part of it, a holder's memory of what it spent.
 * Time is cut into slots of grain_ns; a token counts from when it is added until the END of its slot is span_ns ago, so it is
 * forgotten late and never early. Memory follows the slots in use and is bounded by span_ns / grain_ns.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct lg_slot;
struct lg_slots_entry {
	uint64_t index;	/* the slot ends at index * grain_ns */
	uint64_t tok;
};

struct lg_slots {
	uint64_t span_ns;
	uint64_t grain_ns;
	uint64_t sum_tok;
	struct lg_slots_entry *v;	/* ring, oldest at head */
	uint32_t head;
	uint32_t n;
	uint32_t cap;			/* power of two */
};

/* grain_ns is raised so that no more than max slots can be in use at once. 0 or -ENOMEM. */
int lg_slots_init(struct lg_slots *s, uint64_t span_ns, uint64_t grain_ns, uint32_t max);
void lg_slots_fini(struct lg_slots *s);
/* Of its entries. */
size_t lg_slots_bytes(const struct lg_slots *s);

/* tok tokens spent at end_ns or a little before. Without memory for one more slot they join a later one. */
void lg_slots_add(struct lg_slots *s, uint64_t end_ns, uint64_t tok, uint64_t now_ns);
/* All that is in `other` as well, each slot at its time or a little later. */
void lg_slots_add_all(struct lg_slots *s, const struct lg_slots *other, uint64_t now_ns);
void lg_slots_clear(struct lg_slots *s);
/* Forgets what has left the span, returns the sum of the rest. */
uint64_t lg_slots_sum(struct lg_slots *s, uint64_t now_ns);
/* When the last slot leaves the span; 0 when there is none. */
uint64_t lg_slots_last_ns(const struct lg_slots *s);
/* The same slots under another span and grain; without memory for that, under the old grain. */
void lg_slots_reshape(struct lg_slots *s, uint64_t span_ns, uint64_t grain_ns, uint32_t max, uint64_t now_ns);
/* The slots as a message has them, oldest first, at most n of them; what does not fit is in the first. */
size_t lg_slots_export(struct lg_slots *s, uint64_t now_ns, struct lg_slot *ret_slots, size_t n);
