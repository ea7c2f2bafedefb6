// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The most rules that a packet can match: the search against trying every packet, and how long it takes. */
#include "rules/overlap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "rules/vectors.h"
#include "tests/lib/plain_match.h"

static struct lg_classifier classifier;
static struct plain plain;

static int seed_random(void **state)
{
	(void)state;
	plain.rng = chance_seed();
	return 0;
}

static void build(void)
{
	const struct lg_match *matches[LG_RULES_MAX];
	struct lg_complaint c;

	for (size_t i = 0; i < plain.n; i++)
		matches[i] = &plain.v[i];
	if (lg_vectors_build(matches, plain.n, plain_interfaces, &classifier, &c) < 0)
		fail_msg("%s", c.text);
}

/* ---- every packet of a small world ---- */

/* What a field of the world can be; a set of rules looks at some of them only, so that every packet can be tried. */
enum axis { FAMILY, PROTOCOL, SOURCE, DESTINATION, PORT, SOURCE_PORT, FLAGS, FRAGMENT, DIRECTION, VLAN, INNER, INTERFACE, N_AXES };
static const unsigned int sizes[N_AXES] = { 3, 5, 18, 18, 4, 3, 4, 3, 2, 3, 3, 3 };

struct world {
	bool used[N_AXES];
	unsigned int at[N_AXES];
};

static struct lg_ranges small_ranges(unsigned int most)
{
	struct lg_ranges ranges = { .n = 1 };

	ranges.v[0].lo = (uint16_t)plain_below(&plain, most);
	ranges.v[0].hi = (uint16_t)(ranges.v[0].lo + plain_below(&plain, most - ranges.v[0].lo));
	if (ranges.v[0].lo >= 2 && plain_chance(&plain, 40)) {
		ranges.v[1] = ranges.v[0];
		ranges.v[0] = (struct lg_port_range){ 0, 0 };
		ranges.n = 2;
	}
	return ranges;
}

/* Among 10.0.0.0 to 10.0.0.7, these as mapped ones, or 2001:db8:: to ::7; now and then all of IPv6. */
static struct lg_prefix_list small_list(struct lg_prefix *own)
{
	*own = (struct lg_prefix){ .family = plain_chance(&plain, 60) ? 4 : 6, .len = (uint8_t)(29 + plain_below(&plain, 4)) };
	own->addr[15] = (uint8_t)plain_below(&plain, 8);
	if (own->family == 4 || plain_chance(&plain, 30))
		memcpy(own->addr + 10, "\xff\xff\x0a", 3);
	else
		memcpy(own->addr, "\x20\x01\x0d\xb8", 4);
	if (own->family == 6)
		own->len = plain_chance(&plain, 20) ? 0 : own->len + 96;
	plain_mask(own);
	return (struct lg_prefix_list){ .n = 1, .v = own };
}

static struct lg_match small_rule(const struct world *w, struct lg_prefix own[2])
{
	static const uint8_t protocols[] = { 17, 6, 1, 58, 47 };
	struct lg_match m = { 0 };

	if (w->used[FAMILY] && plain_chance(&plain, 10)) {
		m.ethertype.has = true;
		m.ethertype.value = plain_chance(&plain, 50) ? 0x88cc : 0x0800;
	}
	m.has_protocol = w->used[PROTOCOL] && plain_chance(&plain, 40);
	m.protocol = m.has_protocol ? protocols[plain_below(&plain, 5)] : 0;
	if (w->used[SOURCE] && plain_chance(&plain, 60))
		m.source = small_list(&own[0]);
	if (w->used[DESTINATION] && plain_chance(&plain, 60))
		m.destination = small_list(&own[1]);
	if (w->used[PORT] && plain_chance(&plain, 50))
		*(plain_chance(&plain, 80) ? &m.destination_ports : &m.icmp_types) = small_ranges(4);
	if (w->used[SOURCE_PORT] && plain_chance(&plain, 50))
		m.source_ports = small_ranges(3);
	if (w->used[FLAGS] && plain_chance(&plain, 30)) {
		m.tcp_flags.mask = (uint8_t)plain_below(&plain, 4);
		m.tcp_flags.value = (uint8_t)(plain_below(&plain, 4) & m.tcp_flags.mask);
	}
	m.fragments = (uint8_t)(w->used[FRAGMENT] && plain_chance(&plain, 50) ? 1 + plain_below(&plain, 7) : 0);
	m.directions = (uint8_t)(w->used[DIRECTION] && plain_chance(&plain, 50) ? 1 + plain_below(&plain, 2) : 0);
	if (w->used[VLAN] && plain_chance(&plain, 60))
		m.vlans = (struct lg_vlans){ plain_chance(&plain, 50), small_ranges(2) };
	if (w->used[INNER] && plain_chance(&plain, 60))
		m.inner_vlans = (struct lg_vlans){ plain_chance(&plain, 50), small_ranges(2) };
	if (w->used[INTERFACE] && plain_chance(&plain, 60)) {
		m.n_interfaces = 1;
		m.interfaces[0][0] = (char)('a' + plain_below(&plain, 2));
	}
	return m;
}

