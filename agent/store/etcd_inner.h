/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Inside of the etcd client: what calls, watches and sessions share with the connection. */
#pragma once

#include <sys/queue.h>

#include "net/grpc.h"
#include "store/etcd_client.h"

/* Whoever has a stream: the first member of a call, a watch or a session. */
struct lg_etcd_user {
	struct lg_grpc_stream *stream;	/* NULL: none */
	void (*message)(struct lg_etcd_user *user, const uint8_t *data, size_t len);
	/* The stream is over; user->stream is NULL already. */
	void (*closed)(struct lg_etcd_user *user, int status, const char *why);
};

/* Opens a stream and sends a first message, which is `last` or not. Only while lg_etcd_is_up(). */
int lg_etcd_open(struct lg_etcd *etcd, struct lg_etcd_user *user, const char *path, const ProtobufCMessage *message, bool last);
int lg_etcd_send(struct lg_etcd_user *user, const ProtobufCMessage *message);
/* Ends the stream without a call of closed(). */
void lg_etcd_close(struct lg_etcd_user *user);
/* The member we talk to is of no use: on to the next. */
void lg_etcd_leave(struct lg_etcd *etcd, const char *why);

/* Watches and sessions are told when a member is there, when it is gone (and their streams with it), and when time has passed. Told
 * something, a guest may free itself, but no other. */
struct lg_etcd_guest {
	struct lg_etcd_user user;	/* first */
	LIST_ENTRY(lg_etcd_guest) link;
	void (*up)(struct lg_etcd_guest *guest);
	void (*tick)(struct lg_etcd_guest *guest, uint64_t now_ns);
};
void lg_etcd_guest_add(struct lg_etcd *etcd, struct lg_etcd_guest *guest);
void lg_etcd_guest_remove(struct lg_etcd_guest *guest);
