// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rules at run time. What is in force follows the store: whoever writes there, this server, another of the region, or this one on behalf of
 * another region, each server of the region sees it by its watch, puts it into force and pushes it to its holders. So there is one way in, and
 * a version that is not durable is in force nowhere.
 *
 *   rules/current           what is said of the newest version, without texts
 *   rules/history/N.REGION  the same, of each of the last versions
 *   rules/text/HASH-N       a piece of a text, named by its contents: written once, whatever versions have it
 *
 * Regions learn versions of each other as holders of each other's leases, over the streams that are up anyway: the newest stamp goes on.
 */
#include "role/server_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "role/server.h"
#include "rules/compile.h"
#include "rules/lockout.h"
#include "rules/yaml.h"

/* ---- the store ---- */

void lg_server_rules_text_key(uint64_t hash, size_t n, char ret[64])
{
	snprintf(ret, 64, "rules/text/%016" PRIx64 "-%02zu", hash, n);
}

static int text_read(struct lg_server *s, struct lg_rules_text_ref *ref)
{
	_cleanup_free_ char *text = malloc(ref->len + 1);
	uint64_t revision;
	char key[64];
	size_t got;

	if (!text)
		return -ENOMEM;
	for (size_t at = 0, n = 0; at < ref->len; at += got, n++) {
		int r;

		got = 0;
		lg_server_rules_text_key(ref->hash, n, key);
		r = lg_store_get(s->store, key, text + at, ref->len - at, &got, &revision);
		if (r < 0 || (r == 0 && !got))
			return r < 0 ? r : -EBADMSG;
		if (r)
			return -ENODATA;
	}
	if (lg_rules_text_hash(text, ref->len) != ref->hash)
		return -EBADMSG;
	return lg_rules_text_set(ref, text, ref->len);
}

int lg_server_rules_read(struct lg_server *s, const char *key, bool with_texts, struct lg_rules_doc **ret_doc, uint64_t *ret_revision)
{
	_cleanup_free_ char *head = malloc(LG_STORE_VALUE_MAX);
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct lg_complaint c;
	size_t len = 0;
	int r;

	if (!head)
		return -ENOMEM;
	r = lg_store_get(s->store, key, head, LG_STORE_VALUE_MAX, &len, ret_revision);
	if (r == 0)
		r = lg_rules_doc_parse(head, len, lg_clock_now_ns(), lg_clock_unix_ns() / LG_NS_PER_MS, 0, &doc, &c);
	if (r == 0 && with_texts)
		r = text_read(s, &doc->text);
	if (r == 0 && with_texts && lg_gate_is_set(&doc->gate))
		r = text_read(s, &doc->base);
	if (r == 0)
		*ret_doc = TAKE(doc);
	return r;
}

/* ---- is it fit? ---- */

/* What nodes would refuse, but for what only they know: their interfaces and the room in their tables. */
static int compile_check(struct lg_server *s, struct lg_rules *rules, const struct lg_peer *peers, size_t n_peers, struct lg_complaint *c)
{
	struct lg_compile_env env = { .now_ns = lg_clock_now_ns(), .grace_ns = LG_NS_PER_S, .n_lines = LG_LINE_KEYS_DEFAULT / LG_LINE_SLOTS,
				      .n_regions = (uint32_t)s->config.n_regions, .hosts_in_region = lg_config_own_hosts(&s->config) };
	_cleanup_free_ struct lg_classifier *classifier = malloc(sizeof(*classifier));
	static struct lg_rule_name names[LG_RULES_MAX + 1];
	static struct lg_ruleset set;
	struct lg_lockout found;
	char peer[LG_IP_TEXT_LEN];
	int r;

	if (!classifier)
		return -ENOMEM;
	r = lg_secret_apply(&s->secret_keys, rules, c);
	if (r == 0)
		r = lg_rules_compile(rules, &env, &set, classifier, names, c);
	if (r < 0 || !lg_lockout_find(&set, classifier, rules->listed, rules->n_listed, false, peers, n_peers, &found))
		return r;
	c->line = c->col = 0;
	lg_addr_format(found.peer->peer, peer, sizeof(peer));
	return lg_complain(c, "this would cut off %s, who is logged in over SSH (port %u) here, and who comes from there anywhere: %s%s; "
			      "name the address under `exempt`, allow it, or repeat with --yes",
			   peer, found.peer->local_port, found.listed ? "it is on the deny list" : "too little is left by rule ",
			   found.listed ? "" : names[found.rule_id].name);
}

/* Is a global rule another one on some nodes, of the text or of the base? */
static int gated_check(const struct lg_rules_doc *doc, bool has_text, const struct lg_rules *rules, const char *name, struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *without = NULL;
	int r;

	r = lg_rules_doc_rules(doc, has_text, &lg_gate_nobody, lg_clock_now_ns(), name, &without, c);
	return r < 0 ? r : lg_rules_gate_check(rules, without, c);
}

