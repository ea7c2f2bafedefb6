// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NIGHT_S 36000ull

static uint64_t monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * LG_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static uint64_t ns_of(struct timespec ts)
{
	return (uint64_t)ts.tv_sec * LG_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* In a process that sees a machine that has slept for a night. */
static int check(void)
{
	uint64_t before_ns = monotonic_ns(), now_ns = lg_clock_now_ns(), until_ns = ns_of(lg_clock_deadline(now_ns + 5 * LG_NS_PER_S));

	if (now_ns < before_ns + NIGHT_S * LG_NS_PER_S)
		return 1;
	if (until_ns < before_ns + 4 * LG_NS_PER_S || until_ns > monotonic_ns() + 5 * LG_NS_PER_S)
		return 2;
	/* What is past is due. */
	return ns_of(lg_clock_deadline(now_ns - 1)) > monotonic_ns() ? 3 : 0;
}

static int sleeper(void)
{
	static const char offset[] = "boottime 36000 0";
	int status, fd;
	pid_t pid;

	if (unshare(CLONE_NEWUSER | CLONE_NEWTIME) < 0)
		return 77;
	fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, offset, strlen(offset)) < 0)
		return 77;
	pid = fork();
	if (pid == 0)
		_exit(check());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void time_goes_on_while_the_machine_sleeps_and_waits_are_as_long_as_they_should_be(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		_exit(sleeper());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip(); /* no time namespaces here */
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_goes_on_while_the_machine_sleeps_and_waits_are_as_long_as_they_should_be),
	};

	return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
