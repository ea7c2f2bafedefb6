// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * XDP beside programs of others. The kernel has one place per interface; libxdp puts a dispatcher there, a program that calls up to ten
 * others in the order of their priority, each a replacement (freplace) of a function of the dispatcher. Everybody who shares an interface
 * uses libxdp: for each change it makes a new dispatcher with all the programs, and swaps it for the old one in one step. What is in a
 * dispatcher is pinned by libxdp, under /sys/fs/bpf/xdp, and outlives its loader.
 *
 * Nothing of it can be pinned by us. As with clsact a directory remembers what is ours across restarts,
 *
 *	links/<ifname>-xdp/<ifindex>
 *
 * and the program is known by its maps: it has the `control` of this instance.
 *
 * libxdp is loaded when it is first needed, so that machines which share nothing do not need it.
 */
#include "kern/internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xdp/libxdp.h>

#define RUN_PRIORITY 10 /* before those that have none written, which are at 50: what they pass on must have passed the limits */
#define MAPS_MAX     64 /* of one program: the kernel allows no more */

/* clang-format off */
#define LIBXDP_FUNCTIONS(f) \
	f(libxdp_get_error) f(libxdp_set_print) \
	f(xdp_program__create) f(xdp_program__set_run_prio) f(xdp_program__set_xdp_frags_support) \
	f(xdp_program__attach) f(xdp_program__detach) f(xdp_program__close) f(xdp_program__id) \
	f(xdp_multiprog__get_from_ifindex) f(xdp_multiprog__next_prog) f(xdp_multiprog__close) \
	f(xdp_multiprog__attach_mode) f(xdp_multiprog__is_legacy)
/* clang-format on */

static struct {
	void *handle;
#define MEMBER(name) typeof(name) *name;
	LIBXDP_FUNCTIONS(MEMBER)
#undef MEMBER
} lib;

static int print(enum libxdp_print_level level, const char *fmt, va_list ap)
{
	return lg_print_line((enum libbpf_print_level)level, fmt, ap); /* its levels are libbpf's */
}

/* -ENOTSUP, the reason in *c, when there is no libxdp, or one that is too old. */
static int lib_load(struct lg_complaint *c)
{
	void *handle;

	if (lib.handle)
		return 0;
	handle = dlopen("libxdp.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		lg_complain(c, "`attach: shared` needs libxdp: %s; install the package libxdp1", dlerror());
		return -EOPNOTSUPP;
	}
#define LOOK_UP(name)                                                                                                                      \
	lib.name = (typeof(name) *)dlsym(handle, #name);                                                                                   \
	if (!lib.name) {                                                                                                                   \
		lg_complain(c, "`attach: shared` needs libxdp 1.3 or later: the one installed has no %s", #name);                          \
		dlclose(handle);                                                                                                           \
		return -EOPNOTSUPP;                                                                                                        \
	}
	LIBXDP_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	lib.handle = handle;
	lib.libxdp_set_print(print);
	return 0;
}

/* ---- whose program ---- */

struct owner {
	uint32_t map_ids[MAPS_MAX]; /* of a program */
	uint32_t n_map_ids;
};

static uint32_t map_id_at(const char *path)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = bpf_obj_get(path);

	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 ? info.id : 0;
}

/* 1 when the program has the map `control` of a version of the instance. */
static int has_control(void *arg, const char *path, const char *name)
{
	char control[LG_KPATH_LEN + 16];
	const struct owner *o = arg;
	uint32_t id;

	if (!lg_pins_abi(name))
		return 0;
	snprintf(control, sizeof(control), "%s/%s", path, lg_map_name(LG_MAP_CONTROL));
	id = map_id_at(control);
	for (uint32_t i = 0; id && i < o->n_map_ids; i++)
		if (o->map_ids[i] == id)
			return 1;
	return 0;
}

static bool owner_read(uint32_t prog_id, struct owner *ret)
{
	struct bpf_prog_info info = { .nr_map_ids = MAPS_MAX, .map_ids = (uintptr_t)ret->map_ids };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = bpf_prog_get_fd_by_id(prog_id);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return false;
	ret->n_map_ids = info.nr_map_ids < MAPS_MAX ? info.nr_map_ids : MAPS_MAX;
	return true;
}

static bool is_ours(const struct lg_kern *kern, uint32_t prog_id)
{
	struct owner o = { 0 };

	return owner_read(prog_id, &o) && lg_pins_each(kern->dir, has_control, &o) == 1;
}

/* The id of the map in force of this name, 0: the name is none of ours. */
static uint32_t id_in_force(const struct lg_kern *kern, const char *name)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	for (int i = 0; i < _LG_MAP_N; i++)
		if (strcmp(lg_map_name((enum lg_map)i), name) == 0)
			return bpf_obj_get_info_by_fd(kern->map_fd[i], &info, &len) == 0 ? info.id : 0;
	return 0;
}

