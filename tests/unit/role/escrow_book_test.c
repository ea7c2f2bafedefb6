// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Marks of real homes in a real store, over lives of the server that makes them. */
#include "role/escrow_book.h"

#include <errno.h>

#include "base/clock.h"
#include "tests/unit/store/store_test.h"

#define S 1000000000ull
#define T0 (1000 * S)
#define UNIX0 (1700000000 * S)
#define TEST(name) static void name(void **state __attribute__((unused)))
#define IDENTITY 77

/* One life of a server with a few keys. */
struct life {
	struct lg_escrow_book *book;
	uint64_t now_ns;
	struct lg_terms terms;
	struct lg_succession *succession;	/* somebody has yet to tell */
	struct lg_lessor lessor;
	struct key {
		struct life *life;
		struct lg_escrow_entry e;
		uint64_t granted_tok;
		uint32_t n_durable, n_not;
	} keys[300];
	size_t n_keys;
	uint32_t n_flushes;
};

static struct net_loop n;
static struct lg_store *store;

static void on_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	(void)holder;
	((struct key *)arg)->granted_tok = grant->granted_tok;
}

static void on_reserve(void *arg)
{
	struct key *k = arg;

	lg_escrow_book_due(k->life->book, &k->e);
}

static void on_marked(void *arg, struct lg_escrow_entry *e, bool is_durable)
{
	struct key *k = (struct key *)((char *)e - offsetof(struct key, e));
	struct lg_home_effects fx = { .arg = k, .grant = on_grant, .reserve = on_reserve };

	k->n_durable += is_durable;
	k->n_not += !is_durable;
	lg_home_marked(e->home, is_durable, ((struct life *)arg)->now_ns, &fx);
}

static size_t on_covers(void *arg, uint32_t slot, uint64_t ret[LG_RULES_MAX])
{
	(void)arg;
	(void)slot;
	ret[0] = IDENTITY;
	return 1;
}

static void on_flush(void *arg)
{
	((struct life *)arg)->n_flushes++;
}

/* Its clock shows now_ns when the one that all share shows unix_ns. */
static struct life *life_begin(uint64_t now_ns, uint64_t unix_ns, uint64_t writer)
{
	struct life *l = calloc(1, sizeof(*l));
	struct lg_escrow_book_options options = { .store = store, .writer = writer, .at_ns = now_ns, .at_unix_ns = unix_ns,
						  .marked = on_marked, .covers = on_covers, .flush = on_flush, .arg = l };
	struct lg_complaint c = { 0 };

	assert_non_null(l);
	l->now_ns = now_ns;
	l->terms = (struct lg_terms){
		.algorithm = LG_FIXED_WINDOW, .limit_tok = 1000, .per_ns = 10 * S, .budget_tok = 1000, .max_outstanding_tok = 1000,
		.cost_tok = 1, .regions = 1, .hosts = 1, .reserves = true, .escrow_period_ns = S, .home_tick_ns = 100000000,
		.region_period_ns = S, .host_period_ns = S / 4, .slot_ns = 100000000, .ttl_ns = 10 * S, .grace_ns = S,
	};
	assert_int_equal(lg_succession_new(now_ns, &l->succession), 0);
	assert_int_equal(lg_succession_list(l->succession, 1), 0);
	l->lessor = (struct lg_lessor){ .terms = &l->terms, .succession = l->succession, .reserves = true, .epoch = 1, .rand = 1,
					.origin_ns = (now_ns % (10 * S) + 10 * S - unix_ns % (10 * S)) % (10 * S) };
	assert_int_equal(lg_escrow_book_new(&options, &l->book), 0);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		assert_int_equal(lg_escrow_book_open(l->book, slot, now_ns, &c), 0);
	return l;
}

static struct key *key_open(struct life *l, uint8_t name, uint16_t slot)
{
	struct key *k = &l->keys[l->n_keys++];
	struct lg_home_past past = { 0 };

