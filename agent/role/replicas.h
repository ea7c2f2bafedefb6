/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A holder's way to a lessor that is several servers: a stream to each of them, and for each slot of keys the upstream that it has at the
 * server which owns it. The first stream goes to the address that is listed for the lessor; whoever answers there tells of the others.
 */
#pragma once

#include <jansson.h>

#include "api/lease_rpc.h"
#include "api/rules_inbox.h"
#include "lease/holding.h"
#include "loop/loop.h"

struct lg_replicas;

struct lg_replicas_handlers {
	/* A server is there. False: nothing is taken from it. May be NULL. */
	bool (*welcome)(void *arg, const struct lg_lease_welcome *welcome);
	/* These slots have come up: each has an owner in a life that has heard nothing yet. Their upstreams say so already. */
	void (*slots)(void *arg, const struct lg_slot_set *up);
	/* A stream is lost, or could not be had. */
	void (*down)(void *arg, const char *why);
	void (*grant)(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant);
	void (*batch_end)(void *arg);
	/* Is this version news? And a whole one that is. Each server sends it on its own stream. */
	bool (*rules_wanted)(void *arg, const struct lg_rules_stamp *stamp);
	void (*rules)(void *arg, const struct lg_rules_inbox *whole);
	/* A list of regions newer than that of the hello. NULL: it is not wanted. */
	void (*regions)(void *arg, const struct lg_region_list *list);
};

struct lg_replicas_options {
	const char *address;
	const struct lg_lease_hello *hello;	/* copied */
	struct lg_tls *tls;			/* NULL: clear text */
	const char *region;			/* of the lessor, as its certificate must say */
	uint32_t n_holders;			/* that the lessor has */
	struct lg_region_list regions;		/* for servers that have an older one; version 0: none */
};

/* upstreams: one per slot, of the caller's, as long as this lives. */
int lg_replicas_new(struct lg_loop *loop, const struct lg_replicas_options *options, const struct lg_replicas_handlers *handlers, void *arg,
		    struct lg_upstream upstreams[LG_KEY_SLOTS], struct lg_replicas **ret_replicas, struct lg_complaint *c);
/* Not from inside a handler. */
struct lg_replicas *lg_replicas_free(struct lg_replicas *r);
LG_CLEANUP(struct lg_replicas, lg_replicas_free)

/* Is any server there? */
bool lg_replicas_are_up(const struct lg_replicas *r);
/* Slots that have an owner with a stream. */
uint32_t lg_replicas_slots_up(const struct lg_replicas *r);
/* The longest way to a server that owns a slot; 0: not known yet. */
uint64_t lg_upstreams_rtt_ns(const struct lg_upstream upstreams[LG_KEY_SLOTS]);
/* Each tick. */
void lg_replicas_tick(struct lg_replicas *r, uint64_t now_ns);
/* To the owner of the key's slot; lost while there is none. */
void lg_replicas_ask(struct lg_replicas *r, uint32_t slot, const struct lg_wire_key *key, const struct lg_ask *ask);
/* "All that I hold in these slots has been named": to each owner its own. */
void lg_replicas_synced(struct lg_replicas *r, const struct lg_slot_set *slots, uint64_t forgot_age_ms);
/* A region: from now on it is we who speak for it in these slots, in this life of it. */
void lg_replicas_live(struct lg_replicas *r, const struct lg_slot_set *slots, uint64_t incarnation);
void lg_replicas_flush(struct lg_replicas *r);
/* Rules are wanted from the lessor, and this is what is had of them: to each server, and to those who come. */
void lg_replicas_rules(struct lg_replicas *r, const struct lg_rules_state *state);
/* For status: a list of servers. */
json_t *lg_replicas_json(const struct lg_replicas *r);
