// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/lessee.h"

#include <errno.h>

#include "lease/age.h"
#include "tests/unit/lease/lease_test.h"

struct totals {
	uint64_t granted_tok;
	uint64_t spent_tok;
	uint64_t returned_tok;
	uint64_t denied_tok;
};

/* A kernel's bucket, as the ABI says it behaves. */
struct bucket {
	struct totals total;
	struct totals base;	/* at the start of the generation */
	uint64_t expires_ns;
	uint64_t low_water_tok;
	uint32_t epoch;
	uint32_t generation;
	uint64_t steal_tok;	/* packets take so much while the agent takes */
	bool absent;		/* the table is full: nothing it is told sticks */
	bool busy;		/* a generation cannot be closed */
	size_t n_grants;
};

struct script {
	struct lg_terms terms;
	struct lg_upstream upstream;
	struct lg_holding holding;
	struct lg_lessee *lessee;
	struct bucket bucket;
	struct asks out;
	struct lg_lessee_effects fx;
	uint64_t due_ns;
};

static void fx_ask(void *arg, const struct lg_ask *ask)
{
	note_ask(&((struct script *)arg)->out, ask);
}

static void fx_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct bucket *b = &((struct script *)arg)->bucket;

	b->n_grants++;
	if (b->absent)
		return;
	b->total.granted_tok += tok;
	b->expires_ns = expires_ns > b->expires_ns ? expires_ns : b->expires_ns;
	b->low_water_tok = low_water_tok;
	b->epoch = epoch;
}

static struct lg_usage usage_of(const struct bucket *b)
{
	return (struct lg_usage){ .spent_tok = b->total.spent_tok - b->base.spent_tok,
				  .returned_tok = b->total.returned_tok - b->base.returned_tok, .denied_tok = b->total.denied_tok };
}

static void fx_take(void *arg, uint64_t tok, struct lg_usage *ret_now)
{
	struct bucket *b = &((struct script *)arg)->bucket;
	uint64_t left_tok;

	b->total.spent_tok += b->steal_tok;
	b->steal_tok = 0;
	left_tok = b->total.granted_tok - b->total.spent_tok;
	tok = tok < left_tok ? tok : left_tok;
	b->total.spent_tok += tok;
	b->total.returned_tok += tok;
	*ret_now = usage_of(b);
}

static int fx_generation(void *arg, uint32_t generation, uint32_t epoch)
{
	struct bucket *b = &((struct script *)arg)->bucket;
	struct lg_usage end;

	if (b->busy)
		return -EAGAIN;
	fx_take(arg, UINT64_MAX, &end);
	b->base = b->total;
	b->generation = generation;
	b->epoch = epoch;
	b->expires_ns = 0;
	return 0;
}

/* The bucket of *s as it is found; with a lease if it has a generation. */
static void begin_with(struct script *s, const struct lg_terms *terms)
{
	const struct bucket *b = &s->bucket;
	struct lg_lessee_found found = {
		.generation = b->generation,
		.epoch = b->epoch,
		.expires_ns = b->expires_ns,
		.granted_tok = b->total.granted_tok - b->base.granted_tok,
		.usage = usage_of(b),
		.traffic_tok = b->total.spent_tok - b->total.returned_tok,
	};

	s->terms = *terms;
	s->holding = (struct lg_holding){ .terms = &s->terms, .upstream = &s->upstream };
	s->fx = (struct lg_lessee_effects){ .arg = s, .ask = fx_ask, .grant = fx_grant, .take = fx_take, .generation = fx_generation };
	assert_int_equal(lg_lessee_new(&s->holding, T0, 1000, &found, &s->lessee), 0);
}

static void up(struct script *s, uint32_t epoch, uint64_t at_ms)
{
	assert_true(lg_upstream_up(&s->upstream, epoch));
	lg_lessee_up(s->lessee, T0 + at_ms * MS, &s->fx);
}

/* A host that was refused one packet, and its agent. */
static void begin(struct script *s, enum lg_algorithm algorithm)
{
	struct lg_terms t = terms_of(algorithm, 10000, 60 * S, 10000);

	*s = (struct script){ .bucket.total.denied_tok = 1 };
	begin_with(s, &t);
}

static void end(struct script *s)
{
	s->lessee = lg_lessee_free(s->lessee);
}

static void tick(struct script *s, uint64_t at_ms)
{
	struct lg_usage usage = usage_of(&s->bucket);

	s->due_ns = lg_lessee_tick(s->lessee, &usage, T0 + at_ms * MS, &s->fx);
	assert_true(s->due_ns > T0 + at_ms * MS);
}

static const struct lg_ask *last_ask(const struct script *s)
{
	assert_true(s->out.n > 0);
	return &s->out.v[s->out.n - 1];
}

static void grant(struct script *s, uint64_t ack_seq, uint32_t generation, uint64_t granted_tok, uint64_t ttl_ms, uint64_t at_ms)
{
	struct lg_grant g = { .ack_seq = ack_seq, .epoch = 1, .generation = generation, .granted_tok = granted_tok, .ttl_ms = ttl_ms };

	lg_lessee_grant(s->lessee, &g, T0 + at_ms * MS, &s->fx);
}

