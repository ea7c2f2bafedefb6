// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What store.h promises, on every driver of the table; of etcd on a real cluster. Each test begins with an empty store. */
#include "store/store.h"

#include <stdbool.h>

#include "store/driver.h"
#include "tests/lib/etcd.h"
#include "tests/unit/store/store_test.h"

#define ANY LG_STORE_REVISION_ANY

struct fixture {
	const char *driver;
	char dir[32];
	char path[64];
	struct net_loop n;
	struct lg_store *store;
};

static struct etcd_cluster *cluster;

static struct lg_store *open_one(struct fixture *f)
{
	struct lg_store_options options = { .driver = f->driver, .path = f->path };

	if (strcmp(f->driver, "etcd") == 0)
		options.endpoints[options.n_endpoints++] = etcd_endpoint(cluster, 0);
	return store_open(&f->n, &options);
}

static int commit(struct fixture *f, const struct lg_store_write *writes, size_t n)
{
	return store_commit(&f->n, f->store, writes, n);
}

static int put(struct fixture *f, const char *key, const char *value, uint64_t if_revision)
{
	struct lg_store_write write = { .key = key, .value = value, .len = value ? strlen(value) : 0, .if_revision = if_revision };

	return commit(f, &write, 1);
}

/* The value of a key as text, "-" if there is none. */
static const char *get(struct fixture *f, const char *key, uint64_t *ret_revision)
{
	static char buf[LG_STORE_VALUE_MAX + 1];
	size_t len = 0;
	int r = lg_store_get(f->store, key, buf, LG_STORE_VALUE_MAX, &len, ret_revision);

	assert_true(r == 0 || r == 1);
	buf[len] = '\0';
	return r == 0 ? buf : "-";
}

static void what_was_put_is_got_and_what_was_deleted_is_not(void **state)
{
	struct fixture *f = *state;
	uint64_t revision = 0;

	assert_string_equal(get(f, "a", &revision), "-");
	assert_int_equal(put(f, "a", "one", ANY), 0);
	assert_string_equal(get(f, "a", &revision), "one");
	assert_int_equal(put(f, "a", "two", ANY), 0);
	assert_string_equal(get(f, "a", &revision), "two");
	assert_int_equal(put(f, "a", NULL, ANY), 0);
	assert_string_equal(get(f, "a", &revision), "-");
	assert_int_equal(put(f, "a", NULL, ANY), 0); /* there is nothing to do */
}

static void values_are_bytes_of_any_kind_and_length(void **state)
{
	static const size_t lens[] = { 0, 1, 7, 4096, LG_STORE_VALUE_MAX };
	static uint8_t value[LG_STORE_VALUE_MAX + 1], got[LG_STORE_VALUE_MAX + 1];
	struct fixture *f = *state;
	uint64_t revision;
	size_t len;

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < N_ELEMS(lens); i++) {
		struct lg_store_write write = { .key = "k", .value = value, .len = lens[i], .if_revision = ANY };

		assert_int_equal(commit(f, &write, 1), 0);
		memset(got, 0x5a, sizeof(got));
		len = 99;
		assert_int_equal(lg_store_get(f->store, "k", got, lens[i], &len, &revision), 0);
		assert_int_equal(len, lens[i]);
		assert_memory_equal(got, value, len);
		assert_int_equal(got[len], 0x5a);
	}
}

static void a_value_larger_than_the_buffer_is_not_cut(void **state)
{
	struct fixture *f = *state;
	uint64_t revision = 77;
	char buf[4] = "xxx";
	size_t len = 78;

	assert_int_equal(put(f, "a", "12345", ANY), 0);
	assert_int_equal(lg_store_get(f->store, "a", buf, 4, &len, &revision), -ENOSPC);
	assert_string_equal(buf, "xxx");
	assert_int_equal(len, 78);
	assert_int_equal(revision, 77);
}

