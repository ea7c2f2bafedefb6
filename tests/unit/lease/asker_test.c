// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/asker.h"

#include "tests/unit/lease/lease_test.h"

static const struct lg_asker_pace pace = { .gap_ns = 20 * MS, .period_ns = 750 * MS, .renew_ns = 10 * S, .rtt_guess_ns = 2 * MS };

/* One key and its connection. */
struct script {
	struct lg_upstream u;
	struct lg_asker a;
};

static void up(struct script *s)
{
	*s = (struct script){ .u.rand = 1 };
	lg_asker_init(&s->a, 100);
	assert_true(lg_upstream_up(&s->u, 1));
	lg_asker_up(&s->a, &s->u);
}

static uint64_t send(struct script *s, uint64_t target_tok, uint64_t now_ns)
{
	struct lg_ask ask;

	lg_asker_sent(&s->a, &s->u, &ask, target_tok, now_ns);
	assert_int_equal(ask.seq, 100 + s->a.n_sent);
	assert_int_equal(ask.life, 101);
	assert_int_equal(ask.epoch, s->u.epoch);
	return ask.seq;
}

static uint64_t answered(struct script *s, uint64_t seq, bool partial, uint64_t now_ns)
{
	struct lg_grant grant = { .ack_seq = seq, .epoch = s->u.epoch, .partial = partial };

	assert_true(lg_asker_is_addressed(&s->a, &s->u, &grant));
	return lg_asker_answered(&s->a, &s->u, &grant, now_ns);
}

/* To the last message. */
static void answer(struct script *s, bool partial, uint64_t now_ns)
{
	assert_true(answered(s, 100 + s->a.n_sent, partial, now_ns) > 0);
}

/* Connected, with a first message at T0 that was answered so much later. */
static void met(struct script *s, uint64_t target_tok, bool partial, uint64_t rtt_ns)
{
	up(s);
	send(s, target_tok, T0);
	answer(s, partial, T0 + rtt_ns);
}

static enum lg_say check(struct script *s, const struct lg_asker_need *need, uint64_t now_ns)
{
	uint64_t due_ns;
	enum lg_say say = lg_asker_check(&s->a, &s->u, need, &pace, now_ns, &due_ns);

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
	struct script s;

	up(&s);
	assert_int_equal(check(&s, &low, T0), LG_SAY_REQUEST);
	send(&s, 30, T0);
	answer(&s, false, T0 + 2 * MS);
	assert_int_equal(check(&s, &low, T0 + 19 * MS), LG_SAY_NOTHING);	/* the least gap */
	assert_int_equal(check(&s, &low, T0 + 20 * MS), LG_SAY_REQUEST);
	assert_int_equal(check(&s, &enough, T0 + 600 * MS), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &enough, T0 + 863 * MS), LG_SAY_REQUEST);	/* 750 ms, 15 % either way */
	assert_int_equal(check(&s, &told, T0 + 863 * MS), LG_SAY_REPORT);
	assert_int_equal(check(&s, &nothing, T0 + 3600 * S), LG_SAY_NOTHING);
}

TEST(periods_are_jittered_and_each_stays_as_it_is)
{
	uint64_t least_ns = UINT64_MAX, most_ns = 0, due_ns, again_ns;
	struct script s;

	up(&s);
	for (int i = 0; i < 200; i++) {
		send(&s, 30, T0);
		answer(&s, false, T0 + 2 * MS);
		lg_asker_check(&s.a, &s.u, &enough, &pace, T0 + 100 * MS, &due_ns);
		lg_asker_check(&s.a, &s.u, &enough, &pace, T0 + 500 * MS, &again_ns);
		assert_int_equal(due_ns, again_ns);
		least_ns = due_ns < least_ns ? due_ns : least_ns;
		most_ns = due_ns > most_ns ? due_ns : most_ns;
	}
	assert_in_range(least_ns - T0, 637 * MS, 650 * MS);
	assert_in_range(most_ns - T0, 850 * MS, 863 * MS);
}

