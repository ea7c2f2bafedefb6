// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/budget.h"

#include <stdlib.h>

#include "lease/arith.h"
#include "lease/slots.h"
#include "tests/unit/lease/lease_test.h"

/* A budget and the terms it goes by. */
struct script {
	struct lg_terms t;
	struct lg_budget b;
};

/* Filled within a second, whatever the rate. */
static void bucket_of(struct script *s, uint64_t limit_tok, uint64_t per_ns)
{
	s->t = terms_of(LG_TOKEN_BUCKET, limit_tok, per_ns, 1);
	assert_int_equal(lg_budget_init(&s->b, &s->t, 0, T0), 0);
}

static void window_of(struct script *s, uint64_t limit_tok, uint64_t per_ns, uint64_t slot_ns)
{
	s->t = terms_of(LG_SLIDING_WINDOW, limit_tok, per_ns, limit_tok);
	s->t.slot_ns = slot_ns;
	assert_int_equal(lg_budget_init(&s->b, &s->t, 0, T0), 0);
}

static void book(struct script *s, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	lg_budget_book(&s->b, &s->t, tok, spent_ns, now_ns);
}

static uint64_t consumed(struct script *s, uint64_t now_ns)
{
	return lg_budget_consumed_tok(&s->b, &s->t, now_ns);
}

static void end(struct script *s)
{
	lg_budget_fini(&s->b, &s->t);
}

TEST(a_bucket_refills_by_its_rate_to_the_nanosecond)
{
	struct script b;

	/* 3 tokens in 7 ns: nothing that divides */
	bucket_of(&b, 3, 7);
	book(&b, 6, T0, T0);
	assert_int_equal(consumed(&b, T0), 6);
	assert_int_equal(consumed(&b, T0 + 2), 6);	/* 6/7 of a token is back */
	assert_int_equal(consumed(&b, T0 + 3), 5);	/* 9/7 */
	assert_int_equal(consumed(&b, T0 + 13), 1);
	assert_int_equal(consumed(&b, T0 + 14), 0);
	end(&b);
}

TEST(looking_often_is_the_same_as_looking_once)
{
	struct script often, once;
	uint64_t now_ns = T0;

	bucket_of(&often, 10000, 60 * S);
	bucket_of(&once, 10000, 60 * S);
	book(&often, 5000, T0, T0);
	book(&once, 5000, T0, T0);
	while (now_ns < T0 + 20 * S) {
		now_ns += 1234567;
		lg_budget_advance(&often.b, &often.t, now_ns);
	}
	assert_int_equal(consumed(&often, now_ns), consumed(&once, now_ns));
	assert_int_equal(often.b.level_low, once.b.level_low);
	end(&often);
	end(&once);
}

TEST(time_never_runs_back)
{
	struct script b;

	bucket_of(&b, 10, S);
	book(&b, 10, T0 + S, T0 + S);
	assert_int_equal(consumed(&b, T0), 10);
	assert_int_equal(consumed(&b, T0 + S), 10);
	end(&b);
}

