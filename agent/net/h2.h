/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One HTTP/2 connection over TCP or TLS, without negotiation in clear text, either end: nghttp2 fed from a bufferevent. Inside of net/:
 * what the streams mean is net/grpc.c's. Here are the limits, the signs of life, the guards against floods and the end of a connection.
 *
 * One thread. Events are called from the loop, and inside them everything here may be called: bytes go out and memory is freed after
 * the event has returned. nghttp2 functions that submit something may be called too, followed by lg_h2_kick().
 */
#pragma once

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

struct event_base;
struct lg_h2;
struct lg_tls_name;
struct ssl_st;

#define LG_H2_STREAMS_MAX 16		/* streams a peer may have open at once; a holder needs one */
#define LG_H2_HEADERS_BYTES_MAX 8192	/* of one header block, names and values and 32 for each */
#define LG_H2_WINDOW_STREAM (1 << 20)	/* bytes in flight: at 150 ms round trip 7 MB/s for one stream */
#define LG_H2_WINDOW_CONNECTION (2 << 20)
#define LG_H2_OUT_BYTES (256 << 10)	/* bytes given to the socket's buffer ahead of time; the rest waits in the streams */
#define LG_H2_ODD_MAX 1000		/* frames that carry nothing (pings, settings, resets, empty data) a peer may send at once */
#define LG_H2_ODD_PER_S 100		/* and for ever */
#define LG_H2_ODD_PER_ANSWER 2		/* a server besides, with each block of headers of an answer: some ping at each request */
#define LG_H2_LINGER_MS 2000		/* a connection that ended in error waits so long for the peer to read why */

/* How long a peer may be silent. 0: for ever. */
struct lg_h2_patience {
	uint32_t hello_ms;	/* from the connection to its first SETTINGS */
	uint32_t ping_ms;	/* silence until a ping is sent, and from one ping to the next */
	uint32_t dead_ms;	/* silence until the peer counts as gone */
	uint32_t idle_ms;	/* server: without a stream until it is sent away */
};

/* Stream pointers are what begin() returned, or what the stream was opened with. */
struct lg_h2_events {
	void *(*begin)(void *arg, int32_t id);	/* server: a request starts; NULL refuses it */
	void (*header)(void *stream, const char *name, size_t name_len, const uint8_t *value, size_t value_len);
	void (*headers)(void *stream, bool end);	/* a header block is whole; end: nothing follows */
	void (*data)(void *stream, const uint8_t *data, size_t len);
	void (*end)(void *stream);			/* the peer sends no more on it */
	void (*sent_end)(void *stream);			/* our last frame on it has left */
	/* Last event of a stream: enum nghttp2_error_code. A request that could not be sent is closed with NGHTTP2_REFUSED_STREAM. */
	void (*closed)(void *stream, uint32_t error);
	void (*tick)(void *arg, uint32_t elapsed_ms);	/* from lg_h2_tick(), while the connection is not over */
	void (*secured)(void *arg);	/* TLS: the handshake is through, and lg_h2_peer() says with whom; NULL: not wanted */
	/* The connection is over. Streams get no event any more but closed(); nghttp2 may still ask their data sources for bytes. */
	void (*down)(void *arg, const char *why);
	void (*gone)(void *arg);			/* last event of all: h2 is freed when it returns */
};

/* h2 has no socket yet; a client's streams may be opened at once. events must live as long as h2. */
int lg_h2_new(struct event_base *base, bool is_server, const struct lg_h2_patience *patience,
	      const struct lg_h2_events *events, void *arg, struct lg_h2 **ret_h2);
/* Ends the connection with no further event but gone(), which comes at once or, from inside an event, after that. farewell: sent as GOAWAY
 * with what has been submitted, as far as the socket takes it at once; NULL sends nothing. */
void lg_h2_close(struct lg_h2 *h2, const char *farewell);
/* Takes a connected socket, and for TLS (else NULL) what lg_tls_connection() made for it; both are h2's, ssl also on failure, fd only on
 * success. Nothing is sent or read before the handshake is through. */
int lg_h2_attach(struct lg_h2 *h2, int fd, struct ssl_st *ssl);
/* Who the peer is, by its certificate; false in clear text, and before the handshake is through. */
bool lg_h2_peer(const struct lg_h2 *h2, struct lg_tls_name *ret);
/* The handshake failed: it was nobody whom we let in. */
bool lg_h2_is_stranger(const struct lg_h2 *h2);

/* Sends what has been submitted, before the loop waits again. */
void lg_h2_kick(struct lg_h2 *h2);
/* Time has passed. To be called at least each second, for the patience with the peer; h2 may be gone afterwards. */
void lg_h2_tick(struct lg_h2 *h2, uint32_t elapsed_ms);

/* Ends the connection with GOAWAY, error and the text; `down` comes from the loop. */
void lg_h2_fail(struct lg_h2 *h2, uint32_t error, const char *why);
/* Ends it without a word: there is nobody to talk to. */
void lg_h2_drop(struct lg_h2 *h2, const char *why);
/* What was sent a while ago (more than the round trip explains) has not been acknowledged: the network is cut, or the peer's system hangs.
 * To be asked again and again: from when it began is known only so far. */
bool lg_h2_is_stalled(struct lg_h2 *h2);
/* Charges the peer's allowance of odd frames with one. */
void lg_h2_odd(struct lg_h2 *h2);

nghttp2_session *lg_h2_session(struct lg_h2 *h2);
