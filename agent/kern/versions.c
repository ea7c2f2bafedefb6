// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The directories of an instance's maps. v<ABI> holds what is in force. When a build takes over what another one made and has to make
 * maps anew, it pins its own beside them, in m<ABI> (carried over) or d<ABI> (begun anew), and only when all is there, and every link
 * runs its programs, the old directory becomes o<ABI>, and then the new one v<ABI>. A process may die anywhere in between:
 *
 *	v and m or d	the old maps are still those that count. Whichever build comes next may begin again: the one that was taking over
 *			does so whatever its command line says, as links may run its programs already
 *	o and m or d	the new maps count
 *	v and o		what is left of the old ones goes
 */
#include "kern/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int lg_pins_clear(const char *path)
{
	int r = lg_pins_each(path, lg_pins_unlink, NULL);

	if (r < 0)
		return r;
	return rmdir(path) < 0 && errno != ENOENT ? -errno : 0;
}

int lg_pins_unlink(void *arg, const char *path, const char *name)
{
	(void)arg;
	(void)name;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

struct scan {
	bool has_own;
	bool has_old;	     /* o<ABI> */
	uint32_t other_abi;
	char begun;	     /* 'm' or 'd' */
	uint32_t begun_abi;
};

static int scan_one(void *arg, const char *path, const char *name)
{
	uint32_t abi = lg_pins_abi(name);
	struct scan *s = arg;

	(void)path;
	if (!abi)
		return 0;
	if (name[0] == 'v') {
		s->has_own |= abi == LG_ABI_VERSION;
		if (abi != LG_ABI_VERSION && abi > s->other_abi)
			s->other_abi = abi;
	} else if (name[0] == 'o') {
		s->has_old = true;
	} else {
		s->begun = name[0];
		s->begun_abi = abi;
	}
	return 0;
}

static int scan(const struct lg_kern *kern, struct scan *ret)
{
	*ret = (struct scan){ 0 };
	return lg_pins_each(kern->dir, scan_one, ret);
}

static void dir_path(const struct lg_kern *kern, char letter, uint32_t abi, char ret[LG_KPATH_LEN])
{
	char name[16];

	snprintf(name, sizeof(name), "%c%u", letter, abi);
	lg_pins_sub_path(kern, name, ret, LG_KPATH_LEN);
}

static int dir_rename(const struct lg_kern *kern, char from, char to, uint32_t abi)
{
	char old[LG_KPATH_LEN], new[LG_KPATH_LEN];

	dir_path(kern, from, abi, old);
	dir_path(kern, to, abi, new);
	return rename(old, new) < 0 ? -errno : 0;
}

struct purge {
	const struct lg_kern *kern;
	bool old_only;
};

static int purge_one(void *arg, const char *path, const char *name)
{
	const struct purge *p = arg;

	if (!lg_pins_abi(name) || strcmp(name, p->kern->maps_dir) == 0 || (p->old_only && name[0] != 'o'))
		return 0;
	return lg_pins_clear(path);
}

int lg_versions_purge(struct lg_kern *kern)
{
	struct purge p = { kern, false };

	return lg_pins_each(kern->dir, purge_one, &p);
}

/* Ends what a process that died had begun, as far as it needs no programs. */
static int recover(struct lg_kern *kern, struct scan *s)
{
	struct purge p = { kern, true };
	char path[LG_KPATH_LEN];
	int r = 0;

	if (s->begun && s->has_old) {
		r = dir_rename(kern, s->begun, 'v', s->begun_abi);
		if (r == 0)
			r = scan(kern, s);
	}
	if (r == 0 && s->has_old)
		r = lg_pins_each(kern->dir, purge_one, &p);
	if (r < 0 || !s->begun || (s->begun_abi != LG_ABI_VERSION && !s->has_own))
		return r;
	dir_path(kern, s->begun, s->begun_abi, path);
	return lg_pins_clear(path);
}

int lg_versions_survey(struct lg_kern *kern, struct lg_versions *ret)
{
	struct scan s;
	int r;

	r = scan(kern, &s);
	if (r == 0)
		r = recover(kern, &s);
	ret->has_own = s.has_own;
	ret->other_abi = s.other_abi;
	ret->begun = s.begun && s.begun_abi == LG_ABI_VERSION ? s.begun : 0;
	return r;
}

int lg_versions_look(const struct lg_kern *kern, struct lg_versions *ret)
{
	struct scan s;
	int r = scan(kern, &s);

	*ret = (struct lg_versions){ .has_own = s.has_own, .other_abi = s.other_abi, .begun = s.begun };
	return r;
}

void lg_versions_begin(struct lg_kern *kern, char letter)
{
	snprintf(kern->maps_dir, sizeof(kern->maps_dir), "%c%d", letter, LG_ABI_VERSION);
}

void lg_versions_undo(struct lg_kern *kern)
{
	char path[LG_KPATH_LEN];

	lg_pins_sub_path(kern, kern->maps_dir, path, sizeof(path));
	lg_pins_clear(path);
}

int lg_versions_commit(struct lg_kern *kern, uint32_t from_abi)
{
	int r;

	r = dir_rename(kern, 'v', 'o', from_abi);
	if (r == 0 || r == -ENOENT)
		r = dir_rename(kern, kern->maps_dir[0], 'v', LG_ABI_VERSION);
	if (r == 0)
		kern->maps_dir[0] = 'v';
	return r;
}
