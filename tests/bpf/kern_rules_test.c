// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rule sets and buckets through the real maps and programs. */
#include "tests/bpf/kern_world.h"

#include <poll.h>

#include "base/clock.h"

/* ---- buckets ---- */

static const struct lg_key key1 = { .rule_id = 3, .form = LG_FORM_SOURCE, .a = { [10] = 0xff, 0xff, 192, 0, 2, 1 } };

/* A global rule by source, on a set of its own. */
static void load_one_rule(uint32_t rule_id, uint64_t version)
{
	struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	struct lg_ruleset *set = calloc(1, sizeof(*set));

	assert_true(names && set);
	set->version = version;
	set->n_rules = 1;
	set->rules[0].rule_id = rule_id;
	set->rules[0].flags = LG_RULE_GLOBAL;
	set->rules[0].key_form = LG_FORM_SOURCE;
	memset(set->rules[0].key_mask4, 0xff, sizeof(set->rules[0].key_mask4));
	memset(set->rules[0].key_mask6, 0xff, sizeof(set->rules[0].key_mask6));
	set->rules[0].cold_burst_tok = 1000;
	set->rules[0].cost = 1;
	snprintf(names[rule_id].name, LG_NAME_LEN, "rule%u", rule_id);
	assert_int_equal(load_set(set, names), 0);
	free(names);
	free(set);
}

/* Nothing of an earlier test: an empty set, and every id forgotten that a test uses. */
static int rules_setup(void **state)
{
	struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	struct lg_ruleset *set = calloc(1, sizeof(*set));
	uint32_t max, used;

	setup(state);
	assert_true(names && set);
	assert_int_equal(load_set(set, names), 0);
	for (uint32_t id = 3; id <= 6; id++)
		assert_int_equal(lg_kern_rule_forget(kern, id), 0);
	assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
	assert_int_equal(used, 0);
	free(names);
	free(set);
	return 0;
}

static void a_grant_is_taken_back_as_far_as_it_is_left(void **state)
{
	struct lg_op op = { .key = key1, .code = LG_OP_GRANT, .tok = 100, .low_water_tok = 20, .epoch = 1 };

	(void)state;
	load_one_rule(3, 1);
	op.expires_ns = lg_clock_now_ns() + 60 * LG_NS_PER_S;
	assert_int_equal(lg_kern_grant(kern, &op, 1), 0);
	assert_int_equal(op.result, 0);
	assert_int_equal(op.after.granted_tok, 100);
	assert_int_equal(op.after.low_water_tok, 20);
	assert_int_equal(op.after.kind, LG_BUCKET_BLOCK);

	op.code = LG_OP_TAKE;
	op.tok = 30;
	assert_int_equal(lg_kern_grant(kern, &op, 1), 0);
	assert_int_equal(op.result, 0);
	assert_int_equal(op.tok, 30);
	op.tok = ~0ull;
	assert_int_equal(lg_kern_grant(kern, &op, 1), 0);
	assert_int_equal(op.tok, 70);
	assert_int_equal(op.after.spent_tok, 100);
	assert_int_equal(op.after.returned_tok, 100);

	op.code = LG_OP_READ;
	assert_int_equal(lg_kern_collect(kern, &op, 1), 0);
	assert_int_equal(op.result, 0);
	assert_int_equal(op.after.granted_tok, 100);
	op.key.a[15] = 99;
	assert_int_equal(lg_kern_collect(kern, &op, 1), 0);
	assert_int_equal(op.result, -ENOENT);
}

static void a_level_outlives_the_process(void **state)
{
	struct lg_op op = { .key = key1, .code = LG_OP_GRANT, .tok = 100, .low_water_tok = ~0ull, .generation = 4, .epoch = 2 };

	(void)state;
	load_one_rule(3, 1);
	op.expires_ns = lg_clock_now_ns() + 60 * LG_NS_PER_S;
	assert_int_equal(lg_kern_grant(kern, &op, 1), 0);
	op.code = LG_OP_TAKE;
	op.tok = 70;
	assert_int_equal(lg_kern_grant(kern, &op, 1), 0);
	reopen();
	op.code = LG_OP_READ;
	assert_int_equal(lg_kern_collect(kern, &op, 1), 0);
	assert_int_equal(op.result, 0);
	assert_int_equal(op.after.granted_tok - op.after.spent_tok, 30);
}

