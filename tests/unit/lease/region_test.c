// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/region.h"

#include "lease/age.h"
#include "tests/unit/lease/lease_test.h"

struct script {
	struct lg_terms terms;
	struct lg_upstream upstream;
	struct lg_holding holding;
	struct lg_lessor lessor;
	struct lg_region *region;
	struct asks up;
	struct grants down;
	struct lg_region_effects fx;
	struct lg_note notes[8];
	size_t n_notes;
	uint64_t due_ns;
};

static void fx_ask(void *arg, const struct lg_ask *ask)
{
	note_ask(&((struct script *)arg)->up, ask);
}

static void fx_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	note_grant(&((struct script *)arg)->down, holder, grant);
}

/* A region in its life `epoch`. */
static void begin(struct script *s, enum lg_algorithm algorithm, uint32_t epoch, const struct lg_succession *succession)
{
	*s = (struct script){ .terms = terms_of(algorithm, 10000, 60 * S, 10000) };
	s->fx = (struct lg_region_effects){ .arg = s, .ask = fx_ask, .grant = fx_grant };
	s->holding = (struct lg_holding){ .terms = &s->terms, .upstream = &s->upstream };
	s->lessor = lessor_of(&s->terms, 1);
	s->lessor.epoch = epoch;
	s->lessor.succession = succession;
	assert_int_equal(lg_region_new(&s->lessor, &s->holding, T0, 5000, &s->region), 0);
}

static void end(struct script *s)
{
	s->region = lg_region_free(s->region);
}

static bool up(struct script *s, uint32_t epoch, uint64_t at_ms)
{
	return lg_upstream_up(&s->upstream, epoch) && lg_region_up(s->region, T0 + at_ms * MS, &s->fx);
}

static const struct lg_ask *last_ask(const struct script *s)
{
	assert_true(s->up.n > 0);
	return &s->up.v[s->up.n - 1];
}

static const struct lg_grant *tell(struct script *s, uint32_t holder, const struct lg_ask *ask, uint64_t at_ms)
{
	s->down.n = 0;
	lg_region_ask(s->region, holder, 1, ask, T0 + at_ms * MS, &s->fx);
	return s->down.n ? last_grant(&s->down, holder) : NULL;
}

static void grant(struct script *s, uint64_t ack_seq, uint32_t generation, uint64_t granted_tok, uint64_t ttl_ms, uint64_t at_ms)
{
	struct lg_grant g = { .ack_seq = ack_seq, .epoch = 1, .generation = generation, .granted_tok = granted_tok, .ttl_ms = ttl_ms };

	s->down.n = 0;
	lg_region_grant(s->region, &g, T0 + at_ms * MS, &s->fx);
}

static void tick(struct script *s, uint64_t at_ms)
{
	s->down.n = 0;
	s->due_ns = lg_region_tick(s->region, T0 + at_ms * MS, &s->fx);
	assert_true(s->due_ns > T0 + at_ms * MS);
}

static struct lg_region_view look(const struct script *s, uint64_t at_ms)
{
	struct lg_region_view v;

	lg_region_view(s->region, T0 + at_ms * MS, &v);
	return v;
}

/* Up at 0, said hello with message 5001, and has `tok` for 10 s. */
static void leased(struct script *s, enum lg_algorithm algorithm, uint64_t tok)
{
	begin(s, algorithm, 1, NULL);
	assert_true(up(s, 1, 0));
	assert_int_equal(last_ask(s)->seq, 5001);
	assert_int_equal(last_ask(s)->generation, 0);
	grant(s, 5001, 1, tok, 10000, 100);
}

/* And what a host asked it for at 200 ms lent to that host. */
static void lent(struct script *s, enum lg_algorithm algorithm, uint64_t tok, const struct lg_ask *ask)
{
	leased(s, algorithm, tok);
	tell(s, 0, ask, 200);
}

TEST(a_host_is_lent_out_of_the_pool)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	assert_int_equal(tell(&s, 3, &ask, 200)->granted_tok, 40);
	assert_int_equal(last_grant(&s.down, 3)->generation, 1);
	assert_int_equal(last_grant(&s.down, 3)->epoch, 1);
	assert_int_equal(look(&s, 200).pool_tok, 60);
	assert_int_equal(look(&s, 200).outstanding_tok, 40);
	end(&s);
}

