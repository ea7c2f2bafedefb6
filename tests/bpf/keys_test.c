// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whose bucket a packet is charged to, at each of the three hooks; and what is limited only by rules that name it. */
#include "progs_shared.h"

/* A rule with room for ten packets, keyed by a product: source /24 and /64, destination whole. */
static struct lg_rule *product_rule(uint32_t parts, bool hashed)
{
	struct lg_rule *rule = progs_rule(p, 10);
	struct lg_key_narrow *mask = &rule->narrow_mask;

	rule->key_form = 0;
	rule->product_form = LG_FORM_PRODUCT | parts | (hashed ? LG_FORM_HASHED : 0);
	memset(rule->key_mask4, 0, 16);
	memset(rule->key_mask6, 0, 16);
	if (parts & LG_KEY_SOURCE) {
		memset(rule->key_mask4, 0xff, 15);
		memset(rule->key_mask6, 0xff, 8);
	}
	if (parts & LG_KEY_DESTINATION) {
		memset(rule->destination_mask4, 0xff, 16);
		memset(rule->destination_mask6, 0xff, 16);
	}
	mask->source_port = parts & LG_KEY_SOURCE_PORT ? 0xffff : 0;
	mask->destination_port = parts & LG_KEY_DESTINATION_PORT ? 0xffff : 0;
	mask->vlan = parts & LG_KEY_VLAN ? 0xffff : 0;
	mask->inner_vlan = parts & LG_KEY_INNER_VLAN ? 0xffff : 0;
	mask->interface = parts & LG_KEY_INTERFACE ? ~0u : 0;
	mask->protocol = parts & LG_KEY_PROTOCOL ? 0xff : 0;
	return rule;
}

static struct lg_pkt_buf qinq(void)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	lg_pkt_vlan(&pkt, 0x88a8, 208 | 5 << 13);
	lg_pkt_vlan(&pkt, 0x8100, 4);
	lg_pkt_ip4(&pkt, "10.1.2.3", "192.0.2.1", 0);
	lg_pkt_udp(&pkt, 40000, 53);
	lg_pkt_payload(&pkt, 20, 0);
	lg_pkt_done(&pkt);
	return pkt;
}

static struct lg_pkt_buf later_fragment(void)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	lg_pkt_ip4(&pkt, "10.1.2.3", "192.0.2.1", 0);
	lg_pkt_ip4_fragment(&pkt, 1480, false);
	lg_pkt_proto(&pkt, 17);
	lg_pkt_payload(&pkt, 100, 0);
	lg_pkt_done(&pkt);
	return pkt;
}

static struct lg_key key_of(const struct lg_rule *rule, const char *source, const char *destination, struct lg_key_narrow narrow)
{
	struct lg_key key = { .rule_id = rule->rule_id, .form = rule->product_form };

	if (source)
		progs_address(key.a, source);
	if (destination)
		progs_address(source ? key.b : key.a, destination);
	else
		memcpy(key.b, &narrow, sizeof(narrow));
	return key;
}

static uint64_t spent(const struct lg_key *key)
{
	struct lg_bucket bucket;

	if (!progs_has_bucket(p, key, &bucket))
		return 0;
	return (bucket.full_at_vt - p->set.rules[0].rate.v0) / p->set.rules[0].rate.unit_per_tok;
}

