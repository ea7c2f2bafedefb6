/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Which region is a key's home: rendezvous hashing, so that adding a region moves 1/R of the keys and no others. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Index of the home among n region names (n >= 1). The key is bytes: rule name, NUL, form, a, b as the wire has them. Depends on the
 * names, not on their order. */
size_t lg_home_of(const char *const *regions, size_t n, const void *key, size_t len);
