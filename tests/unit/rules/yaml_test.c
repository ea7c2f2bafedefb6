// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/yaml.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "rules/fields.h"

#define S 1000000000ull
#define RULE "rules:\n  - name: a\n    limit: 10/1s\n"
#define GLOBAL "rules:\n  - name: a\n    scope: global\n    limit: 10/1s\n"
#define COUNT "rules:\n  - {name: conns, unit: "
#define NOT_YET " is not supported yet by this version"

/* Every key that can be written, each with a value that is not its default. */
static const char full[] = "rules:\n"
			   "  - name: per-user\n"
			   "    scope: global\n"
			   "    class: strict\n"
			   "    match:\n"
			   "      protocol: udp\n"
			   "      destination_port: [8000-8099, 53]\n"
			   "      source: 198.51.100.0/24\n"
			   "      destination: 192.0.2.0/24\n"
			   "    key:\n"
			   "      source: {ipv4: 24}\n"
			   "    unit: bytes\n"
			   "    algorithm: token_bucket\n"
			   "    limit: 80Mbit/10s\n"
			   "    burst: 64KiB\n"
			   "    on_full: deny\n"
			   "    fallback: closed\n"
			   "    shadow: true\n"
			   "    nodes: tier=canary\n"
			   "    evaluate: all\n"
			   "    table: exact\n"
			   "    cost: 2\n"
			   "    lease:\n"
			   "      kind: block\n"
			   "      low_water: 20%\n"
			   "      max_outstanding: 12.5%\n"
			   "      owner: on\n"
			   "      cold_start: 10B\n"
			   "  - name: per-service\n"
			   "    secret: true\n"
			   "    key:\n"
			   "      destination: {ipv6: 56}\n"
			   "    limit: 5/1m\n"
			   "    action: {mark: 7}\n"
			   "  - name: by-messages\n"
			   "    class: sync\n"
			   "    limit: 5/1m\n"
			   "    lease: {rpc_budget: 10/s}\n"
			   "    action: {ecn: ce}\n"
			   "  - name: by-flags\n"
			   "    match:\n"
			   "      protocol: tcp\n"
			   "      source_set: office\n"
			   "      destination_set: office\n"
			   "      source_port: 1024-65535\n"
			   "      tcp_flags: syn,!ack\n"
			   "      fragment: none\n"
			   "      ethertype: ip\n"
			   "      vlan: 7\n"
			   "      inner_vlan: none\n"
			   "      direction: egress\n"
			   "      interface: eth0\n"
			   "    key: {source_port: true, destination_port: true, protocol: true, vlan: true, inner_vlan: true,\n"
			   "          interface: true, cgroup: true}\n"
			   "    limit: 5/1m\n"
			   "  - name: by-type\n"
			   "    match: {protocol: icmp, icmp_type: echo-request}\n"
			   "    limit: 5/1m\n"
			   "    action: {dscp: ef}\n"
			   "  - name: crowd\n"
			   "    key: {source: 32}\n"
			   "    limit: 5/1m\n"
			   "    table: lines\n"
			   "    keys: 5000\n"
			   "    action: {priority: 6}\n"
			   "    ban: {after: 7, within: 20s, for: 2m, max: 3h}\n"
			   "  - name: by-plan\n"
			   "    unit: requests\n"
			   "    match:\n"
			   "      domain: shop\n"
			   "      entries: [{key: plan, value: [gold, silver]}, {key: user, value_set: staff}, ip]\n"
			   "    key: {descriptors: [user, plan], address: ip}\n"
			   "    limit: 5/1m\n"
			   "    action: soft\n"
			   "  - name: by-path\n"
			   "    unit: requests\n"
			   "    match: {descriptors: [path, user]}\n"
			   "    limit: 5/1m\n"
			   "lists:\n"
			   "  allow: [192.0.2.1]\n"
			   "  deny: [192.0.2.2]\n"
			   "exempt:\n"
			   "  - name: pass\n"
			   "    match: {protocol: udp}\n"
			   "sets:\n"
			   "  - name: office\n"
			   "    prefixes: [192.0.2.0/24]\n"
			   "  - name: staff\n"
			   "    values: [alice, bob]\n";

static struct lg_rules *parse(const char *text)
{
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;

	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%s:%u:%u: %s\n%s", c.file, c.line, c.col, c.text, text);
	return rules;
}

/* One rule, of which that is written. */
__attribute__((format(printf, 1, 2))) static struct lg_rules *parse_one(const char *keys, ...)
{
	char text[256] = "rules:\n  - {name: a, ";
	size_t n = strlen(text);
	va_list args;

	va_start(args, keys);
	n += (size_t)vsnprintf(text + n, sizeof(text) - n, keys, args);
	va_end(args);
	assert_true(n + 2 < sizeof(text));
	return parse(strcat(text, "}\n"));
}

/* The complaint about a text, which must be refused. */
static const char *refused(const char *text, size_t len)
{
	static char buf[1024];
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = (struct lg_rules *)&c; /* anything: it must stay as it is */
	int r = lg_rules_parse(text, len, "r.yaml", &rules, &c);

	lg_complaint_format(&c, buf, sizeof(buf));
	if (r != -EINVAL || rules != (struct lg_rules *)&c)
		fail_msg("not refused (%d): %s", r, text);
	assert_null(strchr(buf, '\n'));
	return buf;
}

static void every_key_arrives_in_the_model(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse(full);
	const struct lg_rule_def *rule = &rules->v[0];
	static const uint8_t source[16] = { [10] = 0xff, [11] = 0xff, 198, 51, 100 };
	static const uint8_t destination[16] = { [10] = 0xff, [11] = 0xff, 192, 0, 2 };

	(void)state;
	assert_int_equal(rules->n, 8);
	assert_string_equal(rule->name, "per-user");
	assert_int_equal(rule->line, 2);
	assert_int_equal(rule->scope, LG_SCOPE_GLOBAL);
	assert_int_equal(rule->class, LG_CLASS_STRICT);
	assert_true(rule->match.has_protocol);
	assert_int_equal(rule->match.protocol, 17);
	assert_int_equal(rule->match.destination_ports.n, 2);
	assert_int_equal(rule->match.destination_ports.v[0].lo, 53);
	assert_int_equal(rule->match.destination_ports.v[0].hi, 53);
	assert_int_equal(rule->match.destination_ports.v[1].lo, 8000);
	assert_int_equal(rule->match.destination_ports.v[1].hi, 8099);
	assert_int_equal(rule->match.source.n, 1);
	assert_int_equal(rule->match.source.v->family, 4);
	assert_int_equal(rule->match.source.v->len, 24);
	assert_memory_equal(rule->match.source.v->addr, source, 16);
	assert_int_equal(rule->match.destination.n, 1);
	assert_memory_equal(rule->match.destination.v->addr, destination, 16);
	assert_int_equal(rule->key.form, LG_FORM_SOURCE);
	assert_int_equal(rule->key.source.ipv4, 24);
	assert_int_equal(rule->key.source.ipv6, 64);
	assert_int_equal(rule->unit, LG_UNIT_BYTES);
	assert_int_equal(rule->algorithm, LG_TOKEN_BUCKET);
	assert_int_equal(rule->limit_tok, 10000000);
	assert_int_equal(rule->per_ns, 10 * S);
	assert_int_equal(rule->burst_tok, 65536);
	assert_int_equal(rule->on_full, LG_ON_FULL_DENY);
	assert_int_equal(rule->fallback, LG_FALLBACK_CLOSED);
	assert_true(rule->shadow);
	assert_string_equal(rule->nodes.label, "tier");
	assert_string_equal(rule->nodes.value, "canary");
	assert_true(rule->evaluate_all);
	assert_int_equal(rule->cost, 2);
	assert_int_equal(rule->lease.kind, LG_LEASE_BLOCK);
	assert_int_equal(rule->lease.low_water_permille, 200);
	assert_int_equal(rule->lease.max_outstanding_permille, 125);
	assert_int_equal(rule->lease.owner, LG_OWNER_ON);
	assert_int_equal(rule->lease.cold_start_tok, 10);
	assert_int_equal(rule->table, LG_TABLE_CHOICE_EXACT);
	assert_int_equal(rules->v[1].table, LG_TABLE_CHOICE_NONE);
	assert_int_equal(rules->v[5].table, LG_TABLE_CHOICE_LINES);
	assert_int_equal(rules->v[5].keys, 5000);
	assert_int_equal(rules->v[2].lease.rpc_budget_mps, 10000);
	rule = &rules->v[1];
	assert_int_equal(rule->line, 29);
	assert_int_equal(rule->key.form, LG_FORM_PRODUCT | LG_FORM_HASHED | LG_FORM_SECRET | LG_KEY_DESTINATION);
	assert_true(rules->v[1].is_secret);
	assert_int_equal(rule->key.destination.ipv4, 32);
	assert_int_equal(rule->key.destination.ipv6, 56);
}

