// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What the kernel can do, found out by having it done: maps and programs of a few instructions, which go as soon as they came. The
 * version number would not tell: distributions carry features back, and leave out of their configuration what is usual.
 *
 * A filter may answer bpf() by ending the process, so a child asks first.
 */
#include "kern/facts.h"

#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kern/internal.h"

#define CHILD_CANNOT 255 /* errnos are below */

static int small_map_make(void)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };

	return (int)syscall(__NR_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)) < 0 ? errno : 0;
}

/* 0, a negative errno, or LG_BPF_KILLED. */
static int bpf_ask(void)
{
	int status = 0;
	pid_t pid;

	pid = fork();
	if (pid < 0)
		return -small_map_make();
	if (pid == 0) {
		int err = small_map_make();

		_exit(err < CHILD_CANNOT ? err : CHILD_CANNOT);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? LG_BPF_KILLED : -WEXITSTATUS(status);
}

/* Of a descriptor or a negative errno. */
static enum lg_known answer(int fd)
{
	if (fd >= 0)
		close(fd);
	if (fd == -EPERM)
		return LG_NOT_KNOWN;
	return fd >= 0 ? LG_YES : LG_NO;
}

static enum lg_known can_load(enum bpf_prog_type type, const struct bpf_insn *insns, size_t n, uint32_t flags)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .prog_flags = flags);

	return answer(bpf_prog_load(type, NULL, "Dual BSD/GPL", insns, n, &opts));
}

static enum lg_known can_make(enum bpf_map_type type, uint32_t key_bytes, uint32_t value_bytes, uint32_t entries, uint32_t flags)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = flags);

	return answer(bpf_map_create(type, NULL, key_bytes, value_bytes, entries, &opts));
}

#define MOV(reg, value)                                                               \
	{                                                                             \
		.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (reg), .imm = (value) \
	}
#define END()                              \
	{                                  \
		.code = BPF_JMP | BPF_EXIT \
	}

static enum lg_known can_end(enum bpf_prog_type type, uint32_t flags)
{
	static const struct bpf_insn insns[] = { MOV(BPF_REG_0, 0), END() };

	return can_load(type, insns, N_ELEMS(insns), flags);
}

/* The sysctl would tell less: it is hidden in all network namespaces but the first, and no promise for this machine's instructions. */
static enum lg_known is_compiled(void)
{
	static const struct bpf_insn insns[] = { MOV(BPF_REG_0, 0), END() };
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = -1;

	fd = bpf_prog_load(BPF_PROG_TYPE_XDP, NULL, "Dual BSD/GPL", insns, N_ELEMS(insns), NULL);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return LG_NOT_KNOWN;
	return info.jited_prog_len ? LG_YES : LG_NO;
}

static enum lg_known can_swap(void)
{
	static const struct bpf_insn insns[] = {
		MOV(BPF_REG_0, 0),
		{ .code = BPF_STX | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .src_reg = BPF_REG_0, .off = -8 },
		MOV(BPF_REG_1, 1),
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = BPF_REG_10, .src_reg = BPF_REG_1, .off = -8, .imm = BPF_CMPXCHG },
		MOV(BPF_REG_0, 0),
		END(),
	};

	return can_load(BPF_PROG_TYPE_SCHED_CLS, insns, N_ELEMS(insns), 0);
}

/* libbpf takes any answer but the verifier's "unknown function" for a yes, so programs of the type must load. */
static enum lg_known can_call(const struct lg_machine_facts *m, enum lg_feature type, enum bpf_prog_type prog_type, enum bpf_func_id helper)
{
	int r;

	if (m->feature[type] != LG_YES)
		return LG_NOT_KNOWN;
	r = libbpf_probe_bpf_helper(prog_type, helper, NULL);
	return r < 0 ? LG_NOT_KNOWN : r ? LG_YES : LG_NO;
}

/* What libbpf tries must be refused for the right reason, so all other answers are a no. */
static enum lg_known can_replace(const struct lg_machine_facts *m)
{
	if (m->feature[LG_FEATURE_XDP] != LG_YES)
		return LG_NOT_KNOWN;
	return libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_EXT, NULL) == 1 ? LG_YES : LG_NO;
}

