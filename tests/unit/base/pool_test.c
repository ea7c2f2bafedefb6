// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

static struct lg_pool_stat stat(void)
{
	struct lg_pool_stat s;

	lg_pool_stat(&s);
	return s;
}

TEST(objects_are_zeroed_aligned_and_their_own)
{
	unsigned char *v[3000];

	for (size_t i = 0; i < 3000; i++) {
		v[i] = lg_pool_get(96);
		assert_non_null(v[i]);
		assert_int_equal((uintptr_t)v[i] % 16, 0);
		for (size_t j = 0; j < 96; j++)
			assert_int_equal(v[i][j], 0);
		memset(v[i], (int)(i % 255) + 1, 96);
	}
	for (size_t i = 0; i < 3000; i++)
		for (size_t j = 0; j < 96; j++)
			assert_int_equal(v[i][j], i % 255 + 1);
	for (size_t i = 0; i < 3000; i += 2)
		lg_pool_put(v[i], 96);
	for (size_t i = 0; i < 3000; i += 2) {
		v[i] = lg_pool_get(96);
		for (size_t j = 0; j < 96; j++)
			assert_int_equal(v[i][j], 0);
	}
	for (size_t i = 0; i < 3000; i++)
		lg_pool_put(v[i], 96);
}

TEST(a_million_bytes_of_small_objects_cost_little_more)
{
	struct lg_pool_stat before = stat(), after;
	void *v[10000];

	for (size_t i = 0; i < 10000; i++)
		v[i] = lg_pool_get(96);
	after = stat();
	assert_int_equal(after.used_bytes - before.used_bytes, 960000);
	assert_true(after.held_bytes - before.held_bytes <= 960000 + 2 * 65536);
	for (size_t i = 0; i < 10000; i++)
		lg_pool_put(v[i], 96);
	assert_int_equal(stat().used_bytes, before.used_bytes);
}

TEST(an_empty_slab_goes_back_but_for_one)
{
	struct lg_pool_stat before = stat();
	void *v[10000];

	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < 10000; i++)
			v[i] = lg_pool_get(208);
		assert_true(stat().held_bytes >= before.held_bytes + 10000 * 208);
		for (size_t i = 0; i < 10000; i++)
			lg_pool_put(v[i * 7 % 10000], 208);
		assert_true(stat().held_bytes <= before.held_bytes + 65536);
	}
}

TEST(sizes_are_rounded_to_sixteen_bytes_and_large_ones_are_told_apart)
{
	static const size_t rows[][2] = {
		{ 0, 16 }, { 1, 16 }, { 16, 16 }, { 17, 32 }, { 4095, 4096 }, { 4096, 4096 }, { 4097, 4112 }, { 1000000, 1000000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_pool_stat before = stat();
		void *p = lg_pool_get(rows[i][0]);

		assert_non_null(p);
		memset(p, 1, rows[i][0]);
		assert_int_equal(stat().used_bytes - before.used_bytes, rows[i][1]);
		lg_pool_put(p, rows[i][0]);
		assert_int_equal(stat().used_bytes, before.used_bytes);
	}
	lg_pool_put(NULL, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_zeroed_aligned_and_their_own),
		cmocka_unit_test(a_million_bytes_of_small_objects_cost_little_more),
		cmocka_unit_test(an_empty_slab_goes_back_but_for_one),
		cmocka_unit_test(sizes_are_rounded_to_sixteen_bytes_and_large_ones_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
