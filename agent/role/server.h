/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Inside of the region role: one server of a region. Lessor to the region's hosts, lessee of each key's home, and home of a share of the
 * keys; of all that for the slots of keys that it owns. server.c starts and stops it, server_slots.c says which slots it owns among the
 * others of its region, server_settle.c what is durable of them, server_past.c whether that is the newest, server_holders.c who holds
 * leases (the durable list), server_streams.c their streams, server_keys.c the keys at both tiers, server_homes.c the way to the homes of
 * keys, server_escrow.c what is durable before they lend, server_journal.c what is written down of them, server_status.c what it shows.
 */
#pragma once

#include <jansson.h>
#include <sys/queue.h>

#include "api/admin.h"
#include "api/lease_rpc.h"
#include "api/metrics.h"
#include "base/log.h"
#include "base/table.h"
#include "lease/claims.h"
#include "lease/home.h"
#include "lease/newcomers.h"
#include "lease/pace.h"
#include "lease/region.h"
#include "lease/succession.h"
#include "loop/loop.h"
#include "net/http.h"
#include "role/escrow_book.h"
#include "role/meter.h"
#include "role/replicas.h"
#include "role/role.h"
#include "role/secure.h"
#include "role/server_escrow.h"
#include "role/server_journal.h"
#include "role/server_regions.h"
#include "role/server_rules.h"
#include "store/journal.h"
#include "store/store.h"

/* A rule by its slot; keys name it by slot + 1. Slots are kept over reloads by name. */
struct lg_server_rule {
	bool live;			/* in the file */
	struct lg_rule_def def;
	uint64_t fingerprint;
	uint64_t identity;
	const struct lg_terms *terms;		/* in force: one of the two */
	const struct lg_terms *next_terms;	/* while the keys change from the one to the other; else NULL */
	struct lg_terms terms_of[2];
	struct lg_meter meter;
	bool reserves;			/* as a home it lends only by marks that are durable. Once so, always: keys rely on it */
	uint64_t past_granted_tok, past_lapsed_tok;	/* as a home, in slots that this server owns no more */
};

/* What the keys of one rule in one slot share. Made with the first of them. */
struct lg_server_lessors {
	struct lg_lessor home, region;	/* as a home, and towards the hosts */
	struct lg_succession *succession;	/* owned; set when the rule became another: its keys' past is unknown */
	struct lg_succession *next_succession;	/* owned; while the keys of the other rule are still there */
};

/* A slot of keys: a lessor of its own, while this server owns it. */
struct lg_server_slot {
	bool owned;
	bool settled;				/* it is durable that this life has learned what was out */
	uint32_t epoch;
	uint64_t revision;			/* of the key in the store that says that it is ours: each write for the slot asks for it */
	uint64_t life_revision;			/* of what is durable of its lives */
	struct lg_succession *hosts, *regions;	/* owned. NULL: no earlier life leased to anybody */
	struct lg_server_lessors *lessors[LG_RULES_MAX];
};

/* What a holder has of slots, as a region: it speaks through several streams, each of which has some of them. */
struct lg_server_lives {
	struct lg_server_stream *stream[LG_KEY_SLOTS];
	uint64_t incarnation[LG_KEY_SLOTS];
	uint32_t n_lives[LG_KEY_SLOTS];		/* incarnations heard of, counted for the core */
};

/* A host or a region that has, or had, leases from this region. */
struct lg_server_holder {
	struct lg_server *server;
	char name[LG_NAME_LEN];
	bool is_region;
	bool listed;			/* on the durable list */
	bool is_listing;		/* and is being put there */
	uint64_t revision;		/* of its entry there */
	bool is_marked;			/* its entry says that it is to leave the list */
	uint64_t marked_ns;		/* since when that is known here */
	uint32_t index;			/* among its kind: the core's holder number */
	uint64_t incarnation;
	uint32_t n_lives;		/* of a host: incarnations heard of, counted for the core */
	struct lg_server_lives *lives;	/* owned; of a region */
	LIST_HEAD(, lg_server_stream) streams;
	uint64_t gone_ns;		/* since when it has none */
	struct lg_newcomers newcomers;	/* its own part of the pace of new keys */
	uint32_t n_keys;		/* here that it brought */
	bool wants_rules;		/* as it said last, on whichever stream */
	struct lg_rules_state rules;
};

/* A stream of a holder. A host has one, a region one from each of its servers. */
struct lg_server_stream {
	struct lg_server_holder *holder;
	struct lg_lease_peer *peer;
	struct lg_lease_hello hello;
	bool is_waiting;		/* to be welcomed once its holder is on the durable list */
	LIST_ENTRY(lg_server_stream) link;
	uint64_t ready_ns;		/* since when grants wait to be sent to it; 0: none do */
	STAILQ_ENTRY(lg_server_stream) ready;
	struct lg_server_rules_stream rules;
};

