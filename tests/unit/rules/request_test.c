// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which rules a request finds, and under which keys. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include "base/mem.h"
#include "rules/request.h"
#include "rules/secret.h"
#include "rules/yaml.h"

#define SEED 0x1234567890abcdefull

static struct lg_rule_name names[LG_RULES_MAX + 1];
static struct lg_request_table *table;
static struct lg_ruleset set;
static struct lg_rules *rules;

static int forget(void **state)
{
	(void)state;
	free(table);
	table = NULL;
	lg_rules_free(rules);
	rules = NULL;
	return 0;
}

static void make(const char *text)
{
	struct lg_compile_env env = { .now_ns = 1, .n_lines = 8192 };
	struct lg_complaint c = { 0 };

	forget(NULL);
	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%u:%u: %s\n%s", c.line, c.col, c.text, text);
	for (size_t i = 0; i < rules->n; i++) {
		rules->v[i].secret_key[0] = 7;
		rules->v[i].secret_key[1] = 9;
	}
	assert_int_equal(lg_rules_compile(rules, &env, &set, NULL, names, &c), 0);
	assert_int_equal(lg_requests_build(rules, &set, names, SEED, &table), 0);
	assert_true(lg_requests_check(table, lg_requests_bytes(table)));
	assert_false(lg_requests_check(table, lg_requests_bytes(table) - 1));
}

/* "user=alice path=/x" as entries. */
struct said {
	struct lg_slice keys[20], values[20];
	uint32_t n;
	char text[2048];
};

static void say(struct said *s, const char *text)
{
	char *p = s->text;

	snprintf(s->text, sizeof(s->text), "%s", text);
	s->n = 0;
	while (*p) {
		size_t len = strcspn(p, " "), key = strcspn(p, "=");
		char *next = p[len] ? p + len + 1 : p + len;

		s->keys[s->n] = (struct lg_slice){ p, (uint32_t)key };
		s->values[s->n++] = (struct lg_slice){ p + key + 1, (uint32_t)(len - key - 1) };
		p = next;
	}
}

/* The names of the rules that a descriptor finds, in the order of the set. */
static const char *found(const char *domain, const char *text)
{
	static char all[512];
	bool hit[LG_RULES_MAX] = { false };
	struct lg_request_hit hits[LG_MATCHES_MAX];
	struct said s;
	int n;

	say(&s, text);
	n = lg_requests_find(table, (struct lg_slice){ domain, (uint32_t)strlen(domain) }, s.keys, s.values, s.n, hits, LG_MATCHES_MAX);
	assert_true(n >= 0);
	all[0] = '\0';
	for (int i = 0; i < n; i++) {
		assert_false(hit[hits[i].rule]);
		hit[hits[i].rule] = true;
	}
	for (uint32_t i = 0; i < lg_requests_count(table); i++)
		if (hit[i])
			snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", all[0] ? " " : "", lg_requests_rule(table, i)->name);
	return all;
}

static struct lg_request_hit key_of(const char *rule, const char *text)
{
	struct lg_request_hit hit;
	struct said s;
	int number = lg_requests_named(table, (struct lg_slice){ rule, (uint32_t)strlen(rule) });

	say(&s, text);
	assert_true(number >= 0);
	assert_int_equal(lg_requests_key(table, (uint32_t)number, s.keys, s.values, s.n, &hit), 0);
	return hit;
}

#define RULE(name, match) "  - {name: " name ", unit: requests, limit: 5/1s, match: {domain: d, " match "}}\n"

static void of_rules_for_the_same_entries_the_most_specific_one_counts(void **state)
{
	(void)state;
	make("sets:\n  - {name: staff, values: [alice, bob, \"vip:carol\"]}\nrules:\n"
	     RULE("any", "entries: [user]")
	     RULE("vips", "entries: [{key: user, value: \"vip:*\"}]")
	     RULE("gold", "entries: [{key: user, value: \"vip:gold:*\"}]")
	     RULE("odd", "entries: [{key: user, value: \"*:x:*\"}]")
	     RULE("staff", "entries: [{key: user, value_set: staff}]")
	     RULE("alice", "entries: [{key: user, value: alice}]"));
	assert_string_equal(found("d", "user=zoe"), "any");
	assert_string_equal(found("d", "user="), "any");
	assert_string_equal(found("d", "user=vip:7"), "vips");
	assert_string_equal(found("d", "user=vip:"), "vips");
	assert_string_equal(found("d", "user=vip"), "any");
	assert_string_equal(found("d", "user=vip:gold:1"), "gold");
	assert_string_equal(found("d", "user=a:x:b"), "odd");
	assert_string_equal(found("d", "user=vip:carol"), "staff");
	assert_string_equal(found("d", "user=bob"), "staff");
	assert_string_equal(found("d", "user=alice"), "alice");
	assert_string_equal(found("d", "user=alice2"), "any");
	assert_string_equal(found("other", "user=alice"), "");
	assert_string_equal(found("d", "usr=alice"), "");
}

