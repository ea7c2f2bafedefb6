// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The keys of a region's server, at both of its tiers. A message comes in, goes to the one core object of its key, and what that object
 * wants sent goes to a peer, to a home, or, when we are the home of our own key, into the local queue; the queue is worked off before the
 * loop goes on, so that our own home costs no time.
 */
#include "role/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/arith.h"
#include "lease/hash.h"
#include "role/status.h"

#define SILENT_NS (10 * LG_NS_PER_S) /* a region that says nothing for so long, or for three periods, has no traffic of the key */

/* ---- keys and rules by name ---- */

static void wire_of(const struct lg_server *s, const struct lg_key *key, struct lg_wire_key *ret)
{
	const struct lg_server_rule *rule = &s->rules[key->rule_id - 1];

	memset(ret, 0, sizeof(*ret));
	memcpy(ret->rule, rule->def.name, sizeof(ret->rule));
	ret->fingerprint = rule->fingerprint;
	ret->form = key->form;
	memcpy(ret->a, key->a, sizeof(ret->a));
	memcpy(ret->b, key->b, sizeof(ret->b));
}

static bool key_of(const struct lg_server *s, const struct lg_wire_key *wire, struct lg_key *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < LG_RULES_MAX; i++) {
		const struct lg_server_rule *rule = &s->rules[i];

		if (!rule->live || strcmp(rule->def.name, wire->rule) != 0)
			continue;
		/* The overflow buckets of a rule are keys too; any other form is none of the rule's. */
		if (rule->fingerprint != wire->fingerprint ||
		    (wire->form != rule->def.key.form && wire->form != LG_FORM_OVERFLOW))
			return false;
		ret->rule_id = i + 1;
		ret->form = wire->form;
		memcpy(ret->a, wire->a, sizeof(ret->a));
		memcpy(ret->b, wire->b, sizeof(ret->b));
		return true;
	}
	return false;
}

uint32_t lg_server_place(const struct lg_server *s, const struct lg_key *key, size_t *ret_home)
{
	uint8_t bytes[LG_KEY_BYTES_MAX];
	size_t len = lg_key_bytes(s->rules[key->rule_id - 1].def.name, key->form, key->a, key->b, bytes);

	if (ret_home)
		*ret_home = s->home_index[lg_home_of(s->home_names, s->n_homes, bytes, len)];
	return lg_slot_of(bytes, len);
}

/* A holder brings a key that is not known here. */
static bool may_take_on(struct lg_server *s, struct lg_server_holder *from, const struct lg_table *keys, uint64_t now_ns)
{
	uint32_t n = (uint32_t)(s->hosts.n + s->regions.n);

	return lg_newcomers_fit(from->n_keys, lg_table_count(keys), LG_LEASE_KEYS_MAX, n) &&
	       lg_newcomers_admit(&s->newcomers, &from->newcomers, n, now_ns);
}

/* The holder may be gone, and its number another's: then that one is thought to have a key less. */
static void brought_forget(struct lg_server_holders *kind, uint32_t index)
{
	struct lg_server_holder *h = index < kind->n ? kind->v[index] : NULL;

	if (h && h->n_keys)
		h->n_keys--;
}

static uint64_t seed_of(const struct lg_server *s, const struct lg_key *key)
{
	uint64_t seed = s->epoch;

	for (size_t i = 0; i < sizeof(*key); i++)
		seed = (seed ^ ((const uint8_t *)key)[i]) * 0x100000001b3ull;
	return seed;
}

/* ---- what the core wants sent ---- */

static void local_add(struct lg_server *s, const struct lg_key *key, uint32_t slot, const struct lg_ask *ask, const struct lg_grant *grant)
{
	struct lg_server_local *more, *l;

	if (s->n_local == s->size_local) {
		more = realloc(s->local, (s->size_local + 64) * sizeof(*more));
		if (!more)
			return;	/* as a message lost: said again */
		s->local = more;
		s->size_local += 64;
	}
	l = &s->local[s->n_local++];
	l->key = *key;
	l->slot = slot;
	l->is_grant = grant != NULL;
	if (grant)
		l->grant = *grant;
	else
		l->ask = *ask;
}

