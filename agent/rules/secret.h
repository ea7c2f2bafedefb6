/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rules whose keys are kept secret: what a packet's key is becomes a hash under a key that follows from a secret of the whole fleet and from
 * what the rule is (abi.h, LG_FORM_SECRET). So one address is the same key on all hosts of all regions, another one under each rule, and
 * nobody without the secret can tell which address it is, or whether it is one he thinks of.
 */
#pragma once

#include "rules/rule.h"

#define LG_SECRET_BYTES_MIN 32
#define LG_SECRET_BYTES_MAX 4096

struct lg_secret {
	bool has;
	bool is_open;		/* the file can be read by others than its owner */
	uint8_t root[32];	/* what all else follows from */
};

/* path "": there is none. Negative errno with *c filled. */
int lg_secret_read(const char *path, struct lg_secret *ret_secret, struct lg_complaint *c);
/* Gives the rules that are secret their keys, before anything else is done with them. -EINVAL with *c filled where there is no secret. */
int lg_secret_apply(const struct lg_secret *secret, struct lg_rules *rules, struct lg_complaint *c);

/* Is one address all that makes a key of this rule, in the kernel, and the key a hash? */
bool lg_secret_is_address(const struct lg_rule *rule);
/* The key of an address (IPv6 or mapped IPv4) under such a rule. Negative errno when the hash could not be made. */
int lg_secret_key(const struct lg_rule *rule, const uint8_t addr[16], struct lg_key *ret_key);
