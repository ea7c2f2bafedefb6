// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loading. Either all maps are made anew, or those pinned by an earlier process are adopted and the programs of its
 * links are replaced by this build's; limits are enforced throughout.
 *
 * Nothing is pinned before everything is loaded, so a start that fails or crashes leaves at most some of the pins and
 * nothing attached: then all maps are made anew. When something is attached a pin was lost some other way, and the map
 * is fetched from the attached program, which still holds it; what no attached program uses is made.
 */
#include "kern/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "leasegate.skel.h"

#define MAPS_PER_PROG_MAX 64 /* BPF object maps and .rodata; the kernel's own limit is the same */

static const char *const prog_names[_LG_PROG_N] = {
	[LG_PROG_XDP] = "lg_xdp",
	[LG_PROG_TC_INGRESS] = "lg_tc_ingress",
	[LG_PROG_TC_EGRESS] = "lg_tc_egress",
	[LG_PROG_GRANT] = "lg_grant",
	[LG_PROG_COLLECT] = "lg_collect",
};

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
	bool adopt;		   /* maps of an earlier process are taken over */
	bool remake;		   /* pins of a start that crashed are in the way, and nothing is attached */
	bool no_levels;		   /* `buckets` is made anew */
	uint32_t attached_prog_id; /* 0: nothing is attached */
	struct bpf_map *pinned[_LG_MAP_N]; /* pinned by us: taken away when a later step fails */
	size_t n_pinned;
	enum lg_kern_fail *ret_fail;
	struct lg_complaint *c;
};

/* ---- before loading: what is there ---- */

struct survey {
	uint32_t other_abi; /* a version that is not ours, 0: none */
	uint32_t n_own;	    /* pins in our directory */
};

static int survey_version(void *arg, const char *path, const char *name)
{
	uint32_t version = lg_pins_abi(name);
	struct survey *s = arg;

	(void)path;
	if (version && version != LG_ABI_VERSION)
		s->other_abi = version;
	return 0;
}

static int survey_own(void *arg, const char *path, const char *name)
{
	struct survey *s = arg;

	(void)path;
	(void)name;
	s->n_own++;
	return 0;
}

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

static int survey(struct loading *l)
{
	struct survey s = { 0 };
	char path[LG_KPATH_LEN];
	int r, n_links;

	lg_pins_map_path(l->kern, "", path, sizeof(path));
	r = lg_pins_each(l->kern->dir, survey_version, &s);
	if (r == 0)
		r = lg_pins_each(path, survey_own, &s);
	n_links = r < 0 ? r : lg_attach_count(l->kern, &l->attached_prog_id);
	if (n_links < 0) {
		*l->ret_fail = lg_why(LG_WHY_PIN, l->kern->dir, n_links, NULL, l->c);
		return n_links;
	}
	if (s.other_abi && n_links) {
		lg_complain(l->c,
			    "%s: programs of ABI version %u are attached, this build speaks version %d: run the other "
			    "build, or remove them with `leasegate detach` (limits are off and levels lost until the next "
			    "start)",
			    l->kern->dir, s.other_abi, LG_ABI_VERSION);
		return -EPROTONOSUPPORT;
	}
	l->adopt = n_links || all_pinned(l);
	l->remake = !l->adopt && s.n_own;
	return 0;
}

/* ---- maps ---- */

static void differ(char *buf, size_t len, const char *field, uint32_t is, uint32_t wanted)
{
	size_t used = strlen(buf);

	if (is != wanted)
		snprintf(buf + used, len - used, "%s%s %u, needed %u", used ? "; " : "", field, is, wanted);
}

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
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_OVERFLOW)) == 0)
		return "table of overflow buckets";
	if (strcmp(bpf_map__name(map), lg_map_name(LG_MAP_RULE_COUNTS)) == 0)
		return "table of rules' counters";
	return strcmp(bpf_map__name(map), lg_map_name(LG_MAP_LINES)) == 0 ? "table of lines" : NULL;
}

/* Whether the caller said how large a table should be. Those that go with another one are not worth a word of their own. */
static bool is_wanted(const struct loading *l, const struct bpf_map *map)
{
	if (map == l->skel->maps.buckets)
		return l->o->max_keys != 0;
	if (map == l->skel->maps.logs)
		return l->o->log_keys != 0;
	if (map == l->skel->maps.rule_counts)
		return l->o->max_rules != 0;
	return map == l->skel->maps.line_keys && l->o->line_keys != LG_LINE_KEYS_ANY;
}