TEST(no_host_is_lent_beyond_the_regions_own_end)
{
	static const struct { uint64_t at_ms, ttl_ms; } rows[] = { { 0, 10000 }, { 6000, 4000 }, { 9999, 1 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_ask ask = request_of(1, 40);
		struct script s;

		/* granted for ten seconds from its message at 0 */
		leased(&s, LG_TOKEN_BUCKET, 100);
		assert_int_equal(tell(&s, 0, &ask, rows[i].at_ms)->ttl_ms, rows[i].ttl_ms);
		assert_int_equal(last_grant(&s.down, 0)->granted_tok, 40);
		end(&s);
	}
}

TEST(past_its_end_a_region_lends_nothing_and_returns_its_pool)
{
	struct lg_ask ask = request_of(1, 40), more = request_of(1, 30);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	tell(&s, 0, &ask, 9000);
	lg_upstream_down(&s.upstream);
	assert_int_equal(look(&s, 9999).pool_tok, 60);
	assert_int_equal(look(&s, 10000).pool_tok, 0);
	assert_int_equal(tell(&s, 1, &more, 10000)->granted_tok, 0);
	assert_int_equal(last_grant(&s.down, 1)->ttl_ms, 0);
	assert_true(last_grant(&s.down, 1)->partial);
	assert_int_equal(look(&s, 10000).returned_tok, 60);
	/* what the host gives back then goes the same way */
	ask = report_of(2, 1, 40, 10, 30);
	tell(&s, 0, &ask, 10100);
	tick(&s, 10110);
	assert_int_equal(look(&s, 10110).returned_tok, 90);
	assert_int_equal(look(&s, 10110).spent_tok, 10);
	/* back again: only what the total grew by is new */
	up(&s, 1, 10200);
	assert_int_equal(last_ask(&s)->granted_tok, 100);
	assert_int_equal(last_ask(&s)->returned_tok, 90);
	assert_int_equal(last_ask(&s)->spent_tok, 10);
	grant(&s, last_ask(&s)->seq, 1, 130, 10000, 10300);
	assert_int_equal(look(&s, 10300).pool_tok, 0);
	assert_int_equal(last_grant(&s.down, 1)->granted_tok, 30);
	end(&s);
}

TEST(what_hosts_report_is_passed_on_with_its_age)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;
	uint64_t ms;

	lent(&s, LG_TOKEN_BUCKET, 100, &ask);
	ask = report_of(2, 1, 40, 15, 5);
	ask.n_slots = 2;
	ask.slots[0] = (struct lg_slot){ .id = 1, .age_ms = 700, .tok = 10 };
	ask.slots[1] = (struct lg_slot){ .id = 2, .age_ms = 200, .tok = 5 };
	tell(&s, 0, &ask, 1000);
	assert_int_equal(look(&s, 1000).spent_tok, 15);
	assert_int_equal(look(&s, 1000).pool_tok, 65);
	for (ms = 1010; ms < 4000 && last_ask(&s)->spent_tok == 0; ms += 10)
		tick(&s, ms);
	ms -= 10;
	assert_int_equal(last_ask(&s)->spent_tok, 15);
	assert_int_equal(last_ask(&s)->n_slots, 2);
	assert_int_equal(last_ask(&s)->slots[0].tok, 10);
	assert_int_equal(last_ask(&s)->slots[1].tok, 5);
	assert_int_equal(last_ask(&s)->slots[0].age_ms, lg_age_ms(T0 + 300 * MS, T0 + ms * MS));
	assert_int_equal(last_ask(&s)->slots[1].age_ms, lg_age_ms(T0 + 800 * MS, T0 + ms * MS));
	end(&s);
}

TEST(a_silent_host_costs_its_lease)
{
	struct lg_ask ask = request_of(1, 40), late = report_of(2, 1, 40, 0, 40);
	struct script s;

	lent(&s, LG_TOKEN_BUCKET, 100, &ask);
	tick(&s, 10999);	/* its lease ends with the region's, at 10 s, and lapses a second later */
	assert_int_equal(look(&s, 10999).outstanding_tok, 40);
	tick(&s, 11000);
	assert_int_equal(look(&s, 11000).outstanding_tok, 0);
	assert_int_equal(look(&s, 11000).spent_tok, 40);
	assert_int_equal(tell(&s, 0, &late, 12000)->generation, 2);
	assert_int_equal(look(&s, 12000).spent_tok, 40);
	end(&s);
}

TEST(a_host_that_lost_its_memory_costs_its_lease)
{
	struct lg_ask ask = request_of(7, 40), reborn = request_of(1, 10);
	struct script s;

	lent(&s, LG_TOKEN_BUCKET, 100, &ask);
	lg_region_ask(s.region, 0, 2, &reborn, T0 + 300 * MS, &s.fx);
	assert_int_equal(look(&s, 300).spent_tok, 40);
	assert_int_equal(look(&s, 300).outstanding_tok, 10);
	assert_int_equal(last_grant(&s.down, 0)->generation, 2);
	end(&s);
}

TEST(when_its_own_lease_is_void_a_region_starts_empty_and_tells_its_hosts)
{
	struct lg_ask ask = request_of(1, 40), other = request_of(1, 20), old = report_of(2, 1, 40, 40, 0);
	struct script s;

	lent(&s, LG_TOKEN_BUCKET, 100, &ask);
	tell(&s, 1, &other, 200);
	old.request = true;
	old.want_tok = 40;
	grant(&s, 5001, 2, 0, 10000, 300);
	assert_int_equal(s.down.n, 2);
	assert_int_equal(last_grant(&s.down, 0)->generation, 2);
	assert_int_equal(last_grant(&s.down, 0)->granted_tok, 0);
	assert_int_equal(last_grant(&s.down, 1)->generation, 2);
	assert_int_equal(look(&s, 300).generation, 2);
	assert_int_equal(look(&s, 300).pool_tok, 0);
	assert_int_equal(look(&s, 300).outstanding_tok, 0);
	/* what is told of the old lease is the home's to know */
	tell(&s, 0, &old, 400);
	assert_int_equal(look(&s, 400).spent_tok, 0);
	/* the old generation is not heard again */
	grant(&s, 5001, 1, 500, 10000, 500);
	assert_int_equal(look(&s, 500).granted_tok, 0);
	grant(&s, 5001, 2, 50, 10000, 600);
	assert_int_equal(look(&s, 600).granted_tok, 50);
	end(&s);
}

TEST(a_region_whose_home_is_silent_says_so_when_it_has_nothing_left_to_lend)
{
	struct lg_ask ask = request_of(1, 60), more = request_of(2, 90);
	struct script s;

	ask.demand_mtps = more.demand_mtps = 20000;
	leased(&s, LG_TOKEN_BUCKET, 100);
	assert_int_equal(tell(&s, 0, &ask, 200)->status, LG_GRANT_OK);
	lg_upstream_down(&s.upstream);
	more.generation = 1;
	more.granted_tok = 60;
	assert_int_equal(tell(&s, 0, &more, 300)->status, LG_GRANT_OK);	/* it still has some */
	more.seq = 3;
	more.want_tok = 200;
	more.granted_tok = 90;
	assert_int_equal(tell(&s, 0, &more, 400)->granted_tok, 100);	/* the last */
	more.seq = 4;
	more.granted_tok = 100;
	assert_int_equal(tell(&s, 0, &more, 500)->status, LG_GRANT_UNREACHABLE);
	/* the home is back, and has no more */
	up(&s, 1, 600);
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 700);
	more.seq = 5;
	assert_int_equal(tell(&s, 0, &more, 800)->status, LG_GRANT_OK);
	end(&s);
}

