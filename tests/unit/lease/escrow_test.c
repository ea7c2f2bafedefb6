// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/escrow.h"

#include "tests/unit/lease/lease_test.h"

static struct lg_terms bucket(void)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 100, S, 1000);

	t.max_outstanding_tok = 300;
	t.escrow_period_ns = 1 * S;
	t.cost_tok = 1;
	return t;
}

static struct lg_escrow_books books(uint64_t consumed_tok, uint64_t out_tok)
{
	return (struct lg_escrow_books){ .consumed_tok = consumed_tok, .out_tok = out_tok, .most_out_tok = 300, .budget_tok = 1000 };
}

static struct lg_escrow_mark marked(struct lg_escrow *e, const struct lg_escrow_books *b, uint64_t size_tok, bool is_durable)
{
	struct lg_terms t = bucket();
	struct lg_escrow_mark mark;

	lg_escrow_mark(e, &t, b, size_tok, T0, &mark);
	if (is_durable)
		lg_escrow_marked(e, true);
	return mark;
}

TEST(nothing_is_lent_before_the_first_mark_is_durable)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_escrow e = { 0 };

	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
	marked(&e, &b, 50, false);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
	lg_escrow_marked(&e, true);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 50);
	lg_escrow_lent(&e, 49);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 1);
	lg_escrow_lent(&e, 1);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
}

TEST(a_mark_that_failed_or_whose_answer_is_lost_is_worth_nothing)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_escrow e = { 0 };

	marked(&e, &b, 50, false);
	lg_escrow_marked(&e, false);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
	assert_int_equal(e.last.at_ns, 0);
	/* an answer that nobody waits for is none either */
	lg_escrow_marked(&e, true);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
}

TEST(while_a_smaller_mark_may_have_arrived_no_more_is_lent_than_it_allows)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_escrow e = { 0 };

	marked(&e, &b, 100, true);
	marked(&e, &b, 30, false);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 30);
	/* nor when its answer is lost, nor when a larger one has followed */
	lg_escrow_marked(&e, false);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 30);
	marked(&e, &b, 200, false);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 30);
	lg_escrow_marked(&e, true);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 200);
}

TEST(what_is_lent_while_a_mark_is_on_its_way_is_part_of_its_reserve)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_escrow e = { 0 };

	marked(&e, &b, 100, true);
	marked(&e, &b, 100, false);
	lg_escrow_lent(&e, 60);
	lg_escrow_marked(&e, true);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 40);
}

TEST(a_mark_says_what_is_consumed_and_what_is_or_will_be_out)
{
	static const struct { uint64_t consumed_tok, out_tok, size_tok, says_consumed_tok, says_out_tok; } rows[] = {
		{ 0, 0, 50, 0, 50 },
		{ 200, 100, 50, 200, 150 },
		{ 200, 100, 200, 200, 300 },
		{ 200, 100, 201, 201, 300 },	/* no more than 300 is ever out: the rest will have been spent */
		{ 200, 400, 50, 250, 400 },	/* unless it is */
		{ 600, 100, 300, 700, 300 },	/* no more than the budget */
		{ 601, 100, 300, 700, 300 },
		{ 900, 300, 100, 900, 300 },	/* unless it is more: the limit was cut */
		{ 200, 100, 0, 200, 100 },	/* the last one: just what it is */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_escrow_books b = books(rows[i].consumed_tok, rows[i].out_tok);
		struct lg_escrow e = { 0 };
		struct lg_escrow_mark m = marked(&e, &b, rows[i].size_tok, true);

		assert_int_equal(m.consumed_tok, rows[i].says_consumed_tok);
		assert_int_equal(m.out_tok, rows[i].says_out_tok);
		assert_int_equal(m.next_tok, 0);
		assert_int_equal(lg_escrow_left_tok(&e, 0, S), rows[i].size_tok);
	}
}

