// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/mem.h"

#define NOBODY 65534
#define KEEP_MAX 8
#define PARKED 64 /* above every number that is given out below */

/* Handlers of the parent would write to descriptors that are other things here. A terminal's ^C and a service manager's SIGTERM go to
 * the whole group; this process ends when its parent does and not before. */
static void reset_signals(void)
{
	const struct sigaction fallback = { .sa_handler = SIG_DFL }, ignore = { .sa_handler = SIG_IGN };
	static const int ignored[] = { SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &fallback, NULL);
	for (size_t i = 0; i < N_ELEMS(ignored); i++)
		sigaction(ignored[i], &ignore, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Standard descriptors are kept occupied: whoever writes a warning to 2 must not write it to a client. */
int lg_confine_fds(const int *fds, unsigned int n)
{
	int parked[KEEP_MAX], null;

	reset_signals();
	if (n > KEEP_MAX)
		return -EINVAL;
	for (unsigned int i = 0; i < n; i++) {
		parked[i] = fcntl(fds[i], F_DUPFD, PARKED);
		if (parked[i] < 0)
			return -errno;
	}
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -errno;
	null = fcntl(null, F_DUPFD, PARKED);
	if (null < 0)
		return -errno;
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return -errno;
	for (unsigned int i = 0; i < n; i++)
		if (dup2(parked[i], 3 + (int)i) < 0)
			return -errno;
	return close_range(3 + n, ~0u, 0) < 0 ? -errno : 0;
}

int lg_confine_bounding_set(void)
{
	for (cap_value_t cap = 0; cap_get_bound(cap) >= 0; cap++)
		if (cap_drop_bound(cap) < 0 && errno != EPERM)
			return -errno;
	return 0;
}

static int become_nobody(void)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
		return -errno;
	return 0;
}

static int drop_capabilities(void)
{
	cap_t none = cap_init();
	int r = 0;

	if (!none)
		return -ENOMEM;
	if (cap_set_proc(none) < 0 || cap_reset_ambient() < 0)
		r = -errno;
	cap_free(none);
	return r;
}

static int set_limits(unsigned int fds_max, bool may_fork)
{
	const struct rlimit zero = { 0, 0 }, fds = { fds_max, fds_max };

	if (setrlimit(RLIMIT_NOFILE, &fds) < 0 || setrlimit(RLIMIT_CORE, &zero) < 0 || setrlimit(RLIMIT_FSIZE, &zero) < 0)
		return -errno;
	if (!may_fork && setrlimit(RLIMIT_NPROC, &zero) < 0)
		return -errno;
	return 0;
}

/* After the change of user, which clears both. */
static int seal(pid_t parent)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return -errno;
	/* It may have died before the line above. */
	return getppid() == parent ? 0 : -ESRCH;
}

int lg_confine(pid_t parent, unsigned int fds_max, bool may_fork, const char **ret_step)
{
	int r;

	*ret_step = "dropping the capability bounding set";
	r = lg_confine_bounding_set();
	if (r < 0)
		return r;
	*ret_step = "becoming nobody (this needs CAP_SETUID and CAP_SETGID)";
	r = become_nobody();
	if (r < 0)
		return r;
	*ret_step = "dropping capabilities";
	r = drop_capabilities();
	if (r < 0)
		return r;
	*ret_step = "setting resource limits";
	r = set_limits(fds_max, may_fork);
	if (r < 0)
		return r;
	*ret_step = "sealing itself";
	return seal(parent);
}
