// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The keys a host leases. The tokens are in the kernel's buckets; each key here has a lessee (lease/lessee.h) that is told the bucket's
 * totals and says what to grant, take back and send. Grants are gathered and carried out in order, a batch at a time; a take is carried
 * out at once, after what was gathered before it.
 */
#include "role/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/arith.h"
#include "role/status.h"

#define KEY_IDLE_NS (60 * LG_NS_PER_S)	/* buckets unused this long leave the table */
#define SWEEP_KEYS_MAX 16384u		/* of one sweep */
#define HELLOS_PER_TICK LG_BATCH_KEYS_MAX /* keys named in one tick after the stream came up: one message's worth */

static void ops_flush(struct lg_node *n)
{
	int r;

	if (!n->n_ops)
		return;
	r = lg_kern_grant(n->kern, n->ops, n->n_ops);
	/* What could not be granted stays on the lessor's books until it lapses: lost for a while, never granted twice. */
	if (r < 0)
		lg_error("cannot grant to %zu keys in the kernel: %s", n->n_ops, strerror(-r));
	n->n_ops = 0;
}

static struct lg_op *op_add(struct lg_node *n, const struct lg_key *key, enum lg_op_code code)
{
	struct lg_op *op;

	if (n->n_ops == LG_OPS_MAX)
		ops_flush(n);
	op = &n->ops[n->n_ops++];
	memset(op, 0, sizeof(*op));
	op->key = *key;
	op->code = code;
	return op;
}

/* Within the generation of the lease. */
static struct lg_usage usage_of(const struct lg_bucket *b)
{
	return (struct lg_usage){ .spent_tok = b->spent_tok - b->base_tok,
				  .returned_tok = b->returned_tok - b->base_returned_tok, .denied_tok = b->denied_tok };
}

static void wire_key(const struct lg_node *n, const struct lg_key *key, struct lg_wire_key *ret)
{
	const struct lg_node_rule *rule = &n->by_id[key->rule_id];

	memset(ret, 0, sizeof(*ret));
	memcpy(ret->rule, rule->def->name, sizeof(ret->rule));
	ret->fingerprint = rule->fingerprint;
	ret->form = key->form;
	memcpy(ret->a, key->a, sizeof(ret->a));
	memcpy(ret->b, key->b, sizeof(ret->b));
}

/* ---- what a lessee wants done ---- */

static void fx_ask(void *arg, const struct lg_ask *ask)
{
	struct lg_node_key *k = arg;
	struct lg_wire_key wire;

	if (!k->node->replicas)
		return;
	wire_key(k->node, &k->key, &wire);
	lg_replicas_ask(k->node->replicas, k->slot, &wire, ask);
	k->node->n_asks++;
}

static void fx_grant(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch)
{
	struct lg_node_key *k = arg;
	struct lg_op *op = op_add(k->node, &k->key, LG_OP_GRANT);

	op->tok = tok;
	op->expires_ns = expires_ns;
	op->low_water_tok = low_water_tok;
	op->epoch = epoch;
}

/* Runs the operation last added, now; returns it, or NULL when it could not be run. -ENOENT: there is no bucket, so nothing is in it. */
static const struct lg_op *op_run_now(struct lg_node *n)
{
	const struct lg_op *op = &n->ops[n->n_ops - 1];
	int r;

	r = lg_kern_grant(n->kern, n->ops, n->n_ops);
	n->n_ops = 0;
	if (r == 0 && (op->result == 0 || op->result == -ENOENT))
		return op;
	lg_error("cannot take back tokens in the kernel: %s", strerror(r < 0 ? -r : -op->result));
	return NULL;
}

static void fx_take(void *arg, uint64_t tok, struct lg_usage *ret_now)
{
	struct lg_node_key *k = arg;
	struct lg_op *op = op_add(k->node, &k->key, LG_OP_TAKE);
	const struct lg_op *done;

	op->tok = tok;
	done = op_run_now(k->node);
	if (done && done->result == 0)
		*ret_now = usage_of(&done->after);
}

static int fx_generation(void *arg, uint32_t generation, uint32_t epoch)
{
	struct lg_node_key *k = arg;
	struct lg_op *op = op_add(k->node, &k->key, LG_OP_GENERATION);

	op->generation = generation;
	op->epoch = epoch;
	return op_run_now(k->node) ? 0 : -EAGAIN;
}

static struct lg_lessee_effects effects_of(struct lg_node_key *k)
{
	return (struct lg_lessee_effects){ .arg = k, .ask = fx_ask, .grant = fx_grant, .take = fx_take,
					   .generation = fx_generation };
}

/* ---- keys come and go ---- */