TEST(in_a_fixed_window_a_mark_holds_for_it_and_for_the_next)
{
	struct lg_terms t = terms_of(LG_FIXED_WINDOW, 1000, 10 * S, 1000);
	struct lg_escrow_books b = books(400, 50);
	struct lg_escrow_mark mark;
	struct lg_escrow e = { 0 };
	uint64_t end_ns = T0 + 4 * S;

	b.window_end_ns = end_ns;
	lg_escrow_mark(&e, &t, &b, 80, T0, &mark);
	lg_escrow_marked(&e, true);
	assert_int_equal(mark.window_end_ns, end_ns);
	assert_int_equal(mark.next_tok, 80);
	lg_escrow_lent(&e, 70);
	assert_int_equal(lg_escrow_left_tok(&e, end_ns, t.per_ns), 10);
	lg_escrow_turn(&e);
	assert_int_equal(lg_escrow_left_tok(&e, end_ns + t.per_ns, t.per_ns), 80);
	lg_escrow_lent(&e, 30);
	assert_int_equal(lg_escrow_left_tok(&e, end_ns + t.per_ns, t.per_ns), 50);
	lg_escrow_turn(&e);
	assert_int_equal(lg_escrow_left_tok(&e, end_ns + 2 * t.per_ns, t.per_ns), 0);
}

TEST(a_mark_of_the_last_window_that_is_on_its_way_allows_what_it_reserves_for_this_one)
{
	struct lg_terms t = terms_of(LG_FIXED_WINDOW, 1000, 10 * S, 1000);
	struct lg_escrow_books b = books(400, 50);
	struct lg_escrow_mark mark;
	struct lg_escrow e = { 0 };
	uint64_t end_ns = T0 + 4 * S, next_ns = end_ns + t.per_ns;

	b.window_end_ns = end_ns;
	lg_escrow_mark(&e, &t, &b, 80, T0, &mark);
	lg_escrow_marked(&e, true);
	lg_escrow_mark(&e, &t, &b, 30, T0, &mark);
	lg_escrow_turn(&e);
	assert_int_equal(lg_escrow_left_tok(&e, next_ns, t.per_ns), 30);
	lg_escrow_lent(&e, 10);
	lg_escrow_marked(&e, true);
	assert_int_equal(lg_escrow_left_tok(&e, next_ns, t.per_ns), 20);
	/* one that is made in this window says what it is in this window */
	b = books(0, 10);
	b.window_end_ns = next_ns;
	lg_escrow_mark(&e, &t, &b, 100, T0, &mark);
	assert_int_equal(lg_escrow_left_tok(&e, next_ns, t.per_ns), 20);
	lg_escrow_marked(&e, true);
	assert_int_equal(lg_escrow_left_tok(&e, next_ns, t.per_ns), 100);
}

TEST(after_another_limit_nothing_is_lent_before_a_mark_of_it)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_escrow e = { 0 };

	marked(&e, &b, 100, true);
	marked(&e, &b, 100, false);
	lg_escrow_void(&e);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
	lg_escrow_marked(&e, true);	/* it is of the old limit */
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 0);
	marked(&e, &b, 100, true);
	assert_int_equal(lg_escrow_left_tok(&e, 0, S), 100);
}

/* The reserve at took_ms, when a mark of size_tok at T0 is followed by lent_tok. */
static uint64_t next_size(uint64_t size_tok, uint64_t lent_tok, uint64_t took_ms, uint64_t wanted_tok)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_terms t = bucket();
	struct lg_escrow e = { 0 };

	lg_escrow_size_tok(&e, &t, size_tok, T0);
	marked(&e, &b, size_tok, true);
	lg_escrow_lent(&e, lent_tok);
	return lg_escrow_size_tok(&e, &t, wanted_tok, T0 + took_ms * MS);
}

TEST(a_reserve_is_what_is_lent_in_two_periods)
{
	struct lg_terms t = bucket();
	struct lg_escrow e = { 0 };

	assert_int_equal(lg_escrow_size_tok(&e, &t, 0, T0), 15);	/* the first: a sixty-fourth */
	assert_int_equal(lg_escrow_size_tok(&e, &t, 7, T0), 15);
	assert_int_equal(lg_escrow_size_tok(&e, &t, 8, T0), 16);	/* or twice what is asked for */
	assert_int_equal(lg_escrow_size_tok(&e, &t, 5000, T0), 1100);	/* a bucket lends no more in a period */
	assert_int_equal(next_size(100, 75, 1500, 0), 100);
	assert_int_equal(next_size(100, 75, 1000, 0), 150);
	assert_int_equal(next_size(100, 75, 10, 0), 150);	/* who lends in bursts lends no more in a period for that */
	assert_int_equal(next_size(100, 100, 999, 1), 200);	/* used up within a period: twice as much */
	assert_int_equal(next_size(100, 75, 999, 1), 200);
	assert_int_equal(next_size(100, 74, 999, 1), 148);	/* it was not: somebody wants more than is left */
	assert_int_equal(next_size(100, 100, 999, 300), 400);
	assert_int_equal(next_size(100, 100, 1000, 1), 200);
	assert_int_equal(next_size(100, 100, 4000, 1), 50);
	assert_int_equal(next_size(100, 100, 4000, 77), 77);
	assert_int_equal(next_size(1100, 1100, 500, 1000), 1100);
}

