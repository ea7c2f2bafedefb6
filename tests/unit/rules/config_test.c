// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rules/fields.h"

#define NODE "rules: r.yaml\ninterfaces: []\n"
#define LIST                                                                                               \
	"regions: {version: 7, list: [{name: eu, address: 192.0.2.1:7400, hosts: 4}, {name: us, address: " \
	"us.example:7400, hosts: 2}]}\n"
#define NAME_RULE ": write A-Z, a-z, 0-9, ., _ and -, after a first letter or digit"

/* Every key of a node and of a region server, none with its default. */
static const char full_node[] = "instance: edge-2\n"
				"name: host-7.example\n"
				"region: us\n"
				"regions:\n"
				"  version: 12\n"
				"  rtt: 80ms\n"
				"  list:\n"
				"    - name: eu\n"
				"      address: 192.0.2.1:7400\n"
				"      hosts: 4\n"
				"    - {name: us, address: \"[2001:db8::1]:7401\", hosts: 4096}\n"
				"upstream: 127.0.0.1:7500\n"
				"tls: {ca: pki/ca.pem, certificate: /pki/c.pem, key: k.pem}\n"
				"secret_file: fleet.secret\n"
				"metrics: off\n"
				"rules: rules/edge.yaml\n"
				"rules_from: region\n"
				"labels: {site: a7}\n"
				"ssh_port: 2222\n"
				"state_dir: /srv/lg\n"
				"run_dir: run\n"
				"max_keys: 1000000\n"
				"line_keys: 0\n"
				"log_keys: 1000\n"
				"max_rules: 256\n"
				"max_connections: 1000\n"
				"connection_timeouts: {handshake: 10s, closing: 2m, established: 1d, datagram: 1m}\n"
				"unparsable: drop\n"
				"nat64: \"64:ff9b::/96\"\n"
				"interfaces:\n"
				"  - {name: eth0, xdp: native, tc: off}\n"
				"  - name: eth1\n"
				"  - {name: eth2, xdp: generic, tc_egress: on}\n"
				"  - {name: \"veth*\", xdp: auto, require_native: true}\n"
				"  - {name: eth3, wait: true, xdp: native, attach: shared}\n"
				"test:\n"
				"  dial_via: {eu: 127.0.0.1:7600}\n";
static const char full_region[] = "instance: edge-2\n"
				  "region: us\n"
				  "regions:\n"
				  "  version: 12\n"
				  "  rtt: 1s\n"
				  "  list:\n"
				  "    - {name: us, address: us.example:7401, hosts: 9, draining: false}\n"
				  "listen: 0.0.0.0:7401\n"
				  "advertise: 192.0.2.9:7401\n"
				  "tls: {ca: a, certificate: b, key: c}\n"
				  "secret_file: /s\n"
				  "metrics: 127.0.0.1:9000\n"
				  "rules: /etc/rules.yaml\n"
				  "rules_from: region\n"
				  "state_dir: state\n"
				  "run_dir: /run/lg\n"
				  "store: etcd\n"
				  "etcd: {endpoints: [10.0.0.1:2379, \"[::1]:2379\"], prefix: /lg, user: me, password_file: pw, tls: on}\n"
				  "journal: {size: 2GiB, fsync: second}\n"
				  "test: {dial_via: {us: \"[::1]:7600\"}}\n";

static void parse(const char *text, enum lg_config_role role, struct lg_config *ret)
{
	struct lg_complaint c = { 0 };

	if (lg_config_parse(text, strlen(text), "/etc/leasegate/c.yaml", role, ret, &c) < 0)
		fail_msg("%s:%u:%u: %s\n%s", c.file, c.line, c.col, c.text, text);
}

static const char *refused(const char *text, enum lg_config_role role)
{
	static struct lg_config config, untouched;
	struct lg_complaint c = { 0 };
	static char buf[1024];
	int r;

	memset(&config, 0x5a, sizeof(config));
	untouched = config;
	r = lg_config_parse(text, strlen(text), "c.yaml", role, &config, &c);
	lg_complaint_format(&c, buf, sizeof(buf));
	if (r != -EINVAL)
		fail_msg("not refused (%d): %s", r, text);
	assert_memory_equal(&config, &untouched, sizeof(config));
	assert_null(strchr(buf, '\n'));
	return buf;
}

