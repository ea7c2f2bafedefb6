// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Only a server itself says which slots it owns: what others say of it is good for knowing whom to call. A server has one stream from us,
 * and ends an older one: so whoever answers at the listed address is not called at its own as well.
 */
#include "role/replicas.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct replica {
	struct lg_replicas *set;	/* NULL: this place is free */
	char name[LG_NAME_LEN];		/* of the first one: who answered last; "" nobody yet */
	char address[LG_REPLICA_ADDRESS_LEN];
	struct lg_lease_client *client;
	bool is_up;
	bool is_over;			/* to be freed with the next tick */
	bool is_listed;			/* the newest map that came has it */
	bool is_old;			/* it speaks of slots in lives that are over, and that was said */
	bool is_wrong;			/* nothing is taken from it */
	struct lg_rules_inbox inbox;	/* a version of the rules as it comes from this server */
	uint64_t n_connects;
	char why[256];
};

struct lg_replicas {
	struct lg_loop *loop;
	struct lg_replicas_handlers handlers;
	void *arg;
	struct lg_lease_hello hello;
	struct lg_tls *tls;
	char region[LG_NAME_LEN];
	uint32_t n_holders;
	bool wants_rules;
	struct lg_rules_state rules;		/* what is had of them */
	struct lg_region_list regions;		/* as in the options */
	struct lg_upstream *upstreams;
	struct replica *owner[LG_KEY_SLOTS];	/* by whose stream a slot is up; NULL: it is not */
	struct replica v[LG_REPLICAS_MAX];	/* the first is that of the listed address */
};

static uint32_t index_of(const struct replica *p)
{
	return (uint32_t)(p - p->set->v);
}

/* ---- slots ---- */

static void slot_down(struct lg_replicas *r, uint32_t slot)
{
	r->owner[slot] = NULL;
	lg_upstream_down(&r->upstreams[slot]);
}

static void slots_down(struct replica *p)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (p->set->owner[slot] == p)
			slot_down(p->set, slot);
}

/* How long a round trip to this server is, for a slot of which nothing was asked there yet. */
static uint64_t rtt_of(const struct replica *p)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (p->set->owner[slot] == p && p->set->upstreams[slot].rtt_ns)
			return p->set->upstreams[slot].rtt_ns;
	return 0;
}

/* What a server says of itself: true when a slot has come up. */
static bool slot_take(struct replica *p, uint32_t slot, uint32_t epoch, uint64_t rtt_ns)
{
	struct lg_upstream *u = &p->set->upstreams[slot];

	if (p->set->owner[slot] == p && u->epoch == epoch)
		return false;
	/* It speaks of an earlier life of the slot. */
	if (!lg_upstream_up(u, epoch)) {
		u->up = p->set->owner[slot] != NULL;
		return false;
	}
	p->set->owner[slot] = p;
	if (!u->rtt_ns)
		u->rtt_ns = rtt_ns;
	return true;
}

static void own_slots(struct replica *p, const struct lg_slot_map *map, uint8_t self)
{
	struct lg_slot_set up = { 0 };
	uint64_t rtt_ns = rtt_of(p);
	uint32_t n_old = 0, old = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		if (map->owner[slot] == self && slot_take(p, slot, map->epoch[slot], rtt_ns))
			lg_slot_set_add(&up, slot);
		else if (map->owner[slot] != self && p->set->owner[slot] == p)
			slot_down(p->set, slot);
		if (map->owner[slot] == self && map->epoch[slot] < p->set->upstreams[slot].epoch && !n_old++)
			old = slot;
	}
	if (n_old && !p->is_old)
		lg_warn("region %s: %s speaks of %u slots in a life that is over (slot %u: epoch %u, and %u is known): nothing is taken "
			"from it there", p->set->region, p->address, n_old, old, map->epoch[old], p->set->upstreams[old].epoch);
	p->is_old = n_old;
	if (!lg_slot_set_is_empty(&up))
		p->set->handlers.slots(p->set->arg, &up);
}

