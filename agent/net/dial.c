// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/dial.h"

#include <errno.h>
#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "loop/loop.h"

#define ADDRESSES_MAX 8

/*
 * A question to the resolver. It outlives the dial that asked: evdns answers a cancelled question later, from the loop, and touches
 * its base after the answer. So the job is freed a turn of the loop after its answer, never earlier.
 */
struct job {
	struct event_base *base;
	struct evdns_base *dns;
	struct evdns_getaddrinfo_request *request;
	struct lg_dial *dial;	/* NULL once the dial is gone */
};

struct lg_dial {
	struct event_base *base;
	struct lg_source *start;
	struct lg_source *deadline;
	struct event *writable;
	struct lg_address address;
	struct job *job;
	unsigned int timeout_ms;
	int fd;
	size_t n_addresses;
	size_t next;		/* address to try next */
	struct sockaddr_storage addresses[ADDRESSES_MAX];
	char peer[LG_PEER_LEN];
	char why[256];		/* of the last address that failed */
	lg_dial_fn *fn;
	void *arg;
};

static struct {
	lg_dial_observer *fn;
	void *arg;
} observer;

void lg_dial_observe(lg_dial_observer *fn, void *arg)
{
	observer.fn = fn;
	observer.arg = arg;
}

static void job_free(evutil_socket_t fd, short what, void *arg)
{
	struct job *job = arg;

	(void)fd;
	(void)what;
	if (job->dns)
		evdns_base_free(job->dns, 0);
	free(job);
}

static void stop(struct lg_dial *dial)
{
	lg_source_disarm(dial->start);
	lg_source_disarm(dial->deadline);
	if (dial->writable)
		event_free(dial->writable);
	dial->writable = NULL;
	if (dial->job) {
		dial->job->dial = NULL;
		if (dial->job->request)
			evdns_getaddrinfo_cancel(dial->job->request);
	}
	dial->job = NULL;
}

__attribute__((format(printf, 2, 3))) static void fail(struct lg_dial *dial, const char *fmt, ...)
{
	char why[sizeof(dial->why) + 64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	stop(dial);
	dial->fn(dial->arg, -1, dial->address.host, why);
}

static void try_next(struct lg_dial *dial);

static void note_failure(struct lg_dial *dial, const char *error)
{
	snprintf(dial->why, sizeof(dial->why), "cannot connect to %s: %s", dial->peer, error);
	if (dial->writable)
		event_free(dial->writable);
	dial->writable = NULL;
	if (dial->fd >= 0)
		close(dial->fd);
	dial->fd = -1;
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct lg_dial *dial = arg;
	socklen_t len = sizeof(int);
	int error = 0;

	(void)what;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error) {
		note_failure(dial, strerror(error));
		try_next(dial);
		return;
	}
	stop(dial);
	dial->fn(dial->arg, TAKE_FD(dial->fd), dial->peer, NULL);
}

