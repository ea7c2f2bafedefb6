// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/grpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "net/dial.h"
#include "net/grpc_conn.h"
#include "net/tls.h"

#define TICK_MS 500
#define DIAL_MS 5000

/* A ping after 2 s of silence, and 5 s for the answer. */
static const struct lg_h2_patience patience = { .hello_ms = 5000, .ping_ms = 2000, .dead_ms = 7000 };

struct lg_grpc_client {
	struct lg_grpc_end end;
	struct lg_grpc_conn *conn;	/* NULL once it is gone */
	struct lg_dial *dial;
	struct lg_source *ticker;
	struct lg_tls *tls;		/* NULL: clear text */
	struct lg_tls_name expect;	/* the peer, by name or, without one, by host */
	char host[LG_HOST_LEN];
	char authority[LG_HOST_LEN + 8];
};

static void on_gone(void *arg, struct lg_grpc_conn *conn)
{
	struct lg_grpc_client *client = arg;

	/* Closed by lg_grpc_client_free(), the client may be gone before its connection. */
	if (conn->end)
		client->conn = NULL;
}

static void on_dialled(void *arg, int fd, const char *peer, const char *why)
{
	struct lg_grpc_client *client = arg;
	struct lg_tls_expect expect = { client->expect, client->host };
	struct ssl_st *ssl = fd >= 0 && client->tls ? lg_tls_connection(client->tls, &expect) : NULL;

	if (fd < 0) {
		lg_h2_drop(client->conn->h2, why);
	} else if ((client->tls && !ssl) || lg_grpc_conn_attach(client->conn, fd, peer, ssl) < 0) {
		close(fd);
		lg_h2_drop(client->conn->h2, "out of memory");
	}
	client->dial = lg_dial_free(client->dial);
}

static void on_tick(void *arg)
{
	struct lg_grpc_client *client = arg;

	if (client->conn)
		lg_h2_tick(client->conn->h2, TICK_MS);
}

int lg_grpc_client_new(struct lg_loop *loop, const char *address, const struct lg_grpc_handlers *handlers, void *arg,
		       struct lg_grpc_client **ret_client, struct lg_complaint *c)
{
	_cleanup_(lg_grpc_client_free) struct lg_grpc_client *client = NULL;
	int r;

	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->end = (struct lg_grpc_end){ .handlers = *handlers, .arg = arg };
	r = lg_dial_new(loop, address, DIAL_MS, on_dialled, client, &client->dial, c);
	if (r < 0)
		return r;
	snprintf(client->authority, sizeof(client->authority), "%s", address);
	r = lg_grpc_conn_new(lg_loop_base(loop), &client->end, &patience, on_gone, client, &client->conn);
	if (r < 0)
		return r;
	snprintf(client->conn->peer, sizeof(client->conn->peer), "%s", address);
	r = lg_loop_add_ticker(loop, TICK_MS * LG_NS_PER_MS, on_tick, client, &client->ticker);
	if (r < 0)
		return r;
	*ret_client = TAKE(client);
	return 0;
}

void lg_grpc_client_secure(struct lg_grpc_client *client, struct lg_tls *tls, const struct lg_tls_expect *expect)
{
	client->tls = tls;
	client->end.is_secure = true;
	client->expect = expect->name;
	if (!expect->name.region[0])
		snprintf(client->host, sizeof(client->host), "%s", expect->host);
}

void lg_grpc_client_message_max(struct lg_grpc_client *client, size_t bytes)
{
	client->end.message_max_bytes = bytes;
}

void lg_grpc_client_token(struct lg_grpc_client *client, const char *token)
{
	client->end.token = token;
}

struct lg_grpc_client *lg_grpc_client_free(struct lg_grpc_client *client)
{
	if (!client)
		return NULL;
	lg_dial_free(client->dial);
	if (client->conn)
		lg_grpc_conn_close(client->conn, "bye");
	lg_source_free(client->ticker);
	free(client);
	return NULL;
}

int lg_grpc_client_open(struct lg_grpc_client *client, const char *path, struct lg_grpc_stream **ret_stream)
{
	struct lg_grpc_stream *s;
	int r;

	if (!client->conn || client->conn->down)
		return -EPIPE;
	r = lg_grpc_stream_new(client->conn, 0, &s);
	if (r < 0)
		return r;
	r = lg_grpc_stream_request(s, client->authority, path);
	if (r < 0) {
		lg_grpc_stream_free(s);
		return r;
	}
	*ret_stream = s;
	return 0;
}