static void entries_stand_in_any_order_and_paths_in_one(void **state)
{
	(void)state;
	make("rules:\n"
	     "  - {name: all, unit: requests, limit: 5/1s, match: {domain: d}}\n"
	     RULE("user", "entries: [user]")
	     RULE("path", "entries: [path]")
	     RULE("both", "entries: [path, user]")
	     RULE("exact", "descriptors: [user, path]")
	     RULE("exact-user", "descriptors: [user]")
	     RULE("exact-search", "descriptors: [user, {key: path, value: /search}]"));
	assert_string_equal(found("d", ""), "all");
	assert_string_equal(found("d", "x=1"), "all");
	assert_string_equal(found("d", "user=a"), "all user exact-user");
	assert_string_equal(found("d", "user=a path=/x"), "all user path both exact");
	assert_string_equal(found("d", "user=a path=/search"), "all user path both exact-search");
	assert_string_equal(found("d", "path=/search user=a"), "all user path both");
	assert_string_equal(found("d", "user=a path=/x more=1"), "all user path both");
}

static void who_finds_no_rule_below_goes_back_to_the_last_fork(void **state)
{
	(void)state;
	make("rules:\n"
	     RULE("a", "descriptors: [{key: k, value: x}, {key: l, value: \"1\"}]")
	     RULE("b", "descriptors: [k, {key: l, value: \"2\"}]")
	     RULE("c", "descriptors: [{key: k, value: \"x*\"}, {key: l, value: \"3*\"}]"));
	assert_string_equal(found("d", "k=x l=1"), "a");
	assert_string_equal(found("d", "k=x l=2"), "b");
	assert_string_equal(found("d", "k=x l=33"), "c");
	assert_string_equal(found("d", "k=y l=1"), "");
}

static void rules_with_the_very_same_match_are_all_found(void **state)
{
	(void)state;
	make("rules:\n"
	     "  - {name: burst, unit: requests, limit: 5/1s, match: {domain: d, entries: [user]}, key: {descriptors: [user]}}\n"
	     "  - {name: day, unit: requests, limit: 500/1d, algorithm: fixed_window, match: {domain: d, entries: [user]}, key: "
	     "{descriptors: [user]}}\n");
	assert_string_equal(found("d", "user=a"), "burst day");
}

static void too_many_hits_are_an_error_and_not_a_part(void **state)
{
	struct lg_request_hit hits[LG_MATCHES_MAX];
	char text[4096] = "rules:\n";
	struct said s;

	(void)state;
	for (int i = 0; i < 9; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "  - {name: r%d, unit: requests, limit: 5/1s, match: {domain: d, entries: [k%d]}}\n", i, i);
	make(text);
	say(&s, "k0=1 k1=1 k2=1 k3=1 k4=1 k5=1 k6=1 k7=1");
	assert_int_equal(lg_requests_find(table, (struct lg_slice){ "d", 1 }, s.keys, s.values, s.n, hits, LG_MATCHES_MAX), 8);
	say(&s, "k0=1 k1=1 k2=1 k3=1 k4=1 k5=1 k6=1 k7=1 k8=1");
	assert_int_equal(lg_requests_find(table, (struct lg_slice){ "d", 1 }, s.keys, s.values, s.n, hits, LG_MATCHES_MAX), -E2BIG);
}

/* ---- keys ---- */

#define USER_PATH                                                                                       \
	"rules:\n  - {name: r, unit: requests, limit: 5/1s, match: {domain: d, entries: [user, path]}, " \
	"key: {descriptors: [user, path]}}\n"

