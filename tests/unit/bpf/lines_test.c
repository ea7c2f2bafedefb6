// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * bpf/lines.h on the host: what the kernel runs, against a bucket of 128 bits that neither wraps nor rounds, through every
 * order of two claims, and on two threads at once.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "lines.h"
#include "base/mem.h"
#include "rules/rate.h"
#include "tests/lib/chance.h"

#define US 1000ull
#define MS 1000000ull
#define S 1000000000ull
#define DAY (86400 * S)
#define YEAR (31557600 * S)
#define BOOT (12345 * S + 678)
#define RING (1ull << 40)
#define TAG(n) ((uint64_t)(n) << 40)
#define TOKEN_NS (20 * US) /* of the threads' rule: some dozens of rounds, or none where one sleeps */
#define PACKETS 65536 /* of the dearest superframe */

typedef unsigned __int128 u128;

static uint64_t rng, now_ns;

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

static __u64 v_now(const struct lg_rule *rule)
{
	return lg_rate_now(&rule->rate, now_ns);
}

/* A rule of one line. */
struct world {
	struct lg_rule rule;
	struct lg_line line;
};

static struct world world_make(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t superframe_tok)
{
	struct world w = { .rule = { .rule_id = 7, .n_lines = 1, .cold_burst_tok = burst_tok } };

	now_ns = BOOT;
	assert_int_equal(lg_rate_line_init(rate_tok, per_ns, burst_tok, superframe_tok, BOOT, &w.rule.rate, &w.rule.live_vt), 0);
	return w;
}

static int ask_sized(struct world *w, uint64_t tag, uint64_t cost_tok, uint32_t packets, bool take)
{
	struct lg_ask a = { .now_ns = now_ns, .cost_tok = cost_tok, .is_reachable = 1 };
	enum lg_reason reason = lg_line_refusal(&w->rule, packets, &a);
	uint32_t slot;

	return reason == LG_PASS_ADMITTED ? lg_line_take(&w->line, tag, v_now(&w->rule), &w->rule, &a, take, v_now, &slot) : (int)reason;
}

static int ask(struct world *w, uint64_t tag, uint64_t cost_tok)
{
	return ask_sized(w, tag, cost_tok, 1, true);
}

static uint32_t admitted(struct world *w, uint64_t tag, uint32_t n)
{
	uint32_t n_admitted = 0;

	for (uint32_t i = 0; i < n; i++)
		n_admitted += ask(w, tag, 1) == LG_PASS_ADMITTED;
	return n_admitted;
}

static void a_key_has_its_burst_and_then_its_rate(void **state)
{
	struct world w = world_make(10, S, 5, PACKETS);

	(void)state;
	assert_int_equal(admitted(&w, TAG(1), 20), 5);
	assert_int_equal(admitted(&w, TAG(2), 20), 5);
	now_ns += 99 * MS;
	assert_int_equal(admitted(&w, TAG(1), 20), 0);
	now_ns += 2 * MS;
	assert_int_equal(admitted(&w, TAG(1), 20), 1);
	now_ns += 10 * S;
	assert_int_equal(admitted(&w, TAG(1), 20), 5);
}

static void a_refusal_and_a_test_write_nothing(void **state)
{
	struct world w = world_make(10, S, 5, PACKETS), before;

	(void)state;
	assert_int_equal(ask_sized(&w, TAG(1), 5, 1, false), LG_PASS_ADMITTED);
	assert_int_equal(w.line.slot[0], 0);
	assert_int_equal(ask(&w, TAG(1), 4), LG_PASS_ADMITTED);
	before = w;
	assert_int_equal(ask(&w, TAG(1), 2), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, TAG(1), 6), LG_DROP_COST);
	assert_int_equal(ask_sized(&w, TAG(1), 1, 1, false), LG_PASS_ADMITTED);
	assert_memory_equal(&w, &before, sizeof(w));
}

