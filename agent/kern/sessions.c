// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/sessions.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "kern/sockets.h"

void lg_sessions_add(struct lg_sessions *sessions, const struct lg_peer *peer)
{
	for (size_t i = 0; i < sessions->n; i++)
		if (memcmp(sessions->v[i].peer, peer->peer, sizeof(peer->peer)) == 0 && sessions->v[i].peer_port == peer->peer_port)
			return;
	if (sessions->n < sessions->max)
		sessions->v[sessions->n++] = *peer;
}

static int one(void *arg, const struct lg_socket *socket)
{
	struct lg_peer peer = { .peer_port = socket->peer_port, .local_port = socket->local_port };
	struct lg_sessions *sessions = arg;

	memcpy(peer.peer, socket->peer, sizeof(peer.peer));
	memcpy(peer.local, socket->local, sizeof(peer.local));
	lg_sessions_add(sessions, &peer);
	return sessions->n == sessions->max;
}

int lg_sessions_find(struct lg_sessions *sessions, uint16_t port)
{
	int r = lg_sockets_at(port, one, sessions);

	return r < 0 ? r : 0;
}

static bool is_address(const struct sockaddr *sa, const uint8_t addr[16])
{
	if (sa && sa->sa_family == AF_INET)
		return lg_addr_is_mapped(addr) && memcmp(&((const struct sockaddr_in *)sa)->sin_addr, addr + 12, 4) == 0;
	return sa && sa->sa_family == AF_INET6 && memcmp(&((const struct sockaddr_in6 *)sa)->sin6_addr, addr, 16) == 0;
}

void lg_sessions_place(struct lg_sessions *sessions)
{
	struct ifaddrs *all;

	if (!sessions->n || getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		for (size_t k = 0; k < sessions->n; k++)
			if (is_address(i->ifa_addr, sessions->v[k].local))
				snprintf(sessions->v[k].interface, sizeof(sessions->v[k].interface), "%s", i->ifa_name);
	freeifaddrs(all);
}
