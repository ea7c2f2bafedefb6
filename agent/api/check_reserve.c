// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is reserved is taken already: settling gives back what it did not cost, or takes what it cost more, and a lapse gives back all of it.
 * What is not there to be taken becomes a debt of the key, at most the rule's burst; the next requests of the key, and each tick, pay it first,
 * so it delays them and never stalls them. Both are memory of this process: what it forgets when it ends stays taken, and is not owed.
 */
#include <errno.h>
#include <string.h>

#include "api/check_inner.h"
#include "base/clock.h"
#include "base/table.h"

#define GROW 256

typedef unsigned __int128 u128;

/* ---- places ---- */

static struct lg_reserved *place(struct lg_checker *c, uint32_t at)
{
	return &c->reserved.v[at - 1];
}

static int places_grow(struct lg_checker *c)
{
	uint32_t n = c->reserved.n, more = n + (n / 2 > GROW ? n / 2 : GROW);
	struct lg_reserved *v;

	if (n >= LG_RESERVED_MAX)
		return -ENOSPC;
	if (more > LG_RESERVED_MAX)
		more = LG_RESERVED_MAX;
	v = reallocarray(c->reserved.v, more, sizeof(*v));
	if (!v)
		return -ENOMEM;
	c->reserved.v = v;
	for (uint32_t i = more; i > n; i--) {
		v[i - 1] = (struct lg_reserved){ .next = c->reserved.free };
		c->reserved.free = i;
	}
	c->reserved.n = more;
	return 0;
}

static uint32_t *slot_of(struct lg_checker *c, uint64_t expires_ns)
{
	return &c->reserved.slot[expires_ns / LG_WHEEL_TICK_NS % LG_WHEEL_SLOTS];
}

static void unlink_place(struct lg_checker *c, uint32_t at)
{
	struct lg_reserved *r = place(c, at);

	if (r->prev)
		place(c, r->prev)->next = r->next;
	else
		*slot_of(c, r->expires_ns) = r->next;
	if (r->next)
		place(c, r->next)->prev = r->prev;
	r->id = 0;
	r->next = c->reserved.free;
	c->reserved.free = at;
	c->counts.reserved--;
}

/* The place, and a number that follows from how many there were and a secret: nobody guesses one of another's. */
static uint64_t id_make(struct lg_checker *c, uint32_t at)
{
	uint64_t hash[2], n = ++c->n_numbers;

	lg_siphash(c->random, &n, sizeof(n), true, hash);
	return (hash[0] & ~0x1ffffull) | at;
}

int lg_reserved_add(struct lg_checker *c, const struct lg_asked *asked, const struct lg_check *taken, uint64_t now_ns, uint64_t *ret_id)
{
	struct lg_reserved *r;
	uint32_t at, *slot;
	int e = 0;

	if (!c->reserved.free)
		e = places_grow(c);
	if (e < 0) {
		for (uint32_t k = 0; taken && k < asked->n; k++) {
			struct lg_charge charge = taken->charge[k];

			if (charge.done)
				lg_checker_run_one(c, &charge, charge.units, LG_CHECK_WAY_REFUND);
		}
		return e;
	}
	at = c->reserved.free;
	r = place(c, at);
	c->reserved.free = r->next;
	*r = (struct lg_reserved){ .id = id_make(c, at), .expires_ns = now_ns + asked->reserve_ns, .cost = asked->cost };
	for (uint32_t k = 0; taken && k < asked->n; k++)
		if (taken->charge[k].done)
			r->charge[r->n++] = taken->charge[k];
	slot = slot_of(c, r->expires_ns);
	r->next = *slot;
	if (r->next)
		place(c, r->next)->prev = at;
	*slot = at;
	c->counts.reserved++;
	*ret_id = r->id;
	return 0;
}

/* ---- debts ---- */

static const struct lg_request_rule *rule_of(const struct lg_checker *c, const struct lg_charge *charge)
{
	for (uint32_t i = 0; c->table && i < lg_requests_count(c->table); i++)
		if (lg_requests_rule(c->table, i)->rule.rule_id == charge->key.rule_id)
			return lg_requests_rule(c->table, i);
	return NULL;
}

/* Takes up to `units` of what is there; returns what it got. */
static uint32_t take_what_is_there(struct lg_checker *c, const struct lg_charge *charge, uint32_t units)
{
	const struct lg_request_rule *rule = rule_of(c, charge);
	const struct lg_check *check;
	uint64_t there;

	if (!rule)
		return units; /* the rule is gone, and with it what is owed */
	check = lg_checker_run_one(c, charge, 1, LG_CHECK_WAY_PEEK);
	if (!check || check->charge[0].meant == LG_PASS_NO_RULE)
		return check ? units : 0;
	there = lg_charge_remaining(rule, &check->charge[0]);
	if (there < units)
		units = (uint32_t)there;
	if (!units)
		return 0;
	check = lg_checker_run_one(c, charge, units, LG_CHECK_WAY_TAKE);
	return check && check->charge[0].done ? units : 0;
}

