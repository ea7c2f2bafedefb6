// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Requests: they spend from the buckets of packets, all or nothing, whatever races; and what each algorithm, table and way answers. */
#include <grp.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kern/check.h"
#include "progs_shared.h"

static const char source[] = "10.0.0.1";
static struct lg_check_door *doors[LG_CHECK_USERS];

static int load_doors(void **state)
{
	static const char *const names[] = { "lg_check", "lg_xdp", "lg_tc_ingress", "lg_grant", "lg_collect", NULL };

	(void)state;
	p = progs_load_some(64, true, names);
	for (uint32_t i = 0; i < LG_CHECK_USERS; i++)
		assert_int_equal(lg_check_door_open(bpf_program__fd(p->skel->progs.lg_check), bpf_map__fd(p->skel->maps.checks), i,
						    &doors[i]), 0);
	return 0;
}

static int unload_doors(void **state)
{
	for (uint32_t i = 0; i < LG_CHECK_USERS; i++)
		lg_check_door_free(doors[i]);
	return unload(state);
}

/* ---- asking ---- */

/* Room for one more charge in a request. */
static struct lg_charge *charge_add(struct lg_check *check, struct lg_key key, uint32_t units)
{
	struct lg_charge *charge = &check->charge[check->n++];

	assert_true(check->n <= LG_MATCHES_MAX);
	*charge = (struct lg_charge){ .key = key, .rule_index = key.rule_id - 1, .units = units };
	if (key.form == LG_FORM_SOURCE || (key.form & LG_FORM_PRODUCT && key.form & LG_KEY_SOURCE))
		memcpy(charge->source, key.a, sizeof(charge->source));
	return charge;
}

static struct lg_check *request(uint32_t user, uint32_t i, enum lg_check_way way)
{
	struct lg_check *check = &lg_check_door_room(doors[user])[i];

	check->way = (uint8_t)way;
	check->n = 0;
	return check;
}

static void run(uint32_t user, uint32_t n)
{
	assert_int_equal(lg_check_door_run(doors[user], n), 0);
}

/* One request of one charge. */
static const struct lg_check *ask(enum lg_check_way way, struct lg_key key, uint32_t units)
{
	struct lg_check *check = request(0, 0, way);

	charge_add(check, key, units);
	run(0, 1);
	return check;
}

static const struct lg_check *take(struct lg_key key, uint32_t units, enum lg_reason want)
{
	const struct lg_check *check = ask(LG_CHECK_WAY_TAKE, key, units);

	assert_int_equal(check->verdict, want);
	return check;
}

static void packets(uint32_t n, enum lg_reason want)
{
	struct lg_pkt_buf pkt = progs_udp(source, "192.0.2.1", 53);

	while (n--)
		progs_expect(p, LG_HOOK_TC_INGRESS, &pkt, want);
}

/* A key of text, as short ones are. */
static struct lg_key text_key(uint32_t rule_id, const char *text)
{
	struct lg_key key = { .rule_id = rule_id, .form = LG_FORM_PRODUCT | LG_KEY_TEXTS };
	uint8_t all[32] = { (uint8_t)strlen(text) };

	assert_in_range(strlen(text), 0, 31);
	memcpy(all + 1, text, strlen(text));
	memcpy(key.a, all, 16);
	memcpy(key.b, all + 16, 16);
	return key;
}

/* One rule for requests and no packet, keyed by text. */
static struct lg_rule *text_rule(struct lg_rule *rule)
{
	rule->key_form = 0;
	rule->product_form = LG_FORM_PRODUCT | LG_KEY_TEXTS;
	rule->flags |= LG_RULE_REQUESTS;
	return rule;
}

static void one_rule(uint64_t burst)
{
	progs_reset(p);
	progs_rule(p, burst);
	progs_publish(p);
}

/* ---- one bucket ---- */

static void a_request_and_a_packet_of_one_key_spend_from_one_bucket(void **state)
{
	struct lg_key key;

	(void)state;
	one_rule(5);
	key = progs_key(1, source);
	packets(2, LG_PASS_ADMITTED);
	take(key, 2, LG_PASS_ADMITTED);
	packets(1, LG_PASS_ADMITTED);
	packets(1, LG_DROP_LIMIT);
	take(key, 1, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 5);
	assert_int_equal(progs_bucket(p, &key).denied_tok, 2);
	progs_now(p, START_NS + S / 10);
	take(key, 1, LG_PASS_ADMITTED);
	packets(1, LG_DROP_LIMIT);
}

