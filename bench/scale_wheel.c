// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Timers of millions of objects, and draws by weight. */
#include <errno.h>
#include <stdlib.h>

#include "bench/scale_model.h"
#include "lease/arith.h"

#define WHEEL_HEAD 0x80000000u
#define FAR_HEAD (WHEEL_HEAD | WHEEL_SLOTS) /* and the number of the list, which is smaller */

int scale_wheel_init(struct scale_wheel *w, uint32_t n, uint32_t now_ms)
{
	w->v = calloc(n, sizeof(*w->v));
	w->now_ms = now_ms;
	for (uint32_t i = 0; i < WHEEL_SLOTS; i++)
		w->near[i] = w->far[i] = SCALE_NONE;
	return w->v ? 0 : -ENOMEM;
}

void scale_wheel_fini(struct scale_wheel *w)
{
	free(w->v);
	w->v = NULL;
}

static uint32_t *head_of(struct scale_wheel *w, uint32_t prev)
{
	uint32_t slot = prev & ~WHEEL_HEAD;

	return slot >= WHEEL_SLOTS ? &w->far[slot - WHEEL_SLOTS] : &w->near[slot];
}

void scale_wheel_disarm(struct scale_wheel *w, uint32_t id)
{
	struct scale_timer *t = &w->v[id];

	if (!t->due_ms)
		return;
	if (t->prev & WHEEL_HEAD)
		*head_of(w, t->prev) = t->next;
	else
		w->v[t->prev].next = t->next;
	if (t->next != SCALE_NONE)
		w->v[t->next].prev = t->prev;
	t->due_ms = 0;
}

static void link_in(struct scale_wheel *w, uint32_t id, uint32_t due_ms)
{
	bool near = due_ms / WHEEL_SLOTS == w->now_ms / WHEEL_SLOTS;
	uint32_t slot = near ? due_ms % WHEEL_SLOTS : due_ms / WHEEL_SLOTS % WHEEL_SLOTS;
	uint32_t *head = near ? &w->near[slot] : &w->far[slot];
	struct scale_timer *t = &w->v[id];

	*t = (struct scale_timer){ .next = *head, .prev = (near ? WHEEL_HEAD : FAR_HEAD) | slot, .due_ms = due_ms };
	if (t->next != SCALE_NONE)
		w->v[t->next].prev = id;
	*head = id;
}

void scale_wheel_arm(struct scale_wheel *w, uint32_t id, uint32_t due_ms)
{
	if (w->v[id].due_ms == due_ms)
		return;
	scale_wheel_disarm(w, id);
	link_in(w, id, due_ms);
}

void scale_wheel_turn(struct scale_wheel *w)
{
	uint32_t id;

	w->now_ms++;
	if (w->now_ms % WHEEL_SLOTS)
		return;
	id = w->far[w->now_ms / WHEEL_SLOTS % WHEEL_SLOTS];
	w->far[w->now_ms / WHEEL_SLOTS % WHEEL_SLOTS] = SCALE_NONE;
	while (id != SCALE_NONE) {
		uint32_t next = w->v[id].next;

		link_in(w, id, w->v[id].due_ms);
		id = next;
	}
}

uint32_t scale_wheel_take(struct scale_wheel *w)
{
	uint32_t id = w->near[w->now_ms % WHEEL_SLOTS];

	if (id != SCALE_NONE)
		scale_wheel_disarm(w, id);
	return id;
}

double scale_random(uint64_t *rand)
{
	return (double)(lg_rand_next(rand) >> 11) * 0x1p-53;
}

uint64_t scale_hash(uint64_t x)
{
	return lg_rand_next(&x);
}

int scale_alias_init(struct scale_alias *a, const double *weights, uint32_t n)
{
	_cleanup_free_ double *part = calloc(n, sizeof(*part));
	_cleanup_free_ uint32_t *small = calloc(n, sizeof(*small)), *large = calloc(n, sizeof(*large));
	uint32_t n_small = 0, n_large = 0;
	double sum = 0;

	*a = (struct scale_alias){ .n = n, .other = calloc(n, sizeof(*a->other)), .stay = calloc(n, sizeof(*a->stay)) };
	if (!part || !small || !large || !a->other || !a->stay)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		sum += weights[i];
	for (uint32_t i = 0; i < n; i++) {
		part[i] = weights[i] / sum * n;
		if (part[i] < 1)
			small[n_small++] = i;
		else
			large[n_large++] = i;
	}
	while (n_small && n_large) {
		uint32_t s = small[--n_small], l = large[n_large - 1];

		a->stay[s] = (float)part[s];
		a->other[s] = l;
		part[l] -= 1 - part[s];
		if (part[l] < 1)
			small[n_small++] = large[--n_large];
	}
	while (n_small)
		a->stay[small[--n_small]] = 1;
	while (n_large)
		a->stay[large[--n_large]] = 1;
	return 0;
}

void scale_alias_fini(struct scale_alias *a)
{
	free(a->other);
	free(a->stay);
}

uint32_t scale_alias_draw(const struct scale_alias *a, uint64_t *rand)
{
	uint64_t x = lg_rand_next(rand);
	uint32_t i = (uint32_t)(((x >> 32) * a->n) >> 32);

	return (float)(x & 0xffffff) * 0x1p-24f < a->stay[i] ? i : a->other[i];
}
