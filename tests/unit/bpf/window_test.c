// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* bpf/window.h and bpf/log.h on the host: what the kernel runs, against models with room to spare. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "log.h"
#include "window.h"
#include "base/mem.h"
#include "rules/rate.h"
#include "tests/lib/chance.h"

#define MS 1000000ull
#define S 1000000000ull
#define DAY (86400 * S)
#define BOOT (86400 * S) /* a multiple of all lengths below but a few */

typedef unsigned __int128 u128;

static uint64_t rng;

static uint64_t random_below(uint64_t n)
{
	return chance_next(&rng) % n;
}

static int seed_random(void **state)
{
	(void)state;
	rng = chance_seed();
	return 0;
}

/* A rule with its bucket and its log. */
struct world {
	struct lg_rule rule;
	struct lg_bucket bucket;
	struct lg_log log;
	uint8_t index; /* of the window last taken from */
};

static struct world *world_make(enum lg_rule_algorithm algorithm, uint64_t limit, uint64_t length_ns)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->rule = (struct lg_rule){ .rule_id = 7, .algorithm = (uint8_t)algorithm, .rate_tok = limit, .burst_tok = limit,
				    .cold_burst_tok = limit, .per_ns = length_ns, .window = { .length_ns = length_ns } };
	if (algorithm == LG_RULE_SLIDING_LOG && limit > LG_LOG_COST_MAX)
		w->rule.cold_burst_tok = LG_LOG_COST_MAX;
	return w;
}

static enum lg_reason step(struct world *w, uint64_t now_ns, uint64_t cost_tok, uint32_t packets, bool take)
{
	struct lg_ask ask = { .now_ns = now_ns, .cost_tok = cost_tok, .is_reachable = 1 };
	enum lg_reason reason = lg_rule_refusal(&w->rule, packets, &ask);

	if (reason != LG_PASS_ADMITTED)
		return reason;
	lg_bucket_init(&w->bucket, &w->rule, now_ns);
	if (w->rule.algorithm == LG_RULE_SLIDING_LOG)
		return lg_log_take(&w->log, &w->rule, &ask, take);
	reason = lg_window_take(&w->bucket, &w->rule, &ask, take, &w->index);
	lg_bucket_touch(&w->bucket, &w->rule, now_ns);
	return reason;
}

static bool ask(struct world *w, uint64_t now_ns, uint64_t cost_tok)
{
	return step(w, now_ns, cost_tok, 1, true) == LG_PASS_ADMITTED;
}

static uint64_t admitted(struct world *w, uint64_t now_ns, uint64_t cost_tok, uint64_t n)
{
	uint64_t n_admitted = 0;

	while (n--)
		n_admitted += ask(w, now_ns, cost_tok);
	return n_admitted;
}

static uint64_t left_tok(const struct world *w, uint64_t now_ns)
{
	return w->rule.algorithm == LG_RULE_SLIDING_LOG ? lg_log_left_tok(&w->rule, &w->log, now_ns)
							: lg_window_left_tok(&w->rule, &w->bucket, now_ns);
}

/* ---- worked examples ---- */

static void a_fixed_window_begins_anew_and_its_seam_admits_twice_the_limit(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_FIXED_WINDOW, 100, 60 * S);

	(void)state;
	assert_int_equal(admitted(w, BOOT + 60 * S - 1, 1, 150), 100);
	assert_int_equal(admitted(w, BOOT + 60 * S, 1, 150), 100);
	assert_int_equal(admitted(w, BOOT + 120 * S - 1, 1, 150), 0);
	assert_int_equal(admitted(w, BOOT + 120 * S, 1, 150), 100);
	assert_int_equal(w->bucket.spent_tok, 300);
}

static void two_counters_estimate_70_of_100_half_a_minute_into_it(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_WINDOW, 100, 60 * S);

	(void)state;
	assert_int_equal(admitted(w, BOOT + 10 * S, 1, 80), 80);
	assert_int_equal(admitted(w, BOOT + 90 * S, 1, 30), 30);
	assert_int_equal(left_tok(w, BOOT + 90 * S), 30); /* 100 - 80 / 2 - 30 */
	assert_int_equal(step(w, BOOT + 90 * S, 31, 1, false), LG_DROP_LIMIT);
	assert_int_equal(step(w, BOOT + 90 * S, 30, 1, false), LG_PASS_ADMITTED);
	assert_int_equal(admitted(w, BOOT + 90 * S, 1, 100), 30);
	/* The next fits when 80 x (60 - t) / 60 <= 39, which is 30.75 s into it. */
	assert_false(ask(w, BOOT + 90750 * MS - 1, 1));
	assert_true(ask(w, BOOT + 90750 * MS, 1));
	/* Half a minute on, 60 or 61 of the second minute count in full. */
	assert_int_equal(left_tok(w, BOOT + 120 * S), 39);
}

