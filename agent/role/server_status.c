// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a region's server shows: the operator's socket (JSON), /metrics, /healthz, /readyz. */
#include "role/server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "role/status.h"

/* ---- JSON ---- */

static json_t *stream_json(const struct lg_server_holder *h, const struct lg_server_stream *stream)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I}", "name", h->name, "kind", h->is_region ? "region" : "host", "address",
			 lg_lease_peer_address(stream->peer), "server", stream->hello.replica, "incarnation", (json_int_t)h->incarnation);
}

static void holders_json(const struct lg_server_holders *kind, json_t *list)
{
	for (size_t i = 0; i < kind->n; i++) {
		const struct lg_server_holder *h = kind->v[i];
		const struct lg_server_stream *stream;

		LIST_FOREACH(stream, &h->streams, link)
			json_array_append_new(list, stream_json(h, stream));
	}
}

static bool home_is_up(const struct lg_server *s, const struct lg_server_home *home)
{
	return home->replicas ? lg_replicas_are_up(home->replicas) : s->slots.n_owned > 0;
}

static json_t *homes_json(struct lg_server *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->config.n_regions; i++) {
		const struct lg_server_home *home = &s->homes[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:f, s:I, s:s}", "region", s->names[i], "address",
						      home->replicas ? lg_config_dial(&s->config, s->names[i]) : "self",
						      "state", home_is_up(s, home) ? "up" : "down", "epoch",
						      (json_int_t)(home->replicas ? home->epoch : s->epoch), "rtt_ms",
						      (double)lg_upstreams_rtt_ns(home->upstreams) / 1e6, "connects",
						      (json_int_t)home->n_connects, "why", home->why));
	}
	return list;
}

static json_t *status_json(struct lg_server *s)
{
	json_t *holders = json_array();

	holders_json(&s->hosts, holders);
	holders_json(&s->regions, holders);
	return json_pack("{s:i, s:s, s:I, s:s, s:f, s:o, s:o, s:I, s:I, s:s, s:I, s:o, s:o}", "pid", (int)getpid(), "name", s->config.region,
			 "epoch", (json_int_t)s->epoch, "listen", s->config.listen, "uptime_s",
			 (double)(lg_clock_now_ns() - s->started_ns) / 1e9, "holders", holders, "homes", homes_json(s),
			 "region_keys", (json_int_t)lg_table_count(s->region_keys), "home_keys",
			 (json_int_t)lg_table_count(s->home_keys), "server", s->slots.name, "slots", (json_int_t)s->slots.n_owned, "servers",
			 lg_slots_json(s), "escrow", lg_server_escrow_json(s));
}

struct listing {
	struct lg_server *s;
	json_t *list;
	uint64_t now_ns;
};

static const struct lg_rule_def *key_text(const struct lg_server *s, const struct lg_key *key, char *buf, size_t len)
{
	const struct lg_rule_def *def = &s->rules[key->rule_id - 1].def;

	lg_key_format(key, &def->key, NULL, NULL, buf, len);
	return def;
}

static int region_key_json(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct listing *l = arg;
	const struct lg_rule_def *def;
	struct lg_region_view v;
	char text[LG_KEY_TEXT_LEN];

	(void)key;
	def = key_text(l->s, &k->key, text, sizeof(text));
	lg_region_view(k->region, l->now_ns, &v);
	json_array_append_new(
		l->list,
		json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:i, s:s, s:b}", "rule", def->name,
			  "key", text, "home", l->s->names[k->home->region], "epoch", (json_int_t)v.epoch, "generation",
			  (json_int_t)v.generation, "pool_tok", (json_int_t)v.pool_tok, "outstanding_tok",
			  (json_int_t)v.outstanding_tok, "granted_tok", (json_int_t)v.granted_tok, "returned_tok",
			  (json_int_t)v.returned_tok, "spent_tok", (json_int_t)v.spent_tok, "expires_in_ms",
			  lg_status_ms_until(v.expires_ns, l->now_ns), "demand_tps", (double)v.demand_mtps / 1000, "target_tok",
			  (json_int_t)v.target_tok, "holders", (int)v.n_holders, "status", lg_status_grant_name(v.status),
			  "partial", v.partial));
	return json_array_size(l->list) >= LG_STATUS_KEYS_MAX;
}