static void fx_region_ask(void *arg, const struct lg_ask *ask)
{
	struct lg_server_region_key *k = arg;
	struct lg_wire_key wire;

	k->home->n_asks++;
	if (!k->home->replicas) {
		local_add(k->server, &k->key, k->slot, ask, NULL);
		return;
	}
	wire_of(k->server, &k->key, &wire);
	lg_replicas_ask(k->home->replicas, k->slot, &wire, ask);
}

static struct lg_server_holders *kind_of(struct lg_server *s, const struct lg_server_holder *holder)
{
	return holder->is_region ? &s->regions : &s->hosts;
}

/* There is something to be sent to it. */
static void make_ready(struct lg_server *s, struct lg_server_stream *to)
{
	if (to->ready_ns)
		return;
	to->ready_ns = lg_clock_now_ns();
	STAILQ_INSERT_TAIL(&kind_of(s, to->holder)->ready, to, ready);
}

static void peer_grant(struct lg_server *s, const struct lg_server_holder *holder, const struct lg_key *key, uint32_t slot,
		       const struct lg_grant *grant)
{
	struct lg_server_stream *to = lg_streams_of(holder, slot);
	struct lg_wire_key wire;

	if (!to)
		return;
	wire_of(s, key, &wire);
	lg_lease_peer_grant(to->peer, &wire, grant);
	lg_meter_grant(&s->rules[key->rule_id - 1].meter, holder->is_region ? LG_TIER_HOME : LG_TIER_REGION, lg_clock_now_ns());
	make_ready(s, to);
}

static void fx_region_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct lg_server_region_key *k = arg;

	peer_grant(k->server, k->server->hosts.v[holder], &k->key, k->slot, grant);
}

static void fx_home_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct lg_server_home_key *k = arg;
	struct lg_server_holder *to = k->server->regions.v[holder];

	if (to == k->server->self_holder)
		local_add(k->server, &k->key, k->slot, NULL, grant);
	else
		peer_grant(k->server, to, &k->key, k->slot, grant);
}

static void fx_region_note(void *arg, const struct lg_note *note)
{
	struct lg_server_region_key *k = arg;

	lg_server_note(k->server, LG_TIER_REGION, &k->key, note);
}

static void fx_home_note(void *arg, const struct lg_note *note)
{
	struct lg_server_home_key *k = arg;

	lg_server_note(k->server, LG_TIER_HOME, &k->key, note);
}

static struct lg_region_effects region_fx(struct lg_server_region_key *k)
{
	return (struct lg_region_effects){ .arg = k, .ask = fx_region_ask, .grant = fx_region_grant,
					   .note = k->server->journal ? fx_region_note : NULL };
}

static struct lg_home_effects home_fx(struct lg_server_home_key *k)
{
	return (struct lg_home_effects){ .arg = k, .grant = fx_home_grant, .note = k->server->journal ? fx_home_note : NULL,
					 .reserve = lg_server_escrow_due };
}

/* ---- keys come and go ---- */

static void region_key_free(struct lg_server_region_key *k)
{
	brought_forget(&k->server->hosts, k->brought_by);
	lg_region_free(k->region);
	free(k);
}

/* After whatever changes what a key has out. */
static void outstanding_note(struct lg_server_home_key *k, uint64_t now_tok, uint64_t now_ns)
{
	if (now_tok == k->outstanding_tok)
		return;
	lg_meter_outstanding(&k->server->rules[k->key.rule_id - 1].meter, k->outstanding_tok, now_tok, now_ns);
	k->outstanding_tok = now_tok;
}

static void home_key_free(struct lg_server_home_key *k)
{
	outstanding_note(k, 0, lg_clock_now_ns());
	lg_server_escrow_forget(k, lg_clock_now_ns());
	brought_forget(&k->server->regions, k->brought_by);
	lg_home_free(k->home);
	free(k);
}

