// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A home that lends only what is durable, and the next life of it. */
#include "lease/home.h"

#include "lease/age.h"
#include "tests/unit/lease/home_script.h"

static uint32_t n_due;

static void count_due(void *arg)
{
	(void)arg;
	n_due++;
}

static struct lg_terms reserving(enum lg_algorithm algorithm, uint64_t limit_tok, uint64_t per_ns, uint64_t budget_tok)
{
	struct lg_terms t = terms_of(algorithm, limit_tok, per_ns, budget_tok);

	t.reserves = true;
	t.escrow_period_ns = 1 * S;
	t.cost_tok = 1;
	return t;
}

/* A life after one that left this mark at T0 (NULL: none, though it marked all it lent), whose n_heirs have to tell. */
static void begin_after(struct script *s, const struct lg_terms *t, const struct lg_succession *heir, const struct lg_escrow_mark *mark)
{
	struct lg_home_past past = { .since_ns = mark ? T0 : 0, .mark = mark };

	*s = (struct script){ .terms = *t };
	s->fx = (struct lg_home_effects){ .arg = &s->out, .grant = note_grant, .reserve = count_due };
	s->lessor = lessor_of(&s->terms, 1);
	s->lessor.succession = heir;
	s->lessor.reserves = true;
	s->lessor.origin_ns = 4 * S;	/* fixed windows of ten seconds end at T0 + 4 s */
	assert_int_equal(lg_home_new_after(&s->lessor, &past, T0, &s->home), 0);
	n_due = 0;
}

static struct lg_escrow_mark mark_at(struct script *s, bool last, uint64_t at_ms)
{
	struct lg_escrow_mark mark;

	assert_true(lg_home_mark(s->home, last, T0 + at_ms * MS, &mark));
	return mark;
}

static void answered(struct script *s, bool is_durable, uint64_t at_ms)
{
	s->out.n = 0;
	lg_home_marked(s->home, is_durable, T0 + at_ms * MS, &s->fx);
}

TEST(a_key_is_lent_when_its_mark_is_durable_and_no_more_than_that)
{
	struct lg_terms t = reserving(LG_TOKEN_BUCKET, 100, S, 1000);
	struct lg_ask ask = request_of(1, 100), more = wanting(report_of(2, 1, 100, 0, 0), 1000, 0);
	struct script s;

	begin_after(&s, &t, NULL, NULL);
	assert_true(lg_home_reserves(s.home));
	assert_int_equal(tell(&s, 0, &ask, 0)->granted_tok, 0);
	assert_int_equal(n_due, 1);
	assert_int_equal(mark_at(&s, false, 0).out_tok, 200);
	assert_int_equal(look(&s, 0).pool_tok, 0);
	answered(&s, true, 5);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 100);
	assert_int_equal(look(&s, 5).pool_tok, 100);
	assert_int_equal(look(&s, 5).reserved_tok, 100);
	assert_int_equal(tell(&s, 0, &more, 10)->granted_tok, 200);
	assert_int_equal(n_due, 2);
	end(&s);
}

TEST(what_is_durable_is_lent_while_the_store_takes_no_more)
{
	struct lg_terms t = reserving(LG_TOKEN_BUCKET, 100, S, 1000);
	struct lg_ask ask = request_of(1, 100), more = wanting(report_of(2, 1, 100, 0, 0), 1000, 0);
	struct lg_escrow_mark mark;
	struct script s;

	begin_after(&s, &t, NULL, NULL);
	tell(&s, 0, &ask, 0);
	mark_at(&s, false, 0);
	answered(&s, true, 5);
	tell(&s, 0, &more, 10);
	for (uint64_t ms = 10; ms < 1000; ms += 100) {
		mark_at(&s, false, ms);
		assert_false(lg_home_mark(s.home, false, T0 + ms * MS, &mark));	/* one at a time */
		answered(&s, false, ms);
		n_due = 0;
		tick(&s, ms + 50);
		assert_int_equal(n_due, 1);	/* and again, until it is there */
		assert_int_equal(look(&s, ms + 50).outstanding_tok, 200);
	}
	mark_at(&s, false, 1000);
	answered(&s, true, 1000);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 1000);
	end(&s);
}

TEST(a_successor_lends_at_once_what_was_not_out_by_the_mark)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = reserving(LG_TOKEN_BUCKET, 100, S, 10000);
	struct lg_escrow_mark mark = { .consumed_tok = 3000, .out_tok = 1500, .per_ns = S };
	struct lg_ask ask = request_of(1, 8000), old = wanting(report_of(9, 4, 800, 100, 0), 0, 0);
	struct script s;

	t.max_outstanding_tok = 4000;
	begin_after(&s, &t, heir, &mark);
	assert_int_equal(look(&s, 0).consumed_tok, 3000);
	assert_int_equal(look(&s, 0).unknown_tok, 1500);
	tell(&s, 0, &ask, 0);
	mark_at(&s, false, 0);
	answered(&s, true, 0);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 4000);
	/* what is told moves from unknown to out, and the rest was spent when all have told */
	tell(&s, 1, &old, 1000);
	assert_int_equal(look(&s, 1000).unknown_tok, 0);
	assert_int_equal(look(&s, 1000).outstanding_tok, 4700);
	assert_int_equal(look(&s, 1000).consumed_tok, 2900 + 800);
	end(&s);
}

