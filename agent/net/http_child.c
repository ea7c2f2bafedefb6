// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The child is synchronous towards its parent: it asks and waits, a few milliseconds, for one answer. Its own clients wait with it; they
 * are scrapers and people. In return no request can vanish while its answer is on the way.
 *
 * It runs in the memory of the parent as of the fork, with an event base of its own; it must neither run the parent's events nor flush
 * its stdio buffers, so it leaves by _exit() alone.
 */
#include "net/http_child.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/confine.h"
#include "net/syscalls.h"

#define HEADERS_BYTES_MAX 8192
#define BODY_BYTES_MAX 4096		/* bodies are read and thrown away, so that their sender gets to see the 405 */
#define SILENCE_S 10			/* a connection on which nothing moves */
#define AGE_MAX_S 60			/* any connection: one that trickles bytes must not hold its place for ever */

struct child {
	int pair;
	int listen_fd;
	struct event_base *base;
	struct evhttp *http;
	struct evconnlistener *listener;
	struct {
		uint64_t cookie;	/* which socket has this number: the kernel never uses a cookie twice */
		uint32_t age_s;
	} sockets[LG_HTTP_FDS_MAX];
};

static void read_all(int fd, void *buf, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = recv(fd, (char *)buf + done, len - done, 0);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			_exit(1);	/* the parent is gone, or hung: there is nothing to serve */
	}
}

static void write_all(int fd, const void *buf, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = send(fd, (const char *)buf + done, len - done, MSG_NOSIGNAL);

		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			_exit(1);
	}
}

static void send_error(struct evhttp_request *req, int status)
{
	if (status == 405)
		evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", "GET, HEAD");
	evhttp_send_reply(req, status, NULL, NULL);
}

static void send_answer(struct evhttp_request *req, bool is_head, const struct lg_http_answer *answer, const char *type,
			struct evbuffer *body)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	char length[16];

	snprintf(length, sizeof(length), "%u", answer->body_len);
	evhttp_add_header(headers, "Content-Length", length);
	if (type[0])
		evhttp_add_header(headers, "Content-Type", type);
	evhttp_add_header(headers, "Cache-Control", "no-store");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	evhttp_send_reply(req, (int)answer->status, NULL, is_head ? NULL : body);
}

static void read_body(int fd, struct evbuffer *body, size_t len)
{
	struct evbuffer_iovec room;

	if (!len)
		return;
	if (evbuffer_reserve_space(body, (ev_ssize_t)len, &room, 1) < 1)
		_exit(1);
	read_all(fd, room.iov_base, len);
	room.iov_len = len;
	evbuffer_commit_space(body, &room, 1);
}

static void ask(struct child *child, struct evhttp_request *req, bool is_head, const char *path, size_t path_len)
{
	const struct lg_http_question question = { .is_head = is_head, .path_len = (uint32_t)path_len };
	char type[LG_HTTP_TYPE_MAX + 1];
	struct lg_http_answer answer;
	struct evbuffer *body;

	body = evbuffer_new();
	if (!body) {
		send_error(req, 503);
		return;
	}
	write_all(child->pair, &question, sizeof(question));
	write_all(child->pair, path, path_len);
	read_all(child->pair, &answer, sizeof(answer));
	if (answer.type_len > LG_HTTP_TYPE_MAX || answer.body_len > LG_HTTP_BODY_MAX)
		_exit(1);
	read_all(child->pair, type, answer.type_len);
	type[answer.type_len] = '\0';
	read_body(child->pair, body, answer.body_len);
	send_answer(req, is_head, &answer, type, body);
	evbuffer_free(body);
}

static bool is_printable(const char *path)
{
	for (; *path; path++)
		if (*path < 0x21 || *path > 0x7e)
			return false;
	return true;
}

static void on_request(struct evhttp_request *req, void *arg)
{
	enum evhttp_cmd_type method = evhttp_request_get_command(req);
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	size_t len;

	if (!path || !path[0])
		path = "/";
	len = strlen(path);
	if (method != EVHTTP_REQ_GET && method != EVHTTP_REQ_HEAD)
		send_error(req, 405);
	else if (len > LG_HTTP_PATH_MAX)
		send_error(req, 414);
	else if (path[0] != '/' || !is_printable(path))
		send_error(req, 400);
	else
		ask(arg, req, method == EVHTTP_REQ_HEAD, path, len);
}

