// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists and bans as the agent and the operator's tool keep them in the kernel. */
#include <sys/file.h>
#include <fcntl.h>

#include "base/clock.h"
#include "kern_world.h"

#define S 1000000000ull

static struct lg_list_row row(const char *addr, uint32_t len, enum lg_list_verdict verdict)
{
	struct lg_list_row r = { .key = { .prefix_len = len }, .entry = { .of_file = (uint8_t)verdict } };

	if (strchr(addr, ':')) {
		assert_int_equal(inet_pton(AF_INET6, addr, r.key.addr), 1);
		return r;
	}
	r.key.prefix_len += 96;
	r.key.addr[10] = r.key.addr[11] = 0xff;
	assert_int_equal(inet_pton(AF_INET, addr, r.key.addr + 12), 1);
	return r;
}

static bool has_lists(void)
{
	struct lg_control control;

	assert_int_equal(lg_kern_control_read(kern, &control), 0);
	return control.has_lists;
}

static size_t n_rows(void)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	size_t n;

	assert_int_equal(lg_kern_lists_read(kern, &rows, &n), 0);
	return n;
}

/* What is said of just this prefix: the operator's word * 10 + the file's; -1: nothing. */
static int said_of(const struct lg_list_row *wanted)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	size_t n;

	assert_int_equal(lg_kern_lists_read(kern, &rows, &n), 0);
	for (size_t i = 0; i < n; i++)
		if (memcmp(&rows[i].key, &wanted->key, sizeof(wanted->key)) == 0)
			return rows[i].entry.of_operator * 10 + rows[i].entry.of_file;
	return -1;
}

/* The verdict on an address, and the length of the prefix that says so. */
static int decides(const char *addr, uint64_t now_ns, uint32_t *ret_len)
{
	struct lg_list_row found, at = row(addr, 0, LG_LIST_NONE);
	int r = lg_kern_list_find(kern, at.key.addr, strchr(addr, ':') ? 6 : 4, now_ns, &found);

	assert_in_range(r, 0, 1);
	*ret_len = r ? found.key.prefix_len : 0;
	return r ? (int)lg_list_entry_verdict(&found.entry, now_ns) : LG_LIST_NONE;
}

static void lists_empty(void)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	size_t n;

	assert_int_equal(lg_kern_lists_read(kern, &rows, &n), 0);
	for (size_t i = 0; i < n; i++)
		if (rows[i].entry.of_operator)
			assert_int_equal(lg_kern_list_set(kern, &rows[i].key, LG_LIST_NONE, 0), 0);
	assert_int_equal(lg_kern_lists_load(kern, NULL, 0), 0);
	assert_int_equal(n_rows(), 0);
	assert_false(has_lists());
}

static void a_load_changes_what_differs_and_leaves_the_operators_word(void **state)
{
	struct lg_list_row first[] = { row("10.0.0.0", 8, LG_LIST_DENY), row("10.1.0.0", 16, LG_LIST_ALLOW),
				       row("2001:db8::", 32, LG_LIST_DENY) };
	struct lg_list_row second[] = { row("2001:db8::", 32, LG_LIST_ALLOW), row("10.2.0.0", 16, LG_LIST_DENY) };

	(void)state;
	assert_false(has_lists());
	assert_int_equal(lg_kern_lists_load(kern, first, N_ELEMS(first)), 0);
	assert_true(has_lists());
	assert_int_equal(lg_kern_list_set(kern, &first[0].key, LG_LIST_ALLOW, 0), 0);
	assert_int_equal(lg_kern_list_set(kern, &second[1].key, LG_LIST_ALLOW, 0), 0);
	assert_int_equal(said_of(&first[0]), 12);
	assert_int_equal(said_of(&second[1]), 10);
	assert_int_equal(lg_kern_lists_load(kern, second, N_ELEMS(second)), 0);
	assert_int_equal(said_of(&first[0]), 10);
	assert_int_equal(said_of(&first[1]), -1);
	assert_int_equal(said_of(&first[2]), 1);
	assert_int_equal(said_of(&second[1]), 12);
	/* What the operator takes back leaves what the file says, and nothing where it says nothing. */
	assert_int_equal(lg_kern_list_set(kern, &second[1].key, LG_LIST_NONE, 0), 0);
	assert_int_equal(said_of(&second[1]), 2);
	assert_int_equal(lg_kern_list_set(kern, &second[1].key, LG_LIST_NONE, 0), -ENOENT);
	assert_int_equal(lg_kern_list_set(kern, &first[0].key, LG_LIST_NONE, 0), 0);
	assert_int_equal(said_of(&first[0]), -1);
	lists_empty();
}

