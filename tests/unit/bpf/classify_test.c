// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/classify.h on the host: the branchless scan against a matcher that is plainly right, and keys of packets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include "classify.h"
#include "base/mem.h"

static uint64_t rng;

static uint64_t random_below(uint64_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng % n;
}

static int seed_random(void **state)
{
	const char *seed = getenv("SEED");

	(void)state;
	rng = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
	print_message("SEED=%llu replays this run\n", (unsigned long long)rng);
	return 0;
}

static void put_address(uint8_t at[16], const char *text)
{
	memset(at, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, at), 1);
		return;
	}
	at[10] = at[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, text, at + 12), 1);
}

static void put_mask(uint8_t at[16], uint32_t bits)
{
	for (uint32_t i = 0; i < 16; i++)
		at[i] = bits >= 8 * (i + 1) ? 0xff : bits <= 8 * i ? 0
								   : (uint8_t)(0xff << (8 - bits % 8));
}

static struct lg_pkt packet(const char *source, const char *destination, uint8_t protocol, int port)
{
	struct lg_pkt pkt = { .protocol = protocol, .family = strchr(source, ':') ? LG_RULE_IPV6 : LG_RULE_IPV4 };

	put_address((uint8_t *)&pkt.source, source);
	put_address((uint8_t *)&pkt.destination, destination);
	pkt.has_port = port >= 0;
	pkt.destination_port = port >= 0 ? (uint16_t)port : 0;
	return pkt;
}

/* A rule for a prefix of the source; bits counted as in the address written. */
static struct lg_rule prefix_rule(const char *source, uint32_t bits)
{
	struct lg_rule rule = { .rule_id = 1, .flags = LG_RULE_IPV4 | LG_RULE_IPV6, .key_form = LG_FORM_SOURCE };

	put_address(rule.source, source);
	put_mask(rule.source_mask, strchr(source, ':') ? bits : 96 + bits);
	for (uint32_t i = 0; i < 16; i++)
		rule.source[i] &= rule.source_mask[i];
	return rule;
}

static void the_lowest_bit_of_every_word_is_found(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 64; i++) {
		assert_int_equal(lg_lowest_bit(1ull << i), i);
		assert_int_equal(lg_lowest_bit(~0ull << i), i);
	}
}

static void zero_is_told_from_all_else_without_a_branch(void **state)
{
	(void)state;
	assert_int_equal(lg_is_zero(0), 1);
	assert_int_equal(lg_is_zero(~0ull), 0);
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(lg_is_zero(1ull << i), 0);
}