TEST(without_a_mark_a_successor_of_one_that_marked_all_lends_all)
{
	static const enum lg_algorithm algorithms[] = { LG_TOKEN_BUCKET, LG_SLIDING_WINDOW, LG_FIXED_WINDOW };

	for (size_t i = 0; i < 3; i++) {
		_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
		struct lg_terms t = reserving(algorithms[i], 1000, 10 * S, 1000);
		struct lg_ask ask = request_of(1, 1000);
		struct script s;

		begin_after(&s, &t, heir, NULL);
		tell(&s, 0, &ask, 0);
		mark_at(&s, false, 0);
		answered(&s, true, 0);
		assert_int_equal(last_grant(&s.out, 0)->granted_tok, 1000);
		assert_int_equal(last_grant(&s.out, 0)->status, LG_GRANT_OK);
		end(&s);
	}
}

TEST(a_successor_lends_of_a_fixed_window_what_was_not_reserved)
{
	/* 430 were lent of blocks of 50; 70 are reserved for the next window */
	static const struct { uint64_t window_end_ms, lent_tok; } rows[] = {
		{ 4000, 550 }, { 4001, 550 }, { 14000, 550 }, { 3999, 1000 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
		struct lg_terms t = reserving(LG_FIXED_WINDOW, 1000, 10 * S, 1000);
		struct lg_escrow_mark mark = { .consumed_tok = 200, .out_tok = 250, .next_tok = 70, .per_ns = 10 * S,
					       .window_end_ns = T0 + rows[i].window_end_ms * MS };
		struct lg_ask ask = request_of(1, 1000);
		struct script s;

		begin_after(&s, &t, heir, &mark);
		tell(&s, 0, &ask, 0);
		mark_at(&s, false, 0);
		answered(&s, true, 0);
		assert_int_equal(last_grant(&s.out, 0)->granted_tok, rows[i].lent_tok);
		assert_int_equal(look(&s, 3999).outstanding_tok, rows[i].lent_tok);
		end(&s);
	}
}

TEST(a_successor_in_the_next_fixed_window_lends_what_was_not_reserved_for_it)
{
	static const struct { uint64_t window_end_s, lent_tok; } rows[] = { { 994, 930 }, { 984, 1000 } };

	for (size_t i = 0; i < 2; i++) {
		_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
		struct lg_terms t = reserving(LG_FIXED_WINDOW, 1000, 10 * S, 1000);
		struct lg_escrow_mark mark = { .consumed_tok = 200, .out_tok = 250, .next_tok = 70, .per_ns = 10 * S,
					       .window_end_ns = rows[i].window_end_s * S };
		struct lg_ask ask = request_of(1, 1000);
		struct script s;

		begin_after(&s, &t, heir, &mark);
		tell(&s, 0, &ask, 0);
		mark_at(&s, false, 0);
		answered(&s, true, 0);
		assert_int_equal(last_grant(&s.out, 0)->granted_tok, rows[i].lent_tok);
		end(&s);
	}
}

TEST(of_a_sliding_window_what_was_consumed_leaves_it_after_its_length_and_what_was_out_later)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = reserving(LG_SLIDING_WINDOW, 1000, 10 * S, 1000);
	struct lg_escrow_mark mark = { .consumed_tok = 600, .out_tok = 150, .per_ns = 10 * S };
	struct lg_ask ask = request_of(1, 1000);
	struct script s;

	begin_after(&s, &t, heir, &mark);
	tell(&s, 0, &ask, 0);
	mark_at(&s, false, 0);
	answered(&s, true, 0);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 250);
	/* what is lent in this life adds up until all is known, whatever comes back */
	ask = wanting(report_of(2, 1, 250, 0, 250), 0, 0);
	tell(&s, 0, &ask, 1000);
	assert_int_equal(look(&s, 1000).pool_tok, 0);
	assert_int_equal(look(&s, 9999).pool_tok, 0);
	assert_int_equal(look(&s, 10000).unknown_tok, 400);
	/* ttl and grace, and then a window */
	assert_int_equal(look(&s, 20999).unknown_tok, 400);
	assert_int_equal(look(&s, 21000).unknown_tok, 0);
	end(&s);
}

TEST(what_holders_tell_of_a_window_makes_nothing_free_before_all_have_told)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = reserving(LG_SLIDING_WINDOW, 1000, 10 * S, 1000);
	struct lg_escrow_mark mark = { .consumed_tok = 600, .out_tok = 150, .per_ns = 10 * S };
	struct lg_ask a = wanting(report_of(9, 4, 50, 0, 0), 0, 0), b = wanting(report_of(9, 4, 0, 0, 0), 0, 0);
	struct script s;

	begin_after(&s, &t, heir, &mark);
	a.n_history = 1;
	a.history[0] = (struct lg_slot){ .id = 1, .age_ms = 9000, .tok = 300 };
	tell(&s, 0, &a, 0);
	assert_int_equal(look(&s, 0).unknown_tok, 400);
	assert_int_equal(look(&s, 2000).unknown_tok, 700);	/* its slot has left the window; others may have spent as much */
	tell(&s, 1, &b, 2000);
	assert_int_equal(look(&s, 2000).unknown_tok, 0);
	assert_int_equal(look(&s, 2000).outstanding_tok, 50);
	end(&s);
}