/* Whether its maps are all in force: none is one from which levels were carried over. */
static bool has_own_maps(const struct lg_kern *kern, const struct owner *o)
{
	for (uint32_t i = 0; i < o->n_map_ids; i++) {
		struct bpf_map_info info = { 0 };
		__u32 len = sizeof(info), id;
		_cleanup_fd_ int fd = bpf_map_get_fd_by_id(o->map_ids[i]);

		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
			return false;
		id = id_in_force(kern, info.name);
		if (id && id != info.id)
			return false;
	}
	return true;
}

static bool has_same_code(int fd, uint32_t prog_id)
{
	struct bpf_prog_info a = { 0 }, b = { 0 };
	__u32 a_len = sizeof(a), b_len = sizeof(b);
	_cleanup_fd_ int other = bpf_prog_get_fd_by_id(prog_id);

	return other >= 0 && bpf_obj_get_info_by_fd(fd, &a, &a_len) == 0 && bpf_obj_get_info_by_fd(other, &b, &b_len) == 0 &&
	       memcmp(a.tag, b.tag, sizeof(a.tag)) == 0;
}

/* What shares an interface, and which of it is ours. */
struct place {
	struct xdp_multiprog *all; /* NULL: nothing is there */
	struct xdp_program *own;   /* of it; NULL: none */
	enum lg_attach_mode mode;
};

static void place_close(struct place *place)
{
	if (place->all)
		lib.xdp_multiprog__close(place->all);
}

static void place_read(const struct lg_kern *kern, uint32_t ifindex, struct place *ret)
{
	struct xdp_multiprog *all = lib.xdp_multiprog__get_from_ifindex((int)ifindex);

	*ret = (struct place){ 0 };
	if (lib.libxdp_get_error(all))
		return;
	ret->all = all;
	if (lib.xdp_multiprog__is_legacy(all))
		return;
	ret->mode = lib.xdp_multiprog__attach_mode(all) == XDP_MODE_SKB ? LG_MODE_SHARED_GENERIC : LG_MODE_SHARED_NATIVE;
	while ((ret->own = lib.xdp_multiprog__next_prog(ret->own, all)))
		if (is_ours(kern, lib.xdp_program__id(ret->own)))
			return;
}

static enum xdp_attach_mode mode_of(enum lg_attach_mode mode)
{
	return mode == LG_MODE_SHARED_GENERIC ? XDP_MODE_SKB : XDP_MODE_NATIVE;
}

static int detach_own(uint32_t ifindex, const struct place *place)
{
	return lib.xdp_program__detach(place->own, (int)ifindex, mode_of(place->mode), 0);
}

/* ---- attaching ---- */

/* libxdp attaches a program alone where the kernel has no freplace: that is not what was asked for. */
static int attach_checked(const struct lg_kern *kern, struct xdp_program *prog, uint32_t ifindex, enum lg_attach_mode mode)
{
	struct place after;
	int r;

	r = lib.xdp_program__attach(prog, (int)ifindex, mode_of(mode), 0);
	if (r < 0)
		return r;
	place_read(kern, ifindex, &after);
	if (!after.own) {
		lib.xdp_program__detach(prog, (int)ifindex, mode_of(mode), 0);
		r = -EOPNOTSUPP;
	}
	place_close(&after);
	return r;
}

