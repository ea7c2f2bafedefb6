// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/codec.h"
#include "api/rules_inbox.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "leasegate/abi.h"
#include "proto/lease.pb-c.h"

static const struct lg_wire_key source_key = {
	.rule = "per-user",
	.fingerprint = 0x0123456789abcdefull,
	.form = LG_FORM_SOURCE,
	.a = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7 },
};

static struct lg_ask full_ask(void)
{
	struct lg_ask ask = {
		.seq = UINT64_MAX,
		.life = UINT64_MAX - 1,
		.epoch = UINT32_MAX,
		.generation = 7,
		.request = true,
		.granted_tok = LG_WIRE_TOK_MAX,
		.spent_tok = 1000,
		.returned_tok = 20,
		.want_tok = 300,
		.demand_mtps = 4000,
		.peak_tok = 5,
		.hosts = 6,
		.kind = LG_LEASE_LIMIT,
		.limit_version = UINT32_MAX,
		.held_tok = LG_WIRE_LIMIT_MAX,
		.held_permille = LG_WIRE_PERMILLE_MAX,
		.n_slots = LG_SLOTS_MAX,
		.n_history = LG_HISTORY_MAX,
	};

	for (size_t i = 0; i < LG_SLOTS_MAX; i++)
		ask.slots[i] = (struct lg_slot){ .id = i + 1, .age_ms = 1000 - i, .tok = i * i };
	for (size_t i = 0; i < LG_HISTORY_MAX; i++)
		ask.history[i] = (struct lg_slot){ .id = i + 1, .age_ms = LG_WIRE_AGE_MAX_MS, .tok = 1ull << 40 };
	return ask;
}

static void check_slots(const struct lg_slot *a, const struct lg_slot *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(a[i].id, b[i].id);
		assert_int_equal(a[i].age_ms, b[i].age_ms);
		assert_int_equal(a[i].tok, b[i].tok);
	}
}

static void check_same_ask(const struct lg_ask *a, const struct lg_ask *b)
{
	assert_true(a->seq == b->seq && a->life == b->life);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->generation, b->generation);
	assert_int_equal(a->request, b->request);
	assert_int_equal(a->granted_tok, b->granted_tok);
	assert_int_equal(a->spent_tok, b->spent_tok);
	assert_int_equal(a->returned_tok, b->returned_tok);
	assert_int_equal(a->want_tok, b->want_tok);
	assert_int_equal(a->demand_mtps, b->demand_mtps);
	assert_int_equal(a->peak_tok, b->peak_tok);
	assert_int_equal(a->hosts, b->hosts);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->limit_version, b->limit_version);
	assert_int_equal(a->held_tok, b->held_tok);
	assert_int_equal(a->held_permille, b->held_permille);
	assert_int_equal(a->n_slots, b->n_slots);
	assert_int_equal(a->n_history, b->n_history);
	check_slots(a->slots, b->slots, a->n_slots);
	check_slots(a->history, b->history, a->n_history);
}

static struct lg_holder_msg *parse(const struct lg_text *text)
{
	struct lg_complaint c = { 0 };
	struct lg_holder_msg *msg;

	if (lg_holder_msg_parse((const uint8_t *)text->s, text->len, &msg, &c) < 0)
		fail_msg("%s", c.text);
	return msg;
}

static void requests_and_reports_survive_the_wire(void **state)
{
	struct lg_ask asks[3] = { full_ask(),
				  { .seq = 1, .kind = LG_LEASE_BLOCK },
				  { .seq = 2, .request = true, .want_tok = 9, .kind = LG_LEASE_LIMIT } };
	struct lg_ask back;
	const struct lg_wire_key rule_key = { .rule = "total", .form = LG_FORM_RULE };
	const struct lg_wire_key product_key = { .rule = "flows", .form = LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_PROTOCOL,
						 .a = { 0x20, 1 }, .b = { [12] = 17 } };
	const struct lg_wire_key *keys[] = { &source_key, &rule_key, &product_key };
	struct lg_text text = { 0 };
	struct lg_holder_msg *msg;
	struct lg_wire_key key;
	struct lg_lease_hello hello;
	uint64_t forgot_age_ms = 0;

	(void)state;
	asks[1].request = false;
	lg_codec_put_ask(&text, &source_key, &asks[0]);
	lg_codec_put_ask(&text, &rule_key, &asks[1]);
	lg_codec_put_ask(&text, &product_key, &asks[2]);
	lg_codec_put_synced(&text, 1234);
	msg = parse(&text);
	assert_false(lg_holder_msg_hello(msg, &hello));
	assert_true(lg_holder_msg_is_synced(msg, &forgot_age_ms));
	assert_int_equal(forgot_age_ms, 1234);
	assert_int_equal(lg_holder_msg_count(msg), 3);
	for (size_t i = 0; i < 3; i++) {
		memset(&back, 0xaa, sizeof(back));
		lg_holder_msg_ask(msg, i, &key, &back);
		check_same_ask(&asks[i], &back);
		assert_memory_equal(&key, keys[i], sizeof(key));
	}
	lg_holder_msg_free(msg);
	lg_text_fini(&text);
}

static void an_empty_message_is_an_empty_batch(void **state)
{
	struct lg_text text = { .s = "" };
	struct lg_holder_msg *msg = parse(&text);
	uint64_t forgot_age_ms;

	(void)state;
	assert_int_equal(lg_holder_msg_count(msg), 0);
	assert_false(lg_holder_msg_is_synced(msg, &forgot_age_ms));
	lg_holder_msg_free(msg);
}

static void state_check(const struct lg_rules_state *got, const struct lg_rules_state *want)
{
	assert_int_equal(lg_rules_stamp_compare(&got->running, &want->running), 0);
	assert_int_equal(lg_rules_stamp_compare(&got->refused, &want->refused), 0);
	assert_int_equal(lg_rules_stamp_compare(&got->getting, &want->getting), 0);
	assert_string_equal(got->why, want->why);
	assert_int_equal(got->is_chosen, want->is_chosen);
	assert_int_equal(got->got_bytes, want->got_bytes);
}

