// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/status.h"

#include <stdio.h>
#include <string.h>

#include "api/lease_rpc.h"
#include "base/clock.h"
#include "base/num.h"
#include "lease/age.h"
#include "leasegate/abi.h"

json_int_t lg_status_ms_until(uint64_t then_ns, uint64_t now_ns)
{
	return then_ns >= now_ns ? (json_int_t)((then_ns - now_ns) / 1000000) : -(json_int_t)((now_ns - then_ns) / 1000000);
}

uint64_t lg_status_forgot_age_ms(uint64_t until_ns, uint64_t now_ns)
{
	return until_ns ? lg_age_ms(until_ns, now_ns) : LG_LEASE_REMEMBERS;
}

const char *lg_status_grant_name(enum lg_grant_status status)
{
	switch (status) {
	case LG_GRANT_OK: return "ok";
	case LG_GRANT_UNKNOWN_RULE: return "unknown_rule";
	case LG_GRANT_NOT_HOME: return "not_home";
	case LG_GRANT_OVERLOADED: return "overloaded";
	case LG_GRANT_RECOVERING: return "recovering";
	case LG_GRANT_UNREACHABLE: return "unreachable";
	case LG_GRANT_NOT_OWNER: return "not_owner";
	}
	return "unknown";
}

json_t *lg_status_attachment(const struct lg_attachment *a)
{
	return json_pack("{s:s, s:i, s:s, s:s, s:I, s:I}", "interface", a->ifname, "ifindex", (int)a->ifindex, "hook",
			 lg_hook_name(a->hook), "mode", lg_attach_mode_name(a->mode), "link_id", (json_int_t)a->link_id, "prog_id",
			 (json_int_t)a->prog_id);
}

static const struct {
	const char *label;
	const char *verdict;
} reasons[_LG_REASON_N] = {
#define PASS "pass"
#define DROP "drop"
#define LG_REASON(id, name, label, verdict, help) [id] = { label, verdict },
#include "leasegate/reason.def"
#undef LG_REASON
#undef PASS
#undef DROP
};

const char *lg_status_reason_label(unsigned reason)
{
	return reason < _LG_REASON_N ? reasons[reason].label : "unknown";
}

const char *lg_status_verdict_name(unsigned reason)
{
	return reason < _LG_REASON_N ? reasons[reason].verdict : "unknown";
}

void lg_status_build_info(struct lg_metrics *m, const char *role)
{
	lg_metrics_add(m, LG_METRIC_BUILD_INFO, 1, "version", LG_VERSION, "role", role, NULL);
}

void lg_status_reply_metrics(struct lg_metrics *m, struct lg_http_reply *reply)
{
	reply->status = 200;
	reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
	lg_metrics_page(m, &reply->body);
}

void lg_status_reply_health(const char *path, bool ready, const char *why, struct lg_http_reply *reply)
{
	reply->content_type = "text/plain; charset=utf-8";
	if (strcmp(path, "/healthz") == 0) {
		reply->status = 200;
		lg_text_addf(&reply->body, "ok\n");
	} else if (strcmp(path, "/readyz") == 0) {
		reply->status = ready ? 200 : 503;
		lg_text_addf(&reply->body, "%s\n", ready ? "ready" : why);
	} else if (strcmp(path, "/metrics") == 0) {
		reply->status = 503;
		lg_text_addf(&reply->body, "%s\n", why);
	} else {
		reply->status = 404;
		lg_text_addf(&reply->body, "not here: /metrics, /healthz and /readyz are\n");
	}
}

static uint16_t port_of(const json_t *object, const char *key)
{
	json_int_t port = json_integer_value(json_object_get(object, key));

	return port > 0 && port <= 0xffff ? (uint16_t)port : 0;
}

/* A session as the operator's tool saw it; false if that makes none. */
bool lg_status_peer_read(const json_t *object, struct lg_peer *ret)
{
	const char *peer = json_string_value(json_object_get(object, "peer")), *local = json_string_value(json_object_get(object, "local"));
	const char *interface = json_string_value(json_object_get(object, "interface"));
	struct lg_peer p = { .peer_port = port_of(object, "peer_port"), .local_port = port_of(object, "local_port") };
	uint8_t family, local_family, len;
	struct lg_complaint c;

	if (!peer || !local || lg_prefix_parse(peer, p.peer, &family, &len, &c) < 0 ||
	    lg_prefix_parse(local, p.local, &local_family, &len, &c) < 0 || family != local_family)
		return false;
	snprintf(p.interface, sizeof(p.interface), "%s", interface ? interface : "");
	*ret = p;
	return true;
}

void lg_status_rules_metrics(const struct lg_rules_doc *doc, const struct lg_rules_stamp *refused, struct lg_metrics *m)
{
	uint64_t has = doc ? doc->stamp.counter : 0, n_live = 0, now_ns = lg_clock_now_ns();

	for (size_t i = 0; doc && i < doc->n_overrides; i++)
		n_live += !doc->overrides[i].until_ns || doc->overrides[i].until_ns > now_ns;
	lg_metrics_add(m, LG_METRIC_RULES_VERSION, refused->counter > has ? refused->counter : has, "which", "asked", NULL);
	lg_metrics_add(m, LG_METRIC_RULES_VERSION, has, "which", "has", NULL);
	if (doc)
		lg_metrics_addf(m, LG_METRIC_RULES_MADE, (double)doc->stamp.unix_ms / 1000, NULL);
	lg_metrics_add(m, LG_METRIC_RULES_OVERRIDES, n_live, NULL);
}
