// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a rule's leases cost and strand, beside the least that any lease can do: measured by the running region server, or read from a
 * file that the scale model wrote.
 */
#include "ctl/ctl.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "ctl/plot.h"

#define POINTS_MAX 200
#define FILE_BYTES_MAX (4 << 20)
#define PRODUCT_TOLERANCE 0.01 /* of a file: its numbers are rounded */

struct arguments {
	const char *rule;	/* NULL: as the file says */
	const char *data;	/* NULL: live */
	const char *svg;	/* NULL: none */
	bool live;
};

/* A curve with what its plot borrows. */
struct curve {
	struct lg_plot plot;
	struct lg_plot_point points[POINTS_MAX];
	json_t *live; /* the rule's row of the region server's answer; NULL: from a file */
	char region[LG_NAME_LEN];
	char rule[128];
};

/* ---- arguments ---- */

static int arguments_read(const struct lg_ctl *ctl, int argc, char **argv, struct arguments *a)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--live") == 0)
			a->live = true;
		else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
			a->data = argv[++i];
		else if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
			a->svg = argv[++i];
		else if (argv[i][0] == '-' || a->rule)
			return lg_ctl_usage(ctl, "curve", argv[i]);
		else
			a->rule = argv[i];
	}
	if (!a->rule && !a->data)
		return lg_ctl_usage(ctl, "curve", "a call without a rule");
	if (a->live && a->data)
		return lg_ctl_fail(ctl, LG_CTL_USAGE, "curve: --live and --data exclude each other");
	return 0;
}

/* ---- from a file ---- */

/* A number of the file within the plot's bounds; -EINVAL with the complaint naming it. */
static int number_read(const json_t *object, const char *where, const char *field, double *ret, struct lg_complaint *c)
{
	const json_t *value = json_object_get(object, field);
	double number = json_number_value(value);

	if (!json_is_number(value))
		return lg_complain(c, "%s%s must be a number", where, field);
	if (!(number >= LG_PLOT_MIN && number <= LG_PLOT_MAX))
		return lg_complain(c, "%s%s is %g, outside of %g to %g", where, field, number, LG_PLOT_MIN, LG_PLOT_MAX);
	*ret = number;
	return 0;
}

static int point_read(const json_t *row, size_t i, struct lg_plot_point *ret, struct lg_complaint *c)
{
	const json_t *product = json_object_get(row, "product");
	struct lg_plot_point point = { 0 };
	char where[32];
	int r;

	snprintf(where, sizeof(where), "points[%zu].", i);
	r = number_read(row, where, "reports_per_s", &point.reports_per_s, c);
	if (r == 0)
		r = number_read(row, where, "worst_outstanding_tok", &point.worst_tok, c);
	if (r == 0 && json_object_get(row, "period_s"))
		r = number_read(row, where, "period_s", &point.period_s, c);
	if (r < 0)
		return r;
	if (product && !(fabs(json_number_value(product) - lg_plot_product(&point)) <= PRODUCT_TOLERANCE * lg_plot_product(&point)))
		return lg_complain(c, "%sproduct is not reports_per_s x worst_outstanding_tok, which is %g", where, lg_plot_product(&point));
	*ret = point;
	return 0;
}