static void every_key_of_a_node_arrives(void **state)
{
	static const uint8_t nat64[16] = { 0x00, 0x64, 0xff, 0x9b };
	struct lg_config c;

	(void)state;
	parse(full_node, LG_CONFIG_NODE, &c);
	assert_string_equal(c.instance, "edge-2");
	assert_string_equal(c.name, "host-7.example");
	assert_string_equal(c.region, "us");
	assert_int_equal(c.regions_version, 12);
	assert_int_equal(c.far_rtt_ns, 80000000);
	assert_int_equal(c.n_regions, 2);
	assert_string_equal(c.regions[0].name, "eu");
	assert_string_equal(c.regions[0].address, "192.0.2.1:7400");
	assert_int_equal(c.regions[0].hosts, 4);
	assert_string_equal(c.regions[1].address, "[2001:db8::1]:7401");
	assert_int_equal(lg_config_hosts(&c), 4100);
	assert_string_equal(c.upstream, "127.0.0.1:7500");
	assert_string_equal(c.listen, "");
	assert_string_equal(c.tls.ca, "/etc/leasegate/pki/ca.pem");
	assert_string_equal(c.tls.certificate, "/pki/c.pem");
	assert_string_equal(c.tls.key, "/etc/leasegate/k.pem");
	assert_string_equal(c.secret_file, "/etc/leasegate/fleet.secret");
	assert_string_equal(c.metrics, "off");
	assert_string_equal(c.rules, "/etc/leasegate/rules/edge.yaml");
	assert_string_equal(c.state_dir, "/srv/lg");
	assert_string_equal(c.run_dir, "/etc/leasegate/run");
	assert_int_equal(c.max_keys, 1000000);
	assert_int_equal(c.line_keys, 0);
	assert_int_equal(c.log_keys, 1000);
	assert_int_equal(c.max_rules, 256);
	assert_int_equal(c.max_conns, 1000);
	assert_int_equal(c.conn_terms.handshake_ns, 10000000000);
	assert_int_equal(c.conn_terms.closing_ns, 120000000000);
	assert_int_equal(c.conn_terms.established_ns, 86400000000000);
	assert_int_equal(c.conn_terms.datagram_ns, 60000000000);
	assert_true(c.unparsable_drop);
	assert_memory_equal(c.nat64, nat64, sizeof(nat64));
	assert_int_equal(c.n_interfaces, 5);
	assert_string_equal(c.interfaces[0].name, "eth0");
	assert_int_equal(c.interfaces[0].xdp, LG_XDP_NATIVE);
	assert_false(c.interfaces[0].tc);
	assert_int_equal(c.interfaces[1].xdp, LG_XDP_OFF);
	assert_true(c.interfaces[1].tc);
	assert_int_equal(c.interfaces[2].xdp, LG_XDP_GENERIC);
	assert_false(c.interfaces[2].tc);
	assert_true(c.interfaces[2].tc_egress);
	assert_false(c.interfaces[1].tc_egress);
	assert_false(c.interfaces[2].is_pattern || c.interfaces[2].wait || c.interfaces[2].require_native);
	assert_string_equal(c.interfaces[3].name, "veth*");
	assert_true(c.interfaces[3].is_pattern && c.interfaces[3].wait && c.interfaces[3].require_native);
	assert_int_equal(c.interfaces[3].xdp, LG_XDP_AUTO);
	assert_false(c.interfaces[3].tc);
	assert_true(c.interfaces[4].wait && !c.interfaces[4].is_pattern && c.interfaces[4].shared && !c.interfaces[3].shared);
	assert_int_equal(c.n_dial_via, 1);
	assert_string_equal(lg_config_dial(&c, "eu"), "127.0.0.1:7600");
	assert_string_equal(lg_config_dial(&c, "us"), "[2001:db8::1]:7401");
	assert_null(lg_config_dial(&c, "ap"));
}

/* A name has its entry wherever it stands, of patterns the first one that fits. */
static void an_interface_belongs_to_its_name_or_to_the_first_pattern_that_fits(void **state)
{
	static const struct {
		const char *ifname;
		int entry; /* -1: none */
	} rows[] = {
		{ "veth7", 3 }, { "veth8", 0 }, { "veth12", 2 }, { "veth", 2 }, { "vet", -1 }, { "cali0a", 1 },
		{ "cali0g", -1 }, { "cali0ab", -1 }, { "eth0", 4 }, { "eth00", 5 }, { "eth", -1 }, { "lo", -1 },
	};
	struct lg_config c;

	(void)state;
	parse("rules: r\ninterfaces: [{name: \"veth?\"}, {name: \"cali0[0-9a-f]\"}, {name: \"veth*\", xdp: native}, {name: veth7}, "
	      "{name: eth0, xdp: native}, {name: \"eth?*\"}]\n",
	      LG_CONFIG_NODE, &c);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_ptr_equal(lg_config_interface(&c, rows[i].ifname), rows[i].entry < 0 ? NULL : &c.interfaces[rows[i].entry]);
}

