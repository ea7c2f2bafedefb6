/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What the files of kern/ share among themselves; nobody outside includes it. Same thread as kern.h. */
#pragma once

#include <stdarg.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kern/kern.h"

#define LG_ROOT_LEN 256	 /* longest root path with its NUL */
#define LG_KPATH_LEN 512 /* root + instance + links + escaped interface name + hook: at most 430 */

/* Every map the agent uses. */
enum lg_map {
	LG_MAP_BYPASS,
	LG_MAP_BUCKETS,
	LG_MAP_PRODUCTS,
	LG_MAP_WIDE_KEYS,
	LG_MAP_INTERFACES,
	LG_MAP_LISTS,
	LG_MAP_BANS,
	LG_MAP_STRIKES,
	LG_MAP_OVERFLOW,
	LG_MAP_LINES,
	LG_MAP_LINE_KEYS,
	LG_MAP_LOGS,
	LG_MAP_RULES,
	LG_MAP_CLASSIFIERS,
	LG_MAP_RULE_NAMES,
	LG_MAP_VERDICTS,
	LG_MAP_LATER_FRAGMENTS,
	LG_MAP_RULE_COUNTS,
	LG_MAP_EVENTS,
	LG_MAP_OPS,
	LG_MAP_CHECKS,
	LG_MAP_SHARED,
	LG_MAP_DENIALS,
	LG_MAP_CONNS,
	LG_MAP_INITIATED,
	LG_MAP_CONN_TERMS,
	LG_MAP_CONN_OPS,
	LG_MAP_TEST_CLOCK,
	LG_MAP_CONTROL,
	_LG_MAP_N
};

/* Programs: the entries of the hooks come first, so that enum lg_hook indexes them. */
enum lg_prog {
	LG_PROG_XDP = LG_HOOK_XDP,
	LG_PROG_TC_INGRESS = LG_HOOK_TC_INGRESS,
	LG_PROG_TC_EGRESS = LG_HOOK_TC_EGRESS,
	LG_PROG_GRANT,
	LG_PROG_COLLECT,
	LG_PROG_TRACK,
	LG_PROG_CHECK,
	LG_PROG_XDP_SHARED, /* the entry of XDP in libxdp's dispatcher */
	_LG_PROG_N
};

/* An attachment this process made, so that others can be told as adopted. */
struct lg_made {
	char ifname[16];
	enum lg_hook hook;
};

struct nlmsghdr;
struct ring_buffer;

struct lg_kern {
	char instance[LG_NAME_LEN];
	char root[LG_ROOT_LEN];
	char dir[LG_KPATH_LEN];	  /* <root>/<instance> */
	int lock_fd;		  /* the instance's directory, locked by a daemon or `detach`; -1 for readers */
	uint32_t n_dirs_made;	  /* of the path `dir`, counted from its end: taken away again when opening fails */
	char maps_dir[16];	  /* v<ABI>, or another name while a takeover is under way (versions.c) */
	bool vdir_made;		  /* it was made by this process */
	uint32_t unsettled_abi;	  /* not 0: our maps stand beside those of this version until lg_kern_settle() */
	int map_fd[_LG_MAP_N];	  /* all open */
	uint32_t max_rules;	  /* ids that the maps have room for */
	struct lg_control *control; /* mapped when first asked for; see lg_control_words() */
	int prog_fd[_LG_PROG_N];  /* -1: not loaded; all are when only pins were opened */
	struct lg_made *made;
	size_t n_made;
	struct ring_buffer *ring; /* made when first asked for */
	void (*event_fn)(void *arg, const struct lg_event *event);
	void *event_arg;	  /* both are set while events are read */
	uint32_t n_events;
};

/* ---- print.c: what libbpf says ---- */

/* What libbpf printed while it was listened to: the first warning, the kernel's netlink message, the verifier's last
 * line. */
struct lg_print {
	char first[160];
	char kernel[160];
	char verifier[160];
};