static void each_part_stands_in_the_key_at_each_hook(void **state)
{
	static const struct {
		uint32_t parts;
		const char *source, *destination;
		struct lg_key_narrow narrow;
		struct lg_pkt_buf (*build)(void);
	} rows[] = {
		{ LG_KEY_SOURCE | LG_KEY_DESTINATION, "10.1.2.0", "192.0.2.1", { 0 }, NULL },
		{ LG_KEY_SOURCE | LG_KEY_SOURCE_PORT, "10.1.2.0", NULL, { .source_port = 40000 }, NULL },
		{ LG_KEY_DESTINATION_PORT, NULL, NULL, { .destination_port = 53 }, NULL },
		{ LG_KEY_PROTOCOL | LG_KEY_DESTINATION_PORT, NULL, NULL, { .destination_port = 53, .protocol = 17 }, NULL },
		{ LG_KEY_VLAN | LG_KEY_SOURCE, "10.1.2.0", NULL, { .vlan = 0 }, NULL },
		{ LG_KEY_VLAN | LG_KEY_SOURCE, "10.1.2.0", NULL, { .vlan = 209 }, qinq },
		{ LG_KEY_VLAN | LG_KEY_INNER_VLAN, NULL, NULL, { .vlan = 209, .inner_vlan = 5 }, qinq },
		{ LG_KEY_SOURCE | LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL, "10.1.2.0", NULL, { .protocol = 17 }, later_fragment },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
			struct lg_pkt_buf pkt = rows[i].build ? rows[i].build() : progs_udp("10.1.2.3", "192.0.2.1", 53);
			struct lg_rule *rule;
			struct lg_key key;

			progs_reset(p);
			rule = product_rule(rows[i].parts, false);
			progs_publish(p);
			key = key_of(rule, rows[i].source, rows[i].destination, rows[i].narrow);
			print_message("row %zu at %s\n", i, hook_names[hook]);
			progs_expect(p, hook, &pkt, LG_PASS_ADMITTED);
			progs_expect(p, hook, &pkt, LG_PASS_ADMITTED);
			assert_int_equal(spent(&key), 2);
		}
	}
}

static void the_interface_is_that_of_the_hook(void **state)
{
	const struct lg_key_narrow lo = { .interface = 1 }; /* where test runs say that packets are */
	struct lg_pkt_buf pkt = progs_udp("10.1.2.3", "192.0.2.1", 53);
	struct lg_rule *rule;
	struct lg_key key;

	(void)state;
	for (enum lg_hook hook = LG_HOOK_TC_INGRESS; hook < _LG_HOOK_N; hook++) {
		progs_reset(p);
		rule = product_rule(LG_KEY_INTERFACE, false);
		progs_publish(p);
		progs_expect(p, hook, &pkt, LG_PASS_ADMITTED);
		key = key_of(rule, NULL, NULL, lo);
		assert_int_equal(spent(&key), 1);
	}
}

/* Ten packets of one flow, one of another: two buckets, and the table of what was hashed says whose they are. */
static void a_hashed_key_is_remembered_and_forgotten_with_its_bucket(void **state)
{
	struct lg_pkt_buf one = progs_udp("10.1.2.3", "192.0.2.1", 53), two = progs_udp("10.1.2.3", "192.0.2.1", 54);
	int wide_fd = bpf_map__fd(p->skel->maps.wide_keys), buckets_fd = bpf_map__fd(p->skel->maps.products);
	uint8_t source[16], destination[16];
	struct lg_wide_key wide;
	struct lg_key key, next;
	struct lg_op op;

	(void)state;
	progs_address(source, "10.1.2.0");
	progs_address(destination, "192.0.2.1");
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		progs_reset(p);
		product_rule(LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_DESTINATION_PORT, true);
		progs_publish(p);
		for (int i = 0; i < 10; i++)
			progs_expect(p, hook, &one, LG_PASS_ADMITTED);
		progs_expect(p, hook, &one, LG_DROP_LIMIT);
		progs_expect(p, hook, &two, LG_PASS_ADMITTED);
		assert_int_equal(bpf_map_get_next_key(buckets_fd, NULL, &key), 0);
		assert_int_equal(bpf_map_get_next_key(buckets_fd, &key, &next), 0);
		assert_int_not_equal(bpf_map_get_next_key(buckets_fd, &next, &next), 0);
		assert_int_equal(bpf_map_lookup_elem(wide_fd, &key, &wide), 0);
		assert_memory_equal(wide.source, source, 16);
		assert_memory_equal(wide.destination, destination, 16);
		assert_int_equal(wide.cgroup_id, 0);
		op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_FORGET });
		assert_int_equal(op.result, 0);
		assert_int_not_equal(bpf_map_lookup_elem(wide_fd, &key, &wide), 0);
		assert_int_equal(bpf_map_get_next_key(buckets_fd, NULL, &next), 0);
		op = progs_op(p, (struct lg_op){ .key = next, .code = LG_OP_FORGET });
		assert_int_equal(op.result, 0);
	}
}

