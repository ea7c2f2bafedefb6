// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Buckets in map `lines`, through the loaded programs: rows on every hook, a flood of made-up sources, and two CPUs that meet each
 * key at the same moment. KEYS=1000000 runs the last one at length.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "progs.h"
#include "tests/lib/chance.h"

static struct progs *timed, *untimed; /* with the test clock, and with the kernel's own */
static uint64_t rng = 1;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static int load(void **state)
{
	(void)state;
	rng = chance_seed();
	timed = progs_load(64, true);
	untimed = progs_load(64, false);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(timed);
	progs_free(untimed);
	return 0;
}

static struct lg_pkt_buf from(uint32_t address)
{
	struct in_addr in = { .s_addr = htonl(address) };
	struct lg_pkt_buf pkt;
	char text[INET_ADDRSTRLEN];

	assert_non_null(inet_ntop(AF_INET, &in, text, sizeof(text)));
	lg_pkt_udp4(&pkt, text, "192.0.2.1", 53, 20);
	return pkt;
}

static void at_each_hook(void (*row)(struct progs *p, enum lg_hook hook))
{
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		progs_reset(timed);
		row(timed, hook);
	}
}

#define ROW(name)                                                   \
	static void name##_row(struct progs *p, enum lg_hook hook); \
	static void name(void **state)                              \
	{                                                           \
		(void)state;                                        \
		at_each_hook(name##_row);                           \
	}                                                           \
	static void name##_row(struct progs *p, enum lg_hook hook)

static struct lg_line line_of(struct progs *p, uint32_t index)
{
	struct lg_line line;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.lines), &index, &line), 0);
	return line;
}

static struct lg_line_key note_of(struct progs *p, uint32_t slot)
{
	struct lg_line_key note;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.line_keys), &slot, &note), 0);
	return note;
}

static uint32_t n_buckets(struct progs *p)
{
	int fd = bpf_map__fd(p->skel->maps.buckets);
	struct lg_key key, next;
	uint32_t n = 0;

	for (int r = bpf_map_get_next_key(fd, NULL, &key); !r; r = bpf_map_get_next_key(fd, &key, &next), key = next)
		n++;
	return n;
}

/* ---- rows ---- */

ROW(a_key_in_lines_has_its_burst_and_then_its_rate)
{
	struct lg_pkt_buf a = from(0x0a000001), b = from(0x0a000002), v6;

	progs_in_lines(p, progs_rule(p, 2), 1, START_NS);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	lg_pkt_udp6(&v6, "2001:db8::1", "2001:db8::2", 53, 20);
	progs_expect(p, hook, &v6, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 99 * MS);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_now(p, START_NS + 101 * MS);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(n_buckets(p), 0);
	assert_int_equal(line_of(p, 0).slot[3], 0);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 5);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 3);
}

/* n new keys, which owe: eight fill a line. */
static void fill_line(struct progs *p, enum lg_hook hook, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct lg_pkt_buf pkt = from(0x0a070000 + i);

		progs_expect(p, hook, &pkt, LG_PASS_ADMITTED);
	}
}

