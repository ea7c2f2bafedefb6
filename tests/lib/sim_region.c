// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>

#include "lease/age.h"
#include "lease/arith.h"

static void fx_region_ask(void *arg, const struct lg_ask *ask)
{
	struct node_region *n = arg;
	struct message m = { .kind = MSG_ASK, .home_side = true, .holder = n->index, .incarnation = n->epoch,
			     .to_process = n->sim->home.process };

	n->sim->r.asks_to_home += n->sim->now_ns >= n->sim->c.warm_ns;
	sim_transmit_ask(n->sim, &m, ask);
}

static void fx_region_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct node_region *n = arg;
	struct message m = { .kind = MSG_GRANT, .holder = holder, .to_process = n->sim->hosts[holder].process };

	n->sim->r.grants_from_regions += n->sim->now_ns >= n->sim->c.warm_ns;
	sim_transmit_grant(n->sim, &m, grant);
}

static const struct lg_region_effects *region_effects(struct node_region *n)
{
	static struct lg_region_effects fx = { .ask = fx_region_ask, .grant = fx_region_grant };

	fx.arg = n;
	return &fx;
}

void sim_region_mark(struct node_region *n)
{
	struct message m = { .kind = MSG_MARK, .home_side = true, .holder = n->index, .epoch = n->sim->home.epoch,
			     .to_process = n->sim->home.process };

	if (n->succession && lg_succession_forgot_ns(n->succession))
		m.forgot_ms = lg_age_ms(lg_succession_forgot_ns(n->succession), sim_local_ns(n->sim, &n->clock)) + 1;
	if (!n->succession || !lg_succession_missing(n->succession))
		sim_transmit(n->sim, &m);
}

static void region_open(struct node_region *n)
{
	uint64_t now_ns = sim_local_ns(n->sim, &n->clock);
	int r = lg_region_new(&n->holding, n->epoch, n->succession, now_ns, now_ns, lg_rand_next(&n->sim->rand), &n->region);

	assert(r == 0);
	if (n->link.up)
		lg_region_up(n->region, now_ns, region_effects(n));
}

void sim_region_tick(struct node_region *n)
{
	uint64_t now_ns = sim_local_ns(n->sim, &n->clock);

	if (!n->region || now_ns < n->due_ns)
		return;
	n->due_ns = lg_region_tick(n->region, now_ns, region_effects(n));
	sim_check_region(n->sim, n);
}

void sim_region_connect(struct node_region *n)
{
	struct node_home *home = &n->sim->home;

	if (n->link.up || !n->running)
		return;
	if (!home->running || n->link.n_cuts) {
		sim_push(n->sim, n->sim->now_ns + 200 * MS, EV_CONNECT_REGION, n->index, NULL);
		return;
	}
	n->link.up = lg_upstream_up(&n->upstream, home->epoch);
	assert(n->link.up);
	home->listed[n->index] = true;
	if (n->region)
		lg_region_up(n->region, sim_local_ns(n->sim, &n->clock), region_effects(n));
	else
		sim_region_mark(n);
	n->due_ns = 0;
}

void sim_region_disconnect(struct node_region *n, bool again)
{
	lg_upstream_down(&n->upstream);
	n->link.up = false;
	if (again)
		sim_push(n->sim, n->sim->now_ns + 50 * MS + (uint64_t)(sim_random(n->sim) * 4e8), EV_CONNECT_REGION, n->index, NULL);
}

void sim_synced(struct lg_succession *succession, const struct message *m, uint32_t epoch, uint64_t now_ns)
{
	if (!succession || (m->kind == MSG_MARK ? m->epoch : m->ask->epoch) != epoch)
		return;
	if (m->forgot_ms)
		lg_succession_forgot(succession, lg_age_end_ns(m->forgot_ms - 1, now_ns));
	lg_succession_synced(succession, m->holder);
}

void sim_region_ask(struct node_region *n, const struct message *m)
{
	uint64_t now_ns = sim_local_ns(n->sim, &n->clock);

	if (!n->running || n->process != m->to_process)
		return;
	if (m->kind == MSG_ASK) {
		if (!n->region)
			region_open(n);
		lg_region_ask(n->region, m->holder, m->incarnation, m->ask, now_ns, region_effects(n));
		n->due_ns = now_ns;
		sim_check_region(n->sim, n);
	}
	sim_synced(n->succession, m, n->epoch, now_ns);
}

void sim_region_grant(struct node_region *n, const struct message *m)
{
	uint64_t now_ns = sim_local_ns(n->sim, &n->clock);

	if (!n->region || n->process != m->to_process)
		return;
	lg_region_grant(n->region, &m->grant, now_ns, region_effects(n));
	n->due_ns = now_ns;
	sim_check_region(n->sim, n);
}

void sim_region_stop(struct node_region *n)
{
	sim_region_disconnect(n, false);
	for (uint32_t i = 0; i < n->sim->n_hosts; i++)
		if (n->sim->hosts[i].region == n->index)
			sim_host_disconnect(&n->sim->hosts[i], true);
	n->running = false;
	n->process++;
	n->region = lg_region_free(n->region);
	sim_upstream_init(n->sim, &n->upstream, &n->holding);
	n->succession = lg_succession_free(n->succession);
}

void sim_region_start(struct node_region *n)
{
	int r = lg_succession_new(sim_local_ns(n->sim, &n->clock), &n->succession);

	assert(r == 0);
	for (uint32_t i = 0; i < n->sim->n_hosts; i++)
		if (n->listed[i])
			lg_succession_list(n->succession, i);
	n->epoch++;
	n->running = true;
	n->due_ns = 0;
	sim_push(n->sim, n->sim->now_ns + 20 * MS, EV_CONNECT_REGION, n->index, NULL);
}
