// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/lockout.h"

#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#include "base/num.h"
#include "rules/prefix_tree.h"
#include "rules/vectors.h"

#define NS_PER_S 1000000000.0

enum { FLAGS_SYN = 0x02, FLAGS_ACK = 0x10 };

struct packet {
	const uint8_t *source;
	const uint8_t *destination;
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t flags;
	bool is_egress;
	uint32_t interface_class;
};

static bool is_ip4(const struct lg_peer *peer)
{
	return lg_addr_is_mapped(peer->peer);
}

/* ---- rules ---- */

static const struct lg_bits *address_vector(const struct lg_classifier *c, const uint8_t addr[16], uint32_t root4, uint32_t root6)
{
	uint64_t high, low;

	memcpy(&high, addr, sizeof(high));
	memcpy(&low, addr + 8, sizeof(low));
	if (lg_addr_is_mapped(addr))
		return &c->vectors[lg_prefix_tree_find(c->tree, root4, be64toh(low) << 32, 0)];
	return &c->vectors[lg_prefix_tree_find(c->tree, root6, be64toh(high), be64toh(low))];
}

/* As lg_classify() does it. */
static struct lg_bits hits_of(const struct lg_classifier *c, const struct packet *p)
{
	uint32_t kind = IPPROTO_TCP | LG_KIND_L4 | (lg_addr_is_mapped(p->source) ? 1 : 2) * LG_KIND_FAMILY | p->is_egress * LG_KIND_EGRESS;
	struct lg_bits hits = c->vectors[c->kinds[kind]];

	if (c->dims & LG_DIM_SOURCE)
		hits = lg_bits_both(&hits, address_vector(c, p->source, c->source4, c->source6));
	if (c->dims & LG_DIM_DESTINATION)
		hits = lg_bits_both(&hits, address_vector(c, p->destination, c->destination4, c->destination6));
	if (c->dims & LG_DIM_NUMBER)
		hits = lg_bits_both(&hits, &c->vectors[c->numbers[p->destination_port]]);
	if (c->dims & LG_DIM_SOURCE_PORT)
		hits = lg_bits_both(&hits, &c->vectors[c->source_ports[p->source_port]]);
	if (c->dims & LG_DIM_TCP_FLAGS)
		hits = lg_bits_both(&hits, &c->vectors[c->tcp_flags[p->flags]]);
	if (c->dims & LG_DIM_VLAN)
		hits = lg_bits_both(&hits, &c->vectors[c->vlans[0]]);
	if (c->dims & LG_DIM_INNER_VLAN)
		hits = lg_bits_both(&hits, &c->vectors[c->inner_vlans[0]]);
	if (c->dims & LG_DIM_INTERFACE)
		hits = lg_bits_both(&hits, &c->vectors[c->interfaces[p->interface_class]]);
	return hits;
}

/* A first packet is cut off by nothing less than a limit of 0: slower ones are what keeps guessers of passwords away. */
static bool rule_cuts(const struct lg_rule *rule, uint8_t flags)
{
	bool bytes = rule->flags & LG_RULE_BYTES;
	double per_s;

	if (rule->flags & LG_RULE_SHADOW)
		return false;
	if (!rule->rate_tok)
		return true;
	per_s = (double)rule->rate_tok * NS_PER_S / (double)rule->per_ns / (double)rule->cost;
	return flags != FLAGS_SYN && per_s < (bytes ? LG_SHELL_BYTES_PER_S : LG_SHELL_PACKETS_PER_S);
}

static bool is_exempt(const struct lg_ruleset *set, const struct lg_bits *hits)
{
	struct lg_bits pass = lg_bits_both(hits, &set->pass);

	return lg_bits_count(&pass) > 0;
}

/* ---- lists ---- */

static bool lies_in(const uint8_t addr[16], const struct lg_prefix *prefix)
{
	uint8_t masked[16];

	memcpy(masked, addr, sizeof(masked));
	lg_addr_mask(masked, prefix->len + (prefix->family == 4 ? 96u : 0u));
	return memcmp(masked, prefix->addr, sizeof(masked)) == 0;
}

static const struct lg_listed *list_find(const struct lg_listed *listed, size_t n, const struct lg_peer *peer)
{
	uint8_t family = is_ip4(peer) ? 4 : 6;
	const struct lg_listed *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (listed[i].verdict && listed[i].prefix.family == family && lies_in(peer->peer, &listed[i].prefix) &&
		    (!best || listed[i].prefix.len > best->prefix.len))
			best = &listed[i];
	return best;
}

/* ---- both ---- */

static struct packet packet_of(const struct lg_ruleset *set, const struct lg_peer *peer, bool is_egress, uint8_t flags)
{
	struct packet p = { .source = peer->peer, .destination = peer->local, .source_port = peer->peer_port,
			    .destination_port = peer->local_port, .flags = flags };

	if (is_egress)
		p = (struct packet){ .source = peer->local, .destination = peer->peer, .source_port = peer->local_port,
				     .destination_port = peer->peer_port, .flags = flags == FLAGS_SYN ? FLAGS_SYN | FLAGS_ACK : flags,
				     .is_egress = true };
	for (uint32_t i = 1; i < LG_INTERFACE_CLASSES; i++)
		if (peer->interface[0] && strcmp(set->interfaces[i], peer->interface) == 0)
			p.interface_class = i;
	return p;
}

/* One packet of a session whose peer this entry decides about, or none. */
static int packet_judge(const struct lg_ruleset *set, const struct lg_classifier *classifier, const struct packet *p,
			const struct lg_listed *listed, struct lg_lockout *ret)
{
	struct lg_bits hits = hits_of(classifier, p);

	if (is_exempt(set, &hits) || (listed && listed->verdict == LG_LIST_ALLOW))
		return 0;
	ret->is_egress = p->is_egress;
	if (listed) {
		ret->listed = listed;
		return 1;
	}
	for (uint32_t i = 0; i < set->n_rules; i++) {
		if (!lg_bits_have(&hits, i) || !rule_cuts(&set->rules[i], p->flags))
			continue;
		ret->rule_id = set->rules[i].rule_id;
		return 1;
	}
	return 0;
}

int lg_lockout_find(const struct lg_ruleset *set, const struct lg_classifier *classifier, const struct lg_listed *listed, size_t n_listed,
		    bool has_egress, const struct lg_peer *peers, size_t n_peers, struct lg_lockout *ret)
{
	static const uint8_t flags[] = { FLAGS_ACK, FLAGS_SYN };
	struct packet p;

	for (size_t i = 0; i < n_peers; i++) {
		const struct lg_listed *entry = list_find(listed, n_listed, &peers[i]);
		struct lg_lockout found = { .peer = &peers[i] };

		for (unsigned int k = 0; k < (has_egress ? 4 : 2); k++) {
			p = packet_of(set, &peers[i], k / 2, flags[k % 2]);
			if (packet_judge(set, classifier, &p, entry, &found)) {
				*ret = found;
				return 1;
			}
		}
	}
	return 0;
}
