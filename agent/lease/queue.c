// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counted in tok * per_ns, limit_tok times the time passed is subtracted as it is: 128 bits, no division, no remainder to lose.
 *
 * Tokens told of late wait from when they were spent: the times without work since then are theirs, earliest first, just as it would have
 * happened. A time that is forgotten, there is room for a few, or that had another rate, leaves the queue longer than the truth.
 */
#include "lease/queue.h"

#include <string.h>

#include "lease/arith.h"

typedef unsigned __int128 u128;

void lg_queue_init(struct lg_queue *q, uint64_t limit_tok, uint64_t per_ns, uint64_t now_ns)
{
	*q = (struct lg_queue){ .at_ns = now_ns, .limit_tok = limit_tok, .per_ns = lg_max_u64(per_ns, 1) };
}

static void idle_remove(struct lg_queue *q, uint32_t i)
{
	q->n_idle--;
	memmove(&q->idle[i], &q->idle[i + 1], (q->n_idle - i) * sizeof(q->idle[0]));
}

static void idle_append(struct lg_queue *q, uint64_t from_ns, uint64_t to_ns)
{
	if (q->n_idle && q->idle[q->n_idle - 1].to_ns == from_ns) {
		q->idle[q->n_idle - 1].to_ns = to_ns;
		return;
	}
	if (q->n_idle == LG_QUEUE_IDLE_MAX)
		idle_remove(q, 0);
	q->idle[q->n_idle].from_ns = from_ns;
	q->idle[q->n_idle].to_ns = to_ns;
	q->n_idle++;
}

static void advance(struct lg_queue *q, uint64_t now_ns)
{
	u128 worked;

	if (now_ns <= q->at_ns)
		return;
	worked = (u128)q->limit_tok * (now_ns - q->at_ns);
	if (worked < q->level || !q->limit_tok) {
		q->level -= worked;
	} else {
		uint64_t idle_ns = (uint64_t)((worked - q->level) / q->limit_tok);

		q->level = 0;
		if (idle_ns)
			idle_append(q, now_ns - idle_ns, now_ns);
	}
	q->at_ns = now_ns;
}

/* Works off what it can of work in the times without any since at_ns, which are shorter then; what lies before is forgotten with them. */
static u128 catch_up(struct lg_queue *q, u128 work, uint64_t at_ns)
{
	for (uint32_t i = 0; i < q->n_idle && work;) {
		uint64_t from_ns = lg_max_u64(q->idle[i].from_ns, at_ns), to_ns = q->idle[i].to_ns;
		u128 most = from_ns < to_ns ? (u128)(to_ns - from_ns) * q->limit_tok : 0;

		if (!most) {
			i++;
		} else if (work >= most) {
			work -= most;
			q->idle[i].to_ns = from_ns;
			if (q->idle[i].from_ns == from_ns)
				idle_remove(q, i);
		} else {
			q->idle[i].from_ns = from_ns + (uint64_t)((work + q->limit_tok - 1) / q->limit_tok);
			work = 0;
		}
	}
	return work;
}

void lg_queue_pace(struct lg_queue *q, uint64_t limit_tok, uint64_t per_ns, uint64_t now_ns)
{
	u128 tok, rest;

	per_ns = lg_max_u64(per_ns, 1);
	advance(q, now_ns);
	tok = q->level / q->per_ns;
	rest = q->level % q->per_ns;
	q->level = tok * per_ns + (rest * per_ns + q->per_ns - 1) / q->per_ns;
	q->limit_tok = limit_tok;
	q->per_ns = per_ns;
	q->n_idle = 0;
}

void lg_queue_add(struct lg_queue *q, uint64_t tok, uint64_t at_ns, uint64_t now_ns)
{
	advance(q, now_ns);
	q->level += catch_up(q, (u128)tok * q->per_ns, at_ns);
}

void lg_queue_drop(struct lg_queue *q, uint64_t tok, uint64_t now_ns)
{
	u128 less = (u128)tok * q->per_ns;

	advance(q, now_ns);
	q->level = q->level > less ? q->level - less : 0;
}

uint64_t lg_queue_tok(struct lg_queue *q, uint64_t now_ns)
{
	u128 tok;

	advance(q, now_ns);
	tok = q->level / q->per_ns + (q->level % q->per_ns != 0);
	return tok > UINT64_MAX ? UINT64_MAX : (uint64_t)tok;
}
