// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_world.h"

#include <assert.h>

#include "lease/age.h"
#include "lease/arith.h"

#define ANNOUNCE_GAP_NS (20 * MS)

/* As the agent has it: within the generation. */
static struct lg_usage usage_of(const struct bucket *b)
{
	return (struct lg_usage){
		.spent_tok = b->total.spent_tok - b->base.spent_tok,
		.returned_tok = b->total.returned_tok - b->base.returned_tok,
		.denied_tok = b->total.denied_tok,
	};
}

static struct lg_usage read_bucket(struct node_host *h)
{
	struct lg_usage u = usage_of(&h->bucket);

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
	sim_transmit_ask(h->sim, &m, ask);
}

/* Just before the lease ends; now and then too late, which must be refused. */
static void plan_drain(struct node_host *h)
{
	struct sim *s = h->sim;
	uint64_t end_ns = sim_true_ns(&h->clock, h->bucket.expires_ns);

	if (sim_random(s) < 0.7)
		end_ns = lg_sub_floor(end_ns, 2);
	else
		end_ns += (uint64_t)(sim_random(s) * 3e9);
	h->drain_ns = lg_max_u64(end_ns, s->now_ns);
	sim_push(s, h->drain_ns, EV_DRAIN, h->index, NULL);
}

static void fx_host_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct node_host *h = arg;

	h->bucket.total.granted_tok += tok;
	h->bucket.expires_ns = lg_max_u64(h->bucket.expires_ns, expires_ns);
	if (h->sim->c.hoards)
		plan_drain(h);
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

static int fx_host_generation(void *arg, uint32_t generation, uint32_t epoch)
{
	struct node_host *h = arg;
	struct lg_usage end;

	fx_host_take(arg, UINT64_MAX, &end);
	h->bucket.generation = generation;
	h->bucket.epoch = epoch;
	h->bucket.base = h->bucket.total;
	h->bucket.expires_ns = lg_min_u64(h->bucket.expires_ns, sim_local_ns(h->sim, &h->clock));
	return 0;
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
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);
	const struct bucket *b = &h->bucket;
	struct lg_lessee_found found = { 0 };
	int r;

	if (b->generation) {
		found.generation = b->generation;
		found.epoch = b->epoch;
		found.expires_ns = b->expires_ns;
		found.granted_tok = b->total.granted_tok - b->base.granted_tok;
		found.usage = usage_of(b);
		found.traffic_tok = b->total.spent_tok - b->total.returned_tok;
	}
	r = lg_lessee_new(&h->holding, now_ns, now_ns, &found, &h->lessee);
	assert(r == 0);
	if (h->made_ns)
		lg_lessee_forgot(h->lessee, h->made_ns);
	h->due_ns = now_ns;
	if (h->link.up)
		lg_lessee_up(h->lessee, now_ns, host_effects(h));
}

void sim_host_mark(struct node_host *h)
{
	struct message m = { .kind = MSG_MARK, .holder = h->index, .epoch = h->sim->regions[h->region].epoch,
			     .to_process = h->sim->regions[h->region].process };

	if (h->made_ns)
		m.forgot_ms = lg_age_ms(h->made_ns, sim_local_ns(h->sim, &h->clock)) + 1;
	sim_transmit(h->sim, &m);
}

void sim_host_tick(struct node_host *h)
{
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);
	struct lg_usage usage;

	if (!h->agent || !h->lessee || now_ns < h->due_ns)
		return;
	usage = read_bucket(h);
	h->due_ns = lg_lessee_tick(h->lessee, &usage, now_ns, host_effects(h));
	if (lg_lessee_is_idle(h->lessee, now_ns))
		h->lessee = lg_lessee_free(h->lessee);
}

void sim_host_grant(struct node_host *h, const struct message *m)
{
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);

	if (!h->agent || !h->lessee || h->process != m->to_process)
		return;
	lg_lessee_grant(h->lessee, &m->grant, now_ns, host_effects(h));
	h->due_ns = now_ns;
}

/* What the kernel tells the agent. */
static void announce(struct node_host *h)
{
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);

	if (!h->agent || (h->bucket.announced_ns && now_ns - h->bucket.announced_ns < ANNOUNCE_GAP_NS))
		return;
	h->bucket.announced_ns = now_ns;
	if (!h->lessee)
		host_open(h);
	h->due_ns = now_ns;
}

/* With all that is in it. */
static void forget_bucket(struct node_host *h)
{
	h->bucket = (struct bucket){ 0 };
	h->share = sim_share_free(h->share);
}

