// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What queues the packets that leave by an interface: one discipline, or with several queues one below `mq` for each. */
#include "kern/kern.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_ether.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

#define PARENT_MAJOR(parent) ((parent) >> 16)

struct look {
	uint32_t ifindex;
	bool has_queues; /* the root has others below it, one for each queue */
	uint32_t major;	 /* of such a root: 0 if the kernel made it */
	uint32_t n_fq, n_other;
	char other[LG_QDISC_LEN];
};

static int kind_attr(const struct nlattr *attr, void *data)
{
	const char **kind = data;

	if (mnl_attr_get_type(attr) == TCA_KIND && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
		*kind = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

static void discipline_add(struct look *look, const char *kind)
{
	if (strcmp(kind, "fq") == 0) {
		look->n_fq++;
		return;
	}
	look->n_other++;
	snprintf(look->other, sizeof(look->other), "%s", kind);
}

/* The kernel tells of a root before what is below it. */
static int qdisc_message(const struct nlmsghdr *nlh, void *data)
{
	const struct tcmsg *tc = mnl_nlmsg_get_payload(nlh);
	struct look *look = data;
	const char *kind = NULL;

	if (nlh->nlmsg_type != RTM_NEWQDISC || nlh->nlmsg_len < mnl_nlmsg_size(sizeof(*tc)) || (uint32_t)tc->tcm_ifindex != look->ifindex)
		return MNL_CB_OK;
	mnl_attr_parse(nlh, sizeof(*tc), kind_attr, &kind);
	if (!kind)
		return MNL_CB_OK;
	if (tc->tcm_parent == TC_H_ROOT && (strcmp(kind, "mq") == 0 || strcmp(kind, "mqprio") == 0)) {
		look->has_queues = true;
		look->major = PARENT_MAJOR(tc->tcm_handle);
	} else if (tc->tcm_parent == TC_H_ROOT || (look->has_queues && PARENT_MAJOR(tc->tcm_parent) == look->major)) {
		discipline_add(look, kind);
	}
	return MNL_CB_OK;
}

static int qdiscs_ask(struct mnl_socket *nl, struct look *look)
{
	static const struct timeval patience = { .tv_sec = 1 };
	char buf[8192];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	unsigned int seq = 1, portid = mnl_socket_get_portid(nl);
	struct tcmsg *tc;
	ssize_t n;
	int r;

	nlh->nlmsg_type = RTM_GETQDISC;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = seq;
	tc = mnl_nlmsg_put_extra_header(nlh, sizeof(*tc));
	tc->tcm_ifindex = (int)look->ifindex;
	if (setsockopt(mnl_socket_get_fd(nl), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	do {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		r = mnl_cb_run(buf, (size_t)n, seq, portid, qdisc_message, look);
	} while (r > MNL_CB_STOP);
	return r < 0 ? -errno : 0;
}

int lg_qdisc_is_fq(const char *ifname, char ret_other[LG_QDISC_LEN])
{
	struct look look = { .ifindex = if_nametoindex(ifname), .other = "none" };
	struct mnl_socket *nl;
	int r;

	if (!look.ifindex)
		return -ENODEV;
	nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!nl)
		return -errno;
	r = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : qdiscs_ask(nl, &look);
	mnl_socket_close(nl);
	if (r < 0)
		return r;
	snprintf(ret_other, LG_QDISC_LEN, "%s", look.other);
	return look.n_fq && !look.n_other;
}
