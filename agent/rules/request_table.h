/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * How the table of requests is laid out; for those that make and read it. All places are bytes from its beginning.
 *
 * Rules of one domain that ask for the same keys are a group. A group is a tree: each level asks for the value of one entry, and leads from a
 * node to nodes of the next level by values, by prefixes of values, by other patterns, or by any value, in this order. Who finds no rule that
 * way goes back to the last fork, so the most specific rule that matches is found, if one does.
 */
#pragma once

#include "rules/request.h"

#define LG_REQUESTS_MAGIC 0x6c677271u

/* What the one hash table of all texts knows. */
enum lg_request_name {
	LG_NAME_DOMAIN = 1,	/* -> place of a domain */
	LG_NAME_KEY,		/* in a domain -> number of an entry's key */
	LG_NAME_PATH,		/* in a domain: keys, each after its length -> place of a group */
	LG_NAME_VALUE,		/* at a node -> place of the next one */
	LG_NAME_PREFIX,		/* at a node: text before the `*` -> place of the next one */
	LG_NAME_RULE,		/* -> number of a rule */
};

struct lg_request_entry {
	uint64_t hash;
	uint32_t scope;		/* domain or node */
	uint32_t kind;		/* enum lg_request_name */
	uint32_t text, len;
	uint32_t value;
	uint32_t next;		/* 0: the last; of one text those of one value come first */
};

struct lg_request_node {
	uint32_t first_rule;	/* 1 + number of a rule that ends here, 0: none; the others follow by `next_rule` */
	uint32_t any;		/* 0: none */
	uint32_t n_prefixes;	/* lengths of prefixes, uint32_t each, longest first */
	uint32_t prefixes;
	uint32_t n_patterns;	/* struct lg_request_pattern, the most literal first */
	uint32_t patterns;
};

struct lg_request_pattern {
	uint32_t text;		/* with a NUL */
	uint32_t node;
};

struct lg_request_group {
	uint32_t n;		/* levels */
	uint32_t keys[LG_RULE_ENTRIES_MAX];	/* numbers of keys; of a path not set */
	uint32_t root;		/* node */
	uint64_t mask;		/* bit (number % 64) of each key */
};

struct lg_request_domain {
	uint32_t n_groups;	/* that ask for entries among others */
	uint32_t groups;	/* their places, uint32_t each */
};

struct lg_request_table {
	uint32_t magic;
	uint32_t abi_version;
	uint64_t len_bytes;
	uint32_t n_rules;
	uint32_t rules;		/* struct lg_request_rule */
	uint32_t next_rule;	/* uint32_t for each: 1 + number, 0: the last of its node */
	uint32_t n_heads;	/* power of two */
	uint32_t heads;		/* uint32_t: struct lg_request_entry, 0: none */
	uint32_t _pad;
};

static inline const void *lg_request_at(const struct lg_request_table *t, uint32_t place)
{
	return (const char *)t + place;
}

uint64_t lg_request_hash(uint32_t scope, uint32_t kind, const void *text, size_t len);
/* The first entry of a text, or the one after `from`; NULL: there is none. */
const struct lg_request_entry *lg_request_look(const struct lg_request_table *t, uint32_t scope, uint32_t kind, const void *text, size_t len,
					       const struct lg_request_entry *from);
