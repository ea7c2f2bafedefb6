/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a lessor's new life knows of its old one: who may hold leases (the durable list), and since when it lives. Shared by all keys of
 * the lessor. A holder is *synced* once it has told, in this life, everything it holds: of keys it did not name it holds nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

struct lg_succession;

int lg_succession_new(uint64_t since_ns, struct lg_succession **ret_succession);
struct lg_succession *lg_succession_free(struct lg_succession *s);
LG_CLEANUP(struct lg_succession, lg_succession_free)

/* Before the first key: holder (the role's index) is on the durable list. */
int lg_succession_list(struct lg_succession *s, uint32_t holder);
/* Before the first key: the earlier life ended while it was itself still learning (it began less than ttl + grace before its end and
 * had not heard of all its holders). It may then have lent more than max_outstanding: the whole budget counts as unknown. */
void lg_succession_unsettled(struct lg_succession *s);
void lg_succession_synced(struct lg_succession *s, uint32_t holder);
/* Before a holder's lg_succession_synced(): it does not remember what it spent before until_ns (its maps were made then, and not for the
 * first time; or, at a home: a region has heard so from a host). Windows then count as full at that time. On the lessor's clock, never
 * too early. */
void lg_succession_forgot(struct lg_succession *s, uint64_t until_ns);

uint64_t lg_succession_since_ns(const struct lg_succession *s);
bool lg_succession_is_unsettled(const struct lg_succession *s);
/* The latest of those times, 0 none: a region tells its homes. */
uint64_t lg_succession_forgot_ns(const struct lg_succession *s);
bool lg_succession_is_listed(const struct lg_succession *s, uint32_t holder);
bool lg_succession_is_synced(const struct lg_succession *s, uint32_t holder);
/* Listed holders not synced yet. */
uint32_t lg_succession_missing(const struct lg_succession *s);
