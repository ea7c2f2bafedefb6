// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/ledger.h"

#include <errno.h>

#include "lease/arith.h"
#include "tests/unit/lease/lease_test.h"

/* Only the grace and the chance of a lessor matter here. */
static const struct lg_terms terms = { .grace_ns = 1 * S };
static struct lg_lessor lessor;

static void begin(struct lg_ledger *l, uint64_t seed)
{
	lessor = lessor_of(&terms, seed);
	lg_ledger_init(l);
}

static struct lg_holder *open_holder(struct lg_ledger *l, uint32_t index)
{
	struct lg_holder *h;

	assert_true(lg_ledger_open(l, index, 1, 0, &h) >= 0);
	return h;
}

/* Holder `index` asks for want_tok with message seq; answered, so that its lease runs. */
static void ask(struct lg_ledger *l, uint32_t index, uint64_t seq, uint64_t want_tok)
{
	struct lg_ask a = request_of(seq, want_tok);
	struct lg_holder *h = open_holder(l, index);
	struct lg_grant grant;
	struct lg_news news;

	a.generation = h->granted_tok ? h->generation : 0;
	a.granted_tok = h->granted_tok;
	a.spent_tok = h->spent_tok;
	a.returned_tok = lg_holder_returned_tok(h);
	assert_int_equal(lg_ledger_ask(l, h, 1, &a, T0, &news), LG_LEDGER_BOOKED);
	lg_ledger_grant(l, &lessor, h, 10 * S, &grant);
}

static uint64_t given(const struct lg_ledger *l, uint32_t index)
{
	return lg_holder_outstanding_tok(lg_ledger_find(l, index));
}

