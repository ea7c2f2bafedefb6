// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Usage as JSON lines. What was printed last says where to go on, so nothing is kept here: whoever reads the lines keeps the last seq
 * beside what he made of them, and gives it to the next run.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "ctl/journal.h"

#define POLL_MS 200

struct usage {
	const struct lg_ctl *ctl;
	json_t *filter;
	bool follow;
	uint64_t next;		/* 0: the oldest one */
	bool answered;		/* the region server was there */
	bool told_silence;
};

static json_t *report_line(const char *region, const json_t *record)
{
	char time[LG_CTL_TIME_LEN];

	lg_ctl_time((uint64_t)json_integer_value(json_object_get(record, "time_ms")), time);
	return json_pack("{s:O, s:s, s:s, s:O, s:O, s:O, s:O, s:O, s:O, s:O, s:O}", "seq", json_object_get(record, "seq"), "time", time,
			 "region", region, "tier", json_object_get(record, "tier"), "holder", json_object_get(record, "holder"), "rule",
			 json_object_get(record, "rule"), "key", json_object_get(record, "key"), "epoch", json_object_get(record, "epoch"),
			 "generation", json_object_get(record, "generation"), "consumed_tok", json_object_get(record, "tok"), "total_tok",
			 json_object_get(record, "spent_tok"));
}

static json_t *gap_line(const char *region, const json_t *record)
{
	return json_pack("{s:O, s:s, s:O, s:O}", "seq", json_object_get(record, "seq"), "region", region, "gap",
			 json_object_get(record, "gap"), "cause", json_object_get(record, "cause"));
}

/* False when it could not be written. */
static bool page_print(const struct lg_ctl_page *page)
{
	const json_t *record;
	size_t i;

	for (i = 0; i < json_array_size(page->records); i++) {
		json_t *line;
		int r;

		record = json_array_get(page->records, i);
		line = json_object_get(record, "gap") ? gap_line(page->region, record) : report_line(page->region, record);
		r = line ? json_dumpf(line, stdout, JSON_COMPACT) : -1;
		json_decref(line);
		if (r < 0 || putchar('\n') == EOF)
			return false;
	}
	return fflush(stdout) == 0;
}

/* Nobody answers: while following, whoever was there is waited for. */
static int silence(struct usage *u, const struct lg_complaint *c)
{
	if (!u->follow || !u->answered)
		return lg_ctl_fail(u->ctl, LG_CTL_REFUSED, "usage: %s", c->text);
	if (!u->told_silence)
		fprintf(stderr, "leasegate: usage: %s; waiting for it\n", c->text);
	u->told_silence = true;
	poll(NULL, 0, POLL_MS);
	return LG_CTL_OK;
}

/* One page. *ret_done: there is no more. */
static int step(struct usage *u, bool *ret_done)
{
	struct lg_complaint c = { 0 };
	struct lg_ctl_page page;
	bool printed, all;
	int r;

	r = lg_ctl_journal_page(u->ctl, u->filter, u->next, &page, &c);
	if (r == LG_CTL_JOURNAL_SILENT)
		return silence(u, &c);
	if (r)
		return lg_ctl_fail(u->ctl, LG_CTL_REFUSED, "usage: %s", c.text);
	u->answered = true;
	u->told_silence = false;
	printed = page_print(&page);
	u->next = page.next;
	all = page.next >= page.end;
	lg_ctl_page_fini(&page);
	if (!printed)
		return lg_ctl_fail(u->ctl, LG_CTL_REFUSED, "usage: cannot write: %s", strerror(errno));
	if (all && u->follow)
		poll(NULL, 0, POLL_MS);
	*ret_done = all && !u->follow;
	return LG_CTL_OK;
}

static int tier_set(struct usage *u, const char *tier)
{
	if (strcmp(tier, "region") != 0 && strcmp(tier, "home") != 0)
		return lg_ctl_fail(u->ctl, LG_CTL_USAGE, "usage --tier: %s is neither region nor home", tier);
	json_object_set_new(u->filter, "tier", json_string(tier));
	return 0;
}

static int arguments(struct usage *u, int argc, char **argv)
{
	struct lg_complaint c = { 0 };
	uint64_t last;
	int r = 0;

	for (int i = 1; r == 0 && i < argc; i++) {
		if (strcmp(argv[i], "--follow") == 0) {
			u->follow = true;
			continue;
		}
		if (i + 1 >= argc)
			return lg_ctl_usage(u->ctl, "usage", argv[i]);
		if (strcmp(argv[i], "--rule") == 0) {
			json_object_set_new(u->filter, "rule", json_string(argv[i + 1]));
		} else if (strcmp(argv[i], "--tier") == 0) {
			r = tier_set(u, argv[i + 1]);
		} else if (strcmp(argv[i], "--from") == 0) {
			if (lg_num_parse(argv[i + 1], 0, INT64_MAX - 1, &last, &c) < 0)
				return lg_ctl_fail(u->ctl, LG_CTL_USAGE, "usage --from: %s", c.text);
			u->next = last + 1;
		} else {
			return lg_ctl_usage(u->ctl, "usage", argv[i]);
		}
		i++;
	}
	return r;
}

int lg_ctl_usage_run(const struct lg_ctl *ctl, int argc, char **argv)
{
	/* Lines are all that may appear on stdout, whatever happens: an error is no line of usage. */
	struct lg_ctl plain = { .instance = ctl->instance, .run_dir = ctl->run_dir };
	struct usage u = { .ctl = &plain, .filter = json_pack("{s:s, s:s}", "what", "report", "tier", "region") };
	bool done = false;
	int r;

	r = u.filter ? arguments(&u, argc, argv) : lg_ctl_fail(&plain, LG_CTL_REFUSED, "out of memory");
	while (r == LG_CTL_OK && !done)
		r = step(&u, &done);
	json_decref(u.filter);
	return r;
}
