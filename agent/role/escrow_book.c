// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "role/escrow_book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/arith.h"

#define GAP_MIN_NS (20 * LG_NS_PER_MS)
#define GAP_MAX_NS (1 * LG_NS_PER_S)
#define GAP_FACTOR 4u	/* of what the last commit took: a slow store has time for others */
#define RETRY_NS (200 * LG_NS_PER_MS)
#define KEY_LEN 16u

struct lg_escrow_found {
	struct lg_escrow_record record;
	uint64_t until_ns;
	bool claimed;
};

struct slot {
	LIST_HEAD(, lg_escrow_entry) keys;
	uint32_t n_keys;
	bool is_open;
	uint32_t n_opened;		/* times: answers of an earlier one are nobody's */
	bool is_due;
	bool is_on_its_way;
	bool is_foreign;		/* somebody else writes it */
	bool is_last;			/* no marks come after the next ones */
	uint64_t since_ns;
	uint64_t revision;
	struct lg_escrow_found *found;	/* sorted by id */
	size_t n_found;
	size_t n_covered;
	uint64_t covered[LG_RULES_MAX];
	size_t n_asked;			/* as the page on its way says */
	uint64_t asked[LG_RULES_MAX];
};

struct commit {
	struct lg_escrow_book *book;
	LIST_ENTRY(commit) link;
	uint64_t sent_ns;
	size_t n, n_bytes, n_writes;
	uint16_t slots[LG_STORE_WRITES_MAX];
	uint32_t n_opened[LG_STORE_WRITES_MAX];
};

struct lg_escrow_book {
	struct lg_escrow_book_options o;
	struct slot slots[LG_KEY_SLOTS];
	LIST_HEAD(, commit) commits;
	uint64_t next_ns;		/* no commit before */
	bool is_finishing;
	struct lg_escrow_book_counts counts;
	char why[128];
	struct lg_escrow_page page;	/* scratch */
};

/* ---- what an earlier life left ---- */

static int by_id(const void *a, const void *b)
{
	return memcmp(((const struct lg_escrow_found *)a)->record.id, ((const struct lg_escrow_found *)b)->record.id, LG_ESCROW_ID_LEN);
}

static void key_of(uint32_t slot, char buf[KEY_LEN])
{
	snprintf(buf, KEY_LEN, "escrow/%03u", slot);
}

/* Times of windows travel on the clock that all share. */
static uint64_t to_shared_ns(const struct lg_escrow_book *b, uint64_t ns)
{
	return ns ? lg_sub_floor(lg_add_cap(ns, b->o.at_unix_ns), b->o.at_ns) : 0;
}

static uint64_t from_shared_ns(const struct lg_escrow_book *b, uint64_t ns)
{
	return ns ? lg_sub_floor(ns + b->o.at_ns, b->o.at_unix_ns) : 0;
}

static int found_load(struct lg_escrow_book *b, struct slot *s, struct lg_escrow_reader *r, uint64_t now_ns)
{
	struct lg_escrow_record record;

	if (r->n_records) {
		s->found = calloc(r->n_records, sizeof(*s->found));
		if (!s->found)
			return -ENOMEM;
	}
	while (lg_escrow_page_next(r, &record)) {
		record.mark.window_end_ns = from_shared_ns(b, record.mark.window_end_ns);
		s->found[s->n_found++] = (struct lg_escrow_found){
			.record = record, .until_ns = lg_add_cap(now_ns, lg_mul_div(record.memory_ms, LG_NS_PER_MS, 1))
		};
	}
	if (s->n_found)
		qsort(s->found, s->n_found, sizeof(*s->found), by_id);
	memcpy(s->covered, r->covered, sizeof(s->covered));
	s->n_covered = r->n_covered;
	return 0;
}

static int page_bad(struct lg_complaint *c, uint32_t slot, const char *why)
{
	return lg_complain(c, "store: escrow/%03u, what was going to be lent, is not to be read: %s. Without it (delete that key) what is out "
			   "is learned from the holders", slot, why);
}

