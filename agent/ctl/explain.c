// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a rules file means, before it is in force: what each rule matches and admits, what its leases will serve, cost and strand. Needs
 * no privilege. */
#include "ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/settings.h"
#include "base/clock.h"
#include "base/num.h"
#include "lease/forecast.h"
#include "rules/action.h"
#include "rules/compile.h"
#include "rules/config.h"
#include "rules/explain.h"
#include "rules/words.h"
#include "rules/yaml.h"

#define TEXT_LEN 1024

/* ---- where the rules will be in force ---- */

struct where {
	struct lg_fleet fleet;
	struct lg_config *config; /* NULL: not said */
};

static int config_read(const struct lg_ctl *ctl, const char *path, struct where *where)
{
	struct lg_complaint c = { 0 };
	char text[TEXT_LEN];

	if (!where->config)
		where->config = malloc(sizeof(*where->config));
	if (!where->config)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "out of memory");
	if (lg_config_read(path, LG_CONFIG_NODE, where->config, &c) < 0 && lg_config_read(path, LG_CONFIG_REGION, where->config, &c) < 0) {
		lg_complaint_format(&c, text, sizeof(text));
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", text);
	}
	lg_fleet_init(where->config, &where->fleet);
	return 0;
}

static int argument(const struct lg_ctl *ctl, const char *name, const char *value, struct where *where)
{
	struct lg_fleet *fleet = &where->fleet;
	struct lg_complaint c = { 0 };
	uint64_t n = 0;
	int r;

	if (strcmp(name, "--config") == 0)
		return config_read(ctl, value, where);
	if (strcmp(name, "--rtt") == 0)
		r = lg_duration_parse(value, LG_NS_PER_MS, 10 * LG_NS_PER_S, &fleet->far_rtt_ns, &c);
	else if (strcmp(name, "--regions") == 0 || strcmp(name, "--hosts") == 0)
		r = lg_num_parse(value, 1, 1000000, &n, &c);
	else
		return lg_ctl_usage(ctl, "explain", name);
	if (r < 0)
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "explain %s: %s", name, c.text);
	if (n)
		*(name[2] == 'r' ? &fleet->regions : &fleet->hosts) = (uint32_t)n;
	return 0;
}

static int arguments(const struct lg_ctl *ctl, int argc, char **argv, struct where *where)
{
	int r;

	for (int i = 2; i < argc; i += 2) {
		if (i + 1 >= argc)
			return lg_ctl_usage(ctl, "explain", argv[i]);
		r = argument(ctl, argv[i], argv[i + 1], where);
		if (r)
			return r;
	}
	return 0;
}

/* ---- JSON ---- */

static json_t *bound_json(const struct lg_rule_def *rule, const struct lg_bound *b)
{
	return json_pack("{s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:b}", "base_tok", (json_int_t)b->base_tok, "plus_rate", b->plus_rate,
			 "trailing_tok", (json_int_t)b->trailing_tok, "rate_tok", (json_int_t)rule->limit_tok, "per_ns",
			 (json_int_t)rule->per_ns, "fallback_tok", (json_int_t)b->fallback_tok, "fallback_per_ns",
			 (json_int_t)b->fallback_per_ns, "unbounded", b->unbounded);
}

static json_t *messages_json(const struct lg_forecast_messages *m)
{
	return json_pack("{s:f, s:f}", "reports_per_s", (double)m->reports_mps / 1e3, "pushes_per_s_above", (double)m->pushes_mps / 1e3);
}

/* What a key costs that is hardly used; null where all cost the same. */
static json_t *quiet_json(const struct lg_forecast *f)
{
	if (!f->quiet_mtps)
		return json_null();
	return json_pack("{s:f, s:f}", "reports_per_s", (double)f->quiet.reports_mps / 1e3, "up_to_tok_per_s", (double)f->quiet_mtps / 1e3);
}

static json_t *prices_json(const struct lg_forecast *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < N_ELEMS(f->price); i++)
		json_array_append_new(list, json_pack("{s:I, s:I, s:i, s:o}", "factor", (json_int_t)f->price[i].factor, "span_ns",
						      (json_int_t)f->price[i].span_ns, "unserved_ppm",
						      (int)f->price[i].unserved_ppm, "home", messages_json(&f->price[i].home)));
	return list;
}

