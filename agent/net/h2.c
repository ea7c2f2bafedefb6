// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A connection is OPEN, then LINGERs when there is something left to tell the peer (GOAWAY, a last status), then it is freed.
 * nghttp2 must not be entered twice nor freed while it runs, and events of ours run inside of it. So `depth` counts how deep we are,
 * whatever ends a connection only notes that, and settle() carries it out when depth is back at 0. All sending happens in events of the
 * loop, lg_h2_kick() only asks for one: thus a caller of lg_h2_kick() never sees his streams vanish under his hands.
 */
#include "net/h2.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/tls.h"

#define ACKS_MAX 256		/* answers to pings and settings that wait for a peer that does not read */
#define SETTINGS_MAX 32		/* settings in one frame */
#define CONTINUATIONS_MAX 8	/* frames of one header block */
#define RESETS_BURST 100	/* streams a peer may reset at once, */
#define RESETS_PER_S 10		/* and for ever */
#define STALLED_MS 45u		/* without an acknowledgement, and one and a half round trips: TCP delays them by 40 */
#define WHY_LEN 192
#define GOODBYE_LEN 96

enum state { OPEN, LINGER };

struct lg_h2 {
	nghttp2_session *session;
	struct bufferevent *bev;
	SSL *ssl;			/* the bufferevent's; NULL: clear text */
	struct event *kick;
	const struct lg_h2_events *events;
	void *arg;
	struct lg_h2_patience patience;
	enum state state;
	unsigned int depth;
	bool is_server;
	bool attached;
	bool is_stranger;		/* ended within the handshake of TLS */
	bool got_settings;
	bool shut;			/* lingering: our half of the connection is closed */
	bool ending;			/* why is set */
	bool speechless;		/* ending: without GOAWAY */
	bool over;			/* to be freed, */
	bool muted;			/* the owner wants no event but gone() */
	uint64_t unacked_ns;		/* since when there has been something not acknowledged, as far as was looked; 0: nothing */
	uint32_t error;
	uint32_t age_ms;
	uint32_t silent_ms;
	uint32_t ping_ms;		/* since the last ping */
	uint32_t idle_ms;
	uint32_t linger_ms;
	uint32_t n_streams;
	uint32_t odd_left;
	char why[WHY_LEN];
	char farewell[WHY_LEN];		/* over: the text of our GOAWAY, "" for none */
	char goodbye[GOODBYE_LEN];	/* the text of the peer's GOAWAY */
};

__attribute__((format(printf, 4, 5))) static void note_end(struct lg_h2 *h2, uint32_t error, bool speechless,
							   const char *fmt, ...)
{
	va_list ap;

	if (h2->ending)
		return;
	h2->ending = true;
	h2->error = error;
	h2->speechless = speechless;
	va_start(ap, fmt);
	vsnprintf(h2->why, sizeof(h2->why), fmt, ap);
	va_end(ap);
}

/* ---- out ---- */

static void fill(struct lg_h2 *h2)
{
	struct evbuffer *out = bufferevent_get_output(h2->bev);

	h2->depth++;
	while (evbuffer_get_length(out) < LG_H2_OUT_BYTES) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(h2->session, &data);

		if (n < 0)
			note_end(h2, 0, true, "cannot send: %s", nghttp2_strerror((int)n));
		if (n <= 0)
			break;
		if (evbuffer_add(out, data, (size_t)n) < 0) {
			note_end(h2, 0, true, "cannot send: out of memory");
			break;
		}
	}
	h2->depth--;
}

/* ---- the end ---- */

static void destroy(struct lg_h2 *h2)
{
	if (h2->session)
		nghttp2_session_del(h2->session);
	if (h2->bev)
		bufferevent_free(h2->bev);
	if (h2->kick)
		event_free(h2->kick);
	free(h2);
}

static void submit_goaway(struct lg_h2 *h2, uint32_t error, const char *text)
{
	int32_t last = nghttp2_session_get_last_proc_stream_id(h2->session);

	nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE, last, error, (const uint8_t *)text, strlen(text));
}

