// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Who has leases from here. The list is durable: after a restart it says whose tokens may still be out, and nobody is granted anything
 * before he is on it.
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
	r = lg_table_put(kind->by_name, key, h);
	if (r < 0) {
		free(h);
		return r;
	}
	kind->v[kind->n++] = h;
	*ret = h;
	return 0;
}

struct listing {
	struct lg_server *s;
	struct lg_server_holders *kind;
};

static int list_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct listing *l = arg;
	struct lg_server_holder *h;
	int r;

	(void)value;
	(void)len;
	(void)revision;
	r = holder_add(l->s, l->kind, key + strlen(l->kind->prefix), &h);
	if (r < 0)
		return r;
	h->listed = true;
	h->gone_ns = l->s->started_ns;
	return lg_succession_list(l->kind->succession, h->index);
}

static int kind_start(struct lg_server *s, struct lg_server_holders *kind, const char *prefix)
{
	struct listing l = { s, kind };
	int r;

	kind->prefix = prefix;
	STAILQ_INIT(&kind->ready);
	r = lg_table_new(LG_NAME_LEN, LG_HOLDERS_MAX, &kind->by_name);
	if (r == 0)
		r = lg_succession_new(s->started_ns, &kind->succession);
	if (r == 0)
		r = lg_store_each(s->store, prefix, list_one, &l);
	if (r == 0 && kind->n == 0)
		kind->succession = lg_succession_free(kind->succession);
	return r;
}

/* A number in the store; 0 when it is not there. */
static int number_read(struct lg_server *s, const char *key, uint64_t *ret, uint64_t *ret_revision)
{
	uint64_t value = 0, revision = 0;
	size_t len = 0;
	int r;

	r = lg_store_get(s->store, key, &value, sizeof(value), &len, &revision);
	if (r == 0 && len != sizeof(value))
		return -EBADMSG;
	if (r < 0)
		return r;
	*ret = r == 1 ? 0 : value;
	*ret_revision = r == 1 ? 0 : revision;
	return 0;
}

/* One commit less to wait for before this life lends. */
void lg_holders_saved(struct lg_server *s, int result)
{
	if (result) {
		s->is_spoiled = true;
		lg_error("store: what a life begins with could not be written: %s",
			 result > 0 ? "this server leads no longer" : strerror(-result));
	}
	if (--s->n_unsaved == 0)
		lg_server_saved(s);
}

static void on_saved(void *arg, int result)
{
	lg_holders_saved(arg, result);
}

int lg_holders_save(struct lg_server *s, const struct lg_store_write *write)
{
	int r = lg_store_commit(s->store, write, 1, on_saved, s);

	s->n_unsaved += r == 0;
	return r;
}

/* The epoch of this life: durable before anybody hears it. */
static int epoch_start(struct lg_server *s, uint64_t *ret_before)
{
	uint64_t revision, stored, wall = lg_clock_unix_s();
	struct lg_store_write write = { .key = "epoch", .value = &stored, .len = sizeof(stored) };
	int r;

	r = number_read(s, "epoch", &stored, &revision);
	if (r < 0)
		return r;
	*ret_before = stored;
	stored = stored + 1 > wall ? stored + 1 : wall;
	if (stored > UINT32_MAX)
		return -ERANGE;
	write.if_revision = revision;
	s->epoch = (uint32_t)stored;
	return lg_holders_save(s, &write);
}

/* Whether the life before this one had learned what was out when it ended. */
static int settled_start(struct lg_server *s, uint64_t before)
{
	uint64_t settled, revision;
	int r;

	r = number_read(s, "settled", &settled, &revision);
	if (r == 0 && settled != before && s->regions.succession)
		lg_succession_unsettled(s->regions.succession);
	return r;
}

static void on_settled(void *arg, int result)
{
	struct lg_server *s = arg;

	s->is_settling = false;
	s->settled = result == 0;
}

