// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease/age.h"
#include "lease/arith.h"

#define MS 1000000ull
#define S (1000 * MS)
#define ANNOUNCE_GAP_NS (20 * MS)
#define KEEPALIVE_NS (3 * S)	/* a stream over a cut link goes down after this */
#define FAULTS_MAX 64

enum event_kind { EV_ARRIVAL,
		  EV_HOST_TICK,
		  EV_REGION_TICK,
		  EV_HOME_TICK,
		  EV_SECOND,
		  EV_MESSAGE,
		  EV_CONNECT_HOST,
		  EV_CONNECT_REGION,
		  EV_FAULT,
		  EV_FAULT_OVER,
		  EV_KEEPALIVE };

enum message_kind { MSG_ASK, MSG_GRANT, MSG_MARK };

struct message {
	enum message_kind kind;
	bool home_side;		/* between a region and the home; else between a host and its region */
	uint32_t holder;	/* host or region */
	uint64_t incarnation;
	uint32_t to_process;	/* the receiver's life it was sent to */
	uint32_t epoch;		/* MSG_MARK */
	uint64_t forgot_ms;	/* MSG_MARK: remembers so far back; 0 ever */
	struct lg_ask *ask;
	struct lg_grant grant;
};

struct event {
	uint64_t at_ns;
	uint64_t number;
	enum event_kind kind;
	uint32_t index;
	struct message *msg;
};

struct link {
	bool up;
	uint32_t n_cuts;
};

struct clock {
	int64_t ppm;
	uint64_t offset_ns;
};

struct bucket {
	struct lg_usage total;
	struct lg_usage base;
	uint64_t expires_ns;
	uint64_t low_water_tok;
	uint64_t announced_ns;
	uint32_t generation;
	uint32_t epoch;
};

struct node_host {
	struct sim *sim;
	uint32_t index;
	uint32_t region;
	struct clock clock;
	struct link link;
	bool powered;
	bool gone;
	bool agent;
	uint32_t process;
	uint64_t incarnation;
	uint64_t made_ns;	/* when the maps were made, if not at the start */
	struct bucket bucket;
	bool misread;		/* the last reading was */
	struct lg_lessee *lessee;
	uint64_t due_ns;
};

struct node_region {
	struct sim *sim;
	uint32_t index;
	struct clock clock;
	struct link link;
	bool running;
	uint32_t process;
	uint32_t epoch;
	bool listed[SIM_HOSTS_MAX];
	struct lg_succession *succession;
	struct lg_region *region;
	uint64_t due_ns;
};

struct node_home {
	bool running;
	uint32_t process;
	uint32_t epoch;
	bool listed[SIM_REGIONS_MAX];
	bool unsettled;
	struct lg_succession *succession;
	struct lg_home *home;
	uint64_t due_ns;
	uint64_t granted_total_tok;	/* when last checked */
};

struct fault {
	enum sim_fault_kind kind;
	uint32_t index;
	uint64_t for_ns;
};

struct sim {
	struct sim_config c;
	struct sim_result r;
	uint64_t now_ns;
	uint64_t rand;
	struct event *heap;
	size_t n_heap, cap_heap;
	uint64_t n_events;
	struct node_host hosts[SIM_HOSTS_MAX];
	struct node_region regions[SIM_REGIONS_MAX];
	struct node_home home;
	uint32_t n_hosts;
	struct fault faults[FAULTS_MAX];
	uint32_t n_faults;
	struct sim_meter law, perfect;
	uint32_t *bin_admitted, *bin_perfect;
	size_t n_bins;
};

/* ---- chance, clocks, events ---- */

double sim_random(struct sim *s)
{
	return (double)(lg_rand_next(&s->rand) >> 11) * 0x1p-53;
}

static uint64_t exponential_ns(struct sim *s, double mean_ns)
{
	return (uint64_t)(-log(1 - sim_random(s)) * mean_ns) + 1;
}

static uint64_t local(const struct sim *s, const struct clock *clock)
{
	return clock->offset_ns + s->now_ns + (uint64_t)((int64_t)s->now_ns / 1000000 * clock->ppm);
}

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->number < b->number);
}

