// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which slots of keys this server owns. All servers of a region are alike: each writes into the store that it is there, and each reckons
 * alike who should own what (lease/shares.h). One that should own a free slot claims it; one that owns too much gives it away, to a
 * server that is there.
 *
 * Why no slot has two owners: the key that says who owns it is made when there is none, and ends with the lease of the process that made
 * it. An owner asks its own clock before each act whether that lease still lasts for certain. Each claim raises the region's epoch by
 * what it has seen of it, so that no two claims have the same; and one that did not know of the last one fails.
 */
#include "role/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/claims.h"
#include "net/service.h"

#define CLAIMED_AT_ONCE 60u	/* slots of one commit: two keys of each, and the epoch */
#define RETRY_NS (200 * LG_NS_PER_MS)
#define LEAVE_NS (1 * LG_NS_PER_S)	/* a server that stops waits no longer for the store */
#define SLOT_PREFIX "slot/"
#define REPLICA_PREFIX "replica/"

static void slot_key(char key[LG_NAME_LEN], const char *prefix, uint32_t slot)
{
	snprintf(key, LG_NAME_LEN, "%s%03u", prefix, slot);
}

/* In a store of our own a claim of an earlier process is none. */
static bool is_free(const struct lg_server *s, uint32_t slot)
{
	const struct lg_server_slots *o = &s->slots;

	return !o->v[slot].owned && (!lg_store_is_shared(s->store) || lg_slot_claim_is_free(&o->claims[slot], o->name, o->session));
}

/* ---- who is there ---- */

/* Those that are there, by name, which all see alike; index of a name in them, or LG_NO_REPLICA. */
static size_t replicas_sorted(const struct lg_server *s, const struct lg_replica *ret_sorted[LG_REPLICAS_MAX])
{
	size_t n = 0, at;

	for (size_t i = 0; i < LG_REPLICAS_MAX; i++) {
		const struct lg_server_replica *p = &s->slots.replicas[i];

		if (!p->is_there)
			continue;
		for (at = n++; at > 0 && strcmp(ret_sorted[at - 1]->name, p->known.name) > 0; at--)
			ret_sorted[at] = ret_sorted[at - 1];
		ret_sorted[at] = &p->known;
	}
	return n;
}

static uint8_t index_of(const struct lg_replica *const *sorted, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(sorted[i]->name, name) == 0)
			return (uint8_t)i;
	return LG_NO_REPLICA;
}

static struct lg_server_replica *replica_of(struct lg_server *s, const char *name)
{
	struct lg_server_replica *free_place = NULL;

	for (size_t i = 0; i < LG_REPLICAS_MAX; i++) {
		struct lg_server_replica *p = &s->slots.replicas[i];

		if (p->is_there && strcmp(p->known.name, name) == 0)
			return p;
		if (!p->is_there && !free_place)
			free_place = p;
	}
	return free_place;
}

static void on_replica(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	const char *name = key + strlen(REPLICA_PREFIX);
	struct lg_server *s = arg;
	struct lg_server_replica *p = replica_of(s, name);

	(void)revision;
	/* What an earlier process left in a store of our own is nobody. */
	if (strlen(name) >= LG_NAME_LEN || (!lg_store_is_shared(s->store) && strcmp(name, s->slots.name) != 0))
		return;
	if (!p) {
		lg_error("region %s has more than %d servers: %s has no part in it", s->config.region, LG_REPLICAS_MAX, name);
		return;
	}
	if (p->is_there != (value != NULL) && strcmp(name, s->slots.name) != 0)
		lg_info("server %s of this region is %s", name, value ? "there" : "gone");
	p->is_there = value != NULL;
	snprintf(p->known.name, sizeof(p->known.name), "%s", name);
	snprintf(p->known.address, sizeof(p->known.address), "%.*s", value ? (int)len : 0, value ? (const char *)value : "");
	s->slots.map_is_old = true;
	lg_slots_look(s);
}

/* ---- owning ---- */

