// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Map `lines` through kern.h: its size, what a listing tells, and when a region is emptied. */
#include "kern_world.h"

#include "base/clock.h"
#include "rules/rate.h"

#define N_LINES 1024u /* more than one batch of a listing, and a part */
#define NOW_NS (5000 * LG_NS_PER_S)

static struct lg_ruleset set;
static struct lg_rule_name names[LG_RULES_MAX + 1];

/* Rule `id` has n lines from `first` on: 10 tokens a second, burst 5. */
static void rule_add(uint32_t id, uint32_t first, uint32_t n)
{
	struct lg_rule *rule = &set.rules[set.n_rules++];

	*rule = (struct lg_rule){ .rule_id = id, .table = LG_TABLE_LINES, .key_form = LG_FORM_SOURCE, .cost = 1, .first_line = first,
				  .n_lines = n, .rate_tok = 10, .per_ns = LG_NS_PER_S, .burst_tok = 5, .cold_burst_tok = 5 };
	assert_int_equal(lg_rate_line_init(10, LG_NS_PER_S, 5, 65536, NOW_NS - LG_NS_PER_S, &rule->rate, &rule->live_vt), 0);
	snprintf(names[id].name, sizeof(names[id].name), "rule-%u", id);
}

static void load(void)
{
	set.version++;
	assert_int_equal(load_set(&set, names), 0);
}

static void slot_put(uint32_t line, uint32_t slot, uint64_t word, const struct lg_key *key, uint64_t denied_tok)
{
	struct lg_line_key note = { .key = *key, .denied_tok = denied_tok };
	int lines = map_fd("lines"), notes = map_fd("line_keys");
	uint32_t index = line * LG_LINE_SLOTS + slot;
	struct lg_line value;

	assert_int_equal(bpf_map_lookup_elem(lines, &line, &value), 0);
	value.slot[slot] = word;
	assert_int_equal(bpf_map_update_elem(lines, &line, &value, 0), 0);
	assert_int_equal(bpf_map_update_elem(notes, &index, &note, 0), 0);
	close(lines);
	close(notes);
}

/* A word of a noted key that owes this much now. */
static uint64_t owing(const struct lg_rule *rule, uint64_t tag, uint64_t tok)
{
	return LG_LINE_NOTED | tag << 40 | ((lg_rate_vt(&rule->rate, NOW_NS) + tok * rule->rate.unit_per_tok) & LG_LINE_POSITION);
}

struct told {
	uint32_t n;
	struct lg_key key[4];
	struct lg_bucket bucket[4];
};

static int tell(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	struct told *told = arg;

	assert_in_range(told->n, 0, N_ELEMS(told->key) - 1);
	told->key[told->n] = *key;
	told->bucket[told->n++] = *bucket;
	return 0;
}

static int stop(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	(void)key;
	(void)bucket;
	++*(uint32_t *)arg;
	return 7;
}

static int begin(void **state)
{
	struct lg_kern_options o = options("t");
	int r = setup(state);

	memset(&set, 0, sizeof(set));
	memset(names, 0, sizeof(names));
	kern = lg_kern_free(kern);
	assert_in_range(lg_kern_detach_all("t", root, &fail, &complaint) + 1, 1, 4);
	o.line_keys = N_LINES * LG_LINE_SLOTS;
	kern = open_as(&o, 0);
	return r;
}

static int end(void **state)
{
	kern = lg_kern_free(kern);
	return teardown(state);
}

static void a_listing_tells_live_slots_with_what_they_owe(void **state)
{
	struct lg_key a = { .rule_id = 1, .form = LG_FORM_SOURCE, .a = { 1 } }, b = { .rule_id = 2, .form = LG_FORM_SOURCE, .a = { 2 } };
	struct told told = { 0 };
	uint64_t unnoted;
	uint32_t live, n = 0;

	(void)state;
	rule_add(1, 0, 512);
	rule_add(2, 512, 256);
	load();
	slot_put(3, 2, owing(&set.rules[0], 77, 2), &a, 9);
	slot_put(511, 7, owing(&set.rules[0], 1, 65536), &a, 0);
	slot_put(767, 7, owing(&set.rules[1], 5, 5), &b, 0);
	/* Full, of another key's note, claimed but not settled, and owing more than anything can. */
	slot_put(4, 0, owing(&set.rules[0], 77, 0), &a, 0);
	slot_put(4, 1, owing(&set.rules[0], 77, 1), &b, 0);
	slot_put(4, 2, owing(&set.rules[0], 77, 1) | LG_LINE_PENDING, &a, 0);
	slot_put(4, 3, owing(&set.rules[0], 77, 65537), &a, 0);
	slot_put(4, 4, owing(&set.rules[0], 0, 1) & ~LG_LINE_NOTED, &a, 0);
	assert_int_equal(lg_kern_each_line(kern, NOW_NS, tell, &told, &unnoted), 0);
	assert_int_equal(unnoted, 0);
	assert_int_equal(told.n, 3);
	assert_memory_equal(&told.key[0], &a, sizeof(a));
	assert_int_equal(told.bucket[0].kind, LG_BUCKET_LINE);
	assert_int_equal(told.bucket[0].rule_id, 1);
	assert_int_equal(told.bucket[0].spent_tok, 2);
	assert_int_equal(told.bucket[0].denied_tok, 9);
	assert_int_equal(told.bucket[0].rate_tok, 10);
	assert_int_equal(told.bucket[0].full_at_vt - lg_rate_vt(&set.rules[0].rate, NOW_NS), 2 * set.rules[0].rate.unit_per_tok);
	assert_int_equal(told.bucket[1].spent_tok, 65536);
	assert_memory_equal(&told.key[2], &b, sizeof(b));
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[0], NOW_NS, &live), 0);
	assert_int_equal(live, 3);
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[1], NOW_NS, &live), 0);
	assert_int_equal(live, 1);
	/* By itself, with time. */
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[1], NOW_NS + LG_NS_PER_S / 2 + LG_NS_PER_MS, &live), 0);
	assert_int_equal(live, 0);
	assert_int_equal(lg_kern_each_line(kern, NOW_NS, stop, &n, &unnoted), 7);
	assert_int_equal(n, 1);
}

