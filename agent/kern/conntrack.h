/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Whether the kernel translates the addresses of a connection: then it ends elsewhere, though one of its addresses is this host's. */
#pragma once

#include "kern/kern.h"

struct lg_conntrack;

/**
 * lg_conntrack_open() - where this network namespace tracks connections
 *
 * Begins no tracking where there is none.
 *
 * Return: 1 with *ret; 0 where no connection is tracked; negative errno.
 */
int lg_conntrack_open(struct lg_conntrack **ret);
struct lg_conntrack *lg_conntrack_free(struct lg_conntrack *ct);
LG_CLEANUP(struct lg_conntrack, lg_conntrack_free)

/* 1: it is translated; 0: it is not, or not tracked; negative errno. @of_b: end b began it. */
int lg_conntrack_is_translated(struct lg_conntrack *ct, const struct lg_conn_key *key, bool of_b);
