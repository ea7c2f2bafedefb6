// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/slot_map.h"

size_t lg_slot_parts(const uint64_t numbers[LG_KEY_SLOTS], struct lg_slot_part *ret_parts)
{
	size_t n = 0, i;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		if (!numbers[slot])
			continue;
		for (i = 0; i < n && ret_parts[i].number != numbers[slot]; i++)
			;
		if (i == n)
			ret_parts[n++] = (struct lg_slot_part){ .number = numbers[slot] };
		lg_slot_set_add(&ret_parts[i].slots, slot);
	}
	return n;
}
