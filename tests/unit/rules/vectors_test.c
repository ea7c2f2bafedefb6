// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The classifier as packets see it, bpf/classify.h on tables of rules/vectors, against a plain comparison of each rule. */
#include "rules/vectors.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include "classify.h"
#include "rules/prefix_tree.h"
#include "tests/lib/plain_match.h"

static struct lg_classifier classifier;
static struct plain plain;
static struct lg_complaint complaint;

static int seed_random(void **state)
{
	(void)state;
	plain.rng = chance_seed();
	return 0;
}

static int build(void)
{
	const struct lg_match *matches[LG_RULES_MAX];

	for (size_t i = 0; i < plain.n; i++)
		matches[i] = &plain.v[i];
	return lg_vectors_build(matches, plain.n, plain_interfaces, &classifier, &complaint);
}

static void build_ok(void)
{
	if (build() < 0)
		fail_msg("%s", complaint.text);
}

/* One packet; returns how many rules it matches. */
static unsigned int packet_check(const struct lg_pkt *pkt, const char *interface)
{
	struct lg_bits bits;

	lg_classify(&classifier, pkt, &bits);
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (lg_bits_have(&bits, i) != (i < plain.n && plain_match(&plain.v[i], pkt, interface)))
			fail_msg("rule %zu of %zu: the classifier says %d", i, plain.n, lg_bits_have(&bits, i));
	return lg_bits_count(&bits);
}

static void a_packet_matches_exactly_the_rules_that_a_plain_comparison_finds(void **state)
{
	static const size_t counts[] = { 0, 1, 2, 3, 8, 40, 63, 64, 65, 128, 192, 255, 256 };
	unsigned long long n_packets = 0, n_hits = 0;

	(void)state;
	for (int round = 0; round < 8; round++) {
		for (size_t k = 0; k < N_ELEMS(counts); k++) {
			plain_rules(&plain, counts[k]);
			build_ok();
			for (int n = 0; n < 400; n++) {
				struct lg_pkt pkt;
				const char *interface = plain_packet(&plain, &pkt);

				n_hits += packet_check(&pkt, interface) > 0;
				n_packets++;
			}
		}
	}
	print_message("%llu packets, %llu match\n", n_packets, n_hits);
	assert_true(n_hits > n_packets / 3 && n_hits < n_packets);
}

/* ---- edges, one by one ---- */

static void put_address(struct lg_addr *ret, const char *text)
{
	uint8_t *at = (uint8_t *)ret;

	memset(at, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, at), 1);
		return;
	}
	at[10] = at[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, at + 12), 1);
}

static struct lg_pkt packet(const char *source, const char *destination, uint8_t protocol, int port)
{
	struct lg_pkt pkt = { .protocol = protocol, .family = strchr(source, ':') ? LG_RULE_IPV6 : LG_RULE_IPV4 };

	put_address(&pkt.source, source);
	put_address(&pkt.destination, destination);
	pkt.has_port = port >= 0;
	pkt.destination_port = port >= 0 ? (uint16_t)port : 0;
	pkt.ethertype = pkt.family == LG_RULE_IPV4 ? 0x0800 : 0x86dd;
	return pkt;
}

/* A set of one rule. */
static struct lg_match *one_rule(void)
{
	plain.n = 1;
	memset(&plain.v[0], 0, sizeof(plain.v[0]));
	return &plain.v[0];
}

static struct lg_prefix_list prefix(const char *text, uint8_t len)
{
	static struct lg_prefix v;
	struct lg_addr addr;

	put_address(&addr, text);
	memcpy(v.addr, &addr, sizeof(v.addr));
	v.family = strchr(text, ':') ? 6 : 4;
	v.len = len;
	return (struct lg_prefix_list){ .n = 1, .v = &v };
}

static bool is_match(const struct lg_pkt *pkt)
{
	struct lg_bits bits;

	lg_classify(&classifier, pkt, &bits);
	assert_in_range(lg_bits_count(&bits), 0, 1);
	return lg_bits_have(&bits, 0);
}

