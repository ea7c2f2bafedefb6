// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether packets that rules hold back are held back: that is fq's part, and whoever changes the queueing of an interface may take it away. */
#include "role/node.h"

#include <string.h>

#include "base/log.h"
#include "rules/action.h"

/* The first rule that holds back what leaves by an interface, or NULL. */
static const struct lg_rule_def *pacing_rule(const struct lg_node *n, const char *ifname)
{
	for (size_t i = 0; n->rules && i < n->rules->n; i++) {
		const struct lg_rule_def *rule = &n->rules->v[i];
		bool is_named = rule->match.n_interfaces == 0;

		for (size_t j = 0; j < rule->match.n_interfaces; j++)
			is_named |= strcmp(rule->match.interfaces[j], ifname) == 0;
		if (is_named && rule->action == LG_ACTION_PACE && lg_rule_acts(rule))
			return rule;
	}
	return NULL;
}

void lg_node_pace_look(struct lg_node *n)
{
	for (size_t i = 0; i < n->n_interfaces; i++) {
		struct lg_node_interface *in = &n->interfaces[i];
		const struct lg_rule_def *rule = in->attached && in->config->tc_egress ? pacing_rule(n, in->name) : NULL;
		char other[LG_QDISC_LEN] = "";
		int r = rule ? lg_qdisc_is_fq(in->name, other) : 1;

		if (r < 0 || !r == in->is_without_fq)
			continue;
		in->is_without_fq = !r;
		if (r)
			lg_info("%s: what rules hold back there is held back again", in->name);
		else
			lg_warn("%s: rule \"%s\" holds packets back there, but its queueing discipline is %s and not fq: they leave at once; "
				"tc qdisc replace dev %s root fq",
				in->name, rule->name, other, in->name);
	}
}
