// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* docs/rules.md and deploy/examples say what the code does: each key has its row, each snippet is read, each refusal is as printed. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/num.h"
#include "leasegate/bounds.h"
#include "rules/compile.h"
#include "rules/config.h"
#include "rules/fields.h"
#include "rules/yaml.h"

#define DOC "docs/rules.md"
#define EXAMPLES "deploy/examples"

/* "`a`, `b`; not yet: `c`" */
static size_t doc_words(const char *words, char *buf, size_t len)
{
	size_t n = 0;

	buf[0] = '\0';
	for (int later = 0; later < 2; later++) {
		const char *before = later ? "; not yet: " : "";

		for (const char *w = words; *w && n < len; w += strcspn(w, "|"), w += *w == '|') {
			if ((*w == '!') != later)
				continue;
			n += (size_t)snprintf(buf + n, len - n, "%s`%.*s`", before, (int)strcspn(w + later, "|"),
					      w + later);
			before = ", ";
		}
	}
	return n;
}

static void doc_range(const struct lg_field *field, char *buf, size_t len)
{
	char min[LG_NUM_TEXT_LEN], max[LG_NUM_TEXT_LEN];

	switch (field->type) {
	case LG_FIELD_LIST:
	case LG_FIELD_PREFIXES:
	case LG_FIELD_ADDRESSES:
	case LG_FIELD_VALUES:
	case LG_FIELD_ENTRIES:
	case LG_FIELD_TEXTS:
	case LG_FIELD_NAMES: snprintf(buf, len, ", %" PRIu64 " to %" PRIu64 " items", field->min, field->max); return;
	case LG_FIELD_NAME: snprintf(buf, len, ", 1 to %" PRIu64 " of `A-Z a-z 0-9 . _ -`", field->max); return;
	case LG_FIELD_INSTANCE: snprintf(buf, len, ", 1 to %" PRIu64 " of `a-z 0-9 _ -`", field->max); return;
	case LG_FIELD_IFNAME:
	case LG_FIELD_IFNAMES:
	case LG_FIELD_IFPATTERN:
	case LG_FIELD_TEXT:
	case LG_FIELD_PATH: snprintf(buf, len, ", at most %" PRIu64 " bytes", field->max); return;
	case LG_FIELD_UINT:
	case LG_FIELD_LENGTH:
	case LG_FIELD_PROTOCOL: snprintf(buf, len, ", %" PRIu64 " to %" PRIu64, field->min, field->max); return;
	case LG_FIELD_TAGS:
	case LG_FIELD_ICMP_TYPES:
	case LG_FIELD_PORTS:
		snprintf(buf, len, ", %" PRIu64 " to %" PRIu64 ", at most %d", field->min, field->max,
			 LG_PORT_RANGES_MAX);
		return;
	case LG_FIELD_PERCENT:
		snprintf(buf, len, ", %" PRIu64 "%% to %" PRIu64 "%%", field->min / 10, field->max / 10);
		return;
	case LG_FIELD_RATE:
		snprintf(buf, len, ", %g/s to %g/s", (double)field->min / 1000, (double)field->max / 1000);
		return;
	case LG_FIELD_DURATION:
		lg_duration_format(field->min, min, sizeof(min));
		lg_duration_format(field->max, max, sizeof(max));
		snprintf(buf, len, ", %s to %s", min, max);
		return;
	case LG_FIELD_LIMIT:
	case LG_FIELD_AMOUNT:
		lg_bytes_format(field->max, max, sizeof(max));
		snprintf(buf, len, ", %" PRIu64 " to %" PRIu64 " or %s", field->min, field->max, max);
		return;
	case LG_FIELD_BYTES:
		lg_bytes_format(field->min, min, sizeof(min));
		lg_bytes_format(field->max, max, sizeof(max));
		snprintf(buf, len, ", %s to %s%s%s%s", min, max, field->words ? ", or `" : "", field->words ? field->words : "",
			 field->words ? "`" : "");
		return;
	case LG_FIELD_ADDRESS:
		snprintf(buf, len, "%s%s%s", field->words ? ", or `" : "", field->words ? field->words : "",
			 field->words ? "`" : "");
		return;
	case LG_FIELD_MAP:
	case LG_FIELD_CHOICE:
	case LG_FIELD_MARK:
	case LG_FIELD_PRIORITY:
	case LG_FIELD_DSCP:
	case LG_FIELD_WORD:
	case LG_FIELD_WORDS:
	case LG_FIELD_ETHERTYPE:
	case LG_FIELD_TCP_FLAGS:
	case LG_FIELD_BOOL:
	case LG_FIELD_LISTED:
	case LG_FIELD_MATCH:
	case LG_FIELD_NODES:
	case LG_FIELD_PREFIX: buf[0] = '\0'; return;
	}
}