/* Answers the last message: everything is booked, nothing more is granted. */
static void acknowledge(struct script *s, uint64_t granted_tok, uint64_t at_ms)
{
	const struct lg_ask *ask = last_ask(s);
	struct lg_grant g = { .ack_seq = ask->seq, .epoch = 1, .generation = 1, .granted_tok = granted_tok, .ttl_ms = 10000 };

	if (ask->n_slots)
		g.ack_slot = ask->slots[ask->n_slots - 1].id;
	lg_lessee_grant(s->lessee, &g, T0 + at_ms * MS, &s->fx);
}

static struct lg_lessee_view look(const struct script *s, uint64_t at_ms)
{
	struct lg_lessee_view v;

	lg_lessee_view(s->lessee, T0 + at_ms * MS, &v);
	return v;
}

static uint64_t left(const struct script *s)
{
	return s->bucket.total.granted_tok - s->bucket.total.spent_tok;
}

/* Up, asked at 0, granted `tok` for 10 s. */
static void leased(struct script *s, enum lg_algorithm algorithm, uint64_t tok)
{
	begin(s, algorithm);
	up(s, 1, 0);
	grant(s, 1001, 1, 0, 10000, 0);
	tick(s, 20);
	grant(s, 1002, 1, tok, 10000, 21);
	assert_int_equal(left(s), tok);
	assert_int_equal(s->bucket.expires_ns, T0 + 10020 * MS);
}

static void spend(struct script *s, uint64_t tok)
{
	assert_true(left(s) >= tok);
	s->bucket.total.spent_tok += tok;
}

/* The bucket came with 5 tokens, of which 4 are spent, 2 while the agent looks. */
TEST(what_a_key_started_with_is_demand_and_is_neither_reported_nor_remembered)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 10000, 60 * S, 10000);
	struct script s = { .bucket.total = { .granted_tok = 5, .spent_tok = 2 } };
	const struct lg_lessee_found found = { 0 };

	begin_with(&s, &t);
	s.lessee = lg_lessee_free(s.lessee);
	assert_int_equal(lg_lessee_new(&s.holding, T0, 1000, &found, &s.lessee), 0);
	tick(&s, 20);
	spend(&s, 2);
	tick(&s, 40);
	assert_true(look(&s, 40).demand_mtps > 0);
	assert_int_equal(look(&s, 40).spent_tok, 4);
	up(&s, 1, 40);
	assert_true(last_ask(&s)->want_tok >= 1);
	assert_int_equal(last_ask(&s)->spent_tok + last_ask(&s)->returned_tok, 0);
	assert_int_equal(last_ask(&s)->n_slots + last_ask(&s)->n_history, 0);

	grant(&s, last_ask(&s)->seq, 1, 10, 10000, 41);
	assert_int_equal(left(&s), 10);
	spend(&s, 3);
	tick(&s, 60);
	tick(&s, 80);
	tick(&s, 5000);
	assert_int_equal(last_ask(&s)->spent_tok, 3);
	lg_upstream_down(&s.upstream);
	up(&s, 2, 5001);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 3);
	end(&s);
}

TEST(a_key_that_only_spent_what_it_started_with_is_forgotten_like_any_other)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 10000, 60 * S, 10000);
	struct script s = { .bucket.total.denied_tok = 1 };

	begin_with(&s, &t);
	s.bucket.total.granted_tok = 5;
	s.bucket.total.spent_tok = 5;
	tick(&s, 20);
	tick(&s, 1519);
	assert_false(lg_lessee_is_idle(s.lessee, T0 + 1519 * MS));
	assert_true(lg_lessee_is_idle(s.lessee, T0 + 1520 * MS));
	end(&s);
}

TEST(the_packet_that_made_the_bucket_is_the_first_demand)
{
	struct script s;

	begin(&s, LG_TOKEN_BUCKET);
	up(&s, 1, 0);
	assert_int_equal(s.out.n, 1);
	assert_int_equal(last_ask(&s)->generation, 0);
	assert_false(last_ask(&s)->request);
	grant(&s, 1001, 1, 0, 10000, 1);
	tick(&s, 20);
	assert_int_equal(s.out.n, 2);
	assert_true(last_ask(&s)->request);
	assert_true(last_ask(&s)->want_tok >= 1);
	assert_int_equal(last_ask(&s)->seq, 1002);
	assert_int_equal(last_ask(&s)->life, 1001);
	assert_int_equal(last_ask(&s)->epoch, 1);
	end(&s);
}

TEST(an_answer_without_tokens_keeps_the_fallback_away)
{
	struct script s;

	begin(&s, LG_TOKEN_BUCKET);
	up(&s, 1, 0);
	grant(&s, 1001, 1, 0, 10000, 1);
	assert_int_equal(left(&s), 0);
	assert_int_equal(s.bucket.expires_ns, T0 + 10000 * MS);
	tick(&s, 900);
	grant(&s, 1002, 1, 0, 10000, 901);
	assert_int_equal(s.bucket.expires_ns, T0 + 10900 * MS);
	end(&s);
}

