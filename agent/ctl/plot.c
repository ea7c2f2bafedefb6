// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH_MIN 40u
#define WIDTH_MAX 160u
#define HEIGHT_MIN 10
#define HEIGHT_MAX 24
#define MARGIN 10 /* columns for the numbers of the vertical axis */

/* ---- numbers ---- */

double lg_plot_law(const struct lg_plot *p)
{
	return p->arrival_per_s * p->regions;
}

double lg_plot_product(const struct lg_plot_point *point)
{
	return point->reports_per_s * point->worst_tok;
}

double lg_plot_slope(const struct lg_plot *p)
{
	double n = (double)p->n_points, sx = 0, sy = 0, sxx = 0, sxy = 0, spread;

	for (size_t i = 0; i < p->n_points; i++) {
		double x = log10(p->points[i].reports_per_s), y = log10(p->points[i].worst_tok);

		sx += x;
		sy += y;
		sxx += x * x;
		sxy += x * y;
	}
	spread = n * sxx - sx * sx;
	return spread > 1e-9 ? (n * sxy - sx * sy) / spread : 0;
}

char lg_plot_mark(size_t i)
{
	static const char marks[] = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

	return i < sizeof(marks) - 1 ? marks[i] : '+';
}

const char *lg_plot_number(double value, char *buf, size_t len)
{
	char plain[32];
	size_t n, o = 0;

	if (value < 1000 || value >= 1e9) {
		snprintf(buf, len, "%.3g", value);
		return buf;
	}
	n = (size_t)snprintf(plain, sizeof(plain), "%.0f", value);
	for (size_t i = 0; i < n && o + 2 < len; i++) {
		if (i && (n - i) % 3 == 0)
			buf[o++] = ',';
		buf[o++] = plain[i];
	}
	buf[o] = '\0';
	return buf;
}

/* ---- scales ---- */

/* From 10^low to 10^high: whole decades, two at least. */
struct scale {
	int low, high;
};

struct scales {
	struct scale x, y;
};

static void scale_take(struct scale *s, double value)
{
	double exponent = log10(value);

	s->low = (int)fmin(s->low, floor(exponent));
	s->high = (int)fmax(s->high, ceil(exponent));
}

static void scale_widen(struct scale *s)
{
	if (s->high - s->low < 2)
		s->high++;
	if (s->high - s->low < 2)
		s->low--;
}

/* All points, and the law with its band where they are. */
static struct scales scales_of(const struct lg_plot *p)
{
	struct scales s = { { 100, -100 }, { 100, -100 } };

	for (size_t i = 0; i < p->n_points; i++) {
		scale_take(&s.x, p->points[i].reports_per_s);
		scale_take(&s.y, p->points[i].worst_tok);
		scale_take(&s.y, lg_plot_law(p) / p->points[i].reports_per_s);
		scale_take(&s.y, LG_PLOT_BAND_HIGH * lg_plot_law(p) / p->points[i].reports_per_s);
	}
	scale_widen(&s.x);
	scale_widen(&s.y);
	return s;
}

/* 0 at the low end, 1 at the high one. */
static double scale_at(const struct scale *s, double value)
{
	return (log10(value) - s->low) / (s->high - s->low);
}

static const char *decade_text(int exponent, char *buf, size_t len)
{
	return lg_plot_number(pow(10, exponent), buf, len);
}

/* Every how many decades a number stands, so that at most n of them do. */
static int decade_step(const struct scale *s, int n)
{
	return (s->high - s->low + n - 1) / n;
}

/* ---- text ---- */

struct canvas {
	int columns, rows;
	char cell[HEIGHT_MAX][WIDTH_MAX];
};

/* Upper and lower bound, as exponents, of the products of a cell's coordinates. */
static void cell_products(const struct canvas *c, const struct scales *s, int row, int column, double *ret_low, double *ret_high)
{
	double dx = (double)(s->x.high - s->x.low) / c->columns, dy = (double)(s->y.high - s->y.low) / c->rows;

	*ret_low = s->x.low + dx * column + s->y.low + dy * (c->rows - 1 - row);
	*ret_high = *ret_low + dx + dy;
}

