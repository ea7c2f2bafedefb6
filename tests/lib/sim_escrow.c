// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The store of a home that makes durable what it is going to lend: writes take time, fail, and lose their answers; a process ends between any
 * two of these. Chance of its own, so that all else goes as without. */
#include "tests/lib/sim_world.h"

#include <assert.h>
#include <stdlib.h>

#include "lease/arith.h"

#define WRITE_NS (5 * MS)	/* the mean, there and back alike */
#define LATE_NS (2 * S)

static double chance(struct sim *s)
{
	return (double)(lg_rand_next(&s->store_rand) >> 11) * 0x1p-53;
}

static struct sim_store *store_of(const struct node_home *n)
{
	return &n->sim->stores[n == &n->sim->homes[SIM_DEPOSED] ? 0 : n - n->sim->homes];
}

static struct node_home *process(struct sim *s, uint32_t number)
{
	for (uint32_t i = 0; i < SIM_HOMES; i++)
		if (s->homes[i].process == number && s->homes[i].sim)
			return &s->homes[i];
	return NULL;
}

/* What counts of the budget by the store's word, whoever lent it. */
static uint64_t marked_tok(const struct sim *s, const struct sim_store *store)
{
	const struct lg_escrow_mark *m = &store->mark;

	if (!store->has_mark)
		return 0;
	if (!m->window_end_ns || s->now_ns < m->window_end_ns)
		return m->consumed_tok + m->out_tok;
	return s->now_ns < m->window_end_ns + m->per_ns ? m->next_tok : 0;
}

/* Whatever is lent, spent or told: no more counts than the store says, and what is set aside for good. */
void sim_check_mark(struct sim *s)
{
	const struct node_home *n = &s->homes[s->home];
	const struct lg_terms *t = &s->c.terms;
	const struct sim_store *store = store_of(n);
	int64_t over;

	if (!t->reserves || !store->covered)
		return;
	over = (int64_t)(sim_meter_level(&s->law, s->now_ns) + sim_spendable_tok(s)) -
	       (int64_t)(marked_tok(s, store) + t->rule_budget_tok - t->budget_tok);
	if (over > 0)
		sim_broken(s, "beyond what is durable", over);
}

static bool land(struct sim *s, const struct message *m)
{
	struct sim_store *store = &s->stores[m->holder];

	if (s->store_full || store->owner != m->to_process || store->revision != m->revision)
		return false;
	*store = (struct sim_store){ .mark = m->mark, .has_mark = m->has_mark, .covered = m->covered, .revision = store->revision + 1,
				     .owner = store->owner };
	s->r.commits++;
	return true;
}

static void commit(struct node_home *n)
{
	struct sim *s = n->sim;
	struct message m = { .holder = (uint32_t)(store_of(n) - s->stores), .to_process = n->process, .object = n->object,
			     .revision = n->revision, .covered = n->was_covered || n->covers };
	uint64_t there_ns = (uint64_t)(-log(1 - chance(s)) * WRITE_NS) + 1, back_ns = (uint64_t)(-log(1 - chance(s)) * WRITE_NS) + 1;
	double fate = chance(s);

	if (n->home && lg_home_reserves(n->home)) {
		if (!lg_home_mark(n->home, false, s->now_ns, &m.mark))
			return;
		m.has_mark = true;
	} else if (n->has_found) {
		m.mark = n->found;
		m.has_mark = true;
	}
	n->wants = false;
	n->committing = true;
	m.is_lost = fate < 0.05;	/* its answer is; or it arrives long after that was given up; or it is refused */
	if (fate < 0.9)
		sim_push(s, s->now_ns + there_ns, EV_COMMIT, 0, sim_message_copy(&m));
	else if (fate < 0.95)
		sim_push(s, s->now_ns + there_ns + (uint64_t)(chance(s) * LATE_NS), EV_COMMIT_LATE, 0, sim_message_copy(&m));
	if (fate >= 0.9)
		sim_push(s, s->now_ns + there_ns + back_ns, EV_COMMITTED, 0, sim_message_copy(&m));
}

void sim_escrow_tick(struct node_home *n)
{
	if (n->running && n->wants && !n->committing)
		commit(n);
}

void sim_commit(struct sim *s, const struct message *m, bool is_late)
{
	struct message answer = *m;

	answer.is_durable = land(s, m) && !m->is_lost;
	if (!is_late)
		sim_push(s, s->now_ns + (uint64_t)(-log(1 - chance(s)) * WRITE_NS) + 1, EV_COMMITTED, 0, sim_message_copy(&answer));
}

void sim_committed(struct sim *s, const struct message *m)
{
	struct node_home *n = process(s, m->to_process);

	if (!n || !n->lessor)
		return;
	n->committing = false;
	n->revision = store_of(n)->revision;
	if (n->home && n->object == m->object && m->has_mark && n->running && sim_slot_is_owned(n))
		n->due_ns = sim_home_marked(n, m->is_durable);
	else if (!m->is_durable)
		n->wants = true;
}

void sim_escrow_second(struct node_home *n)
{
	if (!n->running || !n->sim->c.terms.reserves || n->was_covered || n->covers ||
	    n->sim->now_ns < n->started_ns + sim_memory_ns(n->sim))
		return;
	n->covers = n->wants = true;
}

void sim_escrow_begin(struct node_home *n)
{
	struct sim *s = n->sim;
	struct sim_store *store = store_of(n);
	uint64_t true_tok;

	store->owner = n->process;
	n->revision = store->revision;
	n->was_covered = store->covered;
	n->has_found = store->has_mark;
	n->found = store->mark;
	n->covers = n->committing = n->wants = false;
	n->started_ns = s->now_ns;
	true_tok = sim_meter_level(&s->law, s->now_ns) + sim_spendable_tok(s);
	if (store->covered)
		s->r.failover_tok = lg_max_u64(s->r.failover_tok, lg_sub_floor(marked_tok(s, store), true_tok));
}

void sim_escrow_end(struct node_home *n)
{
	struct message m = { .holder = (uint32_t)(store_of(n) - n->sim->stores), .to_process = n->process, .revision = n->revision,
			     .has_mark = true, .covered = n->was_covered || n->covers };

	if (!n->home || n->committing || !n->running || chance(n->sim) < 0.5 || !lg_home_mark(n->home, true, n->sim->now_ns, &m.mark))
		return;
	land(n->sim, &m);
}

void sim_escrow_lost(struct node_home *n)
{
	struct sim_store *store = store_of(n);

	*store = (struct sim_store){ .revision = store->revision + 1 };
}
