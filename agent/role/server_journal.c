// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A record is self-contained: the names of rule and holder, and the length of the key's prefix, stand in it, so that it can be read when the
 * rule has long been another. It is made where the books change and costs a copy of about 80 bytes.
 */
#include "role/server_journal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "role/server.h"
#include "role/status.h"
#include "store/journal.h"

#define SEGMENT_BYTES_MAX (4u << 20)
#define PENDING_BYTES (1u << 20)
#define PAGE_BYTES (1u << 20)	/* read from disk for one answer: well below a millisecond of the loop's time */
#define PAGE_RECORDS 500
#define COMPLAIN_NS (60 * LG_NS_PER_S)

#define FORM_TEXT 0xff /* in place of a product's form */

/* As written, followed by the address (a_len bytes) or, of a product, its text, and by the rule's and the holder's name. */
struct entry {
	uint8_t tier;
	uint8_t kind;
	uint8_t status;
	uint8_t form;
	uint8_t prefix_len;	/* FORM_TEXT: length of the text */
	uint8_t a_len;		/* 0: all zero; 4: IPv4; 16 */
	uint8_t rule_len;
	uint8_t holder_len;
	uint32_t epoch;
	uint32_t generation;
	uint64_t tok;
	uint64_t outstanding_tok;
	uint64_t spent_tok;
};
_Static_assert(sizeof(struct entry) == 40, "no padding in what is written");

#define ENTRY_BYTES_MAX (sizeof(struct entry) + UINT8_MAX + 2 * LG_NAME_LEN)

static const char *const kind_names[_LG_NOTE_N] = {
	[LG_NOTE_GRANT] = "grant", [LG_NOTE_REPORT] = "report", [LG_NOTE_RETURN] = "return",
	[LG_NOTE_LAPSE] = "lapse", [LG_NOTE_REFUSE] = "refuse",
};
static const char *const tier_names[_LG_TIER_N] = { [LG_TIER_HOME] = "home", [LG_TIER_REGION] = "region" };
static const char *const cause_names[_LG_JOURNAL_N] = {
	[LG_JOURNAL_RECORD] = "", [LG_JOURNAL_OVERLOAD] = "overload", [LG_JOURNAL_ERROR] = "error",
	[LG_JOURNAL_REBOOT] = "reboot", [LG_JOURNAL_AGED] = "aged", [LG_JOURNAL_DAMAGED] = "damaged",
};

/* ---- writing ---- */

/* A product as people see it: what its parts mean goes with the rule. */
static size_t text_put(struct entry *e, uint8_t *to, const struct lg_key *key, const struct lg_key_shape *shape)
{
	char text[UINT8_MAX + 1];

	lg_key_format(key, shape, NULL, NULL, text, sizeof(text));
	e->form = FORM_TEXT;
	e->prefix_len = (uint8_t)strlen(text);
	e->a_len = 0;
	memcpy(to, text, e->prefix_len);
	return e->prefix_len;
}

/* Sets a_len and copies what is worth it. */
static size_t address_put(struct entry *e, uint8_t *to, const uint8_t a[16])
{
	static const uint8_t zero[16];
	bool mapped = lg_addr_is_mapped(a);

	e->a_len = mapped ? 4 : memcmp(a, zero, sizeof(zero)) == 0 ? 0 : 16;
	memcpy(to, mapped ? a + 12 : a, e->a_len);
	return e->a_len;
}

static void entry_add(struct lg_server *s, struct entry *e, const struct lg_key *key, const struct lg_key_shape *shape, const char *rule,
		      const char *holder)
{
	uint8_t buf[ENTRY_BYTES_MAX];
	size_t len = sizeof(*e);

	e->rule_len = (uint8_t)strnlen(rule, LG_NAME_LEN - 1);
	e->holder_len = (uint8_t)strnlen(holder, LG_NAME_LEN - 1);
	len += key->form & LG_FORM_PRODUCT ? text_put(e, buf + len, key, shape) : address_put(e, buf + len, key->a);
	memcpy(buf + len, rule, e->rule_len);
	len += e->rule_len;
	memcpy(buf + len, holder, e->holder_len);
	len += e->holder_len;
	memcpy(buf, e, sizeof(*e));
	lg_journal_add(s->journal, lg_clock_unix_ns() / LG_NS_PER_MS, buf, len);
}

