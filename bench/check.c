// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a check of a request costs, in CPU time of the thread that asks: the program in the kernel alone, one request a call and
 * LG_CHECKS_MAX of them; finding its rules and keys; and all of it through the C interface. Rounds of all cases are interleaved; printed
 * are medians.
 *
 *   build/bench-check [--json] [--quick] [--rounds N] [--only CASE,...]
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench_run.h"
#include "kern/check.h"
#include "leasegate.skel.h"
#include "rules/compile.h"
#include "rules/request.h"
#include "rules/yaml.h"

#define ROUNDS_MAX 101
#define KEYS 1000
#define RULES_TEXT_MAX 65536

struct bench {
	struct leasegate_bpf *skel;
	struct lg_check_door *door;
	struct lg_checker *checker;
	struct lg_request_table *table; /* beside the checker's */
	struct lg_rules *rules;
	char users[KEYS][16];
	struct lg_entry entries[KEYS][2];
	struct lg_descriptor descriptors[KEYS];
	uint32_t at;
	bool is_json;
	uint32_t rounds;
	const char *only;
};

/* What is asked: rules in force, requests in a call, whether more than the program is measured. */
enum part { PART_PROGRAM, PART_FIND, PART_ALL };

static const struct bench_case {
	const char *name;
	enum part part;
	uint32_t batch;
	uint32_t n_rules;	/* in force */
	uint32_t n_charges;	/* of a request */
	const char *table;
} cases[] = {
	{ "call_1", PART_PROGRAM, 1, 1, 1, "exact" },
	{ "batch_64", PART_PROGRAM, LG_CHECKS_MAX, 1, 1, "exact" },
	{ "batch_64_lines", PART_PROGRAM, LG_CHECKS_MAX, 1, 1, "lines" },
	{ "batch_64_two_rules", PART_PROGRAM, LG_CHECKS_MAX, 2, 2, "exact" },
	{ "find_1_rule", PART_FIND, LG_CHECKS_MAX, 1, 1, "exact" },
	{ "find_60_rules", PART_FIND, LG_CHECKS_MAX, 60, 1, "exact" },
	{ "find_250_rules", PART_FIND, LG_CHECKS_MAX, 250, 1, "exact" },
	{ "check_1", PART_ALL, 1, 1, 1, "exact" },
	{ "check_many_64", PART_ALL, LG_CHECKS_MAX, 1, 1, "exact" },
	{ "check_many_64_lines", PART_ALL, LG_CHECKS_MAX, 1, 1, "lines" },
	{ "check_many_64_250_rules", PART_ALL, LG_CHECKS_MAX, 250, 1, "exact" },
};

static struct lg_rule_name names[LG_RULES_MAX + 1];
static struct lg_classifier classifier;
static struct lg_ruleset set;

static int fail(const char *what, int err)
{
	fprintf(stderr, "bench-check: %s: %s\n", what, strerror(err < 0 ? -err : err));
	return 1;
}

static int run_door(void *arg, uint32_t n)
{
	return lg_check_door_run(arg, n);
}

/* ---- rules ---- */

/* The last one takes all users; those before it one each. A second charge is that of the whole domain. */
static void text_make(const struct bench_case *c, char *text, size_t room)
{
	size_t n = (size_t)snprintf(text, room, "rules:\n");

	for (uint32_t i = c->n_charges; i < c->n_rules; i++)
		n += (size_t)snprintf(text + n, room - n,
				      "  - {name: r%u, unit: requests, match: {domain: d, entries: [{key: user, value: one-%u}]}, limit: "
				      "1000000/1s}\n",
				      i, i);
	if (c->n_charges > 1)
		n += (size_t)snprintf(text + n, room - n, "  - {name: all, unit: requests, match: {domain: d}, limit: 1000000000/1s}\n");
	snprintf(text + n, room - n,
		 "  - {name: user, unit: requests, match: {domain: d, entries: [user]}, key: {descriptors: [user]}, limit: 1000000000/1s, "
		 "table: %s}\n",
		 c->table);
}

