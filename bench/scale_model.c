// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "bench/scale_world.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/codec.h"
#include "base/pool.h"
#include "leasegate/abi.h"
#include "lease/arith.h"

#define ANNOUNCE_GAP_MS 20
#define DUE_MAX_MS 1000000u
#define SAMPLE 64		/* one of so many messages is encoded to see how long it is */

/* Round trips between regions, milliseconds. */
static const uint32_t rtt_ms[SCALE_REGIONS][SCALE_REGIONS] = {
	{ 0, 1, 20, 80, 150 },
	{ 1, 0, 20, 80, 150 },
	{ 20, 20, 0, 60, 130 },
	{ 80, 80, 60, 0, 70 },
	{ 150, 150, 130, 70, 0 },
};

static uint64_t now_ns(const struct model *m)
{
	return (uint64_t)m->now_ms * SCALE_NS_PER_MS;
}

/* ---- the law ---- */

static uint64_t level(struct meter *q, const struct lg_terms *t, uint64_t at_ns)
{
	uint64_t drained = t->limit_tok * (at_ns - q->at_ns);

	q->queue = q->queue > drained ? q->queue - drained : 0;
	q->at_ns = at_ns;
	return q->queue;
}

static bool perfect_admits(struct model *m, struct key *k)
{
	uint64_t queue = level(&k->perfect, &m->terms, now_ns(m));

	if (queue + m->terms.per_ns > m->terms.budget_tok * m->terms.per_ns)
		return false;
	k->perfect.queue += m->terms.per_ns;
	return true;
}

static void admitted(struct model *m, struct key *k)
{
	int64_t over;

	level(&k->law, &m->terms, now_ns(m));
	k->law.queue += m->terms.per_ns;
	over = (int64_t)((k->law.queue + m->terms.per_ns - 1) / m->terms.per_ns) - (int64_t)m->terms.budget_tok;
	if (over > m->r.worst_over_tok)
		m->r.worst_over_tok = over;
}

/* ---- messages ---- */

static uint32_t host_of(const struct model *m, uint32_t place)
{
	const struct part *p = &m->parts[m->places[place].part];

	return (p->first_host + place - p->first_place) % m->load.hosts;
}

static void wire_key(const struct model *m, uint32_t part, struct lg_wire_key *ret)
{
	*ret = (struct lg_wire_key){ .rule = "per-client", .fingerprint = scale_hash(1), .form = LG_FORM_SOURCE };
	ret->a[10] = ret->a[11] = 0xff;
	memcpy(&ret->a[12], &m->parts[part].key, 4);
}

/* One more key in what a stream says this turn. */
static void count(struct model *m, enum scale_tier tier, struct stream *s, uint32_t part, const struct lg_ask *ask,
		  const struct lg_grant *grant)
{
	struct scale_traffic *t = &m->r.tiers[tier];
	struct lg_wire_key key;

	if (s->turn_ms != m->now_ms || s->n_keys == LG_BATCH_KEYS_MAX)
		*s = (struct stream){ .turn_ms = m->now_ms };
	if (!m->warm)
		return;
	t->messages += s->n_keys++ == 0;
	t->keys++;
	if (m->n_sent++ % SAMPLE)
		return;
	wire_key(m, part, &key);
	m->text.len = 0;
	if (ask)
		lg_codec_put_ask(&m->text, &key, ask);
	else
		lg_codec_put_grant(&m->text, &key, grant);
	t->bytes += SAMPLE * m->text.len;
}

static void send(struct model *m, enum kind kind, uint32_t part, uint32_t place, uint32_t delay_ms, const void *body, size_t len)
{
	uint32_t slot = (m->now_ms + delay_ms) % DELAYS_MAX;
	struct message *msg = malloc(sizeof(*msg) + len);

	if (!msg) {
		m->out_of_memory = true;
		return;
	}
	*msg = (struct message){ .kind = kind, .to_part = part, .place = place, .len = (uint32_t)len };
	memcpy(msg->body, body, len);
	*m->under_way[slot].end = msg;
	m->under_way[slot].end = &msg->next;
}

static size_t ask_len(const struct lg_ask *ask)
{
	return offsetof(struct lg_ask, slots) + ask->n_slots * sizeof(ask->slots[0]);
}

