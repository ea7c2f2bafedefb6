// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The server's half of gRPC against a raw peer, on a socket pair and on time that is ours. */
#include "net/grpc_conn.h"

#include "leasegate/bounds.h"
#include "tests/unit/net/raw_peer.h"

struct fixture {
	struct net_loop n;
	struct lg_grpc_end end;
	struct lg_grpc_conn *conn;
	struct raw_peer peer;
	struct lg_grpc_stream *stream;	/* the one that was accepted last */
	unsigned int n_opened, n_messages, n_closed, n_gone;
	size_t message_bytes;
	int status;
	char why[256];
	void (*on_message)(struct fixture *f, struct lg_grpc_stream *stream, const uint8_t *data, size_t len);
};

static int on_open(void *arg, struct lg_grpc_stream *stream, const char *path)
{
	struct fixture *f = arg;

	if (strcmp(path, "/test.Test/Call") != 0)
		return LG_GRPC_UNIMPLEMENTED;
	f->n_opened++;
	f->stream = stream;
	lg_grpc_set_user(stream, f);
	return 0;
}

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct fixture *f = arg;

	assert_ptr_equal(lg_grpc_user(stream), f);
	f->n_messages++;
	f->message_bytes += len;
	if (f->on_message)
		f->on_message(f, stream, data, len);
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct fixture *f = arg;

	(void)stream;
	f->n_closed++;
	f->status = status;
	snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_gone(void *arg, struct lg_grpc_conn *conn)
{
	struct fixture *f = arg;

	assert_ptr_equal(conn, f->conn);
	f->n_gone++;
	f->conn = NULL;
}

static const struct lg_h2_patience patience = { .hello_ms = 10000, .ping_ms = 10000, .dead_ms = 20000, .idle_ms = 60000 };

static void begin(struct fixture *f)
{
	int pair[2];

	*f = (struct fixture){ .n = net_loop_new(), .end = { .handlers = { on_open, on_message, on_closed }, .is_server = true } };
	f->end.arg = f;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(lg_grpc_conn_new(lg_loop_base(f->n.loop), &f->end, &patience, on_gone, f, &f->conn), 0);
	assert_int_equal(lg_grpc_conn_attach(f->conn, pair[0], "192.0.2.1:4711", NULL), 0);
	raw_init(&f->peer, pair[1]);
	raw_preface(&f->peer);
}

static void begin_stream(struct fixture *f)
{
	begin(f);
	raw_request(&f->peer, 1, "/test.Test/Call");
	RAW_WAIT(&f->n, &f->peer, f->peer.n_frames[HEADERS] == 1);
	assert_int_equal(f->n_opened, 1);
}

static void end(struct fixture *f)
{
	if (f->conn)
		lg_grpc_conn_close(f->conn, "bye");
	assert_int_equal(f->n_gone, 1);
	assert_true(f->n_closed <= f->n_opened);
	raw_fini(&f->peer);
	net_loop_free(&f->n);
}

static void echo(struct fixture *f, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	(void)f;
	assert_int_equal(lg_grpc_send(stream, data, len), 0);
}

/* Waits for trailers, and checks the status in them. */
static void check_status(struct fixture *f, int status, const char *message)
{
	char want[8];

	RAW_WAIT(&f->n, &f->peer, raw_header(&f->peer, "grpc-status")[0]);
	snprintf(want, sizeof(want), "%d", status);
	assert_string_equal(raw_header(&f->peer, "grpc-status"), want);
	assert_string_equal(raw_header(&f->peer, "grpc-message"), message);
}

static void a_good_request_is_answered_at_once(void **state)
{
	struct fixture f;

	(void)state;
	begin_stream(&f);
	assert_string_equal(raw_header(&f.peer, ":status"), "200");
	assert_string_equal(raw_header(&f.peer, "content-type"), "application/grpc");
	assert_string_equal(lg_grpc_peer(f.stream), "192.0.2.1:4711");
	end(&f);
}

