// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a rules file says beside its rules: lists, exemptions, bans; and what becomes of it when compiled. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/num.h"
#include "rules/compile.h"
#include "rules/lockout.h"
#include "rules/vectors.h"
#include "rules/yaml.h"

#define S 1000000000ull
#define RULES "rules: [{name: a, key: {source: 32}, limit: 100/1s}]\n"

static char folder[] = "/tmp/lg-lists-test-XXXXXX";
static char rules_path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(rules_path, sizeof(rules_path), "%s/rules.yaml", folder);
	return 0;
}

static int teardown(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void file_write(const char *name, const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
	assert_int_equal(fclose(f), 0);
}

static struct lg_rules *parse(const char *text)
{
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;
	char shown[1024];

	if (lg_rules_parse(text, strlen(text), rules_path, &rules, &c) < 0) {
		lg_complaint_format(&c, shown, sizeof(shown));
		fail_msg("%s\n%.500s", shown, text);
	}
	return rules;
}

/* The complaint, without the folder's name. */
static const char *refused(const char *text)
{
	static char shown[1024];
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = NULL;
	char *at;

	assert_true(lg_rules_parse(text, strlen(text), rules_path, &rules, &c) < 0);
	assert_null(rules);
	lg_complaint_format(&c, shown, sizeof(shown));
	while ((at = strstr(shown, folder)))
		memmove(at, at + strlen(folder) + 1, strlen(at + strlen(folder)));
	return shown;
}

static void listed_is(const struct lg_rules *rules, size_t i, uint8_t verdict, const char *prefix, uint8_t file, uint32_t line)
{
	const struct lg_listed *l = &rules->listed[i];
	char text[LG_IP_TEXT_LEN];

	lg_prefix_format(l->prefix.addr, l->prefix.family, l->prefix.len, text, sizeof(text));
	assert_string_equal(text, prefix);
	assert_int_equal(l->verdict, verdict);
	assert_int_equal(l->file, file);
	assert_int_equal(l->line, line);
}

/* ---- lists ---- */

static void lists_are_read_from_the_rules_file_and_from_files_beside_it(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;

	(void)state;
	file_write("deny.txt", "# a list\n\n  203.0.113.0/24  # why\n2001:db8::/32\r\n198.51.100.7");
	rules = parse("lists:\n  allow: [192.0.2.0/24, 2001:db8:1::1]\n  deny:\n    - 10.0.0.0/8\n    - {file: deny.txt}\n" RULES);
	assert_int_equal(rules->n_listed, 6);
	listed_is(rules, 0, LG_LIST_ALLOW, "192.0.2.0/24", 0, 2);
	listed_is(rules, 1, LG_LIST_ALLOW, "2001:db8:1::1/128", 0, 2);
	listed_is(rules, 2, LG_LIST_DENY, "10.0.0.0/8", 0, 4);
	listed_is(rules, 3, LG_LIST_DENY, "203.0.113.0/24", 1, 3);
	listed_is(rules, 4, LG_LIST_DENY, "2001:db8::/32", 1, 4);
	listed_is(rules, 5, LG_LIST_DENY, "198.51.100.7/32", 1, 5);
	assert_int_equal(rules->n_list_files, 1);
}

static void what_is_wrong_with_a_list_is_said_with_file_and_line(void **state)
{
	static const struct {
		const char *file;
		const char *lists;
		const char *says;
	} rows[] = {
		{ "10.0.0.0/8\n10.0.0.1/8\n", "{deny: [{file: l.txt}]}", "l.txt:2: lists.deny: " },
		{ "10.0.0.0/33\n", "{allow: [{file: l.txt}]}", "l.txt:1: lists.allow: " },
		{ "", "{allow: [10.0.0.0/8, 10.0.0.0/8]}",
		  "rules.yaml:1: lists.allow: 10.0.0.0/8 is listed before, in rules.yaml on line 1: write it once" },
		{ "\n10.0.0.0/8\n", "{allow: [10.0.0.0/8], deny: [{file: l.txt}]}",
		  "l.txt:2: lists.deny: 10.0.0.0/8 is listed under allow, in rules.yaml on line 1: no address can be both" },
		{ "::/0\n0.0.0.0/0\n0.0.0.0/0\n", "{deny: [{file: l.txt}]}",
		  "l.txt:3: lists.deny: 0.0.0.0/0 is listed before, in l.txt on line 2" },
		{ "", "{deny: [{file: none.txt}]}", "none.txt: cannot open it" },
		{ "", "{deny: [{files: l.txt}]}", "expected a prefix such as 192.0.2.0/24, or {file: PATH}" },
		{ "", "{deny: [[10.0.0.0/8]]}", "expected a prefix such as" },
		{ "", "{deny: 10.0.0.0/8}", "lists.deny: expected a list of prefixes and of {file: PATH}, not a single value" },
		{ "", "{block: [10.0.0.0/8]}", "unknown key \"block\"" },
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		file_write("l.txt", rows[i].file);
		snprintf(text, sizeof(text), "lists: %s\n" RULES, rows[i].lists);
		if (!strstr(refused(text), rows[i].says))
			fail_msg("\"%s\" does not say \"%s\"", refused(text), rows[i].says);
	}
}

static void lists_have_a_hundred_thousand_prefixes_and_not_one_more(void **state)
{
	_cleanup_free_ char *text = malloc(LG_LIST_FILE_MAX * 20 + 40);
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	size_t n = 0;

	(void)state;
	assert_non_null(text);
	for (unsigned int i = 0; i < LG_LIST_FILE_MAX; i++)
		n += (size_t)sprintf(text + n, "10.%u.%u.%u\n", i >> 16, i >> 8 & 255, i & 255);
	file_write("many.txt", text);
	rules = parse("lists: {deny: [{file: many.txt}]}\n" RULES);
	assert_int_equal(rules->n_listed, LG_LIST_FILE_MAX);
	sprintf(text + n, "# one more\n11.0.0.0\n");
	file_write("many.txt", text);
	assert_non_null(strstr(refused("lists: {deny: [{file: many.txt}]}\n" RULES), "many.txt:100002: lists: 100000 prefixes are the most"));
}

static void rules_that_are_kept_have_the_lists_as_they_were_read(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL, *again = NULL;
	static const char yaml[] = "lists: {allow: [{file: a.txt}], deny: [{file: b.txt}, 192.0.2.0/24]}\n" RULES;
	char *text = strdup(yaml);
	size_t len = strlen(yaml);
	struct lg_complaint c = { 0 };

	(void)state;
	file_write("a.txt", "10.0.0.0/8\n");
	file_write("b.txt", "\n#--- rules 3\n10.1.0.0/16"); /* looks like our own marks */
	rules = parse(yaml);
	assert_int_equal(lg_rules_pack(rules, &text, &len), 0);
	file_write("a.txt", "nonsense");
	file_write("b.txt", "nonsense");
	if (lg_rules_parse(text, len, "/elsewhere/rules.last", &again, &c) < 0)
		fail_msg("%s:%u: %s", c.file, c.line, c.text);
	assert_int_equal(again->n_listed, 3);
	for (size_t i = 0; i < again->n_listed; i++)
		assert_memory_equal(&again->listed[i], &rules->listed[i], sizeof(again->listed[i]));
	/* And once more, from what was kept. */
	again = lg_rules_free(again);
	assert_int_equal(lg_rules_parse(text, len, "/elsewhere/rules.last", &again, &c), 0);
	assert_int_equal(lg_rules_pack(again, &text, &len), 0);
	again = lg_rules_free(again);
	assert_int_equal(lg_rules_parse(text, len, "/elsewhere/rules.last", &again, &c), 0);
	assert_int_equal(again->n_listed, 3);
	/* One that was cut short is refused, or has no files: nothing else. */
	for (size_t cut = 1; cut < len - sizeof(yaml); cut++) {
		struct lg_rules *other = NULL;

		assert_true(lg_rules_parse(text, len - cut, "/elsewhere/rules.last", &other, &c) < 0);
	}
	free(text);
}

/* ---- exemptions ---- */

static struct lg_classifier classifier;
static struct lg_ruleset set;
static struct lg_rule_name names[LG_RULES_MAX + 1];
static struct lg_complaint complaint;

static int compile_with(const char *text, const struct lg_exemption *own, size_t n_own)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse(text);
	struct lg_compile_env env = { .now_ns = 1000 * S, .exemptions = own, .n_exemptions = n_own };

	memset(&complaint, 0, sizeof(complaint));
	return lg_rules_compile(rules, &env, &set, &classifier, names, &complaint);
}

