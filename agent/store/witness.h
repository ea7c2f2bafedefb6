/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * How far a store's file has come, noted outside of it, in a place that no copy of it brings back and that the next boot empties: by that an
 * older copy, or none, is told from the store that was there last. Whoever opens an older one doubts it until what it has forgotten
 * cannot matter any more, over as many lives as that takes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/complaint.h"

struct lg_witness {
	int fd;			/* -1: there is none */
	uint64_t revision;	/* the newest that was ever committed */
	bool is_doubted;
};

/* Opens or makes the file. @revision: how far the store is. Doubted is one that is not as far as it was. */
int lg_witness_open(struct lg_witness *w, const char *path, uint64_t revision, struct lg_complaint *c);
void lg_witness_close(struct lg_witness *w);
/* The store has come so far. */
void lg_witness_note(struct lg_witness *w, uint64_t revision);
/* Nothing that was forgotten matters any more. */
void lg_witness_trust(struct lg_witness *w);
