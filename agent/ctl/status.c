// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Everything at a glance. The kernel's part is what the kernel says, not what a daemon believes. */
#include "ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lease/hash.h"
#include "rules/config.h"

static json_t *kernel_json(struct lg_kern *kern)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	struct lg_control control;
	uint32_t max = 0, used = 0;

	if (lg_kern_control_read(kern, &control) < 0 || lg_kern_rules_read(kern, &set, names) < 0 ||
	    lg_kern_keys_count(kern, &max, &used) < 0)
		return NULL;
	return json_pack("{s:i, s:I, s:i, s:I, s:I, s:s, s:b}", "abi", (int)control.abi_version, "rules_version",
			 (json_int_t)set.version, "rules", (int)set.n_rules, "keys_max", (json_int_t)max, "keys",
			 (json_int_t)used, "unparsable", control.unparsable_drop ? "drop" : "pass", "reachable",
			 control.reachable != 0);
}

static json_t *bypass_json(struct lg_kern *kern)
{
	struct lg_bypass bypass = { 0 };

	if (kern)
		lg_kern_bypass_read(kern, &bypass);
	return lg_ctl_bypass_json(&bypass);
}

/* The kernel's word, as seen from here; a running node may see more, in its own network namespace. */
static json_t *attachments_json(struct lg_kern *kern, const json_t *node)
{
	json_t *seen = json_object_get(node, "attachments");
	static struct lg_attachment list[_LG_HOOK_N * LG_ATTACH_MAX];
	json_t *array;
	int n;

	if (seen)
		return json_incref(seen);
	n = lg_kern_attachments(kern, list, N_ELEMS(list));
	array = json_array();
	for (int i = 0; i < n; i++)
		json_array_append_new(array, json_pack("{s:s, s:i, s:s, s:s, s:I, s:I}", "interface", list[i].ifname, "ifindex",
						       (int)list[i].ifindex, "hook", lg_hook_name(list[i].hook), "mode",
						       lg_attach_mode_name(list[i].mode), "link_id",
						       (json_int_t)list[i].link_id, "prog_id", (json_int_t)list[i].prog_id));
	return array;
}

static void kernel_print(const json_t *all)
{
	const json_t *kernel = json_object_get(all, "kernel"), *bypass = json_object_get(all, "bypass"), *a;
	size_t i;

	if (json_is_null(kernel)) {
		printf("kernel: nothing of this instance\n");
		return;
	}
	printf("kernel: %lld rules (version %lld), %lld of %lld keys, unparsable packets %s\n",
	       (long long)json_integer_value(json_object_get(kernel, "rules")),
	       (long long)json_integer_value(json_object_get(kernel, "rules_version")),
	       (long long)json_integer_value(json_object_get(kernel, "keys")),
	       (long long)json_integer_value(json_object_get(kernel, "keys_max")),
	       json_string_value(json_object_get(kernel, "unparsable")));
	if (json_is_true(json_object_get(bypass, "on")) || json_is_real(json_object_get(bypass, "on_again_in_s")))
		lg_ctl_bypass_print(bypass);
	if (!json_array_size(json_object_get(all, "attachments")))
		printf("  attached nowhere: no packet is limited\n");
	json_array_foreach(json_object_get(all, "attachments"), i, a)
		printf("  %-15s %-10s %-8s link %lld, program %lld\n", json_string_value(json_object_get(a, "interface")),
		       json_string_value(json_object_get(a, "hook")), json_string_value(json_object_get(a, "mode")),
		       (long long)json_integer_value(json_object_get(a, "link_id")),
		       (long long)json_integer_value(json_object_get(a, "prog_id")));
}

/* What is to be limited and is not. */
static void missing_print(const json_t *node)
{
	const json_t *in;
	size_t i;

	json_array_foreach(json_object_get(node, "interfaces"), i, in)
		if (!json_is_true(json_object_get(in, "attached")))
			printf("  %-15s %-10s NOT ATTACHED: %s\n", json_string_value(json_object_get(in, "interface")),
			       json_string_value(json_object_get(in, "hook")), json_string_value(json_object_get(in, "why")));
}

/* The servers of a region, where it has several, or where not all of its slots of keys are owned. */
static void servers_print(const json_t *servers, json_int_t n_slots)
{
	const json_t *row;
	size_t i;

	if (json_array_size(servers) < 2 && n_slots == LG_KEY_SLOTS)
		return;
	json_array_foreach(servers, i, row) {
		const char *state = json_string_value(json_object_get(row, "state"));

		if (json_is_true(json_object_get(row, "self")))
			state = "this one";
		printf("  server %-28s %3lld of %u slots  %-21s %s\n", json_string_value(json_object_get(row, "name")),
		       (long long)json_integer_value(json_object_get(row, "slots")), LG_KEY_SLOTS,
		       json_string_value(json_object_get(row, "address")), state ? state : "");
	}
}