/* With all overrides that some nodes have: each is of one rule, so what is right with all of them is so with some. */
static int version_check(struct lg_server *s, const struct lg_rules_doc *doc, const struct lg_peer *peers, size_t n_peers, const char *name,
			 struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	_cleanup_(lg_rules_free) struct lg_rules *base = NULL;
	int r;

	r = lg_rules_doc_rules(doc, true, &lg_gate_everybody, lg_clock_now_ns(), name, &rules, c);
	if (r == 0)
		r = compile_check(s, rules, peers, n_peers, c);
	if (r == 0)
		r = gated_check(doc, true, rules, name, c);
	if (r < 0 || !lg_gate_is_set(&doc->gate))
		return r;
	r = lg_rules_doc_rules(doc, false, &lg_gate_everybody, lg_clock_now_ns(), "the version before", &base, c);
	if (r == 0)
		r = compile_check(s, base, peers, n_peers, c);
	if (r == 0)
		snprintf(c->file, sizeof(c->file), "%s", name);
	return r < 0 ? r : lg_rules_gate_check(rules, base, c);
}

int lg_server_rules_check(struct lg_server *s, const struct lg_rules_doc *doc, const struct lg_peer *peers, size_t n_peers, const char *name,
			  struct lg_complaint *c)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *plain = NULL;
	int r;

	/* As it is written first: complaints about overrides are then about them. */
	plain = lg_rules_doc_copy(doc);
	if (!plain)
		return -ENOMEM;
	plain->n_overrides = 0;
	r = version_check(s, plain, peers, n_peers, name, c);
	return r < 0 || !doc->n_overrides ? r : version_check(s, doc, peers, n_peers, name, c);
}

/* ---- in force ---- */

/* With a gate the global rules of both texts are the same, and those are all that counts here. */
static int enforce(struct lg_server *s, const struct lg_rules_doc *doc, struct lg_complaint *c)
{
	_cleanup_(lg_rules_free) struct lg_rules *rules = NULL;
	char name[64];
	int r;

	snprintf(name, sizeof(name), "version %" PRIu64 " of the rules", doc->stamp.counter);
	r = lg_rules_doc_rules(doc, false, &lg_gate_nobody, lg_clock_now_ns(), name, &rules, c);
	return r < 0 ? r : lg_server_enforce(s, rules, c);
}

static void take(struct lg_server *s, struct lg_rules_doc *doc)
{
	struct lg_server_rules *m = &s->rules_now;

	lg_rules_doc_free(m->doc);
	m->doc = doc;
	m->packed_ns = 0;
	lg_role_await_end(s->rules_now.ender, s->rules_now.doc);
}

static void on_end(void *arg)
{
	struct lg_server *s = arg;
	struct lg_server_rules *m = &s->rules_now;
	struct lg_complaint c = { 0 };
	size_t before;

	if (!m->doc || !s->running)
		return;
	before = m->doc->n_overrides;
	lg_rules_doc_expire(m->doc, lg_clock_now_ns());
	if (m->doc->n_overrides != before) {
		m->packed_ns = 0;
		if (enforce(s, m->doc, &c) < 0)
			lg_error("rules: an override has ended, and what the file says cannot be put into force: %s", c.text);
		else
			lg_info("rules: an override has ended: what version %" PRIu64 " says is in force again", m->doc->stamp.counter);
	}
	lg_role_await_end(s->rules_now.ender, s->rules_now.doc);
}

static void refuse(struct lg_server *s, const struct lg_rules_stamp *stamp, const struct lg_complaint *c)
{
	struct lg_server_rules *m = &s->rules_now;

	m->refused = *stamp;
	lg_complaint_format(c, m->why, sizeof(m->why));
	lg_error("rules: version %" PRIu64 " of region %s cannot be put into force here, what was goes on: %s", stamp->counter,
		 stamp->region, m->why);
}

/* The newest of the store, if it is newer than what is in force. */
static void on_load(void *arg)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct lg_server *s = arg;
	struct lg_server_rules *m = &s->rules_now;
	struct lg_complaint c = { 0 };
	uint64_t revision;
	int r;

	if (!s->running)
		return;
	r = lg_server_rules_read(s, "rules/current", true, &doc, &revision);
	if (r == 0)
		m->revision = revision;
	if (r < 0)
		lg_error("store: the newest version of the rules cannot be read: %s; what is in force goes on", strerror(-r));
	if (r || (m->doc && lg_rules_stamp_compare(&doc->stamp, &m->doc->stamp) <= 0) ||
	    lg_rules_stamp_compare(&doc->stamp, &m->refused) == 0)
		return;
	if (enforce(s, doc, &c) < 0) {
		refuse(s, &doc->stamp, &c);
	} else {
		lg_info("rules: version %" PRIu64 " of region %s is in force (%s, by %s)", doc->stamp.counter, doc->stamp.region, doc->what,
			doc->by);
		take(s, TAKE(doc));
	}
	lg_server_rules_say(s);
	lg_source_arm(m->pusher, 0);
}

