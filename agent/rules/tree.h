/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * YAML text -> a small tree in which every node knows its line and column. One document of scalars, lists and mappings;
 * anchors, aliases, tags and duplicate keys are refused, and size, depth and number of nodes are bounded, so that no text can
 * cost more than its own length.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"

#define LG_TREE_DEPTH_MAX 16	/* deepest nesting; the deepest key of our files is at 6 */
#define LG_TREE_NODES_MAX 65536	/* nodes of one text */
#define LG_TREE_KEYS_MAX 256	/* keys of one mapping */

enum lg_node_kind { LG_NODE_SCALAR, LG_NODE_LIST, LG_NODE_MAP };

struct lg_node {
	enum lg_node_kind kind;
	uint32_t line;			/* from 1 */
	uint32_t col;
	char *text;			/* scalar: its value; "" when there is none */
	char *key;			/* in a mapping: the key of this value */
	uint32_t key_line;
	uint32_t key_col;
	size_t n;			/* list, mapping: how many children */
	struct lg_node *child;		/* the first of them */
	struct lg_node *next;		/* sibling */
	struct lg_node *all;		/* every node of the tree, the order of no meaning */
};

struct lg_tree {
	struct lg_node *root;
	struct lg_node *all;
	size_t n_nodes;
};
struct lg_tree *lg_tree_free(struct lg_tree *tree);
LG_CLEANUP(struct lg_tree, lg_tree_free)

/**
 * lg_tree_parse() - the tree of a text, whose root is a mapping
 * @name:      stands for the file in complaints
 * @max_bytes: longest text accepted
 * @expect:    what belongs into such a file, for the complaint about an empty one
 *
 * c->file is set in any case, so that later complaints about this text need only add their line.
 *
 * Return: 0; -EINVAL with *c filled; -ENOMEM.
 */
int lg_tree_parse(const char *text, size_t len, const char *name, size_t max_bytes, const char *expect,
		  struct lg_tree **ret_tree, struct lg_complaint *c);

/* Reads a whole file of at most max_bytes; a larger one is -EINVAL, else the errno of what failed, *c filled each time. */
int lg_tree_file_read(const char *path, size_t max_bytes, char **ret_text, size_t *ret_len, struct lg_complaint *c);

/* lg_complain() with the place of the node, or of its key. */
__attribute__((format(printf, 3, 4))) int lg_node_complain(const struct lg_node *node, struct lg_complaint *c,
							   const char *fmt, ...);
__attribute__((format(printf, 3, 4))) int lg_node_key_complain(const struct lg_node *node, struct lg_complaint *c,
							       const char *fmt, ...);
