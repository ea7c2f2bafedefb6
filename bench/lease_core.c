// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls of the core per second: at a home, at a region, at a host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/lease_bench.h"
#include "lease/home.h"
#include "lease/region.h"

#define BLOCK 4096u	/* calls timed at once */

struct config {
	uint64_t limit_tok;	/* a minute */
	uint32_t n_keys;
	uint32_t n_holders;	/* of each key */
	uint32_t spend_tok;	/* of each holder, between two messages; at a host: one token in so many ticks */
	uint32_t n_calls;	/* of one round */
};

struct core {
	struct config c;
	struct bench_rule rule;
	uint64_t now_ns;
	uint64_t step_ns;	/* from one call to the next */
	struct bench_order order;
	struct bench_account *accounts;		/* holders of a key stand together */
	struct lg_home **homes;
	struct lg_region **regions;
	struct bench_host *hosts;
	struct {
		uint32_t key;
		struct bench_said said;
	} to_home[BLOCK];			/* what regions said in this block */
	uint32_t n_to_home;
	uint64_t jobs[BLOCK];			/* indices of accounts */
	uint64_t job;				/* whose call is under way */
	uint64_t n_calls, n_answers;
	uint64_t new_tok;			/* that came with the answers */
	uint64_t n_said;			/* by regions or hosts, to the tier above */
};

static uint32_t key_of(const struct core *k)
{
	return (uint32_t)(k->job / k->c.n_holders);
}

static uint32_t holder_of(const struct core *k)
{
	return (uint32_t)(k->job % k->c.n_holders);
}

static void core_close(void *state)
{
	struct core *k = state;

	for (uint32_t i = 0; i < k->c.n_keys; i++) {
		if (k->homes)
			lg_home_free(k->homes[i]);
		if (k->regions)
			lg_region_free(k->regions[i]);
		if (k->hosts)
			bench_host_close(&k->hosts[i]);
	}
	free(k->homes);
	free(k->regions);
	free(k->hosts);
	free(k->accounts);
	free(k);
}

static int core_new(const struct bench_case *c, const struct bench_scale *scale, struct core **ret)
{
	struct core *k = calloc(1, sizeof(*k));
	uint64_t n_accounts;

	if (!k)
		return -ENOMEM;
	*ret = k;
	k->c = *(const struct config *)c->config;
	if (scale->quick) {
		k->c.n_keys = (k->c.n_keys + 99) / 100;
		k->c.n_calls /= 100;
	}
	n_accounts = (uint64_t)k->c.n_keys * k->c.n_holders;
	bench_rule_init(&k->rule, LG_TOKEN_BUCKET, k->c.limit_tok);
	k->now_ns = BENCH_START_NS;
	bench_order_init(&k->order, n_accounts);
	k->accounts = calloc(n_accounts, sizeof(*k->accounts));
	if (!k->accounts)
		return -ENOMEM;
	for (uint64_t i = 0; i < n_accounts; i++)
		k->accounts[i].spend_tok = k->c.spend_tok;
	return 0;
}

static void on_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct core *k = arg;

	if (holder != holder_of(k))
		return;
	k->new_tok += bench_account_granted(&k->accounts[k->job], grant->generation, grant->granted_tok);
	k->n_answers++;
}

/* The accounts are brought into the cache: in truth they are far away, at the holders. */
static void choose_jobs(struct core *k)
{
	for (uint32_t i = 0; i < BLOCK; i++)
		k->jobs[i] = bench_order_next(&k->order);
	for (uint32_t i = 0; i < BLOCK; i++)
		__builtin_prefetch(&k->accounts[k->jobs[i]], 1);
}

/* One call for each account of the block; the time they took. */
static double time_calls(struct core *k, void (*call)(struct core *k))
{
	double start_ns = bench_cpu_ns();

	for (uint32_t i = 0; i < BLOCK; i++) {
		k->job = k->jobs[i];
		k->now_ns += k->step_ns;
		call(k);
	}
	k->n_calls += BLOCK;
	return bench_cpu_ns() - start_ns;
}

/* A period after the other, so that each account's message comes a period after its last. */
static double run_blocks(struct core *k, uint64_t n, void (*call)(struct core *k), void (*after)(struct core *k))
{
	double ns = 0;

	for (uint64_t done = 0; done < n; done += BLOCK) {
		choose_jobs(k);
		ns += time_calls(k, call);
		if (after)
			after(k);
	}
	return ns;
}

/* Each call was answered with what its holder had spent: a bench of refusals would be a fast one. */
static int check(const struct core *k)
{
	return k->n_answers >= k->n_calls && k->new_tok / k->c.spend_tok >= k->n_calls / 100 * 99 ? 0 : -EPROTO;
}

