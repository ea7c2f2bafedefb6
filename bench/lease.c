// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What leases cost: renewals per second at each tier, and bytes per key and holder.
 *
 * Method. Time is virtual and goes on as the messages come, so that levels, ages and leases are as in steady service: nobody is short,
 * nothing lapses, buckets are partly used. Cases take turns; the result is the median of the rounds. Only calls of the core are timed, in
 * blocks, by the CPU time of the thread; what its effects want sent is kept and worked off between the blocks. Messages go to keys in an
 * order that looks random, each holder once before the first comes again. Bytes are what the allocators say is in use after less before,
 * their own overhead included.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "bench/bench_run.h"
#include "bench/lease_bench.h"

#define ROUNDS_MAX 101
#define CASES_MAX 32

struct entry {
	const struct bench_case *c;
	void *state;
	uint32_t n;
	double values[ROUNDS_MAX];
};

struct bench {
	struct bench_scale scale;
	struct entry entries[CASES_MAX];
	size_t n_entries;
	const char *only;	/* cases whose name has this in it; NULL all */
	uint32_t rounds;
	bool is_json;
};

static const char usage[] =
	"usage: bench-lease [--json] [--quick] [--rounds 1..101] [--case TEXT]\n"
	"\n"
	"What leases cost, one line per case: calls per second of one core, or bytes.\n"
	"\n"
	"  --json       JSON lines: {\"case\":..,\"per_s\":..} or {\"case\":..,\"bytes\":..}, then the spread and what the case was made of\n"
	"  --quick      a hundredth of the keys and three short rounds, to see that everything works\n"
	"  --rounds N   measurements per case, of which the median is printed (9)\n"
	"  --case TEXT  only cases with TEXT in their name\n"
	"\n"
	"  core_renewals             a home books a report and grants: 1 M keys in random order, five holders each\n"
	"  core_renewals_1k_holders  the same on one key with a thousand holders\n"
	"  core_home_ticks           a home's tick of a key after a message\n"
	"  core_region_renewals      a region books a host's report and grants; its home answers between the blocks\n"
	"  core_lessee_ticks         a host reads a bucket that has traffic, and says what there is to say\n"
	"  grpc_renewals             from lease client to lease server over loopback TCP and back, batches of 512 keys, core included\n"
	"  bytes_lessor_1            a token bucket at its home, with one holder\n"
	"  bytes_per_holder          each further holder of it\n"
	"  bytes_lessee              a key at a host at rest: it holds a lease, and had no traffic for a while\n"
	"  bytes_lessee_active       the same while there is traffic\n"
	"  bytes_window_lessor       a sliding window at its home, one holder, every slot in use\n"
	"\n"
	"grpc_renewals makes a network namespace of its own, which needs root.\n";

static int fail(const char *what, const char *which, int r)
{
	fprintf(stderr, "bench-lease: %s: %s: %s\n", which, what, strerror(-r));
	return 1;
}

double bench_cpu_ns(void)
{
	return lg_bench_thread_ns();
}

void bench_order_init(struct bench_order *o, uint64_t n)
{
	*o = (struct bench_order){ .n = n, .mask = 1 };
	while (o->mask < n - 1)
		o->mask = 2 * o->mask + 1;
}

/* A generator of full period below the next power of two; what is too large is passed over. */
uint64_t bench_order_next(struct bench_order *o)
{
	uint64_t y;

	do {
		o->x = (o->x * 6364136223846793005ull + 1442695040888963407ull) & o->mask;
		y = o->x;
		/* Its low bits repeat soon: mixed, still each number once. */
		y ^= y >> 7;
		y = (y * 0x9e3779b97f4a7c15ull) & o->mask;
		y ^= y >> 9;
	} while (y >= o->n);
	return y;
}

void bench_account_ask(struct bench_account *a, uint64_t period_ns, struct lg_ask *ask)
{
	uint64_t left_tok = a->granted_tok - a->spent_tok, spend_tok = a->spend_tok < left_tok ? a->spend_tok : left_tok;

	memset(ask, 0, offsetof(struct lg_ask, slots));
	a->spent_tok += spend_tok;
	ask->seq = ++a->seq;
	ask->life = 1;
	ask->epoch = BENCH_EPOCH;
	ask->generation = a->generation;
	ask->request = true;
	ask->granted_tok = a->granted_tok;
	ask->spent_tok = a->spent_tok;
	ask->want_tok = 2ull * a->spend_tok;
	ask->demand_mtps = a->spend_tok * 1000000000000ull / period_ns;
	ask->peak_tok = 1;
	ask->n_history = 0;
	if (!spend_tok)
		return;
	ask->n_slots = BENCH_SLOTS;
	ask->slots[0] = (struct lg_slot){ 2 * a->seq, period_ns / 2000000, spend_tok / 2 };
	ask->slots[1] = (struct lg_slot){ 2 * a->seq + 1, period_ns / 10000000, spend_tok - spend_tok / 2 };
}

