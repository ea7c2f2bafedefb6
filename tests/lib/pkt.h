/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Frames for tests, put together header by header. Each call appends; the one before learns what follows it.
 * lg_pkt_done() writes the lengths, so a test that wants a wrong one writes it afterwards. Checksums stay 0: nothing
 * under test looks at them. Running over the end of the buffer, or a bad address, aborts the test.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LG_PKT_BYTES_MAX 9000

struct lg_pkt_buf {
	uint8_t data[LG_PKT_BYTES_MAX];
	uint32_t len;
	uint32_t type_at;  /* where the EtherType of what follows goes */
	uint32_t proto_at; /* where its protocol number goes; 0: not in IP yet */
	uint32_t l3_at;    /* IP header */
	uint32_t udp_at;   /* UDP header; 0: none */
	bool is_ip6;
};

/* An Ethernet header without a type: lg_pkt_type(), or whatever is appended, sets it. */
void lg_pkt_init(struct lg_pkt_buf *p);
void lg_pkt_type(struct lg_pkt_buf *p, uint16_t type);
void lg_pkt_vlan(struct lg_pkt_buf *p, uint16_t tpid, uint16_t tci);
void lg_pkt_arp(struct lg_pkt_buf *p);

/* IPv4 with n_options words of options, IPv6; addresses as text. */
void lg_pkt_ip4(struct lg_pkt_buf *p, const char *source, const char *destination, uint32_t n_options);
void lg_pkt_ip6(struct lg_pkt_buf *p, const char *source, const char *destination);
/* Makes the IPv4 packet a fragment: offset in bytes, a multiple of 8. */
void lg_pkt_ip4_fragment(struct lg_pkt_buf *p, uint16_t offset_bytes, bool has_more);
void lg_pkt_hop_limit(struct lg_pkt_buf *p, uint8_t hop_limit);

/* An IPv6 extension header of 8 + 8 * n_units bytes; AH is 12 + 4 * n_words. */
void lg_pkt_ext(struct lg_pkt_buf *p, uint8_t proto, uint8_t n_units);
void lg_pkt_ah(struct lg_pkt_buf *p, uint8_t n_words);
void lg_pkt_ip6_fragment(struct lg_pkt_buf *p, uint16_t offset_bytes, bool has_more);

void lg_pkt_tcp(struct lg_pkt_buf *p, uint16_t source, uint16_t destination);
void lg_pkt_udp(struct lg_pkt_buf *p, uint16_t source, uint16_t destination);
void lg_pkt_sctp(struct lg_pkt_buf *p, uint16_t source, uint16_t destination);
void lg_pkt_icmp4(struct lg_pkt_buf *p, uint8_t type, uint8_t code);
void lg_pkt_icmp6(struct lg_pkt_buf *p, uint8_t type);
/* Of the TCP header appended last, with nothing behind it yet. */
void lg_pkt_tcp_flags(struct lg_pkt_buf *p, uint8_t flags);
/* Only the number: what follows is payload. */
void lg_pkt_proto(struct lg_pkt_buf *p, uint8_t proto);
/* len bytes, counting up from first. */
void lg_pkt_payload(struct lg_pkt_buf *p, uint32_t len, uint8_t first);

/* Writes the lengths of IP and UDP. */
void lg_pkt_done(struct lg_pkt_buf *p);
/* Bytes behind the IP packet, as Ethernet pads short frames. */
void lg_pkt_pad(struct lg_pkt_buf *p, uint32_t to_bytes);

/* The common case in one call: UDP over IPv4 with a payload of len bytes. */
void lg_pkt_udp4(struct lg_pkt_buf *p, const char *source, const char *destination, uint16_t port, uint32_t len);
void lg_pkt_udp6(struct lg_pkt_buf *p, const char *source, const char *destination, uint16_t port, uint32_t len);
