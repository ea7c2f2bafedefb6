// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What can be read about the machine without trying anything: files below /proc and /sys, limits, capabilities. */
#include "kern/facts.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include "kern/internal.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_PATH_LEN 512
#define V1_NO_LIMIT (UINT64_C(1) << 62) /* what version 1 says for no limit is near 2^63 */

/* The first number of a file; false when there is none. */
static bool file_number(const char *path, uint64_t *ret)
{
	FILE *f = fopen(path, "re");
	bool found;

	if (!f)
		return false;
	found = fscanf(f, "%" SCNu64, ret) == 1;
	fclose(f);
	return found;
}

/* The number behind a word at the start of a line, such as "MemAvailable:". */
static bool file_field(const char *path, const char *word, uint64_t *ret)
{
	size_t len = strlen(word);
	bool found = false;
	char line[256];
	FILE *f;

	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = strncmp(line, word, len) == 0 && sscanf(line + len, "%" SCNu64, ret) == 1;
	fclose(f);
	return found;
}

bool lg_has_seccomp_filter(void)
{
	uint64_t mode;

	return file_field("/proc/self/status", "Seccomp:", &mode) && mode == 2;
}

static int sysctl_read(const char *path)
{
	uint64_t value;

	return file_number(path, &value) && value <= INT32_MAX ? (int)value : LG_SYSCTL_NONE;
}

/* The word in brackets of "none [integrity] confidentiality". */
static void lockdown_read(char *buf, size_t len)
{
	FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char line[128] = "", *from;

	if (!f)
		return;
	if (fgets(line, sizeof(line), f) && (from = strchr(line, '[')))
		snprintf(buf, len, "%.*s", (int)strcspn(from + 1, "]\n"), from + 1);
	fclose(f);
}

static uint32_t caps_read(void)
{
	static const struct {
		cap_value_t cap;
		enum lg_cap bit;
	} wanted[] = { { CAP_BPF, LG_CAP_BPF }, { CAP_NET_ADMIN, LG_CAP_NET_ADMIN }, { CAP_PERFMON, LG_CAP_PERFMON },
		       { CAP_SYS_ADMIN, LG_CAP_SYS_ADMIN }, { CAP_SETUID, LG_CAP_SETUID }, { CAP_SETGID, LG_CAP_SETGID } };
	cap_t caps = cap_get_proc();
	cap_flag_value_t value;
	uint32_t bits = 0;

	if (!caps)
		return 0;
	for (size_t i = 0; i < N_ELEMS(wanted); i++)
		if (cap_get_flag(caps, wanted[i].cap, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET)
			bits |= wanted[i].bit;
	cap_free(caps);
	return bits;
}

/* ---- memory ---- */

static uint64_t memlock_read(void)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_MEMLOCK, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY ? LG_NO_BOUND : lim.rlim_cur;
}

static uint64_t available_read(void)
{
	uint64_t kib;

	return file_field("/proc/meminfo", "MemAvailable:", &kib) ? kib * 1024 : LG_NO_BOUND;
}

/* The least limit of a group and those above it. */
static uint64_t cgroup_least(const char *root, const char *group, const char *file)
{
	uint64_t least = LG_NO_BOUND, value;
	char dir[CGROUP_PATH_LEN], path[CGROUP_PATH_LEN + 64];
	char *slash;

	if (snprintf(dir, sizeof(dir), "%s%s", root, group) >= (int)sizeof(dir))
		return LG_NO_BOUND;
	do {
		snprintf(path, sizeof(path), "%s/%s", dir, file);
		if (file_number(path, &value) && value < V1_NO_LIMIT && value < least)
			least = value;
		slash = strrchr(dir, '/');
		if (slash)
			*slash = '\0';
	} while (slash && strlen(dir) >= strlen(root));
	return least;
}

/* "0::/a/b" of version 2, "7:memory:/a/b" of version 1; a machine may have both. */
static uint64_t cgroup_read(void)
{
	uint64_t least = LG_NO_BOUND, value = LG_NO_BOUND;
	char line[CGROUP_PATH_LEN];
	FILE *f;

	f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return LG_NO_BOUND;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::", 3) == 0)
			value = cgroup_least(CGROUP_ROOT, line + 3, "memory.max");
		else if (strstr(line, ":memory:"))
			value = cgroup_least(CGROUP_ROOT "/memory", strstr(line, ":memory:") + 8, "memory.limit_in_bytes");
		least = value < least ? value : least;
	}
	fclose(f);
	return least;
}

