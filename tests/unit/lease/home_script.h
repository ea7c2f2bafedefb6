/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A script of one key at its home, for the tests of it. */
#pragma once

#include "lease/home.h"
#include "tests/unit/lease/lease_test.h"

struct script {
	struct lg_terms terms;
	struct lg_lessor lessor;
	struct lg_home *home;
	struct grants out;
	struct lg_home_effects fx;
};

static inline void begin(struct script *s, const struct lg_terms *terms, const struct lg_succession *succession)
{
	*s = (struct script){ .terms = *terms };
	s->fx = (struct lg_home_effects){ .arg = &s->out, .grant = note_grant };
	s->lessor = lessor_of(&s->terms, 1);
	s->lessor.succession = succession;
	assert_int_equal(lg_home_new(&s->lessor, T0, &s->home), 0);
}

static inline void end(struct script *s)
{
	s->home = lg_home_free(s->home);
}

/* A rule changes: its keys are told, then the lessor. */
static inline void change(struct script *s, const struct lg_terms *terms, uint64_t at_ms)
{
	s->out.n = 0;
	lg_home_terms(s->home, terms, T0 + at_ms * MS, &s->fx);
	s->terms = *terms;
}

static inline const struct lg_grant *tell(struct script *s, uint32_t holder, const struct lg_ask *ask, uint64_t at_ms)
{
	s->out.n = 0;
	lg_home_ask(s->home, holder, 1, ask, T0 + at_ms * MS, &s->fx);
	return s->out.n ? last_grant(&s->out, holder) : NULL;
}

static inline struct lg_home_view look(struct script *s, uint64_t at_ms)
{
	struct lg_home_view v;

	lg_home_view(s->home, T0 + at_ms * MS, &v);
	return v;
}

static inline void tick(struct script *s, uint64_t at_ms)
{
	s->out.n = 0;
	lg_home_tick(s->home, T0 + at_ms * MS, &s->fx);
}

/* n holders of an earlier life, which ended at T0. */
static inline struct lg_succession *heirs(uint64_t n)
{
	struct lg_succession *s = NULL;

	assert_int_equal(lg_succession_new(T0, &s), 0);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(lg_succession_list(s, i), 0);
	return s;
}
