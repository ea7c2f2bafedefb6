// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/home.h"

#include <errno.h>

#include "lease/age.h"
#include "tests/unit/lease/home_script.h"

/* ten tokens, two a second; A and B have five each */
static void two_holders(struct script *s)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 2, S, 10);
	struct lg_ask ask = request_of(1, 5);

	t.ttl_ns = 1000 * S;
	begin(s, &t, NULL);
	assert_int_equal(tell(s, 0, &ask, 0)->granted_tok, 5);
	assert_int_equal(tell(s, 1, &ask, 0)->granted_tok, 5);
}

TEST(nothing_is_minted_for_what_is_out)
{
	struct lg_ask report = report_of(2, 1, 5, 5, 0);
	struct script s;

	two_holders(&s);
	assert_int_equal(look(&s, 5000).pool_tok, 0);
	assert_int_equal(look(&s, 5000).outstanding_tok, 10);
	tell(&s, 0, &report, 5000);
	assert_int_equal(look(&s, 5000).consumed_tok, 5);
	assert_int_equal(look(&s, 5000).pool_tok, 0);
	assert_int_equal(look(&s, 6000).pool_tok, 2);
	assert_int_equal(look(&s, 7499).pool_tok, 4);
	assert_int_equal(look(&s, 7500).pool_tok, 5);
	assert_int_equal(look(&s, 100000).pool_tok, 5);	/* B's five are out still */
	end(&s);
}

TEST(tokens_told_with_their_age_have_been_refilled_since)
{
	struct lg_ask report = report_of(2, 1, 5, 5, 0);
	struct script s;

	two_holders(&s);
	report.n_slots = 1;
	report.slots[0] = (struct lg_slot){ .id = 1, .age_ms = 4900, .tok = 5 };
	tell(&s, 0, &report, 5000);
	assert_int_equal(look(&s, 5000).consumed_tok, 0);
	assert_int_equal(look(&s, 5000).pool_tok, 5);
	assert_int_equal(look(&s, 5000).outstanding_tok, 5);
	end(&s);
}

TEST(a_window_frees_a_slot_when_its_end_is_a_window_ago)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 100, 10 * S, 100);
	struct lg_ask ask = request_of(1, 100), report = report_of(2, 1, 100, 100, 0);
	struct script s;

	begin(&s, &t, NULL);
	assert_int_equal(tell(&s, 0, &ask, 0)->granted_tok, 100);
	/* spent until 0.05 s, so in the slot that ends at 0.1; told at 5 s, here 75 ms later */
	report.n_slots = 1;
	report.slots[0] = (struct lg_slot){ .id = 1, .age_ms = lg_age_ms(T0 + 100 * MS, T0 + 5000 * MS), .tok = 100 };
	assert_int_equal(report.slots[0].age_ms, 4889);
	report.request = true;
	report.want_tok = 100;
	assert_int_equal(tell(&s, 0, &report, 5075)->granted_tok, 100);
	tick(&s, 10190);
	assert_int_equal(s.out.n, 0);
	tick(&s, 10200);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 200);
	end(&s);
}

TEST(a_grant_that_is_lost_lapses_with_its_lease)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, S, 100);
	struct lg_ask ask = request_of(1, 40), again = request_of(2, 30);
	struct lg_holder_view h;
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 0, &ask, 0);
	assert_int_equal(look(&s, 10999).outstanding_tok, 40);
	tick(&s, 11000);
	assert_int_equal(look(&s, 11000).outstanding_tok, 0);
	assert_int_equal(look(&s, 11000).consumed_tok, 40);
	assert_int_equal(s.lessor.lapsed_tok, 40);
	assert_int_equal(lg_home_holder(s.home, 0, &h), 0);
	assert_int_equal(h.generation, 2);
	assert_int_equal(lg_home_holder(s.home, 1, &h), -ENOENT);
	assert_int_equal(tell(&s, 0, &again, 12000)->generation, 2);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 30);
	end(&s);
}