static void rules_survive_the_wire(void **state)
{
	const struct lg_rules_state said = { .running = { 1, 2, "eu" }, .why = "" };
	const struct lg_rules_part part = { .stamp = { 3, 4, "us" }, .total_bytes = 10, .offset = 4, .data = (const uint8_t *)"rules:",
					    .len = 6, .age_ms = 5 };
	struct lg_rules_state state_back;
	struct lg_rules_part part_back;
	struct lg_complaint c = { 0 };
	struct lg_text text = { 0 };
	struct lg_holder_msg *holder;
	struct lg_lessor_msg *lessor;

	(void)state;
	lg_codec_put_rules_state(&text, &said);
	holder = parse(&text);
	assert_true(lg_holder_msg_rules(holder, &state_back));
	state_check(&state_back, &said);
	lg_holder_msg_free(holder);
	lg_text_fini(&text);

	lg_codec_put_rules_part(&text, &part);
	assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &lessor, &c), 0);
	assert_true(lg_lessor_msg_rules(lessor, &part_back));
	assert_int_equal(lg_rules_stamp_compare(&part_back.stamp, &part.stamp), 0);
	assert_int_equal(part_back.total_bytes, 10);
	assert_int_equal(part_back.offset, 4);
	assert_int_equal(part_back.len, 6);
	assert_memory_equal(part_back.data, "rules:", 6);
	assert_int_equal(part_back.age_ms, 5);
	lg_lessor_msg_free(lessor);
	lg_text_fini(&text);
}

static void parts_that_do_not_fit_are_refused(void **state)
{
	static const uint8_t bytes[LG_RULES_PART_MAX + 1];
	const struct {
		struct lg_rules_part part;
		int want;
	} rows[] = {
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = LG_RULES_DOC_BYTES_MAX, .data = bytes, .len = LG_RULES_PART_MAX }, 0 },
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = LG_RULES_DOC_BYTES_MAX, .data = bytes, .len = LG_RULES_PART_MAX + 1 }, -EINVAL },
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = LG_RULES_DOC_BYTES_MAX + 1, .data = bytes, .len = 1 }, -EINVAL },
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = 10, .offset = 5, .data = bytes, .len = 5 }, 0 },
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = 10, .offset = 5, .data = bytes, .len = 6 }, -EINVAL },
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = 10, .offset = 11, .data = bytes, .len = 0 }, -EINVAL },
		{ { .stamp = { 1, 0, "no name" }, .total_bytes = 10, .data = bytes, .len = 1 }, -EINVAL },
		{ { .total_bytes = 10, .data = bytes, .len = 1 }, -EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_lessor_msg *lessor = NULL;
		struct lg_complaint c = { 0 };
		struct lg_text text = { 0 };

		lg_codec_put_rules_part(&text, &rows[i].part);
		assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &lessor, &c), rows[i].want);
		if (lessor)
			lg_lessor_msg_free(lessor);
		lg_text_fini(&text);
	}
}

static void parts_are_put_together_in_order_alone(void **state)
{
	const struct {
		struct lg_rules_part part;
		int want;
		uint32_t got;
	} rows[] = {
		{ { .stamp = { 2, 0, "eu" }, .total_bytes = 6, .offset = 3, .data = (const uint8_t *)"def", .len = 3 }, 0, 0 },
		{ { .stamp = { 2, 0, "eu" }, .total_bytes = 6, .offset = 0, .data = (const uint8_t *)"abc", .len = 3 }, 0, 3 },
		{ { .stamp = { 1, 0, "eu" }, .total_bytes = 6, .offset = 0, .data = (const uint8_t *)"xyz", .len = 3 }, 0, 3 },
		{ { .stamp = { 3, 0, "eu" }, .total_bytes = 6, .offset = 3, .data = (const uint8_t *)"xyz", .len = 3 }, 0, 3 },
		{ { .stamp = { 2, 0, "eu" }, .total_bytes = 7, .offset = 3, .data = (const uint8_t *)"xyz", .len = 3 }, 0, 3 },
		{ { .stamp = { 2, 0, "eu" }, .total_bytes = 6, .offset = 3, .data = (const uint8_t *)"def", .len = 3 }, 1, 6 },
		{ { .stamp = { 3, 0, "eu" }, .total_bytes = 2, .offset = 0, .data = (const uint8_t *)"gh", .len = 2 }, 1, 2 },
	};
	struct lg_rules_inbox inbox = { 0 };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		assert_int_equal(lg_rules_inbox_add(&inbox, &rows[i].part), rows[i].want);
		assert_int_equal(inbox.got_bytes, rows[i].got);
		if (i == 5)
			assert_memory_equal(inbox.data, "abcdef", 6);
	}
	assert_memory_equal(inbox.data, "gh", 2);
	lg_rules_inbox_fini(&inbox);
}

static void hello_and_welcome_survive_the_wire(void **state)
{
	const struct lg_rules_state rules_state = { .running = { 7, 8, "eu" }, .refused = { 9, 10, "us" }, .why = "no room", .is_chosen = true,
						    .getting = { 11, 12, "ap" }, .got_bytes = 13 };
	const struct lg_lease_hello hello = { "host-1.example", "eu-west", true, UINT64_MAX, 1ull << 60, 65536, "server-1", true,
					      rules_state };
	const struct lg_lease_welcome welcome = { "eu-west", UINT32_MAX, 7, "server-2", NULL };
	struct lg_lease_hello hello_back = { 0 };
	struct lg_lease_welcome welcome_back = { 0 };
	struct lg_complaint c = { 0 };
	struct lg_text text = { 0 };
	struct lg_holder_msg *holder;
	struct lg_lessor_msg *lessor;

	(void)state;
	lg_codec_put_hello(&text, &hello);
	holder = parse(&text);
	assert_true(lg_holder_msg_hello(holder, &hello_back));
	assert_string_equal(hello_back.holder, hello.holder);
	assert_string_equal(hello_back.region, hello.region);
	assert_true(hello_back.is_region && hello_back.incarnation == UINT64_MAX);
	assert_int_equal(hello_back.regions_version, 1ull << 60);
	assert_int_equal(hello_back.max_keys, 65536);
	assert_string_equal(hello_back.replica, "server-1");
	assert_true(hello_back.wants_rules);
	state_check(&hello_back.rules, &rules_state);
	lg_holder_msg_free(holder);
	lg_text_fini(&text);

	lg_codec_put_welcome(&text, &welcome);
	assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &lessor, &c), 0);
	assert_true(lg_lessor_msg_welcome(lessor, &welcome_back));
	assert_string_equal(welcome_back.lessor, "eu-west");
	assert_int_equal(welcome_back.epoch, UINT32_MAX);
	assert_int_equal(welcome_back.regions_version, 7);
	assert_string_equal(welcome_back.replica, "server-2");
	lg_lessor_msg_free(lessor);
	lg_text_fini(&text);
}

