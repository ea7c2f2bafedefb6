// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What decides before buckets do: exemptions and their bounds, allow and deny lists, bans. */
#include <pthread.h>
#include <sched.h>

#include "base/num.h"
#include "progs.h"
#include "tests/lib/chance.h"

#define FOREVER 0

static struct progs *loaded;

/* All on empty maps: what was struck before too. */
static struct progs *fresh(void)
{
	static struct lg_strikes none[LG_STRIKE_SLOTS];
	static uint32_t keys[LG_STRIKE_SLOTS];
	uint32_t n = LG_STRIKE_SLOTS;

	if (!loaded)
		loaded = progs_load(1024, true);
	progs_reset(loaded);
	for (uint32_t i = 0; i < n; i++)
		keys[i] = i;
	assert_int_equal(bpf_map_update_batch(bpf_map__fd(loaded->skel->maps.strikes), keys, none, &n, NULL), 0);
	return loaded;
}

static int unload(void **state)
{
	(void)state;
	if (loaded)
		progs_free(loaded);
	return 0;
}

/* ---- lists ---- */

static struct lg_list_key list_key(const char *prefix)
{
	struct lg_list_key key = { 0 };
	char text[64];
	char *slash;

	snprintf(text, sizeof(text), "%s", prefix);
	slash = strchr(text, '/');
	assert_non_null(slash);
	*slash = '\0';
	progs_address(key.addr, text);
	key.prefix_len = (uint32_t)atoi(slash + 1) + (strchr(text, ':') ? 0 : 96);
	return key;
}

static void put(struct progs *p, const char *prefix, enum lg_list_verdict of_file, enum lg_list_verdict of_operator, uint64_t until_ns)
{
	struct lg_list_key key = list_key(prefix);
	struct lg_list_entry entry = { .until_ns = until_ns, .of_file = (uint8_t)of_file, .of_operator = (uint8_t)of_operator,
				       .prefix_len = (uint8_t)key.prefix_len };

	assert_int_equal(bpf_map_update_elem(bpf_map__fd(p->skel->maps.lists), &key, &entry, BPF_ANY), 0);
	p->control.has_lists = 1;
	progs_control(p);
}

static void allow(struct progs *p, const char *prefix)
{
	put(p, prefix, LG_LIST_ALLOW, LG_LIST_NONE, FOREVER);
}

static void deny(struct progs *p, const char *prefix)
{
	put(p, prefix, LG_LIST_DENY, LG_LIST_NONE, FOREVER);
}

static void expect_from(struct progs *p, enum lg_hook hook, const char *source, enum lg_reason want)
{
	struct lg_pkt_buf pkt = strchr(source, ':') ? progs_udp(source, "2001:db8:ffff::1", 53) : progs_udp(source, "192.0.2.1", 53);

	progs_expect(p, hook, &pkt, want);
}

static void the_longest_prefix_decides(void **state)
{
	static const struct {
		const char *source;
		enum lg_reason want;
	} rows[] = {
		{ "10.0.0.0", LG_DROP_LISTED },		/* /8, and its edges */
		{ "10.255.255.255", LG_DROP_LISTED },
		{ "9.255.255.255", LG_DROP_LIMIT },
		{ "11.0.0.0", LG_DROP_LIMIT },
		{ "10.1.0.0", LG_PASS_ALLOWED },	/* /16 in it */
		{ "10.1.255.255", LG_PASS_ALLOWED },
		{ "10.2.0.0", LG_DROP_LISTED },
		{ "10.1.2.3", LG_DROP_LISTED },		/* /32 in that */
		{ "10.1.2.2", LG_PASS_ALLOWED },
		{ "10.1.2.4", LG_PASS_ALLOWED },
		{ "10.1.4.4", LG_DROP_LISTED },		/* /31 */
		{ "10.1.4.5", LG_DROP_LISTED },
		{ "10.1.4.6", LG_PASS_ALLOWED },
		{ "2001:db8::1", LG_DROP_LISTED },
		{ "2001:db8:0:1::1", LG_PASS_ALLOWED }, /* /64 */
		{ "2001:db8:0:2::1", LG_DROP_LISTED },
		{ "2001:db8:0:1:ffff:ffff:ffff:ffff", LG_PASS_ALLOWED },
		{ "2001:db8:0:1::7", LG_DROP_LISTED },	/* /128 */
		{ "2001:db8:0:1::6", LG_PASS_ALLOWED },
		{ "2001:db9::1", LG_DROP_LIMIT },
	};
	struct progs *p = fresh();

	(void)state;
	progs_rule(p, 0);
	progs_publish(p);
	deny(p, "10.0.0.0/8");
	allow(p, "10.1.0.0/16");
	deny(p, "10.1.2.3/32");
	deny(p, "10.1.4.4/31");
	deny(p, "2001:db8::/32");
	allow(p, "2001:db8:0:1::/64");
	deny(p, "2001:db8:0:1::7/128");
	for (enum lg_hook hook = LG_HOOK_XDP; hook <= LG_HOOK_TC_INGRESS; hook++)
		for (size_t i = 0; i < N_ELEMS(rows); i++)
			expect_from(p, hook, rows[i].source, rows[i].want);
}

