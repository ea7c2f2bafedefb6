/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A random cluster with random traffic and faults, all from one seed. Shared by the tests that search for a broken law. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/sim.h"

/* The seed's cluster with its faults planned, ready to run. algorithm: LG_TOKEN_BUCKET or LG_SLIDING_WINDOW. mutant NULL: none. */
int sim_plan_new(uint64_t seed, enum lg_algorithm algorithm, const struct sim_mutant *mutant, struct sim **ret_sim);
/* One line that says what the plan is. */
void sim_plan_describe(const struct sim *s, char *buf, size_t len);
