// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/home.h"

#include "tests/unit/lease/home_script.h"

/* Windows of ten seconds, one of which ends at T0 + 4 s. */
static void fixed(struct script *s, uint64_t limit_tok, const struct lg_succession *succession)
{
	*s = (struct script){ .terms = terms_of(LG_FIXED_WINDOW, limit_tok, 10 * S, limit_tok) };
	s->fx = (struct lg_home_effects){ .arg = &s->out, .grant = note_grant };
	s->lessor = lessor_of(&s->terms, 1);
	s->lessor.origin_ns = T0 + 4 * S;
	s->lessor.succession = succession;
	assert_int_equal(lg_home_new(&s->lessor, T0, &s->home), 0);
}

TEST(a_fixed_window_lends_its_limit_once_and_what_comes_back_again)
{
	struct lg_ask ask = request_of(1, 100), report = report_of(2, 1, 100, 60, 30), other = request_of(1, 100);
	struct script s;

	fixed(&s, 100, NULL);
	assert_int_equal(look(&s, 0).window_end_ns, T0 + 4 * S);
	assert_int_equal(tell(&s, 0, &ask, 0)->granted_tok, 100);
	tell(&s, 0, &report, 1000);
	assert_int_equal(look(&s, 1000).consumed_tok, 60);
	assert_int_equal(look(&s, 1000).outstanding_tok, 10);
	assert_int_equal(tell(&s, 1, &other, 1000)->granted_tok, 30);
	tick(&s, 3999);
	assert_int_equal(s.out.n, 0);
	end(&s);
}

TEST(a_fixed_window_begins_empty_with_new_generations_and_serves_who_waits)
{
	struct lg_ask ask = request_of(1, 100), other = request_of(1, 40), late = report_of(2, 1, 100, 100, 0);
	struct lg_holder_view v;
	struct script s;

	fixed(&s, 100, NULL);
	tell(&s, 0, &ask, 0);
	tell(&s, 1, &other, 100);
	tick(&s, 3999);
	assert_int_equal(s.out.n, 0);
	tick(&s, 4000);
	assert_int_equal(last_grant(&s.out, 1)->granted_tok, 40);
	assert_int_equal(last_grant(&s.out, 1)->generation, 1);		/* it was granted nothing in the old one */
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 60);
	assert_int_equal(last_grant(&s.out, 0)->generation, 2);
	assert_int_equal(look(&s, 4000).consumed_tok, 0);
	assert_int_equal(look(&s, 4000).outstanding_tok, 100);
	assert_int_equal(look(&s, 4000).window_end_ns, T0 + 14 * S);
	/* what was spent in the old window counted there */
	tell(&s, 0, &late, 4500);
	assert_int_equal(look(&s, 4500).consumed_tok, 0);
	assert_int_equal(lg_home_holder(s.home, 0, &v), 0);
	assert_int_equal(v.granted_tok, 60);
	/* windows that nobody looked at pass all the same */
	tick(&s, 44000);
	assert_int_equal(look(&s, 44000).window_end_ns, T0 + 54 * S);
	assert_int_equal(look(&s, 44000).outstanding_tok, 0);
	end(&s);
}

TEST(no_lease_runs_beyond_its_fixed_window)
{
	static const struct { uint64_t at_ms, ttl_ms; } rows[] = { { 0, 3992 }, { 3000, 998 }, { 3999, 0 }, { 4000, 9980 }, { 5000, 8982 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ask ask = request_of(1, 10);
		struct script s;

		fixed(&s, 100, NULL);
		assert_int_equal(tell(&s, 0, &ask, rows[i].at_ms)->ttl_ms, rows[i].ttl_ms);
		end(&s);
	}
}

TEST(a_home_of_a_fixed_window_wants_to_be_called_when_the_next_begins)
{
	struct lg_ask ask = request_of(1, 10);
	struct script s;

	fixed(&s, 100, NULL);
	tell(&s, 0, &ask, 0);
	assert_int_equal(lg_home_tick(s.home, T0, &s.fx), T0 + 4 * S);
	end(&s);
}

TEST(a_successor_in_a_fixed_window_lends_when_all_have_told_what_they_spent_in_it)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_ask a = report_of(50, 3, 500, 420, 0), b = report_of(60, 1, 0, 0, 0);
	struct script s;

	fixed(&s, 1000, heir);
	a.n_history = 2;
	a.history[0] = (struct lg_slot){ .id = 1, .age_ms = 6100, .tok = 300 };	/* at the moment the window began: not in it */
	a.history[1] = (struct lg_slot){ .id = 2, .age_ms = 6099, .tok = 120 };
	assert_int_equal(tell(&s, 0, &a, 100)->status, LG_GRANT_RECOVERING);
	assert_int_equal(look(&s, 100).pool_tok, 0);
	b.request = true;
	b.want_tok = 1000;
	assert_int_equal(tell(&s, 1, &b, 200)->granted_tok, 800);
	assert_int_equal(look(&s, 200).consumed_tok, 120);
	assert_int_equal(look(&s, 200).outstanding_tok, 880);
	end(&s);
}

TEST(a_successor_in_a_fixed_window_waits_for_the_next_one_at_most)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_ask ask = request_of(1, 1000);
	struct script s;

	fixed(&s, 1000, heir);
	assert_int_equal(tell(&s, 0, &ask, 0)->granted_tok, 0);
	tick(&s, 3999);
	assert_int_equal(look(&s, 3999).pool_tok, 0);
	tick(&s, 4000);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 1000);
	assert_int_equal(last_grant(&s.out, 0)->status, LG_GRANT_OK);
	end(&s);
}

TEST(fixed_windows_of_another_length_begin_when_no_old_lease_can_be_out)
{
	struct lg_terms t;
	struct lg_ask ask = request_of(1, 60);
	struct script s;

	fixed(&s, 100, NULL);
	t = s.terms;
	t.per_ns = 1 * S;
	tell(&s, 0, &ask, 0);
	change(&s, &t, 500);
	for (uint64_t ms = 500; ms < 12000; ms += 100) {
		tick(&s, ms);
		assert_int_equal(look(&s, ms).pool_tok, 0);
	}
	tick(&s, 12000);	/* ttl and grace after the change, and then the next */
	assert_int_equal(look(&s, 12000).pool_tok, 100 - look(&s, 12000).outstanding_tok);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fixed_window_lends_its_limit_once_and_what_comes_back_again),
		cmocka_unit_test(a_fixed_window_begins_empty_with_new_generations_and_serves_who_waits),
		cmocka_unit_test(no_lease_runs_beyond_its_fixed_window),
		cmocka_unit_test(a_home_of_a_fixed_window_wants_to_be_called_when_the_next_begins),
		cmocka_unit_test(a_successor_in_a_fixed_window_lends_when_all_have_told_what_they_spent_in_it),
		cmocka_unit_test(a_successor_in_a_fixed_window_waits_for_the_next_one_at_most),
		cmocka_unit_test(fixed_windows_of_another_length_begin_when_no_old_lease_can_be_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