static void tuples_of_texts_never_meet(void **state)
{
	struct lg_request_hit a, b;

	(void)state;
	make(USER_PATH);
	a = key_of("r", "user=10.0.0.1 path=1/x");
	b = key_of("r", "user=10.0.0.11 path=/x");
	assert_int_equal(a.key.form, LG_FORM_PRODUCT | LG_KEY_TEXTS);
	assert_memory_not_equal(&a.key, &b.key, sizeof(a.key));
	a = key_of("r", "user= path=x");
	b = key_of("r", "user=x path=");
	assert_memory_not_equal(&a.key, &b.key, sizeof(a.key));
	b = key_of("r", "path=x user=");
	assert_memory_equal(&a.key, &b.key, sizeof(a.key)); /* entries in another order: the key has the rule's */
}

static void what_is_too_long_for_a_key_is_hashed(void **state)
{
	struct lg_request_hit a, b;

	(void)state;
	make(USER_PATH);
	a = key_of("r", "user=0123456789 path=01234567890123456789"); /* 11 + 21 bytes */
	assert_int_equal(a.key.form, LG_FORM_PRODUCT | LG_KEY_TEXTS);
	a = key_of("r", "user=0123456789 path=012345678901234567890");
	assert_int_equal(a.key.form, LG_FORM_PRODUCT | LG_KEY_TEXTS | LG_FORM_HASHED);
	b = key_of("r", "user=0123456789 path=012345678901234567891");
	assert_int_equal(b.key.form, a.key.form);
	assert_memory_not_equal(a.key.a, b.key.a, 16);
	b = key_of("r", "user=01234567890 path=12345678901234567890");
	assert_memory_not_equal(a.key.a, b.key.a, 16);
}

static void the_hash_of_a_global_rule_is_the_same_on_all_hosts_and_of_a_host_rule_is_not(void **state)
{
	static const char *const scopes[] = { "global", "host" };
	struct lg_request_table *other;
	struct lg_request_hit a, b;
	char text[512];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(scopes); i++) {
		snprintf(text, sizeof(text), "rules:\n  - {name: r, scope: %s, unit: requests, limit: 5/1s, match: {domain: d, entries: "
		  "[user]}, "
					     "key: {descriptors: [user]}}\n", scopes[i]);
		make(text);
		a = key_of("r", "user=0123456789012345678901234567890123456789");
		assert_int_equal(lg_requests_build(rules, &set, names, SEED + 1, &other), 0);
		free(table);
		table = other;
		b = key_of("r", "user=0123456789012345678901234567890123456789");
		assert_int_equal(memcmp(a.key.a, b.key.a, 16) == 0, i == 0);
	}
}

static void an_address_is_one_key_however_it_is_spelt(void **state)
{
	static const char *const same[] = { "2001:db8:0:1::5", "2001:DB8::1:0:0:0:5", "2001:0db8:0000:0001:0000:0000:0000:0005",
					    "[2001:db8:0:1::5]", "2001:db8:0:1::5%eth0", "2001:db8:0:1:ffff::1" };
	static const char *const none[] = { "", "x", "1.2.3", "1.2.3.4.5", "[::1", "::1]", "fe80::1::2", "%", "300.1.1.1" };
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 192, 0, 2 }, zero[16];
	struct lg_request_hit first, hit;
	char text[128];

	(void)state;
	make("rules:\n  - {name: r, unit: requests, limit: 5/1s, match: {domain: d, entries: [ip]}, key: {address: ip, source: {ipv4: 24}}}\n");
	first = key_of("r", "ip=2001:db8:0:1::");
	assert_int_equal(first.key.form, LG_FORM_SOURCE);
	for (size_t i = 0; i < N_ELEMS(same); i++) {
		snprintf(text, sizeof(text), "ip=%s", same[i]);
		hit = key_of("r", text);
		assert_memory_equal(&hit.key, &first.key, sizeof(hit.key));
	}
	hit = key_of("r", "ip=2001:db8:0:2::5");
	assert_memory_not_equal(&hit.key, &first.key, sizeof(hit.key));
	hit = key_of("r", "ip=192.0.2.7");
	assert_memory_equal(hit.key.a, v4, 16);
	assert_memory_equal(hit.source, v4, 16);
	hit = key_of("r", "ip=::ffff:192.0.2.200");
	assert_memory_equal(hit.key.a, v4, 16);
	for (size_t i = 0; i < N_ELEMS(none); i++) {
		snprintf(text, sizeof(text), "ip=%s", none[i]);
		hit = key_of("r", text);
		assert_memory_equal(hit.key.a, zero, 16);
	}
}

