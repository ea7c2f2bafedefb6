// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/slots.h"

#include <errno.h>
#include <stdlib.h>

#include "lease/age.h"
#include "lease/msg.h"
#include "lease/arith.h"

#define FIRST_CAP 8u
#define CAP_MAX 2048u

static struct lg_slots_entry *at(const struct lg_slots *s, uint32_t i)
{
	return &s->v[(s->head + i) & (s->cap - 1)];
}

int lg_slots_init(struct lg_slots *s, uint64_t span_ns, uint64_t grain_ns, uint32_t max)
{
	*s = (struct lg_slots){
		.span_ns = span_ns,
		.grain_ns = lg_max_u64(lg_max_u64(grain_ns, span_ns / max + (span_ns % max != 0)), 1),
		.cap = FIRST_CAP,
		.v = calloc(FIRST_CAP, sizeof(*s->v)),
	};
	return s->v ? 0 : -ENOMEM;
}

void lg_slots_fini(struct lg_slots *s)
{
	free(s->v);
	s->v = NULL;
	s->n = 0;
}

size_t lg_slots_bytes(const struct lg_slots *s)
{
	return s->v ? s->cap * sizeof(*s->v) : 0;
}

static bool grow(struct lg_slots *s)
{
	struct lg_slots_entry *v;

	if (s->cap >= CAP_MAX)
		return false;
	v = calloc(2 * (size_t)s->cap, sizeof(*v));
	if (!v)
		return false;
	for (uint32_t i = 0; i < s->n; i++)
		v[i] = *at(s, i);
	free(s->v);
	s->v = v;
	s->head = 0;
	s->cap *= 2;
	return true;
}

/* Puts a new slot before the i-th. Full and unable to grow, the tokens join the next later slot, which may move to their time. */
static void insert(struct lg_slots *s, uint32_t i, uint64_t index, uint64_t tok)
{
	if (s->n == s->cap && !grow(s)) {
		struct lg_slots_entry *e = at(s, i < s->n ? i : s->n - 1);

		e->index = lg_max_u64(e->index, index);
		e->tok += tok;
		return;
	}
	for (uint32_t j = s->n; j > i; j--)
		*at(s, j) = *at(s, j - 1);
	*at(s, i) = (struct lg_slots_entry){ .index = index, .tok = tok };
	s->n++;
}

void lg_slots_add(struct lg_slots *s, uint64_t end_ns, uint64_t tok, uint64_t now_ns)
{
	uint64_t index = end_ns / s->grain_ns + (end_ns % s->grain_ns != 0);
	uint32_t i;

	lg_slots_sum(s, now_ns);
	if (tok == 0 || index * s->grain_ns + s->span_ns <= now_ns)
		return;
	s->sum_tok += tok;
	for (i = s->n; i > 0 && at(s, i - 1)->index > index; i--)
		;
	if (i > 0 && at(s, i - 1)->index == index)
		at(s, i - 1)->tok += tok;
	else
		insert(s, i, index, tok);
}

void lg_slots_add_all(struct lg_slots *s, const struct lg_slots *other, uint64_t now_ns)
{
	for (uint32_t i = 0; i < other->n; i++)
		lg_slots_add(s, at(other, i)->index * other->grain_ns, at(other, i)->tok, now_ns);
}

void lg_slots_clear(struct lg_slots *s)
{
	s->head = s->n = 0;
	s->sum_tok = 0;
}

uint64_t lg_slots_sum(struct lg_slots *s, uint64_t now_ns)
{
	while (s->n && at(s, 0)->index * s->grain_ns + s->span_ns <= now_ns) {
		s->sum_tok -= at(s, 0)->tok;
		s->head = (s->head + 1) & (s->cap - 1);
		s->n--;
	}
	return s->sum_tok;
}

uint64_t lg_slots_last_ns(const struct lg_slots *s)
{
	return s->n ? at(s, s->n - 1)->index * s->grain_ns + s->span_ns : 0;
}

void lg_slots_reshape(struct lg_slots *s, uint64_t span_ns, uint64_t grain_ns, uint32_t max, uint64_t now_ns)
{
	struct lg_slots t;

	if (lg_slots_init(&t, span_ns, grain_ns, max) < 0) {
		s->span_ns = span_ns;
		return;
	}
	lg_slots_add_all(&t, s, now_ns);
	lg_slots_fini(s);
	*s = t;
}

size_t lg_slots_export(struct lg_slots *s, uint64_t now_ns, struct lg_slot *ret_slots, size_t n)
{
	uint64_t early_tok = 0;
	uint32_t first;

	lg_slots_sum(s, now_ns);
	first = s->n > n ? s->n - (uint32_t)n : 0;
	for (uint32_t i = 0; i < first; i++)
		early_tok += at(s, i)->tok;
	for (uint32_t i = first; i < s->n; i++)
		ret_slots[i - first] = (struct lg_slot){
			.id = i - first + 1,
			.age_ms = lg_age_ms(at(s, i)->index * s->grain_ns, now_ns),
			.tok = at(s, i)->tok + (i == first ? early_tok : 0),
		};
	return s->n - first;
}
