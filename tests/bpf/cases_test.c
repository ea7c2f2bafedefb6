// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What others ran into, where no test of a part shows it already: see docs/cases.md. */
#include "progs.h"

#define SMALLEST_TABLE 16

static struct progs *p;

static int load(void **state)
{
	(void)state;
	p = progs_load(SMALLEST_TABLE, true);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}

#define ROW(name)                                                                         \
	static void name##_row(enum lg_hook hook);                                        \
	static void name(void **state)                                                    \
	{                                                                                 \
		(void)state;                                                              \
		for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++) {        \
			progs_reset(p);                                                   \
			name##_row(hook);                                                 \
		}                                                                         \
	}                                                                                 \
	static void name##_row(enum lg_hook hook)

static struct lg_pkt_buf fragment(bool is_ip6, uint16_t offset_bytes)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	if (is_ip6) {
		lg_pkt_ip6(&pkt, "2001:db8::1", "2001:db8::2");
		lg_pkt_ip6_fragment(&pkt, offset_bytes, !offset_bytes);
	} else {
		lg_pkt_ip4(&pkt, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_ip4_fragment(&pkt, offset_bytes, !offset_bytes);
	}
	if (offset_bytes)
		lg_pkt_proto(&pkt, IPPROTO_UDP);
	else
		lg_pkt_udp(&pkt, 40000, 53);
	lg_pkt_payload(&pkt, 32, 0);
	lg_pkt_done(&pkt);
	return pkt;
}

ROW(fragments_in_any_order_are_charged_to_their_address)
{
	for (int is_ip6 = 0; is_ip6 < 2; is_ip6++) {
		struct lg_pkt_buf first = fragment(is_ip6, 0), later = fragment(is_ip6, 1480);
		struct lg_key by_address = progs_key(1, is_ip6 ? "2001:db8::1" : "10.0.0.1"), by_port = by_address;

		by_port.rule_id = 2;
		p->set.n_rules = 0;
		progs_rule(p, 3);
		progs_port(p, progs_rule(p, 9), 53);
		progs_publish(p);
		assert_int_equal(progs_later_fragments(p, hook), is_ip6 ? 3 : 0);
		progs_expect(p, hook, &later, LG_PASS_ADMITTED);
		progs_expect(p, hook, &first, LG_PASS_ADMITTED);
		assert_int_equal(progs_later_fragments(p, hook), is_ip6 ? 4 : 1);
		progs_expect(p, hook, &later, LG_PASS_ADMITTED);
		progs_expect(p, hook, &later, LG_DROP_LIMIT);
		assert_int_equal(progs_bucket(p, &by_address).spent_tok, 3);
		assert_int_equal(progs_bucket(p, &by_port).spent_tok, 1);
	}
	assert_int_equal(progs_later_fragments(p, hook), 6);
}

/* IPv4 in IPv4: from one source by its outer header, from another by its inner one. */
static struct lg_pkt_buf tunnelled(const char *source, const char *inner_source)
{
	struct lg_pkt_buf inner, pkt;

	lg_pkt_udp4(&inner, inner_source, "192.0.2.1", 53, 20);
	lg_pkt_init(&pkt);
	lg_pkt_ip4(&pkt, source, "192.0.2.9", 0);
	lg_pkt_proto(&pkt, IPPROTO_IPIP);
	lg_pkt_payload(&pkt, inner.len - 14, 0);
	memcpy(pkt.data + 34, inner.data + 14, inner.len - 14);
	lg_pkt_done(&pkt);
	return pkt;
}

ROW(what_is_inside_a_tunnel_is_not_looked_at)
{
	struct lg_pkt_buf a = tunnelled("10.0.0.1", "203.0.113.1"), b = tunnelled("10.0.0.1", "203.0.113.2"),
			  c = tunnelled("10.0.0.2", "203.0.113.1");
	struct lg_bucket none;
	struct lg_key outer = progs_key(1, "10.0.0.1"), inner = progs_key(1, "203.0.113.1");

	progs_rule(p, 2);
	progs_port(p, progs_rule(p, 0), 53);
	progs_source(p, progs_rule(p, 0), "203.0.113.1");
	progs_publish(p);
	progs_expect(p, hook, &a, LG_PASS_ADMITTED);
	progs_expect(p, hook, &b, LG_PASS_ADMITTED);
	progs_expect(p, hook, &a, LG_DROP_LIMIT);
	progs_expect(p, hook, &c, LG_PASS_ADMITTED);
	assert_int_equal(progs_bucket(p, &outer).spent_tok, 2);
	assert_false(progs_has_bucket(p, &inner, &none));
}

