// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lease/arith.h"

#define WALL_S 100000	/* when all begins */

/* ---- chance, clocks, events ---- */

double sim_random(struct sim *s)
{
	return (double)(lg_rand_next(&s->rand) >> 11) * 0x1p-53;
}

uint64_t sim_exponential_ns(struct sim *s, double mean_ns)
{
	return (uint64_t)(-log(1 - sim_random(s)) * mean_ns) + 1;
}

uint64_t sim_local_ns(const struct sim *s, const struct clock *clock)
{
	return clock->offset_ns + s->now_ns + (uint64_t)((int64_t)s->now_ns / 1000000 * clock->ppm);
}

uint64_t sim_true_ns(const struct clock *clock, uint64_t local_ns)
{
	int64_t since_ns = (int64_t)(local_ns - clock->offset_ns);

	return since_ns < 0 ? 0 : (uint64_t)(since_ns - since_ns / (1000000 + clock->ppm) * clock->ppm);
}

uint32_t sim_new_life(const struct sim *s, const struct clock *clock, uint32_t before)
{
	int64_t wall_s = WALL_S + clock->wall_s + (int64_t)(s->now_ns / S);

	return (uint32_t)(wall_s > before ? wall_s : before + 1);
}

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->number < b->number);
}

void sim_push(struct sim *s, uint64_t at_ns, enum event_kind kind, uint32_t index, struct message *msg)
{
	struct event e = { .at_ns = at_ns, .number = s->n_events++, .kind = kind, .index = index, .msg = msg };
	size_t i = s->n_heap++;

	assert(at_ns >= s->now_ns && at_ns < UINT64_MAX / 2);
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

/* ---- traffic and time ---- */

static void count_bin(struct sim *s, uint32_t site, bool admitted, bool perfect)
{
	size_t bin = s->now_ns / SIM_BIN_NS;

	s->bin_region[site][bin] += admitted;
	s->bin_admitted[bin] += admitted;
	s->bin_perfect[bin] += perfect;
}

void sim_admitted(struct sim *s, uint64_t cost_tok)
{
	int64_t over;

	sim_meter_add(&s->law, cost_tok, s->now_ns);
	over = sim_meter_over(&s->law, s->now_ns);
	if (over > s->r.worst_over_tok)
		s->r.worst_over_tok = over;
	if (over > 0)
		sim_broken(s, "admitted", over);
}

static void arrive(struct sim *s, struct node_host *h)
{
	uint64_t cost_tok = s->c.cost_max_tok > 1 ? 1 + (uint64_t)(sim_random(s) * (double)s->c.cost_max_tok) : 1;
	bool ok = sim_host_admits(h, cost_tok), perfect = sim_meter_admit(&s->perfect, cost_tok, s->now_ns);
	bool by_share = !ok && sim_host_falls_back(h, cost_tok);

	count_bin(s, h->site, ok, perfect);
	if (s->now_ns >= s->c.warm_ns) {
		s->r.offered++;
		s->r.admitted += ok;
		s->r.perfect += perfect;
		s->r.region_offered[h->site]++;
		s->r.region_admitted[h->site] += ok;
	}
	if (ok || (by_share && lg_rule_sets_shares_aside(&s->c.rule)))
		sim_admitted(s, cost_tok);
	if (s->c.rule.fallback == LG_FALLBACK_SHARE && (ok || by_share)) {
		sim_meter_add(&s->all, cost_tok, s->now_ns);
		s->r.worst_all_tok = lg_max_u64(s->r.worst_all_tok, sim_meter_level(&s->all, s->now_ns));
	}
}

static bool hoards(const struct node_host *h)
{
	const struct sim *s = h->sim;

	return s->c.hoards && (!h->link.up || h->link.n_cuts || s->regions[h->region].link.n_cuts || s->regions[h->site].link.n_cuts);
}

static void arrival(struct sim *s, uint32_t index)
{
	struct node_host *h = &s->hosts[index];
	double rate = s->c.rate(s, h->site, index % s->c.hosts_per_region, (double)s->now_ns / 1e9);

	if (h->powered && !hoards(h) && sim_random(s) * s->c.rate_max <= rate) {
		arrive(s, h);
		while (s->c.batch > 1 && sim_random(s) > 1 / s->c.batch)
			arrive(s, h);
	}
	sim_push(s, s->now_ns + sim_exponential_ns(s, 1e9 / s->c.rate_max * s->c.batch), EV_ARRIVAL, index, NULL);
}

/* What roles do now and then: forget idle keys, and (here, where messages are lost) repeat what a stream would have delivered. */
static void second(struct sim *s)
{
	for (uint32_t i = 0; i < SIM_HOMES; i++)
		if (s->homes[i].home && lg_home_is_idle(s->homes[i].home, s->now_ns))
			sim_home_forget(&s->homes[i]);
	for (uint32_t i = 0; i < SIM_HOMES; i++)
		sim_escrow_second(&s->homes[i]);
	for (uint32_t i = 0; i < s->n_regions; i++) {
		struct node_region *n = &s->regions[i];

		if (n->region && lg_region_is_idle(n->region, sim_local_ns(s, &n->clock))) {
			n->region = lg_region_free(n->region);
			n->pool_tok = 0;
		}
		if (n->link.up && !n->region)
			sim_region_mark(n);
	}
	for (uint32_t i = 0; i < s->n_hosts; i++) {
		struct node_host *h = &s->hosts[i];

		if (h->lessee || !h->agent)
			continue;
		if (h->link.up)
			sim_host_mark(h);
		sim_host_reap(h);
	}
}

static void handle(struct sim *s, const struct event *e)
{
	const struct lg_terms *t = &s->c.terms;

	switch (e->kind) {
	case EV_ARRIVAL: arrival(s, e->index); break;
	case EV_HOST_TICK:
		sim_host_tick(&s->hosts[e->index]);
		sim_push(s, s->now_ns + t->host_tick_ns, EV_HOST_TICK, e->index, NULL);
		break;
	case EV_REGION_TICK:
		sim_region_tick(&s->regions[e->index]);
		sim_push(s, s->now_ns + t->region_tick_ns, EV_REGION_TICK, e->index, NULL);
		break;
	case EV_HOME_TICK:
		sim_home_tick(&s->homes[e->index]);
		sim_push(s, s->now_ns + t->home_tick_ns, EV_HOME_TICK, e->index, NULL);
		break;
	case EV_SECOND:
		second(s);
		sim_push(s, s->now_ns + S, EV_SECOND, 0, NULL);
		break;
	case EV_MESSAGE:
		sim_deliver(s, e->msg);
		sim_message_free(e->msg);
		break;
	case EV_DRAIN: sim_host_drain(&s->hosts[e->index]); break;
	case EV_CONNECT_HOST: sim_host_connect(&s->hosts[e->index]); break;
	case EV_CONNECT_REGION: sim_region_connect(&s->regions[e->index]); break;
	case EV_FAULT: sim_fault_begins(s, e->index); break;
	case EV_FAULT_OVER: sim_fault_over(s, e->index); break;
	case EV_MOVE: sim_slot_follow(&s->regions[e->index]); break;
	case EV_THAW: sim_thaw(s); break;
	case EV_NEW_LIST: sim_new_list(&s->regions[e->index]); break;
	case EV_KEEPALIVE: sim_keepalive_fails(s, e->index); break;
	case EV_COMMIT:
	case EV_COMMIT_LATE:
		sim_commit(s, e->msg, e->kind == EV_COMMIT_LATE);
		sim_message_free(e->msg);
		break;
	case EV_COMMITTED:
		sim_committed(s, e->msg);
		sim_message_free(e->msg);
		break;
	}
}

void sim_run(struct sim *s)
{
	while (s->n_heap && !s->r.broken[0]) {
		struct event e = pop(s);

		if (e.at_ns >= s->c.end_ns) {
			sim_message_free(e.msg);
			break;
		}
		s->now_ns = e.at_ns;
		handle(s, &e);
		sim_check_potential(s);
		sim_check_mark(s);
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

/* Regions below others come after them, in order. */
static struct node_region *above(struct sim *s, uint32_t i)
{
	return i < s->c.n_regions ? NULL : &s->regions[(i - s->c.n_regions) / s->c.subs_per_region];
}

static uint32_t lessor_of_host(const struct sim *s, uint32_t i)
{
	uint32_t site = i / s->c.hosts_per_region, subs = s->c.subs_per_region;

	return subs ? s->c.n_regions + site * subs + i % s->c.hosts_per_region % subs : site;
}

void sim_upstream_init(struct sim *s, struct lg_upstream *u, struct lg_holding *h)
{
	*u = (struct lg_upstream){ .rand = lg_rand_next(&s->rand) };
	*h = (struct lg_holding){ .terms = &s->c.terms, .upstream = u };
}

static void nodes_init(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_regions; i++) {
		s->regions[i] = (struct node_region){ .sim = s, .index = i, .clock = any_clock(s), .running = true, .list = 1,
						      .above = above(s, i),
						      .lends_to_regions = s->c.subs_per_region && i < s->c.n_regions };
		s->regions[i].epoch = sim_new_life(s, &s->regions[i].clock, 0);
		sim_upstream_init(s, &s->regions[i].upstream, &s->regions[i].holding);
		sim_region_lives(&s->regions[i]);
		sim_push(s, phase(s, s->c.terms.region_tick_ns), EV_REGION_TICK, i, NULL);
		sim_push(s, 0, EV_CONNECT_REGION, i, NULL);
	}
	for (uint32_t i = 0; i < s->n_hosts; i++) {
		s->hosts[i] = (struct node_host){ .sim = s, .index = i, .region = lessor_of_host(s, i), .site = i / s->c.hosts_per_region,
						  .clock = any_clock(s), .powered = true, .agent = true };
		s->hosts[i].incarnation = sim_new_life(s, &s->hosts[i].clock, 0);
		sim_upstream_init(s, &s->hosts[i].upstream, &s->hosts[i].holding);
		sim_push(s, phase(s, s->c.terms.host_tick_ns), EV_HOST_TICK, i, NULL);
		sim_push(s, 0, EV_CONNECT_HOST, i, NULL);
		sim_push(s, sim_exponential_ns(s, 1e9 / s->c.rate_max * s->c.batch), EV_ARRIVAL, i, NULL);
	}
	for (uint32_t i = 0; i < SIM_HOMES; i++)
		sim_push(s, phase(s, s->c.terms.home_tick_ns), EV_HOME_TICK, i, NULL);
	s->stores[0].covered = true;
	for (uint32_t i = 0; i < 2; i++)
		s->homes[i] = (struct node_home){ .sim = s, .list = i + 1, .running = i == 0, .process = ++s->n_processes };
	s->homes[0].epoch = sim_new_life(s, &s->homes[0].clock, 0);
	sim_home_lives(&s->homes[0]);
	sim_escrow_begin(&s->homes[0]);
	sim_push(s, S, EV_SECOND, 0, NULL);
}

int sim_new(const struct sim_config *config, struct sim **ret_sim)
{
	_cleanup_(sim_free) struct sim *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->c = *config;
	s->rand = config->seed;
	s->store_rand = ~config->seed;
	s->n_hosts = config->n_regions * config->hosts_per_region;
	s->n_regions = config->n_regions * (1 + config->subs_per_region);
	assert(s->n_regions <= SIM_REGIONS_MAX && s->n_hosts <= SIM_HOSTS_MAX);
	s->r.worst_over_tok = s->r.worst_potential_tok = INT64_MIN;
	sim_meter_init(&s->law, &config->terms);
	sim_meter_init(&s->perfect, &config->terms);
	sim_meter_init(&s->all, &config->terms);
	s->law.origin_ns = s->perfect.origin_ns = s->all.origin_ns = config->origin_ns;
	s->n_bins = config->end_ns / SIM_BIN_NS + 1;
	s->bin_admitted = calloc(s->n_bins, sizeof(*s->bin_admitted));
	s->bin_perfect = calloc(s->n_bins, sizeof(*s->bin_perfect));
	if (!s->bin_admitted || !s->bin_perfect)
		return -ENOMEM;
	for (uint32_t i = 0; i < config->n_regions; i++) {
		s->bin_region[i] = calloc(s->n_bins, sizeof(*s->bin_region[i]));
		if (!s->bin_region[i])
			return -ENOMEM;
	}
	nodes_init(s);
	*ret_sim = TAKE(s);
	return 0;
}

struct sim *sim_free(struct sim *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n_heap; i++)
		sim_message_free(s->heap[i].msg);
	for (uint32_t i = 0; i < s->n_hosts; i++) {
		lg_lessee_free(s->hosts[i].lessee);
		sim_share_free(s->hosts[i].share);
	}
	for (uint32_t i = 0; i < s->n_regions; i++) {
		lg_region_free(s->regions[i].region);
		lg_succession_free(s->regions[i].succession);
	}
	for (uint32_t i = 0; i < SIM_HOMES; i++) {
		lg_home_free(s->homes[i].home);
		free(s->homes[i].lessor);
		lg_succession_free(s->homes[i].succession);
	}
	sim_meter_fini(&s->law);
	sim_meter_fini(&s->perfect);
	sim_meter_fini(&s->all);
	for (uint32_t i = 0; i < s->c.n_regions; i++)
		free(s->bin_region[i]);
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

uint64_t sim_region_bin(const struct sim *s, uint32_t region, uint64_t at_ns)
{
	size_t bin = at_ns / SIM_BIN_NS;

	return bin < s->n_bins ? s->bin_region[region][bin] : 0;
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
