// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lg_text_fini(struct lg_text *t)
{
	free(t->s);
	*t = (struct lg_text){ 0 };
}

static bool text_reserve(struct lg_text *t, size_t more)
{
	size_t need = t->len + more + 1, size = t->size ? t->size : 256;
	char *s;

	if (t->failed)
		return false;
	if (need <= t->size)
		return true;
	while (size < need)
		size *= 2;
	s = realloc(t->s, size);
	if (!s) {
		t->failed = true;
		return false;
	}
	t->s = s;
	t->size = size;
	return true;
}

void lg_text_add(struct lg_text *t, const char *s, size_t len)
{
	if (!text_reserve(t, len))
		return;
	memcpy(t->s + t->len, s, len);
	t->len += len;
	t->s[t->len] = '\0';
}

void lg_text_addf(struct lg_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0 || !text_reserve(t, (size_t)n)) {
		t->failed = true;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(t->s + t->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->len += (size_t)n;
}
