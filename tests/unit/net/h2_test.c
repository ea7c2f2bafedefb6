// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/h2.h"

#include "tests/unit/net/raw_peer.h"

/* A server's connection on one end of a socket pair, a raw peer on the other. Time is what lg_h2_tick() is told. */
struct fixture {
	struct net_loop n;
	struct lg_h2 *h2;
	struct raw_peer peer;
	unsigned int n_down, n_gone, n_ticks, n_begun;
	int32_t stream_id;	/* a stream's pointer is the address of this */
	char why[256];
};

static void *on_begin(void *arg, int32_t id)
{
	struct fixture *f = arg;

	f->n_begun++;
	f->stream_id = id;
	return arg;
}

static void on_header(void *stream, const char *name, size_t name_len, const uint8_t *value, size_t value_len)
{
	(void)stream;
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
}

static void on_headers(void *stream, bool end)
{
	(void)stream;
	(void)end;
}

static void on_data(void *stream, const uint8_t *data, size_t len)
{
	(void)stream;
	(void)data;
	(void)len;
}

static void on_end(void *stream)
{
	(void)stream;
}

static void on_closed(void *stream, uint32_t error)
{
	(void)stream;
	(void)error;
}

static void on_tick(void *arg, uint32_t elapsed_ms)
{
	struct fixture *f = arg;

	(void)elapsed_ms;
	f->n_ticks++;
}

static void on_down(void *arg, const char *why)
{
	struct fixture *f = arg;

	assert_int_equal(f->n_gone, 0);
	f->n_down++;
	snprintf(f->why, sizeof(f->why), "%s", why);
}

static void on_gone(void *arg)
{
	struct fixture *f = arg;

	f->n_gone++;
	f->h2 = NULL;
}

static const struct lg_h2_events events = {
	.begin = on_begin,
	.header = on_header,
	.headers = on_headers,
	.data = on_data,
	.end = on_end,
	.sent_end = on_end,
	.closed = on_closed,
	.tick = on_tick,
	.down = on_down,
	.gone = on_gone,
};

static const struct lg_h2_patience patience = { .hello_ms = 1000, .ping_ms = 2000, .dead_ms = 7000, .idle_ms = 60000 };

static void begin(struct fixture *f, bool is_server)
{
	int pair[2];

	*f = (struct fixture){ .n = net_loop_new() };
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(lg_h2_new(lg_loop_base(f->n.loop), is_server, &patience, &events, f, &f->h2), 0);
	assert_int_equal(lg_h2_attach(f->h2, pair[0], NULL), 0);
	raw_init(&f->peer, pair[1]);
}

/* The peer has said hello and has been answered. */
static void begin_greeted(struct fixture *f)
{
	begin(f, true);
	raw_preface(&f->peer);
	RAW_WAIT(&f->n, &f->peer, f->peer.n_frames[SETTINGS] == 2);
}

static void end(struct fixture *f)
{
	if (f->h2)
		lg_h2_close(f->h2, NULL);
	assert_int_equal(f->n_gone, 1);
	raw_fini(&f->peer);
	net_loop_free(&f->n);
}

/* The connection ends in an error that the peer gets to read, and then in the end of the connection. */
static void check_refused(struct fixture *f, uint32_t error, const char *why)
{
	RAW_WAIT(&f->n, &f->peer, f->peer.goaway_error != ~0u);
	assert_int_equal(f->peer.goaway_error, error);
	RAW_WAIT(&f->n, &f->peer, f->peer.eof);
	assert_int_equal(f->n_down, 1);
	if (!strstr(f->why, why))
		fail_msg("%s", f->why);
}

static void bytes_that_are_no_http2_are_refused_with_a_reason(void **state)
{
	static const char *const garbage[] = {
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\rX.......................",
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(garbage); i++) {
		struct fixture f;

		begin(&f, true);
		raw_send(&f.peer, garbage[i], strlen(garbage[i]));
		check_refused(&f, NGHTTP2_PROTOCOL_ERROR, "does not speak HTTP/2");
		assert_string_equal(f.peer.goaway_text, "the peer does not speak HTTP/2");
		/* It lingers until the peer has closed its half, too. */
		assert_int_equal(f.n_gone, 0);
		shutdown(f.peer.fd, SHUT_WR);
		WAIT_FOR(f.n.loop, f.n_gone);
		end(&f);
	}
}