int lg_escrow_book_open(struct lg_escrow_book *b, uint32_t slot, uint64_t now_ns, struct lg_complaint *c)
{
	struct slot *s = &b->slots[slot];
	struct lg_escrow_reader reader;
	char key[KEY_LEN];
	const char *why;
	size_t len;
	int r;

	key_of(slot, key);
	s->revision = 0;
	r = lg_store_get(b->o.store, key, b->page.bytes, sizeof(b->page.bytes), &len, &s->revision);
	if (r == 0 && lg_escrow_page_open(&reader, b->page.bytes, len, &why) < 0)
		return page_bad(c, slot, why);
	if (r == -ENOSPC)
		return page_bad(c, slot, "its length is none of a page");
	if (r == 0)
		r = found_load(b, s, &reader, now_ns);
	if (r < 0)
		return lg_complain(c, "store: escrow/%03u cannot be read: %s", slot, strerror(-r));
	s->since_ns = now_ns;
	s->is_open = true;
	s->n_opened++;
	return 0;
}

void lg_escrow_book_doubt(struct lg_escrow_book *b, uint32_t slot, uint64_t revision)
{
	if (b->slots[slot].revision == revision)
		b->slots[slot].n_covered = 0;
}

void lg_escrow_book_close(struct lg_escrow_book *b, uint32_t slot)
{
	struct slot *s = &b->slots[slot];

	s->is_open = s->is_due = s->is_on_its_way = s->is_foreign = s->is_last = false;
	s->n_opened++;
	free(s->found);
	s->found = NULL;
	s->n_found = s->n_covered = 0;
}

int lg_escrow_book_peek(struct lg_escrow_book *b, uint32_t slot, uint64_t ret_covered[LG_RULES_MAX], size_t *ret_n, uint64_t *ret_revision,
			struct lg_complaint *c)
{
	struct lg_escrow_reader reader;
	char key[KEY_LEN];
	const char *why;
	size_t len;
	int r;

	key_of(slot, key);
	*ret_n = 0;
	*ret_revision = 0;
	r = lg_store_get(b->o.store, key, b->page.bytes, sizeof(b->page.bytes), &len, ret_revision);
	if (r)
		return r < 0 ? page_bad(c, slot, r == -ENOSPC ? "its length is none of a page" : strerror(-r)) : 0;
	if (lg_escrow_page_open(&reader, b->page.bytes, len, &why) < 0)
		return page_bad(c, slot, why);
	memcpy(ret_covered, reader.covered, sizeof(reader.covered));
	*ret_n = reader.n_covered;
	return 0;
}

bool lg_escrow_book_is_open(const struct lg_escrow_book *b, uint32_t slot)
{
	return b->slots[slot].is_open;
}

uint64_t lg_escrow_book_since_ns(const struct lg_escrow_book *b, uint32_t slot)
{
	return b->slots[slot].since_ns;
}

static bool has(const uint64_t *v, size_t n, uint64_t identity)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == identity)
			return true;
	return false;
}

bool lg_escrow_book_covers(const struct lg_escrow_book *b, uint32_t slot, uint64_t identity)
{
	return has(b->slots[slot].covered, b->slots[slot].n_covered, identity);
}

void lg_escrow_book_uncover(struct lg_escrow_book *b, uint64_t identity)
{
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++) {
		struct slot *s = &b->slots[i];

		for (size_t j = 0; j < s->n_covered; j++)
			if (s->covered[j] == identity) {
				s->covered[j--] = s->covered[--s->n_covered];
				s->is_due = true;
			}
	}
}

const struct lg_escrow_mark *lg_escrow_book_claim(struct lg_escrow_book *b, struct lg_escrow_entry *e)
{
	struct slot *s = &b->slots[e->slot];
	struct lg_escrow_found wanted = { 0 }, *found;

	memcpy(wanted.record.id, e->id, sizeof(wanted.record.id));
	found = s->n_found ? bsearch(&wanted, s->found, s->n_found, sizeof(*s->found), by_id) : NULL;
	if (!found || found->claimed)
		return NULL;
	found->claimed = true;
	e->found = found;
	return &found->record.mark;
}

