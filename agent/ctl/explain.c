// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a rules file means, before it is in force. Needs no privilege. */
#include "ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "rules/compile.h"
#include "rules/config.h"
#include "rules/explain.h"
#include "rules/yaml.h"

static int env_from_config(const struct lg_ctl *ctl, const char *path, struct lg_explain_env *env)
{
	_cleanup_free_ struct lg_config *config = malloc(sizeof(*config));
	struct lg_complaint c = { 0 };
	char text[1024];

	if (!config)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "out of memory");
	if (lg_config_read(path, LG_CONFIG_NODE, config, &c) < 0 && lg_config_read(path, LG_CONFIG_REGION, config, &c) < 0) {
		lg_complaint_format(&c, text, sizeof(text));
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", text);
	}
	env->n_regions = (uint32_t)config->n_regions;
	env->hosts = lg_config_hosts(config);
	return 0;
}

static int arguments(const struct lg_ctl *ctl, int argc, char **argv, struct lg_explain_env *env)
{
	struct lg_complaint c = { 0 };
	uint64_t n;
	int r;

	for (int i = 2; i < argc; i += 2) {
		if (i + 1 >= argc)
			return lg_ctl_usage(ctl, "explain", argv[i]);
		if (strcmp(argv[i], "--config") == 0) {
			r = env_from_config(ctl, argv[i + 1], env);
			if (r)
				return r;
		} else if (strcmp(argv[i], "--regions") == 0 || strcmp(argv[i], "--hosts") == 0) {
			if (lg_num_parse(argv[i + 1], 1, 1000000, &n, &c) < 0)
				return lg_ctl_fail(ctl, LG_CTL_USAGE, "explain %s: %s", argv[i], c.text);
			*(argv[i][2] == 'r' ? &env->n_regions : &env->hosts) = (uint32_t)n;
		} else {
			return lg_ctl_usage(ctl, "explain", argv[i]);
		}
	}
	return 0;
}

static json_t *bound_json(const struct lg_rule_def *rule, const struct lg_bound *b)
{
	return json_pack("{s:I, s:b, s:I, s:I, s:I, s:I, s:b}", "base_tok", (json_int_t)b->base_tok, "plus_rate", b->plus_rate,
			 "rate_tok", (json_int_t)rule->limit_tok, "per_ns", (json_int_t)rule->per_ns, "fallback_tok",
			 (json_int_t)b->fallback_tok, "fallback_per_ns", (json_int_t)b->fallback_per_ns, "unbounded",
			 b->unbounded);
}

static void explain_one(const struct lg_ctl *ctl, const struct lg_rule_def *rule, const struct lg_explain_env *env,
			json_t *list)
{
	char match[1024], bound[1024], limit[LG_LIMIT_TEXT_LEN];
	struct lg_bound b = { 0 };

	lg_rule_match_text(rule, match, sizeof(match));
	lg_rule_bound_text(rule, env, bound, sizeof(bound));
	lg_rule_bound(rule, env, &b);
	lg_limit_format(rule->limit_tok, rule->per_ns, rule->unit, limit, sizeof(limit));
	if (ctl->json) {
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:s}", "rule", rule->name,
						"scope", lg_scope_name(rule->scope), "class", lg_class_name(rule->class),
						"algorithm", lg_algorithm_name(rule->algorithm), "unit",
						lg_unit_name(rule->unit), "limit", limit, "fallback",
						lg_fallback_name(rule->fallback), "match", match, "shadow", rule->shadow,
						"bound", bound_json(rule, &b), "bound_text", bound));
		return;
	}
	printf("%s (%s, class %s, %s, %s%s)\n", rule->name, lg_scope_name(rule->scope), lg_class_name(rule->class),
	       lg_algorithm_name(rule->algorithm), limit, rule->shadow ? ", shadow: counts and passes" : "");
	printf("  matches: %s\n  admits:  %s\n", match, bound);
}

int lg_ctl_explain(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	struct lg_explain_env env = { .n_regions = 1, .hosts = 1 };
	struct lg_compile_env compile = { .now_ns = lg_clock_now_ns(), .grace_ns = LG_NS_PER_S };
	struct lg_complaint c = { 0 };
	char text[1024];
	json_t *list;
	int r;

	if (argc < 2)
		return lg_ctl_usage(ctl, "explain", "a call without a rules file");
	r = arguments(ctl, argc, argv, &env);
	if (r)
		return r;
	compile.n_regions = env.n_regions;
	compile.hosts_in_region = env.n_regions ? (env.hosts + env.n_regions - 1) / env.n_regions : 1;
	if (lg_rules_read(argv[1], &rules, &c) < 0 || lg_rules_compile(rules, &compile, &set, names, &c) < 0) {
		lg_complaint_format(&c, text, sizeof(text));
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", text);
	}
	for (size_t i = 0; lg_rules_warning(rules, &env, i, text, sizeof(text)) == 0; i++)
		fprintf(stderr, "leasegate: warning: %s\n", text);
	list = json_array();
	for (size_t i = 0; i < rules->n; i++)
		explain_one(ctl, &rules->v[i], &env, list);
	if (ctl->json)
		return lg_ctl_print(list);
	json_decref(list);
	return LG_CTL_OK;
}
