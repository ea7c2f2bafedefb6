/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A process that has started makes the system calls that its work needs and no others (seccomp). One that is not on its list is told, and
 * fails with EPERM, or as if the kernel had none such where it is a young one; one that only a process taken over would make (running
 * programs, reading another's memory, mounting) ends the process.
 */
#pragma once

#include <stdbool.h>

enum lg_syscalls {
	LG_SYSCALLS_NODE = 1,
	LG_SYSCALLS_REGION = 2,
	LG_SYSCALLS_HTTP = 4,	/* files and memory that can run as a program are refused, too */
};

/* Runs in a signal's handler: only what signal-safety(7) names. Of calls that go on (`ends` false) each number is told once. */
typedef void lg_syscalls_refused(int number, const char *name, bool ends);

/* False in builds with sanitizers, whose run time makes calls of its own: they are not filtered. */
bool lg_syscalls_filtered(void);
/* For all threads, from now on and for ever. A second call does nothing. Negative errno. */
int lg_syscalls_confine(enum lg_syscalls who, lg_syscalls_refused *fn);
/* Of a system call of this machine; "?" when it has none. Not for signal handlers. */
const char *lg_syscalls_name(int number);
