// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Exactness: two threads on two CPUs hammer one key, each at a hook of its own, while tokens are granted and taken
 * back. Not one packet more or less than the tokens there were may get through. Loops run inside the kernel (repeats of
 * a test run), so the CPUs really collide.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "progs.h"

#define N_TOKENS 100000
#define CHUNK 5000

static struct progs *p;
static const char source[] = "10.0.0.1";
static uint64_t rng = 1;

static uint64_t random_below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

static int load(void **state)
{
	const char *seed = getenv("SEED");

	(void)state;
	rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	print_message("SEED=%llu replays the grants of this run\n", (unsigned long long)rng);
	p = progs_load(4096, false);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}

/* ---- the two hammers ---- */

struct hammer {
	pthread_t thread;
	enum lg_hook hook;
	int cpu;
	struct lg_pkt_buf pkt;
	uint32_t n_packets;	/* 0: until told to stop */
	atomic_bool *stop;
	pthread_barrier_t *start;
	int failed;
};

static void *hammer_run(void *arg)
{
	struct hammer *h = arg;
	uint32_t left = h->n_packets;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(h->cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_barrier_wait(h->start);
	while (h->n_packets ? left : !atomic_load(h->stop)) {
		uint32_t n = !h->n_packets || left > CHUNK ? CHUNK : left;
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = h->pkt.data, .data_size_in = h->pkt.len, .repeat = (int)n);

		if (bpf_prog_test_run_opts(progs_fd(p, h->hook), &opts))
			h->failed = 1;
		left -= h->n_packets ? n : 0;
	}
	return NULL;
}

static atomic_bool stop;
static bool one_cpu;		       /* both threads on the first CPU */
static uint16_t payload[2] = { 20, 20 }; /* bytes behind the headers, of each thread's packets */
static pthread_barrier_t start;

/*
 * Two hooks, so that only the maps are common. XDP takes part where a test says so: its test runs change the dispatcher
 * and wait for the kernel to settle, some 20 ms each.
 */
static void hammers_begin(struct hammer h[2], enum lg_hook first, const char *from, uint32_t n_packets)
{
	atomic_store(&stop, false);
	assert_int_equal(pthread_barrier_init(&start, NULL, 3), 0);
	for (int i = 0; i < 2; i++) {
		h[i] = (struct hammer){ .hook = i ? LG_HOOK_TC_EGRESS : first, .cpu = i % (one_cpu ? 1 : p->n_cpus),
					.n_packets = n_packets, .stop = &stop, .start = &start };
		lg_pkt_udp4(&h[i].pkt, from, "192.0.2.1", 53, payload[i]);
		assert_int_equal(pthread_create(&h[i].thread, NULL, hammer_run, &h[i]), 0);
	}
	pthread_barrier_wait(&start);
}

static void hammers_end(struct hammer h[2])
{
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(h[i].thread, NULL), 0);
		assert_int_equal(h[i].failed, 0);
	}
	pthread_barrier_destroy(&start);
}

/* Packets let through so far, at all hooks. */
static uint64_t admitted(void)
{
	uint64_t packets = 0;

	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++)
		packets += progs_verdicts(p, hook, LG_PASS_ADMITTED).packets;
	return packets;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

/* A rule of burst_tok that refills so slowly that nothing comes in while a test runs. */
static struct lg_rule *slow_rule(uint64_t burst_tok)
{
	struct lg_rule *rule = progs_rule(p, burst_tok);

	assert_int_equal(lg_rate_init(1, 31ull * 86400 * S, burst_tok, now_ns(), &rule->rate), 0);
	return rule;
}

/* ---- tests ---- */

static void a_limit_of_n_admits_exactly_n(void **state)
{
	struct lg_key key = progs_key(1, source);
	struct hammer h[2];

	(void)state;
	progs_reset(p);
	slow_rule(N_TOKENS);
	progs_publish(p);
	hammers_begin(h, LG_HOOK_XDP, source, N_TOKENS);
	hammers_end(h);
	assert_int_equal(admitted(), N_TOKENS);
	assert_int_equal(progs_bucket(p, &key).spent_tok, N_TOKENS);
	assert_int_equal(progs_bucket(p, &key).denied_tok, N_TOKENS);
	assert_int_equal(progs_all(p, LG_HOOK_XDP), N_TOKENS);
	assert_int_equal(progs_all(p, LG_HOOK_TC_EGRESS), N_TOKENS);
}

/*
 * Fresh keys: both CPUs make the bucket at the same time, over and over, as the agent forgets it every few
 * microseconds. Each life of the bucket has one burst; a packet that found no room in the scramble is charged to an
 * overflow bucket, with a burst of its own. (The requests behind the first of a call are refused, they only pass the
 * time.)
 */