static void push(struct sim *s, uint64_t at_ns, enum event_kind kind, uint32_t index, struct message *msg)
{
	struct event e = { .at_ns = at_ns, .number = s->n_events++, .kind = kind, .index = index, .msg = msg };
	size_t i = s->n_heap++;

	if (s->n_heap > s->cap_heap) {
		s->cap_heap = s->cap_heap ? 2 * s->cap_heap : 256;
		s->heap = reallocarray(s->heap, s->cap_heap, sizeof(*s->heap));
		assert(s->heap);
	}
	for (; i && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = e;
}

static struct event pop(struct sim *s)
{
	struct event top = s->heap[0], last = s->heap[--s->n_heap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < s->n_heap) {
		if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (before(&last, &s->heap[child]))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
	return top;
}

/* ---- the laws ---- */

static void broken(struct sim *s, const char *what, int64_t by)
{
	if (s->r.broken[0])
		return;
	snprintf(s->r.broken, sizeof(s->r.broken), "%s: %lld above the budget of %llu at %.3f s", what, (long long)by,
		 (unsigned long long)s->c.terms.budget_tok, (double)s->now_ns / 1e9);
}

static uint64_t spendable_tok(struct sim *s)
{
	uint64_t tok = 0;

	for (uint32_t i = 0; i < s->n_hosts; i++) {
		const struct node_host *h = &s->hosts[i];

		if (h->powered && local(s, &h->clock) < h->bucket.expires_ns)
			tok += lg_sub_floor(h->bucket.total.granted_tok, h->bucket.total.spent_tok);
	}
	for (uint32_t i = 0; i < s->c.n_regions; i++) {
		struct lg_region_view v;

		if (!s->regions[i].region)
			continue;
		lg_region_view(s->regions[i].region, local(s, &s->regions[i].clock), &v);
		tok += v.pool_tok;
	}
	return tok;
}

static void check_potential(struct sim *s)
{
	int64_t over = sim_meter_over(&s->law, s->now_ns) + (int64_t)spendable_tok(s);

	if (over > s->r.worst_potential_tok)
		s->r.worst_potential_tok = over;
	if (over > 0)
		broken(s, "admitted and spendable", over);
}

/* Whoever lends must have it. (Books may stand above the budget while it lends nothing: what holders could not remember counts in full.) */
static void check_home(struct sim *s)
{
	struct lg_home_view v;
	uint64_t sum;

	if (!s->home.home)
		return;
	lg_home_view(s->home.home, s->now_ns, &v);
	sum = v.consumed_tok + v.outstanding_tok + v.unknown_tok;
	if (sum > v.budget_tok && v.granted_total_tok > s->home.granted_total_tok)
		broken(s, "the home's books", (int64_t)(sum - v.budget_tok));
	s->home.granted_total_tok = v.granted_total_tok;
	if (s->now_ns >= s->c.warm_ns)
		s->r.max_outstanding_tok = lg_max_u64(s->r.max_outstanding_tok, v.outstanding_tok);
}

static void check_region(struct sim *s, const struct node_region *n)
{
	struct lg_region_view v;
	uint64_t sum;

	lg_region_view(n->region, local(s, &n->clock), &v);
	sum = v.pool_tok + v.outstanding_tok + v.spent_tok + v.returned_tok;
	if (sum > v.granted_tok)
		broken(s, "a region's books", (int64_t)(sum - v.granted_tok));
}

/* ---- the network ---- */

static void message_free(struct message *m)
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
	push(s, s->now_ns + delay_ns, EV_MESSAGE, 0, message_copy(m));
}

static void transmit(struct sim *s, struct message *m)
{
	struct link *link = link_of(s, m);
	uint64_t rtt_ns = m->home_side ? s->c.rtt_ns[m->holder] : s->c.host_rtt_ns;

	if (!link->up || link->n_cuts)
		return;
	send_one(s, m, rtt_ns);
	if (s->c.repeat > 0 && sim_random(s) < s->c.repeat)
		send_one(s, m, rtt_ns);
}

static void transmit_ask(struct sim *s, struct message *m, const struct lg_ask *ask)
{
	m->ask = ask_copy(ask);
	if (!s->c.mutant || !s->c.mutant->ask || s->c.mutant->ask(s, m->holder, m->home_side, m->ask))
		transmit(s, m);
	free(m->ask);
}

static void transmit_grant(struct sim *s, struct message *m, const struct lg_grant *grant)
{
	m->grant = *grant;
	if (!s->c.mutant || !s->c.mutant->grant || s->c.mutant->grant(s, m->holder, m->home_side, &m->grant))
		transmit(s, m);
}

/* ---- a host ---- */

static struct lg_usage read_bucket(struct node_host *h)
{
	struct lg_usage u = h->bucket.total;

	/* A lost race is over within a packet, so no two readings in a row see one. */
	h->misread = h->sim->c.misread && !h->misread && sim_random(h->sim) < 0.02;
	if (h->misread)
		u.spent_tok += 1 + (uint64_t)(sim_random(h->sim) * 3);
	return u;
}

static void fx_host_ask(void *arg, const struct lg_ask *ask)
{
	struct node_host *h = arg;
	struct message m = { .kind = MSG_ASK, .holder = h->index, .incarnation = h->incarnation,
			     .to_process = h->sim->regions[h->region].process };

	h->sim->r.asks_to_regions += h->sim->now_ns >= h->sim->c.warm_ns;
	transmit_ask(h->sim, &m, ask);
}

static void fx_host_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct node_host *h = arg;

	h->bucket.total.granted_tok += tok;
	h->bucket.expires_ns = lg_max_u64(h->bucket.expires_ns, expires_ns);
	h->bucket.low_water_tok = low_water_tok;
	h->bucket.epoch = epoch;
}

