/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * `leasegate preflight`: what preflight.c finds, and preflight_show.c tells. */
#pragma once

#include "ctl/ctl.h"
#include "kern/judge.h"

/* All that was looked at. */
struct lg_preflight {
	struct lg_machine_facts machine;
	struct lg_instance_facts instance;
	struct lg_interface_facts *interfaces;
	struct lg_interface_wants *wants;
	size_t n_interfaces;
	struct lg_findings findings;
};

/* As a table for people, or as JSON. Returns the exit code. */
int lg_preflight_show(const struct lg_ctl *ctl, const struct lg_preflight *p);
