/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * LeaseService (include/proto/lease.proto), both ends: typed messages on one long-lived stream per holder. Messages of one loop turn are
 * batched and sent by lg_*_flush(). Malformed input ends the stream with INVALID_ARGUMENT and a reason; it never reaches the core.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "lease/msg.h"
#include "lease/slot_map.h"
#include "rules/document.h"

struct lg_loop;
struct lg_tls;
struct lg_tls_name;

/* A key as both ends know it; rule ids are local to a host. */
struct lg_wire_key {
	char rule[LG_NAME_LEN];
	uint64_t fingerprint;	/* lg_rule_fingerprint() of the sender's rule */
	uint32_t form;		/* enum lg_key_form */
	uint8_t a[16];
	uint8_t b[16];
};

/* Which rules a holder has from its lessor. */
struct lg_rules_state {
	struct lg_rules_stamp running;
	struct lg_rules_stamp refused;	/* the newest, if it is not the one that runs */
	char why[512];			/* it is not */
	bool is_chosen;			/* it is one of those that a gate takes */
	struct lg_rules_stamp getting;	/* has so much of a newer one */
	uint32_t got_bytes;
};

#define LG_RULES_PART_MAX (256u << 10)

/* A part of a document (rules/document.h). */
struct lg_rules_part {
	struct lg_rules_stamp stamp;
	uint32_t total_bytes;
	uint32_t offset;
	const uint8_t *data;	/* borrowed */
	size_t len;
	uint64_t age_ms;	/* since it was packed */
};

#define LG_REGION_LIST_BYTES_MAX 32768

/* A list of regions (lg_config_regions_parse()). */
struct lg_region_list {
	uint64_t version;
	const char *text;	/* borrowed */
	size_t len;
};

/* Who a holder is. */
struct lg_lease_hello {
	char holder[LG_NAME_LEN];	/* host name, or region name towards a home */
	char region[LG_NAME_LEN];
	bool is_region;			/* a region towards a key's home; else a host towards its region */
	uint64_t incarnation;
	uint64_t regions_version;	/* of the region list it uses */
	uint32_t max_keys;		/* it will lease no more than this; 0 unknown */
	char replica[LG_NAME_LEN];	/* a region: which of its servers; "" one that is all */
	bool wants_rules;		/* it has its rules from there */
	struct lg_rules_state rules;
};

/* For the age of the time before which a holder does not remember what it spent: it remembers all. */
#define LG_LEASE_REMEMBERS UINT64_MAX

struct lg_lease_welcome {
	char lessor[LG_NAME_LEN];	/* region name */
	uint32_t epoch;			/* host: of the region as lessor; region: of the home as lessor */
	uint64_t regions_version;
	char replica[LG_NAME_LEN];	/* which server of the lessor; "" one that is all */
	const struct lg_slot_map *map;	/* lessor's end: who owns what; NULL: this one all. Good until the handler returns */
};

/* ---- holder's end ---- */
struct lg_lease_client;
struct lg_lease_client_handlers {
	void (*up)(void *arg, const struct lg_lease_welcome *welcome);
	void (*down)(void *arg, const char *why);	/* also for each failed attempt to connect */
	void (*grant)(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant);
	void (*batch_end)(void *arg);			/* after the last grant of a message */
	/* Right after `up`, and when it has changed. May be NULL. */
	void (*map)(void *arg, const struct lg_slot_map *map);
	void (*rules)(void *arg, const struct lg_rules_part *part);	/* NULL: they are not wanted */
	void (*regions)(void *arg, const struct lg_region_list *list);	/* one newer than ours; NULL: likewise */
};
/* Connects, keeps connected (backoff 50 ms to 2 s with jitter, keepalive ping each 2 s with a 5 s deadline), says hello. */
int lg_lease_client_new(struct lg_loop *loop, const char *address, const struct lg_lease_hello *hello,
			const struct lg_lease_client_handlers *handlers, void *arg, struct lg_lease_client **ret_client,
			struct lg_complaint *c);
/* Right after lg_lease_client_new(): the stream speaks TLS, and to nobody but the server of this region. `tls` must live as long. */
void lg_lease_client_secure(struct lg_lease_client *client, struct lg_tls *tls, const char *region);
/* Not from inside a handler. */
struct lg_lease_client *lg_lease_client_free(struct lg_lease_client *client);
LG_CLEANUP(struct lg_lease_client, lg_lease_client_free)
/* The lessor has so many holders: if they are many, the way back after a loss begins at a random time of the next seconds. */
void lg_lease_client_crowd(struct lg_lease_client *client, uint32_t n_holders);
bool lg_lease_client_is_up(const struct lg_lease_client *client);
/* Up, and what was said has not reached the lessor's system for longer than a round trip: see struct lg_upstream. To be asked each tick. */
bool lg_lease_client_is_stalled(const struct lg_lease_client *client);
/* Adds to the batch; ignored while down (the core says all again on up). */
void lg_lease_client_ask(struct lg_lease_client *client, const struct lg_wire_key *key, const struct lg_ask *ask);
/* "All that I hold has been named." Goes after the asks before it. forgot_age_ms: what was spent longer ago is not remembered. */
void lg_lease_client_synced(struct lg_lease_client *client, uint64_t forgot_age_ms);
/* The same of some slots, each part with its epoch. */
void lg_lease_client_synced_slots(struct lg_lease_client *client, const struct lg_slot_part *parts, size_t n, uint64_t forgot_age_ms);
/* A region: this stream speaks for it in these slots, each part with the incarnation. Goes before the asks after it. */
void lg_lease_client_lives(struct lg_lease_client *client, const struct lg_slot_part *parts, size_t n);
void lg_lease_client_flush(struct lg_lease_client *client);
/* Rules are wanted from the lessor, and this is what is had of them: said now if it is up, and by each hello from now on. */
void lg_lease_client_rules(struct lg_lease_client *client, const struct lg_rules_state *state);
/* At once; lost while it is not up. */
void lg_lease_client_regions(struct lg_lease_client *client, const struct lg_region_list *list);