/* Compares a pinned map with what this build wants, field by field. The number of keys and of rules alone may differ. */
static int check_map(struct loading *l, const struct bpf_map *map, int fd)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);
	const char *table = sized_as(map);
	char what[256] = "";

	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	differ(what, sizeof(what), "type", info.type, bpf_map__type(map));
	differ(what, sizeof(what), "key size", info.key_size, bpf_map__key_size(map));
	differ(what, sizeof(what), "value size", info.value_size, bpf_map__value_size(map));
	if (!table)
		differ(what, sizeof(what), "max entries", info.max_entries, bpf_map__max_entries(map));
	differ(what, sizeof(what), "flags", info.map_flags, bpf_map__map_flags(map));
	if (what[0]) {
		lg_complain(l->c,
			    "%s: the pinned map '%s' is another than this build needs (%s); nothing was changed: run the "
			    "build that made it, or remove it with `leasegate detach`",
			    l->kern->dir, bpf_map__name(map), what);
		return -EPROTONOSUPPORT;
	}
	if (table && is_wanted(l, map) && info.max_entries != bpf_map__max_entries(map))
		lg_complain(l->c,
			    "%s: the %s stays at %u entries, not %u as configured: the size of a table in use cannot change; "
			    "`leasegate detach` and a new start make it anew, without its levels",
			    l->kern->dir, table, info.max_entries, bpf_map__max_entries(map));
	return 0;
}

