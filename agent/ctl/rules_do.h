/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * `leasegate rules DO ...`: rules at run time, at the server of a region; and what the kernel of a node has against what was asked. */
#pragma once

#include "ctl/ctl.h"

/* argv[0] is what is to be done. */
int lg_ctl_rules_do(const struct lg_ctl *ctl, int argc, char **argv);
