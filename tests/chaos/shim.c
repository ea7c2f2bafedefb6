// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Preloaded into a daemon: its wall clock may be set and its disk may be slow, at any time. Both are words of the file $CHAOS_SHIM. All other
 * clocks are the kernel's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL

struct words {
	int64_t clock_offset_ns; /* of the wall clock */
	uint64_t sync_delay_ms;	 /* before each fsync() and fdatasync() */
};

static const struct words nothing;
static const volatile struct words *words = &nothing;
static int (*real_clock_gettime)(clockid_t clock, struct timespec *ts);
static int (*real_fsync)(int fd);
static int (*real_fdatasync)(int fd);

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("CHAOS_SHIM");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *p = fd >= 0 ? mmap(NULL, sizeof(*words), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	if (fd >= 0)
		close(fd);
	if (p != MAP_FAILED)
		words = p;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	int r = real_clock_gettime ? real_clock_gettime(clock, ts) : (int)syscall(SYS_clock_gettime, clock, ts);
	int64_t ns;

	if (r || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return r;
	ns = ts->tv_sec * NS_PER_S + ts->tv_nsec + words->clock_offset_ns;
	ts->tv_sec = ns / NS_PER_S;
	ts->tv_nsec = ns % NS_PER_S;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret_s)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret_s)
		*ret_s = ts.tv_sec;
	return ts.tv_sec;
}

static void wait_for_the_disk(void)
{
	uint64_t ms = words->sync_delay_ms;

	if (ms)
		poll(NULL, 0, (int)ms);
}

int fsync(int fd)
{
	wait_for_the_disk();
	return real_fsync(fd);
}

int fdatasync(int fd)
{
	wait_for_the_disk();
	return real_fdatasync(fd);
}
