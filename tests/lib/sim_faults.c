// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>

#define KEEPALIVE_NS (3 * S)	/* a stream over a cut link goes down after this */

static void cut(struct sim *s, struct link *link, uint32_t index)
{
	link->n_cuts++;
	sim_push(s, s->now_ns + KEEPALIVE_NS, EV_KEEPALIVE, index, NULL);
}

static struct node_home *home_of(struct sim *s)
{
	return &s->homes[s->home];
}

/* A process that is about to end has just spoken, if somebody chooses the moment. */
static void last_words(struct sim *s, struct node_host *h, struct node_region *n)
{
	if (s->c.hostile <= 0)
		return;
	if (h) {
		h->due_ns = 0;
		sim_host_tick(h);
	}
	if (n) {
		n->due_ns = 0;
		sim_region_tick(n);
	}
}

static void host_down(struct sim *s, struct node_host *h, enum sim_fault_kind kind)
{
	last_words(s, h, NULL);
	if (kind == SIM_AGENT_RESTART)
		sim_agent_stop(h);
	else
		sim_host_power_off(h);
}

/* Those of host index; false: the fault finds it down already. */
static bool host_fault_begins(struct sim *s, const struct fault *f)
{
	struct node_host *h = &s->hosts[f->index];

	if (f->kind == SIM_HOST_GONE) {
		host_down(s, h, f->kind);
		h->gone = true;
		return false;
	}
	if (!h->agent)
		return false;
	host_down(s, h, f->kind);
	return true;
}

static bool region_fault_begins(struct sim *s, const struct fault *f)
{
	struct node_region *n = &s->regions[f->index];

	if (!n->running || (f->kind == SIM_SERVER_RESTART && !home_of(s)->running))
		return false;
	last_words(s, NULL, n);
	sim_region_stop(n);
	if (f->kind == SIM_REGION_LOST)
		sim_region_knows_nothing(n);
	if (f->kind == SIM_SERVER_RESTART)
		sim_home_stop(home_of(s));
	return true;
}

/* No home any more by the list it has now. The regions learn of that list around the time at which the new home begins, some long after. */
static void old_home(struct sim *s, struct node_home *n, uint64_t for_ns)
{
	n->refuses = true;
	n->list = 2;
	sim_home_start(n);
	s->home = 1;
	for (uint32_t i = 0; i < s->c.n_regions; i++)
		sim_push(s, s->now_ns + (uint64_t)(sim_random(s) * 4 * (double)for_ns), EV_NEW_LIST, i, NULL);
}

static bool home_fault_begins(struct sim *s, const struct fault *f)
{
	struct node_home *n = home_of(s);

	if (!n->running || (f->kind == SIM_HOME_DEPOSED && s->homes[SIM_DEPOSED].sim) || (f->kind == SIM_REHOME && s->home))
		return false;
	if (f->kind == SIM_HOME_DEPOSED)
		sim_home_freeze(n);
	else
		sim_home_stop(n);
	if (f->kind == SIM_HOME_LOST)
		sim_home_knows_nothing(n);
	if (f->kind == SIM_REHOME)
		old_home(s, n, f->for_ns);
	return true;
}

/* By up to an hour, mostly by less than a minute, either way. */
static void step_clocks(struct sim *s, const struct fault *f)
{
	int64_t step_s = (int64_t)(f->for_ns / MS % 120) - 60;

	if (f->for_ns / MS % 5 == 0)
		step_s *= 60;
	s->regions[f->index].clock.wall_s += step_s;
	for (uint32_t i = 0; i < s->n_hosts; i++)
		if (s->hosts[i].site == f->index)
			s->hosts[i].clock.wall_s += step_s;
	home_of(s)->clock.wall_s += step_s;
}

