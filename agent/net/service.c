// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "loop/loop.h"

#define LINES_LEN 1024
#define NS_PER_US ((uint64_t)1000)
#define US_PER_S  ((uint64_t)1000000)

static struct {
	int fd;			/* connected to the manager */
	bool is_there;
	bool is_ready;
	uint64_t wait_ns;	/* of the manager for a sign of life; 0: it does not wait */
} manager;

/* What is lost is lost: a manager that hears nothing goes by its own timeouts. */
static void tell(const char *lines)
{
	if (manager.is_there)
		(void)!send(manager.fd, lines, strlen(lines), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A path, or behind '@' a name that is in no folder. */
static int address_parse(const char *text, struct sockaddr_un *ret, socklen_t *ret_len)
{
	size_t len = strlen(text);

	if ((text[0] != '/' && text[0] != '@') || len < 2 || len >= sizeof(ret->sun_path))
		return -EINVAL;
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(ret->sun_path, text, len);
	if (text[0] == '@')
		ret->sun_path[0] = '\0';
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (text[0] == '/'));
	return 0;
}

static int manager_connect(const char *text, int *ret_fd)
{
	struct sockaddr_un address;
	_cleanup_fd_ int fd = -1;
	socklen_t len;
	int r;

	r = address_parse(text, &address, &len);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, len) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* How long the manager waits, if it is this process that it waits for. */
static uint64_t wait_read(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	struct lg_complaint unused;
	uint64_t n;

	if (!usec || lg_num_parse(usec, 2, UINT64_MAX / NS_PER_US, &n, &unused) < 0)
		return 0;
	if (pid && (uint64_t)strtoul(pid, NULL, 10) != (uint64_t)getpid())
		return 0;
	return n * NS_PER_US;
}

int lg_service_begin(struct lg_complaint *c)
{
	const char *text = getenv("NOTIFY_SOCKET");
	int r = 0;

	if (text && text[0]) {
		r = manager_connect(text, &manager.fd);
		manager.is_there = r == 0;
		manager.wait_ns = r == 0 ? wait_read() : 0;
	}
	if (r < 0)
		lg_complain(c, "NOTIFY_SOCKET: the service manager cannot be told of anything: %s: %s", text, strerror(-r));
	unsetenv("NOTIFY_SOCKET");
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	return r;
}

void lg_service_ready(void)
{
	if (manager.is_ready)
		return;
	manager.is_ready = true;
	tell("READY=1");
}

void lg_service_reloading(void)
{
	struct timespec now;
	char lines[64];
	uint64_t now_us;

	manager.is_ready = false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	now_us = (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_nsec / NS_PER_US;
	snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, now_us);
	tell(lines);
}

void lg_service_stopping(void)
{
	tell("STOPPING=1");
}

void lg_service_status(const char *text)
{
	char lines[LINES_LEN];

	snprintf(lines, sizeof(lines), "STATUS=%s", text);
	lines[strcspn(lines, "\n")] = '\0';
	tell(lines);
}

static void alive(void *arg)
{
	(void)arg;
	tell("WATCHDOG=1");
}

int lg_service_watch(struct lg_loop *loop, struct lg_source **ret_source)
{
	if (!manager.is_there || !manager.wait_ns) {
		*ret_source = NULL;
		return 0;
	}
	alive(NULL);
	return lg_loop_add_ticker(loop, manager.wait_ns / 2, alive, NULL, ret_source);
}

void lg_service_end(void)
{
	if (manager.is_there)
		close(manager.fd);
	memset(&manager, 0, sizeof(manager));
}
