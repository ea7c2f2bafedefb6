// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/shares.h"

/* How many each should have. The slots that are over after an even division stay with those who have most. */
static void quotas(size_t n, const uint32_t count[LG_REPLICAS_MAX], uint32_t ret_quota[LG_REPLICAS_MAX])
{
	uint32_t each = LG_KEY_SLOTS / (uint32_t)n, over = LG_KEY_SLOTS % (uint32_t)n;

	for (size_t i = 0; i < n; i++) {
		uint32_t n_before = 0;

		for (size_t j = 0; j < n; j++)
			n_before += count[j] > count[i] || (j < i && count[j] == count[i]);
		ret_quota[i] = each + (n_before < over);
	}
}

void lg_shares(size_t n, const uint8_t owner[LG_KEY_SLOTS], uint8_t ret_target[LG_KEY_SLOTS])
{
	uint32_t count[LG_REPLICAS_MAX] = { 0 }, quota[LG_REPLICAS_MAX], kept[LG_REPLICAS_MAX] = { 0 };
	size_t next = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (owner[slot] < n && owner[slot] < LG_REPLICAS_MAX)
			count[owner[slot]]++;
	quotas(n, count, quota);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		bool stays = owner[slot] < n && kept[owner[slot]] < quota[owner[slot]];

		ret_target[slot] = stays ? owner[slot] : LG_NO_REPLICA;
		if (stays)
			kept[owner[slot]]++;
	}
	/* In turn, so that slots next to each other, which were one server's, do not become another one's all together. */
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		if (ret_target[slot] != LG_NO_REPLICA)
			continue;
		while (kept[next % n] >= quota[next % n])
			next++;
		ret_target[slot] = (uint8_t)(next % n);
		kept[next++ % n]++;
	}
}
