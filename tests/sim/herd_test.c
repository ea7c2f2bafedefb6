// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A thousand hosts of one region, one key, and what they say when the region comes back: after a restart of its server, and after seconds
 * without a network. The region, the hosts and the pace are real; the home always has enough and answers after 50 ms. Streams are modelled
 * as TCP, HTTP/2 and the lease client make them. Messages are counted at the region, both ways (TCP's own and HTTP/2's pings are none).
 * All hosts hold a lease. Six of ten are used: each second, and then each speaks every ten seconds when all is well; or now and then. There
 * must be no more messages in any 100 ms than 5 % of the hosts, and all must be served again in the time said here. HERD_RUNS says how many
 * runs of each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lease/arith.h"
#include "lease/lessee.h"
#include "lease/pace.h"
#include "lease/region.h"

#define MS 1000000ull
#define N_HOSTS 1000u
#define BIN_MS 100u
#define PEAK_MAX (N_HOSTS / 20)
#define START_MS 1000u
#define FAULT_MS 121000u	/* in the midst of steady service */
#define END_MS 181000u
#define HOST_DELAY_MS 1u
#define HOME_DELAY_MS 50u
#define RTO_MS 200u		/* of TCP: doubles with each try */
#define RING_MS 32768u		/* no message is under way for longer */
#define STALL_MS 50u		/* so long without an acknowledgement */
#define BEAT_MS 500u		/* the client looks this often whether it hears anything */
#define PING_MS 2000u		/* after so long a silence it says a ping */
#define DEAD_MS 7000u		/* and after so long it gives the stream up */
#define RUNS 2
#define BUSY_MS 1000u		/* between the requests of a host */
#define RARE_MS 150000u
#define RESTART_MS 500u		/* a server takes so long to be back */
#define BACKOFF_FIRST_MS 50u	/* as the lease client dials again: doubling, between a half and the whole of it */
#define BACKOFF_MAX_MS 2000u

enum kind { ASK, GRANT, HOME_ASK, PING, PONG };

struct message {
	struct message *next;
	enum kind kind;
	uint32_t host;
	uint32_t life;		/* of the region it belongs to */
	uint32_t stream;	/* of the host */
	struct lg_grant grant;
	struct lg_ask *ask;
};

struct host {
	struct lg_lessee *lessee;
	struct lg_upstream upstream;
	struct lg_holding holding;
	uint64_t granted_tok;
	struct lg_usage usage;
	uint64_t expires_ns;
	uint64_t low_water_tok;
	uint64_t due_ns;
	uint32_t request_ms;	/* the next */
	uint32_t dial_ms;	/* when to dial next; 0: it is connected */
	uint32_t backoff_ms;
	uint32_t hello_ms;	/* connected, and says hello then; 0: has said it */
	uint32_t stream;	/* the how manieth */
	uint32_t heard_ms;	/* anything of the region */
	uint32_t pinged_ms;
	uint32_t unsent_ms[2];	/* first message to and from the region that met the cut; 0 none */
	struct lg_grant grant;	/* waits to be sent to it, since ready_ns */
	uint64_t ready_ns;	/* 0: none does */
	uint32_t denied_ms;	/* the last time */
};

struct herd {
	struct lg_terms terms;
	uint32_t n_busy;	/* hosts that see requests */
	uint32_t interval_ms;	/* from one request to the next, at each host; a quarter more or less */
	uint32_t now_ms;
	uint64_t rand;
	struct lg_region *region;
	struct lg_succession *succession;
	struct lg_lessor lessor;
	struct lg_upstream home_up;
	struct lg_holding home_holding;
	uint64_t region_due_ns;
	uint32_t life;
	uint32_t cut_until_ms;	/* 0: no cut */
	uint64_t home_granted_tok;
	struct host hosts[N_HOSTS];
	struct lg_pace pace;
	uint32_t ready[N_HOSTS];	/* a ring: hosts for whom a grant waits */
	uint32_t first_ready, n_ready;
	uint32_t turn_ms[N_HOSTS];
	uint32_t n_denied;	/* requests, since the fault */
	uint32_t at;		/* the host whose lessee is being called */
	struct message *under_way[RING_MS];
	uint32_t bins[END_MS / BIN_MS + 1];
};

static uint64_t now_ns(const struct herd *h)
{
	return (uint64_t)h->now_ms * MS;
}