static double per_s(const struct core *k, double ns)
{
	return (double)((k->c.n_calls + BLOCK - 1) / BLOCK * BLOCK) / ns * 1e9;
}

static void describe(void *state, char *buf, size_t len)
{
	const struct core *k = state;

	snprintf(buf, len, ",\"keys\":%u,\"holders\":%u,\"slots\":%d,\"said_upwards\":%.3f", k->c.n_keys, k->c.n_holders, BENCH_SLOTS,
		 k->n_calls ? (double)k->n_said / (double)k->n_calls : 0);
}

/* ---- home ---- */

static void call_home(struct core *k)
{
	static struct lg_ask ask;	/* large; only what is in use is touched */
	const struct lg_home_effects fx = { .arg = k, .grant = on_grant };

	bench_account_ask(&k->accounts[k->job], k->rule.terms.region_period_ns, &ask);
	lg_home_ask(k->homes[key_of(k)], holder_of(k), 1, &ask, k->now_ns, &fx);
}

static void call_home_tick(struct core *k)
{
	const struct lg_home_effects fx = { .arg = k, .grant = on_grant };

	lg_home_tick(k->homes[key_of(k)], k->now_ns, &fx);
}

static int home_open(const struct bench_case *c, const struct bench_scale *scale, void **ret_state)
{
	struct core *k;
	int r = core_new(c, scale, (struct core **)ret_state);

	if (r < 0)
		return r;
	k = *ret_state;
	k->homes = calloc(k->c.n_keys, sizeof(struct lg_home *));
	if (!k->homes)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->c.n_keys && r == 0; i++)
		r = lg_home_new(&k->rule.lessor, k->now_ns, &k->homes[i]);
	if (r < 0)
		return r;
	k->step_ns = k->rule.terms.region_period_ns / ((uint64_t)k->c.n_keys * k->c.n_holders);
	run_blocks(k, 2ull * k->c.n_keys * k->c.n_holders, call_home, NULL);
	k->n_calls = k->n_answers = k->new_tok = 0;
	return 0;
}

static int home_run(void *state, double *ret_value)
{
	struct core *k = state;

	*ret_value = per_s(k, run_blocks(k, k->c.n_calls, call_home, NULL));
	return check(k);
}

/* A message, then the tick it has made due. */
static int home_tick_run(void *state, double *ret_value)
{
	struct core *k = state;
	double ns = 0;

	for (uint64_t done = 0; done < k->c.n_calls; done += BLOCK) {
		choose_jobs(k);
		time_calls(k, call_home);
		k->now_ns += k->rule.terms.home_tick_ns;
		ns += time_calls(k, call_home_tick);
	}
	*ret_value = per_s(k, ns);
	return 0;
}

/* ---- region ---- */

static void on_region_ask(void *arg, const struct lg_ask *ask)
{
	struct core *k = arg;

	k->n_said++;
	if (k->n_to_home == BLOCK)
		return;	/* as a message lost */
	k->to_home[k->n_to_home].key = key_of(k);
	bench_said_keep(&k->to_home[k->n_to_home++].said, ask);
}

static void call_region(struct core *k)
{
	static struct lg_ask ask;
	const struct lg_region_effects fx = { .arg = k, .ask = on_region_ask, .grant = on_grant };

	bench_account_ask(&k->accounts[k->job], k->rule.terms.host_period_ns, &ask);
	lg_region_ask(k->regions[key_of(k)], holder_of(k), 1, &ask, k->now_ns, &fx);
}

/* The home has what the regions want. */
static void answer_regions(struct core *k)
{
	const struct lg_region_effects fx = { .arg = k, .ask = on_region_ask, .grant = on_grant };

	for (uint32_t i = 0; i < k->n_to_home; i++) {
		struct lg_grant grant;

		bench_said_answer(&k->to_home[i].said, &k->rule.terms, &grant);
		k->job = (uint64_t)k->to_home[i].key * k->c.n_holders;
		lg_region_grant(k->regions[k->to_home[i].key], &grant, k->now_ns, &fx);
	}
	k->n_to_home = 0;
}

