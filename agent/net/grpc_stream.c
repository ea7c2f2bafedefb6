// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A server answers a good request with headers at once and keeps the stream open: messages come from tx through nghttp2's data source,
 * trailers with the status end it. A bad request gets its status in headers alone. A client ends a stream by a reset; half closing it says
 * that its last message was sent, and that the peer's status is waited for. A stream lives until nghttp2 closes it; `done` says that the handlers have heard, or caused, its
 * end and must not hear of it again.
 */
#include "net/grpc_conn.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

#include "leasegate/bounds.h"

#define CONTENT_TYPE "application/grpc"

int lg_grpc_stream_new(struct lg_grpc_conn *conn, int32_t id, struct lg_grpc_stream **ret_stream)
{
	struct lg_grpc_stream *s;

	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->tx = evbuffer_new();
	if (!s->tx) {
		free(s);
		return -ENOMEM;
	}
	s->conn = conn;
	s->id = id;
	s->status = -1;
	LIST_INSERT_HEAD(&conn->streams, s, link);
	*ret_stream = s;
	return 0;
}

/* Brings the sum of what is buffered up to date; true while it is within bounds. */
static bool account(struct lg_grpc_stream *s)
{
	struct lg_grpc_end *end = s->conn->end;
	size_t now = evbuffer_get_length(s->tx) + s->rx.size;

	if (!end)
		return true;
	end->buffered_bytes += now - s->counted_bytes;
	s->counted_bytes = now;
	return end->buffered_bytes <= LG_GRPC_BUFFERED_MAX;
}

void lg_grpc_stream_free(struct lg_grpc_stream *s)
{
	LIST_REMOVE(s, link);
	lg_grpc_frames_fini(&s->rx);
	evbuffer_drain(s->tx, evbuffer_get_length(s->tx));
	account(s);
	evbuffer_free(s->tx);
	free(s);
}

void lg_grpc_stream_tell_closed(struct lg_grpc_stream *s, int status, const char *why)
{
	struct lg_grpc_end *end = s->conn->end;

	if (!s->is_open || s->done)
		return;
	s->done = true;
	end->handlers.closed(end->arg, s, status, why);
}

/* ---- sending ---- */

static nghttp2_nv field_len(const char *name, const char *value, size_t len)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name,
			     .namelen = strlen(name),
			     .value = (uint8_t *)(uintptr_t)value,
			     .valuelen = len };
}

static nghttp2_nv field(const char *name, const char *value)
{
	return field_len(name, value, strlen(value));
}

/* Fatal is want of memory; a connection on which something is missing is of no use. */
static void submitted(struct lg_grpc_stream *s, int r)
{
	if (nghttp2_is_fatal(r))
		lg_h2_drop(s->conn->h2, nghttp2_strerror(r));
}

static void reset(struct lg_grpc_stream *s, uint32_t error)
{
	submitted(s, nghttp2_submit_rst_stream(lg_h2_session(s->conn->h2), NGHTTP2_FLAG_NONE, s->id, error));
}

/* grpc-status and grpc-message; returns how many fields were written. The buffers must live until they are submitted. */
static size_t status_fields(const struct lg_grpc_stream *s, nghttp2_nv nv[2], char number[12], char message[3 * LG_GRPC_WHY_LEN])
{
	size_t len = lg_grpc_message_encode(s->why, message, 3 * LG_GRPC_WHY_LEN);

	snprintf(number, 12, "%d", s->status);
	nv[0] = field("grpc-status", number);
	if (!len)
		return 1;
	nv[1] = field_len("grpc-message", message, len);
	return 2;
}

static void submit_trailers(struct lg_grpc_stream *s)
{
	char number[12], message[3 * LG_GRPC_WHY_LEN];
	nghttp2_nv nv[2];
	size_t n = status_fields(s, nv, number, message);

	submitted(s, nghttp2_submit_trailer(lg_h2_session(s->conn->h2), s->id, nv, n));
}

