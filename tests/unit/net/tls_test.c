// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Mutual TLS between the two ends of gRPC: who is let in, who is told why not, and what becomes of changed files. */
#include "net/tls.h"

#include "net/grpc.h"
#include "net/h2.h"
#include "tests/lib/certs.h"
#include "tests/unit/net/net_test.h"

#define REGION_URI "spiffe://example.org/region/us-east"
#define NODE_URI "spiffe://example.org/region/us-east/node/host-1"

struct side {
	struct lg_grpc_stream *stream;
	unsigned int n_opened, n_messages, n_closed;
	size_t bytes;
	char why[256];
};

static int on_open(void *arg, struct lg_grpc_stream *stream, const char *path)
{
	struct side *side = arg;

	(void)path;
	side->n_opened++;
	side->stream = stream;
	return 0;
}

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct side *side = arg;

	(void)stream;
	(void)data;
	side->n_messages++;
	side->bytes += len;
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct side *side = arg;

	(void)stream;
	(void)status;
	side->n_closed++;
	side->stream = NULL;
	snprintf(side->why, sizeof(side->why), "%s", why);
}

static const struct lg_grpc_handlers server_handlers = { on_open, on_message, on_closed };
static const struct lg_grpc_handlers client_handlers = { NULL, on_message, on_closed };

struct fixture {
	char folder[64];
	struct certs *ours, *others;
	struct net_loop n;
	struct lg_tls *server_tls, *client_tls;
	struct lg_grpc_server *server;
	struct lg_grpc_client *client;
	struct side s, c;
};

static void files_of(const struct fixture *f, const char *who, struct lg_tls_files *ret)
{
	snprintf(ret->ca, sizeof(ret->ca), "%s/ca.pem", f->folder);
	snprintf(ret->certificate, sizeof(ret->certificate), "%s/%s.pem", f->folder, who);
	snprintf(ret->key, sizeof(ret->key), "%s/%s.key", f->folder, who);
}

static void leaf(struct fixture *f, struct certs *of, const char *who, const struct certs_leaf *leaf)
{
	struct lg_tls_files files;

	files_of(f, who, &files);
	certs_leaf(of, leaf, files.certificate, files.key);
}

static struct lg_tls *tls_of(struct fixture *f, const char *who)
{
	struct lg_complaint c = { 0 };
	struct lg_tls_files files;
	struct lg_tls *tls;

	files_of(f, who, &files);
	if (lg_tls_new(&files, NULL, &tls, &c) < 0)
		fail_msg("%s", c.text);
	return tls;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char path[96];

	snprintf(f->folder, sizeof(f->folder), "/tmp/leasegate-tls-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	snprintf(path, sizeof(path), "%s/ca.pem", f->folder);
	f->ours = certs_new(path);
	snprintf(path, sizeof(path), "%s/other-ca.pem", f->folder);
	f->others = certs_new(path);
	leaf(f, f->ours, "region", &(struct certs_leaf){ .uri = { REGION_URI }, .dns = "localhost" });
	leaf(f, f->ours, "node", &(struct certs_leaf){ .uri = { NODE_URI, "https://example.org/else" } });
	f->n = net_loop_new();
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];

	lg_grpc_client_free(f->client);
	lg_grpc_server_free(f->server);
	net_loop_free(&f->n);
	lg_tls_free(f->client_tls);
	lg_tls_free(f->server_tls);
	certs_free(f->ours);
	certs_free(f->others);
	snprintf(command, sizeof(command), "rm -rf %s", f->folder);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

/* A server as `server`, and a client as `client` (NULL: in clear text) that expects a region's server, or a host if `region` is NULL. */
static void connect_as(struct fixture *f, const char *server, const char *client, const char *region)
{
	struct lg_tls_expect expect = { .host = "localhost" };
	struct lg_complaint c = { 0 };
	char address[64];

	if (server)
		f->server_tls = tls_of(f, server);
	if (client)
		f->client_tls = tls_of(f, client);
	assert_int_equal(lg_grpc_server_new(f->n.loop, "127.0.0.1:0", &server_handlers, &f->s, &f->server, &c), 0);
	if (server)
		lg_grpc_server_secure(f->server, f->server_tls);
	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_grpc_server_port(f->server));
	assert_int_equal(lg_grpc_client_new(f->n.loop, address, &client_handlers, &f->c, &f->client, &c), 0);
	if (region)
		snprintf(expect.name.region, sizeof(expect.name.region), "%s", region);
	if (client)
		lg_grpc_client_secure(f->client, f->client_tls, &expect);
	assert_int_equal(lg_grpc_client_open(f->client, "/test.Test/Call", &f->c.stream), 0);
	assert_int_equal(lg_grpc_send(f->c.stream, "hello", 5), 0);
}

