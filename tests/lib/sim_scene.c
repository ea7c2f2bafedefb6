// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_scene.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lease/arith.h"

#define S 1000000000ull
#define HOSTS 4
#define VARIATION_S 10

/* The scene of the run in progress; rate() has nothing else to know it by. */
static const struct scene *now_running;

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	const struct scene *scene = now_running;
	double all = scene->load * (double)scene->limit_tok / scene->per_s, one = all / HOSTS;

	(void)s;
	(void)host;
	switch (scene->shape) {
	case SCENE_EVEN: return one / SCENE_REGIONS;
	case SCENE_ONE: return region == SCENE_FAR ? one : 0;
	case SCENE_MOVE: return region == (now_s < scene->event_s ? 1u : SCENE_FAR) ? one : 0;
	case SCENE_HOP: return region == (uint32_t)now_s % SCENE_REGIONS ? one : 0;
	case SCENE_RIVALS: return region == 1 ? 0.9 * one : region == SCENE_FAR ? 0.1 * one : 0;
	case SCENE_SAW: return 2 * fmod(now_s + 7 * region, 20) / 20 * one / SCENE_REGIONS;
	case SCENE_STEP: return (now_s < scene->event_s ? 0.2 : 1) * one / SCENE_REGIONS;
	case SCENE_RARE: return 0.1;
	case SCENE_RAMP: return fmin(fmax((now_s - scene->event_s) / 60, 0), 1) * one / SCENE_REGIONS;
	}
	return 0;
}

/* What takes so long on average: each way takes up to a tenth longer than it must. */
static uint64_t least_ns(double ms)
{
	return (uint64_t)(ms * 1e6 / 1.05);
}

static void set_ns(uint64_t *ret_ns, double ms)
{
	if (ms > 0)
		*ret_ns = (uint64_t)(ms * 1e6);
}

void scene_terms(const struct scene *scene, struct lg_terms *ret_terms)
{
	struct lg_rule_def rule = { .algorithm = scene->algorithm, .limit_tok = scene->limit_tok, .per_ns = (uint64_t)(scene->per_s * 1e9),
				    .burst_tok = scene->burst_tok ? scene->burst_tok : scene->limit_tok,
				    .class = scene->strict ? LG_CLASS_STRICT : LG_CLASS_LOCAL };
	struct lg_terms *t = ret_terms;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = SCENE_REGIONS, .hosts = SCENE_REGIONS * HOSTS }, t);
	if (scene->kind != LG_LEASE_AUTO)
		t->kind = scene->kind;
	t->reserves = scene->strict && t->kind == LG_LEASE_BLOCK;
	if (scene->shared)
		t->owner = false;
	if (scene->all_out)
		t->max_outstanding_tok = t->budget_tok;
	set_ns(&t->home_tick_ns, scene->home_tick_ms);
	set_ns(&t->region_tick_ns, scene->region_tick_ms);
	set_ns(&t->host_tick_ns, scene->host_tick_ms);
	set_ns(&t->slot_ns, scene->slot_ms);
	if (scene->period_s > 0) {
		t->region_period_ns = (uint64_t)(scene->period_s * 1e9);
		t->host_period_ns = t->region_period_ns / 4;
		t->max_outstanding_tok = t->budget_tok;
		t->ttl_ns = 60 * S;
		t->adaptive = false;
	}
}

static uint64_t event_ns(const struct scene *scene)
{
	return (uint64_t)((scene->event_s + scene->fault_for_s) * 1e9);
}

static double variation(const struct sim *s, const struct scene *scene, uint32_t region)
{
	double sum = 0, squares = 0, mean;
	uint32_t n = 0;

	for (double at_s = scene->warm_s; at_s + VARIATION_S <= scene->end_s; at_s += VARIATION_S, n++) {
		uint64_t tok = 0;

		for (uint64_t at_ns = 0; at_ns < VARIATION_S * S; at_ns += SIM_BIN_NS)
			tok += sim_region_bin(s, region, (uint64_t)(at_s * 1e9) + at_ns);
		sum += (double)tok;
		squares += (double)tok * (double)tok;
	}
	mean = sum / n;
	return n < 2 || mean <= 0 ? 0 : sqrt(fmax(squares / n - mean * mean, 0)) / mean;
}

