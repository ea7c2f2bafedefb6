// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_plan.h"

#include <math.h>
#include <stdio.h>

#include "lease/arith.h"

#define MS 1000000ull
#define S (1000 * MS)
#define RATE_MAX 1000.0	/* tokens per second: what a run costs grows with it */

enum shape { SHAPE_EVEN, SHAPE_ONE, SHAPE_MOVE, SHAPE_HOP, SHAPE_RIVAL, SHAPE_SAW, SHAPE_PULSE, SHAPE_SPARSE, SHAPE_LULL, _SHAPE_N };

/* The shape of the traffic follows from the seed, so that rate() needs no more than the configuration. */
static enum shape shape_of(const struct sim_config *c)
{
	return (enum shape)(c->seed / 7 % _SHAPE_N);
}

static double limit_rate(const struct sim_config *c)
{
	return (double)c->terms.limit_tok * 1e9 / (double)c->terms.per_ns;
}

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	const struct sim_config *c = sim_config_of(s);
	uint32_t n_regions = c->n_regions;
	double all = c->load * limit_rate(c) / ((double)c->cost_max_tok / 2 + 0.5), one = all / c->hosts_per_region;
	double span_s = (double)c->terms.per_ns / 1e9;

	switch (shape_of(c)) {
	case SHAPE_EVEN: return one / n_regions;
	case SHAPE_ONE: return region == n_regions - 1 ? one : 0;
	case SHAPE_MOVE: return region == (now_s < 4 * span_s ? 0 : n_regions - 1) ? one : 0;
	case SHAPE_HOP: return region == (uint32_t)now_s % n_regions ? one : 0;
	case SHAPE_RIVAL: return region == 0 ? 0.9 * one : 0.1 * one / (n_regions > 1 ? n_regions - 1 : 1);
	case SHAPE_SAW: return 2 * fmod(now_s + 7 * region, 20) / 20 * one / n_regions;
	case SHAPE_PULSE: return fmod(now_s, 2 * span_s) < span_s / 4 ? one : 0;
	case SHAPE_SPARSE: return host == 0 ? one / 20 : 0;
	/* Some hosts stop and keep what they have, then spend it, while the others want more than there is. */
	case SHAPE_LULL: return ((uint32_t)(now_s / 4) + host + region) % 3 ? one : 0;
	case _SHAPE_N: break;
	}
	return 0;
}

static double between(struct sim *s, double lo, double hi)
{
	return lo + (hi - lo) * sim_random(s);
}

/* As between(), without a simulation. */
static double draw(uint64_t *rand, double lo, double hi)
{
	return lo + (hi - lo) * ((double)(lg_rand_next(rand) >> 11) * 0x1p-53);
}

static void draw_terms(uint64_t *rand, enum lg_algorithm algorithm, uint32_t regions, uint32_t hosts, struct lg_terms *ret_terms)
{
	struct lg_rule_def rule = { .algorithm = algorithm };
	double span_s = pow(10, draw(rand, 0, 1.6)), limit = floor(pow(10, draw(rand, 0.5, 4)));
	struct lg_terms *t = ret_terms;

	rule.per_ns = (uint64_t)(span_s * 1e9);
	rule.limit_tok = (uint64_t)fmax(fmin(limit, RATE_MAX * span_s), 1);
	rule.burst_tok = (uint64_t)fmax((double)rule.limit_tok * draw(rand, 0.1, 1.5), 1);
	rule.lease.low_water_permille = lg_rand_next(rand) % 3 ? 0 : 200;
	lg_terms_init(&rule, &(struct lg_fleet){ .regions = regions, .hosts = hosts }, t);
	if (lg_rand_next(rand) % 2)
		t->max_outstanding_tok = lg_max_u64((uint64_t)((double)t->budget_tok * draw(rand, 0.1, 1)), 1);
	t->ttl_ns = (uint64_t)(draw(rand, 2, lg_rand_next(rand) % 2 ? 5 : 20) * 1e9);
	t->grace_ns = (uint64_t)(draw(rand, 0.15, 1) * 1e9);
	t->home_tick_ns = (uint64_t)(draw(rand, 10, 200) * 1e6);
	t->slot_ns = (uint64_t)(draw(rand, 10, 500) * 1e6);
	t->region_period_ns = (uint64_t)(draw(rand, 0.1, 5) * 1e9);
	t->host_period_ns = t->region_period_ns / 4;
}