/* Whatever becomes of it, and what was refused to who had the slot before is not the new key's. */
ROW(a_key_is_noted_by_its_second_packet)
{
	struct lg_pkt_buf a = from(0x0a000001), b = from(0x0a000002);
	struct lg_key key_a = progs_key(1, "10.0.0.1"), key_b = progs_key(1, "10.0.0.2");
	struct lg_line_key was, note;

	progs_in_lines(p, progs_rule(p, 1), 1, START_NS);
	progs_publish(p);
	was = note_of(p, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	assert_false(line_of(p, 0).slot[0] & LG_LINE_NOTED);
	note = note_of(p, 0);
	assert_memory_equal(&note, &was, sizeof(note));
	for (uint32_t n = 1; n <= 3; n++) {
		progs_expect(p, hook, &a, LG_DROP_LIMIT);
		assert_true(line_of(p, 0).slot[0] & LG_LINE_NOTED);
		note = note_of(p, 0);
		assert_memory_equal(&note.key, &key_a, sizeof(key_a));
		assert_int_equal(note.denied_tok, n);
	}
	fill_line(p, hook, LG_LINE_SLOTS - 1);
	progs_now(p, START_NS + 101 * MS);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	assert_false(line_of(p, 0).slot[0] & LG_LINE_NOTED);
	note = note_of(p, 0);
	assert_memory_equal(&note.key, &key_a, sizeof(key_a));
	/* This time by a packet that passes, and of a rule that is not alone. */
	p->set.rules[0].burst_tok = 2;
	p->set.rules[0].rate.burst_vt *= 2;
	progs_rule(p, 9)->key_form = LG_FORM_RULE;
	progs_publish(p);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	assert_true(line_of(p, 0).slot[0] & LG_LINE_NOTED);
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	note = note_of(p, 0);
	assert_memory_equal(&note.key, &key_b, sizeof(key_b));
	assert_int_equal(note.denied_tok, 1);
}

ROW(rules_keep_to_their_own_lines)
{
	struct lg_pkt_buf a = from(0x0a000001);

	progs_in_lines(p, progs_rule(p, 3), 4, START_NS);
	progs_in_lines(p, progs_rule(p, 2), 8, START_NS);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	for (uint32_t index = 0, n[2] = { 0 }; index <= 12; index++) {
		n[index >= 4] += line_of(p, index).slot[0] != 0;
		if (index == 12) {
			assert_int_equal(n[0], 1);
			assert_int_equal(n[1], 1);
			assert_int_equal(line_of(p, index).slot[0], 0);
		}
	}
}

ROW(newcomers_of_a_full_line_share_overflow_buckets)
{
	struct lg_pkt_buf a = from(0x0a000001), b = from(0x0a000002), known = from(0x0a070000);

	progs_in_lines(p, progs_rule(p, 3), 1, START_NS);
	progs_publish(p);
	fill_line(p, hook, LG_LINE_SLOTS);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	assert_int_equal(progs_shared(p).lines_full, 4);
	/* Who has a slot keeps it. */
	progs_expect(p, hook, &known, LG_PASS_ADMITTED);
	/* When the others' tokens are back their slots are free. */
	progs_now(p, START_NS + 101 * MS);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_shared(p).lines_full, 4);
}

ROW(a_full_line_denies_or_passes_newcomers_if_the_rule_says_so)
{
	struct lg_pkt_buf a = from(0x0a000001);

	progs_in_lines(p, progs_rule(p, 3), 1, START_NS);
	progs_publish(p);
	fill_line(p, hook, LG_LINE_SLOTS);
	p->set.rules[0].on_full = LG_ON_FULL_DENY;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_TABLE_FULL);
	p->set.rules[0].on_full = LG_ON_FULL_PASS;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_TABLE_FULL);
	assert_int_equal(progs_shared(p).lines_full, 2);
}

ROW(several_rules_in_and_beside_lines_charge_all_or_none)
{
	struct lg_pkt_buf a = from(0x0a000001), b = from(0x0a000002);

	progs_in_lines(p, progs_rule(p, 3), 1, START_NS);
	progs_rule(p, 5)->key_form = LG_FORM_RULE;
	progs_in_lines(p, progs_rule(p, 2), 1, START_NS);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	for (int i = 0; i < 5; i++)
		progs_expect(p, hook, &a, LG_DROP_LIMIT); /* rule 3 */
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	assert_int_equal(progs_bucket(p, &(struct lg_key){ .rule_id = 2, .form = LG_FORM_RULE }).spent_tok, 4);
	p->set.n_rules = 2;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED); /* the third of rule 1, the fifth of rule 2 */
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	p->set.n_rules = 1;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
}

ROW(bytes_and_costs_beyond_the_burst)
{
	struct lg_pkt_buf a = from(0x0a000001);
	struct lg_rule *rule = progs_rule(p, 2 * a.len);

	rule->flags |= LG_RULE_BYTES;
	progs_in_lines(p, rule, 1, START_NS);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	rule->burst_tok = rule->cold_burst_tok = a.len - 1;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_COST);
}

