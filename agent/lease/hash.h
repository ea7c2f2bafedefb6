/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Where a key lives. Which region is its home: rendezvous hashing, so that adding a region moves 1/R of the keys and no others. And which of
 * LG_KEY_SLOTS slots it is in, in every region: a slot is what the servers of a region divide among themselves.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "leasegate/bounds.h"

#define LG_KEY_SLOTS 256u
#define LG_KEY_BYTES_MAX (LG_NAME_LEN + 4 + 16 + 16)

/* What is hashed of a key: its rule's name, NUL, form, a, b as the wire has them. Returns the length. */
size_t lg_key_bytes(const char *rule, uint32_t form, const uint8_t a[16], const uint8_t b[16], uint8_t ret_bytes[LG_KEY_BYTES_MAX]);
/* The slot of a key, below LG_KEY_SLOTS: the same everywhere, and nothing of it follows from where the key's home is. */
uint32_t lg_slot_of(const uint8_t *bytes, size_t len);
/* Index of the home among n region names (n >= 1). Depends on the names, not on their order. */
size_t lg_home_of(const char *const *regions, size_t n, const void *key, size_t len);
