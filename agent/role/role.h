/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The roles of leasegated, and what they share: folders, the lock of an instance, numbers that only grow. */
#pragma once

#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "rules/config.h"
#include "rules/rule.h"

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

/* Configuration and rules as the arguments say; logs the complaint and returns false on failure. */
bool lg_role_read(const struct lg_role_args *args, enum lg_config_role role, struct lg_config *ret_config,
		  struct lg_rules **ret_rules);
/* Makes run_dir and state_dir, takes <run_dir>/<role>.lock. The lock goes with the descriptor. */
int lg_role_lock(const struct lg_config *config, const char *role, int *ret_fd, struct lg_complaint *c);
/* The next value of a number kept in a file that only grows: one more than stored, and at least the wall clock's seconds, so that a lost
 * file never leads back. lg_counter_store() makes it durable. */
uint64_t lg_counter_next(const char *path);
int lg_counter_store(const char *path, uint64_t value, struct lg_complaint *c);