static void assert_refused(struct fixture *f, const char *why)
{
	WAIT_FOR(f->n.loop, f->c.n_closed);
	if (!strstr(f->c.why, why))
		fail_msg("refused with \"%s\", not \"%s\"", f->c.why, why);
	assert_int_equal(f->s.n_opened, 0);
}

/* ---- who is let in ---- */

static void a_node_and_its_region_know_each_other_by_certificate(void **state)
{
	struct fixture *f = *state;
	struct lg_tls_name name;

	connect_as(f, "region", "node", "us-east");
	WAIT_FOR(f->n.loop, f->s.n_messages == 1);
	assert_true(lg_grpc_identity(f->s.stream, &name));
	assert_string_equal(name.region, "us-east");
	assert_string_equal(name.node, "host-1");
	assert_true(lg_grpc_identity(f->c.stream, &name));
	assert_string_equal(name.region, "us-east");
	assert_string_equal(name.node, "");
	assert_int_equal(lg_grpc_server_strangers(f->server), 0);
}

static void megabytes_pass_the_records_both_ways(void **state)
{
	struct fixture *f = *state;
	uint8_t *message = calloc(1, 700000);

	connect_as(f, "region", "node", "us-east");
	WAIT_FOR(f->n.loop, f->s.n_opened);
	for (int i = 0; i < 8; i++) {
		assert_int_equal(lg_grpc_send(f->c.stream, message, 700000), 0);
		assert_int_equal(lg_grpc_send(f->s.stream, message, 700000), 0);
	}
	WAIT_FOR(f->n.loop, f->s.n_messages == 9 && f->c.n_messages == 8);
	assert_int_equal(f->c.bytes, 8 * 700000);
	free(message);
}

static void a_server_may_be_expected_by_its_host(void **state)
{
	struct fixture *f = *state;

	connect_as(f, "region", "node", NULL);
	WAIT_FOR(f->n.loop, f->s.n_messages == 1);
	assert_int_equal(f->c.n_closed, 0);
}

static void a_farewell_reaches_the_peer(void **state)
{
	struct fixture *f = *state;

	connect_as(f, "region", "node", "us-east");
	WAIT_FOR(f->n.loop, f->s.n_opened);
	f->server = lg_grpc_server_free(f->server);
	WAIT_FOR(f->n.loop, f->c.n_closed);
	assert_string_equal(f->c.why, "the server is shutting down");
}

/* ---- who is not ---- */

static void a_region_of_another_name_is_not_talked_to(void **state)
{
	struct fixture *f = *state;

	connect_as(f, "region", "node", "eu-west");
	assert_refused(f, "the server of region eu-west was expected, and this is the server of region us-east");
}

static void a_node_cannot_stand_in_for_a_region(void **state)
{
	struct fixture *f = *state;

	connect_as(f, "node", "node", "us-east");
	assert_refused(f, "the server of region us-east was expected, and this is host-1 of region us-east");
}

static void an_operator_is_neither_a_node_nor_a_region(void **state)
{
	struct fixture *f = *state;
	struct lg_tls_name name;

	leaf(f, f->ours, "jane", &(struct certs_leaf){ .uri = { "spiffe://example.org/region/us-east/operator/jane" }, .dns = "localhost" });
	connect_as(f, "region", "jane", "us-east");
	WAIT_FOR(f->n.loop, f->s.n_messages == 1);
	assert_true(lg_grpc_identity(f->s.stream, &name));
	assert_string_equal(name.region, "us-east");
	assert_string_equal(name.node, "");
	assert_string_equal(name.operator_name, "jane");
	assert_false(lg_tls_name_equal(&name, &(struct lg_tls_name){ .region = "us-east" }));
}

