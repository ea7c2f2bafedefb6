/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the service manager that started this process is told: that it is ready, what it is about, that it ends, and, when it asked for
 * that, that it is alive. systemd's protocol (sd_notify(3)): datagrams of KEY=VALUE lines to the socket that the environment names.
 * Without such a manager nothing here does anything. Of the process, whose first thread alone calls it. */
#pragma once

#include "base/complaint.h"

struct lg_loop;
struct lg_source;

/* Connects to the manager and takes what it said out of the environment, so that no child speaks for us. Before privileges are dropped. */
int lg_service_begin(struct lg_complaint *c);
/* Started or, after lg_service_reloading(), as it was before: said at the first call and after a reload. */
void lg_service_ready(void);
void lg_service_reloading(void);
void lg_service_stopping(void);
/* One line for people, shown by `systemctl status`. */
void lg_service_status(const char *text);
/* Says from this loop that it turns, twice within the time that the manager waits; *ret_source is NULL when it does not wait. */
int lg_service_watch(struct lg_loop *loop, struct lg_source **ret_source);
/* Forgets the manager. */
void lg_service_end(void);