static void what_a_bucket_of_ten_refilled_by_two_a_second_gives(void **state)
{
	const uint64_t steps_ns[] = { 0, 2 * S + S / 2 };
	uint32_t passed = 0, want[] = { 10, 5 };
	struct lg_rule *rule;

	(void)state;
	progs_reset(p);
	rule = progs_rule(p, 10);
	assert_int_equal(lg_rate_init(2, S, 10, START_NS, &rule->rate), 0);
	progs_publish(p);
	for (size_t i = 0; i < N_ELEMS(steps_ns); i++, passed = 0) {
		progs_now(p, START_NS + steps_ns[i]);
		for (uint32_t k = 0; k < 15; k++)
			passed += ask(LG_CHECK_WAY_TAKE, progs_key(1, source), 1)->verdict == LG_PASS_ADMITTED;
		assert_int_equal(passed, want[i]);
	}
}

static void a_cost_above_the_burst_can_never_pass_and_spends_nothing(void **state)
{
	const struct lg_check *check;
	struct lg_bucket bucket;
	struct lg_key key;

	(void)state;
	one_rule(300);
	key = progs_key(1, source);
	take(key, 301, LG_DROP_COST);
	assert_false(progs_has_bucket(p, &key, &bucket));
	take(key, UINT32_MAX, LG_DROP_COST);
	check = take(key, 300, LG_PASS_ADMITTED);
	assert_int_equal(check->charge[0].state[0], p->set.rules[0].rate.burst_vt);
}

static void a_refusal_spends_nothing(void **state)
{
	struct lg_key key;

	(void)state;
	one_rule(10);
	key = progs_key(1, source);
	take(key, 9, LG_PASS_ADMITTED);
	for (int i = 0; i < 10; i++)
		take(key, 2, LG_DROP_LIMIT);
	take(key, 1, LG_PASS_ADMITTED);
}

/* ---- several rules ---- */

static void all_is_taken_or_nothing(void **state)
{
	struct lg_check *check;

	(void)state;
	progs_reset(p);
	progs_rule(p, 10);
	progs_rule(p, 3);
	progs_rule(p, 10);
	progs_publish(p);
	for (uint32_t turn = 0; turn < 4; turn++) {
		check = request(0, 0, LG_CHECK_WAY_TAKE);
		for (uint32_t id = 1; id <= 3; id++)
			charge_add(check, progs_key(id, source), 1);
		run(0, 1);
		assert_int_equal(check->verdict, turn < 3 ? LG_PASS_ADMITTED : LG_DROP_LIMIT);
		if (turn == 3)
			assert_int_equal(check->decider, 1);
		assert_int_equal(check->charge[0].done, turn < 3);
	}
	for (uint32_t id = 1; id <= 3; id++)
		assert_int_equal(progs_bucket(p, &(struct lg_key){ .rule_id = id, .form = LG_FORM_SOURCE,
								   .a = { [10] = 0xff, 0xff, 10, 0, 0, 1 } }).spent_tok, 3);
	assert_int_equal(progs_rule_count(p, 2, LG_DROP_LIMIT).packets, 1);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 3);
	assert_int_equal(progs_rule_count(p, 3, LG_DROP_LIMIT).packets, 0);
}

static void a_rule_that_evaluates_all_counts_though_another_has_refused(void **state)
{
	struct lg_check *check;

	(void)state;
	progs_reset(p);
	progs_rule(p, 1);
	progs_rule(p, 1);
	progs_rule(p, 1)->flags |= LG_RULE_EVALUATE_ALL;
	progs_publish(p);
	for (uint32_t turn = 0; turn < 2; turn++) {
		check = request(0, 0, LG_CHECK_WAY_TAKE);
		for (uint32_t id = 1; id <= 3; id++)
			charge_add(check, progs_key(id, source), 1);
		run(0, 1);
	}
	assert_int_equal(check->verdict, LG_DROP_LIMIT);
	assert_int_equal(check->decider, 0);
	for (uint32_t id = 1; id <= 3; id++) {
		assert_int_equal(check->charge[id - 1].reason, LG_DROP_LIMIT);
		assert_int_equal(progs_rule_count(p, id, LG_DROP_LIMIT).packets, id != 2);
	}
}

