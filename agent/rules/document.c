// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/document.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "rules/tree.h"
#include "rules/yaml.h"

#define HEAD "#leasegate rules 1"
#define NS_PER_MS 1000000ull

int lg_rules_stamp_compare(const struct lg_rules_stamp *a, const struct lg_rules_stamp *b)
{
	if (a->counter != b->counter)
		return a->counter < b->counter ? -1 : 1;
	if (a->unix_ms != b->unix_ms)
		return a->unix_ms < b->unix_ms ? -1 : 1;
	return strcmp(a->region, b->region);
}

/* ---- texts ---- */

uint64_t lg_rules_text_hash(const char *text, size_t len)
{
	return XXH3_64bits(text, len);
}

int lg_rules_text_set(struct lg_rules_text_ref *ref, const char *text, size_t len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	free(ref->text);
	*ref = (struct lg_rules_text_ref){ .text = copy, .len = len, .hash = lg_rules_text_hash(copy, len) };
	return 0;
}

struct lg_rules_doc *lg_rules_doc_free(struct lg_rules_doc *doc)
{
	if (!doc)
		return NULL;
	free(doc->text.text);
	free(doc->base.text);
	free(doc);
	return NULL;
}

struct lg_rules_doc *lg_rules_doc_copy(const struct lg_rules_doc *doc)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *copy = malloc(sizeof(*copy));

	if (!copy)
		return NULL;
	*copy = *doc;
	copy->text.text = copy->base.text = NULL;
	if ((doc->text.text && lg_rules_text_set(&copy->text, doc->text.text, doc->text.len) < 0) ||
	    (doc->base.text && lg_rules_text_set(&copy->base, doc->base.text, doc->base.len) < 0))
		return NULL;
	return TAKE(copy);
}

/* ---- gates ---- */

static const struct lg_rule_def *rule_find(const struct lg_rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->n; i++)
		if (strcmp(rules->v[i].name, name) == 0)
			return &rules->v[i];
	return NULL;
}

static const struct lg_rule_def *first_global_apart(const struct lg_rules *of, const struct lg_rules *than)
{
	for (size_t i = 0; i < of->n; i++) {
		const struct lg_rule_def *other = rule_find(than, of->v[i].name);

		if (of->v[i].scope == LG_SCOPE_GLOBAL && (!other || lg_rule_fingerprint(other) != lg_rule_fingerprint(&of->v[i])))
			return &of->v[i];
	}
	return NULL;
}

int lg_rules_gate_check(const struct lg_rules *text, const struct lg_rules *base, struct lg_complaint *c)
{
	const struct lg_rule_def *apart = first_global_apart(text, base);

	c->line = apart ? apart->line : 0;
	c->col = 0;
	apart = apart ? apart : first_global_apart(base, text);
	if (!apart)
		return 0;
	return lg_complain(c, "rule \"%s\" is global: its limit is one for all nodes, so it cannot be another one on some of them; leave it as "
			      "it is here, and apply its change to all",
			   apart->name);
}

/* ---- overrides ---- */

static struct lg_rules_override *override_find(struct lg_rules_doc *doc, const char *rule)
{
	for (size_t i = 0; i < doc->n_overrides; i++)
		if (strcmp(doc->overrides[i].rule, rule) == 0)
			return &doc->overrides[i];
	return NULL;
}

int lg_rules_override_put(struct lg_rules_doc *doc, const struct lg_rules_override *override)
{
	struct lg_rules_override *at = override_find(doc, override->rule);

	if (!at && doc->n_overrides == LG_RULES_OVERRIDES_MAX)
		return -ENOSPC;
	if (!at)
		at = &doc->overrides[doc->n_overrides++];
	*at = *override;
	return 0;
}

static size_t overrides_keep(struct lg_rules_doc *doc, bool (*keep)(const struct lg_rules_override *o, const void *arg), const void *arg)
{
	size_t kept = 0, before = doc->n_overrides;

	for (size_t i = 0; i < before; i++)
		if (keep(&doc->overrides[i], arg))
			doc->overrides[kept++] = doc->overrides[i];
	doc->n_overrides = kept;
	return before - kept;
}

