/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The search for a schedule that breaks the law. The environment says how far it goes: SEEDS how many (200),
 * FIRST_SEED where to begin, LAW which law to search, FIRST_BROKEN=1 that one broken seed is enough. A seed that
 * fails is printed with the line that runs it alone, the first few with the smallest plan that still fails. */
#pragma once

#include <stdint.h>

#include "rules/rule.h"

/* law: its name for LAW. subs: regions below each region, 0 none. Returns how many seeds broke it; -1: LAW is another one. */
int64_t sim_search(enum lg_algorithm algorithm, enum lg_lease_kind kind, uint32_t subs, const char *law);