static void what_is_over_is_taken_away_and_decides_nothing_before(void **state)
{
	struct lg_list_row wide = row("10.0.0.0", 8, LG_LIST_DENY), narrow = row("10.0.0.1", 32, LG_LIST_NONE), v6 = row("::", 0, LG_LIST_DENY);
	struct lg_list_row file[] = { wide, v6 };
	uint32_t len;

	(void)state;
	assert_int_equal(lg_kern_lists_load(kern, file, N_ELEMS(file)), 0);
	assert_int_equal(lg_kern_list_set(kern, &narrow.key, LG_LIST_ALLOW, 5 * S), 0);
	assert_int_equal(lg_kern_list_set(kern, &wide.key, LG_LIST_ALLOW, 7 * S), 0);
	assert_int_equal(decides("10.0.0.1", 5 * S - 1, &len), LG_LIST_ALLOW);
	assert_int_equal(len, 128);
	assert_int_equal(decides("10.0.0.1", 5 * S, &len), LG_LIST_ALLOW);
	assert_int_equal(len, 104);
	assert_int_equal(decides("10.0.0.1", 7 * S, &len), LG_LIST_DENY);
	assert_int_equal(decides("11.0.0.1", 0, &len), LG_LIST_NONE); /* ::/0 is no IPv4 */
	assert_int_equal(decides("2001:db8::1", 0, &len), LG_LIST_DENY);
	assert_int_equal(lg_kern_lists_reap(kern, 5 * S - 1), 0);
	assert_int_equal(n_rows(), 3);
	assert_int_equal(lg_kern_lists_reap(kern, 7 * S), 0);
	assert_int_equal(n_rows(), 2);
	assert_int_equal(said_of(&wide), 2);
	assert_true(has_lists());
	/* With the last one goes the look at lists. */
	assert_int_equal(lg_kern_lists_load(kern, NULL, 0), 0);
	assert_int_equal(lg_kern_list_set(kern, &narrow.key, LG_LIST_DENY, 9 * S), 0);
	assert_true(has_lists());
	assert_int_equal(lg_kern_lists_reap(kern, 9 * S), 0);
	assert_false(has_lists());
	lists_empty();
}

