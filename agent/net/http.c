// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/http.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "net/address.h"
#include "net/http_child.h"
#include "net/http_keeper.h"
#include "net/syscalls.h"

#define START_MS 5000		/* for the first child to say hello */
#define LISTEN_MS 1000		/* for the port to become free */
#define LISTEN_AGAIN_MS 20
#define QUESTIONS_PER_S 200	/* answering costs the loop that leases run on; what comes above is turned away unasked */
#define INPUT_BYTES_MAX 4096

struct lg_http {
	struct lg_loop *loop;
	struct lg_http_keeper *keeper;
	struct lg_http_handlers handlers;
	void *arg;
	int listen_fd;
	int pid;			/* 0: no child that said hello */
	struct bufferevent *bev;	/* NULL: no child */
	bool keeper_is_gone;		/* and that was said */
	bool greeted;
	struct lg_source *ticker;
	unsigned int questions_left;	/* in this second */
	unsigned int restarts;
};

/* ---- questions ---- */

static void send_reply(struct lg_http *http, int status, const char *type, const struct lg_text *body)
{
	struct evbuffer *out = bufferevent_get_output(http->bev);
	struct lg_http_answer answer = { .status = (uint32_t)status, .type_len = (uint32_t)strlen(type),
					 .body_len = (uint32_t)body->len };

	evbuffer_add(out, &answer, sizeof(answer));
	evbuffer_add(out, type, answer.type_len);
	if (body->len)
		evbuffer_add(out, body->s, body->len);
}

static void send_text(struct lg_http *http, int status, const char *text)
{
	const struct lg_text body = { .s = (char *)(uintptr_t)text, .len = strlen(text) };

	send_reply(http, status, "text/plain", &body);
}

static void answer(struct lg_http *http, const struct lg_http_request *request)
{
	struct lg_http_reply reply = { 0 };
	const char *type;

	if (!http->questions_left) {
		send_text(http, 503, "too many requests\n");
		return;
	}
	http->questions_left--;
	http->handlers.request(http->arg, request, &reply);
	type = reply.content_type ? reply.content_type : "";
	if (!lg_text_ok(&reply.body) || reply.status < 200 || reply.status > 599 || reply.body.len > LG_HTTP_BODY_MAX ||
	    strlen(type) > LG_HTTP_TYPE_MAX)
		send_text(http, 500, "the answer could not be made\n");
	else
		send_reply(http, reply.status, type, &reply.body);
	lg_text_fini(&reply.body);
}

/* It has ended, or is not what was started. The next second brings the next one. */
static void distrust(struct lg_http *http)
{
	bufferevent_free(http->bev);
	http->bev = NULL;
	http->pid = 0;
	lg_http_keeper_stop(http->keeper, false);
}

static void tell_refused(const struct lg_http *http, uint32_t number)
{
	char text[160];

	snprintf(text, sizeof(text), "the HTTP process made system call %u (%s), which it may not: it was ended and is started again", number,
		 lg_syscalls_name((int)number));
	http->handlers.trouble(http->arg, text);
}

static bool is_path(const char *path, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (path[i] < 0x21 || path[i] > 0x7e)
			return false;
	return path[0] == '/';
}

/* Takes one question from the child. True: there may be another. */
static bool take_question(struct lg_http *http)
{
	struct evbuffer *in = bufferevent_get_input(http->bev);
	struct lg_http_request request = { 0 };
	struct lg_http_question question;
	char path[LG_HTTP_PATH_MAX + 1];

	if (evbuffer_copyout(in, &question, sizeof(question)) < (ev_ssize_t)sizeof(question))
		return false;
	if (question.is_head == LG_HTTP_REFUSED)
		tell_refused(http, question.path_len);
	if (question.is_head > 1 || !question.path_len || question.path_len > LG_HTTP_PATH_MAX) {
		distrust(http);
		return false;
	}
	if (evbuffer_get_length(in) < sizeof(question) + question.path_len)
		return false;
	evbuffer_drain(in, sizeof(question));
	evbuffer_remove(in, path, question.path_len);
	path[question.path_len] = '\0';
	if (!is_path(path, question.path_len)) {
		distrust(http);
		return false;
	}
	request.method = question.is_head ? "HEAD" : "GET";
	request.path = path;
	answer(http, &request);
	return true;
}

static bool take_hello(struct lg_http *http)
{
	struct lg_http_hello hello;

	if (evbuffer_get_length(bufferevent_get_input(http->bev)) < sizeof(hello))
		return false;
	bufferevent_read(http->bev, &hello, sizeof(hello));
	http->greeted = hello.error == 0;
	http->pid = hello.pid;
	if (!http->greeted)
		distrust(http);
	return http->greeted;
}

/* One answer at a time: while it is unread, questions stay in the socket. */
static void on_progress(struct bufferevent *bev, void *arg)
{
	struct lg_http *http = arg;

	(void)bev;
	if (!http->greeted && !take_hello(http))
		return;
	while (http->bev && !evbuffer_get_length(bufferevent_get_output(http->bev)) && take_question(http))
		continue;
}

