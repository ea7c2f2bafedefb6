/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * An append-only log of records in a folder of its own, bounded in size. Knows bytes and their numbers, no leases.
 *
 * Each record has a number (seq, from 1), one more than the one before, over all lives of the process: a reader that remembers the last
 * number it has seen goes on exactly behind it. Numbers whose record is not there are told of as a gap, never passed over in silence.
 *
 * Adding copies into memory. What has gathered is handed by lg_journal_flush() to a thread that writes it, so that a slow disk delays
 * nobody: what finds no room meanwhile is dropped and becomes a gap. All functions are called from one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"

#define LG_JOURNAL_RECORD_MAX 4096	/* bytes of one record */

struct lg_journal;

struct lg_journal_options {
	const char *folder;		/* made if it is not there; its parent must be */
	uint64_t size_bytes;		/* all files together; the oldest one goes when the next record would not fit */
	uint64_t segment_bytes;		/* of one file, at most a half of all */
	size_t pending_bytes;		/* added and not yet handed to the writer; as much again may be with the writer */
	bool sync;			/* durable within a second, over a loss of power too */
	const char *boot;		/* names this run of the machine; NULL: as the kernel says */
};

enum lg_journal_cause {
	LG_JOURNAL_RECORD = 0,		/* no gap */
	LG_JOURNAL_OVERLOAD,		/* came faster than they could be written */
	LG_JOURNAL_ERROR,		/* the disk refused them */
	LG_JOURNAL_REBOOT,		/* the machine went down without an orderly end: the last ones may not have reached the disk */
	LG_JOURNAL_AGED,		/* older than what is kept */
	LG_JOURNAL_DAMAGED,		/* cannot be read any more */
	_LG_JOURNAL_N
};

struct lg_journal_entry {
	enum lg_journal_cause cause;
	uint64_t seq;
	uint64_t n_lost;		/* of a gap: seq and the ones that follow */
	uint64_t time_ms;		/* of a record, as it was given; of a gap of the first three causes, when it was written */
	const void *data;
	size_t len;
};

struct lg_journal_stats {
	uint64_t first_seq;		/* oldest one kept */
	uint64_t first_ms;		/* its time; 0 when there is none */
	uint64_t next_seq;		/* of the next one written; readers see what is below */
	uint64_t n_added, n_dropped;	/* in this life: dropped for overload or errors of the disk */
	uint64_t bytes;			/* on disk */
	int error;			/* negative errno of the last write or sync, 0 when it went well */
};

/* Goes on behind the last whole record; a torn one after it, of a process that was killed while writing, is cut off. */
int lg_journal_open(const struct lg_journal_options *options, struct lg_journal **ret_journal, struct lg_complaint *c);
/* Writes what there is, as far as the disk takes it, and marks the end as an orderly one. */
struct lg_journal *lg_journal_close(struct lg_journal *j);
LG_CLEANUP(struct lg_journal, lg_journal_close)

/* Adds a record of 1 to LG_JOURNAL_RECORD_MAX bytes. Never waits; false when there was no room: the number is used up and will be in a gap. */
bool lg_journal_add(struct lg_journal *j, uint64_t time_ms, const void *data, size_t len);
/* Hands over what was added, unless the writer is still busy with what it got before. */
void lg_journal_flush(struct lg_journal *j);
/* Waits until all that was added is written or given up. For tests and for the end of a life. */
void lg_journal_settle(struct lg_journal *j);

void lg_journal_stats(struct lg_journal *j, struct lg_journal_stats *ret_stats);

/**
 * lg_journal_read() - calls fn for records and gaps in the order of their numbers
 * @from_seq:  number to begin at; 0: the oldest one kept
 * @since_ms:  of files that end before this time nothing is read, and no gap is told of; 0: none. Older records of the others are given
 * @max_bytes: at most about so much is read from disk
 * @fn:        0 goes on; 1 stops: the entry was not taken; a negative errno stops, and is returned
 * @ret_next:  where to go on
 */
int lg_journal_read(struct lg_journal *j, uint64_t from_seq, uint64_t since_ms, size_t max_bytes,
		    int (*fn)(void *arg, const struct lg_journal_entry *entry), void *arg, uint64_t *ret_next);
