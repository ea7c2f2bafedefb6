// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Attaching at interfaces. What an earlier process attached is adopted: its program is replaced in place, nothing is
 * detached and attached again, because some drivers reset the device for seconds when XDP goes or comes. Programs of
 * others are never touched.
 */
#include "kern/internal.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *lg_attach_mode_name(enum lg_attach_mode mode)
{
	switch (mode) {
	case LG_MODE_NONE: return "none";
	case LG_MODE_XDP_NATIVE: return "native";
	case LG_MODE_XDP_GENERIC: return "generic";
	case LG_MODE_TCX: return "tcx";
	case LG_MODE_CLSACT: return "clsact";
	case LG_MODE_SHARED_NATIVE: return "shared_native";
	case LG_MODE_SHARED_GENERIC: return "shared_generic";
	case LG_MODE_ELSEWHERE: return "elsewhere";
	}
	return "none";
}

const char *lg_hook_name(enum lg_hook hook)
{
	switch (hook) {
	case LG_HOOK_XDP: return "xdp";
	case LG_HOOK_TC_INGRESS: return "tc_ingress";
	case LG_HOOK_TC_EGRESS: return "tc_egress";
	case _LG_HOOK_N: break;
	}
	return "none";
}

/* ---- one attempt ---- */

struct attempt {
	struct lg_kern *kern;
	const char *ifname;
	uint32_t ifindex;
	enum lg_hook hook;
	enum lg_attach_mode mode;
	char path[LG_KPATH_LEN];
	enum lg_kern_fail *ret_fail;
	struct lg_complaint *c;
};

static int refuse(struct attempt *a, int err, const struct lg_print *print)
{
	char what[64];

	snprintf(what, sizeof(what), "%s: %s (%s)", a->ifname, lg_hook_name(a->hook), lg_attach_mode_name(a->mode));
	*a->ret_fail = lg_why(LG_WHY_ATTACH, what, err, print, a->c);
	return err;
}

static int pin_link(struct attempt *a, int fd)
{
	char links[LG_KPATH_LEN];
	int r;

	lg_pins_sub_path(a->kern, "links", links, sizeof(links));
	r = lg_pins_mkdir(links);
	if (r == 0 && bpf_obj_pin(fd, a->path) < 0)
		r = -errno;
	if (r < 0)
		*a->ret_fail = lg_why(LG_WHY_PIN, a->path, r, NULL, a->c);
	else
		lg_made_add(a->kern, a->ifname, a->hook);
	return r;
}

struct renamed {
	const struct attempt *a;
	char path[LG_KPATH_LEN];
};

static int find_renamed(void *arg, const char *path, const char *name)
{
	struct renamed *f = arg;
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	enum lg_hook hook;
	char ifname[16], record[LG_KPATH_LEN + 16];

	/* A name that still is somebody's needs no look: there may be a thousand. */
	if (!lg_pins_link_parse(name, ifname, &hook) || hook != f->a->hook || if_nametoindex(ifname))
		return 0;
	snprintf(record, sizeof(record), "%s/%u", path, f->a->ifindex);
	if (lg_clsact_is_record(path)) {
		if (access(record, F_OK) < 0)
			return 0;
	} else if (lg_link_open(path, hook, &facts, &fd) < 0 || facts.ifindex != f->a->ifindex || facts.mode == LG_MODE_NONE) {
		return 0;
	}
	snprintf(f->path, sizeof(f->path), "%s", path);
	return 1;
}

/* While no daemon ran the interface may have got another name: its link or filter keeps, the pin or record follows. */
static void follow_rename(struct attempt *a)
{
	char links[LG_KPATH_LEN];
	struct renamed f = { .a = a };

	lg_pins_sub_path(a->kern, "links", links, sizeof(links));
	if (access(a->path, F_OK) < 0 && lg_pins_each(links, find_renamed, &f) == 1)
		rename(f.path, a->path);
}

/*
 * Opens the pinned link of this interface and hook. Returns 1 when it is attached there, 0 when there is none (any
 * more: a link whose interface is gone, or is another one by now, is removed), or negative errno.
 */
