/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The law, measured exactly: how far what was admitted is from what the limit allows. Knows nothing of leases. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/terms.h"

struct sim_meter {
	bool window;	/* trailing */
	bool fixed;	/* windows one after the other, one of which began at origin_ns */
	uint64_t limit_tok;
	uint64_t per_ns;
	uint64_t budget_tok;
	uint64_t origin_ns;
	unsigned __int128 queue;	/* token bucket: tok * per_ns */
	uint64_t at_ns;
	struct {
		uint64_t at_ns;
		uint64_t tok;
	} *log;				/* window: a ring of what was admitted in it */
	size_t head;
	size_t n;
	size_t cap;
	uint64_t sum_tok;		/* in the window */
};

void sim_meter_init(struct sim_meter *m, const struct lg_terms *terms);
void sim_meter_fini(struct sim_meter *m);
/* What counts against the budget at now_ns: the queue, rounded up, or the sum of the window. */
uint64_t sim_meter_level(struct sim_meter *m, uint64_t now_ns);
void sim_meter_add(struct sim_meter *m, uint64_t tok, uint64_t now_ns);
/* level - budget: above 0 the law is broken. */
int64_t sim_meter_over(struct sim_meter *m, uint64_t now_ns);
/* A limiter that sees everything at once: admits if it may, and counts it. */
bool sim_meter_admit(struct sim_meter *m, uint64_t tok, uint64_t now_ns);
