// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/key.h on the host: the key of a packet under a rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include "key.h"
#include "base/mem.h"

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

/* As the parser leaves it, all narrow parts set and different. */
static struct lg_pkt packet(const char *source, const char *destination)
{
	struct lg_pkt pkt = {
		.family = strchr(source, ':') ? LG_RULE_IPV6 : LG_RULE_IPV4,
		.cgroup_id = 0x1234567890,
		.ifindex = 77,
		.source_port = 40000,
		.destination_port = 53,
		.has_port = 1,
		.vlan = 209,
		.inner_vlan = 5,
		.protocol = 17,
	};

	put_address((uint8_t *)&pkt.source, source);
	put_address((uint8_t *)&pkt.destination, destination);
	pkt.source_is4 = lg_addr_is4(&pkt.source);
	pkt.destination_is4 = lg_addr_is4(&pkt.destination);
	return pkt;
}

static void a_key_is_the_masked_address_of_its_form(void **state)
{
	static const struct {
		enum lg_key_form form;
		const char *source, *destination;
		uint32_t bits4, bits6;
		const char *want; /* NULL: zeros */
	} rows[] = {
		{ LG_FORM_RULE, "10.1.2.3", "192.0.2.1", 32, 128, NULL },
		{ LG_FORM_SOURCE, "10.1.2.3", "192.0.2.1", 32, 64, "10.1.2.3" },
		{ LG_FORM_SOURCE, "10.1.2.3", "192.0.2.1", 24, 64, "10.1.2.0" },
		{ LG_FORM_SOURCE, "10.1.2.3", "192.0.2.1", 0, 64, "0.0.0.0" },
		{ LG_FORM_DESTINATION, "10.1.2.3", "192.0.2.129", 25, 64, "192.0.2.128" },
		{ LG_FORM_SOURCE, "2001:db8:1:2:3::4", "2001:db8::1", 24, 64, "2001:db8:1:2::" },
		{ LG_FORM_SOURCE, "2001:db8:1:2:3::4", "2001:db8::1", 24, 48, "2001:db8:1::" },
		{ LG_FORM_DESTINATION, "2001:db8:1:2:3::4", "2001:db8::1", 24, 128, "2001:db8::1" },
		{ LG_FORM_RULE, "2001:db8:1:2:3::4", "2001:db8::1", 24, 128, NULL },
		/* Mapped into IPv6 they are IPv4, with IPv4's mask, whatever the other end is. */
		{ LG_FORM_SOURCE, "::ffff:10.1.2.3", "2001:db8::1", 24, 64, "10.1.2.0" },
		{ LG_FORM_DESTINATION, "2001:db8::1", "::ffff:10.1.2.3", 16, 64, "10.1.0.0" },
		{ LG_FORM_SOURCE, "2001:db8::1", "::ffff:10.1.2.3", 16, 64, "2001:db8::" },
	};
	struct lg_key key, want;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_rule rule = { .rule_id = 9, .key_form = (uint8_t)rows[i].form };
		struct lg_pkt pkt = packet(rows[i].source, rows[i].destination);

		put_mask(rule.key_mask4, 96 + rows[i].bits4);
		put_mask(rule.key_mask6, rows[i].bits6);
		memset(&want, 0, sizeof(want));
		want.rule_id = 9;
		want.form = rows[i].form;
		if (rows[i].want)
			put_address(want.a, rows[i].want);
		memset(&key, 0xaa, sizeof(key));
		lg_key_make(&rule, &pkt, &key);
		assert_memory_equal(&key, &want, sizeof(key));
	}
}

/* ---- products ---- */

/* As rules are compiled: source /24 and /64, destination /32 and /128. */
static struct lg_rule product(uint32_t parts, bool hashed)
{
	struct lg_rule rule = { .rule_id = 9, .product_form = LG_FORM_PRODUCT | parts | (hashed ? LG_FORM_HASHED : 0), .hash_seed[0] = 7 };
	struct lg_key_narrow *mask = &rule.narrow_mask;

	if (parts & LG_KEY_SOURCE) {
		put_mask(rule.key_mask4, 96 + 24);
		put_mask(rule.key_mask6, 64);
	}
	if (parts & LG_KEY_DESTINATION) {
		put_mask(rule.destination_mask4, 128);
		put_mask(rule.destination_mask6, 128);
	}
	mask->source_port = parts & LG_KEY_SOURCE_PORT ? 0xffff : 0;
	mask->destination_port = parts & LG_KEY_DESTINATION_PORT ? 0xffff : 0;
	mask->vlan = parts & LG_KEY_VLAN ? 0xffff : 0;
	mask->inner_vlan = parts & LG_KEY_INNER_VLAN ? 0xffff : 0;
	mask->interface = parts & LG_KEY_INTERFACE ? ~0u : 0;
	mask->protocol = parts & LG_KEY_PROTOCOL ? 0xff : 0;
	return rule;
}

