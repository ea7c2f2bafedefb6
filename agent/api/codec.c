// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/arena.h"
#include "proto/lease.pb-c.h"

/* A full message of shortest slots, 1 MiB / 8 bytes of them, takes 13 MiB unpacked. */
#define UNPACKED_BYTES_MAX (32u << 20)

struct lg_holder_msg {
	struct lg_arena arena;
	Leasegate__V1__HolderMessage *m;
};

struct lg_lessor_msg {
	struct lg_arena arena;
	Leasegate__V1__LessorMessage *m;
};

/* ---- checks ---- */

static int check_name(const char *what, const char *name, struct lg_complaint *c)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t len = strlen(name);

	if (!len || len >= LG_NAME_LEN || name[strspn(name, allowed)] || strchr("._-", name[0]))
		return lg_complain(c, "%s is no name", what);
	return 0;
}

static int check_tok(const char *what, uint64_t tok, struct lg_complaint *c)
{
	if (tok > LG_WIRE_TOK_MAX)
		return lg_complain(c, "%s is above 2^62", what);
	return 0;
}

static int check_address(const char *what, const ProtobufCBinaryData *bytes, bool wanted, struct lg_complaint *c)
{
	if (bytes->len && (bytes->len != 16 || !wanted))
		return lg_complain(c, "%s of the key has %zu bytes", what, bytes->len);
	return 0;
}

/* What hosts share: no interfaces and no control groups. */
#define PRODUCT_FORMS                                                                                                             \
	(LG_FORM_PRODUCT | LG_FORM_HASHED | LG_FORM_SECRET | LG_KEY_SOURCE | LG_KEY_DESTINATION | LG_KEY_SOURCE_PORT |            \
	 LG_KEY_DESTINATION_PORT | LG_KEY_PROTOCOL | LG_KEY_VLAN | LG_KEY_INNER_VLAN)

static int check_key(const Leasegate__V1__Key *key, struct lg_complaint *c)
{
	bool is_product;
	int r;

	if (!key)
		return lg_complain(c, "the key is missing");
	is_product = key->form & LG_FORM_PRODUCT && !(key->form & ~PRODUCT_FORMS);
	if (!is_product && (key->form < LG_FORM_RULE || key->form > LG_FORM_OVERFLOW))
		return lg_complain(c, "the form of the key is %u", key->form);
	r = check_name("the rule", key->rule, c);
	if (r == 0)
		r = check_address("a", &key->a, key->form != LG_FORM_RULE, c);
	if (r == 0)
		r = check_address("b", &key->b, is_product, c);
	return r;
}

static int check_slots(const char *what, Leasegate__V1__UsageSlot *const *slots, size_t n, size_t max,
		       struct lg_complaint *c)
{
	uint64_t sum = 0;

	if (n > max)
		return lg_complain(c, "%zu %s, of at most %zu", n, what, max);
	for (size_t i = 0; i < n; i++) {
		if (slots[i]->age_ms > LG_WIRE_AGE_MAX_MS)
			return lg_complain(c, "%s: an age of %" PRIu64 " ms", what, slots[i]->age_ms);
		if (slots[i]->tok > LG_WIRE_TOK_MAX - sum)
			return lg_complain(c, "%s: their sum is above 2^62", what);
		sum += slots[i]->tok;
	}
	return 0;
}

/* granted - consumed - returned, or 0; the parts have been checked, so that nothing wraps. */
static uint64_t remaining_tok(uint64_t granted_tok, uint64_t consumed_tok, uint64_t returned_tok)
{
	uint64_t used_tok = consumed_tok + returned_tok;

	return granted_tok > used_tok ? granted_tok - used_tok : 0;
}

/* A limit of the holder's own: as it has it, or as it is given. Absent, and then 0, in all else. */
static int check_limit(int kind, uint64_t tok, uint32_t permille, struct lg_complaint *c)
{
	if (kind != LEASEGATE__V1__LEASE_KIND__LEASE_KIND_BLOCK && kind != LEASEGATE__V1__LEASE_KIND__LEASE_KIND_LIMIT)
		return lg_complain(c, "a lease of kind %d, which is not known here", kind);
	if (tok > LG_WIRE_LIMIT_MAX)
		return lg_complain(c, "a limit of its own above 2^40 tokens");
	if (permille > LG_WIRE_PERMILLE_MAX)
		return lg_complain(c, "a limit of its own with %" PRIu32 " thousandths of the rate", permille);
	return 0;
}

