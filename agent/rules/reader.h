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
	struct lg_complaint *c;
};

bool lg_is_written(const struct lg_reader *r, enum lg_rules_field id);
const char *lg_text_of(const struct lg_reader *r, enum lg_rules_field id);
/* "match.protocol: text" at the key's value. */
__attribute__((format(printf, 3, 4))) int lg_reader_complain(struct lg_reader *r, enum lg_rules_field id, const char *fmt, ...);

/* The sets of the file into rules->sets; node may be NULL. */
int lg_sets_read(const struct lg_node *node, struct lg_rules *rules, struct lg_complaint *c);
/* match, after scope and class; key, after match. */
int lg_match_read(struct lg_reader *r);
int lg_key_read(struct lg_reader *r);
/* action, after match, limit and table. */
int lg_action_read(struct lg_reader *r);