static void fx_host_take(void *arg, uint64_t tok, struct lg_usage *ret_now)
{
	struct node_host *h = arg;
	uint64_t left_tok = h->bucket.total.granted_tok - h->bucket.total.spent_tok;

	tok = lg_min_u64(tok, left_tok);
	h->bucket.total.spent_tok += tok;
	h->bucket.total.returned_tok += tok;
	*ret_now = read_bucket(h);
}

static void fx_host_generation(void *arg, uint32_t generation, uint32_t epoch, struct lg_usage *ret_now)
{
	struct node_host *h = arg;

	fx_host_take(arg, UINT64_MAX, ret_now);
	h->bucket.generation = generation;
	h->bucket.epoch = epoch;
	h->bucket.base = h->bucket.total;
	h->bucket.expires_ns = lg_min_u64(h->bucket.expires_ns, local(h->sim, &h->clock));
}

static const struct lg_lessee_effects *host_effects(struct node_host *h)
{
	static struct lg_lessee_effects fx = { .ask = fx_host_ask, .grant = fx_host_grant, .take = fx_host_take,
					       .generation = fx_host_generation };

	fx.arg = h;
	return &fx;
}

static void host_open(struct node_host *h)
{
	uint64_t now_ns = local(h->sim, &h->clock);
	struct lg_lessee_resume resume = {
		.generation = h->bucket.generation,
		.epoch = h->bucket.epoch,
		.expires_ns = h->bucket.expires_ns,
		.base = h->bucket.base,
		.now = h->bucket.total,
	};
	int r = lg_lessee_new(&h->sim->c.terms, now_ns, now_ns, lg_rand_next(&h->sim->rand),
			      h->bucket.generation ? &resume : NULL, &h->bucket.total, &h->lessee);

	assert(r == 0);
	if (h->made_ns)
		lg_lessee_forgot(h->lessee, h->made_ns);
	h->due_ns = now_ns;
	if (h->link.up)
		lg_lessee_up(h->lessee, h->sim->regions[h->region].epoch, now_ns, host_effects(h));
}

static void host_mark(struct node_host *h)
{
	struct message m = { .kind = MSG_MARK, .holder = h->index, .epoch = h->sim->regions[h->region].epoch,
			     .to_process = h->sim->regions[h->region].process };

	if (h->made_ns)
		m.forgot_ms = lg_age_ms(h->made_ns, local(h->sim, &h->clock)) + 1;
	transmit(h->sim, &m);
}

static void host_tick(struct node_host *h)
{
	uint64_t now_ns = local(h->sim, &h->clock);
	struct lg_usage usage;

	if (!h->agent || !h->lessee || now_ns < h->due_ns)
		return;
	usage = read_bucket(h);
	h->due_ns = lg_lessee_tick(h->lessee, &usage, now_ns, host_effects(h));
	if (lg_lessee_is_idle(h->lessee, now_ns))
		h->lessee = lg_lessee_free(h->lessee);
}

/* What the kernel tells the agent. */
static void announce(struct node_host *h)
{
	uint64_t now_ns = local(h->sim, &h->clock);

	if (!h->agent || (h->bucket.announced_ns && now_ns - h->bucket.announced_ns < ANNOUNCE_GAP_NS))
		return;
	h->bucket.announced_ns = now_ns;
	if (!h->lessee)
		host_open(h);
	h->due_ns = now_ns;
}

