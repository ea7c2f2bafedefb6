// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Does the search find what it is for? Messages are changed on their way so that they say what a faulty implementation would say. Some
 * changes must break the law within a few hundred seeds, or the search is blind; others are what a network does anyway and must be
 * survived.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lease/arith.h"
#include "tests/lib/sim_plan.h"

#define N_SEEDS 150

/* What passed by, per holder: a host's towards its region, or a region's towards the home. Cleared for each seed. */
struct account {
	uint32_t generation;		/* newest told to the holder */
	uint64_t granted_tok;		/* its total */
	uint64_t returned_tok;		/* as the holder last said, of that generation */
	uint64_t before_tok;		/* totals of all earlier generations */
	uint64_t before_returned_tok;
	uint64_t lapsed_tok;		/* a part of what earlier generations were granted */
	struct lg_grant old;		/* some grant of earlier */
};

static struct account accounts[2][SIM_HOSTS_MAX];

static struct account *account_of(uint32_t holder, bool home)
{
	return &accounts[home][holder];
}

/* Follows what the lessor tells. */
static void follow(struct account *a, const struct lg_grant *grant)
{
	if (grant->generation > a->generation) {
		a->before_tok += a->granted_tok;
		a->before_returned_tok += a->returned_tok;
		a->lapsed_tok += a->granted_tok / 4;
		a->granted_tok = a->returned_tok = 0;
		a->generation = grant->generation;
	}
	a->granted_tok = lg_max_u64(a->granted_tok, grant->granted_tok);
}

static bool follow_grant(struct sim *s, uint32_t holder, bool home, struct lg_grant *grant)
{
	(void)s;
	follow(account_of(holder, home), grant);
	return true;
}

/* Slots that claim to be a second older than they are. */
static bool overstate_ages(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	(void)s;
	(void)holder;
	for (size_t i = 0; !home && i < ask->n_slots; i++)
		ask->slots[i].age_ms += 1000;
	return true;
}

/* What lapsed is given back later, out of the lease that followed: "spent until a late report says less". */
static bool refund_after_lapse(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	struct account *a = account_of(holder, home);

	(void)s;
	if (ask->generation == a->generation)
		ask->returned_tok += lg_min_u64(a->lapsed_tok, ask->granted_tok - ask->spent_tok - ask->returned_tok);
	return true;
}

/* Totals that go on over a lapse, both ways, as if there were no generations: grants that were lost come to life again. */
static bool go_on_granting(struct sim *s, uint32_t holder, bool home, struct lg_grant *grant)
{
	struct account *a = account_of(holder, home);

	(void)s;
	follow(a, grant);
	grant->generation = 1;
	grant->granted_tok += a->before_tok;
	return true;
}

static bool go_on_reporting(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	struct account *a = account_of(holder, home);

	(void)s;
	if (!ask->generation)
		return true;
	ask->generation = a->generation;
	ask->granted_tok = a->granted_tok;
	ask->returned_tok = lg_min_u64(lg_sub_floor(ask->returned_tok, a->before_returned_tok), a->granted_tok);
	ask->spent_tok = lg_min_u64(lg_sub_floor(ask->spent_tok, a->before_tok - a->before_returned_tok),
				    a->granted_tok - ask->returned_tok);
	a->returned_tok = ask->returned_tok;
	return true;
}

/* Nobody tells a new life what was spent in the last window. */
static bool forget_history(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	(void)s;
	(void)holder;
	(void)home;
	ask->n_history = 0;
	return true;
}

/* Leases that last longer at the holder than at the lessor. */
static bool stretch_ttl(struct sim *s, uint32_t holder, bool home, struct lg_grant *grant)
{
	(void)s;
	(void)holder;
	(void)home;
	grant->ttl_ms += 10000;
	return true;
}

/* A holder that says it gave back what it keeps. */
static bool pretend_returns(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	(void)s;
	(void)holder;
	(void)home;
	ask->returned_tok += (ask->granted_tok - ask->spent_tok - ask->returned_tok) / 2;
	return true;
}

/* Every tenth grant is an older one, of any generation, instead. */
static bool replay_grants(struct sim *s, uint32_t holder, bool home, struct lg_grant *grant)
{
	struct account *a = account_of(holder, home);
	double chance = sim_random(s);

	if (chance < 0.1 && a->old.epoch)
		*grant = a->old;
	else if (chance < 0.2)
		a->old = *grant;
	return true;
}

/* Totals without a word about when. */
static bool drop_slots(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	(void)s;
	(void)holder;
	(void)home;
	ask->n_slots = 0;
	return true;
}

