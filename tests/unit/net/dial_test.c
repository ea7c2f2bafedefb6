// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/dial.h"

#include "net/address.h"
#include "tests/unit/net/net_test.h"

struct outcome {
	unsigned int n;
	int fd;
	char peer[LG_HOST_LEN];
	char why[256];
	struct lg_dial **free_in_call;
};

static void on_dialled(void *arg, int fd, const char *peer, const char *why)
{
	struct outcome *o = arg;

	o->n++;
	o->fd = fd;
	snprintf(o->peer, sizeof(o->peer), "%s", peer);
	snprintf(o->why, sizeof(o->why), "%s", why ? why : "");
	if (o->free_in_call)
		*o->free_in_call = lg_dial_free(*o->free_in_call);
}

/* Dials and waits for the outcome. */
static struct outcome dial(const char *address, unsigned int timeout_ms)
{
	struct net_loop n = net_loop_new();
	struct lg_complaint c = { 0 };
	struct outcome o = { .fd = -1 };
	struct lg_dial *d;

	assert_int_equal(lg_dial_new(n.loop, address, timeout_ms, on_dialled, &o, &d, &c), 0);
	assert_int_equal(o.n, 0);
	WAIT_FOR(n.loop, o.n);
	lg_dial_free(d);
	net_loop_free(&n);
	assert_int_equal(o.n, 1);
	return o;
}

static int listen_on(const char *address, char *ret_text, const char *host)
{
	struct lg_complaint c = { 0 };
	int fd;

	assert_int_equal(lg_address_listen(address, &fd, &c), 0);
	snprintf(ret_text, 64, "%s:%d", host, lg_address_port(fd));
	return fd;
}

static void a_numeric_address_is_connected_to(void **state)
{
	char text[64];
	int fd = listen_on("127.0.0.1:0", text, "127.0.0.1");
	struct outcome o = dial(text, 5000);

	(void)state;
	assert_true(o.fd >= 0);
	assert_string_equal(o.peer, text);
	close(o.fd);
	close(fd);
}

static void a_name_is_resolved(void **state)
{
	char text[64];
	int fd = listen_on("127.0.0.1:0", text, "localhost");
	struct outcome o = dial(text, 5000);

	(void)state;
	assert_true(o.fd >= 0);
	assert_memory_equal(o.peer, "127.0.0.1:", 10);
	close(o.fd);
	close(fd);
}

static void seen_note(void *arg, const struct sockaddr *address)
{
	lg_address_format(address, arg);
}

static void who_observes_is_told_of_each_address_before_it_is_connected_to(void **state)
{
	char text[64], seen[LG_PEER_LEN] = "";
	int fd = listen_on("127.0.0.1:0", text, "localhost");
	struct outcome o;

	(void)state;
	lg_dial_observe(seen_note, seen);
	o = dial(text, 5000);
	assert_true(o.fd >= 0);
	assert_string_equal(seen, o.peer);
	close(o.fd);
	close(fd);
	o = dial("127.0.0.1:1", 5000);
	assert_int_equal(o.fd, -1);
	assert_string_equal(seen, "127.0.0.1:1");
	lg_dial_observe(NULL, NULL);
}

static void a_closed_port_is_refused_by_name(void **state)
{
	char text[64], want[128];
	struct outcome o;

	(void)state;
	close(listen_on("127.0.0.1:0", text, "127.0.0.1"));
	o = dial(text, 5000);
	assert_int_equal(o.fd, -1);
	snprintf(want, sizeof(want), "cannot connect to %s: Connection refused", text);
	assert_string_equal(o.why, want);
}

static void a_name_nobody_knows_is_said_so(void **state)
{
	struct outcome o = dial("no-such-host.invalid:80", 300);

	(void)state;
	assert_int_equal(o.fd, -1);
	assert_non_null(strstr(o.why, "cannot resolve no-such-host.invalid"));
}

/* A listener whose backlog is full drops what comes: nobody answers. */
static void an_address_that_does_not_answer_is_given_up_in_time(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fillers[8];
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sa);
	struct outcome o;
	char text[64];

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	for (size_t i = 0; i < N_ELEMS(fillers); i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fillers[i], (struct sockaddr *)&sa, sizeof(sa));
	}
	snprintf(text, sizeof(text), "127.0.0.1:%d", ntohs(sa.sin_port));
	o = dial(text, 100);
	assert_int_equal(o.fd, -1);
	assert_non_null(strstr(o.why, "no answer"));
	for (size_t i = 0; i < N_ELEMS(fillers); i++)
		close(fillers[i]);
	close(fd);
}

static void a_dial_can_be_given_up_at_any_moment(void **state)
{
	static const char *const addresses[] = { "127.0.0.1:1", "localhost:1", "no-such-host.invalid:80" };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(addresses); i++) {
		for (int turns = 0; turns < 4; turns++) {
			struct net_loop n = net_loop_new();
			struct lg_complaint c = { 0 };
			struct outcome o = { .fd = -1 };
			struct lg_dial *d;

			assert_int_equal(lg_dial_new(n.loop, addresses[i], 5000, on_dialled, &o, &d, &c), 0);
			for (int t = 0; t < turns; t++)
				event_base_loop(lg_loop_base(n.loop), EVLOOP_NONBLOCK);
			o.n = 0;
			lg_dial_free(d);
			net_loop_free(&n);
			assert_int_equal(o.n, 0);
		}
	}
}

static void a_dial_may_be_freed_in_its_own_call(void **state)
{
	static const char *const addresses[] = { "127.0.0.1:1", "localhost:1" };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(addresses); i++) {
		struct net_loop n = net_loop_new();
		struct lg_complaint c = { 0 };
		struct lg_dial *d;
		struct outcome o = { .fd = -1, .free_in_call = &d };

		assert_int_equal(lg_dial_new(n.loop, addresses[i], 5000, on_dialled, &o, &d, &c), 0);
		WAIT_FOR(n.loop, o.n);
		net_loop_free(&n);
		assert_null(d);
	}
}

static void what_is_no_address_is_refused_at_once(void **state)
{
	struct net_loop n = net_loop_new();
	struct lg_complaint c = { 0 };
	struct lg_dial *d;

	(void)state;
	assert_int_equal(lg_dial_new(n.loop, "nowhere", 5000, on_dialled, NULL, &d, &c), -EINVAL);
	assert_non_null(strstr(c.text, "nowhere"));
	net_loop_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_numeric_address_is_connected_to),
		cmocka_unit_test(a_name_is_resolved),
		cmocka_unit_test(who_observes_is_told_of_each_address_before_it_is_connected_to),
		cmocka_unit_test(a_closed_port_is_refused_by_name),
		cmocka_unit_test(a_name_nobody_knows_is_said_so),
		cmocka_unit_test(an_address_that_does_not_answer_is_given_up_in_time),
		cmocka_unit_test(a_dial_can_be_given_up_at_any_moment),
		cmocka_unit_test(a_dial_may_be_freed_in_its_own_call),
		cmocka_unit_test(what_is_no_address_is_refused_at_once),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
