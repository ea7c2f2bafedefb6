// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_meter.h"

#include <assert.h>
#include <stdlib.h>

void sim_meter_init(struct sim_meter *m, const struct lg_terms *terms)
{
	*m = (struct sim_meter){
		.window = terms->algorithm == LG_SLIDING_WINDOW || terms->algorithm == LG_SLIDING_LOG,
		.fixed = terms->algorithm == LG_FIXED_WINDOW,
		.limit_tok = terms->rule_limit_tok,
		.per_ns = terms->per_ns,
		.budget_tok = terms->rule_budget_tok,
	};
}

void sim_meter_fini(struct sim_meter *m)
{
	free(m->log);
	m->log = NULL;
}

/* The number of the fixed window that now_ns is in. */
static uint64_t fixed_window(const struct sim_meter *m, uint64_t now_ns)
{
	return (now_ns + m->per_ns - m->origin_ns % m->per_ns) / m->per_ns;
}

static void advance(struct sim_meter *m, uint64_t now_ns)
{
	unsigned __int128 drained = (unsigned __int128)m->limit_tok * (now_ns - m->at_ns);

	if (m->fixed && fixed_window(m, now_ns) != fixed_window(m, m->at_ns))
		m->sum_tok = 0;
	if (!m->window && !m->fixed)
		m->queue = m->queue > drained ? m->queue - drained : 0;
	while (m->n && m->log[m->head].at_ns + m->per_ns <= now_ns) {
		m->sum_tok -= m->log[m->head].tok;
		m->head = (m->head + 1) & (m->cap - 1);
		m->n--;
	}
	m->at_ns = now_ns;
}

uint64_t sim_meter_level(struct sim_meter *m, uint64_t now_ns)
{
	advance(m, now_ns);
	return m->window || m->fixed ? m->sum_tok : (uint64_t)((m->queue + m->per_ns - 1) / m->per_ns);
}

static void grow(struct sim_meter *m)
{
	size_t cap = m->cap ? 2 * m->cap : 1024;
	__typeof__(m->log) log = malloc(cap * sizeof(*log));

	assert(log);
	for (size_t i = 0; i < m->n; i++)
		log[i] = m->log[(m->head + i) & (m->cap - 1)];
	free(m->log);
	m->log = log;
	m->cap = cap;
	m->head = 0;
}

void sim_meter_add(struct sim_meter *m, uint64_t tok, uint64_t now_ns)
{
	advance(m, now_ns);
	if (!m->window && !m->fixed) {
		m->queue += (unsigned __int128)tok * m->per_ns;
		return;
	}
	m->sum_tok += tok;
	if (m->fixed)
		return;
	if (m->n == m->cap)
		grow(m);
	m->log[(m->head + m->n) & (m->cap - 1)].at_ns = now_ns;
	m->log[(m->head + m->n) & (m->cap - 1)].tok = tok;
	m->n++;
}

int64_t sim_meter_over(struct sim_meter *m, uint64_t now_ns)
{
	return (int64_t)sim_meter_level(m, now_ns) - (int64_t)m->budget_tok;
}

bool sim_meter_admit(struct sim_meter *m, uint64_t tok, uint64_t now_ns)
{
	advance(m, now_ns);
	if (m->window || m->fixed ? m->sum_tok + tok > m->budget_tok
				  : m->queue + (unsigned __int128)tok * m->per_ns > (unsigned __int128)m->budget_tok * m->per_ns)
		return false;
	sim_meter_add(m, tok, now_ns);
	return true;
}
