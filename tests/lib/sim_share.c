// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "tests/lib/sim_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bucket.h"
#include "rules/compile.h"

struct sim_share {
	struct lg_rule rule;
	struct lg_bucket bucket;
};

int sim_share_new(const struct lg_rule_def *def, uint32_t regions, uint32_t hosts_in_region, uint64_t grace_ns, struct sim_share **ret_share)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	_cleanup_(sim_share_free) struct sim_share *s = calloc(1, sizeof(*s));
	struct lg_compile_env env = { .now_ns = 1, .n_regions = regions, .hosts_in_region = hosts_in_region, .grace_ns = grace_ns };
	struct lg_rule_def copy = *def;
	struct lg_rules rules = { .n = 1, .v = &copy };
	struct lg_complaint c = { 0 };
	int r;

	if (!s)
		return -ENOMEM;
	r = lg_rules_compile(&rules, &env, &set, NULL, names, &c);
	if (r < 0)
		return r;
	s->rule = set.rules[0];
	lg_bucket_init(&s->bucket, &s->rule, 1);
	*ret_share = TAKE(s);
	return 0;
}

struct sim_share *sim_share_free(struct sim_share *s)
{
	free(s);
	return NULL;
}

bool sim_share_take(struct sim_share *s, uint64_t lease_end_ns, uint64_t asked_ns, uint64_t cost_tok, bool is_reachable, uint64_t now_ns)
{
	struct lg_ask ask = { .now_ns = now_ns, .cost_tok = cost_tok, .is_reachable = is_reachable };

	/* The agent's grants move the end on; the kernel moves it on by itself when the agent wakes up. */
	if (lease_end_ns > s->bucket.expires_ns)
		s->bucket.expires_ns = lease_end_ns;
	s->bucket.asked_ns = asked_ns;
	return lg_bucket_take(&s->bucket, &s->rule, &ask, 1) == LG_PASS_FALLBACK;
}