static void key_free(struct lg_node_key *k)
{
	if (k->owes_hello)
		k->node->n_owing[k->slot]--;
	lg_lessee_free(k->lessee);
	free(k);
}

/* The clock, and a little of the key: of keys that come at once the periods are not in step. */
static uint64_t first_seq(const struct lg_key *key, uint64_t now_ns)
{
	uint64_t hash = now_ns;

	for (size_t i = 0; i < sizeof(*key); i++)
		hash = (hash ^ ((const uint8_t *)key)[i]) * 0x100000001b3ull;
	return now_ns + (hash >> 48);
}

static int key_new(struct lg_node *n, const struct lg_key *key, const struct lg_bucket *bucket, uint64_t now_ns,
		   struct lg_node_key **ret_key)
{
	struct lg_lessee_found found = { 0 };
	uint8_t bytes[LG_KEY_BYTES_MAX];
	struct lg_lessee_effects fx;
	struct lg_wire_key wire;
	struct lg_node_key *k;
	int r;

	k = calloc(1, sizeof(*k));
	if (!k)
		return -ENOMEM;
	k->node = n;
	k->key = *key;
	k->due_ns = now_ns;
	wire_key(n, key, &wire);
	k->slot = lg_slot_of(bytes, lg_key_bytes(wire.rule, wire.form, wire.a, wire.b, bytes));
	k->holding = (struct lg_holding){ .terms = &n->by_id[key->rule_id].terms, .upstream = &n->upstreams[k->slot] };
	/* What a key spent before its first lease is no part of any. */
	if (bucket && bucket->lease_generation) {
		found.generation = bucket->lease_generation;
		found.epoch = bucket->lease_epoch;
		found.expires_ns = bucket->expires_ns;
		found.granted_tok = bucket->granted_tok - bucket->base_tok;
		found.usage = usage_of(bucket);
		found.traffic_tok = bucket->spent_tok - bucket->returned_tok;
	}
	r = lg_lessee_new(&k->holding, now_ns, first_seq(key, now_ns), &found, &k->lessee);
	if (r == 0)
		r = lg_table_put(n->keys, key, k);
	if (r < 0) {
		key_free(k);
		return r;
	}
	if (n->forgot_until_ns)
		lg_lessee_forgot(k->lessee, n->forgot_until_ns);
	if (k->holding.upstream->up) {
		fx = effects_of(k);
		lg_lessee_up(k->lessee, now_ns, &fx);
	}
	*ret_key = k;
	return 0;
}

static bool key_is_leasable(const struct lg_node *n, const struct lg_key *key)
{
	if (key->rule_id < 1 || key->rule_id > LG_RULES_MAX)
		return false;
	return n->by_id[key->rule_id].def && n->by_id[key->rule_id].def->scope == LG_SCOPE_GLOBAL;
}

struct adopting {
	struct lg_node *n;
	uint64_t now_ns;
};

static int adopt_one(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	struct adopting *a = arg;
	struct lg_node_key *k;
	int r;

	if (bucket->kind != LG_BUCKET_BLOCK || !bucket->lease_generation || !key_is_leasable(a->n, key))
		return 0;
	r = key_new(a->n, key, bucket, a->now_ns, &k);
	return r == -EEXIST ? 0 : r;
}

int lg_node_keys_adopt(struct lg_node *n)
{
	struct adopting a = { n, lg_clock_now_ns() };

	return lg_kern_each_bucket(n->kern, adopt_one, &a);
}

void lg_node_event(void *arg, const struct lg_event *event)
{
	struct lg_node *n = arg;
	struct lg_node_key *k = lg_table_get(n->keys, &event->key);
	struct lg_op op = { .key = event->key, .code = LG_OP_READ };
	uint64_t now_ns = lg_clock_now_ns();

	if (k) {
		k->due_ns = now_ns;
		return;
	}
	if (!key_is_leasable(n, &event->key))
		return;
	if (lg_kern_collect(n->kern, &op, 1) < 0)
		return;
	/* Out of memory or over the bound: the key stays without a lease, its packets under the rule's fallback. */
	key_new(n, &event->key, op.result == 0 ? &op.after : NULL, now_ns, &k);
}

/* ---- hello ---- */

struct naming {
	struct lg_node *n;
	const struct lg_slot_set *slots;
	uint64_t now_ns;
	size_t n_named;
};

static int key_owes(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct naming *naming = arg;

	(void)key;
	if (!lg_slot_set_has(naming->slots, k->slot))
		return 0;
	k->owes_hello = true;
	naming->n->n_owing[k->slot]++;
	return 0;
}