static void a_charge_of_no_units_asks_and_takes_nothing(void **state)
{
	struct lg_check *check;

	(void)state;
	progs_reset(p);
	progs_rule(p, 1);
	progs_rule(p, 10);
	progs_publish(p);
	for (uint32_t turn = 0; turn < 3; turn++) {
		check = request(0, 0, LG_CHECK_WAY_TAKE);
		charge_add(check, progs_key(1, source), 0);
		charge_add(check, progs_key(2, source), 1);
		run(0, 1);
		assert_int_equal(check->verdict, LG_PASS_ADMITTED);
		assert_int_equal(check->charge[0].done, 0);
		assert_int_equal(check->charge[1].done, 1);
	}
	take(progs_key(1, source), 1, LG_PASS_ADMITTED);
	check = request(0, 0, LG_CHECK_WAY_TAKE);
	charge_add(check, progs_key(1, source), 0);
	charge_add(check, progs_key(2, source), 1);
	run(0, 1);
	assert_int_equal(check->verdict, LG_DROP_LIMIT);
	assert_int_equal(check->charge[1].done, 0);
}

static void shadow_and_soft_let_pass_and_say_so(void **state)
{
	const struct lg_check *check;

	(void)state;
	progs_reset(p);
	progs_rule(p, 1)->flags |= LG_RULE_SHADOW;
	progs_rule(p, 1)->action = LG_ACTION_SOFT;
	p->set.rules[1].flags |= LG_RULE_ACTS;
	progs_publish(p);
	for (uint32_t id = 1; id <= 2; id++) {
		take(progs_key(id, source), 1, LG_PASS_ADMITTED);
		check = take(progs_key(id, source), 1, id == 1 ? LG_PASS_SHADOW : LG_PASS_MARKED);
		assert_int_equal(check->charge[0].reason, LG_DROP_LIMIT);
		assert_int_equal(check->charge[0].meant, check->verdict);
		assert_int_equal(check->charge[0].done, 0);
		assert_int_equal(progs_rule_count(p, id, check->verdict).packets, 1);
	}
}

static void a_rule_that_is_not_there_any_more_charges_nothing(void **state)
{
	const struct lg_check *check;

	(void)state;
	one_rule(5);
	check = take(progs_key(7, source), 1, LG_PASS_ADMITTED);
	assert_int_equal(check->charge[0].meant, LG_PASS_NO_RULE);
	assert_int_equal(check->charge[0].done, 0);
}

static void a_rule_is_found_wherever_it_is_in_the_set(void **state)
{
	struct lg_check *check;

	(void)state;
	progs_reset(p);
	progs_rule(p, 5);
	progs_rule(p, 2);
	progs_publish(p);
	check = request(0, 0, LG_CHECK_WAY_TAKE);
	charge_add(check, progs_key(2, source), 3)->rule_index = 0;
	run(0, 1);
	assert_int_equal(check->verdict, LG_DROP_COST);
	check = request(0, 0, LG_CHECK_WAY_TAKE);
	charge_add(check, progs_key(2, source), 2)->rule_index = UINT32_MAX;
	run(0, 1);
	assert_int_equal(check->verdict, LG_PASS_ADMITTED);
}

/* ---- ways ---- */

static void a_peek_takes_makes_and_counts_nothing(void **state)
{
	struct lg_bucket bucket;
	struct lg_key key;

	(void)state;
	one_rule(2);
	key = progs_key(1, source);
	for (int i = 0; i < 5; i++)
		assert_int_equal(ask(LG_CHECK_WAY_PEEK, key, 2)->verdict, LG_PASS_ADMITTED);
	assert_false(progs_has_bucket(p, &key, &bucket));
	take(key, 1, LG_PASS_ADMITTED);
	assert_int_equal(ask(LG_CHECK_WAY_PEEK, key, 1)->verdict, LG_PASS_ADMITTED);
	assert_int_equal(ask(LG_CHECK_WAY_PEEK, key, 2)->verdict, LG_DROP_LIMIT);
	assert_int_equal(ask(LG_CHECK_WAY_PEEK, key, 3)->verdict, LG_DROP_COST);
	assert_int_equal(progs_bucket(p, &key).denied_tok, 0);
	assert_int_equal(progs_rule_count(p, 1, LG_DROP_LIMIT).packets, 0);
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 1);
}

