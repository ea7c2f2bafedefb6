// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sim_message_free(struct message *m)
{
	if (!m)
		return;
	free(m->ask);
	free(m);
}

/* Only the part of a message that is in use. */
static struct lg_ask *ask_copy(const struct lg_ask *ask)
{
	struct lg_ask *copy = malloc(sizeof(*copy));

	assert(copy);
	memcpy(copy, ask, offsetof(struct lg_ask, slots) + ask->n_slots * sizeof(ask->slots[0]));
	copy->n_history = ask->n_history;
	memcpy(copy->history, ask->history, ask->n_history * sizeof(ask->history[0]));
	return copy;
}

static struct message *message_copy(const struct message *m)
{
	struct message *copy = malloc(sizeof(*copy));

	assert(copy);
	*copy = *m;
	if (m->ask)
		copy->ask = ask_copy(m->ask);
	return copy;
}

static struct link *link_of(struct sim *s, const struct message *m)
{
	return m->home_side ? &s->regions[m->holder].link : &s->hosts[m->holder].link;
}

static void send_one(struct sim *s, const struct message *m, uint64_t rtt_ns)
{
	uint64_t delay_ns = rtt_ns / 2 + (uint64_t)(sim_random(s) * (double)rtt_ns / 20);

	if (s->c.loss > 0 && sim_random(s) < s->c.loss)
		return;
	if (s->c.straggle > 0 && sim_random(s) < s->c.straggle)
		delay_ns += (uint64_t)(sim_random(s) * 3e9);
	sim_push(s, s->now_ns + delay_ns, EV_MESSAGE, 0, message_copy(m));
}

void sim_transmit(struct sim *s, struct message *m)
{
	struct link *link = link_of(s, m);
	uint64_t rtt_ns = m->home_side ? s->c.rtt_ns[m->holder] : s->c.host_rtt_ns;

	if (!link->up || link->n_cuts)
		return;
	send_one(s, m, rtt_ns);
	if (s->c.repeat > 0 && sim_random(s) < s->c.repeat)
		send_one(s, m, rtt_ns);
}

void sim_transmit_ask(struct sim *s, struct message *m, const struct lg_ask *ask)
{
	m->ask = ask_copy(ask);
	if (!s->c.mutant || !s->c.mutant->ask || s->c.mutant->ask(s, m->holder, m->home_side, m->ask))
		sim_transmit(s, m);
	free(m->ask);
}

void sim_transmit_grant(struct sim *s, struct message *m, const struct lg_grant *grant)
{
	m->grant = *grant;
	if (!s->c.mutant || !s->c.mutant->grant || s->c.mutant->grant(s, m->holder, m->home_side, &m->grant))
		sim_transmit(s, m);
}

void sim_deliver(struct sim *s, const struct message *m)
{
	bool grant = m->kind == MSG_GRANT;

	if (m->home_side && grant)
		sim_region_grant(&s->regions[m->holder], m);
	else if (m->home_side)
		sim_home_ask(s, m);
	else if (grant)
		sim_host_grant(&s->hosts[m->holder], m);
	else
		sim_region_ask(&s->regions[s->hosts[m->holder].region], m);
}