static void exemptions_stand_behind_the_rules_and_have_bits_of_their_own(void **state)
{
	struct lg_exemption own = { .name = "own", .is_bounded = true, .match = { .has_protocol = true, .protocol = 17 } };

	(void)state;
	assert_int_equal(compile_with("exempt:\n  - {name: ssh, match: {protocol: tcp, destination_port: 22}}\n"
				      "  - {name: quiet, match: {ethertype: arp}}\n" RULES, &own, 1), 0);
	assert_int_equal(set.n_rules, 1);
	assert_int_equal(set.n_pass, 3);
	assert_int_equal(classifier.n_rules, 4);
	assert_int_equal(set.pass.w[0], 0xe);
	assert_int_equal(set.rules[1].flags, LG_RULE_PASS);
	assert_int_equal(set.rules[2].flags, LG_RULE_PASS | LG_RULE_EXEMPT);
	assert_int_equal(set.rules[3].flags, LG_RULE_PASS | LG_RULE_BOUNDED);
	for (uint32_t i = 1; i < 4; i++)
		assert_int_equal(set.rules[i].special, LG_SPECIAL_PASS);
	assert_int_equal(set.exempt.w[0], 4);
	assert_null(lg_ruleset_find(&set, 0));
}

/* Eight rules may match one packet; how many exemptions do does not matter. */
static void exemptions_do_not_count_among_the_rules_that_a_packet_matches(void **state)
{
	char text[4096] = "exempt:\n";
	size_t n = strlen(text);

	(void)state;
	for (int i = 0; i < 12; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "  - {name: e%d, match: {destination_port: 1-%d}}\n", i, 100 + i);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "rules:\n");
	for (int i = 0; i < LG_MATCHES_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "  - {name: r%d, match: {destination_port: 1-%d}, limit: 1/1s}\n", i,
				      200 + i);
	assert_int_equal(compile_with(text, NULL, 0), 0);
	assert_int_equal(set.n_pass, 12);
	snprintf(text + n, sizeof(text) - n, "  - {name: last, limit: 1/1s}\n");
	assert_int_equal(compile_with(text, NULL, 0), -EINVAL);
	assert_non_null(strstr(complaint.text, "would match 9 rules"));
}

