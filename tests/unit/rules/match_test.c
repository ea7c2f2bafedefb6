// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a rule matches and is keyed by: read, judged, said in words and compiled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/num.h"
#include "rules/compile.h"
#include "rules/explain.h"
#include "rules/names.h"
#include "rules/yaml.h"

#define SETS                                                                              \
	"sets:\n"                                                                         \
	"  - {name: office, prefixes: [198.51.100.0/24, 192.0.2.0/24, 192.0.2.128/25]}\n" \
	"  - {name: both, prefixes: [\"2001:db8::/32\", 10.0.0.0/8]}\n"                   \
	"  - {name: six, prefixes: [\"2001:db8:1::/48\"]}\n"                              \
	"  - {name: control, prefixes: [224.0.0.0/24, \"ff02::/16\"]}\n"

/* One rule of these keys, or NULL with the complaint. */
static struct lg_rules *read_one(const char *keys, struct lg_complaint *c)
{
	struct lg_rules *rules = NULL;
	char text[2048];

	snprintf(text, sizeof(text), SETS "rules:\n  - {name: a, limit: 1/s, %s}\n", keys);
	return lg_rules_parse(text, strlen(text), "r.yaml", &rules, c) < 0 ? NULL : rules;
}

static struct lg_rules *parse(const char *keys)
{
	struct lg_complaint c = { 0 };
	struct lg_rules *rules = read_one(keys, &c);

	if (!rules)
		fail_msg("%s: %u: %s", keys, c.line, c.text);
	return rules;
}

static void what_is_written_is_said_in_words(void **state)
{
	static const struct {
		const char *keys, *text;
	} rows[] = {
		{ "match: {protocol: tcp, tcp_flags: \"syn,!ack\"}", "TCP packets with flags syn,!ack, one bucket for the whole rule" },
		{ "match: {protocol: tcp, tcp_flags: \"!cwr, ece , fin\"}",
		  "TCP packets with flags fin,ece,!cwr, one bucket for the whole rule" },
		{ "match: {protocol: udp, source_port: [123, 53]}", "UDP packets from port 53 or 123, one bucket for the whole rule" },
		{ "match: {source_port: 53, destination_port: 1024-65535}",
		  "TCP, UDP and SCTP packets from port 53 to port 1024-65535, one bucket for the whole rule" },
		{ "match: {protocol: icmp, icmp_type: [echo-request, 13-16, 3/1]}",
		  "ICMP packets of type host-unreachable, echo-request or 13-16, one bucket for the whole rule" },
		{ "match: {protocol: icmpv6, icmp_type: [2, neighbour-solicitation]}",
		  "ICMPv6 packets of type packet-too-big or neighbour-solicitation, one bucket for the whole rule" },
		{ "match: {fragment: later}", "all IP packets that are later fragments, one bucket for the whole rule" },
		{ "match: {protocol: udp, fragment: [first, none]}",
		  "UDP packets that are not fragmented or first fragments, one bucket for the whole rule" },
		{ "match: {fragment: [first, none, later]}", "all IP packets, one bucket for the whole rule" },
		{ "match: {ethertype: arp}", "ARP frames, one bucket for the whole rule" },
		{ "match: {ethertype: 0x88cc}", "LLDP frames, one bucket for the whole rule" },
		{ "match: {ethertype: llc, vlan: none}", "802.3 frames untagged, one bucket for the whole rule" },
		{ "match: {ethertype: 0x8863}, key: {vlan: true}", "frames of EtherType 0x8863, one bucket per VLAN" },
		{ "match: {ethertype: ipv6}", "all IPv6 packets, one bucket for the whole rule" },
		{ "match: {ethertype: ip, protocol: udp}", "UDP packets in IPv4, one bucket for the whole rule" },
		{ "match: {vlan: [100-199, 7, none], inner_vlan: 4095}",
		  "all IP packets untagged or in VLAN 7 or 100-199 in inner VLAN 4095, one bucket for the whole rule" },
		{ "match: {vlan: 0, inner_vlan: none}", "all IP packets in VLAN 0 without an inner tag, one bucket for the whole rule" },
		{ "match: {direction: ingress, interface: eth0}", "all IP packets coming in on eth0, one bucket for the whole rule" },
		{ "match: {direction: egress, interface: [wg0, eth0]}",
		  "all IP packets going out on eth0 or wg0, one bucket for the whole rule" },
		{ "match: {source_set: office}, key: {source: 32}",
		  "all IP packets from the set office to anywhere, one bucket per source address" },
		{ "match: {destination_set: both}, key: {destination: {ipv4: 24, ipv6: 48}}",
		  "all IP packets from anywhere to the set both, one bucket per IPv4 destination /24 and per IPv6 destination /48" },
		{ "key: {source: 32, destination: 32}",
		  "all IP packets, one bucket per combination of IPv4 source address or IPv6 source /64 and IPv4 destination address or "
		  "IPv6 destination /64" },
		{ "match: {source: 10.0.0.0/8}, key: {source: 24, destination_port: true, vlan: true}",
		  "all IP packets from 10.0.0.0/8 to anywhere, one bucket per combination of source /24, destination port and VLAN" },
		{ "key: {protocol: true}", "all IP packets, one bucket per protocol" },
		{ "match: {direction: egress}, key: {cgroup: true, destination_port: true}",
		  "all IP packets going out, one bucket per combination of destination port and sending control group" },
		{ "key: {interface: true, inner_vlan: true, source_port: true, source: 32, vlan: false}",
		  "all IP packets, one bucket per combination of IPv4 source address or IPv6 source /64, source port, inner VLAN and "
		  "interface" },
	};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].keys);

		lg_rule_match_text(&rules->v[0], text, sizeof(text));
		assert_string_equal(text, rows[i].text);
	}
}

