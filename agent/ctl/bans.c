// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keys that their rule shuts out. The kernel's map is read and written from here, daemon or not. */
#include "ctl/ctl.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "rules/compile.h"
#include "rules/secret.h"

struct row {
	struct lg_key key;
	struct lg_ban ban;
};

struct bans {
	const struct lg_ctl *ctl;
	struct lg_kern *kern;
	struct lg_ruleset set;
	struct lg_rule_name names[LG_RULES_MAX + 1];
	uint64_t now_ns;
	const char *rule;	/* NULL: any */
	const char *key;	/* as it is printed; NULL: any */
	struct row *rows;
	size_t n, size;
};

static void key_text(const struct bans *b, const struct lg_key *key, char *buf, size_t len)
{
	struct lg_key_shape shape;
	struct lg_wide_key wide;
	bool known = key->form & LG_FORM_HASHED && lg_kern_wide_key(b->kern, key, &wide) == 0;
	char ifname[IF_NAMESIZE];

	lg_key_shape_of(lg_ruleset_find(&b->set, key->rule_id), &shape);
	lg_key_format(key, &shape, known ? &wide : NULL, if_indextoname(lg_key_ifindex(key), ifname), buf, len);
}

/* Does its rule look at it? */
static bool is_in_force(const struct bans *b, const struct lg_key *key, const struct lg_ban *ban)
{
	const struct lg_rule *rule = lg_ruleset_find(&b->set, key->rule_id);

	return rule && rule->special & LG_SPECIAL_BAN && ban->until_ns > b->now_ns;
}

static int collect(void *arg, const struct lg_key *key, const struct lg_ban *ban)
{
	struct bans *b = arg;
	char text[LG_KEY_TEXT_LEN], name[LG_NAME_LEN];
	struct row *more;

	if (!is_in_force(b, key, ban))
		return 0;
	if (b->rule && strcmp(lg_ctl_rule_name(b->names, key->rule_id, name, sizeof(name)), b->rule) != 0)
		return 0;
	key_text(b, key, text, sizeof(text));
	if (b->key && strcmp(text, b->key) != 0)
		return 0;
	if (b->n == b->size) {
		b->size = b->size ? 2 * b->size : 256;
		more = reallocarray(b->rows, b->size, sizeof(*more));
		if (!more)
			return -ENOMEM;
		b->rows = more;
	}
	b->rows[b->n++] = (struct row){ *key, *ban };
	return 0;
}

