// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who runs at an interface's hooks. Ours are told by the pins of the instance. Of another's program the kernel tells name and owner
 * only to those with CAP_SYS_ADMIN; whether a process holds it is found in /proc, where every descriptor of a program or link says
 * which program it is. None need hold it: what was attached over netlink, or is pinned, outlives its maker.
 */
#include "kern/facts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "kern/internal.h"

#define OURS_MAX 256
#define FDS_MAX	 100000 /* descriptors of all processes that are looked at: about a second */

static struct lg_program_facts *program_add(struct lg_interface_facts *i, enum lg_hook hook, enum lg_attach_mode mode, uint32_t id)
{
	struct lg_program_facts *p;

	if (i->n_programs == LG_PROGRAMS_MAX)
		return NULL;
	p = &i->programs[i->n_programs++];
	*p = (struct lg_program_facts){ .hook = hook, .mode = mode, .id = id };
	return p;
}

/* ---- the hooks ---- */

static int xdp_look(struct lg_interface_facts *i)
{
	struct lg_iface_facts facts;
	int r;

	r = lg_iface_read(i->ifindex, &facts);
	if (r < 0)
		return r;
	if (facts.native_id)
		program_add(i, LG_HOOK_XDP, LG_MODE_XDP_NATIVE, facts.native_id);
	if (facts.generic_id)
		program_add(i, LG_HOOK_XDP, LG_MODE_XDP_GENERIC, facts.generic_id);
	if (facts.offloaded_id)
		program_add(i, LG_HOOK_XDP, LG_MODE_NONE, facts.offloaded_id);
	return 0;
}

static int tcx_look(struct lg_interface_facts *i, enum lg_hook hook)
{
	uint32_t ids[LG_PROGRAMS_MAX];
	int n;

	n = lg_link_tcx_programs(i->ifindex, hook, ids, N_ELEMS(ids));
	for (int k = 0; k < n; k++)
		program_add(i, hook, LG_MODE_TCX, ids[k]);
	/* A kernel without tcx has no program there. */
	return n == -EINVAL ? 0 : n;
}

struct filters {
	struct lg_interface_facts *i;
	enum lg_hook hook;
};

static int option_attr(const struct nlattr *attr, void *arg)
{
	struct lg_program_facts *p = arg;

	if (mnl_attr_get_type(attr) == TCA_BPF_ID && mnl_attr_validate(attr, MNL_TYPE_U32) == 0)
		p->id = mnl_attr_get_u32(attr);
	if (mnl_attr_get_type(attr) == TCA_BPF_NAME && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
		snprintf(p->name, sizeof(p->name), "%s", mnl_attr_get_str(attr));
	return MNL_CB_OK;
}

static int filter_attr(const struct nlattr *attr, void *arg)
{
	struct lg_program_facts *p = arg;

	if (mnl_attr_get_type(attr) == TCA_KIND && mnl_attr_validate(attr, MNL_TYPE_NUL_STRING) == 0)
		snprintf(p->name, sizeof(p->name), "%s", mnl_attr_get_str(attr));
	if (mnl_attr_get_type(attr) == TCA_OPTIONS && strcmp(p->name, "bpf") == 0)
		mnl_attr_parse_nested(attr, option_attr, p);
	return MNL_CB_OK;
}

static int on_filter(const struct nlmsghdr *nlh, void *arg)
{
	const struct tcmsg *t = mnl_nlmsg_get_payload(nlh);
	const struct filters *f = arg;
	struct lg_program_facts *p;

	/* Handle 0 is the chain's head, not a filter. */
	if (nlh->nlmsg_type != RTM_NEWTFILTER || !t->tcm_handle)
		return MNL_CB_OK;
	p = program_add(f->i, f->hook, LG_MODE_CLSACT, 0);
	if (!p)
		return MNL_CB_OK;
	p->priority = t->tcm_info >> 16;
	mnl_attr_parse(nlh, sizeof(*t), filter_attr, p);
	return MNL_CB_OK;
}

/* Without the qdisc there is no list to read. */
static void filters_look(struct lg_interface_facts *i, enum lg_hook hook)
{
	struct filters f = { i, hook };

	lg_clsact_each(i->ifindex, hook, on_filter, &f);
}

/* ---- whose they are ---- */

/* One that is ours: at a hook, or behind libxdp's dispatcher, which is what stands at the hook then. */
static void own_note(struct lg_interface_facts *i, const struct lg_attachment *own)
{
	struct lg_program_facts *p = NULL;

	for (size_t k = 0; k < i->n_programs && !p; k++)
		if (i->programs[k].id == own->prog_id)
			p = &i->programs[k];
	if (!p)
		p = program_add(i, own->hook, own->mode, own->prog_id);
	if (p)
		p->is_ours = true;
}

static void ours_mark(const char *instance, struct lg_interface_facts *i)
{
	_cleanup_free_ struct lg_attachment *list = calloc(OURS_MAX, sizeof(*list));
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	struct lg_complaint c;
	int n;

	if (!list || lg_kern_new(instance, NULL, &kern, &c) < 0)
		return;
	n = lg_kern_attachments(kern, list, OURS_MAX);
	for (int o = 0; o < n; o++)
		if (list[o].ifindex == i->ifindex && list[o].mode != LG_MODE_ELSEWHERE)
			own_note(i, &list[o]);
}

static void owner_read(struct lg_program_facts *p)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = -1;

	fd = p->id ? bpf_prog_get_fd_by_id(p->id) : -1;
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return;
	snprintf(p->name, sizeof(p->name), "%.16s", info.name);
	p->uid = info.created_by_uid;
}

