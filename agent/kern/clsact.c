// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * TC without links: a filter in the clsact qdisc. Nothing of it can be pinned, so two kinds of empty directories
 * remember what is ours across restarts:
 *
 *	links/<ifname>-<hook>/<ifindex>	a filter was put there; whether it still is, the kernel is asked
 *	qdiscs/<ifindex>		the clsact qdisc was missing and we made it
 *
 * The filter has a priority of its own and a handle made from the instance's name, and its program's name begins with
 * lg_: all three must fit before it is replaced or removed. Priority 10 is early, so that few filters can end the chain
 * before ours, but leaves the first places to those who number from 1.
 */
#include "kern/internal.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILTER_PRIORITY 10
#define SCAN_TRIES	3 /* dumps that a change interrupts are begun again this often */

/* What the filters of one hook of one interface are. */
struct scan {
	uint32_t handle;    /* looked for */
	uint32_t n_filters; /* of any kind and owner */
	bool taken;	    /* our priority and handle are in use */
	bool ours;	    /* and by our program */
	uint32_t prog_id;
	char name[64];
};

static uint32_t filter_handle(const struct lg_kern *kern)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (const char *s = kern->instance; *s; s++)
		hash = (hash ^ (unsigned char)*s) * 16777619u;
	return (hash & 0x7fffffff) | 1;
}