TEST(what_returns_after_a_lapse_changes_nothing)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, S, 100);
	struct lg_ask ask = request_of(1, 30), late = report_of(2, 1, 30, 0, 30);
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 0, &ask, 0);
	tick(&s, 11000);
	assert_int_equal(look(&s, 11000).consumed_tok, 30);
	assert_int_equal(look(&s, 41000).consumed_tok, 0);
	assert_int_equal(tell(&s, 0, &late, 50000)->generation, 2);
	assert_int_equal(look(&s, 50000).pool_tok, 100);
	assert_int_equal(look(&s, 50000).consumed_tok, 0);
	/* and a late report that it was spent does not charge twice */
	late = report_of(3, 1, 30, 30, 0);
	tell(&s, 0, &late, 50000);
	assert_int_equal(look(&s, 50000).pool_tok, 100);
	end(&s);
}

TEST(a_lease_ends_with_the_last_message_and_not_with_the_last_push)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10, S, 100);
	struct lg_ask ask = request_of(1, 100), more = request_of(1, 10);
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 1, &ask, 0);		/* B has it all, so A waits */
	assert_int_equal(tell(&s, 0, &more, 0)->granted_tok, 0);
	assert_true(last_grant(&s.out, 0)->partial);
	ask = report_of(2, 1, 100, 100, 0);
	tell(&s, 1, &ask, 2000);
	tick(&s, 3000);			/* pushed three seconds after the request */
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 10);
	assert_int_equal(last_grant(&s.out, 0)->ack_seq, 1);
	assert_int_equal(last_grant(&s.out, 0)->ttl_ms, 10000);
	tick(&s, 10999);
	assert_int_equal(look(&s, 10999).outstanding_tok, 10);
	tick(&s, 11000);
	assert_int_equal(look(&s, 11000).outstanding_tok, 0);
	end(&s);
}

TEST(a_repeated_message_gets_the_same_answer_and_an_overtaken_one_changes_nothing)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, 3600 * S, 100);
	struct lg_ask ask = request_of(5, 40), old = report_of(6, 1, 40, 10, 0), report = report_of(7, 1, 40, 25, 5);
	struct lg_grant first;
	struct script s;

	begin(&s, &t, NULL);
	first = *tell(&s, 0, &ask, 0);
	assert_memory_equal(tell(&s, 0, &ask, 10), &first, sizeof(first));
	assert_int_equal(look(&s, 10).outstanding_tok, 40);
	tell(&s, 0, &report, 20);
	assert_int_equal(look(&s, 20).outstanding_tok, 10);
	assert_int_equal(look(&s, 20).consumed_tok, 25);
	first = *last_grant(&s.out, 0);
	assert_memory_equal(tell(&s, 0, &report, 30), &first, sizeof(first));
	assert_memory_equal(tell(&s, 0, &old, 40), &first, sizeof(first));
	assert_int_equal(look(&s, 40).consumed_tok, 25);
	assert_int_equal(look(&s, 40).outstanding_tok, 10);
	end(&s);
}

TEST(messages_of_another_epoch_or_out_of_bounds_are_not_heard)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, S, 100);
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	begin(&s, &t, NULL);
	ask.epoch = 0;
	assert_null(tell(&s, 0, &ask, 0));
	ask.epoch = 2;
	assert_null(tell(&s, 0, &ask, 0));
	ask.epoch = 1;
	ask.n_slots = LG_SLOTS_MAX + 1;
	assert_null(tell(&s, 0, &ask, 0));
	ask.n_slots = 0;
	assert_non_null(tell(&s, 0, &ask, 0));
	ask.seq = 2;
	assert_int_equal(tell(&s, LG_HOLDERS_MAX, &ask, 0)->status, LG_GRANT_OVERLOADED);
	assert_int_equal(last_grant(&s.out, LG_HOLDERS_MAX)->ack_seq, 2);
	assert_int_equal(last_grant(&s.out, LG_HOLDERS_MAX)->granted_tok, 0);
	end(&s);
}