static void small_rules(struct world *w)
{
	memset(w, 0, sizeof(*w));
	for (int i = 0; i < 4; i++)
		w->used[plain_below(&plain, N_AXES)] = true;
	w->used[VLAN] = w->used[VLAN] || w->used[INNER];
	w->used[PROTOCOL] = w->used[PROTOCOL] || w->used[PORT] || w->used[SOURCE_PORT] || w->used[FLAGS];
	w->used[FAMILY] = w->used[FAMILY] || w->used[SOURCE] || w->used[DESTINATION] || w->used[PROTOCOL];
	plain.n = 1 + plain_below(&plain, 20);
	for (size_t i = 0; i < plain.n; i++)
		plain.v[i] = small_rule(w, plain.own[i]);
}

/* Eight IPv4 addresses and one more; with an IPv6 header as many of its own, and then those. */
static bool small_address(unsigned int at, uint32_t family, struct lg_addr *ret)
{
	bool is_mapped = family == LG_RULE_IPV4 || at >= 9;
	uint8_t *addr = (uint8_t *)ret;

	memset(addr, 0, 16);
	memcpy(is_mapped ? addr + 10 : addr, is_mapped ? "\xff\xff\x0a" : "\x20\x01\x0d", 3);
	addr[3] = is_mapped ? 0 : 0xb8;
	addr[15] = (uint8_t)(at % 9);
	return family == LG_RULE_IPV6 || at < 9;
}

/* The packet at a place of the world; false if there is no such one. */
static bool small_packet(const struct world *w, struct lg_pkt *pkt)
{
	static const uint8_t protocols[] = { 17, 6, 1, 58, 47 };

	memset(pkt, 0, sizeof(*pkt));
	pkt->family = w->at[FAMILY] == 0 ? LG_RULE_IPV4 : w->at[FAMILY] == 1 ? LG_RULE_IPV6 : LG_RULE_NOT_IP;
	pkt->ethertype = w->at[FAMILY] == 0 ? 0x0800 : w->at[FAMILY] == 1 ? 0x86dd : 0x88cc;
	pkt->direction = (uint8_t)w->at[DIRECTION];
	pkt->vlan = (uint16_t)w->at[VLAN];
	pkt->inner_vlan = (uint16_t)w->at[INNER];
	pkt->iface_class = w->at[INTERFACE];
	if (pkt->inner_vlan && !pkt->vlan)
		return false;
	if (pkt->family == LG_RULE_NOT_IP)
		return true;
	if (!small_address(w->at[SOURCE], pkt->family, &pkt->source) ||
	    !small_address(w->at[DESTINATION], pkt->family, &pkt->destination))
		return false;
	pkt->protocol = protocols[w->at[PROTOCOL]];
	pkt->fragment = (uint8_t)w->at[FRAGMENT];
	if (pkt->fragment == LG_FRAGMENT_LATER)
		return true;
	pkt->has_port = pkt->protocol == 17 || pkt->protocol == 6;
	pkt->has_icmp = pkt->protocol == (pkt->family == LG_RULE_IPV4 ? 1 : 58);
	pkt->destination_port = (uint16_t)(pkt->has_port ? w->at[PORT] : 0);
	pkt->icmp_code = (uint8_t)(pkt->has_icmp ? w->at[PORT] : 0);
	pkt->source_port = (uint16_t)(pkt->has_port ? w->at[SOURCE_PORT] : 0);
	pkt->tcp_flags = (uint8_t)(pkt->protocol == 6 ? w->at[FLAGS] : 0);
	return true;
}

