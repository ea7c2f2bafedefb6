// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * How versions of rules come about: what the operator's tool asks for becomes a document, is checked in whole, and is written to the store. It
 * is in force once the store says so (server_rules.c). One change at a time; of two servers that write at once one is told that it came second.
 */
#include "role/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "role/status.h"

#define PIECE_BYTES 61440u
#define PIECES_MAX (LG_RULES_TEXT_MAX / PIECE_BYTES + 1)
#define HISTORY_MAX 64
#define TRIMMED_MAX 4		/* versions that leave the history in one commit */
#define PEERS_MAX 256

static void next(struct lg_server *s);

/* ---- writing ---- */

static void over(struct lg_server *s, bool is_late, const char *why)
{
	struct lg_server_rules *m = &s->rules_now;
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = TAKE(m->change.doc);
	struct lg_rules_doc *offered = TAKE(m->offered);

	if (m->change.is_ours) {
		m->done = doc->stamp;
		m->done_late = is_late;
		snprintf(m->done_why, sizeof(m->done_why), "%s", why);
	} else if (*why) {
		lg_error("rules: version %" PRIu64 " of region %s could not be written to the store: %s", doc->stamp.counter,
			 doc->stamp.region, why);
	}
	if (offered && (!m->doc || lg_rules_stamp_compare(&offered->stamp, &m->doc->stamp) > 0))
		lg_server_rules_write(s, offered, false);
	else
		lg_rules_doc_free(offered);
}

static void failed(struct lg_server *s, int result)
{
	char why[256];

	if (result > 0)
		snprintf(why, sizeof(why), "another version was written at the same time: look at `leasegate rules history`, and repeat");
	else
		snprintf(why, sizeof(why), "the store: %s%s", strerror(-result),
			 result == -EHOSTUNREACH ? "" : "; whether it was written is not known");
	over(s, result > 0, why);
}

static void on_text(void *arg, int result)
{
	if (result)
		failed(arg, result);
	else
		next(arg);
}

static void on_head(void *arg, int result)
{
	if (result)
		failed(arg, result);
	else
		over(arg, false, "");
}

/* Is it in the store, as far as its last piece tells? 1 with the revision of that, 0, negative errno. */
static int text_find(struct lg_server *s, const struct lg_rules_text_ref *ref, char key[64], uint64_t *ret_revision)
{
	_cleanup_free_ char *piece = malloc(LG_STORE_VALUE_MAX);
	size_t len;
	int r;

	if (!piece)
		return -ENOMEM;
	lg_server_rules_text_key(ref->hash, ref->len ? (ref->len - 1) / PIECE_BYTES : 0, key);
	r = lg_store_get(s->store, key, piece, LG_STORE_VALUE_MAX, &len, ret_revision);
	return r < 0 ? r : r == 0;
}

static int text_write(struct lg_server *s, const struct lg_rules_text_ref *ref)
{
	struct lg_store_write writes[PIECES_MAX] = { 0 };
	char keys[PIECES_MAX][64];
	size_t n = 0;

	for (size_t at = 0; at < ref->len; at += PIECE_BYTES, n++) {
		lg_server_rules_text_key(ref->hash, n, keys[n]);
		writes[n] = (struct lg_store_write){ .key = keys[n], .value = ref->text + at, .if_revision = LG_STORE_REVISION_ANY,
						     .len = ref->len - at < PIECE_BYTES ? ref->len - at : PIECE_BYTES };
	}
	return lg_store_commit(s->store, writes, n, on_text, s);
}

struct history {
	size_t n;
	char keys[HISTORY_MAX + TRIMMED_MAX][LG_SERVER_RULES_KEY_LEN];
	struct lg_rules_text_ref refs[HISTORY_MAX + TRIMMED_MAX][2];	/* text and base */
};