TEST(an_unanswered_message_counts_as_lost_after_a_round_trip_and_a_fifth)
{
	/* 1.2 x 100 + 50, doubled, capped; and further when so many were lost that the round trip must be longer than ever measured */
	static const uint64_t wait_ms[] = { 170, 340, 400, 400, 400, 800, 1600, 3200, 3200 };
	uint64_t now_ns;
	struct script s;

	up(&s);
	send(&s, 30, T0);
	assert_int_equal(check(&s, &low, T0 + 999 * MS), LG_SAY_NOTHING);	/* no round trip known yet */
	assert_int_equal(check(&s, &low, T0 + 1000 * MS), LG_SAY_REQUEST);
	met(&s, 30, false, 100 * MS);
	assert_int_equal(s.u.rtt_ns, 100 * MS);
	now_ns = T0 + 1 * S;
	for (size_t i = 0; i < sizeof(wait_ms) / sizeof(wait_ms[0]); i++) {
		send(&s, 30, now_ns);
		assert_int_equal(check(&s, &low, now_ns + wait_ms[i] * MS - 1), LG_SAY_NOTHING);
		assert_int_equal(check(&s, &low, now_ns + wait_ms[i] * MS), LG_SAY_REQUEST);
		now_ns += wait_ms[i] * MS;
	}
	send(&s, 30, now_ns);
	answer(&s, false, now_ns + 100 * MS);
	send(&s, 30, now_ns + 1 * S);
	assert_int_equal(check(&s, &low, now_ns + 1170 * MS), LG_SAY_REQUEST);	/* answered: patient again from the start */
}

TEST(after_a_partial_answer_it_waits_for_the_push_unless_there_is_news)
{
	struct lg_asker_need need = low;
	struct script s;

	met(&s, 30, true, 2 * MS);
	assert_int_equal(check(&s, &low, T0 + 600 * MS), LG_SAY_NOTHING);
	need.unreported_tok = 14;
	assert_int_equal(check(&s, &need, T0 + 600 * MS), LG_SAY_NOTHING);
	need.unreported_tok = 15;	/* half of what it would like to hold */
	assert_int_equal(check(&s, &need, T0 + 600 * MS), LG_SAY_REQUEST);
	need = low;
	need.target_tok = 45;
	assert_int_equal(check(&s, &need, T0 + 600 * MS), LG_SAY_NOTHING);
	need.target_tok = 46;		/* half as much again */
	assert_int_equal(check(&s, &need, T0 + 600 * MS), LG_SAY_REQUEST);
	assert_int_equal(check(&s, &low, T0 + 863 * MS), LG_SAY_REQUEST);
}

TEST(a_push_that_fills_the_want_ends_the_waiting)
{
	struct script s;

	met(&s, 30, true, 2 * MS);
	answer(&s, false, T0 + 90 * MS);
	assert_int_equal(check(&s, &low, T0 + 100 * MS), LG_SAY_REQUEST);
	/* and does not count as a round trip */
	assert_int_equal(s.u.rtt_ns, 2 * MS);
}

TEST(a_kept_lease_is_prolonged_now_and_then)
{
	struct script s;

	met(&s, 0, false, 2 * MS);
	/* not all keys of all hosts at once */
	assert_int_equal(check(&s, &kept, T0 + 8500 * MS - 1), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &kept, T0 + 11500 * MS), LG_SAY_REPORT);
}

TEST(nothing_is_said_to_a_lessor_whom_the_last_message_has_not_reached)
{
	struct script s;
	uint64_t due_ns;

	up(&s);
	send(&s, 30, T0);
	s.u.stalled = true;
	for (uint64_t ms = 50; ms <= 10000; ms += 50)
		assert_int_equal(check(&s, &low, T0 + ms * MS), LG_SAY_NOTHING);
	assert_int_equal(lg_asker_check(&s.a, &s.u, &low, &pace, T0, &due_ns), LG_SAY_NOTHING);
	assert_int_equal(due_ns, T0 + 50 * MS);
	s.u.stalled = false;
	assert_int_equal(check(&s, &low, T0 + 10000 * MS), LG_SAY_REQUEST);
}