static json_t *failover_json(const struct lg_forecast *f)
{
	return json_pack("{s:b, s:I, s:I}", "reserves", (int)f->terms.reserves, "withheld_tok", (json_int_t)f->failover_tok, "for_ns",
			 (json_int_t)f->failover_ns);
}

static json_t *forecast_json(const struct lg_forecast *f)
{
	return json_pack("{s:f, s:f, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "rtt_ms",
			 (double)f->terms.far_rtt_ns / LG_NS_PER_MS, "lambda_ms", (double)f->lambda_ns / LG_NS_PER_MS,
			 "served_below_permille", (int)f->below_permille,
			 "served_above_permille", (int)f->above_permille, "served_all_hosts_permille", (int)f->small_permille, "price",
			 prices_json(f), "home", messages_json(&f->home), "hosts", messages_json(&f->region), "quiet", quiet_json(f), "out_tok",
			 (json_int_t)f->out_tok, "stranded_tok", (json_int_t)f->stranded_tok, "failover", failover_json(f), "wider_factor",
			 f->wider ? json_integer((json_int_t)f->price[f->wider].factor) : json_null());
}

/* ---- words ---- */

static const char *tok_text(uint64_t tok, enum lg_unit unit, char buf[LG_NUM_TEXT_LEN])
{
	if (unit == LG_UNIT_BYTES)
		lg_bytes_format(tok, buf, LG_NUM_TEXT_LEN);
	else
		snprintf(buf, LG_NUM_TEXT_LEN, "%" PRIu64, tok);
	return buf;
}

/* As a person would say it: a formula's result to three digits. */
static const char *time_text(uint64_t ns, char buf[LG_NUM_TEXT_LEN])
{
	if (ns >= LG_NS_PER_S && ns % LG_NS_PER_S)
		snprintf(buf, LG_NUM_TEXT_LEN, "%.3gs", (double)ns / LG_NS_PER_S);
	else
		lg_duration_format(ns - ns % LG_NS_PER_MS, buf, LG_NUM_TEXT_LEN);
	return buf;
}

static const char *rate_text(uint64_t mps, char buf[LG_NUM_TEXT_LEN])
{
	snprintf(buf, LG_NUM_TEXT_LEN, mps < 100000 ? "%.3g/s" : "%.0f/s", (double)mps / 1e3);
	return buf;
}

/* "0.6%" */
static const char *part_text(uint32_t ppm, char buf[LG_NUM_TEXT_LEN])
{
	snprintf(buf, LG_NUM_TEXT_LEN, ppm >= 1000 ? "%.1f%%" : ppm ? "%.2g%%" : "nothing", ppm / 1e4);
	return buf;
}

static const char *served_text(uint32_t permille, char buf[LG_NUM_TEXT_LEN])
{
	snprintf(buf, LG_NUM_TEXT_LEN, permille == 1000 ? "all" : "%.1f%%", permille / 10.0);
	return buf;
}

static void serves_print(const struct lg_forecast *f)
{
	char rtt[LG_NUM_TEXT_LEN], lambda[LG_NUM_TEXT_LEN], below[LG_NUM_TEXT_LEN], above[LG_NUM_TEXT_LEN];

	printf("  serves    %s of the traffic below the limit, %s of the limit above it, when all arrives in ",
	       served_text(f->below_permille, below), served_text(f->above_permille, above));
	time_text(f->lambda_ns, lambda);
	if (f->terms.kind == LG_LEASE_LIMIT)
		printf("one\n            region, which runs the limit then (a token that is spent is in nobody's hands for %s);\n"
		       "            traffic that moves to another region waits about a second for the limit to follow\n",
		       lambda);
	else
		printf("a region\n            %s from the home (a token that is spent is in nobody's hands for %s)\n",
		       time_text(f->terms.far_rtt_ns, rtt), lambda);
	if (f->small_permille < 1000)
		printf("            a small limit: about %.0f%% where all %u hosts see the same key at once\n", f->small_permille / 10.0,
		       f->terms.hosts);
}

