/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the two halves of the bench of peers agree on. */
#pragma once

#define LG_PEERS_FIRST_SOURCE 0x0a800000u /* 10.128.0.0 and up */
