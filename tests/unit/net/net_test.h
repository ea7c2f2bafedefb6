/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What tests of net/ and api/ share: a network of their own, and turning the loop until something has happened. */
#pragma once

#include <errno.h>
#include <event2/event.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop.h"

/* A network namespace with nothing but lo, and SIGPIPE ignored, as in the daemon. Without the right to make one, the machine's own lo does
 * as well: every port is chosen by the kernel. */
static inline void net_alone(void)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd;

	signal(SIGPIPE, SIG_IGN);
	if (unshare(CLONE_NEWNET) < 0)
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
	close(fd);
}

static inline void net_tick(void *arg)
{
	(void)arg;
}

/* Turns the loop until the expression holds; fails after 20 s. The loop needs a ticker that keeps it turning: net_loop() has one. */
#define WAIT_FOR(loop, expression)                                                                                    \
	do {                                                                                                          \
		uint64_t until_ns = lg_clock_now_ns() + 20 * LG_NS_PER_S;                                             \
                                                                                                                      \
		while (!(expression)) {                                                                               \
			if (lg_clock_now_ns() > until_ns)                                                             \
				fail_msg("%s did not come true", #expression);                                        \
			event_base_loop(lg_loop_base(loop), EVLOOP_ONCE);                                             \
		}                                                                                                     \
	} while (0)

struct net_loop {
	struct lg_loop *loop;
	struct lg_source *ticker;
};

static inline struct net_loop net_loop_new(void)
{
	struct net_loop n;

	assert_int_equal(lg_loop_new(&n.loop), 0);
	assert_int_equal(lg_loop_add_ticker(n.loop, 5 * LG_NS_PER_MS, net_tick, NULL, &n.ticker), 0);
	return n;
}

static inline void net_loop_free(struct net_loop *n)
{
	/* A few turns, for what is freed from the loop. */
	for (int i = 0; i < 5; i++)
		event_base_loop(lg_loop_base(n->loop), EVLOOP_NONBLOCK);
	lg_source_free(n->ticker);
	lg_loop_free(n->loop);
}
