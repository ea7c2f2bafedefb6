// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who has leases from here. The list is durable, and all servers of the region have it in common: whoever comes to own a slot of keys
 * knows by it whose tokens may be out, and nobody is granted anything before he is on it.
 */
#include "role/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static int holder_add(struct lg_server *s, struct lg_server_holders *kind, const char *name, struct lg_server_holder **ret)
{
	struct lg_server_holder *h, **more;
	char key[LG_NAME_LEN] = { 0 };
	int r;

	if (kind->n == kind->size) {
		more = realloc(kind->v, (kind->size + 64) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		kind->v = more;
		kind->size += 64;
	}
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	snprintf(h->name, sizeof(h->name), "%s", name);
	snprintf(key, sizeof(key), "%s", name);
	h->server = s;
	h->is_region = kind == &s->regions;
	h->index = (uint32_t)kind->n;
	h->gone_ns = lg_clock_now_ns();
	LIST_INIT(&h->streams);
	if (h->is_region) {
		h->lives = calloc(1, sizeof(*h->lives));
		if (!h->lives) {
			free(h);
			return -ENOMEM;
		}
	}
	r = lg_table_put(kind->by_name, key, h);
	if (r < 0) {
		free(h->lives);
		free(h);
		return r;
	}
	kind->v[kind->n++] = h;
	*ret = h;
	return 0;
}

/* ---- the durable list ---- */

static struct lg_server_holder *holder_of(struct lg_server_holders *kind, const char *name)
{
	char key[LG_NAME_LEN] = { 0 };

	snprintf(key, sizeof(key), "%s", name);
	return lg_table_get(kind->by_name, key);
}

/* All servers of the region write the list. An entry that says other than the name is marked: its holder is to leave, if nobody objects. */
static void entry_seen(struct lg_server *s, struct lg_server_holders *kind, const char *key, const void *value, size_t len, uint64_t revision)
{
	const char *name = key + strlen(kind->prefix);
	struct lg_server_holder *h = strlen(name) < LG_NAME_LEN ? holder_of(kind, name) : NULL;
	bool was_marked;

	if (!h && value && strlen(name) < LG_NAME_LEN && holder_add(s, kind, name, &h) < 0) {
		lg_error("store: %s is on the list of holders and cannot be noted here", name);
		return;
	}
	if (!h)
		return;
	was_marked = h->is_marked;
	h->listed = value != NULL;
	h->revision = revision;
	h->is_marked = value && (len != strlen(name) || memcmp(value, name, len) != 0);
	if (h->is_marked && !was_marked)
		h->marked_ns = lg_clock_now_ns();
	/* It has a stream here: it stays, or comes again. */
	if (!lg_holder_is_noted(h) && !LIST_EMPTY(&h->streams))
		lg_holders_get(s, kind, name, &h);
}

static void on_host(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct lg_server *s = arg;

	entry_seen(s, &s->hosts, key, value, len, revision);
}

static void on_region(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct lg_server *s = arg;

	entry_seen(s, &s->regions, key, value, len, revision);
}

static int kind_start(struct lg_server *s, struct lg_server_holders *kind, const char *prefix, lg_store_seen *seen)
{
	int r;

	kind->prefix = prefix;
	STAILQ_INIT(&kind->ready);
	r = lg_table_new(LG_NAME_LEN, LG_HOLDERS_MAX, &kind->by_name);
	return r < 0 ? r : lg_store_watch_now(s->store, prefix, seen, s);
}

int lg_holders_succession(const struct lg_server_holders *kind, struct lg_succession **ret_succession)
{
	_cleanup_(lg_succession_free) struct lg_succession *succession = NULL;
	uint32_t n = 0;
	int r;

	r = lg_succession_new(lg_clock_now_ns(), &succession);
	for (size_t i = 0; r == 0 && i < kind->n; i++) {
		if (!kind->v[i]->listed)
			continue;
		r = lg_succession_list(succession, kind->v[i]->index);
		n++;
	}
	if (r == 0 && n)
		*ret_succession = TAKE(succession);
	return r;
}

/* One commit less to wait for before this life lends. */
static void saved(struct lg_server *s, int result)
{
	if (result) {
		s->is_spoiled = true;
		lg_error("store: what a server begins with could not be written: %s", result > 0 ? "another one wrote" : strerror(-result));
	}
	if (--s->n_unsaved == 0)
		lg_server_saved(s);
}

int lg_holders_start(struct lg_server *s, struct lg_complaint *c)
{
	int r;

	r = kind_start(s, &s->hosts, "holder/host/", on_host);
	if (r == 0)
		r = kind_start(s, &s->regions, "holder/region/", on_region);
	if (r == 0)
		r = lg_holders_get(s, &s->regions, s->config.region, &s->self_holder);
	if (r < 0)
		return lg_complain(c, "store: cannot read who holds leases: %s", strerror(-r));
	return lg_list_start(s, c);
}

static void kind_stop(struct lg_server_holders *kind)
{
	for (size_t i = 0; i < kind->n; i++) {
		lg_streams_free(kind->v[i]);
		free(kind->v[i]->lives);
		free(kind->v[i]);
	}
	free(kind->v);
	lg_table_free(kind->by_name);
}

void lg_holders_stop(struct lg_server *s)
{
	lg_server_escrow_stop(s);
	kind_stop(&s->hosts);
	kind_stop(&s->regions);
}

bool lg_holder_is_noted(const struct lg_server_holder *h)
{
	return h->listed && !h->is_marked;
}

static void on_listed(void *arg, int result)
{
	struct lg_server_holder *h = arg;

	h->is_listing = false;
	if (h->server->running)
		lg_streams_listed(h->server, h, result);
	else
		saved(h->server, result);
}

static int place_write(struct lg_server_holders *kind, struct lg_server_holder *h)
{
	char key[LG_STORE_KEY_MAX];
	struct lg_store_write write = { .key = key, .value = h->name, .len = strlen(h->name), .if_revision = LG_STORE_REVISION_ANY };
	struct lg_server *s = h->server;
	int r;

	snprintf(key, sizeof(key), "%s%s", kind->prefix, h->name);
	r = lg_store_commit(s->store, &write, 1, on_listed, h);
	if (r == 0 && !s->running)
		s->n_unsaved++;
	return r;
}

int lg_holders_get(struct lg_server *s, struct lg_server_holders *kind, const char *name, struct lg_server_holder **ret)
{
	struct lg_server_holder *h = holder_of(kind, name);
	int r = 0;

	if (!h)
		r = holder_add(s, kind, name, &h);
	if (r < 0)
		return r;
	if (!lg_holder_is_noted(h) && !h->is_listing) {
		r = place_write(kind, h);
		h->is_listing = r == 0;
	}
	if (r == 0)
		*ret = h;
	return r;
}

/* Twice the longest that a token granted to a silent holder can matter. */
static uint64_t horizon_ns(const struct lg_server *s)
{
	uint64_t most = 60 * LG_NS_PER_S;

	for (size_t i = 0; i < LG_RULES_MAX; i++) {
		const struct lg_terms *t = s->rules[i].terms;
		uint64_t ns = s->rules[i].live ? 2 * (t->ttl_ns + t->grace_ns + t->per_ns) : 0;

		if (ns > most)
			most = ns;
	}
	return most;
}

static void on_pruned(void *arg, int result)
{
	(void)arg;
	(void)result;
}

/*
 * A holder that nobody has seen for long is marked first; it leaves when nobody has objected for as long again: a server that has a
 * stream of it writes its entry anew. Each step is taken only if the entry is still the one that was seen.
 */
static void kind_prune(struct lg_server *s, struct lg_server_holders *kind, uint64_t before_ns)
{
	static const char mark[] = "~";
	char key[LG_STORE_KEY_MAX];

	for (size_t i = 0; i < kind->n; i++) {
		struct lg_server_holder *h = kind->v[i];
		struct lg_store_write write = { .key = key, .value = h->is_marked ? NULL : mark, .len = sizeof(mark) - 1,
						.if_revision = h->revision };

		if (!h->listed || h->is_listing || !LIST_EMPTY(&h->streams) || h->gone_ns > before_ns || h == s->self_holder ||
		    (h->is_marked && h->marked_ns > before_ns))
			continue;
		snprintf(key, sizeof(key), "%s%s", kind->prefix, h->name);
		lg_store_commit(s->store, &write, 1, on_pruned, s);
	}
}

void lg_holders_prune(struct lg_server *s)
{
	uint64_t now_ns = lg_clock_now_ns(), horizon = horizon_ns(s);

	if (now_ns <= horizon)
		return;
	kind_prune(s, &s->hosts, now_ns - horizon);
	kind_prune(s, &s->regions, now_ns - horizon);
}
