// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"

static int bypass_show(const struct lg_ctl *ctl, uint64_t until_ns)
{
	uint64_t now_ns = lg_clock_now_ns();
	bool on = until_ns > now_ns;
	double left_s = (double)(until_ns - now_ns) / 1e9;

	if (ctl->json)
		return lg_ctl_print(json_pack("{s:b, s:o}", "on", on, "remaining_s",
					      on && until_ns != UINT64_MAX ? json_real(left_s) : json_null()));
	if (!on)
		printf("bypass is off: limits apply\n");
	else if (until_ns == UINT64_MAX)
		printf("bypass is ON until it is switched off: everything passes\n");
	else
		printf("bypass is ON for another %.0f s: everything passes\n", left_s);
	return LG_CTL_OK;
}

/* What the arguments ask for: 0 and *ret_set, *ret_until_ns; or an exit code. */
static int bypass_parse(const struct lg_ctl *ctl, int argc, char **argv, bool *ret_set, uint64_t *ret_until_ns)
{
	struct lg_complaint c = { 0 };
	uint64_t for_ns;

	*ret_set = argc > 1;
	if (argc == 1)
		return 0;
	if (strcmp(argv[1], "off") == 0 && argc == 2) {
		*ret_until_ns = 0;
		return 0;
	}
	if (strcmp(argv[1], "on") != 0)
		return lg_ctl_usage(ctl, "bypass", argv[1]);
	*ret_until_ns = UINT64_MAX;
	if (argc == 2)
		return 0;
	if (strcmp(argv[2], "--for") != 0 || argc != 4)
		return lg_ctl_usage(ctl, "bypass", argv[argc > 4 ? 4 : 2]);
	if (lg_duration_parse(argv[3], LG_NS_PER_S, LG_PER_MAX_NS, &for_ns, &c) < 0)
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "bypass --for %s: %s", argv[3], c.text);
	*ret_until_ns = lg_clock_now_ns() + for_ns;
	return 0;
}

int lg_ctl_bypass(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	struct lg_bypass bypass = { 0 };
	uint64_t until_ns = 0;
	bool set;
	int r;

	r = bypass_parse(ctl, argc, argv, &set, &until_ns);
	if (r)
		return r;
	r = lg_ctl_pins(ctl, &kern);
	if (r)
		return r;
	r = set ? lg_kern_bypass_set(kern, until_ns) : 0;
	if (r == 0)
		r = lg_kern_bypass_read(kern, &bypass);
	if (r < 0)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "cannot reach the bypass word in the kernel: %s", strerror(-r));
	return bypass_show(ctl, bypass.until_ns);
}
