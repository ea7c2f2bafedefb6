/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What all keys of one rule share at a holder, a host or a region towards one home: the terms, and the connection to the lessor. Owned by
 * the role; outlives the keys that point to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/terms.h"

/* The connection to a lessor. */
struct lg_upstream {
	bool up;
	bool stalled;		/* what was sent has not reached the lessor's system: more would only pile up, and arrive all at once */
	uint64_t reached_ns;	/* when it last did after a while; answers are awaited from then on */
	uint32_t epoch;		/* newest of the lessor known, 0 none */
	uint64_t rtt_ns;	/* smoothed over the answers to all keys; 0 not measured yet */
	uint64_t patience_ns;	/* an answer may take so much longer than a round trip */
	uint64_t rand;		/* seed of the jitter of periods; does not change */
};

/* One per rule and connection. */
struct lg_holding {
	const struct lg_terms *terms;	/* borrowed; what changes there holds from the next call on */
	struct lg_upstream *upstream;
};

/* The stream is there, to a lessor in that life. False: it is an older one than we know, and stays unheard. */
bool lg_upstream_up(struct lg_upstream *u, uint32_t epoch);
/* Whether what was sent has reached the lessor's system: looked at each tick. */
void lg_upstream_stalled(struct lg_upstream *u, bool stalled, uint64_t now_ns);
/* The lessor has so many holders (hosts of the whole fleet): it may let an answer wait, see lease/pace.h. */
void lg_upstream_crowd(struct lg_upstream *u, uint32_t hosts);
/* How long to wait before coming back to a lessor that was lost, so that hosts (of the whole fleet) do not come all at once: from 0 for a
 * small fleet up to 10 s. The same for the same seed. */
uint64_t lg_upstream_spread_ns(uint32_t hosts, uint64_t seed);
/* No more than this: the keys find out by themselves. */
void lg_upstream_down(struct lg_upstream *u);