TEST(an_answer_is_awaited_from_when_the_message_has_reached_the_lessor)
{
	struct script s;

	met(&s, 30, false, 10 * MS);
	send(&s, 30, T0 + 1000 * MS);
	lg_upstream_stalled(&s.u, true, T0 + 1050 * MS);
	lg_upstream_stalled(&s.u, false, T0 + 4000 * MS);
	lg_upstream_stalled(&s.u, false, T0 + 4050 * MS);
	assert_int_equal(check(&s, &low, T0 + 4062 * MS - 1), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &low, T0 + 4062 * MS), LG_SAY_REQUEST);
}

TEST(a_lessor_with_a_crowd_of_holders_is_given_some_more_time)
{
	static const struct { uint32_t hosts; uint64_t wait_ns; } rows[] = { { 64, 62 * MS }, { 65, 462 * MS } };
	struct script s;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		up(&s);
		lg_upstream_crowd(&s.u, rows[i].hosts);
		send(&s, 30, T0);
		answer(&s, false, T0 + 10 * MS);
		send(&s, 30, T0 + 1000 * MS);
		assert_int_equal(check(&s, &low, T0 + 1000 * MS + rows[i].wait_ns - 1), LG_SAY_NOTHING);
		assert_int_equal(check(&s, &low, T0 + 1000 * MS + rows[i].wait_ns), LG_SAY_REQUEST);
	}
}

TEST(while_the_lessor_is_recovering_a_need_that_grew_is_no_reason_to_ask_again)
{
	static const struct lg_asker_need more = { .own_tok = 0, .low_tok = 100, .target_tok = 120 };
	static const struct lg_asker_need much_more = { .own_tok = 0, .low_tok = 100, .target_tok = 121 };
	struct script s;

	for (int i = 0; i < 2; i++) {
		struct lg_grant grant = { .epoch = 1, .partial = true, .status = i ? LG_GRANT_RECOVERING : LG_GRANT_OK };

		up(&s);
		grant.ack_seq = send(&s, 30, T0);
		lg_asker_answered(&s.a, &s.u, &grant, T0 + 2 * MS);
		assert_int_equal(check(&s, &more, T0 + 100 * MS), i ? LG_SAY_NOTHING : LG_SAY_REQUEST);
		assert_int_equal(check(&s, &much_more, T0 + 100 * MS), LG_SAY_REQUEST);
		assert_int_equal(check(&s, &more, T0 + 863 * MS), LG_SAY_REQUEST);
	}
}

TEST(refused_it_keeps_quiet_for_about_a_second)
{
	static const enum lg_grant_status refusals[] = { LG_GRANT_UNKNOWN_RULE, LG_GRANT_NOT_HOME, LG_GRANT_OVERLOADED };

	for (size_t i = 0; i < 3; i++) {
		struct lg_grant grant = { .epoch = 1, .status = refusals[i] };
		struct script s;

		up(&s);
		grant.ack_seq = send(&s, 30, T0);
		lg_asker_answered(&s.a, &s.u, &grant, T0 + 10 * MS);
		assert_false(s.a.heard);
		assert_int_equal(s.a.status, refusals[i]);
		/* 15 % either way, so that those refused together do not come back together */
		assert_int_equal(check(&s, &low, T0 + 849 * MS), LG_SAY_NOTHING);
		assert_int_equal(check(&s, &low, T0 + 1151 * MS), LG_SAY_REQUEST);
		/* a new stream is worth a new question */
		lg_asker_up(&s.a, &s.u);
		assert_int_equal(check(&s, &low, T0 + 100 * MS), LG_SAY_REQUEST);
	}
}