TEST(a_grant_ends_counted_from_when_its_request_was_sent_and_a_push_prolongs_nothing)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 10);
	grant(&s, 1002, 1, 15, 10000, 1020);	/* pushed a second later */
	assert_int_equal(s.bucket.total.granted_tok, 15);
	assert_int_equal(s.bucket.expires_ns, T0 + 10020 * MS);
	grant(&s, 1002, 1, 15, 9000, 1030);
	assert_int_equal(s.bucket.expires_ns, T0 + 10020 * MS);
	spend(&s, 1);
	tick(&s, 1040);
	grant(&s, 1003, 1, 15, 0, 1041);	/* its lessor has no time left */
	assert_int_equal(s.bucket.expires_ns, T0 + 10020 * MS);
	spend(&s, 1);
	tick(&s, 2040);
	spend(&s, 1);
	tick(&s, 3100);
	assert_int_equal(last_ask(&s)->seq, 1005);
	grant(&s, 1003, 1, 16, 60000, 3101);	/* of a message older than the last two: tokens yes, time no */
	assert_int_equal(s.bucket.total.granted_tok, 16);
	assert_int_equal(s.bucket.expires_ns, T0 + 10020 * MS);
	grant(&s, 1004, 1, 16, 60000, 3102);	/* of the last but one */
	assert_int_equal(s.bucket.expires_ns, T0 + 62040 * MS);
	grant(&s, 1006, 1, 17, 60000, 3103);	/* of one that was never sent */
	assert_int_equal(s.bucket.total.granted_tok, 16);
	end(&s);
}

TEST(a_repeated_or_overtaken_grant_adds_nothing)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	grant(&s, 1002, 1, 100, 10000, 30);
	grant(&s, 1001, 1, 60, 10000, 40);
	assert_int_equal(left(&s), 100);
	assert_int_equal(s.bucket.total.granted_tok, 100);
	end(&s);
}

TEST(a_new_generation_drops_the_old_lease_and_the_old_one_is_not_heard_again)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 40);
	spend(&s, 10);
	grant(&s, 1002, 2, 30, 10000, 12000);
	assert_int_equal(s.bucket.generation, 2);
	assert_int_equal(left(&s), 30);
	assert_int_equal(s.bucket.total.returned_tok, 30);
	assert_int_equal(look(&s, 12000).granted_tok, 30);
	assert_int_equal(look(&s, 12000).spent_tok, 0);
	assert_int_equal(look(&s, 12000).returned_tok, 0);
	grant(&s, 1002, 1, 80, 10000, 13000);	/* the answer to the old request, late */
	assert_int_equal(left(&s), 30);
	/* nothing of the old lease is reported */
	tick(&s, 13000);
	tick(&s, 13020);
	assert_int_equal(last_ask(&s)->generation, 2);
	assert_int_equal(last_ask(&s)->spent_tok, 0);
	assert_int_equal(last_ask(&s)->n_slots, 0);
	end(&s);
}

TEST(a_generation_that_cannot_be_closed_goes_on_until_it_can)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 40);
	spend(&s, 10);
	s.bucket.busy = true;
	grant(&s, 1002, 2, 30, 10000, 12000);
	assert_int_equal(s.bucket.generation, 1);
	assert_int_equal(left(&s), 0);
	assert_int_equal(look(&s, 12000).generation, 1);
	s.bucket.busy = false;
	tick(&s, 12020);
	assert_int_equal(last_ask(&s)->generation, 1);
	assert_int_equal(last_ask(&s)->granted_tok, 40);
	grant(&s, last_ask(&s)->seq, 2, 30, 10000, 12030);
	assert_int_equal(s.bucket.generation, 2);
	assert_int_equal(left(&s), 30);
	end(&s);
}

TEST(a_bucket_that_cannot_be_read_is_taken_to_be_as_it_was)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 7);
	tick(&s, 40);
	spend(&s, 3);
	lg_lessee_tick(s.lessee, NULL, T0 + 60 * MS, &s.fx);
	lg_lessee_tick(s.lessee, NULL, T0 + 900 * MS, &s.fx);
	assert_int_equal(last_ask(&s)->spent_tok, 7);
	end(&s);
}

TEST(a_key_that_was_not_named_to_a_new_life_of_the_region_says_hello_by_itself)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	s.out.n = 0;
	assert_true(lg_upstream_up(&s.upstream, 2));
	grant(&s, 1002, 1, 120, 10000, 30);	/* of the old one */
	assert_int_equal(left(&s), 100);
	tick(&s, 40);
	assert_int_equal(left(&s), 0);
	assert_int_equal(s.out.n, 1);
	assert_int_equal(last_ask(&s)->epoch, 2);
	assert_int_equal(last_ask(&s)->returned_tok, 100);
	end(&s);
}