/* ---- servers ---- */

static struct replica *find(struct lg_replicas *r, const char *name)
{
	for (size_t i = 0; i < LG_REPLICAS_MAX; i++)
		if (r->v[i].set && !r->v[i].is_over && strcmp(r->v[i].name, name) == 0)
			return &r->v[i];
	return NULL;
}

static void replica_end(struct replica *p)
{
	slots_down(p);
	p->is_over = true;
	p->is_up = false;
}

static void client_up(void *arg, const struct lg_lease_welcome *welcome)
{
	struct replica *p = arg, *other;
	struct lg_replicas *r = p->set;

	p->is_wrong = !p->is_over && r->handlers.welcome && !r->handlers.welcome(r->arg, welcome);
	if (p->is_over || p->is_wrong)
		return;
	other = welcome->replica[0] ? find(r, welcome->replica) : NULL;
	if (other && other != p) {
		/* Two ways to one server: the listed address it is, as that one stays. */
		if (index_of(p) != 0) {
			replica_end(p);
			return;
		}
		replica_end(other);
	}
	snprintf(p->name, sizeof(p->name), "%s", welcome->replica);
	p->is_up = true;
	p->n_connects++;
	p->why[0] = '\0';
	if (welcome->regions_version < r->regions.version)
		lg_lease_client_regions(p->client, &r->regions);
}

static void client_down(void *arg, const char *why)
{
	struct replica *p = arg;
	bool was_up = p->is_up;

	p->is_up = false;
	if (p->is_over)
		return;
	slots_down(p);
	/* The end of a server that nobody knows any more is no news, nor is the same failure again. */
	if (was_up || strcmp(p->why, why) != 0) {
		snprintf(p->why, sizeof(p->why), "%s", why);
		if (was_up || index_of(p) == 0)
			p->set->handlers.down(p->set->arg, why);
	}
	if (index_of(p) != 0 && !p->is_listed)
		replica_end(p);
}

static void client_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	uint8_t bytes[LG_KEY_BYTES_MAX];
	struct replica *p = arg;
	uint32_t slot;

	if (!p->is_up)
		return;
	if (grant->status != LG_GRANT_NOT_OWNER) {
		p->set->handlers.grant(p->set->arg, key, grant);
		return;
	}
	/* What was asked is asked again of the next owner, when that one has told of itself. */
	slot = lg_slot_of(bytes, lg_key_bytes(key->rule, key->form, key->a, key->b, bytes));
	if (p->set->owner[slot] == p)
		slot_down(p->set, slot);
}

static void client_batch_end(void *arg)
{
	struct replica *p = arg;

	if (p->is_up)
		p->set->handlers.batch_end(p->set->arg);
}

static void client_map(void *arg, const struct lg_slot_map *map);

static void client_rules(void *arg, const struct lg_rules_part *part)
{
	struct replica *p = arg;
	struct lg_replicas *r = p->set;
	struct lg_rules_state state;
	int result;

	if (p->is_over || p->is_wrong || !r->wants_rules)
		return;
	/* It may have come whole from another server by now. */
	if (!r->handlers.rules_wanted(r->arg, &part->stamp)) {
		lg_rules_inbox_fini(&p->inbox);
		return;
	}
	result = lg_rules_inbox_add(&p->inbox, part);
	if (result < 0) {
		lg_error("region %s: not enough memory for version %llu of the rules", r->region, (unsigned long long)part->stamp.counter);
		return;
	}
	if (result) {
		r->handlers.rules(r->arg, &p->inbox);
		lg_rules_inbox_fini(&p->inbox);
		return;
	}
	state = r->rules;
	state.getting = p->inbox.stamp;
	state.got_bytes = p->inbox.got_bytes;
	lg_lease_client_rules(p->client, &state);
}

static void client_regions(void *arg, const struct lg_region_list *list)
{
	struct replica *p = arg;

	if (!p->is_over && !p->is_wrong && p->set->handlers.regions)
		p->set->handlers.regions(p->set->arg, list);
}

