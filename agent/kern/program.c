// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The programs of the object one by one. Those that a node is configured for are loaded when it starts; a link of an earlier life at
 * another hook, or a place in libxdp's dispatcher, needs one more, which is then loaded with the maps of the instance.
 */
#include "kern/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char *const names[_LG_PROG_N] = {
	[LG_PROG_XDP] = "lg_xdp",
	[LG_PROG_TC_INGRESS] = "lg_tc_ingress",
	[LG_PROG_TC_EGRESS] = "lg_tc_egress",
	[LG_PROG_GRANT] = "lg_grant",
	[LG_PROG_COLLECT] = "lg_collect",
	[LG_PROG_TRACK] = "lg_track",
	[LG_PROG_CHECK] = "lg_check",
	[LG_PROG_XDP_SHARED] = "lg_xdp_shared",
};

static void object_close(struct bpf_object *obj)
{
	bpf_object__close(obj);
}
LG_CLEANUP(struct bpf_object, object_close)

const char *lg_program_name(enum lg_prog prog)
{
	return names[prog];
}

bool lg_prog_may_load(const struct lg_kern *kern)
{
	return kern->prog_fd[LG_PROG_GRANT] >= 0;
}

/* Has a map of the object be that of the instance: by its descriptor where we hold it, else by its pin. */
static int map_reuse(const struct lg_kern *kern, struct bpf_map *map)
{
	char path[LG_KPATH_LEN];
	_cleanup_fd_ int fd = -1;

	bpf_map__set_pin_path(map, NULL);
	for (int i = 0; i < _LG_MAP_N; i++)
		if (strcmp(bpf_map__name(map), lg_map_name((enum lg_map)i)) == 0)
			return bpf_map__reuse_fd(map, kern->map_fd[i]);
	lg_pins_map_path(kern, bpf_map__name(map), path, sizeof(path));
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : bpf_map__reuse_fd(map, fd);
}

int lg_prog_object(const struct lg_kern *kern, enum lg_prog prog, struct bpf_object **ret_obj)
{
	_cleanup_(object_close) struct bpf_object *obj = NULL;
	struct bpf_program *p;
	struct bpf_map *map;
	int r;

	r = lg_object_open(&obj);
	if (r < 0)
		return r;
	bpf_object__for_each_program(p, obj)
		bpf_program__set_autoload(p, strcmp(bpf_program__name(p), names[prog]) == 0);
	bpf_object__for_each_map(map, obj)
		if (r == 0 && !bpf_map__is_internal(map))
			r = map_reuse(kern, map);
	if (r == 0)
		*ret_obj = TAKE(obj);
	return r;
}

int lg_prog_fd(struct lg_kern *kern, enum lg_prog prog, struct lg_print *print)
{
	_cleanup_(object_close) struct bpf_object *obj = NULL;
	int r;

	if (kern->prog_fd[prog] >= 0)
		return kern->prog_fd[prog];
	r = lg_prog_object(kern, prog, &obj);
	if (r < 0)
		return r;
	if (print)
		lg_print_begin(print);
	r = bpf_object__load(obj);
	if (print)
		lg_print_end();
	if (r < 0)
		return r;
	r = fcntl(bpf_program__fd(bpf_object__find_program_by_name(obj, names[prog])), F_DUPFD_CLOEXEC, 3);
	if (r < 0)
		return -errno;
	kern->prog_fd[prog] = r;
	return r;
}
