/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Rules as a person means them: the model between YAML and the kernel ABI. Made by rules/yaml, read by rules/compile,
 * rules/explain and the lease core's terms.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"
#include "base/mem.h"
#include "leasegate/abi.h"
#include "rules/gate.h"

enum lg_scope { LG_SCOPE_HOST, LG_SCOPE_GLOBAL };
enum lg_rule_class { LG_CLASS_LOCAL, LG_CLASS_LEASE, LG_CLASS_STRICT, LG_CLASS_SYNC };
enum lg_algorithm { LG_TOKEN_BUCKET, LG_FIXED_WINDOW, LG_SLIDING_WINDOW, LG_SLIDING_LOG };
enum lg_unit { LG_UNIT_PACKETS, LG_UNIT_BYTES, LG_UNIT_CONNECTIONS, LG_UNIT_CONCURRENT, LG_UNIT_HALF_OPEN, LG_UNIT_REQUESTS };
enum lg_table_choice { LG_TABLE_CHOICE_EXACT, LG_TABLE_CHOICE_LINES, LG_TABLE_CHOICE_NONE };
enum lg_lease_owner { LG_OWNER_AUTO, LG_OWNER_OFF, LG_OWNER_ON };
enum lg_lease_kind { LG_LEASE_AUTO, LG_LEASE_BLOCK, LG_LEASE_LIMIT };

#define LG_COLD_START_AUTO UINT64_MAX /* not written: by class, limit and hosts */

/* An address prefix; addr is IPv6 or mapped IPv4, bits below the prefix are 0. */
struct lg_prefix {
	uint8_t family;		/* 4 or 6 */
	uint8_t len;		/* as written: 0 .. 32 or 0 .. 128 */
	uint8_t addr[16];
};

/*
 * The prefixes of one end: what a rule says itself, or those of a named set; they belong to struct lg_rules. n 0: any address.
 * An address lies in a prefix if its 128 bits do, IPv4 being ::ffff:0:0/96: so an IPv4 prefix also takes IPv4 addresses that are
 * mapped into IPv6, whatever the family of the packet's header, and an IPv6 prefix takes packets with an IPv6 header alone.
 */
struct lg_prefix_list {
	size_t n;
	const struct lg_prefix *v;	/* sorted, none inside another */
	char set_name[LG_NAME_LEN];	/* "": the rule says it itself */
};

/* Ranges of numbers, sorted, neither touching nor overlapping. */
struct lg_ranges {
	size_t n;
	struct lg_port_range v[LG_PORT_RANGES_MAX];
};

/* Which values of an entry a rule takes: those of the rule itself or of a named set; they belong to struct lg_rules. */
struct lg_entry_match {
	char key[LG_ENTRY_KEY_LEN];
	size_t n;			/* 0: any value */
	char *const *values;		/* sorted, each once; one with `*` is a pattern */
	bool is_one;			/* the rule names one value, and no list or set of it */
	char set_name[LG_NAME_LEN];	/* "": the rule says them itself */
};

/* Which requests a rule takes, and what of them makes its key. */
struct lg_request_match {
	char domain[LG_NAME_LEN];
	bool is_path;			/* a descriptor has these entries, all of them in this order; else it has them among others */
	bool has_packets;		/* packets match the rule, too: by what else its match says */
	size_t n;
	struct lg_entry_match v[LG_RULE_ENTRIES_MAX];	/* sorted by key, but for a path */
	size_t n_texts;
	uint8_t texts[LG_RULE_ENTRIES_MAX];	/* by place in v: whose values make the key, in its order */
	int address;			/* by place in v: whose value is an address and keys as one; -1: none */
};

#define LG_INTERFACE_NAMES_MAX 8 /* interfaces of one match */

/* What a packet must be; all parts must hold, and one that is empty always does. */
struct lg_match {
	bool has_protocol;
	uint8_t protocol;
	struct lg_prefix_list source;
	struct lg_prefix_list destination;
	struct lg_ranges source_ports;	/* packets without ports, later fragments too, are in none */
	struct lg_ranges destination_ports;
	struct {
		bool has;
		uint16_t value;		/* behind the tags; 0: 802.3 with a length */
	} ethertype;			/* frames that are no IP match only rules that have one */
	struct lg_vlans {
		bool untagged;		/* takes frames without this tag */
		struct lg_ranges ids;	/* 0 .. 4095 */
	} vlans, inner_vlans;		/* outer and inner tag; empty: neither untagged nor ids */
	struct {
		uint8_t mask;		/* 0: any; packets without a TCP header have no flags and do not match */
		uint8_t value;
	} tcp_flags;
	struct lg_ranges icmp_types;	/* of type << 8 | code, in the family that the protocol, ICMP or ICMPv6, says */
	uint8_t fragments;		/* bits by enum lg_fragment: 1 none, 2 first, 4 later; 0: any */
	uint8_t directions;		/* 1 ingress, 2 egress; 0: any */
	bool initiated;			/* but for what this host began */
	size_t n_interfaces;
	char interfaces[LG_INTERFACE_NAMES_MAX][16];
	const struct lg_request_match *requests; /* NULL: packets alone. Belongs to struct lg_rules */
};