static void an_operator_cannot_stand_in_for_a_region(void **state)
{
	struct fixture *f = *state;

	leaf(f, f->ours, "jane", &(struct certs_leaf){ .uri = { "spiffe://example.org/region/us-east/operator/jane" }, .dns = "localhost" });
	connect_as(f, "jane", "node", "us-east");
	assert_refused(f, "the server of region us-east was expected, and this is jane of region us-east");
}

static void a_host_of_another_name_is_not_talked_to(void **state)
{
	struct fixture *f = *state;

	connect_as(f, "node", "node", NULL);
	assert_refused(f, "its certificate is not good: hostname mismatch");
}

static void a_stranger_is_refused_and_counted(void **state)
{
	struct fixture *f = *state;

	leaf(f, f->others, "stranger", &(struct certs_leaf){ .uri = { NODE_URI } });
	connect_as(f, "region", "stranger", "us-east");
	WAIT_FOR(f->n.loop, f->c.n_closed && lg_grpc_server_strangers(f->server) == 1);
	assert_int_equal(f->s.n_opened, 0);
}

static struct lg_grpc_client *client_of(struct fixture *f, struct lg_tls *tls, struct side *side)
{
	struct lg_tls_expect expect = { .name = { .region = "us-east" } };
	struct lg_grpc_client *client;
	struct lg_complaint c = { 0 };
	char address[64];

	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_grpc_server_port(f->server));
	assert_int_equal(lg_grpc_client_new(f->n.loop, address, &client_handlers, side, &client, &c), 0);
	lg_grpc_client_secure(client, tls, &expect);
	assert_int_equal(lg_grpc_client_open(client, "/test.Test/Call", &side->stream), 0);
	return client;
}

static void a_peer_has_sixteen_sessions_and_a_further_one_ends_its_oldest(void **state)
{
	struct lg_grpc_client *clients[LG_GRPC_SESSIONS_PER_PEER];
	struct side sides[LG_GRPC_SESSIONS_PER_PEER] = { 0 }, other = { 0 };
	struct fixture *f = *state;
	struct lg_grpc_client *of_other;
	struct lg_tls *other_tls;

	leaf(f, f->ours, "node-2", &(struct certs_leaf){ .uri = { "spiffe://example.org/region/us-east/node/host-2" } });
	other_tls = tls_of(f, "node-2");
	connect_as(f, "region", "node", "us-east");
	WAIT_FOR(f->n.loop, f->s.n_opened == 1);
	of_other = client_of(f, other_tls, &other);
	WAIT_FOR(f->n.loop, f->s.n_opened == 2);
	for (unsigned int i = 0; i < LG_GRPC_SESSIONS_PER_PEER; i++) {
		assert_int_equal(lg_grpc_server_displaced(f->server), 0);
		assert_int_equal(f->c.n_closed, 0);
		clients[i] = client_of(f, f->client_tls, &sides[i]);
		WAIT_FOR(f->n.loop, f->s.n_opened == 3 + i);
	}
	WAIT_FOR(f->n.loop, f->c.n_closed);
	assert_int_equal(lg_grpc_server_displaced(f->server), 1);
	assert_non_null(strstr(f->c.why, "more sessions than one may have"));
	assert_int_equal(other.n_closed, 0);
	for (unsigned int i = 0; i < LG_GRPC_SESSIONS_PER_PEER; i++) {
		assert_int_equal(sides[i].n_closed, 0);
		lg_grpc_client_free(clients[i]);
	}
	lg_grpc_client_free(of_other);
	lg_tls_free(other_tls);
}

static void a_server_of_another_authority_hears_nothing(void **state)
{
	struct fixture *f = *state;

	leaf(f, f->others, "stranger", &(struct certs_leaf){ .uri = { REGION_URI } });
	connect_as(f, "stranger", "node", "us-east");
	assert_refused(f, "its certificate is not good: certificate signature failure");
}

