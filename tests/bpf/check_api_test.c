// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests through the C interface, by rules as people write them, against the program in the kernel. */
#include "api/check.h"
#include "base/clock.h"
#include "kern/check.h"
#include "loop/loop.h"
#include "progs_shared.h"
#include "rules/compile.h"
#include "rules/request.h"
#include "rules/yaml.h"

static struct lg_check_door *door;
static struct lg_checker *checker;
static struct lg_loop *loop;
static struct lg_rules *rules;
static struct lg_rule_name names[LG_RULES_MAX + 1];
static uint32_t n_runs;

static int run_door(void *arg, uint32_t n)
{
	n_runs++;
	return lg_check_door_run(arg, n);
}

static int load_all(void **state)
{
	static const char *const programs[] = { "lg_check", "lg_grant", "lg_collect", NULL };

	(void)state;
	p = progs_load_some(64, true, programs);
	assert_int_equal(lg_check_door_open(bpf_program__fd(p->skel->progs.lg_check), bpf_map__fd(p->skel->maps.checks), 0, &door), 0);
	assert_int_equal(lg_loop_new(&loop), 0);
	return 0;
}

static int unload_all(void **state)
{
	lg_checker_free(checker);
	lg_loop_free(loop);
	lg_check_door_free(door);
	lg_rules_free(rules);
	return unload(state);
}

static void table_give(void)
{
	struct lg_request_table *table = NULL;

	assert_int_equal(lg_requests_build(rules, &p->set, names, p->control.hash_seed, &table), 0);
	lg_checker_rules(checker, table);
}

/* Puts rules in force, all of them anew. */
static void in_force(const char *text)
{
	const struct lg_checker_door to = { .room = lg_check_door_room(door), .run = run_door, .arg = door };
	struct lg_compile_env env = { .now_ns = START_NS, .n_lines = PROGS_LINES, .n_regions = 1, .hosts_in_region = 1 };
	struct lg_complaint c = { 0 };
	uint32_t other;

	progs_reset(p);
	checker = lg_checker_free(checker);
	lg_rules_free(rules);
	rules = NULL;
	if (lg_rules_parse(text, strlen(text), "r.yaml", &rules, &c) < 0)
		fail_msg("%u:%u: %s\n%s", c.line, c.col, c.text, text);
	assert_int_equal(lg_rules_compile(rules, &env, &p->set, &p->classifier, names, &c), 0);
	for (uint32_t i = 0; i < p->set.n_rules; i++)
		p->n_lines += p->set.rules[i].n_lines;
	other = !p->control.active_set;
	assert_int_equal(bpf_map__update_elem(p->skel->maps.classifiers, &other, sizeof(other), &p->classifier, sizeof(p->classifier), 0), 0);
	assert_int_equal(bpf_map__update_elem(p->skel->maps.rules, &other, sizeof(other), &p->set, sizeof(p->set), 0), 0);
	p->control.active_set = other;
	progs_control(p);
	assert_int_equal(lg_checker_new(&to, loop, &checker), 0);
	table_give();
	n_runs = 0;
}

/* ---- asking ---- */

struct said {
	struct lg_entry entries[8];
	struct lg_descriptor descriptor;
	struct lg_request request;
	char text[256];
};

/* "user=alice ip=10.0.0.1" as one descriptor of domain d. */
static struct lg_request *say(struct said *s, const char *text, enum lg_check_mode mode, uint64_t cost)
{
	char *at = s->text;

	memset(s, 0, sizeof(*s));
	snprintf(s->text, sizeof(s->text), "%s", text);
	while (*at) {
		size_t len = strcspn(at, " "), key = strcspn(at, "=");

		s->entries[s->descriptor.n++] = (struct lg_entry){ at, at + key + 1, (uint32_t)key, (uint32_t)(len - key - 1) };
		at += len + (at[len] == ' ');
	}
	s->descriptor.entries = s->entries;
	s->request = (struct lg_request){ .domain = "d", .domain_len = 1, .descriptors = &s->descriptor, .n_descriptors = 1, .mode = mode,
					  .cost = cost };
	return &s->request;
}

