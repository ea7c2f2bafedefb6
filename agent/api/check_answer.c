// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What buckets said, in the words of who asked. Times are rounded up: whoever waits so long and asks alone is let through. */
#include <math.h>
#include <string.h>

#include "api/check_inner.h"
#include "base/clock.h"
#include "lease/arith.h"

#define LEASE_RETRY_NS (100 * LG_NS_PER_MS)	/* tokens are on their way: a round trip */
#define SILENT_RETRY_NS (1 * LG_NS_PER_S)	/* nobody knows */
#define SLACK_SHIFT 38				/* what a rate's virtual time may lag behind */

typedef unsigned __int128 u128;

static uint64_t cut(u128 x)
{
	return x > UINT64_MAX ? UINT64_MAX : (uint64_t)x;
}

const char *lg_check_status_name(enum lg_check_status status)
{
	switch (status) {
	case LG_STATUS_OK: return "ok";
	case LG_STATUS_SOFT: return "soft";
	case LG_STATUS_DENIED: return "denied";
	case LG_STATUS_OVERLOADED: return "overloaded";
	case LG_STATUS_UNREACHABLE: return "unreachable";
	case LG_STATUS_NEVER: return "never";
	case LG_STATUS_INVALID: return "invalid";
	case LG_STATUS_UNKNOWN: return "unknown";
	case _LG_STATUS_N: break;
	}
	return "?";
}

const char *lg_check_scope_name(enum lg_check_scope scope)
{
	return scope == LG_CHECK_SCOPE_GLOBAL ? "global" : "node";
}

/* ---- levels ---- */

/* What a bucket has, in tokens, and when it has more. */
struct level {
	uint64_t left_tok;
	uint64_t reset_ns;
	uint64_t retry_ns; /* until cost_tok are there */
};

/* v is low by less than one unit and a relative 2^-40. */
static uint64_t vt_ns(const struct lg_rate *rate, uint64_t vt)
{
	long double ns;

	if (!vt || !rate->mult)
		return 0;
	ns = ldexpl((long double)vt + 1, (int)rate->shift) / (long double)rate->mult;
	ns += ldexpl(ns, -SLACK_SHIFT) + 1;
	return ns < (long double)INT64_MAX ? (uint64_t)ns : INT64_MAX;
}

static void rate_level(const struct lg_rate *rate, uint64_t owed_vt, uint64_t cost_tok, struct level *l)
{
	uint64_t left_vt = lg_sub_floor(rate->burst_vt, owed_vt);
	u128 cost_vt = (u128)cost_tok * rate->unit_per_tok;

	l->left_tok = rate->unit_per_tok ? left_vt / rate->unit_per_tok : 0;
	l->reset_ns = vt_ns(rate, owed_vt);
	l->retry_ns = cost_vt > left_vt && cost_vt <= rate->burst_vt ? vt_ns(rate, cut(cost_vt - left_vt)) : 0;
}

static void block_level(const struct lg_rule *rule, const struct lg_charge *c, uint64_t cost_tok, struct level *l)
{
	uint64_t mint_ns;

	if (!c->state[1] && c->state[2] != ~0ull) {
		rate_level(&rule->share, c->state[2], cost_tok, l);
		return;
	}
	l->left_tok = c->state[1] ? c->state[0] : 0;
	l->reset_ns = c->state[1];
	mint_ns = rule->rate_tok ? cut((u128)lg_sub_floor(cost_tok, l->left_tok) * rule->per_ns / rule->rate_tok) : 0;
	if (l->left_tok < cost_tok)
		l->retry_ns = mint_ns > LEASE_RETRY_NS ? mint_ns : LEASE_RETRY_NS;
}

static void sliding_level(const struct lg_rule *rule, const struct lg_charge *c, uint64_t cost_tok, struct level *l)
{
	uint64_t limit = rule->rate_tok, length = rule->window.length_ns, now = c->state[0], before = c->state[1], rest = length - c->state[2];
	u128 room = lg_sub_floor(limit, now), kept = ((u128)before * rest + length - 1) / length;

	l->left_tok = room > kept ? (uint64_t)(room - kept) : 0;
	l->reset_ns = now ? rest + length : before ? rest : 0;
	if (l->left_tok >= cost_tok || cost_tok > limit)
		return;
	if (before && now + cost_tok <= limit) {
		l->retry_ns = lg_sub_floor(rest, cut((u128)(limit - now - cost_tok) * length / before));
		return;
	}
	/* In the next window, in which this one's count is the one before. */
	l->retry_ns = rest + (now ? lg_sub_floor(length, cut((u128)(limit - cost_tok) * length / now)) : 0);
}

