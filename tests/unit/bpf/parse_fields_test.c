// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/parse.h on the host: tags, types, flags, fragments, and what a limit does not touch unless a rule names it. */
#include "parse_frames.h"

/* ---- fields beside addresses and destination port ---- */

static void build_syn_in_fragments(struct lg_pkt_buf *p)
{
	begin4(p);
	lg_pkt_ip4_fragment(p, 0, true);
	lg_pkt_tcp(p, 1024, 443);
	lg_pkt_tcp_flags(p, 0x02);
	lg_pkt_done(p);
}

static void build_syn6(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_tcp(p, 1024, 443);
	lg_pkt_tcp_flags(p, 0x12);
	lg_pkt_payload(p, 3, 0);
	lg_pkt_done(p);
}

/* 14 bytes of TCP: as few as have the flags among them; or 13, without. */
static void build_tcp_to_flags(struct lg_pkt_buf *p)
{
	build_padded(p, 6, 14);
}

static void build_tcp_before_flags(struct lg_pkt_buf *p)
{
	build_padded(p, 6, 13);
}

static void build_icmp(struct lg_pkt_buf *p)
{
	begin4(p);
	lg_pkt_icmp4(p, 3, 13);
	lg_pkt_done(p);
}

static void build_icmp_of_one_byte(struct lg_pkt_buf *p)
{
	build_padded(p, 1, 1);
}

/* Each family's ICMP is nothing but a number in the other. */
static void build_icmp6_in_ip4(struct lg_pkt_buf *p)
{
	build_icmp(p);
	p->data[23] = 58;
}

static void build_later_icmp(struct lg_pkt_buf *p)
{
	begin4(p);
	lg_pkt_ip4_fragment(p, 8, true);
	lg_pkt_icmp4(p, 8, 0);
	lg_pkt_done(p);
}

/* A fragment header without fragments. */
static void build_atomic_fragment6(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_ip6_fragment(p, 0, false);
	end_udp(p);
}

static void build_priority_tag(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_vlan(p, 0x8100, 7 << 13);
	lg_pkt_ip4(p, "10.0.0.1", "192.0.2.1", 0);
	end_udp(p);
}

static void build_last_vlan_lldp(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_vlan(p, 0x8100, 0xffff);
	end_type(p, 0x88cc);
}

static void build_type_600(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	end_type(p, 0x600);
}

static void build_type_5ff(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	end_type(p, 0x5ff);
}

static const struct fields_row {
	const char *name;
	void (*build)(struct lg_pkt_buf *p);
	enum lg_class class;
	uint16_t source_port, ethertype, vlan, inner_vlan;
	uint8_t tcp_flags;
	int icmp; /* type << 8 | code; -1: has none */
	enum lg_fragment fragment;
} fields_rows[] = {
	{ "UDP", build_udp4, LG_CLASS_IP, 40000, 0x800, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "UDP over IPv6", build_udp6, LG_CLASS_IP, 40000, 0x86dd, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "a SYN", build_syn_in_fragments, LG_CLASS_IP, 1024, 0x800, 0, 0, 0x02, -1, LG_FRAGMENT_FIRST },
	{ "a SYN and ACK", build_syn6, LG_CLASS_IP, 1024, 0x86dd, 0, 0, 0x12, -1, LG_FRAGMENT_NONE },
	{ "TCP up to its flags", build_tcp_to_flags, LG_CLASS_IP, 0x0001, 0x800, 0, 0, 13, -1, LG_FRAGMENT_NONE },
	{ "TCP cut off before them", build_tcp_before_flags, LG_CLASS_UNPARSABLE, 0, 0x800, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "ICMP", build_icmp, LG_CLASS_IP, 0, 0x800, 0, 0, 0, 3 << 8 | 13, LG_FRAGMENT_NONE },
	{ "ICMP without a code", build_icmp_of_one_byte, LG_CLASS_UNPARSABLE, 0, 0x800, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "ICMPv6 in IPv4", build_icmp6_in_ip4, LG_CLASS_IP, 0, 0x800, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "ICMPv6", build_echo6, LG_CLASS_IP, 0, 0x86dd, 0, 0, 0, 128 << 8, LG_FRAGMENT_NONE },
	{ "a later fragment of ICMP", build_later_icmp, LG_CLASS_IP, 0, 0x800, 0, 0, 0, -1, LG_FRAGMENT_LATER },
	{ "a first fragment", build_first_fragment4, LG_CLASS_IP, 40000, 0x800, 0, 0, 0, -1, LG_FRAGMENT_FIRST },
	{ "a later fragment", build_later_fragment4, LG_CLASS_IP, 0, 0x800, 0, 0, 0, -1, LG_FRAGMENT_LATER },
	{ "a first IPv6 fragment", build_first_fragment6, LG_CLASS_IP, 40000, 0x86dd, 0, 0, 0, -1, LG_FRAGMENT_FIRST },
	{ "a later IPv6 fragment", build_later_fragment6, LG_CLASS_IP, 0, 0x86dd, 0, 0, 0, -1, LG_FRAGMENT_LATER },
	{ "a fragment that is whole", build_atomic_fragment6, LG_CLASS_IP, 40000, 0x86dd, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "two tags, one with a priority", build_qinq, LG_CLASS_IP, 40000, 0x800, 209, 5, 0, -1, LG_FRAGMENT_NONE },
	{ "a tag of priority alone", build_priority_tag, LG_CLASS_IP, 40000, 0x800, 1, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "the last VLAN", build_last_vlan_lldp, LG_CLASS_NOT_IP, 0, 0x88cc, 4096, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "ARP", build_vlan_arp, LG_CLASS_EXEMPT, 0, 0x806, 8, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "the first EtherType", build_type_600, LG_CLASS_NOT_IP, 0, 0x600, 0, 0, 0, -1, LG_FRAGMENT_NONE },
	{ "the last length", build_type_5ff, LG_CLASS_NOT_IP, 0, 0, 0, 0, 0, -1, LG_FRAGMENT_NONE },
};

