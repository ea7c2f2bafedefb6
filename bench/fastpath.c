// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What one packet costs on the fast path, in ns, beside a bare drop, the parser alone, and what a textbook limiter
 * would cost.
 *
 *   build/bench-fastpath [--json] [--rounds N] [--repeat N]
 *
 * Method. BPF_PROG_TEST_RUN repeats each program on one 64-byte frame; a generator in the payload chooses the source
 * address, so a case runs over as many keys as it says, uniformly at random. Time is that of the thread, not of the
 * wall and not the kernel's whole nanoseconds: other tasks of the machine are left out. Programs stay attached (generic
 * mode, to the `lo` of a network namespace of our own, which is down), for else each run with repeats would change the
 * XDP dispatcher twice and wait for the kernel to settle. Cases take turns in shuffled order, each warmed by a shorter
 * run before; the result is the median over the rounds. Ratios between cases of one run mean something, absolute
 * figures belong to the machine. What each case claims, all admitted or all but all denied, is checked by the programs'
 * own counters, and a wrong count is an error.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include <leasegate/abi.h>
#include "base/mem.h"
#include "rules/rate.h"
#include "bench/fastpath.skel.h"
#include "fastpath.h"

#define LO_IFINDEX 1
#define ROUNDS_MAX 101
#define NS_PER_S 1000000000ull

enum program { PROGRAM_DROP,
	       PROGRAM_PARSE,
	       PROGRAM_TEXTBOOK,
	       PROGRAM_DECIDE };

struct bench_case {
	const char *name;
	enum program program;
	uint32_t n_keys;
	uint32_t n_rules;	/* that match every packet */
	uint64_t rate_tok;	/* of each, per second */
	uint64_t burst_tok;
	enum lg_reason expect;	/* of all packets but for the burst; programs that decide only */
	int retval;		/* of the last packet */
};

/* The base of all ratios. */
#define CASE_PARSE 1

static const struct bench_case cases[] = {
	{ .name = "drop", .program = PROGRAM_DROP, .n_keys = 1, .retval = XDP_DROP },
	[CASE_PARSE] = { .name = "parse", .program = PROGRAM_PARSE, .n_keys = 1000, .retval = XDP_DROP },
	{ .name = "textbook_1k", .program = PROGRAM_TEXTBOOK, .n_keys = 1000, .retval = XDP_PASS },
	{ "exact_hit_1", PROGRAM_DECIDE, 1, 1, NS_PER_S, NS_PER_S, LG_PASS_ADMITTED, XDP_PASS },
	{ "exact_hit_1k", PROGRAM_DECIDE, 1000, 1, NS_PER_S, NS_PER_S, LG_PASS_ADMITTED, XDP_PASS },
	{ "exact_hit_100k", PROGRAM_DECIDE, 100000, 1, NS_PER_S, NS_PER_S, LG_PASS_ADMITTED, XDP_PASS },
	{ "deny_1k", PROGRAM_DECIDE, 1000, 1, 1, 1, LG_DROP_LIMIT, XDP_DROP },
	{ "three_rules_1k", PROGRAM_DECIDE, 1000, 3, NS_PER_S, NS_PER_S, LG_PASS_ADMITTED, XDP_PASS },
	{ "no_rule", PROGRAM_DECIDE, 1000, 0, 0, 0, LG_PASS_NO_RULE, XDP_PASS },
};
#define N_CASES N_ELEMS(cases)

struct bench {
	struct fastpath_bpf *skel[N_CASES]; /* each case has maps of its own */
	double ns[N_CASES][ROUNDS_MAX];
	uint32_t rounds;
	uint32_t repeat;
	uint32_t seed;
	bool is_json;
};

static int fail(const char *what, int r)
{
	fprintf(stderr, "bench-fastpath: %s: %s\n", what, strerror(r < 0 ? -r : r));
	return 1;
}

static uint32_t next_random(struct bench *b)
{
	b->seed = b->seed * 1664525u + 1013904223u;
	return b->seed >> 8;
}

static int program_fd(const struct bench *b, size_t i)
{
	switch (cases[i].program) {
	case PROGRAM_DROP: return bpf_program__fd(b->skel[i]->progs.bench_drop);
	case PROGRAM_PARSE: return bpf_program__fd(b->skel[i]->progs.bench_parse);
	case PROGRAM_TEXTBOOK: return bpf_program__fd(b->skel[i]->progs.bench_textbook);
	case PROGRAM_DECIDE: return bpf_program__fd(b->skel[i]->progs.bench_decide);
	}
	return -1;
}

