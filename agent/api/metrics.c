// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	const char *type;
	const char *help;
} families[] = {
#define LG_METRIC(id, name, type, help) { name, type, help },
#include "api/metrics.def"
#undef LG_METRIC
};

/* Backslash, quote and newline, as the text format wants; quote is 0 for help texts, where a quote stands for itself. */
static void add_escaped(struct lg_text *out, const char *s, char quote)
{
	for (; *s; s++) {
		if (*s == '\n')
			lg_text_add(out, "\\n", 2);
		else if (*s == '\\')
			lg_text_add(out, "\\\\", 2);
		else if (quote && *s == quote)
			lg_text_add(out, "\\\"", 2);
		else
			lg_text_add(out, s, 1);
	}
}

static void add_sample(struct lg_metrics *m, enum lg_metric metric, const char *value, va_list labels)
{
	struct lg_text *out = &m->family[metric];
	const char *name, *separator = "{";

	lg_text_addf(out, "%s", families[metric].name);
	while ((name = va_arg(labels, const char *))) {
		lg_text_addf(out, "%s%s=\"", separator, name);
		add_escaped(out, va_arg(labels, const char *), '"');
		lg_text_add(out, "\"", 1);
		separator = ",";
	}
	lg_text_addf(out, "%s %s\n", *separator == ',' ? "}" : "", value);
}

void lg_metrics_add(struct lg_metrics *m, enum lg_metric metric, uint64_t value, ...)
{
	char text[24];
	va_list labels;

	snprintf(text, sizeof(text), "%" PRIu64, value);
	va_start(labels, value);
	add_sample(m, metric, text, labels);
	va_end(labels);
}

/* Without the zeros that say nothing: 0.25, 3. */
static void format_double(double value, char *buf, size_t len)
{
	char *end;

	if (isnan(value)) {
		snprintf(buf, len, "NaN");
		return;
	}
	if (isinf(value)) {
		snprintf(buf, len, "%s", value > 0 ? "+Inf" : "-Inf");
		return;
	}
	snprintf(buf, len, "%.9f", value);
	end = buf + strlen(buf);
	while (end[-1] == '0')
		end--;
	if (end[-1] == '.')
		end--;
	*end = '\0';
}

void lg_metrics_addf(struct lg_metrics *m, enum lg_metric metric, double value, ...)
{
	char text[336]; /* the largest double has 309 digits before the point */
	va_list labels;

	format_double(value, text, sizeof(text));
	va_start(labels, value);
	add_sample(m, metric, text, labels);
	va_end(labels);
}

void lg_metrics_page(struct lg_metrics *m, struct lg_text *page)
{
	for (int i = 0; i < _LG_METRIC_N; i++) {
		struct lg_text *samples = &m->family[i];

		if (!lg_text_ok(samples))
			page->failed = true;
		if (samples->len) {
			lg_text_addf(page, "# HELP %s ", families[i].name);
			add_escaped(page, families[i].help, 0);
			lg_text_addf(page, "\n# TYPE %s %s\n", families[i].name, families[i].type);
			lg_text_add(page, samples->s, samples->len);
		}
		lg_text_fini(samples);
	}
}