TEST(the_free_pool_is_divided_max_min_fair)
{
	static const struct { uint64_t want[3], free_tok, got[3]; } rows[] = {
		{ { 10, 50, 200 }, 90, { 10, 40, 40 } },
		{ { 10, 50, 200 }, 260, { 10, 50, 200 } },
		{ { 10, 50, 200 }, 1000, { 10, 50, 200 } },
		{ { 10, 50, 200 }, 12, { 4, 4, 4 } },
		{ { 3, 3, 3 }, 9, { 3, 3, 3 } },
		{ { 0, 5, 0 }, 3, { 0, 3, 0 } },
		{ { 1, 1000, 1ull << 40 }, 1ull << 39, { 1, 1000, (1ull << 39) - 1001 } },
		{ { 10, 50, 200 }, 0, { 0, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ledger l;
		uint64_t sum = 0;

		begin(&l, 1);
		for (uint32_t h = 0; h < 3; h++)
			ask(&l, h, 1, rows[i].want[h]);
		for (uint32_t h = 0; h < 3; h++)
			sum += rows[i].got[h];
		assert_int_equal(lg_ledger_divide(&l, &lessor, rows[i].free_tok, NULL, T0, NULL, NULL), sum);
		for (uint32_t h = 0; h < 3; h++)
			assert_int_equal(given(&l, h), rows[i].got[h]);
		assert_int_equal(l.outstanding_tok, sum);
		lg_ledger_fini(&l);
	}
}

TEST(the_last_tokens_go_round_from_a_random_start_that_the_seed_decides)
{
	uint32_t n[3] = { 0 };

	for (uint64_t seed = 0; seed < 300; seed++) {
		uint32_t first = 3;

		for (int again = 0; again < 2; again++) {
			struct lg_ledger l;

			begin(&l, seed);
			for (uint32_t h = 0; h < 3; h++)
				ask(&l, h, 1, 10);
			assert_int_equal(lg_ledger_divide(&l, &lessor, 1, NULL, T0, NULL, NULL), 1);
			for (uint32_t h = 0; h < 3; h++)
				if (given(&l, h)) {
					assert_true(!again || first == h);
					first = h;
				}
			lg_ledger_fini(&l);
		}
		n[first]++;
	}
	for (uint32_t h = 0; h < 3; h++)
		assert_in_range(n[h], 70, 130);
}

/* Against sorting: many holders, and nothing is lost or made. */
TEST(many_holders_are_served_alike)
{
	uint64_t rand = 5;

	for (int run = 0; run < 40; run++) {
		uint32_t n = 1 + (uint32_t)(lg_rand_next(&rand) % 200);
		uint64_t free_tok = lg_rand_next(&rand) % 20000, least = UINT64_MAX, most = 0, sum = 0;
		struct lg_ledger l;

		begin(&l, rand);
		for (uint32_t h = 0; h < n; h++)
			ask(&l, h, 1, 1 + lg_rand_next(&rand) % (1ull << (lg_rand_next(&rand) % 12)));
		sum = lg_ledger_divide(&l, &lessor, free_tok, NULL, T0, NULL, NULL);
		assert_int_equal(sum, lg_min_u64(free_tok, l.want_tok));
		assert_int_equal(sum, l.outstanding_tok);
		for (uint32_t h = 0; h < n; h++) {
			const struct lg_holder *holder = lg_ledger_find(&l, h);

			assert_true(given(&l, h) <= holder->want_tok);
			most = lg_max_u64(most, given(&l, h));
			if (given(&l, h) < holder->want_tok)
				least = lg_min_u64(least, given(&l, h));
		}
		/* Nobody who is short has less than another, but for the odd token. */
		assert_true(least == UINT64_MAX || most <= least + 1);
		lg_ledger_fini(&l);
	}
}

TEST(a_holder_whose_lease_is_about_to_end_gets_nothing)
{
	struct lg_ledger l;

	begin(&l, 1);
	ask(&l, 0, 1, 10);
	assert_int_equal(lg_ledger_divide(&l, &lessor, 10, NULL, T0 + 10 * S, NULL, NULL), 0);
	assert_int_equal(lg_ledger_divide(&l, &lessor, 10, NULL, T0 + 10 * S - 1, NULL, NULL), 10);
	lg_ledger_fini(&l);
}

TEST(a_holder_may_be_capped_below_its_want)
{
	uint64_t most_tok[] = { 30, UINT64_MAX };
	struct lg_ledger l;

	begin(&l, 1);
	ask(&l, 0, 1, 100);
	ask(&l, 1, 1, 100);
	assert_int_equal(lg_ledger_divide(&l, &lessor, 100, most_tok, T0, NULL, NULL), 100);
	assert_int_equal(given(&l, 0), 30);
	assert_int_equal(given(&l, 1), 70);
	most_tok[0] = 10;	/* less than it has: no more, and none back */
	assert_int_equal(lg_ledger_divide(&l, &lessor, 100, most_tok, T0, NULL, NULL), 30);
	assert_int_equal(given(&l, 0), 30);
	lg_ledger_fini(&l);
}

static void granted(struct lg_ledger *l, uint64_t tok)
{
	struct lg_grant grant;

	ask(l, 0, 1, tok);
	assert_int_equal(lg_ledger_divide(l, &lessor, tok, NULL, T0, NULL, NULL), tok);
	lg_ledger_grant(l, &lessor, lg_ledger_find(l, 0), 10 * S, &grant);
	assert_int_equal(grant.generation, 1);
	assert_int_equal(grant.granted_tok, tok);
}

TEST(the_level_is_where_stocks_are_even)
{
	static const struct { uint64_t want[3], tok, level; } rows[] = {
		{ { 10, 50, 200 }, 90, 41 },	/* 10, 40, 40 */
		{ { 100, 100, 100 }, 90, 31 },	{ { 100, 100, 100 }, 92, 31 }, { { 5, 5, 200 }, 110, 101 },
		{ { 0, 0, 7 }, 3, 4 },		{ { 9, 9, 9 }, 0, 1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ledger l;

		begin(&l, i);
		for (uint32_t h = 0; h < 3; h++)
			ask(&l, h, 1, rows[i].want[h]);
		assert_int_equal(lg_ledger_level_tok(&l, rows[i].tok), rows[i].level);
		lg_ledger_fini(&l);
	}
}

TEST(totals_tell_how_much_and_slots_tell_when)
{
	static const struct {
		uint64_t spent_tok;
		size_t n_slots;
		struct lg_slot slots[3];
		size_t n_parts;
		struct { uint64_t tok, age_ms; } parts[3];
	} rows[] = {
		/* all in slots */
		{ 30, 2, { { 1, 500, 10 }, { 2, 100, 20 } }, 2, { { 20, 100 }, { 10, 500 } } },
		/* no slots: now */
		{ 30, 0, { { 0 } }, 1, { { 30, 0 } } },
		/* the rest: now */
		{ 30, 1, { { 1, 500, 10 } }, 2, { { 10, 500 }, { 20, 0 } } },
		/* slots say too much: the youngest count */
		{ 15, 2, { { 1, 500, 10 }, { 2, 100, 20 } }, 1, { { 15, 100 } } },
		/* out of order: still the youngest */
		{ 15, 2, { { 1, 100, 20 }, { 2, 500, 10 } }, 1, { { 15, 100 } } },
		/* empty slots */
		{ 5, 3, { { 1, 9, 0 }, { 2, 8, 5 }, { 3, 7, 0 } }, 1, { { 5, 8 } } },
		/* more than was granted is not believed */
		{ 100, 0, { { 0 } }, 1, { { 40, 0 } } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ask a = report_of(2, 1, 100, rows[i].spent_tok, 0);
		struct lg_ledger l;
		struct lg_news news;

		begin(&l, 1);
		granted(&l, 40);
		a.n_slots = rows[i].n_slots;
		memcpy(a.slots, rows[i].slots, sizeof(rows[i].slots));
		assert_int_equal(lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news), LG_LEDGER_BOOKED);
		assert_int_equal(news.n_parts, rows[i].n_parts);
		for (size_t j = 0; j < news.n_parts; j++) {
			assert_int_equal(news.parts[j].tok, rows[i].parts[j].tok);
			assert_int_equal(news.parts[j].age_ms, rows[i].parts[j].age_ms);
		}
		assert_int_equal(news.lapsed_tok, 0);
		assert_int_equal(l.outstanding_tok, 40 - news.spent_tok);
		lg_ledger_fini(&l);
	}
}

TEST(a_slot_is_booked_once)
{
	struct lg_ask a = report_of(2, 1, 40, 10, 0);
	struct lg_ledger l;
	struct lg_news news;

	begin(&l, 1);
	granted(&l, 40);
	a.n_slots = 1;
	a.slots[0] = (struct lg_slot){ 5, 300, 10 };
	lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news);
	assert_int_equal(news.parts[0].age_ms, 300);
	/* the answer was lost: the slot comes again, older, with a new one that covers half of what is new */
	a.seq = 3;
	a.spent_tok = 20;
	a.n_slots = 2;
	a.slots[0].age_ms = 400;
	a.slots[1] = (struct lg_slot){ 6, 50, 5 };
	lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news);
	assert_int_equal(news.n_parts, 2);
	assert_int_equal(news.parts[0].tok, 5);
	assert_int_equal(news.parts[0].age_ms, 50);
	assert_int_equal(news.parts[1].tok, 5);
	assert_int_equal(news.parts[1].age_ms, 0);
	assert_int_equal(lg_ledger_find(&l, 0)->slot, 6);
	lg_ledger_fini(&l);
}

TEST(loss_repetition_and_reordering_leave_the_same_books)
{
	uint64_t rand = 11;

	for (int run = 0; run < 200; run++) {
		struct lg_ask v[20];
		uint64_t spent_tok = 0, returned_tok = 0, booked_tok = 0;
		struct lg_ledger l;
		struct lg_news news;

		begin(&l, 1);
		granted(&l, 1000);
		for (uint64_t i = 0; i < 20; i++) {
			spent_tok += lg_rand_next(&rand) % 25;
			returned_tok += lg_rand_next(&rand) % 25;
			v[i] = report_of(2 + i, 1, 1000, spent_tok, returned_tok);
			v[i].n_slots = 1;
			v[i].slots[0] = (struct lg_slot){ i + 1, lg_rand_next(&rand) % 1000, lg_rand_next(&rand) % 50 };
		}
		for (size_t i = 0; i < 60; i++) {
			lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &v[lg_rand_next(&rand) % 20], T0, &news);
			booked_tok += news.spent_tok;
		}
		lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &v[19], T0, &news);
		booked_tok += news.spent_tok;
		assert_int_equal(booked_tok, spent_tok);
		assert_int_equal(l.outstanding_tok, 1000 - spent_tok - returned_tok);
		lg_ledger_fini(&l);
	}
}

