// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ctl/ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "rules/compile.h"
#include "rules/config.h"
#include "rules/rate.h"
#include "rules/secret.h"

#define KEYS_MAX 4194304u /* of one listing */

struct row {
	struct lg_key key;
	struct lg_bucket bucket;
};

struct keys {
	const struct lg_ctl *ctl;
	struct lg_kern *kern;
	struct lg_ruleset set;
	struct lg_rule_name names[LG_RULES_MAX + 1];
	const char *rule;
	const char *key;	/* as it is printed; NULL: any */
	bool has_source;
	uint8_t source[16];
	struct lg_key hashed[LG_RULES_MAX + 1]; /* of rules that keep their keys secret: the one of that source; form 0: not asked for yet */
	uint64_t limit;
	bool is_top;		/* --top, which is by what was denied unless told otherwise */
	const char *by;		/* "denied" or "spent", or NULL */
	struct row *rows;
	size_t n, size;
	uint64_t unnoted;	/* in lines, of one packet so far */
	struct lg_attachment at[_LG_HOOK_N * LG_ATTACH_MAX];
	int n_at;
};

static const struct lg_rule *rule_of(const struct lg_ruleset *set, uint32_t rule_id)
{
	for (uint32_t i = 0; i < set->n_rules && i < LG_RULES_MAX; i++)
		if (set->rules[i].rule_id == rule_id)
			return &set->rules[i];
	return NULL;
}

/* As the interface is called where the daemon has attached to it, or NULL. */
static const char *ifname_of(const struct keys *k, const struct lg_key *key)
{
	uint32_t ifindex = lg_key_ifindex(key);

	for (int i = 0; ifindex && i < k->n_at; i++)
		if (k->at[i].ifindex == ifindex)
			return k->at[i].ifname;
	return NULL;
}

static void key_text(const struct keys *k, const struct lg_key *key, char *buf, size_t len)
{
	struct lg_key_shape shape;
	struct lg_wide_key wide;
	bool known = key->form & LG_FORM_HASHED && lg_kern_wide_key(k->kern, key, &wide) == 0;

	lg_key_shape_of(rule_of(&k->set, key->rule_id), &shape);
	lg_key_format(key, &shape, known ? &wide : NULL, ifname_of(k, key), buf, len);
}

static bool end_matches(const struct keys *k, const uint8_t end[16], const struct lg_key_len *lens)
{
	uint8_t addr[16];

	memcpy(addr, k->source, sizeof(addr));
	lg_addr_mask(addr, lg_addr_is_mapped(addr) ? 96u + lens->ipv4 : lens->ipv6);
	return memcmp(addr, end, sizeof(addr)) == 0;
}

/* Whoever may read the key that it is hashed with may ask for an address, as long as the key has no other part. */
static bool hash_matches(struct keys *k, const struct lg_key *key)
{
	const struct lg_rule *rule = rule_of(&k->set, key->rule_id);
	struct lg_key *hashed = &k->hashed[key->rule_id];

	if (!rule || !lg_secret_is_address(rule) || (!hashed->form && lg_secret_key(rule, k->source, hashed) < 0))
		return false;
	return memcmp(hashed, key, sizeof(*key)) == 0;
}

/* Either address of the key. */
static bool source_matches(struct keys *k, const struct lg_key *key)
{
	uint32_t parts = lg_key_parts(key->form);
	struct lg_key_shape shape;
	struct lg_wide_key wide;

	if (!k->has_source)
		return true;
	if (key->form & LG_FORM_SECRET && key->rule_id <= LG_RULES_MAX)
		return hash_matches(k, key);
	lg_key_shape_of(rule_of(&k->set, key->rule_id), &shape);
	if (!(key->form & LG_FORM_HASHED)) {
		memcpy(wide.source, key->a, sizeof(wide.source));
		memcpy(wide.destination, parts & LG_KEY_SOURCE ? key->b : key->a, sizeof(wide.destination));
	} else if (lg_kern_wide_key(k->kern, key, &wide) < 0) {
		return false;
	}
	return (parts & LG_KEY_SOURCE && end_matches(k, wide.source, &shape.source)) ||
	       (parts & LG_KEY_DESTINATION && end_matches(k, wide.destination, &shape.destination));
}

static bool key_matches(const struct keys *k, const struct lg_key *key)
{
	char text[LG_KEY_TEXT_LEN];

	if (!k->key)
		return true;
	key_text(k, key, text, sizeof(text));
	return strcmp(text, k->key) == 0;
}