static void a_revision_lets_through_only_who_saw_the_last_state(void **state)
{
	struct fixture *f = *state;
	uint64_t first = 0, second = 0, again = 0;

	assert_int_equal(put(f, "a", "x", 5), 1); /* there is none */
	assert_int_equal(put(f, "a", "one", 0), 0);
	assert_int_equal(put(f, "a", "two", 0), 1); /* there is one */
	assert_string_equal(get(f, "a", &first), "one");
	assert_true(first != 0 && first != ANY);
	assert_int_equal(put(f, "a", "two", first), 0);
	assert_int_equal(put(f, "a", "three", first), 1);
	assert_int_equal(put(f, "a", NULL, first), 1);
	assert_string_equal(get(f, "a", &second), "two");
	assert_true(second > first);

	/* Deleted and made again it is not what it was. */
	assert_int_equal(put(f, "a", NULL, second), 0);
	assert_int_equal(put(f, "a", "two", second), 1);
	assert_int_equal(put(f, "a", NULL, 0), 0);
	assert_int_equal(put(f, "a", "two", 0), 0);
	assert_string_equal(get(f, "a", &again), "two");
	assert_true(again > second);
}

static void a_commit_is_all_or_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t revision, revision_b;

	assert_int_equal(put(f, "a", "1", ANY), 0);
	assert_int_equal(put(f, "b", "2", ANY), 0);
	get(f, "b", &revision);

	struct lg_store_write refused[] = {
		{ "a", "9", 1, ANY, 0 },
		{ "c", "9", 1, 0, 0 },
		{ "b", NULL, 0, revision + 1, 0 },
	};
	assert_int_equal(commit(f, refused, 3), 1);
	assert_string_equal(get(f, "a", &revision_b), "1");
	assert_string_equal(get(f, "b", &revision_b), "2");
	assert_string_equal(get(f, "c", &revision_b), "-");

	refused[2].if_revision = revision;
	assert_int_equal(commit(f, refused, 3), 0);
	assert_string_equal(get(f, "a", &revision), "9");
	assert_string_equal(get(f, "b", &revision_b), "-");
	assert_string_equal(get(f, "c", &revision_b), "9");
	assert_int_equal(revision, revision_b); /* of one commit */
}

static void requests_that_are_malformed_write_nothing(void **state)
{
	static char long_key[LG_STORE_KEY_MAX + 2], value[LG_STORE_VALUE_MAX + 1];
	struct fixture *f = *state;
	struct lg_store_write *many = calloc(LG_STORE_WRITES_MAX + 1, sizeof(*many));
	struct lg_store_write twice[] = { { "a", "1", 1, ANY, 0 }, { "b", "1", 1, ANY, 0 }, { "a", "2", 1, ANY, 0 } };
	struct lg_store_write large = { "a", value, LG_STORE_VALUE_MAX + 1, ANY, 0 };
	uint64_t revision;
	size_t len;
	char buf[8];

	assert_non_null(many);
	memset(long_key, 'k', LG_STORE_KEY_MAX + 1);
	assert_int_equal(put(f, "", "x", ANY), -EINVAL);
	assert_int_equal(put(f, long_key, "x", ANY), -EINVAL);
	assert_int_equal(lg_store_get(f->store, "", buf, sizeof(buf), &len, &revision), -EINVAL);
	assert_int_equal(lg_store_get(f->store, long_key, buf, sizeof(buf), &len, &revision), -EINVAL);
	assert_int_equal(lg_store_each(f->store, long_key, NULL, NULL), -EINVAL);
	assert_int_equal(commit(f, &large, 1), -EINVAL);
	assert_int_equal(commit(f, twice, 3), -EINVAL);
	assert_string_equal(get(f, "b", &revision), "-");
	assert_int_equal(commit(f, many, LG_STORE_WRITES_MAX + 1), -EINVAL);
	assert_int_equal(commit(f, NULL, 0), 0);

	long_key[LG_STORE_KEY_MAX] = '\0';
	assert_int_equal(put(f, long_key, "x", ANY), 0);
	assert_string_equal(get(f, long_key, &revision), "x");
	free(many);
}