static void a_message_that_comes_byte_by_byte_in_frames_of_one_byte_is_one_message(void **state)
{
	static const uint8_t message[] = { 0, 0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o' };
	struct fixture f;
	uint8_t wire[16];

	(void)state;
	begin_stream(&f);
	f.on_message = echo;
	for (size_t i = 0; i < sizeof(message); i++) {
		size_t n = raw_frame_put(wire, DATA, 0, 1, message + i, 1);

		assert_int_equal(f.n_messages, 0);
		for (size_t k = 0; k < n; k++) {
			raw_send(&f.peer, wire + k, 1);
			for (int turn = 0; turn < 2; turn++)
				event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
		}
	}
	RAW_WAIT(&f.n, &f.peer, f.peer.data_bytes == sizeof(message));
	assert_memory_equal(f.peer.data, message, sizeof(message));
	assert_int_equal(f.n_messages, 1);
	end(&f);
}

static void many_messages_in_one_frame_are_many(void **state)
{
	struct fixture f;
	uint8_t body[100 * 6];

	(void)state;
	begin_stream(&f);
	for (size_t i = 0; i < 100; i++) {
		lg_grpc_prefix(1, body + i * 6);
		body[i * 6 + 5] = (uint8_t)i;
	}
	raw_frame(&f.peer, DATA, 0, 1, body, sizeof(body));
	WAIT_FOR(f.n.loop, f.n_messages == 100);
	assert_int_equal(f.message_bytes, 100);
	end(&f);
}

#define CALL ":method", "POST", ":scheme", "http", ":path", "/test.Test/Call", ":authority", "a"
#define GRPC "content-type", "application/grpc"
#define TE "te", "trailers"

static void a_request_that_is_no_grpc_is_answered_in_http(void **state)
{
	static const struct {
		const char *fields[24];
		const char *status;
	} rows[] = {
		{ { ":method", "GET", ":scheme", "http", ":path", "/test.Test/Call", ":authority", "a", GRPC, TE }, "405" },
		{ { ":method", "PUT", ":scheme", "http", ":path", "/test.Test/Call", ":authority", "a", GRPC, TE }, "405" },
		{ { CALL, "content-type", "application/json", TE }, "415" },
		{ { CALL, "content-type", "application/grpcx", TE }, "415" },
		{ { CALL, "content-type", "application/grpc+json", TE }, "415" },
		{ { CALL, "content-type", "application/grp", TE }, "415" },
		{ { CALL, TE }, "415" },
		{ { CALL, GRPC, TE }, "200" },
		{ { CALL, "content-type", "application/grpc+proto", TE }, "200" },
		{ { CALL, "content-type", "application/grpc; charset=utf-8", TE }, "200" },
		{ { CALL, "content-type", "application/grpc+proto;x=y", TE }, "200" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct fixture f;

		begin(&f);
		raw_headers(&f.peer, 1, 0, rows[i].fields);
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[HEADERS] == 1);
		if (strcmp(raw_header(&f.peer, ":status"), rows[i].status) != 0)
			fail_msg("row %zu: %s", i, f.peer.headers);
		assert_int_equal(f.n_opened, strcmp(rows[i].status, "200") == 0);
		if (!f.n_opened)
			RAW_WAIT(&f.n, &f.peer, f.peer.reset_error == NGHTTP2_NO_ERROR);
		end(&f);
	}
}

static void a_request_that_cannot_be_served_gets_its_status_without_messages(void **state)
{
	static const struct {
		const char *fields[24];
		int status;
		const char *message;
	} rows[] = {
		{ { CALL, GRPC }, LG_GRPC_INVALID_ARGUMENT, "the header te: trailers is missing" },
		{ { CALL, GRPC, TE, "grpc-encoding", "gzip" },
		  LG_GRPC_UNIMPLEMENTED,
		  "compression is not supported, send grpc-encoding: identity" },
		{ { ":method", "POST", ":scheme", "http", ":path", "/test.Test/Other", ":authority", "a", GRPC, TE },
		  LG_GRPC_UNIMPLEMENTED,
		  "no such method" },
		{ { ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a", GRPC, TE },
		  LG_GRPC_UNIMPLEMENTED,
		  "no such method" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct fixture f;

		begin(&f);
		raw_headers(&f.peer, 1, 0, rows[i].fields);
		check_status(&f, rows[i].status, rows[i].message);
		assert_string_equal(raw_header(&f.peer, ":status"), "200");
		assert_string_equal(raw_header(&f.peer, "grpc-accept-encoding"), "identity");
		assert_int_equal(f.n_opened, 0);
		assert_int_equal(f.peer.n_frames[HEADERS], 1);
		end(&f);
	}
}

static void a_path_is_not_cut_to_one_that_is_served(void **state)
{
	char path[LG_GRPC_PATH_LEN + 20];
	struct fixture f;

	(void)state;
	begin(&f);
	memset(path, 'a', sizeof(path) - 1);
	memcpy(path, "/test.Test/Call", 15);
	path[sizeof(path) - 1] = '\0';
	raw_request(&f.peer, 1, path);
	check_status(&f, LG_GRPC_UNIMPLEMENTED, "no such method");
	end(&f);
}

static void headers_above_8_kib_are_refused(void **state)
{
	/* Each of the 7 fields costs 32 on top of its name and value. */
	static const size_t base = 7 + 4 + 7 + 4 + 5 + 15 + 10 + 1 + 12 + 16 + 2 + 8 + 1 + 7 * 32;
	static char value[LG_H2_HEADERS_BYTES_MAX];
	const char *const fields[] = { CALL, GRPC, TE, "x", value, NULL };

	(void)state;
	memset(value, 'v', sizeof(value));
	for (int over = 0; over < 2; over++) {
		struct fixture f;

		value[LG_H2_HEADERS_BYTES_MAX - base + (size_t)over] = '\0';
		begin(&f);
		raw_headers(&f.peer, 1, 0, fields);
		value[LG_H2_HEADERS_BYTES_MAX - base + (size_t)over] = 'v';
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[HEADERS] == 1);
		assert_string_equal(raw_header(&f.peer, ":status"), over ? "431" : "200");
		end(&f);
	}
}

static void bad_messages_end_the_stream_with_a_status(void **state)
{
	static const struct {
		uint8_t prefix[LG_GRPC_PREFIX_LEN];
		int status;
		const char *message;
	} rows[] = {
		{ { 1, 0, 0, 0, 1 }, LG_GRPC_UNIMPLEMENTED, "compressed messages are not supported" },
		{ { 7, 0, 0, 0, 1 }, LG_GRPC_INTERNAL, "a message starts with an unknown flag" },
		{ { 0, 0, 0x10, 0, 1 }, LG_GRPC_RESOURCE_EXHAUSTED, "a message is longer than 1 MiB" },
		{ { 0, 0xff, 0xff, 0xff, 0xff }, LG_GRPC_RESOURCE_EXHAUSTED, "a message is longer than 1 MiB" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct fixture f;

		begin_stream(&f);
		raw_frame(&f.peer, DATA, 0, 1, rows[i].prefix, LG_GRPC_PREFIX_LEN);
		check_status(&f, rows[i].status, rows[i].message);
		assert_int_equal(f.n_closed, 1);
		assert_int_equal(f.status, rows[i].status);
		assert_string_equal(f.why, rows[i].message);
		/* The peer kept its half open: the stream is closed all the same. */
		RAW_WAIT(&f.n, &f.peer, f.peer.reset_error == NGHTTP2_NO_ERROR);
		end(&f);
	}
}

static void a_message_of_1_mib_is_the_longest(void **state)
{
	static uint8_t body[16384];
	struct fixture f;
	size_t left = LG_MSG_BYTES_MAX;

	(void)state;
	begin_stream(&f);
	lg_grpc_prefix(LG_MSG_BYTES_MAX, body);
	raw_frame(&f.peer, DATA, 0, 1, body, LG_GRPC_PREFIX_LEN);
	while (left) {
		raw_frame(&f.peer, DATA, 0, 1, body, sizeof(body));
		left -= sizeof(body);
		for (int turn = 0; turn < 6; turn++)
			event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
		raw_receive(&f.peer);
	}
	WAIT_FOR(f.n.loop, f.n_messages == 1);
	assert_int_equal(f.message_bytes, LG_MSG_BYTES_MAX);
	end(&f);
}

static void a_peer_that_has_finished_gets_what_is_queued_and_an_ok(void **state)
{
	static const uint8_t message[] = { 0, 0, 0, 0, 2, 'o', 'k' };
	struct fixture f;

	(void)state;
	begin_stream(&f);
	f.on_message = echo;
	raw_frame(&f.peer, DATA, END_STREAM, 1, message, sizeof(message));
	check_status(&f, LG_GRPC_OK, "the peer has finished");
	assert_int_equal(f.peer.data_bytes, sizeof(message));
	assert_int_equal(f.n_closed, 1);
	assert_int_equal(f.status, LG_GRPC_OK);
	assert_int_equal(f.peer.reset_error, ~0u);
	end(&f);
}

static void a_peer_that_finishes_inside_a_message_is_told_so(void **state)
{
	static const uint8_t half[] = { 0, 0, 0, 0, 2, 'o' };
	struct fixture f;

	(void)state;
	begin_stream(&f);
	raw_frame(&f.peer, DATA, END_STREAM, 1, half, sizeof(half));
	check_status(&f, LG_GRPC_INTERNAL, "the stream ended inside a message");
	assert_int_equal(f.n_messages, 0);
	end(&f);
}

static void a_reset_by_the_peer_is_told(void **state)
{
	static const struct {
		uint8_t error;
		int status;
	} rows[] = {
		{ NGHTTP2_CANCEL, LG_GRPC_CANCELLED },
		{ NGHTTP2_REFUSED_STREAM, LG_GRPC_UNAVAILABLE },
		{ NGHTTP2_ENHANCE_YOUR_CALM, LG_GRPC_RESOURCE_EXHAUSTED },
		{ NGHTTP2_INADEQUATE_SECURITY, LG_GRPC_PERMISSION_DENIED },
		{ NGHTTP2_PROTOCOL_ERROR, LG_GRPC_INTERNAL },
		{ NGHTTP2_NO_ERROR, LG_GRPC_INTERNAL },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		const uint8_t error[4] = { 0, 0, 0, rows[i].error };
		struct fixture f;

		begin_stream(&f);
		raw_frame(&f.peer, RST_STREAM, 0, 1, error, 4);
		WAIT_FOR(f.n.loop, f.n_closed);
		assert_int_equal(f.status, rows[i].status);
		assert_true(LIST_EMPTY(&f.conn->streams));
		assert_int_equal(f.end.buffered_bytes, 0);
		end(&f);
	}
}

static void a_17th_stream_is_refused(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	for (uint32_t i = 0; i < LG_H2_STREAMS_MAX; i++)
		raw_request(&f.peer, 1 + 2 * i, "/test.Test/Call");
	RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[HEADERS] == LG_H2_STREAMS_MAX);
	/* The limit binds a peer that has acknowledged it. */
	raw_frame(&f.peer, SETTINGS, ACK, 0, NULL, 0);
	raw_request(&f.peer, 1 + 2 * LG_H2_STREAMS_MAX, "/test.Test/Call");
	RAW_WAIT(&f.n, &f.peer, f.peer.reset_error != ~0u || f.peer.goaway_error != ~0u);
	assert_int_equal(f.n_opened, LG_H2_STREAMS_MAX);
	end(&f);
}

static void a_stream_closed_with_a_status_gives_it_in_trailers(void **state)
{
	struct fixture f;

	(void)state;
	begin_stream(&f);
	lg_grpc_close(f.stream, LG_GRPC_FAILED_PRECONDITION, "no: 100% \xc3\xa9\n");
	assert_int_equal(lg_grpc_send(f.stream, "x", 1), -EPIPE);
	check_status(&f, LG_GRPC_FAILED_PRECONDITION, "no: 100%25 %C3%A9%0A");
	assert_int_equal(f.n_closed, 0);
	end(&f);
}

static void close_in_handler(struct fixture *f, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	(void)f;
	(void)data;
	(void)len;
	lg_grpc_close(stream, LG_GRPC_OK, "");
}

static void after_a_handler_closed_its_stream_nothing_more_is_told(void **state)
{
	uint8_t body[3 * 6] = { 0 };
	struct fixture f;

	(void)state;
	begin_stream(&f);
	f.on_message = close_in_handler;
	for (size_t i = 0; i < 3; i++)
		lg_grpc_prefix(1, body + i * 6);
	raw_frame(&f.peer, DATA, 0, 1, body, sizeof(body));
	raw_frame(&f.peer, DATA, END_STREAM, 1, body, sizeof(body));
	check_status(&f, LG_GRPC_OK, "");
	assert_int_equal(f.n_messages, 1);
	assert_int_equal(f.n_closed, 0);
	end(&f);
}

static void close_connection_in_handler(struct fixture *f, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	(void)stream;
	(void)data;
	(void)len;
	lg_grpc_conn_close(f->conn, "enough");
	/* Not yet: we are inside of it. */
	assert_int_equal(f->n_gone, 0);
}

static void a_handler_may_close_the_whole_connection(void **state)
{
	uint8_t body[3 * 6] = { 0 };
	struct fixture f;

	(void)state;
	begin_stream(&f);
	f.on_message = close_connection_in_handler;
	for (size_t i = 0; i < 3; i++)
		lg_grpc_prefix(1, body + i * 6);
	raw_frame(&f.peer, DATA, 0, 1, body, sizeof(body));
	RAW_WAIT(&f.n, &f.peer, f.n_gone && f.peer.eof);
	assert_int_equal(f.n_messages, 1);
	assert_int_equal(f.n_closed, 0);
	assert_string_equal(raw_header(&f.peer, "grpc-status"), "14");
	assert_string_equal(f.peer.goaway_text, "enough");
	end(&f);
}

/* The peer's window of 64 KiB is all that leaves; the rest is queued, up to the bound. */
static void a_peer_that_does_not_read_is_cut_off_at_the_bound(void **state)
{
	static uint8_t message[1 << 16];
	struct fixture f;
	int r, n;

	(void)state;
	begin_stream(&f);
	for (n = 0; n < 1000; n++) {
		r = lg_grpc_send(f.stream, message, sizeof(message));
		if (r < 0)
			break;
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
		raw_receive(&f.peer);
	}
	assert_int_equal(r, -ENOBUFS);
	assert_true(f.peer.data_bytes <= 65535);
	assert_true((size_t)n * (sizeof(message) + 5) <= LG_QUEUE_BYTES_MAX + 65535);
	assert_true((size_t)(n + 1) * (sizeof(message) + 5) > LG_QUEUE_BYTES_MAX);
	assert_true(f.end.buffered_bytes <= LG_QUEUE_BYTES_MAX);
	lg_grpc_close(f.stream, LG_GRPC_RESOURCE_EXHAUSTED, "too slow");
	RAW_WAIT(&f.n, &f.peer, f.peer.reset_error == NGHTTP2_ENHANCE_YOUR_CALM);
	assert_int_equal(f.end.buffered_bytes, 0);
	assert_int_equal(f.n_closed, 0);
	end(&f);
}

static void a_peer_that_takes_nothing_for_30_s_is_cut_off(void **state)
{
	static const uint8_t nothing[8];
	static uint8_t message[1 << 17];
	struct fixture f;

	(void)state;
	begin_stream(&f);
	assert_int_equal(lg_grpc_send(f.stream, message, sizeof(message)), 0);
	RAW_WAIT(&f.n, &f.peer, f.peer.data_bytes == 65535);
	for (int i = 0; i < 30; i++) {
		assert_int_equal(f.n_closed, 0);
		/* It is alive: only its window stays shut. */
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] > (size_t)i);
		lg_h2_tick(f.conn->h2, 1000);
	}
	assert_int_equal(f.n_closed, 1);
	assert_int_equal(f.status, LG_GRPC_RESOURCE_EXHAUSTED);
	RAW_WAIT(&f.n, &f.peer, f.peer.reset_error == NGHTTP2_ENHANCE_YOUR_CALM);
	end(&f);
}

