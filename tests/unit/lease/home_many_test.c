// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/home.h"

#include "tests/unit/lease/home_script.h"

struct notes {
	struct grants out;
	size_t n;
	struct lg_note v[16];
};

static void keep_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	note_grant(&((struct notes *)arg)->out, holder, grant);
}

static void keep_note(void *arg, const struct lg_note *note)
{
	struct notes *n = arg;

	assert_true(n->n < 16);
	n->v[n->n++] = *note;
}

TEST(each_change_of_the_books_is_noted)
{
	static const struct lg_note expected[] = {
		{ LG_NOTE_GRANT, 7, 1, 1, 40, 40, 0, LG_GRANT_OK },	  { LG_NOTE_REPORT, 7, 1, 1, 25, 10, 25, LG_GRANT_OK },
		{ LG_NOTE_RETURN, 7, 1, 1, 5, 10, 25, LG_GRANT_OK },	  { LG_NOTE_LAPSE, 7, 1, 1, 10, 0, 0, LG_GRANT_OK },
		{ LG_NOTE_GRANT, 7, 1, 2, 3, 3, 0, LG_GRANT_OK },	  { LG_NOTE_LAPSE, 7, 1, 2, 3, 0, 0, LG_GRANT_OK },
		{ LG_NOTE_REFUSE, LG_HOLDERS_MAX, 1, 0, 0, 0, 0, LG_GRANT_OVERLOADED },
	};
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, 3600 * S, 100);
	struct lg_ask ask = request_of(1, 40), report = report_of(2, 1, 40, 25, 5), again = request_of(3, 3), reborn = request_of(4, 0);
	struct notes notes = { 0 };
	struct lg_home_effects fx = { .arg = &notes, .grant = keep_grant, .note = keep_note };
	struct script s;

	begin(&s, &t, NULL);
	lg_home_ask(s.home, 7, 1, &ask, T0, &fx);
	lg_home_ask(s.home, 7, 1, &ask, T0, &fx);	/* repeated: nothing new */
	lg_home_ask(s.home, 7, 1, &report, T0 + S, &fx);
	lg_home_tick(s.home, T0 + 12 * S, &fx);
	lg_home_ask(s.home, 7, 1, &again, T0 + 13 * S, &fx);
	lg_home_ask(s.home, 7, 2, &reborn, T0 + 14 * S, &fx);
	lg_home_ask(s.home, LG_HOLDERS_MAX, 1, &ask, T0 + 14 * S, &fx);
	assert_int_equal(notes.n, sizeof(expected) / sizeof(expected[0]));
	for (size_t i = 0; i < notes.n; i++) {
		assert_int_equal(notes.v[i].kind, expected[i].kind);
		assert_int_equal(notes.v[i].holder, expected[i].holder);
		assert_int_equal(notes.v[i].epoch, expected[i].epoch);
		assert_int_equal(notes.v[i].generation, expected[i].generation);
		assert_int_equal(notes.v[i].tok, expected[i].tok);
		assert_int_equal(notes.v[i].outstanding_tok, expected[i].outstanding_tok);
		assert_int_equal(notes.v[i].spent_tok, expected[i].spent_tok);
		assert_int_equal(notes.v[i].status, expected[i].status);
	}
	end(&s);
}

/* ---- many holders, small limits, cuts ---- */

static void count_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	uint32_t *n = arg;

	(void)grant;
	n[holder]++;
}

TEST(a_thousand_who_wait_are_told_bit_by_bit_and_in_turn)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 100000, S, 100000);
	static uint32_t told[1001];
	struct lg_home_effects fx = { .arg = told, .grant = count_grant };
	struct lg_ask hog = request_of(1, 100000), ask = request_of(1, 90), report = report_of(2, 1, 100000, 100000, 0);
	uint32_t sum = 0, in_100_ms;
	struct script s;

	begin(&s, &t, NULL);
	lg_home_ask(s.home, 1000, 1, &hog, T0, &fx);
	for (uint32_t i = 0; i < 1000; i++)
		lg_home_ask(s.home, i, 1, &ask, T0, &fx);
	lg_home_ask(s.home, 1000, 1, &report, T0, &fx);
	memset(told, 0, sizeof(told));
	/* all are given theirs within a second; the messages take five */
	for (uint64_t ms = 100; ms <= 6000; ms += 100) {
		uint64_t due_ns = lg_home_tick(s.home, T0 + ms * MS, &fx);

		in_100_ms = 0;
		for (uint32_t i = 0; i < 1000; i++) {
			assert_true(told[i] <= 1 + ms / 4900);	/* nobody a second time before everybody was once */
			in_100_ms += told[i];
		}
		in_100_ms -= sum;
		sum += in_100_ms;
		assert_true(in_100_ms <= 25);
		if (sum < 1000)
			assert_int_equal(due_ns, T0 + (ms + 100) * MS);
	}
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(told[i] >= 1);
	assert_int_equal(look(&s, 6000).outstanding_tok, 90000);
	end(&s);
}

