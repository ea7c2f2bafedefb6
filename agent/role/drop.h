/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a daemon gives up once it has started: capabilities, core dumps, system calls that its work does not need. For ever. */
#pragma once

#include "rules/config.h"

/* A list of files and folders that the daemon needs while it runs, ended by NULL; "" stands for none. */
struct lg_drop_paths {
	const char *read[8];
	const char *write[4];
};

/*
 * Keeps the capabilities that its role needs later, out of those it has:
 *
 *	node	CAP_NET_ADMIN (interfaces that appear are attached to, what is attached is looked at), CAP_BPF (programs and links are made of
 *		what was loaded); with `attach: shared` also CAP_PERFMON and CAP_SYS_ADMIN: libxdp loads a dispatcher for each change and finds
 *		the programs in it by their numbers
 *	region	none; CAP_NET_BIND_SERVICE when it listens below port 1024: a life that follows another opens its ports anew
 *
 * Empties the bounding, inheritable and ambient sets, sets no_new_privs, forbids core dumps and ptrace, filters system calls. Tells of files
 * that it can use no longer: root without CAP_DAC_OVERRIDE is a user like others. A second call only looks at the files. Negative errno with
 * *c filled.
 */
int lg_drop(const struct lg_config *config, enum lg_config_role role, const struct lg_drop_paths *paths, struct lg_complaint *c);
