// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Client and server over TCP, and the client against a raw server. */
#include "net/grpc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include "leasegate/bounds.h"
#include "net/address.h"
#include "tests/unit/net/raw_peer.h"

/* One end and what it has seen. */
struct side {
	struct lg_grpc_stream *stream;
	unsigned int n_opened, n_messages, n_closed;
	size_t bytes;
	uint8_t first[64];
	int status;
	char why[256];
	bool echo;
	struct lg_grpc_client **free_on_message, **free_on_closed;
};

static int on_open(void *arg, struct lg_grpc_stream *stream, const char *path)
{
	struct side *side = arg;

	if (strcmp(path, "/test.Test/Call") != 0)
		return LG_GRPC_UNIMPLEMENTED;
	side->n_opened++;
	side->stream = stream;
	return 0;
}

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct side *side = arg;

	side->n_messages++;
	side->bytes += len;
	memcpy(side->first, data, len < sizeof(side->first) ? len : sizeof(side->first));
	if (side->echo)
		assert_int_equal(lg_grpc_send(stream, data, len), 0);
	if (side->free_on_message)
		*side->free_on_message = lg_grpc_client_free(*side->free_on_message);
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct side *side = arg;

	(void)stream;
	side->n_closed++;
	side->status = status;
	side->stream = NULL;
	snprintf(side->why, sizeof(side->why), "%s", why);
	if (side->free_on_closed)
		*side->free_on_closed = lg_grpc_client_free(*side->free_on_closed);
}

static const struct lg_grpc_handlers server_handlers = { on_open, on_message, on_closed };
static const struct lg_grpc_handlers client_handlers = { NULL, on_message, on_closed };

struct fixture {
	struct net_loop n;
	struct lg_grpc_server *server;
	struct lg_grpc_client *client;
	struct side s, c;
	char address[64];
};

static void begin(struct fixture *f, const char *path)
{
	struct lg_complaint c = { 0 };

	*f = (struct fixture){ .n = net_loop_new() };
	assert_int_equal(lg_grpc_server_new(f->n.loop, "127.0.0.1:0", &server_handlers, &f->s, &f->server, &c), 0);
	snprintf(f->address, sizeof(f->address), "127.0.0.1:%d", lg_grpc_server_port(f->server));
	assert_int_equal(lg_grpc_client_new(f->n.loop, f->address, &client_handlers, &f->c, &f->client, &c), 0);
	if (path)
		assert_int_equal(lg_grpc_client_open(f->client, path, &f->c.stream), 0);
}

static void end(struct fixture *f)
{
	lg_grpc_client_free(f->client);
	lg_grpc_server_free(f->server);
	net_loop_free(&f->n);
}

static void messages_of_every_size_come_back_as_they_were_sent(void **state)
{
	static const size_t sizes[] = { 0, 1, 16383, 16384, 16385, 300000, LG_MSG_BYTES_MAX };
	uint8_t *message = malloc(LG_MSG_BYTES_MAX);
	struct fixture f;
	size_t sum = 0;

	(void)state;
	for (size_t i = 0; i < LG_MSG_BYTES_MAX; i++)
		message[i] = (uint8_t)(i * 11);
	begin(&f, "/test.Test/Call");
	f.s.echo = true;
	for (size_t i = 0; i < N_ELEMS(sizes); i++) {
		assert_int_equal(lg_grpc_send(f.c.stream, message, sizes[i]), 0);
		sum += sizes[i];
	}
	WAIT_FOR(f.n.loop, f.c.n_messages == N_ELEMS(sizes));
	assert_int_equal(f.c.bytes, sum);
	assert_int_equal(f.s.bytes, sum);
	assert_memory_equal(f.c.first, message, sizeof(f.c.first));
	assert_int_equal(f.c.n_closed + f.s.n_closed, 0);
	end(&f);
	free(message);
}