/* The region list, as stored. */
struct lg_server_stored_list {
	uint64_t version;
	uint64_t names;		/* the same for the same names in any order */
};

struct lg_server_holders {
	struct lg_server_holder **v;
	size_t n, size;
	struct lg_table *by_name;
	uint64_t forgot_ns;			/* one of them does not remember what it spent before; 0: all do */
	const char *prefix;			/* of keys in the store */
	STAILQ_HEAD(, lg_server_stream) ready;	/* those with a ready_ns, the longest first */
	struct lg_pace pace;			/* of messages to them and from them */
};

/* The way to one home: to its servers, or ourselves. */
struct lg_server_home {
	struct lg_server *server;
	size_t region;			/* index in the list */
	struct lg_replicas *replicas;	/* NULL for ourselves */
	struct lg_upstream upstreams[LG_KEY_SLOTS];
	struct lg_slot_set unsynced;	/* slots up there of which it has not been told yet that all has been named */
	uint32_t epoch;			/* as it said last */
	uint64_t n_connects, n_asks, n_grants;
	char why[512];
};

struct lg_server_region_key {
	struct lg_server *server;
	struct lg_key key;
	uint32_t slot;
	uint32_t brought_by;		/* the holder that named it first */
	struct lg_server_home *home;
	struct lg_holding holding;
	struct lg_region *region;
	uint64_t due_ns;
};

struct lg_server_home_key {
	struct lg_server *server;
	struct lg_key key;
	uint32_t slot;
	uint32_t brought_by;		/* the holder that named it first */
	struct lg_home *home;
	uint64_t due_ns;
	uint64_t outstanding_tok;	/* as the rule's meter knows it */
	struct lg_escrow_entry escrow;
};

/* Messages between our own region and home parts, delivered on the same turn of the loop. */
struct lg_server_local {
	struct lg_key key;
	uint32_t slot;
	bool is_grant;
	union {
		struct lg_ask ask;
		struct lg_grant grant;
	};
};

/* A server of our region, as the store tells. */
struct lg_server_replica {
	struct lg_replica known;
	bool is_there;
};

struct lg_server_slots {
	char name[LG_NAME_LEN];			/* our own among the servers of the region */
	struct lg_server_slot v[LG_KEY_SLOTS];
	size_t n_owned;
	struct lg_server_replica replicas[LG_REPLICAS_MAX];
	struct lg_slot_claim claims[LG_KEY_SLOTS];	/* as the store tells */
	struct lg_slot_map map;			/* what hosts and other regions are told */
	bool map_is_old;
	uint32_t session;			/* of the store in which we are listed; 0: in none */
	bool is_listed;
	bool has_past;				/* of slots without a record an older version may have leased */
	struct lg_slot_set writing;		/* by the commit under way */
	bool is_writing;
	uint32_t writing_session, writing_epoch;
	uint64_t epoch_revision;		/* of the region's epoch as our last claim left it */
	uint64_t retry_ns;
	bool is_leaving;			/* the server stops: it gives its slots away */
	bool said_ready;
	struct lg_source *timer;
};

#define LG_LIFE_OVER 64	/* beside the exit codes: another life follows */

struct lg_server {
	struct lg_config config;
	struct lg_secret secret_keys;	/* what keys of secret rules are hashed with */
	size_t self;			/* our index in the list */
	const char *names[LG_REGIONS_MAX];
	const char *home_names[LG_REGIONS_MAX];	/* of those that do not drain, and their indices */
	size_t home_index[LG_REGIONS_MAX];
	size_t n_homes;
	struct lg_server_rule rules[LG_RULES_MAX];
	uint32_t epoch;			/* the largest that this server has had */
	int lock_fd;

	struct lg_loop *loop;
	struct lg_store *store;
	struct lg_rules *first_rules;	/* until a life begins with them */
	struct lg_server_rules rules_now;	/* of the region's store */
	struct lg_server_regions list;
	int stop_code;			/* of an orderly end: an exit code, or LG_LIFE_OVER */
	struct lg_secure secure;
	struct lg_lease_server *service;
	struct lg_http_keeper *keeper;	/* of the process; NULL: no metrics are wanted */
	struct lg_http *http;
	struct lg_admin *admin;
	struct lg_source *sources[8];
	size_t n_sources;
	struct lg_source *ticker;