static int attach_new(const struct lg_kern *kern, uint32_t ifindex, enum lg_attach_mode mode)
{
	struct xdp_program_opts opts = { .sz = sizeof(opts), .prog_name = lg_program_name(LG_PROG_XDP_SHARED) };
	struct bpf_object *obj = NULL;
	struct xdp_program *prog;
	int r;

	r = lg_prog_object(kern, LG_PROG_XDP_SHARED, &obj);
	if (r < 0)
		return r;
	opts.obj = obj;
	prog = lib.xdp_program__create(&opts);
	r = (int)lib.libxdp_get_error(prog);
	if (r == 0) {
		r = lib.xdp_program__set_run_prio(prog, RUN_PRIORITY);
		if (r == 0)
			r = lib.xdp_program__set_xdp_frags_support(prog, true);
		if (r == 0)
			r = attach_checked(kern, prog, ifindex, mode);
		lib.xdp_program__close(prog);
	}
	bpf_object__close(obj);
	return r;
}

/* Whether the program in a place is the one that would be put there: 1, 0, or negative errno. */
static int is_current(struct lg_kern *kern, const struct place *place)
{
	uint32_t id = lib.xdp_program__id(place->own);
	struct owner o = { 0 };
	int fd;

	if (!owner_read(id, &o) || !has_own_maps(kern, &o))
		return 0;
	fd = lg_prog_fd(kern, LG_PROG_XDP_SHARED, NULL);
	return fd < 0 ? fd : has_same_code(fd, id);
}

/* The new program comes before the old one goes: for a moment packets are charged twice, and never not at all. */
static int renew(struct lg_kern *kern, uint32_t ifindex, const struct place *place)
{
	int r;

	r = is_current(kern, place);
	if (r)
		return r;
	r = attach_new(kern, ifindex, place->mode);
	return r < 0 ? r : detach_own(ifindex, place);
}

static int attach_in(struct lg_kern *kern, uint32_t ifindex, enum lg_attach_mode mode, const struct place *place)
{
	int r;

	if (!place->own)
		return attach_new(kern, ifindex, mode);
	if (place->mode == mode)
		return renew(kern, ifindex, place);
	r = detach_own(ifindex, place);
	return r < 0 ? r : attach_new(kern, ifindex, mode);
}

/* ---- what libxdp leaves behind ---- */

struct leftover {
	const struct lg_kern *kern;
	char prefix[32]; /* of the dispatchers of one interface */
};

static int has_own(void *arg, const char *path, const char *name)
{
	const struct leftover *l = arg;
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	_cleanup_fd_ int fd = -1;

	if (!strstr(name, "-prog"))
		return 0;
	fd = bpf_obj_get(path);
	return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && is_ours(l->kern, info.id);
}

static int unpin(void *arg, const char *path, const char *name)
{
	(void)arg;
	(void)name;
	return unlink(path) < 0 ? -errno : 0;
}

static int sweep_one(void *arg, const char *path, const char *name)
{
	const struct leftover *l = arg;
	int r;

	if (strncmp(name, l->prefix, strlen(l->prefix)) != 0 || lg_pins_each(path, has_own, arg) != 1)
		return 0;
	r = lg_pins_each(path, unpin, NULL);
	if (r < 0)
		return r;
	return rmdir(path) < 0 ? -errno : 0;
}

/*
 * An interface that goes leaves the pins of its dispatcher, which nobody would ever remove. They are told by the index, which other
 * network namespaces have as well: so only a dispatcher that our program was in is taken for that of our interface.
 */
static int sweep_gone(const struct lg_kern *kern, uint32_t ifindex)
{
	const char *bpffs = getenv(XDP_BPFFS_ENVVAR);
	struct leftover l = { .kern = kern };
	char path[LG_KPATH_LEN];

	snprintf(path, sizeof(path), "%s/xdp", bpffs ? bpffs : "/sys/fs/bpf");
	snprintf(l.prefix, sizeof(l.prefix), "dispatch-%u-", ifindex);
	return lg_pins_each(path, sweep_one, &l);
}