static void what_cannot_be_meant_is_refused(void **state)
{
	static const struct {
		const char *keys, *text;
	} rows[] = {
		{ "match: {tcp_flags: syn}", "match.tcp_flags: belongs to TCP: write protocol: tcp" },
		{ "match: {protocol: udp, tcp_flags: syn}", "match.tcp_flags: belongs to TCP: write protocol: tcp" },
		{ "match: {protocol: tcp, tcp_flags: \"syn,!syn\"}",
		  "match.tcp_flags: \"syn,!syn\" is no list of fin, syn, rst, psh, ack, urg, ece, cwr, each once, with ! before those that "
		  "must not be set" },
		{ "match: {protocol: tcp, tcp_flags: sin}", "match.tcp_flags: \"sin\" is no list of fin, syn, rst, psh, ack, urg, ece, cwr, "
							    "each once, with ! before those that must not be set" },
		{ "match: {icmp_type: 8}", "match.icmp_type: belongs to ICMP: write protocol: icmp, or icmpv6" },
		{ "match: {protocol: tcp, icmp_type: 8}", "match.icmp_type: belongs to ICMP: write protocol: icmp, or icmpv6" },
		{ "match: {protocol: icmp, icmp_type: packet-too-big}",
		  "match.icmp_type: \"packet-too-big\" is no type of ICMP: write a name such as fragmentation-needed, a number, or a number "
		  "with its code such as 3/1" },
		{ "match: {protocol: icmpv6, icmp_type: 256}",
		  "match.icmp_type: \"256\" is no type of ICMPv6: write a name such as packet-too-big, a number, or a number with its code "
		  "such as 3/1" },
		{ "match: {protocol: icmp, source_port: 8}", "match.source_port: only tcp, udp and sctp have ports, but the protocol is icmp" },
		{ "match: {destination_port: 53, fragment: later}",
		  "match.destination_port: later fragments do not have it: no packet is both" },
		{ "match: {protocol: tcp, tcp_flags: syn, fragment: later}",
		  "match.tcp_flags: later fragments do not have it: no packet is both" },
		{ "match: {fragment: middle}", "match.fragment: \"middle\" is none of none, first, later" },
		{ "match: {fragment: []}", "match.fragment: expected a word or a list of words" },
		{ "match: {ethertype: 0x5ff}",
		  "match.ethertype: \"0x5ff\" is none of ip, ipv6, arp, lldp, llc, or a number of 0x600 to 0xffff" },
		{ "match: {ethertype: 0x10000}",
		  "match.ethertype: \"0x10000\" is none of ip, ipv6, arp, lldp, llc, or a number of 0x600 to 0xffff" },
		{ "match: {ethertype: 0x8100}", "match.ethertype: \"0x8100\" is a tag, and this is what stands behind the tags: write vlan" },
		{ "match: {ethertype: arp, source: 10.0.0.0/8}", "match.source: belongs to IP, but the EtherType is arp" },
		{ "match: {ethertype: 0x88cc, fragment: none}", "match.fragment: belongs to IP, but the EtherType is 0x88cc" },
		{ "match: {ethertype: ip, source: \"2001:db8::/32\"}",
		  "match.ethertype: IPv4, but the addresses are IPv6: no packet is both" },
		{ "match: {ethertype: ipv6, protocol: icmp}", "match.protocol: icmp does not occur in IPv6: write icmpv6" },
		{ "match: {vlan: 4096}", "match.vlan: \"4096\" is not a VLAN id of 0 to 4095, a range such as 100-199, or none" },
		{ "match: {vlan: 9-7}", "match.vlan: \"9-7\" runs backwards: write 7-9" },
		{ "match: {vlan: none, inner_vlan: 7}",
		  "match.inner_vlan: an inner tag stands behind an outer one, but vlan is none: no frame is both" },
		{ "match: {direction: out}", "match.direction: \"out\" is none of ingress, egress, initiated-by-peer" },
		{ "match: {interface: a/b}", "match.interface: \"a/b\" cannot be an interface: 1 to 15 characters, no blank, / or :" },
		{ "match: {interface: [eth0, eth0]}", "match.interface: \"eth0\" is listed twice" },
		{ "match: {interface: eth0}, scope: global", "match.interface: belongs to host rules: hosts do not share interfaces" },
		{ "match: {source_set: ofice}", "match.source_set: there is no set \"ofice\": did you mean \"office\"?" },
		{ "match: {source_set: nowhere-near}", "match.source_set: there is no set \"nowhere-near\": list it under `sets`" },
		{ "match: {source_set: office, source: 10.0.0.0/8}", "match.source_set: stands beside a prefix: write one of them" },
		{ "match: {source_set: office, destination_set: six}",
		  "match.destination_set: IPv6, but the source is IPv4: no packet is both" },
		{ "key: {interface: true}, scope: global", "key.interface: belongs to host rules: hosts do not share interfaces" },
		{ "key: {cgroup: true}, scope: global, match: {direction: egress}",
		  "key.cgroup: belongs to host rules: hosts do not share control groups" },
		{ "key: {cgroup: true}", "key.cgroup: the sender is known only of what goes out: write match: {direction: egress}" },
		{ "key: {cgroup: true}, match: {direction: ingress}",
		  "key.cgroup: the sender is known only of what goes out: write match: {direction: egress}" },
		{ "key: {destination_port: true}, match: {protocol: icmp}",
		  "key.destination_port: only tcp, udp and sctp have ports, but the protocol is icmp" },
		{ "key: {source: 32}, match: {ethertype: arp}", "key.source: belongs to IP, but the EtherType is arp" },
		{ "key: {vlan: false}", "key: names no part: write one such as source, or leave key out for one bucket" },
		{ "key: {vlan: 7}", "key.vlan: \"7\" is not true or false" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_complaint c = { 0 };

		if (read_one(rows[i].keys, &c))
			fail_msg("%s was read", rows[i].keys);
		assert_string_equal(c.text, rows[i].text);
		assert_int_equal(c.line, 7);
	}
}

static void sets_that_cannot_be_meant_are_refused(void **state)
{
	static const struct {
		const char *text, *complaint;
		uint32_t line;
	} rows[] = {
		{ "rules: []\nsets:\n  - {name: a}\n", "set \"a\": write prefixes, for packets, or values, for requests: one of them", 3 },
		{ "rules: []\nsets:\n  - {name: a, prefixes: []}\n", "prefixes: has 0 items, but 1 to 16384 are possible", 3 },
		{ "rules: []\nsets:\n  - {name: a, prefixes: [10.0.0.1/8]}\n",
		  "prefixes: \"10.0.0.1/8\" has bits set below its length: write 10.0.0.0/8, or 10.0.0.1/32 for the one address", 3 },
		{ "rules: []\nsets:\n  - {name: a, prefixes: [10.0.0.0/8]}\n  - {name: a, prefixes: [10.0.0.0/8]}\n",
		  "name: \"a\" is the name of the set on line 3 too", 4 },
		{ "rules: []\nsets:\n  - a\n", "a set is a mapping of keys to values, beginning with `- name:`", 3 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_complaint c = { 0 };
		struct lg_rules *rules = NULL;

		assert_true(lg_rules_parse(rows[i].text, strlen(rows[i].text), "r.yaml", &rules, &c) < 0);
		assert_string_equal(c.text, rows[i].complaint);
		assert_int_equal(c.line, rows[i].line);
	}
}

static void the_same_addresses_are_the_same_set(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *a = parse("match: {source_set: office}");
	_cleanup_(lg_rules_free) struct lg_rules *b = parse("match: {source_set: both}");
	_cleanup_(lg_rules_free) struct lg_rules *c = NULL;
	struct lg_complaint complaint = { 0 };
	static const char other[] = "sets: [{name: home, prefixes: [192.0.2.0/24, 198.51.100.0/24, 198.51.100.7]}]\n"
				    "rules:\n  - {name: a, limit: 1/s, match: {source_set: home}}\n";

	(void)state;
	assert_int_equal(lg_rules_parse(other, strlen(other), "r.yaml", &c, &complaint), 0);
	assert_int_equal(a->v[0].match.source.n, 2); /* the /25 lies in a /24 */
	assert_int_equal(a->v[0].match.source.v[0].addr[12], 192);
	assert_int_equal(lg_match_family(&a->v[0].match), 4);
	assert_int_equal(lg_match_family(&b->v[0].match), 0);
	assert_true(lg_rule_identity(&a->v[0]) == lg_rule_identity(&c->v[0]));
	assert_true(lg_rule_identity(&a->v[0]) != lg_rule_identity(&b->v[0]));
}

/* Each of these is another rule than all the others. */
static void all_that_is_matched_or_keyed_makes_the_rule(void **state)
{
	static const char *const keys[] = {
		"shadow: true",
		"match: {protocol: tcp, tcp_flags: syn}",
		"match: {protocol: tcp, tcp_flags: \"!syn\"}",
		"match: {protocol: tcp}",
		"match: {source_port: 53}",
		"match: {destination_port: 53}",
		"match: {fragment: none}",
		"match: {fragment: first}",
		"match: {ethertype: ip}",
		"match: {ethertype: llc}",
		"match: {vlan: none}",
		"match: {vlan: 0}",
		"match: {inner_vlan: none}",
		"match: {inner_vlan: 0}",
		"match: {direction: ingress}",
		"match: {direction: egress}",
		"match: {interface: eth0}",
		"match: {interface: [eth0, eth1]}",
		"match: {protocol: icmp, icmp_type: 8}",
		"match: {protocol: icmp, icmp_type: 8/0}",
		"match: {source_set: office}",
		"match: {destination_set: office}",
		"key: {vlan: true}",
		"key: {inner_vlan: true}",
		"key: {protocol: true}",
		"key: {source_port: true}",
		"key: {destination_port: true}",
		"key: {interface: true}",
		"key: {source: 32, destination: 32}",
		"key: {source: 24, destination: 32}",
		"key: {source: 32, destination: 24}",
		"key: {source: 32}",
		"key: {destination: 32}",
	};
	uint64_t identity[N_ELEMS(keys)], fingerprint[N_ELEMS(keys)];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(keys); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(keys[i]);

		identity[i] = lg_rule_identity(&rules->v[0]);
		fingerprint[i] = lg_rule_fingerprint(&rules->v[0]);
		for (size_t j = 0; j < i; j++)
			if (identity[i] == identity[j] || fingerprint[i] == fingerprint[j])
				fail_msg("%s is taken for %s", keys[i], keys[j]);
	}
}

static void a_rule_names_what_is_exempt_else(void **state)
{
	static const struct {
		const char *keys;
		bool names;
	} rows[] = {
		{ "shadow: true", false },
		{ "match: {protocol: icmp}", false },
		{ "match: {protocol: icmpv6}", false },
		{ "match: {protocol: icmp, icmp_type: fragmentation-needed}", true },
		{ "match: {protocol: icmp, icmp_type: destination-unreachable}", true },
		{ "match: {protocol: icmp, icmp_type: [3/3, 3/5, echo-request]}", false },
		{ "match: {protocol: icmpv6, icmp_type: packet-too-big}", true },
		{ "match: {protocol: icmpv6, icmp_type: [1, 3-129]}", false },
		{ "match: {protocol: icmpv6, icmp_type: 130}", true },
		{ "match: {protocol: icmpv6, icmp_type: 137}", true },
		{ "match: {protocol: icmpv6, icmp_type: [138-142, 144-255]}", false },
		{ "match: {protocol: icmpv6, icmp_type: 143}", true },
		{ "match: {protocol: igmp}", true },
		{ "match: {protocol: 112}", false },
		{ "match: {ethertype: arp}", true },
		{ "match: {ethertype: lldp}", false },
		{ "match: {destination: 224.0.0.0/24}", true },
		{ "match: {destination: 224.0.0.18}", true },
		{ "match: {destination: 224.0.0.0/23}", false },
		{ "match: {destination: 224.0.1.0/24}", false },
		{ "match: {destination: \"ff02::/16\"}", true },
		{ "match: {destination: \"ff02::1:2\"}", true },
		{ "match: {destination: \"ff02::/15\"}", false },
		{ "match: {destination: \"ff05::/16\"}", false },
		{ "match: {destination_set: control}", true },
		{ "match: {source: 224.0.0.0/24}", false },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		_cleanup_(lg_rules_free) struct lg_rules *rules = parse(rows[i].keys);

		if (lg_match_names_exempt(&rules->v[0].match) != rows[i].names)
			fail_msg("%s", rows[i].keys);
	}
}

/* ---- compiled ---- */

static void compile_one(const char *keys, struct lg_ruleset *ret)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	_cleanup_(lg_rules_free) struct lg_rules *rules = parse(keys);
	struct lg_compile_env env = { .now_ns = 1 };
	struct lg_complaint c = { 0 };

	assert_int_equal(lg_rules_compile(rules, &env, ret, NULL, names, &c), 0);
}

