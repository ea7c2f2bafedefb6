// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/bucket.h and agent/rules/rate.c on the host: what the kernel runs, against plain arithmetic with room to spare. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "bucket.h"
#include "base/mem.h"
#include "lease/terms.h"
#include "rules/rate.h"
#include "tests/lib/chance.h"

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull
#define DAY (86400 * S)
#define BOOT (12345 * S + 678) /* any time will do as the anchor */

typedef unsigned __int128 u128;

static uint64_t rng;

static uint64_t next_random(void)
{
	return chance_next(&rng);
}

static uint64_t random_below(uint64_t n)
{
	return next_random() % n;
}

static int seed_random(void **state)
{
	(void)state;
	rng = chance_seed();
	return 0;
}

/* A rate rule with its bucket, full at BOOT. */
struct world {
	struct lg_rule rule;
	struct lg_bucket bucket;
};

static struct world rate_world(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok)
{
	struct world w = { .rule = { .rule_id = 7, .cold_burst_tok = burst_tok } };

	w.rule.rate_tok = rate_tok;
	w.rule.per_ns = per_ns;
	w.rule.burst_tok = burst_tok;
	assert_int_equal(lg_rate_init(rate_tok, per_ns, burst_tok, BOOT, &w.rule.rate), 0);
	lg_bucket_init(&w.bucket, &w.rule, BOOT);
	return w;
}

static enum lg_reason ask(struct world *w, uint64_t now_ns, uint64_t cost_tok, uint32_t packets)
{
	struct lg_ask a = { .now_ns = now_ns, .cost_tok = cost_tok, .is_reachable = 1 };
	enum lg_reason reason = lg_rule_refusal(&w->rule, packets, &a);

	return reason == LG_PASS_ADMITTED ? lg_bucket_take(&w->bucket, &w->rule, &a, 1) : reason;
}

static uint32_t admitted(struct world *w, uint64_t now_ns, uint64_t cost_tok, uint32_t n)
{
	uint32_t n_admitted = 0;

	while (n--)
		n_admitted += ask(w, now_ns, cost_tok, 1) == LG_PASS_ADMITTED;
	return n_admitted;
}

/* ---- worked examples ---- */

static void capacity_10_refilled_by_2_per_second_serves_10_of_15(void **state)
{
	struct world w = rate_world(2, S, 10);
	uint32_t late = 5;

	(void)state;
	assert_int_equal(admitted(&w, BOOT, 1, 15), 10);
	assert_int_equal(admitted(&w, BOOT + 500 * MS - 1, 1, 1), 0);
	for (uint64_t t_ns = BOOT + 500 * MS; t_ns <= BOOT + 2500 * MS; t_ns += 500 * MS)
		late -= admitted(&w, t_ns, 1, 2);
	assert_int_equal(late, 0); /* all 15 after 2.5 s */
}

static void two_of_three_pass_with_12_left_and_the_third_0_3_s_later(void **state)
{
	struct world w = rate_world(10, S, 100);

	(void)state;
	assert_int_equal(admitted(&w, BOOT, 88, 1), 1);
	assert_int_equal(admitted(&w, BOOT, 5, 3), 2);
	assert_int_equal(admitted(&w, BOOT + 300 * MS - 1, 5, 1), 0);
	assert_int_equal(admitted(&w, BOOT + 300 * MS, 5, 1), 1);
	assert_int_equal(admitted(&w, BOOT + 300 * MS, 1, 1), 0);
}

static void a_limit_of_0_lets_nothing_through_ever(void **state)
{
	struct world w = rate_world(0, S, 0);

	(void)state;
	assert_int_equal(ask(&w, BOOT, 1, 1), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, BOOT + 365 * DAY, 1, 1), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, BOOT + 365 * DAY, 45, 45), LG_DROP_LIMIT); /* nor a superframe */
}

static void a_limit_raised_from_0_passes_at_once(void **state)
{
	struct world w = rate_world(0, S, 0);
	struct lg_rate raised;

	(void)state;
	assert_int_equal(lg_rate_change(&w.rule.rate, 5, S, 5, BOOT + S, &raised), 0);
	w.rule.rate = raised;
	w.rule.cold_burst_tok = 5;
	assert_int_equal(admitted(&w, BOOT + S, 1, 10), 5);
	assert_int_equal(admitted(&w, BOOT + S + 200 * MS - 1, 1, 1), 0);
	assert_int_equal(admitted(&w, BOOT + S + 200 * MS, 1, 2), 1);
}

static void a_cost_above_the_burst_never_passes_and_spends_nothing(void **state)
{
	struct world w = rate_world(1000, S, 1000);

	(void)state;
	assert_int_equal(ask(&w, BOOT, 1001, 1), LG_DROP_COST);
	assert_int_equal(ask(&w, BOOT + DAY, 1514, 1), LG_DROP_COST);
	assert_int_equal(w.bucket.spent_tok, 0);
	assert_int_equal(ask(&w, BOOT, 1000, 1), LG_PASS_ADMITTED);
}

