// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The classifier has, for each field, the classes of its values and the rules of each. A packet is a choice of one class per field,
 * so the question is whether the AND of such a choice can have more than `max` rules. Fields that depend on each other are taken
 * apart first: by family, as addresses go with it, and by whether the frame is tagged, as an inner tag wants an outer one.
 *
 * Trying all choices would take years. But rules that meet in one packet meet in pairs, so each set of max + 1 of them is a clique
 * of the graph in which rules are joined that have a class in common in each field. Rules are taken out of that graph one by one,
 * always the one with the fewest neighbours; a clique is found when its first rule is taken out, among the neighbours that rule then
 * has. Where fewer than `max` are left, and so for nearly every rule of a set that people write, there is nothing to search. Else
 * the fields are chosen one after the other, that with the fewest classes first, and of each class only those rules count that are
 * still in question; a class with too few of them, or with no more than another one has, is left out.
 */
#include "rules/overlap.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "rules/names.h"
#include "rules/prefix_tree.h"
#include "rules/vectors.h"
#include "rules/words.h"

#define WORK_MAX 500000000u /* vectors compared in one search: some seconds */

#define TAGS 4097u	     /* values of a tag: none, and each id */

enum field { KIND, SOURCE, DESTINATION, NUMBER, SOURCE_PORT, TCP_FLAGS, VLAN, INNER_VLAN, INTERFACE, N_FIELDS };

/* A class: its rules, and one of its values. Only addresses have two words. */
struct value {
	struct lg_bits rules;
	uint64_t high, low;
};

struct values {
	struct value *v;
	size_t n, size;
	uint32_t *hash; /* by rules; 1 + index, 0: free; 2 * size entries */
};

/* A class on the way of the search: what it leaves of the rules in question. */
struct option {
	struct lg_bits rules;
	uint32_t value;
};

struct options {
	struct option *v;
	size_t n;
};

struct search {
	const struct lg_classifier *c;
	struct lg_bits among;
	unsigned int max;
	uint8_t family;
	bool is_tagged;
	int error;
	struct values fields[N_FIELDS];
	struct lg_bits near[LG_RULES_MAX]; /* who may meet each rule in some packet */
	struct option *room;		   /* for the options of all fields at each level */
	uint32_t chosen[N_FIELDS];
	uint64_t work;
};

static const struct lg_bits all_rules = { { ~0ull, ~0ull, ~0ull, ~0ull } };

/* ---- the classes of each field ---- */

static size_t bits_hash(const struct lg_bits *bits)
{
	uint64_t h = 0;

	for (size_t i = 0; i < N_ELEMS(bits->w); i++) {
		h = (h ^ bits->w[i]) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 29;
	}
	return h;
}

static uint32_t *values_slot(struct values *values, const struct lg_bits *rules)
{
	size_t slots = 2 * values->size, slot = bits_hash(rules) % slots;

	while (values->hash[slot] && memcmp(&values->v[values->hash[slot] - 1].rules, rules, sizeof(*rules)) != 0)
		slot = (slot + 1) % slots;
	return &values->hash[slot];
}

static int values_grow(struct values *values)
{
	size_t size = values->size ? 2 * values->size : 64;
	uint32_t *hash = calloc(2 * size, sizeof(*hash));
	struct value *v = realloc(values->v, size * sizeof(*v));

	if (v)
		values->v = v;
	if (!hash || !v) {
		free(hash);
		return -ENOMEM;
	}
	free(values->hash);
	values->hash = hash;
	values->size = size;
	for (size_t i = 0; i < values->n; i++)
		*values_slot(values, &values->v[i].rules) = (uint32_t)i + 1;
	return 0;
}

/* One more value of a field; of those in the same rules the first stays. */
static int value_add(struct search *s, enum field field, const struct lg_bits *rules, uint64_t high, uint64_t low)
{
	struct values *values = &s->fields[field];
	uint32_t *slot;

	if (values->n == values->size)
		s->error = values_grow(values);
	if (s->error)
		return s->error;
	slot = values_slot(values, rules);
	if (*slot)
		return 0;
	values->v[values->n++] = (struct value){ *rules, high, low };
	*slot = (uint32_t)values->n;
	return 0;
}

static void numbers_add(struct search *s, enum field field, const uint16_t *table, uint32_t first, uint32_t end)
{
	uint32_t last = LG_VECTORS_MAX;

	for (uint32_t number = first; number < end; number++) {
		if (table[number] == last)
			continue;
		last = table[number];
		value_add(s, field, &s->c->vectors[last], number, 0);
	}
}

