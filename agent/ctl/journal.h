/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Reading the journal of the running region server, page by page. */
#pragma once

#include "ctl/ctl.h"

struct lg_ctl_page {
	json_t *reply;		/* owns what follows */
	const char *region;
	const json_t *records;	/* each has a seq; a gap has "gap", how many are missing up to that seq, and "cause" */
	uint64_t next;		/* to go on from */
	uint64_t end;		/* first number that was not there yet */
	uint64_t first;		/* oldest one kept */
	uint64_t first_ms;
};

/* Results of lg_ctl_journal_page() besides 0, each with *c filled. */
enum lg_ctl_journal {
	LG_CTL_JOURNAL_SILENT = 1,	/* no region server answers, or it is just starting */
	LG_CTL_JOURNAL_REFUSED = 2,
};

/**
 * lg_ctl_journal_page() - the records from a number on
 * @filter: "rule", "key", "tier", "what", "since_ms": strings and a number, any of them left out
 * @from:   0: the oldest one
 */
int lg_ctl_journal_page(const struct lg_ctl *ctl, const json_t *filter, uint64_t from, struct lg_ctl_page *ret_page,
			struct lg_complaint *c);
void lg_ctl_page_fini(struct lg_ctl_page *page);

/* Milliseconds since 1970 as RFC 3339, UTC. */
#define LG_CTL_TIME_LEN 32
const char *lg_ctl_time(uint64_t unix_ms, char buf[LG_CTL_TIME_LEN]);
/* "12 records are missing: ..." */
void lg_ctl_gap_text(const json_t *gap, char *buf, size_t len);
