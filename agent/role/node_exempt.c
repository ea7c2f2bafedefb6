// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a node exempts from its own limits, unasked. Sessions to the upstream are known by the addresses that are dialled: an address is
 * exempt before the first packet goes there, whether the configuration has it, a name server, or a server that told of another. A name can
 * only be dialled once it is resolved, so where the upstream is one the name servers are exempt as well.
 */
#include "role/node.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "net/address.h"
#include "net/dial.h"

#define RESOLV_CONF "/etc/resolv.conf"

enum { DHCP_SERVER = 67, DHCP_CLIENT = 68, DHCP6_CLIENT = 546, DHCP6_SERVER = 547, DNS = 53 };

/* Does a rule say these ports? Then they are its, and not exempt. */
static bool is_named(const struct lg_rules *rules, uint16_t lo, uint16_t hi)
{
	for (size_t i = 0; i < rules->n; i++) {
		const struct lg_ranges *ports = &rules->v[i].match.destination_ports;

		for (size_t k = 0; k < ports->n; k++)
			if (ports->v[k].lo >= lo && ports->v[k].hi <= hi)
				return true;
	}
	return false;
}

static struct lg_exemption *own_add(struct lg_own_exemptions *own, const char *name, uint8_t protocol)
{
	struct lg_exemption *e = &own->v[own->n++];

	memset(e, 0, sizeof(*e));
	snprintf(e->name, sizeof(e->name), "%s", name);
	e->is_bounded = true;
	e->match.has_protocol = true;
	e->match.protocol = protocol;
	return e;
}

/* By destination alone: most rules look at that anyway, so it costs packets nothing. */
static void dhcp_add(struct lg_own_exemptions *own, const struct lg_rules *rules, const char *name, uint16_t lo, uint16_t hi)
{
	if (!is_named(rules, lo, hi))
		own_add(own, name, IPPROTO_UDP)->match.destination_ports = (struct lg_ranges){ .n = 1, .v = { { lo, hi } } };
}

/* false for a name, which could become another address at any time. */
static bool address_of(const char *host, struct lg_prefix *ret)
{
	struct lg_prefix p = { .family = 4, .len = 32, .addr = { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET, host, p.addr + 12) != 1) {
		p = (struct lg_prefix){ .family = 6, .len = 128 };
		if (inet_pton(AF_INET6, host, p.addr) != 1)
			return false;
	}
	*ret = p;
	return true;
}

/* Both ways of what is asked at a port of somebody, and answered from there. */
static void service_add(struct lg_own_exemptions *own, const char *name, uint8_t protocol, const struct lg_node_peer *peer)
{
	const struct lg_ranges port = { .n = 1, .v = { { peer->port, peer->port } } };
	char text[LG_NAME_LEN];
	struct lg_exemption *in, *out;
	struct lg_prefix *at;

	if (own->n_peers == LG_OWN_PEERS_MAX)
		return;
	at = &own->peers[own->n_peers++];
	*at = peer->prefix;
	snprintf(text, sizeof(text), "%s-in", name);
	in = own_add(own, text, protocol);
	in->match.directions = 1;
	in->match.source = (struct lg_prefix_list){ .n = 1, .v = at };
	in->match.source_ports = port;
	/* Of TCP only what can belong to a session that is there. */
	if (protocol == IPPROTO_TCP)
		in->match.tcp_flags.mask = in->match.tcp_flags.value = 0x10;
	snprintf(text, sizeof(text), "%s-out", name);
	out = own_add(own, text, protocol);
	out->match.directions = 2;
	out->match.destination = (struct lg_prefix_list){ .n = 1, .v = at };
	out->match.destination_ports = port;
}

/* ---- upstreams ---- */

static bool is_same_peer(const struct lg_node_peer *a, const struct lg_node_peer *b)
{
	return a->port == b->port && a->prefix.family == b->prefix.family && memcmp(a->prefix.addr, b->prefix.addr, 16) == 0;
}

