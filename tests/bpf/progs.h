/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The programs, loaded from the skeleton with maps of their own (nothing is pinned or attached), rules put together by
 * hand, frames run by BPF_PROG_TEST_RUN, and time from map test_clock.
 */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <leasegate/abi.h>
#include "base/mem.h"
#include "leasegate.skel.h"
#include "rules/rate.h"
#include "rules/vectors.h"
#include "tests/lib/pkt.h"

#define MS 1000000ull
#define S 1000000000ull
#define START_NS (1000 * S)

struct progs {
	struct leasegate_bpf *skel;
	struct lg_ruleset set;		/* as lg_rule_* below build it; progs_publish() puts it in force */
	struct lg_match matches[LG_RULES_MAX]; /* what its rules match, by place in the set: nothing said is all IP packets */
	struct lg_prefix prefixes[LG_RULES_MAX][2];
	struct lg_classifier classifier;
	struct lg_control control;
	uint64_t now_ns;
	uint32_t n_lines;		/* given to rules */
	int n_cpus;
};

static const char *const hook_names[] = { "xdp", "tc ingress", "tc egress" };

static inline void progs_now(struct progs *p, uint64_t now_ns)
{
	uint32_t zero = 0;

	p->now_ns = now_ns;
	assert_int_equal(bpf_map__update_elem(p->skel->maps.test_clock, &zero, sizeof(zero), &now_ns, sizeof(now_ns), 0), 0);
}

static inline void progs_control(struct progs *p)
{
	uint32_t zero = 0;

	assert_int_equal(
		bpf_map__update_elem(p->skel->maps.control, &zero, sizeof(zero), &p->control, sizeof(p->control), 0), 0);
}

/* Writes the set that is not in force and swaps. */
static inline void progs_publish(struct progs *p)
{
	uint32_t other = !p->control.active_set, n = p->set.n_rules + p->set.n_pass;
	const struct lg_match *matches[LG_RULES_MAX];
	struct lg_complaint c;

	for (uint32_t i = 0; i < n; i++)
		matches[i] = &p->matches[i];
	assert_int_equal(lg_vectors_build(matches, n, (const char(*)[16])p->set.interfaces, &p->classifier, &c), 0);
	p->set.version++;
	assert_int_equal(bpf_map__update_elem(p->skel->maps.classifiers, &other, sizeof(other), &p->classifier, sizeof(p->classifier), 0),
			 0);
	assert_int_equal(bpf_map__update_elem(p->skel->maps.rules, &other, sizeof(other), &p->set, sizeof(p->set), 0), 0);
	p->control.active_set = other;
	progs_control(p);
}

#define PROGS_OVERFLOW_RULES 8 /* rules that have overflow buckets here */
#define PROGS_LINES 8192
#define PROGS_CONNS 64

static inline struct progs *progs_open(uint32_t max_keys, bool has_test_clock)
{
	struct progs *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->n_cpus = libbpf_num_possible_cpus();
	assert_in_range(p->n_cpus, 1, 4096);
	p->skel = leasegate_bpf__open();
	assert_non_null(p->skel);
	p->skel->rodata->lg_test_clock = has_test_clock;
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.buckets, max_keys), 0);
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.products, max_keys), 0);
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.overflow, PROGS_OVERFLOW_RULES * LG_OVERFLOW_BUCKETS), 0);
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.conns, PROGS_CONNS), 0);
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.initiated, PROGS_CONNS), 0);
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.lines, PROGS_LINES), 0);
	assert_int_equal(bpf_map__set_max_entries(p->skel->maps.line_keys, PROGS_LINES * LG_LINE_SLOTS), 0);
	return p;
}

/* Of the object only these programs, which end with NULL: the verifier takes its time for each. */
static inline struct progs *progs_load_some(uint32_t max_keys, bool has_test_clock, const char *const *names)
{
	struct progs *p = progs_open(max_keys, has_test_clock);
	struct bpf_program *program;
	bool is_wanted;

	bpf_object__for_each_program(program, p->skel->obj) {
		is_wanted = false;
		for (size_t i = 0; names[i]; i++)
			is_wanted = is_wanted || strcmp(names[i], bpf_program__name(program)) == 0;
		bpf_program__set_autoload(program, is_wanted);
	}
	assert_int_equal(leasegate_bpf__load(p->skel), 0);
	return p;
}

static inline struct progs *progs_load(uint32_t max_keys, bool has_test_clock)
{
	struct progs *p = progs_open(max_keys, has_test_clock);

	/* The same as lg_xdp but for replies, and loading it takes as long. */
	assert_int_equal(bpf_program__set_autoload(p->skel->progs.lg_xdp_shared, false), 0);
	assert_int_equal(leasegate_bpf__load(p->skel), 0);
	return p;
}