static void each_field_is_read_and_masked(void **state)
{
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(fields_rows); i++) {
		const struct fields_row *row = &fields_rows[i];

		row->build(&p);
		print_message("%s\n", row->name);
		assert_int_equal(parse(&p, &pkt), row->class);
		assert_int_equal(pkt.source_port, row->source_port);
		assert_int_equal(pkt.ethertype, row->ethertype);
		assert_int_equal(pkt.vlan, row->vlan);
		assert_int_equal(pkt.inner_vlan, row->inner_vlan);
		assert_int_equal(pkt.tcp_flags, row->tcp_flags);
		assert_int_equal(pkt.has_icmp ? pkt.icmp_type << 8 | pkt.icmp_code : -1, row->icmp);
		assert_int_equal(pkt.fragment, row->fragment);
	}
}

/* ---- what a limit does not touch unless a rule names it ---- */

static void build_kept(struct lg_pkt_buf *p, const char *source, const char *destination, uint8_t protocol)
{
	lg_pkt_init(p);
	if (strchr(source, ':'))
		lg_pkt_ip6(p, source, destination);
	else
		lg_pkt_ip4(p, source, destination, 0);
	end_other(p, protocol, 20);
}

static void control_traffic_is_known_by_what_no_router_forwards(void **state)
{
	static const struct {
		const char *source, *destination;
		uint8_t protocol;
		int icmp; /* type << 8 | code; -1: leave the payload */
		bool kept;
	} kept_rows[] = {
		{ "10.0.0.1", "224.0.0.0", 112, -1, true }, /* VRRP, OSPF and the like */
		{ "10.0.0.1", "224.0.0.255", 89, -1, true },
		{ "10.0.0.1", "224.0.1.0", 112, -1, false },
		{ "10.0.0.1", "223.255.255.255", 112, -1, false },
		{ "10.0.0.1", "224.0.0.251", 17, -1, true },
		{ "10.0.0.1", "239.1.2.3", 2, -1, true }, /* IGMP: to any group */
		{ "10.0.0.1", "240.0.0.1", 2, -1, false },
		{ "10.0.0.1", "192.0.2.1", 2, -1, false },
		{ "10.0.0.1", "192.0.2.1", 1, 3 << 8 | 4, true }, /* fragmentation needed */
		{ "10.0.0.1", "192.0.2.1", 1, 3 << 8 | 3, false },
		{ "10.0.0.1", "192.0.2.1", 1, 2 << 8 | 4, false },
		{ "10.0.0.1", "192.0.2.1", 58, 2 << 8, false },
		{ "2001:db8::1", "2001:db8::2", 58, 2 << 8, true }, /* packet too big */
		{ "2001:db8::1", "2001:db8::2", 58, 2 << 8 | 1, true },
		{ "2001:db8::1", "2001:db8::2", 58, 3 << 8, false },
		{ "2001:db8::1", "2001:db8::2", 1, 3 << 8 | 4, false },
		{ "2001:db8::1", "ff02::12", 112, -1, true },
		{ "2001:db8::1", "ff02:ffff::1", 17, -1, true },
		{ "2001:db8::1", "ff01::1", 17, -1, false },
		{ "2001:db8::1", "ff03::1", 17, -1, false },
		{ "2001:db8::1", "ff12::1", 17, -1, false },
		{ "fe80::1", "ff0e::1:2", 58, 130 << 8, true }, /* listener discovery, to the group */
		{ "fe80::1", "ff0e::1:2", 58, 131 << 8, true },
		{ "febf::1", "ff0e::1:2", 58, 132 << 8, true },
		{ "::", "ff0e::1:2", 58, 143 << 8, true },
		{ "::1", "ff0e::1:2", 58, 143 << 8, false },
		{ "fec0::1", "ff0e::1:2", 58, 143 << 8, false },
		{ "2001:db8::1", "ff0e::1:2", 58, 143 << 8, false },
		{ "fe80::1", "ff0e::1:2", 58, 129 << 8, false },
		{ "fe80::1", "ff0e::1:2", 58, 142 << 8, false },
		{ "fe80::1", "ff0e::1:2", 58, 144 << 8, false },
	};
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(kept_rows); i++) {
		build_kept(&p, kept_rows[i].source, kept_rows[i].destination, kept_rows[i].protocol);
		if (kept_rows[i].icmp >= 0) {
			p.data[p.len - 20] = (uint8_t)(kept_rows[i].icmp >> 8);
			p.data[p.len - 19] = (uint8_t)kept_rows[i].icmp;
		}
		print_message("row %zu\n", i);
		assert_int_equal(parse(&p, &pkt), kept_rows[i].kept ? LG_CLASS_EXEMPT : LG_CLASS_IP);
		assert_int_equal(pkt.protocol, kept_rows[i].protocol);
	}
}