static struct lg_key product_key(uint32_t parts, bool hashed, const struct lg_pkt *pkt)
{
	struct lg_rule rule = product(parts, hashed);
	struct lg_key key;

	memset(&key, 0xaa, sizeof(key));
	lg_product_make(&rule, pkt, 99, &key);
	assert_int_equal(key.rule_id, 9);
	assert_int_equal(key.form, rule.product_form);
	return key;
}

static void two_addresses_stand_side_by_side(void **state)
{
	struct lg_pkt pkt = packet("10.1.2.3", "192.0.2.129");
	struct lg_key key = product_key(LG_KEY_SOURCE | LG_KEY_DESTINATION, false, &pkt);
	uint8_t want[16];

	(void)state;
	put_address(want, "10.1.2.0");
	assert_memory_equal(key.a, want, 16);
	put_address(want, "192.0.2.129");
	assert_memory_equal(key.b, want, 16);
}

static void each_narrow_part_stands_in_its_place(void **state)
{
	static const struct {
		uint32_t part;
		struct lg_key_narrow want;
	} rows[] = {
		{ LG_KEY_SOURCE_PORT, { .source_port = 40000 } },
		{ LG_KEY_DESTINATION_PORT, { .destination_port = 53 } },
		{ LG_KEY_VLAN, { .vlan = 209 } },
		{ LG_KEY_INNER_VLAN, { .inner_vlan = 5 } },
		{ LG_KEY_INTERFACE, { .interface = 77 } },
		{ LG_KEY_PROTOCOL, { .protocol = 17 } },
		{ LG_KEY_NARROW, { 40000, 53, 209, 5, 77, 17, { 0 } } },
	};
	struct lg_pkt pkt = packet("10.1.2.3", "192.0.2.129");
	uint8_t source[16], zero[16] = { 0 };
	struct lg_key key;

	(void)state;
	put_address(source, "10.1.2.0");
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		key = product_key(rows[i].part, false, &pkt);
		assert_memory_equal(key.a, zero, 16);
		assert_memory_equal(key.b, &rows[i].want, 16);
		key = product_key(rows[i].part | LG_KEY_SOURCE, false, &pkt);
		assert_memory_equal(key.a, source, 16);
		assert_memory_equal(key.b, &rows[i].want, 16);
	}
}

static void a_cgroup_is_a_wide_part(void **state)
{
	struct lg_pkt pkt = packet("10.1.2.3", "192.0.2.129");
	const uint64_t want[2] = { 0x1234567890, 0 };
	uint8_t destination[16];
	struct lg_key key = product_key(LG_KEY_CGROUP, false, &pkt);

	(void)state;
	assert_memory_equal(key.a, want, 16);
	key = product_key(LG_KEY_CGROUP | LG_KEY_DESTINATION, false, &pkt);
	put_address(destination, "192.0.2.129");
	assert_memory_equal(key.a, destination, 16);
	assert_memory_equal(key.b, want, 16);
	key = product_key(LG_KEY_CGROUP | LG_KEY_SOURCE, false, &pkt);
	assert_memory_equal(key.b, want, 16);
}

#define FLOW (LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_SOURCE_PORT | LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL)

static void what_has_no_place_is_hashed_and_each_part_counts(void **state)
{
	struct lg_pkt pkt = packet("10.1.2.3", "192.0.2.129"), other = pkt;
	struct lg_key key = product_key(FLOW, true, &pkt), with_cgroup, again;
	const struct lg_key_narrow narrow = { .source_port = 40000, .destination_port = 53, .protocol = 17 };

	(void)state;
	assert_memory_equal(key.b, &narrow, 16);
	put_address((uint8_t *)&other.source, "10.1.2.77"); /* the same /24 */
	again = product_key(FLOW, true, &other);
	assert_memory_equal(&key, &again, sizeof(key));
	put_address((uint8_t *)&other.source, "10.1.3.3");
	again = product_key(FLOW, true, &other);
	assert_memory_not_equal(key.a, again.a, 8);
	assert_memory_not_equal(key.a + 8, again.a + 8, 8);
	other = pkt;
	put_address((uint8_t *)&other.destination, "192.0.2.128");
	again = product_key(FLOW, true, &other);
	assert_memory_not_equal(key.a, again.a, 8);
	other = pkt;
	other.cgroup_id++;
	again = product_key(FLOW, true, &other);
	assert_memory_equal(&key, &again, sizeof(key)); /* no part of it */
	with_cgroup = product_key(FLOW | LG_KEY_CGROUP, true, &pkt);
	again = product_key(FLOW | LG_KEY_CGROUP, true, &other);
	assert_memory_not_equal(with_cgroup.a, again.a, 8);
	/* Three wide parts and nothing else: b is empty. */
	key = product_key(LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_CGROUP, true, &pkt);
	memset(&again, 0, sizeof(again));
	assert_memory_equal(key.b, again.b, 16);
}

