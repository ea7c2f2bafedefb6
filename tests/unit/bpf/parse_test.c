// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/parse.h on the host: frames that end at an unreadable page, so that one byte too far is a crash. */
#include "parse_frames.h"

#define V4 LG_RULE_IPV4
#define V6 LG_RULE_IPV6
#define NONE LG_RULE_NOT_IP

static const struct row {
	const char *name;
	void (*build)(struct lg_pkt_buf *p);
	enum lg_class class;
	uint32_t family;
	uint8_t protocol;
	int port; /* -1: has none */
	uint32_t l4_off;
} rows[] = {
	{ "UDP over IPv4", build_udp4, LG_CLASS_IP, V4, 17, 53, 34 },
	{ "UDP over IPv6", build_udp6, LG_CLASS_IP, V6, 17, 53, 54 },
	{ "TCP behind all of IPv4's options", build_tcp4_options, LG_CLASS_IP, V4, 6, 443, 74 },
	{ "SCTP", build_sctp4, LG_CLASS_IP, V4, 132, 2905, 34 },
	{ "GRE has no ports", build_gre4, LG_CLASS_IP, V4, 47, -1, 34 },
	{ "an empty IPv4 packet", build_ip4_empty, LG_CLASS_IP, V4, 253, -1, 34 },
	{ "the first fragment has ports", build_first_fragment4, LG_CLASS_IP, V4, 17, 53, 34 },
	{ "a later fragment has none", build_later_fragment4, LG_CLASS_IP, V4, 17, -1, 0 },
	{ "the first IPv6 fragment has ports", build_first_fragment6, LG_CLASS_IP, V6, 17, 53, 62 },
	{ "a later IPv6 fragment has none", build_later_fragment6, LG_CLASS_IP, V6, 17, -1, 0 },
	{ "a chain of four kinds of extension headers", build_chain6, LG_CLASS_IP, V6, 6, 443, 54 + 16 + 8 + 24 + 24 },
	{ "AH counts in words of four", build_ah_shortest, LG_CLASS_IP, V6, 17, 53, 62 },
	{ "ESP ends the chain", build_esp6, LG_CLASS_IP, V6, 50, -1, 54 },
	{ "no next header", build_no_next6, LG_CLASS_IP, V6, 59, -1, 54 },
	{ "eight extension headers", build_eight_ext, LG_CLASS_IP, V6, 17, 53, 54 + 64 },
	{ "nine extension headers", build_nine_ext, LG_CLASS_UNPARSABLE, V6, 0, -1, 0 },
	{ "an extension header beyond its packet", build_ext_too_long, LG_CLASS_UNPARSABLE, V6, 0, -1, 0 },
	{ "neighbour solicitation", build_nd, LG_CLASS_EXEMPT, V6, 58, -1, 54 },
	{ "the same through a router", build_nd_forwarded, LG_CLASS_IP, V6, 58, -1, 54 },
	{ "the same as a fragment", build_nd_fragment, LG_CLASS_IP, V6, 58, -1, 62 },
	{ "echo", build_echo6, LG_CLASS_IP, V6, 58, -1, 54 },
	{ "ICMPv6 132 is no neighbour discovery", build_below_nd, LG_CLASS_IP, V6, 58, -1, 54 },
	{ "nor is 138", build_above_nd, LG_CLASS_IP, V6, 58, -1, 54 },
	{ "ARP", build_arp, LG_CLASS_EXEMPT, NONE, 0, -1, 0 },
	{ "ARP in a VLAN", build_vlan_arp, LG_CLASS_EXEMPT, NONE, 0, -1, 0 },
	{ "two tags", build_qinq, LG_CLASS_IP, V4, 17, 53, 42 },
	{ "three tags", build_three_tags, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "802.3 with a length", build_llc, LG_CLASS_NOT_IP, NONE, 0, -1, 0 },
	{ "LLDP", build_lldp, LG_CLASS_NOT_IP, NONE, 0, -1, 0 },
	{ "IHL below 5", build_ihl_4, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "IPv4 of version 6", build_ip4_version_6, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "IPv6 of version 4", build_ip6_version_4, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "total length below the header's", build_total_below_header, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "total length beyond the frame", build_total_beyond_frame, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "total length 0 in a frame of common size", build_total_zero, LG_CLASS_UNPARSABLE, 0, 0, -1, 0 },
	{ "IPv6 payload beyond the frame", build_payload6_beyond_frame, LG_CLASS_UNPARSABLE, V6, 0, -1, 0 },
	{ "ports are not taken from padding", build_ports_in_padding, LG_CLASS_UNPARSABLE, V4, 17, -1, 34 },
	{ "ports are enough of a UDP header", build_only_ports, LG_CLASS_IP, V4, 17, 0x0203, 34 },
};

