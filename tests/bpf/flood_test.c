// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A flood of SYNs from made-up sources, through the loaded programs: what it finds it leaves as it was, and it takes no more than it
 * is given. FLOOD=10000000 runs it at length. If there is a captured one, it comes after the made-up one: $LG_FLOOD, if not set
 * ../shared/pcaps/attack/synflood-spoofed.pcap.gz.
 */
#include <sys/stat.h>

#include "progs.h"
#include "tests/lib/pcap.h"

#define N_KEYS 4096 /* that the table holds */
#define N_KNOWN 100 /* keys that were there before: 192.0.2.1 and on */
#define BURST_TOK 5

static struct progs *p;
static uint64_t n_flood = 300000;
static const char *captured;

static int load(void **state)
{
	struct stat st;

	(void)state;
	if (getenv("FLOOD"))
		n_flood = strtoull(getenv("FLOOD"), NULL, 0);
	assert_true(n_flood >= 4 * N_KEYS);
	captured = getenv("LG_FLOOD") ?: "../shared/pcaps/attack/synflood-spoofed.pcap.gz";
	if (stat(captured, &st)) {
		print_message("no captured flood: set LG_FLOOD to a .pcap file\n");
		captured = NULL;
	}
	p = progs_load(N_KEYS, true);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}

/* ---- traffic ---- */

static struct lg_pkt_buf tcp_from(const char *source, uint8_t flags)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	if (strchr(source, ':'))
		lg_pkt_ip6(&pkt, source, "2001:db8::2");
	else
		lg_pkt_ip4(&pkt, source, "192.0.2.254", 0);
	lg_pkt_tcp(&pkt, 1024, 443);
	lg_pkt_tcp_flags(&pkt, flags);
	lg_pkt_done(&pkt);
	return pkt;
}

#define SYN 0x02
#define SYN_ACK 0x12
#define ACK 0x10

static struct lg_pkt_buf syn_of_known(uint32_t i)
{
	char source[32];

	snprintf(source, sizeof(source), "192.0.2.%u", i + 1);
	return tcp_from(source, SYN);
}

struct flood {
	uint64_t n;
	uint64_t n_passed;
};

/* Each number once, in an order that looks like none. */
static uint32_t scatter(uint32_t i)
{
	i = (i ^ i >> 16) * 0x7feb352du;
	i = (i ^ i >> 15) * 0x846ca68bu;
	return i ^ i >> 16;
}

/* Adds n packets, each from a source that none had before, one in sixteen of IPv6. */
static void run_made_up(struct flood *f, uint64_t n)
{
	struct lg_pkt_buf four = tcp_from("198.51.100.1", SYN), six = tcp_from("2001:db8::1", SYN);

	for (uint64_t end = f->n + n; f->n < end; f->n++) {
		struct lg_pkt_buf *pkt = f->n % 16 ? &four : &six;
		uint32_t source = scatter((uint32_t)f->n);

		if (source >> 8 == (192 << 16 | 2))
			source ^= 1u << 31;
		source = htonl(source);
		memcpy(pkt->data + (pkt == &four ? 26 : 26 + 8), &source, sizeof(source));
		f->n_passed += progs_run(p, LG_HOOK_XDP, pkt);
	}
}

static void run_captured_frame(void *ctx, const uint8_t *frame, uint32_t len)
{
	struct flood *f = ctx;

	f->n_passed += progs_run_sized(p, LG_HOOK_XDP, frame, len, 0, 0);
	f->n++;
}

static void run_captured(struct flood *f)
{
	if (captured)
		assert_in_range(lg_pcap_each(captured, run_captured_frame, f), 1000, 10000000);
}

/* ---- memory ---- */

static uint32_t n_entries(const struct bpf_map *map)
{
	struct lg_key key, next;
	uint32_t n = 0;

	for (int r = bpf_map_get_next_key(bpf_map__fd(map), NULL, &key); !r; key = next, n++)
		r = bpf_map_get_next_key(bpf_map__fd(map), &key, &next);
	return n;
}

/* ---- what must hold ---- */

static void leased_keys_keep_their_leases_and_levels(void **state)
{
	struct lg_bucket before[N_KNOWN], now;
	struct flood flood = { 0 };
	struct lg_key key[N_KNOWN];

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY)->cold_start_tok = 1;
	progs_publish(p);
	for (uint32_t i = 0; i < N_KNOWN; i++) {
		struct lg_pkt_buf pkt = syn_of_known(i);
		char source[32];

		snprintf(source, sizeof(source), "192.0.2.%u", i + 1);
		key[i] = progs_key(1, source);
		assert_int_equal(progs_grant(p, key[i], i + 2, START_NS + 100 * S).result, 0);
		progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_ADMITTED);
		before[i] = progs_bucket(p, &key[i]);
	}
	run_made_up(&flood, n_flood / 2);
	assert_int_equal(n_entries(p->skel->maps.buckets), N_KEYS);
	run_made_up(&flood, n_flood / 2);
	run_captured(&flood);
	assert_int_equal(n_entries(p->skel->maps.buckets), N_KEYS);
	assert_int_equal(progs_all(p, LG_HOOK_XDP), N_KNOWN + flood.n);
	assert_true(progs_shared(p).map_full >= n_flood - N_KEYS);
	for (uint32_t i = 0; i < N_KNOWN; i++) {
		struct lg_pkt_buf pkt = syn_of_known(i);

		now = progs_bucket(p, &key[i]);
		assert_memory_equal(&now, &before[i], sizeof(now));
		for (uint32_t left = i + 1; left > 0; left--)
			progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_ADMITTED);
		assert_false(progs_run(p, LG_HOOK_XDP, &pkt));
		assert_int_equal(progs_bucket(p, &key[i]).spent_tok, i + 2);
	}
}