static int adopt(struct attempt *a, struct lg_link_facts *ret_facts, int *ret_fd)
{
	_cleanup_fd_ int fd = -1;
	int r;

	r = lg_link_open(a->path, a->hook, ret_facts, &fd);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (ret_facts->ifindex != a->ifindex || ret_facts->mode == LG_MODE_NONE) {
		r = lg_link_remove(a->path, fd);
		return r < 0 ? r : 0;
	}
	*ret_fd = TAKE_FD(fd);
	return 1;
}

/* Fills *ret from what the kernel says about the pinned link. */
static int report_link(struct attempt *a, bool adopted, struct lg_attachment *ret)
{
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r;

	r = lg_link_open(a->path, a->hook, &facts, &fd);
	if (r < 0)
		return refuse(a, r, NULL);
	*ret = (struct lg_attachment){
		.ifindex = a->ifindex,
		.hook = a->hook,
		.mode = facts.mode,
		.link_id = facts.id,
		.prog_id = facts.prog_id,
		.adopted = adopted,
	};
	snprintf(ret->ifname, sizeof(ret->ifname), "%s", a->ifname);
	return 0;
}

/* ---- XDP ---- */

/* Says who holds the hook; false when nobody does. */
static bool xdp_is_foreign(struct attempt *a)
{
	struct lg_iface_facts facts;
	uint32_t id;
	char name[16], who[64];

	if (lg_iface_read(a->ifindex, &facts) < 0)
		return false;
	id = facts.native_id ? facts.native_id : facts.generic_id ? facts.generic_id : facts.offloaded_id;
	if (!id)
		return false;
	lg_prog_name(id, name);
	/* Only CAP_SYS_ADMIN sees the name, which a node that has started does not keep. */
	if (name[0])
		snprintf(who, sizeof(who), "name '%s'", name);
	else
		snprintf(who, sizeof(who), "see `bpftool prog show id %u`", id);
	lg_complain(a->c,
		    "%s: an XDP program of somebody else is attached (id %u, %s, %s); it is left alone: detach it, or "
		    "limit this interface at tc",
		    a->ifname, id, who, facts.native_id ? "native" : facts.generic_id ? "generic" : "offloaded");
	*a->ret_fail = LG_KERN_REFUSED;
	return true;
}

/*
 * Creating a link tells an errno only; the driver's words come with the netlink way of attaching. It is tried for their
 * sake, with a flag that keeps it from replacing anything, and undone should it succeed against expectation.
 */
static void ask_driver(struct attempt *a, struct lg_print *print)
{
	const __u32 mode = a->mode == LG_MODE_XDP_NATIVE ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
	int fd = a->kern->prog_fd[LG_HOOK_XDP];
	LIBBPF_OPTS(bpf_xdp_attach_opts, opts, .old_prog_fd = fd);

	lg_print_begin(print);
	if (bpf_xdp_attach((int)a->ifindex, fd, mode | XDP_FLAGS_UPDATE_IF_NOEXIST, NULL) == 0)
		bpf_xdp_detach((int)a->ifindex, mode, &opts);
	lg_print_end();
}

/* What to do about native XDP that is refused. A driver that cannot hold a frame in one buffer refuses large MTUs. */
static int native_refused(struct attempt *a, int err, const struct lg_print *print)
{
	struct lg_iface_facts facts;
	char mtu[96] = "";

	if (lg_iface_read(a->ifindex, &facts) == 0 && facts.mtu_bytes > ETH_DATA_LEN)
		snprintf(mtu, sizeof(mtu), "lower its MTU of %u if the driver limits it for XDP, ", facts.mtu_bytes);
	lg_complain(a->c, "%s: native XDP is refused: %s; %sset `xdp: generic` (slower), or limit this interface at tc", a->ifname,
		    print->kernel[0] ? print->kernel : strerror(-err), mtu);
	*a->ret_fail = LG_KERN_FEATURE;
	return err;
}

static int xdp_refused(struct attempt *a, int err)
{
	struct lg_print print = { 0 };

	if ((err == -EBUSY || err == -EEXIST) && xdp_is_foreign(a))
		return -EBUSY;
	if (err == -ENODEV || err == -EPERM || err == -EACCES)
		return refuse(a, err, NULL);
	ask_driver(a, &print);
	return a->mode == LG_MODE_XDP_NATIVE ? native_refused(a, err, &print) : refuse(a, err, &print);
}

static int xdp_create(struct attempt *a)
{
	_cleanup_fd_ int fd = -1;
	int r;

	r = lg_link_create_xdp(a->kern->prog_fd[LG_HOOK_XDP], a->ifindex, a->mode, &fd);
	if (r < 0)
		return xdp_refused(a, r);
	return pin_link(a, fd);
}

