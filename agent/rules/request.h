/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rules for requests: which of them a request is charged to, under which keys. Of the rules of one domain that ask for entries of the same
 * keys the most specific one counts; those that ask for other keys count beside each other.
 *
 * The table is one piece of memory without pointers, so that it can be sent to another process as it is. To find the rules of a descriptor
 * takes a hash for its path, or one comparison for each set of keys that rules of the domain ask for, then a hash for each entry,
 * however many rules there are; patterns cost a comparison for each length of text before their `*`, and other patterns one each.
 */
#pragma once

#include "rules/compile.h"

struct lg_field;
struct lg_node;

/* ---- of the model ---- */

struct lg_request_match *lg_request_match_free(struct lg_request_match *match);
void lg_values_free(char **values, size_t n);
/* A list of values, sorted, each once. */
int lg_values_read(const struct lg_field *field, const struct lg_node *list, size_t max, char ***ret_values, size_t *ret_n,
		   struct lg_complaint *c);
/* Does a pattern, or a value, take a text? `*` stands for any bytes. */
bool lg_value_matches(const char *pattern, const char *text, size_t len);

/* ---- the table ---- */

struct lg_request_table;

/* A part of a request: len bytes, whatever they are. */
struct lg_slice {
	const char *s;
	uint32_t len;
};

/* A rule that a descriptor has found. */
struct lg_request_hit {
	uint32_t rule;		/* its place in the table */
	struct lg_key key;
	uint8_t source[16];	/* as struct lg_charge has it */
};

/* What is known of a rule. */
struct lg_request_rule {
	struct lg_rule rule;	/* as the kernel has it */
	uint32_t index;		/* in the kernel's set */
	uint8_t is_sync;	/* its home is waited for */
	uint8_t is_shadow;
	uint8_t is_soft;
	uint8_t n_texts;
	uint8_t has_address;
	uint8_t text_places[LG_RULE_ENTRIES_MAX];	/* of the entries whose values make the key, in the rule's match */
	uint8_t address_place;
	char name[LG_NAME_LEN];
	char domain[LG_NAME_LEN];
	char text_keys[LG_RULE_ENTRIES_MAX][LG_ENTRY_KEY_LEN];	/* the same by their keys */
	char address_key[LG_ENTRY_KEY_LEN];
	uint64_t hash_key[2];				/* of keys that are hashed */
};

/**
 * lg_requests_build() - the table of what is in force
 * @set, @names: of `rules`, by lg_rules_compile()
 * @hash_seed:   of the instance (struct lg_control)
 *
 * Return: 0 with a table to be freed by free(), or -ENOMEM.
 */
int lg_requests_build(const struct lg_rules *rules, const struct lg_ruleset *set, const struct lg_rule_name *names, uint64_t hash_seed,
		      struct lg_request_table **ret_table);
size_t lg_requests_bytes(const struct lg_request_table *table);
/* Is it a table of this build, whole? For what came from another process. */
bool lg_requests_check(const struct lg_request_table *table, size_t len);
uint32_t lg_requests_count(const struct lg_request_table *table);
const struct lg_request_rule *lg_requests_rule(const struct lg_request_table *table, uint32_t rule);
/* The rule of a name, or -ENOENT. */
int lg_requests_named(const struct lg_request_table *table, struct lg_slice name);

/**
 * lg_requests_find() - the rules of one descriptor
 * @keys, @values: n entries, at most 16, in their order
 * @max:           of `ret_hits`
 *
 * Return: how many, at most one for each set of keys; -E2BIG: more than max.
 */
int lg_requests_find(const struct lg_request_table *table, struct lg_slice domain, const struct lg_slice *keys, const struct lg_slice *values,
		     uint32_t n, struct lg_request_hit *ret_hits, uint32_t max);
/* The key of a rule for these entries, whatever it matches. -ENOENT: one that it needs is not there. */
int lg_requests_key(const struct lg_request_table *table, uint32_t rule, const struct lg_slice *keys, const struct lg_slice *values, uint32_t n,
		    struct lg_request_hit *ret_hit);

/* The key of a rule from what makes it: n_texts texts in the rule's order, and an address, unless the rule has none. */
void lg_request_key_make(const struct lg_request_rule *rule, const struct lg_slice *texts, struct lg_slice address, struct lg_request_hit *hit);

/* SipHash of 128 bits, little-endian: 1-3, or of what is secret 2-4. */
void lg_siphash(const uint64_t key[2], const void *data, size_t len, bool is_secret, uint64_t ret[2]);