static void hosts_agree_on_the_hash_of_a_global_rule_and_on_no_other(void **state)
{
	struct lg_pkt pkt = packet("10.1.2.3", "192.0.2.129");
	struct lg_rule rule = product(FLOW, true);
	struct lg_key a, b;

	(void)state;
	lg_product_make(&rule, &pkt, 1, &a);
	lg_product_make(&rule, &pkt, 2, &b);
	assert_memory_not_equal(a.a, b.a, 16);
	rule.flags = LG_RULE_GLOBAL;
	lg_product_make(&rule, &pkt, 1, &a);
	lg_product_make(&rule, &pkt, 2, &b);
	assert_memory_equal(&a, &b, sizeof(a));
	rule.hash_seed[0]++;
	lg_product_make(&rule, &pkt, 2, &b);
	assert_memory_not_equal(a.a, b.a, 16);
}

static void a_later_fragment_has_the_key_without_ports(void **state)
{
	struct lg_pkt whole = packet("10.1.2.3", "192.0.2.129"), later = whole;
	const struct lg_key_narrow narrow = { .protocol = 17 };
	struct lg_key a, b;

	(void)state;
	later.source_port = later.destination_port = 0;
	later.has_port = 0;
	a = product_key(LG_KEY_SOURCE | LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL, false, &whole);
	b = product_key(LG_KEY_SOURCE | LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL, false, &later);
	assert_memory_equal(a.a, b.a, 16);
	assert_memory_equal(b.b, &narrow, 16);
}

/* ---- NAT64 ---- */

static void behind_nat64_an_address_is_its_ipv4(void **state)
{
	static const struct {
		const char *address, *want;
		bool is4;
	} rows[] = {
		{ "64:ff9b::10.1.2.3", "10.1.2.3", true },
		{ "64:ff9b::", "0.0.0.0", true },
		{ "64:ff9b::ffff:ffff", "255.255.255.255", true },
		{ "64:ff9b::1:0:0", "64:ff9b::1:0:0", false },
		{ "64:ff9c::10.1.2.3", "64:ff9c::10.1.2.3", false },
		{ "2001:db8::10.1.2.3", "2001:db8::10.1.2.3", false },
	};
	struct lg_addr addr;
	uint8_t prefix[16], want[16], is4;

	(void)state;
	put_address(prefix, "64:ff9b::");
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		is4 = 0;
		put_address((uint8_t *)&addr, rows[i].address);
		put_address(want, rows[i].want);
		lg_nat64(prefix, &addr, &is4);
		assert_memory_equal(&addr, want, 16);
		assert_int_equal(is4, rows[i].is4);
		assert_int_equal(lg_addr_is4(&addr), rows[i].is4);
	}
}

/* ---- overflow ---- */

static uint32_t slot_of(const char *address, enum lg_key_form form, uint64_t seed)
{
	struct lg_rule rule = { .rule_id = 1, .key_form = (uint8_t)form };
	struct lg_pkt pkt = packet(address, address);
	struct lg_key key;

	memset(rule.key_mask4, 0xff, 16);
	memset(rule.key_mask6, 0xff, 16);
	lg_key_make(&rule, &pkt, &key);
	return lg_overflow_slot(&rule, &key, &pkt, seed);
}

static void one_prefix_shares_one_overflow_bucket(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		assert_int_equal(slot_of("10.0.0.1", LG_FORM_SOURCE, seed), slot_of("10.0.0.255", LG_FORM_SOURCE, seed));
		assert_int_equal(slot_of("2001:db8::1", LG_FORM_SOURCE, seed), slot_of("2001:db8::ffff:0:0:1", LG_FORM_SOURCE, seed));
		assert_int_equal(slot_of("10.0.0.1", LG_FORM_DESTINATION, seed), slot_of("10.0.0.255", LG_FORM_DESTINATION, seed));
		assert_int_equal(slot_of("10.0.0.1", LG_FORM_RULE, seed), slot_of("203.0.113.1", LG_FORM_RULE, seed));
	}
}