/* Whether there are such packets: those without the header that a rule could look into are no IP, or later fragments. */
static bool kind_exists(uint8_t family, uint32_t protocol, bool has_l4, uint32_t fragment)
{
	bool has_ports = protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
	bool is_icmp = protocol == (family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);

	if (family == 0)
		return protocol == 0 && !has_l4 && fragment == 0;
	if (fragment == 2)
		return !has_l4;
	return has_ports ? has_l4 : is_icmp || !has_l4;
}

/* Plain packets of well known protocols first: they make the better example. */
static void kinds_add(struct search *s)
{
	static const uint8_t known[] = { IPPROTO_UDP, IPPROTO_TCP, IPPROTO_SCTP, IPPROTO_ICMP, IPPROTO_ICMPV6 };
	uint32_t family = s->family == 4 ? 1 : s->family == 6 ? 2
							      : 0;

	for (uint32_t i = 0; i < N_ELEMS(known) + 256; i++) {
		uint32_t protocol = i < N_ELEMS(known) ? known[i] : i - N_ELEMS(known);

		for (uint32_t rest = 0; rest < 12; rest++) {
			bool has_l4 = !(rest & 1);
			uint32_t fragment = rest / 4, kind = protocol + has_l4 * LG_KIND_L4 + fragment * LG_KIND_FRAGMENT;

			kind += family * LG_KIND_FAMILY + (rest / 2 & 1) * LG_KIND_EGRESS;
			if (kind_exists(s->family, protocol, has_l4, fragment))
				value_add(s, KIND, &s->c->vectors[s->c->kinds[kind]], kind, 0);
		}
	}
}

/* The trees of one end. */
struct end {
	struct search *s;
	enum field field;
	uint32_t root4, root6;
};

static int address_add(void *arg, uint32_t leaf, uint64_t high, uint64_t low)
{
	const struct end *e = arg;

	return value_add(e->s, e->field, &e->s->c->vectors[leaf], high, low);
}

/*
 * In packets with an IPv6 header IPv4 addresses are in the rules of both trees. Where a leaf of one tree is cut by those of the
 * other, an address in the inner one is in more rules than one beside it, so one address of each leaf of either is enough.
 */
static int mapped_add(struct end *e, uint64_t low)
{
	const struct lg_classifier *c = e->s->c;
	struct lg_bits rules = lg_bits_either(&c->vectors[lg_prefix_tree_find(c->tree, e->root6, 0, low)],
					      &c->vectors[lg_prefix_tree_find(c->tree, e->root4, low << 32, 0)]);

	return value_add(e->s, e->field, &rules, 0, low);
}

static int mapped_of4_add(void *arg, uint32_t leaf, uint64_t high, uint64_t low)
{
	(void)leaf;
	(void)low;
	return mapped_add(arg, 0xffffull << 32 | high >> 32);
}

static int address6_add(void *arg, uint32_t leaf, uint64_t high, uint64_t low)
{
	return high || low >> 32 != 0xffff ? address_add(arg, leaf, high, low) : mapped_add(arg, low);
}

static void addresses_add(struct search *s, enum field field, uint32_t root4, uint32_t root6)
{
	struct end e = { s, field, root4, root6 };

	if (s->family != 6) {
		lg_prefix_tree_walk(s->c->tree, root4, address_add, &e);
		return;
	}
	lg_prefix_tree_walk(s->c->tree, root6, address6_add, &e);
	lg_prefix_tree_walk(s->c->tree, root4, mapped_of4_add, &e);
}