TEST(what_traffic_spends_is_reported_in_totals_and_slots_once_two_readings_have_seen_it)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 7);
	tick(&s, 40);
	tick(&s, 60);
	spend(&s, 5);
	tick(&s, 500);
	tick(&s, 520);
	tick(&s, 900);	/* the period is over */
	assert_int_equal(last_ask(&s)->spent_tok, 12);
	assert_int_equal(last_ask(&s)->granted_tok, 100);
	assert_int_equal(last_ask(&s)->n_slots, 2);
	assert_int_equal(last_ask(&s)->slots[0].tok, 7);
	assert_int_equal(last_ask(&s)->slots[0].age_ms, lg_age_ms(T0 + 60 * MS, T0 + 900 * MS));
	assert_int_equal(last_ask(&s)->slots[1].tok, 5);
	end(&s);
}

TEST(a_take_that_was_undone_is_not_reported)
{
	struct lg_usage high;
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 10);
	tick(&s, 40);
	high = usage_of(&s.bucket);
	high.spent_tok += 50;
	lg_lessee_tick(s.lessee, &high, T0 + 60 * MS, &s.fx);
	tick(&s, 80);
	tick(&s, 900);
	assert_int_equal(last_ask(&s)->spent_tok, 10);
	/* and the tokens are reported when they are really spent */
	spend(&s, 50);
	tick(&s, 920);
	tick(&s, 940);
	tick(&s, 1800);
	assert_int_equal(last_ask(&s)->spent_tok, 60);
	end(&s);
}

TEST(slots_are_sent_until_they_are_acknowledged)
{
	struct lg_grant g = { .epoch = 1, .generation = 1, .granted_tok = 100, .ttl_ms = 10000 };
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 7);
	tick(&s, 40);
	tick(&s, 60);
	tick(&s, 900);
	assert_int_equal(last_ask(&s)->n_slots, 1);
	g.ack_seq = last_ask(&s)->seq;
	g.ack_slot = last_ask(&s)->slots[0].id - 1;
	lg_lessee_grant(s.lessee, &g, T0 + 901 * MS, &s.fx);
	tick(&s, 1800);
	assert_int_equal(last_ask(&s)->n_slots, 1);
	g.ack_seq = last_ask(&s)->seq;
	g.ack_slot++;
	lg_lessee_grant(s.lessee, &g, T0 + 1801 * MS, &s.fx);
	spend(&s, 3);
	tick(&s, 1900);
	tick(&s, 1920);
	tick(&s, 2700);
	assert_int_equal(last_ask(&s)->n_slots, 1);
	assert_int_equal(last_ask(&s)->slots[0].tok, 3);
	assert_int_equal(last_ask(&s)->spent_tok, 10);
	end(&s);
}

TEST(what_is_returned_is_taken_first_so_that_no_token_is_returned_and_spent)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 60);
	tick(&s, 40);
	s.bucket.steal_tok = 39;	/* packets take all but one while the agent gives back */
	lg_lessee_close(s.lessee, T0 + 60 * MS, &s.fx);
	assert_int_equal(left(&s), 0);
	assert_int_equal(last_ask(&s)->spent_tok, 99);
	assert_int_equal(last_ask(&s)->returned_tok, 1);
	end(&s);
}

TEST(an_idle_key_gives_back_all_but_a_few_and_after_five_minutes_those_too)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 2);
	tick(&s, 40);
	tick(&s, 1500);
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 1501);
	assert_int_equal(s.bucket.total.returned_tok, 0);
	tick(&s, 1540);
	assert_int_equal(left(&s), 6);		/* twice its largest burst: one refused and two spent */
	assert_int_equal(last_ask(&s)->returned_tok, 92);
	assert_int_equal(last_ask(&s)->demand_mtps, 0);
	assert_false(last_ask(&s)->request);
	assert_int_equal(look(&s, 1540).target_tok, 0);
	/* kept alive, and the kernel tells of any cost */
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 1541);
	assert_int_equal(s.bucket.low_water_tok, 6);
	tick(&s, 4800);
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 4801);
	tick(&s, 4900);
	for (uint64_t ms = 5000; ms < 300000; ms = (s.due_ns - T0) / MS + 1) {
		s.out.n = 0;
		tick(&s, ms);
		if (s.out.n)
			grant(&s, last_ask(&s)->seq, 1, 100, 10000, ms + 1);
		assert_int_equal(left(&s), 6);
		assert_true(s.bucket.expires_ns > T0 + ms * MS + 6 * S);
	}
	tick(&s, 300041);
	assert_int_equal(left(&s), 0);
	grant(&s, last_ask(&s)->seq, 1, 100, 10000, 300042);
	assert_true(lg_lessee_is_idle(s.lessee, T0 + 300043 * MS));
	end(&s);
}

