// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What earlier processes of the instance attached: how much of it there is, and how it gets the programs of this one. */
#include "kern/internal.h"

#include <errno.h>

struct count {
	struct lg_kern *kern;
	uint32_t prog_id; /* of one that is attached */
	int n_links;
};

static int count_one(void *arg, const char *path, const char *name)
{
	struct lg_link_facts facts = { 0 };
	struct lg_attachment at = { 0 };
	struct count *s = arg;
	_cleanup_fd_ int fd = -1;
	enum lg_hook hook;
	char ifname[16];
	int r;

	if (!lg_pins_link_parse(name, ifname, &hook))
		return 0;
	if (lg_clsact_is_record(path) && hook == LG_HOOK_XDP) {
		r = lg_shared_query(s->kern, path, &at);
		facts.ifindex = at.ifindex;
		facts.prog_id = at.prog_id;
	} else if (lg_clsact_is_record(path))
		r = lg_clsact_query(s->kern, path, hook, &facts.ifindex, &facts.prog_id);
	else
		r = lg_link_open(path, hook, &facts, &fd);
	if (r < 0 || !facts.ifindex)
		return r;
	s->prog_id = facts.prog_id;
	s->n_links++;
	return 0;
}

int lg_attach_count(struct lg_kern *kern, uint32_t *ret_prog_id)
{
	struct count s = { .kern = kern };
	char links[LG_KPATH_LEN];
	int r;

	lg_pins_sub_path(kern, "links", links, sizeof(links));
	r = lg_pins_each(links, count_one, &s);
	if (r < 0)
		return r;
	*ret_prog_id = s.prog_id;
	return s.n_links;
}

/* A link's program is replaced; one whose interface went, now or while no daemon ran, is removed. */
static int update_link(struct lg_kern *kern, const char *path, enum lg_hook hook)
{
	struct lg_link_facts facts;
	_cleanup_fd_ int fd = -1;
	int r;

	r = lg_link_open(path, hook, &facts, &fd);
	if (r == 0 && facts.ifindex)
		r = lg_prog_fd(kern, (enum lg_prog)hook, NULL);
	if (r < 0)
		return r;
	r = facts.ifindex && bpf_link_update(fd, r, NULL) < 0 ? -errno : 0;
	if (!facts.ifindex || r == -ENOLINK)
		r = lg_link_remove(path, fd);
	return r < 0 ? r : 0;
}

static int update_one(void *arg, const char *path, const char *name)
{
	struct lg_kern *kern = arg;
	enum lg_hook hook;
	char ifname[16];
	int r;

	if (!lg_pins_link_parse(name, ifname, &hook))
		return 0;
	if (!lg_clsact_is_record(path))
		return update_link(kern, path, hook);
	if (hook == LG_HOOK_XDP)
		return lg_shared_renew(kern, path);
	r = lg_prog_fd(kern, (enum lg_prog)hook, NULL);
	return r < 0 ? r : lg_clsact_update(kern, path, hook);
}

int lg_attach_update_all(struct lg_kern *kern)
{
	char links[LG_KPATH_LEN];

	lg_pins_sub_path(kern, "links", links, sizeof(links));
	return lg_pins_each(links, update_one, kern);
}
