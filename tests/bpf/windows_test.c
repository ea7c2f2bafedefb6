// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Windows, logs and costs in the loaded programs, at each of the three hooks, on the test clock. */
#include "progs.h"

static struct progs *p;
static struct lg_pkt_buf a, b;
static const char source[] = "10.0.0.1";

static int load(void **state)
{
	(void)state;
	p = progs_load(64, true);
	lg_pkt_udp4(&a, source, "192.0.2.1", 53, 20);
	lg_pkt_udp4(&b, "10.0.0.2", "192.0.2.1", 53, 20);
	return 0;
}

static int unload(void **state)
{
	(void)state;
	progs_free(p);
	return 0;
}

#define EACH_HOOK(hook) for (enum lg_hook hook = LG_HOOK_XDP; hook < _LG_HOOK_N; hook++)

/* How many of n packets pass. */
static uint32_t passed(enum lg_hook hook, const struct lg_pkt_buf *pkt, uint32_t n)
{
	uint32_t n_passed = 0;

	while (n--)
		n_passed += progs_run(p, hook, pkt);
	return n_passed;
}

static struct lg_bucket bucket_of(uint32_t rule_id)
{
	struct lg_key key = progs_key(rule_id, source);

	return progs_bucket(p, &key);
}

/* ---- worked examples ---- */

static void capacity_10_refilled_by_2_per_second_serves_10_of_15_and_all_in_2_5_s(void **state)
{
	(void)state;
	EACH_HOOK(hook)
	{
		uint32_t late = 5;

		progs_reset(p);
		assert_int_equal(lg_rate_init(2, S, 10, START_NS, &progs_rule(p, 10)->rate), 0);
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 15), 10);
		for (uint64_t at_ms = 500; at_ms <= 2500; at_ms += 500) {
			progs_now(p, START_NS + at_ms * MS - 1);
			assert_int_equal(passed(hook, &a, 1), 0);
			progs_now(p, START_NS + at_ms * MS);
			late -= passed(hook, &a, 1);
		}
		assert_int_equal(late, 0);
	}
}

static void with_12_left_two_of_cost_5_pass_and_the_third_0_3_s_later(void **state)
{
	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_rule(p, 100)->cost = 5;
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 20), 20);
		progs_now(p, START_NS + 1200 * MS); /* 12 came back */
		assert_int_equal(passed(hook, &a, 3), 2);
		progs_now(p, START_NS + 1500 * MS - 1);
		assert_int_equal(passed(hook, &a, 1), 0);
		progs_now(p, START_NS + 1500 * MS);
		assert_int_equal(passed(hook, &a, 2), 1);
		assert_int_equal(bucket_of(1).spent_tok, 5 * 23);
		assert_int_equal(bucket_of(1).denied_tok, 5 * 3);
	}
}

static void half_a_minute_after_80_and_with_30_another_passes(void **state)
{
	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_window_rule(p, LG_RULE_SLIDING_WINDOW, 100, 60 * S);
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 80), 80);
		progs_now(p, START_NS + 90 * S);
		assert_int_equal(passed(hook, &a, 30), 30);
		progs_expect(p, hook, &a, LG_PASS_ADMITTED); /* an estimate of 70 of 100 */
		assert_int_equal(passed(hook, &a, 100), 29);
		progs_expect(p, hook, &a, LG_DROP_LIMIT);
		assert_int_equal(bucket_of(1).kind, LG_BUCKET_SLIDING);
		assert_int_equal(bucket_of(1).spent_tok, 140);
	}
}

/* Twice the limit around the seam of two fixed windows, and nowhere else. */
static void the_seam_of_two_windows_shows_in_the_fixed_one_alone(void **state)
{
	static const struct {
		enum lg_rule_algorithm algorithm;
		uint32_t n_second;
	} rows[] = { { LG_RULE_FIXED_WINDOW, 100 }, { LG_RULE_SLIDING_WINDOW, 0 }, { LG_RULE_SLIDING_LOG, 0 } };

	(void)state;
	EACH_HOOK(hook)
	{
		for (size_t i = 0; i < N_ELEMS(rows); i++) {
			progs_reset(p);
			progs_window_rule(p, rows[i].algorithm, 100, 10 * S);
			progs_publish(p);
			progs_now(p, START_NS + 10 * S - MS);
			assert_int_equal(passed(hook, &a, 150), 100);
			progs_now(p, START_NS + 10 * S);
			assert_int_equal(passed(hook, &a, 150), rows[i].n_second);
			assert_int_equal(passed(hook, &b, 1), 1); /* another key's is another window */
			progs_now(p, START_NS + 20 * S - MS);
			/* The counters take the burst to have been spread over its window, of which a ten-thousandth is left. */
			assert_int_equal(passed(hook, &a, 150), rows[i].algorithm == LG_RULE_FIXED_WINDOW   ? 0 :
								rows[i].algorithm == LG_RULE_SLIDING_WINDOW ? 99 :
													      100);
		}
	}
}