static void a_peer_that_takes_a_byte_in_30_s_is_not(void **state)
{
	static const uint8_t nothing[8], one[4] = { 0, 0, 0, 1 };
	static uint8_t message[1 << 17];
	struct fixture f;

	(void)state;
	begin_stream(&f);
	assert_int_equal(lg_grpc_send(f.stream, message, sizeof(message)), 0);
	RAW_WAIT(&f.n, &f.peer, f.peer.data_bytes == 65535);
	for (size_t i = 0; i < 100; i++) {
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		if (i % 29 == 28) {
			raw_frame(&f.peer, WINDOW_UPDATE, 0, 0, one, 4);
			raw_frame(&f.peer, WINDOW_UPDATE, 0, 1, one, 4);
		}
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] > i && f.peer.data_bytes == 65535 + (i + 1) / 29);
		lg_h2_tick(f.conn->h2, 1000);
	}
	assert_int_equal(f.n_closed, 0);
	end(&f);
}

static void a_peer_that_opens_its_window_gets_everything(void **state)
{
	static const uint8_t more[4] = { 0, 2, 0, 0 };
	static uint8_t message[1 << 17];
	struct fixture f;

	(void)state;
	begin_stream(&f);
	assert_int_equal(lg_grpc_send(f.stream, message, sizeof(message)), 0);
	lg_grpc_close(f.stream, LG_GRPC_OK, "");
	RAW_WAIT(&f.n, &f.peer, f.peer.data_bytes == 65535);
	raw_frame(&f.peer, WINDOW_UPDATE, 0, 0, more, 4);
	raw_frame(&f.peer, WINDOW_UPDATE, 0, 1, more, 4);
	check_status(&f, LG_GRPC_OK, "");
	assert_int_equal(f.peer.data_bytes, sizeof(message) + 5);
	end(&f);
}