TEST(up_to_sixty_four_who_wait_are_told_at_once)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1000, S, 1000);
	struct lg_ask hog = request_of(1, 1000), ask = request_of(1, 10), report = report_of(2, 1, 1000, 1000, 0);
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 63, &hog, 0);
	for (uint32_t i = 0; i < 63; i++)
		tell(&s, i, &ask, 0);
	tell(&s, 63, &report, 0);
	tick(&s, 1000);
	assert_int_equal(s.out.n, 63);
	end(&s);
}

TEST(a_small_limit_goes_whole_to_who_asks_for_most_until_another_asks_for_twice_as_much)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, S, 10);
	struct lg_ask a = request_of(1, 10), b = request_of(1, 10);
	struct script s;

	t.owner = true;
	begin(&s, &t, NULL);
	a.demand_mtps = 1000;
	b.demand_mtps = 1500;
	assert_int_equal(tell(&s, 0, &a, 0)->granted_tok, 10);
	tell(&s, 1, &b, 0);
	a = wanting(report_of(2, 1, 10, 10, 0), 10, 1000);
	tell(&s, 0, &a, 0);
	/* what is minted goes to the one that asks for most */
	tick(&s, 4000);
	assert_int_equal(last_grant(&s.out, 1)->granted_tok, 4);
	assert_int_equal(s.out.n, 1);
	/* now the other asks for more, but not for twice as much */
	a.seq = 3;
	a.demand_mtps = 2999;
	tell(&s, 0, &a, 5000);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 10);
	tick(&s, 6000);
	assert_int_equal(last_grant(&s.out, 1)->granted_tok, 6);
	a.seq = 4;
	a.demand_mtps = 3000;
	assert_int_equal(tell(&s, 0, &a, 8000)->granted_tok, 12);
	/* the owner has all it wants: the next gets the rest */
	a = wanting(report_of(5, 1, 12, 10, 0), 2, 3000);
	tell(&s, 0, &a, 8000);
	tick(&s, 9000);
	assert_int_equal(last_grant(&s.out, 1)->granted_tok, 7);
	end(&s);
}

TEST(a_cut_limit_tells_each_holder_at_once_how_much_it_may_keep)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, 3600 * S, 100), less = t, more = t;
	struct lg_ask a = request_of(1, 60), b = request_of(1, 20), idle = request_of(1, 0);
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 0, &a, 0);
	tell(&s, 1, &b, 0);
	tell(&s, 2, &idle, 0);
	less.budget_tok = less.max_outstanding_tok = 50;
	change(&s, &less, 1000);
	assert_int_equal(s.out.n, 2);
	assert_int_equal(last_grant(&s.out, 0)->cap_tok, 30);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 60);
	assert_int_equal(last_grant(&s.out, 1)->cap_tok, 10);
	/* they obey */
	a = report_of(2, 1, 60, 0, 30);
	b = report_of(2, 1, 20, 5, 5);
	tell(&s, 0, &a, 1100);
	assert_int_equal(tell(&s, 1, &b, 1100)->cap_tok, 50);
	assert_int_equal(look(&s, 1100).outstanding_tok, 40);
	assert_int_equal(look(&s, 1100).consumed_tok, 5);
	assert_int_equal(look(&s, 1100).pool_tok, 5);
	/* more is no reason to say anything; what was spent stays spent */
	change(&s, &more, 1200);
	assert_int_equal(s.out.n, 0);
	assert_int_equal(look(&s, 1200).pool_tok, 55);
	less.budget_tok = less.max_outstanding_tok = 4;
	change(&s, &less, 1200);
	assert_int_equal(look(&s, 1200).pool_tok, 0);
	assert_int_equal(look(&s, 1200).consumed_tok, 5);
	end(&s);
}

TEST(a_key_takes_a_cache_line_and_a_half_and_one_for_each_holder)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	begin(&s, &t, NULL);
	assert_int_equal(lg_home_bytes(s.home), 96);
	for (uint64_t seq = 1; seq < 50; seq++) {
		ask = wanting(report_of(seq, seq > 1, 40 * (seq - 1), 40 * (seq - 1), 0), 40, 0);
		assert_int_equal(tell(&s, 0, &ask, 1000 * seq)->granted_tok, 40 * seq);
		assert_int_equal(lg_home_bytes(s.home), 160);
	}
	for (uint32_t i = 1; i < 5; i++) {
		ask = request_of(1, 40);
		tell(&s, i, &ask, 50000);
		assert_int_equal(lg_home_bytes(s.home), 160 + 64 * i);
	}
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_change_of_the_books_is_noted),
		cmocka_unit_test(a_thousand_who_wait_are_told_bit_by_bit_and_in_turn),
		cmocka_unit_test(up_to_sixty_four_who_wait_are_told_at_once),
		cmocka_unit_test(a_small_limit_goes_whole_to_who_asks_for_most_until_another_asks_for_twice_as_much),
		cmocka_unit_test(a_cut_limit_tells_each_holder_at_once_how_much_it_may_keep),
		cmocka_unit_test(a_key_takes_a_cache_line_and_a_half_and_one_for_each_holder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
