// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/internal.h"

#include "rules/config.h"

struct lg_kern_options lg_kern_options_of(const struct lg_config *config)
{
	return (struct lg_kern_options){
		.instance = config->instance,
		.max_keys = config->max_keys,
		.line_keys = config->line_keys,
		.log_keys = config->log_keys,
		.max_conns = config->max_conns,
		.max_rules = config->max_rules,
	};
}

const char *lg_kern_dir(const struct lg_kern *kern)
{
	return kern->dir;
}