static uint32_t below(struct herd *h, uint32_t n)
{
	return (uint32_t)(lg_rand_next(&h->rand) % n);
}

/* ---- messages ---- */

static struct lg_ask *copy_of(const struct lg_ask *ask)
{
	struct lg_ask *copy = malloc(sizeof(*copy));

	assert_non_null(copy);
	memcpy(copy, ask, offsetof(struct lg_ask, slots) + ask->n_slots * sizeof(ask->slots[0]));
	copy->n_history = 0;
	return copy;
}

/* When TCP tries again, the first time after the cut, with what it has from since_ms. */
static uint32_t tries_again_ms(const struct herd *h, uint32_t since_ms)
{
	uint32_t rto_ms = RTO_MS, at_ms;

	for (at_ms = since_ms; at_ms < h->cut_until_ms; rto_ms *= 2)
		at_ms += rto_ms;
	return at_ms;
}

/* Messages that meet a cut go with that, all of one direction at once. */
static uint32_t arrival_ms(struct herd *h, uint32_t *unsent_ms, uint32_t delay_ms)
{
	if (*unsent_ms && tries_again_ms(h, *unsent_ms) < h->now_ms)
		*unsent_ms = 0;
	if (!*unsent_ms && h->now_ms < h->cut_until_ms)
		*unsent_ms = h->now_ms;
	return (*unsent_ms ? tries_again_ms(h, *unsent_ms) : h->now_ms) + delay_ms;
}

/* As the client sees it: bytes that are not acknowledged. */
static bool is_stalled(const struct herd *h, uint32_t unsent_ms)
{
	return unsent_ms && h->now_ms >= unsent_ms + STALL_MS && h->now_ms < tries_again_ms(h, unsent_ms);
}

static void post(struct herd *h, const struct message *msg, uint32_t at_ms)
{
	struct message *copy = malloc(sizeof(*copy)), **end = &h->under_way[at_ms % RING_MS];

	assert_non_null(copy);
	assert_true(at_ms > h->now_ms && at_ms - h->now_ms < RING_MS);
	*copy = *msg;
	copy->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = copy;
}

static void count(struct herd *h)
{
	h->bins[h->now_ms / BIN_MS]++;
	lg_pace_count(&h->pace, N_HOSTS, now_ns(h));
}

/* To or from a host, over its stream. */
static void post_on(struct herd *h, uint32_t i, enum kind kind, struct message *msg)
{
	struct host *host = &h->hosts[i];

	msg->kind = kind;
	msg->host = i;
	msg->life = h->life;
	msg->stream = host->stream;
	post(h, msg, arrival_ms(h, &host->unsent_ms[kind == GRANT || kind == PONG], HOST_DELAY_MS));
}

/* ---- hosts ---- */

static void on_ask(void *arg, const struct lg_ask *ask)
{
	struct herd *h = arg;

	post_on(h, h->at, ASK, &(struct message){ .ask = copy_of(ask) });
}

static void on_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct herd *h = arg;
	struct host *host = &h->hosts[h->at];

	(void)epoch;
	host->granted_tok += tok;
	host->low_water_tok = low_water_tok;
	host->expires_ns = lg_max_u64(host->expires_ns, expires_ns);
}

static void on_take(void *arg, uint64_t tok, struct lg_usage *ret_now)
{
	struct host *host = &((struct herd *)arg)->hosts[((struct herd *)arg)->at];

	tok = lg_min_u64(tok, host->granted_tok - host->usage.spent_tok);
	host->usage.spent_tok += tok;
	host->usage.returned_tok += tok;
	*ret_now = host->usage;
}

static int on_generation(void *arg, uint32_t generation, uint32_t epoch)
{
	struct herd *h = arg;
	struct host *host = &h->hosts[h->at];

	(void)generation;
	(void)epoch;
	host->granted_tok = host->usage.spent_tok = host->usage.returned_tok = 0;
	host->expires_ns = lg_min_u64(host->expires_ns, now_ns(h));
	return 0;
}

static const struct lg_lessee_effects *host_fx(struct herd *h, uint32_t host)
{
	static struct lg_lessee_effects fx = { .ask = on_ask, .grant = on_grant, .take = on_take, .generation = on_generation };

	fx.arg = h;
	h->at = host;
	return &fx;
}

