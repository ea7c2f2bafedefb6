// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "kern/sessions.h"

#define ANCESTORS_MAX 16	/* processes between this one and sshd: shell, sudo, su, screen and the like */

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

/* The port of sshd that it came by; 0: it came otherwise. */
static uint16_t caller_add(struct lg_sessions *sessions)
{
	const char *own = getenv("SSH_CONNECTION");
	struct lg_peer peer;
	bool found = own && connection_read(own, &peer);
	pid_t pid = getppid();

	for (int i = 0; !found && pid && i < ANCESTORS_MAX; i++, pid = parent_of(pid))
		found = environ_search(pid, &peer);
	if (!found)
		return 0;
	lg_sessions_add(sessions, &peer);
	return peer.local_port;
}

/* Where the kernel tells of no sockets there is at least the caller. */
size_t lg_ctl_peers(struct lg_peer ret[LG_CTL_PEERS_MAX])
{
	struct lg_sessions sessions = { .v = ret, .max = LG_CTL_PEERS_MAX };
	uint16_t port = caller_add(&sessions);

	lg_sessions_find(&sessions, LG_SSH_PORT);
	if (port && port != LG_SSH_PORT)
		lg_sessions_find(&sessions, port);
	lg_sessions_place(&sessions);
	return sessions.n;
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
