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

/* Most that a rules file and those that its lists name take together, and longest such file. */
#define LG_RULES_PACKED_MAX (64u << 20)
#define LG_LIST_BYTES_MAX (16u << 20)

/* A text without any rule. */
#define LG_RULES_NONE "rules: []\n"

int lg_rules_read(const char *path, struct lg_rules **ret_rules, struct lg_complaint *c);
/* Files that lists name are looked for in the folder of `name`, unless the text is packed. */
int lg_rules_parse(const char *text, size_t len, const char *name, struct lg_rules **ret_rules, struct lg_complaint *c);

/* The same, with the tree of the text changed before it is read. edit: 0, or a negative errno, which is returned. */
struct lg_tree;
int lg_rules_parse_edited(const char *text, size_t len, const char *name, int (*edit)(void *arg, struct lg_tree *tree), void *arg,
			  struct lg_rules **ret_rules, struct lg_complaint *c);

/*
 * One text of a rules file and the files that its lists name, as they were read: parsed anew, wherever it lies, it is the same rules.
 * *text is freed and replaced; with no such files, or if it is such a text already, it stays as it is.
 */
int lg_rules_pack(const struct lg_rules *rules, char **text, size_t *len);
