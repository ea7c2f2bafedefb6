// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/words.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/num.h"
#include "rules/explain.h"
#include "rules/names.h"

void lg_words_add(struct lg_words *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = t->n < t->len ? vsnprintf(t->buf + t->n, t->len - t->n, fmt, ap) : 0;
	va_end(ap);
	t->n += n > 0 ? (size_t)n : 0;
}

/* What stands between the item i of n and the one before. */
static const char *before(size_t i, size_t n, const char *last)
{
	return i == 0 ? " " : i == n - 1 ? last
					 : ", ";
}

/* ---- match ---- */

static bool is_ip(const struct lg_match *match)
{
	return !match->ethertype.has || match->ethertype.value == ETH_P_IP || match->ethertype.value == ETH_P_IPV6;
}

static void frames_add(struct lg_words *t, const struct lg_match *match)
{
	const char *name = lg_ethertype_name(match->ethertype.value);

	if (name)
		lg_words_add(t, "%s frames", name);
	else
		lg_words_add(t, "frames of EtherType 0x%04x", match->ethertype.value);
}

static void packets_add(struct lg_words *t, const struct lg_match *match)
{
	const char *protocol = match->has_protocol ? lg_protocol_name(match->protocol) : NULL;
	const char *family = match->ethertype.has ? lg_ethertype_name(match->ethertype.value) : NULL;

	if (protocol)
		lg_words_add(t, "%s packets", protocol);
	else if (match->has_protocol)
		lg_words_add(t, "packets of IP protocol %u", match->protocol);
	else if (match->destination_ports.n || match->source_ports.n)
		lg_words_add(t, "TCP, UDP and SCTP packets");
	else
		lg_words_add(t, family ? "all %s packets" : "all IP packets", family);
	if (family && (match->has_protocol || match->destination_ports.n || match->source_ports.n))
		lg_words_add(t, " in %s", family);
}

static void fragments_add(struct lg_words *t, uint8_t fragments)
{
	static const char *const kinds[] = { "not fragmented", "first fragments", "later fragments" };
	size_t n = (size_t)__builtin_popcount(fragments), seen = 0;

	if (!fragments)
		return;
	lg_words_add(t, " that are");
	for (size_t i = 0; i < N_ELEMS(kinds); i++)
		if (fragments >> i & 1)
			lg_words_add(t, "%s%s", before(seen++, n, " or "), kinds[i]);
}

static void l4_add(struct lg_words *t, const struct lg_match *match)
{
	uint8_t family = match->protocol == IPPROTO_ICMPV6 ? 6 : 4;
	char text[64];

	if (match->tcp_flags.mask) {
		lg_tcp_flags_format(match->tcp_flags.mask, match->tcp_flags.value, text, sizeof(text));
		lg_words_add(t, " with flags %s", text);
	}
	for (size_t i = 0; i < match->icmp_types.n; i++) {
		lg_icmp_format(family, match->icmp_types.v[i].lo, match->icmp_types.v[i].hi, text, sizeof(text));
		lg_words_add(t, "%s%s%s", i ? "" : " of type", before(i, match->icmp_types.n, " or "), text);
	}
	fragments_add(t, match->fragments);
}

static void ranges_add(struct lg_words *t, const char *what, const struct lg_ranges *ranges)
{
	for (size_t i = 0; i < ranges->n; i++) {
		const struct lg_port_range *range = &ranges->v[i];

		lg_words_add(t, "%s%s%u", i ? "" : what, before(i, ranges->n, " or "), range->lo);
		if (range->hi != range->lo)
			lg_words_add(t, "-%u", range->hi);
	}
}

static void prefixes_add(struct lg_words *t, const char *way, const struct lg_prefix_list *list)
{
	char buf[LG_IP_TEXT_LEN];

	if (!list->n) {
		lg_words_add(t, " %s anywhere", way);
	} else if (list->set_name[0]) {
		lg_words_add(t, " %s the set %s", way, list->set_name);
	} else if (list->v->len == 0) {
		lg_words_add(t, " %s anywhere (IPv%u)", way, list->v->family);
	} else {
		lg_prefix_format(list->v->addr, list->v->family, list->v->len, buf, sizeof(buf));
		lg_words_add(t, " %s %s", way, buf);
	}
}

static void tags_add(struct lg_words *t, const char *what, const char *untagged, const struct lg_vlans *tags)
{
	if (tags->untagged)
		lg_words_add(t, " %s", untagged);
	if (tags->untagged && tags->ids.n)
		lg_words_add(t, " or");
	ranges_add(t, what, &tags->ids);
}

static void place_add(struct lg_words *t, const struct lg_match *match)
{
	if (match->directions)
		lg_words_add(t, match->directions == 2 ? " going out" : " coming in");
	if (match->initiated)
		lg_words_add(t, " that answer nothing this host began");
	for (size_t i = 0; i < match->n_interfaces; i++)
		lg_words_add(t, "%s%s%s", i ? "" : " on", before(i, match->n_interfaces, " or "), match->interfaces[i]);
}

