// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/claims.h"

#include "lease/arith.h"
#include "tests/unit/lease/lease_test.h"

#include <stdio.h>

#define SERVERS 4

/* Servers that see each other and what each has; what one does all others see at once. */
struct world {
	struct lg_slot_claim claims[LG_KEY_SLOTS];
	bool is_there[SERVERS];
	uint32_t session[SERVERS];
	struct lg_slot_set held[SERVERS];
	uint64_t revision;
	uint32_t n_moved;
};

static void name_of(uint32_t server, char name[LG_NAME_LEN])
{
	snprintf(name, LG_NAME_LEN, "server-%u", server);
}

static uint32_t server_of(const char *name)
{
	return name[0] ? (uint32_t)(name[strlen(name) - 1] - '0') : SERVERS;
}

static void sight_of(const struct world *w, uint32_t server, struct lg_claims_sight *ret)
{
	uint8_t index[SERVERS + 1];
	char name[LG_NAME_LEN];

	*ret = (struct lg_claims_sight){ .held = w->held[server] };
	memset(index, LG_NO_REPLICA, sizeof(index));
	for (uint32_t i = 0; i < SERVERS; i++)
		if (w->is_there[i])
			index[i] = (uint8_t)ret->n++;
	ret->self = index[server];
	name_of(server, name);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		bool is_free = lg_slot_claim_is_free(&w->claims[slot], name, w->session[server]);

		ret->owner[slot] = is_free ? LG_NO_REPLICA : index[server_of(w->claims[slot].name)];
		if (is_free)
			lg_slot_set_add(&ret->free, slot);
	}
}

/* One turn of one server. Returns how many slots changed. */
static uint32_t turn(struct world *w, uint32_t server)
{
	struct lg_claims_sight sight;
	struct lg_claims_plan plan;
	bool gives;

	sight_of(w, server, &sight);
	lg_claims_plan(&sight, &plan);
	gives = !lg_slot_set_is_empty(&plan.give);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		struct lg_slot_claim *claim = &w->claims[slot];

		if (gives && lg_slot_set_has(&plan.give, slot)) {
			lg_slot_set_del(&w->held[server], slot);
			*claim = (struct lg_slot_claim){ 0 };
		} else if (!gives && lg_slot_set_has(&plan.claim, slot)) {
			lg_slot_set_add(&w->held[server], slot);
			name_of(server, claim->name);
			claim->session = w->session[server];
			claim->revision = ++w->revision;
			w->n_moved++;
		}
	}
	return lg_slot_set_count(gives ? &plan.give : &plan.claim);
}

static void assert_one_owner_each(const struct world *w)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		uint32_t n = 0;

		for (uint32_t i = 0; i < SERVERS; i++)
			n += lg_slot_set_has(&w->held[i], slot);
		assert_in_range(n, 0, 1);
	}
}

/* Until nobody has anything to do. */
static void settle(struct world *w, uint64_t *rand)
{
	uint32_t n_idle = 0;

	for (uint32_t i = 0; n_idle < 64; i++) {
		uint32_t server = (uint32_t)(lg_rand_next(rand) % SERVERS);

		assert_in_range(i, 0, 4000);
		n_idle = w->is_there[server] && turn(w, server) ? 0 : n_idle + 1;
		assert_one_owner_each(w);
	}
}

static void assert_even(const struct world *w)
{
	uint32_t n = 0, all = 0;

	for (uint32_t i = 0; i < SERVERS; i++)
		n += w->is_there[i];
	for (uint32_t i = 0; i < SERVERS && n; i++) {
		uint32_t count = lg_slot_set_count(&w->held[i]);

		all += count;
		if (w->is_there[i])
			assert_in_range(count, LG_KEY_SLOTS / n, LG_KEY_SLOTS / n + 1);
		else
			assert_int_equal(count, 0);
	}
	assert_int_equal(all, n ? LG_KEY_SLOTS : 0);
}

/* Its claims are gone from where all can see them; it owns nothing. */
static void dies(struct world *w, uint32_t server)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (server_of(w->claims[slot].name) == server)
			w->claims[slot] = (struct lg_slot_claim){ 0 };
	w->held[server] = (struct lg_slot_set){ 0 };
	w->is_there[server] = false;
}

static void comes(struct world *w, uint32_t server)
{
	w->is_there[server] = true;
	w->session[server]++;
}

TEST(servers_that_come_and_die_share_all_slots_evenly_in_whatever_order_they_act)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct world w = { 0 };
		uint64_t rand = seed;

		comes(&w, 0);
		for (uint32_t step = 0; step < 8; step++) {
			uint32_t who = (uint32_t)(lg_rand_next(&rand) % SERVERS);

			settle(&w, &rand);
			assert_even(&w);
			if (w.is_there[who])
				dies(&w, who);
			else
				comes(&w, who);
		}
	}
}