/* Prefix lengths by family. */
struct lg_key_len {
	uint8_t ipv4;
	uint8_t ipv6;
};

/* What has a bucket of its own. */
struct lg_key_shape {
	uint32_t form;		/* of the rule's keys: enum lg_key_form, LG_FORM_PRODUCT with its parts */
	uint32_t parts;		/* enum lg_key_part; 0: one bucket for the rule */
	struct lg_key_len source;	/* defaults 32 and 64 */
	struct lg_key_len destination;
	uint8_t n_texts;	/* with LG_KEY_TEXTS */
};

struct lg_rule_def {
	char name[LG_NAME_LEN];
	uint32_t line;		/* in the file, for complaints */
	enum lg_scope scope;
	enum lg_rule_class class;
	struct lg_match match;
	struct lg_key_shape key;
	enum lg_unit unit;
	enum lg_algorithm algorithm;
	uint64_t limit_tok;	/* limit_tok per per_ns */
	uint64_t per_ns;	/* 0: at one time (lg_unit_is_count()) */
	uint64_t burst_tok;	/* token_bucket: burst; windows: limit_tok */
	uint64_t cost;		/* tokens for each packet or byte, at least 1 */
	enum lg_on_full on_full;
	enum lg_fallback fallback;
	enum lg_action action;	/* done to packets above the limit */
	uint32_t action_value;	/* mark, priority or DSCP */
	bool shadow;
	struct lg_gate nodes;	/* that have the rule */
	bool evaluate_all;
	bool is_secret;		/* its keys are hashes under a key of the fleet: see rules/secret.h, which fills the next two */
	uint64_t secret_check;	/* two ends with other secrets do not understand each other: part of identity and fingerprint */
	uint64_t secret_key[2];
	struct lg_ban_terms ban;	/* after 0: nobody is banned */
	enum lg_table_choice table;	/* NONE: lines if the rule can be there, else exact */
	uint32_t keys;		/* slots wanted in lines; 0: not written */
	struct {
		enum lg_lease_kind kind;
		enum lg_lease_owner owner;
		uint32_t low_water_permille;		/* 0: not written */
		uint32_t max_outstanding_permille;	/* 0: not written */
		uint32_t rpc_budget_mps;		/* thousandths of a message per second; 0: not written */
		uint64_t cold_start_tok;		/* LG_COLD_START_AUTO: not written */
	} lease;
};

/* A named set, of prefixes or of values of entries. */
struct lg_prefix_set {
	char name[LG_NAME_LEN];
	uint32_t line;
	size_t n;
	struct lg_prefix *v;
	size_t n_values;
	char **values;		/* sorted, each once */
};

/* What passes whatever rules and lists say. */
struct lg_exemption {
	char name[LG_NAME_LEN];
	uint32_t line;
	bool is_bounded;	/* within LG_EXEMPT_PER_S: those that the agent adds itself */
	struct lg_match match;
};

/* A prefix of the allow or the deny list. */
struct lg_listed {
	struct lg_prefix prefix;
	uint8_t verdict;	/* enum lg_list_verdict */
	uint8_t file;		/* 0: it stands in the rules file; else 1 + index in list_files */
	uint32_t line;
};

/* A file that the lists name, as it was read. */
struct lg_list_file {
	char path[256];
	char *text;
	size_t len;
};

/* An owned array of rules, in file order, with the prefixes they point to; and what else the file says. */
struct lg_rules {
	size_t n;
	struct lg_rule_def *v;
	struct lg_prefix *own;	/* two for each rule and each exemption: what source and destination say themselves */
	size_t n_sets;
	struct lg_prefix_set *sets;
	size_t n_exemptions;
	struct lg_exemption *exemptions;
	size_t n_listed;
	struct lg_listed *listed;
	size_t n_list_files;
	struct lg_list_file *list_files;
	size_t n_requests;
	struct lg_request_match **requests;	/* by rule of the file, or NULL where it takes none */
};
struct lg_rules *lg_rules_free(struct lg_rules *rules);
/* Those that are not for this node leave. */
void lg_rules_keep(struct lg_rules *rules, const struct lg_gate_node *node);
LG_CLEANUP(struct lg_rules, lg_rules_free)

