/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The marks of many homes in the store: one page per slot of keys, escrow/NNN. A page that is written has the marks of all keys of its slot
 * anew, and all pages that are due at a tick are one transaction: so what is written depends neither on how much is lent nor, beyond
 * the number of slots, on how many keys lend it.
 *
 * Each page is written only if it is still the one we wrote or read last. So whoever takes a slot over and writes it ends what anybody else
 * may lend of it, and before it has written it lends nothing.
 */
#pragma once

#include <sys/queue.h>

#include "lease/escrow_page.h"
#include "lease/hash.h"
#include "lease/home.h"
#include "lease/slot_map.h"
#include "store/store.h"

struct lg_escrow_book;
struct lg_escrow_found;

/* A key's part, inside of what owns its home. Begins as zeros. */
struct lg_escrow_entry {
	struct lg_home *home;
	const struct lg_lessor *lessor;
	uint8_t id[LG_ESCROW_ID_LEN];
	uint16_t slot;
	bool is_in;			/* in the book */
	bool is_on_its_way;		/* a mark of it is */
	struct lg_escrow_found *found;	/* the mark of an earlier life that it goes on with */
	LIST_ENTRY(lg_escrow_entry) link;
};

struct lg_escrow_book_options {
	struct lg_store *store;
	uint64_t writer;	/* this life, unlike any other */
	/* One moment on our clock and on the one that all lives share. */
	uint64_t at_ns, at_unix_ns;
	/* A mark of the key is durable, or may not be. */
	void (*marked)(void *arg, struct lg_escrow_entry *e, bool is_durable);
	/* Rules of which all that counts in that slot is marked; returns how many. */
	size_t (*covers)(void *arg, uint32_t slot, uint64_t ret_identities[LG_RULES_MAX]);
	/* The write that asks whether the slot is still ours; key: room for its key. NULL: nobody else can own one. */
	struct lg_store_write (*fence)(void *arg, uint32_t slot, char key[LG_NAME_LEN]);
	/* After marks of many keys: what they brought about may go out. May be NULL. */
	void (*flush)(void *arg);
	void *arg;
};

int lg_escrow_book_new(const struct lg_escrow_book_options *options, struct lg_escrow_book **ret_book);
/* Nothing is written any more. */
struct lg_escrow_book *lg_escrow_book_free(struct lg_escrow_book *book);
LG_CLEANUP(struct lg_escrow_book, lg_escrow_book_free)

/* From now on the keys of this slot are lent here: what its page says counts from now_ns. 0; negative errno with *c filled. */
int lg_escrow_book_open(struct lg_escrow_book *book, uint32_t slot, uint64_t now_ns, struct lg_complaint *c);
/* Right after that: if its page is of this revision, it is not believed that it covers any rule. */
void lg_escrow_book_doubt(struct lg_escrow_book *book, uint32_t slot, uint64_t revision);
/* They are going to be lent by somebody else: their last marks go out, so that what was not lent is there for him. From now on nothing is
 * lent of them, and they are closed. What is committed next comes after these marks. */
void lg_escrow_book_hand_over(struct lg_escrow_book *book, const struct lg_slot_set *slots, uint64_t now_ns);
/* They are lent by somebody else: of what is on its way nothing is told any more. The keys were removed before. */
void lg_escrow_book_close(struct lg_escrow_book *book, uint32_t slot);
/* Which rules the page of a slot covers, and its revision (0: there is none), whoever lends it. -EINVAL with *c filled if it cannot be
 * read. */
int lg_escrow_book_peek(struct lg_escrow_book *book, uint32_t slot, uint64_t ret_covered[LG_RULES_MAX], size_t *ret_n, uint64_t *ret_revision,
			struct lg_complaint *c);
bool lg_escrow_book_is_open(const struct lg_escrow_book *book, uint32_t slot);
uint64_t lg_escrow_book_since_ns(const struct lg_escrow_book *book, uint32_t slot);
/* Its page says, or said, that all that counts of this rule is marked. */
bool lg_escrow_book_covers(const struct lg_escrow_book *book, uint32_t slot, uint64_t identity);
/* That is no longer believed of the rule, in any slot. */
void lg_escrow_book_uncover(struct lg_escrow_book *book, uint64_t identity);
/* A key with this id: the mark that an earlier life left of it, which is its own from now on; NULL: there is none. */
const struct lg_escrow_mark *lg_escrow_book_claim(struct lg_escrow_book *book, struct lg_escrow_entry *e);
/* It has a home, and lends by its marks. */
void lg_escrow_book_add(struct lg_escrow_book *book, struct lg_escrow_entry *e);
/* It goes. is_idle: nothing of it counts any more; else the mark it went on with is nobody's again. */
void lg_escrow_book_remove(struct lg_escrow_book *book, struct lg_escrow_entry *e, bool is_idle);
void lg_escrow_book_due(struct lg_escrow_book *book, const struct lg_escrow_entry *e);
/* Its page is to be written, for itself. */
void lg_escrow_book_touch(struct lg_escrow_book *book, uint32_t slot);

/* What is due is written. */
void lg_escrow_book_tick(struct lg_escrow_book *book, uint64_t now_ns);
/* All that is due, now. */
void lg_escrow_book_write(struct lg_escrow_book *book, uint64_t now_ns);
/* From now on marks are the last ones, of all keys. */
void lg_escrow_book_finish(struct lg_escrow_book *book);
/* Is nothing due, and nothing on its way? */
bool lg_escrow_book_is_done(const struct lg_escrow_book *book);

struct lg_escrow_book_counts {
	uint64_t n_keys;
	uint64_t n_commits;	/* durable */
	uint64_t n_pages;	/* in these */
	uint64_t n_bytes;	/* of these */
	uint64_t n_failed;	/* commits that were not, as far as known */
	uint64_t n_no_room;	/* marks that were due and did not fit on their page */
	const char *why;	/* nothing can be written: ""; NULL: it can */
};
void lg_escrow_book_counts(const struct lg_escrow_book *book, struct lg_escrow_book_counts *ret);