void lg_server_note(struct lg_server *s, enum lg_tier tier, const struct lg_key *key, const struct lg_note *note)
{
	const struct lg_server_holders *kind = tier == LG_TIER_HOME ? &s->regions : &s->hosts;
	const struct lg_rule_def *def = &s->rules[key->rule_id - 1].def;
	const struct lg_key_len *lens = key->form == LG_FORM_DESTINATION ? &def->key.destination : &def->key.source;
	struct entry e = { .tier = (uint8_t)tier,
			   .kind = (uint8_t)note->kind,
			   .status = (uint8_t)note->status,
			   .form = (uint8_t)key->form,
			   .prefix_len = lg_addr_is_mapped(key->a) ? lens->ipv4 : lens->ipv6,
			   .epoch = note->epoch,
			   .generation = note->generation,
			   .tok = note->tok,
			   .outstanding_tok = note->outstanding_tok,
			   .spent_tok = note->spent_tok };

	if (s->journal)
		entry_add(s, &e, key, &def->key, def->name, kind->v[note->holder]->name);
}

void lg_server_note_refused(struct lg_server *s, const struct lg_server_holder *from, const struct lg_wire_key *wire,
			    enum lg_grant_status status)
{
	static const struct lg_key_shape whole = { .source = { 32, 128 }, .destination = { 32, 128 } };
	struct lg_key key = { .form = wire->form };
	struct entry e = { .tier = from->is_region ? LG_TIER_HOME : LG_TIER_REGION,
			   .kind = LG_NOTE_REFUSE,
			   .status = (uint8_t)status,
			   .form = (uint8_t)wire->form,
			   .prefix_len = lg_addr_is_mapped(wire->a) ? 32 : 128,
			   .epoch = s->epoch };

	memcpy(key.a, wire->a, sizeof(key.a));
	memcpy(key.b, wire->b, sizeof(key.b));
	if (s->journal)
		entry_add(s, &e, &key, &whole, wire->rule, from->name);
}

void lg_server_journal_flush(struct lg_server *s)
{
	if (s->journal)
		lg_journal_flush(s->journal);
}

void lg_server_journal_watch(struct lg_server *s)
{
	struct lg_journal_stats stats;
	unsigned long long held;

	if (!s->journal)
		return;
	lg_journal_stats(s->journal, &stats);
	if (stats.error && lg_log_gate_open(&s->journal_gate, lg_clock_now_ns(), COMPLAIN_NS, &held))
		lg_warn("journal: cannot write to %s/journal: %s; leases go on, %" PRIu64 " records are lost so far", s->config.state_dir,
			strerror(-stats.error), stats.n_dropped);
	else if (stats.n_dropped > s->journal_dropped && lg_log_gate_open(&s->journal_gate, lg_clock_now_ns(), COMPLAIN_NS, &held))
		lg_warn("journal: the disk is too slow: %" PRIu64 " records are lost so far", stats.n_dropped);
	s->journal_dropped = stats.n_dropped;
}

/* ---- begin and end ---- */

int lg_server_journal_start(struct lg_server *s, struct lg_complaint *c)
{
	struct lg_journal_options options = { .size_bytes = s->config.journal_bytes,
					      .segment_bytes = s->config.journal_bytes / 16,
					      .pending_bytes = PENDING_BYTES,
					      .sync = s->config.journal_sync };
	char folder[300];

	if (!s->config.journal_bytes)
		return 0;
	snprintf(folder, sizeof(folder), "%s/journal", s->config.state_dir);
	options.folder = folder;
	if (options.segment_bytes > SEGMENT_BYTES_MAX)
		options.segment_bytes = SEGMENT_BYTES_MAX;
	/* A batch is never longer than half of the smallest size, so that one always fits. */
	if (options.pending_bytes > options.size_bytes / 4)
		options.pending_bytes = options.size_bytes / 4;
	return lg_journal_open(&options, &s->journal, c);
}

void lg_server_journal_stop(struct lg_server *s)
{
	s->journal = lg_journal_close(s->journal);
}

/* ---- reading ---- */

/* What of a page is wanted, and what was found. */
struct page {
	const char *rule;	/* NULL: any */
	int tier;		/* -1: any */
	int kind;		/* -1: any */
	bool has_key;
	const char *text;	/* of the key wanted, as it was written */
	uint32_t form;		/* of the key wanted: LG_FORM_RULE, LG_FORM_OVERFLOW, FORM_TEXT, or any of those with addresses */
	uint8_t a[16];
	uint8_t prefix_len;	/* of 128 */
	uint64_t since_ms;
	json_t *records;
};

/* A record with its parts in place. */
struct view {
	struct entry e;
	struct lg_key key;
	char text[UINT8_MAX + 1];	/* of a product */
	char rule[LG_NAME_LEN], holder[LG_NAME_LEN];
};