/* A cell shows the law where the line passes through it, else the band where its middle lies in it: so neither has gaps. */
static void canvas_law(struct canvas *c, const struct scales *s, double law)
{
	double at = log10(law), band_low = log10(LG_PLOT_BAND_LOW * law), band_high = log10(LG_PLOT_BAND_HIGH * law);

	for (int row = 0; row < c->rows; row++) {
		for (int column = 0; column < c->columns; column++) {
			double low, high;

			cell_products(c, s, row, column, &low, &high);
			if (low <= at && at < high)
				c->cell[row][column] = '*';
			else if ((low + high) / 2 >= band_low && (low + high) / 2 <= band_high)
				c->cell[row][column] = ':';
			else
				c->cell[row][column] = ' ';
		}
	}
}

static int cell_of(const struct scale *s, double value, int n)
{
	int at = (int)floor(scale_at(s, value) * n);

	return at < 0 ? 0 : at >= n ? n - 1 : at;
}

static void canvas_points(struct canvas *c, const struct scales *s, const struct lg_plot *p)
{
	for (size_t i = p->n_points; i-- > 0;) {
		int column = cell_of(&s->x, p->points[i].reports_per_s, c->columns);
		int row = c->rows - 1 - cell_of(&s->y, p->points[i].worst_tok, c->rows);

		c->cell[row][column] = lg_plot_mark(i);
	}
}

/* The row whose lower edge is 10^exponent; the axis itself is one below the last. */
static int decade_row(const struct canvas *c, const struct scale *y, int exponent)
{
	return c->rows - 1 - (exponent - y->low) * c->rows / (y->high - y->low);
}

/* Without blanks at its end. */
static void row_write(const struct canvas *c, int row, struct lg_text *out)
{
	int n = row < 0 ? 0 : c->columns;

	while (n > 0 && c->cell[row][n - 1] == ' ')
		n--;
	lg_text_addf(out, "%.*s\n", n, row < 0 ? "" : c->cell[row]);
}

static void rows_write(const struct canvas *c, const struct scales *s, struct lg_text *out)
{
	int step = decade_step(&s->y, c->rows / 2);
	char number[32];

	for (int row = -1; row < c->rows; row++) {
		const char *label = "";

		for (int e = s->y.low + step; e <= s->y.high; e += step)
			if (decade_row(c, &s->y, e) == row)
				label = decade_text(e, number, sizeof(number));
		lg_text_addf(out, "%*s %c", MARGIN - 2, label, *label ? '+' : '|');
		row_write(c, row, out);
	}
}

static void axis_write(const struct canvas *c, const struct scales *s, struct lg_text *out)
{
	int step = decade_step(&s->x, c->columns / 12 > 0 ? c->columns / 12 : 1), end = 0;
	char line[WIDTH_MAX + 32], numbers[WIDTH_MAX + 64], number[32];

	memset(line, '-', sizeof(line));
	memset(numbers, ' ', sizeof(numbers));
	for (int e = s->x.low; e <= s->x.high; e += step) {
		int at = (e - s->x.low) * c->columns / (s->x.high - s->x.low), n = (int)strlen(decade_text(e, number, sizeof(number)));
		int from = MARGIN - 1 + at - n / 2;

		line[at] = '+';
		if (from + n > MARGIN + c->columns + 1)
			from = MARGIN + c->columns + 1 - n;
		memcpy(numbers + from, number, (size_t)n);
		end = from + n;
	}
	lg_text_addf(out, "%*s %.*s\n", MARGIN - 2, decade_text(s->y.low, number, sizeof(number)), c->columns + 1, line);
	lg_text_addf(out, "%.*s\n%*s\n", end, numbers, MARGIN + c->columns, "reports per second at the home");
}

void lg_plot_text(const struct lg_plot *p, unsigned width, struct lg_text *out)
{
	struct scales s = scales_of(p);
	struct canvas c;

	width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
	c.columns = (int)width - MARGIN - 2;
	c.rows = c.columns / 3 < HEIGHT_MIN ? HEIGHT_MIN : c.columns / 3 > HEIGHT_MAX ? HEIGHT_MAX : c.columns / 3;
	canvas_law(&c, &s, lg_plot_law(p));
	canvas_points(&c, &s, p);
	lg_text_addf(out, "  most tokens out at once\n");
	rows_write(&c, &s, out);
	axis_write(&c, &s, out);
}