static void a_hundred_megabytes_flow_both_ways_past_the_windows(void **state)
{
	uint8_t *message = calloc(1, 500000);
	struct fixture f;
	int sent = 0;

	(void)state;
	begin(&f, "/test.Test/Call");
	f.s.echo = true;
	while (f.c.n_messages < 100) {
		if (sent < 100 && sent - (int)f.c.n_messages < 8) {
			assert_int_equal(lg_grpc_send(f.c.stream, message, 500000), 0);
			sent++;
			continue;
		}
		WAIT_FOR(f.n.loop, (sent < 100 && sent - (int)f.c.n_messages < 8) || f.c.n_messages == 100);
	}
	assert_int_equal(f.c.bytes, 100 * 500000);
	end(&f);
	free(message);
}

static void peers_know_each_other_by_address(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	assert_string_equal(lg_grpc_peer(f.c.stream), f.address);
	WAIT_FOR(f.n.loop, f.s.n_opened);
	assert_memory_equal(lg_grpc_peer(f.s.stream), "127.0.0.1:", 10);
	assert_string_not_equal(lg_grpc_peer(f.s.stream), f.address);
	end(&f);
}

static void ipv6_works_where_the_machine_has_it(void **state)
{
	struct net_loop n = net_loop_new();
	struct lg_grpc_server *server;
	struct lg_grpc_client *client;
	struct side s = { 0 }, c = { 0 };
	struct lg_complaint complaint = { 0 };
	char address[64];

	(void)state;
	if (lg_grpc_server_new(n.loop, "[::1]:0", &server_handlers, &s, &server, &complaint) < 0) {
		net_loop_free(&n);
		skip();
	}
	snprintf(address, sizeof(address), "[::1]:%d", lg_grpc_server_port(server));
	assert_int_equal(lg_grpc_client_new(n.loop, address, &client_handlers, &c, &client, &complaint), 0);
	assert_int_equal(lg_grpc_client_open(client, "/test.Test/Call", &c.stream), 0);
	WAIT_FOR(n.loop, s.n_opened);
	assert_memory_equal(lg_grpc_peer(s.stream), "[::1]:", 6);
	lg_grpc_client_free(client);
	lg_grpc_server_free(server);
	net_loop_free(&n);
}

static void a_refused_path_is_unimplemented(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Other");
	WAIT_FOR(f.n.loop, f.c.n_closed);
	assert_int_equal(f.c.status, LG_GRPC_UNIMPLEMENTED);
	assert_string_equal(f.c.why, "no such method");
	assert_int_equal(f.s.n_opened, 0);
	end(&f);
}

static void the_server_ends_a_stream_with_status_and_text(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	WAIT_FOR(f.n.loop, f.s.n_opened);
	lg_grpc_close(f.s.stream, LG_GRPC_PERMISSION_DENIED, "not you, 100% sure");
	WAIT_FOR(f.n.loop, f.c.n_closed);
	assert_int_equal(f.c.status, LG_GRPC_PERMISSION_DENIED);
	assert_string_equal(f.c.why, "not you, 100% sure");
	assert_int_equal(f.s.n_closed, 0);
	end(&f);
}

static void the_client_ends_a_stream_by_cancelling(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	WAIT_FOR(f.n.loop, f.s.n_opened);
	lg_grpc_close(f.c.stream, LG_GRPC_OK, "");
	WAIT_FOR(f.n.loop, f.s.n_closed);
	assert_int_equal(f.s.status, LG_GRPC_CANCELLED);
	assert_int_equal(f.c.n_closed, 0);
	/* The connection goes on with another one. */
	assert_int_equal(lg_grpc_client_open(f.client, "/test.Test/Call", &f.c.stream), 0);
	WAIT_FOR(f.n.loop, f.s.n_opened == 2);
	end(&f);
}