static void a_class_is_a_preset_and_what_is_written_takes_its_place(void **state)
{
	static const struct {
		const char *keys;
		enum lg_fallback fallback;
		enum lg_lease_kind kind;
		enum lg_lease_owner owner;
	} rows[] = {
		{ "class: lease", LG_FALLBACK_SHARE, LG_LEASE_AUTO, LG_OWNER_AUTO },
		{ "class: strict", LG_FALLBACK_DENY, LG_LEASE_AUTO, LG_OWNER_AUTO },
		{ "class: sync", LG_FALLBACK_DENY, LG_LEASE_BLOCK, LG_OWNER_ON },
		{ "class: sync, lease: {kind: auto, owner: off}, fallback: open", LG_FALLBACK_OPEN, LG_LEASE_AUTO, LG_OWNER_OFF },
		{ "class: strict, lease: {owner: on}, fallback: share", LG_FALLBACK_SHARE, LG_LEASE_AUTO, LG_OWNER_ON },
		{ "class: lease, lease: {kind: block}, fallback: closed", LG_FALLBACK_CLOSED, LG_LEASE_BLOCK, LG_OWNER_AUTO },
		{ "class: sync, lease: {kind: limit}", LG_FALLBACK_DENY, LG_LEASE_LIMIT, LG_OWNER_ON },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse_one("limit: 10/1s, %s", rows[i].keys);

		assert_int_equal(rules->v[0].scope, LG_SCOPE_GLOBAL);
		assert_int_equal(rules->v[0].fallback, rows[i].fallback);
		assert_int_equal(rules->v[0].lease.kind, rows[i].kind);
		assert_int_equal(rules->v[0].lease.owner, rows[i].owner);
		assert_true(rules->v[0].lease.cold_start_tok == LG_COLD_START_AUTO);
	}
}

static void each_algorithm_and_a_cost_are_there_for_host_rules(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules =
		parse("rules:\n  - {name: f, algorithm: fixed_window, unit: bytes, limit: 10kB/1s}\n"
		      "  - {name: s, limit: 10/1s, algorithm: sliding_window, cost: 10}\n"
		      "  - {name: l, limit: 1000/1s, algorithm: sliding_log, cost: 64}\n"
		      "  - {name: z, limit: 0/1s, match: {protocol: udp}, cost: 5}\n");

	(void)state;
	assert_int_equal(rules->n, 4);
	assert_int_equal(rules->v[0].algorithm, LG_FIXED_WINDOW);
	assert_int_equal(rules->v[0].cost, 1);
	assert_int_equal(rules->v[1].cost, 10);
	assert_int_equal(rules->v[1].burst_tok, 10);
	assert_int_equal(rules->v[2].algorithm, LG_SLIDING_LOG);
	assert_int_equal(rules->v[2].cost, 64);
}

static void each_algorithm_is_there_for_global_rules(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules =
		parse("rules:\n  - {name: f, scope: global, limit: 10/1s, algorithm: fixed_window}\n"
		      "  - {name: l, scope: global, limit: 10/1s, algorithm: sliding_log}\n");

	(void)state;
	assert_int_equal(rules->v[0].algorithm, LG_FIXED_WINDOW);
	assert_int_equal(rules->v[1].algorithm, LG_SLIDING_LOG);
}

static void a_rate_of_messages_may_be_said_per_any_time(void **state)
{
	static const struct {
		const char *text;
		uint32_t mps;
	} rows[] = { { "10/s", 10000 }, { "30/1m", 500 }, { "1/100s", 10 }, { "1000/1s", 1000000 }, { "1/3s", 333 } };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse_one("limit: 9/1s, class: lease, lease: {rpc_budget: %s}", rows[i].text);

		assert_int_equal(rules->v[0].lease.rpc_budget_mps, rows[i].mps);
	}
}

static void a_rule_of_name_and_limit_has_the_documented_defaults(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse("rules:\n  - {name: a, limit: 7/90s}\n");
	const struct lg_rule_def *rule = &rules->v[0];

	(void)state;
	assert_int_equal(rules->n, 1);
	assert_int_equal(rule->scope, LG_SCOPE_HOST);
	assert_int_equal(rule->class, LG_CLASS_LOCAL);
	assert_false(rule->match.has_protocol);
	assert_int_equal(rule->match.destination_ports.n, 0);
	assert_int_equal(rule->match.source.n, 0);
	assert_int_equal(rule->match.destination.n, 0);
	assert_int_equal(rule->key.form, LG_FORM_RULE);
	assert_int_equal(rule->unit, LG_UNIT_PACKETS);
	assert_int_equal(rule->algorithm, LG_TOKEN_BUCKET);
	assert_int_equal(rule->limit_tok, 7);
	assert_int_equal(rule->per_ns, 90 * S);
	assert_int_equal(rule->burst_tok, 7);
	assert_int_equal(rule->on_full, LG_ON_FULL_OVERFLOW);
	assert_false(rule->shadow);
	assert_false(rule->evaluate_all);
	assert_int_equal(rule->lease.kind, LG_LEASE_AUTO);
	assert_int_equal(rule->lease.low_water_permille, 0);
	assert_int_equal(rule->lease.max_outstanding_permille, 0);
}