static struct lg_answer ask(const char *text, enum lg_check_mode mode, uint64_t cost)
{
	struct lg_answer answer;
	struct said s;

	assert_int_equal(lg_check_many(checker, say(&s, text, mode, cost), &answer, 1), 0);
	return answer;
}

static struct lg_answer take(const char *text, uint64_t cost, enum lg_check_status want)
{
	struct lg_answer answer = ask(text, LG_CHECK_TAKE, cost);

	if (answer.status != want)
		fail_msg("%s, cost %llu: %s, wanted %s", text, (unsigned long long)cost, lg_check_status_name(answer.status),
			 lg_check_status_name(want));
	assert_int_equal(answer.allowed, want <= LG_STATUS_SOFT);
	assert_true(answer.retry_after_ns == 0 || !answer.allowed);
	return answer;
}

static struct lg_answer settle(uint64_t reservation, uint64_t cost)
{
	const struct lg_request request = { .mode = LG_CHECK_SETTLE, .reservation = reservation, .cost = cost };
	struct lg_answer answer;

	assert_int_equal(lg_check_many(checker, &request, &answer, 1), 0);
	return answer;
}

static const char *decider(const struct lg_answer *answer)
{
	return answer->decider < 0 ? "" : answer->takes[answer->decider].rule;
}

#define ONE(keys) "rules:\n  - {name: r, unit: requests, match: {domain: d, entries: [user]}, key: {descriptors: [user]}, " keys "}\n"

/* ---- rules ---- */

static void some_users_get_more_than_others(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force("rules:\n"
		 "  - {name: vip, unit: requests, match: {domain: d, entries: [{key: user, value: \"vip:*\"}]}, key: {descriptors: [user]}, "
		 "limit: 100/1s}\n"
		 "  - {name: others, unit: requests, match: {domain: d, entries: [user]}, key: {descriptors: [user]}, limit: 5/1s}\n");
	answer = take("user=vip:1", 100, LG_STATUS_OK);
	assert_int_equal(answer.n_takes, 1);
	assert_string_equal(decider(&answer), "vip");
	take("user=vip:1", 1, LG_STATUS_DENIED);
	take("user=vip:2", 100, LG_STATUS_OK);
	take("user=joe", 5, LG_STATUS_OK);
	answer = take("user=joe", 1, LG_STATUS_DENIED);
	assert_string_equal(decider(&answer), "others");
	answer = take("who=joe", 1, LG_STATUS_OK);
	assert_int_equal(answer.n_takes, 0);
	assert_int_equal(answer.decider, -1);
}

static void user_address_endpoint_and_all_are_charged_together_or_not_at_all(void **state)
{
	const char *const text = "user=alice ip=10.0.0.1 path=/search";
	struct lg_answer answer;

	(void)state;
	in_force("rules:\n"
		 "  - {name: all, unit: requests, match: {domain: d}, limit: 100/1s}\n"
		 "  - {name: user, unit: requests, match: {domain: d, entries: [user]}, key: {descriptors: [user]}, limit: 20/1s}\n"
		 "  - {name: ip, unit: requests, match: {domain: d, entries: [ip]}, key: {address: ip}, limit: 10/1s}\n"
		 "  - {name: path, unit: requests, match: {domain: d, entries: [path]}, key: {descriptors: [path]}, limit: 50/1s, cost: 10}\n");
	for (int i = 0; i < 5; i++)
		assert_int_equal(take(text, 1, LG_STATUS_OK).n_takes, 4);
	answer = take(text, 1, LG_STATUS_DENIED);
	assert_string_equal(decider(&answer), "path");
	assert_int_equal(ask("x=1", LG_CHECK_PEEK, 1).takes[0].remaining, 95);
	assert_int_equal(ask("user=alice", LG_CHECK_PEEK, 1).n_takes, 2);
	assert_int_equal(ask("ip=10.0.0.1", LG_CHECK_PEEK, 5).status, LG_STATUS_OK);
	assert_int_equal(ask("ip=10.0.0.1", LG_CHECK_PEEK, 6).status, LG_STATUS_DENIED);
	answer = ask("path=/search", LG_CHECK_PEEK, 1);
	for (uint32_t k = 0; k < answer.n_takes; k++)
		if (strcmp(answer.takes[k].rule, "path") == 0) {
			assert_int_equal(answer.takes[k].limit, 5);
			assert_int_equal(answer.takes[k].remaining, 0);
			assert_in_range(answer.takes[k].retry_after_ns, S / 5, S / 5 + MS);
		}
}