/* Since the event, until two seconds without anything admitted in region 1. */
static double stop_s(const struct sim *s, const struct scene *scene)
{
	uint64_t from_ns = (uint64_t)(scene->event_s * 1e9), idle = 0;

	for (uint64_t at_ns = from_ns; at_ns < (uint64_t)(scene->end_s * 1e9); at_ns += SIM_BIN_NS) {
		idle = sim_region_bin(s, 1, at_ns) ? 0 : idle + 1;
		if (idle == 4)
			return (double)(at_ns - 3 * SIM_BIN_NS - from_ns) / 1e9;
	}
	return -1;
}

/* INFINITY: never. */
static double back_s(const struct sim *s, const struct scene *scene)
{
	double share = scene->back_share > 0 ? scene->back_share : 0.97;
	double back = scene->event_s > 0 ? sim_back_after_s(s, event_ns(scene), share) : 0;

	return back < 0 ? INFINITY : back;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void add(struct scene_result *sum, const struct sim *s, const struct scene *scene)
{
	const struct sim_result *r = sim_result_of(s);
	double n = scene->n_seeds ? scene->n_seeds : 1;
	double span_s = scene->end_s - scene->warm_s;

	sum->served += (double)r->admitted / (double)r->perfect / n;
	sum->lost_s += ((double)r->perfect - (double)r->admitted) / ((double)r->offered / span_s) / n;
	sum->reports_per_s += (double)r->asks_to_home / span_s / n;
	sum->grants_per_s += (double)r->grants_from_home / span_s / n;
	sum->host_reports_per_s += (double)r->asks_to_regions / span_s / n;
	sum->host_grants_per_s += (double)r->grants_from_regions / span_s / n;
	sum->out_tok += (double)r->max_outstanding_tok / n;
	sum->failover_tok = fmax(sum->failover_tok, (double)r->failover_tok);
	sum->commits_per_s += (double)r->commits / scene->end_s / n;
	sum->stop_s += (scene->fault_for_s > 0 ? stop_s(s, scene) : 0) / n;
	for (uint32_t i = 0; i < SCENE_REGIONS; i++) {
		if (!r->region_offered[i])
			continue;
		sum->region[i] += (double)r->region_admitted[i] / (double)r->region_offered[i] / n;
		sum->denied_s[i] += (double)(r->region_offered[i] - r->region_admitted[i]) / ((double)r->region_offered[i] / span_s) / n;
		sum->variation = fmax(sum->variation, variation(s, scene, i));
	}
}

void scene_run(const struct scene *scene, struct scene_result *ret)
{
	uint32_t n_seeds = scene->n_seeds ? scene->n_seeds : 1;
	double backs_s[SCENE_SEEDS_MAX];
	struct sim_config c = {
		.n_regions = SCENE_REGIONS, .hosts_per_region = HOSTS, .host_rtt_ns = least_ns(0.5), .loss = scene->loss, .clock_ppm = 100,
		.rtt_ns = { least_ns(1), least_ns(100), least_ns(scene->far_ms > 0 ? scene->far_ms : 150) }, .load = scene->load,
		.rate = rate, .cost_max_tok = 1, .batch = fmax(scene->batch, 1),
		.end_ns = (uint64_t)(scene->end_s * 1e9), .warm_ns = (uint64_t)(scene->warm_s * 1e9),
	};

	scene_terms(scene, &c.terms);
	c.rate_max = 2 * scene->load * (double)scene->limit_tok / scene->per_s / HOSTS;
	*ret = (struct scene_result){ 0 };
	now_running = scene;
	assert(n_seeds <= SCENE_SEEDS_MAX);
	for (c.seed = 1; c.seed <= n_seeds; c.seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;
		int r = sim_new(&c, &s);

		assert(r == 0);
		if (scene->fault_for_s > 0)
			sim_fault(s, scene->fault, 1, (uint64_t)(scene->event_s * 1e9), (uint64_t)(scene->fault_for_s * 1e9));
		if (scene->lost)
			sim_fault(s, SIM_CUT_REGION, 1, (uint64_t)(scene->event_s * 1e9) - S, c.end_ns);
		sim_run(s);
		if (sim_result_of(s)->broken[0]) {
			fprintf(stderr, "%s\n", sim_result_of(s)->broken);
			abort();
		}
		add(ret, s, scene);
		backs_s[c.seed - 1] = back_s(s, scene);
	}
	qsort(backs_s, n_seeds, sizeof(backs_s[0]), compare);
	ret->back_s = backs_s[n_seeds - 1];
	ret->median_back_s = backs_s[n_seeds / 2];
}
