// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A request -> its charges. Everything that its sender has a hand in is bounded here. */
#include <errno.h>
#include <string.h>

#include "api/check_inner.h"
#include "base/clock.h"

typedef unsigned __int128 u128;

/* The entries of one descriptor, or of all. */
struct entries {
	struct lg_slice keys[LG_CHECK_DESCRIPTORS_MAX * LG_CHECK_ENTRIES_MAX];
	struct lg_slice values[LG_CHECK_DESCRIPTORS_MAX * LG_CHECK_ENTRIES_MAX];
	uint32_t n;
};

static void refuse(struct lg_asked *a, enum lg_check_status status, const char *why)
{
	a->early = status;
	a->why = why;
	a->n = 0;
}

static bool entries_add(struct entries *e, const struct lg_descriptor *d, struct lg_asked *a)
{
	if (d->n > LG_CHECK_ENTRIES_MAX) {
		refuse(a, LG_STATUS_INVALID, "a descriptor has more than 16 entries");
		return false;
	}
	for (uint32_t i = 0; i < d->n; i++) {
		const struct lg_entry *entry = &d->entries[i];

		if (!entry->key_len || entry->key_len > LG_CHECK_KEY_BYTES_MAX) {
			refuse(a, LG_STATUS_INVALID, "the key of an entry has 1 to 63 bytes");
			return false;
		}
		if (entry->value_len > LG_CHECK_VALUE_BYTES_MAX) {
			refuse(a, LG_STATUS_INVALID, "the value of an entry has at most 1024 bytes");
			return false;
		}
		e->keys[e->n] = (struct lg_slice){ entry->key, entry->key_len };
		e->values[e->n++] = (struct lg_slice){ entry->value, entry->value_len };
	}
	return true;
}

/* ---- what it costs ---- */

static struct lg_weight weight_of(const struct lg_rule *rule, const struct lg_descriptor *d)
{
	u128 num, den;

	if (!d->limit || !d->limit_per_ns || !rule->rate_tok)
		return (struct lg_weight){ 1, 1 };
	num = (u128)(rule->rate_tok / rule->cost ? rule->rate_tok / rule->cost : 1) * d->limit_per_ns;
	den = (u128)d->limit * rule->per_ns;
	while (num > UINT64_MAX || den > UINT64_MAX) {
		num = (num + 1) / 2;
		den /= 2;
	}
	return (struct lg_weight){ num ? (uint64_t)num : 1, den ? (uint64_t)den : 1 };
}

uint32_t lg_weigh(uint64_t cost, const struct lg_weight *w)
{
	u128 units = ((u128)cost * w->num + w->den - 1) / w->den;

	return units > UINT32_MAX ? UINT32_MAX : (uint32_t)units;
}

/* ---- charges ---- */