static void scope_and_class_follow_from_each_other(void **state)
{
	static const struct {
		const char *keys;
		enum lg_scope scope;
		enum lg_rule_class class;
		enum lg_fallback fallback;
	} rows[] = {
		{ "scope: host", LG_SCOPE_HOST, LG_CLASS_LOCAL, LG_FALLBACK_DENY },
		{ "scope: global", LG_SCOPE_GLOBAL, LG_CLASS_LEASE, LG_FALLBACK_SHARE },
		{ "class: local", LG_SCOPE_HOST, LG_CLASS_LOCAL, LG_FALLBACK_DENY },
		{ "class: lease", LG_SCOPE_GLOBAL, LG_CLASS_LEASE, LG_FALLBACK_SHARE },
		{ "class: strict", LG_SCOPE_GLOBAL, LG_CLASS_STRICT, LG_FALLBACK_DENY },
		{ "scope: host, class: local", LG_SCOPE_HOST, LG_CLASS_LOCAL, LG_FALLBACK_DENY },
		{ "scope: global, class: strict", LG_SCOPE_GLOBAL, LG_CLASS_STRICT, LG_FALLBACK_DENY },
		{ "scope: global, fallback: open", LG_SCOPE_GLOBAL, LG_CLASS_LEASE, LG_FALLBACK_OPEN },
		{ "class: strict, fallback: share", LG_SCOPE_GLOBAL, LG_CLASS_STRICT, LG_FALLBACK_SHARE },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse_one("limit: 1/s, %s", rows[i].keys);

		assert_int_equal(rules->v[0].scope, rows[i].scope);
		assert_int_equal(rules->v[0].class, rows[i].class);
		assert_int_equal(rules->v[0].fallback, rows[i].fallback);
	}
}