TEST(a_holder_reborn_costs_its_lease)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, 3600 * S, 100);
	struct lg_ask ask = request_of(9, 40), reborn = request_of(1, 10);
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 0, &ask, 0);
	lg_home_ask(s.home, 0, 2, &reborn, T0 + 1000 * MS, &s.fx);
	assert_int_equal(last_grant(&s.out, 0)->generation, 2);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 10);
	assert_int_equal(look(&s, 1000).consumed_tok, 40);
	assert_int_equal(look(&s, 1000).outstanding_tok, 10);
	s.out.n = 0;
	ask.seq = 10;
	lg_home_ask(s.home, 0, 1, &ask, T0 + 1001 * MS, &s.fx);
	assert_int_equal(s.out.n, 0);
	end(&s);
}

TEST(no_more_than_max_outstanding_is_out_at_once)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, 3600 * S, 100);
	struct lg_ask ask = request_of(1, 100), report = report_of(2, 1, 30, 20, 0);
	struct script s;

	t.max_outstanding_tok = 30;
	begin(&s, &t, NULL);
	assert_int_equal(tell(&s, 0, &ask, 0)->granted_tok, 30);
	assert_int_equal(last_grant(&s.out, 0)->cap_tok, 30);
	assert_int_equal(tell(&s, 1, &ask, 0)->granted_tok, 0);
	report.request = true;
	report.want_tok = 10;	/* it has that */
	tell(&s, 0, &report, 100);
	tick(&s, 200);
	assert_int_equal(look(&s, 200).outstanding_tok, 30);
	end(&s);
}

TEST(what_comes_free_is_pushed_to_who_waits_and_the_home_says_when_to_look)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10, S, 10);
	struct lg_ask ask = request_of(1, 10), report = report_of(2, 1, 10, 10, 0), other = request_of(1, 4);
	struct script s;

	begin(&s, &t, NULL);
	tell(&s, 0, &ask, 0);
	assert_int_equal(lg_home_tick(s.home, T0, &s.fx), T0 + 11 * S);		/* when A's lease ends */
	tell(&s, 1, &other, 0);
	assert_int_equal(lg_home_tick(s.home, T0, &s.fx), T0 + 100 * MS);	/* B waits */
	tell(&s, 0, &report, 0);
	tick(&s, 100);
	assert_int_equal(last_grant(&s.out, 1)->granted_tok, 1);
	tick(&s, 400);
	assert_int_equal(last_grant(&s.out, 1)->granted_tok, 4);
	assert_false(last_grant(&s.out, 1)->partial);
	tick(&s, 500);
	assert_int_equal(s.out.n, 0);
	end(&s);
}

TEST(a_home_with_everything_back_is_idle)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10, S, 100);
	struct lg_ask ask = request_of(1, 40), report = report_of(2, 1, 40, 30, 10);
	struct script s;

	begin(&s, &t, NULL);
	assert_true(lg_home_is_idle(s.home, T0));
	tell(&s, 0, &ask, 0);
	assert_false(lg_home_is_idle(s.home, T0));
	tell(&s, 0, &report, 0);
	assert_false(lg_home_is_idle(s.home, T0 + 2999 * MS));
	assert_true(lg_home_is_idle(s.home, T0 + 3000 * MS));
	end(&s);
}

TEST(a_holder_whose_lease_nobody_remembers_begins_a_new_one)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10, S, 100);
	struct lg_ask ask = report_of(7, 3, 500, 400, 50);
	struct script s;

	begin(&s, &t, NULL);	/* no earlier life: it was all settled before the key was forgotten */
	assert_int_equal(tell(&s, 0, &ask, 0)->generation, 4);
	assert_int_equal(look(&s, 0).pool_tok, 100);
	end(&s);
}

/* ---- fair parts of a window ---- */

