// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The agent's operations on buckets: grants, returns, closed books, collecting, and what each refuses. */
#include "progs_shared.h"

static const char source[] = "10.0.0.1";

/* A leased rule (1) and a host rule (2) whose keys are sources; key is the leased one. */
static struct lg_key fresh(void)
{
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_SHARE);
	progs_publish(p);
	return progs_key(1, source);
}

static void spend(uint32_t n, enum lg_reason want)
{
	struct lg_pkt_buf pkt;

	lg_pkt_udp4(&pkt, source, "192.0.2.1", 53, 20);
	while (n--)
		progs_expect(p, LG_HOOK_XDP, &pkt, want);
}

static void a_grant_makes_the_bucket_and_adds_up(void **state)
{
	struct lg_key key = fresh();
	struct lg_op op;

	(void)state;
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = 10, .expires_ns = START_NS + S, .low_water_tok = 2,
					 .epoch = 5 });
	assert_int_equal(op.result, 0);
	assert_int_equal(op.after.rule_id, 1);
	assert_int_equal(op.after.kind, LG_BUCKET_BLOCK);
	assert_int_equal(op.after.granted_tok, 10);
	assert_int_equal(op.after.expires_ns, START_NS + S);
	assert_int_equal(op.after.low_water_tok, 2);
	assert_int_equal(op.after.lease_epoch, 5);
	assert_int_equal(op.after.rate_tok, 0);
	spend(3, LG_PASS_ADMITTED);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = 5, .expires_ns = START_NS, .low_water_tok = ~0ull,
					 .epoch = 6 });
	assert_int_equal(op.after.granted_tok, 15);
	assert_int_equal(op.after.spent_tok, 3);
	assert_int_equal(op.after.expires_ns, START_NS + S); /* never lowered */
	assert_int_equal(op.after.low_water_tok, 2);
	assert_int_equal(op.after.lease_epoch, 6);
	spend(12, LG_PASS_ADMITTED);
	spend(1, LG_DROP_LIMIT);
	assert_int_equal(progs_bucket(p, &key).rate_tok, 10); /* the rule's numbers came with the first packet */
}

static void tokens_taken_back_cannot_be_spent(void **state)
{
	struct lg_key key = fresh();
	struct lg_op op;

	(void)state;
	progs_grant(p, key, 10, START_NS + S);
	spend(2, LG_PASS_ADMITTED);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = 3 });
	assert_int_equal(op.result, 0);
	assert_int_equal(op.tok, 3);
	assert_int_equal(op.after.spent_tok, 5);
	assert_int_equal(op.after.returned_tok, 3);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = ~0ull });
	assert_int_equal(op.tok, 5);
	assert_int_equal(op.after.spent_tok, 10);
	assert_int_equal(op.after.returned_tok, 8);
	spend(1, LG_DROP_LIMIT);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = 1 });
	assert_int_equal(op.result, 0);
	assert_int_equal(op.tok, 0);
	/* What a lease left behind at its end can still be given back. */
	progs_grant(p, key, 4, START_NS + S);
	progs_now(p, START_NS + 2 * S);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = ~0ull });
	assert_int_equal(op.tok, 4);
}

static void a_new_generation_closes_the_books_of_the_old(void **state)
{
	struct lg_key key = fresh();
	struct lg_op op;

	(void)state;
	progs_grant(p, key, 10, START_NS + S);
	spend(4, LG_PASS_ADMITTED);
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = 1 });
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GENERATION, .generation = 8, .epoch = 3 });
	assert_int_equal(op.result, 0);
	assert_int_equal(op.tok, 5);
	assert_int_equal(op.after.lease_generation, 8);
	assert_int_equal(op.after.lease_epoch, 3);
	assert_int_equal(op.after.base_tok, 10);
	assert_int_equal(op.after.base_returned_tok, 6);
	assert_int_equal(op.after.spent_tok, 10);
	assert_int_equal(op.after.returned_tok, 6);
	assert_int_equal(op.after.expires_ns, START_NS); /* the old lease's end is not the new one's */
	spend(1, LG_DROP_LEASE_PENDING);
	progs_grant(p, key, 2, START_NS + S / 2);
	spend(1, LG_PASS_ADMITTED);
	progs_now(p, START_NS + S / 2);
	spend(1, LG_DROP_LEASE_PENDING);
	/* An end that is past stays where it is: the fallback counts from it. */
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GENERATION, .generation = 9, .epoch = 3 });
	assert_int_equal(op.after.expires_ns, START_NS + S / 2);
}