static void one_key_length_is_that_of_the_family_it_fits(void **state)
{
	static const struct {
		const char *keys;
		int form, len4, len6;
	} rows[] = {
		{ "key: {source: 1}", LG_FORM_SOURCE, 1, 64 },
		{ "key: {source: 24}", LG_FORM_SOURCE, 24, 64 },
		{ "key: {source: 32}", LG_FORM_SOURCE, 32, 64 },
		{ "key: {source: 33}", LG_FORM_SOURCE, 32, 33 },
		{ "key: {destination: 64}", LG_FORM_DESTINATION, 32, 64 },
		{ "key: {source: 128}", LG_FORM_SOURCE, 32, 128 },
		{ "key: {source: {ipv4: 24, ipv6: 56}}", LG_FORM_SOURCE, 24, 56 },
		{ "key: {destination: {ipv4: 16}}", LG_FORM_DESTINATION, 16, 64 },
		{ "key: {destination: {ipv6: 48}}", LG_FORM_DESTINATION, 32, 48 },
		{ "key: {source: 24}, match: {source: \"::/0\"}", LG_FORM_SOURCE, 32, 24 },
		{ "key: {source: 24}, match: {destination: \"2001:db8::/32\"}", LG_FORM_SOURCE, 32, 24 },
		{ "key: {source: 24}, match: {destination: 0.0.0.0/0}", LG_FORM_SOURCE, 24, 64 },
		{ "key: {source: {ipv6: 24}}, match: {source: \"::/0\"}", LG_FORM_SOURCE, 32, 24 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse_one("limit: 1/s, %s", rows[i].keys);
		const struct lg_key_len *lens;

		assert_int_equal(rules->v[0].key.form, rows[i].form);
		lens = rows[i].form == LG_FORM_SOURCE ? &rules->v[0].key.source : &rules->v[0].key.destination;
		assert_int_equal(lens->ipv4, rows[i].len4);
		assert_int_equal(lens->ipv6, rows[i].len6);
	}
}

static void ports_become_sorted_ranges(void **state)
{
	static const struct {
		const char *ports;
		size_t n;
		struct lg_port_range v[3];
	} rows[] = {
		{ "53", 1, { { 53, 53 } } },
		{ "0", 1, { { 0, 0 } } },
		{ "65535", 1, { { 65535, 65535 } } },
		{ "0-65535", 1, { { 0, 65535 } } },
		{ "\"8000-8099\"", 1, { { 8000, 8099 } } },
		{ "[443, 80]", 2, { { 80, 80 }, { 443, 443 } } },
		{ "[80, 81, 79]", 1, { { 79, 81 } } },
		{ "[80, 82]", 2, { { 80, 80 }, { 82, 82 } } },
		{ "[10-20, 15-30, 5, 40]", 3, { { 5, 5 }, { 10, 30 }, { 40, 40 } } },
		{ "[10-30, 15-20]", 1, { { 10, 30 } } },
		{ "[7, 7]", 1, { { 7, 7 } } },
		{ "[65535, 0-65535]", 1, { { 0, 65535 } } },
		{ "[1, 2, 3, 4, 5, 6, 7, 8]", 1, { { 1, 8 } } },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse_one("limit: 1/s, match: {destination_port: %s}", rows[i].ports);

		assert_int_equal(rules->v[0].match.destination_ports.n, rows[i].n);
		assert_memory_equal(rules->v[0].match.destination_ports.v, rows[i].v, rows[i].n * sizeof(rows[i].v[0]));
	}
}

static void other_accepted_spellings(void **state)
{
	static const struct {
		const char *keys;
		uint64_t limit_tok, per_ns, burst_tok;
		int protocol;
	} rows[] = {
		{ "limit: 0/1s", 0, S, 0, -1 },
		{ "limit: \"10/1s\"", 10, S, 10, -1 },
		{ "limit: 10/s, burst: 1", 10, S, 1, -1 },
		{ "limit: 10/s, burst: 1099511627776", 10, S, 1ull << 40, -1 },
		{ "limit: 4294967296/1s", 4294967296ull, S, 4294967296ull, -1 },
		{ "limit: 1099511627776/31d", 1ull << 40, LG_PER_MAX_NS, 1ull << 40, -1 },
		{ "limit: 1/25d", 1, 25 * 86400 * S, 1, -1 },
		{ "limit: 400Gbit/s, unit: bytes", 50000000000ull, S, 50000000000ull, -1 },
		{ "limit: 512Gbit/s, unit: bytes", 64000000000ull, S, 64000000000ull, -1 },
		{ "limit: 8Mbit/s, unit: bytes, burst: 1MB", 1000000, S, 1000000, -1 },
		{ "limit: 1/s, match: {protocol: tcp}", 1, S, 1, 6 },
		{ "limit: 1/s, match: {protocol: icmp}", 1, S, 1, 1 },
		{ "limit: 1/s, match: {protocol: icmpv6}", 1, S, 1, 58 },
		{ "limit: 1/s, match: {protocol: sctp, destination_port: 5}", 1, S, 1, 132 },
		{ "limit: 1/s, match: {protocol: 0}", 1, S, 1, 0 },
		{ "limit: 1/s, match: {protocol: 47}", 1, S, 1, 47 },
		{ "limit: 1/s, match: {protocol: 255}", 1, S, 1, 255 },
		{ "limit: 1/s, match: {protocol: 17, destination_port: 5}", 1, S, 1, 17 },
		{ "limit: 1/s, match: {}", 1, S, 1, -1 },
		{ "limit: 1/s, scope: global, lease: {}", 1, S, 1, -1 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse_one("%s", rows[i].keys);

		assert_int_equal(rules->v[0].limit_tok, rows[i].limit_tok);
		assert_int_equal(rules->v[0].per_ns, rows[i].per_ns);
		assert_int_equal(rules->v[0].burst_tok, rows[i].burst_tok);
		assert_int_equal(rules->v[0].match.has_protocol, rows[i].protocol >= 0);
		assert_int_equal(rules->v[0].match.protocol, rows[i].protocol < 0 ? 0 : rows[i].protocol);
	}
}

static void no_rules_is_a_set_too(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse("# none for now\nrules: []\n");

	(void)state;
	assert_int_equal(rules->n, 0);
}

static void texts_that_are_no_rules_file_are_refused(void **state)
{
#define EXPECTED "a rules file has the key `rules` with a list below it, or `rules: []` for no rules"
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "r.yaml: nothing is written here: " EXPECTED },
		{ "# only a comment\n", "r.yaml: nothing is written here: " EXPECTED },
		{ "---\n", "r.yaml: nothing is written here: " EXPECTED },
		{ "~", "r.yaml:1:1: this is no mapping of keys to values: " EXPECTED },
		{ "[1, 2]\n", "r.yaml:1:1: this is no mapping of keys to values: " EXPECTED },
		{ "hello\n", "r.yaml:1:1: this is no mapping of keys to values: " EXPECTED },
		{ "{}\n", "r.yaml:1:1: rules is missing: write a list" },
		{ "rules:\n", "r.yaml:1:7: rules: has no value: write a list" },
		{ "rules: 5\n", "r.yaml:1:8: rules: expected a list, not a single value" },
		{ "rules: {name: a}\n", "r.yaml:1:8: rules: expected a list, not a mapping" },
		{ "rules: []\nrules: []\n", "r.yaml:2:1: \"rules\" is written twice, first on line 1" },
		{ "rules: []\n---\nrules: []\n", "r.yaml:2:1: a second document begins here: write one only" },
		{ "rules:\n  - a\n", "r.yaml:2:5: a rule is a mapping of keys to values, beginning with `- name:`" },
		{ "rules:\n  - [a]\n", "r.yaml:2:5: a rule is a mapping of keys to values, beginning with `- name:`" },
		{ "rules:\n\t- name: a\n", "r.yaml:2:1: a tab cannot indent YAML: use spaces" },
		{ "rules:\n  - name: a\n\tlimit: 1/s\n", "r.yaml:3:1: a tab cannot indent YAML: use spaces" },
		{ "rules:\n  - name: a\n   limit: 1/s\n",
		  "r.yaml:3:4: not valid YAML: while parsing a block collection, did not find expected '-' indicator" },
		{ "rules: [{name: a, limit: 1/s\n",
		  "r.yaml:2:1: not valid YAML: while parsing a flow mapping, did not find expected ',' or '}'" },
		{ "rules: \"abc\n",
		  "r.yaml:2:1: not valid YAML: while scanning a quoted scalar, found unexpected end of stream" },
		{ "rules:\n  - {name: a, limit: 1/s, match: {source: ::/0}}\n",
		  "r.yaml:2:43: not valid YAML: did not find expected node content (quote a value that begins or ends "
		  "with a colon, as "
		  "in \"::/0\")" },
		{ "rules:\n  - {name: a, limit: 1/s, match: {source: 2001:db8::}}\n",
		  "r.yaml:2:52: not valid YAML: found unexpected ':' (quote a value that begins or ends with a colon, "
		  "as in \"::/0\")" },
		{ "a: &x [1]\nb: *x\n",
		  "r.yaml:1:4: anchors (&), aliases (*) and tags (!) are not used here: write the value out, or "
		  "quote it" },
		{ "rules: *x\n", "r.yaml:1:8: anchors (&), aliases (*) and tags (!) are not used here: write the value "
				 "out, or quote it" },
		{ "rules: !!seq []\n",
		  "r.yaml:1:8: anchors (&), aliases (*) and tags (!) are not used here: write the value out, or "
		  "quote it" },
		{ "<<: {rules: []}\n", "r.yaml:1:1: unknown key \"<<\": known here are rules, sets, lists, exempt" },
		{ "? [rules]\n: []\n", "r.yaml:1:3: a key must be a word, not a list or mapping" },
		{ "rules: \"a\\0b\"\n", "r.yaml:1:8: a value cannot hold a NUL" },
		{ "\"ru\\0les\": []\n", "r.yaml:1:1: a value cannot hold a NUL" },
		{ "rules:\n- \xff\n", "r.yaml:2:3: this is not text in UTF-8: invalid leading UTF-8 octet" },
		{ "rules:\n- \x01\n", "r.yaml:2:3: this is not text in UTF-8: control characters are not allowed" },
		{ "rules: []\n# \xc3\xa9\xc3\xa9\n\tx: 1\n", "r.yaml:3:1: a tab cannot indent YAML: use spaces" },
		{ "rulse: []\n", "r.yaml:1:1: unknown key \"rulse\": did you mean \"rules\"?" },
		{ "limits: []\n", "r.yaml:1:1: unknown key \"limits\": did you mean \"lists\"?" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++)
		assert_string_equal(refused(rows[i].text, strlen(rows[i].text)), rows[i].why);
	assert_string_equal(refused("rules\0: []", 10),
			    "r.yaml:1:6: this is not text in UTF-8: control characters are not allowed");
#undef EXPECTED
}

static void rules_that_cannot_be_meant_are_refused_at_their_place(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		/* missing, doubled, misspelt */
		{ "rules:\n  - limit: 1/s\n", "2:5: name is missing: write a name" },
		{ "rules:\n  - name: a\n", "2:5: limit is missing: write a limit such as 10000/1m" },
		{ RULE "    limit: 2/s\n", "4:5: \"limit\" is written twice, first on line 3" },
		{ RULE "    name:\n", "4:5: \"name\" is written twice, first on line 2" },
		{ RULE "    burts: 5\n", "4:5: unknown key \"burts\": did you mean \"burst\"?" },
		{ RULE "    on-full: deny\n", "4:5: unknown key \"on-full\": did you mean \"on_full\"?" },
		{ RULE "    match: {destination-port: 5}\n",
		  "4:13: unknown key \"destination-port\": did you mean \"destination_port\"?" },
		{ RULE "    match: {port: 5}\n",
		  "4:13: unknown key \"port\": known here are protocol, source, destination, source_set, destination_set, source_port, "
		  "destination_port, tcp_flags, icmp_type, fragment, ethertype, vlan, inner_vlan, direction, interface, "
		  "domain, entries, descriptors" },
		{ RULE "    key: {source: {ipv5: 5}}\n", "4:20: unknown key \"ipv5\": did you mean \"ipv4\"?" },
		/* wrong shapes */
		{ "rules:\n  - name: [a]\n", "2:11: name: expected a name, not a list" },
		{ "rules:\n  - name: a\n    limit: [1]\n",
		  "3:12: limit: expected a limit such as 10000/1m, not a list" },
		{ "rules:\n  - name: a\n    limit: {a: 1}\n",
		  "3:12: limit: expected a limit such as 10000/1m, not a mapping" },
		{ "rules:\n  - name: a\n    limit:\n", "3:11: limit: has no value: write a limit such as 10000/1m" },
		{ RULE "    match: udp\n", "4:12: match: expected a mapping of keys to values, not a single value" },
		{ RULE "    match: [udp]\n", "4:12: match: expected a mapping of keys to values, not a list" },
		{ RULE "    key: source\n", "4:10: key: expected a mapping of keys to values, not a single value" },
		{ RULE "    key: {source: [32]}\n",
		  "4:19: key.source: expected a prefix length such as 32, or {ipv4: 24, ipv6: 56}, not a list" },
		{ RULE "    shadow: yes\n", "4:13: shadow: \"yes\" is not true or false" },
		{ RULE "    shadow: \"\"\n", "4:13: shadow: has no value: write true or false" },
		{ RULE "    on_full: [deny]\n", "4:14: on_full: expected a word, not a list" },
		/* names */
		{ "rules:\n  - name: a b\n    limit: 1/s\n",
		  "2:11: name: \"a b\" is no name: write A-Z, a-z, 0-9, ., _ and -, after a first letter or digit" },
		{ "rules:\n  - name: -a\n    limit: 1/s\n",
		  "2:11: name: \"-a\" is no name: write A-Z, a-z, 0-9, ., _ and -, after a first letter or digit" },
		{ "rules:\n  - name: a/b\n    limit: 1/s\n",
		  "2:11: name: \"a/b\" is no name: write A-Z, a-z, 0-9, ., _ and -, after a first letter or digit" },
		{ "rules:\n  - name: a123456789b123456789c123456789d123456789e123456789f123456789g123\n    limit: "
		  "1/s\n",
		  "2:11: name: \"a123456789b123456789c123456789d123456789e1234567...\" is longer than 63 characters" },
		/* words */
		{ RULE "    scope: local\n", "4:12: scope: \"local\" is none of host, global" },
		{ RULE "    unit: bits\n", "4:11: unit: \"bits\" is none of packets, bytes, connections, concurrent, half_open, requests" },
		{ RULE "    unit: concurrent\n", "3:12: limit: is how many there may be at one time: write a number without a duration" },
		{ COUNT "concurrent, limit: 10, burst: 5}\n",
		  "2:55: burst: has no meaning for concurrent, which counts what there is at one time" },
		{ COUNT "half_open, limit: 10, algorithm: sliding_log}\n",
		  "2:58: algorithm: has no meaning for half_open, which counts what there is at one time" },
		{ COUNT "half_open, limit: 10, cost: 2}\n",
		  "2:53: cost: has no meaning for half_open, which counts what there is at one time" },
		{ COUNT "concurrent, limit: 16777217}\n", "2:44: limit: \"16777217\" is above the maximum, 16777216" },
		{ COUNT "concurrent, limit: 10, scope: global}\n",
		  "2:25: unit: what is open at one time each host counts for itself: write scope: host" },
		{ COUNT "half_open, limit: 10, class: strict}\n",
		  "2:25: unit: what is open at one time each host counts for itself: write scope: host" },
		{ COUNT "concurrent, limit: 10, key: {source: 32}, table: lines}\n",
		  "2:74: table: lines hold token buckets, and what is open at one time is a count: leave it out" },
		{ COUNT "connections, limit: 10/1s, match: {protocol: udp}}\n",
		  "2:70: match.protocol: connections are counted of TCP alone: leave it out, or count packets" },
		{ COUNT "concurrent, limit: 10, match: {protocol: tcp, tcp_flags: syn}}\n",
		  "2:82: match.tcp_flags: the unit says which packets count: leave it out, or count packets" },
		{ COUNT "connections, limit: 10/1s, match: {fragment: later}}\n",
		  "2:70: match.fragment: later fragments begin no connection: leave it out, or count packets" },
		{ COUNT "connections, limit: 10/1s, match: {ethertype: arp}}\n",
		  "2:71: match.ethertype: connections are counted of TCP alone: leave it out, or count packets" },
		{ "rules:\n  - name: a\n    limit: 1001/1s\n    algorithm: sliding_log\n",
		  "3:12: limit: a sliding_log of scope host keeps the time of each token, 1000 at most: write sliding_window" },
		{ "rules:\n  - name: a\n    limit: 1kB/1s\n    unit: bytes\n    algorithm: sliding_log\n",
		  "5:16: algorithm: a sliding_log of scope host keeps the time of each token, which bytes are too many for: "
		  "write sliding_window" },
		{ "rules:\n  - name: a\n    limit: 1000/1s\n    cost: 65\n    algorithm: sliding_log\n",
		  "4:11: cost: 65 is more than 64, the most that one packet can have: none could ever pass" },
		{ "rules:\n  - name: a\n    limit: 100/1s\n    cost: 101\n",
		  "4:11: cost: 101 is more than 100, the most that one packet can have: none could ever pass" },
		{ "rules:\n  - name: a\n    limit: 100/1s\n    cost: 0\n", "4:11: cost: \"0\" is below the minimum, 1" },
		{ "rules:\n  - name: a\n    limit: 100/1s\n    cost: 1000001\n", "4:11: cost: \"1000001\" is above the maximum, 1000000" },
		{ RULE "    algorithm: leaky_bucket\n",
		  "4:16: algorithm: \"leaky_bucket\" is none of token_bucket, fixed_window, sliding_window, sliding_log" },
		{ RULE "    table: lines\n", "4:12: table: a rule without a key has one bucket: leave it out" },
		{ RULE "    keys: 100\n", "4:11: keys: a rule without a key has one bucket: leave it out" },
		{ RULE "    key: {source: 32}\n    keys: 0\n", "5:11: keys: \"0\" is below the minimum, 1" },
		{ RULE "    key: {source: 32}\n    table: exact\n    keys: 100\n",
		  "6:11: keys: belongs to `table: lines`: max_keys of the configuration bounds the exact table" },
		{ RULE "    key: {source: 32}\n    table: lines\n    burst: 274877906944\n",
		  "6:12: burst: a burst in lines is below 274877906944: write `table: exact`" },
		{ GLOBAL "    key: {source: 32}\n    table: lines\n",
		  "6:12: table: what is leased is in the exact table: leave it out" },
		{ RULE "    class: sink\n", "4:12: class: \"sink\" is none of local, lease, strict, sync" },
		{ RULE "    evaluate: none\n", "4:15: evaluate: \"none\" is none of first, all" },
		{ RULE "    on_full: drop\n", "4:14: on_full: \"drop\" is none of overflow, deny, pass" },
		{ GLOBAL "    fallback: fail\n", "5:15: fallback: \"fail\" is none of deny, share, closed, open" },
		{ GLOBAL "    lease: {kind: part}\n", "5:19: lease.kind: \"part\" is none of auto, block, limit" },
		{ GLOBAL "    lease: {rpc_budget: 10}\n",
		  "5:25: lease.rpc_budget: \"10\" says no time: write an amount per duration, such as 10000/1m" },
		{ GLOBAL "    lease: {rpc_budget: 1001/s}\n",
		  "5:25: lease.rpc_budget: \"1001/s\" is outside 0.01/s to 1000/s" },
		{ GLOBAL "    lease: {rpc_budget: 9/1000s}\n",
		  "5:25: lease.rpc_budget: \"9/1000s\" is outside 0.01/s to 1000/s" },
		{ GLOBAL "    lease: {max_outstanding: 20%, rpc_budget: 10/s}\n",
		  "5:47: lease.rpc_budget: sets how much is lent at once, as max_outstanding does: write one of them" },
		{ GLOBAL "    lease: {owner: me}\n", "5:20: lease.owner: \"me\" is none of auto, off, on" },
		{ GLOBAL "    lease: {cold_start: 1B}\n",
		  "5:25: lease.cold_start: \"1B\" is not a whole number, such as 10" },
		{ GLOBAL "    lease: {cold_start: 11}\n",
		  "5:25: lease.cold_start: one host could spend more than the whole limit before its first lease" },
		{ GLOBAL "    lease: {low_water: 0.9%}\n", "5:24: lease.low_water: \"0.9%\" is outside 1.0% to 90.0%" },
		{ GLOBAL "    lease: {max_outstanding: 9.9%}\n",
		  "5:30: lease.max_outstanding: \"9.9%\" is outside 10.0% to 50.0%" },
		{ GLOBAL "    lease: {max_outstanding: 50.1%}\n",
		  "5:30: lease.max_outstanding: \"50.1%\" is outside 10.0% to 50.0%" },
		/* scope and class */
		{ RULE "    scope: host\n    class: lease\n",
		  "5:12: class: lease is for scope global, but the scope is host" },
		{ RULE "    scope: global\n    class: local\n",
		  "5:12: class: local is for scope host, but the scope is global" },
		{ RULE "    fallback: share\n",
		  "4:15: fallback: belongs to global rules: a host rule needs no upstream" },
		{ RULE "    lease: {kind: block}\n", "4:12: lease: belongs to global rules: a host rule has no lease" },
		/* match */
		{ RULE "    match: {protocol: http}\n",
		  "4:23: match.protocol: \"http\" is none of tcp, udp, icmp, icmpv6, sctp, or a number of 0 to 255" },
		{ RULE "    match: {protocol: 256}\n",
		  "4:23: match.protocol: \"256\" is none of tcp, udp, icmp, icmpv6, sctp, or a number of 0 to 255" },
		{ RULE "    match: {source: 10.0.0.1/8}\n", "4:21: match.source: \"10.0.0.1/8\" has bits set below its "
							    "length: write 10.0.0.0/8, or 10.0.0.1/32 for the one "
							    "address" },
		{ RULE "    match: {destination: fe80::1%eth0}\n",
		  "4:26: match.destination: \"fe80::1%eth0\": an address with a zone (after %) cannot be matched: "
		  "write it without" },
		{ RULE "    match: {source: 10.0.0.0/8, destination: \"::/0\"}\n",
		  "4:46: match.destination: IPv6, but the source is IPv4: no packet is both" },
		{ RULE "    match: {source: \"::/0\", destination: 10.0.0.0/8}\n",
		  "4:42: match.destination: IPv4, but the source is IPv6: no packet is both" },
		{ RULE "    match: {protocol: icmp, source: \"::/0\"}\n",
		  "4:23: match.protocol: icmp does not occur in IPv6: write icmpv6" },
		{ RULE "    match: {protocol: icmpv6, source: 0.0.0.0/0}\n",
		  "4:23: match.protocol: icmpv6 does not occur in IPv4: write icmp" },
		{ RULE "    match: {protocol: icmp, destination_port: 5}\n",
		  "4:47: match.destination_port: only tcp, udp and sctp have ports, but the protocol is icmp" },
		{ RULE "    match: {protocol: 47, destination_port: 5}\n",
		  "4:45: match.destination_port: only tcp, udp and sctp have ports, but the protocol is 47" },
		{ RULE "    match: {destination_port: 65536}\n",
		  "4:31: match.destination_port: \"65536\" is not a port of 0 to 65535 or a range such as 8000-8099" },
		{ RULE "    match: {destination_port: http}\n",
		  "4:31: match.destination_port: \"http\" is not a port of 0 to 65535 or a range such as 8000-8099" },
		{ RULE "    match: {destination_port: 80-}\n",
		  "4:31: match.destination_port: \"80-\" is not a port of 0 to 65535 or a range such as 8000-8099" },
		{ RULE "    match: {destination_port: 1234567890}\n",
		  "4:31: match.destination_port: \"1234567890\" is not a port of 0 to 65535 or a range such as "
		  "8000-8099" },
		{ RULE "    match: {destination_port: 1-2-3}\n",
		  "4:31: match.destination_port: \"1-2-3\" is not a port of 0 to 65535 or a range such as 8000-8099" },
		{ RULE "    match: {destination_port: 90-80}\n",
		  "4:31: match.destination_port: \"90-80\" runs backwards: write 80-90" },
		{ RULE "    match: {destination_port: [80, [81]]}\n",
		  "4:36: match.destination_port: expected a single value in the list" },
		{ RULE "    match: {destination_port: []}\n",
		  "4:31: match.destination_port: has 0 entries, but 1 to 8 are possible" },
		{ RULE "    match: {destination_port: [1, 3, 5, 7, 9, 11, 13, 15, 17]}\n",
		  "4:31: match.destination_port: has 9 entries, but 1 to 8 are possible" },
		{ RULE "    match: {destination_port: {a: 1}}\n",
		  "4:31: match.destination_port: expected a port such as 53, a range such as 8000-8099, or a list of "
		  "them, not a "
		  "mapping" },
		/* key */
		{ RULE "    key: {}\n",
		  "4:10: key: names no part: write one such as source, or leave key out for one bucket" },
		{ RULE "    key: {source: 0}\n", "4:19: key.source: \"0\" is below the minimum, 1" },
		{ RULE "    key: {source: 129}\n", "4:19: key.source: \"129\" is above the maximum, 128" },
		{ RULE "    key: {source: {}}\n", "4:19: key.source: says no length: write ipv4, ipv6 or both" },
		{ RULE "    key: {source: {ipv4: 33}}\n", "4:26: key.source.ipv4: \"33\" is above the maximum, 32" },
		{ RULE "    key: {destination: {ipv6: 129}}\n",
		  "4:31: key.destination.ipv6: \"129\" is above the maximum, 128" },
		{ RULE "    key: {source: 33}\n    match: {source: 10.0.0.0/8}\n",
		  "4:19: key.source: 33 is too long: the rule matches IPv4 only, which has 32 bits" },
		{ RULE "    key: {source: {ipv6: 64}}\n    match: {source: 10.0.0.0/8}\n",
		  "4:26: key.source.ipv6: has no effect: the rule matches IPv4 only" },
		{ RULE "    key: {source: {ipv4: 24}}\n    match: {source: \"::/0\"}\n",
		  "4:26: key.source.ipv4: has no effect: the rule matches IPv6 only" },
		/* limit and burst */
		{ "rules:\n  - name: a\n    limit: 10000\n",
		  "3:12: limit: \"10000\" says no time: write an amount per duration, such as 10000/1m" },
		{ "rules:\n  - name: a\n    limit: -5/s\n", "3:12: limit: \"-5\" is not a whole number, such as 10" },
		{ "rules:\n  - name: a\n    limit: 1/32d\n", "3:12: limit: \"32d\" is longer than the longest, 31d" },
		{ "rules:\n  - name: a\n    limit: 1/365d\n", "3:12: limit: \"365d\" is longer than the longest, 31d" },
		{ "rules:\n  - name: a\n    limit: 1099511627777/1d\n",
		  "3:12: limit: \"1099511627777\" is above the maximum, 1099511627776" },
		{ "rules:\n  - name: a\n    limit: 9223372036854775807/1s\n",
		  "3:12: limit: \"9223372036854775807\" is above the maximum, 1099511627776" },
		{ "rules:\n  - name: a\n    limit: 18446744073709551615/1s\n",
		  "3:12: limit: \"18446744073709551615\" is above the maximum, 1099511627776" },
		{ "rules:\n  - name: a\n    limit: 18446744073709551616/1s\n",
		  "3:12: limit: \"18446744073709551616\" is above the maximum, 1099511627776" },
		{ "rules:\n  - name: a\n    unit: bytes\n    limit: 1000/s\n",
		  "4:12: limit: \"1000\" has no unit: write bytes or bits, as in 10MB, 64KiB, 80Mbit" },
		{ "rules:\n  - name: a\n    limit: 10MB/s\n",
		  "3:12: limit: \"10MB\" is an amount of bytes, which needs `unit: bytes`" },
		{ "rules:\n  - name: a\n    unit: bytes\n    limit: 513Gbit/s\n",
		  "4:12: limit: \"513Gbit/s\" is faster than the fastest, 64GB/1s" },
		{ "rules:\n  - name: a\n    limit: 64000001/1ms\n",
		  "3:12: limit: \"64000001/1ms\" is faster than the fastest, 64000000000/1s" },
		{ RULE "    burst: 0\n", "4:12: burst: \"0\" is below the minimum, 1" },
		{ RULE "    burst: 1099511627777\n",
		  "4:12: burst: \"1099511627777\" is above the maximum, 1099511627776" },
		{ RULE "    burst: 64KiB\n", "4:12: burst: \"64KiB\" is not a whole number, such as 10" },
		{ "rules:\n  - name: a\n    unit: bytes\n    limit: 1MB/s\n    burst: 1000\n",
		  "5:12: burst: \"1000\" has no unit: write bytes or bits, as in 10MB, 64KiB, 80Mbit" },
		{ "rules:\n  - name: a\n    limit: 0/s\n    burst: 5\n",
		  "4:12: burst: a limit of 0 denies everything and has no burst" },
		{ GLOBAL "    algorithm: sliding_window\n    burst: 5\n",
		  "6:12: burst: belongs to token_bucket: a window admits its limit at once" },
		/* two of one kind */
		{ "rules:\n  - {name: a, limit: 1/s}\n  - {name: a, limit: 1/s, key: {source: 32}}\n",
		  "3:5: name: \"a\" is the name of the rule on line 2 too" },
		{ "rules:\n  - {name: a, limit: 5/s, nodes: most}\n",
		  "2:34: nodes: \"most\" is neither a percentage of the nodes such as 10% nor a label with its value such as tier=canary" },
		{ "rules:\n  - {name: a, limit: 5/s, nodes: tier=a}\n  - {name: b, limit: 5/s, nodes: site=b}\n",
		  "3:5: rule \"b\" has the same scope, match, key, unit and algorithm as rule \"a\" on line 2: keep the stricter one" },
		{ "rules:\n  - {name: a, scope: global, limit: 5/s, nodes: tier=a}\n  - {name: b, scope: global, limit: 5/s, nodes: tier=b}\n",
		  "3:5: rule \"b\" has the same scope, match, key, unit and algorithm as rule \"a\" on line 2: keep the stricter one" },
		{ "rules:\n  - {name: a, limit: 1/s, match: {destination_port: [80, 81]}}\n"
		  "  - {name: b, limit: 5/s, burst: 9, shadow: true, match: {destination_port: 80-81}}\n",
		  "3:5: rule \"b\" has the same scope, match, key, unit and algorithm as rule \"a\" on line 2: keep "
		  "the stricter one" },
	};
	char why[1024];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		snprintf(why, sizeof(why), "r.yaml:%s", rows[i].why);
		assert_string_equal(refused(rows[i].text, strlen(rows[i].text)), why);
	}
}