static inline void progs_free(struct progs *p)
{
	leasegate_bpf__destroy(p->skel);
	free(p);
}

/* Zeroes n values of a map by index. */
static inline void progs_zero(int fd, uint32_t n, size_t value_bytes)
{
	_cleanup_free_ void *zeros = calloc(1, value_bytes);

	assert_non_null(zeros);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(bpf_map_update_elem(fd, &i, zeros, 0), 0);
}

static inline int progs_ignore(void *ctx, void *data, size_t len)
{
	(void)ctx;
	(void)data;
	(void)len;
	return 0;
}

/* Empties a hash or a trie, whose key has at most 40 bytes. */
static inline void progs_clear(int fd)
{
	char key[sizeof(struct lg_key)];

	while (!bpf_map_get_next_key(fd, NULL, key))
		assert_int_equal(bpf_map_delete_elem(fd, key), 0);
}

static inline void progs_conns_empty(struct progs *p)
{
	const struct lg_conn_terms terms = { .handshake_ns = 5 * S, .closing_ns = 60 * S, .established_ns = 3600 * S, .datagram_ns = 30 * S };
	int maps[] = { bpf_map__fd(p->skel->maps.conns), bpf_map__fd(p->skel->maps.initiated) };
	struct lg_conn_key key;
	uint32_t zero = 0;

	for (size_t i = 0; i < N_ELEMS(maps); i++)
		while (!bpf_map_get_next_key(maps[i], NULL, &key))
			assert_int_equal(bpf_map_delete_elem(maps[i], &key), 0);
	assert_int_equal(bpf_map__update_elem(p->skel->maps.conn_terms, &zero, sizeof(zero), &terms, sizeof(terms), 0), 0);
}

/* Empties all maps, as loading anew would: that takes the verifier a while, seconds on an emulated CPU. */
static inline void progs_reset(struct progs *p)
{
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(p->skel->maps.events), progs_ignore, NULL, NULL);
	struct lg_shared words;
	uint32_t zero = 0;

	assert_non_null(ring);
	assert_true(ring_buffer__consume(ring) >= 0);
	ring_buffer__free(ring);
	progs_clear(bpf_map__fd(p->skel->maps.buckets));
	progs_clear(bpf_map__fd(p->skel->maps.products));
	progs_clear(bpf_map__fd(p->skel->maps.logs));
	progs_clear(bpf_map__fd(p->skel->maps.lists));
	progs_clear(bpf_map__fd(p->skel->maps.bans));
	progs_conns_empty(p);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.shared), &zero, &words), 0);
	if (p->n_lines)
		progs_zero(bpf_map__fd(p->skel->maps.lines), p->n_lines, sizeof(struct lg_line));
	p->n_lines = 0;
	if (words.map_full || words.lines_full)
		progs_zero(bpf_map__fd(p->skel->maps.overflow), PROGS_OVERFLOW_RULES * LG_OVERFLOW_BUCKETS, sizeof(struct lg_bucket));
	progs_zero(bpf_map__fd(p->skel->maps.shared), 1, sizeof(struct lg_shared));
	progs_zero(bpf_map__fd(p->skel->maps.denials), 1, (size_t)p->n_cpus * sizeof(struct lg_denials));
	progs_zero(bpf_map__fd(p->skel->maps.bypass), 1, sizeof(struct lg_bypass));
	progs_zero(bpf_map__fd(p->skel->maps.verdicts), _LG_HOOK_N * LG_REASON_SLOTS, (size_t)p->n_cpus * sizeof(struct lg_count));
	progs_zero(bpf_map__fd(p->skel->maps.later_fragments), _LG_HOOK_N, (size_t)p->n_cpus * sizeof(uint64_t));
	progs_zero(bpf_map__fd(p->skel->maps.rule_counts), LG_RULES_MAX + 1, (size_t)p->n_cpus * sizeof(struct lg_rule_counts));
	memset(&p->set, 0, sizeof(p->set));
	p->control = (struct lg_control){ .abi_version = LG_ABI_VERSION, .hash_seed = 0x1234567890abcdef,
					   .line_seed = { 0x243f6a8885a308d3, 0x13198a2e03707344 }, .reachable = 1 };
	progs_publish(p);
	progs_now(p, START_NS);
}

/* ---- rules ---- */

