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

static char doc[1 << 17];

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
	FILE *f = fopen(DOC, "re");
	const char *line;
	char row[1500];
	size_t n;

	(void)state;
	if (!f)
		fail_msg("%s: cannot be read (tests run from the root of the tree)", DOC);
	n = fread(doc, 1, sizeof(doc) - 1, f);
	fclose(f);
	assert_in_range(n, 1, sizeof(doc) - 2);
	line = strstr(doc, HEADER);
	assert_non_null(line);
	line = strchr(line + strlen(HEADER), '\n') + 1;
	for (int i = 0; i < _LG_FINDING_N; i++) {
		row_of(&lg_finding_kinds[i], row, sizeof(row));
		if (strncmp(line, row, strlen(row)) != 0)
			fail_msg("%s should have the row\n%sinstead of\n%.*s", DOC, row, (int)strcspn(line, "\n"), line);
		line += strlen(row);
	}
	assert_int_equal(*line, '\n'); /* and no row more */
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(the_table_of_findings_is_that_of_the_tool) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
