// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The keys of a rule are collected first and judged afterwards, since what one means can depend on another: limit on unit, key on
 * match, fallback on class.
 */
#include "rules/yaml.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/fields.h"
#include "rules/rate.h"
#include "rules/reader.h"
#include "rules/tree.h"

#define EXPECT "a rules file has the key `rules` with a list below it, or `rules: []` for no rules"

/* scope and class say one thing twice: whichever is missing follows from the other. */
static int scope_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;
	bool has_scope = lg_is_written(r, LG_RF_SCOPE), has_class = lg_is_written(r, LG_RF_CLASS);
	enum lg_scope of_class;

	rule->class = (enum lg_rule_class)r->at[LG_RF_CLASS].num;
	of_class = rule->class == LG_CLASS_LOCAL ? LG_SCOPE_HOST : LG_SCOPE_GLOBAL;
	rule->scope = has_scope ? (enum lg_scope)r->at[LG_RF_SCOPE].num : has_class ? of_class
										    : LG_SCOPE_HOST;
	if (!has_class)
		rule->class = rule->scope == LG_SCOPE_HOST ? LG_CLASS_LOCAL : LG_CLASS_LEASE;
	else if (rule->scope != of_class)
		return lg_reader_complain(r, LG_RF_CLASS, "%s is for scope %s, but the scope is %s", lg_class_name(rule->class),
					  lg_scope_name(of_class), lg_scope_name(rule->scope));
	return 0;
}

/* ---- limit ---- */

/* Tokens of the rule's unit. */
static int amount_read(struct lg_reader *r, enum lg_rules_field id, uint64_t *ret_tok)
{
	const struct lg_field *field = &lg_rules_fields[id];
	struct lg_complaint why = { 0 };
	int err;

	err = r->rule->unit == LG_UNIT_BYTES ? lg_bytes_parse(lg_text_of(r, id), field->min, field->max, ret_tok, &why)
					     : lg_num_parse(lg_text_of(r, id), field->min, field->max, ret_tok, &why);
	return err < 0 ? lg_reader_complain(r, id, "%s", why.text) : 0;
}

static int burst_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;

	rule->burst_tok = rule->limit_tok;
	if (!lg_is_written(r, LG_RF_BURST))
		return 0;
	if (rule->algorithm != LG_TOKEN_BUCKET)
		return lg_reader_complain(r, LG_RF_BURST, "belongs to token_bucket: a window admits its limit at once");
	if (!rule->limit_tok)
		return lg_reader_complain(r, LG_RF_BURST, "a limit of 0 denies everything and has no burst");
	return amount_read(r, LG_RF_BURST, &rule->burst_tok);
}

/* What costs more than there can ever be is refused here, where somebody reads it, and not packet by packet. */
static int cost_check(struct lg_reader *r, uint64_t most_tok)
{
	struct lg_rule_def *rule = r->rule;

	if (!rule->limit_tok || rule->cost <= most_tok)
		return 0;
	return lg_reader_complain(r, LG_RF_COST,
				  "%" PRIu64 " is more than %" PRIu64 ", the most that one packet can have: none could ever pass",
				  rule->cost, most_tok);
}

/* A log of one host keeps the time of each token. */
static int log_check(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;
	int err;

	if (rule->unit == LG_UNIT_BYTES)
		return lg_reader_complain(r, LG_RF_ALGORITHM,
					  "a sliding_log of scope host keeps the time of each token, which bytes are too many for: "
					  "write sliding_window");
	if (rule->limit_tok > LG_LOG_MAX)
		return lg_reader_complain(r, LG_RF_LIMIT,
					  "a sliding_log of scope host keeps the time of each token, %d at most: write sliding_window",
					  LG_LOG_MAX);
	err = burst_read(r);
	return err < 0 ? err : cost_check(r, rule->limit_tok < LG_LOG_COST_MAX ? rule->limit_tok : LG_LOG_COST_MAX);
}

