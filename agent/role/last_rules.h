/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The text of the rules last in force, kept in the state folder: a node whose rules file cannot be used when it starts goes on with them,
 * rather than to leave a machine without any limit. */
#pragma once

#include <stddef.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "rules/config.h"
#include "rules/rule.h"

struct lg_rules_text {
	char *text;	/* owned */
	size_t len;
};

/* Reads and parses a rules file, and keeps its text, so that what is stored later is what was read. */
int lg_rules_text_read(const char *path, struct lg_rules_text *ret_text, struct lg_rules **ret_rules, struct lg_complaint *c);
void lg_rules_text_fini(struct lg_rules_text *text);

/* A file of the state folder, in one step. Durable when it returns. */
int lg_rules_text_store(const char *folder, const char *name, const struct lg_rules_text *text);
/* *ret_text is empty before, and stays so on failure. */
int lg_rules_text_load(const char *folder, const char *name, size_t max_bytes, struct lg_rules_text *ret_text, struct lg_complaint *c);
/* Durable when it returns; the former ones stay when it fails. */
int lg_last_rules_store(const struct lg_config *config, const struct lg_rules_text *text, struct lg_complaint *c);
/* -ENOENT when there are none. */
int lg_last_rules_read(const struct lg_config *config, struct lg_rules **ret_rules, struct lg_complaint *c);
