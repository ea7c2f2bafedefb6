// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Allow and deny lists. The kernel's map is read and written from here; a running node is told, so that it notes what was added. */
#include "ctl/ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "ctl/peers.h"

struct lists {
	const struct lg_ctl *ctl;
	struct lg_kern *kern;
	struct lg_prefix prefix;
	enum lg_list_verdict verdict;
	uint64_t for_ns;	/* 0: for good */
	bool yes;
};

static const char *verdict_name(uint32_t verdict)
{
	switch ((enum lg_list_verdict)verdict) {
	case LG_LIST_ALLOW: return "allow";
	case LG_LIST_DENY: return "deny";
	case LG_LIST_NONE: break;
	}
	return "none";
}

static void prefix_text(const struct lg_list_key *key, char *buf, size_t len)
{
	struct lg_prefix prefix;

	lg_list_prefix_of(key, &prefix);
	lg_prefix_format(prefix.addr, prefix.family, prefix.len, buf, len);
}

/* ---- list ---- */

static bool is_of_operator(const struct lg_list_entry *e, uint64_t now_ns)
{
	return e->of_operator && (!e->until_ns || now_ns < e->until_ns);
}

static json_t *row_json(const struct lg_list_row *row, uint64_t now_ns)
{
	bool by_operator = is_of_operator(&row->entry, now_ns);
	char prefix[LG_IP_TEXT_LEN];

	prefix_text(&row->key, prefix, sizeof(prefix));
	return json_pack("{s:s, s:s, s:s, s:o}", "prefix", prefix, "verdict", verdict_name(lg_list_entry_verdict(&row->entry, now_ns)), "by",
			 by_operator ? "operator" : "file", "remaining_s",
			 by_operator && row->entry.until_ns ? json_real((double)(row->entry.until_ns - now_ns) / 1e9) : json_null());
}

static void row_print(const struct lg_list_row *row, uint64_t now_ns)
{
	bool by_operator = is_of_operator(&row->entry, now_ns);
	char prefix[LG_IP_TEXT_LEN], left[LG_NUM_TEXT_LEN] = "";

	prefix_text(&row->key, prefix, sizeof(prefix));
	if (by_operator && row->entry.until_ns)
		snprintf(left, sizeof(left), "%llu s", (unsigned long long)((row->entry.until_ns - now_ns) / LG_NS_PER_S));
	printf("%-43s %-6s %-9s %s\n", prefix, verdict_name(lg_list_entry_verdict(&row->entry, now_ns)), by_operator ? "operator" : "file",
	       left);
}

static int row_order(const void *a, const void *b)
{
	const struct lg_list_row *x = a, *y = b;
	int order = memcmp(x->key.addr, y->key.addr, sizeof(x->key.addr));

	return order ? order : (x->key.prefix_len > y->key.prefix_len) - (x->key.prefix_len < y->key.prefix_len);
}

static int lists_list(struct lists *l)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	uint64_t now_ns = lg_clock_now_ns();
	json_t *list = json_array();
	size_t n, shown = 0;
	int r;

	r = lg_kern_lists_read(l->kern, &rows, &n);
	if (r < 0) {
		json_decref(list);
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED, "cannot read the lists in the kernel: %s", strerror(-r));
	}
	if (n)
		qsort(rows, n, sizeof(*rows), row_order);
	for (size_t i = 0; i < n; i++) {
		if (lg_list_entry_verdict(&rows[i].entry, now_ns) == LG_LIST_NONE)
			continue;
		if (!l->ctl->json && !shown++)
			printf("%-43s %-6s %-9s %s\n", "PREFIX", "LIST", "BY", "FOR");
		if (l->ctl->json)
			json_array_append_new(list, row_json(&rows[i], now_ns));
		else
			row_print(&rows[i], now_ns);
	}
	if (l->ctl->json)
		return lg_ctl_print(list);
	json_decref(list);
	if (!shown)
		printf("both lists are empty\n");
	return LG_CTL_OK;
}

/* ---- test ---- */

