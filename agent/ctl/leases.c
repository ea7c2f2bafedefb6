// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "ctl/journal.h"

static long long number_of(const json_t *row, const char *field)
{
	return (long long)json_integer_value(json_object_get(row, field));
}

static void host_print(const json_t *list)
{
	size_t i;
	json_t *row;

	if (json_array_size(list))
		printf("at this host:\n  %-20s %-24s %10s %10s %10s %9s %9s\n", "RULE", "KEY", "LEFT", "GRANTED", "SPENT", "DEMAND/s",
		       "ENDS");
	json_array_foreach(list, i, row)
		printf("  %-20s %-24s %10lld %10lld %10lld %9.0f %7.1f s%s\n", lg_ctl_text(row, "rule"), lg_ctl_text(row, "key"),
		       number_of(row, "left_tok"), number_of(row, "granted_tok"), number_of(row, "spent_tok"),
		       json_number_value(json_object_get(row, "demand_tps")), (double)number_of(row, "expires_in_ms") / 1000,
		       json_is_true(json_object_get(row, "partial")) ? " (wants more)" : "");
}

static void region_print(const json_t *list)
{
	size_t i;
	json_t *row;

	if (json_array_size(list))
		printf("at this region:\n  %-20s %-24s %-12s %10s %10s %9s %9s\n", "RULE", "KEY", "HOME", "POOL", "AT HOSTS",
		       "DEMAND/s", "ENDS");
	json_array_foreach(list, i, row)
		printf("  %-20s %-24s %-12s %10lld %10lld %9.0f %7.1f s%s\n", lg_ctl_text(row, "rule"), lg_ctl_text(row, "key"),
		       lg_ctl_text(row, "home"), number_of(row, "pool_tok"), number_of(row, "outstanding_tok"),
		       json_number_value(json_object_get(row, "demand_tps")), (double)number_of(row, "expires_in_ms") / 1000,
		       json_is_true(json_object_get(row, "partial")) ? " (wants more)" : "");
}

static void home_print(const json_t *list)
{
	size_t i;
	json_t *row;

	if (json_array_size(list))
		printf("at home here:\n  %-20s %-24s %10s %10s %10s %10s %10s\n", "RULE", "KEY", "BUDGET", "POOL", "OUT", "CONSUMED",
		       "UNKNOWN");
	json_array_foreach(list, i, row)
		printf("  %-20s %-24s %10lld %10lld %10lld %10lld %10lld\n", lg_ctl_text(row, "rule"), lg_ctl_text(row, "key"),
		       number_of(row, "budget_tok"), number_of(row, "pool_tok"), number_of(row, "outstanding_tok"),
		       number_of(row, "consumed_tok"), number_of(row, "unknown_tok"));
}

/* A list of a daemon's answer, as a new reference; empty without that daemon. */
static json_t *part(const json_t *reply, const char *name)
{
	json_t *list = json_object_get(reply, name);

	return list ? json_incref(list) : json_array();
}

/* ---- history ---- */

struct history {
	const struct lg_ctl *ctl;
	json_t *filter;
	bool wanted;
	uint64_t since_ms;
	uint64_t n_printed;	/* of a JSON array */
};

static bool record_print(struct history *h, const json_t *record)
{
	char time[LG_CTL_TIME_LEN], lease[32], gap[160];

	if (h->ctl->json) {
		fputs(h->n_printed++ ? ",\n  " : "[\n  ", stdout);
		return json_dumpf(record, stdout, JSON_COMPACT) == 0;
	}
	if (json_object_get(record, "gap")) {
		lg_ctl_gap_text(record, gap, sizeof(gap));
		return printf("-- %s\n", gap) > 0;
	}
	lg_ctl_time((uint64_t)number_of(record, "time_ms"), time);
	snprintf(lease, sizeof(lease), "%lld.%lld", number_of(record, "epoch"), number_of(record, "generation"));
	return printf("%-24s %-6s %-6s %-20s %-20s %-24s %-15s %10lld %10lld%s%s\n", time, lg_ctl_text(record, "what"),
		      lg_ctl_text(record, "tier"), lg_ctl_text(record, "holder"), lg_ctl_text(record, "rule"), lg_ctl_text(record, "key"),
		      lease, number_of(record, "tok"), number_of(record, "outstanding_tok"), json_object_get(record, "status") ? " " : "",
		      lg_ctl_text(record, "status")) > 0;
}

/* What came before all that is kept, if it could have been asked for. */
static bool older_print(struct history *h, const struct lg_ctl_page *page)
{
	json_t *gap;
	bool ok;

	if (page->first <= 1 || (h->since_ms && page->first_ms <= h->since_ms))
		return true;
	gap = json_pack("{s:I, s:I, s:s}", "seq", (json_int_t)page->first - 1, "gap", (json_int_t)page->first - 1, "cause", "aged");
	ok = gap && record_print(h, gap);
	json_decref(gap);
	return ok;
}

