/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One key at a region: lessee of the key's home, lessor to its hosts. Mints nothing: its pool is its lease less what its hosts
 * hold. The same ledger and division as the home; the same asking as the host.
 */
#pragma once

#include "base/mem.h"
#include "lease/holding.h"
#include "lease/lessor.h"
#include "lease/msg.h"
#include "lease/note.h"

struct lg_region;

struct lg_region_effects {
	void *arg;
	void (*ask)(void *arg, const struct lg_ask *ask);			/* to the home */
	void (*grant)(void *arg, uint32_t holder, const struct lg_grant *grant); /* to a host */
	void (*note)(void *arg, const struct lg_note *note);	/* what changes on the hosts' accounts; NULL: nobody keeps them */
};

/* The lessor is the rule's towards the hosts, its succession those that an earlier life had leased to; the holding is the rule's towards
 * the key's home. Both are borrowed for the life of the region object. */
int lg_region_new(struct lg_lessor *lessor, struct lg_holding *holding, uint64_t now_ns, uint64_t first_seq,
		  struct lg_region **ret_region);
struct lg_region *lg_region_free(struct lg_region *region);
LG_CLEANUP(struct lg_region, lg_region_free)
/* Changed terms, before the lessor's are set. */
void lg_region_terms(struct lg_region *r, const struct lg_terms *terms);

/* The lessor may be a region too, which adopts nothing: when that has a new epoch, this object and its lessor begin a new life instead.
 *
 * The stream to the home is up, and lg_upstream_up() was told: it says what it holds (and its history when the home's epoch is new),
 * as a host does; returns whether it could: not while it is itself learning from its hosts what is out. */
bool lg_region_up(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx);

/* A message of host `holder` (index given by the role, below LG_HOLDERS_MAX). incarnation: of that holder; a newer one means that its
 * earlier life's lease is lost and lapses now, an older one is ignored. */
void lg_region_ask(struct lg_region *r, uint32_t holder, uint32_t incarnation, const struct lg_ask *ask, uint64_t now_ns,
		   const struct lg_region_effects *fx);
void lg_region_grant(struct lg_region *r, const struct lg_grant *grant, uint64_t now_ns,
		     const struct lg_region_effects *fx);
/* Each region tick. Returns when it next wants to be called; a message or a grant in between makes it due at the next tick. */
uint64_t lg_region_tick(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx);
/* Orderly end: gives the free pool back with a last report. What hosts hold stays out and is not touched. */
void lg_region_close(struct lg_region *r, uint64_t now_ns, const struct lg_region_effects *fx);
bool lg_region_is_idle(const struct lg_region *r, uint64_t now_ns);

/* For status, metrics and the law: one tier's view. */
struct lg_region_view {
	uint32_t epoch;			/* of the home */
	uint32_t generation;
	uint64_t granted_tok;		/* from the home, within the generation */
	uint64_t returned_tok;
	uint64_t pool_tok;		/* free */
	uint64_t outstanding_tok;	/* at hosts */
	uint64_t spent_tok;
	uint64_t expires_ns;
	uint64_t demand_mtps;
	uint64_t target_tok;
	uint64_t rtt_ns;
	uint32_t n_holders;
	bool partial;
	enum lg_grant_status status;
};
void lg_region_view(const struct lg_region *r, uint64_t now_ns, struct lg_region_view *ret);
