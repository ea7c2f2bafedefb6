// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A rule is *covered* in a slot of keys when its page says that all that counts of it is marked: then a key that is not on the page has
 * nothing out. A life may say so of a rule once nothing can count any more that was lent without a mark. It must no longer say so when it
 * begins to lend without: so a rule that reserves goes on doing so until its server ends, and whoever comes to own a slot and will lend a
 * rule of its page without marks makes durable, as it claims the slot, that this page is not to be believed.
 */
#include "role/server_escrow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/arith.h"
#include "role/escrow_book.h"
#include "role/server.h"

#define FINISH_NS (2 * LG_NS_PER_S)
#define EVER 1	/* a time long ago */

struct rule_marks {
	uint64_t identity;
	uint64_t since_ns;	/* all that it lends has been marked since; EVER: nothing was lent before this life; 0: it does not reserve */
	uint64_t unmarked_ns;	/* some key was seen to lend without, last; 0: none was */
};

struct lg_server_escrow {
	struct lg_escrow_book *book;
	struct lg_slot_set first;		/* slots that nobody had before */
	struct rule_marks rules[LG_RULES_MAX];	/* by slot */
	struct lg_source *deadline;
	lg_server_escrow_done *done;
};

/* ---- which rules are covered ---- */

/* After this what was lent without a mark counts no more. */
static uint64_t horizon_ns(const struct lg_terms *t)
{
	uint64_t span_ns = lg_max_u64(lg_terms_span_ns(t), t->per_ns);

	return lg_add_cap(lg_add_cap(2 * span_ns, t->ttl_ns), t->grace_ns);
}

static bool covers(const struct lg_server *s, uint32_t slot, size_t i)
{
	const struct lg_server_escrow *e = s->escrow;
	const struct rule_marks *m = &e->rules[i];
	uint64_t from_ns = lg_max_u64(lg_max_u64(m->since_ns, m->unmarked_ns), lg_escrow_book_since_ns(e->book, slot));

	if (!m->since_ns)
		return false;
	if (lg_escrow_book_covers(e->book, slot, m->identity) || (lg_slot_set_has(&e->first, slot) && m->since_ns == EVER && !m->unmarked_ns))
		return true;
	return lg_clock_now_ns() > lg_add_cap(from_ns, horizon_ns(s->rules[i].terms));
}

static size_t on_covers(void *arg, uint32_t slot, uint64_t ret[LG_RULES_MAX])
{
	const struct lg_server *s = arg;
	size_t n = 0;

	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (covers(s, slot, i))
			ret[n++] = s->escrow->rules[i].identity;
	return n;
}

void lg_server_escrow_sweep(struct lg_server *s)
{
	const struct lg_server_escrow *e = s->escrow;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		for (size_t i = 0; i < LG_RULES_MAX && lg_escrow_book_is_open(e->book, slot); i++)
			if (e->rules[i].since_ns && !lg_escrow_book_covers(e->book, slot, e->rules[i].identity) && covers(s, slot, i))
				lg_escrow_book_touch(e->book, slot);
}

void lg_server_escrow_rule(struct lg_server *s, struct lg_server_rule *rule)
{
	struct rule_marks *m = &s->escrow->rules[rule - s->rules];
	bool is_new = !rule->terms, is_other = !is_new && m->identity != rule->identity;

	if (is_other && m->since_ns)
		lg_escrow_book_uncover(s->escrow->book, m->identity);
	m->identity = rule->identity;
	if (is_other && m->since_ns)
		m->since_ns = lg_clock_now_ns();
	if (rule->reserves || !rule->next_terms->reserves)
		return;
	rule->reserves = true;
	m->since_ns = is_new ? EVER : lg_clock_now_ns();
}

/* ---- keys ---- */

static struct lg_server_home_key *key_of(struct lg_escrow_entry *e)
{
	return (struct lg_server_home_key *)((char *)e - offsetof(struct lg_server_home_key, escrow));
}

