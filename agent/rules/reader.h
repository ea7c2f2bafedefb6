/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * One rule being read, and what its parts are read by. Inside rules/ only. */
#pragma once

#include "rules/fields.h"
#include "rules/rule.h"

struct lg_reader {
	struct lg_field_at at[_LG_RF_N]; /* where its keys are */
	struct lg_rule_def *rule;
	const struct lg_rules *rules; /* with the sets of the file */
	struct lg_prefix *own;        /* room for what source and destination say */
	struct lg_request_match **requests; /* and for what a rule says of requests; NULL: it is none */
	struct lg_complaint *c;
};

bool lg_is_written(const struct lg_reader *r, enum lg_rules_field id);
const char *lg_text_of(const struct lg_reader *r, enum lg_rules_field id);
/* "match.protocol: text" at the key's value. */
__attribute__((format(printf, 3, 4))) int lg_reader_complain(struct lg_reader *r, enum lg_rules_field id, const char *fmt, ...);

/* The sets of the file into rules->sets; node may be NULL. */
int lg_sets_read(const struct lg_node *node, struct lg_rules *rules, struct lg_complaint *c);
/* A text in which the files that its lists name may follow, as lg_rules_pack() put them there. */
struct lg_packed {
	const char *name;	/* of the file: the folder of relative names */
	const char *text;	/* the YAML */
	size_t len;
	const char *lists;	/* the first of the files that follow; NULL: they are read from the disk */
	const char *end;
};

void lg_packed_open(const char *text, size_t len, const char *name, struct lg_packed *ret);
/* lists.allow and lists.deny into rules; either node may be NULL. */
int lg_lists_read(const struct lg_node *allow, const struct lg_node *deny, struct lg_packed *packed, struct lg_rules *rules,
		  struct lg_complaint *c);
/* exempt into rules->exemptions; `own` has room for two prefixes of each. */
int lg_exemptions_read(const struct lg_node *list, struct lg_rules *rules, struct lg_prefix *own, struct lg_complaint *c);

/* match, after scope and class; key, after match. */
int lg_match_read(struct lg_reader *r);
int lg_key_read(struct lg_reader *r);
/* The lengths of key.source. */
int lg_key_source_read(struct lg_reader *r);
/* What the match says of requests, after the rest of it; and the key of a rule for requests alone. */
int lg_request_match_read(struct lg_reader *r);
int lg_request_key_read(struct lg_reader *r);
/* A key that is not for requests, of a rule that takes them too. */
int lg_request_key_check(struct lg_reader *r);
/* action, after match, limit and table. */
int lg_action_read(struct lg_reader *r);
