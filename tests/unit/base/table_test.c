// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/table.h"

#define N_KEYS 5000u

static int count_entry(void *arg, const void *key, void *value)
{
	unsigned *seen = arg;

	assert_int_equal(*(const uint32_t *)key, *(uint32_t *)value);
	seen[*(uint32_t *)value]++;
	return 0;
}

/* Random puts and deletes against an array that is obviously right. */
static void table_agrees_with_an_array_under_random_puts_and_deletes(void **state)
{
	_cleanup_(lg_table_free) struct lg_table *t = NULL;
	static uint32_t keys[N_KEYS];
	static unsigned present[N_KEYS], seen[N_KEYS];
	uint32_t x = 1;

	(void)state;
	assert_int_equal(lg_table_new(sizeof(uint32_t), N_KEYS, &t), 0);
	for (uint32_t i = 0; i < N_KEYS; i++)
		keys[i] = i;
	for (unsigned step = 0; step < 200000; step++) {
		x = x * 1664525u + 1013904223u;
		uint32_t i = (x >> 8) % N_KEYS;

		if (x & 0x80000000u) {
			assert_int_equal(lg_table_put(t, &keys[i], &keys[i]), present[i] ? -EEXIST : 0);
			present[i] = 1;
		} else {
			assert_ptr_equal(lg_table_del(t, &keys[i]), present[i] ? &keys[i] : NULL);
			present[i] = 0;
		}
	}
	assert_int_equal(lg_table_each(t, count_entry, seen), 0);
	for (uint32_t i = 0; i < N_KEYS; i++) {
		assert_int_equal(seen[i], present[i]);
		assert_ptr_equal(lg_table_get(t, &keys[i]), present[i] ? &keys[i] : NULL);
	}
}

struct deleting {
	struct lg_table *t;
	unsigned seen[N_KEYS];
};

static int delete_even(void *arg, const void *key, void *value)
{
	struct deleting *d = arg;
	uint32_t i = *(uint32_t *)value;

	d->seen[i]++;
	if (i % 2 == 0)
		assert_ptr_equal(lg_table_del(d->t, key), value);
	return 0;
}

static void each_visits_every_entry_once_while_some_are_deleted(void **state)
{
	static struct deleting d;
	static uint32_t keys[N_KEYS];

	(void)state;
	assert_int_equal(lg_table_new(sizeof(uint32_t), N_KEYS, &d.t), 0);
	for (uint32_t i = 0; i < N_KEYS; i++) {
		keys[i] = i;
		assert_int_equal(lg_table_put(d.t, &keys[i], &keys[i]), 0);
	}
	assert_int_equal(lg_table_each(d.t, delete_even, &d), 0);
	for (uint32_t i = 0; i < N_KEYS; i++)
		assert_int_equal(d.seen[i], 1);
	assert_int_equal(lg_table_count(d.t), N_KEYS / 2);
	lg_table_free(d.t);
}

static void a_full_table_refuses_one_more(void **state)
{
	_cleanup_(lg_table_free) struct lg_table *t = NULL;
	uint64_t keys[3] = { 1, 2, 3 };

	(void)state;
	assert_int_equal(lg_table_new(sizeof(uint64_t), 2, &t), 0);
	assert_int_equal(lg_table_put(t, &keys[0], keys), 0);
	assert_int_equal(lg_table_put(t, &keys[1], keys), 0);
	assert_int_equal(lg_table_put(t, &keys[2], keys), -ENOSPC);
	assert_ptr_equal(lg_table_del(t, &keys[0]), keys);
	assert_int_equal(lg_table_put(t, &keys[2], keys), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_agrees_with_an_array_under_random_puts_and_deletes),
		cmocka_unit_test(each_visits_every_entry_once_while_some_are_deleted),
		cmocka_unit_test(a_full_table_refuses_one_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