static void products_reach_the_kernel_and_come_back(void **state)
{
	static const struct {
		const char *keys;
		uint32_t form, parts;
	} rows[] = {
		{ "shadow: true", LG_FORM_RULE, 0 },
		{ "key: {source: 24}", LG_FORM_SOURCE, LG_KEY_SOURCE },
		{ "key: {destination: 24}", LG_FORM_DESTINATION, LG_KEY_DESTINATION },
		{ "key: {source: 24, destination: 25}", LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_DESTINATION,
		  LG_KEY_SOURCE | LG_KEY_DESTINATION },
		{ "key: {source: 24, vlan: true}", LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_VLAN, LG_KEY_SOURCE | LG_KEY_VLAN },
		{ "key: {source: 24, destination: 25, protocol: true}",
		  LG_FORM_PRODUCT | LG_FORM_HASHED | LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_PROTOCOL,
		  LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_PROTOCOL },
		{ "key: {interface: true}", LG_FORM_PRODUCT | LG_KEY_INTERFACE, LG_KEY_INTERFACE },
		{ "key: {cgroup: true, source: 24, destination: 25}, match: {direction: egress}",
		  LG_FORM_PRODUCT | LG_FORM_HASHED | LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_CGROUP,
		  LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_CGROUP },
	};
	static struct lg_ruleset set;
	struct lg_key_shape shape;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		compile_one(rows[i].keys, &set);
		lg_key_shape_of(&set.rules[0], &shape);
		assert_int_equal(shape.form, rows[i].form);
		assert_int_equal(shape.parts, rows[i].parts);
		if (shape.parts & LG_KEY_SOURCE)
			assert_int_equal(shape.source.ipv4, 24);
		if (shape.parts & LG_KEY_DESTINATION)
			assert_int_equal(shape.destination.ipv4, rows[i].parts == LG_KEY_DESTINATION ? 24 : 25);
		assert_int_equal(set.needs, rows[i].parts & LG_KEY_CGROUP ? LG_NEEDS_CGROUP : 0);
	}
}