static void a_live_slot_is_never_taken_and_a_dead_one_always(void **state)
{
	struct world w = world_make(1, S, 10, PACKETS);

	(void)state;
	for (uint64_t i = 1; i <= LG_LINE_SLOTS; i++) {
		assert_int_equal(ask(&w, TAG(i), i), LG_PASS_ADMITTED);
		assert_true(w.line.slot[i - 1] >> 40 == i);
	}
	assert_int_equal(ask(&w, TAG(9), 1), LG_LINE_FULL);
	assert_int_equal(ask_sized(&w, TAG(9), 1, 1, false), LG_LINE_FULL);
	/* A drained one stays drained, whoever else comes. */
	assert_int_equal(ask(&w, TAG(8), 2), LG_PASS_ADMITTED);
	for (uint64_t i = 100; i < 10000; i++)
		assert_int_equal(ask(&w, TAG(i), 1), LG_LINE_FULL);
	assert_int_equal(ask(&w, TAG(8), 1), LG_DROP_LIMIT);
	/* Key 1 owes one token: it is full again, and its slot free, after a second. */
	now_ns += S - US;
	assert_int_equal(ask(&w, TAG(9), 1), LG_LINE_FULL);
	now_ns += 2 * US;
	assert_int_equal(ask(&w, TAG(9), 10), LG_PASS_ADMITTED);
	assert_true(w.line.slot[0] >> 40 == 9);
	/* Idle keys leave by themselves. */
	now_ns += 100 * S;
	for (uint64_t i = 21; i <= 28; i++)
		assert_int_equal(ask(&w, TAG(i), 10), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, TAG(29), 10), LG_LINE_FULL);
}

static void a_new_key_takes_the_slot_that_was_full_for_longest(void **state)
{
	struct world w = world_make(10, S, 5, PACKETS);
	__u64 word;

	(void)state;
	/* None of those that come again loses its slot while another was never used. */
	for (int round = 0; round < 3; round++) {
		for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++) {
			now_ns += 10 * S;
			assert_int_equal(admitted(&w, TAG(k), 5), 5);
			assert_int_equal(w.line.slot[k - 1] & LG_LINE_OWNER, TAG(k));
		}
	}
	/* Then the oldest does: key 1, and, as key 2 comes again, key 3. */
	now_ns += 10 * S;
	assert_int_equal(ask(&w, TAG(9), 1), LG_PASS_ADMITTED);
	assert_int_equal(w.line.slot[0] & LG_LINE_OWNER, TAG(9));
	assert_int_equal(ask(&w, TAG(2), 1), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, TAG(10), 1), LG_PASS_ADMITTED);
	assert_int_equal(w.line.slot[2] & LG_LINE_OWNER, TAG(10));
	/* However often the ring turns meanwhile: here by a 40th of it for each. */
	for (uint64_t k = 11; k < 1000; k++) {
		now_ns += RING / w.rule.rate.unit_per_tok / 10 / 40 * S;
		assert_int_equal(ask(&w, TAG(k), 1), LG_PASS_ADMITTED);
		for (uint64_t past = k; past > 10 && past > k - LG_LINE_SLOTS; past--)
			assert_true(lg_line_find(&w.line, TAG(past), &word) < LG_LINE_SLOTS);
	}
}

static void an_empty_slot_is_free_at_every_time(void **state)
{
	struct world w = world_make(1000000000, S, 1000000, PACKETS);

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		memset(&w.line, 0, sizeof(w.line));
		now_ns = BOOT + i * RING + RING - 500000; /* positions of 0 would look live */
		for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++)
			assert_int_equal(ask(&w, TAG(k), 1000000), LG_PASS_ADMITTED);
	}
}

/* ---- debt, undo, changed numbers ---- */

static void a_superframe_may_owe_and_pays_it_all_back(void **state)
{
	struct world w = world_make(10, S, 5, PACKETS);

	(void)state;
	assert_int_equal(ask_sized(&w, TAG(1), 45, 45, true), LG_PASS_ADMITTED);
	assert_int_equal(ask_sized(&w, TAG(1), 45, 45, true), LG_DROP_LIMIT);
	now_ns += 4 * S - MS;
	assert_int_equal(ask(&w, TAG(1), 1), LG_DROP_LIMIT);
	now_ns += 200 * MS;
	assert_int_equal(admitted(&w, TAG(1), 10), 1);
	/* The dearest one, and one that the ring has no room for. */
	assert_int_equal(ask_sized(&w, TAG(2), PACKETS, PACKETS, true), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, TAG(2), 1), LG_DROP_LIMIT);
	assert_int_equal(ask_sized(&w, TAG(3), PACKETS + 1, PACKETS + 1, true), LG_DROP_COST);
}

