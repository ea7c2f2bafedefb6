// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What one packet costs on the fast path, in ns, beside a bare drop, the parser alone, and what a textbook limiter
 * would cost.
 *
 *   build/bench-fastpath [--json] [--quick] [--rounds N] [--repeat N] [--hot-rounds N] [--only CASE,...]
 *
 * Method. BPF_PROG_TEST_RUN repeats each program on one frame; a generator in the payload chooses the source
 * address, so a case runs over as many keys as it says, uniformly at random. Time is that of the thread, not of the
 * wall and not the kernel's whole nanoseconds: other tasks of the machine are left out. Programs stay attached (generic
 * mode, to the `lo` of a network namespace of our own, which is down), for else each run with repeats would change the
 * XDP dispatcher twice and wait for the kernel to settle. Cases take turns in shuffled order, each warmed by a shorter
 * run before; the result is the median over the rounds. Cases with a million keys have several copies that take turns,
 * as the place of a large map in memory moves the figure. Ratios between cases of one run mean something, absolute
 * figures belong to the machine. What each case claims, all admitted or all but all denied, is checked by the programs'
 * own counters, and a wrong count is an error. Ours is the whole pipeline with the number of rules that the table below
 * says, 64 unless the case is about it, of which a packet matches one.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "base/mem.h"
#include "bench_run.h"
#include "fastpath_case.h"
#include "fastpath_hot.h"

#define LO_IFINDEX 1
#define ROUNDS_MAX 101
#define COPIES_MAX 3
#define MANY_KEYS 100000 /* from so many on a case has several copies */
#define NEW LG_BENCH_NEW_SOURCES
#define BIG "    limit: 1/1s\n    burst: 1000000000\n" /* admits all: a bucket only fills up */
#define HIT "    table: exact\n" BIG
#define DENY "    table: exact\n    limit: 1/1h\n"
#define SOME "    limit: 1000/1s\n    burst: 100\n"
#define MANY "    keys: 2097152\n"
#define IN_LINES "    table: lines\n"
#define LEASED "    scope: global\n    limit: 1000000000/1s\n    lease: {kind: block}\n"