static void a_bucket_is_forgotten_whatever_it_holds(void **state)
{
	struct lg_key key = fresh();
	struct lg_bucket bucket;

	(void)state;
	progs_grant(p, key, 10, START_NS + S);
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_FORGET }).result, 0);
	assert_false(progs_has_bucket(p, &key, &bucket));
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_FORGET }).result, -ENOENT);

	key = progs_overflow_key(1, 7);
	progs_grant(p, key, 10, START_NS + S);
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_READ }).after.granted_tok, 10);
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_FORGET }).result, 0);
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_READ }).after.granted_tok, 0);
}

static void reading_shows_the_bucket_and_tells_when_there_is_none(void **state)
{
	struct lg_key key = fresh();
	struct lg_bucket bucket;
	struct lg_op op;

	(void)state;
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_READ }).result, -ENOENT);
	progs_grant(p, key, 10, START_NS + S);
	spend(2, LG_PASS_ADMITTED);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_READ });
	bucket = progs_bucket(p, &key);
	assert_int_equal(op.result, 0);
	assert_memory_equal(&op.after, &bucket, sizeof(bucket));
}

static int32_t reap(struct lg_key key, uint64_t before_ns)
{
	return progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_REAP, .before_ns = before_ns }).result;
}

static void a_leased_bucket_is_reaped_only_when_nothing_is_lost(void **state)
{
	struct lg_key key = fresh();
	struct lg_bucket bucket;

	(void)state;
	progs_grant(p, key, 0, START_NS);
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GENERATION, .generation = 1, .epoch = 1 });
	progs_grant(p, key, 2, START_NS + S);
	spend(1, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 100 * S);
	assert_int_equal(reap(key, START_NS + 50 * S), -EBUSY); /* a token left */
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = ~0ull });
	assert_int_equal(progs_bucket(p, &key).seen_ns, START_NS);
	assert_int_equal(reap(key, START_NS), -EBUSY); /* seen no earlier than that */
	progs_now(p, START_NS + S + 2 * S + 20 * MS - 1);
	assert_int_equal(reap(key, START_NS + 1), -EBUSY); /* ended less than share_delay ago, for the slowest clock */
	progs_now(p, START_NS + S + 2 * S + 20 * MS);
	assert_int_equal(reap(key, START_NS + 1), 0);
	assert_false(progs_has_bucket(p, &key, &bucket));
	assert_int_equal(reap(key, START_NS + 1), -ENOENT);
}

static void a_bucket_that_never_had_a_lease_goes_with_what_it_started_with(void **state)
{
	struct lg_key key = progs_key(1, source);
	struct lg_bucket bucket;

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY)->cold_start_tok = 3;
	progs_publish(p);
	spend(1, LG_PASS_ADMITTED);
	progs_now(p, START_NS + LG_COLD_START_NS + 2 * S + 20 * MS - 1);
	assert_int_equal(reap(key, START_NS + 1), -EBUSY);
	assert_int_equal(progs_bucket(p, &key).spent_tok, 1);
	progs_now(p, START_NS + LG_COLD_START_NS + 2 * S + 20 * MS);
	assert_int_equal(reap(key, START_NS), -EBUSY);
	assert_int_equal(reap(key, START_NS + 1), 0);
	assert_false(progs_has_bucket(p, &key, &bucket));
	spend(3, LG_PASS_ADMITTED); /* a new life of the key has it again */
	spend(1, LG_DROP_LEASE_PENDING);
}

