/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * When tokens were spent, as far as the lessor has not acknowledged it: slots that are sent with every message until it has. They only
 * tell when; how much is in the totals. So running out of room or memory makes ages coarser and nothing wrong.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "lease/msg.h"

struct lg_report_slot {
	uint64_t end_ns;
	uint64_t tok;
	uint32_t id;	/* 0: still open, no message had it */
};

struct lg_report {
	struct lg_report_slot *v;	/* sent ones by id, then open ones */
	uint32_t last_id;
	uint16_t n;
	uint16_t cap;
};

/* Ids begin with 1 in each life of a holder's memory of the key; a report that goes on after a pause continues behind last_id. */
void lg_report_init(struct lg_report *r, uint32_t last_id);
void lg_report_fini(struct lg_report *r);

/* tok tokens were spent at end_ns or a little before, in a slot of slot_ns. */
void lg_report_add(struct lg_report *r, uint64_t end_ns, uint64_t tok, uint64_t slot_ns);
/* Closes what is open and fills the slots of a message. */
void lg_report_fill(struct lg_report *r, struct lg_ask *ask, uint64_t now_ns);
/* The lessor has booked all slots up to this id. */
void lg_report_ack(struct lg_report *r, uint64_t id);
/* Forgets them: they belong to a lease that is void. */
void lg_report_clear(struct lg_report *r);
