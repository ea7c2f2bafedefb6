/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A case of the fast-path bench: one program on maps of its own, rules in force and keys in place. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <leasegate/abi.h>

#include "fastpath.h"

struct fastpath_bpf;

enum lg_bench_program {
	LG_BENCH_DROP,
	LG_BENCH_PARSE,
	LG_BENCH_TEXTBOOK,
	LG_BENCH_TEXTBOOK_LRU,
	LG_BENCH_DECIDE,
	LG_BENCH_DECIDE6,
};

enum lg_bench_keys {
	LG_BENCH_EXACT,  /* in the table of exact keys */
	LG_BENCH_LINES,  /* in the table of lines */
	LG_BENCH_LEASED, /* in the table of exact keys, leased */
};

struct lg_bench_case {
	const char *name;
	enum lg_bench_program program;
	uint32_t n_keys;
	/* of programs that decide */
	uint32_t n_rules; /* of which each packet matches one */
	enum lg_bench_keys keys;
	const char *limit;     /* lines of YAML */
	enum lg_reason expect; /* of all packets, but for bursts of new keys */
	int retval;            /* of the last packet */
};

/**
 * lg_bench_open() - load a case's programs, put its rules in force and fill its tables
 *
 * Return: 0 with *ret_skel set (lg_bench_close), or -1 with a line on stderr.
 */
int lg_bench_open(const struct lg_bench_case *c, struct fastpath_bpf **ret_skel);
void lg_bench_close(struct fastpath_bpf *skel);
int lg_bench_fd(const struct lg_bench_case *c, const struct fastpath_bpf *skel);

/* Runs n packets whose sources a generator seeded with `seed` chooses; *ret_ns: CPU time of this thread for each. 0 or -1. */
int lg_bench_run(const struct lg_bench_case *c, const struct fastpath_bpf *skel, uint32_t n, uint32_t seed, double *ret_ns);

/* Whether 99 of 100 packets went the way that the case says. */
bool lg_bench_is_honest(const struct lg_bench_case *c, const struct fastpath_bpf *skel);
/* Packets counted under a reason, all CPUs. */
uint64_t lg_bench_counted(const struct fastpath_bpf *skel, enum lg_reason reason);