TEST(a_recovering_lessor_is_waited_for)
{
	struct lg_grant grant = { .epoch = 1, .status = LG_GRANT_RECOVERING };
	struct script s;

	up(&s);
	grant.ack_seq = send(&s, 30, T0);
	lg_asker_answered(&s.a, &s.u, &grant, T0 + 2 * MS);
	assert_true(s.a.heard);
	assert_int_equal(check(&s, &low, T0 + 600 * MS), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &low, T0 + 863 * MS), LG_SAY_REQUEST);
}

TEST(the_time_of_sending_is_known_for_the_last_two_messages)
{
	struct script s;

	up(&s);
	for (uint64_t i = 0; i < 20; i++)
		send(&s, 30, T0 + i * S);
	for (uint64_t i = 0; i < 20; i++)
		assert_int_equal(answered(&s, 101 + i, false, T0 + 30 * S), i < 18 ? 0 : T0 + i * S);
	/* of the last but one to the millisecond, and never later than it was */
	send(&s, 30, T0 + 40 * S);
	send(&s, 30, T0 + 42 * S + 64);
	assert_int_equal(answered(&s, 121, false, T0 + 43 * S), T0 + 40 * S - MS + 64);
	/* a minute later it is of no use to anybody */
	send(&s, 30, T0 + 120 * S);
	assert_int_equal(answered(&s, 122, false, T0 + 121 * S), 0);
}

TEST(the_round_trip_is_measured_by_the_first_answer_to_each_of_the_last_two)
{
	uint64_t first, second;
	struct script s;

	up(&s);
	first = send(&s, 30, T0);
	second = send(&s, 30, T0 + 1 * S);
	answered(&s, first, false, T0 + 1200 * MS);	/* it was not lost, only slow */
	assert_int_equal(s.u.rtt_ns, 1200 * MS);
	answered(&s, first, false, T0 + 5 * S);
	assert_int_equal(s.u.rtt_ns, 1200 * MS);
	answered(&s, second, false, T0 + 1800 * MS);
	assert_int_equal(s.u.rtt_ns, 1150 * MS);
	answered(&s, second, false, T0 + 5 * S);	/* a push */
	assert_int_equal(s.u.rtt_ns, 1150 * MS);
}

TEST(a_grant_of_another_life_of_lessor_or_memory_is_not_for_us)
{
	struct lg_grant grant = { .ack_seq = 101, .epoch = 2 };
	struct script s;

	up(&s);
	assert_true(lg_upstream_up(&s.u, 2));
	assert_true(lg_asker_is_behind(&s.a, &s.u));
	assert_false(lg_asker_is_addressed(&s.a, &s.u, &grant));	/* to that life nothing was said yet */
	lg_asker_up(&s.a, &s.u);
	assert_false(lg_asker_is_behind(&s.a, &s.u));
	send(&s, 30, T0);
	assert_true(lg_asker_is_addressed(&s.a, &s.u, &grant));
	grant.ack_seq = 100;	/* answers somebody who had the key before */
	assert_false(lg_asker_is_addressed(&s.a, &s.u, &grant));
	grant.ack_seq = 102;	/* or has it after us */
	assert_false(lg_asker_is_addressed(&s.a, &s.u, &grant));
	grant.ack_seq = 101;
	grant.epoch = 1;
	assert_false(lg_asker_is_addressed(&s.a, &s.u, &grant));
	grant.epoch = 2;
	assert_true(lg_upstream_up(&s.u, 3));	/* from the moment the newer is known */
	assert_false(lg_asker_is_addressed(&s.a, &s.u, &grant));
	assert_false(lg_upstream_up(&s.u, 2));
	assert_int_equal(s.u.epoch, 3);
	assert_int_equal(check(&s, &low, T0 + 60 * S), LG_SAY_NOTHING);
}

