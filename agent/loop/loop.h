/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The event loop of a process: file descriptors, timers, signals, over libevent. One thread; callbacks run on it. */
#pragma once

#include <stdint.h>

#include "base/mem.h"

struct event_base;
struct lg_loop;
struct lg_source;

int lg_loop_new(struct lg_loop **ret_loop);
struct lg_loop *lg_loop_free(struct lg_loop *loop);
LG_CLEANUP(struct lg_loop, lg_loop_free)

/* Runs until lg_loop_stop(); returns the exit code given there, or a negative errno. */
int lg_loop_run(struct lg_loop *loop);
void lg_loop_stop(struct lg_loop *loop, int code);

/* The base for libevent's own users (net/). Borrowed. */
struct event_base *lg_loop_base(struct lg_loop *loop);

/* Calls fn(arg) whenever fd can be read. The source does not own fd. */
int lg_loop_add_reader(struct lg_loop *loop, int fd, void (*fn)(void *arg), void *arg, struct lg_source **ret_source);
/* Calls fn(arg) every period_ns, first after period_ns. */
int lg_loop_add_ticker(struct lg_loop *loop, uint64_t period_ns, void (*fn)(void *arg), void *arg,
		       struct lg_source **ret_source);
/* A one-shot timer, not armed. lg_source_arm() sets it to fire after delay_ns (again after each firing if armed again). */
int lg_loop_add_timer(struct lg_loop *loop, void (*fn)(void *arg), void *arg, struct lg_source **ret_source);
int lg_source_arm(struct lg_source *source, uint64_t delay_ns);
void lg_source_disarm(struct lg_source *source);
/* Calls fn(arg) on the loop when the signal arrives. */
int lg_loop_add_signal(struct lg_loop *loop, int signo, void (*fn)(void *arg), void *arg, struct lg_source **ret_source);

struct lg_source *lg_source_free(struct lg_source *source);
LG_CLEANUP(struct lg_source, lg_source_free)