static void prefixes_match_inside_and_not_just_outside(void **state)
{
	static const struct {
		const char *prefix;
		uint32_t bits;
		const char *inside, *outside; /* outside NULL: there is none */
	} rows[] = {
		{ "0.0.0.0", 0, "203.0.113.9", "2001:db8::1" },
		{ "128.0.0.0", 1, "128.0.0.0", "127.255.255.255" },
		{ "10.1.0.0", 16, "10.1.255.255", "10.2.0.0" },
		{ "10.0.0.2", 31, "10.0.0.3", "10.0.0.4" },
		{ "10.0.0.1", 32, "10.0.0.1", "10.0.0.0" },
		{ "::", 0, "2001:db8::1", NULL },
		{ "2001:db8::", 63, "2001:db8:0:1::", "2001:db8:0:2::" },
		{ "2001:db8::", 64, "2001:db8::ffff:ffff:ffff:ffff", "2001:db8:0:1::" },
		{ "2001:db8::", 65, "2001:db8::7fff:0:0:0", "2001:db8::8000:0:0:0" },
		{ "2001:db8::2", 127, "2001:db8::3", "2001:db8::1" },
		{ "2001:db8::1", 128, "2001:db8::1", "2001:db8::" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_rule rule = prefix_rule(rows[i].prefix, rows[i].bits);
		struct lg_pkt pkt = packet(rows[i].inside, rows[i].inside, 17, 53);

		assert_int_equal(lg_rule_miss(&rule, &pkt), 0);
		/* As the destination's prefix it is the same */
		memcpy(rule.destination, rule.source, 16);
		memcpy(rule.destination_mask, rule.source_mask, 16);
		memset(rule.source_mask, 0, 16);
		assert_int_equal(lg_rule_miss(&rule, &pkt), 0);
		if (!rows[i].outside)
			continue;
		pkt = packet(rows[i].outside, rows[i].outside, 17, 53);
		assert_int_not_equal(lg_rule_miss(&rule, &pkt), 0);
		rule = prefix_rule(rows[i].prefix, rows[i].bits);
		assert_int_not_equal(lg_rule_miss(&rule, &pkt), 0);
	}
}

static void a_family_that_the_rule_does_not_name_does_not_match(void **state)
{
	struct lg_pkt v4 = packet("10.0.0.1", "10.0.0.2", 17, 53), v6 = packet("2001:db8::1", "2001:db8::2", 17, 53);
	struct lg_rule rule = { .flags = LG_RULE_IPV4 };

	(void)state;
	assert_int_equal(lg_rule_miss(&rule, &v4), 0);
	assert_int_not_equal(lg_rule_miss(&rule, &v6), 0);
	rule.flags = LG_RULE_IPV6;
	assert_int_not_equal(lg_rule_miss(&rule, &v4), 0);
	assert_int_equal(lg_rule_miss(&rule, &v6), 0);
	rule.flags = 0;
	assert_int_not_equal(lg_rule_miss(&rule, &v4), 0);
}

static void a_protocol_is_compared_only_where_the_rule_says_so(void **state)
{
	struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 6, 53);
	struct lg_rule rule = { .flags = LG_RULE_IPV4, .protocol = 17 };

	(void)state;
	assert_int_equal(lg_rule_miss(&rule, &pkt), 0);
	rule.flags |= LG_RULE_PROTOCOL;
	assert_int_not_equal(lg_rule_miss(&rule, &pkt), 0);
	rule.protocol = 6;
	assert_int_equal(lg_rule_miss(&rule, &pkt), 0);
	rule.protocol = 0; /* hop-by-hop: a number like any other */
	assert_int_not_equal(lg_rule_miss(&rule, &pkt), 0);
}

static void port_ranges_include_both_ends(void **state)
{
	static const struct {
		int port;
		bool want;
	} ports[] = {
		{ -1, false },
		{ 0, true },
		{ 1, false },
		{ 52, false },
		{ 53, true },
		{ 54, false },
		{ 7999, false },
		{ 8000, true },
		{ 8099, true },
		{ 8100, false },
		{ 65534, false },
		{ 65535, true },
	};
	struct lg_rule rule = { .flags = LG_RULE_IPV4, .n_ports = 4 };

	(void)state;
	rule.ports[0] = (struct lg_port_range){ 53, 53 };
	rule.ports[1] = (struct lg_port_range){ 8000, 8099 };
	rule.ports[2] = (struct lg_port_range){ 65535, 65535 };
	rule.ports[3] = (struct lg_port_range){ 0, 0 };
	for (size_t i = 0; i < N_ELEMS(ports); i++) {
		struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 17, ports[i].port);

		assert_int_equal(lg_rule_miss(&rule, &pkt) == 0, ports[i].want);
	}
	rule.n_ports = 0; /* without ranges a packet without ports matches too */
	for (size_t i = 0; i < N_ELEMS(ports); i++) {
		struct lg_pkt pkt = packet("10.0.0.1", "10.0.0.2", 17, ports[i].port);

		assert_int_equal(lg_rule_miss(&rule, &pkt), 0);
	}
}

static void all_eight_ranges_are_looked_at_and_no_more(void **state)
{
	struct lg_rule rule = { .flags = LG_RULE_IPV4 };
	struct lg_pkt pkt;

	(void)state;
	for (uint16_t i = 0; i < LG_PORT_RANGES_MAX; i++)
		rule.ports[i] = (struct lg_port_range){ (uint16_t)(100 + i), (uint16_t)(100 + i) };
	for (uint8_t n = 1; n <= LG_PORT_RANGES_MAX; n++) {
		rule.n_ports = n;
		for (int i = 0; i < LG_PORT_RANGES_MAX; i++) {
			pkt = packet("10.0.0.1", "10.0.0.2", 17, 100 + i);
			assert_int_equal(lg_rule_miss(&rule, &pkt) == 0, i < n);
		}
	}
}

