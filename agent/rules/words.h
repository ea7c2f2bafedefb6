/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What a rule matches and is keyed by, in words. */
#pragma once

#include "rules/rule.h"

/* Text that grows in a buffer; what does not fit is cut off. */
struct lg_words {
	char *buf;
	size_t len;
	size_t n;
};
__attribute__((format(printf, 2, 3))) void lg_words_add(struct lg_words *t, const char *fmt, ...);

/* "UDP packets to port 53 from anywhere to 192.0.2.0/24"; cut off where buf ends. */
void lg_match_text(const struct lg_match *match, char *buf, size_t len);
/* "one bucket per IPv4 source address and per IPv6 source /64"; @family: of the match, 0 both. */
void lg_key_shape_text(const struct lg_key_shape *key, uint8_t family, char *buf, size_t len);