static void the_largest_commit_is_one(void **state)
{
	struct lg_store_write *writes = calloc(LG_STORE_WRITES_MAX, sizeof(*writes));
	char(*keys)[8] = calloc(LG_STORE_WRITES_MAX, sizeof(*keys));
	struct fixture *f = *state;
	uint64_t first, last;

	assert_non_null(writes);
	assert_non_null(keys);
	for (unsigned int i = 0; i < LG_STORE_WRITES_MAX; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%05u", i);
		writes[i] = (struct lg_store_write){ keys[i], keys[i], 6, 0, 0 };
	}
	assert_int_equal(commit(f, writes, LG_STORE_WRITES_MAX), 0);
	assert_string_equal(get(f, "k00000", &first), "k00000");
	assert_string_equal(get(f, "k00127", &last), "k00127");
	assert_int_equal(first, last);
	assert_int_equal(commit(f, writes, LG_STORE_WRITES_MAX), 1);
	free(writes);
	free(keys);
}

struct walk {
	struct fixture *f;
	char seen[4096];
	int stop_at;
	int n;
};

static int walk_note(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct walk *w = arg;
	size_t n = strlen(w->seen);

	assert_true(revision != 0);
	assert_non_null(value);
	snprintf(w->seen + n, sizeof(w->seen) - n, "%s=%.*s ", key, (int)len, (const char *)value);
	return ++w->n == w->stop_at ? 42 : 0;
}

static void a_walk_visits_keys_of_a_prefix_in_byte_order(void **state)
{
	static const char *const keys[] = { "b", "a/2", "a/10", "a", "a0", "a/", "c", "A", "a/\xc3\xa9", "a/\xff" };
	static const struct {
		const char *prefix, *seen;
		int stop_at, r;
	} rows[] = {
		{ "", "A=v a=v a/=v a/10=v a/2=v a/\xc3\xa9=v a/\xff=v a0=v b=v c=v ", 0, 0 },
		{ "a/", "a/=v a/10=v a/2=v a/\xc3\xa9=v a/\xff=v ", 0, 0 },
		{ "a/1", "a/10=v ", 0, 0 },
		{ "a/\xff", "a/\xff=v ", 0, 0 },
		{ "d", "", 0, 0 },
		{ "a/3", "", 0, 0 },
		{ "a", "a=v a/=v ", 2, 42 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < N_ELEMS(keys); i++)
		assert_int_equal(put(f, keys[i], "v", ANY), 0);
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct walk w = { .stop_at = rows[i].stop_at };

		assert_int_equal(lg_store_each(f->store, rows[i].prefix, walk_note, &w), rows[i].r);
		assert_string_equal(w.seen, rows[i].seen);
	}
}

static int walk_use(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct walk *w = arg, inner = { .f = w->f };
	uint64_t got;

	assert_int_equal(len, 0);
	assert_non_null(value);
	assert_string_equal(get(w->f, key, &got), "");
	assert_int_equal(got, revision);
	assert_int_equal(put(w->f, key, "x", ANY), -EBUSY);
	assert_int_equal(put(w->f, key, NULL, ANY), -EBUSY);
	assert_int_equal(lg_store_each(w->f->store, "", walk_note, &inner), 0);
	assert_int_equal(inner.n, 2);
	w->n++;
	return 0;
}

static void inside_a_walk_the_store_can_be_read_and_not_written(void **state)
{
	struct fixture *f = *state;
	struct walk w = { .f = f };

	assert_int_equal(put(f, "a", "", ANY), 0);
	assert_int_equal(put(f, "b", "", ANY), 0);
	assert_int_equal(lg_store_each(f->store, "", walk_use, &w), 0);
	assert_int_equal(w.n, 2);
	assert_int_equal(put(f, "a", "x", ANY), 0); /* and written again afterwards */
}

