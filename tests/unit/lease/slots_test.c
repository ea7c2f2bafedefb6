// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/slots.h"

#include "lease/age.h"
#include "lease/arith.h"
#include "tests/unit/lease/lease_test.h"

TEST(memory_follows_the_slots_in_use)
{
	struct lg_slots s;

	assert_int_equal(lg_slots_init(&s, 60 * S, 100 * MS, 512), 0);
	assert_true(s.grain_ns >= 60 * S / 512);
	for (uint64_t i = 0; i < 5; i++)
		lg_slots_add(&s, T0 + i * S, 1, T0 + 10 * S);
	assert_int_equal(s.n, 5);
	assert_int_equal(s.cap, 8);
	for (uint64_t i = 0; i < 10000; i++)
		lg_slots_add(&s, T0 + i * 10 * MS, 1, T0 + 100 * S);
	assert_true(s.n <= 513);
	assert_true(s.cap <= 1024);
	lg_slots_fini(&s);
}

/* Against a list of what was added: never less than what is younger than the span, never more than what is younger by a grain. */
TEST(the_sum_is_late_by_less_than_a_grain_and_never_early)
{
	static struct { uint64_t end_ns, tok; } v[4000];
	uint64_t rand = 3, now_ns = T0;
	struct lg_slots s;

	assert_int_equal(lg_slots_init(&s, 10 * S, 70 * MS, 512), 0);
	for (size_t i = 0; i < 4000; i++) {
		uint64_t least = 0, most = 0, sum;

		now_ns += lg_rand_next(&rand) % (20 * MS);
		v[i].end_ns = now_ns - lg_rand_next(&rand) % (2 * S);
		v[i].tok = lg_rand_next(&rand) % 10;
		lg_slots_add(&s, v[i].end_ns, v[i].tok, now_ns);
		for (size_t j = 0; j <= i; j++) {
			least += v[j].end_ns + 10 * S > now_ns ? v[j].tok : 0;
			most += v[j].end_ns + 10 * S + 70 * MS > now_ns ? v[j].tok : 0;
		}
		sum = lg_slots_sum(&s, now_ns);
		assert_true(sum >= least && sum <= most);
	}
	lg_slots_fini(&s);
}

TEST(without_room_for_one_more_slot_tokens_join_a_later_one)
{
	struct lg_slots s;
	uint64_t now_ns = T0 + 5000 * 10 * MS;

	/* A span as for more slots than there may be: what a changed rule can leave behind. */
	assert_int_equal(lg_slots_init(&s, 20 * S, 10 * MS, 4000), 0);
	s.span_ns = 100 * S;
	for (uint64_t i = 0; i < 5000; i++)
		lg_slots_add(&s, T0 + i * 10 * MS, 1, now_ns);
	assert_int_equal(lg_slots_sum(&s, now_ns), 5000);
	assert_true(s.n <= 2048);
	lg_slots_add(&s, T0 + 5 * MS, 1, now_ns);
	assert_int_equal(lg_slots_sum(&s, now_ns), 5001);
	assert_int_equal(lg_slots_sum(&s, now_ns + 200 * S), 0);
	lg_slots_fini(&s);
}

TEST(exported_slots_say_the_same_in_fewer_words)
{
	struct lg_slot out[8];
	struct lg_slots s;
	uint64_t sum = 0;

	assert_int_equal(lg_slots_init(&s, 10 * S, 100 * MS, 512), 0);
	for (uint64_t i = 1; i <= 20; i++)
		lg_slots_add(&s, T0 + i * 100 * MS, i, T0 + 2 * S);
	assert_int_equal(lg_slots_export(&s, T0 + 2 * S, out, 8), 8);
	for (size_t i = 0; i < 8; i++)
		sum += out[i].tok;
	assert_int_equal(sum, 210);
	assert_int_equal(out[7].tok, 20);
	assert_int_equal(out[7].age_ms, 0);
	/* the first thirteen stand in the thirteenth */
	assert_int_equal(out[0].tok, 91);
	assert_int_equal(out[0].age_ms, lg_age_ms(T0 + 1300 * MS, T0 + 2 * S));
	assert_int_equal(lg_slots_export(&s, T0 + 20 * S, out, 8), 0);
	assert_int_equal(lg_slots_last_ns(&s), 0);
	lg_slots_fini(&s);
}

TEST(an_age_is_never_overstated)
{
	static const struct { uint64_t age_us, ms; } rows[] = {
		{ 0, 0 }, { 1000, 0 }, { 1999, 0 }, { 2005, 1 }, { 100000, 98 }, { 4900000, 4889 }, { 60000000, 59879 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(lg_age_ms(T0, T0 + rows[i].age_us * 1000), rows[i].ms);
	assert_int_equal(lg_age_ms(T0 + 1, T0), 0);	/* of the future: now */
	assert_int_equal(lg_age_end_ns(5, T0), T0 - 5 * MS);
	assert_int_equal(lg_age_end_ns(UINT64_MAX, T0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_follows_the_slots_in_use),
		cmocka_unit_test(the_sum_is_late_by_less_than_a_grain_and_never_early),
		cmocka_unit_test(without_room_for_one_more_slot_tokens_join_a_later_one),
		cmocka_unit_test(exported_slots_say_the_same_in_fewer_words),
		cmocka_unit_test(an_age_is_never_overstated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