static void a_rule_is_asked_by_its_name(void **state)
{
	struct lg_answer answer;
	struct said s;

	(void)state;
	in_force(ONE("limit: 2/1s"));
	say(&s, "user=alice", LG_CHECK_TAKE, 2);
	s.request.rule = "r";
	s.request.rule_len = 1;
	s.request.domain_len = 0;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_OK);
	take("user=alice", 1, LG_STATUS_DENIED);
	s.request.rule = "rr";
	s.request.rule_len = 2;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_UNKNOWN);
	say(&s, "usr=alice", LG_CHECK_TAKE, 1);
	s.request.rule = "r";
	s.request.rule_len = 1;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_UNKNOWN);
	assert_non_null(answer.why);
}

static void several_descriptors_are_charged_at_once_and_a_bucket_once(void **state)
{
	struct lg_answer answer;
	struct said a, b;
	struct lg_descriptor both[3];

	(void)state;
	in_force("rules:\n"
		 "  - {name: user, unit: requests, match: {domain: d, descriptors: [user]}, key: {descriptors: [user]}, limit: 10/1s}\n"
		 "  - {name: path, unit: requests, match: {domain: d, descriptors: [path]}, key: {descriptors: [path]}, limit: 10/1s}\n");
	say(&a, "user=alice", LG_CHECK_TAKE, 3);
	say(&b, "path=/x", LG_CHECK_TAKE, 1);
	both[0] = both[2] = a.descriptor;
	both[1] = b.descriptor;
	both[1].has_cost = true;
	both[1].cost = 7;
	a.request.descriptors = both;
	a.request.n_descriptors = 3;
	lg_check_many(checker, &a.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_OK);
	assert_int_equal(answer.n_takes, 2);
	assert_int_equal(answer.takes[0].descriptor + answer.takes[1].descriptor, 1);
	assert_int_equal(ask("user=alice", LG_CHECK_PEEK, 1).takes[0].remaining, 7);
	assert_int_equal(ask("path=/x", LG_CHECK_PEEK, 1).takes[0].remaining, 3);
	lg_check_many(checker, &a.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_DENIED);
	assert_string_equal(decider(&answer), "path");
	assert_int_equal(ask("user=alice", LG_CHECK_PEEK, 1).takes[0].remaining, 7);
}

static void the_callers_own_limit_takes_the_place_of_the_rules(void **state)
{
	struct lg_answer answer = { 0 };
	uint32_t passed = 0;
	struct said s;

	(void)state;
	in_force(ONE("limit: 100/1s"));
	say(&s, "user=alice", LG_CHECK_TAKE, 1);
	s.descriptor.limit = 7;
	s.descriptor.limit_per_ns = S;
	for (int i = 0; i < 20; i++) {
		lg_check_many(checker, &s.request, &answer, 1);
		passed += answer.allowed;
	}
	assert_in_range(passed, 6, 7);
	assert_int_equal(answer.takes[0].limit, 7);
	assert_int_equal(answer.takes[0].remaining, 0);
}

/* ---- answers ---- */

