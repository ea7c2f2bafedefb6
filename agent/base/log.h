/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Log lines on stderr: `LEVEL program: text`. Code below role/ and ctl/ uses lg_debug() alone. */
#pragma once

enum lg_log_level {
	LG_LOG_ERROR,
	LG_LOG_WARN,
	LG_LOG_INFO,
	LG_LOG_DEBUG,
};

/* Set once in main(): the name before each line and the chattiest level printed. */
void lg_log_init(const char *program, enum lg_log_level level);

__attribute__((format(printf, 2, 3))) void lg_log(enum lg_log_level level, const char *fmt, ...);

#define lg_error(...) lg_log(LG_LOG_ERROR, __VA_ARGS__)
#define lg_warn(...) lg_log(LG_LOG_WARN, __VA_ARGS__)
#define lg_info(...) lg_log(LG_LOG_INFO, __VA_ARGS__)
#define lg_debug(...) lg_log(LG_LOG_DEBUG, __VA_ARGS__)

/*
 * A gate for lines that input can cause: true at most once per `gap_ns`; the count of lines held back since is left in
 * *ret_held. State belongs to the caller, zeroed at first.
 */
struct lg_log_gate {
	unsigned long long last_ns;
	unsigned long long held;
};
int lg_log_gate_open(struct lg_log_gate *gate, unsigned long long now_ns, unsigned long long gap_ns,
		     unsigned long long *ret_held);
