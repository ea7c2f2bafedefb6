/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A random cluster with random traffic and faults, all from one seed. Shared by the tests that search for a broken law. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/lib/sim.h"

struct sim_plan_fault {
	enum sim_fault_kind kind;
	uint32_t index;
	uint64_t at_ns;
	uint64_t for_ns;
};

struct sim_plan {
	struct sim_config c;
	uint32_t n_faults;
	struct sim_plan_fault faults[SIM_FAULTS_MAX];
};

/* What a seed says. subs: regions below each region; 0: hosts are served by the regions of the home. */
void sim_plan_draw(uint64_t seed, enum lg_algorithm algorithm, uint32_t subs, struct sim_plan *ret_plan);
/* The same where the home lends the limit in parts: four times as short, and less of a bucket. */
void sim_plan_of_parts(struct sim_plan *plan);
/* Ready to run. */
int sim_plan_start(const struct sim_plan *plan, struct sim **ret_sim);
/* Both. mutant NULL: none. */
int sim_plan_new(uint64_t seed, enum lg_algorithm algorithm, const struct sim_mutant *mutant, struct sim **ret_sim);
/* A few lines that say what the plan is. */
void sim_plan_describe(const struct sim_plan *plan, char *buf, size_t len);
/* A plan breaks a law; the smallest that is easily found and still does: fewer faults, hosts and regions, shorter, a better network.
 * ret_broken: what it breaks. Returns how many plans were tried. */
uint32_t sim_plan_shrink(struct sim_plan *plan, char *ret_broken, size_t len);
