// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>

#include "lease/arith.h"

static void fx_home_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct sim *s = arg;
	struct message m = { .kind = MSG_GRANT, .home_side = true, .holder = holder, .to_process = s->regions[holder].process };

	s->r.grants_from_home += s->now_ns >= s->c.warm_ns;
	sim_transmit_grant(s, &m, grant);
}

void sim_home_ask(struct sim *s, const struct message *m)
{
	struct lg_home_effects fx = { .arg = s, .grant = fx_home_grant };
	struct node_home *n = &s->home;

	if (!n->running || n->process != m->to_process)
		return;
	if (m->kind == MSG_ASK) {
		if (!n->home) {
			int r = lg_home_new(&s->c.terms, n->epoch, n->succession, s->now_ns, lg_rand_next(&s->rand), &n->home);

			assert(r == 0);
			n->granted_total_tok = 0;
		}
		lg_home_ask(n->home, m->holder, m->incarnation, m->ask, s->now_ns, &fx);
		n->due_ns = s->now_ns;
		sim_check_home(s);
	}
	sim_synced(n->succession, m, n->epoch, s->now_ns);
}

void sim_home_tick(struct sim *s)
{
	struct lg_home_effects fx = { .arg = s, .grant = fx_home_grant };

	if (!s->home.home || s->now_ns < s->home.due_ns)
		return;
	s->home.due_ns = lg_home_tick(s->home.home, s->now_ns, &fx);
	sim_check_home(s);
}

void sim_home_stop(struct sim *s)
{
	const struct lg_terms *t = &s->c.terms;

	for (uint32_t i = 0; i < s->c.n_regions; i++)
		sim_region_disconnect(&s->regions[i], true);
	s->home.unsettled = s->home.succession && lg_succession_missing(s->home.succession) &&
			    s->now_ns < lg_succession_since_ns(s->home.succession) + t->ttl_ns + t->grace_ns;
	s->home.running = false;
	s->home.process++;
	s->home.home = lg_home_free(s->home.home);
	s->home.succession = lg_succession_free(s->home.succession);
}

void sim_home_start(struct sim *s)
{
	int r = lg_succession_new(s->now_ns, &s->home.succession);

	assert(r == 0);
	for (uint32_t i = 0; i < s->c.n_regions; i++)
		if (s->home.listed[i])
			lg_succession_list(s->home.succession, i);
	if (s->home.unsettled)
		lg_succession_unsettled(s->home.succession);
	s->home.epoch++;
	s->home.running = true;
	s->home.due_ns = 0;
}
