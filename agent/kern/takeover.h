/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Inside of loading: what an earlier process left behind, whether it fits this build, and what is done about it. */
#pragma once

#include "kern/carry.h"
#include "kern/internal.h"

#define LG_MAPS_PER_OBJECT 64 /* and per program: the kernel's own limit */

enum lg_way {
	LG_WAY_FRESH,	/* all maps are made anew: nothing is in force */
	LG_WAY_ADOPT,	/* maps of an earlier process are taken over as they are */
	LG_WAY_CARRY,	/* those that fit likewise; the others are made anew, and what is in the old ones carried over */
	LG_WAY_REPLACE,	/* all maps are made anew beside those in force, which end with lg_kern_settle() */
};

/* A map of ours, and the one of its name that was there before. */
struct lg_found {
	struct bpf_map *map;
	const char *table;	/* what it is for people, if its size is configured; else NULL */
	bool size_is_wanted;	/* the caller said how large */
	bool size_is_told;	/* and hears of another size */
	bool is_there;
	bool is_anew;		/* one was there, and another is made in its place */
	struct lg_carry carry;
	struct lg_differences d;
};

struct lg_takeover {
	struct lg_kern *kern;
	enum lg_way way;
	uint32_t from_abi;	/* whose maps these are */
	bool is_attached;	/* something enforces by them */
	bool no_types;		/* the kernel does not tell members to those without CAP_SYS_ADMIN */
	struct lg_btfs btfs;
	struct lg_found found[LG_MAPS_PER_OBJECT];
	size_t n_found;
	uint64_t n_left_out;	/* entries that found no room */
	uint64_t limits[LG_RULES_MAX]; /* of the rules, while they are 0 */
};

/* Notes a map and, unless fd is -1, the one that was there before; takes fd. */
int lg_takeover_meet(struct lg_takeover *t, const struct bpf_object *obj, struct bpf_map *map, int fd, const char *table,
		     bool size_is_wanted, bool size_is_told);
/*
 * Decides the way, as `how` allows and what was met demands. -EPROTONOSUPPORT with *c when there is none, -EPERM when types would be
 * needed.
 */
int lg_takeover_decide(struct lg_takeover *t, enum lg_kern_misfit how, struct lg_complaint *c);
/* Before loading: maps that are taken over as they are, sizes of those that are not. Says in *c which sizes are not as wanted. */
int lg_takeover_reuse(struct lg_takeover *t, struct lg_complaint *c);
/* After loading: rules and names into the maps made anew. */
int lg_takeover_copy_rules(struct lg_takeover *t);
/* Once the links' programs are ours: levels and counters. Until then they refuse what rules match, if lg_takeover_hold() said so. */
int lg_takeover_copy_levels(struct lg_takeover *t);
/* Lets no token be taken from maps whose content is still to come; release puts the carried rules into force. */
int lg_takeover_hold(struct lg_takeover *t);
int lg_takeover_release(struct lg_takeover *t);
/* What was done, for people. */
void lg_takeover_report(const struct lg_takeover *t, struct lg_complaint *c);
void lg_takeover_fini(struct lg_takeover *t);