static void each_frame_is_read_as_what_it_is(void **state)
{
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		rows[i].build(&p);
		print_message("%s\n", rows[i].name);
		assert_int_equal(parse(&p, &pkt), rows[i].class);
		assert_int_equal(pkt.family, rows[i].family);
		assert_int_equal(pkt.protocol, rows[i].protocol);
		assert_int_equal(pkt.has_port ? pkt.destination_port : -1, rows[i].port);
		assert_int_equal(pkt.l4_off, rows[i].l4_off);
		assert_int_equal(pkt.bytes, p.len);
		assert_int_equal(pkt.packets, 1);
	}
}

static void addresses_are_mapped_and_in_network_order(void **state)
{
	static const uint8_t source4[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 };
	static const uint8_t destination4[16] = { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1 };
	static const uint8_t source6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	build_udp4(&p);
	parse(&p, &pkt);
	assert_memory_equal(&pkt.source, source4, 16);
	assert_memory_equal(&pkt.destination, destination4, 16);
	build_udp6(&p);
	parse(&p, &pkt);
	assert_memory_equal(&pkt.source, source6, 16);
}

/* Where the IP packet ends, by its own word; padding follows. */
static uint32_t packet_end(const struct lg_pkt_buf *p)
{
	const uint8_t *ip = p->data + p->l3_at;

	return p->l3_at + (p->is_ip6 ? 40u + ip[4] * 256u + ip[5] : ip[2] * 256u + ip[3]);
}

/* Cut short anywhere an IP frame is unparsable, be it by its length alone; nothing is read beyond the cut. */
static void no_frame_is_read_beyond_its_end(void **state)
{
	struct lg_pkt_buf p;
	struct lg_frame f;
	struct lg_pkt pkt;
	enum lg_class class;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		rows[i].build(&p);
		for (uint32_t len = 0; len < p.len; len++) {
			f = frame_of(p.data, len);
			class = lg_parse(&f, &pkt);
			lg_measure(&f, &pkt);
			if (rows[i].class == LG_CLASS_IP)
				assert_int_equal(class, len < packet_end(&p) ? LG_CLASS_UNPARSABLE : LG_CLASS_IP);
			assert_int_equal(pkt.bytes, len);
		}
	}
}

/* A capture keeps less than the frame had: what is there is read, and the length on the wire counts. */
static void a_capture_that_keeps_the_headers_is_enough(void **state)
{
	struct lg_pkt_buf p;
	struct lg_frame f;
	struct lg_pkt pkt;

	(void)state;
	build_first_fragment4(&p);
	f = frame_of(p.data, 64);
	f.len_bytes = p.len;
	assert_int_equal(lg_parse(&f, &pkt), LG_CLASS_IP);
	lg_measure(&f, &pkt);
	assert_int_equal(pkt.destination_port, 53);
	assert_int_equal(pkt.bytes, p.len);
}

/* The kernel first parses by direct reads alone: that must say the same, or that it cannot tell. */
static void the_fast_way_agrees_or_gives_up(void **state)
{
	struct lg_pkt_buf p;
	struct lg_pkt fast, slow;
	enum lg_class fast_class, slow_class;
	struct lg_frame f;
	size_t n_retries = 0;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		rows[i].build(&p);
		for (uint32_t len = 0; len <= p.len; len++) {
			f = frame_of(p.data, len);
			f.len_bytes = p.len;
			f.is_fast = 1;
			f.gso_size = 100;
			fast_class = lg_parse(&f, &fast);
			if (fast_class == LG_CLASS_RETRY || !lg_measure(&f, &fast)) {
				n_retries++;
				continue;
			}
			f = frame_of(p.data, p.len);
			f.gso_size = 100;
			slow_class = lg_parse(&f, &slow);
			assert_true(lg_measure(&f, &slow));
			assert_int_equal(fast_class, slow_class);
			if (fast_class == LG_CLASS_IP)
				assert_memory_equal(&fast, &slow, sizeof(fast));
		}
	}
	assert_true(n_retries > 0);
}

/* TC keeps the outer tag apart: the frame begins with the inner one, and the same packet costs the same. */
static void a_tag_held_apart_counts_as_one_in_the_frame(void **state)
{
	struct lg_pkt_buf whole, rest;
	struct lg_pkt a, b;
	struct lg_frame f;

	(void)state;
	build_qinq(&whole);
	assert_int_equal(parse(&whole, &a), LG_CLASS_IP);
	rest = whole;
	memmove(rest.data + 12, rest.data + 16, rest.len - 16);
	f = frame_of(rest.data, rest.len - 4);
	f.tag = 209;
	assert_int_equal(lg_parse(&f, &b), LG_CLASS_IP);
	lg_measure(&f, &b);
	assert_int_equal(a.bytes, b.bytes);
	assert_int_equal(a.destination_port, b.destination_port);
	assert_int_equal(b.vlan, 209);
	assert_int_equal(b.inner_vlan, 5);
	assert_memory_equal(&a.source, &b.source, sizeof(a.source));

	build_three_tags(&whole);
	memmove(whole.data + 12, whole.data + 16, whole.len - 16);
	f = frame_of(whole.data, whole.len - 4);
	f.tag = 1;
	assert_int_equal(lg_parse(&f, &b), LG_CLASS_UNPARSABLE);
}