uint64_t bench_account_granted(struct bench_account *a, uint32_t generation, uint64_t granted_tok)
{
	uint64_t new_tok;

	if (generation != a->generation) {
		a->generation = generation;
		a->granted_tok = a->spent_tok = 0;
	}
	new_tok = granted_tok - a->granted_tok;
	a->granted_tok = granted_tok;
	return new_tok;
}

/* ---- cases ---- */

static void add_cases(struct bench *b, const struct bench_case *cases, size_t n)
{
	for (size_t i = 0; i < n && b->n_entries < CASES_MAX; i++)
		if (!b->only || strstr(cases[i].name, b->only))
			b->entries[b->n_entries++].c = &cases[i];
}

static void print_entry(const struct bench *b, struct entry *e)
{
	char more[512] = "";
	double median;

	qsort(e->values, e->n, sizeof(e->values[0]), lg_bench_by_value);
	median = e->values[e->n / 2];
	if (e->c->describe)
		e->c->describe(e->state, more, sizeof(more));
	if (b->is_json)
		printf("{\"case\":\"%s\",\"%s\":%.*f,\"min\":%.*f,\"max\":%.*f,\"rounds\":%" PRIu32 "%s}\n", e->c->name, e->c->unit,
		       e->c->once, median, e->c->once, e->values[0], e->c->once, e->values[e->n - 1], e->n, more);
	else
		printf("%-26s %12.*f %-6s [%.0f - %.0f]%s\n", e->c->name, e->c->once, median, e->c->once ? "bytes" : "/s", e->values[0],
		       e->values[e->n - 1], more);
	fflush(stdout);
}

static int measure(struct entry *e)
{
	int r = e->c->run(e->state, &e->values[e->n]);

	if (r == 0)
		e->n++;
	return r;
}

static bool takes_turns(const struct entry *e)
{
	return !e->c->once && !e->c->apart;
}

static int run_alone(struct entry *e, const struct bench *b)
{
	int r = e->c->open(e->c, &b->scale, &e->state);

	for (uint32_t round = 0; r == 0 && round < (e->c->once ? 1 : b->rounds); round++)
		r = measure(e);
	return r < 0 ? fail("measuring", e->c->name, r) : 0;
}

static int run_in_turns(struct bench *b)
{
	for (size_t i = 0; i < b->n_entries; i++) {
		struct entry *e = &b->entries[i];
		int r = takes_turns(e) ? e->c->open(e->c, &b->scale, &e->state) : 0;

		if (r < 0)
			return fail("opening", e->c->name, r);
	}
	for (uint32_t round = 0; round < b->rounds; round++)
		for (size_t i = 0; i < b->n_entries; i++) {
			int r = takes_turns(&b->entries[i]) ? measure(&b->entries[i]) : 0;

			if (r < 0)
				return fail("measuring", b->entries[i].c->name, r);
		}
	return 0;
}

static int bench_run(struct bench *b)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->n_entries; i++) {
		if (takes_turns(&b->entries[i]))
			continue;
		r = run_alone(&b->entries[i], b);
		if (r == 0)
			print_entry(b, &b->entries[i]);
	}
	if (r == 0)
		r = run_in_turns(b);
	for (size_t i = 0; r == 0 && i < b->n_entries; i++)
		if (takes_turns(&b->entries[i]))
			print_entry(b, &b->entries[i]);
	return r;
}

/* 0 go on, 1 help was wanted, or -EINVAL. */
static int parse_args(struct bench *b, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help"))
			return 1;
		if (!strcmp(argv[i], "--json"))
			b->is_json = true;
		else if (!strcmp(argv[i], "--quick"))
			b->scale.quick = true;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			b->rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--case") && i + 1 < argc)
			b->only = argv[++i];
		else
			return -EINVAL;
	}
	if (!b->rounds)
		b->rounds = b->scale.quick ? 3 : 9;
	return b->rounds <= ROUNDS_MAX ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	_cleanup_free_ struct bench *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return fail("starting", "memory", -ENOMEM);
	r = parse_args(b, argc, argv);
	if (r) {
		fputs(usage, r < 0 ? stderr : stdout);
		return r < 0 ? 2 : 0;
	}
	/* First those that fork, while there is little to copy. */
	add_cases(b, lease_bytes_cases, n_lease_bytes_cases);
	add_cases(b, lease_grpc_cases, n_lease_grpc_cases);
	add_cases(b, lease_core_cases, n_lease_core_cases);
	if (!b->n_entries) {
		fprintf(stderr, "bench-lease: no case has \"%s\" in its name\n", b->only);
		return 2;
	}
	r = bench_run(b);
	for (size_t i = 0; i < b->n_entries; i++)
		if (b->entries[i].state)
			b->entries[i].c->close(b->entries[i].state);
	return r;
}