/* Two rules of one packet, by /64 and by /48: both are charged, and the wider one is spent by all its narrow ones. */
static void tiers_of_prefixes_charge_both(void **state)
{
	(void)state;
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		struct lg_pkt_buf a = progs_udp("2001:db8:1:1::1", "2001:db8::9", 53), b = progs_udp("2001:db8:1:2::1", "2001:db8::9", 53);
		struct lg_pkt_buf c = progs_udp("2001:db8:2:1::1", "2001:db8::9", 53);

		progs_reset(p);
		memset(progs_rule(p, 3)->key_mask6 + 8, 0, 8);
		memset(progs_rule(p, 5)->key_mask6 + 6, 0, 10);
		progs_publish(p);
		for (int i = 0; i < 3; i++)
			progs_expect(p, hook, &a, LG_PASS_ADMITTED);
		progs_expect(p, hook, &a, LG_DROP_LIMIT);
		for (int i = 0; i < 2; i++)
			progs_expect(p, hook, &b, LG_PASS_ADMITTED);
		progs_expect(p, hook, &b, LG_DROP_LIMIT); /* its own /64 has one left, their /48 has not */
		assert_int_equal(progs_rule_count(p, 2, LG_DROP_LIMIT).packets, 1);
		progs_expect(p, hook, &c, LG_PASS_ADMITTED);
	}
}

static void mapped_or_behind_nat64_the_bucket_is_that_of_ipv4(void **state)
{
	(void)state;
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		struct lg_pkt_buf plain = progs_udp("10.1.2.3", "192.0.2.1", 53), mapped = progs_udp("::ffff:10.1.2.3", "2001:db8::9", 53);
		struct lg_pkt_buf nat64 = progs_udp("64:ff9b::10.1.2.3", "2001:db8::9", 53);
		struct lg_key key = progs_key(1, "10.1.2.3"), own = progs_key(1, "64:ff9b::10.1.2.3");

		progs_reset(p);
		progs_rule(p, 10);
		progs_publish(p);
		progs_expect(p, hook, &plain, LG_PASS_ADMITTED);
		progs_expect(p, hook, &mapped, LG_PASS_ADMITTED);
		progs_expect(p, hook, &nat64, LG_PASS_ADMITTED);
		assert_int_equal(spent(&key), 2);
		assert_int_equal(spent(&own), 1);
		progs_address(p->control.nat64, "64:ff9b::");
		progs_control(p);
		progs_expect(p, hook, &nat64, LG_PASS_ADMITTED);
		assert_int_equal(spent(&key), 3);
		assert_int_equal(spent(&own), 1);
	}
}

static void what_keeps_links_alive_is_limited_by_rules_that_name_it_alone(void **state)
{
	struct lg_pkt_buf vrrp, too_big, plain = progs_udp("10.1.2.3", "192.0.2.1", 53), arp;

	(void)state;
	lg_pkt_init(&vrrp);
	lg_pkt_ip4(&vrrp, "10.0.0.1", "224.0.0.18", 0);
	lg_pkt_proto(&vrrp, 112);
	lg_pkt_payload(&vrrp, 20, 0);
	lg_pkt_done(&vrrp);
	lg_pkt_init(&too_big);
	lg_pkt_ip6(&too_big, "2001:db8::1", "2001:db8::2");
	lg_pkt_icmp6(&too_big, 2);
	lg_pkt_done(&too_big);
	lg_pkt_init(&arp);
	lg_pkt_arp(&arp);
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		progs_reset(p);
		progs_rule(p, 0);
		progs_publish(p);
		progs_expect(p, hook, &plain, LG_DROP_LIMIT);
		progs_expect(p, hook, &vrrp, LG_PASS_EXEMPT);
		progs_expect(p, hook, &too_big, LG_PASS_EXEMPT);
		progs_expect(p, hook, &arp, LG_PASS_EXEMPT);
		p->set.exempt.w[0] = 1;
		progs_publish(p);
		progs_expect(p, hook, &vrrp, LG_DROP_LIMIT);
		progs_expect(p, hook, &too_big, LG_DROP_LIMIT);
		progs_expect(p, hook, &arp, LG_PASS_EXEMPT); /* the rule is for IP */
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_part_stands_in_the_key_at_each_hook),
		cmocka_unit_test(the_interface_is_that_of_the_hook),
		cmocka_unit_test(a_hashed_key_is_remembered_and_forgotten_with_its_bucket),
		cmocka_unit_test(tiers_of_prefixes_charge_both),
		cmocka_unit_test(mapped_or_behind_nat64_the_bucket_is_that_of_ipv4),
		cmocka_unit_test(what_keeps_links_alive_is_limited_by_rules_that_name_it_alone),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