TEST(while_holders_ask_for_more_than_a_window_has_each_is_held_to_its_fair_part)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 100, 60 * S, 100);
	struct lg_ask hog = request_of(1, 95), small = request_of(1, 5);
	struct lg_holder_view v;
	struct script s;

	/* 190 and 10 in a window of 100: the small one's part is its 10 with a little on top, the rest is the other's */
	small.demand_mtps = 167;
	hog.demand_mtps = 3167;
	begin(&s, &t, NULL);
	assert_int_equal(tell(&s, 1, &small, 0)->granted_tok, 5);
	assert_int_equal(tell(&s, 0, &hog, 0)->granted_tok, 88);
	assert_true(last_grant(&s.out, 0)->partial);
	/* the hog spends all and wants more; the small one's part waits for it */
	hog = wanting(report_of(2, 1, 88, 88, 0), 95, 3167);
	assert_int_equal(tell(&s, 0, &hog, 1000)->granted_tok, 88);
	small = wanting(report_of(2, 1, 5, 5, 0), 5, 167);
	assert_int_equal(tell(&s, 1, &small, 9000)->granted_tok, 10);
	assert_int_equal(lg_home_holder(s.home, 1, &v), 0);
	assert_int_equal(v.granted_tok, 10);
	assert_int_equal(look(&s, 9000).pool_tok, 2);
	end(&s);
}

TEST(a_window_that_is_not_overloaded_is_free_for_all)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 100, 60 * S, 100);
	struct lg_ask hog = request_of(1, 90), small = request_of(1, 5);
	struct script s;

	/* 100 and 10: not a quarter above the limit */
	small.demand_mtps = 167;
	hog.demand_mtps = 1667;
	begin(&s, &t, NULL);
	tell(&s, 1, &small, 0);
	assert_int_equal(tell(&s, 0, &hog, 0)->granted_tok, 90);
	end(&s);
}

TEST(demand_that_comes_and_goes_is_no_overload)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 100, 60 * S, 100);
	struct script s;

	begin(&s, &t, NULL);
	for (uint64_t i = 1; i <= 20; i++) {
		struct lg_ask a = request_of(i, 1), b = request_of(i, 1);

		a.demand_mtps = i % 2 ? 1600 : 100;
		b.demand_mtps = i % 2 ? 100 : 1600;
		tell(&s, 0, &a, i * 1000);
		tell(&s, 1, &b, i * 1000);
	}
	/* both high for once: over the last seconds neither was */
	struct lg_ask a = request_of(21, 98), b = request_of(21, 1);

	a.demand_mtps = b.demand_mtps = 1600;
	tell(&s, 1, &b, 21000);
	assert_int_equal(tell(&s, 0, &a, 21000)->granted_tok, 98);
	end(&s);
}

/* ---- a successor ---- */

TEST(a_successor_to_a_bucket_lends_what_it_mints_until_it_knows)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(3);
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_ask ask = request_of(1, 4000);
	struct script s;

	t.max_outstanding_tok = 4000;
	begin(&s, &t, heir);
	assert_int_equal(look(&s, 0).pool_tok, 0);
	assert_int_equal(look(&s, 0).consumed_tok, 6000);
	assert_int_equal(look(&s, 0).unknown_tok, 4000);
	for (uint64_t ms = 100; ms < 1000; ms += 100) {
		ask.seq++;
		tell(&s, 7, &ask, ms);	/* a stranger */
		assert_true(look(&s, ms).outstanding_tok <= ms * 10000 / 60000);
	}
	assert_true(look(&s, 1000).outstanding_tok >= 140);
	end(&s);
}