static void a_superframe_above_the_burst_passes_a_full_bucket_and_is_charged_whole(void **state)
{
	struct world w = rate_world(1000, S, 1500);

	(void)state;
	assert_int_equal(ask(&w, BOOT, 65226, 45), LG_PASS_ADMITTED);
	assert_int_equal(w.bucket.spent_tok, 65226);
	/* 63,726 tokens of debt and 1,500 to be full again: 65.226 s. */
	assert_int_equal(ask(&w, BOOT + 65226 * MS - 1, 65226, 45), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, BOOT + 63726 * MS, 1, 1), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, BOOT + 65226 * MS, 65226, 45), LG_PASS_ADMITTED);
}

static void a_debt_too_large_for_the_word_is_refused(void **state)
{
	struct world w = rate_world(1, 31 * DAY, 1);

	(void)state;
	assert_int_equal(ask(&w, BOOT, 1u << 30, 45), LG_DROP_COST);
	assert_int_equal(ask(&w, BOOT, 1, 1), LG_PASS_ADMITTED);
	w = rate_world(7, 31 * DAY, 1);
	assert_int_equal(ask(&w, BOOT, 1u << 14, 45), LG_DROP_COST); /* would wrap to 0 */
}

static void a_window_long_rate_is_exact_at_large_numbers(void **state)
{
	struct world w = rate_world(980000000, 10 * S, 980000000);
	uint64_t total;

	(void)state;
	assert_int_equal(ask(&w, BOOT, 980000000, 1), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, BOOT, 1, 1), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, BOOT + 5 * S, 490000001, 1), LG_DROP_LIMIT);
	total = ask(&w, BOOT + 5 * S + 1, 490000000, 1) == LG_PASS_ADMITTED;
	assert_int_equal(total, 1);
	assert_int_equal(ask(&w, BOOT + 365 * DAY, 980000000, 1), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, BOOT + 365 * DAY, 1, 1), LG_DROP_LIMIT);
}

static void the_largest_burst_and_the_fastest_rate_hold(void **state)
{
	static const struct {
		uint64_t rate_tok, per_ns, burst_tok;
	} edges[] = {
		{ 1ull << 40, S, 1ull << 40 },  /* 8.8 Tbit/s would be too fast: refused below */
		{ 50000000000, S, 1ull << 40 }, /* 400 Gbit/s in bytes, a TiB of burst */
		{ 64, 1, 1ull << 40 },
		{ 1, 31 * DAY, 1ull << 40 },
		{ 1, 31 * DAY, 1 },
		{ 1ull << 40, 31 * DAY, 1ull << 40 },
		{ 1, 1, 1 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(edges); i++) {
		struct lg_rate rate;
		struct world w;

		if (!i) {
			assert_int_equal(lg_rate_init(edges[i].rate_tok, edges[i].per_ns, edges[i].burst_tok, 0, &rate), -EINVAL);
			continue;
		}
		w = rate_world(edges[i].rate_tok, edges[i].per_ns, edges[i].burst_tok);
		assert_int_equal(ask(&w, BOOT, edges[i].burst_tok, 1), LG_PASS_ADMITTED);
		assert_int_equal(ask(&w, BOOT, 1, 1), LG_DROP_LIMIT);
		assert_int_equal(w.rule.rate.burst_vt, edges[i].burst_tok * w.rule.rate.unit_per_tok);
		assert_true(w.rule.rate.burst_vt < 1ull << 61);
	}
}

static void numbers_out_of_bounds_are_refused(void **state)
{
	struct lg_rate rate;

	(void)state;
	assert_int_equal(lg_rate_init(1, 0, 1, 0, &rate), -EINVAL);
	assert_int_equal(lg_rate_init(1, LG_PER_MAX_NS, 1, 0, &rate), 0);
	assert_int_equal(lg_rate_init(1, LG_PER_MAX_NS + 1, 1, 0, &rate), -EINVAL);
	assert_int_equal(lg_rate_init(LG_BURST_MAX_TOK, DAY, LG_BURST_MAX_TOK, 0, &rate), 0);
	assert_int_equal(lg_rate_init(LG_BURST_MAX_TOK + 1, DAY, 1, 0, &rate), -EINVAL);
	assert_int_equal(lg_rate_init(1, S, LG_BURST_MAX_TOK + 1, 0, &rate), -EINVAL);
	assert_int_equal(lg_rate_init(64 * S, S, 1, 0, &rate), 0);
	assert_int_equal(lg_rate_init(64 * S + 1, S, 1, 0, &rate), -EINVAL);
}

static void the_coarse_clock_is_for_bursts_of_16_ms_and_more(void **state)
{
	struct lg_rate rate;

	(void)state;
	assert_int_equal(lg_rate_init(1000, S, 16, 0, &rate), 0);
	assert_int_equal(rate.coarse, 1);
	assert_int_equal(lg_rate_init(1001, S, 16, 0, &rate), 0);
	assert_int_equal(rate.coarse, 0);
}

/* ---- against a model ---- */

static void a_product_of_128_bits_is_shifted_right(void **state)
{
	static const uint64_t edges[] = { 0, 1, 2, 0xffffffff, 0x100000000, 0x100000001, 1ull << 63, ~0ull, ~0ull - 1 };
	uint64_t a, b;
	__u64 high;

	(void)state;
	for (uint32_t i = 0; i < 200000; i++) {
		uint32_t shift = i % 64;

		a = i % 3 ? next_random() >> random_below(64) : edges[random_below(N_ELEMS(edges))];
		b = i % 5 ? next_random() >> random_below(64) : edges[random_below(N_ELEMS(edges))];
		assert_true(lg_mul_shift(a, b, shift, &high) == (uint64_t)((u128)a * b >> shift));
		assert_true(high == (uint64_t)((u128)a * b >> 64));
	}
}

/* A rate from one a day to 50 e9 a second, of a burst that fits the bounds. */
static void random_numbers(uint64_t *rate_tok, uint64_t *per_ns, uint64_t *burst_tok)
{
	static const uint64_t pers[] = { S, 60 * S, 3600 * S, DAY, 10 * S, 7 * S, MS, 31 * DAY };

	*per_ns = random_below(4) ? pers[random_below(N_ELEMS(pers))] : 1 + next_random() % LG_PER_MAX_NS;
	*rate_tok = 1 + (next_random() >> random_below(64)) % (*per_ns < (1ull << 34) ? *per_ns * 50 : LG_BURST_MAX_TOK);
	*burst_tok = 1 + (next_random() >> random_below(64)) % LG_BURST_MAX_TOK;
}

/* v is the exact value, or low by less than a unit and a relative 2^-40; kernel and agent agree to the bit. */
static void virtual_time_is_right_for_any_rate(void **state)
{
	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t rate_tok, per_ns, burst_tok, elapsed_ns, v;
		u128 exact_times_per;
		struct lg_rate rate;

		random_numbers(&rate_tok, &per_ns, &burst_tok);
		assert_int_equal(lg_rate_init(rate_tok, per_ns, burst_tok, BOOT, &rate), 0);
		elapsed_ns = (next_random() >> random_below(40)) % (365 * DAY);
		v = lg_rate_now(&rate, BOOT + elapsed_ns);
		assert_true(v == lg_rate_vt(&rate, BOOT + elapsed_ns));
		exact_times_per = (u128)elapsed_ns * rate_tok * rate.unit_per_tok; /* may not fit: then skipped */
		if (elapsed_ns && exact_times_per / elapsed_ns / rate_tok == rate.unit_per_tok) {
			u128 exact = exact_times_per / per_ns;

			assert_true(v <= exact);
			assert_true(exact - v <= 1 + (exact >> 40));
			if (!rate.shift)
				assert_true(v == exact);
		}
	}
}