/* As much of a buffer as the socket takes at once. */
static void write_encrypted(struct lg_h2 *h2, struct evbuffer *out)
{
	struct evbuffer_iovec piece;
	int n;

	while (SSL_is_init_finished(h2->ssl) && evbuffer_peek(out, -1, NULL, &piece, 1) > 0 && piece.iov_len) {
		n = SSL_write(h2->ssl, piece.iov_base, piece.iov_len > INT_MAX ? INT_MAX : (int)piece.iov_len);
		if (n <= 0)
			break;
		evbuffer_drain(out, (size_t)n);
	}
	SSL_shutdown(h2->ssl);
	ERR_clear_error();
}

static void say_farewell(struct lg_h2 *h2)
{
	struct evbuffer *out = bufferevent_get_output(h2->bev);

	/* Last statuses of streams go before: some peers drop what follows a GOAWAY when the connection ends right after it. */
	fill(h2);
	submit_goaway(h2, NGHTTP2_NO_ERROR, h2->farewell);
	fill(h2);
	/* The bufferevent keeps the front of its buffer for itself, but it will not get to write any more. */
	evbuffer_unfreeze(out, 1);
	if (h2->ssl)
		write_encrypted(h2, out);
	else
		evbuffer_write(out, bufferevent_getfd(h2->bev));
}

static void end_now(struct lg_h2 *h2)
{
	if (h2->farewell[0] && h2->attached && h2->state == OPEN)
		say_farewell(h2);
	/* The session goes first: it may hold pointers into streams that the owner frees in gone(). */
	nghttp2_session_del(h2->session);
	h2->session = NULL;
	h2->events->gone(h2->arg);
	destroy(h2);
}

static void begin_linger(struct lg_h2 *h2)
{
	h2->state = LINGER;
	if (h2->speechless || !h2->attached)
		h2->over = true;
	else
		submit_goaway(h2, h2->error, h2->why);
	h2->depth++;
	h2->events->down(h2->arg, h2->why);
	h2->depth--;
}

static void linger(struct lg_h2 *h2)
{
	fill(h2);
	if (evbuffer_get_length(bufferevent_get_output(h2->bev)) || h2->shut)
		return;
	h2->shut = true;
	if (h2->ssl && SSL_is_init_finished(h2->ssl))
		SSL_shutdown(h2->ssl);
	ERR_clear_error();
	/* Half closed, so that the peer reads our last words before it sees a reset for bytes we did not read. */
	shutdown(bufferevent_getfd(h2->bev), SHUT_WR);
}

/* Ends every entry from the loop: sends, and does what was put off. h2 may be gone afterwards. */
static void settle(struct lg_h2 *h2)
{
	if (h2->state == OPEN && !h2->over) {
		if (h2->attached)
			fill(h2);
		if (h2->attached && !nghttp2_session_want_read(h2->session) &&
		    !nghttp2_session_want_write(h2->session))
			note_end(h2, 0, true, "the peer ended the connection: %s", h2->goodbye);
		if (h2->ending)
			begin_linger(h2);
	}
	if (h2->state == LINGER && !h2->over)
		linger(h2);
	if (h2->over)
		end_now(h2);
}

void lg_h2_fail(struct lg_h2 *h2, uint32_t error, const char *why)
{
	note_end(h2, error, false, "%s", why);
	lg_h2_kick(h2);
}

void lg_h2_drop(struct lg_h2 *h2, const char *why)
{
	note_end(h2, 0, true, "%s", why);
	lg_h2_kick(h2);
}

void lg_h2_odd(struct lg_h2 *h2)
{
	if (h2->odd_left)
		h2->odd_left--;
	else
		lg_h2_fail(h2, NGHTTP2_ENHANCE_YOUR_CALM, "too many frames that carry nothing");
}