TEST(short_of_tokens_a_region_asks_its_home_and_pushes_what_it_gets)
{
	struct lg_ask ask = request_of(1, 95), other = request_of(1, 95);
	struct script s;

	ask.demand_mtps = other.demand_mtps = 20000;
	leased(&s, LG_TOKEN_BUCKET, 100);
	s.up.n = 0;
	tell(&s, 0, &ask, 200);
	assert_int_equal(s.up.n, 1);
	assert_true(last_ask(&s)->request);
	assert_in_range(last_ask(&s)->demand_mtps, 23000, 24000);	/* what chance may send is told too */
	assert_true(last_ask(&s)->want_tok > 95);
	assert_int_equal(tell(&s, 1, &other, 210)->granted_tok, 5);
	assert_true(last_grant(&s.down, 1)->partial);
	assert_int_equal(s.up.n, 1);	/* the answer is awaited */
	grant(&s, 5002, 1, 190, 10000, 300);
	assert_int_equal(last_grant(&s.down, 1)->granted_tok, 95);
	assert_false(last_grant(&s.down, 1)->partial);
	end(&s);
}

TEST(an_idle_region_returns_its_pool_two_seconds_after_it_was_last_used)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	lent(&s, LG_TOKEN_BUCKET, 100, &ask);
	ask = report_of(2, 1, 40, 30, 10);
	tell(&s, 0, &ask, 1000);
	for (uint64_t ms = 1010; ms < 3000; ms += 10) {
		tick(&s, ms);
		assert_int_equal(look(&s, ms).returned_tok, 0);
		if (s.up.n)
			grant(&s, last_ask(&s)->seq, 1, 100, 10000, ms);
	}
	tick(&s, 3000);
	assert_int_equal(look(&s, 3000).returned_tok, 70);
	tick(&s, 3100);
	assert_int_equal(last_ask(&s)->returned_tok, 70);
	assert_int_equal(last_ask(&s)->spent_tok, 30);
	assert_false(lg_region_is_idle(s.region, T0 + 3100 * MS));
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 3200);
	assert_true(lg_region_is_idle(s.region, T0 + 3200 * MS));
	end(&s);
}

/* Leases of 30 s, a period of 3 s, and 66 tokens that nobody misses here; one host that holds `host_tok` of `tok`, and is offered so much. */
static void lukewarm(struct script *s, uint64_t tok, uint64_t host_tok, uint64_t demand_mtps)
{
	struct lg_ask ask = request_of(1, host_tok);

	leased(s, LG_TOKEN_BUCKET, tok);
	s->terms.adaptive = true;
	s->terms.ttl_ns = 30 * S;
	grant(s, 5001, 1, tok, 30000, 100);
	ask.demand_mtps = demand_mtps;
	assert_int_equal(tell(s, 0, &ask, 200)->granted_tok, host_tok);
	s->up.n = 0;
}

/* The host has spent so much of what it holds; that is use. */
static void spend(struct script *s, uint64_t seq, uint64_t spent_tok, uint64_t demand_mtps, uint64_t at_ms)
{
	struct lg_ask ask = report_of(seq, 1, 80, spent_tok, 0);

	ask.demand_mtps = demand_mtps;
	tell(s, 0, &ask, at_ms);
}

/* Ticks on until it speaks to the home, and has the answer. */
static uint64_t speaks_at_ms(struct script *s, uint64_t from_ms, uint64_t tok)
{
	s->up.n = 0;
	for (uint64_t ms = from_ms; ms < from_ms + 20000; ms += 10) {
		tick(s, ms);
		if (!s->up.n)
			continue;
		grant(s, last_ask(s)->seq, 1, tok, 30000, ms);
		return ms;
	}
	fail();
	return 0;
}