static void a_peer_that_does_not_hang_up_after_an_error_is_dropped_after_2_s(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, true);
	raw_send(&f.peer, "nonsense, and more than 24 bytes of it", 38);
	check_refused(&f, NGHTTP2_PROTOCOL_ERROR, "does not speak HTTP/2");
	lg_h2_tick(f.h2, LG_H2_LINGER_MS - 1);
	assert_int_equal(f.n_gone, 0);
	lg_h2_tick(f.h2, 1);
	assert_int_equal(f.n_gone, 1);
	end(&f);
}

static void frames_that_break_http2_end_the_connection(void **state)
{
	static const struct {
		uint8_t type;
		uint8_t flags;
		uint32_t stream;
		uint32_t len;
		uint32_t error;
	} rows[] = {
		{ PING, 0, 0, 7, NGHTTP2_FRAME_SIZE_ERROR },
		{ PING, 0, 1, 8, NGHTTP2_PROTOCOL_ERROR },
		{ SETTINGS, 0, 0, 5, NGHTTP2_FRAME_SIZE_ERROR },
		{ SETTINGS, ACK, 0, 6, NGHTTP2_FRAME_SIZE_ERROR },
		{ DATA, 0, 0, 4, NGHTTP2_PROTOCOL_ERROR },
		{ DATA, 0, 1, 4, NGHTTP2_PROTOCOL_ERROR },	/* a stream that was never opened */
		{ RST_STREAM, 0, 3, 4, NGHTTP2_PROTOCOL_ERROR },
		{ HEADERS, END_HEADERS, 2, 1, NGHTTP2_PROTOCOL_ERROR },	/* an even number is the server's */
		{ WINDOW_UPDATE, 0, 0, 4, NGHTTP2_PROTOCOL_ERROR },	/* by 0 */
	};
	static const uint8_t zeros[16];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct fixture f;

		begin_greeted(&f);
		raw_frame(&f.peer, rows[i].type, rows[i].flags, rows[i].stream, zeros, rows[i].len);
		check_refused(&f, rows[i].error, "broke HTTP/2");
		end(&f);
	}
}

static void a_frame_longer_than_agreed_ends_the_connection(void **state)
{
	static const uint8_t head[9] = { 0, 0x40, 1, DATA, 0, 0, 0, 0, 1 };	/* 16385 bytes */
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	raw_send(&f.peer, head, sizeof(head));
	check_refused(&f, NGHTTP2_FRAME_SIZE_ERROR, "broke HTTP/2");
	end(&f);
}

static void a_header_block_without_end_is_cut_off(void **state)
{
	uint8_t block[16000] = { 0 };
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	raw_frame(&f.peer, HEADERS, 0, 1, block, 0);
	for (int i = 0; i < 20 && !f.peer.eof; i++) {
		raw_frame(&f.peer, 9 /* CONTINUATION */, 0, 1, block, 1);
		raw_receive(&f.peer);
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
	}
	RAW_WAIT(&f.n, &f.peer, f.peer.eof || f.peer.goaway_error != ~0u);
	assert_int_equal(f.n_down, 1);
	end(&f);
}

static void a_silent_peer_is_pinged_and_then_given_up(void **state)
{
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	lg_h2_tick(f.h2, 1999);
	raw_receive(&f.peer);
	assert_int_equal(f.peer.n_frames[PING], 0);
	lg_h2_tick(f.h2, 1);
	RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] == 1);
	lg_h2_tick(f.h2, 2000);
	RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] == 2);
	lg_h2_tick(f.h2, 2999);
	assert_int_equal(f.n_down, 0);
	lg_h2_tick(f.h2, 1);
	assert_int_equal(f.n_down, 1);
	assert_string_equal(f.why, "the peer gives no sign of life");
	assert_int_equal(f.n_gone, 1);
	end(&f);
}

static void a_peer_that_answers_pings_is_kept(void **state)
{
	static const uint8_t nothing[8];
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	for (size_t i = 1; i <= 10; i++) {
		lg_h2_tick(f.h2, 2000);
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] == i);
		raw_frame(&f.peer, PING, ACK, 0, nothing, 8);
		for (int turn = 0; turn < 3; turn++)
			event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
	}
	assert_int_equal(f.n_down, 0);
	end(&f);
}

static void a_connection_without_hello_is_closed_after_a_second(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, true);
	lg_h2_tick(f.h2, 999);
	assert_int_equal(f.n_down, 0);
	lg_h2_tick(f.h2, 1);
	assert_int_equal(f.n_down, 1);
	check_refused(&f, NGHTTP2_SETTINGS_TIMEOUT, "no HTTP/2 settings");
	end(&f);
}