static void a_log_frees_each_token_a_window_after_it_was_taken(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_LOG, 3, 10 * S);

	(void)state;
	assert_true(ask(w, BOOT, 1));
	assert_true(ask(w, BOOT + S, 1));
	assert_true(ask(w, BOOT + S, 1));
	assert_int_equal(left_tok(w, BOOT + S), 0);
	assert_false(ask(w, BOOT + 10 * S - 1, 1));
	assert_true(ask(w, BOOT + 10 * S, 1));
	assert_false(ask(w, BOOT + 11 * S - 1, 1));
	assert_int_equal(left_tok(w, BOOT + 11 * S), 2);
	assert_int_equal(admitted(w, BOOT + 11 * S, 1, 5), 2);
	assert_int_equal(admitted(w, BOOT + 365 * DAY, 1, 5), 3);
}

static void a_cost_is_taken_as_a_whole_or_not_at_all(void **state)
{
	static const enum lg_rule_algorithm algorithms[] = { LG_RULE_FIXED_WINDOW, LG_RULE_SLIDING_WINDOW, LG_RULE_SLIDING_LOG };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		_cleanup_free_ struct world *w = world_make(algorithms[i], 12, S);

		assert_int_equal(admitted(w, BOOT, 5, 3), 2);
		assert_int_equal(left_tok(w, BOOT), 2);
		assert_int_equal(admitted(w, BOOT, 2, 2), 1);
		assert_int_equal(step(w, BOOT, 13, 1, true), LG_DROP_COST);
		assert_int_equal(step(w, BOOT + 100 * S, 13, 1, true), LG_DROP_COST);
		assert_int_equal(admitted(w, BOOT + 100 * S, 12, 2), 1);
	}
}

static void a_superframe_beyond_the_limit_passes_an_empty_window_but_never_a_log(void **state)
{
	_cleanup_free_ struct world *fixed = world_make(LG_RULE_FIXED_WINDOW, 10, S);
	_cleanup_free_ struct world *sliding = world_make(LG_RULE_SLIDING_WINDOW, 10, S);
	_cleanup_free_ struct world *log = world_make(LG_RULE_SLIDING_LOG, 1000, S);

	(void)state;
	assert_int_equal(step(fixed, BOOT, 45, 45, true), LG_PASS_ADMITTED);
	assert_int_equal(step(fixed, BOOT, 45, 45, true), LG_DROP_LIMIT);
	assert_int_equal(step(fixed, BOOT, 1, 1, true), LG_DROP_LIMIT);
	assert_int_equal(step(fixed, BOOT + S, 45, 45, true), LG_PASS_ADMITTED);
	assert_int_equal(step(sliding, BOOT, 45, 45, true), LG_PASS_ADMITTED);
	assert_int_equal(step(sliding, BOOT + 2 * S - 1, 45, 45, true), LG_DROP_LIMIT);
	assert_int_equal(step(sliding, BOOT + 2 * S, 45, 45, true), LG_PASS_ADMITTED);
	assert_int_equal(step(log, BOOT, 64, 64, true), LG_PASS_ADMITTED);
	assert_int_equal(step(log, BOOT, 65, 65, true), LG_DROP_COST);
}

/* ---- against models ---- */

/* The law of two counters in 128 bits: all that each window admitted, by its number. */
static bool sliding_model(uint64_t before, uint64_t now, uint64_t cost, uint64_t limit, uint64_t into_ns, uint64_t length_ns)
{
	return (u128)before * (length_ns - into_ns) + (u128)(now + cost) * length_ns <= (u128)limit * length_ns;
}

