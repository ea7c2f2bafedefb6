/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Makes a freshly forked child into a process that can do nothing but use the descriptors it was left with. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/**
 * lg_confine_fds() - the first half: keep nothing open but these
 * @fds: become 3, 4, ... in this order; 0 to 2 become /dev/null, all others are closed
 * @n:   of them, at most 8
 *
 * For the child of a fork, as its first act. Also takes off the parent's signal handlers.
 *
 * Return: 0, or a negative errno; the descriptors have their old numbers then.
 */
int lg_confine_fds(const int *fds, unsigned int n);

/**
 * lg_confine() - the second half: give up everything, for ever
 * @parent:   the child dies with it, if the parent may send it signals then
 * @fds_max:  descriptors it may have
 * @may_fork: it may make further processes
 *
 * User and group nobody when it was root, no capability now or ever (bounding set and no_new_privs), no core, no files, no ptrace.
 *
 * Return: 0, or a negative errno with the failed step in *ret_step; the process must then exit.
 */
int lg_confine(pid_t parent, unsigned int fds_max, bool may_fork, const char **ret_step);

/* While capabilities last: none of them can be had again by running a program. A process without CAP_SETPCAP keeps its bounding set, which
 * no_new_privs makes worthless. Negative errno. */
int lg_confine_bounding_set(void);
