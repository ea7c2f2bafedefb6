// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The fallback share: a region that is cut off drains its lease, then denies until its lessor has given the lease up for certain, then takes
 * its static part of the limit, which begins empty. What leases let through keeps the law all the time; the shares come on top, no more and
 * no earlier than is said of them. The shares of a strict rule are a part of the limit that is never leased: there all together keep the law.
 * The kernel's own code judges the share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/sim.h"
#include "tests/lib/sim_share.h"

#define MS 1000000ull
#define S (1000 * MS)
#define LIMIT 1200u
#define PER_S 6u
#define REGIONS 3u
#define HOSTS 2u	/* of each */
#define CUT_AT_S 30u
#define CUT_FOR_S 60u
#define END_S 150u
#define LOAD 2.0

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	(void)s;
	(void)region;
	(void)host;
	(void)now_s;
	return LOAD * LIMIT / PER_S / REGIONS / HOSTS;
}

/* One run, in which something is cut off for a minute. by_share_tok per region's share at most: what that time allows. */
static void run(enum lg_rule_class class, enum lg_algorithm algorithm, enum lg_lease_kind kind, enum sim_fault_kind cut, uint64_t seed,
		struct sim_result *ret_result, struct lg_terms *ret_terms)
{
	struct lg_rule_def rule = { .name = "r", .scope = LG_SCOPE_GLOBAL, .class = class, .algorithm = algorithm, .limit_tok = LIMIT,
				    .per_ns = PER_S * S, .burst_tok = LIMIT, .fallback = LG_FALLBACK_SHARE, .lease.kind = kind,
				    .key.source = { 32, 128 } };
	struct sim_config c = {
		.n_regions = REGIONS, .hosts_per_region = HOSTS, .rtt_ns = { 1 * MS, 100 * MS, 150 * MS }, .host_rtt_ns = 500000,
		.clock_ppm = 200, .seed = seed, .load = LOAD, .rate = rate, .rate_max = LOAD * LIMIT / PER_S, .batch = 1, .cost_max_tok = 1,
		.end_ns = END_S * S, .rule = rule,
	};
	_cleanup_(sim_free) struct sim *s = NULL;

	lg_terms_init(&rule, &(struct lg_fleet){ .regions = REGIONS, .hosts = REGIONS * HOSTS }, &c.terms);
	assert_int_equal(c.terms.kind, kind);
	assert_int_equal(sim_new(&c, &s), 0);
	sim_fault(s, cut, 1, CUT_AT_S * S, CUT_FOR_S * S);
	sim_run(s);
	*ret_result = *sim_result_of(s);
	*ret_terms = c.terms;
	assert_string_equal(ret_result->broken, "");
}

/* What the shares of so many hosts mint while they are cut off, at most and at least. */
static double most_tok(uint32_t hosts)
{
	return (double)LIMIT / PER_S / REGIONS / HOSTS * hosts * CUT_FOR_S;
}

static double least_tok(uint32_t hosts, const struct lg_terms *t)
{
	double waits_s = (double)t->ttl_ns / 1e9 + 1.5 * PER_S + 2;

	return (double)LIMIT / PER_S / REGIONS / HOSTS * hosts * (CUT_FOR_S - waits_s);
}

static void check(enum lg_algorithm algorithm, enum lg_lease_kind kind)
{
	static const struct { enum sim_fault_kind cut; uint32_t hosts; } cuts[] = { { SIM_CUT_REGION, HOSTS }, { SIM_CUT_HOST, 1 } };

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
		for (uint64_t seed = 1; seed <= 3; seed++) {
			struct sim_result r;
			struct lg_terms t;
			double bound;

			run(LG_CLASS_LEASE, algorithm, kind, cuts[i].cut, seed, &r, &t);
			/* A share's burst, and what it mints: of a window in that window, of a bucket as long as it lasts. */
			bound = LIMIT + (double)LIMIT / REGIONS / HOSTS * cuts[i].hosts *
						(algorithm == LG_TOKEN_BUCKET ? 1 + (double)CUT_FOR_S / PER_S : 2);
			print_message("%u host(s) cut off for %u s: shares %llu tokens (%.0f to %.0f), all together %llu at worst (%.0f)\n",
				      cuts[i].hosts, CUT_FOR_S, (unsigned long long)r.by_share_tok, least_tok(cuts[i].hosts, &t),
				      most_tok(cuts[i].hosts), (unsigned long long)r.worst_all_tok, bound);
			assert_true((double)r.by_share_tok >= least_tok(cuts[i].hosts, &t));
			assert_true((double)r.by_share_tok <= most_tok(cuts[i].hosts));
			assert_true((double)r.worst_all_tok <= bound);
			assert_true(r.worst_all_tok > LIMIT);
		}
}