/* ---- logs ---- */

static void a_log_is_exact_to_the_token(void **state)
{
	struct lg_bucket bucket;

	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_window_rule(p, LG_RULE_SLIDING_LOG, 1000, 10 * S);
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 101), 101);
		progs_now(p, START_NS + 9 * S);
		assert_int_equal(passed(hook, &a, 1000), 1000 - 101);
		progs_now(p, START_NS + 10 * S - 1);
		progs_expect(p, hook, &a, LG_DROP_LIMIT);
		progs_now(p, START_NS + 10 * S);
		assert_int_equal(passed(hook, &a, 200), 101);
		bucket = bucket_of(1);
		assert_int_equal(bucket.kind, LG_BUCKET_LOG);
		assert_int_equal(bucket.spent_tok, 1101);
	}
}

static bool run_superframe(enum lg_hook hook, uint32_t segs)
{
	struct lg_pkt_buf frame;

	lg_pkt_init(&frame);
	lg_pkt_ip4(&frame, source, "192.0.2.1", 0);
	lg_pkt_tcp(&frame, 1024, 443);
	lg_pkt_payload(&frame, segs * 10, 0);
	lg_pkt_done(&frame);
	return progs_run_sized(p, hook, frame.data, frame.len, segs, 10);
}

static void a_superframe_takes_a_slot_for_each_segment_or_none(void **state)
{
	(void)state;
	for (enum lg_hook hook = LG_HOOK_TC_INGRESS; hook < _LG_HOOK_N; hook++) {
		progs_reset(p);
		progs_window_rule(p, LG_RULE_SLIDING_LOG, 100, 10 * S);
		progs_publish(p);
		assert_true(run_superframe(hook, 45));
		assert_true(run_superframe(hook, 45));
		assert_false(run_superframe(hook, 11));
		assert_true(run_superframe(hook, 10));
		assert_false(progs_run(p, hook, &a));
		assert_int_equal(bucket_of(1).spent_tok, 100);
		progs_now(p, START_NS + 10 * S);
		assert_false(run_superframe(hook, 65)); /* never */
		assert_int_equal(progs_verdicts(p, hook, LG_DROP_COST).packets, 65);
	}
}

/* Keys that find no room among the logs share one, or follow the rule. The test has room for as many as the program was loaded with. */
static void a_full_table_of_logs_follows_the_rule(void **state)
{
	int logs = bpf_map__fd(p->skel->maps.logs);
	struct lg_key filler = { .rule_id = 60, .form = LG_FORM_SOURCE }, shared = { .rule_id = 1, .form = LG_FORM_OVERFLOW };
	_cleanup_free_ struct lg_log *blank = calloc(1, sizeof(*blank));

	(void)state;
	assert_non_null(blank);
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_window_rule(p, LG_RULE_SLIDING_LOG, 3, 10 * S);
		assert_int_equal(bpf_map_update_elem(logs, &shared, blank, 0), 0);
		for (uint32_t i = 0; i < LG_LOGS_DEFAULT - 1; i++) {
			memcpy(filler.a, &i, sizeof(i));
			assert_int_equal(bpf_map_update_elem(logs, &filler, blank, 0), 0);
		}
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 2), 2);
		assert_int_equal(passed(hook, &b, 2), 1);
		p->set.rules[0].on_full = LG_ON_FULL_DENY;
		progs_publish(p);
		progs_expect(p, hook, &a, LG_DROP_TABLE_FULL);
		p->set.rules[0].on_full = LG_ON_FULL_PASS;
		progs_publish(p);
		progs_expect(p, hook, &a, LG_PASS_TABLE_FULL);
	}
}