/* "requests of shop with user, plan gold" */
static void requests_add(struct lg_words *t, const struct lg_request_match *m)
{
	lg_words_add(t, "requests of %s", m->domain);
	for (size_t i = 0; i < m->n; i++) {
		const struct lg_entry_match *e = &m->v[i];

		lg_words_add(t, "%s%s", i ? ", " : m->is_path ? " with exactly " : " with ", e->key);
		if (e->set_name[0])
			lg_words_add(t, " in %s", e->set_name);
		else if (e->n)
			lg_words_add(t, " %.48s%s", e->values[0], e->n > 1 ? " or others" : "");
	}
}

void lg_match_text(const struct lg_match *match, char *buf, size_t len)
{
	struct lg_words t = { buf, len, 0 };

	if (match->requests)
		requests_add(&t, match->requests);
	if (lg_match_is_requests(match))
		return;
	if (match->requests)
		lg_words_add(&t, " and ");
	if (!is_ip(match))
		frames_add(&t, match);
	else
		packets_add(&t, match);
	l4_add(&t, match);
	ranges_add(&t, " from port", &match->source_ports);
	ranges_add(&t, " to port", &match->destination_ports);
	if (match->source.n || match->destination.n) {
		prefixes_add(&t, "from", &match->source);
		prefixes_add(&t, "to", &match->destination);
	}
	tags_add(&t, " in VLAN", "untagged", &match->vlans);
	tags_add(&t, " in inner VLAN", "without an inner tag", &match->inner_vlans);
	place_add(&t, match);
}

/* ---- key ---- */

static void length_add(struct lg_words *t, const char *family, const char *end, unsigned int len, unsigned int full)
{
	if (len == full)
		lg_words_add(t, "%s%s address", family, end);
	else
		lg_words_add(t, "%s%s /%u", family, end, len);
}

static void end_add(struct lg_words *t, const char *end, const struct lg_key_len *lens, uint8_t family, const char *between)
{
	if (family) {
		length_add(t, "", end, family == 4 ? lens->ipv4 : lens->ipv6, family == 4 ? 32 : 128);
		return;
	}
	length_add(t, "IPv4 ", end, lens->ipv4, 32);
	lg_words_add(t, "%s", between);
	length_add(t, "IPv6 ", end, lens->ipv6, 128);
}

static void product_add(struct lg_words *t, const struct lg_key_shape *key, uint8_t family)
{
	static const struct {
		enum lg_key_part part;
		const char *text;
	} parts[] = {
		{ LG_KEY_SOURCE, "source" },
		{ LG_KEY_DESTINATION, "destination" },
		{ LG_KEY_SOURCE_PORT, "source port" },
		{ LG_KEY_DESTINATION_PORT, "destination port" },
		{ LG_KEY_PROTOCOL, "protocol" },
		{ LG_KEY_VLAN, "VLAN" },
		{ LG_KEY_INNER_VLAN, "inner VLAN" },
		{ LG_KEY_INTERFACE, "interface" },
		{ LG_KEY_CGROUP, "sending control group" },
		{ LG_KEY_TEXTS, "value of its entries" },
	};
	size_t n = (size_t)__builtin_popcount(key->parts), seen = 0;

	lg_words_add(t, n == 1 ? "one bucket per" : "one bucket per combination of");
	for (size_t i = 0; i < N_ELEMS(parts); i++) {
		if (!(key->parts & parts[i].part))
			continue;
		lg_words_add(t, "%s", before(seen++, n, " and "));
		if (parts[i].part == LG_KEY_SOURCE)
			end_add(t, "source", &key->source, family, " or ");
		else if (parts[i].part == LG_KEY_DESTINATION)
			end_add(t, "destination", &key->destination, family, " or ");
		else
			lg_words_add(t, "%s", parts[i].text);
	}
}

void lg_key_shape_text(const struct lg_key_shape *key, uint8_t family, char *buf, size_t len)
{
	struct lg_words t = { buf, len, 0 };

	if (key->form == LG_FORM_RULE) {
		lg_words_add(&t, "one bucket for the whole rule");
	} else if (key->form & LG_FORM_PRODUCT) {
		product_add(&t, key, family);
	} else {
		lg_words_add(&t, "one bucket per ");
		end_add(&t, key->form == LG_FORM_SOURCE ? "source" : "destination",
			key->form == LG_FORM_SOURCE ? &key->source : &key->destination, family, " and per ");
	}
}

/* What of the packets that match is counted. */
static const char *counted(enum lg_unit unit)
{
	switch (unit) {
	case LG_UNIT_CONNECTIONS: return "new connections by ";
	case LG_UNIT_CONCURRENT: return "open connections by ";
	case LG_UNIT_HALF_OPEN: return "unfinished handshakes by ";
	case LG_UNIT_PACKETS:
	case LG_UNIT_BYTES:
	case LG_UNIT_REQUESTS: break;
	}
	return "";
}

void lg_rule_match_text(const struct lg_rule_def *rule, char *buf, size_t len)
{
	struct lg_words t = { buf, len, 0 };
	char text[512];

	lg_match_text(&rule->match, text, sizeof(text));
	lg_words_add(&t, "%s%s", counted(rule->unit), text);
	lg_key_shape_text(&rule->key, lg_match_family(&rule->match), text, sizeof(text));
	lg_words_add(&t, ", %s", text);
}