/* "| `limit` | a limit such as 10000/1m, ... | required | help |", for the configuration also who reads it. */
static void doc_row(const struct lg_field *field, bool with_roles, char *buf, size_t len)
{
	static const char *const roles[] = { "", " node |", " region |", " both |" };
	char value[256], range[128], def[128];

	doc_range(field, range, sizeof(range));
	if (field->type == LG_FIELD_WORD)
		doc_words(field->words, value, sizeof(value));
	else if (field->type == LG_FIELD_CHOICE)
		snprintf(value + doc_words(field->words, value, sizeof(value)), 64, ", or a mapping with one of the keys below");
	else if (field->type == LG_FIELD_WORDS)
		snprintf(value + doc_words(field->words, value, sizeof(value)), 32, ", or a list of them");
	else
		snprintf(value, sizeof(value), "%s%s", lg_field_type_text(field), range);
	if (!field->def)
		snprintf(def, sizeof(def), "required");
	else if (!field->def[0])
		snprintf(def, sizeof(def), "none");
	else if (field->def[0] == '(')
		snprintf(def, sizeof(def), "%.*s", (int)strlen(field->def) - 2, field->def + 1);
	else
		snprintf(def, sizeof(def), "`%s`", field->def);
	snprintf(buf, len, "| `%s` |%s %s | %s | %s |", field->path, with_roles ? roles[field->roles] : "", value, def,
		 field->help);
}

/* ---- the text ---- */

static char *doc; /* the whole page */

static char *file_read(const char *path)
{
	_cleanup_free_ char *text = NULL;
	struct lg_complaint c = { 0 };
	size_t len = 0;

	if (lg_tree_file_read(path, 1 << 20, &text, &len, &c) < 0)
		fail_msg("%s: %s (tests run from the root of the tree)", path, c.text);
	return strndup(text, len);
}