static void a_refund_never_lifts_a_bucket_above_its_cap(void **state)
{
	struct lg_key key;

	(void)state;
	one_rule(10);
	key = progs_key(1, source);
	take(key, 4, LG_PASS_ADMITTED);
	assert_int_equal(ask(LG_CHECK_WAY_REFUND, key, 3)->charge[0].done, 1);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 1);
	ask(LG_CHECK_WAY_REFUND, key, 1000);
	assert_int_equal(ask(LG_CHECK_WAY_REFUND, key, 1)->charge[0].state[0], 0);
	take(key, 10, LG_PASS_ADMITTED);
	take(key, 1, LG_DROP_LIMIT);
	assert_int_equal(ask(LG_CHECK_WAY_REFUND, progs_key(1, "10.0.0.9"), 5)->charge[0].done, 0); /* a key without a bucket is full */
}

static void a_window_takes_back_what_it_counted_while_it_lasts(void **state)
{
	struct lg_check *check;
	uint8_t generation;
	struct lg_key key;

	(void)state;
	for (int algorithm = LG_RULE_FIXED_WINDOW; algorithm <= LG_RULE_SLIDING_WINDOW; algorithm++) {
		progs_reset(p);
		progs_window_rule(p, (enum lg_rule_algorithm)algorithm, 10, S);
		progs_publish(p);
		key = progs_key(1, source);
		generation = take(key, 10, LG_PASS_ADMITTED)->charge[0].generation;
		take(key, 1, LG_DROP_LIMIT);
		check = request(0, 0, LG_CHECK_WAY_REFUND);
		charge_add(check, key, 4)->generation = generation;
		run(0, 1);
		assert_int_equal(check->charge[0].kind, LG_CHARGE_WINDOW);
		assert_int_equal(check->charge[0].state[0], 6);
		take(key, 4, LG_PASS_ADMITTED);
		take(key, 1, LG_DROP_LIMIT);
		progs_now(p, START_NS + 3 * S);
		take(key, 1, LG_PASS_ADMITTED);
		check = request(0, 0, LG_CHECK_WAY_REFUND);
		charge_add(check, key, 1)->generation = generation; /* its window is over */
		run(0, 1);
		assert_int_equal(check->charge[0].state[0], 1);
	}
}

/* ---- algorithms and tables ---- */

static void windows_and_logs_tell_what_they_count(void **state)
{
	const struct lg_check *check;
	struct lg_key key;

	(void)state;
	progs_reset(p);
	progs_window_rule(p, LG_RULE_SLIDING_WINDOW, 100, 60 * S);
	progs_window_rule(p, LG_RULE_SLIDING_LOG, 10, S);
	progs_publish(p);
	key = progs_key(1, source);
	take(key, 80, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 90 * S);
	take(key, 30, LG_PASS_ADMITTED);
	check = ask(LG_CHECK_WAY_PEEK, key, 31); /* 80 / 2 + 30: thirty more fit */
	assert_int_equal(check->verdict, LG_DROP_LIMIT);
	assert_int_equal(check->charge[0].state[0], 30);
	assert_int_equal(check->charge[0].state[1], 80);
	assert_int_equal(check->charge[0].state[2], 30 * S);
	take(key, 30, LG_PASS_ADMITTED);

	key = progs_key(2, source);
	take(key, 4, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 90 * S + S / 2);
	check = take(key, 6, LG_PASS_ADMITTED);
	assert_int_equal(check->charge[0].kind, LG_CHARGE_LOG);
	assert_int_equal(check->charge[0].state[0], 10);
	check = take(key, 5, LG_DROP_LIMIT);
	assert_in_range(check->charge[0].state[1], S / 2, S / 2 + 64);
	assert_in_range(check->charge[0].state[2], S, S + 64); /* the fifth is of the second lot */
	progs_now(p, START_NS + 91 * S + 64);
	take(key, 4, LG_PASS_ADMITTED);
	take(key, 1, LG_DROP_LIMIT);
}

static void a_log_is_taken_from_last_of_several(void **state)
{
	struct lg_check *check;

	(void)state;
	progs_reset(p);
	progs_rule(p, 2);
	progs_window_rule(p, LG_RULE_SLIDING_LOG, 3, S);
	progs_publish(p);
	for (uint32_t turn = 0; turn < 3; turn++) {
		check = request(0, 0, LG_CHECK_WAY_TAKE);
		charge_add(check, progs_key(1, source), 1);
		charge_add(check, progs_key(2, source), 1);
		run(0, 1);
		assert_int_equal(check->verdict, turn < 2 ? LG_PASS_ADMITTED : LG_DROP_LIMIT);
	}
	assert_int_equal(ask(LG_CHECK_WAY_PEEK, progs_key(2, source), 1)->charge[0].state[0], 2);
}