static void a_superframe_is_charged_as_its_segments(void **state)
{
	static const struct {
		uint32_t payload, size, segs, want_packets, want_bytes;
	} sizes[] = {
		{ 8000, 0, 0, 1, 8054 },             /* no superframe */
		{ 7300, 1460, 5, 5, 7300 + 5 * 54 }, /* all segments full */
		{ 7301, 1460, 6, 6, 7301 + 6 * 54 },
		{ 7301, 1460, 0, 6, 7301 + 6 * 54 }, /* the kernel did not count them */
		{ 7300, 1460, 0, 5, 7300 + 5 * 54 },
		{ 100, 1460, 1, 1, 154 },
		{ 0, 1460, 0, 1, 54 },
	};
	struct lg_pkt_buf p;
	struct lg_frame f;
	struct lg_pkt pkt;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(sizes); i++) {
		lg_pkt_init(&p);
		lg_pkt_ip4(&p, "10.0.0.1", "192.0.2.1", 0);
		lg_pkt_tcp(&p, 1024, 443);
		lg_pkt_payload(&p, sizes[i].payload, 0);
		lg_pkt_done(&p);
		f = frame_of(p.data, p.len);
		f.gso_size = sizes[i].size;
		f.gso_segs = sizes[i].segs;
		assert_int_equal(lg_parse(&f, &pkt), LG_CLASS_IP);
		lg_measure(&f, &pkt);
		assert_int_equal(pkt.packets, sizes[i].want_packets);
		assert_int_equal(pkt.bytes, sizes[i].want_bytes);
		f.tag = 1;
		lg_measure(&f, &pkt);
		assert_int_equal(pkt.bytes, sizes[i].want_bytes + 4 * sizes[i].want_packets);
	}
}

static void a_udp_superframe_repeats_its_eight_bytes(void **state)
{
	struct lg_pkt_buf p;
	struct lg_frame f;
	struct lg_pkt pkt;

	(void)state;
	lg_pkt_udp4(&p, "10.0.0.1", "192.0.2.1", 53, 1000);
	f = frame_of(p.data, p.len);
	f.gso_size = 100;
	f.gso_segs = 10;
	assert_int_equal(lg_parse(&f, &pkt), LG_CLASS_IP);
	lg_measure(&f, &pkt);
	assert_int_equal(pkt.packets, 10);
	assert_int_equal(pkt.bytes, 1000 + 10 * 42);
}

/* BIG TCP: the kernel's own superframes beyond 64 KiB carry a length of 0. */
static void a_length_of_zero_means_the_rest_of_a_frame_beyond_64_kib(void **state)
{
	struct lg_pkt_buf p;
	struct lg_frame f;
	struct lg_pkt pkt;

	(void)state;
	build_total_zero(&p);
	for (int above = 0; above < 2; above++) {
		f = frame_of(p.data, p.len);
		f.len_bytes = 14 + 65535 + (uint32_t)above;
		assert_int_equal(lg_parse(&f, &pkt), above ? LG_CLASS_IP : LG_CLASS_UNPARSABLE);
	}
	build_udp6(&p);
	p.data[18] = p.data[19] = 0;
	for (int above = 0; above < 2; above++) {
		f = frame_of(p.data, p.len);
		f.len_bytes = 54 + 65535 + (uint32_t)above;
		assert_int_equal(lg_parse(&f, &pkt), above ? LG_CLASS_IP : LG_CLASS_UNPARSABLE);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_frame_is_read_as_what_it_is),
		cmocka_unit_test(addresses_are_mapped_and_in_network_order),
		cmocka_unit_test(no_frame_is_read_beyond_its_end),
		cmocka_unit_test(a_capture_that_keeps_the_headers_is_enough),
		cmocka_unit_test(the_fast_way_agrees_or_gives_up),
		cmocka_unit_test(a_tag_held_apart_counts_as_one_in_the_frame),
		cmocka_unit_test(a_superframe_is_charged_as_its_segments),
		cmocka_unit_test(a_udp_superframe_repeats_its_eight_bytes),
		cmocka_unit_test(a_length_of_zero_means_the_rest_of_a_frame_beyond_64_kib),
	};

	return cmocka_run_group_tests(tests, make_guard, NULL);
}
