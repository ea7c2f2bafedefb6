/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A packet that matches several rules. All are tested first and only then taken from, in the order of the set; but the
 * last one, once all others have tokens, is taken from at once, as its test would be the same loop. A sliding log, which is
 * the last of the set and cannot be given back to, is not: it is taken from when all others are. If a take is lost
 * to another CPU after all, what was taken is given back. Buckets are found anew for each step: the verifier would
 * follow each mixture of eight pointers.
 */
#pragma once

#include "flow.h"
#include "line_step.h"
#include "lists.h"

/* Of two reasons to let a packet pass the one that tells more. */
__noinline int lg_louder_of(__u32 a, __u32 b)
{
	if (a == LG_PASS_PACED || b == LG_PASS_PACED)
		return LG_PASS_PACED;
	if (a == LG_PASS_MARKED || b == LG_PASS_MARKED)
		return LG_PASS_MARKED;
	if (a == LG_PASS_SHADOW || b == LG_PASS_SHADOW)
		return LG_PASS_SHADOW;
	if (a == LG_PASS_FALLBACK || b == LG_PASS_FALLBACK)
		return LG_PASS_FALLBACK;
	return a == LG_PASS_TABLE_FULL ? a : b;
}

static __always_inline enum lg_reason lg_louder(enum lg_reason a, enum lg_reason b)
{
	return b == LG_PASS_ADMITTED ? a : (enum lg_reason)lg_louder_of(a, b);
}

static __always_inline void lg_match_init(struct lg_match *match, __u32 rule_index)
{
	match->rule_index = rule_index;
	match->state = lg_forget(LG_MATCH_IDLE);
	match->reason = lg_forget(LG_PASS_ADMITTED);
	match->generation = lg_forget(0);
}

/* One step of a match, which tells the agent what it should hear. Returns the reason. */
static __always_inline enum lg_reason lg_match_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule,
						    enum lg_step step)
{
	struct lg_bucket *bucket = NULL;
	int r;

	lg_visit_key(visit, rule);
	if (rule->special && step != LG_STEP_UNDO && lg_is_barred(visit, rule))
		return LG_DROP_BANNED;
	if (rule->table == LG_TABLE_LINES)
		return lg_step_reason(lg_line_match_step(visit, match, rule, step));
	/* What can never pass is refused by lg_step() and needs none. */
	if (lg_cost(rule, &visit->pkt) <= rule->cold_burst_tok || visit->pkt.packets > 1)
		bucket = rule->key_form ? lg_find(visit) : lg_find_product(visit, rule);
	r = lg_bucket_step(visit, match, rule, bucket, step);
	if (lg_step_event(r))
		lg_announce(visit, rule, bucket, lg_step_event(r));
	return lg_step_reason(r);
}

/* From bits to matches, in the order of the set. */
static __always_inline void lg_matches_init(struct lg_matches *m, struct lg_bits *hits)
{
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (lg_bits_empty(hits))
			break;
		lg_match_init(&m->match[k], lg_bits_take(hits));
	}
	m->n = lg_forget(k);
}

/*
 * Tests all matches that are not done already, and takes from the last if all have tokens. Returns the first refusal, or the loudest
 * reason to pass.
 */
static __always_inline enum lg_reason lg_test_all(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m,
						  enum lg_reason verdict)
{
	enum lg_reason reason;
	const struct lg_rule *rule;
	bool is_last;
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= m->n)
			break;
		if (m->match[k].state == LG_MATCH_DONE)
			continue;
		rule = lg_match_rule(set, &m->match[k]);
		if (!lg_is_pass(verdict) && !(rule->flags & LG_RULE_EVALUATE_ALL))
			continue;
		is_last = lg_is_pass(verdict) && k + 1 == m->n && rule->algorithm != LG_RULE_SLIDING_LOG;
		reason = lg_match_step(visit, &m->match[k], rule, is_last ? LG_STEP_TAKE : LG_STEP_TEST);
		if (lg_is_pass(reason))
			m->match[k].state =
				lg_forget(is_last || reason == LG_PASS_TABLE_FULL ? LG_MATCH_DONE : LG_MATCH_READY);
		else
			reason = lg_conclude(visit, rule, reason);
		if (lg_is_pass(verdict))
			verdict = lg_forget(lg_is_pass(reason) ? lg_louder(verdict, reason) : reason);
	}
	return verdict;
}

