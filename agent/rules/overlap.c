// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * In one dimension (source, destination, protocol, port) a set of prefixes or ranges cuts the line into intervals within which
 * every point is in the same ones. An interval begins where one of them begins, or just after one ended; in the second case the
 * point is in fewer than the beginning of the one that ended, or of one around it. So the beginnings, and one point for rules
 * that do not care, are enough to find the most. Rules are at most 64, one bit each: a point is the word of the rules it is in,
 * a packet the AND of its points, and a branch with too few bits left is not followed. Points with equal words count once.
 */
#include "rules/overlap.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/names.h"

#define POINTS_MAX (LG_RULES_MAX * LG_PORT_RANGES_MAX + 4)

_Static_assert(LG_RULES_MAX <= 64, "a set of rules is one 64-bit word");

struct point {
	uint64_t rules; /* those it is in */
	union {
		uint8_t addr[16];
		uint16_t port;
		uint8_t protocol;
	};
};

struct points {
	struct point v[POINTS_MAX];
	size_t n;
};

struct search {
	const struct lg_rules *rules;
	unsigned int max;
	struct points sources;
	struct points destinations;
	struct points protocols;
	struct points ports;
	uint64_t portless; /* rules that do not ask for a port */
};

static void point_add(struct points *points, struct point point)
{
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].rules == point.rules)
			return;
	points->v[points->n++] = point;
}

static bool is_in_prefix(const struct lg_prefix *prefix, const uint8_t addr[16])
{
	uint8_t net[16];

	memcpy(net, addr, sizeof(net));
	lg_addr_mask(net, prefix->len + (prefix->family == 4 ? 96u : 0u));
	return memcmp(net, prefix->addr, sizeof(net)) == 0;
}

static const struct lg_prefix *prefix_of(const struct lg_rule_def *rule, bool source)
{
	return source ? rule->match.source.v : rule->match.destination.v;
}

static bool is_of_family(const struct lg_rule_def *rule, uint8_t family)
{
	uint8_t only = lg_match_family(&rule->match);

	return !only || only == family;
}

static void addr_point_add(const struct lg_rules *rules, uint8_t family, bool source, const uint8_t addr[16],
			   struct points *points)
{
	struct point point = { .rules = 0 };

	memcpy(point.addr, addr, sizeof(point.addr));
	for (size_t i = 0; i < rules->n; i++)
		if (is_of_family(&rules->v[i], family) &&
		    (!prefix_of(&rules->v[i], source) || is_in_prefix(prefix_of(&rules->v[i], source), addr)))
			point.rules |= 1ull << i;
	point_add(points, point);
}

static void addr_points_make(const struct lg_rules *rules, uint8_t family, bool source, struct points *points)
{
	static const uint8_t any4[16] = { [10] = 0xff, [11] = 0xff }, any6[16];

	points->n = 0;
	for (size_t i = 0; i < rules->n; i++)
		if (prefix_of(&rules->v[i], source) && prefix_of(&rules->v[i], source)->family == family)
			addr_point_add(rules, family, source, prefix_of(&rules->v[i], source)->addr, points);
	addr_point_add(rules, family, source, family == 4 ? any4 : any6, points);
}

static void protocol_point_add(const struct lg_rules *rules, uint8_t protocol, struct points *points)
{
	struct point point = { .protocol = protocol };

	for (size_t i = 0; i < rules->n; i++)
		if (!rules->v[i].match.has_protocol || rules->v[i].match.protocol == protocol)
			point.rules |= 1ull << i;
	/* Not point_add(): whether a packet has ports depends on the protocol too, so equal words do not make equal points. */
	for (size_t i = 0; i < points->n; i++)
		if (points->v[i].protocol == protocol)
			return;
	points->v[points->n++] = point;
}

static void protocol_points_make(const struct lg_rules *rules, struct points *points)
{
	points->n = 0;
	protocol_point_add(rules, IPPROTO_UDP, points);
	protocol_point_add(rules, IPPROTO_TCP, points);
	protocol_point_add(rules, IPPROTO_SCTP, points);
	for (size_t i = 0; i < rules->n; i++)
		if (rules->v[i].match.has_protocol)
			protocol_point_add(rules, rules->v[i].match.protocol, points);
}