/* In the order of their numbers. What cannot be read has no text. */
static int history_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct history *h = arg;
	struct lg_complaint c;

	(void)revision;
	if (h->n == N_ELEMS(h->keys))
		return 1;
	snprintf(h->keys[h->n], sizeof(h->keys[0]), "%s", key);
	if (lg_rules_doc_parse(value, len, lg_clock_now_ns(), 0, 0, &doc, &c) == 0) {
		h->refs[h->n][0] = doc->text;
		h->refs[h->n][1] = doc->base;
	}
	h->n++;
	return 0;
}

static bool is_named(const struct history *h, size_t from, const struct lg_rules_doc *doc, uint64_t hash)
{
	for (size_t i = from; i < h->n; i++)
		if ((h->refs[i][0].len && h->refs[i][0].hash == hash) || (h->refs[i][1].len && h->refs[i][1].hash == hash))
			return true;
	return doc->text.hash == hash || (lg_gate_is_set(&doc->gate) && doc->base.hash == hash);
}

struct head {
	struct lg_store_write writes[LG_STORE_WRITES_MAX];
	char keys[LG_STORE_WRITES_MAX][LG_SERVER_RULES_KEY_LEN];
	size_t n;
};

static char *head_add(struct head *head, const struct lg_store_write *write)
{
	head->writes[head->n] = *write;
	head->writes[head->n].key = head->keys[head->n];
	return head->keys[head->n++];
}

static void text_forget(struct head *head, const struct lg_rules_text_ref *ref)
{
	char key[64];

	for (size_t at = 0; at < ref->len && head->n < LG_STORE_WRITES_MAX; at += PIECE_BYTES) {
		lg_server_rules_text_key(ref->hash, at / PIECE_BYTES, key);
		snprintf(head_add(head, &(struct lg_store_write){ .if_revision = LG_STORE_REVISION_ANY }), sizeof(head->keys[0]), "%s", key);
	}
}

/* The oldest versions beyond the last HISTORY_MAX, and texts that nothing else names. */
static int trim(struct lg_server *s, const struct lg_rules_doc *doc, struct head *head)
{
	_cleanup_free_ struct history *h = calloc(1, sizeof(*h));
	size_t n_gone;
	int r;

	if (!h)
		return -ENOMEM;
	r = lg_store_each(s->store, "rules/history/", history_one, h);
	if (r < 0)
		return r;
	n_gone = h->n < HISTORY_MAX ? 0 : h->n - HISTORY_MAX + 1;
	n_gone = n_gone < TRIMMED_MAX ? n_gone : TRIMMED_MAX;
	for (size_t i = 0; i < n_gone; i++) {
		snprintf(head_add(head, &(struct lg_store_write){ .if_revision = LG_STORE_REVISION_ANY }), sizeof(head->keys[0]), "%s",
			 h->keys[i]);
		for (size_t k = 0; k < 2; k++) {
			uint64_t hash = h->refs[i][k].hash;
			bool again = (k && h->refs[i][0].hash == hash);

			for (size_t j = 0; j < i; j++)
				again |= h->refs[j][0].hash == hash || h->refs[j][1].hash == hash;
			if (h->refs[i][k].len && !again && !is_named(h, n_gone, doc, hash))
				text_forget(head, &h->refs[i][k]);
		}
	}
	return 0;
}

/* A text that somebody takes away at this moment is no text to name. */
static int text_hold(struct lg_server *s, const struct lg_rules_text_ref *ref, struct head *head)
{
	uint64_t revision;
	char key[64];
	int r;

	if (!ref->len)
		return 1;
	r = text_find(s, ref, key, &revision);
	if (r > 0)
		snprintf(head_add(head, &(struct lg_store_write){ .if_revision = revision, .how = LG_STORE_CHECK }),
			 sizeof(head->keys[0]), "%s", key);
	return r;
}