/* Host rules, token buckets, every IPv4 source a key. */
static int set_rules(struct fastpath_bpf *skel, const struct bench_case *c)
{
	_cleanup_free_ struct lg_ruleset *set = calloc(1, sizeof(*set));
	struct lg_control ctl = { .abi_version = LG_ABI_VERSION };
	struct lg_rule *rule;
	uint32_t zero = 0;
	int r;

	if (!set)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->n_rules; i++) {
		rule = &set->rules[set->n_rules++];
		rule->rule_id = set->n_rules;
		rule->flags = LG_RULE_IPV4;
		rule->key_form = LG_FORM_SOURCE;
		memset(rule->key_mask4, 0xff, sizeof(rule->key_mask4));
		rule->cold_burst_tok = c->burst_tok;
		rule->rate_tok = c->rate_tok;
		rule->per_ns = NS_PER_S;
		rule->burst_tok = c->burst_tok;
		r = lg_rate_init(c->rate_tok, NS_PER_S, c->burst_tok, 0, &rule->rate);
		if (r < 0)
			return r;
	}
	r = bpf_map__update_elem(skel->maps.rules, &zero, sizeof(zero), set, sizeof(*set), 0);
	if (r < 0)
		return r;
	return bpf_map__update_elem(skel->maps.control, &zero, sizeof(zero), &ctl, sizeof(ctl), 0);
}

static int open_case(struct bench *b, size_t i)
{
	int r;

	b->skel[i] = fastpath_bpf__open();
	if (!b->skel[i])
		return -errno;
	/* Twice the keys of the largest case, as a table in use would have room. */
	r = bpf_map__set_max_entries(b->skel[i]->maps.buckets, cases[i].n_keys > 1000 ? 262144 : 65536);
	if (r < 0)
		return r;
	r = fastpath_bpf__load(b->skel[i]);
	if (r < 0)
		return r;
	return set_rules(b->skel[i], &cases[i]);
}

static void make_packet(struct bench *b, uint32_t n_keys, struct lg_bench_packet *p)
{
	memset(p, 0, sizeof(*p));
	p->eth.h_proto = htons(ETH_P_IP);
	p->ip.version = 4;
	p->ip.ihl = 5;
	p->ip.ttl = 64;
	p->ip.protocol = IPPROTO_UDP;
	p->ip.tot_len = htons(sizeof(*p) - sizeof(p->eth));
	p->ip.daddr = htonl(0xc0000201);
	p->udp.dest = htons(53);
	p->udp.len = htons(sizeof(*p) - sizeof(p->eth) - sizeof(p->ip));
	p->state = next_random(b);
	p->n_keys = n_keys;
}

static double thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * NS_PER_S + (double)t.tv_nsec;
}

static int run_case(struct bench *b, size_t i, uint32_t repeat, double *ret_ns)
{
	struct lg_bench_packet packet;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &packet, .data_size_in = sizeof(packet), .repeat = (int)repeat);
	double start_ns;
	int r;

	make_packet(b, cases[i].n_keys, &packet);
	start_ns = thread_ns();
	r = bpf_prog_test_run_opts(program_fd(b, i), &opts);
	*ret_ns = (thread_ns() - start_ns) / repeat;
	return r || (int)opts.retval == cases[i].retval ? r : -EPROTO;
}

static int attach_and_run(struct bench *b, size_t i, uint32_t repeat, double *ret_ns)
{
	double warm_ns;
	int r;

	r = bpf_xdp_attach(LO_IFINDEX, program_fd(b, i), XDP_FLAGS_SKB_MODE, NULL);
	if (r < 0)
		return r;
	r = run_case(b, i, repeat / 4 + 1, &warm_ns);
	if (!r)
		r = run_case(b, i, repeat, ret_ns);
	bpf_xdp_detach(LO_IFINDEX, XDP_FLAGS_SKB_MODE, NULL);
	return r;
}

static uint64_t counted(const struct bench *b, size_t i, enum lg_reason reason, struct lg_count *cpus, int n_cpus)
{
	uint32_t index = LG_HOOK_XDP * LG_REASON_SLOTS + reason;
	uint64_t packets = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(b->skel[i]->maps.verdicts), &index, cpus))
		return 0;
	for (int cpu = 0; cpu < n_cpus; cpu++)
		packets += cpus[cpu].packets;
	return packets;
}

