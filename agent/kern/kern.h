/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One instance of leasegate in the kernel: its maps, programs, links and pins. Used by the node from its loop thread,
 * and by the tool (which opens the pins only). Nothing here is a limit or a lease: those are written as bytes of the
 * ABI.
 *
 * Pins: <root>/<instance>/v<ABI>/<map>, <root>/<instance>/links/<ifname>-<hook>; root is /sys/fs/bpf/leasegate. A clsact
 * filter cannot be pinned: a directory stands in its place. Names of interfaces are escaped (eth0.100 is eth0%2e100).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "leasegate/abi.h"

#define LG_KERN_ROOT "/sys/fs/bpf/leasegate"

struct lg_config;
struct lg_kern;
struct lg_prefix;

/* Why opening or attaching failed. The values are the exit codes of the daemon and the tool. */
enum lg_kern_fail {
	LG_KERN_OK = 0,
	LG_KERN_REFUSED = 1,	/* unknown interface, a foreign program in the way, incompatible pins, busy */
	LG_KERN_PRIVILEGE = 3,	/* CAP_BPF, CAP_NET_ADMIN, or the memlock limit; the text names which */
	LG_KERN_FEATURE = 4,	/* the kernel lacks something the program needs */
	LG_KERN_NO_BPFFS = 5,	/* no bpf file system where the pins belong */
};

#define LG_LINE_KEYS_ANY UINT32_MAX

/* What is done where pinned maps are laid out otherwise than this build's, or are those of another ABI version. */
enum lg_kern_misfit {
	LG_MISFIT_REFUSE = 0,	/* nothing: the complaint names what differs */
	LG_MISFIT_MIGRATE,	/* rules, levels and counters are carried over; from a newer version that is refused, too */
	LG_MISFIT_DISCARD,	/* begin anew; the old maps enforce until lg_kern_settle() */
};

struct lg_kern_options {
	const char *instance;	/* [a-z0-9][a-z0-9_-]*, shorter than LG_NAME_LEN */
	const char *root;	/* NULL: LG_KERN_ROOT */
	uint32_t max_keys;	/* entries of `buckets`, 0: the default; adopted pins keep theirs, and *c says so */
	uint32_t line_keys;	/* slots of `lines`; 0: one line and no rule in it, LG_LINE_KEYS_ANY: the default; likewise */
	uint32_t log_keys;	/* entries of `logs`, 0: the default; likewise */
	uint32_t max_rules;	/* ids that overflow buckets and counters have room for; as max_keys */
	uint32_t max_conns;	/* entries of `conns` and of `initiated`; as max_keys */
	uint64_t incarnation;	/* written to `control` when maps are made anew */
	enum lg_kern_misfit misfit;
	unsigned int unused_hooks; /* 1 << enum lg_hook: their programs are loaded only if something at such a hook is taken over or attached */
	bool test_clock;	/* load with lg_test_clock (tests only); not what is loaded later */
};
/* As a configuration says; incarnation and test_clock are the caller's. Borrows the instance's name. */
struct lg_kern_options lg_kern_options_of(const struct lg_config *config);

/*
 * Loads the programs and makes the maps, or adopts those pinned by an earlier process: levels, counters and links stay,
 * and the programs of adopted links are replaced atomically with this build's. Fails without leaving anything behind
 * that was not there before. The instance belongs to the process until lg_kern_free() or its end (and that of children
 * forked meanwhile): a second open gets -EBUSY.
 * Returns 0 (made anew), 1 (adopted; *c says what did not go as wanted, and what was carried over), 2 (made anew beside what enforces,
 * which lg_kern_settle() ends once rules are loaded; lg_kern_free() before that undoes it), or negative errno with *c filled and
 * *ret_fail saying which kind.
 */
int lg_kern_open(const struct lg_kern_options *o, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail,
		 struct lg_complaint *c);

/* Puts the programs of this process into every link, where opening left those of others; then nothing is left of their maps. Else 0. */
int lg_kern_settle(struct lg_kern *kern);
/* The folder of this instance's pins. */
const char *lg_kern_dir(const struct lg_kern *kern);

/*
 * Opens the pinned maps only, loads nothing, needs no daemon. -ENOENT when the instance has no pins. Operations that
 * need programs (attach, grant, collect, rule_forget) and events, which belong to the daemon, are -EOPNOTSUPP on what
 * this opened.
 */
int lg_kern_open_pins(const char *instance, const char *root, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail,
		      struct lg_complaint *c);