static int head_write(struct lg_server *s, const struct lg_rules_doc *doc, struct head *head)
{
	_cleanup_text_ struct lg_text text = { 0 };
	int r;

	lg_rules_doc_pack(doc, lg_clock_now_ns(), lg_clock_unix_ns() / LG_NS_PER_MS, false, &text);
	if (!lg_text_ok(&text))
		return -ENOMEM;
	snprintf(head_add(head, &(struct lg_store_write){ .value = text.s, .len = text.len, .if_revision = s->rules_now.change.revision }),
		 sizeof(head->keys[0]), "rules/current");
	snprintf(head_add(head, &(struct lg_store_write){ .value = text.s, .len = text.len, .if_revision = LG_STORE_REVISION_ANY }),
		 sizeof(head->keys[0]), "rules/history/%020" PRIu64 ".%s", doc->stamp.counter, doc->stamp.region);
	r = trim(s, doc, head);
	return r < 0 ? r : lg_store_commit(s->store, head->writes, head->n, on_head, s);
}

/* The next commit of the change under way: a text that is not there yet, else what names both. */
static void next(struct lg_server *s)
{
	const struct lg_rules_doc *doc = s->rules_now.change.doc;
	_cleanup_free_ struct head *head = calloc(1, sizeof(*head));
	const struct lg_rules_text_ref *missing = NULL;
	int r = head ? 0 : -ENOMEM, found;

	if (r == 0) {
		found = text_hold(s, &doc->text, head);
		missing = found == 0 ? &doc->text : NULL;
		r = found < 0 ? found : 0;
	}
	if (r == 0 && !missing && lg_gate_is_set(&doc->gate) && doc->base.hash != doc->text.hash) {
		found = text_hold(s, &doc->base, head);
		missing = found == 0 ? &doc->base : NULL;
		r = found < 0 ? found : 0;
	}
	if (r == 0)
		r = missing ? text_write(s, missing) : head_write(s, doc, head);
	if (r < 0)
		failed(s, r);
}

int lg_server_rules_write(struct lg_server *s, struct lg_rules_doc *doc, bool is_ours)
{
	struct lg_server_rules *m = &s->rules_now;

	if (m->change.doc) {
		lg_rules_doc_free(doc);
		return -EBUSY;
	}
	m->change = (struct lg_server_rules_change){ .doc = doc, .is_ours = is_ours, .revision = m->revision };
	next(s);
	return 0;
}

/* ---- what the tool asks for ---- */

struct asked {
	struct lg_server *s;
	const json_t *request;
	struct lg_rules_doc *doc;	/* the next version */
	const char *name;		/* of the file, for complaints */
	char note[512];			/* what is to be said beside that it is done */
	struct lg_complaint c;
};

static const char *word(const struct asked *a, const char *key)
{
	const char *value = json_string_value(json_object_get(a->request, key));

	return value ? value : "";
}

/* What goes into lines of a document is one word, or without line ends. */
static bool is_word(const char *value)
{
	size_t len = strlen(value);

	return len && len < LG_RULES_WORD_LEN && !strpbrk(value, " \t\r\n");
}

static void line_copy(char ret[LG_RULES_WORD_LEN], const char *what, const char *value)
{
	snprintf(ret, LG_RULES_WORD_LEN, "%s%.100s", what, value);
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p < 32)
			*p = '?';
}

static bool has_rule(const struct lg_rules_doc *doc, bool has_text, const char *name)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *plain = lg_rules_doc_copy(doc);
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };
	bool found = false;

	if (plain)
		plain->n_overrides = 0;
	if (!plain || lg_rules_doc_rules(plain, has_text, &lg_gate_everybody, lg_clock_now_ns(), "rules", &rules, &c) < 0)
		return false;
	for (size_t i = 0; i < rules->n; i++)
		found |= strcmp(rules->v[i].name, name) == 0;
	return found;
}

static int gate_read(struct asked *a, struct lg_gate *ret)
{
	const char *text = word(a, "gate");
	struct lg_complaint c = { 0 };

	*ret = (struct lg_gate){ 0 };
	return *text && lg_gate_parse(text, ret, &c) < 0 ? lg_complain(&a->c, "%s", c.text) : 0;
}