TEST(a_region_that_uses_little_of_a_key_reports_as_rarely_as_its_lease_allows)
{
	/* what comes together in a period is 66 tokens at most, the period a third of the lease, give or take 15 % */
	static const struct { uint64_t demand_mtps, low_ms, high_ms; } rows[] = {
		{ 100, 8500, 11510 }, { 6600, 8500, 11510 }, { 13200, 4250, 5760 }, { 22000, 2550, 3460 }, { 44000, 2550, 3460 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct script s;

		lukewarm(&s, 146, 80, rows[i].demand_mtps);
		spend(&s, 2, 1, rows[i].demand_mtps, 1500);
		assert_in_range(speaks_at_ms(&s, 1510, 146), rows[i].low_ms, rows[i].high_ms);
		end(&s);
	}
}

TEST(what_it_would_like_to_hold_lasts_for_the_longer_period)
{
	struct script s;

	lukewarm(&s, 200, 80, 6600);
	assert_in_range(look(&s, 300).target_tok, 80 + 66, 80 + 66 + 8);
	s.terms.adaptive = false;
	assert_in_range(look(&s, 300).target_tok, 80 + 19, 80 + 20 + 8);
	end(&s);
}

TEST(more_spent_than_nobody_misses_is_reported_at_the_end_of_the_base_period)
{
	static const struct { uint64_t spent_tok, low_ms, high_ms; } rows[] = { { 66, 8500, 11510 }, { 67, 2550, 3460 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct script s;

		lukewarm(&s, 146, 80, 6600);
		spend(&s, 2, rows[i].spent_tok, 6600, 1500);
		assert_in_range(speaks_at_ms(&s, 1510, 146), rows[i].low_ms, rows[i].high_ms);
		end(&s);
	}
}

TEST(while_the_home_has_less_than_is_asked_for_it_reports_as_often_as_ever)
{
	struct lg_grant g = { .ack_seq = 5001, .epoch = 1, .generation = 1, .granted_tok = 146, .ttl_ms = 30000, .partial = true };
	struct script s;

	lukewarm(&s, 146, 80, 6600);
	spend(&s, 2, 1, 6600, 1500);
	lg_region_grant(s.region, &g, T0 + 1510 * MS, &s.fx);
	assert_in_range(speaks_at_ms(&s, 1520, 146), 2550, 3460);
	end(&s);
}

TEST(traffic_that_fades_is_told_before_reports_become_rare)
{
	uint64_t busy_ms, faded_ms;
	struct script s;

	lukewarm(&s, 146, 80, 44000);
	spend(&s, 2, 1, 44000, 1500);
	busy_ms = speaks_at_ms(&s, 1510, 146);
	spend(&s, 3, 2, 100, busy_ms + 1500);
	faded_ms = speaks_at_ms(&s, busy_ms + 1510, 146);
	assert_in_range(faded_ms - busy_ms, 2550, 3460);
	assert_in_range(last_ask(&s)->demand_mtps, 100, 400);
	assert_in_range(speaks_at_ms(&s, faded_ms + 10, 146) - faded_ms, 8500, 11510);
	end(&s);
}

TEST(a_pool_that_nobody_misses_goes_back_with_a_report_and_a_larger_one_after_two_seconds)
{
	static const struct { uint64_t pool_tok, low_ms, high_ms; bool at_once; } rows[] = {
		{ 66, 8500, 11510, false }, { 67, 3000, 3010, true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t tok = 30 + rows[i].pool_tok, first_ms;
		struct lg_ask ask = report_of(2, 1, 40, 30, 10);
		struct script s;

		lukewarm(&s, tok, 40, 0);
		tell(&s, 0, &ask, 1000);
		assert_int_equal(look(&s, 1000).pool_tok, rows[i].pool_tok);
		first_ms = speaks_at_ms(&s, 1010, tok);
		assert_in_range(first_ms, rows[i].low_ms, rows[i].high_ms);
		assert_int_equal(last_ask(&s)->returned_tok, rows[i].at_once ? 67 : 0);
		if (!rows[i].at_once) {
			/* a third of a lease without use */
			assert_in_range(speaks_at_ms(&s, first_ms + 10, tok) - first_ms, 8500, 11510);
			assert_int_equal(last_ask(&s)->returned_tok, 66);
		}
		assert_int_equal(look(&s, 30000).pool_tok, 0);
		end(&s);
	}
}

TEST(a_region_that_returns_its_pool_does_not_ask_for_it_again)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	ask.demand_mtps = 5000;
	tell(&s, 0, &ask, 200);	/* and nothing more is heard of the host */
	assert_int_equal(speaks_at_ms(&s, 300, 100), 2000);
	assert_int_equal(last_ask(&s)->returned_tok, 60);
	assert_false(last_ask(&s)->request);
	assert_int_equal(last_ask(&s)->want_tok, 0);
	assert_true(speaks_at_ms(&s, 2010, 100) > 4000);
	end(&s);
}

TEST(more_than_twice_what_the_hosts_need_goes_back)
{
	struct lg_ask ask = request_of(1, 10);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 2000);
	ask.demand_mtps = 1000;
	for (uint64_t i = 0; i < 60; i++) {
		ask = wanting(report_of(2 + i, 1, 10 + i, i, 0), 10, 1000);
		if (i == 0) {
			ask = request_of(1, 10);
			ask.demand_mtps = 1000;
		}
		tell(&s, 0, &ask, 200 + i * 100);
		tick(&s, 210 + i * 100);
		if (s.up.n)
			grant(&s, last_ask(&s)->seq, 1, 2000, 10000, 220 + i * 100);
		s.up.n = 0;
		if (look(&s, 220 + i * 100).returned_tok) {
			uint64_t own_tok = look(&s, 220 + i * 100).pool_tok + look(&s, 220 + i * 100).outstanding_tok;

			assert_int_equal(own_tok, look(&s, 220 + i * 100).target_tok);
			assert_in_range(own_tok, 11, 40);
			end(&s);
			return;
		}
	}
	fail();
}

TEST(a_pool_is_kept_as_long_as_hosts_are_silent_between_two_reports)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	s.terms.host_period_ns = 3 * S;
	tell(&s, 0, &ask, 200);
	ask = report_of(2, 1, 40, 30, 0);
	tell(&s, 0, &ask, 1000);
	tick(&s, 6990);
	assert_int_equal(look(&s, 6990).pool_tok, 60);
	tick(&s, 7000);
	assert_int_equal(look(&s, 7000).pool_tok, 0);
	assert_int_equal(look(&s, 7000).returned_tok, 60);
	end(&s);
}

TEST(what_a_host_wants_is_remembered_until_the_region_has_learned_what_is_out)
{
	struct lg_succession *heir;
	struct lg_ask hello = request_of(1, 40);
	struct script s;

	assert_int_equal(lg_succession_new(T0, &heir), 0);
	assert_int_equal(lg_succession_list(heir, 0), 0);
	assert_int_equal(lg_succession_list(heir, 1), 0);
	begin(&s, LG_TOKEN_BUCKET, 2, heir);
	assert_false(up(&s, 1, 0));
	hello.epoch = 2;
	assert_int_equal(tell(&s, 0, &hello, 100)->status, LG_GRANT_RECOVERING);
	for (uint64_t ms = 110; ms < 5000; ms += 10)
		tick(&s, ms);
	lg_succession_synced(heir, 0);
	lg_succession_synced(heir, 1);
	tick(&s, 5000);
	assert_int_equal(s.up.n, 1);
	assert_int_equal(last_ask(&s)->want_tok >= 40, 1);
	/* served without having to ask again */
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 5100);
	tick(&s, 5110);
	assert_int_equal(look(&s, 5110).outstanding_tok, 40);
	end(&s);
	lg_succession_free(heir);
}