static void an_undone_take_gives_back_what_it_took_and_no_more(void **state)
{
	struct world w = world_make(10, S, 5, PACKETS);
	struct lg_ask a = { .cost_tok = 3 };
	__u64 word;

	(void)state;
	assert_int_equal(ask(&w, TAG(1), 3), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, TAG(1), 2), LG_PASS_ADMITTED);
	assert_int_equal(lg_line_find(&w.line, TAG(1), &word), 0);
	lg_line_undo(&w.line.slot[0], word, v_now(&w.rule), &w.rule, &a);
	assert_int_equal(admitted(&w, TAG(1), 10), 3);
	/* By the time it is undone two of the three have come back by themselves. */
	now_ns += 10 * S;
	assert_int_equal(ask(&w, TAG(1), 3), LG_PASS_ADMITTED);
	now_ns += 200 * MS;
	lg_line_find(&w.line, TAG(1), &word);
	lg_line_undo(&w.line.slot[0], word, v_now(&w.rule), &w.rule, &a);
	assert_true(w.line.slot[0] >> 40 == 1);
	assert_int_equal(admitted(&w, TAG(1), 10), 5);
	/* The slot has gone to another key. */
	now_ns += 10 * S;
	assert_int_equal(ask(&w, TAG(2), 3), LG_PASS_ADMITTED);
	lg_line_undo(&w.line.slot[0], TAG(1) | ((v_now(&w.rule) + 1) & LG_LINE_POSITION), v_now(&w.rule), &w.rule, &a);
	assert_int_equal(admitted(&w, TAG(2), 10), 2);
}

static void a_slot_is_marked_once_and_stays_so_while_its_key_has_it(void **state)
{
	struct world w = world_make(10, S, 5, PACKETS);
	struct lg_ask a = { .cost_tok = 1 };
	__u64 word, unmarked;
	uint32_t slot;

	(void)state;
	assert_int_equal(lg_line_take(&w.line, TAG(1), v_now(&w.rule), &w.rule, &a, true, v_now, &slot), LG_PASS_ADMITTED);
	assert_int_equal(slot, LG_LINE_SLOTS);
	assert_int_equal(lg_line_take(&w.line, TAG(1), v_now(&w.rule), &w.rule, &a, false, v_now, &slot), LG_PASS_ADMITTED);
	assert_int_equal(slot, 0);
	unmarked = w.line.slot[0];
	assert_false(lg_line_mark(&w.line.slot[0], TAG(2)));
	assert_int_equal(w.line.slot[0], unmarked);
	assert_true(lg_line_mark(&w.line.slot[0], TAG(1)));
	assert_int_equal(w.line.slot[0], unmarked | LG_LINE_NOTED);
	assert_false(lg_line_mark(&w.line.slot[0], TAG(1)));
	assert_int_equal(lg_line_find(&w.line, TAG(1), &word), 0);
	/* Who read it before the mark came is charged all the same, and gives back. */
	assert_int_equal(lg_line_charge(&w.line.slot[0], unmarked, v_now(&w.rule), 1, &w.rule, &a, LG_TAKE_TRIES), LG_PASS_ADMITTED);
	lg_line_undo(&w.line.slot[0], unmarked, v_now(&w.rule), &w.rule, &a);
	assert_int_equal(w.line.slot[0], word);
	assert_int_equal(lg_line_take(&w.line, TAG(1), v_now(&w.rule), &w.rule, &a, true, v_now, &slot), LG_PASS_ADMITTED);
	assert_int_equal(slot, LG_LINE_SLOTS);
	assert_int_equal(admitted(&w, TAG(1), 10), 3);
	assert_true(w.line.slot[0] & LG_LINE_NOTED);
	/* A new key finds no mark. */
	for (uint64_t k = 2; k <= LG_LINE_SLOTS; k++)
		assert_int_equal(ask(&w, TAG(k), 5), LG_PASS_ADMITTED);
	now_ns += 10 * S;
	assert_int_equal(ask(&w, TAG(9), 1), LG_PASS_ADMITTED);
	assert_int_equal(w.line.slot[0] & ~LG_LINE_POSITION, TAG(9));
}

static void change(struct world *w, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok)
{
	struct lg_rate old = w->rule.rate;

	assert_int_equal(lg_rate_line_change(&old, w->rule.live_vt, rate_tok, per_ns, burst_tok, PACKETS, now_ns, &w->rule.rate,
					     &w->rule.live_vt),
			 0);
	w->rule.cold_burst_tok = burst_tok;
}