static void slot_fini(struct lg_server *s, struct lg_server_slot *slot)
{
	slot->hosts = lg_succession_free(slot->hosts);
	slot->regions = lg_succession_free(slot->regions);
	for (size_t i = 0; i < LG_RULES_MAX; i++) {
		struct lg_server_lessors *l = slot->lessors[i];

		if (!l)
			continue;
		s->rules[i].past_granted_tok += l->home.granted_tok;
		s->rules[i].past_lapsed_tok += l->home.lapsed_tok;
		lg_succession_free(l->succession);
		lg_succession_free(l->next_succession);
		free(l);
	}
	*slot = (struct lg_server_slot){ 0 };
}

/* These are not ours from this moment on. */
static void slots_end(struct lg_server *s, const struct lg_slot_set *slots, bool in_order)
{
	lg_server_keys_drop(s, slots, in_order);
	lg_homes_slots_end(s, slots);
	for (uint32_t i = 0; i < LG_KEY_SLOTS; i++) {
		if (!lg_slot_set_has(slots, i) || !s->slots.v[i].owned)
			continue;
		slot_fini(s, &s->slots.v[i]);
		lg_server_escrow_close(s, i);
		s->slots.n_owned--;
	}
	s->slots.map_is_old = true;
}

static void lose_all(struct lg_server *s)
{
	struct lg_slot_set all;

	s->slots.said_ready = false;
	s->slots.is_listed = false;
	if (!s->slots.n_owned)
		return;
	lg_error("store: this server cannot be certain to own its slots of keys any longer: it lends nothing until the store is back");
	lg_slot_set_fill(&all);
	slots_end(s, &all, false);
	lg_slots_look(s);
}

bool lg_slots_are_ours(struct lg_server *s)
{
	struct lg_presence here = { .session = lg_store_here_since(s->store), .until_ns = lg_store_here_until_ns(s->store) };

	if (lg_presence_covers(&here, s->slots.session, lg_clock_now_ns()))
		return true;
	lose_all(s);
	return false;
}

static int slot_begin(struct lg_server *s, uint32_t slot, uint64_t life_revision, const struct lg_server_life *life)
{
	bool is_first = !life->before && !s->slots.has_past && !s->past_is_lost;
	struct lg_server_slot *v = &s->slots.v[slot];
	int r = lg_server_escrow_open(s, slot, is_first && !lg_slot_past_is_elsewhere(s, NULL), life->doubtful);

	if (r < 0)
		return r;
	*v = (struct lg_server_slot){ .owned = true, .epoch = (uint32_t)life->epoch, .revision = s->slots.claims[slot].revision,
				      .life_revision = life_revision };
	s->slots.n_owned++;
	return lg_slot_life_begin(s, slot, is_first ? NULL : life);
}

struct lg_server_lessors *lg_slots_lessors(struct lg_server *s, uint32_t slot, size_t rule)
{
	struct lg_server_slot *v = &s->slots.v[slot];
	const struct lg_server_rule *def = &s->rules[rule];
	struct lg_server_lessors *l = v->lessors[rule];

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->home.reserves = def->reserves;
	l->home.terms = l->region.terms = def->terms;
	l->home.origin_ns = l->region.origin_ns = lg_server_origin_ns(s, def->terms->per_ns);
	l->home.epoch = l->region.epoch = v->epoch;
	l->home.succession = v->regions;
	l->region.succession = v->hosts;
	l->home.rand = def->fingerprint ^ (s->started_ns + slot);
	l->region.rand = ~l->home.rand;
	v->lessors[rule] = l;
	return l;
}

struct lg_store_write lg_slots_fence(struct lg_server *s, uint32_t slot, char key[LG_NAME_LEN])
{
	slot_key(key, SLOT_PREFIX, slot);
	return (struct lg_store_write){ .key = key, .if_revision = s->slots.v[slot].revision, .how = LG_STORE_CHECK };
}

