// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loading. Either all maps are made anew, or those pinned by an earlier process are adopted and the programs of its links are replaced by
 * this build's; limits are enforced throughout.
 *
 * Nothing is pinned before everything is loaded, so a start that fails or crashes leaves at most some of the pins and nothing attached: then
 * all maps are made anew. When something is attached a pin was lost some other way, and the map is fetched from the attached program, which
 * still holds it; what no attached program uses is made. Maps that another build laid out differently: takeover.c.
 */
#include "kern/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "kern/takeover.h"
#include "leasegate.skel.h"

static void skel_destroy(struct leasegate_bpf *skel)
{
	leasegate_bpf__destroy(skel);
}
LG_CLEANUP(struct leasegate_bpf, skel_destroy)

/* What loading knows on its way. */
struct loading {
	struct lg_kern *kern;
	const struct lg_kern_options *o;
	struct leasegate_bpf *skel;
	struct lg_versions versions;
	struct lg_takeover takeover;
	enum lg_kern_misfit how;
	bool remake;		   /* pins of a start that crashed are in the way, and nothing is attached */
	bool no_levels;		   /* `buckets` is made anew */
	uint32_t attached_prog_id; /* 0: nothing is attached */
	struct bpf_map *pinned[LG_MAPS_PER_OBJECT]; /* pinned by us: taken away when a later step fails */
	size_t n_pinned;
	enum lg_kern_fail *ret_fail;
	struct lg_complaint *c;
};

/* ---- before loading: what is there ---- */

static bool all_pinned(const struct loading *l)
{
	char path[LG_KPATH_LEN];
	const struct bpf_map *map;

	bpf_object__for_each_map(map, l->skel->obj) {
		lg_pins_map_path(l->kern, bpf_map__name(map), path, sizeof(path));
		if (!bpf_map__is_internal(map) && access(path, F_OK) < 0)
			return false;
	}
	return true;
}

/* Whose maps are taken over: those of our version, or those of another where ours are not whole; or nobody's. */
static int survey(struct loading *l)
{
	struct lg_takeover *t = &l->takeover;
	int r, n_links;
	bool is_whole;

	t->kern = l->kern;
	r = lg_versions_survey(l->kern, &l->versions);
	n_links = r < 0 ? r : lg_attach_count(l->kern, &l->attached_prog_id);
	if (n_links < 0) {
		*l->ret_fail = lg_why(LG_WHY_PIN, l->kern->dir, n_links, NULL, l->c);
		return n_links;
	}
	l->how = l->o->misfit;
	if (l->versions.begun && l->how == LG_MISFIT_REFUSE)
		l->how = l->versions.begun == 'm' ? LG_MISFIT_MIGRATE : LG_MISFIT_DISCARD;
	is_whole = all_pinned(l);
	t->is_attached = n_links;
	t->from_abi = is_whole || !l->versions.other_abi ? LG_ABI_VERSION : l->versions.other_abi;
	t->way = LG_WAY_ADOPT;
	/* By maps of another version that enforce nothing nobody's levels are kept, unless that is wanted. */
	if (t->from_abi != LG_ABI_VERSION ? !n_links && l->how != LG_MISFIT_MIGRATE : !n_links && !is_whole)
		t->way = LG_WAY_FRESH;
	l->remake = t->way == LG_WAY_FRESH && l->versions.has_own;
	return 0;
}

/* ---- maps ---- */

/* What a map whose size is configured is for people; NULL for one that has a size of its own. */
static const char *sized_as(const struct bpf_map *map)
{
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_BUCKETS)) == 0)
		return "table of keys";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_PRODUCTS)) == 0)
		return "table of keys of several parts";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_WIDE_KEYS)) == 0)
		return "table of wide keys";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_LINE_KEYS)) == 0)
		return "table of line keys";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_LOGS)) == 0)
		return "table of logs";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_CONNS)) == 0)
		return "table of connections";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_INITIATED)) == 0)
		return "table of who began";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_OVERFLOW)) == 0)
		return "table of overflow buckets";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_RULE_COUNTS)) == 0)
		return "table of rules' counters";
	return strcmp(bpf_map__name(map), lg_map_name(LG_MAP_LINES)) == 0 ? "table of lines" : NULL;
}