static int region_key_get(struct lg_server *s, struct lg_server_holder *from, const struct lg_key *key, uint32_t slot, size_t home,
			  uint64_t now_ns, struct lg_server_region_key **ret)
{
	struct lg_server_region_key *k = lg_table_get(s->region_keys, key);
	struct lg_server_lessors *lessors;
	struct lg_region_effects fx;
	int r;

	if (k) {
		*ret = k;
		return 0;
	}
	if (!may_take_on(s, from, s->region_keys, now_ns))
		return -EAGAIN;
	lessors = lg_slots_lessors(s, slot, key->rule_id - 1);
	k = lessors ? calloc(1, sizeof(*k)) : NULL;
	if (!k)
		return -ENOMEM;
	k->server = s;
	k->key = *key;
	k->brought_by = from->index;
	from->n_keys++;
	k->slot = slot;
	k->home = &s->homes[home];
	k->holding = (struct lg_holding){ .terms = s->rules[key->rule_id - 1].terms, .upstream = &k->home->upstreams[slot] };
	k->due_ns = now_ns;
	r = lg_region_new(&lessors->region, &k->holding, now_ns, now_ns + (seed_of(s, key) >> 48), &k->region);
	if (r == 0)
		r = lg_table_put(s->region_keys, key, k);
	if (r < 0) {
		region_key_free(k);
		return r;
	}
	if (k->holding.upstream->up) {
		fx = region_fx(k);
		lg_region_up(k->region, now_ns, &fx);
	}
	*ret = k;
	return 0;
}

static int home_key_get(struct lg_server *s, struct lg_server_holder *from, const struct lg_key *key, uint32_t slot, uint64_t now_ns,
			struct lg_server_home_key **ret)
{
	struct lg_server_home_key *k = lg_table_get(s->home_keys, key);
	struct lg_server_lessors *lessors;
	int r;

	if (k) {
		*ret = k;
		return 0;
	}
	if (!may_take_on(s, from, s->home_keys, now_ns))
		return -EAGAIN;
	lessors = lg_slots_lessors(s, slot, key->rule_id - 1);
	k = lessors ? calloc(1, sizeof(*k)) : NULL;
	if (!k)
		return -ENOMEM;
	k->server = s;
	k->key = *key;
	k->brought_by = from->index;
	from->n_keys++;
	k->slot = slot;
	k->due_ns = now_ns;
	r = lg_server_escrow_home(k, &lessors->home, now_ns);
	if (r == 0)
		r = lg_table_put(s->home_keys, key, k);
	if (r < 0) {
		home_key_free(k);
		return r;
	}
	*ret = k;
	return 0;
}

/* ---- messages ---- */

static void region_ask(struct lg_server_region_key *k, const struct lg_server_holder *from, const struct lg_ask *ask,
		       uint64_t now_ns)
{
	struct lg_region_effects fx = region_fx(k);

	lg_region_ask(k->region, from->index, lg_streams_lives_of(from, k->slot), ask, now_ns, &fx);
	k->due_ns = now_ns;
}

static void home_ask(struct lg_server_home_key *k, const struct lg_server_holder *from, const struct lg_ask *ask,
		     uint64_t now_ns)
{
	struct lg_home_effects fx = home_fx(k);

	lg_home_ask(k->home, from->index, lg_streams_lives_of(from, k->slot), ask, now_ns, &fx);
	outstanding_note(k, lg_home_outstanding_tok(k->home), now_ns);
	if (k->due_ns > now_ns + k->server->rules[k->key.rule_id - 1].terms->home_tick_ns)
		k->due_ns = now_ns + k->server->rules[k->key.rule_id - 1].terms->home_tick_ns;
}

void lg_server_home_marked(struct lg_server_home_key *k, bool is_durable)
{
	struct lg_home_effects fx = home_fx(k);
	uint64_t now_ns = lg_clock_now_ns();

	k->due_ns = lg_home_marked(k->home, is_durable, now_ns, &fx);
	outstanding_note(k, lg_home_outstanding_tok(k->home), now_ns);
}

static void refuse(struct lg_server *s, struct lg_server_stream *to, const struct lg_wire_key *wire, uint32_t slot,
		   const struct lg_ask *ask, enum lg_grant_status status)
{
	struct lg_grant grant = { .ack_seq = ask->seq, .epoch = s->slots.v[slot].owned ? s->slots.v[slot].epoch : s->epoch, .status = status };

	s->n_refused[status]++;
	lg_server_note_refused(s, to->holder, wire, status);
	lg_lease_peer_grant(to->peer, wire, &grant);
	make_ready(s, to);
}

static uint32_t slot_of_wire(const struct lg_wire_key *wire)
{
	uint8_t bytes[LG_KEY_BYTES_MAX];

	return lg_slot_of(bytes, lg_key_bytes(wire->rule, wire->form, wire->a, wire->b, bytes));
}

