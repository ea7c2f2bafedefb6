// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/sublimit.h"

#include "lease/arith.h"
#include "lease/slots.h"
#include "tests/unit/lease/lease_test.h"

/* 1,000 per second, burst 100; and 1,000 in any second. */
static struct lg_terms bucket(void)
{
	return terms_of(LG_TOKEN_BUCKET, 1000, 1 * S, 100);
}

static struct lg_terms window(void)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 1000, 1 * S, 1000);

	t.slot_ns = 2 * MS;
	return t;
}

struct part {
	struct lg_terms t;
	struct lg_sublimit s;
};

static struct part part_of(struct lg_terms terms)
{
	struct part p = { .t = terms };

	assert_int_equal(lg_sublimit_init(&p.s, &p.t, T0), 0);
	return p;
}

static bool follow(struct part *p, uint32_t version, uint64_t limit_tok, uint32_t permille, uint64_t out_tok, uint64_t now_ns)
{
	struct lg_grant grant = { .kind = LG_LEASE_LIMIT, .limit_version = version, .limit_tok = limit_tok, .limit_permille = permille };

	return lg_sublimit_follow(&p->s, &p->t, &grant, out_tok, now_ns);
}

/* Told its first limit at once. */
static struct part part_told(struct lg_terms terms, uint64_t limit_tok, uint32_t permille)
{
	struct part p = part_of(terms);

	assert_false(follow(&p, 1, limit_tok, permille, 0, T0));
	return p;
}

/* With out_tok at hosts. */
static void assert_free(struct part *p, uint64_t out_tok, uint64_t now_ns, uint64_t free_tok)
{
	assert_int_equal(lg_sublimit_free_tok(&p->s, out_tok, now_ns), free_tok);
}

static void assert_held(struct part *p, uint64_t out_tok, uint64_t now_ns, uint64_t held_tok)
{
	assert_int_equal(lg_sublimit_held_tok(&p->s, out_tok, now_ns), held_tok);
}

TEST(burst_comes_empty_and_is_minted_at_the_rate_told)
{
	struct part p = part_of(bucket());

	assert_free(&p, 0, T0, 0);
	assert_false(follow(&p, 1, 50, 500, 0, T0));
	assert_free(&p, 0, T0, 0);
	/* 500 per second, two thousandths slower: the tenth token is there after 20.04 ms. */
	assert_free(&p, 0, T0 + 20040080, 9);
	assert_free(&p, 0, T0 + 20040081, 10);
	assert_free(&p, 0, T0 + 10 * S, 50);
	lg_sublimit_fini(&p.s);
}

TEST(what_is_out_and_what_was_spent_is_not_lent_again)
{
	struct part p = part_told(bucket(), 100, 1000);

	assert_free(&p, 30, T0 + S, 70);
	lg_sublimit_book(&p.s, 10, T0 + S, T0 + S);
	assert_free(&p, 20, T0 + S, 70);
	assert_free(&p, 100, T0 + S, 0);
	lg_sublimit_fini(&p.s);
}

TEST(burst_given_back_takes_as_much_off_what_is_consumed_and_no_more)
{
	struct part p = part_told(bucket(), 100, 1);

	/* All of it consumed; of 100 it keeps 40: 60 of what is consumed count elsewhere, 40 here. */
	assert_true(follow(&p, 2, 40, 1, 0, T0));
	assert_held(&p, 0, T0, 40);
	assert_int_equal(lg_queue_tok(&p.s.queue, T0), 40);
	lg_sublimit_fini(&p.s);
}

TEST(burst_that_hosts_have_is_held_until_they_spend_or_return_it)
{
	struct part p = part_told(bucket(), 100, 1000);

	assert_free(&p, 60, T0 + S, 40);
	assert_true(follow(&p, 2, 20, 0, 60, T0 + S));
	assert_held(&p, 60, T0 + S, 60);
	assert_free(&p, 60, T0 + S, 0);
	/* Spent: it comes back empty. */
	lg_sublimit_book(&p.s, 10, T0 + S, T0 + S);
	assert_held(&p, 50, T0 + S, 50);
	assert_int_equal(lg_queue_tok(&p.s.queue, T0 + S), 0);
	/* Returned: down to the limit and no further. */
	assert_held(&p, 21, T0 + S, 21);
	assert_held(&p, 5, T0 + S, 20);
	assert_free(&p, 5, T0 + S, 15);
	lg_sublimit_fini(&p.s);
}

