// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a region's server notes, as it comes back page by page. */
#include "role/server.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

struct world {
	struct lg_server s;
	struct lg_server_holder holders[3];
	struct lg_server_holder *hosts[2], *regions[1];
	char dir[64];
};

static void rule_make(struct lg_server_rule *rule, const char *name, uint8_t len4)
{
	snprintf(rule->def.name, sizeof(rule->def.name), "%s", name);
	rule->def.key.source.ipv4 = len4;
	rule->def.key.source.ipv6 = 64;
	rule->live = true;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	static const char *const names[] = { "host-1", "host-2", "us-east" };
	struct lg_complaint c = { 0 };

	snprintf(w->dir, sizeof(w->dir), "/tmp/lg-notes-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	for (size_t i = 0; i < N_ELEMS(names); i++)
		snprintf(w->holders[i].name, sizeof(w->holders[i].name), "%s", names[i]);
	w->hosts[0] = &w->holders[0];
	w->hosts[1] = &w->holders[1];
	w->regions[0] = &w->holders[2];
	w->holders[2].is_region = true;
	w->s.hosts = (struct lg_server_holders){ .v = w->hosts, .n = 2 };
	w->s.regions = (struct lg_server_holders){ .v = w->regions, .n = 1 };
	w->s.epoch = 7;
	snprintf(w->s.config.region, sizeof(w->s.config.region), "eu-west");
	snprintf(w->s.config.state_dir, sizeof(w->s.config.state_dir), "%s", w->dir);
	w->s.config.journal_bytes = 1 << 20;
	rule_make(&w->s.rules[0], "per-user", 32);
	rule_make(&w->s.rules[1], "per-net", 24);
	assert_int_equal(lg_server_journal_start(&w->s, &c), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char folder[400], path[700];
	struct dirent *e;
	DIR *dir;

	lg_server_journal_stop(&w->s);
	snprintf(folder, sizeof(folder), "%s/journal", w->dir);
	dir = opendir(folder);
	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	rmdir(folder);
	rmdir(w->dir);
	free(w);
	return 0;
}

/* 198.51.100.<last> of a rule. */
static struct lg_key key4(uint32_t rule_id, uint8_t last)
{
	return (struct lg_key){ .rule_id = rule_id, .form = LG_FORM_SOURCE,
				.a = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, last } };
}

static void note(struct world *w, enum lg_tier tier, const struct lg_key *key, enum lg_note_kind kind, uint64_t tok)
{
	lg_server_note(&w->s, tier, key,
		       &(struct lg_note){ .kind = kind, .holder = tier == LG_TIER_REGION ? 1 : 0, .epoch = 7, .generation = 2, .tok = tok,
					  .outstanding_tok = tok + 1, .spent_tok = tok + 2 });
}

static json_t *ask(struct world *w, const char *request)
{
	json_t *o = json_loads(request, 0, NULL), *reply;

	assert_non_null(o);
	lg_journal_settle(w->s.journal);
	reply = lg_server_journal_page(&w->s, o);
	json_decref(o);
	assert_non_null(reply);
	return reply;
}

/* "grant host-2 per-user 198.51.100.7 10, ..." */
static void assert_records(struct world *w, const char *request, const char *want)
{
	json_t *reply = ask(w, request), *record;
	char got[1024] = "";
	size_t i, len = 0;

	assert_true(json_is_true(json_object_get(reply, "ok")));
	json_array_foreach(json_object_get(reply, "records"), i, record)
		len += (size_t)snprintf(got + len, sizeof(got) - len, "%s%s %s %s %s %d", i ? ", " : "",
					json_string_value(json_object_get(record, "what")),
					json_string_value(json_object_get(record, "holder")),
					json_string_value(json_object_get(record, "rule")),
					json_string_value(json_object_get(record, "key")),
					(int)json_integer_value(json_object_get(record, "tok")));
	assert_string_equal(got, want);
	json_decref(reply);
}

static void a_note_comes_back_with_all_it_said(void **state)
{
	uint64_t before_ms = lg_clock_unix_ns() / LG_NS_PER_MS;
	struct lg_key key = key4(1, 7);
	struct world *w = *state;
	json_t *reply, *record;
	json_int_t time_ms;
	char *text;

	note(w, LG_TIER_REGION, &key, LG_NOTE_REPORT, 10);
	reply = ask(w, "{\"from\": 0}");
	assert_string_equal(json_string_value(json_object_get(reply, "region")), "eu-west");
	assert_int_equal(json_integer_value(json_object_get(reply, "next")), 2);
	assert_int_equal(json_integer_value(json_object_get(reply, "end")), 2);
	assert_int_equal(json_integer_value(json_object_get(reply, "first")), 1);
	record = json_array_get(json_object_get(reply, "records"), 0);
	time_ms = json_integer_value(json_object_get(record, "time_ms"));
	assert_true(time_ms >= (json_int_t)before_ms && time_ms <= (json_int_t)(lg_clock_unix_ns() / LG_NS_PER_MS));
	json_object_del(record, "time_ms");
	text = json_dumps(record, JSON_COMPACT);
	assert_string_equal(text, "{\"seq\":1,\"what\":\"report\",\"tier\":\"region\",\"holder\":\"host-2\",\"rule\":\"per-user\","
				  "\"key\":\"198.51.100.7\",\"epoch\":7,\"generation\":2,\"tok\":10,\"outstanding_tok\":11,\"spent_tok\":12}");
	free(text);
	json_decref(reply);
}

static void pages_hold_what_was_asked_for_and_nothing_else(void **state)
{
	static const struct lg_key whole = { .rule_id = 1, .form = LG_FORM_RULE };
	struct lg_key seven = key4(1, 7), nine = key4(1, 9), net = key4(2, 0);
	struct lg_key six = { .rule_id = 1, .form = LG_FORM_SOURCE, .a = { 0x20, 1, 0xd, 0xb8 } };
	struct lg_key overflow = { .rule_id = 1, .form = LG_FORM_OVERFLOW, .a = { 17 } };
	struct world *w = *state;

	note(w, LG_TIER_REGION, &seven, LG_NOTE_GRANT, 1);
	note(w, LG_TIER_HOME, &seven, LG_NOTE_RETURN, 2);
	note(w, LG_TIER_REGION, &nine, LG_NOTE_LAPSE, 3);
	note(w, LG_TIER_REGION, &net, LG_NOTE_REPORT, 4);
	note(w, LG_TIER_REGION, &six, LG_NOTE_REPORT, 5);
	note(w, LG_TIER_REGION, &overflow, LG_NOTE_REPORT, 6);
	note(w, LG_TIER_REGION, &whole, LG_NOTE_REPORT, 7);

	assert_records(w, "{\"rule\": \"per-net\"}", "report host-2 per-net 198.51.100.0/24 4");
	assert_records(w, "{\"rule\": \"per\"}", "");
	assert_records(w, "{\"tier\": \"home\"}", "return us-east per-user 198.51.100.7 2");
	assert_records(w, "{\"what\": \"lapse\"}", "lapse host-2 per-user 198.51.100.9 3");
	assert_records(w, "{\"what\": \"report\", \"rule\": \"per-user\"}",
		       "report host-2 per-user 2001:db8::/64 5, report host-2 per-user overflow 17 6, report host-2 per-user * 7");
	/* An address names the keys whose prefix it lies in, a prefix those that lie in it. */
	assert_records(w, "{\"key\": \"198.51.100.7\"}",
		       "grant host-2 per-user 198.51.100.7 1, return us-east per-user 198.51.100.7 2, report host-2 per-net 198.51.100.0/24 4");
	assert_records(w, "{\"key\": \"198.51.100.8/31\", \"rule\": \"per-user\"}", "lapse host-2 per-user 198.51.100.9 3");
	assert_records(w, "{\"key\": \"198.51.101.7\"}", "");
	assert_records(w, "{\"key\": \"2001:db8::1\"}", "report host-2 per-user 2001:db8::/64 5");
	assert_records(w, "{\"key\": \"2001:db9::1\"}", "");
	assert_records(w, "{\"key\": \"overflow 17\"}", "report host-2 per-user overflow 17 6");
	assert_records(w, "{\"key\": \"overflow 16\"}", "");
	assert_records(w, "{\"key\": \"*\"}", "report host-2 per-user * 7");
	assert_records(w, "{\"from\": 6}", "report host-2 per-user overflow 17 6, report host-2 per-user * 7");
	assert_records(w, "{\"since_ms\": 9000000000000}", "");
}

/* A product is kept, and asked for, as its text. */
static void products_are_noted_as_people_see_them(void **state)
{
	const struct lg_key_narrow narrow = { .destination_port = 53, .vlan = 8 };
	struct lg_key product = key4(1, 7), seven = key4(1, 7);
	struct lg_wire_key wire = { .rule = "unheard-of", .form = LG_FORM_PRODUCT | LG_KEY_PROTOCOL, .b = { [12] = 17 } };
	struct world *w = *state;

	product.form = LG_FORM_PRODUCT | LG_KEY_SOURCE | LG_KEY_DESTINATION_PORT | LG_KEY_VLAN;
	memcpy(product.b, &narrow, sizeof(narrow));
	note(w, LG_TIER_REGION, &product, LG_NOTE_GRANT, 1);
	note(w, LG_TIER_REGION, &seven, LG_NOTE_GRANT, 2);
	lg_server_note_refused(&w->s, w->hosts[0], &wire, LG_GRANT_UNKNOWN_RULE);
	assert_records(w, "{}",
		       "grant host-2 per-user source 198.51.100.7, destination_port 53, vlan 7 1, grant host-2 per-user 198.51.100.7 2, "
		       "refuse host-1 unheard-of protocol 17 0");
	assert_records(w, "{\"key\": \"source 198.51.100.7, destination_port 53, vlan 7\"}",
		       "grant host-2 per-user source 198.51.100.7, destination_port 53, vlan 7 1");
	assert_records(w, "{\"key\": \"source 198.51.100.7, destination_port 54, vlan 7\"}", "");
	assert_records(w, "{\"key\": \"198.51.100.7\"}", "grant host-2 per-user 198.51.100.7 2");
}

static void an_ask_that_was_refused_before_it_came_to_a_key_is_noted_too(void **state)
{
	struct lg_wire_key wire = { .rule = "unheard-of", .form = LG_FORM_SOURCE,
				    .a = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4 } };
	struct world *w = *state;
	json_t *reply, *record;

	lg_server_note_refused(&w->s, w->hosts[0], &wire, LG_GRANT_UNKNOWN_RULE);
	lg_server_note_refused(&w->s, w->regions[0], &wire, LG_GRANT_NOT_HOME);
	assert_records(w, "{}", "refuse host-1 unheard-of 1.2.3.4 0, refuse us-east unheard-of 1.2.3.4 0");
	reply = ask(w, "{\"tier\": \"home\"}");
	record = json_array_get(json_object_get(reply, "records"), 0);
	assert_string_equal(json_string_value(json_object_get(record, "status")), "not_home");
	assert_int_equal(json_integer_value(json_object_get(record, "epoch")), 7);
	json_decref(reply);
}

