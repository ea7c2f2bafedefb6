/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Which server of a lessor should own which slot: the same answer for all who see the same, so that nobody has to be asked. Shares differ by at
 * most one slot, and no more slots move than that needs.
 */
#pragma once

#include "lease/slot_map.h"

/* n servers, at least one, in an order that all agree on; owner: who owns a slot now (an index below n), or LG_NO_REPLICA. */
void lg_shares(size_t n, const uint8_t owner[LG_KEY_SLOTS], uint8_t ret_target[LG_KEY_SLOTS]);