TEST(an_orderly_end_returns_the_pool_and_leaves_what_hosts_hold)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	lent(&s, LG_TOKEN_BUCKET, 100, &ask);
	lg_region_close(s.region, T0 + 300 * MS, &s.fx);
	assert_int_equal(last_ask(&s)->returned_tok, 60);
	assert_false(last_ask(&s)->request);
	assert_int_equal(look(&s, 300).outstanding_tok, 40);
	end(&s);
}

/* ---- lives ---- */

TEST(a_region_in_a_new_life_voids_what_hosts_have_and_remembers_what_they_spent)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = NULL;
	struct lg_ask hello = report_of(90, 3, 500, 420, 80);
	struct script s;

	assert_int_equal(lg_succession_new(T0, &heir), 0);
	assert_int_equal(lg_succession_list(heir, 0), 0);
	assert_int_equal(lg_succession_list(heir, 1), 0);
	begin(&s, LG_SLIDING_WINDOW, 2, heir);
	assert_false(up(&s, 1, 0));
	tick(&s, 100);
	assert_int_equal(s.up.n, 0);
	hello.epoch = 2;
	hello.n_history = 2;
	hello.history[0] = (struct lg_slot){ .id = 1, .age_ms = 30000, .tok = 300 };
	hello.history[1] = (struct lg_slot){ .id = 2, .age_ms = 500, .tok = 120 };
	assert_int_equal(tell(&s, 0, &hello, 200)->generation, 4);
	assert_int_equal(last_grant(&s.down, 0)->status, LG_GRANT_RECOVERING);
	assert_int_equal(look(&s, 200).spent_tok, 0);	/* the home counts that */
	assert_int_equal(s.up.n, 0);
	/* the other host has nothing of this key: now it may speak, by itself */
	lg_succession_synced(heir, 1);
	tick(&s, 300);
	assert_int_equal(s.up.n, 1);
	assert_int_equal(last_ask(&s)->generation, 0);
	assert_int_equal(last_ask(&s)->granted_tok, 0);
	assert_int_equal(last_ask(&s)->n_history, 2);
	assert_int_equal(last_ask(&s)->history[0].tok, 300);
	assert_in_range(last_ask(&s)->history[0].age_ms, 29700, 30100);
	assert_int_equal(last_ask(&s)->history[1].tok, 120);
	end(&s);
}

TEST(a_region_waits_for_silent_hosts_until_their_leases_are_over_and_counts_their_window_as_full)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = NULL;
	struct lg_ask ask = request_of(1, 10);
	struct script s;

	assert_int_equal(lg_succession_new(T0, &heir), 0);
	assert_int_equal(lg_succession_list(heir, 0), 0);
	begin(&s, LG_SLIDING_WINDOW, 2, heir);
	up(&s, 1, 0);
	ask.epoch = 2;
	tell(&s, 5, &ask, 10000);	/* a stranger */
	tick(&s, 10999);
	assert_int_equal(s.up.n, 0);
	tick(&s, 11000);
	assert_int_equal(s.up.n, 1);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 10000);
	end(&s);
}

TEST(a_key_of_a_host_that_lost_its_memory_counts_as_full_from_then)
{
	_cleanup_(lg_succession_free) struct lg_succession *heir = NULL;
	struct script s;

	assert_int_equal(lg_succession_new(T0, &heir), 0);
	assert_int_equal(lg_succession_list(heir, 0), 0);
	lg_succession_forgot(heir, T0 - 20 * S);
	lg_succession_synced(heir, 0);
	assert_int_equal(lg_succession_forgot_ns(heir), T0 - 20 * S);
	begin(&s, LG_SLIDING_WINDOW, 2, heir);
	assert_true(up(&s, 1, 0));
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 10000);
	assert_in_range(last_ask(&s)->history[0].age_ms, 19600, 19960);
	end(&s);
}

TEST(a_home_in_a_new_life_is_told_what_was_spent_in_the_last_window)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	lent(&s, LG_SLIDING_WINDOW, 100, &ask);
	ask = report_of(2, 1, 40, 25, 0);
	tell(&s, 0, &ask, 1000);
	lg_upstream_down(&s.upstream);
	assert_true(up(&s, 2, 2000));
	assert_int_equal(last_ask(&s)->epoch, 2);
	assert_int_equal(last_ask(&s)->generation, 1);
	assert_int_equal(last_ask(&s)->granted_tok, 100);
	assert_int_equal(last_ask(&s)->spent_tok, 25);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 25);
	/* goes on lending what it has; the old home is not heard */
	grant(&s, last_ask(&s)->seq, 1, 500, 10000, 2100);
	assert_int_equal(look(&s, 2100).granted_tok, 100);
	end(&s);
}

TEST(what_lapsed_here_is_part_of_what_a_new_home_is_told)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	lent(&s, LG_SLIDING_WINDOW, 100, &ask);
	tick(&s, 11000);
	lg_upstream_down(&s.upstream);
	up(&s, 2, 11500);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 40);
	/* and what its own void lease left with hosts */
	s.down.n = 0;
	end(&s);
	leased(&s, LG_SLIDING_WINDOW, 100);
	ask = request_of(1, 40);
	tell(&s, 0, &ask, 200);
	grant(&s, 5001, 2, 0, 10000, 300);
	up(&s, 2, 400);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 40);
	end(&s);
}