static void a_key_that_two_cpus_meet_first_has_one_burst(void **state)
{
	static struct lg_op ops[LG_OPS_MAX];
	struct lg_key key = progs_key(1, source);
	struct hammer h[2];
	uint64_t n_lives = 1;

	(void)state;
	progs_reset(p);
	slow_rule(4);
	progs_publish(p);
	for (uint32_t i = 0; i < LG_OPS_MAX; i++)
		ops[i] = (struct lg_op){ .key = key, .code = i ? LG_OP_READ : LG_OP_FORGET };
	hammers_begin(h, LG_HOOK_TC_INGRESS, source, 0);
	for (int i = 0; i < 300; i++) {
		progs_ops(p, true, ops, LG_OPS_MAX);
		n_lives += !ops[0].result;
		ops[0].result = -1;
	}
	hammers_end(h);
	print_message("%llu lives, %llu admitted, %llu without room\n", (unsigned long long)n_lives,
		      (unsigned long long)admitted(), (unsigned long long)progs_shared(p).map_full);
	assert_int_equal(progs_shared(p).map_full, 0);
	assert_true(admitted() <= 4 * n_lives);
	assert_true(admitted() >= n_lives - 1);
}

static void what_is_granted_is_admitted_and_nothing_else(void **state)
{
	struct lg_key key = progs_key(1, source);
	uint64_t granted_tok = 0, tok, deadline_ns;
	struct hammer h[2];
	struct lg_op op;

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	hammers_begin(h, LG_HOOK_TC_INGRESS, source, 0);
	for (int i = 0; i < 1000; i++) {
		tok = random_below(200);
		op = progs_grant(p, key, tok, now_ns() + 3600 * S);
		assert_int_equal(op.result, 0);
		granted_tok += tok;
		assert_int_equal(op.after.granted_tok, granted_tok);
		assert_true(op.after.spent_tok <= granted_tok);
	}
	deadline_ns = now_ns() + 60 * S;
	while (progs_bucket(p, &key).spent_tok < granted_tok && now_ns() < deadline_ns)
		;
	hammers_end(h);
	assert_int_equal(progs_bucket(p, &key).spent_tok, granted_tok);
	assert_int_equal(admitted(), granted_tok);
}

/* A random mixture of grants, returns of a part or of all, and closed books. */
static void fill_ops(struct lg_op ops[LG_OPS_MAX], struct lg_key key, uint32_t *generation)
{
	for (uint32_t i = 0; i < LG_OPS_MAX; i++) {
		ops[i] = (struct lg_op){ .key = key, .expires_ns = now_ns() + 3600 * S, .low_water_tok = ~0ull };
		switch (random_below(8)) {
		case 0:
		case 1:
			ops[i].code = LG_OP_TAKE;
			ops[i].tok = random_below(2) ? ~0ull : random_below(30);
			break;
		case 2:
			ops[i].code = LG_OP_GENERATION;
			ops[i].generation = ++*generation;
			break;
		default:
			ops[i].code = LG_OP_GRANT;
			ops[i].tok = random_below(50);
		}
	}
}

/* 256 operations a call, so that they run within tens of nanoseconds of each other, while packets spend on the other CPU. */
static void a_token_is_spent_or_returned_but_never_both(void **state)
{
	static struct lg_op ops[LG_OPS_MAX];
	struct lg_key key = progs_key(1, source);
	uint64_t granted_tok = 0, returned_tok = 0;
	uint32_t generation = 0;
	struct lg_bucket bucket;
	struct hammer h[2];

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	progs_grant(p, key, 0, now_ns() + 3600 * S);
	hammers_begin(h, LG_HOOK_TC_INGRESS, source, 0);
	for (int call = 0; call < 200; call++) {
		fill_ops(ops, key, &generation);
		for (uint32_t i = 0; i < LG_OPS_MAX; i++)
			granted_tok += ops[i].code == LG_OP_GRANT ? ops[i].tok : 0;
		progs_ops(p, true, ops, LG_OPS_MAX);
		for (uint32_t i = 0; i < LG_OPS_MAX; i++) {
			assert_true(ops[i].result == 0 || ops[i].result == -EAGAIN);
			returned_tok += ops[i].code == LG_OP_GRANT ? 0 : ops[i].tok;
			assert_int_equal(ops[i].after.returned_tok, returned_tok);
			assert_true(ops[i].after.spent_tok <= ops[i].after.granted_tok);
			assert_true(ops[i].after.spent_tok >= returned_tok);
			if (ops[i].code == LG_OP_GENERATION && !ops[i].result)
				assert_int_equal(ops[i].after.base_tok, ops[i].after.granted_tok);
		}
	}
	hammers_end(h);
	bucket = progs_bucket(p, &key);
	print_message("granted %llu, admitted %llu, returned %llu\n", (unsigned long long)granted_tok,
		      (unsigned long long)admitted(), (unsigned long long)returned_tok);
	assert_int_equal(bucket.granted_tok, granted_tok);
	assert_int_equal(admitted(), bucket.spent_tok - bucket.returned_tok);
	assert_true(bucket.spent_tok <= granted_tok);
	assert_true(returned_tok > 0 && admitted() > 0);
}

