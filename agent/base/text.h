/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A growing text. After a failed allocation it stays empty-handed: appends do nothing and lg_text_ok() says so once at the end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct lg_text {
	char *s;		/* NUL-terminated, or NULL while empty */
	size_t len;
	size_t size;
	bool failed;
};

void lg_text_fini(struct lg_text *t);
void lg_text_add(struct lg_text *t, const char *s, size_t len);
__attribute__((format(printf, 2, 3))) void lg_text_addf(struct lg_text *t, const char *fmt, ...);
static inline bool lg_text_ok(const struct lg_text *t)
{
	return !t->failed;
}
#define _cleanup_text_ __attribute__((cleanup(lg_text_fini)))
