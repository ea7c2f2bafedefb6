// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Renewals from end to end: a holder's process with the lease client and a lessor's process with the lease server, a table of keys and
 * the core, over TCP on the loopback of a network namespace of their own. The holder keeps a few messages of 512 keys under way and answers
 * each answer with the next.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "api/lease_rpc.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/table.h"
#include "bench/lease_bench.h"
#include "leasegate/abi.h"
#include "lease/home.h"
#include "loop/loop.h"

#define N_KEYS 100000u
#define SPEND_TOK 60
#define IN_FLIGHT 8
#define RUN_NS (1 * LG_NS_PER_S)
#define QUICK_NS (100 * LG_NS_PER_MS)
#define WAIT_S 10	/* for the first welcome */

struct grpc {
	uint32_t n_keys;
	uint64_t run_ns;
	struct bench_rule rule;
	pid_t lessor;
	clockid_t lessor_clock;
	/* the holder */
	struct lg_loop *loop;
	struct lg_lease_client *client;
	struct lg_source *timer;
	struct bench_order order;
	struct bench_account *accounts;
	uint64_t n_grants, new_tok;	/* of a round */
	bool up, stopping;
	double lessor_s, holder_s;	/* CPU time of all rounds */
	uint64_t n_all;
};

/* ---- the lessor's process ---- */

struct lessor {
	struct bench_rule rule;
	struct lg_table *table;
	struct lg_home **homes;
	struct lg_lease_peer *peer;
	const struct lg_wire_key *key;	/* of the message under way */
};

static int on_hello(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello, struct lg_lease_welcome *welcome,
		    char *why)
{
	struct lessor *l = arg;

	(void)hello;
	(void)why;
	l->peer = peer;
	*welcome = (struct lg_lease_welcome){ .lessor = "near", .epoch = BENCH_EPOCH, .regions_version = 1 };
	return 0;
}

static void on_home_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct lessor *l = arg;

	(void)holder;
	lg_lease_peer_grant(l->peer, l->key, grant);
}

static void on_ask(void *arg, struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	struct lessor *l = arg;
	const struct lg_home_effects fx = { .arg = l, .grant = on_home_grant };
	struct lg_home *home = lg_table_get(l->table, key->a);

	(void)peer;
	if (!home)
		return;
	l->key = key;
	lg_home_ask(home, 0, 1, ask, lg_clock_now_ns(), &fx);
}

static void on_synced(void *arg, struct lg_lease_peer *peer, uint64_t forgot_age_ms)
{
	(void)arg;
	(void)peer;
	(void)forgot_age_ms;
}

static void on_batch_end(void *arg, struct lg_lease_peer *peer)
{
	(void)arg;
	lg_lease_peer_flush(peer);
}

static void on_gone(void *arg, struct lg_lease_peer *peer, const char *why)
{
	(void)arg;
	(void)peer;
	(void)why;
}

static void address_of(uint32_t i, uint8_t ret[16])
{
	memset(ret, 0, 10);
	ret[10] = ret[11] = 0xff;
	ret[12] = 10;
	for (unsigned b = 0; b < 3; b++)
		ret[13 + b] = (uint8_t)(i >> (16 - 8 * b));
}

static int lessor_fill(struct lessor *l, uint32_t n_keys)
{
	int r = lg_table_new(16, n_keys, &l->table);

	l->homes = calloc(n_keys, sizeof(struct lg_home *));
	if (!l->homes)
		return -ENOMEM;
	for (uint32_t i = 0; i < n_keys && r == 0; i++) {
		uint8_t address[16];

		address_of(i, address);
		r = lg_home_new(&l->rule.lessor, lg_clock_now_ns(), &l->homes[i]);
		if (r == 0)
			r = lg_table_put(l->table, address, l->homes[i]);
	}
	return r;
}

/* Ends with its parent. */
static int lessor_main(const struct grpc *g, int port_fd)
{
	static const struct lg_lease_server_handlers handlers = { on_hello, on_ask, on_synced, on_batch_end, on_gone, NULL, NULL, NULL,
								  NULL, NULL };
	struct lessor l = { .rule = g->rule };
	struct lg_lease_server *server;
	struct lg_complaint c;
	struct lg_loop *loop;
	int r, port;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = lessor_fill(&l, g->n_keys);
	if (r == 0)
		r = lg_loop_new(&loop);
	if (r == 0)
		r = lg_lease_server_new(loop, "127.0.0.1:0", &handlers, &l, &server, &c);
	if (r < 0)
		return 1;
	port = lg_lease_server_port(server);
	if (write(port_fd, &port, sizeof(port)) != sizeof(port))
		return 1;
	return lg_loop_run(loop) < 0;
}

/* ---- the holder ---- */

static struct lg_wire_key key_of(uint32_t i)
{
	struct lg_wire_key key = { .rule = "per-client", .fingerprint = 0x1122334455667788, .form = LG_FORM_SOURCE };

	address_of(i, key.a);
	return key;
}

static void send_batch(struct grpc *g)
{
	static struct lg_ask ask;

	for (uint32_t i = 0; i < LG_BATCH_KEYS_MAX; i++) {
		uint32_t at = (uint32_t)bench_order_next(&g->order);
		struct lg_wire_key key = key_of(at);

		bench_account_ask(&g->accounts[at], g->rule.terms.region_period_ns, &ask);
		lg_lease_client_ask(g->client, &key, &ask);
	}
	lg_lease_client_flush(g->client);
}

static void on_up(void *arg, const struct lg_lease_welcome *welcome)
{
	struct grpc *g = arg;

	(void)welcome;
	g->up = true;
	lg_loop_stop(g->loop, 0);
}