static void what_was_spent_stays_spent_when_numbers_change(void **state)
{
	struct world w = world_make(10, S, 100000, 1);

	(void)state;
	assert_int_equal(ask(&w, TAG(1), 100000), LG_PASS_ADMITTED);
	assert_int_equal(ask(&w, TAG(2), 30000), LG_PASS_ADMITTED);
	change(&w, 20, S, 40000);
	assert_int_equal(ask(&w, TAG(1), 1), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, TAG(2), 10001), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, TAG(2), 10000), LG_PASS_ADMITTED);
	/* Far over the new burst, still no free slot. */
	now_ns += 2999 * S;
	assert_int_equal(ask(&w, TAG(1), 1), LG_DROP_LIMIT);
	now_ns += 2 * S;
	assert_int_equal(ask(&w, TAG(1), 1), LG_PASS_ADMITTED);
	change(&w, 1, DAY, 50000);
	assert_int_equal(ask(&w, TAG(1), 10060), LG_DROP_LIMIT);
	assert_int_equal(ask(&w, TAG(1), 10000), LG_PASS_ADMITTED);
}

static void numbers_that_do_not_fit_the_ring_are_refused(void **state)
{
	struct lg_rate rate, next;
	__u64 live_vt;

	(void)state;
	assert_int_equal(lg_rate_line_init(1, S, LG_LINE_BURST_MAX_TOK, 1, BOOT, &rate, &live_vt), -ERANGE);
	assert_int_equal(lg_rate_line_init(1, S, LG_LINE_BURST_MAX_TOK - 1, 1, BOOT, &rate, &live_vt), 0);
	assert_int_equal(rate.unit_per_tok, 1);
	assert_int_equal(lg_rate_line_init(1, S, 1, 1, BOOT, &rate, &live_vt), 0);
	assert_int_equal(rate.unit_per_tok, 65536);
	assert_int_equal(lg_rate_line_change(&rate, live_vt, 1, S, 1 << 22, 1, BOOT, &next, &live_vt), -ERANGE);
	assert_int_equal(lg_rate_line_change(&rate, live_vt, 1, S, (1 << 22) - 1, 1, BOOT, &next, &live_vt), 0);
	assert_int_equal(lg_rate_line_init(0, S, 0, 1, BOOT, &rate, &live_vt), 0);
	assert_in_range(live_vt, 1, LG_LINE_BURST_MAX_TOK);
	assert_int_equal(lg_rate_line_init(1, 0, 1, 1, BOOT, &rate, &live_vt), -EINVAL);
	/* However dear a superframe may be, it owes a quarter of the ring at most. */
	assert_int_equal(lg_rate_line_init(1, S, 1, ~0ull, BOOT, &rate, &live_vt), 0);
	assert_int_equal(live_vt, LG_LINE_BURST_MAX_TOK);
}

/* ---- against 128 bits ---- */

struct numbers {
	uint64_t rate_tok, per_ns, burst_tok;
};

/* From one a day to a billion a second, bursts from one to what a month brings. */
static struct numbers random_numbers(void)
{
	static const uint64_t periods[] = { MS, S, 60 * S, 3600 * S, DAY, 30 * DAY };
	struct numbers n = { .per_ns = periods[random_below(N_ELEMS(periods))] };
	uint64_t most_tok = n.per_ns < LG_LINE_BURST_MAX_TOK ? n.per_ns : LG_LINE_BURST_MAX_TOK - 1;

	n.rate_tok = 1 + (next_random() >> random_below(64)) % most_tok;
	n.burst_tok = 1 + (next_random() >> random_below(64)) % (LG_LINE_BURST_MAX_TOK - 1);
	return n;
}

static void virtual_time_is_within_one_unit_of_the_true_one(void **state)
{
	(void)state;
	for (int i = 0; i < 200000; i++) {
		struct numbers n = random_numbers();
		uint64_t elapsed_ns = (next_random() >> random_below(64)) % (30 * YEAR), v;
		__u64 live_vt;
		struct lg_rate rate;
		u128 units, truth;

		assert_int_equal(lg_rate_line_init(n.rate_tok, n.per_ns, n.burst_tok, PACKETS, BOOT, &rate, &live_vt), 0);
		units = (u128)n.rate_tok * rate.unit_per_tok;
		truth = elapsed_ns * units / n.per_ns;
		v = lg_rate_now(&rate, BOOT + elapsed_ns);
		assert_int_equal(v, lg_rate_vt(&rate, BOOT + elapsed_ns));
		assert_true((uint64_t)truth - v <= 1);
		assert_true(live_vt >= n.burst_tok * rate.unit_per_tok);
		assert_true(rate.unit_per_tok == 1 || live_vt <= 1ull << 26);
	}
}

