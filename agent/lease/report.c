// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/report.h"

#include <string.h>

#include "base/pool.h"
#include "lease/age.h"
#include "lease/arith.h"

void lg_report_init(struct lg_report *r, uint32_t last_id)
{
	*r = (struct lg_report){ .last_id = last_id };
}

void lg_report_fini(struct lg_report *r)
{
	lg_pool_put(r->v, r->cap * sizeof(*r->v));
	r->v = NULL;
	r->n = r->cap = 0;
}

static bool grow(struct lg_report *r)
{
	uint16_t cap = r->cap ? (uint16_t)(2 * r->cap) : 4;
	struct lg_report_slot *v;

	if (r->cap >= LG_SLOTS_MAX)
		return false;
	v = lg_pool_get(cap * sizeof(*v));
	if (!v)
		return false;
	if (r->n)
		memcpy(v, r->v, r->n * sizeof(*v));
	lg_pool_put(r->v, r->cap * sizeof(*r->v));
	r->v = v;
	r->cap = cap;
	return true;
}

/* The two oldest become one that ended with the later of them. Ids: sent slots come first, so the second's is the larger one or open. */
static void merge_oldest(struct lg_report *r)
{
	r->v[1].tok += r->v[0].tok;
	r->v[1].end_ns = lg_max_u64(r->v[0].end_ns, r->v[1].end_ns);
	memmove(&r->v[0], &r->v[1], (r->n - 1) * sizeof(*r->v));
	r->n--;
}

void lg_report_add(struct lg_report *r, uint64_t end_ns, uint64_t tok, uint64_t slot_ns)
{
	uint32_t i;

	if (tok == 0)
		return;
	for (i = r->n; i > 0 && r->v[i - 1].id == 0 && r->v[i - 1].end_ns > end_ns; i--)
		;
	if (i > 0 && r->v[i - 1].id == 0 && r->v[i - 1].end_ns / slot_ns == end_ns / slot_ns) {
		r->v[i - 1].end_ns = end_ns;
		r->v[i - 1].tok += tok;
		return;
	}
	if (i < r->n && r->v[i].end_ns / slot_ns == end_ns / slot_ns) {
		r->v[i].tok += tok;
		return;
	}
	if (r->n == r->cap && !grow(r)) {
		if (r->n < 2)
			return;
		merge_oldest(r);
		i = i > 0 ? i - 1 : 0;
	}
	memmove(&r->v[i + 1], &r->v[i], (r->n - i) * sizeof(*r->v));
	r->v[i] = (struct lg_report_slot){ .end_ns = end_ns, .tok = tok };
	r->n++;
}

void lg_report_fill(struct lg_report *r, struct lg_ask *ask, uint64_t now_ns)
{
	ask->n_slots = r->n;
	for (uint32_t i = 0; i < r->n; i++) {
		if (r->v[i].id == 0)
			r->v[i].id = ++r->last_id;
		ask->slots[i] = (struct lg_slot){
			.id = r->v[i].id,
			.age_ms = lg_age_ms(r->v[i].end_ns, now_ns),
			.tok = r->v[i].tok,
		};
	}
}

void lg_report_ack(struct lg_report *r, uint64_t id)
{
	uint16_t n = 0;

	while (n < r->n && r->v[n].id != 0 && r->v[n].id <= id)
		n++;
	if (!n)
		return;
	memmove(&r->v[0], &r->v[n], (r->n - n) * sizeof(*r->v));
	r->n = (uint16_t)(r->n - n);
}

void lg_report_clear(struct lg_report *r)
{
	r->n = 0;
}