static bool is_of_another(const struct lg_rules_override *o, const void *rule)
{
	return strcmp(o->rule, rule) != 0;
}

static bool has_time(const struct lg_rules_override *o, const void *arg)
{
	(void)arg;
	return o->until_ns != 0;
}

static bool is_live(const struct lg_rules_override *o, const void *now_ns)
{
	return !o->until_ns || o->until_ns > *(const uint64_t *)now_ns;
}

size_t lg_rules_override_drop(struct lg_rules_doc *doc, const char *rule)
{
	return overrides_keep(doc, rule ? is_of_another : has_time, rule);
}

void lg_rules_doc_expire(struct lg_rules_doc *doc, uint64_t now_ns)
{
	overrides_keep(doc, is_live, &now_ns);
}

uint64_t lg_rules_doc_end_ns(const struct lg_rules_doc *doc, uint64_t now_ns)
{
	uint64_t first_ns = 0;

	for (size_t i = 0; i < doc->n_overrides; i++) {
		uint64_t until_ns = doc->overrides[i].until_ns;

		if (until_ns > now_ns && (!first_ns || until_ns < first_ns))
			first_ns = until_ns;
	}
	return first_ns;
}

static void change_text(const struct lg_rules_override *o, char *buf, size_t len)
{
	switch (o->kind) {
	case LG_OVERRIDE_SET:
		snprintf(buf, len, "%s%s%s%s%s", o->limit[0] ? "limit " : "", o->limit, o->limit[0] && o->burst[0] ? ", " : "",
			 o->burst[0] ? "burst " : "", o->burst);
		return;
	case LG_OVERRIDE_DISABLE: snprintf(buf, len, "disabled"); return;
	case LG_OVERRIDE_SHADOW: snprintf(buf, len, "shadow"); return;
	}
}

void lg_rules_override_text(const struct lg_rules_override *o, char *buf, size_t len)
{
	char change[2 * LG_RULES_WORD_LEN + 32] = "", gate[LG_GATE_TEXT_LEN];

	change_text(o, change, sizeof(change));
	lg_gate_text(&o->gate, gate, sizeof(gate));
	snprintf(buf, len, "%s%s%s", change, lg_gate_is_set(&o->gate) ? " on " : "", lg_gate_is_set(&o->gate) ? gate : "");
}

/* ---- what is to be in force: overrides change the tree of the text, so that all that a file is checked for is checked of them ---- */

static struct lg_node *child_find(const struct lg_node *map, const char *key)
{
	struct lg_node *child = map->kind == LG_NODE_MAP ? map->child : NULL;

	for (; child; child = child->next)
		if (strcmp(child->key, key) == 0)
			return child;
	return NULL;
}

/* The place of the first rule of this name, in the list of rules. */
static struct lg_node **rule_place(struct lg_node *list, const char *name)
{
	for (struct lg_node **at = &list->child; *at; at = &(*at)->next) {
		const struct lg_node *written = child_find(*at, "name");

		if (written && written->kind == LG_NODE_SCALAR && strcmp(written->text, name) == 0)
			return at;
	}
	return NULL;
}

static struct lg_node *scalar_add(struct lg_tree *tree, struct lg_node *map, const char *key)
{
	struct lg_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	*node = (struct lg_node){ .kind = LG_NODE_SCALAR, .line = map->line, .col = map->col, .key_line = map->line, .key_col = map->col };
	node->all = tree->all;
	tree->all = node;
	node->key = strdup(key);
	node->next = map->child;
	map->child = node;
	map->n++;
	return node->key ? node : NULL;
}