TEST(a_key_at_rest_needs_little_memory_and_is_awake_at_the_first_cost)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 2);
	tick(&s, 40);
	tick(&s, 1540);
	assert_in_range(lg_lessee_busy_bytes(s.lessee), 1, 300);
	acknowledge(&s, 100, 1541);
	tick(&s, 10040);
	assert_true(lg_lessee_busy_bytes(s.lessee) > 0);	/* it has just said something */
	acknowledge(&s, 100, 10041);
	tick(&s, 10060);
	assert_int_equal(lg_lessee_busy_bytes(s.lessee), 0);
	/* prolonged at rest */
	s.out.n = 0;
	tick(&s, 14000);
	assert_int_equal(s.out.n, 1);
	assert_int_equal(last_ask(&s)->spent_tok, 2);
	assert_int_equal(last_ask(&s)->returned_tok, 92);
	acknowledge(&s, 100, 14001);
	assert_int_equal(s.bucket.expires_ns, T0 + 24000 * MS);
	assert_int_equal(s.bucket.low_water_tok, 6);
	assert_int_equal(lg_lessee_busy_bytes(s.lessee), 0);
	assert_int_equal(look(&s, 14001).left_tok, 6);
	assert_int_equal(look(&s, 14001).target_tok, 0);
	/* and awake: totals and slots go on where they were */
	spend(&s, 1);
	tick(&s, 15000);
	assert_in_range(lg_lessee_busy_bytes(s.lessee), 1, 300);
	assert_true(look(&s, 15000).demand_mtps > 0);
	tick(&s, 15020);
	tick(&s, 16000);
	assert_int_equal(last_ask(&s)->spent_tok, 3);
	assert_int_equal(last_ask(&s)->n_slots, 1);
	assert_int_equal(last_ask(&s)->slots[0].id, 2);
	end(&s);
}

TEST(a_refusal_wakes_a_key_at_rest)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 2);
	tick(&s, 40);
	tick(&s, 1540);
	acknowledge(&s, 100, 1541);
	tick(&s, 10041);
	acknowledge(&s, 100, 10042);
	tick(&s, 10060);
	assert_int_equal(lg_lessee_busy_bytes(s.lessee), 0);
	s.bucket.total.denied_tok += 7;
	s.out.n = 0;
	tick(&s, 12000);
	assert_int_equal(s.out.n, 1);
	assert_true(last_ask(&s)->request);
	assert_true(last_ask(&s)->want_tok >= 14);	/* twice that burst */
	end(&s);
}

TEST(a_key_whose_window_remembers_what_was_spent_does_not_rest)
{
	struct script s;

	leased(&s, LG_SLIDING_WINDOW, 100);
	spend(&s, 2);
	tick(&s, 40);
	tick(&s, 1540);
	acknowledge(&s, 100, 1541);
	for (uint64_t ms = 2000; ms < 60000; ms += 1000) {
		s.out.n = 0;
		tick(&s, ms);
		if (s.out.n)
			acknowledge(&s, 100, ms + 1);
		assert_true(lg_lessee_busy_bytes(s.lessee) > 0);
	}
	tick(&s, 60500);
	acknowledge(&s, 100, 60501);
	tick(&s, 60520);
	assert_int_equal(lg_lessee_busy_bytes(s.lessee), 0);
	end(&s);
}

TEST(what_idle_hosts_keep_is_a_small_part_of_the_budget_and_smaller_after_a_while)
{
	static const struct { uint64_t at_ms, left_tok; } rows[] = { { 1540, 52 }, { 9980, 52 }, { 10041, 8 }, { 20000, 8 } };
	struct script s;

	/* bursts of 200: a sixteenth of 10,000, and later a hundredth, for twelve hosts */
	leased(&s, LG_TOKEN_BUCKET, 500);
	spend(&s, 200);
	tick(&s, 40);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		tick(&s, rows[i].at_ms);
		grant(&s, last_ask(&s)->seq, 1, 500, 10000, rows[i].at_ms + 1);
		assert_int_equal(left(&s), rows[i].left_tok);
	}
	end(&s);
}

TEST(of_a_small_budget_one_token_is_kept)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 5, 60 * S, 5);	/* for twelve hosts */
	struct script s = { .bucket.total.denied_tok = 1 };

	begin_with(&s, &t);
	up(&s, 1, 0);
	tick(&s, 20);
	grant(&s, 1001, 1, 5, 10000, 21);
	tick(&s, 40);
	tick(&s, 1600);
	assert_int_equal(left(&s), 1);
	end(&s);
}

TEST(more_than_twice_what_is_needed_goes_back)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 5000);
	for (uint64_t ms = 40; ms < 1500; ms += 20) {
		spend(&s, 1);	/* 50 a second: about 60 are needed */
		tick(&s, ms);
	}
	assert_true(left(&s) > 4000);
	for (uint64_t ms = 1500; ms < 1700; ms += 20) {
		spend(&s, 1);
		tick(&s, ms);
	}
	assert_in_range(left(&s), 20, 120);
	end(&s);
}