static void who_waits_as_long_as_told_is_let_through_and_not_much_earlier(void **state)
{
	static const char *const algorithms[] = { "limit: 10/1s, table: exact", "limit: 7/3s, table: lines", "limit: 10/1s, algorithm: "
													     "fixed_window",
						  "limit: 10/1s, algorithm: sliding_window", "limit: 10/1s, algorithm: sliding_log",
						  "limit: 3/1m, burst: 10, cost: 2" };
	struct lg_answer answer;
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		snprintf(text, sizeof(text), ONE("%s"), algorithms[i]);
		in_force(text);
		progs_now(p, START_NS + S / 7);
		take("user=a", 3, LG_STATUS_OK);
		progs_now(p, p->now_ns + S / 5);
		for (int turn = 0; turn < 6; turn++) {
			while ((answer = ask("user=a", LG_CHECK_TAKE, 2)).allowed)
				continue;
			assert_int_equal(answer.status, LG_STATUS_DENIED);
			assert_true(answer.retry_after_ns > 0);
			progs_now(p, p->now_ns + answer.retry_after_ns - answer.retry_after_ns / 50 - 200);
			if (ask("user=a", LG_CHECK_PEEK, 2).allowed)
				fail_msg("%s: told to wait longer than it takes", algorithms[i]);
			progs_now(p, p->now_ns + answer.retry_after_ns / 50 + 200);
			take("user=a", 2, LG_STATUS_OK);
		}
	}
}

static void what_remains_passes_and_one_more_does_not(void **state)
{
	static const char *const algorithms[] = { "limit: 100/1s, table: exact", "limit: 100/1s, table: lines", "limit: 100/1s, algorithm: "
														"fixed_window",
						  "limit: 100/1s, algorithm: sliding_window", "limit: 60/1s, algorithm: sliding_log" };
	struct lg_answer answer;
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		snprintf(text, sizeof(text), ONE("%s"), algorithms[i]);
		in_force(text);
		progs_now(p, START_NS + S / 7);
		answer = take("user=a", 17, LG_STATUS_OK);
		assert_int_equal(answer.takes[0].remaining, answer.takes[0].limit - 17);
		progs_now(p, p->now_ns + S / 11);
		answer = ask("user=a", LG_CHECK_PEEK, 1);
		assert_int_equal(answer.takes[0].per_ns, S);
		assert_true(answer.takes[0].reset_ns > 0);
		take("user=a", answer.takes[0].remaining + 1, LG_STATUS_DENIED);
		take("user=a", answer.takes[0].remaining, LG_STATUS_OK);
		progs_now(p, p->now_ns + 3 * S);
		answer = ask("user=a", LG_CHECK_PEEK, 1);
		assert_int_equal(answer.takes[0].remaining, answer.takes[0].burst);
		assert_int_equal(answer.takes[0].reset_ns, 0);
	}
}

static void a_bucket_is_full_when_its_reset_is_over(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force(ONE("limit: 10/1s, burst: 20, table: exact"));
	answer = take("user=a", 15, LG_STATUS_OK);
	assert_in_range(answer.takes[0].reset_ns, 3 * S / 2, 3 * S / 2 + 1000);
	progs_now(p, START_NS + answer.takes[0].reset_ns);
	take("user=a", 20, LG_STATUS_OK);
}

static void a_cost_above_the_burst_is_never(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force(ONE("limit: 300/1s"));
	answer = take("user=a", 301, LG_STATUS_NEVER);
	assert_int_equal(answer.retry_after_ns, 0);
	assert_int_equal(answer.takes[0].remaining, 300);
	take("user=a", UINT64_MAX, LG_STATUS_NEVER);
	take("user=a", 300, LG_STATUS_OK);
	in_force(ONE("limit: 0/1s"));
	take("user=a", 1, LG_STATUS_NEVER);
}

