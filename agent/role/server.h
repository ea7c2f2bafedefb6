/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Inside of the region role: one region's server. Lessor to the region's hosts, lessee of each key's home, and home of a share of the
 * keys. server.c starts and stops it, server_holders.c is who holds leases (the durable list), server_keys.c the keys at both
 * tiers, server_escrow.c what is durable before they lend, server_journal.c what is written down of them, server_status.c what it shows. */
#pragma once

#include <jansson.h>
#include <sys/queue.h>

#include "api/admin.h"
#include "api/lease_rpc.h"
#include "api/metrics.h"
#include "base/log.h"
#include "base/table.h"
#include "lease/home.h"
#include "lease/newcomers.h"
#include "lease/pace.h"
#include "lease/region.h"
#include "lease/succession.h"
#include "loop/loop.h"
#include "net/http.h"
#include "role/escrow_book.h"
#include "role/meter.h"
#include "role/role.h"
#include "role/secure.h"
#include "role/server_escrow.h"
#include "role/server_journal.h"
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
	struct lg_succession *succession;	/* owned; set when the rule became another: its keys' past is unknown */
	struct lg_succession *next_succession;	/* owned; while the keys of the other rule are still there */
	struct lg_lessor home, region;		/* what its keys share, as a home and towards the hosts */
	struct lg_meter meter;
};

/* A host or a region that has, or had, leases from here. */
struct lg_server_holder {
	struct lg_server *server;
	char name[LG_NAME_LEN];
	bool is_region;
	bool listed;			/* on the durable list */
	bool is_listing;		/* and is being put there */
	bool is_leaving;		/* is being taken off it */
	struct lg_lease_peer *waiting;	/* said hello, and is welcomed once it is listed; NULL: nobody */
	struct lg_lease_hello hello;	/* of that one */
	uint32_t index;			/* among its kind: the core's holder number */
	uint64_t incarnation;
	uint32_t n_lives;		/* incarnations heard of, counted for the core */
	struct lg_lease_peer *peer;	/* NULL: not connected */
	uint64_t gone_ns;		/* since when */
	struct lg_newcomers newcomers;	/* its own part of the pace of new keys */
	uint32_t n_keys;		/* here that it brought */
	uint64_t ready_ns;		/* since when grants wait to be sent to it; 0: none do */
	struct lg_server_rules_holder rules;
	STAILQ_ENTRY(lg_server_holder) ready;
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
	struct lg_succession *succession;	/* NULL: no earlier life leased to anybody */
	uint64_t forgot_ns;			/* one of them does not remember what it spent before; 0: all do */
	const char *prefix;			/* of keys in the store */
	STAILQ_HEAD(, lg_server_holder) ready;	/* those with a ready_ns, the longest first */
	struct lg_pace pace;			/* of messages to them and from them */
};

/* The way to one home: a stream, or ourselves. */
struct lg_server_home {
	struct lg_server *server;
	size_t region;			/* index in the list */
	struct lg_lease_client *client;	/* NULL for ourselves */
	struct lg_upstream upstream;
	struct lg_holding holdings[LG_RULES_MAX];	/* by the rule's slot */
	bool synced;
	uint64_t n_connects, n_asks, n_grants;
	struct lg_rules_inbox rules;	/* of its region, as they come */
	char why[512];
};

struct lg_server_region_key {
	struct lg_server *server;
	struct lg_key key;
	uint32_t brought_by;		/* the holder that named it first */
	struct lg_server_home *home;
	struct lg_region *region;
	uint64_t due_ns;
};

struct lg_server_home_key {
	struct lg_server *server;
	struct lg_key key;
	uint32_t brought_by;		/* the holder that named it first */
	struct lg_home *home;
	uint64_t due_ns;
	uint64_t outstanding_tok;	/* as the rule's meter knows it */
	struct lg_escrow_entry escrow;
};

/* Messages between our own region and home parts, delivered on the same turn of the loop. */
struct lg_server_local {
	struct lg_key key;
	bool is_grant;
	union {
		struct lg_ask ask;
		struct lg_grant grant;
	};
};