/* Whether the caller said how large a table should be. */
static bool is_sized(const struct loading *l, const struct bpf_map *map)
{
	if (map == l->skel->maps.buckets || map == l->skel->maps.products || map == l->skel->maps.wide_keys)
		return l->o->max_keys != 0;
	if (map == l->skel->maps.logs)
		return l->o->log_keys != 0;
	if (map == l->skel->maps.conns || map == l->skel->maps.initiated)
		return l->o->max_conns != 0;
	if (map == l->skel->maps.overflow || map == l->skel->maps.rule_counts)
		return l->o->max_rules != 0;
	return (map == l->skel->maps.lines || map == l->skel->maps.line_keys) && l->o->line_keys != LG_LINE_KEYS_ANY;
}

/* Of those that go together one is worth a word. */
static bool is_told(const struct loading *l, const struct bpf_map *map)
{
	return is_sized(l, map) && (map == l->skel->maps.buckets || map == l->skel->maps.logs || map == l->skel->maps.conns ||
				    map == l->skel->maps.rule_counts || map == l->skel->maps.line_keys);
}

/* The map of this name that the attached program uses, or -ENOENT. */
static int map_of_attached(uint32_t prog_id, const char *name)
{
	__u32 ids[LG_MAPS_PER_OBJECT];
	struct bpf_prog_info info = { .map_ids = (uintptr_t)ids, .nr_map_ids = LG_MAPS_PER_OBJECT };
	__u32 len = sizeof(info);
	_cleanup_fd_ int prog = -1;

	prog = bpf_prog_get_fd_by_id(prog_id);
	if (prog < 0 || bpf_obj_get_info_by_fd(prog, &info, &len) < 0)
		return -errno;
	for (__u32 i = 0; i < info.nr_map_ids && i < LG_MAPS_PER_OBJECT; i++) {
		struct bpf_map_info map = { 0 };
		_cleanup_fd_ int fd = -1;

		len = sizeof(map);
		fd = bpf_map_get_fd_by_id(ids[i]);
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &map, &len) < 0)
			return -errno;
		if (strcmp(map.name, name) == 0)
			return TAKE_FD(fd);
	}
	return -ENOENT;
}

/* A descriptor of the map of an earlier process: pinned, or held by what is attached. -ENOENT: to be made. */
static int find_map(struct loading *l, const char *name, const char *path)
{
	int fd;

	if (l->takeover.way == LG_WAY_FRESH)
		return -ENOENT;
	fd = bpf_obj_get(path);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT || !l->attached_prog_id || l->takeover.from_abi != LG_ABI_VERSION)
		return -errno;
	fd = map_of_attached(l->attached_prog_id, name);
	if (fd != -EPERM)
		return fd;
	lg_complain(l->c,
		    "%s is missing while programs are attached, and only with CAP_SYS_ADMIN can the map be fetched from "
		    "them: start once with it, or remove all with `leasegate detach`",
		    path);
	*l->ret_fail = LG_KERN_PRIVILEGE;
	return -EKEYREJECTED;
}

static int meet_map(struct loading *l, struct bpf_map *map)
{
	char sub[128], path[LG_KPATH_LEN];
	int fd, r;

	bpf_map__set_pin_path(map, NULL);
	snprintf(sub, sizeof(sub), "v%u/%s", l->takeover.from_abi, bpf_map__name(map));
	lg_pins_sub_path(l->kern, sub, path, sizeof(path));
	fd = find_map(l, bpf_map__name(map), path);
	if (fd == -EKEYREJECTED)
		return fd;
	l->no_levels |= fd == -ENOENT && map == l->skel->maps.buckets;
	r = fd < 0 && fd != -ENOENT ? fd : lg_takeover_meet(&l->takeover, l->skel->obj, map, fd, sized_as(map), is_sized(l, map),
							    is_told(l, map));
	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_PIN, path, r, NULL, l->c);
	return r;
}