/* A thousand random steps beside a model of 16 keys. */
static void a_long_random_history_is_as_a_model_says(void **state)
{
	struct fixture *f = *state;
	static const char no_value[24] = "-";
	char model[16][24] = { "" };
	uint64_t revisions[16] = { 0 }, seed = 12345;

	for (int step = 0; step < 1000; step++) {
		struct lg_store_write writes[3];
		char keys[3][8], values[3][24];
		size_t n = 0, at[3] = { 0 };
		bool holds = true;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		for (size_t i = 0; i < 1 + (seed >> 60) % 3; i++) {
			size_t k = (seed >> (20 + 8 * i)) % 16;
			uint64_t how = (seed >> (33 + 3 * i)) % 4;

			for (size_t j = 0; j < n; j++)
				k = at[j] == k ? 99 : k;
			if (k == 99)
				continue;
			snprintf(keys[n], sizeof(keys[n]), "key%zu", k);
			snprintf(values[n], sizeof(values[n]), "%d", step);
			writes[n] = (struct lg_store_write){ keys[n], how == 3 ? NULL : values[n], strlen(values[n]),
							     how == 0   ? ANY
							     : how == 1 ? revisions[k]
									: revisions[k] + (seed >> 50) % 2,
							     0 };
			holds = holds && (how == 0 || writes[n].if_revision == revisions[k]);
			at[n++] = k;
		}
		assert_int_equal(commit(f, writes, n), holds ? 0 : 1);
		for (size_t i = 0; holds && i < n; i++) {
			uint64_t revision = 0;

			memcpy(model[at[i]], writes[i].value ? values[i] : no_value, sizeof(model[0]));
			assert_string_equal(get(f, keys[i], &revision), model[at[i]]);
			assert_true(!writes[i].value || revision > revisions[at[i]]);
			revisions[at[i]] = revision;
		}
	}
	for (size_t k = 0; k < 16; k++) {
		uint64_t revision = 0;
		char key[8];

		snprintf(key, sizeof(key), "key%zu", k);
		assert_string_equal(get(f, key, &revision), model[k][0] ? model[k] : "-");
		assert_int_equal(revision, revisions[k]);
	}
}

static void a_check_lets_a_commit_through_and_writes_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t revision, after;

	assert_int_equal(put(f, "fence", "mine", ANY), 0);
	get(f, "fence", &revision);
	struct lg_store_write writes[] = {
		{ "fence", NULL, 0, revision + 1, LG_STORE_CHECK },
		{ "a", "1", 1, ANY, 0 },
	};
	assert_int_equal(commit(f, writes, 2), 1);
	assert_string_equal(get(f, "a", &after), "-");
	writes[0].if_revision = revision;
	assert_int_equal(commit(f, writes, 2), 0);
	assert_string_equal(get(f, "a", &after), "1");
	assert_string_equal(get(f, "fence", &after), "mine");
	assert_int_equal(after, revision);
	/* That there is none can be asked for, too. */
	writes[0].key = "none";
	writes[0].if_revision = 0;
	assert_int_equal(commit(f, writes, 2), 0);
	assert_string_equal(get(f, "none", &after), "-");
}

/* What a watch was told, in order: "key=value ", or "key- " for one that was deleted. */
struct seen {
	struct fixture *f;
	char text[4096];
	uint64_t revision;
};

static void seen_note(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct seen *s = arg;
	size_t n = strlen(s->text);

	assert_true((value != NULL) == (revision != 0));
	snprintf(s->text + n, sizeof(s->text) - n, value ? "%s=%.*s " : "%s- ", key, (int)len, (const char *)value);
	s->revision = revision;
}

static void a_watch_tells_what_there_is_and_each_change_behind_its_prefix(void **state)
{
	struct fixture *f = *state;
	struct seen s = { .f = f }, all = { .f = f };
	uint64_t revision;

	assert_int_equal(put(f, "a/1", "x", ANY), 0);
	assert_int_equal(put(f, "a/2", "", ANY), 0);
	assert_int_equal(put(f, "b", "x", ANY), 0);
	assert_int_equal(lg_store_watch(f->store, "a/", seen_note, &s), 0);
	assert_string_equal(s.text, ""); /* never from inside */
	WAIT_FOR(f->n.loop, s.text[0]);
	assert_string_equal(s.text, "a/1=x a/2= ");

	s.text[0] = '\0';
	assert_int_equal(put(f, "a/1", "y", ANY), 0);
	assert_string_equal(s.text, "a/1=y "); /* before its own done */
	get(f, "a/1", &revision);
	assert_int_equal(s.revision, revision);
	assert_int_equal(put(f, "b", "y", ANY), 0);
	assert_int_equal(put(f, "a/3", "z", 77), 1);
	assert_int_equal(put(f, "a/3", "z", 0), 0);
	assert_int_equal(put(f, "a/1", NULL, ANY), 0);
	assert_string_equal(s.text, "a/1=y a/3=z a/1- ");

	assert_int_equal(lg_store_watch(f->store, "", seen_note, &all), 0);
	WAIT_FOR(f->n.loop, all.text[0]);
	assert_string_equal(all.text, "a/2= a/3=z b=y ");
	assert_int_equal(put(f, "b", NULL, ANY), 0);
	assert_string_equal(all.text, "a/2= a/3=z b=y b- ");
	assert_string_equal(s.text, "a/1=y a/3=z a/1- ");
}