TEST(down_it_says_nothing)
{
	struct script s = { 0 };

	lg_asker_init(&s.a, 100);
	assert_int_equal(check(&s, &low, T0), LG_SAY_NOTHING);
	up(&s);
	lg_upstream_down(&s.u);
	assert_int_equal(check(&s, &low, T0), LG_SAY_NOTHING);
}

TEST(why_somebody_is_refused_is_what_the_lessor_last_said_or_that_it_said_nothing)
{
	struct lg_grant grant = { .epoch = 1 };
	struct script s = { 0 };

	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_UNREACHABLE);
	up(&s);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_PENDING);
	send(&s, 30, T0);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_PENDING);
	answer(&s, true, T0 + 2 * MS);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_LIMIT);
	send(&s, 30, T0 + 1 * S);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_LIMIT);
	send(&s, 30, T0 + 2 * S);	/* one is lost */
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_LIMIT);
	send(&s, 30, T0 + 3 * S);	/* another */
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_UNREACHABLE);
	answer(&s, false, T0 + 4 * S);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_PENDING);
	grant.ack_seq = 100 + s.a.n_sent;
	grant.status = LG_GRANT_OVERLOADED;
	lg_asker_answered(&s.a, &s.u, &grant, T0 + 4 * S);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_OVERLOADED);
	grant.status = LG_GRANT_RECOVERING;
	lg_asker_answered(&s.a, &s.u, &grant, T0 + 4 * S);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_PENDING);
	grant.status = LG_GRANT_UNREACHABLE;
	grant.partial = true;
	lg_asker_answered(&s.a, &s.u, &grant, T0 + 4 * S);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_UNREACHABLE);
	assert_true(s.a.partial);	/* no refusal: more is pushed when there is more */
	assert_false(s.a.refused);
	answer(&s, true, T0 + 5 * S);
	lg_upstream_down(&s.u);
	assert_int_equal(lg_asker_reason(&s.a, &s.u), LG_WANT_UNREACHABLE);
}

/* Less may be out than is spent in two round trips. */
static const struct lg_asker_need cramped = { .low_tok = 24, .target_tok = 32, .unreported_tok = 1, .cramped = true, .part_tok = 8 };

TEST(where_little_may_be_out_what_was_spent_is_told_while_the_answer_is_awaited)
{
	struct lg_asker_need need = cramped;
	struct script s;

	up(&s);
	send(&s, 32, T0);
	assert_int_equal(check(&s, &cramped, T0 + 100 * MS), LG_SAY_NOTHING);	/* nothing was ever heard */
	answer(&s, false, T0 + 150 * MS);
	send(&s, 32, T0 + 1 * S);
	assert_int_equal(check(&s, &cramped, T0 + 1019 * MS), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &cramped, T0 + 1020 * MS), LG_SAY_REQUEST);
	need.cramped = false;
	assert_int_equal(check(&s, &need, T0 + 1020 * MS), LG_SAY_NOTHING);
	need = cramped;
	need.unreported_tok = 0;
	assert_int_equal(check(&s, &need, T0 + 1020 * MS), LG_SAY_NOTHING);
	need.target_tok = 64;	/* a thirty-second of it */
	need.unreported_tok = 1;
	assert_int_equal(check(&s, &need, T0 + 1020 * MS), LG_SAY_NOTHING);
	need.unreported_tok = 2;
	assert_int_equal(check(&s, &need, T0 + 1020 * MS), LG_SAY_REQUEST);
	need.own_tok = 24;	/* not low */
	assert_int_equal(check(&s, &need, T0 + 1020 * MS), LG_SAY_NOTHING);
	send(&s, 32, T0 + 1030 * MS);
	assert_int_equal(check(&s, &cramped, T0 + 1049 * MS), LG_SAY_NOTHING);	/* the least gap between them too */
	assert_int_equal(check(&s, &cramped, T0 + 1050 * MS), LG_SAY_REQUEST);
}