/* As it came; of a token bucket there is no history. */
static const struct lg_ask *ask_of(const struct message *msg)
{
	static struct lg_ask ask;

	memcpy(&ask, msg->body, msg->len);
	ask.n_history = 0;
	return &ask;
}

static uint32_t one_way_ms(const struct model *m, const struct part *p)
{
	return (rtt_ms[p->at][m->keys[p->key].at] + 1) / 2;
}

/* ---- when objects are called ---- */

/* At the first tick of its tier at or after due_ns, but not in this millisecond. */
static void arm(struct model *m, uint32_t id, uint64_t due_ns, uint64_t tick_ns, uint32_t phase)
{
	uint32_t tick_ms = (uint32_t)(tick_ns / SCALE_NS_PER_MS);
	uint64_t due_ms = due_ns / SCALE_NS_PER_MS + (due_ns % SCALE_NS_PER_MS > 0);

	if (due_ns == UINT64_MAX) {
		scale_wheel_disarm(&m->wheel, id);
		return;
	}
	due_ms = lg_clamp_u64(due_ms, m->now_ms + 1, m->now_ms + DUE_MAX_MS);
	phase %= tick_ms;
	due_ms += (tick_ms + phase - due_ms % tick_ms) % tick_ms;
	scale_wheel_arm(&m->wheel, id, (uint32_t)due_ms);
}

static void arm_place(struct model *m, uint32_t place, uint64_t due_ns)
{
	arm(m, place, due_ns, m->terms.host_tick_ns, host_of(m, place) * 7);
}

static void arm_part(struct model *m, uint32_t part, uint64_t due_ns)
{
	arm(m, m->n_places + part, due_ns, m->terms.region_tick_ns, m->parts[part].at);
}

static void arm_key(struct model *m, uint32_t key, uint64_t due_ns)
{
	arm(m, m->n_places + m->n_parts + key, due_ns, m->terms.home_tick_ns, m->keys[key].at);
}

/* ---- host ---- */

static void on_host_ask(void *arg, const struct lg_ask *ask)
{
	struct model *m = arg;
	uint32_t part = m->places[m->at].part;

	count(m, HOST_TO_REGION, &m->host_streams[0][m->parts[part].at * m->load.hosts + host_of(m, m->at)], part, ask, NULL);
	send(m, ASK_OF_HOST, part, m->at, 1, ask, ask_len(ask));
}

static void on_host_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct model *m = arg;
	struct place *p = &m->places[m->at];

	(void)epoch;
	p->granted_tok += tok;
	p->expires_ns = lg_max_u64(p->expires_ns, expires_ns);
	p->low_water_tok = low_water_tok;
}

static void on_host_take(void *arg, uint64_t tok, struct lg_usage *ret_now)
{
	struct model *m = arg;
	struct place *p = &m->places[m->at];

	tok = lg_min_u64(tok, p->granted_tok - p->usage.spent_tok);
	p->usage.spent_tok += tok;
	p->usage.returned_tok += tok;
	*ret_now = p->usage;
}

static int on_host_generation(void *arg, uint32_t generation, uint32_t epoch)
{
	struct model *m = arg;
	struct place *p = &m->places[m->at];

	(void)generation;
	(void)epoch;
	p->granted_tok = p->usage.spent_tok = p->usage.returned_tok = 0;
	p->expires_ns = lg_min_u64(p->expires_ns, now_ns(m));
	return 0;
}

static const struct lg_lessee_effects *host_fx(struct model *m, uint32_t place)
{
	static struct lg_lessee_effects fx = { .ask = on_host_ask, .grant = on_host_grant, .take = on_host_take,
					       .generation = on_host_generation };

	fx.arg = m;
	m->at = place;
	return &fx;
}

/* Keys begin with numbers of their own, so that their periods are not in step. */
static uint64_t first_seq(const struct model *m, uint32_t id)
{
	return now_ns(m) + scale_hash(id) % SCALE_NS_PER_MS;
}