static void a_rule_in_lines_is_charged_told_undone_and_given_back(void **state)
{
	struct lg_key key = text_key(1, "alice");
	const struct lg_check *check;
	struct lg_check *both;
	uint64_t unit;

	(void)state;
	progs_reset(p);
	text_rule(progs_in_lines(p, progs_rule(p, 10), 16, START_NS));
	progs_rule(p, 1);
	progs_publish(p);
	unit = p->set.rules[0].rate.unit_per_tok;
	take(key, 3, LG_PASS_ADMITTED);
	check = take(key, 4, LG_PASS_ADMITTED);
	assert_int_equal(check->charge[0].kind, LG_CHARGE_RATE);
	assert_int_equal(check->charge[0].state[0], 7 * unit);
	take(key, 4, LG_DROP_LIMIT);
	assert_int_equal(ask(LG_CHECK_WAY_PEEK, key, 3)->verdict, LG_PASS_ADMITTED);
	assert_int_equal(ask(LG_CHECK_WAY_REFUND, key, 2)->charge[0].state[0], 5 * unit);
	take(progs_key(2, source), 1, LG_PASS_ADMITTED);
	both = request(0, 0, LG_CHECK_WAY_TAKE);
	charge_add(both, key, 5);
	charge_add(both, progs_key(2, source), 1);
	run(0, 1);
	assert_int_equal(both->verdict, LG_DROP_LIMIT);
	take(key, 5, LG_PASS_ADMITTED);
	take(key, 1, LG_DROP_LIMIT);
	take(text_key(1, "bob"), 10, LG_PASS_ADMITTED);
}

static void keys_of_text_are_told_apart_by_all_of_it(void **state)
{
	struct lg_key hashed = { .rule_id = 1, .form = LG_FORM_PRODUCT | LG_KEY_TEXTS | LG_FORM_HASHED, .a = { 1, 2, 3 } };

	(void)state;
	progs_reset(p);
	text_rule(progs_rule(p, 1));
	progs_publish(p);
	take(text_key(1, "a key of thirty-one bytes, all1"), 1, LG_PASS_ADMITTED);
	take(text_key(1, "a key of thirty-one bytes, all1"), 1, LG_DROP_LIMIT);
	take(text_key(1, "a key of thirty-one bytes, all2"), 1, LG_PASS_ADMITTED);
	take(text_key(1, ""), 1, LG_PASS_ADMITTED);
	take(hashed, 1, LG_PASS_ADMITTED);
	take(hashed, 1, LG_DROP_LIMIT);
	hashed.a[15] = 1;
	take(hashed, 1, LG_PASS_ADMITTED);
}

static void a_key_without_room_goes_to_an_overflow_bucket_as_its_rule_says(void **state)
{
	uint32_t passed = 0, pending = 0;
	char text[16];

	(void)state;
	progs_reset(p);
	text_rule(progs_rule(p, 1));
	text_rule(progs_rule(p, 1))->on_full = LG_ON_FULL_DENY;
	text_rule(progs_rule(p, 1))->on_full = LG_ON_FULL_PASS;
	progs_publish(p);
	for (int i = 0; i < 64; i++) {
		snprintf(text, sizeof(text), "user-%d", i);
		take(text_key(1, text), 1, LG_PASS_ADMITTED);
	}
	for (int i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "late-%d", i);
		passed += ask(LG_CHECK_WAY_TAKE, text_key(1, text), 1)->verdict == LG_PASS_ADMITTED;
		pending += ask(LG_CHECK_WAY_TAKE, text_key(1, text), 1)->verdict == LG_DROP_LIMIT;
	}
	assert_in_range(passed, 150, 200); /* 200 keys in 1,024 buckets: some share one */
	assert_int_equal(pending, 200);
	take(text_key(2, "late"), 1, LG_DROP_TABLE_FULL);
	take(text_key(3, "late"), 1, LG_PASS_TABLE_FULL);
	take(text_key(3, "late"), 1, LG_PASS_TABLE_FULL);
}

/* ---- leases ---- */