static bool host_admits(struct node_host *h, uint64_t cost_tok)
{
	struct bucket *b = &h->bucket;
	bool ok = local(h->sim, &h->clock) < b->expires_ns && b->total.spent_tok + cost_tok <= b->total.granted_tok;

	if (ok)
		b->total.spent_tok += cost_tok;
	else
		b->total.denied_tok += cost_tok;
	if (!ok || b->total.granted_tok - b->total.spent_tok < b->low_water_tok)
		announce(h);
	return ok;
}

static void host_connect(struct node_host *h)
{
	struct node_region *n = &h->sim->regions[h->region];

	if (h->link.up || h->gone || !h->agent)
		return;
	if (!n->running || h->link.n_cuts) {
		push(h->sim, h->sim->now_ns + 200 * MS, EV_CONNECT_HOST, h->index, NULL);
		return;
	}
	h->link.up = true;
	n->listed[h->index] = true;
	if (h->lessee)
		lg_lessee_up(h->lessee, n->epoch, local(h->sim, &h->clock), host_effects(h));
	else
		host_mark(h);
	h->due_ns = 0;
}

static void host_disconnect(struct node_host *h, bool again)
{
	if (h->link.up && h->lessee)
		lg_lessee_down(h->lessee);
	h->link.up = false;
	if (again)
		push(h->sim, h->sim->now_ns + 50 * MS + (uint64_t)(sim_random(h->sim) * 4e8), EV_CONNECT_HOST, h->index, NULL);
}

/* ---- a region ---- */

static void fx_region_ask(void *arg, const struct lg_ask *ask)
{
	struct node_region *n = arg;
	struct message m = { .kind = MSG_ASK, .home_side = true, .holder = n->index, .incarnation = n->epoch,
			     .to_process = n->sim->home.process };

	n->sim->r.asks_to_home += n->sim->now_ns >= n->sim->c.warm_ns;
	transmit_ask(n->sim, &m, ask);
}

static void fx_region_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct node_region *n = arg;
	struct message m = { .kind = MSG_GRANT, .holder = holder, .to_process = n->sim->hosts[holder].process };

	n->sim->r.grants_from_regions += n->sim->now_ns >= n->sim->c.warm_ns;
	transmit_grant(n->sim, &m, grant);
}

static const struct lg_region_effects *region_effects(struct node_region *n)
{
	static struct lg_region_effects fx = { .ask = fx_region_ask, .grant = fx_region_grant };

	fx.arg = n;
	return &fx;
}

static void region_mark(struct node_region *n)
{
	struct message m = { .kind = MSG_MARK, .home_side = true, .holder = n->index, .epoch = n->sim->home.epoch,
			     .to_process = n->sim->home.process };

	if (n->succession && lg_succession_forgot_ns(n->succession))
		m.forgot_ms = lg_age_ms(lg_succession_forgot_ns(n->succession), local(n->sim, &n->clock)) + 1;
	if (!n->succession || !lg_succession_missing(n->succession))
		transmit(n->sim, &m);
}

static void region_open(struct node_region *n)
{
	uint64_t now_ns = local(n->sim, &n->clock);
	int r = lg_region_new(&n->sim->c.terms, n->epoch, n->succession, now_ns, now_ns, lg_rand_next(&n->sim->rand), &n->region);

	assert(r == 0);
	if (n->link.up)
		lg_region_up(n->region, n->sim->home.epoch, now_ns, region_effects(n));
}

static void region_tick(struct node_region *n)
{
	uint64_t now_ns = local(n->sim, &n->clock);

	if (!n->region || now_ns < n->due_ns)
		return;
	n->due_ns = lg_region_tick(n->region, now_ns, region_effects(n));
	check_region(n->sim, n);
}

static void region_connect(struct node_region *n)
{
	struct node_home *home = &n->sim->home;

	if (n->link.up || !n->running)
		return;
	if (!home->running || n->link.n_cuts) {
		push(n->sim, n->sim->now_ns + 200 * MS, EV_CONNECT_REGION, n->index, NULL);
		return;
	}
	n->link.up = true;
	home->listed[n->index] = true;
	if (n->region)
		lg_region_up(n->region, home->epoch, local(n->sim, &n->clock), region_effects(n));
	else
		region_mark(n);
	n->due_ns = 0;
}

static void region_disconnect(struct node_region *n, bool again)
{
	if (n->link.up && n->region)
		lg_region_down(n->region);
	n->link.up = false;
	if (again)
		push(n->sim, n->sim->now_ns + 50 * MS + (uint64_t)(sim_random(n->sim) * 4e8), EV_CONNECT_REGION, n->index, NULL);
}

