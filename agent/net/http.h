/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * HTTP in an unprivileged child process. The parent binds the port (so that a port in use is an error at start), has the keeper fork, and
 * answers the child's questions over a socket pair; the child speaks HTTP (evhttp), holds no capability, no other descriptor and nothing of
 * its parent's memory, and dies with its parent. Whoever breaks the HTTP parser gets a process that can do nothing.
 */
#pragma once

#include "base/complaint.h"
#include "base/mem.h"
#include "base/text.h"

struct lg_loop;
struct lg_http;
struct lg_http_keeper;

struct lg_http_request {
	const char *method;	/* "GET" or "HEAD"; others are answered 405 by the child */
	const char *path;	/* without query, shorter than 1 KiB */
};

struct lg_http_reply {
	int status;		/* 200, 404, 503, ... */
	const char *content_type;
	struct lg_text body;
};

struct lg_http_handlers {
	/* Fills *reply at once (it is zeroed before); called on the loop. */
	void (*request)(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply);
	/* Something about the child that people should know of, once for each time. */
	void (*trouble)(void *arg, const char *text);
};

/* Starts the child, with a keeper that serves no other; a child that dies is started again (at most once per second) and counted. */
int lg_http_start(struct lg_loop *loop, struct lg_http_keeper *keeper, const char *address, const struct lg_http_handlers *handlers,
		  void *arg, struct lg_http **ret_http, struct lg_complaint *c);
/* Ends the child. */
struct lg_http *lg_http_free(struct lg_http *http);
LG_CLEANUP(struct lg_http, lg_http_free)
/* The port really bound (for address with port 0), and the child's pid. */
int lg_http_port(const struct lg_http *http);
int lg_http_pid(const struct lg_http *http);
unsigned lg_http_restarts(const struct lg_http *http);