/*
 * The true bucket: what it owes, in parts of a token so small that nothing is ever rounded: units * per_ns. Against it the slot
 * may be early by one unit, for rounding, and late by what it cannot know: that it was idle once round the ring.
 */
struct truth {
	u128 debt;
	uint64_t at_ns;
};

static u128 truth_debt(struct truth *t, const struct numbers *n, uint64_t unit)
{
	u128 refill = (u128)n->rate_tok * unit * (now_ns - t->at_ns);

	t->debt = t->debt > refill ? t->debt - refill : 0;
	t->at_ns = now_ns;
	return t->debt;
}

static uint64_t random_pause(const struct numbers *n, uint64_t unit)
{
	u128 full_ns = (u128)n->burst_tok * n->per_ns / n->rate_tok;
	u128 ring_ns = (u128)(RING / unit) * n->per_ns / n->rate_tok;
	u128 pause_ns;

	switch (random_below(8)) {
	case 0: return random_below(10 * S);
	case 1: pause_ns = full_ns; break;
	case 2: pause_ns = ring_ns; break;
	default: pause_ns = full_ns * random_below(1000) / 2000; break;
	}
	if (pause_ns > YEAR)
		pause_ns = YEAR;
	return (uint64_t)pause_ns + random_below(3) * random_below(1 + (uint64_t)pause_ns / 8);
}

static void no_slot_admits_more_than_the_true_bucket(void **state)
{
	uint64_t n_takes = 0, n_late = 0;

	(void)state;
	for (int run = 0; run < 3000; run++) {
		struct numbers n = random_numbers();
		struct world w = world_make(n.rate_tok, n.per_ns, n.burst_tok, 1);
		uint64_t unit = w.rule.rate.unit_per_tok, ring_ns, pause_ns, cost_tok;
		u128 burst = (u128)n.burst_tok * unit * n.per_ns, slack = n.per_ns, debt, cost;
		struct truth t = { .at_ns = BOOT };
		bool was_round = false;

		ring_ns = (uint64_t)((u128)(RING - w.rule.live_vt) / unit * n.per_ns / n.rate_tok / 2 > YEAR * 30
					     ? YEAR * 30
					     : (u128)(RING - w.rule.live_vt) / unit * n.per_ns / n.rate_tok / 2);
		for (int i = 0; i < 100; i++) {
			pause_ns = random_below(3) ? 0 : random_pause(&n, unit);
			now_ns += pause_ns;
			was_round |= pause_ns >= ring_ns;
			cost_tok = 1 + (next_random() >> random_below(64)) % n.burst_tok;
			cost = (u128)cost_tok * unit * n.per_ns;
			debt = truth_debt(&t, &n, unit);
			n_takes++;
			if (ask(&w, TAG(5), cost_tok) == LG_PASS_ADMITTED) {
				assert_true(debt + cost <= burst + 2 * slack);
				t.debt = debt + cost;
			} else if (was_round) {
				n_late += debt + cost <= burst;
			} else {
				assert_true(debt + cost + 2 * slack > burst);
			}
		}
	}
	print_message("%llu takes, %llu refused that the true bucket had, all of them after a time round the ring\n",
		      (unsigned long long)n_takes, (unsigned long long)n_late);
}

/* The one error there is, measured: a key that comes back after its position went round. */
static void a_key_that_went_round_the_ring_is_refused_with_the_stated_chance(void **state)
{
	struct world w = world_make(1000000, S, 1ull << 36, 1);
	uint64_t n_refused = 0, rounds = 20000;

	(void)state;
	assert_int_equal(w.rule.rate.unit_per_tok, 1);
	for (uint64_t i = 0; i < rounds; i++) {
		memset(&w.line, 0, sizeof(w.line));
		now_ns = BOOT + random_below(DAY);
		assert_int_equal(ask(&w, TAG(1), 1ull << 36), LG_PASS_ADMITTED);
		now_ns += (RING + random_below(RING)) * 1000;
		n_refused += ask(&w, TAG(1), 1ull << 36) != LG_PASS_ADMITTED;
	}
	/* 2^36 / 2^40, that is one in sixteen. */
	assert_in_range(n_refused, rounds / 20, rounds / 13);
}

/* ---- clocks that are late ---- */