/* ---- several rules ---- */

static void windows_logs_and_buckets_together_are_charged_all_or_none(void **state)
{
	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_window_rule(p, LG_RULE_FIXED_WINDOW, 10, 10 * S);
		progs_window_rule(p, LG_RULE_SLIDING_WINDOW, 9, 10 * S);
		progs_rule(p, 4);
		progs_window_rule(p, LG_RULE_SLIDING_LOG, 7, 10 * S);
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 20), 4);
		for (uint32_t id = 1; id <= 4; id++)
			assert_int_equal(bucket_of(id).spent_tok, 4);
		assert_int_equal(progs_rule_count(p, 3, LG_DROP_LIMIT).packets, 16);
		progs_now(p, START_NS + 400 * MS);
		assert_int_equal(passed(hook, &a, 20), 3); /* of the bucket's 4 the log has 3 */
		for (uint32_t id = 1; id <= 4; id++)
			assert_int_equal(bucket_of(id).spent_tok, 7);
		assert_int_equal(progs_rule_count(p, 4, LG_DROP_LIMIT).packets, 17);
		assert_int_equal(bucket_of(1).window[1] >> LG_WINDOW_INDEX_BITS, 7);
	}
}

static void every_rule_that_would_deny_counts_if_it_is_asked(void **state)
{
	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_window_rule(p, LG_RULE_FIXED_WINDOW, 1, 10 * S);
		progs_window_rule(p, LG_RULE_SLIDING_WINDOW, 1, 10 * S)->flags |= LG_RULE_EVALUATE_ALL;
		progs_window_rule(p, LG_RULE_SLIDING_LOG, 1, 10 * S)->flags |= LG_RULE_EVALUATE_ALL | LG_RULE_SHADOW;
		progs_publish(p);
		assert_int_equal(passed(hook, &a, 5), 1);
		assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 4);
		assert_int_equal(progs_rule_count(p, 2, LG_DROP_LIMIT).packets, 4);
		assert_int_equal(progs_rule_count(p, 3, LG_PASS_SHADOW).packets, 4);
		for (uint32_t id = 1; id <= 3; id++)
			assert_int_equal(progs_rule_count(p, id, LG_PASS_ADMITTED).packets, 1);
	}
}

static void a_limit_of_0_denies_and_lifted_passes_at_once(void **state)
{
	(void)state;
	for (enum lg_rule_algorithm algorithm = LG_RULE_FIXED_WINDOW; algorithm <= LG_RULE_SLIDING_LOG; algorithm++) {
		EACH_HOOK(hook)
		{
			progs_reset(p);
			progs_window_rule(p, algorithm, 0, S);
			progs_publish(p);
			progs_expect(p, hook, &a, LG_DROP_LIMIT);
			p->set.rules[0].rate_tok = p->set.rules[0].cold_burst_tok = 5;
			progs_publish(p);
			assert_int_equal(passed(hook, &a, 9), 5);
		}
	}
}

/* A lease counts tokens: at a cost of 3 what was granted pays for a third as many packets. */
static void a_leased_key_pays_the_cost_too(void **state)
{
	struct lg_key key = progs_key(1, source);

	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_lease_rule(p, LG_FALLBACK_DENY)->cost = 3;
		progs_publish(p);
		assert_int_equal(progs_grant(p, key, 10, START_NS + 10 * S).result, 0);
		assert_int_equal(passed(hook, &a, 9), 3);
		assert_int_equal(progs_bucket(p, &key).spent_tok, 9);
		p->set.rules[0].cost = 101; /* of a burst of 100 */
		progs_publish(p);
		progs_expect(p, hook, &a, LG_DROP_COST);
	}
}

/* ---- leaving ---- */

static void what_counts_nothing_any_more_leaves_with_its_log(void **state)
{
	struct lg_op reap = { .code = LG_OP_REAP, .before_ns = ~0ull };
	struct lg_log log;

	(void)state;
	for (enum lg_rule_algorithm algorithm = LG_RULE_FIXED_WINDOW; algorithm <= LG_RULE_SLIDING_LOG; algorithm++) {
		progs_reset(p);
		progs_window_rule(p, algorithm, 5, 10 * S);
		progs_publish(p);
		reap.key = progs_key(1, source);
		assert_int_equal(passed(LG_HOOK_TC_INGRESS, &a, 9), 5);
		progs_now(p, START_NS + 9 * S);
		assert_int_equal(progs_op(p, reap).result, -EBUSY);
		assert_int_equal(passed(LG_HOOK_TC_INGRESS, &a, 9), 0);
		progs_now(p, START_NS + 21 * S);
		assert_int_equal(progs_op(p, reap).result, 0);
		assert_false(progs_has_bucket(p, &reap.key, &reap.after));
		assert_int_not_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.logs), &reap.key, &log), 0);
		assert_int_equal(passed(LG_HOOK_TC_INGRESS, &a, 9), 5);
	}
}

