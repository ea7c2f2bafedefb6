/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * What is wrong with something a person wrote or asked for: filled below role/ and ctl/, printed there as one line. */
#pragma once

#include <stdint.h>

struct lg_complaint {
	char file[256];		/* "" when it is no file */
	uint32_t line;		/* from 1; 0 unknown */
	uint32_t col;
	char text[512];		/* what is wrong, with which object, and what to do; no final full stop or newline */
};

/* Fills text (and leaves place as it is). Returns -EINVAL, so that a check can end in `return lg_complain(...)`. */
__attribute__((format(printf, 2, 3))) int lg_complain(struct lg_complaint *c, const char *fmt, ...);

/* "file:line:col: text", or what of it is known, into buf. */
void lg_complaint_format(const struct lg_complaint *c, char *buf, uint32_t len);
