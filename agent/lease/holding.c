// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/holding.h"

bool lg_upstream_up(struct lg_upstream *u, uint32_t epoch)
{
	u->up = epoch >= u->epoch;
	if (u->up)
		u->epoch = epoch;
	return u->up;
}

void lg_upstream_down(struct lg_upstream *u)
{
	u->up = false;
}