static void windows_do_what_their_model_does(void **state)
{
	static const uint64_t lengths[] = { MS, 3 * MS + 7, S, 60 * S, 3600 * S + 1, DAY, 30 * DAY };
	uint64_t last = 0, counted[2], number;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint64_t length_ns = lengths[random_below(N_ELEMS(lengths))], limit = 1 + random_below(1ull << random_below(41));
		bool is_fixed = random_below(2);
		_cleanup_free_ struct world *w = world_make(is_fixed ? LG_RULE_FIXED_WINDOW : LG_RULE_SLIDING_WINDOW, limit, length_ns);
		uint64_t now_ns = BOOT + random_below(365 * DAY);

		counted[0] = counted[1] = 0;
		last = now_ns / length_ns;
		for (int i = 0; i < 200; i++) {
			uint64_t cost = 1 + random_below(random_below(4) ? limit / 4 + 1 : limit);
			bool want;

			/* Mostly within a window or two, sometimes years on, and sometimes onto the very same number of a window's word. */
			switch (random_below(8)) {
			case 0: now_ns += random_below(3 * length_ns); break;
			case 1: now_ns = (now_ns / length_ns + 1) * length_ns - random_below(2); break;
			case 2: now_ns += random_below(40) ? 0 : random_below(3 * 365 * DAY); break;
			case 3: now_ns += random_below(40) || length_ns > 60 * S ? 0 : length_ns << LG_WINDOW_INDEX_BITS; break;
			default: now_ns += random_below(length_ns / 8 + 1);
			}
			number = now_ns / length_ns;
			if (number != last) {
				counted[0] = number == last + 1 ? counted[1] : 0;
				counted[1] = 0;
				last = number;
			}
			want = is_fixed ? counted[1] + cost <= limit
					: sliding_model(counted[0], counted[1], cost, limit, now_ns % length_ns, length_ns);
			if (ask(w, now_ns, cost) != want)
				fail_msg("length %llu limit %llu cost %llu before %llu now %llu: wanted %d", (unsigned long long)length_ns,
					 (unsigned long long)limit, (unsigned long long)cost, (unsigned long long)counted[0],
					 (unsigned long long)counted[1], want);
			counted[1] += want ? cost : 0;
		}
	}
}

/* Every admitted token's time, all of them. */
static void a_log_does_what_its_model_does(void **state)
{
	static uint64_t times[200 * LG_LOG_COST_MAX];

	(void)state;
	for (int round = 0; round < 1000; round++) {
		uint64_t length_ns = MS * (1 + random_below(1000)), limit = 1 + random_below(random_below(2) ? 8 : LG_LOG_MAX);
		_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_LOG, limit, length_ns);
		uint64_t now_ns = BOOT, n = 0;

		for (int i = 0; i < 200; i++) {
			uint64_t cost = 1 + random_below(random_below(2) ? 2 : w->rule.cold_burst_tok), used = 0;

			now_ns += 64 * random_below(length_ns / 64 / (1 + random_below(50)) + 1);
			if (!random_below(100))
				now_ns += 365 * DAY / 64 * 64;
			for (uint64_t j = n; j-- && times[j] + length_ns > now_ns;)
				used++;
			if (cost > w->rule.cold_burst_tok)
				cost = w->rule.cold_burst_tok;
			if (ask(w, now_ns, cost) != (used + cost <= limit))
				fail_msg("limit %llu cost %llu used %llu", (unsigned long long)limit, (unsigned long long)cost,
					 (unsigned long long)used);
			for (uint64_t j = 0; j < cost && used + cost <= limit; j++)
				times[n++] = now_ns;
			assert_int_equal(left_tok(w, now_ns), limit - used - (used + cost <= limit ? cost : 0));
		}
	}
}

static void a_log_is_late_by_less_than_64_ns_and_never_early(void **state)
{
	(void)state;
	for (uint64_t offset = 0; offset < 64; offset++) {
		_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_LOG, 1, S);

		assert_true(ask(w, BOOT + offset, 1));
		assert_false(ask(w, BOOT + offset + S - 1, 1));
		assert_true(ask(w, BOOT + offset + S + 63, 1));
	}
}

static void a_clock_that_lags_is_charged_to_the_newer_window(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_FIXED_WINDOW, 10, MS);

	(void)state;
	assert_int_equal(admitted(w, BOOT + 3 * MS, 1, 9), 9);
	/* Held up for two windows: nothing of the newer count is lost. */
	assert_int_equal(admitted(w, BOOT + MS, 1, 5), 1);
	assert_int_equal(admitted(w, BOOT + 3 * MS, 1, 5), 0);
	assert_int_equal(admitted(w, BOOT + 4 * MS, 1, 20), 10);
}