static int lists_test(struct lists *l)
{
	uint64_t now_ns = lg_clock_now_ns();
	char prefix[LG_IP_TEXT_LEN], addr[LG_IP_TEXT_LEN];
	struct lg_list_row row;
	int r;

	lg_addr_format(l->prefix.addr, addr, sizeof(addr));
	if (l->prefix.len != (l->prefix.family == 4 ? 32 : 128))
		return lg_ctl_fail(l->ctl, LG_CTL_USAGE, "lists test: write an address, not a prefix");
	r = lg_kern_list_find(l->kern, l->prefix.addr, l->prefix.family, now_ns, &row);
	if (r < 0)
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED, "cannot read the lists in the kernel: %s", strerror(-r));
	if (l->ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:o}", "address", addr, "entry", r ? row_json(&row, now_ns) : json_null()));
	if (!r) {
		printf("%s is on no list: the rules decide\n", addr);
		return LG_CTL_OK;
	}
	prefix_text(&row.key, prefix, sizeof(prefix));
	printf("%s: %s, by %s of the %s\n", addr, verdict_name(lg_list_entry_verdict(&row.entry, now_ns)), prefix,
	       is_of_operator(&row.entry, now_ns) ? "operator" : "rules file");
	return LG_CTL_OK;
}

/* ---- add and remove ---- */

/* As they will be: the new entry first, as of equal prefixes the first counts. */
static int lists_to_be(const struct lists *l, struct lg_listed **ret, size_t *ret_n)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_listed *all;
	size_t n;
	int r;

	r = lg_kern_lists_read(l->kern, &rows, &n);
	if (r < 0)
		return r;
	all = calloc(n + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	all[0] = (struct lg_listed){ .prefix = l->prefix, .verdict = (uint8_t)l->verdict };
	for (size_t i = 0; i < n; i++) {
		lg_list_prefix_of(&rows[i].key, &all[i + 1].prefix);
		all[i + 1].verdict = (uint8_t)lg_list_entry_verdict(&rows[i].entry, now_ns);
	}
	*ret = all;
	*ret_n = n + 1;
	return 0;
}

/* Refuses what would cut off somebody who is logged in: an exit code, or 0. Only the new entry is judged, not what is in force. */
static int lockout_check(struct lists *l)
{
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_peer peers[LG_CTL_PEERS_MAX];
	static struct lg_ruleset set;
	_cleanup_free_ struct lg_classifier *classifier = NULL;
	_cleanup_free_ struct lg_listed *listed = NULL;
	char peer[LG_IP_TEXT_LEN];
	struct lg_lockout found;
	size_t n_peers, n_listed = 0;
	int r;

	n_peers = l->verdict == LG_LIST_DENY && !l->yes ? lg_ctl_peers(peers) : 0;
	if (!n_peers)
		return 0;
	classifier = malloc(sizeof(*classifier));
	r = classifier ? lg_kern_rules_read(l->kern, &set, names) : -ENOMEM;
	if (r == 0)
		r = lg_kern_classifier_read(l->kern, classifier);
	if (r == 0)
		r = lists_to_be(l, &listed, &n_listed);
	if (r < 0)
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED, "cannot read what is in the kernel: %s", strerror(-r));
	for (size_t i = 0; i < n_peers; i++) {
		if (!lg_lockout_find(&set, classifier, listed, n_listed, false, &peers[i], 1, &found) || found.listed != listed)
			continue;
		lg_addr_format(peers[i].peer, peer, sizeof(peer));
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED,
				   "this would cut off %s, who is logged in over SSH (port %u); allow that address first, or repeat with "
				   "--yes; nothing was changed", peer, peers[i].local_port);
	}
	return 0;
}

/* A running node notes what changed; without one the next to start does. */
static void node_tell(const struct lists *l)
{
	struct lg_complaint c = { 0 };
	json_t *reply = NULL;

	if (lg_ctl_ask(l->ctl, "node", "lists", &reply, &c) < 0)
		fprintf(stderr, "leasegate: the entry is in force, but the node does not answer, which should note it: %s\n", c.text);
	json_decref(reply);
}

