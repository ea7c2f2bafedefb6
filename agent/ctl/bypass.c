// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Off on trial: whoever is cut off by limits that apply again cannot confirm them, so bypass comes back by itself. The kernel's word has
 * both times, and it is the kernel that judges them: no daemon need run for it.
 */
#include "ctl/ctl.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"

/* What the arguments ask for. */
struct wish {
	bool on, off;
	uint64_t for_ns;	/* on: 0 until switched off */
	uint64_t trial_ns;	/* off: 0 for good */
};

json_t *lg_ctl_bypass_json(const struct lg_bypass *bypass)
{
	uint64_t now_ns = lg_clock_now_ns();
	bool on = lg_kern_bypass_is_on(bypass, now_ns), is_trial = !on && bypass->from_ns > now_ns && bypass->until_ns > now_ns;

	return json_pack("{s:b, s:o, s:o}", "on", on, "remaining_s",
			 on && bypass->until_ns != UINT64_MAX ? json_real((double)(bypass->until_ns - now_ns) / 1e9) : json_null(),
			 "on_again_in_s", is_trial ? json_real((double)(bypass->from_ns - now_ns) / 1e9) : json_null());
}

void lg_ctl_bypass_print(const json_t *bypass)
{
	const json_t *left = json_object_get(bypass, "remaining_s"), *again = json_object_get(bypass, "on_again_in_s");

	if (json_is_true(json_object_get(bypass, "on")) && json_is_real(left))
		printf("bypass is ON for another %.0f s: everything passes\n", json_number_value(left));
	else if (json_is_true(json_object_get(bypass, "on")))
		printf("bypass is ON until it is switched off: everything passes\n");
	else if (json_is_real(again))
		printf("bypass is off on trial: limits apply, and it is on again in %.0f s; `leasegate bypass off` keeps it off\n",
		       json_number_value(again));
	else
		printf("bypass is off: limits apply\n");
}

/* 0, or an exit code. */
static int wish_parse(const struct lg_ctl *ctl, int argc, char **argv, struct wish *ret)
{
	struct lg_complaint c = { 0 };
	uint64_t *time;

	if (argc == 1)
		return 0;
	ret->on = strcmp(argv[1], "on") == 0;
	ret->off = strcmp(argv[1], "off") == 0;
	if (!ret->on && !ret->off)
		return lg_ctl_usage(ctl, "bypass", argv[1]);
	if (argc == 2)
		return 0;
	if (strcmp(argv[2], ret->on ? "--for" : "--confirm-timeout") != 0 || argc != 4)
		return lg_ctl_usage(ctl, "bypass", argv[argc > 4 ? 4 : 2]);
	time = ret->on ? &ret->for_ns : &ret->trial_ns;
	if (lg_duration_parse(argv[3], LG_NS_PER_S, LG_PER_MAX_NS, time, &c) < 0)
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "bypass %s %s: %s", argv[2], argv[3], c.text);
	return 0;
}

/* What the kernel's word is to be. Off on trial is for what is on, or on trial already; it ends when it would have ended. */
static bool wish_carry_out(const struct wish *wish, struct lg_bypass *bypass)
{
	uint64_t now_ns = lg_clock_now_ns();

	if (wish->off && wish->trial_ns) {
		if (bypass->until_ns <= now_ns)
			return false;
		bypass->from_ns = now_ns + wish->trial_ns;
	} else {
		bypass->from_ns = 0;
		bypass->until_ns = wish->off ? 0 : wish->for_ns ? now_ns + wish->for_ns : UINT64_MAX;
	}
	return true;
}

int lg_ctl_bypass(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	struct lg_bypass bypass = { 0 };
	struct wish wish = { 0 };
	json_t *shown;
	int r;

	r = wish_parse(ctl, argc, argv, &wish);
	if (r)
		return r;
	r = lg_ctl_pins(ctl, &kern);
	if (r)
		return r;
	r = lg_kern_bypass_read(kern, &bypass);
	if (r == 0 && (wish.on || wish.off)) {
		if (!wish_carry_out(&wish, &bypass))
			return lg_ctl_fail(ctl, LG_CTL_REFUSED, "bypass is off already: there is nothing to try");
		r = lg_kern_bypass_set(kern, &bypass);
	}
	if (r < 0)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "cannot reach the bypass word in the kernel: %s", strerror(-r));
	shown = lg_ctl_bypass_json(&bypass);
	if (ctl->json)
		return lg_ctl_print(shown);
	lg_ctl_bypass_print(shown);
	json_decref(shown);
	return LG_CTL_OK;
}