struct lg_server {
	struct lg_config config;
	struct lg_secret secret_keys;	/* what keys of secret rules are hashed with */
	size_t self;			/* our index in the list */
	const char *names[LG_REGIONS_MAX];
	struct lg_server_rule rules[LG_RULES_MAX];
	uint32_t epoch;
	int lock_fd;

	struct lg_loop *loop;
	struct lg_store *store;
	struct lg_rules *first_rules;	/* until a life begins with them */
	struct lg_server_rules rules_now;	/* of the region's store */
	struct lg_secure secure;
	struct lg_lease_server *service;
	struct lg_http_keeper *keeper;	/* of the process; NULL: no metrics are wanted */
	struct lg_http *http;
	struct lg_admin *admin;
	struct lg_source *sources[8];
	size_t n_sources;
	struct lg_source *ticker;

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

	uint64_t started_ns, started_unix_ns;
	bool running;
	bool has_begun;			/* this process leads, and has begun to read who holds leases */
	bool is_settling;
	bool settled;
	struct lg_server_stored_list list;		/* as it is being written */
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
/* A commit of a life that is about to begin: it counts in n_unsaved until it is durable. */
int lg_holders_save(struct lg_server *s, const struct lg_store_write *write);
/* What was counted in n_unsaved besides those is durable, or will not be (result). */
void lg_holders_saved(struct lg_server *s, int result);
/* Makes it durable, once so, that this life has learned what its predecessor had out: looked at each second. */
void lg_holders_settle(struct lg_server *s);
/* Those gone for long leave the durable list. */
void lg_holders_prune(struct lg_server *s);

/* server_list.c */
/* Before anything is lent: is the region list the one this region has worked with? first_life: no earlier life is known. */
int lg_list_start(struct lg_server *s, bool first_life, struct lg_complaint *c);
/* The write that makes the list durable, for when all leases under an older one are known or over. */
void lg_list_settle(struct lg_server *s, struct lg_store_write *ret_write);
/* A region says hello: 0, or 1 when its list is an older one. */
int lg_list_hello(struct lg_server *s, const struct lg_lease_hello *hello);
/* Somebody has a newer list: as a home we cannot know which keys are ours. */
bool lg_list_is_outdated(const struct lg_server *s);

/* server_keys.c */
void lg_server_ask(struct lg_server *s, struct lg_server_holder *from, const struct lg_wire_key *wire, const struct lg_ask *ask);
void lg_server_grant(struct lg_server_home *home, const struct lg_wire_key *wire, const struct lg_grant *grant);
void lg_server_home_up(struct lg_server_home *home, uint32_t epoch);
void lg_server_home_down(struct lg_server_home *home);
/* What became of a key's mark. */
void lg_server_home_marked(struct lg_server_home_key *k, bool is_durable);
void lg_server_tick(struct lg_server *s);
void lg_server_sweep(struct lg_server *s);	/* each second: idle keys leave, meters take their sample */
void lg_server_flush(struct lg_server *s);
/* A message of this holder was worked off: what it brought about goes out. */
void lg_server_heard(struct lg_server *s, const struct lg_server_holder *from);
void lg_server_rules_changed(struct lg_server *s, bool changed[LG_RULES_MAX], bool replaced[LG_RULES_MAX]);
void lg_server_keys_close(struct lg_server *s);

/* server_status.c */
json_t *lg_server_admin(void *arg, const json_t *request);
void lg_server_http(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply);

/* server.c */
/* All that must be durable before this life lends is, or will never be. */
void lg_server_saved(struct lg_server *s);
/* A holder whose hello waited for it is on the durable list (or could not be put there: result). */
void lg_server_listed(struct lg_server *s, struct lg_server_holder *h, int result);
/* Is this server certain to lead? If it was and no longer is, its life ends. To be asked before anything is lent. */
bool lg_server_leads(struct lg_server *s);
int lg_server_reload(struct lg_server *s, struct lg_complaint *c);
/* Puts rules into force; on failure those before them stay. */
int lg_server_enforce(struct lg_server *s, struct lg_rules *rules, struct lg_complaint *c);
