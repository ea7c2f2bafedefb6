// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a node shows: the operator's socket (JSON), /metrics, /healthz, /readyz. */
#include "role/node.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/settings.h"
#include "base/clock.h"
#include "base/num.h"
#include "role/status.h"
#include "rules/words.h"

bool lg_node_is_ready(const struct lg_node *n, char *why, size_t len)
{
	if (!n->running) {
		snprintf(why, len, "starting");
		return false;
	}
	if (!lg_node_rules_are_there(n)) {
		snprintf(why, len, "there are no rules yet: they come from the region%s%s", n->region_rules.file_why[0] ? "; " : "",
			 n->region_rules.file_why);
		return false;
	}
	if (!lg_node_links_are_ready(n, why, len))
		return false;
	snprintf(why, len, "%s", "");
	return true;
}

static bool is_degraded(const struct lg_node *n)
{
	return n->n_global && (!n->replicas || lg_replicas_slots_up(n->replicas) < LG_KEY_SLOTS);
}

/* ---- sums over keys ---- */

struct totals {
	const struct lg_node *n;
	uint64_t now_ns;
	uint64_t left_tok;
	uint64_t keys_by_rule[LG_RULES_MAX + 1];
	uint64_t left_by_rule[LG_RULES_MAX + 1];
};

static int total_one(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct lg_lessee_view v;
	struct totals *t = arg;

	(void)key;
	lg_lessee_view(k->lessee, t->now_ns, &v);
	t->left_tok += v.left_tok;
	t->keys_by_rule[k->key.rule_id]++;
	t->left_by_rule[k->key.rule_id] += v.left_tok;
	return 0;
}

static void totals_take(struct lg_node *n, struct totals *t)
{
	memset(t, 0, sizeof(*t));
	t->n = n;
	t->now_ns = lg_clock_now_ns();
	lg_table_each(n->keys, total_one, t);
}

/* ---- JSON ---- */

static json_t *upstream_json(const struct lg_node *n)
{
	if (!n->replicas)
		return json_null();
	return json_pack("{s:s, s:s, s:s, s:I, s:f, s:I, s:s, s:I, s:o}", "address", n->config.upstream, "state",
			 lg_node_upstream_is_up(n) ? "up" : "down", "lessor", n->welcome.lessor, "epoch", (json_int_t)n->welcome.epoch,
			 "rtt_ms", (double)lg_upstreams_rtt_ns(n->upstreams) / 1e6, "connects", (json_int_t)n->n_connects, "why",
			 n->upstream_why, "slots", (json_int_t)lg_replicas_slots_up(n->replicas), "servers", lg_replicas_json(n->replicas));
}

/* As seen from the daemon's own network namespace, which the tool may not share. */
static json_t *attachments_json(struct lg_node *n)
{
	static struct lg_attachment list[_LG_HOOK_N * LG_ATTACH_MAX];
	int found = lg_kern_attachments(n->kern, list, N_ELEMS(list));
	json_t *array = json_array();

	for (int i = 0; i < found; i++)
		json_array_append_new(array, lg_status_attachment(&list[i]));
	return array;
}

/* What the configuration asks for, and whether it is so. */
static json_t *interfaces_json(const struct lg_node *n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n->n_interfaces; i++) {
		const struct lg_node_interface *in = &n->interfaces[i];

		for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++)
			if (lg_node_links_wants(in, hook))
				json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s, s:b, s:s}", "interface", in->name, "entry",
								       in->config->name, "hook", lg_hook_name(hook), "mode",
								       lg_attach_mode_name(in->mode[hook]), "attached",
								       in->mode[hook] != LG_MODE_NONE, "why", in->why));
	}
	return array;
}

static json_t *status_json(struct lg_node *n)
{
	static struct totals t;
	char why[256];
	bool ready;

	totals_take(n, &t);
	ready = lg_node_is_ready(n, why, sizeof(why));
	return json_pack("{s:i, s:s, s:s, s:b, s:s, s:f, s:b, s:o, s:I, s:I, s:o, s:o, s:s, s:o, s:o}", "pid", (int)getpid(), "name",
			 n->config.name, "region", n->config.region, "ready", ready, "why", why, "uptime_s",
			 (double)(t.now_ns - n->started_ns) / 1e9, "degraded", is_degraded(n), "upstream", upstream_json(n),
			 "leased_keys", (json_int_t)lg_table_count(n->keys), "lease_left_tok", (json_int_t)t.left_tok,
			 "interfaces", interfaces_json(n), "attachments", attachments_json(n), "rules_why", n->rules_why, "rules",
			 lg_node_rules_json(n), "confirm_in_s",
			 n->trial_until_ns > t.now_ns ? json_real((double)(n->trial_until_ns - t.now_ns) / 1e9) : json_null());
}

