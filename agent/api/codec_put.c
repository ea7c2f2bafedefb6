// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string.h>

#include "api/codec.h"
#include "leasegate/abi.h"
#include "proto/lease.pb-c.h"

_Static_assert((int)LG_FORM_RULE == LEASEGATE__V1__KEY_FORM__KEY_FORM_RULE &&
		       (int)LG_FORM_SOURCE == LEASEGATE__V1__KEY_FORM__KEY_FORM_SOURCE &&
		       (int)LG_FORM_DESTINATION == LEASEGATE__V1__KEY_FORM__KEY_FORM_DESTINATION &&
		       (int)LG_FORM_OVERFLOW == LEASEGATE__V1__KEY_FORM__KEY_FORM_OVERFLOW,
	       "forms of keys are numbered as on the wire");
_Static_assert((int)LG_GRANT_OK == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_OK &&
		       (int)LG_GRANT_UNKNOWN_RULE == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_UNKNOWN_RULE &&
		       (int)LG_GRANT_NOT_HOME == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_NOT_HOME &&
		       (int)LG_GRANT_OVERLOADED == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_OVERLOADED &&
		       (int)LG_GRANT_RECOVERING == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_RECOVERING &&
		       (int)LG_GRANT_UNREACHABLE == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_UNREACHABLE &&
		       (int)LG_GRANT_NOT_OWNER == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_NOT_OWNER,
	       "statuses of grants are numbered as on the wire");

/* protobuf-c packs straight into the text. */
struct sink {
	ProtobufCBuffer base;
	struct lg_text *out;
};

static void sink_append(ProtobufCBuffer *buffer, size_t len, const uint8_t *data)
{
	lg_text_add(((struct sink *)buffer)->out, (const char *)data, len);
}

static void pack(struct lg_text *out, const ProtobufCMessage *message)
{
	struct sink sink = { .base = { .append = sink_append }, .out = out };

	protobuf_c_message_pack_to_buffer(message, &sink.base);
}

static uint64_t at_most(uint64_t value, uint64_t max)
{
	return value < max ? value : max;
}

static char *borrowed(const char *s)
{
	return (char *)(uintptr_t)s;
}

static bool is_zero(const uint8_t bytes[16])
{
	static const uint8_t zero[16];

	return memcmp(bytes, zero, sizeof(zero)) == 0;
}

static Leasegate__V1__Key wire_key(const struct lg_wire_key *key)
{
	Leasegate__V1__Key k = LEASEGATE__V1__KEY__INIT;

	k.rule = borrowed(key->rule);
	k.fingerprint = key->fingerprint;
	k.form = key->form;
	if (!is_zero(key->a))
		k.a = (ProtobufCBinaryData){ .len = sizeof(key->a), .data = (uint8_t *)(uintptr_t)key->a };
	if (!is_zero(key->b))
		k.b = (ProtobufCBinaryData){ .len = sizeof(key->b), .data = (uint8_t *)(uintptr_t)key->b };
	return k;
}

static void wire_slots(Leasegate__V1__UsageSlot *v, Leasegate__V1__UsageSlot **pointers, const struct lg_slot *slots, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		leasegate__v1__usage_slot__init(&v[i]);
		v[i].id = slots[i].id;
		v[i].age_ms = at_most(slots[i].age_ms, LG_WIRE_AGE_MAX_MS);
		v[i].tok = slots[i].tok;
		pointers[i] = &v[i];
	}
}

/* A limit of the holder's own is the only kind that is written; a block's fields are all 0, as absent ones are. */
static void fill_held(Leasegate__V1__ReportUsage *u, const struct lg_ask *ask)
{
	if (ask->kind != LG_LEASE_LIMIT)
		return;
	u->kind = LEASEGATE__V1__LEASE_KIND__LEASE_KIND_LIMIT;
	u->limit_version = ask->limit_version;
	u->held_tok = at_most(ask->held_tok, LG_WIRE_LIMIT_MAX);
	u->held_permille = (uint32_t)at_most(ask->held_permille, LG_WIRE_PERMILLE_MAX);
}

