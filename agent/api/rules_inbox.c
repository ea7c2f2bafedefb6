// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/rules_inbox.h"

#include <errno.h>
#include <string.h>

void lg_rules_inbox_fini(struct lg_rules_inbox *inbox)
{
	free(inbox->data);
	*inbox = (struct lg_rules_inbox){ 0 };
}

/* A lessor that packed anew begins anew, with the same stamp and perhaps another length. */
static int begin(struct lg_rules_inbox *inbox, const struct lg_rules_part *part)
{
	lg_rules_inbox_fini(inbox);
	inbox->data = malloc((size_t)part->total_bytes + 1);
	if (!inbox->data)
		return -ENOMEM;
	inbox->stamp = part->stamp;
	inbox->total_bytes = part->total_bytes;
	return 0;
}

int lg_rules_inbox_add(struct lg_rules_inbox *inbox, const struct lg_rules_part *part)
{
	int order = lg_rules_stamp_compare(&part->stamp, &inbox->stamp);

	if (order < 0 || (part->offset && (order || part->offset != inbox->got_bytes || part->total_bytes != inbox->total_bytes)))
		return 0;
	if (!part->offset && begin(inbox, part) < 0)
		return -ENOMEM;
	if (part->len)
		memcpy(inbox->data + part->offset, part->data, part->len);
	inbox->got_bytes = part->offset + (uint32_t)part->len;
	inbox->age_ms = part->age_ms;
	return inbox->got_bytes == inbox->total_bytes;
}
