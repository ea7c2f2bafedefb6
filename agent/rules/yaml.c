// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The keys of a rule are collected first and judged afterwards, since what one means can depend on another: limit on unit, key on
 * match, fallback on class.
 */
#include "rules/yaml.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/fields.h"
#include "rules/rate.h"
#include "rules/tree.h"

#define EXPECT "a rules file has the key `rules` with a list below it, or `rules: []` for no rules"

/* One rule being read: `at` is where its keys are. */
struct reader {
	struct lg_field_at at[_LG_RF_N];
	struct lg_rule_def *rule;
	struct lg_prefix *own; /* room for what source and destination say */
	struct lg_complaint *c;
};

static bool is_written(const struct reader *r, enum lg_rules_field id)
{
	return r->at[id].node != NULL;
}

static const char *text_of(const struct reader *r, enum lg_rules_field id)
{
	return r->at[id].node->text;
}

__attribute__((format(printf, 3, 4))) static int complain(struct reader *r, enum lg_rules_field id, const char *fmt,
							  ...)
{
	char why[sizeof(r->c->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return lg_field_complain(&lg_rules_fields[id], r->at[id].node, r->c, "%s", why);
}

/* scope and class say one thing twice: whichever is missing follows from the other. */
static int scope_read(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;
	bool has_scope = is_written(r, LG_RF_SCOPE), has_class = is_written(r, LG_RF_CLASS);
	enum lg_scope of_class;

	rule->class = (enum lg_class)r->at[LG_RF_CLASS].num;
	of_class = rule->class == LG_CLASS_LOCAL ? LG_SCOPE_HOST : LG_SCOPE_GLOBAL;
	rule->scope = has_scope ? (enum lg_scope)r->at[LG_RF_SCOPE].num : has_class ? of_class : LG_SCOPE_HOST;
	if (!has_class)
		rule->class = rule->scope == LG_SCOPE_HOST ? LG_CLASS_LOCAL : LG_CLASS_LEASE;
	else if (rule->scope != of_class)
		return complain(r, LG_RF_CLASS, "%s is for scope %s, but the scope is %s", lg_class_name(rule->class),
				lg_scope_name(of_class), lg_scope_name(rule->scope));
	return 0;
}

/* ---- match ---- */

static int prefix_read(struct reader *r, enum lg_rules_field id, struct lg_prefix *own, struct lg_prefix_list *ret)
{
	struct lg_complaint why = { 0 };

	if (!is_written(r, id))
		return 0;
	if (lg_prefix_parse(text_of(r, id), own->addr, &own->family, &own->len, &why) < 0)
		return complain(r, id, "%s", why.text);
	ret->n = 1;
	ret->v = own;
	return 0;
}

static int port_range_read(struct reader *r, const struct lg_node *node, struct lg_port_range *ret)
{
	const struct lg_field *field = &lg_rules_fields[LG_RF_PORTS];
	struct lg_complaint unused;
	char quoted[LG_QUOTE_LEN], low[8];
	const char *dash;
	uint64_t lo, hi;

	if (node->kind != LG_NODE_SCALAR)
		return lg_field_complain(field, node, r->c, "expected a port or a range of ports in the list");
	lg_text_quote(node->text, quoted);
	dash = strchr(node->text, '-');
	snprintf(low, sizeof(low), "%.*s", dash ? (int)(dash - node->text < 7 ? dash - node->text : 7) : 7, node->text);
	if (lg_num_parse(low, field->min, field->max, &lo, &unused) < 0 ||
	    lg_num_parse(dash ? dash + 1 : low, field->min, field->max, &hi, &unused) < 0)
		return lg_field_complain(field, node, r->c,
					 "%s is not a port of 0 to 65535 or a range such as 8000-8099", quoted);
	if (lo > hi)
		return lg_field_complain(field, node, r->c, "%s runs backwards: write %u-%u", quoted, (unsigned int)hi,
					 (unsigned int)lo);
	ret->lo = (uint16_t)lo;
	ret->hi = (uint16_t)hi;
	return 0;
}

static int range_compare(const void *a, const void *b)
{
	const struct lg_port_range *x = a, *y = b;

	return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : x->hi < y->hi ? -1 : x->hi > y->hi;
}

/* Sorted, with what touches or overlaps made one: the same ports are then the same ranges, however they were written. */
static size_t ranges_merge(struct lg_port_range *v, size_t n)
{
	size_t kept = 0;

	qsort(v, n, sizeof(*v), range_compare);
	for (size_t i = 0; i < n; i++) {
		if (kept && v[i].lo <= v[kept - 1].hi + 1)
			v[kept - 1].hi = v[i].hi > v[kept - 1].hi ? v[i].hi : v[kept - 1].hi;
		else
			v[kept++] = v[i];
	}
	return kept;
}

static int ports_read(struct reader *r)
{
	const struct lg_node *node = r->at[LG_RF_PORTS].node;
	struct lg_rule_def *rule = r->rule;
	size_t n = 0;
	int err;

	if (!node)
		return 0;
	if (node->kind == LG_NODE_LIST && (!node->n || node->n > LG_PORT_RANGES_MAX))
		return complain(r, LG_RF_PORTS, "has %zu entries, but 1 to %d are possible", node->n,
				LG_PORT_RANGES_MAX);
	for (const struct lg_node *p = node->kind == LG_NODE_LIST ? node->child : node; p; p = p->next) {
		err = port_range_read(r, p, &rule->match.destination_ports.v[n++]);
		if (err < 0)
			return err;
		if (p == node)
			break;
	}
	rule->match.destination_ports.n = ranges_merge(rule->match.destination_ports.v, n);
	if (rule->match.has_protocol && rule->match.protocol != IPPROTO_TCP && rule->match.protocol != IPPROTO_UDP &&
	    rule->match.protocol != IPPROTO_SCTP)
		return complain(r, LG_RF_PORTS, "only tcp, udp and sctp have ports, but the protocol is %s",
				text_of(r, LG_RF_PROTOCOL));
	return 0;
}

static int match_read(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;
	uint8_t family, wrong_family;
	int err;

	rule->match.has_protocol = is_written(r, LG_RF_PROTOCOL);
	rule->match.protocol = (uint8_t)r->at[LG_RF_PROTOCOL].num;
	err = prefix_read(r, LG_RF_SOURCE, &r->own[0], &rule->match.source);
	if (err == 0)
		err = prefix_read(r, LG_RF_DESTINATION, &r->own[1], &rule->match.destination);
	if (err == 0)
		err = ports_read(r);
	if (err < 0)
		return err;

	if (rule->match.source.n && rule->match.destination.n && r->own[0].family != r->own[1].family)
		return complain(r, LG_RF_DESTINATION, "IPv%u, but the source is IPv%u: no packet is both", r->own[1].family,
				r->own[0].family);
	family = lg_match_family(&rule->match);
	wrong_family = rule->match.protocol == IPPROTO_ICMP ? 6 : rule->match.protocol == IPPROTO_ICMPV6 ? 4 : 0;
	if (rule->match.has_protocol && wrong_family && family == wrong_family)
		return complain(r, LG_RF_PROTOCOL, "%s does not occur in IPv%u: write %s", text_of(r, LG_RF_PROTOCOL),
				family, family == 6 ? "icmpv6" : "icmp");
	return 0;
}

/* ---- key ---- */

/* One length for both families to share: the family pinned by the match has it, else it is IPv4's where it fits. */
static int key_length_read(struct reader *r, enum lg_rules_field id, struct lg_key_len *ret)
{
	uint8_t len = (uint8_t)r->at[id].num, family = lg_match_family(&r->rule->match);

	if (family == 4 && len > 32)
		return complain(r, id, "%u is too long: the rule matches IPv4 only, which has 32 bits", len);
	if (family == 6 || (family == 0 && len > 32))
		ret->ipv6 = len;
	else
		ret->ipv4 = len;
	return 0;
}

static int key_lengths_check(struct reader *r, enum lg_rules_field id, enum lg_rules_field id4, enum lg_rules_field id6)
{
	uint8_t family = lg_match_family(&r->rule->match);

	if (!is_written(r, id4) && !is_written(r, id6))
		return complain(r, id, "says no length: write ipv4, ipv6 or both");
	if (family == 6 && is_written(r, id4))
		return complain(r, id4, "has no effect: the rule matches IPv6 only");
	if (family == 4 && is_written(r, id6))
		return complain(r, id6, "has no effect: the rule matches IPv4 only");
	return 0;
}

static int key_end_read(struct reader *r, enum lg_rules_field id, enum lg_rules_field id4, enum lg_rules_field id6,
			struct lg_key_len *ret)
{
	ret->ipv4 = (uint8_t)r->at[id4].num;
	ret->ipv6 = (uint8_t)r->at[id6].num;
	if (!is_written(r, id))
		return 0;
	return r->at[id].node->kind == LG_NODE_MAP ? key_lengths_check(r, id, id4, id6) : key_length_read(r, id, ret);
}

static int key_read(struct reader *r)
{
	bool by_source = is_written(r, LG_RF_KEY_SOURCE), by_destination = is_written(r, LG_RF_KEY_DESTINATION);
	struct lg_key_shape *key = &r->rule->key;
	int err;

	key->form = LG_FORM_RULE;
	err = key_end_read(r, LG_RF_KEY_SOURCE, LG_RF_KEY_SOURCE_4, LG_RF_KEY_SOURCE_6, &key->source);
	if (err == 0)
		err = key_end_read(r, LG_RF_KEY_DESTINATION, LG_RF_KEY_DESTINATION_4, LG_RF_KEY_DESTINATION_6, &key->destination);
	if (err < 0 || !is_written(r, LG_RF_KEY))
		return err;
	if (by_source && by_destination)
		return complain(r, LG_RF_KEY, "source and destination together are not supported yet by this version");
	if (!by_source && !by_destination)
		return complain(r, LG_RF_KEY,
				"names no part: write source or destination, or leave key out for one bucket");
	key->form = by_source ? LG_FORM_SOURCE : LG_FORM_DESTINATION;
	key->parts = by_source ? LG_KEY_SOURCE : LG_KEY_DESTINATION;
	return 0;
}

/* ---- limit ---- */

/* Tokens of the rule's unit. */
static int amount_read(struct reader *r, enum lg_rules_field id, uint64_t *ret_tok)
{
	const struct lg_field *field = &lg_rules_fields[id];
	struct lg_complaint why = { 0 };
	int err;

	err = r->rule->unit == LG_UNIT_BYTES ? lg_bytes_parse(text_of(r, id), field->min, field->max, ret_tok, &why)
					     : lg_num_parse(text_of(r, id), field->min, field->max, ret_tok, &why);
	return err < 0 ? complain(r, id, "%s", why.text) : 0;
}

static int burst_read(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;

	rule->burst_tok = rule->limit_tok;
	if (!is_written(r, LG_RF_BURST))
		return 0;
	if (rule->algorithm != LG_TOKEN_BUCKET)
		return complain(r, LG_RF_BURST, "belongs to token_bucket: a window admits its limit at once");
	if (!rule->limit_tok)
		return complain(r, LG_RF_BURST, "a limit of 0 denies everything and has no burst");
	return amount_read(r, LG_RF_BURST, &rule->burst_tok);
}

static int limit_read(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;
	struct lg_complaint why = { 0 };
	char fastest[LG_LIMIT_TEXT_LEN];

	rule->unit = (enum lg_unit)r->at[LG_RF_UNIT].num;
	rule->algorithm = (enum lg_algorithm)r->at[LG_RF_ALGORITHM].num;
	if (rule->algorithm != LG_TOKEN_BUCKET && rule->scope == LG_SCOPE_HOST)
		return complain(r, LG_RF_ALGORITHM, "%s for scope host is not supported yet by this version, only token_bucket",
				lg_algorithm_name(rule->algorithm));
	if (lg_limit_parse(text_of(r, LG_RF_LIMIT), rule->unit == LG_UNIT_BYTES, lg_rules_fields[LG_RF_LIMIT].max,
			   LG_PER_MAX_NS, &rule->limit_tok, &rule->per_ns, &why) < 0)
		return complain(r, LG_RF_LIMIT, "%s", why.text);
	if (rule->limit_tok > rule->per_ns * LG_RATE_MAX_TOK_PER_NS) {
		lg_limit_format(LG_RATE_MAX_TOK_PER_NS * 1000000000ull, 1000000000, rule->unit, fastest,
				sizeof(fastest));
		return complain(r, LG_RF_LIMIT, "\"%.48s\" is faster than the fastest, %s", text_of(r, LG_RF_LIMIT),
				fastest);
	}
	return burst_read(r);
}

/* ---- what happens otherwise ---- */

/* A class is a preset: what is written takes its place. How much is lent at once follows from class and numbers, in the terms. */
static void class_expand(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;
	bool sync = rule->class == LG_CLASS_SYNC;

	rule->fallback = rule->class == LG_CLASS_LEASE ? LG_FALLBACK_SHARE : LG_FALLBACK_DENY;
	rule->lease.kind = sync ? LG_LEASE_BLOCK : LG_LEASE_AUTO;
	rule->lease.owner = sync ? LG_OWNER_ON : LG_OWNER_AUTO;
	if (is_written(r, LG_RF_FALLBACK))
		rule->fallback = (enum lg_fallback)r->at[LG_RF_FALLBACK].num;
	if (is_written(r, LG_RF_LEASE_KIND))
		rule->lease.kind = (enum lg_lease_kind)r->at[LG_RF_LEASE_KIND].num;
	if (is_written(r, LG_RF_LEASE_OWNER))
		rule->lease.owner = (enum lg_lease_owner)r->at[LG_RF_LEASE_OWNER].num;
}

static int cold_start_read(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;
	int err;

	if (!is_written(r, LG_RF_COLD_START)) {
		rule->lease.cold_start_tok = LG_COLD_START_AUTO;
		return 0;
	}
	err = amount_read(r, LG_RF_COLD_START, &rule->lease.cold_start_tok);
	if (err == 0 && rule->lease.cold_start_tok > rule->burst_tok)
		return complain(r, LG_RF_COLD_START, "one host could spend more than the whole limit before its first lease");
	return err;
}

static int lease_read(struct reader *r)
{
	struct lg_rule_def *rule = r->rule;

	if (rule->scope == LG_SCOPE_HOST && is_written(r, LG_RF_LEASE))
		return complain(r, LG_RF_LEASE, "belongs to global rules: a host rule has no lease");
	if (rule->scope == LG_SCOPE_HOST && is_written(r, LG_RF_FALLBACK))
		return complain(r, LG_RF_FALLBACK, "belongs to global rules: a host rule needs no upstream");
	class_expand(r);
	rule->lease.low_water_permille = (uint32_t)r->at[LG_RF_LOW_WATER].num;
	rule->lease.max_outstanding_permille = (uint32_t)r->at[LG_RF_MAX_OUTSTANDING].num;
	rule->lease.rpc_budget_mps = (uint32_t)r->at[LG_RF_RPC_BUDGET].num;
	if (is_written(r, LG_RF_RPC_BUDGET) && is_written(r, LG_RF_MAX_OUTSTANDING))
		return complain(r, LG_RF_RPC_BUDGET, "sets how much is lent at once, as max_outstanding does: write one of them");
	return cold_start_read(r);
}

static int rule_read(const struct lg_node *node, struct lg_rule_def *rule, struct lg_prefix *own, struct lg_complaint *c)
{
	struct reader r = { .rule = rule, .own = own, .c = c };
	int err;

	if (node->kind != LG_NODE_MAP)
		return lg_node_complain(node, c, "a rule is a mapping of keys to values, beginning with `- name:`");
	err = lg_fields_collect(lg_rules_fields, _LG_RF_N, "rules[]", LG_FIELD_BOTH, node, r.at, c);
	if (err < 0)
		return err;
	snprintf(rule->name, sizeof(rule->name), "%s", text_of(&r, LG_RF_NAME));
	rule->line = node->line;
	rule->on_full = (enum lg_on_full)r.at[LG_RF_ON_FULL].num;
	rule->shadow = r.at[LG_RF_SHADOW].num;
	rule->evaluate_all = r.at[LG_RF_EVALUATE].num;

	err = scope_read(&r);
	if (err == 0)
		err = match_read(&r);
	if (err == 0)
		err = key_read(&r);
	if (err == 0)
		err = limit_read(&r);
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
		if (lg_rule_identity(rule) == identity)
			return lg_node_complain(
				node, c,
				"rule \"%s\" has the same scope, match, key, unit and algorithm as rule \"%s\" "
				"on line %u: keep the stricter one",
				last->name, rule->name, rule->line);
	}
	return 0;
}

static int tree_read(const struct lg_tree *tree, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = calloc(1, sizeof(*rules));
	struct lg_field_at at[_LG_RF_N];
	int r;

	if (!rules)
		return -ENOMEM;
	r = lg_fields_collect(lg_rules_fields, _LG_RF_N, "", LG_FIELD_BOTH, tree->root, at, c);
	if (r < 0)
		return r;
	rules->v = calloc(at[LG_RF_RULES].node->n + 1, sizeof(*rules->v));
	rules->own = calloc(at[LG_RF_RULES].node->n + 1, 2 * sizeof(*rules->own));
	if (!rules->v || !rules->own)
		return -ENOMEM;
	for (const struct lg_node *node = at[LG_RF_RULES].node->child; node; node = node->next) {
		r = rule_read(node, &rules->v[rules->n], &rules->own[2 * rules->n], c);
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
	_cleanup_(lg_tree_free) struct lg_tree *tree = NULL;
	int r;

	r = lg_tree_parse(text, len, name, LG_RULES_BYTES_MAX, EXPECT, &tree, c);
	if (r == 0)
		r = tree_read(tree, ret_rules, c);
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