TEST(totals_never_fall)
{
	struct lg_ask a = report_of(2, 1, 40, 20, 10);
	struct lg_ledger l;
	struct lg_news news;

	begin(&l, 1);
	granted(&l, 40);
	lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news);
	a = report_of(3, 1, 40, 15, 5);
	lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news);
	assert_int_equal(news.spent_tok, 0);
	assert_int_equal(l.outstanding_tok, 10);
	/* spent and returned together never exceed what was granted */
	a = report_of(4, 1, 100, 35, 60);
	lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news);
	assert_int_equal(news.spent_tok, 10);
	assert_int_equal(l.outstanding_tok, 0);
	lg_ledger_fini(&l);
}

TEST(a_lapse_is_final_and_what_belongs_to_it_is_void)
{
	struct lg_ask late = report_of(2, 1, 40, 25, 15), now = report_of(3, 2, 0, 0, 0);
	struct lg_ledger l;
	struct lg_news news;
	struct lg_holder *h;

	begin(&l, 1);
	granted(&l, 40);
	h = lg_ledger_find(&l, 0);
	assert_int_equal(lg_ledger_lapse(&l, h), 40);
	assert_int_equal(h->generation, 2);
	assert_int_equal(l.outstanding_tok, 0);
	assert_int_equal(l.want_tok, 0);
	lg_ledger_give(&l, h, 30);	/* of the new one */
	late.request = true;
	late.want_tok = 37;
	late.demand_mtps = 500;
	assert_int_equal(lg_ledger_ask(&l, h, 1, &late, T0, &news), LG_LEDGER_BOOKED);
	assert_int_equal(news.spent_tok + news.lapsed_tok, 0);
	assert_int_equal(lg_holder_outstanding_tok(h), 30);
	/* what it wants counts */
	assert_int_equal(l.want_tok, 37);
	assert_int_equal(l.demand_mtps, 500);
	assert_int_equal(lg_ledger_ask(&l, h, 1, &now, T0, &news), LG_LEDGER_BOOKED);
	assert_int_equal(h->generation, 2);
	lg_ledger_fini(&l);
}

