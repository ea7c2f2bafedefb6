/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Ages of slots, as they travel. An age that is too large lets a home forget tokens too early, so it is never overstated: two parts in
 * a thousand are taken off for clocks that run at different rates (each within one), and a millisecond for rounding. */
#pragma once

#include <stdint.h>

/* Age at now_ns of what ended at end_ns, to be sent. */
uint64_t lg_age_ms(uint64_t end_ns, uint64_t now_ns);
/* When something of that age ended, on the receiver's clock: at arrival, so the way here makes it seem younger. */
uint64_t lg_age_end_ns(uint64_t age_ms, uint64_t now_ns);