static void of_a_global_limit_of_1000_syns_1000_pass(void **state)
{
	struct lg_pkt_buf syn_ack = tcp_from("192.0.2.1", SYN_ACK), ack = tcp_from("192.0.2.1", ACK), syn = syn_of_known(0);
	struct lg_key key = { .rule_id = 1, .form = LG_FORM_RULE };
	struct flood flood = { 0 };
	struct lg_rule *rule;

	(void)state;
	progs_reset(p);
	rule = progs_lease_rule(p, LG_FALLBACK_DENY);
	rule->key_form = LG_FORM_RULE;
	progs_match(p, rule)->has_protocol = true;
	progs_match(p, rule)->protocol = IPPROTO_TCP;
	progs_match(p, rule)->tcp_flags.mask = SYN_ACK;
	progs_match(p, rule)->tcp_flags.value = SYN;
	progs_publish(p);
	assert_int_equal(progs_grant(p, key, 1000, START_NS + 100 * S).result, 0);
	run_made_up(&flood, 999);
	assert_int_equal(flood.n_passed, 999);
	run_made_up(&flood, n_flood - 999);
	assert_int_equal(flood.n_passed, 1000);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 1000);
	assert_int_equal(progs_bucket(p, &key).denied_tok, n_flood - 1000);
	assert_int_equal(n_entries(p->skel->maps.buckets), 1);
	/* Answers and what is under way are none of the rule's business. */
	progs_expect(p, LG_HOOK_XDP, &syn_ack, LG_PASS_NO_RULE);
	progs_expect(p, LG_HOOK_XDP, &ack, LG_PASS_NO_RULE);
	progs_expect(p, LG_HOOK_XDP, &syn, LG_DROP_LIMIT);
	if (!captured)
		return;
	flood = (struct flood){ 0 };
	assert_int_equal(progs_grant(p, key, 1000, START_NS + 100 * S).result, 0);
	run_captured(&flood);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 2000);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 2000);
	assert_int_equal(n_entries(p->skel->maps.buckets), 1);
}

/*
 * The victim has spent all it had; others find the places that are left, n_twins of them one that is taken,
 * and the rest share overflow buckets.
 */
static void check_drained(uint32_t n_buckets, uint64_t n_twins)
{
	struct lg_pkt_buf victim = syn_of_known(0);
	struct flood flood = { 0 };

	for (int i = 0; i < BURST_TOK; i++)
		progs_expect(p, LG_HOOK_XDP, &victim, LG_PASS_ADMITTED);
	progs_expect(p, LG_HOOK_XDP, &victim, LG_DROP_LIMIT);
	run_made_up(&flood, n_flood / 2);
	progs_expect(p, LG_HOOK_XDP, &victim, LG_DROP_LIMIT);
	assert_int_equal(n_entries(p->skel->maps.buckets), n_buckets);
	run_made_up(&flood, n_flood / 2);
	progs_expect(p, LG_HOOK_XDP, &victim, LG_DROP_LIMIT);
	assert_int_equal(n_entries(p->skel->maps.buckets), n_buckets);
	assert_in_range(flood.n_passed, N_KEYS * 9 / 10, N_KEYS - 1 + LG_OVERFLOW_BUCKETS * BURST_TOK + n_twins);
	run_captured(&flood);
	progs_expect(p, LG_HOOK_XDP, &victim, LG_DROP_LIMIT);
	assert_int_equal(n_entries(p->skel->maps.buckets), n_buckets);
	assert_int_equal(progs_all(p, LG_HOOK_XDP), flood.n + BURST_TOK + 4);
}

static void a_drained_key_stays_drained_in_a_full_exact_table(void **state)
{
	(void)state;
	progs_reset(p);
	progs_rule(p, BURST_TOK);
	progs_publish(p);
	check_drained(N_KEYS, 0);
}

static void a_drained_key_stays_drained_in_full_lines(void **state)
{
	(void)state;
	progs_reset(p);
	progs_in_lines(p, progs_rule(p, BURST_TOK), N_KEYS / LG_LINE_SLOTS, START_NS);
	progs_publish(p);
	check_drained(0, 8 + (n_flood * LG_LINE_SLOTS >> 21)); /* of two keys of a line, one pair in 2^23 shares a slot */
	assert_true(progs_shared(p).lines_full >= n_flood - N_KEYS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(leased_keys_keep_their_leases_and_levels),
		cmocka_unit_test(of_a_global_limit_of_1000_syns_1000_pass),
		cmocka_unit_test(a_drained_key_stays_drained_in_a_full_exact_table),
		cmocka_unit_test(a_drained_key_stays_drained_in_full_lines),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
