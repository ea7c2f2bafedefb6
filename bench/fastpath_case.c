// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fastpath_case.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench_rules.h"
#include "bucket.h"
#include "bench_run.h"
#include "rules/compile.h"
#include "rules/yaml.h"
#include "bench/fastpath.skel.h"

#define MILLION_KEYS 1048576 /* room of tables for a million keys: the hash of all is as full as its size allows */
#define FEW_KEYS 65536
#define MISS_KEYS 1048576
#define FILL_BATCH 4096

static int complain(const struct lg_bench_case *c, const char *what, int r)
{
	fprintf(stderr, "bench-fastpath: %s: %s: %s\n", c->name, what, strerror(r < 0 ? -r : r));
	return -1;
}

static bool decides(const struct lg_bench_case *c)
{
	return c->program == LG_BENCH_DECIDE || c->program == LG_BENCH_DECIDE6;
}

int lg_bench_fd(const struct lg_bench_case *c, const struct fastpath_bpf *skel)
{
	switch (c->program) {
	case LG_BENCH_DROP: return bpf_program__fd(skel->progs.bench_drop);
	case LG_BENCH_PARSE: return bpf_program__fd(skel->progs.bench_parse);
	case LG_BENCH_TEXTBOOK: return bpf_program__fd(skel->progs.bench_textbook);
	case LG_BENCH_TEXTBOOK_LRU: return bpf_program__fd(skel->progs.bench_textbook_lru);
	case LG_BENCH_DECIDE: return bpf_program__fd(skel->progs.bench_decide);
	case LG_BENCH_DECIDE6: return bpf_program__fd(skel->progs.bench_decide6);
	}
	return -1;
}

/* ---- rules ---- */

/* Room for 262,144 keys, as a rule has by default, or for two million. */
static uint32_t lines_of(const struct lg_bench_case *c)
{
	if (!decides(c) || c->keys != LG_BENCH_LINES)
		return 1;
	return (c->n_keys > FEW_KEYS ? 2 * MILLION_KEYS : 262144) / LG_LINE_SLOTS;
}

static char *rules_of(const struct lg_bench_case *c)
{
	bool is_ip6 = c->program == LG_BENCH_DECIDE6;
	char last[512];

	snprintf(last, sizeof(last), "%s    key: {source: %s}\n    match: {protocol: udp, destination: %s, destination_port: 53}", c->limit,
		 is_ip6 ? "128" : "32", is_ip6 ? "\"2001:db8:ffff::1/128\"" : "192.0.2.1/32");
	return lg_bench_rules(c->n_rules, is_ip6 ? 6 : 4, last);
}

static int put_rules(const struct lg_bench_case *c, struct fastpath_bpf *skel)
{
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .n_regions = 1, .hosts_in_region = 1, .n_lines = lines_of(c) };
	struct lg_control control = {
		.abi_version = LG_ABI_VERSION,
		.hash_seed = 0x9e3779b97f4a7c15,
		.line_seed = { 0x243f6a8885a308d3, 0x13198a2e03707344 },
		.reachable = 1,
	};
	_cleanup_free_ struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	_cleanup_free_ struct lg_classifier *classifier = malloc(sizeof(*classifier));
	_cleanup_free_ struct lg_ruleset *set = calloc(1, sizeof(*set));
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	_cleanup_free_ char *text = rules_of(c);
	struct lg_complaint complaint = { 0 };
	uint32_t zero = 0;
	int r;

	if (!names || !classifier || !set || !text)
		return complain(c, "rules", ENOMEM);
	if (lg_rules_parse(text, strlen(text), "rules", &rules, &complaint) < 0 ||
	    lg_rules_compile(rules, &env, set, classifier, names, &complaint) < 0) {
		fprintf(stderr, "bench-fastpath: %s: line %u: %s\n", c->name, complaint.line, complaint.text);
		return -1;
	}
	r = bpf_map__update_elem(skel->maps.classifiers, &zero, sizeof(zero), classifier, sizeof(*classifier), 0);
	if (!r)
		r = bpf_map__update_elem(skel->maps.rules, &zero, sizeof(zero), set, sizeof(*set), 0);
	if (!r)
		r = bpf_map__update_elem(skel->maps.control, &zero, sizeof(zero), &control, sizeof(control), 0);
	return r < 0 ? complain(c, "putting rules in force", r) : 0;
}