/* ---- keys ---- */

void lg_escrow_book_touch(struct lg_escrow_book *b, uint32_t slot)
{
	b->slots[slot].is_due = true;
}

void lg_escrow_book_add(struct lg_escrow_book *b, struct lg_escrow_entry *e)
{
	if (e->is_in)
		return;
	LIST_INSERT_HEAD(&b->slots[e->slot].keys, e, link);
	b->slots[e->slot].n_keys++;
	b->counts.n_keys++;
	e->is_in = true;
}

void lg_escrow_book_remove(struct lg_escrow_book *b, struct lg_escrow_entry *e, bool is_idle)
{
	if (e->found && !is_idle)
		e->found->claimed = false;
	if (!e->is_in)
		return;
	LIST_REMOVE(e, link);
	b->slots[e->slot].n_keys--;
	b->counts.n_keys--;
	e->is_in = false;
	b->slots[e->slot].is_due = true;
}

void lg_escrow_book_due(struct lg_escrow_book *b, const struct lg_escrow_entry *e)
{
	if (!b->is_finishing)
		b->slots[e->slot].is_due = true;
}

/* ---- writing ---- */

/* What of a key matters after the server that lent it is gone, and for how long. */
static uint64_t memory_ms(const struct lg_terms *t)
{
	uint64_t span_ns = lg_max_u64(lg_terms_span_ns(t), t->per_ns);

	return lg_add_cap(lg_add_cap(2 * span_ns, t->ttl_ns), t->grace_ns) / LG_NS_PER_MS + 1;
}

static void key_write(struct lg_escrow_book *b, struct lg_escrow_entry *e, uint64_t now_ns)
{
	struct lg_escrow_record record = { .memory_ms = memory_ms(e->lessor->terms) };
	size_t len = b->page.len;

	if (!lg_home_mark(e->home, b->is_finishing || b->slots[e->slot].is_last, now_ns, &record.mark))
		return;
	e->is_on_its_way = true;
	memcpy(record.id, e->id, sizeof(record.id));
	record.mark.window_end_ns = to_shared_ns(b, record.mark.window_end_ns);
	if (lg_escrow_page_add(&b->page, &record))
		return;
	b->page.len = len;
	b->counts.n_no_room++;
	e->is_on_its_way = false;
	lg_home_marked(e->home, false, now_ns, NULL);
}

static void slot_write(struct lg_escrow_book *b, uint32_t number, uint64_t now_ns)
{
	struct slot *s = &b->slots[number];
	struct lg_escrow_entry *e;

	s->n_asked = b->o.covers(b->o.arg, number, s->asked);
	lg_escrow_page_begin(&b->page, b->o.writer, s->asked, s->n_asked);
	/* What nobody has claimed yet comes first: of it nobody could make a mark again. */
	for (size_t i = 0; i < s->n_found; i++) {
		struct lg_escrow_record record = s->found[i].record;

		if (s->found[i].claimed || s->found[i].until_ns <= now_ns)
			continue;
		record.mark.window_end_ns = to_shared_ns(b, record.mark.window_end_ns);
		lg_escrow_page_add(&b->page, &record);
	}
	LIST_FOREACH(e, &s->keys, link)
		key_write(b, e, now_ns);
	lg_escrow_page_end(&b->page);
	s->is_due = false;
	s->is_on_its_way = true;
}

