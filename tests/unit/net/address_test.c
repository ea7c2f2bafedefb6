// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "tests/unit/net/net_test.h"

static void addresses_are_split_into_host_and_port(void **state)
{
	static const struct {
		const char *text;
		const char *host;
		uint16_t port;
	} rows[] = {
		{ "192.0.2.1:80", "192.0.2.1", 80 },
		{ "[2001:db8::1]:65535", "2001:db8::1", 65535 },
		{ "[fe80::1%eth0]:1", "fe80::1%eth0", 1 },
		{ "region-0.us_east.svc:7000", "region-0.us_east.svc", 7000 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_address a;
		struct lg_complaint c = { 0 };

		assert_int_equal(lg_address_parse(rows[i].text, true, &a, &c), 0);
		assert_string_equal(a.host, rows[i].host);
		assert_int_equal(a.port, rows[i].port);
	}
}

static void an_address_to_listen_on_may_leave_host_and_port_open(void **state)
{
	static const char *const texts[] = { ":80", "127.0.0.1:0", ":0" };
	struct lg_complaint c = { 0 };
	struct lg_address a;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(texts); i++) {
		assert_int_equal(lg_address_parse(texts[i], false, &a, &c), 0);
		assert_int_equal(lg_address_parse(texts[i], true, &a, &c), -EINVAL);
	}
}

static void what_is_no_address_is_refused_with_a_reason(void **state)
{
	static const struct {
		const char *text;
		const char *why;
	} rows[] = {
		{ "", "has no port" },
		{ "192.0.2.1", "has no port" },
		{ "192.0.2.1:", "port is not a number" },
		{ "192.0.2.1:65536", "port is not a number" },
		{ "192.0.2.1:-1", "port is not a number" },
		{ "192.0.2.1:80x", "port is not a number" },
		{ "::1:80", "in brackets" },
		{ "2001:db8::1", "in brackets" },
		{ "[::1]80", "write [address]:port" },
		{ "[]:80", "neither an IP address nor a name" },
		{ "[:80", "write [address]:port" },
		{ "[name]:80", "neither an IP address nor a name" },
		{ "a b:80", "neither an IP address nor a name" },
		{ "http://a:80", "in brackets" },
	};
	struct lg_address a;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_complaint c = { 0 };

		assert_int_equal(lg_address_parse(rows[i].text, true, &a, &c), -EINVAL);
		if (!strstr(c.text, rows[i].why))
			fail_msg("%s: %s", rows[i].text, c.text);
	}
}

static void a_host_name_of_255_characters_is_the_longest(void **state)
{
	char text[300];
	struct lg_address a;
	struct lg_complaint c = { 0 };

	(void)state;
	memset(text, 'a', 255);
	strcpy(text + 255, ":1");
	assert_int_equal(lg_address_parse(text, true, &a, &c), 0);
	memset(text, 'a', 256);
	strcpy(text + 256, ":1");
	assert_int_equal(lg_address_parse(text, true, &a, &c), -EINVAL);
}

static void a_port_in_use_is_told_from_other_failures(void **state)
{
	struct lg_complaint c = { 0 };
	char text[64];
	int fd, other;

	(void)state;
	assert_int_equal(lg_address_listen("127.0.0.1:0", &fd, &c), 0);
	assert_true(lg_address_port(fd) > 0);
	snprintf(text, sizeof(text), "127.0.0.1:%d", lg_address_port(fd));
	assert_int_equal(lg_address_listen(text, &other, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, "another process uses the port"));
	assert_non_null(strstr(c.text, text));
	close(fd);
	assert_int_equal(lg_address_listen(text, &fd, &c), 0);
	close(fd);
	assert_int_equal(lg_address_listen("192.0.2.77:0", &fd, &c), -EADDRNOTAVAIL);
	assert_non_null(strstr(c.text, "no such address"));
}

static void without_a_host_both_families_are_served(void **state)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	struct lg_complaint c = { 0 };
	int fd, client;

	(void)state;
	assert_int_equal(lg_address_listen(":0", &fd, &c), 0);
	sa.sin_port = htons((uint16_t)lg_address_port(fd));
	inet_pton(AF_INET, "127.0.0.1", &sa.sin_addr);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(client);
	close(fd);
}

static void peers_are_written_as_people_write_them(void **state)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(4711) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(4711) };
	char buf[LG_PEER_LEN];

	(void)state;
	inet_pton(AF_INET, "192.0.2.1", &v4.sin_addr);
	lg_address_format((struct sockaddr *)&v4, buf);
	assert_string_equal(buf, "192.0.2.1:4711");
	inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr);
	lg_address_format((struct sockaddr *)&v6, buf);
	assert_string_equal(buf, "[2001:db8::1]:4711");
	inet_pton(AF_INET6, "::ffff:192.0.2.1", &v6.sin6_addr);
	lg_address_format((struct sockaddr *)&v6, buf);
	assert_string_equal(buf, "192.0.2.1:4711");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_split_into_host_and_port),
		cmocka_unit_test(an_address_to_listen_on_may_leave_host_and_port_open),
		cmocka_unit_test(what_is_no_address_is_refused_with_a_reason),
		cmocka_unit_test(a_host_name_of_255_characters_is_the_longest),
		cmocka_unit_test(a_port_in_use_is_told_from_other_failures),
		cmocka_unit_test(without_a_host_both_families_are_served),
		cmocka_unit_test(peers_are_written_as_people_write_them),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