TEST(a_burst_that_grows_again_before_it_was_given_back_grows_only_by_the_rest)
{
	struct part p = part_told(bucket(), 100, 1000);

	follow(&p, 2, 20, 0, 60, T0 + S);
	assert_false(follow(&p, 3, 80, 0, 60, T0 + S));
	assert_held(&p, 60, T0 + S, 80);
	assert_int_equal(lg_queue_tok(&p.s.queue, T0 + S), 20);
	assert_free(&p, 60, T0 + S, 0);
	lg_sublimit_fini(&p.s);
}

TEST(an_older_or_repeated_version_changes_nothing)
{
	struct part p = part_of(bucket());

	follow(&p, 2, 40, 400, 0, T0);
	assert_false(follow(&p, 2, 90, 900, 0, T0));
	assert_false(follow(&p, 1, 10, 100, 0, T0));
	assert_int_equal(p.s.limit_tok, 40);
	assert_int_equal(p.s.permille, 400);
	assert_true(follow(&p, 3, 41, 399, 0, T0));
	assert_true(follow(&p, 4, 40, 399, 0, T0));
	assert_false(follow(&p, 5, 40, 399, 0, T0));
	lg_sublimit_fini(&p.s);
}

TEST(what_is_given_back_unasked_comes_back_only_with_a_newer_version)
{
	struct part p = part_told(bucket(), 100, 1000);

	lg_sublimit_give_back(&p.s, &p.t, 5, 5, T0 + S);
	assert_held(&p, 5, T0 + S, 5);
	assert_int_equal(p.s.permille, 0);
	follow(&p, 1, 100, 1000, 5, T0 + S);
	assert_free(&p, 5, T0 + 9 * S, 0);
	follow(&p, 2, 100, 1000, 5, T0 + 9 * S);
	assert_free(&p, 5, T0 + 9 * S, 0);
	assert_free(&p, 5, T0 + 10 * S, 95);
	lg_sublimit_fini(&p.s);
}

TEST(a_window_lends_its_limit_at_once_and_again_when_its_time_and_two_thousandths_are_over)
{
	struct part p = part_told(window(), 300, 0);

	assert_free(&p, 100, T0, 200);
	lg_sublimit_book(&p.s, 300, T0, T0);
	assert_free(&p, 0, T0 + 1 * S + 2 * MS, 0);
	assert_free(&p, 0, T0 + 1 * S + 5 * MS, 300);
	lg_sublimit_fini(&p.s);
}

TEST(of_a_smaller_window_what_is_still_in_it_is_held)
{
	struct part p = part_told(window(), 300, 0);
	struct lg_ask ask;

	lg_sublimit_book(&p.s, 200, T0, T0);
	assert_true(follow(&p, 2, 50, 0, 60, T0));
	lg_sublimit_tell(&p.s, &ask, 60, T0);
	assert_int_equal(ask.kind, LG_LEASE_LIMIT);
	assert_int_equal(ask.limit_version, 2);
	assert_int_equal(ask.held_tok, 260);
	assert_int_equal(ask.held_permille, 0);
	assert_held(&p, 60, T0 + 1 * S + 5 * MS, 60);
	assert_held(&p, 0, T0 + 1 * S + 5 * MS, 50);
	lg_sublimit_fini(&p.s);
}

TEST(a_fixed_window_is_run_as_a_sliding_one)
{
	struct lg_terms t = window();
	struct part p;

	t.algorithm = LG_FIXED_WINDOW;
	p = part_told(t, 300, 0);
	lg_sublimit_book(&p.s, 300, T0 + 900 * MS, T0 + 900 * MS);
	assert_free(&p, 0, T0 + 1800 * MS, 0);
	assert_free(&p, 0, T0 + 1910 * MS, 300);
	lg_sublimit_fini(&p.s);
}

TEST(what_a_void_lease_consumed_goes_to_history)
{
	struct part p = part_of(window());
	struct lg_slots history;

	assert_int_equal(lg_slots_init(&history, p.t.per_ns, p.t.slot_ns, 64), 0);
	follow(&p, 7, 300, 0, 0, T0);
	lg_sublimit_book(&p.s, 120, T0, T0);
	lg_sublimit_void(&p.s, &p.t, &history, T0 + 500 * MS);
	assert_int_equal(lg_slots_sum(&history, T0 + 500 * MS), 120);
	assert_held(&p, 0, T0 + 500 * MS, 0);
	assert_false(follow(&p, 1, 10, 0, 0, T0 + 500 * MS));
	assert_free(&p, 0, T0 + 500 * MS, 10);
	lg_sublimit_fini(&p.s);
	lg_slots_fini(&history);
}

TEST(a_rate_of_five_a_month_is_not_rounded_away)
{
	struct part p = part_told(terms_of(LG_TOKEN_BUCKET, 5, LG_PER_MAX_NS, 5), 5, 1000);

	assert_free(&p, 0, T0 + LG_PER_MAX_NS, 4);
	assert_free(&p, 0, T0 + LG_PER_MAX_NS + LG_PER_MAX_NS / 200, 5);
	lg_sublimit_fini(&p.s);
}