/* A map as a node with these options would make it. */
struct lg_map_facts {
	char name[16];
	uint32_t type;
	uint32_t key_bytes, value_bytes;
	uint32_t max_entries;
	uint32_t flags;
};
/* Fills up to `max`, without asking the kernel. Returns their number, or negative errno. */
int lg_kern_maps_look(const struct lg_kern_options *o, struct lg_map_facts *ret, size_t max);
/* Whether the kernel takes the programs: loads them with small maps, pins nothing, and lets go of all. As lg_kern_open(). */
int lg_kern_load_try(enum lg_kern_fail *ret_fail, struct lg_complaint *c);

/* Closes descriptors; pins, links and enforcement stay. */
struct lg_kern *lg_kern_free(struct lg_kern *kern);
LG_CLEANUP(struct lg_kern, lg_kern_free)

/* ---- attaching ---- */

enum lg_attach_mode {
	LG_MODE_NONE = 0,
	LG_MODE_XDP_NATIVE,
	LG_MODE_XDP_GENERIC,
	LG_MODE_TCX,
	LG_MODE_CLSACT,
	LG_MODE_SHARED_NATIVE,	/* XDP beside programs of others, in libxdp's dispatcher */
	LG_MODE_SHARED_GENERIC,
	LG_MODE_ELSEWHERE,	/* attached in another network namespace than ours: how cannot be seen from here */
};
/* "native", "generic", "shared_native", "shared_generic", "tcx", "clsact", "elsewhere", "none" */
const char *lg_attach_mode_name(enum lg_attach_mode mode);
/* "xdp", "tc_ingress", "tc_egress": as in pins and metrics */
const char *lg_hook_name(enum lg_hook hook);

struct lg_attachment {
	char ifname[16];
	uint32_t ifindex;
	enum lg_hook hook;
	enum lg_attach_mode mode;
	uint32_t link_id;	/* 0 for clsact */
	uint32_t prog_id;
	bool adopted;		/* was there before this process */
};

/*
 * Attaches at a hook of an interface, or adopts what an earlier process attached there. For XDP `mode` says native or
 * generic and nothing else is tried; for TC LG_MODE_NONE means tcx where the kernel has it, else clsact. A program of
 * somebody else is never removed or replaced: -EBUSY with its name and id in the complaint.
 */
int lg_kern_attach(struct lg_kern *kern, const char *ifname, enum lg_hook hook, enum lg_attach_mode mode,
		   struct lg_attachment *ret, enum lg_kern_fail *ret_fail, struct lg_complaint *c);
/* Detaches one of ours; 0 also when it was not attached. */
int lg_kern_detach(struct lg_kern *kern, const char *ifname, enum lg_hook hook);
/* Detaches those of ours that keep() does not want, by the names under which they are pinned. Returns how many. */
int lg_kern_detach_others(struct lg_kern *kern, bool (*keep)(void *arg, const char *ifname, enum lg_hook hook), void *arg);
/* Whether ours is attached at a hook of an interface now, as the kernel says it: 1 with *ret filled, or 0. */
int lg_kern_attached(struct lg_kern *kern, const char *ifname, enum lg_hook hook, struct lg_attachment *ret);
/* What is attached now, as the kernel says it: up to `max` of ours. Returns the number. */
int lg_kern_attachments(struct lg_kern *kern, struct lg_attachment *ret, size_t max);
/* Without a daemon: removes every link and pin of the instance, of every ABI version, and nothing else. Returns how
 * many links went (0 also when there is no such instance), -EBUSY while a daemon runs, or -errno. */
int lg_kern_detach_all(const char *instance, const char *root, enum lg_kern_fail *ret_fail, struct lg_complaint *c);

/* ---- rules ---- */

/* How many ids there are for rules: 1 .. this. */
uint32_t lg_kern_max_rules(const struct lg_kern *kern);
/* The set in force and the table of names; `ret_names` has LG_RULES_MAX + 1 entries. */
int lg_kern_rules_read(struct lg_kern *kern, struct lg_ruleset *ret_set, struct lg_rule_name *ret_names);
/*
 * Writes the names, and set and classifier into the entries not in force, makes the overflow buckets of new rules ready, then swaps
 * by one word. Waits first, some 10 ms, for packets that are still decided by those entries. `classifier` NULL: the rules are those
 * in force, in the same order, and match what they did.
 */
int lg_kern_rules_load(struct lg_kern *kern, const struct lg_ruleset *set, const struct lg_classifier *classifier,
		       const struct lg_rule_name *names);

/* The classifier of the set in force, some megabytes. */
int lg_kern_classifier_read(struct lg_kern *kern, struct lg_classifier *ret_classifier);

/* Tells packets on the interface of this name which of those that rules name it is: to be called before it is attached. */
int lg_kern_interface_learn(struct lg_kern *kern, const char *ifname);
/* What was hashed into a key; -ENOENT if that is not known. */
int lg_kern_wide_key(struct lg_kern *kern, const struct lg_key *key, struct lg_wide_key *ret);
/* Drops every bucket of a rule that is gone, zeroes its overflow buckets and counters and clears its name, so that
 * its id can be used again. -EBUSY while it is in force. */