static void every_address_of_one_family_is_not_the_other_family(void **state)
{
	struct progs *p = fresh();

	(void)state;
	deny(p, "::/0");
	expect_from(p, LG_HOOK_XDP, "2001:db8::1", LG_DROP_LISTED);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_PASS_NO_RULE);
	deny(p, "0.0.0.0/0");
	allow(p, "128.0.0.0/1");
	allow(p, "8000::/1");
	expect_from(p, LG_HOOK_XDP, "127.255.255.255", LG_DROP_LISTED);
	expect_from(p, LG_HOOK_XDP, "128.0.0.0", LG_PASS_ALLOWED);
	expect_from(p, LG_HOOK_XDP, "7fff::", LG_DROP_LISTED);
	expect_from(p, LG_HOOK_XDP, "8000::", LG_PASS_ALLOWED);
	/* An IPv4 address inside an IPv6 header is in IPv4 prefixes as well. */
	expect_from(p, LG_HOOK_XDP, "::ffff:128.0.0.0", LG_PASS_ALLOWED);
	expect_from(p, LG_HOOK_XDP, "::ffff:127.0.0.1", LG_DROP_LISTED);
}

static void what_goes_out_is_looked_up_by_its_destination(void **state)
{
	struct lg_pkt_buf to = progs_udp("192.0.2.1", "10.0.0.1", 53), from = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct progs *p = fresh();

	(void)state;
	deny(p, "10.0.0.0/8");
	progs_expect(p, LG_HOOK_TC_EGRESS, &to, LG_DROP_LISTED);
	progs_expect(p, LG_HOOK_TC_EGRESS, &from, LG_PASS_NO_RULE);
	progs_expect(p, LG_HOOK_TC_INGRESS, &from, LG_DROP_LISTED);
	progs_expect(p, LG_HOOK_TC_INGRESS, &to, LG_PASS_NO_RULE);
	progs_expect(p, LG_HOOK_XDP, &from, LG_DROP_LISTED);
}

static void an_entry_whose_time_is_over_leaves_it_to_the_next_shorter_one(void **state)
{
	struct progs *p = fresh();

	(void)state;
	put(p, "10.0.0.0/8", LG_LIST_ALLOW, LG_LIST_NONE, FOREVER);
	put(p, "10.0.0.0/16", LG_LIST_NONE, LG_LIST_DENY, START_NS + 20 * S);
	put(p, "10.0.0.0/24", LG_LIST_NONE, LG_LIST_ALLOW, START_NS + 10 * S);
	put(p, "10.0.0.1/32", LG_LIST_NONE, LG_LIST_DENY, START_NS + 5 * S);
	for (enum lg_hook hook = LG_HOOK_XDP; hook <= LG_HOOK_TC_INGRESS; hook++) {
		progs_now(p, START_NS + 5 * S - 1);
		expect_from(p, hook, "10.0.0.1", LG_DROP_LISTED);
		progs_now(p, START_NS + 5 * S);
		expect_from(p, hook, "10.0.0.1", LG_PASS_ALLOWED);
		progs_now(p, START_NS + 10 * S - 1);
		expect_from(p, hook, "10.0.0.1", LG_PASS_ALLOWED);
		progs_now(p, START_NS + 10 * S);
		expect_from(p, hook, "10.0.0.1", LG_DROP_LISTED);
		progs_now(p, START_NS + 20 * S);
		expect_from(p, hook, "10.0.0.1", LG_PASS_ALLOWED);
	}
}

