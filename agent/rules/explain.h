/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a rule means, in words, and the most it can ever admit, as a number. Shared by `leasegate explain` and the demo. */
#pragma once

#include "rules/rule.h"

struct lg_explain_env {
	uint32_t n_regions;	/* 0: unknown, printed as such */
	uint32_t hosts;		/* sum over regions */
};

struct lg_bound {
	uint64_t base_tok;		/* token bucket: burst (plus rate x t); windows: limit, in any trailing window per_ns */
	bool plus_rate;			/* token bucket: + limit per per_ns of time */
	uint64_t trailing_tok;		/* windows: most in any trailing per_ns; of a fixed one twice what each of its windows admits */
	uint64_t fallback_tok;		/* most that the published fallback share adds for each region that is cut off; 0 of rules that
					 * set their shares aside */
	uint64_t fallback_per_ns;	/* 0: once; else per this long of the cut, counted from its beginning. Hosts that save their
					 * share up may spend twice that in one stretch of this length */
	bool unbounded;			/* fallback open: nothing bounds it */
};

void lg_rule_bound(const struct lg_rule_def *rule, const struct lg_explain_env *env, struct lg_bound *ret_bound);
/* "UDP packets to port 53 or 8000-8099 from anywhere (IPv4) to 192.0.2.0/24, one bucket per source address" */
void lg_rule_match_text(const struct lg_rule_def *rule, char *buf, size_t len);
/* "at most 10000 packets in any trailing 1m, over all hosts; while a region is cut off + 3333 per 1m for it, and 3333 once" */
void lg_rule_bound_text(const struct lg_rule_def *rule, const struct lg_explain_env *env, char *buf, size_t len);

/* lg_rules_warning() for one rule, without its name. */
int lg_rule_warning(const struct lg_rule_def *rule, const struct lg_explain_env *env, size_t i, char *buf, size_t len);

/**
 * lg_rules_warning() - what works, but perhaps not as its writer thinks
 * @i: which one, from 0
 *
 * One line each, with the rule's name and line in the file.
 *
 * Return: 0 with the text in buf, 1 when there are no more than i.
 */
int lg_rules_warning(const struct lg_rules *rules, const struct lg_explain_env *env, size_t i, char *buf, size_t len);