static void fill_limit(Leasegate__V1__LeaseGrant *g, const struct lg_grant *grant)
{
	if (grant->kind != LG_LEASE_LIMIT)
		return;
	g->kind = LEASEGATE__V1__LEASE_KIND__LEASE_KIND_LIMIT;
	g->limit_version = grant->limit_version;
	g->limit_tok = at_most(grant->limit_tok, LG_WIRE_LIMIT_MAX);
	g->limit_permille = (uint32_t)at_most(grant->limit_permille, LG_WIRE_PERMILLE_MAX);
}

static void fill_usage(Leasegate__V1__ReportUsage *u, const struct lg_ask *ask)
{
	uint64_t used_tok = ask->spent_tok + ask->returned_tok;

	u->seq = ask->seq;
	u->life = ask->life;
	u->epoch = ask->epoch;
	u->generation = ask->generation;
	u->granted_tok = ask->granted_tok;
	u->consumed_tok = ask->spent_tok;
	u->returned_tok = ask->returned_tok;
	u->remaining_tok = ask->granted_tok > used_tok ? ask->granted_tok - used_tok : 0;
	u->demand_mtps = at_most(ask->demand_mtps, LG_WIRE_TOK_MAX);
	u->peak_tok = at_most(ask->peak_tok, LG_WIRE_TOK_MAX);
	u->hosts = ask->hosts;
	fill_held(u, ask);
}

void lg_codec_put_ask(struct lg_text *out, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	Leasegate__V1__HolderMessage m = LEASEGATE__V1__HOLDER_MESSAGE__INIT;
	Leasegate__V1__LeaseRequest request = LEASEGATE__V1__LEASE_REQUEST__INIT;
	Leasegate__V1__ReportUsage usage = LEASEGATE__V1__REPORT_USAGE__INIT;
	Leasegate__V1__Ask wire = LEASEGATE__V1__ASK__INIT, *asks = &wire;
	Leasegate__V1__UsageSlot slots[LG_SLOTS_MAX], *slot_pointers[LG_SLOTS_MAX];
	Leasegate__V1__UsageSlot history[LG_HISTORY_MAX], *history_pointers[LG_HISTORY_MAX];
	Leasegate__V1__Key k = wire_key(key);

	fill_usage(&usage, ask);
	wire_slots(slots, slot_pointers, ask->slots, ask->n_slots);
	wire_slots(history, history_pointers, ask->history, ask->n_history);
	usage.key = &k;
	usage.slots = slot_pointers;
	usage.n_slots = ask->n_slots;
	usage.history = history_pointers;
	usage.n_history = ask->n_history;
	request.usage = &usage;
	request.want_tok = at_most(ask->want_tok, LG_WIRE_TOK_MAX);
	wire.ask_case = ask->request ? LEASEGATE__V1__ASK__ASK_REQUEST : LEASEGATE__V1__ASK__ASK_REPORT;
	if (ask->request)
		wire.request = &request;
	else
		wire.report = &usage;
	m.asks = &asks;
	m.n_asks = 1;
	pack(out, &m.base);
}

/* What a state is made of while it is packed. */
struct wire_state {
	Leasegate__V1__RulesState state;
	Leasegate__V1__RulesVersion running, refused, getting;
};

static Leasegate__V1__RulesVersion *wire_version(Leasegate__V1__RulesVersion *to, const struct lg_rules_stamp *from)
{
	leasegate__v1__rules_version__init(to);
	if (!from->counter)
		return NULL;
	to->counter = from->counter;
	to->unix_ms = from->unix_ms;
	to->region = borrowed(from->region);
	return to;
}

static void wire_state(struct wire_state *to, const struct lg_rules_state *from)
{
	leasegate__v1__rules_state__init(&to->state);
	to->state.running = wire_version(&to->running, &from->running);
	to->state.refused = wire_version(&to->refused, &from->refused);
	to->state.getting = wire_version(&to->getting, &from->getting);
	to->state.why = borrowed(from->why);
	to->state.is_chosen = from->is_chosen;
	to->state.got_bytes = from->got_bytes;
}

void lg_codec_put_rules_state(struct lg_text *out, const struct lg_rules_state *state)
{
	Leasegate__V1__HolderMessage m = LEASEGATE__V1__HOLDER_MESSAGE__INIT;
	struct wire_state wire;

	wire_state(&wire, state);
	m.rules = &wire.state;
	pack(out, &m.base);
}

