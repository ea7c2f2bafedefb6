// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What becomes of a packet, at each of the three hooks: verdict, reason, counts and the state of buckets afterwards. */
#include "progs.h"

typedef void (*row_fn)(struct progs *p, enum lg_hook hook);

/* Programs with room for a few, for 64 and for many keys; loaded once. */
static struct progs *loaded[3];
static const uint32_t loaded_keys[N_ELEMS(loaded)] = { 4, 64, 65536 };

static struct progs *fresh(uint32_t max_keys)
{
	for (size_t i = 0; i < N_ELEMS(loaded); i++) {
		if (loaded_keys[i] != max_keys)
			continue;
		if (!loaded[i])
			loaded[i] = progs_load(max_keys, true);
		progs_reset(loaded[i]);
		return loaded[i];
	}
	fail_msg("no programs with %u keys", max_keys);
	return NULL;
}

static int unload(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ELEMS(loaded); i++) {
		if (loaded[i])
			progs_free(loaded[i]);
	}
	return 0;
}

/* Each row runs on empty maps, once per hook. */
static void at_each_hook(row_fn row, uint32_t max_keys)
{
	for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {
		print_message("%s\n", hook_names[hook]);
		row(fresh(max_keys), hook);
	}
}

#define ROW_WITH(name, max_keys)                                                                                      \
	static void name##_row(struct progs *p, enum lg_hook hook);                                                   \
	static void name(void **state)                                                                                \
	{                                                                                                             \
		(void)state;                                                                                          \
		at_each_hook(name##_row, max_keys);                                                                   \
	}                                                                                                             \
	static void name##_row(struct progs *p, enum lg_hook hook)
#define ROW(name) ROW_WITH(name, 64)

static struct lg_pkt_buf arp(void)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	lg_pkt_arp(&pkt);
	return pkt;
}

static struct lg_pkt_buf neighbour_solicitation(void)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	lg_pkt_ip6(&pkt, "fe80::1", "ff02::1:ff00:2");
	lg_pkt_hop_limit(&pkt, 255);
	lg_pkt_icmp6(&pkt, 135);
	lg_pkt_done(&pkt);
	return pkt;
}

/* ---- without rules, and what no rule touches ---- */

ROW(without_rules_everything_passes)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("2001:db8::1", "2001:db8::2", 53), c = arp();
	struct lg_pkt_buf lldp;

	lg_pkt_init(&lldp);
	lg_pkt_type(&lldp, 0x88cc);
	lg_pkt_payload(&lldp, 46, 0);
	progs_expect(p, hook, &a, LG_PASS_NO_RULE);
	progs_expect(p, hook, &b, LG_PASS_NO_RULE);
	progs_expect(p, hook, &c, LG_PASS_EXEMPT);
	progs_expect(p, hook, &lldp, LG_PASS_NOT_IP);
	assert_int_equal(progs_verdicts(p, hook, LG_PASS_NO_RULE).bytes, a.len + b.len);
}

ROW(a_limit_of_0_drops_all_but_arp_and_neighbour_discovery)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("2001:db8::1", "2001:db8::2", 53), c = arp(),
			  d = neighbour_solicitation();
	struct lg_bucket bucket;
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_rule(p, 0);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	progs_expect(p, hook, &c, LG_PASS_EXEMPT);
	progs_expect(p, hook, &d, LG_PASS_EXEMPT);
	progs_now(p, START_NS + 1000 * S);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 3);
	/* Nobody to keep books of: a flood does not fill the table. */
	assert_false(progs_has_bucket(p, &key, &bucket));
}

ROW(a_limit_raised_from_0_lets_packets_through_at_once)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_rate raised;

	progs_rule(p, 0);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(lg_rate_change(&p->set.rules[0].rate, 10, S, 2, START_NS, &raised), 0);
	p->set.rules[0].rate = raised;
	p->set.rules[0].cold_burst_tok = 2;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
}

ROW(bypass_lets_everything_through_until_its_time)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_bypass on = { .until_ns = START_NS + S };
	int fd = bpf_map__fd(p->skel->maps.bypass);
	uint32_t zero = 0;

	progs_rule(p, 0);
	p->control.unparsable_drop = 1;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(bpf_map_update_elem(fd, &zero, &on, 0), 0);
	progs_expect(p, hook, &a, LG_PASS_BYPASS);
	assert_int_equal(progs_verdicts(p, hook, LG_PASS_BYPASS).bytes, a.len);
	progs_now(p, START_NS + S - 1);
	progs_expect(p, hook, &a, LG_PASS_BYPASS);
	progs_now(p, START_NS + S);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	on.until_ns = ~0ull;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &on, 0), 0);
	progs_expect(p, hook, &a, LG_PASS_BYPASS);
	on.from_ns = START_NS + 2 * S; /* switched off on trial: it comes back */
	assert_int_equal(bpf_map_update_elem(fd, &zero, &on, 0), 0);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_now(p, START_NS + 2 * S - 1);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_now(p, START_NS + 2 * S);
	progs_expect(p, hook, &a, LG_PASS_BYPASS);
	a.data[14] = 0x44; /* what cannot be read passes too */
	progs_expect(p, hook, &a, LG_PASS_BYPASS);
	on.until_ns = 0;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &on, 0), 0);
	progs_expect(p, hook, &a, LG_DROP_UNPARSABLE);
}