/* One more rule that matches every IPv4 and IPv6 packet, keyed by source (/32, /128), 10 tokens a second. */
static inline struct lg_rule *progs_rule(struct progs *p, uint64_t burst_tok)
{
	struct lg_rule *rule = &p->set.rules[p->set.n_rules++];

	memset(rule, 0, sizeof(*rule));
	memset(&p->matches[p->set.n_rules - 1], 0, sizeof(p->matches[0]));
	rule->rule_id = p->set.n_rules;
	rule->key_form = LG_FORM_SOURCE;
	memset(rule->key_mask4, 0xff, 16);
	memset(rule->key_mask6, 0xff, 16);
	rule->cold_burst_tok = burst_tok;
	rule->rate_tok = burst_tok ? 10 : 0;
	rule->per_ns = S;
	rule->burst_tok = burst_tok;
	rule->cost = 1;
	assert_int_equal(lg_rate_init(rule->rate_tok, S, burst_tok, START_NS, &rule->rate), 0);
	return rule;
}

/* An exemption behind the rules, which all are made by now; what it matches is said as of a rule. */
static inline struct lg_rule *progs_exemption(struct progs *p, uint32_t flags)
{
	uint32_t i = p->set.n_rules + p->set.n_pass++;

	memset(&p->set.rules[i], 0, sizeof(p->set.rules[i]));
	memset(&p->matches[i], 0, sizeof(p->matches[i]));
	p->set.rules[i].flags = LG_RULE_PASS | flags;
	p->set.rules[i].special = LG_SPECIAL_PASS;
	p->set.pass.w[i / 64] |= 1ull << i % 64;
	return &p->set.rules[i];
}

/* Puts the buckets of the rule last made into n_lines lines of its own, a power of two; they begin full at now_ns. */
static inline struct lg_rule *progs_in_lines(struct progs *p, struct lg_rule *rule, uint32_t n_lines, uint64_t now_ns)
{
	assert_true(p->n_lines + n_lines <= PROGS_LINES);
	rule->table = LG_TABLE_LINES;
	rule->first_line = p->n_lines;
	rule->n_lines = n_lines;
	p->n_lines += n_lines;
	assert_int_equal(lg_rate_line_init(rule->rate_tok, rule->per_ns, rule->burst_tok, 1 << 16, now_ns, &rule->rate, &rule->live_vt), 0);
	return rule;
}

/* The same under another algorithm: limit tokens in a window of `length_ns`; what has windows begins one at START_NS. */
static inline struct lg_rule *progs_window_rule(struct progs *p, enum lg_rule_algorithm algorithm, uint64_t limit, uint64_t length_ns)
{
	struct lg_rule *rule = progs_rule(p, limit);

	rule->algorithm = (uint8_t)algorithm;
	rule->rate_tok = limit;
	rule->per_ns = length_ns;
	rule->window = (struct lg_window){ .anchor_ns = START_NS, .index0 = 7, .length_ns = length_ns };
	rule->cold_burst_tok = algorithm == LG_RULE_SLIDING_LOG && limit > LG_LOG_COST_MAX ? LG_LOG_COST_MAX : limit;
	memset(&rule->rate, 0, sizeof(rule->rate));
	return rule;
}

/* The same, leased: up to 100 tokens at a time; after the lease's end, 2 s later, a share of 10 a second with a burst of 5. */
static inline struct lg_rule *progs_lease_rule(struct progs *p, enum lg_fallback fallback)
{
	struct lg_rule *rule = progs_rule(p, 100);

	rule->flags |= LG_RULE_GLOBAL;
	rule->fallback = (uint8_t)fallback;
	rule->share_delay_ns = 2 * S;
	assert_int_equal(lg_rate_init(10, S, 5, START_NS, &rule->share), 0);
	return rule;
}

static inline void progs_address(uint8_t at[16], const char *text)
{
	memset(at, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, at), 1);
		return;
	}
	at[10] = at[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, at + 12), 1);
}

/* What a rule of the set matches. */
static inline struct lg_match *progs_match(struct progs *p, const struct lg_rule *rule)
{
	return &p->matches[rule - p->set.rules];
}

/* The rule matches packets to this port alone. */
static inline void progs_port(struct progs *p, const struct lg_rule *rule, uint16_t port)
{
	progs_match(p, rule)->destination_ports = (struct lg_ranges){ .n = 1, .v = { { port, port } } };
}

/* The rule matches packets from this address alone. */
static inline void progs_source(struct progs *p, const struct lg_rule *rule, const char *source)
{
	struct lg_prefix *prefix = &p->prefixes[rule - p->set.rules][0];

	progs_address(prefix->addr, source);
	prefix->family = strchr(source, ':') ? 6 : 4;
	prefix->len = prefix->family == 6 ? 128 : 32;
	progs_match(p, rule)->source = (struct lg_prefix_list){ .n = 1, .v = prefix };
}

