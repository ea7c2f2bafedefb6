/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Parts of a document (struct lg_rules_part) put together at the holder's end. */
#pragma once

#include "api/lease_rpc.h"

struct lg_rules_inbox {
	struct lg_rules_stamp stamp;	/* of what comes; counter 0: nothing */
	char *data;			/* owned */
	uint32_t total_bytes, got_bytes;
	uint64_t age_ms;
};
void lg_rules_inbox_fini(struct lg_rules_inbox *inbox);
/*
 * A newer version puts an older one aside; what does not go on where the last part ended is left alone. 1: it is whole, in inbox->data; 0: the
 * next part is wanted, or this one was none of ours; -ENOMEM.
 */
int lg_rules_inbox_add(struct lg_rules_inbox *inbox, const struct lg_rules_part *part);