	memset(k->e.id, name, sizeof(k->e.id));
	k->life = l;
	k->e.slot = slot;
	k->e.lessor = &l->lessor;
	past.mark = lg_escrow_book_claim(l->book, &k->e);
	past.since_ns = past.mark ? lg_escrow_book_since_ns(l->book, slot) : 0;
	assert_int_equal(lg_home_new_after(&l->lessor, &past, l->now_ns, &k->e.home), 0);
	lg_escrow_book_add(l->book, &k->e);
	return k;
}

static void ask(struct key *k, uint64_t want_tok)
{
	struct lg_home_effects fx = { .arg = k, .grant = on_grant, .reserve = on_reserve };
	struct lg_ask a = { .seq = 1, .life = 1, .epoch = 1, .request = true, .want_tok = want_tok };

	lg_home_ask(k->e.home, 0, 1, &a, k->life->now_ns, &fx);
}

static struct lg_escrow_book_counts counts(struct life *l)
{
	struct lg_escrow_book_counts c;

	lg_escrow_book_counts(l->book, &c);
	return c;
}

static void write_all(struct life *l)
{
	lg_escrow_book_write(l->book, l->now_ns);
	WAIT_FOR(n.loop, lg_escrow_book_is_done(l->book));
}

static void life_end(struct life *l)
{
	for (size_t i = 0; i < l->n_keys; i++)
		lg_home_free(l->keys[i].e.home);
	lg_escrow_book_free(l->book);
	lg_succession_free(l->succession);
	free(l);
}

static int setup(void **state)
{
	struct lg_store_options options = { .driver = "memory" };

	(void)state;
	n = net_loop_new();
	store = store_open(&n, &options);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lg_store_free(store);
	net_loop_free(&n);
	return 0;
}

TEST(a_key_is_lent_when_its_page_is_durable_and_another_life_finds_its_mark)
{
	struct life *l = life_begin(T0, UNIX0, 1);
	struct key *k = key_open(l, 5, 17), *other;
	struct lg_home_view v;

	ask(k, 100);
	assert_int_equal(k->granted_tok, 0);
	write_all(l);
	assert_int_equal(k->granted_tok, 100);
	assert_int_equal(counts(l).n_pages, 1);
	assert_true(l->n_flushes > 0);
	life_end(l);

	/* two seconds later, on another machine with another clock */
	l = life_begin(5 * S, UNIX0 + 2 * S, 2);
	assert_true(lg_escrow_book_covers(l->book, 17, IDENTITY));
	assert_false(lg_escrow_book_covers(l->book, 18, IDENTITY));
	other = key_open(l, 6, 17);
	lg_home_view(other->e.home, l->now_ns, &v);
	assert_int_equal(v.unknown_tok, 0);
	k = key_open(l, 5, 17);
	lg_home_view(k->e.home, l->now_ns, &v);
	assert_int_equal(v.unknown_tok, 200);	/* twice what was asked for: it was in this window */
	assert_int_equal(v.window_end_ns, 5 * S + 8 * S);
	life_end(l);

	/* in the next window, what was reserved for it; in the one after that, nothing */
	for (uint64_t i = 1; i <= 2; i++) {
		l = life_begin(100 * S, UNIX0 + i * 10 * S, 3);
		k = key_open(l, 5, 17);
		lg_home_view(k->e.home, l->now_ns, &v);
		assert_int_equal(v.unknown_tok, i == 1 ? 200 : 0);
		life_end(l);
	}
}

TEST(a_mark_that_nobody_claims_is_written_again_until_it_no_longer_matters)
{
	struct life *l = life_begin(T0, UNIX0, 1);
	uint64_t memory_ns = (2 * 10 + 10 + 1) * S;

	ask(key_open(l, 5, 17), 100);
	write_all(l);
	life_end(l);
	for (uint64_t i = 0; i < 3; i++) {
		l = life_begin(T0, UNIX0, 2 + i);
		l->now_ns += i == 1 ? memory_ns : i == 2 ? 2 * memory_ns : 0;
		lg_escrow_book_touch(l->book, 17);
		write_all(l);
		life_end(l);
		l = life_begin(T0, UNIX0, 9);
		l->keys[0].e.slot = 17;
		memset(l->keys[0].e.id, 5, sizeof(l->keys[0].e.id));
		assert_int_equal(lg_escrow_book_claim(l->book, &l->keys[0].e) != NULL, i < 2);
		assert_null(lg_escrow_book_claim(l->book, &l->keys[0].e));	/* it is somebody's */
		/* one that could not be opened after all leaves it to the next */
		lg_escrow_book_remove(l->book, &l->keys[0].e, false);
		assert_int_equal(lg_escrow_book_claim(l->book, &l->keys[0].e) != NULL, i < 2);
		life_end(l);
	}
}