/* Of a key in a slot that is ours. */
static void ask_take(struct lg_server *s, struct lg_server_stream *from, const struct lg_key *key, uint32_t slot,
		     const struct lg_wire_key *wire, const struct lg_ask *ask)
{
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_server_region_key *rk;
	struct lg_server_home_key *hk;
	size_t home = 0;

	lg_server_place(s, key, &home);
	lg_meter_report(&s->rules[key->rule_id - 1].meter, from->holder->is_region ? LG_TIER_HOME : LG_TIER_REGION, now_ns);
	if (!from->holder->is_region) {
		if (region_key_get(s, from->holder, key, slot, home, now_ns, &rk) < 0)
			refuse(s, from, wire, slot, ask, LG_GRANT_OVERLOADED);
		else
			region_ask(rk, from->holder, ask, now_ns);
	} else if (home != s->self || lg_list_is_outdated(s)) {
		refuse(s, from, wire, slot, ask, LG_GRANT_NOT_HOME);
	} else {
		if (home_key_get(s, from->holder, key, slot, now_ns, &hk) < 0)
			refuse(s, from, wire, slot, ask, LG_GRANT_OVERLOADED);
		else
			home_ask(hk, from->holder, ask, now_ns);
	}
}

void lg_server_ask(struct lg_server *s, struct lg_server_stream *from, const struct lg_wire_key *wire, const struct lg_ask *ask)
{
	uint32_t slot = slot_of_wire(wire);
	struct lg_key key;

	/* Another server of its region speaks for it there. */
	if (lg_streams_of(from->holder, slot) != from)
		return;
	if (!s->slots.v[slot].owned)
		refuse(s, from, wire, slot, ask, LG_GRANT_NOT_OWNER);
	else if (!key_of(s, wire, &key))
		refuse(s, from, wire, slot, ask, LG_GRANT_UNKNOWN_RULE);
	else
		ask_take(s, from, &key, slot, wire, ask);
}

/* A region says nothing of keys that are at home elsewhere, whether it lost them just now or would mint what is not its own. */
static void region_grant(struct lg_server_home *from, const struct lg_key *key, const struct lg_grant *grant)
{
	struct lg_server *s = from->server;
	struct lg_server_region_key *k = lg_table_get(s->region_keys, key);
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_region_effects fx;

	if (!k || k->home != from)
		return;
	fx = region_fx(k);
	from->n_grants++;
	lg_region_grant(k->region, grant, now_ns, &fx);
	k->due_ns = now_ns;
}

void lg_server_grant(struct lg_server_home *home, const struct lg_wire_key *wire, const struct lg_grant *grant)
{
	struct lg_key key;

	if (key_of(home->server, wire, &key))
		region_grant(home, &key, grant);
}

/* Works off what our own two parts have to tell each other. */
void lg_server_local_pump(struct lg_server *s)
{
	static struct lg_server_local now;
	struct lg_server_home_key *k;
	uint64_t now_ns;

	while (s->next_local < s->n_local) {
		now = s->local[s->next_local++];
		if (now.is_grant) {
			region_grant(&s->homes[s->self], &now.key, &now.grant);
			continue;
		}
		now_ns = lg_clock_now_ns();
		/* Not ours for certain any more: as a message lost. */
		if (lg_list_is_outdated(s))
			continue;
		if (s->slots.v[now.slot].owned && home_key_get(s, s->self_holder, &now.key, now.slot, now_ns, &k) == 0)
			home_ask(k, s->self_holder, &now.ask, now_ns);
	}
	s->n_local = s->next_local = 0;
}

static void holders_flush(struct lg_server_holders *kind)
{
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_server_stream *to;

	while ((to = STAILQ_FIRST(&kind->ready)) && lg_pace_may_send(&kind->pace, (uint32_t)kind->n, to->ready_ns, now_ns)) {
		STAILQ_REMOVE_HEAD(&kind->ready, ready);
		to->ready_ns = 0;
		lg_pace_count(&kind->pace, (uint32_t)kind->n, now_ns);
		lg_lease_peer_flush(to->peer);
	}
}

void lg_server_flush(struct lg_server *s)
{
	lg_server_local_pump(s);
	holders_flush(&s->hosts);
	holders_flush(&s->regions);
	for (size_t i = 0; i < s->config.n_regions; i++)
		if (s->homes[i].replicas)
			lg_replicas_flush(s->homes[i].replicas);
}

void lg_server_heard(struct lg_server *s, const struct lg_server_holder *from)
{
	struct lg_server_holders *kind = kind_of(s, from);

	lg_pace_count(&kind->pace, (uint32_t)kind->n, lg_clock_now_ns());
	lg_server_flush(s);
}