	struct lg_server_slots slots;
	struct lg_server_holders hosts, regions;
	uint32_t n_unsaved;				/* commits that must be durable before this life begins to lend */
	bool is_spoiled;				/* one of them was not */
	struct lg_server_holder *self_holder;		/* our own region part, as a holder of our own home */
	struct lg_server_home homes[LG_REGIONS_MAX];
	struct lg_table *region_keys, *home_keys;	/* owned values */
	struct lg_server_local *local;			/* queue, in order */
	size_t n_local, size_local, next_local;
	struct lg_newcomers newcomers;	/* the part of the pace of new keys that all holders share */

	struct lg_server_escrow *escrow;		/* what is durable before it is lent; while a life goes on */
	struct lg_journal *journal;			/* NULL: none is kept */
	struct lg_log_gate journal_gate;
	uint64_t journal_dropped;			/* records, as the last complaint knew */

	bool past_is_lost;			/* the store is older than our last life: who holds what is not known */
	uint64_t started_ns, started_unix_ns;
	bool running;
	bool has_begun;			/* who holds leases has been read */
	bool is_settling;
	uint64_t newest_list;				/* version of the region list that another region has told of */
	uint64_t n_impostors;				/* said to be somebody else than their certificate says */
	uint64_t n_refused[8], n_reloads_ok, n_reloads_failed;
};

/* server_holders.c */
/* Reads who may hold leases, and begins to write what this life is; lg_server_saved() is called when all of it is durable. */
int lg_holders_start(struct lg_server *s, struct lg_complaint *c);
void lg_holders_stop(struct lg_server *s);
/* Finds or adds, and sees to it that it comes on the durable list; `listed` says whether it is there already. */
int lg_holders_get(struct lg_server *s, struct lg_server_holders *kind, const char *name, struct lg_server_holder **ret);
/* All on the durable list, as those who may hold leases of an earlier life; NULL where there is nobody. */
int lg_holders_succession(const struct lg_server_holders *kind, struct lg_succession **ret_succession);
/* Those gone for long leave the durable list. */
void lg_holders_prune(struct lg_server *s);
/* Its entry in the store is what it should be, or is being made so. */
bool lg_holder_is_noted(const struct lg_server_holder *h);

/* server_streams.c */
int lg_streams_hello(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello, struct lg_lease_welcome *welcome, char *why);
void lg_streams_lives(void *arg, struct lg_lease_peer *peer, const struct lg_slot_part *part);
void lg_streams_gone(void *arg, struct lg_lease_peer *peer, const char *why);
/* A holder whose hello waited for it is on the durable list (or could not be put there: result). */
void lg_streams_listed(struct lg_server *s, struct lg_server_holder *h, int result);
/* The stream by which a holder is told of a key in this slot; NULL: none. */
struct lg_server_stream *lg_streams_of(const struct lg_server_holder *h, uint32_t slot);
uint32_t lg_streams_lives_of(const struct lg_server_holder *h, uint32_t slot);
void lg_streams_map(struct lg_server *s);	/* to all */
void lg_streams_free(struct lg_server_holder *h);

/* server_slots.c */
/* A name for this server among those of its region. */
void lg_slots_name(char name[LG_NAME_LEN]);
/* Reads who owns what, and watches it. */
int lg_slots_start(struct lg_server *s, struct lg_complaint *c);
void lg_slots_stop(struct lg_server *s);
/* Something has changed: what is to be done is done from the loop. */
void lg_slots_look(struct lg_server *s);
/* Is this server certain to be known as there? If it was and no longer is, it owns nothing. To be asked before anything is lent. */
bool lg_slots_are_ours(struct lg_server *s);
/* Stops: gives all slots away, and ends the loop when that is done. */
void lg_slots_leave(struct lg_server *s);
/* Has every slot an owner, and is this server one of those who could? */
bool lg_slots_are_ready(const struct lg_server *s);
/* What the keys of a rule (by its place) share in a slot that is ours. NULL: no memory. */
struct lg_server_lessors *lg_slots_lessors(struct lg_server *s, uint32_t slot, size_t rule);
/* Writes of the slot's owner ask for this: nobody else has come to own it. */
struct lg_store_write lg_slots_fence(struct lg_server *s, uint32_t slot, char key[LG_NAME_LEN]);
json_t *lg_slots_json(const struct lg_server *s);

/* server_settle.c */
/* What is durable of a slot's lives. */
struct lg_server_life {
	uint64_t epoch;		/* of the newest */
	uint64_t before;	/* of the one before it; 0: there was none */
	uint64_t settled;	/* of the last one that had learned what those before it had lent */
	struct lg_server_stored_list list;	/* under which that one worked */
	uint64_t doubtful;	/* revision of the slot's page of marks that is not to be believed: some were not kept up; 0: none is */
};
/* Those of one slot, and the revision of what is stored. 1: it has had none. */
int lg_slot_life_read(struct lg_server *s, uint32_t slot, struct lg_server_life *ret_life, uint64_t *ret_revision);
/* Who may hold tokens of the slot's earlier lives. life NULL: there was none. */
int lg_slot_life_begin(struct lg_server *s, uint32_t slot, const struct lg_server_life *life);
/* May tokens of keys in it be out that nobody here knows of, from under another list of regions or from before a store was put back? life NULL:
 * as above. */