int lg_server_escrow_home(struct lg_server_home_key *k, struct lg_lessor *lessor, uint64_t now_ns)
{
	struct lg_escrow_book *book = k->server->escrow->book;
	struct lg_server_rule *rule = &k->server->rules[k->key.rule_id - 1];
	struct lg_home_past past = { 0 };
	uint8_t bytes[LG_KEY_BYTES_MAX];
	size_t len = lg_key_bytes(rule->def.name, k->key.form, k->key.a, k->key.b, bytes);
	int r;

	lg_escrow_id(rule->identity, bytes, len, k->escrow.id);
	k->escrow.slot = (uint16_t)k->slot;
	k->escrow.lessor = lessor;
	past.mark = lg_escrow_book_claim(book, &k->escrow);
	if (past.mark)
		past.since_ns = lg_escrow_book_since_ns(book, k->escrow.slot);
	if (lessor->reserves && lg_escrow_book_covers(book, k->escrow.slot, rule->identity))
		r = lg_home_new_after(lessor, &past, now_ns, &k->home);
	else
		r = lg_home_new(lessor, now_ns, &k->home);
	k->escrow.home = k->home;
	if (r == 0 && lg_home_reserves(k->home))
		lg_escrow_book_add(book, &k->escrow);
	return r;
}

void lg_server_escrow_forget(struct lg_server_home_key *k, uint64_t now_ns)
{
	if (k->escrow.lessor)
		lg_escrow_book_remove(k->server->escrow->book, &k->escrow, k->home && lg_home_is_idle(k->home, now_ns));
}

void lg_server_escrow_due(void *arg)
{
	struct lg_server_home_key *k = arg;

	lg_escrow_book_add(k->server->escrow->book, &k->escrow);
	lg_escrow_book_due(k->server->escrow->book, &k->escrow);
}

void lg_server_escrow_look(struct lg_server_home_key *k, uint64_t now_ns)
{
	if (!lg_home_reserves(k->home))
		k->server->escrow->rules[k->key.rule_id - 1].unmarked_ns = now_ns;
}

static void on_marked(void *arg, struct lg_escrow_entry *e, bool is_durable)
{
	(void)arg;
	lg_server_home_marked(key_of(e), is_durable);
}

/* ---- time ---- */

static void on_flush(void *arg)
{
	struct lg_server *s = arg;

	if (s->running)
		lg_server_flush(s);
}

static struct lg_store_write on_fence(void *arg, uint32_t slot, char key[LG_NAME_LEN])
{
	return lg_slots_fence(arg, slot, key);
}

static void finished(struct lg_server *s)
{
	lg_server_escrow_done *done = s->escrow->done;

	s->escrow->done = NULL;
	if (done)
		done(s);
}

void lg_server_escrow_tick(struct lg_server *s)
{
	lg_escrow_book_tick(s->escrow->book, lg_clock_now_ns());
	if (s->escrow->done && lg_escrow_book_is_done(s->escrow->book))
		finished(s);
}

static void on_deadline(void *arg)
{
	struct lg_server *s = arg;

	if (s->escrow->done)
		lg_warn("store: what is not used could not be given back in time: the next life of this server takes it for lent");
	finished(s);
}

void lg_server_escrow_finish(struct lg_server *s, lg_server_escrow_done *done)
{
	struct lg_server_escrow *e = s->escrow;

	if (!e || !s->running || e->done || lg_loop_add_timer(s->loop, on_deadline, s, &e->deadline) < 0 ||
	    lg_source_arm(e->deadline, FINISH_NS) < 0) {
		done(s);
		return;
	}
	e->done = done;
	lg_escrow_book_finish(e->book);
	lg_server_escrow_tick(s);
}

/* ---- begin and end ---- */

static bool is_reserving(const struct lg_server *s, uint64_t identity)
{
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (s->rules[i].reserves && s->rules[i].identity == identity)
			return true;
	return false;
}

