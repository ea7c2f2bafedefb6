// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An id belongs to an identity until the agent has forgotten its buckets, and so does the virtual time of its rate: levels are
 * positions in it. A rule that left the file therefore leaves its last record behind, in the entries after n_rules, which the
 * kernel does not look at; one that returns goes on from there. Ids of rules in force and of retired ones are different, so both
 * together fit into LG_RULES_MAX entries.
 */
#include "rules/compile.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/action.h"
#include "rules/lines.h"
#include "rules/overlap.h"
#include "rules/rate.h"
#include "rules/vectors.h"
#include "rules/words.h"

struct ordered {
	const struct lg_rule_def *def;
	size_t index; /* in the file */
	int bits;
	unsigned int ports;
};

#define COARSE_WINDOW_NS 1000000000 /* a hundred steps of the coarse clock, or more */

_Static_assert((int)LG_FIXED_WINDOW == LG_RULE_FIXED_WINDOW && (int)LG_SLIDING_WINDOW == LG_RULE_SLIDING_WINDOW &&
	       (int)LG_SLIDING_LOG == LG_RULE_SLIDING_LOG, "the model's algorithms are the kernel's");

struct compiler {
	const struct lg_rules *rules;
	const struct lg_compile_env *env;
	struct ordered order[LG_RULES_MAX]; /* of the set */
	struct lg_classifier *classifier;
	struct lg_ruleset set;
	struct lg_rule_name names[LG_RULES_MAX + 1];
	struct lg_rule built[LG_RULES_MAX]; /* by index in the file */
	struct lg_rule left[LG_RULES_MAX];  /* last records of rules that left */
	struct lg_lines_user users[2 * LG_RULES_MAX];
};

const struct lg_rule *lg_ruleset_find(const struct lg_ruleset *set, uint32_t rule_id)
{
	for (uint32_t i = 0; i < set->n_rules; i++)
		if (set->rules[i].rule_id == rule_id)
			return &set->rules[i];
	return NULL;
}

/* The record of an id, in force or retired. */
static const struct lg_rule *record_find(const struct lg_ruleset *set, uint32_t rule_id)
{
	for (uint32_t i = 0; set && i < LG_RULES_MAX; i++)
		if (set->rules[i].rule_id == rule_id)
			return &set->rules[i];
	return NULL;
}

static uint32_t max_rules_of(const struct lg_compile_env *env)
{
	return env->max_rules ? env->max_rules : LG_RULES_MAX;
}

/* ---- one rule ---- */

/*
 * Virtual time goes on from `old`, or begins. With slope and burst unchanged the anchor stays too: reloading a file again and again
 * must not round anything.
 */
static int rate_carry(const struct lg_rate *old, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t now_ns,
		      struct lg_rate *ret)
{
	struct lg_rate next;
	int r;

	if (!old)
		return lg_rate_init(rate_tok, per_ns, burst_tok, now_ns, ret);
	r = lg_rate_change(old, rate_tok, per_ns, burst_tok, now_ns, &next);
	if (r < 0)
		return r;
	if (next.mult == old->mult && next.shift == old->shift && next.unit_per_tok == old->unit_per_tok &&
	    next.burst_vt == old->burst_vt)
		next = *old;
	*ret = next;
	return 0;
}

/* What this host may take of a global rule by itself: divided by regions and by the hosts of this one. */
static int share_carry(const struct lg_rule_def *def, const struct lg_compile_env *env, const struct lg_rate *old,
		       struct lg_rate *ret)
{
	struct lg_share share;

	lg_rule_share(def, (uint64_t)env->n_regions * env->hosts_in_region, &share);
	return rate_carry(old, share.rate_tok, share.per_ns, share.burst_tok, env->now_ns, ret);
}

static void masks_fill(const struct lg_key_len *len, uint8_t mask4[16], uint8_t mask6[16])
{
	memset(mask4, 0xff, 16);
	memset(mask6, 0xff, 16);
	lg_addr_mask(mask4, 96u + len->ipv4);
	lg_addr_mask(mask6, len->ipv6);
}

static void narrow_fill(uint32_t parts, struct lg_key_narrow *mask)
{
	mask->source_port = parts & LG_KEY_SOURCE_PORT ? 0xffff : 0;
	mask->destination_port = parts & LG_KEY_DESTINATION_PORT ? 0xffff : 0;
	mask->vlan = parts & LG_KEY_VLAN ? 0xffff : 0;
	mask->inner_vlan = parts & LG_KEY_INNER_VLAN ? 0xffff : 0;
	mask->interface = parts & LG_KEY_INTERFACE ? ~0u : 0;
	mask->protocol = parts & LG_KEY_PROTOCOL ? 0xff : 0;
}

