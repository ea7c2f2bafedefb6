/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Can some packet match more rules than one packet may? */
#pragma once

#include "rules/rule.h"

/* A packet, as far as rules look at it, and what it matches. */
struct lg_overlap {
	struct lg_bits matches;	/* bit i: the rule at index i of the set */
	uint32_t dims;		/* enum lg_dimension that the set looks at */
	uint8_t family;		/* 4, 6, or 0: no IP */
	uint8_t protocol;
	bool has_port;
	bool has_icmp;
	bool is_egress;
	uint8_t fragment;	/* 0: none, 1: the first, 2: a later one */
	uint8_t tcp_flags;
	uint16_t number;	/* destination port; ICMP: type << 8 | code; no IP: EtherType */
	uint16_t source_port;
	uint16_t vlan;		/* 1 + id; 0: untagged */
	uint16_t inner_vlan;
	uint8_t interface_class;
	uint8_t source[16];
	uint8_t destination[16];
};

enum lg_overlap_result { LG_OVERLAP_NONE = 0, LG_OVERLAP_FOUND = 1, LG_OVERLAP_UNKNOWN = 2 };

/**
 * lg_overlap_find() - a packet that matches more than `max` rules
 * @c:     the set's classifier; what it says of a packet is what the packet gets
 * @among: rules that count; NULL: all. Only these are in ret->matches
 * @max:   below LG_RULES_MAX
 *
 * Exact: one value of each field from each class of values stands for all packets. The search ends after a few seconds at the most;
 * sets that people write take milliseconds.
 *
 * Return: LG_OVERLAP_NONE; LG_OVERLAP_FOUND with *ret; LG_OVERLAP_UNKNOWN, the search was too long, with the rules among which it
 * was in ret->matches; or -ENOMEM.
 */
int lg_overlap_find(const struct lg_classifier *c, const struct lg_bits *among, unsigned int max, struct lg_overlap *ret);

/* "a UDP packet from 10.0.0.0 to 192.0.2.0 port 53". `interfaces` are the names of the set's classes. */
void lg_overlap_format(const struct lg_overlap *overlap, const char (*interfaces)[16], char *buf, size_t len);