static void host_open(struct model *m, uint32_t place)
{
	struct place *p = &m->places[place];
	const struct part *part = &m->parts[p->part];
	const struct lg_lessee_found found = { .usage = p->usage };
	struct lg_holding *holding = &m->host_holding[part->at * m->load.hosts + host_of(m, place)];

	if (lg_lessee_new(holding, now_ns(m), first_seq(m, place), &found, &p->lessee) < 0)
		m->out_of_memory = true;
	else
		lg_lessee_up(p->lessee, now_ns(m), host_fx(m, place));
}

static void host_tick(struct model *m, uint32_t place)
{
	struct place *p = &m->places[place];

	arm_place(m, place, lg_lessee_tick(p->lessee, &p->usage, now_ns(m), host_fx(m, place)));
	if (lg_lessee_is_idle(p->lessee, now_ns(m))) {
		p->lessee = lg_lessee_free(p->lessee);
		scale_wheel_disarm(&m->wheel, place);
	}
}

/* The kernel tells the agent, who looks at once. */
static void announce(struct model *m, uint32_t place)
{
	struct place *p = &m->places[place];

	if (p->announced_ms && m->now_ms - p->announced_ms < ANNOUNCE_GAP_MS)
		return;
	p->announced_ms = m->now_ms;
	if (!p->lessee) {
		m->keys[m->parts[p->part].key].warm_first += m->warm;
		host_open(m, place);
	}
	if (p->lessee && !scale_wheel_is_before(&m->wheel, place, m->now_ms + 1))
		scale_wheel_arm(&m->wheel, place, m->now_ms + 1);
}

static bool host_admits(struct model *m, uint32_t place)
{
	struct place *p = &m->places[place];
	bool ok = now_ns(m) < p->expires_ns && p->usage.spent_tok < p->granted_tok;

	if (ok)
		p->usage.spent_tok++;
	else
		p->usage.denied_tok++;
	if (!ok || p->granted_tok - p->usage.spent_tok < p->low_water_tok)
		announce(m, place);
	return ok;
}

/* ---- region ---- */

static void on_region_ask(void *arg, const struct lg_ask *ask)
{
	struct model *m = arg;
	const struct part *p = &m->parts[m->at];
	uint8_t home = m->keys[p->key].at;

	count(m, home == p->at ? OWN_ASKS : REGION_TO_HOME, &m->region_streams[0][p->at][home], m->at, ask, NULL);
	send(m, ASK_OF_REGION, m->at, SCALE_NONE, one_way_ms(m, p), ask, ask_len(ask));
}

static void on_region_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct model *m = arg;
	const struct part *p = &m->parts[m->at];
	uint32_t place = p->first_place + (holder + m->load.hosts - p->first_host) % m->load.hosts;

	count(m, REGION_TO_HOST, &m->host_streams[1][p->at * m->load.hosts + holder], m->at, NULL, grant);
	send(m, GRANT_TO_HOST, m->at, place, 1, grant, sizeof(*grant));
}

static const struct lg_region_effects *region_fx(struct model *m, uint32_t part)
{
	static struct lg_region_effects fx = { .ask = on_region_ask, .grant = on_region_grant };

	fx.arg = m;
	m->at = part;
	return &fx;
}

static void region_open(struct model *m, uint32_t part)
{
	struct part *p = &m->parts[part];
	struct lg_holding *holding = &m->region_holding[p->at][m->keys[p->key].at];

	if (lg_region_new(&m->region_lessor[p->at], holding, now_ns(m), first_seq(m, part), &p->region) < 0)
		m->out_of_memory = true;
	else
		lg_region_up(p->region, now_ns(m), region_fx(m, part));
}

static void region_tick(struct model *m, uint32_t part)
{
	arm_part(m, part, lg_region_tick(m->parts[part].region, now_ns(m), region_fx(m, part)));
}

/* ---- home ---- */

static void on_home_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct model *m = arg;
	const struct key *k = &m->keys[m->at];
	uint32_t part = k->first_part;

	while (m->parts[part].at != holder)
		part++;
	count(m, k->at == holder ? OWN_GRANTS : HOME_TO_REGION, &m->region_streams[1][k->at][holder], part, NULL, grant);
	send(m, GRANT_TO_REGION, part, SCALE_NONE, one_way_ms(m, &m->parts[part]), grant, sizeof(*grant));
}