static void key_fill(const struct lg_rule_def *def, struct lg_rule *rule)
{
	const struct lg_key_shape *key = &def->key;

	if (key->form & LG_FORM_PRODUCT) {
		rule->product_form = key->form;
		rule->hash_seed[0] = def->is_secret ? def->secret_key[0] : lg_rule_identity(def);
		rule->hash_seed[1] = def->is_secret ? def->secret_key[1] : 0;
		rule->n_texts = key->n_texts;
		narrow_fill(key->parts, &rule->narrow_mask);
		if (key->parts & LG_KEY_SOURCE)
			masks_fill(&key->source, rule->key_mask4, rule->key_mask6);
		if (key->parts & LG_KEY_DESTINATION)
			masks_fill(&key->destination, rule->destination_mask4, rule->destination_mask6);
		return;
	}
	rule->key_form = (uint8_t)key->form;
	if (key->form != LG_FORM_RULE)
		masks_fill(key->form == LG_FORM_DESTINATION ? &key->destination : &key->source, rule->key_mask4, rule->key_mask6);
}

static uint8_t mask_bits(const uint8_t mask[16])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < 16; i++)
		n += (unsigned int)__builtin_popcount(mask[i]);
	return (uint8_t)n;
}

static struct lg_key_len len_of(const uint8_t mask4[16], const uint8_t mask6[16])
{
	unsigned int bits4 = mask_bits(mask4);

	return (struct lg_key_len){ (uint8_t)(bits4 > 96 ? bits4 - 96 : 0), mask_bits(mask6) };
}

void lg_key_shape_of(const struct lg_rule *rule, struct lg_key_shape *ret)
{
	static const struct lg_key_len whole = { 32, 128 };
	struct lg_key_shape shape = { .source = whole, .destination = whole };

	if (rule) {
		shape.form = rule->key_form ? rule->key_form : rule->product_form;
		shape.parts = lg_key_parts(shape.form);
		shape.n_texts = rule->n_texts;
		shape.source = len_of(rule->key_mask4, rule->key_mask6);
		shape.destination = rule->key_form ? shape.source : len_of(rule->destination_mask4, rule->destination_mask6);
	}
	*ret = shape;
}

static uint32_t flags_of(const struct lg_rule_def *def)
{
	uint32_t flags = 0;

	flags |= def->scope == LG_SCOPE_GLOBAL ? LG_RULE_GLOBAL : 0;
	flags |= def->shadow ? LG_RULE_SHADOW : 0;
	flags |= def->evaluate_all ? LG_RULE_EVALUATE_ALL : 0;
	flags |= lg_match_names_exempt(&def->match) ? LG_RULE_EXEMPT : 0;
	flags |= def->unit == LG_UNIT_BYTES ? LG_RULE_BYTES : 0;
	flags |= def->unit == LG_UNIT_REQUESTS ? LG_RULE_REQUESTS : 0;
	flags |= lg_rule_acts(def) ? LG_RULE_ACTS : 0;
	return flags;
}

/* Windows and logs of host scope. Logs are exact, and so is their clock; for windows of a second and more the coarse one will do. */
static void windows_fill(const struct lg_rule_def *def, const struct lg_rule *old, uint64_t now_ns, struct lg_rule *rule)
{
	rule->algorithm = (uint8_t)def->algorithm;
	if (def->algorithm == LG_SLIDING_LOG) {
		rule->window.length_ns = def->per_ns;
		rule->cold_burst_tok = def->limit_tok < LG_LOG_COST_MAX ? def->limit_tok : LG_LOG_COST_MAX;
		return;
	}
	lg_window_change(old ? &old->window : NULL, def->per_ns, now_ns, &rule->window);
	rule->rate.coarse = def->per_ns >= COARSE_WINDOW_NS;
}

/*
 * A bucket that paces promises the horizon's tokens before they are there, and how long a packet has to wait for its own follows from
 * where it leaves the bucket: to the clock's last ns, for packets must not overtake each other.
 */