TEST(marks_that_others_bring_about_do_not_change_the_pace)
{
	struct lg_terms t = bucket();
	struct lg_escrow e = { 0 };
	uint64_t ms;

	lg_escrow_size_tok(&e, &t, 0, T0);
	e.last.at_ns = T0;
	for (ms = 100; ms <= 10000; ms += 100) {	/* ten in each tenth of a second, and a mark each time */
		lg_escrow_lent(&e, 10);
		assert_true(lg_escrow_size_tok(&e, &t, 0, T0 + ms * MS) >= (ms < 1000 ? 20 : 200));
	}
	for (; ms <= 11000; ms += 100)	/* none any more: it falls by half in a period */
		assert_int_equal(lg_escrow_size_tok(&e, &t, 0, T0 + ms * MS), ms < 11000 ? 200 : 100);
}

static bool is_due(const struct lg_escrow *e, struct lg_escrow_books b, uint64_t wanted_tok, uint64_t at_ms)
{
	struct lg_terms t = bucket();

	return lg_escrow_is_due(e, &t, &b, lg_escrow_left_tok(e, 0, S), wanted_tok, T0 + at_ms * MS);
}

TEST(a_mark_is_due_when_a_quarter_is_left_or_somebody_waits)
{
	struct lg_escrow_books b = books(0, 0);
	struct lg_escrow e = { 0 };

	assert_false(is_due(&e, b, 0, 0));	/* a key that nobody asks for needs none */
	assert_true(is_due(&e, b, 1, 0));
	marked(&e, &b, 100, false);
	assert_false(is_due(&e, b, 1, 0));	/* one at a time */
	lg_escrow_marked(&e, true);
	lg_escrow_lent(&e, 75);
	assert_false(is_due(&e, b, 0, 0));
	lg_escrow_lent(&e, 1);
	assert_true(is_due(&e, b, 0, 0));
}

TEST(a_mark_that_says_far_too_much_is_made_anew_after_four_periods)
{
	struct lg_escrow_books then = books(400, 100);
	struct lg_terms t = bucket();
	struct lg_escrow e = { 0 };

	marked(&e, &then, 100, true);	/* says 600 */
	assert_int_equal(lg_escrow_due_ns(&e, &t), T0 + 4 * S);
	assert_true(is_due(&e, books(387, 100), 0, 4000));
	assert_false(is_due(&e, books(388, 100), 0, 4000));	/* with half of the reserve, and a sixteenth more */
	assert_false(is_due(&e, books(387, 100), 0, 3999));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lent_before_the_first_mark_is_durable),
		cmocka_unit_test(a_mark_that_failed_or_whose_answer_is_lost_is_worth_nothing),
		cmocka_unit_test(while_a_smaller_mark_may_have_arrived_no_more_is_lent_than_it_allows),
		cmocka_unit_test(what_is_lent_while_a_mark_is_on_its_way_is_part_of_its_reserve),
		cmocka_unit_test(a_mark_says_what_is_consumed_and_what_is_or_will_be_out),
		cmocka_unit_test(in_a_fixed_window_a_mark_holds_for_it_and_for_the_next),
		cmocka_unit_test(a_mark_of_the_last_window_that_is_on_its_way_allows_what_it_reserves_for_this_one),
		cmocka_unit_test(after_another_limit_nothing_is_lent_before_a_mark_of_it),
		cmocka_unit_test(a_reserve_is_what_is_lent_in_two_periods),
		cmocka_unit_test(marks_that_others_bring_about_do_not_change_the_pace),
		cmocka_unit_test(a_mark_is_due_when_a_quarter_is_left_or_somebody_waits),
		cmocka_unit_test(a_mark_that_says_far_too_much_is_made_anew_after_four_periods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
