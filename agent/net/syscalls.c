// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is not allowed traps (SECCOMP_RET_TRAP): the signal's handler tells of it, then either ends the process or gives the call an error as
 * result and goes on. A call for another machine's table (32-bit ones) kills at once: nothing here makes one.
 *
 * The error is EPERM for calls that every kernel has on which this runs, and ENOSYS for younger ones, those of which nothing is known here
 * among them: a C library tries a young call first, goes on by an older one if the kernel has it not, and takes any other error for the answer.
 */
#include "net/syscalls.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/mem.h"

#define NUMBERS_MAX 1024	/* of system calls */
#define YOUNG 424		/* Linux 5.1: from this number on a call has the same one on all machines */
#define NAME_LEN 32

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_FILTERED false
#else
#define IS_FILTERED true
#endif

#if defined(__x86_64__)
#define RESULT(context) ((context)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define RESULT(context) ((context)->uc_mcontext.regs[0])
#else
#error "where does this machine keep the result of a system call?"
#endif

enum { N = LG_SYSCALLS_NODE, R = LG_SYSCALLS_REGION, H = LG_SYSCALLS_HTTP };

static const struct {
	const char *name;
	unsigned who;	/* 0: ends the process */
} calls[] = {
#define LG_CALL(name, who) { #name, who },
#define LG_CALL_ENDS(name) { #name, 0 },
#include "net/syscalls.def"
#undef LG_CALL
#undef LG_CALL_ENDS
};

/* For the handler, which may not ask the library. */
static struct {
	char name[NAME_LEN];
	bool ends;
	bool told;
} table[NUMBERS_MAX];
static lg_syscalls_refused *refused;

bool lg_syscalls_filtered(void)
{
	return IS_FILTERED;
}

const char *lg_syscalls_name(int number)
{
	static char name[NAME_LEN];
	_cleanup_free_ char *found = number >= 0 ? seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number) : NULL;
	size_t len = found ? strlen(found) : 0;

	if (!len || len >= sizeof(name))
		return "?";
	memcpy(name, found, len + 1);
	return name;
}

static void on_trap(int signo, siginfo_t *info, void *context)
{
	int number = info->si_syscall, saved = errno;
	bool known = number >= 0 && number < NUMBERS_MAX, ends = !known || table[number].ends;

	(void)signo;
	if (ends || !table[number].told)
		refused(number, known && table[number].name[0] ? table[number].name : "?", ends);
	if (ends)
		_exit(1);
	table[number].told = true;
	errno = saved;
	RESULT((ucontext_t *)context) = number < YOUNG ? -EPERM : -ENOSYS;
}

static void table_fill(void)
{
	int number;

	for (int i = 0; i < NUMBERS_MAX; i++)
		strcpy(table[i].name, lg_syscalls_name(i));
	for (size_t i = 0; i < N_ELEMS(calls); i++) {
		number = seccomp_syscall_resolve_name(calls[i].name);
		if (!calls[i].who && number >= 0 && number < NUMBERS_MAX)
			table[number].ends = true;
	}
}

/* Calls that are good for some of what can be asked of them. */
static int add_narrow(scmp_filter_ctx filter, enum lg_syscalls who)
{
	int r = 0;

	if (who != LG_SYSCALLS_NODE)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1_32(SCMP_CMP_EQ, FIONREAD, 0));
	if (r == 0 && who == LG_SYSCALLS_REGION)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1, SCMP_A1_32(SCMP_CMP_EQ, TIOCOUTQ, 0));
	/* Threads, no processes. What clone3() makes stands in memory, where no filter looks: libc then goes by clone(). */
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == 0 && who == LG_SYSCALLS_REGION)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	if (r < 0 || who != LG_SYSCALLS_HTTP)
		return r;
	r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r < 0 ? r : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2_32(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

static int filter_load(scmp_filter_ctx filter, enum lg_syscalls who)
{
	int r, number;

	/* A tree in place of a list: each call passes some eight comparisons and not a hundred. */
	r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (r == 0)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
	for (size_t i = 0; r == 0 && i < N_ELEMS(calls); i++) {
		number = seccomp_syscall_resolve_name(calls[i].name);
		if ((calls[i].who & who) && number >= 0)
			r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	if (r == 0)
		r = add_narrow(filter, who);
	return r < 0 ? r : seccomp_load(filter);
}

int lg_syscalls_confine(enum lg_syscalls who, lg_syscalls_refused *fn)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
	scmp_filter_ctx filter;
	sigset_t trap;
	int r;

	if (!IS_FILTERED || refused)
		return 0;
	table_fill();
	refused = fn;
	sigemptyset(&action.sa_mask);
	sigemptyset(&trap);
	sigaddset(&trap, SIGSYS);
	if (sigaction(SIGSYS, &action, NULL) < 0 || sigprocmask(SIG_UNBLOCK, &trap, NULL) < 0)
		return -errno;
	filter = seccomp_init(SCMP_ACT_TRAP);
	if (!filter)
		return -ENOMEM;
	r = filter_load(filter, who);
	seccomp_release(filter);
	return r;
}
