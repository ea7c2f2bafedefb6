// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bpf_links at XDP and tcx. A pinned link keeps its program attached without any process and lets it be replaced in one
 * step. Its facts name an interface by index, and an index means something in one network namespace only: a link counts
 * as attached here when the interface itself says that it runs the link's program (XDP) or holds the link (tcx).
 *
 * tcx came with kernel 6.6; headers and library of older distributions know nothing of it, so its part of union
 * bpf_attr is laid out here.
 */
#include "kern/internal.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/syscall.h>

#define TCX_INGRESS	46	  /* BPF_TCX_INGRESS; egress is the next */
#define F_BEFORE	(1u << 3) /* BPF_F_BEFORE */
#define LINK_TYPE_TCX	11	  /* BPF_LINK_TYPE_TCX */
#define TCX_PROGS_MAX	64	  /* BPF_MPROG_MAX: programs at one hook */

struct tcx_create_attr {
	__u32 prog_fd;
	__u32 target_ifindex;
	__u32 attach_type;
	__u32 flags;
	__u32 relative_fd;
	__u32 _pad;
	__u64 expected_revision;
};

struct tcx_query_attr {
	__u32 target_ifindex;
	__u32 attach_type;
	__u32 query_flags;
	__u32 attach_flags;
	__u64 prog_ids;
	__u32 count;
	__u32 _pad;
	__u64 prog_attach_flags;
	__u64 link_ids;
	__u64 link_attach_flags;
	__u64 revision;
};

static __u32 tcx_type(enum lg_hook hook)
{
	return hook == LG_HOOK_TC_EGRESS ? TCX_INGRESS + 1 : TCX_INGRESS;
}

static int sys_bpf(enum bpf_cmd cmd, void *attr, unsigned int len_bytes)
{
	int r = (int)syscall(__NR_bpf, cmd, attr, len_bytes);

	return r < 0 ? -errno : r;
}

int lg_link_has_tcx(uint32_t ifindex)
{
	struct tcx_query_attr attr = { .target_ifindex = ifindex, .attach_type = TCX_INGRESS };
	int r;

	r = sys_bpf(BPF_PROG_QUERY, &attr, sizeof(attr));
	if (r == -EINVAL)
		return 0;
	return r < 0 ? r : 1;
}

/* The programs at a hook and their links (0: attached without one). Returns how many were told, or negative errno. */
static int tcx_query(uint32_t ifindex, enum lg_hook hook, __u32 *prog_ids, __u32 *link_ids)
{
	struct tcx_query_attr attr = {
		.target_ifindex = ifindex,
		.attach_type = tcx_type(hook),
		.prog_ids = (uintptr_t)prog_ids,
		.link_ids = (uintptr_t)link_ids,
		.count = TCX_PROGS_MAX,
	};
	int r;

	r = sys_bpf(BPF_PROG_QUERY, &attr, sizeof(attr));
	if (r < 0)
		return r;
	return attr.count < TCX_PROGS_MAX ? (int)attr.count : TCX_PROGS_MAX;
}

static bool tcx_holds(uint32_t ifindex, enum lg_hook hook, uint32_t link_id)
{
	__u32 prog_ids[TCX_PROGS_MAX] = { 0 };
	__u32 link_ids[TCX_PROGS_MAX] = { 0 };
	int n;

	n = tcx_query(ifindex, hook, prog_ids, link_ids);
	for (int i = 0; i < n; i++)
		if (link_ids[i] == link_id)
			return true;
	return false;
}

static int xdp_option(const struct nlattr *attr, void *arg)
{
	struct lg_iface_facts *facts = arg;

	if (mnl_attr_validate(attr, MNL_TYPE_U32) < 0)
		return MNL_CB_OK;
	switch (mnl_attr_get_type(attr)) {
	case IFLA_XDP_DRV_PROG_ID: facts->native_id = mnl_attr_get_u32(attr); break;
	case IFLA_XDP_SKB_PROG_ID: facts->generic_id = mnl_attr_get_u32(attr); break;
	case IFLA_XDP_HW_PROG_ID: facts->offloaded_id = mnl_attr_get_u32(attr); break;
	default: break;
	}
	return MNL_CB_OK;
}

static int iface_attr(const struct nlattr *attr, void *arg)
{
	struct lg_iface_facts *facts = arg;

	if (mnl_attr_get_type(attr) == IFLA_XDP)
		mnl_attr_parse_nested(attr, xdp_option, facts);
	if (mnl_attr_get_type(attr) == IFLA_MTU && mnl_attr_validate(attr, MNL_TYPE_U32) == 0)
		facts->mtu_bytes = mnl_attr_get_u32(attr);
	return MNL_CB_OK;
}

static int iface_message(const struct nlmsghdr *nlh, void *arg)
{
	if (nlh->nlmsg_type == RTM_NEWLINK)
		mnl_attr_parse(nlh, sizeof(struct ifinfomsg), iface_attr, arg);
	return MNL_CB_STOP;
}