TEST(a_lease_that_is_empty_does_not_lapse)
{
	struct lg_ask a = report_of(2, 1, 40, 30, 10);
	struct lg_ledger l;
	struct lg_news news;

	begin(&l, 1);
	granted(&l, 40);
	lg_ledger_ask(&l, lg_ledger_find(&l, 0), 1, &a, T0, &news);
	assert_int_equal(lg_ledger_lapse(&l, lg_ledger_find(&l, 0)), 0);
	assert_int_equal(lg_ledger_find(&l, 0)->generation, 1);
	lg_ledger_fini(&l);
}

TEST(a_new_life_of_a_holder_lapses_its_old_lease_and_an_old_one_is_not_heard)
{
	struct lg_ask reborn = request_of(1, 10), old = report_of(9, 1, 40, 40, 0);
	struct lg_ledger l;
	struct lg_news news;
	struct lg_holder *h;

	begin(&l, 1);
	granted(&l, 40);
	h = lg_ledger_find(&l, 0);
	assert_int_equal(lg_ledger_ask(&l, h, 2, &reborn, T0, &news), LG_LEDGER_BOOKED);
	assert_int_equal(news.lapsed_tok, 40);
	assert_int_equal(h->generation, 2);
	assert_int_equal(h->seq, 1);
	assert_int_equal(lg_ledger_ask(&l, h, 1, &old, T0, &news), LG_LEDGER_STALE);
	assert_int_equal(news.spent_tok, 0);
	assert_int_equal(h->seq, 1);
	lg_ledger_fini(&l);
}

