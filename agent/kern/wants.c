// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/judge.h"

#include <string.h>

#include "rules/action.h"
#include "rules/config.h"
#include "rules/rule.h"

static bool is_on(const struct lg_rule_def *rule, const char *ifname)
{
	for (size_t i = 0; i < rule->match.n_interfaces; i++)
		if (strcmp(rule->match.interfaces[i], ifname) == 0)
			return true;
	return rule->match.n_interfaces == 0;
}

static bool looks_at_vlan(const struct lg_rule_def *rule)
{
	const struct lg_match *m = &rule->match;

	return m->vlans.untagged || m->vlans.ids.n || m->inner_vlans.untagged || m->inner_vlans.ids.n ||
	       (rule->key.parts & (LG_KEY_VLAN | LG_KEY_INNER_VLAN));
}

struct lg_interface_wants lg_interface_wants_of(const struct lg_interface *config, const char *ifname, const struct lg_rules *rules)
{
	struct lg_interface_wants w = {
		.is_configured = true,
		.xdp_native = config->xdp == LG_XDP_NATIVE || config->xdp == LG_XDP_AUTO,
		.xdp_generic = config->xdp == LG_XDP_GENERIC,
		.may_fall_back = config->xdp == LG_XDP_AUTO && !config->require_native,
		.may_wait = config->wait,
		.is_pattern = config->is_pattern,
		.shared = config->shared,
		.tc = config->tc,
		.tc_egress = config->tc_egress,
	};

	for (size_t i = 0; rules && i < rules->n; i++) {
		const struct lg_rule_def *rule = &rules->v[i];

		if (!is_on(rule, ifname))
			continue;
		/* What comes in is judged at XDP, and rules for what goes out are not asked there. */
		w.looks_at_vlan |= looks_at_vlan(rule) && rule->match.directions != 2;
		w.paces |= w.tc_egress && rule->action == LG_ACTION_PACE && lg_rule_acts(rule);
	}
	return w;
}
