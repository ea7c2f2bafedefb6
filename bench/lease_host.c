// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What stands around the core: a rule, and a key at a host whose lessor always has enough. */
#include <string.h>

#include "bench/lease_bench.h"
#include "lease/arith.h"

#define NEAR_RTT_NS 1000000

void bench_rule_init(struct bench_rule *r, enum lg_algorithm algorithm, uint64_t limit_tok)
{
	const struct lg_rule_def rule = { .algorithm = algorithm, .limit_tok = limit_tok, .per_ns = 60000000000ull,
					  .burst_tok = limit_tok };
	const struct lg_fleet fleet = { .regions = 5, .hosts = 1000, .far_rtt_ns = 150000000 };

	*r = (struct bench_rule){ .upstream = { .up = true, .epoch = BENCH_EPOCH, .rtt_ns = NEAR_RTT_NS, .rand = 1 } };
	lg_terms_init(&rule, &fleet, &r->terms);
	r->terms.kind = LG_LEASE_BLOCK;
	r->holding = (struct lg_holding){ .terms = &r->terms, .upstream = &r->upstream };
	r->lessor = (struct lg_lessor){ .terms = &r->terms, .epoch = BENCH_EPOCH };
}

void bench_said_keep(struct bench_said *s, const struct lg_ask *ask)
{
	*s = (struct bench_said){ .waits = true, .seq = ask->seq, .granted_tok = ask->granted_tok,
				  .held_tok = ask->spent_tok + ask->returned_tok + ask->want_tok };
}

void bench_said_answer(struct bench_said *s, const struct lg_terms *terms, struct lg_grant *ret_grant)
{
	s->waits = false;
	*ret_grant = (struct lg_grant){
		.ack_seq = s->seq,
		.ack_slot = UINT64_MAX / 2,
		.epoch = BENCH_EPOCH,
		.generation = 1,
		.granted_tok = lg_max_u64(s->granted_tok, s->held_tok),
		.ttl_ms = terms->ttl_ns / 1000000,
		.cap_tok = terms->max_outstanding_tok,
	};
}

static void on_ask(void *arg, const struct lg_ask *ask)
{
	struct bench_host *h = arg;

	bench_said_keep(&h->said, ask);
	h->n_said++;
}

static void on_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct bench_host *h = arg;

	(void)expires_ns;
	(void)low_water_tok;
	(void)epoch;
	h->granted_tok += tok;
}

static void on_take(void *arg, uint64_t tok, struct lg_usage *ret_now)
{
	struct bench_host *h = arg;

	tok = lg_min_u64(tok, h->granted_tok - h->usage.spent_tok);
	h->usage.spent_tok += tok;
	h->usage.returned_tok += tok;
	*ret_now = h->usage;
}

static int on_generation(void *arg, uint32_t generation, uint32_t epoch)
{
	struct bench_host *h = arg;

	(void)generation;
	(void)epoch;
	h->granted_tok = h->usage.spent_tok = h->usage.returned_tok = 0;
	return 0;
}

static struct lg_lessee_effects effects(struct bench_host *h)
{
	return (struct lg_lessee_effects){ .arg = h, .ask = on_ask, .grant = on_grant, .take = on_take, .generation = on_generation };
}

int bench_host_open(struct bench_host *h, struct bench_rule *rule, uint64_t seed, uint64_t now_ns)
{
	const struct lg_lessee_effects fx = effects(h);
	const struct lg_lessee_found found = { .generation = 0 };
	int r;

	*h = (struct bench_host){ .usage = { .denied_tok = 1 } };
	r = lg_lessee_new(&rule->holding, now_ns, now_ns + seed, &found, &h->lessee);
	if (r == 0)
		lg_lessee_up(h->lessee, now_ns, &fx);
	return r;
}

void bench_host_tick(struct bench_host *h, uint64_t now_ns)
{
	const struct lg_lessee_effects fx = effects(h);

	lg_lessee_tick(h->lessee, &h->usage, now_ns, &fx);
}

void bench_host_spend(struct bench_host *h)
{
	if (h->usage.spent_tok < h->granted_tok)
		h->usage.spent_tok++;
	else
		h->usage.denied_tok++;
}

void bench_host_answer(struct bench_host *h, const struct lg_terms *terms, uint64_t now_ns)
{
	const struct lg_lessee_effects fx = effects(h);
	struct lg_grant grant;

	if (!h->said.waits)
		return;
	bench_said_answer(&h->said, terms, &grant);
	lg_lessee_grant(h->lessee, &grant, now_ns, &fx);
}

void bench_host_close(struct bench_host *h)
{
	h->lessee = lg_lessee_free(h->lessee);
}