static void on_slot(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	unsigned int slot = 0, session = 0, epoch = 0;
	char name[LG_NAME_LEN] = "", text[128];
	struct lg_slot_set one = { 0 };
	struct lg_server *s = arg;

	if (sscanf(key + strlen(SLOT_PREFIX), "%3u", &slot) != 1 || slot >= LG_KEY_SLOTS)
		return;
	snprintf(text, sizeof(text), "%.*s", value ? (int)len : 0, value ? (const char *)value : "");
	if (value && sscanf(text, "%63s %u %u", name, &epoch, &session) != 3)
		snprintf(name, sizeof(name), "?");
	memcpy(s->slots.claims[slot].name, name, sizeof(name));
	s->slots.claims[slot].session = session;
	s->slots.claims[slot].epoch = epoch;
	s->slots.claims[slot].revision = revision;
	/* Somebody took it away, by hand perhaps. */
	if (s->slots.v[slot].owned && revision != s->slots.v[slot].revision) {
		lg_slot_set_add(&one, slot);
		slots_end(s, &one, false);
	}
	s->slots.map_is_old = true;
	lg_slots_look(s);
}

/* ---- writing ---- */

/* The writes of one commit, with the room for what they say. */
struct writes {
	size_t n;
	struct lg_store_write v[LG_STORE_WRITES_MAX];
	char keys[LG_STORE_WRITES_MAX][LG_NAME_LEN];
	union {
		char text[LG_NAME_LEN + 32];
		struct lg_server_life life;
		uint64_t number;
	} values[LG_STORE_WRITES_MAX];
};

static struct lg_store_write *write_add(struct writes *w, const char *prefix, uint32_t slot, uint64_t if_revision)
{
	struct lg_store_write *write = &w->v[w->n];

	slot_key(w->keys[w->n], prefix, slot);
	*write = (struct lg_store_write){ .key = w->keys[w->n], .if_revision = if_revision };
	w->n++;
	return write;
}

static int commit(struct lg_server *s, const struct writes *w, lg_store_done *done)
{
	int r = lg_store_commit(s->store, w->v, w->n, done, s);

	s->slots.is_writing = r == 0;
	s->slots.writing_session = s->slots.session;
	if (r < 0)
		s->slots.retry_ns = lg_clock_now_ns() + RETRY_NS;
	return r;
}

/* True when what was written holds for the time in which we are. */
static bool written(struct lg_server *s, int result, const char *what)
{
	s->slots.is_writing = false;
	if (result < 0 || result == 1)
		s->slots.retry_ns = lg_clock_now_ns() + (result < 0 ? RETRY_NS : 0);
	if (result < 0)
		lg_warn("store: %s could not be written: %s", what, strerror(-result));
	lg_slots_look(s);
	return result == 0 && s->slots.writing_session == s->slots.session;
}

static void on_listed(void *arg, int result)
{
	struct lg_server *s = arg;

	s->slots.is_listed = written(s, result, "that this server is there");
}

static void list_self(struct lg_server *s)
{
	const char *address = lg_store_is_shared(s->store) ? s->config.advertise : "";
	struct writes *w = calloc(1, sizeof(*w));

	if (!w)
		return;
	snprintf(w->keys[0], LG_NAME_LEN, "%.8s%.50s", REPLICA_PREFIX, s->slots.name);
	w->v[0] = (struct lg_store_write){ .key = w->keys[0], .value = address, .len = strlen(address),
					   .if_revision = LG_STORE_REVISION_ANY, .how = LG_STORE_TEMPORARY };
	w->n = 1;
	commit(s, w, on_listed);
	free(w);
}

/* ---- claiming ---- */

static void on_claimed(void *arg, int result)
{
	struct lg_server *s = arg;
	struct lg_slot_set got = { 0 };
	uint64_t revision = 0;
	struct lg_server_life life;
	size_t len;
	int r = 0;

	/* Of one whose outcome is not known the store tells; what is found to be ours then is given back. */
	if (!written(s, result, "a claim"))
		return;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		if (!lg_slot_set_has(&s->slots.writing, slot) || s->slots.v[slot].owned ||
		    strcmp(s->slots.claims[slot].name, s->slots.name) != 0 || s->slots.claims[slot].session != s->slots.session)
			continue;
		r = lg_slot_life_read(s, slot, &life, &revision);
		if (r == 0)
			r = slot_begin(s, slot, revision, &life);
		if (r < 0)
			break;
		lg_slot_set_add(&got, slot);
	}
	if (r >= 0)
		lg_store_get(s->store, "epoch", &life.epoch, sizeof(life.epoch), &len, &s->slots.epoch_revision);
	else
		lg_error("slots of keys that were claimed are not served: %s", strerror(-r));
	s->epoch = s->slots.writing_epoch;
	s->slots.map_is_old = true;
	lg_homes_slots(s, &got, s->epoch);
	lg_server_flush(s);
	lg_slots_settle(s);
}

