/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Which rules have their buckets in map `lines`, and which of its lines. A part of rules/compile. Pure.
 */
#pragma once

#include "rules/compile.h"

/* Whether a rule belongs there: it says so, or says nothing and can, and there is such a table. */
bool lg_lines_hold(const struct lg_rule_def *def, const struct lg_compile_env *env);

/*
 * Fills the rate and, from the last record of the rule's id, the lines that it has; without them n_lines stays 0 for
 * lg_lines_place(). Returns 0, -EINVAL for numbers outside the bounds, or -ERANGE: levels cannot carry over under this id.
 */
int lg_lines_fill(const struct lg_rule_def *def, const struct lg_compile_env *env, const struct lg_rule *old, struct lg_rule *rule);

/* What a rule has: lines from first_line on. n_lines 0: it needs a place. */
struct lg_lines_user {
	const struct lg_rule_def *def;	/* NULL: of a rule that left the file; stays where it is */
	struct lg_rule *rule;
};

/*
 * Gives lines to those of n users that need a place. Whoever has some keeps them. One that does not say how many keys it wants gets up
 * to LG_LINE_RULE_KEYS, but leaves half of the room to rules to come. Returns 0, or -EINVAL and why in *c.
 */
int lg_lines_place(const struct lg_lines_user *users, size_t n, uint32_t n_lines, struct lg_complaint *c);

/* Keys that a rule says it wants, as whole lines; 0: it does not say. */
uint32_t lg_lines_wanted(const struct lg_rule_def *def);

#define LG_LINE_RULE_KEYS 262144