/* As the kernel's reasons are called (reason.def), with one it has no word for. */
static const char *reason_name(enum lg_want_reason reason)
{
	switch (reason) {
	case LG_WANT_LIMIT: return "limit";
	case LG_WANT_PENDING: return "lease_pending";
	case LG_WANT_OVERLOADED: return "overloaded";
	case LG_WANT_UNREACHABLE: return "unreachable";
	}
	return "unknown";
}

struct listing {
	const struct lg_node *n;
	json_t *list;
	uint64_t now_ns;
};

static int lease_json(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct listing *l = arg;
	const struct lg_rule_def *def = l->n->by_id[k->key.rule_id].def;
	struct lg_lessee_view v;
	struct lg_wide_key wide;
	char text[LG_KEY_TEXT_LEN];
	bool known;

	(void)key;
	lg_lessee_view(k->lessee, l->now_ns, &v);
	known = k->key.form & LG_FORM_HASHED && lg_kern_wide_key(l->n->kern, &k->key, &wide) == 0;
	lg_key_format(&k->key, &def->key, known ? &wide : NULL, NULL, text, sizeof(text));
	json_array_append_new(
		l->list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:f, s:s, s:s, s:b}", "rule",
				   def->name, "key", text, "epoch", (json_int_t)v.epoch, "generation",
				   (json_int_t)v.generation, "left_tok", (json_int_t)v.left_tok, "granted_tok",
				   (json_int_t)v.granted_tok, "spent_tok", (json_int_t)v.spent_tok, "returned_tok",
				   (json_int_t)v.returned_tok, "expires_in_ms",
				   lg_status_ms_until(v.expires_ns, l->now_ns), "demand_tps",
				   (double)v.demand_mtps / 1000, "target_tok", (json_int_t)v.target_tok, "low_water_tok",
				   (json_int_t)v.low_water_tok, "rtt_ms", (double)v.rtt_ns / 1e6, "status",
				   lg_status_grant_name(v.status), "denied_for", reason_name(v.reason), "partial", v.partial));
	return json_array_size(l->list) >= LG_STATUS_KEYS_MAX;
}

static json_t *leases_json(struct lg_node *n)
{
	struct listing l = { n, json_array(), lg_clock_now_ns() };

	lg_table_each(n->keys, lease_json, &l);
	return json_pack("{s:o}", "node", l.list);
}

static void exemption_add(json_t *list, const struct lg_exemption *e, const char *by)
{
	char match[LG_MATCH_TEXT_LEN];

	lg_match_text(&e->match, match, sizeof(match));
	json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", e->name, "match", match, "by", by));
}

static json_t *exemptions_json(const struct lg_node *n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n->rules->n_exemptions; i++)
		exemption_add(list, &n->rules->exemptions[i], "file");
	for (size_t i = 0; i < n->own.n; i++)
		exemption_add(list, &n->own.v[i], "node");
	return list;
}

/* What the class and the keys of each global rule stand for. */
static json_t *rules_json(const struct lg_node *n)
{
	json_t *list = json_array();

	for (uint32_t id = 1; id <= LG_RULES_MAX; id++) {
		const struct lg_rule_def *def = n->by_id[id].def;

		if (def && def->scope == LG_SCOPE_GLOBAL)
			json_array_append_new(list, json_pack("{s:i, s:o}", "rule_id", (int)id, "settings",
							      lg_settings_json(def, &n->by_id[id].terms)));
	}
	return json_pack("{s:o, s:o}", "rules", list, "exemptions", exemptions_json(n));
}

static json_t *refused(const struct lg_complaint *c)
{
	char text[1024];

	lg_complaint_format(c, text, sizeof(text));
	return json_pack("{s:b, s:s}", "ok", 0, "error", text);
}

static json_t *reload_json(struct lg_node *n, const json_t *request)
{
	const json_t *list = json_object_get(request, "peers"), *item;
	json_int_t confirm_ms = json_integer_value(json_object_get(request, "confirm_ms"));
	struct lg_node_reload how = { .confirm_ns = confirm_ms > 0 ? (uint64_t)confirm_ms * LG_NS_PER_MS : 0 };
	_cleanup_free_ struct lg_peer *peers = calloc(json_array_size(list) + 1, sizeof(*peers));
	struct lg_complaint c = { 0 };
	char note[1024] = "";
	size_t i;
	int r;

	if (!peers)
		return NULL;
	json_array_foreach(list, i, item)
		if (lg_status_peer_read(item, &peers[how.n_peers]))
			how.n_peers++;
	how.peers = peers;
	r = lg_node_reload(n, &how, &c);
	if (r < 0)
		return refused(&c);
	if (r)
		lg_complaint_format(&c, note, sizeof(note));
	return json_pack("{s:b, s:i, s:s}", "ok", 1, "rules", (int)n->set.n_rules, "note", note);
}