static void prices_print(const struct lg_forecast *f)
{
	char span[3][LG_NUM_TEXT_LEN], part[3][LG_NUM_TEXT_LEN];

	for (size_t i = 0; i < N_ELEMS(f->price); i++) {
		time_text(f->price[i].span_ns, span[i]);
		part_text(f->price[i].unserved_ppm, part[i]);
	}
	printf("  unused    of the limit %s at worst; the same rate over %s %s, over %s %s\n", part[0], span[1], part[1], span[2], part[2]);
}

static void messages_print(const char *label, const char *who, const struct lg_forecast_messages *m)
{
	char reports[LG_NUM_TEXT_LEN], pushes[LG_NUM_TEXT_LEN];

	printf("  %-8s  %s: %s and as many answers", label, who, rate_text(m->reports_mps, reports));
	if (m->pushes_mps)
		printf(", above the limit up to %s more", rate_text(m->pushes_mps, pushes));
	printf("\n");
}

static void quiet_print(const struct lg_rule_def *rule, const struct lg_forecast *f)
{
	char rate[LG_NUM_TEXT_LEN], who[TEXT_LEN];

	if (!f->quiet_mtps)
		return;
	if (rule->unit == LG_UNIT_BYTES)
		snprintf(who, sizeof(who), "of one of which no region spends over %s/s, to its home",
			 tok_text(f->quiet_mtps / 1000, rule->unit, rate));
	else
		snprintf(who, sizeof(who), "of one of which no region spends over %s, to its home", rate_text(f->quiet_mtps, rate));
	messages_print("", who, &f->quiet);
}

static void lent_print(const struct lg_rule_def *rule, const struct lg_forecast *f)
{
	char out[LG_NUM_TEXT_LEN], most[LG_NUM_TEXT_LEN], ttl[LG_NUM_TEXT_LEN], grace[LG_NUM_TEXT_LEN];

	if (f->terms.kind == LG_LEASE_LIMIT)
		printf("  lent      the limit itself, in parts that sum up to it;");
	else
		printf("  lent      %s at worst while the limit is spent, never more than %s;", tok_text(f->out_tok, rule->unit, out),
		       tok_text(f->stranded_tok, rule->unit, most));
	printf(" who falls silent may\n            spend what it holds for %s, and %s later it counts as spent\n",
	       time_text(f->terms.ttl_ns, ttl), time_text(f->terms.grace_ns, grace));
}

/* What it costs when another server becomes the home of a key, or the same one starts anew. */
static void failover_print(const struct lg_rule_def *rule, const struct lg_forecast *f)
{
	char tok[LG_NUM_TEXT_LEN], ns[LG_NUM_TEXT_LEN];

	tok_text(f->failover_tok, rule->unit, tok);
	time_text(f->failover_ns, ns);
	if (f->terms.kind == LG_LEASE_LIMIT)
		printf("  failover  regions go on with their parts; none is told more until all have told, or for %s if one never does\n", ns);
	else if (f->terms.algorithm == LG_TOKEN_BUCKET)
		printf("  failover  up to %s of the burst once, minted again within %s; the rest is lent at once\n", tok, ns);
	else if (f->terms.reserves)
		printf("  failover  up to %s withheld until all regions have told, within seconds, or for %s if one never does\n", tok, ns);
	else
		printf("  failover  nothing is lent until all regions have told, within seconds, or for %s if one never does\n", ns);
}

static void settings_print(const struct lg_rule_def *rule, const struct lg_forecast *f)
{
	const struct lg_terms *t = &f->terms;
	char most[LG_NUM_TEXT_LEN], cold[LG_NUM_TEXT_LEN], region[LG_NUM_TEXT_LEN], host[LG_NUM_TEXT_LEN];

	printf("  settings  kind %s, owner %s, fallback %s, max_outstanding %s (%.3g%%),\n"
	       "            a report each %s by a region and each %s by a host\n",
	       lg_lease_kind_name(t->kind), t->owner ? "on" : "off", lg_fallback_name(rule->fallback),
	       tok_text(t->max_outstanding_tok, rule->unit, most), 100.0 * (double)t->max_outstanding_tok / (double)t->budget_tok,
	       time_text(t->region_period_ns, region), time_text(t->host_period_ns, host));
	if (t->shares_tok)
		printf("            %.3g%% of the limit is set aside for the shares of hosts that are cut off, and never leased\n",
		       100.0 * (double)t->shares_tok / (double)t->rule_budget_tok);
	if (t->cold_tok)
		printf("            cold_start: each host may spend %s%s of a new key before its first lease; of %u hosts\n"
		       "            all together that is %.3g%% of the limit, which is not leased\n",
		       tok_text(t->cold_tok, rule->unit, cold),
		       rule->unit == LG_UNIT_BYTES ? "" : t->cold_tok == 1 ? " token" : " tokens", t->hosts,
		       100.0 * (double)(t->cold_tok * t->hosts) / (double)t->rule_budget_tok);
}

