// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bytes per key, at each tier: what the allocator has given out after N objects were made and brought to a steady state, less what it had
 * before, by N. Its own headers and rounding are in it.
 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "bench/lease_bench.h"
#include "lease/home.h"

#define N_OBJECTS 20000u
#define ROUNDS 10	/* messages of each holder, a period apart */
#define LIMIT_TOK 100000
#define TICKS_ACTIVE 250	/* five seconds */
#define TICKS_QUIET 700

enum what { AT_HOME, AT_HOST, AT_HOST_ACTIVE };

struct config {
	enum what what;
	enum lg_algorithm algorithm;
	uint32_t n_holders;
	uint32_t n_holders_less;	/* not 0: the difference to so many holders, by holder */
};

struct bytes {
	struct config c;
	struct bench_rule rule;
	uint32_t n;
	uint64_t now_ns;
	struct lg_home **homes;
	struct bench_account *accounts;
	struct bench_account *account;	/* whose message is under way */
	struct bench_host *hosts;
	double held_bytes;
};

struct memory {
	double used_bytes;	/* objects of the pool, and what malloc() gave out, its headers and rounding included */
	double held_bytes;	/* with the slabs' heads and what is free in them */
};

static struct memory memory_now(void)
{
	struct mallinfo2 m = mallinfo2();
	struct lg_pool_stat pool;
	size_t given_out;

	lg_pool_stat(&pool);
	given_out = m.uordblks + m.hblkhd - pool.large_bytes;
	return (struct memory){ (double)(given_out + pool.used_bytes), (double)(given_out + pool.held_bytes) };
}

static struct memory minus(struct memory a, struct memory b)
{
	return (struct memory){ a.used_bytes - b.used_bytes, a.held_bytes - b.held_bytes };
}

static void bytes_close(void *state)
{
	struct bytes *b = state;

	free(b->homes);
	free(b->accounts);
	free(b->hosts);
	free(b);
}

static int bytes_open(const struct bench_case *c, const struct bench_scale *scale, void **ret_state)
{
	struct bytes *b = calloc(1, sizeof(*b));
	uint32_t most;

	if (!b)
		return -ENOMEM;
	*ret_state = b;
	b->c = *(const struct config *)c->config;
	b->n = N_OBJECTS / b->c.n_holders / (scale->quick ? 10 : 1);
	b->now_ns = BENCH_START_NS;
	bench_rule_init(&b->rule, b->c.algorithm, LIMIT_TOK);
	most = b->c.n_holders > 1 ? b->c.n_holders : 1;
	b->homes = calloc(b->n, sizeof(struct lg_home *));
	b->accounts = calloc((size_t)b->n * most, sizeof(*b->accounts));
	b->hosts = calloc(b->n, sizeof(*b->hosts));
	return b->homes && b->accounts && b->hosts ? 0 : -ENOMEM;
}

/* ---- home ---- */

static void on_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct bytes *b = arg;

	(void)holder;
	bench_account_granted(b->account, grant->generation, grant->granted_tok);
}

static void one_round(struct bytes *b, uint32_t n_holders)
{
	static struct lg_ask ask;
	const struct lg_home_effects fx = { .arg = b, .grant = on_grant };

	for (uint32_t i = 0; i < b->n * n_holders; i++) {
		b->account = &b->accounts[i];
		bench_account_ask(b->account, b->rule.terms.region_period_ns, &ask);
		lg_home_ask(b->homes[i / n_holders], i % n_holders, 1, &ask, b->now_ns, &fx);
		b->now_ns += b->rule.terms.region_period_ns / (b->n * n_holders);
	}
}

/* Bytes of the homes in all, with so many holders each. */
static int homes(struct bytes *b, uint32_t n_holders, struct memory *ret)
{
	struct memory before = memory_now();
	int r = 0;

	memset(b->accounts, 0, (size_t)b->n * b->c.n_holders * sizeof(*b->accounts));
	for (uint32_t i = 0; i < b->n * n_holders; i++)
		b->accounts[i].spend_tok = 20;
	for (uint32_t i = 0; i < b->n && r == 0; i++)
		r = lg_home_new(&b->rule.lessor, b->now_ns, &b->homes[i]);
	for (uint32_t round = 0; r == 0 && round < ROUNDS; round++)
		one_round(b, n_holders);
	*ret = minus(memory_now(), before);
	for (uint32_t i = 0; i < b->n; i++)
		b->homes[i] = lg_home_free(b->homes[i]);
	return r;
}