TEST(past_its_end_the_lease_is_given_back_even_when_nobody_listens)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	lg_upstream_down(&s.upstream);
	for (uint64_t ms = 40; ms < 10020; ms += 400) {
		spend(&s, 1);
		tick(&s, ms);
	}
	assert_true(s.due_ns <= T0 + 10020 * MS);
	assert_int_equal(look(&s, 10019).left_tok, left(&s));
	assert_int_equal(look(&s, 10020).left_tok, 0);
	tick(&s, 10020);
	assert_int_equal(left(&s), 0);
	/* a grant that arrives later adds only what the total grew by */
	grant(&s, 1002, 1, 105, 10000, 10030);
	assert_int_equal(left(&s), 5);
	assert_int_equal(s.bucket.expires_ns, T0 + 10020 * MS);
	up(&s, 1, 10040);
	assert_int_equal(last_ask(&s)->granted_tok, 105);
	assert_int_equal(last_ask(&s)->returned_tok, 75);
	assert_int_equal(last_ask(&s)->spent_tok, 25);
	end(&s);
}

TEST(a_new_agent_goes_on_with_the_lease_it_finds)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct script s = { .bucket = {
		.generation = 4, .epoch = 1, .expires_ns = T0 + 5 * S,
		.base = { .granted_tok = 1000, .spent_tok = 1000, .returned_tok = 300 },
		.total = { .granted_tok = 1100, .spent_tok = 1060, .returned_tok = 320, .denied_tok = 9 },
	} };

	begin_with(&s, &t);
	up(&s, 1, 0);
	/* all of it is news, without slots: nobody knows when */
	assert_int_equal(last_ask(&s)->generation, 4);
	assert_int_equal(last_ask(&s)->granted_tok, 100);
	assert_int_equal(last_ask(&s)->spent_tok, 40);
	assert_int_equal(last_ask(&s)->returned_tok, 20);
	assert_int_equal(last_ask(&s)->n_slots, 0);
	assert_int_equal(left(&s), 40);
	grant(&s, 1001, 4, 130, 10000, 1);	/* 30 had been on their way to the old agent */
	assert_int_equal(left(&s), 70);
	assert_int_equal(s.bucket.expires_ns, T0 + 10 * S);
	end(&s);
}

TEST(a_new_agent_that_finds_its_lease_over_gives_it_back)
{
	struct lg_terms t = terms_of(LG_TOKEN_BUCKET, 10000, 60 * S, 10000);
	struct script s = { .bucket = { .generation = 1, .epoch = 1, .expires_ns = T0 - 1, .total.granted_tok = 50 } };

	begin_with(&s, &t);
	up(&s, 1, 0);
	tick(&s, 20);
	assert_int_equal(left(&s), 0);
	end(&s);
}

TEST(before_it_speaks_to_a_new_life_of_its_region_a_host_drops_what_it_had)
{
	struct script s;

	leased(&s, LG_SLIDING_WINDOW, 100);
	spend(&s, 30);
	tick(&s, 40);
	tick(&s, 60);
	lg_upstream_down(&s.upstream);
	spend(&s, 5);
	up(&s, 2, 200);
	assert_int_equal(left(&s), 0);
	assert_int_equal(last_ask(&s)->epoch, 2);
	assert_int_equal(last_ask(&s)->returned_tok, 65);
	/* and tells what it spent in the last window, the last five included */
	assert_int_equal(last_ask(&s)->n_history, 2);
	assert_int_equal(last_ask(&s)->history[0].tok + last_ask(&s)->history[1].tok, 35);
	/* grants of the old life are not heard */
	grant(&s, last_ask(&s)->seq, 1, 200, 10000, 210);
	assert_int_equal(left(&s), 0);
	/* an answer ends the telling */
	tick(&s, 1300);
	assert_int_equal(last_ask(&s)->n_history, 2);
	struct lg_grant g = { .ack_seq = last_ask(&s)->seq, .epoch = 2, .generation = 2, .ttl_ms = 10000 };
	lg_lessee_grant(s.lessee, &g, T0 + 1301 * MS, &s.fx);
	assert_int_equal(s.bucket.generation, 2);
	spend(&s, 0);
	s.bucket.total.denied_tok++;
	tick(&s, 1400);
	assert_int_equal(last_ask(&s)->n_history, 0);
	assert_int_equal(last_ask(&s)->generation, 2);
	end(&s);
}

TEST(an_older_life_of_the_region_is_not_spoken_to)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	up(&s, 3, 1000);
	s.out.n = 0;
	assert_false(lg_upstream_up(&s.upstream, 2));
	lg_lessee_up(s.lessee, T0 + 2000 * MS, &s.fx);
	assert_int_equal(s.out.n, 0);
	tick(&s, 5000);
	assert_int_equal(s.out.n, 0);
	end(&s);
}

