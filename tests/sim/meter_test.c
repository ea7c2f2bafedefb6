// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The judge is judged: the meter that says whether a law is broken, against the words of the law taken literally, over every interval of
 * random traffic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lease/arith.h"
#include "tests/lib/sim_meter.h"

#define S 1000000000ull
#define N_ARRIVALS 60
#define N_ROUNDS 300

struct arrival {
	uint64_t at_ns;
	uint64_t tok;
};

/* The most that was admitted above what the law allows in any interval that ends with arrival n. */
static int64_t bucket_over(const struct lg_terms *t, const struct arrival *v, size_t n)
{
	int64_t worst = INT64_MIN;
	uint64_t sum = 0;

	for (size_t i = n + 1; i-- > 0;) {
		unsigned __int128 minted = (unsigned __int128)t->limit_tok * (v[n].at_ns - v[i].at_ns) / t->per_ns;
		int64_t over;

		sum += v[i].tok;
		over = (int64_t)(sum - t->budget_tok) - (int64_t)minted;
		if (over > worst)
			worst = over;
	}
	return worst;
}

static int64_t window_over(const struct lg_terms *t, const struct arrival *v, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i <= n; i++)
		if (v[i].at_ns + t->per_ns > v[n].at_ns)
			sum += v[i].tok;
	return (int64_t)(sum - t->budget_tok);
}

static int64_t fixed_over(const struct lg_terms *t, uint64_t origin_ns, const struct arrival *v, size_t n)
{
	uint64_t from_ns = 0, sum = 0;

	for (uint64_t at_ns = origin_ns % t->per_ns; at_ns <= v[n].at_ns; at_ns += t->per_ns)
		from_ns = at_ns;
	for (size_t i = 0; i <= n; i++)
		if (v[i].at_ns >= from_ns)
			sum += v[i].tok;
	return (int64_t)(sum - t->budget_tok);
}

static void judge(enum lg_algorithm algorithm)
{
	uint64_t rand = 1;

	for (int round = 0; round < N_ROUNDS; round++) {
		struct lg_terms t = { .algorithm = algorithm, .limit_tok = 1 + lg_rand_next(&rand) % 20 };
		uint64_t origin_ns = lg_rand_next(&rand) % (3 * S), now_ns = 0;
		struct arrival v[N_ARRIVALS];
		struct sim_meter m;

		t.per_ns = 1 + lg_rand_next(&rand) % S;
		t.budget_tok = algorithm == LG_TOKEN_BUCKET ? 1 + lg_rand_next(&rand) % 20 : t.limit_tok;
		t.rule_limit_tok = t.limit_tok;
		t.rule_budget_tok = t.budget_tok;
		sim_meter_init(&m, &t);
		m.origin_ns = origin_ns;
		for (size_t i = 0; i < N_ARRIVALS; i++) {
			int64_t over;

			now_ns += lg_rand_next(&rand) % (t.per_ns / t.limit_tok * 2 + 1);
			v[i] = (struct arrival){ now_ns, 1 + lg_rand_next(&rand) % 3 };
			sim_meter_add(&m, v[i].tok, now_ns);
			over = algorithm == LG_TOKEN_BUCKET   ? bucket_over(&t, v, i) :
			       algorithm == LG_FIXED_WINDOW ? fixed_over(&t, origin_ns, v, i) :
							      window_over(&t, v, i);
			assert_int_equal(sim_meter_over(&m, now_ns), over);
		}
		sim_meter_fini(&m);
	}
}

static void a_bucket_is_judged_by_every_interval(void **state)
{
	(void)state;
	judge(LG_TOKEN_BUCKET);
}

static void a_window_is_judged_by_every_trailing_one(void **state)
{
	(void)state;
	judge(LG_SLIDING_WINDOW);
}

static void a_fixed_window_is_judged_by_each_from_the_origin_on(void **state)
{
	(void)state;
	judge(LG_FIXED_WINDOW);
}

static void the_perfect_limiter_admits_up_to_the_law_and_never_more(void **state)
{
	static const enum lg_algorithm algorithms[] = { LG_TOKEN_BUCKET, LG_FIXED_WINDOW, LG_SLIDING_WINDOW };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct lg_terms t = { .algorithm = algorithms[i], .per_ns = S, .rule_limit_tok = 10, .rule_budget_tok = 10 };
		uint64_t n = 0;
		struct sim_meter m;

		sim_meter_init(&m, &t);
		for (uint64_t now_ns = 0; now_ns < 20 * S; now_ns += S / 100) {
			n += sim_meter_admit(&m, 1, now_ns);
			assert_true(sim_meter_over(&m, now_ns) <= 0);
		}
		assert_true(n >= 199 && n <= 210);
		sim_meter_fini(&m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_is_judged_by_every_interval),
		cmocka_unit_test(a_window_is_judged_by_every_trailing_one),
		cmocka_unit_test(a_fixed_window_is_judged_by_each_from_the_origin_on),
		cmocka_unit_test(the_perfect_limiter_admits_up_to_the_law_and_never_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
