// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rules are swapped while packets run on two CPUs. In each set the rule that the packets match stands elsewhere, and the rules
 * around it refuse everything: a packet that met the rules of one set and the classifier of another would be charged to one of them.
 */
#include "tests/bpf/kern_world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kern/internal.h"
#include "rules/rate.h"
#include "tests/lib/pkt.h"

#define N_RULES LG_RULES_DEFAULT
#define CHUNK 2000
#define HIT_ID 1 /* the rule that packets match */

static struct lg_ruleset set;
static struct lg_rule_name names[LG_RULES_MAX + 1];
static struct lg_classifier classifier;
static uint64_t n_tokens; /* of the rule that packets match */
static atomic_bool stop;

struct hammer {
	pthread_t thread;
	enum lg_hook hook;
	int cpu;
	atomic_ullong n;
	int failed;
};

static void *hammer_run(void *arg)
{
	struct hammer *h = arg;
	struct lg_pkt_buf pkt;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(h->cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	lg_pkt_udp4(&pkt, "10.0.0.1", "192.0.2.1", 53, 20);
	while (!atomic_load(&stop)) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = pkt.data, .data_size_in = pkt.len, .repeat = CHUNK);

		if (bpf_prog_test_run_opts(kern->prog_fd[h->hook], &opts))
			h->failed = 1;
		atomic_fetch_add(&h->n, CHUNK);
	}
	return NULL;
}

static void rule_put(uint32_t at, uint32_t id, uint64_t burst_tok, uint64_t anchor_ns)
{
	struct lg_rule *rule = &set.rules[at];

	*rule = (struct lg_rule){ .rule_id = id, .key_form = LG_FORM_RULE, .cost = 1, .rate_tok = burst_tok ? 1 : 0,
				  .per_ns = LG_PER_MAX_NS, .burst_tok = burst_tok, .cold_burst_tok = burst_tok };
	assert_int_equal(lg_rate_init(rule->rate_tok, rule->per_ns, burst_tok, anchor_ns, &rule->rate), 0);
	snprintf(names[id].name, sizeof(names[id].name), "rule-%u", id);
}

/* A set in which the rule that packets match is the one at `at`. */
static void swap(uint32_t at, uint64_t anchor_ns)
{
	static struct lg_match match[N_RULES];
	const struct lg_match *matches[N_RULES];
	struct lg_complaint c;

	set.version++;
	set.n_rules = N_RULES;
	for (uint32_t i = 0, id = HIT_ID; i < N_RULES; i++) {
		uint16_t port = (uint16_t)(i == at ? 53 : 1000 + i);

		if (i == at)
			rule_put(i, HIT_ID, n_tokens, anchor_ns);
		else
			rule_put(i, ++id, 0, anchor_ns);
		match[i] = (struct lg_match){ .destination_ports = { .n = 1, .v = { { port, port } } } };
		matches[i] = &match[i];
	}
	assert_int_equal(lg_vectors_build(matches, N_RULES, (const char(*)[16])set.interfaces, &classifier, &c), 0);
	assert_int_equal(lg_kern_rules_load(kern, &set, &classifier, names), 0);
}

static void packets_of_a_flood_are_counted_once_and_charged_exactly_while_rules_are_swapped(void **state)
{
	const char *swaps = getenv("SWAPS"), *flood = getenv("FLOOD");
	uint32_t n_swaps = swaps ? (uint32_t)atoi(swaps) : flood ? 20 : 150, seed = 1, i;
	struct hammer h[2] = { { .hook = LG_HOOK_TC_INGRESS, .cpu = 0 }, { .hook = LG_HOOK_TC_EGRESS, .cpu = libbpf_num_possible_cpus() > 1 } };
	static struct lg_count verdicts[_LG_HOOK_N][LG_REASON_SLOTS];
	static struct lg_rule_counts counts;
	uint64_t anchor_ns = lg_clock_now_ns(), n = 0, all = 0, admitted = 0;

	(void)state;
	n_tokens = flood ? strtoull(flood, NULL, 0) : 3000000;
	swap(0, anchor_ns);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&h[i].thread, NULL, hammer_run, &h[i]), 0);
	/* As often as wanted, and until the tokens are spent. */
	for (i = 0; i < n_swaps || atomic_load(&h[0].n) + atomic_load(&h[1].n) <= n_tokens; i++) {
		seed = seed * 1664525u + 1013904223u;
		swap(seed >> 8 & (N_RULES - 1), anchor_ns);
	}
	atomic_store(&stop, true);
	n_swaps = i;
	for (i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(h[i].thread, NULL), 0);
		assert_int_equal(h[i].failed, 0);
		n += atomic_load(&h[i].n);
	}
	assert_int_equal(lg_kern_verdicts_read(kern, verdicts), 0);
	for (int hook = 0; hook < _LG_HOOK_N; hook++)
		for (int reason = 0; reason < LG_REASON_SLOTS; reason++) {
			all += verdicts[hook][reason].packets;
			admitted += reason == LG_PASS_ADMITTED ? verdicts[hook][reason].packets : 0;
			if (reason != LG_PASS_ADMITTED && reason != LG_DROP_LIMIT && reason != LG_DROP_CONTENDED)
				assert_int_equal(verdicts[hook][reason].packets, 0);
		}
	print_message("%u swaps, %llu packets, %llu admitted\n", n_swaps, (unsigned long long)n, (unsigned long long)admitted);
	assert_int_equal(all, n);
	assert_int_equal(admitted, n_tokens);
	for (uint32_t id = 1; id <= N_RULES; id++) {
		assert_int_equal(lg_kern_rule_counts_read(kern, id, &counts), 0);
		for (int reason = 0; reason < LG_REASON_SLOTS; reason++)
			all -= id == HIT_ID ? counts.by_reason[reason].packets : 0;
		if (id != HIT_ID)
			assert_int_equal(counts.by_reason[LG_DROP_LIMIT].packets, 0);
	}
	assert_int_equal(all, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(packets_of_a_flood_are_counted_once_and_charged_exactly_while_rules_are_swapped),
	};

	return cmocka_run_group_tests_name("swap", tests, group_setup, group_teardown);
}