/* What there is at one time: a number alone. */
static int count_read(struct lg_reader *r)
{
	static const enum lg_rules_field others[] = { LG_RF_ALGORITHM, LG_RF_BURST, LG_RF_COST };
	struct lg_rule_def *rule = r->rule;
	struct lg_complaint why = { 0 };

	if (rule->scope != LG_SCOPE_HOST)
		return lg_reader_complain(r, LG_RF_UNIT, "what is open at one time each host counts for itself: write scope: host");
	for (size_t i = 0; i < N_ELEMS(others); i++)
		if (lg_is_written(r, others[i]))
			return lg_reader_complain(r, others[i], "has no meaning for %s, which counts what there is at one time",
						  lg_unit_name(rule->unit));
	if (strchr(lg_text_of(r, LG_RF_LIMIT), '/'))
		return lg_reader_complain(r, LG_RF_LIMIT, "is how many there may be at one time: write a number without a duration");
	if (lg_num_parse(lg_text_of(r, LG_RF_LIMIT), 0, LG_CONNS_LIMIT, &rule->limit_tok, &why) < 0)
		return lg_reader_complain(r, LG_RF_LIMIT, "%s", why.text);
	rule->algorithm = LG_TOKEN_BUCKET;
	rule->cost = 1;
	rule->burst_tok = rule->limit_tok;
	rule->per_ns = 0;
	return 0;
}

/* Connections are TCP's, and begin with a SYN. */
static int connection_check(struct lg_reader *r)
{
	struct lg_match *match = &r->rule->match;

	if (!lg_unit_is_connection(r->rule->unit))
		return 0;
	if (match->has_protocol && match->protocol != IPPROTO_TCP)
		return lg_reader_complain(r, LG_RF_PROTOCOL, "connections are counted of TCP alone: leave it out, or count packets");
	if (match->tcp_flags.mask)
		return lg_reader_complain(r, LG_RF_TCP_FLAGS, "the unit says which packets count: leave it out, or count packets");
	if (match->fragments && !(match->fragments & 3))
		return lg_reader_complain(r, LG_RF_FRAGMENTS, "later fragments begin no connection: leave it out, or count packets");
	if (match->ethertype.has && match->ethertype.value != ETH_P_IP && match->ethertype.value != ETH_P_IPV6)
		return lg_reader_complain(r, LG_RF_ETHERTYPE, "connections are counted of TCP alone: leave it out, or count packets");
	match->has_protocol = true;
	match->protocol = IPPROTO_TCP;
	return 0;
}

static int limit_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;
	struct lg_complaint why = { 0 };
	char fastest[LG_LIMIT_TEXT_LEN];
	int err;

	rule->cost = r->at[LG_RF_COST].num;
	rule->unit = (enum lg_unit)r->at[LG_RF_UNIT].num;
	err = connection_check(r);
	if (err < 0)
		return err;
	if (lg_unit_is_count(rule->unit))
		return count_read(r);
	rule->algorithm = (enum lg_algorithm)r->at[LG_RF_ALGORITHM].num;
	if (lg_limit_parse(lg_text_of(r, LG_RF_LIMIT), rule->unit == LG_UNIT_BYTES, lg_rules_fields[LG_RF_LIMIT].max,
			   LG_PER_MAX_NS, &rule->limit_tok, &rule->per_ns, &why) < 0)
		return lg_reader_complain(r, LG_RF_LIMIT, "%s", why.text);
	if (rule->limit_tok > rule->per_ns * LG_RATE_MAX_TOK_PER_NS) {
		lg_limit_format(LG_RATE_MAX_TOK_PER_NS * 1000000000ull, 1000000000, rule->unit, fastest,
				sizeof(fastest));
		return lg_reader_complain(r, LG_RF_LIMIT, "\"%.48s\" is faster than the fastest, %s", lg_text_of(r, LG_RF_LIMIT),
					  fastest);
	}
	if (rule->algorithm == LG_SLIDING_LOG && rule->scope == LG_SCOPE_HOST)
		return log_check(r);
	err = burst_read(r);
	return err < 0 ? err : cost_check(r, rule->burst_tok);
}

/* ---- what happens otherwise ---- */