static void common_rates_are_exact(void **state)
{
	static const struct {
		uint64_t rate_tok, per_ns, mult, unit;
	} common[] = {
		{ 1, S, 1, S },
		{ 2, S, 1, S / 2 },
		{ 1000, S, 1, MS },
		{ 10000, 60 * S, 1, 6 * MS },
		{ 1000000, S, 1, 1000 },
		{ 1500, S, 3, 2 * MS },
		{ 3, S, 3, S },
		{ 1, DAY, 1, DAY },
		{ 1000000000, S, 1, 1 },
		{ 4, 1, 4, 1 },
	};
	struct lg_rate rate;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(common); i++) {
		assert_int_equal(lg_rate_init(common[i].rate_tok, common[i].per_ns, 1000, 0, &rate), 0);
		assert_int_equal(rate.mult, common[i].mult);
		assert_int_equal(rate.unit_per_tok, common[i].unit);
		assert_int_equal(rate.shift, 0);
	}
}

/* A bucket under random traffic never admits more than burst + rate * time; left alone until full it serves a whole burst. */
static void no_traffic_gets_more_than_burst_and_rate_or_much_less(void **state)
{
	(void)state;
	for (int i = 0; i < 300; i++) {
		uint64_t rate_tok, per_ns, burst_tok, now_ns = BOOT, refused_at_ns = 0;
		u128 total_tok = 0, due_times_per;
		struct world w;

		random_numbers(&rate_tok, &per_ns, &burst_tok);
		w = rate_world(rate_tok, per_ns, burst_tok);
		for (int n = 0; n < 3000; n++) {
			uint64_t cost_tok = 1 + random_below(random_below(8) ? 1 + burst_tok / 16 : burst_tok);

			now_ns += random_below(1 + per_ns / 4 / (1 + rate_tok / (1 + burst_tok)));
			if (ask(&w, now_ns, cost_tok, 1) == LG_PASS_ADMITTED)
				total_tok += cost_tok;
			else
				refused_at_ns = now_ns;
			due_times_per = (u128)burst_tok * per_ns + (u128)(now_ns - BOOT) * rate_tok;
			assert_true(total_tok * per_ns <= due_times_per);
		}
		/* Some would take longer to be full than there is time. */
		if (!refused_at_ns || (u128)burst_tok * per_ns / rate_tok > 300 * DAY)
			continue;
		now_ns += 1 + (uint64_t)((u128)burst_tok * per_ns / rate_tok) + US;
		now_ns += (now_ns - BOOT) >> 39;	/* virtual time may be low by 2^-40 of what has passed */
		if (now_ns - BOOT < 365 * DAY)
			assert_int_equal(ask(&w, now_ns, burst_tok, 1), LG_PASS_ADMITTED);
	}
}