static const struct lg_home_effects *home_fx(struct model *m, uint32_t key)
{
	static struct lg_home_effects fx = { .grant = on_home_grant };

	fx.arg = m;
	m->at = key;
	return &fx;
}

static void see_outstanding(struct model *m, uint32_t key)
{
	if (key == 0 && m->warm)
		m->r.worst_outstanding_tok = lg_max_u64(m->r.worst_outstanding_tok, lg_home_outstanding_tok(m->keys[0].home));
}

static void home_tick(struct model *m, uint32_t key)
{
	arm_key(m, key, lg_home_tick(m->keys[key].home, now_ns(m), home_fx(m, key)));
	see_outstanding(m, key);
}

static void home_ask(struct model *m, const struct message *msg)
{
	const struct part *p = &m->parts[msg->to_part];
	struct key *k = &m->keys[p->key];

	if (!k->home && lg_home_new(&m->home_lessor[k->at], now_ns(m), &k->home) < 0) {
		m->out_of_memory = true;
		return;
	}
	lg_home_ask(k->home, p->at, 1, ask_of(msg), now_ns(m), home_fx(m, p->key));
	arm_key(m, p->key, now_ns(m));
	see_outstanding(m, p->key);
}

/* ---- time ---- */

static void deliver(struct model *m, const struct message *msg)
{
	struct part *p = &m->parts[msg->to_part];

	switch (msg->kind) {
	case ASK_OF_HOST:
		if (!p->region)
			region_open(m, msg->to_part);
		if (!p->region)
			return;
		lg_region_ask(p->region, host_of(m, msg->place), 1, ask_of(msg), now_ns(m), region_fx(m, msg->to_part));
		arm_part(m, msg->to_part, now_ns(m));
		break;
	case GRANT_TO_HOST:
		if (!m->places[msg->place].lessee)
			return;
		lg_lessee_grant(m->places[msg->place].lessee, (const struct lg_grant *)msg->body, now_ns(m), host_fx(m, msg->place));
		arm_place(m, msg->place, now_ns(m));
		break;
	case ASK_OF_REGION: home_ask(m, msg); break;
	case GRANT_TO_REGION:
		lg_region_grant(p->region, (const struct lg_grant *)msg->body, now_ns(m), region_fx(m, msg->to_part));
		arm_part(m, msg->to_part, now_ns(m));
		break;
	}
}

/* Those to our own home arrive in the same millisecond. */
static void deliver_all(struct model *m)
{
	__typeof__(&m->under_way[0]) due = &m->under_way[m->now_ms % DELAYS_MAX];

	while (due->first) {
		struct message *msg = due->first;

		due->first = msg->next;
		if (!due->first)
			due->end = &due->first;
		deliver(m, msg);
		free(msg);
	}
}

static void call_due(struct model *m)
{
	uint32_t id;

	while ((id = scale_wheel_take(&m->wheel)) != SCALE_NONE) {
		if (id < m->n_places)
			host_tick(m, id);
		else if (id < m->n_places + m->n_parts)
			region_tick(m, id - m->n_places);
		else
			home_tick(m, id - m->n_places - m->n_parts);
	}
	deliver_all(m);
}

static void see_active(struct model *m, struct key *k, struct part *p)
{
	uint64_t warm_ns = (uint64_t)(m->now_ms - m->warm_ms) * SCALE_NS_PER_MS;
	uint16_t period = (uint16_t)(1 + warm_ns / m->terms.region_period_ns);

	if (k->seen_period != period) {
		m->r.active_keys++;
		k->n_seen = 0;
	}
	k->seen_period = period;
	if (p->seen_period == period)
		return;
	p->seen_period = period;
	m->r.everywhere_keys += ++k->n_seen == SCALE_REGIONS;
	m->r.active_parts++;
	m->r.away_parts += p->at != k->at;
}