static void on_seen(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct lg_server *s = arg;

	(void)value;
	(void)len;
	(void)revision;
	if (strcmp(key, "rules/current") == 0)
		lg_source_arm(s->rules_now.loader, 0);
}

/* ---- to those who have their rules from here ---- */

static bool pack(struct lg_server *s)
{
	struct lg_server_rules *m = &s->rules_now;

	if (m->packed_ns)
		return true;
	lg_text_fini(&m->packed);
	m->packed_ns = lg_clock_now_ns();
	lg_rules_doc_pack(m->doc, m->packed_ns, lg_clock_unix_ns() / LG_NS_PER_MS, true, &m->packed);
	if (!lg_text_ok(&m->packed))
		m->packed_ns = 0;
	return m->packed_ns != 0;
}

/* The next part that it lacks: one at a time, so that nothing piles up before a slow reader. */
static void push(struct lg_server *s, struct lg_server_stream *stream)
{
	struct lg_server_rules *m = &s->rules_now;
	struct lg_server_rules_stream *to = &stream->rules;
	const struct lg_rules_stamp *stamp = &m->doc->stamp;
	bool goes_on = lg_rules_stamp_compare(&to->state.getting, stamp) == 0;
	uint32_t offset = goes_on ? to->state.got_bytes : 0;
	uint64_t age_ns;
	size_t len;

	if (stream->is_waiting || !to->wants || lg_rules_stamp_compare(&to->state.running, stamp) >= 0 ||
	    lg_rules_stamp_compare(&to->state.refused, stamp) >= 0)
		return;
	if (lg_rules_stamp_compare(&to->sent, stamp) == 0 && offset < to->sent_bytes)
		return;
	if (!pack(s) || offset >= m->packed.len)
		return;
	len = m->packed.len - offset < LG_RULES_PART_MAX ? m->packed.len - offset : LG_RULES_PART_MAX;
	age_ns = lg_clock_now_ns() - m->packed_ns;
	lg_lease_peer_rules(stream->peer, &(struct lg_rules_part){ .stamp = *stamp, .total_bytes = (uint32_t)m->packed.len, .offset = offset,
								   .data = (const uint8_t *)m->packed.s + offset, .len = len,
								   .age_ms = (age_ns + LG_NS_PER_MS - 1) / LG_NS_PER_MS });
	to->sent = *stamp;
	to->sent_bytes = offset + (uint32_t)len;
}

static void on_push(void *arg)
{
	struct lg_server *s = arg;
	struct lg_server_holders *const kinds[] = { &s->hosts, &s->regions };
	struct lg_server_stream *stream;

	for (size_t k = 0; s->running && s->rules_now.doc && k < N_ELEMS(kinds); k++)
		for (size_t i = 0; i < kinds[k]->n; i++)
			LIST_FOREACH(stream, &kinds[k]->v[i]->streams, link)
				push(s, stream);
}

void lg_server_rules_here(struct lg_server_stream *stream)
{
	struct lg_server_holder *h = stream->holder;

	stream->rules = (struct lg_server_rules_stream){ .wants = stream->hello.wants_rules, .state = stream->hello.rules };
	/* What it had of a version that was packed by somebody else, at another time. */
	stream->rules.state.getting = (struct lg_rules_stamp){ 0 };
	h->wants_rules = stream->rules.wants;
	h->rules = stream->rules.state;
	if (stream->rules.wants && h->server->config.rules_from_region)
		lg_source_arm(h->server->rules_now.pusher, 0);
}

void lg_server_rules_heard(struct lg_server_stream *stream, const struct lg_rules_state *state)
{
	struct lg_server_holder *h = stream->holder;

	stream->rules.wants = h->wants_rules = true;
	stream->rules.state = *state;
	if (state->refused.counter && lg_rules_stamp_compare(&state->refused, &h->rules.refused) != 0)
		lg_warn("rules: %s %s refuses version %" PRIu64 ": %s", h->is_region ? "region" : "host", h->name,
			state->refused.counter, state->why);
	h->rules = *state;
	if (state->getting.counter && h->server->rules_now.doc)
		push(h->server, stream);
}

/* ---- from other regions ---- */