TEST(what_was_wasted_since_they_were_spent_drains_late_tokens)
{
	static const struct { uint64_t tok, spent_ms, now_ms, consumed_tok; } rows[] = {
		{ 5, 5000, 5000, 5 },	/* spent now */
		{ 5, 100, 5000, 0 },	/* 9.8 were wasted since */
		{ 10, 100, 5000, 1 },	/* 0.2 of one is left */
		{ 5, 4000, 5000, 3 },	/* 2 were */
		{ 12, 0, 5000, 2 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct script b;

		bucket_of(&b, 2, S);
		book(&b, rows[i].tok, T0 + rows[i].spent_ms * MS, T0 + rows[i].now_ms * MS);
		assert_int_equal(consumed(&b, T0 + rows[i].now_ms * MS), rows[i].consumed_tok);
		end(&b);
	}
}

TEST(what_was_wasted_is_used_once)
{
	struct script b;

	bucket_of(&b, 2, S);
	book(&b, 8, T0 + S, T0 + 5 * S);	/* uses the 8 wasted from 1 s to 5 s */
	assert_int_equal(consumed(&b, T0 + 5 * S), 0);
	book(&b, 3, T0 + 2 * S, T0 + 5 * S);
	assert_int_equal(consumed(&b, T0 + 5 * S), 3);
	book(&b, 4, T0, T0 + 5 * S);		/* the first second's 2 are still there */
	assert_int_equal(consumed(&b, T0 + 5 * S), 5);
	end(&b);
}

/* However late the reports, the books are never below a bucket that knew each token when it was spent. That of every second run takes so
 * long to fill that one full time is remembered. */
TEST(late_books_are_never_below_the_truth)
{
	uint64_t rand = 7;

	for (int run = 0; run < 2000; run++) {
		struct { uint64_t spent_ns, told_ns, tok; } v[60];
		struct script late, truth;
		uint64_t now_ns = T0;

		bucket_of(&late, 1 + lg_rand_next(&rand) % 50, S);
		bucket_of(&truth, late.t.limit_tok, S);
		if (run % 2)
			late.t.budget_tok = 11 * late.t.limit_tok;
		for (size_t i = 0; i < 60; i++) {
			v[i].spent_ns = now_ns += lg_rand_next(&rand) % (400 * MS);
			v[i].told_ns = v[i].spent_ns + lg_rand_next(&rand) % (3 * S);
			v[i].tok = lg_rand_next(&rand) % 40;
			book(&truth, v[i].tok, v[i].spent_ns, v[i].spent_ns);
		}
		for (uint64_t t = T0; t <= now_ns + 3050 * MS; t += 50 * MS)
			for (size_t i = 0; i < 60; i++)
				if (v[i].told_ns > t - 50 * MS && v[i].told_ns <= t)
					book(&late, v[i].tok, v[i].spent_ns, t);
		assert_true(consumed(&late, now_ns + 3100 * MS) >= consumed(&truth, now_ns + 3100 * MS));
		assert_int_equal(late.b.full != NULL, run % 2 == 0);
		end(&late);
		end(&truth);
	}
}

TEST(a_slot_leaves_the_window_when_its_end_is_a_window_ago)
{
	struct script b;

	window_of(&b, 100, 10 * S, 100 * MS);
	book(&b, 40, T0 + 1, T0 + 5 * S);		/* slot that ends at 0.1 s */
	book(&b, 60, T0 + 100 * MS, T0 + 5 * S);	/* the same */
	book(&b, 7, T0 + 100 * MS + 1, T0 + 5 * S);	/* the next */
	assert_int_equal(consumed(&b, T0 + 5 * S), 107);
	assert_int_equal(consumed(&b, T0 + 10 * S + 100 * MS - 1), 107);
	assert_int_equal(consumed(&b, T0 + 10 * S + 100 * MS), 7);
	assert_int_equal(consumed(&b, T0 + 10 * S + 200 * MS), 0);
	end(&b);
}

TEST(what_is_older_than_the_window_does_not_count)
{
	struct script b;

	window_of(&b, 100, 10 * S, 100 * MS);
	book(&b, 5, T0 - 10 * S, T0);
	assert_int_equal(consumed(&b, T0), 0);
	book(&b, 5, T0 - 10 * S + 1, T0);
	assert_int_equal(consumed(&b, T0), 5);
	end(&b);
}

TEST(a_window_of_a_month_has_few_slots_and_counts_right)
{
	const uint64_t month_ns = 31ull * 24 * 3600 * S;
	struct script b;

	window_of(&b, 1000, month_ns, 100 * MS);
	for (uint64_t i = 0; i < 5000; i++)
		book(&b, 1, T0 + month_ns / 5000 * i, T0 + month_ns);
	assert_true(b.b.window->n <= LG_BUDGET_SLOTS + 1);
	assert_int_equal(consumed(&b, T0 + month_ns), 5000);
	assert_int_equal(consumed(&b, T0 + 2 * month_ns + month_ns / LG_BUDGET_SLOTS + S), 0);
	end(&b);
}

TEST(slots_out_of_order_are_counted_in_theirs)
{
	struct script b;

	window_of(&b, 100, 10 * S, 100 * MS);
	for (uint64_t i = 0; i < 100; i++)
		book(&b, 1, T0 + (i * 37 % 100) * 100 * MS, T0 + 10 * S - 1);
	assert_int_equal(consumed(&b, T0 + 10 * S - 1), 100);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(consumed(&b, T0 + 10 * S + i * 100 * MS), 99 - i);
	end(&b);
}

static void change(struct script *s, uint64_t limit_tok, uint64_t per_ns, uint64_t slot_ns, uint64_t now_ns)
{
	struct lg_terms to = s->t;

	to.limit_tok = limit_tok;
	to.per_ns = per_ns;
	to.slot_ns = slot_ns;
	lg_budget_change(&s->b, &s->t, &to, 0, now_ns);
	s->t = to;
}

TEST(another_rate_leaves_what_is_consumed_as_it_is)
{
	struct script b;

	bucket_of(&b, 10, S);
	book(&b, 20, T0, T0);
	change(&b, 7, 3 * S, 100 * MS, T0 + 500 * MS);
	assert_int_equal(consumed(&b, T0 + 500 * MS), 15);
	assert_int_equal(consumed(&b, T0 + 3500 * MS), 8);	/* 7 in 3 s */
	change(&b, 7, 2 * S, 100 * MS, T0 + 3500 * MS);
	assert_int_equal(consumed(&b, T0 + 5500 * MS), 1);
	end(&b);
}

TEST(another_window_keeps_what_lies_in_it)
{
	struct script b;

	window_of(&b, 100, 10 * S, 100 * MS);
	book(&b, 30, T0 + S, T0 + 8 * S);
	book(&b, 50, T0 + 7 * S, T0 + 8 * S);
	change(&b, 100, 5 * S, 100 * MS, T0 + 8 * S);
	assert_int_equal(consumed(&b, T0 + 8 * S), 50);
	change(&b, 100, 60 * S, 100 * MS, T0 + 8 * S);
	assert_int_equal(consumed(&b, T0 + 60 * S), 50);
	end(&b);
}

/* A bucket that takes eleven seconds to fill. */
static void slow_bucket_of(struct script *s, uint64_t limit_tok)
{
	bucket_of(s, limit_tok, S);
	s->t.budget_tok = 11 * limit_tok;
}

TEST(of_a_bucket_that_takes_long_to_fill_the_last_full_time_drains_late_tokens)
{
	static const struct { uint64_t tok, spent_ms, now_ms, consumed_tok; } rows[] = {
		{ 500, 5000, 5000, 500 },	/* spent now */
		{ 500, 100, 5000, 0 },		/* 980 were wasted since */
		{ 1000, 100, 5000, 21 },	/* 20 are left, and what the grain of a millisecond cost */
		{ 500, 4000, 5000, 301 },	/* 200 were */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct script b;

		slow_bucket_of(&b, 200);
		book(&b, rows[i].tok, T0 + rows[i].spent_ms * MS, T0 + rows[i].now_ms * MS);
		assert_in_range(consumed(&b, T0 + rows[i].now_ms * MS), lg_sub_floor(rows[i].consumed_tok, 1), rows[i].consumed_tok);
		assert_null(b.b.full);
		end(&b);
	}
}

TEST(a_full_time_of_long_ago_is_forgotten)
{
	struct script b;

	slow_bucket_of(&b, 200);
	book(&b, 2200, T0 + 5 * S, T0 + 5 * S);		/* full until then, and not again for eleven seconds */
	book(&b, 2200, T0 + 15 * S, T0 + 15 * S);
	book(&b, 100, T0 + 4 * S, T0 + 15 * S);		/* late: drained by the fifth second */
	assert_int_equal(consumed(&b, T0 + 15 * S), 2400);
	consumed(&b, T0 + 25 * S + 100 * MS);
	book(&b, 100, T0 + 3 * S, T0 + 25 * S + 100 * MS);	/* twenty seconds after its end it is nobody's */
	assert_int_equal(consumed(&b, T0 + 25 * S + 100 * MS), 2400 - 2020 + 100);
	/* nor is it taken for one of a minute later, whose digits are the same */
	consumed(&b, T0 + 100 * S);
	book(&b, 100, T0 + 99 * S, T0 + 100 * S);
	assert_int_equal(consumed(&b, T0 + 100 * S), 0);
	end(&b);
}

TEST(a_fixed_window_ends_where_its_origin_says)
{
	static const struct { uint64_t origin_ns, now_ns, end_ns; } rows[] = {
		{ 0, 1, 10 }, { 0, 9, 10 }, { 0, 10, 20 }, { 3, 2, 3 }, { 3, 3, 13 }, { 1003, 12, 13 }, { 1003, 13, 23 },
	};
	const struct lg_terms t = { .algorithm = LG_FIXED_WINDOW, .per_ns = 10 };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(lg_window_end_ns(&t, rows[i].origin_ns, rows[i].now_ns), rows[i].end_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_refills_by_its_rate_to_the_nanosecond),
		cmocka_unit_test(looking_often_is_the_same_as_looking_once),
		cmocka_unit_test(time_never_runs_back),
		cmocka_unit_test(what_was_wasted_since_they_were_spent_drains_late_tokens),
		cmocka_unit_test(what_was_wasted_is_used_once),
		cmocka_unit_test(late_books_are_never_below_the_truth),
		cmocka_unit_test(a_slot_leaves_the_window_when_its_end_is_a_window_ago),
		cmocka_unit_test(what_is_older_than_the_window_does_not_count),
		cmocka_unit_test(a_window_of_a_month_has_few_slots_and_counts_right),
		cmocka_unit_test(slots_out_of_order_are_counted_in_theirs),
		cmocka_unit_test(another_rate_leaves_what_is_consumed_as_it_is),
		cmocka_unit_test(another_window_keeps_what_lies_in_it),
		cmocka_unit_test(of_a_bucket_that_takes_long_to_fill_the_last_full_time_drains_late_tokens),
		cmocka_unit_test(a_full_time_of_long_ago_is_forgotten),
		cmocka_unit_test(a_fixed_window_ends_where_its_origin_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