/* ---- keys ---- */

/* Leases without end for all keys, of the rule "hit". */
static int fill_leases(const struct lg_bench_case *c, struct fastpath_bpf *skel)
{
	struct lg_bucket forever = {
		.kind = LG_BUCKET_BLOCK,
		.granted_tok = 1ull << 40,
		.expires_ns = 1ull << 62,
		.lease_generation = 1,
		.lease_epoch = 1,
		.asked_ns = 1,
		.seen_ns = lg_clock_now_ns(),
	};
	_cleanup_free_ struct lg_bucket *buckets = calloc(FILL_BATCH, sizeof(*buckets));
	_cleanup_free_ struct lg_ruleset *set = calloc(1, sizeof(*set));
	_cleanup_free_ struct lg_short_key *keys = calloc(FILL_BATCH, sizeof(*keys));
	uint32_t zero = 0, source, n;
	int r;

	if (!buckets || !keys || !set)
		return complain(c, "leases", ENOMEM);
	r = bpf_map__lookup_elem(skel->maps.rules, &zero, sizeof(zero), set, sizeof(*set), 0);
	for (uint32_t i = 0; !r && i < set->n_rules; i++)
		if (set->rules[i].rule_id == c->n_rules)
			forever.numbers = lg_rule_numbers(&set->rules[i]);
	for (uint32_t at = 0; !r && at < c->n_keys; at += n) {
		for (n = 0; n < FILL_BATCH && at + n < c->n_keys; n++) {
			keys[n] = (struct lg_short_key){ .rule_id = c->n_rules, .form = LG_FORM_SOURCE };
			keys[n].a[10] = keys[n].a[11] = 0xff;
			source = htonl(LG_BENCH_FIRST_SOURCE + at + n);
			memcpy(&keys[n].a[12], &source, sizeof(source));
			buckets[n] = forever;
			buckets[n].rule_id = c->n_rules;
		}
		r = bpf_map_update_batch(bpf_map__fd(skel->maps.buckets), keys, buckets, &n, NULL);
	}
	return r ? complain(c, "leases", r) : 0;
}

/* Lets the keys come as they do, by packets: nine in a thousand are left out, and come during the run. */
static int fill_by_packets(const struct lg_bench_case *c, struct fastpath_bpf *skel)
{
	uint32_t n = c->n_keys == LG_BENCH_NEW_SOURCES ? MISS_KEYS + MISS_KEYS / 4 : c->n_keys * 5;
	double ns;

	return c->program == LG_BENCH_DROP || c->program == LG_BENCH_PARSE ? 0 : lg_bench_run(c, skel, n, 1, &ns);
}

static int size_maps(const struct lg_bench_case *c, struct fastpath_bpf *skel)
{
	uint32_t n = c->n_keys == LG_BENCH_NEW_SOURCES ? MISS_KEYS : c->n_keys > FEW_KEYS ? MILLION_KEYS
											  : FEW_KEYS;
	int r = 0;

	if (c->program == LG_BENCH_TEXTBOOK)
		r = bpf_map__set_max_entries(skel->maps.textbook, n);
	if (c->program == LG_BENCH_TEXTBOOK_LRU)
		r = bpf_map__set_max_entries(skel->maps.textbook_lru, n);
	if (!r)
		r = bpf_map__set_max_entries(skel->maps.buckets, decides(c) && c->keys != LG_BENCH_LINES ? n : 1);
	if (!r)
		r = bpf_map__set_max_entries(skel->maps.products, 1);
	if (!r)
		r = bpf_map__set_max_entries(skel->maps.lines, lines_of(c));
	if (!r)
		r = bpf_map__set_max_entries(skel->maps.line_keys, lines_of(c) * LG_LINE_SLOTS);
	return r;
}