static void keys_that_nobody_noted_are_counted(void **state)
{
	struct lg_key a = { .rule_id = 1, .form = LG_FORM_SOURCE, .a = { 1 } };
	struct told told = { 0 };
	uint64_t unnoted;
	uint32_t live;

	(void)state;
	rule_add(1, 0, 512);
	load();
	slot_put(3, 0, owing(&set.rules[0], 6, 1), &a, 0);
	slot_put(3, 2, owing(&set.rules[0], 7, 1) & ~LG_LINE_NOTED, &a, 0);
	slot_put(500, 2, owing(&set.rules[0], 7, 1) & ~LG_LINE_NOTED, &a, 0);
	slot_put(501, 2, owing(&set.rules[0], 7, 0) & ~LG_LINE_NOTED, &a, 0);
	assert_int_equal(lg_kern_each_line(kern, NOW_NS, tell, &told, &unnoted), 0);
	assert_int_equal(told.n, 1);
	assert_int_equal(unnoted, 2);
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[0], NOW_NS, &live), 0);
	assert_int_equal(live, 3);
}

static void new_rules_find_their_lines_empty_and_known_ones_as_they_left_them(void **state)
{
	struct lg_key a = { .rule_id = 1, .form = LG_FORM_SOURCE, .a = { 1 } };
	uint32_t live;

	(void)state;
	rule_add(1, 256, 512);
	load();
	for (uint32_t line = 0; line < N_LINES; line += 255)
		slot_put(line, 1, owing(&set.rules[0], 3, 4), &a, 0);
	load();
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[0], NOW_NS, &live), 0);
	assert_int_equal(live, 2);
	/* Forgotten, and its lines given to another one. */
	set.n_rules = 0;
	load();
	assert_int_equal(lg_kern_rule_forget(kern, 1), 0);
	memset(&names[1], 0, sizeof(names[1]));
	rule_add(2, 0, 512);
	load();
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[0], NOW_NS, &live), 0);
	assert_int_equal(live, 0);
	set.rules[0].first_line = 512;
	assert_int_equal(lg_kern_lines_count(kern, &set.rules[0], NOW_NS, &live), 0);
	assert_int_equal(live, 2); /* lines 765 and 1020 were not its own, and left alone */
}

static void the_size_is_as_configured_and_stays(void **state)
{
	struct lg_kern_options o = options("t");
	uint32_t n;

	(void)state;
	assert_int_equal(lg_kern_lines_max(kern, &n), 0);
	assert_int_equal(n, N_LINES);
	kern = lg_kern_free(kern);
	o.line_keys = 16 * LG_LINE_SLOTS;
	kern = open_as(&o, 1);
	assert_text_has("the table of line keys stays at 8192 entries, not 128 as configured");
	assert_int_equal(lg_kern_lines_max(kern, &n), 0);
	assert_int_equal(n, N_LINES);
	kern = lg_kern_free(kern);
	o.line_keys = LG_LINE_KEYS_ANY;
	kern = open_as(&o, 1);
	assert_string_equal(complaint.text, "");
	kern = lg_kern_free(kern);
	o.line_keys = LG_LINE_KEYS_LIMIT + 1;
	assert_int_equal(lg_kern_open(&o, &kern, &fail, &complaint), -EINVAL);
	assert_text_has("line_keys 134217729: at most 134217728");
}

static void none_are_none(void **state)
{
	struct lg_kern_options o = options("t");
	uint32_t n;

	(void)state;
	kern = lg_kern_free(kern);
	assert_in_range(lg_kern_detach_all("t", root, &fail, &complaint) + 1, 1, 4);
	kern = open_as(&o, 0);
	assert_int_equal(lg_kern_lines_max(kern, &n), 0);
	assert_int_equal(n, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_listing_tells_live_slots_with_what_they_owe, begin, end),
		cmocka_unit_test_setup_teardown(keys_that_nobody_noted_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(new_rules_find_their_lines_empty_and_known_ones_as_they_left_them, begin, end),
		cmocka_unit_test_setup_teardown(the_size_is_as_configured_and_stays, begin, end),
		cmocka_unit_test_setup_teardown(none_are_none, begin, end),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
