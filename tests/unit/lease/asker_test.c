// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/asker.h"

#include "tests/unit/lease/lease_test.h"

static const struct lg_asker_pace pace = { .gap_ns = 20 * MS, .period_ns = 750 * MS, .renew_ns = 10 * S, .rtt_guess_ns = 2 * MS };

static void up(struct lg_asker *a)
{
	lg_asker_init(a, 100, 1);
	assert_true(lg_asker_up(a, 1));
}

static void send(struct lg_asker *a, uint64_t target_tok, uint64_t now_ns)
{
	struct lg_ask ask;

	lg_asker_sent(a, &ask, &pace, target_tok, now_ns);
	assert_int_equal(ask.seq, a->seq);
	assert_int_equal(ask.life, 101);
	assert_int_equal(ask.epoch, a->epoch);
}

static void answer(struct lg_asker *a, bool partial, uint64_t now_ns)
{
	struct lg_grant grant = { .ack_seq = a->seq, .epoch = a->epoch, .partial = partial };

	assert_true(lg_asker_answered(a, &grant, now_ns) > 0);
}

static enum lg_say check(struct lg_asker *a, const struct lg_asker_need *need, uint64_t now_ns)
{
	uint64_t due_ns;
	enum lg_say say = lg_asker_check(a, need, &pace, now_ns, &due_ns);

	/* When it says nothing it says when to look again. */
	assert_true(say != LG_SAY_NOTHING || due_ns > now_ns);
	return say;
}

static const struct lg_asker_need low = { .own_tok = 5, .low_tok = 10, .target_tok = 30 };
static const struct lg_asker_need enough = { .own_tok = 20, .low_tok = 10, .target_tok = 30 };
static const struct lg_asker_need nothing = { 0 };
static const struct lg_asker_need kept = { .own_tok = 3 };
static const struct lg_asker_need told = { .news = true };

TEST(who_is_low_asks_at_once_and_who_is_not_waits_for_the_end_of_the_period)
{
	struct lg_asker a;

	up(&a);
	assert_int_equal(check(&a, &low, T0), LG_SAY_REQUEST);
	send(&a, 30, T0);
	answer(&a, false, T0 + 2 * MS);
	assert_int_equal(check(&a, &low, T0 + 19 * MS), LG_SAY_NOTHING);	/* the least gap */
	assert_int_equal(check(&a, &low, T0 + 20 * MS), LG_SAY_REQUEST);
	assert_int_equal(check(&a, &enough, T0 + 600 * MS), LG_SAY_NOTHING);
	assert_int_equal(check(&a, &enough, T0 + 863 * MS), LG_SAY_REQUEST);	/* 750 ms, 15 % either way */
	assert_int_equal(check(&a, &told, T0 + 863 * MS), LG_SAY_REPORT);
	assert_int_equal(check(&a, &nothing, T0 + 3600 * S), LG_SAY_NOTHING);
}

TEST(periods_are_jittered)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct lg_asker a;

	up(&a);
	for (int i = 0; i < 200; i++) {
		send(&a, 30, T0);
		least = a.period_end_ns < least ? a.period_end_ns : least;
		most = a.period_end_ns > most ? a.period_end_ns : most;
	}
	assert_in_range(least - T0, 637 * MS, 650 * MS);
	assert_in_range(most - T0, 850 * MS, 863 * MS);
}

TEST(an_unanswered_message_counts_as_lost_after_a_round_trip_and_a_fifth)
{
	static const uint64_t wait_ms[] = { 170, 340, 400, 400 };	/* 1.2 x 100 + 50, doubled, capped */
	uint64_t now_ns;
	struct lg_asker a;

	up(&a);
	send(&a, 30, T0);
	assert_int_equal(check(&a, &low, T0 + 999 * MS), LG_SAY_NOTHING);	/* no round trip known yet */
	assert_int_equal(check(&a, &low, T0 + 1000 * MS), LG_SAY_REQUEST);
	up(&a);
	send(&a, 30, T0);
	answer(&a, false, T0 + 100 * MS);
	assert_int_equal(a.rtt_ns, 100 * MS);
	now_ns = T0 + 1 * S;
	for (size_t i = 0; i < 4; i++) {
		send(&a, 30, now_ns);
		assert_int_equal(check(&a, &low, now_ns + wait_ms[i] * MS - 1), LG_SAY_NOTHING);
		assert_int_equal(check(&a, &low, now_ns + wait_ms[i] * MS), LG_SAY_REQUEST);
		now_ns += wait_ms[i] * MS;
	}
	send(&a, 30, now_ns);
	answer(&a, false, now_ns + 100 * MS);
	send(&a, 30, now_ns + 1 * S);
	assert_int_equal(check(&a, &low, now_ns + 1170 * MS), LG_SAY_REQUEST);	/* answered: patient again from the start */
}

TEST(after_a_partial_answer_it_waits_for_the_push_unless_there_is_news)
{
	struct lg_asker_need need = low;
	struct lg_asker a;

	up(&a);
	send(&a, 30, T0);
	answer(&a, true, T0 + 2 * MS);
	assert_int_equal(check(&a, &low, T0 + 600 * MS), LG_SAY_NOTHING);
	need.unreported_tok = 14;
	assert_int_equal(check(&a, &need, T0 + 600 * MS), LG_SAY_NOTHING);
	need.unreported_tok = 15;	/* half of what it would like to hold */
	assert_int_equal(check(&a, &need, T0 + 600 * MS), LG_SAY_REQUEST);
	need = low;
	need.target_tok = 45;
	assert_int_equal(check(&a, &need, T0 + 600 * MS), LG_SAY_NOTHING);
	need.target_tok = 46;		/* half as much again */
	assert_int_equal(check(&a, &need, T0 + 600 * MS), LG_SAY_REQUEST);
	assert_int_equal(check(&a, &low, T0 + 863 * MS), LG_SAY_REQUEST);
}