/* Overrides without a time end with the file that they were about, and those of rules that are no more. */
static void overrides_settle(struct asked *a)
{
	size_t kept = 0, n_gone = lg_rules_override_drop(a->doc, NULL);

	for (size_t i = 0; i < a->doc->n_overrides; i++) {
		const char *rule = a->doc->overrides[i].rule;

		if (has_rule(a->doc, true, rule) || (lg_gate_is_set(&a->doc->gate) && has_rule(a->doc, false, rule)))
			a->doc->overrides[kept++] = a->doc->overrides[i];
	}
	n_gone += a->doc->n_overrides - kept;
	a->doc->n_overrides = kept;
	if (n_gone)
		snprintf(a->note, sizeof(a->note), "%zu override%s ended with it", n_gone, n_gone == 1 ? "" : "s");
	if (kept)
		snprintf(a->note + strlen(a->note), sizeof(a->note) - strlen(a->note), "%s%zu override%s go on until their time is over",
			 n_gone ? "; " : "", kept, kept == 1 ? "" : "s");
}

static int op_apply(struct asked *a)
{
	const json_t *text = json_object_get(a->request, "text");
	struct lg_rules_doc *doc = a->doc;
	struct lg_gate gate;
	int r;

	if (!json_is_string(text) || json_string_length(text) > LG_RULES_TEXT_MAX)
		return lg_complain(&a->c, "the rules and the lists they name are more than %u KiB, which is the most that one version may have",
				   LG_RULES_TEXT_MAX >> 10);
	r = gate_read(a, &gate);
	if (r < 0)
		return r;
	if (lg_gate_is_set(&gate) && !doc->stamp.counter)
		return lg_complain(&a->c, "there is no version yet: the first one is for all nodes");
	if (!lg_gate_is_set(&gate)) {
		free(TAKE(doc->base.text));
		doc->base = (struct lg_rules_text_ref){ 0 };
	} else if (!lg_gate_is_set(&doc->gate)) {
		free(doc->base.text);
		doc->base = doc->text;
		doc->text.text = NULL;
	}
	doc->gate = gate;
	if (lg_rules_text_set(&doc->text, json_string_value(text), json_string_length(text)) < 0)
		return -ENOMEM;
	line_copy(doc->what, "apply ", word(a, "name"));
	a->name = word(a, "name");
	overrides_settle(a);
	return 0;
}

static int op_override(struct asked *a, enum lg_override_kind kind)
{
	json_int_t for_ms = json_integer_value(json_object_get(a->request, "for_ms"));
	const char *rule = word(a, "rule"), *limit = word(a, "limit"), *burst = word(a, "burst");
	struct lg_rules_override o = { .kind = kind };
	char text[LG_RULES_OVERRIDE_TEXT_LEN];

	if (gate_read(a, &o.gate) < 0)
		return -EINVAL;
	if (for_ms < 0 || for_ms > (json_int_t)LG_RULES_OVERRIDE_MAX_MS)
		return lg_complain(&a->c, "a time of at most 31 days");
	if (!has_rule(a->doc, true, rule) && !(lg_gate_is_set(&a->doc->gate) && has_rule(a->doc, false, rule)))
		return lg_complain(&a->c, "there is no rule \"%.64s\" in version %" PRIu64 ": `leasegate rules show` has them", rule,
				   a->doc->stamp.counter);
	if ((*limit && !is_word(limit)) || (*burst && !is_word(burst)) || (kind == LG_OVERRIDE_SET && !*limit && !*burst))
		return lg_complain(&a->c, "expected limit=... such as limit=500/1s, burst=... or both");
	snprintf(o.rule, sizeof(o.rule), "%.63s", rule);
	snprintf(o.limit, sizeof(o.limit), "%.127s", limit);
	snprintf(o.burst, sizeof(o.burst), "%.127s", burst);
	o.until_ns = for_ms ? lg_clock_now_ns() + (uint64_t)for_ms * LG_NS_PER_MS : 0;
	if (lg_rules_override_put(a->doc, &o) < 0)
		return lg_complain(&a->c, "there are %d overrides already: `leasegate rules reset RULE` takes one back",
				   LG_RULES_OVERRIDES_MAX);
	lg_rules_override_text(&o, text, sizeof(text));
	snprintf(a->doc->what, sizeof(a->doc->what), "%.63s: %.60s", rule, text);
	a->name = "the rule with that";
	return 0;
}