static json_t *confirm_json(struct lg_node *n)
{
	struct lg_complaint c = { 0 };

	if (lg_node_trial_confirm(n, &c) < 0)
		return refused(&c);
	return json_pack("{s:b}", "ok", 1);
}

static json_t *lists_json(struct lg_node *n)
{
	lg_node_lists_changed(n);
	return json_pack("{s:b}", "ok", 1);
}

json_t *lg_node_admin(void *arg, const json_t *request)
{
	const char *cmd = json_string_value(json_object_get(request, "cmd"));
	struct lg_node *n = arg;

	if (cmd && !n->running)
		return json_pack("{s:b, s:s}", "ok", 0, "error", "the node is still starting");
	if (cmd && strcmp(cmd, "status") == 0)
		return status_json(n);
	if (cmd && strcmp(cmd, "leases") == 0)
		return leases_json(n);
	if (cmd && strcmp(cmd, "rules") == 0)
		return rules_json(n);
	if (cmd && strcmp(cmd, "diff") == 0)
		return lg_node_rules_diff(n);
	if (cmd && strcmp(cmd, "reload") == 0)
		return reload_json(n, request);
	if (cmd && strcmp(cmd, "confirm") == 0)
		return confirm_json(n);
	if (cmd && strcmp(cmd, "lists") == 0)
		return lists_json(n);
	if (cmd && strcmp(cmd, "stop") == 0) {
		lg_source_arm(n->stopper, LG_NS_PER_MS);
		return json_pack("{s:b}", "ok", 1);
	}
	return json_pack("{s:b, s:s}", "ok", 0, "error", "unknown command");
}

/* ---- metrics ---- */

static void verdict_metrics(struct lg_node *n, struct lg_metrics *m)
{
	static struct lg_count counts[_LG_HOOK_N][LG_REASON_SLOTS];

	if (lg_kern_verdicts_read(n->kern, counts) < 0)
		return;
	for (unsigned hook = 0; hook < _LG_HOOK_N; hook++) {
		for (unsigned reason = 0; reason < _LG_REASON_N; reason++) {
			const struct lg_count *count = &counts[hook][reason];
			const char *labels[] = { lg_hook_name((enum lg_hook)hook), lg_status_verdict_name(reason),
						 lg_status_reason_label(reason) };

			if (!count->packets)
				continue;
			lg_metrics_add(m, LG_METRIC_VERDICT_PACKETS, count->packets, "hook", labels[0], "verdict", labels[1],
				       "reason", labels[2], NULL);
			lg_metrics_add(m, LG_METRIC_VERDICT_BYTES, count->bytes, "hook", labels[0], "verdict", labels[1],
				       "reason", labels[2], NULL);
		}
	}
}

static void fragment_metrics(struct lg_node *n, struct lg_metrics *m)
{
	uint64_t packets[_LG_HOOK_N];

	if (lg_kern_later_fragments_read(n->kern, packets) < 0)
		return;
	for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++)
		lg_metrics_add(m, LG_METRIC_LATER_FRAGMENTS, packets[hook], "hook", lg_hook_name(hook), NULL);
}

static void rule_metrics(struct lg_node *n, struct lg_metrics *m, const struct totals *t)
{
	static struct lg_rule_counts counts;

	for (uint32_t id = 1; id <= LG_RULES_MAX; id++) {
		const struct lg_rule_def *def = n->by_id[id].def;

		if (!def || lg_kern_rule_counts_read(n->kern, id, &counts) < 0)
			continue;
		for (unsigned reason = 0; reason < _LG_REASON_N; reason++) {
			const struct lg_count *count = &counts.by_reason[reason];

			/* admitted and limit are there from the start, so that rate() has something to stand on. */
			if (!count->packets && reason != LG_PASS_ADMITTED && reason != LG_DROP_LIMIT)
				continue;
			lg_metrics_add(m, LG_METRIC_RULE_PACKETS, count->packets, "rule", def->name, "reason",
				       lg_status_reason_label(reason), NULL);
			lg_metrics_add(m, LG_METRIC_RULE_BYTES, count->bytes, "rule", def->name, "reason",
				       lg_status_reason_label(reason), NULL);
		}
		if (def->scope != LG_SCOPE_GLOBAL)
			continue;
		lg_metrics_add(m, LG_METRIC_LEASED_KEYS, t->keys_by_rule[id], "rule", def->name, NULL);
		lg_metrics_add(m, LG_METRIC_LEASE_LEFT, t->left_by_rule[id], "rule", def->name, NULL);
	}
}

