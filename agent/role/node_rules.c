// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rules from the region: they come over the stream of leases, are put into force or refused as those of a file are, and are kept in the state
 * folder, so that a node starts with them though nobody answers. Overrides end here by the node's own clock.
 */
#include "role/node_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "kern/sessions.h"
#include "role/node.h"
#include "rules/yaml.h"

#define SESSIONS_MAX 256

/* ---- the state folder ---- */

/* Durable when it returns. */
static int keep(struct lg_node *n)
{
	_cleanup_text_ struct lg_text text = { 0 };
	struct lg_rules_text as = { 0 };

	lg_rules_doc_pack(n->region_rules.doc, lg_clock_now_ns(), lg_clock_unix_ns() / LG_NS_PER_MS, true, &text);
	if (!lg_text_ok(&text))
		return -ENOMEM;
	as = (struct lg_rules_text){ .text = text.s, .len = text.len };
	return lg_rules_text_store(n->config.state_dir, "rules.region", &as);
}

static int kept_read(struct lg_node *n, struct lg_rules_doc **ret_doc, struct lg_complaint *c)
{
	struct lg_rules_text text = { 0 };
	int r;

	r = lg_rules_text_load(n->config.state_dir, "rules.region", LG_RULES_DOC_BYTES_MAX, &text, c);
	if (r == 0)
		r = lg_rules_doc_parse(text.text, text.len, lg_clock_now_ns(), lg_clock_unix_ns() / LG_NS_PER_MS, 0, ret_doc, c);
	lg_rules_text_fini(&text);
	return r;
}

/* ---- what is to be in force ---- */

static struct lg_gate_node self(const struct lg_node *n)
{
	return (struct lg_gate_node){ .name = n->config.name, .labels = n->config.labels, .n_labels = n->config.n_labels };
}

static bool is_chosen(const struct lg_node *n, const struct lg_rules_doc *doc)
{
	const struct lg_gate_node node = self(n);

	return lg_gate_takes(&doc->gate, &node);
}

static int rules_of(const struct lg_node *n, const struct lg_rules_doc *doc, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	const struct lg_gate_node node = self(n);
	char name[64];

	snprintf(name, sizeof(name), "version %" PRIu64 " of the rules", doc->stamp.counter);
	return lg_rules_doc_rules(doc, lg_gate_takes(&doc->gate, &node), &node, lg_clock_now_ns(), name, ret_rules, c);
}

/* how: who must not be cut off by it; NULL: it does not matter. */
static int enforce(struct lg_node *n, const struct lg_rules_doc *doc, const struct lg_node_reload *how, struct lg_complaint *c)
{
	struct lg_rules *rules = NULL;
	int r;

	r = rules_of(n, doc, &rules, c);
	if (r < 0)
		return r;
	r = lg_node_rules_apply(n, rules, how, c);
	if (r < 0) {
		lg_rules_free(rules);
		return r;
	}
	lg_role_warn(n->rules, &n->config);
	lg_node_pace_look(n);
	return 0;
}

static void on_end(void *arg)
{
	struct lg_complaint c = { 0 };
	struct lg_node *n = arg;
	struct lg_rules_doc *doc = n->region_rules.doc;
	size_t before;

	if (!doc)
		return;
	before = doc->n_overrides;
	lg_rules_doc_expire(doc, lg_clock_now_ns());
	if (doc->n_overrides != before && enforce(n, doc, NULL, &c) < 0)
		lg_error("rules: an override has ended, and what the version says cannot be put into force: %s", c.text);
	else if (doc->n_overrides != before)
		lg_info("rules: an override has ended: what version %" PRIu64 " says is in force again", doc->stamp.counter);
	lg_role_await_end(n->region_rules.ender, n->region_rules.doc);
}

/* ---- from the region ---- */

static void state_of(const struct lg_node *n, struct lg_rules_state *ret)
{
	const struct lg_node_rules *m = &n->region_rules;

	*ret = (struct lg_rules_state){ 0 };
	if (m->doc) {
		ret->running = m->doc->stamp;
		ret->is_chosen = lg_gate_is_set(&m->doc->gate) && is_chosen(n, m->doc);
	}
	if (lg_rules_stamp_compare(&m->refused, &ret->running) > 0) {
		ret->refused = m->refused;
		snprintf(ret->why, sizeof(ret->why), "%s", m->why);
	}
}

void lg_node_rules_say(struct lg_node *n)
{
	struct lg_rules_state state;

	if (!n->config.rules_from_region || !n->replicas)
		return;
	state_of(n, &state);
	lg_replicas_rules(n->replicas, &state);
}

static void take(struct lg_node *n, struct lg_rules_doc *doc)
{
	struct lg_node_rules *m = &n->region_rules;
	int r;

	lg_rules_doc_free(m->doc);
	m->doc = doc;
	n->rules_why[0] = '\0';
	n->n_reloads_ok++;
	lg_role_await_end(n->region_rules.ender, n->region_rules.doc);
	r = keep(n);
	if (r < 0)
		lg_warn("cannot write rules.region to %s: %s; a start without the region would take an older version", n->config.state_dir,
			strerror(-r));
	lg_info("rules: version %" PRIu64 " of region %s is in force%s: %u rules (%s, by %s)", doc->stamp.counter, doc->stamp.region,
		!lg_gate_is_set(&doc->gate) ? "" : is_chosen(n, doc) ? ", as this node is one of those it is for"
								     : ", which is not for this node",
		n->set.n_rules, doc->what, doc->by);
}