/* Sends libbpf's lines to lg_debug() from now on. */
void lg_print_hook(void);
int lg_print_line(enum libbpf_print_level level, const char *fmt, va_list ap);
/* Notes them in *print, too, until lg_print_end(). The last listener alone hears. */
void lg_print_begin(struct lg_print *print);
void lg_print_end(void);

/* ---- why.c: from an errno to a kind and a text ---- */

/* What was tried; each asks for other capabilities. */
enum lg_why_what { LG_WHY_LOAD, LG_WHY_ATTACH, LG_WHY_PIN };

/* The kind of a failure of `what` with the negative errno `err`; writes "<what>: <reason>" to *c. `print` may be
 * NULL. */
enum lg_kern_fail lg_why(enum lg_why_what what, const char *object, int err, const struct lg_print *print,
			 struct lg_complaint *c);

/* Capabilities within a user namespace do not count for bpf(). */
bool lg_in_user_namespace(void);
/* Whether some system calls are answered by a filter (probe.c). */
bool lg_has_seccomp_filter(void);

/* ---- pins.c: paths and what is pinned there ---- */

const char *lg_map_name(enum lg_map map);

/* A kern without descriptors, its paths set; the names are checked. */
int lg_kern_new(const char *instance, const char *root, struct lg_kern **ret_kern, struct lg_complaint *c);
/* The same where the root lies, or would be made, on a bpf file system; else -ENODEV and how to mount one. */
int lg_pins_new(const char *instance, const char *root, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail, struct lg_complaint *c);
/* Makes <root>/<instance> where missing and locks it. -EBUSY when another process holds it. */
int lg_pins_make(struct lg_kern *kern, enum lg_kern_fail *ret_fail, struct lg_complaint *c);
/* Locks an instance that exists: 0, -ENOENT or -EBUSY. */
int lg_pins_lock(struct lg_kern *kern);
/* Takes away the directories that lg_pins_make() and lg_kern_open() made, as far as they are empty. */
void lg_pins_unmake(struct lg_kern *kern);

/* <dir>/<maps_dir>/<map>, <dir>/links, <dir>/links/<ifname>-<hook>. */
void lg_pins_map_path(const struct lg_kern *kern, const char *map, char *ret, size_t len);
void lg_pins_sub_path(const struct lg_kern *kern, const char *sub, char *ret, size_t len);
void lg_pins_link_path(const struct lg_kern *kern, const char *ifname, enum lg_hook hook, char *ret, size_t len);
/* From the name of a pin back to its parts; false when it is none of ours. `ret_ifname` has 16 bytes. */
bool lg_pins_link_parse(const char *name, char *ret_ifname, enum lg_hook *ret_hook);
/* mkdir, existing ones included. */
int lg_pins_mkdir(const char *path);

/*
 * Calls fn(arg, path, name) for each entry of a directory, over a copy of the list, so that fn may remove it. A missing
 * directory has none. Stops at the first result other than 0 and returns it.
 */
int lg_pins_each(const char *dir, int (*fn)(void *arg, const char *path, const char *name), void *arg);
/* The ABI version of a directory of maps, "v<N>" or one of a takeover, or 0. */
uint32_t lg_pins_abi(const char *name);
/* For lg_pins_each(): removes the entry, if it is still there. */
int lg_pins_unlink(void *arg, const char *path, const char *name);
/* Removes a directory of pins and all in it; 0 also where there is none. */
int lg_pins_clear(const char *path);

/* ---- versions.c: directories of maps, by the build that made them ---- */

