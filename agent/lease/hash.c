// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Each region draws a number from (its name, the key); the highest draw is the home. A region that joins changes nobody's draw, so
 * it takes exactly the keys where its own is the highest, 1/R of them, and a region that leaves hands each of its keys to the
 * second highest. Equal draws (2^-64) are settled by the names, so that the order of the list never matters.
 */
#include "lease/hash.h"

#include <string.h>
#include <xxhash.h>

#define SLOT_SEED 0x736c6f74ull /* "slot": no region's name is known to hash to it */

size_t lg_key_bytes(const char *rule, uint32_t form, const uint8_t a[16], const uint8_t b[16], uint8_t ret_bytes[LG_KEY_BYTES_MAX])
{
	size_t len = strnlen(rule, LG_NAME_LEN - 1) + 1;

	memcpy(ret_bytes, rule, len - 1);
	ret_bytes[len - 1] = 0;
	for (unsigned i = 0; i < 4; i++)
		ret_bytes[len + i] = (uint8_t)(form >> (8 * i));
	memcpy(ret_bytes + len + 4, a, 16);
	memcpy(ret_bytes + len + 20, b, 16);
	return len + 36;
}

uint32_t lg_slot_of(const uint8_t *bytes, size_t len)
{
	return (uint32_t)(XXH3_64bits_withSeed(bytes, len, SLOT_SEED) >> 56);
}

size_t lg_home_of(const char *const *regions, size_t n, const void *key, size_t len)
{
	uint64_t best_draw = 0;
	size_t best = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t seed = XXH3_64bits(regions[i], strlen(regions[i]));
		uint64_t draw = XXH3_64bits_withSeed(key, len, seed);

		if (i == 0 || draw > best_draw || (draw == best_draw && strcmp(regions[i], regions[best]) < 0)) {
			best_draw = draw;
			best = i;
		}
	}
	return best;
}