static void what_the_kernel_looks_up_is_what_rules_ask_for(void **state)
{
	static struct lg_ruleset set;

	(void)state;
	compile_one("match: {interface: [wg0, eth0]}", &set);
	assert_int_equal(set.needs, LG_NEEDS_INTERFACE);
	assert_string_equal(set.interfaces[0], "");
	assert_string_equal(set.interfaces[1], "eth0");
	assert_string_equal(set.interfaces[2], "wg0");
	assert_string_equal(set.interfaces[3], "");
	compile_one("match: {protocol: igmp}", &set);
	assert_int_equal(set.exempt.w[0], 1);
	compile_one("match: {ethertype: ip}", &set);
	assert_int_equal(set.exempt.w[0], 0);
}

/* ---- keys as text ---- */

static void keys_of_products_print_their_parts(void **state)
{
	const struct lg_key_shape shape = { .source = { 24, 64 }, .destination = { 32, 128 } };
	struct lg_key key = { .form = LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_DESTINATION_PORT | LG_KEY_VLAN | LG_KEY_INNER_VLAN,
			      .a = { [10] = 0xff, 0xff, 192, 0, 2, 0 } };
	const struct lg_key_narrow narrow = { .destination_port = 53, .vlan = 8, .source_port = 9 };
	struct lg_wide_key wide = { .cgroup_id = 4242 };
	char text[LG_KEY_TEXT_LEN];

	(void)state;
	memcpy(key.b, &narrow, sizeof(narrow));
	lg_key_format(&key, &shape, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "source 192.0.2.0/24, destination_port 53, vlan 7, inner_vlan none");
	key.form = LG_FORM_PRODUCT | LG_KEY_SOURCE_PORT;
	lg_key_format(&key, &shape, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "source_port 9");
	key.form = LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_DESTINATION;
	memcpy(key.b, key.a, sizeof(key.b));
	lg_key_format(&key, &shape, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "source 192.0.2.0/24, destination 192.0.2.0");
	key.form = LG_FORM_PRODUCT | LG_FORM_HASHED | LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_CGROUP;
	memset(key.a, 0x5a, sizeof(key.a));
	lg_key_format(&key, &shape, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "hash 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a");
	memcpy(wide.source, key.b, sizeof(wide.source));
	lg_key_format(&key, &shape, &wide, NULL, text, sizeof(text));
	assert_string_equal(text, "source 192.0.2.0/24, destination ::, cgroup 4242");
	key.form = LG_FORM_PRODUCT | LG_KEY_CGROUP | LG_KEY_INTERFACE | LG_KEY_PROTOCOL;
	memset(&key.a, 0, sizeof(key.a));
	key.a[0] = 7;
	memset(&key.b, 0, sizeof(key.b));
	lg_key_format(&key, &shape, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "cgroup 7, protocol 0, interface 0");
}

