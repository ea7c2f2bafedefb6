// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a node lets through and shuts out beside its rules: the lists, bans that are over, and sessions that new rules must not cut off.
 * The operator's entries live in the kernel, where his tool puts them whether a daemon runs or not; here they are noted in the state folder
 * as well, for the time after a reboot.
 */
#include "role/node.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"

#define SCAN_PERIOD_NS (60 * LG_NS_PER_S) /* how often entries are looked at that nobody told of */

/* ---- lists ---- */

int lg_node_lists_load(struct lg_node *n, const struct lg_rules *rules, struct lg_complaint *c)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	int r = 0;

	rows = calloc(rules->n_listed + 1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < rules->n_listed; i++) {
		rows[i].key = lg_list_key_of(&rules->listed[i].prefix);
		rows[i].entry.of_file = rules->listed[i].verdict;
	}
	r = lg_kern_lists_load(n->kern, rows, rules->n_listed);
	if (r == -E2BIG)
		return lg_complain(c, "lists: %zu prefixes, and those that `leasegate lists add` has added, are more than the %d that there "
				      "is room for",
				   rules->n_listed, LG_LISTS_MAX);
	if (r < 0)
		return lg_complain(c, "cannot load the lists into the kernel: %s",
				   r == -EBUSY ? "a tool that changes them does not end" : strerror(-r));
	return 0;
}

/* ---- the operator's entries, across a reboot ---- */

static void state_path(const struct lg_node *n, char *ret, size_t len)
{
	snprintf(ret, len, "%s/lists", n->config.state_dir);
}

/* "10.0.0.0/8 deny 1796000000", the end in seconds of the wall clock, 0 for none. */
static void row_write(FILE *f, const struct lg_list_row *row, uint64_t now_ns, uint64_t now_unix_s)
{
	uint64_t until_ns = row->entry.until_ns;
	char text[LG_IP_TEXT_LEN];
	struct lg_prefix prefix;

	if (!row->entry.of_operator || (until_ns && until_ns <= now_ns))
		return;
	lg_list_prefix_of(&row->key, &prefix);
	lg_prefix_format(prefix.addr, prefix.family, prefix.len, text, sizeof(text));
	fprintf(f, "%s %s %" PRIu64 "\n", text, row->entry.of_operator == LG_LIST_ALLOW ? "allow" : "deny",
		(uint64_t)(until_ns ? now_unix_s + (until_ns - now_ns) / LG_NS_PER_S : 0));
}

static int state_store(const struct lg_node *n, const struct lg_list_row *rows, size_t n_rows, uint64_t now_ns)
{
	char path[300], temp[310];
	FILE *f;
	int r;

	state_path(n, path, sizeof(path));
	snprintf(temp, sizeof(temp), "%s.new", path);
	f = fopen(temp, "we");
	if (!f)
		return -errno;
	for (size_t i = 0; i < n_rows; i++)
		row_write(f, &rows[i], now_ns, lg_clock_unix_s());
	r = fflush(f) != 0 || fsync(fileno(f)) < 0 ? -errno : 0;
	if (fclose(f) != 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temp, path) < 0)
		r = -errno;
	return r;
}

/* A line that cannot be read is skipped: what else there is counts. */
static void row_restore(struct lg_node *n, const char *line, uint64_t now_ns, uint64_t now_unix_s)
{
	char text[LG_IP_TEXT_LEN], verdict[8];
	struct lg_complaint c;
	struct lg_prefix prefix;
	struct lg_list_key key;
	uint64_t until_s;
	int r;

	if (sscanf(line, "%63s %7s %" SCNu64, text, verdict, &until_s) != 3 || (until_s && until_s <= now_unix_s) ||
	    lg_prefix_parse(text, prefix.addr, &prefix.family, &prefix.len, &c) < 0)
		return;
	key = lg_list_key_of(&prefix);
	r = lg_kern_list_set(n->kern, &key, strcmp(verdict, "allow") == 0 ? LG_LIST_ALLOW : LG_LIST_DENY,
			     until_s ? now_ns + (until_s - now_unix_s) * LG_NS_PER_S : 0);
	if (r < 0)
		lg_warn("%s: cannot be put back on the %s list, where it was before the reboot: %s", text, verdict, strerror(-r));
}

