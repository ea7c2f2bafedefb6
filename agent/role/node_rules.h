/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Rules that a node has from its region. Part of struct lg_node (role/node.h). */
#pragma once

#include <jansson.h>

#include "api/rules_inbox.h"
#include "rules/document.h"

struct lg_node;
struct lg_source;

struct lg_node_rules {
	struct lg_rules_doc *doc;	/* in force; NULL: none yet, or rules are those of a file */
	struct lg_rules_stamp refused;	/* newer than that, and not in force here */
	char why[512];
	char file_why[512];		/* why the file that counts until there is a version does not; "" otherwise */
	struct lg_source *ender;	/* of overrides */
};

/* What a node starts with: the version it had last; without one the file of its configuration, or nothing. */
int lg_node_rules_first(struct lg_node *n, struct lg_rules **ret_rules, struct lg_complaint *c);
/* False: they are the region's, and there is neither a version nor a file that can be used. */
bool lg_node_rules_are_there(const struct lg_node *n);
/* From now on, once the loop is there: overrides end. */
int lg_node_rules_start(struct lg_node *n);
void lg_node_rules_stop(struct lg_node *n);
/* From the region: is it news, and a whole version. arg: struct lg_node. */
bool lg_node_rules_wanted(void *arg, const struct lg_rules_stamp *stamp);
void lg_node_rules_whole(void *arg, const struct lg_rules_inbox *inbox);
void lg_node_rules_say(struct lg_node *n);				/* to the region: what is in force here */
json_t *lg_node_rules_json(const struct lg_node *n);			/* of the version in force; null: rules are those of a file */
/* What was asked for, as it would be compiled now. */
int lg_node_rules_asked(struct lg_node *n, struct lg_rules **ret_rules, struct lg_complaint *c);

/* node_diff.c: what the kernel has against what was asked for. */
json_t *lg_node_rules_diff(struct lg_node *n);