static void a_request_and_a_packet_of_one_address_have_one_key(void **state)
{
	static const uint8_t addr[16] = { [10] = 0xff, 0xff, 192, 0, 2, 7 };
	struct lg_request_hit hit;

	(void)state;
	make("rules:\n  - {name: r, limit: 5/1s, match: {domain: d, entries: [ip], protocol: udp}, key: {destination: 32, address: ip}}\n");
	hit = key_of("r", "ip=192.0.2.7");
	assert_int_equal(hit.key.form, LG_FORM_DESTINATION);
	assert_memory_equal(hit.key.a, addr, 16);
	assert_string_equal(found("d", "ip=192.0.2.7"), "r");
}

static void a_secret_address_is_hashed_as_that_of_a_packet_is(void **state)
{
	static const uint8_t addr[16] = { [10] = 0xff, 0xff, 192, 0, 2, 7 };
	struct lg_request_hit hit;
	struct lg_key key;

	(void)state;
	make("rules:\n  - {name: r, limit: 5/1s, secret: true, match: {domain: d, entries: [ip]}, key: {source: 32, address: ip}}\n");
	hit = key_of("r", "ip=192.0.2.7");
	assert_int_equal(lg_secret_key(&lg_requests_rule(table, 0)->rule, addr, &key), 0);
	assert_memory_equal(&hit.key, &key, sizeof(key));
}

static void an_entry_that_the_key_needs_is_missed(void **state)
{
	struct lg_request_hit hit;
	struct said s;

	(void)state;
	make(USER_PATH);
	say(&s, "user=a");
	assert_int_equal(lg_requests_key(table, 0, s.keys, s.values, s.n, &hit), -ENOENT);
	assert_int_equal(lg_requests_named(table, (struct lg_slice){ "rr", 2 }), -ENOENT);
}

/* The vectors that SipHash's authors publish, of 128 bits. */
static void the_hash_is_siphash(void **state)
{
	static const uint8_t want[2][16] = {
		{ 0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93 },
		{ 0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45 },
	};
	uint64_t key[2], hash[2];
	uint8_t bytes[16];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	memcpy(key, bytes, sizeof(key));
	for (size_t len = 0; len < 2; len++) {
		lg_siphash(key, bytes, len, true, hash);
		assert_memory_equal(hash, want[len], 16);
	}
}

static void no_packet_matches_a_rule_for_requests_alone(void **state)
{
	static struct lg_classifier classifier;
	struct lg_compile_env env = { .now_ns = 1 };
	struct lg_complaint c = { 0 };

	(void)state;
	make("rules:\n  - {name: r, unit: requests, limit: 5/1s}\n  - {name: p, limit: 5/1s, match: {domain: d}}\n");
	assert_int_equal(lg_rules_compile(rules, &env, &set, &classifier, names, &c), 0);
	for (uint32_t kind = 0; kind < _LG_KIND_N; kind++)
		for (uint32_t i = 0; i < set.n_rules; i++)
			if (set.rules[i].flags & LG_RULE_REQUESTS)
				assert_int_equal(classifier.vectors[classifier.kinds[kind]].w[0] >> i & 1, 0);
	assert_string_equal(found("default", ""), "r");
	assert_string_equal(found("d", ""), "p");
}

