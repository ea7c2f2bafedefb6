/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * gRPC over HTTP/2 (nghttp2), in clear text or mutual TLS, bidirectional streams, both ends. Messages are bytes; every input is bounded: message size,
 * streams and sessions per server, unsent bytes per stream. One thread: callbacks run on the loop and may close the stream they are
 * called for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"

#define LG_GRPC_SESSIONS_PER_PEER 16	/* of them, with one certificate's name: a further one ends the oldest */
#define LG_GRPC_SESSIONS_MAX 8192	/* connections of one server; more are refused with a text */

struct lg_loop;
struct lg_grpc_server;
struct lg_grpc_client;
struct lg_grpc_stream;
struct lg_tls;
struct lg_tls_expect;
struct lg_tls_name;

/* gRPC status codes we use ourselves. */
enum lg_grpc_status {
	LG_GRPC_OK = 0,
	LG_GRPC_CANCELLED = 1,
	LG_GRPC_UNKNOWN = 2,
	LG_GRPC_INVALID_ARGUMENT = 3,
	LG_GRPC_DEADLINE_EXCEEDED = 4,
	LG_GRPC_PERMISSION_DENIED = 7,
	LG_GRPC_RESOURCE_EXHAUSTED = 8,
	LG_GRPC_FAILED_PRECONDITION = 9,
	LG_GRPC_UNIMPLEMENTED = 12,
	LG_GRPC_INTERNAL = 13,
	LG_GRPC_UNAVAILABLE = 14,
	LG_GRPC_UNAUTHENTICATED = 16,
};

struct lg_grpc_handlers {
	/* Server: a peer opened a stream for `path` ("/pkg.Service/Method"). Return 0 to accept (set the user pointer), or a gRPC
	 * status to refuse with. NULL for clients. */
	int (*open)(void *arg, struct lg_grpc_stream *stream, const char *path);
	/* One whole message; borrowed for the call. */
	void (*message)(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len);
	/* The stream is over, whoever ended it; it is freed after the call. status: enum lg_grpc_status or any other code received. */
	void (*closed)(void *arg, struct lg_grpc_stream *stream, int status, const char *why);
};

int lg_grpc_server_new(struct lg_loop *loop, const char *address, const struct lg_grpc_handlers *handlers, void *arg,
		       struct lg_grpc_server **ret_server, struct lg_complaint *c);
/* Tells its peers and ends all streams; `closed` is not called for them. Not from inside a handler. */
struct lg_grpc_server *lg_grpc_server_free(struct lg_grpc_server *server);
LG_CLEANUP(struct lg_grpc_server, lg_grpc_server_free)
int lg_grpc_server_port(const struct lg_grpc_server *server);
/* From now on connections speak TLS; `tls` must live as long as the server. */
void lg_grpc_server_secure(struct lg_grpc_server *server, struct lg_tls *tls);
/* Connections that ended within the handshake of TLS: nobody whom this server knows. */
uint64_t lg_grpc_server_strangers(const struct lg_grpc_server *server);
/* Sessions ended because their peer began more than one may have. */
uint64_t lg_grpc_server_displaced(const struct lg_grpc_server *server);

/* Connects in the background. A client is one connection; when it ends, all its streams are closed with UNAVAILABLE, and it opens no
 * more (-EPIPE). A lessor that stays silent for 7 s, pings included, is gone. May be freed inside a handler. */
int lg_grpc_client_new(struct lg_loop *loop, const char *address, const struct lg_grpc_handlers *handlers, void *arg,
		       struct lg_grpc_client **ret_client, struct lg_complaint *c);
struct lg_grpc_client *lg_grpc_client_free(struct lg_grpc_client *client);
LG_CLEANUP(struct lg_grpc_client, lg_grpc_client_free)
/* Right after lg_grpc_client_new(): the connection speaks TLS, to nobody but whom it expects; `tls` must live as long as the client. */
void lg_grpc_client_secure(struct lg_grpc_client *client, struct lg_tls *tls, const struct lg_tls_expect *expect);
/* Received messages may be so long; LG_MSG_BYTES_MAX unless said. */
void lg_grpc_client_message_max(struct lg_grpc_client *client, size_t bytes);
/* From the next stream on `token` is sent along as a header of that name; it must live as long, NULL sends none. */
void lg_grpc_client_token(struct lg_grpc_client *client, const char *token);
int lg_grpc_client_open(struct lg_grpc_client *client, const char *path, struct lg_grpc_stream **ret_stream);

/* Queues one message. -ENOBUFS when more than LG_QUEUE_BYTES_MAX are unsent (close the stream then), -EPIPE when it is over. */
int lg_grpc_send(struct lg_grpc_stream *stream, const void *data, size_t len);
/* The same, and says that it was the last one: a client that now waits for the answer. */
int lg_grpc_send_last(struct lg_grpc_stream *stream, const void *data, size_t len);
/* Messages of a while ago have not been acknowledged by the peer's system; more would only pile up. To be asked now and then while sending. */
bool lg_grpc_is_stalled(const struct lg_grpc_stream *stream);
/* Ends the stream: a server with status and text, a client by cancelling. `closed` is not called for it. */
void lg_grpc_close(struct lg_grpc_stream *stream, int status, const char *why);
void lg_grpc_set_user(struct lg_grpc_stream *stream, void *user);
void *lg_grpc_user(const struct lg_grpc_stream *stream);
const char *lg_grpc_peer(const struct lg_grpc_stream *stream); /* "192.0.2.1:4711" */
/* Who the peer is, by its certificate; false in clear text. */
bool lg_grpc_identity(const struct lg_grpc_stream *stream, struct lg_tls_name *ret);