static int paced_fill(const struct lg_rule_def *def, const struct lg_rule *old, uint64_t now_ns, struct lg_rule *rule)
{
	uint64_t most_tok = def->burst_tok + lg_pace_horizon_tok(def);
	int r = rate_carry(old ? &old->rate : NULL, def->limit_tok, def->per_ns, most_tok, now_ns, &rule->rate);

	rule->cold_burst_tok = most_tok;
	rule->rate.coarse = 0;
	return r;
}

/* `old` is the last record of this id, or NULL for a new id. -ERANGE: levels cannot carry over. */
static int rule_build(const struct lg_rule_def *def, const struct lg_compile_env *env, uint32_t rule_id,
		      const struct lg_rule *old, struct lg_rule *ret)
{
	struct lg_rule rule = { .rule_id = rule_id, .flags = flags_of(def) };
	int r;

	key_fill(def, &rule);
	rule.on_full = (uint8_t)def->on_full;
	rule.fallback = (uint8_t)def->fallback;
	rule.cold_burst_tok = rule.burst_tok = def->burst_tok;
	rule.rate_tok = def->limit_tok;
	rule.per_ns = def->per_ns;
	rule.cost = (uint32_t)def->cost;
	rule.action = (uint8_t)def->action;
	rule.action_value = def->action_value;
	rule.connection = lg_unit_connection(def->unit);
	rule.special |= lg_unit_is_connection(def->unit) ? LG_SPECIAL_CONNECTION : 0;
	/* In shadow mode nobody is refused, so nobody is banned for it. */
	if (def->ban.after && !def->shadow) {
		rule.special |= LG_SPECIAL_BAN;
		rule.ban = def->ban;
	}

	if (lg_unit_is_count(def->unit)) {
		r = 0;
	} else if (lg_lines_hold(def, env)) {
		r = lg_lines_fill(def, env, old, &rule);
	} else if (def->scope == LG_SCOPE_HOST && def->algorithm != LG_TOKEN_BUCKET) {
		windows_fill(def, old, env->now_ns, &rule);
		r = 0;
	} else if (lg_rule_acts(def) && def->action == LG_ACTION_PACE) {
		r = paced_fill(def, old, env->now_ns, &rule);
	} else if (def->scope == LG_SCOPE_HOST) {
		r = rate_carry(old ? &old->rate : NULL, def->limit_tok, def->per_ns, def->burst_tok, env->now_ns, &rule.rate);
	} else {
		rule.share_delay_ns = def->algorithm == LG_TOKEN_BUCKET ? env->grace_ns : def->per_ns;
		r = share_carry(def, env, old ? &old->share : NULL, &rule.share);
	}
	if (r == 0)
		*ret = rule;
	return r;
}

/* ---- ids ---- */

/* A rule that goes to another table is another rule: its levels stay behind. */
static uint64_t identity_of(const struct lg_rule_def *def, const struct lg_compile_env *env)
{
	return lg_rule_identity(def) ^ (lg_lines_hold(def, env) ? 0x6c696e6573ull : 0);
}

/* The id an identity has: of a rule in force, else of the one that left last. 0: none. */
static uint32_t id_find(const struct lg_rule_name *names, uint64_t identity)
{
	uint32_t found = 0;

	for (uint32_t id = 1; names && id <= LG_RULES_MAX; id++) {
		if (!names[id].name[0] || names[id].fingerprint != identity)
			continue;
		if (!names[id].retired_ns)
			return id;
		if (!found || names[id].retired_ns > names[found].retired_ns)
			found = id;
	}
	return found;
}

static void name_set(struct compiler *k, uint32_t id, const struct lg_rule_def *def)
{
	struct lg_rule_name *name = &k->names[id];

	memset(name, 0, sizeof(*name));
	snprintf(name->name, sizeof(name->name), "%s", def->name);
	name->fingerprint = identity_of(def, k->env);
	lg_match_text(&def->match, name->match, sizeof(name->match));
}

static int numbers_complain(const struct lg_rule_def *def, struct lg_complaint *c)
{
	char limit[LG_LIMIT_TEXT_LEN];

	lg_limit_format(def->limit_tok, def->per_ns, def->unit, limit, sizeof(limit));
	c->line = def->line;
	c->col = 0;
	return lg_complain(c, "rule \"%s\": a limit of %s with a burst of %" PRIu64 " is outside what the kernel can count", def->name,
			   limit, def->burst_tok);
}

