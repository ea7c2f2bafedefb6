// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An interface as rtnetlink, ethtool and the netdev family tell of it. Nothing here asks for privileges. The list of all interfaces is
 * read, since only a child says what it stands on; ethtool is asked by its old system call, which every kernel has.
 */
#include "kern/facts.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/genetlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* Family "netdev", which came with kernel 6.3: younger than the headers of older distributions. */
#define NETDEV_FAMILY	   "netdev"
#define NETDEV_DEV_GET	   1
#define NETDEV_IFINDEX	   1
#define NETDEV_XDP_FEATURES 3

#define REPLY_BYTES 32768

/* ---- netlink ---- */

/* Sends a request and calls fn with each message of the answer. */
static int request(int bus, struct nlmsghdr *nlh, mnl_cb_t fn, void *arg)
{
	_Alignas(struct nlmsghdr) char buf[REPLY_BYTES];
	struct mnl_socket *nl;
	ssize_t n;
	int r;

	nl = mnl_socket_open2(bus, SOCK_CLOEXEC);
	if (!nl)
		return -errno;
	r = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 || mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0 ? -errno : MNL_CB_OK;
	while (r > MNL_CB_STOP) {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		r = n < 0 ? -1 : mnl_cb_run(buf, (size_t)n, 0, mnl_socket_get_portid(nl), fn, arg);
		r = r < 0 ? -errno : r;
		/* Without the flag of a list one message is the whole answer. */
		if (r > MNL_CB_STOP && !(nlh->nlmsg_flags & NLM_F_DUMP))
			r = MNL_CB_STOP;
	}
	mnl_socket_close(nl);
	return r;
}

/* ---- what a link is, and what it stands on ---- */

struct link {
	uint32_t ifindex, lower, master, mtu, rx_queues, tx_queues;
	bool lower_elsewhere; /* in another network namespace */
	char name[16], kind[16], port_kind[16];
};

static int info_attr(const struct nlattr *attr, void *arg)
{
	struct link *link = arg;

	if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) < 0 && mnl_attr_validate(attr, MNL_TYPE_STRING) < 0)
		return MNL_CB_OK;
	if (mnl_attr_get_type(attr) == IFLA_INFO_KIND)
		snprintf(link->kind, sizeof(link->kind), "%.*s", (int)mnl_attr_get_payload_len(attr), mnl_attr_get_str(attr));
	if (mnl_attr_get_type(attr) == IFLA_INFO_SLAVE_KIND)
		snprintf(link->port_kind, sizeof(link->port_kind), "%.*s", (int)mnl_attr_get_payload_len(attr), mnl_attr_get_str(attr));
	return MNL_CB_OK;
}