static void a_certificate_with_two_names_or_none_is_refused(void **state)
{
	static const struct certs_leaf bad[] = {
		{ .uri = { NODE_URI, REGION_URI } },
		{ .uri = { "spiffe://example.org/region/" } },
		{ .uri = { "spiffe://example.org/region/us-east/" } },
		{ .uri = { "spiffe://example.org/region/us-east/node/" } },
		{ .uri = { "spiffe://example.org/region/us-east/node/a/b" } },
		{ .uri = { "spiffe://example.org/region/us-east/operator/" } },
		{ .uri = { "spiffe://example.org/region/us-east/operator/jane/node/host-1" } },
		{ .uri = { "spiffe://example.org/us-east" } },
		{ .uri = { "https://example.org/region/us-east" } },
		{ .dns = "localhost" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < N_ELEMS(bad); i++) {
		leaf(f, f->ours, "bad", &bad[i]);
		connect_as(f, "region", "bad", "us-east");
		WAIT_FOR(f->n.loop, f->c.n_closed && lg_grpc_server_strangers(f->server) == 1);
		assert_int_equal(f->s.n_opened, 0);
		f->client = lg_grpc_client_free(f->client);
		f->server = lg_grpc_server_free(f->server);
		f->client_tls = lg_tls_free(f->client_tls);
		f->server_tls = lg_tls_free(f->server_tls);
		f->c = f->s = (struct side){ 0 };
	}
}

static void a_peer_in_clear_text_is_refused_and_counted(void **state)
{
	struct fixture *f = *state;

	connect_as(f, "region", NULL, NULL);
	WAIT_FOR(f->n.loop, f->c.n_closed && lg_grpc_server_strangers(f->server) == 1);
	assert_int_equal(f->s.n_opened, 0);
}

static void a_server_in_clear_text_is_not_talked_to(void **state)
{
	struct fixture *f = *state;

	connect_as(f, NULL, "node", "us-east");
	WAIT_FOR(f->n.loop, f->c.n_closed);
	assert_memory_equal(f->c.why, "TLS: ", 5);
	assert_int_equal(f->s.n_messages, 0);
}

static void on_down(void *arg, const char *why)
{
	struct side *side = arg;

	snprintf(side->why, sizeof(side->why), "%s", why);
}

static void on_gone(void *arg)
{
	struct side *side = arg;

	side->n_closed++;
}

static void no_tick(void *arg, uint32_t elapsed_ms)
{
	(void)arg;
	(void)elapsed_ms;
}

static void a_peer_that_does_not_begin_the_handshake_is_let_go(void **state)
{
	static const struct lg_h2_events events = { .down = on_down, .gone = on_gone, .tick = no_tick };
	static const struct lg_h2_patience patience = { .hello_ms = 10000 };
	struct fixture *f = *state;
	struct lg_h2 *h2;
	int fds[2];

	f->server_tls = tls_of(f, "region");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	assert_int_equal(lg_h2_new(lg_loop_base(f->n.loop), true, &patience, &events, &f->s, &h2), 0);
	assert_int_equal(lg_h2_attach(h2, fds[0], lg_tls_connection(f->server_tls, NULL)), 0);
	lg_h2_tick(h2, 9999);
	assert_string_equal(f->s.why, "");
	lg_h2_tick(h2, 1);
	assert_string_equal(f->s.why, "no HTTP/2 settings came in time");
	/* There is no way to tell the peer why. */
	lg_h2_tick(h2, LG_H2_LINGER_MS);
	assert_int_equal(f->s.n_closed, 1);
	close(fds[1]);
}

/* ---- files ---- */

static int new_fails(struct fixture *f, const struct lg_tls_files *files, const struct lg_tls_name *self, const char *text)
{
	struct lg_complaint c = { 0 };
	struct lg_tls *tls = NULL;
	int r = lg_tls_new(files, self, &tls, &c);

	(void)f;
	assert_true(r < 0);
	assert_null(tls);
	if (!strstr(c.text, text))
		fail_msg("\"%s\" does not say \"%s\"", c.text, text);
	assert_true(c.file[0]);
	return r;
}

static void files_that_cannot_work_are_named_with_the_reason(void **state)
{
	struct fixture *f = *state;
	struct lg_tls_files files, other;

	files_of(f, "node", &files);
	files_of(f, "region", &other);
	snprintf(files.key, sizeof(files.key), "%s", other.key);
	new_fails(f, &files, NULL, "not the one of the certificate");
	files_of(f, "node", &files);
	snprintf(files.ca, sizeof(files.ca), "%s", files.key);
	new_fails(f, &files, NULL, "no certificates of an authority");
	files_of(f, "node", &files);
	snprintf(files.certificate, sizeof(files.certificate), "%s", files.key);
	new_fails(f, &files, NULL, "no certificate can be read");
	files_of(f, "nobody", &files);
	assert_int_equal(new_fails(f, &files, NULL, "No such file"), -ENOENT);
}

static void a_certificate_out_of_its_time_is_refused(void **state)
{
	struct fixture *f = *state;
	struct lg_tls_files files;

	files_of(f, "old", &files);
	leaf(f, f->ours, "old", &(struct certs_leaf){ .uri = { NODE_URI }, .from_s = -100, .to_s = -10 });
	new_fails(f, &files, NULL, "has expired");
	leaf(f, f->ours, "old", &(struct certs_leaf){ .uri = { NODE_URI }, .from_s = 100 });
	new_fails(f, &files, NULL, "is not valid yet");
}

static void a_certificate_of_somebody_else_is_refused(void **state)
{
	struct fixture *f = *state;
	struct lg_tls_name self = { .region = "us-east", .node = "host-2" };
	struct lg_complaint c = { 0 };
	struct lg_tls_files files;

	files_of(f, "node", &files);
	new_fails(f, &files, &self, "one URI spiffe://DOMAIN/region/us-east/node/host-2");
	snprintf(self.node, sizeof(self.node), "host-1");
	assert_int_equal(lg_tls_new(&files, &self, &f->client_tls, &c), 0);
}

static void changed_files_are_in_force_for_new_connections(void **state)
{
	struct fixture *f = *state;
	struct lg_complaint c = { 0 };
	struct lg_tls_files files;
	struct lg_tls_name name;
	uint64_t end_s;

	connect_as(f, "region", "node", "us-east");
	WAIT_FOR(f->n.loop, f->s.n_opened);
	assert_int_equal(lg_tls_reload(f->client_tls, &c), 0);
	end_s = lg_tls_not_after_s(f->client_tls);
	leaf(f, f->ours, "node", &(struct certs_leaf){ .uri = { "spiffe://example.org/region/us-east/node/host-9" }, .to_s = 3600 });
	assert_int_equal(lg_tls_reload(f->client_tls, &c), 1);
	assert_true(lg_tls_not_after_s(f->client_tls) < end_s);
	assert_int_equal(lg_tls_reload(f->client_tls, &c), 0);
	assert_true(lg_grpc_identity(f->s.stream, &name));
	assert_string_equal(name.node, "host-1");
	/* What cannot be read changes nothing, and is told once. */
	files_of(f, "node", &files);
	assert_int_equal(truncate(files.certificate, 10), 0);
	end_s = lg_tls_not_after_s(f->client_tls);
	assert_true(lg_tls_reload(f->client_tls, &c) < 0);
	assert_int_equal(lg_tls_reload(f->client_tls, &c), 0);
	assert_int_equal(lg_tls_not_after_s(f->client_tls), end_s);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_node_and_its_region_know_each_other_by_certificate),
		TEST(megabytes_pass_the_records_both_ways),
		TEST(a_server_may_be_expected_by_its_host),
		TEST(a_farewell_reaches_the_peer),
		TEST(a_region_of_another_name_is_not_talked_to),
		TEST(a_node_cannot_stand_in_for_a_region),
		TEST(an_operator_is_neither_a_node_nor_a_region),
		TEST(an_operator_cannot_stand_in_for_a_region),
		TEST(a_host_of_another_name_is_not_talked_to),
		TEST(a_stranger_is_refused_and_counted),
		TEST(a_peer_has_sixteen_sessions_and_a_further_one_ends_its_oldest),
		TEST(a_server_of_another_authority_hears_nothing),
		TEST(a_certificate_with_two_names_or_none_is_refused),
		TEST(a_peer_in_clear_text_is_refused_and_counted),
		TEST(a_server_in_clear_text_is_not_talked_to),
		TEST(a_peer_that_does_not_begin_the_handshake_is_let_go),
		TEST(files_that_cannot_work_are_named_with_the_reason),
		TEST(a_certificate_out_of_its_time_is_refused),
		TEST(a_certificate_of_somebody_else_is_refused),
		TEST(changed_files_are_in_force_for_new_connections),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
