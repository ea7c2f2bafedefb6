/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The operator's tool: one file per command, listed in table.c. What the kernel has is read from the pins, daemon or not; what a daemon
 * knows is asked of it over its socket. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "kern/kern.h"

enum lg_ctl_exit {
	LG_CTL_OK = 0,
	LG_CTL_REFUSED = 1,
	LG_CTL_USAGE = 2,
	/* and those of enum lg_kern_fail */
};

struct lg_remote;

struct lg_ctl {
	const char *instance;
	const char *run_dir;	/* /run/leasegate/<instance> unless --run-dir */
	bool json;
	struct lg_remote *remote;	/* the region's server is asked there; NULL: it is one of this machine */
	const char *server;		/* and has this address */
};

struct lg_ctl_command {
	const char *name;
	const char *arguments;	/* for the usage line */
	const char *help;	/* one line */
	const char *details;	/* what --help prints below, or NULL */
	int (*run)(const struct lg_ctl *ctl, int argc, char **argv);	/* argv[0] is the command; an exit code */
};
extern const struct lg_ctl_command lg_ctl_commands[];

int lg_ctl_status(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_keys(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_rules(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_regions(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_leases(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_usage_run(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_curve(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_explain(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_preflight(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_reload(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_lists(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_bans(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_bypass(const struct lg_ctl *ctl, int argc, char **argv);
int lg_ctl_detach(const struct lg_ctl *ctl, int argc, char **argv);

/* ---- shared by the commands (util.c) ---- */

/* One line on stderr, and with --json {"error": ...} on stdout. Returns code. */
__attribute__((format(printf, 3, 4))) int lg_ctl_fail(const struct lg_ctl *ctl, int code, const char *fmt, ...);
/* "leasegate COMMAND: unknown argument X" and LG_CTL_USAGE. */
int lg_ctl_usage(const struct lg_ctl *ctl, const char *command, const char *argument);
/* The instance's pins; on failure says why and returns an exit code, else 0. */
int lg_ctl_pins(const struct lg_ctl *ctl, struct lg_kern **ret_kern);
/* Asks a daemon ("node" or "region") of the instance. 0; 1 when none is running; negative errno with *c filled. */
int lg_ctl_ask(const struct lg_ctl *ctl, const char *role, const char *cmd, json_t **ret_reply, struct lg_complaint *c);
/* The same for a request that says more. */
int lg_ctl_ask_for(const struct lg_ctl *ctl, const char *role, const json_t *request, json_t **ret_reply, struct lg_complaint *c);
/*
 * Asks a region's server what only one can answer: why says so where there is none, changes that nothing was changed when it refuses. A reply
 * that says it is well, or an exit code.
 */
int lg_ctl_ask_server(const struct lg_ctl *ctl, const json_t *request, const char *why, bool changes, json_t **ret_reply);
/* Of a reply: a text, "" when there is none; a number. */
const char *lg_ctl_text(const json_t *object, const char *key);
json_int_t lg_ctl_int(const json_t *object, const char *key);
/* Who runs this, for records: who called sudo, else the user. */
const char *lg_ctl_who(void);
/* Prints and drops the reference. */
int lg_ctl_print(json_t *value);
/* Whether bypass is on, as JSON, and that as a line (bypass.c). */
json_t *lg_ctl_bypass_json(const struct lg_bypass *bypass);
void lg_ctl_bypass_print(const json_t *bypass);
const char *lg_ctl_reason_label(unsigned reason);
/* Name of a rule id: from the table of names in the kernel, "rule <id>" if it has none. */
const char *lg_ctl_rule_name(const struct lg_rule_name *names, uint32_t rule_id, char *buf, size_t len);
/* 1234567 -> "1,234,567", for tables. */
const char *lg_ctl_number(uint64_t value, char *buf, size_t len);