static void odd_earn(struct lg_h2 *h2, uint64_t n)
{
	h2->odd_left = h2->odd_left + n > LG_H2_ODD_MAX ? LG_H2_ODD_MAX : (uint32_t)(h2->odd_left + n);
}

void lg_h2_close(struct lg_h2 *h2, const char *farewell)
{
	h2->muted = true;
	h2->over = true;
	if (farewell)
		snprintf(h2->farewell, sizeof(h2->farewell), "%s", farewell);
	if (h2->depth)
		lg_h2_kick(h2);
	else
		end_now(h2);
}

/* ---- in ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct lg_h2 *h2 = arg;
	void *stream;

	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || h2->muted || h2->state != OPEN)
		return 0;
	stream = h2->events->begin(h2->arg, frame->hd.stream_id);
	if (!stream)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	h2->n_streams++;
	return nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, stream);
}

static void *stream_of(struct lg_h2 *h2, int32_t id)
{
	return !h2->muted && h2->state == OPEN ? nghttp2_session_get_stream_user_data(h2->session, id) : NULL;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_len,
		     const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct lg_h2 *h2 = arg;
	void *stream = stream_of(h2, frame->hd.stream_id);

	(void)session;
	(void)flags;
	if (stream)
		h2->events->header(stream, (const char *)name, name_len, value, value_len);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len, void *arg)
{
	struct lg_h2 *h2 = arg;
	void *stream = stream_of(h2, id);

	(void)session;
	(void)flags;
	if (stream && len)
		h2->events->data(stream, data, len);
	return 0;
}

static void got_goaway(struct lg_h2 *h2, const nghttp2_goaway *goaway)
{
	size_t n = 0;

	while (n < goaway->opaque_data_len && n < sizeof(h2->goodbye) - 1) {
		uint8_t byte = goaway->opaque_data[n];

		h2->goodbye[n++] = (char)(byte >= 0x20 && byte <= 0x7e ? byte : '?');
	}
	h2->goodbye[n] = '\0';
	if (!n)
		snprintf(h2->goodbye, sizeof(h2->goodbye), "%s", nghttp2_http2_strerror(goaway->error_code));
	if (goaway->error_code != NGHTTP2_NO_ERROR)
		note_end(h2, 0, true, "the peer ended the connection: %s", h2->goodbye);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct lg_h2 *h2 = arg;
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM, ack = frame->hd.flags & NGHTTP2_FLAG_ACK;
	void *stream = stream_of(h2, frame->hd.stream_id);

	(void)session;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		/* Of answers there are no more than we have asked for. */
		if (stream && !h2->is_server)
			odd_earn(h2, LG_H2_ODD_PER_ANSWER);
		if (stream)
			h2->events->headers(stream, end);
		break;
	case NGHTTP2_DATA:
		if (!end && !frame->hd.length)
			lg_h2_odd(h2);
		else if (end && stream)
			h2->events->end(stream);
		break;
	case NGHTTP2_SETTINGS:
		h2->got_settings = true;
		if (!ack)
			lg_h2_odd(h2);
		break;
	case NGHTTP2_PING:
		if (!ack)
			lg_h2_odd(h2);
		break;
	case NGHTTP2_PRIORITY:
	case NGHTTP2_RST_STREAM:
		lg_h2_odd(h2);
		break;
	case NGHTTP2_GOAWAY:
		got_goaway(h2, &frame->goaway);
		break;
	}
	return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg)
{
	struct lg_h2 *h2 = arg;

	(void)session;
	(void)frame;
	(void)error;
	lg_h2_odd(h2);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
	struct lg_h2 *h2 = arg;
	void *stream = nghttp2_session_get_stream_user_data(session, id);

	if (stream && h2->n_streams)
		h2->n_streams--;
	if (stream && !h2->muted)
		h2->events->closed(stream, error);
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct lg_h2 *h2 = arg;
	void *stream = stream_of(h2, frame->hd.stream_id);

	(void)session;
	if (stream && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		h2->events->sent_end(stream);
	/* nghttp2 found an error of the peer and says so: it wants no more bytes after this. */
	if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
		note_end(h2, frame->goaway.error_code, false, "the peer broke HTTP/2: %s",
			 nghttp2_http2_strerror(frame->goaway.error_code));
	return 0;
}

static void receive(struct lg_h2 *h2, struct evbuffer *in)
{
	struct evbuffer_iovec piece;

	while (!h2->ending && evbuffer_peek(in, -1, NULL, &piece, 1) > 0 && piece.iov_len) {
		ssize_t n = nghttp2_session_mem_recv(h2->session, piece.iov_base, piece.iov_len);

		if (n == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
			note_end(h2, NGHTTP2_PROTOCOL_ERROR, false, "the peer does not speak HTTP/2");
		else if (n == NGHTTP2_ERR_FLOODED)
			note_end(h2, 0, true, "the peer sends pings and settings and does not read the answers");
		else if (n < 0)
			note_end(h2, NGHTTP2_INTERNAL_ERROR, false, "cannot receive: %s", nghttp2_strerror((int)n));
		if (n < 0)
			return;
		evbuffer_drain(in, (size_t)n);
		/* nghttp2 does not read past an error: the rest is the peer's loss. */
		if (!n || !nghttp2_session_want_read(h2->session))
			return;
	}
}

static void on_readable(struct bufferevent *bev, void *arg)
{
	struct lg_h2 *h2 = arg;
	struct evbuffer *in = bufferevent_get_input(bev);

	h2->silent_ms = 0;
	h2->depth++;
	if (h2->state == OPEN)
		receive(h2, in);
	if (h2->state != OPEN || h2->ending)
		evbuffer_drain(in, evbuffer_get_length(in));
	h2->depth--;
	settle(h2);
}

static void on_writable(struct bufferevent *bev, void *arg)
{
	(void)bev;
	settle(arg);
}

static void note_broken_tls(struct lg_h2 *h2, struct bufferevent *bev, short what, bool is_greeted, const char *system_error)
{
	unsigned long error = 0, next;
	char why[WHY_LEN - 32];

	while ((next = bufferevent_get_openssl_error(bev)))
		error = next;
	lg_tls_why(h2->ssl, error, why, sizeof(why));
	if (is_greeted)
		note_end(h2, 0, true, "the connection broke: %s", error ? why : system_error);
	else if (what & BEV_EVENT_EOF)
		note_end(h2, 0, true, "TLS: the peer closed the connection in the handshake: does it speak TLS?");
	else
		note_end(h2, 0, true, "TLS: %s", why);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct lg_h2 *h2 = arg;
	const char *error = strerror(errno);
	bool is_greeted = !h2->ssl || SSL_is_init_finished(h2->ssl);

	if (what & BEV_EVENT_CONNECTED) {
		h2->silent_ms = 0;
		if (h2->events->secured)
			h2->events->secured(h2->arg);
		settle(h2);
		return;
	}
	h2->is_stranger = !is_greeted;
	if (h2->state == LINGER)
		h2->over = true;
	else if (h2->ssl && !(what & BEV_EVENT_EOF && is_greeted))
		note_broken_tls(h2, bev, what, is_greeted, error);
	else if (what & BEV_EVENT_EOF)
		note_end(h2, 0, true, "the peer closed the connection%s%s", h2->goodbye[0] ? ": " : "", h2->goodbye);
	else
		note_end(h2, 0, true, "the connection broke: %s", error);
	settle(h2);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	settle(arg);
}

void lg_h2_kick(struct lg_h2 *h2)
{
	event_active(h2->kick, EV_TIMEOUT, 0);
}

bool lg_h2_is_stalled(struct lg_h2 *h2)
{
	uint64_t now_ns = lg_clock_now_ns(), limit_ms;
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int fd = bufferevent_getfd(h2->bev), unacked = 0;

	if (!h2->attached || ioctl(fd, SIOCOUTQ, &unacked) < 0 || unacked <= 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0) {
		h2->unacked_ns = 0;
		return false;
	}
	if (!h2->unacked_ns)
		h2->unacked_ns = now_ns;
	limit_ms = STALLED_MS + info.tcpi_rtt / 1000 * 3 / 2;
	return now_ns - h2->unacked_ns > limit_ms * LG_NS_PER_MS && info.tcpi_last_ack_recv > limit_ms;
}

/* ---- time ---- */

static uint32_t later(uint32_t ms, uint32_t elapsed_ms)
{
	return ms > UINT32_MAX - elapsed_ms ? UINT32_MAX : ms + elapsed_ms;
}

static void check_patience(struct lg_h2 *h2)
{
	const struct lg_h2_patience *p = &h2->patience;

	if (p->hello_ms && !h2->got_settings && h2->age_ms >= p->hello_ms)
		lg_h2_fail(h2, NGHTTP2_SETTINGS_TIMEOUT, "no HTTP/2 settings came in time");
	else if (p->dead_ms && h2->silent_ms >= p->dead_ms)
		lg_h2_drop(h2, "the peer gives no sign of life");
	else if (p->idle_ms && !h2->n_streams && h2->idle_ms >= p->idle_ms)
		lg_h2_fail(h2, NGHTTP2_NO_ERROR, "idle");
	else if (p->ping_ms && h2->silent_ms >= p->ping_ms && h2->ping_ms >= p->ping_ms) {
		h2->ping_ms = 0;
		nghttp2_submit_ping(h2->session, NGHTTP2_FLAG_NONE, NULL);
	}
}

void lg_h2_tick(struct lg_h2 *h2, uint32_t elapsed_ms)
{
	odd_earn(h2, (uint64_t)elapsed_ms * LG_H2_ODD_PER_S / 1000);
	if (!h2->attached)
		return;
	h2->age_ms = later(h2->age_ms, elapsed_ms);
	h2->silent_ms = later(h2->silent_ms, elapsed_ms);
	h2->ping_ms = later(h2->ping_ms, elapsed_ms);
	h2->idle_ms = h2->n_streams ? 0 : later(h2->idle_ms, elapsed_ms);
	if (h2->state == LINGER) {
		h2->linger_ms = later(h2->linger_ms, elapsed_ms);
		h2->over = h2->over || h2->linger_ms >= LG_H2_LINGER_MS;
	} else {
		check_patience(h2);
		h2->depth++;
		h2->events->tick(h2->arg, elapsed_ms);
		h2->depth--;
	}
	settle(h2);
}

/* ---- the beginning ---- */

static int new_options(nghttp2_option **ret)
{
	nghttp2_option *o;

	if (nghttp2_option_new(&o) != 0)
		return -ENOMEM;
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_max_settings(o, SETTINGS_MAX);
	nghttp2_option_set_max_continuations(o, CONTINUATIONS_MAX);
	nghttp2_option_set_stream_reset_rate_limit(o, RESETS_BURST, RESETS_PER_S);
	nghttp2_option_set_max_reserved_remote_streams(o, 0);
	nghttp2_option_set_no_closed_streams(o, 1);
	*ret = o;
	return 0;
}

static int new_callbacks(nghttp2_session_callbacks **ret)
{
	nghttp2_session_callbacks *c;

	if (nghttp2_session_callbacks_new(&c) != 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_send);
	*ret = c;
	return 0;
}

static int new_session(struct lg_h2 *h2)
{
	nghttp2_session_callbacks *callbacks;
	nghttp2_option *options;
	int r;

	r = new_options(&options);
	if (r < 0)
		return r;
	r = new_callbacks(&callbacks);
	if (r == 0) {
		r = h2->is_server ? nghttp2_session_server_new2(&h2->session, callbacks, h2, options) :
				    nghttp2_session_client_new2(&h2->session, callbacks, h2, options);
		nghttp2_session_callbacks_del(callbacks);
	}
	nghttp2_option_del(options);
	return r == 0 ? 0 : -ENOMEM;
}

static int submit_settings(struct lg_h2 *h2)
{
	const nghttp2_settings_entry server[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LG_H2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LG_H2_WINDOW_STREAM },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LG_H2_HEADERS_BYTES_MAX },
	};
	const nghttp2_settings_entry client[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LG_H2_WINDOW_STREAM },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LG_H2_HEADERS_BYTES_MAX },
	};
	int r;

	r = nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, h2->is_server ? server : client,
				    h2->is_server ? N_ELEMS(server) : N_ELEMS(client));
	if (r == 0)
		r = nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, LG_H2_WINDOW_CONNECTION);
	return r == 0 ? 0 : -ENOMEM;
}