/* ---- a flood ---- */

static void a_drained_key_stays_drained_while_a_flood_passes(void **state)
{
	const uint32_t n_lines = 512, n_flood = 2 * n_lines * LG_LINE_SLOTS;
	struct lg_pkt_buf victim = from(0x0a000001), pkt;
	struct progs *p = timed;
	uint32_t n_live = 0, n_passed = 0;

	(void)state;
	progs_reset(p);
	progs_in_lines(p, progs_rule(p, 5), n_lines, START_NS);
	progs_publish(p);
	for (int i = 0; i < 5; i++)
		progs_expect(p, LG_HOOK_TC_INGRESS, &victim, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &victim, LG_DROP_LIMIT);
	for (uint32_t i = 0; i < n_flood; i++) {
		pkt = from(0xc6000000 | (uint32_t)(chance_next(&rng) & 0xffffff));
		n_passed += progs_run(p, LG_HOOK_TC_INGRESS, &pkt);
	}
	progs_expect(p, LG_HOOK_TC_INGRESS, &victim, LG_DROP_LIMIT);
	for (uint32_t i = 0; i < n_lines; i++)
		for (uint32_t j = 0; j < LG_LINE_SLOTS; j++)
			n_live += line_of(p, i).slot[j] != 0;
	/* The table took what it could hold; the rest went to overflow buckets, and no bucket was made elsewhere. */
	assert_true(n_live > n_lines * LG_LINE_SLOTS * 9 / 10);
	assert_int_equal(n_buckets(p), 0);
	assert_true(progs_shared(p).lines_full >= n_flood - n_live - n_flood / 100); /* some sources came twice */
	assert_true(n_passed >= n_live - 1);
	assert_int_equal(line_of(p, n_lines).slot[0], 0);
	/* Half a second later all of them are full again, and the table as empty as it was. */
	progs_now(p, START_NS + 501 * MS);
	for (int i = 0; i < 5; i++)
		progs_expect(p, LG_HOOK_TC_INGRESS, &victim, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &victim, LG_DROP_LIMIT);
}

/* ---- two CPUs ---- */

static pthread_barrier_t barrier;
static atomic_uint turn[2];
static atomic_int n_passed_now;

struct runner {
	pthread_t thread;
	int cpu;
	enum lg_hook hook;
	uint32_t n_keys;
	uint32_t n_repeats;
	const struct lg_pkt_buf *pkt; /* one for all, or NULL: a key per turn */
	uint32_t n_twice;
	uint32_t n_never;
};