static void seen_use(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct lg_store_write write = { "copy", value, len, LG_STORE_REVISION_ANY, 0 };
	static struct outcome o;
	struct seen *s = arg;
	uint64_t got;

	if (strcmp(key, "copy") != 0) {
		assert_memory_equal(get(s->f, key, &got), value, len);
		assert_int_equal(got, revision);
		assert_int_equal(lg_store_commit(s->f->store, &write, 1, outcome_note, &o), 0);
	}
	seen_note(arg, key, value, len, revision);
}

static void a_watch_may_use_the_store(void **state)
{
	struct fixture *f = *state;
	struct seen s = { .f = f };

	assert_int_equal(put(f, "a", "1", ANY), 0);
	assert_int_equal(lg_store_watch(f->store, "", seen_use, &s), 0);
	WAIT_FOR(f->n.loop, strcmp(s.text, "a=1 copy=1 ") == 0);
	assert_int_equal(put(f, "a", "2", ANY), 0);
	WAIT_FOR(f->n.loop, strcmp(s.text, "a=1 copy=1 a=2 copy=2 ") == 0);
}

static void who_is_here_puts_temporary_keys(void **state)
{
	struct fixture *f = *state;
	struct lg_store_write write = { "here/one", "1", 1, 0, LG_STORE_TEMPORARY };
	uint64_t revision;

	assert_int_equal(lg_store_here_until_ns(f->store), 0);
	assert_int_equal(lg_store_join(f->store), 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) > lg_clock_now_ns());
	assert_int_equal(lg_store_here_since(f->store), 1);
	assert_int_equal(store_commit(&f->n, f->store, &write, 1), 0);
	assert_string_equal(get(f, "here/one", &revision), "1");
	assert_int_equal(lg_store_is_shared(f->store), strcmp(f->driver, "etcd") == 0);
}

static void an_unknown_driver_is_refused_with_those_there_are(void **state)
{
	const struct lg_store_options options = { .driver = "paper", .path = "/tmp/x" };
	struct lg_complaint c = { .file = "x", .line = 3 };
	struct lg_store *store = NULL;
	struct fixture *f = *state;

	assert_int_equal(lg_store_open(f->n.loop, &options, NULL, NULL, &store, &c), -EINVAL);
	assert_string_equal(c.text, "no store is called \"paper\": there are sqlite, memory, etcd");
	assert_string_equal(c.file, "");
	assert_null(store);
	assert_null(lg_store_free(NULL));
}

static void writes_of_one_turn_are_carried_out_in_order(void **state)
{
	struct fixture *f = *state;
	struct outcome outcomes[200] = { 0 };
	char value[8];
	uint64_t revision;

	for (size_t i = 0; i < N_ELEMS(outcomes); i++) {
		struct lg_store_write write = { "a", value, 4, ANY, 0 };

		snprintf(value, sizeof(value), "%04zu", i);
		assert_int_equal(lg_store_commit(f->store, &write, 1, outcome_note, &outcomes[i]), 0);
		assert_int_equal(outcomes[i].n_done, 0); /* never from inside */
	}
	for (size_t i = 0; i < N_ELEMS(outcomes); i++) {
		WAIT_FOR(f->n.loop, outcomes[i].n_done == 1);
		assert_int_equal(outcomes[i].result, 0);
	}
	assert_string_equal(get(f, "a", &revision), "0199");
}