static void every_key_of_a_region_server_arrives(void **state)
{
	struct lg_config c;

	(void)state;
	parse(full_region, LG_CONFIG_REGION, &c);
	assert_string_equal(c.region, "us");
	assert_string_equal(c.listen, "0.0.0.0:7401");
	assert_string_equal(c.upstream, "");
	assert_string_equal(c.metrics, "127.0.0.1:9000");
	assert_string_equal(c.rules, "/etc/rules.yaml");
	assert_string_equal(c.state_dir, "/etc/leasegate/state");
	assert_string_equal(c.run_dir, "/run/lg");
	assert_string_equal(c.store, "etcd");
	assert_int_equal(c.etcd.n_endpoints, 2);
	assert_string_equal(c.etcd.endpoints[0], "10.0.0.1:2379");
	assert_string_equal(c.etcd.endpoints[1], "[::1]:2379");
	assert_string_equal(c.etcd.prefix, "/lg");
	assert_string_equal(c.etcd.user, "me");
	assert_string_equal(c.etcd.password_file, "/etc/leasegate/pw");
	assert_true(c.etcd.tls);
	assert_int_equal(c.journal_bytes, 2ull << 30);
	assert_true(c.journal_sync);
	assert_string_equal(lg_config_dial(&c, "us"), "[::1]:7600");
}

static void what_is_not_written_has_the_documented_default(void **state)
{
	struct lg_config c;
	char host[256];

	(void)state;
	assert_int_equal(gethostname(host, sizeof(host)), 0);
	parse(NODE, LG_CONFIG_NODE, &c);
	assert_string_equal(c.instance, "default");
	assert_string_equal(c.name, host);
	assert_string_equal(c.region, "");
	assert_int_equal(c.n_regions, 0);
	assert_string_equal(c.upstream, "");
	assert_string_equal(c.tls.ca, "");
	assert_string_equal(c.metrics, "127.0.0.1:9464");
	assert_string_equal(c.rules, "/etc/leasegate/r.yaml");
	assert_string_equal(c.state_dir, "/var/lib/leasegate/default");
	assert_string_equal(c.run_dir, "/run/leasegate/default");
	assert_int_equal(c.max_keys, LG_KEYS_DEFAULT);
	assert_int_equal(c.line_keys, LG_LINE_KEYS_DEFAULT);
	assert_int_equal(c.log_keys, LG_LOGS_DEFAULT);
	assert_int_equal(c.max_rules, LG_RULES_DEFAULT);
	assert_int_equal(c.max_conns, LG_CONNS_DEFAULT);
	assert_int_equal(c.conn_terms.handshake_ns, 5000000000);
	assert_int_equal(c.conn_terms.closing_ns, 60000000000);
	assert_int_equal(c.conn_terms.established_ns, 432000000000000);
	assert_int_equal(c.conn_terms.datagram_ns, 30000000000);
	assert_false(c.unparsable_drop);
	assert_int_equal(c.nat64[0] | c.nat64[1], 0);
	assert_int_equal(c.n_interfaces, 0);

	parse(NODE "region: us\n" LIST, LG_CONFIG_NODE, &c);
	assert_string_equal(c.upstream, "us.example:7400");

	parse("instance: x\nrules: r.yaml\nregion: eu\n" LIST, LG_CONFIG_REGION, &c);
	assert_string_equal(c.listen, "192.0.2.1:7400");
	assert_string_equal(c.metrics, "127.0.0.1:9465");
	assert_string_equal(c.store, "sqlite");
	assert_int_equal(c.journal_bytes, 64ull << 20);
	assert_false(c.journal_sync);
	assert_string_equal(c.state_dir, "/var/lib/leasegate/x");
	assert_string_equal(c.run_dir, "/run/leasegate/x");
	assert_string_equal(c.name, "");

	parse("rules: r.yaml\nregion: eu\njournal: {size: off}\n" LIST, LG_CONFIG_REGION, &c);
	assert_int_equal(c.journal_bytes, 0);
	parse("rules: r.yaml\nregion: eu\njournal: {size: 1MiB}\n" LIST, LG_CONFIG_REGION, &c);
	assert_int_equal(c.journal_bytes, 1 << 20);
}

static void a_file_without_a_folder_keeps_relative_paths(void **state)
{
	struct lg_complaint complaint = { 0 };
	struct lg_config c;

	(void)state;
	assert_int_equal(lg_config_parse(NODE, strlen(NODE), "c.yaml", LG_CONFIG_NODE, &c, &complaint), 0);
	assert_string_equal(c.rules, "r.yaml");
}

