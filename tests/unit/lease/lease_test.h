/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the tests of the lease core share: time, terms, messages, and a note of what came out. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lease/lessor.h"
#include "lease/msg.h"
#include "lease/terms.h"

#define MS 1000000ull
#define S (1000 * MS)
#define T0 (1000 * S)	/* scripts begin here: clocks do not begin at 0 */

#define TEST(name) static void name(void **state __attribute__((unused)))

/* Terms with what a script needs written down; leases of 10 s, 1 s of grace, everything may be out. */
static inline struct lg_terms terms_of(enum lg_algorithm algorithm, uint64_t limit_tok, uint64_t per_ns, uint64_t budget_tok)
{
	return (struct lg_terms){
		.algorithm = algorithm,
		.limit_tok = limit_tok,
		.per_ns = per_ns,
		.budget_tok = budget_tok,
		.regions = 3,
		.hosts = 12,
		.max_outstanding_tok = budget_tok,
		.home_tick_ns = 100 * MS,
		.region_tick_ns = 10 * MS,
		.host_tick_ns = 20 * MS,
		.region_period_ns = 3 * S,
		.host_period_ns = 750 * MS,
		.slot_ns = 100 * MS,
		.ttl_ns = 10 * S,
		.grace_ns = 1 * S,
	};
}

/* The first life of a lessor. */
static inline struct lg_lessor lessor_of(const struct lg_terms *terms, uint64_t seed)
{
	return (struct lg_lessor){ .terms = terms, .epoch = 1, .rand = seed };
}

/* Grants as they went out. */
struct grants {
	size_t n;
	struct {
		uint32_t holder;
		struct lg_grant grant;
	} v[64];
};

static inline void note_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct grants *g = arg;

	assert_true(g->n < 64);
	g->v[g->n].holder = holder;
	g->v[g->n].grant = *grant;
	g->n++;
}

/* The last grant to a holder; fails if there is none. */
static inline const struct lg_grant *last_grant(const struct grants *g, uint32_t holder)
{
	for (size_t i = g->n; i-- > 0;)
		if (g->v[i].holder == holder)
			return &g->v[i].grant;
	fail_msg("no grant to holder %u", holder);
	return NULL;
}

/* Messages as they went out. */
struct asks {
	size_t n;
	struct lg_ask v[32];
};

static inline void note_ask(void *arg, const struct lg_ask *ask)
{
	struct asks *a = arg;

	assert_true(a->n < 32);
	memcpy(&a->v[a->n], ask, offsetof(struct lg_ask, slots) + ask->n_slots * sizeof(ask->slots[0]));
	a->v[a->n].n_history = ask->n_history;
	memcpy(a->v[a->n].history, ask->history, ask->n_history * sizeof(ask->history[0]));
	a->n++;
}

/* A request by a holder in generation 0, epoch 1. */
static inline struct lg_ask request_of(uint64_t seq, uint64_t want_tok)
{
	return (struct lg_ask){ .seq = seq, .life = 1, .epoch = 1, .request = true, .want_tok = want_tok };
}

/* A report on a lease, epoch 1. */
static inline struct lg_ask report_of(uint64_t seq, uint32_t generation, uint64_t granted_tok, uint64_t spent_tok, uint64_t returned_tok)
{
	return (struct lg_ask){ .seq = seq, .life = 1, .epoch = 1, .generation = generation, .granted_tok = granted_tok,
				.spent_tok = spent_tok, .returned_tok = returned_tok };
}

/* It asks for more besides. */
static inline struct lg_ask wanting(struct lg_ask ask, uint64_t want_tok, uint64_t demand_mtps)
{
	ask.request = true;
	ask.want_tok = want_tok;
	ask.demand_mtps = demand_mtps;
	return ask;
}