static void the_operators_word_goes_before_the_files_while_it_holds(void **state)
{
	struct progs *p = fresh();

	(void)state;
	put(p, "10.0.0.1/32", LG_LIST_ALLOW, LG_LIST_DENY, START_NS + S);
	put(p, "10.0.0.2/32", LG_LIST_DENY, LG_LIST_ALLOW, FOREVER);
	put(p, "0.0.0.0/0", LG_LIST_NONE, LG_LIST_DENY, START_NS + S);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_DROP_LISTED);
	expect_from(p, LG_HOOK_XDP, "10.0.0.2", LG_PASS_ALLOWED);
	expect_from(p, LG_HOOK_XDP, "10.0.0.3", LG_DROP_LISTED);
	progs_now(p, START_NS + S);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_PASS_ALLOWED);
	expect_from(p, LG_HOOK_XDP, "10.0.0.2", LG_PASS_ALLOWED);
	expect_from(p, LG_HOOK_XDP, "10.0.0.3", LG_PASS_NO_RULE);
}

/* As many prefixes as there can be in one chain, all of them over but the widest. */
static void a_chain_of_dead_prefixes_is_walked_to_its_end(void **state)
{
	struct progs *p = fresh();
	char prefix[32];

	(void)state;
	put(p, "::/0", LG_LIST_DENY, LG_LIST_NONE, FOREVER);
	for (int len = 1; len <= 128; len++) {
		snprintf(prefix, sizeof(prefix), "::/%d", len);
		put(p, prefix, LG_LIST_NONE, LG_LIST_ALLOW, START_NS);
	}
	expect_from(p, LG_HOOK_XDP, "::", LG_DROP_LISTED);
	expect_from(p, LG_HOOK_TC_INGRESS, "::", LG_DROP_LISTED);
}

static void what_keeps_the_link_alive_is_on_no_list(void **state)
{
	struct progs *p = fresh();
	struct lg_pkt_buf pkt;

	(void)state;
	deny(p, "0.0.0.0/0");
	deny(p, "::/0");
	lg_pkt_init(&pkt);
	lg_pkt_arp(&pkt);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_EXEMPT);
	lg_pkt_init(&pkt);
	lg_pkt_ip6(&pkt, "fe80::1", "ff02::1:ff00:2");
	lg_pkt_hop_limit(&pkt, 255);
	lg_pkt_icmp6(&pkt, 135);
	lg_pkt_done(&pkt);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_EXEMPT);
	lg_pkt_init(&pkt);
	lg_pkt_type(&pkt, 0x88cc);
	lg_pkt_payload(&pkt, 46, 0);
	progs_expect(p, LG_HOOK_XDP, &pkt, LG_PASS_NOT_IP);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_DROP_LISTED);
}

