// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connections as the sockets of this host tell them: what has no socket any more ends, what has one is kept and, if the rules count it,
 * charged. A connection that is being accepted has no socket yet or no entry yet; so what is missing must be missing twice. Where one end
 * has sent a FIN there is nothing to be accepted any more. Connections that only pass through this host have no socket here: their
 * packets and the timeouts tell. So with those that come to an address of this host and are handed on by translation, as to published ports
 * of containers: who never had a socket is asked for at the kernel's table of tracked connections before he is taken for gone.
 */
#include "role/node.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "kern/conntrack.h"
#include "kern/sockets.h"

#define SOCKETS_MAX 1048576u
#define LOCALS_MAX 1024u
#define TRANSLATED 1 /* in the table of what is missing: its end is not here; words there have their highest bit set */
#define KEEP_BELOW_NS (30 * LG_NS_PER_S) /* an entry with a socket is kept when its time is this near */

/* A socket, as of the last passes. */
struct known {
	uint32_t pass;
	uint64_t version; /* of the rules under which it was asked for */
	bool is_new;      /* since the last pass */
	bool has_entry;
	bool had_entry;
	bool ours; /* this host began it */
};

struct local {
	uint8_t addr[16];
	uint32_t ifindex;
};

struct recount {
	struct lg_node *n;
	struct lg_table *missing; /* entries without a socket, by their words; those of the last pass are the node's */
	struct lg_conntrack *conntrack; /* NULL: nothing is tracked */
	uint64_t now_ns;
	uint8_t listening[65536 / 8];
	struct local locals[LOCALS_MAX];
	size_t n_locals, n_ops;
	struct lg_conn_op ops[LG_OPS_MAX];
	int error;
};

static void ops_flush(struct recount *r)
{
	int err = r->n_ops ? lg_kern_track(r->n->kern, r->ops, r->n_ops) : 0;

	r->n_ops = 0;
	if (err < 0)
		r->error = err;
}

static struct lg_conn_op *op_add(struct recount *r, const struct lg_conn_key *key, uint32_t code)
{
	if (r->n_ops == LG_OPS_MAX)
		ops_flush(r);
	lg_conn_op_make(key, code, &r->ops[r->n_ops]);
	return &r->ops[r->n_ops++];
}

/* ---- what this host has ---- */

static int locals_read(struct recount *r)
{
	struct ifaddrs *list, *i;
	struct local *l;

	if (getifaddrs(&list) < 0)
		return -errno;
	for (i = list; i && r->n_locals < LOCALS_MAX; i = i->ifa_next) {
		if (!i->ifa_addr)
			continue;
		l = &r->locals[r->n_locals];
		memset(l, 0, sizeof(*l));
		if (i->ifa_addr->sa_family == AF_INET) {
			memset(l->addr + 10, 0xff, 2);
			memcpy(l->addr + 12, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, 4);
		} else if (i->ifa_addr->sa_family == AF_INET6) {
			memcpy(l->addr, &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr, 16);
		} else {
			continue;
		}
		l->ifindex = if_nametoindex(i->ifa_name);
		r->n_locals++;
	}
	freeifaddrs(list);
	return 0;
}

static const struct local *local_find(const struct recount *r, const uint8_t addr[16])
{
	for (size_t i = 0; i < r->n_locals; i++)
		if (memcmp(r->locals[i].addr, addr, 16) == 0)
			return &r->locals[i];
	return NULL;
}

/* The key of a socket's connection: the end whose bytes are less comes first, then the lower port. */
static void key_of(const struct lg_socket *s, struct lg_conn_key *ret)
{
	int order = memcmp(s->local, s->peer, 16);
	bool is_b = order ? order > 0 : s->local_port > s->peer_port;

	*ret = (struct lg_conn_key){ .a_port = is_b ? s->peer_port : s->local_port, .b_port = is_b ? s->local_port : s->peer_port,
				     .protocol = IPPROTO_TCP };
	memcpy(ret->a, is_b ? s->peer : s->local, 16);
	memcpy(ret->b, is_b ? s->local : s->peer, 16);
}

static int listening_note(void *arg, const struct lg_socket *s)
{
	struct recount *r = arg;

	if (s->is_listening)
		r->listening[s->local_port / 8] |= (uint8_t)(1u << s->local_port % 8);
	return 0;
}

static int socket_note(void *arg, const struct lg_socket *s)
{
	struct recount *r = arg;
	struct lg_node *n = r->n;
	struct lg_conn_key key;
	struct known *k;

	if (!s->is_open)
		return 0;
	key_of(s, &key);
	k = lg_table_get(n->sockets, &key);
	if (!k) {
		k = calloc(1, sizeof(*k));
		if (!k)
			return -ENOMEM;
		k->is_new = true;
		/* A full table: those that do not fit are left as they are. */
		if (lg_table_put(n->sockets, &key, k) < 0) {
			free(k);
			return 0;
		}
	} else if (k->pass != n->recount_pass) {
		k->is_new = false;
	}
	k->ours = !(r->listening[s->local_port / 8] >> s->local_port % 8 & 1);
	k->pass = n->recount_pass;
	k->has_entry = false;
	return 0;
}

/* ---- entries ---- */