/* Three servers: one has the even slots in two lives, one a single slot, one none. */
static void map_fill(struct lg_slot_map *map)
{
	lg_slot_map_init(map);
	map->n = 3;
	for (size_t i = 0; i < map->n; i++) {
		snprintf(map->v[i].name, LG_NAME_LEN, "server-%zu", i);
		snprintf(map->v[i].address, LG_REPLICA_ADDRESS_LEN, "192.0.2.%zu:7400", i);
	}
	memset(map->v[2].address, 0, sizeof(map->v[2].address));
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot += 2) {
		map->owner[slot] = 0;
		map->epoch[slot] = slot < 100 ? 7 : UINT32_MAX;
	}
	map->owner[255] = 1;
	map->epoch[255] = 1;
}

static void a_map_of_slots_survives_the_wire_with_the_welcome_and_alone(void **state)
{
	struct lg_lease_welcome welcome = { .lessor = "eu-west", .epoch = 1 }, welcome_back;
	struct lg_slot_map map, back;
	struct lg_complaint c = { 0 };

	(void)state;
	map_fill(&map);
	for (int alone = 0; alone < 2; alone++) {
		struct lg_lessor_msg *msg = NULL;
		struct lg_text text = { 0 };

		welcome.map = alone ? NULL : &map;
		if (alone)
			lg_codec_put_map(&text, &map);
		else
			lg_codec_put_welcome(&text, &welcome);
		assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &msg, &c), 0);
		assert_int_equal(lg_lessor_msg_welcome(msg, &welcome_back), !alone);
		assert_true(lg_lessor_msg_map(msg, &back));
		assert_memory_equal(&back, &map, sizeof(map));
		lg_lessor_msg_free(msg);
		lg_text_fini(&text);
	}
}

static void parts_of_slots_survive_the_wire(void **state)
{
	struct lg_slot_part parts[2] = { { .number = 9 }, { .number = UINT64_MAX } }, back;
	struct lg_text text = { 0 };
	struct lg_holder_msg *msg;
	uint64_t forgot_age_ms = 0;

	(void)state;
	lg_slot_set_add(&parts[0].slots, 0);
	lg_slot_set_add(&parts[0].slots, 255);
	lg_slot_set_fill(&parts[1].slots);
	lg_codec_put_lives(&text, parts, 2);
	lg_codec_put_synced_slots(&text, parts, 2, 5);
	msg = parse(&text);
	for (size_t i = 0; i < 2; i++) {
		assert_true(lg_holder_msg_live(msg, i, &back));
		assert_memory_equal(&back, &parts[i], sizeof(back));
		assert_true(lg_holder_msg_synced_part(msg, i, &back));
		assert_memory_equal(&back, &parts[i], sizeof(back));
	}
	assert_false(lg_holder_msg_live(msg, 2, &back));
	assert_false(lg_holder_msg_synced_part(msg, 2, &back));
	assert_true(lg_holder_msg_is_synced(msg, &forgot_age_ms));
	assert_int_equal(forgot_age_ms, 5);
	lg_holder_msg_free(msg);
	lg_text_fini(&text);
}

static void maps_and_parts_that_are_none_are_refused(void **state)
{
	struct lg_lessor_msg *lessor = NULL;
	struct lg_holder_msg *holder = NULL;
	struct lg_complaint c = { 0 };
	struct lg_text text = { 0 };
	struct lg_slot_map map;

	(void)state;
	map_fill(&map);
	snprintf(map.v[1].name, LG_NAME_LEN, "no name");
	lg_codec_put_map(&text, &map);
	assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &lessor, &c), -EINVAL);
	lg_text_fini(&text);
	/* More servers than there may be: two maps in one message are their sum. */
	map_fill(&map);
	for (int i = 0; i < 1 + LG_REPLICAS_MAX / 3; i++)
		lg_codec_put_map(&text, &map);
	assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &lessor, &c), -EINVAL);
	assert_string_equal(c.text, "33 servers, of at most 32");
	lg_text_fini(&text);
	/* A set of 31 bytes: HolderMessage.lives.slots. */
	lg_text_add(&text, "\x22\x21\x0a\x1f", 4);
	lg_text_add(&text, "0123456789012345678901234567890", 31);
	assert_int_equal(lg_holder_msg_parse((uint8_t *)text.s, text.len, &holder, &c), -EINVAL);
	assert_string_equal(c.text, "a set of slots of 31 bytes");
	lg_text_fini(&text);
}

