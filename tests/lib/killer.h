/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Kills a process between two of the things it does. What a process leaves behind when it dies changes with its system calls alone, so
 * it is run under ptrace and killed before the n-th of those that leave something: pins, links, map entries, directories, messages to
 * the kernel. The programs under test know nothing of it, and a step that is new to them is a point of its own by itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lg_killed {
	bool ended;	/* it came to its end before that point */
	int status;	/* then: its exit status */
	uint32_t n;	/* points passed, the one at which it died among them */
	char at[96];	/* what it was about to do: "pin v3/buckets" */
};

/*
 * Forks, runs fn(arg) there, whose result is the exit status, and kills the process before point number `at`, counted from 1; 0 never.
 * Of many like steps in a row (the names of 256 rules) `each` takes every one for a point, else the first two.
 */
void lg_kill_at(int (*fn)(void *arg), void *arg, uint32_t at, bool each, struct lg_killed *ret);
