// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>

#define KEEPALIVE_NS (3 * S)	/* a stream over a cut link goes down after this */

static void cut(struct sim *s, struct link *link, uint32_t index)
{
	link->n_cuts++;
	sim_push(s, s->now_ns + KEEPALIVE_NS, EV_KEEPALIVE, index, NULL);
}

void sim_fault_begins(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];

	switch (f->kind) {
	case SIM_CUT_REGION: cut(s, &s->regions[f->index].link, number); break;
	case SIM_CUT_HOST: cut(s, &s->hosts[f->index].link, number); break;
	case SIM_AGENT_RESTART:
		if (!s->hosts[f->index].agent)
			return;
		sim_agent_stop(&s->hosts[f->index]);
		break;
	case SIM_HOST_GONE:
		sim_host_power_off(&s->hosts[f->index]);
		s->hosts[f->index].gone = true;
		return;
	case SIM_HOST_REBOOT:
		if (!s->hosts[f->index].agent)
			return;
		sim_host_power_off(&s->hosts[f->index]);
		break;
	case SIM_REGION_RESTART:
	case SIM_SERVER_RESTART:
		if (!s->regions[f->index].running || (f->kind == SIM_SERVER_RESTART && !s->home.running))
			return;
		sim_region_stop(&s->regions[f->index]);
		if (f->kind == SIM_SERVER_RESTART)
			sim_home_stop(s);
		break;
	case SIM_HOME_RESTART:
		if (!s->home.running)
			return;
		sim_home_stop(s);
		break;
	case _SIM_FAULT_N: assert(false);
	}
	sim_push(s, s->now_ns + f->for_ns, EV_FAULT_OVER, number, NULL);
}

void sim_fault_over(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];
	struct node_host *h = &s->hosts[f->index];

	switch (f->kind) {
	case SIM_CUT_REGION: s->regions[f->index].link.n_cuts--; break;
	case SIM_CUT_HOST: h->link.n_cuts--; break;
	case SIM_HOST_REBOOT:
		h->incarnation++;
		h->made_ns = sim_local_ns(s, &h->clock);
		sim_agent_start(h);
		break;
	case SIM_AGENT_RESTART: sim_agent_start(h); break;
	case SIM_HOST_GONE: break;
	case SIM_REGION_RESTART: sim_region_start(&s->regions[f->index]); break;
	case SIM_SERVER_RESTART:
		sim_region_start(&s->regions[f->index]);
		sim_home_start(s);
		break;
	case SIM_HOME_RESTART: sim_home_start(s); break;
	case _SIM_FAULT_N: assert(false);
	}
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
	assert(s->n_faults < FAULTS_MAX);
	s->faults[s->n_faults] = (struct fault){ .kind = kind, .index = index, .for_ns = for_ns };
	sim_push(s, at_ns, EV_FAULT, s->n_faults, NULL);
	s->n_faults++;
}
