/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Model -> kernel ABI. Ids of rules whose identity is known stay; changed limits re-anchor their rate so that what was spent
 * stays spent. Pure: time, what is in force and the shares are arguments.
 */
#pragma once

#include "rules/rule.h"

struct lg_compile_env {
	uint64_t now_ns;
	uint32_t n_regions;		/* of the region list; 0: no upstream, global rules get no fallback share */
	uint32_t hosts_in_region;	/* H of this host's region */
	uint32_t max_rules;		/* ids that the maps have room for; 0: LG_RULES_MAX */
	uint64_t grace_ns;		/* token buckets' share starts this long after the lease's end; windows use their window */
	uint32_t n_lines;		/* of map `lines`; 0: no rule may be there */
	const struct lg_ruleset *old_set;	/* in force, or NULL */
	const struct lg_rule_name *old_names;	/* LG_RULES_MAX + 1 entries, or NULL */
	const struct lg_exemption *exemptions;	/* behind those of the file; names are not looked at */
	size_t n_exemptions;
};

/*
 * Ids belong to identities (lg_rule_identity), so names, numbers and places in the file may change. Behind n_rules the set keeps the
 * last record of each retired rule: one that returns goes on from its levels. Where a limit is raised by so much (some hundredfold)
 * that levels cannot carry over, the rule gets a new id and the old one is retired. c->file stays as it is, as lg_rules_read() left it.
 *
 * Fills *ret_set (version old + 1, rules from most specific to most general: longer source + destination prefix, then ports, then
 * protocol, then file order), *ret_classifier (some megabytes, undefined after a failure; NULL: not wanted, then nothing is said of overlaps
 * either) and ret_names (LG_RULES_MAX + 1 entries;
 * rules that left are marked retired). Refuses, with the rule's line: more than env->max_rules rules, no free id, and sets in which
 * some packet could match more than LG_MATCHES_MAX rules (with such a packet as the example), or in which it takes too long to tell.
 */
int lg_rules_compile(const struct lg_rules *rules, const struct lg_compile_env *env, struct lg_ruleset *ret_set,
		     struct lg_classifier *ret_classifier, struct lg_rule_name *ret_names, struct lg_complaint *c);

/* The rule of an id in a compiled set, or NULL. */
const struct lg_rule *lg_ruleset_find(const struct lg_ruleset *set, uint32_t rule_id);

/* What a rule in the kernel is keyed by, whole addresses for NULL, a rule that is gone. */
void lg_key_shape_of(const struct lg_rule *rule, struct lg_key_shape *ret);
