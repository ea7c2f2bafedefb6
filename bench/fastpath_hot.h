/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Two CPUs on one key. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * lg_bench_hot() - what two CPUs do together on one key, against one of them alone
 *
 * A hypervisor moves virtual CPUs: at times the two share a last-level cache ("near", a line of memory passes between them in some
 * 25 ns), at times not ("far", 160 ns). A ping-pong before and after each window says which it was; windows that were neither, or both,
 * are left out. Prints a line per table, verdict and distance; "samples":0 where the machine did not show that distance.
 *
 * Return: 0, or -1 with a line on stderr.
 */
int lg_bench_hot(uint32_t rounds, uint32_t seed, bool is_json);