TEST(a_holder_that_forgot_the_key_starts_a_new_lease_and_one_that_never_heard_is_told_again)
{
	struct lg_ask retry = request_of(2, 40), forgot = request_of(3, 40);
	struct lg_ledger l;
	struct lg_news news;
	struct lg_holder *h;

	begin(&l, 1);
	granted(&l, 40);
	h = lg_ledger_find(&l, 0);
	lg_ledger_ask(&l, h, 1, &retry, T0, &news);
	assert_int_equal(news.lapsed_tok, 0);
	assert_int_equal(h->generation, 1);
	assert_int_equal(h->granted_tok, 40);
	forgot.life = 3;
	lg_ledger_ask(&l, h, 1, &forgot, T0, &news);
	assert_int_equal(news.lapsed_tok, 40);
	assert_int_equal(h->generation, 2);
	assert_int_equal(h->granted_tok, 0);
	lg_ledger_fini(&l);
}

TEST(a_lease_nobody_here_knows_is_followed_by_a_new_one)
{
	struct lg_ask a = report_of(5, 7, 100, 60, 0);
	struct lg_ledger l;
	struct lg_news news;
	struct lg_holder *h;

	begin(&l, 1);
	assert_int_equal(lg_ledger_open(&l, 3, 1, a.generation, &h), 1);
	assert_int_equal(lg_ledger_ask(&l, h, 1, &a, T0, &news), LG_LEDGER_BOOKED);
	assert_int_equal(h->generation, 8);
	assert_int_equal(news.spent_tok, 0);
	assert_int_equal(l.outstanding_tok, 0);
	/* also when an account is there already, of an earlier lease */
	lg_ledger_give(&l, h, 5);
	a = report_of(6, 12, 100, 60, 0);
	lg_ledger_ask(&l, h, 1, &a, T0, &news);
	assert_int_equal(h->generation, 13);
	assert_int_equal(news.lapsed_tok, 5);
	lg_ledger_fini(&l);
}

static void note_lapse(void *arg, struct lg_holder *h, uint64_t tok)
{
	uint64_t *sum = arg;

	(void)h;
	*sum += tok;
}

TEST(leases_end_each_at_its_time_and_the_scan_knows_when)
{
	struct lg_ledger l;
	uint64_t sum = 0;
	struct lg_grant grant;

	begin(&l, 1);
	for (uint32_t i = 0; i < 3; i++) {
		ask(&l, i, 1, 10 + i);
		lg_ledger_give(&l, lg_ledger_find(&l, i), 10 + i);
		lg_ledger_find(&l, i)->ends_ms = 0;
		lg_ledger_grant(&l, &lessor, lg_ledger_find(&l, i), i * S, &grant);	/* and a second of grace */
	}
	assert_int_equal(l.end_ns, T0 + 1 * S);
	lg_ledger_expire(&l, T0 + 1 * S - 1, note_lapse, &sum);
	assert_int_equal(sum, 0);
	lg_ledger_expire(&l, T0 + 1 * S, note_lapse, &sum);
	assert_int_equal(sum, 10);
	assert_int_equal(l.end_ns, T0 + 2 * S);
	lg_ledger_expire(&l, T0 + 3 * S, note_lapse, &sum);
	assert_int_equal(sum, 33);
	assert_int_equal(l.end_ns, UINT64_MAX);
	lg_ledger_fini(&l);
}