/* A link cannot change its mode: it goes, one of the other mode comes, and comes back as it was when that is
 * refused. */
static int xdp_switch(struct attempt *a, int fd, enum lg_attach_mode from)
{
	_cleanup_fd_ int old = -1;
	int r;

	r = lg_link_remove(a->path, fd);
	if (r < 0)
		return refuse(a, r, NULL);
	r = xdp_create(a);
	if (r < 0 && lg_link_create_xdp(a->kern->prog_fd[LG_HOOK_XDP], a->ifindex, from, &old) == 0)
		bpf_obj_pin(old, a->path);
	return r;
}

static bool is_shared(enum lg_attach_mode mode)
{
	return mode == LG_MODE_SHARED_NATIVE || mode == LG_MODE_SHARED_GENERIC;
}

static int shared_refused(struct attempt *a, int err, const struct lg_print *print)
{
	const char *said;

	if (a->c->text[0]) {
		*a->ret_fail = LG_KERN_FEATURE;
		return err;
	}
	if (err == -EBUSY && xdp_is_foreign(a))
		return err;
	if (err != -EPERM && err != -EOPNOTSUPP && err != -EINVAL)
		return refuse(a, err, print);
	said = print->verifier[0] ? print->verifier : print->kernel[0] ? print->kernel : print->first;
	lg_complain(a->c,
		    "%s: sharing XDP is refused: %s%s%s%s; it needs a kernel that lets programs be replaced (feature-freplace of `leasegate "
		    "preflight`) and a libxdp that fits it: write `attach: alone`, or limit this interface at tc",
		    a->ifname, strerror(-err), said[0] ? " (" : "", said, said[0] ? ")" : "");
	*a->ret_fail = LG_KERN_FEATURE;
	return err;
}

static int shared_attach(struct attempt *a, struct lg_attachment *ret)
{
	struct lg_print print = { 0 };
	char links[LG_KPATH_LEN];
	int r;

	lg_pins_sub_path(a->kern, "links", links, sizeof(links));
	r = lg_pins_mkdir(links);
	/* What stands alone gives way: two cannot have the place. */
	if (r == 0 && !lg_clsact_is_record(a->path))
		r = lg_kern_detach(a->kern, a->ifname, a->hook);
	if (r < 0)
		return refuse(a, r, NULL);
	a->c->text[0] = '\0';
	r = lg_shared_attach(a->kern, a->path, a->ifindex, a->mode, &print, a->c);
	if (r < 0)
		return shared_refused(a, r, &print);
	if (r == 0)
		lg_made_add(a->kern, a->ifname, a->hook);
	r = lg_kern_attached(a->kern, a->ifname, a->hook, ret);
	return r == 1 ? 0 : refuse(a, r < 0 ? r : -ENOENT, NULL);
}

static int xdp_attach(struct attempt *a, struct lg_attachment *ret)
{
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r;

	if (is_shared(a->mode))
		return shared_attach(a, ret);
	if (lg_clsact_is_record(a->path)) {
		r = lg_shared_remove(a->kern, a->path);
		if (r < 0)
			return refuse(a, r, NULL);
	}
	r = adopt(a, &facts, &fd);
	if (r < 0)
		return refuse(a, r, NULL);
	if (r == 0)
		r = xdp_create(a);
	else if (facts.mode != a->mode)
		r = xdp_switch(a, fd, facts.mode);
	else if (bpf_link_update(fd, a->kern->prog_fd[LG_HOOK_XDP], NULL) < 0)
		r = refuse(a, -errno, NULL);
	else
		r = 0;
	return r < 0 ? r : report_link(a, !lg_made_here(a->kern, a->ifname, a->hook), ret);
}

/* ---- TC ---- */