static void who_asks_for_a_temporary_key_of_his_writes_nothing_once_it_is_another_ones(void **state)
{
	struct lg_store_write mine = { "slot", "one", 3, 0, LG_STORE_TEMPORARY }, writes[] = { { "slot", NULL, 0, 0, LG_STORE_CHECK },
											       { "a", "of one", 6, ANY, 0 } };
	struct fixture *f = *state;
	struct lg_store *second = open_one(f);
	uint64_t revision;

	assert_int_equal(lg_store_join(f->store), 0);
	assert_int_equal(lg_store_join(second), 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) && lg_store_here_until_ns(second));
	assert_int_equal(store_commit(&f->n, f->store, &mine, 1), 0);
	assert_string_equal(get(f, "slot", &revision), "one");
	writes[0].if_revision = revision;
	assert_int_equal(store_commit(&f->n, f->store, writes, 2), 0);
	/* The other one cannot make it while it is there. */
	mine.value = "two";
	assert_int_equal(store_commit(&f->n, second, &mine, 1), 1);
	assert_int_equal(put(f, "slot", NULL, revision), 0);
	assert_int_equal(store_commit(&f->n, second, &mine, 1), 0);
	assert_int_equal(store_commit(&f->n, f->store, writes, 2), 1);
	assert_string_equal(get(f, "a", &revision), "of one");
	lg_store_free(second);
}

static void a_cluster_that_is_away_for_a_while_is_no_end(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(lg_store_join(f->store), 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) > lg_clock_now_ns());
	assert_int_equal(put(f, "a", "before", ANY), 0);
	etcd_kill(cluster, 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) == 0);
	assert_true(store_get_is(f->store, "a", "before")); /* readers go on */
	etcd_start(cluster, 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) > lg_clock_now_ns());
	assert_int_equal(put(f, "a", "after", ANY), 0);
}

static void what_one_writes_the_other_is_told(void **state)
{
	struct fixture *f = *state;
	struct lg_store *second = open_one(f);
	struct lg_store_write write = { "a", "of two", 6, 0, 0 };
	struct seen s = { .f = f };

	assert_int_equal(lg_store_watch(f->store, "a", seen_note, &s), 0);
	assert_int_equal(store_commit(&f->n, second, &write, 1), 0);
	assert_int_equal(store_commit(&f->n, second, &write, 1), 1);
	WAIT_FOR(f->n.loop, strcmp(s.text, "a=of two ") == 0);
	write.value = NULL;
	write.if_revision = s.revision;
	assert_int_equal(store_commit(&f->n, second, &write, 1), 0);
	WAIT_FOR(f->n.loop, strcmp(s.text, "a=of two a- ") == 0);
	lg_store_free(second);
}

static void temporary_keys_go_with_who_put_them(void **state)
{
	struct fixture *f = *state;
	struct lg_store_write writes[] = { { "here/one", "1", 1, 0, LG_STORE_TEMPORARY }, { "stays", "1", 1, 0, 0 } };
	struct lg_store *second = open_one(f);
	struct seen s = { .f = f };
	uint64_t gone_ns;

	/* Before one is here nothing would end them. */
	assert_int_equal(store_commit(&f->n, f->store, writes, 2), -EHOSTUNREACH);
	assert_int_equal(lg_store_join(f->store), 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) > lg_clock_now_ns());
	assert_true(lg_store_here_until_ns(f->store) < lg_clock_now_ns() + 2 * LG_NS_PER_S);
	assert_int_equal(store_commit(&f->n, f->store, writes, 2), 0);
	assert_int_equal(lg_store_watch(second, "", seen_note, &s), 0);
	WAIT_FOR(f->n.loop, strcmp(s.text, "here/one=1 stays=1 ") == 0);
	gone_ns = lg_clock_now_ns();
	f->store = lg_store_free(f->store);
	WAIT_FOR(f->n.loop, strcmp(s.text, "here/one=1 stays=1 here/one- ") == 0);
	assert_true(lg_clock_now_ns() - gone_ns < 4 * LG_NS_PER_S);
	f->store = second;
}