static int try_one(struct lg_dial *dial, const struct sockaddr_storage *ss)
{
	socklen_t len = ss->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	const int on = 1;

	dial->fd = socket(ss->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (dial->fd < 0)
		return -errno;
	if (setsockopt(dial->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		return -errno;
	if (observer.fn)
		observer.fn(observer.arg, (const struct sockaddr *)ss);
	if (connect(dial->fd, (const struct sockaddr *)ss, len) < 0 && errno != EINPROGRESS)
		return -errno;
	dial->writable = event_new(dial->base, dial->fd, EV_WRITE, on_writable, dial);
	if (!dial->writable || event_add(dial->writable, NULL) < 0)
		return -ENOMEM;
	/* A share of the time for each, so that one that swallows packets does not keep us from the others. */
	return lg_source_arm(dial->deadline, dial->timeout_ms * LG_NS_PER_MS / dial->n_addresses);
}

static void try_next(struct lg_dial *dial)
{
	while (dial->next < dial->n_addresses) {
		const struct sockaddr_storage *ss = &dial->addresses[dial->next++];
		int r;

		lg_address_format((const struct sockaddr *)ss, dial->peer);
		r = try_one(dial, ss);
		if (r == 0)
			return;
		note_failure(dial, strerror(-r));
	}
	fail(dial, "%s", dial->why);
}

/* The port is set here and not by the resolver, which would want it as a text. */
static void take_addresses(struct lg_dial *dial, const struct addrinfo *list)
{
	for (const struct addrinfo *ai = list; ai && dial->n_addresses < ADDRESSES_MAX; ai = ai->ai_next) {
		struct sockaddr_storage *ss = &dial->addresses[dial->n_addresses];

		if (ai->ai_family != AF_INET && ai->ai_family != AF_INET6)
			continue;
		memcpy(ss, ai->ai_addr, ai->ai_addrlen);
		if (ai->ai_family == AF_INET)
			((struct sockaddr_in *)ss)->sin_port = htons(dial->address.port);
		else
			((struct sockaddr_in6 *)ss)->sin6_port = htons(dial->address.port);
		dial->n_addresses++;
	}
}

static void on_resolved(int result, struct evutil_addrinfo *list, void *arg)
{
	const struct timeval at_once = { 0 };
	struct job *job = arg;
	struct lg_dial *dial = job->dial;

	job->request = NULL;
	/* Without memory for the timer the job leaks; freeing it here would be a use after free in evdns. */
	event_base_once(job->base, -1, EV_TIMEOUT, job_free, job, &at_once);
	if (dial) {
		dial->job = NULL;
		if (result == 0)
			take_addresses(dial, list);
	}
	if (list)
		evutil_freeaddrinfo(list);
	if (!dial)
		return;
	if (result != 0)
		fail(dial, "cannot resolve %s: %s", dial->address.host, evutil_gai_strerror(result));
	else if (dial->n_addresses == 0)
		fail(dial, "cannot resolve %s: it has no address", dial->address.host);
	else
		try_next(dial);
}

static int resolve(struct lg_dial *dial)
{
	const struct evutil_addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct evdns_getaddrinfo_request *request;
	struct job *job;

	job = calloc(1, sizeof(*job));
	if (!job)
		return -ENOMEM;
	job->base = dial->base;
	job->dial = dial;
	job->dns = evdns_base_new(dial->base, 0);
	if (!job->dns) {
		free(job);
		return -ENOMEM;
	}
	/* A missing or empty file leaves /etc/hosts and a name server on this machine, which is what libc does too. */
	evdns_base_resolv_conf_parse(job->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
	dial->job = job;
	request = evdns_getaddrinfo(job->dns, dial->address.host, NULL, &hints, on_resolved, job);
	/* NULL: on_resolved() has run already, and the dial may be gone with it. */
	if (request)
		job->request = request;
	return 0;
}

static void on_start(void *arg)
{
	struct lg_dial *dial = arg;
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *list;

	if (getaddrinfo(dial->address.host, NULL, &hints, &list) == 0) {
		take_addresses(dial, list);
		freeaddrinfo(list);
		try_next(dial);
		return;
	}
	if (resolve(dial) < 0)
		fail(dial, "cannot resolve %s: out of memory", dial->address.host);
}

static void on_deadline(void *arg)
{
	struct lg_dial *dial = arg;

	if (dial->fd < 0) {
		fail(dial, "cannot resolve %s: no answer within %u ms", dial->address.host, dial->timeout_ms);
		return;
	}
	note_failure(dial, "no answer");
	try_next(dial);
}

int lg_dial_new(struct lg_loop *loop, const char *address, unsigned int timeout_ms, lg_dial_fn *fn, void *arg,
		struct lg_dial **ret_dial, struct lg_complaint *c)
{
	_cleanup_(lg_dial_free) struct lg_dial *dial = NULL;
	int r;

	dial = calloc(1, sizeof(*dial));
	if (!dial)
		return -ENOMEM;
	dial->fd = -1;
	dial->base = lg_loop_base(loop);
	dial->timeout_ms = timeout_ms;
	dial->fn = fn;
	dial->arg = arg;
	r = lg_address_parse(address, true, &dial->address, c);
	if (r < 0)
		return r;
	r = lg_loop_add_timer(loop, on_start, dial, &dial->start);
	if (r < 0)
		return r;
	r = lg_loop_add_timer(loop, on_deadline, dial, &dial->deadline);
	if (r < 0)
		return r;
	r = lg_source_arm(dial->start, 0);
	if (r < 0)
		return r;
	r = lg_source_arm(dial->deadline, timeout_ms * LG_NS_PER_MS);
	if (r < 0)
		return r;
	*ret_dial = TAKE(dial);
	return 0;
}

struct lg_dial *lg_dial_free(struct lg_dial *dial)
{
	if (!dial)
		return NULL;
	if (dial->start && dial->deadline)
		stop(dial);
	lg_source_free(dial->start);
	lg_source_free(dial->deadline);
	if (dial->fd >= 0)
		close(dial->fd);
	free(dial);
	return NULL;
}