static void rules_and_exemptions_share_one_room(void **state)
{
	_cleanup_free_ char *text = malloc(1 << 16);
	static struct lg_exemption own[2];
	size_t n;

	(void)state;
	assert_non_null(text);
	n = (size_t)sprintf(text, "exempt:\n");
	for (int i = 0; i < LG_RULES_MAX - 2; i++)
		n += (size_t)sprintf(text + n, "  - {name: e%d, match: {destination_port: %d}}\n", i, i + 1);
	sprintf(text + n, RULES);
	own[0].match.has_protocol = own[1].match.has_protocol = true;
	assert_int_equal(compile_with(text, own, 1), 0);
	assert_int_equal(set.n_rules + set.n_pass, LG_RULES_MAX);
	assert_int_equal(compile_with(text, own, 2), -EINVAL);
	assert_non_null(strstr(complaint.text, "256 is the most together"));
}

static void what_is_wrong_with_an_exemption_is_said(void **state)
{
	static const struct {
		const char *exempt;
		const char *says;
	} rows[] = {
		{ "[{name: a, match: {}}]", "match: matches every packet, and nothing would be limited" },
		{ "[{name: a}]", "match is missing" },
		{ "[{match: {protocol: tcp}}]", "name is missing" },
		{ "[{name: a, match: {protocol: tcp}}, {name: a, match: {protocol: udp}}]",
		  "\"a\" is the name of the exemption on line 1 too" },
		{ "[{name: a, match: {protocol: icmp, destination_port: 1}}]", "only tcp, udp and sctp have ports" },
		{ "[{name: a, match: {port: 1}}]", "unknown key \"port\"" },
		{ "[{name: a, match: {protocol: tcp}, limit: 1/1s}]", "unknown key \"limit\"" },
		{ "[tcp]", "an exemption is a mapping" },
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		snprintf(text, sizeof(text), "exempt: %s\n" RULES, rows[i].exempt);
		if (!strstr(refused(text), rows[i].says))
			fail_msg("\"%s\" does not say \"%s\"", refused(text), rows[i].says);
	}
}

/* ---- bans ---- */

#define BAN_RULE "rules:\n  - {name: a, key: {source: 32}, limit: 100/1s, ban: {after: 5, within: 10s, for: 1m}"

