// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define DONE 42

/* What the handler told, as the parent reads it. */
static int report_fd = -1;

static void on_refused(int number, const char *name, bool ends)
{
	char line[64] = { 0 };
	size_t len = strlen(name);

	(void)number;
	memcpy(line, name, len);
	memcpy(line + len, ends ? " ends\n" : " refused\n", ends ? 6 : 9);
	(void)!write(report_fd, line, strlen(line));
}

struct outcome {
	int status;
	char told[512];
};

/* Runs fn in a process that has the filter on. */
static struct outcome confined(enum lg_syscalls who, int (*fn)(void))
{
	struct outcome o = { 0 };
	size_t used = 0;
	int report[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(report), 0);
	pid = fork();
	if (pid == 0) {
		report_fd = report[1];
		if (lg_syscalls_confine(who, on_refused) < 0)
			_exit(1);
		_exit(fn());
	}
	close(report[1]);
	while ((n = read(report[0], o.told + used, sizeof(o.told) - 1 - used)) > 0)
		used += (size_t)n;
	close(report[0]);
	assert_int_equal(waitpid(pid, &o.status, 0), pid);
	return o;
}

static void check_done(const struct outcome *o, const char *told)
{
	assert_true(WIFEXITED(o->status));
	assert_int_equal(WEXITSTATUS(o->status), DONE);
	assert_string_equal(o->told, told);
}

static bool is_refused(long result)
{
	return result == -1 && errno == EPERM;
}

static int what_a_daemon_does(void)
{
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC), s = socket(AF_INET, SOCK_STREAM, 0);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return fd >= 0 && s >= 0 && p != MAP_FAILED ? DONE : 1;
}

static void a_daemon_goes_on_with_its_work(void **state)
{
	struct outcome o;

	(void)state;
	o = confined(LG_SYSCALLS_NODE, what_a_daemon_does);
	check_done(&o, "");
	o = confined(LG_SYSCALLS_REGION, what_a_daemon_does);
	check_done(&o, "");
}

/* As on a kernel that is older than the call: a C library then has another way. */
static int unknown_call(void)
{
	return syscall(1000) == -1 && errno == ENOSYS ? DONE : 1;
}

static int calls_around_the_first_young_one(void)
{
	if (!is_refused(syscall(SYS_io_pgetevents, 0, 0, 0, NULL, NULL, NULL)))
		return 1;
	return syscall(SYS_close_range, 1000, 1000, 0) == -1 && errno == ENOSYS ? DONE : 2;
}

/* Numbers beyond the table end the process: nothing that was built with it makes them. */
static int beyond_all_numbers(void)
{
	syscall(5000);
	return 1;
}

static int harmless_call(void)
{
	int n = 0;

	for (int i = 0; i < 3; i++)
		n += is_refused(syscall(SYS_getpriority, PRIO_PROCESS, 0));
	return n == 3 ? DONE : 1;
}

static void a_harmless_call_that_is_not_on_the_list_fails_and_is_told_of_once(void **state)
{
	struct outcome o;

	(void)state;
	if (!lg_syscalls_filtered())
		skip();
	o = confined(LG_SYSCALLS_NODE, harmless_call);
	check_done(&o, "getpriority refused\n");
	o = confined(LG_SYSCALLS_NODE, unknown_call);
	check_done(&o, "? refused\n");
	o = confined(LG_SYSCALLS_REGION, calls_around_the_first_young_one);
	check_done(&o, "io_pgetevents refused\nclose_range refused\n");
	o = confined(LG_SYSCALLS_REGION, beyond_all_numbers);
	assert_true(WIFEXITED(o.status) && WEXITSTATUS(o.status) == 1);
	assert_string_equal(o.told, "? ends\n");
}

static int runs_a_program(void)
{
	char *argv[] = { (char[]){ "true" }, NULL };

	execve("/bin/true", argv, argv + 1);
	return DONE;
}

static int makes_a_process(void)
{
	if (fork() == 0)
		_exit(0);
	return DONE;
}

static int reads_another(void)
{
	syscall(SYS_ptrace, 16, getppid(), 0, 0);
	return DONE;
}

static void what_only_a_process_taken_over_would_do_ends_it_and_is_told_of(void **state)
{
	static const enum lg_syscalls all[] = { LG_SYSCALLS_NODE, LG_SYSCALLS_REGION, LG_SYSCALLS_HTTP };
	static const struct {
		int (*fn)(void);
		const char *told;
	} rows[] = { { runs_a_program, "execve ends\n" }, { makes_a_process, "clone ends\n" }, { reads_another, "ptrace ends\n" } };

	(void)state;
	if (!lg_syscalls_filtered())
		skip();
	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; j < 3; j++) {
			struct outcome o = confined(all[i], rows[j].fn);

			assert_true(WIFEXITED(o.status));
			assert_int_equal(WEXITSTATUS(o.status), 1);
			assert_string_equal(o.told, rows[j].told);
		}
	}
}

static int uses_bpf(void)
{
	/* A command that does not exist: with the call allowed the kernel answers -EINVAL. */
	return syscall(SYS_bpf, 0x7fff, NULL, 0) == -1 && errno == EINVAL ? DONE : 1;
}

static void only_a_node_uses_bpf(void **state)
{
	struct outcome o;

	(void)state;
	if (!lg_syscalls_filtered())
		skip();
	o = confined(LG_SYSCALLS_NODE, uses_bpf);
	if (WEXITSTATUS(o.status) != DONE && geteuid() != 0)
		skip();
	check_done(&o, "");
	o = confined(LG_SYSCALLS_REGION, uses_bpf);
	assert_int_equal(WEXITSTATUS(o.status), 1);
	assert_string_equal(o.told, "bpf refused\n");
}

static int what_http_needs_not(void)
{
	int n = 0, waiting;

	n += is_refused(open("/dev/null", O_RDONLY));
	n += is_refused(socket(AF_INET, SOCK_STREAM, 0));
	n += is_refused(ioctl(0, TIOCSTI, ""));
	n += mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EPERM;
	/* and what it needs */
	n += ioctl(report_fd, FIONREAD, &waiting) == 0;
	n += mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
	return n == 6 ? DONE : n;
}

static void the_http_process_opens_nothing_and_runs_no_memory(void **state)
{
	struct outcome o;

	(void)state;
	if (!lg_syscalls_filtered())
		skip();
	o = confined(LG_SYSCALLS_HTTP, what_http_needs_not);
	check_done(&o, "openat refused\nsocket refused\nioctl refused\nmmap refused\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_daemon_goes_on_with_its_work),
		cmocka_unit_test(a_harmless_call_that_is_not_on_the_list_fails_and_is_told_of_once),
		cmocka_unit_test(what_only_a_process_taken_over_would_do_ends_it_and_is_told_of),
		cmocka_unit_test(only_a_node_uses_bpf),
		cmocka_unit_test(the_http_process_opens_nothing_and_runs_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