ROW(the_unparsable_follows_its_policy)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);

	a.data[14] = 0x44;
	progs_expect(p, hook, &a, LG_PASS_UNPARSABLE);
	p->control.unparsable_drop = 1;
	progs_control(p);
	progs_expect(p, hook, &a, LG_DROP_UNPARSABLE);
	assert_int_equal(progs_verdicts(p, hook, LG_DROP_UNPARSABLE).bytes, a.len);
}

/* Each protocol number in an IPv4 and in an IPv6 packet of 40 bytes of payload: one verdict each, and none is XDP_ABORTED. */
ROW(every_protocol_number_is_accounted_for)
{
	uint64_t n_limit, n_unparsable, n_exempt;
	struct lg_pkt_buf pkt;

	progs_rule(p, 0);
	p->control.unparsable_drop = 1;
	progs_publish(p);
	for (int proto = 0; proto < 256; proto++) {
		for (int family = 0; family < 2; family++) {
			lg_pkt_init(&pkt);
			if (family)
				lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
			else
				lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
			lg_pkt_proto(&pkt, (uint8_t)proto);
			lg_pkt_payload(&pkt, 40, 1);
			lg_pkt_done(&pkt);
			progs_run(p, hook, &pkt);
		}
	}
	n_limit = progs_verdicts(p, hook, LG_DROP_LIMIT).packets;
	n_unparsable = progs_verdicts(p, hook, LG_DROP_UNPARSABLE).packets;
	n_exempt = progs_verdicts(p, hook, LG_PASS_EXEMPT).packets;
	assert_int_equal(n_limit + n_unparsable + n_exempt, 512);
	assert_int_equal(progs_all(p, hook), 512);
	/* The payload 01 02 .. makes a chain of extension headers only of 0, 43, 51, 60, and a later fragment of 44. */
	assert_in_range(n_unparsable, 0, 4);
	assert_int_equal(n_exempt, 0);
}

/* ---- one rule ---- */

ROW(a_key_has_its_burst_and_refills_by_its_rate)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("10.0.0.2", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");
	struct lg_bucket bucket;

	progs_rule(p, 3);
	progs_publish(p);
	for (int i = 0; i < 3; i++)
		progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED); /* a key of its own */
	progs_now(p, START_NS + 100 * MS - 1);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_now(p, START_NS + 100 * MS);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);

	bucket = progs_bucket(p, &key);
	assert_int_equal(bucket.rule_id, 1);
	assert_int_equal(bucket.kind, LG_BUCKET_RATE);
	assert_int_equal(bucket.spent_tok, 4);
	assert_int_equal(bucket.denied_tok, 3);
	assert_int_equal(bucket.rate_tok, 10);
	assert_int_equal(bucket.per_ns, S);
	assert_int_equal(bucket.seen_ns, START_NS);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 5);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).bytes, 5 * a.len);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 3);
}

ROW(bytes_are_those_on_the_wire)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53); /* 62 bytes */
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_rule(p, 200)->flags |= LG_RULE_BYTES;
	progs_publish(p);
	lg_pkt_pad(&a, 70);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 140);
	assert_int_equal(progs_bucket(p, &key).denied_tok, 70);
}

ROW(a_packet_dearer_than_the_burst_never_passes)
{
	struct lg_pkt_buf a;
	struct lg_bucket bucket;
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_rule(p, 1000)->flags |= LG_RULE_BYTES;
	progs_publish(p);
	lg_pkt_udp4(&a, "10.0.0.1", "192.0.2.1", 53, 1472); /* a frame of 1,514 bytes */
	progs_expect(p, hook, &a, LG_DROP_COST);
	assert_false(progs_has_bucket(p, &key, &bucket));
}

