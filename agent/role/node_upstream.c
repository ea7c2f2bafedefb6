// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A host's way to its region: to each of its servers, and what the kernel is told of it. */
#include "role/node.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

void lg_node_reachable_set(struct lg_node *n, bool reachable)
{
	int r = lg_kern_control_set(n->kern, n->config.unparsable_drop, reachable, n->config.nat64);

	if (r < 0)
		lg_error("cannot write the control words in the kernel: %s", strerror(-r));
}

static bool on_welcome(void *arg, const struct lg_lease_welcome *welcome)
{
	struct lg_node *n = arg;

	lg_info("upstream: %s%s%s is up, epoch %u", welcome->lessor, welcome->replica[0] ? ", server " : "", welcome->replica, welcome->epoch);
	n->welcome = *welcome;
	n->n_connects++;
	n->upstream_why[0] = '\0';
	lg_node_reachable_set(n, true);
	return true;
}

static void on_slots(void *arg, const struct lg_slot_set *up)
{
	lg_node_slots_up(arg, up);
}

static void on_down(void *arg, const char *why)
{
	struct lg_node *n = arg;

	lg_warn("upstream %s: %s; leases drain, then the rules' fallback applies", n->config.upstream, why);
	snprintf(n->upstream_why, sizeof(n->upstream_why), "%s", why);
	if (!lg_node_upstream_is_up(n))
		lg_node_reachable_set(n, false);
}

static void on_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	lg_node_grant(arg, key, grant);
}

static void on_batch_end(void *arg)
{
	lg_node_flush(arg);
}

/* The shares that apply without the region depend on how many regions there are. */
static void on_regions(void *arg, const struct lg_region_list *list)
{
	_cleanup_free_ struct lg_config *got = calloc(1, sizeof(*got));
	const struct lg_rules_text kept = { .text = (char *)(uintptr_t)list->text, .len = list->len };
	struct lg_complaint c = { 0 };
	struct lg_node *n = arg;
	int r;

	if (!got || list->version <= n->config.regions_version)
		return;
	r = lg_config_regions_parse(list->text, list->len, "a list of regions", got, &c);
	if (r == 0)
		r = lg_config_regions_take(&n->config, got, &c);
	if (r < 0) {
		lg_error("regions: version %llu of the list cannot be used here, what was goes on: %s", (unsigned long long)list->version,
			 c.text);
		return;
	}
	r = lg_rules_text_store(n->config.state_dir, LG_REGIONS_KEPT(LG_CONFIG_NODE), &kept);
	if (r < 0)
		lg_warn("cannot write %s to %s: %s; a start without the region would take an older list", LG_REGIONS_KEPT(LG_CONFIG_NODE),
			n->config.state_dir, strerror(-r));
	r = lg_node_rules_apply(n, n->rules, NULL, &c);
	if (r < 0)
		lg_error("regions: the rules cannot be put into force with the new list: %s", c.text);
	lg_info("regions: version %llu of the list: %zu regions", (unsigned long long)list->version, n->config.n_regions);
}

bool lg_node_upstream_is_up(const struct lg_node *n)
{
	return n->replicas && lg_replicas_are_up(n->replicas);
}

int lg_node_upstream_start(struct lg_node *n, struct lg_complaint *c)
{
	static const struct lg_replicas_handlers handlers = { on_welcome, on_slots, on_down, on_grant, on_batch_end,
							      lg_node_rules_wanted, lg_node_rules_whole, on_regions };
	struct lg_lease_hello hello = { .regions_version = n->config.regions_version, .max_keys = n->config.max_keys };
	struct lg_replicas_options options = { .address = n->config.upstream, .hello = &hello, .region = n->config.region,
					       .n_holders = lg_config_own_hosts(&n->config) };
	struct lg_control control;
	int r;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		n->upstreams[slot].rand = n->started_ns + slot;
		lg_upstream_crowd(&n->upstreams[slot], options.n_holders);
	}
	if (!n->config.upstream[0])
		return 0;
	r = lg_kern_control_read(n->kern, &control);
	if (r < 0)
		return lg_complain(c, "cannot read the control words in the kernel: %s", strerror(-r));
	snprintf(hello.holder, sizeof(hello.holder), "%s", n->config.name);
	snprintf(hello.region, sizeof(hello.region), "%s", n->config.region);
	hello.incarnation = control.incarnation;
	r = lg_secure_start(&n->secure, &n->config, n->config.name, n->loop, c);
	if (r < 0)
		return r;
	options.tls = n->secure.tls;
	r = lg_replicas_new(n->loop, &options, &handlers, n, n->upstreams, &n->replicas, c);
	if (r == 0)
		lg_node_rules_say(n);
	return r;
}
