/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What all keys of one rule share at a lessor, be it a home or a region. The role owns it; it outlives its keys, which keep a pointer to it.
 * A changed rule is told to each key with the new terms while the old ones are still here; then `terms` is set.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lease/succession.h"
#include "lease/terms.h"

struct lg_lessor {
	const struct lg_terms *terms;
	const struct lg_succession *succession;	/* NULL: no earlier life, or it leased to nobody */
	bool reserves;				/* lends tokens only by marks that are durable. Once so, always: keys rely on it */
	uint32_t epoch;
	uint64_t rand;				/* state of chance */
	uint64_t origin_ns;			/* fixed windows: when one began, on this clock; the same windows in every life */
	uint64_t granted_tok;			/* totals over the keys, freed ones too */
	uint64_t lapsed_tok;
};
