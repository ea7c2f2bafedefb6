/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rules text -> model. The keys are those of rules/fields.def, each once. Unknown keys are errors with a suggestion, as are
 * duplicates (keys, names, and rules that could not be told apart), bad units, values out of range and combinations that
 * cannot work; each names file, line and column.
 */
#pragma once

#include <stddef.h>

#include "rules/rule.h"

/* Largest rules file accepted. */
#define LG_RULES_BYTES_MAX (1u << 20)

int lg_rules_read(const char *path, struct lg_rules **ret_rules, struct lg_complaint *c);
int lg_rules_parse(const char *text, size_t len, const char *name, struct lg_rules **ret_rules, struct lg_complaint *c);