/* A class is a preset: what is written takes its place. How much is lent at once follows from class and numbers, in the terms. */
static void class_expand(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;
	bool sync = rule->class == LG_CLASS_SYNC;

	rule->fallback = rule->class == LG_CLASS_LEASE ? LG_FALLBACK_SHARE : LG_FALLBACK_DENY;
	rule->lease.kind = sync ? LG_LEASE_BLOCK : LG_LEASE_AUTO;
	rule->lease.owner = sync ? LG_OWNER_ON : LG_OWNER_AUTO;
	if (lg_is_written(r, LG_RF_FALLBACK))
		rule->fallback = (enum lg_fallback)r->at[LG_RF_FALLBACK].num;
	if (lg_is_written(r, LG_RF_LEASE_KIND))
		rule->lease.kind = (enum lg_lease_kind)r->at[LG_RF_LEASE_KIND].num;
	if (lg_is_written(r, LG_RF_LEASE_OWNER))
		rule->lease.owner = (enum lg_lease_owner)r->at[LG_RF_LEASE_OWNER].num;
}

static int cold_start_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;
	int err;

	if (!lg_is_written(r, LG_RF_COLD_START)) {
		rule->lease.cold_start_tok = LG_COLD_START_AUTO;
		return 0;
	}
	err = amount_read(r, LG_RF_COLD_START, &rule->lease.cold_start_tok);
	if (err == 0 && rule->lease.cold_start_tok > rule->burst_tok)
		return lg_reader_complain(r, LG_RF_COLD_START, "one host could spend more than the whole limit before its first lease");
	return err;
}

static int lease_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;

	if (rule->scope == LG_SCOPE_HOST && lg_is_written(r, LG_RF_LEASE))
		return lg_reader_complain(r, LG_RF_LEASE, "belongs to global rules: a host rule has no lease");
	if (rule->scope == LG_SCOPE_HOST && lg_is_written(r, LG_RF_FALLBACK))
		return lg_reader_complain(r, LG_RF_FALLBACK, "belongs to global rules: a host rule needs no upstream");
	class_expand(r);
	rule->lease.low_water_permille = (uint32_t)r->at[LG_RF_LOW_WATER].num;
	rule->lease.max_outstanding_permille = (uint32_t)r->at[LG_RF_MAX_OUTSTANDING].num;
	rule->lease.rpc_budget_mps = (uint32_t)r->at[LG_RF_RPC_BUDGET].num;
	if (lg_is_written(r, LG_RF_RPC_BUDGET) && lg_is_written(r, LG_RF_MAX_OUTSTANDING))
		return lg_reader_complain(r, LG_RF_RPC_BUDGET, "sets how much is lent at once, as max_outstanding does: write one of them");
	return cold_start_read(r);
}

/* Which table, and how much of it: lines hold token buckets of this host, a key each. */
static int table_read(struct lg_reader *r)
{
	enum lg_rules_field id = lg_is_written(r, LG_RF_TABLE) ? LG_RF_TABLE : LG_RF_KEYS;
	struct lg_rule_def *rule = r->rule;

	rule->table = lg_is_written(r, LG_RF_TABLE) ? (enum lg_table_choice)r->at[LG_RF_TABLE].num : LG_TABLE_CHOICE_NONE;
	if (lg_is_written(r, LG_RF_KEYS)) {
		rule->keys = (uint32_t)r->at[LG_RF_KEYS].num;
		if (rule->table == LG_TABLE_CHOICE_EXACT)
			return lg_reader_complain(r, LG_RF_KEYS,
						  "belongs to `table: lines`: max_keys of the configuration bounds the exact table");
		rule->table = LG_TABLE_CHOICE_LINES;
	}
	if (rule->table != LG_TABLE_CHOICE_LINES)
		return 0;
	if (rule->scope == LG_SCOPE_GLOBAL)
		return lg_reader_complain(r, id, "what is leased is in the exact table: leave it out");
	if (lg_unit_is_count(rule->unit))
		return lg_reader_complain(r, id, "lines hold token buckets, and what is open at one time is a count: leave it out");
	if (rule->algorithm != LG_TOKEN_BUCKET)
		return lg_reader_complain(r, id, "lines hold token buckets, and the algorithm is %s", lg_algorithm_name(rule->algorithm));
	if (rule->key.form == LG_FORM_RULE)
		return lg_reader_complain(r, id, "a rule without a key has one bucket: leave it out");
	if (rule->burst_tok >= LG_LINE_BURST_MAX_TOK)
		return lg_reader_complain(r, lg_is_written(r, LG_RF_BURST) ? LG_RF_BURST : LG_RF_LIMIT,
					  "a burst in lines is below %llu: write `table: exact`", LG_LINE_BURST_MAX_TOK);
	return 0;
}