/* Did the last write that we know nothing of arrive, or has somebody else written? */
static void slot_reread(struct lg_escrow_book *b, uint32_t number)
{
	struct slot *s = &b->slots[number];
	struct lg_escrow_reader r = { 0 };
	uint64_t revision = 0;
	char key[KEY_LEN];
	const char *why;
	size_t len;

	key_of(number, key);
	if (lg_store_get(b->o.store, key, b->page.bytes, sizeof(b->page.bytes), &len, &revision) < 0 || revision == s->revision)
		return;
	if (!revision || lg_escrow_page_open(&r, b->page.bytes, len, &why) < 0 || r.writer != b->o.writer) {
		s->is_foreign = true;
		snprintf(b->why, sizeof(b->why), "somebody else has written escrow/%03u", number);
		lg_error("store: %s: nothing more is lent of those keys by this server", b->why);
	}
	s->revision = revision;
}

static void slot_answered(struct lg_escrow_book *b, uint32_t number, bool is_durable)
{
	struct slot *s = &b->slots[number];
	struct lg_escrow_entry *e;

	s->is_on_its_way = false;
	slot_reread(b, number);
	if (is_durable) {
		memcpy(s->covered, s->asked, sizeof(s->covered));
		s->n_covered = s->n_asked;
	} else {
		s->is_due = true;
	}
	LIST_FOREACH(e, &s->keys, link) {
		if (!e->is_on_its_way)
			continue;
		e->is_on_its_way = false;
		b->o.marked(b->o.arg, e, is_durable);
	}
}

static void failed(struct lg_escrow_book *b, int result)
{
	const char *why = result > 0 ? "a slot of keys has another owner, or it was changed by somebody" : strerror(-result);

	b->counts.n_failed++;
	b->next_ns = lg_clock_now_ns() + RETRY_NS;
	if (!b->why[0])
		lg_warn("store: what is going to be lent cannot be written: %s. What is durable already is lent, and nothing more", why);
	snprintf(b->why, sizeof(b->why), "%s", why);
}

static void succeeded(struct lg_escrow_book *b, const struct commit *commit)
{
	uint64_t now_ns = lg_clock_now_ns(), gap_ns = GAP_FACTOR * (now_ns - commit->sent_ns);

	b->counts.n_commits++;
	b->counts.n_pages += commit->n;
	b->counts.n_bytes += commit->n_bytes;
	b->next_ns = lg_max_u64(b->next_ns, commit->sent_ns + lg_clamp_u64(gap_ns, GAP_MIN_NS, GAP_MAX_NS));
	if (b->why[0])
		lg_info("store: what is going to be lent is written again");
	b->why[0] = '\0';
}

static void on_committed(void *arg, int result)
{
	struct commit *commit = arg;
	struct lg_escrow_book *b = commit->book;

	if (result)
		failed(b, result);
	else
		succeeded(b, commit);
	for (size_t i = 0; i < commit->n; i++)
		if (commit->n_opened[i] == b->slots[commit->slots[i]].n_opened)
			slot_answered(b, commit->slots[i], result == 0);
	LIST_REMOVE(commit, link);
	free(commit);
	if (b->o.flush)
		b->o.flush(b->o.arg);
}

struct batch {
	struct lg_store_write writes[LG_STORE_WRITES_MAX];
	char keys[LG_STORE_WRITES_MAX][KEY_LEN];
	char fences[LG_STORE_WRITES_MAX][LG_NAME_LEN];
	void *values[LG_STORE_WRITES_MAX];
};

/* One more page; false: it has to wait for another commit. */
static bool batch_add(struct lg_escrow_book *b, struct commit *commit, struct batch *batch, uint32_t number, uint64_t now_ns)
{
	struct slot *s = &b->slots[number];
	size_t i = commit->n;
	void *value;

	if (commit->n_writes + 2 > LG_STORE_WRITES_MAX || commit->n_bytes + LG_ESCROW_PAGE_MAX + KEY_LEN > LG_STORE_COMMIT_BYTES_MAX)
		return false;
	slot_write(b, number, now_ns);
	value = malloc(b->page.len);
	if (!value) {
		slot_answered(b, number, false);
		return false;
	}
	memcpy(value, b->page.bytes, b->page.len);
	key_of(number, batch->keys[i]);
	batch->values[i] = value;
	if (b->o.fence)
		batch->writes[commit->n_writes++] = b->o.fence(b->o.arg, number, batch->fences[i]);
	batch->writes[commit->n_writes++] = (struct lg_store_write){ .key = batch->keys[i], .value = value, .len = b->page.len,
								     .if_revision = s->revision };
	commit->n_opened[i] = s->n_opened;
	commit->slots[commit->n++] = (uint16_t)number;
	commit->n_bytes += b->page.len + KEY_LEN;
	return true;
}