static void debt_pay(struct lg_checker *c, struct lg_debt *debt)
{
	debt->charge.units -= take_what_is_there(c, &debt->charge, debt->charge.units);
	if (debt->charge.units)
		return;
	lg_table_del(c->debts, &debt->charge.key);
	c->counts.in_debt--;
	free(debt);
}

/* Returns the units that are owed now. */
static uint64_t debt_add(struct lg_checker *c, const struct lg_charge *charge, uint64_t units, uint64_t burst_units)
{
	struct lg_debt *debt = lg_table_get(c->debts, &charge->key);
	uint64_t owed = units + (debt ? debt->charge.units : 0), most = burst_units < UINT32_MAX ? burst_units : UINT32_MAX;

	if (owed > most) {
		c->counts.forgiven += owed - most;
		owed = most;
	}
	if (!owed)
		return 0;
	if (!debt) {
		debt = calloc(1, sizeof(*debt));
		if (!debt || lg_table_put(c->debts, &charge->key, debt) < 0) {
			free(debt);
			c->counts.forgiven += owed;
			return 0;
		}
		debt->charge = *charge;
		c->counts.in_debt++;
	}
	debt->charge.units = (uint32_t)owed;
	return owed;
}

void lg_debts_pay(struct lg_checker *c, const struct lg_asked *asked)
{
	struct lg_debt *debt;

	if (asked->mode == LG_CHECK_REFUND)
		return;
	for (uint32_t k = 0; k < asked->n; k++) {
		debt = lg_table_get(c->debts, &asked->charge[k].key);
		if (debt)
			debt_pay(c, debt);
	}
}

/* ---- the end of a reservation ---- */

/* One charge of it: what it really cost in its units is `real`. Returns what stays owed. */
static uint64_t charge_settle(struct lg_checker *c, const struct lg_charge *charge, uint64_t real)
{
	const struct lg_request_rule *rule;
	uint64_t more, burst;
	uint32_t got, first;

	if (real < charge->units) {
		lg_checker_run_one(c, charge, charge->units - (uint32_t)real, LG_CHECK_WAY_REFUND);
		return 0;
	}
	rule = rule_of(c, charge);
	more = real - charge->units;
	if (!rule || !more)
		return 0;
	burst = rule->rule.burst_tok / rule->rule.cost;
	first = (uint32_t)(more < UINT32_MAX ? more : UINT32_MAX);
	got = take_what_is_there(c, charge, first);
	return debt_add(c, charge, more - got, burst);
}

void lg_reserved_settle(struct lg_checker *c, const struct lg_asked *asked, struct lg_answer *ret)
{
	uint32_t at = (uint32_t)(asked->reservation & 0x1ffff);
	struct lg_reserved done;
	uint64_t real, owed;

	if (!at || at > c->reserved.n || place(c, at)->id != asked->reservation) {
		ret->status = LG_STATUS_UNKNOWN;
		ret->allowed = false;
		ret->why = "there is no such reservation: it was settled, or has lapsed";
		return;
	}
	done = *place(c, at);
	unlink_place(c, at);
	for (uint32_t k = 0; k < done.n; k++) {
		real = (uint64_t)(((u128)done.charge[k].units * asked->cost + done.cost - 1) / done.cost);
		owed = charge_settle(c, &done.charge[k], real);
		if (owed > ret->debt)
			ret->debt = owed;
	}
	ret->status = LG_STATUS_OK;
	ret->allowed = true;
	ret->granted = asked->cost;
}

static void lapse(struct lg_checker *c, uint32_t at)
{
	struct lg_reserved done = *place(c, at);

	unlink_place(c, at);
	for (uint32_t k = 0; k < done.n; k++)
		lg_checker_run_one(c, &done.charge[k], done.charge[k].units, LG_CHECK_WAY_REFUND);
}

static int pay_one(void *arg, const void *key, void *value)
{
	(void)key;
	debt_pay(arg, value);
	return 0;
}

void lg_checker_tick(struct lg_checker *c, uint64_t now_ns)
{
	uint64_t tick = now_ns / LG_WHEEL_TICK_NS;
	uint32_t at, next;

	if (tick > c->reserved.turned + LG_WHEEL_SLOTS)
		c->reserved.turned = tick - LG_WHEEL_SLOTS;
	/* What ends within the tick at hand is looked at again in the next one. */
	for (; c->reserved.turned < tick; c->reserved.turned++) {
		for (at = c->reserved.slot[c->reserved.turned % LG_WHEEL_SLOTS]; at; at = next) {
			next = place(c, at)->next;
			if (place(c, at)->expires_ns > now_ns)
				continue;
			c->counts.lapsed++;
			lapse(c, at);
		}
	}
	if (c->counts.in_debt)
		lg_table_each(c->debts, pay_one, c);
}

static int debt_free(void *arg, const void *key, void *value)
{
	(void)arg;
	(void)key;
	free(value);
	return 0;
}

void lg_reserves_fini(struct lg_checker *c)
{
	for (uint32_t at = 1; at <= c->reserved.n; at++)
		if (place(c, at)->id)
			lapse(c, at);
	free(c->reserved.v);
	if (c->debts)
		lg_table_each(c->debts, debt_free, NULL);
	lg_table_free(c->debts);
}
