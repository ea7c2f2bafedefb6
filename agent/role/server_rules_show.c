// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a server tells of the rules at run time: the operator's socket, /metrics. */
#include "role/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "role/status.h"

static json_t *overrides_json(const struct lg_rules_doc *doc)
{
	uint64_t now_ns = lg_clock_now_ns();
	json_t *list = json_array();
	char text[LG_RULES_OVERRIDE_TEXT_LEN];

	for (size_t i = 0; i < doc->n_overrides; i++) {
		const struct lg_rules_override *o = &doc->overrides[i];

		if (o->until_ns && o->until_ns <= now_ns)
			continue;
		lg_rules_override_text(o, text, sizeof(text));
		json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "rule", o->rule, "is", text, "left_ms",
						      o->until_ns ? json_integer(lg_status_ms_until(o->until_ns, now_ns)) : json_null()));
	}
	return list;
}

static json_t *doc_json(const struct lg_rules_doc *doc)
{
	char gate[LG_GATE_TEXT_LEN];

	lg_gate_text(&doc->gate, gate, sizeof(gate));
	return json_pack("{s:I, s:s, s:I, s:s, s:s, s:s, s:b, s:o}", "version", (json_int_t)doc->stamp.counter, "region", doc->stamp.region,
			 "unix_ms", (json_int_t)doc->stamp.unix_ms, "by", doc->by, "what", doc->what, "for", gate, "for_all",
			 !lg_gate_is_set(&doc->gate), "overrides", overrides_json(doc));
}

static void holders_add(const struct lg_server_holders *kind, json_t *list)
{
	for (size_t i = 0; i < kind->n; i++) {
		const struct lg_server_holder *h = kind->v[i];
		const struct lg_rules_state *state = &h->rules;

		if (LIST_EMPTY(&h->streams) && !h->wants_rules)
			continue;
		json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b, s:I, s:s, s:b, s:I, s:s}", "name", h->name, "kind",
						      h->is_region ? "region" : "node", "connected", !LIST_EMPTY(&h->streams), "own_file",
						      !h->wants_rules,
						      "version", (json_int_t)state->running.counter, "region", state->running.region, "chosen",
						      state->is_chosen, "refused", (json_int_t)state->refused.counter, "why", state->why));
	}
}

static json_t *status_json(struct lg_server *s)
{
	const struct lg_server_rules *m = &s->rules_now;
	bool is_behind = m->doc && lg_rules_stamp_compare(&m->refused, &m->doc->stamp) <= 0;
	json_t *list = json_array();

	holders_add(&s->hosts, list);
	holders_add(&s->regions, list);
	return json_pack("{s:b, s:o, s:o, s:I, s:s, s:s}", "ok", 1, "current", m->doc ? doc_json(m->doc) : json_null(), "holders", list,
			 "refused", (json_int_t)(is_behind ? 0 : m->refused.counter), "why", m->why, "file_why", m->doc ? "" : m->file_why);
}

static int history_json_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct lg_complaint c;

	(void)key;
	(void)revision;
	if (lg_rules_doc_parse(value, len, lg_clock_now_ns(), 0, 0, &doc, &c) == 0)
		json_array_append_new(arg, doc_json(doc));
	return 0;
}

static json_t *history_json(struct lg_server *s)
{
	json_t *list = json_array();
	struct lg_complaint c = { 0 };
	int r = lg_store_each(s->store, "rules/history/", history_json_one, list);

	if (r == 0)
		return json_pack("{s:b, s:o}", "ok", 1, "history", list);
	json_decref(list);
	lg_complain(&c, "the history cannot be read: %s", strerror(-r));
	return lg_server_rules_refusal(&c, r);
}

static json_t *show_json(struct lg_server *s, const json_t *request)
{
	uint64_t counter = (uint64_t)json_integer_value(json_object_get(request, "version"));
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *old = NULL;
	char key[LG_SERVER_RULES_KEY_LEN];
	const struct lg_rules_doc *doc = s->rules_now.doc;
	struct lg_complaint c = { 0 };
	uint64_t revision;

	if (counter && (!doc || doc->stamp.counter != counter)) {
		if (lg_server_rules_find(s, counter, 0, key) == 0 && key[0] && lg_server_rules_read(s, key, true, &old, &revision) == 0)
			doc = old;
		else
			doc = NULL;
	}
	if (!doc) {
		lg_complain(&c, counter ? "there is no such version: `leasegate rules history` has them" :
					    "there is no version yet: `leasegate rules apply FILE` makes the first one");
		return lg_server_rules_refusal(&c, -ENOENT);
	}
	return json_pack("{s:b, s:o, s:s%, s:s%}", "ok", 1, "current", doc_json(doc), "text", doc->text.text, doc->text.len, "base",
			 doc->base.text ? doc->base.text : "", doc->base.len);
}

/* Of the change that was asked for last. */
static json_t *done_json(const struct lg_server *s)
{
	const struct lg_server_rules *m = &s->rules_now;

	return json_pack("{s:b, s:b, s:I, s:s, s:b}", "ok", 1, "busy", m->change.doc != NULL && m->change.is_ours, "version",
			 (json_int_t)m->done.counter, "error", m->done_why, "late", m->done_late);
}

/* ---- metrics ---- */

enum node_state { CURRENT, BEHIND, REFUSING, OWN_FILE, AWAY, _N_STATES };

static enum node_state state_of(const struct lg_server_holder *h, const struct lg_rules_stamp *newest)
{
	if (!h->wants_rules)
		return OWN_FILE;
	if (lg_rules_stamp_compare(&h->rules.running, newest) >= 0)
		return CURRENT;
	if (lg_rules_stamp_compare(&h->rules.refused, newest) >= 0)
		return REFUSING;
	return LIST_EMPTY(&h->streams) ? AWAY : BEHIND;
}

void lg_server_rules_metrics(const struct lg_server *s, struct lg_metrics *m)
{
	static const char *const names[] = { [CURRENT] = "current", [BEHIND] = "behind", [REFUSING] = "refusing", [OWN_FILE] = "own_file",
					     [AWAY] = "away" };
	const struct lg_server_rules *now = &s->rules_now;
	const struct lg_rules_stamp none = { 0 }, *newest = now->doc ? &now->doc->stamp : &none;
	uint64_t n[_N_STATES] = { 0 };

	if (!s->config.rules_from_region)
		return;
	for (size_t i = 0; i < s->hosts.n; i++)
		if (s->hosts.v[i]->wants_rules || !LIST_EMPTY(&s->hosts.v[i]->streams))
			n[state_of(s->hosts.v[i], newest)]++;
	lg_status_rules_metrics(now->doc, &now->refused, m);
	for (size_t i = 0; i < _N_STATES; i++)
		lg_metrics_add(m, LG_METRIC_RULES_NODES, n[i], "state", names[i], NULL);
}

/* ---- the operator's socket ---- */

json_t *lg_server_rules_admin(struct lg_server *s, const json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op"));
	struct lg_complaint c = { 0 };

	if (!s->config.rules_from_region) {
		lg_complain(&c, "the configuration of this region says `rules_from: file`: its rules are those of %s", s->config.rules);
		return lg_server_rules_refusal(&c, -EINVAL);
	}
	if (!op)
		return json_pack("{s:b, s:s}", "ok", 0, "error", "unknown command");
	if (strcmp(op, "status") == 0)
		return status_json(s);
	if (strcmp(op, "history") == 0)
		return history_json(s);
	if (strcmp(op, "show") == 0)
		return show_json(s, request);
	if (strcmp(op, "done") == 0)
		return done_json(s);
	return lg_server_rules_change(s, request, op);
}
