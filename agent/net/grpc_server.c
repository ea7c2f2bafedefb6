// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/grpc.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "net/grpc_conn.h"
#include "net/tls.h"

#define TICK_MS 1000
#define REFUSALS_MAX 64 /* sessions above the limit that are told so at once; more are closed without a word */

static const struct lg_h2_patience patience = { .hello_ms = 10000, .ping_ms = 10000, .dead_ms = 20000, .idle_ms = 60000 };

struct lg_grpc_server {
	struct lg_grpc_end end;
	struct event_base *base;
	struct evconnlistener *listener;
	struct lg_source *ticker;
	struct lg_grpc_conns conns;
	unsigned int n_conns;
	struct lg_tls *tls;	/* NULL: clear text */
	uint64_t n_strangers;
	uint64_t n_displaced;
	bool paused;	/* out of descriptors: accepting goes on with the next tick */
};

static void on_gone(void *arg, struct lg_grpc_conn *conn)
{
	struct lg_grpc_server *server = arg;

	LIST_REMOVE(conn, link);
	server->n_conns--;
	server->n_strangers += lg_h2_is_stranger(conn->h2);
}

/* One that is let in must not fill the places of all. The newest are good: whose network was cut comes back while we still wait for him. */
static void on_secured(void *arg, struct lg_grpc_conn *conn)
{
	struct lg_grpc_server *server = arg;
	struct lg_grpc_conn *other, *oldest = NULL;
	struct lg_tls_name name, peer;
	unsigned int n = 0;

	if (!lg_h2_peer(conn->h2, &name))
		return;
	LIST_FOREACH(other, &server->conns, link) {
		if (other->down || other->displaced || !lg_h2_peer(other->h2, &peer) || !lg_tls_name_equal(&name, &peer))
			continue;
		n++;
		oldest = other;
	}
	if (n <= LG_GRPC_SESSIONS_PER_PEER)
		return;
	oldest->displaced = true;
	server->n_displaced++;
	lg_h2_fail(oldest->h2, NGHTTP2_ENHANCE_YOUR_CALM, "this peer has more sessions than one may have");
}

static int admit(struct lg_grpc_server *server, int fd, const struct sockaddr *sa)
{
	struct ssl_st *ssl = NULL;
	struct lg_grpc_conn *conn;
	char peer[LG_PEER_LEN];
	int r;

	if (server->n_conns >= LG_GRPC_SESSIONS_MAX + REFUSALS_MAX)
		return -ENOBUFS;
	r = lg_grpc_conn_new(server->base, &server->end, &patience, on_gone, server, &conn);
	if (r < 0)
		return r;
	LIST_INSERT_HEAD(&server->conns, conn, link);
	server->n_conns++;
	conn->secured = on_secured;
	lg_address_format(sa, peer);
	if (server->tls)
		ssl = lg_tls_connection(server->tls, NULL);
	r = server->tls && !ssl ? -ENOMEM : lg_grpc_conn_attach(conn, fd, peer, ssl);
	if (r < 0) {
		lg_grpc_conn_close(conn, NULL);
		return r;
	}
	if (server->n_conns > LG_GRPC_SESSIONS_MAX)
		lg_h2_fail(conn->h2, NGHTTP2_ENHANCE_YOUR_CALM, "this server has as many sessions as it takes");
	return 0;
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *sa, int len, void *arg)
{
	(void)listener;
	(void)len;
	if (admit(arg, fd, sa) < 0)
		close(fd);
}

/* Most likely out of descriptors. The listener would call again at once, for ever. */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
	struct lg_grpc_server *server = arg;

	evconnlistener_disable(listener);
	server->paused = true;
}

static void on_tick(void *arg)
{
	struct lg_grpc_server *server = arg;
	struct lg_grpc_conn *conn = LIST_FIRST(&server->conns), *next;

	for (; conn; conn = next) {
		next = LIST_NEXT(conn, link);
		lg_h2_tick(conn->h2, TICK_MS);
	}
	if (server->paused && evconnlistener_enable(server->listener) == 0)
		server->paused = false;
}

int lg_grpc_server_new(struct lg_loop *loop, const char *address, const struct lg_grpc_handlers *handlers, void *arg,
		       struct lg_grpc_server **ret_server, struct lg_complaint *c)
{
	_cleanup_(lg_grpc_server_free) struct lg_grpc_server *server = NULL;
	_cleanup_fd_ int fd = -1;
	int r;

	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->base = lg_loop_base(loop);
	server->end = (struct lg_grpc_end){ .handlers = *handlers, .arg = arg, .is_server = true };
	LIST_INIT(&server->conns);
	r = lg_address_listen(address, &fd, c);
	if (r < 0)
		return r;
	r = lg_loop_add_ticker(loop, TICK_MS * LG_NS_PER_MS, on_tick, server, &server->ticker);
	if (r < 0)
		return r;
	server->listener = evconnlistener_new(server->base, on_accept, server,
					      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);
	if (!server->listener)
		return -ENOMEM;
	fd = -1;
	evconnlistener_set_error_cb(server->listener, on_accept_error);
	/* It was enabled already, but whether that worked is said only here. */
	if (evconnlistener_enable(server->listener) < 0)
		return -ENOMEM;
	*ret_server = TAKE(server);
	return 0;
}

struct lg_grpc_server *lg_grpc_server_free(struct lg_grpc_server *server)
{
	if (!server)
		return NULL;
	if (server->listener)
		evconnlistener_free(server->listener);
	while (!LIST_EMPTY(&server->conns))
		lg_grpc_conn_close(LIST_FIRST(&server->conns), "the server is shutting down");
	lg_source_free(server->ticker);
	free(server);
	return NULL;
}

int lg_grpc_server_port(const struct lg_grpc_server *server)
{
	return lg_address_port(evconnlistener_get_fd(server->listener));
}

void lg_grpc_server_secure(struct lg_grpc_server *server, struct lg_tls *tls)
{
	server->tls = tls;
	server->end.is_secure = true;
}

uint64_t lg_grpc_server_strangers(const struct lg_grpc_server *server)
{
	return server->n_strangers;
}

uint64_t lg_grpc_server_displaced(const struct lg_grpc_server *server)
{
	return server->n_displaced;
}