static void port_point_add(const struct lg_rules *rules, uint16_t port, struct points *points)
{
	struct point point = { .port = port };

	for (size_t i = 0; i < rules->n; i++) {
		const struct lg_rule_def *rule = &rules->v[i];
		bool matches = rule->match.destination_ports.n == 0;

		for (size_t j = 0; j < rule->match.destination_ports.n; j++)
			matches = matches || (rule->match.destination_ports.v[j].lo <= port && port <= rule->match.destination_ports.v[j].hi);
		point.rules |= (uint64_t)matches << i;
	}
	point_add(points, point);
}

static void port_points_make(const struct lg_rules *rules, struct points *points)
{
	points->n = 0;
	for (size_t i = 0; i < rules->n; i++)
		for (size_t j = 0; j < rules->v[i].match.destination_ports.n; j++)
			port_point_add(rules, rules->v[i].match.destination_ports.v[j].lo, points);
	port_point_add(rules, 0, points);
}

static bool is_too_many(const struct search *s, uint64_t rules)
{
	return (unsigned int)__builtin_popcountll(rules) > s->max;
}

/* The last two dimensions, for the rules that source and destination leave. */
static bool protocols_search(const struct search *s, uint64_t rules, struct lg_overlap *ret)
{
	for (size_t p = 0; p < s->protocols.n; p++) {
		const struct point *protocol = &s->protocols.v[p];
		uint64_t left = rules & protocol->rules;

		ret->protocol = protocol->protocol;
		ret->has_port = protocol->protocol == IPPROTO_TCP || protocol->protocol == IPPROTO_UDP ||
				protocol->protocol == IPPROTO_SCTP;
		ret->matches = left & s->portless;
		if (!ret->has_port && is_too_many(s, ret->matches))
			return true;
		for (size_t i = 0; ret->has_port && is_too_many(s, left) && i < s->ports.n; i++) {
			ret->port = s->ports.v[i].port;
			ret->matches = left & s->ports.v[i].rules;
			if (is_too_many(s, ret->matches))
				return true;
		}
	}
	return false;
}

static bool family_search(struct search *s, uint8_t family, struct lg_overlap *ret)
{
	ret->family = family;
	addr_points_make(s->rules, family, true, &s->sources);
	addr_points_make(s->rules, family, false, &s->destinations);
	for (size_t i = 0; i < s->sources.n; i++) {
		for (size_t j = 0; j < s->destinations.n; j++) {
			uint64_t left = s->sources.v[i].rules & s->destinations.v[j].rules;

			if (!is_too_many(s, left) || !protocols_search(s, left, ret))
				continue;
			memcpy(ret->source, s->sources.v[i].addr, sizeof(ret->source));
			memcpy(ret->destination, s->destinations.v[j].addr, sizeof(ret->destination));
			return true;
		}
	}
	return false;
}

int lg_overlap_find(const struct lg_rules *rules, unsigned int max, struct lg_overlap *ret_overlap)
{
	struct search s = { .rules = rules, .max = max };
	struct lg_overlap overlap = { .matches = 0 };

	protocol_points_make(rules, &s.protocols);
	port_points_make(rules, &s.ports);
	for (size_t i = 0; i < rules->n; i++)
		if (!rules->v[i].match.destination_ports.n)
			s.portless |= 1ull << i;
	if (!family_search(&s, 4, &overlap) && !family_search(&s, 6, &overlap))
		return 0;
	*ret_overlap = overlap;
	return 1;
}

void lg_overlap_format(const struct lg_overlap *overlap, char *buf, size_t len)
{
	char source[LG_IP_TEXT_LEN], destination[LG_IP_TEXT_LEN], protocol[32], port[16] = "";
	const char *name = lg_protocol_name(overlap->protocol);

	if (name)
		snprintf(protocol, sizeof(protocol), "%s", name);
	else
		snprintf(protocol, sizeof(protocol), "protocol %u", overlap->protocol);
	if (overlap->has_port)
		snprintf(port, sizeof(port), " port %u", overlap->port);
	lg_addr_format(overlap->source, source, sizeof(source));
	lg_addr_format(overlap->destination, destination, sizeof(destination));
	snprintf(buf, len, "%s %s packet from %s to %s%s", protocol[0] == 'I' || protocol[0] == 'S' ? "an" : "a", protocol, source,
		 destination, port);
}