static int op_reset(struct asked *a)
{
	const char *rule = word(a, "rule");

	if (!lg_rules_override_drop(a->doc, rule))
		return lg_complain(&a->c, "nothing is set of rule \"%.64s\": `leasegate rules show` says what is", rule);
	line_copy(a->doc->what, "reset ", rule);
	return 0;
}

static int op_promote(struct asked *a)
{
	char gate[LG_GATE_TEXT_LEN];

	if (!lg_gate_is_set(&a->doc->gate))
		return lg_complain(&a->c, "version %" PRIu64 " is for all nodes already", a->doc->stamp.counter);
	lg_gate_text(&a->doc->gate, gate, sizeof(gate));
	line_copy(a->doc->what, "promote from ", gate);
	a->doc->gate = (struct lg_gate){ 0 };
	free(TAKE(a->doc->base.text));
	a->doc->base = (struct lg_rules_text_ref){ 0 };
	return 0;
}

struct search {
	uint64_t counter;	/* 0: the last that has another text */
	uint64_t hash;
	char *key;
};

static int search_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct search *f = arg;
	struct lg_complaint c;

	(void)revision;
	if (lg_rules_doc_parse(value, len, lg_clock_now_ns(), 0, 0, &doc, &c) == 0 && !lg_gate_is_set(&doc->gate) &&
	    (f->counter ? doc->stamp.counter == f->counter : doc->text.hash != f->hash))
		snprintf(f->key, LG_SERVER_RULES_KEY_LEN, "%s", key);
	return 0;
}

int lg_server_rules_find(struct lg_server *s, uint64_t counter, uint64_t hash, char ret_key[LG_SERVER_RULES_KEY_LEN])
{
	struct search f = { .counter = counter, .hash = hash, .key = ret_key };

	ret_key[0] = '\0';
	return lg_store_each(s->store, "rules/history/", search_one, &f);
}

static int no_version(struct asked *a, uint64_t counter)
{
	if (!counter)
		return lg_complain(&a->c, "there is no version with other rules to go back to");
	return lg_complain(&a->c, "there is no version %" PRIu64 " for all nodes: `leasegate rules history` has them", counter);
}

static int op_rollback(struct asked *a)
{
	uint64_t counter = (uint64_t)json_integer_value(json_object_get(a->request, "version"));
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *old = NULL;
	char key[LG_SERVER_RULES_KEY_LEN];
	uint64_t revision;
	int r;

	if (lg_gate_is_set(&a->doc->gate) && !counter) {
		free(a->doc->text.text);
		a->doc->text = a->doc->base;
		a->doc->base = (struct lg_rules_text_ref){ 0 };
		a->doc->gate = (struct lg_gate){ 0 };
		line_copy(a->doc->what, "rollback to what the other nodes had", "");
		overrides_settle(a);
		return 0;
	}
	r = lg_server_rules_find(a->s, counter, a->doc->text.hash, key);
	if (r < 0)
		return lg_complain(&a->c, "the history cannot be read: %s", strerror(-r));
	if (!key[0])
		return no_version(a, counter);
	r = lg_server_rules_read(a->s, key, true, &old, &revision);
	if (r)
		return lg_complain(&a->c, "that version cannot be read: %s", r < 0 ? strerror(-r) : "it is gone");
	free(a->doc->text.text);
	a->doc->text = old->text;
	old->text.text = NULL;
	free(TAKE(a->doc->base.text));
	a->doc->base = (struct lg_rules_text_ref){ 0 };
	a->doc->gate = (struct lg_gate){ 0 };
	snprintf(a->doc->what, sizeof(a->doc->what), "rollback to %" PRIu64, old->stamp.counter);
	overrides_settle(a);
	return 0;
}