static void node_print(const json_t *node)
{
	const json_t *up = json_object_get(node, "upstream");

	if (json_is_null(node)) {
		printf("node: not running\n");
		return;
	}
	printf("node %s: pid %lld, up %.0f s, %s%s%s\n", json_string_value(json_object_get(node, "name")),
	       (long long)json_integer_value(json_object_get(node, "pid")), json_number_value(json_object_get(node, "uptime_s")),
	       json_is_true(json_object_get(node, "ready")) ? "ready" : "NOT READY: ",
	       json_is_true(json_object_get(node, "ready")) ? "" : json_string_value(json_object_get(node, "why")),
	       json_is_true(json_object_get(node, "degraded")) ? ", DEGRADED: global rules without their upstream" : "");
	missing_print(node);
	if (json_is_number(json_object_get(node, "confirm_in_s")))
		printf("  RULES ON TRIAL: those before them come back in %.0f s, unless `leasegate reload --confirm` keeps them\n",
		       json_number_value(json_object_get(node, "confirm_in_s")));
	if (*json_string_value(json_object_get(node, "rules_why")))
		printf("  RULES: those last in force, not those of the file: %s\n", json_string_value(json_object_get(node, "rules_why")));
	printf("  leases: %lld keys, %lld tokens left\n", (long long)json_integer_value(json_object_get(node, "leased_keys")),
	       (long long)json_integer_value(json_object_get(node, "lease_left_tok")));
	if (json_is_null(up))
		printf("  upstream: none\n");
	else if (strcmp(json_string_value(json_object_get(up, "state")), "up") == 0)
		printf("  upstream: %s at %s, epoch %lld, %.1f ms\n", json_string_value(json_object_get(up, "lessor")),
		       json_string_value(json_object_get(up, "address")),
		       (long long)json_integer_value(json_object_get(up, "epoch")),
		       json_number_value(json_object_get(up, "rtt_ms")));
	else
		printf("  upstream: DOWN at %s: %s\n", json_string_value(json_object_get(up, "address")),
		       json_string_value(json_object_get(up, "why")));
	servers_print(json_object_get(up, "servers"), LG_KEY_SLOTS);
}

static void escrow_print(const json_t *escrow)
{
	const char *why = json_string_value(json_object_get(escrow, "why"));

	if (!json_integer_value(json_object_get(escrow, "keys")) && !*why)
		return;
	printf("  reserves: %lld keys, %lld writes in %lld commits%s%s%s\n", (long long)json_integer_value(json_object_get(escrow, "keys")),
	       (long long)json_integer_value(json_object_get(escrow, "writes")),
	       (long long)json_integer_value(json_object_get(escrow, "commits")), *why ? "; NO MORE CAN BE WRITTEN: " : "", why,
	       *why ? " (what is durable is lent, and nothing more)" : "");
	if (json_integer_value(json_object_get(escrow, "no_room")))
		printf("  RESERVES: %lld times no room for a key: fewer strict keys, or more regions\n",
		       (long long)json_integer_value(json_object_get(escrow, "no_room")));
}

static void region_print(const json_t *region)
{
	const json_t *row;
	size_t i;

	if (json_is_null(region))
		return;
	printf("region %s: pid %lld, up %.0f s, epoch %lld, leasing %lld keys, home of %lld\n",
	       json_string_value(json_object_get(region, "name")), (long long)json_integer_value(json_object_get(region, "pid")),
	       json_number_value(json_object_get(region, "uptime_s")),
	       (long long)json_integer_value(json_object_get(region, "epoch")),
	       (long long)json_integer_value(json_object_get(region, "region_keys")),
	       (long long)json_integer_value(json_object_get(region, "home_keys")));
	servers_print(json_object_get(region, "servers"), json_integer_value(json_object_get(region, "slots")));
	escrow_print(json_object_get(region, "escrow"));
	json_array_foreach(json_object_get(region, "homes"), i, row)
		printf("  home %-20s %-4s %7.1f ms  %s\n", json_string_value(json_object_get(row, "region")),
		       json_string_value(json_object_get(row, "state")), json_number_value(json_object_get(row, "rtt_ms")),
		       json_string_value(json_object_get(row, "address")));
	json_array_foreach(json_object_get(region, "holders"), i, row)
		printf("  %-6s %-18s %s\n", json_string_value(json_object_get(row, "kind")),
		       json_string_value(json_object_get(row, "name")), json_string_value(json_object_get(row, "address")));
}

/* A daemon's own part: its reply, null when it does not run, or an error object. */
static json_t *daemon_json(const struct lg_ctl *ctl, const char *role)
{
	struct lg_complaint c = { 0 };
	json_t *reply = NULL;
	int r;

	r = lg_ctl_ask(ctl, role, "status", &reply, &c);
	if (r == 0)
		return reply;
	if (r < 0)
		fprintf(stderr, "leasegate: %s: %s\n", role, c.text);
	return json_null();
}

int lg_ctl_status(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	enum lg_kern_fail fail = LG_KERN_REFUSED;
	struct lg_complaint c = { 0 };
	json_t *all, *kernel = NULL, *node;
	int r;

	if (argc > 1)
		return lg_ctl_usage(ctl, "status", argv[1]);
	r = lg_kern_open_pins(ctl->instance, NULL, &kern, &fail, &c);
	if (r < 0 && r != -ENOENT && fail != LG_KERN_NO_BPFFS)
		return lg_ctl_fail(ctl, fail, "%s", c.text);
	if (r == 0)
		kernel = kernel_json(kern);
	node = daemon_json(ctl, "node");
	all = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "instance", ctl->instance, "kernel", kernel ? kernel : json_null(),
			"bypass", bypass_json(kern), "attachments", kern ? attachments_json(kern, node) : json_array(), "node", node, "region",
			daemon_json(ctl, "region"));
	if (!kernel && json_is_null(json_object_get(all, "node")) && json_is_null(json_object_get(all, "region"))) {
		json_decref(all);
		return lg_ctl_fail(ctl, fail == LG_KERN_NO_BPFFS ? (int)fail : LG_CTL_REFUSED,
				   "instance %s: no daemon is running and nothing is in the kernel%s%s", ctl->instance,
				   fail == LG_KERN_NO_BPFFS ? ": " : "", fail == LG_KERN_NO_BPFFS ? c.text : "");
	}
	if (ctl->json)
		return lg_ctl_print(all);
	printf("instance %s\n", ctl->instance);
	kernel_print(all);
	node_print(json_object_get(all, "node"));
	region_print(json_object_get(all, "region"));
	json_decref(all);
	return LG_CTL_OK;
}
