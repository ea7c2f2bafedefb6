// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stdio.h>

int lg_ctl_detach(const struct lg_ctl *ctl, int argc, char **argv)
{
	enum lg_kern_fail fail = LG_KERN_REFUSED;
	struct lg_complaint c = { 0 };
	int n;

	if (argc > 1)
		return lg_ctl_usage(ctl, "detach", argv[1]);
	n = lg_kern_detach_all(ctl->instance, NULL, &fail, &c);
	if (n < 0)
		return lg_ctl_fail(ctl, fail, "%s", c.text);
	if (ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:i}", "instance", ctl->instance, "links_removed", n));
	printf("instance %s: %d link%s removed, pins removed\n", ctl->instance, n, n == 1 ? "" : "s");
	return LG_CTL_OK;
}
