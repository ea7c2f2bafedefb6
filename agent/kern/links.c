// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Interfaces come and go; rtnetlink tells, but loses news when its socket overruns. So a table of what was told is
 * kept, and after an overrun (and at the start) all interfaces are listed again: what is new is told, and what is in
 * the table but not in the list is gone.
 *
 * The list arrives on the same socket, and is asked for only when nothing waits there. Thus all that arrives from then
 * on is younger than the list's beginning, and old news cannot undo it. And the kernel reports no second overrun until
 * the socket was read empty: a list asked for earlier could miss what is lost meanwhile, and nobody would know. It also
 * allows one list at a time.
 */
#include "kern/internal.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <string.h>

#define TABLE_SLOTS 1024 /* chains of the table; machines with more interfaces have longer ones */

struct iface {
	struct iface *next;
	uint32_t ifindex;
	uint32_t round; /* list in which it was last seen */
	bool up;
	char name[IFNAMSIZ];
};

struct lg_links {
	struct mnl_socket *nl;
	void (*fn)(void *arg, const char *ifname, uint32_t ifindex, bool up);
	void *arg;
	uint32_t round;	   /* of the list under way, also its netlink sequence */
	bool listing;	   /* a list is under way */
	bool list_again;   /* something was missed since it was asked for */
	int n_news;	   /* told in this read */
	struct iface *table[TABLE_SLOTS];
};

static struct iface **find(struct lg_links *links, uint32_t ifindex)
{
	struct iface **at = &links->table[ifindex % TABLE_SLOTS];

	while (*at && (*at)->ifindex != ifindex)
		at = &(*at)->next;
	return at;
}

static void tell(struct lg_links *links, const char *ifname, uint32_t ifindex, bool up)
{
	links->n_news++;
	links->fn(links->arg, ifname, ifindex, up);
}

static void forget(struct lg_links *links, struct iface **at)
{
	struct iface *gone = *at;

	*at = gone->next;
	tell(links, gone->name, gone->ifindex, false);
	free(gone);
}

static void sweep(struct lg_links *links)
{
	for (size_t i = 0; i < TABLE_SLOTS; i++) {
		struct iface **at = &links->table[i];

		while (*at) {
			if ((*at)->round == links->round)
				at = &(*at)->next;
			else
				forget(links, at);
		}
	}
}

static int seen(struct lg_links *links, uint32_t ifindex, const char *name, bool up)
{
	struct iface **at = find(links, ifindex);
	struct iface *iface;

	/* A new name is for our user another interface: the old one goes. */
	if (*at && strcmp((*at)->name, name) != 0)
		forget(links, at);
	at = find(links, ifindex);
	iface = *at;
	if (!iface) {
		iface = calloc(1, sizeof(*iface));
		if (!iface)
			return -ENOMEM;
		iface->ifindex = ifindex;
		strncpy(iface->name, name, sizeof(iface->name) - 1);
		*at = iface;
		tell(links, name, ifindex, true);
	} else if (up && !iface->up) {
		tell(links, name, ifindex, true);
	}
	iface->up = up;
	iface->round = links->round;
	return 0;
}

static int attr_name(const struct nlattr *attr, void *arg)
{
	const char **name = arg;

	if (mnl_attr_get_type(attr) == IFLA_IFNAME && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
		*name = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

static int on_link(struct lg_links *links, const struct nlmsghdr *nlh)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	const char *name = NULL;
	struct iface **at;

	if (nlh->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return 0;
	/* A bridge says RTM_DELLINK of family AF_BRIDGE when an interface leaves it; the interface is still there. */
	if (info->ifi_family != AF_UNSPEC)
		return 0;
	if (nlh->nlmsg_type == RTM_DELLINK) {
		at = find(links, (uint32_t)info->ifi_index);
		if (*at)
			forget(links, at);
		return 0;
	}
	if (nlh->nlmsg_type != RTM_NEWLINK)
		return 0;
	mnl_attr_parse(nlh, sizeof(*info), attr_name, &name);
	if (!name)
		return 0;
	return seen(links, (uint32_t)info->ifi_index, name, info->ifi_flags & IFF_UP);
}

static int ask_list(struct lg_links *links)
{
	_Alignas(struct nlmsghdr) char buf[64];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *info;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = ++links->round;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));
	info->ifi_family = AF_UNSPEC;
	if (mnl_socket_sendto(links->nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	links->listing = true;
	links->list_again = false;
	return 0;
}

static int on_message(struct lg_links *links, const struct nlmsghdr *nlh)
{
	bool of_list = links->listing && nlh->nlmsg_seq == links->round &&
		       nlh->nlmsg_pid == mnl_socket_get_portid(links->nl);

	if (of_list && (nlh->nlmsg_flags & NLM_F_DUMP_INTR))
		links->list_again = true;
	if (of_list && nlh->nlmsg_type == NLMSG_ERROR) {
		links->listing = false;
		return -EIO;
	}
	if (of_list && nlh->nlmsg_type == NLMSG_DONE) {
		links->listing = false;
		if (!links->list_again)
			sweep(links);
		return 0;
	}
	return on_link(links, nlh);
}

static int on_messages(struct lg_links *links, const char *buf, ssize_t n_bytes)
{
	const struct nlmsghdr *nlh = (const void *)buf;
	int left = (int)n_bytes;
	int r = 0;

	for (; r == 0 && mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
		r = on_message(links, nlh);
	return r;
}

int lg_links_read(struct lg_links *links)
{
	_Alignas(struct nlmsghdr) char buf[32768]; /* what the kernel fills at most in one go */
	ssize_t n;
	int r = 0;

	links->n_news = 0;
	while (r == 0) {
		n = mnl_socket_recvfrom(links->nl, buf, sizeof(buf));
		if (n >= 0) {
			r = on_messages(links, buf, n);
		} else if (errno == ENOBUFS) {
			links->list_again = true;
		} else if (errno == EAGAIN) {
			if (links->listing || !links->list_again)
				break;
			r = ask_list(links);
		} else if (errno != EINTR) {
			r = -errno;
		}
	}
	/* A read that failed may have missed something; the next one asks for it. */
	links->list_again |= r < 0;
	return r < 0 ? r : links->n_news;
}

int lg_links_new(void (*fn)(void *arg, const char *ifname, uint32_t ifindex, bool up), void *arg,
		 struct lg_links **ret_links)
{
	_cleanup_(lg_links_free) struct lg_links *links = NULL;
	int r;

	links = calloc(1, sizeof(*links));
	if (!links)
		return -ENOMEM;
	links->fn = fn;
	links->arg = arg;
	links->nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (!links->nl)
		return -errno;
	if (mnl_socket_bind(links->nl, RTMGRP_LINK, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	r = ask_list(links);
	if (r < 0)
		return r;
	*ret_links = TAKE(links);
	return 0;
}

int lg_links_fd(const struct lg_links *links)
{
	return mnl_socket_get_fd(links->nl);
}

struct lg_links *lg_links_free(struct lg_links *links)
{
	if (!links)
		return NULL;
	if (links->nl)
		mnl_socket_close(links->nl);
	for (size_t i = 0; i < TABLE_SLOTS; i++) {
		for (struct iface *iface = links->table[i], *next; iface; iface = next) {
			next = iface->next;
			free(iface);
		}
	}
	free(links);
	return NULL;
}