/* What the file calls its rule, as far as it prints. */
static int rule_read(const json_t *all, struct curve *curve, struct lg_complaint *c)
{
	const char *name = json_string_value(json_object_get(all, "rule"));

	if (!name || !*name)
		return lg_complain(c, "rule must be a name");
	snprintf(curve->rule, sizeof(curve->rule), "%s", name);
	for (char *at = curve->rule; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	curve->plot.rule = curve->rule;
	return 0;
}

static int file_take(const json_t *all, struct curve *curve, struct lg_complaint *c)
{
	const json_t *points = json_object_get(all, "points");
	size_t n = json_array_size(points);
	int r;

	r = rule_read(all, curve, c);
	if (r == 0)
		r = number_read(all, "", "arrival_per_s", &curve->plot.arrival_per_s, c);
	if (r == 0)
		r = number_read(all, "", "regions", &curve->plot.regions, c);
	if (r == 0 && (n < 1 || n > POINTS_MAX))
		r = lg_complain(c, "points must be a list of 1 to %d", POINTS_MAX);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = point_read(json_array_get(points, i), i, &curve->points[i], c);
	curve->plot.n_points = n;
	return r;
}

static int file_open(const char *path, FILE **ret, struct lg_complaint *c)
{
	struct stat st;
	FILE *file;
	int r = 0;

	file = fopen(path, "re");
	if (!file || fstat(fileno(file), &st) < 0)
		r = lg_complain(c, "%s", strerror(errno));
	else if (S_ISDIR(st.st_mode) || st.st_size > FILE_BYTES_MAX)
		r = lg_complain(c, "a curve is a file of at most %d bytes", FILE_BYTES_MAX);
	if (r == 0)
		*ret = file;
	else if (file)
		fclose(file);
	return r;
}

static int file_read(const struct lg_ctl *ctl, const struct arguments *a, struct curve *curve)
{
	struct lg_complaint c = { 0 };
	json_error_t error;
	char text[1024];
	json_t *all;
	FILE *file;
	int r;

	snprintf(c.file, sizeof(c.file), "%s", a->data);
	r = file_open(a->data, &file, &c);
	if (r == 0) {
		all = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
		fclose(file);
		c.line = all || error.line < 1 ? 0 : (uint32_t)error.line;
		if (!all)
			r = lg_complain(&c, "no JSON: %s", error.text);
		else
			r = json_is_object(all) ? file_take(all, curve, &c) : lg_complain(&c, "a curve is a JSON object");
		json_decref(all);
	}
	if (r == 0) {
		if (a->rule && strcmp(a->rule, curve->rule) != 0)
			fprintf(stderr, "leasegate: warning: %s is the curve of rule %s, not of %s\n", a->data, curve->rule, a->rule);
		return LG_CTL_OK;
	}
	lg_complaint_format(&c, text, sizeof(text));
	return lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: %s", text);
}

/* ---- from the region server ---- */

static json_t *row_find(const json_t *reply, const char *rule)
{
	const char *name;
	json_t *row;
	size_t i;

	json_array_foreach(json_object_get(reply, "rules"), i, row) {
		name = json_string_value(json_object_get(row, "rule"));
		if (name && strcmp(name, rule) == 0)
			return row;
	}
	return NULL;
}

/* The one point of a row, if it can be drawn. */
static int row_take(const struct lg_ctl *ctl, const char *rule, struct curve *curve)
{
	struct lg_plot_point *point = &curve->points[0];
	const json_t *row = curve->live;
	long long seconds = (long long)json_integer_value(json_object_get(row, "seconds"));

	curve->plot.arrival_per_s = json_number_value(json_object_get(row, "arrival_per_s"));
	curve->plot.regions = json_number_value(json_object_get(row, "regions"));
	curve->plot.n_points = 1;
	point->reports_per_s = json_number_value(json_object_get(row, "reports_per_s"));
	point->worst_tok = json_number_value(json_object_get(row, "worst_outstanding_tok"));
	point->period_s = json_number_value(json_object_get(row, "period_s"));
	if (seconds == 0)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: region %s has not measured rule %s for a whole second yet: ask again",
				   curve->region, rule);
	if (point->reports_per_s > 0 && point->worst_tok > 0 && lg_plot_law(&curve->plot) >= LG_PLOT_MIN)
		return LG_CTL_OK;
	return lg_ctl_fail(ctl, LG_CTL_REFUSED,
			   "curve: nothing to draw of rule %s at region %s: in the last %lld s %g reports/s from %.3g other regions, at most "
			   "%.0f tokens out, %.3g/s arriving. Ask the home of its keys (leasegate leases names it) while there is traffic",
			   rule, curve->region, seconds, point->reports_per_s, curve->plot.regions, point->worst_tok,
			   curve->plot.arrival_per_s);
}