static bool page_print(struct history *h, const struct lg_ctl_page *page)
{
	for (size_t i = 0; i < json_array_size(page->records); i++)
		if (!record_print(h, json_array_get(page->records, i)))
			return false;
	return true;
}

/* Up to what was there when it began: a busy server would never let it end. */
static int history_print(struct history *h)
{
	struct lg_complaint c = { 0 };
	struct lg_ctl_page page;
	uint64_t next = 0, end = 0;
	bool ok = true;

	do {
		if (lg_ctl_journal_page(h->ctl, h->filter, next, &page, &c))
			return lg_ctl_fail(h->ctl, LG_CTL_REFUSED, "leases --history: %s", c.text);
		if (!end) {
			end = page.end;
			if (!h->ctl->json)
				printf("%-24s %-6s %-6s %-20s %-20s %-24s %-15s %10s %10s\n", "TIME", "WHAT", "TIER", "HOLDER", "RULE", "KEY",
				       "EPOCH.GEN", "TOKENS", "OUT");
			ok = older_print(h, &page);
		}
		ok = ok && page_print(h, &page);
		next = page.next;
		lg_ctl_page_fini(&page);
	} while (ok && next < end);
	if (h->ctl->json)
		fputs(h->n_printed ? "\n]\n" : "[]\n", stdout);
	if (!ok || fflush(stdout))
		return lg_ctl_fail(h->ctl, LG_CTL_REFUSED, "leases --history: cannot write");
	return LG_CTL_OK;
}

static int since_set(struct history *h, const char *text)
{
	struct lg_complaint c = { 0 };
	uint64_t ns, now_ns = lg_clock_unix_ns();

	if (lg_duration_parse(text, LG_NS_PER_MS, now_ns, &ns, &c) < 0)
		return lg_ctl_fail(h->ctl, LG_CTL_USAGE, "leases --since %s: %s", text, c.text);
	h->since_ms = (now_ns - ns) / LG_NS_PER_MS;
	json_object_set_new(h->filter, "since_ms", json_integer((json_int_t)h->since_ms));
	return 0;
}

static int arguments(struct history *h, int argc, char **argv)
{
	int r = 0, first = 0;

	for (int i = 1; r == 0 && i < argc; i++) {
		if (strcmp(argv[i], "--history") == 0) {
			h->wanted = true;
			continue;
		}
		if (i + 1 >= argc)
			return lg_ctl_usage(h->ctl, "leases", argv[i]);
		first = first ? first : i;
		if (strcmp(argv[i], "--key") == 0)
			json_object_set_new(h->filter, "key", json_string(argv[i + 1]));
		else if (strcmp(argv[i], "--rule") == 0)
			json_object_set_new(h->filter, "rule", json_string(argv[i + 1]));
		else if (strcmp(argv[i], "--since") == 0)
			r = since_set(h, argv[i + 1]);
		else
			return lg_ctl_usage(h->ctl, "leases", argv[i]);
		i++;
	}
	if (r == 0 && first && !h->wanted)
		return lg_ctl_fail(h->ctl, LG_CTL_USAGE, "leases %s: only with --history", argv[first]);
	return r;
}

static int leases_print(const struct lg_ctl *ctl)
{
	json_t *node = NULL, *region = NULL, *all;
	struct lg_complaint c = { 0 };
	int rn, rr;

	rn = lg_ctl_ask(ctl, "node", "leases", &node, &c);
	rr = rn < 0 ? 0 : lg_ctl_ask(ctl, "region", "leases", &region, &c);
	if (rn < 0 || rr < 0) {
		json_decref(node);
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "%s", c.text);
	}
	if (rn == 1 && rr == 1)
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "instance %s: no daemon is running (nothing at %s)", ctl->instance,
				   ctl->run_dir);
	all = json_pack("{s:o, s:o, s:o}", "node", part(node, "node"), "region", part(region, "region"), "home",
			part(region, "home"));
	json_decref(node);
	json_decref(region);
	if (ctl->json)
		return lg_ctl_print(all);
	host_print(json_object_get(all, "node"));
	region_print(json_object_get(all, "region"));
	home_print(json_object_get(all, "home"));
	json_decref(all);
	return LG_CTL_OK;
}

int lg_ctl_leases(const struct lg_ctl *ctl, int argc, char **argv)
{
	struct history h = { .ctl = ctl, .filter = json_object() };
	int r;

	r = h.filter ? arguments(&h, argc, argv) : lg_ctl_fail(ctl, LG_CTL_REFUSED, "out of memory");
	if (r == 0)
		r = h.wanted ? history_print(&h) : leases_print(ctl);
	json_decref(h.filter);
	return r;
}