/* Whether the case did what its name says: 99 of 100 packets went the expected way, the rest being bursts of new keys. */
static bool is_honest(const struct bench *b, size_t i)
{
	int n_cpus = libbpf_num_possible_cpus();
	_cleanup_free_ struct lg_count *cpus = n_cpus > 0 ? calloc((size_t)n_cpus, sizeof(*cpus)) : NULL;
	uint64_t all = 0;

	if (!cpus || cases[i].program != PROGRAM_DECIDE)
		return cpus != NULL;
	for (uint32_t reason = 0; reason < LG_REASON_SLOTS; reason++)
		all += counted(b, i, reason, cpus, n_cpus);
	return all && counted(b, i, cases[i].expect, cpus, n_cpus) >= all / 100 * 99;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print_case(struct bench *b, size_t i, double parse_ns)
{
	double *ns = b->ns[i], median_ns = ns[b->rounds / 2];

	if (b->is_json)
		printf("{\"case\":\"%s\",\"ns\":%.1f,\"min_ns\":%.1f,\"max_ns\":%.1f,\"rounds\":%" PRIu32 "}\n", cases[i].name,
		       median_ns, ns[0], ns[b->rounds - 1], b->rounds);
	else
		printf("%-16s %7.1f ns   [%.1f - %.1f]   %.2f x parse\n", cases[i].name, median_ns, ns[0], ns[b->rounds - 1],
		       median_ns / parse_ns);
}

static int run_rounds(struct bench *b)
{
	size_t order[N_CASES], i, j, swap;
	uint32_t round;
	int r;

	for (i = 0; i < N_CASES; i++)
		order[i] = i;
	for (round = 0; round < b->rounds; round++) {
		for (i = N_CASES - 1; i > 0; i--) {
			j = next_random(b) % (i + 1);
			swap = order[i];
			order[i] = order[j];
			order[j] = swap;
		}
		for (i = 0; i < N_CASES; i++) {
			r = attach_and_run(b, order[i], b->repeat, &b->ns[order[i]][round]);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int parse_args(struct bench *b, int argc, char **argv)
{
	uint32_t *number;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			b->is_json = true;
			continue;
		}
		number = !strcmp(argv[i], "--rounds") ? &b->rounds : !strcmp(argv[i], "--repeat") ? &b->repeat
												  : NULL;
		if (!number || i + 1 == argc)
			return -EINVAL;
		*number = (uint32_t)strtoul(argv[++i], NULL, 10);
	}
	return b->rounds && b->rounds <= ROUNDS_MAX && b->repeat && b->repeat <= 100000000 ? 0 : -EINVAL;
}

static int bench_run(struct bench *b)
{
	cpu_set_t one;
	int r;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) || unshare(CLONE_NEWNET))
		return fail("one CPU and a network namespace (needs root)", errno);
	for (size_t i = 0; i < N_CASES; i++) {
		r = open_case(b, i);
		if (r < 0)
			return fail("loading the programs (needs root)", r);
	}
	r = run_rounds(b);
	if (r < 0)
		return fail("running a program", r);
	for (size_t i = 0; i < N_CASES; i++) {
		qsort(b->ns[i], b->rounds, sizeof(b->ns[i][0]), by_value);
		if (!is_honest(b, i)) {
			fprintf(stderr, "bench-fastpath: %s: packets did not go the way the case says\n", cases[i].name);
			return 1;
		}
	}
	for (size_t i = 0; i < N_CASES; i++)
		print_case(b, i, b->ns[CASE_PARSE][b->rounds / 2]);
	return 0;
}

int main(int argc, char **argv)
{
	_cleanup_free_ struct bench *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return fail("starting", ENOMEM);
	b->rounds = 15;
	b->repeat = 200000;
	b->seed = (uint32_t)time(NULL);
	r = parse_args(b, argc, argv);
	if (r < 0) {
		fprintf(stderr, "usage: bench-fastpath [--json] [--rounds 1..%d] [--repeat N]\n", ROUNDS_MAX);
		return 2;
	}
	r = bench_run(b);
	for (size_t i = 0; i < N_CASES; i++)
		fastpath_bpf__destroy(b->skel[i]);
	return r;
}
