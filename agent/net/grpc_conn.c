// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/grpc_conn.h"

#include <errno.h>
#include <stdio.h>

static void *on_begin(void *arg, int32_t id)
{
	struct lg_grpc_stream *s;

	return lg_grpc_stream_new(arg, id, &s) < 0 ? NULL : s;
}

static void on_tick(void *arg, uint32_t elapsed_ms)
{
	struct lg_grpc_conn *conn = arg;
	struct lg_grpc_stream *s;

	LIST_FOREACH(s, &conn->streams, link)
		lg_grpc_stream_tick(s, elapsed_ms);
}

static void on_down(void *arg, const char *why)
{
	struct lg_grpc_conn *conn = arg;
	struct lg_grpc_stream *s;

	conn->down = true;
	LIST_FOREACH(s, &conn->streams, link)
		lg_grpc_stream_tell_closed(s, LG_GRPC_UNAVAILABLE, why);
}

static void on_secured(void *arg)
{
	struct lg_grpc_conn *conn = arg;

	if (conn->secured)
		conn->secured(conn->arg, conn);
}

static void on_gone(void *arg)
{
	struct lg_grpc_conn *conn = arg;

	while (!LIST_EMPTY(&conn->streams))
		lg_grpc_stream_free(LIST_FIRST(&conn->streams));
	conn->gone(conn->arg, conn);
	free(conn);
}

static const struct lg_h2_events events = {
	.begin = on_begin,
	.header = lg_grpc_stream_header,
	.headers = lg_grpc_stream_headers,
	.data = lg_grpc_stream_data,
	.end = lg_grpc_stream_end,
	.sent_end = lg_grpc_stream_sent_end,
	.closed = lg_grpc_stream_closed,
	.tick = on_tick,
	.secured = on_secured,
	.down = on_down,
	.gone = on_gone,
};

int lg_grpc_conn_new(struct event_base *base, struct lg_grpc_end *end, const struct lg_h2_patience *patience,
		     void (*gone)(void *arg, struct lg_grpc_conn *conn), void *arg, struct lg_grpc_conn **ret_conn)
{
	struct lg_grpc_conn *conn;
	int r;

	conn = calloc(1, sizeof(*conn));
	if (!conn)
		return -ENOMEM;
	conn->end = end;
	conn->gone = gone;
	conn->arg = arg;
	LIST_INIT(&conn->streams);
	r = lg_h2_new(base, end->is_server, patience, &events, conn, &conn->h2);
	if (r < 0) {
		free(conn);
		return r;
	}
	*ret_conn = conn;
	return 0;
}

void lg_grpc_conn_close(struct lg_grpc_conn *conn, const char *why)
{
	struct lg_grpc_stream *s;

	LIST_FOREACH(s, &conn->streams, link) {
		if (!s->done && !conn->down)
			lg_grpc_stream_finish(s, LG_GRPC_UNAVAILABLE, why);
		s->done = true;
	}
	LIST_FOREACH(s, &conn->streams, link)
		s->counted_bytes = 0;
	conn->end = NULL;
	lg_h2_close(conn->h2, why);
}

int lg_grpc_conn_attach(struct lg_grpc_conn *conn, int fd, const char *peer, struct ssl_st *ssl)
{
	int r;

	r = lg_h2_attach(conn->h2, fd, ssl);
	if (r < 0)
		return r;
	snprintf(conn->peer, sizeof(conn->peer), "%s", peer);
	return 0;
}