static void a_leased_rule_spends_what_was_granted_and_asks_for_more(void **state)
{
	const struct lg_check *check;
	struct lg_key key;

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_SHARE);
	progs_publish(p);
	key = progs_key(1, source);
	take(key, 1, LG_DROP_LEASE_PENDING);
	assert_true(progs_bucket(p, &key).asked_ns != 0);
	progs_grant(p, key, 10, START_NS + S);
	check = take(key, 7, LG_PASS_ADMITTED);
	assert_int_equal(check->charge[0].kind, LG_CHARGE_BLOCK);
	assert_int_equal(check->charge[0].state[0], 3);
	assert_int_equal(check->charge[0].state[1], S);
	packets(3, LG_PASS_ADMITTED);
	take(key, 1, LG_DROP_LIMIT);
	take(key, 101, LG_DROP_COST);
	p->control.reachable = 0;
	progs_control(p);
	take(key, 1, LG_DROP_UNREACHABLE);
	progs_now(p, START_NS + 4 * S);
	take(key, 5, LG_PASS_FALLBACK);
	check = take(key, 6, LG_DROP_UNREACHABLE); /* one a tenth of a second, from empty: five at most */
	assert_int_equal(check->charge[0].state[1], 0);
	assert_int_equal(check->charge[0].state[2], p->set.rules[0].share.burst_vt);
}

static void leased_tokens_come_back_within_their_generation_alone(void **state)
{
	struct lg_check *check;
	uint8_t generation;
	struct lg_key key;

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY);
	progs_publish(p);
	key = progs_key(1, source);
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = 10, .expires_ns = START_NS + S, .low_water_tok = ~0ull });
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GENERATION, .generation = 2 });
	progs_grant(p, key, 10, START_NS + S);
	check = request(0, 0, LG_CHECK_WAY_TAKE);
	charge_add(check, key, 8);
	run(0, 1);
	assert_int_equal(check->verdict, LG_PASS_ADMITTED);
	generation = check->charge[0].generation;
	for (int turn = 0; turn < 2; turn++) {
		check = request(0, 0, LG_CHECK_WAY_REFUND);
		*charge_add(check, key, 5) = (struct lg_charge){ .key = key, .units = 5, .generation = generation, .reason = LG_PASS_ADMITTED };
		run(0, 1);
		assert_int_equal(check->charge[0].done, turn == 0); /* not more than was taken */
		assert_int_equal(check->charge[0].state[0], 7);
	}
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GENERATION, .generation = 3 });
	progs_grant(p, key, 10, START_NS + S);
	*charge_add(request(0, 0, LG_CHECK_WAY_REFUND), key, 1) =
		(struct lg_charge){ .key = key, .units = 1, .generation = generation, .reason = LG_PASS_ADMITTED };
	run(0, 1);
	assert_int_equal(check->charge[0].done, 0);
	assert_int_equal(check->charge[0].state[0], 10);
}

/* ---- the rest ---- */

static void a_key_that_is_refused_again_and_again_is_banned(void **state)
{
	const struct lg_check *check;
	struct lg_rule *rule;
	struct lg_key key;

	(void)state;
	progs_reset(p);
	rule = progs_rule(p, 1);
	rule->special = LG_SPECIAL_BAN;
	rule->ban = (struct lg_ban_terms){ .within_ns = S, .for_ns = 60 * S, .after = 3 };
	progs_publish(p);
	key = progs_key(1, source);
	take(key, 1, LG_PASS_ADMITTED);
	for (int i = 0; i < 3; i++)
		take(key, 1, LG_DROP_LIMIT);
	check = take(key, 1, LG_DROP_BANNED);
	assert_int_equal(check->charge[0].kind, LG_CHARGE_BAN);
	assert_int_equal(check->charge[0].state[0], 60 * S);
	packets(1, LG_DROP_BANNED);
	assert_int_equal(ask(LG_CHECK_WAY_PEEK, key, 1)->verdict, LG_DROP_BANNED);
}

static void while_bypassed_all_pass(void **state)
{
	struct lg_bypass word = { .until_ns = ~0ull };
	const struct lg_check *check;
	uint32_t zero = 0;

	(void)state;
	one_rule(1);
	take(progs_key(1, source), 1, LG_PASS_ADMITTED);
	assert_int_equal(bpf_map__update_elem(p->skel->maps.bypass, &zero, sizeof(zero), &word, sizeof(word), 0), 0);
	check = take(progs_key(1, source), 9, LG_PASS_BYPASS);
	assert_int_equal(check->charge[0].done, 0);
}