/* Random prefixes of both families, most of them inside others, against a plain search. */
static void ten_thousand_prefixes_decide_as_a_plain_search_does(void **state)
{
	enum { N = 10000, PROBES = 1000 };
	static struct lg_list_key keys[N];
	static struct lg_list_entry entries[N];
	uint64_t rng = chance_seed();
	struct progs *p = fresh();
	int fd = bpf_map__fd(p->skel->maps.lists);
	size_t n = 0;

	(void)state;
	while (n < N) {
		struct lg_list_key key = { 0 };
		bool is4 = chance_next(&rng) & 1;

		key.prefix_len = is4 ? 96 + 4 + (uint32_t)(chance_next(&rng) % 29) : 8 + (uint32_t)(chance_next(&rng) % 121);
		for (size_t i = 0; i < 16; i++)
			key.addr[i] = (uint8_t)(chance_next(&rng) & 3); /* few addresses: prefixes lie in each other */
		if (is4)
			memcpy(key.addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
		else
			key.addr[0] = 0x20;
		lg_addr_mask(key.addr, key.prefix_len);
		keys[n] = key;
		entries[n] = (struct lg_list_entry){ .of_file = 1 + (chance_next(&rng) & 1), .prefix_len = (uint8_t)key.prefix_len };
		if (bpf_map_update_elem(fd, &key, &entries[n], BPF_NOEXIST) == 0)
			n++;
		else
			assert_int_equal(errno, EEXIST);
	}
	p->control.has_lists = 1;
	progs_control(p);
	for (size_t k = 0; k < PROBES; k++) {
		const struct lg_list_key *near = &keys[chance_next(&rng) % N];
		enum lg_reason want = LG_PASS_NO_RULE;
		char source[INET6_ADDRSTRLEN];
		struct lg_pkt_buf pkt;
		uint32_t best = 0;
		uint8_t addr[16];
		bool is4;

		memcpy(addr, near->addr, 16);
		addr[15 - chance_next(&rng) % 4] ^= (uint8_t)(1u << chance_next(&rng) % 8);
		is4 = memcmp(addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) == 0;
		for (size_t i = 0; i < n; i++) {
			uint8_t masked[16];

			memcpy(masked, addr, 16);
			lg_addr_mask(masked, keys[i].prefix_len);
			if (memcmp(masked, keys[i].addr, 16) != 0 || keys[i].prefix_len < best || (is4 && keys[i].prefix_len < 96))
				continue;
			best = keys[i].prefix_len;
			want = entries[i].of_file == LG_LIST_ALLOW ? LG_PASS_ALLOWED : LG_DROP_LISTED;
		}
		if (is4)
			inet_ntop(AF_INET, addr + 12, source, sizeof(source));
		else
			inet_ntop(AF_INET6, addr, source, sizeof(source));
		pkt = is4 ? progs_udp(source, "192.0.2.1", 53) : progs_udp(source, "2001:db8::1", 53);
		if (progs_run(p, LG_HOOK_XDP, &pkt) != progs_is_pass(want))
			fail_msg("%s: wanted reason %u", source, want);
	}
}

/* ---- exemptions ---- */

static void an_exemption_passes_what_rules_and_lists_refuse(void **state)
{
	struct lg_pkt_buf ssh, web;
	struct progs *p = fresh();

	(void)state;
	lg_pkt_init(&ssh);
	lg_pkt_ip4(&ssh, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_tcp(&ssh, 40000, 22);
	lg_pkt_done(&ssh);
	web = progs_udp("10.0.0.1", "192.0.2.1", 80);
	progs_rule(p, 0);
	progs_rule(p, 0);
	progs_port(p, progs_exemption(p, 0), 22);
	progs_publish(p);
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		progs_expect(p, hook, &ssh, LG_PASS_EXEMPT);
		progs_expect(p, hook, &web, LG_DROP_LIMIT);
	}
	deny(p, "0.0.0.0/0");
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		progs_expect(p, hook, &ssh, LG_PASS_EXEMPT);
		progs_expect(p, hook, &web, LG_DROP_LISTED);
	}
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 3);
	/* What is alone with its exemption costs no rule's look-up either. */
	p = fresh();
	progs_port(p, progs_exemption(p, 0), 22);
	progs_publish(p);
	progs_expect(p, LG_HOOK_XDP, &ssh, LG_PASS_EXEMPT);
	progs_expect(p, LG_HOOK_XDP, &web, LG_PASS_NO_RULE);
}

/* Runs a frame n times over. */
static void repeat(struct progs *p, enum lg_hook hook, const struct lg_pkt_buf *pkt, int n)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = pkt->data, .data_size_in = pkt->len, .repeat = n);

	assert_int_equal(bpf_prog_test_run_opts(progs_fd(p, hook), &opts), 0);
}

static struct lg_pkt_buf kept(enum lg_exempt_kind kind)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	switch (kind) {
	case LG_EXEMPT_ARP: lg_pkt_arp(&pkt); return pkt;
	case LG_EXEMPT_ND:
		lg_pkt_ip6(&pkt, "fe80::1", "fe80::2");
		lg_pkt_hop_limit(&pkt, 255);
		lg_pkt_icmp6(&pkt, 136);
		break;
	case LG_EXEMPT_PATH:
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_icmp4(&pkt, 3, 4);
		break;
	case LG_EXEMPT_CONTROL:
		lg_pkt_ip4(&pkt, "10.0.0.1", "224.0.0.18", 0);
		lg_pkt_proto(&pkt, 112);
		break;
	case LG_EXEMPT_DATAGRAM:
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_udp(&pkt, 67, 68);
		break;
	case LG_EXEMPT_STREAM:
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_tcp(&pkt, 67, 68);
		break;
	case _LG_EXEMPT_N: break;
	}
	lg_pkt_payload(&pkt, 20, 0);
	lg_pkt_done(&pkt);
	return pkt;
}