static int collect(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	struct keys *k = arg;
	struct row *more;
	char buf[32];

	if (k->rule && strcmp(lg_ctl_rule_name(k->names, key->rule_id, buf, sizeof(buf)), k->rule) != 0)
		return 0;
	if (!source_matches(k, key) || !key_matches(k, key))
		return 0;
	if (k->n == k->size) {
		more = realloc(k->rows, (k->size ? k->size * 2 : 1024) * sizeof(*more));
		if (!more)
			return -1;
		k->rows = more;
		k->size = k->size ? k->size * 2 : 1024;
	}
	k->rows[k->n] = (struct row){ *key, *bucket };
	/* What is counted now comes back, as tokens do. */
	if (bucket->kind == LG_BUCKET_COUNT)
		k->rows[k->n].bucket.spent_tok = bucket->open;
	k->n++;
	return k->n >= KEYS_MAX;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(&((const struct row *)a)->key, &((const struct row *)b)->key, sizeof(struct lg_key));
}

/* What a CPU has not booked yet; rows are ordered by their keys. */
static int add_denied(void *arg, const struct lg_key *key, uint64_t tok)
{
	const struct keys *k = arg;
	struct row wanted = { .key = *key };
	struct row *row = bsearch(&wanted, k->rows, k->n, sizeof(*k->rows), by_key);

	if (row)
		row->bucket.denied_tok += tok;
	return 0;
}

static int by_denied(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->bucket.denied_tok != y->bucket.denied_tok)
		return x->bucket.denied_tok < y->bucket.denied_tok ? 1 : -1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static int by_spent(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->bucket.spent_tok != y->bucket.spent_tok)
		return x->bucket.spent_tok < y->bucket.spent_tok ? 1 : -1;
	return memcmp(&x->key, &y->key, sizeof(x->key));
}

static uint64_t rate_left_tok(const struct lg_rule *rule, const struct lg_bucket *b, uint64_t now_ns)
{
	uint64_t burst_vt = rule->burst_tok * rule->rate.unit_per_tok, vt, debt; /* without what a rule that paces may promise */

	if (!rule->rate.unit_per_tok)
		return 0;
	vt = lg_rate_vt(&rule->rate, now_ns);
	debt = b->full_at_vt > vt ? b->full_at_vt - vt : 0;
	return debt < burst_vt ? (burst_vt - debt) / rule->rate.unit_per_tok : 0;
}

static uint64_t log_left_tok(const struct keys *k, const struct lg_rule *rule, const struct lg_key *key, uint64_t now_ns)
{
	static struct lg_log log;

	return lg_kern_log_read(k->kern, key, &log) < 0 ? rule->rate_tok : lg_log_left_tok(rule, &log, now_ns);
}

/* What could be spent now, whole tokens. */
static uint64_t left_tok(const struct keys *k, const struct row *row, uint64_t now_ns)
{
	const struct lg_rule *rule = rule_of(&k->set, row->key.rule_id);
	const struct lg_bucket *b = &row->bucket;

	if (b->kind == LG_BUCKET_BLOCK)
		return now_ns < b->expires_ns && b->granted_tok > b->spent_tok ? b->granted_tok - b->spent_tok : 0;
	if (!rule)
		return 0;
	if (b->kind == LG_BUCKET_LOG)
		return log_left_tok(k, rule, &row->key, now_ns);
	if (b->kind == LG_BUCKET_COUNT)
		return rule->rate_tok > b->spent_tok ? rule->rate_tok - b->spent_tok : 0;
	if (b->kind == LG_BUCKET_FIXED || b->kind == LG_BUCKET_SLIDING)
		return lg_window_left_tok(rule, b, now_ns);
	return rate_left_tok(rule, b, now_ns);
}

static const char *kind_name(uint16_t kind)
{
	switch ((enum lg_bucket_kind)kind) {
	case LG_BUCKET_BLOCK: return "block";
	case LG_BUCKET_FIXED: return "fixed";
	case LG_BUCKET_SLIDING: return "sliding";
	case LG_BUCKET_LOG: return "log";
	case LG_BUCKET_LINE: return "line";
	case LG_BUCKET_COUNT: return "count";
	case LG_BUCKET_RATE: break;
	}
	return "rate";
}

/* Words that mean something else in buckets of other kinds. */
static uint64_t granted_tok(const struct lg_bucket *b)
{
	return b->kind == LG_BUCKET_BLOCK ? b->granted_tok : 0;
}