static void what_cannot_work_is_refused_at_its_place(void **state)
{
	static const struct {
		const char *text;
		enum lg_config_role role;
		const char *why;
	} rows[] = {
		{ "", LG_CONFIG_NODE,
		  "c.yaml: nothing is written here: a configuration names at least `rules`, and for a node "
		  "`interfaces`" },
		{ "interfaces: []\n", LG_CONFIG_NODE, "c.yaml:1:1: rules is missing: write a path" },
		{ "rules: r\n", LG_CONFIG_NODE,
		  "c.yaml:1:1: interfaces is missing: list where to enforce, or write `interfaces: []`" },
		{ "rules: r\nregions: 5\n", LG_CONFIG_REGION,
		  "c.yaml:2:10: regions: expected a mapping of keys to values, not a single "
		  "value" },
		{ "rules: r\n", LG_CONFIG_REGION,
		  "c.yaml:1:1: region is missing: name the region that this server serves" },
		/* keys of the other daemon */
		{ NODE "listen: a:1\n", LG_CONFIG_NODE,
		  "c.yaml:3:1: \"listen\" is a key of region servers, and this file is read by a node" },
		{ NODE "store: memory\n", LG_CONFIG_NODE,
		  "c.yaml:3:1: \"store\" is a key of region servers, and this file is read by a node" },
		{ "rules: r\nupstream: a:1\n", LG_CONFIG_REGION,
		  "c.yaml:2:1: \"upstream\" is a key of nodes, and this file is read by a region server" },
		{ "rules: r\ninterfaces: []\n", LG_CONFIG_REGION,
		  "c.yaml:2:1: \"interfaces\" is a key of nodes, and this file is read by a region server" },
		{ "rules: r\nmax_keys: 100\n", LG_CONFIG_REGION,
		  "c.yaml:2:1: \"max_keys\" is a key of nodes, and this file is read by a region server" },
		{ "rules: r\nunparsable: drop\n", LG_CONFIG_REGION,
		  "c.yaml:2:1: \"unparsable\" is a key of nodes, and this file is read by a region server" },
		{ "rules: r\nname: x\n", LG_CONFIG_REGION,
		  "c.yaml:2:1: \"name\" is a key of nodes, and this file is read by a region server" },
		/* regions */
		{ NODE LIST, LG_CONFIG_NODE,
		  "c.yaml:3:10: regions: needs `region`: say which of them this host is in" },
		{ NODE "region: eu\n", LG_CONFIG_NODE,
		  "c.yaml:3:9: region: needs `regions`: list all regions, this one among them" },
		{ NODE "upstream: a:1\n", LG_CONFIG_NODE,
		  "c.yaml:3:11: upstream: needs `region` and `regions`: leases are asked for by region" },
		{ NODE "region: ap\n" LIST, LG_CONFIG_NODE,
		  "c.yaml:3:9: region: \"ap\" is not in the list of regions" },
		{ NODE "region: eu\nregions: {list: [{name: eu, address: a:1, hosts: 1}]}\n", LG_CONFIG_NODE,
		  "c.yaml:4:10: regions.version is missing: write a whole number" },
		{ NODE "region: eu\nregions: {version: 0, list: [{name: eu, address: a:1, hosts: 1}]}\n",
		  LG_CONFIG_NODE, "c.yaml:4:20: regions.version: \"0\" is below the minimum, 1" },
		{ NODE "region: eu\nregions: {version: 1, rtt: 999us, list: [{name: eu, address: a:1, hosts: 1}]}\n", LG_CONFIG_NODE,
		  "c.yaml:4:28: regions.rtt: \"999us\" is shorter than the shortest, 1ms" },
		{ NODE "region: eu\nregions: {version: 1, rtt: 11s, list: [{name: eu, address: a:1, hosts: 1}]}\n", LG_CONFIG_NODE,
		  "c.yaml:4:28: regions.rtt: \"11s\" is longer than the longest, 10s" },
		{ NODE "region: eu\nregions: {version: 1}\n", LG_CONFIG_NODE,
		  "c.yaml:4:10: regions.list is missing: write a list" },
		{ NODE "region: eu\nregions: {version: 1, list: []}\n", LG_CONFIG_NODE,
		  "c.yaml:4:29: regions.list: has 0 items, but 1 to 64 are possible" },
		{ NODE "region: eu\nregions: {version: 1, list: [eu]}\n", LG_CONFIG_NODE,
		  "c.yaml:4:30: an item of this list is a mapping, beginning with `- name:`" },
		{ NODE "region: eu\nregions: {version: 1, list: [{name: eu, address: a:1}]}\n", LG_CONFIG_NODE,
		  "c.yaml:4:30: hosts is missing: write a whole number" },
		{ NODE "region: eu\nregions: {version: 1, list: [{name: eu, hosts: 5}]}\n", LG_CONFIG_NODE,
		  "c.yaml:4:30: address is missing: write an address such as 192.0.2.1:7400" },
		{ NODE "region: eu\nregions: {version: 1, list: [{name: eu, address: a:1, hosts: 0}]}\n",
		  LG_CONFIG_NODE, "c.yaml:4:62: hosts: \"0\" is below the minimum, 1" },
		{ NODE "region: eu\nregions: {version: 1, list: [{name: eu, address: a:1, hosts: 4097}]}\n",
		  LG_CONFIG_NODE, "c.yaml:4:62: hosts: \"4097\" is above the maximum, 4096" },
		{ NODE "region: eu\nregions:\n  version: 1\n  list:\n    - {name: eu, address: a:1, hosts: 1}\n    - "
		       "{name: eu, address: "
		       "a:2, hosts: 1}\n",
		  LG_CONFIG_NODE, "c.yaml:8:14: name: region \"eu\" is listed twice" },
		{ NODE "region: eu\nregions:\n  version: 1\n  list:\n    - {name: eu, address: a:1, hosts: 1}\n    - "
		       "{name: us, address: "
		       "a:1, hosts: 1}\n",
		  LG_CONFIG_NODE, "c.yaml:8:27: address: region \"eu\" has this address too" },
		{ NODE "region: eu\n" LIST "test: {dial_via: {ap: a:1}}\n", LG_CONFIG_NODE,
		  "c.yaml:5:19: test.dial_via: \"ap\" is not in the list of regions" },
		{ NODE "region: eu\n" LIST "test: {dial_via: {us: [a]}}\n", LG_CONFIG_NODE,
		  "c.yaml:5:23: test.dial_via: expected an address such as 192.0.2.1:7400" },
		{ NODE "region: eu\n" LIST "test: {dial_via: {us: nowhere}}\n", LG_CONFIG_NODE,
		  "c.yaml:5:23: test.dial_via: \"nowhere\" is not host:port with a port of 1 to 65535" },
		{ NODE "test: {dial_via: {us: a:1}}\n", LG_CONFIG_NODE,
		  "c.yaml:3:19: test.dial_via: \"us\" is not in the list of regions" },
		/* addresses */
		{ NODE "metrics: 9464\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"9464\" is not host:port with a port of 1 to 65535" },
		{ NODE "metrics: \":9464\"\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \":9464\" is not host:port with a port of 1 to 65535" },
		{ NODE "metrics: localhost:0\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"localhost:0\" is not host:port with a port of 1 to 65535" },
		{ NODE "metrics: localhost:65536\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"localhost:65536\" is not host:port with a port of 1 to 65535" },
		{ NODE "metrics: \"::1:9464\"\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"::1:9464\": put the IPv6 address in brackets, as in [2001:db8::1]:7400" },
		{ NODE "metrics: \"[]:9464\"\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"[]:9464\" is not host:port: the host is a name or an address" },
		{ NODE "metrics: http://a:1\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"http://a:1\": put the IPv6 address in brackets, as in [2001:db8::1]:7400" },
		{ NODE "metrics: a/b:1\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"a/b:1\" is not host:port: the host is a name or an address" },
		{ NODE "metrics: no\n", LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"no\" is not host:port with a port of 1 to 65535" },
		{ NODE "metrics: "
		       "a123456789b123456789c123456789d123456789e123456789f123456789g123456789h123456789i123456789j1234"
		       "56789k123456789"
		       "l123456789mno:7400\n",
		  LG_CONFIG_NODE,
		  "c.yaml:3:10: metrics: \"a123456789b123456789c123456789d123456789e1234567...\" is longer than 127 "
		  "characters" },
		/* names, numbers, words, paths */
		{ NODE "instance: Edge\n", LG_CONFIG_NODE,
		  "c.yaml:3:11: instance: \"Edge\" is no name: write a-z, 0-9, _ and -, after a first letter or "
		  "digit" },
		{ NODE "instance: ../x\n", LG_CONFIG_NODE,
		  "c.yaml:3:11: instance: \"../x\" is no name: write a-z, 0-9, _ and -, after a first letter or "
		  "digit" },
		{ NODE "instance: _x\n", LG_CONFIG_NODE,
		  "c.yaml:3:11: instance: \"_x\" is no name: write a-z, 0-9, _ and -, after a first letter or digit" },
		{ NODE "name: a b\n", LG_CONFIG_NODE, "c.yaml:3:7: name: \"a b\" is no name" NAME_RULE },
		{ NODE "max_keys: 15\n", LG_CONFIG_NODE, "c.yaml:3:11: max_keys: \"15\" is below the minimum, 16" },
		{ NODE "max_rules: 257\n", LG_CONFIG_NODE, "c.yaml:3:12: max_rules: \"257\" is above the maximum, 256" },
		{ NODE "max_keys: 16777217\n", LG_CONFIG_NODE,
		  "c.yaml:3:11: max_keys: \"16777217\" is above the maximum, 16777216" },
		{ NODE "line_keys: 134217729\n", LG_CONFIG_NODE,
		  "c.yaml:3:12: line_keys: \"134217729\" is above the maximum, 134217728" },
		{ NODE "nat64: \"64:ff9b::/64\"\n", LG_CONFIG_NODE,
		  "c.yaml:3:8: nat64: only a /96 of IPv6 is supported, such as 64:ff9b::/96" },
		{ NODE "nat64: 10.0.0.0/8\n", LG_CONFIG_NODE,
		  "c.yaml:3:8: nat64: only a /96 of IPv6 is supported, such as 64:ff9b::/96" },
		{ NODE "nat64: \"64:ff9b::1/96\"\n", LG_CONFIG_NODE,
		  "c.yaml:3:8: nat64: \"64:ff9b::1/96\" has bits set below its length: write 64:ff9b::/96, or "
		  "64:ff9b::1/128 for the one address" },
		{ NODE "unparsable: deny\n", LG_CONFIG_NODE,
		  "c.yaml:3:13: unparsable: \"deny\" is none of pass, drop" },
		{ "rules: r\nregion: eu\n" LIST "store: paper\n", LG_CONFIG_REGION,
		  "c.yaml:4:8: store: \"paper\" is none of sqlite, memory, etcd" },
		{ "rules: r\nregion: eu\n" LIST "store: etcd\n", LG_CONFIG_REGION,
		  "c.yaml:4:8: store: etcd needs the key `etcd`: name the cluster's endpoints" },
		{ "rules: r\nregion: eu\netcd: {endpoints: [a:1]}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:3:7: etcd: is for `store: etcd`, and store is sqlite" },
		{ "rules: r\nregion: eu\nstore: etcd\netcd: {endpoints: []}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:4:19: etcd.endpoints: has 0 items, but 1 to 16 are possible" },
		{ "rules: r\nregion: eu\nstore: etcd\netcd: {endpoints: [a]}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:4:20: etcd.endpoints: \"a\" is not host:port with a port of 1 to 65535" },
		{ "rules: r\nregion: eu\nstore: etcd\netcd: {endpoints: [a:1], tls: on}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:4:31: etcd.tls: on needs the key `tls`: the certificate to show" },
		{ "rules: r\nregion: eu\nstore: etcd\netcd: {endpoints: [a:1], user: u}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:4:32: etcd.user: needs `password_file`" },
		{ "rules: r\nregion: eu\njournal: {size: 1048575B}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:3:17: journal.size: \"1048575B\" is below the minimum, 1MiB" },
		{ "rules: r\nregion: eu\njournal: {size: 64}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:3:17: journal.size: \"64\" has no unit: write bytes or bits, as in 10MB, 64KiB, 80Mbit" },
		{ "rules: r\nregion: eu\njournal: {fsync: always}\n" LIST, LG_CONFIG_REGION,
		  "c.yaml:3:18: journal.fsync: \"always\" is none of off, second" },
		{ NODE "journal: {size: off}\n", LG_CONFIG_NODE,
		  "c.yaml:3:1: \"journal\" is a key of region servers, and this file is read by a node" },
		{ "rules: ''\ninterfaces: []\n", LG_CONFIG_NODE, "c.yaml:1:8: rules: has no value: write a path" },
		{ NODE "intefaces: []\n", LG_CONFIG_NODE,
		  "c.yaml:3:1: unknown key \"intefaces\": did you mean \"interfaces\"?" },
		{ NODE "state-dir: /x\n", LG_CONFIG_NODE,
		  "c.yaml:3:1: unknown key \"state-dir\": did you mean \"state_dir\"?" },
		{ NODE "tls: {ca: a, key: b}\n", LG_CONFIG_NODE, "c.yaml:3:6: tls.certificate is missing: write a path" },
		{ NODE "quota: {}\n", LG_CONFIG_NODE,
		  "c.yaml:3:1: unknown key \"quota\": known here are instance, name, region, regions, upstream, tls, secret_file, metrics, "
		  "rules, rules_from, labels, ssh_port, state_dir, "
		  "run_dir, max_keys, line_keys, log_keys, max_rules, max_connections, connection_timeouts, "
		  "unparsable, nat64, interfaces, test" },
		/* interfaces */
		{ "rules: r\ninterfaces: [eth0]\n", LG_CONFIG_NODE,
		  "c.yaml:2:14: an item of this list is a mapping, beginning with `- name:`" },
		{ "rules: r\ninterfaces: [{xdp: native}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:14: name is missing: write the name of an interface, or a pattern such as veth*" },
		{ "rules: r\ninterfaces: [{name: \"veth*\", wait: false}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:36: wait: \"veth*\" is a pattern, which any number of interfaces may fit, none too" },
		{ "rules: r\ninterfaces: [{name: eth0, require_native: true}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:43: require_native: needs `xdp: native`, and xdp is off here" },
		{ "rules: r\ninterfaces: [{name: eth0, xdp: generic, require_native: true}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:57: require_native: needs `xdp: native`, and xdp is generic here" },
		{ "rules: r\ninterfaces: [{name: eth0, attach: shared}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:35: attach: is about XDP, and xdp is off here: at tc there is room for all" },
		{ "rules: r\ninterfaces: [{name: \"a b*\"}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:21: name: \"a b*\" cannot be an interface: 1 to 63 characters, no blank, / or :" },
		{ "rules: r\ninterfaces: [{name: eth0, xdp: native, tc: on}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:44: tc: xdp is on as well: both would charge each packet, so choose one" },
		{ "rules: r\ninterfaces: [{name: eth0, tc_egress: yes}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:38: tc_egress: \"yes\" is none of off, on" },
		{ "rules: r\ninterfaces: [{name: eth0, tc: off}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:31: tc: xdp is off as well: nothing would be enforced on \"eth0\", so leave it out" },
		{ "rules: r\ninterfaces: [{name: eth0}, {name: eth1}, {name: eth0}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:49: name: \"eth0\" is listed twice" },
		{ "rules: r\ninterfaces: [{name: abcdefghijklmnop}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:21: name: \"abcdefghijklmnop\" cannot be an interface: 1 to 15 characters, no blank, / or "
		  ":" },
		{ "rules: r\ninterfaces: [{name: ..}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:21: name: \"..\" cannot be an interface: 1 to 15 characters, no blank, / or :" },
		{ "rules: r\ninterfaces: [{name: eth0, xdp: fast}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:32: xdp: \"fast\" is none of off, native, generic, auto" },
		{ "rules: r\ninterfaces: [{name: eth0, tc: yes}]\n", LG_CONFIG_NODE,
		  "c.yaml:2:31: tc: \"yes\" is none of off, on" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++)
		assert_string_equal(refused(rows[i].text, rows[i].role), rows[i].why);
}

static void a_path_too_long_with_its_folder_is_refused(void **state)
{
	char text[512], name[300], path[240];
	struct lg_complaint c = { 0 };
	struct lg_config config;

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	snprintf(text, sizeof(text), "rules: %s\ninterfaces: []\n", path);
	snprintf(name, sizeof(name), "/%.15s/c.yaml", path);
	assert_int_equal(lg_config_parse(text, strlen(text), name, LG_CONFIG_NODE, &config, &c), -EINVAL);
	assert_string_equal(c.text, "rules: longer than 255 bytes with the folder of this file before it");
	snprintf(name, sizeof(name), "/%.14s/c.yaml", path);
	assert_int_equal(lg_config_parse(text, strlen(text), name, LG_CONFIG_NODE, &config, &c), 0);
	assert_int_equal(strlen(config.rules), 255);

	memset(name, 'p', sizeof(name) - 1);
	snprintf(text, sizeof(text), "rules: %.256s\ninterfaces: []\n", name);
	assert_string_equal(refused(text, LG_CONFIG_NODE), "c.yaml:1:8: rules: longer than 255 bytes");
}

/* The keys of the full text, each letter of each changed once. */
static void letters_change(const char *full, size_t size, enum lg_config_role role, bool *seen)
{
	for (const char *p = full; *p; p++) {
		size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");

		/* Keys have a blank or the line's end after the colon; names of regions below dial_via are no keys of ours. */
		if (!len || p[len] != ':' || (p[len + 1] != ' ' && p[len + 1] != '\n') || strncmp(p, "eu: ", 4) == 0 ||
		    strncmp(p, "us: ", 4) == 0 || strncmp(p, "site: ", 6) == 0) {
			p += len ? len - 1 : 0;
			continue;
		}
		for (size_t i = 0; i < len; i++) {
			char text[1024], want[80];

			memcpy(text, full, size);
			text[p - full + (ptrdiff_t)i] = p[i] == 'q' ? 'z' : 'q';
			snprintf(want, sizeof(want), "did you mean \"%.*s\"?", (int)len, p);
			if (!strstr(refused(text, role), want))
				fail_msg("not %s for %.*s", want, (int)len, text + (p - full));
		}
		for (size_t f = 0; f < _LG_CF_N; f++) {
			const char *end = strrchr(lg_config_fields[f].path, '.');

			end = end ? end + 1 : lg_config_fields[f].path;
			seen[f] = seen[f] || (strlen(end) == len && strncmp(end, p, len) == 0);
		}
		p += len;
	}
}

static void each_key_with_one_letter_changed_is_refused_with_a_suggestion(void **state)
{
	bool seen[_LG_CF_N] = { false };

	(void)state;
	letters_change(full_node, sizeof(full_node), LG_CONFIG_NODE, seen);
	letters_change(full_region, sizeof(full_region), LG_CONFIG_REGION, seen);
	for (size_t f = 0; f < _LG_CF_N; f++)
		if (!seen[f])
			fail_msg("%s is in no text of this test", lg_config_fields[f].path);
}

static void any_cut_of_a_file_is_a_configuration_or_one_line(void **state)
{
	struct lg_config config;

	(void)state;
	for (size_t len = 0; len < sizeof(full_node); len++) {
		struct lg_complaint c = { 0 };
		int r = lg_config_parse(full_node, len, "c.yaml", LG_CONFIG_NODE, &config, &c);

		assert_true(r == 0 || (r == -EINVAL && c.text[0] && !strchr(c.text, '\n')));
	}
}

static void files_are_read_or_the_reason_is_given(void **state)
{
	char dir[] = "/tmp/lg-config-test-XXXXXX", path[64], want[80];
	struct lg_complaint c = { 0 };
	struct lg_config config;
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/c.yaml", dir);
	assert_int_equal(lg_config_read(path, LG_CONFIG_NODE, &config, &c), -ENOENT);
	assert_string_equal(c.text, "cannot open it: No such file or directory");
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(NODE, f);
	fclose(f);
	assert_int_equal(lg_config_read(path, LG_CONFIG_NODE, &config, &c), 0);
	snprintf(want, sizeof(want), "%s/r.yaml", dir);
	assert_string_equal(config.rules, want);
	unlink(path);
	rmdir(dir);
}

static void a_list_of_regions_survives_its_text_and_takes_the_place_of_another(void **state)
{
	static const char newer[] = "# a line about it\nregions:\n  version: 9\n  rtt: 80ms\n  list:\n"
				    "    - {name: a, address: \"192.0.2.9:7000\", hosts: 4, draining: true}\n"
				    "    - {name: b, address: \"192.0.2.2:7000\", hosts: 2}\n";
	static const char own[] = "region: a\nrules: r.yaml\nregions: {version: 1, list: [{name: a, address: \"192.0.2.1:7000\", hosts: 1}]}\n";
	static struct lg_config list, again, config;
	struct lg_complaint c = { 0 };
	struct lg_text text = { 0 };

	(void)state;
	assert_int_equal(lg_config_regions_parse(newer, sizeof(newer) - 1, "list", &list, &c), 0);
	assert_int_equal(list.regions_version, 9);
	assert_int_equal(list.far_rtt_ns, 80000000);
	assert_true(list.regions[0].is_draining && !list.regions[1].is_draining);
	lg_config_regions_format(&list, &text);
	assert_int_equal(lg_config_regions_parse(text.s, text.len, "again", &again, &c), 0);
	assert_memory_equal(again.regions, list.regions, sizeof(list.regions));
	assert_true(again.far_rtt_ns == list.far_rtt_ns && again.n_regions == 2);
	lg_text_fini(&text);

	assert_int_equal(lg_config_parse(own, sizeof(own) - 1, "own", LG_CONFIG_REGION, &config, &c), 0);
	assert_string_equal(config.listen, "192.0.2.1:7000");
	assert_int_equal(lg_config_regions_take(&config, &list, &c), 0);
	assert_string_equal(config.listen, "192.0.2.9:7000");
	assert_true(config.regions_version == 9 && config.n_regions == 2 && config.regions[0].is_draining);
	snprintf(config.region, sizeof(config.region), "c");
	assert_int_equal(lg_config_regions_take(&config, &list, &c), -EINVAL);
	assert_non_null(strstr(c.text, "does not have region c"));
}

static void a_text_that_is_no_list_of_regions_is_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "regions: {version: 1, list: [{name: a, address: \"1.2.3.4:5\", hosts: 1, draining: true}]}", "every region is draining" },
		{ "regions: {version: 1, list: [{name: a, address: \"1.2.3.4:5\", hosts: 1}]}\nmetrics: off", "and no other" },
		{ "metrics: off", "and no other" },
		{ "regions: {list: [{name: a, address: \"1.2.3.4:5\", hosts: 1}]}", "version" },
		{ "regions: {version: 1, list: [{name: a, address: \"1.2.3.4:5\", hosts: 1}, {name: a, address: \"1.2.3.4:6\", hosts: 1}]}",
		  "listed twice" },
	};
	static struct lg_config list;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_complaint c = { 0 };

		assert_int_equal(lg_config_regions_parse(rows[i].text, strlen(rows[i].text), "list", &list, &c), -EINVAL);
		assert_non_null(strstr(c.text, rows[i].why));
	}
	assert_int_equal(list.n_regions, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_of_a_node_arrives),
		cmocka_unit_test(an_interface_belongs_to_its_name_or_to_the_first_pattern_that_fits),
		cmocka_unit_test(every_key_of_a_region_server_arrives),
		cmocka_unit_test(a_list_of_regions_survives_its_text_and_takes_the_place_of_another),
		cmocka_unit_test(a_text_that_is_no_list_of_regions_is_refused),
		cmocka_unit_test(what_is_not_written_has_the_documented_default),
		cmocka_unit_test(a_file_without_a_folder_keeps_relative_paths),
		cmocka_unit_test(what_cannot_work_is_refused_at_its_place),
		cmocka_unit_test(a_path_too_long_with_its_folder_is_refused),
		cmocka_unit_test(each_key_with_one_letter_changed_is_refused_with_a_suggestion),
		cmocka_unit_test(any_cut_of_a_file_is_a_configuration_or_one_line),
		cmocka_unit_test(files_are_read_or_the_reason_is_given),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