static unsigned int matches_of(const struct lg_pkt *pkt)
{
	unsigned int n = 0;

	for (size_t i = 0; i < plain.n; i++)
		n += plain_match(&plain.v[i], pkt, plain_interfaces[pkt->iface_class]);
	return n;
}

static bool world_step(struct world *w)
{
	for (size_t axis = 0; axis < N_AXES; axis++) {
		if (!w->used[axis])
			continue;
		if (++w->at[axis] < sizes[axis])
			return true;
		w->at[axis] = 0;
	}
	return false;
}

/* Without the dimensions that the set does not use every packet is the same. */
static unsigned int most_matches(struct world *w)
{
	unsigned int most = 0, n;
	struct lg_pkt pkt;

	do {
		n = small_packet(w, &pkt) ? matches_of(&pkt) : 0;
		most = n > most ? n : most;
	} while (world_step(w));
	return most;
}

/* The example as a packet of the parser's. */
static struct lg_pkt example(const struct lg_overlap *o)
{
	struct lg_pkt pkt = { .protocol = o->protocol, .has_port = o->has_port, .has_icmp = o->has_icmp, .fragment = o->fragment,
			      .direction = o->is_egress, .vlan = o->vlan, .inner_vlan = o->inner_vlan,
			      .iface_class = o->interface_class };

	memcpy(&pkt.source, o->source, 16);
	memcpy(&pkt.destination, o->destination, 16);
	pkt.family = o->family == 4 ? LG_RULE_IPV4 : o->family == 6 ? LG_RULE_IPV6 : LG_RULE_NOT_IP;
	pkt.ethertype = o->family == 4 ? 0x0800 : o->family == 6 ? 0x86dd : o->number;
	pkt.destination_port = o->has_port ? o->number : 0;
	pkt.source_port = o->has_port ? o->source_port : 0;
	pkt.tcp_flags = o->protocol == 6 && o->has_port ? o->tcp_flags : 0;
	pkt.icmp_type = (uint8_t)(o->has_icmp ? o->number >> 8 : 0);
	pkt.icmp_code = (uint8_t)(o->has_icmp ? o->number : 0);
	return pkt;
}

static void example_check(const struct lg_overlap *overlap)
{
	struct lg_pkt pkt = example(overlap);

	for (size_t i = 0; i < plain.n; i++)
		assert_int_equal(lg_bits_have(&overlap->matches, i), plain_match(&plain.v[i], &pkt, plain_interfaces[pkt.iface_class]));
	assert_true(!pkt.inner_vlan || pkt.vlan);
}

static void the_search_agrees_with_trying_every_packet(void **state)
{
	unsigned int most, sum = 0;

	(void)state;
	for (int round = 0; round < 250; round++) {
		struct lg_overlap overlap;
		struct world w;

		small_rules(&w);
		build();
		most = most_matches(&w);
		sum += most;
		assert_int_equal(lg_overlap_find(&classifier, NULL, most, &overlap), LG_OVERLAP_NONE);
		if (!most)
			continue;
		assert_int_equal(lg_overlap_find(&classifier, NULL, most - 1, &overlap), LG_OVERLAP_FOUND);
		assert_int_equal(lg_bits_count(&overlap.matches), most);
		example_check(&overlap);
	}
	print_message("on average %.1f\n", sum / 250.0);
}

/* Of some rules of a set as if there were no others. */
static void rules_that_do_not_count_are_not_found(void **state)
{
	struct lg_bits among = { { 0 } };
	struct lg_overlap overlap;

	(void)state;
	plain.n = 20;
	memset(plain.v, 0, sizeof(plain.v));
	build();
	for (unsigned int n = 0; n < 20; n++) {
		assert_int_equal(lg_overlap_find(&classifier, &among, n, &overlap), LG_OVERLAP_NONE);
		lg_bits_set(&among, n);
		assert_int_equal(lg_overlap_find(&classifier, &among, n, &overlap), LG_OVERLAP_FOUND);
		assert_memory_equal(&overlap.matches, &among, sizeof(among));
	}
}

/* ---- large sets ---- */

static double seconds_since(const struct timespec *begin)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - begin->tv_sec) + (double)(end.tv_nsec - begin->tv_nsec) * 1e-9;
}