/* Is none of them younger than our last claim? Then they may have its epoch, too, as long as nobody has claimed since. */
static bool are_older(struct lg_server *s, const struct lg_slot_set *slots)
{
	struct lg_server_life life;
	uint64_t revision;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(slots, slot) && (lg_slot_life_read(s, slot, &life, &revision) < 0 || life.epoch >= s->slots.writing_epoch))
			return false;
	return true;
}

/* The epoch of a claim: newer than any that one of its slots has had. */
static int epoch_write(struct lg_server *s, const struct lg_slot_set *slots, struct writes *w)
{
	uint64_t stored = 0, revision = 0, wall = lg_clock_unix_s();
	size_t len = 0, at = w->n++;
	int r = lg_store_get(s->store, "epoch", &stored, sizeof(stored), &len, &revision);

	if (r < 0 || (r == 0 && len != sizeof(stored)))
		return r < 0 ? r : -EBADMSG;
	if (r == 0 && revision == s->slots.epoch_revision && stored == s->slots.writing_epoch && are_older(s, slots)) {
		w->v[at] = (struct lg_store_write){ .key = "epoch", .if_revision = revision, .how = LG_STORE_CHECK };
		return 0;
	}
	stored = lg_claims_epoch(stored, wall);
	if (stored > UINT32_MAX)
		return -ERANGE;
	snprintf(w->keys[at], LG_NAME_LEN, "epoch");
	w->values[at].number = stored;
	w->v[at] = (struct lg_store_write){ .key = w->keys[at], .value = &w->values[at].number, .len = sizeof(stored),
					    .if_revision = r ? 0 : revision };
	s->slots.writing_epoch = (uint32_t)stored;
	return 0;
}

static int claim_one(struct lg_server *s, struct writes *w, uint32_t slot)
{
	struct lg_store_write *write = write_add(w, SLOT_PREFIX, slot, s->slots.claims[slot].name[0] ? s->slots.claims[slot].revision : 0);
	char *text = w->values[w->n - 1].text;
	struct lg_server_life life;
	uint64_t revision;
	int r;

	snprintf(text, sizeof(w->values[0].text), "%s %u %u", s->slots.name, s->slots.writing_epoch, s->slots.session);
	write->value = text;
	write->len = strlen(text);
	write->how = LG_STORE_TEMPORARY;
	r = lg_slot_life_read(s, slot, &life, &revision);
	if (r < 0)
		return r;
	r = lg_server_escrow_doubt(s, slot, &life, &life.doubtful);
	if (r < 0)
		return r;
	life.before = life.epoch;
	life.epoch = s->slots.writing_epoch;
	write = write_add(w, "life/", slot, revision);
	w->values[w->n - 1].life = life;
	write->value = &w->values[w->n - 1].life;
	write->len = sizeof(life);
	return 0;
}

static int claim(struct lg_server *s, const struct lg_slot_set *wanted)
{
	_cleanup_free_ struct writes *w = calloc(1, sizeof(*w));
	uint32_t n = 0;
	int r;

	if (!w)
		return -ENOMEM;
	memset(&s->slots.writing, 0, sizeof(s->slots.writing));
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS && n < CLAIMED_AT_ONCE; slot++) {
		if (!lg_slot_set_has(wanted, slot))
			continue;
		lg_slot_set_add(&s->slots.writing, slot);
		n++;
	}
	r = epoch_write(s, &s->slots.writing, w);
	for (uint32_t slot = 0; r == 0 && slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(&s->slots.writing, slot))
			r = claim_one(s, w, slot);
	return r < 0 ? r : commit(s, w, on_claimed);
}

/* ---- giving away ---- */

static void map_make(struct lg_server *s);

static void on_given(void *arg, int result)
{
	written(arg, result, "that slots are given away");
}