/* The map of this name that the attached program uses, or -ENOENT. */
static int map_of_attached(uint32_t prog_id, const char *name)
{
	__u32 ids[MAPS_PER_PROG_MAX];
	struct bpf_prog_info info = { .map_ids = (uintptr_t)ids, .nr_map_ids = MAPS_PER_PROG_MAX };
	__u32 len = sizeof(info);
	_cleanup_fd_ int prog = -1;

	prog = bpf_prog_get_fd_by_id(prog_id);
	if (prog < 0 || bpf_obj_get_info_by_fd(prog, &info, &len) < 0)
		return -errno;
	for (__u32 i = 0; i < info.nr_map_ids && i < MAPS_PER_PROG_MAX; i++) {
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

	if (l->remake)
		return -ENOENT;
	fd = bpf_obj_get(path);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT || !l->attached_prog_id)
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

static int reuse_map(struct loading *l, struct bpf_map *map)
{
	char path[LG_KPATH_LEN];
	_cleanup_fd_ int fd = -1;
	int r;

	bpf_map__set_pin_path(map, NULL);
	lg_pins_map_path(l->kern, bpf_map__name(map), path, sizeof(path));
	fd = find_map(l, bpf_map__name(map), path);
	if (fd == -ENOENT) {
		l->no_levels |= map == l->skel->maps.buckets;
		return 0;
	}
	r = fd < 0 ? fd : check_map(l, map, fd);
	if (r == -EPROTONOSUPPORT || r == -EKEYREJECTED)
		return r;
	if (r == 0)
		r = bpf_map__reuse_fd(map, fd);
	if (r < 0)
		*l->ret_fail = lg_why(LG_WHY_PIN, path, r, NULL, l->c);
	return r;
}

static int reuse_maps(struct loading *l)
{
	struct bpf_map *map;
	int r;

	bpf_object__for_each_map(map, l->skel->obj) {
		if (bpf_map__is_internal(map))
			continue;
		r = reuse_map(l, map);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- loading ---- */

static int skel_open(struct loading *l)
{
	uint32_t max_rules = l->o->max_rules ? l->o->max_rules : LG_RULES_DEFAULT;
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
	return r ? r : bpf_map__set_max_entries(l->skel->maps.line_keys, n_lines * LG_LINE_SLOTS);
}

static int skel_load(struct loading *l)
{
	struct lg_print print;
	int r;

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
	int fd = bpf_map__fd(l->skel->maps.control);
	struct lg_control control = { 0 };
	__u32 zero = 0;
	int r = 0;

	if (bpf_map_lookup_elem(fd, &zero, &control) < 0)
		r = -errno;
	if (r == 0 && l->adopt && !l->no_levels && control.abi_version != LG_ABI_VERSION) {
		lg_complain(l->c,
			    "%s: the pinned map 'control' is another than this build needs (abi_version %u, needed %d); "
			    "nothing was changed",
			    l->kern->dir, control.abi_version, LG_ABI_VERSION);
		return -EPROTONOSUPPORT;
	}
	if (r < 0 || (l->adopt && !l->no_levels))
		return r;
	/* Levels begin anew, so lessors must not take this for the state they know. */
	control.abi_version = LG_ABI_VERSION;
	control.incarnation = l->o->incarnation;
	if (getrandom(&control.hash_seed, sizeof(control.hash_seed), 0) != sizeof(control.hash_seed) ||
	    getrandom(control.line_seed, sizeof(control.line_seed), 0) != sizeof(control.line_seed))
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

/* How many rules the open maps have room for; both the same, unless somebody made one of them by hand. */
static int max_rules_read(struct lg_kern *kern)
{
	struct bpf_map_info overflow = { 0 }, counts = { 0 };
	__u32 overflow_len = sizeof(overflow), counts_len = sizeof(counts);

	if (bpf_obj_get_info_by_fd(kern->map_fd[LG_MAP_OVERFLOW], &overflow, &overflow_len) < 0 ||
	    bpf_obj_get_info_by_fd(kern->map_fd[LG_MAP_RULE_COUNTS], &counts, &counts_len) < 0)
		return -errno;
	kern->max_rules = overflow.max_entries / LG_OVERFLOW_BUCKETS;
	if (counts.max_entries - 1 < kern->max_rules)
		kern->max_rules = counts.max_entries - 1;
	if (kern->max_rules > LG_RULES_MAX)
		kern->max_rules = LG_RULES_MAX;
	return 0;
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
		const struct bpf_program *prog = bpf_object__find_program_by_name(l->skel->obj, prog_names[i]);

		if (!prog)
			return -ENOENT;
		l->kern->prog_fd[i] = fcntl(bpf_program__fd(prog), F_DUPFD_CLOEXEC, 3);
		if (l->kern->prog_fd[i] < 0)
			return -errno;
	}
	return max_rules_read(l->kern);
}

static int publish(struct loading *l)
{
	int r;

	r = control_init(l);
	if (r == 0)
		r = take_fds(l);
	if (r < 0) {
		if (r != -EPROTONOSUPPORT)
			*l->ret_fail = lg_why(LG_WHY_LOAD, "maps", r, NULL, l->c);
		return r;
	}
	r = pin_maps(l);
	if (r == 0) {
		r = lg_attach_update_all(l->kern);
		if (r < 0)
			*l->ret_fail = lg_why(LG_WHY_ATTACH, "cannot replace the attached programs", r, NULL, l->c);
	}
	if (r < 0)
		unpin_maps(l);
	return r;
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
	const struct lg_kern_options o = { .max_keys = 16, .log_keys = 1, .max_rules = 1 };
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
	if (o->max_rules > LG_RULES_MAX)
		return lg_complain(c, "max_rules %u: at most %u", o->max_rules, LG_RULES_MAX);
	return 0;
}

int lg_kern_open(const struct lg_kern_options *o, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail,
		 struct lg_complaint *c)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	struct loading l = { .o = o, .ret_fail = ret_fail, .c = c };
	int r;

	c->text[0] = '\0';
	*ret_fail = LG_KERN_REFUSED;
	r = check_options(o, c);
	if (r == 0)
		r = lg_kern_new(o->instance, o->root, &kern, c);
	if (r < 0)
		return r;
	l.kern = kern;
	r = lg_pins_check_root(kern, c);
	if (r < 0) {
		*ret_fail = r == -ENODEV ? LG_KERN_NO_BPFFS : LG_KERN_REFUSED;
		return r;
	}
	r = lg_pins_make(kern, ret_fail, c);
	if (r == 0)
		r = load(&l);
	if (r < 0) {
		lg_pins_unmake(kern);
		return r;
	}
	*ret_fail = LG_KERN_OK;
	*ret_kern = TAKE(kern);
	return l.adopt;
}

/* ---- pins only ---- */

static const struct {
	uint32_t key_bytes;
	uint32_t value_bytes;
} map_sizes[_LG_MAP_N] = {
	[LG_MAP_BYPASS] = { 4, sizeof(struct lg_bypass) },
	[LG_MAP_BUCKETS] = { sizeof(struct lg_short_key), sizeof(struct lg_bucket) },
	[LG_MAP_PRODUCTS] = { sizeof(struct lg_key), sizeof(struct lg_bucket) },
	[LG_MAP_WIDE_KEYS] = { sizeof(struct lg_key), sizeof(struct lg_wide_key) },
	[LG_MAP_INTERFACES] = { 4, sizeof(struct lg_interface_class) },
	[LG_MAP_LISTS] = { sizeof(struct lg_list_key), sizeof(struct lg_list_entry) },
	[LG_MAP_BANS] = { sizeof(struct lg_key), sizeof(struct lg_ban) },
	[LG_MAP_STRIKES] = { 4, sizeof(struct lg_strikes) },
	[LG_MAP_OVERFLOW] = { 4, sizeof(struct lg_bucket) },
	[LG_MAP_LINES] = { 4, sizeof(struct lg_line) },
	[LG_MAP_LINE_KEYS] = { 4, sizeof(struct lg_line_key) },
	[LG_MAP_LOGS] = { sizeof(struct lg_key), sizeof(struct lg_log) },
	[LG_MAP_RULES] = { 4, sizeof(struct lg_ruleset) },
	[LG_MAP_CLASSIFIERS] = { 4, sizeof(struct lg_classifier) },
	[LG_MAP_RULE_NAMES] = { 4, sizeof(struct lg_rule_name) },
	[LG_MAP_VERDICTS] = { 4, sizeof(struct lg_count) },
	[LG_MAP_LATER_FRAGMENTS] = { 4, sizeof(__u64) },
	[LG_MAP_RULE_COUNTS] = { 4, sizeof(struct lg_rule_counts) },
	[LG_MAP_EVENTS] = { 0, 0 },
	[LG_MAP_OPS] = { 4, sizeof(struct lg_op) },
	[LG_MAP_SHARED] = { 4, sizeof(struct lg_shared) },
	[LG_MAP_DENIALS] = { 4, sizeof(struct lg_denials) },
	[LG_MAP_TEST_CLOCK] = { 4, sizeof(__u64) },
	[LG_MAP_CONTROL] = { 4, sizeof(struct lg_control) },
};

static int open_pin(struct lg_kern *kern, enum lg_map map, struct lg_complaint *c)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);
	char path[LG_KPATH_LEN];
	char what[128] = "";
	int fd;

	lg_pins_map_path(kern, lg_map_name(map), path, sizeof(path));
	fd = bpf_obj_get(path);
	if (fd < 0)
		return -errno;
	kern->map_fd[map] = fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len) < 0)
		return -errno;
	differ(what, sizeof(what), "key size", info.key_size, map_sizes[map].key_bytes);
	differ(what, sizeof(what), "value size", info.value_size, map_sizes[map].value_bytes);
	if (!what[0])
		return 0;
	lg_complain(c, "%s: the pinned map is another than this build knows (%s): use the tool of the build that made it",
		    path, what);
	return -EPROTONOSUPPORT;
}