static int setup(void **state)
{
	(void)state;
	doc = file_read(DOC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(doc);
	return 0;
}

/* A fenced block: what follows the backticks, and the lines inside. */
struct block {
	char info[32];
	const char *text;
	size_t len;
};

/* The next block at or after *p, which moves behind it. */
static bool block_next(const char **p, struct block *ret)
{
	const char *start = strstr(*p, "\n```"), *end;

	if (!start)
		return false;
	start += 4;
	snprintf(ret->info, sizeof(ret->info), "%.*s", (int)strcspn(start, "\n"), start);
	ret->text = strchr(start, '\n') + 1;
	end = strstr(ret->text - 1, "\n```");
	assert_non_null(end);
	ret->len = (size_t)(end + 1 - ret->text);
	*p = end + 4;
	return true;
}

/* ---- the tables ---- */

static void table_check(const struct lg_field *fields, size_t n, bool with_roles, const char *header)
{
	const char *line = strstr(doc, header);
	char row[1024];

	assert_non_null(line);
	line = strchr(strchr(line, '\n') + 1, '\n') + 1;
	for (size_t i = 0; i < n; i++) {
		doc_row(&fields[i], with_roles, row, sizeof(row));
		if (strncmp(line, row, strlen(row)) != 0 || line[strlen(row)] != '\n')
			fail_msg("%s should have the row\n%s\ninstead of\n%.*s", DOC, row, (int)strcspn(line, "\n"),
				 line);
		line += strlen(row) + 1;
	}
	assert_int_equal(*line, '\n'); /* and no row more */
}

static void the_tables_of_keys_are_those_of_the_reader(void **state)
{
	(void)state;
	table_check(lg_rules_fields, _LG_RF_N, false, "| key | value | default | meaning |\n");
	table_check(lg_config_fields, _LG_CF_N, true, "| key | read by | value | default | meaning |\n");
}

/* ---- the snippets ---- */

static bool rules_seen[_LG_RF_N], config_seen[_LG_CF_N];

/* Notes which keys are written with another value than their default. */
static void keys_note(const struct lg_field *fields, size_t n, const char *prefix, enum lg_field_roles role,
		      const struct lg_node *map, bool *seen)
{
	struct lg_field_at at[_LG_CF_N + _LG_RF_N];
	struct lg_complaint c = { 0 };
	char list[64];

	assert_int_equal(lg_fields_collect(fields, n, prefix, role, map, at, &c), 0);
	for (size_t i = 0; i < n; i++) {
		const struct lg_node *node = at[i].node;

		if (!node)
			continue;
		if (node->kind != LG_NODE_SCALAR || !fields[i].def || strcmp(node->text, fields[i].def) != 0)
			seen[i] = true;
		snprintf(list, sizeof(list), "%s[]", fields[i].path);
		for (const struct lg_node *item = node->child; fields[i].type == LG_FIELD_LIST && item;
		     item = item->next)
			keys_note(fields, n, list, role, item, seen);
	}
}

static void snippet_keys_note(const struct block *b, bool is_rules)
{
	_cleanup_(lg_tree_free) struct lg_tree *tree = NULL;
	struct lg_complaint c = { 0 };

	assert_int_equal(lg_tree_parse(b->text, b->len, "x", 1 << 20, "", &tree, &c), 0);
	if (is_rules)
		keys_note(lg_rules_fields, _LG_RF_N, "", LG_FIELD_BOTH, tree->root, rules_seen);
	else
		keys_note(lg_config_fields, _LG_CF_N, "", strstr(b->info, "node") ? LG_FIELD_NODE : LG_FIELD_REGION,
			  tree->root, config_seen);
}

/* Reads, and for rules compiles, a text as the file it is for. */
static int text_load(const char *kind, const char *text, size_t len, struct lg_complaint *c)
{
	static struct lg_classifier classifier;
	static struct lg_ruleset set;
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_config config;
	struct lg_compile_env env = { .now_ns = 1, .n_regions = 3, .hosts_in_region = 12, .grace_ns = 1000000000,
				      .n_lines = LG_LINE_KEYS_DEFAULT / LG_LINE_SLOTS };
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	int r;

	if (strcmp(kind, "node") == 0)
		return lg_config_parse(text, len, "node.yaml", LG_CONFIG_NODE, &config, c);
	if (strcmp(kind, "region") == 0)
		return lg_config_parse(text, len, "region.yaml", LG_CONFIG_REGION, &config, c);
	assert_string_equal(kind, "rules");
	r = lg_rules_parse(text, len, "rules.yaml", &rules, c);
	return r < 0 ? r : lg_rules_compile(rules, &env, &set, &classifier, names, c);
}

/* The block after a refused one holds the complaint, as printed. */
static void refusal_check(const struct block *b, const char *kind, const char **p)
{
	struct lg_complaint c = { 0 };
	struct block printed;
	char text[1024];

	assert_true(block_next(p, &printed));
	assert_string_equal(printed.info, "text");
	assert_int_equal(text_load(kind, b->text, b->len, &c), -EINVAL);
	lg_complaint_format(&c, text, sizeof(text));
	if (strlen(text) + 1 != printed.len || strncmp(text, printed.text, strlen(text)) != 0)
		fail_msg("%s prints\n%.*sbut it is\n%s", DOC, (int)printed.len, printed.text, text);
}

static void every_snippet_is_read_or_refused_as_the_page_says(void **state)
{
	const char *p = doc;
	struct block b;
	int n = 0;

	(void)state;
	while (block_next(&p, &b)) {
		struct lg_complaint c = { 0 };
		char kind[16] = "", refused[16] = "";

		if (strncmp(b.info, "yaml", 4) != 0) {
			assert_string_equal(b.info, "sh");
			continue;
		}
		assert_true(sscanf(b.info, "yaml %15s %15s", kind, refused) >= 1);
		n++;
		if (refused[0]) {
			assert_string_equal(refused, "refused");
			refusal_check(&b, kind, &p);
			continue;
		}
		if (text_load(kind, b.text, b.len, &c) < 0)
			fail_msg("%s: %u:%u: %s\n%.*s", DOC, c.line, c.col, c.text, (int)b.len, b.text);
		snippet_keys_note(&b, strcmp(kind, "rules") == 0);
	}
	assert_true(n > 15);
}

static void every_key_is_shown_with_a_value_that_is_not_its_default(void **state)
{
	(void)state;
	for (size_t i = 0; i < _LG_RF_N; i++)
		if (!rules_seen[i])
			fail_msg("no snippet of %s shows %s", DOC, lg_rules_fields[i].path);
	for (size_t i = 0; i < _LG_CF_N; i++)
		if (!config_seen[i])
			fail_msg("no snippet of %s shows %s", DOC, lg_config_fields[i].path);
}

/* ---- the examples ---- */

static void every_example_is_read_and_its_rules_file_is_there(void **state)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	DIR *dir = opendir(EXAMPLES);
	int n = 0;

	(void)state;
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct lg_complaint c = { 0 };
		static struct lg_config config;
		char path[300], kind[16];
		char *text;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), EXAMPLES "/%s", entry->d_name);
		snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(entry->d_name, "-."), entry->d_name);
		text = file_read(path);
		if (text_load(kind, text, strlen(text), &c) < 0)
			fail_msg("%s:%u:%u: %s", path, c.line, c.col, c.text);
		free(text);
		n++;
		if (strcmp(kind, "rules") == 0)
			continue;
		assert_int_equal(lg_config_read(path, strcmp(kind, "node") == 0 ? LG_CONFIG_NODE : LG_CONFIG_REGION,
						&config, &c),
				 0);
		if (lg_rules_read(config.rules, &rules, &c) < 0)
			fail_msg("%s names %s: %s", path, config.rules, c.text);
		rules = lg_rules_free(rules);
	}
	closedir(dir);
	assert_true(n >= 5);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tables_of_keys_are_those_of_the_reader),
		cmocka_unit_test(every_snippet_is_read_or_refused_as_the_page_says),
		cmocka_unit_test(every_key_is_shown_with_a_value_that_is_not_its_default),
		cmocka_unit_test(every_example_is_read_and_its_rules_file_is_there),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
