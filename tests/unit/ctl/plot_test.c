// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/plot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static const struct lg_plot_point three[] = { { 1.5, 590, 2 }, { 0.59, 1259, 5 }, { 0.3, 2507, 10 } };

static struct lg_plot plot_of(const struct lg_plot_point *points, size_t n)
{
	return (struct lg_plot){ .rule = "r", .arrival_per_s = 150, .regions = 3, .points = points, .n_points = n };
}

static void numbers_read_well(void **state)
{
	static const struct { double value; const char *text; } rows[] = {
		{ 0.59, "0.59" }, { 0.001, "0.001" }, { 3, "3" }, { 999, "999" }, { 1000, "1,000" }, { 1259.4, "1,259" },
		{ 999999999, "999,999,999" }, { 1e9, "1e+09" }, { 1e-6, "1e-06" },
	};
	char buf[32];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++)
		assert_string_equal(lg_plot_number(rows[i].value, buf, sizeof(buf)), rows[i].text);
	assert_string_equal(lg_plot_number(123456, buf, 5), "123");
}

static void points_on_the_law_have_slope_minus_one(void **state)
{
	static const struct lg_plot_point on[] = { { 0.1, 4500, 0 }, { 1, 450, 0 }, { 10, 45, 0 } };
	static const struct lg_plot_point flat[] = { { 0.1, 450, 0 }, { 10, 450, 0 } };
	struct lg_plot p = plot_of(on, 3);

	(void)state;
	assert_true(lg_plot_law(&p) == 450);
	assert_true(lg_plot_slope(&p) > -1.000001 && lg_plot_slope(&p) < -0.999999);
	p = plot_of(flat, 2);
	assert_true(lg_plot_slope(&p) > -0.000001 && lg_plot_slope(&p) < 0.000001);
	p = plot_of(on, 1);
	assert_true(lg_plot_slope(&p) == 0);
}

static void marks_go_on_after_the_digits_and_end_in_a_sign(void **state)
{
	(void)state;
	assert_int_equal(lg_plot_mark(0), '1');
	assert_int_equal(lg_plot_mark(8), '9');
	assert_int_equal(lg_plot_mark(9), 'A');
	assert_int_equal(lg_plot_mark(60), 'z');
	assert_int_equal(lg_plot_mark(61), '+');
	assert_int_equal(lg_plot_mark(1000), '+');
}

/* Lines of the picture: their longest, and whether a mark stands where the law's star or band is below it in the same column. */
static size_t longest_line(const char *text)
{
	size_t longest = 0;

	for (const char *line = text; *line;) {
		size_t n = strcspn(line, "\n");

		longest = n > longest ? n : longest;
		line += n + (line[n] == '\n');
	}
	return longest;
}

static void the_picture_is_as_wide_as_it_may_be_and_shows_each_point(void **state)
{
	static const struct { unsigned asked, least, most; } widths[] = { { 10, 30, 40 }, { 40, 30, 40 }, { 80, 68, 80 }, { 1000, 148, 160 } };
	struct lg_plot p = plot_of(three, 3);

	(void)state;
	for (size_t i = 0; i < N_ELEMS(widths); i++) {
		_cleanup_text_ struct lg_text out = { 0 };

		lg_plot_text(&p, widths[i].asked, &out);
		assert_true(lg_text_ok(&out));
		assert_in_range(longest_line(out.s), widths[i].least, widths[i].most);
		for (const char *c = "*:"; *c; c++)
			assert_non_null(strchr(out.s, *c));
		assert_non_null(strstr(out.s, "1,000 +"));
		for (const char *c = out.s; *c; c++)
			assert_true(*c == '\n' || (*c >= ' ' && *c <= '~'));
	}
}

/* Row and column of a character within the lines that have an axis. */
static void place_of(const char *text, char what, int *ret_row, int *ret_column)
{
	int row = 0;

	for (const char *line = text; *line; row++) {
		size_t n = strcspn(line, "\n");

		for (size_t at = 10; at < n; at++) {
			if (line[at] == what) {
				*ret_row = row;
				*ret_column = (int)at;
				return;
			}
		}
		line += n + (line[n] == '\n');
	}
	fail_msg("no %c in\n%s", what, text);
}

static void fewer_reports_stand_further_left_and_more_tokens_higher(void **state)
{
	struct lg_plot p = plot_of(three, 3);
	_cleanup_text_ struct lg_text out = { 0 };
	int row[3], column[3];

	(void)state;
	lg_plot_text(&p, 80, &out);
	/* The axis' title and numbers have no such characters right of the axis before the picture ends. */
	place_of(strstr(out.s, "10,000 +"), '1', &row[0], &column[0]);
	place_of(strstr(out.s, "10,000 +"), '2', &row[1], &column[1]);
	place_of(strstr(out.s, "10,000 +"), '3', &row[2], &column[2]);
	assert_true(column[2] < column[1] && column[1] < column[0]);
	assert_true(row[2] < row[1] && row[1] < row[0]);
}

static void extremes_stay_inside_the_frame(void **state)
{
	static const struct lg_plot_point extremes[] = { { LG_PLOT_MIN, LG_PLOT_MIN, 0 }, { LG_PLOT_MAX, LG_PLOT_MAX, 0 },
							 { LG_PLOT_MIN, LG_PLOT_MAX, 1e9 }, { 1, 1, 1e-9 } };
	struct lg_plot p = plot_of(extremes, N_ELEMS(extremes));
	_cleanup_text_ struct lg_text out = { 0 }, svg = { 0 };

	(void)state;
	for (unsigned width = 40; width <= 160; width += 7)
		lg_plot_text(&p, width, &out);
	lg_plot_svg(&p, &svg);
	assert_true(lg_text_ok(&out) && lg_text_ok(&svg));
	assert_null(strstr(svg.s, "nan"));
	assert_null(strstr(svg.s, "inf"));
}

static void a_drawing_names_axes_law_and_points_and_escapes_the_rule(void **state)
{
	static const char *const words[] = { "<svg xmlns=\"http://www.w3.org/2000/svg\"", "reports per second at the home",
					     "most tokens out at once", "prefers-color-scheme: dark", "150/s arriving x 3 active regions = 450",
					     "1.97 x law", "T = 10 s", "a&#60;b&#38;&#34;", "</svg>\n" };
	struct lg_plot p = plot_of(three, 3);
	_cleanup_text_ struct lg_text svg = { 0 };

	(void)state;
	p.rule = "a<b&\"\x01";
	lg_plot_svg(&p, &svg);
	assert_true(lg_text_ok(&svg));
	for (size_t i = 0; i < N_ELEMS(words); i++)
		if (!strstr(svg.s, words[i]))
			fail_msg("no %s in\n%s", words[i], svg.s);
	assert_null(strchr(svg.s, '\x01'));
	assert_null(strstr(svg.s, "a<b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_read_well),
		cmocka_unit_test(points_on_the_law_have_slope_minus_one),
		cmocka_unit_test(marks_go_on_after_the_digits_and_end_in_a_sign),
		cmocka_unit_test(the_picture_is_as_wide_as_it_may_be_and_shows_each_point),
		cmocka_unit_test(fewer_reports_stand_further_left_and_more_tokens_higher),
		cmocka_unit_test(extremes_stay_inside_the_frame),
		cmocka_unit_test(a_drawing_names_axes_law_and_points_and_escapes_the_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
