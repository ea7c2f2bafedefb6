// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/pkt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>

#define ETH_BYTES 14
#define IP4_BYTES 20
#define IP6_BYTES 40

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* Room for len zero bytes at the end; returns them. */
static uint8_t *append(struct lg_pkt_buf *p, uint32_t len)
{
	uint8_t *at = p->data + p->len;

	if (len > LG_PKT_BYTES_MAX - p->len) {
		fprintf(stderr, "pkt: frame too long\n");
		abort();
	}
	memset(at, 0, len);
	p->len += len;
	return at;
}

static void address(int family, const char *text, uint8_t *at)
{
	if (inet_pton(family, text, at) != 1) {
		fprintf(stderr, "pkt: no address: %s\n", text);
		abort();
	}
}

void lg_pkt_init(struct lg_pkt_buf *p)
{
	memset(p, 0, sizeof(*p));
	memset(append(p, ETH_BYTES), 2, 12);
	p->type_at = ETH_BYTES - 2;
}

void lg_pkt_type(struct lg_pkt_buf *p, uint16_t type)
{
	put16(p->data + p->type_at, type);
}

void lg_pkt_vlan(struct lg_pkt_buf *p, uint16_t tpid, uint16_t tci)
{
	lg_pkt_type(p, tpid);
	put16(append(p, 4), tci);
	p->type_at = p->len - 2;
}

void lg_pkt_arp(struct lg_pkt_buf *p)
{
	uint8_t *at;

	lg_pkt_type(p, 0x0806);
	at = append(p, 28);
	put16(at, 1);
	put16(at + 2, 0x0800);
	at[4] = 6;
	at[5] = 4;
	put16(at + 6, 1);
}

void lg_pkt_ip4(struct lg_pkt_buf *p, const char *source, const char *destination, uint32_t n_options)
{
	uint8_t *at;

	lg_pkt_type(p, 0x0800);
	p->l3_at = p->len;
	p->is_ip6 = false;
	at = append(p, IP4_BYTES + n_options * 4);
	memset(at + IP4_BYTES, 1, n_options * 4); /* no-operation */
	at[0] = (uint8_t)(0x45 + n_options);
	at[8] = 64;
	address(AF_INET, source, at + 12);
	address(AF_INET, destination, at + 16);
	p->proto_at = p->l3_at + 9;
}

void lg_pkt_ip6(struct lg_pkt_buf *p, const char *source, const char *destination)
{
	uint8_t *at;

	lg_pkt_type(p, 0x86dd);
	p->l3_at = p->len;
	p->is_ip6 = true;
	at = append(p, IP6_BYTES);
	at[0] = 0x60;
	at[6] = 59;
	at[7] = 64;
	address(AF_INET6, source, at + 8);
	address(AF_INET6, destination, at + 24);
	p->proto_at = p->l3_at + 6;
}

void lg_pkt_ip4_fragment(struct lg_pkt_buf *p, uint16_t offset_bytes, bool has_more)
{
	put16(p->data + p->l3_at + 6, offset_bytes / 8u | (has_more ? 0x2000u : 0));
}

void lg_pkt_hop_limit(struct lg_pkt_buf *p, uint8_t hop_limit)
{
	p->data[p->l3_at + (p->is_ip6 ? 7 : 8)] = hop_limit;
}

void lg_pkt_proto(struct lg_pkt_buf *p, uint8_t proto)
{
	p->data[p->proto_at] = proto;
}

/* An extension header: its first byte is the protocol of what follows. */
static uint8_t *extension(struct lg_pkt_buf *p, uint8_t proto, uint32_t len)
{
	uint8_t *at;

	lg_pkt_proto(p, proto);
	at = append(p, len);
	at[0] = 59;
	p->proto_at = p->len - len;
	return at;
}

void lg_pkt_ext(struct lg_pkt_buf *p, uint8_t proto, uint8_t n_units)
{
	extension(p, proto, 8 + 8u * n_units)[1] = n_units;
}

void lg_pkt_ah(struct lg_pkt_buf *p, uint8_t n_words)
{
	extension(p, 51, 12 + 4u * n_words)[1] = (uint8_t)(n_words + 1);
}

void lg_pkt_ip6_fragment(struct lg_pkt_buf *p, uint16_t offset_bytes, bool has_more)
{
	put16(extension(p, 44, 8) + 2, (offset_bytes & 0xfff8u) | has_more);
}

static uint8_t *transport(struct lg_pkt_buf *p, uint8_t proto, uint32_t len, uint16_t source, uint16_t destination)
{
	uint8_t *at;

	lg_pkt_proto(p, proto);
	at = append(p, len);
	put16(at, source);
	put16(at + 2, destination);
	return at;
}

void lg_pkt_tcp(struct lg_pkt_buf *p, uint16_t source, uint16_t destination)
{
	transport(p, 6, 20, source, destination)[12] = 5 << 4;
}

void lg_pkt_udp(struct lg_pkt_buf *p, uint16_t source, uint16_t destination)
{
	p->udp_at = p->len;
	transport(p, 17, 8, source, destination);
}

void lg_pkt_sctp(struct lg_pkt_buf *p, uint16_t source, uint16_t destination)
{
	transport(p, 132, 12, source, destination);
}

void lg_pkt_icmp4(struct lg_pkt_buf *p, uint8_t type, uint8_t code)
{
	uint8_t *at;

	lg_pkt_proto(p, 1);
	at = append(p, 8);
	at[0] = type;
	at[1] = code;
}

void lg_pkt_tcp_flags(struct lg_pkt_buf *p, uint8_t flags)
{
	p->data[p->len - 7] = flags;
}

void lg_pkt_icmp6(struct lg_pkt_buf *p, uint8_t type)
{
	lg_pkt_proto(p, 58);
	append(p, 8)[0] = type;
}

void lg_pkt_payload(struct lg_pkt_buf *p, uint32_t len, uint8_t first)
{
	uint8_t *at = append(p, len);

	for (uint32_t i = 0; i < len; i++)
		at[i] = (uint8_t)(first + i);
}

void lg_pkt_done(struct lg_pkt_buf *p)
{
	uint32_t l3_bytes = p->len - p->l3_at;

	if (p->is_ip6)
		put16(p->data + p->l3_at + 4, l3_bytes - IP6_BYTES);
	else
		put16(p->data + p->l3_at + 2, l3_bytes);
	if (p->udp_at)
		put16(p->data + p->udp_at + 4, p->len - p->udp_at);
}

void lg_pkt_pad(struct lg_pkt_buf *p, uint32_t to_bytes)
{
	if (p->len < to_bytes)
		append(p, to_bytes - p->len);
}

void lg_pkt_udp4(struct lg_pkt_buf *p, const char *source, const char *destination, uint16_t port, uint32_t len)
{
	lg_pkt_init(p);
	lg_pkt_ip4(p, source, destination, 0);
	lg_pkt_udp(p, 40000, port);
	lg_pkt_payload(p, len, 0);
	lg_pkt_done(p);
}

void lg_pkt_udp6(struct lg_pkt_buf *p, const char *source, const char *destination, uint16_t port, uint32_t len)
{
	lg_pkt_init(p);
	lg_pkt_ip6(p, source, destination);
	lg_pkt_udp(p, 40000, port);
	lg_pkt_payload(p, len, 0);
	lg_pkt_done(p);
}