static void a_first_lease_takes_the_place_of_what_the_key_started_with(void **state)
{
	struct lg_key key = progs_key(1, source);
	struct lg_op op;

	(void)state;
	progs_reset(p);
	progs_lease_rule(p, LG_FALLBACK_DENY)->cold_start_tok = 3;
	progs_publish(p);
	spend(1, LG_PASS_ADMITTED);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_GENERATION, .generation = 1, .epoch = 1 });
	assert_int_equal(op.tok, 2);
	assert_int_equal(op.after.base_tok, 3);
	assert_int_equal(op.after.spent_tok, 3);
	assert_int_equal(op.after.expires_ns, START_NS);
	spend(1, LG_DROP_LEASE_PENDING);
	progs_grant(p, key, 1, START_NS + S);
	spend(1, LG_PASS_ADMITTED);
	spend(1, LG_DROP_LIMIT);
}

static void a_rate_bucket_is_reaped_only_when_full(void **state)
{
	struct lg_key key = progs_key(1, source);
	struct lg_bucket bucket;

	(void)state;
	progs_reset(p);
	progs_rule(p, 10);
	progs_publish(p);
	spend(5, LG_PASS_ADMITTED);
	progs_now(p, START_NS + 500 * MS + 20 * MS - 1);
	assert_int_equal(reap(key, START_NS + S), -EBUSY);
	assert_int_equal(reap(key, START_NS), -EBUSY);
	spend(5, LG_PASS_ADMITTED); /* and none the worse for the attempts */
	spend(5, LG_PASS_ADMITTED);
	spend(1, LG_DROP_LIMIT);
	progs_now(p, START_NS + 10 * S);
	assert_int_equal(reap(key, START_NS + 5 * S), 0);
	assert_false(progs_has_bucket(p, &key, &bucket));
	spend(10, LG_PASS_ADMITTED);
	spend(1, LG_DROP_LIMIT);
}

static void a_bucket_whose_rule_left_is_not_reaped(void **state)
{
	struct lg_key key = progs_key(1, source);

	(void)state;
	progs_reset(p);
	progs_rule(p, 10);
	progs_publish(p);
	spend(1, LG_PASS_ADMITTED);
	p->set.n_rules = 0;
	progs_publish(p);
	progs_now(p, START_NS + 1000 * S);
	assert_int_equal(reap(key, START_NS + S), -EBUSY);
	assert_int_equal(progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_FORGET }).result, 0);
}

static void an_overflow_bucket_is_reaped_into_a_blank(void **state)
{
	struct lg_key key = progs_overflow_key(1, 7);
	struct lg_op op;

	(void)state;
	fresh();
	progs_grant(p, key, 10, START_NS + S);
	progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_TAKE, .tok = ~0ull });
	progs_now(p, START_NS + 100 * S);
	assert_int_equal(reap(key, START_NS + S), 0);
	op = progs_op(p, (struct lg_op){ .key = key, .code = LG_OP_READ });
	assert_int_equal(op.after.kind, 0);
	assert_int_equal(op.after.granted_tok, 0);
}

static void requests_that_make_no_sense_are_refused_one_by_one(void **state)
{
	struct lg_key key = fresh(), host = progs_key(2, source), beyond = progs_overflow_key(1, LG_OVERFLOW_BUCKETS);
	struct lg_key no_rule = progs_overflow_key(LG_RULES_MAX + 1, 0);
	struct lg_op ops[7] = {
		{ .key = key, .code = LG_OP_READ },
		{ .key = key, .code = 99 },
		{ .key = key, .code = LG_OP_TAKE, .tok = 1 },
		{ .key = host, .code = LG_OP_GRANT, .tok = 1, .expires_ns = START_NS + S },
		{ .key = beyond, .code = LG_OP_GRANT, .tok = 1, .expires_ns = START_NS + S },
		{ .key = no_rule, .code = LG_OP_GRANT, .tok = 1, .expires_ns = START_NS + S },
		{ .key = key, .code = LG_OP_GRANT, .tok = 1, .expires_ns = START_NS + S },
	};

	struct lg_bucket before, after;

	(void)state;
	progs_rule(p, 10);
	progs_publish(p);
	progs_grant(p, key, 1, START_NS + S);
	spend(1, LG_PASS_ADMITTED);
	before = progs_bucket(p, &host);
	progs_ops(p, true, ops, N_ELEMS(ops));
	assert_int_equal(ops[0].result, -EOPNOTSUPP); /* reading is collect's */
	assert_int_equal(ops[1].result, -EOPNOTSUPP);
	assert_int_equal(ops[2].result, 0);
	assert_int_equal(ops[3].result, -EINVAL); /* a rate has nothing to be granted */
	assert_int_equal(ops[4].result, -ENOSPC);
	assert_int_equal(ops[5].result, -ENOSPC);
	assert_int_equal(ops[6].result, 0);
	after = progs_bucket(p, &host);
	assert_memory_equal(&after, &before, sizeof(after));
	ops[0].code = LG_OP_GRANT;
	progs_ops(p, false, ops, 1);
	assert_int_equal(ops[0].result, -EOPNOTSUPP);
}