/* With one key a holder has named all it holds by any message of this epoch, or by saying that there is none. */
static void synced(struct lg_succession *succession, const struct message *m, uint32_t epoch, uint64_t now_ns)
{
	if (!succession || (m->kind == MSG_MARK ? m->epoch : m->ask->epoch) != epoch)
		return;
	if (m->forgot_ms)
		lg_succession_forgot(succession, lg_age_end_ns(m->forgot_ms - 1, now_ns));
	lg_succession_synced(succession, m->holder);
}

static void region_ask(struct node_region *n, const struct message *m)
{
	uint64_t now_ns = local(n->sim, &n->clock);

	if (m->kind == MSG_ASK) {
		if (!n->region)
			region_open(n);
		lg_region_ask(n->region, m->holder, m->incarnation, m->ask, now_ns, region_effects(n));
		n->due_ns = now_ns;
		check_region(n->sim, n);
	}
	synced(n->succession, m, n->epoch, now_ns);
}

/* ---- the home ---- */

static void fx_home_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct sim *s = arg;
	struct message m = { .kind = MSG_GRANT, .home_side = true, .holder = holder, .to_process = s->regions[holder].process };

	s->r.grants_from_home += s->now_ns >= s->c.warm_ns;
	transmit_grant(s, &m, grant);
}

static void home_ask(struct sim *s, const struct message *m)
{
	struct lg_home_effects fx = { .arg = s, .grant = fx_home_grant };
	struct node_home *n = &s->home;

	if (m->kind == MSG_ASK) {
		if (!n->home) {
			int r = lg_home_new(&s->c.terms, n->epoch, n->succession, s->now_ns, lg_rand_next(&s->rand), &n->home);

			assert(r == 0);
			n->granted_total_tok = 0;
		}
		lg_home_ask(n->home, m->holder, m->incarnation, m->ask, s->now_ns, &fx);
		n->due_ns = s->now_ns;
		check_home(s);
	}
	synced(n->succession, m, n->epoch, s->now_ns);
}

static void home_tick(struct sim *s)
{
	struct lg_home_effects fx = { .arg = s, .grant = fx_home_grant };

	if (!s->home.home || s->now_ns < s->home.due_ns)
		return;
	s->home.due_ns = lg_home_tick(s->home.home, s->now_ns, &fx);
	check_home(s);
}

/* ---- messages arrive ---- */

static void deliver(struct sim *s, const struct message *m)
{
	struct node_region *n = m->home_side ? &s->regions[m->holder] : &s->regions[s->hosts[m->holder].region];
	struct node_host *h = m->home_side ? NULL : &s->hosts[m->holder];

	if (m->kind != MSG_GRANT) {
		if (m->home_side && s->home.running && s->home.process == m->to_process)
			home_ask(s, m);
		if (!m->home_side && n->running && n->process == m->to_process)
			region_ask(n, m);
	} else if (m->home_side) {
		if (!n->region || n->process != m->to_process)
			return;
		lg_region_grant(n->region, &m->grant, local(s, &n->clock), region_effects(n));
		n->due_ns = local(s, &n->clock);
		check_region(s, n);
	} else {
		if (!h->agent || !h->lessee || h->process != m->to_process)
			return;
		lg_lessee_grant(h->lessee, &m->grant, local(s, &h->clock), host_effects(h));
		h->due_ns = local(s, &h->clock);
	}
}

/* ---- faults ---- */

static void agent_stop(struct node_host *h)
{
	host_disconnect(h, false);
	h->agent = false;
	h->process++;
	h->lessee = lg_lessee_free(h->lessee);
}

static void agent_start(struct node_host *h)
{
	if (h->gone)
		return;
	h->agent = true;
	h->powered = true;
	if (h->bucket.generation)
		host_open(h);
	push(h->sim, h->sim->now_ns + 20 * MS, EV_CONNECT_HOST, h->index, NULL);
}

static void region_stop(struct node_region *n)
{
	region_disconnect(n, false);
	for (uint32_t i = 0; i < n->sim->n_hosts; i++)
		if (n->sim->hosts[i].region == n->index)
			host_disconnect(&n->sim->hosts[i], true);
	n->running = false;
	n->process++;
	n->region = lg_region_free(n->region);
	n->succession = lg_succession_free(n->succession);
}

static void region_start(struct node_region *n)
{
	int r = lg_succession_new(local(n->sim, &n->clock), &n->succession);

	assert(r == 0);
	for (uint32_t i = 0; i < n->sim->n_hosts; i++)
		if (n->listed[i])
			lg_succession_list(n->succession, i);
	n->epoch++;
	n->running = true;
	n->due_ns = 0;
	push(n->sim, n->sim->now_ns + 20 * MS, EV_CONNECT_REGION, n->index, NULL);
}