/* Searches, says how long it took, and checks the example if there is one. */
static int search(const char *what, unsigned int max)
{
	struct lg_overlap overlap;
	struct timespec begin;
	int r;

	build();
	clock_gettime(CLOCK_MONOTONIC, &begin);
	r = lg_overlap_find(&classifier, NULL, max, &overlap);
	print_message("%s: %d after %.3f s\n", what, r, seconds_since(&begin));
	if (r == LG_OVERLAP_FOUND) {
		assert_true(lg_bits_count(&overlap.matches) > max);
		example_check(&overlap);
	}
	return r;
}

/* Every address and protocol has many rules, and only ports tell them apart: nothing is cut off early. */
static void rules_that_only_ports_tell_apart_are_searched_in_a_moment(void **state)
{
	(void)state;
	plain.n = LG_RULES_MAX;
	memset(plain.v, 0, sizeof(plain.v));
	for (size_t i = 0; i < plain.n; i++) {
		struct lg_ranges *ports = &plain.v[i].destination_ports;

		plain.own[i][0] = (struct lg_prefix){ 4, (uint8_t)(i / 8), { [10] = 0xff, [11] = 0xff } };
		plain.own[i][1] = (struct lg_prefix){ 4, (uint8_t)(31 - i / 8), { [10] = 0xff, [11] = 0xff } };
		plain.v[i].source = (struct lg_prefix_list){ .n = 1, .v = &plain.own[i][0] };
		plain.v[i].destination = (struct lg_prefix_list){ .n = 1, .v = &plain.own[i][1] };
		ports->n = LG_PORT_RANGES_MAX;
		for (size_t p = 0; p < LG_PORT_RANGES_MAX; p++)
			ports->v[p].lo = ports->v[p].hi = (uint16_t)(i * LG_PORT_RANGES_MAX + p);
	}
	assert_int_equal(search("ports alone, 8", LG_MATCHES_MAX), LG_OVERLAP_NONE);
	assert_int_equal(search("ports alone, 1", 1), LG_OVERLAP_NONE);
	assert_int_equal(search("ports alone, 0", 0), LG_OVERLAP_FOUND);
}

/* Grids: each rule meets many others in pairs, but no nine of them in one packet. */
static void rules_that_meet_in_pairs_only_are_searched_in_a_moment(void **state)
{
	(void)state;
	plain.n = LG_RULES_MAX;
	memset(plain.v, 0, sizeof(plain.v));
	for (size_t i = 0; i < plain.n; i++) {
		uint16_t at = (uint16_t)(i * 97 % 256 * 200);

		plain.v[i].destination_ports = (struct lg_ranges){ .n = 1, .v = { { at, (uint16_t)(at + 1500) } } };
		at = (uint16_t)(i * 31 % 256 * 200);
		plain.v[i].source_ports = (struct lg_ranges){ .n = 1, .v = { { at, (uint16_t)(at + 9000) } } };
	}
	assert_int_equal(search("stripes", LG_MATCHES_MAX), LG_OVERLAP_NONE);
	for (size_t i = 0; i < plain.n; i++)
		plain.v[i].source_ports.n = i % 16 ? 1 : 0;
	search("stripes, some across", LG_MATCHES_MAX);
}

static void random_sets_of_all_sizes_are_searched_in_a_moment(void **state)
{
	static const size_t counts[] = { 64, 128, 256 };
	char what[64];

	(void)state;
	for (size_t k = 0; k < N_ELEMS(counts); k++) {
		for (unsigned int max = 8; max <= 128; max *= 2) {
			plain_rules(&plain, counts[k]);
			snprintf(what, sizeof(what), "%zu random rules, %u", counts[k], max);
			assert_int_not_equal(search(what, max), LG_OVERLAP_UNKNOWN);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_search_agrees_with_trying_every_packet),
		cmocka_unit_test(rules_that_do_not_count_are_not_found),
		cmocka_unit_test(rules_that_only_ports_tell_apart_are_searched_in_a_moment),
		cmocka_unit_test(rules_that_meet_in_pairs_only_are_searched_in_a_moment),
		cmocka_unit_test(random_sets_of_all_sizes_are_searched_in_a_moment),
	};

	return cmocka_run_group_tests(tests, seed_random, NULL);
}
