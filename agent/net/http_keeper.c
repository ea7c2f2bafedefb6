// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/http_keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/confine.h"
#include "net/http_child.h"

#define START_S 5
#define STOP_MS 2000

struct lg_http_keeper {
	pid_t pid;
	int fd;
};

enum order { ORDER_RUN = 1, ORDER_STOP, ORDER_STOP_AND_SAY };

union rights {
	struct cmsghdr head;
	char room[CMSG_SPACE(2 * sizeof(int))];
};

/* ---- the keeper itself ---- */

/* 0: its daemon is gone. Without descriptors both are -1. */
static int order_take(int fd, int fds[2])
{
	union rights rights;
	uint8_t order = 0;
	struct iovec iov = { &order, sizeof(order) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof(rights) };
	struct cmsghdr *head;
	ssize_t n;

	fds[0] = fds[1] = -1;
	do
		n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	head = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(2 * sizeof(int)))
		memcpy(fds, CMSG_DATA(head), 2 * sizeof(int));
	return n > 0 ? order : 0;
}

/* One that has ended by itself is there until it is waited for: no other can have its number. */
static void child_end(pid_t *pid)
{
	if (!*pid)
		return;
	kill(*pid, SIGKILL);
	while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	*pid = 0;
}

static pid_t child_run(const int fds[2])
{
	struct lg_http_hello hello = { .step = "making a process" };
	pid_t self = getpid(), pid = fork();

	if (pid == 0)
		lg_http_child_run(fds[0], fds[1], self);
	if (pid > 0)
		return pid;
	hello.error = -errno;
	(void)!send(fds[0], &hello, sizeof(hello), MSG_NOSIGNAL);
	return 0;
}

static _Noreturn void orders_follow(int fd)
{
	pid_t child = 0;
	int fds[2], order;

	while ((order = order_take(fd, fds))) {
		child_end(&child);
		if (order == ORDER_RUN && fds[0] >= 0)
			child = child_run(fds);
		for (size_t i = 0; i < 2; i++)
			if (fds[i] >= 0)
				close(fds[i]);
		if (order == ORDER_STOP_AND_SAY)
			(void)!send(fd, "", 1, MSG_NOSIGNAL);
	}
	child_end(&child);
	_exit(0);
}

static _Noreturn void keeper_run(int fd, pid_t parent)
{
	const char *step = "closing the descriptors of its parent";
	struct lg_http_hello hello = { 0 };

	hello.error = lg_confine_fds(&fd, 1);
	if (hello.error == 0) {
		fd = 3;
		hello.error = lg_confine(parent, LG_HTTP_FDS_MAX, true, &step);
	}
	snprintf(hello.step, sizeof(hello.step), "%s", step);
	if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) || hello.error)
		_exit(1);
	orders_follow(fd);
}

/* ---- the daemon's end ---- */

/* Signals wait until the child has got rid of the parent's handlers. */
static pid_t keeper_fork(int fd)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;
	int error;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		keeper_run(fd, parent);
	error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pid < 0 ? -error : pid;
}

static int start_fails(struct lg_complaint *c, const char *step, int err)
{
	lg_complain(c, "the process for HTTP did not start: %s: %s", step, strerror(-err));
	return err;
}

/* What keeps it from being confined is an error at start and not a loop of restarts. */
static int await_hello(const struct lg_http_keeper *keeper, struct lg_complaint *c)
{
	const struct timeval patience = { .tv_sec = START_S };
	struct lg_http_hello hello = { 0 };

	if (setsockopt(keeper->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return start_fails(c, "talking to it", -errno);
	if (recv(keeper->fd, &hello, sizeof(hello), 0) != (ssize_t)sizeof(hello))
		return start_fails(c, "waiting for its first word", -EPIPE);
	hello.step[sizeof(hello.step) - 1] = '\0';
	return hello.error < 0 ? start_fails(c, hello.step, hello.error) : 0;
}

int lg_http_keeper_start(struct lg_http_keeper **ret_keeper, struct lg_complaint *c)
{
	_cleanup_(lg_http_keeper_free) struct lg_http_keeper *keeper = calloc(1, sizeof(*keeper));
	int pair[2], r;

	if (!keeper)
		return start_fails(c, "making it", -ENOMEM);
	keeper->fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return start_fails(c, "making it", -errno);
	keeper->fd = pair[0];
	r = keeper_fork(pair[1]);
	close(pair[1]);
	if (r < 0)
		return start_fails(c, "making it", r);
	keeper->pid = r;
	r = await_hello(keeper, c);
	if (r < 0)
		return r;
	*ret_keeper = TAKE(keeper);
	return 0;
}

/* It ends when it finds that we have hung up. A daemon that dropped its privileges may not kill it, and does not wait for ever. */
struct lg_http_keeper *lg_http_keeper_free(struct lg_http_keeper *keeper)
{
	struct pollfd end;

	if (!keeper)
		return NULL;
	if (keeper->fd >= 0)
		close(keeper->fd);
	if (keeper->pid > 0) {
		end = (struct pollfd){ .fd = pidfd_open(keeper->pid, 0), .events = POLLIN };
		if (end.fd >= 0) {
			poll(&end, 1, STOP_MS);
			close(end.fd);
		}
		waitpid(keeper->pid, NULL, WNOHANG);
	}
	free(keeper);
	return NULL;
}

static int order_give(const struct lg_http_keeper *keeper, enum order order, const int *fds)
{
	uint8_t byte = (uint8_t)order;
	struct iovec iov = { &byte, sizeof(byte) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union rights rights = { 0 };

	if (fds) {
		msg.msg_control = &rights;
		msg.msg_controllen = sizeof(rights);
		rights.head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int)) };
		memcpy(CMSG_DATA(&rights.head), fds, 2 * sizeof(int));
	}
	return sendmsg(keeper->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int lg_http_keeper_run(struct lg_http_keeper *keeper, int pair, int listener)
{
	const int fds[2] = { pair, listener };

	return order_give(keeper, ORDER_RUN, fds);
}

void lg_http_keeper_stop(struct lg_http_keeper *keeper, bool wait)
{
	struct pollfd said = { .fd = keeper->fd, .events = POLLIN };
	char byte;

	if (order_give(keeper, wait ? ORDER_STOP_AND_SAY : ORDER_STOP, NULL) == 0 && wait && poll(&said, 1, STOP_MS) == 1)
		(void)!recv(keeper->fd, &byte, sizeof(byte), MSG_DONTWAIT);
}