/* A status without messages: one block of headers that is also the last. */
static void submit_refusal(struct lg_grpc_stream *s)
{
	char number[12], message[3 * LG_GRPC_WHY_LEN];
	nghttp2_nv nv[5] = { field(":status", "200"), field("content-type", CONTENT_TYPE),
			     field("grpc-accept-encoding", "identity") };
	size_t n = 3 + status_fields(s, nv + 3, number, message);

	s->responded = true;
	submitted(s, nghttp2_submit_response(lg_h2_session(s->conn->h2), s->id, nv, n, NULL));
}

/* Not gRPC at all: the peer gets an answer in HTTP. */
static void submit_http_error(struct lg_grpc_stream *s, const char *status)
{
	const nghttp2_nv nv[] = { field(":status", status), field("content-length", "0"), field("allow", "POST") };

	s->done = true;
	s->responded = true;
	submitted(s, nghttp2_submit_response(lg_h2_session(s->conn->h2), s->id, nv, N_ELEMS(nv), NULL));
}

static ssize_t on_source(nghttp2_session *session, int32_t id, uint8_t *buf, size_t len, uint32_t *flags,
			 nghttp2_data_source *source, void *arg)
{
	struct lg_grpc_stream *s = source->ptr;
	int n = s->conn->down ? 0 : evbuffer_remove(s->tx, buf, len);

	(void)session;
	(void)id;
	(void)arg;
	if (n < 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	if (n > 0) {
		s->stall_ms = 0;
		account(s);
	}
	if (s->ending && !s->conn->down && !evbuffer_get_length(s->tx)) {
		*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		submit_trailers(s);
		return n;
	}
	if (s->is_half_closed && !evbuffer_get_length(s->tx)) {
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		return n;
	}
	if (n > 0)
		return n;
	s->deferred = true;
	return NGHTTP2_ERR_DEFERRED;
}

static void resume(struct lg_grpc_stream *s)
{
	if (!s->deferred)
		return;
	s->deferred = false;
	submitted(s, nghttp2_session_resume_data(lg_h2_session(s->conn->h2), s->id));
}

/* A peer that does not read is told by a reset, which needs no window; gRPC has a status for this one. */
static void finish_server(struct lg_grpc_stream *s)
{
	bool backlog = evbuffer_get_length(s->tx) > 0;

	if (!s->responded) {
		submit_refusal(s);
		return;
	}
	if (s->status != LG_GRPC_OK) {
		evbuffer_drain(s->tx, evbuffer_get_length(s->tx));
		account(s);
	}
	if (s->status == LG_GRPC_RESOURCE_EXHAUSTED && backlog) {
		reset(s, NGHTTP2_ENHANCE_YOUR_CALM);
		return;
	}
	s->ending = true;
	resume(s);
}

void lg_grpc_stream_finish(struct lg_grpc_stream *s, int status, const char *why)
{
	s->done = true;
	if (s->ending)
		return;
	if (!s->conn->end->is_server) {
		reset(s, NGHTTP2_CANCEL);
	} else {
		s->status = status;
		snprintf(s->why, sizeof(s->why), "%s", why);
		finish_server(s);
	}
	lg_h2_kick(s->conn->h2);
}

/* Both the handlers and the peer learn of it. */
static void fail(struct lg_grpc_stream *s, int status, const char *why)
{
	struct lg_grpc_conn *conn = s->conn;

	lg_grpc_stream_tell_closed(s, status, why);
	/* The handlers may have closed the whole connection. */
	if (conn->end)
		lg_grpc_stream_finish(s, status, why);
}

int lg_grpc_stream_request(struct lg_grpc_stream *s, const char *authority, const char *path)
{
	const struct lg_grpc_end *end = s->conn->end;
	const nghttp2_nv nv[] = {
		field(":method", "POST"),
		field(":scheme", end->is_secure ? "https" : "http"),
		field(":path", path),
		field(":authority", authority),
		field("content-type", CONTENT_TYPE),
		field("te", "trailers"),
		field("user-agent", "leasegate"),
		field("token", end->token ? end->token : ""),
	};
	const nghttp2_data_provider source = { .source = { .ptr = s }, .read_callback = on_source };
	int32_t id;

	id = nghttp2_submit_request(lg_h2_session(s->conn->h2), NULL, nv, N_ELEMS(nv) - !end->token, &source, s);
	if (id < 0)
		return id == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPIPE;
	s->id = id;
	s->is_open = true;
	lg_h2_kick(s->conn->h2);
	return 0;
}

int lg_grpc_send(struct lg_grpc_stream *s, const void *data, size_t len)
{
	uint8_t prefix[LG_GRPC_PREFIX_LEN];

	if (s->done || s->conn->down || s->is_half_closed)
		return -EPIPE;
	if (len > LG_MSG_BYTES_MAX)
		return -EMSGSIZE;
	if (evbuffer_get_length(s->tx) + sizeof(prefix) + len > LG_QUEUE_BYTES_MAX ||
	    s->conn->end->buffered_bytes + sizeof(prefix) + len > LG_GRPC_BUFFERED_MAX)
		return -ENOBUFS;
	lg_grpc_prefix(len, prefix);
	/* Room first: half a message in the queue would be worse than none. */
	if (evbuffer_expand(s->tx, sizeof(prefix) + len) < 0)
		return -ENOMEM;
	evbuffer_add(s->tx, prefix, sizeof(prefix));
	evbuffer_add(s->tx, data, len);
	account(s);
	resume(s);
	lg_h2_kick(s->conn->h2);
	return 0;
}

int lg_grpc_send_last(struct lg_grpc_stream *s, const void *data, size_t len)
{
	int r = lg_grpc_send(s, data, len);

	s->is_half_closed = r == 0;
	return r;
}

bool lg_grpc_is_stalled(const struct lg_grpc_stream *s)
{
	return !s->done && !s->conn->down && lg_h2_is_stalled(s->conn->h2);
}

void lg_grpc_close(struct lg_grpc_stream *s, int status, const char *why)
{
	if (!s->done)
		lg_grpc_stream_finish(s, status, why);
}

void lg_grpc_set_user(struct lg_grpc_stream *s, void *user)
{
	s->user = user;
}

void *lg_grpc_user(const struct lg_grpc_stream *s)
{
	return s->user;
}

const char *lg_grpc_peer(const struct lg_grpc_stream *s)
{
	return s->conn->peer;
}

/* ---- receiving ---- */

static bool is(const char *text, const uint8_t *value, size_t len)
{
	return strlen(text) == len && memcmp(text, value, len) == 0;
}

/* "application/grpc", with or without "+proto" and parameters. */
static bool is_grpc_type(const uint8_t *value, size_t len)
{
	static const char *const types[] = { CONTENT_TYPE "+proto", CONTENT_TYPE };

	for (size_t i = 0; i < N_ELEMS(types); i++) {
		size_t n = strlen(types[i]);

		if (len >= n && memcmp(value, types[i], n) == 0)
			return len == n || value[n] == ';' || value[n] == ' ';
	}
	return false;
}

/* A small decimal number, or `other`. */
static int small_number(const uint8_t *value, size_t len, int other)
{
	int number = 0;

	if (!len || len > 4)
		return other;
	for (size_t i = 0; i < len; i++) {
		if (value[i] < '0' || value[i] > '9')
			return other;
		number = number * 10 + (value[i] - '0');
	}
	return number;
}

void lg_grpc_stream_header(void *stream, const char *name, size_t name_len, const uint8_t *value, size_t value_len)
{
	struct lg_grpc_stream *s = stream;
	const uint8_t *key = (const uint8_t *)name;

	s->header_bytes += name_len + value_len + 32;
	if (s->header_bytes > LG_H2_HEADERS_BYTES_MAX)
		return;
	if (is("content-type", key, name_len)) {
		s->is_grpc = is_grpc_type(value, value_len);
	} else if (is("grpc-encoding", key, name_len)) {
		s->is_encoded = !is("identity", value, value_len);
	} else if (!s->conn->end->is_server) {
		if (is(":status", key, name_len))
			s->http_status = small_number(value, value_len, 0);
		else if (is("grpc-status", key, name_len))
			s->status = small_number(value, value_len, LG_GRPC_UNKNOWN);
		else if (is("grpc-message", key, name_len))
			lg_grpc_message_decode(value, value_len, s->why, sizeof(s->why));
	} else if (is(":path", key, name_len)) {
		if (value_len < sizeof(s->path))
			memcpy(s->path, value, value_len);
	} else if (is(":method", key, name_len)) {
		s->is_post = is("POST", value, value_len);
	} else if (is("te", key, name_len)) {
		s->takes_trailers = is("trailers", value, value_len);
	}
}

static void accept_request(struct lg_grpc_stream *s)
{
	const nghttp2_nv nv[] = { field(":status", "200"), field("content-type", CONTENT_TYPE) };
	const nghttp2_data_provider source = { .source = { .ptr = s }, .read_callback = on_source };
	struct lg_grpc_end *end = s->conn->end;
	int status;

	status = end->handlers.open(end->arg, s, s->path);
	if (s->done)
		return;
	if (status != LG_GRPC_OK) {
		lg_h2_odd(s->conn->h2);
		lg_grpc_stream_finish(s, status, status == LG_GRPC_UNIMPLEMENTED ? "no such method" : "refused");
		return;
	}
	s->is_open = true;
	s->responded = true;
	submitted(s, nghttp2_submit_response(lg_h2_session(s->conn->h2), s->id, nv, N_ELEMS(nv), &source));
}

static void got_request(struct lg_grpc_stream *s)
{
	const char *http_error = NULL;

	if (s->header_bytes > LG_H2_HEADERS_BYTES_MAX)
		http_error = "431";
	else if (!s->is_post)
		http_error = "405";
	else if (!s->is_grpc)
		http_error = "415";
	if (http_error) {
		lg_h2_odd(s->conn->h2);
		submit_http_error(s, http_error);
	} else if (!s->takes_trailers) {
		lg_grpc_stream_finish(s, LG_GRPC_INVALID_ARGUMENT, "the header te: trailers is missing");
	} else if (s->is_encoded) {
		lg_grpc_stream_finish(s, LG_GRPC_UNIMPLEMENTED, "compression is not supported, send grpc-encoding: identity");
	} else {
		accept_request(s);
	}
}

/* As the gRPC specification maps answers of proxies and of servers that are no gRPC servers. */
static int status_of_http(int http_status)
{
	switch (http_status) {
	case 400: return LG_GRPC_INTERNAL;
	case 401: return LG_GRPC_UNAUTHENTICATED;
	case 403: return LG_GRPC_PERMISSION_DENIED;
	case 404: return LG_GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504: return LG_GRPC_UNAVAILABLE;
	}
	return LG_GRPC_UNKNOWN;
}

static void got_response(struct lg_grpc_stream *s)
{
	char why[64];

	if (s->http_status >= 100 && s->http_status < 200)
		return;
	if (s->http_status != 200) {
		snprintf(why, sizeof(why), "the peer answered with HTTP status %d", s->http_status);
		fail(s, status_of_http(s->http_status), why);
	} else if (!s->is_grpc) {
		fail(s, LG_GRPC_UNKNOWN, "the peer's answer is not gRPC");
	} else {
		s->got_headers = true;
	}
}

void lg_grpc_stream_headers(void *stream, bool end)
{
	struct lg_grpc_stream *s = stream;
	bool is_server = s->conn->end->is_server;

	if (is_server && !s->got_headers) {
		s->got_headers = true;
		got_request(s);
	} else if (!is_server && !s->got_headers && !s->done) {
		got_response(s);
	}
	if (end)
		lg_grpc_stream_end(s);
}

static const char *too_long(const struct lg_grpc_stream *s)
{
	return s->conn->end->message_max_bytes ? "a message is longer than allowed" : "a message is longer than 1 MiB";
}

void lg_grpc_stream_data(void *stream, const uint8_t *data, size_t len)
{
	struct lg_grpc_stream *s = stream;
	const uint8_t *msg;
	size_t msg_len;
	int r = 0;

	while (!s->done) {
		struct lg_grpc_end *end = s->conn->end;

		r = lg_grpc_frames_next(&s->rx, &data, &len, end->message_max_bytes ? end->message_max_bytes : LG_MSG_BYTES_MAX, &msg,
					&msg_len);
		if (r <= 0)
			break;
		end->handlers.message(end->arg, s, msg, msg_len);
	}
	if (s->done)
		return;
	if (r == -EMSGSIZE)
		fail(s, LG_GRPC_RESOURCE_EXHAUSTED, too_long(s));
	else if (r == -EOPNOTSUPP)
		fail(s, LG_GRPC_UNIMPLEMENTED, "compressed messages are not supported");
	else if (r == -EPROTO)
		fail(s, LG_GRPC_INTERNAL, "a message starts with an unknown flag");
	else if (r < 0)
		fail(s, LG_GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else if (!account(s))
		fail(s, LG_GRPC_RESOURCE_EXHAUSTED, "too many unfinished messages");
}

static void end_of_client(struct lg_grpc_stream *s)
{
	if (!lg_grpc_frames_is_empty(&s->rx))
		fail(s, LG_GRPC_INTERNAL, "the stream ended inside a message");
	else
		fail(s, LG_GRPC_OK, "the peer has finished");
}

void lg_grpc_stream_end(void *stream)
{
	struct lg_grpc_stream *s = stream;

	if (s->done)
		return;
	if (s->conn->end->is_server)
		end_of_client(s);
	else if (s->status < 0)
		fail(s, LG_GRPC_UNKNOWN, "the peer ended the stream without a status");
	else
		fail(s, s->status, s->why);
}

/* Our half is closed. A peer that keeps its half open holds a stream for nothing. */
void lg_grpc_stream_sent_end(void *stream)
{
	struct lg_grpc_stream *s = stream;

	if (s->conn->end->is_server && !nghttp2_session_get_stream_remote_close(lg_h2_session(s->conn->h2), s->id))
		reset(s, NGHTTP2_NO_ERROR);
}

static int status_of_reset(uint32_t error)
{
	switch (error) {
	case NGHTTP2_REFUSED_STREAM: return LG_GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL: return LG_GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM: return LG_GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY: return LG_GRPC_PERMISSION_DENIED;
	}
	return LG_GRPC_INTERNAL;
}

void lg_grpc_stream_closed(void *stream, uint32_t error)
{
	struct lg_grpc_stream *s = stream;
	char why[96];

	snprintf(why, sizeof(why), "the stream was reset: %s", nghttp2_http2_strerror(error));
	lg_grpc_stream_tell_closed(s, status_of_reset(error), why);
	lg_grpc_stream_free(s);
}

/* ---- time ---- */

void lg_grpc_stream_tick(struct lg_grpc_stream *s, uint32_t elapsed_ms)
{
	if (!s->ending && !evbuffer_get_length(s->tx)) {
		s->stall_ms = 0;
		return;
	}
	s->stall_ms += elapsed_ms;
	if (s->stall_ms < LG_GRPC_STALL_MS)
		return;
	s->stall_ms = 0;
	if (s->ending)
		reset(s, NGHTTP2_ENHANCE_YOUR_CALM);
	else
		fail(s, LG_GRPC_RESOURCE_EXHAUSTED, "the peer does not read what is sent to it");
}

bool lg_grpc_identity(const struct lg_grpc_stream *stream, struct lg_tls_name *ret)
{
	return lg_h2_peer(stream->conn->h2, ret);
}