/* What the kernel tells the agent, who looks at once. */
static void request(struct herd *h, uint32_t i)
{
	struct host *host = &h->hosts[i];

	host->request_ms = h->now_ms + h->interval_ms * 3 / 4 + below(h, h->interval_ms / 2);
	if (now_ns(h) < host->expires_ns && host->usage.spent_tok < host->granted_tok) {
		host->usage.spent_tok++;
		if (host->granted_tok - host->usage.spent_tok >= host->low_water_tok)
			return;
	} else {
		host->usage.denied_tok++;
		host->denied_ms = h->now_ms;
		h->n_denied++;
	}
	host->due_ns = now_ns(h);
}

static void say_hello(struct herd *h, uint32_t i)
{
	struct host *host = &h->hosts[i];

	host->hello_ms = 0;
	if (lg_upstream_up(&host->upstream, h->lessor.epoch))
		lg_lessee_up(host->lessee, now_ns(h), host_fx(h, i));
	host->due_ns = now_ns(h);
}

/* Whatever was under way in it is lost. */
static void stream_ends(struct herd *h, uint32_t i)
{
	struct host *host = &h->hosts[i];

	lg_upstream_down(&host->upstream);
	lg_upstream_stalled(&host->upstream, false, now_ns(h));
	host->stream++;
	host->unsent_ms[0] = host->unsent_ms[1] = host->hello_ms = 0;
	host->backoff_ms = BACKOFF_FIRST_MS;
	host->dial_ms = h->now_ms + BACKOFF_FIRST_MS / 2 + below(h, BACKOFF_FIRST_MS / 2 + 1);
	h->turn_ms[i] = h->now_ms;
}

/* Connected, it waits before it comes up: all others lost the region at the same moment. */
static void dial(struct herd *h, uint32_t i)
{
	struct host *host = &h->hosts[i];

	if (!h->region || h->now_ms < h->cut_until_ms) {
		host->dial_ms = h->now_ms + host->backoff_ms / 2 + below(h, host->backoff_ms / 2 + 1);
		host->backoff_ms = (uint32_t)lg_min_u64(2 * host->backoff_ms, BACKOFF_MAX_MS);
		return;
	}
	host->dial_ms = 0;
	host->heard_ms = h->now_ms;
	host->hello_ms = h->now_ms + 1 + (uint32_t)(lg_upstream_spread_ns(N_HOSTS, lg_rand_next(&h->rand)) / MS);
}

/* Of the client: is there anybody? */
static void beat(struct herd *h, uint32_t i)
{
	struct host *host = &h->hosts[i];
	uint32_t silent_ms = h->now_ms - host->heard_ms;

	if (host->dial_ms)
		return;
	if (silent_ms >= DEAD_MS) {
		stream_ends(h, i);
	} else if (silent_ms >= PING_MS && h->now_ms - host->pinged_ms >= PING_MS) {
		host->pinged_ms = h->now_ms;
		post_on(h, i, PING, &(struct message){ 0 });
	}
}

/* When it has something to do, if nothing arrives before. */
static uint32_t next_turn_ms(const struct herd *h, const struct host *host, uint32_t i)
{
	uint32_t at_ms = h->now_ms + BEAT_MS - (h->now_ms + BEAT_MS - i % BEAT_MS) % BEAT_MS;

	if (host->unsent_ms[0])
		return h->now_ms + 1;
	if (host->request_ms > h->now_ms && host->request_ms < at_ms)
		at_ms = host->request_ms;
	if (host->dial_ms && host->dial_ms < at_ms)
		at_ms = host->dial_ms;
	if (host->hello_ms && host->hello_ms < at_ms)
		at_ms = host->hello_ms;
	return (uint32_t)lg_min_u64(at_ms, (host->due_ns + MS - 1) / MS);
}

static void host_turn(struct herd *h, uint32_t i)
{
	struct host *host = &h->hosts[i];

	if (h->now_ms == host->request_ms)
		request(h, i);
	if (h->now_ms % BEAT_MS == i % BEAT_MS)
		beat(h, i);
	if (host->dial_ms && h->now_ms >= host->dial_ms)
		dial(h, i);
	if (host->hello_ms && h->now_ms >= host->hello_ms)
		say_hello(h, i);
	if (host->unsent_ms[0]) {
		lg_upstream_stalled(&host->upstream, is_stalled(h, host->unsent_ms[0]), now_ns(h));
		if (tries_again_ms(h, host->unsent_ms[0]) < h->now_ms)
			host->unsent_ms[0] = 0;
	}
	if (now_ns(h) >= host->due_ns)
		host->due_ns = lg_lessee_tick(host->lessee, &host->usage, now_ns(h), host_fx(h, i));
	h->turn_ms[i] = next_turn_ms(h, host, i);
}