static void wider_print(const struct lg_forecast *f)
{
	const struct lg_forecast_price *now = &f->price[0], *wide = &f->price[f->wider];
	char span[LG_NUM_TEXT_LEN], part[2][LG_NUM_TEXT_LEN], rate[2][LG_NUM_TEXT_LEN];

	if (!f->wider)
		return;
	printf("  wider     the same rate %s %s leaves %s unused in place of %s, and costs %s between regions\n"
	       "            in place of %s\n",
	       f->terms.algorithm == LG_TOKEN_BUCKET ? "with a burst of" : "over", time_text(wide->span_ns, span),
	       part_text(wide->unserved_ppm, part[0]), part_text(now->unserved_ppm, part[1]),
	       rate_text(wide->home.reports_mps, rate[0]), rate_text(now->home.reports_mps, rate[1]));
}

static void forecast_print(const struct lg_rule_def *rule, const struct lg_forecast *f)
{
	serves_print(f);
	prices_print(f);
	messages_print("messages", "of one busy key, regions to its home", &f->home);
	messages_print("", "hosts to their regions", &f->region);
	quiet_print(rule, f);
	lent_print(rule, f);
	failover_print(rule, f);
	settings_print(rule, f);
	wider_print(f);
}

/* ---- one rule ---- */

/* What may surprise: of the rule as written, then of the terms it gets. */
static int warning(const struct lg_rule_def *rule, const struct lg_explain_env *env, const struct lg_forecast *f, size_t i, char text[TEXT_LEN])
{
	for (size_t n = 0; lg_rule_warning(rule, env, n, text, TEXT_LEN) == 0; n++)
		if (i-- == 0)
			return 0;
	return f ? lg_forecast_warning(f, rule, i, text, TEXT_LEN) : 1;
}

/* How the limit is kept. */
static const char *algorithm_of(const struct lg_rule_def *rule)
{
	return lg_unit_is_count(rule->unit) ? "count" : lg_algorithm_name(rule->algorithm);
}

static json_t *rule_json(const struct lg_rule_def *rule, const struct lg_explain_env *env, const struct lg_forecast *f)
{
	char match[TEXT_LEN], bound[TEXT_LEN], limit[LG_LIMIT_TEXT_LEN], text[TEXT_LEN];
	char action[LG_ACTION_TEXT_LEN];
	json_t *warnings = json_array();
	struct lg_bound b = { 0 };

	lg_rule_match_text(rule, match, sizeof(match));
	lg_rule_bound_text(rule, env, bound, sizeof(bound));
	lg_rule_bound(rule, env, &b);
	lg_limit_format(rule->limit_tok, rule->per_ns, rule->unit, limit, sizeof(limit));
	lg_action_text(rule->action, rule->action_value, action, sizeof(action));
	for (size_t i = 0; warning(rule, env, f, i, text) == 0; i++)
		json_array_append_new(warnings, json_string(text));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:o, s:s, s:o, s:o, s:o}", "rule", rule->name, "scope",
			 lg_scope_name(rule->scope), "class", lg_class_name(rule->class), "algorithm", algorithm_of(rule),
			 "unit", lg_unit_name(rule->unit), "limit", limit, "fallback", lg_fallback_name(rule->fallback), "match", match,
			 "action", action, "shadow", rule->shadow, "bound", bound_json(rule, &b), "bound_text", bound, "settings",
			 f ? lg_settings_json(rule, &f->terms) : json_null(), "forecast", f ? forecast_json(f) : json_null(), "warnings",
			 warnings);
}

