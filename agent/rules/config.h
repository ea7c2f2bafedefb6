/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The configuration file of a daemon (`leasegated node` or `region`), as a model. Read once at start. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "base/text.h"
#include "leasegate/abi.h"
#include "rules/document.h"

#define LG_INTERFACES_MAX 64	/* entries of the list */
#define LG_ATTACH_MAX 1024	/* interfaces that a node attaches, those that fit patterns among them */
#define LG_IFNAME_LEN 16
#define LG_IFPATTERN_LEN 64
#define LG_ADDRESS_LEN 128	/* host:port, [v6]:port */

enum lg_xdp_choice { LG_XDP_OFF, LG_XDP_NATIVE, LG_XDP_GENERIC, LG_XDP_AUTO };

struct lg_interface {
	char name[LG_IFPATTERN_LEN];
	bool is_pattern;	/* stands for every interface whose name fits */
	bool wait;		/* the node starts without it */
	bool require_native;
	bool shared;		/* XDP through libxdp's dispatcher */
	enum lg_xdp_choice xdp;	/* default off: attaching XDP resets some NICs */
	bool tc;		/* ingress; default on unless xdp is on: two hooks in one packet's way would charge twice */
	bool tc_egress;		/* default off */
};

struct lg_region_def {
	char name[LG_NAME_LEN];
	char address[LG_ADDRESS_LEN];	/* of its lease service */
	uint32_t hosts;		/* declared hosts of the region: H of the shares */
	bool is_draining;	/* no key has its home there */
};

struct lg_config {
	char instance[LG_NAME_LEN];	/* default "default" */
	char name[LG_NAME_LEN];		/* of this host (holder); default the host name. Node only */
	char region[LG_NAME_LEN];	/* this daemon's region; "" for a node without upstream */
	uint64_t regions_version;
	uint64_t far_rtt_ns;	/* largest round trip between two regions */
	size_t n_regions;
	struct lg_region_def regions[LG_REGIONS_MAX];
	char upstream[LG_ADDRESS_LEN];	/* node: its region's lease service; default the address in the list; "" none */
	char listen[LG_ADDRESS_LEN];	/* region: lease service; default the address in the list */
	char advertise[LG_ADDRESS_LEN];	/* region: this very server, for hosts and other regions; default `listen` */
	struct {			/* all "": clear text */
		char ca[256];
		char certificate[256];
		char key[256];
	} tls;
	char secret_file[256];		/* "": none */
	char metrics[LG_ADDRESS_LEN];	/* default 127.0.0.1:9464 (node), 127.0.0.1:9465 (region); "off" disables */
	char rules[256];		/* path of the rules file, relative to the configuration file; "" only with rules_from_region */
	bool rules_from_region;		/* rules are those of the region's store, not of the file */
	size_t n_labels;		/* node */
	struct lg_label labels[LG_LABELS_MAX];
	uint16_t ssh_port;		/* node: sessions there are not cut off by a version of the region's rules */
	char state_dir[256];		/* default /var/lib/leasegate/<instance> */
	char run_dir[256];		/* default /run/leasegate/<instance> */
	char store[16];			/* region: "sqlite" (default), "memory" or "etcd" */
	struct {
		size_t n_endpoints;
		char endpoints[LG_ETCD_ENDPOINTS_MAX][LG_ADDRESS_LEN];
		char prefix[256];
		char user[LG_NAME_LEN];		/* "": without */
		char password_file[256];
		bool tls;
	} etcd;
	uint64_t journal_bytes;		/* region: most that the journal takes; 0: there is none */
	bool journal_sync;		/* region: within a second on the disk */
	uint32_t max_keys;		/* node: entries of the table of keys, default LG_KEYS_DEFAULT */
	uint32_t line_keys;		/* node: slots of the table of lines, default LG_LINE_KEYS_DEFAULT; 0: no such table */
	uint32_t log_keys;		/* node: entries of the table of logs, default LG_LOGS_DEFAULT */
	uint32_t max_rules;		/* node: ids for rules, default LG_RULES_DEFAULT */
	uint32_t max_conns;		/* node: entries of the tables of connections and of who began, default LG_CONNS_DEFAULT */
	struct lg_conn_terms conn_terms; /* node */
	bool unparsable_drop;
	uint8_t nat64[16];		/* node: a /96; all 0: none */
	size_t n_interfaces;
	struct lg_interface interfaces[LG_INTERFACES_MAX];
	/* test only: `test: {dial_via: {name: address}}` dials a region by another address (a delay relay) */
	size_t n_dial_via;
	struct {
		char name[LG_NAME_LEN];
		char address[LG_ADDRESS_LEN];
	} dial_via[LG_REGIONS_MAX];
};

/* Which daemon reads: keys that make no sense for it are errors, required ones are checked. */
enum lg_config_role { LG_CONFIG_NODE, LG_CONFIG_REGION };

/* Reads a file. On error -EINVAL (text) or another errno (cannot read), with *c filled; *ret_config is untouched then. */
int lg_config_read(const char *path, enum lg_config_role role, struct lg_config *ret_config, struct lg_complaint *c);
/* The same from memory; `name` stands for the file in complaints and its folder for relative paths. */
int lg_config_parse(const char *text, size_t len, const char *name, enum lg_config_role role,
		    struct lg_config *ret_config, struct lg_complaint *c);

/* Only what stands under `regions`, in a text that has nothing else; the rest of the configuration is left as it is. */
int lg_config_regions_parse(const char *text, size_t len, const char *name, struct lg_config *config, struct lg_complaint *c);
/* The same list by its text, as lg_config_regions_parse() reads it. */
void lg_config_regions_format(const struct lg_config *config, struct lg_text *out);
/*
 * Takes the list of `from` in place of its own; what was the address of its own region there is now that of the new list. -EINVAL when the
 * own region is not in it.
 */
int lg_config_regions_take(struct lg_config *config, const struct lg_config *from, struct lg_complaint *c);

/* The same for lists of the same regions in any order, each draining or not as in the other. */
uint64_t lg_config_regions_names(const struct lg_config *config);

/* NULL: it is not in the list. */
const struct lg_region_def *lg_config_region(const struct lg_config *config, const char *name);
/* The address to dial for a region: dial_via if listed there, else that of the list; NULL if the region is unknown. */
const char *lg_config_dial(const struct lg_config *config, const char *region);
/* The entry that an interface of this name belongs to: its own, else the first pattern that fits; NULL for none. */
const struct lg_interface *lg_config_interface(const struct lg_config *config, const char *ifname);
/* Hosts that the own region may have; 1 without one. */
uint32_t lg_config_own_hosts(const struct lg_config *config);
/* Sum of hosts over the list. */
uint32_t lg_config_hosts(const struct lg_config *config);