static __always_inline void lg_undo_all(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m)
{
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= m->n)
			break;
		if (m->match[k].state == LG_MATCH_DONE && m->match[k].reason != LG_PASS_CONNECTION)
			lg_match_step(visit, &m->match[k], lg_match_rule(set, &m->match[k]), LG_STEP_UNDO);
	}
}

/* Takes for all matches that have what it takes; returns a refusal if one of them had it no longer. */
static __always_inline enum lg_reason lg_take_all(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m,
						  enum lg_reason verdict)
{
	const struct lg_rule *rule;
	enum lg_reason reason;
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= m->n)
			break;
		if (m->match[k].state != LG_MATCH_READY)
			continue;
		rule = lg_match_rule(set, &m->match[k]);
		reason = lg_match_step(visit, &m->match[k], rule, LG_STEP_TAKE);
		m->match[k].state = lg_forget(lg_is_pass(reason) ? LG_MATCH_DONE : LG_MATCH_IDLE);
		if (!lg_is_pass(reason))
			reason = lg_conclude(visit, rule, reason);
		if (!lg_is_pass(reason))
			return lg_forget(reason);
		verdict = lg_forget(lg_louder(verdict, reason));
	}
	return verdict;
}

/* What a rule with an action made of an admitted packet, counted. Returns the verdict: one that paces may have it wait. */
__noinline int lg_count_acting(struct lg_visit *visit, const struct lg_rule *rule, __u32 reason, __u32 verdict)
{
	if (!visit || !rule)
		return verdict;
	lg_visit_key(visit, rule);
	return lg_louder(verdict, lg_conclude(visit, rule, reason));
}

/* Counts what the rules of an admitted packet had to do with it. Returns the verdict. */
static __always_inline enum lg_reason lg_count_all(struct lg_visit *visit, const struct lg_ruleset *set, const struct lg_matches *m,
						   enum lg_reason verdict)
{
	const struct lg_rule *rule;
	__u32 k;

	for (k = 0; k < LG_MATCHES_MAX; k++) {
		if (k >= m->n)
			break;
		if (m->match[k].state != LG_MATCH_DONE)
			continue;
		rule = lg_match_rule(set, &m->match[k]);
		if (rule->flags & LG_RULE_ACTS)
			verdict = lg_forget(lg_count_acting(visit, rule, m->match[k].reason, verdict));
		else
			lg_count_rule(rule->rule_id, m->match[k].reason, &visit->pkt);
	}
	return verdict;
}

/* @verdict: of the matches that are done already. */
static __always_inline enum lg_reason lg_charge_all(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_matches *m,
						    enum lg_reason verdict)
{
	verdict = lg_test_all(visit, set, m, verdict);
	if (!lg_is_pass(verdict))
		return verdict;
	verdict = lg_take_all(visit, set, m, verdict);
	if (lg_is_pass(verdict))
		return lg_count_all(visit, set, m, verdict);
	lg_undo_all(visit, set, m);
	return verdict;
}

static __always_inline enum lg_reason lg_judge_many(struct lg_visit *visit, const struct lg_ruleset *set, struct lg_bits *hits)
{
	enum lg_reason verdict = LG_PASS_ADMITTED;
	struct lg_matches m;

	lg_matches_init(&m, hits);
	if (visit->pkt.flow)
		verdict = lg_conn_gate(visit, set, &m);
	verdict = lg_charge_all(visit, set, &m, verdict);
	if (visit->pkt.flow)
		lg_flow_after(visit, set, &m, verdict);
	return verdict;
}