static int region_open(const struct bench_case *c, const struct bench_scale *scale, void **ret_state)
{
	struct core *k;
	int r = core_new(c, scale, (struct core **)ret_state);

	if (r < 0)
		return r;
	k = *ret_state;
	k->regions = calloc(k->c.n_keys, sizeof(struct lg_region *));
	if (!k->regions)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->c.n_keys && r == 0; i++) {
		const struct lg_region_effects fx = { .arg = k, .ask = on_region_ask, .grant = on_grant };

		k->job = (uint64_t)i * k->c.n_holders;
		r = lg_region_new(&k->rule.lessor, &k->rule.holding, k->now_ns, k->now_ns + i, &k->regions[i]);
		if (r == 0)
			lg_region_up(k->regions[i], k->now_ns, &fx);
		if (k->n_to_home == BLOCK)
			answer_regions(k);
	}
	if (r < 0)
		return r;
	k->step_ns = k->rule.terms.host_period_ns / ((uint64_t)k->c.n_keys * k->c.n_holders);
	run_blocks(k, 8ull * k->c.n_keys * k->c.n_holders, call_region, answer_regions);
	k->n_calls = k->n_answers = k->n_said = k->new_tok = 0;
	return 0;
}

static int region_run(void *state, double *ret_value)
{
	struct core *k = state;

	*ret_value = per_s(k, run_blocks(k, k->c.n_calls, call_region, answer_regions));
	return check(k);
}

/* ---- host ---- */

static void call_host(struct core *k)
{
	struct bench_host *h = &k->hosts[k->job];

	if ((k->n_calls / k->c.n_keys + k->job) % k->c.spend_tok == 0)
		bench_host_spend(h);
	bench_host_tick(h, k->now_ns);
}

static void answer_hosts(struct core *k)
{
	for (uint32_t i = 0; i < BLOCK; i++)
		bench_host_answer(&k->hosts[k->jobs[i]], &k->rule.terms, k->now_ns);
}

static uint64_t count_said(const struct core *k)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < k->c.n_keys; i++)
		n += k->hosts[i].n_said;
	return n;
}

static int host_open(const struct bench_case *c, const struct bench_scale *scale, void **ret_state)
{
	struct core *k;
	int r = core_new(c, scale, (struct core **)ret_state);

	if (r < 0)
		return r;
	k = *ret_state;
	k->hosts = calloc(k->c.n_keys, sizeof(*k->hosts));
	if (!k->hosts)
		return -ENOMEM;
	for (uint32_t i = 0; i < k->c.n_keys && r == 0; i++)
		r = bench_host_open(&k->hosts[i], &k->rule, i, k->now_ns);
	if (r < 0)
		return r;
	k->step_ns = k->rule.terms.host_tick_ns / k->c.n_keys;
	run_blocks(k, 100ull * k->c.n_keys, call_host, answer_hosts);
	k->n_calls = 0;
	k->n_said = 0;
	return 0;
}

static int host_run(void *state, double *ret_value)
{
	struct core *k = state;

	uint64_t n_before = count_said(k);

	*ret_value = per_s(k, run_blocks(k, k->c.n_calls, call_host, answer_hosts));
	k->n_said += count_said(k) - n_before;
	return k->n_said ? 0 : -EPROTO;
}

/* ---- */

static const struct config five_regions = { .limit_tok = 10000, .n_keys = 1000000, .n_holders = 5, .spend_tok = 60, .n_calls = 500000 };
static const struct config ticks = { .limit_tok = 10000, .n_keys = 100000, .n_holders = 5, .spend_tok = 60, .n_calls = 500000 };
static const struct config many_holders = { .limit_tok = 1000000, .n_keys = 1, .n_holders = 1000, .spend_tok = 30, .n_calls = 100000 };
static const struct config five_hosts = { .limit_tok = 10000, .n_keys = 100000, .n_holders = 5, .spend_tok = 15, .n_calls = 500000 };
static const struct config at_a_host = { .limit_tok = 10000, .n_keys = 50000, .n_holders = 1, .spend_tok = 3, .n_calls = 1000000 };

const struct bench_case lease_core_cases[] = {
	{ .name = "core_renewals", .unit = "per_s", .config = &five_regions, .open = home_open, .run = home_run, .describe = describe,
	  .close = core_close },
	{ .name = "core_renewals_1k_holders", .unit = "per_s", .config = &many_holders, .open = home_open, .run = home_run,
	  .describe = describe, .close = core_close },
	{ .name = "core_home_ticks", .unit = "per_s", .config = &ticks, .open = home_open, .run = home_tick_run,
	  .describe = describe, .close = core_close },
	{ .name = "core_region_renewals", .unit = "per_s", .config = &five_hosts, .open = region_open, .run = region_run,
	  .describe = describe, .close = core_close },
	{ .name = "core_lessee_ticks", .unit = "per_s", .config = &at_a_host, .open = host_open, .run = host_run, .describe = describe,
	  .close = core_close },
};
const size_t n_lease_core_cases = N_ELEMS(lease_core_cases);