TEST(one_that_comes_takes_its_share_and_nothing_else_moves)
{
	struct world w = { 0 };
	uint64_t rand = 3;

	comes(&w, 0);
	settle(&w, &rand);
	w.n_moved = 0;
	comes(&w, 1);
	settle(&w, &rand);
	assert_int_equal(w.n_moved, LG_KEY_SLOTS / 2);
}

TEST(as_long_as_there_is_too_much_only_a_part_is_given_at_once)
{
	struct lg_claims_sight sight = { .n = 2, .self = 0 };
	struct lg_claims_plan plan;

	lg_slot_set_fill(&sight.held);
	lg_claims_plan(&sight, &plan);
	assert_int_equal(lg_slot_set_count(&plan.give), LG_SLOTS_GIVEN_AT_ONCE);
	assert_true(lg_slot_set_is_empty(&plan.claim));
}

TEST(a_claim_of_ours_of_which_we_did_not_learn_is_given_back)
{
	struct lg_claims_sight sight = { .n = 1, .self = 0 };
	struct lg_claims_plan plan;

	lg_slot_set_fill(&sight.held);
	lg_slot_set_del(&sight.held, 7);
	lg_claims_plan(&sight, &plan);
	assert_int_equal(lg_slot_set_count(&plan.give), 1);
	assert_true(lg_slot_set_has(&plan.give, 7));
}

TEST(what_somebody_who_is_gone_has_claimed_waits_until_the_store_lets_it_go)
{
	struct lg_claims_sight sight = { .n = 1, .self = 0 };
	struct lg_claims_plan plan;

	lg_slot_set_fill(&sight.held);
	lg_slot_set_del(&sight.held, 9);
	sight.owner[9] = LG_NO_REPLICA;
	lg_claims_plan(&sight, &plan);
	assert_true(lg_slot_set_is_empty(&plan.claim) && lg_slot_set_is_empty(&plan.give));
	lg_slot_set_add(&sight.free, 9);
	lg_claims_plan(&sight, &plan);
	assert_true(lg_slot_set_has(&plan.claim, 9) && lg_slot_set_count(&plan.claim) == 1);
}

TEST(a_claim_of_an_earlier_session_of_ours_is_free_and_one_of_this_session_or_of_another_server_is_not)
{
	struct lg_slot_claim claim = { .name = "a", .session = 2 };

	assert_true(lg_slot_claim_is_free(&(struct lg_slot_claim){ 0 }, "a", 2));
	assert_false(lg_slot_claim_is_free(&claim, "a", 2));
	assert_true(lg_slot_claim_is_free(&claim, "a", 3));
	assert_false(lg_slot_claim_is_free(&claim, "b", 3));
}

TEST(a_server_lends_until_its_time_is_over_and_not_in_another_session)
{
	struct lg_presence here = { .session = 5, .until_ns = 1000 };

	assert_true(lg_presence_covers(&here, 5, 999));
	assert_false(lg_presence_covers(&here, 5, 1000));
	assert_false(lg_presence_covers(&here, 4, 999));
	assert_false(lg_presence_covers(&(struct lg_presence){ .session = 5 }, 5, 0));
}

TEST(an_epoch_is_above_the_newest_and_not_below_the_wall_clock)
{
	assert_int_equal(lg_claims_epoch(0, 100), 100);
	assert_int_equal(lg_claims_epoch(99, 100), 100);
	assert_int_equal(lg_claims_epoch(100, 100), 101);
	assert_int_equal(lg_claims_epoch(500, 100), 501);
}

TEST(a_slot_that_somebody_had_has_holders_and_is_settled_if_his_life_was)
{
	struct lg_slot_past first = lg_slot_past_of(false, 0, 0), settled = lg_slot_past_of(true, 7, 7), not_yet = lg_slot_past_of(true, 7, 6);

	assert_false(first.has_holders || first.is_unsettled);
	assert_true(settled.has_holders && !settled.is_unsettled);
	assert_true(not_yet.has_holders && not_yet.is_unsettled);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers_that_come_and_die_share_all_slots_evenly_in_whatever_order_they_act),
		cmocka_unit_test(one_that_comes_takes_its_share_and_nothing_else_moves),
		cmocka_unit_test(as_long_as_there_is_too_much_only_a_part_is_given_at_once),
		cmocka_unit_test(a_claim_of_ours_of_which_we_did_not_learn_is_given_back),
		cmocka_unit_test(what_somebody_who_is_gone_has_claimed_waits_until_the_store_lets_it_go),
		cmocka_unit_test(a_claim_of_an_earlier_session_of_ours_is_free_and_one_of_this_session_or_of_another_server_is_not),
		cmocka_unit_test(a_server_lends_until_its_time_is_over_and_not_in_another_session),
		cmocka_unit_test(an_epoch_is_above_the_newest_and_not_below_the_wall_clock),
		cmocka_unit_test(a_slot_that_somebody_had_has_holders_and_is_settled_if_his_life_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
