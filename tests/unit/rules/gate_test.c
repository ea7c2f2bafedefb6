// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rules/gate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static void a_gate_takes_its_part_of_the_nodes_and_keeps_them_when_it_widens(void **state)
{
	struct lg_gate few = { .permille = 100 }, more = { .permille = 300 }, all = { .permille = 1000 };
	unsigned n_few = 0, n_more = 0;
	char name[LG_NAME_LEN];

	(void)state;
	for (int i = 0; i < 10000; i++) {
		const struct lg_gate_node node = { .name = name };
		bool is_few, is_more;

		snprintf(name, sizeof(name), "node-%d.example", i);
		is_few = lg_gate_takes(&few, &node);
		is_more = lg_gate_takes(&more, &node);
		assert_true(is_more || !is_few);
		assert_true(lg_gate_takes(&all, &node));
		n_few += is_few;
		n_more += is_more;
	}
	assert_in_range(n_few, 850, 1150);
	assert_in_range(n_more, 2750, 3250);
}

static void a_gate_by_label_takes_nodes_that_have_it(void **state)
{
	const struct lg_label labels[] = { { "site", "a" }, { "tier", "canary" } };
	const struct lg_gate_node both = { "n", labels, 2, false }, one = { "n", labels, 1, false }, neither = { "n", NULL, 0, false };
	struct lg_gate gate = { .label = "tier", .value = "canary" }, none = { 0 };

	(void)state;
	assert_true(lg_gate_takes(&gate, &both));
	assert_false(lg_gate_takes(&gate, &one));
	assert_false(lg_gate_takes(&gate, &neither));
	snprintf(gate.value, sizeof(gate.value), "canar");
	assert_false(lg_gate_takes(&gate, &both));
	assert_true(lg_gate_takes(&none, &neither));
	assert_true(lg_gate_takes(&gate, &lg_gate_everybody));
	assert_false(lg_gate_takes(&gate, &lg_gate_nobody));
	assert_true(lg_gate_takes(&none, &lg_gate_nobody));
}

static void gates_are_apart_that_ask_for_two_values_of_one_label(void **state)
{
	const struct lg_gate a = { .label = "tier", .value = "a" }, b = { .label = "tier", .value = "b" };
	const struct lg_gate site = { .label = "site", .value = "b" };
	const struct lg_gate part = { .permille = 100 }, none = { 0 };

	(void)state;
	assert_true(lg_gate_are_apart(&a, &b));
	assert_false(lg_gate_are_apart(&a, &a));
	assert_false(lg_gate_are_apart(&a, &site));
	assert_false(lg_gate_are_apart(&a, &part));
	assert_false(lg_gate_are_apart(&none, &a));
	assert_false(lg_gate_are_apart(&part, &none));
}

static void a_gate_is_a_percentage_or_a_label_with_its_value(void **state)
{
	static const struct {
		const char *text;
		const char *want;	/* NULL: refused */
	} rows[] = {
		{ "10%", "10% of the nodes" }, { "0.1%", "0.1% of the nodes" }, { "100%", "100% of the nodes" }, { "0%", NULL },
		{ "100.1%", NULL }, { "10", NULL }, { "tier=canary", "nodes with tier=canary" }, { "tier=", NULL }, { "=canary", NULL },
		{ "a=b=c", NULL }, { "a b=c", NULL }, { "", NULL },
		{ "a234567890123456789012345678901234567890123456789012345678901234=x", NULL },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_complaint c = { 0 };
		char text[LG_GATE_TEXT_LEN];
		struct lg_gate gate;
		int r = lg_gate_parse(rows[i].text, &gate, &c);

		assert_int_equal(r, rows[i].want ? 0 : -EINVAL);
		if (rows[i].want)
			lg_gate_text(&gate, text, sizeof(text));
		assert_true(!rows[i].want ? strlen(c.text) > 0 : strcmp(text, rows[i].want) == 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_gate_takes_its_part_of_the_nodes_and_keeps_them_when_it_widens),
		cmocka_unit_test(a_gate_by_label_takes_nodes_that_have_it),
		cmocka_unit_test(gates_are_apart_that_ask_for_two_values_of_one_label),
		cmocka_unit_test(a_gate_is_a_percentage_or_a_label_with_its_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