TEST(a_push_does_not_prolong_beyond_the_last_message)
{
	struct lg_ledger l;
	struct lg_grant grant;
	struct lg_holder *h;

	begin(&l, 1);
	ask(&l, 0, 1, 10);
	h = lg_ledger_find(&l, 0);
	assert_int_equal(lg_holder_expires_ns(h), T0 + 11 * S);
	lg_ledger_give(&l, h, 10);
	lg_ledger_grant(&l, &lessor, h, 10 * S, &grant);	/* whenever that is */
	assert_int_equal(grant.ack_seq, 1);
	assert_int_equal(grant.ttl_ms, 10000);
	assert_int_equal(lg_holder_expires_ns(h), T0 + 11 * S);
	lg_ledger_grant(&l, &lessor, h, 4 * S, &grant);	/* a shorter life takes nothing back */
	assert_int_equal(lg_holder_expires_ns(h), T0 + 11 * S);
	lg_ledger_fini(&l);
}

TEST(an_outgoing_grant_says_whether_more_will_come)
{
	struct lg_ledger l;
	struct lg_grant grant;
	struct lg_holder *h;

	begin(&l, 1);
	lessor.epoch = 7;
	ask(&l, 0, 1, 10);
	h = lg_ledger_find(&l, 0);
	lg_ledger_give(&l, h, 9);
	lg_ledger_grant(&l, &lessor, h, 10 * S, &grant);
	assert_true(grant.partial);
	lg_ledger_give(&l, h, 1);
	lg_ledger_grant(&l, &lessor, h, 10 * S, &grant);
	assert_false(grant.partial);
	assert_int_equal(grant.epoch, 7);
	assert_int_equal(grant.granted_tok, 10);
	lg_ledger_fini(&l);
}

TEST(holders_are_bounded)
{
	struct lg_ledger l;
	struct lg_holder *h;

	begin(&l, 1);
	assert_int_equal(lg_ledger_open(&l, LG_HOLDERS_MAX, 1, 0, &h), -EINVAL);
	for (uint32_t i = LG_HOLDERS_MAX; i-- > 0;)
		assert_int_equal(lg_ledger_open(&l, i * 7 % LG_HOLDERS_MAX, 1, 0, &h), 1);
	for (uint32_t i = 0; i < LG_HOLDERS_MAX; i++)
		assert_int_equal(lg_ledger_find(&l, i)->index, i);
	assert_int_equal(l.n, LG_HOLDERS_MAX);
	lg_ledger_fini(&l);
}

TEST(messages_out_of_bounds_are_not_processed)
{
	const struct lg_ask good = report_of(1, 1, 100, 60, 40);
	struct lg_ask a;

	assert_true(lg_ask_is_sane(&good));
#define REFUSED(field, value)                                                                                         \
	do {                                                                                                          \
		a = good;                                                                                             \
		a.field = (value);                                                                                    \
		assert_false(lg_ask_is_sane(&a));                                                                     \
	} while (0)
	REFUSED(seq, 0);
	REFUSED(n_slots, LG_SLOTS_MAX + 1);
	REFUSED(n_history, LG_HISTORY_MAX + 1);
	REFUSED(granted_tok, 99);
	REFUSED(spent_tok, 61);
	REFUSED(returned_tok, 41);
	REFUSED(spent_tok, UINT64_MAX - 30);
	REFUSED(granted_tok, (1ull << 62) + 1);
	REFUSED(granted_tok, 100 + LG_BURST_MAX_TOK + 1);
	REFUSED(demand_mtps, UINT64_MAX);
	REFUSED(generation, UINT32_MAX);
#undef REFUSED
}

TEST(all_is_known_when_the_listed_have_spoken_of_this_key_or_of_all)
{
	_cleanup_(lg_succession_free) struct lg_succession *s = NULL;
	struct lg_ledger l;

	assert_int_equal(lg_succession_new(T0, &s), 0);
	begin(&l, 1);
	assert_true(lg_ledger_knows_all(&l, s));
	assert_int_equal(lg_succession_list(s, 1), 0);
	assert_int_equal(lg_succession_list(s, 1), 0);
	assert_int_equal(lg_succession_list(s, 4), 0);
	assert_int_equal(lg_succession_list(s, LG_HOLDERS_MAX), -EINVAL);
	assert_int_equal(lg_succession_missing(s), 2);
	assert_false(lg_ledger_knows_all(&l, s));
	ask(&l, 1, 1, 5);
	ask(&l, 2, 1, 5);	/* a stranger */
	assert_false(lg_ledger_knows_all(&l, s));
	lg_succession_synced(s, 4);
	lg_succession_synced(s, 4);
	lg_succession_synced(s, 2);
	assert_int_equal(lg_succession_missing(s), 1);
	assert_true(lg_ledger_knows_all(&l, s));
	lg_succession_synced(s, 1);
	assert_true(lg_ledger_knows_all(&l, s));
	assert_false(lg_succession_is_synced(s, 2));
	assert_true(lg_succession_is_synced(s, 1));
	lg_ledger_fini(&l);
}