/* Four writers whose clocks differ by up to 10 us each way, alternating at random. */
static void shuffled_clocks_mint_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		uint64_t rate_tok, per_ns, burst_tok, now_ns = BOOT + S, total_tok = 0, latest_ns = now_ns;
		struct world w;

		random_numbers(&rate_tok, &per_ns, &burst_tok);
		burst_tok = 1 + burst_tok % 1000;
		w = rate_world(rate_tok, per_ns, burst_tok);
		for (int n = 0; n < 5000; n++) {
			uint64_t seen_ns;

			now_ns += random_below(20 * US);
			seen_ns = now_ns - 10 * US + random_below(20 * US + 1);
			latest_ns = seen_ns > latest_ns ? seen_ns : latest_ns;
			total_tok += ask(&w, seen_ns, 1, 1) == LG_PASS_ADMITTED;
			assert_true((u128)total_tok * per_ns <= (u128)burst_tok * per_ns + (u128)(latest_ns - BOOT - S + 20 * US) * rate_tok);
		}
	}
}

static void a_clock_that_steps_back_refuses_and_forgets_nothing(void **state)
{
	struct world w = rate_world(1000, S, 10);

	(void)state;
	assert_int_equal(admitted(&w, BOOT + S, 1, 20), 10);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(admitted(&w, BOOT + S - (i % 2 ? 10 * US : S), 1, 1), 0);
		assert_int_equal(admitted(&w, BOOT + S, 1, 1), 0);
	}
	assert_int_equal(admitted(&w, BOOT - S, 1, 1), 0); /* before the anchor */
	assert_int_equal(admitted(&w, BOOT + S + MS, 1, 20), 1);
}

/* ---- changes ---- */

static uint64_t left_tok(const struct world *w, uint64_t now_ns)
{
	uint64_t v = lg_rate_vt(&w->rule.rate, now_ns), used_vt;

	used_vt = (int64_t)(w->bucket.full_at_vt - v) > 0 ? w->bucket.full_at_vt - v : 0;
	return used_vt >= w->rule.rate.burst_vt ? 0 : (w->rule.rate.burst_vt - used_vt) / w->rule.rate.unit_per_tok;
}