static void what_cannot_be_meant_is_refused(void **state)
{
	static const struct {
		const char *keys, *want;
	} rows[] = {
		{ "unit: requests, match: {entries: [user], protocol: udp}", "match.protocol: belongs to packets, and the unit is requests" },
		{ "match: {entries: [user]}", "match.entries: belongs to requests: write domain beside it, or `unit: requests`" },
		{ "unit: connections, match: {domain: d}", "match.domain: belongs to requests, which share a bucket with packets or bytes: "
		  "the unit is connections" },
		{ "unit: requests, match: {entries: [a], descriptors: [b]}", "match.descriptors: and entries both say which entries: write "
		  "one of them" },
		{ "unit: requests, match: {entries: [a, a]}", "match.entries: \"a\" is listed twice" },
		{ "unit: requests, match: {entries: [{key: a, valu: b}]}", "unknown key \"valu\": did you mean \"value\"?" },
		{ "unit: requests, match: {entries: [{key: a, value_set: s}]}", "match.entries: there is no set \"s\": list it under `sets`" },
		{ "unit: requests, match: {entries: [{value: s}]}", "match.entries: key is missing: write the key of the entry" },
		{ "unit: requests, match: {entries: [user]}, key: {descriptors: [usr]}", "key.descriptors: the match does not ask for "
		  "\"usr\": did you mean \"user\"?" },
		{ "unit: requests, match: {entries: [user]}, key: {source: 32}", "key.source: says how long prefixes are, and no entry is an "
		  "address: write address, too" },
		{ "unit: requests, match: {entries: [user]}, key: {protocol: true}", "key.protocol: belongs to packets, and the unit is "
		  "requests: write descriptors, or address" },
		{ "match: {domain: d, entries: [ip]}, key: {source: 32}", "key: the rule takes requests as well: write address, the entry "
		  "that has theirs" },
		{ "match: {domain: d, entries: [ip]}, key: {address: ip}", "key: names no part: write one such as source, or leave key out "
		  "for one bucket" },
		{ "match: {domain: d, entries: [ip]}, key: {source: 32, protocol: true, address: ip}", "key: of a rule that takes requests "
		  "as well is source, destination, or nothing: requests have no more" },
		{ "unit: requests, action: drop", "action: is for packets: what becomes of requests is deny or soft" },
		{ "action: soft", "action: is for `unit: requests`: what becomes of packets is drop, or another of them" },
	};
	struct lg_complaint c;
	struct lg_rules *r;
	char text[512];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		snprintf(text, sizeof(text), "rules:\n  - {name: r, limit: 5/1s, %s}\n", rows[i].keys);
		c = (struct lg_complaint){ 0 };
		r = NULL;
		if (lg_rules_parse(text, strlen(text), "r.yaml", &r, &c) != -EINVAL)
			fail_msg("not refused: %s", text);
		assert_string_equal(c.text, rows[i].want);
	}
}

static void patterns_take_what_their_stars_stand_for(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool want;
	} rows[] = {
		{ "", "", true }, { "", "a", false }, { "a", "", false }, { "*", "", true }, { "*", "abc", true }, { "a*", "a", true },
		{ "a*", "b", false }, { "*a", "bca", true }, { "*a", "ab", false }, { "a*c", "abbbc", true }, { "a*c", "acb", false },
		{ "*a*b*", "xxayybzz", true }, { "*a*b*", "xxbyya", false }, { "a**b", "ab", true }, { "*ab", "aab", true },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++)
		if (lg_value_matches(rows[i].pattern, rows[i].text, strlen(rows[i].text)) != rows[i].want)
			fail_msg("%s against %s", rows[i].pattern, rows[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_rules_for_the_same_entries_the_most_specific_one_counts),
		cmocka_unit_test(entries_stand_in_any_order_and_paths_in_one),
		cmocka_unit_test(who_finds_no_rule_below_goes_back_to_the_last_fork),
		cmocka_unit_test(rules_with_the_very_same_match_are_all_found),
		cmocka_unit_test(too_many_hits_are_an_error_and_not_a_part),
		cmocka_unit_test(tuples_of_texts_never_meet),
		cmocka_unit_test(what_is_too_long_for_a_key_is_hashed),
		cmocka_unit_test(the_hash_of_a_global_rule_is_the_same_on_all_hosts_and_of_a_host_rule_is_not),
		cmocka_unit_test(an_address_is_one_key_however_it_is_spelt),
		cmocka_unit_test(a_request_and_a_packet_of_one_address_have_one_key),
		cmocka_unit_test(a_secret_address_is_hashed_as_that_of_a_packet_is),
		cmocka_unit_test(an_entry_that_the_key_needs_is_missed),
		cmocka_unit_test(the_hash_is_siphash),
		cmocka_unit_test(no_packet_matches_a_rule_for_requests_alone),
		cmocka_unit_test(what_cannot_be_meant_is_refused),
		cmocka_unit_test(patterns_take_what_their_stars_stand_for),
	};

	return cmocka_run_group_tests(tests, NULL, forget);
}