void sim_fault_begins(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];
	bool ends = true;

	switch (f->kind) {
	case SIM_CUT_REGION: cut(s, &s->regions[f->index].link, number); break;
	case SIM_CUT_HOST: cut(s, &s->hosts[f->index].link, number); break;
	case SIM_AGENT_RESTART:
	case SIM_HOST_REBOOT:
	case SIM_HOST_GONE: ends = host_fault_begins(s, f); break;
	case SIM_REGION_RESTART:
	case SIM_REGION_LOST:
	case SIM_SERVER_RESTART: ends = region_fault_begins(s, f); break;
	case SIM_HOME_RESTART:
	case SIM_HOME_LOST:
	case SIM_HOME_DEPOSED:
	case SIM_REHOME: ends = home_fault_begins(s, f); break;
	case SIM_CLOCK_STEP:
		step_clocks(s, f);
		ends = false;
		break;
	case SIM_STORE_FULL: s->store_full = true; break;
	case SIM_SLOT_GIVEN:
	case SIM_SLOT_LOST: ends = sim_slot_fault_begins(s, f); break;
	case _SIM_FAULT_N: assert(false);
	}
	if (ends)
		sim_push(s, s->now_ns + f->for_ns, EV_FAULT_OVER, number, NULL);
}

/* The monotonic clock begins anew. */
static void reboot(const struct sim *s, struct clock *clock)
{
	clock->offset_ns = 1 * S - s->now_ns;
}

static void host_boots(struct sim *s, struct node_host *h)
{
	reboot(s, &h->clock);
	h->incarnation = sim_new_life(s, &h->clock, (uint32_t)h->incarnation);
	h->made_ns = sim_local_ns(s, &h->clock);
	sim_agent_start(h);
}

/* Some have taken their machine along. */
static void region_back(struct sim *s, const struct fault *f)
{
	struct node_region *n = &s->regions[f->index];

	if (f->for_ns / MS % 3 == 0)
		reboot(s, &n->clock);
	sim_region_start(n);
}

/* Home by the new list: nothing of it is known here, but which regions there are. */
static void new_home(struct sim *s)
{
	struct node_home *n = home_of(s);

	sim_home_knows_nothing(n);
	n->unknown_until_ns = 0;
	for (uint32_t i = 0; i < s->c.n_regions; i++)
		n->listed[i] = true;
	sim_home_start(n);
}

void sim_fault_over(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];

	switch (f->kind) {
	case SIM_CUT_REGION: s->regions[f->index].link.n_cuts--; break;
	case SIM_CUT_HOST: s->hosts[f->index].link.n_cuts--; break;
	case SIM_HOST_REBOOT: host_boots(s, &s->hosts[f->index]); break;
	case SIM_AGENT_RESTART: sim_agent_start(&s->hosts[f->index]); break;
	case SIM_REGION_LOST:
	case SIM_REGION_RESTART: region_back(s, f); break;
	case SIM_SERVER_RESTART:
		region_back(s, f);
		sim_home_start(home_of(s));
		break;
	case SIM_HOME_LOST:
	case SIM_HOME_RESTART: sim_home_start(home_of(s)); break;
	case SIM_HOME_DEPOSED:
		sim_home_start(home_of(s));
		sim_push(s, s->now_ns + f->for_ns, EV_THAW, 0, NULL);
		break;
	case SIM_REHOME: new_home(s); break;
	case SIM_STORE_FULL: s->store_full = false; break;
	case SIM_SLOT_GIVEN:
	case SIM_SLOT_LOST: sim_slot_claimed(s, f); break;
	case SIM_HOST_GONE:
	case SIM_CLOCK_STEP:
	case _SIM_FAULT_N: assert(false);
	}
}

/* Its streams are gone at the other end, so what it says can reach only who is connected to the new one by now. */
void sim_thaw(struct sim *s)
{
	struct node_home *n = &s->homes[SIM_DEPOSED];

	n->running = true;
	n->due_ns = 0;
}

void sim_new_list(struct node_region *n)
{
	bool was_running = n->running;

	n->list = 2;
	if (!was_running)
		return;
	sim_region_stop(n);
	sim_region_start(n);
}

void sim_keepalive_fails(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];

	if (f->kind == SIM_CUT_REGION && s->regions[f->index].link.n_cuts)
		sim_region_disconnect(&s->regions[f->index], true);
	if (f->kind == SIM_CUT_HOST && s->hosts[f->index].link.n_cuts)
		sim_host_disconnect(&s->hosts[f->index], true);
}

void sim_fault(struct sim *s, enum sim_fault_kind kind, uint32_t index, uint64_t at_ns, uint64_t for_ns)
{
	assert(s->n_faults < SIM_FAULTS_MAX);
	s->faults[s->n_faults] = (struct fault){ .kind = kind, .index = index, .for_ns = for_ns };
	sim_push(s, at_ns, EV_FAULT, s->n_faults, NULL);
	s->n_faults++;
}
