// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/yaml.h"

#define S 1000000000ull

static struct lg_rules *parse(const char *keys)
{
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;
	char text[1024];

	snprintf(text, sizeof(text), "rules:\n  - {name: a, %s}\n", keys);
	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%s:%u:%u: %s\n%s", c.file, c.line, c.col, c.text, text);
	return rules;
}

static void what_a_rule_matches_is_said_in_words(void **state)
{
	static const struct {
		const char *keys, *text;
	} rows[] = {
		{ "limit: 1/s", "all IP packets, one bucket for the whole rule" },
		{ "limit: 1/s, match: {protocol: udp, destination_port: [53, 8000-8099], source: 0.0.0.0/0, "
		  "destination: 192.0.2.0/24}, "
		  "key: {source: 32}",
		  "UDP packets to port 53 or 8000-8099 from anywhere (IPv4) to 192.0.2.0/24, one bucket per source "
		  "address" },
		{ "limit: 1/s, match: {destination_port: [80, 443, 8080]}",
		  "TCP, UDP and SCTP packets to port 80, 443 or 8080, one bucket for the whole rule" },
		{ "limit: 1/s, match: {protocol: 47}, key: {destination: 32}",
		  "packets of IP protocol 47, one bucket per IPv4 destination address and per IPv6 destination /64" },
		{ "limit: 1/s, match: {protocol: icmpv6, source: \"2001:db8::/32\"}, key: {source: 128}",
		  "ICMPv6 packets from 2001:db8::/32 to anywhere, one bucket per source address" },
		{ "limit: 1/s, match: {destination: \"::/0\"}, key: {source: 56}",
		  "all IP packets from anywhere to anywhere (IPv6), one bucket per source /56" },
		{ "limit: 1/s, match: {protocol: tcp}, key: {source: {ipv4: 24, ipv6: 128}}",
		  "TCP packets, one bucket per IPv4 source /24 and per IPv6 source address" },
		{ "limit: 1/s, match: {protocol: sctp, destination_port: 0-65535, destination: 192.0.2.7}",
		  "SCTP packets to port 0-65535 from anywhere to 192.0.2.7/32, one bucket for the whole rule" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].keys);

		lg_rule_match_text(&rules->v[0], text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

static void the_most_a_rule_admits_is_said_as_a_number(void **state)
{
	static const struct {
		const char *keys;
		struct lg_explain_env env;
		struct lg_bound bound;
		const char *text;
	} rows[] = {
		{ "limit: 100/1s",
		  { 0, 0 },
		  { 100, true, 0, 0, 0, false },
		  "at most 100 packets at once, plus 100/1s, on each host" },
		{ "limit: 10MB/s, burst: 64KiB, unit: bytes",
		  { 3, 12 },
		  { 65536, true, 0, 0, 0, false },
		  "at most 64KiB at once, plus 10MB/1s, on each host" },
		{ "limit: 10000/1m, scope: global, algorithm: sliding_window",
		  { 3, 12 },
		  { 10000, false, 10000, 3333, 60 * S, false },
		  "at most 10000 packets in any trailing 1m, over all hosts; while a region is cut off + 3333 per 1m "
		  "for it, and 3333 once" },
		{ "limit: 10000/1m, scope: global, algorithm: fixed_window, fallback: deny",
		  { 3, 12 },
		  { 10000, false, 20000, 0, 0, false },
		  "at most 10000 packets in each 1m of the home's clock (in any trailing 1m at most 20000), over all hosts; a host "
		  "that is cut off spends its lease, then denies" },
		{ "limit: 10000/1m, scope: global, algorithm: sliding_log, fallback: deny",
		  { 3, 12 },
		  { 10000, false, 10000, 0, 0, false },
		  "at most 10000 packets in any trailing 1m, over all hosts; a host that is cut off spends its lease, then denies" },
		{ "limit: 100/1s, algorithm: fixed_window",
		  { 0, 0 },
		  { 100, false, 200, 0, 0, false },
		  "at most 100 packets in each 1s of the host's clock (in any trailing 1s at most 200), on each host" },
		{ "limit: 100/1s, algorithm: sliding_window",
		  { 0, 0 },
		  { 100, false, 200, 0, 0, false },
		  "at most 100 packets in any trailing 1s of even traffic, on each host (estimated by two counters: less than 200 at "
		  "worst)" },
		{ "limit: 100/1s, algorithm: sliding_log",
		  { 0, 0 },
		  { 100, false, 100, 0, 0, false },
		  "at most 100 packets in any trailing 1s, on each host" },
		{ "limit: 100/1s, cost: 5",
		  { 0, 0 },
		  { 100, true, 0, 0, 0, false },
		  "at most 100 tokens at once, plus 100/1s, on each host; 5 are spent by each packet" },
		{ "limit: 10000/1m, scope: global, burst: 50",
		  { 3, 12 },
		  { 50, true, 0, 3333, 60 * S, false },
		  "at most 50 packets at once, plus 10000/1m, over all hosts; while a region is cut off + 3333 per 1m "
		  "for it, and 3333 once" },
		{ "limit: 9MB/1s, scope: global, unit: bytes",
		  { 3, 12 },
		  { 9000000, true, 0, 3000000, S, false },
		  "at most 9MB at once, plus 9MB/1s, over all hosts; while a region is cut off + 3MB per 1s for it, and "
		  "3MB once" },
		{ "limit: 10000/1m, scope: global",
		  { 0, 0 },
		  { 10000, true, 0, 10000, 60 * S, false },
		  "at most 10000 packets at once, plus 10000/1m, over all hosts; while one of n regions is cut off + "
		  "10000/n per 1m for it, and 10000/n once "
		  "(n is not known here)" },
		{ "limit: 2/1m, scope: global",
		  { 3, 12 },
		  { 2, true, 0, 0, 60 * S, false },
		  "at most 2 packets at once, plus 2/1m, over all hosts; a region that is cut off admits nothing, its "
		  "share of the limit "
		  "being below 1" },
		{ "limit: 5/1s, class: strict",
		  { 3, 12 },
		  { 5, true, 0, 0, 0, false },
		  "at most 5 packets at once, plus 5/1s, over all hosts; a host that is cut off spends its lease, then "
		  "denies" },
		{ "limit: 5/1s, class: strict, fallback: share",
		  { 5, 12 },
		  { 5, true, 0, 0, 0, false },
		  "at most 5 packets at once, plus 5/1s, over all hosts; a region that is cut off admits nothing, its share of the limit "
		  "being below 1" },
		{ "limit: 10000/1m, class: strict, fallback: share",
		  { 3, 12 },
		  { 10000, true, 0, 0, 0, false },
		  "at most 10000 packets at once, plus 10000/1m, over all hosts; of that up to 333 per 1m for each region that is cut off" },
		{ "limit: 10000/1m, class: sync, algorithm: sliding_window, fallback: share",
		  { 0, 0 },
		  { 10000, false, 10000, 0, 0, false },
		  "at most 10000 packets in any trailing 1m, over all hosts; of that up to 1000/n per 1m for each of n regions that is "
		  "cut off (n is not known here)" },
		{ "limit: 5/1s, scope: global, fallback: closed",
		  { 3, 12 },
		  { 5, true, 0, 0, 0, false },
		  "at most 5 packets at once, plus 5/1s, over all hosts; a host that is cut off denies at once" },
		{ "limit: 5/1s, scope: global, fallback: open",
		  { 3, 12 },
		  { 5, true, 0, 0, 0, true },
		  "at most 5 packets at once, plus 5/1s, over all hosts; a host that is cut off lets everything pass: "
		  "nothing bounds it "
		  "then" },
		{ "limit: 0/1s", { 0, 0 }, { 0, true, 0, 0, 0, false }, "nothing at all" },
		{ "limit: 0/1s, scope: global", { 3, 12 }, { 0, true, 0, 0, S, false }, "nothing at all" },
		{ "limit: 0/1s, scope: global, fallback: open",
		  { 3, 12 },
		  { 0, true, 0, 0, 0, true },
		  "nothing at all; a host that is cut off lets everything pass: nothing bounds it then" },
		{ "limit: 5/1s, on_full: pass, shadow: true",
		  { 0, 0 },
		  { 5, true, 0, 0, 0, false },
		  "at most 5 packets at once, plus 5/1s, on each host; keys that find the table of keys full pass "
		  "without limit; in shadow "
		  "mode, so what is above is counted and passes" },
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].keys);
		struct lg_bound bound;

		lg_rule_bound(&rules->v[0], &rows[i].env, &bound);
		assert_int_equal(bound.base_tok, rows[i].bound.base_tok);
		assert_int_equal(bound.plus_rate, rows[i].bound.plus_rate);
		assert_int_equal(bound.trailing_tok, rows[i].bound.trailing_tok);
		assert_int_equal(bound.fallback_tok, rows[i].bound.fallback_tok);
		assert_int_equal(bound.fallback_per_ns, rows[i].bound.fallback_per_ns);
		assert_int_equal(bound.unbounded, rows[i].bound.unbounded);
		lg_rule_bound_text(&rules->v[0], &rows[i].env, text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

static void what_may_surprise_its_writer_is_warned_of(void **state)
{
	static const struct {
		const char *keys;
		struct lg_explain_env env;
		const char *texts[3];
	} rows[] = {
		{ "limit: 45/1s", { 0, 0 }, { NULL } },
		{ "limit: 44/1s",
		  { 0, 0 },
		  { "a burst of 44 packets is less than a TCP superframe at TC (45 packets): such pass only "
		    "while the bucket is full" } },
		{ "limit: 44/1s, scope: global",
		  { 0, 0 },
		  { "a burst of 44 packets is less than a TCP superframe at TC (45 packets): such can never pass" } },
		{ "limit: 44/1s, match: {protocol: udp}", { 0, 0 }, { NULL } },
		{ "limit: 64KiB/1s, unit: bytes", { 0, 0 }, { NULL } },
		{ "limit: 65535B/1s, unit: bytes",
		  { 0, 0 },
		  { "a burst of 65535B is less than a TCP superframe at TC (64KiB): such pass only while the "
		    "bucket is full" } },
		{ "limit: 1MB/1s, burst: 1514B, unit: bytes, match: {protocol: udp}", { 0, 0 }, { NULL } },
		{ "limit: 1MB/1s, burst: 1513B, unit: bytes",
		  { 0, 0 },
		  { "a burst of 1513B is less than one full frame (1514B): such frames can never pass" } },
		{ "limit: 1MB/1s, burst: 200kB, unit: bytes", { 0, 0 }, { NULL } },
		{ "limit: 1MB/1s, burst: 150kB, unit: bytes",
		  { 0, 0 },
		  { "a burst of 150kB is less than 200ms of the limit: one TCP connection may get less than nine tenths of it "
		    "(75% at worst)" } },
		{ "limit: 1MB/1s, burst: 150kB, unit: bytes, match: {protocol: udp}", { 0, 0 }, { NULL } },
		{ "limit: 0/1s", { 0, 0 }, { "a limit of 0 without a match denies every IP packet" } },
		{ "limit: 0/1s, shadow: true", { 0, 0 }, { NULL } },
		{ "limit: 0/1s, match: {protocol: udp}", { 0, 0 }, { NULL } },
		{ "limit: 96/1s, scope: global", { 3, 12 }, { NULL } },
		{ "limit: 95/1s, scope: global",
		  { 3, 12 },
		  { "a limit of 95 is small for 12 hosts (8 for each are wanted): where many see one key, part of it "
		    "stays unused" } },
		{ "limit: 960/1s, scope: global, algorithm: sliding_window", { 3, 12 }, { NULL } },
		{ "limit: 959/1s, scope: global, algorithm: sliding_window",
		  { 3, 12 },
		  { "a limit of 959 is small for 12 hosts (80 for each are wanted): where many see one key, part of it "
		    "stays unused" } },
		{ "limit: 480/1s, scope: global, cost: 5", { 3, 12 }, { NULL } },
		{ "limit: 479/1s, scope: global, cost: 5",
		  { 3, 12 },
		  { "a limit of 479 is small for 12 hosts (40 for each are wanted, 8 times the cost): where many see one key, part of it "
		    "stays unused" } },
		{ "limit: 59/1s, burst: 1000, scope: global, cost: 5",
		  { 3, 12 },
		  { "a limit of 59 is small for 12 hosts (40 for each are wanted, 8 times the cost): where many see one key, part of it "
		    "stays unused",
		    "the fallback share of a host is below 5 (59 over 12 hosts): one that is cut off admits nothing" } },
		{ "limit: 95/1s, scope: global", { 0, 0 }, { NULL } },
		{ "limit: 11/1s, burst: 100, scope: global",
		  { 3, 12 },
		  { "a limit of 11 is small for 12 hosts (8 for each are wanted): where many see one key, part of it "
		    "stays unused",
		    "the fallback share of a host is below 1 (11 over 12 hosts): one that is cut off admits "
		    "nothing" } },
		{ "limit: 239/1s, class: strict, algorithm: sliding_window, fallback: share, lease: {owner: off}",
		  { 3, 12 },
		  { "a limit of 239 is small for 12 hosts (80 for each are wanted): where many see one key, part of it "
		    "stays unused",
		    "the fallback share of a host is below 2 (23 over 12 hosts): one that is cut off admits "
		    "nothing" } },
		{ "limit: 119/1s, class: strict, fallback: share",
		  { 3, 12 },
		  { "the fallback share of a host is below 1 (11 over 12 hosts): one that is cut off admits "
		    "nothing" } },
		{ "limit: 120/1s, class: strict, fallback: share", { 3, 12 }, { NULL } },
		{ "limit: 12/1s, burst: 100, class: strict",
		  { 3, 12 },
		  { "a limit of 12 is small for 12 hosts (8 for each are wanted): where many see one key, part of it "
		    "stays unused" } },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].keys);
		char text[512], want[512];
		size_t n = 0;

		for (; rows[i].texts[n]; n++) {
			assert_int_equal(lg_rules_warning(rules, &rows[i].env, n, text, sizeof(text)), 0);
			snprintf(want, sizeof(want), "rule \"a\" (line 2): %s", rows[i].texts[n]);
			assert_string_equal(text, want);
		}
		assert_int_equal(lg_rules_warning(rules, &rows[i].env, n, text, sizeof(text)), 1);
	}
}

static void warnings_of_all_rules_follow_each_other(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules =
		parse("limit: 1/1s}\n  - {name: b, match: {protocol: udp}, limit: 1/1s}\n"
		      "  - {name: c, match: {protocol: tcp}, limit: 1/1s");
	struct lg_explain_env env = { 0, 0 };
	char text[512];

	(void)state;
	assert_int_equal(lg_rules_warning(rules, &env, 1, text, sizeof(text)), 0);
	assert_non_null(strstr(text, "rule \"c\" (line 4): "));
	assert_int_equal(lg_rules_warning(rules, &env, 2, text, sizeof(text)), 1);
}

static void texts_are_cut_to_any_buffer(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules =
		parse("limit: 1/1s, scope: global, match: {source: 10.0.0.0/8, destination_port: [1, 3, 5, 7]}, key: "
		      "{source: 24}");
	struct lg_explain_env env = { 3, 12 };
	char whole[512], cut[512];

	(void)state;
	lg_rule_match_text(&rules->v[0], whole, sizeof(whole));
	for (size_t len = 1; len <= strlen(whole); len++) {
		memset(cut, '#', sizeof(cut));
		lg_rule_match_text(&rules->v[0], cut, len);
		assert_int_equal(strlen(cut), len - 1);
		assert_memory_equal(cut, whole, len - 1);
		assert_int_equal(cut[len], '#');
	}
	lg_rule_bound_text(&rules->v[0], &env, whole, sizeof(whole));
	for (size_t len = 1; len <= strlen(whole); len++) {
		lg_rule_bound_text(&rules->v[0], &env, cut, len);
		assert_int_equal(strlen(cut), len - 1);
		assert_memory_equal(cut, whole, len - 1);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_rule_matches_is_said_in_words),
		cmocka_unit_test(the_most_a_rule_admits_is_said_as_a_number),
		cmocka_unit_test(what_may_surprise_its_writer_is_warned_of),
		cmocka_unit_test(warnings_of_all_rules_follow_each_other),
		cmocka_unit_test(texts_are_cut_to_any_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