TEST(an_extra_message_takes_a_number_and_the_awaited_one_keeps_its_time)
{
	uint64_t awaited, first, second;
	struct script s;

	met(&s, 32, false, 160 * MS);
	awaited = send(&s, 32, T0 + 1 * S);
	first = send(&s, 32, T0 + 1048 * MS);
	second = send(&s, 32, T0 + 1096 * MS);
	assert_int_equal(second, awaited + 2);
	assert_int_equal(answered(&s, awaited - 1, true, T0 + 1100 * MS), 0);	/* a push: nothing new about time */
	assert_int_equal(answered(&s, awaited, true, T0 + 1080 * MS), T0 + 1 * S);
	assert_int_equal(s.u.rtt_ns, 150 * MS);
	/* the last extra one is the awaited one now, and no later than it was; one before it says nothing about time */
	assert_int_equal(answered(&s, first, true, T0 + 1200 * MS), 0);
	assert_in_range(answered(&s, second, true, T0 + 1246 * MS), T0 + 1096 * MS - 20000, T0 + 1096 * MS);
	assert_in_range(s.u.rtt_ns, 150 * MS, 150 * MS + 20000);
	assert_false(s.a.awaits);
}

TEST(an_answer_to_an_extra_message_answers_the_awaited_one_and_measures_nothing)
{
	uint64_t extra;
	struct script s;

	met(&s, 32, false, 160 * MS);
	send(&s, 32, T0 + 1 * S);
	extra = send(&s, 32, T0 + 1100 * MS);
	assert_int_equal(answered(&s, extra, true, T0 + 1240 * MS), T0 + 1 * S);
	assert_int_equal(s.u.rtt_ns, 160 * MS);
	assert_false(s.a.awaits);
}

TEST(once_the_awaited_answer_is_late_there_are_no_extra_messages)
{
	struct script s;

	met(&s, 32, false, 100 * MS);
	send(&s, 32, T0 + 1 * S);
	send(&s, 32, T0 + 1160 * MS);
	assert_int_equal(s.a.n_extra, 1);
	assert_int_equal(check(&s, &low, T0 + 1170 * MS - 1), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &low, T0 + 1170 * MS), LG_SAY_REQUEST);	/* counted from the awaited one */
	send(&s, 32, T0 + 1170 * MS);
	assert_int_equal(s.a.n_extra, 0);
	assert_int_equal(s.a.n_tries, 1);
	assert_int_equal(check(&s, &cramped, T0 + 1300 * MS), LG_SAY_NOTHING);
	/* the last news is awaited: lost, it is told again */
	met(&s, 32, false, 100 * MS);
	send(&s, 32, T0 + 1 * S);
	send(&s, 32, T0 + 1048 * MS);
	answered(&s, 100 + s.a.n_sent - 1, true, T0 + 1100 * MS);
	assert_true(s.a.awaits);
	assert_int_equal(check(&s, &low, T0 + 1217 * MS), LG_SAY_NOTHING);
	assert_int_equal(check(&s, &low, T0 + 1218 * MS), LG_SAY_REQUEST);
}

TEST(extra_messages_are_no_more_than_can_be_counted)
{
	struct script s;

	met(&s, 32, false, 900 * MS);
	send(&s, 32, T0 + 1 * S);
	for (uint64_t i = 1; i <= 63; i++)
		send(&s, 32, T0 + 1 * S + i * 10 * MS);
	assert_int_equal(s.a.n_extra, 63);
	assert_int_equal(s.a.n_tries, 0);
	assert_int_equal(check(&s, &cramped, T0 + 1700 * MS), LG_SAY_NOTHING);
	/* a new stream: the last message is remembered, nothing is awaited */
	lg_asker_up(&s.a, &s.u);
	assert_int_equal(s.a.n_extra, 0);
	assert_in_range(lg_asker_sent_ns(&s.a), T0 + 1630 * MS - 20000, T0 + 1630 * MS);
}