/* ---- SVG ---- */

#define SVG_WIDTH 760
#define SVG_HEIGHT 560
#define LEFT 90.0
#define RIGHT 730.0
#define TOP 70.0
#define BOTTOM 440.0

/* Plain rules, no variables: viewers that are no browsers know those. */
static const char style[] =
	"<style>\n"
	"text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1b1f24; }\n"
	".title { font-size: 17px; font-weight: 600; }\n"
	".faint { fill: #5b636d; }\n"
	".paper { fill: #ffffff; }\n"
	".grid { stroke: #e3e6ea; stroke-width: 1; }\n"
	".axis { stroke: #1b1f24; stroke-width: 1.5; fill: none; }\n"
	".law { stroke: #b3261e; stroke-width: 2; fill: none; }\n"
	".band { fill: #f2b8b5; fill-opacity: 0.6; }\n"
	".point { fill: #0b57d0; stroke: #ffffff; stroke-width: 1.5; }\n"
	"@media (prefers-color-scheme: dark) {\n"
	"text { fill: #e6e8eb; }\n"
	".faint { fill: #9aa3ad; }\n"
	".paper { fill: #15181c; }\n"
	".grid { stroke: #343a41; }\n"
	".axis { stroke: #e6e8eb; }\n"
	".law { stroke: #ff8a80; }\n"
	".band { fill: #6b3330; }\n"
	".point { fill: #8ab4f8; stroke: #15181c; }\n"
	"}\n"
	"</style>\n";

static void add_escaped(struct lg_text *out, const char *text)
{
	for (; *text; text++) {
		unsigned char ch = (unsigned char)*text;

		if (ch == '<' || ch == '>' || ch == '&' || ch == '"')
			lg_text_addf(out, "&#%d;", ch);
		else if (ch >= 0x20 && ch != 0x7f)
			lg_text_add(out, text, 1);
	}
}

static double svg_x(const struct scales *s, double value)
{
	return LEFT + scale_at(&s->x, value) * (RIGHT - LEFT);
}

static double svg_y(const struct scales *s, double value)
{
	return BOTTOM - scale_at(&s->y, value) * (BOTTOM - TOP);
}

static void svg_grid(const struct scales *s, struct lg_text *out)
{
	int step_x = decade_step(&s->x, 8), step_y = decade_step(&s->y, 8);
	char number[32];

	for (int e = s->x.low; e <= s->x.high; e += step_x) {
		double x = svg_x(s, pow(10, e));

		lg_text_addf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", x, TOP, x, BOTTOM);
		lg_text_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", x, BOTTOM + 20,
			     decade_text(e, number, sizeof(number)));
	}
	for (int e = s->y.low; e <= s->y.high; e += step_y) {
		double y = svg_y(s, pow(10, e));

		lg_text_addf(out, "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", LEFT, y, RIGHT, y);
		lg_text_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 4,
			     decade_text(e, number, sizeof(number)));
	}
	lg_text_addf(out, "<path class=\"axis\" d=\"M%.1f %.1f V%.1f H%.1f\"/>\n", LEFT, TOP, BOTTOM, RIGHT);
	lg_text_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">reports per second at the home</text>\n", (LEFT + RIGHT) / 2,
		     BOTTOM + 44);
	lg_text_addf(out, "<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">most tokens out at once</text>\n",
		     (TOP + BOTTOM) / 2);
}

/* Both run from edge to edge; what is outside of the frame is clipped away. */
static void svg_law(const struct lg_plot *p, const struct scales *s, struct lg_text *out)
{
	double x_low = pow(10, s->x.low), x_high = pow(10, s->x.high), law = lg_plot_law(p);

	lg_text_addf(out, "<clipPath id=\"frame\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/></clipPath>\n", LEFT, TOP,
		     RIGHT - LEFT, BOTTOM - TOP);
	lg_text_addf(out, "<path class=\"band\" clip-path=\"url(#frame)\" d=\"M%.1f %.1f L%.1f %.1f L%.1f %.1f L%.1f %.1f Z\"/>\n", LEFT,
		     svg_y(s, LG_PLOT_BAND_HIGH * law / x_low), RIGHT, svg_y(s, LG_PLOT_BAND_HIGH * law / x_high), RIGHT,
		     svg_y(s, LG_PLOT_BAND_LOW * law / x_high), LEFT, svg_y(s, LG_PLOT_BAND_LOW * law / x_low));
	lg_text_addf(out, "<path class=\"law\" clip-path=\"url(#frame)\" d=\"M%.1f %.1f L%.1f %.1f\"/>\n", LEFT, svg_y(s, law / x_low),
		     RIGHT, svg_y(s, law / x_high));
}