void lg_node_lists_restore(struct lg_node *n)
{
	uint64_t now_ns = lg_clock_now_ns(), now_unix_s = lg_clock_unix_s();
	char path[300], line[128];
	FILE *f;

	state_path(n, path, sizeof(path));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		row_restore(n, line, now_ns, now_unix_s);
	if (f)
		fclose(f);
}

/* ---- what is over ---- */

/* Of the operator's entries: something to tell whether they changed, and the first end. */
static uint64_t rows_look(const struct lg_list_row *rows, size_t n_rows, uint64_t now_ns, uint64_t *ret_first_ns, bool *ret_any_over)
{
	uint64_t h = 0;

	for (size_t i = 0; i < n_rows; i++) {
		const struct lg_list_entry *e = &rows[i].entry;
		const uint8_t *bytes = (const uint8_t *)&rows[i].key;

		if (!e->of_operator)
			continue;
		for (size_t k = 0; k < sizeof(rows[i].key); k++)
			h = (h ^ bytes[k]) * 0x100000001b3ull;
		h = (h ^ e->of_operator ^ e->until_ns << 2) * 0x100000001b3ull;
		*ret_any_over |= e->until_ns && e->until_ns <= now_ns;
		if (e->until_ns > now_ns && e->until_ns < *ret_first_ns)
			*ret_first_ns = e->until_ns;
	}
	return h;
}

/* Notes the operator's entries and takes away those whose time is over. Long lists are walked only when something may have changed. */
static int lists_scan(struct lg_node *n, uint64_t now_ns)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	bool any_over = false;
	size_t n_rows;
	uint64_t h;
	int r;

	n->lists_due_ns = now_ns + SCAN_PERIOD_NS;
	r = lg_kern_lists_read(n->kern, &rows, &n_rows);
	if (r < 0)
		return r;
	h = rows_look(rows, n_rows, now_ns, &n->lists_due_ns, &any_over);
	if (h != n->lists_noted)
		r = state_store(n, rows, n_rows, now_ns);
	if (r == 0)
		n->lists_noted = h;
	return r == 0 && any_over ? lg_kern_lists_reap(n->kern, now_ns) : r;
}

void lg_node_lists_changed(struct lg_node *n)
{
	n->lists_due_ns = 0;
	lg_node_lists_sweep(n);
}

void lg_node_lists_sweep(struct lg_node *n)
{
	uint64_t now_ns = lg_clock_now_ns();
	int r;

	r = lg_kern_bans_reap(n->kern, &n->set, now_ns);
	if (r < 0)
		lg_error("cannot take away bans that are over: %s", strerror(-r));
	if (now_ns < n->lists_due_ns)
		return;
	r = lists_scan(n, now_ns);
	if (r < 0)
		lg_error("cannot keep the operator's entries of the lists in order: %s", strerror(-r));
}

/* ---- who must not be cut off ---- */

/* Both lists as they will be: of equal prefixes the operator's word goes first. */
static int lists_to_be(struct lg_node *n, const struct lg_rules *rules, struct lg_listed **ret, size_t *ret_n)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_listed *all;
	size_t n_rows, count = 0;
	int r;

	r = lg_kern_lists_read(n->kern, &rows, &n_rows);
	if (r < 0)
		return r;
	all = calloc(n_rows + rules->n_listed + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < n_rows; i++) {
		rows[i].entry.of_file = LG_LIST_NONE;
		all[count].verdict = (uint8_t)lg_list_entry_verdict(&rows[i].entry, now_ns);
		if (all[count].verdict)
			lg_list_prefix_of(&rows[i].key, &all[count++].prefix);
	}
	for (size_t i = 0; i < rules->n_listed; i++)
		all[count++] = rules->listed[i];
	*ret = all;
	*ret_n = count;
	return 0;
}