static void home_stop(struct sim *s)
{
	const struct lg_terms *t = &s->c.terms;

	for (uint32_t i = 0; i < s->c.n_regions; i++)
		region_disconnect(&s->regions[i], true);
	s->home.unsettled = s->home.succession && lg_succession_missing(s->home.succession) &&
			    s->now_ns < lg_succession_since_ns(s->home.succession) + t->ttl_ns + t->grace_ns;
	s->home.running = false;
	s->home.process++;
	s->home.home = lg_home_free(s->home.home);
	s->home.succession = lg_succession_free(s->home.succession);
}

static void home_start(struct sim *s)
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

static void host_power_off(struct node_host *h)
{
	agent_stop(h);
	h->powered = false;
	h->bucket = (struct bucket){ 0 };
}

static void cut(struct sim *s, struct link *link, uint32_t index)
{
	link->n_cuts++;
	push(s, s->now_ns + KEEPALIVE_NS, EV_KEEPALIVE, index, NULL);
}

static void fault_begins(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];

	switch (f->kind) {
	case SIM_CUT_REGION: cut(s, &s->regions[f->index].link, number); break;
	case SIM_CUT_HOST: cut(s, &s->hosts[f->index].link, number); break;
	case SIM_AGENT_RESTART:
		if (!s->hosts[f->index].agent)
			return;
		agent_stop(&s->hosts[f->index]);
		break;
	case SIM_HOST_GONE:
		host_power_off(&s->hosts[f->index]);
		s->hosts[f->index].gone = true;
		return;
	case SIM_HOST_REBOOT:
		if (!s->hosts[f->index].agent)
			return;
		host_power_off(&s->hosts[f->index]);
		break;
	case SIM_REGION_RESTART:
	case SIM_SERVER_RESTART:
		if (!s->regions[f->index].running || (f->kind == SIM_SERVER_RESTART && !s->home.running))
			return;
		region_stop(&s->regions[f->index]);
		if (f->kind == SIM_SERVER_RESTART)
			home_stop(s);
		break;
	case SIM_HOME_RESTART:
		if (!s->home.running)
			return;
		home_stop(s);
		break;
	case _SIM_FAULT_N: assert(false);
	}
	push(s, s->now_ns + f->for_ns, EV_FAULT_OVER, number, NULL);
}

static void fault_over(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];
	struct node_host *h = &s->hosts[f->index];

	switch (f->kind) {
	case SIM_CUT_REGION: s->regions[f->index].link.n_cuts--; break;
	case SIM_CUT_HOST: h->link.n_cuts--; break;
	case SIM_HOST_REBOOT:
		h->incarnation++;
		h->made_ns = local(s, &h->clock);
		agent_start(h);
		break;
	case SIM_AGENT_RESTART: agent_start(h); break;
	case SIM_HOST_GONE: break;
	case SIM_REGION_RESTART: region_start(&s->regions[f->index]); break;
	case SIM_SERVER_RESTART:
		region_start(&s->regions[f->index]);
		home_start(s);
		break;
	case SIM_HOME_RESTART: home_start(s); break;
	case _SIM_FAULT_N: assert(false);
	}
}

static void keepalive_fails(struct sim *s, uint32_t number)
{
	const struct fault *f = &s->faults[number];

	if (f->kind == SIM_CUT_REGION && s->regions[f->index].link.n_cuts)
		region_disconnect(&s->regions[f->index], true);
	if (f->kind == SIM_CUT_HOST && s->hosts[f->index].link.n_cuts)
		host_disconnect(&s->hosts[f->index], true);
}

/* ---- traffic and time ---- */

static void count_bin(struct sim *s, bool admitted, bool perfect)
{
	size_t bin = s->now_ns / SIM_BIN_NS;

	s->bin_admitted[bin] += admitted;
	s->bin_perfect[bin] += perfect;
}

static void arrive(struct sim *s, struct node_host *h)
{
	uint64_t cost_tok = s->c.cost_max_tok > 1 ? 1 + (uint64_t)(sim_random(s) * (double)s->c.cost_max_tok) : 1;
	bool ok = host_admits(h, cost_tok), perfect = sim_meter_admit(&s->perfect, cost_tok, s->now_ns);
	int64_t over;

	count_bin(s, ok, perfect);
	if (s->now_ns >= s->c.warm_ns) {
		s->r.offered++;
		s->r.admitted += ok;
		s->r.perfect += perfect;
		s->r.region_offered[h->region]++;
		s->r.region_admitted[h->region] += ok;
	}
	if (!ok)
		return;
	sim_meter_add(&s->law, cost_tok, s->now_ns);
	over = sim_meter_over(&s->law, s->now_ns);
	if (over > s->r.worst_over_tok)
		s->r.worst_over_tok = over;
	if (over > 0)
		broken(s, "admitted", over);
}

