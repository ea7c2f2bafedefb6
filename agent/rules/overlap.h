/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Can some packet match more rules than one packet may? */
#pragma once

#include "rules/rule.h"

/* A packet, as far as rules look at it, and what it matches. */
struct lg_overlap {
	uint64_t matches;	/* bit i: the rule at index i of the file */
	uint8_t family;
	uint8_t protocol;
	bool has_port;
	uint16_t port;		/* destination */
	uint8_t source[16];
	uint8_t destination[16];
};

/**
 * lg_overlap_find() - a packet that matches more than `max` rules
 * @rules: at most LG_RULES_MAX
 *
 * Exact: what rules match are prefixes, ranges and numbers, so one packet from each combination of their beginnings stands for
 * all packets.
 *
 * Return: 1 with *ret_overlap set, 0 if there is none.
 */
int lg_overlap_find(const struct lg_rules *rules, unsigned int max, struct lg_overlap *ret_overlap);

/* "a UDP packet from 10.0.0.0 to 192.0.2.0 port 53" */
void lg_overlap_format(const struct lg_overlap *overlap, char *buf, size_t len);