static void names_as_long_as_names_may_be_fit(void **state)
{
	struct lg_key key = { .rule_id = 1, .form = LG_FORM_SOURCE };
	struct world *w = *state;
	json_t *reply, *record;

	memset(key.a, 0xab, sizeof(key.a));
	memset(w->s.rules[0].def.name, 'r', LG_NAME_LEN - 1);
	memset(w->holders[1].name, 'h', LG_NAME_LEN - 1);
	note(w, LG_TIER_REGION, &key, LG_NOTE_GRANT, UINT64_MAX >> 2);
	reply = ask(w, "{}");
	record = json_array_get(json_object_get(reply, "records"), 0);
	assert_string_equal(json_string_value(json_object_get(record, "rule")), w->s.rules[0].def.name);
	assert_string_equal(json_string_value(json_object_get(record, "holder")), w->holders[1].name);
	assert_int_equal(json_integer_value(json_object_get(record, "tok")), UINT64_MAX >> 2);
	json_decref(reply);
}

static void pages_are_bounded_and_join_without_a_seam(void **state)
{
	struct lg_key key = key4(1, 7);
	struct world *w = *state;
	json_int_t next = 0, seen = 0, end;
	char request[64];
	size_t n_pages = 0;

	for (int i = 0; i < 4000; i++) {
		note(w, LG_TIER_REGION, &key, LG_NOTE_REPORT, (uint64_t)i + 1);
		if (i % 1000 == 0)
			lg_journal_settle(w->s.journal);
	}
	do {
		json_t *reply, *list, *record;
		size_t i;

		snprintf(request, sizeof(request), "{\"from\": %lld}", (long long)next);
		reply = ask(w, request);
		list = json_object_get(reply, "records");
		assert_true(json_array_size(list) > 0 && json_array_size(list) <= 500);
		json_array_foreach(list, i, record)
			assert_int_equal(json_integer_value(json_object_get(record, "tok")), ++seen);
		next = json_integer_value(json_object_get(reply, "next"));
		end = json_integer_value(json_object_get(reply, "end"));
		json_decref(reply);
		n_pages++;
	} while (next < end);
	assert_int_equal(seen, 4000);
	assert_int_equal(n_pages, 8);
}