static void a_rule_has_its_terms_of_a_ban(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse(
		"rules:\n  - {name: a, key: {source: 32}, limit: 100/1s, ban: {after: 5, within: 10s, for: 1m, max: 1d}}\n"
		"  - {name: b, key: {source: 24}, limit: 100/1s, ban: {after: 1000000, within: 1h, for: 31d}, shadow: true}\n");
	const struct lg_ban_terms *ban = &rules->v[0].ban;

	(void)state;
	assert_int_equal(ban->after, 5);
	assert_int_equal(ban->within_ns, 10 * S);
	assert_int_equal(ban->for_ns, 60 * S);
	assert_int_equal(ban->max_ns, 86400 * S);
	assert_int_equal(rules->v[1].ban.max_ns, 0);
	/* Numbers only: the rule is the same with other ones, and one in shadow mode bans nobody. */
	assert_int_equal(lg_rule_identity(&rules->v[0]),
			 lg_rule_identity(&(struct lg_rule_def){ .match = rules->v[0].match, .key = rules->v[0].key }));
	assert_int_equal(compile_with(BAN_RULE "}\n", NULL, 0), 0);
	assert_int_equal(set.rules[0].special, LG_SPECIAL_BAN);
	assert_int_equal(set.rules[0].ban.after, 5);
	assert_int_equal(compile_with(BAN_RULE ", shadow: true}\n", NULL, 0), 0);
	assert_int_equal(set.rules[0].special, 0);
}

static void what_is_wrong_with_a_ban_is_said(void **state)
{
	static const struct {
		const char *rule;
		const char *says;
	} rows[] = {
		{ "key: {source: 32}, limit: 0/1s, ban: {after: 5, within: 10s, for: 1m}", "ban: a limit of 0 denies everything" },
		{ "limit: 1/1s, ban: {after: 5, within: 10s, for: 1m}", "ban: a rule without a key has one bucket for all" },
		{ "key: {source: 32}, limit: 1/1s, ban: {after: 5, within: 10s}", "ban.for is missing" },
		{ "key: {source: 32}, limit: 1/1s, ban: {after: 0, within: 10s, for: 1m}", "ban.after: " },
		{ "key: {source: 32}, limit: 1/1s, ban: {after: 5, within: 2h, for: 1m}", "ban.within: " },
		{ "key: {source: 32}, limit: 1/1s, ban: {after: 5, within: 10s, for: 1m, max: 59s}",
		  "ban.max: \"59s\" is less than the first ban, \"1m\"" },
	};
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		snprintf(text, sizeof(text), "rules: [{name: a, %s}]\n", rows[i].rule);
		if (!strstr(refused(text), rows[i].says))
			fail_msg("\"%s\" does not say \"%s\"", refused(text), rows[i].says);
	}
}

/* ---- who would be cut off ---- */

static struct lg_peer peer_of(const char *peer, const char *local)
{
	struct lg_peer p = { .peer_port = 50000, .local_port = 22, .interface = "eth0" };
	struct lg_complaint c;
	uint8_t family, len;

	assert_int_equal(lg_prefix_parse(peer, p.peer, &family, &len, &c), 0);
	assert_int_equal(lg_prefix_parse(local, p.local, &family, &len, &c), 0);
	return p;
}

