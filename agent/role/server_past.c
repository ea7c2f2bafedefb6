// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The store may be an older one than our last life had: somebody has put a copy of it back, or moved it away. Then it does not know who holds
 * what, and everybody may hold anything. Nothing in it is believed, and what it does not know is waited out, as of a holder that
 * never comes back.
 */
#include "role/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "lease/arith.h"
#include "leasegate/bounds.h"
#include "store/store.h"

/* Stands for all hosts that are not on the list: the last number that one could have. */
#define SOMEBODY (LG_HOLDERS_MAX - 1)

void lg_past_start(struct lg_server *s)
{
	s->past_is_lost = lg_store_is_doubted(s->store);
	if (s->past_is_lost)
		lg_error("store: %s/region.db is older than what this server has worked with since the machine booted, so who holds "
			 "leases is not known: of each key nothing is lent before all of them are over, and of windows before a window more "
			 "has passed. Put the newest store back; or, if limits may be exceeded once, stop this server, remove %s/region.store "
			 "and start it",
			 s->config.state_dir, s->config.run_dir);
}

/* How long something counts that an unknown life has lent. */
static uint64_t longest_ns(const struct lg_server *s)
{
	uint64_t most_ns = 0;

	for (size_t i = 0; i < LG_RULES_MAX; i++) {
		const struct lg_terms *t = s->rules[i].terms;

		if (s->rules[i].live)
			most_ns = lg_max_u64(most_ns, lg_add_cap(t->ttl_ns + t->grace_ns, lg_max_u64(lg_terms_span_ns(t), t->per_ns)));
	}
	return most_ns;
}

void lg_past_look(struct lg_server *s)
{
	if (!s->past_is_lost || lg_clock_now_ns() < lg_add_cap(s->started_ns, longest_ns(s)))
		return;
	lg_store_trust(s->store);
	s->past_is_lost = false;
	lg_info("store: whatever was lent before it was put back is over");
}

int lg_past_hosts(struct lg_succession **hosts)
{
	int r = 0;

	if (!*hosts)
		r = lg_succession_new(lg_clock_now_ns(), hosts);
	return r < 0 ? r : lg_succession_list(*hosts, SOMEBODY);
}