static void a_stream_closed_before_it_could_be_sent_never_existed(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	lg_grpc_close(f.c.stream, LG_GRPC_OK, "");
	assert_int_equal(lg_grpc_client_open(f.client, "/test.Test/Call", &f.c.stream), 0);
	WAIT_FOR(f.n.loop, f.s.n_opened);
	for (int i = 0; i < 10; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	assert_int_equal(f.s.n_opened, 1);
	assert_int_equal(f.s.n_closed, 0);
	assert_int_equal(f.c.n_closed, 0);
	end(&f);
}

static void a_server_that_stops_tells_its_clients(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	WAIT_FOR(f.n.loop, f.s.n_opened);
	f.server = lg_grpc_server_free(f.server);
	assert_int_equal(f.s.n_closed, 0);
	WAIT_FOR(f.n.loop, f.c.n_closed);
	assert_int_equal(f.c.status, LG_GRPC_UNAVAILABLE);
	assert_string_equal(f.c.why, "the server is shutting down");
	/* The connection ends, too, and takes no more streams. */
	WAIT_FOR(f.n.loop, lg_grpc_client_open(f.client, "/test.Test/Call", &f.c.stream) == -EPIPE || f.c.n_closed > 1);
	end(&f);
}

static void a_client_that_goes_away_is_noticed(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	WAIT_FOR(f.n.loop, f.s.n_opened);
	f.client = lg_grpc_client_free(f.client);
	WAIT_FOR(f.n.loop, f.s.n_closed);
	assert_int_equal(f.s.status, LG_GRPC_CANCELLED);
	assert_int_equal(f.c.n_closed, 0);
	end(&f);
}

static void a_client_may_be_freed_in_its_handlers(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f, "/test.Test/Call");
	f.s.echo = true;
	f.c.free_on_message = &f.client;
	for (int i = 0; i < 3; i++)
		assert_int_equal(lg_grpc_send(f.c.stream, "x", 1), 0);
	WAIT_FOR(f.n.loop, f.c.n_messages && f.s.n_closed);
	assert_null(f.client);
	assert_int_equal(f.c.n_messages, 1);
	end(&f);

	begin(&f, "/test.Test/Other");
	f.c.free_on_closed = &f.client;
	WAIT_FOR(f.n.loop, f.c.n_closed);
	assert_null(f.client);
	end(&f);
}

static void nobody_there_is_unavailable_with_the_reason(void **state)
{
	struct net_loop n = net_loop_new();
	struct lg_complaint complaint = { 0 };
	struct lg_grpc_client *client;
	struct side c = { 0 };
	char address[64];
	int fd;

	(void)state;
	assert_int_equal(lg_address_listen("127.0.0.1:0", &fd, &complaint), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_address_port(fd));
	close(fd);
	assert_int_equal(lg_grpc_client_new(n.loop, address, &client_handlers, &c, &client, &complaint), 0);
	assert_int_equal(lg_grpc_client_open(client, "/test.Test/Call", &c.stream), 0);
	assert_int_equal(lg_grpc_send(c.stream, "x", 1), 0);
	WAIT_FOR(n.loop, c.n_closed);
	assert_int_equal(c.status, LG_GRPC_UNAVAILABLE);
	assert_non_null(strstr(c.why, "Connection refused"));
	assert_int_equal(lg_grpc_client_open(client, "/test.Test/Call", &c.stream), -EPIPE);
	lg_grpc_client_free(client);
	net_loop_free(&n);
}

static void a_port_in_use_is_said_so(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_grpc_server *other;
	struct fixture f;

	(void)state;
	begin(&f, NULL);
	assert_int_equal(lg_grpc_server_new(f.n.loop, f.address, &server_handlers, &f.s, &other, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, f.address));
	assert_int_equal(lg_grpc_server_new(f.n.loop, "nonsense", &server_handlers, &f.s, &other, &c), -EINVAL);
	assert_int_equal(lg_grpc_client_new(f.n.loop, "nonsense", &client_handlers, &f.c, &(struct lg_grpc_client *){ NULL }, &c),
			 -EINVAL);
	end(&f);
}