/* ---- region ---- */

static void on_home_ask(void *arg, const struct lg_ask *ask)
{
	struct herd *h = arg;
	const struct message msg = { .kind = HOME_ASK, .life = h->life, .ask = copy_of(ask) };

	post(h, &msg, h->now_ms + HOME_DELAY_MS);
}

static void on_region_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct herd *h = arg;
	struct host *host = &h->hosts[holder];

	host->grant = *grant;
	if (host->ready_ns)
		return;
	host->ready_ns = now_ns(h);
	h->ready[(h->first_ready + h->n_ready++) % N_HOSTS] = holder;
}

/* At the end of each message and each tick, as the role does it. */
static void flush(struct herd *h)
{
	for (; h->n_ready; h->n_ready--, h->first_ready = (h->first_ready + 1) % N_HOSTS) {
		uint32_t i = h->ready[h->first_ready];

		if (!lg_pace_may_send(&h->pace, N_HOSTS, h->hosts[i].ready_ns, now_ns(h)))
			return;
		h->hosts[i].ready_ns = 0;
		count(h);
		post_on(h, i, GRANT, &(struct message){ .grant = h->hosts[i].grant });
	}
}

static const struct lg_region_effects *region_fx(struct herd *h)
{
	static struct lg_region_effects fx = { .ask = on_home_ask, .grant = on_region_grant };

	fx.arg = h;
	return &fx;
}

static void region_start(struct herd *h)
{
	h->lessor.epoch = ++h->life;
	h->lessor.succession = h->succession;
	assert_int_equal(lg_region_new(&h->lessor, &h->home_holding, now_ns(h), now_ns(h), &h->region), 0);
	lg_region_up(h->region, now_ns(h), region_fx(h));
	h->region_due_ns = now_ns(h);
}

/* All streams end with it. */
static void region_dies(struct herd *h)
{
	h->region = lg_region_free(h->region);
	h->life++;
	h->n_ready = 0;
	h->pace = (struct lg_pace){ 0 };
	for (uint32_t i = 0; i < N_HOSTS; i++) {
		h->hosts[i].ready_ns = 0;
		stream_ends(h, i);
	}
}

static void region_lives_again(struct herd *h)
{
	assert_int_equal(lg_succession_new(now_ns(h), &h->succession), 0);
	for (uint32_t i = 0; i < N_HOSTS; i++)
		assert_int_equal(lg_succession_list(h->succession, i), 0);
	h->home_granted_tok = 0;
	region_start(h);
}

/* The home gives a new life of the region a new generation, and what it wants. */
static void home_answers(struct herd *h, const struct lg_ask *ask)
{
	uint64_t tok = ask->generation ? ask->spent_tok + ask->returned_tok + ask->want_tok : ask->want_tok;
	const struct lg_grant grant = {
		.ack_seq = ask->seq,
		.ack_slot = ask->n_slots ? ask->slots[ask->n_slots - 1].id : 0,
		.epoch = 1,
		.generation = h->life,
		.granted_tok = h->home_granted_tok = lg_max_u64(h->home_granted_tok, tok),
		.ttl_ms = h->terms.ttl_ns / MS,
		.cap_tok = h->terms.max_outstanding_tok,
	};

	lg_region_grant(h->region, &grant, now_ns(h), region_fx(h));
	h->region_due_ns = now_ns(h);
}

static void deliver(struct herd *h, struct message *msg)
{
	struct host *host = &h->hosts[msg->host];

	if (msg->life != h->life || !h->region || (msg->kind != HOME_ASK && msg->stream != host->stream))
		return;
	if (msg->kind == GRANT || msg->kind == PONG)
		host->heard_ms = h->now_ms;
	switch (msg->kind) {
	case ASK:
		count(h);
		lg_region_ask(h->region, msg->host, 1, msg->ask, now_ns(h), region_fx(h));
		if (h->succession)
			lg_succession_synced(h->succession, msg->host);
		h->region_due_ns = now_ns(h);
		break;
	case GRANT:
		if (!host->upstream.up)
			return;
		lg_lessee_grant(host->lessee, &msg->grant, now_ns(h), host_fx(h, msg->host));
		host->due_ns = now_ns(h);
		h->turn_ms[msg->host] = h->now_ms;
		break;
	case HOME_ASK: home_answers(h, msg->ask); break;
	case PING: post_on(h, msg->host, PONG, &(struct message){ 0 }); break;
	case PONG: break;
	}
}

