/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Inside of the node role: one host. node.c starts and stops it, node_links.c is where it enforces, node_keys.c is the keys it leases,
 * node_status.c what it shows. */
#pragma once

#include <jansson.h>

#include "api/admin.h"
#include "api/lease_rpc.h"
#include "api/metrics.h"
#include "base/table.h"
#include "kern/kern.h"
#include "lease/lessee.h"
#include "loop/loop.h"
#include "net/http.h"
#include "net/http_keeper.h"
#include "role/last_rules.h"
#include "role/replicas.h"
#include "role/node_rules.h"
#include "role/role.h"
#include "role/secure.h"
#include "rules/compile.h"
#include "rules/lockout.h"
#include "rules/secret.h"

/* A rule in force, by its id. */
struct lg_node_rule {
	const struct lg_rule_def *def;	/* into node->rules; NULL: no rule has this id */
	struct lg_terms terms;		/* global rules */
	uint64_t fingerprint;
};

struct lg_node_key {
	struct lg_node *node;
	struct lg_key key;
	uint32_t slot;			/* of its region's servers */
	struct lg_holding holding;
	struct lg_lessee *lessee;
	bool owes_hello;	/* to be named to the lessor since the stream came up */
	uint64_t due_ns;
};

/* An interface that is to be limited: one that an entry names, there or not, or one that is there and fits a pattern. */
struct lg_node_interface {
	char name[LG_IFNAME_LEN];
	const struct lg_interface *config;
	uint32_t ifindex;	/* 0: it is not there */
	bool attached;		/* at every hook that is wanted */
	bool due;		/* to be attached at the next opportunity */
	bool is_new;		/* since it came nothing was tried */
	unsigned charged_below;	/* bit per hook at which it stays out: its packets pass another one that is limited */
	unsigned fresh;		/* bit per hook attached by this process, for a start that fails later */
	enum lg_attach_mode mode[_LG_HOOK_N];	/* as last seen; LG_MODE_NONE: not attached there */
	char why[512];		/* of not being attached */
	bool is_without_fq;	/* rules hold packets back there in vain, and that was said */
	uint64_t advice;	/* hash of what lg_node_advise() last said; 0: nothing */
};

/* An address, with a port, that this host asks for something. */
struct lg_node_peer {
	struct lg_prefix prefix;
	uint16_t port;
};

#define LG_DIALLED_MAX 8
#define LG_OWN_PEERS_MAX (LG_DIALLED_MAX + 3) /* a resolver looks at three name servers */
#define LG_OWN_EXEMPTIONS_MAX (2 + 2 * LG_OWN_PEERS_MAX)

/* Exemptions that a node adds itself. Matches point in here. */
struct lg_own_exemptions {
	size_t n, n_peers;
	struct lg_exemption v[LG_OWN_EXEMPTIONS_MAX];
	struct lg_prefix peers[LG_OWN_PEERS_MAX];
};

/* How rules are to be loaded. */
struct lg_node_reload {
	const struct lg_peer *peers;	/* sessions that must not be cut off */
	size_t n_peers;
	uint64_t confirm_ns;		/* 0: for good; else only if confirmed within this */
};

struct lg_node {
	struct lg_config config;
	struct lg_rules *rules;
	struct lg_secret secret_keys;	/* what keys of secret rules are hashed with */
	struct lg_node_rules region_rules;	/* with rules_from: region */
	struct lg_rules_text rules_text;	/* of a file that is to be in force soon */
	char rules_why[1024];	/* why the rules last in force are, instead of those of the file; "" otherwise */
	bool rules_kept;	/* the state folder has what was confirmed last */
	struct lg_rules_text trial_text;	/* of rules on trial (node_confirm.c) */
	uint64_t trial_until_ns;	/* 0: there is no trial */
	struct lg_source *trial_timer;
	struct lg_own_exemptions own;	/* of the rules in force */
	struct lg_node_peer dialled[LG_DIALLED_MAX];	/* upstreams, the newest last */
	size_t n_dialled;
	uint64_t lists_due_ns;	/* when the operator's entries are looked at again */
	uint64_t lists_noted;	/* of what the state folder has of them */
	struct lg_node_rule by_id[LG_RULES_MAX + 1];
	struct lg_ruleset set;
	struct lg_rule_name names[LG_RULES_MAX + 1];
	uint32_t n_global;
	int lock_fd;

