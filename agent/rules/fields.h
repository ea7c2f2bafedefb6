/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The keys of fields.def as tables, and the part of reading a file that follows from them alone. */
#pragma once

#include <stdint.h>

#include "base/complaint.h"
#include "rules/tree.h"

enum lg_field_type {
	LG_FIELD_MAP,
	LG_FIELD_LIST,		/* min and max items */
	LG_FIELD_NAMES,		/* a mapping from names to addresses */
	LG_FIELD_NAME,		/* min to max of A-Z a-z 0-9 . _ - */
	LG_FIELD_INSTANCE,	/* min to max of a-z 0-9 _ - */
	LG_FIELD_IFNAME,
	LG_FIELD_IFPATTERN,	/* the same, or a pattern of at most max bytes */
	LG_FIELD_WORD,		/* num: its index in words */
	LG_FIELD_CHOICE,	/* num: its index in words, when it is not a mapping */
	LG_FIELD_MARK,		/* num */
	LG_FIELD_PRIORITY,	/* num */
	LG_FIELD_DSCP,		/* num */
	LG_FIELD_NODES,		/* lg_gate_parse() */
	LG_FIELD_WORDS,		/* one of words or a list of them; num, of a list too: bits by index */
	LG_FIELD_BOOL,		/* num: 0 or 1 */
	LG_FIELD_UINT,		/* num */
	LG_FIELD_PERCENT,	/* num: parts in a thousand, as are min and max */
	LG_FIELD_RATE,		/* num: thousandths per second, as are min and max */
	LG_FIELD_DURATION,	/* num: nanoseconds, as are min and max */
	LG_FIELD_BYTES,		/* num: bytes, as are min and max; or one of words, then 0 */
	LG_FIELD_PROTOCOL,	/* num: IP protocol number */
	LG_FIELD_LENGTH,	/* num, when it is not a mapping with a length for each family */
	LG_FIELD_ADDRESS,	/* host:port, or one of words */
	LG_FIELD_PATH,		/* min to max bytes */
	LG_FIELD_ETHERTYPE,	/* num: the number, 0 for 802.3 with a length */
	LG_FIELD_TCP_FLAGS,	/* num: those that must be set, and << 8 those looked at */
	/* what these mean depends on other keys, so collecting checks only their kind; one with an s may be a single value or a list */
	LG_FIELD_PREFIXES,	/* min to max of them, a list */
	LG_FIELD_ADDRESSES,	/* likewise, host:port */
	LG_FIELD_LISTED,	/* a list of prefixes and of {file: path} */
	LG_FIELD_MATCH,		/* a mapping with the keys of rules[].match */
	LG_FIELD_IFNAMES,
	LG_FIELD_TAGS,
	LG_FIELD_ICMP_TYPES,
	LG_FIELD_PORTS,
	LG_FIELD_PREFIX,
	LG_FIELD_VALUES,	/* min to max texts, a list */
	LG_FIELD_ENTRIES,	/* min to max of names and of {key, value or value_set} */
	LG_FIELD_TEXTS,
	LG_FIELD_TEXT,
	LG_FIELD_LIMIT,
	LG_FIELD_AMOUNT,
};

enum lg_field_roles { LG_FIELD_NODE = 1, LG_FIELD_REGION = 2, LG_FIELD_BOTH = 3 };

struct lg_field {
	const char *path;
	enum lg_field_type type;
	uint64_t min;
	uint64_t max;
	const char *def;	/* NULL: required; "", "(words)" or the value */
	const char *words;
	const char *help;
	enum lg_field_roles roles;
};

enum lg_rules_field {
#define LG_RULES_FIELD(id, ...) LG_RF_##id,
#include "rules/fields.def"
	_LG_RF_N
};

enum lg_config_field {
#define LG_CONFIG_FIELD(id, ...) LG_CF_##id,
#include "rules/fields.def"
	_LG_CF_N
};

extern const struct lg_field lg_rules_fields[_LG_RF_N];
extern const struct lg_field lg_config_fields[_LG_CF_N];

/* Where a key stands in one mapping. */
struct lg_field_at {
	const struct lg_node *node;	/* NULL: not written */
	uint64_t num;			/* of the types that have one: what is written, else the default */
};

/**
 * lg_fields_collect() - read a mapping and those below it, but not the items of lists
 * @fields, @n: one of the tables above
 * @prefix:     of the paths of this mapping's keys: "" or "rules[]"
 * @role:       whose keys may be written
 * @ret_at:     n entries, all set
 *
 * Unknown keys, keys of the other role, missing ones and values of the wrong type or out of range are complaints.
 */
int lg_fields_collect(const struct lg_field *fields, size_t n, const char *prefix, enum lg_field_roles role,
		      const struct lg_node *map, struct lg_field_at *ret_at, struct lg_complaint *c);

/* "lease.low_water: text" at the node. */
__attribute__((format(printf, 4, 5))) int lg_field_complain(const struct lg_field *field, const struct lg_node *node,
							    struct lg_complaint *c, const char *fmt, ...);

/* The path as a reader of the file knows it: without what stands for list items. */
const char *lg_field_label(const struct lg_field *field);

/* "a limit such as 10000/1m": what is to be written there. */
const char *lg_field_type_text(const struct lg_field *field);

/* host:port or [v6]:port, with a port of 1 to 65535 and room in LG_ADDRESS_LEN. 0, or -EINVAL with c->text. */
int lg_address_check(const char *text, struct lg_complaint *c);

/* Is it a name as rules, regions and hosts may have? */
bool lg_name_is_valid(const char *text);

/* Of n texts the one that is likeliest meant, or NULL. */
const char *lg_nearest(const char *text, const char *(*at)(const void *arg, size_t i), const void *arg, size_t n);

/* Does it stand for every name that fits, as in a shell: * ? [...]? */
bool lg_ifname_is_pattern(const char *text);

/* Is it a name that an interface can have? 0, or -EINVAL with the complaint. */
int lg_ifname_check(const struct lg_field *field, const struct lg_node *node, struct lg_complaint *c);