int lg_server_escrow_doubt(struct lg_server *s, uint32_t slot, const struct lg_server_life *life, uint64_t *ret_revision)
{
	uint64_t covered[LG_RULES_MAX], before = life->doubtful;
	struct lg_complaint c = { 0 };
	size_t n = 0;

	/* Nobody who comes after us could read it either. */
	if (lg_escrow_book_peek(s->escrow->book, slot, covered, &n, ret_revision, &c) < 0) {
		lg_error("%s", c.text);
		lg_loop_stop(s->loop, LG_EXIT_REFUSED);
		return -EBADMSG;
	}
	/* A key that is not on it may have been lent all the same. */
	if (lg_slot_past_is_elsewhere(s, life->epoch ? life : NULL))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!is_reserving(s, covered[i]))
			return 0;
	if (!*ret_revision || before != *ret_revision)
		*ret_revision = 0;
	return 0;
}

int lg_server_escrow_open(struct lg_server *s, uint32_t slot, bool is_first, uint64_t doubtful)
{
	struct lg_complaint c = { 0 };
	int r;

	if (is_first)
		lg_slot_set_add(&s->escrow->first, slot);
	else
		lg_slot_set_del(&s->escrow->first, slot);
	r = lg_escrow_book_open(s->escrow->book, slot, lg_clock_now_ns(), &c);
	if (r < 0)
		lg_error("%s", c.text);
	else
		lg_escrow_book_doubt(s->escrow->book, slot, doubtful);
	return r;
}

void lg_server_escrow_hand_over(struct lg_server *s, const struct lg_slot_set *slots)
{
	lg_escrow_book_hand_over(s->escrow->book, slots, lg_clock_now_ns());
}

void lg_server_escrow_close(struct lg_server *s, uint32_t slot)
{
	lg_escrow_book_close(s->escrow->book, slot);
}

int lg_server_escrow_start(struct lg_server *s, struct lg_complaint *c)
{
	struct lg_escrow_book_options options = {
		.store = s->store, .writer = s->started_unix_ns ^ s->started_ns << 20 ^ (uint64_t)getpid(), .at_ns = s->started_ns,
		.at_unix_ns = s->started_unix_ns, .marked = on_marked, .covers = on_covers, .flush = on_flush, .fence = on_fence, .arg = s,
	};
	int r;

	s->escrow = calloc(1, sizeof(*s->escrow));
	r = s->escrow ? lg_escrow_book_new(&options, &s->escrow->book) : -ENOMEM;
	return r < 0 ? lg_complain(c, "cannot keep what is going to be lent: %s", strerror(-r)) : 0;
}

void lg_server_escrow_stop(struct lg_server *s)
{
	if (!s->escrow)
		return;
	lg_source_free(s->escrow->deadline);
	lg_escrow_book_free(s->escrow->book);
	free(s->escrow);
	s->escrow = NULL;
}

/* ---- status ---- */

json_t *lg_server_escrow_json(struct lg_server *s)
{
	struct lg_escrow_book_counts c;

	lg_escrow_book_counts(s->escrow->book, &c);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "keys", (json_int_t)c.n_keys, "commits", (json_int_t)c.n_commits, "writes",
			 (json_int_t)c.n_pages, "bytes", (json_int_t)c.n_bytes, "failed", (json_int_t)c.n_failed, "no_room",
			 (json_int_t)c.n_no_room, "why", c.why ? c.why : "");
}

void lg_server_escrow_metrics(struct lg_server *s, struct lg_metrics *m)
{
	struct lg_escrow_book_counts c;

	lg_escrow_book_counts(s->escrow->book, &c);
	lg_metrics_add(m, LG_METRIC_ESCROW_KEYS, c.n_keys, NULL);
	lg_metrics_add(m, LG_METRIC_ESCROW_COMMITS, c.n_commits, "result", "durable", NULL);
	lg_metrics_add(m, LG_METRIC_ESCROW_COMMITS, c.n_failed, "result", "failed", NULL);
	lg_metrics_add(m, LG_METRIC_ESCROW_WRITES, c.n_pages, NULL);
}