static void unread_and_unsent_bytes_of_all_streams_are_bounded_together(void **state)
{
	static const uint8_t begun[] = { 0, 0, 0, 0xff, 0xff, 1, 2, 3 };
	struct fixture f;

	(void)state;
	begin_stream(&f);
	/* As if other connections held nearly everything. */
	f.end.buffered_bytes = LG_GRPC_BUFFERED_MAX - 5;
	assert_int_equal(lg_grpc_send(f.stream, "x", 1), -ENOBUFS);
	assert_int_equal(lg_grpc_send(f.stream, "", 0), 0);
	raw_frame(&f.peer, DATA, 0, 1, begun, sizeof(begun));
	check_status(&f, LG_GRPC_RESOURCE_EXHAUSTED, "too many unfinished messages");
	end(&f);
}

static void a_message_longer_than_1_mib_is_not_sent(void **state)
{
	uint8_t *message = calloc(1, LG_MSG_BYTES_MAX + 1);
	struct fixture f;

	(void)state;
	begin_stream(&f);
	assert_int_equal(lg_grpc_send(f.stream, message, LG_MSG_BYTES_MAX + 1), -EMSGSIZE);
	assert_int_equal(lg_grpc_send(f.stream, message, LG_MSG_BYTES_MAX), 0);
	end(&f);
	free(message);
}