static inline struct lg_key progs_key(uint32_t rule_id, const char *source)
{
	struct lg_key key = { .rule_id = rule_id, .form = LG_FORM_SOURCE };

	progs_address(key.a, source);
	return key;
}

static inline struct lg_key progs_overflow_key(uint32_t rule_id, uint32_t slot)
{
	struct lg_key key = { .rule_id = rule_id, .form = LG_FORM_OVERFLOW };

	memcpy(key.a, &slot, sizeof(slot));
	return key;
}

/* ---- frames ---- */

/* 20 bytes of UDP, of the family that the addresses are of. */
static inline struct lg_pkt_buf progs_udp(const char *source, const char *destination, uint16_t port)
{
	struct lg_pkt_buf pkt;

	if (strchr(source, ':'))
		lg_pkt_udp6(&pkt, source, destination, port, 20);
	else
		lg_pkt_udp4(&pkt, source, destination, port, 20);
	return pkt;
}

static inline int progs_fd(const struct progs *p, enum lg_hook hook)
{
	switch (hook) {
	case LG_HOOK_XDP: return bpf_program__fd(p->skel->progs.lg_xdp);
	case LG_HOOK_TC_INGRESS: return bpf_program__fd(p->skel->progs.lg_tc_ingress);
	case LG_HOOK_TC_EGRESS: return bpf_program__fd(p->skel->progs.lg_tc_egress);
	case _LG_HOOK_N: break;
	}
	return -1;
}

/* Runs a frame; true if it may pass. Any return code but the two that our programs know fails the test. */
static inline bool progs_run_sized(struct progs *p, enum lg_hook hook, const void *data, uint32_t len, uint32_t gso_segs,
				   uint32_t gso_size)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = data, .data_size_in = len, .repeat = 1);
	struct __sk_buff skb = { .gso_segs = gso_segs, .gso_size = gso_size };

	if (gso_segs) {
		opts.ctx_in = &skb;
		opts.ctx_size_in = sizeof(skb);
	}
	assert_int_equal(bpf_prog_test_run_opts(progs_fd(p, hook), &opts), 0);
	if (hook == LG_HOOK_XDP) {
		assert_true(opts.retval == XDP_PASS || opts.retval == XDP_DROP);
		return opts.retval == XDP_PASS;
	}
	assert_true(opts.retval == (uint32_t)TC_ACT_UNSPEC || opts.retval == TC_ACT_SHOT);
	return opts.retval != TC_ACT_SHOT;
}

static inline bool progs_run(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt)
{
	return progs_run_sized(p, hook, pkt->data, pkt->len, 0, 0);
}

/* ---- what came of it ---- */

static inline struct lg_count progs_verdicts(const struct progs *p, enum lg_hook hook, enum lg_reason reason)
{
	_cleanup_free_ struct lg_count *cpus = calloc((size_t)p->n_cpus, sizeof(*cpus));
	uint32_t index = hook * LG_REASON_SLOTS + reason;
	struct lg_count sum = { 0 };

	assert_non_null(cpus);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.verdicts), &index, cpus), 0);
	for (int i = 0; i < p->n_cpus; i++) {
		sum.packets += cpus[i].packets;
		sum.bytes += cpus[i].bytes;
	}
	return sum;
}

static inline uint64_t progs_later_fragments(const struct progs *p, enum lg_hook hook)
{
	_cleanup_free_ uint64_t *cpus = calloc((size_t)p->n_cpus, sizeof(*cpus));
	uint64_t packets = 0;
	uint32_t index = hook;

	assert_non_null(cpus);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.later_fragments), &index, cpus), 0);
	for (int i = 0; i < p->n_cpus; i++)
		packets += cpus[i];
	return packets;
}

/* All packets a hook has seen, whatever became of them. */
static inline uint64_t progs_all(const struct progs *p, enum lg_hook hook)
{
	uint64_t packets = 0;

	for (uint32_t reason = 0; reason < LG_REASON_SLOTS; reason++)
		packets += progs_verdicts(p, hook, reason).packets;
	return packets;
}