static void rules_that_differ_in_what_tells_buckets_apart_may_stand_together(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules =
		parse("rules:\n"
		      "  - {name: a, limit: 1/s}\n"
		      "  - {name: b, limit: 1/s, key: {source: 32}}\n"
		      "  - {name: c, limit: 1/s, key: {source: 24}}\n"
		      "  - {name: d, limit: 1/s, key: {destination: 32}}\n"
		      "  - {name: e, limit: 1kB/s, unit: bytes}\n"
		      "  - {name: f, limit: 1/s, scope: global}\n"
		      "  - {name: g, limit: 1/s, scope: global, algorithm: sliding_window}\n"
		      "  - {name: h, limit: 1/s, match: {protocol: udp}}\n"
		      "  - {name: i, limit: 1/s, match: {protocol: 0}}\n"
		      "  - {name: j, limit: 1/s, match: {destination_port: 0}}\n"
		      "  - {name: k, limit: 1/s, match: {source: 0.0.0.0/0}}\n"
		      "  - {name: l, limit: 1/s, match: {destination: 0.0.0.0/0}}\n"
		      "  - {name: m, limit: 1/s, match: {source: \"::/0\"}}\n");

	(void)state;
	assert_int_equal(rules->n, 13);
}

/* Whether some other key of the same mapping is just as near, so that either may be suggested. */
static bool is_suggested(const char *complaint, const char *key)
{
	char want[80];

	snprintf(want, sizeof(want), "did you mean \"%s\"?", key);
	if (strncmp(key, "ipv", 3) == 0)
		return strstr(complaint, "did you mean \"ipv") != NULL;
	return strstr(complaint, want) != NULL;
}