TEST(messages_of_another_epoch_or_out_of_bounds_are_not_heard)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	ask.epoch = 2;
	assert_null(tell(&s, 0, &ask, 200));
	ask.epoch = 1;
	ask.n_history = LG_HISTORY_MAX + 1;
	assert_null(tell(&s, 0, &ask, 200));
	ask.n_history = 0;
	assert_int_equal(tell(&s, LG_HOLDERS_MAX, &ask, 200)->status, LG_GRANT_OVERLOADED);
	assert_non_null(tell(&s, 0, &ask, 200));
	end(&s);
}

TEST(hundreds_of_hosts_that_are_short_share_at_the_next_tick_and_are_told_bit_by_bit)
{
	uint64_t least = UINT64_MAX, most = 0, told = 0, n_told = 0;
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 1000);
	for (uint32_t i = 0; i < 50; i++) {
		struct lg_ask ask = request_of(1, 20);

		assert_int_equal(tell(&s, i, &ask, 200)->granted_tok, 20);
	}
	for (uint32_t i = 50; i < 110; i++) {
		struct lg_ask ask = request_of(1, 20);

		assert_int_equal(tell(&s, i, &ask, 200)->granted_tok, 0);
	}
	/* what is given back is not for who asks next */
	for (uint32_t i = 0; i < 30; i++) {
		struct lg_ask ask = report_of(2, 1, 20, 6, 14);

		tell(&s, i, &ask, 205);
	}
	assert_int_equal(look(&s, 205).pool_tok, 420);
	tick(&s, 210);
	assert_int_equal(look(&s, 210).pool_tok, 0);
	assert_int_equal(look(&s, 210).outstanding_tok, 20 * 20 + 60 * 7);
	/* sixteen of them a tenth of a second are told, each once, and it is due until all are */
	for (uint64_t ms = 210; s.down.n; tick(&s, ms += 10)) {
		uint64_t tok = s.down.v[0].grant.granted_tok;

		assert_true(s.down.n <= 2);
		assert_int_equal(s.due_ns, T0 + (ms + 10) * MS);
		least = tok < least ? tok : least;
		most = tok > most ? tok : most;
		told |= 1ull << (s.down.v[0].holder - 50);
		n_told += s.down.n;
	}
	assert_int_equal(n_told, 60);
	assert_int_equal(told, (1ull << 60) - 1);
	assert_int_equal(least, 7);
	assert_int_equal(most, 7);
	end(&s);
}

/* ---- a limit of its own ---- */

static void limit(struct script *s, uint64_t ack_seq, uint32_t version, uint64_t limit_tok, uint32_t permille, uint64_t at_ms)
{
	struct lg_grant g = { .ack_seq = ack_seq, .epoch = 1, .generation = 1, .ttl_ms = 10000, .kind = LG_LEASE_LIMIT,
			      .limit_version = version, .limit_tok = limit_tok, .limit_permille = permille };

	s->down.n = 0;
	lg_region_grant(s->region, &g, T0 + at_ms * MS, &s->fx);
}

/* Up at 0, said hello with message 5001, and runs 100 of a window of a minute. */
static void limited(struct script *s)
{
	begin(s, LG_SLIDING_WINDOW, 1, NULL);
	assert_true(up(s, 1, 0));
	limit(s, 5001, 1, 100, 0, 100);
}

static struct lg_ask used_of(uint64_t seq, uint64_t spent_tok, uint64_t returned_tok, uint64_t want_tok)
{
	struct lg_ask ask = report_of(seq, 1, 40, spent_tok, returned_tok);

	ask.request = want_tok > 0;
	ask.want_tok = want_tok;
	ask.demand_mtps = want_tok * 1000;
	return ask;
}

TEST(a_limit_of_its_own_is_lent_without_a_word_to_the_home)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	limited(&s);
	assert_int_equal(look(&s, 100).pool_tok, 100);
	assert_int_equal(tell(&s, 0, &ask, 200)->granted_tok, 40);
	assert_int_equal(last_grant(&s.down, 0)->kind, LG_LEASE_BLOCK);
	assert_int_equal(look(&s, 200).pool_tok, 60);
	/* That it is used now is news; that it is used on is not. */
	assert_int_equal(s.up.n, 2);
	assert_int_equal(last_ask(&s)->kind, LG_LEASE_LIMIT);
	assert_int_equal(last_ask(&s)->limit_version, 1);
	assert_int_equal(last_ask(&s)->held_tok, 100);
	limit(&s, 5002, 1, 100, 0, 300);
	ask = used_of(2, 30, 0, 40);
	tell(&s, 0, &ask, 400);
	limit(&s, last_ask(&s)->seq, 1, 100, 0, 500);
	assert_int_equal(look(&s, 500).pool_tok, 100 - 30 - 40);
	tick(&s, 600);
	ask = used_of(3, 31, 0, 40);
	tell(&s, 0, &ask, 700);
	assert_true(s.up.n <= 3);
	/* It is there again when it has left the window. */
	tick(&s, 60300);
	assert_int_equal(look(&s, 60300).outstanding_tok, 0);
	end(&s);
}

TEST(a_smaller_limit_is_acknowledged_at_once_with_what_is_still_held)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	limited(&s);
	tell(&s, 0, &ask, 200);
	ask = used_of(2, 30, 0, 40);
	tell(&s, 0, &ask, 300);
	limit(&s, last_ask(&s)->seq, 2, 20, 0, 1000);
	tick(&s, 1010);
	assert_int_equal(last_ask(&s)->limit_version, 2);
	assert_int_equal(last_ask(&s)->held_tok, 70);
	/* 10 that the host had are returned. */
	limit(&s, last_ask(&s)->seq, 2, 20, 0, 1100);
	assert_int_equal(look(&s, 1100).pool_tok, 0);
	ask = report_of(3, 1, 70, 30, 40);
	tell(&s, 0, &ask, 2000);
	tick(&s, 2300);
	assert_int_equal(last_ask(&s)->held_tok, 30);
	end(&s);
}