static void refuse(struct lg_node *n, const struct lg_rules_stamp *stamp, const struct lg_complaint *c)
{
	struct lg_node_rules *m = &n->region_rules;

	m->refused = *stamp;
	n->n_reloads_failed++;
	lg_complaint_format(c, m->why, sizeof(m->why));
	lg_error("rules: version %" PRIu64 " of region %s cannot be put into force here, what was goes on: %s", stamp->counter,
		 stamp->region, m->why);
}

/* Whoever is logged in here is asked of the kernel: nobody else knows him. */
static int enforce_guarded(struct lg_node *n, const struct lg_rules_doc *doc, struct lg_complaint *c)
{
	_cleanup_free_ struct lg_peer *peers = calloc(SESSIONS_MAX, sizeof(*peers));
	struct lg_sessions sessions = { .v = peers, .max = SESSIONS_MAX };
	struct lg_node_reload how = { 0 };
	int r;

	if (!peers)
		return -ENOMEM;
	r = doc->is_forced ? 0 : lg_sessions_find(&sessions, n->config.ssh_port);
	if (r < 0)
		lg_warn("rules: cannot tell who is logged in over SSH: %s; version %" PRIu64 " is put into force whoever it cuts off",
			strerror(-r), doc->stamp.counter);
	lg_sessions_place(&sessions);
	how.peers = sessions.v;
	how.n_peers = sessions.n;
	return enforce(n, doc, &how, c);
}

void lg_node_rules_whole(void *arg, const struct lg_rules_inbox *inbox)
{
	struct lg_node *n = arg;
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct lg_complaint c = { 0 };
	int r;

	r = lg_rules_doc_parse(inbox->data, inbox->total_bytes, lg_clock_now_ns(), 0, inbox->age_ms, &doc, &c);
	if (r == 0 && lg_rules_stamp_compare(&doc->stamp, &inbox->stamp) != 0)
		r = lg_complain(&c, "this is no version of rules, or a damaged one");
	if (r == 0)
		r = enforce_guarded(n, doc, &c);
	if (r == 0)
		take(n, TAKE(doc));
	else
		refuse(n, &inbox->stamp, &c);
	lg_node_rules_say(n);
}

bool lg_node_rules_wanted(void *arg, const struct lg_rules_stamp *stamp)
{
	const struct lg_node *n = arg;
	const struct lg_node_rules *m = &n->region_rules;

	return n->config.rules_from_region && (!m->doc || lg_rules_stamp_compare(stamp, &m->doc->stamp) > 0) &&
	       lg_rules_stamp_compare(stamp, &m->refused) > 0;
}

/* ---- start and stop ---- */

int lg_node_rules_first(struct lg_node *n, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct lg_complaint of_kept = { 0 };
	char text[1024];
	int r;

	r = kept_read(n, &doc, &of_kept);
	if (r == 0)
		r = rules_of(n, doc, ret_rules, &of_kept);
	if (r == 0) {
		n->region_rules.doc = TAKE(doc);
		lg_role_warn(*ret_rules, &n->config);
		return 0;
	}
	if (r != -ENOENT) {
		lg_complaint_format(&of_kept, text, sizeof(text));
		lg_error("the rules that this node had from its region cannot be used: %s", text);
	}
	return lg_role_rules_first(&n->config, n->region_rules.file_why, ret_rules, c);
}

bool lg_node_rules_are_there(const struct lg_node *n)
{
	const struct lg_node_rules *m = &n->region_rules;

	return !n->config.rules_from_region || m->doc || (n->config.rules[0] && !m->file_why[0]);
}

int lg_node_rules_start(struct lg_node *n)
{
	int r;

	if (!n->config.rules_from_region)
		return 0;
	r = lg_loop_add_timer(n->loop, on_end, n, &n->region_rules.ender);
	if (r == 0)
		lg_role_await_end(n->region_rules.ender, n->region_rules.doc);
	return r;
}

void lg_node_rules_stop(struct lg_node *n)
{
	struct lg_node_rules *m = &n->region_rules;

	lg_source_free(m->ender);
	lg_rules_doc_free(m->doc);
}

/* ---- what is shown ---- */

json_t *lg_node_rules_json(const struct lg_node *n)
{
	const struct lg_node_rules *m = &n->region_rules;
	struct lg_rules_state state;
	char gate[LG_GATE_TEXT_LEN] = "";

	if (!n->config.rules_from_region)
		return json_null();
	state_of(n, &state);
	if (m->doc)
		lg_gate_text(&m->doc->gate, gate, sizeof(gate));
	return json_pack("{s:I, s:s, s:s, s:b, s:I, s:I, s:s}", "version", (json_int_t)state.running.counter, "region",
			 state.running.region, "for", gate, "chosen", state.is_chosen, "overrides",
			 (json_int_t)(m->doc ? m->doc->n_overrides : 0), "refused",
			 (json_int_t)state.refused.counter, "why", state.why);
}

int lg_node_rules_asked(struct lg_node *n, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	if (!n->config.rules_from_region)
		return lg_rules_read(n->config.rules, ret_rules, c);
	if (n->region_rules.doc)
		return rules_of(n, n->region_rules.doc, ret_rules, c);
	return n->config.rules[0] ? lg_rules_read(n->config.rules, ret_rules, c) :
				    lg_rules_parse(LG_RULES_NONE, strlen(LG_RULES_NONE), "", ret_rules, c);
}
