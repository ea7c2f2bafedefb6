// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lease/arith.h"

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

struct message *sim_message_copy(const struct message *m)
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
	return m->of_region ? &s->regions[m->holder].link : &s->hosts[m->holder].link;
}

/* When the holder stops spending, as far as that is known. */
static uint64_t holders_end_ns(const struct sim *s, const struct message *m)
{
	if (m->of_region)
		return sim_true_ns(&s->regions[m->holder].clock, s->regions[m->holder].expires_ns);
	return sim_true_ns(&s->hosts[m->holder].clock, s->hosts[m->holder].bucket.expires_ns);
}

/* Just before, at or just after the end of a lease at its holder, or the time its lessor may call it lapsed. */
static uint64_t worst_moment_ns(struct sim *s, const struct message *m)
{
	uint64_t end_ns = holders_end_ns(s, m), tick_ns = m->of_region ? s->c.terms.home_tick_ns : s->c.terms.region_tick_ns;
	uint64_t off_ns = sim_random(s) < 0.5 ? 1 : tick_ns;
	double which = sim_random(s);

	if (sim_random(s) < 0.5)
		end_ns += s->c.terms.grace_ns;
	return which < 0.4 ? lg_sub_floor(end_ns, off_ns) : which < 0.6 ? end_ns : end_ns + off_ns;
}

static void send_one(struct sim *s, const struct message *m, uint64_t rtt_ns)
{
	uint64_t delay_ns = rtt_ns / 2 + (uint64_t)(sim_random(s) * (double)rtt_ns / 20);

	if (s->c.loss > 0 && sim_random(s) < s->c.loss)
		return;
	if (s->c.straggle > 0 && sim_random(s) < s->c.straggle)
		delay_ns += (uint64_t)(sim_random(s) * 3e9);
	if (s->c.hostile > 0 && sim_random(s) < s->c.hostile)
		delay_ns = lg_max_u64(delay_ns, lg_sub_floor(worst_moment_ns(s, m), s->now_ns));
	sim_push(s, s->now_ns + delay_ns, EV_MESSAGE, 0, sim_message_copy(m));
	if (s->c.hostile > 0 && sim_random(s) < s->c.hostile)
		sim_push(s, s->now_ns + delay_ns + (uint64_t)(sim_random(s) * 10e9), EV_MESSAGE, 0, sim_message_copy(m));
}

void sim_transmit(struct sim *s, struct message *m)
{
	struct link *link = link_of(s, m);
	uint64_t rtt_ns = m->of_region && !s->regions[m->holder].above ? s->c.rtt_ns[m->holder] : s->c.host_rtt_ns;

	if (!link->up || link->n_cuts)
		return;
	send_one(s, m, rtt_ns);
	if (s->c.repeat > 0 && sim_random(s) < s->c.repeat)
		send_one(s, m, rtt_ns);
}

void sim_transmit_ask(struct sim *s, struct message *m, const struct lg_ask *ask)
{
	m->ask = ask_copy(ask);
	if (!s->c.mutant || !s->c.mutant->ask || s->c.mutant->ask(s, m->holder, m->of_region, m->ask))
		sim_transmit(s, m);
	free(m->ask);
}

void sim_transmit_grant(struct sim *s, struct message *m, const struct lg_grant *grant)
{
	m->grant = *grant;
	if (!s->c.mutant || !s->c.mutant->grant || s->c.mutant->grant(s, m->holder, m->of_region, &m->grant))
		sim_transmit(s, m);
}

/* Each process takes what is meant for it; now and then also what is not. */
static void deliver_to_homes(struct sim *s, const struct message *m)
{
	for (uint32_t i = 0; i < SIM_HOMES; i++)
		sim_home_ask(&s->homes[i], m);
}

void sim_deliver(struct sim *s, const struct message *m)
{
	bool grant = m->kind == MSG_GRANT;

	if (m->of_region && grant)
		sim_region_grant(&s->regions[m->holder], m);
	else if (m->of_region && s->regions[m->holder].above)
		sim_region_ask(s->regions[m->holder].above, m);
	else if (m->of_region)
		deliver_to_homes(s, m);
	else if (grant)
		sim_host_grant(&s->hosts[m->holder], m);
	else
		sim_region_ask(&s->regions[s->hosts[m->holder].region], m);
}