struct walk {
	uint32_t n;
	uint64_t granted_tok;
	uint32_t n_overflow;
	uint32_t overflow_index;
};

static int walk_one(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	struct walk *w = arg;

	if (key->form == LG_FORM_OVERFLOW) {
		w->n_overflow++;
		memcpy(&w->overflow_index, key->a, sizeof(w->overflow_index));
	} else {
		w->n++;
		w->granted_tok += bucket->granted_tok;
	}
	return 0;
}

static int walk_stop(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	(void)key;
	(void)bucket;
	++*(int *)arg;
	return 42;
}

/* One batch, one more, and several with a rest. */
static void any_number_of_operations_is_carried_out_and_walked(void **state)
{
	static const size_t counts[] = { 1, LG_OPS_MAX - 1, LG_OPS_MAX, LG_OPS_MAX + 1, 3 * LG_OPS_MAX - 7 };
	struct lg_op *ops = calloc(3 * LG_OPS_MAX, sizeof(*ops));
	uint32_t max, used;
	int stopped = 0;

	(void)state;
	assert_non_null(ops);
	load_one_rule(3, 1);
	for (size_t c = 0; c < N_ELEMS(counts); c++) {
		struct walk w = { 0 };

		for (size_t i = 0; i < counts[c]; i++) {
			ops[i] = (struct lg_op){ .key = key1, .code = LG_OP_GRANT, .tok = 5, .low_water_tok = ~0ull };
			ops[i].key.a[14] = (uint8_t)(i >> 8);
			ops[i].key.a[15] = (uint8_t)i;
			ops[i].expires_ns = lg_clock_now_ns() + 60 * LG_NS_PER_S;
		}
		assert_int_equal(lg_kern_grant(kern, ops, counts[c]), 0);
		for (size_t i = 0; i < counts[c]; i++)
			assert_int_equal(ops[i].result, 0);
		assert_int_equal(ops[counts[c] - 1].after.granted_tok, 5);
		assert_int_equal(lg_kern_each_bucket(kern, walk_one, &w), 0);
		assert_int_equal(w.n, counts[c]);
		assert_int_equal(w.granted_tok, 5 * counts[c]);
		assert_int_equal(w.n_overflow, 0);
		assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
		assert_int_equal(used, counts[c]);
		/* Forgotten, so that the next row begins with nothing. */
		for (size_t i = 0; i < counts[c]; i++)
			ops[i].code = LG_OP_FORGET;
		assert_int_equal(lg_kern_grant(kern, ops, counts[c]), 0);
		assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
		assert_int_equal(used, 0);
	}
	ops[0].code = LG_OP_GRANT;
	ops[1].code = LG_OP_GRANT;
	assert_int_equal(lg_kern_grant(kern, ops, 2), 0);
	assert_int_equal(lg_kern_each_bucket(kern, walk_stop, &stopped), 42);
	assert_int_equal(stopped, 1);
	assert_int_equal(lg_kern_grant(kern, NULL, 0), 0);
	free(ops);
}

/* ---- events ---- */

/* One UDP datagram from 192.0.2.1, as it comes over the wire to lgk0. */
static void send_datagram(void)
{
	uint8_t frame[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x08, 0x00 };
	static const uint8_t ip[28] = { 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9, 0, 8 };
	int tx = packet_socket("lgk1", 0);

	memcpy(frame + ETH_HLEN, ip, sizeof(ip));
	assert_int_equal(send(tx, frame, sizeof(frame), 0), sizeof(frame));
	close(tx);
}

struct heard {
	unsigned int n;
	struct lg_event first;
};

static void hear(void *arg, const struct lg_event *event)
{
	struct heard *h = arg;

	if (!h->n++)
		h->first = *event;
}