static void soft_and_shadow_let_pass_and_say_so(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force(ONE("limit: 1/1s, action: soft"));
	take("user=a", 1, LG_STATUS_OK);
	take("user=a", 1, LG_STATUS_SOFT);
	in_force(ONE("limit: 1/1s, shadow: true"));
	take("user=a", 1, LG_STATUS_OK);
	answer = take("user=a", 1, LG_STATUS_OK);
	assert_true(answer.takes[0].is_shadow && answer.takes[0].would_deny);
}

static void a_global_rule_without_a_lease_is_denied_or_unreachable(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force(ONE("scope: global, class: strict, limit: 10/1s"));
	answer = take("user=a", 1, LG_STATUS_DENIED);
	assert_int_equal(answer.takes[0].reason, LG_DROP_LEASE_PENDING);
	assert_int_equal(answer.takes[0].scope, LG_CHECK_SCOPE_GLOBAL);
	assert_true(answer.retry_after_ns > 0);
	p->control.reachable = 0;
	progs_control(p);
	take("user=a", 1, LG_STATUS_UNREACHABLE);
}

static void what_is_out_of_bounds_is_invalid(void **state)
{
	static const char big[LG_CHECK_VALUE_BYTES_MAX + 1];
	struct lg_descriptor many[LG_CHECK_DESCRIPTORS_MAX + 1] = { 0 };
	struct lg_answer answer;
	struct said s;

	(void)state;
	in_force(ONE("limit: 10/1s"));
	say(&s, "user=a", LG_CHECK_TAKE, 1);
	s.request.mode = _LG_CHECK_MODE_N;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_INVALID);
	say(&s, "user=a", LG_CHECK_TAKE, 1);
	s.entries[0].value = big;
	s.entries[0].value_len = sizeof(big);
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_INVALID);
	s.entries[0].value_len = sizeof(big) - 1; /* as long as it may be, of nothing but NULs */
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_OK);
	s.entries[0].key_len = 0;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_INVALID);
	s.descriptor.n = LG_CHECK_ENTRIES_MAX + 1;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_INVALID);
	s.request.descriptors = many;
	s.request.n_descriptors = N_ELEMS(many);
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_INVALID);
	say(&s, "user=a", LG_CHECK_RESERVE, 1);
	s.request.reserve_ns = LG_CHECK_RESERVE_MAX_NS + 1;
	lg_check_many(checker, &s.request, &answer, 1);
	assert_int_equal(answer.status, LG_STATUS_INVALID);
}

/* ---- modes ---- */

static void best_effort_gets_what_all_rules_have(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force("rules:\n"
		 "  - {name: user, unit: requests, match: {domain: d, entries: [user]}, key: {descriptors: [user]}, limit: 10/1s}\n"
		 "  - {name: all, unit: requests, match: {domain: d}, limit: 14/1s, cost: 2}\n");
	answer = ask("user=a", LG_CHECK_BEST_EFFORT, 100);
	assert_int_equal(answer.granted, 7);
	assert_true(answer.allowed);
	answer = ask("user=a", LG_CHECK_BEST_EFFORT, 100);
	assert_int_equal(answer.granted, 0);
	assert_false(answer.allowed);
	assert_true(answer.retry_after_ns > 0);
	assert_int_equal(ask("user=a", LG_CHECK_PEEK, 1).status, LG_STATUS_DENIED);
}

static void a_cost_of_nothing_asks_for_one_and_takes_nothing(void **state)
{
	(void)state;
	in_force(ONE("limit: 2/1s"));
	for (int i = 0; i < 5; i++)
		take("user=a", 0, LG_STATUS_OK);
	take("user=a", 2, LG_STATUS_OK);
	take("user=a", 0, LG_STATUS_DENIED);
}

static void a_refund_gives_back_and_never_more_than_was_there(void **state)
{
	(void)state;
	in_force(ONE("limit: 10/1s"));
	take("user=a", 8, LG_STATUS_OK);
	ask("user=a", LG_CHECK_REFUND, 3);
	assert_int_equal(ask("user=a", LG_CHECK_PEEK, 1).takes[0].remaining, 5);
	ask("user=a", LG_CHECK_REFUND, 1000);
	take("user=a", 10, LG_STATUS_OK);
	take("user=a", 1, LG_STATUS_DENIED);
}