static int reuse_maps(struct loading *l)
{
	struct lg_takeover *t = &l->takeover;
	struct bpf_map *map;
	int r = 0;

	bpf_object__for_each_map(map, l->skel->obj)
		if (r == 0 && !bpf_map__is_internal(map))
			r = meet_map(l, map);
	if (r < 0 || t->way == LG_WAY_FRESH)
		return r;
	r = lg_takeover_decide(t, l->how, l->c);
	if (r == -EPERM)
		*l->ret_fail = LG_KERN_PRIVILEGE;
	if (r < 0)
		return r;
	/* Nothing enforces, so nothing has to go on meanwhile. */
	if (t->way == LG_WAY_REPLACE && !t->is_attached) {
		t->way = LG_WAY_FRESH;
		l->remake = l->versions.has_own;
	}
	if (t->way == LG_WAY_CARRY || t->way == LG_WAY_REPLACE)
		lg_versions_begin(l->kern, t->way == LG_WAY_CARRY ? 'm' : 'd');
	r = lg_takeover_reuse(t, l->c);
	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_PIN, l->kern->dir, r, NULL, l->c);
	return r;
}

/* ---- loading ---- */

int lg_object_open(struct bpf_object **ret_obj)
{
	size_t len;
	const void *bytes = leasegate_bpf__elf_bytes(&len);
	struct bpf_object *obj = bpf_object__open_mem(bytes, len, NULL);

	if (!obj)
		return -errno;
	*ret_obj = obj;
	return 0;
}

static int skel_open(struct loading *l)
{
	uint32_t max_rules = l->o->max_rules ? l->o->max_rules : LG_RULES_DEFAULT;
	uint32_t max_conns = l->o->max_conns ? l->o->max_conns : LG_CONNS_DEFAULT;
	uint32_t max_keys = l->o->max_keys ? l->o->max_keys : LG_KEYS_DEFAULT;
	uint32_t line_keys = l->o->line_keys == LG_LINE_KEYS_ANY ? LG_LINE_KEYS_DEFAULT : l->o->line_keys;
	uint32_t n_lines = line_keys ? (line_keys - 1) / LG_LINE_SLOTS + 1 : 1;
	int r;

	l->skel = leasegate_bpf__open();
	if (!l->skel) {
		r = -errno;
		*l->ret_fail = lg_why(LG_WHY_LOAD, "programs", r, NULL, l->c);
		return r;
	}
	l->skel->rodata->lg_test_clock = l->o->test_clock;
	r = bpf_map__set_max_entries(l->skel->maps.wide_keys, max_keys);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.buckets, max_keys);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.products, max_keys);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.logs, l->o->log_keys ? l->o->log_keys : LG_LOGS_DEFAULT);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.lines, n_lines);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.overflow, max_rules * LG_OVERFLOW_BUCKETS);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.rule_counts, max_rules + 1);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.conns, max_conns);
	if (r == 0)
		r = bpf_map__set_max_entries(l->skel->maps.initiated, max_conns);
	return r ? r : bpf_map__set_max_entries(l->skel->maps.line_keys, n_lines * LG_LINE_SLOTS);
}

/* The others are loaded when they are first needed (program.c): a start waits for the kernel to verify each, some 0.3 s. */
static bool is_loaded_at_once(const struct lg_kern_options *o, enum lg_prog prog)
{
	return prog != LG_PROG_XDP_SHARED && prog != LG_PROG_CHECK && !(prog < (enum lg_prog)_LG_HOOK_N && o->unused_hooks & 1u << prog);
}

static int skel_load(struct loading *l)
{
	struct lg_print print;
	int r;

	for (int i = 0; i < _LG_PROG_N; i++)
		if (!is_loaded_at_once(l->o, (enum lg_prog)i))
			bpf_program__set_autoload(bpf_object__find_program_by_name(l->skel->obj, lg_program_name(i)), false);
	lg_print_begin(&print);
	r = leasegate_bpf__load(l->skel);
	lg_print_end();
	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_LOAD, "cannot load the programs", r, &print, l->c);
	return r;
}