static void svg_points(const struct lg_plot *p, const struct scales *s, struct lg_text *out)
{
	char reports[32], worst[32], product[32];

	for (size_t i = 0; i < p->n_points; i++) {
		const struct lg_plot_point *point = &p->points[i];
		double x = svg_x(s, point->reports_per_s), y = svg_y(s, point->worst_tok);

		lg_text_addf(out,
			     "<g><title>%s reports/s, %s tokens: product %s, %.2f times the law</title>"
			     "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>",
			     lg_plot_number(point->reports_per_s, reports, sizeof(reports)),
			     lg_plot_number(point->worst_tok, worst, sizeof(worst)),
			     lg_plot_number(lg_plot_product(point), product, sizeof(product)), lg_plot_product(point) / lg_plot_law(p), x, y);
		lg_text_addf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>%.2f x law", x > RIGHT - 90 ? x - 10 : x + 10, y - 8,
			     x > RIGHT - 90 ? " text-anchor=\"end\"" : "", lg_plot_product(point) / lg_plot_law(p));
		if (point->period_s > 0)
			lg_text_addf(out, " <tspan class=\"faint\">T = %.3g s</tspan>", point->period_s);
		lg_text_addf(out, "</text></g>\n");
	}
}

static void svg_legend(const struct lg_plot *p, struct lg_text *out)
{
	char arrival[32], regions[32], law[32];
	double y = BOTTOM + 70;

	lg_text_addf(out, "<path class=\"law\" d=\"M%.1f %.1f h30\"/><text x=\"%.1f\" y=\"%.1f\">"
			  "the law: %s/s arriving x %s active regions = %s</text>\n",
		     LEFT, y, LEFT + 40, y + 4, lg_plot_number(p->arrival_per_s, arrival, sizeof(arrival)),
		     lg_plot_number(p->regions, regions, sizeof(regions)), lg_plot_number(lg_plot_law(p), law, sizeof(law)));
	lg_text_addf(out, "<rect class=\"band\" x=\"%.1f\" y=\"%.1f\" width=\"30\" height=\"12\"/><text x=\"%.1f\" y=\"%.1f\">"
			  "%g to %g times it: what leases that keep a reserve need</text>\n",
		     LEFT, y + 16, LEFT + 40, y + 26, LG_PLOT_BAND_LOW, LG_PLOT_BAND_HIGH);
	lg_text_addf(out, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/><text x=\"%.1f\" y=\"%.1f\">measured</text>\n", LEFT + 460,
		     y, LEFT + 474, y + 4);
}

void lg_plot_svg(const struct lg_plot *p, struct lg_text *out)
{
	struct scales s = scales_of(p);

	lg_text_addf(out,
		     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">\n<title>rule ",
		     SVG_WIDTH, SVG_HEIGHT, SVG_WIDTH, SVG_HEIGHT);
	add_escaped(out, p->rule);
	lg_text_addf(out, ": coordination against what is out</title>\n");
	lg_text_add(out, style, sizeof(style) - 1);
	lg_text_addf(out, "<rect class=\"paper\" width=\"%d\" height=\"%d\"/>\n<text class=\"title\" x=\"%.1f\" y=\"30\">rule ", SVG_WIDTH,
		     SVG_HEIGHT, LEFT);
	add_escaped(out, p->rule);
	lg_text_addf(out, "</text>\n<text class=\"faint\" x=\"%.1f\" y=\"50\">what coordination costs against what it leaves out at once, both "
			  "axes logarithmic</text>\n",
		     LEFT);
	svg_grid(&s, out);
	svg_law(p, &s, out);
	svg_points(p, &s, out);
	svg_legend(p, out);
	lg_text_addf(out, "</svg>\n");
}
