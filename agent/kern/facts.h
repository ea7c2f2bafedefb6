/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What preflight knows of a machine and of its interfaces. Filled by probe*.c, which asks the kernel and changes nothing; judged by
 * judge*.c, which asks nobody. What could not be found out is said to be so and never guessed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"

enum lg_known { LG_NOT_KNOWN, LG_NO, LG_YES };

/* Features of the kernel, each tried by making what needs it. */
enum lg_feature {
#define LG_FEATURE(id, ...) LG_FEATURE_##id,
#define LG_FINDING(...)
#include "kern/findings.def"
	_LG_FEATURE_N
};

enum lg_cap { LG_CAP_BPF = 1, LG_CAP_NET_ADMIN = 2, LG_CAP_PERFMON = 4, LG_CAP_SYS_ADMIN = 8, LG_CAP_SETUID = 16, LG_CAP_SETGID = 32 };

#define LG_BPF_KILLED 1		/* bpf_error: the call ended the process that made it */
#define LG_SYSCTL_NONE (-1)	/* of a sysctl: there is none, or it cannot be read */
#define LG_MAPS_MAX 40
#define LG_NO_BOUND UINT64_MAX	/* of a limit in bytes */

struct lg_machine_facts {
	char release[65];
	uint32_t major, minor;
	uint32_t n_cpus;		/* possible ones: per-CPU maps have a value for each */
	uint32_t caps;			/* effective ones, enum lg_cap */
	bool is_root;
	bool serves_http;		/* the configuration says so */
	bool in_user_namespace;
	bool has_seccomp_filter;
	int bpf_error;			/* what bpf() says to making a small map: 0, a negative errno, or LG_BPF_KILLED */
	enum lg_known feature[_LG_FEATURE_N];
	enum lg_known loads;		/* the programs of this build, with small maps */
	enum lg_kern_fail load_fail;	/* with LG_NO */
	char load_why[512];
	bool has_btf;
	bool has_libxdp;
	enum lg_known jits;		/* a program was compiled */
	int jit_harden, bpf_stats;	/* sysctls */
	char lockdown[20];		/* "" without that module */
	char pins_at[256];		/* nearest folder to the pins' that exists */
	char pins_on[24];		/* file system there: "bpf", "tmpfs" ... */
	bool pins_read_only;
	uint64_t memlock_bytes;		/* RLIMIT_MEMLOCK; LG_NO_BOUND */
	uint64_t available_bytes;	/* of memory; LG_NO_BOUND: not known */
	uint64_t cgroup_bytes;		/* least limit of our control group and those above; LG_NO_BOUND */
	size_t n_maps;
	struct lg_map_facts maps[LG_MAPS_MAX];
};

/* What is pinned of an instance. */
enum lg_pinned {
	LG_PINNED_NOT_KNOWN,
	LG_PINNED_NOTHING,	/* or not enough to be taken over */
	LG_PINNED_OURS,
	LG_PINNED_MISFIT,	/* of this ABI version, and yet laid out otherwise */
	LG_PINNED_OTHERS,	/* of another ABI version */
};

struct lg_instance_facts {
	char name[LG_NAME_LEN];
	enum lg_pinned pinned;
	uint32_t other_abi;
	uint32_t n_links;		/* attached anywhere */
	char why[512];			/* of LG_PINNED_MISFIT */
};

/* A program of somebody at a hook of an interface. */
struct lg_program_facts {
	enum lg_hook hook;
	enum lg_attach_mode mode;	/* LG_MODE_NONE: offloaded */
	uint32_t id;			/* 0: a filter that is no BPF program */
	uint32_t priority;		/* clsact */
	bool is_ours;			/* of the instance that was asked for */
	char name[64];			/* "" where the kernel does not tell */
	uint32_t uid;			/* of who loaded it, if name is known */
	uint32_t pid;			/* of a process that holds it; 0: none that can be seen */
	char process[16];
};

#define LG_PROGRAMS_MAX 32
#define LG_CHILDREN_MAX 8

enum lg_xdp_feature { LG_XDP_BASIC = 1 << 0, LG_XDP_RX_SG = 1 << 5 }; /* bits of the netdev family */

struct lg_interface_facts {
	char name[16];
	uint32_t ifindex;		/* 0: there is none of this name, and nothing below is set */
	bool is_up;
	bool is_loopback;
	uint32_t mtu;
	uint32_t rx_queues, tx_queues;	/* 0: not known */
	uint32_t channels, channels_max; /* receiving and sending at once; 0: not known */
	char kind[16];			/* "veth", "bond", "vlan"; "" for hardware */
	char driver[32];		/* "" where it does not tell */
	char master[16];		/* the bridge or bond it belongs to, or "" */
	char port_kind[16];		/* of which it is a port: "bridge", "bond" */
	char lower[16];			/* what it stands on, or "" */
	uint32_t n_ports;		/* of a bond or bridge; with `others` */
	size_t n_children;		/* that stand on it; at most LG_CHILDREN_MAX are named; with `others` */
	char children[LG_CHILDREN_MAX][16];
	enum lg_known xdp_known;	/* LG_YES: xdp_features holds what the kernel says */
	uint64_t xdp_features;		/* enum lg_xdp_feature */
	enum lg_known lro, gro, gro_hw, udp_gro, rx_vlan; /* its offloads */
	char queueing[LG_QDISC_LEN];	/* discipline of what goes out, with `others`; "" where it is not known */
	bool paces;			/* it lets packets go at the time they carry */
	bool programs_known;		/* LG_PROGRAMS_MAX of all are listed */
	size_t n_programs;
	struct lg_program_facts programs[LG_PROGRAMS_MAX];
};

/* What an instance is to do at an interface. */
struct lg_interface_wants {
	bool is_configured;	/* else it is asked what would be */
	bool xdp_native, xdp_generic, tc, tc_egress;
	bool may_fall_back;	/* from native to generic XDP */
	bool may_wait;		/* the node starts without it */
	bool is_pattern;	/* it has no entry of its own */
	bool shared;		/* XDP beside others */
	bool paces;		/* some rule has packets wait there */
	bool looks_at_vlan;	/* some rule matches or is keyed by a tag there */
};

/* ---- probe.c, probe_kernel.c ---- */

/* Everything about the machine for an instance with these options. Makes small maps and programs, pins nothing, and lets go of all.
 * `load`: also whether the programs load, for which the verifier takes a second or two. */
void lg_probe_machine(const struct lg_kern_options *o, bool load, struct lg_machine_facts *ret);
/* The part of it for which bpf() is called. */
void lg_probe_kernel(bool load, struct lg_machine_facts *facts);
/* The file system that holds a path, or would, by its nearest folder that exists. 0, or -errno with *ret_at being what failed. */
int lg_probe_file_system(const char *path, char *ret_at, size_t at_len, char *ret_name, size_t name_len, bool *ret_read_only);

/* ---- probe_instance.c ---- */

/* What is pinned and attached of an instance; changes nothing. */
void lg_probe_instance(const char *instance, struct lg_instance_facts *ret);

/* ---- probe_interface.c, probe_programs.c ---- */

/* An interface without the programs at its hooks. `others`: also what stands on it and how it queues, for which all are listed. */
void lg_probe_interface(const char *ifname, bool others, struct lg_interface_facts *ret);
/* The programs at its hooks. `instance` says which are ours. */
void lg_probe_programs(const char *instance, struct lg_interface_facts *facts);