TEST(a_push_that_fills_the_want_ends_the_waiting)
{
	struct lg_asker a;

	up(&a);
	send(&a, 30, T0);
	answer(&a, true, T0 + 2 * MS);
	answer(&a, false, T0 + 90 * MS);
	assert_int_equal(check(&a, &low, T0 + 100 * MS), LG_SAY_REQUEST);
	/* and does not count as a round trip */
	assert_int_equal(a.rtt_ns, 2 * MS);
}

TEST(a_kept_lease_is_prolonged_now_and_then)
{
	struct lg_asker a;

	up(&a);
	send(&a, 0, T0);
	answer(&a, false, T0 + 2 * MS);
	assert_int_equal(check(&a, &kept, T0 + 10 * S - 1), LG_SAY_NOTHING);
	assert_int_equal(check(&a, &kept, T0 + 10 * S), LG_SAY_REPORT);
}

TEST(refused_it_keeps_quiet_for_a_second)
{
	static const enum lg_grant_status refusals[] = { LG_GRANT_UNKNOWN_RULE, LG_GRANT_NOT_HOME, LG_GRANT_OVERLOADED };

	for (size_t i = 0; i < 3; i++) {
		struct lg_grant grant = { .epoch = 1, .status = refusals[i] };
		struct lg_asker a;

		up(&a);
		send(&a, 30, T0);
		grant.ack_seq = a.seq;
		lg_asker_answered(&a, &grant, T0 + 10 * MS);
		assert_false(a.heard);
		assert_int_equal(check(&a, &low, T0 + 1009 * MS), LG_SAY_NOTHING);
		assert_int_equal(check(&a, &low, T0 + 1010 * MS), LG_SAY_REQUEST);
	}
}

TEST(a_recovering_lessor_is_waited_for)
{
	struct lg_grant grant = { .epoch = 1, .status = LG_GRANT_RECOVERING };
	struct lg_asker a;

	up(&a);
	send(&a, 30, T0);
	grant.ack_seq = a.seq;
	lg_asker_answered(&a, &grant, T0 + 2 * MS);
	assert_true(a.heard);
	assert_int_equal(check(&a, &low, T0 + 600 * MS), LG_SAY_NOTHING);
	assert_int_equal(check(&a, &low, T0 + 863 * MS), LG_SAY_REQUEST);
}

TEST(the_time_of_sending_is_known_for_the_last_few_messages)
{
	struct lg_grant grant = { .epoch = 1 };
	struct lg_asker a;

	up(&a);
	for (uint64_t i = 0; i < 20; i++)
		send(&a, 30, T0 + i * S);
	for (uint64_t i = 0; i < 20; i++) {
		grant.ack_seq = 101 + i;
		assert_int_equal(lg_asker_answered(&a, &grant, T0 + 30 * S), i < 20 - LG_ASKER_SENDS ? 0 : T0 + i * S);
	}
}

TEST(a_grant_of_another_life_of_lessor_or_memory_is_not_for_us)
{
	struct lg_grant grant = { .ack_seq = 101, .epoch = 2 };
	struct lg_asker a;

	lg_asker_init(&a, 100, 1);
	assert_true(lg_asker_up(&a, 2));
	assert_true(lg_asker_is_addressed(&a, &grant));
	grant.ack_seq = 100;	/* answers somebody who had the key before */
	assert_false(lg_asker_is_addressed(&a, &grant));
	grant.ack_seq = 101;
	grant.epoch = 1;
	assert_false(lg_asker_is_addressed(&a, &grant));
	assert_true(lg_asker_up(&a, 3));
	grant.epoch = 2;	/* from the moment the newer is known */
	assert_false(lg_asker_is_addressed(&a, &grant));
	assert_false(lg_asker_up(&a, 2));
	assert_int_equal(a.epoch, 3);
	assert_int_equal(check(&a, &low, T0), LG_SAY_NOTHING);
}

TEST(down_it_says_nothing)
{
	struct lg_asker a;

	lg_asker_init(&a, 100, 1);
	assert_int_equal(check(&a, &low, T0), LG_SAY_NOTHING);
	up(&a);
	lg_asker_down(&a);
	assert_int_equal(check(&a, &low, T0), LG_SAY_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_low_asks_at_once_and_who_is_not_waits_for_the_end_of_the_period),
		cmocka_unit_test(periods_are_jittered),
		cmocka_unit_test(an_unanswered_message_counts_as_lost_after_a_round_trip_and_a_fifth),
		cmocka_unit_test(after_a_partial_answer_it_waits_for_the_push_unless_there_is_news),
		cmocka_unit_test(a_push_that_fills_the_want_ends_the_waiting),
		cmocka_unit_test(a_kept_lease_is_prolonged_now_and_then),
		cmocka_unit_test(refused_it_keeps_quiet_for_a_second),
		cmocka_unit_test(a_recovering_lessor_is_waited_for),
		cmocka_unit_test(the_time_of_sending_is_known_for_the_last_few_messages),
		cmocka_unit_test(a_grant_of_another_life_of_lessor_or_memory_is_not_for_us),
		cmocka_unit_test(down_it_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