void sim_host_reap(struct node_host *h)
{
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);
	const struct lg_terms *t = &h->sim->c.terms;
	struct bucket *b = &h->bucket;
	uint64_t delay_ns = t->cold_tok && t->algorithm == LG_TOKEN_BUCKET ? t->grace_ns : t->per_ns;

	if (h->lessee || !h->agent || now_ns <= b->expires_ns + delay_ns)
		return;
	if (t->cold_tok && now_ns < b->seen_ns + lg_terms_cold_rest_ns(t))
		return;
	if (!b->generation || b->total.granted_tok == b->total.spent_tok)
		forget_bucket(h);
}

/* A packet finds its bucket, or makes it. */
static void find(struct node_host *h)
{
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);
	struct bucket *b = &h->bucket;
	uint64_t cold_tok;

	/* At the worst time. */
	if (h->sim->c.terms.cold_tok)
		sim_host_reap(h);
	cold_tok = lg_terms_cold_now_tok(&h->sim->c.terms, h->made_ns, now_ns);
	if (!b->made && cold_tok) {
		b->total.granted_tok = cold_tok;
		b->expires_ns = now_ns + LG_COLD_START_NS;
	} else if (!b->made && h->sim->c.rule.fallback == LG_FALLBACK_SHARE) {
		b->expires_ns = now_ns;	/* its share counts from there */
	}
	b->made = true;
	b->seen_ns = now_ns;
}

bool sim_host_admits(struct node_host *h, uint64_t cost_tok)
{
	struct bucket *b = &h->bucket;
	bool ok;

	find(h);
	ok = sim_local_ns(h->sim, &h->clock) < b->expires_ns && b->total.spent_tok + cost_tok <= b->total.granted_tok;

	if (ok)
		b->total.spent_tok += cost_tok;
	else
		b->total.denied_tok += cost_tok;
	if (!ok || b->total.granted_tok - b->total.spent_tok < b->low_water_tok)
		announce(h);
	return ok;
}

bool sim_host_falls_back(struct node_host *h, uint64_t cost_tok)
{
	const struct sim_config *c = &h->sim->c;
	uint64_t now_ns = sim_local_ns(h->sim, &h->clock);
	int r;

	if (c->rule.fallback != LG_FALLBACK_SHARE || !h->bucket.expires_ns || now_ns < h->bucket.expires_ns)
		return false;
	if (!h->share) {
		r = sim_share_new(&c->rule, c->n_regions, c->hosts_per_region, c->terms.grace_ns, &h->share);
		assert(r == 0);
	}
	if (!sim_share_take(h->share, h->bucket.expires_ns, h->bucket.announced_ns, cost_tok, h->link.up, now_ns))
		return false;
	sim_check_share(h, cost_tok);
	return true;
}

void sim_host_drain(struct node_host *h)
{
	struct bucket *b = &h->bucket;
	uint64_t left_tok = b->total.granted_tok - b->total.spent_tok;

	/* A later grant has put it off. */
	if (h->sim->now_ns != h->drain_ns)
		return;
	if (h->powered && left_tok && sim_host_admits(h, left_tok))
		sim_admitted(h->sim, left_tok);
}

void sim_host_connect(struct node_host *h)
{
	struct node_region *n = &h->sim->regions[h->region];

	if (h->link.up || h->gone || !h->agent)
		return;
	if (!n->running || h->link.n_cuts) {
		sim_push(h->sim, h->sim->now_ns + 200 * MS, EV_CONNECT_HOST, h->index, NULL);
		return;
	}
	h->link.up = true;
	lg_upstream_up(&h->upstream, n->epoch);
	n->listed[h->index] = true;
	if (h->lessee)
		lg_lessee_up(h->lessee, sim_local_ns(h->sim, &h->clock), host_effects(h));
	else
		sim_host_mark(h);
	h->due_ns = 0;
}

void sim_host_disconnect(struct node_host *h, bool again)
{
	lg_upstream_down(&h->upstream);
	h->link.up = false;
	if (again)
		sim_push(h->sim, h->sim->now_ns + 50 * MS + (uint64_t)(sim_random(h->sim) * 4e8), EV_CONNECT_HOST, h->index, NULL);
}

void sim_agent_stop(struct node_host *h)
{
	sim_host_disconnect(h, false);
	h->agent = false;
	h->process++;
	h->lessee = lg_lessee_free(h->lessee);
	sim_upstream_init(h->sim, &h->upstream, &h->holding);
}

void sim_agent_start(struct node_host *h)
{
	if (h->gone)
		return;
	h->agent = true;
	h->powered = true;
	if (h->bucket.generation)
		host_open(h);
	sim_push(h->sim, h->sim->now_ns + 20 * MS, EV_CONNECT_HOST, h->index, NULL);
}

void sim_host_power_off(struct node_host *h)
{
	sim_agent_stop(h);
	h->powered = false;
	forget_bucket(h);
}