static void a_late_clock_takes_nothing_from_a_key_and_gives_it_nothing(void **state)
{
	struct world w = world_make(1000000000, S, 1000, 1);
	struct lg_ask a = { .cost_tok = 1 };
	struct lg_line_claim claim = { 0 };
	__u64 early_v = lg_rate_now(&w.rule.rate, BOOT), word;
	uint32_t i;

	(void)state;
	now_ns += 10 * S;
	for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++)
		assert_int_equal(ask(&w, TAG(k), 1000), LG_PASS_ADMITTED);
	i = lg_line_find(&w.line, TAG(3), &word);
	assert_int_equal(i, 2);
	assert_int_equal(lg_line_charge(&w.line.slot[i], word, early_v, false, &w.rule, &a, 4), LG_LINE_AGAIN);
	i = lg_line_victim(&w.line, early_v, w.rule.live_vt, &word);
	assert_in_range(i, 0, LG_LINE_SLOTS - 1);
	assert_true(lg_line_is_unsure(word, early_v, w.rule.live_vt));
	assert_int_equal(lg_line_claim(&w.line, i, word, TAG(9), v_now(&w.rule), &w.rule, &a, &claim), LG_LINE_AGAIN);
	assert_int_equal(claim.word, 0);
	for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++)
		assert_int_equal(ask(&w, TAG(k), 1), LG_DROP_LIMIT);
}

/* The rule's clock stands still while the exact one goes on, as the coarse one does within a tick. */
static void a_burst_is_whole_by_a_clock_that_stands_still(void **state)
{
	struct world w = world_make(1000, S, 100, 1);
	__u64 v = lg_rate_now(&w.rule.rate, BOOT);
	struct lg_ask a = { .cost_tok = 1 };
	uint32_t slot;

	(void)state;
	for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++) {
		for (uint32_t i = 0; i < 100; i++) {
			now_ns += 4 * US;
			assert_int_equal(lg_line_take(&w.line, TAG(k), v, &w.rule, &a, true, v_now, &slot), LG_PASS_ADMITTED);
		}
		assert_int_equal(lg_line_take(&w.line, TAG(k), v, &w.rule, &a, true, v_now, &slot), LG_DROP_LIMIT);
	}
	/* Drained by a later clock: neither a fresh burst by that of before nor a slot for another key. */
	for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++)
		assert_in_range(admitted(&w, TAG(k), 100), 3, 4);
	for (uint64_t k = 1; k <= LG_LINE_SLOTS; k++)
		assert_int_equal(lg_line_take(&w.line, TAG(k), v, &w.rule, &a, true, v_now, &slot), LG_DROP_LIMIT);
	assert_int_equal(lg_line_take(&w.line, TAG(9), v, &w.rule, &a, true, v_now, &slot), LG_LINE_FULL);
}

/* ---- two claims for one new key, in every order of their steps ---- */

struct claimer {
	struct lg_line_claim claim;
	struct lg_line_found found;
	__u64 word;
	uint32_t turns, slot;
	int r;
	enum { LOOKS, TURNS, CLAIMS } next;
};

/* One load of the line or one swap. `skips` stands for a line that the claimer saw when its first slot was not free. */
static void claimer_step(struct world *w, struct claimer *c, bool skips)
{
	struct lg_ask a = { .cost_tok = 1 };
	struct lg_line seen;

	switch (c->next) {
	case LOOKS:
		c->found = lg_line_look(&w->line, TAG(5));
		c->next = TURNS;
		break;
	case TURNS:
		c->r = lg_line_turn(&w->line, &c->found, &c->claim, v_now(&w->rule), &w->rule, &a, true);
		c->next = LOOKS;
		c->turns++;
		if (c->r != LG_LINE_NEW)
			break;
		seen = w->line;
		if (skips)
			seen.slot[0] = TAG(6) | ((v_now(&w->rule) + 1) & LG_LINE_POSITION);
		c->slot = lg_line_victim(&seen, v_now(&w->rule), w->rule.live_vt, &c->word);
		assert_in_range(c->slot, 0, LG_LINE_SLOTS - 1);
		c->r = LG_LINE_AGAIN;
		c->next = CLAIMS;
		break;
	case CLAIMS:
		c->r = lg_line_claim(&w->line, c->slot, c->word, TAG(5), v_now(&w->rule), &w->rule, &a, &c->claim);
		c->next = LOOKS;
		break;
	}
}

