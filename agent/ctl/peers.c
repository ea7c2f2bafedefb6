// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/peers.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"

#define SSH_PORT 22
#define TCP_ESTABLISHED 1
#define ANCESTORS_MAX 16	/* processes between this one and sshd: shell, sudo, su, screen and the like */

struct gathering {
	struct lg_peer *v;
	size_t n;
	uint16_t ports[2];	/* of sshd */
};

static void peer_add(struct gathering *g, const struct lg_peer *peer)
{
	for (size_t i = 0; i < g->n; i++)
		if (memcmp(g->v[i].peer, peer->peer, sizeof(peer->peer)) == 0 && g->v[i].peer_port == peer->peer_port)
			return;
	if (g->n < LG_CTL_PEERS_MAX)
		g->v[g->n++] = *peer;
}

/* ---- SSH_CONNECTION ---- */

static bool address_read(const char *text, uint8_t ret[16])
{
	struct lg_complaint c;
	uint8_t family, len;
	char plain[64];

	/* Of a link-local address sshd writes the interface behind a %. */
	snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(text, "%"), text);
	return lg_prefix_parse(plain, ret, &family, &len, &c) == 0;
}

/* "203.0.113.5 50000 192.0.2.1 22" */
static bool connection_read(const char *text, struct lg_peer *ret)
{
	char peer[64], local[64];
	struct lg_peer p = { .peer_port = 0 };

	if (sscanf(text, "%63s %" SCNu16 " %63s %" SCNu16, peer, &p.peer_port, local, &p.local_port) != 4)
		return false;
	if (!address_read(peer, p.peer) || !address_read(local, p.local))
		return false;
	*ret = p;
	return true;
}

static bool environ_search(pid_t pid, struct lg_peer *ret)
{
	static const char name[] = "SSH_CONNECTION=";
	char path[64], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	f = fopen(path, "re");
	while (f && !found && getdelim(&line, &size, '\0', f) > 0)
		if (strncmp(line, name, sizeof(name) - 1) == 0)
			found = connection_read(line + sizeof(name) - 1, ret);
	if (f)
		fclose(f);
	free(line);
	return found;
}

/* 0: there is none. */
static pid_t parent_of(pid_t pid)
{
	char path[64], line[512], *behind;
	int parent = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	/* The name stands in brackets, and may have some itself. */
	behind = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return behind && sscanf(behind + 1, " %*c %d", &parent) == 1 && parent > 0 ? parent : 0;
}

static void caller_add(struct gathering *g)
{
	const char *own = getenv("SSH_CONNECTION");
	struct lg_peer peer;
	bool found = own && connection_read(own, &peer);
	pid_t pid = getppid();

	for (int i = 0; !found && pid && i < ANCESTORS_MAX; i++, pid = parent_of(pid))
		found = environ_search(pid, &peer);
	if (!found)
		return;
	peer_add(g, &peer);
	g->ports[1] = peer.local_port;
}

/* ---- sockets ---- */

/* As /proc/net/tcp writes addresses: words of 32 bits, each in host order, in hex. */
static bool hex_read(const char *text, uint8_t ret[16])
{
	size_t len = strlen(text), n = len / 8;
	uint32_t word;

	if (len != 8 && len != 32)
		return false;
	memset(ret, 0, 16);
	if (n == 1)
		ret[10] = ret[11] = 0xff;
	for (size_t i = 0; i < n; i++) {
		if (sscanf(text + 8 * i, "%8" SCNx32, &word) != 1)
			return false;
		memcpy(ret + (n == 1 ? 12 : 4 * i), &word, sizeof(word));
	}
	return true;
}

static void sockets_add(struct gathering *g, const char *path)
{
	char line[512], local[33], peer[33];
	FILE *f = fopen(path, "re");
	unsigned int state;
	struct lg_peer p;

	while (f && fgets(line, sizeof(line), f)) {
		memset(&p, 0, sizeof(p));
		if (sscanf(line, " %*d: %32[0-9A-F]:%" SCNx16 " %32[0-9A-F]:%" SCNx16 " %x", local, &p.local_port, peer, &p.peer_port,
			   &state) != 5)
			continue;
		if (state != TCP_ESTABLISHED || (p.local_port != g->ports[0] && p.local_port != g->ports[1]))
			continue;
		if (hex_read(local, p.local) && hex_read(peer, p.peer))
			peer_add(g, &p);
	}
	if (f)
		fclose(f);
}

/* ---- the interface ---- */

static bool is_address(const struct sockaddr *sa, const uint8_t addr[16])
{
	if (sa && sa->sa_family == AF_INET)
		return lg_addr_is_mapped(addr) && memcmp(&((const struct sockaddr_in *)sa)->sin_addr, addr + 12, 4) == 0;
	return sa && sa->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)sa)->sin6_addr, addr, 16) == 0;
}

static void interfaces_fill(struct gathering *g)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		for (size_t k = 0; k < g->n; k++)
			if (is_address(i->ifa_addr, g->v[k].local))
				snprintf(g->v[k].interface, sizeof(g->v[k].interface), "%s", i->ifa_name);
	freeifaddrs(all);
}

size_t lg_ctl_peers(struct lg_peer ret[LG_CTL_PEERS_MAX])
{
	struct gathering g = { .v = ret, .ports = { SSH_PORT, SSH_PORT } };

	caller_add(&g);
	sockets_add(&g, "/proc/self/net/tcp");
	sockets_add(&g, "/proc/self/net/tcp6");
	interfaces_fill(&g);
	return g.n;
}

json_t *lg_ctl_peers_json(void)
{
	static struct lg_peer peers[LG_CTL_PEERS_MAX];
	size_t n = lg_ctl_peers(peers);
	json_t *list = json_array();
	char peer[LG_IP_TEXT_LEN], local[LG_IP_TEXT_LEN];

	for (size_t i = 0; i < n; i++) {
		lg_addr_format(peers[i].peer, peer, sizeof(peer));
		lg_addr_format(peers[i].local, local, sizeof(local));
		json_array_append_new(list, json_pack("{s:s, s:i, s:s, s:i, s:s}", "peer", peer, "peer_port", (int)peers[i].peer_port,
						      "local", local, "local_port", (int)peers[i].local_port, "interface",
						      peers[i].interface));
	}
	return list;
}