static int scan_option(const struct nlattr *attr, void *arg)
{
	struct scan *scan = arg;

	if (mnl_attr_get_type(attr) == TCA_BPF_ID && mnl_attr_validate(attr, MNL_TYPE_U32) == 0)
		scan->prog_id = mnl_attr_get_u32(attr);
	if (mnl_attr_get_type(attr) == TCA_BPF_NAME && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
		snprintf(scan->name, sizeof(scan->name), "%s", mnl_attr_get_str(attr));
	return MNL_CB_OK;
}

static int scan_attr(const struct nlattr *attr, void *arg)
{
	if (mnl_attr_get_type(attr) == TCA_OPTIONS)
		mnl_attr_parse_nested(attr, scan_option, arg);
	return MNL_CB_OK;
}

static int scan_filter(const struct nlmsghdr *nlh, void *arg)
{
	const struct tcmsg *t = mnl_nlmsg_get_payload(nlh);
	struct scan *scan = arg;

	/* Handle 0 is the chain's head, not a filter. */
	if (nlh->nlmsg_type != RTM_NEWTFILTER || !t->tcm_handle)
		return MNL_CB_OK;
	scan->n_filters++;
	if (t->tcm_handle != scan->handle || t->tcm_info >> 16 != FILTER_PRIORITY)
		return MNL_CB_OK;
	scan->taken = true;
	mnl_attr_parse(nlh, sizeof(*t), scan_attr, scan);
	scan->ours = strncmp(scan->name, "lg_tc_", 6) == 0;
	return MNL_CB_OK;
}

static int scan_dump(struct mnl_socket *nl, uint32_t ifindex, uint32_t parent, mnl_cb_t fn, void *arg)
{
	_Alignas(struct nlmsghdr) char buf[32768]; /* what the kernel fills at most in one go */
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
	struct tcmsg *t;
	ssize_t n;
	int r;

	nlh->nlmsg_type = RTM_GETTFILTER;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	t = mnl_nlmsg_put_extra_header(nlh, sizeof(*t));
	t->tcm_family = AF_UNSPEC;
	t->tcm_ifindex = (int)ifindex;
	t->tcm_parent = parent;
	if (mnl_socket_sendto(nl, nlh, nlh->nlmsg_len) < 0)
		return -errno;
	do {
		n = mnl_socket_recvfrom(nl, buf, sizeof(buf));
		if (n < 0)
			return -errno;
		r = mnl_cb_run(buf, (size_t)n, 0, mnl_socket_get_portid(nl), fn, arg);
	} while (r > MNL_CB_STOP);
	return r < 0 ? -errno : 0;
}

int lg_clsact_each(uint32_t ifindex, enum lg_hook hook, int (*fn)(const struct nlmsghdr *nlh, void *arg), void *arg)
{
	uint32_t parent = TC_H_MAKE(TC_H_CLSACT, hook == LG_HOOK_TC_EGRESS ? TC_H_MIN_EGRESS : TC_H_MIN_INGRESS);
	struct mnl_socket *nl = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	int r;

	if (!nl)
		return -errno;
	r = mnl_socket_bind(nl, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : scan_dump(nl, ifindex, parent, fn, arg);
	mnl_socket_close(nl);
	return r;
}

static int scan_hook(const struct lg_kern *kern, uint32_t ifindex, enum lg_hook hook, struct scan *ret)
{
	int r = -EINTR;

	for (int i = 0; i < SCAN_TRIES && r == -EINTR; i++) {
		memset(ret, 0, sizeof(*ret));
		ret->handle = filter_handle(kern);
		r = lg_clsact_each(ifindex, hook, scan_filter, ret);
	}
	return r;
}

/* libbpf wants the padding of its structs to be 0, too, which an initialiser does not promise. */
static void tc_hook(struct bpf_tc_hook *ret, uint32_t ifindex, enum bpf_tc_attach_point point)
{
	memset(ret, 0, sizeof(*ret));
	ret->sz = sizeof(*ret);
	ret->ifindex = (int)ifindex;
	ret->attach_point = point;
}

static enum bpf_tc_attach_point tc_point(enum lg_hook hook)
{
	return hook == LG_HOOK_TC_EGRESS ? BPF_TC_EGRESS : BPF_TC_INGRESS;
}

static void qdisc_record_path(const struct lg_kern *kern, uint32_t ifindex, char *ret, size_t len)
{
	char sub[32];

	snprintf(sub, sizeof(sub), "qdiscs/%u", ifindex);
	lg_pins_sub_path(kern, sub, ret, len);
}

/* The qdisc first, then its record: a crash between leaves an empty qdisc, never the removal of somebody else's. */
static int qdisc_make(const struct lg_kern *kern, uint32_t ifindex)
{
	struct bpf_tc_hook hook;
	char path[LG_KPATH_LEN];
	int r;

	tc_hook(&hook, ifindex, BPF_TC_INGRESS);
	r = bpf_tc_hook_create(&hook);
	if (r)
		return r == -EEXIST ? 0 : r;
	lg_pins_sub_path(kern, "qdiscs", path, sizeof(path));
	r = lg_pins_mkdir(path);
	if (r < 0)
		return r;
	qdisc_record_path(kern, ifindex, path, sizeof(path));
	return lg_pins_mkdir(path);
}

/* Removes the qdisc when we made it and it is empty; when others use it by now, it is theirs. */
static void qdisc_release(const struct lg_kern *kern, uint32_t ifindex)
{
	struct scan ingress, egress;
	char path[LG_KPATH_LEN];
	struct bpf_tc_hook both;

	tc_hook(&both, ifindex, BPF_TC_INGRESS | BPF_TC_EGRESS);
	qdisc_record_path(kern, ifindex, path, sizeof(path));
	if (access(path, F_OK) < 0)
		return;
	if (scan_hook(kern, ifindex, LG_HOOK_TC_INGRESS, &ingress) < 0 ||
	    scan_hook(kern, ifindex, LG_HOOK_TC_EGRESS, &egress) < 0 || ingress.ours || egress.ours)
		return;
	if (ingress.n_filters + egress.n_filters == 0)
		bpf_tc_hook_destroy(&both);
	rmdir(path);
	lg_pins_sub_path(kern, "qdiscs", path, sizeof(path));
	rmdir(path); /* when it was the last */
}

static int filter_put(const struct lg_kern *kern, uint32_t ifindex, enum lg_hook hook, bool replace,
		      uint32_t *ret_prog_id)
{
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = kern->prog_fd[hook], .handle = filter_handle(kern),
		    .priority = FILTER_PRIORITY, .flags = replace ? BPF_TC_F_REPLACE : 0);
	struct bpf_tc_hook at;
	int r;

	tc_hook(&at, ifindex, tc_point(hook));
	r = bpf_tc_attach(&at, &opts);
	if (r == 0)
		*ret_prog_id = opts.prog_id;
	return r;
}

/* 1 when a filter of ours went, 0 when there was none. */
static int filter_remove(const struct lg_kern *kern, uint32_t ifindex, enum lg_hook hook)
{
	LIBBPF_OPTS(bpf_tc_opts, opts, .handle = filter_handle(kern), .priority = FILTER_PRIORITY);
	struct bpf_tc_hook at;
	struct scan scan;
	int r;

	tc_hook(&at, ifindex, tc_point(hook));
	r = scan_hook(kern, ifindex, hook, &scan);
	if (r < 0)
		return r;
	if (scan.ours) {
		r = bpf_tc_detach(&at, &opts);
		if (r < 0)
			return r;
	}
	qdisc_release(kern, ifindex);
	return scan.ours;
}

bool lg_clsact_is_record(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

struct visit {
	struct lg_kern *kern;
	enum lg_hook hook;
	uint32_t keep_ifindex; /* not removed */
	uint32_t ifindex;
	uint32_t prog_id;
	int n;
};

static int remove_one(void *arg, const char *path, const char *name)
{
	uint32_t ifindex = (uint32_t)strtoul(name, NULL, 10);
	struct visit *v = arg;
	int r;

	if (ifindex == v->keep_ifindex)
		return 0;
	r = filter_remove(v->kern, ifindex, v->hook);
	if (r < 0)
		return r;
	v->n += r;
	return rmdir(path) < 0 ? -errno : 0;
}

int lg_clsact_remove(struct lg_kern *kern, const char *path, enum lg_hook hook)
{
	struct visit v = { .kern = kern, .hook = hook };
	int r;

	r = lg_pins_each(path, remove_one, &v);
	if (r < 0)
		return r;
	return rmdir(path) < 0 ? -errno : v.n;
}

static int update_one(void *arg, const char *path, const char *name)
{
	uint32_t ifindex = (uint32_t)strtoul(name, NULL, 10);
	struct visit *v = arg;
	struct scan scan;
	int r;

	r = scan_hook(v->kern, ifindex, v->hook, &scan);
	if (r < 0)
		return r;
	if (scan.ours)
		return filter_put(v->kern, ifindex, v->hook, true, &v->prog_id);
	/* Gone with its interface, or by hand: nothing is left to remember. */
	qdisc_release(v->kern, ifindex);
	return rmdir(path) < 0 ? -errno : 0;
}

int lg_clsact_update(struct lg_kern *kern, const char *path, enum lg_hook hook)
{
	struct visit v = { .kern = kern, .hook = hook };
	int r;

	r = lg_pins_each(path, update_one, &v);
	rmdir(path); /* when nothing is left */
	return r;
}

static int query_one(void *arg, const char *path, const char *name)
{
	uint32_t ifindex = (uint32_t)strtoul(name, NULL, 10);
	struct visit *v = arg;
	struct scan scan;
	int r;

	(void)path;
	r = scan_hook(v->kern, ifindex, v->hook, &scan);
	if (r < 0 || !scan.ours)
		return r;
	v->ifindex = ifindex;
	v->prog_id = scan.prog_id;
	return 1;
}

int lg_clsact_query(struct lg_kern *kern, const char *path, enum lg_hook hook, uint32_t *ret_ifindex,
		    uint32_t *ret_prog_id)
{
	struct visit v = { .kern = kern, .hook = hook };
	int r;

	r = lg_pins_each(path, query_one, &v);
	if (r == 1) {
		*ret_ifindex = v.ifindex;
		*ret_prog_id = v.prog_id;
	}
	return r;
}

/* The record of one filter; those of former interfaces of the name go, with what is left of them. */
static int record_make(struct lg_kern *kern, const char *path, uint32_t ifindex, enum lg_hook hook)
{
	struct visit v = { .kern = kern, .hook = hook, .keep_ifindex = ifindex };
	char sub[LG_KPATH_LEN + 16];
	int r;

	snprintf(sub, sizeof(sub), "%s/%u", path, ifindex);
	r = lg_pins_mkdir(path);
	if (r == 0)
		r = lg_pins_mkdir(sub);
	if (r == 0)
		r = lg_pins_each(path, remove_one, &v);
	return r;
}

static int put_in_slot(struct lg_kern *kern, const char *ifname, uint32_t ifindex, enum lg_hook hook,
		       uint32_t *ret_prog_id, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	struct lg_print print;
	struct scan scan;
	char what[64];
	int r;

	snprintf(what, sizeof(what), "%s: %s by clsact", ifname, lg_hook_name(hook));
	lg_print_begin(&print);
	r = qdisc_make(kern, ifindex);
	if (r == 0)
		r = scan_hook(kern, ifindex, hook, &scan);
	if (r == 0 && scan.taken && !scan.ours) {
		lg_complain(c,
			    "%s: priority %d, handle %#x hold a filter of somebody else (program id %u, %s); it is left "
			    "alone",
			    what, FILTER_PRIORITY, scan.handle, scan.prog_id,
			    scan.name[0] ? scan.name : "without a name");
		*ret_fail = LG_KERN_REFUSED;
		r = -EBUSY;
	} else if (r == 0) {
		lg_print_begin(&print);
		r = filter_put(kern, ifindex, hook, scan.ours, ret_prog_id);
		if (r == 0)
			r = scan.ours;
	}
	if (r < 0 && r != -EBUSY)
		*ret_fail = lg_why(LG_WHY_ATTACH, what, r, &print, c);
	lg_print_end();
	return r;
}

int lg_clsact_attach(struct lg_kern *kern, const char *ifname, uint32_t ifindex, enum lg_hook hook,
		     uint32_t *ret_prog_id, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	char path[LG_KPATH_LEN];
	int r;

	lg_pins_link_path(kern, ifname, hook, path, sizeof(path));
	r = record_make(kern, path, ifindex, hook);
	if (r < 0) {
		*ret_fail = lg_why(LG_WHY_PIN, path, r, NULL, c);
		return r;
	}
	r = put_in_slot(kern, ifname, ifindex, hook, ret_prog_id, ret_fail, c);
	if (r < 0)
		lg_clsact_remove(kern, path, hook);
	return r;
}
