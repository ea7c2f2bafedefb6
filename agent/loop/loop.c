// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "loop/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>

#include "base/log.h"

struct lg_loop {
	struct event_base *base;
	int code;
};

struct lg_source {
	struct event *ev;
	void (*fn)(void *arg);
	void *arg;
};

/* What libevent has to say (an unreachable name server, say) is for those who look closely. */
static void event_log(int severity, const char *text)
{
	(void)severity;
	lg_debug("libevent: %s", text);
}

int lg_loop_new(struct lg_loop **ret_loop)
{
	_cleanup_(lg_loop_free) struct lg_loop *loop = NULL;
	struct event_config *config;

	event_set_log_callback(event_log);
	loop = calloc(1, sizeof(*loop));
	if (!loop)
		return -ENOMEM;
	config = event_config_new();
	if (!config)
		return -ENOMEM;
	/* Timers of 5 ms need the precise clock; the default one has the grain of a tick. */
	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
	loop->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!loop->base)
		return -ENOMEM;
	*ret_loop = TAKE(loop);
	return 0;
}

struct lg_loop *lg_loop_free(struct lg_loop *loop)
{
	if (!loop)
		return NULL;
	if (loop->base)
		event_base_free(loop->base);
	free(loop);
	return NULL;
}

int lg_loop_run(struct lg_loop *loop)
{
	if (event_base_dispatch(loop->base) < 0)
		return -EIO;
	return loop->code;
}

void lg_loop_stop(struct lg_loop *loop, int code)
{
	loop->code = code;
	event_base_loopbreak(loop->base);
}

struct event_base *lg_loop_base(struct lg_loop *loop)
{
	return loop->base;
}

static void source_fire(evutil_socket_t fd, short what, void *arg)
{
	struct lg_source *source = arg;

	(void)fd;
	(void)what;
	source->fn(source->arg);
}

static int source_new(struct lg_loop *loop, evutil_socket_t fd, short what, void (*fn)(void *), void *arg,
		      struct lg_source **ret_source)
{
	struct lg_source *source;

	source = calloc(1, sizeof(*source));
	if (!source)
		return -ENOMEM;
	source->fn = fn;
	source->arg = arg;
	source->ev = event_new(loop->base, fd, what, source_fire, source);
	if (!source->ev) {
		free(source);
		return -ENOMEM;
	}
	*ret_source = source;
	return 0;
}

static struct timeval ns_to_tv(uint64_t ns)
{
	return (struct timeval){ .tv_sec = (time_t)(ns / 1000000000ull),
				 .tv_usec = (suseconds_t)(ns % 1000000000ull / 1000) };
}

static int source_add(struct lg_source *source, const struct timeval *tv, struct lg_source **ret_source)
{
	if (event_add(source->ev, tv) < 0) {
		lg_source_free(source);
		return -ENOMEM;
	}
	*ret_source = source;
	return 0;
}

int lg_loop_add_reader(struct lg_loop *loop, int fd, void (*fn)(void *arg), void *arg, struct lg_source **ret_source)
{
	struct lg_source *source;
	int r;

	r = source_new(loop, fd, EV_READ | EV_PERSIST, fn, arg, &source);
	if (r < 0)
		return r;
	return source_add(source, NULL, ret_source);
}

int lg_loop_add_ticker(struct lg_loop *loop, uint64_t period_ns, void (*fn)(void *arg), void *arg,
		       struct lg_source **ret_source)
{
	struct timeval tv = ns_to_tv(period_ns);
	struct lg_source *source;
	int r;

	r = source_new(loop, -1, EV_PERSIST, fn, arg, &source);
	if (r < 0)
		return r;
	return source_add(source, &tv, ret_source);
}

int lg_loop_add_timer(struct lg_loop *loop, void (*fn)(void *arg), void *arg, struct lg_source **ret_source)
{
	return source_new(loop, -1, 0, fn, arg, ret_source);
}

int lg_source_arm(struct lg_source *source, uint64_t delay_ns)
{
	struct timeval tv = ns_to_tv(delay_ns);

	return event_add(source->ev, &tv) < 0 ? -ENOMEM : 0;
}

void lg_source_disarm(struct lg_source *source)
{
	event_del(source->ev);
}

int lg_loop_add_signal(struct lg_loop *loop, int signo, void (*fn)(void *arg), void *arg, struct lg_source **ret_source)
{
	struct lg_source *source;
	int r;

	r = source_new(loop, signo, EV_SIGNAL | EV_PERSIST, fn, arg, &source);
	if (r < 0)
		return r;
	return source_add(source, NULL, ret_source);
}

struct lg_source *lg_source_free(struct lg_source *source)
{
	if (!source)
		return NULL;
	event_free(source->ev);
	free(source);
	return NULL;
}
