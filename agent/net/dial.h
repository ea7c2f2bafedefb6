/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Connects a TCP socket in the background: resolves the name if it is one (/etc/hosts and DNS, read anew each time), then tries
 * its addresses one after the other. */
#pragma once

#include "base/complaint.h"
#include "base/mem.h"
#include "net/address.h"

struct lg_loop;
struct lg_dial;

/* fd is connected, non-blocking and the callee's; peer is its far end. Or fd is -1 and why says what failed. The texts live until the dial is
 * freed. */
typedef void lg_dial_fn(void *arg, int fd, const char *peer, const char *why);

/**
 * lg_dial_new() - start to connect
 * @timeout_ms: for the name, and again for its addresses together
 *
 * fn is called once, from the loop and never from inside lg_dial_new(); it may free the dial. An address that cannot be read is
 * refused at once with -EINVAL and *c filled.
 */
int lg_dial_new(struct lg_loop *loop, const char *address, unsigned int timeout_ms, lg_dial_fn *fn, void *arg,
		struct lg_dial **ret_dial, struct lg_complaint *c);

/* Called with each address before anything is sent there. */
typedef void lg_dial_observer(void *arg, const struct sockaddr *address);
/* One for the process; fn NULL for none. */
void lg_dial_observe(lg_dial_observer *fn, void *arg);

/* Gives up what is under way; fn is not called any more. */
struct lg_dial *lg_dial_free(struct lg_dial *dial);
LG_CLEANUP(struct lg_dial, lg_dial_free)
