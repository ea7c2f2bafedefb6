/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rules at run time: one version of a rules file for a whole fleet, with what is done to it for a while, and which nodes have it. Pure: time
 * and text are arguments.
 *
 * A document says everything: whoever has it needs no other. Two of them are told apart, and put in order, by their stamp alone, everywhere
 * in the same way. Overrides end by durations on the clock of whoever has the document; no clock of another machine is compared.
 */
#pragma once

#include "base/text.h"
#include "rules/gate.h"
#include "rules/rule.h"

#define LG_RULES_OVERRIDES_MAX 64
#define LG_RULES_TEXT_MAX (768u << 10)		/* of one rules file with its lists: what a store takes in one commit */
#define LG_RULES_DOC_BYTES_MAX (2 * LG_RULES_TEXT_MAX + (64u << 10))	/* of a document: two texts, and what is said of them */
#define LG_RULES_OVERRIDE_MAX_MS (31ull * 24 * 3600 * 1000)
#define LG_RULES_WORD_LEN 128

/* Which of two versions is newer: counter, then time, then region. Counter 0: there is none. */
struct lg_rules_stamp {
	uint64_t counter;
	uint64_t unix_ms;		/* of the server where it was made */
	char region[LG_NAME_LEN];	/* of that server */
};
/* Below, at or above 0, as of memcmp(). */
int lg_rules_stamp_compare(const struct lg_rules_stamp *a, const struct lg_rules_stamp *b);

enum lg_override_kind { LG_OVERRIDE_SET, LG_OVERRIDE_DISABLE, LG_OVERRIDE_SHADOW };

/* What is done to one rule in spite of its file. */
struct lg_rules_override {
	enum lg_override_kind kind;
	char rule[LG_NAME_LEN];
	char limit[LG_RULES_WORD_LEN];	/* SET: as in a file; "" as it is there */
	char burst[LG_RULES_WORD_LEN];	/* likewise */
	struct lg_gate gate;		/* which nodes have it */
	uint64_t until_ns;		/* on our own clock; 0: until it is taken back or the next file is applied */
};

struct lg_rules_text_ref {
	char *text;		/* owned; NULL: only its length and hash are known */
	size_t len;
	uint64_t hash;
};

struct lg_rules_doc {
	struct lg_rules_stamp stamp;
	char by[LG_RULES_WORD_LEN];	/* who asked for it */
	char what[LG_RULES_WORD_LEN];	/* and for what, in words */
	bool is_forced;			/* whoever is cut off by it: nodes do not ask */
	struct lg_rules_text_ref text;
	struct lg_rules_text_ref base;	/* while there is a gate; else length 0 */
	struct lg_gate gate;		/* which nodes have the text; the others have the base */
	size_t n_overrides;
	struct lg_rules_override overrides[LG_RULES_OVERRIDES_MAX];
};
struct lg_rules_doc *lg_rules_doc_free(struct lg_rules_doc *doc);
LG_CLEANUP(struct lg_rules_doc, lg_rules_doc_free)
/* NULL: no memory. */
struct lg_rules_doc *lg_rules_doc_copy(const struct lg_rules_doc *doc);

/* Takes a copy; -ENOMEM. */
int lg_rules_text_set(struct lg_rules_text_ref *ref, const char *text, size_t len);
uint64_t lg_rules_text_hash(const char *text, size_t len);

/**
 * lg_rules_doc_pack() - a document as bytes
 * @now_ns:     our clock: what is left of overrides is written
 * @unix_ms:    the wall clock, for lg_rules_doc_parse() of what is durable
 * @with_texts: else their lengths and hashes alone
 */
void lg_rules_doc_pack(const struct lg_rules_doc *doc, uint64_t now_ns, uint64_t unix_ms, bool with_texts, struct lg_text *out);

/**
 * lg_rules_doc_parse() - bytes as a document
 * @unix_ms: of what was durable: the wall clock now, by which it is as old as it can be; 0: age_ms says how old it is
 *
 * Overrides whose time is over are left out. A wall clock that stepped back makes none longer than it was when it was written.
 *
 * Return: 0, -EINVAL with *c filled, -ENOMEM.
 */
int lg_rules_doc_parse(const char *data, size_t len, uint64_t now_ns, uint64_t unix_ms, uint64_t age_ms, struct lg_rules_doc **ret_doc,
		       struct lg_complaint *c);

/* Puts it in the place of another one of its rule. -ENOSPC: too many. */
int lg_rules_override_put(struct lg_rules_doc *doc, const struct lg_rules_override *override);
/* Takes away the override of a rule; of NULL those without a time. Returns how many. */
size_t lg_rules_override_drop(struct lg_rules_doc *doc, const char *rule);
/* When the first override ends; 0: none does. */
uint64_t lg_rules_doc_end_ns(const struct lg_rules_doc *doc, uint64_t now_ns);
void lg_rules_doc_expire(struct lg_rules_doc *doc, uint64_t now_ns);
#define LG_RULES_OVERRIDE_TEXT_LEN (2 * LG_RULES_WORD_LEN + 32 + LG_GATE_TEXT_LEN)
/* "limit 500/1s", "disabled", "shadow on nodes with tier=canary" */
void lg_rules_override_text(const struct lg_rules_override *override, char *buf, size_t len);

/**
 * lg_rules_doc_rules() - what is to be in force
 * @has_text: the text, not the base: lg_gate_takes(); without a gate it makes no difference
 * @node:     whose overrides
 * @name:     stands for the file in complaints
 *
 * Overrides count until their time. One of a rule that is not there changes nothing.
 */
int lg_rules_doc_rules(const struct lg_rules_doc *doc, bool has_text, const struct lg_gate_node *node, uint64_t now_ns, const char *name,
		       struct lg_rules **ret_rules, struct lg_complaint *c);

/*
 * Limits of global rules are one for all nodes: a gate that gave some of them other ones would have two. -EINVAL with *c naming the first
 * global rule that differs between text and base.
 */
int lg_rules_gate_check(const struct lg_rules *text, const struct lg_rules *base, struct lg_complaint *c);
