// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>
#include <string.h>

#include "lease/age.h"
#include "lease/arith.h"

/* Who lends to this region: a life of the home, by the list the region has, or of the region above. */
struct lessor {
	bool running;
	uint32_t process;
	uint32_t epoch;
	bool *listed;
};

static struct lessor lessor_of(const struct node_region *n)
{
	struct node_home *home = &n->sim->homes[n->list - 1], *former = &n->sim->homes[SIM_DEPOSED];

	if (n->above)
		return (struct lessor){ n->above->running, n->above->process, n->above->epoch, n->above->listed };
	/* Who is listed is in the store that both share. */
	if (n->with_former && n->list == 1)
		return (struct lessor){ former->running, former->process, former->epoch, home->listed };
	return (struct lessor){ home->running, home->process, home->epoch, home->listed };
}

static void fx_region_ask(void *arg, const struct lg_ask *ask)
{
	struct node_region *n = arg;
	struct message m = { .kind = MSG_ASK, .of_region = true, .holder = n->index, .list = n->list, .incarnation = n->epoch,
			     .to_process = lessor_of(n).process };

	if (!n->above)
		n->sim->r.asks_to_home += n->sim->now_ns >= n->sim->c.warm_ns;
	sim_transmit_ask(n->sim, &m, ask);
}

static void fx_region_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct node_region *n = arg;
	struct message m = { .kind = MSG_GRANT, .of_region = n->lends_to_regions, .holder = holder };

	m.to_process = m.of_region ? n->sim->regions[holder].process : n->sim->hosts[holder].process;

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
	struct lessor lessor = lessor_of(n);
	struct message m = { .kind = MSG_MARK, .of_region = true, .holder = n->index, .list = n->list, .epoch = lessor.epoch,
			     .to_process = lessor.process };

	if (n->succession && lg_succession_forgot_ns(n->succession))
		m.forgot_ms = lg_age_ms(lg_succession_forgot_ns(n->succession), sim_local_ns(n->sim, &n->clock)) + 1;
	if (!n->succession || !lg_succession_missing(n->succession))
		sim_transmit(n->sim, &m);
}

void sim_region_lives(struct node_region *n)
{
	n->lessor = (struct lg_lessor){
		.terms = &n->sim->c.terms,
		.succession = n->succession,
		.epoch = n->epoch,
		.rand = lg_rand_next(&n->sim->rand),
	};
}

static void region_open(struct node_region *n)
{
	uint64_t now_ns = sim_local_ns(n->sim, &n->clock);
	int r = lg_region_new(&n->lessor, &n->holding, now_ns, now_ns, &n->region);

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
	sim_check_region(n);
}

void sim_region_connect(struct node_region *n)
{
	struct lessor lessor = lessor_of(n);

	if (n->link.up || !n->running)
		return;
	if (!lessor.running || n->link.n_cuts) {
		sim_push(n->sim, n->sim->now_ns + 200 * MS, EV_CONNECT_REGION, n->index, NULL);
		return;
	}
	/* What it lent on was of a life of the region above that nobody remembers: it begins a new life with it. */
	if (n->above && n->upstream.epoch && n->upstream.epoch < lessor.epoch) {
		sim_region_stop(n);
		sim_region_start(n);
		return;
	}
	n->link.up = true;
	lg_upstream_up(&n->upstream, lessor.epoch);
	lessor.listed[n->index] = true;
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
		sim_check_region(n);
	}
	sim_synced(n->succession, m, n->epoch, now_ns);
}

void sim_region_grant(struct node_region *n, const struct message *m)
{
	uint64_t now_ns = sim_local_ns(n->sim, &n->clock);

	if (!n->region || n->process != m->to_process || !n->link.up)
		return;
	if (m->grant.status == LG_GRANT_NOT_OWNER)
		sim_slot_follow(n);
	else
		lg_region_grant(n->region, &m->grant, now_ns, region_effects(n));
	n->due_ns = now_ns;
	sim_check_region(n);
}

void sim_region_stop(struct node_region *n)
{
	struct sim *s = n->sim;

	sim_region_disconnect(n, false);
	for (uint32_t i = 0; i < s->n_hosts; i++)
		if (s->hosts[i].region == n->index)
			sim_host_disconnect(&s->hosts[i], true);
	for (uint32_t i = 0; i < s->n_regions; i++)
		if (s->regions[i].above == n)
			sim_region_disconnect(&s->regions[i], true);
	n->running = false;
	n->process = ++s->n_processes;
	n->region = lg_region_free(n->region);
	sim_upstream_init(n->sim, &n->upstream, &n->holding);
	n->succession = lg_succession_free(n->succession);
	n->pool_tok = 0;
}

struct lg_succession *sim_succession(uint64_t since_ns, const bool *listed, size_t n, bool unknown)
{
	struct lg_succession *succession = NULL;
	int r = lg_succession_new(since_ns, &succession);

	assert(r == 0);
	for (uint32_t i = 0; i < n; i++)
		if (listed[i])
			lg_succession_list(succession, i);
	if (unknown)
		lg_succession_list(succession, LG_HOLDERS_MAX - 1);
	return succession;
}

uint64_t sim_memory_ns(const struct sim *s)
{
	const struct lg_terms *t = &s->c.terms;

	return (t->ttl_ns + t->grace_ns + t->per_ns) / 100 * 101;
}

void sim_region_knows_nothing(struct node_region *n)
{
	memset(n->listed, 0, sizeof(n->listed));
	n->epoch = 0;
	n->unknown_until_ns = n->sim->now_ns + sim_memory_ns(n->sim);
}

void sim_region_start(struct node_region *n)
{
	struct sim *s = n->sim;

	n->succession = sim_succession(sim_local_ns(s, &n->clock), n->listed, SIM_HOSTS_MAX, s->now_ns < n->unknown_until_ns);
	n->epoch = sim_new_life(s, &n->clock, n->epoch);
	n->running = true;
	sim_region_lives(n);
	n->due_ns = 0;
	sim_push(s, s->now_ns + 20 * MS, EV_CONNECT_REGION, n->index, NULL);
}
