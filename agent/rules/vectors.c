// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Each field by itself: what values of it there are, as far as rules tell them apart, and which rules each is in. A rule that does
 * not look at the field is in all of its vectors, so the AND over all fields is what a packet matches. Equal vectors are kept once.
 *
 * What depends on two fields at once is in the kind, that each packet has: a rule with ports wants a packet that has some, a rule
 * with flags one with a TCP header, one with an ICMP type a header of ICMP. So the tables of numbers and flags need not care what
 * they say of packets that have none.
 */
#include "rules/vectors.h"

#include <errno.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <string.h>

#include "rules/prefix_tree.h"

#define HASH_SLOTS (2 * LG_VECTORS_MAX)
#define EVENTS_MAX (LG_RULES_MAX * (LG_PORT_RANGES_MAX + 1) * 2)
#define FRAGMENT_STATES 3
#define FAMILIES 3 /* no IP, IPv4, IPv6: as in enum lg_kind */
#define SPREAD_MOST 3

_Static_assert(LG_RULES_MAX == 256, "struct lg_bits is written out in four words");

struct event {
	uint32_t at;
	uint16_t rule;
	bool begins;
};

/* The ranges of all rules along one line of numbers. */
struct line {
	size_t n;
	struct event v[EVENTS_MAX];
};

/* One tree still to be built. */
struct forest {
	struct lg_tree_prefix *v;
	size_t n;
	uint32_t any;
	uint32_t *ret_root;
};

struct builder {
	const struct lg_match *const *matches;
	size_t n;
	const char (*interfaces)[16];
	struct lg_classifier *c;
	uint32_t n_vectors;
	bool is_full;
	uint16_t hash[HASH_SLOTS]; /* 0: free, as vector 0 is never looked for here */
	struct line line;
	struct forest forests[4];
};

/* ---- vectors ---- */

static size_t bits_hash(const struct lg_bits *bits)
{
	uint64_t h = 0;

	for (size_t i = 0; i < N_ELEMS(bits->w); i++)
		h = (h ^ bits->w[i]) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
	return h % HASH_SLOTS;
}

/* The index of a vector; with no room left it is 0, and is_full says so. */
static uint16_t vector_of(struct builder *b, const struct lg_bits *bits)
{
	static const struct lg_bits none;
	size_t slot = bits_hash(bits);

	if (memcmp(bits, &none, sizeof(none)) == 0)
		return 0;
	for (; b->hash[slot]; slot = (slot + 1) % HASH_SLOTS)
		if (memcmp(&b->c->vectors[b->hash[slot]], bits, sizeof(*bits)) == 0)
			return b->hash[slot];
	if (b->n_vectors == LG_VECTORS_MAX) {
		b->is_full = true;
		return 0;
	}
	b->c->vectors[b->n_vectors] = *bits;
	b->hash[slot] = (uint16_t)b->n_vectors;
	return (uint16_t)b->n_vectors++;
}

/* ---- numbers ---- */

static void range_add(struct line *line, size_t rule, uint32_t lo, uint32_t hi)
{
	line->v[line->n++] = (struct event){ lo, (uint16_t)rule, true };
	line->v[line->n++] = (struct event){ hi + 1, (uint16_t)rule, false };
}

/* All numbers below `size` if there are no ranges. */
static void ranges_add(struct line *line, size_t rule, const struct lg_ranges *ranges, uint32_t size)
{
	for (size_t i = 0; i < ranges->n; i++)
		range_add(line, rule, ranges->v[i].lo, ranges->v[i].hi);
	if (!ranges->n)
		range_add(line, rule, 0, size - 1);
}

