// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a service manager hears. It is the test itself: a datagram socket whose name stands in the environment. */
#include "net/service.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "loop/loop.h"

static int heard_at;		/* the manager's socket */
static char path[64];
static struct lg_complaint c;

static void manager_start(bool in_folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len;

	snprintf(path, sizeof(path), "%s-%d", in_folder ? "/tmp/lg-service-test" : "@lg-service-test", (int)getpid());
	strcpy(address.sun_path, path);
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (!in_folder)
		address.sun_path[0] = '\0';
	heard_at = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(heard_at >= 0);
	assert_int_equal(bind(heard_at, (struct sockaddr *)&address, len), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
}

static int setup(void **state)
{
	(void)state;
	c = (struct lg_complaint){ 0 };
	heard_at = -1;
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lg_service_end();
	if (heard_at >= 0)
		close(heard_at);
	if (path[0] == '/')
		unlink(path);
	path[0] = '\0';
	return 0;
}

/* The next datagram, or "" when none waits. */
static const char *heard(void)
{
	static char text[2048];
	ssize_t n = recv(heard_at, text, sizeof(text) - 1, 0);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void without_a_manager_nothing_is_said_and_nothing_fails(void **state)
{
	struct lg_source *source = (struct lg_source *)1;

	(void)state;
	setenv("WATCHDOG_USEC", "1000000", 1);
	assert_int_equal(lg_service_begin(&c), 0);
	lg_service_ready();
	lg_service_status("well");
	lg_service_reloading();
	lg_service_stopping();
	assert_int_equal(lg_service_watch(NULL, &source), 0);
	assert_null(source);
}

static void a_manager_hears_each_step_once(void **state)
{
	(void)state;
	for (int in_folder = 0; in_folder < 2; in_folder++) {
		manager_start(in_folder);
		assert_int_equal(lg_service_begin(&c), 0);
		assert_string_equal(heard(), "");
		lg_service_ready();
		lg_service_ready();
		assert_string_equal(heard(), "READY=1");
		assert_string_equal(heard(), "");
		lg_service_reloading();
		assert_memory_equal(heard(), "RELOADING=1\nMONOTONIC_USEC=", 27);
		lg_service_ready();
		assert_string_equal(heard(), "READY=1");
		lg_service_stopping();
		assert_string_equal(heard(), "STOPPING=1");
		teardown(state);
	}
}

static void a_status_is_one_line(void **state)
{
	(void)state;
	manager_start(false);
	assert_int_equal(lg_service_begin(&c), 0);
	lg_service_status("eth0 is not attached\nREADY=1");
	assert_string_equal(heard(), "STATUS=eth0 is not attached");
}

static void children_inherit_nothing_of_it(void **state)
{
	(void)state;
	manager_start(false);
	setenv("WATCHDOG_USEC", "1000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(lg_service_begin(&c), 0);
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_null(getenv("WATCHDOG_PID"));
}

static void an_address_that_is_none_is_named(void **state)
{
	char too_long[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	const struct {
		const char *address;
		int want;
	} rows[] = {
		{ "relative", -EINVAL },
		{ "/", -EINVAL },
		{ "/nowhere/to/be/found", -ENOENT },
		{ too_long, -EINVAL },
	};

	memset(too_long, 'a', sizeof(too_long));
	too_long[0] = '/';
	too_long[sizeof(too_long) - 1] = '\0';
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		setenv("NOTIFY_SOCKET", rows[i].address, 1);
		assert_int_equal(lg_service_begin(&c), rows[i].want);
		assert_non_null(strstr(c.text, rows[i].address));
		lg_service_ready();
		lg_service_end();
	}
}

struct beats {
	struct lg_loop *loop;
	int n;
};

static void beat(void *arg)
{
	struct beats *b = arg;

	assert_string_equal(heard(), "WATCHDOG=1");
	if (++b->n == 4)
		lg_loop_stop(b->loop, 7);
}

static void a_manager_that_waits_hears_that_the_loop_turns(void **state)
{
	struct lg_source *source, *reader;
	struct beats b = { 0 };
	char pid[16];

	(void)state;
	manager_start(false);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("WATCHDOG_USEC", "2000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(lg_service_begin(&c), 0);
	assert_int_equal(lg_loop_new(&b.loop), 0);
	assert_int_equal(lg_loop_add_reader(b.loop, heard_at, beat, &b, &reader), 0);
	assert_int_equal(lg_service_watch(b.loop, &source), 0);
	assert_non_null(source);
	assert_int_equal(lg_loop_run(b.loop), 7);
	lg_source_free(source);
	lg_source_free(reader);
	lg_loop_free(b.loop);
}

static void a_manager_that_waits_for_another_process_or_not_at_all_hears_nothing(void **state)
{
	static const char *const rows[][2] = {
		{ "1000000", "1" }, { "0", NULL }, { "", NULL }, { "1", NULL }, { "never", NULL }, { NULL, NULL },
	};
	struct lg_source *source;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		manager_start(false);
		if (rows[i][0])
			setenv("WATCHDOG_USEC", rows[i][0], 1);
		if (rows[i][1])
			setenv("WATCHDOG_PID", rows[i][1], 1);
		assert_int_equal(lg_service_begin(&c), 0);
		assert_int_equal(lg_service_watch(NULL, &source), 0);
		assert_null(source);
		assert_string_equal(heard(), "");
		teardown(state);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(without_a_manager_nothing_is_said_and_nothing_fails),
		T(a_manager_hears_each_step_once),
		T(a_status_is_one_line),
		T(children_inherit_nothing_of_it),
		T(an_address_that_is_none_is_named),
		T(a_manager_that_waits_hears_that_the_loop_turns),
		T(a_manager_that_waits_for_another_process_or_not_at_all_hears_nothing),
	};

	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