ROW(a_key_may_be_a_prefix_or_the_destination_or_the_whole_rule)
{
	static const struct {
		enum lg_key_form form;
		uint32_t bits4, bits6;
		const char *other_source, *other_destination;
		bool is_same;
	} rows[] = {
		{ LG_FORM_SOURCE, 24, 64, "10.0.0.255", "192.0.2.9", true },
		{ LG_FORM_SOURCE, 24, 64, "10.0.1.1", "192.0.2.1", false },
		{ LG_FORM_DESTINATION, 32, 64, "10.9.9.9", "192.0.2.1", true },
		{ LG_FORM_DESTINATION, 32, 64, "10.0.0.1", "192.0.2.2", false },
		{ LG_FORM_RULE, 32, 128, "10.9.9.9", "192.0.2.9", true },
	};

	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
		struct lg_pkt_buf b = progs_udp(rows[i].other_source, rows[i].other_destination, 53);
		struct lg_rule *rule;

		p->set.n_rules = (uint32_t)i; /* a new id each time */
		rule = progs_rule(p, 1);
		rule->key_form = (uint8_t)rows[i].form;
		memset(rule->key_mask4, 0, 16);
		for (uint32_t bit = 0; bit < 96 + rows[i].bits4; bit++)
			rule->key_mask4[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
		p->set.rules[0] = *rule;
		p->set.n_rules = 1;
		progs_publish(p);
		progs_expect(p, hook, &a, LG_PASS_ADMITTED);
		progs_expect(p, hook, &b, rows[i].is_same ? LG_DROP_LIMIT : LG_PASS_ADMITTED);
	}
}

ROW(a_rule_for_ports_leaves_later_fragments_and_other_ports_alone)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 443), b = progs_udp("10.0.0.1", "192.0.2.1", 444), later;
	struct lg_rule *rule = progs_rule(p, 0);

	progs_port(p, rule, 443);
	progs_publish(p);
	lg_pkt_init(&later);
	lg_pkt_ip4(&later, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_ip4_fragment(&later, 1480, false);
	lg_pkt_proto(&later, 17);
	lg_pkt_payload(&later, 32, 0);
	memcpy(later.data + later.len - 32, "\x00\x35\x01\xbb", 4);
	lg_pkt_done(&later);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &b, LG_PASS_NO_RULE);
	progs_expect(p, hook, &later, LG_PASS_NO_RULE);
}

ROW(the_same_packet_under_two_tags_has_the_same_key)
{
	struct lg_pkt_buf plain = progs_udp("10.0.0.1", "192.0.2.1", 53), tagged, qinq;

	progs_rule(p, 2);
	progs_publish(p);
	lg_pkt_init(&tagged);
	lg_pkt_vlan(&tagged, 0x8100, 7);
	lg_pkt_ip4(&tagged, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_udp(&tagged, 40000, 53);
	lg_pkt_done(&tagged);
	lg_pkt_init(&qinq);
	lg_pkt_vlan(&qinq, 0x88a8, 208 | 5 << 13);
	lg_pkt_vlan(&qinq, 0x8100, 4);
	lg_pkt_ip4(&qinq, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_udp(&qinq, 40000, 53);
	lg_pkt_done(&qinq);
	progs_expect(p, hook, &plain, LG_PASS_ADMITTED);
	progs_expect(p, hook, &tagged, LG_PASS_ADMITTED);
	progs_expect(p, hook, &qinq, LG_DROP_LIMIT);
}

/* More than can be read directly at XDP: a chain of two headers of 2 KiB and UDP behind it. (TC's turn is in hooks_test.) */
static void ports_far_behind_the_first_bytes_are_found(void **state)
{
	struct progs *p = fresh(64);
	struct lg_pkt_buf a;
	struct lg_rule *rule = progs_rule(p, 0);

	(void)state;
	progs_port(p, rule, 53);
	progs_publish(p);
	lg_pkt_init(&a);
	lg_pkt_ip6(&a, "2001:db8::1", "2001:db8::2");
	lg_pkt_ext(&a, 0, 255);
	lg_pkt_ext(&a, 60, 255);
	lg_pkt_udp(&a, 40000, 53);
	lg_pkt_payload(&a, 4000, 0);
	lg_pkt_done(&a);
	progs_expect(p, LG_HOOK_XDP, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_verdicts(p, LG_HOOK_XDP, LG_DROP_LIMIT).bytes, a.len);
	/* and where the chain ends beyond the packet it cannot be read */
	a.data[18] = 0x0f;
	a.data[19] = 0xff;
	progs_expect(p, LG_HOOK_XDP, &a, LG_PASS_UNPARSABLE);
}

/* The same chain, short enough to be read directly but for the extension headers. */
ROW(extension_headers_are_walked)
{
	struct lg_pkt_buf a;
	struct lg_rule *rule = progs_rule(p, 0);

	progs_port(p, rule, 53);
	progs_publish(p);
	lg_pkt_init(&a);
	lg_pkt_ip6(&a, "2001:db8::1", "2001:db8::2");
	lg_pkt_ext(&a, 0, 1);
	lg_pkt_ext(&a, 60, 100);
	lg_pkt_ah(&a, 3);
	lg_pkt_udp(&a, 40000, 53);
	lg_pkt_done(&a);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
}

ROW(a_rule_that_changes_keeps_what_was_spent)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");
	struct lg_rate changed;

	progs_rule(p, 5);
	progs_publish(p);
	for (int i = 0; i < 4; i++)
		progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	assert_int_equal(lg_rate_change(&p->set.rules[0].rate, 20, S, 6, START_NS, &changed), 0);
	p->set.rules[0].rate = changed;
	p->set.rules[0].cold_burst_tok = p->set.rules[0].burst_tok = 6;
	p->set.rules[0].rate_tok = 20;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED); /* 6 - 4 */
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_now(p, START_NS + 50 * MS);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key).rate_tok, 10); /* readers learn of it with the next note of use */
	progs_now(p, START_NS + S);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	assert_int_equal(progs_bucket(p, &key).rate_tok, 20);
	assert_int_equal(progs_bucket(p, &key).seen_ns, START_NS + S);
}

