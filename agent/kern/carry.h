/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A map that another build made, beside ours: whether it fits, and carrying its entries over where it does not. */
#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "kern/layout.h"

/* A map that is there. */
struct lg_map_side {
	int fd;
	struct bpf_map_info info;
	const struct btf *btf;	/* NULL: it has no type information */
};

/* Reads what the kernel knows of a map; the descriptor stays the caller's. -EPERM: not its types, without CAP_SYS_ADMIN; all else is. */
int lg_map_meet(int fd, struct lg_btfs *btfs, struct lg_map_side *ret);
bool lg_map_is_percpu(uint32_t type);

/* From an old map to one that was made in its place. */
struct lg_carry {
	const char *name;
	struct lg_map_side was;	/* its descriptor is ours */
	struct bpf_map_info now;
	int now_fd;		/* borrowed */
	struct lg_plan key, value;
};

/* Tells *d what differs, but for the number of entries. Plans go to *ret_carry unless that is NULL. */
int lg_map_compare(const struct lg_map_side *was, const struct bpf_map_info *now, const struct btf *now_btf, struct lg_differences *d,
		   struct lg_carry *ret_carry);

/*
 * Copies every entry, over what is there under its key. *ret_left_out says how many found no room. Maps of a kind that holds no entries,
 * and those of which the kernel knows no types, stay as they are.
 */
int lg_carry_run(const struct lg_carry *carry, uint64_t *ret_left_out);
void lg_carry_fini(struct lg_carry *carry);