static void each_key_with_one_letter_changed_is_refused_with_a_suggestion(void **state)
{
	bool seen[_LG_RF_N] = { false };

	(void)state;
	for (const char *p = full; *p; p++) {
		size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");

		if (!len || p[len] != ':') {
			p += len ? len - 1 : 0;
			continue;
		}
		for (size_t i = 0; i < len; i++) {
			char text[sizeof(full)], key[64];

			memcpy(text, full, sizeof(full));
			text[p - full + (ptrdiff_t)i] = p[i] == 'q' ? 'z' : 'q';
			snprintf(key, sizeof(key), "%.*s", (int)len, p);
			if (!is_suggested(refused(text, strlen(text)), key))
				fail_msg("no suggestion of %s for %.*s", key, (int)len, text + (p - full));
		}
		for (size_t f = 0; f < _LG_RF_N; f++) {
			const char *end = strrchr(lg_rules_fields[f].path, '.');

			end = end ? end + 1 : lg_rules_fields[f].path;
			seen[f] = seen[f] || (strlen(end) == len && strncmp(end, p, len) == 0);
		}
		p += len;
	}
	for (size_t f = 0; f < _LG_RF_N; f++)
		if (!seen[f])
			fail_msg("%s is in no text of this test", lg_rules_fields[f].path);
}