static void window_level(const struct lg_rule *rule, const struct lg_charge *c, uint64_t cost_tok, struct level *l)
{
	if (rule->algorithm == LG_RULE_SLIDING_WINDOW) {
		sliding_level(rule, c, cost_tok, l);
		return;
	}
	l->left_tok = lg_sub_floor(rule->rate_tok, c->state[0]);
	l->reset_ns = c->state[0] ? rule->window.length_ns - c->state[2] : 0;
	l->retry_ns = l->left_tok < cost_tok ? rule->window.length_ns - c->state[2] : 0;
}

static void level_of(const struct lg_rule *rule, const struct lg_charge *c, uint64_t cost_tok, struct level *l)
{
	*l = (struct level){ .left_tok = rule->burst_tok };
	switch ((enum lg_charge_kind)c->kind) {
	case LG_CHARGE_RATE: rate_level(&rule->rate, c->state[0], cost_tok, l); return;
	case LG_CHARGE_BLOCK: block_level(rule, c, cost_tok, l); return;
	case LG_CHARGE_WINDOW: window_level(rule, c, cost_tok, l); return;
	case LG_CHARGE_LOG:
		l->left_tok = lg_sub_floor(rule->rate_tok, c->state[0]);
		l->reset_ns = c->state[0] ? rule->window.length_ns : 0;
		l->retry_ns = l->left_tok < cost_tok ? c->state[2] : 0;
		return;
	case LG_CHARGE_BAN: *l = (struct level){ .reset_ns = c->state[0], .retry_ns = c->state[0] }; return;
	case LG_CHARGE_NONE: break;
	}
	if (rule->flags & LG_RULE_GLOBAL)
		l->left_tok = rule->cold_start_tok;
}

uint64_t lg_charge_remaining(const struct lg_request_rule *rule, const struct lg_charge *charge)
{
	struct level l;

	level_of(&rule->rule, charge, 0, &l);
	return l.left_tok / rule->rule.cost;
}

/* ---- one rule ---- */

static enum lg_check_status status_of(const struct lg_rule *rule, enum lg_reason reason)
{
	switch (reason) {
	case LG_PASS_MARKED: return LG_STATUS_SOFT;
	case LG_DROP_LIMIT: return rule->cold_burst_tok ? LG_STATUS_DENIED : LG_STATUS_NEVER;
	case LG_DROP_LEASE_PENDING:
	case LG_DROP_BANNED: return LG_STATUS_DENIED;
	case LG_DROP_CONTENDED:
	case LG_DROP_TABLE_FULL: return LG_STATUS_OVERLOADED;
	case LG_DROP_UNREACHABLE: return LG_STATUS_UNREACHABLE;
	case LG_DROP_COST: return LG_STATUS_NEVER;
	case LG_PASS_NO_RULE:
	case LG_PASS_ADMITTED:
	case LG_PASS_SHADOW:
	case LG_PASS_EXEMPT:
	case LG_PASS_BYPASS:
	case LG_PASS_UNPARSABLE:
	case LG_PASS_NOT_IP:
	case LG_PASS_TABLE_FULL:
	case LG_PASS_FALLBACK:
	case LG_PASS_ALLOWED:
	case LG_PASS_PACED:
	case LG_PASS_CONNECTION:
	case LG_DROP_UNPARSABLE:
	case LG_DROP_LISTED:
	case LG_DROP_EXEMPT_FLOOD:
	case LG_DROP_CONNECTIONS:
	case _LG_REASON_N: break;
	}
	return LG_STATUS_OK;
}

static uint64_t unweigh(uint64_t units, const struct lg_weight *w)
{
	return cut((u128)units * w->den / w->num);
}