/* Though it sends pings all the time. */
static void a_connection_without_streams_is_sent_away_after_a_minute(void **state)
{
	static const uint8_t nothing[8];
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	for (int i = 0; i < 59; i++) {
		assert_int_equal(f.n_down, 0);
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] > (size_t)i);
		lg_h2_tick(f.h2, 1000);
	}
	assert_int_equal(f.n_down, 0);
	lg_h2_tick(f.h2, 1000);
	check_refused(&f, NGHTTP2_NO_ERROR, "idle");
	end(&f);
}

static void pings_beyond_the_allowance_end_the_connection(void **state)
{
	static const uint8_t nothing[8];
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	/* The peer's own SETTINGS was the first odd frame. */
	for (size_t i = 1; i < LG_H2_ODD_MAX; i++) {
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] >= i);
	}
	assert_int_equal(f.n_down, 0);
	/* 50 ms later it may send 5 more. */
	lg_h2_tick(f.h2, 50);
	for (size_t i = 0; i < 5; i++)
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
	RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] == LG_H2_ODD_MAX - 1 + 5);
	assert_int_equal(f.n_down, 0);
	raw_frame(&f.peer, PING, 0, 0, nothing, 8);
	check_refused(&f, NGHTTP2_ENHANCE_YOUR_CALM, "carry nothing");
	end(&f);
}

/* As servers do that measure the way with each request. */
static void a_server_that_answers_may_ping_as_often(void **state)
{
	static const char *const answer[] = { ":status", "200", NULL };
	static const uint8_t nothing[8];
	const nghttp2_nv nv[] = {
		{ (uint8_t *)":method", (uint8_t *)"GET", 7, 3, 0 },
		{ (uint8_t *)":scheme", (uint8_t *)"http", 7, 4, 0 },
		{ (uint8_t *)":path", (uint8_t *)"/a", 5, 2, 0 },
	};
	char preface[24];
	struct fixture f;
	int32_t id;

	(void)state;
	begin(&f, false);
	WAIT_FOR(f.n.loop, recv(f.peer.fd, preface, sizeof(preface), 0) == sizeof(preface));
	raw_frame(&f.peer, SETTINGS, 0, 0, NULL, 0);
	for (size_t i = 0; i < LG_H2_ODD_MAX; i++) {
		id = nghttp2_submit_request(lg_h2_session(f.h2), NULL, nv, N_ELEMS(nv), NULL, &f);
		assert_true(id > 0);
		lg_h2_kick(f.h2);
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		RAW_WAIT(&f.n, &f.peer, f.peer.n_frames[PING] == 2 * i + 2);
		raw_headers(&f.peer, (uint32_t)id, END_STREAM, answer);
	}
	assert_int_equal(f.n_down, 0);
	/* Without answers the allowance is what it was. */
	for (size_t i = 0; i <= LG_H2_ODD_MAX; i++) {
		raw_frame(&f.peer, PING, 0, 0, nothing, 8);
		RAW_WAIT(&f.n, &f.peer, f.n_down || f.peer.n_frames[PING] > 2 * LG_H2_ODD_MAX + i);
	}
	check_refused(&f, NGHTTP2_ENHANCE_YOUR_CALM, "carry nothing");
	end(&f);
}

/* Keeps on sending one kind of frame without reading an answer, until the other end has had enough. */
static void flood(uint8_t type, size_t len, uint32_t opened)
{
	static const uint8_t zeros[16] = { 0 };
	struct fixture f;
	int i;

	begin_greeted(&f);
	if (opened)
		raw_request(&f.peer, opened, "/a");
	for (i = 0; i < 100000 && !f.n_down; i++) {
		raw_frame(&f.peer, type, 0, type == SETTINGS || type == PING ? 0 : 1, zeros, len);
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
	}
	assert_int_equal(f.n_down, 1);
	assert_true(i <= 3000);
	end(&f);
}

static void floods_of_frames_that_carry_nothing_end_the_connection(void **state)
{
	(void)state;
	flood(PING, 8, 0);
	flood(SETTINGS, 0, 0);
	flood(DATA, 0, 1);
	flood(PRIORITY, 5, 1);
}