static void the_end_of_the_connection_ends_its_streams(void **state)
{
	struct fixture f;

	(void)state;
	begin_stream(&f);
	close(f.peer.fd);
	f.peer.fd = -1;
	WAIT_FOR(f.n.loop, f.n_gone);
	assert_int_equal(f.n_closed, 1);
	assert_int_equal(f.status, LG_GRPC_UNAVAILABLE);
	assert_string_equal(f.why, "the peer closed the connection");
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_request_is_answered_at_once),
		cmocka_unit_test(a_message_that_comes_byte_by_byte_in_frames_of_one_byte_is_one_message),
		cmocka_unit_test(many_messages_in_one_frame_are_many),
		cmocka_unit_test(a_request_that_is_no_grpc_is_answered_in_http),
		cmocka_unit_test(a_request_that_cannot_be_served_gets_its_status_without_messages),
		cmocka_unit_test(a_path_is_not_cut_to_one_that_is_served),
		cmocka_unit_test(headers_above_8_kib_are_refused),
		cmocka_unit_test(bad_messages_end_the_stream_with_a_status),
		cmocka_unit_test(a_message_of_1_mib_is_the_longest),
		cmocka_unit_test(a_peer_that_has_finished_gets_what_is_queued_and_an_ok),
		cmocka_unit_test(a_peer_that_finishes_inside_a_message_is_told_so),
		cmocka_unit_test(a_reset_by_the_peer_is_told),
		cmocka_unit_test(a_17th_stream_is_refused),
		cmocka_unit_test(a_stream_closed_with_a_status_gives_it_in_trailers),
		cmocka_unit_test(after_a_handler_closed_its_stream_nothing_more_is_told),
		cmocka_unit_test(a_handler_may_close_the_whole_connection),
		cmocka_unit_test(a_peer_that_does_not_read_is_cut_off_at_the_bound),
		cmocka_unit_test(a_peer_that_takes_nothing_for_30_s_is_cut_off),
		cmocka_unit_test(a_peer_that_takes_a_byte_in_30_s_is_not),
		cmocka_unit_test(a_peer_that_opens_its_window_gets_everything),
		cmocka_unit_test(unread_and_unsent_bytes_of_all_streams_are_bounded_together),
		cmocka_unit_test(a_message_longer_than_1_mib_is_not_sent),
		cmocka_unit_test(the_end_of_the_connection_ends_its_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