static int home_key_json(void *arg, const void *key, void *value)
{
	struct lg_server_home_key *k = value;
	struct listing *l = arg;
	const struct lg_rule_def *def;
	struct lg_home_view v;
	char text[LG_KEY_TEXT_LEN];

	(void)key;
	def = key_text(l->s, &k->key, text, sizeof(text));
	lg_home_view(k->home, l->now_ns, &v);
	json_array_append_new(
		l->list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:i}", "rule", def->name, "key", text,
				   "budget_tok", (json_int_t)v.budget_tok, "pool_tok", (json_int_t)v.pool_tok,
				   "outstanding_tok", (json_int_t)v.outstanding_tok, "consumed_tok",
				   (json_int_t)v.consumed_tok, "unknown_tok", (json_int_t)v.unknown_tok, "reserved_tok",
				   (json_int_t)v.reserved_tok, "reserves", (int)lg_home_reserves(k->home), "holders", (int)v.n_holders));
	return json_array_size(l->list) >= LG_STATUS_KEYS_MAX;
}

static json_t *leases_json(struct lg_server *s)
{
	struct listing region = { s, json_array(), lg_clock_now_ns() }, home = { s, json_array(), lg_clock_now_ns() };

	lg_table_each(s->region_keys, region_key_json, &region);
	lg_table_each(s->home_keys, home_key_json, &home);
	return json_pack("{s:o, s:o}", "region", region.list, "home", home.list);
}

/* The measured point of each rule: what `leasegate curve` draws. */
static json_t *curve_json(struct lg_server *s)
{
	uint64_t now_ns = lg_clock_now_ns();
	json_t *list = json_array();

	for (size_t i = 0; i < LG_RULES_MAX; i++) {
		struct lg_server_rule *rule = &s->rules[i];
		struct lg_meter_reading v;

		if (!rule->live)
			continue;
		lg_meter_read(&rule->meter, now_ns, &v);
		json_array_append_new(
			list, json_pack("{s:s, s:f, s:i, s:f, s:f, s:f, s:f, s:I, s:f, s:f}", "rule", rule->def.name, "period_s",
					(double)rule->terms->region_period_ns / 1e9, "seconds", (int)v.seconds, "reports_per_s",
					v.reports_per_s[LG_TIER_HOME], "grants_per_s", v.grants_per_s[LG_TIER_HOME],
					"reports_of_hosts_per_s", v.reports_per_s[LG_TIER_REGION], "grants_to_hosts_per_s",
					v.grants_per_s[LG_TIER_REGION], "worst_outstanding_tok", (json_int_t)v.worst_tok,
					"arrival_per_s", v.demand_tps, "regions", v.active));
	}
	return json_pack("{s:s, s:o}", "region", s->config.region, "rules", list);
}

static json_t *reload_json(struct lg_server *s)
{
	struct lg_complaint c = { 0 };
	int r = lg_server_reload(s, &c);
	char text[1024] = "";

	if (r)
		lg_complaint_format(&c, text, sizeof(text));
	if (r < 0)
		return json_pack("{s:b, s:s}", "ok", 0, "error", text);
	return json_pack("{s:b, s:s}", "ok", 1, "note", text);
}

/* What a server that does not lend waits for. */
static void not_running(struct lg_server *s, char *buf, size_t len)
{
	const char *why;

	if (s->store && !lg_store_is_ready(s->store, &why))
		snprintf(buf, len, "the store cannot be read yet: %s", why);
	else if (!s->running)
		snprintf(buf, len, "the region is still starting");
	else if (s->running && !lg_store_here_until_ns(s->store))
		snprintf(buf, len, "the store is out of reach: this server owns no slots of keys");
	else
		snprintf(buf, len, "some slots of keys have no owner yet");
}

json_t *lg_server_admin(void *arg, const json_t *request)
{
	const char *cmd = json_string_value(json_object_get(request, "cmd"));
	struct lg_server *s = arg;
	char text[640];

	if (cmd && !s->running) {
		not_running(s, text, sizeof(text));
		return json_pack("{s:b, s:b, s:s}", "ok", 0, "starting", 1, "error", text);
	}
	if (cmd && strcmp(cmd, "status") == 0)
		return status_json(s);
	if (cmd && strcmp(cmd, "leases") == 0)
		return leases_json(s);
	if (cmd && strcmp(cmd, "curve") == 0)
		return curve_json(s);
	if (cmd && strcmp(cmd, "journal") == 0)
		return lg_server_journal_page(s, request);
	if (cmd && strcmp(cmd, "rules") == 0)
		return lg_server_rules_admin(s, request);
	if (cmd && strcmp(cmd, "regions") == 0)
		return lg_server_regions_admin(s, request);
	if (cmd && strcmp(cmd, "reload") == 0)
		return reload_json(s);
	return json_pack("{s:b, s:s}", "ok", 0, "error", "unknown command");
}