int lg_kern_rule_forget(struct lg_kern *kern, uint32_t rule_id);

/* ---- buckets ---- */

/* Runs n operations (any number; batches of LG_OPS_MAX) through `grant` or `collect`. Results are in each op. */
int lg_kern_grant(struct lg_kern *kern, struct lg_op *ops, size_t n);
int lg_kern_collect(struct lg_kern *kern, struct lg_op *ops, size_t n);

/*
 * Calls fn for every key in `buckets`, then for every overflow bucket ever used (granted, spent or denied not 0). Stops
 * when fn returns other than 0 and returns that. A snapshot without locks: each value is one moment's, the whole is
 * not.
 */
int lg_kern_each_bucket(struct lg_kern *kern,
			int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg);

/*
 * Calls fn for what each CPU refused of a key and did not book yet: the cost is missing in `denied_tok` of that key's bucket or slot, but
 * for what was booked since. Stops as lg_kern_each_bucket() does. lg_kern_collect() books all of it before it runs its operations.
 */
int lg_kern_each_denied(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key, uint64_t tok), void *arg);

/* ---- lines ---- */

/* Lines that rules may have; 0 when the table is off. */
int lg_kern_lines_max(struct lg_kern *kern, uint32_t *ret_n_lines);
/*
 * Calls fn for every live slot of every rule that has lines: its key, and a bucket of kind LG_BUCKET_LINE as of now_ns with the rule's
 * numbers, full_at_vt (unwrapped), denied_tok, and as spent_tok what has not come back yet. Slots of keys that sent one packet so far,
 * whose names nobody noted, are only counted, in *ret_unnoted. Stops as lg_kern_each_bucket() does.
 */
int lg_kern_each_line(struct lg_kern *kern, uint64_t now_ns,
		      int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg, uint64_t *ret_unnoted);
/* How many slots of a rule are live. */
int lg_kern_lines_count(struct lg_kern *kern, const struct lg_rule *rule, uint64_t now_ns, uint32_t *ret_live);

/* Calls fn for the key of each log, among them those with LG_FORM_OVERFLOW. Stops as lg_kern_each_bucket() does. */
int lg_kern_each_log(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key), void *arg);
/* The log of a key, or of its rule's keys without one: -ENOENT when there is none. */
int lg_kern_log_read(struct lg_kern *kern, const struct lg_key *key, struct lg_log *ret);

/* ---- lists ---- */

/* A prefix with all that is said about it. */
struct lg_list_row {
	struct lg_list_key key;
	struct lg_list_entry entry;
};

struct lg_list_key lg_list_key_of(const struct lg_prefix *prefix);
void lg_list_prefix_of(const struct lg_list_key *key, struct lg_prefix *ret);
/* The operator's verdict while it holds, else that of the file; LG_LIST_NONE: the next shorter prefix decides. */
enum lg_list_verdict lg_list_entry_verdict(const struct lg_list_entry *entry, uint64_t now_ns);
/* All of them, in the order of their keys' bytes. *ret_rows is to be freed. */
int lg_kern_lists_read(struct lg_kern *kern, struct lg_list_row **ret_rows, size_t *ret_n);
/*
 * Makes what the file says of each prefix (entry.of_file) what `wanted` says, and nothing of those that it lacks; the operator's stays.
 * Only what differs is written, what is new before what goes. -E2BIG, with nothing done, if there is no room; -EBUSY as below.
 */
int lg_kern_lists_load(struct lg_kern *kern, const struct lg_list_row *wanted, size_t n);
/* The operator's verdict on a prefix; LG_LIST_NONE takes it back, and is -ENOENT if there is none. until_ns 0: for good.
 * All that change lists, processes too, take turns: -EBUSY when another one does not end. */
int lg_kern_list_set(struct lg_kern *kern, const struct lg_list_key *key, enum lg_list_verdict verdict, uint64_t until_ns);
/* The row that decides about an address in packets of this family (4, 6). 1, or 0: none does. */
int lg_kern_list_find(struct lg_kern *kern, const uint8_t addr[16], int family, uint64_t now_ns, struct lg_list_row *ret_row);
/* Takes away what the operator's time is over of. */
int lg_kern_lists_reap(struct lg_kern *kern, uint64_t now_ns);

/* ---- bans ---- */

/* Calls fn for each ban, those that are over too. Stops as lg_kern_each_bucket() does. */
int lg_kern_each_ban(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key, const struct lg_ban *ban), void *arg);
/* By hand, in place of what was there. */
int lg_kern_ban_set(struct lg_kern *kern, const struct lg_key *key, uint64_t now_ns, uint64_t until_ns);
/* -ENOENT when there is none. */
int lg_kern_ban_remove(struct lg_kern *kern, const struct lg_key *key);
/* Takes away bans of rules that are not in the set or ban nobody, and those that no later ban would be counted with. */
int lg_kern_bans_reap(struct lg_kern *kern, const struct lg_ruleset *set, uint64_t now_ns);

