/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Inside of net/: one connection and its streams, the part that gRPC servers and clients share. grpc_conn.c keeps the connection,
 * grpc_stream.c is what happens on a stream.
 */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#include "net/address.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"
#include "net/h2.h"

#define LG_GRPC_BUFFERED_MAX (512u << 20) /* unread and unsent bytes of all streams of a server or client together */
#define LG_GRPC_STALL_MS 30000		/* a peer that takes nothing of what waits for it for so long is too slow */
#define LG_GRPC_PATH_LEN 256
#define LG_GRPC_WHY_LEN 256

struct evbuffer;

/* What the connections of a server, or the one of a client, have in common. */
struct lg_grpc_end {
	struct lg_grpc_handlers handlers;
	void *arg;
	bool is_server;
	bool is_secure;
	size_t message_max_bytes;	/* of a received one; 0: LG_MSG_BYTES_MAX */
	const char *token;		/* client: sent along with each request; NULL: none */
	size_t buffered_bytes;
};

struct lg_grpc_conn {
	LIST_ENTRY(lg_grpc_conn) link;	/* for the owner */
	struct lg_h2 *h2;
	struct lg_grpc_end *end;	/* NULL once closed by the owner */
	bool down;			/* the connection is over */
	bool displaced;			/* by a newer one of the same peer */
	LIST_HEAD(, lg_grpc_stream) streams;
	char peer[LG_PEER_LEN];
	void (*gone)(void *arg, struct lg_grpc_conn *conn);
	void (*secured)(void *arg, struct lg_grpc_conn *conn);	/* TLS: who the peer is is known; NULL: the owner does not care */
	void *arg;
};
LIST_HEAD(lg_grpc_conns, lg_grpc_conn);

struct lg_grpc_stream {
	LIST_ENTRY(lg_grpc_stream) link;
	struct lg_grpc_conn *conn;
	int32_t id;
	bool is_open;		/* the handlers know it */
	bool done;		/* nothing is told to the handlers any more: they were told the end, or brought it about */
	bool got_headers;	/* server: a request; client: a response that is gRPC */
	bool responded;		/* server: response headers are out */
	bool ending;		/* server: trailers follow what is in tx */
	bool is_half_closed;	/* client: the end follows what is in tx */
	bool deferred;		/* nghttp2 waits for lg_grpc_stream_resume() */
	void *user;
	struct lg_grpc_frames rx;
	struct evbuffer *tx;	/* unsent */
	size_t counted_bytes;	/* our part of end->buffered_bytes */
	uint32_t stall_ms;	/* since the peer last took something of what waits */
	size_t header_bytes;
	/* what headers said */
	char path[LG_GRPC_PATH_LEN];	/* "" when there is none or it is too long */
	bool is_post;
	bool is_grpc;		/* content-type */
	bool takes_trailers;
	bool is_encoded;	/* grpc-encoding other than identity */
	int http_status;
	/* server: status to send; client: status received, -1 none */
	int status;
	char why[LG_GRPC_WHY_LEN];
};

/* gone(arg) is the last word of a connection: it is freed when it returns. end must live until it is closed or gone. */
int lg_grpc_conn_new(struct event_base *base, struct lg_grpc_end *end, const struct lg_h2_patience *patience,
		     void (*gone)(void *arg, struct lg_grpc_conn *conn), void *arg, struct lg_grpc_conn **ret_conn);
/* Ends it: no handler is called any more; gone() is, at once or after the handler that this is called in. why: what a server tells its
 * peers. */
void lg_grpc_conn_close(struct lg_grpc_conn *conn, const char *why);
/* Takes a connected socket, on success, and in any case ssl (NULL: clear text). peer: its far end, for people. */
int lg_grpc_conn_attach(struct lg_grpc_conn *conn, int fd, const char *peer, struct ssl_st *ssl);

/* grpc_stream.c */
int lg_grpc_stream_new(struct lg_grpc_conn *conn, int32_t id, struct lg_grpc_stream **ret_stream);
void lg_grpc_stream_free(struct lg_grpc_stream *s);
/* Client: sends the request. authority: host and port as written. */
int lg_grpc_stream_request(struct lg_grpc_stream *s, const char *authority, const char *path);
/* What h2 tells; see struct lg_h2_events. */
void lg_grpc_stream_header(void *stream, const char *name, size_t name_len, const uint8_t *value, size_t value_len);
void lg_grpc_stream_headers(void *stream, bool end);
void lg_grpc_stream_data(void *stream, const uint8_t *data, size_t len);
void lg_grpc_stream_end(void *stream);
void lg_grpc_stream_sent_end(void *stream);
void lg_grpc_stream_closed(void *stream, uint32_t error);
void lg_grpc_stream_tick(struct lg_grpc_stream *s, uint32_t elapsed_ms);
/* Tells the handlers, once, that it is over. */
void lg_grpc_stream_tell_closed(struct lg_grpc_stream *s, int status, const char *why);
/* Ends it towards the peer. */
void lg_grpc_stream_finish(struct lg_grpc_stream *s, int status, const char *why);