/* Later fragments carry no ICMP header: they are what their addresses say. */
static void fragments_are_kept_by_their_address_alone(void **state)
{
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	lg_pkt_init(&p);
	lg_pkt_ip6(&p, "2001:db8::1", "ff02::1");
	lg_pkt_ip6_fragment(&p, 1480, false);
	lg_pkt_proto(&p, 17);
	lg_pkt_payload(&p, 20, 0);
	lg_pkt_done(&p);
	assert_int_equal(parse(&p, &pkt), LG_CLASS_EXEMPT);
	lg_pkt_init(&p);
	lg_pkt_ip4(&p, "10.0.0.1", "192.0.2.1", 0);
	lg_pkt_ip4_fragment(&p, 8, false);
	lg_pkt_icmp4(&p, 3, 4);
	lg_pkt_done(&p);
	assert_int_equal(parse(&p, &pkt), LG_CLASS_IP);
}

static void a_mapped_address_is_ipv4_in_either_header(void **state)
{
	static const struct {
		const char *source, *destination;
		int source_is4, destination_is4;
	} is4_rows[] = {
		{ "10.0.0.1", "192.0.2.1", 1, 1 },
		{ "2001:db8::1", "2001:db8::2", 0, 0 },
		{ "::ffff:10.0.0.1", "2001:db8::2", 1, 0 },
		{ "2001:db8::1", "::ffff:0.0.0.0", 0, 1 },
		{ "::fffe:10.0.0.1", "::1:ffff:10.0.0.1", 0, 0 },
		{ "::10.0.0.1", "1::ffff:10.0.0.1", 0, 0 },
	};
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(is4_rows); i++) {
		build_kept(&p, is4_rows[i].source, is4_rows[i].destination, 47);
		assert_int_equal(parse(&p, &pkt), LG_CLASS_IP);
		assert_int_equal(pkt.source_is4, is4_rows[i].source_is4);
		assert_int_equal(pkt.destination_is4, is4_rows[i].destination_is4);
		assert_int_equal(pkt.family, i ? LG_RULE_IPV6 : LG_RULE_IPV4);
	}
}

static void every_protocol_number_has_one_verdict(void **state)
{
	struct lg_pkt_buf p;
	struct lg_pkt pkt;

	(void)state;
	for (unsigned int protocol = 0; protocol < 256; protocol++) {
		build_kept(&p, "10.0.0.1", "192.0.2.1", (uint8_t)protocol);
		assert_int_equal(parse(&p, &pkt), LG_CLASS_IP);
		assert_int_equal(pkt.protocol, protocol);
		assert_int_equal(pkt.has_port, protocol == 6 || protocol == 17 || protocol == 132);
		assert_int_equal(pkt.has_icmp, protocol == 1);
		build_kept(&p, "2001:db8::1", "2001:db8::2", (uint8_t)protocol);
		assert_in_range(parse(&p, &pkt), LG_CLASS_IP, LG_CLASS_UNPARSABLE);
		assert_int_equal(pkt.has_port, protocol == 6 || protocol == 17 || protocol == 132);
		assert_int_equal(pkt.has_icmp, protocol == 58);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_is_read_and_masked),
		cmocka_unit_test(control_traffic_is_known_by_what_no_router_forwards),
		cmocka_unit_test(fragments_are_kept_by_their_address_alone),
		cmocka_unit_test(a_mapped_address_is_ipv4_in_either_header),
		cmocka_unit_test(every_protocol_number_has_one_verdict),
	};

	return cmocka_run_group_tests(tests, make_guard, NULL);
}