static int check_totals(const Leasegate__V1__ReportUsage *u, struct lg_complaint *c)
{
	int r;

	r = check_tok("granted_tok", u->granted_tok, c);
	if (r == 0)
		r = check_tok("consumed_tok", u->consumed_tok, c);
	if (r == 0)
		r = check_tok("returned_tok", u->returned_tok, c);
	if (r == 0)
		r = check_tok("demand_mtps", u->demand_mtps, c);
	if (r == 0)
		r = check_tok("peak_tok", u->peak_tok, c);
	if (r < 0)
		return r;
	if (u->remaining_tok != remaining_tok(u->granted_tok, u->consumed_tok, u->returned_tok))
		return lg_complain(c, "remaining_tok is not granted - consumed - returned");
	return 0;
}

static int check_usage(const Leasegate__V1__ReportUsage *u, struct lg_complaint *c)
{
	int r;

	if (!u)
		return lg_complain(c, "the usage is missing");
	r = check_key(u->key, c);
	if (r == 0)
		r = check_totals(u, c);
	if (r == 0)
		r = check_limit((int)u->kind, u->held_tok, u->held_permille, c);
	if (r == 0)
		r = check_slots("slots", u->slots, u->n_slots, LG_SLOTS_MAX, c);
	if (r == 0)
		r = check_slots("history", u->history, u->n_history, LG_HISTORY_MAX, c);
	return r;
}

static const Leasegate__V1__ReportUsage *usage_of(const Leasegate__V1__Ask *ask)
{
	if (ask->ask_case == LEASEGATE__V1__ASK__ASK_REQUEST)
		return ask->request->usage;
	return ask->ask_case == LEASEGATE__V1__ASK__ASK_REPORT ? ask->report : NULL;
}

static int check_ask(const Leasegate__V1__Ask *ask, struct lg_complaint *c)
{
	int r = check_usage(usage_of(ask), c);

	if (r == 0 && ask->ask_case == LEASEGATE__V1__ASK__ASK_REQUEST)
		r = check_tok("want_tok", ask->request->want_tok, c);
	return r;
}

static int check_grant(const Leasegate__V1__LeaseGrant *g, struct lg_complaint *c)
{
	int r;

	r = check_key(g->key, c);
	if (r == 0)
		r = check_tok("granted_tok", g->granted_tok, c);
	if (r == 0)
		r = check_tok("cap_tok", g->cap_tok, c);
	if (r < 0)
		return r;
	if (!g->lease)
		return lg_complain(c, "the lease is missing");
	if (g->status < LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_OK ||
	    g->status > LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_NOT_OWNER)
		return lg_complain(c, "the status is %d", (int)g->status);
	if (g->status == LEASEGATE__V1__GRANT_STATUS__GRANT_STATUS_OK && !g->lease->epoch)
		return lg_complain(c, "the epoch is missing");
	if (g->ttl_ms > LG_WIRE_TTL_MAX_MS)
		return lg_complain(c, "a time to live of %" PRIu64 " ms", g->ttl_ms);
	return check_limit((int)g->kind, g->limit_tok, g->limit_permille, c);
}

/* A name, or none. */
static int check_replica(const char *what, const char *name, struct lg_complaint *c)
{
	return name[0] ? check_name(what, name, c) : 0;
}

static int check_parts(Leasegate__V1__SlotPart *const *parts, size_t n, struct lg_complaint *c)
{
	if (n > LG_KEY_SLOTS)
		return lg_complain(c, "%zu parts of %u slots", n, LG_KEY_SLOTS);
	for (size_t i = 0; i < n; i++)
		if (parts[i]->slots.len != LG_KEY_SLOTS / 8)
			return lg_complain(c, "a set of slots of %zu bytes", parts[i]->slots.len);
	return 0;
}