TEST(what_an_earlier_agent_or_an_earlier_boot_spent_is_stated_as_if_it_were_just_now)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 10000, 60 * S, 10000);
	struct script s = { .bucket = {
		.generation = 1, .epoch = 1, .expires_ns = T0 + 5 * S,
		.base = { .granted_tok = 300, .spent_tok = 300 },	/* what an earlier lease spent was spent too */
		.total = { .granted_tok = 500, .spent_tok = 420, .returned_tok = 20 },
	} };
	struct script r = { .bucket.total.denied_tok = 1 };

	begin_with(&s, &t);
	up(&s, 1, 0);
	assert_int_equal(last_ask(&s)->n_history, 1);
	assert_int_equal(last_ask(&s)->history[0].tok, 400);
	end(&s);
	begin_with(&r, &t);
	lg_lessee_forgot(r.lessee, T0 - 20 * S);
	up(&r, 1, 0);
	assert_int_equal(last_ask(&r)->n_history, 1);
	assert_int_equal(last_ask(&r)->history[0].tok, 10000);
	/* 20 s, from the end of its slot (there are 248 in a window), less two thousandths and a millisecond */
	assert_in_range(last_ask(&r)->history[0].age_ms, 19959 - 242, 19959);
	end(&r);
}

TEST(a_region_whose_home_is_silent_is_an_answer_and_the_reason_of_a_refusal)
{
	struct lg_grant g = { .ack_seq = 1002, .epoch = 1, .generation = 1, .granted_tok = 120, .partial = true,
			      .status = LG_GRANT_UNREACHABLE };
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	assert_int_equal(look(&s, 30).reason, LG_WANT_PENDING);
	lg_lessee_grant(s.lessee, &g, T0 + 30 * MS, &s.fx);
	assert_int_equal(look(&s, 30).reason, LG_WANT_UNREACHABLE);
	assert_int_equal(left(&s), 120);	/* the totals hold */
	assert_int_equal(s.bucket.expires_ns, T0 + 10020 * MS);	/* nothing is prolonged, so the fallback begins when the lease ends */
	g.status = LG_GRANT_OK;
	lg_lessee_grant(s.lessee, &g, T0 + 40 * MS, &s.fx);
	assert_int_equal(look(&s, 40).reason, LG_WANT_LIMIT);
	end(&s);
}

TEST(refused_it_keeps_what_it_has)
{
	struct lg_grant g = { .epoch = 1, .status = LG_GRANT_OVERLOADED };
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	g.ack_seq = 1002;
	g.generation = 7;	/* not looked at */
	lg_lessee_grant(s.lessee, &g, T0 + 30 * MS, &s.fx);
	assert_int_equal(left(&s), 100);
	assert_int_equal(look(&s, 30).generation, 1);
	assert_int_equal(look(&s, 30).status, LG_GRANT_OVERLOADED);
	s.out.n = 0;
	spend(&s, 100);
	tick(&s, 500);
	assert_int_equal(s.out.n, 0);
	tick(&s, 1040);
	assert_int_equal(s.out.n, 1);
	end(&s);
}

TEST(an_orderly_end_gives_everything_back)
{
	struct script s;

	leased(&s, LG_TOKEN_BUCKET, 100);
	spend(&s, 30);
	tick(&s, 40);
	lg_lessee_close(s.lessee, T0 + 60 * MS, &s.fx);
	assert_int_equal(left(&s), 0);
	assert_int_equal(last_ask(&s)->returned_tok, 70);
	assert_int_equal(last_ask(&s)->spent_tok, 30);
	assert_false(last_ask(&s)->request);
	end(&s);
}

TEST(a_key_is_forgotten_when_all_is_told_and_no_window_remembers_it)
{
	struct script s;

	leased(&s, LG_SLIDING_WINDOW, 4);
	spend(&s, 4);
	tick(&s, 40);
	tick(&s, 60);
	assert_false(lg_lessee_is_idle(s.lessee, T0 + 60 * MS));
	tick(&s, 1600);
	grant(&s, last_ask(&s)->seq, 1, 4, 10000, 1601);
	assert_false(lg_lessee_is_idle(s.lessee, T0 + 59 * S));
	assert_true(lg_lessee_is_idle(s.lessee, T0 + 61 * S));
	end(&s);
}

TEST(tokens_that_never_reached_the_kernel_lapse)
{
	struct script s;

	begin(&s, LG_TOKEN_BUCKET);
	s.bucket.absent = true;
	up(&s, 1, 0);
	tick(&s, 20);
	grant(&s, 1001, 1, 100, 10000, 21);
	for (uint64_t ms = 40; ms < 60000; ms += 100) {
		s.out.n = 0;
		tick(&s, ms);
		/* never says that they are back, and after a while no longer prolongs them */
		if (s.out.n) {
			assert_int_equal(last_ask(&s)->returned_tok, 0);
			assert_true(ms < 8000);
			grant(&s, last_ask(&s)->seq, 1, 100, 10000, ms + 1);
		}
	}
	assert_true(lg_lessee_is_idle(s.lessee, T0 + 60 * S));
	end(&s);
}

