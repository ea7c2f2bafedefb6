/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Whether a packet matches, field by field as the model's comments say it: what the classifier is compared with. And random rules
 * and packets that lie on each other's edges, as those that do not would hardly ever meet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse.h"
#include "rules/rule.h"
#include "tests/lib/chance.h"

static inline bool plain_in_prefix(const struct lg_prefix *prefix, const uint8_t addr[16], uint32_t family)
{
	uint32_t len = prefix->len + (prefix->family == 4 ? 96u : 0u);

	if (prefix->family == 6 && family != LG_RULE_IPV6)
		return false;
	for (uint32_t bit = 0; bit < len; bit++)
		if ((prefix->addr[bit / 8] ^ addr[bit / 8]) & 0x80 >> bit % 8)
			return false;
	return true;
}

static inline bool plain_in_list(const struct lg_prefix_list *list, const struct lg_addr *addr, uint32_t family)
{
	for (size_t i = 0; i < list->n; i++)
		if (plain_in_prefix(&list->v[i], (const uint8_t *)addr, family))
			return true;
	return !list->n && !list->set_name[0];
}

static inline bool plain_in_ranges(const struct lg_ranges *ranges, uint32_t number)
{
	for (size_t i = 0; i < ranges->n; i++)
		if (ranges->v[i].lo <= number && number <= ranges->v[i].hi)
			return true;
	return false;
}

static inline bool plain_tag(const struct lg_vlans *vlans, uint32_t tag)
{
	if (!vlans->untagged && !vlans->ids.n)
		return true;
	return tag ? plain_in_ranges(&vlans->ids, tag - 1) : vlans->untagged;
}

static inline bool plain_interface(const struct lg_match *match, const char *name)
{
	for (size_t i = 0; i < match->n_interfaces; i++)
		if (strcmp(match->interfaces[i], name) == 0)
			return true;
	return !match->n_interfaces;
}

static inline bool plain_l4(const struct lg_match *match, const struct lg_pkt *pkt)
{
	bool is_tcp = pkt->protocol == LG_PROTO_TCP && pkt->has_port;

	if (match->has_protocol && match->protocol != pkt->protocol)
		return false;
	if (match->source_ports.n && !(pkt->has_port && plain_in_ranges(&match->source_ports, pkt->source_port)))
		return false;
	if (match->destination_ports.n && !(pkt->has_port && plain_in_ranges(&match->destination_ports, pkt->destination_port)))
		return false;
	if (match->tcp_flags.mask && !(is_tcp && (pkt->tcp_flags & match->tcp_flags.mask) == match->tcp_flags.value))
		return false;
	return !match->icmp_types.n ||
	       (pkt->has_icmp && plain_in_ranges(&match->icmp_types, (uint32_t)pkt->icmp_type << 8 | pkt->icmp_code));
}

/* `interface` is the name of the one that the packet is seen at. */
static inline bool plain_match(const struct lg_match *match, const struct lg_pkt *pkt, const char *interface)
{
	bool is_ip = pkt->family == LG_RULE_IPV4 || pkt->family == LG_RULE_IPV6;

	if (match->ethertype.has ? match->ethertype.value != pkt->ethertype : !is_ip)
		return false;
	if (match->fragments && !(match->fragments >> pkt->fragment & 1))
		return false;
	if (match->directions && !(match->directions >> pkt->direction & 1))
		return false;
	return plain_l4(match, pkt) && plain_in_list(&match->source, &pkt->source, pkt->family) &&
	       plain_in_list(&match->destination, &pkt->destination, pkt->family) && plain_tag(&match->vlans, pkt->vlan) &&
	       plain_tag(&match->inner_vlans, pkt->inner_vlan) && plain_interface(match, interface);
}

/* ---- random rules and packets ---- */

#define PLAIN_SETS 6
#define PLAIN_SET_PREFIXES 64
#define PLAIN_INTERFACES 6

static const char plain_interfaces[LG_INTERFACE_CLASSES][16] = { "", "a", "b", "c", "d", "e", "f" };