void lg_codec_put_rules_part(struct lg_text *out, const struct lg_rules_part *part)
{
	Leasegate__V1__LessorMessage m = LEASEGATE__V1__LESSOR_MESSAGE__INIT;
	Leasegate__V1__RulesPart wire = LEASEGATE__V1__RULES_PART__INIT;
	Leasegate__V1__RulesVersion version;

	wire.version = wire_version(&version, &part->stamp);
	wire.total_bytes = part->total_bytes;
	wire.offset = part->offset;
	wire.data = (ProtobufCBinaryData){ .len = part->len, .data = (uint8_t *)(uintptr_t)part->data };
	wire.age_ms = at_most(part->age_ms, LG_WIRE_AGE_MAX_MS);
	m.rules = &wire;
	pack(out, &m.base);
}

static Leasegate__V1__RegionList wire_regions(const struct lg_region_list *list)
{
	Leasegate__V1__RegionList wire = LEASEGATE__V1__REGION_LIST__INIT;

	wire.version = list->version;
	wire.text = (ProtobufCBinaryData){ .len = list->len, .data = (uint8_t *)(uintptr_t)list->text };
	return wire;
}

void lg_codec_put_regions_up(struct lg_text *out, const struct lg_region_list *list)
{
	Leasegate__V1__HolderMessage m = LEASEGATE__V1__HOLDER_MESSAGE__INIT;
	Leasegate__V1__RegionList wire = wire_regions(list);

	m.regions = &wire;
	pack(out, &m.base);
}

void lg_codec_put_regions_down(struct lg_text *out, const struct lg_region_list *list)
{
	Leasegate__V1__LessorMessage m = LEASEGATE__V1__LESSOR_MESSAGE__INIT;
	Leasegate__V1__RegionList wire = wire_regions(list);

	m.regions = &wire;
	pack(out, &m.base);
}

void lg_codec_put_hello(struct lg_text *out, const struct lg_lease_hello *hello)
{
	Leasegate__V1__HolderMessage m = LEASEGATE__V1__HOLDER_MESSAGE__INIT;
	Leasegate__V1__Hello h = LEASEGATE__V1__HELLO__INIT;
	struct wire_state wire;

	h.holder = borrowed(hello->holder);
	h.region = borrowed(hello->region);
	h.is_region = hello->is_region;
	h.incarnation = hello->incarnation;
	h.regions_version = hello->regions_version;
	h.max_keys = hello->max_keys;
	h.replica = borrowed(hello->replica);
	if (hello->wants_rules) {
		wire_state(&wire, &hello->rules);
		h.rules = &wire.state;
	}
	m.hello = &h;
	pack(out, &m.base);
}

/* A set as the wire has it. */
struct wire_set {
	uint8_t bytes[LG_KEY_SLOTS / 8];
};

static void part_fill(Leasegate__V1__SlotPart *to, struct wire_set *set, const struct lg_slot_part *from)
{
	leasegate__v1__slot_part__init(to);
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(&from->slots, slot))
			set->bytes[slot / 8] |= (uint8_t)(1u << (slot % 8));
	to->slots = (ProtobufCBinaryData){ .len = sizeof(set->bytes), .data = set->bytes };
	to->number = from->number;
}

void lg_codec_put_synced_slots(struct lg_text *out, const struct lg_slot_part *parts, size_t n, uint64_t forgot_age_ms)
{
	Leasegate__V1__HolderMessage m = LEASEGATE__V1__HOLDER_MESSAGE__INIT;
	Leasegate__V1__Synced synced = LEASEGATE__V1__SYNCED__INIT;
	Leasegate__V1__SlotPart v[LG_KEY_SLOTS], *pointers[LG_KEY_SLOTS];
	struct wire_set sets[LG_KEY_SLOTS] = { 0 };

	for (; synced.n_slots < n; synced.n_slots++) {
		pointers[synced.n_slots] = &v[synced.n_slots];
		part_fill(&v[synced.n_slots], &sets[synced.n_slots], &parts[synced.n_slots]);
	}
	synced.slots = pointers;
	synced.forgot = forgot_age_ms != LG_LEASE_REMEMBERS;
	if (synced.forgot)
		synced.forgot_age_ms = forgot_age_ms < LG_WIRE_AGE_MAX_MS ? forgot_age_ms : LG_WIRE_AGE_MAX_MS;
	m.synced = &synced;
	pack(out, &m.base);
}