static void pin(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Waits until the other one is as far; the first CPU judges what both made of the key. */
static void meet(struct runner *r, uint32_t i)
{
	int me = r->hook == LG_HOOK_TC_EGRESS;

	atomic_store(&turn[me], i);
	while (atomic_load(&turn[!me]) < i)
		;
}

static void *run_keys(void *arg)
{
	struct runner *r = arg;
	struct lg_pkt_buf pkt;
	int n;

	pin(r->cpu);
	pthread_barrier_wait(&barrier);
	for (uint32_t i = 0; i < r->n_keys; i++) {
		pkt = from(0x0b000000 + i);
		meet(r, 3 * i + 1);
		if (progs_run(untimed, r->hook, &pkt))
			atomic_fetch_add(&n_passed_now, 1);
		meet(r, 3 * i + 2);
		if (r->hook == LG_HOOK_TC_EGRESS) {
			n = atomic_exchange(&n_passed_now, 0);
			r->n_twice += n > 1;
			r->n_never += n < 1;
		}
		meet(r, 3 * i + 3);
	}
	return NULL;
}

static void both_run(struct runner r[2], void *(*fn)(void *arg))
{
	atomic_store(&turn[0], 0);
	atomic_store(&turn[1], 0);
	assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
	for (int i = 0; i < 2; i++) {
		r[i].cpu = i % untimed->n_cpus;
		r[i].hook = i ? LG_HOOK_TC_EGRESS : LG_HOOK_TC_INGRESS;
		assert_int_equal(pthread_create(&r[i].thread, NULL, fn, &r[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(r[i].thread, NULL), 0);
	pthread_barrier_destroy(&barrier);
}

static struct lg_rule *slow_rule(uint64_t burst_tok, uint32_t n_lines)
{
	struct lg_rule *rule = progs_rule(untimed, burst_tok);

	rule->rate_tok = 1;
	rule->per_ns = 31 * 86400 * S;
	return progs_in_lines(untimed, rule, n_lines, now_ns());
}

/* Lines are emptied before one of them is full. */
static void of_a_new_key_two_cpus_get_one_token(void **state)
{
	uint32_t n_keys = getenv("KEYS") ? (uint32_t)atoi(getenv("KEYS")) : 20000, n_twice = 0, n_never = 0, n, done = 0;

	(void)state;
	while (done < n_keys) {
		struct runner r[2] = { 0 };

		n = n_keys - done < 4000 ? n_keys - done : 4000;
		r[0].n_keys = r[1].n_keys = n;
		progs_reset(untimed);
		slow_rule(1, PROGS_LINES);
		progs_publish(untimed);
		both_run(r, run_keys);
		n_twice += r[0].n_twice + r[1].n_twice;
		n_never += r[0].n_never + r[1].n_never;
		assert_int_equal(progs_shared(untimed).lines_full, 0);
		done += n;
	}
	print_message("%u keys: %u twice, %u never\n", n_keys, n_twice, n_never);
	assert_int_equal(n_twice, 0);
	assert_true(n_never <= n_keys / 1000);
}

static void *run_repeats(void *arg)
{
	struct runner *r = arg;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = r->pkt->data, .data_size_in = r->pkt->len, .repeat = (int)r->n_repeats);

	pin(r->cpu);
	pthread_barrier_wait(&barrier);
	if (bpf_prog_test_run_opts(progs_fd(untimed, r->hook), &opts))
		r->n_never = 1;
	return NULL;
}

static uint64_t bytes_admitted(void)
{
	return progs_verdicts(untimed, LG_HOOK_TC_INGRESS, LG_PASS_ADMITTED).bytes +
	       progs_verdicts(untimed, LG_HOOK_TC_EGRESS, LG_PASS_ADMITTED).bytes;
}

static void a_hot_key_admits_exactly_its_burst_on_two_cpus(void **state)
{
	enum { N = 200000 };
	struct lg_pkt_buf small, large;
	struct runner r[2] = { { .n_repeats = N }, { .n_repeats = N } };
	uint64_t burst_tok;

	(void)state;
	lg_pkt_udp4(&small, "10.0.0.1", "192.0.2.1", 53, 20);
	lg_pkt_udp4(&large, "10.0.0.1", "192.0.2.1", 53, 1000);
	for (int mixed = 0; mixed < 2; mixed++) {
		r[0].pkt = &small;
		r[1].pkt = mixed ? &large : &small;
		progs_reset(untimed);
		burst_tok = (uint64_t)N / 2 * (small.len + r[1].pkt->len) / 2;
		slow_rule(burst_tok, 1)->flags |= LG_RULE_BYTES;
		progs_publish(untimed);
		both_run(r, run_repeats);
		assert_int_equal(r[0].n_never + r[1].n_never, 0);
		assert_true(bytes_admitted() <= burst_tok);
		assert_in_range(burst_tok - bytes_admitted(), 0, r[1].pkt->len - 1); /* the other CPU may have been done before */
	}
}

/* A tight rule behind it loses takes to the other CPU: what the slot gave must come back. */
static void an_undone_take_leaves_no_trace_in_a_slot(void **state)
{
	enum { N = 50000, BURST = 1 << 20 };
	struct lg_pkt_buf a = from(0x0a000001);
	struct runner r[2] = { { .n_repeats = N, .pkt = &a }, { .n_repeats = N, .pkt = &a } };
	uint64_t admitted, word, n_left = 0;
	struct lg_rule *rule, *tight;
	struct lg_line line;

	(void)state;
	progs_reset(untimed);
	rule = slow_rule(BURST, 1);
	tight = progs_rule(untimed, 1);
	assert_int_equal(lg_rate_init(1000000, S, 1, now_ns(), &tight->rate), 0);
	progs_publish(untimed);
	both_run(r, run_repeats);
	admitted = progs_rule_count(untimed, 1, LG_PASS_ADMITTED).packets;
	assert_true(admitted > 0 && admitted < 2 * N);
	line = line_of(untimed, 0);
	word = (line.slot[0] - lg_rate_vt(&rule->rate, now_ns())) & LG_LINE_POSITION;
	n_left = (word + rule->rate.unit_per_tok / 2) / rule->rate.unit_per_tok;
	assert_int_equal(n_left, admitted);
	for (uint32_t i = 1; i < LG_LINE_SLOTS; i++)
		assert_int_equal(line.slot[i], 0);
}

/* ---- bursts by the kernel's clock ---- */

#define N_BURSTS 200u

/* Slow enough for the coarse clock; the last one is not. */
static const struct pace {
	uint64_t burst_tok;
	uint64_t rate_tok;
	uint64_t per_ns;
} paces[] = { { 100, 100, 4 * S }, { 100, 1000, S }, { 32, 2000, S }, { 5, 10, S }, { 64, 1, S }, { 1, 60, S }, { 50, 100000, S } };

#define N_COARSE (N_ELEMS(paces) - 1)

static const struct pace *pace_now;

/* Bursts that each came within one tick, by what was let through of them. `over`: more than the rate mints in a tick besides. */
static struct {
	uint32_t n_whole;
	uint32_t n_off;
	uint32_t n_over;
} bursts;

static uint64_t tick_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static uint64_t tick_ns(void)
{
	struct timespec t;

	clock_getres(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static void pace_begin(const struct pace *pace)
{
	struct lg_rule *rule;

	progs_reset(untimed);
	rule = progs_rule(untimed, pace->burst_tok);
	rule->rate_tok = pace->rate_tok;
	rule->per_ns = pace->per_ns;
	progs_in_lines(untimed, rule, 512, now_ns());
	assert_int_equal(rule->rate.coarse, pace < paces + N_COARSE);
	progs_publish(untimed);
	memset(&bursts, 0, sizeof(bursts));
	pace_now = pace;
}

static uint64_t n_admitted(void)
{
	return progs_verdicts(untimed, LG_HOOK_TC_INGRESS, LG_PASS_ADMITTED).packets +
	       progs_verdicts(untimed, LG_HOOK_TC_EGRESS, LG_PASS_ADMITTED).packets;
}

static int send_burst(enum lg_hook hook, uint32_t address)
{
	struct lg_pkt_buf pkt = from(address);
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = pkt.data, .data_size_in = pkt.len, .repeat = (int)pace_now->burst_tok + 3);

	return bpf_prog_test_run_opts(progs_fd(untimed, hook), &opts);
}

/*
 * Of a burst that began in the tick `began_ns`, before which `before` packets had been let through. The program may see the next tick
 * before the clock here does, and then mints what is due: more than the burst is what `over` judges.
 */
static void burst_judge(uint64_t began_ns, uint64_t before)
{
	uint64_t n = n_admitted() - before, took_ns = tick_now_ns() - began_ns;

	bursts.n_over += n > pace_now->burst_tok + (took_ns + tick_ns()) * pace_now->rate_tok / pace_now->per_ns + 1;
	bursts.n_whole += !took_ns && n >= pace_now->burst_tok;
	bursts.n_off += !took_ns && n < pace_now->burst_tok;
}

static void bursts_end(const char *what)
{
	print_message("%s, %llu packets: %u whole, %u not, %u over\n", what, (unsigned long long)pace_now->burst_tok, bursts.n_whole,
		      bursts.n_off, bursts.n_over);
	assert_int_equal(bursts.n_over, 0);
}

static void a_new_key_has_its_whole_burst_within_a_tick(void **state)
{
	uint64_t before, began_ns;

	(void)state;
	for (size_t i = 0; i < N_COARSE; i++) {
		pace_begin(&paces[i]);
		for (uint32_t key = 0; key < N_BURSTS; key++) {
			before = n_admitted();
			began_ns = tick_now_ns();
			assert_int_equal(send_burst(LG_HOOK_TC_INGRESS, 0x0c000000 + key), 0);
			burst_judge(began_ns, before);
		}
		bursts_end("one CPU");
		assert_true(bursts.n_whole >= N_BURSTS / 50); /* a tick came between the rest */
		assert_int_equal(bursts.n_off, 0);
	}
}

/* Both CPUs send more than the whole burst of each key at the same time. */
static void *run_bursts(void *arg)
{
	struct runner *r = arg;
	bool is_judge = r->hook == LG_HOOK_TC_EGRESS;
	uint64_t before, began_ns;

	pin(r->cpu);
	pthread_barrier_wait(&barrier);
	for (uint32_t i = 0; i < r->n_keys; i++) {
		before = is_judge ? n_admitted() : 0;
		began_ns = tick_now_ns();
		meet(r, 3 * i + 1);
		r->n_never |= send_burst(r->hook, 0x0d000000 + i) != 0;
		meet(r, 3 * i + 2);
		if (is_judge)
			burst_judge(began_ns, before);
		meet(r, 3 * i + 3);
	}
	return NULL;
}

/*
 * A CPU that looks at the clock in the very moment in which it moves lags for that tick. Where CPUs are emulated that moment is long, and
 * the two may never be done with a burst within a tick.
 */
static void a_new_key_has_its_whole_burst_on_two_cpus(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_COARSE; i++) {
		struct runner r[2] = { { .n_keys = N_BURSTS }, { .n_keys = N_BURSTS } };

		pace_begin(&paces[i]);
		both_run(r, run_bursts);
		assert_int_equal(r[0].n_never + r[1].n_never, 0);
		bursts_end("two CPUs");
		assert_true(bursts.n_off <= N_BURSTS / 20 + bursts.n_whole / 3);
	}
}

/* However the clocks of two CPUs run: burst + rate x time, and what the rate mints in a tick. */
static void over_time_no_more_is_let_through_than_the_rate_mints(void **state)
{
	struct lg_pkt_buf a = from(0x0a000001);

	(void)state;
	for (size_t i = 0; i < N_ELEMS(paces); i++) {
		struct runner r[2] = { { .n_repeats = 100000, .pkt = &a }, { .n_repeats = 100000, .pkt = &a } };
		uint64_t began_ns, most;

		pace_begin(&paces[i]);
		began_ns = now_ns();
		both_run(r, run_repeats);
		assert_int_equal(r[0].n_never + r[1].n_never, 0);
		most = pace_now->burst_tok + (now_ns() - began_ns + tick_ns()) * pace_now->rate_tok / pace_now->per_ns + 1;
		print_message("%llu of at most %llu\n", (unsigned long long)n_admitted(), (unsigned long long)most);
		assert_in_range(n_admitted(), pace_now->burst_tok, most);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_in_lines_has_its_burst_and_then_its_rate),
		cmocka_unit_test(a_key_is_noted_by_its_second_packet),
		cmocka_unit_test(rules_keep_to_their_own_lines),
		cmocka_unit_test(newcomers_of_a_full_line_share_overflow_buckets),
		cmocka_unit_test(a_full_line_denies_or_passes_newcomers_if_the_rule_says_so),
		cmocka_unit_test(several_rules_in_and_beside_lines_charge_all_or_none),
		cmocka_unit_test(bytes_and_costs_beyond_the_burst),
		cmocka_unit_test(a_drained_key_stays_drained_while_a_flood_passes),
		cmocka_unit_test(of_a_new_key_two_cpus_get_one_token),
		cmocka_unit_test(a_hot_key_admits_exactly_its_burst_on_two_cpus),
		cmocka_unit_test(an_undone_take_leaves_no_trace_in_a_slot),
		cmocka_unit_test(a_new_key_has_its_whole_burst_within_a_tick),
		cmocka_unit_test(a_new_key_has_its_whole_burst_on_two_cpus),
		cmocka_unit_test(over_time_no_more_is_let_through_than_the_rate_mints),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