static void prefixes_match_inside_and_not_just_outside(void **state)
{
	static const struct {
		const char *prefix;
		uint8_t bits;
		const char *inside, *outside; /* outside NULL: there is none */
	} rows[] = {
		{ "0.0.0.0", 0, "203.0.113.9", "2001:db8::1" },
		{ "128.0.0.0", 1, "128.0.0.0", "127.255.255.255" },
		{ "10.1.0.0", 16, "10.1.255.255", "10.2.0.0" },
		{ "10.0.0.2", 31, "10.0.0.3", "10.0.0.4" },
		{ "10.0.0.1", 32, "10.0.0.1", "10.0.0.0" },
		{ "255.255.255.255", 32, "255.255.255.255", "255.255.255.254" },
		{ "10.0.0.0", 8, "::ffff:10.1.2.3", "::10.1.2.3" },
		{ "::", 0, "2001:db8::1", "10.0.0.1" },
		{ "::", 0, "::ffff:10.0.0.1", NULL },
		{ "8000::", 1, "8000::", "7fff:ffff::" },
		{ "2001:db8::", 63, "2001:db8:0:1::", "2001:db8:0:2::" },
		{ "2001:db8::", 64, "2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::" },
		{ "2001:db8::", 65, "2001:db8::7fff:0:0:0", "2001:db8::8000:0:0:0" },
		{ "2001:db8::2", 127, "2001:db8::3", "2001:db8::1" },
		{ "2001:db8::1", 128, "2001:db8::1", "2001:db8::" },
		{ "2001:db8::1", 128, "2001:db8::1", "2001:db9::1" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_pkt in = packet(rows[i].inside, rows[i].inside, 17, 53), out = in;

		if (rows[i].outside)
			out = packet(rows[i].outside, rows[i].outside, 17, 53);
		for (int is_source = 0; is_source < 2; is_source++) {
			struct lg_match *match = one_rule();

			*(is_source ? &match->source : &match->destination) = prefix(rows[i].prefix, rows[i].bits);
			build_ok();
			assert_true(is_match(&in));
			assert_int_equal(is_match(&out), !rows[i].outside);
		}
	}
}

static void port_ranges_include_both_ends(void **state)
{
	static const struct {
		int port;
		bool want;
	} ports[] = {
		{ -1, false }, { 0, true },	{ 1, false },	 { 52, false },	   { 53, true },     { 54, false },
		{ 7999, false }, { 8000, true }, { 8099, true }, { 8100, false }, { 65534, false }, { 65535, true },
	};
	static const struct lg_ranges ranges = { .n = 4, .v = { { 0, 0 }, { 53, 53 }, { 8000, 8099 }, { 65535, 65535 } } };

	(void)state;
	one_rule()->destination_ports = ranges;
	build_ok();
	for (size_t i = 0; i < N_ELEMS(ports); i++) {
		struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 17, ports[i].port);

		assert_int_equal(is_match(&pkt), ports[i].want);
		pkt.source_port = pkt.destination_port + 1;
		assert_int_equal(is_match(&pkt), ports[i].want);
	}
	one_rule()->source_ports = ranges;
	build_ok();
	for (size_t i = 0; i < N_ELEMS(ports); i++) {
		struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 17, ports[i].port);

		pkt.source_port = pkt.destination_port;
		pkt.destination_port = 1;
		assert_int_equal(is_match(&pkt), ports[i].want);
	}
	one_rule(); /* without ranges a packet without ports matches too */
	build_ok();
	for (size_t i = 0; i < N_ELEMS(ports); i++) {
		struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 17, ports[i].port);

		assert_true(is_match(&pkt));
	}
}

static void a_protocol_is_compared_only_where_the_rule_says_so(void **state)
{
	struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 6, 53);

	(void)state;
	one_rule()->protocol = 17;
	build_ok();
	assert_true(is_match(&pkt));
	one_rule()->has_protocol = true; /* hop-by-hop, 0: a number like any other */
	build_ok();
	assert_false(is_match(&pkt));
	one_rule()->has_protocol = true;
	plain.v[0].protocol = 6;
	build_ok();
	assert_true(is_match(&pkt));
}

static void frames_that_are_no_ip_match_only_rules_with_their_ethertype(void **state)
{
	struct lg_pkt lldp = { .family = LG_RULE_NOT_IP, .ethertype = 0x88cc }, ip = packet("10.0.0.1", "10.0.0.2", 17, 0x88cc);

	(void)state;
	one_rule();
	build_ok();
	assert_false(is_match(&lldp));
	one_rule()->ethertype.has = true;
	plain.v[0].ethertype.value = 0x88cc;
	build_ok();
	assert_true(is_match(&lldp));
	assert_false(is_match(&ip));
	lldp.ethertype++;
	assert_false(is_match(&lldp));
	plain.v[0].ethertype.value = 0x0800;
	build_ok();
	assert_true(is_match(&ip));
	assert_false(is_match(&lldp));
}