TEST(demands_below_an_equal_part_are_met_whole_and_the_rest_goes_to_who_wants_more)
{
	static const struct { size_t n; uint64_t want[9], free_tok, got[9]; } rows[] = {
		{ 9, { 1, 5, 1, 30, 15, 1, 100, 1, 1 }, 100, { 1, 5, 1, 30, 15, 1, 45, 1, 1 } },
		{ 2, { 90, 10 }, 120, { 90, 10 } },
		{ 2, { 90, 10 }, 100, { 90, 10 } },
		{ 2, { 90, 10 }, 99, { 89, 10 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ledger l;

		begin(&l, 1);
		for (uint32_t h = 0; h < rows[i].n; h++)
			ask(&l, h, 1, rows[i].want[h]);
		lg_ledger_divide(&l, &lessor, rows[i].free_tok, NULL, T0, NULL, NULL);
		for (uint32_t h = 0; h < rows[i].n; h++)
			assert_int_equal(given(&l, h), rows[i].got[h]);
		lg_ledger_fini(&l);
	}
}

TEST(who_has_more_hosts_behind_it_gets_more_where_there_is_too_little)
{
	static const struct { uint64_t want[3], free_tok, got[3]; uint32_t hosts[3]; } rows[] = {
		{ { 100, 100, 100 }, 50, { 10, 30, 10 }, { 1, 3, 0 } },		/* none told counts as one */
		{ { 5, 100, 100 }, 45, { 5, 30, 10 }, { 7, 3, 1 } },		/* not more than it wants */
		{ { 1000, 1000, 0 }, 256, { 255, 1, 0 }, { 4000, 1, 9 } },	/* the most that counts */
		{ { 100, 100, 100 }, 300, { 100, 100, 100 }, { 200, 3, 1 } },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ledger l;

		begin(&l, 1);
		for (uint32_t h = 0; h < 3; h++) {
			struct lg_ask a = request_of(1, rows[i].want[h]);
			struct lg_grant grant;
			struct lg_news news;

			a.hosts = rows[i].hosts[h];
			lg_ledger_ask(&l, open_holder(&l, h), 1, &a, T0, &news);
			lg_ledger_grant(&l, &lessor, lg_ledger_find(&l, h), 10 * S, &grant);
		}
		lg_ledger_divide(&l, &lessor, rows[i].free_tok, NULL, T0, NULL, NULL);
		for (uint32_t h = 0; h < 3; h++)
			assert_int_equal(given(&l, h), rows[i].got[h]);
		lg_ledger_fini(&l);
	}
}

TEST(odd_tokens_are_all_given_whatever_the_weights)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct lg_ledger l;

		begin(&l, seed);
		for (uint32_t h = 0; h < 4; h++) {
			struct lg_ask a = request_of(1, 1000);
			struct lg_grant grant;
			struct lg_news news;

			a.hosts = 1 + 50 * h;
			lg_ledger_ask(&l, open_holder(&l, h), 1, &a, T0, &news);
			lg_ledger_grant(&l, &lessor, lg_ledger_find(&l, h), 10 * S, &grant);
		}
		assert_int_equal(lg_ledger_hosts(&l, &(struct lg_terms){ .budget_tok = 32, .hosts = 4 }), 4 + 50 * 6);
		assert_int_equal(lg_ledger_hosts(&l, &(struct lg_terms){ .budget_tok = 31, .hosts = 4 }), 1);
		assert_int_equal(lg_ledger_divide(&l, &lessor, 303, NULL, T0, NULL, NULL), 303);
		assert_int_equal(lg_ledger_divide(&l, &lessor, 305, NULL, T0, NULL, NULL), 305);
		lg_ledger_fini(&l);
	}
}