/* Words of a new instance; of an adopted one they are checked. */
static int control_init(struct loading *l)
{
	bool keeps = (l->takeover.way == LG_WAY_ADOPT || l->takeover.way == LG_WAY_CARRY) && !l->no_levels;
	int fd = bpf_map__fd(l->skel->maps.control);
	struct lg_control control = { 0 };
	__u32 zero = 0;
	int r = 0;

	if (bpf_map_lookup_elem(fd, &zero, &control) < 0)
		r = -errno;
	if (r == 0 && keeps && control.abi_version != l->takeover.from_abi) {
		lg_complain(l->c,
			    "%s: the pinned map 'control' is another than this build needs (abi_version %u, needed %u); "
			    "nothing was changed",
			    l->kern->dir, control.abi_version, l->takeover.from_abi);
		return -EPROTONOSUPPORT;
	}
	if (r < 0 || (keeps && l->takeover.way == LG_WAY_ADOPT))
		return r;
	control.abi_version = LG_ABI_VERSION;
	/* Levels begin anew, so lessors must not take this for the state they know. */
	if (!keeps)
		control.incarnation = l->o->incarnation;
	if (!keeps && (getrandom(&control.hash_seed, sizeof(control.hash_seed), 0) != sizeof(control.hash_seed) ||
		       getrandom(control.line_seed, sizeof(control.line_seed), 0) != sizeof(control.line_seed)))
		return -EIO;
	return bpf_map_update_elem(fd, &zero, &control, BPF_ANY) < 0 ? -errno : 0;
}

static int pin_map(struct loading *l, struct bpf_map *map)
{
	char path[LG_KPATH_LEN];

	lg_pins_map_path(l->kern, bpf_map__name(map), path, sizeof(path));
	if (l->remake && unlink(path) < 0 && errno != ENOENT)
		return -errno;
	if (bpf_obj_pin(bpf_map__fd(map), path) == 0) {
		l->pinned[l->n_pinned++] = map;
		return 0;
	}
	return errno == EEXIST ? 0 : -errno;
}

static int pin_maps(struct loading *l)
{
	char path[LG_KPATH_LEN];
	struct bpf_map *map;
	int r;

	lg_pins_map_path(l->kern, "", path, sizeof(path));
	l->kern->vdir_made = mkdir(path, 0700) == 0;
	r = l->kern->vdir_made || errno == EEXIST ? 0 : -errno;
	bpf_object__for_each_map(map, l->skel->obj)
		if (r == 0 && !bpf_map__is_internal(map) && map != l->skel->maps.control)
			r = pin_map(l, map);
	if (r == 0)
		r = pin_map(l, l->skel->maps.control);
	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_PIN, path, r, NULL, l->c);
	return r;
}

static void unpin_maps(struct loading *l)
{
	char path[LG_KPATH_LEN];

	while (l->n_pinned) {
		lg_pins_map_path(l->kern, bpf_map__name(l->pinned[--l->n_pinned]), path, sizeof(path));
		unlink(path);
	}
}

/* Of our own version, but no map of this build: of one before the version's layout was settled. */
static int drop_stranger(void *arg, const char *path, const char *name)
{
	const struct loading *l = arg;

	return bpf_object__find_map_by_name(l->skel->obj, name) ? 0 : lg_pins_unlink(NULL, path, name);
}

static int tidy(struct loading *l)
{
	char path[LG_KPATH_LEN];
	int r;

	lg_pins_map_path(l->kern, "", path, sizeof(path));
	r = lg_pins_each(path, drop_stranger, l);
	return r < 0 ? r : lg_versions_purge(l->kern);
}

uint32_t lg_kern_max_rules(const struct lg_kern *kern)
{
	return kern->max_rules;
}

/* The descriptors outlive the skeleton, which holds megabytes of what only loading needs. */
static int take_fds(struct loading *l)
{
	for (int i = 0; i < _LG_MAP_N; i++) {
		const struct bpf_map *map = bpf_object__find_map_by_name(l->skel->obj, lg_map_name(i));

		if (!map)
			return -ENOENT;
		l->kern->map_fd[i] = fcntl(bpf_map__fd(map), F_DUPFD_CLOEXEC, 3);
		if (l->kern->map_fd[i] < 0)
			return -errno;
	}
	for (int i = 0; i < _LG_PROG_N; i++) {
		const struct bpf_program *prog = bpf_object__find_program_by_name(l->skel->obj, lg_program_name(i));

		if (!is_loaded_at_once(l->o, (enum lg_prog)i))
			continue;
		if (!prog)
			return -ENOENT;
		l->kern->prog_fd[i] = fcntl(bpf_program__fd(prog), F_DUPFD_CLOEXEC, 3);
		if (l->kern->prog_fd[i] < 0)
			return -errno;
	}
	return lg_max_rules_read(l->kern);
}