static void a_flood_of_what_is_exempt_is_bounded_and_crowds_out_no_other_kind(void **state)
{
	struct lg_pkt_buf pkts[_LG_EXEMPT_N];
	struct progs *p = fresh();

	(void)state;
	progs_rule(p, 0);
	progs_port(p, progs_exemption(p, LG_RULE_BOUNDED), 68);
	progs_publish(p);
	for (enum lg_exempt_kind kind = 0; kind < _LG_EXEMPT_N; kind++)
		pkts[kind] = kept(kind);
	for (enum lg_exempt_kind kind = 0; kind < _LG_EXEMPT_N; kind++) {
		uint64_t flooded = progs_verdicts(p, LG_HOOK_XDP, LG_DROP_EXEMPT_FLOOD).packets;

		repeat(p, LG_HOOK_XDP, &pkts[kind], LG_EXEMPT_PER_S);
		assert_int_equal(progs_verdicts(p, LG_HOOK_XDP, LG_DROP_EXEMPT_FLOOD).packets, flooded);
		progs_expect(p, LG_HOOK_XDP, &pkts[kind], LG_DROP_EXEMPT_FLOOD);
		progs_expect(p, LG_HOOK_TC_INGRESS, &pkts[kind], LG_PASS_EXEMPT);
		progs_expect(p, LG_HOOK_TC_EGRESS, &pkts[kind], LG_PASS_EXEMPT);
	}
	/* One more for each ten thousandth of a second. */
	progs_now(p, START_NS + S / LG_EXEMPT_PER_S - 1);
	progs_expect(p, LG_HOOK_XDP, &pkts[LG_EXEMPT_ARP], LG_DROP_EXEMPT_FLOOD);
	progs_now(p, START_NS + S / LG_EXEMPT_PER_S);
	progs_expect(p, LG_HOOK_XDP, &pkts[LG_EXEMPT_ARP], LG_PASS_EXEMPT);
	progs_expect(p, LG_HOOK_XDP, &pkts[LG_EXEMPT_ARP], LG_DROP_EXEMPT_FLOOD);
}

/* ---- bans ---- */

enum table { EXACT, LINES, WINDOW, LOG, MANY };
static const char *const table_names[] = { "exact", "lines", "window", "log", "many" };

/* One token, one more a second; `after` refusals within 10 s ban for 60 s. */
static struct lg_rule *ban_rule(struct progs *p, enum table table, uint32_t after, uint64_t max_ns)
{
	struct lg_rule *rule;

	if (table == WINDOW || table == LOG)
		rule = progs_window_rule(p, table == WINDOW ? LG_RULE_FIXED_WINDOW : LG_RULE_SLIDING_LOG, 1, S);
	else
		rule = progs_rule(p, 1);
	rule->rate_tok = 1;
	if (table != WINDOW && table != LOG)
		assert_int_equal(lg_rate_init(1, S, 1, START_NS, &rule->rate), 0);
	if (table == LINES)
		progs_in_lines(p, rule, 64, START_NS);
	rule->special = LG_SPECIAL_BAN;
	rule->ban = (struct lg_ban_terms){ .after = after, .within_ns = 10 * S, .for_ns = 60 * S, .max_ns = max_ns };
	if (table == MANY)
		progs_rule(p, 1000000);
	progs_publish(p);
	return rule;
}

static bool ban_of(struct progs *p, const char *source, struct lg_ban *ret)
{
	struct lg_key key = progs_key(1, source);

	return bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.bans), &key, ret) == 0;
}