static int link_attr(const struct nlattr *attr, void *arg)
{
	bool is_u32 = mnl_attr_validate(attr, MNL_TYPE_U32) == 0;
	struct link *link = arg;

	switch (mnl_attr_get_type(attr)) {
	case IFLA_IFNAME:
		if (mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
			snprintf(link->name, sizeof(link->name), "%s", mnl_attr_get_str(attr));
		break;
	case IFLA_LINKINFO: mnl_attr_parse_nested(attr, info_attr, link); break;
	case IFLA_LINK_NETNSID: link->lower_elsewhere = true; break;
	case IFLA_MTU: link->mtu = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	case IFLA_LINK: link->lower = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	case IFLA_MASTER: link->master = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	case IFLA_NUM_RX_QUEUES: link->rx_queues = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	case IFLA_NUM_TX_QUEUES: link->tx_queues = is_u32 ? mnl_attr_get_u32(attr) : 0; break;
	default: break;
	}
	return MNL_CB_OK;
}

/* The two ends of a veth name each other, and a tunnel carries other packets than its device. */
static bool has_lower(const struct link *link)
{
	static const char *const kinds[] = { "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap" };

	for (size_t i = 0; link->lower && !link->lower_elsewhere && i < N_ELEMS(kinds); i++)
		if (strcmp(link->kind, kinds[i]) == 0)
			return true;
	return false;
}

static void own_link(struct lg_interface_facts *i, const struct link *link, unsigned int flags)
{
	i->is_up = flags & IFF_UP;
	i->is_loopback = flags & IFF_LOOPBACK;
	i->mtu = link->mtu;
	i->rx_queues = link->rx_queues;
	i->tx_queues = link->tx_queues;
	memcpy(i->kind, link->kind, sizeof(i->kind));
	memcpy(i->port_kind, link->port_kind, sizeof(i->port_kind));
	if (link->master && !if_indextoname(link->master, i->master))
		i->master[0] = '\0';
	if (has_lower(link) && !if_indextoname(link->lower, i->lower))
		i->lower[0] = '\0';
}

static int on_link(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(nlh);
	struct lg_interface_facts *i = arg;
	struct link link = { 0 };

	if (nlh->nlmsg_type != RTM_NEWLINK || nlh->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return MNL_CB_OK;
	link.ifindex = (uint32_t)info->ifi_index;
	mnl_attr_parse(nlh, sizeof(*info), link_attr, &link);
	if (link.ifindex == i->ifindex)
		own_link(i, &link, info->ifi_flags);
	i->n_ports += link.master == i->ifindex;
	if (!has_lower(&link) || link.lower != i->ifindex)
		return MNL_CB_OK;
	if (i->n_children < LG_CHILDREN_MAX)
		memcpy(i->children[i->n_children], link.name, sizeof(link.name));
	i->n_children++;
	return MNL_CB_OK;
}

static void links_read(bool all, struct lg_interface_facts *i)
{
	_Alignas(struct nlmsghdr) char buf[64];
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *info;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST | (all ? NLM_F_DUMP : 0);
	info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));
	info->ifi_family = AF_UNSPEC;
	info->ifi_index = all ? 0 : (int)i->ifindex;
	request(NETLINK_ROUTE, nlh, on_link, i);
}

/* ---- what its driver says of XDP ---- */

static int family_attr(const struct nlattr *attr, void *arg)
{
	if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID && mnl_attr_validate(attr, MNL_TYPE_U16) == 0)
		*(uint16_t *)arg = mnl_attr_get_u16(attr);
	return MNL_CB_OK;
}

static int on_family(const struct nlmsghdr *nlh, void *arg)
{
	return mnl_attr_parse(nlh, sizeof(struct genlmsghdr), family_attr, arg);
}

static struct nlmsghdr *genl_begin(void *buf, uint16_t family, uint8_t cmd)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct genlmsghdr *genl;

	nlh->nlmsg_type = family;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	genl = mnl_nlmsg_put_extra_header(nlh, sizeof(*genl));
	genl->cmd = cmd;
	genl->version = 1;
	return nlh;
}

static int features_attr(const struct nlattr *attr, void *arg)
{
	struct lg_interface_facts *i = arg;

	if (mnl_attr_get_type(attr) == NETDEV_XDP_FEATURES && mnl_attr_validate(attr, MNL_TYPE_U64) == 0) {
		i->xdp_features = mnl_attr_get_u64(attr);
		i->xdp_known = LG_YES;
	}
	return MNL_CB_OK;
}

static int on_features(const struct nlmsghdr *nlh, void *arg)
{
	return mnl_attr_parse(nlh, sizeof(struct genlmsghdr), features_attr, arg);
}

