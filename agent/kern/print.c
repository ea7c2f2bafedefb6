// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * libbpf reports what went wrong as lines on stderr. They go to lg_debug() instead, and the three that a person needs
 * are kept for the complaint. libbpf's printer gets no argument, so the listener is found through a static pointer: its
 * state is the caller's, and kern/ runs on one thread.
 */
#include "kern/internal.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define LOG_TAIL_LINES 20 /* of the verifier's log: the end says why, the rest is how it got there */

static struct lg_print *listener;

static void keep(char *buf, size_t len, const char *line)
{
	size_t n = strcspn(line, "\n");

	snprintf(buf, len, "%.*s", (int)(n < len ? n : len - 1), line);
}

/* The last line of a verifier log that says something: the summary and the frame around the log do not. */
static void keep_verifier(struct lg_print *print, char *text)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strstr(line, "PROG LOAD LOG") && strncmp(line, "processed ", 10) != 0)
			keep(print->verifier, sizeof(print->verifier), line);
}

static void note(struct lg_print *print, enum libbpf_print_level level, char *text)
{
	static const char kernel[] = "Kernel error message: ";
	const char *line = text;
	const char *at;

	if (strncmp(line, "libbpf: ", 8) == 0)
		line += 8;
	at = strstr(line, kernel);
	if (at)
		keep(print->kernel, sizeof(print->kernel), at + sizeof(kernel) - 1);
	else if (level == LIBBPF_WARN && !print->first[0])
		keep(print->first, sizeof(print->first), line);
	if (strstr(line, "BEGIN PROG LOAD LOG"))
		keep_verifier(print, text);
}

/* One debug line for each of the last lines of a text. */
static void debug_tail(const char *text)
{
	const char *from = text + strlen(text);
	int n = 0;

	while (from > text && n <= LOG_TAIL_LINES)
		if (*--from == '\n')
			n++;
	while (*from) {
		size_t len = strcspn(from, "\n");

		if (len)
			lg_debug("%.*s", (int)len, from);
		from += len + (from[len] == '\n');
	}
}

int lg_print_line(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	_cleanup_free_ char *text = NULL;

	if (level == LIBBPF_DEBUG)
		return 0;
	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return 0;
	}
	debug_tail(text);
	if (listener)
		note(listener, level, text);
	return 0;
}

void lg_print_hook(void)
{
	libbpf_set_print(lg_print_line);
}

void lg_print_begin(struct lg_print *print)
{
	memset(print, 0, sizeof(*print));
	listener = print;
}

void lg_print_end(void)
{
	listener = NULL;
}