static bool is_same_bucket(const struct lg_key *a, const struct lg_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* One hit of a descriptor. What another descriptor found already is charged once, the dearest of both. */
static bool charge_add(struct lg_asked *a, const struct lg_request_table *table, const struct lg_request_hit *hit,
		       const struct lg_descriptor *d, uint32_t number, uint64_t cost)
{
	const struct lg_request_rule *rule = lg_requests_rule(table, hit->rule);
	struct lg_weight w = weight_of(&rule->rule, d);
	uint32_t units = lg_weigh(cost, &w), k;

	for (k = 0; k < a->n; k++) {
		if (!is_same_bucket(&a->charge[k].key, &hit->key))
			continue;
		if (units > a->charge[k].units)
			a->charge[k].units = units;
		return true;
	}
	if (a->n == LG_MATCHES_MAX) {
		refuse(a, LG_STATUS_INVALID, "the descriptors find more than 8 rules and keys");
		return false;
	}
	/* In the order of the set. */
	for (k = a->n++; k > 0 && a->charge[k - 1].rule_index > rule->index; k--) {
		a->charge[k] = a->charge[k - 1];
		a->rule[k] = a->rule[k - 1];
		a->descriptor[k] = a->descriptor[k - 1];
		a->weight[k] = a->weight[k - 1];
	}
	a->charge[k] = (struct lg_charge){ .key = hit->key, .rule_index = rule->index, .units = units };
	memcpy(a->charge[k].source, hit->source, sizeof(hit->source));
	a->rule[k] = hit->rule;
	a->descriptor[k] = (uint8_t)number;
	a->weight[k] = w;
	return true;
}

static void descriptors_find(struct lg_asked *a, const struct lg_request_table *table, const struct lg_request *q)
{
	static const struct lg_descriptor none;
	struct lg_slice domain = { q->domain_len ? q->domain : "default", q->domain_len ? q->domain_len : 7 };
	struct lg_request_hit hits[LG_MATCHES_MAX];
	struct entries e;
	int n;

	for (uint32_t i = 0; i < (q->n_descriptors ? q->n_descriptors : 1); i++) {
		const struct lg_descriptor *d = q->n_descriptors ? &q->descriptors[i] : &none;

		e.n = 0;
		if (!entries_add(&e, d, a))
			return;
		n = table ? lg_requests_find(table, domain, e.keys, e.values, e.n, hits, LG_MATCHES_MAX) : 0;
		if (n < 0) {
			refuse(a, LG_STATUS_INVALID, "a descriptor finds more than 8 rules");
			return;
		}
		for (int k = 0; k < n; k++)
			if (!charge_add(a, table, &hits[k], d, i, d->has_cost ? d->cost : q->cost))
				return;
	}
}

static void rule_find(struct lg_asked *a, const struct lg_request_table *table, const struct lg_request *q)
{
	static const struct lg_descriptor none;
	struct lg_request_hit hit;
	struct entries e = { .n = 0 };
	int rule;

	for (uint32_t i = 0; i < q->n_descriptors; i++)
		if (!entries_add(&e, &q->descriptors[i], a))
			return;
	rule = table ? lg_requests_named(table, (struct lg_slice){ q->rule, q->rule_len }) : -ENOENT;
	if (rule < 0)
		refuse(a, LG_STATUS_UNKNOWN, "there is no rule of this name for requests");
	else if (lg_requests_key(table, (uint32_t)rule, e.keys, e.values, e.n, &hit) < 0)
		refuse(a, LG_STATUS_UNKNOWN, "an entry that the rule's key is made of is missing");
	else
		charge_add(a, table, &hit, q->n_descriptors ? &q->descriptors[0] : &none, 0, q->cost);
}

void lg_asked_make(const struct lg_request_table *table, const struct lg_request *q, struct lg_asked *a)
{
	a->mode = q->mode;
	a->early = LG_STATUS_OK;
	a->why = NULL;
	a->n = 0;
	a->cost = q->cost;
	a->reservation = q->reservation;
	a->reserve_ns = q->reserve_ns ? q->reserve_ns : LG_CHECK_RESERVE_DEFAULT_NS;
	a->deadline_ns = q->deadline_ns ? q->deadline_ns : LG_NS_PER_S;
	if ((unsigned int)q->mode >= _LG_CHECK_MODE_N)
		refuse(a, LG_STATUS_INVALID, "there is no such mode");
	else if (q->mode == LG_CHECK_RESERVE && (a->reserve_ns < LG_CHECK_RESERVE_MIN_NS || a->reserve_ns > LG_CHECK_RESERVE_MAX_NS))
		refuse(a, LG_STATUS_INVALID, "a reservation is for 100 ms to a day");
	else if (q->n_descriptors > LG_CHECK_DESCRIPTORS_MAX)
		refuse(a, LG_STATUS_INVALID, "a request has at most 32 descriptors");
	else if (q->mode == LG_CHECK_SETTLE)
		return;
	else if (q->cost > LG_CHECK_COST_MAX)
		refuse(a, LG_STATUS_NEVER, "a cost is below 2^32");
	else if (q->rule_len)
		rule_find(a, table, q);
	else
		descriptors_find(a, table, q);
}