static int scalar_set(struct lg_tree *tree, struct lg_node *map, const char *key, const char *value)
{
	struct lg_node *node = child_find(map, key);
	char *text = strdup(value);

	if (text && !node)
		node = scalar_add(tree, map, key);
	if (!text || !node) {
		free(text);
		return -ENOMEM;
	}
	free(node->text);
	node->text = text;
	node->kind = LG_NODE_SCALAR;
	node->child = NULL;
	node->n = 0;
	return 0;
}

static int override_apply(struct lg_tree *tree, struct lg_node *list, const struct lg_rules_override *o)
{
	struct lg_node **at = rule_place(list, o->rule);
	int r = 0;

	if (!at)
		return 0;
	switch (o->kind) {
	case LG_OVERRIDE_SET:
		if (o->limit[0])
			r = scalar_set(tree, *at, "limit", o->limit);
		if (r == 0 && o->burst[0])
			r = scalar_set(tree, *at, "burst", o->burst);
		return r;
	case LG_OVERRIDE_DISABLE:
		*at = (*at)->next;
		list->n--;
		return 0;
	case LG_OVERRIDE_SHADOW: return scalar_set(tree, *at, "shadow", "true");
	}
	return -EINVAL;
}

struct edit {
	const struct lg_rules_doc *doc;
	const struct lg_gate_node *node;
	uint64_t now_ns;
};

static int tree_edit(void *arg, struct lg_tree *tree)
{
	struct lg_node *list = child_find(tree->root, "rules");
	const struct edit *e = arg;
	int r = 0;

	if (!list || list->kind != LG_NODE_LIST)
		return 0;
	for (size_t i = 0; r == 0 && i < e->doc->n_overrides; i++)
		if (is_live(&e->doc->overrides[i], &e->now_ns) && lg_gate_takes(&e->doc->overrides[i].gate, e->node))
			r = override_apply(tree, list, &e->doc->overrides[i]);
	return r;
}

int lg_rules_doc_rules(const struct lg_rules_doc *doc, bool has_text, const struct lg_gate_node *node, uint64_t now_ns, const char *name,
		       struct lg_rules **ret_rules, struct lg_complaint *c)
{
	const struct lg_rules_text_ref *ref = has_text || !lg_gate_is_set(&doc->gate) ? &doc->text : &doc->base;
	struct edit e = { .doc = doc, .node = node, .now_ns = now_ns };

	if (!ref->text)
		return lg_complain(c, "the text of these rules is not here");
	return lg_rules_parse_edited(ref->text, ref->len, name, tree_edit, &e, ret_rules, c);
}

/* ---- as bytes: lines of words, an empty one, and the texts ---- */