static void arrive(struct model *m)
{
	uint32_t key = scale_alias_draw(&m->alias, &m->rand);
	struct key *k = &m->keys[key];
	uint64_t x = lg_rand_next(&m->rand);
	struct part *p = &m->parts[k->first_part + (uint32_t)(x & 0xffff) % k->n_parts];
	uint32_t place = p->first_place + (uint32_t)((x >> 16) & 0xffffff) % p->n_hosts;
	bool perfect = perfect_admits(m, k), ok = host_admits(m, place);

	if (ok)
		admitted(m, k);
	k->n_offered++;
	k->n_admitted += ok;
	k->n_perfect += perfect;
	if (!m->warm)
		return;
	k->warm_admitted += ok;
	k->warm_perfect += perfect;
	see_active(m, k, p);
}

static void arrive_all(struct model *m)
{
	double mean_ns = 1e9 / m->load.requests_per_s;

	while (m->next_arrival_ns < now_ns(m) + SCALE_NS_PER_MS) {
		arrive(m);
		m->next_arrival_ns += (uint64_t)(-log(1 - scale_random(&m->rand)) * mean_ns + 0.5);
	}
	deliver_all(m);
}

static int run(struct model *m)
{
	uint32_t end_ms;

	m->warm_ms = m->now_ms + m->load.warm_s * 1000;
	end_ms = m->warm_ms + m->load.run_s * 1000;
	m->next_arrival_ns = now_ns(m);
	while (m->now_ms + 1 < end_ms && !m->out_of_memory) {
		scale_wheel_turn(&m->wheel);
		m->now_ms = m->wheel.now_ms;
		m->warm = m->now_ms >= m->warm_ms;
		deliver_all(m);
		call_due(m);
		arrive_all(m);
		if (m->now_ms % 1000 == 0 && m->load.n_keys > 1)
			fprintf(stderr, "bench-lease-scale: %u keys, second %u of %u\n", m->load.n_keys, m->now_ms / 1000 - 1,
				m->load.warm_s + m->load.run_s);
	}
	return m->out_of_memory ? -ENOMEM : 0;
}

/* ---- the result ---- */

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void sum_up(struct model *m)
{
	struct scale_result *r = &m->r;
	/* The last one may be cut short: loads run for whole periods. */
	double periods = (double)m->load.run_s * 1e9 / (double)m->terms.region_period_ns;
	struct lg_pool_stat pool;

	for (uint32_t i = 0; i < m->load.n_keys; i++) {
		const struct key *k = &m->keys[i];

		r->admissions += k->n_admitted;
		r->n_homes += k->home != NULL;
		if (k->n_perfect < k->n_offered) {
			r->above_admitted += k->n_admitted;
			r->above_perfect += k->n_perfect;
			continue;
		}
		r->below_admitted += k->warm_admitted;
		r->below_perfect += k->warm_perfect;
		r->first_denied += k->warm_first;
	}
	for (uint32_t i = 0; i < m->n_parts; i++)
		r->n_regions += m->parts[i].region != NULL;
	for (uint32_t i = 0; i < m->n_places; i++)
		r->n_lessees += m->places[i].lessee != NULL;
	r->active_keys = (uint64_t)((double)r->active_keys / periods);
	r->active_parts = (uint64_t)((double)r->active_parts / periods);
	r->away_parts = (uint64_t)((double)r->away_parts / periods);
	r->everywhere_keys = (uint64_t)((double)r->everywhere_keys / periods);
	r->resident_bytes = resident_bytes();
	r->model_bytes = (uint64_t)m->n_places * (sizeof(*m->places) + sizeof(struct scale_timer)) +
			 (uint64_t)m->n_parts * (sizeof(*m->parts) + sizeof(struct scale_timer)) +
			 (uint64_t)m->load.n_keys * (sizeof(*m->keys) + sizeof(struct scale_timer) + sizeof(uint32_t) + sizeof(float));
	lg_pool_stat(&pool);
	r->pool_used_bytes = pool.used_bytes;
	r->pool_held_bytes = pool.held_bytes;
	r->period_ns = m->terms.region_period_ns;
}

int scale_run(const struct scale_load *load, struct scale_result *ret)
{
	struct model *m = calloc(1, sizeof(*m));
	double start_s = cpu_s();
	int r;

	if (!m)
		return -ENOMEM;
	r = scale_world_init(m, load);
	if (r == 0)
		r = run(m);
	if (r == 0)
		sum_up(m);
	m->r.cpu_s = cpu_s() - start_s;
	*ret = m->r;
	scale_world_free(m);
	return r;
}
