// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The pinned maps of an instance without its programs: for the tool, which needs no daemon and loads nothing. */
#include "kern/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void differ(char *buf, size_t len, const char *field, uint32_t is, uint32_t wanted)
{
	size_t used = strlen(buf);

	if (is != wanted)
		snprintf(buf + used, len - used, "%s%s %u, needed %u", used ? "; " : "", field, is, wanted);
}

/* How many rules the open maps have room for; both the same, unless somebody made one of them by hand. */
int lg_max_rules_read(struct lg_kern *kern)
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
	[LG_MAP_CHECKS] = { 4, sizeof(struct lg_check) },
	[LG_MAP_SHARED] = { 4, sizeof(struct lg_shared) },
	[LG_MAP_DENIALS] = { 4, sizeof(struct lg_denials) },
	[LG_MAP_CONNS] = { sizeof(struct lg_conn_key), sizeof(struct lg_conn) },
	[LG_MAP_INITIATED] = { sizeof(struct lg_conn_key), sizeof(struct lg_initiated) },
	[LG_MAP_CONN_TERMS] = { 4, sizeof(struct lg_conn_terms) },
	[LG_MAP_CONN_OPS] = { 4, sizeof(struct lg_conn_op) },
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
	struct lg_versions s;
	int r;

	r = lg_versions_look(kern, &s);
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

	r = lg_pins_new(instance, root, &kern, ret_fail, c);
	if (r < 0)
		return r;
	for (int i = 0; i < _LG_MAP_N && r == 0; i++)
		r = open_pin(kern, i, c);
	if (r == 0)
		r = lg_max_rules_read(kern);
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