static int event_compare(const void *pa, const void *pb)
{
	const struct event *a = pa, *b = pb;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* Empties the line into a table of `size`. */
static void line_fill(struct builder *b, uint16_t *table, uint32_t size)
{
	struct line *line = &b->line;
	uint16_t depth[LG_RULES_MAX] = { 0 }; /* ranges of the rule that the number is in */
	struct lg_bits bits = { { 0 } };
	uint32_t at = 0, end;
	uint16_t vector;

	qsort(line->v, line->n, sizeof(line->v[0]), event_compare);
	for (size_t i = 0; i < line->n; at = end) {
		for (; i < line->n && line->v[i].at == at; i++) {
			uint16_t rule = line->v[i].rule;

			depth[rule] = (uint16_t)(depth[rule] + (line->v[i].begins ? 1 : -1));
			bits.w[rule / 64] &= ~(1ull << rule % 64);
			bits.w[rule / 64] |= (uint64_t)(depth[rule] > 0) << rule % 64;
		}
		end = i < line->n ? line->v[i].at : size;
		vector = vector_of(b, &bits);
		for (uint32_t number = at; number < end; number++)
			table[number] = vector;
	}
	line->n = 0;
}

static bool is_of_ip(const struct lg_match *match)
{
	return !match->ethertype.has || match->ethertype.value == ETHERTYPE_IP || match->ethertype.value == ETHERTYPE_IPV6;
}

static void numbers_fill(struct builder *b)
{
	bool is_used = false;

	for (size_t i = 0; i < b->n; i++) {
		const struct lg_match *match = b->matches[i];

		if (!is_of_ip(match))
			range_add(&b->line, i, match->ethertype.value, match->ethertype.value);
		else
			ranges_add(&b->line, i, match->icmp_types.n ? &match->icmp_types : &match->destination_ports, 65536);
		is_used = is_used || !is_of_ip(match) || match->icmp_types.n || match->destination_ports.n;
	}
	line_fill(b, b->c->numbers, 65536);
	b->c->dims |= is_used ? LG_DIM_NUMBER : 0;
}

static void source_ports_fill(struct builder *b)
{
	bool is_used = false;

	for (size_t i = 0; i < b->n; i++) {
		ranges_add(&b->line, i, &b->matches[i]->source_ports, 65536);
		is_used = is_used || b->matches[i]->source_ports.n;
	}
	line_fill(b, b->c->source_ports, 65536);
	b->c->dims |= is_used ? LG_DIM_SOURCE_PORT : 0;
}

static void tags_fill(struct builder *b, bool is_inner)
{
	bool is_used = false;

	for (size_t i = 0; i < b->n; i++) {
		const struct lg_vlans *vlans = is_inner ? &b->matches[i]->inner_vlans : &b->matches[i]->vlans;
		bool is_any = !vlans->untagged && !vlans->ids.n;

		if (is_any)
			range_add(&b->line, i, 0, LG_VLAN_SLOTS - 1);
		if (vlans->untagged)
			range_add(&b->line, i, 0, 0);
		for (size_t k = 0; k < vlans->ids.n; k++)
			range_add(&b->line, i, 1u + vlans->ids.v[k].lo, 1u + vlans->ids.v[k].hi);
		is_used = is_used || !is_any;
	}
	line_fill(b, is_inner ? b->c->inner_vlans : b->c->vlans, LG_VLAN_SLOTS);
	b->c->dims |= !is_used ? 0 : is_inner ? LG_DIM_INNER_VLAN
					      : LG_DIM_VLAN;
}

static void flags_fill(struct builder *b)
{
	bool is_used = false;

	for (unsigned int flags = 0; flags < 256; flags++) {
		struct lg_bits bits = { { 0 } };

		for (size_t i = 0; i < b->n; i++) {
			const struct lg_match *match = b->matches[i];

			if ((flags & match->tcp_flags.mask) == (match->tcp_flags.value & match->tcp_flags.mask))
				lg_bits_set(&bits, i);
			is_used = is_used || match->tcp_flags.mask;
		}
		b->c->tcp_flags[flags] = vector_of(b, &bits);
	}
	b->c->dims |= is_used ? LG_DIM_TCP_FLAGS : 0;
}

/* ---- interfaces ---- */

static bool names_interface(const struct lg_match *match, const char *name)
{
	for (size_t i = 0; i < match->n_interfaces; i++)
		if (strcmp(match->interfaces[i], name) == 0)
			return true;
	return false;
}

static void interfaces_fill(struct builder *b)
{
	bool is_used = false;

	for (size_t k = 0; k < LG_INTERFACE_CLASSES; k++) {
		struct lg_bits bits = { { 0 } };

		for (size_t i = 0; i < b->n; i++) {
			const struct lg_match *match = b->matches[i];

			if (!match->n_interfaces || (b->interfaces[k][0] && names_interface(match, b->interfaces[k])))
				lg_bits_set(&bits, i);
			is_used = is_used || match->n_interfaces;
		}
		b->c->interfaces[k] = vector_of(b, &bits);
	}
	b->c->dims |= is_used ? LG_DIM_INTERFACE : 0;
}

/* ---- kinds ---- */

static bool has_ports(uint32_t protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

static bool protocol_matches(const struct lg_match *match, uint32_t protocol, bool has_l4)
{
	if (lg_match_is_requests(match) || (match->has_protocol && match->protocol != protocol))
		return false;
	if ((match->source_ports.n || match->destination_ports.n) && !(has_l4 && has_ports(protocol)))
		return false;
	if (match->tcp_flags.mask && !(has_l4 && protocol == IPPROTO_TCP))
		return false;
	return !match->icmp_types.n || (has_l4 && (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6));
}

/* Frames that are no IP have nothing but an EtherType. */
static bool family_matches(const struct lg_match *match, uint32_t family)
{
	bool is_ip_alone = match->has_protocol || match->source.n || match->destination.n || match->icmp_types.n ||
			   match->source_ports.n || match->destination_ports.n || match->tcp_flags.mask;

	switch (family) {
	case 1: return !match->ethertype.has || match->ethertype.value == ETHERTYPE_IP;
	case 2: return !match->ethertype.has || match->ethertype.value == ETHERTYPE_IPV6;
	}
	return match->ethertype.has && !is_of_ip(match) && !is_ip_alone;
}

/* What fragment state, family and direction leave of the rules. */
static struct lg_bits context_bits(const struct builder *b, uint32_t fragment, uint32_t family, uint32_t direction)
{
	struct lg_bits bits = { { 0 } };

	for (size_t i = 0; i < b->n; i++) {
		const struct lg_match *match = b->matches[i];

		if ((!match->fragments || match->fragments >> fragment & 1) && (!match->directions || match->directions >> direction & 1) &&
		    family_matches(match, family))
			lg_bits_set(&bits, i);
	}
	return bits;
}

static void kinds_fill(struct builder *b)
{
	struct lg_bits contexts[FRAGMENT_STATES][FAMILIES][2], bits;

	for (uint32_t fragment = 0; fragment < FRAGMENT_STATES; fragment++)
		for (uint32_t family = 0; family < FAMILIES; family++)
			for (uint32_t direction = 0; direction < 2; direction++)
				contexts[fragment][family][direction] = context_bits(b, fragment, family, direction);
	for (uint32_t protocol = 0; protocol < 2 * LG_KIND_L4; protocol++) {
		struct lg_bits in = { { 0 } };

		for (size_t i = 0; i < b->n; i++)
			if (protocol_matches(b->matches[i], protocol % LG_KIND_L4, protocol / LG_KIND_L4))
				lg_bits_set(&in, i);
		for (uint32_t kind = protocol; kind < _LG_KIND_N; kind += LG_KIND_FRAGMENT) {
			uint32_t fragment = kind / LG_KIND_FRAGMENT % 4, family = kind / LG_KIND_FAMILY % 4;

			if (fragment >= FRAGMENT_STATES || family >= FAMILIES)
				continue;
			bits = lg_bits_both(&in, &contexts[fragment][family][kind / LG_KIND_EGRESS]);
			b->c->kinds[kind] = vector_of(b, &bits);
		}
	}
}

/* ---- addresses ---- */

/* A prefix with the rules that name it. */
struct named_prefix {
	struct lg_tree_prefix prefix;
	struct lg_bits rules;
};

static const struct lg_prefix_list *list_of(const struct lg_match *match, bool is_source)
{
	return is_source ? &match->source : &match->destination;
}

static bool is_any_list(const struct lg_prefix_list *list)
{
	return !list->n && !list->set_name[0];
}

/* The rules from `first` on that have its list; false if one before has it, too. */
static bool rules_of_list(const struct builder *b, size_t first, bool is_source, struct lg_bits *ret)
{
	const struct lg_prefix_list *list = list_of(b->matches[first], is_source), *other;

	*ret = (struct lg_bits){ { 0 } };
	for (size_t i = 0; i < b->n; i++) {
		other = list_of(b->matches[i], is_source);
		if (other->v != list->v || other->n != list->n)
			continue;
		if (i < first)
			return false;
		lg_bits_set(ret, i);
	}
	return true;
}

static uint64_t be64_at(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

static struct lg_tree_prefix tree_prefix(const struct lg_prefix *prefix)
{
	struct lg_tree_prefix ret = { .high = be64_at(prefix->addr), .low = be64_at(prefix->addr + 8), .len = prefix->len };

	if (prefix->family == 4) {
		ret.high = ret.low << 32;
		ret.low = 0;
	}
	return ret;
}

static int named_compare(const void *pa, const void *pb)
{
	const struct named_prefix *a = pa, *b = pb;

	return lg_tree_prefix_compare(&a->prefix, &b->prefix);
}

/* All prefixes of a family, in order, each once. */
static int prefixes_collect(const struct builder *b, uint8_t family, bool is_source, struct named_prefix **ret, size_t *ret_n)
{
	_cleanup_free_ struct named_prefix *v = NULL;
	size_t n = 0, most = 1, n_once = 0;
	struct lg_bits rules;

	for (size_t i = 0; i < b->n; i++)
		most += rules_of_list(b, i, is_source, &rules) ? list_of(b->matches[i], is_source)->n : 0;
	v = calloc(most, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < b->n; i++) {
		const struct lg_prefix_list *list = list_of(b->matches[i], is_source);

		if (!rules_of_list(b, i, is_source, &rules))
			continue;
		for (size_t k = 0; k < list->n; k++)
			if (list->v[k].family == family)
				v[n++] = (struct named_prefix){ tree_prefix(&list->v[k]), rules };
	}
	qsort(v, n, sizeof(*v), named_compare);
	for (size_t i = 0; i < n; i++) {
		if (n_once && named_compare(&v[n_once - 1], &v[i]) == 0)
			v[n_once - 1].rules = lg_bits_either(&v[n_once - 1].rules, &v[i].rules);
		else
			v[n_once++] = v[i];
	}
	*ret = TAKE(v);
	*ret_n = n_once;
	return 0;
}

/*
 * Rules of a prefix are those of all around it too. The one around is the last before that has it; what lies between was around
 * something else. A prefix that is in no more rules than the one around it is none of the tree's.
 */
static void forest_plant(struct builder *b, struct forest *forest, struct named_prefix *named, size_t n, const struct lg_bits *any)
{
	size_t open[129], n_open = 0; /* indexes of those around, each longer than the one before */

	forest->any = vector_of(b, any);
	for (size_t i = 0; i < n; i++) {
		const struct lg_bits *around = any;

		while (n_open && !lg_tree_prefix_has(&named[open[n_open - 1]].prefix, named[i].prefix.high, named[i].prefix.low))
			n_open--;
		if (n_open)
			around = &named[open[n_open - 1]].rules;
		named[i].rules = lg_bits_either(&named[i].rules, around);
		if (memcmp(&named[i].rules, around, sizeof(*around)) == 0)
			continue;
		named[i].prefix.leaf = vector_of(b, &named[i].rules);
		forest->v[forest->n++] = named[i].prefix;
		open[n_open++] = i;
	}
}

static int forest_collect(struct builder *b, struct forest *forest, uint8_t family, bool is_source, uint32_t *ret_root)
{
	_cleanup_free_ struct named_prefix *named = NULL;
	struct lg_bits any = { { 0 } };
	size_t n = 0;
	int r;

	for (size_t i = 0; i < b->n; i++)
		if (is_any_list(list_of(b->matches[i], is_source)))
			lg_bits_set(&any, i);
	r = prefixes_collect(b, family, is_source, &named, &n);
	if (r < 0)
		return r;
	forest->v = calloc(n + 1, sizeof(*forest->v));
	if (!forest->v)
		return -ENOMEM;
	forest->ret_root = ret_root;
	forest_plant(b, forest, named, n, &any);
	return 0;
}

static int trees_build(struct builder *b, uint32_t spread)
{
	struct lg_tree_space space = { .words = b->c->tree, .spread = spread };
	int r = 0;

	for (size_t i = 0; i < N_ELEMS(b->forests) && r == 0; i++)
		r = lg_prefix_tree_build(&space, b->forests[i].v, b->forests[i].n, b->forests[i].any, b->forests[i].ret_root);
	return r;
}

static int addresses_fill(struct builder *b)
{
	struct lg_classifier *c = b->c;
	uint32_t spread = SPREAD_MOST;
	int r;

	r = forest_collect(b, &b->forests[0], 4, true, &c->source4);
	if (r == 0)
		r = forest_collect(b, &b->forests[1], 6, true, &c->source6);
	if (r == 0)
		r = forest_collect(b, &b->forests[2], 4, false, &c->destination4);
	if (r == 0)
		r = forest_collect(b, &b->forests[3], 6, false, &c->destination6);
	if (r < 0)
		return r;
	for (size_t i = 0; i < b->n; i++) {
		c->dims |= is_any_list(&b->matches[i]->source) ? 0 : LG_DIM_SOURCE;
		c->dims |= is_any_list(&b->matches[i]->destination) ? 0 : LG_DIM_DESTINATION;
	}
	while ((r = trees_build(b, spread)) == -ENOSPC && spread)
		spread--;
	return r;
}

/* ---- the whole ---- */

static struct builder *builder_free(struct builder *b)
{
	for (size_t i = 0; i < N_ELEMS(b->forests); i++)
		free(b->forests[i].v);
	free(b);
	return NULL;
}
LG_CLEANUP(struct builder, builder_free)

int lg_vectors_build(const struct lg_match *const *matches, size_t n, const char (*interfaces)[16], struct lg_classifier *ret,
		     struct lg_complaint *c)
{
	_cleanup_(builder_free) struct builder *b = NULL;
	int r;

	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	b->matches = matches;
	b->n = n;
	b->interfaces = interfaces;
	b->c = ret;
	b->n_vectors = 1;
	memset(ret, 0, sizeof(*ret));
	ret->n_rules = (uint32_t)n;

	kinds_fill(b);
	numbers_fill(b);
	source_ports_fill(b);
	tags_fill(b, false);
	tags_fill(b, true);
	flags_fill(b);
	interfaces_fill(b);
	r = addresses_fill(b);
	if (r == -ENOSPC)
		return lg_complain(c, "the prefixes of all rules together need more room than there is: name fewer of them, or shorter ones");
	if (r == 0 && b->is_full)
		return lg_complain(c,
				   "the prefixes and ranges of the rules overlap in more ways than there is room for (%d): use fewer or "
				   "simpler ones",
				   LG_VECTORS_MAX);
	return r;
}
