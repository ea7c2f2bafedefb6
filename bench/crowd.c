// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Many nodes that want rules from one region, without a kernel behind them: each has a stream of its own and speaks the protocol as a node
 * does. Prints a line of JSON whenever one of them has a version in whole: {"node": ..., "version": ..., "at_ns": ...}, CLOCK_BOOTTIME.
 *
 *	bench-crowd HOST:PORT REGION N
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/lease_rpc.h"
#include "api/rules_inbox.h"
#include "base/clock.h"
#include "loop/loop.h"

#define NODES_MAX 4096

struct node {
	char name[LG_NAME_LEN];
	struct lg_lease_client *client;
	struct lg_rules_inbox inbox;
	struct lg_rules_state state;
};

static void on_up(void *arg, const struct lg_lease_welcome *welcome)
{
	(void)arg;
	(void)welcome;
}

static void on_down(void *arg, const char *why)
{
	const struct node *node = arg;

	fprintf(stderr, "%s: %s\n", node->name, why);
}

static void on_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	(void)arg;
	(void)key;
	(void)grant;
}

static void on_batch_end(void *arg)
{
	(void)arg;
}

static void whole(struct node *node)
{
	struct lg_rules_doc *doc = NULL;
	struct lg_complaint c = { 0 };

	if (lg_rules_doc_parse(node->inbox.data, node->inbox.total_bytes, lg_clock_now_ns(), 0, node->inbox.age_ms, &doc, &c) < 0) {
		fprintf(stderr, "%s: %s\n", node->name, c.text);
		exit(1);
	}
	node->state.running = doc->stamp;
	printf("{\"node\": \"%s\", \"version\": %" PRIu64 ", \"at_ns\": %" PRIu64 "}\n", node->name, doc->stamp.counter, lg_clock_now_ns());
	lg_rules_doc_free(doc);
	lg_rules_inbox_fini(&node->inbox);
}

static void on_rules(void *arg, const struct lg_rules_part *part)
{
	struct node *node = arg;

	if (lg_rules_inbox_add(&node->inbox, part) == 1)
		whole(node);
	node->state.getting = node->inbox.stamp;
	node->state.got_bytes = node->inbox.got_bytes;
	lg_lease_client_rules(node->client, &node->state);
}

static int node_start(struct lg_loop *loop, struct node *node, size_t i, const char *address, const char *region)
{
	static const struct lg_lease_client_handlers handlers = { on_up, on_down, on_grant, on_batch_end, NULL, on_rules, NULL };
	struct lg_lease_hello hello = { .incarnation = 1, .regions_version = 1 };
	struct lg_complaint c = { 0 };
	int r;

	snprintf(node->name, sizeof(node->name), "crowd-%zu", i);
	snprintf(hello.holder, sizeof(hello.holder), "%s", node->name);
	snprintf(hello.region, sizeof(hello.region), "%s", region);
	r = lg_lease_client_new(loop, address, &hello, &handlers, node, &node->client, &c);
	if (r < 0)
		fprintf(stderr, "%s: %s\n", node->name, c.text);
	else
		lg_lease_client_rules(node->client, &node->state);
	return r;
}

int main(int argc, char **argv)
{
	size_t n = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	struct lg_loop *loop = NULL;
	struct node *nodes;

	if (!n || n > NODES_MAX) {
		fprintf(stderr, "usage: %s HOST:PORT REGION N\n", argv[0]);
		return 2;
	}
	setlinebuf(stdout);
	nodes = calloc(n, sizeof(*nodes));
	if (!nodes || lg_loop_new(&loop) < 0)
		return 1;
	for (size_t i = 0; i < n; i++)
		if (node_start(loop, &nodes[i], i, argv[1], argv[2]) < 0)
			return 1;
	return lg_loop_run(loop) < 0;
}