TEST(a_limit_without_use_is_given_back_but_for_what_hosts_keep)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	limited(&s);
	tell(&s, 0, &ask, 200);
	limit(&s, last_ask(&s)->seq, 1, 100, 0, 300);
	ask = report_of(2, 1, 40, 0, 36);
	tell(&s, 0, &ask, 400);
	limit(&s, last_ask(&s)->seq, 1, 100, 0, 500);
	assert_int_equal(look(&s, 500).outstanding_tok, 4);
	tick(&s, 1600);
	tick(&s, 2100);
	assert_false(last_ask(&s)->request);
	assert_int_equal(last_ask(&s)->held_tok, 4);
	assert_int_equal(look(&s, 2100).pool_tok, 0);
	assert_false(lg_region_is_idle(s.region, T0 + 2100 * MS));
	/* Only a newer version brings it back. */
	limit(&s, last_ask(&s)->seq, 1, 100, 0, 2200);
	assert_int_equal(look(&s, 2200).pool_tok, 0);
	ask = report_of(3, 1, 40, 0, 40);
	tell(&s, 0, &ask, 2300);
	tick(&s, 2400);
	assert_int_equal(last_ask(&s)->held_tok, 0);
	limit(&s, last_ask(&s)->seq, 1, 100, 0, 2500);
	assert_true(lg_region_is_idle(s.region, T0 + 2500 * MS));
	end(&s);
}

TEST(past_its_end_a_region_has_no_limit)
{
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	limited(&s);
	assert_int_equal(look(&s, 9999).pool_tok, 100);
	tell(&s, 0, &ask, 9999);
	assert_int_equal(last_grant(&s.down, 0)->ttl_ms, 1);
	assert_int_equal(look(&s, 10000).pool_tok, 0);
	tick(&s, 10000);
	up(&s, 1, 10100);
	assert_int_equal(last_ask(&s)->held_tok, 40);
	/* The home has it lapse later: a new generation, another version 1. */
	limit(&s, last_ask(&s)->seq, 1, 100, 0, 10200);
	assert_int_equal(look(&s, 10200).pool_tok, 0);
	end(&s);
}

TEST(what_was_spent_under_a_limit_that_is_void_is_told_to_the_next_home)
{
	struct lg_grant g = { .epoch = 1, .generation = 2, .ttl_ms = 10000, .kind = LG_LEASE_LIMIT, .limit_version = 1, .limit_tok = 50 };
	struct lg_ask ask = request_of(1, 40);
	struct script s;

	limited(&s);
	tell(&s, 0, &ask, 200);
	ask = used_of(2, 30, 0, 40);
	tell(&s, 0, &ask, 300);
	g.ack_seq = last_ask(&s)->seq;
	s.down.n = 0;
	lg_region_grant(s.region, &g, T0 + 400 * MS, &s.fx);
	assert_int_equal(last_grant(&s.down, 0)->generation, 2);
	up(&s, 2, 500);
	assert_int_equal(last_ask(&s)->generation, 2);
	assert_int_equal(last_ask(&s)->held_tok, 50);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 70);
	end(&s);
}

TEST(a_lease_is_of_one_kind_until_a_new_generation)
{
	struct lg_grant g = { .epoch = 1, .generation = 2, .granted_tok = 70, .ttl_ms = 10000 };
	struct script s;

	limited(&s);
	grant(&s, 5001, 1, 500, 10000, 200);
	assert_int_equal(look(&s, 200).pool_tok, 100);
	g.ack_seq = 5001;
	lg_region_grant(s.region, &g, T0 + 300 * MS, &s.fx);
	assert_int_equal(look(&s, 300).pool_tok, 70);
	limit(&s, 5001, 9, 100, 0, 400);
	assert_int_equal(look(&s, 400).pool_tok, 70);
	end(&s);
}

TEST(the_stock_of_hosts_is_kept_even)
{
	struct lg_ask ask = request_of(1, 90), other = request_of(1, 90);
	struct script s;

	limited(&s);
	assert_int_equal(tell(&s, 0, &ask, 200)->granted_tok, 90);
	assert_int_equal(tell(&s, 1, &other, 200)->granted_tok, 10);
	ask = wanting(report_of(2, 1, 90, 0, 30), 90, 0);
	tell(&s, 0, &ask, 300);
	/* 60 and 10: what came back goes to who has less. */
	assert_int_equal(last_grant(&s.down, 1)->granted_tok, 40);
	assert_int_equal(look(&s, 300).outstanding_tok, 100);
	end(&s);
}

TEST(a_region_whose_part_is_cut_returns_its_pool_and_has_its_hosts_return_the_rest)
{
	struct lg_grant g = { .ack_seq = 5001, .epoch = 1, .generation = 1, .granted_tok = 100, .ttl_ms = 10000, .cap_tok = 90 };
	struct lg_ask a = request_of(1, 60), b = request_of(1, 20);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	tell(&s, 3, &a, 200);
	tell(&s, 4, &b, 200);
	s.down.n = 0;
	lg_region_grant(s.region, &g, T0 + 300 * MS, &s.fx);	/* the pool is enough */
	assert_int_equal(look(&s, 300).pool_tok, 10);
	assert_int_equal(look(&s, 300).returned_tok, 10);
	assert_int_equal(s.down.n, 0);
	g.cap_tok = 40;
	lg_region_grant(s.region, &g, T0 + 400 * MS, &s.fx);
	assert_int_equal(look(&s, 400).pool_tok, 0);
	assert_int_equal(look(&s, 400).returned_tok, 20);
	assert_int_equal(last_grant(&s.down, 3)->cap_tok, 30);
	assert_int_equal(last_grant(&s.down, 3)->granted_tok, 60);
	assert_int_equal(last_grant(&s.down, 4)->cap_tok, 10);
	tick(&s, 510);
	assert_int_equal(last_ask(&s)->returned_tok, 20);
	end(&s);
}