struct lg_versions {
	bool has_own;	     /* v<ABI> of this build */
	uint32_t other_abi;  /* the highest other version, 0: none */
	char begun;	     /* 'm' or 'd': a takeover by this build was cut short (for lg_versions_look(): by any) */
};
/* What is there, after what a process that died had begun was ended or undone, as far as possible. Wants the lock. */
int lg_versions_survey(struct lg_kern *kern, struct lg_versions *ret);
/* What is there; changes nothing. */
int lg_versions_look(const struct lg_kern *kern, struct lg_versions *ret);
/* From now on maps are pinned beside those in force; undo removes them again. */
void lg_versions_begin(struct lg_kern *kern, char letter);
void lg_versions_undo(struct lg_kern *kern);
/* Ours count from now on; the old ones wait for lg_versions_purge(), which removes all directories of maps but ours. */
int lg_versions_commit(struct lg_kern *kern, uint32_t from_abi);
int lg_versions_purge(struct lg_kern *kern);

/* ---- interfaces.c ---- */

/* The classes of all interfaces that are there, under the set that is going to be entry `index` of map `rules`. */
int lg_interfaces_prepare(struct lg_kern *kern, const struct lg_ruleset *set, uint32_t index);

/* ---- link.c: pinned bpf_links, for XDP and tcx ---- */

/* What the kernel says about a link. */
struct lg_link_facts {
	uint32_t id;
	uint32_t prog_id;
	uint32_t ifindex; /* 0: its interface is gone */
	enum lg_attach_mode mode; /* LG_MODE_NONE: not attached in this network namespace */
};

/* What the kernel says about an interface of this network namespace. */
struct lg_iface_facts {
	uint32_t native_id; /* programs at XDP, whoever put them there; 0: none */
	uint32_t generic_id;
	uint32_t offloaded_id;
	uint32_t mtu_bytes;
};

int lg_iface_read(uint32_t ifindex, struct lg_iface_facts *ret);

/* Opens a pinned link and reads what it is; -ENOENT, -EMEDIUMTYPE when the pin is no link of this hook. */
int lg_link_open(const char *path, enum lg_hook hook, struct lg_link_facts *ret_facts, int *ret_fd);
/* Detaches at once (also when somebody else holds the link) and removes the pin. Returns 1, or 0 when it was dead
 * already. */
int lg_link_remove(const char *path, int fd);
int lg_link_create_xdp(int prog_fd, uint32_t ifindex, enum lg_attach_mode mode, int *ret_fd);
int lg_link_create_tcx(int prog_fd, uint32_t ifindex, enum lg_hook hook, int *ret_fd);
/* 1 when the kernel has tcx, 0 when not, or negative errno. */
int lg_link_has_tcx(uint32_t ifindex);
/* The ids of the programs at a hook by tcx, first to last, at most `max`. Returns their number; -EINVAL without tcx. */
int lg_link_tcx_programs(uint32_t ifindex, enum lg_hook hook, uint32_t *ret_ids, size_t max);
/* The name of a loaded program, or "" where the kernel does not tell (it wants CAP_SYS_ADMIN). */
void lg_prog_name(uint32_t prog_id, char ret_name[16]);

/* ---- clsact.c: the older way at TC, without links ---- */

/* Attaches or replaces our filter at a hook; fills *ret_prog_id. Returns 0, 1 (ours was there before), or negative
 * errno with *c. */
int lg_clsact_attach(struct lg_kern *kern, const char *ifname, uint32_t ifindex, enum lg_hook hook,
		     uint32_t *ret_prog_id, enum lg_kern_fail *ret_fail, struct lg_complaint *c);
/* Removes the filters of a record (<dir>/links/<ifname>-<hook> as a directory) and the record. Returns how many
 * went. */
int lg_clsact_remove(struct lg_kern *kern, const char *path, enum lg_hook hook);
/* Puts this process's program into each filter of a record; a record whose filters are gone goes, too. */
int lg_clsact_update(struct lg_kern *kern, const char *path, enum lg_hook hook);
/* The interface at which a record's filter is found, and its program: 1, 0 when there is none. */
int lg_clsact_query(struct lg_kern *kern, const char *path, enum lg_hook hook, uint32_t *ret_ifindex,
		    uint32_t *ret_prog_id);