TEST(a_successor_takes_over_what_holders_have_and_counts_the_rest_as_spent)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_ask a = report_of(50, 3, 5000, 4300, 0), b = report_of(60, 1, 900, 100, 500);
	struct script s;

	t.max_outstanding_tok = 4000;
	begin(&s, &t, heir);
	a.n_slots = 1;
	a.slots[0] = (struct lg_slot){ .id = 49, .age_ms = 100, .tok = 300 };	/* known as unknown already */
	assert_int_equal(tell(&s, 0, &a, 300)->generation, 3);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 5000);
	assert_int_equal(last_grant(&s.out, 0)->ack_slot, 49);
	assert_int_equal(look(&s, 300).outstanding_tok, 700);
	assert_int_equal(look(&s, 300).unknown_tok, 3300);
	/* goes on spending */
	a = report_of(51, 3, 5000, 4400, 0);
	tell(&s, 0, &a, 500);
	assert_int_equal(look(&s, 500).outstanding_tok, 600);
	assert_int_equal(look(&s, 500).unknown_tok, 3300);
	/* the other one: now all is known, 3300 - 300 must have been spent */
	tell(&s, 1, &b, 600);
	assert_int_equal(look(&s, 600).outstanding_tok, 900);
	assert_int_equal(look(&s, 600).unknown_tok, 0);
	assert_int_equal(look(&s, 600).consumed_tok, 6000 + 100 - 100 + 3000);	/* 6000, the 100, less 0.6 s, and the rest */
	end(&s);
}

TEST(a_successor_does_not_wait_for_ever_for_who_stays_away)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_ask late = report_of(60, 1, 900, 100, 0);
	struct script s;

	t.max_outstanding_tok = 4000;
	begin(&s, &t, heir);
	assert_int_equal(look(&s, 10999).unknown_tok, 4000);
	assert_int_equal(look(&s, 11000).unknown_tok, 0);
	assert_int_equal(look(&s, 11000).consumed_tok, 6000 - 1833 + 4000);
	/* it comes after all: its lease has lapsed */
	assert_int_equal(tell(&s, 1, &late, 12000)->generation, 2);
	assert_int_equal(look(&s, 12000).outstanding_tok, 0);
	end(&s);
}

TEST(who_has_named_all_his_keys_holds_nothing_of_the_others)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct lg_ask claim = report_of(60, 1, 900, 100, 0);
	struct script s;

	t.max_outstanding_tok = 4000;
	lg_succession_synced(heir, 0);
	begin(&s, &t, heir);
	assert_int_equal(look(&s, 100).unknown_tok, 4000);
	lg_succession_synced(heir, 1);
	tick(&s, 200);
	assert_int_equal(look(&s, 200).unknown_tok, 0);
	/* and what he says later of an old lease is not of this life */
	assert_int_equal(tell(&s, 1, &claim, 300)->generation, 2);
	assert_int_equal(look(&s, 300).outstanding_tok, 0);
	end(&s);
}

TEST(a_key_that_is_born_late_in_a_life_is_as_old_as_the_life)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = NULL;
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct script s;

	assert_int_equal(lg_succession_new(T0 - 40 * S, &heir), 0);
	assert_int_equal(lg_succession_list(heir, 0), 0);
	begin(&s, &t, heir);	/* 11 s after its beginning all old leases were over, 29 s ago */
	assert_int_equal(look(&s, 0).unknown_tok, 0);
	assert_int_equal(look(&s, 0).consumed_tok, 10000 - 4833);
	end(&s);
}

TEST(after_a_life_that_never_settled_everything_is_unknown)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(1);
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct script s;

	t.max_outstanding_tok = 4000;
	lg_succession_unsettled(heir);
	begin(&s, &t, heir);
	assert_int_equal(look(&s, 5000).pool_tok, 0);
	assert_int_equal(look(&s, 5000).unknown_tok, 10000);
	end(&s);
}