static void what_is_reserved_is_settled_for_what_it_cost(void **state)
{
	static const char *const algorithms[] = { "limit: 100/1m, table: exact", "limit: 100/1m, table: lines", "limit: 100/1m, algorithm: "
														"fixed_window",
						  "limit: 100/1m, algorithm: sliding_window" };
	struct lg_answer answer;
	char text[256];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(algorithms); i++) {
		snprintf(text, sizeof(text), ONE("%s"), algorithms[i]);
		in_force(text);
		answer = ask("user=a", LG_CHECK_RESERVE, 60);
		assert_true(answer.allowed && answer.reservation);
		assert_int_equal(answer.settle_within_ns, LG_CHECK_RESERVE_DEFAULT_NS);
		take("user=a", 41, LG_STATUS_DENIED);
		assert_int_equal(settle(answer.reservation, 25).status, LG_STATUS_OK);
		assert_int_equal(ask("user=a", LG_CHECK_PEEK, 1).takes[0].remaining, 75);
		assert_int_equal(settle(answer.reservation, 25).status, LG_STATUS_UNKNOWN); /* once */
		answer = ask("user=a", LG_CHECK_RESERVE, 50);
		assert_int_equal(settle(answer.reservation, 70).debt, 0);
		assert_int_equal(ask("user=a", LG_CHECK_PEEK, 1).takes[0].remaining, 5);
		assert_int_equal(settle(0, 1).status, LG_STATUS_UNKNOWN);
		assert_int_equal(settle(1, 1).status, LG_STATUS_UNKNOWN);
	}
}

static void what_nobody_settles_lapses(void **state)
{
	struct lg_checker_counts counts;
	struct lg_answer first, second;
	struct said s;

	(void)state;
	in_force(ONE("limit: 10/1d"));
	say(&s, "user=a", LG_CHECK_RESERVE, 6);
	s.request.reserve_ns = 2 * S;
	lg_check_many(checker, &s.request, &first, 1);
	assert_true(first.allowed);
	lg_check_many(checker, &s.request, &second, 1);
	assert_false(second.allowed);
	lg_checker_tick(checker, lg_clock_now_ns() + S);
	take("user=a", 5, LG_STATUS_DENIED);
	lg_checker_tick(checker, lg_clock_now_ns() + 2 * S + 2 * S / 10);
	lg_checker_counts_read(checker, &counts);
	assert_int_equal(counts.lapsed, 1);
	assert_int_equal(counts.reserved, 0);
	take("user=a", 10, LG_STATUS_OK);
	assert_int_equal(settle(first.reservation, 1).status, LG_STATUS_UNKNOWN);
}

static void what_cost_more_than_there_is_becomes_a_debt_that_delays_and_never_stalls(void **state)
{
	struct lg_checker_counts counts;
	struct lg_answer answer;

	(void)state;
	in_force(ONE("limit: 10/1s, table: exact"));
	answer = ask("user=a", LG_CHECK_RESERVE, 8);
	answer = settle(answer.reservation, 17); /* nine more: two are there, seven are owed */
	assert_int_equal(answer.debt, 7);
	lg_checker_counts_read(checker, &counts);
	assert_int_equal(counts.in_debt, 1);
	take("user=a", 1, LG_STATUS_DENIED);
	take("user=b", 10, LG_STATUS_OK);
	progs_now(p, START_NS + S / 2);
	take("user=a", 1, LG_STATUS_DENIED); /* five came, and were paid */
	progs_now(p, START_NS + 9 * S / 10);
	take("user=a", 3, LG_STATUS_DENIED); /* four more, of which two were owed */
	take("user=a", 2, LG_STATUS_OK);
	lg_checker_counts_read(checker, &counts);
	assert_int_equal(counts.in_debt, 0);

	in_force(ONE("limit: 10/1s, table: exact"));
	answer = ask("user=a", LG_CHECK_RESERVE, 1);
	answer = settle(answer.reservation, 1000000);
	assert_int_equal(answer.debt, 10); /* the burst: no more is ever owed */
	lg_checker_counts_read(checker, &counts);
	assert_int_equal(counts.forgiven, 999999 - 9 - 10);
	progs_now(p, START_NS + S);
	lg_checker_tick(checker, lg_clock_now_ns());
	take("user=a", 1, LG_STATUS_DENIED);
	progs_now(p, START_NS + 2 * S);
	take("user=a", 10, LG_STATUS_OK);
}