static void grants_survive_the_wire(void **state)
{
	const struct lg_grant grants[] = {
		{ .ack_seq = UINT64_MAX, .ack_slot = 2, .epoch = 3, .generation = 4, .granted_tok = 5, .ttl_ms = 6, .cap_tok = 7,
		  .partial = true, .kind = LG_LEASE_BLOCK, .status = LG_GRANT_OK },
		{ .epoch = 1, .ttl_ms = LG_WIRE_TTL_MAX_MS, .granted_tok = LG_WIRE_TOK_MAX, .kind = LG_LEASE_BLOCK,
		  .status = LG_GRANT_RECOVERING },
		{ .epoch = 1, .generation = 2, .ttl_ms = 3, .kind = LG_LEASE_LIMIT, .limit_version = UINT32_MAX,
		  .limit_tok = LG_WIRE_LIMIT_MAX, .limit_permille = LG_WIRE_PERMILLE_MAX },
		{ .epoch = 1, .kind = LG_LEASE_LIMIT },
		{ .kind = LG_LEASE_BLOCK, .status = LG_GRANT_UNKNOWN_RULE },
		{ .kind = LG_LEASE_BLOCK, .status = LG_GRANT_NOT_HOME },
		{ .kind = LG_LEASE_BLOCK, .status = LG_GRANT_OVERLOADED },
	};
	struct lg_complaint c = { 0 };
	struct lg_text text = { 0 };
	struct lg_lessor_msg *msg;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(grants); i++)
		lg_codec_put_grant(&text, &source_key, &grants[i]);
	assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &msg, &c), 0);
	assert_int_equal(lg_lessor_msg_count(msg), N_ELEMS(grants));
	for (size_t i = 0; i < N_ELEMS(grants); i++) {
		struct lg_wire_key key;
		struct lg_grant g;

		lg_lessor_msg_grant(msg, i, &key, &g);
		assert_memory_equal(&key, &source_key, sizeof(key));
		assert_true(g.ack_seq == grants[i].ack_seq);
		assert_int_equal(g.ack_slot, grants[i].ack_slot);
		assert_int_equal(g.epoch, grants[i].epoch);
		assert_int_equal(g.generation, grants[i].generation);
		assert_int_equal(g.granted_tok, grants[i].granted_tok);
		assert_int_equal(g.ttl_ms, grants[i].ttl_ms);
		assert_int_equal(g.cap_tok, grants[i].cap_tok);
		assert_int_equal(g.partial, grants[i].partial);
		assert_int_equal(g.kind, grants[i].kind);
		assert_int_equal(g.limit_version, grants[i].limit_version);
		assert_int_equal(g.limit_tok, grants[i].limit_tok);
		assert_int_equal(g.limit_permille, grants[i].limit_permille);
		assert_int_equal(g.status, grants[i].status);
	}
	lg_lessor_msg_free(msg);
	lg_text_fini(&text);
}

static void a_lease_that_is_no_limit_of_ones_own_says_nothing_of_one(void **state)
{
	static const enum lg_lease_kind kinds[] = { LG_LEASE_AUTO, LG_LEASE_BLOCK };
	struct lg_complaint c = { 0 };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(kinds); i++) {
		struct lg_ask ask = { .seq = 1, .kind = kinds[i], .limit_version = 2, .held_tok = 3, .held_permille = 4 };
		struct lg_grant g = { .epoch = 1, .kind = kinds[i], .limit_version = 2, .limit_tok = 3, .limit_permille = 4 };
		struct lg_text asked = { 0 }, granted = { 0 };
		struct lg_holder_msg *holder;
		struct lg_lessor_msg *lessor;
		struct lg_wire_key key;

		lg_codec_put_ask(&asked, &source_key, &ask);
		lg_codec_put_grant(&granted, &source_key, &g);
		holder = parse(&asked);
		assert_int_equal(lg_lessor_msg_parse((uint8_t *)granted.s, granted.len, &lessor, &c), 0);
		lg_holder_msg_ask(holder, 0, &key, &ask);
		lg_lessor_msg_grant(lessor, 0, &key, &g);
		assert_int_equal(ask.kind, LG_LEASE_BLOCK);
		assert_true(!ask.limit_version && !ask.held_tok && !ask.held_permille);
		assert_int_equal(g.kind, LG_LEASE_BLOCK);
		assert_true(!g.limit_version && !g.limit_tok && !g.limit_permille);
		lg_holder_msg_free(holder);
		lg_lessor_msg_free(lessor);
		lg_text_fini(&asked);
		lg_text_fini(&granted);
	}
}

static void what_is_out_of_range_is_written_as_what_is_safe(void **state)
{
	struct lg_ask ask = { .request = true, .want_tok = UINT64_MAX, .demand_mtps = UINT64_MAX, .peak_tok = UINT64_MAX,
			      .kind = LG_LEASE_LIMIT, .held_tok = UINT64_MAX, .held_permille = UINT32_MAX,
			      .granted_tok = 5, .spent_tok = 9, .n_slots = 1, .slots = { { 1, UINT64_MAX, 3 } } };
	struct lg_text text = { 0 };
	struct lg_holder_msg *msg;
	struct lg_wire_key key;

	(void)state;
	lg_codec_put_ask(&text, &source_key, &ask);
	msg = parse(&text);
	lg_holder_msg_ask(msg, 0, &key, &ask);
	assert_int_equal(ask.want_tok, LG_WIRE_TOK_MAX);
	assert_int_equal(ask.demand_mtps, LG_WIRE_TOK_MAX);
	assert_int_equal(ask.peak_tok, LG_WIRE_TOK_MAX);
	assert_int_equal(ask.slots[0].age_ms, LG_WIRE_AGE_MAX_MS);
	assert_int_equal(ask.held_tok, LG_WIRE_LIMIT_MAX);
	assert_int_equal(ask.held_permille, LG_WIRE_PERMILLE_MAX);
	lg_holder_msg_free(msg);
	lg_text_fini(&text);
}

static void a_grant_out_of_range_is_written_as_the_largest_limit_there_is(void **state)
{
	struct lg_grant grant = { .epoch = 1, .kind = LG_LEASE_LIMIT, .limit_tok = UINT64_MAX, .limit_permille = UINT32_MAX };
	struct lg_complaint c = { 0 };
	struct lg_text text = { 0 };
	struct lg_lessor_msg *msg;
	struct lg_wire_key key;

	(void)state;
	lg_codec_put_grant(&text, &source_key, &grant);
	assert_int_equal(lg_lessor_msg_parse((uint8_t *)text.s, text.len, &msg, &c), 0);
	lg_lessor_msg_grant(msg, 0, &key, &grant);
	assert_int_equal(grant.limit_tok, LG_WIRE_LIMIT_MAX);
	assert_int_equal(grant.limit_permille, LG_WIRE_PERMILLE_MAX);
	lg_lessor_msg_free(msg);
	lg_text_fini(&text);
}

/* ---- what is refused: a good message, and one change to it ---- */