static int live_read(const struct lg_ctl *ctl, const struct arguments *a, struct curve *curve)
{
	struct lg_complaint c = { 0 };
	const char *region;
	json_t *reply;
	int r;

	r = lg_ctl_ask(ctl, "region", "curve", &reply, &c);
	if (r < 0)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: %s", c.text);
	if (r == 1)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "instance %s: no region server is running (nothing at %s); give --data FILE",
				   ctl->instance, ctl->run_dir);
	region = json_string_value(json_object_get(reply, "region"));
	if (!region) {
		const char *error = json_string_value(json_object_get(reply, "error"));

		r = lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: the region server says: %s", error ? error : "nothing that I understand");
		json_decref(reply);
		return r;
	}
	snprintf(curve->region, sizeof(curve->region), "%s", region);
	curve->live = json_incref(row_find(reply, a->rule));
	json_decref(reply);
	if (!curve->live)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: region %s has no global rule %s in force", curve->region, a->rule);
	return row_take(ctl, a->rule, curve);
}

/* ---- output ---- */

static unsigned terminal_width(void)
{
	struct winsize size = { 0 };

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* The wire at both tiers of the region server. */
static void rates_add(const json_t *live, struct lg_text *out)
{
	static const struct { const char *what, *reports, *grants; } tiers[] = {
		{ "regions to this home", "reports_per_s", "grants_per_s" },
		{ "this region's hosts", "reports_of_hosts_per_s", "grants_to_hosts_per_s" },
	};
	char reports[32], grants[32];

	lg_text_addf(out, "\n  over the wire, per second:\n");
	for (size_t i = 0; i < N_ELEMS(tiers); i++)
		lg_text_addf(out, "    %-21s %8s reports %8s grants\n", tiers[i].what,
			     lg_plot_number(json_number_value(json_object_get(live, tiers[i].reports)), reports, sizeof(reports)),
			     lg_plot_number(json_number_value(json_object_get(live, tiers[i].grants)), grants, sizeof(grants)));
}

static void text_fill(const struct curve *curve, struct lg_text *out)
{
	const struct lg_plot *p = &curve->plot;
	char arrival[32], regions[32], law[32], reports[32], worst[32], product[32];

	lg_text_addf(out, "rule %s: coordination against what it leaves out at once", p->rule);
	if (curve->live)
		lg_text_addf(out, "\nas home %s measured it in the last %lld s", curve->region,
			     (long long)json_integer_value(json_object_get(curve->live, "seconds")));
	lg_text_addf(out, "\n\n");
	lg_plot_text(p, terminal_width(), out);
	lg_text_addf(out, "\n  *  the law: %s/s arriving x %s active regions = %s\n",
		     lg_plot_number(p->arrival_per_s, arrival, sizeof(arrival)), lg_plot_number(p->regions, regions, sizeof(regions)),
		     lg_plot_number(lg_plot_law(p), law, sizeof(law)));
	lg_text_addf(out, "  :  %g to %g times it: what leases that keep a reserve need\n\n", LG_PLOT_BAND_LOW, LG_PLOT_BAND_HIGH);
	lg_text_addf(out, "     %9s %12s %14s %14s %9s\n", "PERIOD", "REPORTS/s", "OUT AT ONCE", "PRODUCT", "x LAW");
	for (size_t i = 0; i < p->n_points; i++) {
		const struct lg_plot_point *point = &p->points[i];

		lg_text_addf(out, "  %c  ", lg_plot_mark(i));
		if (point->period_s > 0)
			lg_text_addf(out, "%7.3g s", point->period_s);
		else
			lg_text_addf(out, "%9s", "");
		lg_text_addf(out, " %12s %14s %14s %9.2f\n", lg_plot_number(point->reports_per_s, reports, sizeof(reports)),
			     lg_plot_number(point->worst_tok, worst, sizeof(worst)),
			     lg_plot_number(lg_plot_product(point), product, sizeof(product)), lg_plot_product(point) / lg_plot_law(p));
	}
	if (lg_plot_slope(p) != 0)
		lg_text_addf(out, "  slope %.2f, both axes logarithmic; the law has -1\n", lg_plot_slope(p));
	if (curve->live)
		rates_add(curve->live, out);
}

static json_t *curve_json(const struct curve *curve)
{
	const struct lg_plot *p = &curve->plot;
	double slope = lg_plot_slope(p);
	json_t *points = json_array(), *all;

	for (size_t i = 0; i < p->n_points; i++) {
		const struct lg_plot_point *point = &p->points[i];

		json_array_append_new(points, json_pack("{s:o, s:f, s:f, s:f, s:f}", "period_s",
							point->period_s > 0 ? json_real(point->period_s) : json_null(), "reports_per_s",
							point->reports_per_s, "worst_outstanding_tok", point->worst_tok, "product",
							lg_plot_product(point), "ratio", lg_plot_product(point) / lg_plot_law(p)));
	}
	all = json_pack("{s:s, s:s, s:f, s:f, s:f, s:[f, f], s:o, s:o}", "rule", p->rule, "source", curve->live ? "live" : "data",
			"arrival_per_s", p->arrival_per_s, "regions", p->regions, "law", lg_plot_law(p), "band", LG_PLOT_BAND_LOW,
			LG_PLOT_BAND_HIGH, "points", points, "slope", slope != 0 ? json_real(slope) : json_null());
	if (curve->live)
		json_object_set_new(all, "measured", json_pack("{s:s, s:O}", "region", curve->region, "rates", curve->live));
	return all;
}

static int svg_write(const struct lg_ctl *ctl, const struct lg_plot *p, const char *path)
{
	_cleanup_text_ struct lg_text svg = { 0 };
	FILE *file;
	bool ok;

	lg_plot_svg(p, &svg);
	if (!lg_text_ok(&svg))
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "out of memory");
	file = fopen(path, "we");
	if (!file)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: cannot write %s: %s", path, strerror(errno));
	ok = fwrite(svg.s, 1, svg.len, file) == svg.len;
	if (fclose(file) == 0 && ok)
		return LG_CTL_OK;
	return lg_ctl_fail(ctl, LG_CTL_REFUSED, "curve: cannot write %s: %s", path, strerror(errno));
}