static void after_an_outage_a_watch_is_told_what_has_changed_meanwhile(void **state)
{
	struct fixture *f = *state;
	struct lg_store_write here = { "here/one", "1", 1, 0, LG_STORE_TEMPORARY };
	struct seen s = { .f = f };

	assert_int_equal(lg_store_join(f->store), 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) > lg_clock_now_ns());
	assert_int_equal(store_commit(&f->n, f->store, &here, 1), 0);
	assert_int_equal(lg_store_watch(f->store, "", seen_note, &s), 0);
	WAIT_FOR(f->n.loop, strcmp(s.text, "here/one=1 ") == 0);
	etcd_kill(cluster, 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) == 0);
	etcd_start(cluster, 0);
	WAIT_FOR(f->n.loop, strcmp(s.text, "here/one=1 here/one- ") == 0);
	WAIT_FOR(f->n.loop, lg_store_here_until_ns(f->store) > lg_clock_now_ns());
	assert_int_equal(lg_store_here_since(f->store), 2);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->driver = *state;
	strcpy(f->dir, "/tmp/lg-store-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	/* In a cluster it is what all keys begin with: nobody else's. */
	snprintf(f->path, sizeof(f->path), "%s/store.db", f->dir);
	f->n = net_loop_new();
	f->store = open_one(f);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	struct fixture *f = *state;
	char path[80];

	lg_store_free(f->store);
	net_loop_free(&f->n);
	for (size_t i = 0; i < N_ELEMS(ends); i++) {
		snprintf(path, sizeof(path), "%s%s", f->path, ends[i]);
		unlink(path);
	}
	rmdir(f->dir);
	free(f);
	return 0;
}

#define ROW(fn, name)                                                                                                  \
	{                                                                                                              \
#fn, fn, setup, teardown, (void *)(name)                                                               \
	}

int main(void)
{
	const struct CMUnitTest of_etcd[] = {
		ROW(who_asks_for_a_temporary_key_of_his_writes_nothing_once_it_is_another_ones, "etcd"),
		ROW(a_cluster_that_is_away_for_a_while_is_no_end, "etcd"),
		ROW(what_one_writes_the_other_is_told, "etcd"),
		ROW(temporary_keys_go_with_who_put_them, "etcd"),
		ROW(after_an_outage_a_watch_is_told_what_has_changed_meanwhile, "etcd"),
	};
	int failed = 0;

	net_alone();
	cluster = etcd_cluster_new(1, NULL);
	if (!cluster) {
		fprintf(stderr, "there is no build/etcd/etcd: run scripts/fetch-etcd\n");
		return 1;
	}
	for (size_t i = 0; lg_store_driver_at(i); i++) {
		const char *name = lg_store_driver_at(i)->name;
		const struct CMUnitTest tests[] = {
			ROW(what_was_put_is_got_and_what_was_deleted_is_not, name),
			ROW(values_are_bytes_of_any_kind_and_length, name),
			ROW(a_value_larger_than_the_buffer_is_not_cut, name),
			ROW(a_revision_lets_through_only_who_saw_the_last_state, name),
			ROW(a_commit_is_all_or_nothing, name),
			ROW(requests_that_are_malformed_write_nothing, name),
			ROW(the_largest_commit_is_one, name),
			ROW(a_walk_visits_keys_of_a_prefix_in_byte_order, name),
			ROW(inside_a_walk_the_store_can_be_read_and_not_written, name),
			ROW(a_long_random_history_is_as_a_model_says, name),
			ROW(writes_of_one_turn_are_carried_out_in_order, name),
			ROW(a_check_lets_a_commit_through_and_writes_nothing, name),
			ROW(a_watch_tells_what_there_is_and_each_change_behind_its_prefix, name),
			ROW(a_watch_may_use_the_store, name),
			ROW(who_is_here_puts_temporary_keys, name),
			ROW(an_unknown_driver_is_refused_with_those_there_are, name),
		};

		failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
	}
	failed += cmocka_run_group_tests(of_etcd, NULL, NULL);
	etcd_cluster_free(cluster);
	return failed;
}