static int rules_put(struct bench *b, const struct bench_case *c)
{
	static char text[RULES_TEXT_MAX];
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .n_lines = LG_LINE_KEYS_DEFAULT / LG_LINE_SLOTS };
	struct lg_control control = { .abi_version = LG_ABI_VERSION, .hash_seed = 1, .line_seed = { 2, 3 }, .reachable = 1 };
	struct lg_complaint why = { 0 };
	struct lg_request_table *table = NULL;
	uint32_t zero = 0;
	int r;

	text_make(c, text, sizeof(text));
	lg_rules_free(b->rules);
	b->rules = NULL;
	free(b->table);
	b->table = NULL;
	r = lg_rules_parse(text, strlen(text), "bench", &b->rules, &why);
	if (r == 0)
		r = lg_rules_compile(b->rules, &env, &set, &classifier, names, &why);
	if (r < 0) {
		fprintf(stderr, "bench-check: %s\n", why.text);
		return r;
	}
	if (bpf_map__update_elem(b->skel->maps.rules, &zero, sizeof(zero), &set, sizeof(set), 0) < 0 ||
	    bpf_map__update_elem(b->skel->maps.control, &zero, sizeof(zero), &control, sizeof(control), 0) < 0)
		return -errno;
	r = lg_requests_build(b->rules, &set, names, control.hash_seed, &table);
	if (r == 0)
		r = lg_requests_build(b->rules, &set, names, control.hash_seed, &b->table);
	if (r == 0)
		lg_checker_rules(b->checker, table);
	return r;
}

/* ---- measuring ---- */

static const struct lg_descriptor *next(struct bench *b)
{
	b->at = (b->at + 7) % KEYS;
	return &b->descriptors[b->at];
}

static int find_one(struct bench *b, const struct lg_descriptor *d, struct lg_request_hit *hits)
{
	struct lg_slice key = { d->entries[0].key, d->entries[0].key_len }, value = { d->entries[0].value, d->entries[0].value_len };

	return lg_requests_find(b->table, (struct lg_slice){ "d", 1 }, &key, &value, 1, hits, LG_MATCHES_MAX);
}

/* Requests as the interface would make them, made beforehand. */
static void room_fill(struct bench *b, uint32_t batch)
{
	struct lg_check *room = lg_check_door_room(b->door);
	struct lg_request_hit hits[LG_MATCHES_MAX];
	int n;

	for (uint32_t i = 0; i < batch; i++) {
		n = find_one(b, next(b), hits);
		room[i].way = LG_CHECK_WAY_TAKE;
		room[i].n = (uint8_t)(n > 0 ? n : 0);
		for (int k = 0; k < n; k++)
			room[i].charge[k] = (struct lg_charge){ .key = hits[k].key, .units = 1,
								.rule_index = lg_requests_rule(b->table, hits[k].rule)->index };
	}
}

static int run_once(struct bench *b, const struct bench_case *c)
{
	struct lg_request requests[LG_CHECKS_MAX];
	static struct lg_answer answers[LG_CHECKS_MAX];
	struct lg_request_hit hits[LG_MATCHES_MAX];

	if (c->part == PART_PROGRAM)
		return lg_check_door_run(b->door, c->batch);
	for (uint32_t i = 0; i < c->batch; i++) {
		if (c->part == PART_FIND && find_one(b, next(b), hits) < 1)
			return -ENOENT;
		if (c->part == PART_ALL)
			requests[i] = (struct lg_request){ .domain = "d", .domain_len = 1, .descriptors = next(b), .n_descriptors = 1,
							   .cost = 1 };
	}
	return c->part == PART_ALL ? lg_check_many(b->checker, requests, answers, c->batch) : 0;
}