static void keep_note(void *arg, const struct lg_note *note)
{
	struct script *s = arg;

	assert_true(s->n_notes < 8);
	s->notes[s->n_notes++] = *note;
}

TEST(each_change_of_the_hosts_accounts_is_noted)
{
	static const struct { enum lg_note_kind kind; uint32_t generation; uint64_t tok, outstanding_tok, spent_tok; } expected[] = {
		{ LG_NOTE_GRANT, 1, 40, 40, 0 }, { LG_NOTE_REPORT, 1, 25, 10, 25 }, { LG_NOTE_RETURN, 1, 5, 10, 25 },
		{ LG_NOTE_LAPSE, 1, 10, 0, 0 },
	};
	struct lg_ask ask = request_of(1, 40), report = report_of(2, 1, 40, 25, 5);
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	s.fx.note = keep_note;
	tell(&s, 3, &ask, 200);
	tell(&s, 3, &report, 300);
	grant(&s, 5001, 2, 0, 10000, 400);	/* our own lease is void, and so is the host's */
	assert_int_equal(s.n_notes, 4);
	for (size_t i = 0; i < s.n_notes; i++) {
		assert_int_equal(s.notes[i].kind, expected[i].kind);
		assert_int_equal(s.notes[i].holder, 3);
		assert_int_equal(s.notes[i].epoch, 1);
		assert_int_equal(s.notes[i].generation, expected[i].generation);
		assert_int_equal(s.notes[i].tok, expected[i].tok);
		assert_int_equal(s.notes[i].outstanding_tok, expected[i].outstanding_tok);
		assert_int_equal(s.notes[i].spent_tok, expected[i].spent_tok);
	}
	end(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_is_lent_out_of_the_pool),
		cmocka_unit_test(no_host_is_lent_beyond_the_regions_own_end),
		cmocka_unit_test(past_its_end_a_region_lends_nothing_and_returns_its_pool),
		cmocka_unit_test(what_hosts_report_is_passed_on_with_its_age),
		cmocka_unit_test(a_silent_host_costs_its_lease),
		cmocka_unit_test(a_host_that_lost_its_memory_costs_its_lease),
		cmocka_unit_test(when_its_own_lease_is_void_a_region_starts_empty_and_tells_its_hosts),
		cmocka_unit_test(a_region_whose_home_is_silent_says_so_when_it_has_nothing_left_to_lend),
		cmocka_unit_test(short_of_tokens_a_region_asks_its_home_and_pushes_what_it_gets),
		cmocka_unit_test(an_idle_region_returns_its_pool_two_seconds_after_it_was_last_used),
		cmocka_unit_test(a_region_that_uses_little_of_a_key_reports_as_rarely_as_its_lease_allows),
		cmocka_unit_test(what_it_would_like_to_hold_lasts_for_the_longer_period),
		cmocka_unit_test(more_spent_than_nobody_misses_is_reported_at_the_end_of_the_base_period),
		cmocka_unit_test(while_the_home_has_less_than_is_asked_for_it_reports_as_often_as_ever),
		cmocka_unit_test(traffic_that_fades_is_told_before_reports_become_rare),
		cmocka_unit_test(a_pool_that_nobody_misses_goes_back_with_a_report_and_a_larger_one_after_two_seconds),
		cmocka_unit_test(a_region_that_returns_its_pool_does_not_ask_for_it_again),
		cmocka_unit_test(more_than_twice_what_the_hosts_need_goes_back),
		cmocka_unit_test(a_pool_is_kept_as_long_as_hosts_are_silent_between_two_reports),
		cmocka_unit_test(what_a_host_wants_is_remembered_until_the_region_has_learned_what_is_out),
		cmocka_unit_test(an_orderly_end_returns_the_pool_and_leaves_what_hosts_hold),
		cmocka_unit_test(a_region_in_a_new_life_voids_what_hosts_have_and_remembers_what_they_spent),
		cmocka_unit_test(a_region_waits_for_silent_hosts_until_their_leases_are_over_and_counts_their_window_as_full),
		cmocka_unit_test(a_key_of_a_host_that_lost_its_memory_counts_as_full_from_then),
		cmocka_unit_test(a_home_in_a_new_life_is_told_what_was_spent_in_the_last_window),
		cmocka_unit_test(what_lapsed_here_is_part_of_what_a_new_home_is_told),
		cmocka_unit_test(messages_of_another_epoch_or_out_of_bounds_are_not_heard),
		cmocka_unit_test(hundreds_of_hosts_that_are_short_share_at_the_next_tick_and_are_told_bit_by_bit),
		cmocka_unit_test(a_limit_of_its_own_is_lent_without_a_word_to_the_home),
		cmocka_unit_test(a_smaller_limit_is_acknowledged_at_once_with_what_is_still_held),
		cmocka_unit_test(a_limit_without_use_is_given_back_but_for_what_hosts_keep),
		cmocka_unit_test(past_its_end_a_region_has_no_limit),
		cmocka_unit_test(what_was_spent_under_a_limit_that_is_void_is_told_to_the_next_home),
		cmocka_unit_test(a_lease_is_of_one_kind_until_a_new_generation),
		cmocka_unit_test(the_stock_of_hosts_is_kept_even),
		cmocka_unit_test(a_region_whose_part_is_cut_returns_its_pool_and_has_its_hosts_return_the_rest),
		cmocka_unit_test(each_change_of_the_hosts_accounts_is_noted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
