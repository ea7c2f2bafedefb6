/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * When a lessor with many holders sends what it has for one of them. After an outage they all come within a few hundred milliseconds, as
 * TCP tries again or they dial anew, and answering each at once doubles that. So what is said waits while more is said and heard than
 * usual and a part of the holders would explain; 0.4 s at most. A lease counts from when it was asked for, so
 * waiting costs a little of its time and nothing else. A few holders never wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Nothing waits longer, and a holder is as patient: see lg_upstream_crowd(). */
#define LG_PACE_WAIT_MAX_NS 400000000ull

struct lg_pace {
	uint64_t at_ns;	/* what follows is as of then */
	double level;	/* messages that are more than the pace */
	double usual;	/* messages per tenth of a second, averaged over ten seconds */
};

/* So few holders are no crowd. */
bool lg_pace_is_crowd(uint32_t n_holders);
/* A message was heard or sent. */
void lg_pace_count(struct lg_pace *p, uint32_t n_holders, uint64_t now_ns);
/* Whether the next may be sent, which is ready since then. */
bool lg_pace_may_send(struct lg_pace *p, uint32_t n_holders, uint64_t ready_ns, uint64_t now_ns);