/* Three rules, the second so tight that takes are lost to the other CPU, and what the others gave must be undone. */
static void an_undone_take_leaves_no_trace(void **state)
{
	struct lg_key key1 = progs_key(1, source), key2 = progs_key(2, source), key3 = progs_key(3, source);
	struct lg_rule *tight;
	struct hammer h[2];
	uint64_t n;

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY);
	tight = progs_rule(p, 1);
	assert_int_equal(lg_rate_init(1000000, S, 1, now_ns(), &tight->rate), 0);
	slow_rule(1u << 30);
	progs_publish(p);
	assert_int_equal(progs_grant(p, key1, 1u << 30, now_ns() + 3600 * S).result, 0);
	hammers_begin(h, LG_HOOK_TC_INGRESS, source, N_TOKENS);
	hammers_end(h);
	n = admitted();
	assert_true(n > 0 && n < 2 * N_TOKENS);
	assert_int_equal(progs_bucket(p, &key1).spent_tok, n);
	assert_int_equal(progs_bucket(p, &key2).spent_tok, n);
	assert_int_equal(progs_bucket(p, &key3).spent_tok, n);
	for (uint32_t id = 1; id <= 3; id++)
		assert_int_equal(progs_rule_count(p, id, LG_PASS_ADMITTED).packets, n);
}

/* ---- every algorithm, in packets, bytes and at a cost ---- */

/* A rule whose budget is all there will be while the test runs. */
static struct lg_rule *budget_rule(enum lg_rule_algorithm algorithm, uint64_t budget_tok)
{
	struct lg_rule *rule = slow_rule(budget_tok);

	if (algorithm == LG_RULE_TOKEN_BUCKET)
		return rule;
	rule->algorithm = (uint8_t)algorithm;
	rule->rate_tok = budget_tok;
	rule->window = (struct lg_window){ .anchor_ns = now_ns() - 3600 * S, .index0 = 1, .length_ns = 31ull * 86400 * S };
	if (algorithm == LG_RULE_SLIDING_LOG)
		rule->cold_burst_tok = LG_LOG_COST_MAX;
	return rule;
}

static const enum lg_rule_algorithm algorithms[] = { LG_RULE_TOKEN_BUCKET, LG_RULE_FIXED_WINDOW, LG_RULE_SLIDING_WINDOW,
						     LG_RULE_SLIDING_LOG };

static void each_algorithm_admits_what_its_budget_pays_for(void **state)
{
	static const struct {
		bool in_bytes;
		uint32_t cost;
	} units[] = { { false, 1 }, { true, 1 }, { false, 7 }, { true, 3 } };
	struct lg_key key = progs_key(1, source);
	struct hammer h[2];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms) * N_ELEMS(units) * 2; i++) {
		enum lg_rule_algorithm algorithm = algorithms[i / 2 / N_ELEMS(units)];
		uint64_t per_packet = units[i / 2 % N_ELEMS(units)].cost * (units[i / 2 % N_ELEMS(units)].in_bytes ? 62 : 1);
		uint64_t budget_tok = algorithm == LG_RULE_SLIDING_LOG ? 1000 : 20003 * per_packet - 1;
		struct lg_rule *rule;

		if (algorithm == LG_RULE_SLIDING_LOG && units[i / 2 % N_ELEMS(units)].in_bytes)
			continue;
		one_cpu = i & 1;
		progs_reset(p);
		rule = budget_rule(algorithm, budget_tok);
		rule->flags |= units[i / 2 % N_ELEMS(units)].in_bytes ? LG_RULE_BYTES : 0;
		rule->cost = units[i / 2 % N_ELEMS(units)].cost;
		progs_publish(p);
		hammers_begin(h, LG_HOOK_TC_INGRESS, source, algorithm == LG_RULE_SLIDING_LOG ? 2 * CHUNK : 4 * CHUNK);
		hammers_end(h);
		if (admitted() != budget_tok / per_packet)
			print_error("algorithm %d, %llu a packet, %s CPU: %llu of %llu\n", (int)algorithm, (unsigned long long)per_packet,
				    one_cpu ? "one" : "each its", (unsigned long long)admitted(), (unsigned long long)budget_tok / per_packet);
		assert_int_equal(admitted(), budget_tok / per_packet);
		assert_int_equal(progs_bucket(p, &key).spent_tok, budget_tok / per_packet * per_packet);
		assert_int_equal(progs_bucket(p, &key).denied_tok, 2 * h[0].n_packets * per_packet - progs_bucket(p, &key).spent_tok);
	}
	one_cpu = false;
}