/* ---- time ---- */

static void turn(struct herd *h)
{
	struct message *msg = h->under_way[h->now_ms % RING_MS], *next;

	h->under_way[h->now_ms % RING_MS] = NULL;
	for (; msg; msg = next) {
		next = msg->next;
		deliver(h, msg);
		flush(h);
		free(msg->ask);
		free(msg);
	}
	for (uint32_t i = 0; i < N_HOSTS; i++)
		if (h->now_ms >= h->turn_ms[i])
			host_turn(h, i);
	if (h->region && h->now_ms % (h->terms.region_tick_ns / MS) == 0 && now_ns(h) >= h->region_due_ns)
		h->region_due_ns = lg_region_tick(h->region, now_ns(h), region_fx(h));
	flush(h);
}

static void run_until(struct herd *h, uint32_t until_ms)
{
	for (; h->now_ms < until_ms; h->now_ms++)
		turn(h);
}

static uint32_t peak(const struct herd *h, uint32_t from_ms, uint32_t to_ms)
{
	uint32_t most = 0;

	for (uint32_t bin = from_ms / BIN_MS; bin < to_ms / BIN_MS; bin++)
		most = h->bins[bin] > most ? h->bins[bin] : most;
	return most;
}

/* After that no request of any host was denied. */
static uint32_t last_denied_ms(const struct herd *h)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < N_HOSTS; i++)
		last = h->hosts[i].denied_ms > last ? h->hosts[i].denied_ms : last;
	return last;
}

static struct herd *begin(uint32_t n_busy, uint32_t interval_ms, uint64_t seed)
{
	/* A budget so much larger than the traffic that nobody is ever short, and reports are as rare as they come. */
	const struct lg_rule_def rule = { .algorithm = LG_TOKEN_BUCKET, .limit_tok = 100000, .per_ns = 60000 * MS, .burst_tok = 1000000,
					  .lease = { .rpc_budget_mps = 25 } };
	const struct lg_fleet fleet = { .regions = 1, .hosts = N_HOSTS, .far_rtt_ns = HOME_DELAY_MS * MS };
	const struct lg_lessee_found found = { .usage = { .denied_tok = 1 } };
	struct herd *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	lg_terms_init(&rule, &fleet, &h->terms);
	assert_int_equal(h->terms.host_period_ns, 10000 * MS);
	h->terms.kind = LG_LEASE_BLOCK;
	h->rand = seed;
	h->n_busy = n_busy;
	h->interval_ms = interval_ms;
	h->now_ms = START_MS;
	h->lessor = (struct lg_lessor){ .terms = &h->terms, .rand = 1 };
	h->home_up = (struct lg_upstream){ .up = true, .epoch = 1, .rtt_ns = HOME_DELAY_MS * MS };
	h->home_holding = (struct lg_holding){ .terms = &h->terms, .upstream = &h->home_up };
	region_start(h);
	for (uint32_t i = 0; i < N_HOSTS; i++) {
		struct host *host = &h->hosts[i];

		host->upstream.rand = lg_rand_next(&h->rand);
		lg_upstream_crowd(&host->upstream, N_HOSTS);
		host->holding = (struct lg_holding){ .terms = &h->terms, .upstream = &host->upstream };
		host->request_ms = i < n_busy ? START_MS + 12000 + below(h, 40000) : 0;
		host->hello_ms = START_MS + 1 + below(h, 10000);
		host->heard_ms = host->hello_ms;
		host->usage = found.usage;
		assert_int_equal(lg_lessee_new(&host->holding, now_ns(h), now_ns(h) + i, &found, &host->lessee), 0);
	}
	return h;
}

static void end(struct herd *h)
{
	for (size_t i = 0; i < RING_MS; i++)
		while (h->under_way[i]) {
			struct message *msg = h->under_way[i];

			h->under_way[i] = msg->next;
			free(msg->ask);
			free(msg);
		}
	for (uint32_t i = 0; i < N_HOSTS; i++)
		lg_lessee_free(h->hosts[i].lessee);
	lg_region_free(h->region);
	lg_succession_free(h->succession);
	free(h);
}