/* No pins of our version: say whether another version's are there. */
static int no_pins(struct lg_kern *kern, struct lg_complaint *c)
{
	struct survey s = { 0 };
	int r;

	r = lg_pins_each(kern->dir, survey_version, &s);
	if (r == 0 && s.other_abi) {
		lg_complain(c,
			    "instance '%s' was made by a build of ABI version %u, this one speaks version %d: use the tool "
			    "of that build",
			    kern->instance, s.other_abi, LG_ABI_VERSION);
		return -EPROTONOSUPPORT;
	}
	lg_complain(c,
		    "instance '%s' has no whole set of pins in %s: no daemon was started under this name, or it was "
		    "detached",
		    kern->instance, kern->root);
	return -ENOENT;
}

int lg_kern_open_pins(const char *instance, const char *root, struct lg_kern **ret_kern, enum lg_kern_fail *ret_fail,
		      struct lg_complaint *c)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	int r;

	*ret_fail = LG_KERN_REFUSED;
	r = lg_kern_new(instance, root, &kern, c);
	if (r < 0)
		return r;
	r = lg_pins_check_root(kern, c);
	if (r < 0) {
		*ret_fail = r == -ENODEV ? LG_KERN_NO_BPFFS : LG_KERN_REFUSED;
		return r;
	}
	for (int i = 0; i < _LG_MAP_N && r == 0; i++)
		r = open_pin(kern, i, c);
	if (r == 0)
		r = max_rules_read(kern);
	if (r == -ENOENT)
		return no_pins(kern, c);
	if (r < 0) {
		if (r != -EPROTONOSUPPORT)
			*ret_fail = lg_why(LG_WHY_PIN, kern->dir, r, NULL, c);
		return r;
	}
	*ret_fail = LG_KERN_OK;
	*ret_kern = TAKE(kern);
	return 0;
}

struct lg_kern *lg_kern_free(struct lg_kern *kern)
{
	if (!kern)
		return NULL;
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