static int clsact_attach(struct attempt *a, struct lg_attachment *ret)
{
	char links[LG_KPATH_LEN];
	uint32_t prog_id = 0;
	int r;

	lg_pins_sub_path(a->kern, "links", links, sizeof(links));
	r = lg_pins_mkdir(links);
	if (r < 0) {
		*a->ret_fail = lg_why(LG_WHY_PIN, links, r, NULL, a->c);
		return r;
	}
	r = lg_clsact_attach(a->kern, a->ifname, a->ifindex, a->hook, &prog_id, a->ret_fail, a->c);
	if (r < 0)
		return r;
	if (r == 0)
		lg_made_add(a->kern, a->ifname, a->hook);
	*ret = (struct lg_attachment){
		.ifindex = a->ifindex,
		.hook = a->hook,
		.mode = LG_MODE_CLSACT,
		.prog_id = prog_id,
		.adopted = !lg_made_here(a->kern, a->ifname, a->hook),
	};
	snprintf(ret->ifname, sizeof(ret->ifname), "%s", a->ifname);
	return 0;
}

/* From tcx to clsact: both run for a moment, so that there is none in which packets pass uncounted. */
static int clsact_instead_of_tcx(struct attempt *a, struct lg_attachment *ret)
{
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r;

	r = adopt(a, &facts, &fd);
	if (r < 0)
		return refuse(a, r, NULL);
	if (r == 0)
		return clsact_attach(a, ret);
	if (unlink(a->path) < 0)
		return refuse(a, -errno, NULL);
	r = clsact_attach(a, ret);
	if (r < 0)
		bpf_obj_pin(fd, a->path);
	else
		bpf_link_detach(fd);
	return r;
}

static int tcx_create(struct attempt *a)
{
	_cleanup_fd_ int fd = -1;
	int r;

	r = lg_link_create_tcx(a->kern->prog_fd[a->hook], a->ifindex, a->hook, &fd);
	if (r < 0)
		return refuse(a, r, NULL);
	/* A filter of the older way goes after the link came, for the same reason as above. */
	if (lg_clsact_is_record(a->path)) {
		r = lg_clsact_remove(a->kern, a->path, a->hook);
		if (r < 0)
			return refuse(a, r, NULL);
	}
	return pin_link(a, fd);
}

static int tcx_attach(struct attempt *a, struct lg_attachment *ret)
{
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r = 0;

	if (!lg_clsact_is_record(a->path))
		r = adopt(a, &facts, &fd);
	if (r < 0)
		return refuse(a, r, NULL);
	if (r == 0)
		r = tcx_create(a);
	else if (bpf_link_update(fd, a->kern->prog_fd[a->hook], NULL) < 0)
		r = refuse(a, -errno, NULL);
	else
		r = 0;
	return r < 0 ? r : report_link(a, !lg_made_here(a->kern, a->ifname, a->hook), ret);
}

/* tcx where the kernel has it, but a filter of ours that is there already stays. */
static int tc_attach(struct attempt *a, struct lg_attachment *ret)
{
	uint32_t at_ifindex, prog_id;
	int has_tcx;

	has_tcx = lg_link_has_tcx(a->ifindex);
	if (has_tcx < 0)
		return refuse(a, has_tcx, NULL);
	if (a->mode == LG_MODE_TCX && !has_tcx) {
		lg_complain(a->c, "%s: this kernel has no tcx (it came with 6.6); use clsact", a->ifname);
		*a->ret_fail = LG_KERN_FEATURE;
		return -EOPNOTSUPP;
	}
	if (a->mode == LG_MODE_NONE) {
		bool stays = lg_clsact_is_record(a->path) &&
			     lg_clsact_query(a->kern, a->path, a->hook, &at_ifindex, &prog_id) == 1 &&
			     at_ifindex == a->ifindex;

		a->mode = has_tcx && !stays ? LG_MODE_TCX : LG_MODE_CLSACT;
	}
	if (a->mode == LG_MODE_TCX)
		return tcx_attach(a, ret);
	return has_tcx && !lg_clsact_is_record(a->path) ? clsact_instead_of_tcx(a, ret) : clsact_attach(a, ret);
}

static bool mode_fits(enum lg_hook hook, enum lg_attach_mode mode)
{
	switch (mode) {
	case LG_MODE_XDP_NATIVE:
	case LG_MODE_XDP_GENERIC:
	case LG_MODE_SHARED_NATIVE:
	case LG_MODE_SHARED_GENERIC: return hook == LG_HOOK_XDP;
	case LG_MODE_NONE:
	case LG_MODE_TCX:
	case LG_MODE_CLSACT: return hook == LG_HOOK_TC_INGRESS || hook == LG_HOOK_TC_EGRESS;
	case LG_MODE_ELSEWHERE: return false;
	}
	return false;
}

