/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A host's fallback share of a key, judged by the kernel's own code. Apart from the rest of the simulation, whose names bpf/ has too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "rules/rule.h"

struct sim_share;

/* def: a global rule with fallback share, as the rules file has it. 0 or a negative errno. */
int sim_share_new(const struct lg_rule_def *def, uint32_t regions, uint32_t hosts_in_region, uint64_t grace_ns, struct sim_share **ret_share);
struct sim_share *sim_share_free(struct sim_share *s);
LG_CLEANUP(struct sim_share, sim_share_free)

/* Whether a packet may pass. The lease ended at lease_end_ns, the agent last heard of the key at asked_ns. */
bool sim_share_take(struct sim_share *s, uint64_t lease_end_ns, uint64_t asked_ns, uint64_t cost_tok, bool is_reachable, uint64_t now_ns);