static void what_was_spent_stays_spent_when_a_limit_changes(void **state)
{
	static const struct {
		uint64_t rate_tok, burst_tok, want_left;
	} changes[] = {
		{ 100, 100, 30 },  /* the same again */
		{ 200, 200, 130 }, /* raised: 200 - 70 */
		{ 50, 50, 0 },     /* cut: 50 - 70 */
		{ 80, 80, 10 },
		{ 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(changes); i++) {
		struct world w = rate_world(100, S, 100);
		struct lg_rate changed;

		assert_int_equal(admitted(&w, BOOT + DAY, 70, 1), 1);
		assert_int_equal(lg_rate_change(&w.rule.rate, changes[i].rate_tok, S, changes[i].burst_tok, BOOT + DAY, &changed), 0);
		w.rule.rate = changed;
		assert_int_equal(changed.unit_per_tok, S / 100);
		assert_int_equal(left_tok(&w, BOOT + DAY), changes[i].want_left);
	}
}

static void a_hundred_changes_mint_nothing(void **state)
{
	struct world w = rate_world(1000, S, 1000);
	uint64_t now_ns = BOOT, total_tok = 0;
	struct lg_rate changed;

	(void)state;
	for (int i = 0; i < 100; i++) {
		total_tok += admitted(&w, now_ns, 1, 1200);
		now_ns += 10 * MS + random_below(US);
		/* 1 more and back: awkward slopes in between */
		assert_int_equal(lg_rate_change(&w.rule.rate, 1000 + i % 2, S, 1000, now_ns, &changed), 0);
		w.rule.rate = changed;
	}
	assert_true(total_tok <= 1000 + 1001 * (now_ns - BOOT) / S);
	assert_true(total_tok + 100 >= 1000 + 1000 * (now_ns - BOOT) / S);
}

static void a_change_that_does_not_fit_the_units_is_refused(void **state)
{
	struct world w = rate_world(1, DAY, 1);
	struct lg_rate changed;

	(void)state;
	assert_int_equal(lg_rate_change(&w.rule.rate, 290, DAY, 1, BOOT, &changed), 0);
	assert_int_equal(lg_rate_change(&w.rule.rate, 300, DAY, 1, BOOT, &changed), -ERANGE);
	assert_int_equal(lg_rate_change(&w.rule.rate, 1, DAY, 50000, BOOT, &changed), 0);
	assert_int_equal(lg_rate_change(&w.rule.rate, 1, DAY, 60000, BOOT, &changed), -ERANGE);
	assert_int_equal(lg_rate_change(&w.rule.rate, 1, 0, 1, BOOT, &changed), -EINVAL);
}

/* v runs past the end of the word after years at the highest rates; levels must not notice. */
static void virtual_time_may_wrap(void **state)
{
	struct world w = rate_world(1000, S, 10);

	(void)state;
	w.rule.rate.v0 = 0 - 5 * w.rule.rate.unit_per_tok;
	w.bucket.full_at_vt = w.rule.rate.v0;
	assert_int_equal(admitted(&w, BOOT, 1, 20), 10); /* the position is beyond the wrap, v before it */
	assert_int_equal(admitted(&w, BOOT + 3 * MS, 1, 20), 3);
	assert_int_equal(admitted(&w, BOOT + 8 * MS, 1, 20), 5); /* both beyond */
	assert_int_equal(admitted(&w, BOOT + S, 1, 20), 10);
}

/* ---- undo, poison, leases ---- */

static void an_undone_take_leaves_the_bucket_as_it_was(void **state)
{
	struct world w = rate_world(10, S, 10);
	struct lg_ask a = { .now_ns = BOOT + S, .cost_tok = 4 };

	(void)state;
	assert_int_equal(admitted(&w, BOOT + S, 3, 1), 1);
	assert_int_equal(lg_bucket_take(&w.bucket, &w.rule, &a, 1), LG_PASS_ADMITTED);
	assert_int_equal(left_tok(&w, BOOT + S), 3);
	lg_bucket_undo(&w.bucket, &w.rule, &a, LG_PASS_ADMITTED, 0);
	assert_int_equal(left_tok(&w, BOOT + S), 7);
	assert_int_equal(w.bucket.spent_tok, 3);
}

static void a_late_undo_does_not_lift_a_bucket_above_its_cap(void **state)
{
	struct world w = rate_world(10, S, 10);
	struct lg_ask a = { .now_ns = BOOT, .cost_tok = 4 };

	(void)state;
	assert_int_equal(lg_bucket_take(&w.bucket, &w.rule, &a, 1), LG_PASS_ADMITTED);
	lg_bucket_undo(&w.bucket, &w.rule, &a, LG_PASS_ADMITTED, 0); /* and only now the bucket is full again by time too */
	assert_int_equal(admitted(&w, BOOT + DAY, 1, 20), 10);
}

static void a_test_changes_nothing(void **state)
{
	struct world w = rate_world(10, S, 10), before = w;
	struct lg_ask a = { .now_ns = BOOT + S, .cost_tok = 10 };

	(void)state;
	assert_int_equal(lg_bucket_take(&w.bucket, &w.rule, &a, 0), LG_PASS_ADMITTED);
	a.cost_tok = 11;
	assert_int_equal(lg_bucket_take(&w.bucket, &w.rule, &a, 0), LG_DROP_LIMIT);
	assert_memory_equal(&w, &before, sizeof(w));
}

static void a_poisoned_bucket_refuses_whatever_comes(void **state)
{
	struct world w = rate_world(10, S, 10);

	(void)state;
	w.bucket.full_at_vt = lg_rate_vt(&w.rule.rate, BOOT) + LG_POISON_VT;
	assert_int_equal(admitted(&w, BOOT, 1, 10), 0);
	assert_int_equal(admitted(&w, BOOT + 365 * DAY, 1, 10), 0);
}

/* Two CPUs find a bucket blank; one makes it and spends before the other, which still believes it blank, gets to make it. */
static void a_bucket_made_twice_has_one_burst(void **state)
{
	struct world w = rate_world(10, S, 10);
	struct lg_rule leased = { .rule_id = 7, .flags = LG_RULE_GLOBAL };

	(void)state;
	assert_int_equal(admitted(&w, BOOT, 1, 20), 10);
	w.bucket.kind = 0; /* as the other CPU saw it */
	lg_bucket_init(&w.bucket, &w.rule, BOOT);
	assert_int_equal(w.bucket.kind, LG_BUCKET_RATE);
	assert_int_equal(admitted(&w, BOOT, 1, 20), 0);

	memset(&w.bucket, 0, sizeof(w.bucket));
	w.bucket.expires_ns = BOOT + S; /* a grant was first */
	lg_bucket_init(&w.bucket, &leased, BOOT);
	assert_int_equal(w.bucket.kind, LG_BUCKET_BLOCK);
	assert_int_equal(w.bucket.expires_ns, BOOT + S);
}

/* A leased key with tokens until its lease's end, and a share of 10 a second (burst 5) that starts 2 s after it. */
static struct world lease_world(uint64_t granted_tok, enum lg_fallback fallback)
{
	struct world w = { .rule = { .rule_id = 7, .flags = LG_RULE_GLOBAL, .cold_burst_tok = 100 } };

	w.rule.fallback = (uint8_t)fallback;
	w.rule.share_delay_ns = 2 * S;
	assert_int_equal(lg_rate_init(10, S, 5, BOOT - S, &w.rule.share), 0);
	lg_bucket_init(&w.bucket, &w.rule, BOOT - S);
	w.bucket.granted_tok = granted_tok;
	w.bucket.expires_ns = BOOT + 10 * S;
	w.bucket.asked_ns = BOOT + 20 * S;
	return w;
}

static enum lg_reason lease(struct world *w, uint64_t now_ns, uint64_t cost_tok, bool is_reachable)
{
	struct lg_ask a = { .now_ns = now_ns, .cost_tok = cost_tok, .is_reachable = is_reachable };
	enum lg_reason reason = lg_rule_refusal(&w->rule, 1, &a);

	return reason == LG_PASS_ADMITTED ? lg_bucket_take(&w->bucket, &w->rule, &a, 1) : reason;
}

static void a_block_is_spent_once_and_only_while_its_lease_runs(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_DENY);

	(void)state;
	assert_int_equal(lease(&w, BOOT, 4, true), LG_PASS_ADMITTED);
	assert_int_equal(lease(&w, BOOT, 7, true), LG_DROP_LIMIT);
	assert_int_equal(lease(&w, BOOT + 10 * S - 1, 5, true), LG_PASS_ADMITTED);
	assert_int_equal(lease(&w, BOOT + 10 * S, 1, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(w.bucket.spent_tok, 9);
	assert_int_equal(lease(&w, BOOT, 101, true), LG_DROP_COST);
}

static void a_refusal_tells_whether_the_upstream_is_in_reach(void **state)
{
	static const struct {
		uint64_t now_ns;
		bool is_reachable;
		enum lg_reason want;
	} rows[] = {
		{ BOOT, true, LG_DROP_LIMIT },
		{ BOOT, false, LG_DROP_UNREACHABLE },
		{ BOOT + 11 * S, true, LG_DROP_LEASE_PENDING },
		{ BOOT + 11 * S, false, LG_DROP_UNREACHABLE },
		{ BOOT + 13 * S, true, LG_DROP_LEASE_PENDING },
		{ BOOT + 13 * S, false, LG_DROP_UNREACHABLE },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct world w = lease_world(0, LG_FALLBACK_DENY);

		assert_int_equal(lease(&w, rows[i].now_ns, 1, rows[i].is_reachable), rows[i].want);
	}
}

static void closed_denies_at_once_even_with_tokens_left(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_CLOSED);

	(void)state;
	assert_int_equal(lease(&w, BOOT, 1, true), LG_PASS_ADMITTED);
	assert_int_equal(lease(&w, BOOT, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 20 * S, 1, false), LG_DROP_UNREACHABLE);
}

static void open_passes_after_the_delay_and_not_before(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_OPEN);

	(void)state;
	assert_int_equal(lease(&w, BOOT + 12 * S - 1, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 12 * S, 100, false), LG_PASS_FALLBACK);
	assert_int_equal(w.bucket.spent_tok, 0);
}