static void xdp_features_read(struct lg_interface_facts *i)
{
	_Alignas(struct nlmsghdr) char buf[128];
	struct nlmsghdr *nlh;
	uint16_t family = 0;

	nlh = genl_begin(buf, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
	mnl_attr_put_strz(nlh, CTRL_ATTR_FAMILY_NAME, NETDEV_FAMILY);
	if (request(NETLINK_GENERIC, nlh, on_family, &family) < 0 || !family)
		return;
	nlh = genl_begin(buf, family, NETDEV_DEV_GET);
	mnl_attr_put_u32(nlh, NETDEV_IFINDEX, i->ifindex);
	request(NETLINK_GENERIC, nlh, on_features, i);
}

/* ---- ethtool ---- */

static int ethtool(int fd, const char *ifname, void *data)
{
	struct ifreq ifr = { .ifr_data = data };

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	return ioctl(fd, SIOCETHTOOL, &ifr) < 0 ? -errno : 0;
}

static uint32_t features_count(int fd, const char *ifname)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t count;
	} ask = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES } };

	return ethtool(fd, ifname, &ask) == 0 && ask.info.sset_mask ? ask.count : 0;
}

static enum lg_known *feature_place(struct lg_interface_facts *i, const char *name)
{
	const struct {
		const char *name;
		enum lg_known *place;
	} known[] = { { "rx-lro", &i->lro }, { "rx-gro", &i->gro }, { "rx-gro-hw", &i->gro_hw },
		      { "rx-udp-gro-forwarding", &i->udp_gro }, { "rx-vlan-hw-parse", &i->rx_vlan } };

	for (size_t k = 0; k < N_ELEMS(known); k++)
		if (strncmp(name, known[k].name, ETH_GSTRING_LEN) == 0)
			return known[k].place;
	return NULL;
}

/* Offloads by the kernel's names for them, whose numbers differ from kernel to kernel. */
static void offloads_read(int fd, struct lg_interface_facts *i)
{
	uint32_t n = features_count(fd, i->name), n_blocks = (n + 31) / 32;
	_cleanup_free_ struct ethtool_gstrings *names = calloc(1, sizeof(*names) + (size_t)n * ETH_GSTRING_LEN);
	_cleanup_free_ struct ethtool_gfeatures *bits = calloc(1, sizeof(*bits) + n_blocks * sizeof(bits->features[0]));

	if (!n || !names || !bits)
		return;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = ETH_SS_FEATURES;
	names->len = n;
	bits->cmd = ETHTOOL_GFEATURES;
	bits->size = n_blocks;
	if (ethtool(fd, i->name, names) < 0 || ethtool(fd, i->name, bits) < 0)
		return;
	for (uint32_t k = 0; k < n && k < names->len && k / 32 < bits->size; k++) {
		enum lg_known *place = feature_place(i, (const char *)&names->data[k * ETH_GSTRING_LEN]);

		if (place)
			*place = bits->features[k / 32].active & (1u << k % 32) ? LG_YES : LG_NO;
	}
}

static void ethtool_read(struct lg_interface_facts *i)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_channels channels = { .cmd = ETHTOOL_GCHANNELS };
	_cleanup_fd_ int fd = -1;

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (ethtool(fd, i->name, &driver) == 0)
		snprintf(i->driver, sizeof(i->driver), "%.*s", (int)sizeof(driver.driver) - 1, driver.driver);
	if (ethtool(fd, i->name, &channels) == 0) {
		i->channels = channels.combined_count;
		i->channels_max = channels.max_combined;
	}
	offloads_read(fd, i);
}

static void queueing_read(struct lg_interface_facts *i)
{
	char other[LG_QDISC_LEN] = "";
	int r = lg_qdisc_is_fq(i->name, other);

	i->paces = r == 1;
	if (r >= 0)
		snprintf(i->queueing, sizeof(i->queueing), "%s", r ? "fq" : other);
}

void lg_probe_interface(const char *ifname, bool others, struct lg_interface_facts *ret)
{
	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "%s", ifname);
	ret->ifindex = if_nametoindex(ifname);
	if (!ret->ifindex)
		return;
	links_read(others, ret);
	if (others)
		queueing_read(ret);
	xdp_features_read(ret);
	ethtool_read(ret);
}