static void a_key_without_a_lease_is_heard_of(void **state)
{
	struct heard h = { 0 };
	struct pollfd p = { .events = POLLIN };

	(void)state;
	load_one_rule(3, 1);
	attach(kern, "lgk0", LG_HOOK_XDP, LG_MODE_XDP_NATIVE);
	p.fd = lg_kern_events_fd(kern);
	assert_true(p.fd >= 0);
	assert_int_equal(lg_kern_events_fd(kern), p.fd);
	assert_int_equal(lg_kern_events_read(kern, hear, &h), 0);
	send_datagram();
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_in_range(lg_kern_events_read(kern, hear, &h), 1, 2);
	assert_int_equal(h.first.type, LG_EVENT_NEW_KEY);
	assert_memory_equal(&h.first.key, &key1, sizeof(key1));
	assert_int_equal(h.first.cost_tok, 1);
	/* What was read does not come again. */
	h.n = 0;
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(lg_kern_events_read(kern, hear, &h), 0);
	assert_int_equal(h.n, 0);
}

/* ---- rules ---- */

static void a_load_writes_the_set_that_is_not_in_force_and_then_turns(void **state)
{
	struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	struct lg_ruleset *set = calloc(1, sizeof(*set));
	struct lg_control control;
	uint32_t first;

	(void)state;
	assert_true(names && set);
	assert_int_equal(lg_kern_control_read(kern, &control), 0);
	first = !control.active_set;
	for (uint32_t version = 1; version <= 4; version++) {
		load_one_rule(2 + version, version);
		assert_int_equal(lg_kern_control_read(kern, &control), 0);
		assert_int_equal(control.active_set, version & 1 ? first : !first);
		assert_int_equal(control.incarnation, 7);
		assert_int_equal(lg_kern_rules_read(kern, set, names), 0);
		assert_int_equal(set->version, version);
		assert_int_equal(set->n_rules, 1);
		assert_int_equal(set->rules[0].rule_id, 2 + version);
		assert_string_equal(names[1 + version].name, "");
		assert_int_not_equal(names[2 + version].name[0], 0);
	}
	/* Numbers may change without what the rules match. */
	assert_int_equal(lg_kern_rules_load(kern, set, NULL, names), 0);
	assert_int_equal(lg_kern_control_read(kern, &control), 0);
	assert_int_equal(control.active_set, first);
	/* What was in force before is still whole in the other entry: packets on their way may be reading it. */
	{
		int fd = map_fd("rules");
		__u32 other = !control.active_set;

		assert_int_equal(bpf_map_lookup_elem(fd, &other, set), 0);
		assert_int_equal(set->version, 4);
		close(fd);
	}
	free(names);
	free(set);
}

static void a_set_that_cannot_be_is_refused_and_changes_nothing(void **state)
{
	struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	struct lg_ruleset *set = calloc(1, sizeof(*set));

	(void)state;
	assert_true(names && set);
	load_one_rule(3, 1);
	set->n_rules = LG_RULES_MAX + 1;
	assert_int_equal(load_set(set, names), -EINVAL);
	set->n_rules = 1;
	assert_int_equal(load_set(set, names), -EINVAL); /* id 0 */
	set->rules[0].rule_id = lg_kern_max_rules(kern) + 1;
	assert_int_equal(load_set(set, names), -EINVAL);
	set->n_rules = 2;
	set->rules[0].rule_id = set->rules[1].rule_id = 5;
	assert_int_equal(load_set(set, names), -EINVAL);
	assert_int_equal(lg_kern_rules_read(kern, set, names), 0);
	assert_int_equal(set->version, 1);
	assert_string_equal(names[3].name, "rule3");
	set->rules[0].rule_id = 3;
	set->n_rules = 2;
	set->rules[1].rule_id = 4;
	assert_int_equal(lg_kern_rules_load(kern, set, NULL, names), -EINVAL); /* the classifier in force is for one rule */
	set->n_rules = 0; /* no rules is a set, too */
	assert_int_equal(load_set(set, names), 0);
	free(names);
	free(set);
}