/* ---- superframes, which only TC can see ---- */

static bool run_superframe(struct progs *p, enum lg_hook hook, uint32_t payload, uint32_t segs, uint32_t size)
{
	struct lg_pkt_buf a;

	lg_pkt_init(&a);
	lg_pkt_ip4(&a, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_tcp(&a, 1024, 443);
	lg_pkt_payload(&a, payload, 0);
	lg_pkt_done(&a);
	return progs_run_sized(p, hook, a.data, a.len, segs, size);
}

static void a_superframe_is_charged_as_its_segments(void **state)
{
	struct lg_key key = progs_key(1, "10.0.0.1");

	(void)state;
	for (enum lg_hook hook = LG_HOOK_TC_INGRESS; hook < _LG_HOOK_N; hook++) {
		struct progs *p = fresh(64);

		progs_rule(p, 8);
		progs_publish(p);
		assert_true(run_superframe(p, hook, 730, 5, 146));
		assert_false(run_superframe(p, hook, 730, 5, 146));
		assert_true(run_superframe(p, hook, 438, 3, 146));
		assert_int_equal(progs_verdicts(p, hook, LG_PASS_ADMITTED).packets, 8);
		assert_int_equal(progs_verdicts(p, hook, LG_PASS_ADMITTED).bytes, 730 + 438 + 8 * 54);
		assert_int_equal(progs_verdicts(p, hook, LG_DROP_LIMIT).packets, 5);
		assert_int_equal(progs_bucket(p, &key).spent_tok, 8);
	}
}

static void a_superframe_dearer_than_the_burst_passes_when_the_bucket_is_full(void **state)
{
	struct lg_key key = progs_key(1, "10.0.0.1");

	(void)state;
	for (enum lg_hook hook = LG_HOOK_TC_INGRESS; hook < _LG_HOOK_N; hook++) {
		struct progs *p = fresh(64);

		progs_rule(p, 3);
		progs_publish(p);
		assert_true(run_superframe(p, hook, 730, 5, 146)); /* 2 tokens of debt */
		assert_int_equal(progs_bucket(p, &key).spent_tok, 5);
		assert_false(run_superframe(p, hook, 730, 5, 146));
		progs_now(p, START_NS + 500 * MS - 1);
		assert_false(run_superframe(p, hook, 730, 5, 146));
		progs_now(p, START_NS + 500 * MS); /* full again */
		assert_true(run_superframe(p, hook, 730, 5, 146));
	}
}

/* ---- several rules ---- */

ROW(all_rules_are_charged_or_none)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key1 = progs_key(1, "10.0.0.1"), key3 = progs_key(3, "10.0.0.1");
	struct lg_key key2 = { .rule_id = 2, .form = LG_FORM_RULE };

	progs_rule(p, 5);
	progs_rule(p, 2)->key_form = LG_FORM_RULE;
	progs_rule(p, 9);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	for (int i = 0; i < 10; i++)
		progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key1).spent_tok, 2);
	assert_int_equal(progs_bucket(p, &key2).spent_tok, 2);
	assert_int_equal(progs_bucket(p, &key3).spent_tok, 2);
	assert_int_equal(progs_bucket(p, &key1).denied_tok, 0);
	assert_int_equal(progs_bucket(p, &key2).denied_tok, 10);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 2);
	assert_int_equal(progs_rule_count(p, 2, LG_DROP_LIMIT).packets, 10);
	assert_int_equal(progs_rule_count(p, 3, LG_PASS_ADMITTED).packets, 2);
	assert_int_equal(progs_rule_count(p, 3, LG_DROP_LIMIT).packets, 0);
	/* Rule 1 still holds its other three. */
	progs_now(p, START_NS + 100 * MS);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	assert_int_equal(progs_bucket(p, &key1).spent_tok, 3);
}