/* Outside of a question the parent says nothing: this is its end. */
static void on_pair(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	_exit(0);
}

/* Most likely out of descriptors: every place is taken. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	(void)arg;
	evconnlistener_disable(listener);
}

static void on_second(evutil_socket_t unused, short what, void *arg)
{
	struct child *child = arg;

	(void)unused;
	(void)what;
	for (int fd = child->listen_fd + 1; fd < LG_HTTP_FDS_MAX; fd++) {
		socklen_t len = sizeof(uint64_t);
		uint64_t cookie = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) < 0)
			cookie = 0;
		if (cookie != child->sockets[fd].cookie)
			child->sockets[fd].age_s = 0;
		child->sockets[fd].cookie = cookie;
		/* evhttp sees the end of it and frees the connection. */
		if (cookie && child->sockets[fd].age_s++ >= AGE_MAX_S)
			shutdown(fd, SHUT_RDWR);
	}
	evconnlistener_enable(child->listener);
}

static int open_http(struct child *child)
{
	struct evhttp_bound_socket *bound;

	child->http = evhttp_new(child->base);
	if (!child->http)
		return -ENOMEM;
	evhttp_set_allowed_methods(child->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
							EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_TRACE |
							EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
	evhttp_set_max_headers_size(child->http, HEADERS_BYTES_MAX);
	evhttp_set_max_body_size(child->http, BODY_BYTES_MAX);
	evhttp_set_timeout(child->http, SILENCE_S);
	evhttp_set_gencb(child->http, on_request, child);
	bound = evhttp_accept_socket_with_handle(child->http, child->listen_fd);
	if (!bound)
		return -ENOMEM;
	child->listener = evhttp_bound_socket_get_listener(bound);
	evconnlistener_set_error_cb(child->listener, on_accept_error);
	return 0;
}

static int open_child(struct child *child)
{
	const struct timeval second = { .tv_sec = 1 }, patience = { .tv_sec = LG_HTTP_ANSWER_MS / 1000 };
	struct event *pair, *ticker;

	child->base = event_base_new();
	if (!child->base)
		return -ENOMEM;
	pair = event_new(child->base, child->pair, EV_READ | EV_PERSIST, on_pair, child);
	ticker = event_new(child->base, -1, EV_PERSIST, on_second, child);
	if (!pair || !ticker || event_add(pair, NULL) < 0 || event_add(ticker, &second) < 0)
		return -ENOMEM;
	if (setsockopt(child->pair, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(child->pair, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	return open_http(child);
}

/* In a signal's handler. Its standard error leads nowhere: the parent is told, once it can make no difference to what is being said. */
static void on_refused_call(int number, const char *name, bool ends)
{
	const struct lg_http_question last = { .is_head = LG_HTTP_REFUSED, .path_len = (uint32_t)number };

	(void)name;
	if (ends)
		write_all(3, &last, sizeof(last));
}

_Noreturn void lg_http_child_run(int pair, int listener, pid_t parent)
{
	static struct child child;
	const int fds[] = { pair, listener };
	const char *step = "closing the descriptors of its parent";
	struct lg_http_hello hello = { 0 };

	child.pair = pair;
	hello.error = lg_confine_fds(fds, N_ELEMS(fds));
	if (hello.error == 0) {
		child.pair = 3;
		child.listen_fd = 4;
		hello.error = lg_confine(parent, LG_HTTP_FDS_MAX, false, &step);
	}
	if (hello.error == 0) {
		step = "opening its event base";
		hello.error = open_child(&child);
	}
	if (hello.error == 0) {
		step = "filtering its system calls";
		tzset(); /* reads a file, and answers have a date */
		hello.error = lg_syscalls_confine(LG_SYSCALLS_HTTP, on_refused_call);
	}
	hello.pid = getpid();
	snprintf(hello.step, sizeof(hello.step), "%s", step);
	write_all(child.pair, &hello, sizeof(hello));
	if (hello.error == 0)
		event_base_dispatch(child.base);
	_exit(1);
}
