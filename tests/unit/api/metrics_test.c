// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void check_page(struct lg_metrics *m, const char *want)
{
	struct lg_text page = { 0 };

	lg_metrics_page(m, &page);
	assert_true(lg_text_ok(&page));
	assert_string_equal(page.s ? page.s : "", want);
	lg_text_fini(&page);
}

static void samples_come_out_grouped_by_family(void **state)
{
	struct lg_metrics m = { 0 };

	(void)state;
	lg_metrics_add(&m, LG_METRIC_HOLDERS, 3, "kind", "host", NULL);
	lg_metrics_add(&m, LG_METRIC_BYPASS, 0, NULL);
	lg_metrics_add(&m, LG_METRIC_HOLDERS, 1, "kind", "region", NULL);
	lg_metrics_add(&m, LG_METRIC_OUTSTANDING, UINT64_MAX, "tier", "home", "rule", "per-user", NULL);
	lg_metrics_addf(&m, LG_METRIC_UPSTREAM_RTT, 0.0125, "lessor", "eu-west", NULL);
	check_page(&m, "# HELP leasegate_bypass 1 while bypass lets everything through\n"
		       "# TYPE leasegate_bypass gauge\n"
		       "leasegate_bypass 0\n"
		       "# HELP leasegate_upstream_round_trip_seconds round trip to the upstream, by lessor\n"
		       "# TYPE leasegate_upstream_round_trip_seconds gauge\n"
		       "leasegate_upstream_round_trip_seconds{lessor=\"eu-west\"} 0.0125\n"
		       "# HELP leasegate_outstanding_tokens tokens out with holders, by tier and rule\n"
		       "# TYPE leasegate_outstanding_tokens gauge\n"
		       "leasegate_outstanding_tokens{tier=\"home\",rule=\"per-user\"} 18446744073709551615\n"
		       "# HELP leasegate_holders holders connected, by kind\n"
		       "# TYPE leasegate_holders gauge\n"
		       "leasegate_holders{kind=\"host\"} 3\n"
		       "leasegate_holders{kind=\"region\"} 1\n");
}

static void a_page_empties_the_samples(void **state)
{
	struct lg_metrics m = { 0 };

	(void)state;
	lg_metrics_add(&m, LG_METRIC_BYPASS, 1, NULL);
	check_page(&m, "# HELP leasegate_bypass 1 while bypass lets everything through\n"
		       "# TYPE leasegate_bypass gauge\n"
		       "leasegate_bypass 1\n");
	check_page(&m, "");
}

static void label_values_are_escaped(void **state)
{
	static const struct {
		const char *value;
		const char *escaped;
	} rows[] = {
		{ "", "" },
		{ "plain", "plain" },
		{ "a\"b", "a\\\"b" },
		{ "a\\b", "a\\\\b" },
		{ "a\nb", "a\\nb" },
		{ "\\n", "\\\\n" },
		{ "\"\\\n", "\\\"\\\\\\n" },
		{ "{}=,", "{}=," },
		{ "\xc3\xa9", "\xc3\xa9" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_metrics m = { 0 };
		struct lg_text want = { 0 };

		lg_metrics_add(&m, LG_METRIC_BYPASS, 1, "x", rows[i].value, NULL);
		lg_text_addf(&want, "# HELP leasegate_bypass 1 while bypass lets everything through\n"
				    "# TYPE leasegate_bypass gauge\n"
				    "leasegate_bypass{x=\"%s\"} 1\n",
			     rows[i].escaped);
		check_page(&m, want.s);
		lg_text_fini(&want);
	}
}

static void fractions_are_written_without_idle_zeros(void **state)
{
	static const struct {
		double value;
		const char *text;
	} rows[] = {
		{ 0, "0" },	{ 1, "1" },		    { 100, "100" },	   { 0.5, "0.5" },	    { -2.25, "-2.25" },
		{ 1e-9, "0.000000001" }, { 1e-10, "0" },    { 0.1234567891, "0.123456789" }, { 1e15, "1000000000000000" },
		{ NAN, "NaN" }, { INFINITY, "+Inf" }, { -INFINITY, "-Inf" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_metrics m = { 0 };
		struct lg_text page = { 0 };
		const char *last;

		lg_metrics_addf(&m, LG_METRIC_UPSTREAM_RTT, rows[i].value, NULL);
		lg_metrics_page(&m, &page);
		page.s[page.len - 1] = '\0';
		last = strrchr(page.s, ' ') + 1;
		assert_string_equal(last, rows[i].text);
		lg_text_fini(&page);
	}
}

static void the_largest_double_fits(void **state)
{
	struct lg_metrics m = { 0 };
	struct lg_text page = { 0 };

	(void)state;
	lg_metrics_addf(&m, LG_METRIC_UPSTREAM_RTT, -1.7976931348623157e308, NULL);
	lg_metrics_page(&m, &page);
	assert_int_equal(strlen(strrchr(page.s, ' ') + 1), 1 + 309 + 1);
	lg_text_fini(&page);
}

static void a_family_without_memory_spoils_the_page(void **state)
{
	struct lg_metrics m = { 0 };
	struct lg_text page = { 0 };

	(void)state;
	m.family[LG_METRIC_BYPASS].failed = true;
	lg_metrics_add(&m, LG_METRIC_HOLDERS, 1, NULL);
	lg_metrics_page(&m, &page);
	assert_false(lg_text_ok(&page));
	lg_text_fini(&page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_come_out_grouped_by_family),
		cmocka_unit_test(a_page_empties_the_samples),
		cmocka_unit_test(label_values_are_escaped),
		cmocka_unit_test(fractions_are_written_without_idle_zeros),
		cmocka_unit_test(the_largest_double_fits),
		cmocka_unit_test(a_family_without_memory_spoils_the_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