/* 65,536 prefixes over 1,024 buckets: 64 each; far from that, or alike under two seeds, would be a poor hash. */
static void prefixes_spread_over_all_overflow_buckets_as_the_seed_says(void **state)
{
	static uint32_t n[LG_OVERFLOW_BUCKETS];
	uint32_t n_same = 0;
	char text[32];

	(void)state;
	memset(n, 0, sizeof(n));
	for (int i = 0; i < 65536; i++) {
		snprintf(text, sizeof(text), "10.%d.%d.1", i >> 8, i & 255);
		n[slot_of(text, LG_FORM_SOURCE, 1)]++;
		n_same += slot_of(text, LG_FORM_SOURCE, 1) == slot_of(text, LG_FORM_SOURCE, 2);
	}
	for (int i = 0; i < LG_OVERFLOW_BUCKETS; i++)
		assert_in_range(n[i], 20, 130);
	assert_in_range(n_same, 20, 130);
}

/* Whatever else a flood makes up, its prefix decides; a product without an address goes by what it is. */
static void a_product_overflows_by_its_first_address(void **state)
{
	struct lg_pkt a = packet("10.1.2.3", "192.0.2.129"), b = a, far = packet("10.9.2.3", "192.0.2.129");
	static const uint32_t by_source[] = { LG_KEY_SOURCE | LG_KEY_SOURCE_PORT, LG_KEY_SOURCE | LG_KEY_DESTINATION, FLOW };
	uint32_t n_apart[3] = { 0 };

	(void)state;
	b.source_port++;
	put_address((uint8_t *)&b.destination, "203.0.113.9");
	for (uint64_t seed = 0; seed < 50; seed++) {
		for (size_t i = 0; i < N_ELEMS(by_source); i++) {
			struct lg_rule rule = product(by_source[i], by_source[i] == FLOW);
			struct lg_key ka, kb, kf;

			lg_product_make(&rule, &a, seed, &ka);
			lg_product_make(&rule, &b, seed, &kb);
			lg_product_make(&rule, &far, seed, &kf);
			assert_memory_not_equal(&ka, &kb, sizeof(ka));
			assert_int_equal(lg_overflow_slot(&rule, &ka, &a, seed), lg_overflow_slot(&rule, &kb, &b, seed));
			n_apart[i] += lg_overflow_slot(&rule, &ka, &a, seed) != lg_overflow_slot(&rule, &kf, &far, seed);
		}
		{
			struct lg_rule to = product(LG_KEY_DESTINATION | LG_KEY_SOURCE_PORT, false);
			struct lg_rule port = product(LG_KEY_SOURCE_PORT, false);
			struct lg_key ka, kb;

			lg_product_make(&to, &a, seed, &ka);
			lg_product_make(&to, &far, seed, &kb);
			assert_int_equal(lg_overflow_slot(&to, &ka, &a, seed), lg_overflow_slot(&to, &kb, &far, seed));
			lg_product_make(&port, &a, seed, &ka);
			lg_product_make(&port, &far, seed, &kb);
			assert_int_equal(lg_overflow_slot(&port, &ka, &a, seed), lg_overflow_slot(&port, &kb, &far, seed));
		}
	}
	for (size_t i = 0; i < N_ELEMS(n_apart); i++)
		assert_in_range(n_apart[i], 45, 50);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_the_masked_address_of_its_form),
		cmocka_unit_test(two_addresses_stand_side_by_side),
		cmocka_unit_test(each_narrow_part_stands_in_its_place),
		cmocka_unit_test(a_cgroup_is_a_wide_part),
		cmocka_unit_test(what_has_no_place_is_hashed_and_each_part_counts),
		cmocka_unit_test(hosts_agree_on_the_hash_of_a_global_rule_and_on_no_other),
		cmocka_unit_test(a_later_fragment_has_the_key_without_ports),
		cmocka_unit_test(behind_nat64_an_address_is_its_ipv4),
		cmocka_unit_test(one_prefix_shares_one_overflow_bucket),
		cmocka_unit_test(prefixes_spread_over_all_overflow_buckets_as_the_seed_says),
		cmocka_unit_test(a_product_overflows_by_its_first_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