/* ---- file systems ---- */

static void file_system_name(long type, char *buf, size_t len)
{
	static const struct {
		long type;
		const char *name;
	} known[] = { { BPF_FS_MAGIC, "bpf" }, { TMPFS_MAGIC, "tmpfs" }, { SYSFS_MAGIC, "sysfs" }, { OVERLAYFS_SUPER_MAGIC, "overlay" },
		      { EXT4_SUPER_MAGIC, "ext4" }, { 0x58465342, "xfs" }, { BTRFS_SUPER_MAGIC, "btrfs" }, { PROC_SUPER_MAGIC, "proc" } };

	for (size_t i = 0; i < N_ELEMS(known); i++) {
		if (known[i].type == type) {
			snprintf(buf, len, "%s", known[i].name);
			return;
		}
	}
	snprintf(buf, len, "type %#lx", type);
}

int lg_probe_file_system(const char *path, char *ret_at, size_t at_len, char *ret_name, size_t name_len, bool *ret_read_only)
{
	struct statvfs flags;
	struct statfs fs;
	char *slash;

	snprintf(ret_at, at_len, "%s", path);
	while (statfs(ret_at, &fs) < 0) {
		slash = strrchr(ret_at, '/');
		/* What may not be entered lies on the file system of its folder, unless somebody hides a mount. */
		if ((errno != ENOENT && errno != EACCES) || !slash || !slash[slash == ret_at])
			return -errno;
		slash[slash == ret_at] = '\0';
	}
	file_system_name((long)fs.f_type, ret_name, name_len);
	*ret_read_only = statvfs(ret_at, &flags) == 0 && (flags.f_flag & ST_RDONLY);
	return 0;
}

static void pins_read(const char *root, struct lg_machine_facts *m)
{
	int r;

	r = lg_probe_file_system(root, m->pins_at, sizeof(m->pins_at), m->pins_on, sizeof(m->pins_on), &m->pins_read_only);
	if (r < 0)
		snprintf(m->pins_on, sizeof(m->pins_on), "%s", strerror(-r));
}

/* ---- all of it ---- */

static bool library_is_there(const char *name)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

	if (handle)
		dlclose(handle);
	return handle;
}

static void release_read(struct lg_machine_facts *m)
{
	struct utsname u = { 0 };

	uname(&u);
	snprintf(m->release, sizeof(m->release), "%s", u.release);
	if (sscanf(u.release, "%" SCNu32 ".%" SCNu32, &m->major, &m->minor) != 2)
		m->major = m->minor = 0;
}

void lg_probe_machine(const struct lg_kern_options *o, bool load, struct lg_machine_facts *ret)
{
	int n;

	memset(ret, 0, sizeof(*ret));
	release_read(ret);
	n = libbpf_num_possible_cpus();
	ret->n_cpus = n > 0 ? (uint32_t)n : 1;
	ret->caps = caps_read();
	ret->is_root = geteuid() == 0;
	ret->in_user_namespace = lg_in_user_namespace();
	ret->has_seccomp_filter = lg_has_seccomp_filter();
	ret->has_btf = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	ret->jit_harden = sysctl_read("/proc/sys/net/core/bpf_jit_harden");
	ret->bpf_stats = sysctl_read("/proc/sys/kernel/bpf_stats_enabled");
	ret->has_libxdp = library_is_there("libxdp.so.1");
	lockdown_read(ret->lockdown, sizeof(ret->lockdown));
	pins_read(o->root ? o->root : LG_KERN_ROOT, ret);
	ret->memlock_bytes = memlock_read();
	ret->available_bytes = available_read();
	ret->cgroup_bytes = cgroup_read();
	n = lg_kern_maps_look(o, ret->maps, N_ELEMS(ret->maps));
	ret->n_maps = n > 0 ? (size_t)n : 0;
	lg_probe_kernel(load, ret);
}
