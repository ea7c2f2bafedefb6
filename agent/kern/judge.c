// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The machine's part of preflight, and what findings have in common. */
#include "kern/judge.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

const struct lg_finding_kind lg_finding_kinds[_LG_FINDING_N] = {
#define LG_FEATURE(id, name, worst, since, what, why, action) \
	{ name, LG_ABOUT_MACHINE, LG_SEVERITY_##worst, LG_KERN_FEATURE, false, why, action },
#define LG_FINDING(id, name, scope, worst, fail, at_start, why, action)                                                                   \
	{ name, LG_ABOUT_##scope, LG_SEVERITY_##worst, LG_KERN_##fail, at_start, why, action },
#include "kern/findings.def"
};

/* ---- findings ---- */

void lg_findings_fini(struct lg_findings *f)
{
	free(f->v);
	*f = (struct lg_findings){ 0 };
}

struct lg_finding *lg_finding_add(struct lg_findings *f, enum lg_finding_id id, enum lg_severity severity, const char *object,
				  const char *fmt, ...)
{
	const struct lg_finding_kind *kind = &lg_finding_kinds[id];
	static struct lg_finding lost; /* nobody reads it */
	struct lg_finding *grown, *finding;
	va_list ap;

	if (f->n == f->size) {
		grown = reallocarray(f->v, f->size ? 2 * f->size : 64, sizeof(*grown));
		f->failed |= !grown;
		if (grown) {
			f->v = grown;
			f->size = f->size ? 2 * f->size : 64;
		}
	}
	finding = f->failed ? &lost : &f->v[f->n++];
	*finding = (struct lg_finding){ .id = id, .severity = severity < kind->worst ? severity : kind->worst };
	if (finding->severity == LG_SEVERITY_BLOCKER)
		finding->fail = kind->fail;
	snprintf(finding->object, sizeof(finding->object), "%s", object);
	va_start(ap, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, ap);
	va_end(ap);
	return finding;
}

const char *lg_severity_name(enum lg_severity severity)
{
	switch (severity) {
	case LG_SEVERITY_OK: return "ok";
	case LG_SEVERITY_NOTE: return "note";
	case LG_SEVERITY_WARNING: return "warning";
	case LG_SEVERITY_BLOCKER: return "blocker";
	}
	return "ok";
}

void lg_finding_action(const struct lg_finding *finding, char *buf, size_t len)
{
	static const char place[] = "IFACE";
	const char *from = lg_finding_kinds[finding->id].action, *at;
	size_t used = 0;

	buf[0] = '\0';
	while (used < len && (at = strstr(from, place))) {
		used += (size_t)snprintf(buf + used, len - used, "%.*s%s", (int)(at - from), from, finding->object);
		from = at + sizeof(place) - 1;
	}
	if (used < len)
		snprintf(buf + used, len - used, "%s", from);
}

enum lg_kern_fail lg_findings_fail(const struct lg_findings *f)
{
	static const enum lg_kern_fail order[] = { LG_KERN_PRIVILEGE, LG_KERN_NO_BPFFS, LG_KERN_FEATURE, LG_KERN_REFUSED };

	for (size_t o = 0; o < N_ELEMS(order); o++)
		for (size_t i = 0; i < f->n; i++)
			if (f->v[i].fail == order[o])
				return order[o];
	return LG_KERN_OK;
}

/* ---- memory ---- */

#define HASH_ELEM_BYTES 48   /* struct htab_elem of the kernel, before key and value */
#define HASH_BUCKET_BYTES 16
#define TRIE_NODE_BYTES 40

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

static uint64_t power_of_two(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

uint64_t lg_map_bytes(const struct lg_map_facts *map, uint32_t n_cpus)
{
	uint64_t n = map->max_entries, value = rounded(map->value_bytes), key = rounded(map->key_bytes);

	switch (map->type) {
	case BPF_MAP_TYPE_ARRAY: return n * value;
	case BPF_MAP_TYPE_PERCPU_ARRAY: return n * (value * n_cpus + 8);
	case BPF_MAP_TYPE_RINGBUF: return n;
	case BPF_MAP_TYPE_LPM_TRIE: return 2 * n * (TRIE_NODE_BYTES + rounded(map->key_bytes + map->value_bytes));
	case BPF_MAP_TYPE_HASH:
	case BPF_MAP_TYPE_LRU_HASH:
		/* One element more for each CPU: an update needs a free one before the old one goes. */
		return power_of_two(n) * HASH_BUCKET_BYTES + (n + n_cpus) * (HASH_ELEM_BYTES + key + value);
	default: return n * (HASH_ELEM_BYTES + key + value);
	}
}

uint64_t lg_maps_bytes(const struct lg_machine_facts *m, bool full)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->n_maps; i++)
		if (full || !(m->maps[i].flags & BPF_F_NO_PREALLOC))
			bytes += lg_map_bytes(&m->maps[i], m->n_cpus);
	return bytes;
}

/* ---- the machine ---- */

#define MACHINE "machine"
#define ADD(id, severity, ...) lg_finding_add(f, LG_FINDING_##id, LG_SEVERITY_##severity, MACHINE, __VA_ARGS__)

static bool is_older(const struct lg_machine_facts *m, uint32_t major, uint32_t minor)
{
	return m->major < major || (m->major == major && m->minor < minor);
}

/* "12.3 MiB": as exact as people want it. */
static const char *size_text(uint64_t bytes, char *buf, size_t len)
{
	snprintf(buf, len, "%.1f MiB", (double)bytes / (1 << 20));
	return buf;
}

static void judge_kernel(const struct lg_machine_facts *m, struct lg_findings *f)
{
	if (is_older(m, 6, 1))
		ADD(KERNEL, WARNING, "%s is older than any that was tested", m->release);
	else
		ADD(KERNEL, OK, "%s", m->release);
}

static void judge_cap(const struct lg_machine_facts *m, enum lg_cap cap, enum lg_finding_id id, bool sys_admin_will_do, struct lg_findings *f)
{
	if (m->caps & cap)
		lg_finding_add(f, id, LG_SEVERITY_OK, MACHINE, "held");
	else if (sys_admin_will_do && (m->caps & LG_CAP_SYS_ADMIN))
		lg_finding_add(f, id, LG_SEVERITY_OK, MACHINE, "not held, but CAP_SYS_ADMIN stands for it");
	else
		lg_finding_add(f, id, LG_SEVERITY_BLOCKER, MACHINE, "this process has it not");
}

static void judge_caps(const struct lg_machine_facts *m, struct lg_findings *f)
{
	judge_cap(m, LG_CAP_BPF, LG_FINDING_CAP_BPF, true, f);
	judge_cap(m, LG_CAP_NET_ADMIN, LG_FINDING_CAP_NET_ADMIN, false, f);
	judge_cap(m, LG_CAP_PERFMON, LG_FINDING_CAP_PERFMON, true, f);
	if (m->caps & LG_CAP_SYS_ADMIN)
		ADD(CAP_SYS_ADMIN, OK, "held");
	else
		ADD(CAP_SYS_ADMIN, NOTE, "this process has it not");
	if (m->serves_http && m->is_root && (~m->caps & (LG_CAP_SETUID | LG_CAP_SETGID)))
		ADD(CAP_SETUID, BLOCKER, "this process is root and has not both");
	if (m->in_user_namespace)
		ADD(USER_NAMESPACE, BLOCKER, "this process is in a user namespace");
	else
		ADD(USER_NAMESPACE, OK, "the initial one");
}

static bool has_caps(const struct lg_machine_facts *m)
{
	return (m->caps & (LG_CAP_BPF | LG_CAP_SYS_ADMIN)) && (m->caps & LG_CAP_NET_ADMIN) && (m->caps & (LG_CAP_PERFMON | LG_CAP_SYS_ADMIN));
}

static bool memlock_counts(const struct lg_machine_facts *m)
{
	return is_older(m, 5, 11);
}

/* Whether a refusal of bpf() is explained by what was found already. */
static bool is_explained(const struct lg_machine_facts *m)
{
	return !has_caps(m) || m->in_user_namespace || (memlock_counts(m) && m->memlock_bytes != LG_NO_BOUND);
}

static void judge_bpf(const struct lg_machine_facts *m, struct lg_findings *f)
{
	const char *filter = m->has_seccomp_filter ? "a seccomp filter is in force"
						   : "no seccomp filter is in force, so something else forbids it";

	if (m->bpf_error == LG_BPF_KILLED)
		ADD(SECCOMP, BLOCKER, "bpf() ends the process that calls it: %s", filter);
	else if (m->bpf_error == -ENOSYS && !m->has_seccomp_filter)
		ADD(BPF_SYSCALL, BLOCKER, "this kernel has no bpf()");
	else if (m->bpf_error && (m->bpf_error == -ENOSYS || !is_explained(m)))
		ADD(SECCOMP, BLOCKER, "bpf() is refused (%s): %s", strerror(-m->bpf_error), filter);
	else if (m->bpf_error == 0)
		ADD(BPF_SYSCALL, OK, "bpf() answers%s", m->has_seccomp_filter ? "; a seccomp filter is in force and lets it" : "");
}

static void judge_bpffs(const struct lg_machine_facts *m, struct lg_findings *f)
{
	if (strcmp(m->pins_on, "bpf") != 0)
		ADD(BPFFS, BLOCKER, "no bpf file system at %s: %s", m->pins_at, m->pins_on);
	else if (m->pins_read_only)
		ADD(BPFFS, BLOCKER, "the bpf file system at %s is mounted read-only", m->pins_at);
	else
		ADD(BPFFS, OK, "%s", m->pins_at);
}

static void judge_lockdown(const struct lg_machine_facts *m, struct lg_findings *f)
{
	if (m->lockdown[0] && strcmp(m->lockdown, "none") != 0)
		ADD(LOCKDOWN, NOTE, "in mode %s", m->lockdown);
	else
		ADD(LOCKDOWN, OK, "off");
}

static void judge_memlock(const struct lg_machine_facts *m, struct lg_findings *f)
{
	uint64_t need = lg_maps_bytes(m, false);
	char is[32], needed[32];

	if (!memlock_counts(m))
		ADD(MEMLOCK, OK, "does not count on this kernel");
	else if (m->memlock_bytes != LG_NO_BOUND && m->memlock_bytes < need)
		ADD(MEMLOCK, BLOCKER, "%s may be locked, and the tables take %s", size_text(m->memlock_bytes, is, sizeof(is)),
		    size_text(need, needed, sizeof(needed)));
	else
		ADD(MEMLOCK, OK, "large enough");
}

static void judge_room(enum lg_finding_id id, const char *what, uint64_t bytes, const struct lg_machine_facts *m, struct lg_findings *f)
{
	uint64_t at_start = lg_maps_bytes(m, false), full = lg_maps_bytes(m, true);
	char is[32], start_text[32], full_text[32];

	size_text(bytes, is, sizeof(is));
	size_text(at_start, start_text, sizeof(start_text));
	size_text(full, full_text, sizeof(full_text));
	if (bytes == LG_NO_BOUND)
		lg_finding_add(f, id, LG_SEVERITY_OK, MACHINE, "the tables take %s, full %s; no limit of %s is known", start_text, full_text,
			       what);
	else if (at_start > bytes)
		lg_finding_add(f, id, LG_SEVERITY_BLOCKER, MACHINE, "the tables take %s at once, more than %s, the limit of %s", start_text, is,
			       what);
	else if (full > bytes / 2)
		lg_finding_add(f, id, LG_SEVERITY_WARNING, MACHINE, "the tables take %s, full %s: more than half of %s, the limit of %s",
			       start_text, full_text, is, what);
	else
		lg_finding_add(f, id, LG_SEVERITY_OK, MACHINE, "the tables take %s, full %s; the limit of %s is %s", start_text, full_text,
			       what, is);
}

static void judge_memory(const struct lg_machine_facts *m, struct lg_findings *f)
{
	judge_memlock(m, f);
	judge_room(LG_FINDING_MEMORY, "available memory", m->available_bytes, m, f);
	if (!memlock_counts(m))
		judge_room(LG_FINDING_MEMORY_CGROUP, "the control group", m->cgroup_bytes, m, f);
}

static void judge_speed(const struct lg_machine_facts *m, struct lg_findings *f)
{
	if (m->jits == LG_NO)
		ADD(JIT, WARNING, "a program was loaded and not compiled");
	else
		ADD(JIT, OK, "%s", m->jits == LG_YES ? "programs are compiled" : "not known");
	if (m->jit_harden > 1)
		ADD(JIT_HARDEN, WARNING, "net.core.bpf_jit_harden is %d", m->jit_harden);
	else
		ADD(JIT_HARDEN, OK, "%s", m->jit_harden == 1 ? "for unprivileged users alone" : m->jit_harden ? "not known here"
													      : "off");
	if (m->bpf_stats > 0)
		ADD(BPF_STATS, WARNING, "kernel.bpf_stats_enabled is %d", m->bpf_stats);
	else
		ADD(BPF_STATS, OK, "off");
	if (m->has_btf)
		ADD(BTF, OK, "/sys/kernel/btf/vmlinux");
	else
		ADD(BTF, NOTE, "there is no /sys/kernel/btf/vmlinux");
}

static void judge_features(const struct lg_machine_facts *m, struct lg_findings *f)
{
	static const struct {
		const char *since, *what;
	} features[_LG_FEATURE_N] = {
#define LG_FEATURE(id, name, worst, since, what, why, action) { since, what },
#include "kern/findings.def"
	};
	char unknown[400] = "";

	for (int i = 0; i < _LG_FEATURE_N; i++) {
		enum lg_finding_id id = (enum lg_finding_id)i;
		size_t used = strlen(unknown);

		if (m->feature[i] == LG_YES)
			lg_finding_add(f, id, LG_SEVERITY_OK, MACHINE, "%s", features[i].what);
		else if (m->feature[i] == LG_NO)
			lg_finding_add(f, id, LG_SEVERITY_BLOCKER, MACHINE, "%s: this kernel has none of it; it came with %s", features[i].what,
				       features[i].since);
		else
			snprintf(unknown + used, sizeof(unknown) - used, "%s%s", used ? ", " : "", features[i].what);
	}
	if (unknown[0])
		ADD(NOT_LOOKED_AT, NOTE, "%s", unknown);
}

static void judge_programs(const struct lg_machine_facts *m, struct lg_findings *f)
{
	struct lg_finding *finding;

	if (m->loads == LG_YES) {
		ADD(PROGRAMS, OK, "the kernel takes them");
	} else if (m->loads == LG_NO) {
		finding = ADD(PROGRAMS, BLOCKER, "%s", m->load_why);
		finding->fail = m->load_fail;
	}
}

void lg_judge_machine(const struct lg_machine_facts *m, struct lg_findings *f)
{
	judge_kernel(m, f);
	judge_caps(m, f);
	judge_bpf(m, f);
	judge_bpffs(m, f);
	judge_memory(m, f);
	judge_lockdown(m, f);
	judge_speed(m, f);
	judge_features(m, f);
	judge_programs(m, f);
}

/* Maps of another build that enforce nothing are made anew; those that do are in the way of a start. */
void lg_judge_instance(const struct lg_instance_facts *i, struct lg_findings *f)
{
	enum lg_severity severity = i->n_links ? LG_SEVERITY_BLOCKER : LG_SEVERITY_NOTE;
	const char *hooks = i->n_links == 1 ? "hook" : "hooks";

	switch (i->pinned) {
	case LG_PINNED_NOT_KNOWN: break;
	case LG_PINNED_NOTHING: ADD(INSTANCE, OK, "%s: nothing of it is in the kernel", i->name); break;
	case LG_PINNED_OURS:
		ADD(INSTANCE, OK, "%s: in the kernel, attached at %u %s; a start takes it over", i->name, i->n_links, hooks);
		break;
	case LG_PINNED_MISFIT: lg_finding_add(f, LG_FINDING_INSTANCE, severity, MACHINE, "%s: %s", i->name, i->why); break;
	case LG_PINNED_OTHERS:
		lg_finding_add(f, LG_FINDING_INSTANCE, severity, MACHINE,
			       "%s: maps of ABI version %u, attached at %u %s; this build speaks version %d", i->name, i->other_abi,
			       i->n_links, hooks, LG_ABI_VERSION);
		break;
	}
}
