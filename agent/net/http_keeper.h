/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The process that starts HTTP processes. It is forked before the daemon has read a secret and while it may still change a child's user,
 * gives up everything but forking, and listens to the daemon alone: so a child has nothing of the daemon in its memory, and can be started
 * again when the daemon itself has no privileges left. It ends with the daemon, and its child with it.
 */
#pragma once

#include <stdbool.h>

#include "base/complaint.h"
#include "base/mem.h"

struct lg_http_keeper;

/* Before any secret is read. Negative errno with *c filled. */
int lg_http_keeper_start(struct lg_http_keeper **ret_keeper, struct lg_complaint *c);
/* Ends its child, too. */
struct lg_http_keeper *lg_http_keeper_free(struct lg_http_keeper *keeper);
LG_CLEANUP(struct lg_http_keeper, lg_http_keeper_free)
/* Starts a child in the place of the one there was (net/http_child.h); the descriptors stay the caller's. -EPIPE: the keeper has ended. */
int lg_http_keeper_run(struct lg_http_keeper *keeper, int pair, int listener);
/* Ends the child. `wait`: until it is gone, two seconds at most. */
void lg_http_keeper_stop(struct lg_http_keeper *keeper, bool wait);