/*
 * Rules whose identity is known keep their id. Where the new numbers do not fit the units of the old ones (a limit raised some
 * hundredfold at once) the rule takes a new id instead: what it spent of its old, far smaller burst is forgotten.
 */
static int known_ids_keep(struct compiler *k, struct lg_complaint *c)
{
	const struct lg_compile_env *env = k->env;
	int r;

	for (size_t i = 0; i < k->rules->n; i++) {
		const struct lg_rule_def *def = &k->rules->v[i];
		uint32_t id = id_find(env->old_names, identity_of(def, env));
		const struct lg_rule *old = id ? record_find(env->old_set, id) : NULL;

		if (!old || k->names[id].name[0])
			continue;
		r = rule_build(def, env, id, old, &k->built[i]);
		if (r == -ERANGE)
			continue;
		if (r < 0)
			return numbers_complain(def, c);
		name_set(k, id, def);
	}
	return 0;
}

/* What no rule took over is retired, if it was not before: its buckets are still there. */
static void rest_retire(struct compiler *k)
{
	const struct lg_rule_name *old = k->env->old_names;

	for (uint32_t id = 1; old && id <= LG_RULES_MAX; id++) {
		if (k->names[id].name[0] || !old[id].name[0])
			continue;
		k->names[id] = old[id];
		if (!old[id].retired_ns)
			k->names[id].retired_ns = k->env->now_ns ? k->env->now_ns : 1;
	}
}

static int new_ids_give(struct compiler *k, struct lg_complaint *c)
{
	uint32_t id = 1;

	for (size_t i = 0; i < k->rules->n; i++) {
		const struct lg_rule_def *def = &k->rules->v[i];

		if (k->built[i].rule_id)
			continue;
		while (id <= max_rules_of(k->env) && k->names[id].name[0])
			id++;
		if (id > max_rules_of(k->env)) {
			c->line = def->line;
			c->col = 0;
			return lg_complain(c,
					   "rule \"%s\": no id is free, because the buckets of rules that left the file still hold "
					   "theirs: load it again in a minute",
					   def->name);
		}
		if (rule_build(def, k->env, id, NULL, &k->built[i]) < 0)
			return numbers_complain(def, c);
		name_set(k, id, def);
	}
	return 0;
}

/* New rules get their lines. What rules have that are in force, or left and are not forgotten, stays theirs. */
static int lines_give(struct compiler *k, struct lg_complaint *c)
{
	struct lg_lines_user *users = k->users;
	const struct lg_rule *record;
	size_t n = 0, n_left = 0;

	for (; n < k->rules->n; n++)
		users[n] = (struct lg_lines_user){ &k->rules->v[n], &k->built[n] };
	for (uint32_t id = 1; id <= LG_RULES_MAX; id++) {
		record = k->names[id].retired_ns ? record_find(k->env->old_set, id) : NULL;
		if (!record)
			continue;
		k->left[n_left] = *record;
		users[n++] = (struct lg_lines_user){ NULL, &k->left[n_left++] };
	}
	return lg_lines_place(users, n, k->env->n_lines, c);
}

/* ---- exemptions ---- */

static size_t n_exemptions(const struct compiler *k)
{
	return k->rules->n_exemptions + k->env->n_exemptions;
}

/* Those of the file come first. */
static const struct lg_exemption *exemption_at(const struct compiler *k, size_t i)
{
	return i < k->rules->n_exemptions ? &k->rules->exemptions[i] : &k->env->exemptions[i - k->rules->n_exemptions];
}

/* What the bits of a classifier are for. */
static size_t n_matches(const struct compiler *k)
{
	return k->rules->n + n_exemptions(k);
}

static const struct lg_match *match_at(const struct compiler *k, size_t i)
{
	return i < k->rules->n ? &k->rules->v[i].match : &exemption_at(k, i - k->rules->n)->match;
}

/* Their records, behind those of the n rules; the kernel reads little of them. */
static void exemptions_fill(struct compiler *k, uint32_t n)
{
	k->set.n_pass = (uint32_t)n_exemptions(k);
	for (uint32_t i = 0; i < k->set.n_pass; i++) {
		const struct lg_exemption *e = exemption_at(k, i);
		struct lg_rule *record = &k->set.rules[n + i];

		record->flags = LG_RULE_PASS | (e->is_bounded ? LG_RULE_BOUNDED : 0);
		record->flags |= lg_match_names_exempt(&e->match) ? LG_RULE_EXEMPT : 0;
		record->special = LG_SPECIAL_PASS;
		lg_bits_set(&k->set.pass, n + i);
	}
}