/* ---- against a plain matcher ---- */

static bool plainly_matches(const struct lg_rule *rule, const struct lg_pkt *pkt)
{
	const uint8_t *source = (const uint8_t *)&pkt->source, *destination = (const uint8_t *)&pkt->destination;
	bool in_range = !rule->n_ports;

	for (int i = 0; i < 16; i++) {
		if ((source[i] & rule->source_mask[i]) != (rule->source[i] & rule->source_mask[i]) ||
		    (destination[i] & rule->destination_mask[i]) != (rule->destination[i] & rule->destination_mask[i]))
			return false;
	}
	for (int i = 0; i < rule->n_ports; i++)
		in_range |= pkt->has_port && pkt->destination_port >= rule->ports[i].lo && pkt->destination_port <= rule->ports[i].hi;
	return in_range && rule->flags & pkt->family && (!(rule->flags & LG_RULE_PROTOCOL) || rule->protocol == pkt->protocol);
}

static const char *const addresses[] = { "10.0.0.1", "10.0.0.2", "10.0.1.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:1::1" };

static struct lg_rule random_rule(void)
{
	struct lg_rule rule = prefix_rule(addresses[random_below(N_ELEMS(addresses))], (uint32_t)random_below(33));
	struct lg_rule other = prefix_rule(addresses[random_below(N_ELEMS(addresses))], (uint32_t)random_below(33));

	memcpy(rule.destination, other.source, 16);
	memcpy(rule.destination_mask, other.source_mask, 16);
	rule.flags = (uint32_t)random_below(128);
	rule.protocol = random_below(2) ? 6 : 17;
	rule.n_ports = (uint8_t)(random_below(2) ? random_below(LG_PORT_RANGES_MAX + 1) : 0);
	for (int i = 0; i < rule.n_ports; i++) {
		rule.ports[i].lo = (uint16_t)random_below(100);
		rule.ports[i].hi = (uint16_t)(rule.ports[i].lo + random_below(30));
	}
	return rule;
}

static struct lg_pkt random_packet(void)
{
	size_t first = random_below(2) ? 0 : 4, n = first ? 3 : 4;

	return packet(addresses[first + random_below(n)], addresses[first + random_below(n)], random_below(2) ? 6 : 17,
		      (int)random_below(131) - 1);
}

static void the_scan_finds_exactly_the_rules_that_match(void **state)
{
	static struct lg_ruleset set;
	uint64_t want, n_hits = 0;

	(void)state;
	for (int round = 0; round < 400; round++) {
		set.n_rules = (uint32_t)random_below(LG_RULES_MAX + 1);
		for (uint32_t i = 0; i < LG_RULES_MAX; i++)
			set.rules[i] = random_rule();
		for (int n = 0; n < 50; n++) {
			struct lg_pkt pkt = random_packet();

			want = 0;
			for (uint32_t i = 0; i < set.n_rules; i++)
				want |= (uint64_t)plainly_matches(&set.rules[i], &pkt) << i;
			assert_true(lg_classify(&set, &pkt) == want);
			n_hits += want != 0;
		}
	}
	assert_true(n_hits > 400);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_bit_of_every_word_is_found),
		cmocka_unit_test(zero_is_told_from_all_else_without_a_branch),
		cmocka_unit_test(prefixes_match_inside_and_not_just_outside),
		cmocka_unit_test(a_family_that_the_rule_does_not_name_does_not_match),
		cmocka_unit_test(a_protocol_is_compared_only_where_the_rule_says_so),
		cmocka_unit_test(port_ranges_include_both_ends),
		cmocka_unit_test(all_eight_ranges_are_looked_at_and_no_more),
		cmocka_unit_test(the_scan_finds_exactly_the_rules_that_match),
	};

	return cmocka_run_group_tests(tests, seed_random, NULL);
}
