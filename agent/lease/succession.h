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

/* The holder of the i-th of some accounts of one key, which are sorted by holder. */
typedef uint32_t (*lg_index_at)(const void *accounts, uint32_t i);
/* Every holder that may have a lease of an earlier life has told of it: this key's, n of them, by a message, the others by having told all. */
bool lg_succession_knows_all(const struct lg_succession *s, const void *accounts, uint32_t n, lg_index_at index_at);

/* The first account of n at or after index. In line, as each message looks for its account. */
static inline uint32_t lg_lower_bound(const void *accounts, uint32_t n, uint32_t index, lg_index_at index_at)
{
	uint32_t lo = 0, hi = n;

	/* Where all holders of the lessor have the key, each stands at its index; none can stand beyond. */
	if (index < hi) {
		if (index_at(accounts, index) == index)
			return index;
		hi = index;
	}
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (index_at(accounts, mid) < index)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}