TEST(a_changed_rule_changes_the_sizes)
{
	struct lg_terms t = terms_of(LG_SLIDING_WINDOW, 10000, 10 * S, 10000);
	uint64_t before_tok;
	struct script s;

	t.host_period_ns = 100 * MS;
	leased(&s, LG_SLIDING_WINDOW, 1000);
	for (uint64_t ms = 40; ms < 1000; ms += 20) {
		spend(&s, 5);
		tick(&s, ms);
	}
	before_tok = look(&s, 1000).target_tok;
	s.terms = t;
	lg_lessee_terms(s.lessee, T0 + 1000 * MS);
	assert_in_range(look(&s, 1000).target_tok, before_tok / 4, before_tok / 2);
	end(&s);
}

TEST(what_a_host_holds_beyond_its_cap_goes_back_at_once)
{
	static const struct { uint64_t cap_tok, left_tok; } rows[] = { { 0, 40 }, { 40, 40 }, { 39, 39 }, { 15, 15 } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lg_grant g = { .ack_seq = 1002, .epoch = 1, .generation = 1, .granted_tok = 40, .ttl_ms = 10000 };
		struct script s;

		leased(&s, LG_TOKEN_BUCKET, 40);
		g.cap_tok = rows[i].cap_tok;
		lg_lessee_grant(s.lessee, &g, T0 + 30 * MS, &s.fx);
		assert_int_equal(left(&s), rows[i].left_tok);
		assert_int_equal(s.bucket.total.returned_tok, 40 - rows[i].left_tok);
		tick(&s, 140);
		tick(&s, 160);
		if (rows[i].left_tok < 40)
			assert_int_equal(last_ask(&s)->returned_tok, 40 - rows[i].left_tok);
		end(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_key_started_with_is_demand_and_is_neither_reported_nor_remembered),
		cmocka_unit_test(a_key_that_only_spent_what_it_started_with_is_forgotten_like_any_other),
		cmocka_unit_test(the_packet_that_made_the_bucket_is_the_first_demand),
		cmocka_unit_test(an_answer_without_tokens_keeps_the_fallback_away),
		cmocka_unit_test(a_grant_ends_counted_from_when_its_request_was_sent_and_a_push_prolongs_nothing),
		cmocka_unit_test(a_repeated_or_overtaken_grant_adds_nothing),
		cmocka_unit_test(a_new_generation_drops_the_old_lease_and_the_old_one_is_not_heard_again),
		cmocka_unit_test(a_generation_that_cannot_be_closed_goes_on_until_it_can),
		cmocka_unit_test(a_bucket_that_cannot_be_read_is_taken_to_be_as_it_was),
		cmocka_unit_test(a_key_that_was_not_named_to_a_new_life_of_the_region_says_hello_by_itself),
		cmocka_unit_test(what_traffic_spends_is_reported_in_totals_and_slots_once_two_readings_have_seen_it),
		cmocka_unit_test(a_take_that_was_undone_is_not_reported),
		cmocka_unit_test(slots_are_sent_until_they_are_acknowledged),
		cmocka_unit_test(what_is_returned_is_taken_first_so_that_no_token_is_returned_and_spent),
		cmocka_unit_test(an_idle_key_gives_back_all_but_a_few_and_after_five_minutes_those_too),
		cmocka_unit_test(a_key_at_rest_needs_little_memory_and_is_awake_at_the_first_cost),
		cmocka_unit_test(a_refusal_wakes_a_key_at_rest),
		cmocka_unit_test(a_key_whose_window_remembers_what_was_spent_does_not_rest),
		cmocka_unit_test(what_idle_hosts_keep_is_a_small_part_of_the_budget_and_smaller_after_a_while),
		cmocka_unit_test(of_a_small_budget_one_token_is_kept),
		cmocka_unit_test(more_than_twice_what_is_needed_goes_back),
		cmocka_unit_test(past_its_end_the_lease_is_given_back_even_when_nobody_listens),
		cmocka_unit_test(a_new_agent_goes_on_with_the_lease_it_finds),
		cmocka_unit_test(a_new_agent_that_finds_its_lease_over_gives_it_back),
		cmocka_unit_test(before_it_speaks_to_a_new_life_of_its_region_a_host_drops_what_it_had),
		cmocka_unit_test(an_older_life_of_the_region_is_not_spoken_to),
		cmocka_unit_test(what_an_earlier_agent_or_an_earlier_boot_spent_is_stated_as_if_it_were_just_now),
		cmocka_unit_test(a_region_whose_home_is_silent_is_an_answer_and_the_reason_of_a_refusal),
		cmocka_unit_test(refused_it_keeps_what_it_has),
		cmocka_unit_test(an_orderly_end_gives_everything_back),
		cmocka_unit_test(a_key_is_forgotten_when_all_is_told_and_no_window_remembers_it),
		cmocka_unit_test(tokens_that_never_reached_the_kernel_lapse),
		cmocka_unit_test(a_changed_rule_changes_the_sizes),
		cmocka_unit_test(what_a_host_holds_beyond_its_cap_goes_back_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