struct plain {
	uint64_t rng;
	size_t n;
	struct lg_match v[LG_RULES_MAX];
	struct lg_prefix own[LG_RULES_MAX][2];
	struct lg_prefix sets[PLAIN_SETS][PLAIN_SET_PREFIXES];
	size_t n_in_set[PLAIN_SETS];
};

static inline uint64_t plain_below(struct plain *p, uint64_t n)
{
	return (chance_next(&p->rng) >> 11) % n;
}

/* One of these percent. */
static inline bool plain_chance(struct plain *p, uint64_t percent)
{
	return plain_below(p, 100) < percent;
}

/* Addresses crowd in a few networks, as those of one operator do. */
static inline void plain_address(struct plain *p, uint8_t family, uint8_t ret[16])
{
	static const uint8_t operators[][6] = {
		{ 0x20, 0x01, 0x0d, 0xb8, 0, 0 }, { 0x20, 0x01, 0x0d, 0xb8, 0, 1 }, { 0x2a, 0x00, 0x14, 0x50, 0, 0 }, { 0 }
	};
	bool wild = plain_chance(p, 15);

	memset(ret, 0, 16);
	if (family == 6)
		memcpy(ret, operators[plain_below(p, N_ELEMS(operators))], 6);
	for (int i = family == 6 ? 6 : 13; i < 16; i++)
		ret[i] = (uint8_t)(plain_chance(p, 60) ? plain_below(p, 2) : plain_below(p, 256));
	if (family == 4)
		ret[12] = plain_chance(p, 50) ? 10 : 192;
	for (int i = family == 4 ? 12 : 0; wild && i < 16; i++)
		ret[i] = (uint8_t)plain_below(p, 256);
	if (family == 4)
		ret[10] = ret[11] = 0xff;
}

static inline void plain_mask(struct lg_prefix *prefix)
{
	for (uint32_t bit = prefix->len + (prefix->family == 4 ? 96u : 0u); bit < 128; bit++)
		prefix->addr[bit / 8] &= (uint8_t)~(0x80 >> bit % 8);
}

static inline struct lg_prefix plain_prefix(struct plain *p, uint8_t family)
{
	static const uint8_t usual[] = { 32, 40, 48, 56, 64, 64, 80, 96, 127, 128 };
	struct lg_prefix prefix = { .family = family ? family : plain_chance(p, 50) ? 4 : 6 };

	plain_address(p, prefix.family, prefix.addr);
	if (prefix.family == 4)
		prefix.len = (uint8_t)(plain_chance(p, 70) ? 8 * plain_below(p, 5) : plain_below(p, 33));
	else
		prefix.len = plain_chance(p, 70) ? usual[plain_below(p, N_ELEMS(usual))] : (uint8_t)plain_below(p, 129);
	plain_mask(&prefix);
	return prefix;
}

static inline struct lg_ranges plain_ranges(struct plain *p, uint32_t most)
{
	struct lg_ranges ranges = { .n = 1 + plain_below(p, 3) };
	uint32_t at = (uint32_t)plain_below(p, plain_chance(p, 50) ? 4 : most / 2);

	for (size_t i = 0; i < ranges.n; i++) {
		uint32_t hi = at + (uint32_t)plain_below(p, plain_chance(p, 50) ? 3 : most / 8);

		ranges.v[i] = (struct lg_port_range){ (uint16_t)at, (uint16_t)(hi < most ? hi : most) };
		at = hi + 2 + (uint32_t)plain_below(p, 3);
		if (at > most)
			ranges.n = i + 1;
	}
	if (plain_chance(p, 5))
		ranges = (struct lg_ranges){ .n = 1, .v = { { 0, (uint16_t)most } } };
	return ranges;
}

static inline struct lg_prefix_list plain_list(struct plain *p, struct lg_prefix *own, uint8_t family)
{
	size_t set = plain_below(p, PLAIN_SETS);

	if (plain_chance(p, 40))
		return (struct lg_prefix_list){ 0 };
	if (plain_chance(p, 30))
		return (struct lg_prefix_list){ .n = p->n_in_set[set], .v = p->sets[set], .set_name = "set" };
	*own = plain_prefix(p, family);
	return (struct lg_prefix_list){ .n = 1, .v = own };
}