static int program_load(struct attempt *a)
{
	struct lg_print print;
	int r;

	if (is_shared(a->mode)) /* libxdp loads it */
		return 0;
	r = lg_prog_fd(a->kern, (enum lg_prog)a->hook, &print);
	if (r < 0)
		*a->ret_fail = lg_why(LG_WHY_LOAD, "cannot load the programs", r, &print, a->c);
	return r < 0 ? r : 0;
}

int lg_kern_attach(struct lg_kern *kern, const char *ifname, enum lg_hook hook, enum lg_attach_mode mode,
		   struct lg_attachment *ret, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	struct attempt a = { .kern = kern, .ifname = ifname, .hook = hook, .mode = mode, .ret_fail = ret_fail, .c = c };
	int r;

	*ret_fail = LG_KERN_REFUSED;
	if (!mode_fits(hook, mode))
		return lg_complain(c, "%s: %s cannot be attached as %s", ifname, lg_hook_name(hook),
				   lg_attach_mode_name(mode));
	if (!lg_prog_may_load(kern)) {
		lg_complain(c, "%s: no programs are loaded here: only a daemon attaches", ifname);
		return -EOPNOTSUPP;
	}
	a.ifindex = if_nametoindex(ifname);
	if (!a.ifindex) {
		lg_complain(c, "%s: no such interface", ifname);
		return -ENODEV;
	}
	lg_pins_link_path(kern, ifname, hook, a.path, sizeof(a.path));
	follow_rename(&a);
	r = program_load(&a);
	if (r == 0)
		r = hook == LG_HOOK_XDP ? xdp_attach(&a, ret) : tc_attach(&a, ret);
	if (r == 0)
		*ret_fail = LG_KERN_OK;
	return r;
}

/* ---- detaching ---- */

/* Removes one pin or record: 1 when something was attached by it, else 0. */
static int remove_pin(struct lg_kern *kern, const char *path, enum lg_hook hook)
{
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r;

	if (lg_clsact_is_record(path))
		return hook == LG_HOOK_XDP ? lg_shared_remove(kern, path) : lg_clsact_remove(kern, path, hook);
	r = lg_link_open(path, hook, &facts, &fd);
	if (r == -ENOENT)
		return 0;
	if (r == -EMEDIUMTYPE)
		return unlink(path) < 0 ? -errno : 0;
	if (r < 0)
		return r;
	return lg_link_remove(path, fd);
}

int lg_kern_detach(struct lg_kern *kern, const char *ifname, enum lg_hook hook)
{
	char path[LG_KPATH_LEN];
	int r;

	if (hook < 0 || hook >= _LG_HOOK_N)
		return -EINVAL;
	lg_pins_link_path(kern, ifname, hook, path, sizeof(path));
	r = remove_pin(kern, path, hook);
	if (r < 0)
		return r;
	lg_made_drop(kern, ifname, hook);
	return 0;
}

struct sweep {
	struct lg_kern *kern;
	bool (*keep)(void *arg, const char *ifname, enum lg_hook hook);
	void *keep_arg;
	struct lg_attachment *ret;
	size_t max;
	size_t n;
	int n_links;
};

static int remove_each(void *arg, const char *path, const char *name)
{
	struct sweep *s = arg;
	enum lg_hook hook;
	char ifname[16];
	int r;

	if (!lg_pins_link_parse(name, ifname, &hook))
		return 0;
	r = remove_pin(s->kern, path, hook);
	if (r < 0)
		return r;
	s->n_links += r;
	return 0;
}

static int remove_unwanted(void *arg, const char *path, const char *name)
{
	struct sweep *s = arg;
	enum lg_hook hook;
	char ifname[16];
	int r;

	if (!lg_pins_link_parse(name, ifname, &hook) || s->keep(s->keep_arg, ifname, hook))
		return 0;
	r = remove_pin(s->kern, path, hook);
	if (r < 0)
		return r;
	lg_made_drop(s->kern, ifname, hook);
	s->n_links += r;
	return 0;
}

int lg_kern_detach_others(struct lg_kern *kern, bool (*keep)(void *arg, const char *ifname, enum lg_hook hook), void *arg)
{
	struct sweep s = { .kern = kern, .keep = keep, .keep_arg = arg };
	char links[LG_KPATH_LEN];
	int r;

	lg_pins_sub_path(kern, "links", links, sizeof(links));
	r = lg_pins_each(links, remove_unwanted, &s);
	return r < 0 ? r : s.n_links;
}