static void state_of(const struct lg_server *s, struct lg_rules_state *ret)
{
	const struct lg_server_rules *m = &s->rules_now;

	*ret = (struct lg_rules_state){ 0 };
	if (m->doc)
		ret->running = m->doc->stamp;
	if (lg_rules_stamp_compare(&m->refused, &ret->running) > 0) {
		ret->refused = m->refused;
		snprintf(ret->why, sizeof(ret->why), "%s", m->why);
	}
}

void lg_server_rules_say(struct lg_server *s)
{
	struct lg_rules_state state;

	if (!s->config.rules_from_region)
		return;
	state_of(s, &state);
	for (size_t i = 0; i < s->config.n_regions; i++)
		if (s->homes[i].replicas)
			lg_replicas_rules(s->homes[i].replicas, &state);
}

bool lg_server_rules_wanted(void *arg, const struct lg_rules_stamp *stamp)
{
	const struct lg_server *s = ((struct lg_server_home *)arg)->server;
	const struct lg_server_rules *m = &s->rules_now;

	if (!s->config.rules_from_region || lg_rules_stamp_compare(stamp, &m->refused) <= 0)
		return false;
	return (!m->doc || lg_rules_stamp_compare(stamp, &m->doc->stamp) > 0) &&
	       (!m->offered || lg_rules_stamp_compare(stamp, &m->offered->stamp) > 0);
}

/* A whole version of another region: it is looked at as an operator's file is, and written to our own store. */
void lg_server_rules_whole(void *arg, const struct lg_rules_inbox *inbox)
{
	struct lg_server *s = ((struct lg_server_home *)arg)->server;
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	struct lg_server_rules *m = &s->rules_now;
	struct lg_complaint c = { 0 };
	int r;

	r = lg_rules_doc_parse(inbox->data, inbox->total_bytes, lg_clock_now_ns(), 0, inbox->age_ms, &doc, &c);
	if (r == 0 && (lg_rules_stamp_compare(&doc->stamp, &inbox->stamp) != 0 || !doc->text.text))
		r = lg_complain(&c, "this is no version of rules, or a damaged one");
	if (r == 0)
		r = lg_server_rules_check(s, doc, NULL, 0, "rules of another region", &c);
	if (r < 0) {
		refuse(s, &inbox->stamp, &c);
		lg_server_rules_say(s);
		return;
	}
	if (m->change.doc) {
		lg_rules_doc_free(m->offered);
		m->offered = TAKE(doc);
		return;
	}
	lg_server_rules_write(s, TAKE(doc), false);
}

/* ---- start and stop ---- */

int lg_server_rules_watch(struct lg_server *s)
{
	struct lg_server_rules *m = &s->rules_now;
	int r;

	if (!s->config.rules_from_region)
		return 0;
	r = lg_loop_add_timer(s->loop, on_load, s, &m->loader);
	if (r == 0)
		r = lg_loop_add_timer(s->loop, on_push, s, &m->pusher);
	if (r == 0)
		r = lg_loop_add_timer(s->loop, on_end, s, &m->ender);
	return r < 0 ? r : lg_store_watch(s->store, "rules/", on_seen, s);
}

int lg_server_rules_first(struct lg_server *s, struct lg_rules **ret_rules, struct lg_complaint *c)
{
	_cleanup_(lg_rules_doc_free) struct lg_rules_doc *doc = NULL;
	int r;

	if (!s->config.rules_from_region) {
		*ret_rules = TAKE(s->first_rules);
		return 0;
	}
	r = lg_server_rules_read(s, "rules/current", true, &doc, &s->rules_now.revision);
	if (r < 0)
		return lg_complain(c, "store: the rules cannot be read: %s", strerror(-r));
	if (r == 0)
		r = lg_rules_doc_rules(doc, false, &lg_gate_nobody, lg_clock_now_ns(), "the rules of the store", ret_rules, c);
	if (r == 0) {
		take(s, TAKE(doc));
	} else if (r == 1) {
		lg_info("rules: there is no version yet: `leasegate rules apply FILE` makes the first one");
		r = lg_role_rules_first(&s->config, s->rules_now.file_why, ret_rules, c);
	}
	return r;
}

bool lg_server_rules_are_made(const struct lg_server *s)
{
	return s->config.rules_from_region && (s->rules_now.doc || !s->config.rules[0]);
}

void lg_server_rules_stop(struct lg_server *s)
{
	struct lg_server_rules *m = &s->rules_now;

	lg_source_free(m->loader);
	lg_source_free(m->pusher);
	lg_source_free(m->ender);
	lg_text_fini(&m->packed);
	lg_rules_doc_free(m->doc);
	lg_rules_doc_free(m->offered);
	lg_rules_doc_free(m->change.doc);
}