static void any_cut_or_damage_gives_rules_or_one_line(void **state)
{
	static const char bytes[] = "\t\n :-{}[],&*!|>'\"%@#0a\x80\xff";
	uint64_t seed = 88172645463325252ull;
	char text[sizeof(full)];

	(void)state;
	for (int round = 0; round < 6000; round++) {
		size_t len = sizeof(full) - 1;
		struct lg_complaint c = { 0 };
		struct lg_rules *rules = NULL;
		int r;

		memcpy(text, full, sizeof(full));
		if (round < (int)len) {
			len = (size_t)round;
		} else {
			for (int i = 0; i < 1 + round % 3; i++) {
				seed ^= seed << 13;
				seed ^= seed >> 7;
				seed ^= seed << 17;
				text[seed % len] = bytes[(seed >> 32) % sizeof(bytes)]; /* the final NUL too */
			}
		}
		r = lg_rules_parse(text, len, "r.yaml", &rules, &c);
		assert_true(r == 0 || r == -EINVAL);
		assert_true((r == 0) == (rules != NULL));
		assert_true(r == 0 || (c.text[0] && !strchr(c.text, '\n')));
		lg_rules_free(rules);
	}
}

static void bombs_are_refused_by_their_first_bound(void **state)
{
	char *text = calloc(1, LG_RULES_BYTES_MAX + 2);
	size_t n = 0;

	(void)state;
	assert_non_null(text);
	memset(text, '[', 100000);
	assert_string_equal(refused(text, 100000), "r.yaml:1:17: nested deeper than 16 levels");

	for (n = 0; n < 600000; n += 4)
		memcpy(text + n, "{a: ", 4);
	assert_string_equal(refused(text, n), "r.yaml:1:65: nested deeper than 16 levels");

	n = (size_t)sprintf(text, "rules:\n");
	for (int i = 0; i < 257; i++)
		n += (size_t)sprintf(text + n, "  - {name: r%d, limit: 1/s, match: {destination_port: %d}}\n", i, i);
	assert_string_equal(refused(text, n), "r.yaml:2:3: rules: has 257 items, but 0 to 256 are possible");

	n = (size_t)sprintf(text, "rules:\n");
	while (n < 600000)
		n += (size_t)sprintf(text + n, "- a\n");
	assert_string_equal(refused(text, n), "r.yaml:65536:3: more than 65536 values");

	n = 0;
	for (int i = 0; i < 300; i++)
		n += (size_t)sprintf(text + n, "k%d: 1\n", i);
	assert_string_equal(refused(text, n), "r.yaml:257:1: more than 256 keys in one mapping");

	memset(text, ' ', LG_RULES_BYTES_MAX + 1);
	memcpy(text, "rules: []\n#", 11);
	assert_string_equal(refused(text, LG_RULES_BYTES_MAX + 1),
			    "r.yaml: larger than 1048576 bytes, the most that is read");
	text[LG_RULES_BYTES_MAX] = '\0';
	lg_rules_free(parse(text));
	free(text);
}