ROW(the_first_rule_that_refuses_gives_the_reason_and_others_only_count_if_asked)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key1 = progs_key(1, "10.0.0.1"), key3 = progs_key(3, "10.0.0.1"), key4 = progs_key(4, "10.0.0.1");
	struct lg_bucket bucket;

	progs_rule(p, 1)->flags |= LG_RULE_BYTES; /* 62 bytes can never pass it */
	progs_rule(p, 0);
	progs_rule(p, 0)->flags |= LG_RULE_EVALUATE_ALL;
	progs_rule(p, 9)->flags |= LG_RULE_EVALUATE_ALL;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_COST);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_COST).packets, 1);
	assert_int_equal(progs_rule_count(p, 2, LG_DROP_LIMIT).packets, 0);
	assert_int_equal(progs_rule_count(p, 3, LG_DROP_LIMIT).packets, 1);
	assert_int_equal(progs_rule_count(p, 4, LG_PASS_ADMITTED).packets, 0);
	assert_int_equal(progs_bucket(p, &key4).spent_tok, 0); /* asked, not charged */
	/* What can never pass has no bucket. */
	assert_false(progs_has_bucket(p, &key1, &bucket));
	assert_false(progs_has_bucket(p, &key3, &bucket));
}

ROW(eight_rules_are_applied)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);

	for (int i = 0; i < LG_MATCHES_MAX; i++)
		progs_rule(p, i == LG_MATCHES_MAX - 1 ? 1 : 9);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	for (uint32_t id = 1; id <= LG_MATCHES_MAX; id++)
		assert_int_equal(progs_rule_count(p, id, LG_PASS_ADMITTED).packets, 1);
	assert_int_equal(progs_rule_count(p, LG_MATCHES_MAX, LG_DROP_LIMIT).packets, 1);
}

ROW(rules_at_both_ends_of_a_full_set_are_found)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("10.0.0.2", "192.0.2.1", 53);

	for (uint32_t i = 0; i < LG_RULES_MAX; i++) {
		struct lg_rule *rule = progs_rule(p, i == LG_RULES_MAX - 1 ? 1 : 5);

		progs_source(p, rule, i == LG_RULES_MAX - 1 || !i ? "10.0.0.1" : "10.0.0.3");
	}
	progs_publish(p);
	progs_expect(p, hook, &b, LG_PASS_NO_RULE);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 1);
	assert_int_equal(progs_rule_count(p, LG_RULES_MAX, LG_DROP_LIMIT).packets, 1);
}

ROW(a_shadow_rule_counts_what_it_would_refuse_and_refuses_nothing)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_rule(p, 2)->flags |= LG_RULE_SHADOW;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_SHADOW);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 2);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_SHADOW).packets, 1);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 2);
	assert_int_equal(progs_bucket(p, &key).denied_tok, 1);
}

ROW(a_shadow_rule_beside_another_changes_neither_its_verdict_nor_its_charge)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key1 = progs_key(1, "10.0.0.1"), key2 = progs_key(2, "10.0.0.1");

	progs_rule(p, 1)->flags |= LG_RULE_SHADOW;
	progs_rule(p, 2);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_SHADOW);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key1).spent_tok, 1);
	assert_int_equal(progs_bucket(p, &key1).denied_tok, 2);
	assert_int_equal(progs_bucket(p, &key2).spent_tok, 2);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_SHADOW).packets, 2);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 0);
}

/* ---- a full table ---- */

static void fill_table(struct progs *p, enum lg_hook hook, uint32_t n)
{
	char source[32];

	for (uint32_t i = 0; i < n; i++) {
		struct lg_pkt_buf a;

		snprintf(source, sizeof(source), "10.7.0.%u", i);
		a = progs_udp(source, "192.0.2.1", 53);
		progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	}
}

ROW_WITH(newcomers_of_a_full_table_share_overflow_buckets_by_prefix, 4)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("10.0.0.2", "192.0.2.1", 53), known;

	progs_rule(p, 3);
	progs_publish(p);
	fill_table(p, hook, 4);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	assert_int_equal(progs_shared(p).map_full, 4);
	/* Who has a bucket keeps it. */
	known = progs_udp("10.7.0.0", "192.0.2.1", 53);
	progs_expect(p, hook, &known, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 100 * MS);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
}

ROW_WITH(a_full_table_denies_or_passes_newcomers_if_the_rule_says_so, 4)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);

	progs_rule(p, 3);
	progs_publish(p);
	fill_table(p, hook, 4);
	p->set.rules[0].on_full = LG_ON_FULL_DENY;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_TABLE_FULL);
	p->set.rules[0].on_full = LG_ON_FULL_PASS;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_TABLE_FULL);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_TABLE_FULL).packets, 1);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_TABLE_FULL).packets, 1);
	assert_int_equal(progs_shared(p).map_full, 2);
}

/* The table holds what the first rule's keys filled; the second rule keeps its one bucket elsewhere, one and not many. */
ROW_WITH(a_rule_with_one_bucket_has_one_even_when_the_table_is_full, 4)
{
	struct lg_pkt_buf a = progs_udp("10.8.0.1", "192.0.2.1", 53), b = progs_udp("203.0.113.9", "192.0.2.1", 53);

	progs_rule(p, 30);
	progs_publish(p);
	fill_table(p, hook, 4);
	progs_rule(p, 2)->key_form = LG_FORM_RULE;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
}

