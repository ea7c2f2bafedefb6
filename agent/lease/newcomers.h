/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * How many new keys a lessor takes on: keys can be made up, each costs memory and messages, and one holder under a flood must not use up what
 * the others need for theirs. Half of the pace belongs to the holders, to each an equal part that nobody else can use up; the other half is
 * for whoever comes first. So a single one gets more than half, and all together never more than the whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LG_NEW_KEYS_PER_S 20000u
#define LG_NEW_KEYS_BURST_NS 500000000ull	/* at once as many as in so long */

/* Zeroed, one of each holder and one that all share. */
struct lg_newcomers {
	uint64_t at_ns;		/* when what was taken will have been earned */
};

/* May a holder, one of n (at least 1), bring one more? Counts it if so. */
bool lg_newcomers_admit(struct lg_newcomers *shared, struct lg_newcomers *own, uint32_t n_holders, uint64_t now_ns);
/* Is there room for one more that a holder brings, who brought `own` of the n_keys in a table of max? An eighth of it belongs to the n holders
 * likewise: one alone cannot fill it. */
bool lg_newcomers_fit(uint32_t own, size_t n_keys, size_t max, uint32_t n_holders);