/* One ask of each kind of part, all within range. */
struct ask_message {
	Leasegate__V1__HolderMessage m;
	Leasegate__V1__Ask ask, *asks[LG_BATCH_KEYS_MAX + 1];
	Leasegate__V1__LeaseRequest request;
	Leasegate__V1__ReportUsage usage;
	Leasegate__V1__Key key;
	Leasegate__V1__UsageSlot slots[2], *slot_p[LG_HISTORY_MAX + 1];
	Leasegate__V1__Hello hello;
	Leasegate__V1__Synced synced;
	uint8_t bytes[17];
};

static void good_ask(struct ask_message *a)
{
	memset(a, 0, sizeof(*a));
	leasegate__v1__holder_message__init(&a->m);
	leasegate__v1__ask__init(&a->ask);
	leasegate__v1__lease_request__init(&a->request);
	leasegate__v1__report_usage__init(&a->usage);
	leasegate__v1__key__init(&a->key);
	leasegate__v1__hello__init(&a->hello);
	leasegate__v1__synced__init(&a->synced);
	for (size_t i = 0; i < N_ELEMS(a->slots); i++)
		leasegate__v1__usage_slot__init(&a->slots[i]);
	for (size_t i = 0; i < N_ELEMS(a->slot_p); i++)
		a->slot_p[i] = &a->slots[i % 2];
	for (size_t i = 0; i < N_ELEMS(a->asks); i++)
		a->asks[i] = &a->ask;
	a->key.rule = (char *)"per-user";
	a->key.form = LEASEGATE__V1__KEY_FORM__KEY_FORM_SOURCE;
	a->key.a = (ProtobufCBinaryData){ 16, a->bytes };
	a->usage.key = &a->key;
	a->usage.slots = a->slot_p;
	a->usage.history = a->slot_p;
	a->usage.n_slots = a->usage.n_history = 2;
	a->usage.granted_tok = 10;
	a->usage.consumed_tok = 3;
	a->usage.returned_tok = 2;
	a->usage.remaining_tok = 5;
	a->request.usage = &a->usage;
	a->request.want_tok = 4;
	a->ask.ask_case = LEASEGATE__V1__ASK__ASK_REQUEST;
	a->ask.request = &a->request;
	a->m.asks = a->asks;
	a->m.n_asks = 1;
	a->hello.holder = (char *)"host-1";
	a->hello.region = (char *)"eu-west";
}

/* "" when the message is accepted, else the complaint. */
static const char *holder_verdict(const struct ask_message *a)
{
	static struct lg_complaint c;
	size_t len = leasegate__v1__holder_message__get_packed_size(&a->m);
	uint8_t *wire = malloc(len + 1);
	struct lg_holder_msg *msg = NULL;
	int r;

	c.text[0] = '\0';
	leasegate__v1__holder_message__pack(&a->m, wire);
	r = lg_holder_msg_parse(wire, len, &msg, &c);
	free(wire);
	lg_holder_msg_free(msg);
	assert_int_equal(r, c.text[0] ? -EINVAL : 0);
	return c.text;
}

static char name_63[64], name_64[65];

#define ROW(name, change)                                                                                             \
	static void name(struct ask_message *a)                                                                       \
	{                                                                                                             \
		change;                                                                                               \
	}
ROW(as_it_is, (void)a)
ROW(no_key, a->usage.key = NULL)
ROW(no_usage, a->request.usage = NULL)
ROW(no_ask, a->ask.ask_case = LEASEGATE__V1__ASK__ASK__NOT_SET)
ROW(a_report, a->ask.ask_case = LEASEGATE__V1__ASK__ASK_REPORT; a->ask.report = &a->usage)
ROW(form_0, a->key.form = 0)
ROW(form_3, a->key.form = 3)
ROW(form_4, a->key.form = 4)
ROW(form_5, a->key.form = 5)
ROW(form_minus_1, a->key.form = -1)
ROW(a_15, a->key.a.len = 15)
ROW(a_17, a->key.a.len = 17)
ROW(a_none, a->key.a.len = 0)
ROW(rule_with_a, a->key.form = 1)
ROW(rule_without_a, a->key.form = 1; a->key.a.len = 0)
ROW(b_16, a->key.b = a->key.a)
ROW(product, a->key.form = LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_DESTINATION_PORT; a->key.b = a->key.a)
ROW(product_hashed, a->key.form = LG_FORM_PRODUCT | LG_FORM_HASHED | LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_VLAN)
ROW(product_of_an_interface, a->key.form = LG_FORM_PRODUCT | LG_KEY_INTERFACE)
ROW(product_of_a_cgroup, a->key.form = LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_CGROUP)
ROW(rule_empty, a->key.rule = (char *)"")
ROW(rule_63, a->key.rule = name_63)
ROW(rule_64, a->key.rule = name_64)
ROW(rule_blank, a->key.rule = (char *)"per user")
ROW(rule_newline, a->key.rule = (char *)"per-user\n")
ROW(rule_quote, a->key.rule = (char *)"per\"user")
ROW(rule_dash, a->key.rule = (char *)"-per-user")
ROW(rule_utf8, a->key.rule = (char *)"p\xc3\xa9r")
ROW(remaining_low, a->usage.remaining_tok = 4)
ROW(remaining_high, a->usage.remaining_tok = 6)
ROW(overspent, a->usage.consumed_tok = 9; a->usage.remaining_tok = 0)
ROW(overspent_bad, a->usage.consumed_tok = 9; a->usage.remaining_tok = 1)
ROW(granted_max, a->usage.granted_tok = LG_WIRE_TOK_MAX; a->usage.remaining_tok = LG_WIRE_TOK_MAX - 5)
ROW(granted_over, a->usage.granted_tok = LG_WIRE_TOK_MAX + 1; a->usage.remaining_tok = LG_WIRE_TOK_MAX - 4)
ROW(consumed_over, a->usage.consumed_tok = LG_WIRE_TOK_MAX + 1; a->usage.remaining_tok = 0)
ROW(returned_over, a->usage.returned_tok = UINT64_MAX; a->usage.remaining_tok = 0)
ROW(both_max, a->usage.consumed_tok = a->usage.returned_tok = LG_WIRE_TOK_MAX; a->usage.remaining_tok = 0)
ROW(want_max, a->request.want_tok = LG_WIRE_TOK_MAX)
ROW(want_over, a->request.want_tok = LG_WIRE_TOK_MAX + 1)
ROW(demand_over, a->usage.demand_mtps = LG_WIRE_TOK_MAX + 1)
ROW(peak_over, a->usage.peak_tok = LG_WIRE_TOK_MAX + 1)
ROW(kind_1, a->usage.kind = 1)
ROW(kind_2, a->usage.kind = 2)
ROW(kind_minus_1, a->usage.kind = -1)
ROW(held_max, a->usage.kind = 1; a->usage.held_tok = LG_WIRE_LIMIT_MAX)
ROW(held_over, a->usage.kind = 1; a->usage.held_tok = LG_WIRE_LIMIT_MAX + 1)
ROW(held_over_of_a_block, a->usage.held_tok = UINT64_MAX)
ROW(permille_max, a->usage.kind = 1; a->usage.held_permille = LG_WIRE_PERMILLE_MAX)
ROW(permille_over, a->usage.kind = 1; a->usage.held_permille = LG_WIRE_PERMILLE_MAX + 1)
ROW(version_max, a->usage.kind = 1; a->usage.limit_version = UINT32_MAX)
ROW(slots_64, a->usage.n_slots = LG_SLOTS_MAX)
ROW(slots_65, a->usage.n_slots = LG_SLOTS_MAX + 1)
ROW(history_256, a->usage.n_history = LG_HISTORY_MAX)
ROW(history_257, a->usage.n_history = LG_HISTORY_MAX + 1)
ROW(age_max, a->slots[1].age_ms = LG_WIRE_AGE_MAX_MS)
ROW(age_over, a->slots[1].age_ms = LG_WIRE_AGE_MAX_MS + 1)
ROW(sum_max, a->slots[0].tok = LG_WIRE_TOK_MAX - 1; a->slots[1].tok = 1)
ROW(sum_over, a->slots[0].tok = LG_WIRE_TOK_MAX - 1; a->slots[1].tok = 2)
ROW(sum_wraps, a->slots[0].tok = a->slots[1].tok = UINT64_MAX)
ROW(asks_512, a->m.n_asks = LG_BATCH_KEYS_MAX; a->usage.n_slots = a->usage.n_history = 0)
ROW(asks_513, a->m.n_asks = LG_BATCH_KEYS_MAX + 1; a->usage.n_slots = a->usage.n_history = 0)
ROW(hello_alone, a->m.n_asks = 0; a->m.hello = &a->hello)
ROW(hello_and_ask, a->m.hello = &a->hello)
ROW(hello_and_synced, a->m.n_asks = 0; a->m.hello = &a->hello; a->m.synced = &a->synced)
ROW(hello_no_holder, a->m.n_asks = 0; a->m.hello = &a->hello; a->hello.holder = (char *)"")
ROW(hello_bad_region, a->m.n_asks = 0; a->m.hello = &a->hello; a->hello.region = (char *)"a/b")
ROW(synced_with_an_age_out_of_range, a->m.n_asks = 0; a->m.synced = &a->synced; a->synced.forgot_age_ms = LG_WIRE_AGE_MAX_MS + 1)
ROW(synced_alone, a->m.n_asks = 0; a->m.synced = &a->synced)

