// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/killer.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_BYTES 256

struct trace {
	pid_t pid;
	uint32_t n_like;     /* steps like the last one, in a row */
	char last[96];
	struct lg_killed *ret;
};

static void must(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

static bool peek(pid_t pid, uint64_t at, void *ret, size_t bytes)
{
	struct iovec here = { ret, bytes }, there = { (void *)(uintptr_t)at, bytes };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) > 0;
}

/* The last two names of a path of the process. */
static void path_name(pid_t pid, uint64_t at, char ret[64])
{
	char path[PATH_BYTES] = "";
	int n_slashes = 0;
	char *from;

	/* A string near the end of a page must not be read beyond it. */
	for (size_t i = 0; i < sizeof(path) - 1 && peek(pid, at + i, path + i, 1) && path[i]; i++)
		;
	path[sizeof(path) - 1] = '\0';
	for (from = path + strlen(path); from > path && n_slashes < 2; from--)
		n_slashes += from[-1] == '/';
	snprintf(ret, 64, "%.60s", n_slashes == 2 ? from + 1 : from);
}

static void map_name(pid_t pid, uint32_t fd, char ret[64])
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info), id = 0;
	char path[64], line[128];
	FILE *f;
	int map;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%u", pid, fd);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "map_id: %u", &id) == 1)
			break;
	if (f)
		fclose(f);
	map = bpf_map_get_fd_by_id(id);
	if (map >= 0 && bpf_obj_get_info_by_fd(map, &info, &len) == 0)
		snprintf(ret, 64, "%s", info.name);
	else
		snprintf(ret, 64, "?");
	if (map >= 0)
		close(map);
}

/* What a bpf() leaves behind, or "". */
static void bpf_step(pid_t pid, uint64_t cmd, uint64_t attr_at, char ret[96])
{
	static const struct {
		uint64_t cmd;
		const char *text;
	} plain[] = { { BPF_PROG_TEST_RUN, "run a program" }, { BPF_LINK_CREATE, "make a link" }, { BPF_LINK_UPDATE, "update a link" },
		      { BPF_LINK_DETACH, "detach a link" } };
	uint32_t attr[10] = { 0 };
	char name[64];
	uint64_t path;

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
		if (plain[i].cmd == cmd)
			snprintf(ret, 96, "%s", plain[i].text);
	if (!peek(pid, attr_at, attr, sizeof(attr)))
		return;
	if (cmd == BPF_OBJ_PIN) {
		memcpy(&path, attr, sizeof(path));
		path_name(pid, path, name);
		snprintf(ret, 96, "pin %s", name);
	} else if (cmd == BPF_MAP_UPDATE_ELEM || cmd == BPF_MAP_DELETE_ELEM || cmd == BPF_MAP_UPDATE_BATCH) {
		map_name(pid, cmd == BPF_MAP_UPDATE_BATCH ? attr[9] : attr[0], name);
		/* Maps that nobody else can see. */
		if (!strchr(name, '.') && strcmp(name, "lg_grace") != 0)
			snprintf(ret, 96, "%s %s", cmd == BPF_MAP_DELETE_ELEM ? "delete from" : "write", name);
	}
}

/* What the system call that is about to begin leaves behind, or "". */
static void step_of(pid_t pid, const struct __ptrace_syscall_info *info, char ret[96])
{
	static const struct {
		uint64_t nr;
		const char *verb;
		int path_arg;
	} files[] = {
#ifdef SYS_mkdir
		{ SYS_mkdir, "mkdir", 0 }, { SYS_rmdir, "rmdir", 0 }, { SYS_unlink, "unlink", 0 }, { SYS_rename, "rename", 0 },
#endif
		{ SYS_mkdirat, "mkdir", 1 }, { SYS_unlinkat, "unlink", 1 }, { SYS_renameat2, "rename", 1 },
	};
	char name[64];

	ret[0] = '\0';
	if (info->entry.nr == SYS_bpf)
		bpf_step(pid, info->entry.args[0], info->entry.args[1], ret);
	if (info->entry.nr == SYS_sendto || info->entry.nr == SYS_sendmsg)
		snprintf(ret, 96, "send a message");
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (files[i].nr != info->entry.nr)
			continue;
		path_name(pid, info->entry.args[files[i].path_arg], name);
		snprintf(ret, 96, "%s %s", files[i].verb, name);
	}
}

/* Whether it is the point at which the process shall die. */
static bool is_point(struct trace *t, uint32_t at, bool each)
{
	struct __ptrace_syscall_info info = { 0 };
	char step[96];

	must(ptrace(PTRACE_GET_SYSCALL_INFO, t->pid, sizeof(info), &info) > 0, "PTRACE_GET_SYSCALL_INFO");
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	step_of(t->pid, &info, step);
	if (!step[0])
		return false;
	t->n_like = strcmp(step, t->last) == 0 ? t->n_like + 1 : 1;
	memcpy(t->last, step, sizeof(step));
	if (t->n_like > 2 && !each)
		return false;
	memcpy(t->ret->at, step, sizeof(step));
	return ++t->ret->n == at;
}

void lg_kill_at(int (*fn)(void *arg), void *arg, uint32_t at, bool each, struct lg_killed *ret)
{
	struct trace t = { .ret = ret };
	int status, signo = 0;

	*ret = (struct lg_killed){ 0 };
	t.pid = fork();
	must(t.pid >= 0, "fork");
	if (t.pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP))
			_exit(125);
		_exit(fn(arg));
	}
	must(waitpid(t.pid, &status, 0) == t.pid && WIFSTOPPED(status), "a process to trace");
	must(ptrace(PTRACE_SETOPTIONS, t.pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) == 0, "PTRACE_SETOPTIONS");
	for (;;) {
		must(ptrace(PTRACE_SYSCALL, t.pid, NULL, (void *)(intptr_t)signo) == 0, "PTRACE_SYSCALL");
		must(waitpid(t.pid, &status, 0) == t.pid, "waitpid");
		if (!WIFSTOPPED(status))
			break;
		signo = WSTOPSIG(status) == (SIGTRAP | 0x80) || status >> 16 ? 0 : WSTOPSIG(status);
		if (WSTOPSIG(status) != (SIGTRAP | 0x80) || !is_point(&t, at, each))
			continue;
		kill(t.pid, SIGKILL);
		must(waitpid(t.pid, &status, 0) == t.pid, "waitpid");
		break;
	}
	ret->ended = WIFEXITED(status);
	ret->status = ret->ended ? WEXITSTATUS(status) : 0;
}
