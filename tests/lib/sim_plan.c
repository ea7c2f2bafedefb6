// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lease/arith.h"

#define MS 1000000ull
#define S (1000 * MS)
#define RATE_MAX 1000.0	/* tokens per second: what a run costs grows with it */

enum shape { SHAPE_EVEN, SHAPE_ONE, SHAPE_MOVE, SHAPE_HOP, SHAPE_RIVAL, SHAPE_SAW, SHAPE_PULSE, SHAPE_SPARSE, SHAPE_LULL, _SHAPE_N };

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

	switch ((enum shape)c->shape) {
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

static double draw(uint64_t *rand, double lo, double hi)
{
	return lo + (hi - lo) * ((double)(lg_rand_next(rand) >> 11) * 0x1p-53);
}

/* Written in every fourth plan, unwritten in another, else 0. A chance of its own, so that the others are drawn as without. */
static uint64_t draw_cold_start(uint64_t seed)
{
	uint64_t rand = seed;

	if (seed % 4 == 3)
		return (uint64_t)pow(10, draw(&rand, 0, 3));
	return seed % 4 == 0 ? LG_COLD_START_AUTO : 0;
}

/* In every fourth a strict rule, whose hosts take their share when they are cut off. */
static void draw_rule(uint64_t *rand, enum lg_algorithm algorithm, uint64_t seed, struct lg_rule_def *rule)
{
	double span_s = pow(10, draw(rand, 0, 1.6)), limit = floor(pow(10, draw(rand, 0.5, 4)));

	*rule = (struct lg_rule_def){ .name = "r", .scope = LG_SCOPE_GLOBAL, .class = LG_CLASS_LEASE, .algorithm = algorithm,
				      .lease = { .kind = LG_LEASE_BLOCK, .cold_start_tok = draw_cold_start(seed) } };
	if (seed % 4 == 1) {
		rule->class = LG_CLASS_STRICT;
		rule->fallback = LG_FALLBACK_SHARE;
	}
	rule->per_ns = (uint64_t)(span_s * 1e9);
	rule->limit_tok = (uint64_t)fmax(fmin(limit, RATE_MAX * span_s), 1);
	rule->burst_tok = (uint64_t)fmax((double)rule->limit_tok * draw(rand, 0.1, 1.5), 1);
	if (algorithm != LG_TOKEN_BUCKET)
		rule->burst_tok = rule->limit_tok;
	rule->lease.low_water_permille = lg_rand_next(rand) % 3 ? 0 : 200;
}

static void draw_terms(uint64_t *rand, const struct lg_rule_def *rule, uint32_t regions, uint32_t hosts, struct lg_terms *ret_terms)
{
	struct lg_terms *t = ret_terms;

	lg_terms_init(rule, &(struct lg_fleet){ .regions = regions, .hosts = hosts }, t);
	if (lg_rand_next(rand) % 2)
		t->max_outstanding_tok = lg_max_u64((uint64_t)((double)t->budget_tok * draw(rand, 0.1, 1)), 1);
	t->ttl_ns = (uint64_t)(draw(rand, 2, lg_rand_next(rand) % 2 ? 5 : 20) * 1e9);
	t->grace_ns = (uint64_t)(draw(rand, 0.15, 1) * 1e9);
	t->home_tick_ns = (uint64_t)(draw(rand, 10, 200) * 1e6);
	t->slot_ns = (uint64_t)(draw(rand, 10, 500) * 1e6);
	t->region_period_ns = (uint64_t)(draw(rand, 0.1, 5) * 1e9);
	t->host_period_ns = t->region_period_ns / 4;
	t->escrow_period_ns = lg_clamp_u64(t->region_period_ns, t->per_ns / 20, 5 * S);
}

/* How often each is drawn, in parts of their sum. Cuts as often as all else together: they are what makes leases end. A dead host or a
 * lost store keeps a lessor silent for long, which is not what every third run should be about. */
static const uint32_t weights[_SIM_FAULT_N] = {
	[SIM_CUT_REGION] = 24, [SIM_CUT_HOST] = 24, [SIM_AGENT_RESTART] = 8, [SIM_HOST_REBOOT] = 8, [SIM_HOST_GONE] = 2,
	[SIM_REGION_RESTART] = 7, [SIM_HOME_RESTART] = 7, [SIM_SERVER_RESTART] = 6, [SIM_REGION_LOST] = 2, [SIM_HOME_LOST] = 2,
	[SIM_HOME_DEPOSED] = 4, [SIM_REHOME] = 2, [SIM_CLOCK_STEP] = 6,
};

static enum sim_fault_kind draw_fault(uint64_t *rand)
{
	uint32_t sum = 0, at, kind = 0;

	for (uint32_t i = 0; i < _SIM_FAULT_N; i++)
		sum += weights[i];
	for (at = (uint32_t)(lg_rand_next(rand) % sum); at >= weights[kind]; kind++)
		at -= weights[kind];
	return (enum sim_fault_kind)kind;
}

static bool of_host(enum sim_fault_kind kind)
{
	return kind == SIM_CUT_HOST || kind == SIM_AGENT_RESTART || kind == SIM_HOST_REBOOT || kind == SIM_HOST_GONE;
}

/* Faults of regions strike both tiers of them alike; of servers and clocks only those that can have a home in the same process. */
static uint32_t n_victims(const struct sim_config *c, enum sim_fault_kind kind)
{
	if (of_host(kind))
		return c->n_regions * c->hosts_per_region;
	return kind == SIM_SERVER_RESTART || kind == SIM_CLOCK_STEP ? c->n_regions : c->n_regions * (1 + c->subs_per_region);
}

/* What fails often fails again, before all is well. */
static void strike_again(uint64_t *rand, struct sim_plan_fault *f, const struct sim_plan_fault *last)
{
	*f = *last;
	f->at_ns += f->for_ns + (uint64_t)(draw(rand, 0.05, 5) * 1e9);
}

static void draw_faults(uint64_t *rand, struct sim_plan *plan)
{
	plan->n_faults = (uint32_t)draw(rand, 0, 16);
	for (uint32_t i = 0; i < plan->n_faults; i++) {
		struct sim_plan_fault *f = &plan->faults[i];
		bool cut;

		f->kind = draw_fault(rand);
		cut = f->kind == SIM_CUT_HOST || f->kind == SIM_CUT_REGION;
		f->index = (uint32_t)draw(rand, 0, n_victims(&plan->c, f->kind));
		f->at_ns = (uint64_t)(draw(rand, 0.05, 0.9) * (double)plan->c.end_ns);
		f->for_ns = (uint64_t)(draw(rand, 0.1, cut || f->kind == SIM_AGENT_RESTART ? 25 : 4) * 1e9);
		if (i && lg_rand_next(rand) % 5 == 0)
			strike_again(rand, f, f - 1);
	}
}

/* In every third plan the key's slot changes its owner, now and then. A chance of its own, so that all else is drawn as without. */
static void draw_moves(uint64_t seed, struct sim_plan *plan)
{
	uint64_t rand = ~seed * 0x9e3779b97f4a7c15ull;
	uint32_t n = seed % 3 ? 0 : 1 + (uint32_t)draw(&rand, 0, 4);

	for (; n; n--) {
		struct sim_plan_fault *f = &plan->faults[plan->n_faults++];

		*f = (struct sim_plan_fault){ .kind = lg_rand_next(&rand) % 2 ? SIM_SLOT_GIVEN : SIM_SLOT_LOST };
		f->at_ns = (uint64_t)(draw(&rand, 0.05, 0.9) * (double)plan->c.end_ns);
		f->for_ns = (uint64_t)(pow(10, draw(&rand, f->kind == SIM_SLOT_GIVEN ? -3 : -1, 1)) * 1e9);
	}
}

/* A share begins when a lease is over and, of a window, one more window has passed; it is there to be spent by who wants more than there is. */
static void lengthen_cuts(struct sim_plan *plan)
{
	plan->c.load = fmax(plan->c.load, 1.2);
	plan->c.rate_max = fmax(plan->c.rate_max, 2 * plan->c.load * limit_rate(&plan->c) / plan->c.hosts_per_region);
	for (uint32_t i = 0; i < plan->n_faults; i++)
		if (plan->faults[i].kind == SIM_CUT_HOST || plan->faults[i].kind == SIM_CUT_REGION)
			plan->faults[i].for_ns *= 4;
}

static void draw_network(uint64_t *rand, struct sim_config *c)
{
	for (uint32_t i = 0; i < c->n_regions; i++)
		c->rtt_ns[i] = (uint64_t)(pow(10, draw(rand, -1, 2.2)) * 1e6);
	c->host_rtt_ns = (uint64_t)(draw(rand, 0.2, 5) * 1e6);
	c->clock_ppm = (int32_t)draw(rand, 200, 1000);
	if (lg_rand_next(rand) % 3) {
		c->loss = draw(rand, 0, 0.1);
		c->repeat = draw(rand, 0, 0.1);
		c->straggle = draw(rand, 0, 0.05);
	}
	if (lg_rand_next(rand) % 2)
		c->hostile = draw(rand, 0, 0.1);
	c->hoards = lg_rand_next(rand) % 3 == 0;
}

void sim_plan_draw(uint64_t seed, enum lg_algorithm algorithm, uint32_t subs, struct sim_plan *ret_plan)
{
	uint64_t rand = seed * 0x9e3779b97f4a7c15ull + algorithm;
	struct sim_config c = { .seed = seed, .rate = rate, .shape = (uint32_t)(seed / 7 % _SHAPE_N), .misread = true };

	c.n_regions = 1 + (uint32_t)draw(&rand, 0, 3);
	c.hosts_per_region = 1 + (uint32_t)draw(&rand, 0, 4);
	c.subs_per_region = subs;
	draw_rule(&rand, algorithm, seed, &c.rule);
	draw_terms(&rand, &c.rule, c.n_regions, c.n_regions * c.hosts_per_region, &c.terms);
	c.terms.reserves |= seed % 4 == 2;
	draw_network(&rand, &c);
	c.origin_ns = (uint64_t)(draw(&rand, 0, 1) * (double)c.terms.per_ns);
	c.load = draw(&rand, 0.3, 5);
	c.batch = lg_rand_next(&rand) % 2 ? 1 : draw(&rand, 1, 20);
	c.cost_max_tok = lg_rand_next(&rand) % 3 ? 1 : lg_clamp_u64(c.terms.budget_tok / 10, 1, 5);
	c.rate_max = 2 * c.load * limit_rate(&c) / c.hosts_per_region;
	c.end_ns = (uint64_t)fmin(fmax(6 * (double)c.terms.per_ns, 40e9), 150e9);
	*ret_plan = (struct sim_plan){ .c = c };
	draw_faults(&rand, ret_plan);
	draw_moves(seed, ret_plan);
	if (c.rule.fallback == LG_FALLBACK_SHARE)
		lengthen_cuts(ret_plan);
}

/* What the rule is, when so much of it is leased. */
static void rule_of_parts(struct lg_terms *t)
{
	t->rule_budget_tok = t->budget_tok + t->cold_tok * t->hosts;
	t->rule_limit_tok = t->rule_budget_tok;
	if (t->algorithm == LG_TOKEN_BUCKET)
		t->rule_limit_tok = (t->limit_tok * t->rule_budget_tok + t->budget_tok - 1) / t->budget_tok;
}

/* What of the rule is leased, when it sets shares aside. */
static void shares_of_parts(struct lg_rule_def *rule, struct lg_terms *t)
{
	rule->per_ns = t->per_ns;
	rule->limit_tok = t->rule_limit_tok = lg_max_u64(rule->limit_tok / 4, 10);
	rule->burst_tok = t->rule_budget_tok = t->algorithm == LG_TOKEN_BUCKET ? lg_max_u64(rule->burst_tok / 16, 10) : rule->limit_tok;
	t->shares_tok = lg_rule_shares_tok(rule, rule->burst_tok);
	t->limit_tok = rule->limit_tok - lg_rule_shares_tok(rule, rule->limit_tok);
	t->budget_tok = rule->burst_tok - t->shares_tok;
}

void sim_plan_of_parts(struct sim_plan *plan)
{
	struct lg_terms *t = &plan->c.terms;

	t->kind = LG_LEASE_LIMIT;
	t->reserves = false;
	t->per_ns /= 4;
	t->limit_tok = lg_max_u64(t->limit_tok / 4, 1);
	t->budget_tok = t->algorithm == LG_TOKEN_BUCKET ? lg_max_u64(t->budget_tok / 16, 1) : t->limit_tok;
	if (t->shares_tok)
		shares_of_parts(&plan->c.rule, t);
	else
		rule_of_parts(t);
	plan->c.origin_ns /= 4;
}

int sim_plan_start(const struct sim_plan *plan, struct sim **ret_sim)
{
	int r = sim_new(&plan->c, ret_sim);

	for (uint32_t i = 0; r == 0 && i < plan->n_faults; i++) {
		const struct sim_plan_fault *f = &plan->faults[i];

		sim_fault(*ret_sim, f->kind, f->index % n_victims(&plan->c, f->kind), f->at_ns, f->for_ns);
	}
	return r;
}

int sim_plan_new(uint64_t seed, enum lg_algorithm algorithm, const struct sim_mutant *mutant, struct sim **ret_sim)
{
	struct sim_plan plan;

	sim_plan_draw(seed, algorithm, 0, &plan);
	plan.c.mutant = mutant;
	return sim_plan_start(&plan, ret_sim);
}

static const char *fault_name(enum sim_fault_kind kind)
{
	static const char *const names[_SIM_FAULT_N] = {
		[SIM_CUT_REGION] = "region cut off", [SIM_CUT_HOST] = "host cut off", [SIM_AGENT_RESTART] = "agent restarts",
		[SIM_HOST_REBOOT] = "host reboots", [SIM_HOST_GONE] = "host gone", [SIM_REGION_RESTART] = "region restarts",
		[SIM_HOME_RESTART] = "home restarts", [SIM_SERVER_RESTART] = "home and region restart",
		[SIM_REGION_LOST] = "region loses its store", [SIM_HOME_LOST] = "home loses its store", [SIM_HOME_DEPOSED] = "home deposed",
		[SIM_REHOME] = "another home", [SIM_CLOCK_STEP] = "wall clocks step", [SIM_STORE_FULL] = "store full",
		[SIM_SLOT_GIVEN] = "slot given away", [SIM_SLOT_LOST] = "slot lost",
	};

	return names[kind];
}

static const char *shape_name(enum shape shape)
{
	static const char *const names[_SHAPE_N] = { "even", "one region", "move", "hop", "rivals", "saw", "pulses", "sparse", "lulls" };

	return names[shape];
}

/* As snprintf, at the end of what is there. */
__attribute__((format(printf, 3, 4))) static void append(char *buf, size_t len, const char *format, ...)
{
	size_t n = strlen(buf);
	va_list args;

	va_start(args, format);
	vsnprintf(buf + n, len - n, format, args);
	va_end(args);
}

void sim_plan_describe(const struct sim_plan *plan, char *buf, size_t len)
{
	static const char *const algorithms[] = { "bucket", "fixed window", "window", "window" };
	const struct sim_config *c = &plan->c;
	const struct lg_terms *t = &c->terms;

	buf[0] = '\0';
	append(buf, len,
	       "%s%s %llu in %.3f s, budget %llu, start %llu, shares %llu, out %llu, %s %.2fx, batch %.1f, cost %llu, %ux%ux%u hosts, "
	       "%.1f s long",
	       t->kind == LG_LEASE_LIMIT ? "parts of a " : "", algorithms[t->algorithm], (unsigned long long)t->limit_tok,
	       (double)t->per_ns / 1e9, (unsigned long long)t->budget_tok, (unsigned long long)t->cold_tok, (unsigned long long)t->shares_tok,
	       (unsigned long long)t->max_outstanding_tok, shape_name((enum shape)c->shape), c->load, c->batch,
	       (unsigned long long)c->cost_max_tok, c->n_regions, c->subs_per_region, c->hosts_per_region, (double)c->end_ns / 1e9);
	append(buf, len, "\n  ttl %.2f s, grace %.2f s, ticks %.0f/%.0f/%.0f ms, slot %.0f ms, periods %.2f/%.2f s", (double)t->ttl_ns / 1e9,
	       (double)t->grace_ns / 1e9, (double)t->home_tick_ns / 1e6, (double)t->region_tick_ns / 1e6, (double)t->host_tick_ns / 1e6,
	       (double)t->slot_ns / 1e6, (double)t->region_period_ns / 1e9, (double)t->host_period_ns / 1e9);
	append(buf, len, "\n  lost %.1f %%, repeated %.1f %%, straggling %.1f %%, at the worst moment %.1f %%%s%s, clocks %d ppm, run %llu",
	       100 * c->loss, 100 * c->repeat, 100 * c->straggle, 100 * c->hostile, c->hoards ? ", hoards" : "",
	       c->misread ? ", misread" : "", c->clock_ppm, (unsigned long long)c->seed);
	for (uint32_t i = 0; i < plan->n_faults; i++) {
		const struct sim_plan_fault *f = &plan->faults[i];

		append(buf, len, "\n  at %.3f s: %s (%u) for %.3f s", (double)f->at_ns / 1e9, fault_name(f->kind),
		       f->index % n_victims(c, f->kind), (double)f->for_ns / 1e9);
	}
}