static void each_range_is_checked_on_both_of_its_sides(void **state)
{
	static const struct {
		void (*change)(struct ask_message *a);
		const char *why;	/* "" is accepted */
	} rows[] = {
		{ as_it_is, "" },
		{ no_key, "ask 1: the key is missing" },
		{ no_usage, "ask 1: the usage is missing" },
		{ no_ask, "ask 1: the usage is missing" },
		{ a_report, "" },
		{ form_0, "ask 1: the form of the key is 0" },
		{ form_3, "" },
		{ form_4, "" },
		{ form_5, "ask 1: the form of the key is 5" },
		{ form_minus_1, "ask 1: the form of the key is 4294967295" },
		{ a_15, "ask 1: a of the key has 15 bytes" },
		{ a_17, "ask 1: a of the key has 17 bytes" },
		{ a_none, "" },
		{ rule_with_a, "ask 1: a of the key has 16 bytes" },
		{ rule_without_a, "" },
		{ b_16, "ask 1: b of the key has 16 bytes" },
		{ product, "" },
		{ product_hashed, "" },
		{ product_of_an_interface, "ask 1: the form of the key is 32896" },
		{ product_of_a_cgroup, "ask 1: the form of the key is 33025" },
		{ rule_empty, "ask 1: the rule is no name" },
		{ rule_63, "" },
		{ rule_64, "ask 1: the rule is no name" },
		{ rule_blank, "ask 1: the rule is no name" },
		{ rule_newline, "ask 1: the rule is no name" },
		{ rule_quote, "ask 1: the rule is no name" },
		{ rule_dash, "ask 1: the rule is no name" },
		{ rule_utf8, "ask 1: the rule is no name" },
		{ remaining_low, "ask 1: remaining_tok is not granted - consumed - returned" },
		{ remaining_high, "ask 1: remaining_tok is not granted - consumed - returned" },
		{ overspent, "" },
		{ overspent_bad, "ask 1: remaining_tok is not granted - consumed - returned" },
		{ granted_max, "" },
		{ granted_over, "ask 1: granted_tok is above 2^62" },
		{ consumed_over, "ask 1: consumed_tok is above 2^62" },
		{ returned_over, "ask 1: returned_tok is above 2^62" },
		{ both_max, "" },
		{ want_max, "" },
		{ want_over, "ask 1: want_tok is above 2^62" },
		{ demand_over, "ask 1: demand_mtps is above 2^62" },
		{ peak_over, "ask 1: peak_tok is above 2^62" },
		{ kind_1, "" },
		{ kind_2, "ask 1: a lease of kind 2, which is not known here" },
		{ kind_minus_1, "ask 1: a lease of kind -1, which is not known here" },
		{ held_max, "" },
		{ held_over, "ask 1: a limit of its own above 2^40 tokens" },
		{ held_over_of_a_block, "ask 1: a limit of its own above 2^40 tokens" },
		{ permille_max, "" },
		{ permille_over, "ask 1: a limit of its own with 1001 thousandths of the rate" },
		{ version_max, "" },
		{ slots_64, "" },
		{ slots_65, "ask 1: 65 slots, of at most 64" },
		{ history_256, "" },
		{ history_257, "ask 1: 257 history, of at most 256" },
		{ age_max, "" },
		{ age_over, "ask 1: slots: an age of 5356800001 ms" },
		{ sum_max, "" },
		{ sum_over, "ask 1: slots: their sum is above 2^62" },
		{ sum_wraps, "ask 1: slots: their sum is above 2^62" },
		{ asks_512, "" },
		{ asks_513, "513 asks, of at most 512" },
		{ hello_alone, "" },
		{ hello_and_ask, "hello does not stand alone" },
		{ hello_and_synced, "hello does not stand alone" },
		{ hello_no_holder, "the holder is no name" },
		{ hello_bad_region, "the region is no name" },
		{ synced_with_an_age_out_of_range, "synced: forgot_age_ms is out of range" },
		{ synced_alone, "" },
	};
	static struct ask_message a;

	(void)state;
	memset(name_63, 'n', 63);
	memset(name_64, 'n', 64);
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		good_ask(&a);
		rows[i].change(&a);
		assert_string_equal(holder_verdict(&a), rows[i].why);
	}
}