static void a_session_is_cut_off_by_what_stops_a_shell(void **state)
{
	static const struct {
		const char *text;
		const char *rule; /* NULL: nobody is; "": a list does */
	} rows[] = {
		{ "rules: [{name: r, limit: 0/1s}]\n", "r" },
		{ "rules: [{name: r, limit: 0/1s, shadow: true}]\n", NULL },
		{ "rules: [{name: r, limit: 0/1s, match: {protocol: udp}}]\n", NULL },
		{ "rules: [{name: r, limit: 10/1s}]\n", NULL },
		{ "rules: [{name: r, limit: 9/1s}]\n", "r" },
		{ "rules: [{name: r, limit: 600/1m}]\n", NULL },
		{ "rules: [{name: r, limit: 599/1m}]\n", "r" },
		{ "rules: [{name: r, limit: 100/1s, cost: 11}]\n", "r" },
		{ "rules: [{name: r, unit: bytes, limit: 1500B/1s}]\n", NULL },
		{ "rules: [{name: r, unit: bytes, limit: 1499B/1s}]\n", "r" },
		/* First packets may be few, but not none. */
		{ "rules: [{name: r, limit: 1/1s, match: {protocol: tcp, tcp_flags: 'syn,!ack'}}]\n", NULL },
		{ "rules: [{name: r, limit: 0/1s, match: {protocol: tcp, tcp_flags: 'syn,!ack'}}]\n", "r" },
		/* Both ways, each by its own addresses and ports. */
		{ "rules: [{name: r, limit: 0/1s, match: {destination_port: 22}}]\n", "r" },
		{ "rules: [{name: r, limit: 0/1s, match: {destination_port: 23}}]\n", NULL },
		{ "rules: [{name: r, limit: 0/1s, match: {source_port: 22}}]\n", "r" },
		{ "rules: [{name: r, limit: 0/1s, match: {source_port: 22, direction: ingress}}]\n", NULL },
		{ "rules: [{name: r, limit: 0/1s, match: {source: 203.0.113.5}}]\n", "r" },
		{ "rules: [{name: r, limit: 0/1s, match: {source: 203.0.113.4}}]\n", NULL },
		{ "rules: [{name: r, limit: 0/1s, match: {source: '::/0'}}]\n", NULL },
		{ "rules: [{name: r, limit: 0/1s, match: {interface: eth0}}]\n", "r" },
		{ "rules: [{name: r, limit: 0/1s, match: {interface: eth1}}]\n", NULL },
		/* Exempt, or allowed. */
		{ "exempt: [{name: e, match: {protocol: tcp, source: 203.0.113.0/24}}, "
		  "{name: f, match: {protocol: tcp, destination: 203.0.113.0/24}}]\n"
		  "rules: [{name: r, limit: 0/1s}]\n", NULL },
		{ "exempt: [{name: e, match: {protocol: udp}}]\nrules: [{name: r, limit: 0/1s}]\n", "r" },
		{ "lists: {allow: [203.0.113.0/24]}\nrules: [{name: r, limit: 0/1s}]\n", NULL },
		{ "lists: {deny: [203.0.113.0/24]}\nrules: []\n", "" },
		{ "lists: {deny: [203.0.113.0/24], allow: [203.0.113.5]}\nrules: []\n", NULL },
		{ "lists: {allow: [203.0.113.0/24], deny: [203.0.113.5]}\nrules: []\n", "" },
		{ "lists: {deny: [203.0.113.4, '::/0']}\nrules: []\n", NULL },
		{ "exempt: [{name: e, match: {protocol: tcp}}]\nlists: {deny: [0.0.0.0/0]}\nrules: []\n", NULL },
	};
	struct lg_peer peers[2] = { peer_of("198.18.0.1", "192.0.2.1"), peer_of("203.0.113.5", "192.0.2.1") };
	struct lg_lockout found;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].text);
		int r;

		assert_int_equal(compile_with(rows[i].text, NULL, 0), 0);
		r = lg_lockout_find(&set, &classifier, rules->listed, rules->n_listed, true, &peers[1], 1, &found);
		if (r != (rows[i].rule != NULL))
			fail_msg("%s: %d", rows[i].text, r);
		if (r) {
			assert_ptr_equal(found.peer, &peers[1]);
			assert_int_equal(found.listed != NULL, !rows[i].rule[0]);
			assert_string_equal(found.listed ? "" : names[found.rule_id].name, rows[i].rule);
		}
	}
	/* What goes out is not looked at where nothing is attached. */
	assert_int_equal(compile_with("rules: [{name: r, limit: 0/1s, match: {source_port: 22}}]\n", NULL, 0), 0);
	assert_int_equal(lg_lockout_find(&set, &classifier, NULL, 0, false, peers, 2, &found), 0);
	assert_int_equal(lg_lockout_find(&set, &classifier, NULL, 0, true, peers, 2, &found), 1);
	assert_true(found.is_egress);
	/* IPv6 likewise. */
	peers[0] = peer_of("2001:db8::5", "2001:db8::1");
	assert_int_equal(compile_with("rules: [{name: r, limit: 0/1s, match: {source: 2001:db8::/64}}]\n", NULL, 0), 0);
	assert_int_equal(lg_lockout_find(&set, &classifier, NULL, 0, false, peers, 2, &found), 1);
	assert_ptr_equal(found.peer, &peers[0]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read_from_the_rules_file_and_from_files_beside_it),
		cmocka_unit_test(what_is_wrong_with_a_list_is_said_with_file_and_line),
		cmocka_unit_test(lists_have_a_hundred_thousand_prefixes_and_not_one_more),
		cmocka_unit_test(rules_that_are_kept_have_the_lists_as_they_were_read),
		cmocka_unit_test(exemptions_stand_behind_the_rules_and_have_bits_of_their_own),
		cmocka_unit_test(exemptions_do_not_count_among_the_rules_that_a_packet_matches),
		cmocka_unit_test(rules_and_exemptions_share_one_room),
		cmocka_unit_test(what_is_wrong_with_an_exemption_is_said),
		cmocka_unit_test(a_rule_has_its_terms_of_a_ban),
		cmocka_unit_test(what_is_wrong_with_a_ban_is_said),
		cmocka_unit_test(a_session_is_cut_off_by_what_stops_a_shell),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