static int op_run(struct asked *a, const char *op)
{
	if (strcmp(op, "apply") == 0)
		return op_apply(a);
	if (!a->doc->stamp.counter)
		return lg_complain(&a->c, "there is no version yet: `leasegate rules apply FILE` makes the first one");
	if (strcmp(op, "set") == 0)
		return op_override(a, LG_OVERRIDE_SET);
	if (strcmp(op, "disable") == 0)
		return op_override(a, LG_OVERRIDE_DISABLE);
	if (strcmp(op, "shadow") == 0)
		return op_override(a, LG_OVERRIDE_SHADOW);
	if (strcmp(op, "reset") == 0)
		return op_reset(a);
	if (strcmp(op, "promote") == 0)
		return op_promote(a);
	if (strcmp(op, "rollback") == 0)
		return op_rollback(a);
	return lg_complain(&a->c, "unknown command");
}

static size_t peers_read(const json_t *list, struct lg_peer *peers)
{
	const json_t *item;
	size_t i, n = 0;

	json_array_foreach(list, i, item)
		if (n < PEERS_MAX && lg_status_peer_read(item, &peers[n]))
			n++;
	return n;
}

static int change(struct asked *a, const char *op)
{
	static struct lg_peer peers[PEERS_MAX];
	struct lg_server *s = a->s;
	int r;

	if (s->rules_now.change.doc)
		return lg_complain(&a->c, "another version is being written: again in a moment");
	a->doc = s->rules_now.doc ? lg_rules_doc_copy(s->rules_now.doc) : calloc(1, sizeof(*a->doc));
	if (!a->doc)
		return -ENOMEM;
	lg_rules_doc_expire(a->doc, lg_clock_now_ns());
	a->name = "rules";
	r = op_run(a, op);
	if (r < 0)
		return r;
	/* It goes behind whatever is known, what could not be put into force too. */
	if (s->rules_now.refused.counter > a->doc->stamp.counter)
		a->doc->stamp.counter = s->rules_now.refused.counter;
	a->doc->stamp.counter++;
	a->doc->stamp.unix_ms = lg_clock_unix_ns() / LG_NS_PER_MS;
	snprintf(a->doc->stamp.region, sizeof(a->doc->stamp.region), "%s", s->config.region);
	a->doc->is_forced = json_is_true(json_object_get(a->request, "forced"));
	line_copy(a->doc->by, "", *word(a, "by") ? word(a, "by") : "?");
	return lg_server_rules_check(s, a->doc, peers, peers_read(json_object_get(a->request, "peers"), peers), a->name, &a->c);
}

json_t *lg_server_rules_refusal(const struct lg_complaint *c, int r)
{
	char text[1024];

	lg_complaint_format(c, text, sizeof(text));
	return json_pack("{s:b, s:s}", "ok", 0, "error", c->text[0] ? text : strerror(-r));
}

json_t *lg_server_rules_change(struct lg_server *s, const json_t *request, const char *op)
{
	struct asked a = { .s = s, .request = request };
	json_t *reply;
	int r;

	r = change(&a, op);
	if (r < 0) {
		lg_rules_doc_free(a.doc);
		return lg_server_rules_refusal(&a.c, r);
	}
	reply = json_pack("{s:b, s:I, s:s, s:s}", "ok", 1, "version", (json_int_t)a.doc->stamp.counter, "what", a.doc->what, "note", a.note);
	lg_server_rules_write(s, a.doc, true);
	return reply;
}