static json_int_t ms_until(uint64_t then_ns, uint64_t now_ns)
{
	return then_ns >= now_ns ? (json_int_t)((then_ns - now_ns) / 1000000) : -(json_int_t)((now_ns - then_ns) / 1000000);
}

static const char *form_name(uint32_t form)
{
	switch (form) {
	case LG_FORM_RULE: return "rule";
	case LG_FORM_SOURCE: return "source";
	case LG_FORM_DESTINATION: return "destination";
	case LG_FORM_OVERFLOW: return "overflow";
	default: return form & LG_FORM_PRODUCT ? "product" : "unknown";
	}
}

static json_t *row_json(const struct keys *k, const struct row *row, uint64_t now_ns)
{
	const struct lg_rule *rule = rule_of(&k->set, row->key.rule_id);
	const struct lg_bucket *b = &row->bucket;
	char name[LG_NAME_LEN], key[LG_KEY_TEXT_LEN], limit[LG_LIMIT_TEXT_LEN];
	json_t *o;

	key_text(k, &row->key, key, sizeof(key));
	lg_limit_format(b->rate_tok, b->per_ns, rule && (rule->flags & LG_RULE_BYTES) ? LG_UNIT_BYTES : LG_UNIT_PACKETS, limit,
			sizeof(limit));
	o = json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I}", "rule",
		      lg_ctl_rule_name(k->names, row->key.rule_id, name, sizeof(name)), "rule_id", (int)row->key.rule_id,
		      "key", key, "form", form_name(row->key.form), "kind", kind_name(b->kind), "granted_tok",
		      (json_int_t)granted_tok(b), "spent_tok",
		      (json_int_t)b->spent_tok, "returned_tok", (json_int_t)b->returned_tok, "denied_tok",
		      (json_int_t)b->denied_tok, "left_tok", (json_int_t)left_tok(k, row, now_ns), "expires_in_ms",
		      b->kind == LG_BUCKET_BLOCK && b->expires_ns ? ms_until(b->expires_ns, now_ns) : (json_int_t)0, "limit", limit, "rate_tok",
		      (json_int_t)b->rate_tok, "per_ns", (json_int_t)b->per_ns, "burst_tok", rule ? (json_int_t)rule->burst_tok : (json_int_t)0,
		      "seen_ago_ms", -ms_until(b->seen_ns, now_ns));
	if (b->kind == LG_BUCKET_COUNT)
		json_object_set_new(o, "open", json_integer((json_int_t)b->spent_tok));
	/* A word has no room for when it was last changed. */
	if (b->kind == LG_BUCKET_LINE)
		json_object_set_new(o, "seen_ago_ms", json_null());
	return o;
}

/* Whose they are nobody knows, so with a filter they are left out. */
static void unnoted_print(const struct keys *k)
{
	if (k->unnoted && !k->rule && !k->key && !k->has_source)
		printf("%" PRIu64 " more in lines sent a single packet so far, and are known from the second on\n", k->unnoted);
}

/* Of a count: how many are open of how many there may be. */
static void spent_text(const struct lg_bucket *b, char *buf, size_t len)
{
	if (b->kind == LG_BUCKET_COUNT)
		snprintf(buf, len, "%llu/%llu", (unsigned long long)b->spent_tok, (unsigned long long)b->rate_tok);
	else
		snprintf(buf, len, "%llu", (unsigned long long)(b->spent_tok - b->returned_tok));
}

