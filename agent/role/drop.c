// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/drop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "net/address.h"
#include "net/confine.h"
#include "net/syscalls.h"

#define NAMES_LEN 128
#define WANTED_MAX 4

/* ---- capabilities ---- */

static bool shares_xdp(const struct lg_config *config)
{
	for (size_t i = 0; i < config->n_interfaces; i++)
		if (config->interfaces[i].shared && config->interfaces[i].xdp != LG_XDP_OFF)
			return true;
	return false;
}

static bool is_low_port(const char *address)
{
	struct lg_complaint c;
	struct lg_address a;

	return address[0] && lg_address_parse(address, true, &a, &c) == 0 && a.port && a.port < IPPORT_RESERVED;
}

static bool has(cap_t caps, cap_value_t cap)
{
	cap_flag_value_t value = CAP_CLEAR;

	return cap_get_flag(caps, cap, CAP_PERMITTED, &value) == 0 && value == CAP_SET;
}

/* What the role needs later. Where CAP_SYS_ADMIN stands in for CAP_BPF there is nothing less to keep. */
static size_t wanted(const struct lg_config *config, enum lg_config_role role, cap_t had, cap_value_t ret[WANTED_MAX])
{
	size_t n = 0;

	if (role == LG_CONFIG_REGION) {
		if (is_low_port(config->listen) || is_low_port(config->metrics))
			ret[n++] = CAP_NET_BIND_SERVICE;
		return n;
	}
	ret[n++] = CAP_NET_ADMIN;
	ret[n++] = CAP_BPF;
	if (shares_xdp(config))
		ret[n++] = CAP_PERFMON;
	if (shares_xdp(config) || !has(had, CAP_BPF))
		ret[n++] = CAP_SYS_ADMIN;
	return n;
}

static int keep_add(cap_t keep, cap_value_t cap, char names[NAMES_LEN])
{
	size_t used = strlen(names);
	char *name = cap_to_name(cap);

	snprintf(names + used, NAMES_LEN - used, "%s%s", used ? ", " : "", name ? name : "?");
	cap_free(name);
	return cap_set_flag(keep, CAP_PERMITTED, 1, &cap, CAP_SET) < 0 || cap_set_flag(keep, CAP_EFFECTIVE, 1, &cap, CAP_SET) < 0 ? -errno : 0;
}

static int capabilities_drop(const struct lg_config *config, enum lg_config_role role, char names[NAMES_LEN])
{
	cap_t had = cap_get_proc(), keep = cap_init();
	int r = had && keep ? 0 : -ENOMEM;
	cap_value_t want[WANTED_MAX];
	size_t n = r == 0 ? wanted(config, role, had, want) : 0;

	names[0] = '\0';
	for (size_t i = 0; r == 0 && i < n; i++)
		if (has(had, want[i]))
			r = keep_add(keep, want[i], names);
	if (r == 0 && (cap_set_proc(keep) < 0 || cap_reset_ambient() < 0))
		r = -errno;
	cap_free(had);
	cap_free(keep);
	return r;
}

/* ---- what the process can do to itself, and others to it ---- */

static int seal(void)
{
	const struct rlimit none = { 0, 0 };

	/* A core dump has the key of our certificate in it; ptrace and /proc/PID/mem show it to whoever has our user. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
		return -errno;
	return 0;
}

/* ---- system calls ---- */

static size_t put(char *buf, size_t at, size_t len, const char *text)
{
	for (; *text && at < len; text++)
		buf[at++] = *text;
	return at;
}

/* In a signal's handler: no printf() here. */
static void on_refused(int number, const char *name, bool ends)
{
	char digits[12], text[256];
	size_t n = sizeof(digits), at;
	unsigned rest = number < 0 ? 0 : (unsigned)number;

	digits[--n] = '\0';
	do
		digits[--n] = (char)('0' + rest % 10);
	while ((rest /= 10) && n);
	at = put(text, 0, sizeof(text), "leasegated: error: system call ");
	at = put(text, at, sizeof(text), digits + n);
	at = put(text, at, sizeof(text), " (");
	at = put(text, at, sizeof(text), name);
	at = put(text, at, sizeof(text), ends ? ") is none that this daemon makes: it has been taken over or changed, and ends\n" :
						") is not on the list of those that this daemon makes: refused\n");
	(void)!write(STDERR_FILENO, text, at);
}

/* ---- all of it ---- */

static void look(const char *const *paths, size_t n, int mode, const char *what)
{
	for (size_t i = 0; i < n && paths[i]; i++)
		if (paths[i][0] && faccessat(AT_FDCWD, paths[i], mode, AT_EACCESS) < 0)
			lg_warn("%s: %s, now that this process has no more privileges than it needs: %s; give it to the user that runs "
				"leasegated",
				paths[i], what, strerror(errno));
}

int lg_drop(const struct lg_config *config, enum lg_config_role role, const struct lg_drop_paths *paths, struct lg_complaint *c)
{
	const char *step = "emptying the bounding set of capabilities";
	char names[NAMES_LEN];
	int r;

	r = lg_confine_bounding_set();
	if (r == 0) {
		step = "giving up capabilities";
		r = capabilities_drop(config, role, names);
	}
	if (r == 0) {
		step = "sealing the process";
		r = seal();
	}
	if (r == 0) {
		step = "filtering system calls";
		r = lg_syscalls_confine(role == LG_CONFIG_NODE ? LG_SYSCALLS_NODE : LG_SYSCALLS_REGION, on_refused);
	}
	if (r < 0) {
		lg_complain(c, "cannot drop privileges: %s: %s", step, strerror(-r));
		return r;
	}
	lg_info("privileges dropped: keeps %s%s", names[0] ? names : "no capability", lg_syscalls_filtered() ? "" : ", and all system calls");
	look(paths->read, N_ELEMS(paths->read), R_OK, "cannot be read again");
	look(paths->write, N_ELEMS(paths->write), R_OK | W_OK | X_OK, "cannot be written any more");
	return 0;
}