struct outcome {
	uint32_t peak;
	uint32_t steady;	/* the peak of before */
	uint32_t last_denied_ms;
	uint32_t n_denied;
};

/* A region whose server restarts (cut_ms 0) or is cut off so long. */
static struct outcome recover(uint32_t interval_ms, uint32_t cut_ms, uint64_t seed)
{
	struct herd *h = begin(N_HOSTS * 6 / 10, interval_ms, seed);
	struct outcome o;

	run_until(h, FAULT_MS);
	assert_true(last_denied_ms(h) < FAULT_MS - 20000);
	h->n_denied = 0;
	if (cut_ms) {
		h->cut_until_ms = FAULT_MS + cut_ms;
	} else {
		region_dies(h);
		run_until(h, FAULT_MS + RESTART_MS);
		region_lives_again(h);
	}
	run_until(h, END_MS);
	o = (struct outcome){ peak(h, FAULT_MS, END_MS), peak(h, FAULT_MS - 20000, FAULT_MS), last_denied_ms(h), h->n_denied };
	end(h);
	return o;
}

/* The worst of many runs. */
static struct outcome search(const char *what, uint32_t interval_ms, uint32_t cut_ms)
{
	const char *text = getenv("HERD_RUNS");
	uint64_t n = text ? strtoull(text, NULL, 10) : RUNS;
	struct outcome worst = { 0 };

	for (uint64_t seed = 0; seed < n; seed++) {
		struct outcome o = recover(interval_ms, cut_ms, seed);

		worst.peak = o.peak > worst.peak ? o.peak : worst.peak;
		worst.steady = o.steady > worst.steady ? o.steady : worst.steady;
		worst.n_denied = o.n_denied > worst.n_denied ? o.n_denied : worst.n_denied;
		worst.last_denied_ms = o.last_denied_ms > worst.last_denied_ms ? o.last_denied_ms : worst.last_denied_ms;
	}
	print_message("%s, %u ms: at most %u messages in 100 ms (before: %u), %u hosts, %llu runs; %u requests denied", what, cut_ms,
		      worst.peak, worst.steady, N_HOSTS, (unsigned long long)n, worst.n_denied);
	if (worst.n_denied)
		print_message(", the last %.1f s after", (double)worst.last_denied_ms / 1000 - FAULT_MS / 1000);
	print_message("\n");
	assert_in_range(worst.peak, 1, PEAK_MAX);
	return worst;
}

static void a_region_that_restarts_is_not_run_over_by_its_hosts(void **state)
{
	struct outcome busy;

	(void)state;
	search("rarely used, the region restarts", RARE_MS, 0);
	busy = search("busy, the region restarts", BUSY_MS, 0);
	assert_true(busy.last_denied_ms > FAULT_MS);	/* the old leases are void: it cannot be otherwise */
	assert_true(busy.last_denied_ms < FAULT_MS + 15000);
}

/* So short that the streams survive. */
static void a_short_cut_is_followed_by_no_flood(void **state)
{
	struct outcome busy;

	(void)state;
	search("rarely used, no network", RARE_MS, 1000);
	busy = search("busy, no network", BUSY_MS, 1000);
	assert_int_equal(busy.n_denied, 0);	/* what they hold lasts */
	search("rarely used, no network", RARE_MS, 3000);
	busy = search("busy, no network", BUSY_MS, 3000);
	assert_true(busy.last_denied_ms < FAULT_MS + 3000 + 3000);
}

/* Most of the streams are given up, and hosts wait by chance before they say hello again. */
static void a_longer_cut_is_followed_by_no_flood(void **state)
{
	struct outcome busy;

	(void)state;
	search("rarely used, no network", RARE_MS, 5000);
	busy = search("busy, no network", BUSY_MS, 5000);
	assert_true(busy.last_denied_ms < FAULT_MS + 5000 + 10000);
	busy = search("busy, no network", BUSY_MS, 15000);
	assert_true(busy.last_denied_ms < FAULT_MS + 15000 + 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_that_restarts_is_not_run_over_by_its_hosts),
		cmocka_unit_test(a_short_cut_is_followed_by_no_flood),
		cmocka_unit_test(a_longer_cut_is_followed_by_no_flood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