static void tags_are_1_to_4095_and_none(void **state)
{
	struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 17, 53);

	(void)state;
	for (int untagged = 0; untagged < 2; untagged++) {
		one_rule()->vlans = (struct lg_vlans){ untagged, { .n = 2, .v = { { 0, 1 }, { 4094, 4095 } } } };
		build_ok();
		for (uint32_t tag = 0; tag <= 4096; tag++) {
			pkt.vlan = (uint16_t)tag;
			assert_int_equal(is_match(&pkt), tag ? tag - 1 < 2 || tag - 1 > 4093 : untagged);
		}
	}
	pkt.vlan = 3;
	one_rule()->inner_vlans.untagged = true;
	build_ok();
	assert_true(is_match(&pkt));
	pkt.inner_vlan = 1;
	assert_false(is_match(&pkt));
}

/* ---- sizes ---- */

/* The most prefixes there may be, all in both ends' lists, each rule with sets that no other has. */
static void sets_of_thousands_of_prefixes_fit(void **state)
{
	static struct lg_prefix v[4][4096];
	struct lg_pkt pkt;

	(void)state;
	for (int family = 4; family <= 6; family += 2) {
		plain.n = 4;
		for (size_t set = 0; set < 4; set++) {
			for (size_t i = 0; i < 4096; i++) {
				v[set][i] = (struct lg_prefix){ .family = (uint8_t)family, .len = family == 4 ? 32 : 128 };
				for (size_t k = family == 4 ? 12 : 0; k < 16; k++)
					v[set][i].addr[k] = (uint8_t)plain_below(&plain, 256);
				if (family == 4)
					v[set][i].addr[10] = v[set][i].addr[11] = 0xff;
			}
			memset(&plain.v[set], 0, sizeof(plain.v[set]));
			plain.v[set].source = (struct lg_prefix_list){ .n = 4096, .v = v[set], .set_name = "set" };
			plain.v[set].destination = plain.v[3 - set].source;
		}
		for (size_t set = 0; set < 4; set++)
			plain.v[set].destination = plain.v[3 - set].source;
		build_ok();
		for (int i = 0; i < 300; i++) {
			const char *interface = plain_packet(&plain, &pkt);

			packet_check(&pkt, interface);
		}
	}
}

/* Prefixes each inside the one before, as deep as they go. */
static void nested_prefixes_are_told_apart_at_every_length(void **state)
{
	static struct lg_prefix v[129];
	struct lg_pkt pkt = packet("2001:db8::1", "2001:db8::2", 17, 53);
	uint8_t *source = (uint8_t *)&pkt.source;
	struct lg_bits bits;

	(void)state;
	plain.n = 129;
	for (uint32_t len = 0; len <= 128; len++) {
		v[len] = (struct lg_prefix){ .family = 6, .len = (uint8_t)len };
		memset(v[len].addr, 0xa5, 16);
		plain_mask(&v[len]);
		memset(&plain.v[len], 0, sizeof(plain.v[len]));
		plain.v[len].source = (struct lg_prefix_list){ .n = 1, .v = &v[len] };
	}
	build_ok();
	for (uint32_t len = 0; len <= 128; len++) {
		memset(source, 0xa5, 16);
		if (len < 128)
			source[len / 8] ^= (uint8_t)(0x80 >> len % 8);
		lg_classify(&classifier, &pkt, &bits);
		assert_int_equal(lg_bits_count(&bits), len + 1);
		assert_true(lg_bits_have(&bits, len));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_matches_exactly_the_rules_that_a_plain_comparison_finds),
		cmocka_unit_test(prefixes_match_inside_and_not_just_outside),
		cmocka_unit_test(port_ranges_include_both_ends),
		cmocka_unit_test(a_protocol_is_compared_only_where_the_rule_says_so),
		cmocka_unit_test(frames_that_are_no_ip_match_only_rules_with_their_ethertype),
		cmocka_unit_test(tags_are_1_to_4095_and_none),
		cmocka_unit_test(sets_of_thousands_of_prefixes_fit),
		cmocka_unit_test(nested_prefixes_are_told_apart_at_every_length),
	};

	return cmocka_run_group_tests(tests, seed_random, NULL);
}
