/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Who is logged in over SSH, as far as can be told from here: the caller himself, and sessions at the port of sshd. */
#pragma once

#include <jansson.h>

#include "rules/lockout.h"

#define LG_CTL_PEERS_MAX 256

/*
 * The caller's session, by SSH_CONNECTION of this process or of those it comes from (sudo drops it); and what is established at that port
 * and at 22, in this network namespace. Returns how many; those beyond the maximum are left out.
 */
size_t lg_ctl_peers(struct lg_peer ret[LG_CTL_PEERS_MAX]);
/* The same for a daemon; NULL: no memory. */
json_t *lg_ctl_peers_json(void);