/* Rules, exemptions and the records of rules that left share one array. */
static int room_check(const struct compiler *k, struct lg_complaint *c)
{
	size_t n = n_matches(k), n_left = 0;

	c->line = k->rules->n_exemptions ? k->rules->exemptions[k->rules->n_exemptions - 1].line : 0;
	c->col = 0;
	if (n > LG_RULES_MAX)
		return lg_complain(c, "%zu rules and %zu exemptions (%zu of them the agent's own) are too many: %d is the most together",
				   k->rules->n, n_exemptions(k), k->env->n_exemptions, LG_RULES_MAX);
	for (uint32_t id = 1; k->env->old_names && id <= LG_RULES_MAX; id++)
		n_left += k->names[id].retired_ns && record_find(k->env->old_set, id);
	if (n + n_left > LG_RULES_MAX)
		return lg_complain(c, "the records of %zu rules that left the file are still needed, and there is no room beside them: load it "
				      "again in a minute", n_left);
	return 0;
}

/* ---- the set ---- */

static unsigned int ports_of(const struct lg_rule_def *def)
{
	unsigned int n = 0;

	for (size_t i = 0; i < def->match.destination_ports.n; i++)
		n += 1u + def->match.destination_ports.v[i].hi - def->match.destination_ports.v[i].lo;
	return n ? n : 65537;
}

/* How many bits of both addresses the rule knows at least. */
static int bits_of(const struct lg_match *match)
{
	const struct lg_prefix_list *ends[] = { &match->source, &match->destination };
	int bits = 0, least;

	for (size_t e = 0; e < N_ELEMS(ends); e++) {
		least = ends[e]->n ? 128 : 0;
		for (size_t i = 0; i < ends[e]->n; i++)
			least = ends[e]->v[i].len < least ? ends[e]->v[i].len : least;
		bits += least;
	}
	return bits;
}

static bool has_log(const struct lg_rule_def *def)
{
	return def->scope == LG_SCOPE_HOST && def->algorithm == LG_SLIDING_LOG;
}

/* Before 0: a is the more specific one. */
static int specificity_compare(const void *pa, const void *pb)
{
	const struct ordered *a = pa, *b = pb;

	/* Of the rules that a packet matches a log is taken from last. */
	if (has_log(a->def) != has_log(b->def))
		return has_log(a->def) ? 1 : -1;
	if (a->bits != b->bits)
		return a->bits > b->bits ? -1 : 1;
	if (a->ports != b->ports)
		return a->ports < b->ports ? -1 : 1;
	if (a->def->match.has_protocol != b->def->match.has_protocol)
		return a->def->match.has_protocol ? -1 : 1;
	return a->index < b->index ? -1 : 1;
}

/* The class of an interface's name in the set, made if needed; 0: there are too many. */
static uint32_t interface_class(struct lg_ruleset *set, const char *name)
{
	for (uint32_t i = 1; i < LG_INTERFACE_CLASSES; i++) {
		if (!set->interfaces[i][0])
			snprintf(set->interfaces[i], sizeof(set->interfaces[i]), "%s", name);
		if (strcmp(set->interfaces[i], name) == 0)
			return i;
	}
	return 0;
}

static int interfaces_fill(struct compiler *k, const struct lg_match *match, struct lg_complaint *c)
{
	for (size_t j = 0; j < match->n_interfaces; j++) {
		if (interface_class(&k->set, match->interfaces[j]))
			continue;
		return lg_complain(c, "\"%s\" is one interface too many: the rules of a file can name %d", match->interfaces[j],
				   LG_INTERFACE_CLASSES - 1);
	}
	return 0;
}

/* What has to be looked up for a packet. */
static int needs_fill(struct compiler *k, struct lg_complaint *c)
{
	int r = 0;

	for (size_t i = 0; i < n_matches(k) && r == 0; i++) {
		const struct lg_match *match = match_at(k, i);

		k->set.needs |= match->n_interfaces ? LG_NEEDS_INTERFACE : 0;
		c->line = i < k->rules->n ? k->rules->v[i].line : exemption_at(k, i - k->rules->n)->line;
		c->col = 0;
		r = interfaces_fill(k, match, c);
	}
	for (size_t i = 0; i < k->rules->n; i++) {
		k->set.needs |= k->rules->v[i].key.parts & LG_KEY_CGROUP ? LG_NEEDS_CGROUP : 0;
		k->set.needs |= k->rules->v[i].unit == LG_UNIT_BYTES ? LG_NEEDS_BYTES : 0;
		k->set.needs |= lg_unit_is_connection(k->rules->v[i].unit) ? LG_NEEDS_CONNECTIONS : 0;
		k->set.needs |= k->rules->v[i].match.initiated ? LG_NEEDS_INITIATED : 0;
		k->set.needs |= lg_rule_acts(&k->rules->v[i]) && k->rules->v[i].action == LG_ACTION_ECN ? LG_NEEDS_ECN : 0;
	}
	return r;
}