void lg_holders_settle(struct lg_server *s)
{
	const struct lg_succession *old = s->regions.succession;
	uint64_t epoch = s->epoch;
	struct lg_store_write writes[2] = { { .key = "settled", .value = &epoch, .len = sizeof(epoch), .if_revision = UINT64_MAX } };
	uint64_t longest_ns = 0;

	if (s->settled || s->is_settling)
		return;
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (s->rules[i].live && s->rules[i].terms->ttl_ns + s->rules[i].terms->grace_ns > longest_ns)
			longest_ns = s->rules[i].terms->ttl_ns + s->rules[i].terms->grace_ns;
	if (old && lg_succession_missing(old) && lg_clock_now_ns() < lg_succession_since_ns(old) + longest_ns)
		return;
	lg_list_settle(s, &writes[1]);
	s->is_settling = lg_store_commit(s->store, writes, 2, on_settled, s) == 0;
}

int lg_holders_start(struct lg_server *s, struct lg_complaint *c)
{
	uint64_t before = 0;
	int r;

	r = epoch_start(s, &before);
	if (r == 0)
		r = kind_start(s, &s->hosts, "holder/host/");
	if (r == 0)
		r = kind_start(s, &s->regions, "holder/region/");
	if (r == 0)
		r = settled_start(s, before);
	if (r == 0)
		r = lg_holders_get(s, &s->regions, s->config.region, &s->self_holder);
	if (r < 0)
		return lg_complain(c, "store: cannot read who holds leases: %s", strerror(-r));
	s->self_holder->incarnation = s->epoch;
	s->self_holder->n_lives = 1;
	r = lg_list_start(s, before == 0, c);
	return r < 0 ? r : lg_server_escrow_start(s, before == 0 && !s->regions.succession, c);
}

static void kind_stop(struct lg_server_holders *kind)
{
	for (size_t i = 0; i < kind->n; i++)
		free(kind->v[i]);
	free(kind->v);
	lg_table_free(kind->by_name);
	lg_succession_free(kind->succession);
}

void lg_holders_stop(struct lg_server *s)
{
	lg_server_escrow_stop(s);
	kind_stop(&s->hosts);
	kind_stop(&s->regions);
}

static void on_listed(void *arg, int result)
{
	struct lg_server_holder *h = arg;

	h->is_listing = false;
	h->listed = result == 0;
	if (h->server->running)
		lg_server_listed(h->server, h, result);
	else
		lg_holders_saved(h->server, result);
}

/* Where that failed, too, it is put on again before it gets anything: what is durable is not known. */
static void on_unlisted(void *arg, int result)
{
	struct lg_server_holder *h = arg;

	(void)result;
	h->is_leaving = false;
	h->listed = false;
}

/* Puts a holder on the list, or takes it off. */
static int place_write(struct lg_server_holders *kind, struct lg_server_holder *h, bool listed)
{
	char key[LG_STORE_KEY_MAX];
	struct lg_store_write write = { .key = key, .value = listed ? h->name : NULL, .len = strlen(h->name), .if_revision = UINT64_MAX };
	struct lg_server *s = h->server;
	int r;

	snprintf(key, sizeof(key), "%s%s", kind->prefix, h->name);
	r = lg_store_commit(s->store, &write, 1, listed ? on_listed : on_unlisted, h);
	if (r == 0 && listed && !s->running)
		s->n_unsaved++;
	return r;
}

int lg_holders_get(struct lg_server *s, struct lg_server_holders *kind, const char *name, struct lg_server_holder **ret)
{
	struct lg_server_holder *h;
	char key[LG_NAME_LEN] = { 0 };
	int r = 0;

	snprintf(key, sizeof(key), "%s", name);
	h = lg_table_get(kind->by_name, key);
	if (!h)
		r = holder_add(s, kind, name, &h);
	if (r < 0)
		return r;
	/* One that comes while it is being taken off is put on again behind that. */
	if (h->is_leaving)
		h->listed = false;
	if (!h->listed && !h->is_listing) {
		r = place_write(kind, h, true);
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

static void kind_prune(struct lg_server *s, struct lg_server_holders *kind, uint64_t before_ns)
{
	for (size_t i = 0; i < kind->n; i++) {
		struct lg_server_holder *h = kind->v[i];

		if (!h->listed || h->is_leaving || h->peer || h->waiting || h->gone_ns > before_ns || h == s->self_holder)
			continue;
		h->is_leaving = place_write(kind, h, false) == 0;
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
