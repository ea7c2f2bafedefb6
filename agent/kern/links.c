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
 *
 * Also kept is which interface gets its packets from which: a bridge, bond, team or VRF from its ports, a VLAN or MAC-VLAN
 * from the device it is on. The device below a tunnel is none of these: it carries other packets. Nor is a veth's peer.
 */
#include "kern/internal.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX   8	 /* devices upon devices; the kernel allows no more */
#define TABLE_SLOTS 1024 /* chains of the table; machines with more interfaces have longer ones */

struct iface {
	struct iface *next;
	uint32_t ifindex;
	uint32_t round; /* list in which it was last seen */
	uint32_t master;    /* its packets go up to this one; 0: none */
	uint32_t below;	    /* its packets come up from this one; 0: none */
	bool has_ports;	    /* is a master; as of mark_masters() */
	bool up;
	char name[IFNAMSIZ];
};

/* What a message says of an interface. */
struct said {
	const char *name;
	const char *kind;
	const char *port_kind; /* what its master is */
	uint32_t master;
	uint32_t link;
	bool link_is_elsewhere; /* in another network namespace */
};

struct lg_links {
	struct mnl_socket *nl;
	void (*fn)(void *arg, const char *ifname, uint32_t ifindex, bool up);
	void *arg;
	uint32_t round;	   /* of the list under way, also its netlink sequence */
	bool listing;	   /* a list is under way */
	bool list_again;   /* something was missed since it was asked for */
	int n_news;	   /* told in this read */
	uint32_t n_changes; /* of who gets packets from whom */
	uint32_t marked_at; /* the number of changes when masters were marked */
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
	links->n_changes++;
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

/* Whether a name is in a list of them with blanks around each. */
static bool is_one_of(const char *name, const char *names)
{
	char padded[32];

	return name && snprintf(padded, sizeof(padded), " %s ", name) < (int)sizeof(padded) && strstr(names, padded);
}

static void relate(struct lg_links *links, struct iface *iface, const struct said *said)
{
	uint32_t master = is_one_of(said->port_kind, " bridge bond team vrf ") ? said->master : 0;
	uint32_t below = 0;

	if (!said->link_is_elsewhere && is_one_of(said->kind, " vlan macvlan macvtap ipvlan ipvtap "))
		below = said->link;
	if (iface->master != master || iface->below != below)
		links->n_changes++;
	iface->master = master;
	iface->below = below;
}

static int seen(struct lg_links *links, uint32_t ifindex, const struct said *said, bool up)
{
	struct iface **at = find(links, ifindex);
	const char *name = said->name;
	struct iface *iface;
	bool is_new;

	/* A new name is for our user another interface: the old one goes. */
	if (*at && strcmp((*at)->name, name) != 0)
		forget(links, at);
	at = find(links, ifindex);
	iface = *at;
	is_new = !iface;
	if (is_new) {
		iface = calloc(1, sizeof(*iface));
		if (!iface)
			return -ENOMEM;
		iface->ifindex = ifindex;
		strncpy(iface->name, name, sizeof(iface->name) - 1);
		*at = iface;
	}
	relate(links, iface, said);
	if (is_new || (up && !iface->up))
		tell(links, name, ifindex, true);
	iface->up = up;
	iface->round = links->round;
	return 0;
}

static int info_attr(const struct nlattr *attr, void *arg)
{
	struct said *said = arg;
	uint16_t type = mnl_attr_get_type(attr);

	if (type != IFLA_INFO_KIND && type != IFLA_INFO_SLAVE_KIND)
		return MNL_CB_OK;
	if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) < 0)
		return MNL_CB_OK;
	*(type == IFLA_INFO_KIND ? &said->kind : &said->port_kind) = mnl_attr_get_str(attr);
	return MNL_CB_OK;
}

static int link_attr(const struct nlattr *attr, void *arg)
{
	struct said *said = arg;
	bool is_u32 = mnl_attr_get_payload_len(attr) == sizeof(uint32_t);

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
			said->name = mnl_attr_get_str(attr);
		break;
	case IFLA_MASTER: said->master = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	case IFLA_LINK: said->link = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	case IFLA_LINK_NETNSID: said->link_is_elsewhere = true; break;
	case IFLA_LINKINFO: mnl_attr_parse_nested(attr, info_attr, said); break;
	default: break;
	}
	return MNL_CB_OK;
}

static int on_link(struct lg_links *links, const struct nlmsghdr *nlh)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	struct said said = { 0 };
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
	mnl_attr_parse(nlh, sizeof(*info), link_attr, &said);
	if (!said.name)
		return 0;
	return seen(links, (uint32_t)info->ifi_index, &said, info->ifi_flags & IFF_UP);
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

uint32_t lg_links_changes(const struct lg_links *links)
{
	return links->n_changes;
}

struct descent {
	struct lg_links *links;
	bool (*fn)(void *arg, const char *ifname);
	void *arg;
};

static bool descend(const struct descent *d, const struct iface *from, int depth);

static bool visit(const struct descent *d, const struct iface *iface, int depth)
{
	return d->fn(d->arg, iface->name) || descend(d, iface, depth);
}

static bool descend(const struct descent *d, const struct iface *from, int depth)
{
	const struct iface *below = from->below ? *find(d->links, from->below) : NULL;

	if (depth == DEPTH_MAX)
		return false;
	if (below && visit(d, below, depth + 1))
		return true;
	for (size_t i = 0; from->has_ports && i < TABLE_SLOTS; i++)
		for (const struct iface *port = d->links->table[i]; port; port = port->next)
			if (port->master == from->ifindex && visit(d, port, depth + 1))
				return true;
	return false;
}

/* A port may be told before its master is. */
static void mark_masters(struct lg_links *links)
{
	for (size_t i = 0; i < TABLE_SLOTS; i++) {
		for (struct iface *iface = links->table[i]; iface; iface = iface->next) {
			struct iface *master = iface->master ? *find(links, iface->master) : NULL;

			if (master)
				master->has_ports = true;
		}
	}
	links->marked_at = links->n_changes;
}

bool lg_links_below(struct lg_links *links, uint32_t ifindex, bool (*fn)(void *arg, const char *ifname), void *arg)
{
	const struct descent d = { links, fn, arg };
	const struct iface *from = *find(links, ifindex);

	if (links->marked_at != links->n_changes)
		mark_masters(links);
	return from && descend(&d, from, 0);
}

int lg_links_each(struct lg_links *links, void (*fn)(void *arg, const char *ifname, uint32_t ifindex), void *arg)
{
	int n = 0;

	for (size_t i = 0; i < TABLE_SLOTS; i++) {
		for (const struct iface *iface = links->table[i]; iface; iface = iface->next) {
			fn(arg, iface->name, iface->ifindex);
			n++;
		}
	}
	return n;
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