/* False for what no version of ours has written. */
static bool view_get(const void *data, size_t len, struct view *v)
{
	const uint8_t *at = data;
	size_t text_len;

	if (len < sizeof(v->e))
		return false;
	memcpy(&v->e, at, sizeof(v->e));
	at += sizeof(v->e);
	text_len = v->e.form == FORM_TEXT ? v->e.prefix_len : 0;
	if (v->e.kind >= _LG_NOTE_N || v->e.tier >= _LG_TIER_N || (v->e.a_len != 0 && v->e.a_len != 4 && v->e.a_len != 16) ||
	    v->e.rule_len >= LG_NAME_LEN || v->e.holder_len >= LG_NAME_LEN ||
	    len != sizeof(v->e) + text_len + v->e.a_len + v->e.rule_len + v->e.holder_len)
		return false;
	memcpy(v->text, at, text_len);
	v->text[text_len] = '\0';
	at += text_len;
	v->key = (struct lg_key){ .form = v->e.form };
	if (v->e.a_len == 4)
		memset(v->key.a + 10, 0xff, 2);
	memcpy(v->key.a + (v->e.a_len == 4 ? 12 : 0), at, v->e.a_len);
	memcpy(v->rule, at + v->e.a_len, v->e.rule_len);
	v->rule[v->e.rule_len] = '\0';
	memcpy(v->holder, at + v->e.a_len + v->e.rule_len, v->e.holder_len);
	v->holder[v->e.holder_len] = '\0';
	return true;
}

/* The one lies in the other's prefix. */
static bool key_matches(const struct page *p, const struct view *v)
{
	unsigned int bits = v->e.prefix_len + (lg_addr_is_mapped(v->key.a) ? 96u : 0u);
	uint8_t wanted[16], has[16];

	if (v->e.form == FORM_TEXT || p->form == FORM_TEXT)
		return v->e.form == p->form && strcmp(v->text, p->text) == 0;
	if (p->form == LG_FORM_RULE || p->form == LG_FORM_OVERFLOW)
		return v->key.form == p->form && memcmp(v->key.a, p->a, sizeof(p->a)) == 0;
	if (v->key.form != LG_FORM_SOURCE && v->key.form != LG_FORM_DESTINATION)
		return false;
	memcpy(wanted, p->a, sizeof(wanted));
	memcpy(has, v->key.a, sizeof(has));
	lg_addr_mask(wanted, bits < p->prefix_len ? bits : p->prefix_len);
	lg_addr_mask(has, bits < p->prefix_len ? bits : p->prefix_len);
	return memcmp(wanted, has, sizeof(has)) == 0;
}

static json_t *record_json(const struct lg_journal_entry *entry, const struct view *v)
{
	const struct lg_key_len len = { v->e.prefix_len, v->e.prefix_len };
	const struct lg_key_shape shape = { .source = len, .destination = len };
	char key[LG_KEY_TEXT_LEN];
	json_t *o;

	if (v->e.form == FORM_TEXT)
		snprintf(key, sizeof(key), "%s", v->text);
	else
		lg_key_format(&v->key, &shape, NULL, NULL, key, sizeof(key));
	o = json_pack("{s:I, s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "seq", (json_int_t)entry->seq, "time_ms",
		      (json_int_t)entry->time_ms, "what", kind_names[v->e.kind], "tier", tier_names[v->e.tier], "holder", v->holder,
		      "rule", v->rule, "key", key, "epoch", (json_int_t)v->e.epoch, "generation", (json_int_t)v->e.generation, "tok",
		      (json_int_t)v->e.tok, "outstanding_tok", (json_int_t)v->e.outstanding_tok, "spent_tok",
		      (json_int_t)v->e.spent_tok);
	if (v->e.kind == LG_NOTE_REFUSE)
		json_object_set_new(o, "status", json_string(lg_status_grant_name((enum lg_grant_status)v->e.status)));
	return o;
}

/* Its seq is the last one of the gap: who has seen that goes on behind it. */
static json_t *gap_json(const struct lg_journal_entry *entry)
{
	return json_pack("{s:I, s:I, s:s}", "seq", (json_int_t)(entry->seq + entry->n_lost - 1), "gap", (json_int_t)entry->n_lost, "cause",
			 cause_names[entry->cause]);
}