ROW_WITH(several_rules_over_a_full_table_still_charge_all_or_none, 4)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("198.51.100.7", "192.0.2.1", 53);

	progs_rule(p, 2);
	progs_publish(p);
	fill_table(p, hook, 4);
	progs_rule(p, 5)->on_full = LG_ON_FULL_PASS;
	progs_rule(p, 3)->key_form = LG_FORM_RULE;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_TABLE_FULL);
	progs_expect(p, hook, &a, LG_PASS_TABLE_FULL);
	progs_expect(p, hook, &a, LG_DROP_LIMIT); /* rule 1, overflow bucket of 2 */
	progs_expect(p, hook, &b, LG_PASS_TABLE_FULL); /* rule 3 was charged 2, not 3 */
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	assert_int_equal(progs_rule_count(p, 3, LG_DROP_LIMIT).packets, 1);
	assert_int_equal(progs_rule_count(p, 2, LG_PASS_TABLE_FULL).packets, 3);
}

/* ---- leases ---- */

ROW(a_leased_key_spends_what_it_was_granted_while_the_lease_runs)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");
	struct lg_bucket bucket;

	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	bucket = progs_bucket(p, &key);
	assert_int_equal(bucket.kind, LG_BUCKET_BLOCK);
	assert_int_equal(bucket.expires_ns, START_NS);
	assert_int_equal(bucket.denied_tok, 1);

	assert_int_equal(progs_grant(p, key, 3, START_NS + 10 * S).result, 0);
	for (int i = 0; i < 3; i++)
		progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	p->control.reachable = 0;
	progs_control(p);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	assert_int_equal(progs_grant(p, key, 2, START_NS + 10 * S).result, 0);
	progs_now(p, START_NS + 10 * S - 1);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 10 * S);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	bucket = progs_bucket(p, &key);
	assert_int_equal(bucket.granted_tok, 5);
	assert_int_equal(bucket.spent_tok, 4);
	assert_int_equal(bucket.denied_tok, 4);
}

ROW(the_fallback_share_starts_empty_after_the_delay)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_lease_rule(p, LG_FALLBACK_SHARE);
	p->control.reachable = 0;
	progs_publish(p);
	assert_int_equal(progs_grant(p, key, 1, START_NS + S).result, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 3 * S);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	progs_now(p, START_NS + 3 * S + 100 * MS - 1);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	progs_now(p, START_NS + 3 * S + 100 * MS);
	progs_expect(p, hook, &a, LG_PASS_FALLBACK);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	progs_now(p, START_NS + 60 * S);
	for (int i = 0; i < 5; i++)
		progs_expect(p, hook, &a, LG_PASS_FALLBACK);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_FALLBACK).packets, 6);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 1);
	/* A grant ends it. */
	assert_int_equal(progs_grant(p, key, 1, START_NS + 70 * S).result, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
}

/* The agent is dead, so the word still says "reachable": the kernel goes on by itself, half a delay after it spoke up in vain. */
ROW(the_fallback_needs_no_agent)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_lease_rule(p, LG_FALLBACK_SHARE);
	progs_publish(p);
	assert_int_equal(progs_grant(p, key, 1, START_NS + S).result, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 100 * S); /* idle all the while: the share is not full of what it was never asked for */
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	progs_now(p, START_NS + 101 * S + 100 * MS);
	progs_expect(p, hook, &a, LG_PASS_FALLBACK);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
}

ROW(open_and_closed_are_what_they_say)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("10.0.0.2", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_lease_rule(p, LG_FALLBACK_OPEN);
	p->control.reachable = 0;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	progs_now(p, START_NS + 2 * S);
	progs_expect(p, hook, &a, LG_PASS_FALLBACK);
	p->set.rules[0].fallback = LG_FALLBACK_CLOSED;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE);
	assert_int_equal(progs_grant(p, key, 5, START_NS + 10 * S).result, 0);
	progs_expect(p, hook, &a, LG_DROP_UNREACHABLE); /* with tokens left */
	progs_expect(p, hook, &b, LG_DROP_UNREACHABLE);
	p->control.reachable = 1;
	progs_control(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
}

ROW(a_host_rule_and_a_leased_rule_charge_all_or_none)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key1 = progs_key(1, "10.0.0.1"), key2 = progs_key(2, "10.0.0.1");

	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_rule(p, 3);
	progs_publish(p);
	assert_int_equal(progs_grant(p, key1, 2, START_NS + 10 * S).result, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key2).spent_tok, 2);
	assert_int_equal(progs_grant(p, key1, 5, START_NS + 10 * S).result, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key1).spent_tok, 3);
}

