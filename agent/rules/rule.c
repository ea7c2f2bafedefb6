// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/rule.h"

#include <inttypes.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/num.h"
#include "rules/request.h"

#define SHARES_PART 10u /* a tenth */

struct lg_rules *lg_rules_free(struct lg_rules *rules)
{
	if (!rules)
		return NULL;
	for (size_t i = 0; i < rules->n_sets; i++) {
		free(rules->sets[i].v);
		lg_values_free(rules->sets[i].values, rules->sets[i].n_values);
	}
	free(rules->sets);
	free(rules->exemptions);
	free(rules->listed);
	for (size_t i = 0; i < rules->n_list_files; i++)
		free(rules->list_files[i].text);
	free(rules->list_files);
	for (size_t i = 0; i < rules->n_requests; i++)
		lg_request_match_free(rules->requests[i]);
	free(rules->requests);
	free(rules->own);
	free(rules->v);
	free(rules);
	return NULL;
}

void lg_rules_keep(struct lg_rules *rules, const struct lg_gate_node *node)
{
	size_t kept = 0;

	for (size_t i = 0; i < rules->n; i++)
		if (lg_gate_takes(&rules->v[i].nodes, node))
			rules->v[kept++] = rules->v[i];
	rules->n = kept;
}

const char *lg_scope_name(enum lg_scope scope)
{
	switch (scope) {
	case LG_SCOPE_HOST: return "host";
	case LG_SCOPE_GLOBAL: return "global";
	}
	return "?";
}

const char *lg_class_name(enum lg_rule_class class)
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
	case LG_UNIT_HALF_OPEN: return "half_open";
	case LG_UNIT_REQUESTS: return "requests";
	}
	return "?";
}

bool lg_unit_is_connection(enum lg_unit unit)
{
	return lg_unit_connection(unit) != LG_CONNECTION_NONE;
}

bool lg_unit_is_count(enum lg_unit unit)
{
	return lg_unit_connection(unit) > LG_CONNECTION_NEW;
}