static int rows_print(const struct keys *k)
{
	size_t n = k->limit && k->limit < k->n ? k->limit : k->n;
	uint64_t now_ns = lg_clock_now_ns();
	char name[LG_NAME_LEN], key[LG_KEY_TEXT_LEN];
	json_t *list;

	if (k->ctl->json) {
		list = json_array();
		for (size_t i = 0; i < n; i++)
			json_array_append_new(list, row_json(k, &k->rows[i], now_ns));
		return lg_ctl_print(list);
	}
	if (!k->n) {
		printf("no keys%s\n", k->rule || k->key || k->has_source ? " match" : " yet");
		unnoted_print(k);
		return LG_CTL_OK;
	}
	printf("%-20s %-39s %7s %14s %14s %14s %14s %9s\n", "RULE", "KEY", "KIND", "GRANTED", "SPENT", "LEFT", "DENIED", "EXPIRES");
	for (size_t i = 0; i < n; i++) {
		const struct lg_bucket *b = &k->rows[i].bucket;
		char expires[32] = "-", spent[48];

		key_text(k, &k->rows[i].key, key, sizeof(key));
		if (b->kind == LG_BUCKET_BLOCK)
			snprintf(expires, sizeof(expires), "%.1f s", (double)ms_until(b->expires_ns, now_ns) / 1000);
		spent_text(b, spent, sizeof(spent));
		printf("%-20s %-39s %7s %14llu %14s %14llu %14llu %9s\n",
		       lg_ctl_rule_name(k->names, k->rows[i].key.rule_id, name, sizeof(name)), key,
		       kind_name(b->kind), (unsigned long long)granted_tok(b), spent,
		       (unsigned long long)left_tok(k, &k->rows[i], now_ns),
		       (unsigned long long)b->denied_tok, expires);
	}
	if (n < k->n)
		printf("... and %zu more (--%s 0 shows all)\n", k->n - n, k->is_top ? "top" : "limit");
	unnoted_print(k);
	return LG_CTL_OK;
}

static int arguments(struct keys *k, int argc, char **argv)
{
	struct lg_complaint c = { 0 };
	uint8_t family, len;

	for (int i = 1; i < argc; i += 2) {
		if (i + 1 >= argc)
			return lg_ctl_usage(k->ctl, "keys", argv[i]);
		if (strcmp(argv[i], "--rule") == 0) {
			k->rule = argv[i + 1];
		} else if (strcmp(argv[i], "--key") == 0) {
			k->key = argv[i + 1];
		} else if (strcmp(argv[i], "--source") == 0) {
			if (lg_prefix_parse(argv[i + 1], k->source, &family, &len, &c) < 0)
				return lg_ctl_fail(k->ctl, LG_CTL_USAGE, "keys --source: %s", c.text);
			k->has_source = true;
		} else if (strcmp(argv[i], "--limit") == 0) {
			if (lg_num_parse(argv[i + 1], 0, KEYS_MAX, &k->limit, &c) < 0)
				return lg_ctl_fail(k->ctl, LG_CTL_USAGE, "keys --limit: %s", c.text);
		} else if (strcmp(argv[i], "--top") == 0) {
			if (lg_num_parse(argv[i + 1], 0, KEYS_MAX, &k->limit, &c) < 0)
				return lg_ctl_fail(k->ctl, LG_CTL_USAGE, "keys --top: %s", c.text);
			k->is_top = true;
		} else if (strcmp(argv[i], "--by") == 0) {
			k->by = argv[i + 1];
			if (strcmp(k->by, "denied") != 0 && strcmp(k->by, "spent") != 0)
				return lg_ctl_fail(k->ctl, LG_CTL_USAGE, "keys --by: '%s' is neither denied nor spent", k->by);
		} else {
			return lg_ctl_usage(k->ctl, "keys", argv[i]);
		}
	}
	return 0;
}

static bool is_by_denied(const struct keys *k)
{
	return k->by ? strcmp(k->by, "denied") == 0 : k->is_top;
}

int lg_ctl_keys(const struct lg_ctl *ctl, int argc, char **argv)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL;
	static struct keys k = { .limit = 100 };
	int r;

	k.ctl = ctl;
	r = arguments(&k, argc, argv);
	if (r)
		return r;
	r = lg_ctl_pins(ctl, &kern);
	if (r)
		return r;
	k.kern = kern;
	k.n_at = lg_kern_attachments(kern, k.at, N_ELEMS(k.at));
	r = lg_kern_rules_read(kern, &k.set, k.names);
	if (r == 0)
		r = lg_kern_each_bucket(kern, collect, &k);
	if (r == 0)
		r = lg_kern_each_line(kern, lg_clock_now_ns(), collect, &k, &k.unnoted);
	if (r >= 0 && k.n) {
		qsort(k.rows, k.n, sizeof(*k.rows), by_key);
		r = lg_kern_each_denied(kern, add_denied, &k);
	}
	if (r < 0) {
		free(k.rows);
		return lg_ctl_fail(ctl, LG_CTL_REFUSED, "cannot read the buckets in the kernel: %s", strerror(-r));
	}
	if (k.n)
		qsort(k.rows, k.n, sizeof(*k.rows), is_by_denied(&k) ? by_denied : by_spent);
	r = rows_print(&k);
	free(k.rows);
	return r;
}
