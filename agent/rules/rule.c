// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/rule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/num.h"

struct lg_rules *lg_rules_free(struct lg_rules *rules)
{
	if (!rules)
		return NULL;
	free(rules->v);
	free(rules);
	return NULL;
}

const char *lg_scope_name(enum lg_scope scope)
{
	switch (scope) {
	case LG_SCOPE_HOST: return "host";
	case LG_SCOPE_GLOBAL: return "global";
	}
	return "?";
}

const char *lg_class_name(enum lg_class class)
{
	switch (class) {
	case LG_CLASS_LOCAL: return "local";
	case LG_CLASS_LEASE: return "lease";
	case LG_CLASS_STRICT: return "strict";
	case LG_CLASS_SYNC: return "sync";
	}
	return "?";
}

const char *lg_algorithm_name(enum lg_algorithm algorithm)
{
	switch (algorithm) {
	case LG_TOKEN_BUCKET: return "token_bucket";
	case LG_FIXED_WINDOW: return "fixed_window";
	case LG_SLIDING_WINDOW: return "sliding_window";
	case LG_SLIDING_LOG: return "sliding_log";
	}
	return "?";
}

const char *lg_unit_name(enum lg_unit unit)
{
	switch (unit) {
	case LG_UNIT_PACKETS: return "packets";
	case LG_UNIT_BYTES: return "bytes";
	case LG_UNIT_CONNECTIONS: return "connections";
	case LG_UNIT_CONCURRENT: return "concurrent";
	case LG_UNIT_REQUESTS: return "requests";
	}
	return "?";
}

const char *lg_on_full_name(enum lg_on_full on_full)
{
	switch (on_full) {
	case LG_ON_FULL_OVERFLOW: return "overflow";
	case LG_ON_FULL_DENY: return "deny";
	case LG_ON_FULL_PASS: return "pass";
	}
	return "?";
}

const char *lg_fallback_name(enum lg_fallback fallback)
{
	switch (fallback) {
	case LG_FALLBACK_DENY: return "deny";
	case LG_FALLBACK_SHARE: return "share";
	case LG_FALLBACK_CLOSED: return "closed";
	case LG_FALLBACK_OPEN: return "open";
	}
	return "?";
}

const char *lg_lease_kind_name(enum lg_lease_kind kind)
{
	switch (kind) {
	case LG_LEASE_AUTO: return "auto";
	case LG_LEASE_BLOCK: return "block";
	case LG_LEASE_LIMIT: return "limit";
	}
	return "?";
}

const char *lg_lease_owner_name(enum lg_lease_owner owner)
{
	switch (owner) {
	case LG_OWNER_AUTO: return "auto";
	case LG_OWNER_OFF: return "off";
	case LG_OWNER_ON: return "on";
	}
	return "?";
}

/* What is hashed: each number as 8 bytes, lowest first, so that every machine gets the same. */
struct words {
	uint8_t v[64 * 8];
	size_t n;
};

static void word_add(struct words *w, uint64_t v)
{
	for (unsigned int i = 0; i < 8; i++)
		w->v[w->n++] = (uint8_t)(v >> (8 * i));
}

static void prefix_add(struct words *w, const struct lg_prefix *prefix)
{
	word_add(w, prefix->set ? prefix->family : 0);
	word_add(w, prefix->len);
	for (size_t i = 0; i < 16; i++)
		w->v[w->n++] = prefix->addr[i];
}

static void identity_add(struct words *w, const struct lg_rule_def *rule)
{
	word_add(w, rule->scope);
	word_add(w, rule->match.has_protocol ? 1 + rule->match.protocol : 0);
	prefix_add(w, &rule->match.source);
	prefix_add(w, &rule->match.destination);
	word_add(w, rule->match.n_ports);
	for (size_t i = 0; i < rule->match.n_ports; i++)
		word_add(w, (uint64_t)rule->match.ports[i].lo << 16 | rule->match.ports[i].hi);
	word_add(w, rule->key.form);
	word_add(w, rule->key.form == LG_FORM_RULE ? 0 : rule->key.len4);
	word_add(w, rule->key.form == LG_FORM_RULE ? 0 : rule->key.len6);
	word_add(w, rule->unit);
	word_add(w, rule->algorithm);
}

uint64_t lg_rule_identity(const struct lg_rule_def *rule)
{
	struct words w = { .n = 0 };

	identity_add(&w, rule);
	return XXH3_64bits(w.v, w.n);
}

uint64_t lg_rule_fingerprint(const struct lg_rule_def *rule)
{
	struct words w = { .n = 0 };

	identity_add(&w, rule);
	word_add(&w, rule->class);
	word_add(&w, rule->limit_tok);
	word_add(&w, rule->per_ns);
	word_add(&w, rule->burst_tok);
	word_add(&w, rule->fallback);
	word_add(&w, rule->lease.kind);
	word_add(&w, rule->lease.max_outstanding_permille);
	word_add(&w, rule->lease.owner);
	word_add(&w, rule->lease.rpc_budget_mps);
	word_add(&w, rule->lease.cold_start_tok);
	return XXH3_64bits(w.v, w.n);
}

void lg_limit_format(uint64_t limit_tok, uint64_t per_ns, enum lg_unit unit, char *buf, size_t len)
{
	char amount[LG_NUM_TEXT_LEN], per[LG_NUM_TEXT_LEN];

	if (unit == LG_UNIT_BYTES)
		lg_bytes_format(limit_tok, amount, sizeof(amount));
	else
		snprintf(amount, sizeof(amount), "%" PRIu64, limit_tok);
	lg_duration_format(per_ns, per, sizeof(per));
	snprintf(buf, len, "%s/%s", amount, per);
}

void lg_key_format(const struct lg_key *key, uint32_t len4, uint32_t len6, char *buf, size_t len)
{
	char addr[LG_IP_TEXT_LEN];
	bool mapped = lg_addr_is_mapped(key->a);
	uint32_t prefix_len = mapped ? len4 : len6, index;

	if (key->form == LG_FORM_RULE) {
		snprintf(buf, len, "*");
		return;
	}
	if (key->form == LG_FORM_OVERFLOW) {
		memcpy(&index, key->a, sizeof(index));
		snprintf(buf, len, "overflow %u", index);
		return;
	}
	lg_addr_format(key->a, addr, sizeof(addr));
	if (prefix_len < (mapped ? 32u : 128u))
		snprintf(buf, len, "%s/%u", addr, prefix_len);
	else
		snprintf(buf, len, "%s", addr);
}