static int home_run(void *state, double *ret_value)
{
	struct bytes *b = state;
	struct memory with, without = { 0 };
	double by = b->c.n_holders_less ? b->c.n_holders - b->c.n_holders_less : 1;
	int r = homes(b, b->c.n_holders, &with);

	if (r == 0 && b->c.n_holders_less)
		r = homes(b, b->c.n_holders_less, &without);
	*ret_value = (with.used_bytes - without.used_bytes) / b->n / by;
	b->held_bytes = (with.held_bytes - without.held_bytes) / b->n / by;
	return r;
}

/* ---- host ---- */

/* A tick of every key; spend: each has had a packet since the last. */
static void tick_all(struct bytes *b, bool spend)
{
	for (uint32_t i = 0; i < b->n; i++) {
		if (spend)
			bench_host_spend(&b->hosts[i]);
		bench_host_tick(&b->hosts[i], b->now_ns);
		bench_host_answer(&b->hosts[i], &b->rule.terms, b->now_ns);
	}
	b->now_ns += b->rule.terms.host_tick_ns;
}

/* Traffic; then, unless it is to go on, none for so long that all is told, acknowledged, and given back but for what an idle key keeps. */
static int host_run(void *state, double *ret_value)
{
	struct bytes *b = state;
	struct memory before = memory_now(), more;
	int r = 0;

	for (uint32_t i = 0; i < b->n && r == 0; i++)
		r = bench_host_open(&b->hosts[i], &b->rule, i, b->now_ns);
	for (uint32_t i = 0; r == 0 && i < TICKS_ACTIVE; i++)
		tick_all(b, i % 5 == 0);
	for (uint32_t i = 0; r == 0 && b->c.what == AT_HOST && i < TICKS_QUIET; i++)
		tick_all(b, false);
	more = minus(memory_now(), before);
	*ret_value = more.used_bytes / b->n;
	b->held_bytes = more.held_bytes / b->n;
	for (uint32_t i = 0; i < b->n; i++)
		bench_host_close(&b->hosts[i]);
	return r;
}

static void describe(void *state, char *buf, size_t len)
{
	const struct bytes *b = state;

	snprintf(buf, len, ",\"held\":%.1f,\"objects\":%u,\"holders\":%u", b->held_bytes, b->n, b->c.n_holders);
}

static const struct config lessor_1 = { AT_HOME, LG_TOKEN_BUCKET, 1, 0 };
static const struct config per_holder = { AT_HOME, LG_TOKEN_BUCKET, 5, 1 };
static const struct config per_holder_200 = { AT_HOME, LG_TOKEN_BUCKET, 200, 1 };
static const struct config window_lessor = { AT_HOME, LG_SLIDING_WINDOW, 1, 0 };
static const struct config lessee = { AT_HOST, LG_TOKEN_BUCKET, 1, 0 };
static const struct config lessee_active = { AT_HOST_ACTIVE, LG_TOKEN_BUCKET, 1, 0 };

#define BYTES_CASE(name_, config_, run_)                                                                                                   \
	{                                                                                                                                \
		.name = name_, .unit = "bytes", .once = true, .config = &config_, .open = bytes_open, .run = run_, .describe = describe, \
		.close = bytes_close                                                                                                     \
	}

const struct bench_case lease_bytes_cases[] = {
	BYTES_CASE("bytes_lessor_1", lessor_1, home_run),
	BYTES_CASE("bytes_per_holder", per_holder, home_run),
	BYTES_CASE("bytes_per_holder_200", per_holder_200, home_run),
	BYTES_CASE("bytes_lessee", lessee, host_run),
	BYTES_CASE("bytes_lessee_active", lessee_active, host_run),
	BYTES_CASE("bytes_window_lessor", window_lessor, home_run),
};
const size_t n_lease_bytes_cases = N_ELEMS(lease_bytes_cases);