/* ---- lessor's end ---- */
struct lg_lease_server;
struct lg_lease_peer;
struct lg_lease_server_handlers {
	/* Accept: 0, fill *welcome. Refuse: a text in `why` (at least 128 bytes) and -EACCES; the stream ends with FAILED_PRECONDITION.
	 * Later: 1; lg_lease_peer_answer() follows, unless `gone` comes before. */
	int (*hello)(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello,
		     struct lg_lease_welcome *welcome, char *why);
	void (*ask)(void *arg, struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_ask *ask);
	void (*synced)(void *arg, struct lg_lease_peer *peer, uint64_t forgot_age_ms);
	void (*batch_end)(void *arg, struct lg_lease_peer *peer);
	/* Of a peer that was accepted, or waits to be; never from inside a call of yours; it is freed when this returns. */
	void (*gone)(void *arg, struct lg_lease_peer *peer, const char *why);
	/* As `synced`, of some slots in a life of the lessor. May be NULL, as the next one. */
	void (*synced_slots)(void *arg, struct lg_lease_peer *peer, const struct lg_slot_part *part, uint64_t forgot_age_ms);
	void (*lives)(void *arg, struct lg_lease_peer *peer, const struct lg_slot_part *part);
	void (*rules)(void *arg, struct lg_lease_peer *peer, const struct lg_rules_state *state);	/* NULL: nobody is sent any */
	/* A question of an operator (api/remote.h), once lg_lease_server_operators() says whose may ask. */
	json_t *(*question)(void *arg, const char *asker, const json_t *request);
	void (*regions)(void *arg, struct lg_lease_peer *peer, const struct lg_region_list *list);	/* of a region's stream; may be NULL */
};
int lg_lease_server_new(struct lg_loop *loop, const char *address, const struct lg_lease_server_handlers *handlers,
			void *arg, struct lg_lease_server **ret_server, struct lg_complaint *c);
/* Ends all streams with UNAVAILABLE; `gone` is not called for them. Not from inside a handler. */
struct lg_lease_server *lg_lease_server_free(struct lg_lease_server *server);
LG_CLEANUP(struct lg_lease_server, lg_lease_server_free)
int lg_lease_server_port(const struct lg_lease_server *server);
/* From now on holders must speak TLS, and lg_lease_peer_identity() says who they are. `tls` must live as long as the server. */
void lg_lease_server_secure(struct lg_lease_server *server, struct lg_tls *tls);
/* From now on operators of that region may ask, by their certificates. */
void lg_lease_server_operators(struct lg_lease_server *server, const char *region);
/* Streams that the server ended, by cause. */
struct lg_lease_server_counts {
	uint64_t refused;	/* hello was refused */
	uint64_t malformed;	/* a message broke the protocol */
	uint64_t slow;		/* the peer read too slowly, or memory was short */
	uint64_t late;		/* no hello came in time */
	uint64_t strangers;	/* the handshake of TLS failed */
	uint64_t displaced;	/* sessions, not streams: a peer began more than one may have */
};
void lg_lease_server_counts(const struct lg_lease_server *server, struct lg_lease_server_counts *ret);
/* To a hello that was to be answered later: accepts with the welcome, or with NULL refuses for `why`. Not from inside a handler. */
void lg_lease_peer_answer(struct lg_lease_peer *peer, const struct lg_lease_welcome *welcome, const char *why);
void lg_lease_peer_grant(struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_grant *grant);
/* Who owns what has changed: goes at once. */
void lg_lease_peer_map(struct lg_lease_peer *peer, const struct lg_slot_map *map);
void lg_lease_peer_flush(struct lg_lease_peer *peer);
void lg_lease_peer_rules(struct lg_lease_peer *peer, const struct lg_rules_part *part);
void lg_lease_peer_regions(struct lg_lease_peer *peer, const struct lg_region_list *list);
/* Ends the stream with UNAVAILABLE; `gone` is not called for it, and it is freed (inside a handler called for it, after that). */
void lg_lease_peer_close(struct lg_lease_peer *peer, const char *why);
void lg_lease_peer_set_user(struct lg_lease_peer *peer, void *user);
void *lg_lease_peer_user(const struct lg_lease_peer *peer);
const char *lg_lease_peer_address(const struct lg_lease_peer *peer);
/* Who the peer is, by its certificate; false in clear text. */
bool lg_lease_peer_identity(const struct lg_lease_peer *peer, struct lg_tls_name *ret);