static void override_pack(const struct lg_rules_override *o, uint64_t now_ns, struct lg_text *out)
{
	static const char *const names[] = { [LG_OVERRIDE_SET] = "set", [LG_OVERRIDE_DISABLE] = "disable", [LG_OVERRIDE_SHADOW] = "shadow" };
	/* What is written with a time has one: 0 would be without end. */
	uint64_t left_ms = o->until_ns ? (o->until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;

	lg_text_addf(out, "%s %s %" PRIu64, names[o->kind], o->rule, left_ms);
	if (o->kind == LG_OVERRIDE_SET)
		lg_text_addf(out, " %s %s", o->limit[0] ? o->limit : "-", o->burst[0] ? o->burst : "-");
	if (o->gate.permille)
		lg_text_addf(out, " canary %" PRIu32, o->gate.permille);
	else if (o->gate.label[0])
		lg_text_addf(out, " to %s %s", o->gate.label, o->gate.value);
	lg_text_addf(out, "\n");
}

void lg_rules_doc_pack(const struct lg_rules_doc *doc, uint64_t now_ns, uint64_t unix_ms, bool with_texts, struct lg_text *out)
{
	const struct lg_gate *gate = &doc->gate;

	lg_text_addf(out, HEAD "\nversion %" PRIu64 " %" PRIu64 " %s\nsaved %" PRIu64 "\n", doc->stamp.counter, doc->stamp.unix_ms,
		     doc->stamp.region, unix_ms);
	lg_text_addf(out, "by %s\nwhat %s\n%s", doc->by, doc->what, doc->is_forced ? "forced\n" : "");
	if (gate->permille)
		lg_text_addf(out, "canary %" PRIu32 "\n", gate->permille);
	else if (gate->label[0])
		lg_text_addf(out, "to %s %s\n", gate->label, gate->value);
	for (size_t i = 0; i < doc->n_overrides; i++)
		if (is_live(&doc->overrides[i], &now_ns))
			override_pack(&doc->overrides[i], now_ns, out);
	lg_text_addf(out, "text %zu %016" PRIx64 "\n", doc->text.len, doc->text.hash);
	if (lg_gate_is_set(gate))
		lg_text_addf(out, "base %zu %016" PRIx64 "\n", doc->base.len, doc->base.hash);
	lg_text_addf(out, "\n");
	if (with_texts)
		lg_text_add(out, doc->text.text, doc->text.len);
	if (with_texts && lg_gate_is_set(gate))
		lg_text_add(out, doc->base.text, doc->base.len);
}

#define LINE_MAX_BYTES 512

struct parser {
	struct lg_rules_doc *doc;
	uint64_t now_ns, unix_ms, age_ms;
	bool has_version, has_text, has_base;
};

/* The words behind the first one, whatever they are. */
static void rest_copy(const char *line, const char *word, char ret[LG_RULES_WORD_LEN])
{
	const char *rest = line + strlen(word);

	snprintf(ret, LG_RULES_WORD_LEN, "%.*s", LG_RULES_WORD_LEN - 1, *rest == ' ' ? rest + 1 : rest);
}

static int gate_parse(struct lg_gate *gate, const char *word, const char *line)
{
	if (strcmp(word, "to") == 0)
		return sscanf(line, "to %63s %63s", gate->label, gate->value) == 2 ? 0 : -EINVAL;
	return sscanf(line, "canary %" SCNu32, &gate->permille) == 1 && gate->permille && gate->permille <= 1000 ? 0 : -EINVAL;
}

static int override_parse(struct parser *p, enum lg_override_kind kind, const char *line)
{
	struct lg_rules_override o = { .kind = kind };
	char word[16] = "";
	uint64_t left_ms;
	int n, used = 0;

	n = sscanf(line, "%*s %63s %" SCNu64 "%n", o.rule, &left_ms, &used);
	if (n != 2 || left_ms > LG_RULES_OVERRIDE_MAX_MS)
		return -EINVAL;
	line += used;
	if (kind == LG_OVERRIDE_SET) {
		if (sscanf(line, "%127s %127s%n", o.limit, o.burst, &used) != 2)
			return -EINVAL;
		line += used;
	}
	if (sscanf(line, "%15s%n", word, &used) == 1 && gate_parse(&o.gate, word, line + (*line == ' ')) < 0)
		return -EINVAL;
	if (strcmp(o.limit, "-") == 0)
		o.limit[0] = '\0';
	if (strcmp(o.burst, "-") == 0)
		o.burst[0] = '\0';
	if (left_ms && left_ms <= p->age_ms)
		return 0;
	o.until_ns = left_ms ? p->now_ns + (left_ms - p->age_ms) * NS_PER_MS : 0;
	return lg_rules_override_put(p->doc, &o);
}

static int saved_parse(struct parser *p, const char *line)
{
	uint64_t saved_ms;

	if (sscanf(line, "saved %" SCNu64, &saved_ms) != 1)
		return -EINVAL;
	if (p->unix_ms)
		p->age_ms = p->unix_ms > saved_ms ? p->unix_ms - saved_ms : 0;
	return 0;
}

static int ref_parse(const char *line, struct lg_rules_text_ref *ref, bool *ret_has)
{
	*ret_has = true;
	return sscanf(line, "%*s %zu %" SCNx64, &ref->len, &ref->hash) == 2 && ref->len <= LG_RULES_TEXT_MAX ? 0 : -EINVAL;
}

/* What is not known is skipped: it is of a newer server. */
static int line_parse(struct parser *p, const char *line)
{
	struct lg_rules_stamp *stamp = &p->doc->stamp;
	char word[16] = "";

	if (sscanf(line, "%15s", word) != 1)
		return -EINVAL;
	if (strcmp(word, "version") == 0) {
		p->has_version = sscanf(line, "version %" SCNu64 " %" SCNu64 " %63s", &stamp->counter, &stamp->unix_ms, stamp->region) == 3;
		return p->has_version ? 0 : -EINVAL;
	}
	if (strcmp(word, "saved") == 0)
		return saved_parse(p, line);
	if (strcmp(word, "by") == 0)
		rest_copy(line, word, p->doc->by);
	else if (strcmp(word, "what") == 0)
		rest_copy(line, word, p->doc->what);
	else if (strcmp(word, "forced") == 0)
		p->doc->is_forced = true;
	else if (strcmp(word, "canary") == 0 || strcmp(word, "to") == 0)
		return gate_parse(&p->doc->gate, word, line);
	else if (strcmp(word, "set") == 0)
		return override_parse(p, LG_OVERRIDE_SET, line);
	else if (strcmp(word, "disable") == 0)
		return override_parse(p, LG_OVERRIDE_DISABLE, line);
	else if (strcmp(word, "shadow") == 0)
		return override_parse(p, LG_OVERRIDE_SHADOW, line);
	else if (strcmp(word, "text") == 0)
		return ref_parse(line, &p->doc->text, &p->has_text);
	else if (strcmp(word, "base") == 0)
		return ref_parse(line, &p->doc->base, &p->has_base);
	return 0;
}

/* Up to behind the empty line. */
static int head_parse(struct parser *p, const char **at, const char *end)
{
	char line[LINE_MAX_BYTES];

	for (bool first = true;; first = false) {
		const char *newline = memchr(*at, '\n', (size_t)(end - *at));
		size_t len = newline ? (size_t)(newline - *at) : sizeof(line);
		int r;

		if (len >= sizeof(line) || memchr(*at, '\0', len))
			return -EINVAL;
		memcpy(line, *at, len);
		line[len] = '\0';
		*at = newline + 1;
		if (!len)
			return p->has_version && p->has_text && p->has_base == lg_gate_is_set(&p->doc->gate) ? 0 : -EINVAL;
		r = first ? (strcmp(line, HEAD) == 0 ? 0 : -EINVAL) : line_parse(p, line);
		if (r < 0)
			return r;
	}
}

static int text_parse(struct lg_rules_text_ref *ref, const char **at, const char *end)
{
	struct lg_rules_text_ref said = *ref;

	if ((size_t)(end - *at) < said.len || lg_rules_text_hash(*at, said.len) != said.hash)
		return -EINVAL;
	*at += said.len;
	return lg_rules_text_set(ref, *at - said.len, said.len);
}

int lg_rules_doc_parse(const char *data, size_t len, uint64_t now_ns, uint64_t unix_ms, uint64_t age_ms, struct lg_rules_doc **ret_doc,
		       struct lg_complaint *c)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = calloc(1, sizeof(*doc));
	struct parser p = { .doc = doc, .now_ns = now_ns, .unix_ms = unix_ms, .age_ms = age_ms };
	const char *at = data, *end = data + len;
	int r;

	if (!doc)
		return -ENOMEM;
	r = len ? head_parse(&p, &at, end) : -EINVAL;
	if (r == 0 && at < end)
		r = text_parse(&doc->text, &at, end);
	if (r == 0 && at < end && lg_gate_is_set(&doc->gate))
		r = text_parse(&doc->base, &at, end);
	if (r == -ENOMEM)
		return r;
	if (r < 0 || at != end)
		return lg_complain(c, "this is no version of rules, or a damaged one");
	*ret_doc = TAKE(doc);
	return 0;
}
