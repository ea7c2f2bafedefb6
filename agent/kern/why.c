// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Why the kernel said no. EPERM from bpf() has many causes that look alike: a capability, a user namespace, the memlock
 * limit of old kernels, a filter of the container's manager. What the process has is asked for, and the first cause
 * that holds is named.
 */
#include "kern/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>
#include <sys/utsname.h>

struct need {
	cap_value_t cap;
	const char *name;
	bool sys_admin_will_do;
};

static const struct need need_bpf = { CAP_BPF, "CAP_BPF", true };
static const struct need need_net_admin = { CAP_NET_ADMIN, "CAP_NET_ADMIN", false };
static const struct need need_perfmon = { CAP_PERFMON, "CAP_PERFMON", true };

static bool has_cap(cap_t caps, cap_value_t cap)
{
	cap_flag_value_t value = CAP_CLEAR;

	return cap_get_flag(caps, cap, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
}

/* Names of the needed capabilities that the process has not; the number of them. */
static int missing_caps(const struct need *const *needs, size_t n, char *buf, size_t len)
{
	cap_t caps = cap_get_proc();
	int n_missing = 0;

	buf[0] = '\0';
	if (!caps)
		return 0;
	for (size_t i = 0; i < n; i++) {
		size_t used = strlen(buf);

		if (has_cap(caps, needs[i]->cap) || (needs[i]->sys_admin_will_do && has_cap(caps, CAP_SYS_ADMIN)))
			continue;
		snprintf(buf + used, len - used, "%s%s", n_missing ? ", " : "", needs[i]->name);
		n_missing++;
	}
	cap_free(caps);
	return n_missing;
}

bool lg_in_user_namespace(void)
{
	unsigned long inside, outside, count;
	FILE *f = fopen("/proc/self/uid_map", "re");
	bool mapped;

	if (!f)
		return false;
	mapped = fscanf(f, "%lu %lu %lu", &inside, &outside, &count) == 3 &&
		 (inside != 0 || outside != 0 || count != 4294967295ul);
	fclose(f);
	return mapped;
}

/* Before 5.11 map memory counts against RLIMIT_MEMLOCK; true with the limit when it does and is small. */
static bool memlock_counts(unsigned long long *ret_kib)
{
	unsigned int major, minor;
	struct utsname u;
	struct rlimit lim;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return false;
	if (major > 5 || (major == 5 && minor >= 11))
		return false;
	if (getrlimit(RLIMIT_MEMLOCK, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY)
		return false;
	*ret_kib = lim.rlim_cur / 1024;
	return true;
}

static enum lg_kern_fail why_privilege(enum lg_why_what what, const char *object, int err, struct lg_complaint *c)
{
	static const struct need *const for_load[] = { &need_bpf, &need_net_admin, &need_perfmon };
	static const struct need *const for_attach[] = { &need_net_admin, &need_bpf };
	static const struct need *const for_pin[] = { &need_bpf };
	unsigned long long kib;
	char names[64] = "";
	int n = 0;

	switch (what) {
	case LG_WHY_LOAD: n = missing_caps(for_load, N_ELEMS(for_load), names, sizeof(names)); break;
	case LG_WHY_ATTACH: n = missing_caps(for_attach, N_ELEMS(for_attach), names, sizeof(names)); break;
	case LG_WHY_PIN: n = missing_caps(for_pin, N_ELEMS(for_pin), names, sizeof(names)); break;
	}
	if (n)
		lg_complain(c, "%s: %s: missing %s; run as root or give the process the capabilit%s", object,
			    strerror(-err), names, n > 1 ? "ies" : "y");
	else if (lg_in_user_namespace())
		lg_complain(c,
			    "%s: %s: the process is in a user namespace, whose capabilities the kernel does not accept "
			    "here; run it in the initial one",
			    object, strerror(-err));
	else if (memlock_counts(&kib))
		lg_complain(c,
			    "%s: %s: the memlock limit of %llu KiB is too small for the maps on this kernel; raise it "
			    "(ulimit -l unlimited, LimitMEMLOCK=infinity)",
			    object, strerror(-err), kib);
	else
		lg_complain(c, "%s: %s although no capability is missing: %s", object, strerror(-err),
			    lg_has_seccomp_filter() ? "a seccomp filter is in force and forbids it, unless a security module does; allow bpf() "
						      "where the service is confined (SystemCallFilter=, a container's profile)"
						    : "a container's policy, a security module or the file's owner forbids it");
	return LG_KERN_PRIVILEGE;
}

/* The verifier says EACCES for what only CAP_PERFMON allows, and for programs that it cannot follow at all. */
static bool perfmon_is_missing(void)
{
	static const struct need *const needs[] = { &need_perfmon };
	char names[32];

	return missing_caps(needs, N_ELEMS(needs), names, sizeof(names)) > 0;
}

static enum lg_kern_fail why_feature(const char *object, int err, const struct lg_print *print, struct lg_complaint *c)
{
	const char *said = print && print->kernel[0] ? print->kernel : print ? print->verifier : "";
	const char *first = print ? print->first : "";
	struct utsname u = { 0 };

	uname(&u);
	lg_complain(c, "%s: %s: kernel %s cannot do it%s%s%s%s%s", object, strerror(-err), u.release,
		    first[0] ? ": " : "", first, said[0] ? " (" : "", said, said[0] ? ")" : "");
	return LG_KERN_FEATURE;
}

enum lg_kern_fail lg_why(enum lg_why_what what, const char *object, int err, const struct lg_print *print,
			 struct lg_complaint *c)
{
	bool by_verifier = print && print->verifier[0];

	switch (-err) {
	case EPERM:
		return why_privilege(what, object, err, c);
	case EACCES:
		if (by_verifier && !perfmon_is_missing())
			return why_feature(object, err, print, c);
		return why_privilege(what, object, err, c);
	case ENOSYS:
		/* Filters of containers answer so, too. */
		return lg_has_seccomp_filter() ? why_privilege(what, object, err, c) : why_feature(object, err, print, c);
	case EINVAL:
	case EOPNOTSUPP:
	case 524: /* ENOTSUPP, which the kernel should keep to itself and does not */
	case E2BIG:
	case ENOSPC:
	case ERANGE:
		return why_feature(object, err, print, c);
	case EMEDIUMTYPE:
		lg_complain(c, "%s: what is pinned in its place is no link of leasegate's: `leasegate detach` clears it",
			    object);
		return LG_KERN_REFUSED;
	default:
		lg_complain(c, "%s: %s%s%s%s", object, strerror(-err), print && print->first[0] ? " (" : "",
			    print ? print->first : "", print && print->first[0] ? ")" : "");
		return LG_KERN_REFUSED;
	}
}