static bool may_write(const struct slot *s)
{
	return s->is_open && s->is_due && !s->is_on_its_way && !s->is_foreign;
}

static void commit_send(struct lg_escrow_book *b, struct commit *commit, struct batch *batch)
{
	int r = lg_store_commit(b->o.store, batch->writes, commit->n_writes, on_committed, commit);

	for (size_t i = 0; i < commit->n; i++)
		free(batch->values[i]);
	if (r < 0)
		on_committed(commit, r);
}

static bool any_due(const struct lg_escrow_book *b)
{
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++)
		if (may_write(&b->slots[i]))
			return true;
	return false;
}

void lg_escrow_book_tick(struct lg_escrow_book *b, uint64_t now_ns)
{
	static struct batch batch;
	struct commit *commit;

	if (now_ns < b->next_ns || !any_due(b))
		return;
	commit = calloc(1, sizeof(*commit));
	if (!commit)
		return;
	commit->book = b;
	commit->sent_ns = now_ns;
	LIST_INSERT_HEAD(&b->commits, commit, link);
	b->next_ns = now_ns + GAP_MIN_NS;
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++)
		if (may_write(&b->slots[i]) && !batch_add(b, commit, &batch, i, now_ns))
			break;
	if (commit->n) {
		commit_send(b, commit, &batch);
		return;
	}
	LIST_REMOVE(commit, link);
	free(commit);
}

void lg_escrow_book_write(struct lg_escrow_book *b, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LG_KEY_SLOTS && any_due(b); i++) {
		b->next_ns = 0;
		lg_escrow_book_tick(b, now_ns);
	}
}

void lg_escrow_book_finish(struct lg_escrow_book *b)
{
	b->is_finishing = true;
	b->next_ns = 0;
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++)
		b->slots[i].is_due = b->slots[i].n_keys > 0;
}

/* Of a page that is on its way the next one would not be written: its reserve stays out until the holders have told what they have. */
void lg_escrow_book_hand_over(struct lg_escrow_book *b, const struct lg_slot_set *slots, uint64_t now_ns)
{
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++) {
		if (!lg_slot_set_has(slots, i) || !b->slots[i].is_open)
			continue;
		b->slots[i].is_last = true;
		b->slots[i].is_due = b->slots[i].n_keys > 0;
	}
	lg_escrow_book_write(b, now_ns);
}

bool lg_escrow_book_is_done(const struct lg_escrow_book *b)
{
	return LIST_EMPTY(&b->commits) && !any_due(b);
}

/* ---- begin and end ---- */

int lg_escrow_book_new(const struct lg_escrow_book_options *options, struct lg_escrow_book **ret_book)
{
	struct lg_escrow_book *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->o = *options;
	LIST_INIT(&b->commits);
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++)
		LIST_INIT(&b->slots[i].keys);
	*ret_book = b;
	return 0;
}

struct lg_escrow_book *lg_escrow_book_free(struct lg_escrow_book *b)
{
	struct commit *commit;

	if (!b)
		return NULL;
	while ((commit = LIST_FIRST(&b->commits))) {
		LIST_REMOVE(commit, link);
		free(commit);
	}
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++)
		free(b->slots[i].found);
	free(b);
	return NULL;
}

void lg_escrow_book_counts(const struct lg_escrow_book *b, struct lg_escrow_book_counts *ret)
{
	*ret = b->counts;
	ret->why = b->why[0] ? b->why : NULL;
}
