/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Which nodes something is for: a version of the rules, an override, a rule. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "leasegate/abi.h"

struct lg_gate {
	uint32_t permille;		/* of all nodes, by a hash of their names; 0: it is not by number */
	char label[LG_NAME_LEN];	/* nodes whose configuration has this label with this value; "": it is not by label */
	char value[LG_NAME_LEN];
};

struct lg_label {
	char name[LG_NAME_LEN];
	char value[LG_NAME_LEN];
};

/* Who asks. Without a name: everybody is taken, or nobody who is not meant by all. */
struct lg_gate_node {
	const char *name;
	const struct lg_label *labels;
	size_t n_labels;
	bool everybody;
};
extern const struct lg_gate_node lg_gate_everybody, lg_gate_nobody;

/* All zeros: it is for all. */
bool lg_gate_is_set(const struct lg_gate *gate);
bool lg_gate_takes(const struct lg_gate *gate, const struct lg_gate_node *node);
/* No node can be taken by both. */
bool lg_gate_are_apart(const struct lg_gate *a, const struct lg_gate *b);

#define LG_GATE_TEXT_LEN 160
/* "10% of the nodes", "nodes with tier=canary", "all nodes" */
void lg_gate_text(const struct lg_gate *gate, char *buf, size_t len);
/* "10%", "tier=canary". 0, or -EINVAL with c->text. */
int lg_gate_parse(const char *text, struct lg_gate *ret, struct lg_complaint *c);
