/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Layouts of keys and values by two builds: what differs, and how one is made from the other. No map is touched here. */
#pragma once

#include <bpf/btf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* What differs: counted, and said as far as there is room. */
struct lg_differences {
	const char *what;	/* the map */
	void (*tell)(const char *what, const char *text); /* each, or NULL */
	size_t n, n_told;
	size_t n_new;		/* of them members that are new */
	size_t n_lost;		/* of them what cannot be carried over */
	char text[200];		/* those that found room, with "; " between them */
};
__attribute__((format(printf, 2, 3))) void lg_differ(struct lg_differences *d, const char *fmt, ...);

/* From one layout to the other: bytes that are moved, and words that change their width on the way. */
struct lg_move {
	uint32_t from, to;
	uint32_t from_bytes, to_bytes;
	bool is_signed;
};

struct lg_plan {
	struct lg_move *v;
	size_t n, size;
};
void lg_plan_fini(struct lg_plan *plan);
/* `to` keeps what no member of the old layout goes to: it is zeroed by the caller. */
void lg_plan_run(const struct lg_plan *plan, const uint8_t *from, uint8_t *to);

/*
 * Walks two types side by side: tells *d each member that differs in place or size, or that one of them lacks, under the name of its
 * way from `name` on; and fills *plan, if that is not NULL.
 */
int lg_layout_walk(const struct btf *was, uint32_t was_id, const struct btf *now, uint32_t now_id, const char *name,
		   struct lg_differences *d, struct lg_plan *plan);

/* Type information that the kernel holds, by its ids: of one build all maps share one. */
struct lg_btfs {
	struct {
		uint32_t id;
		struct btf *btf;
	} v[32];
	size_t n;
};
void lg_btfs_fini(struct lg_btfs *btfs);
/* *ret_btf is NULL for id 0, and belongs to *btfs. -EPERM without CAP_SYS_ADMIN. */
int lg_btfs_get(struct lg_btfs *btfs, uint32_t id, const struct btf **ret_btf);