static int tick_inside(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct life *l = arg;

	(void)key;
	(void)value;
	(void)len;
	(void)revision;
	lg_escrow_book_write(l->book, l->now_ns);
	return 0;
}

TEST(what_cannot_be_written_is_not_lent_and_is_tried_again)
{
	struct life *l = life_begin(T0, UNIX0, 1);
	struct key *k = key_open(l, 5, 17);

	assert_int_equal(store_put(&n, store, "any", "thing"), 0);
	ask(k, 100);
	assert_int_equal(lg_store_each(store, "any", tick_inside, l), 0);	/* a store that is being read takes no writes */
	assert_true(counts(l).n_failed > 0);
	assert_non_null(counts(l).why);
	assert_int_equal(k->granted_tok, 0);
	assert_int_equal(k->n_durable, 0);
	lg_escrow_book_tick(l->book, lg_clock_now_ns());	/* not at once */
	assert_int_equal(counts(l).n_commits, 0);
	WAIT_FOR(n.loop, (lg_escrow_book_tick(l->book, lg_clock_now_ns()), k->granted_tok == 100));
	assert_null(counts(l).why);
	life_end(l);
}

TEST(who_finds_that_another_has_written_lends_no_more)
{
	struct life *old = life_begin(T0, UNIX0, 1), *new;
	struct key *k = key_open(old, 5, 17), *mine;

	ask(k, 100);
	write_all(old);
	assert_int_equal(k->granted_tok, 100);
	/* the next one reads and writes the page while this one has not noticed */
	new = life_begin(T0, UNIX0, 2);
	mine = key_open(new, 5, 17);
	ask(mine, 500);
	write_all(new);
	assert_int_equal(mine->granted_tok, 500);
	ask(key_open(old, 6, 17), 10);
	lg_escrow_book_write(old->book, old->now_ns);
	WAIT_FOR(n.loop, lg_escrow_book_is_done(old->book));
	assert_string_equal(counts(old).why, "somebody else has written escrow/017");
	assert_int_equal(old->keys[1].granted_tok, 0);
	assert_int_equal(old->keys[1].n_not, 1);
	life_end(old);
	life_end(new);
}

TEST(garbage_is_refused_and_named)
{
	struct lg_escrow_book_options options = { .store = store, .marked = on_marked, .covers = on_covers };
	struct lg_escrow_book *book;
	struct lg_complaint c = { 0 };

	assert_int_equal(store_put(&n, store, "escrow/200", "a value of somebody else's making"), 0);
	assert_int_equal(lg_escrow_book_new(&options, &book), 0);
	assert_int_equal(lg_escrow_book_open(book, 199, T0, &c), 0);
	assert_true(lg_escrow_book_open(book, 200, T0, &c) < 0);
	assert_non_null(strstr(c.text, "escrow/200"));
	assert_non_null(strstr(c.text, "delete that key"));
	assert_false(lg_escrow_book_is_open(book, 200));
	lg_escrow_book_free(book);
}