/* ns per request. */
static int round_run(struct bench *b, const struct bench_case *c, uint32_t turns, double *ret_ns)
{
	double begin;
	int r;

	r = rules_put(b, c);
	if (r < 0)
		return r;
	room_fill(b, c->batch);
	for (uint32_t i = 0; i < turns / 8 + 1 && r == 0; i++)
		r = run_once(b, c);
	begin = lg_bench_thread_ns();
	for (uint32_t i = 0; i < turns && r == 0; i++)
		r = run_once(b, c);
	*ret_ns = (lg_bench_thread_ns() - begin) / turns / c->batch;
	return r;
}

static void print(const struct bench *b, const struct bench_case *c, double *ns, uint32_t n)
{
	qsort(ns, n, sizeof(*ns), lg_bench_by_value);
	if (b->is_json)
		printf("{\"case\":\"%s\",\"ns_per_check\":%.1f,\"fastest_ns\":%.1f,\"batch\":%u,\"rules\":%u}\n", c->name, ns[n / 2], ns[0],
		       c->batch, c->n_rules);
	else
		printf("%-26s %8.1f ns per check, fastest %8.1f\n", c->name, ns[n / 2], ns[0]);
}

static int measure(struct bench *b)
{
	static double ns[N_ELEMS(cases)][ROUNDS_MAX];
	int r = 0;

	for (uint32_t round = 0; round < b->rounds && r == 0; round++)
		for (size_t i = 0; i < N_ELEMS(cases) && r == 0; i++)
			if (lg_bench_is_listed(b->only, cases[i].name))
				r = round_run(b, &cases[i], 20000 / (cases[i].batch > 1 ? 16 : 1), &ns[i][round]);
	for (size_t i = 0; i < N_ELEMS(cases) && r == 0; i++)
		if (lg_bench_is_listed(b->only, cases[i].name))
			print(b, &cases[i], ns[i], b->rounds);
	return r;
}

/* ---- start ---- */

static int open_all(struct bench *b)
{
	struct bpf_program *program;
	int r;

	b->skel = leasegate_bpf__open();
	if (!b->skel)
		return -errno;
	bpf_object__for_each_program(program, b->skel->obj)
		bpf_program__set_autoload(program, program == b->skel->progs.lg_check);
	r = leasegate_bpf__load(b->skel);
	if (r < 0)
		return r;
	r = lg_check_door_open(bpf_program__fd(b->skel->progs.lg_check), bpf_map__fd(b->skel->maps.checks), 0, &b->door);
	if (r == 0)
		r = lg_checker_new(&(struct lg_checker_door){ .room = lg_check_door_room(b->door), .run = run_door, .arg = b->door }, NULL,
				   &b->checker);
	for (uint32_t i = 0; i < KEYS; i++) {
		int len = snprintf(b->users[i], sizeof(b->users[i]), "user-%u", i);

		b->entries[i][0] = (struct lg_entry){ "user", b->users[i], 4, (uint32_t)len };
		b->descriptors[i] = (struct lg_descriptor){ .entries = b->entries[i], .n = 1 };
	}
	return r;
}

static int arguments(struct bench *b, int argc, char **argv)
{
	b->rounds = 11;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			b->is_json = true;
		else if (!strcmp(argv[i], "--quick"))
			b->rounds = 1;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			b->rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--only") && i + 1 < argc)
			b->only = argv[++i];
		else
			b->rounds = 0;
	}
	if (b->rounds >= 1 && b->rounds <= ROUNDS_MAX)
		return 0;
	fprintf(stderr, "usage: bench-check [--json] [--quick] [--rounds 1..%d] [--only CASE,...]\n", ROUNDS_MAX);
	return 2;
}

int main(int argc, char **argv)
{
	static struct bench b;
	int r = arguments(&b, argc, argv);

	if (r)
		return r;
	r = open_all(&b);
	if (r == 0)
		r = measure(&b);
	lg_checker_free(b.checker);
	lg_check_door_free(b.door);
	free(b.table);
	lg_rules_free(b.rules);
	leasegate_bpf__destroy(b.skel);
	return r ? fail("measuring", r) : 0;
}