/* Bit i of `order` says who makes step i. Returns how many were admitted. */
static int claims_run(struct world *w, uint32_t order, uint32_t n_steps, unsigned int skips)
{
	struct claimer c[2] = { { .r = LG_LINE_AGAIN }, { .r = LG_LINE_AGAIN } };
	struct lg_line_found found;

	memset(&w->line, 0, sizeof(w->line));
	for (uint32_t i = 0; i < n_steps; i++) {
		uint32_t who = order >> i & 1;

		if (c[who].r == LG_LINE_AGAIN)
			claimer_step(w, &c[who], skips >> who & 1);
	}
	/* Then each runs on alone to its end. */
	for (uint32_t i = 0; i < 64; i++)
		if (c[i & 1].r == LG_LINE_AGAIN)
			claimer_step(w, &c[i & 1], skips >> (i & 1) & 1);
	found = lg_line_look(&w->line, TAG(5));
	assert_int_equal(found.own & (found.own - 1), 0);
	assert_int_equal(found.pending, 0);
	return (c[0].r == LG_PASS_ADMITTED) + (c[1].r == LG_PASS_ADMITTED);
}

static void two_claims_for_one_new_key_leave_one_slot_and_one_burst(void **state)
{
	struct world w = world_make(1, DAY, 1, 1);

	(void)state;
	for (unsigned int skips = 0; skips < 4; skips++)
		for (uint32_t order = 0; order < 1u << 16; order++)
			assert_int_equal(claims_run(&w, order, 16, skips), 1);
}

static void nobody_charges_a_claim_that_is_not_settled(void **state)
{
	struct world w = world_make(1, DAY, 10, 1), before;

	(void)state;
	w.line.slot[3] = LG_LINE_PENDING | TAG(5) | ((v_now(&w.rule) + 65536) & LG_LINE_POSITION);
	before = w;
	assert_int_equal(ask(&w, TAG(5), 1), LG_DROP_CONTENDED);
	assert_memory_equal(&w, &before, sizeof(w));
	/* One whose claimer is gone for good dies as slots do. */
	now_ns += 2 * DAY;
	assert_int_equal(ask(&w, TAG(6), 1), LG_PASS_ADMITTED);
}

/* ---- two threads ---- */

static struct lg_line shared_line;
static struct lg_rule shared_rule;
static atomic_uint round_no, n_done, n_round_admitted;
static unsigned int n_rounds, n_too_many;
static uint64_t round_ns;

static uint64_t real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * S + (uint64_t)t.tv_nsec;
}

static __u64 real_v(const struct lg_rule *rule)
{
	return lg_rate_now(&rule->rate, real_ns());
}

/* The second of a round's threads closes it. Only where one slept through a token's time is a second token due. */
static void round_close(void)
{
	unsigned int n = atomic_exchange(&n_round_admitted, 0);
	uint64_t now = real_ns();

	n_too_many += n > 1 && now - round_ns < TOKEN_NS - US;
	round_ns = real_ns();
	atomic_store(&n_done, 0);
	atomic_fetch_add(&round_no, 1);
}

static void *racer(void *arg)
{
	struct lg_ask a = { .cost_tok = 1 };
	uint32_t slot;
	int r;

	for (unsigned int i = 1; i <= n_rounds; i++) {
		while (atomic_load(&round_no) < i)
			;
		/* Each round has a key of its own; the slots of the rounds before are dying meanwhile. */
		r = lg_line_take(&shared_line, TAG(1 + i % 100000), real_v(&shared_rule), &shared_rule, &a, 1, real_v, &slot);
		atomic_fetch_add(&n_round_admitted, r == LG_PASS_ADMITTED);
		if (atomic_fetch_add(&n_done, 1) == 1)
			round_close();
	}
	return arg;
}

static void of_a_new_key_two_threads_get_one_token(void **state)
{
	pthread_t thread[2];

	(void)state;
	n_rounds = getenv("ROUNDS") ? (unsigned int)atoi(getenv("ROUNDS")) : 20000;
	assert_int_equal(lg_rate_line_init(1, TOKEN_NS, 1, 1, real_ns() - S, &shared_rule.rate, &shared_rule.live_vt), 0);
	shared_rule.n_lines = 1;
	atomic_store(&round_no, 1);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, racer, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	print_message("%u rounds\n", n_rounds);
	assert_int_equal(n_too_many, 0);
}

/* ---- hash ---- */

