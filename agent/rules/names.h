/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Numbers that have names: protocols, EtherTypes, TCP flags, types of ICMP. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Number of the protocol of a word or number: 0 .. 255, or -EINVAL. */
int lg_protocol_parse(const char *text);
/* "UDP"; NULL for those without a word. */
const char *lg_protocol_name(uint8_t protocol);

/* Of a word or a number, decimal or 0x: 0x600 .. 0xffff, 0 for 802.3 with a length ("llc"), or -EINVAL. */
int lg_ethertype_parse(const char *text);
/* "ARP"; NULL for those without a word. */
const char *lg_ethertype_name(uint16_t ethertype);

/* "syn,!ack": which flags are looked at, and those of them that must be set. 0 or -EINVAL. */
int lg_tcp_flags_parse(const char *text, uint8_t *ret_mask, uint8_t *ret_value);
void lg_tcp_flags_format(uint8_t mask, uint8_t value, char *buf, size_t len);

/*
 * First and last of the numbers, type << 8 | code, that a name or "8", "3/4", "8-11" stands for in ICMP of a family (4 or 6).
 * 0 or -EINVAL.
 */
int lg_icmp_parse(uint8_t family, const char *text, uint16_t *ret_lo, uint16_t *ret_hi);
/* The name of such a range, else its numbers. */
void lg_icmp_format(uint8_t family, uint16_t lo, uint16_t hi, char *buf, size_t len);