static int iface_ask(struct mnl_socket *nl, uint32_t ifindex, struct lg_iface_facts *ret)
{
	_Alignas(struct nlmsghdr) char buf[32768]; /* what the kernel fills at most in one go */
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct ifinfomsg *info;
	ssize_t n;

	nlh->nlmsg_type = RTM_GETLINK;
	nlh->nlmsg_flags = NLM_F_REQUEST;
	info = mnl_nlmsg_put_extra_header(nlh, sizeof(*info));
	info->ifi_family = AF_UNSPEC;
	info->ifi_index = (int)ifindex;
	mnl_attr_put_u32(nlh, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 || mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
	if (n < 0)
		return -errno;
	return mnl_cb_run(buf, (size_t)n, 0, mnl_socket_get_portid(nl), iface_message, ret) < 0 ? -errno : 0;
}

/* libbpf would list all interfaces for the sake of one. */
int lg_iface_read(uint32_t ifindex, struct lg_iface_facts *ret)
{
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int r;

	if (!nl)
		return -errno;
	memset(ret, 0, sizeof(*ret));
	r = iface_ask(nl, ifindex, ret);
	mnl_socket_close(nl);
	return r;
}

int lg_link_tcx_programs(uint32_t ifindex, enum lg_hook hook, uint32_t *ret_ids, size_t max)
{
	__u32 prog_ids[TCX_PROGS_MAX] = { 0 };
	__u32 link_ids[TCX_PROGS_MAX] = { 0 };
	int n;

	n = tcx_query(ifindex, hook, prog_ids, link_ids);
	if (n > (int)max)
		n = (int)max;
	for (int i = 0; i < n; i++)
		ret_ids[i] = prog_ids[i];
	return n;
}

static enum lg_attach_mode xdp_mode(uint32_t ifindex, uint32_t prog_id)
{
	struct lg_iface_facts facts;

	if (lg_iface_read(ifindex, &facts) < 0)
		return LG_MODE_NONE;
	if (facts.native_id == prog_id)
		return LG_MODE_XDP_NATIVE;
	if (facts.generic_id == prog_id)
		return LG_MODE_XDP_GENERIC;
	return LG_MODE_NONE;
}

int lg_link_open(const char *path, enum lg_hook hook, struct lg_link_facts *ret_facts, int *ret_fd)
{
	struct bpf_link_info info = { 0 };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = -1;
	bool is_xdp = hook == LG_HOOK_XDP;

	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	if (info.type != (is_xdp ? BPF_LINK_TYPE_XDP : LINK_TYPE_TCX))
		return -EMEDIUMTYPE;
	ret_facts->id = info.id;
	ret_facts->prog_id = info.prog_id;
	/* The index of tcx lies where that of XDP does: both are the first word of the union. */
	ret_facts->ifindex = info.xdp.ifindex;
	ret_facts->mode = LG_MODE_NONE;
	if (info.xdp.ifindex && is_xdp)
		ret_facts->mode = xdp_mode(info.xdp.ifindex, info.prog_id);
	else if (info.xdp.ifindex && tcx_holds(info.xdp.ifindex, hook, info.id))
		ret_facts->mode = LG_MODE_TCX;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int lg_link_remove(const char *path, int fd)
{
	struct bpf_link_info info = { 0 };
	__u32 len = sizeof(info);
	bool alive;

	alive = bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && info.xdp.ifindex;
	/* A dead tcx link answers ENOLINK: the pin goes all the same. */
	if (alive && bpf_link_detach(fd) < 0 && errno != ENOLINK)
		return -errno;
	if (unlink(path) < 0 && errno != ENOENT)
		return -errno;
	return alive;
}

int lg_link_create_xdp(int prog_fd, uint32_t ifindex, enum lg_attach_mode mode, int *ret_fd)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = mode == LG_MODE_XDP_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
	int fd;

	fd = bpf_link_create(prog_fd, (int)ifindex, BPF_XDP, &opts);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

/* First of the programs there: one that ends the chain before us would let everything past the limits. */
int lg_link_create_tcx(int prog_fd, uint32_t ifindex, enum lg_hook hook, int *ret_fd)
{
	struct tcx_create_attr attr = {
		.prog_fd = (__u32)prog_fd,
		.target_ifindex = ifindex,
		.attach_type = tcx_type(hook),
		.flags = F_BEFORE,
	};
	int fd;

	fd = sys_bpf(BPF_LINK_CREATE, &attr, sizeof(attr));
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

void lg_prog_name(uint32_t prog_id, char ret_name[16])
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = -1;

	ret_name[0] = '\0';
	fd = bpf_prog_get_fd_by_id(prog_id);
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return;
	memcpy(ret_name, info.name, 15);
	ret_name[15] = '\0';
}
