/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Would a set of rules, or a list, cut off somebody who is logged in over SSH? Asked before they are in force. Pure: who is logged in is
 * an argument.
 */
#pragma once

#include "rules/rule.h"

#define LG_SSH_PORT 22

/* What a shell needs: below this it stalls with every screen. */
#define LG_SHELL_PACKETS_PER_S 10
#define LG_SHELL_BYTES_PER_S 1500

/* One session. Addresses as in struct lg_prefix, both of one family. */
struct lg_peer {
	uint8_t peer[16];
	uint8_t local[16];
	uint16_t peer_port;
	uint16_t local_port;
	char interface[16];	/* that has the local address; "" unknown: none that a rule names */
};

struct lg_lockout {
	const struct lg_peer *peer;
	uint32_t rule_id;		/* of the rule that does it; 0: a list does */
	const struct lg_listed *listed;	/* the entry of that list */
	bool is_egress;			/* it is what goes out that is refused */
};

/**
 * lg_lockout_find() - the first session that would not go on
 * @set, @classifier: compiled rules
 * @listed, @n_listed: both lists; of equal prefixes the first one counts
 * @has_egress:       what goes out is looked at, too
 *
 * A session is cut off if its peer is on the deny list, or a packet of it matches a rule that denies everything or admits less than a
 * shell needs; new sessions, if a rule denies all of their first packets. Not if an exemption names it, or the allow list.
 *
 * Return: 1 with *ret filled, else 0.
 */
int lg_lockout_find(const struct lg_ruleset *set, const struct lg_classifier *classifier, const struct lg_listed *listed, size_t n_listed,
		    bool has_egress, const struct lg_peer *peers, size_t n_peers, struct lg_lockout *ret);