static void rule_print(const struct lg_rule_def *rule, const struct lg_explain_env *env, const struct lg_forecast *f)
{
	char match[TEXT_LEN], bound[TEXT_LEN], limit[LG_LIMIT_TEXT_LEN], text[TEXT_LEN];

	lg_rule_match_text(rule, match, sizeof(match));
	lg_rule_bound_text(rule, env, bound, sizeof(bound));
	lg_limit_format(rule->limit_tok, rule->per_ns, rule->unit, limit, sizeof(limit));
	printf("%s (%s, class %s, %s, %s%s)\n", rule->name, lg_scope_name(rule->scope), lg_class_name(rule->class),
	       algorithm_of(rule), limit, rule->shadow ? ", shadow: counts and passes" : "");
	printf("  matches   %s\n  admits    %s\n", match, bound);
	if (f)
		forecast_print(rule, f);
	for (size_t i = 0; warning(rule, env, f, i, text) == 0; i++)
		printf("  warning   %s\n", text);
}

/* There is nothing to forecast of a host rule, and of one that denies everything. */
static void rule_explain(const struct lg_ctl *ctl, const struct lg_rule_def *rule, const struct lg_fleet *fleet,
			 const struct lg_explain_env *env, json_t *list)
{
	bool leased = rule->scope == LG_SCOPE_GLOBAL && rule->limit_tok;
	struct lg_forecast forecast = { 0 };

	if (leased)
		lg_forecast_init(rule, fleet, &forecast);
	if (ctl->json)
		json_array_append_new(list, rule_json(rule, env, leased ? &forecast : NULL));
	else
		rule_print(rule, env, leased ? &forecast : NULL);
}

/* What comes before the rules. */
static void before_print(const struct lg_rules *rules)
{
	size_t n_allow = 0;
	char match[TEXT_LEN];

	for (size_t i = 0; i < rules->n_listed; i++)
		n_allow += rules->listed[i].verdict == LG_LIST_ALLOW;
	if (rules->n_listed)
		printf("lists: %zu prefixes pass, %zu are refused, before any rule\n", n_allow, rules->n_listed - n_allow);
	for (size_t i = 0; i < rules->n_exemptions; i++) {
		lg_match_text(&rules->exemptions[i].match, match, sizeof(match));
		printf("%s (exempt: passes whatever lists and rules say)\n  matches   %s\n", rules->exemptions[i].name, match);
	}
}

/* Everything that a node would refuse at its start. */
static int rules_read(const char *path, const struct where *where, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_classifier classifier;
	static struct lg_ruleset set;
	const struct lg_fleet *fleet = &where->fleet;
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .grace_ns = LG_NS_PER_S, .n_lines = LG_LINE_KEYS_DEFAULT / LG_LINE_SLOTS,
				      .n_regions = fleet->regions,
				      .hosts_in_region = fleet->regions ? (fleet->hosts + fleet->regions - 1) / fleet->regions : 1 };
	int r;

	r = lg_rules_read(path, ret_rules, c);
	if (r == 0 && where->config)
		r = lg_actions_check(*ret_rules, where->config, c);
	return r < 0 ? r : lg_rules_compile(*ret_rules, &env, &set, &classifier, names, c);
}

int lg_ctl_explain(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	_cleanup_free_ struct lg_config *config = NULL; /* owns where.config */
	struct where where = { .fleet = { .regions = 1, .hosts = 1 } };
	struct lg_complaint c = { 0 };
	struct lg_explain_env env;
	char text[TEXT_LEN];
	json_t *list;
	int r;

	if (argc < 2)
		return lg_ctl_usage(ctl, "explain", "a call without a rules file");
	r = arguments(ctl, argc, argv, &where);
	config = where.config;
	if (r)
		return r;
	env = (struct lg_explain_env){ .n_regions = where.fleet.regions, .hosts = where.fleet.hosts };
	if (rules_read(argv[1], &where, &rules, &c) < 0) {
		lg_complaint_format(&c, text, sizeof(text));
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", text);
	}
	if (!ctl->json)
		before_print(rules);
	list = json_array();
	for (size_t i = 0; i < rules->n; i++)
		rule_explain(ctl, &rules->v[i], &where.fleet, &env, list);
	if (ctl->json)
		return lg_ctl_print(list);
	json_decref(list);
	return LG_CTL_OK;
}