/* Its place is free again. */
static void replica_free(struct replica *p)
{
	lg_lease_client_free(p->client);
	lg_rules_inbox_fini(&p->inbox);
	*p = (struct replica){ 0 };
}

static int replica_call(struct replica *p, struct lg_replicas *r, const char *address, struct lg_complaint *c)
{
	static const struct lg_lease_client_handlers handlers = { client_up, client_down, client_grant, client_batch_end, client_map,
								  client_rules, client_regions };
	int result;

	*p = (struct replica){ .set = r, .is_listed = true };
	snprintf(p->address, sizeof(p->address), "%s", address);
	result = lg_lease_client_new(r->loop, address, &r->hello, &handlers, p, &p->client, c);
	if (result < 0) {
		*p = (struct replica){ 0 };
		return result;
	}
	if (r->tls)
		lg_lease_client_secure(p->client, r->tls, r->region);
	if (r->wants_rules)
		lg_lease_client_rules(p->client, &r->rules);
	lg_lease_client_crowd(p->client, r->n_holders);
	return 0;
}

static void call_new(struct lg_replicas *r, const struct lg_replica *told)
{
	struct lg_complaint c = { 0 };
	size_t i = 1;

	while (i < LG_REPLICAS_MAX && r->v[i].set)
		i++;
	if (i == LG_REPLICAS_MAX)
		return;	/* there is room once those that are gone have been freed: the next map tells of it again */
	if (replica_call(&r->v[i], r, told->address, &c) < 0) {
		lg_warn("region %s: its server %s cannot be called at \"%.100s\": %s", r->region, told->name, told->address, c.text);
		return;
	}
	snprintf(r->v[i].name, sizeof(r->v[i].name), "%s", told->name);
}

static void client_map(void *arg, const struct lg_slot_map *map)
{
	struct replica *p = arg, *known;
	struct lg_replicas *r = p->set;
	uint8_t self = LG_NO_REPLICA;

	if (!p->is_up)
		return;
	for (size_t i = 1; i < LG_REPLICAS_MAX; i++)
		r->v[i].is_listed = false;
	for (size_t i = 0; i < map->n; i++) {
		if (strcmp(map->v[i].name, p->name) == 0)
			self = (uint8_t)i;
		known = find(r, map->v[i].name);
		if (known)
			known->is_listed = true;
		else if (map->v[i].address[0] && self != i)
			call_new(r, &map->v[i]);
	}
	for (size_t i = 1; i < LG_REPLICAS_MAX; i++)
		if (r->v[i].set && !r->v[i].is_over && !r->v[i].is_listed && !r->v[i].is_up)
			replica_end(&r->v[i]);
	own_slots(p, map, self);
}

/* ---- the caller ---- */

int lg_replicas_new(struct lg_loop *loop, const struct lg_replicas_options *options, const struct lg_replicas_handlers *handlers, void *arg,
		    struct lg_upstream upstreams[LG_KEY_SLOTS], struct lg_replicas **ret_replicas, struct lg_complaint *c)
{
	struct lg_replicas *r = calloc(1, sizeof(*r));
	int result;

	if (!r)
		return -ENOMEM;
	r->loop = loop;
	r->handlers = *handlers;
	r->arg = arg;
	r->hello = *options->hello;
	r->tls = options->tls;
	snprintf(r->region, sizeof(r->region), "%s", options->region);
	r->n_holders = options->n_holders;
	r->regions = options->regions;
	r->upstreams = upstreams;
	result = replica_call(&r->v[0], r, options->address, c);
	if (result < 0) {
		free(r);
		return result;
	}
	*ret_replicas = r;
	return 0;
}

struct lg_replicas *lg_replicas_free(struct lg_replicas *r)
{
	if (!r)
		return NULL;
	for (size_t i = 0; i < LG_REPLICAS_MAX; i++)
		replica_free(&r->v[i]);
	free(r);
	return NULL;
}