static int update_links(struct loading *l)
{
	int r = lg_attach_update_all(l->kern);

	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_ATTACH, "cannot replace the attached programs", r, NULL, l->c);
	return r;
}

/* From the first link on that runs our program this can only be ended, by this build, or undone, by the one before. */
static int carry_over(struct loading *l)
{
	struct lg_takeover *t = &l->takeover;
	int r;

	r = update_links(l);
	if (r < 0)
		return r;
	r = lg_takeover_copy_levels(t);
	if (r == 0)
		r = lg_versions_commit(l->kern, t->from_abi);
	if (r == 0)
		r = lg_takeover_release(t);
	if (r == 0)
		r = tidy(l);
	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_LOAD, "levels could not be carried over; start again", r, NULL, l->c);
	else
		lg_takeover_report(t, l->c);
	return r;
}

static int settle_later(struct loading *l)
{
	l->kern->unsettled_abi = l->takeover.from_abi;
	return 0;
}

/* Words, descriptors and pins of what was loaded. On failure nothing of it is left. */
static int establish(struct loading *l)
{
	int r = 0;

	if (l->takeover.way == LG_WAY_CARRY)
		r = lg_takeover_copy_rules(&l->takeover);
	if (r == 0)
		r = control_init(l);
	if (r == 0)
		r = take_fds(l);
	if (r < 0 && r != -EPROTONOSUPPORT)
		*l->ret_fail = lg_why(LG_WHY_LOAD, "maps", r, NULL, l->c);
	if (r == 0)
		r = pin_maps(l);
	if (r == 0 && l->takeover.way == LG_WAY_CARRY) {
		r = lg_takeover_hold(&l->takeover);
		if (r < 0)
			*l->ret_fail = lg_why(LG_WHY_LOAD, "rules", r, NULL, l->c);
	}
	return r;
}

static int publish(struct loading *l)
{
	enum lg_way way = l->takeover.way;
	int r;

	r = establish(l);
	if (r == 0 && way == LG_WAY_CARRY)
		return carry_over(l);
	if (r == 0 && way == LG_WAY_REPLACE)
		return settle_later(l);
	if (r == 0)
		r = update_links(l);
	if (r == 0) {
		r = tidy(l);
		if (r < 0)
			*l->ret_fail = lg_why(LG_WHY_PIN, l->kern->dir, r, NULL, l->c);
	}
	if (r < 0)
		unpin_maps(l);
	return r;
}

int lg_kern_settle(struct lg_kern *kern)
{
	uint32_t from_abi;
	int r;

	if (!kern->unsettled_abi)
		return 0;
	/* From here on there is no way back. */
	from_abi = kern->unsettled_abi;
	kern->unsettled_abi = 0;
	r = lg_attach_update_all(kern);
	if (r == 0)
		r = lg_versions_commit(kern, from_abi);
	return r < 0 ? r : lg_versions_purge(kern);
}

static int load(struct loading *l)
{
	_cleanup_(skel_destroy) struct leasegate_bpf *skel = NULL;
	int r;

	r = skel_open(l);
	skel = l->skel;
	if (r == 0)
		r = survey(l);
	if (r == 0)
		r = reuse_maps(l);
	if (r == 0)
		r = skel_load(l);
	if (r == 0)
		r = publish(l);
	l->skel = NULL;
	return r;
}

int lg_kern_maps_look(const struct lg_kern_options *o, struct lg_map_facts *ret, size_t max)
{
	_cleanup_(skel_destroy) struct leasegate_bpf *skel = NULL;
	enum lg_kern_fail fail;
	struct lg_complaint c;
	struct loading l = { .o = o, .ret_fail = &fail, .c = &c };
	const struct bpf_map *map;
	size_t n = 0;
	int r;

	lg_print_hook();
	r = skel_open(&l);
	skel = l.skel;
	if (r < 0)
		return r;
	bpf_object__for_each_map(map, skel->obj) {
		if (n == max || bpf_map__is_internal(map))
			continue;
		ret[n] = (struct lg_map_facts){ .type = bpf_map__type(map), .key_bytes = bpf_map__key_size(map),
						.value_bytes = bpf_map__value_size(map), .max_entries = bpf_map__max_entries(map),
						.flags = bpf_map__map_flags(map) };
		snprintf(ret[n++].name, sizeof(ret->name), "%s", bpf_map__name(map));
	}
	return (int)n;
}