static void a_gap_is_told_with_its_last_number_its_length_and_its_cause(void **state)
{
	struct lg_key key = key4(1, 7);
	struct world *w = *state;
	json_t *reply, *gap;
	json_int_t first;
	char request[64];

	/* More than 1 MiB keeps. */
	for (int i = 0; i < 30000; i++) {
		note(w, LG_TIER_REGION, &key, LG_NOTE_REPORT, 1);
		if (i % 1000 == 0)
			lg_journal_settle(w->s.journal);
	}
	snprintf(request, sizeof(request), "{\"from\": 1, \"rule\": \"none\"}");
	reply = ask(w, request);
	first = json_integer_value(json_object_get(reply, "first"));
	assert_true(first > 10000);
	assert_int_equal(json_array_size(json_object_get(reply, "records")), 1);
	gap = json_array_get(json_object_get(reply, "records"), 0);
	assert_int_equal(json_integer_value(json_object_get(gap, "seq")), first - 1);
	assert_int_equal(json_integer_value(json_object_get(gap, "gap")), first - 1);
	assert_string_equal(json_string_value(json_object_get(gap, "cause")), "aged");
	json_decref(reply);
}

static void what_makes_no_sense_is_refused_in_words(void **state)
{
	static const struct {
		const char *request, *why;
	} rows[] = {
		{ "{\"from\": 2}", "the journal is not that far" },
		{ "{\"from\": -1}", "from is negative" },
		{ "{\"key\": \"nonsense\"}", "nonsense" },
		{ "{\"key\": \"overflow x\"}", "x" },
	};
	struct world *w = *state;

	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		json_t *reply = ask(w, rows[i].request);

		assert_true(json_is_false(json_object_get(reply, "ok")));
		assert_non_null(strstr(json_string_value(json_object_get(reply, "error")), rows[i].why));
		json_decref(reply);
	}
}

static void without_a_journal_nothing_is_noted_and_asking_says_so(void **state)
{
	struct lg_key key = key4(1, 7);
	struct world *w = *state;
	json_t *request = json_object(), *reply;

	lg_server_journal_stop(&w->s);
	note(w, LG_TIER_REGION, &key, LG_NOTE_REPORT, 1);
	lg_server_journal_flush(&w->s);
	lg_server_journal_watch(&w->s);
	reply = lg_server_journal_page(&w->s, request);
	assert_non_null(strstr(json_string_value(json_object_get(reply, "error")), "journal.size"));
	json_decref(reply);
	json_decref(request);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_note_comes_back_with_all_it_said),
		T(pages_hold_what_was_asked_for_and_nothing_else),
		T(products_are_noted_as_people_see_them),
		T(an_ask_that_was_refused_before_it_came_to_a_key_is_noted_too),
		T(names_as_long_as_names_may_be_fit),
		T(pages_are_bounded_and_join_without_a_seam),
		T(a_gap_is_told_with_its_last_number_its_length_and_its_cause),
		T(what_makes_no_sense_is_refused_in_words),
		T(without_a_journal_nothing_is_noted_and_asking_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