static void sixty_four_rules_are_accepted(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	char text[8192];
	size_t n = (size_t)sprintf(text, "rules:\n");

	(void)state;
	for (int i = 0; i < 64; i++)
		n += (size_t)sprintf(text + n, "  - {name: r%d, limit: 1/s, match: {protocol: %d}}\n", i, i);
	rules = parse(text);
	assert_int_equal(rules->n, 64);
	assert_int_equal(rules->v[63].line, 65);
}

static void files_are_read_or_the_reason_is_given(void **state)
{
	char dir[] = "/tmp/lg-yaml-test-XXXXXX", path[64];
	struct lg_complaint c = { .line = 5 };
	struct lg_rules *rules = NULL;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(lg_rules_read(dir, &rules, &c), -EISDIR);
	assert_string_equal(c.text, "this is not a file");
	assert_string_equal(c.file, dir);
	assert_int_equal(c.line, 0);

	snprintf(path, sizeof(path), "%s/rules.yaml", dir);
	assert_int_equal(lg_rules_read(path, &rules, &c), -ENOENT);
	assert_string_equal(c.text, "cannot open it: No such file or directory");

	f = fopen(path, "w");
	assert_non_null(f);
	fputs("rules:\n  - {name: a, limit: 3/1s}\n", f);
	fclose(f);
	assert_int_equal(lg_rules_read(path, &rules, &c), 0);
	assert_int_equal(rules->v[0].limit_tok, 3);
	assert_string_equal(c.file, path); /* for complaints of the compiler */
	rules = lg_rules_free(rules);

	f = fopen(path, "w");
	assert_non_null(f);
	for (unsigned int i = 0; i <= LG_RULES_BYTES_MAX / 2; i++)
		fputs("#\n", f);
	fclose(f);
	assert_int_equal(lg_rules_read(path, &rules, &c), -EINVAL);
	assert_string_equal(c.text, "larger than 1048576 bytes, the most that is read");
	unlink(path);
	rmdir(dir);

	assert_int_equal(lg_rules_read("/dev/zero", &rules, &c), -EINVAL);
	assert_string_equal(c.text, "this is not a file");
}

static void rules_for_other_nodes_leave(void **state)
{
	static const char text[] = "rules:\n"
				   "  - {name: all, limit: 1/s, match: {protocol: udp}}\n"
				   "  - {name: small, limit: 5/s, nodes: tier=small}\n"
				   "  - {name: big, limit: 50/s, nodes: tier=big}\n"
				   "  - {name: some, limit: 5/s, match: {protocol: tcp}, nodes: 100%}\n";
	static const struct lg_label labels[] = { { "tier", "big" } };
	const struct lg_gate_node big = { "n", labels, 1, false };
	struct lg_rules *rules = NULL;
	struct lg_complaint c = { 0 };

	(void)state;
	assert_int_equal(lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c), 0);
	assert_int_equal(rules->n, 4);
	lg_rules_keep(rules, &big);
	assert_int_equal(rules->n, 3);
	assert_string_equal(rules->v[0].name, "all");
	assert_string_equal(rules->v[1].name, "big");
	assert_string_equal(rules->v[2].name, "some");
	lg_rules_keep(rules, &lg_gate_nobody);
	assert_int_equal(rules->n, 1);
	lg_rules_free(rules);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_arrives_in_the_model),
		cmocka_unit_test(a_class_is_a_preset_and_what_is_written_takes_its_place),
		cmocka_unit_test(each_algorithm_and_a_cost_are_there_for_host_rules),
		cmocka_unit_test(each_algorithm_is_there_for_global_rules),
		cmocka_unit_test(a_rate_of_messages_may_be_said_per_any_time),
		cmocka_unit_test(a_rule_of_name_and_limit_has_the_documented_defaults),
		cmocka_unit_test(scope_and_class_follow_from_each_other),
		cmocka_unit_test(one_key_length_is_that_of_the_family_it_fits),
		cmocka_unit_test(ports_become_sorted_ranges),
		cmocka_unit_test(other_accepted_spellings),
		cmocka_unit_test(no_rules_is_a_set_too),
		cmocka_unit_test(texts_that_are_no_rules_file_are_refused),
		cmocka_unit_test(rules_that_cannot_be_meant_are_refused_at_their_place),
		cmocka_unit_test(rules_that_differ_in_what_tells_buckets_apart_may_stand_together),
		cmocka_unit_test(each_key_with_one_letter_changed_is_refused_with_a_suggestion),
		cmocka_unit_test(any_cut_or_damage_gives_rules_or_one_line),
		cmocka_unit_test(bombs_are_refused_by_their_first_bound),
		cmocka_unit_test(sixty_four_rules_are_accepted),
		cmocka_unit_test(rules_for_other_nodes_leave),
		cmocka_unit_test(files_are_read_or_the_reason_is_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