static void words_that_came_round_count_nothing_and_forbid_nothing(void **state)
{
	(void)state;
	/* Idle for a quarter, a half, nearly all and all of the indexes, and long after. */
	for (uint64_t n = 1ull << 18; n <= 5ull << 18; n += (1ull << 18) - 1) {
		_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_WINDOW, 10, MS);

		assert_int_equal(admitted(w, BOOT, 1, 20), 10);
		assert_int_equal(admitted(w, BOOT + (n + 300) * MS, 1, 20), 10);
		assert_int_equal(admitted(w, BOOT + (n + 300) * MS, 1, 20), 0);
		assert_int_equal(admitted(w, BOOT + (n + 302) * MS, 1, 20), 10);
	}
}

/* ---- giving back, changing, leaving ---- */

static void what_is_given_back_can_be_had_again_in_its_own_window_only(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_FIXED_WINDOW, 10, S);

	(void)state;
	assert_true(ask(w, BOOT, 10));
	lg_window_undo(&w->bucket, 4, w->index);
	assert_int_equal(w->bucket.spent_tok, 6);
	assert_int_equal(admitted(w, BOOT, 1, 10), 4);
	/* Two windows on the word is another's. */
	assert_true(ask(w, BOOT + 2 * S, 10));
	lg_window_undo(&w->bucket, 4, (uint8_t)(w->index - 2));
	assert_int_equal(admitted(w, BOOT + 2 * S, 1, 10), 0);
}

static void a_changed_limit_keeps_what_was_spent(void **state)
{
	static const enum lg_rule_algorithm algorithms[] = { LG_RULE_FIXED_WINDOW, LG_RULE_SLIDING_WINDOW, LG_RULE_SLIDING_LOG };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		_cleanup_free_ struct world *w = world_make(algorithms[i], 10, S);

		assert_int_equal(admitted(w, BOOT, 1, 7), 7);
		w->rule.rate_tok = w->rule.cold_burst_tok = 5;
		assert_int_equal(admitted(w, BOOT + MS, 1, 9), 0);
		w->rule.rate_tok = w->rule.cold_burst_tok = 12;
		assert_int_equal(admitted(w, BOOT + MS, 1, 9), 5);
		w->rule.rate_tok = w->rule.cold_burst_tok = 3;
		assert_int_equal(admitted(w, BOOT + 2 * S + MS - 1, 1, 9), 3);
	}
}

static void a_changed_length_keeps_what_was_counted(void **state)
{
	static const enum lg_rule_algorithm algorithms[] = { LG_RULE_FIXED_WINDOW, LG_RULE_SLIDING_WINDOW };
	struct lg_window changed;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		_cleanup_free_ struct world *w = world_make(algorithms[i], 10, 60 * S);

		assert_int_equal(admitted(w, BOOT + 10 * S, 1, 7), 7);
		lg_window_change(&w->rule.window, 60 * S, BOOT + 20 * S, &changed);
		assert_memory_equal(&changed, &w->rule.window, sizeof(changed));
		lg_window_change(&w->rule.window, S, BOOT + 20 * S, &changed);
		w->rule.window = changed;
		assert_int_equal(admitted(w, BOOT + 21 * S - 1, 1, 10), 3);
		assert_int_equal(admitted(w, BOOT + 22 * S, 1, 20), 10);
		lg_window_change(&w->rule.window, 3600 * S, BOOT + 22 * S + 1, &changed);
		w->rule.window = changed;
		assert_int_equal(admitted(w, BOOT + 22 * S + 3600 * S, 1, 20), 0);
		assert_int_equal(admitted(w, BOOT + 22 * S + 7202 * S, 1, 20), 10);
	}
}

static void a_log_remembers_what_a_longer_window_still_counts(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_LOG, 10, S);

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(admitted(w, BOOT + (uint64_t)i * 2 * S, 1, 1), 1);
	w->rule.window.length_ns = 10 * S;
	assert_int_equal(left_tok(w, BOOT + 9 * S), 5);
	assert_int_equal(admitted(w, BOOT + 9 * S, 1, 10), 5);
}

