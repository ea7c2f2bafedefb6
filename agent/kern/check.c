// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/check.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kern/internal.h"

struct lg_check_door {
	int prog_fd;
	uint32_t first;
	struct lg_check *all; /* of all users */
	size_t len_bytes;
};

int lg_kern_check_fds(struct lg_kern *kern, int *ret_prog_fd, int *ret_map_fd)
{
	int fd;

	if (!lg_prog_may_load(kern))
		return -EOPNOTSUPP;
	fd = lg_prog_fd(kern, LG_PROG_CHECK, NULL);
	if (fd < 0)
		return fd;
	*ret_prog_fd = fd;
	*ret_map_fd = kern->map_fd[LG_MAP_CHECKS];
	return 0;
}

int lg_check_door_open(int prog_fd, int map_fd, uint32_t user, struct lg_check_door **ret_door)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), len_bytes = LG_CHECK_USERS * LG_CHECKS_MAX * sizeof(struct lg_check);
	_cleanup_(lg_check_door_free) struct lg_check_door *door = NULL;
	void *all;

	if (user >= LG_CHECK_USERS)
		return -EINVAL;
	door = calloc(1, sizeof(*door));
	if (!door)
		return -ENOMEM;
	len_bytes = (len_bytes + page_bytes - 1) / page_bytes * page_bytes;
	all = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (all == MAP_FAILED)
		return -errno;
	door->all = all;
	door->len_bytes = len_bytes;
	door->prog_fd = prog_fd;
	door->first = user * LG_CHECKS_MAX;
	*ret_door = TAKE(door);
	return 0;
}

struct lg_check_door *lg_check_door_free(struct lg_check_door *door)
{
	if (!door)
		return NULL;
	if (door->all)
		munmap(door->all, door->len_bytes);
	free(door);
	return NULL;
}

struct lg_check *lg_check_door_room(const struct lg_check_door *door)
{
	return &door->all[door->first];
}

/* Not by libbpf, which asks for more than this takes, and would have to be asked for each call. */
int lg_check_door_run(const struct lg_check_door *door, uint32_t n)
{
	struct lg_check_args args = { .first = door->first, .n = n };
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (__u32)door->prog_fd;
	attr.test.ctx_in = (uintptr_t)&args;
	attr.test.ctx_size_in = sizeof(args);
	if (syscall(__NR_bpf, BPF_PROG_TEST_RUN, &attr, sizeof(attr.test)) < 0)
		return -errno;
	return attr.test.retval || args.done != n ? -EIO : 0;
}