static int give(struct lg_server *s, const struct lg_slot_set *slots)
{
	_cleanup_free_ struct writes *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	slots_end(s, slots, true);
	map_make(s);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(slots, slot))
			write_add(w, SLOT_PREFIX, slot, s->slots.claims[slot].revision);
	return commit(s, w, on_given);
}

/* ---- what is to be done ---- */

/* What holders are told: of others what the store says, of ourselves what we do. */
static void map_make(struct lg_server *s)
{
	const struct lg_replica *sorted[LG_REPLICAS_MAX];
	struct lg_slot_map *map = &s->slots.map;
	size_t n = replicas_sorted(s, sorted);
	uint8_t self;

	s->slots.map_is_old = false;
	lg_slot_map_init(map);
	for (map->n = 0; map->n < n; map->n++)
		map->v[map->n] = *sorted[map->n];
	self = index_of(sorted, n, s->slots.name);
	if (self == LG_NO_REPLICA && map->n < LG_REPLICAS_MAX) {
		self = (uint8_t)map->n++;
		snprintf(map->v[self].name, LG_NAME_LEN, "%s", s->slots.name);
	}
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		uint8_t owner = index_of(sorted, n, s->slots.claims[slot].name);

		if (s->slots.v[slot].owned)
			owner = self;
		else if (owner == self)
			owner = LG_NO_REPLICA;
		map->owner[slot] = owner;
		map->epoch[slot] = owner == LG_NO_REPLICA ? 0 : owner == self ? s->slots.v[slot].epoch : s->slots.claims[slot].epoch;
		if (!map->epoch[slot])
			map->owner[slot] = LG_NO_REPLICA;
	}
	if (s->running)
		lg_streams_map(s);
}

bool lg_slots_are_ready(const struct lg_server *s)
{
	if (!s->slots.is_listed || lg_clock_now_ns() >= lg_store_here_until_ns(s->store))
		return false;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (s->slots.map.owner[slot] == LG_NO_REPLICA)
			return false;
	return true;
}

static void shares_look(struct lg_server *s)
{
	const struct lg_replica *sorted[LG_REPLICAS_MAX];
	struct lg_claims_sight sight = { .n = replicas_sorted(s, sorted) };
	struct lg_claims_plan plan;
	int r = 0;

	sight.self = index_of(sorted, sight.n, s->slots.name);
	if (sight.self == LG_NO_REPLICA)
		return;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		bool can_be_claimed = is_free(s, slot);

		sight.owner[slot] = can_be_claimed ? LG_NO_REPLICA : index_of(sorted, sight.n, s->slots.claims[slot].name);
		if (can_be_claimed)
			lg_slot_set_add(&sight.free, slot);
		if (s->slots.v[slot].owned)
			lg_slot_set_add(&sight.held, slot);
	}
	lg_claims_plan(&sight, &plan);
	if (!lg_slot_set_is_empty(&plan.give))
		r = give(s, &plan.give);
	else if (!lg_slot_set_is_empty(&plan.claim))
		r = claim(s, &plan.claim);
	if (r < 0) {
		lg_error("store: slots of keys cannot be claimed or given away: %s", strerror(-r));
		s->slots.retry_ns = lg_clock_now_ns() + RETRY_NS;
	}
}

static void leave_look(struct lg_server *s)
{
	struct lg_slot_set some = { 0 };
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS && n < LG_SLOTS_GIVEN_AT_ONCE; slot++)
		if (s->slots.v[slot].owned) {
			lg_slot_set_add(&some, slot);
			n++;
		}
	if (!n || !lg_store_is_shared(s->store) || give(s, &some) < 0)
		lg_loop_stop(s->loop, s->stop_code);
}

static void say_ready(struct lg_server *s)
{
	if (s->slots.said_ready || !lg_slots_are_ready(s))
		return;
	s->slots.said_ready = true;
	lg_info("region %s: leasing at %s, %zu of %u slots of keys, epoch %u", s->config.region, s->config.listen, s->slots.n_owned,
		LG_KEY_SLOTS, s->epoch);
	lg_info("ready");
	lg_service_status("leasing");
}