/* Calls fn, which returns MNL_CB_OK, with each message of a list of the filters at a hook of an interface, whoever's they are. */
int lg_clsact_each(uint32_t ifindex, enum lg_hook hook, int (*fn)(const struct nlmsghdr *nlh, void *arg), void *arg);
/* Whether the pin of this path is such a record. */
bool lg_clsact_is_record(const char *path);

/* ---- shared.c: XDP beside programs of others, through libxdp ---- */

/*
 * Attaches at an interface, or adopts and renews what is there; `path` is the pin that a link would have. Returns 0, 1 (ours was there,
 * with the same code), or negative errno with *print filled, or *c when it is not the kernel that says no.
 */
int lg_shared_attach(struct lg_kern *kern, const char *path, uint32_t ifindex, enum lg_attach_mode mode, struct lg_print *print,
		     struct lg_complaint *c);
/* Puts this process's program in the place of what an earlier one has by this record, if there is any and it is another. */
int lg_shared_renew(struct lg_kern *kern, const char *path);
/* Detaches what a record (a directory at `path`) says, and removes it. Returns how many went. */
int lg_shared_remove(struct lg_kern *kern, const char *path);
/* 1 with ifindex, mode and prog_id filled, or 0. */
int lg_shared_query(struct lg_kern *kern, const char *path, struct lg_attachment *ret);

/* ---- made.c ---- */

bool lg_made_here(const struct lg_kern *kern, const char *ifname, enum lg_hook hook);
/* Want of memory only makes a new attachment look like an old one. */
void lg_made_add(struct lg_kern *kern, const char *ifname, enum lg_hook hook);
void lg_made_drop(struct lg_kern *kern, const char *ifname, enum lg_hook hook);

/* ---- load.c ---- */

/* The object of this build, not loaded. */
int lg_object_open(struct bpf_object **ret_obj);

/* ---- open_pins.c ---- */

/* How many rules the open maps have room for. */
int lg_max_rules_read(struct lg_kern *kern);

/* ---- program.c ---- */

const char *lg_program_name(enum lg_prog prog);
/* Whether this process has the instance's programs, not its pins alone. */
bool lg_prog_may_load(const struct lg_kern *kern);
/* The object, not loaded, of one program, with the maps of the instance. */
int lg_prog_object(const struct lg_kern *kern, enum lg_prog prog, struct bpf_object **ret_obj);
/* A program of this process, which keeps the descriptor; loaded now if it is needed for the first time, `print` (or NULL) listening. */
int lg_prog_fd(struct lg_kern *kern, enum lg_prog prog, struct lg_print *print);

/* ---- adopt.c ---- */

/* Replaces the program of everything attached by this one's; pins of links that died are removed. */
int lg_attach_update_all(struct lg_kern *kern);
/* How many links and filters of the instance are attached anywhere; the program of one of them is left in
 * *ret_prog_id. */
int lg_attach_count(struct lg_kern *kern, uint32_t *ret_prog_id);

/* ---- counters.c ---- */

/* The words of `control` as packets read them, each to be stored by itself. */
int lg_control_words(struct lg_kern *kern, struct lg_control **ret_words);

/* ---- ops.c ---- */

/*
 * Calls fn for each entry of a hash map; deleting entries meanwhile is allowed. Stops at the first result other than 0
 * and returns it.
 */
int lg_map_walk(int fd, size_t key_bytes, size_t value_bytes,
		int (*fn)(void *arg, const void *key, const void *value), void *arg);
/* Calls fn for each key of `buckets` and `products`, until it returns other than 0. */
int lg_buckets_walk(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg);

/* ---- conns.c ---- */

/* Connections are no longer charged to a rule that no packet meets any more. */
int lg_conns_forget(struct lg_kern *kern, uint32_t rule_id);

/* ---- lines.c ---- */

/* Empties a region of `lines` that belongs to no rule in force. */
int lg_lines_zero(struct lg_kern *kern, uint32_t first_line, uint32_t n_lines);

/* Waits until no packet is being decided by what was in force before the call. */
int lg_kern_grace(void);