int lg_bench_open(const struct lg_bench_case *c, struct fastpath_bpf **ret_skel)
{
	struct fastpath_bpf *skel = fastpath_bpf__open();
	int r;

	if (!skel)
		return complain(c, "the programs", errno);
	r = size_maps(c, skel);
	if (!r)
		r = fastpath_bpf__load(skel);
	if (r < 0) {
		fastpath_bpf__destroy(skel);
		return complain(c, "loading the programs (needs root)", r);
	}
	if (decides(c))
		r = put_rules(c, skel);
	if (!r)
		r = decides(c) && c->keys == LG_BENCH_LEASED ? fill_leases(c, skel) : fill_by_packets(c, skel);
	if (r) {
		fastpath_bpf__destroy(skel);
		return -1;
	}
	*ret_skel = skel;
	return 0;
}

void lg_bench_close(struct fastpath_bpf *skel)
{
	fastpath_bpf__destroy(skel);
}

/* ---- packets ---- */

static void make_packet(uint32_t n_keys, uint32_t seed, struct lg_bench_packet *p)
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
	p->gen = (struct lg_bench_gen){ .state = seed, .n_keys = n_keys };
}

static void make_packet6(uint32_t n_keys, uint32_t seed, struct lg_bench_packet6 *p)
{
	memset(p, 0, sizeof(*p));
	p->eth.h_proto = htons(ETH_P_IPV6);
	p->ip.version = 6;
	p->ip.hop_limit = 64;
	p->ip.nexthdr = IPPROTO_UDP;
	p->ip.payload_len = htons(sizeof(*p) - sizeof(p->eth) - sizeof(p->ip));
	inet_pton(AF_INET6, "2001:db8::", &p->ip.saddr);
	inet_pton(AF_INET6, "2001:db8:ffff::1", &p->ip.daddr);
	p->udp.dest = htons(53);
	p->udp.len = p->ip.payload_len;
	p->gen = (struct lg_bench_gen){ .state = seed, .n_keys = n_keys };
}

int lg_bench_run(const struct lg_bench_case *c, const struct fastpath_bpf *skel, uint32_t n, uint32_t seed, double *ret_ns)
{
	struct lg_bench_packet packet;
	struct lg_bench_packet6 packet6;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = &packet, .data_size_in = sizeof(packet), .repeat = (int)n);
	double start_ns;
	int r;

	make_packet(c->n_keys, seed, &packet);
	if (c->program == LG_BENCH_DECIDE6) {
		make_packet6(c->n_keys, seed, &packet6);
		opts.data_in = &packet6;
		opts.data_size_in = sizeof(packet6);
	}
	start_ns = lg_bench_thread_ns();
	r = bpf_prog_test_run_opts(lg_bench_fd(c, skel), &opts);
	*ret_ns = (lg_bench_thread_ns() - start_ns) / n;
	if (r < 0)
		return complain(c, "running the program", r);
	if ((int)opts.retval == c->retval)
		return 0;
	fprintf(stderr, "bench-fastpath: %s: the program returned %u\n", c->name, opts.retval);
	return -1;
}

uint64_t lg_bench_counted(const struct fastpath_bpf *skel, enum lg_reason reason)
{
	uint32_t index = LG_HOOK_XDP * LG_REASON_SLOTS + reason;
	int n_cpus = libbpf_num_possible_cpus();
	_cleanup_free_ struct lg_count *cpus = n_cpus > 0 ? calloc((size_t)n_cpus, sizeof(*cpus)) : NULL;
	uint64_t packets = 0;

	if (!cpus || bpf_map_lookup_elem(bpf_map__fd(skel->maps.verdicts), &index, cpus))
		return 0;
	for (int cpu = 0; cpu < n_cpus; cpu++)
		packets += cpus[cpu].packets;
	return packets;
}

bool lg_bench_is_honest(const struct lg_bench_case *c, const struct fastpath_bpf *skel)
{
	uint64_t all = 0;

	if (!decides(c))
		return true;
	for (unsigned int reason = 0; reason < LG_REASON_SLOTS; reason++)
		all += lg_bench_counted(skel, reason);
	return all && lg_bench_counted(skel, c->expect) >= all / 100 * 99;
}