static void calls_out_of_bounds_do_nothing(void **state)
{
	const struct lg_check_args bad[] = { { .n = 0 }, { .n = LG_CHECKS_MAX + 1 }, { .first = LG_CHECK_USERS * LG_CHECKS_MAX, .n = 1 },
					     { .first = UINT32_MAX, .n = LG_CHECKS_MAX } };

	(void)state;
	one_rule(5);
	charge_add(request(0, 0, LG_CHECK_WAY_TAKE), progs_key(1, source), 1);
	for (size_t i = 0; i < N_ELEMS(bad); i++) {
		struct lg_check_args args = bad[i];
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));

		assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(p->skel->progs.lg_check), &opts), 0);
		assert_int_equal((int)opts.retval, -EINVAL);
		assert_int_equal(args.done, 0);
	}
	assert_int_equal(progs_rule_count(p, 1, LG_PASS_ADMITTED).packets, 0);
	assert_int_equal(lg_check_door_run(doors[0], LG_CHECKS_MAX + 1), -EIO);
	request(0, 0, LG_CHECK_WAY_TAKE)->n = 255; /* more charges than there are: those that are there count */
	run(0, 1);
}

/* Nobody without a capability, who has two descriptors and nothing else. */
static _Noreturn void ask_as_nobody(int prog_fd, int map_fd)
{
	struct lg_check_door *door;
	struct lg_check *check;
	struct lg_key key = progs_key(1, source);

	if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		_exit(10);
	if (bpf_map_create(BPF_MAP_TYPE_HASH, "x", 4, 4, 1, NULL) >= 0)
		_exit(11); /* it is not allowed to make any */
	if (lg_check_door_open(prog_fd, map_fd, 5, &door))
		_exit(12);
	check = lg_check_door_room(door);
	check->way = LG_CHECK_WAY_TAKE;
	check->n = 1;
	check->charge[0] = (struct lg_charge){ .key = key, .units = 3 };
	_exit(lg_check_door_run(door, 1) || check->verdict != LG_PASS_ADMITTED ? 13 : 0);
}

static void a_process_without_any_privilege_checks_by_two_descriptors(void **state)
{
	struct lg_key key = progs_key(1, source);
	int status;
	pid_t pid;

	(void)state;
	one_rule(5);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		ask_as_nobody(bpf_program__fd(p->skel->progs.lg_check), bpf_map__fd(p->skel->maps.checks));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 3);
}

static void a_batch_is_answered_in_order_and_whole(void **state)
{
	(void)state;
	one_rule(40);
	for (uint32_t i = 0; i < LG_CHECKS_MAX; i++)
		charge_add(request(3, i, LG_CHECK_WAY_TAKE), progs_key(1, source), 1);
	run(3, LG_CHECKS_MAX);
	for (uint32_t i = 0; i < LG_CHECKS_MAX; i++)
		assert_int_equal(lg_check_door_room(doors[3])[i].verdict, i < 40 ? LG_PASS_ADMITTED : LG_DROP_LIMIT);
}

/* ---- races ---- */

struct racer {
	pthread_t thread;
	uint32_t user, n, passed;
	bool is_packets;
	struct lg_key key;
	pthread_barrier_t *start;
};

static void *race(void *arg)
{
	struct lg_pkt_buf pkt = progs_udp(source, "192.0.2.1", 53);
	struct racer *r = arg;
	struct lg_check *check;

	pthread_barrier_wait(r->start);
	for (uint32_t i = 0; i < r->n; i++) {
		if (r->is_packets) {
			r->passed += progs_run(p, LG_HOOK_XDP, &pkt);
			continue;
		}
		check = request(r->user, 0, LG_CHECK_WAY_TAKE);
		charge_add(check, r->key, 1);
		run(r->user, 1);
		r->passed += check->verdict == LG_PASS_ADMITTED;
	}
	return NULL;
}

static uint32_t race_all(struct racer *racers, size_t n)
{
	pthread_barrier_t start;
	uint32_t passed = 0;

	assert_int_equal(pthread_barrier_init(&start, NULL, (unsigned int)n), 0);
	for (size_t i = 0; i < n; i++) {
		racers[i].start = &start;
		racers[i].passed = 0;
		assert_int_equal(pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
	}
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		passed += racers[i].passed;
	}
	pthread_barrier_destroy(&start);
	return passed;
}

