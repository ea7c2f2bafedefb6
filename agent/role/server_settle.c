// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is durable of the lives of a slot: which was the newest, and whether it had learned what was out when it ended. One that had not
 * may have lent more than a share, so all that there is counts as unknown to the next; and one that had worked under another list of
 * regions knew of other keys. A life is settled when all who may hold leases have told what, or the longest lease of an earlier life is
 * over.
 */
#include "role/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define SETTLED_AT_ONCE 60u	/* slots of one commit: two keys of each, and the list */

int lg_slot_life_read(struct lg_server *s, uint32_t slot, struct lg_server_life *ret_life, uint64_t *ret_revision)
{
	char key[LG_NAME_LEN];
	size_t len = 0;
	int r;

	snprintf(key, sizeof(key), "life/%03u", slot);
	r = lg_store_get(s->store, key, ret_life, sizeof(*ret_life), &len, ret_revision);
	if (r == 0 && len != sizeof(*ret_life))
		return -EBADMSG;
	if (r == 1) {
		*ret_life = (struct lg_server_life){ 0 };
		*ret_revision = 0;
	}
	return r;
}

static bool is_ours(const struct lg_server_stored_list *a, const struct lg_server_stored_list *b)
{
	return a->version == b->version && a->names == b->names;
}

/*
 * Everybody on the list of regions may hold leases of homes that are not ours to know: on the list of that life, if it is still known who
 * was on it, as a region that was not can hold nothing; else on ours.
 */
static int past_unknown(struct lg_server *s, struct lg_server_slot *v, const struct lg_server_life *life)
{
	static char before[LG_REGIONS_MAX][LG_NAME_LEN];
	size_t n_before = life ? lg_server_regions_before(s, life->list.version, life->list.names, before) : 0;
	struct lg_server_holder *h;
	int r = 0;

	if (!v->regions)
		r = lg_succession_new(lg_clock_now_ns(), &v->regions);
	for (size_t i = 0; r == 0 && i < (n_before ? n_before : s->config.n_regions); i++) {
		r = lg_holders_get(s, &s->regions, n_before ? before[i] : s->names[i], &h);
		if (r == 0)
			r = lg_succession_list(v->regions, h->index);
	}
	if (r == 0)
		lg_succession_unsettled(v->regions);
	return r;
}

bool lg_slot_past_is_elsewhere(const struct lg_server *s, const struct lg_server_life *life)
{
	struct lg_server_stored_list ours = lg_list_of(&s->config);

	/* The first version of a list has no predecessor: nothing can be out under another one. */
	return s->past_is_lost || (life ? !is_ours(&life->list, &ours) : ours.version != 1);
}

int lg_slot_life_begin(struct lg_server *s, uint32_t slot, const struct lg_server_life *life)
{
	struct lg_slot_past past = lg_slot_past_of(life != NULL, life ? life->before : 0, life ? life->settled : 0);
	struct lg_server_slot *v = &s->slots.v[slot];
	int r = 0;

	if (past.has_holders)
		r = lg_holders_succession(&s->hosts, &v->hosts);
	if (past.has_holders && r == 0)
		r = lg_holders_succession(&s->regions, &v->regions);
	if (v->regions && past.is_unsettled)
		lg_succession_unsettled(v->regions);
	if (r == 0 && s->past_is_lost)
		r = lg_past_hosts(&v->hosts);
	if (r == 0 && lg_slot_past_is_elsewhere(s, life))
		r = past_unknown(s, v, s->past_is_lost ? NULL : life);
	return r;
}

/* ---- settling ---- */

struct settling {
	struct lg_server *server;
	struct lg_slot_set slots;
	uint32_t epoch[LG_KEY_SLOTS];
	size_t n;
	struct lg_store_write v[2 * SETTLED_AT_ONCE + 1];
	char keys[2 * SETTLED_AT_ONCE][LG_NAME_LEN];
	struct lg_server_life lives[SETTLED_AT_ONCE];
	struct lg_server_stored_list list;
};

static uint64_t longest_lease_ns(const struct lg_server *s)
{
	uint64_t most_ns = 0;

	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (s->rules[i].live && s->rules[i].terms->ttl_ns + s->rules[i].terms->grace_ns > most_ns)
			most_ns = s->rules[i].terms->ttl_ns + s->rules[i].terms->grace_ns;
	return most_ns;
}

static void on_settled(void *arg, int result)
{
	struct settling *g = arg;
	struct lg_server *s = g->server;

	s->is_settling = false;
	for (uint32_t slot = 0; result == 0 && slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(&g->slots, slot) && s->slots.v[slot].epoch == g->epoch[slot])
			s->slots.v[slot].settled = true;
	free(g);
	if (result == 0)
		lg_slots_settle(s);
}

static int settle_one(struct lg_server *s, struct settling *g, uint32_t slot, size_t i)
{
	struct lg_server_life *life = &g->lives[i];
	uint64_t revision;
	int r = lg_slot_life_read(s, slot, life, &revision);

	if (r < 0)
		return r;
	life->settled = life->epoch;
	life->list = g->list;
	g->v[g->n] = lg_slots_fence(s, slot, g->keys[g->n]);
	g->n++;
	snprintf(g->keys[g->n], LG_NAME_LEN, "life/%03u", slot);
	g->v[g->n] = (struct lg_store_write){ .key = g->keys[g->n], .value = life, .len = sizeof(*life), .if_revision = revision };
	g->n++;
	lg_slot_set_add(&g->slots, slot);
	g->epoch[slot] = s->slots.v[slot].epoch;
	return 0;
}

bool lg_slots_are_settled(const struct lg_server *s)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (s->slots.v[slot].owned && !s->slots.v[slot].settled)
			return false;
	return true;
}

void lg_slots_settle(struct lg_server *s)
{
	uint64_t longest_ns = longest_lease_ns(s), now_ns = lg_clock_now_ns();
	struct settling *g;
	size_t n = 0;
	int r = 0;

	lg_past_look(s);
	if (s->is_settling || !s->slots.n_owned)
		return;
	g = calloc(1, sizeof(*g));
	if (!g)
		return;
	g->server = s;
	g->list = lg_list_of(&s->config);
	for (uint32_t slot = 0; r == 0 && slot < LG_KEY_SLOTS && n < SETTLED_AT_ONCE; slot++) {
		const struct lg_server_slot *v = &s->slots.v[slot];

		if (!v->owned || v->settled ||
		    (v->regions && lg_succession_missing(v->regions) && now_ns < lg_succession_since_ns(v->regions) + longest_ns))
			continue;
		r = settle_one(s, g, slot, n++);
	}
	if (r == 0 && n && lg_list_settle(s, &g->list, &g->v[g->n]))
		g->n++;
	if (r == 0 && n)
		s->is_settling = lg_store_commit(s->store, g->v, g->n, on_settled, g) == 0;
	if (!s->is_settling)
		free(g);
}