static int key_name(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct lg_lessee_effects fx = effects_of(k);
	struct naming *naming = arg;

	(void)key;
	if (!k->owes_hello || !k->holding.upstream->up)
		return 0;
	k->owes_hello = false;
	k->node->n_owing[k->slot]--;
	lg_lessee_up(k->lessee, naming->now_ns, &fx);
	k->due_ns = naming->now_ns;
	return ++naming->n_named == HELLOS_PER_TICK;
}

/* Names some of the keys that owe a hello, and says of which slots all have been named. Meanwhile a key that is due says hello by itself. */
static void name_some(struct lg_node *n)
{
	struct naming naming = { .n = n, .now_ns = lg_clock_now_ns() };
	struct lg_slot_set named = { 0 };
	uint32_t n_owing = 0;

	if (lg_slot_set_is_empty(&n->unsynced))
		return;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		n_owing += n->n_owing[slot];
	if (n_owing)
		lg_table_each(n->keys, key_name, &naming);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(&n->unsynced, slot) && !n->n_owing[slot] && n->upstreams[slot].up)
			lg_slot_set_add(&named, slot);
	for (size_t i = 0; i < N_ELEMS(named.w); i++)
		n->unsynced.w[i] &= ~named.w[i];
	if (!lg_slot_set_is_empty(&named))
		lg_replicas_synced(n->replicas, &named, lg_status_forgot_age_ms(n->forgot_until_ns, naming.now_ns));
}

/* ---- time ---- */

static int due_collect(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct adopting *a = arg;
	struct lg_node *n = a->n;
	struct lg_node_key **more;

	(void)key;
	if (k->due_ns > a->now_ns)
		return 0;
	if (n->n_due == n->size_due) {
		more = realloc(n->due, (n->size_due + 1024) * sizeof(*more));
		if (!more)
			return 1;	/* the rest is due at the next tick */
		n->due = more;
		n->size_due += 1024;
	}
	n->due[n->n_due++] = k;
	return 0;
}

static void key_tick(struct lg_node *n, struct lg_node_key *k, const struct lg_op *read, uint64_t now_ns)
{
	struct lg_usage usage = usage_of(&read->after);
	struct lg_lessee_effects fx = effects_of(k);

	k->due_ns = lg_lessee_tick(k->lessee, read->result == 0 ? &usage : NULL, now_ns, &fx);
	if (lg_lessee_is_idle(k->lessee, now_ns)) {
		lg_table_del(n->keys, &k->key);
		key_free(k);
	}
}

void lg_node_tick(struct lg_node *n)
{
	static struct lg_op reads[LG_OPS_MAX];
	struct adopting a = { n, lg_clock_now_ns() };
	size_t n_reads;

	if (n->replicas)
		lg_replicas_tick(n->replicas, a.now_ns);
	ops_flush(n);
	n->n_due = 0;
	lg_table_each(n->keys, due_collect, &a);
	for (size_t i = 0; i < n->n_due; i += n_reads) {
		n_reads = n->n_due - i < LG_OPS_MAX ? n->n_due - i : LG_OPS_MAX;
		for (size_t j = 0; j < n_reads; j++)
			reads[j] = (struct lg_op){ .key = n->due[i + j]->key, .code = LG_OP_READ };
		if (lg_kern_collect(n->kern, reads, n_reads) < 0)
			break;
		a.now_ns = lg_clock_now_ns();
		for (size_t j = 0; j < n_reads; j++)
			key_tick(n, n->due[i + j], &reads[j], a.now_ns);
	}
	name_some(n);
	lg_node_flush(n);
}

void lg_node_flush(struct lg_node *n)
{
	ops_flush(n);
	if (n->replicas)
		lg_replicas_flush(n->replicas);
}

/* ---- the upstream ---- */

void lg_node_slots_up(struct lg_node *n, const struct lg_slot_set *up)
{
	struct naming naming = { .n = n, .slots = up };

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(up, slot))
			n->n_owing[slot] = 0;
	for (size_t i = 0; i < N_ELEMS(up->w); i++)
		n->unsynced.w[i] |= up->w[i];
	lg_table_each(n->keys, key_owes, &naming);
	name_some(n);
	lg_node_flush(n);
}

void lg_node_grant(struct lg_node *n, const struct lg_wire_key *wire, const struct lg_grant *grant)
{
	struct lg_key key = { .form = wire->form };
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_lessee_effects fx;
	struct lg_node_key *k;
	uint32_t id;

	n->n_grants++;
	for (id = 1; id <= LG_RULES_MAX; id++)
		if (n->by_id[id].def && strcmp(n->by_id[id].def->name, wire->rule) == 0)
			break;
	/* Grants for a rule that has just changed here are void: the next message names the new one. */
	if (id > LG_RULES_MAX || n->by_id[id].fingerprint != wire->fingerprint)
		return;
	key.rule_id = id;
	memcpy(key.a, wire->a, sizeof(key.a));
	memcpy(key.b, wire->b, sizeof(key.b));
	k = lg_table_get(n->keys, &key);
	if (!k)
		return;
	fx = effects_of(k);
	lg_lessee_grant(k->lessee, grant, now_ns, &fx);
	if (k->due_ns > now_ns + n->tick_ns)
		k->due_ns = now_ns + n->tick_ns;
}