#define SYN 0x02
#define SYN_ACK 0x12

static struct lg_pkt_buf tcp(const char *source, uint8_t flags)
{
	struct lg_pkt_buf pkt;

	lg_pkt_init(&pkt);
	lg_pkt_vlan(&pkt, 0x8100, 7);
	lg_pkt_ip4(&pkt, source, "192.0.2.1", 2);
	lg_pkt_tcp(&pkt, 443, 1024);
	lg_pkt_tcp_flags(&pkt, flags);
	lg_pkt_payload(&pkt, 40, 1);
	lg_pkt_done(&pkt);
	return pkt;
}

/* No byte is changed; and checksums, which on virtual wires are often left for later, are not looked at: one is 0, the other wrong. */
ROW(packets_leave_as_they_came_whatever_their_checksum)
{
	static uint8_t out[LG_PKT_BYTES_MAX];
	struct lg_pkt_buf pkt = tcp("10.0.0.1", SYN_ACK);

	progs_rule(p, 2);
	progs_publish(p);
	for (int i = 0; i < 2; i++) {
		LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = pkt.data, .data_size_in = pkt.len, .data_out = out,
			    .data_size_out = sizeof(out), .repeat = 1);

		assert_int_equal(bpf_prog_test_run_opts(progs_fd(p, hook), &opts), 0);
		assert_int_equal(opts.retval, hook == LG_HOOK_XDP ? XDP_PASS : (uint32_t)TC_ACT_UNSPEC);
		assert_int_equal(opts.data_size_out, pkt.len);
		assert_memory_equal(out, pkt.data, pkt.len);
		pkt.data[18 + 10] ^= 0x5a; /* of IPv4, behind the tag */
		pkt.data[18 + 28 + 16] ^= 0x5a;	/* of TCP, behind 8 bytes of options */
	}
	progs_expect(p, hook, &pkt, LG_DROP_LIMIT);
}

/* A reflected flood: each source sends little, and nothing of it is a SYN alone. */
ROW(answers_that_nobody_asked_for_are_charged_like_any_packet)
{
	struct lg_rule *per_destination = progs_rule(p, 3), *syns;

	per_destination->key_form = LG_FORM_DESTINATION;
	syns = progs_rule(p, 0);
	progs_match(p, syns)->has_protocol = true;
	progs_match(p, syns)->protocol = IPPROTO_TCP;
	progs_match(p, syns)->tcp_flags.mask = SYN_ACK;
	progs_match(p, syns)->tcp_flags.value = SYN;
	progs_publish(p);
	for (int i = 0; i < 5; i++) {
		struct lg_pkt_buf pkt;
		char source[32];

		snprintf(source, sizeof(source), "10.0.0.%d", i + 1);
		pkt = tcp(source, SYN_ACK);
		progs_expect(p, hook, &pkt, i < 3 ? LG_PASS_ADMITTED : LG_DROP_LIMIT);
	}
	assert_int_equal(progs_rule_count(p, 2, LG_DROP_LIMIT).packets, 0);
}

/* None is thrown out to make room: neither while there is some, nor by those that come when there is none. */
ROW(the_smallest_table_keeps_every_key_it_has_room_for)
{
	struct lg_pkt_buf pkt;
	char source[32];

	progs_rule(p, 1);
	progs_publish(p);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < SMALLEST_TABLE; i++) {
			snprintf(source, sizeof(source), "10.0.0.%d", i + 1);
			lg_pkt_udp4(&pkt, source, "192.0.2.1", 53, 20);
			progs_expect(p, hook, &pkt, round ? LG_DROP_LIMIT : LG_PASS_ADMITTED);
		}
		for (int i = 0; i < 2 * SMALLEST_TABLE; i++) {
			snprintf(source, sizeof(source), "10.0.%d.1", i + 1);
			lg_pkt_udp4(&pkt, source, "192.0.2.1", 53, 20);
			progs_run(p, hook, &pkt);
		}
	}
	assert_int_equal(progs_shared(p).map_full, 4 * SMALLEST_TABLE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(fragments_in_any_order_are_charged_to_their_address),
		cmocka_unit_test(what_is_inside_a_tunnel_is_not_looked_at),
		cmocka_unit_test(packets_leave_as_they_came_whatever_their_checksum),
		cmocka_unit_test(answers_that_nobody_asked_for_are_charged_like_any_packet),
		cmocka_unit_test(the_smallest_table_keeps_every_key_it_has_room_for),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