TEST(all_slots_that_are_due_are_in_as_few_commits_as_there_can_be)
{
	struct life *l = life_begin(T0, UNIX0, 1);

	for (uint16_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		ask(key_open(l, (uint8_t)slot, slot), 1);
	write_all(l);
	assert_int_equal(counts(l).n_pages, LG_KEY_SLOTS);
	assert_int_equal(counts(l).n_commits, 3);	/* of 127, 127 and 2 */
	assert_int_equal(counts(l).n_keys, LG_KEY_SLOTS);
	life_end(l);
}

TEST(keys_of_a_slot_are_marked_together)
{
	struct life *l = life_begin(T0, UNIX0, 1);
	struct key *a = key_open(l, 1, 17), *b = key_open(l, 2, 17);

	ask(a, 10);
	write_all(l);
	assert_int_equal(a->n_durable, 1);
	assert_int_equal(b->n_durable, 1);
	assert_int_equal(counts(l).n_pages, 1);
	life_end(l);
}

TEST(the_last_marks_give_back_what_was_not_lent)
{
	struct life *l = life_begin(T0, UNIX0, 1);
	struct key *k = key_open(l, 5, 17);
	struct lg_home_view v;

	ask(k, 100);
	write_all(l);
	lg_escrow_book_finish(l->book);
	assert_false(lg_escrow_book_is_done(l->book));
	lg_escrow_book_tick(l->book, l->now_ns);
	WAIT_FOR(n.loop, lg_escrow_book_is_done(l->book));
	life_end(l);
	l = life_begin(T0, UNIX0, 2);
	k = key_open(l, 5, 17);
	lg_home_view(k->e.home, l->now_ns, &v);
	assert_int_equal(v.unknown_tok, 100);
	life_end(l);
}

TEST(of_slots_that_are_handed_over_what_was_not_lent_is_there_for_the_next_owner)
{
	struct life *l = life_begin(T0, UNIX0, 1), *next;
	struct key *given = key_open(l, 5, 17), *kept = key_open(l, 6, 18);
	struct lg_slot_set slots = { 0 };
	struct lg_home_view v;

	ask(given, 100);
	ask(kept, 100);
	write_all(l);
	lg_slot_set_add(&slots, 17);
	lg_escrow_book_hand_over(l->book, &slots, l->now_ns);
	lg_escrow_book_remove(l->book, &given->e, false);
	lg_escrow_book_close(l->book, 17);
	WAIT_FOR(n.loop, lg_escrow_book_is_done(l->book));
	next = life_begin(T0, UNIX0, 2);
	lg_home_view(key_open(next, 5, 17)->e.home, l->now_ns, &v);
	assert_int_equal(v.unknown_tok, 100);
	/* Whoever goes on lending keeps his reserve. */
	lg_home_view(key_open(next, 6, 18)->e.home, l->now_ns, &v);
	assert_true(v.unknown_tok > 100);
	life_end(next);
	life_end(l);
}

TEST(a_key_that_goes_leaves_its_page)
{
	struct life *l = life_begin(T0, UNIX0, 1);
	struct key *k = key_open(l, 5, 17);

	ask(k, 100);
	write_all(l);
	lg_escrow_book_remove(l->book, &k->e, true);
	write_all(l);
	assert_int_equal(counts(l).n_keys, 0);
	life_end(l);
	l = life_begin(T0, UNIX0, 2);
	l->keys[0].e.slot = 17;
	memset(l->keys[0].e.id, 5, sizeof(l->keys[0].e.id));
	assert_null(lg_escrow_book_claim(l->book, &l->keys[0].e));
	assert_true(lg_escrow_book_covers(l->book, 17, IDENTITY));
	/* a rule that became another is believed no more */
	lg_escrow_book_uncover(l->book, IDENTITY);
	assert_false(lg_escrow_book_covers(l->book, 17, IDENTITY));
	life_end(l);
}

#define WITH_STORE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_STORE(a_key_is_lent_when_its_page_is_durable_and_another_life_finds_its_mark),
		WITH_STORE(a_mark_that_nobody_claims_is_written_again_until_it_no_longer_matters),
		WITH_STORE(what_cannot_be_written_is_not_lent_and_is_tried_again),
		WITH_STORE(who_finds_that_another_has_written_lends_no_more),
		WITH_STORE(garbage_is_refused_and_named),
		WITH_STORE(all_slots_that_are_due_are_in_as_few_commits_as_there_can_be),
		WITH_STORE(keys_of_a_slot_are_marked_together),
		WITH_STORE(the_last_marks_give_back_what_was_not_lent),
		WITH_STORE(of_slots_that_are_handed_over_what_was_not_lent_is_there_for_the_next_owner),
		WITH_STORE(a_key_that_goes_leaves_its_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