static int connect_raw(const struct fixture *f)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_port = htons((uint16_t)lg_grpc_server_port(f->server)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	inet_pton(AF_INET, "127.0.0.1", &sa.sin_addr);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static void a_session_above_the_limit_is_refused_with_a_reason(void **state)
{
	const struct rlimit many = { 2 * LG_GRPC_SESSIONS_MAX + 500, 2 * LG_GRPC_SESSIONS_MAX + 500 };
	static int fds[LG_GRPC_SESSIONS_MAX];
	struct raw_peer last;
	struct fixture f;
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	if (before.rlim_max < many.rlim_cur || setrlimit(RLIMIT_NOFILE, &many) < 0)
		skip();
	begin(&f, "/test.Test/Call");
	WAIT_FOR(f.n.loop, f.s.n_opened);
	for (size_t i = 0; i < LG_GRPC_SESSIONS_MAX - 1; i++) {
		fds[i] = connect_raw(&f);
		if (i % 64 == 0)
			event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
	}
	raw_init(&last, connect_raw(&f));
	raw_preface(&last);
	RAW_WAIT(&f.n, &last, last.goaway_error != ~0u);
	assert_int_equal(last.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
	assert_string_equal(last.goaway_text, "this server has as many sessions as it takes");
	raw_fini(&last);
	/* One leaves, one may come. */
	close(fds[0]);
	for (int i = 0; i < 20; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	raw_init(&last, connect_raw(&f));
	raw_preface(&last);
	raw_request(&last, 1, "/test.Test/Call");
	RAW_WAIT(&f.n, &last, last.n_frames[HEADERS] == 1);
	raw_fini(&last);
	for (size_t i = 1; i < LG_GRPC_SESSIONS_MAX - 1; i++)
		close(fds[i]);
	end(&f);
}

static void a_server_without_descriptors_accepts_again_when_it_has_some(void **state)
{
	struct rlimit before, few;
	struct raw_peer peer;
	struct fixture f;
	int fd;

	(void)state;
	begin(&f, NULL);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	raw_init(&peer, connect_raw(&f));
	raw_preface(&peer);
	fd = dup(0);
	close(fd);
	few = (struct rlimit){ (rlim_t)fd, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (int i = 0; i < 10; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	raw_receive(&peer);
	assert_int_equal(peer.n_frames[SETTINGS], 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	RAW_WAIT(&f.n, &peer, peer.n_frames[SETTINGS]);
	raw_fini(&peer);
	end(&f);
}

/* ---- the client against a raw server ---- */

#define GRPC_TYPE "content-type", "application/grpc"

struct raw_server {
	struct net_loop n;
	struct lg_grpc_client *client;
	struct raw_peer peer;
	struct side c;
};

static void begin_raw_server(struct raw_server *r)
{
	struct lg_complaint complaint = { 0 };
	char address[64], magic[24];
	int listener, fd = -1;

	*r = (struct raw_server){ .n = net_loop_new() };
	assert_int_equal(lg_address_listen("127.0.0.1:0", &listener, &complaint), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_address_port(listener));
	assert_int_equal(lg_grpc_client_new(r->n.loop, address, &client_handlers, &r->c, &r->client, &complaint), 0);
	assert_int_equal(lg_grpc_client_open(r->client, "/test.Test/Call", &r->c.stream), 0);
	WAIT_FOR(r->n.loop, (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	close(listener);
	WAIT_FOR(r->n.loop, recv(fd, magic, sizeof(magic), MSG_PEEK | MSG_DONTWAIT) == sizeof(magic));
	assert_int_equal(recv(fd, magic, sizeof(magic), 0), sizeof(magic));
	assert_memory_equal(magic, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	raw_init(&r->peer, fd);
	raw_frame(&r->peer, SETTINGS, 0, 0, NULL, 0);
	RAW_WAIT(&r->n, &r->peer, r->peer.n_frames[HEADERS] == 1);
}

static void end_raw_server(struct raw_server *r)
{
	lg_grpc_client_free(r->client);
	raw_fini(&r->peer);
	net_loop_free(&r->n);
}

static void a_request_is_what_grpc_wants(void **state)
{
	struct raw_server r;

	(void)state;
	begin_raw_server(&r);
	assert_string_equal(raw_header(&r.peer, ":method"), "POST");
	assert_string_equal(raw_header(&r.peer, ":scheme"), "http");
	assert_string_equal(raw_header(&r.peer, ":path"), "/test.Test/Call");
	assert_memory_equal(raw_header(&r.peer, ":authority"), "127.0.0.1:", 10);
	assert_string_equal(raw_header(&r.peer, "content-type"), "application/grpc");
	assert_string_equal(raw_header(&r.peer, "te"), "trailers");
	end_raw_server(&r);
}

static void answers_become_statuses(void **state)
{
	static const struct {
		const char *fields[16];
		int status;
		const char *why;
	} rows[] = {
		{ { ":status", "404" }, LG_GRPC_UNIMPLEMENTED, "the peer answered with HTTP status 404" },
		{ { ":status", "503", "content-type", "text/html" }, LG_GRPC_UNAVAILABLE, "the peer answered with HTTP status 503" },
		{ { ":status", "401" }, LG_GRPC_UNAUTHENTICATED, "the peer answered with HTTP status 401" },
		{ { ":status", "403" }, LG_GRPC_PERMISSION_DENIED, "the peer answered with HTTP status 403" },
		{ { ":status", "400" }, LG_GRPC_INTERNAL, "the peer answered with HTTP status 400" },
		{ { ":status", "302" }, LG_GRPC_UNKNOWN, "the peer answered with HTTP status 302" },
		{ { ":status", "200", "content-type", "text/html" }, LG_GRPC_UNKNOWN, "the peer's answer is not gRPC" },
		{ { ":status", "200" }, LG_GRPC_UNKNOWN, "the peer's answer is not gRPC" },
		{ { ":status", "200", GRPC_TYPE }, LG_GRPC_UNKNOWN, "the peer ended the stream without a status" },
		{ { ":status", "200", GRPC_TYPE, "grpc-status", "0" }, LG_GRPC_OK, "" },
		{ { ":status", "200", GRPC_TYPE, "grpc-status", "9", "grpc-message", "a%25b" }, LG_GRPC_FAILED_PRECONDITION, "a%b" },
		{ { ":status", "200", GRPC_TYPE, "grpc-status", "nine" }, LG_GRPC_UNKNOWN, "" },
		{ { ":status", "200", GRPC_TYPE, "grpc-status", "-1" }, LG_GRPC_UNKNOWN, "" },
		{ { ":status", "200", GRPC_TYPE, "grpc-status", "99999" }, LG_GRPC_UNKNOWN, "" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct raw_server r;

		begin_raw_server(&r);
		raw_headers(&r.peer, 1, END_STREAM, rows[i].fields);
		WAIT_FOR(r.n.loop, r.c.n_closed);
		if (r.c.status != rows[i].status)
			fail_msg("row %zu: %d", i, r.c.status);
		assert_string_equal(r.c.why, rows[i].why);
		/* The stream is closed on our side, too. */
		RAW_WAIT(&r.n, &r.peer, r.peer.n_frames[RST_STREAM]);
		end_raw_server(&r);
	}
}

static void informational_answers_are_passed_over(void **state)
{
	static const char *const early[] = { ":status", "103", NULL };
	static const char *const response[] = { ":status", "200", GRPC_TYPE, NULL };
	static const char *const trailers[] = { "grpc-status", "0", NULL };
	static const uint8_t message[] = { 0, 0, 0, 0, 1, 'x' };
	struct raw_server r;

	(void)state;
	begin_raw_server(&r);
	raw_headers(&r.peer, 1, 0, early);
	raw_headers(&r.peer, 1, 0, response);
	raw_frame(&r.peer, DATA, 0, 1, message, sizeof(message));
	raw_headers(&r.peer, 1, END_STREAM, trailers);
	WAIT_FOR(r.n.loop, r.c.n_closed);
	assert_int_equal(r.c.n_messages, 1);
	assert_int_equal(r.c.status, LG_GRPC_OK);
	end_raw_server(&r);
}

static void the_body_of_an_error_page_is_no_message(void **state)
{
	static const char *const fields[] = { ":status", "502", "content-type", "text/html", NULL };
	static const uint8_t page[] = { 0, 0, 0, 0, 1, 'x' };
	struct raw_server r;

	(void)state;
	begin_raw_server(&r);
	raw_headers(&r.peer, 1, 0, fields);
	raw_frame(&r.peer, DATA, END_STREAM, 1, page, sizeof(page));
	WAIT_FOR(r.n.loop, r.c.n_closed);
	assert_int_equal(r.c.status, LG_GRPC_UNAVAILABLE);
	assert_int_equal(r.c.n_messages, 0);
	end_raw_server(&r);
}

static void a_compressed_message_from_the_server_ends_the_stream(void **state)
{
	static const char *const response[] = { ":status", "200", GRPC_TYPE, "grpc-encoding", "gzip", NULL };
	static const uint8_t message[] = { 1, 0, 0, 0, 1, 'x' };
	struct raw_server r;

	(void)state;
	begin_raw_server(&r);
	raw_headers(&r.peer, 1, 0, response);
	raw_frame(&r.peer, DATA, 0, 1, message, sizeof(message));
	WAIT_FOR(r.n.loop, r.c.n_closed);
	assert_int_equal(r.c.status, LG_GRPC_UNIMPLEMENTED);
	end_raw_server(&r);
}

static void a_goaway_with_an_error_ends_the_client(void **state)
{
	static const uint8_t goaway[] = { 0, 0, 0, 0, 0, 0, 0, NGHTTP2_ENHANCE_YOUR_CALM, 'f', 'u', 'l', 'l' };
	struct raw_server r;

	(void)state;
	begin_raw_server(&r);
	raw_frame(&r.peer, GOAWAY, 0, 0, goaway, sizeof(goaway));
	WAIT_FOR(r.n.loop, r.c.n_closed);
	assert_int_equal(r.c.status, LG_GRPC_UNAVAILABLE);
	end_raw_server(&r);
}

static void a_gentle_goaway_lets_streams_end(void **state)
{
	static const uint8_t goaway[] = { 0, 0, 0, 1, 0, 0, 0, 0 };
	static const char *const answer[] = { ":status", "200", GRPC_TYPE, "grpc-status", "9", NULL };
	struct lg_grpc_stream *stream = NULL;
	struct raw_server r;

	(void)state;
	begin_raw_server(&r);
	raw_frame(&r.peer, GOAWAY, 0, 0, goaway, sizeof(goaway));
	/* No new ones, though. */
	for (int i = 0; i < 5; i++)
		event_base_loop(lg_loop_base(r.n.loop), EVLOOP_ONCE);
	assert_int_equal(r.c.n_closed, 0);
	if (lg_grpc_client_open(r.client, "/test.Test/Call", &stream) == 0)
		WAIT_FOR(r.n.loop, r.c.n_closed == 1);
	assert_int_equal(r.peer.n_frames[HEADERS], 1);
	raw_headers(&r.peer, 1, END_STREAM, answer);
	WAIT_FOR(r.n.loop, r.c.status == LG_GRPC_FAILED_PRECONDITION);
	end_raw_server(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_every_size_come_back_as_they_were_sent),
		cmocka_unit_test(a_hundred_megabytes_flow_both_ways_past_the_windows),
		cmocka_unit_test(peers_know_each_other_by_address),
		cmocka_unit_test(ipv6_works_where_the_machine_has_it),
		cmocka_unit_test(a_refused_path_is_unimplemented),
		cmocka_unit_test(the_server_ends_a_stream_with_status_and_text),
		cmocka_unit_test(the_client_ends_a_stream_by_cancelling),
		cmocka_unit_test(a_stream_closed_before_it_could_be_sent_never_existed),
		cmocka_unit_test(a_server_that_stops_tells_its_clients),
		cmocka_unit_test(a_client_that_goes_away_is_noticed),
		cmocka_unit_test(a_client_may_be_freed_in_its_handlers),
		cmocka_unit_test(nobody_there_is_unavailable_with_the_reason),
		cmocka_unit_test(a_port_in_use_is_said_so),
		cmocka_unit_test(a_session_above_the_limit_is_refused_with_a_reason),
		cmocka_unit_test(a_server_without_descriptors_accepts_again_when_it_has_some),
		cmocka_unit_test(a_request_is_what_grpc_wants),
		cmocka_unit_test(answers_become_statuses),
		cmocka_unit_test(informational_answers_are_passed_over),
		cmocka_unit_test(the_body_of_an_error_page_is_no_message),
		cmocka_unit_test(a_compressed_message_from_the_server_ends_the_stream),
		cmocka_unit_test(a_goaway_with_an_error_ends_the_client),
		cmocka_unit_test(a_gentle_goaway_lets_streams_end),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