static int ban_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;

	if (!lg_is_written(r, LG_RF_BAN))
		return 0;
	if (!rule->limit_tok)
		return lg_reader_complain(r, LG_RF_BAN, "a limit of 0 denies everything: there is nothing to ban");
	if (!rule->key.parts)
		return lg_reader_complain(r, LG_RF_BAN, "a rule without a key has one bucket for all, and would shut out everybody: write key");
	rule->ban.after = (uint32_t)r->at[LG_RF_BAN_AFTER].num;
	rule->ban.within_ns = r->at[LG_RF_BAN_WITHIN].num;
	rule->ban.for_ns = r->at[LG_RF_BAN_FOR].num;
	rule->ban.max_ns = r->at[LG_RF_BAN_MAX].num;
	if (rule->ban.max_ns && rule->ban.max_ns < rule->ban.for_ns)
		return lg_reader_complain(r, LG_RF_BAN_MAX, "\"%s\" is less than the first ban, \"%s\"", lg_text_of(r, LG_RF_BAN_MAX),
					  lg_text_of(r, LG_RF_BAN_FOR));
	return 0;
}

/* After key and unit. */
static int secret_read(struct lg_reader *r)
{
	struct lg_rule_def *rule = r->rule;

	rule->is_secret = r->at[LG_RF_SECRET].num;
	if (!rule->is_secret)
		return 0;
	if (!rule->key.parts)
		return lg_reader_complain(r, LG_RF_SECRET, "the rule has one bucket for all, so there is no key to keep secret");
	if (lg_unit_is_connection(rule->unit))
		return lg_reader_complain(r, LG_RF_SECRET,
					  "connections are told apart by their addresses, which the kernel keeps: count packets or bytes");
	rule->key.form = LG_FORM_PRODUCT | LG_FORM_HASHED | LG_FORM_SECRET | rule->key.parts;
	return 0;
}

static int nodes_read(struct lg_reader *r)
{
	struct lg_complaint c = { 0 };

	if (!r->at[LG_RF_NODES].node || lg_gate_parse(lg_text_of(r, LG_RF_NODES), &r->rule->nodes, &c) == 0)
		return 0;
	return lg_reader_complain(r, LG_RF_NODES, "%s", c.text);
}

static int rule_read(const struct lg_node *node, const struct lg_rules *rules, size_t place, struct lg_complaint *c)
{
	struct lg_rule_def *rule = &rules->v[place];
	struct lg_reader r = { .rule = rule, .rules = rules, .own = &rules->own[2 * place], .requests = &rules->requests[place], .c = c };
	int err;

	if (node->kind != LG_NODE_MAP)
		return lg_node_complain(node, c, "a rule is a mapping of keys to values, beginning with `- name:`");
	err = lg_fields_collect(lg_rules_fields, _LG_RF_N, "rules[]", LG_FIELD_BOTH, node, r.at, c);
	if (err < 0)
		return err;
	snprintf(rule->name, sizeof(rule->name), "%s", lg_text_of(&r, LG_RF_NAME));
	rule->line = node->line;
	rule->on_full = (enum lg_on_full)r.at[LG_RF_ON_FULL].num;
	rule->shadow = r.at[LG_RF_SHADOW].num;
	rule->evaluate_all = r.at[LG_RF_EVALUATE].num;

	err = nodes_read(&r);
	if (err == 0)
		err = scope_read(&r);
	if (err == 0)
		err = lg_match_read(&r);
	if (err == 0)
		err = lg_key_read(&r);
	if (err == 0)
		err = limit_read(&r);
	if (err == 0)
		err = secret_read(&r);
	if (err == 0)
		err = ban_read(&r);
	if (err == 0)
		err = table_read(&r);
	if (err == 0)
		err = lg_action_read(&r);
	return err < 0 ? err : lease_read(&r);
}