static void on_down(void *arg, const char *why)
{
	struct grpc *g = arg;

	fprintf(stderr, "bench-lease: the lessor is down: %s\n", why);
	g->up = false;
	lg_loop_stop(g->loop, 1);
}

static void on_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	struct grpc *g = arg;
	uint32_t at = (uint32_t)key->a[13] << 16 | (uint32_t)key->a[14] << 8 | key->a[15];

	if (at < g->n_keys)
		g->new_tok += bench_account_granted(&g->accounts[at], grant->generation, grant->granted_tok);
	g->n_grants++;
}

static void on_grants_end(void *arg)
{
	struct grpc *g = arg;

	send_batch(g);
}

static void on_time(void *arg)
{
	struct grpc *g = arg;

	lg_loop_stop(g->loop, 0);
}

static int loopback_up(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	_cleanup_fd_ int fd = -1;

	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

static void grpc_close(void *state)
{
	struct grpc *g = state;

	lg_lease_client_free(g->client);
	lg_source_free(g->timer);
	lg_loop_free(g->loop);
	if (g->lessor > 0) {
		kill(g->lessor, SIGKILL);
		waitpid(g->lessor, NULL, 0);
	}
	free(g->accounts);
	free(g);
}

static int start_lessor(struct grpc *g, int *ret_port)
{
	_cleanup_fd_ int read_fd = -1, write_fd = -1;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	g->lessor = fork();
	if (g->lessor < 0)
		return -errno;
	if (!g->lessor)
		_exit(lessor_main(g, write_fd));
	close(TAKE_FD(write_fd));
	if (read(read_fd, ret_port, sizeof(*ret_port)) != sizeof(*ret_port))
		return -ECHILD;
	return -clock_getcpuclockid(g->lessor, &g->lessor_clock);
}

static int connect_holder(struct grpc *g, int port)
{
	static const struct lg_lease_client_handlers handlers = { on_up, on_down, on_grant, on_grants_end, NULL, NULL, NULL };
	static const struct lg_lease_hello hello = { .holder = "far", .region = "far", .is_region = true, .incarnation = 1 };
	struct lg_complaint c;
	char address[32];
	int r = lg_loop_new(&g->loop);

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	if (r == 0)
		r = lg_loop_add_timer(g->loop, on_time, g, &g->timer);
	if (r == 0)
		r = lg_source_arm(g->timer, WAIT_S * LG_NS_PER_S);
	if (r == 0)
		r = lg_lease_client_new(g->loop, address, &hello, &handlers, g, &g->client, &c);
	if (r == 0)
		r = lg_loop_run(g->loop);
	return r < 0 ? r : g->up ? 0 : -ETIMEDOUT;
}

static int grpc_open(const struct bench_case *c, const struct bench_scale *scale, void **ret_state)
{
	struct grpc *g = calloc(1, sizeof(*g));
	int r, port;

	(void)c;
	if (!g)
		return -ENOMEM;
	*ret_state = g;
	g->n_keys = scale->quick ? N_KEYS / 10 : N_KEYS;
	g->run_ns = scale->quick ? QUICK_NS : RUN_NS;
	bench_rule_init(&g->rule, LG_TOKEN_BUCKET, 10000);
	bench_order_init(&g->order, g->n_keys);
	g->accounts = calloc(g->n_keys, sizeof(*g->accounts));
	if (!g->accounts)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_keys; i++)
		g->accounts[i].spend_tok = SPEND_TOK;
	r = loopback_up();
	if (r == 0)
		r = start_lessor(g, &port);
	if (r == 0)
		r = connect_holder(g, port);
	for (int i = 0; r == 0 && i < IN_FLIGHT; i++)
		send_batch(g);
	return r;
}

static double clock_s(clockid_t clock)
{
	struct timespec t = { 0 };

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int grpc_run(void *state, double *ret_value)
{
	struct grpc *g = state;
	double start_s, lessor_s = clock_s(g->lessor_clock), holder_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
	int r = lg_source_arm(g->timer, g->run_ns);

	g->n_grants = g->new_tok = 0;
	start_s = clock_s(CLOCK_MONOTONIC);
	if (r == 0)
		r = lg_loop_run(g->loop);
	*ret_value = (double)g->n_grants / (clock_s(CLOCK_MONOTONIC) - start_s);
	g->lessor_s += clock_s(g->lessor_clock) - lessor_s;
	g->holder_s += clock_s(CLOCK_PROCESS_CPUTIME_ID) - holder_s;
	g->n_all += g->n_grants;
	if (r < 0)
		return r;
	/* A bench of refusals would be a fast one. */
	return g->up && g->n_grants && g->new_tok / SPEND_TOK >= g->n_grants / 100 * 99 ? 0 : -EPROTO;
}

static void grpc_describe(void *state, char *buf, size_t len)
{
	const struct grpc *g = state;

	snprintf(buf, len, ",\"batch\":%d,\"in_flight\":%d,\"processes\":2,\"keys\":%u,\"slots\":%d,\"lessor_us\":%.2f,"
			   "\"holder_us\":%.2f",
		 LG_BATCH_KEYS_MAX, IN_FLIGHT, g->n_keys, BENCH_SLOTS, g->lessor_s * 1e6 / (double)g->n_all,
		 g->holder_s * 1e6 / (double)g->n_all);
}

const struct bench_case lease_grpc_cases[] = {
	{ .name = "grpc_renewals", .unit = "per_s", .apart = true, .open = grpc_open, .run = grpc_run, .describe = grpc_describe,
	  .close = grpc_close },
};
const size_t n_lease_grpc_cases = N_ELEMS(lease_grpc_cases);