TEST(after_a_partial_answer_a_part_is_enough_where_little_may_be_out)
{
	struct lg_asker_need need = cramped;
	struct script s;

	met(&s, 32, true, 2 * MS);
	need.unreported_tok = 7;
	assert_int_equal(check(&s, &need, T0 + 100 * MS), LG_SAY_NOTHING);
	need.unreported_tok = 8;
	assert_int_equal(check(&s, &need, T0 + 100 * MS), LG_SAY_REQUEST);
	need.part_tok = 0;
	assert_int_equal(check(&s, &need, T0 + 100 * MS), LG_SAY_NOTHING);
}

TEST(a_large_fleet_does_not_come_back_all_at_once)
{
	static const struct { uint32_t hosts; uint64_t most_ns; } rows[] = {
		{ 1, 0 }, { 64, 0 }, { 65, 455 * MS }, { 1000, 7 * S }, { 100000, 10 * S },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t most_ns = 0, per_tenth[10] = { 0 };

		for (uint64_t seed = 0; seed < 1000; seed++) {
			uint64_t ns = lg_upstream_spread_ns(rows[i].hosts, seed);

			assert_int_equal(lg_upstream_spread_ns(rows[i].hosts, seed), ns);
			most_ns = ns > most_ns ? ns : most_ns;
			if (rows[i].most_ns)
				per_tenth[ns * 10 / rows[i].most_ns]++;
		}
		assert_true(most_ns <= rows[i].most_ns && most_ns >= rows[i].most_ns * 9 / 10);
		for (size_t t = 0; t < 10 && rows[i].most_ns; t++)
			assert_in_range(per_tenth[t], 70, 130);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_low_asks_at_once_and_who_is_not_waits_for_the_end_of_the_period),
		cmocka_unit_test(periods_are_jittered_and_each_stays_as_it_is),
		cmocka_unit_test(an_unanswered_message_counts_as_lost_after_a_round_trip_and_a_fifth),
		cmocka_unit_test(after_a_partial_answer_it_waits_for_the_push_unless_there_is_news),
		cmocka_unit_test(a_push_that_fills_the_want_ends_the_waiting),
		cmocka_unit_test(a_kept_lease_is_prolonged_now_and_then),
		cmocka_unit_test(nothing_is_said_to_a_lessor_whom_the_last_message_has_not_reached),
		cmocka_unit_test(an_answer_is_awaited_from_when_the_message_has_reached_the_lessor),
		cmocka_unit_test(a_lessor_with_a_crowd_of_holders_is_given_some_more_time),
		cmocka_unit_test(while_the_lessor_is_recovering_a_need_that_grew_is_no_reason_to_ask_again),
		cmocka_unit_test(refused_it_keeps_quiet_for_about_a_second),
		cmocka_unit_test(a_recovering_lessor_is_waited_for),
		cmocka_unit_test(the_time_of_sending_is_known_for_the_last_two_messages),
		cmocka_unit_test(the_round_trip_is_measured_by_the_first_answer_to_each_of_the_last_two),
		cmocka_unit_test(a_grant_of_another_life_of_lessor_or_memory_is_not_for_us),
		cmocka_unit_test(down_it_says_nothing),
		cmocka_unit_test(why_somebody_is_refused_is_what_the_lessor_last_said_or_that_it_said_nothing),
		cmocka_unit_test(where_little_may_be_out_what_was_spent_is_told_while_the_answer_is_awaited),
		cmocka_unit_test(an_extra_message_takes_a_number_and_the_awaited_one_keeps_its_time),
		cmocka_unit_test(an_answer_to_an_extra_message_answers_the_awaited_one_and_measures_nothing),
		cmocka_unit_test(once_the_awaited_answer_is_late_there_are_no_extra_messages),
		cmocka_unit_test(extra_messages_are_no_more_than_can_be_counted),
		cmocka_unit_test(after_a_partial_answer_a_part_is_enough_where_little_may_be_out),
		cmocka_unit_test(a_large_fleet_does_not_come_back_all_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