static void interfaces_of_keys_go_by_name_where_it_is_known(void **state)
{
	const struct lg_key_narrow narrow = { .vlan = 8, .interface = 3 };
	struct lg_key key = { .form = LG_FORM_PRODUCT | LG_KEY_VLAN | LG_KEY_INTERFACE };
	char text[LG_KEY_TEXT_LEN];

	(void)state;
	memcpy(key.b, &narrow, sizeof(narrow));
	assert_int_equal(lg_key_ifindex(&key), 3);
	lg_key_format(&key, &(struct lg_key_shape){ 0 }, NULL, "eth0", text, sizeof(text));
	assert_string_equal(text, "vlan 7, interface eth0");
	lg_key_format(&key, &(struct lg_key_shape){ 0 }, NULL, NULL, text, sizeof(text));
	assert_string_equal(text, "vlan 7, interface 3");
	key.form = LG_FORM_PRODUCT | LG_KEY_VLAN;
	assert_int_equal(lg_key_ifindex(&key), 0);
	lg_key_format(&key, &(struct lg_key_shape){ 0 }, NULL, "eth0", text, sizeof(text));
	assert_string_equal(text, "vlan 7");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_said_in_words),
		cmocka_unit_test(what_cannot_be_meant_is_refused),
		cmocka_unit_test(sets_that_cannot_be_meant_are_refused),
		cmocka_unit_test(the_same_addresses_are_the_same_set),
		cmocka_unit_test(all_that_is_matched_or_keyed_makes_the_rule),
		cmocka_unit_test(a_rule_names_what_is_exempt_else),
		cmocka_unit_test(products_reach_the_kernel_and_come_back),
		cmocka_unit_test(what_the_kernel_looks_up_is_what_rules_ask_for),
		cmocka_unit_test(keys_of_products_print_their_parts),
		cmocka_unit_test(interfaces_of_keys_go_by_name_where_it_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