/* Spends the token and is refused n times. */
static void offend(struct progs *p, enum lg_hook hook, const char *source, int n, bool has_token)
{
	if (has_token)
		expect_from(p, hook, source, LG_PASS_ADMITTED);
	for (int i = 0; i < n; i++)
		expect_from(p, hook, source, LG_DROP_LIMIT);
}

static void a_key_that_is_refused_too_often_is_banned_for_a_time(void **state)
{
	(void)state;
	for (enum table table = EXACT; table <= MANY; table++) {
		for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
			struct progs *p = fresh();
			struct lg_ban ban;

			print_message("%s, %s\n", table_names[table], hook_names[hook]);
			ban_rule(p, table, 5, 0);
			offend(p, hook, "10.0.0.1", 4, true);
			assert_false(ban_of(p, "10.0.0.1", &ban));
			offend(p, hook, "10.0.0.1", 1, false);
			assert_true(ban_of(p, "10.0.0.1", &ban));
			assert_int_equal(ban.until_ns, START_NS + 60 * S);
			assert_int_equal(ban.times, 1);
			/* Whatever tokens there are by now: it is shut out, and nobody else. */
			progs_now(p, START_NS + 60 * S - 1);
			expect_from(p, hook, "10.0.0.1", LG_DROP_BANNED);
			expect_from(p, hook, "10.0.0.2", LG_PASS_ADMITTED);
			progs_now(p, START_NS + 60 * S);
			offend(p, hook, "10.0.0.1", 4, true);
			assert_int_equal(progs_rule_count(p, 1, LG_DROP_BANNED).packets, 1);
		}
	}
}

static void refusals_count_together_only_within_their_time(void **state)
{
	uint64_t units = (10 * S + LG_STRIKE_UNIT_NS - 1) / LG_STRIKE_UNIT_NS * LG_STRIKE_UNIT_NS;
	uint64_t start_ns = (START_NS / LG_STRIKE_UNIT_NS + 1) * LG_STRIKE_UNIT_NS;
	struct lg_ban ban;
	struct progs *p;

	(void)state;
	for (int late = 0; late < 2; late++) {
		p = fresh();
		ban_rule(p, EXACT, 3, 0)->rate.burst_vt = 0; /* refuses all, though not by its limit */
		progs_publish(p);
		progs_now(p, start_ns);
		offend(p, LG_HOOK_XDP, "10.0.0.1", 2, false);
		progs_now(p, start_ns + units - !late);
		offend(p, LG_HOOK_XDP, "10.0.0.1", 1, false);
		assert_int_equal(ban_of(p, "10.0.0.1", &ban), !late);
		/* The late one began anew. */
		offend(p, LG_HOOK_XDP, "10.0.0.1", late, false);
		assert_int_equal(ban_of(p, "10.0.0.1", &ban), !late);
		if (late)
			offend(p, LG_HOOK_XDP, "10.0.0.1", 1, false);
		assert_true(ban_of(p, "10.0.0.1", &ban));
	}
}

/* Bans the key at this time; returns for how long. */
static uint64_t banned_for(struct progs *p, const char *source, uint64_t now_ns)
{
	struct lg_ban ban;

	progs_now(p, now_ns);
	offend(p, LG_HOOK_XDP, source, 2, true);
	expect_from(p, LG_HOOK_XDP, source, LG_DROP_BANNED);
	assert_true(ban_of(p, source, &ban));
	assert_int_equal(ban.since_ns, now_ns);
	return ban.until_ns - now_ns;
}

static void a_ban_doubles_while_the_key_comes_back_up_to_its_maximum(void **state)
{
	struct progs *p = fresh();
	uint64_t now_ns = START_NS;

	(void)state;
	ban_rule(p, EXACT, 2, 300 * S);
	assert_int_equal(banned_for(p, "10.0.0.1", now_ns), 60 * S);
	now_ns += 60 * S;
	assert_int_equal(banned_for(p, "10.0.0.1", now_ns), 120 * S);
	now_ns += 120 * S + 300 * S - 1;
	assert_int_equal(banned_for(p, "10.0.0.1", now_ns), 240 * S);
	now_ns += 240 * S;
	assert_int_equal(banned_for(p, "10.0.0.1", now_ns), 300 * S);
	now_ns += 300 * S;
	assert_int_equal(banned_for(p, "10.0.0.1", now_ns), 300 * S);
	/* It behaved for as long as the longest ban: all is forgotten. */
	now_ns += 300 * S + 300 * S;
	assert_int_equal(banned_for(p, "10.0.0.1", now_ns), 60 * S);
}