TEST(an_account_is_found_wherever_it_stands)
{
	struct lg_ledger l;

	begin(&l, 1);
	for (uint32_t i = 0; i < 40; i++)
		open_holder(&l, i * 5 % 41 + 3);
	for (uint32_t i = 0; i < 50; i++) {
		const struct lg_holder *h = lg_ledger_find(&l, i);

		assert_int_equal(h != NULL, i >= 3 && i < 44 && i != 39);
		assert_true(!h || h->index == i);
	}
	lg_ledger_fini(&l);
}

TEST(the_end_of_a_lease_is_never_told_too_early)
{
	struct lg_ledger l;
	struct lg_holder *h;
	struct lg_news news;

	begin(&l, 1);
	ask(&l, 0, 1, 10);
	h = lg_ledger_find(&l, 0);
	lg_ledger_prolong(&l, h, 10 * S + 1, 0);	/* no later than with the grace it had */
	assert_int_equal(lg_holder_expires_ns(h), T0 + 11 * S);
	for (uint64_t seq = 2; seq < 5; seq++) {
		struct lg_ask a = request_of(seq, 10);

		lg_ledger_ask(&l, h, 1, &a, T0 + seq * 1000001, &news);
		assert_in_range(lg_holder_expires_ns(h), T0 + 11 * S, T0 + 11 * S + 3 * MS);
	}
	lg_ledger_fini(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_free_pool_is_divided_max_min_fair),
		cmocka_unit_test(the_last_tokens_go_round_from_a_random_start_that_the_seed_decides),
		cmocka_unit_test(many_holders_are_served_alike),
		cmocka_unit_test(a_holder_whose_lease_is_about_to_end_gets_nothing),
		cmocka_unit_test(a_holder_may_be_capped_below_its_want),
		cmocka_unit_test(the_level_is_where_stocks_are_even),
		cmocka_unit_test(totals_tell_how_much_and_slots_tell_when),
		cmocka_unit_test(a_slot_is_booked_once),
		cmocka_unit_test(loss_repetition_and_reordering_leave_the_same_books),
		cmocka_unit_test(totals_never_fall),
		cmocka_unit_test(a_lapse_is_final_and_what_belongs_to_it_is_void),
		cmocka_unit_test(a_lease_that_is_empty_does_not_lapse),
		cmocka_unit_test(a_new_life_of_a_holder_lapses_its_old_lease_and_an_old_one_is_not_heard),
		cmocka_unit_test(a_holder_that_forgot_the_key_starts_a_new_lease_and_one_that_never_heard_is_told_again),
		cmocka_unit_test(a_lease_nobody_here_knows_is_followed_by_a_new_one),
		cmocka_unit_test(leases_end_each_at_its_time_and_the_scan_knows_when),
		cmocka_unit_test(a_push_does_not_prolong_beyond_the_last_message),
		cmocka_unit_test(an_outgoing_grant_says_whether_more_will_come),
		cmocka_unit_test(holders_are_bounded),
		cmocka_unit_test(messages_out_of_bounds_are_not_processed),
		cmocka_unit_test(all_is_known_when_the_listed_have_spoken_of_this_key_or_of_all),
		cmocka_unit_test(demands_below_an_equal_part_are_met_whole_and_the_rest_goes_to_who_wants_more),
		cmocka_unit_test(who_has_more_hosts_behind_it_gets_more_where_there_is_too_little),
		cmocka_unit_test(odd_tokens_are_all_given_whatever_the_weights),
		cmocka_unit_test(an_account_is_found_wherever_it_stands),
		cmocka_unit_test(the_end_of_a_lease_is_never_told_too_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