static void the_second_ask_of_a_batch_is_named(void **state)
{
	static struct ask_message a;
	Leasegate__V1__Ask bad = LEASEGATE__V1__ASK__INIT;

	(void)state;
	good_ask(&a);
	a.m.n_asks = 2;
	a.asks[1] = &bad;
	assert_string_equal(holder_verdict(&a), "ask 2: the usage is missing");
}

static const char *lessor_verdict(const Leasegate__V1__LessorMessage *m)
{
	static struct lg_complaint c;
	size_t len = leasegate__v1__lessor_message__get_packed_size(m);
	uint8_t *wire = malloc(len + 1);
	struct lg_lessor_msg *msg = NULL;
	int r;

	c.text[0] = '\0';
	leasegate__v1__lessor_message__pack(m, wire);
	r = lg_lessor_msg_parse(wire, len, &msg, &c);
	free(wire);
	lg_lessor_msg_free(msg);
	assert_int_equal(r, c.text[0] ? -EINVAL : 0);
	return c.text;
}

static void grants_are_checked_too(void **state)
{
	static const struct {
		int status;
		int kind;
		uint64_t ttl_ms, granted_tok, cap_tok;
		uint32_t epoch;
		const char *why;
		uint64_t limit_tok;
		uint32_t limit_permille;
	} rows[] = {
		{ 0, 0, 1, 1, 1, 1, "", 0, 0 },
		{ 0, 0, 1, 1, 1, 0, "grant 1: the epoch is missing", 0, 0 },
		{ 1, 0, 1, 1, 1, 0, "", 0, 0 },
		{ 4, 0, 1, 1, 1, 1, "", 0, 0 },
		{ 7, 0, 1, 1, 1, 1, "grant 1: the status is 7", 0, 0 },
		{ -1, 0, 1, 1, 1, 1, "grant 1: the status is -1", 0, 0 },
		{ 0, 1, 1, 1, 1, 1, "", 0, 0 },
		{ 0, 2, 1, 1, 1, 1, "grant 1: a lease of kind 2, which is not known here", 0, 0 },
		{ 0, -1, 1, 1, 1, 1, "grant 1: a lease of kind -1, which is not known here", 0, 0 },
		{ 0, 1, 1, 0, 1, 1, "", LG_WIRE_LIMIT_MAX, LG_WIRE_PERMILLE_MAX },
		{ 0, 1, 1, 0, 1, 1, "grant 1: a limit of its own above 2^40 tokens", LG_WIRE_LIMIT_MAX + 1, 1 },
		{ 0, 1, 1, 0, 1, 1, "grant 1: a limit of its own above 2^40 tokens", UINT64_MAX, 1 },
		{ 0, 1, 1, 0, 1, 1, "grant 1: a limit of its own with 1001 thousandths of the rate", 1, LG_WIRE_PERMILLE_MAX + 1 },
		{ 0, 0, 1, 0, 1, 1, "grant 1: a limit of its own with 4294967295 thousandths of the rate", 1, UINT32_MAX },
		{ 0, 0, LG_WIRE_TTL_MAX_MS, 1, 1, 1, "", 0, 0 },
		{ 0, 0, LG_WIRE_TTL_MAX_MS + 1, 1, 1, 1, "grant 1: a time to live of 2678400001 ms", 0, 0 },
		{ 0, 0, 1, LG_WIRE_TOK_MAX, LG_WIRE_TOK_MAX, 1, "", 0, 0 },
		{ 0, 0, 1, LG_WIRE_TOK_MAX + 1, 1, 1, "grant 1: granted_tok is above 2^62", 0, 0 },
		{ 0, 0, 1, 1, LG_WIRE_TOK_MAX + 1, 1, "grant 1: cap_tok is above 2^62", 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		Leasegate__V1__LessorMessage m = LEASEGATE__V1__LESSOR_MESSAGE__INIT;
		Leasegate__V1__LeaseGrant g = LEASEGATE__V1__LEASE_GRANT__INIT, *gp = &g;
		Leasegate__V1__LeaseId id = LEASEGATE__V1__LEASE_ID__INIT;
		Leasegate__V1__Welcome w = LEASEGATE__V1__WELCOME__INIT;
		Leasegate__V1__Key k = LEASEGATE__V1__KEY__INIT;

		k.rule = (char *)"per-user";
		k.form = LEASEGATE__V1__KEY_FORM__KEY_FORM_RULE;
		id.epoch = rows[i].epoch;
		g.key = &k;
		g.lease = &id;
		g.status = rows[i].status;
		g.kind = rows[i].kind;
		g.ttl_ms = rows[i].ttl_ms;
		g.granted_tok = rows[i].granted_tok;
		g.cap_tok = rows[i].cap_tok;
		g.limit_tok = rows[i].limit_tok;
		g.limit_permille = rows[i].limit_permille;
		m.grants = &gp;
		m.n_grants = 1;
		assert_string_equal(lessor_verdict(&m), rows[i].why);
		g.lease = NULL;
		assert_string_not_equal(lessor_verdict(&m), "");
		g.lease = &id;
		g.key = NULL;
		assert_string_equal(lessor_verdict(&m), "grant 1: the key is missing");
		m.welcome = &w;
		assert_string_equal(lessor_verdict(&m), "welcome does not stand alone");
		m.n_grants = 0;
		assert_string_equal(lessor_verdict(&m), "the epoch is missing");
		w.epoch = 1;
		assert_string_equal(lessor_verdict(&m), "the lessor is no name");
		w.lessor = (char *)"home";
		assert_string_equal(lessor_verdict(&m), "");
	}
}

/* ---- bytes that no encoder makes ---- */

/* 1 MiB of empty asks: each two bytes, unpacked far more. */
static void a_message_of_empty_parts_is_refused_and_not_unpacked_without_bound(void **state)
{
	size_t len = 1 << 20;
	uint8_t *wire = malloc(len);
	struct lg_holder_msg *msg = NULL;
	struct lg_complaint c = { 0 };

	(void)state;
	for (size_t i = 0; i < len; i += 2) {
		wire[i] = 2 << 3 | 2;	/* asks, of 0 bytes */
		wire[i + 1] = 0;
	}
	assert_int_equal(lg_holder_msg_parse(wire, len, &msg, &c), -EINVAL);
	free(wire);
}

static void a_message_of_512_full_asks_is_within_the_bound(void **state)
{
	struct lg_ask ask = full_ask();
	struct lg_text text = { 0 };
	struct lg_holder_msg *msg;

	(void)state;
	/* The most slots that 1 MiB holds: 8 bytes each. */
	ask.n_slots = LG_SLOTS_MAX;
	for (size_t i = 0; i < LG_HISTORY_MAX; i++)
		ask.history[i] = (struct lg_slot){ .id = 1, .age_ms = 1, .tok = 1 };
	for (int i = 0; i < LG_BATCH_KEYS_MAX && text.len < (1 << 20) - 4000; i++)
		lg_codec_put_ask(&text, &source_key, &ask);
	assert_true(text.len > 1000000);
	msg = parse(&text);
	lg_holder_msg_free(msg);
	lg_text_fini(&text);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Bytes changed, cut, doubled: never a crash, and whatever is accepted is within its ranges. */
static void mutated_messages_are_refused_or_within_range(void **state)
{
	struct lg_ask ask = full_ask();
	struct lg_text text = { 0 };
	uint64_t seed = 88172645463325252ull;
	unsigned int accepted = 0;
	uint8_t wire[4096];

	(void)state;
	ask.n_history = 3;
	ask.n_slots = 3;
	lg_codec_put_ask(&text, &source_key, &ask);
	lg_codec_put_ask(&text, &source_key, &ask);
	lg_codec_put_synced(&text, LG_LEASE_REMEMBERS);
	assert_true(text.len < sizeof(wire));
	for (int round = 0; round < 20000; round++) {
		size_t len = next_random(&seed) % 8 ? text.len : next_random(&seed) % (text.len + 1);
		struct lg_holder_msg *msg = NULL;
		struct lg_complaint c = { 0 };

		memcpy(wire, text.s, text.len);
		for (uint64_t n = next_random(&seed) % 4; n; n--)
			wire[next_random(&seed) % text.len] = (uint8_t)next_random(&seed);
		if (lg_holder_msg_parse(wire, len, &msg, &c) < 0) {
			assert_int_not_equal(c.text[0], '\0');
			continue;
		}
		accepted++;
		for (size_t i = 0; i < lg_holder_msg_count(msg); i++) {
			struct lg_wire_key key;

			lg_holder_msg_ask(msg, i, &key, &ask);
			assert_true(strlen(key.rule) < LG_NAME_LEN && key.rule[0]);
			assert_true((key.form >= LG_FORM_RULE && key.form <= LG_FORM_OVERFLOW) || key.form & LG_FORM_PRODUCT);
			assert_true(ask.n_slots <= LG_SLOTS_MAX && ask.n_history <= LG_HISTORY_MAX);
			assert_true(ask.granted_tok <= LG_WIRE_TOK_MAX && ask.want_tok <= LG_WIRE_TOK_MAX);
			assert_true(ask.spent_tok <= LG_WIRE_TOK_MAX && ask.returned_tok <= LG_WIRE_TOK_MAX);
			assert_true(ask.held_tok <= LG_WIRE_LIMIT_MAX && ask.held_permille <= LG_WIRE_PERMILLE_MAX);
			assert_true(ask.kind == LG_LEASE_LIMIT || (ask.kind == LG_LEASE_BLOCK && !ask.held_tok));
		}
		lg_holder_msg_free(msg);
	}
	assert_true(accepted > 100 && accepted < 19000);
	lg_text_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_and_reports_survive_the_wire),
		cmocka_unit_test(an_empty_message_is_an_empty_batch),
		cmocka_unit_test(hello_and_welcome_survive_the_wire),
		cmocka_unit_test(a_map_of_slots_survives_the_wire_with_the_welcome_and_alone),
		cmocka_unit_test(parts_of_slots_survive_the_wire),
		cmocka_unit_test(maps_and_parts_that_are_none_are_refused),
		cmocka_unit_test(rules_survive_the_wire),
		cmocka_unit_test(parts_that_do_not_fit_are_refused),
		cmocka_unit_test(parts_are_put_together_in_order_alone),
		cmocka_unit_test(grants_survive_the_wire),
		cmocka_unit_test(a_lease_that_is_no_limit_of_ones_own_says_nothing_of_one),
		cmocka_unit_test(what_is_out_of_range_is_written_as_what_is_safe),
		cmocka_unit_test(a_grant_out_of_range_is_written_as_the_largest_limit_there_is),
		cmocka_unit_test(each_range_is_checked_on_both_of_its_sides),
		cmocka_unit_test(the_second_ask_of_a_batch_is_named),
		cmocka_unit_test(grants_are_checked_too),
		cmocka_unit_test(a_message_of_empty_parts_is_refused_and_not_unpacked_without_bound),
		cmocka_unit_test(a_message_of_512_full_asks_is_within_the_bound),
		cmocka_unit_test(mutated_messages_are_refused_or_within_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