static void a_log_without_a_bucket_leaves_when_it_is_old(void **state)
{
	struct lg_op reap = { .key = progs_key(1, source), .code = LG_OP_REAP, .before_ns = ~0ull };

	(void)state;
	progs_reset(p);
	progs_window_rule(p, LG_RULE_SLIDING_LOG, 5, 10 * S);
	progs_publish(p);
	assert_int_equal(passed(LG_HOOK_TC_INGRESS, &a, 5), 5);
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(p->skel->maps.buckets), &reap.key), 0);
	progs_now(p, START_NS + 9 * S);
	assert_int_equal(progs_op(p, reap).result, -EBUSY);
	assert_int_equal(passed(LG_HOOK_TC_INGRESS, &a, 5), 0); /* what it counted still counts */
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(p->skel->maps.buckets), &reap.key), 0);
	progs_now(p, START_NS + 12 * S);
	progs_op(p, reap);
	assert_int_not_equal(bpf_map_get_next_key(bpf_map__fd(p->skel->maps.logs), NULL, &reap.key), 0);
}

/* ---- a night asleep ---- */

#define NIGHT_NS (10 * 3600 * S)

/* Time goes on while the machine sleeps, so what was lent has lapsed, and what comes back by time comes back once. */
static void after_ten_hours_asleep_leases_have_ended_and_all_else_is_full_once(void **state)
{
	(void)state;
	EACH_HOOK(hook)
	{
		progs_reset(p);
		progs_lease_rule(p, LG_FALLBACK_DENY);
		progs_publish(p);
		assert_int_equal(progs_grant(p, progs_key(1, source), 100, START_NS + 10 * S).result, 0);
		assert_int_equal(passed(hook, &a, 10), 10);
		progs_now(p, START_NS + NIGHT_NS);
		assert_int_equal(passed(hook, &a, 10), 0);
		for (enum lg_rule_algorithm algorithm = LG_RULE_TOKEN_BUCKET; algorithm <= LG_RULE_SLIDING_LOG; algorithm++) {
			progs_reset(p);
			if (algorithm == LG_RULE_TOKEN_BUCKET)
				progs_rule(p, 20);
			else
				progs_window_rule(p, algorithm, 20, 60 * S);
			progs_publish(p);
			assert_int_equal(passed(hook, &a, 30), 20);
			progs_now(p, START_NS + NIGHT_NS);
			assert_int_equal(passed(hook, &a, 30), 20);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(capacity_10_refilled_by_2_per_second_serves_10_of_15_and_all_in_2_5_s),
		cmocka_unit_test(with_12_left_two_of_cost_5_pass_and_the_third_0_3_s_later),
		cmocka_unit_test(half_a_minute_after_80_and_with_30_another_passes),
		cmocka_unit_test(the_seam_of_two_windows_shows_in_the_fixed_one_alone),
		cmocka_unit_test(a_log_is_exact_to_the_token),
		cmocka_unit_test(a_superframe_takes_a_slot_for_each_segment_or_none),
		cmocka_unit_test(a_full_table_of_logs_follows_the_rule),
		cmocka_unit_test(windows_logs_and_buckets_together_are_charged_all_or_none),
		cmocka_unit_test(every_rule_that_would_deny_counts_if_it_is_asked),
		cmocka_unit_test(a_limit_of_0_denies_and_lifted_passes_at_once),
		cmocka_unit_test(a_leased_key_pays_the_cost_too),
		cmocka_unit_test(what_counts_nothing_any_more_leaves_with_its_log),
		cmocka_unit_test(a_log_without_a_bucket_leaves_when_it_is_old),
		cmocka_unit_test(after_ten_hours_asleep_leases_have_ended_and_all_else_is_full_once),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