TEST(a_successor_to_a_window_learns_it_from_its_holders)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 1000, 10 * S, 1000);
	struct lg_ask a = report_of(50, 3, 500, 420, 0), b = report_of(60, 1, 0, 0, 0);
	struct script s;

	begin(&s, &t, heir);
	a.request = b.request = true;
	a.want_tok = b.want_tok = 500;
	a.n_history = 2;
	a.history[0] = (struct lg_slot){ .id = 1, .age_ms = 8000, .tok = 300 };
	a.history[1] = (struct lg_slot){ .id = 2, .age_ms = 1000, .tok = 120 };
	b.n_history = 1;
	b.history[0] = (struct lg_slot){ .id = 1, .age_ms = 500, .tok = 200 };
	assert_int_equal(tell(&s, 0, &a, 100)->status, LG_GRANT_RECOVERING);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 500);
	assert_int_equal(look(&s, 100).unknown_tok, 500);
	assert_int_equal(look(&s, 100).pool_tok, 0);
	assert_int_equal(lg_home_tick(s.home, T0 + 100 * MS, &s.fx), T0 + 200 * MS);
	/* the second one completes the picture: 620 spent, 80 out, 300 to lend */
	assert_int_equal(tell(&s, 1, &b, 200)->status, LG_GRANT_OK);
	assert_int_equal(look(&s, 200).consumed_tok, 620);
	assert_int_equal(look(&s, 200).outstanding_tok, 380);
	assert_int_equal(look(&s, 2099).consumed_tok, 620);
	assert_int_equal(look(&s, 2100).consumed_tok, 320);	/* 8 s old at 0.1 s */
	end(&s);
}

TEST(a_successor_to_a_window_waits_a_window_for_who_stays_away)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(2);
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 1000, 10 * S, 1000);
	struct script s;

	begin(&s, &t, heir);
	assert_int_equal(look(&s, 20999).pool_tok, 0);
	assert_int_equal(look(&s, 21000).pool_tok, 1000);
	end(&s);
}

TEST(a_window_is_full_as_long_as_somebody_does_not_remember)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = heirs(1);
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 1000, 10 * S, 1000);
	struct script s;

	lg_succession_forgot(heir, T0 - 4 * S);
	lg_succession_forgot(heir, T0 - 5 * S);
	lg_succession_synced(heir, 0);
	begin(&s, &t, heir);
	assert_int_equal(look(&s, 0).unknown_tok, 0);
	assert_int_equal(look(&s, 5999).pool_tok, 0);
	assert_int_equal(look(&s, 6000).pool_tok, 1000);
	end(&s);
}

/* ---- a rule changes ---- */

TEST(another_limit_leaves_what_was_spent_and_what_is_out)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 1, 3600 * S, 100), more = t, less = t;
	struct lg_ask ask = request_of(1, 40), report = report_of(2, 1, 40, 30, 0);
	struct script s;

	more.budget_tok = more.max_outstanding_tok = 150;
	less.budget_tok = less.max_outstanding_tok = 20;
	begin(&s, &t, NULL);
	tell(&s, 0, &ask, 0);
	tell(&s, 0, &report, 0);
	assert_int_equal(look(&s, 0).pool_tok, 60);
	change(&s, &more, 0);
	assert_int_equal(look(&s, 0).pool_tok, 110);
	change(&s, &less, 0);
	assert_int_equal(look(&s, 0).pool_tok, 0);
	assert_int_equal(look(&s, 0).consumed_tok, 30);
	assert_int_equal(look(&s, 0).outstanding_tok, 10);
	change(&s, &t, 0);
	assert_int_equal(look(&s, 0).pool_tok, 60);
	end(&s);
}

TEST(another_window_keeps_what_was_spent_in_it)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 100, 10 * S, 100), wide = t;
	struct lg_ask ask = request_of(1, 40), report = report_of(2, 1, 40, 40, 0);
	struct script s;

	wide.per_ns = 20 * S;
	begin(&s, &t, NULL);
	tell(&s, 0, &ask, 0);
	tell(&s, 0, &report, 1000);
	change(&s, &wide, 5000);
	assert_int_equal(look(&s, 20000).consumed_tok, 40);
	assert_int_equal(look(&s, 21200).consumed_tok, 0);
	end(&s);
}