/* ---- events ---- */

ROW(a_new_key_spends_what_it_starts_with_and_is_announced_when_it_asks_for_more)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("10.0.0.2", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");
	struct progs_events events;

	progs_lease_rule(p, LG_FALLBACK_DENY)->cold_start_tok = 2;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	assert_int_equal(progs_events(p).n, 0);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	events = progs_events(p);
	assert_int_equal(events.n, 1);
	assert_int_equal(events.event[0].type, LG_EVENT_NEW_KEY);
	assert_memory_equal(&events.event[0].key, &key, sizeof(key));
	assert_int_equal(progs_bucket(p, &key).granted_tok, 2);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 2);
	assert_int_equal(progs_bucket(p, &key).expires_ns, START_NS + LG_COLD_START_NS);
	/* Time brings nothing back, and takes what is left. */
	progs_now(p, START_NS + LG_COLD_START_NS);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	progs_expect(p, hook, &b, LG_DROP_LEASE_PENDING);
}

ROW(a_leased_key_is_announced_when_new_low_and_denied_and_not_more_often)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");
	struct progs_events events;

	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	events = progs_events(p);
	assert_int_equal(events.n, 1);
	assert_int_equal(events.event[0].type, LG_EVENT_NEW_KEY);
	assert_memory_equal(&events.event[0].key, &key, sizeof(key));
	assert_int_equal(events.event[0].cost_tok, 1);
	assert_int_equal(events.event[0].now_ns, START_NS);

	progs_now(p, START_NS + LG_ANNOUNCE_GAP_NS - 1);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	assert_int_equal(progs_events(p).n, 0);
	progs_now(p, START_NS + LG_ANNOUNCE_GAP_NS);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	events = progs_events(p);
	assert_int_equal(events.n, 1);
	assert_int_equal(events.event[0].type, LG_EVENT_DENIED);

	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = 5, .expires_ns = START_NS + 10 * S, .low_water_tok = 3 });
	progs_now(p, START_NS + S);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED); /* three left: not below it */
	assert_int_equal(progs_events(p).n, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	events = progs_events(p);
	assert_int_equal(events.n, 1);
	assert_int_equal(events.event[0].type, LG_EVENT_LOW_WATER);
	assert_int_equal(progs_bucket(p, &key).asked_ns, START_NS + S);
}

/* Another rule refuses the packet: nothing was taken, so there is nothing to tell, low as the key may be. */
ROW(a_key_that_was_only_tested_is_not_announced)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	struct lg_key key = progs_key(1, "10.0.0.1");

	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_rule(p, 0);
	progs_publish(p);
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = 5, .expires_ns = START_NS + 10 * S, .low_water_tok = 9 });
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_events(p).n, 0);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 0);
	p->set.n_rules = 1;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	assert_int_equal(progs_events(p).n, 1);
}

ROW(a_host_rule_raises_no_events)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);

	progs_rule(p, 1);
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	assert_int_equal(progs_events(p).n, 0);
}

/* A flood of made-up sources: a thousand are announced at once, then LG_ANNOUNCE_PER_S; what is held back is counted. */
ROW_WITH(a_flood_of_new_keys_does_not_become_a_storm_of_events, 65536)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	uint32_t n;

	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	for (uint32_t i = 0; i < 2000; i++) {
		a.data[28] = (uint8_t)(i >> 8);
		a.data[29] = (uint8_t)i;
		progs_run(p, hook, &a);
	}
	n = progs_events(p).n;
	assert_in_range(n, 1000, 1001);
	assert_int_equal(progs_shared(p).events_limited, 2000 - n);
	assert_int_equal(progs_shared(p).events_lost, 0);
	progs_now(p, START_NS + 10 * MS); /* room for 200 more */
	for (uint32_t i = 2000; i < 3000; i++) {
		a.data[28] = (uint8_t)(i >> 8);
		a.data[29] = (uint8_t)i;
		progs_run(p, hook, &a);
	}
	assert_in_range(progs_events(p).n, LG_ANNOUNCE_PER_S / 100 - 1, LG_ANNOUNCE_PER_S / 100 + 1);
}

ROW_WITH(an_event_that_finds_the_ring_full_is_counted, 65536)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53);
	uint64_t n = 0;

	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	for (uint32_t i = 0; i < 16000; i++) {
		a.data[28] = (uint8_t)(i >> 8);
		a.data[29] = (uint8_t)i;
		if (i % 1000 == 0)
			progs_now(p, START_NS + i * S);
		progs_run(p, hook, &a);
	}
	n = progs_events(p).n;
	assert_in_range(n, 1, 15999);
	assert_int_equal(progs_shared(p).events_lost, 16000 - n);
}

