/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Frames for the tests of bpf/parse.h, and a place for them that ends at an unreadable page, so that one byte too far is a crash. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "parse.h"
#include "base/mem.h"
#include "tests/lib/pkt.h"

#define ROOM_BYTES 65536

/* The end of ROOM_BYTES readable bytes before a page that is not. */
static uint8_t *guard;

static inline int make_guard(void **state)
{
	uint8_t *p = mmap(NULL, ROOM_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	if (p == MAP_FAILED || mprotect(p + ROOM_BYTES, 4096, PROT_NONE))
		return -1;
	guard = p + ROOM_BYTES;
	return 0;
}

/* The frame's first len bytes, right before the guard. */
static inline struct lg_frame frame_of(const uint8_t *data, uint32_t len)
{
	memcpy(guard - len, data, len);
	return (struct lg_frame){ .data = guard - len, .end = guard, .len_bytes = len };
}

static inline enum lg_class parse(const struct lg_pkt_buf *p, struct lg_pkt *pkt)
{
	struct lg_frame f = frame_of(p->data, p->len);
	enum lg_class class = lg_parse(&f, pkt);

	lg_measure(&f, pkt);
	return class;
}

/* From one address to another, as far as the IP header. */
static inline void begin4(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_ip4(p, "10.0.0.1", "192.0.2.1", 0);
}

static inline void begin6(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_ip6(p, "2001:db8::1", "2001:db8::2");
}

static inline void end_udp(struct lg_pkt_buf *p)
{
	lg_pkt_udp(p, 40000, 53);
	lg_pkt_done(p);
}

/* With a payload of bytes 0, 1, 2 and so on. */
static inline void end_other(struct lg_pkt_buf *p, uint8_t protocol, uint32_t payload_bytes)
{
	lg_pkt_proto(p, protocol);
	lg_pkt_payload(p, payload_bytes, 0);
	lg_pkt_done(p);
}

static inline void end_type(struct lg_pkt_buf *p, uint16_t ethertype)
{
	lg_pkt_type(p, ethertype);
	lg_pkt_payload(p, 46, 0);
}

/* The IP packet ends after so many bytes; behind it is Ethernet's padding. */
static inline void build_padded(struct lg_pkt_buf *p, uint8_t protocol, uint32_t payload_bytes)
{
	begin4(p);
	end_other(p, protocol, payload_bytes);
	lg_pkt_pad(p, 60);
}

static inline void build_udp4(struct lg_pkt_buf *p)
{
	lg_pkt_udp4(p, "10.0.0.1", "192.0.2.1", 53, 10);
}

static inline void build_udp6(struct lg_pkt_buf *p)
{
	lg_pkt_udp6(p, "2001:db8::1", "2001:db8::2", 53, 10);
}

static inline void build_tcp4_options(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_ip4(p, "10.0.0.1", "192.0.2.1", 10);
	lg_pkt_tcp(p, 1024, 443);
	lg_pkt_done(p);
}

static inline void build_sctp4(struct lg_pkt_buf *p)
{
	begin4(p);
	lg_pkt_sctp(p, 1024, 2905);
	lg_pkt_done(p);
}

static inline void build_gre4(struct lg_pkt_buf *p)
{
	begin4(p);
	end_other(p, 47, 8);
}

static inline void build_ip4_empty(struct lg_pkt_buf *p)
{
	begin4(p);
	lg_pkt_proto(p, 253);
	lg_pkt_done(p);
}

static inline void build_first_fragment4(struct lg_pkt_buf *p)
{
	begin4(p);
	lg_pkt_ip4_fragment(p, 0, true);
	lg_pkt_udp(p, 40000, 53);
	lg_pkt_payload(p, 1472, 0);
	lg_pkt_done(p);
}

/* The payload begins with what would be ports 53 and 443. */
static inline void build_later_fragment4(struct lg_pkt_buf *p)
{
	static const uint8_t ports[] = { 0x00, 0x35, 0x01, 0xbb };

	begin4(p);
	lg_pkt_ip4_fragment(p, 1480, false);
	lg_pkt_proto(p, 17);
	lg_pkt_payload(p, 100, 0);
	memcpy(p->data + p->len - 100, ports, sizeof(ports));
	lg_pkt_done(p);
}

static inline void build_first_fragment6(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_ip6_fragment(p, 0, true);
	lg_pkt_udp(p, 40000, 53);
	lg_pkt_payload(p, 100, 0);
	lg_pkt_done(p);
}

static inline void build_later_fragment6(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_ext(p, 0, 0);
	lg_pkt_ip6_fragment(p, 1480, false);
	end_other(p, 17, 100);
}

static inline void build_chain6(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_ext(p, 0, 1);
	lg_pkt_ext(p, 60, 0);
	lg_pkt_ext(p, 43, 2);
	lg_pkt_ah(p, 3);
	lg_pkt_tcp(p, 1024, 443);
	lg_pkt_done(p);
}

static inline void build_ah_shortest(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_ext(p, 51, 0); /* 8 bytes, length field 0 */
	end_udp(p);
}

static inline void build_esp6(struct lg_pkt_buf *p)
{
	begin6(p);
	end_other(p, 50, 40);
}

static inline void build_no_next6(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_done(p);
}

static inline void build_exts(struct lg_pkt_buf *p, int n)
{
	begin6(p);
	for (int i = 0; i < n; i++)
		lg_pkt_ext(p, 60, 0);
	end_udp(p);
}

static inline void build_eight_ext(struct lg_pkt_buf *p)
{
	build_exts(p, 8);
}

static inline void build_nine_ext(struct lg_pkt_buf *p)
{
	build_exts(p, 9);
}

/* Says to be longer than the packet it stands in. */
static inline void build_ext_too_long(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_ext(p, 60, 0);
	p->data[p->len - 7] = 255;
	end_udp(p);
}

static inline void build_nd(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_hop_limit(p, 255);
	lg_pkt_icmp6(p, 135);
	lg_pkt_done(p);
}

static inline void build_nd_forwarded(struct lg_pkt_buf *p)
{
	build_nd(p);
	lg_pkt_hop_limit(p, 254);
}

static inline void build_nd_fragment(struct lg_pkt_buf *p)
{
	begin6(p);
	lg_pkt_hop_limit(p, 255);
	lg_pkt_ip6_fragment(p, 0, false);
	lg_pkt_icmp6(p, 135);
	lg_pkt_done(p);
}

static inline void build_echo6(struct lg_pkt_buf *p)
{
	build_nd(p);
	p->data[p->len - 8] = 128;
}

static inline void build_below_nd(struct lg_pkt_buf *p)
{
	build_nd(p);
	p->data[p->len - 8] = 132;
}

static inline void build_above_nd(struct lg_pkt_buf *p)
{
	build_nd(p);
	p->data[p->len - 8] = 138;
}

static inline void build_arp(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_arp(p);
}

static inline void build_vlan_arp(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_vlan(p, 0x8100, 7);
	lg_pkt_arp(p);
}

static inline void build_qinq(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_vlan(p, 0x88a8, 208 | 5 << 13);
	lg_pkt_vlan(p, 0x8100, 4);
	lg_pkt_ip4(p, "10.0.0.1", "192.0.2.1", 0);
	end_udp(p);
}

static inline void build_three_tags(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	lg_pkt_vlan(p, 0x88a8, 1);
	lg_pkt_vlan(p, 0x8100, 2);
	lg_pkt_vlan(p, 0x8100, 3);
	lg_pkt_ip4(p, "10.0.0.1", "192.0.2.1", 0);
	end_udp(p);
}

/* 802.3: the type is a length, and what looks like IP behind it is none. */
static inline void build_llc(struct lg_pkt_buf *p)
{
	build_udp4(p);
	lg_pkt_type(p, 0x05dc);
}

static inline void build_lldp(struct lg_pkt_buf *p)
{
	lg_pkt_init(p);
	end_type(p, 0x88cc);
}

static inline void build_ihl_4(struct lg_pkt_buf *p)
{
	build_udp4(p);
	p->data[14] = 0x44;
}

static inline void build_ip4_version_6(struct lg_pkt_buf *p)
{
	build_udp4(p);
	p->data[14] = 0x65;
}

static inline void build_ip6_version_4(struct lg_pkt_buf *p)
{
	build_udp6(p);
	p->data[14] = 0x45;
}

static inline void build_total_below_header(struct lg_pkt_buf *p)
{
	build_udp4(p);
	p->data[17] = 19;
}

static inline void build_total_beyond_frame(struct lg_pkt_buf *p)
{
	build_udp4(p);
	p->data[17]++;
}

static inline void build_total_zero(struct lg_pkt_buf *p)
{
	build_udp4(p);
	p->data[17] = 0;
}

static inline void build_payload6_beyond_frame(struct lg_pkt_buf *p)
{
	build_udp6(p);
	p->data[19]++;
}

static inline void build_ports_in_padding(struct lg_pkt_buf *p)
{
	build_padded(p, 17, 3);
}

static inline void build_only_ports(struct lg_pkt_buf *p)
{
	build_padded(p, 17, 4);
}