/* Packets of 62 and of 342 bytes: the small ones fill what the large ones leave. */
static void mixed_costs_never_exceed_the_budget_and_leave_less_than_a_packet(void **state)
{
	struct lg_key key = progs_key(1, source);
	uint64_t budget_tok = 2000003, spent_tok;
	struct hammer h[2];

	(void)state;
	payload[1] = 300;
	for (size_t i = 0; i < 2 * (N_ELEMS(algorithms) - 1); i++) {
		one_cpu = i & 1;
		progs_reset(p);
		budget_rule(algorithms[i / 2], budget_tok)->flags |= LG_RULE_BYTES;
		progs_publish(p);
		hammers_begin(h, LG_HOOK_TC_INGRESS, source, 8 * CHUNK);
		hammers_end(h);
		spent_tok = progs_bucket(p, &key).spent_tok;
		assert_true(spent_tok <= budget_tok);
		assert_true(budget_tok - spent_tok < 342);
	}
	payload[1] = 20;
	one_cpu = false;
}

/* Windows of a millisecond under two real clocks: each holds its limit, so the time there was bounds what was admitted. */
static void short_windows_hold_on_two_cpus(void **state)
{
	struct hammer h[2];
	struct lg_rule *rule;
	uint64_t start_ns, most;

	(void)state;
	for (enum lg_rule_algorithm algorithm = LG_RULE_FIXED_WINDOW; algorithm <= LG_RULE_SLIDING_LOG; algorithm++) {
		progs_reset(p);
		rule = budget_rule(algorithm, 10);
		rule->cold_burst_tok = 10;
		rule->window = (struct lg_window){ .length_ns = MS };
		progs_publish(p);
		start_ns = now_ns();
		hammers_begin(h, LG_HOOK_TC_INGRESS, source, 20 * CHUNK);
		hammers_end(h);
		most = ((now_ns() - start_ns) / MS + 2) * 10;
		assert_true(admitted() <= most);
		assert_true(admitted() > 10);
	}
}

/* A window's take that another rule undoes: the log, taken from last, and the window before it agree with what was admitted. */
static void an_undone_take_leaves_no_trace_in_a_window(void **state)
{
	struct lg_key key1 = progs_key(1, source), key3 = progs_key(3, source);
	struct lg_rule *tight;
	struct hammer h[2];

	(void)state;
	progs_reset(p);
	budget_rule(LG_RULE_SLIDING_WINDOW, 1u << 30);
	tight = progs_rule(p, 1);
	assert_int_equal(lg_rate_init(1000000, S, 1, now_ns(), &tight->rate), 0);
	budget_rule(LG_RULE_SLIDING_LOG, 1000);
	progs_publish(p);
	hammers_begin(h, LG_HOOK_TC_INGRESS, source, 8 * CHUNK);
	hammers_end(h);
	assert_true(admitted() > 0 && admitted() <= 1000);
	assert_int_equal(progs_bucket(p, &key1).spent_tok, admitted());
	assert_int_equal(progs_bucket(p, &key1).window[1] >> LG_WINDOW_INDEX_BITS, admitted());
	assert_int_equal(progs_bucket(p, &key3).spent_tok, admitted());
}

/* A rate under two CPUs' clocks: no more than burst + rate * time, and nearly all of it. */
static void a_rate_holds_on_two_cpus(void **state)
{
	uint64_t start_ns, took_ns, most;
	struct hammer h[2];
	struct lg_rule *rule;

	(void)state;
	progs_reset(p);
	rule = progs_rule(p, 100);
	start_ns = now_ns();
	assert_int_equal(lg_rate_init(100000, S, 100, start_ns, &rule->rate), 0);
	progs_publish(p);
	hammers_begin(h, LG_HOOK_TC_INGRESS, source, 4 * N_TOKENS);
	hammers_end(h);
	took_ns = now_ns() - start_ns;
	most = 100 + (uint64_t)((double)took_ns * 100000 / S) + 1;
	assert_true(admitted() <= most);
	assert_true(admitted() > 100);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_of_n_admits_exactly_n),
		cmocka_unit_test(a_key_that_two_cpus_meet_first_has_one_burst),
		cmocka_unit_test(what_is_granted_is_admitted_and_nothing_else),
		cmocka_unit_test(a_token_is_spent_or_returned_but_never_both),
		cmocka_unit_test(an_undone_take_leaves_no_trace),
		cmocka_unit_test(each_algorithm_admits_what_its_budget_pays_for),
		cmocka_unit_test(mixed_costs_never_exceed_the_budget_and_leave_less_than_a_packet),
		cmocka_unit_test(short_windows_hold_on_two_cpus),
		cmocka_unit_test(an_undone_take_leaves_no_trace_in_a_window),
		cmocka_unit_test(a_rate_holds_on_two_cpus),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