/* The latest first. */
static int row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->ban.since_ns != y->ban.since_ns)
		return x->ban.since_ns < y->ban.since_ns ? 1 : -1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static int rows_collect(struct bans *b)
{
	int r = lg_kern_each_ban(b->kern, collect, b);

	if (r < 0)
		return lg_ctl_fail(b->ctl, LG_CTL_REFUSED, "cannot read the bans in the kernel: %s", strerror(-r));
	if (b->n)
		qsort(b->rows, b->n, sizeof(*b->rows), row_order);
	return 0;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static json_t *row_json(const struct bans *b, const struct row *row)
{
	char key[LG_KEY_TEXT_LEN], name[LG_NAME_LEN];

	key_text(b, &row->key, key, sizeof(key));
	return json_pack("{s:s, s:s, s:f, s:f, s:I, s:s}", "rule", lg_ctl_rule_name(b->names, row->key.rule_id, name, sizeof(name)), "key", key,
			 "remaining_s", seconds(row->ban.until_ns - b->now_ns), "since_s",
			 seconds(b->now_ns > row->ban.since_ns ? b->now_ns - row->ban.since_ns : 0), "times", (json_int_t)row->ban.times,
			 "by", row->ban.by_operator ? "operator" : "rule");
}

static int bans_list(struct bans *b, int argc, char **argv)
{
	char key[LG_KEY_TEXT_LEN], name[LG_NAME_LEN];
	json_t *list;
	int r;

	if (argc == 4 && strcmp(argv[2], "--rule") == 0)
		b->rule = argv[3];
	else if (argc > 2)
		return lg_ctl_usage(b->ctl, "bans", argv[2]);
	r = rows_collect(b);
	if (r)
		return r;
	if (b->ctl->json) {
		list = json_array();
		for (size_t i = 0; i < b->n; i++)
			json_array_append_new(list, row_json(b, &b->rows[i]));
		return lg_ctl_print(list);
	}
	if (!b->n) {
		printf("nobody is banned\n");
		return LG_CTL_OK;
	}
	printf("%-20s %-43s %10s %10s %6s %s\n", "RULE", "KEY", "FOR", "SINCE", "TIMES", "BY");
	for (size_t i = 0; i < b->n; i++) {
		const struct row *row = &b->rows[i];

		key_text(b, &row->key, key, sizeof(key));
		printf("%-20s %-43s %8.0f s %8.0f s %6u %s\n", lg_ctl_rule_name(b->names, row->key.rule_id, name, sizeof(name)), key,
		       seconds(row->ban.until_ns - b->now_ns), seconds(b->now_ns > row->ban.since_ns ? b->now_ns - row->ban.since_ns : 0),
		       row->ban.times, row->ban.by_operator ? "operator" : "rule");
	}
	return LG_CTL_OK;
}

static int bans_remove(struct bans *b, int argc, char **argv)
{
	int r;

	if (argc != 4)
		return lg_ctl_usage(b->ctl, "bans", argc > 4 ? argv[4] : "remove without RULE and KEY");
	b->rule = argv[2];
	b->key = argv[3];
	r = rows_collect(b);
	if (r)
		return r;
	if (!b->n)
		return lg_ctl_fail(b->ctl, LG_CTL_REFUSED, "rule %s does not ban %s (see leasegate bans list)", b->rule, b->key);
	for (size_t i = 0; i < b->n; i++) {
		r = lg_kern_ban_remove(b->kern, &b->rows[i].key);
		if (r < 0 && r != -ENOENT)
			return lg_ctl_fail(b->ctl, LG_CTL_REFUSED, "cannot change the bans in the kernel: %s", strerror(-r));
	}
	if (b->ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:s}", "rule", b->rule, "removed", b->key));
	printf("rule %s: %s is let in again\n", b->rule, b->key);
	return LG_CTL_OK;
}

/* The rule in force of this name, or NULL. */
static const struct lg_rule *rule_named(const struct bans *b, const char *name)
{
	for (uint32_t i = 0; i < b->set.n_rules && i < LG_RULES_MAX; i++)
		if (strcmp(b->names[b->set.rules[i].rule_id].name, name) == 0)
			return &b->set.rules[i];
	return NULL;
}

/* A key of one address. */
static int key_make(const struct bans *b, const struct lg_rule *rule, const char *text, struct lg_key *ret)
{
	struct lg_key key = { .rule_id = rule->rule_id, .form = rule->key_form };
	const uint8_t *mask;
	struct lg_complaint c = { 0 };
	uint8_t family, len;

	if (rule->key_form != LG_FORM_SOURCE && rule->key_form != LG_FORM_DESTINATION && !lg_secret_is_address(rule))
		return lg_ctl_fail(b->ctl, LG_CTL_REFUSED,
				   "the keys of this rule are more than an address: deny the address instead (leasegate lists)");
	if (lg_prefix_parse(text, key.a, &family, &len, &c) < 0)
		return lg_ctl_fail(b->ctl, LG_CTL_USAGE, "bans add: %s", c.text);
	if (lg_secret_is_address(rule))
		return lg_secret_key(rule, key.a, ret) < 0 ? lg_ctl_fail(b->ctl, LG_CTL_REFUSED, "the key cannot be hashed") : 0;
	mask = family == 4 ? rule->key_mask4 : rule->key_mask6;
	for (size_t i = 0; i < sizeof(key.a); i++)
		key.a[i] &= mask[i];
	*ret = key;
	return 0;
}

static int bans_add(struct bans *b, int argc, char **argv)
{
	struct lg_complaint c = { 0 };
	const struct lg_rule *rule;
	char text[LG_KEY_TEXT_LEN];
	struct lg_key key;
	uint64_t for_ns;
	int r;

	if (argc != 6 || strcmp(argv[4], "--for") != 0)
		return lg_ctl_usage(b->ctl, "bans", argc > 6 ? argv[6] : "add without RULE, KEY and --for");
	if (lg_duration_parse(argv[5], LG_NS_PER_S, LG_PER_MAX_NS, &for_ns, &c) < 0)
		return lg_ctl_fail(b->ctl, LG_CTL_USAGE, "bans add --for %s: %s", argv[5], c.text);
	rule = rule_named(b, argv[2]);
	if (!rule)
		return lg_ctl_fail(b->ctl, LG_CTL_REFUSED, "no rule %s is in force (see leasegate rules)", argv[2]);
	if (!(rule->special & LG_SPECIAL_BAN))
		return lg_ctl_fail(b->ctl, LG_CTL_REFUSED,
				   "rule %s bans nobody: write `ban` in it, or use leasegate lists add %s --deny --for %s", argv[2], argv[3],
				   argv[5]);
	r = key_make(b, rule, argv[3], &key);
	if (r)
		return r;
	r = lg_kern_ban_set(b->kern, &key, b->now_ns, b->now_ns + for_ns);
	if (r < 0)
		return lg_ctl_fail(b->ctl, LG_CTL_REFUSED, "cannot change the bans in the kernel: %s",
				   r == -E2BIG ? "the table of bans is full" : strerror(-r));
	key_text(b, &key, text, sizeof(text));
	if (b->ctl->json)
		return lg_ctl_print(json_pack("{s:s, s:s, s:f}", "rule", argv[2], "key", text, "remaining_s", seconds(for_ns)));
	printf("rule %s: %s is shut out for %s\n", argv[2], text, argv[5]);
	return LG_CTL_OK;
}

int lg_ctl_bans(const struct lg_ctl *ctl, int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct bans *b, int argc, char **argv);
	} verbs[] = { { "list", bans_list }, { "add", bans_add }, { "remove", bans_remove } };
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	static struct bans b;
	int r;

	for (size_t i = 0; i < N_ELEMS(verbs); i++) {
		if (strcmp(argc > 1 ? argv[1] : "list", verbs[i].name) != 0)
			continue;
		r = lg_ctl_pins(ctl, &kern);
		if (r)
			return r;
		b.ctl = ctl;
		b.kern = kern;
		b.now_ns = lg_clock_now_ns();
		r = lg_kern_rules_read(kern, &b.set, b.names);
		if (r < 0)
			return lg_ctl_fail(ctl, LG_CTL_REFUSED, "cannot read the rules in the kernel: %s", strerror(-r));
		r = verbs[i].run(&b, argc, argv);
		free(b.rows);
		return r;
	}
	return lg_ctl_usage(ctl, "bans", argv[1]);
}