int lg_kern_load_try(enum lg_kern_fail *ret_fail, struct lg_complaint *c)
{
	const struct lg_kern_options o = { .max_keys = 16, .log_keys = 1, .max_rules = 1, .max_conns = 16 };
	_cleanup_(skel_destroy) struct leasegate_bpf *skel = NULL;
	struct loading l = { .o = &o, .ret_fail = ret_fail, .c = c };
	int r;

	lg_print_hook();
	*ret_fail = LG_KERN_REFUSED;
	r = skel_open(&l);
	skel = l.skel;
	return r < 0 ? r : skel_load(&l);
}

static int check_options(const struct lg_kern_options *o, struct lg_complaint *c)
{
	if (o->max_keys > LG_KEYS_LIMIT)
		return lg_complain(c, "max_keys %u: at most %u", o->max_keys, LG_KEYS_LIMIT);
	if (o->line_keys > LG_LINE_KEYS_LIMIT && o->line_keys != LG_LINE_KEYS_ANY)
		return lg_complain(c, "line_keys %u: at most %u", o->line_keys, LG_LINE_KEYS_LIMIT);
	if (o->log_keys > LG_LOGS_LIMIT)
		return lg_complain(c, "log_keys %u: at most %u", o->log_keys, LG_LOGS_LIMIT);
	if (o->max_conns > LG_CONNS_LIMIT)
		return lg_complain(c, "max_connections %u: at most %u", o->max_conns, LG_CONNS_LIMIT);
	if (o->max_rules > LG_RULES_MAX)
		return lg_complain(c, "max_rules %u: at most %u", o->max_rules, LG_RULES_MAX);
	return 0;
}

int lg_kern_open(const struct lg_kern_options *o, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail,
		 struct lg_complaint *c)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	_cleanup_free_ struct loading *l = calloc(1, sizeof(*l));
	int r;

	c->text[0] = '\0';
	*ret_fail = LG_KERN_REFUSED;
	if (!l) {
		lg_complain(c, "out of memory");
		return -ENOMEM;
	}
	r = check_options(o, c);
	if (r == 0)
		r = lg_pins_new(o->instance, o->root, &kern, ret_fail, c);
	if (r < 0)
		return r;
	l->kern = kern;
	l->o = o;
	l->ret_fail = ret_fail;
	l->c = c;
	r = lg_pins_make(kern, ret_fail, c);
	if (r == 0)
		r = load(l);
	lg_takeover_fini(&l->takeover);
	if (r < 0) {
		lg_pins_unmake(kern);
		return r;
	}
	*ret_fail = LG_KERN_OK;
	*ret_kern = TAKE(kern);
	switch (l->takeover.way) {
	case LG_WAY_FRESH: return 0;
	case LG_WAY_ADOPT:
	case LG_WAY_CARRY: return 1;
	case LG_WAY_REPLACE: return 2;
	}
	return -EPROTO;
}

struct lg_kern *lg_kern_free(struct lg_kern *kern)
{
	if (!kern)
		return NULL;
	if (kern->unsettled_abi)
		lg_versions_undo(kern);
	ring_buffer__free(kern->ring);
	if (kern->control)
		munmap(kern->control, sizeof(*kern->control));
	for (int i = 0; i < _LG_MAP_N; i++)
		if (kern->map_fd[i] >= 0)
			close(kern->map_fd[i]);
	for (int i = 0; i < _LG_PROG_N; i++)
		if (kern->prog_fd[i] >= 0)
			close(kern->prog_fd[i]);
	if (kern->lock_fd >= 0)
		close(kern->lock_fd);
	free(kern->made);
	free(kern);
	return NULL;
}
