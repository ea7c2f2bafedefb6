// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The lease service against a peer that shares no code with it: grpcio, and messages made by protoc's Python. Run from the top of the
 * tree. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "api/lease_rpc.h"
#include "leasegate/abi.h"
#include "tests/unit/net/net_test.h"

#define PEER "tests/unit/api/grpcio_peer.py"
#define MISSING 77	/* its exit code when grpcio is not installed */
#define N_KEYS 2000

struct process {
	pid_t pid;
	int in, out;	/* its stdin and stdout */
};

static struct process start(const char *role, const char *address)
{
	struct process p;
	int in[2], out[2];

	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	p.pid = fork();
	if (p.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], 0);
		dup2(out[1], 1);
		unsetenv("http_proxy");
		execl("/usr/bin/python3", "python3", PEER, role, address, (char *)NULL);
		_exit(MISSING);
	}
	close(in[0]);
	close(out[1]);
	p.in = in[1];
	p.out = out[0];
	return p;
}

/* Its exit code; the loop turns until it has ended. */
static int finish(struct process *p, struct lg_loop *loop)
{
	int status;

	close(p->in);
	WAIT_FOR(loop, waitpid(p->pid, &status, WNOHANG) == p->pid);
	close(p->out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- grpcio asks ---- */

struct lessor {
	unsigned int n_hello, n_asks, n_reports, n_synced, n_gone;
};

static int on_hello(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello,
		    struct lg_lease_welcome *welcome, char *why)
{
	struct lessor *l = arg;

	(void)peer;
	(void)why;
	assert_string_equal(hello->holder, "python-1");
	assert_string_equal(hello->region, "eu-west");
	assert_int_equal(hello->incarnation, 5);
	*welcome = (struct lg_lease_welcome){ .lessor = "eu-west", .epoch = 3, .regions_version = 7 };
	l->n_hello++;
	return 0;
}

static void on_ask(void *arg, struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	const struct lg_grant grant = { .ack_seq = ask->seq, .ack_slot = 1, .epoch = 3, .generation = 1,
					.granted_tok = ask->want_tok, .ttl_ms = 10000 };
	struct lessor *l = arg;

	assert_string_equal(key->rule, "per-user");
	assert_int_equal(key->fingerprint, 99);
	assert_int_equal(key->form, LG_FORM_SOURCE);
	assert_int_equal(ask->granted_tok, 10);
	assert_int_equal(ask->spent_tok, 4);
	assert_int_equal(ask->returned_tok, 1);
	assert_int_equal(ask->demand_mtps, 1500);
	assert_int_equal(ask->n_slots, 1);
	assert_int_equal(ask->slots[0].age_ms, 20);
	l->n_asks++;
	if (ask->request)
		lg_lease_peer_grant(peer, key, &grant);
	else
		l->n_reports++;
}

static void on_synced(void *arg, struct lg_lease_peer *peer, uint64_t forgot_age_ms)
{
	struct lessor *l = arg;

	(void)peer;
	assert_true(forgot_age_ms == LG_LEASE_REMEMBERS);
	l->n_synced++;
}

static void on_batch_end(void *arg, struct lg_lease_peer *peer)
{
	(void)arg;
	lg_lease_peer_flush(peer);
}

static void on_gone(void *arg, struct lg_lease_peer *peer, const char *why)
{
	struct lessor *l = arg;

	(void)peer;
	(void)why;
	l->n_gone++;
}

static void grpcio_leases_from_us_and_is_refused_what_must_be(void **state)
{
	static const struct lg_lease_server_handlers handlers = { on_hello, on_ask, on_synced, on_batch_end, on_gone, NULL, NULL, NULL,
								  NULL, NULL };
	struct net_loop n = net_loop_new();
	struct lg_complaint c = { 0 };
	struct lg_lease_server *server;
	struct lessor l = { 0 };
	struct process p;
	char address[64];
	int code;

	(void)state;
	assert_int_equal(lg_lease_server_new(n.loop, "127.0.0.1:0", &handlers, &l, &server, &c), 0);
	snprintf(address, sizeof(address), "127.0.0.1:%d", lg_lease_server_port(server));
	p = start("holder", address);
	code = finish(&p, n.loop);
	if (code == 0)
		WAIT_FOR(n.loop, l.n_gone == l.n_hello);
	lg_lease_server_free(server);
	net_loop_free(&n);
	if (code == MISSING)
		skip();
	assert_int_equal(code, 0);
	/* Two times all keys, and a stream that broke the rules after its hello. */
	assert_int_equal(l.n_hello, 3);
	assert_int_equal(l.n_asks, 2 * (N_KEYS + 1));
	assert_int_equal(l.n_reports, 2);
	assert_int_equal(l.n_synced, 2);
}

/* ---- we ask grpcio ---- */

struct holder {
	unsigned int n_up, n_down, n_grants;
	uint64_t granted_sum;
	char why[256];
};

static void on_up(void *arg, const struct lg_lease_welcome *welcome)
{
	struct holder *h = arg;

	assert_string_equal(welcome->lessor, "eu-west");
	assert_int_equal(welcome->epoch, 3);
	assert_int_equal(welcome->regions_version, 7);
	h->n_up++;
}

static void on_down(void *arg, const char *why)
{
	struct holder *h = arg;

	h->n_down++;
	snprintf(h->why, sizeof(h->why), "%s", why);
}

static void on_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	struct holder *h = arg;
	uint32_t i;

	memcpy(&i, key->a, sizeof(i));
	assert_int_equal(grant->granted_tok, 100 + i);
	assert_int_equal(grant->ack_seq, i + 1);
	assert_int_equal(grant->cap_tok, 123);
	assert_true(grant->partial);
	h->n_grants++;
}

static void on_grants_end(void *arg)
{
	(void)arg;
}

static void ask_for_everything(struct lg_lease_client *client)
{
	for (uint32_t i = 0; i < N_KEYS; i++) {
		struct lg_wire_key key = { .rule = "per-user", .fingerprint = 99, .form = LG_FORM_SOURCE };
		const struct lg_ask ask = { .seq = i + 1, .life = 1, .request = true, .granted_tok = 10, .spent_tok = 4,
					    .returned_tok = i % 10, .want_tok = 100 + i, .n_slots = 1, .slots = { { 1, 2, 4 } } };

		memcpy(key.a, &i, sizeof(i));
		lg_lease_client_ask(client, &key, &ask);
	}
	lg_lease_client_flush(client);
}

static int read_port(struct process *p)
{
	char line[16] = "";
	ssize_t n = read(p->out, line, sizeof(line) - 1);

	return n > 0 ? atoi(line) : 0;
}

static void we_lease_from_grpcio(void **state)
{
	static const struct lg_lease_client_handlers handlers = { on_up, on_down, on_grant, on_grants_end, NULL, NULL, NULL };
	static const struct lg_lease_hello hello = { .holder = "host-1", .region = "eu-west", .incarnation = 42, .regions_version = 7,
	.max_keys = 65536 };
	struct net_loop n = net_loop_new();
	struct process p = start("lessor", NULL);
	struct lg_complaint c = { 0 };
	struct lg_lease_client *client;
	struct holder h = { 0 };
	char address[64];
	int port = read_port(&p);

	(void)state;
	if (!port) {
		assert_int_equal(finish(&p, n.loop), MISSING);
		net_loop_free(&n);
		skip();
	}
	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	assert_int_equal(lg_lease_client_new(n.loop, address, &hello, &handlers, &h, &client, &c), 0);
	WAIT_FOR(n.loop, h.n_up);
	ask_for_everything(client);
	WAIT_FOR(n.loop, h.n_grants == N_KEYS);
	lg_lease_client_synced(client, LG_LEASE_REMEMBERS);
	lg_lease_client_flush(client);
	WAIT_FOR(n.loop, h.n_down);
	assert_string_equal(h.why, "that was 100% of it (status 9)");
	/* And once more, on a new stream. */
	WAIT_FOR(n.loop, h.n_up == 2);
	ask_for_everything(client);
	WAIT_FOR(n.loop, h.n_grants == 2 * N_KEYS);
	lg_lease_client_free(client);
	assert_int_equal(finish(&p, n.loop), 0);
	net_loop_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grpcio_leases_from_us_and_is_refused_what_must_be),
		cmocka_unit_test(we_lease_from_grpcio),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
