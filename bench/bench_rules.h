/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Rules for benches: what a rules file of some size holds, of which the bench's packets match one. */
#pragma once

#include <stdint.h>

/**
 * lg_bench_rules() - the text of a rules file
 * @n:      rules in all, at least 1
 * @family: of the addresses in rules that no packet of a bench matches: 4 (within 10.0.0.0/8) or 6 (within 2001:db8::/32)
 * @last:   the items of the one rule that packets do match, each line indented by four, its name left out: it is called "hit"
 *
 * Of the others 55 % name one destination port, 30 % a range, 15 % none; 80 % a protocol; all a source and a destination prefix.
 *
 * Return: text to be freed, or NULL.
 */
char *lg_bench_rules(unsigned int n, unsigned int family, const char *last);