/* From afar, who asks is whom his certificate names, whatever he says; and whoever is logged in over SSH there is none of ours. */
json_t *lg_server_operator(void *arg, const char *name, const json_t *request)
{
	json_t *mine = json_copy((json_t *)request), *reply = NULL;

	if (mine && json_object_set_new(mine, "by", json_string(name)) == 0 && json_object_set_new(mine, "peers", json_array()) == 0)
		reply = lg_server_admin(arg, mine);
	json_decref(mine);
	return reply;
}

/* ---- metrics ---- */

struct sums {
	struct lg_server *s;
	uint64_t now_ns;
	uint64_t outstanding_region[LG_RULES_MAX], outstanding_home[LG_RULES_MAX];
};

static int region_key_sum(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct lg_region_view v;
	struct sums *sums = arg;

	(void)key;
	lg_region_view(k->region, sums->now_ns, &v);
	sums->outstanding_region[k->key.rule_id - 1] += v.outstanding_tok;
	return 0;
}

static int home_key_sum(void *arg, const void *key, void *value)
{
	struct lg_server_home_key *k = value;
	uint32_t slot = k->key.rule_id - 1;
	struct lg_home_view v;
	struct sums *sums = arg;

	(void)key;
	lg_home_view(k->home, sums->now_ns, &v);
	sums->outstanding_home[slot] += v.outstanding_tok;
	return 0;
}

static void meter_metrics(struct lg_server_rule *rule, uint64_t now_ns, struct lg_metrics *m)
{
	static const char *const tiers[_LG_TIER_N] = { [LG_TIER_HOME] = "home", [LG_TIER_REGION] = "region" };
	const char *name = rule->def.name;
	struct lg_meter_reading v;

	lg_meter_read(&rule->meter, now_ns, &v);
	for (int tier = 0; tier < _LG_TIER_N; tier++) {
		lg_metrics_add(m, LG_METRIC_LEASE_REPORTS, rule->meter.n_reports[tier], "rule", name, "tier", tiers[tier], NULL);
		lg_metrics_add(m, LG_METRIC_LEASE_GRANTS, rule->meter.n_grants[tier], "rule", name, "tier", tiers[tier], NULL);
	}
	lg_metrics_add(m, LG_METRIC_LEASE_WORST, v.worst_tok, "rule", name, NULL);
	lg_metrics_addf(m, LG_METRIC_LEASE_DEMAND, v.demand_tps, "rule", name, NULL);
	lg_metrics_addf(m, LG_METRIC_LEASE_ACTIVE, v.active, "rule", name, NULL);
	lg_metrics_addf(m, LG_METRIC_LEASE_PRODUCT, v.ratio, "rule", name, NULL);
}

/* Of all slots, former ones as well. */
static void home_totals(const struct lg_server *s, size_t rule, uint64_t *ret_granted_tok, uint64_t *ret_lapsed_tok)
{
	*ret_granted_tok = s->rules[rule].past_granted_tok;
	*ret_lapsed_tok = s->rules[rule].past_lapsed_tok;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		const struct lg_server_lessors *l = s->slots.v[slot].lessors[rule];

		*ret_granted_tok += l ? l->home.granted_tok : 0;
		*ret_lapsed_tok += l ? l->home.lapsed_tok : 0;
	}
}

static void rule_metrics(struct lg_server *s, struct lg_metrics *m)
{
	uint64_t granted_tok, lapsed_tok;
	static struct sums sums;

	memset(&sums, 0, sizeof(sums));
	sums.s = s;
	sums.now_ns = lg_clock_now_ns();
	lg_table_each(s->region_keys, region_key_sum, &sums);
	lg_table_each(s->home_keys, home_key_sum, &sums);
	for (size_t i = 0; i < LG_RULES_MAX; i++) {
		struct lg_server_rule *rule = &s->rules[i];

		if (!rule->live)
			continue;
		home_totals(s, i, &granted_tok, &lapsed_tok);
		meter_metrics(rule, sums.now_ns, m);
		lg_metrics_add(m, LG_METRIC_GRANTED, granted_tok, "tier", "home", "rule",
			       rule->def.name, NULL);
		lg_metrics_add(m, LG_METRIC_LAPSED, lapsed_tok, "rule", rule->def.name, NULL);
		lg_metrics_add(m, LG_METRIC_OUTSTANDING, sums.outstanding_home[i], "tier", "home", "rule", rule->def.name, NULL);
		lg_metrics_add(m, LG_METRIC_OUTSTANDING, sums.outstanding_region[i], "tier", "region", "rule", rule->def.name,
			       NULL);
	}
}