static void plan_faults(struct sim *s)
{
	const struct sim_config *c = sim_config_of(s);
	uint32_t n = (uint32_t)between(s, 0, 16), n_hosts = c->n_regions * c->hosts_per_region;

	for (uint32_t i = 0; i < n; i++) {
		/* Cuts as often as all else together: they are what makes leases end. */
		double any = between(s, 0, 2);
		enum sim_fault_kind kind = any < 0.5 ? SIM_CUT_REGION :
					   any < 1   ? SIM_CUT_HOST :
						       (enum sim_fault_kind)((any - 1) * _SIM_FAULT_N);
		bool of_host = kind == SIM_CUT_HOST || kind == SIM_AGENT_RESTART || kind == SIM_HOST_REBOOT || kind == SIM_HOST_GONE;
		bool cut = kind == SIM_CUT_HOST || kind == SIM_CUT_REGION;
		uint32_t index = (uint32_t)between(s, 0, of_host ? n_hosts : c->n_regions);
		double at = between(s, 0.05, 0.9) * (double)c->end_ns, for_ns = between(s, 0.1, cut ? 25 : 4) * 1e9;

		/* A dead host keeps its region silent for long, which is not what every third run should be about. */
		if (kind == SIM_HOST_GONE && sim_random(s) < 0.7)
			kind = SIM_HOST_REBOOT;
		sim_fault(s, kind, index, (uint64_t)at, (uint64_t)for_ns);
	}
}

int sim_plan_new(uint64_t seed, enum lg_algorithm algorithm, const struct sim_mutant *mutant, struct sim **ret_sim)
{
	uint64_t rand = seed * 0x9e3779b97f4a7c15ull + algorithm;
	struct sim_config c = { .seed = seed, .rate = rate, .misread = true, .clock_ppm = 1000, .mutant = mutant };
	struct sim *s = NULL;
	int r;

	c.n_regions = 1 + (uint32_t)draw(&rand, 0, 3);
	c.hosts_per_region = 1 + (uint32_t)draw(&rand, 0, 4);
	draw_terms(&rand, algorithm, c.n_regions, c.n_regions * c.hosts_per_region, &c.terms);
	for (uint32_t i = 0; i < c.n_regions; i++)
		c.rtt_ns[i] = (uint64_t)(draw(&rand, 1, 150) * 1e6);
	c.host_rtt_ns = (uint64_t)(draw(&rand, 0.2, 5) * 1e6);
	if (lg_rand_next(&rand) % 3) {
		c.loss = draw(&rand, 0, 0.1);
		c.repeat = draw(&rand, 0, 0.1);
		c.straggle = draw(&rand, 0, 0.05);
	}
	c.load = draw(&rand, 0.3, 5);
	c.batch = lg_rand_next(&rand) % 2 ? 1 : draw(&rand, 1, 20);
	c.cost_max_tok = lg_rand_next(&rand) % 3 ? 1 : lg_clamp_u64(c.terms.budget_tok / 10, 1, 5);
	c.rate_max = 2 * c.load * limit_rate(&c) / c.hosts_per_region;
	c.end_ns = (uint64_t)fmin(fmax(6 * (double)c.terms.per_ns, 40e9), 150e9);
	r = sim_new(&c, &s);
	if (r < 0)
		return r;
	plan_faults(s);
	*ret_sim = s;
	return 0;
}

void sim_plan_describe(const struct sim *s, char *buf, size_t len)
{
	static const char *const names[] = { "even", "one region", "move", "hop", "rivals", "saw", "pulses", "sparse", "lulls" };
	const struct sim_config *c = sim_config_of(s);
	const struct lg_terms *t = &c->terms;

	snprintf(buf, len, "%s %llu in %.1f s, budget %llu, out %llu, %s %.2fx, %ux%u hosts, ttl %.1f s, loss %.0f %%",
		 t->algorithm == LG_TOKEN_BUCKET ? "bucket" : "window", (unsigned long long)t->limit_tok, (double)t->per_ns / 1e9,
		 (unsigned long long)t->budget_tok, (unsigned long long)t->max_outstanding_tok, names[shape_of(c)], c->load,
		 c->n_regions, c->hosts_per_region, (double)t->ttl_ns / 1e9, 100 * c->loss);
}
