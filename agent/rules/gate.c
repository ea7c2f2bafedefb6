// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/num.h"
#include "rules/fields.h"

const struct lg_gate_node lg_gate_everybody = { .everybody = true }, lg_gate_nobody = { .everybody = false };

bool lg_gate_is_set(const struct lg_gate *gate)
{
	return gate->permille || gate->label[0];
}

bool lg_gate_takes(const struct lg_gate *gate, const struct lg_gate_node *node)
{
	if (!lg_gate_is_set(gate))
		return true;
	if (!node->name)
		return node->everybody;
	if (gate->permille)
		return XXH3_64bits(node->name, strlen(node->name)) % 1000 < gate->permille;
	for (size_t i = 0; i < node->n_labels; i++)
		if (strcmp(node->labels[i].name, gate->label) == 0)
			return strcmp(node->labels[i].value, gate->value) == 0;
	return false;
}

bool lg_gate_are_apart(const struct lg_gate *a, const struct lg_gate *b)
{
	return a->label[0] && strcmp(a->label, b->label) == 0 && strcmp(a->value, b->value) != 0;
}

void lg_gate_text(const struct lg_gate *gate, char *buf, size_t len)
{
	if (gate->permille % 10)
		snprintf(buf, len, "%" PRIu32 ".%" PRIu32 "%% of the nodes", gate->permille / 10, gate->permille % 10);
	else if (gate->permille)
		snprintf(buf, len, "%" PRIu32 "%% of the nodes", gate->permille / 10);
	else if (gate->label[0])
		snprintf(buf, len, "nodes with %s=%s", gate->label, gate->value);
	else
		snprintf(buf, len, "all nodes");
}

int lg_gate_parse(const char *text, struct lg_gate *ret, struct lg_complaint *c)
{
	const char *equals = strchr(text, '=');
	struct lg_gate gate = { 0 };

	if (!equals) {
		if (lg_permille_parse(text, 1, 1000, &gate.permille, c) < 0)
			return lg_complain(c, "\"%.64s\" is neither a percentage of the nodes such as 10%% nor a label with its value such as "
					      "tier=canary", text);
		*ret = gate;
		return 0;
	}
	snprintf(gate.label, sizeof(gate.label), "%.*s", (int)(equals - text), text);
	snprintf(gate.value, sizeof(gate.value), "%s", equals + 1);
	if (!lg_name_is_valid(gate.label) || !lg_name_is_valid(gate.value) || strlen(gate.label) + strlen(gate.value) + 1 != strlen(text))
		return lg_complain(c, "\"%.130s\" is no label with its value such as tier=canary: each is 1 to %d of A-Z a-z 0-9 . _ -", text,
				   LG_NAME_LEN - 1);
	*ret = gate;
	return 0;
}