static bool is_dialled(const struct lg_node *n, const struct lg_node_peer *peer)
{
	for (size_t i = 0; i < n->n_dialled; i++)
		if (is_same_peer(&n->dialled[i], peer))
			return true;
	return false;
}

static void resolvers_add(struct lg_own_exemptions *own)
{
	FILE *f = fopen(RESOLV_CONF, "re");
	struct lg_node_peer peer = { .port = DNS };
	char line[256], host[64];

	while (f && fgets(line, sizeof(line), f) && own->n_peers < LG_OWN_PEERS_MAX)
		if (sscanf(line, " nameserver %63s", host) == 1 && address_of(host, &peer.prefix))
			service_add(own, "resolver", IPPROTO_UDP, &peer);
	if (f)
		fclose(f);
}

/* Whether the configured upstream is written as an address, and which. */
static bool is_upstream_address(const struct lg_node *n, struct lg_node_peer *ret)
{
	struct lg_address address;
	struct lg_complaint c;

	if (lg_address_parse(n->config.upstream, true, &address, &c) < 0)
		return false;
	ret->port = address.port;
	return address_of(address.host, &ret->prefix);
}

static void upstreams_add(struct lg_own_exemptions *own, const struct lg_node *n)
{
	struct lg_node_peer peer;

	for (size_t i = 0; i < n->n_dialled; i++)
		service_add(own, "upstream", IPPROTO_TCP, &n->dialled[i]);
	if (n->config.upstream[0] && !is_upstream_address(n, &peer))
		resolvers_add(own);
}

void lg_node_exemptions(const struct lg_node *n, const struct lg_rules *rules, struct lg_own_exemptions *ret)
{
	ret->n = ret->n_peers = 0;
	dhcp_add(ret, rules, "dhcp", DHCP_SERVER, DHCP_CLIENT);
	dhcp_add(ret, rules, "dhcpv6", DHCP6_CLIENT, DHCP6_SERVER);
	upstreams_add(ret, n);
}

static bool peer_of(const struct sockaddr *sa, struct lg_node_peer *ret)
{
	const struct sockaddr_in *v4 = (const void *)sa;
	const struct sockaddr_in6 *v6 = (const void *)sa;

	if (sa->sa_family == AF_INET) {
		*ret = (struct lg_node_peer){ .port = ntohs(v4->sin_port) };
		ret->prefix = (struct lg_prefix){ .family = 4, .len = 32, .addr = { [10] = 0xff, [11] = 0xff } };
		memcpy(ret->prefix.addr + 12, &v4->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		*ret = (struct lg_node_peer){ .port = ntohs(v6->sin6_port) };
		ret->prefix = (struct lg_prefix){ .family = 6, .len = 128 };
		memcpy(ret->prefix.addr, &v6->sin6_addr, 16);
	} else {
		return false;
	}
	return true;
}

/* Of many addresses those that were new last are exempt. */
static void on_dial(void *arg, const struct sockaddr *sa)
{
	struct lg_complaint c = { 0 };
	struct lg_node *n = arg;
	struct lg_node_peer peer;
	char text[LG_PEER_LEN];

	if (!peer_of(sa, &peer) || is_dialled(n, &peer))
		return;
	if (n->n_dialled == LG_DIALLED_MAX)
		memmove(n->dialled, n->dialled + 1, --n->n_dialled * sizeof(n->dialled[0]));
	n->dialled[n->n_dialled++] = peer;
	if (lg_node_rules_apply(n, n->rules, NULL, &c) == 0)
		return;
	lg_address_format(sa, text);
	lg_warn("upstream %s: cannot be exempted from this host's own limits: %s", text, c.text);
}

void lg_node_exempt_start(struct lg_node *n)
{
	/* What is written as an address is exempt from the first rules on. */
	if (n->config.upstream[0] && is_upstream_address(n, &n->dialled[0]))
		n->n_dialled = 1;
	lg_dial_observe(on_dial, n);
}

void lg_node_exempt_stop(void)
{
	lg_dial_observe(NULL, NULL);
}