static uint64_t connected(const struct lg_server_holders *kind)
{
	uint64_t n = 0;

	for (size_t i = 0; i < kind->n; i++)
		n += !LIST_EMPTY(&kind->v[i]->streams);
	return n;
}

static bool metrics_homes(struct lg_server *s, struct lg_metrics *m)
{
	bool degraded = false;

	for (size_t i = 0; i < s->config.n_regions; i++) {
		const struct lg_server_home *home = &s->homes[i];

		degraded |= !home_is_up(s, home);
		lg_metrics_add(m, LG_METRIC_UPSTREAM_UP, home_is_up(s, home), "lessor", s->names[i], NULL);
		lg_metrics_add(m, LG_METRIC_UPSTREAM_CHANGES, home->n_connects, "lessor", s->names[i], NULL);
		lg_metrics_addf(m, LG_METRIC_UPSTREAM_RTT, (double)lg_upstreams_rtt_ns(home->upstreams) / 1e9, "lessor", s->names[i], NULL);
		lg_metrics_add(m, LG_METRIC_ASKS, home->n_asks, "lessor", s->names[i], NULL);
		lg_metrics_add(m, LG_METRIC_GRANTS, home->n_grants, "lessor", s->names[i], NULL);
	}
	return degraded;
}

static void metrics_fill(struct lg_server *s, struct lg_metrics *m)
{
	struct lg_lease_server_counts ended;

	lg_status_build_info(m, "region");
	rule_metrics(s, m);
	lg_metrics_add(m, LG_METRIC_DEGRADED, metrics_homes(s, m), NULL);
	lg_metrics_add(m, LG_METRIC_HOLDERS, connected(&s->hosts), "kind", "host", NULL);
	lg_metrics_add(m, LG_METRIC_HOLDERS, connected(&s->regions), "kind", "region", NULL);
	lg_lease_server_counts(s->service, &ended);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, ended.refused - s->n_impostors, "cause", "refused", NULL);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, s->n_impostors, "cause", "impostor", NULL);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, ended.strangers, "cause", "stranger", NULL);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, ended.displaced, "cause", "displaced", NULL);
	lg_secure_metrics(&s->secure, m);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, ended.malformed, "cause", "malformed", NULL);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, ended.slow, "cause", "slow", NULL);
	lg_metrics_add(m, LG_METRIC_LESSOR_ENDED, ended.late, "cause", "late", NULL);
	for (unsigned status = LG_GRANT_UNKNOWN_RULE; status <= LG_GRANT_OVERLOADED; status++)
		lg_metrics_add(m, LG_METRIC_LESSOR_REFUSED, s->n_refused[status], "status",
			       lg_status_grant_name((enum lg_grant_status)status), NULL);
	lg_server_rules_metrics(s, m);
	lg_server_escrow_metrics(s, m);
	lg_server_journal_metrics(s, m);
	if (s->http)
		lg_metrics_add(m, LG_METRIC_HTTP_RESTARTS, lg_http_restarts(s->http), NULL);
	lg_metrics_add(m, LG_METRIC_RELOADS, s->n_reloads_ok, "result", "applied", NULL);
	lg_metrics_add(m, LG_METRIC_RELOADS, s->n_reloads_failed, "result", "refused", NULL);
}

void lg_server_http(void *arg, const struct lg_http_request *request, struct lg_http_reply *reply)
{
	struct lg_server *s = arg;
	struct lg_metrics m = { 0 };
	char text[640] = "another region has a newer list of regions";

	bool ready = s->running && lg_slots_are_ready(s);

	if (!ready)
		not_running(s, text, sizeof(text));
	if (strcmp(request->path, "/metrics") == 0 && s->running) {
		metrics_fill(s, &m);
		lg_status_reply_metrics(&m, reply);
		return;
	}
	lg_status_reply_health(request->path, ready && !lg_list_is_outdated(s), text, reply);
}