static inline struct lg_count progs_rule_count(const struct progs *p, uint32_t rule_id, enum lg_reason reason)
{
	_cleanup_free_ struct lg_rule_counts *cpus = calloc((size_t)p->n_cpus, sizeof(*cpus));
	struct lg_count sum = { 0 };

	assert_non_null(cpus);
	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.rule_counts), &rule_id, cpus), 0);
	for (int i = 0; i < p->n_cpus; i++) {
		sum.packets += cpus[i].by_reason[reason].packets;
		sum.bytes += cpus[i].by_reason[reason].bytes;
	}
	return sum;
}

static inline bool progs_is_pass(enum lg_reason reason)
{
	enum { PASS, DROP };
	static const uint8_t verdicts[_LG_REASON_N] = {
#define LG_REASON(id, name, label, verdict, help) [id] = verdict,
#include <leasegate/reason.def>
#undef LG_REASON
	};

	return verdicts[reason] == PASS;
}

/* Runs a frame and checks that it went this way, and that the hook counted exactly that. */
static inline void progs_expect(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt, enum lg_reason want)
{
	uint64_t before[LG_REASON_SLOTS], now;
	bool want_pass = progs_is_pass(want);

	for (uint32_t i = 0; i < LG_REASON_SLOTS; i++)
		before[i] = progs_verdicts(p, hook, i).packets;
	assert_int_equal(progs_run(p, hook, pkt), want_pass);
	for (uint32_t i = 0; i < LG_REASON_SLOTS; i++) {
		now = progs_verdicts(p, hook, i).packets;
		if (now - before[i] != (i == want))
			print_error("%s: reason %u counted %llu times, wanted reason %u\n", hook_names[hook], i,
				    (unsigned long long)(now - before[i]), want);
		assert_int_equal(now - before[i], i == want);
	}
}

/* Has what CPUs did not book yet of their refusals booked, as each run of `collect` does; there is nothing else to do in this one. */
static inline void progs_book(const struct progs *p)
{
	struct lg_ops_args args = { 0 };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));

	assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(p->skel->progs.lg_collect), &opts), 0);
}

static inline bool progs_has_bucket(const struct progs *p, const struct lg_key *key, struct lg_bucket *ret_bucket)
{
	progs_book(p);
	return !bpf_map_lookup_elem(bpf_map__fd(key->form & LG_FORM_PRODUCT ? p->skel->maps.products : p->skel->maps.buckets), key,
				    ret_bucket);
}

static inline struct lg_bucket progs_bucket(const struct progs *p, const struct lg_key *key)
{
	struct lg_bucket bucket;

	assert_true(progs_has_bucket(p, key, &bucket));
	return bucket;
}

static inline struct lg_shared progs_shared(const struct progs *p)
{
	struct lg_shared words;
	uint32_t zero = 0;

	assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.shared), &zero, &words), 0);
	return words;
}

/* ---- operations ---- */

/* Runs n requests, which are answered in place. */
static inline void progs_ops(const struct progs *p, bool is_grant, struct lg_op *op, uint32_t n)
{
	struct lg_ops_args args = { .n = n };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args)); /* comes back changed */
	int ops = bpf_map__fd(p->skel->maps.ops);

	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(bpf_map_update_elem(ops, &i, &op[i], 0), 0);
	assert_int_equal(
		bpf_prog_test_run_opts(bpf_program__fd(is_grant ? p->skel->progs.lg_grant : p->skel->progs.lg_collect), &opts), 0);
	assert_int_equal(opts.retval, 0);
	assert_int_equal(args.done, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(bpf_map_lookup_elem(ops, &i, &op[i]), 0);
}

static inline struct lg_op progs_op(const struct progs *p, struct lg_op op)
{
	progs_ops(p, op.code != LG_OP_READ && op.code != LG_OP_REAP, &op, 1);
	return op;
}

static inline struct lg_op progs_grant(const struct progs *p, struct lg_key key, uint64_t tok, uint64_t expires_ns)
{
	return progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = tok, .expires_ns = expires_ns,
					   .low_water_tok = ~0ull });
}

/* ---- events ---- */

struct progs_events {
	struct lg_event event[64];
	uint32_t n;
};

static inline int progs_event(void *ctx, void *data, size_t len)
{
	struct progs_events *e = ctx;

	if (len == sizeof(struct lg_event) && e->n < N_ELEMS(e->event))
		memcpy(&e->event[e->n], data, len);
	e->n++;
	return 0;
}

/* All events raised since the last call. */
static inline struct progs_events progs_events(const struct progs *p)
{
	struct progs_events events = { .n = 0 };
	struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(p->skel->maps.events), progs_event, &events, NULL);

	assert_non_null(ring);
	assert_true(ring_buffer__consume(ring) >= 0);
	ring_buffer__free(ring);
	return events;
}