	struct lg_loop *loop;
	struct lg_kern *kern;
	struct lg_links *links;
	struct lg_source *links_reader, *links_ticker, *links_timer;
	struct lg_http_keeper *keeper;	/* NULL: no metrics are wanted */
	struct lg_http *http;
	struct lg_admin *admin;
	struct lg_secure secure;
	struct lg_replicas *replicas;	/* our region; NULL: the host leases nothing */
	struct lg_source *sources[12];
	size_t n_sources;
	struct lg_source *ticker;
	struct lg_source *stopper;	/* ends the daemon, once the operator's tool has its answer */
	uint64_t tick_ns;

	struct lg_table *keys;	/* struct lg_key -> struct lg_node_key, owned */
	struct lg_node_key **due;
	size_t n_due, size_due;
	struct lg_op ops[LG_OPS_MAX];	/* grants not carried out yet, in order */
	size_t n_ops;

	struct lg_node_interface interfaces[LG_ATTACH_MAX];	/* those that entries name first */
	size_t n_interfaces;
	size_t n_without_place;	/* more that fit */
	size_t next_look, next_advice;
	uint32_t seen_changes;	/* of who gets packets from whom */
	bool stack_changed;	/* what is attached may be in the way of what is above it */
	bool said, said_ready;	/* whether being ready was said, and which */
	uint64_t started_ns;
	struct lg_table *sockets, *missing; /* by connection: see node_recount.c */
	uint32_t recount_pass;
	uint64_t n_recounts;	/* passes that came to their end */
	int recount_error;	/* as said */
	bool has_conns;		/* the tables of connections are not known to be empty */
	bool made_alone;	/* this process made the pins, and nothing enforced before */
	uint64_t forgot_until_ns; /* what was spent before is not known here; 0: all is */
	bool running;
	struct lg_upstream upstreams[LG_KEY_SLOTS];
	uint32_t n_owing[LG_KEY_SLOTS];	/* keys that owe a hello */
	struct lg_slot_set unsynced;	/* slots whose owner has not been told yet that all of them have been named */
	struct lg_lease_welcome welcome;	/* the newest */
	uint64_t n_connects, n_asks, n_grants, n_reloads_ok, n_reloads_failed;
	char upstream_why[512];
};

/* node_keys.c */
int lg_node_keys_adopt(struct lg_node *n);			/* leases that an earlier agent left in the kernel */
void lg_node_event(void *arg, const struct lg_event *event);	/* a key wants attention */
void lg_node_tick(struct lg_node *n);				/* every key that is due */
void lg_node_slots_up(struct lg_node *n, const struct lg_slot_set *up);	/* these have an owner that has heard nothing yet */

/* node_upstream.c */
int lg_node_upstream_start(struct lg_node *n, struct lg_complaint *c);
void lg_node_reachable_set(struct lg_node *n, bool reachable);	/* the kernel's control words */
bool lg_node_upstream_is_up(const struct lg_node *n);
void lg_node_grant(struct lg_node *n, const struct lg_wire_key *wire, const struct lg_grant *grant);
void lg_node_flush(struct lg_node *n);				/* grants to the kernel, messages to the stream */
void lg_node_sweep(struct lg_node *n);				/* buckets nobody uses leave the table */
void lg_node_rule_gone(struct lg_node *n, uint32_t rule_id);	/* gives back and forgets the keys of a rule */
void lg_node_rule_changed(struct lg_node *n, uint32_t rule_id);	/* its numbers */
void lg_node_keys_close(struct lg_node *n);			/* orderly end: a last report; what is leased stays until its end */