/* The program that a descriptor is, or is a link of; 0: neither. */
static uint32_t program_of_fd(const char *path)
{
	uint32_t id = 0;
	char line[128];
	FILE *f;

	f = fopen(path, "re");
	if (!f)
		return 0;
	while (!id && fgets(line, sizeof(line), f))
		if (sscanf(line, "prog_id: %u", &id) != 1)
			id = 0;
	fclose(f);
	return id;
}

static void process_name(uint32_t pid, char ret_name[16])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(ret_name, 16, f))
		ret_name[strcspn(ret_name, "\n")] = '\0';
	fclose(f);
}

static void holder_note(struct lg_interface_facts *i, uint32_t pid, uint32_t prog_id)
{
	for (size_t k = 0; k < i->n_programs; k++) {
		struct lg_program_facts *p = &i->programs[k];

		if (p->id != prog_id || p->is_ours || p->pid)
			continue;
		p->pid = pid;
		process_name(pid, p->process);
	}
}

static void process_look(struct lg_interface_facts *i, uint32_t pid, uint32_t *n_fds)
{
	struct dirent *entry;
	char path[300];
	uint32_t id;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%u/fdinfo", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) && ++*n_fds < FDS_MAX) {
		snprintf(path, sizeof(path), "/proc/%u/fdinfo/%s", pid, entry->d_name);
		id = isdigit((unsigned char)entry->d_name[0]) ? program_of_fd(path) : 0;
		if (id)
			holder_note(i, pid, id);
	}
	if (dir)
		closedir(dir);
}

/* One way through /proc for all programs. On machines with very many descriptors some holders are not found. */
static void holders_read(struct lg_interface_facts *i)
{
	struct dirent *entry;
	uint32_t n_fds = 0;
	DIR *dir;

	dir = opendir("/proc");
	while (dir && n_fds < FDS_MAX && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			process_look(i, (uint32_t)strtoul(entry->d_name, NULL, 10), &n_fds);
	if (dir)
		closedir(dir);
}

void lg_probe_programs(const char *instance, struct lg_interface_facts *i)
{
	bool is_foreign = false;
	int r;

	lg_print_hook();
	r = xdp_look(i);
	for (int hook = LG_HOOK_TC_INGRESS; hook <= LG_HOOK_TC_EGRESS; hook++) {
		r = r < 0 ? r : tcx_look(i, (enum lg_hook)hook);
		filters_look(i, (enum lg_hook)hook);
	}
	i->programs_known = r >= 0;
	ours_mark(instance, i);
	for (size_t k = 0; k < i->n_programs; k++) {
		if (i->programs[k].is_ours)
			continue;
		owner_read(&i->programs[k]);
		is_foreign |= i->programs[k].id != 0;
	}
	if (is_foreign)
		holders_read(i);
}
