// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <stdio.h>

static const char *text_of(const json_t *row, const char *field)
{
	const char *s = json_string_value(json_object_get(row, field));

	return s ? s : "";
}

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
		printf("  %-20s %-24s %10lld %10lld %10lld %9.0f %7.1f s%s\n", text_of(row, "rule"), text_of(row, "key"),
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
		printf("  %-20s %-24s %-12s %10lld %10lld %9.0f %7.1f s%s\n", text_of(row, "rule"), text_of(row, "key"),
		       text_of(row, "home"), number_of(row, "pool_tok"), number_of(row, "outstanding_tok"),
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
		printf("  %-20s %-24s %10lld %10lld %10lld %10lld %10lld\n", text_of(row, "rule"), text_of(row, "key"),
		       number_of(row, "budget_tok"), number_of(row, "pool_tok"), number_of(row, "outstanding_tok"),
		       number_of(row, "consumed_tok"), number_of(row, "unknown_tok"));
}

/* A list of a daemon's answer, as a new reference; empty without that daemon. */
static json_t *part(const json_t *reply, const char *name)
{
	json_t *list = json_object_get(reply, name);

	return list ? json_incref(list) : json_array();
}

int lg_ctl_leases(const struct lg_ctl *ctl, int argc, char **argv)
{
	json_t *node = NULL, *region = NULL, *all;
	struct lg_complaint c = { 0 };
	int rn, rr;

	if (argc > 1)
		return lg_ctl_usage(ctl, "leases", argv[1]);
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
