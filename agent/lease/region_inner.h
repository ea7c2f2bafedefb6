/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the files of a region share among themselves; nobody outside includes it. */
#pragma once

#include "lease/asker.h"
#include "lease/ledger.h"
#include "lease/region.h"
#include "lease/report.h"
#include "lease/slots.h"
#include "lease/sublimit.h"

#define LG_REGION_LIMIT_PERIOD_NS 1000000000ull /* of reports on a limit of its own */

struct lg_region {
	struct lg_lessor *lessor;	/* towards the hosts */
	struct lg_holding *holding;	/* towards the home */
	struct lg_ledger ledger;
	struct lg_asker asker;
	struct lg_report report;
	struct lg_slots history;	/* windows */
	bool has_history;
	bool learning;			/* of a new life: some host may still hold an old lease */
	bool owes_hello;		/* the stream to the home is there, but we are learning */
	uint32_t generation;		/* of the lease from the home */
	uint64_t granted_tok;		/* totals of it */
	uint64_t returned_tok;
	uint64_t spent_tok;
	uint64_t sent_returned_tok;	/* as the last message had them */
	uint64_t sent_spent_tok;
	uint64_t expires_ns;
	uint64_t cap_tok;
	uint64_t peak_tok;		/* largest of a host, halved while not seen again */
	uint64_t peak_ns;
	uint64_t active_ns;		/* when something was last spent or asked for in vain */
	uint64_t excess_ns;		/* since when it has held more than twice what it needs; 0 it has not */
	enum lg_grant_status status;
	bool partial;
	/* A limit of our own; NULL: we have tokens. What of it, and for what demand, the last message told. */
	struct lg_sublimit *limit;
	uint64_t told_held_tok;
	uint64_t told_mtps;
	uint64_t told_want_tok;
	bool told_wants;
};

/* ---- region_limit.c: a limit of its own, of which it has some ---- */

/* Without use for so long it is given back. */
uint64_t lg_region_limit_idle_ns(const struct lg_region *r);
/* What a message says of it. */
void lg_region_limit_tell(struct lg_region *r, uint64_t now_ns, struct lg_ask *ask);
/* What the asker goes by: nothing is ever low, but there is news. *ret_due_ns: when a window that shrinks is to be told of again. */
struct lg_asker_need lg_region_limit_need(struct lg_region *r, uint64_t now_ns, uint64_t *ret_due_ns);
void lg_region_limit_give_back(struct lg_region *r, uint64_t now_ns);