static inline struct lg_match plain_rule(struct plain *p, struct lg_prefix own[2])
{
	static const uint8_t protocols[] = { LG_PROTO_TCP, LG_PROTO_UDP, LG_PROTO_UDP, LG_PROTO_SCTP, 1, LG_PROTO_ICMPV6, 47 };
	static const uint16_t types[] = { 0, 0x0800, 0x86dd, 0x88cc, 0x8863 };
	uint8_t family = plain_chance(p, 50) ? 4 : 6;
	struct lg_match m = { .has_protocol = plain_chance(p, 60), .protocol = protocols[plain_below(p, N_ELEMS(protocols))] };

	if (plain_chance(p, 5)) {
		m = (struct lg_match){ .ethertype = { true, types[plain_below(p, N_ELEMS(types))] } };
	} else {
		m.source = plain_list(p, &own[0], family);
		m.destination = plain_list(p, &own[1], family);
		m.fragments = (uint8_t)(plain_chance(p, 10) ? 1 + plain_below(p, 7) : 0);
		if (plain_chance(p, 40))
			m.destination_ports = plain_ranges(p, 65535);
		if (plain_chance(p, 15))
			m.source_ports = plain_ranges(p, 65535);
		if (plain_chance(p, 5))
			m.icmp_types = plain_ranges(p, 65535);
		m.tcp_flags.mask = (uint8_t)(plain_chance(p, 10) ? plain_below(p, 256) : 0);
		m.tcp_flags.value = (uint8_t)(plain_below(p, 256) & m.tcp_flags.mask);
	}
	if (plain_chance(p, 15))
		m.vlans = (struct lg_vlans){ plain_chance(p, 30), plain_ranges(p, 4095) };
	if (plain_chance(p, 10))
		m.inner_vlans = (struct lg_vlans){ plain_chance(p, 30), plain_ranges(p, 4095) };
	m.directions = (uint8_t)(plain_chance(p, 15) ? 1 + plain_below(p, 3) : 0);
	for (; plain_chance(p, 20) && m.n_interfaces < LG_INTERFACE_NAMES_MAX; m.n_interfaces++)
		m.interfaces[m.n_interfaces][0] = (char)('a' + plain_below(p, PLAIN_INTERFACES));
	return m;
}

static inline void plain_rules(struct plain *p, size_t n)
{
	p->n = n;
	for (size_t set = 0; set < PLAIN_SETS; set++) {
		p->n_in_set[set] = plain_below(p, PLAIN_SET_PREFIXES + 1);
		for (size_t i = 0; i < p->n_in_set[set]; i++)
			p->sets[set][i] = plain_prefix(p, 0);
	}
	for (size_t i = 0; i < n; i++)
		p->v[i] = plain_rule(p, p->own[i]);
}

/* An address at an edge of what a list has. */
static inline void plain_edge(struct plain *p, const struct lg_prefix_list *list, uint32_t family, struct lg_addr *ret)
{
	const struct lg_prefix *prefix = list->n ? &list->v[plain_below(p, list->n)] : NULL;
	uint8_t *addr = (uint8_t *)ret;
	uint32_t len;

	plain_address(p, family == LG_RULE_IPV4 || plain_chance(p, 10) ? 4 : 6, addr);
	if (!prefix || (prefix->family == 6 && family == LG_RULE_IPV4) || plain_chance(p, 10))
		return;
	len = prefix->len + (prefix->family == 4 ? 96u : 0u);
	if (plain_chance(p, 60))
		memset(addr, plain_chance(p, 50) ? 0xff : 0, 16);
	for (uint32_t bit = 0; bit < len; bit++)
		addr[bit / 8] = (uint8_t)((addr[bit / 8] & ~(0x80 >> bit % 8)) | (prefix->addr[bit / 8] & 0x80 >> bit % 8));
	/* Just outside: the last bit of the prefix is another. */
	if (len > (family == LG_RULE_IPV4 ? 96u : 0u) && plain_chance(p, 25))
		addr[(len - 1) / 8] ^= (uint8_t)(0x80 >> (len - 1) % 8);
}