static void arrival(struct sim *s, uint32_t index)
{
	struct node_host *h = &s->hosts[index];
	double rate = s->c.rate(s, h->region, index % s->c.hosts_per_region, (double)s->now_ns / 1e9);

	if (h->powered && sim_random(s) * s->c.rate_max <= rate) {
		arrive(s, h);
		while (s->c.batch > 1 && sim_random(s) > 1 / s->c.batch)
			arrive(s, h);
	}
	push(s, s->now_ns + exponential_ns(s, 1e9 / s->c.rate_max * s->c.batch), EV_ARRIVAL, index, NULL);
}

/* What roles do now and then: forget idle keys, and (here, where messages are lost) repeat what a stream would have delivered. */
static void second(struct sim *s)
{
	if (s->home.home && lg_home_is_idle(s->home.home, s->now_ns))
		s->home.home = lg_home_free(s->home.home);
	for (uint32_t i = 0; i < s->c.n_regions; i++) {
		struct node_region *n = &s->regions[i];

		if (n->region && lg_region_is_idle(n->region, local(s, &n->clock)))
			n->region = lg_region_free(n->region);
		if (n->link.up && !n->region)
			region_mark(n);
	}
	for (uint32_t i = 0; i < s->n_hosts; i++) {
		struct node_host *h = &s->hosts[i];
		uint64_t now_ns = local(s, &h->clock);

		if (h->lessee || !h->agent)
			continue;
		if (h->link.up)
			host_mark(h);
		if (h->bucket.total.granted_tok == h->bucket.total.spent_tok && now_ns > h->bucket.expires_ns + s->c.terms.per_ns)
			h->bucket = (struct bucket){ 0 };
	}
}

static void handle(struct sim *s, const struct event *e)
{
	const struct lg_terms *t = &s->c.terms;

	switch (e->kind) {
	case EV_ARRIVAL: arrival(s, e->index); break;
	case EV_HOST_TICK:
		host_tick(&s->hosts[e->index]);
		push(s, s->now_ns + t->host_tick_ns, EV_HOST_TICK, e->index, NULL);
		break;
	case EV_REGION_TICK:
		region_tick(&s->regions[e->index]);
		check_potential(s);
		push(s, s->now_ns + t->region_tick_ns, EV_REGION_TICK, e->index, NULL);
		break;
	case EV_HOME_TICK:
		home_tick(s);
		push(s, s->now_ns + t->home_tick_ns, EV_HOME_TICK, 0, NULL);
		break;
	case EV_SECOND:
		second(s);
		push(s, s->now_ns + S, EV_SECOND, 0, NULL);
		break;
	case EV_MESSAGE:
		deliver(s, e->msg);
		message_free(e->msg);
		break;
	case EV_CONNECT_HOST: host_connect(&s->hosts[e->index]); break;
	case EV_CONNECT_REGION: region_connect(&s->regions[e->index]); break;
	case EV_FAULT: fault_begins(s, e->index); break;
	case EV_FAULT_OVER: fault_over(s, e->index); break;
	case EV_KEEPALIVE: keepalive_fails(s, e->index); break;
	}
}

void sim_fault(struct sim *s, enum sim_fault_kind kind, uint32_t index, uint64_t at_ns, uint64_t for_ns)
{
	assert(s->n_faults < FAULTS_MAX);
	s->faults[s->n_faults] = (struct fault){ .kind = kind, .index = index, .for_ns = for_ns };
	push(s, at_ns, EV_FAULT, s->n_faults, NULL);
	s->n_faults++;
}

void sim_run(struct sim *s)
{
	while (s->n_heap && !s->r.broken[0]) {
		struct event e = pop(s);

		if (e.at_ns >= s->c.end_ns) {
			message_free(e.msg);
			break;
		}
		s->now_ns = e.at_ns;
		handle(s, &e);
	}
}

/* ---- making one ---- */

static struct clock any_clock(struct sim *s)
{
	int64_t ppm = (int64_t)((sim_random(s) * 2 - 1) * s->c.clock_ppm);