static void an_idle_bucket_leaves_and_whoever_still_holds_it_is_refused(void **state)
{
	static const enum lg_rule_algorithm algorithms[] = { LG_RULE_FIXED_WINDOW, LG_RULE_SLIDING_WINDOW };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		_cleanup_free_ struct world *w = world_make(algorithms[i], 10, S);
		uint64_t rest = algorithms[i] == LG_RULE_SLIDING_WINDOW ? 2 * S : S;

		assert_true(ask(w, BOOT, 1));
		assert_false(lg_window_retire(&w->bucket, &w->rule, BOOT + rest - 1));
		assert_true(ask(w, BOOT + rest - 1, 1)); /* a refused retirement changes nothing */
		assert_true(lg_window_retire(&w->bucket, &w->rule, BOOT + 3 * S));
		for (uint64_t t = 2; t < 100; t++)
			assert_false(ask(w, BOOT + t * S, 1));
	}
}

static void a_log_closes_when_nothing_counts_and_then_refuses(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_LOG, 3, S);

	(void)state;
	assert_true(ask(w, BOOT, 1));
	assert_false(lg_log_close(&w->log, BOOT + S + LG_LOG_REST_NS - 1, S));
	assert_true(ask(w, BOOT + S, 1));
	assert_false(lg_log_close(&w->log, BOOT + S + LG_LOG_REST_NS, S));
	assert_true(lg_log_close(&w->log, BOOT + 2 * S + LG_LOG_REST_NS, S));
	assert_int_equal(step(w, BOOT + 100 * S, 1, 1, true), LG_DROP_CONTENDED);
	assert_true(lg_log_close(&w->log, BOOT + 100 * S, S));
}

/* A CPU stopped right behind its claim: the next one finishes what it began, and both count. */
static void a_claim_that_was_left_behind_is_finished_by_the_next(void **state)
{
	_cleanup_free_ struct world *w = world_make(LG_RULE_SLIDING_LOG, 10, S);

	(void)state;
	w->log.time_ns[0] = BOOT | 3; /* four slots claimed, nothing else done */
	assert_true(ask(w, BOOT, 5));
	assert_int_equal(w->log.head, 9);
	for (int i = 1; i < 4; i++)
		assert_int_equal(w->log.time_ns[i], BOOT);
	assert_int_equal(left_tok(w, BOOT), 1);
	assert_int_equal(admitted(w, BOOT, 1, 5), 1);
	/* When it goes on it finds everything done. */
	lg_log_finish(&w->log, 0, BOOT | 3);
	assert_int_equal(w->log.head, 10);
	assert_int_equal(admitted(w, BOOT + S, 1, 20), 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fixed_window_begins_anew_and_its_seam_admits_twice_the_limit),
		cmocka_unit_test(two_counters_estimate_70_of_100_half_a_minute_into_it),
		cmocka_unit_test(a_log_frees_each_token_a_window_after_it_was_taken),
		cmocka_unit_test(a_cost_is_taken_as_a_whole_or_not_at_all),
		cmocka_unit_test(a_superframe_beyond_the_limit_passes_an_empty_window_but_never_a_log),
		cmocka_unit_test(windows_do_what_their_model_does),
		cmocka_unit_test(a_log_does_what_its_model_does),
		cmocka_unit_test(a_log_is_late_by_less_than_64_ns_and_never_early),
		cmocka_unit_test(a_clock_that_lags_is_charged_to_the_newer_window),
		cmocka_unit_test(words_that_came_round_count_nothing_and_forbid_nothing),
		cmocka_unit_test(what_is_given_back_can_be_had_again_in_its_own_window_only),
		cmocka_unit_test(a_changed_limit_keeps_what_was_spent),
		cmocka_unit_test(a_changed_length_keeps_what_was_counted),
		cmocka_unit_test(a_log_remembers_what_a_longer_window_still_counts),
		cmocka_unit_test(an_idle_bucket_leaves_and_whoever_still_holds_it_is_refused),
		cmocka_unit_test(a_log_closes_when_nothing_counts_and_then_refuses),
		cmocka_unit_test(a_claim_that_was_left_behind_is_finished_by_the_next),
	};

	return cmocka_run_group_tests(tests, seed_random, NULL);
}