static void without_a_maximum_each_ban_is_as_long(void **state)
{
	struct progs *p = fresh();

	(void)state;
	ban_rule(p, EXACT, 2, 0);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(banned_for(p, "10.0.0.1", START_NS + i * 60 * S), 60 * S);
}

static void a_ban_outlasts_a_change_of_the_limit_and_ends_with_the_rules_own(void **state)
{
	struct progs *p = fresh();
	struct lg_rule *rule = ban_rule(p, EXACT, 2, 0);

	(void)state;
	offend(p, LG_HOOK_XDP, "10.0.0.1", 2, true);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_DROP_BANNED);
	assert_int_equal(lg_rate_change(&rule->rate, 100, S, 100, START_NS, &rule->rate), 0);
	rule->cold_burst_tok = 100;
	progs_publish(p);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_DROP_BANNED);
	rule->special = 0;
	progs_publish(p);
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_PASS_ADMITTED);
}

static void nobody_is_banned_for_what_strangers_do(void **state)
{
	struct progs *p = fresh();
	struct lg_rule *rule = ban_rule(p, EXACT, 2, 0);
	struct lg_ban ban;
	char source[32];
	int n = 0;

	(void)state;
	rule->on_full = LG_ON_FULL_OVERFLOW;
	progs_publish(p);
	/* Those who find the table full share buckets, which refuse them over and over. */
	for (int i = 0; i < 2000; i++) {
		struct lg_pkt_buf pkt;

		snprintf(source, sizeof(source), "10.0.%d.%d", i / 250, i % 250);
		pkt = progs_udp(source, "192.0.2.1", 53);
		for (int k = 0; k < (i < 1024 ? 1 : 10); k++)
			progs_run(p, LG_HOOK_XDP, &pkt);
		n += ban_of(p, source, &ban);
	}
	assert_true(progs_shared(p).map_full > 900);
	assert_int_equal(n, 0);
}

static void a_full_table_of_bans_is_counted_and_the_limit_still_holds(void **state)
{
	static struct lg_key keys[LG_BANS_MAX];
	static struct lg_ban bans[LG_BANS_MAX];
	struct progs *p = fresh();
	uint32_t n = LG_BANS_MAX;
	struct lg_ban ban;
	int fd = bpf_map__fd(p->skel->maps.bans);

	(void)state;
	ban_rule(p, EXACT, 2, 0);
	for (uint32_t i = 0; i < n; i++) {
		keys[i] = (struct lg_key){ .rule_id = 2, .form = LG_FORM_SOURCE };
		memcpy(keys[i].a, &i, sizeof(i));
		bans[i].until_ns = START_NS + 1000 * S;
	}
	assert_int_equal(bpf_map_update_batch(fd, keys, bans, &n, NULL), 0);
	offend(p, LG_HOOK_XDP, "10.0.0.1", 2, true);
	assert_false(ban_of(p, "10.0.0.1", &ban));
	assert_int_equal(progs_shared(p).bans_full, 1);
	offend(p, LG_HOOK_XDP, "10.0.0.1", 1, false);
	assert_int_equal(bpf_map_delete_elem(fd, &keys[7]), 0);
	offend(p, LG_HOOK_XDP, "10.0.0.1", 1, false);
	assert_true(ban_of(p, "10.0.0.1", &ban));
	expect_from(p, LG_HOOK_XDP, "10.0.0.1", LG_DROP_BANNED);
}