static void set_fill(struct compiler *k)
{
	const struct lg_ruleset *old = k->env->old_set;
	const struct lg_rule *record;
	uint32_t n = 0;

	for (; n < k->rules->n; n++)
		k->set.rules[n] = k->built[k->order[n].index];
	k->set.n_rules = n;
	exemptions_fill(k, n);
	n += k->set.n_pass;
	for (uint32_t i = 0; i < n; i++)
		if (k->set.rules[i].flags & LG_RULE_EXEMPT)
			lg_bits_set(&k->set.exempt, i);
	for (uint32_t i = 0; i < k->set.n_rules; i++)
		if (k->order[i].def->match.initiated)
			lg_bits_set(&k->set.initiated, i);
	k->set.version = (old ? old->version : 0) + 1;

	for (uint32_t id = 1; id <= LG_RULES_MAX; id++) {
		record = k->names[id].retired_ns ? record_find(old, id) : NULL;
		if (record)
			k->set.rules[n++] = *record;
	}
}

/* ---- what the rules match ---- */

/* By place in the file. */
static void matches_of(const struct compiler *k, const struct lg_overlap *overlap, bool ret[LG_RULES_MAX])
{
	for (size_t i = 0; i < k->rules->n; i++)
		ret[k->order[i].index] = lg_bits_have(&overlap->matches, i);
}

static int overlap_complain(const struct compiler *k, enum lg_overlap_result result, const struct lg_overlap *overlap,
			    struct lg_complaint *c)
{
	char packet[256], names[256] = "";
	bool matches[LG_RULES_MAX];
	size_t len = 0, n = 0;

	matches_of(k, overlap, matches);
	for (size_t i = 0; i < k->rules->n; i++) {
		if (!matches[i])
			continue;
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", n ? ", " : "", k->rules->v[i].name);
		if (++n == LG_MATCHES_MAX + 1)
			c->line = k->rules->v[i].line;
	}
	c->col = 0;
	if (result == LG_OVERLAP_UNKNOWN)
		return lg_complain(c,
				   "these rules overlap in so many ways that it takes too long to tell whether a packet could match more than "
				   "%d of them; let them name narrower ports, prefixes or protocols: %s%s",
				   LG_MATCHES_MAX, names, len < sizeof(names) ? "" : "...");
	lg_overlap_format(overlap, (const char(*)[16])k->set.interfaces, packet, sizeof(packet));
	return lg_complain(c, "%s would match %zu rules, and %d is the most: %s%s", packet, n, LG_MATCHES_MAX, names,
			   len < sizeof(names) ? "" : "...");
}

/* A packet can be charged to one log. */
static int logs_check(const struct compiler *k, struct lg_complaint *c)
{
	const struct lg_rule_def *both[2] = { NULL, NULL };
	bool matches[LG_RULES_MAX];
	struct lg_bits logs = { { 0 } };
	struct lg_overlap overlap;
	char packet[256];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < k->rules->n; i++)
		if (has_log(k->order[i].def))
			lg_bits_set(&logs, i);
	r = lg_overlap_find(k->classifier, &logs, 1, &overlap);
	if (r <= 0)
		return r;
	matches_of(k, &overlap, matches);
	for (size_t i = 0; i < k->rules->n && n < 2; i++)
		if (matches[i])
			both[n++] = &k->rules->v[i];
	c->line = both[1]->line;
	c->col = 0;
	if (r == LG_OVERLAP_UNKNOWN)
		return lg_complain(c, "it takes too long to tell whether a packet could match two rules with a sliding_log of scope host: let "
				      "them name narrower ports, prefixes or protocols");
	lg_overlap_format(&overlap, (const char(*)[16])k->set.interfaces, packet, sizeof(packet));
	return lg_complain(c, "%s would match \"%s\" and \"%s\": a packet can be charged to one sliding_log of scope host", packet,
			   both[0]->name, both[1]->name);
}

