// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/conntrack.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/num.h"

#define COUNT_PATH "/proc/sys/net/netfilter/nf_conntrack_count"

struct lg_conntrack {
	struct mnl_socket *nl;
	uint32_t seq;
};

/* As one end sends. */
struct tuple {
	uint8_t source[16], destination[16];
	uint16_t source_port, destination_port; /* big endian */
};

struct found {
	struct tuple original, reply;
};

static bool is_in_use(void)
{
	FILE *f = fopen(COUNT_PATH, "re");
	unsigned long n = 0;
	bool is = f && fscanf(f, "%lu", &n) == 1 && n > 0;

	if (f)
		fclose(f);
	return is;
}

int lg_conntrack_open(struct lg_conntrack **ret)
{
	_cleanup_(lg_conntrack_free) struct lg_conntrack *ct = NULL;

	if (!is_in_use())
		return 0;
	ct = calloc(1, sizeof(*ct));
	if (!ct)
		return -ENOMEM;
	ct->nl = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!ct->nl || mnl_socket_bind(ct->nl, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	*ret = TAKE(ct);
	return 1;
}

struct lg_conntrack *lg_conntrack_free(struct lg_conntrack *ct)
{
	if (!ct)
		return NULL;
	if (ct->nl)
		mnl_socket_close(ct->nl);
	free(ct);
	return NULL;
}

/* ---- a question ---- */

static void tuple_put(struct nlmsghdr *message, const struct tuple *t, bool is4)
{
	struct nlattr *tuple = mnl_attr_nest_start(message, CTA_TUPLE_ORIG), *part;
	size_t skip = is4 ? 12 : 0, len = is4 ? 4 : 16;

	part = mnl_attr_nest_start(message, CTA_TUPLE_IP);
	mnl_attr_put(message, is4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, len, t->source + skip);
	mnl_attr_put(message, is4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, len, t->destination + skip);
	mnl_attr_nest_end(message, part);
	part = mnl_attr_nest_start(message, CTA_TUPLE_PROTO);
	mnl_attr_put_u8(message, CTA_PROTO_NUM, IPPROTO_TCP);
	mnl_attr_put_u16(message, CTA_PROTO_SRC_PORT, t->source_port);
	mnl_attr_put_u16(message, CTA_PROTO_DST_PORT, t->destination_port);
	mnl_attr_nest_end(message, part);
	mnl_attr_nest_end(message, tuple);
}

/* ---- an answer ---- */

static void address_get(const struct nlattr *attr, uint8_t ret[16])
{
	uint16_t len = mnl_attr_get_payload_len(attr);

	if (len == 16) {
		memcpy(ret, mnl_attr_get_payload(attr), 16);
	} else if (len == 4) {
		memset(ret, 0, 10);
		memset(ret + 10, 0xff, 2);
		memcpy(ret + 12, mnl_attr_get_payload(attr), 4);
	}
}

static int ip_get(const struct nlattr *attr, void *data)
{
	uint16_t type = mnl_attr_get_type(attr);
	struct tuple *t = data;

	if (type == CTA_IP_V4_SRC || type == CTA_IP_V6_SRC)
		address_get(attr, t->source);
	else if (type == CTA_IP_V4_DST || type == CTA_IP_V6_DST)
		address_get(attr, t->destination);
	return MNL_CB_OK;
}

static int ports_get(const struct nlattr *attr, void *data)
{
	uint16_t type = mnl_attr_get_type(attr);
	struct tuple *t = data;

	if (mnl_attr_get_payload_len(attr) < sizeof(uint16_t))
		return MNL_CB_OK;
	if (type == CTA_PROTO_SRC_PORT)
		t->source_port = mnl_attr_get_u16(attr);
	else if (type == CTA_PROTO_DST_PORT)
		t->destination_port = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

static int tuple_get(const struct nlattr *attr, void *data)
{
	uint16_t type = mnl_attr_get_type(attr);

	if (type == CTA_TUPLE_IP)
		return mnl_attr_parse_nested(attr, ip_get, data);
	return type == CTA_TUPLE_PROTO ? mnl_attr_parse_nested(attr, ports_get, data) : MNL_CB_OK;
}

static int entry_get(const struct nlattr *attr, void *data)
{
	uint16_t type = mnl_attr_get_type(attr);
	struct found *f = data;

	if (type == CTA_TUPLE_ORIG)
		return mnl_attr_parse_nested(attr, tuple_get, &f->original);
	return type == CTA_TUPLE_REPLY ? mnl_attr_parse_nested(attr, tuple_get, &f->reply) : MNL_CB_OK;
}

static int on_entry(const struct nlmsghdr *message, void *data)
{
	int r = mnl_attr_parse(message, sizeof(struct nfgenmsg), entry_get, data);

	return r < 0 ? r : MNL_CB_STOP;
}

static bool is_mirrored(const struct found *f)
{
	return memcmp(f->original.source, f->reply.destination, 16) == 0 && memcmp(f->original.destination, f->reply.source, 16) == 0 &&
	       f->original.source_port == f->reply.destination_port && f->original.destination_port == f->reply.source_port;
}

/* -ENOENT: nothing is tracked by this tuple, neither as what was first sent nor as its answer. */
static int ask(struct lg_conntrack *ct, const struct tuple *t)
{
	char buf[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct nlmsghdr *message = mnl_nlmsg_put_header(buf);
	bool is4 = lg_addr_is_mapped(t->source);
	struct found found = { 0 };
	struct nfgenmsg *head;
	ssize_t n;

	message->nlmsg_type = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET;
	message->nlmsg_flags = NLM_F_REQUEST;
	message->nlmsg_seq = ++ct->seq;
	head = mnl_nlmsg_put_extra_header(message, sizeof(*head));
	*head = (struct nfgenmsg){ .nfgen_family = is4 ? AF_INET : AF_INET6, .version = NFNETLINK_V0 };
	tuple_put(message, t, is4);
	if (mnl_socket_sendto(ct->nl, message, message->nlmsg_len) < 0)
		return -errno;
	n = mnl_socket_recvfrom(ct->nl, buf, sizeof(buf));
	if (n < 0 || mnl_cb_run(buf, (size_t)n, ct->seq, mnl_socket_get_portid(ct->nl), on_entry, &found) < 0)
		return -errno;
	return !is_mirrored(&found);
}

int lg_conntrack_is_translated(struct lg_conntrack *ct, const struct lg_conn_key *key, bool of_b)
{
	struct tuple there = { .source_port = htons(of_b ? key->b_port : key->a_port),
			       .destination_port = htons(of_b ? key->a_port : key->b_port) }, back;
	int r;

	memcpy(there.source, of_b ? key->b : key->a, 16);
	memcpy(there.destination, of_b ? key->a : key->b, 16);
	r = ask(ct, &there);
	if (r != -ENOENT)
		return r;
	/* What leaves with another source than it came from is known by its answers. */
	back = (struct tuple){ .source_port = there.destination_port, .destination_port = there.source_port };
	memcpy(back.source, there.destination, 16);
	memcpy(back.destination, there.source, 16);
	r = ask(ct, &back);
	return r == -ENOENT ? 0 : r;
}
