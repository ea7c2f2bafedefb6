// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Connections that rules count: entries whose time is over end here each second. */
#include "role/node.h"

#include <stdlib.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define EXPIRE_MAX 65536u /* of one pass; the rest is for the next */

struct expiring {
	uint64_t now_ns;
	bool any;	/* entry, over or not */
	size_t n, size;
	struct lg_conn_op *ops;
};

static struct lg_conn_op *op_add(struct expiring *x)
{
	struct lg_conn_op *more;

	if (x->n == x->size) {
		more = reallocarray(x->ops, x->size ? x->size * 2 : 256, sizeof(*more));
		if (!more)
			return NULL;
		x->ops = more;
		x->size = x->size ? x->size * 2 : 256;
	}
	return &x->ops[x->n++];
}

static int expire_conn(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn)
{
	bool is_pending = (conn->word & LG_CONN_STATE) == LG_CONN_PENDING;
	struct expiring *x = arg;
	struct lg_conn_op *op;

	x->any = true;
	if (x->now_ns < (is_pending ? conn->syn_until_ns : conn->until_ns))
		return 0;
	op = op_add(x);
	if (op)
		lg_conn_op_make(key, LG_CONN_OP_EXPIRE, op);
	return !op || x->n == EXPIRE_MAX;
}

static int expire_side(void *arg, const struct lg_conn_key *key, const struct lg_initiated *side)
{
	struct expiring *x = arg;
	struct lg_conn_op *op;

	x->any = true;
	if (x->now_ns < side->until_ns)
		return 0;
	op = op_add(x);
	if (op)
		lg_conn_op_make(key, LG_CONN_OP_OURS_EXPIRE, op);
	return !op || x->n == EXPIRE_MAX;
}

int lg_node_conns_start(struct lg_node *n)
{
	n->has_conns = true;
	return lg_kern_conn_terms_set(n->kern, &n->config.conn_terms);
}

void lg_node_conns_tick(void *arg)
{
	struct lg_node *n = arg;
	struct expiring x = { .now_ns = lg_clock_now_ns() };
	bool counts = n->set.needs & (LG_NEEDS_CONNECTIONS | LG_NEEDS_INITIATED);
	int r;

	/* Rules that count none may have been loaded over rules that did. */
	if (!counts && !n->has_conns)
		return;
	r = lg_kern_each_conn(n->kern, expire_conn, &x);
	if (r == 0)
		r = lg_kern_each_initiated(n->kern, expire_side, &x);
	/* With none, too: packets then know that somebody looks. */
	if (r >= 0)
		r = lg_kern_track(n->kern, x.ops, x.n);
	free(x.ops);
	n->has_conns = r < 0 || x.any;
	if (r < 0)
		lg_error("cannot end connections whose time is over: %s", strerror(-r));
	if (!counts && !n->has_conns)
		return;
	r = lg_node_recount(n);
	if (r < 0 && r != n->recount_error)
		lg_error("cannot count connections by this host's sockets: %s%s", strerror(-r),
			 r == -ENOENT ? ": the kernel lists none; `modprobe tcp_diag`, and have it loaded when the machine boots" : "");
	n->recount_error = r;
}

void lg_node_conns_warn(const struct lg_node *n)
{
	for (size_t i = 0; i < n->rules->n; i++) {
		const struct lg_rule_def *def = &n->rules->v[i];

		for (size_t j = 0; def->match.initiated && j < n->config.n_interfaces; j++) {
			if (n->config.interfaces[j].tc_egress)
				continue;
			lg_warn("rule \"%s\" (line %u): %s has no tc_egress: on, so what this host begins there is not seen and counts as "
				"begun by the peer",
				def->name, def->line, n->config.interfaces[j].name);
		}
	}
}
