// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The TCP sockets of this network namespace, as the kernel lists them over netlink. */
#include "kern/sockets.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

struct dump {
	uint16_t port;		/* of the sockets' own end; 0: any */
	uint32_t states;	/* 1 << TCP_ESTABLISHED and so on */
	int (*fn)(void *arg, const struct lg_socket *socket);
	void *arg;
	int stopped; /* with this result */
};

static void address_of(uint8_t family, const __be32 from[4], uint8_t ret[16])
{
	if (family == AF_INET6) {
		memcpy(ret, from, 16);
		return;
	}
	memset(ret, 0, 10);
	memset(ret + 10, 0xff, 2);
	memcpy(ret + 12, from, 4);
}

static int one(const struct nlmsghdr *message, void *data)
{
	const struct inet_diag_msg *m = mnl_nlmsg_get_payload(message);
	struct dump *dump = data;
	struct lg_socket socket;

	if (mnl_nlmsg_get_payload_len(message) < sizeof(*m))
		return MNL_CB_OK;
	socket.local_port = ntohs(m->id.idiag_sport);
	socket.peer_port = ntohs(m->id.idiag_dport);
	socket.is_listening = m->idiag_state == TCP_LISTEN;
	socket.is_open = !socket.is_listening && m->idiag_state != TCP_SYN_SENT && m->idiag_state != TCP_SYN_RECV;
	address_of(m->idiag_family, m->id.idiag_src, socket.local);
	address_of(m->idiag_family, m->id.idiag_dst, socket.peer);
	dump->stopped = dump->fn(dump->arg, &socket);
	return dump->stopped ? MNL_CB_STOP : MNL_CB_OK;
}

static int family_dump(struct mnl_socket *nl, uint8_t family, struct dump *dump)
{
	char buf[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *message = mnl_nlmsg_put_header(buf);
	struct inet_diag_req_v2 *request;
	ssize_t n;
	int r = MNL_CB_OK;

	message->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	message->nlmsg_seq = family;
	request = mnl_nlmsg_put_extra_header(message, sizeof(*request));
	*request = (struct inet_diag_req_v2){ .sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = dump->states,
					      .id.idiag_sport = htons(dump->port) };
	if (mnl_socket_sendto(nl, message, message->nlmsg_len) < 0)
		return -errno;
	while (r > MNL_CB_STOP) {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		r = mnl_cb_run(buf, (size_t)n, family, mnl_socket_get_portid(nl), one, dump);
		if (r < 0)
			return -errno;
	}
	return 0;
}

static int dump_all(struct dump *dump)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC);
	int r;

	if (!nl)
		return -errno;
	r = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : 0;
	if (r == 0)
		r = family_dump(nl, AF_INET, dump);
	if (r == 0 && !dump->stopped)
		r = family_dump(nl, AF_INET6, dump);
	mnl_socket_close(nl);
	return r < 0 ? r : dump->stopped;
}

int lg_sockets_each(int (*fn)(void *arg, const struct lg_socket *socket), void *arg)
{
	struct dump dump = { .states = 0xfffu & ~(1u << TCP_TIME_WAIT | 1u << TCP_CLOSE), .fn = fn, .arg = arg };

	return dump_all(&dump);
}

int lg_sockets_at(uint16_t port, int (*fn)(void *arg, const struct lg_socket *socket), void *arg)
{
	struct dump dump = { .port = port, .states = 1u << TCP_ESTABLISHED, .fn = fn, .arg = arg };

	return dump_all(&dump);
}