/*
 * What makes a rule itself and not another: scope, class kept out; match, key, unit, algorithm in; numbers out. A rule whose
 * fingerprint changes starts anew; one whose limit changes keeps its levels. 64-bit XXH3.
 */
uint64_t lg_rule_identity(const struct lg_rule_def *rule);
/* Of everything two ends of a lease must agree on, numbers included: a lessor refuses keys of another fingerprint. */
uint64_t lg_rule_fingerprint(const struct lg_rule_def *rule);

/*
 * The fallback share: what a host takes by itself of a global rule whose lease is over. Of rules that must not admit more than their limit,
 * whatever fails (strict and sync), the shares of all declared hosts are a tenth of it, which is never leased; of others they are the limit
 * once more.
 */
bool lg_rule_sets_shares_aside(const struct lg_rule_def *rule);
/* All shares together, of a limit or a burst of tok tokens. */
uint64_t lg_rule_shares_tok(const struct lg_rule_def *rule, uint64_t tok);

struct lg_share {
	uint64_t rate_tok;	/* per per_ns */
	uint64_t per_ns;
	uint64_t burst_tok;
};
/* One of `parts` equal ones: regions times hosts of the region. What is set aside is kept by the home's clock: a host's may be a thousandth
 * faster. Of a window no more in any stretch of it, though it was saved up before: half as burst, half as rate. */
void lg_rule_share(const struct lg_rule_def *rule, uint64_t parts, struct lg_share *ret_share);

const char *lg_scope_name(enum lg_scope scope);
const char *lg_class_name(enum lg_rule_class class);
const char *lg_algorithm_name(enum lg_algorithm algorithm);
const char *lg_unit_name(enum lg_unit unit);
const char *lg_on_full_name(enum lg_on_full on_full);
const char *lg_fallback_name(enum lg_fallback fallback);
const char *lg_lease_kind_name(enum lg_lease_kind kind);
const char *lg_lease_owner_name(enum lg_lease_owner owner);

/* Is it about TCP connections? Of these, is it how many there are at one time? */
bool lg_unit_is_connection(enum lg_unit unit);
bool lg_unit_is_count(enum lg_unit unit);
/* What the kernel is to count: enum lg_rule_connection. */
uint8_t lg_unit_connection(enum lg_unit unit);

/* "10000/1m", "80Mbit/1s"... as short as it can be said exactly; "100" with per_ns 0. */
void lg_limit_format(uint64_t limit_tok, uint64_t per_ns, enum lg_unit unit, char *buf, size_t len);

/* The one family that a rule's prefixes leave: 4 or 6; 0: both. */
uint8_t lg_match_family(const struct lg_match *match);

/* Is it for requests alone? */
bool lg_match_is_requests(const struct lg_match *match);
/* Is nothing asked of the packet? */
bool lg_match_is_any(const struct lg_match *match);

/*
 * Does the match name packets that are limited only by rules that name them? By EtherType ARP, by ICMP type those that links and paths
 * live by, by protocol IGMP, by destination nothing but link-local multicast.
 */
bool lg_match_names_exempt(const struct lg_match *match);

/* The parts of a form, and the form of keys that have these parts. */
uint32_t lg_key_parts(uint32_t form);
uint32_t lg_key_form(uint32_t parts);

/* The interface that is part of a key, or 0. */
uint32_t lg_key_ifindex(const struct lg_key *key);

#define LG_KEY_TEXT_LEN 320 /* longest text of a key, with its NUL */

/**
 * lg_key_format() - a key for people
 * @shape:  of its rule, for the lengths of prefixes
 * @wide:   of a hashed key: what was hashed; NULL if that is not known
 * @ifname: of the interface that is part of the key (lg_key_ifindex()); NULL if that is not known: its index is printed
 *
 * "192.0.2.7", "2001:db8::/64" (a prefix shorter than the address has its length); "overflow 17"; "*" for one bucket per rule; of a
 * product its parts, as "source 192.0.2.7, destination_port 53, vlan none"; "hash 0123456789abcdef..." where the parts are not known.
 */
void lg_key_format(const struct lg_key *key, const struct lg_key_shape *shape, const struct lg_wide_key *wide, const char *ifname, char *buf,
		   size_t len);