static void a_hundred_thousand_entries_are_loaded_within_seconds_and_more_are_refused(void **state)
{
	_cleanup_free_ struct lg_list_row *rows = calloc(LG_LISTS_MAX, sizeof(*rows));
	struct lg_list_row other = row("192.0.2.1", 32, LG_LIST_NONE);
	uint64_t start_ns;
	char addr[32];

	(void)state;
	assert_non_null(rows);
	for (uint32_t i = 0; i < LG_LISTS_MAX; i++) {
		snprintf(addr, sizeof(addr), "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
		rows[i] = row(addr, 32, i & 1 ? LG_LIST_ALLOW : LG_LIST_DENY);
	}
	start_ns = lg_clock_now_ns();
	assert_int_equal(lg_kern_lists_load(kern, rows, LG_LIST_FILE_MAX), 0);
	print_message("%d entries in %llu ms\n", LG_LIST_FILE_MAX, (unsigned long long)(lg_clock_now_ns() - start_ns) / 1000000);
	assert_true(lg_clock_now_ns() - start_ns < 5 * S);
	assert_int_equal(n_rows(), LG_LIST_FILE_MAX);
	/* Another list that does not fit in beside it, only in its place. */
	assert_int_equal(lg_kern_lists_load(kern, rows + LG_LISTS_MAX - LG_LIST_FILE_MAX, LG_LIST_FILE_MAX), 0);
	assert_int_equal(n_rows(), LG_LIST_FILE_MAX);
	assert_int_equal(said_of(&rows[0]), -1);
	assert_int_equal(lg_kern_list_set(kern, &other.key, LG_LIST_ALLOW, 0), 0);
	assert_int_equal(lg_kern_lists_load(kern, rows, LG_LISTS_MAX), -E2BIG);
	assert_int_equal(n_rows(), LG_LIST_FILE_MAX + 1);
	assert_int_equal(said_of(&rows[0]), -1);
	lists_empty();
}

static void who_finds_lists_locked_waits_and_then_says_so(void **state)
{
	struct lg_list_row r = row("192.0.2.1", 32, LG_LIST_NONE);
	char path[128];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/t/" VERSION_DIR, root);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(lg_kern_list_set(kern, &r.key, LG_LIST_ALLOW, 0), -EBUSY);
	close(fd);
	assert_int_equal(lg_kern_list_set(kern, &r.key, LG_LIST_ALLOW, 0), 0);
	lists_empty();
}

static int count_ban(void *arg, const struct lg_key *key, const struct lg_ban *ban)
{
	(void)key;
	(void)ban;
	++*(int *)arg;
	return 0;
}

static int n_bans(void)
{
	int n = 0;

	assert_int_equal(lg_kern_each_ban(kern, count_ban, &n), 0);
	return n;
}

static void bans_go_when_they_are_over_or_their_rule_bans_no_more(void **state)
{
	static struct lg_ruleset set;
	struct lg_key key[3] = { { .rule_id = 1, .form = LG_FORM_SOURCE }, { .rule_id = 2, .form = LG_FORM_SOURCE },
				 { .rule_id = 3, .form = LG_FORM_SOURCE } };

	(void)state;
	set.n_rules = 2;
	set.rules[0] = (struct lg_rule){ .rule_id = 1, .special = LG_SPECIAL_BAN, .ban = { .after = 1, .max_ns = 30 * S } };
	set.rules[1] = (struct lg_rule){ .rule_id = 2, .special = LG_SPECIAL_BAN, .ban = { .after = 1 } };
	for (size_t i = 0; i < N_ELEMS(key); i++)
		assert_int_equal(lg_kern_ban_set(kern, &key[i], 0, 10 * S), 0);
	assert_int_equal(lg_kern_bans_reap(kern, &set, 10 * S - 1), 0);
	assert_int_equal(n_bans(), 2); /* rule 3 is not in the set */
	assert_int_equal(lg_kern_bans_reap(kern, &set, 10 * S), 0);
	assert_int_equal(n_bans(), 1); /* that of rule 1 still makes the next one longer */
	assert_int_equal(lg_kern_bans_reap(kern, &set, 40 * S - 1), 0);
	assert_int_equal(n_bans(), 1);
	assert_int_equal(lg_kern_bans_reap(kern, &set, 40 * S), 0);
	assert_int_equal(n_bans(), 0);
	assert_int_equal(lg_kern_ban_set(kern, &key[0], 0, 10 * S), 0);
	set.rules[0].special = 0;
	assert_int_equal(lg_kern_bans_reap(kern, &set, 0), 0);
	assert_int_equal(lg_kern_ban_remove(kern, &key[0]), -ENOENT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(a_load_changes_what_differs_and_leaves_the_operators_word),
		T(what_is_over_is_taken_away_and_decides_nothing_before),
		T(a_hundred_thousand_entries_are_loaded_within_seconds_and_more_are_refused),
		T(who_finds_lists_locked_waits_and_then_says_so),
		T(bans_go_when_they_are_over_or_their_rule_bans_no_more),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