TEST(another_rate_keeps_what_is_consumed)
{
	struct part p = part_told(bucket(), 100, 500);

	p.t.limit_tok = 10000;
	lg_sublimit_terms(&p.s, &(struct lg_terms){ .budget_tok = p.t.budget_tok }, &p.t, 0, T0);
	assert_free(&p, 0, T0, 0);
	assert_free(&p, 0, T0 + 10 * MS, 49);
	lg_sublimit_fini(&p.s);
}

/* To a budget. */
static void become(struct part *p, uint64_t budget_tok, uint64_t out_tok, uint64_t now_ns)
{
	struct lg_terms old = p->t;

	p->t.budget_tok = budget_tok;
	p->t.limit_tok = lg_mul_div(old.limit_tok, budget_tok, old.budget_tok);
	lg_sublimit_terms(&p->s, &old, &p->t, out_tok, now_ns);
}

TEST(of_a_window_that_is_cut_everybody_has_his_part_of_the_new_one_at_once)
{
	struct part p = part_told(window(), 300, 0);

	become(&p, 500, 0, T0);
	assert_held(&p, 0, T0, 150);
	assert_free(&p, 0, T0, 150);
	/* The home says the same, as long as it has not cut it further. */
	assert_false(follow(&p, 2, 150, 0, 0, T0));
	assert_free(&p, 100, T0, 50);
	lg_sublimit_fini(&p.s);
}

TEST(what_hosts_have_of_a_window_that_is_cut_is_still_held)
{
	struct part p = part_told(window(), 300, 0);

	become(&p, 500, 200, T0);
	assert_held(&p, 200, T0, 200);
	assert_free(&p, 200, T0, 0);
	assert_free(&p, 149, T0, 1);
	lg_sublimit_fini(&p.s);
}

TEST(of_a_burst_that_is_cut_everybody_has_his_part_of_the_new_one_at_once)
{
	struct part p = part_told(bucket(), 50, 500);

	assert_free(&p, 0, T0 + 200 * MS, 50);
	become(&p, 50, 0, T0 + 200 * MS);
	assert_held(&p, 0, T0 + 200 * MS, 25);
	assert_free(&p, 0, T0 + 200 * MS, 25);
	lg_sublimit_book(&p.s, 25, T0 + 200 * MS, T0 + 200 * MS);
	assert_free(&p, 0, T0 + 240 * MS, 9);
	lg_sublimit_fini(&p.s);
}

TEST(of_a_limit_that_is_raised_nobody_has_more_before_the_home_says_so)
{
	struct part p = part_told(window(), 300, 0);

	become(&p, 2000, 0, T0);
	assert_free(&p, 0, T0, 300);
	become(&p, 1000, 0, T0);
	assert_free(&p, 0, T0, 150);
	lg_sublimit_fini(&p.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(burst_comes_empty_and_is_minted_at_the_rate_told),
		cmocka_unit_test(what_is_out_and_what_was_spent_is_not_lent_again),
		cmocka_unit_test(burst_given_back_takes_as_much_off_what_is_consumed_and_no_more),
		cmocka_unit_test(burst_that_hosts_have_is_held_until_they_spend_or_return_it),
		cmocka_unit_test(a_burst_that_grows_again_before_it_was_given_back_grows_only_by_the_rest),
		cmocka_unit_test(an_older_or_repeated_version_changes_nothing),
		cmocka_unit_test(what_is_given_back_unasked_comes_back_only_with_a_newer_version),
		cmocka_unit_test(a_window_lends_its_limit_at_once_and_again_when_its_time_and_two_thousandths_are_over),
		cmocka_unit_test(of_a_smaller_window_what_is_still_in_it_is_held),
		cmocka_unit_test(a_fixed_window_is_run_as_a_sliding_one),
		cmocka_unit_test(what_a_void_lease_consumed_goes_to_history),
		cmocka_unit_test(a_rate_of_five_a_month_is_not_rounded_away),
		cmocka_unit_test(another_rate_keeps_what_is_consumed),
		cmocka_unit_test(of_a_window_that_is_cut_everybody_has_his_part_of_the_new_one_at_once),
		cmocka_unit_test(what_hosts_have_of_a_window_that_is_cut_is_still_held),
		cmocka_unit_test(of_a_burst_that_is_cut_everybody_has_his_part_of_the_new_one_at_once),
		cmocka_unit_test(of_a_limit_that_is_raised_nobody_has_more_before_the_home_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
