/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a rule does with packets above its limit. */
#pragma once

#include "rules/config.h"
#include "rules/rule.h"

#define LG_ACTION_TEXT_LEN 32

/* "drop", "mark 7", "priority 1:10", "dscp ef", "ecn ce", "reset"... */
void lg_action_text(enum lg_action action, uint32_t value, char *buf, size_t len);

/* Values of the fields of these types: 0 or -EINVAL. A mark is decimal or 0x; a priority also a class as tc(8) writes it, 1:10 in
 * hexadecimal; a DSCP a name such as ef or af41, or 0 to 63. */
int lg_mark_parse(const char *text, uint64_t *ret_mark);
int lg_priority_parse(const char *text, uint64_t *ret_priority);
int lg_dscp_parse(const char *text, uint64_t *ret_dscp);

/* Does it let packets pass that are above the limit, changed? Only TC can do that. */
bool lg_action_marks(const struct lg_rule_def *rule);
/* Is it in force? A rule in shadow mode does nothing. */
bool lg_rule_acts(const struct lg_rule_def *rule);

/* Can every action be carried out where the configuration has the rules enforced? 0, or -EINVAL with the rule and the interface in *c. */
int lg_actions_check(const struct lg_rules *rules, const struct lg_config *config, struct lg_complaint *c);

/* Tokens of the horizon: what a rule that paces may have promised beside its burst. */
uint64_t lg_pace_horizon_tok(const struct lg_rule_def *rule);
