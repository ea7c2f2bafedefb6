// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* docs/preflight.md has a row for each finding that there is, in the words that the tool prints, and no other. */
#include "kern/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DOC "docs/preflight.md"
#define HEADER "| finding | about | at worst | why it matters | what to do |\n"

#define DRIVERS "| driver | native XDP from kernel | attaching XDP | queues it wants | MTU with one buffer |\n"

static char doc[1 << 17];

static int setup(void **state)
{
	FILE *f = fopen(DOC, "re");
	size_t n;

	(void)state;
	if (!f)
		fail_msg("%s: cannot be read (tests run from the root of the tree)", DOC);
	n = fread(doc, 1, sizeof(doc) - 1, f);
	fclose(f);
	return n > 0 && n < sizeof(doc) - 1 ? 0 : -1;
}

/* The first row below a header. */
static const char *table(const char *header)
{
	const char *at = strstr(doc, header);

	if (!at)
		fail_msg("%s has no table %s", DOC, header);
	return strchr(at + strlen(header), '\n') + 1;
}

/* That the row is there, word for word; what is behind it. */
static const char *row_check(const char *line, const char *row)
{
	if (strncmp(line, row, strlen(row)) != 0)
		fail_msg("%s should have the row\n%sinstead of\n%.*s", DOC, row, (int)strcspn(line, "\n"), line);
	return line + strlen(row);
}

static void row_of(const struct lg_finding_kind *kind, char *buf, size_t len)
{
	static const char *const scopes[] = { [LG_ABOUT_MACHINE] = "machine", [LG_ABOUT_FILES] = "files", [LG_ABOUT_INTERFACE] = "interface" };
	bool blocks = kind->worst == LG_SEVERITY_BLOCKER;
	char code[16] = "";

	if (blocks)
		snprintf(code, sizeof(code), ", exit %d", (int)kind->fail);
	snprintf(buf, len, "| `%s` | %s | %s%s%s | %s | %s |\n", kind->name, scopes[kind->scope],
		 blocks ? "in the way" : lg_severity_name(kind->worst), code, kind->at_start ? ", said at start" : "", kind->why, kind->action);
}

static void the_table_of_findings_is_that_of_the_tool(void **state)
{
	const char *line = table(HEADER);
	char row[1500];

	(void)state;
	for (int i = 0; i < _LG_FINDING_N; i++) {
		row_of(&lg_finding_kinds[i], row, sizeof(row));
		line = row_check(line, row);
	}
	assert_int_equal(*line, '\n'); /* and no row more */
}

static void the_table_of_drivers_is_that_of_the_tool(void **state)
{
	static const char NONE[] = "does not touch the link", QUEUES[] = "stops its queues for a moment", LINK[] = "resets it";
	static const char QUEUES_ANY[] = "any", QUEUES_CPUS[] = "one more for each CPU", QUEUES_HALF[] = "half of them free",
			  QUEUES_64[] = "at most 64 CPUs";
	static const struct {
		const char *name;
		int major, minor;
		const char *reset, *queues;
		int mtu;
	} drivers[] = {
#define LG_DRIVER(name, major, minor, reset, queues, mtu) { name, major, minor, reset, QUEUES_##queues, mtu },
#include "kern/drivers.def"
	};
	const char *line = table(DRIVERS);
	char row[300];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(drivers); i++) {
		snprintf(row, sizeof(row), "| `%s` | %d.%d | %s | %s | %d |\n", drivers[i].name, drivers[i].major, drivers[i].minor,
			 drivers[i].reset, drivers[i].queues, drivers[i].mtu);
		line = row_check(line, row);
		assert_true(i == 0 || strcmp(drivers[i - 1].name, drivers[i].name) < 0);
	}
	assert_int_equal(*line, '\n');
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_of_findings_is_that_of_the_tool),
		cmocka_unit_test(the_table_of_drivers_is_that_of_the_tool),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