static void of_twenty_at_once_at_a_limit_of_five_exactly_five_pass(void **state)
{
	struct racer racers[LG_CHECK_USERS] = { 0 };
	char text[16];

	(void)state;
	progs_reset(p);
	text_rule(progs_rule(p, 5));
	progs_publish(p);
	for (uint32_t turn = 0; turn < 60; turn++) { /* the table of keys has 64 places */
		snprintf(text, sizeof(text), "turn %u", turn);
		for (uint32_t i = 0; i < LG_CHECK_USERS; i++)
			racers[i] = (struct racer){ .user = i, .n = i < 4 ? 3 : 2, .key = text_key(1, text) };
		assert_int_equal(race_all(racers, LG_CHECK_USERS), 5);
	}
	progs_reset(p);
	text_rule(progs_in_lines(p, progs_rule(p, 5), 16, START_NS));
	progs_publish(p);
	for (uint32_t turn = 0; turn < 60; turn++) {
		snprintf(text, sizeof(text), "turn %u", turn);
		for (uint32_t i = 0; i < LG_CHECK_USERS; i++)
			racers[i] = (struct racer){ .user = i, .n = i < 4 ? 3 : 2, .key = text_key(1, text) };
		assert_int_equal(race_all(racers, LG_CHECK_USERS), 5);
	}
}

static void packets_and_requests_of_one_key_admit_exactly_the_limit(void **state)
{
	const enum lg_rule_algorithm algorithms[] = { LG_RULE_TOKEN_BUCKET, LG_RULE_FIXED_WINDOW, LG_RULE_SLIDING_WINDOW, LG_RULE_SLIDING_LOG };
	struct racer racers[2];
	uint32_t passed;

	(void)state;
	for (size_t a = 0; a < N_ELEMS(algorithms); a++) {
		progs_reset(p);
		if (algorithms[a] == LG_RULE_TOKEN_BUCKET)
			progs_rule(p, 900);
		else
			progs_window_rule(p, algorithms[a], 900, 3600 * S);
		progs_publish(p);
		racers[0] = (struct racer){ .n = 4000, .is_packets = true };
		racers[1] = (struct racer){ .n = 4000, .key = progs_key(1, source) };
		passed = race_all(racers, 2);
		assert_int_equal(passed, 900);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_and_a_packet_of_one_key_spend_from_one_bucket),
		cmocka_unit_test(what_a_bucket_of_ten_refilled_by_two_a_second_gives),
		cmocka_unit_test(a_cost_above_the_burst_can_never_pass_and_spends_nothing),
		cmocka_unit_test(a_refusal_spends_nothing),
		cmocka_unit_test(all_is_taken_or_nothing),
		cmocka_unit_test(a_rule_that_evaluates_all_counts_though_another_has_refused),
		cmocka_unit_test(a_charge_of_no_units_asks_and_takes_nothing),
		cmocka_unit_test(shadow_and_soft_let_pass_and_say_so),
		cmocka_unit_test(a_rule_that_is_not_there_any_more_charges_nothing),
		cmocka_unit_test(a_rule_is_found_wherever_it_is_in_the_set),
		cmocka_unit_test(a_peek_takes_makes_and_counts_nothing),
		cmocka_unit_test(a_refund_never_lifts_a_bucket_above_its_cap),
		cmocka_unit_test(a_window_takes_back_what_it_counted_while_it_lasts),
		cmocka_unit_test(windows_and_logs_tell_what_they_count),
		cmocka_unit_test(a_log_is_taken_from_last_of_several),
		cmocka_unit_test(a_rule_in_lines_is_charged_told_undone_and_given_back),
		cmocka_unit_test(keys_of_text_are_told_apart_by_all_of_it),
		cmocka_unit_test(a_key_without_room_goes_to_an_overflow_bucket_as_its_rule_says),
		cmocka_unit_test(a_leased_rule_spends_what_was_granted_and_asks_for_more),
		cmocka_unit_test(leased_tokens_come_back_within_their_generation_alone),
		cmocka_unit_test(a_key_that_is_refused_again_and_again_is_banned),
		cmocka_unit_test(while_bypassed_all_pass),
		cmocka_unit_test(calls_out_of_bounds_do_nothing),
		cmocka_unit_test(a_process_without_any_privilege_checks_by_two_descriptors),
		cmocka_unit_test(a_batch_is_answered_in_order_and_whole),
		cmocka_unit_test(of_twenty_at_once_at_a_limit_of_five_exactly_five_pass),
		cmocka_unit_test(packets_and_requests_of_one_key_admit_exactly_the_limit),
	};

	return cmocka_run_group_tests(tests, load_doors, unload_doors);
}