/* A connection has room for what a few rules charged for it. */
static int connections_check(const struct compiler *k, struct lg_complaint *c)
{
	struct lg_bits connections = { { 0 } };
	bool matches[LG_RULES_MAX];
	struct lg_overlap overlap;
	char packet[256];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < k->rules->n; i++)
		if (lg_unit_is_connection(k->order[i].def->unit))
			lg_bits_set(&connections, i);
	r = lg_overlap_find(k->classifier, &connections, LG_CONN_CHARGES_MAX, &overlap);
	if (r <= 0)
		return r;
	matches_of(k, &overlap, matches);
	c->line = 0;
	c->col = 0;
	for (size_t i = 0; i < k->rules->n; i++)
		if (matches[i] && ++n == LG_CONN_CHARGES_MAX + 1)
			c->line = k->rules->v[i].line;
	if (r == LG_OVERLAP_UNKNOWN)
		return lg_complain(c,
				   "it takes too long to tell whether a packet could match more than %d rules about connections: let them "
				   "name narrower ports or prefixes",
				   LG_CONN_CHARGES_MAX);
	lg_overlap_format(&overlap, (const char(*)[16])k->set.interfaces, packet, sizeof(packet));
	return lg_complain(c, "%s would match %zu rules about connections, and %d is the most", packet, n, LG_CONN_CHARGES_MAX);
}

static int classifier_build(struct compiler *k, struct lg_complaint *c)
{
	const struct lg_rule_def *def = k->rules->v;
	const struct lg_match *matches[LG_RULES_MAX];
	struct lg_bits rules = { { 0 } };
	struct lg_overlap overlap;
	int r;

	for (size_t i = 0; i < k->rules->n; i++, def++)
		k->order[i] = (struct ordered){ def, i, bits_of(&def->match), ports_of(def) };
	qsort(k->order, k->rules->n, sizeof(k->order[0]), specificity_compare);
	for (size_t i = 0; i < n_matches(k); i++)
		matches[i] = i < k->rules->n ? &k->order[i].def->match : match_at(k, i);
	for (size_t i = 0; i < k->rules->n; i++)
		lg_bits_set(&rules, i);
	if (!k->classifier)
		return 0;
	c->line = 0;
	c->col = 0;
	r = lg_vectors_build(matches, n_matches(k), (const char(*)[16])k->set.interfaces, k->classifier, c);
	if (r == 0)
		r = lg_overlap_find(k->classifier, &rules, LG_MATCHES_MAX, &overlap);
	if (r > 0)
		r = overlap_complain(k, r, &overlap, c);
	if (r == 0)
		r = logs_check(k, c);
	if (r == 0)
		r = connections_check(k, c);
	if (r == -ENOMEM)
		lg_complain(c, "not enough memory to compile the rules");
	return r;
}

int lg_rules_compile(const struct lg_rules *rules, const struct lg_compile_env *env, struct lg_ruleset *ret_set,
		     struct lg_classifier *ret_classifier, struct lg_rule_name *ret_names, struct lg_complaint *c)
{
	uint32_t max_rules = max_rules_of(env);
	_cleanup_free_ struct compiler *k = NULL;
	int r;

	if (rules->n > max_rules) {
		c->line = rules->v[max_rules].line;
		c->col = 0;
		return lg_complain(c, "rule \"%s\" is one too many: %u is the most%s", rules->v[max_rules].name, max_rules,
				   max_rules < LG_RULES_MAX ? " (max_rules in the configuration)" : "");
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		lg_complain(c, "not enough memory to compile the rules");
		return -ENOMEM;
	}
	k->rules = rules;
	k->env = env;
	k->classifier = ret_classifier;

	r = room_check(k, c);
	if (r == 0)
		r = needs_fill(k, c);
	if (r == 0)
		r = classifier_build(k, c);
	if (r == 0)
		r = known_ids_keep(k, c);
	if (r < 0)
		return r;
	rest_retire(k);
	r = new_ids_give(k, c);
	if (r < 0)
		return r;
	r = lines_give(k, c);
	if (r == 0)
		r = room_check(k, c);
	if (r < 0)
		return r;
	set_fill(k);
	*ret_set = k->set;
	memcpy(ret_names, k->names, sizeof(k->names));
	return 0;
}