static void on_timer(void *arg)
{
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_server *s = arg;
	bool is_here = now_ns < lg_store_here_until_ns(s->store);

	if (!s->running)
		return;
	if (is_here && s->slots.session != lg_store_here_since(s->store)) {
		lose_all(s);
		s->slots.session = lg_store_here_since(s->store);
	} else if (!is_here) {
		lose_all(s);
	}
	if (is_here && !s->slots.is_writing && now_ns >= s->slots.retry_ns) {
		if (s->slots.is_leaving)
			leave_look(s);
		else if (!s->slots.is_listed)
			list_self(s);
		else
			shares_look(s);
	}
	if (s->slots.map_is_old)
		map_make(s);
	say_ready(s);
	if (is_here && now_ns < s->slots.retry_ns)
		lg_source_arm(s->slots.timer, s->slots.retry_ns - now_ns);
}

void lg_slots_look(struct lg_server *s)
{
	lg_source_arm(s->slots.timer, 0);
}

static void on_left(void *arg, int result)
{
	struct lg_server *s = arg;

	(void)result;
	s->slots.is_writing = false;
	lg_slots_look(s);
}

static void on_leave_late(void *arg)
{
	struct lg_server *s = arg;

	lg_loop_stop(s->loop, s->stop_code);
}

void lg_slots_leave(struct lg_server *s)
{
	struct lg_store_write write = { .if_revision = LG_STORE_REVISION_ANY };
	char key[LG_STORE_KEY_MAX];

	if (s->slots.is_leaving || !s->running || !lg_store_is_shared(s->store) ||
	    lg_loop_add_timer(s->loop, on_leave_late, s, &s->sources[s->n_sources]) < 0) {
		lg_loop_stop(s->loop, s->stop_code);
		return;
	}
	lg_source_arm(s->sources[s->n_sources++], LEAVE_NS);
	s->slots.is_leaving = true;
	/* From then on the others reckon without us. */
	snprintf(key, sizeof(key), "%s%s", REPLICA_PREFIX, s->slots.name);
	write.key = key;
	if (lg_store_commit(s->store, &write, 1, on_left, s) < 0)
		lg_slots_look(s);
	else
		s->slots.is_writing = true;
}

/* ---- start and stop ---- */

/* The machine's name, and a number by chance: two processes of one name on one machine are two servers. */
void lg_slots_name(char name[LG_NAME_LEN])
{
	char host[48] = "server";

	if (gethostname(host, sizeof(host) - 1) < 0 || !host[0])
		snprintf(host, sizeof(host), "server");
	for (char *p = host; *p; p++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-", *p))
			*p = '-';
	snprintf(name, LG_NAME_LEN, "%s-%08x", host[0] == '-' || host[0] == '.' ? "server" : host, arc4random());
}

int lg_slots_start(struct lg_server *s, struct lg_complaint *c)
{
	uint64_t revision, stored = 0;
	size_t len;
	int r;

	r = lg_store_get(s->store, "settled", &stored, sizeof(stored), &len, &revision);
	s->slots.has_past = r == 0;
	if (r >= 0)
		r = lg_loop_add_timer(s->loop, on_timer, s, &s->slots.timer);
	if (r == 0)
		r = lg_store_watch_now(s->store, REPLICA_PREFIX, on_replica, s);
	if (r == 0)
		r = lg_store_watch_now(s->store, SLOT_PREFIX, on_slot, s);
	if (r == 0)
		r = lg_store_join(s->store);
	map_make(s);
	return r < 0 ? lg_complain(c, "store: cannot read who owns the slots of keys: %s", strerror(-r)) : 0;
}

void lg_slots_stop(struct lg_server *s)
{
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		slot_fini(s, &s->slots.v[slot]);
	s->slots.timer = lg_source_free(s->slots.timer);
}

/* ---- what it shows ---- */

json_t *lg_slots_json(const struct lg_server *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->slots.map.n; i++) {
		json_int_t n = 0;

		for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
			n += s->slots.map.owner[slot] == i;
		json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:b}", "name", s->slots.map.v[i].name, "address",
						      s->slots.map.v[i].address, "slots", n, "self",
						      strcmp(s->slots.map.v[i].name, s->slots.name) == 0));
	}
	return list;
}
