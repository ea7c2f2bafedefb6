// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/internal.h"

#include "rules/config.h"

/* Those that no interface of the configuration may be attached at, be it there or not: who has dropped privileges loads no more. */
static unsigned int unused_hooks(const struct lg_config *config)
{
	unsigned int used = 0;

	for (size_t i = 0; i < config->n_interfaces; i++) {
		const struct lg_interface *at = &config->interfaces[i];

		used |= at->xdp != LG_XDP_OFF && !at->shared ? 1u << LG_HOOK_XDP : 0;
		used |= at->tc ? 1u << LG_HOOK_TC_INGRESS : 0;
		used |= at->tc_egress ? 1u << LG_HOOK_TC_EGRESS : 0;
	}
	return ~used & ((1u << _LG_HOOK_N) - 1);
}

struct lg_kern_options lg_kern_options_of(const struct lg_config *config)
{
	return (struct lg_kern_options){
		.instance = config->instance,
		.max_keys = config->max_keys,
		.line_keys = config->line_keys,
		.log_keys = config->log_keys,
		.max_conns = config->max_conns,
		.max_rules = config->max_rules,
		.unused_hooks = unused_hooks(config),
	};
}

const char *lg_kern_dir(const struct lg_kern *kern)
{
	return kern->dir;
}