uint8_t lg_unit_connection(enum lg_unit unit)
{
	switch (unit) {
	case LG_UNIT_CONNECTIONS: return LG_CONNECTION_NEW;
	case LG_UNIT_CONCURRENT: return LG_CONNECTION_OPEN;
	case LG_UNIT_HALF_OPEN: return LG_CONNECTION_HALF_OPEN;
	case LG_UNIT_PACKETS:
	case LG_UNIT_BYTES:
	case LG_UNIT_REQUESTS: break;
	}
	return LG_CONNECTION_NONE;
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

uint8_t lg_match_family(const struct lg_match *match)
{
	const struct lg_prefix_list *ends[] = { &match->source, &match->destination };
	uint8_t family = 0;

	for (size_t e = 0; e < N_ELEMS(ends); e++) {
		for (size_t i = 0; i < ends[e]->n; i++) {
			if (family && ends[e]->v[i].family != family)
				return 0;
			family = ends[e]->v[i].family;
		}
	}
	return family;
}

bool lg_match_is_requests(const struct lg_match *match)
{
	return match->requests && !match->requests->has_packets;
}

bool lg_match_is_any(const struct lg_match *match)
{
	static const struct lg_match any;

	return memcmp(match, &any, sizeof(any)) == 0;
}

static bool covers(const struct lg_ranges *ranges, unsigned int lo, unsigned int hi)
{
	for (size_t i = 0; i < ranges->n; i++)
		if (ranges->v[i].lo <= hi && ranges->v[i].hi >= lo)
			return true;
	return false;
}

static bool is_link_local_multicast(const struct lg_prefix *p)
{
	static const uint8_t net4[16] = { [10] = 0xff, 0xff, 224 };

	if (p->family == 4)
		return p->len >= 24 && memcmp(p->addr, net4, 15) == 0;
	return p->len >= 16 && p->addr[0] == 0xff && p->addr[1] == 0x02;
}

bool lg_match_names_exempt(const struct lg_match *match)
{
	bool multicast = match->destination.n > 0;

	for (size_t i = 0; i < match->destination.n; i++)
		multicast = multicast && is_link_local_multicast(&match->destination.v[i]);
	if (multicast || (match->ethertype.has && match->ethertype.value == ETH_P_ARP))
		return true;
	if (!match->has_protocol)
		return false;
	if (match->protocol == IPPROTO_ICMP)
		return covers(&match->icmp_types, 3 << 8 | 4, 3 << 8 | 4);
	if (match->protocol == IPPROTO_ICMPV6)
		return covers(&match->icmp_types, 2 << 8, 2 << 8 | 0xff) || covers(&match->icmp_types, 130 << 8, 137 << 8 | 0xff) ||
		       covers(&match->icmp_types, 143 << 8, 143 << 8 | 0xff);
	return match->protocol == IPPROTO_IGMP;
}

static void bytes_add(uint64_t *h, const void *bytes, size_t len)
{
	*h = XXH3_64bits_withSeed(bytes, len, *h);
}

/* Each number as 8 bytes, lowest first, so that every machine gets the same. */
static void word_add(uint64_t *h, uint64_t v)
{
	uint8_t bytes[8];

	for (unsigned int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(v >> (8 * i));
	bytes_add(h, bytes, sizeof(bytes));
}

static void prefixes_add(uint64_t *h, const struct lg_prefix_list *list)
{
	word_add(h, list->n);
	for (size_t i = 0; i < list->n; i++) {
		word_add(h, list->v[i].family);
		word_add(h, list->v[i].len);
		bytes_add(h, list->v[i].addr, sizeof(list->v[i].addr));
	}
}

static void ranges_add(uint64_t *h, const struct lg_ranges *ranges)
{
	word_add(h, ranges->n);
	for (size_t i = 0; i < ranges->n; i++)
		word_add(h, (uint64_t)ranges->v[i].lo << 16 | ranges->v[i].hi);
}

static void text_add(uint64_t *h, const char *text)
{
	word_add(h, strlen(text));
	bytes_add(h, text, strlen(text));
}

/* A set counts by what it has, as one of prefixes does. */
static void requests_add(uint64_t *h, const struct lg_request_match *m)
{
	text_add(h, m->domain);
	word_add(h, (uint64_t)m->is_path << 8 | m->has_packets);
	word_add(h, m->n);
	for (size_t i = 0; i < m->n; i++) {
		text_add(h, m->v[i].key);
		word_add(h, m->v[i].n << 1 | m->v[i].is_one);
		for (size_t j = 0; j < m->v[i].n; j++)
			text_add(h, m->v[i].values[j]);
	}
	word_add(h, m->n_texts);
	bytes_add(h, m->texts, m->n_texts);
	word_add(h, (uint64_t)(m->address + 1));
}

static void match_add(uint64_t *h, const struct lg_match *match)
{
	word_add(h, match->has_protocol ? 1 + match->protocol : 0);
	prefixes_add(h, &match->source);
	prefixes_add(h, &match->destination);
	ranges_add(h, &match->source_ports);
	ranges_add(h, &match->destination_ports);
	word_add(h, match->ethertype.has ? 1 + match->ethertype.value : 0);
	word_add(h, match->vlans.untagged);
	ranges_add(h, &match->vlans.ids);
	word_add(h, match->inner_vlans.untagged);
	ranges_add(h, &match->inner_vlans.ids);
	word_add(h, (uint64_t)match->tcp_flags.mask << 8 | match->tcp_flags.value);
	ranges_add(h, &match->icmp_types);
	word_add(h, (uint64_t)match->initiated << 16 | (uint64_t)match->directions << 8 | match->fragments);
	word_add(h, match->n_interfaces);
	for (size_t i = 0; i < match->n_interfaces; i++)
		bytes_add(h, match->interfaces[i], sizeof(match->interfaces[i]));
	if (match->requests)
		requests_add(h, match->requests);
}

static void identity_add(uint64_t *h, const struct lg_rule_def *rule)
{
	bool source = rule->key.parts & LG_KEY_SOURCE, destination = rule->key.parts & LG_KEY_DESTINATION;

	word_add(h, rule->scope);
	match_add(h, &rule->match);
	word_add(h, rule->key.form);
	word_add(h, source ? (uint64_t)rule->key.source.ipv4 << 8 | rule->key.source.ipv6 : 0);
	word_add(h, destination ? (uint64_t)rule->key.destination.ipv4 << 8 | rule->key.destination.ipv6 : 0);
	word_add(h, rule->unit);
	word_add(h, rule->algorithm);
	if (rule->is_secret)
		word_add(h, rule->secret_check);
}

uint64_t lg_rule_identity(const struct lg_rule_def *rule)
{
	uint64_t h = 0;

	identity_add(&h, rule);
	return h;
}

uint64_t lg_rule_fingerprint(const struct lg_rule_def *rule)
{
	uint64_t h = 0;

	identity_add(&h, rule);
	word_add(&h, rule->class);
	word_add(&h, rule->limit_tok);
	word_add(&h, rule->per_ns);
	word_add(&h, rule->burst_tok);
	word_add(&h, rule->fallback);
	word_add(&h, rule->lease.kind);
	word_add(&h, rule->lease.max_outstanding_permille);
	word_add(&h, rule->lease.owner);
	word_add(&h, rule->lease.rpc_budget_mps);
	word_add(&h, rule->lease.cold_start_tok);
	if (rule->cost > 1)
		word_add(&h, rule->cost);
	return h;
}

bool lg_rule_sets_shares_aside(const struct lg_rule_def *rule)
{
	return rule->scope == LG_SCOPE_GLOBAL && rule->fallback == LG_FALLBACK_SHARE &&
	       (rule->class == LG_CLASS_STRICT || rule->class == LG_CLASS_SYNC);
}

uint64_t lg_rule_shares_tok(const struct lg_rule_def *rule, uint64_t tok)
{
	return lg_rule_sets_shares_aside(rule) ? tok / SHARES_PART : tok;
}

/* On a clock that is a thousandth faster it is no more. */
static void slow_down(struct lg_share *s)
{
	if (s->per_ns + s->per_ns / 500 < LG_PER_MAX_NS)
		s->per_ns += s->per_ns / 500 + 1;
	else
		s->rate_tok -= s->rate_tok / 500 + 1;
}

void lg_rule_share(const struct lg_rule_def *rule, uint64_t parts, struct lg_share *ret_share)
{
	struct lg_share s = { .per_ns = rule->per_ns };

	if (parts) {
		s.rate_tok = lg_rule_shares_tok(rule, rule->limit_tok) / parts;
		s.burst_tok = lg_rule_shares_tok(rule, rule->burst_tok) / parts;
	}
	if (s.rate_tok && lg_rule_sets_shares_aside(rule)) {
		if (rule->algorithm != LG_TOKEN_BUCKET) {
			s.burst_tok = (s.rate_tok + 1) / 2;
			s.rate_tok /= 2;
		}
		if (s.rate_tok)
			slow_down(&s);
	}
	if (!s.rate_tok || !s.burst_tok)
		s = (struct lg_share){ .per_ns = rule->per_ns };
	*ret_share = s;
}

void lg_limit_format(uint64_t limit_tok, uint64_t per_ns, enum lg_unit unit, char *buf, size_t len)
{
	char amount[LG_NUM_TEXT_LEN], per[LG_NUM_TEXT_LEN];

	if (unit == LG_UNIT_BYTES)
		lg_bytes_format(limit_tok, amount, sizeof(amount));
	else
		snprintf(amount, sizeof(amount), "%" PRIu64, limit_tok);
	lg_duration_format(per_ns, per, sizeof(per));
	if (per_ns)
		snprintf(buf, len, "%s/%s", amount, per);
	else
		snprintf(buf, len, "%s", amount);
}

/* ---- keys ---- */

#define WIDE (LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_CGROUP)
#define NARROW (LG_KEY_SOURCE_PORT | LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL | LG_KEY_VLAN | LG_KEY_INNER_VLAN | LG_KEY_INTERFACE)

uint32_t lg_key_parts(uint32_t form)
{
	if (form & LG_FORM_PRODUCT)
		return form & (WIDE | NARROW | LG_KEY_TEXTS);
	return form == LG_FORM_SOURCE ? LG_KEY_SOURCE : form == LG_FORM_DESTINATION ? LG_KEY_DESTINATION : 0;
}

uint32_t lg_key_form(uint32_t parts)
{
	int n_wide = __builtin_popcount(parts & WIDE);

	switch (parts) {
	case 0: return LG_FORM_RULE;
	case LG_KEY_SOURCE: return LG_FORM_SOURCE;
	case LG_KEY_DESTINATION: return LG_FORM_DESTINATION;
	default: return LG_FORM_PRODUCT | parts | (n_wide > (parts & NARROW ? 1 : 2) ? LG_FORM_HASHED : 0);
	}
}

static void address_format(const uint8_t addr[16], const struct lg_key_len *lens, char *buf, size_t len)
{
	bool mapped = lg_addr_is_mapped(addr);
	uint32_t prefix_len = mapped ? lens->ipv4 : lens->ipv6;
	char text[LG_IP_TEXT_LEN];

	lg_addr_format(addr, text, sizeof(text));
	if (prefix_len < (mapped ? 32u : 128u))
		snprintf(buf, len, "%s/%u", text, prefix_len);
	else
		snprintf(buf, len, "%s", text);
}

/* What stands in a and b of a key that is not hashed, so that it has at most two such parts, in places of their own. */
static void wide_unpack(const struct lg_key *key, struct lg_wide_key *ret)
{
	const uint8_t *places[] = { key->a, key->b };
	size_t n = 0;

	memset(ret, 0, sizeof(*ret));
	if (key->form & LG_KEY_SOURCE)
		memcpy(ret->source, places[n++], sizeof(ret->source));
	if (key->form & LG_KEY_DESTINATION)
		memcpy(ret->destination, places[n++], sizeof(ret->destination));
	if (key->form & LG_KEY_CGROUP)
		memcpy(&ret->cgroup_id, places[n], sizeof(ret->cgroup_id));
}

struct text {
	char *buf;
	size_t len;
	size_t n;
};

__attribute__((format(printf, 3, 4))) static void part_add(struct text *t, const char *name, const char *fmt, ...)
{
	char value[LG_IP_TEXT_LEN + 8];
	va_list ap;
	int n;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	n = t->n < t->len ? snprintf(t->buf + t->n, t->len - t->n, "%s%s %s", t->n ? ", " : "", name, value) : 0;
	t->n += n > 0 ? (size_t)n : 0;
}

static void tag_add(struct text *t, const char *name, uint16_t tag)
{
	if (tag)
		part_add(t, name, "%u", tag - 1u);
	else
		part_add(t, name, "none");
}

static void wide_add(struct text *t, uint32_t parts, const struct lg_wide_key *wide, const struct lg_key_shape *shape)
{
	char address[LG_IP_TEXT_LEN + 8];

	if (parts & LG_KEY_SOURCE) {
		address_format(wide->source, &shape->source, address, sizeof(address));
		part_add(t, "source", "%s", address);
	}
	if (parts & LG_KEY_DESTINATION) {
		address_format(wide->destination, &shape->destination, address, sizeof(address));
		part_add(t, "destination", "%s", address);
	}
	if (parts & LG_KEY_CGROUP)
		part_add(t, "cgroup", "%" PRIu64, (uint64_t)wide->cgroup_id);
}

static void narrow_add(struct text *t, uint32_t parts, const struct lg_key_narrow *narrow, const char *ifname)
{
	if (parts & LG_KEY_SOURCE_PORT)
		part_add(t, "source_port", "%u", narrow->source_port);
	if (parts & LG_KEY_DESTINATION_PORT)
		part_add(t, "destination_port", "%u", narrow->destination_port);
	if (parts & LG_KEY_PROTOCOL)
		part_add(t, "protocol", "%u", narrow->protocol);
	if (parts & LG_KEY_VLAN)
		tag_add(t, "vlan", narrow->vlan);
	if (parts & LG_KEY_INNER_VLAN)
		tag_add(t, "inner_vlan", narrow->inner_vlan);
	if (parts & LG_KEY_INTERFACE && ifname)
		part_add(t, "interface", "%s", ifname);
	else if (parts & LG_KEY_INTERFACE)
		part_add(t, "interface", "%u", narrow->interface);
}

/* The texts of a key one behind the other, each after its length. */
static void texts_add(struct text *t, const struct lg_key *key, unsigned int n)
{
	uint8_t all[sizeof(key->a) + sizeof(key->b)];
	char quoted[LG_QUOTE_LEN], text[sizeof(all) + 1];
	size_t at = key->form & LG_KEY_SOURCE ? sizeof(key->a) : 0;

	memcpy(all, key->a, sizeof(key->a));
	memcpy(all + sizeof(key->a), key->b, sizeof(key->b));
	for (unsigned int i = 0; i < n && at < sizeof(all) && all[at] < sizeof(all) - at; i++) {
		memcpy(text, &all[at + 1], all[at]);
		text[all[at]] = '\0';
		at += 1u + all[at];
		part_add(t, "text", "%s", lg_text_quote(text, quoted));
	}
}

static void product_format(const struct lg_key *key, const struct lg_key_shape *shape, const struct lg_wide_key *wide,
			   const char *ifname, char *buf, size_t len)
{
	struct text t = { buf, len, 0 };
	struct lg_key_narrow narrow;
	struct lg_wide_key unpacked;
	uint64_t hash[2];

	buf[0] = '\0';
	memcpy(&narrow, key->b, sizeof(narrow));
	memcpy(hash, key->a, sizeof(hash));
	if (!(key->form & LG_FORM_HASHED)) {
		wide_unpack(key, &unpacked);
		wide = &unpacked;
	}
	if (wide)
		wide_add(&t, key->form, wide, shape);
	else
		part_add(&t, "hash", "%016" PRIx64 "%016" PRIx64, hash[0], hash[1]);
	if (key->form & LG_KEY_TEXTS && !(key->form & LG_FORM_HASHED))
		texts_add(&t, key, shape->n_texts);
	else if (!(key->form & (LG_FORM_SECRET | LG_KEY_TEXTS)))
		narrow_add(&t, key->form, &narrow, ifname);
}

uint32_t lg_key_ifindex(const struct lg_key *key)
{
	struct lg_key_narrow narrow;

	memcpy(&narrow, key->b, sizeof(narrow));
	return key->form & LG_FORM_PRODUCT && key->form & LG_KEY_INTERFACE ? narrow.interface : 0;
}

void lg_key_format(const struct lg_key *key, const struct lg_key_shape *shape, const struct lg_wide_key *wide, const char *ifname, char *buf,
		   size_t len)
{
	uint32_t index;

	memcpy(&index, key->a, sizeof(index));
	if (key->form == LG_FORM_RULE)
		snprintf(buf, len, "*");
	else if (key->form == LG_FORM_OVERFLOW)
		snprintf(buf, len, "overflow %u", index);
	else if (key->form & LG_FORM_PRODUCT)
		product_format(key, shape, wide, ifname, buf, len);
	else
		address_format(key->a, key->form == LG_FORM_DESTINATION ? &shape->destination : &shape->source, buf, len);
}