/* Its shares are less, a tenth, and never too much. */
static void check_strict(enum lg_algorithm algorithm, enum lg_lease_kind kind)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct sim_result r;
		struct lg_terms t;

		run(LG_CLASS_STRICT, algorithm, kind, SIM_CUT_REGION, seed, &r, &t);
		print_message("a region cut off for %u s: shares %llu tokens, all together %llu at worst\n", CUT_FOR_S,
			      (unsigned long long)r.by_share_tok, (unsigned long long)r.worst_all_tok);
		assert_true(r.by_share_tok >= (algorithm == LG_TOKEN_BUCKET ? 9 : 4) * (uint64_t)least_tok(HOSTS, &t) / 100);
		assert_true((double)r.by_share_tok <= most_tok(HOSTS) / 10);
		assert_true(r.worst_all_tok <= LIMIT);
	}
}

static void a_strict_bucket_stays_within_its_limit_with_all_shares(void **state)
{
	(void)state;
	check_strict(LG_TOKEN_BUCKET, LG_LEASE_BLOCK);
	check_strict(LG_TOKEN_BUCKET, LG_LEASE_LIMIT);
}

static void a_strict_window_stays_within_its_limit_with_all_shares(void **state)
{
	(void)state;
	check_strict(LG_SLIDING_WINDOW, LG_LEASE_BLOCK);
	check_strict(LG_SLIDING_WINDOW, LG_LEASE_LIMIT);
	check_strict(LG_FIXED_WINDOW, LG_LEASE_BLOCK);
}

/* A host of two, with a share of 60 in each six seconds, wants nothing for a minute and then all it can have. */
static void the_share_of_a_strict_window_is_not_saved_up(void **state)
{
	struct lg_rule_def rule = { .name = "r", .scope = LG_SCOPE_GLOBAL, .class = LG_CLASS_STRICT, .algorithm = LG_SLIDING_WINDOW,
				    .limit_tok = LIMIT, .per_ns = PER_S * S, .burst_tok = LIMIT, .fallback = LG_FALLBACK_SHARE,
				    .key.source = { 32, 128 } };
	_cleanup_(sim_share_free) struct sim_share *share = NULL;
	uint64_t first_ns = 60 * S, n[2] = { 0 };

	(void)state;
	assert_int_equal(sim_share_new(&rule, 1, HOSTS, 1 * S, &share), 0);
	for (uint64_t i = 0; i < 2; i++)
		for (uint64_t ms = 0; ms < PER_S * 1000; ms++)
			n[i] += sim_share_take(share, 1 * S, 1 * S, 1, false, first_ns + (i * PER_S * 1000 + ms) * MS);
	print_message("%llu in the first window, %llu in the next\n", (unsigned long long)n[0], (unsigned long long)n[1]);
	assert_in_range(n[0], 58, 60);
	assert_in_range(n[1], 29, 30);
}

static void a_bucket_cut_off_takes_its_share_and_no_more(void **state)
{
	(void)state;
	check(LG_TOKEN_BUCKET, LG_LEASE_BLOCK);
}

static void a_window_cut_off_takes_its_share_and_no_more(void **state)
{
	(void)state;
	check(LG_SLIDING_WINDOW, LG_LEASE_BLOCK);
}

static void a_region_that_ran_a_part_of_the_limit_takes_its_share_and_no_more(void **state)
{
	(void)state;
	check(LG_SLIDING_WINDOW, LG_LEASE_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bucket_cut_off_takes_its_share_and_no_more),
		cmocka_unit_test(a_window_cut_off_takes_its_share_and_no_more),
		cmocka_unit_test(a_region_that_ran_a_part_of_the_limit_takes_its_share_and_no_more),
		cmocka_unit_test(a_strict_bucket_stays_within_its_limit_with_all_shares),
		cmocka_unit_test(a_strict_window_stays_within_its_limit_with_all_shares),
		cmocka_unit_test(the_share_of_a_strict_window_is_not_saved_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
