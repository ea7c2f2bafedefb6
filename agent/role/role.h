/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The roles of leasegated, and what they share: folders, the lock of an instance, its life. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "net/http_keeper.h"
#include "rules/config.h"
#include "rules/rule.h"
#include "rules/secret.h"

struct lg_rules_doc;
struct lg_source;

/* Exit codes of every command. */
enum lg_exit {
	LG_EXIT_OK = 0,
	LG_EXIT_REFUSED = 1,
	LG_EXIT_USAGE = 2,
	LG_EXIT_PRIVILEGE = 3,
	LG_EXIT_FEATURE = 4,
	LG_EXIT_NO_BPFFS = 5,
};

struct lg_role_args {
	const char *config_path;
	const char *rules_path;	/* NULL: as the configuration says */
	const char *instance;	/* NULL: as the configuration says */
	bool migrate;		/* node: carry over what maps of another layout hold */
	bool discard_state;	/* node: begin anew in place of such maps */
	bool test_clock;
};

struct lg_role {
	const char *name;
	const char *help;
	int (*run)(const struct lg_role_args *args);	/* until told to stop; an enum lg_exit */
};

/* Ends with name NULL. */
extern const struct lg_role lg_roles[];

int lg_node_run(const struct lg_role_args *args);
int lg_server_run(const struct lg_role_args *args);

/* In the state folder: a list of regions that was made at run time, as the node and the server each keep it. */
#define LG_REGIONS_KEPT(role) ((role) == LG_CONFIG_NODE ? "regions.node.yaml" : "regions.region.yaml")

/* Configuration and, unless ret_rules is NULL, rules as the arguments say; logs the complaint and returns false on failure. */
bool lg_role_read(const struct lg_role_args *args, enum lg_config_role role, struct lg_config *ret_config,
		  struct lg_rules **ret_rules);
/* Logs what may surprise the writer of the rules. */
void lg_role_warn(const struct lg_rules *rules, const struct lg_config *config);
/*
 * With rules_from: region and no version yet: the rules of the file, if one is written; none with the reason in `why` if it cannot be used,
 * which keeps nobody from starting. -ENOMEM.
 */
int lg_role_rules_first(const struct lg_config *config, char why[512], struct lg_rules **ret_rules, struct lg_complaint *c);
/* What a reload says when rules are the region's and there is no file to read: 1. */
int lg_role_no_reload(const struct lg_config *config, const struct lg_rules_doc *doc, struct lg_complaint *ret_note);
/* The process that starts HTTP processes, unless there is to be none: first of all, before a secret is read. NULL then. */
int lg_role_keeper_start(const struct lg_config *config, struct lg_http_keeper **ret_keeper, struct lg_complaint *c);
/* What keys of secret rules are hashed with, if the configuration says; tells of a file that others may read. */
int lg_role_secret_read(const struct lg_config *config, struct lg_secret *ret_secret, struct lg_complaint *c);
/* Arms a timer for when an override ends, the next time that is worth a look; doc may be NULL. */
void lg_role_await_end(struct lg_source *ender, const struct lg_rules_doc *doc);
/* For struct lg_http_handlers. */
void lg_role_http_trouble(void *arg, const char *text);
/* What to end with after a negative errno from anything but the kernel's part: folders, sockets and ports ask for privileges, too. */
enum lg_exit lg_role_exit(int err);
/* Makes run_dir and state_dir, takes <run_dir>/<role>.lock. The lock goes with the descriptor. */
int lg_role_lock(const struct lg_config *config, const char *role, int *ret_fd, struct lg_complaint *c);
/* What a host remembers of its instance's maps, in <state_dir>/life. */
struct lg_life {
	uint64_t incarnation;	/* grows each time maps are made anew, and is at least the wall clock's seconds then, so that a lost file
				 * never leads back */
	uint64_t made_ns;	/* when they were made, CLOCK_BOOTTIME: maps do not outlive a boot */
	bool had_earlier;	/* there were others before: what was spent under those is forgotten */
};
/* false when there is none, or none that can be read. */
bool lg_life_read(const char *path, struct lg_life *ret_life);
/* Durable when it returns. */
int lg_life_store(const char *path, const struct lg_life *life, struct lg_complaint *c);
