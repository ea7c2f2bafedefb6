/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * An etcd cluster over its gRPC API, without waiting: calls, a watch, and a session (a lease that is kept alive). Inside of store/. One
 * connection at a time, to a member that has a leader; when it fails, the next member is tried, with a pause that grows.
 *
 * One thread. Callbacks come from the loop, never from inside a function here, and may call everything here but lg_etcd_free().
 */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "leasegate/bounds.h"
#include "proto/etcd.pb-c.h"

#define LG_ETCD_OPS_MAX 128		/* operations of one transaction, as etcd has it unless told otherwise */
#define LG_ETCD_ANSWER_BYTES_MAX (16u << 20)

struct lg_loop;
struct lg_tls;
struct lg_etcd;
struct lg_etcd_call;

struct lg_etcd_options {
	const char *endpoints[LG_ETCD_ENDPOINTS_MAX];	/* "192.0.2.1:2379"; copied */
	size_t n_endpoints;
	const char *user, *password;			/* NULL: without; copied */
	struct lg_tls *tls;				/* NULL: clear text; must live as long */
	uint32_t deadline_ms;				/* of a call, from when it is made */
};

int lg_etcd_new(struct lg_loop *loop, const struct lg_etcd_options *options, struct lg_etcd **ret_etcd, struct lg_complaint *c);
/* Calls under way are forgotten: `done` is not called for them. Not from inside a callback. */
struct lg_etcd *lg_etcd_free(struct lg_etcd *etcd);
LG_CLEANUP(struct lg_etcd, lg_etcd_free)
/* Is there a member that takes calls now? If not, why tells of the last attempt; it lives until the next call. */
bool lg_etcd_is_up(const struct lg_etcd *etcd, const char **ret_why);

enum lg_etcd_method {
	LG_ETCD_RANGE,
	LG_ETCD_TXN,
	LG_ETCD_COMPACT,
	LG_ETCD_LEASE_GRANT,
	LG_ETCD_LEASE_REVOKE,
	LG_ETCD_ALARM,
	_LG_ETCD_METHOD_N
};

/*
 * result: 0 with the answer; or, without it,
 *	-EHOSTUNREACH	no member could be had before the deadline: nothing has happened
 *	-ETIMEDOUT	it was sent, and what became of it is not known
 *	-ENOSPC		the cluster is full (its quota), and takes nothing until it is compacted and the alarm is taken back
 *	-ESTALE		a revision that was compacted away
 *	-ENOENT		no such lease
 *	-EACCES		user, password or permission
 *	-E2BIG, -EMSGSIZE, -EINVAL	etcd does not take such a request
 *	-EAGAIN		etcd has too much to do
 *	-EIO		anything else
 * why: etcd's own words, or ours. Both live until the callback returns.
 */
typedef void lg_etcd_done(void *arg, int result, const char *why, const ProtobufCMessage *answer);

/* Calls that only read are repeated with another member when one fails. *ret_call, which may be NULL, is good until `done`. */
int lg_etcd_call(struct lg_etcd *etcd, enum lg_etcd_method method, const ProtobufCMessage *request, lg_etcd_done *done, void *arg,
		 struct lg_etcd_call **ret_call);
/* `done` is not called any more; what was sent may still happen. */
void lg_etcd_cancel(struct lg_etcd_call *call);

/* ---- a watch ---- */

struct lg_etcd_watch;
struct lg_etcd_watch_events {
	/* A change, in the order of revisions. Of a deleted key only key and mod_revision are set. */
	void (*change)(void *arg, const Leasegate__Etcd__Event *event);
	/* Changes were missed for good (compacted away): read all again, and watch from behind that. The watch is over and freed. */
	void (*lost)(void *arg);
};
/* Changes of keys that begin with prefix, from a revision on. Goes on with the next member when one fails, without a gap. */
int lg_etcd_watch_new(struct lg_etcd *etcd, const char *prefix, int64_t from_revision, const struct lg_etcd_watch_events *events, void *arg,
		      struct lg_etcd_watch **ret_watch);
struct lg_etcd_watch *lg_etcd_watch_free(struct lg_etcd_watch *watch);
LG_CLEANUP(struct lg_etcd_watch, lg_etcd_watch_free)

/* ---- a session ---- */

struct lg_etcd_session;
/*
 * A lease of ttl_s seconds, kept alive until it is freed. changed(arg) is called when it begins and when it has ended: from then on keys put
 * under it are gone, and another lease is asked for.
 */
int lg_etcd_session_new(struct lg_etcd *etcd, uint32_t ttl_s, void (*changed)(void *arg), void *arg, struct lg_etcd_session **ret_session);
/* Gives the lease back, as far as a member can be reached at once. */
struct lg_etcd_session *lg_etcd_session_free(struct lg_etcd_session *session);
LG_CLEANUP(struct lg_etcd_session, lg_etcd_session_free)
/* The lease, for puts; 0: there is none now. */
int64_t lg_etcd_session_lease(const struct lg_etcd_session *session);
/*
 * Until when the lease is certain to last, on our own clock: a time to live from when the last renewal that was answered was sent, less a
 * tenth for the difference of clocks. Whoever acts under the lease stops then by himself, whatever he hears or does not hear.
 */
uint64_t lg_etcd_session_until_ns(const struct lg_etcd_session *session);

/* The end of the range of keys that begin with a prefix: its last byte one up. Returns its length; 0 for an empty prefix: all keys. */
size_t lg_etcd_prefix_end(const char *prefix, uint8_t *ret_end);