static void keys_spread_over_lines_and_tags(void **state)
{
	struct lg_control ctl = { .hash_seed = 0x243f6a8885a308d3, .line_seed = { 0x13198a2e03707344, 0xa4093822299f31d0 } };
	struct lg_rule rule = { .first_line = 100, .n_lines = 4096 };
	static uint32_t by_line[4096], by_tag[4096];
	struct lg_key key = { .rule_id = 1, .form = LG_FORM_SOURCE, .a = { [10] = 0xff, [11] = 0xff, [12] = 10 } };
	struct lg_line_spot spot;

	(void)state;
	for (uint32_t i = 0; i < 4096 * 64; i++) {
		key.a[13] = (uint8_t)(i >> 16);
		key.a[14] = (uint8_t)(i >> 8);
		key.a[15] = (uint8_t)i;
		spot = lg_line_spot(&key, &rule, &ctl);
		assert_in_range(spot.index, 100, 100 + 4095);
		assert_true(spot.tag && !(spot.tag & (LG_LINE_POSITION | LG_LINE_NOTED | LG_LINE_PENDING)));
		by_line[spot.index - 100]++;
		by_tag[spot.tag >> 50]++;
	}
	/* 64 are expected of each; over seven standard deviations would be 57 off. */
	for (uint32_t i = 0; i < 4096; i++) {
		assert_in_range(by_line[i], 8, 121);
		assert_in_range(by_tag[i], 8, 121);
	}
}

static void both_parts_of_a_key_and_each_seed_count(void **state)
{
	struct lg_control ctl = { .hash_seed = 3, .line_seed = { 5, 7 } }, other;
	struct lg_key key = { .form = LG_FORM_PRODUCT, .a = { [3] = 1 }, .b = { [3] = 1 } }, swapped = { .form = LG_FORM_PRODUCT };
	uint64_t h = lg_line_hash(&key, &ctl);

	(void)state;
	for (size_t i = 0; i < 16; i++) {
		key.a[i] ^= 1;
		assert_true(lg_line_hash(&key, &ctl) != h);
		key.a[i] ^= 1;
		key.b[i] ^= 1;
		assert_true(lg_line_hash(&key, &ctl) != h);
		key.b[i] ^= 1;
	}
	memcpy(swapped.a, &(uint8_t[16]){ 9 }, 16);
	memcpy(swapped.b, &(uint8_t[16]){ 4 }, 16);
	h = lg_line_hash(&swapped, &ctl);
	memcpy(swapped.a, &(uint8_t[16]){ 4 }, 16);
	memcpy(swapped.b, &(uint8_t[16]){ 9 }, 16);
	assert_true(lg_line_hash(&swapped, &ctl) != h);
	h = lg_line_hash(&key, &ctl);
	other = ctl;
	other.hash_seed++;
	assert_true(lg_line_hash(&key, &other) != h);
	other = ctl;
	other.line_seed[0]++;
	assert_true(lg_line_hash(&key, &other) != h);
	other = ctl;
	other.line_seed[1]++;
	assert_true(lg_line_hash(&key, &other) != h);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_has_its_burst_and_then_its_rate),
		cmocka_unit_test(a_refusal_and_a_test_write_nothing),
		cmocka_unit_test(a_live_slot_is_never_taken_and_a_dead_one_always),
		cmocka_unit_test(a_new_key_takes_the_slot_that_was_full_for_longest),
		cmocka_unit_test(an_empty_slot_is_free_at_every_time),
		cmocka_unit_test(a_superframe_may_owe_and_pays_it_all_back),
		cmocka_unit_test(an_undone_take_gives_back_what_it_took_and_no_more),
		cmocka_unit_test(a_slot_is_marked_once_and_stays_so_while_its_key_has_it),
		cmocka_unit_test(what_was_spent_stays_spent_when_numbers_change),
		cmocka_unit_test(numbers_that_do_not_fit_the_ring_are_refused),
		cmocka_unit_test(virtual_time_is_within_one_unit_of_the_true_one),
		cmocka_unit_test(no_slot_admits_more_than_the_true_bucket),
		cmocka_unit_test(a_key_that_went_round_the_ring_is_refused_with_the_stated_chance),
		cmocka_unit_test(a_late_clock_takes_nothing_from_a_key_and_gives_it_nothing),
		cmocka_unit_test(a_burst_is_whole_by_a_clock_that_stands_still),
		cmocka_unit_test(two_claims_for_one_new_key_leave_one_slot_and_one_burst),
		cmocka_unit_test(nobody_charges_a_claim_that_is_not_settled),
		cmocka_unit_test(of_a_new_key_two_threads_get_one_token),
		cmocka_unit_test(keys_spread_over_lines_and_tags),
		cmocka_unit_test(both_parts_of_a_key_and_each_seed_count),
	};

	return cmocka_run_group_tests(tests, seed_random, NULL);
}