TEST(of_windows_of_another_length_a_mark_says_nothing)
{
	static const enum lg_algorithm algorithms[] = { LG_SLIDING_WINDOW, LG_FIXED_WINDOW };

	for (size_t i = 0; i < 2; i++) {
		_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
		struct lg_terms t = reserving(algorithms[i], 1000, 10 * S, 1000);
		struct lg_escrow_mark mark = { .consumed_tok = 0, .out_tok = 1, .per_ns = 9 * S, .window_end_ns = T0 + 4 * S };
		struct script s;

		begin_after(&s, &t, heir, &mark);
		assert_int_equal(look(&s, 0).unknown_tok, 1000);
		assert_int_equal(look(&s, 0).pool_tok, 0);
		end(&s);
	}
}

TEST(the_last_mark_says_what_is_out_and_nothing_more)
{
	struct lg_terms t = reserving(LG_TOKEN_BUCKET, 100, S, 1000);
	struct lg_ask ask = request_of(1, 300), report = wanting(report_of(2, 1, 300, 120, 0), 0, 0);
	struct lg_escrow_mark last;
	struct script s;

	begin_after(&s, &t, NULL, NULL);
	tell(&s, 0, &ask, 0);
	assert_int_equal(mark_at(&s, false, 0).out_tok, 600);
	answered(&s, true, 0);
	tell(&s, 0, &report, 0);
	last = mark_at(&s, true, 0);
	assert_int_equal(last.consumed_tok, 120);
	assert_int_equal(last.out_tok, 180);
	assert_int_equal(look(&s, 0).pool_tok, 0);	/* whatever becomes of it */
	answered(&s, false, 0);
	assert_int_equal(look(&s, 0).pool_tok, 0);
	end(&s);
}

TEST(a_rule_that_becomes_strict_reserves_from_then_on)
{
	struct lg_terms t = reserving(LG_TOKEN_BUCKET, 100, S, 1000);
	struct lg_ask ask = request_of(1, 300), more = wanting(report_of(2, 1, 300, 0, 0), 400, 0);
	struct lg_escrow_mark mark;
	struct script s;

	begin_after(&s, &t, NULL, NULL);
	lg_home_free(s.home);
	s.lessor.reserves = false;
	assert_int_equal(lg_home_new(&s.lessor, T0, &s.home), 0);
	assert_false(lg_home_reserves(s.home));
	assert_int_equal(tell(&s, 0, &ask, 0)->granted_tok, 300);
	change(&s, &t, 0);
	assert_true(lg_home_reserves(s.home));
	assert_int_equal(tell(&s, 0, &more, 0)->granted_tok, 300);
	mark = mark_at(&s, false, 0);
	assert_true(mark.out_tok >= 400);
	answered(&s, true, 0);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 400);
	end(&s);
}

TEST(parts_of_a_limit_are_lent_without_by_who_never_reserved)
{
	struct lg_terms t = reserving(LG_TOKEN_BUCKET, 100, S, 1000);
	struct lg_escrow_mark mark;
	struct script s;

	t.kind = LG_LEASE_LIMIT;
	begin_after(&s, &t, NULL, NULL);
	assert_true(lg_home_reserves(s.home));	/* a successor would not know of parts */
	lg_home_free(s.home);
	s.lessor.reserves = false;
	assert_int_equal(lg_home_new(&s.lessor, T0, &s.home), 0);
	assert_false(lg_home_reserves(s.home));
	assert_false(lg_home_mark(s.home, false, T0, &mark));
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_lent_when_its_mark_is_durable_and_no_more_than_that),
		cmocka_unit_test(what_is_durable_is_lent_while_the_store_takes_no_more),
		cmocka_unit_test(a_successor_lends_at_once_what_was_not_out_by_the_mark),
		cmocka_unit_test(without_a_mark_a_successor_of_one_that_marked_all_lends_all),
		cmocka_unit_test(a_successor_lends_of_a_fixed_window_what_was_not_reserved),
		cmocka_unit_test(a_successor_in_the_next_fixed_window_lends_what_was_not_reserved_for_it),
		cmocka_unit_test(of_a_sliding_window_what_was_consumed_leaves_it_after_its_length_and_what_was_out_later),
		cmocka_unit_test(what_holders_tell_of_a_window_makes_nothing_free_before_all_have_told),
		cmocka_unit_test(of_windows_of_another_length_a_mark_says_nothing),
		cmocka_unit_test(the_last_mark_says_what_is_out_and_nothing_more),
		cmocka_unit_test(a_rule_that_becomes_strict_reserves_from_then_on),
		cmocka_unit_test(parts_of_a_limit_are_lent_without_by_who_never_reserved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