static int remove_version(void *arg, const char *path, const char *name)
{
	(void)arg;
	return lg_pins_abi(name) ? lg_pins_clear(path) : 0;
}

/* Links first: while maps without pins are used by attached programs nothing is lost yet. */
static int remove_all(struct lg_kern *kern)
{
	struct sweep s = { .kern = kern };
	char path[LG_KPATH_LEN];
	int r;

	lg_pins_sub_path(kern, "links", path, sizeof(path));
	r = lg_pins_each(path, remove_each, &s);
	if (r < 0)
		return r;
	rmdir(path);
	r = lg_pins_each(kern->dir, remove_version, kern);
	if (r < 0)
		return r;
	/* Empty or not ours: others may share the root. */
	rmdir(kern->dir);
	rmdir(kern->root);
	return s.n_links;
}

int lg_kern_detach_all(const char *instance, const char *root, enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	int r;

	r = lg_pins_new(instance, root, &kern, ret_fail, c);
	if (r < 0)
		return r;
	r = lg_pins_lock(kern);
	if (r == -ENOENT) {
		*ret_fail = LG_KERN_OK;
		return 0;
	}
	if (r == -EBUSY) {
		lg_complain(c, "instance '%s' is in use: stop its daemon first, it would attach again", instance);
		return r;
	}
	if (r == 0)
		r = remove_all(kern);
	*ret_fail = r < 0 ? lg_why(LG_WHY_PIN, kern->dir, r, NULL, c) : LG_KERN_OK;
	return r;
}

/* ---- looking ---- */

/* What is attached by a pin or record: 1, 0 when nothing is. */
static int look(struct lg_kern *kern, const char *path, const char *pinned, enum lg_hook hook, struct lg_attachment *ret)
{
	struct lg_attachment at = { .hook = hook };
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r;

	if (lg_clsact_is_record(path) && hook == LG_HOOK_XDP) {
		r = lg_shared_query(kern, path, &at);
	} else if (lg_clsact_is_record(path)) {
		r = lg_clsact_query(kern, path, hook, &at.ifindex, &at.prog_id);
		at.mode = r == 1 ? LG_MODE_CLSACT : LG_MODE_NONE;
	} else {
		r = lg_link_open(path, hook, &facts, &fd);
		if (r == 0) {
			at.ifindex = facts.ifindex;
			at.mode = facts.mode;
			at.link_id = facts.id;
			at.prog_id = facts.prog_id;
			if (at.mode == LG_MODE_NONE && facts.ifindex)
				at.mode = LG_MODE_ELSEWHERE;
		}
	}
	if (r < 0 && r != -ENOENT)
		return r;
	/* The name of today, or as it was when pinned where today's cannot be seen. */
	if (at.mode == LG_MODE_ELSEWHERE)
		snprintf(at.ifname, sizeof(at.ifname), "%s", pinned);
	else if (at.mode == LG_MODE_NONE || !if_indextoname(at.ifindex, at.ifname))
		return 0;
	at.adopted = !lg_made_here(kern, pinned, hook);
	*ret = at;
	return 1;
}

static int list_one(void *arg, const char *path, const char *name)
{
	struct sweep *s = arg;
	enum lg_hook hook;
	char pinned[16];
	int r;

	if (s->n == s->max || !lg_pins_link_parse(name, pinned, &hook))
		return 0;
	r = look(s->kern, path, pinned, hook, &s->ret[s->n]);
	if (r < 0)
		return r;
	s->n += (size_t)r;
	return 0;
}

int lg_kern_attached(struct lg_kern *kern, const char *ifname, enum lg_hook hook, struct lg_attachment *ret)
{
	char path[LG_KPATH_LEN];

	lg_pins_link_path(kern, ifname, hook, path, sizeof(path));
	return look(kern, path, ifname, hook, ret);
}

int lg_kern_attachments(struct lg_kern *kern, struct lg_attachment *ret, size_t max)
{
	struct sweep s = { .kern = kern, .ret = ret, .max = max };
	char links[LG_KPATH_LEN];
	int r;

	lg_pins_sub_path(kern, "links", links, sizeof(links));
	r = lg_pins_each(links, list_one, &s);
	return r < 0 ? r : (int)s.n;
}
