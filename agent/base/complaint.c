// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/complaint.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int lg_complain(struct lg_complaint *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->text, sizeof(c->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

void lg_complaint_format(const struct lg_complaint *c, char *buf, uint32_t len)
{
	if (!c->file[0])
		snprintf(buf, len, "%s", c->text);
	else if (!c->line)
		snprintf(buf, len, "%s: %s", c->file, c->text);
	else if (!c->col)
		snprintf(buf, len, "%s:%u: %s", c->file, c->line, c->text);
	else
		snprintf(buf, len, "%s:%u:%u: %s", c->file, c->line, c->col, c->text);
}