ROW_WITH(an_overflow_bucket_of_a_leased_rule_is_leased_like_a_key, 4)
{
	struct lg_pkt_buf a = progs_udp("10.0.0.1", "192.0.2.1", 53), b = progs_udp("10.0.0.77", "192.0.2.1", 53);
	struct progs_events events;
	struct lg_key key;
	struct lg_op op;
	uint32_t slot;

	progs_rule(p, 3);
	progs_publish(p);
	fill_table(p, hook, 4);
	p->set.n_rules = 1;
	progs_lease_rule(p, LG_FALLBACK_DENY);
	p->set.rules[0] = p->set.rules[1];
	p->set.n_rules = 1;
	progs_publish(p);
	progs_expect(p, hook, &a, LG_DROP_LEASE_PENDING);
	events = progs_events(p);
	assert_int_equal(events.n, 1);
	key = events.event[0].key;
	assert_int_equal(key.rule_id, 2);
	assert_int_equal(key.form, LG_FORM_OVERFLOW);
	memcpy(&slot, key.a, sizeof(slot));
	assert_in_range(slot, 0, LG_OVERFLOW_BUCKETS - 1);
	assert_int_equal(progs_grant(p, key, 2, START_NS + 10 * S).result, 0);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED); /* of the same /24 */
	progs_expect(p, hook, &b, LG_DROP_LIMIT);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_READ });
	assert_int_equal(op.result, 0);
	assert_int_equal(op.after.spent_tok, 2);
	assert_int_equal(op.after.rule_id, 2);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_rules_everything_passes),
		cmocka_unit_test(a_limit_of_0_drops_all_but_arp_and_neighbour_discovery),
		cmocka_unit_test(a_limit_raised_from_0_lets_packets_through_at_once),
		cmocka_unit_test(bypass_lets_everything_through_until_its_time),
		cmocka_unit_test(the_unparsable_follows_its_policy),
		cmocka_unit_test(every_protocol_number_is_accounted_for),
		cmocka_unit_test(a_key_has_its_burst_and_refills_by_its_rate),
		cmocka_unit_test(bytes_are_those_on_the_wire),
		cmocka_unit_test(a_packet_dearer_than_the_burst_never_passes),
		cmocka_unit_test(a_key_may_be_a_prefix_or_the_destination_or_the_whole_rule),
		cmocka_unit_test(a_rule_for_ports_leaves_later_fragments_and_other_ports_alone),
		cmocka_unit_test(the_same_packet_under_two_tags_has_the_same_key),
		cmocka_unit_test(ports_far_behind_the_first_bytes_are_found),
		cmocka_unit_test(extension_headers_are_walked),
		cmocka_unit_test(a_rule_that_changes_keeps_what_was_spent),
		cmocka_unit_test(a_superframe_is_charged_as_its_segments),
		cmocka_unit_test(a_superframe_dearer_than_the_burst_passes_when_the_bucket_is_full),
		cmocka_unit_test(all_rules_are_charged_or_none),
		cmocka_unit_test(the_first_rule_that_refuses_gives_the_reason_and_others_only_count_if_asked),
		cmocka_unit_test(eight_rules_are_applied),
		cmocka_unit_test(rules_at_both_ends_of_a_full_set_are_found),
		cmocka_unit_test(a_shadow_rule_counts_what_it_would_refuse_and_refuses_nothing),
		cmocka_unit_test(a_shadow_rule_beside_another_changes_neither_its_verdict_nor_its_charge),
		cmocka_unit_test(newcomers_of_a_full_table_share_overflow_buckets_by_prefix),
		cmocka_unit_test(a_full_table_denies_or_passes_newcomers_if_the_rule_says_so),
		cmocka_unit_test(a_rule_with_one_bucket_has_one_even_when_the_table_is_full),
		cmocka_unit_test(several_rules_over_a_full_table_still_charge_all_or_none),
		cmocka_unit_test(a_leased_key_spends_what_it_was_granted_while_the_lease_runs),
		cmocka_unit_test(the_fallback_share_starts_empty_after_the_delay),
		cmocka_unit_test(the_fallback_needs_no_agent),
		cmocka_unit_test(open_and_closed_are_what_they_say),
		cmocka_unit_test(a_host_rule_and_a_leased_rule_charge_all_or_none),
		cmocka_unit_test(a_new_key_spends_what_it_starts_with_and_is_announced_when_it_asks_for_more),
		cmocka_unit_test(a_leased_key_is_announced_when_new_low_and_denied_and_not_more_often),
		cmocka_unit_test(a_key_that_was_only_tested_is_not_announced),
		cmocka_unit_test(a_host_rule_raises_no_events),
		cmocka_unit_test(a_flood_of_new_keys_does_not_become_a_storm_of_events),
		cmocka_unit_test(an_event_that_finds_the_ring_full_is_counted),
		cmocka_unit_test(an_overflow_bucket_of_a_leased_rule_is_leased_like_a_key),
	};

	return cmocka_run_group_tests(tests, NULL, unload);
}
