/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The way to the program that checks requests, for a process that holds nothing but two descriptors: the program's, which it may run without
 * any capability, and, until it has mapped the requests, the map's.
 */
#pragma once

#include <stdint.h>

#include "base/mem.h"
#include "leasegate/abi.h"

struct lg_kern;
struct lg_check_door;

/* The two descriptors, which belong to kern; the program is loaded when it is first asked for. -EOPNOTSUPP where only pins were opened. */
int lg_kern_check_fds(struct lg_kern *kern, int *ret_prog_fd, int *ret_map_fd);

/**
 * lg_check_door_open() - a place to put requests
 * @prog_fd: borrowed, needed as long as the door is open
 * @map_fd:  borrowed, not needed when this returns
 * @user:    below LG_CHECK_USERS; one thread of one process at a time
 */
int lg_check_door_open(int prog_fd, int map_fd, uint32_t user, struct lg_check_door **ret_door);
struct lg_check_door *lg_check_door_free(struct lg_check_door *door);
LG_CLEANUP(struct lg_check_door, lg_check_door_free)

/* LG_CHECKS_MAX requests, to be filled from the first on, and their answers. Whatever an earlier one left stands there. */
struct lg_check *lg_check_door_room(const struct lg_check_door *door);
/* Runs the first n of them, 1 .. LG_CHECKS_MAX. Negative errno: none was answered. */
int lg_check_door_run(const struct lg_check_door *door, uint32_t n);
