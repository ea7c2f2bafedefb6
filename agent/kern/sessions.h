/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Who has a session at a port of this machine (sshd's), as rules/lockout.h asks. */
#pragma once

#include "rules/lockout.h"

struct lg_sessions {
	struct lg_peer *v;
	size_t n, max;	/* those beyond the maximum are left out */
};
/* One that is there already is not added again. */
void lg_sessions_add(struct lg_sessions *sessions, const struct lg_peer *peer);
/* Adds the TCP connections at a port that are established in this network namespace. Negative errno. */
int lg_sessions_find(struct lg_sessions *sessions, uint16_t port);
/* Which interface has the local address of each. */
void lg_sessions_place(struct lg_sessions *sessions);