static void set_up(struct lg_h2 *h2)
{
	bufferevent_setcb(h2->bev, on_readable, on_writable, on_event, h2);
	bufferevent_setwatermark(h2->bev, EV_WRITE, LG_H2_OUT_BYTES / 4, 0);
}

int lg_h2_new(struct event_base *base, bool is_server, const struct lg_h2_patience *patience,
	      const struct lg_h2_events *events, void *arg, struct lg_h2 **ret_h2)
{
	struct lg_h2 *h2;

	h2 = calloc(1, sizeof(*h2));
	if (!h2)
		return -ENOMEM;
	h2->is_server = is_server;
	h2->patience = *patience;
	h2->events = events;
	h2->arg = arg;
	h2->odd_left = LG_H2_ODD_MAX;
	h2->kick = event_new(base, -1, 0, on_kick, h2);
	h2->bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	if (!h2->kick || !h2->bev || new_session(h2) < 0 || submit_settings(h2) < 0) {
		destroy(h2);
		return -ENOMEM;
	}
	set_up(h2);
	*ret_h2 = h2;
	return 0;
}

/* Turns the bufferevent without a socket into one that speaks TLS on this. */
static int encrypt(struct lg_h2 *h2, int fd, SSL *ssl)
{
	struct bufferevent *bev;

	/* Whether a failure frees it is not said: our reference keeps it until then. */
	SSL_up_ref(ssl);
	bev = bufferevent_openssl_socket_new(bufferevent_get_base(h2->bev), fd, ssl,
					     h2->is_server ? BUFFEREVENT_SSL_ACCEPTING : BUFFEREVENT_SSL_CONNECTING, BEV_OPT_CLOSE_ON_FREE);
	SSL_free(ssl);
	if (!bev)
		return -ENOMEM;
	/* Frames say where they end: a connection cut off in between is noticed without TLS's word for it. */
	bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	bufferevent_free(h2->bev);
	h2->bev = bev;
	h2->ssl = ssl;
	set_up(h2);
	return 0;
}

int lg_h2_attach(struct lg_h2 *h2, int fd, struct ssl_st *ssl)
{
	const int on = 1;
	int r;

	r = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 && errno != EOPNOTSUPP ? -errno : 0;
	if (r == 0 && ssl)
		r = encrypt(h2, fd, TAKE(ssl));
	else if (r == 0)
		r = bufferevent_setfd(h2->bev, fd) < 0 ? -ENOMEM : 0;
	SSL_free(ssl);
	if (r == 0 && bufferevent_enable(h2->bev, EV_READ | EV_WRITE) < 0) {
		bufferevent_setfd(h2->bev, -1);
		r = -ENOMEM;
	}
	if (r < 0)
		return r;
	h2->attached = true;
	lg_h2_kick(h2);
	return 0;
}

bool lg_h2_peer(const struct lg_h2 *h2, struct lg_tls_name *ret)
{
	return h2->ssl && lg_tls_peer(h2->ssl, ret);
}

bool lg_h2_is_stranger(const struct lg_h2 *h2)
{
	return h2->is_stranger;
}

nghttp2_session *lg_h2_session(struct lg_h2 *h2)
{
	return h2->session;
}