/* ---- records ---- */

struct visit {
	struct lg_kern *kern;
	struct lg_attachment *found;
	uint32_t keep_ifindex; /* not removed */
	int n;
};

static int remove_one(void *arg, const char *path, const char *name)
{
	uint32_t ifindex = (uint32_t)strtoul(name, NULL, 10);
	struct visit *v = arg;
	struct place place;
	int r = 0;

	if (ifindex == v->keep_ifindex)
		return 0;
	place_read(v->kern, ifindex, &place);
	if (place.own) {
		r = detach_own(ifindex, &place);
		v->n += r == 0;
	}
	if (!place.all)
		r = sweep_gone(v->kern, ifindex);
	place_close(&place);
	if (r < 0)
		return r;
	return rmdir(path) < 0 ? -errno : 0;
}

int lg_shared_remove(struct lg_kern *kern, const char *path)
{
	struct visit v = { .kern = kern };
	struct lg_complaint unused = { 0 };
	int r;

	r = lib_load(&unused);
	if (r == 0)
		r = lg_pins_each(path, remove_one, &v);
	if (r < 0)
		return r;
	return rmdir(path) < 0 ? -errno : v.n;
}

/* The record of one program; those of former interfaces of the name go, with what is left of them. */
static int record_make(struct lg_kern *kern, const char *path, uint32_t ifindex)
{
	struct visit v = { .kern = kern, .keep_ifindex = ifindex };
	char sub[LG_KPATH_LEN + 16];
	int r;

	snprintf(sub, sizeof(sub), "%s/%u", path, ifindex);
	r = lg_pins_mkdir(path);
	if (r == 0)
		r = lg_pins_mkdir(sub);
	return r < 0 ? r : lg_pins_each(path, remove_one, &v);
}

int lg_shared_attach(struct lg_kern *kern, const char *path, uint32_t ifindex, enum lg_attach_mode mode, struct lg_print *print,
		     struct lg_complaint *c)
{
	struct place place;
	int r;

	r = lib_load(c);
	if (r < 0)
		return r;
	r = record_make(kern, path, ifindex);
	if (r < 0)
		return r;
	place_read(kern, ifindex, &place);
	lg_print_begin(print);
	if (place.all && lib.xdp_multiprog__is_legacy(place.all))
		r = -EBUSY;
	else
		r = attach_in(kern, ifindex, mode, &place);
	lg_print_end();
	if (r < 0 && !place.own)
		lg_shared_remove(kern, path);
	place_close(&place);
	return r;
}

static int renew_one(void *arg, const char *path, const char *name)
{
	uint32_t ifindex = (uint32_t)strtoul(name, NULL, 10);
	struct visit *v = arg;
	struct place place;
	int r = 0;

	(void)path;
	place_read(v->kern, ifindex, &place);
	if (place.own)
		r = renew(v->kern, ifindex, &place);
	place_close(&place);
	return r < 0 ? r : 0;
}

int lg_shared_renew(struct lg_kern *kern, const char *path)
{
	struct visit v = { .kern = kern };
	struct lg_complaint unused = { 0 };
	int r;

	r = lib_load(&unused);
	return r < 0 ? r : lg_pins_each(path, renew_one, &v);
}

static int query_one(void *arg, const char *path, const char *name)
{
	uint32_t ifindex = (uint32_t)strtoul(name, NULL, 10);
	struct visit *v = arg;
	struct place place;

	(void)path;
	place_read(v->kern, ifindex, &place);
	if (place.own) {
		v->found->ifindex = ifindex;
		v->found->prog_id = lib.xdp_program__id(place.own);
		v->found->mode = place.mode;
		v->n = 1;
	}
	place_close(&place);
	return v->n;
}

int lg_shared_query(struct lg_kern *kern, const char *path, struct lg_attachment *ret)
{
	struct visit v = { .kern = kern, .found = ret };
	struct lg_complaint unused = { 0 };
	int r;

	r = lib_load(&unused);
	return r < 0 ? r : lg_pins_each(path, query_one, &v);
}