static void a_reservation_of_several_rules_is_given_back_to_all(void **state)
{
	struct lg_answer answer;

	(void)state;
	in_force("rules:\n"
		 "  - {name: user, unit: requests, match: {domain: d, entries: [user]}, key: {descriptors: [user]}, limit: 100/1d}\n"
		 "  - {name: all, unit: requests, match: {domain: d}, limit: 1000/1d, cost: 3}\n");
	answer = ask("user=a", LG_CHECK_RESERVE, 100);
	settle(answer.reservation, 10);
	answer = ask("user=a", LG_CHECK_PEEK, 1);
	for (uint32_t k = 0; k < answer.n_takes; k++)
		assert_int_equal(answer.takes[k].remaining, strcmp(answer.takes[k].rule, "user") == 0 ? 90 : (1000 - 30) / 3);
}

/* ---- questions on the loop ---- */

static uint32_t n_allowed, n_answered;

static void count(void *arg, const struct lg_answer *answer)
{
	(void)arg;
	n_answered++;
	n_allowed += answer->allowed;
	if (n_answered == 100)
		lg_loop_stop(loop, 0);
}

static void questions_of_one_turn_go_to_the_kernel_together(void **state)
{
	uint64_t ticket;
	struct said s;

	(void)state;
	for (int turn = 0; turn < 20; turn++) {
		in_force(ONE("limit: 5/1h"));
		n_allowed = n_answered = 0;
		for (int i = 0; i < 100; i++)
			assert_int_equal(lg_check_ask(checker, say(&s, "user=a", LG_CHECK_TAKE, 1), count, NULL, &ticket), 0);
		assert_int_equal(n_answered, 0);
		assert_int_equal(lg_loop_run(loop), 0);
		assert_int_equal(n_allowed, 5);
		assert_int_equal(n_runs, 2);
	}
}

static void a_question_that_was_taken_back_is_not_answered(void **state)
{
	uint64_t ticket;
	struct said s;

	(void)state;
	in_force(ONE("limit: 5/1h"));
	n_allowed = n_answered = 0;
	for (int i = 0; i < 101; i++)
		assert_int_equal(lg_check_ask(checker, say(&s, "user=a", LG_CHECK_TAKE, 1), count, NULL, &ticket), 0);
	lg_check_forget(checker, ticket);
	assert_int_equal(lg_loop_run(loop), 0);
	assert_int_equal(n_answered, 100);
}

/* The home lends some while the question waits. */
static void lend(void *arg)
{
	struct lg_key key = { .rule_id = p->set.rules[0].rule_id, .form = LG_FORM_PRODUCT | LG_KEY_TEXTS, .a = { 1, 'a' } };

	(void)arg;
	progs_grant(p, key, 3, START_NS + S);
}

static void stop(void *arg, const struct lg_answer *answer)
{
	*(struct lg_answer *)arg = *answer;
	lg_loop_stop(loop, 0);
}