static void streams_opened_and_reset_at_once_end_the_connection(void **state)
{
	static const uint8_t cancel[4] = { 0, 0, 0, 8 };
	struct fixture f;
	uint32_t id;

	(void)state;
	begin_greeted(&f);
	for (id = 1; id < 20000 && !f.n_down; id += 2) {
		raw_request(&f.peer, id, "/a");
		raw_frame(&f.peer, RST_STREAM, 0, id, cancel, 4);
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
		raw_receive(&f.peer);
	}
	assert_int_equal(f.n_down, 1);
	assert_true(f.n_begun < 200);
	end(&f);
}

static void settings_name_the_limits(void **state)
{
	struct fixture f;
	uint8_t wire[256];
	ssize_t n;

	(void)state;
	begin(&f, true);
	for (int i = 0; i < 3; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
	n = recv(f.peer.fd, wire, sizeof(wire), 0);
	/* 3 settings of 6 bytes: MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_HEADER_LIST_SIZE */
	assert_true(n >= 9 + 18);
	assert_int_equal(wire[2], 18);
	assert_int_equal(wire[3], SETTINGS);
	assert_int_equal(wire[9 + 1], 3);
	assert_int_equal(raw_u32(wire + 9 + 2), LG_H2_STREAMS_MAX);
	assert_int_equal(wire[15 + 1], 4);
	assert_int_equal(raw_u32(wire + 15 + 2), LG_H2_WINDOW_STREAM);
	assert_int_equal(wire[21 + 1], 6);
	assert_int_equal(raw_u32(wire + 21 + 2), LG_H2_HEADERS_BYTES_MAX);
	end(&f);
}

static void a_farewell_is_sent_when_the_connection_is_closed(void **state)
{
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	lg_h2_close(f.h2, "that was all");
	assert_int_equal(f.n_gone, 1);
	assert_int_equal(f.n_down, 0);
	raw_receive(&f.peer);
	assert_int_equal(f.peer.goaway_error, NGHTTP2_NO_ERROR);
	assert_string_equal(f.peer.goaway_text, "that was all");
	RAW_WAIT(&f.n, &f.peer, f.peer.eof);
	end(&f);
}

static void a_client_reads_why_the_server_ended_the_connection(void **state)
{
	static const uint8_t goaway[] = { 0, 0, 0, 0, 0, 0, 0, NGHTTP2_ENHANCE_YOUR_CALM, 't', 'o', 'o', ' ', 'm', 'a', 'n', 'y', 7 };
	struct fixture f;

	(void)state;
	begin(&f, false);
	raw_frame(&f.peer, SETTINGS, 0, 0, NULL, 0);
	raw_frame(&f.peer, GOAWAY, 0, 0, goaway, sizeof(goaway));
	WAIT_FOR(f.n.loop, f.n_gone);
	assert_string_equal(f.why, "the peer ended the connection: too many?");
	end(&f);
}

static void the_end_of_the_connection_is_told(void **state)
{
	struct fixture f;

	(void)state;
	begin_greeted(&f);
	close(f.peer.fd);
	f.peer.fd = -1;
	WAIT_FOR(f.n.loop, f.n_gone);
	assert_int_equal(f.n_down, 1);
	assert_string_equal(f.why, "the peer closed the connection");
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_that_are_no_http2_are_refused_with_a_reason),
		cmocka_unit_test(a_peer_that_does_not_hang_up_after_an_error_is_dropped_after_2_s),
		cmocka_unit_test(frames_that_break_http2_end_the_connection),
		cmocka_unit_test(a_frame_longer_than_agreed_ends_the_connection),
		cmocka_unit_test(a_header_block_without_end_is_cut_off),
		cmocka_unit_test(a_silent_peer_is_pinged_and_then_given_up),
		cmocka_unit_test(a_peer_that_answers_pings_is_kept),
		cmocka_unit_test(a_connection_without_hello_is_closed_after_a_second),
		cmocka_unit_test(a_connection_without_streams_is_sent_away_after_a_minute),
		cmocka_unit_test(pings_beyond_the_allowance_end_the_connection),
		cmocka_unit_test(a_server_that_answers_may_ping_as_often),
		cmocka_unit_test(floods_of_frames_that_carry_nothing_end_the_connection),
		cmocka_unit_test(streams_opened_and_reset_at_once_end_the_connection),
		cmocka_unit_test(settings_name_the_limits),
		cmocka_unit_test(a_farewell_is_sent_when_the_connection_is_closed),
		cmocka_unit_test(a_client_reads_why_the_server_ended_the_connection),
		cmocka_unit_test(the_end_of_the_connection_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