/* ---- leaving the table ---- */

struct sweeping {
	struct lg_node *n;
	struct lg_op *ops;
	size_t n_ops;
	uint64_t now_ns;
};

/* A bucket of this rule that was last used before then may leave. A new one comes with what its key may start with, so those of such rules
 * stay until that may be spent again. */
static uint64_t unused_since_ns(const struct sweeping *s, uint32_t rule_id)
{
	const struct lg_node_rule *rule = rule_id <= LG_RULES_MAX ? &s->n->by_id[rule_id] : NULL;
	uint64_t idle_ns = KEY_IDLE_NS;

	if (rule && rule->terms.cold_tok)
		idle_ns = lg_max_u64(idle_ns, lg_terms_cold_rest_ns(&rule->terms));
	return lg_sub_floor(s->now_ns, idle_ns);
}

static int sweep_one(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	struct sweeping *s = arg;
	uint64_t before_ns = unused_since_ns(s, key->rule_id);

	if (key->form == LG_FORM_OVERFLOW || bucket->seen_ns >= before_ns || lg_table_get(s->n->keys, key))
		return 0;
	s->ops[s->n_ops] = (struct lg_op){ .key = *key, .code = LG_OP_REAP, .before_ns = before_ns };
	return ++s->n_ops == SWEEP_KEYS_MAX;
}

/* A log can outlive its bucket, when a packet made it while the bucket went. That of the keys without room stays as long as its rule. */
static int sweep_log(void *arg, const struct lg_key *key)
{
	struct sweeping *s = arg;

	if (key->form == LG_FORM_OVERFLOW || s->n_ops == SWEEP_KEYS_MAX)
		return 0;
	s->ops[s->n_ops++] = (struct lg_op){ .key = *key, .code = LG_OP_REAP, .before_ns = unused_since_ns(s, key->rule_id) };
	return 0;
}

void lg_node_sweep(struct lg_node *n)
{
	struct sweeping s = { .n = n, .now_ns = lg_clock_now_ns() };
	_cleanup_free_ struct lg_op *ops = NULL;
	int r;

	ops = calloc(SWEEP_KEYS_MAX, sizeof(*ops));
	if (!ops)
		return;
	s.ops = ops;
	r = lg_kern_each_bucket(n->kern, sweep_one, &s);
	if (r >= 0)
		r = lg_kern_each_log(n->kern, sweep_log, &s);
	if (r >= 0 && s.n_ops)
		r = lg_kern_collect(n->kern, s.ops, s.n_ops);
	if (r < 0)
		lg_error("cannot sweep idle keys: %s", strerror(-r));
}

struct leaving {
	struct lg_node *n;
	uint32_t rule_id;	/* 0: all */
	uint64_t now_ns;
};

static int key_leave(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct lg_lessee_effects fx = effects_of(k);
	struct leaving *l = arg;

	(void)key;
	if (k->key.rule_id != l->rule_id)
		return 0;
	lg_lessee_close(k->lessee, l->now_ns, &fx);
	lg_table_del(l->n->keys, &k->key);
	key_free(k);
	return 0;
}

void lg_node_rule_gone(struct lg_node *n, uint32_t rule_id)
{
	struct leaving l = { n, rule_id, lg_clock_now_ns() };

	lg_table_each(n->keys, key_leave, &l);
	lg_node_flush(n);
}

static int key_changed(void *arg, const void *key, void *value)
{
	struct lg_node_key *k = value;
	struct leaving *l = arg;

	(void)key;
	if (k->key.rule_id == l->rule_id)
		lg_lessee_terms(k->lessee, l->now_ns);
	return 0;
}

void lg_node_rule_changed(struct lg_node *n, uint32_t rule_id)
{
	struct leaving l = { n, rule_id, lg_clock_now_ns() };

	lg_table_each(n->keys, key_changed, &l);
}

static int key_drop(void *arg, const void *key, void *value)
{
	struct lg_node *n = arg;

	lg_table_del(n->keys, key);
	key_free(value);
	return 0;
}

void lg_node_keys_close(struct lg_node *n)
{
	if (!n->keys)
		return;
	if (n->kern)
		lg_node_tick(n);
	lg_table_each(n->keys, key_drop, n);
	n->keys = lg_table_free(n->keys);
	free(n->due);
	n->due = NULL;
}
