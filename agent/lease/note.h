/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What happened on a lessor's books, one entry a change: told to whoever keeps the reconciliation log. The time, the key and the holder's
 * name are the role's to add.
 */
#pragma once

#include <stdint.h>

#include "lease/msg.h"

enum lg_note_kind {
	LG_NOTE_GRANT,	/* tok tokens were lent; of a sub-limit: it is tok from now on */
	LG_NOTE_REPORT,	/* tok tokens were reported as spent */
	LG_NOTE_RETURN,	/* tok tokens came back unspent; of a sub-limit: tok less of it is held */
	LG_NOTE_LAPSE,	/* a lease ended with tok outstanding, which count as spent */
	LG_NOTE_REFUSE,	/* asked and not served: status says why */
	_LG_NOTE_N
};

struct lg_note {
	enum lg_note_kind kind;
	uint32_t holder;	/* the role's index */
	uint32_t epoch;		/* of the lessor */
	uint32_t generation;
	uint64_t tok;
	uint64_t outstanding_tok;	/* with this holder, after the change; of a sub-limit: what it holds of it */
	uint64_t spent_tok;	/* reported by it within the generation, after the change */
	enum lg_grant_status status;	/* LG_NOTE_REFUSE */
};