/* ---- slots come and go ---- */

struct going {
	struct lg_server *s;
	struct lg_server_home *home;
	const struct lg_slot_set *slots;
	uint64_t now_ns;
	bool in_order;
};

static int region_key_up(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct lg_region_effects fx = region_fx(k);
	struct going *g = arg;

	(void)key;
	if (k->home == g->home && lg_slot_set_has(g->slots, k->slot))
		lg_region_up(k->region, g->now_ns, &fx);
	return 0;
}

void lg_server_keys_up(struct lg_server_home *home, const struct lg_slot_set *slots)
{
	struct going g = { .s = home->server, .home = home, .slots = slots, .now_ns = lg_clock_now_ns() };

	lg_table_each(home->server->region_keys, region_key_up, &g);
}

static int region_key_leave(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct lg_region_effects fx = region_fx(k);
	struct going *g = arg;

	if (!lg_slot_set_has(g->slots, k->slot))
		return 0;
	if (g->in_order)
		lg_region_close(k->region, g->now_ns, &fx);
	lg_table_del(g->s->region_keys, key);
	region_key_free(k);
	return 0;
}

static int home_key_leave(void *arg, const void *key, void *value)
{
	struct lg_server_home_key *k = value;
	struct going *g = arg;

	if (!lg_slot_set_has(g->slots, k->slot))
		return 0;
	lg_table_del(g->s->home_keys, key);
	home_key_free(k);
	return 0;
}

void lg_server_keys_drop(struct lg_server *s, const struct lg_slot_set *slots, bool in_order)
{
	struct going g = { .s = s, .slots = slots, .now_ns = lg_clock_now_ns(), .in_order = in_order };

	lg_table_each(s->region_keys, region_key_leave, &g);
	if (in_order) {
		lg_server_flush(s);
		lg_server_escrow_hand_over(s, slots);
	}
	lg_table_each(s->home_keys, home_key_leave, &g);
}

/* ---- time ---- */

static int region_key_tick(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct lg_region_effects fx;
	struct going *g = arg;

	(void)key;
	if (k->due_ns > g->now_ns)
		return 0;
	fx = region_fx(k);
	k->due_ns = lg_region_tick(k->region, g->now_ns, &fx);
	return 0;
}

static int home_key_tick(void *arg, const void *key, void *value)
{
	struct lg_server_home_key *k = value;
	struct lg_home_effects fx;
	struct going *g = arg;

	(void)key;
	if (k->due_ns > g->now_ns)
		return 0;
	fx = home_fx(k);
	k->due_ns = lg_home_tick(k->home, g->now_ns, &fx);
	outstanding_note(k, lg_home_outstanding_tok(k->home), g->now_ns);
	return 0;
}

void lg_server_tick(struct lg_server *s)
{
	struct going g = { .s = s, .now_ns = lg_clock_now_ns() };

	for (size_t i = 0; i < s->config.n_regions; i++)
		if (s->homes[i].replicas)
			lg_replicas_tick(s->homes[i].replicas, g.now_ns);
	if (!lg_list_is_outdated(s))
		lg_table_each(s->home_keys, home_key_tick, &g);
	lg_table_each(s->region_keys, region_key_tick, &g);
	lg_homes_sync(s);
	lg_server_flush(s);
	lg_server_escrow_tick(s);
	lg_server_journal_flush(s);
}

static int region_key_sweep(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct going *g = arg;

	if (!lg_region_is_idle(k->region, g->now_ns))
		return 0;
	lg_table_del(g->s->region_keys, key);
	region_key_free(k);
	return 0;
}

/* What the keys of each rule that are homed here are asked for, and by how many. */
struct sampling {
	struct lg_server *s;
	uint64_t now_ns;
	uint64_t demand_mtps[LG_RULES_MAX];
	uint32_t active[LG_RULES_MAX];
};