/* Is the last rule one of those before it, by name or by all that tells buckets apart? */
static int duplicate_check(const struct lg_rules *rules, const struct lg_node *node, struct lg_complaint *c)
{
	const struct lg_rule_def *last = &rules->v[rules->n - 1], *rule;
	uint64_t identity = lg_rule_identity(last);

	for (rule = rules->v; rule < last; rule++) {
		if (strcmp(rule->name, last->name) == 0)
			return lg_node_complain(node, c, "name: \"%s\" is the name of the rule on line %u too",
						last->name, rule->line);
		/* On each host by itself, and on each at most one of them. */
		if (rule->scope == LG_SCOPE_HOST && lg_gate_are_apart(&rule->nodes, &last->nodes))
			continue;
		if (lg_rule_identity(rule) == identity)
			return lg_node_complain(
				node, c,
				"rule \"%s\" has the same scope, match, key, unit and algorithm as rule \"%s\" "
				"on line %u: keep the stricter one",
				last->name, rule->name, rule->line);
	}
	return 0;
}

static int tree_read(const struct lg_tree *tree, struct lg_packed *packed, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = calloc(1, sizeof(*rules));
	struct lg_field_at at[_LG_RF_N];
	size_t n_rules, n_exempt;
	int r;

	if (!rules)
		return -ENOMEM;
	r = lg_fields_collect(lg_rules_fields, _LG_RF_N, "", LG_FIELD_BOTH, tree->root, at, c);
	if (r < 0)
		return r;
	n_rules = at[LG_RF_RULES].node->n;
	n_exempt = at[LG_RF_EXEMPT].node ? at[LG_RF_EXEMPT].node->n : 0;
	rules->v = calloc(n_rules + 1, sizeof(*rules->v));
	rules->own = calloc(n_rules + n_exempt + 1, 2 * sizeof(*rules->own));
	rules->requests = calloc(n_rules + 1, sizeof(*rules->requests));
	if (!rules->v || !rules->own || !rules->requests)
		return -ENOMEM;
	rules->n_requests = n_rules;
	r = lg_sets_read(at[LG_RF_SETS].node, rules, c);
	if (r == 0)
		r = lg_lists_read(at[LG_RF_LISTS_ALLOW].node, at[LG_RF_LISTS_DENY].node, packed, rules, c);
	if (r == 0)
		r = lg_exemptions_read(at[LG_RF_EXEMPT].node, rules, &rules->own[2 * n_rules], c);
	if (r < 0)
		return r;
	for (const struct lg_node *node = at[LG_RF_RULES].node->child; node; node = node->next) {
		r = rule_read(node, rules, rules->n, c);
		rules->n++;
		if (r == 0)
			r = duplicate_check(rules, node, c);
		if (r < 0)
			return r;
	}
	*ret_rules = TAKE(rules);
	return 0;
}

int lg_rules_parse(const char *text, size_t len, const char *name, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	return lg_rules_parse_edited(text, len, name, NULL, NULL, ret_rules, c);
}

int lg_rules_parse_edited(const char *text, size_t len, const char *name, int (*edit)(void *arg, struct lg_tree *tree), void *arg,
			  struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_(lg_tree_free) struct lg_tree *tree = NULL;
	struct lg_packed packed;
	int r;

	lg_packed_open(text, len, name, &packed);
	r = lg_tree_parse(packed.text, packed.len, name, LG_RULES_BYTES_MAX, EXPECT, &tree, c);
	if (r == 0 && edit)
		r = edit(arg, tree);
	if (r == 0)
		r = tree_read(tree, &packed, ret_rules, c);
	if (r == -ENOMEM)
		lg_complain(c, "not enough memory to read it");
	return r;
}

int lg_rules_read(const char *path, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	r = lg_tree_file_read(path, LG_RULES_BYTES_MAX, &text, &len, c);
	return r < 0 ? r : lg_rules_parse(text, len, path, ret_rules, c);
}
