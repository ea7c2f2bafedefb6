/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the parts of bench-lease have in common: cases, one of which is run at a time, and numbers from chance. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/home.h"
#include "lease/lessee.h"
#include "lease/msg.h"
#include "lease/lessor.h"
#include "lease/terms.h"

#define BENCH_EPOCH 1
#define BENCH_START_NS 1000000000000ull /* virtual clocks begin here: 0 means "never" to the core */

/* How much of everything: whole, or a hundredth with the rounds cut short. */
struct bench_scale {
	bool quick;
};

struct bench_case {
	const char *name;
	const char *unit;	/* "per_s" or "bytes" */
	bool once;		/* the result does not vary: one round is enough */
	bool apart;		/* takes no turns with the others */
	const void *config;	/* the part's own */
	/* Builds everything up to the steady state. 0 or a negative errno. */
	int (*open)(const struct bench_case *c, const struct bench_scale *scale, void **ret_state);
	/* One measurement. */
	int (*run)(void *state, double *ret_value);
	/* More about the case, as JSON members that begin with a comma. After the last round. */
	void (*describe)(void *state, char *buf, size_t len);
	void (*close)(void *state);
};

extern const struct bench_case lease_core_cases[];
extern const size_t n_lease_core_cases;
extern const struct bench_case lease_bytes_cases[];
extern const size_t n_lease_bytes_cases;
extern const struct bench_case lease_grpc_cases[];
extern const size_t n_lease_grpc_cases;

/* CPU time of this thread: other tasks of the machine are left out. */
double bench_cpu_ns(void);

/* A rule of limit_tok a minute, for five regions with a thousand hosts, and what all its keys share. */
struct bench_rule {
	struct lg_terms terms;
	struct lg_upstream upstream;	/* up, and near */
	struct lg_holding holding;
	struct lg_lessor lessor;
};
void bench_rule_init(struct bench_rule *r, enum lg_algorithm algorithm, uint64_t limit_tok);

/* All numbers below n, each once, in an order that looks random; then again. */
struct bench_order {
	uint64_t n;
	uint64_t mask;
	uint64_t x;
};
void bench_order_init(struct bench_order *o, uint64_t n);
uint64_t bench_order_next(struct bench_order *o);

/* A holder as its lessor sees it: what it has been granted and has spent, in 32 bytes. */
struct bench_account {
	uint64_t seq;
	uint64_t granted_tok;
	uint64_t spent_tok;
	uint32_t generation;
	uint32_t spend_tok;	/* between two messages */
};

#define BENCH_SLOTS 2	/* of usage, in each message */

/* The next message of a holder that has spent what it had meant to, and wants twice that. Fills only what is in use. */
void bench_account_ask(struct bench_account *a, uint64_t period_ns, struct lg_ask *ask);
/* What it keeps of the answer. Returns the tokens that are new. */
uint64_t bench_account_granted(struct bench_account *a, uint32_t generation, uint64_t granted_tok);

/* A message to a lessor that is answered later; of its usage only the totals. */
struct bench_said {
	bool waits;
	uint64_t seq;
	uint64_t granted_tok;
	uint64_t held_tok;	/* spent, returned and wanted: the lessor has it */
};
void bench_said_keep(struct bench_said *s, const struct lg_ask *ask);
/* The answer of a lessor that has enough. */
void bench_said_answer(struct bench_said *s, const struct lg_terms *terms, struct lg_grant *ret_grant);

/* A key at a host, its bucket in place of the kernel's. */
struct bench_host {
	struct lg_lessee *lessee;
	uint64_t granted_tok;	/* within the generation, like the usage */
	struct lg_usage usage;
	struct bench_said said;
	uint64_t n_said;
};
int bench_host_open(struct bench_host *h, struct bench_rule *rule, uint64_t seed, uint64_t now_ns);
void bench_host_tick(struct bench_host *h, uint64_t now_ns);
/* One token of traffic; denied where there is none left. */
void bench_host_spend(struct bench_host *h);
/* If it has said something. */
void bench_host_answer(struct bench_host *h, const struct lg_terms *terms, uint64_t now_ns);
void bench_host_close(struct bench_host *h);