static void times_fill(const struct level *l, struct lg_check_take *take, bool is_refused)
{
	take->reset_ns = l->reset_ns;
	if (!is_refused || take->status == LG_STATUS_NEVER)
		return;
	take->retry_after_ns = l->retry_ns;
	if (take->status == LG_STATUS_UNREACHABLE || take->status == LG_STATUS_OVERLOADED)
		take->retry_after_ns = l->retry_ns > SILENT_RETRY_NS ? l->retry_ns : SILENT_RETRY_NS;
	if (!take->retry_after_ns)
		take->retry_after_ns = LEASE_RETRY_NS; /* another key's, of the same overflow bucket */
}

static void take_fill(const struct lg_request_table *table, const struct lg_asked *asked, uint32_t k, const struct lg_check *check,
		      struct lg_check_take *take)
{
	const struct lg_request_rule *r = lg_requests_rule(table, asked->rule[k]);
	const struct lg_charge *c = &check->charge[k];
	const struct lg_weight *w = &asked->weight[k];
	uint32_t units = asked->charge[k].units ? asked->charge[k].units : 1;
	struct level l;

	*take = (struct lg_check_take){ .rule = r->name, .rule_id = r->rule.rule_id, .descriptor = asked->descriptor[k], .reason = c->reason,
					.is_shadow = r->is_shadow,
					.scope = r->rule.flags & LG_RULE_GLOBAL ? LG_CHECK_SCOPE_GLOBAL : LG_CHECK_SCOPE_NODE };
	if (check->verdict == LG_PASS_BYPASS) {
		take->reason = LG_PASS_BYPASS;
		take->is_unlimited = true;
		return;
	}
	take->status = (uint8_t)status_of(&r->rule, (enum lg_reason)c->meant);
	take->would_deny = r->is_shadow && c->meant == LG_PASS_SHADOW;
	take->limit = unweigh(r->rule.rate_tok / r->rule.cost, w);
	take->per_ns = r->rule.per_ns;
	take->burst = unweigh(r->rule.burst_tok / r->rule.cost, w);
	level_of(&r->rule, c, (uint64_t)units * r->rule.cost, &l);
	take->remaining = unweigh(l.left_tok / r->rule.cost, w);
	if (take->remaining > take->burst)
		take->remaining = take->burst;
	times_fill(&l, take, take->status >= LG_STATUS_SOFT);
}

/* ---- the request ---- */

/* The emptier of two, by the part of their burst that is left. */
static bool is_emptier(const struct lg_check_take *a, const struct lg_check_take *b)
{
	if (a->is_unlimited || b->is_unlimited)
		return !a->is_unlimited && b->is_unlimited;
	return (u128)a->remaining * (b->burst ? b->burst : 1) < (u128)b->remaining * (a->burst ? a->burst : 1);
}

static bool decides(const struct lg_check_take *a, const struct lg_check_take *b)
{
	if (a->status != b->status)
		return a->status > b->status;
	if (a->status > LG_STATUS_SOFT && a->retry_after_ns != b->retry_after_ns)
		return a->retry_after_ns > b->retry_after_ns;
	return is_emptier(a, b);
}

void lg_answer_make(const struct lg_request_table *table, const struct lg_asked *asked, const struct lg_check *check, struct lg_answer *ret)
{
	*ret = (struct lg_answer){ .status = asked->early, .why = asked->why, .decider = -1 };
	for (uint32_t k = 0; check && k < asked->n; k++) {
		/* A rule that left meanwhile charges nothing. */
		if (check->verdict != LG_PASS_BYPASS && check->charge[k].meant == LG_PASS_NO_RULE)
			continue;
		take_fill(table, asked, k, check, &ret->takes[ret->n_takes]);
		if (ret->decider < 0 || decides(&ret->takes[ret->n_takes], &ret->takes[ret->decider]))
			ret->decider = (int)ret->n_takes;
		ret->n_takes++;
	}
	if (ret->decider >= 0)
		ret->status = (enum lg_check_status)ret->takes[ret->decider].status;
	for (uint32_t k = 0; k < ret->n_takes && ret->status != LG_STATUS_NEVER; k++)
		if (ret->takes[k].status > LG_STATUS_SOFT && ret->takes[k].retry_after_ns > ret->retry_after_ns)
			ret->retry_after_ns = ret->takes[k].retry_after_ns;
	ret->allowed = ret->status <= LG_STATUS_SOFT;
	ret->granted = ret->allowed && asked->mode != LG_CHECK_PEEK ? asked->cost : 0;
}
