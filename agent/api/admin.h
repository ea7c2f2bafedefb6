/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The operator's socket of a daemon: <run_dir>/<role>.sock, mode 0600; one line of JSON asks, one line of JSON answers. */
#pragma once

#include <jansson.h>

#include "base/complaint.h"
#include "base/mem.h"

struct lg_loop;
struct lg_admin;

#define LG_ADMIN_LINE_MAX (4u << 20)

/* fn gets a request object and returns a new reply object (never NULL unless out of memory). Only root and the daemon's own user may
 * connect (SO_PEERCRED). A socket file left by a dead daemon is replaced; one that answers is "already running". */
int lg_admin_start(struct lg_loop *loop, const char *path, json_t *(*fn)(void *arg, const json_t *request), void *arg,
		   struct lg_admin **ret_admin, struct lg_complaint *c);
struct lg_admin *lg_admin_free(struct lg_admin *admin);
LG_CLEANUP(struct lg_admin, lg_admin_free)

/* Client, blocking. -ENOENT or -ECONNREFUSED when no daemon listens. *ret_reply is a new reference. */
int lg_admin_call(const char *path, const json_t *request, unsigned timeout_ms, json_t **ret_reply, struct lg_complaint *c);