static void the_share_starts_empty_a_delay_after_the_lease_ended(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_SHARE);

	(void)state;
	assert_int_equal(lease(&w, BOOT + 11 * S, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 12 * S, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 12 * S + 100 * MS - 1, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 12 * S + 100 * MS, 1, false), LG_PASS_FALLBACK);
	assert_int_equal(lease(&w, BOOT + 12 * S + 100 * MS, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 20 * S, 6, false), LG_DROP_UNREACHABLE); /* beyond its burst */
	for (int i = 0; i < 5; i++)
		assert_int_equal(lease(&w, BOOT + 20 * S, 1, false), LG_PASS_FALLBACK);
	assert_int_equal(lease(&w, BOOT + 20 * S, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(w.bucket.spent_tok, 0);

	/* A new lease ends: empty again, though the share had time to fill. */
	w.bucket.granted_tok = 12;
	w.bucket.expires_ns = BOOT + 40 * S;
	assert_int_equal(lease(&w, BOOT + 39 * S, 1, false), LG_PASS_ADMITTED);
	assert_int_equal(lease(&w, BOOT + 42 * S, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(lease(&w, BOOT + 42 * S + 100 * MS, 1, false), LG_PASS_FALLBACK);
}

static void a_key_that_wakes_up_gives_the_agent_time_before_the_share(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_SHARE);

	(void)state;
	w.bucket.asked_ns = BOOT; /* not announced since the lease ended */
	assert_int_equal(lease(&w, BOOT + 60 * S, 1, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(w.bucket.expires_ns, BOOT + 59 * S);
	w.bucket.asked_ns = BOOT + 60 * S;
	assert_int_equal(lease(&w, BOOT + 61 * S, 1, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(lease(&w, BOOT + 61 * S + 100 * MS - 1, 1, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(lease(&w, BOOT + 61 * S + 100 * MS, 1, true), LG_PASS_FALLBACK);
	assert_int_equal(w.bucket.expires_ns, BOOT + 59 * S);

	/* With the upstream known to be out of reach there is nobody to wait for. */
	w = lease_world(10, LG_FALLBACK_SHARE);
	w.bucket.asked_ns = BOOT;
	assert_int_equal(lease(&w, BOOT + 60 * S, 5, false), LG_PASS_FALLBACK);
}

static void a_share_of_nothing_passes_nothing(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_SHARE);

	(void)state;
	assert_int_equal(lg_rate_init(0, S, 0, BOOT - S, &w.rule.share), 0);
	assert_int_equal(lease(&w, BOOT + 20 * S, 1, false), LG_DROP_UNREACHABLE);
	/* Nor does a cost pass whose units wrap around the word: 2^14 tokens of 2^50. */
	assert_int_equal(lg_rate_init(7, 31 * DAY, 1, BOOT - S, &w.rule.share), 0);
	assert_int_equal(w.rule.share.unit_per_tok, 1ull << 50);
	w.rule.cold_burst_tok = LG_BURST_MAX_TOK;
	assert_int_equal(lease(&w, BOOT + 40 * DAY, 1, false), LG_PASS_FALLBACK);
	assert_int_equal(lease(&w, BOOT + 80 * DAY, 1ull << 14, false), LG_DROP_UNREACHABLE);
}

static void a_block_gets_back_an_undone_take_unless_its_books_were_closed(void **state)
{
	struct world w = lease_world(10, LG_FALLBACK_DENY);
	struct lg_ask a = { .now_ns = BOOT, .cost_tok = 4 };

	(void)state;
	w.bucket.lease_generation = 3;
	assert_int_equal(lg_bucket_take(&w.bucket, &w.rule, &a, 1), LG_PASS_ADMITTED);
	lg_bucket_undo(&w.bucket, &w.rule, &a, LG_PASS_ADMITTED, 3);
	assert_int_equal(w.bucket.spent_tok, 0);
	assert_int_equal(lg_bucket_take(&w.bucket, &w.rule, &a, 1), LG_PASS_ADMITTED);
	w.bucket.lease_generation = 4;
	lg_bucket_undo(&w.bucket, &w.rule, &a, LG_PASS_ADMITTED, 3);
	assert_int_equal(w.bucket.spent_tok, 4);
}

/* ---- what a key starts with ---- */

/* A leased key that nobody has seen yet, of a rule that lets it start with so much. */
static struct world cold_world(uint64_t cold_start_tok)
{
	struct world w = { .rule = { .rule_id = 7, .flags = LG_RULE_GLOBAL, .cold_burst_tok = 100, .cold_start_tok = cold_start_tok } };

	w.rule.share_delay_ns = 2 * S;
	return w;
}

static enum lg_reason cold(struct world *w, uint64_t now_ns, uint64_t cost_tok, bool is_reachable)
{
	lg_bucket_init(&w->bucket, &w->rule, now_ns);
	return lease(w, now_ns, cost_tok, is_reachable);
}

static void a_new_key_spends_what_it_starts_with_once_and_for_ten_seconds(void **state)
{
	struct world w = cold_world(3);

	(void)state;
	assert_int_equal(cold(&w, BOOT, 4, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(cold(&w, BOOT, 1, false), LG_PASS_ADMITTED);
	assert_int_equal(cold(&w, BOOT + LG_COLD_START_NS - 1, 1, true), LG_PASS_ADMITTED);
	assert_int_equal(cold(&w, BOOT + LG_COLD_START_NS, 1, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(w.bucket.spent_tok, 2);

	w = cold_world(1);
	assert_int_equal(cold(&w, BOOT, 1, true), LG_PASS_ADMITTED);
	assert_int_equal(cold(&w, BOOT, 1, false), LG_DROP_UNREACHABLE);
	assert_int_equal(cold(&w, BOOT, 1, true), LG_DROP_LEASE_PENDING);
	/* Under a lease it is the limit that refuses. */
	w.bucket.lease_generation = 1;
	assert_int_equal(cold(&w, BOOT, 1, true), LG_DROP_LIMIT);

	w = cold_world(0);
	assert_int_equal(cold(&w, BOOT, 1, true), LG_DROP_LEASE_PENDING);
	assert_int_equal(w.bucket.expires_ns, BOOT);

	w = cold_world(3);
	w.rule.fallback = LG_FALLBACK_CLOSED;
	assert_int_equal(cold(&w, BOOT, 1, false), LG_DROP_UNREACHABLE);
}

/* A CPU that met the bucket blank and was held up finds it in use. */
static void a_late_start_brings_nothing_back(void **state)
{
	struct world w = cold_world(3);

	(void)state;
	assert_int_equal(cold(&w, BOOT, 3, true), LG_PASS_ADMITTED);
	w.bucket.kind = 0;
	lg_bucket_init(&w.bucket, &w.rule, BOOT + S);
	assert_int_equal(w.bucket.granted_tok, 3);
	assert_int_equal(w.bucket.spent_tok, 3);
	assert_int_equal(w.bucket.expires_ns, BOOT + LG_COLD_START_NS);
}

/* What a lessor lends to a key, as the agent puts it into the kernel. */
static void lend(struct world *w, uint64_t tok, uint64_t expires_ns)
{
	w->bucket.lease_generation = 1;
	w->bucket.spent_tok = w->bucket.granted_tok;
	w->bucket.granted_tok += tok;
	w->bucket.expires_ns = expires_ns;
}

static void twelve_hosts_start_with_a_token_each_and_together_hold_the_limit_of_100(void **state)
{
	struct lg_rule_def def = { .algorithm = LG_SLIDING_WINDOW, .limit_tok = 100, .per_ns = 10 * S, .burst_tok = 100,
				   .lease.cold_start_tok = 1 };
	uint64_t start_tok = 0, lent_tok = 0;
	struct world hosts[12];
	struct lg_terms t;

	(void)state;
	lg_terms_init(&def, &(struct lg_fleet){ .regions = 3, .hosts = N_ELEMS(hosts) }, &t);
	assert_int_equal(t.limit_tok, 88);
	assert_int_equal(t.rule_limit_tok, 100);
	for (size_t i = 0; i < N_ELEMS(hosts); i++) {
		hosts[i] = cold_world(lg_terms_cold_now_tok(&t, 0, BOOT));
		start_tok += cold(&hosts[i], BOOT, 1, true) == LG_PASS_ADMITTED;
		assert_int_equal(cold(&hosts[i], BOOT, 1, true), LG_DROP_LEASE_PENDING);
	}
	assert_int_equal(start_tok, 12);
	/* A window later without a lease: nothing has come back. */
	for (size_t i = 0; i < N_ELEMS(hosts); i++)
		assert_int_equal(cold(&hosts[i], BOOT + def.per_ns, 1, true), LG_DROP_LEASE_PENDING);
	/* All that is leased is spent as the window that began with the first packets ends: with them it is the limit. */
	for (size_t i = 0; i < N_ELEMS(hosts); i++) {
		lend(&hosts[i], t.limit_tok / 12 + (i < t.limit_tok % 12), BOOT + 20 * S);
		while (cold(&hosts[i], BOOT + def.per_ns, 1, true) == LG_PASS_ADMITTED)
			lent_tok++;
	}
	assert_int_equal(lent_tok, 88);
	assert_int_equal(start_tok + lent_tok, def.limit_tok);
}

static void a_bucket_takes_on_new_numbers_with_its_next_packet(void **state)
{
	struct world w = rate_world(10, S, 10);

	(void)state;
	w.rule.rate_tok = 20;
	lg_bucket_touch(&w.bucket, &w.rule, BOOT + LG_SEEN_STEP_NS - 1);
	assert_int_equal(w.bucket.seen_ns, BOOT);
	lg_bucket_touch(&w.bucket, &w.rule, BOOT + LG_SEEN_STEP_NS);
	assert_int_equal(w.bucket.seen_ns, BOOT + LG_SEEN_STEP_NS);
	assert_int_equal(w.bucket.rate_tok, 20);
	lg_bucket_touch(&w.bucket, &w.rule, BOOT); /* an older clock */
	assert_int_equal(w.bucket.seen_ns, BOOT + LG_SEEN_STEP_NS);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(capacity_10_refilled_by_2_per_second_serves_10_of_15),
		cmocka_unit_test(two_of_three_pass_with_12_left_and_the_third_0_3_s_later),
		cmocka_unit_test(a_limit_of_0_lets_nothing_through_ever),
		cmocka_unit_test(a_limit_raised_from_0_passes_at_once),
		cmocka_unit_test(a_cost_above_the_burst_never_passes_and_spends_nothing),
		cmocka_unit_test(a_superframe_above_the_burst_passes_a_full_bucket_and_is_charged_whole),
		cmocka_unit_test(a_debt_too_large_for_the_word_is_refused),
		cmocka_unit_test(a_window_long_rate_is_exact_at_large_numbers),
		cmocka_unit_test(the_largest_burst_and_the_fastest_rate_hold),
		cmocka_unit_test(numbers_out_of_bounds_are_refused),
		cmocka_unit_test(the_coarse_clock_is_for_bursts_of_16_ms_and_more),
		cmocka_unit_test(a_product_of_128_bits_is_shifted_right),
		cmocka_unit_test(virtual_time_is_right_for_any_rate),
		cmocka_unit_test(common_rates_are_exact),
		cmocka_unit_test(no_traffic_gets_more_than_burst_and_rate_or_much_less),
		cmocka_unit_test(shuffled_clocks_mint_nothing),
		cmocka_unit_test(a_clock_that_steps_back_refuses_and_forgets_nothing),
		cmocka_unit_test(what_was_spent_stays_spent_when_a_limit_changes),
		cmocka_unit_test(a_hundred_changes_mint_nothing),
		cmocka_unit_test(a_change_that_does_not_fit_the_units_is_refused),
		cmocka_unit_test(virtual_time_may_wrap),
		cmocka_unit_test(an_undone_take_leaves_the_bucket_as_it_was),
		cmocka_unit_test(a_late_undo_does_not_lift_a_bucket_above_its_cap),
		cmocka_unit_test(a_test_changes_nothing),
		cmocka_unit_test(a_poisoned_bucket_refuses_whatever_comes),
		cmocka_unit_test(a_bucket_made_twice_has_one_burst),
		cmocka_unit_test(a_block_is_spent_once_and_only_while_its_lease_runs),
		cmocka_unit_test(a_refusal_tells_whether_the_upstream_is_in_reach),
		cmocka_unit_test(closed_denies_at_once_even_with_tokens_left),
		cmocka_unit_test(open_passes_after_the_delay_and_not_before),
		cmocka_unit_test(the_share_starts_empty_a_delay_after_the_lease_ended),
		cmocka_unit_test(a_key_that_wakes_up_gives_the_agent_time_before_the_share),
		cmocka_unit_test(a_share_of_nothing_passes_nothing),
		cmocka_unit_test(a_block_gets_back_an_undone_take_unless_its_books_were_closed),
		cmocka_unit_test(a_new_key_spends_what_it_starts_with_once_and_for_ten_seconds),
		cmocka_unit_test(a_late_start_brings_nothing_back),
		cmocka_unit_test(twelve_hosts_start_with_a_token_each_and_together_hold_the_limit_of_100),
		cmocka_unit_test(a_bucket_takes_on_new_numbers_with_its_next_packet),
	};

	return cmocka_run_group_tests(tests, seed_random, NULL);
}