/* ---- the limit itself, in parts ---- */

static struct lg_terms in_parts(void)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 1000, 1 * S, 1000);

	t.kind = LG_LEASE_LIMIT;
	return t;
}

static struct lg_succession *heir_of_two(void)
{
	struct lg_succession *s = NULL;

	assert_int_equal(lg_succession_new(T0, &s), 0);
	lg_succession_list(s, 0);
	lg_succession_list(s, 1);
	return s;
}

static struct lg_ask part_of(uint64_t seq, uint32_t generation, uint64_t held_tok)
{
	struct lg_ask ask = request_of(seq, 10);

	ask.generation = generation;
	ask.kind = LG_LEASE_LIMIT;
	ask.limit_version = 3;
	ask.held_tok = held_tok;
	ask.demand_mtps = 100000;
	return ask;
}

TEST(by_terms_that_say_so_the_limit_itself_is_lent)
{
	const struct lg_terms t = in_parts();
	struct lg_ask ask = request_of(1, 10);
	struct lg_holder_view v;
	struct script s;

	begin(&s, &t, NULL);
	assert_int_equal(tell(&s, 0, &ask, 0)->kind, LG_LEASE_LIMIT);
	assert_int_equal(last_grant(&s.out, 0)->limit_tok, 1000);
	assert_int_equal(look(&s, 0).outstanding_tok, 1000);
	assert_int_equal(lg_home_outstanding_tok(s.home), 1000);
	assert_int_equal(lg_home_holder(s.home, 0, &v), 0);
	assert_int_equal(v.granted_tok, 1000);
	assert_int_equal(lg_home_holder(s.home, 1, &v), -ENOENT);
	assert_false(lg_home_is_idle(s.home, T0));
	assert_true(lg_home_bytes(s.home) > 500);
	/* Silent: lapsed after 11 s, out of the window a second later. */
	lg_home_tick(s.home, T0 + 11 * S, &s.fx);
	assert_int_equal(look(&s, 11000).consumed_tok, 1000);
	assert_true(lg_home_is_idle(s.home, T0 + 12 * S));
	end(&s);
}

TEST(a_successor_goes_on_with_tokens_although_its_terms_would_lend_parts)
{
	_cleanup_(lg_succession_free) struct lg_succession *old = heir_of_two();
	const struct lg_terms t = in_parts();
	struct lg_ask ask = report_of(1, 4, 300, 100, 0);
	struct script s;

	begin(&s, &t, old);
	assert_int_equal(tell(&s, 0, &ask, 0)->kind, LG_LEASE_BLOCK);
	assert_int_equal(last_grant(&s.out, 0)->generation, 4);
	assert_int_equal(last_grant(&s.out, 0)->granted_tok, 300);
	assert_int_equal(look(&s, 0).outstanding_tok, 200);
	/* Of another kind, and held: nothing that one life lends. It is not heard. */
	ask = part_of(1, 2, 500);
	assert_null(tell(&s, 1, &ask, 10));
	end(&s);
}

TEST(a_successor_goes_on_with_parts_although_its_terms_would_lend_tokens)
{
	_cleanup_(lg_succession_free) struct lg_succession *old = heir_of_two();
	struct lg_terms t = in_parts();
	struct lg_ask ask = part_of(1, 4, 600);
	struct script s;

	t.kind = LG_LEASE_BLOCK;
	begin(&s, &t, old);
	assert_int_equal(tell(&s, 0, &ask, 0)->kind, LG_LEASE_LIMIT);
	assert_int_equal(last_grant(&s.out, 0)->generation, 4);
	assert_int_equal(last_grant(&s.out, 0)->limit_version, 3);
	assert_int_equal(look(&s, 0).outstanding_tok, 600);
	assert_int_equal(look(&s, 0).unknown_tok, 400);
	ask = part_of(1, 2, 100);
	tell(&s, 1, &ask, 10);
	assert_int_equal(look(&s, 10).unknown_tok, 0);
	assert_int_equal(look(&s, 10).outstanding_tok, 1000);
	end(&s);
}