static void line_metrics(struct lg_node *n, struct lg_metrics *m, uint64_t now_ns)
{
	uint32_t live;

	for (uint32_t i = 0; i < n->set.n_rules; i++) {
		const struct lg_rule *rule = &n->set.rules[i];
		const struct lg_rule_def *def = n->by_id[rule->rule_id].def;

		if (!def || !rule->n_lines || lg_kern_lines_count(n->kern, rule, now_ns, &live) < 0)
			continue;
		lg_metrics_add(m, LG_METRIC_LINE_KEYS_MAX, rule->n_lines * LG_LINE_SLOTS, "rule", def->name, NULL);
		lg_metrics_add(m, LG_METRIC_LINE_KEYS, live, "rule", def->name, NULL);
	}
}

struct conn_totals {
	uint64_t used;
	uint64_t by_rule[LG_RULES_MAX + 1];
};

static int conn_total(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn)
{
	struct conn_totals *t = arg;

	(void)key;
	t->used++;
	for (size_t i = 0; i < LG_CONN_CHARGES_MAX; i++) {
		uint32_t id = (uint32_t)conn->charge[i].word >> 8;

		if (id && id <= LG_RULES_MAX && (conn->charge[i].word & 0xff) > LG_CONNECTION_NEW)
			t->by_rule[id]++;
	}
	return 0;
}

static void conn_metrics(struct lg_node *n, struct lg_metrics *m)
{
	struct conn_totals t = { 0 };
	uint32_t max;

	if (lg_kern_conns_max(n->kern, &max) < 0 || lg_kern_each_conn(n->kern, conn_total, &t) < 0)
		return;
	lg_metrics_add(m, LG_METRIC_CONNS_MAX, max, NULL);
	lg_metrics_add(m, LG_METRIC_CONNS, t.used, NULL);
	for (uint32_t i = 0; i < n->set.n_rules; i++) {
		const struct lg_rule *rule = &n->set.rules[i];

		if (rule->connection > LG_CONNECTION_NEW && n->by_id[rule->rule_id].def)
			lg_metrics_add(m, LG_METRIC_CONNS_OPEN, t.by_rule[rule->rule_id], "rule", n->by_id[rule->rule_id].def->name, NULL);
	}
}

static void attach_metrics(const struct lg_node *n, struct lg_metrics *m)
{
	for (size_t i = 0; i < n->n_interfaces; i++) {
		const struct lg_node_interface *in = &n->interfaces[i];

		for (enum lg_hook hook = 0; hook < _LG_HOOK_N; hook++)
			if (lg_node_links_wants(in, hook) && !(in->attached && in->charged_below & (1u << hook)))
				lg_metrics_add(m, LG_METRIC_ATTACHED, in->mode[hook] != LG_MODE_NONE, "interface", in->name, "hook",
					       lg_hook_name(hook), "mode", lg_attach_mode_name(in->mode[hook]), NULL);
	}
}

static void upstream_metrics(struct lg_node *n, struct lg_metrics *m)
{
	if (!n->replicas)
		return;
	lg_metrics_add(m, LG_METRIC_UPSTREAM_UP, lg_node_upstream_is_up(n), "lessor", n->config.region, NULL);
	lg_metrics_add(m, LG_METRIC_UPSTREAM_CHANGES, n->n_connects, "lessor", n->config.region, NULL);
	lg_metrics_addf(m, LG_METRIC_UPSTREAM_RTT, (double)lg_upstreams_rtt_ns(n->upstreams) / 1e9, "lessor", n->config.region, NULL);
	lg_metrics_add(m, LG_METRIC_ASKS, n->n_asks, "lessor", n->config.region, NULL);
	lg_metrics_add(m, LG_METRIC_GRANTS, n->n_grants, "lessor", n->config.region, NULL);
}

struct ban_sums {
	uint64_t now_ns;
	uint64_t by_rule[LG_RULES_MAX + 1];
};

static int ban_sum(void *arg, const struct lg_key *key, const struct lg_ban *ban)
{
	struct ban_sums *sums = arg;

	if (key->rule_id <= LG_RULES_MAX && ban->until_ns > sums->now_ns)
		sums->by_rule[key->rule_id]++;
	return 0;
}