static void charge_overflow(uint32_t rule_id, uint32_t i)
{
	struct lg_bucket bucket = { .rule_id = rule_id, .kind = LG_BUCKET_RATE, .spent_tok = 9 };
	__u32 at = (rule_id - 1) * LG_OVERFLOW_BUCKETS + i;
	int fd = map_fd("overflow");

	assert_int_equal(bpf_map_update_elem(fd, &at, &bucket, BPF_ANY), 0);
	close(fd);
}

static uint32_t overflow_in_use(uint32_t *ret_index)
{
	struct walk w = { 0 };

	assert_int_equal(lg_kern_each_bucket(kern, walk_one, &w), 0);
	*ret_index = w.overflow_index;
	return w.n_overflow;
}

static void a_reload_keeps_the_levels_of_a_rule_that_stays(void **state)
{
	struct lg_op op = { .key = key1, .code = LG_OP_GRANT, .tok = 100, .low_water_tok = ~0ull };
	uint32_t index;

	(void)state;
	load_one_rule(3, 1);
	op.expires_ns = lg_clock_now_ns() + 60 * LG_NS_PER_S;
	assert_int_equal(lg_kern_grant(kern, &op, 1), 0);
	charge_overflow(3, 1023);
	load_one_rule(3, 2);
	op.code = LG_OP_READ;
	assert_int_equal(lg_kern_collect(kern, &op, 1), 0);
	assert_int_equal(op.after.granted_tok, 100);
	assert_int_equal(overflow_in_use(&index), 1);
	assert_int_equal(index, 1023);
}

static void a_forgotten_rule_leaves_nothing_to_the_next_of_its_id(void **state)
{
	struct lg_op ops[2] = {
		{ .key = key1, .code = LG_OP_GRANT, .tok = 100, .low_water_tok = ~0ull },
		{ .key = key1, .code = LG_OP_GRANT, .tok = 100, .low_water_tok = ~0ull },
	};
	struct lg_rule_name *names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	struct lg_ruleset *set = calloc(1, sizeof(*set));
	uint32_t max, used, index;

	(void)state;
	assert_true(names && set);
	load_one_rule(3, 1);
	ops[0].expires_ns = ops[1].expires_ns = lg_clock_now_ns() + 60 * LG_NS_PER_S;
	ops[1].key.rule_id = 4;
	assert_int_equal(lg_kern_grant(kern, ops, 1), 0);
	charge_overflow(3, 0);
	assert_int_equal(lg_kern_rule_forget(kern, 3), -EBUSY); /* in force */
	assert_int_equal(lg_kern_rule_forget(kern, 0), -EINVAL);
	assert_int_equal(lg_kern_rule_forget(kern, LG_RULES_MAX + 1), -EINVAL);
	load_one_rule(4, 2);
	assert_int_equal(lg_kern_grant(kern, ops + 1, 1), 0);
	charge_overflow(4, 7);
	assert_int_equal(lg_kern_rule_forget(kern, 3), 0);

	assert_int_equal(lg_kern_keys_count(kern, &max, &used), 0);
	assert_int_equal(used, 1); /* that of rule 4 */
	assert_int_equal(overflow_in_use(&index), 1);
	assert_int_equal(index, 7);
	assert_int_equal(lg_kern_rules_read(kern, set, names), 0);
	assert_string_equal(names[3].name, "");
	load_one_rule(3, 3);
	assert_int_equal(overflow_in_use(&index), 0);
	free(names);
	free(set);
}

#define R(name) cmocka_unit_test_setup_teardown(name, rules_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		R(a_grant_is_taken_back_as_far_as_it_is_left),
		R(a_level_outlives_the_process),
		R(any_number_of_operations_is_carried_out_and_walked),
		R(a_key_without_a_lease_is_heard_of),
		R(a_load_writes_the_set_that_is_not_in_force_and_then_turns),
		R(a_set_that_cannot_be_is_refused_and_changes_nothing),
		R(a_reload_keeps_the_levels_of_a_rule_that_stays),
		R(a_forgotten_rule_leaves_nothing_to_the_next_of_its_id),
	};

	return cmocka_run_group_tests_name("kern_rules", tests, group_setup, group_teardown);
}