/* Fields that the set does not look at, or the family does not have, have one class: all rules. */
static int fields_collect(struct search *s)
{
	const struct lg_classifier *c = s->c;
	uint32_t dims = s->family ? c->dims : c->dims & ~(uint32_t)(LG_DIM_SOURCE | LG_DIM_DESTINATION);

	for (size_t i = 0; i < N_FIELDS; i++) {
		s->fields[i].n = 0;
		if (s->fields[i].size)
			memset(s->fields[i].hash, 0, 2 * s->fields[i].size * sizeof(*s->fields[i].hash));
	}
	kinds_add(s);
	if (dims & LG_DIM_SOURCE)
		addresses_add(s, SOURCE, c->source4, c->source6);
	if (dims & LG_DIM_DESTINATION)
		addresses_add(s, DESTINATION, c->destination4, c->destination6);
	if (dims & LG_DIM_NUMBER)
		numbers_add(s, NUMBER, c->numbers, 0, N_ELEMS(c->numbers));
	if (dims & LG_DIM_SOURCE_PORT)
		numbers_add(s, SOURCE_PORT, c->source_ports, 0, N_ELEMS(c->source_ports));
	if (dims & LG_DIM_TCP_FLAGS)
		numbers_add(s, TCP_FLAGS, c->tcp_flags, 0, N_ELEMS(c->tcp_flags));
	if (dims & LG_DIM_VLAN)
		numbers_add(s, VLAN, c->vlans, s->is_tagged ? 1 : 0, s->is_tagged ? TAGS : 1);
	if (dims & LG_DIM_INNER_VLAN)
		numbers_add(s, INNER_VLAN, c->inner_vlans, 0, s->is_tagged ? TAGS : 1);
	if (dims & LG_DIM_INTERFACE)
		numbers_add(s, INTERFACE, c->interfaces, 0, N_ELEMS(c->interfaces));
	for (enum field field = 0; field < N_FIELDS; field++)
		if (!s->fields[field].n)
			value_add(s, field, &all_rules, field == VLAN && s->is_tagged, 0);
	return s->error;
}

/* ---- who may meet whom ---- */

static void near_find(struct search *s)
{
	struct lg_bits meets;

	for (size_t rule = 0; rule < s->c->n_rules; rule++)
		s->near[rule] = lg_bits_have(&s->among, rule) ? s->among : (struct lg_bits){ { 0 } };
	for (size_t f = 0; f < N_FIELDS; f++) {
		for (size_t rule = 0; rule < s->c->n_rules; rule++) {
			meets = (struct lg_bits){ { 0 } };
			for (size_t i = 0; i < s->fields[f].n; i++)
				if (lg_bits_have(&s->fields[f].v[i].rules, rule))
					meets = lg_bits_either(&meets, &s->fields[f].v[i].rules);
			s->near[rule] = lg_bits_both(&s->near[rule], &meets);
		}
		s->work += s->fields[f].n * s->c->n_rules;
	}
}

/* Takes out what has too few neighbours, until none is left that has. */
static struct lg_bits core_of(struct search *s, struct lg_bits rules)
{
	struct lg_bits near;
	bool again = true;

	while (again) {
		again = false;
		for (size_t w = 0; w < N_ELEMS(rules.w); w++) {
			for (uint64_t left = rules.w[w]; left; left &= left - 1) {
				size_t rule = w * 64 + (size_t)__builtin_ctzll(left);

				near = lg_bits_both(&s->near[rule], &rules);
				s->work++;
				if (lg_bits_count(&near) > s->max)
					continue;
				rules.w[w] &= ~(left & -left);
				again = true;
			}
		}
	}
	return rules;
}

/* ---- the search ---- */

static bool is_subset(const struct lg_bits *a, const struct lg_bits *b)
{
	return !((a->w[0] & ~b->w[0]) | (a->w[1] & ~b->w[1]) | (a->w[2] & ~b->w[2]) | (a->w[3] & ~b->w[3]));
}

/* Adds an option that has what no other has; drops those that now have no more than it. */
static void option_add(struct search *s, struct options *options, struct option option)
{
	size_t n = 0;

	s->work += options->n;
	for (size_t i = 0; i < options->n; i++)
		if (is_subset(&option.rules, &options->v[i].rules))
			return;
	for (size_t i = 0; i < options->n; i++)
		if (!is_subset(&options->v[i].rules, &option.rules))
			options->v[n++] = options->v[i];
	options->v[n++] = option;
	options->n = n;
}

/* What the options of the level above leave of the rules in question, as far as there are enough and the first is among them. */
static void options_narrow(struct search *s, const struct options *above, const struct lg_bits *rules, size_t first,
			   struct options *options)
{
	struct option option;

	s->work += above->n;
	options->n = 0;
	for (size_t i = 0; i < above->n; i++) {
		option = (struct option){ lg_bits_both(&above->v[i].rules, rules), above->v[i].value };
		if (lg_bits_have(&option.rules, first) && lg_bits_count(&option.rules) > s->max)
			option_add(s, options, option);
	}
}

/*
 * Chooses a class for each field that has none (those whose bit is set in `open`). `above` are their options, `room` is for those
 * from here on. 1: s->chosen is a packet in more than max of the rules; 0: there is none; 2: too much work.
 */