static void ban_metrics(struct lg_node *n, struct lg_metrics *m, const struct lg_shared *shared, uint64_t now_ns)
{
	static struct lg_rule_counts counts;
	static struct ban_sums sums;

	sums = (struct ban_sums){ .now_ns = now_ns };
	if (lg_kern_each_ban(n->kern, ban_sum, &sums) < 0)
		return;
	for (uint32_t i = 0; i < n->set.n_rules; i++) {
		const struct lg_rule *rule = &n->set.rules[i];
		const char *name = n->names[rule->rule_id].name;

		if (!(rule->special & LG_SPECIAL_BAN) || lg_kern_rule_counts_read(n->kern, rule->rule_id, &counts) < 0)
			continue;
		lg_metrics_add(m, LG_METRIC_BANS, sums.by_rule[rule->rule_id], "rule", name, NULL);
		lg_metrics_add(m, LG_METRIC_BANS_BEGUN, counts.bans.packets, "rule", name, NULL);
	}
	lg_metrics_add(m, LG_METRIC_BANS_FULL, shared->bans_full, NULL);
	lg_metrics_add(m, LG_METRIC_STRIKES_LOST, shared->strikes_lost, NULL);
}

static void metrics_fill(struct lg_node *n, struct lg_metrics *m)
{
	static struct totals t;
	struct lg_shared shared = { 0 };
	struct lg_bypass bypass = { 0 };
	uint32_t max, used;
	char why[256];

	totals_take(n, &t);
	lg_status_build_info(m, "node");
	verdict_metrics(n, m);
	fragment_metrics(n, m);
	rule_metrics(n, m, &t);
	line_metrics(n, m, t.now_ns);
	conn_metrics(n, m);
	attach_metrics(n, m);
	upstream_metrics(n, m);
	lg_metrics_add(m, LG_METRIC_ENFORCING, lg_node_is_ready(n, why, sizeof(why)), NULL);
	if (n->config.rules_from_region)
		lg_status_rules_metrics(n->region_rules.doc, &n->region_rules.refused, m);
	lg_metrics_add(m, LG_METRIC_RULES_LAST, n->rules_why[0] != '\0', NULL);
	lg_metrics_add(m, LG_METRIC_DEGRADED, is_degraded(n), NULL);
	if (lg_kern_bypass_read(n->kern, &bypass) == 0)
		lg_metrics_add(m, LG_METRIC_BYPASS, lg_kern_bypass_is_on(&bypass, t.now_ns), NULL);
	if (lg_kern_shared_read(n->kern, &shared) == 0) {
		lg_metrics_add(m, LG_METRIC_MAP_FULL, shared.map_full, NULL);
		lg_metrics_add(m, LG_METRIC_LINES_FULL, shared.lines_full, NULL);
		lg_metrics_add(m, LG_METRIC_CONNS_FULL, shared.conns_full, NULL);
		lg_metrics_add(m, LG_METRIC_RECOUNTS, n->n_recounts, NULL);
		lg_metrics_add(m, LG_METRIC_INITIATED_FULL, shared.initiated_full, NULL);
		lg_metrics_add(m, LG_METRIC_EVENTS_LOST, shared.events_lost, NULL);
		lg_metrics_add(m, LG_METRIC_EVENTS_LIMITED, shared.events_limited, NULL);
		ban_metrics(n, m, &shared, t.now_ns);
		lg_metrics_add(m, LG_METRIC_REPLIES, shared.resets, "kind", "reset", NULL);
		lg_metrics_add(m, LG_METRIC_REPLIES, shared.prohibited, "kind", "prohibited", NULL);
	}
	if (lg_kern_keys_count(n->kern, &max, &used) == 0) {
		lg_metrics_add(m, LG_METRIC_KEYS_MAX, max, NULL);
		lg_metrics_add(m, LG_METRIC_KEYS, used, NULL);
	}
	if (n->http)
		lg_metrics_add(m, LG_METRIC_HTTP_RESTARTS, lg_http_restarts(n->http), NULL);
	lg_secure_metrics(&n->secure, m);
	lg_metrics_add(m, LG_METRIC_RELOADS, n->n_reloads_ok, "result", "applied", NULL);
	lg_metrics_add(m, LG_METRIC_RELOADS, n->n_reloads_failed, "result", "refused", NULL);
}

void lg_node_http(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply)
{
	struct lg_node *n = arg;
	struct lg_metrics m = { 0 };
	char why[256] = "starting";
	bool ready;

	if (strcmp(request->path, "/metrics") == 0 && n->running) {
		metrics_fill(n, &m);
		lg_status_reply_metrics(&m, reply);
		return;
	}
	ready = lg_node_is_ready(n, why, sizeof(why));
	lg_status_reply_health(request->path, ready, why, reply);
}
