/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What both roles need to show themselves. */
#pragma once

#include <jansson.h>

#include "api/metrics.h"
#include "kern/kern.h"
#include "lease/msg.h"
#include "net/http.h"
#include "rules/document.h"
#include "rules/lockout.h"

#define LG_STATUS_KEYS_MAX 10000	/* keys of one answer on the operator's socket */

#ifndef LG_VERSION
#define LG_VERSION "0.1.0"
#endif

/* Milliseconds from now to then, negative when past, as JSON holds them. */
json_int_t lg_status_ms_until(uint64_t then_ns, uint64_t now_ns);
/* The age of the time before which a holder has forgotten, as it tells a lessor; 0: it remembers all. */
uint64_t lg_status_forgot_age_ms(uint64_t until_ns, uint64_t now_ns);
/* "ok", "unknown_rule", "not_home", "overloaded", "recovering" */
const char *lg_status_grant_name(enum lg_grant_status status);
json_t *lg_status_attachment(const struct lg_attachment *a);
/* Of enum lg_reason: the label of reason.def, and "pass" or "drop". */
const char *lg_status_reason_label(unsigned reason);
const char *lg_status_verdict_name(unsigned reason);

void lg_status_build_info(struct lg_metrics *m, const char *role);
void lg_status_reply_metrics(struct lg_metrics *m, struct lg_http_reply *reply);
/* /healthz (200 while the process answers) and /readyz (503 with the reason until ready); other paths are 404. */
void lg_status_reply_health(const char *path, bool ready, const char *why, struct lg_http_reply *reply);

/* Rules at run time: the version that was asked for and the one in force, and what is set for a while. doc: in force, or NULL. */
void lg_status_rules_metrics(const struct lg_rules_doc *doc, const struct lg_rules_stamp *refused, struct lg_metrics *m);

/* A session as the operator's tool tells of it, who must not be cut off; false: it is none. */
bool lg_status_peer_read(const json_t *object, struct lg_peer *ret);