static const struct lg_bench_case cases[] = {
	{ .name = "drop", .program = LG_BENCH_DROP, .n_keys = 1, .retval = XDP_DROP },
	{ .name = "parse", .program = LG_BENCH_PARSE, .n_keys = 1000, .retval = XDP_DROP },
	{ .name = "textbook_1k", .program = LG_BENCH_TEXTBOOK, .n_keys = 1000, .retval = XDP_PASS },
	{ .name = "textbook_1m", .program = LG_BENCH_TEXTBOOK, .n_keys = 1000000, .retval = XDP_PASS },
	{ .name = "lru_miss", .program = LG_BENCH_TEXTBOOK_LRU, .n_keys = NEW, .retval = XDP_PASS },
	{ "exact_hit_1", LG_BENCH_DECIDE, 1, 64, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "exact_hit_1k", LG_BENCH_DECIDE, 1000, 64, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "exact_hit_1m", LG_BENCH_DECIDE, 1000000, 64, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "lines_hit_1k", LG_BENCH_DECIDE, 1000, 64, LG_BENCH_LINES, IN_LINES BIG, LG_PASS_ADMITTED, XDP_PASS },
	{ "lines_hit_1m", LG_BENCH_DECIDE, 1000000, 64, LG_BENCH_LINES, IN_LINES MANY BIG, LG_PASS_ADMITTED, XDP_PASS },
	{ "lines_miss", LG_BENCH_DECIDE, NEW, 64, LG_BENCH_LINES, IN_LINES MANY SOME, LG_PASS_ADMITTED, XDP_PASS },
	{ "global_hit_1m", LG_BENCH_DECIDE, 1000000, 64, LG_BENCH_LEASED, LEASED, LG_PASS_ADMITTED, XDP_PASS },
	{ "deny_1k", LG_BENCH_DECIDE, 1000, 64, LG_BENCH_EXACT, DENY, LG_DROP_LIMIT, XDP_DROP },
	{ "rules_1", LG_BENCH_DECIDE, 1000, 1, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "rules_64", LG_BENCH_DECIDE, 1000, 64, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "rules_256", LG_BENCH_DECIDE, 1000, LG_RULES_MAX, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "rules_1_v6", LG_BENCH_DECIDE6, 1000, 1, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "rules_256_v6", LG_BENCH_DECIDE6, 1000, LG_RULES_MAX, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
	{ "exact_hit_1k_v6", LG_BENCH_DECIDE6, 1000, 64, LG_BENCH_EXACT, HIT, LG_PASS_ADMITTED, XDP_PASS },
};
#define N_CASES N_ELEMS(cases)

struct bench {
	struct fastpath_bpf *skel[N_CASES][COPIES_MAX];
	double ns[N_CASES][ROUNDS_MAX];
	uint32_t rounds;
	uint32_t repeat;
	uint32_t hot_rounds;
	uint32_t seed;
	bool is_json;
	const char *only;
};

static int fail(const char *what, int r)
{
	fprintf(stderr, "bench-fastpath: %s: %s\n", what, strerror(r < 0 ? -r : r));
	return -1;
}

static bool is_wanted(const struct bench *b, const char *name)
{
	return lg_bench_is_listed(b->only, name);
}

static uint32_t copies_of(const struct bench *b, size_t i)
{
	return cases[i].n_keys < MANY_KEYS || b->rounds < COPIES_MAX ? 1 : COPIES_MAX;
}

static int attach_and_run(struct bench *b, size_t i, uint32_t round)
{
	struct fastpath_bpf *skel = b->skel[i][round % copies_of(b, i)];
	double warm_ns;
	int r;

	r = bpf_xdp_attach(LO_IFINDEX, lg_bench_fd(&cases[i], skel), XDP_FLAGS_SKB_MODE, NULL);
	if (r < 0)
		return fail("holding a program", r);
	r = lg_bench_run(&cases[i], skel, b->repeat / 4 + 1, lg_bench_random(&b->seed), &warm_ns);
	if (!r)
		r = lg_bench_run(&cases[i], skel, b->repeat, lg_bench_random(&b->seed), &b->ns[i][round]);
	bpf_xdp_detach(LO_IFINDEX, XDP_FLAGS_SKB_MODE, NULL);
	return r;
}

static void print_case(struct bench *b, size_t i)
{
	double *ns = b->ns[i], median_ns = ns[b->rounds / 2];

	if (b->is_json)
		printf("{\"case\":\"%s\",\"ns\":%.1f,\"min_ns\":%.1f,\"max_ns\":%.1f,\"rounds\":%" PRIu32 "}\n", cases[i].name,
		       median_ns, ns[0], ns[b->rounds - 1], b->rounds);
	else
		printf("%-16s %7.1f ns   [%.1f - %.1f]\n", cases[i].name, median_ns, ns[0], ns[b->rounds - 1]);
}

static int run_rounds(struct bench *b)
{
	size_t order[N_CASES], i;

	for (i = 0; i < N_CASES; i++)
		order[i] = i;
	for (uint32_t round = 0; round < b->rounds; round++) {
		lg_bench_shuffle(&b->seed, order, N_CASES);
		for (i = 0; i < N_CASES; i++) {
			if (is_wanted(b, cases[order[i]].name) && attach_and_run(b, order[i], round))
				return -1;
		}
	}
	return 0;
}

static int open_cases(struct bench *b)
{
	for (size_t i = 0; i < N_CASES; i++) {
		for (uint32_t k = 0; is_wanted(b, cases[i].name) && k < copies_of(b, i); k++) {
			if (lg_bench_open(&cases[i], &b->skel[i][k]))
				return -1;
		}
	}
	return 0;
}

static int check_and_print(struct bench *b)
{
	for (size_t i = 0; i < N_CASES; i++) {
		for (uint32_t k = 0; is_wanted(b, cases[i].name) && k < copies_of(b, i); k++) {
			if (lg_bench_is_honest(&cases[i], b->skel[i][k]))
				continue;
			fprintf(stderr, "bench-fastpath: %s: packets did not go the way the case says\n", cases[i].name);
			return -1;
		}
	}
	for (size_t i = 0; i < N_CASES; i++) {
		qsort(b->ns[i], b->rounds, sizeof(b->ns[i][0]), lg_bench_by_value);
		if (is_wanted(b, cases[i].name))
			print_case(b, i);
	}
	return 0;
}

static int bench_run(struct bench *b)
{
	cpu_set_t all, one;
	int r;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_getaffinity(0, sizeof(all), &all) || sched_setaffinity(0, sizeof(one), &one) || unshare(CLONE_NEWNET))
		return fail("one CPU and a network namespace (needs root)", errno);
	r = open_cases(b);
	if (!r)
		r = run_rounds(b);
	if (!r)
		r = check_and_print(b);
	for (size_t i = 0; i < N_CASES; i++)
		for (uint32_t k = 0; k < COPIES_MAX; k++)
			lg_bench_close(b->skel[i][k]);
	if (r || !is_wanted(b, "hot2") || CPU_COUNT(&all) < 2)
		return r;
	return sched_setaffinity(0, sizeof(all), &all) ? fail("all CPUs", errno) : lg_bench_hot(b->hot_rounds, b->seed, b->is_json);
}

static int parse_args(struct bench *b, int argc, char **argv)
{
	uint32_t *number;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			b->is_json = true;
			continue;
		}
		/* Enough to see a slip: no case with a million keys, no second CPU. */
		if (!strcmp(argv[i], "--quick")) {
			b->only = "drop,parse,textbook_1k,exact_hit_1,exact_hit_1k,deny_1k,rules_1,rules_64,rules_256,rules_1_v6,"
				  "rules_256_v6,exact_hit_1k_v6";
			continue;
		}
		if (!strcmp(argv[i], "--only") && i + 1 < argc) {
			b->only = argv[++i];
			continue;
		}
		number = !strcmp(argv[i], "--rounds") ? &b->rounds : !strcmp(argv[i], "--repeat") ? &b->repeat
							     : !strcmp(argv[i], "--hot-rounds")   ? &b->hot_rounds
												  : NULL;
		if (!number || i + 1 == argc)
			return -EINVAL;
		*number = (uint32_t)strtoul(argv[++i], NULL, 10);
	}
	return b->rounds && b->rounds <= ROUNDS_MAX && b->repeat && b->repeat <= 100000000 && b->hot_rounds <= 1000 ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	_cleanup_free_ struct bench *b = calloc(1, sizeof(*b));

	if (!b)
		return 1;
	b->rounds = 15;
	b->repeat = 200000;
	b->hot_rounds = 20;
	b->seed = (uint32_t)time(NULL);
	if (parse_args(b, argc, argv) < 0) {
		fprintf(stderr,
			"usage: bench-fastpath [--json] [--quick] [--rounds 1..%d] [--repeat N] [--hot-rounds 0..1000] [--only CASE,...]\n",
			ROUNDS_MAX);
		return 2;
	}
	return bench_run(b) ? 1 : 0;
}
