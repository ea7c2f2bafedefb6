// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/newcomers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S 1000000000ull
#define N_HOLDERS 10u

static struct lg_newcomers shared, own[N_HOLDERS];

static void begin(void)
{
	shared = (struct lg_newcomers){ 0 };
	for (unsigned i = 0; i < N_HOLDERS; i++)
		own[i] = (struct lg_newcomers){ 0 };
}

/* How many of a flood one holder gets in, which tries per_ms times each millisecond. */
static unsigned flood(unsigned holder, uint64_t from_ns, uint64_t to_ns, unsigned per_ms)
{
	unsigned n = 0;

	for (uint64_t now_ns = from_ns; now_ns < to_ns; now_ns += S / 1000)
		for (unsigned i = 0; i < per_ms; i++)
			n += lg_newcomers_admit(&shared, &own[holder], N_HOLDERS, now_ns);
	return n;
}

static void one_alone_has_half_of_the_pace_and_its_part(void **state)
{
	unsigned n;

	(void)state;
	begin();
	flood(0, 10 * S, 20 * S, 100);
	n = flood(0, 20 * S, 30 * S, 100);
	/* A half, and a tenth of the other one. */
	assert_in_range(n, 109900, 110100);
}

static void a_flood_of_one_leaves_the_others_their_parts(void **state)
{
	unsigned n_own = 0, n_flood = 0;

	(void)state;
	begin();
	flood(0, 10 * S, 11 * S, 100);
	for (uint64_t now_ns = 11 * S; now_ns < 21 * S; now_ns += S / 1000) {
		n_flood += flood(0, now_ns, now_ns + 1, 100);
		n_own += flood(1, now_ns, now_ns + 1, 1);
	}
	/* It asks for its part, a thousand a second, and gets it. */
	assert_int_equal(n_own, 10000);
	assert_in_range(n_flood, 109900, 110100);
}

static void all_together_have_the_pace_and_no_more(void **state)
{
	unsigned n = 0;

	(void)state;
	begin();
	for (unsigned i = 0; i < N_HOLDERS; i++)
		flood(i, 10 * S, 10 * S + S / 1000, 20000);
	for (uint64_t now_ns = 10 * S; now_ns < 20 * S; now_ns += S / 1000)
		for (unsigned i = 0; i < N_HOLDERS; i++)
			n += flood(i, now_ns, now_ns + 1, 100);
	assert_in_range(n, 199000, 10 * LG_NEW_KEYS_PER_S);
}

static void at_once_come_as_many_as_in_half_a_second(void **state)
{
	unsigned n = 0;

	(void)state;
	begin();
	for (unsigned i = 0; i < N_HOLDERS; i++)
		n += flood(i, 10 * S, 10 * S + 1, 20000);
	assert_int_equal(n, LG_NEW_KEYS_PER_S / 2);
}

/* With so many holders a part is less than a key in half a second: each still has one at once. */
static void the_part_of_one_of_thousands_is_never_nothing(void **state)
{
	struct lg_newcomers mine = { 0 };

	(void)state;
	begin();
	flood(0, 10 * S, 10 * S + 1, 20000);
	assert_true(lg_newcomers_admit(&shared, &mine, 20000, 10 * S));
	assert_false(lg_newcomers_admit(&shared, &mine, 20000, 10 * S));
}

static void one_holder_cannot_fill_the_table_of_keys(void **state)
{
	(void)state;
	assert_true(lg_newcomers_fit(6999, 6999, 8000, 10));
	assert_false(lg_newcomers_fit(7000, 7000, 8000, 10));
	/* A hundred of the last thousand are each holder's, of ten. */
	assert_true(lg_newcomers_fit(99, 7999, 8000, 10));
	assert_false(lg_newcomers_fit(100, 7999, 8000, 10));
	assert_false(lg_newcomers_fit(0, 8000, 8000, 10));
	assert_true(lg_newcomers_fit(0, 7000, 8000, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_alone_has_half_of_the_pace_and_its_part),
		cmocka_unit_test(a_flood_of_one_leaves_the_others_their_parts),
		cmocka_unit_test(all_together_have_the_pace_and_no_more),
		cmocka_unit_test(at_once_come_as_many_as_in_half_a_second),
		cmocka_unit_test(the_part_of_one_of_thousands_is_never_nothing),
		cmocka_unit_test(one_holder_cannot_fill_the_table_of_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