static int curve_print(const struct lg_ctl *ctl, const struct arguments *a, const struct curve *curve)
{
	_cleanup_text_ struct lg_text text = { 0 };
	int r;

	r = a->svg ? svg_write(ctl, &curve->plot, a->svg) : LG_CTL_OK;
	if (r != LG_CTL_OK)
		return r;
	if (ctl->json)
		return lg_ctl_print(curve_json(curve));
	text_fill(curve, &text);
	if (a->svg)
		lg_text_addf(&text, "  drawn in %s\n", a->svg);
	if (!lg_text_ok(&text))
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "out of memory");
	return fputs(text.s, stdout) < 0 || fflush(stdout) ? LG_CTL_REFUSED : LG_CTL_OK;
}

int lg_ctl_curve(const struct lg_ctl *ctl, int argc, char **argv)
{
	struct arguments a = { 0 };
	static struct curve curve;
	int r;

	r = arguments_read(ctl, argc, argv, &a);
	if (r)
		return r;
	curve.plot.rule = a.rule;
	curve.plot.points = curve.points;
	r = a.data ? file_read(ctl, &a, &curve) : live_read(ctl, &a, &curve);
	if (r == LG_CTL_OK)
		r = curve_print(ctl, &a, &curve);
	json_decref(curve.live);
	return r;
}