static bool has_egress(const struct lg_config *config)
{
	for (size_t i = 0; i < config->n_interfaces; i++)
		if (config->interfaces[i].tc_egress)
			return true;
	return false;
}

static int lockout_complain(const struct lg_rules *rules, const struct lg_rule_name *names, const struct lg_lockout *found,
			    struct lg_complaint *c)
{
	char peer[LG_IP_TEXT_LEN], prefix[LG_IP_TEXT_LEN];
	uint32_t line = 0;

	lg_addr_format(found->peer->peer, peer, sizeof(peer));
	if (found->listed) {
		lg_prefix_format(found->listed->prefix.addr, found->listed->prefix.family, found->listed->prefix.len, prefix, sizeof(prefix));
		return lg_complain(c, "this would cut off %s, who is logged in over SSH (port %u): %s is on the deny list; allow the address, "
				      "or repeat with --yes", peer, found->peer->local_port, prefix);
	}
	for (size_t i = 0; i < rules->n; i++)
		if (strcmp(rules->v[i].name, names[found->rule_id].name) == 0)
			line = rules->v[i].line;
	return lg_complain(c, "this would cut off %s, who is logged in over SSH (port %u): rule \"%s\" (line %u) leaves %s less than a shell "
			      "needs; name the address under `exempt`, allow it, or repeat with --yes",
			   peer, found->peer->local_port, names[found->rule_id].name, line, found->is_egress ? "what goes back to him" : "him");
}

/* What is in force, for lg_lockout_find(). */
struct in_force {
	bool is_read, is_known;
	struct lg_ruleset set;
	struct lg_classifier classifier;
	struct lg_rule_name names[LG_RULES_MAX + 1];
	struct lg_listed *listed;	/* owned */
	size_t n_listed;
};

/* Whose packets are refused already: a session may stand open for hours that nobody can use any more. */
static bool is_cut_already(struct lg_node *n, const struct lg_peer *peer, struct in_force *now)
{
	struct lg_complaint c = { 0 };
	struct lg_lockout found;

	if (!now->is_read)
		now->is_known = n->rules && lg_node_rules_compile(n, n->rules, &now->set, &now->classifier, now->names, &c) == 0 &&
				lists_to_be(n, n->rules, &now->listed, &now->n_listed) == 0;
	now->is_read = true;
	return now->is_known &&
	       lg_lockout_find(&now->set, &now->classifier, now->listed, now->n_listed, has_egress(&n->config), peer, 1, &found);
}

static int peers_check(struct lg_node *n, const struct lg_rules *rules, const struct lg_ruleset *set, const struct lg_classifier *classifier,
		       const struct lg_rule_name *names, const struct lg_node_reload *how, struct lg_complaint *c)
{
	struct in_force *now = calloc(1, sizeof(*now));
	struct lg_listed *listed = NULL;
	struct lg_lockout found;
	size_t n_listed = 0;
	int r = now ? 0 : -ENOMEM;

	if (r == 0)
		r = lists_to_be(n, rules, &listed, &n_listed);
	if (r < 0)
		lg_complain(c, "cannot read the lists in the kernel: %s", strerror(-r));
	for (size_t i = 0; r == 0 && i < how->n_peers; i++) {
		if (!lg_lockout_find(set, classifier, listed, n_listed, has_egress(&n->config), &how->peers[i], 1, &found) ||
		    is_cut_already(n, found.peer, now))
			continue;
		c->line = 0;
		r = lockout_complain(rules, names, &found, c);
	}
	if (now)
		free(now->listed);
	free(now);
	free(listed);
	return r;
}

int lg_node_lockout_check(struct lg_node *n, const struct lg_rules *rules, const struct lg_ruleset *set,
			  const struct lg_classifier *classifier, const struct lg_rule_name *names, const struct lg_node_reload *how,
			  struct lg_complaint *c)
{
	return how && how->n_peers ? peers_check(n, rules, set, classifier, names, how, c) : 0;
}
