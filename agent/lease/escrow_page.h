/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Marks of many keys as bytes: what one slot of keys has in the store. A page says besides of which rules all that counts is marked: of these a
 * key that is not on the page has nothing out. Of any other rule nothing is known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/escrow.h"
#include "leasegate/bounds.h"

#define LG_ESCROW_PAGE_MAX 65536	/* bytes */
#define LG_ESCROW_ID_LEN 16

/* One key's. Which key: a hash of what it is and what its rule is, which nobody needs to read. */
struct lg_escrow_record {
	uint8_t id[LG_ESCROW_ID_LEN];
	struct lg_escrow_mark mark;	/* its time is of a clock that all lives share */
	uint64_t memory_ms;		/* so long after it was taken over it no longer matters */
};

/* identity: of its rule; bytes: as lg_key_bytes() has them. */
void lg_escrow_id(uint64_t identity, const uint8_t *bytes, size_t len, uint8_t ret_id[LG_ESCROW_ID_LEN]);

struct lg_escrow_page {
	size_t len;
	uint8_t bytes[LG_ESCROW_PAGE_MAX];
};

/* writer: whoever writes, in this life. covered: identities of rules, at most LG_RULES_MAX. */
void lg_escrow_page_begin(struct lg_escrow_page *p, uint64_t writer, const uint64_t *covered, size_t n_covered);
/* False: the page is full, and does not have it. */
bool lg_escrow_page_add(struct lg_escrow_page *p, const struct lg_escrow_record *record);
void lg_escrow_page_end(struct lg_escrow_page *p);

struct lg_escrow_reader {
	const uint8_t *at, *end;
	uint64_t writer;
	size_t n_covered;
	uint64_t covered[LG_RULES_MAX];
	size_t n_records;
};

/* Checks all of it. 0; -EBADMSG with *ret_why, which lives as long as the program. The bytes must outlive the reader. */
int lg_escrow_page_open(struct lg_escrow_reader *r, const void *bytes, size_t len, const char **ret_why);
/* Each record once; false: there is no other. */
bool lg_escrow_page_next(struct lg_escrow_reader *r, struct lg_escrow_record *ret_record);