static int check_map(const Leasegate__V1__SlotMap *map, struct lg_complaint *c)
{
	int r = 0;

	if (map->n_replicas > LG_REPLICAS_MAX)
		return lg_complain(c, "%zu servers, of at most %d", map->n_replicas, LG_REPLICAS_MAX);
	for (size_t i = 0; r == 0 && i < map->n_replicas; i++) {
		const Leasegate__V1__Replica *replica = map->replicas[i];

		r = check_name("a server", replica->name, c);
		if (r == 0)
			r = check_parts(replica->owns, replica->n_owns, c);
		if (r == 0 && strlen(replica->address) >= LG_REPLICA_ADDRESS_LEN)
			r = lg_complain(c, "a server's address of %zu bytes", strlen(replica->address));
		for (size_t j = 0; r == 0 && j < replica->n_owns; j++)
			if (replica->owns[j]->number < 1 || replica->owns[j]->number > UINT32_MAX)
				r = lg_complain(c, "slots of epoch %" PRIu64, replica->owns[j]->number);
	}
	return r;
}

static int check_version(const char *what, const Leasegate__V1__RulesVersion *version, struct lg_complaint *c)
{
	return version && version->counter ? check_name(what, version->region, c) : 0;
}

static int check_rules_state(const Leasegate__V1__RulesState *state, struct lg_complaint *c)
{
	int r;

	if (!state)
		return 0;
	if (strlen(state->why) >= sizeof(((struct lg_rules_state *)0)->why))
		return lg_complain(c, "rules: why has %zu bytes", strlen(state->why));
	r = check_version("the region of the rules that run", state->running, c);
	if (r == 0)
		r = check_version("the region of the rules that were refused", state->refused, c);
	return r < 0 ? r : check_version("the region of the rules that come", state->getting, c);
}

static int check_rules_part(const Leasegate__V1__RulesPart *part, struct lg_complaint *c)
{
	if (!part)
		return 0;
	if (!part->version || !part->version->counter)
		return lg_complain(c, "rules: the version is missing");
	if (part->data.len > LG_RULES_PART_MAX || part->total_bytes > LG_RULES_DOC_BYTES_MAX || part->offset > part->total_bytes ||
	    part->data.len > part->total_bytes - part->offset || part->age_ms > LG_WIRE_AGE_MAX_MS)
		return lg_complain(c, "rules: a part that does not fit");
	return check_version("the region of the rules", part->version, c);
}

static int check_regions(const Leasegate__V1__RegionList *list, struct lg_complaint *c)
{
	if (list && (!list->version || list->version > INT64_MAX || !list->text.len || list->text.len > LG_REGION_LIST_BYTES_MAX))
		return lg_complain(c, "a list of regions of version %" PRIu64 " with %zu bytes", list->version, list->text.len);
	return 0;
}

static int check_hello(const Leasegate__V1__Hello *hello, struct lg_complaint *c)
{
	int r;

	r = check_name("the holder", hello->holder, c);
	if (r == 0)
		r = check_name("the region", hello->region, c);
	if (r == 0)
		r = check_replica("the server", hello->replica, c);
	return r < 0 ? r : check_rules_state(hello->rules, c);
}

static int check_welcome(const Leasegate__V1__Welcome *welcome, struct lg_complaint *c)
{
	if (!welcome->epoch)
		return lg_complain(c, "the epoch is missing");
	return check_name("the lessor", welcome->lessor, c) < 0 ? -EINVAL : check_replica("the server", welcome->replica, c);
}

/* Says which one of a batch it is about. */
static int in_batch(int r, const char *what, size_t i, struct lg_complaint *c)
{
	char text[sizeof(c->text)];

	if (r == 0)
		return 0;
	memcpy(text, c->text, sizeof(text));
	return lg_complain(c, "%s %zu: %s", what, i + 1, text);
}

static int check_holder(const Leasegate__V1__HolderMessage *m, struct lg_complaint *c)
{
	int parts;

	if (m->hello && (m->n_asks || m->synced || m->n_lives || m->rules || m->regions))
		return lg_complain(c, "hello does not stand alone");
	if (m->synced && m->synced->forgot_age_ms > LG_WIRE_AGE_MAX_MS)
		return lg_complain(c, "synced: forgot_age_ms is out of range");
	if (m->hello)
		return check_hello(m->hello, c);
	parts = m->synced ? check_parts(m->synced->slots, m->synced->n_slots, c) : 0;
	if (parts == 0)
		parts = check_parts(m->lives, m->n_lives, c);
	if (parts < 0)
		return parts;
	if (check_rules_state(m->rules, c) < 0 || check_regions(m->regions, c) < 0)
		return -EINVAL;
	if (m->n_asks > LG_BATCH_KEYS_MAX)
		return lg_complain(c, "%zu asks, of at most %d", m->n_asks, LG_BATCH_KEYS_MAX);
	for (size_t i = 0; i < m->n_asks; i++) {
		int r = in_batch(check_ask(m->asks[i], c), "ask", i, c);

		if (r < 0)
			return r;
	}
	return 0;
}

