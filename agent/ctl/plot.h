/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The curve of a rule: reports per second at the home against the most tokens out at once, both logarithmic, with the law as a line and
 * the band above it that leases with low water need. As text of plain characters and as an SVG that needs nothing else. Pure.
 */
#pragma once

#include <stddef.h>

#include "base/text.h"

/* Times the law: less needs no reserve, more is paid for nothing. */
#define LG_PLOT_BAND_LOW 1.3
#define LG_PLOT_BAND_HIGH 2.1

#define LG_PLOT_MIN 1e-6 /* of a coordinate, and of the law */
#define LG_PLOT_MAX 1e15

struct lg_plot_point {
	double reports_per_s;
	double worst_tok;
	double period_s; /* 0: not known */
};

struct lg_plot {
	const char *rule;
	double arrival_per_s;
	double regions;
	const struct lg_plot_point *points; /* each coordinate in LG_PLOT_MIN .. LG_PLOT_MAX, as the law */
	size_t n_points;		    /* at least 1 */
};

/* arrival_per_s x regions: the least product there can be. */
double lg_plot_law(const struct lg_plot *p);
double lg_plot_product(const struct lg_plot_point *point);
/* The slope of the points, log-log, by least squares; the law's is -1. 0 where they do not differ in reports. */
double lg_plot_slope(const struct lg_plot *p);
/* How the i-th point is marked: 1 to 9, then letters, then '+'. */
char lg_plot_mark(size_t i);
/* The picture with its axes, width columns wide (40 .. 160). */
void lg_plot_text(const struct lg_plot *p, unsigned width, struct lg_text *out);
void lg_plot_svg(const struct lg_plot *p, struct lg_text *out);

/* 1234567 -> "1,234,567", 0.59 -> "0.59", 3e9 -> "3e+09": a number of the curve as people read it. */
const char *lg_plot_number(double value, char *buf, size_t len);
