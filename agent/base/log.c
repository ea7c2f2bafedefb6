// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static const char *log_program = "leasegate";
static enum lg_log_level log_level = LG_LOG_INFO;

void lg_log_init(const char *program, enum lg_log_level level)
{
	log_program = program;
	log_level = level;
}

void lg_log(enum lg_log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	char text[1024];
	va_list ap;

	if (level > log_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s: %s: %s\n", log_program, names[level], text);
}

int lg_log_gate_open(struct lg_log_gate *gate, unsigned long long now_ns, unsigned long long gap_ns,
		     unsigned long long *ret_held)
{
	if (gate->last_ns && now_ns - gate->last_ns < gap_ns) {
		gate->held++;
		return 0;
	}
	*ret_held = gate->held;
	gate->last_ns = now_ns;
	gate->held = 0;
	return 1;
}
