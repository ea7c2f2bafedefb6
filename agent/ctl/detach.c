// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define STOP_DEADLINE_NS (5 * LG_NS_PER_S)

/* A running daemon is told to end first, since it would attach again; enforcement goes on until the links go. */
static void daemon_stop(const struct lg_ctl *ctl)
{
	struct lg_complaint c = { 0 };
	json_t *reply = NULL;

	if (lg_ctl_ask(ctl, "node", "stop", &reply, &c) == 0)
		fprintf(stderr, "leasegate: the node of instance %s was running and is told to end\n", ctl->instance);
	json_decref(reply);
}

int lg_ctl_detach(const struct lg_ctl *ctl, int argc, char **argv)
{
	uint64_t until_ns = lg_clock_now_ns() + STOP_DEADLINE_NS;
	enum lg_kern_fail fail = LG_KERN_REFUSED;
	struct lg_complaint c = { 0 };
	char path[512];
	bool was_there;
	int n;

	if (argc > 1)
		return lg_ctl_usage(ctl, "detach", argv[1]);
	snprintf(path, sizeof(path), LG_KERN_ROOT "/%s", ctl->instance);
	was_there = access(path, F_OK) == 0;
	n = lg_kern_detach_all(ctl->instance, NULL, &fail, &c);
	if (n == -EBUSY)
		daemon_stop(ctl);
	while (n == -EBUSY && lg_clock_now_ns() < until_ns) {
		poll(NULL, 0, 20);
		n = lg_kern_detach_all(ctl->instance, NULL, &fail, &c);
	}
	if (n == -EBUSY)
		return lg_ctl_fail(ctl, fail, "%s (it does not answer: kill it, then detach)", c.text);
	if (n < 0)
		return lg_ctl_fail(ctl, fail, "%s", c.text);
	if (ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:i}", "instance", ctl->instance, "links_removed", n));
	if (!was_there)
		printf("instance %s: nothing of it was in the kernel\n", ctl->instance);
	else
		printf("instance %s: %d link%s removed, pins removed\n", ctl->instance, n, n == 1 ? "" : "s");
	return LG_CTL_OK;
}
