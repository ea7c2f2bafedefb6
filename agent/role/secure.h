/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A daemon's TLS, as its configuration says: read at start, and again when its files change. */
#pragma once

#include "api/metrics.h"
#include "loop/loop.h"
#include "net/tls.h"
#include "rules/config.h"

struct lg_secure {
	struct lg_tls *tls;		/* NULL: clear text */
	struct lg_source *ticker;
};

/*
 * node: "" for a region's server. Without TLS, tells of an address that strangers may reach. Negative errno with *c filled. Stop it after
 * all that uses it.
 */
int lg_secure_start(struct lg_secure *secure, const struct lg_config *config, const char *node, struct lg_loop *loop,
		    struct lg_complaint *c);
void lg_secure_stop(struct lg_secure *secure);
/* Looks at the files now. */
void lg_secure_look(struct lg_secure *secure);
void lg_secure_metrics(const struct lg_secure *secure, struct lg_metrics *m);
/* May a peer with this identity speak for the name it says? If not, `why` (128 bytes) tells. */
bool lg_secure_speaks_for(const struct lg_tls_name *peer, const char *region, const char *node, char *why);
