// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/num.h"

#define LISTEN_BACKLOG 1024

static int split(const char *text, struct lg_address *a, const char **ret_port, struct lg_complaint *c)
{
	const char *host = text, *end, *colon = strrchr(text, ':');
	char quoted[LG_QUOTE_LEN];

	if (!colon)
		return lg_complain(c, "address %s has no port: write host:port", lg_text_quote(text, quoted));
	end = colon;
	if (text[0] == '[') {
		if (colon == text + 1 || colon[-1] != ']')
			return lg_complain(c, "address %s: write [address]:port", lg_text_quote(text, quoted));
		host = text + 1;
		end = colon - 1;
	} else if (memchr(text, ':', (size_t)(colon - text))) {
		return lg_complain(c, "address %s: write an IPv6 address in brackets, as in [::1]:80",
				   lg_text_quote(text, quoted));
	}
	if ((size_t)(end - host) >= sizeof(a->host))
		return lg_complain(c, "address %s: the host is longer than %zu characters", lg_text_quote(text, quoted),
				   sizeof(a->host) - 1);
	memcpy(a->host, host, (size_t)(end - host));
	a->host[end - host] = '\0';
	*ret_port = colon + 1;
	return 0;
}

int lg_address_parse(const char *text, bool dial, struct lg_address *ret_address, struct lg_complaint *c)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
	struct lg_address a = { 0 };
	struct in6_addr v6;
	char quoted[LG_QUOTE_LEN], bare[LG_HOST_LEN];
	const char *port = "";
	uint64_t number;
	int r;

	r = split(text, &a, &port, c);
	if (r < 0)
		return r;
	lg_text_quote(text, quoted);
	snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(a.host, "%"), a.host);
	if (text[0] == '[' ? inet_pton(AF_INET6, bare, &v6) != 1 : a.host[strspn(a.host, name)] != '\0')
		return lg_complain(c, "address %s: the host is neither an IP address nor a name", quoted);
	if (dial && !a.host[0])
		return lg_complain(c, "address %s names no host to connect to", quoted);
	if (lg_num_parse(port, dial ? 1 : 0, UINT16_MAX, &number, &(struct lg_complaint){ 0 }) < 0)
		return lg_complain(c, "address %s: the port is not a number from %d to 65535", quoted, dial ? 1 : 0);
	a.port = (uint16_t)number;
	*ret_address = a;
	return 0;
}

/* Listens on one resolved address; the errno of the step that failed. */
static int listen_on(const struct addrinfo *ai, bool dual, int *ret_fd)
{
	_cleanup_fd_ int fd = -1;
	const int on = 1, v6only = !dual;

	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (ai->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) < 0)
		return -errno;
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, LISTEN_BACKLOG) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int listen_first(const struct addrinfo *list, bool dual, int *ret_fd)
{
	int r = -EADDRNOTAVAIL;

	for (const struct addrinfo *ai = list; ai; ai = ai->ai_next) {
		r = listen_on(ai, dual, ret_fd);
		if (r == 0 || r == -EADDRINUSE)
			return r;
	}
	return r;
}

static int listen_complain(const char *text, int error, struct lg_complaint *c)
{
	if (error == -EADDRINUSE)
		lg_complain(c, "cannot listen on %s: another process uses the port", text);
	else if (error == -EADDRNOTAVAIL)
		lg_complain(c, "cannot listen on %s: this machine has no such address", text);
	else
		lg_complain(c, "cannot listen on %s: %s", text, strerror(-error));
	return error;
}

int lg_address_listen(const char *text, int *ret_fd, struct lg_complaint *c)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list;
	struct lg_address a;
	char port[8];
	bool any;
	int r;

	r = lg_address_parse(text, false, &a, c);
	if (r < 0)
		return r;
	any = !a.host[0];
	snprintf(port, sizeof(port), "%u", a.port);
	/* [::] with both families first; a machine without IPv6 gets 0.0.0.0. */
	hints.ai_family = any ? AF_INET6 : AF_UNSPEC;
	r = getaddrinfo(any ? NULL : a.host, port, &hints, &list);
	if (r != 0) {
		lg_complain(c, "cannot listen on %s: %s", text, gai_strerror(r));
		return -EADDRNOTAVAIL;
	}
	r = listen_first(list, any, ret_fd);
	freeaddrinfo(list);
	if (any && (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL)) {
		const struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(a.port) };
		const struct addrinfo ai = { .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&v4,
					     .ai_addrlen = sizeof(v4) };

		r = listen_on(&ai, false, ret_fd);
	}
	return r < 0 ? listen_complain(text, r, c) : 0;
}

int lg_address_port(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return -errno;
	if (ss.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&ss)->sin6_port);
	if (ss.ss_family == AF_INET)
		return ntohs(((struct sockaddr_in *)&ss)->sin_port);
	return -EAFNOSUPPORT;
}

void lg_address_format(const struct sockaddr *sa, char buf[LG_PEER_LEN])
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *in4 = (const struct sockaddr_in *)sa;
	char text[INET6_ADDRSTRLEN];

	if (sa->sa_family == AF_INET) {
		inet_ntop(AF_INET, &in4->sin_addr, text, sizeof(text));
		snprintf(buf, LG_PEER_LEN, "%s:%u", text, ntohs(in4->sin_port));
	} else if (sa->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
		inet_ntop(AF_INET, &in6->sin6_addr.s6_addr[12], text, sizeof(text));
		snprintf(buf, LG_PEER_LEN, "%s:%u", text, ntohs(in6->sin6_port));
	} else if (sa->sa_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		snprintf(buf, LG_PEER_LEN, "[%s]:%u", text, ntohs(in6->sin6_port));
	} else {
		snprintf(buf, LG_PEER_LEN, "a local peer");
	}
}