/* Many keys that are refused now and then do not keep one from its ban that is refused again and again. */
static void a_flood_of_keys_shelters_no_offender(void **state)
{
	enum { CROWD = 4000, ROUNDS = 5, EVERY = 100 };
	struct progs *p = fresh();
	struct lg_pkt_buf offender = progs_udp("198.51.100.7", "192.0.2.1", 53);
	int banned = 0, sent = 0;
	struct lg_ban ban;
	char source[32];

	(void)state;
	ban_rule(p, LINES, 20, 0);
	progs_in_lines(p, &p->set.rules[0], 4096, START_NS);
	progs_publish(p);
	for (int i = 0; i < ROUNDS * CROWD; i++) {
		struct lg_pkt_buf pkt;

		snprintf(source, sizeof(source), "10.0.%d.%d", i % CROWD / 250, i % CROWD % 250);
		pkt = progs_udp(source, "192.0.2.1", 53);
		progs_run(p, LG_HOOK_XDP, &pkt);
		banned += ban_of(p, source, &ban);
		if (i % EVERY || ban_of(p, "198.51.100.7", &ban))
			continue;
		progs_run(p, LG_HOOK_XDP, &offender);
		sent++;
	}
	assert_true(ban_of(p, "198.51.100.7", &ban));
	/* One that is let through, and 20; some more where one of the crowd has the same word. */
	assert_in_range(sent, 21, 31);
	assert_true(progs_rule_count(p, 1, LG_DROP_LIMIT).packets > (ROUNDS - 1) * CROWD);
	assert_int_equal(banned, 0);
}

struct cpu {
	pthread_t thread;
	struct progs *p;
	int cpu;
	int n;
};

static void *cpu_run(void *arg)
{
	struct lg_pkt_buf pkt = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct cpu *c = arg;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(c->cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	repeat(c->p, LG_HOOK_XDP, &pkt, c->n);
	return NULL;
}

/* Refusals are counted exactly, whichever CPU they happen on; and one of the two bans, once. */
static void two_cpus_count_to_one_ban(void **state)
{
	for (int round = 0; round < 20; round++) {
		struct progs *p = fresh();
		struct cpu cpus[2] = { { .p = p, .cpu = 0, .n = 5000 }, { .p = p, .cpu = p->n_cpus > 1, .n = 5000 } };
		uint64_t limit, banned;
		struct lg_ban ban;

		(void)state;
		ban_rule(p, EXACT, 1000, 600 * S);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&cpus[i].thread, NULL, cpu_run, &cpus[i]), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_join(cpus[i].thread, NULL), 0);
		limit = progs_rule_count(p, 1, LG_DROP_LIMIT).packets;
		banned = progs_rule_count(p, 1, LG_DROP_BANNED).packets;
		assert_int_equal(limit + banned + progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 10000);
		/* And those that the other CPU refuses while the ban is written down. */
		assert_in_range(limit, 1000, 1500);
		assert_true(ban_of(p, "10.0.0.1", &ban));
		assert_int_equal(ban.times, 1);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_prefix_decides),
		cmocka_unit_test(every_address_of_one_family_is_not_the_other_family),
		cmocka_unit_test(what_goes_out_is_looked_up_by_its_destination),
		cmocka_unit_test(an_entry_whose_time_is_over_leaves_it_to_the_next_shorter_one),
		cmocka_unit_test(the_operators_word_goes_before_the_files_while_it_holds),
		cmocka_unit_test(a_chain_of_dead_prefixes_is_walked_to_its_end),
		cmocka_unit_test(what_keeps_the_link_alive_is_on_no_list),
		cmocka_unit_test(ten_thousand_prefixes_decide_as_a_plain_search_does),
		cmocka_unit_test(an_exemption_passes_what_rules_and_lists_refuse),
		cmocka_unit_test(a_flood_of_what_is_exempt_is_bounded_and_crowds_out_no_other_kind),
		cmocka_unit_test(a_key_that_is_refused_too_often_is_banned_for_a_time),
		cmocka_unit_test(refusals_count_together_only_within_their_time),
		cmocka_unit_test(a_ban_doubles_while_the_key_comes_back_up_to_its_maximum),
		cmocka_unit_test(without_a_maximum_each_ban_is_as_long),
		cmocka_unit_test(a_ban_outlasts_a_change_of_the_limit_and_ends_with_the_rules_own),
		cmocka_unit_test(nobody_is_banned_for_what_strangers_do),
		cmocka_unit_test(a_full_table_of_bans_is_counted_and_the_limit_still_holds),
		cmocka_unit_test(a_flood_of_keys_shelters_no_offender),
		cmocka_unit_test(two_cpus_count_to_one_ban),
	};

	return cmocka_run_group_tests(tests, NULL, unload);
}
