/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Inside of the journal: what stands in its files. A file is a head and then frames, each with a sum over its bytes and its number, so that a
 * frame is valid only where it belongs. The name of a file is the number of its first record.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "store/journal.h"

#define LG_JOURNAL_BOOT_LEN 36

struct lg_journal_head {
	char magic[8];
	uint64_t first_seq;
	uint64_t first_ms;
	char boot[LG_JOURNAL_BOOT_LEN];	/* run of the machine in which it was begun */
	uint32_t zero;
	uint64_t sum;
};
_Static_assert(sizeof(struct lg_journal_head) == 72, "no padding in what is written");

enum lg_journal_frame_kind {
	LG_FRAME_RECORD = 1,
	LG_FRAME_GAP = 2,	/* data: how many numbers from here on have no record, and the cause */
	LG_FRAME_END = 3,	/* an orderly end of a life; has no number of its own */
};

struct lg_journal_frame {
	uint32_t sum;		/* over what follows, seeded with the number */
	uint16_t len;		/* of the data behind this */
	uint16_t kind;
	uint64_t time_ms;
};
_Static_assert(sizeof(struct lg_journal_frame) == 16, "no padding in what is written");

struct lg_journal_gap {
	uint64_t n;
	uint64_t cause;
};

#define LG_FRAME_GAP_BYTES (sizeof(struct lg_journal_frame) + sizeof(struct lg_journal_gap))

/* A file as the list knows it. */
struct lg_segment {
	uint64_t first_seq;
	uint64_t first_ms;
	uint64_t bytes;		/* whole frames and the head */
};

struct lg_segments {
	struct lg_segment *v;	/* oldest first */
	size_t n, size;
	uint64_t bytes;
};

void lg_segment_path(const char *folder, uint64_t first_seq, char *buf, size_t len);
/* Writes a head; buf has room for it. */
void lg_journal_head_put(void *buf, uint64_t first_seq, uint64_t first_ms, const char *boot);
/* Appends a frame at buf, which has room; returns its length. */
size_t lg_journal_frame_put(void *buf, uint64_t seq, enum lg_journal_frame_kind kind, uint64_t time_ms, const void *data, size_t len);
size_t lg_journal_gap_put(void *buf, uint64_t seq, uint64_t n, enum lg_journal_cause cause, uint64_t time_ms);

/*
 * The frame at data, of which `len` bytes are there, if its number is seq. Returns its length; 0 when it is not whole, -EBADMSG when it is
 * none. *ret_next is the number behind it.
 */
int lg_journal_frame_get(const uint8_t *data, size_t len, uint64_t seq, struct lg_journal_entry *ret_entry, bool *ret_end,
			 uint64_t *ret_next);

int lg_segments_add(struct lg_segments *s, const struct lg_segment *segment);
void lg_segments_drop_first(struct lg_segments *s);

/* What was found at the end of the last file. */
struct lg_journal_tail {
	uint64_t next_seq;
	uint64_t last_ms;
	bool same_boot;		/* the file was begun in this run of the machine */
	bool orderly;		/* the last life ended in order, or in this run of the machine: nothing that was written is gone */
};

/* Lists the folder; the last file is read to its last whole frame and cut there. */
int lg_segments_load(const char *folder, const char *boot, struct lg_segments *s, struct lg_journal_tail *ret_tail,
		     struct lg_complaint *c);