bool lg_slot_past_is_elsewhere(const struct lg_server *s, const struct lg_server_life *life);
/* Makes it durable of each slot, once so, that its life has learned what its predecessor had out: looked at each second. */
void lg_slots_settle(struct lg_server *s);
bool lg_slots_are_settled(const struct lg_server *s);

/* server_past.c */
/* Is the store the one of our last life? */
void lg_past_start(struct lg_server *s);
/* Is whatever an unknown life has lent over? Looked at each second. */
void lg_past_look(struct lg_server *s);
/* Of a slot: hosts that the store does not know of may hold leases. */
int lg_past_hosts(struct lg_succession **hosts);

/* server_list.c */
/* Before anything is lent: is the region list the one this region has worked with? */
int lg_list_start(struct lg_server *s, struct lg_complaint *c);
struct lg_server_stored_list lg_list_of(const struct lg_config *config);
/* The write that makes the list durable, for when all leases under an older one are known or over. False: it is. */
bool lg_list_settle(struct lg_server *s, struct lg_server_stored_list *list, struct lg_store_write *ret_write);
/* A region says hello: 0, or 1 when its list is an older one. */
int lg_list_hello(struct lg_server *s, const struct lg_lease_hello *hello);
/* Somebody has a newer list: as a home we cannot know which keys are ours. */
bool lg_list_is_outdated(const struct lg_server *s);

/* server_homes.c */
int lg_homes_start(struct lg_server *s, struct lg_complaint *c);
void lg_homes_stop(struct lg_server *s);
/* We own these slots from now on, in one life. */
void lg_homes_slots(struct lg_server *s, const struct lg_slot_set *slots, uint32_t epoch);
/* Or no longer. */
void lg_homes_slots_end(struct lg_server *s, const struct lg_slot_set *slots);
/* Tells homes of slots of which all has been named. */
void lg_homes_sync(struct lg_server *s);

/* server_keys.c */
/* Which slot a key is in, and (NULL: not asked for) which region is its home. */
uint32_t lg_server_place(const struct lg_server *s, const struct lg_key *key, size_t *ret_home);
void lg_server_ask(struct lg_server *s, struct lg_server_stream *from, const struct lg_wire_key *wire, const struct lg_ask *ask);
void lg_server_grant(struct lg_server_home *home, const struct lg_wire_key *wire, const struct lg_grant *grant);
/* Keys of these slots say at their home what they hold. */
void lg_server_keys_up(struct lg_server_home *home, const struct lg_slot_set *slots);
/* We own these slots no longer. In good order what is not out goes back to the homes. */
void lg_server_keys_drop(struct lg_server *s, const struct lg_slot_set *slots, bool in_order);
void lg_server_local_pump(struct lg_server *s);
/* What became of a key's mark. */
void lg_server_home_marked(struct lg_server_home_key *k, bool is_durable);
void lg_server_tick(struct lg_server *s);
void lg_server_sweep(struct lg_server *s);	/* each second: idle keys leave, meters take their sample */
void lg_server_flush(struct lg_server *s);
/* A message of this holder was worked off: what it brought about goes out. */
void lg_server_heard(struct lg_server *s, const struct lg_server_holder *from);
void lg_server_rules_changed(struct lg_server *s, bool changed[LG_RULES_MAX], bool replaced[LG_RULES_MAX]);
/* The terms in force are others. */
void lg_server_rules_enforced(struct lg_server *s);
void lg_server_keys_close(struct lg_server *s);

/* server_status.c */
json_t *lg_server_admin(void *arg, const json_t *request);
json_t *lg_server_operator(void *arg, const char *name, const json_t *request);
void lg_server_http(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply);

/* server.c */
/* All that must be durable before this life lends is, or will never be. */
void lg_server_saved(struct lg_server *s);
/* A time at which a fixed window began: windows of all lives and machines begin at multiples of their length since 1970. */
uint64_t lg_server_origin_ns(const struct lg_server *s, uint64_t per_ns);
int lg_server_reload(struct lg_server *s, struct lg_complaint *c);
/* Puts rules into force; on failure those before them stay. */
int lg_server_enforce(struct lg_server *s, struct lg_rules *rules, struct lg_complaint *c);