static void on_broken(struct bufferevent *bev, short what, void *arg)
{
	(void)bev;
	(void)what;
	distrust(arg);
}

/* ---- the child ---- */

static int watch_child(struct lg_http *http, int fd)
{
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	http->bev = bufferevent_socket_new(lg_loop_base(http->loop), fd, BEV_OPT_CLOSE_ON_FREE);
	if (!http->bev)
		return -ENOMEM;
	bufferevent_setcb(http->bev, on_progress, on_progress, on_broken, http);
	bufferevent_setwatermark(http->bev, EV_READ, 0, INPUT_BYTES_MAX);
	return bufferevent_enable(http->bev, EV_READ | EV_WRITE) < 0 ? -ENOMEM : 0;
}

static int start_child(struct lg_http *http)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	http->greeted = false;
	r = lg_http_keeper_run(http->keeper, pair[1], http->listen_fd);
	close(pair[1]);
	if (r == 0)
		r = watch_child(http, pair[0]);
	if (r < 0 && !http->bev)
		close(pair[0]);
	if (r < 0 && http->bev)
		distrust(http);
	return r;
}

static void on_second(void *arg)
{
	struct lg_http *http = arg;
	int r;

	http->questions_left = QUESTIONS_PER_S;
	if (http->bev)
		return;
	r = start_child(http);
	if (r == 0)
		http->restarts++;
	if (r == -EPIPE && !http->keeper_is_gone) {
		http->keeper_is_gone = true;
		http->handlers.trouble(http->arg, "the process that starts HTTP processes has ended: metrics and health are gone until this "
						  "daemon is restarted");
	}
}

/* The first child is waited for, so that what keeps it from being confined is an error at start and not a loop of restarts. */
static int await_hello(struct lg_http *http, const char *address, struct lg_complaint *c)
{
	const struct timeval patience = { .tv_sec = START_MS / 1000 };
	int fd = bufferevent_getfd(http->bev), flags = fcntl(fd, F_GETFL);
	struct lg_http_hello hello = { 0 };
	ssize_t n;

	if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return -errno;
	n = recv(fd, &hello, sizeof(hello), MSG_WAITALL);
	if (fcntl(fd, F_SETFL, flags) < 0)
		return -errno;
	if (n != (ssize_t)sizeof(hello)) {
		lg_complain(c, "the HTTP process for %s did not start", address);
		return -EPIPE;
	}
	hello.step[sizeof(hello.step) - 1] = '\0';
	if (hello.error < 0) {
		lg_complain(c, "the HTTP process for %s did not start: %s: %s", address, hello.step, strerror(-hello.error));
		return hello.error;
	}
	http->greeted = true;
	http->pid = hello.pid;
	return 0;
}

/* The HTTP process of a daemon that was killed ends moments after it, as does its keeper before it, and holds the port until then. */
static int listen_patiently(const char *address, int *ret_fd, struct lg_complaint *c)
{
	uint64_t until_ns = lg_clock_now_ns() + LISTEN_MS * LG_NS_PER_MS;
	int r;

	do {
		*c = (struct lg_complaint){ 0 };
		r = lg_address_listen(address, ret_fd, c);
	} while (r == -EADDRINUSE && lg_clock_now_ns() < until_ns && poll(NULL, 0, LISTEN_AGAIN_MS) == 0);
	return r;
}

int lg_http_start(struct lg_loop *loop, struct lg_http_keeper *keeper, const char *address, const struct lg_http_handlers *handlers,
		  void *arg, struct lg_http **ret_http, struct lg_complaint *c)
{
	_cleanup_(lg_http_free) struct lg_http *http = NULL;
	int r;

	http = calloc(1, sizeof(*http));
	if (!http)
		return -ENOMEM;
	http->loop = loop;
	http->keeper = keeper;
	http->handlers = *handlers;
	http->arg = arg;
	http->listen_fd = -1;
	http->questions_left = QUESTIONS_PER_S;
	r = listen_patiently(address, &http->listen_fd, c);
	if (r < 0)
		return r;
	r = lg_loop_add_ticker(loop, LG_NS_PER_S, on_second, http, &http->ticker);
	if (r < 0)
		return r;
	r = start_child(http);
	if (r < 0) {
		lg_complain(c, "cannot start the HTTP process for %s: %s", address, strerror(-r));
		return r;
	}
	r = await_hello(http, address, c);
	if (r < 0)
		return r;
	*ret_http = TAKE(http);
	return 0;
}

struct lg_http *lg_http_free(struct lg_http *http)
{
	if (!http)
		return NULL;
	lg_source_free(http->ticker);
	if (http->bev)
		bufferevent_free(http->bev);
	/* Its port is free when it is gone. */
	lg_http_keeper_stop(http->keeper, true);
	if (http->listen_fd >= 0)
		close(http->listen_fd);
	free(http);
	return NULL;
}

int lg_http_port(const struct lg_http *http)
{
	return lg_address_port(http->listen_fd);
}

int lg_http_pid(const struct lg_http *http)
{
	return http->pid;
}

unsigned lg_http_restarts(const struct lg_http *http)
{
	return http->restarts;
}