/* node_exempt.c */
void lg_node_exempt_start(struct lg_node *n);			/* before there are rules */
void lg_node_exempt_stop(void);
void lg_node_exemptions(const struct lg_node *n, const struct lg_rules *rules, struct lg_own_exemptions *ret);

/* node_lists.c */
int lg_node_lists_load(struct lg_node *n, const struct lg_rules *rules, struct lg_complaint *c);
void lg_node_lists_restore(struct lg_node *n);			/* the operator's entries, after a reboot */
void lg_node_lists_changed(struct lg_node *n);			/* the operator's tool says so */
void lg_node_lists_sweep(struct lg_node *n);			/* entries and bans that are over */
/* Would a session of `how` be cut off? Then a complaint. */
int lg_node_lockout_check(struct lg_node *n, const struct lg_rules *rules, const struct lg_ruleset *set,
			  const struct lg_classifier *classifier, const struct lg_rule_name *names, const struct lg_node_reload *how,
			  struct lg_complaint *c);

/* node_confirm.c */
bool lg_node_is_unconfirmed(const struct lg_node *n);		/* the rules file has never been confirmed */
int lg_node_trial_begin(struct lg_node *n, struct lg_complaint *c);	/* before rules on trial are loaded */
void lg_node_trial_run(struct lg_node *n, uint64_t timeout_ns);	/* they are in force: their text is n->rules_text, which it takes */
int lg_node_trial_confirm(struct lg_node *n, struct lg_complaint *c);
void lg_node_trial_end(struct lg_node *n);			/* what is in force is confirmed, and kept */

/* node_links.c */
int lg_node_links_check(struct lg_node *n, struct lg_complaint *c);	/* is all there that must be at the start? */
int lg_node_links_start(struct lg_node *n, enum lg_kern_fail *ret_fail, struct lg_complaint *c);
int lg_node_links_sources(struct lg_node *n);
void lg_node_links_news(void *arg);
void lg_node_links_tick(void *arg);
void lg_node_links_say(struct lg_node *n);		/* in the log: ready, or why not, when that has changed */
void lg_node_links_stop(struct lg_node *n, bool undo);
bool lg_node_links_wants(const struct lg_node_interface *i, enum lg_hook hook);
bool lg_node_links_are_ready(const struct lg_node *n, char *why, size_t len);

/* node_advice.c */
void lg_node_pace_look(struct lg_node *n);	/* warns where packets that rules hold back are not held back, once for each change */
void lg_node_advise(struct lg_node *n, struct lg_node_interface *i);	/* warns of what an interface does to rules, once for each change */

/* node_conns.c */
int lg_node_conns_start(struct lg_node *n);			/* before there are rules */
void lg_node_conns_tick(void *arg);				/* connections that are over */
void lg_node_conns_warn(const struct lg_node *n);		/* of rules that ask who began where that is not seen */

/* node_recount.c */
int lg_node_recount(struct lg_node *n);				/* connections by the sockets of this host */
void lg_node_recount_stop(struct lg_node *n);

/* node_status.c */
json_t *lg_node_admin(void *arg, const json_t *request);
void lg_node_http(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply);
bool lg_node_is_ready(const struct lg_node *n, char *why, size_t len);

/* node.c */
/* As they would be loaded now. classifier NULL: it is not wanted. */
int lg_node_rules_compile(struct lg_node *n, struct lg_rules *rules, struct lg_ruleset *ret_set, struct lg_classifier *classifier,
			  struct lg_rule_name *ret_names, struct lg_complaint *c);
int lg_node_reload(struct lg_node *n, const struct lg_node_reload *how, struct lg_complaint *c);
/*
 * Puts the rules into force and takes them. On failure the old ones stay, in the kernel and here. `how` NULL: whoever is cut off. Those in
 * force may be put into force again, when something has changed that they depend on.
 */
int lg_node_rules_apply(struct lg_node *n, struct lg_rules *rules, const struct lg_node_reload *how, struct lg_complaint *c);
