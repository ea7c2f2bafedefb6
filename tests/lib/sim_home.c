// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lease/arith.h"

/* One that stands still, or went on after that, is nobody's home: what it believes is not to be true. */
static bool is_deposed(const struct node_home *n)
{
	return n == &n->sim->homes[SIM_DEPOSED] && !n->is_former;
}

static void fx_home_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct node_home *n = arg;
	struct sim *s = n->sim;
	struct message m = { .kind = MSG_GRANT, .of_region = true, .holder = holder, .to_process = s->regions[holder].process };

	s->r.grants_from_home += s->now_ns >= s->c.warm_ns;
	sim_transmit_grant(s, &m, grant);
}

static void refuse(struct node_home *n, const struct message *m, enum lg_grant_status status)
{
	struct lg_grant grant = { .ack_seq = m->ask->seq, .epoch = n->epoch, .status = status };

	fx_home_grant(n, m->holder, &grant);
}

/* What is sent to another process reaches this one now and then all the same, if the network is out to harm. */
static bool hears(const struct node_home *n, const struct message *m)
{
	return n->running && (n->process == m->to_process || (n->sim->c.hostile > 0 && sim_random(n->sim) < 0.2));
}

static void fx_home_reserve(void *arg)
{
	struct node_home *n = arg;

	n->wants = true;
}

static struct lg_home_effects effects(struct node_home *n)
{
	return (struct lg_home_effects){ .arg = n, .grant = fx_home_grant, .reserve = fx_home_reserve };
}

/* By the mark that an earlier life left, or by its having left none; or, where all may be out, by what holders will tell. */
static void home_open(struct node_home *n)
{
	struct lg_home_past past = { .since_ns = n->has_found ? n->started_ns : 0, .mark = n->has_found ? &n->found : NULL };
	int r;

	if (n->lessor->reserves && n->was_covered)
		r = lg_home_new_after(n->lessor, &past, n->sim->now_ns, &n->home);
	else
		r = lg_home_new(n->lessor, n->sim->now_ns, &n->home);
	assert(r == 0);
	n->has_found = false;
	n->object++;
}

void sim_home_forget(struct node_home *n)
{
	n->home = lg_home_free(n->home);
	n->wants = n->lessor->reserves;
}

uint64_t sim_home_marked(struct node_home *n, bool is_durable)
{
	struct lg_home_effects fx = effects(n);
	uint64_t due_ns = lg_home_marked(n->home, is_durable, n->sim->now_ns, &fx);

	if (!is_deposed(n))
		sim_check_home(n);
	return due_ns;
}

void sim_home_ask(struct node_home *n, const struct message *m)
{
	struct lg_home_effects fx = effects(n);

	if (!hears(n, m))
		return;
	if (!sim_slot_is_owned(n)) {
		if (m->kind == MSG_ASK)
			refuse(n, m, LG_GRANT_NOT_OWNER);
		return;
	}
	/* By its region list the key lives elsewhere, or the holder's list is another one. */
	if (m->list != n->list || n->refuses) {
		if (m->kind == MSG_ASK)
			refuse(n, m, LG_GRANT_NOT_HOME);
		return;
	}
	if (m->kind == MSG_ASK) {
		if (!n->home)
			home_open(n);
		lg_home_ask(n->home, m->holder, m->incarnation, m->ask, n->sim->now_ns, &fx);
		n->due_ns = n->sim->now_ns;
		if (!is_deposed(n))
			sim_check_home(n);
	}
	sim_synced(n->succession, m, n->epoch, n->sim->now_ns);
}

void sim_home_tick(struct node_home *n)
{
	struct lg_home_effects fx = effects(n);

	if (!n->sim || !sim_slot_is_owned(n))
		return;
	sim_escrow_tick(n);
	if (!n->running || !n->home || n->sim->now_ns < n->due_ns)
		return;
	n->due_ns = lg_home_tick(n->home, n->sim->now_ns, &fx);
	if (!is_deposed(n))
		sim_check_home(n);
}

void sim_home_lives(struct node_home *n)
{
	n->lessor = malloc(sizeof(*n->lessor));
	assert(n->lessor);
	*n->lessor = (struct lg_lessor){
		.terms = &n->sim->c.terms,
		.succession = n->succession,
		.epoch = n->epoch,
		.reserves = n->sim->c.terms.reserves,
		.rand = lg_rand_next(&n->sim->rand),
		.origin_ns = n->sim->c.origin_ns,
	};
	n->granted_tok = 0;
	n->here = (struct lg_presence){ .session = n->process, .until_ns = UINT64_MAX };
}

static void leave(struct node_home *n)
{
	struct sim *s = n->sim;
	const struct lg_terms *t = &s->c.terms;

	for (uint32_t i = 0; i < s->n_regions; i++)
		if (!s->regions[i].above && s->regions[i].list == n->list)
			sim_region_disconnect(&s->regions[i], true);
	n->unsettled = n->succession && lg_succession_missing(n->succession) &&
		       s->now_ns < lg_succession_since_ns(n->succession) + t->ttl_ns + t->grace_ns;
	n->running = false;
}

void sim_home_stop(struct node_home *n)
{
	sim_escrow_end(n);
	leave(n);
	n->process = ++n->sim->n_processes;
	n->home = lg_home_free(n->home);
	free(n->lessor);
	n->lessor = NULL;
	n->succession = lg_succession_free(n->succession);
}

void sim_home_freeze(struct node_home *n)
{
	struct node_home *old = &n->sim->homes[SIM_DEPOSED];

	leave(n);
	*old = *n;
	n->process = ++n->sim->n_processes;
	n->home = NULL;
	n->lessor = NULL;
	n->succession = NULL;
}

void sim_home_knows_nothing(struct node_home *n)
{
	memset(n->listed, 0, sizeof(n->listed));
	sim_escrow_lost(n);
	n->epoch = 0;
	n->unsettled = true;
	n->unknown_until_ns = n->sim->now_ns + sim_memory_ns(n->sim);
}

void sim_home_start(struct node_home *n)
{
	struct sim *s = n->sim;
	struct lg_slot_past past = lg_slot_past_of(true, 1, n->unsettled ? 0 : 1);

	n->succession = sim_succession(s->now_ns, n->listed, past.has_holders ? SIM_REGIONS_MAX : 0, s->now_ns < n->unknown_until_ns);
	if (past.is_unsettled)
		lg_succession_unsettled(n->succession);
	n->epoch = sim_new_life(s, &n->clock, n->epoch);
	sim_home_lives(n);
	sim_escrow_begin(n);
	n->running = true;
	n->due_ns = 0;
}