static void a_grant_that_finds_the_table_full_says_so(void **state)
{
	struct lg_op op = { .key = fresh(), .code = LG_OP_GRANT, .tok = 1, .expires_ns = START_NS + S };

	(void)state;
	for (uint8_t i = 0; i < 64; i++) {
		op.key.a[15] = i;
		assert_int_equal(progs_op(p, op).result, 0);
	}
	op.key.a[15] = 64;
	assert_int_equal(progs_op(p, op).result, -ENOSPC);
	op.key.a[15] = 63;
	assert_int_equal(progs_op(p, op).result, 0);
}

static void a_call_runs_up_to_256_requests_in_order(void **state)
{
	static struct lg_op ops[LG_OPS_MAX];
	struct lg_key key = fresh();

	(void)state;
	for (uint32_t i = 0; i < LG_OPS_MAX; i++)
		ops[i] = (struct lg_op){ .key = key, .code = LG_OP_GRANT, .tok = i, .expires_ns = START_NS + S, .low_water_tok = i };
	progs_ops(p, true, ops, LG_OPS_MAX);
	for (uint32_t i = 0; i < LG_OPS_MAX; i++) {
		assert_int_equal(ops[i].result, 0);
		assert_int_equal(ops[i].after.granted_tok, i * (i + 1) / 2);
	}
	assert_int_equal(progs_bucket(p, &key).low_water_tok, LG_OPS_MAX - 1);
}

static void a_call_for_none_or_too_many_does_nothing(void **state)
{
	static const uint32_t numbers[] = { 0, LG_OPS_MAX + 1, ~0u };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(numbers); i++) {
		struct lg_ops_args args = { .n = numbers[i], .done = 77 };
		LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));

		assert_int_equal(bpf_prog_test_run_opts(bpf_program__fd(p->skel->progs.lg_grant), &opts), 0);
		assert_int_equal((int)opts.retval, -EINVAL);
		assert_int_equal(args.done, 0);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_grant_makes_the_bucket_and_adds_up),
		cmocka_unit_test(tokens_taken_back_cannot_be_spent),
		cmocka_unit_test(a_new_generation_closes_the_books_of_the_old),
		cmocka_unit_test(a_bucket_is_forgotten_whatever_it_holds),
		cmocka_unit_test(reading_shows_the_bucket_and_tells_when_there_is_none),
		cmocka_unit_test(a_leased_bucket_is_reaped_only_when_nothing_is_lost),
		cmocka_unit_test(a_bucket_that_never_had_a_lease_goes_with_what_it_started_with),
		cmocka_unit_test(a_first_lease_takes_the_place_of_what_the_key_started_with),
		cmocka_unit_test(a_rate_bucket_is_reaped_only_when_full),
		cmocka_unit_test(a_bucket_whose_rule_left_is_not_reaped),
		cmocka_unit_test(an_overflow_bucket_is_reaped_into_a_blank),
		cmocka_unit_test(requests_that_make_no_sense_are_refused_one_by_one),
		cmocka_unit_test(a_grant_that_finds_the_table_full_says_so),
		cmocka_unit_test(a_call_runs_up_to_256_requests_in_order),
		cmocka_unit_test(a_call_for_none_or_too_many_does_nothing),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