bool lg_replicas_are_up(const struct lg_replicas *r)
{
	for (size_t i = 0; i < LG_REPLICAS_MAX; i++)
		if (r->v[i].is_up)
			return true;
	return false;
}

uint32_t lg_replicas_slots_up(const struct lg_replicas *r)
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		n += r->owner[slot] != NULL;
	return n;
}

uint64_t lg_upstreams_rtt_ns(const struct lg_upstream upstreams[LG_KEY_SLOTS])
{
	uint64_t most = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (upstreams[slot].up && upstreams[slot].rtt_ns > most)
			most = upstreams[slot].rtt_ns;
	return most;
}

void lg_replicas_tick(struct lg_replicas *r, uint64_t now_ns)
{
	bool stalled[LG_REPLICAS_MAX] = { 0 };

	for (size_t i = 0; i < LG_REPLICAS_MAX; i++) {
		struct replica *p = &r->v[i];

		if (p->is_over)
			replica_free(p);
		stalled[i] = p->client && lg_lease_client_is_stalled(p->client);
	}
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		lg_upstream_stalled(&r->upstreams[slot], r->owner[slot] && stalled[index_of(r->owner[slot])], now_ns);
}

void lg_replicas_ask(struct lg_replicas *r, uint32_t slot, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	if (r->owner[slot])
		lg_lease_client_ask(r->owner[slot]->client, key, ask);
}

/* The numbers of those of the slots that a server owns. */
static size_t parts_of(const struct replica *p, const struct lg_slot_set *slots, const uint64_t *number, struct lg_slot_part *ret_parts)
{
	uint64_t numbers[LG_KEY_SLOTS] = { 0 };

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(slots, slot) && p->set->owner[slot] == p)
			numbers[slot] = number ? *number : p->set->upstreams[slot].epoch;
	return lg_slot_parts(numbers, ret_parts);
}

void lg_replicas_synced(struct lg_replicas *r, const struct lg_slot_set *slots, uint64_t forgot_age_ms)
{
	struct lg_slot_part parts[LG_KEY_SLOTS];

	for (size_t i = 0; i < LG_REPLICAS_MAX; i++) {
		size_t n = r->v[i].is_up ? parts_of(&r->v[i], slots, NULL, parts) : 0;

		if (n)
			lg_lease_client_synced_slots(r->v[i].client, parts, n, forgot_age_ms);
	}
}

void lg_replicas_live(struct lg_replicas *r, const struct lg_slot_set *slots, uint64_t incarnation)
{
	struct lg_slot_part part[LG_KEY_SLOTS];

	for (size_t i = 0; i < LG_REPLICAS_MAX; i++) {
		size_t n = r->v[i].is_up ? parts_of(&r->v[i], slots, &incarnation, part) : 0;

		if (n)
			lg_lease_client_lives(r->v[i].client, part, n);
	}
}

void lg_replicas_flush(struct lg_replicas *r)
{
	for (size_t i = 0; i < LG_REPLICAS_MAX; i++)
		if (r->v[i].is_up)
			lg_lease_client_flush(r->v[i].client);
}

void lg_replicas_rules(struct lg_replicas *r, const struct lg_rules_state *state)
{
	r->wants_rules = true;
	r->rules = *state;
	for (size_t i = 0; i < LG_REPLICAS_MAX; i++)
		if (r->v[i].client)
			lg_lease_client_rules(r->v[i].client, state);
}

json_t *lg_replicas_json(const struct lg_replicas *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < LG_REPLICAS_MAX; i++) {
		const struct replica *p = &r->v[i];
		json_int_t n = 0;

		if (!p->set || p->is_over)
			continue;
		for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
			n += r->owner[slot] == p;
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "name", p->name, "address", p->address, "state",
						      p->is_up ? "up" : "down", "slots", n, "connects", (json_int_t)p->n_connects, "why",
						      p->why));
	}
	return list;
}