/* A region is active while it reports a demand; one that went silent is none, though its lease goes on for a while. */
static void home_key_sample(const struct lg_server_home_key *k, struct sampling *sampling)
{
	const struct lg_server *s = sampling->s;
	uint32_t slot = k->key.rule_id - 1;
	const struct lg_terms *terms = s->rules[slot].terms;
	uint64_t silent_ns = lg_max_u64(3 * terms->region_period_ns, 2 * lg_terms_quiet_period_ns(terms));
	struct lg_holder_view v;

	if (silent_ns < SILENT_NS)
		silent_ns = SILENT_NS;
	for (size_t i = 0; i < s->regions.n; i++) {
		if (lg_home_holder(k->home, s->regions.v[i]->index, &v) < 0)
			continue;
		sampling->demand_mtps[slot] += v.demand_mtps;
		sampling->active[slot] += v.demand_mtps > 0 && s->regions.v[i] != s->self_holder &&
					  v.expires_ns + silent_ns > sampling->now_ns + terms->ttl_ns + terms->grace_ns;
	}
}

static int home_key_sweep(void *arg, const void *key, void *value)
{
	struct lg_server_home_key *k = value;
	struct sampling *g = arg;

	lg_server_escrow_look(k, g->now_ns);
	if (!lg_home_is_idle(k->home, g->now_ns)) {
		home_key_sample(k, g);
		return 0;
	}
	lg_table_del(g->s->home_keys, key);
	home_key_free(k);
	return 0;
}

void lg_server_sweep(struct lg_server *s)
{
	struct going g = { .s = s, .now_ns = lg_clock_now_ns() };
	struct sampling sampling = { .s = s, .now_ns = g.now_ns };

	lg_table_each(s->region_keys, region_key_sweep, &g);
	lg_table_each(s->home_keys, home_key_sweep, &sampling);
	for (size_t i = 0; i < LG_RULES_MAX; i++)
		if (s->rules[i].live)
			lg_meter_sample(&s->rules[i].meter, sampling.demand_mtps[i], sampling.active[i], g.now_ns);
}

/* ---- rules ---- */

struct changing {
	struct lg_server *s;
	const bool *changed;
	const bool *replaced;
	uint64_t now_ns;
};

static int region_key_changed(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;
	struct changing *c = arg;
	uint32_t slot = k->key.rule_id - 1;
	struct lg_region_effects fx = region_fx(k);

	if (c->replaced[slot]) {
		lg_region_close(k->region, c->now_ns, &fx);
		lg_table_del(c->s->region_keys, key);
		region_key_free(k);
	} else if (c->changed[slot]) {
		lg_region_terms(k->region, c->s->rules[slot].next_terms);
	}
	return 0;
}

static int home_key_changed(void *arg, const void *key, void *value)
{
	struct lg_server_home_key *k = value;
	struct changing *c = arg;
	uint32_t slot = k->key.rule_id - 1;
	struct lg_home_effects fx = home_fx(k);

	if (c->replaced[slot]) {
		lg_table_del(c->s->home_keys, key);
		home_key_free(k);
	} else if (c->changed[slot]) {
		lg_home_terms(k->home, c->s->rules[slot].next_terms, c->now_ns, &fx);
	}
	return 0;
}

void lg_server_rules_changed(struct lg_server *s, bool changed[LG_RULES_MAX], bool replaced[LG_RULES_MAX])
{
	struct changing c = { s, changed, replaced, lg_clock_now_ns() };

	lg_table_each(s->region_keys, region_key_changed, &c);
	lg_server_local_pump(s);
	lg_table_each(s->home_keys, home_key_changed, &c);
}

static int region_key_enforced(void *arg, const void *key, void *value)
{
	struct lg_server_region_key *k = value;

	(void)arg;
	(void)key;
	k->holding.terms = k->server->rules[k->key.rule_id - 1].terms;
	return 0;
}

void lg_server_rules_enforced(struct lg_server *s)
{
	lg_table_each(s->region_keys, region_key_enforced, NULL);
}

static int region_key_drop(void *arg, const void *key, void *value)
{
	struct lg_server *s = arg;

	lg_table_del(s->region_keys, key);
	region_key_free(value);
	return 0;
}

static int home_key_drop(void *arg, const void *key, void *value)
{
	struct lg_server *s = arg;

	lg_table_del(s->home_keys, key);
	home_key_free(value);
	return 0;
}

void lg_server_keys_close(struct lg_server *s)
{
	if (s->region_keys)
		lg_table_each(s->region_keys, region_key_drop, s);
	if (s->home_keys)
		lg_table_each(s->home_keys, home_key_drop, s);
	s->region_keys = lg_table_free(s->region_keys);
	s->home_keys = lg_table_free(s->home_keys);
	free(s->local);
	s->local = NULL;
}