static int choose(struct search *s, uint32_t open, const struct options above[N_FIELDS], struct lg_bits rules, size_t first,
		  struct option *room)
{
	struct options here[N_FIELDS];
	size_t best = N_FIELDS;
	int r = 0;

	if (!open)
		return 1;
	if (s->work > WORK_MAX)
		return 2;
	rules = core_of(s, rules);
	if (!lg_bits_have(&rules, first))
		return 0;
	for (size_t f = 0; f < N_FIELDS; f++) {
		if (!(open >> f & 1))
			continue;
		here[f].v = room;
		options_narrow(s, &above[f], &rules, first, &here[f]);
		room += here[f].n;
		if (!here[f].n)
			return 0;
		if (best == N_FIELDS || here[f].n < here[best].n)
			best = f;
	}
	for (size_t i = 0; i < here[best].n && r == 0; i++) {
		s->chosen[best] = here[best].v[i].value;
		r = choose(s, open & ~(1u << best), here, here[best].v[i].rules, first, room);
	}
	return r;
}

/* The rule with the fewest neighbours among `rules`, which are not none. */
static size_t loneliest(struct search *s, const struct lg_bits *rules, struct lg_bits *ret_near)
{
	unsigned int fewest = LG_RULES_MAX + 1;
	struct lg_bits near;
	size_t found = 0;

	for (size_t i = 0; i < s->c->n_rules; i++) {
		if (!lg_bits_have(rules, i))
			continue;
		near = lg_bits_both(&s->near[i], rules);
		if (lg_bits_count(&near) >= fewest)
			continue;
		fewest = lg_bits_count(&near);
		*ret_near = near;
		found = i;
	}
	s->work += s->c->n_rules;
	return found;
}

static void overlap_fill(const struct search *s, struct lg_overlap *ret);

/* One family, tagged or not. As choose(). */
static int case_search(struct search *s, struct lg_overlap *ret)
{
	struct lg_bits rules = { { 0 } }, near;
	struct options all[N_FIELDS];
	struct option *room = s->room;
	size_t first;
	int r = 0;

	for (size_t i = 0; i < s->c->n_rules; i++)
		if (lg_bits_have(&s->near[i], i))
			lg_bits_set(&rules, i);
	for (size_t f = 0; f < N_FIELDS; f++) {
		all[f] = (struct options){ room, s->fields[f].n };
		for (size_t i = 0; i < s->fields[f].n; i++)
			*room++ = (struct option){ s->fields[f].v[i].rules, (uint32_t)i };
	}
	while (r == 0 && lg_bits_count(&rules) > s->max) {
		first = loneliest(s, &rules, &near);
		if (lg_bits_count(&near) > s->max)
			r = choose(s, (1u << N_FIELDS) - 1, all, near, first, room);
		rules.w[first / 64] &= ~(1ull << first % 64);
	}
	if (r == 1)
		overlap_fill(s, ret);
	if (r == 2)
		ret->matches = near;
	return r;
}

static int case_prepare(struct search *s)
{
	size_t n = 0;
	int r;

	r = fields_collect(s);
	if (r < 0)
		return r;
	near_find(s);
	for (size_t f = 0; f < N_FIELDS; f++)
		n += s->fields[f].n;
	free(s->room);
	s->room = calloc((N_FIELDS + 1) * n, sizeof(*s->room));
	return s->room ? 0 : -ENOMEM;
}

static struct search *search_free(struct search *s)
{
	for (size_t i = 0; i < N_FIELDS; i++) {
		free(s->fields[i].v);
		free(s->fields[i].hash);
	}
	free(s->room);
	free(s);
	return NULL;
}
LG_CLEANUP(struct search, search_free)

int lg_overlap_find(const struct lg_classifier *c, const struct lg_bits *among, unsigned int max, struct lg_overlap *ret)
{
	static const uint8_t families[] = { 4, 6, 0 };
	_cleanup_(search_free) struct search *s = NULL;
	int r = 0;

	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->c = c;
	s->max = max;
	s->among = among ? *among : all_rules;
	for (size_t i = 0; i < N_ELEMS(families) && r == 0; i++) {
		for (unsigned int tagged = 0; tagged < 2 && r == 0; tagged++) {
			if (tagged && !(c->dims & (LG_DIM_VLAN | LG_DIM_INNER_VLAN)))
				continue;
			s->family = families[i];
			s->is_tagged = tagged;
			r = case_prepare(s);
			if (r == 0)
				r = case_search(s, ret);
		}
	}
	return r;
}