static int page_take(void *arg, const struct lg_journal_entry *entry)
{
	struct page *p = arg;
	struct view v;

	if (json_array_size(p->records) >= PAGE_RECORDS)
		return 1;
	if (entry->cause)
		return json_array_append_new(p->records, gap_json(entry)) < 0 ? -ENOMEM : 0;
	if (entry->time_ms < p->since_ms || !view_get(entry->data, entry->len, &v))
		return 0;
	if ((p->tier >= 0 && v.e.tier != p->tier) || (p->kind >= 0 && v.e.kind != p->kind) ||
	    (p->rule && strcmp(p->rule, v.rule) != 0) || (p->has_key && !key_matches(p, &v)))
		return 0;
	return json_array_append_new(p->records, record_json(entry, &v)) < 0 ? -ENOMEM : 0;
}

/* A key as people see it: an address or prefix, "*", "overflow 17", or the text of a product. */
static int key_parse(struct page *p, const char *text, struct lg_complaint *c)
{
	uint8_t family, len;
	uint64_t index;
	uint32_t index4;

	p->has_key = true;
	p->text = text;
	if (strchr(text, ' ') && strncmp(text, "overflow ", 9) != 0) {
		p->form = FORM_TEXT;
		return 0;
	}
	if (strcmp(text, "*") == 0) {
		p->form = LG_FORM_RULE;
		return 0;
	}
	if (strncmp(text, "overflow ", 9) == 0) {
		p->form = LG_FORM_OVERFLOW;
		if (lg_num_parse(text + 9, 0, LG_OVERFLOW_BUCKETS - 1, &index, c) < 0)
			return -EINVAL;
		index4 = (uint32_t)index;
		memcpy(p->a, &index4, sizeof(index4));
		return 0;
	}
	if (lg_prefix_parse(text, p->a, &family, &len, c) < 0)
		return -EINVAL;
	p->prefix_len = (uint8_t)(family == 4 ? 96 + len : len);
	return 0;
}

static int name_find(const json_t *request, const char *field, const char *const *names, int n)
{
	const char *name = json_string_value(json_object_get(request, field));

	for (int i = 0; name && i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

static json_t *refuse(const char *why)
{
	return json_pack("{s:b, s:s}", "ok", 0, "error", why);
}

static json_t *page_read(struct lg_server *s, struct page *p, uint64_t from_seq)
{
	struct lg_journal_stats stats;
	uint64_t next;
	int r;

	lg_journal_stats(s->journal, &stats);
	if (from_seq > stats.next_seq) {
		json_decref(p->records);
		return json_pack("{s:b, s:s, s:I}", "ok", 0, "error", "the journal is not that far", "end", (json_int_t)stats.next_seq);
	}
	r = lg_journal_read(s->journal, from_seq, p->since_ms, PAGE_BYTES, page_take, p, &next);
	if (r < 0) {
		json_decref(p->records);
		return refuse(strerror(-r));
	}
	return json_pack("{s:b, s:s, s:o, s:I, s:I, s:I, s:I}", "ok", 1, "region", s->config.region, "records", p->records, "next",
			 (json_int_t)next, "end", (json_int_t)stats.next_seq, "first", (json_int_t)stats.first_seq, "first_ms",
			 (json_int_t)stats.first_ms);
}

json_t *lg_server_journal_page(struct lg_server *s, const json_t *request)
{
	const char *key = json_string_value(json_object_get(request, "key"));
	json_int_t from_seq = json_integer_value(json_object_get(request, "from"));
	json_int_t since_ms = json_integer_value(json_object_get(request, "since_ms"));
	struct page p = { .rule = json_string_value(json_object_get(request, "rule")),
			  .tier = name_find(request, "tier", tier_names, _LG_TIER_N),
			  .kind = name_find(request, "what", kind_names, _LG_NOTE_N),
			  .since_ms = since_ms > 0 ? (uint64_t)since_ms : 0 };
	struct lg_complaint c = { 0 };

	if (!s->journal)
		return refuse("the journal is off: set journal.size in the region's configuration");
	if (from_seq < 0)
		return refuse("from is negative");
	if (key && key_parse(&p, key, &c) < 0)
		return refuse(c.text);
	p.records = json_array();
	return p.records ? page_read(s, &p, (uint64_t)from_seq) : NULL;
}

void lg_server_journal_metrics(struct lg_server *s, struct lg_metrics *m)
{
	struct lg_journal_stats stats;

	if (!s->journal)
		return;
	lg_journal_stats(s->journal, &stats);
	lg_metrics_add(m, LG_METRIC_JOURNAL_RECORDS, stats.n_added, NULL);
	lg_metrics_add(m, LG_METRIC_JOURNAL_DROPPED, stats.n_dropped, NULL);
	lg_metrics_add(m, LG_METRIC_JOURNAL_BYTES, stats.bytes, NULL);
}