static int check_lessor(const Leasegate__V1__LessorMessage *m, struct lg_complaint *c)
{
	if (m->welcome && (m->n_grants || m->rules || m->regions))
		return lg_complain(c, "welcome does not stand alone");
	if (m->slot_map && check_map(m->slot_map, c) < 0)
		return -EINVAL;
	if (m->welcome)
		return check_welcome(m->welcome, c);
	if (check_rules_part(m->rules, c) < 0 || check_regions(m->regions, c) < 0)
		return -EINVAL;
	if (m->n_grants > LG_BATCH_KEYS_MAX)
		return lg_complain(c, "%zu grants, of at most %d", m->n_grants, LG_BATCH_KEYS_MAX);
	for (size_t i = 0; i < m->n_grants; i++) {
		int r = in_batch(check_grant(m->grants[i], c), "grant", i, c);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- reading ---- */

int lg_holder_msg_parse(const uint8_t *data, size_t len, struct lg_holder_msg **ret_msg, struct lg_complaint *c)
{
	_cleanup_(lg_holder_msg_free) struct lg_holder_msg *msg = NULL;
	int r;

	msg = calloc(1, sizeof(*msg));
	if (!msg)
		return -ENOMEM;
	lg_arena_init(&msg->arena, UNPACKED_BYTES_MAX);
	msg->m = leasegate__v1__holder_message__unpack(&msg->arena.allocator, len, data);
	if (!msg->m)
		return lg_complain(c, "this is no HolderMessage");
	r = check_holder(msg->m, c);
	if (r < 0)
		return r;
	*ret_msg = TAKE(msg);
	return 0;
}

struct lg_holder_msg *lg_holder_msg_free(struct lg_holder_msg *msg)
{
	if (!msg)
		return NULL;
	lg_arena_fini(&msg->arena);
	free(msg);
	return NULL;
}

/* The length has been checked. */
static void copy_name(char to[LG_NAME_LEN], const char *from)
{
	memcpy(to, from, strlen(from) + 1);
}

static void copy_key(struct lg_wire_key *to, const Leasegate__V1__Key *from)
{
	*to = (struct lg_wire_key){ .fingerprint = from->fingerprint, .form = from->form };
	copy_name(to->rule, from->rule);
	if (from->a.len)
		memcpy(to->a, from->a.data, sizeof(to->a));
	if (from->b.len)
		memcpy(to->b, from->b.data, sizeof(to->b));
}

static size_t copy_slots(struct lg_slot *to, Leasegate__V1__UsageSlot *const *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (struct lg_slot){ .id = from[i]->id, .age_ms = from[i]->age_ms, .tok = from[i]->tok };
	return n;
}

static void copy_held(struct lg_ask *to, const Leasegate__V1__ReportUsage *from)
{
	bool limit = from->kind == LEASEGATE__V1__LEASE_KIND__LEASE_KIND_LIMIT;

	to->kind = limit ? LG_LEASE_LIMIT : LG_LEASE_BLOCK;
	to->limit_version = limit ? from->limit_version : 0;
	to->held_tok = limit ? from->held_tok : 0;
	to->held_permille = limit ? from->held_permille : 0;
}

static void copy_version(struct lg_rules_stamp *to, const Leasegate__V1__RulesVersion *from)
{
	*to = (struct lg_rules_stamp){ 0 };
	if (!from || !from->counter)
		return;
	to->counter = from->counter;
	to->unix_ms = from->unix_ms;
	copy_name(to->region, from->region);
}

static void copy_rules_state(struct lg_rules_state *to, const Leasegate__V1__RulesState *from)
{
	*to = (struct lg_rules_state){ .is_chosen = from->is_chosen, .got_bytes = from->got_bytes };
	copy_version(&to->running, from->running);
	copy_version(&to->refused, from->refused);
	copy_version(&to->getting, from->getting);
	memcpy(to->why, from->why, strlen(from->why) + 1);
}

bool lg_holder_msg_rules(const struct lg_holder_msg *msg, struct lg_rules_state *ret_state)
{
	if (msg->m->rules)
		copy_rules_state(ret_state, msg->m->rules);
	return msg->m->rules != NULL;
}

static bool copy_regions(struct lg_region_list *to, const Leasegate__V1__RegionList *from)
{
	if (from)
		*to = (struct lg_region_list){ .version = from->version, .text = (const char *)from->text.data, .len = from->text.len };
	return from != NULL;
}

bool lg_holder_msg_regions(const struct lg_holder_msg *msg, struct lg_region_list *ret_list)
{
	return copy_regions(ret_list, msg->m->regions);
}

bool lg_lessor_msg_regions(const struct lg_lessor_msg *msg, struct lg_region_list *ret_list)
{
	return copy_regions(ret_list, msg->m->regions);
}

bool lg_lessor_msg_rules(const struct lg_lessor_msg *msg, struct lg_rules_part *ret_part)
{
	const Leasegate__V1__RulesPart *part = msg->m->rules;

	if (!part)
		return false;
	*ret_part = (struct lg_rules_part){ .total_bytes = part->total_bytes, .offset = part->offset, .data = part->data.data,
					    .len = part->data.len, .age_ms = part->age_ms };
	copy_version(&ret_part->stamp, part->version);
	return true;
}

bool lg_holder_msg_hello(const struct lg_holder_msg *msg, struct lg_lease_hello *ret_hello)
{
	const Leasegate__V1__Hello *h = msg->m->hello;

	if (!h)
		return false;
	*ret_hello = (struct lg_lease_hello){ .is_region = h->is_region,
					      .incarnation = h->incarnation,
					      .regions_version = h->regions_version,
					      .max_keys = h->max_keys };
	copy_name(ret_hello->holder, h->holder);
	copy_name(ret_hello->region, h->region);
	copy_name(ret_hello->replica, h->replica);
	ret_hello->wants_rules = h->rules != NULL;
	if (h->rules)
		copy_rules_state(&ret_hello->rules, h->rules);
	return true;
}

size_t lg_holder_msg_count(const struct lg_holder_msg *msg)
{
	return msg->m->n_asks;
}

void lg_holder_msg_ask(const struct lg_holder_msg *msg, size_t i, struct lg_wire_key *ret_key, struct lg_ask *ret_ask)
{
	const Leasegate__V1__Ask *ask = msg->m->asks[i];
	const Leasegate__V1__ReportUsage *u = usage_of(ask);

	copy_key(ret_key, u->key);
	ret_ask->seq = u->seq;
	ret_ask->life = u->life;
	ret_ask->epoch = u->epoch;
	ret_ask->generation = u->generation;
	ret_ask->request = ask->ask_case == LEASEGATE__V1__ASK__ASK_REQUEST;
	ret_ask->granted_tok = u->granted_tok;
	ret_ask->spent_tok = u->consumed_tok;
	ret_ask->returned_tok = u->returned_tok;
	ret_ask->want_tok = ret_ask->request ? ask->request->want_tok : 0;
	ret_ask->demand_mtps = u->demand_mtps;
	ret_ask->peak_tok = u->peak_tok;
	ret_ask->hosts = u->hosts;
	copy_held(ret_ask, u);
	ret_ask->n_slots = copy_slots(ret_ask->slots, u->slots, u->n_slots);
	ret_ask->n_history = copy_slots(ret_ask->history, u->history, u->n_history);
}

bool lg_holder_msg_is_synced(const struct lg_holder_msg *msg, uint64_t *ret_forgot_age_ms)
{
	const Leasegate__V1__Synced *synced = msg->m->synced;

	if (synced)
		*ret_forgot_age_ms = synced->forgot ? synced->forgot_age_ms : LG_LEASE_REMEMBERS;
	return synced;
}

static void copy_part(struct lg_slot_part *to, const Leasegate__V1__SlotPart *from)
{
	*to = (struct lg_slot_part){ .number = from->number };
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (from->slots.data[slot / 8] >> (slot % 8) & 1)
			lg_slot_set_add(&to->slots, slot);
}

bool lg_holder_msg_synced_part(const struct lg_holder_msg *msg, size_t i, struct lg_slot_part *ret_part)
{
	const Leasegate__V1__Synced *synced = msg->m->synced;

	if (!synced || i >= synced->n_slots)
		return false;
	copy_part(ret_part, synced->slots[i]);
	return true;
}

bool lg_holder_msg_live(const struct lg_holder_msg *msg, size_t i, struct lg_slot_part *ret_part)
{
	if (i >= msg->m->n_lives)
		return false;
	copy_part(ret_part, msg->m->lives[i]);
	return true;
}

int lg_lessor_msg_parse(const uint8_t *data, size_t len, struct lg_lessor_msg **ret_msg, struct lg_complaint *c)
{
	_cleanup_(lg_lessor_msg_free) struct lg_lessor_msg *msg = NULL;
	int r;

	msg = calloc(1, sizeof(*msg));
	if (!msg)
		return -ENOMEM;
	lg_arena_init(&msg->arena, UNPACKED_BYTES_MAX);
	msg->m = leasegate__v1__lessor_message__unpack(&msg->arena.allocator, len, data);
	if (!msg->m)
		return lg_complain(c, "this is no LessorMessage");
	r = check_lessor(msg->m, c);
	if (r < 0)
		return r;
	*ret_msg = TAKE(msg);
	return 0;
}

struct lg_lessor_msg *lg_lessor_msg_free(struct lg_lessor_msg *msg)
{
	if (!msg)
		return NULL;
	lg_arena_fini(&msg->arena);
	free(msg);
	return NULL;
}

bool lg_lessor_msg_welcome(const struct lg_lessor_msg *msg, struct lg_lease_welcome *ret_welcome)
{
	const Leasegate__V1__Welcome *w = msg->m->welcome;

	if (!w)
		return false;
	*ret_welcome = (struct lg_lease_welcome){ .epoch = w->epoch, .regions_version = w->regions_version };
	copy_name(ret_welcome->lessor, w->lessor);
	copy_name(ret_welcome->replica, w->replica);
	return true;
}

bool lg_lessor_msg_map(const struct lg_lessor_msg *msg, struct lg_slot_map *ret_map)
{
	const Leasegate__V1__SlotMap *map = msg->m->slot_map;
	struct lg_slot_part part;

	if (!map)
		return false;
	lg_slot_map_init(ret_map);
	for (; ret_map->n < map->n_replicas; ret_map->n++) {
		const Leasegate__V1__Replica *replica = map->replicas[ret_map->n];

		copy_name(ret_map->v[ret_map->n].name, replica->name);
		snprintf(ret_map->v[ret_map->n].address, LG_REPLICA_ADDRESS_LEN, "%s", replica->address);
		for (size_t i = 0; i < replica->n_owns; i++) {
			copy_part(&part, replica->owns[i]);
			for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
				if (!lg_slot_set_has(&part.slots, slot) || part.number < ret_map->epoch[slot])
					continue;
				ret_map->owner[slot] = (uint8_t)ret_map->n;
				ret_map->epoch[slot] = (uint32_t)part.number;
			}
		}
	}
	return true;
}

size_t lg_lessor_msg_count(const struct lg_lessor_msg *msg)
{
	return msg->m->n_grants;
}

void lg_lessor_msg_grant(const struct lg_lessor_msg *msg, size_t i, struct lg_wire_key *ret_key, struct lg_grant *ret_grant)
{
	const Leasegate__V1__LeaseGrant *g = msg->m->grants[i];
	bool limit = g->kind == LEASEGATE__V1__LEASE_KIND__LEASE_KIND_LIMIT;

	copy_key(ret_key, g->key);
	*ret_grant = (struct lg_grant){ .ack_seq = g->ack_seq,
					.ack_slot = g->ack_slot,
					.epoch = g->lease->epoch,
					.generation = g->lease->generation,
					.granted_tok = g->granted_tok,
					.ttl_ms = g->ttl_ms,
					.cap_tok = g->cap_tok,
					.partial = g->partial,
					.kind = limit ? LG_LEASE_LIMIT : LG_LEASE_BLOCK,
					.limit_version = limit ? g->limit_version : 0,
					.limit_tok = limit ? g->limit_tok : 0,
					.limit_permille = limit ? g->limit_permille : 0,
					.status = (enum lg_grant_status)g->status };
}