static void a_sync_rule_waits_for_its_home_until_the_deadline(void **state)
{
	struct lg_source *later;
	struct lg_answer answer;
	uint64_t begin_ns;
	struct said s;

	(void)state;
	in_force(ONE("class: sync, limit: 10/1s"));
	assert_int_equal(lg_loop_add_timer(loop, lend, NULL, &later), 0);
	assert_int_equal(lg_source_arm(later, 20 * MS), 0);
	begin_ns = lg_clock_now_ns();
	assert_int_equal(lg_check_ask(checker, say(&s, "user=a", LG_CHECK_TAKE, 2), stop, &answer, NULL), 0);
	assert_int_equal(lg_loop_run(loop), 0);
	assert_int_equal(answer.status, LG_STATUS_OK);
	assert_true(lg_clock_now_ns() - begin_ns >= 20 * MS);
	say(&s, "user=a", LG_CHECK_TAKE, 2);
	s.request.deadline_ns = 30 * MS;
	begin_ns = lg_clock_now_ns();
	assert_int_equal(lg_check_ask(checker, &s.request, stop, &answer, NULL), 0);
	assert_int_equal(lg_loop_run(loop), 0);
	assert_int_equal(answer.status, LG_STATUS_DENIED);
	assert_true(lg_clock_now_ns() - begin_ns >= 30 * MS);
	lg_source_free(later);
}

static void other_rules_come_while_questions_wait(void **state)
{
	struct said s;

	(void)state;
	in_force(ONE("limit: 50/1h"));
	n_allowed = n_answered = 0;
	for (int i = 0; i < 99; i++)
		assert_int_equal(lg_check_ask(checker, say(&s, "user=a", LG_CHECK_TAKE, 1), count, NULL, NULL), 0);
	table_give();
	assert_int_equal(n_answered, 99); /* by the rules that were in force when they were asked */
	assert_int_equal(lg_check_ask(checker, say(&s, "user=a", LG_CHECK_TAKE, 1), count, NULL, NULL), 0);
	assert_int_equal(lg_loop_run(loop), 0);
	assert_int_equal(n_allowed, 50);
	lg_checker_rules(checker, NULL);
	take("user=a", 1, LG_STATUS_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(some_users_get_more_than_others),
		cmocka_unit_test(user_address_endpoint_and_all_are_charged_together_or_not_at_all),
		cmocka_unit_test(a_rule_is_asked_by_its_name),
		cmocka_unit_test(several_descriptors_are_charged_at_once_and_a_bucket_once),
		cmocka_unit_test(the_callers_own_limit_takes_the_place_of_the_rules),
		cmocka_unit_test(who_waits_as_long_as_told_is_let_through_and_not_much_earlier),
		cmocka_unit_test(what_remains_passes_and_one_more_does_not),
		cmocka_unit_test(a_bucket_is_full_when_its_reset_is_over),
		cmocka_unit_test(a_cost_above_the_burst_is_never),
		cmocka_unit_test(soft_and_shadow_let_pass_and_say_so),
		cmocka_unit_test(a_global_rule_without_a_lease_is_denied_or_unreachable),
		cmocka_unit_test(what_is_out_of_bounds_is_invalid),
		cmocka_unit_test(best_effort_gets_what_all_rules_have),
		cmocka_unit_test(a_cost_of_nothing_asks_for_one_and_takes_nothing),
		cmocka_unit_test(a_refund_gives_back_and_never_more_than_was_there),
		cmocka_unit_test(what_is_reserved_is_settled_for_what_it_cost),
		cmocka_unit_test(what_nobody_settles_lapses),
		cmocka_unit_test(what_cost_more_than_there_is_becomes_a_debt_that_delays_and_never_stalls),
		cmocka_unit_test(a_reservation_of_several_rules_is_given_back_to_all),
		cmocka_unit_test(questions_of_one_turn_go_to_the_kernel_together),
		cmocka_unit_test(a_question_that_was_taken_back_is_not_answered),
		cmocka_unit_test(a_sync_rule_waits_for_its_home_until_the_deadline),
		cmocka_unit_test(other_rules_come_while_questions_wait),
	};

	return cmocka_run_group_tests(tests, load_all, unload_all);
}
