// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a rule matches and is keyed by. Each key is read by itself; then it is judged whether any packet can be all of it. */
#include <errno.h>
#include <netinet/in.h>
#include <linux/if_ether.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/names.h"
#include "rules/reader.h"

#define FRAGMENT_LATER 4 /* of lg_match.fragments */
#define DIRECTION_EGRESS 2

bool lg_is_written(const struct lg_reader *r, enum lg_rules_field id)
{
	return r->at[id].node != NULL;
}

const char *lg_text_of(const struct lg_reader *r, enum lg_rules_field id)
{
	return r->at[id].node->text;
}

int lg_reader_complain(struct lg_reader *r, enum lg_rules_field id, const char *fmt, ...)
{
	char why[sizeof(r->c->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return lg_field_complain(&lg_rules_fields[id], r->at[id].node, r->c, "%s", why);
}

/* The first of these keys that is written, or _LG_RF_N. */
static enum lg_rules_field first_written(const struct lg_reader *r, const enum lg_rules_field *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (lg_is_written(r, ids[i]))
			return ids[i];
	return _LG_RF_N;
}

/* ---- addresses ---- */

static const char *set_name(const void *arg, size_t i)
{
	const struct lg_rules *rules = arg;

	return rules->sets[i].name;
}

static int set_use(struct lg_reader *r, enum lg_rules_field id, struct lg_prefix_list *ret)
{
	const char *name = lg_text_of(r, id), *nearest;

	for (size_t i = 0; i < r->rules->n_sets; i++) {
		const struct lg_prefix_set *set = &r->rules->sets[i];

		if (strcmp(set->name, name) != 0)
			continue;
		if (set->values)
			return lg_reader_complain(r, id, "\"%s\" (line %u) is a set of values, not of prefixes", name, set->line);
		ret->n = set->n;
		ret->v = set->v;
		snprintf(ret->set_name, sizeof(ret->set_name), "%s", name);
		return 0;
	}
	nearest = lg_nearest(name, set_name, r->rules, r->rules->n_sets);
	if (nearest)
		return lg_reader_complain(r, id, "there is no set \"%s\": did you mean \"%s\"?", name, nearest);
	return lg_reader_complain(r, id, "there is no set \"%s\": list it under `sets`", name);
}

static int end_read(struct lg_reader *r, enum lg_rules_field id, enum lg_rules_field set_id, struct lg_prefix *own,
		    struct lg_prefix_list *ret)
{
	struct lg_complaint why = { 0 };

	if (lg_is_written(r, id) && lg_is_written(r, set_id))
		return lg_reader_complain(r, set_id, "stands beside a prefix: write one of them");
	if (lg_is_written(r, set_id))
		return set_use(r, set_id, ret);
	if (!lg_is_written(r, id))
		return 0;
	if (lg_prefix_parse(lg_text_of(r, id), own->addr, &own->family, &own->len, &why) < 0)
		return lg_reader_complain(r, id, "%s", why.text);
	ret->n = 1;
	ret->v = own;
	return 0;
}

/* The one family of a list, 0: both, or none said. */
static uint8_t list_family(const struct lg_prefix_list *list)
{
	const struct lg_match match = { .source = *list };

	return lg_match_family(&match);
}

static int ends_read(struct lg_reader *r)
{
	struct lg_match *match = &r->rule->match;
	uint8_t source, destination;
	int err;

	err = end_read(r, LG_RF_SOURCE, LG_RF_SOURCE_SET, &r->own[0], &match->source);
	if (err == 0)
		err = end_read(r, LG_RF_DESTINATION, LG_RF_DESTINATION_SET, &r->own[1], &match->destination);
	if (err < 0)
		return err;
	source = list_family(&match->source);
	destination = list_family(&match->destination);
	if (source && destination && source != destination)
		return lg_reader_complain(r, lg_is_written(r, LG_RF_DESTINATION) ? LG_RF_DESTINATION : LG_RF_DESTINATION_SET,
					  "IPv%u, but the source is IPv%u: no packet is both", destination, source);
	return 0;
}

/* ---- ranges ---- */

/* "53" or "8000-8099" within the field's bounds. -EINVAL without a complaint; -ERANGE: backwards. */
static int numbers_parse(const struct lg_field *field, const char *text, struct lg_port_range *ret)
{
	const char *dash = strchr(text, '-');
	size_t len = dash ? (size_t)(dash - text) : strlen(text);
	struct lg_complaint unused;
	char low[8] = "";
	uint64_t lo, hi;

	if (len >= sizeof(low))
		return -EINVAL;
	memcpy(low, text, len);
	if (lg_num_parse(low, field->min, field->max, &lo, &unused) < 0 ||
	    lg_num_parse(dash ? dash + 1 : low, field->min, field->max, &hi, &unused) < 0)
		return -EINVAL;
	ret->lo = (uint16_t)lo;
	ret->hi = (uint16_t)hi;
	return lo > hi ? -ERANGE : 0;
}

static int backwards_complain(const struct lg_reader *r, enum lg_rules_field id, const struct lg_node *node,
			      const struct lg_port_range *range)
{
	char quoted[LG_QUOTE_LEN];

	return lg_field_complain(&lg_rules_fields[id], node, r->c, "%s runs backwards: write %u-%u", lg_text_quote(node->text, quoted),
				 range->hi, range->lo);
}

static int port_read(struct lg_reader *r, enum lg_rules_field id, const struct lg_node *node, struct lg_port_range *ret)
{
	char quoted[LG_QUOTE_LEN];
	int err = numbers_parse(&lg_rules_fields[id], node->text, ret);

	if (err == -ERANGE)
		return backwards_complain(r, id, node, ret);
	if (err < 0)
		return lg_field_complain(&lg_rules_fields[id], node, r->c, "%s is not a port of 0 to 65535 or a range such as 8000-8099",
					 lg_text_quote(node->text, quoted));
	return 0;
}

static int tag_read(struct lg_reader *r, enum lg_rules_field id, const struct lg_node *node, struct lg_port_range *ret)
{
	char quoted[LG_QUOTE_LEN];
	int err = numbers_parse(&lg_rules_fields[id], node->text, ret);

	if (err == -ERANGE)
		return backwards_complain(r, id, node, ret);
	if (err < 0)
		return lg_field_complain(&lg_rules_fields[id], node, r->c,
					 "%s is not a VLAN id of 0 to 4095, a range such as 100-199, or none",
					 lg_text_quote(node->text, quoted));
	return 0;
}

static int icmp_read(struct lg_reader *r, enum lg_rules_field id, const struct lg_node *node, struct lg_port_range *ret)
{
	uint8_t family = r->rule->match.protocol == IPPROTO_ICMPV6 ? 6 : 4;
	char quoted[LG_QUOTE_LEN];

	if (lg_icmp_parse(family, node->text, &ret->lo, &ret->hi) == 0)
		return 0;
	return lg_field_complain(&lg_rules_fields[id], node, r->c,
				 "%s is no type of %s: write a name such as %s, a number, or a number with its code such as 3/1",
				 lg_text_quote(node->text, quoted), family == 6 ? "ICMPv6" : "ICMP",
				 family == 6 ? "packet-too-big" : "fragmentation-needed");
}

static int range_compare(const void *a, const void *b)
{
	const struct lg_port_range *x = a, *y = b;

	return x->lo != y->lo ? (x->lo < y->lo ? -1 : 1) : x->hi < y->hi ? -1
									 : x->hi > y->hi;
}

/* Sorted, with what touches or overlaps made one: the same numbers are then the same ranges, however they were written. */
static void ranges_merge(struct lg_ranges *ranges)
{
	struct lg_port_range *v = ranges->v;
	size_t kept = 0;

	qsort(v, ranges->n, sizeof(*v), range_compare);
	for (size_t i = 0; i < ranges->n; i++) {
		if (kept && v[i].lo <= v[kept - 1].hi + 1)
			v[kept - 1].hi = v[i].hi > v[kept - 1].hi ? v[i].hi : v[kept - 1].hi;
		else
			v[kept++] = v[i];
	}
	memset(&v[kept], 0, (ranges->n - kept) * sizeof(*v));
	ranges->n = kept;
}

typedef int (*range_fn)(struct lg_reader *r, enum lg_rules_field id, const struct lg_node *node, struct lg_port_range *ret);

/* A single value or a list; the word none sets *ret_none, where there is such a word. */
static int ranges_read(struct lg_reader *r, enum lg_rules_field id, range_fn read, bool *ret_none, struct lg_ranges *ret)
{
	const struct lg_node *node = r->at[id].node;
	int err = 0;

	if (!node)
		return 0;
	if (node->kind == LG_NODE_LIST && (!node->n || node->n > LG_PORT_RANGES_MAX))
		return lg_reader_complain(r, id, "has %zu entries, but 1 to %d are possible", node->n, LG_PORT_RANGES_MAX);
	for (const struct lg_node *p = node->kind == LG_NODE_LIST ? node->child : node; err == 0 && p; p = p->next) {
		if (p->kind != LG_NODE_SCALAR)
			return lg_field_complain(&lg_rules_fields[id], p, r->c, "expected a single value in the list");
		if (ret_none && strcmp(p->text, "none") == 0)
			*ret_none = true;
		else
			err = read(r, id, p, &ret->v[ret->n++]);
		if (p == node)
			break;
	}
	if (err == 0)
		ranges_merge(ret);
	return err;
}

/* ---- the rest ---- */

static int interfaces_read(struct lg_reader *r)
{
	const struct lg_field *field = &lg_rules_fields[LG_RF_MATCH_INTERFACES];
	const struct lg_node *node = r->at[LG_RF_MATCH_INTERFACES].node;
	struct lg_match *match = &r->rule->match;
	int err;

	if (!node)
		return 0;
	if (r->rule->scope == LG_SCOPE_GLOBAL)
		return lg_reader_complain(r, LG_RF_MATCH_INTERFACES, "belongs to host rules: hosts do not share interfaces");
	if (node->kind == LG_NODE_LIST && (!node->n || node->n > LG_INTERFACE_NAMES_MAX))
		return lg_reader_complain(r, LG_RF_MATCH_INTERFACES, "has %zu entries, but 1 to %d are possible", node->n,
					  LG_INTERFACE_NAMES_MAX);
	for (const struct lg_node *p = node->kind == LG_NODE_LIST ? node->child : node; p; p = p->next) {
		if (p->kind != LG_NODE_SCALAR || !*p->text)
			return lg_field_complain(field, p, r->c, "expected the name of an interface in the list");
		err = lg_ifname_check(field, p, r->c);
		if (err < 0)
			return err;
		for (size_t i = 0; i < match->n_interfaces; i++)
			if (strcmp(match->interfaces[i], p->text) == 0)
				return lg_field_complain(field, p, r->c, "\"%s\" is listed twice", p->text);
		snprintf(match->interfaces[match->n_interfaces++], sizeof(match->interfaces[0]), "%s", p->text);
		if (p == node)
			break;
	}
	qsort(match->interfaces, match->n_interfaces, sizeof(match->interfaces[0]),
	      (int (*)(const void *, const void *))(void (*)(void))strcmp);
	return 0;
}

static bool has_ports(uint8_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

static const enum lg_rules_field port_fields[] = { LG_RF_SOURCE_PORTS, LG_RF_PORTS };
static const enum lg_rules_field l4_fields[] = { LG_RF_SOURCE_PORTS, LG_RF_PORTS, LG_RF_TCP_FLAGS, LG_RF_ICMP_TYPES };
static const enum lg_rules_field ip_fields[] = { LG_RF_PROTOCOL, LG_RF_SOURCE, LG_RF_DESTINATION, LG_RF_SOURCE_SET, LG_RF_DESTINATION_SET,
						 LG_RF_SOURCE_PORTS, LG_RF_PORTS, LG_RF_TCP_FLAGS, LG_RF_ICMP_TYPES, LG_RF_FRAGMENTS };

/* What belongs to a protocol needs it. */
static int protocol_check(struct lg_reader *r)
{
	const struct lg_match *match = &r->rule->match;
	enum lg_rules_field id = first_written(r, port_fields, N_ELEMS(port_fields));
	bool tcp = match->has_protocol && match->protocol == IPPROTO_TCP;
	bool icmp = match->has_protocol && (match->protocol == IPPROTO_ICMP || match->protocol == IPPROTO_ICMPV6);

	if (id != _LG_RF_N && match->has_protocol && !has_ports(match->protocol))
		return lg_reader_complain(r, id, "only tcp, udp and sctp have ports, but the protocol is %s", lg_text_of(r, LG_RF_PROTOCOL));
	if (lg_is_written(r, LG_RF_TCP_FLAGS) && !tcp)
		return lg_reader_complain(r, LG_RF_TCP_FLAGS, "belongs to TCP: write protocol: tcp");
	if (lg_is_written(r, LG_RF_ICMP_TYPES) && !icmp)
		return lg_reader_complain(r, LG_RF_ICMP_TYPES, "belongs to ICMP: write protocol: icmp, or icmpv6");
	id = first_written(r, l4_fields, N_ELEMS(l4_fields));
	if (id != _LG_RF_N && match->fragments == FRAGMENT_LATER)
		return lg_reader_complain(r, id, "later fragments do not have it: no packet is both");
	return 0;
}

/* Families and EtherTypes that exclude each other. */
static int family_check(struct lg_reader *r)
{
	const struct lg_match *match = &r->rule->match;
	uint8_t family = lg_match_family(match);
	uint8_t wrong = match->protocol == IPPROTO_ICMP || match->protocol == IPPROTO_IGMP ? 6 : match->protocol == IPPROTO_ICMPV6 ? 4
																   : 0;
	bool ip4 = match->ethertype.value == ETH_P_IP, ip6 = match->ethertype.value == ETH_P_IPV6;
	enum lg_rules_field id;

	if (match->has_protocol && wrong && (family == wrong || (match->ethertype.has && (wrong == 6 ? ip6 : ip4))))
		return lg_reader_complain(r, LG_RF_PROTOCOL, "%s does not occur in IPv%u: write %s", lg_text_of(r, LG_RF_PROTOCOL), wrong,
					  match->protocol == IPPROTO_ICMPV6 ? "icmp" : "icmpv6");
	if (!match->ethertype.has)
		return 0;
	id = first_written(r, ip_fields, N_ELEMS(ip_fields));
	if (!ip4 && !ip6 && id != _LG_RF_N)
		return lg_reader_complain(r, id, "belongs to IP, but the EtherType is %s", lg_text_of(r, LG_RF_ETHERTYPE));
	if (ip4 && family == 6)
		return lg_reader_complain(r, LG_RF_ETHERTYPE, "IPv4, but the addresses are IPv6: no packet is both");
	return 0;
}

static int tags_check(struct lg_reader *r)
{
	const struct lg_match *match = &r->rule->match;

	if (match->vlans.untagged && !match->vlans.ids.n && match->inner_vlans.ids.n && !match->inner_vlans.untagged)
		return lg_reader_complain(r, LG_RF_INNER_VLANS, "an inner tag stands behind an outer one, but vlan is none: no frame is both");
	return 0;
}

int lg_match_read(struct lg_reader *r)
{
	struct lg_match *match = &r->rule->match;
	int err;

	match->has_protocol = lg_is_written(r, LG_RF_PROTOCOL);
	match->protocol = (uint8_t)r->at[LG_RF_PROTOCOL].num;
	match->ethertype.has = lg_is_written(r, LG_RF_ETHERTYPE);
	match->ethertype.value = (uint16_t)r->at[LG_RF_ETHERTYPE].num;
	match->tcp_flags.mask = (uint8_t)(r->at[LG_RF_TCP_FLAGS].num >> 8);
	match->tcp_flags.value = (uint8_t)r->at[LG_RF_TCP_FLAGS].num;
	match->fragments = (uint8_t)r->at[LG_RF_FRAGMENTS].num;
	if (match->fragments == 7)
		match->fragments = 0; /* all of them are any */
	match->initiated = lg_is_written(r, LG_RF_DIRECTION) && r->at[LG_RF_DIRECTION].num == 2;
	match->directions = !lg_is_written(r, LG_RF_DIRECTION) ? 0 : match->initiated ? 1 : (uint8_t)(1u << r->at[LG_RF_DIRECTION].num);
	err = ends_read(r);
	if (err == 0)
		err = ranges_read(r, LG_RF_SOURCE_PORTS, port_read, NULL, &match->source_ports);
	if (err == 0)
		err = ranges_read(r, LG_RF_PORTS, port_read, NULL, &match->destination_ports);
	if (err == 0)
		err = protocol_check(r);
	if (err == 0)
		err = ranges_read(r, LG_RF_ICMP_TYPES, icmp_read, NULL, &match->icmp_types);
	if (err == 0)
		err = ranges_read(r, LG_RF_VLANS, tag_read, &match->vlans.untagged, &match->vlans.ids);
	if (err == 0)
		err = ranges_read(r, LG_RF_INNER_VLANS, tag_read, &match->inner_vlans.untagged, &match->inner_vlans.ids);
	if (err == 0)
		err = interfaces_read(r);
	if (err == 0)
		err = family_check(r);
	if (err == 0)
		err = tags_check(r);
	return err == 0 ? lg_request_match_read(r) : err;
}

/* ---- key ---- */

/* One length for both families to share: the family pinned by the match has it, else it is IPv4's where it fits. */
static int key_length_read(struct lg_reader *r, enum lg_rules_field id, struct lg_key_len *ret)
{
	uint8_t len = (uint8_t)r->at[id].num, family = lg_match_family(&r->rule->match);

	if (family == 4 && len > 32)
		return lg_reader_complain(r, id, "%u is too long: the rule matches IPv4 only, which has 32 bits", len);
	if (family == 6 || (family == 0 && len > 32))
		ret->ipv6 = len;
	else
		ret->ipv4 = len;
	return 0;
}

static int key_lengths_check(struct lg_reader *r, enum lg_rules_field id, enum lg_rules_field id4, enum lg_rules_field id6)
{
	uint8_t family = lg_match_family(&r->rule->match);

	if (!lg_is_written(r, id4) && !lg_is_written(r, id6))
		return lg_reader_complain(r, id, "says no length: write ipv4, ipv6 or both");
	if (family == 6 && lg_is_written(r, id4))
		return lg_reader_complain(r, id4, "has no effect: the rule matches IPv6 only");
	if (family == 4 && lg_is_written(r, id6))
		return lg_reader_complain(r, id6, "has no effect: the rule matches IPv4 only");
	return 0;
}

static int key_end_read(struct lg_reader *r, enum lg_rules_field id, enum lg_rules_field id4, enum lg_rules_field id6,
			struct lg_key_len *ret)
{
	ret->ipv4 = (uint8_t)r->at[id4].num;
	ret->ipv6 = (uint8_t)r->at[id6].num;
	if (!lg_is_written(r, id))
		return 0;
	return r->at[id].node->kind == LG_NODE_MAP ? key_lengths_check(r, id, id4, id6) : key_length_read(r, id, ret);
}

static const struct {
	enum lg_rules_field id;
	enum lg_key_part part;
	bool ip; /* frames that are no IP do not have it */
} key_parts[] = {
	{ LG_RF_KEY_SOURCE, LG_KEY_SOURCE, true },
	{ LG_RF_KEY_DESTINATION, LG_KEY_DESTINATION, true },
	{ LG_RF_KEY_SOURCE_PORT, LG_KEY_SOURCE_PORT, true },
	{ LG_RF_KEY_DESTINATION_PORT, LG_KEY_DESTINATION_PORT, true },
	{ LG_RF_KEY_PROTOCOL, LG_KEY_PROTOCOL, true },
	{ LG_RF_KEY_VLAN, LG_KEY_VLAN, false },
	{ LG_RF_KEY_INNER_VLAN, LG_KEY_INNER_VLAN, false },
	{ LG_RF_KEY_INTERFACE, LG_KEY_INTERFACE, false },
	{ LG_RF_KEY_CGROUP, LG_KEY_CGROUP, false },
};

/* A part that the rule's packets have, and that all who share the bucket know. */
static int key_part_check(struct lg_reader *r, enum lg_rules_field id, enum lg_key_part part, bool ip)
{
	const struct lg_match *match = &r->rule->match;
	bool not_ip = match->ethertype.has && match->ethertype.value != ETH_P_IP && match->ethertype.value != ETH_P_IPV6;

	if (ip && not_ip)
		return lg_reader_complain(r, id, "belongs to IP, but the EtherType is %s", lg_text_of(r, LG_RF_ETHERTYPE));
	if (part & (LG_KEY_SOURCE_PORT | LG_KEY_DESTINATION_PORT) && match->has_protocol && !has_ports(match->protocol))
		return lg_reader_complain(r, id, "only tcp, udp and sctp have ports, but the protocol is %s", lg_text_of(r, LG_RF_PROTOCOL));
	if (part & (LG_KEY_INTERFACE | LG_KEY_CGROUP) && r->rule->scope == LG_SCOPE_GLOBAL)
		return lg_reader_complain(r, id, "belongs to host rules: hosts do not share %s",
					  part == LG_KEY_CGROUP ? "control groups" : "interfaces");
	if (part == LG_KEY_CGROUP && match->directions != DIRECTION_EGRESS)
		return lg_reader_complain(r, id, "the sender is known only of what goes out: write match: {direction: egress}");
	return 0;
}

int lg_key_source_read(struct lg_reader *r)
{
	return key_end_read(r, LG_RF_KEY_SOURCE, LG_RF_KEY_SOURCE_4, LG_RF_KEY_SOURCE_6, &r->rule->key.source);
}

int lg_key_read(struct lg_reader *r)
{
	struct lg_key_shape *key = &r->rule->key;
	int err;

	if (r->at[LG_RF_UNIT].num == LG_UNIT_REQUESTS)
		return lg_request_key_read(r);
	err = lg_key_source_read(r);
	if (err == 0)
		err = key_end_read(r, LG_RF_KEY_DESTINATION, LG_RF_KEY_DESTINATION_4, LG_RF_KEY_DESTINATION_6, &key->destination);
	for (size_t i = 0; err == 0 && i < N_ELEMS(key_parts); i++) {
		const struct lg_field_at *at = &r->at[key_parts[i].id];

		if (!at->node || (at->node->kind == LG_NODE_SCALAR && !at->num))
			continue;
		key->parts |= key_parts[i].part;
		err = key_part_check(r, key_parts[i].id, key_parts[i].part, key_parts[i].ip);
	}
	if (err == 0 && lg_is_written(r, LG_RF_KEY) && !key->parts)
		return lg_reader_complain(r, LG_RF_KEY, "names no part: write one such as source, or leave key out for one bucket");
	key->form = lg_key_form(key->parts);
	return err == 0 ? lg_request_key_check(r) : err;
}