/* ---- the example ---- */

static void address_put(const struct value *value, uint8_t family, uint8_t ret[16])
{
	uint64_t high = value->high, low = value->low;

	if (family == 4) {
		low = 0xffffull << 32 | high >> 32;
		high = 0;
	}
	high = htobe64(high);
	low = htobe64(low);
	memcpy(ret, &high, sizeof(high));
	memcpy(ret + 8, &low, sizeof(low));
}

static void overlap_fill(const struct search *s, struct lg_overlap *ret)
{
	const struct value *v[N_FIELDS];
	uint32_t kind;

	memset(ret, 0, sizeof(*ret));
	ret->matches = s->among;
	for (size_t f = 0; f < N_FIELDS; f++) {
		v[f] = &s->fields[f].v[s->chosen[f]];
		ret->matches = lg_bits_both(&ret->matches, &v[f]->rules);
	}
	kind = (uint32_t)v[KIND]->high;
	ret->dims = s->c->dims;
	ret->family = s->family;
	ret->protocol = (uint8_t)kind;
	ret->has_port = kind & LG_KIND_L4 && ret->protocol != IPPROTO_ICMP && ret->protocol != IPPROTO_ICMPV6;
	ret->has_icmp = kind & LG_KIND_L4 && !ret->has_port;
	ret->is_egress = kind & LG_KIND_EGRESS;
	ret->fragment = kind / LG_KIND_FRAGMENT % 4;
	ret->tcp_flags = (uint8_t)v[TCP_FLAGS]->high;
	ret->number = (uint16_t)v[NUMBER]->high;
	ret->source_port = (uint16_t)v[SOURCE_PORT]->high;
	ret->vlan = (uint16_t)v[VLAN]->high;
	ret->inner_vlan = (uint16_t)v[INNER_VLAN]->high;
	ret->interface_class = (uint8_t)v[INTERFACE]->high;
	address_put(v[SOURCE], s->family, ret->source);
	address_put(v[DESTINATION], s->family, ret->destination);
}

static void ip_add(struct lg_words *t, const struct lg_overlap *o)
{
	char source[LG_IP_TEXT_LEN], destination[LG_IP_TEXT_LEN], protocol[32];
	const char *name = lg_protocol_name(o->protocol);

	if (name)
		snprintf(protocol, sizeof(protocol), "%s", name);
	else
		snprintf(protocol, sizeof(protocol), "protocol %u", o->protocol);
	lg_addr_format(o->source, source, sizeof(source));
	lg_addr_format(o->destination, destination, sizeof(destination));
	lg_words_add(t, "%s %s packet from %s", protocol[0] == 'I' || protocol[0] == 'S' ? "an" : "a", protocol, source);
	if (o->has_port && o->dims & LG_DIM_SOURCE_PORT)
		lg_words_add(t, " port %u", o->source_port);
	lg_words_add(t, " to %s", destination);
	if (o->has_port)
		lg_words_add(t, " port %u", o->number);
	if (o->has_icmp && o->dims & LG_DIM_NUMBER)
		lg_words_add(t, " with type %u code %u", o->number >> 8, o->number & 0xff);
	if (o->protocol == IPPROTO_TCP && o->has_port && o->dims & LG_DIM_TCP_FLAGS)
		lg_words_add(t, " with flags 0x%02x", o->tcp_flags);
	if (o->fragment)
		lg_words_add(t, ", %s fragment", o->fragment == 1 ? "a first" : "a later");
}

static void tag_add(struct lg_words *t, const char *which, uint16_t tag)
{
	if (tag)
		lg_words_add(t, ", %s VLAN %u", which, tag - 1u);
}

void lg_overlap_format(const struct lg_overlap *overlap, const char (*interfaces)[16], char *buf, size_t len)
{
	struct lg_words t = { buf, len, 0 };

	buf[0] = '\0';
	if (overlap->family)
		ip_add(&t, overlap);
	else
		lg_words_add(&t, "a frame of EtherType 0x%04x", overlap->number);
	if (overlap->dims & (LG_DIM_VLAN | LG_DIM_INNER_VLAN))
		tag_add(&t, "outer", overlap->vlan);
	tag_add(&t, "inner", overlap->inner_vlan);
	if (overlap->is_egress)
		lg_words_add(&t, ", on its way out");
	if (overlap->interface_class)
		lg_words_add(&t, ", at %s", interfaces[overlap->interface_class]);
}