/* ---- connections ---- */

/* When connections are over of which nothing more is heard. */
int lg_kern_conn_terms_set(struct lg_kern *kern, const struct lg_conn_terms *terms);
/* Runs n operations (any number; batches of LG_OPS_MAX) through `track`; results are in each op. Packets look for what is over themselves
 * when nobody ran any, none is one, for LG_CONN_SWEEP_NS. */
int lg_kern_track(struct lg_kern *kern, struct lg_conn_op *ops, size_t n);
/* An operation on the entry of a key; what else it needs is 0. */
void lg_conn_op_make(const struct lg_conn_key *key, uint32_t code, struct lg_conn_op *ret);
/* Calls fn for each entry, as it is at that moment. Stop as lg_kern_each_bucket() does. */
int lg_kern_each_conn(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn), void *arg);
int lg_kern_each_initiated(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_conn_key *key, const struct lg_initiated *side),
			   void *arg);
/* How many there may be. */
int lg_kern_conns_max(struct lg_kern *kern, uint32_t *ret_max);

/* ---- events ---- */

/* Readable when key events wait. */
int lg_kern_events_fd(struct lg_kern *kern);
/* Calls fn for each waiting event, up to some thousands: then the fd stays readable. Returns their number. */
int lg_kern_events_read(struct lg_kern *kern, void (*fn)(void *arg, const struct lg_event *event), void *arg);

/* ---- words and counters ---- */

int lg_kern_control_read(struct lg_kern *kern, struct lg_control *ret);
/* Sets the two policy words; what packets read changes at once. */
int lg_kern_control_set(struct lg_kern *kern, bool unparsable_drop, bool reachable, const uint8_t nat64[16]);
bool lg_kern_bypass_is_on(const struct lg_bypass *bypass, uint64_t now_ns);
int lg_kern_bypass_read(struct lg_kern *kern, struct lg_bypass *ret);
int lg_kern_bypass_set(struct lg_kern *kern, const struct lg_bypass *bypass);
int lg_kern_shared_read(struct lg_kern *kern, struct lg_shared *ret);
/* Sums over CPUs. */
int lg_kern_verdicts_read(struct lg_kern *kern, struct lg_count ret[_LG_HOOK_N][LG_REASON_SLOTS]);
/* Fragments behind the first of their packet, which have no ports: by hook, from the start. */
int lg_kern_later_fragments_read(struct lg_kern *kern, uint64_t ret[_LG_HOOK_N]);
int lg_kern_rule_counts_read(struct lg_kern *kern, uint32_t rule_id, struct lg_rule_counts *ret);
/* Entries of `buckets`: how many there may be and (by walking) how many there are. */
int lg_kern_keys_count(struct lg_kern *kern, uint32_t *ret_max, uint32_t *ret_used);

/* ---- interfaces ---- */

#define LG_QDISC_LEN 16
/* Are all packets that leave by an interface queued by fq? 1, or 0 with the name of another discipline, or -errno. */
int lg_qdisc_is_fq(const char *ifname, char ret_other[LG_QDISC_LEN]);

/* Watches links over netlink: fn(arg, ifname, ifindex, up) for each interface that appears or comes up (up), or goes
 * (not up), also under its old name when it is renamed. The first read delivers all that are there. The fd is
 * readable when news wait; lg_links_read delivers them, after an overrun of the socket lists all again, and returns
 * their number. */
struct lg_links;
int lg_links_new(void (*fn)(void *arg, const char *ifname, uint32_t ifindex, bool up), void *arg,
		 struct lg_links **ret_links);
int lg_links_fd(const struct lg_links *links);
int lg_links_read(struct lg_links *links);
/* Grows whenever who gets packets from whom has changed. */
uint32_t lg_links_changes(const struct lg_links *links);
/*
 * Calls fn for every interface whose packets an interface gets, through others too: the ports of a bridge, bond or team, the
 * device of a VLAN. Stops when fn returns true and returns that.
 */
bool lg_links_below(struct lg_links *links, uint32_t ifindex, bool (*fn)(void *arg, const char *ifname), void *arg);
/* Calls fn for every interface that was told and is not gone. Returns how many there are. fn must not read the news. */
int lg_links_each(struct lg_links *links, void (*fn)(void *arg, const char *ifname, uint32_t ifindex), void *arg);
struct lg_links *lg_links_free(struct lg_links *links);
LG_CLEANUP(struct lg_links, lg_links_free)