static enum lg_known has_tcx(void)
{
	uint32_t ifindex = if_nametoindex("lo");
	int r;

	r = ifindex ? lg_link_has_tcx(ifindex) : -ENODEV;
	return r < 0 ? LG_NOT_KNOWN : r ? LG_YES : LG_NO;
}

static enum lg_known feature_try(const struct lg_machine_facts *m, enum lg_feature feature)
{
	switch (feature) {
	case LG_FEATURE_XDP: return can_end(BPF_PROG_TYPE_XDP, 0);
	case LG_FEATURE_TC: return can_end(BPF_PROG_TYPE_SCHED_CLS, 0);
	case LG_FEATURE_SYSCALL: return can_end(BPF_PROG_TYPE_SYSCALL, BPF_F_SLEEPABLE);
	case LG_FEATURE_RINGBUF: return can_make(BPF_MAP_TYPE_RINGBUF, 0, 0, (uint32_t)sysconf(_SC_PAGESIZE), 0);
	case LG_FEATURE_MMAPABLE: return can_make(BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_MMAPABLE);
	case LG_FEATURE_LPM: return can_make(BPF_MAP_TYPE_LPM_TRIE, 4 + 16, 8, 1, BPF_F_NO_PREALLOC);
	case LG_FEATURE_CMPXCHG: return can_swap();
	case LG_FEATURE_COARSE_CLOCK: return can_call(m, LG_FEATURE_XDP, BPF_PROG_TYPE_XDP, BPF_FUNC_ktime_get_coarse_ns);
	case LG_FEATURE_BOOT_CLOCK: return can_call(m, LG_FEATURE_XDP, BPF_PROG_TYPE_XDP, BPF_FUNC_ktime_get_boot_ns);
	case LG_FEATURE_LOOP: return can_call(m, LG_FEATURE_XDP, BPF_PROG_TYPE_XDP, BPF_FUNC_loop);
	case LG_FEATURE_PERCPU_LOOKUP: return can_call(m, LG_FEATURE_XDP, BPF_PROG_TYPE_XDP, BPF_FUNC_map_lookup_percpu_elem);
	case LG_FEATURE_XDP_LOAD_BYTES: return can_call(m, LG_FEATURE_XDP, BPF_PROG_TYPE_XDP, BPF_FUNC_xdp_load_bytes);
	case LG_FEATURE_XDP_FRAGS: return can_end(BPF_PROG_TYPE_XDP, BPF_F_XDP_HAS_FRAGS);
	case LG_FEATURE_CGROUP_ID: return can_call(m, LG_FEATURE_TC, BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_skb_cgroup_id);
	case LG_FEATURE_FREPLACE: return can_replace(m);
	case LG_FEATURE_TCX: return has_tcx();
	case _LG_FEATURE_N: break;
	}
	return LG_NOT_KNOWN;
}

/* What loading the programs takes. */
static bool may_load(uint32_t caps)
{
	return (caps & LG_CAP_NET_ADMIN) && (caps & (LG_CAP_BPF | LG_CAP_SYS_ADMIN)) && (caps & (LG_CAP_PERFMON | LG_CAP_SYS_ADMIN));
}

void lg_probe_kernel(bool load, struct lg_machine_facts *m)
{
	struct lg_complaint c = { 0 };
	int r;

	m->bpf_error = bpf_ask();
	if (m->bpf_error)
		return;
	for (int i = 0; i < _LG_FEATURE_N; i++)
		m->feature[i] = feature_try(m, (enum lg_feature)i);
	if (!may_load(m->caps))
		return;
	m->jits = is_compiled();
	if (!load)
		return;
	r = lg_kern_load_try(&m->load_fail, &c);
	m->loads = r < 0 ? LG_NO : LG_YES;
	if (r < 0)
		snprintf(m->load_why, sizeof(m->load_why), "%s", c.text);
}
