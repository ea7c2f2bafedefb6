// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What this process attached. */
#include "kern/internal.h"

#include <stdio.h>
#include <string.h>

bool lg_made_here(const struct lg_kern *kern, const char *ifname, enum lg_hook hook)
{
	for (size_t i = 0; i < kern->n_made; i++)
		if (kern->made[i].hook == hook && strcmp(kern->made[i].ifname, ifname) == 0)
			return true;
	return false;
}

void lg_made_drop(struct lg_kern *kern, const char *ifname, enum lg_hook hook)
{
	for (size_t i = 0; i < kern->n_made; i++) {
		if (kern->made[i].hook == hook && strcmp(kern->made[i].ifname, ifname) == 0) {
			kern->made[i] = kern->made[--kern->n_made];
			return;
		}
	}
}

void lg_made_add(struct lg_kern *kern, const char *ifname, enum lg_hook hook)
{
	struct lg_made *grown;

	lg_made_drop(kern, ifname, hook);
	grown = reallocarray(kern->made, kern->n_made + 1, sizeof(*grown));
	if (!grown)
		return;
	kern->made = grown;
	grown += kern->n_made++;
	grown->hook = hook;
	snprintf(grown->ifname, sizeof(grown->ifname), "%s", ifname);
}