void lg_codec_put_synced(struct lg_text *out, uint64_t forgot_age_ms)
{
	lg_codec_put_synced_slots(out, NULL, 0, forgot_age_ms);
}

void lg_codec_put_lives(struct lg_text *out, const struct lg_slot_part *parts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Leasegate__V1__HolderMessage m = LEASEGATE__V1__HOLDER_MESSAGE__INIT;
		Leasegate__V1__SlotPart part, *pointer = &part;
		struct wire_set set = { 0 };

		part_fill(&part, &set, &parts[i]);
		m.lives = &pointer;
		m.n_lives = 1;
		pack(out, &m.base);
	}
}

static void replica_put(struct lg_text *out, const struct lg_slot_map *map, size_t i)
{
	Leasegate__V1__SlotPart v[LG_KEY_SLOTS], *pointers[LG_KEY_SLOTS];
	Leasegate__V1__Replica replica = LEASEGATE__V1__REPLICA__INIT, *replicas = &replica;
	Leasegate__V1__LessorMessage m = LEASEGATE__V1__LESSOR_MESSAGE__INIT;
	Leasegate__V1__SlotMap wire = LEASEGATE__V1__SLOT_MAP__INIT;
	struct wire_set sets[LG_KEY_SLOTS] = { 0 };
	struct lg_slot_part parts[LG_KEY_SLOTS];
	uint64_t epochs[LG_KEY_SLOTS];

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		epochs[slot] = map->owner[slot] == i ? map->epoch[slot] : 0;
	replica.name = borrowed(map->v[i].name);
	replica.address = borrowed(map->v[i].address);
	replica.owns = pointers;
	replica.n_owns = lg_slot_parts(epochs, parts);
	for (size_t j = 0; j < replica.n_owns; j++) {
		pointers[j] = &v[j];
		part_fill(&v[j], &sets[j], &parts[j]);
	}
	wire.replicas = &replicas;
	wire.n_replicas = 1;
	m.slot_map = &wire;
	pack(out, &m.base);
}

void lg_codec_put_map(struct lg_text *out, const struct lg_slot_map *map)
{
	/* Messages that stand one behind the other are joined, and what is repeated in them. */
	for (size_t i = 0; i < map->n; i++)
		replica_put(out, map, i);
}

void lg_codec_put_welcome(struct lg_text *out, const struct lg_lease_welcome *welcome)
{
	Leasegate__V1__LessorMessage m = LEASEGATE__V1__LESSOR_MESSAGE__INIT;
	Leasegate__V1__Welcome w = LEASEGATE__V1__WELCOME__INIT;

	w.lessor = borrowed(welcome->lessor);
	w.epoch = welcome->epoch;
	w.regions_version = welcome->regions_version;
	w.replica = borrowed(welcome->replica);
	m.welcome = &w;
	pack(out, &m.base);
	if (welcome->map)
		lg_codec_put_map(out, welcome->map);
}

void lg_codec_put_grant(struct lg_text *out, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	Leasegate__V1__LessorMessage m = LEASEGATE__V1__LESSOR_MESSAGE__INIT;
	Leasegate__V1__LeaseGrant g = LEASEGATE__V1__LEASE_GRANT__INIT, *grants = &g;
	Leasegate__V1__LeaseId lease = LEASEGATE__V1__LEASE_ID__INIT;
	Leasegate__V1__Key k = wire_key(key);

	lease.epoch = grant->epoch;
	lease.generation = grant->generation;
	g.key = &k;
	g.lease = &lease;
	g.ack_seq = grant->ack_seq;
	g.ack_slot = grant->ack_slot;
	g.granted_tok = grant->granted_tok;
	g.ttl_ms = at_most(grant->ttl_ms, LG_WIRE_TTL_MAX_MS);
	g.cap_tok = at_most(grant->cap_tok, LG_WIRE_TOK_MAX);
	g.partial = grant->partial;
	fill_limit(&g, grant);
	g.status = (Leasegate__V1__GrantStatus)grant->status;
	m.grants = &grants;
	m.n_grants = 1;
	pack(out, &m.base);
}