	return (struct clock){ .ppm = ppm, .offset_ns = 1 * S + (uint64_t)(sim_random(s) * 1e12) };
}

static uint64_t phase(struct sim *s, uint64_t period_ns)
{
	return (uint64_t)(sim_random(s) * (double)period_ns);
}

static void nodes_init(struct sim *s)
{
	for (uint32_t i = 0; i < s->c.n_regions; i++) {
		s->regions[i] = (struct node_region){ .sim = s, .index = i, .clock = any_clock(s), .running = true, .epoch = 1 };
		push(s, phase(s, s->c.terms.region_tick_ns), EV_REGION_TICK, i, NULL);
		push(s, 0, EV_CONNECT_REGION, i, NULL);
	}
	for (uint32_t i = 0; i < s->n_hosts; i++) {
		s->hosts[i] = (struct node_host){ .sim = s, .index = i, .region = i / s->c.hosts_per_region, .clock = any_clock(s),
						  .powered = true, .agent = true, .incarnation = 1 };
		push(s, phase(s, s->c.terms.host_tick_ns), EV_HOST_TICK, i, NULL);
		push(s, 0, EV_CONNECT_HOST, i, NULL);
		push(s, exponential_ns(s, 1e9 / s->c.rate_max * s->c.batch), EV_ARRIVAL, i, NULL);
	}
	s->home = (struct node_home){ .running = true, .epoch = 1 };
	push(s, phase(s, s->c.terms.home_tick_ns), EV_HOME_TICK, 0, NULL);
	push(s, S, EV_SECOND, 0, NULL);
}

int sim_new(const struct sim_config *config, struct sim **ret_sim)
{
	_cleanup_(sim_free) struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->c = *config;
	s->rand = config->seed;
	s->n_hosts = config->n_regions * config->hosts_per_region;
	assert(config->n_regions <= SIM_REGIONS_MAX && s->n_hosts <= SIM_HOSTS_MAX);
	s->r.worst_over_tok = s->r.worst_potential_tok = INT64_MIN;
	sim_meter_init(&s->law, &config->terms);
	sim_meter_init(&s->perfect, &config->terms);
	s->n_bins = config->end_ns / SIM_BIN_NS + 1;
	s->bin_admitted = calloc(s->n_bins, sizeof(*s->bin_admitted));
	s->bin_perfect = calloc(s->n_bins, sizeof(*s->bin_perfect));
	if (!s->bin_admitted || !s->bin_perfect)
		return -ENOMEM;
	nodes_init(s);
	*ret_sim = TAKE(s);
	return 0;
}

struct sim *sim_free(struct sim *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_heap; i++)
		message_free(s->heap[i].msg);
	for (uint32_t i = 0; i < s->n_hosts; i++)
		lg_lessee_free(s->hosts[i].lessee);
	for (uint32_t i = 0; i < s->c.n_regions; i++) {
		lg_region_free(s->regions[i].region);
		lg_succession_free(s->regions[i].succession);
	}
	lg_home_free(s->home.home);
	lg_succession_free(s->home.succession);
	sim_meter_fini(&s->law);
	sim_meter_fini(&s->perfect);
	free(s->bin_admitted);
	free(s->bin_perfect);
	free(s->heap);
	free(s);
	return NULL;
}

/* ---- results ---- */

const struct sim_config *sim_config_of(const struct sim *s)
{
	return &s->c;
}

const struct sim_result *sim_result_of(const struct sim *s)
{
	return &s->r;
}

uint64_t sim_now_ns(const struct sim *s)
{
	return s->now_ns;
}

void sim_bin(const struct sim *s, uint64_t at_ns, uint64_t *ret_admitted, uint64_t *ret_perfect)
{
	size_t bin = at_ns / SIM_BIN_NS;

	*ret_admitted = bin < s->n_bins ? s->bin_admitted[bin] : 0;
	*ret_perfect = bin < s->n_bins ? s->bin_perfect[bin] : 0;
}

double sim_back_after_s(const struct sim *s, uint64_t at_ns, double share)
{
	for (uint64_t t = at_ns; t + 4 * SIM_BIN_NS <= s->c.end_ns; t += SIM_BIN_NS) {
		uint64_t admitted = 0, perfect = 0, a, p;

		for (uint64_t i = 0; i < 4; i++) {
			sim_bin(s, t + i * SIM_BIN_NS, &a, &p);
			admitted += a;
			perfect += p;
		}
		if (perfect && (double)admitted >= share * (double)perfect)
			return (double)(t - at_ns) / 1e9;
	}
	return -1;
}