static inline uint32_t plain_number(struct plain *p, const struct lg_ranges *ranges, uint32_t most)
{
	const struct lg_port_range *range = ranges->n ? &ranges->v[plain_below(p, ranges->n)] : NULL;
	uint32_t number = (uint32_t)plain_below(p, most + 1);

	if (range && plain_chance(p, 90))
		number = (plain_chance(p, 50) ? range->lo : range->hi) + (plain_chance(p, 80) ? 0 : plain_chance(p, 50) ? 1u : ~0u);
	return number <= most ? number : most;
}

static inline uint16_t plain_tag_of(struct plain *p, const struct lg_vlans *vlans)
{
	return plain_chance(p, vlans->ids.n ? 20 : 80) ? 0 : (uint16_t)(1 + plain_number(p, &vlans->ids, 4095));
}

/* A packet as the parser would make it, near a rule of the set. Returns the interface it is seen at. */
static inline const char *plain_packet(struct plain *p, struct lg_pkt *pkt)
{
	static const uint8_t protocols[] = { LG_PROTO_TCP, LG_PROTO_UDP, LG_PROTO_SCTP, 1, LG_PROTO_ICMPV6, 47 };
	static const struct lg_match nothing;
	const struct lg_match *near = p->n ? &p->v[plain_below(p, p->n)] : &nothing;
	uint32_t icmp;

	memset(pkt, 0, sizeof(*pkt));
	pkt->direction = (uint8_t)plain_below(p, 2);
	pkt->vlan = plain_tag_of(p, &near->vlans);
	pkt->inner_vlan = pkt->vlan ? plain_tag_of(p, &near->inner_vlans) : 0;
	pkt->iface_class = (uint32_t)plain_below(p, PLAIN_INTERFACES + 1);
	pkt->ethertype = near->ethertype.has && plain_chance(p, 80) ? near->ethertype.value
			 : plain_chance(p, 50)                      ? 0x86dd
								    : 0x0800;
	pkt->family = pkt->ethertype == 0x0800 ? LG_RULE_IPV4 : pkt->ethertype == 0x86dd ? LG_RULE_IPV6 : LG_RULE_NOT_IP;
	if (pkt->family == LG_RULE_NOT_IP)
		return plain_interfaces[pkt->iface_class];
	plain_edge(p, &near->source, pkt->family, &pkt->source);
	plain_edge(p, &near->destination, pkt->family, &pkt->destination);
	pkt->protocol = near->has_protocol && plain_chance(p, 85) ? near->protocol : protocols[plain_below(p, N_ELEMS(protocols))];
	pkt->fragment = (uint8_t)(plain_chance(p, near->fragments ? 20 : 85) ? 0 : plain_below(p, 3));
	if (pkt->fragment == LG_FRAGMENT_LATER)
		return plain_interfaces[pkt->iface_class];
	pkt->has_port = pkt->protocol == LG_PROTO_TCP || pkt->protocol == LG_PROTO_UDP || pkt->protocol == LG_PROTO_SCTP;
	pkt->has_icmp = pkt->protocol == (pkt->family == LG_RULE_IPV4 ? 1 : LG_PROTO_ICMPV6) && plain_chance(p, 90);
	if (pkt->has_port) {
		pkt->source_port = (uint16_t)plain_number(p, &near->source_ports, 65535);
		pkt->destination_port = (uint16_t)plain_number(p, &near->destination_ports, 65535);
	}
	icmp = pkt->has_icmp ? plain_number(p, &near->icmp_types, 65535) : 0;
	pkt->icmp_type = (uint8_t)(icmp >> 8);
	pkt->icmp_code = (uint8_t)icmp;
	if (pkt->protocol == LG_PROTO_TCP)
		pkt->tcp_flags = (uint8_t)(plain_chance(p, 70) ? (plain_below(p, 256) & ~near->tcp_flags.mask) | near->tcp_flags.value
							       : plain_below(p, 256));
	return plain_interfaces[pkt->iface_class];
}