/* An entry that would be taken for gone. What had a socket a pass ago ended here. */
static bool is_elsewhere(const struct recount *r, const struct lg_conn_key *key, const struct lg_conn *conn, const struct known *k)
{
	return !k && r->conntrack && lg_conntrack_is_translated(r->conntrack, key, conn->word & LG_CONN_OF_B) > 0;
}

static int entry_judge(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn)
{
	enum lg_conn_state state = conn->word & LG_CONN_STATE;
	struct recount *r = arg;
	struct known *k = lg_table_get(r->n->sockets, key);
	uintptr_t before, now;
	bool is_due;

	if (k && k->pass == r->n->recount_pass) {
		k->has_entry = k->had_entry = true;
		if (state > LG_CONN_PENDING && conn->until_ns < r->now_ns + KEEP_BELOW_NS)
			op_add(r, key, LG_CONN_OP_KEEP);
		return 0;
	}
	if ((state != LG_CONN_ESTABLISHED && state != LG_CONN_CLOSING) || (!local_find(r, key->a) && !local_find(r, key->b)))
		return 0;
	before = r->n->missing ? (uintptr_t)lg_table_get(r->n->missing, key) : 0;
	now = (uintptr_t)(conn->word | 1u << 31);
	is_due = before != TRANSLATED && (state == LG_CONN_CLOSING || before == now);
	if (before == TRANSLATED || (is_due && is_elsewhere(r, key, conn, k)))
		lg_table_put(r->missing, key, (void *)(uintptr_t)TRANSLATED);
	else if (is_due)
		op_add(r, key, LG_CONN_OP_END)->word = conn->word;
	else
		lg_table_put(r->missing, key, (void *)now); /* without room it is looked at again later */
	return 0;
}

/* ---- sockets without an entry ---- */

static void ends_set(const struct recount *r, const struct lg_conn_key *key, const struct known *k, struct lg_conn_op *op)
{
	const struct local *a = local_find(r, key->a), *b = local_find(r, key->b);
	bool from_a = k->ours ? a != NULL : a == NULL;

	if (!from_a) {
		memcpy(op->from, key->b, 16);
		memcpy(op->to, key->a, 16);
		op->from_port = key->b_port;
		op->to_port = key->a_port;
	}
	op->is_egress = k->ours;
	op->ifindex = a ? a->ifindex : b ? b->ifindex : 0;
}

/* Lists come before rules: whoever they name is counted by none. */
static bool is_listed(const struct recount *r, const struct lg_conn_key *key)
{
	const uint8_t *peer = local_find(r, key->a) ? key->b : key->a;
	struct lg_list_row row;

	return lg_kern_list_find(r->n->kern, peer, lg_addr_is_mapped(peer) ? 4 : 6, r->now_ns, &row) > 0;
}

static int socket_judge(void *arg, const void *key, void *value)
{
	struct recount *r = arg;
	struct lg_node *n = r->n;
	struct known *k = value;

	if (k->pass != n->recount_pass) {
		lg_table_del(n->sockets, key);
		free(k);
		return 0;
	}
	if (k->is_new || k->has_entry || (k->version == n->set.version && !k->had_entry))
		return 0;
	if (n->set.needs & LG_NEEDS_CONNECTIONS && !is_listed(r, key))
		ends_set(r, key, k, op_add(r, key, LG_CONN_OP_ADOPT));
	if (k->ours && n->set.needs & LG_NEEDS_INITIATED)
		op_add(r, key, LG_CONN_OP_OURS);
	k->version = n->set.version;
	k->had_entry = false;
	return 0;
}

/* ---- a pass ---- */

int lg_node_recount(struct lg_node *n)
{
	_cleanup_free_ struct recount *r = calloc(1, sizeof(*r));
	int err = r ? 0 : -ENOMEM;

	if (err == 0 && !n->sockets)
		err = lg_table_new(sizeof(struct lg_conn_key), SOCKETS_MAX, &n->sockets);
	if (err == 0)
		err = lg_table_new(sizeof(struct lg_conn_key), SOCKETS_MAX, &r->missing);
	if (err < 0)
		return err;
	r->n = n;
	r->now_ns = lg_clock_now_ns();
	n->recount_pass++;
	/* Where that cannot be asked nothing is known to be translated. */
	lg_conntrack_open(&r->conntrack);
	err = locals_read(r);
	if (err == 0)
		err = lg_sockets_each(listening_note, r);
	if (err == 0)
		err = lg_sockets_each(socket_note, r);
	if (err == 0)
		err = lg_kern_each_conn(n->kern, entry_judge, r);
	if (err == 0)
		err = lg_table_each(n->sockets, socket_judge, r);
	ops_flush(r);
	lg_conntrack_free(r->conntrack);
	lg_table_free(n->missing);
	n->missing = r->missing;
	err = err < 0 ? err : r->error;
	n->n_recounts += err == 0;
	return err;
}

static int known_free(void *arg, const void *key, void *value)
{
	lg_table_del(arg, key);
	free(value);
	return 0;
}

void lg_node_recount_stop(struct lg_node *n)
{
	if (n->sockets)
		lg_table_each(n->sockets, known_free, n->sockets);
	n->sockets = lg_table_free(n->sockets);
	n->missing = lg_table_free(n->missing);
}