/* Slots that tell of twice as much as was spent. */
static bool double_slots(struct sim *s, uint32_t holder, bool home, struct lg_ask *ask)
{
	(void)s;
	(void)holder;
	(void)home;
	for (size_t i = 0; i < ask->n_slots; i++)
		ask->slots[i].tok *= 2;
	return true;
}

/* A third of everything is lost, for ever. */
static bool lose_grants(struct sim *s, uint32_t holder, bool home, struct lg_grant *grant)
{
	(void)holder;
	(void)home;
	(void)grant;
	return sim_random(s) > 0.33;
}

static uint64_t n_broken(const struct sim_mutant *mutant, enum lg_algorithm algorithm)
{
	uint64_t n = 0;

	for (uint64_t seed = 1; seed <= N_SEEDS; seed++) {
		_cleanup_(sim_free) struct sim *s = NULL;

		memset(accounts, 0, sizeof(accounts));
		assert_int_equal(sim_plan_new(seed, algorithm, mutant, &s), 0);
		sim_run(s);
		n += sim_result_of(s)->broken[0] != '\0';
	}
	return n;
}

/* least: seeds that must find it, for buckets and for windows. */
static void must_break(const char *what, const struct sim_mutant *mutant, uint64_t least_bucket, uint64_t least_window)
{
	uint64_t bucket = n_broken(mutant, LG_TOKEN_BUCKET), window = n_broken(mutant, LG_SLIDING_WINDOW);

	print_message("%s: breaks %llu buckets and %llu windows of %d\n", what, (unsigned long long)bucket, (unsigned long long)window,
		      N_SEEDS);
	assert_true(bucket >= least_bucket);
	assert_true(window >= least_window);
}

static void must_survive(const struct sim_mutant *mutant)
{
	assert_int_equal(n_broken(mutant, LG_TOKEN_BUCKET), 0);
	assert_int_equal(n_broken(mutant, LG_SLIDING_WINDOW), 0);
}

static void overstated_ages_break_the_law(void **state)
{
	(void)state;
	must_break("ages a second too old", &(struct sim_mutant){ .ask = overstate_ages }, 20, 20);
}

static void refunds_after_a_lapse_break_the_law(void **state)
{
	(void)state;
	must_break("refunds after a lapse", &(struct sim_mutant){ .ask = refund_after_lapse, .grant = follow_grant }, 10, 10);
}

static void totals_that_go_on_over_a_lapse_break_the_law(void **state)
{
	(void)state;
	must_break("no generations", &(struct sim_mutant){ .ask = go_on_reporting, .grant = go_on_granting }, 5, 5);
}

static void a_window_nobody_remembers_breaks_the_law(void **state)
{
	(void)state;
	must_break("no history", &(struct sim_mutant){ .ask = forget_history }, 0, 10);
}

static void leases_that_outlive_their_lessors_books_break_the_law(void **state)
{
	(void)state;
	must_break("ttl ten seconds longer", &(struct sim_mutant){ .grant = stretch_ttl }, 1, 3);
}

static void returns_of_what_is_kept_break_the_law(void **state)
{
	(void)state;
	must_break("pretended returns", &(struct sim_mutant){ .ask = pretend_returns }, 50, 50);
}

static void replayed_grants_are_survived(void **state)
{
	(void)state;
	must_survive(&(struct sim_mutant){ .grant = replay_grants });
}

static void reports_without_slots_are_survived(void **state)
{
	(void)state;
	must_survive(&(struct sim_mutant){ .ask = drop_slots });
}

static void slots_that_say_too_much_are_survived(void **state)
{
	(void)state;
	must_survive(&(struct sim_mutant){ .ask = double_slots });
}

static void a_third_of_all_grants_lost_is_survived(void **state)
{
	(void)state;
	must_survive(&(struct sim_mutant){ .grant = lose_grants });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overstated_ages_break_the_law),
		cmocka_unit_test(refunds_after_a_lapse_break_the_law),
		cmocka_unit_test(totals_that_go_on_over_a_lapse_break_the_law),
		cmocka_unit_test(a_window_nobody_remembers_breaks_the_law),
		cmocka_unit_test(leases_that_outlive_their_lessors_books_break_the_law),
		cmocka_unit_test(returns_of_what_is_kept_break_the_law),
		cmocka_unit_test(replayed_grants_are_survived),
		cmocka_unit_test(reports_without_slots_are_survived),
		cmocka_unit_test(slots_that_say_too_much_are_survived),
		cmocka_unit_test(a_third_of_all_grants_lost_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
