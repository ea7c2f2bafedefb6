// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "api/admin.h"
#include "base/clock.h"
#include "base/text.h"

#define REPLY_BYTES_MAX (256u << 20) /* lists of keys are long */

/* Waits until fd is ready for `events` or the time is up. */
static int await(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now_ns = lg_clock_now_ns();
		int n;

		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)((deadline_ns - now_ns + LG_NS_PER_MS - 1) / LG_NS_PER_MS));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

/* A full backlog says EAGAIN and cannot be polled for. */
static int connect_to(const char *path, uint64_t deadline_ns, int *ret_fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	_cleanup_fd_ int fd = -1;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	memcpy(sa.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	while (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0) {
		if (errno != EAGAIN)
			return -errno;
		if (lg_clock_now_ns() >= deadline_ns)
			return -ETIMEDOUT;
		poll(NULL, 0, 10);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int send_line(int fd, const char *line, size_t len, uint64_t deadline_ns)
{
	while (len) {
		ssize_t n = send(fd, line, len, MSG_NOSIGNAL);
		int r;

		if (n >= 0) {
			line += n;
			len -= (size_t)n;
			continue;
		}
		/* The daemon may have refused us, with a reason: that is to be read. */
		if (errno == EPIPE)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = await(fd, POLLOUT, deadline_ns);
		if (r < 0)
			return r;
	}
	return 0;
}

static int receive_line(int fd, struct lg_text *line, uint64_t deadline_ns)
{
	char buf[16384];

	while (!line->len || line->s[line->len - 1] != '\n') {
		ssize_t n;
		int r;

		r = await(fd, POLLIN, deadline_ns);
		if (r < 0)
			return r;
		n = recv(fd, buf, sizeof(buf), 0);
		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n < 0)
			continue;
		lg_text_add(line, buf, (size_t)n);
		if (!lg_text_ok(line))
			return -ENOMEM;
		if (line->len > REPLY_BYTES_MAX)
			return -EMSGSIZE;
	}
	return 0;
}

static int exchange(const char *path, const json_t *request, unsigned timeout_ms, struct lg_text *line)
{
	uint64_t deadline_ns = lg_clock_now_ns() + timeout_ms * LG_NS_PER_MS;
	_cleanup_free_ char *text = NULL;
	_cleanup_fd_ int fd = -1;
	int r;

	text = json_dumps(request, JSON_COMPACT);
	if (!text)
		return -ENOMEM;
	r = connect_to(path, deadline_ns, &fd);
	if (r == 0)
		r = send_line(fd, text, strlen(text), deadline_ns);
	if (r == 0)
		r = send_line(fd, "\n", 1, deadline_ns);
	return r < 0 ? r : receive_line(fd, line, deadline_ns);
}

static int call_complain(const char *path, unsigned timeout_ms, int r, struct lg_complaint *c)
{
	if (r == -ENOENT || r == -ECONNREFUSED)
		lg_complain(c, "no daemon listens on %s", path);
	else if (r == -EACCES || r == -EPERM)
		lg_complain(c, "%s: only root and the daemon's user may ask", path);
	else if (r == -ETIMEDOUT)
		lg_complain(c, "the daemon on %s gave no answer within %u ms", path, timeout_ms);
	else if (r == -EPIPE || r == -ECONNRESET)
		lg_complain(c, "the daemon on %s closed the connection without an answer", path);
	else
		lg_complain(c, "cannot ask the daemon on %s: %s", path, strerror(-r));
	return r;
}

int lg_admin_call(const char *path, const json_t *request, unsigned timeout_ms, json_t **ret_reply, struct lg_complaint *c)
{
	_cleanup_text_ struct lg_text line = { 0 };
	json_error_t error;
	json_t *reply;
	int r;

	r = exchange(path, request, timeout_ms, &line);
	if (r < 0)
		return call_complain(path, timeout_ms, r, c);
	reply = json_loadb(line.s, line.len, 0, &error);
	if (!json_is_object(reply)) {
		json_decref(reply);
		lg_complain(c, "the daemon on %s answered with something that is no JSON object", path);
		return -EPROTO;
	}
	*ret_reply = reply;
	return 0;
}