TEST(who_holds_nothing_of_another_kind_begins_anew)
{
	_cleanup_(lg_succession_free) struct lg_succession *old = heir_of_two();
	struct lg_terms t = in_parts();
	struct lg_ask ask = part_of(1, 4, 0);
	struct script s;

	t.kind = LG_LEASE_BLOCK;
	begin(&s, &t, old);
	assert_int_equal(tell(&s, 0, &ask, 0)->kind, LG_LEASE_BLOCK);
	assert_int_equal(last_grant(&s.out, 0)->generation, 5);
	/* The other one has a part. What the first may have spent of the window is not known then: it counts in full for one. */
	ask = part_of(1, 2, 500);
	assert_int_equal(tell(&s, 1, &ask, 100)->kind, LG_LEASE_LIMIT);
	assert_int_equal(look(&s, 1099).consumed_tok, 1000);
	assert_int_equal(look(&s, 1200).consumed_tok, 0);
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_minted_for_what_is_out),
		cmocka_unit_test(tokens_told_with_their_age_have_been_refilled_since),
		cmocka_unit_test(a_window_frees_a_slot_when_its_end_is_a_window_ago),
		cmocka_unit_test(a_grant_that_is_lost_lapses_with_its_lease),
		cmocka_unit_test(what_returns_after_a_lapse_changes_nothing),
		cmocka_unit_test(a_lease_ends_with_the_last_message_and_not_with_the_last_push),
		cmocka_unit_test(a_repeated_message_gets_the_same_answer_and_an_overtaken_one_changes_nothing),
		cmocka_unit_test(messages_of_another_epoch_or_out_of_bounds_are_not_heard),
		cmocka_unit_test(a_holder_reborn_costs_its_lease),
		cmocka_unit_test(no_more_than_max_outstanding_is_out_at_once),
		cmocka_unit_test(what_comes_free_is_pushed_to_who_waits_and_the_home_says_when_to_look),
		cmocka_unit_test(a_home_with_everything_back_is_idle),
		cmocka_unit_test(a_holder_whose_lease_nobody_remembers_begins_a_new_one),
		cmocka_unit_test(while_holders_ask_for_more_than_a_window_has_each_is_held_to_its_fair_part),
		cmocka_unit_test(a_window_that_is_not_overloaded_is_free_for_all),
		cmocka_unit_test(demand_that_comes_and_goes_is_no_overload),
		cmocka_unit_test(a_successor_to_a_bucket_lends_what_it_mints_until_it_knows),
		cmocka_unit_test(a_successor_takes_over_what_holders_have_and_counts_the_rest_as_spent),
		cmocka_unit_test(a_successor_does_not_wait_for_ever_for_who_stays_away),
		cmocka_unit_test(who_has_named_all_his_keys_holds_nothing_of_the_others),
		cmocka_unit_test(a_key_that_is_born_late_in_a_life_is_as_old_as_the_life),
		cmocka_unit_test(after_a_life_that_never_settled_everything_is_unknown),
		cmocka_unit_test(a_successor_to_a_window_learns_it_from_its_holders),
		cmocka_unit_test(a_successor_to_a_window_waits_a_window_for_who_stays_away),
		cmocka_unit_test(a_window_is_full_as_long_as_somebody_does_not_remember),
		cmocka_unit_test(another_limit_leaves_what_was_spent_and_what_is_out),
		cmocka_unit_test(another_window_keeps_what_was_spent_in_it),
		cmocka_unit_test(by_terms_that_say_so_the_limit_itself_is_lent),
		cmocka_unit_test(a_successor_goes_on_with_tokens_although_its_terms_would_lend_parts),
		cmocka_unit_test(a_successor_goes_on_with_parts_although_its_terms_would_lend_tokens),
		cmocka_unit_test(who_holds_nothing_of_another_kind_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