static int entry_set(struct lists *l, enum lg_list_verdict verdict, uint64_t until_ns)
{
	struct lg_list_key key = lg_list_key_of(&l->prefix);
	char prefix[LG_IP_TEXT_LEN];
	int r;

	prefix_text(&key, prefix, sizeof(prefix));
	r = lg_kern_list_set(l->kern, &key, verdict, until_ns);
	if (r == -ENOENT)
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED, "%s was not added by hand: what the rules file lists is removed there", prefix);
	if (r == -E2BIG)
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED, "the lists are full: %d entries are the most", LG_LISTS_MAX);
	if (r < 0)
		return lg_ctl_fail(l->ctl, LG_CTL_REFUSED, "cannot change the lists in the kernel: %s",
				   r == -EBUSY ? "another process that changes them does not end" : strerror(-r));
	node_tell(l);
	if (l->ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:s}", "prefix", prefix, "verdict", verdict_name(verdict)));
	if (verdict == LG_LIST_NONE)
		printf("%s: what was added by hand is gone\n", prefix);
	else
		printf("%s: on the %s list%s\n", prefix, verdict_name(verdict), until_ns ? " for that time" : "");
	return LG_CTL_OK;
}

static int lists_add(struct lists *l)
{
	int r;

	if (l->verdict == LG_LIST_NONE)
		return lg_ctl_usage(l->ctl, "lists", "add without --allow or --deny");
	r = lockout_check(l);
	return r ? r : entry_set(l, l->verdict, l->for_ns ? lg_clock_now_ns() + l->for_ns : 0);
}

static int lists_remove(struct lists *l)
{
	return entry_set(l, LG_LIST_NONE, 0);
}

/* ---- the command ---- */

static const struct {
	const char *name;
	bool has_prefix;
	bool has_flags;
	int (*run)(struct lists *l);
} verbs[] = {
	{ "list", false, false, lists_list },
	{ "add", true, true, lists_add },
	{ "remove", true, false, lists_remove },
	{ "test", true, false, lists_test },
};

static int flags_read(struct lists *l, int argc, char **argv)
{
	struct lg_complaint c = { 0 };

	for (int i = 3; i < argc; i++) {
		if (strcmp(argv[i], "--allow") == 0 && l->verdict != LG_LIST_DENY) {
			l->verdict = LG_LIST_ALLOW;
		} else if (strcmp(argv[i], "--deny") == 0 && l->verdict != LG_LIST_ALLOW) {
			l->verdict = LG_LIST_DENY;
		} else if (strcmp(argv[i], "--yes") == 0) {
			l->yes = true;
		} else if (strcmp(argv[i], "--for") == 0 && i + 1 < argc) {
			if (lg_duration_parse(argv[++i], LG_NS_PER_S, 10 * LG_PER_MAX_NS, &l->for_ns, &c) < 0)
				return lg_ctl_fail(l->ctl, LG_CTL_USAGE, "lists add --for %s: %s", argv[i], c.text);
		} else {
			return lg_ctl_usage(l->ctl, "lists", argv[i]);
		}
	}
	return 0;
}

static int verb_run(struct lists *l, size_t v, int argc, char **argv)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	struct lg_complaint c = { 0 };
	int r = 0;

	if (verbs[v].has_prefix && argc < 3)
		return lg_ctl_usage(l->ctl, "lists", "a call without an address");
	if (verbs[v].has_prefix && lg_prefix_parse(argv[2], l->prefix.addr, &l->prefix.family, &l->prefix.len, &c) < 0)
		return lg_ctl_fail(l->ctl, LG_CTL_USAGE, "lists %s: %s", verbs[v].name, c.text);
	if (verbs[v].has_flags)
		r = flags_read(l, argc, argv);
	else if (argc > (verbs[v].has_prefix ? 3 : 2))
		r = lg_ctl_usage(l->ctl, "lists", argv[argc - 1]);
	if (r)
		return r;
	r = lg_ctl_pins(l->ctl, &kern);
	if (r)
		return r;
	l->kern = kern;
	return verbs[v].run(l);
}

int lg_ctl_lists(const struct lg_ctl *ctl, int argc, char **argv)
{
	struct lists l = { .ctl = ctl };

	for (size_t i = 0; i < N_ELEMS(verbs); i++)
		if (strcmp(argc > 1 ? argv[1] : "list", verbs[i].name) == 0)
			return verb_run(&l, i, argc, argv);
	return lg_ctl_usage(ctl, "lists", argv[1]);
}
