/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A rule whose buckets lie in `lines` on a packet's way. A key that has its slot is charged inline, in one line of memory;
 * whatever else, new keys, lost races, undone takes, is one global function. A key without room goes where one without room
 * in `buckets` goes.
 */
#pragma once

#include "lines.h"
#include "step.h"

enum { LG_GENERATION_LINE = 1 }; /* lg_match.generation of a take from a slot; host rules have no generations */

/* Virtual time by the exact clock, read now. */
static __always_inline __u64 lg_line_now(const struct lg_rule *rule)
{
	return lg_rate_now(&rule->rate, lg_clock(false));
}

/* Counts a refusal of the key at hand, whose slot that is. */
__noinline int lg_line_denied(const struct lg_visit *visit, const struct lg_rule *rule, __u32 slot)
{
	struct lg_line_key *note;
	__u64 tok;

	if (!visit || !rule)
		return 0;
	tok = lg_denials_add(&visit->key, slot + 1, lg_cost(rule, &visit->pkt));
	note = tok ? bpf_map_lookup_elem(&line_keys, &slot) : NULL;
	if (note)
		__sync_fetch_and_add(&note->denied_tok, tok);
	return 1;
}

static __always_inline void lg_line_give_back(const struct lg_rule *rule, const struct lg_ask *ask, const struct lg_line_spot *spot,
					      struct lg_line *line)
{
	__u64 word;
	__u32 i = lg_line_find(line, spot->tag, &word);

	if (i < LG_LINE_SLOTS)
		lg_line_undo(&line->slot[i], word, lg_rate_now(&rule->rate, ask->now_ns), rule, ask);
}

/* Where the key at hand belongs: as `at` says, if it is not 0. */
static __always_inline struct lg_line_spot lg_line_spot_at(const struct lg_visit *visit, const struct lg_rule *rule,
							   const struct lg_control *ctl, __u64 at)
{
	struct lg_line_spot spot = { .tag = at & ~LG_LINE_POSITION, .index = (__u32)at };

	return at ? spot : lg_line_spot(&visit->key, rule, ctl);
}

/**
 * lg_line_step() - as lg_step(), of the key at hand under a rule in `lines`
 * @at: lg_line_at(), or 0: not known yet. Who knows it asks again without it where there is no room, and only that is counted
 *
 * Return: the reason, with LG_STEP_NOTE if the caller should note whose slot it is; or LG_LINE_FULL: the step is lg_step()'s, without
 * a bucket.
 */
__noinline int lg_line_step(struct lg_visit *visit, const struct lg_rule *rule, __u32 step, __u64 at)
{
	const struct lg_control *ctl;
	struct lg_line_spot spot;
	struct lg_shared *words;
	struct lg_line *line;
	__u32 zero = 0, slot;
	struct lg_ask ask;
	int r;

	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!visit || !rule || !ctl)
		return LG_DROP_TABLE_FULL;
	ask = lg_ask_make(visit, rule);
	spot = lg_line_spot_at(visit, rule, ctl, at);
	line = bpf_map_lookup_elem(&lines, &spot.index);
	if (!line)
		return LG_LINE_FULL;
	if (step == LG_STEP_UNDO) {
		lg_line_give_back(rule, &ask, &spot, line);
		return LG_PASS_ADMITTED;
	}
	r = lg_line_refusal(rule, visit->pkt.packets, &ask);
	if (r != LG_PASS_ADMITTED)
		return r;
	r = lg_line_take(line, spot.tag, lg_rate_now(&rule->rate, ask.now_ns), rule, &ask, step == LG_STEP_TAKE, lg_line_now, &slot);
	if (r != LG_LINE_FULL)
		return slot < LG_LINE_SLOTS ? r | LG_STEP_NOTE : r;
	words = at ? NULL : bpf_map_lookup_elem(&shared, &zero);
	if (words)
		__sync_fetch_and_add(&words->lines_full, 1);
	return LG_LINE_FULL;
}

/*
 * Notes whose slot it is, then marks it as noted. What was denied to a key of before is taken off by whoever marks, and never more than
 * that: others count their refusals as soon as they see the mark. Arguments as of lg_line_step().
 */
__noinline int lg_line_note(const struct lg_visit *visit, const struct lg_rule *rule, __u64 at)
{
	const struct lg_control *ctl;
	struct lg_line_spot spot;
	struct lg_line_key *note;
	struct lg_line *line;
	__u32 zero = 0, i, slot;
	__u64 word;

	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!visit || !rule || !ctl)
		return 0;
	spot = lg_line_spot_at(visit, rule, ctl, at);
	line = bpf_map_lookup_elem(&lines, &spot.index);
	i = line ? lg_line_find(line, spot.tag, &word) : LG_LINE_SLOTS;
	slot = spot.index * LG_LINE_SLOTS + i;
	note = i < LG_LINE_SLOTS ? bpf_map_lookup_elem(&line_keys, &slot) : NULL;
	if (!note)
		return 0;
	note->key = visit->key;
	word = lg_read(note->denied_tok);
	if (lg_line_mark(&line->slot[i & (LG_LINE_SLOTS - 1)], spot.tag))
		__sync_fetch_and_add(&note->denied_tok, -word);
	return 1;
}

/* Counts a refusal by lg_line_step(), which knows the slot but has no stack for more. */
__noinline int lg_line_step_denied(const struct lg_visit *visit, const struct lg_rule *rule)
{
	const struct lg_control *ctl;
	struct lg_line_spot spot;
	struct lg_line *line;
	__u32 zero = 0, i;
	__u64 word;

	ctl = bpf_map_lookup_elem(&control, &zero);
	if (!visit || !rule || !ctl)
		return 0;
	spot = lg_line_spot(&visit->key, rule, ctl);
	line = bpf_map_lookup_elem(&lines, &spot.index);
	i = line ? lg_line_find(line, spot.tag, &word) : LG_LINE_SLOTS;
	return i < LG_LINE_SLOTS ? lg_line_denied(visit, rule, spot.index * LG_LINE_SLOTS + i) : 0;
}

/* The step of the key at hand, wherever it leads. */
static __always_inline int lg_line_match_step(struct lg_visit *visit, struct lg_match *match, const struct lg_rule *rule,
					      enum lg_step step)
{
	int r = LG_LINE_FULL;

	if (step != LG_STEP_UNDO || match->generation == LG_GENERATION_LINE)
		r = lg_line_step(visit, rule, step, 0);
	if (r > 0 && r & LG_STEP_NOTE) {
		lg_line_note(visit, rule, 0);
		r &= ~LG_STEP_NOTE;
	}
	if (r == LG_DROP_LIMIT || r == LG_DROP_CONTENDED) {
		lg_line_step_denied(visit, rule);
		if (rule->special)
			lg_strike(visit, rule, (__u32)r);
	}
	if (r != LG_LINE_FULL && step != LG_STEP_UNDO) {
		match->generation = LG_GENERATION_LINE;
		match->reason = r;
	}
	if (r != LG_LINE_FULL)
		return r;
	r = lg_step(visit, match, rule, NULL, step);
	if (r & LG_STEP_DENIED)
		lg_refused(visit, rule, NULL, lg_step_reason(r));
	return r;
}

/**
 * lg_line_hit() - judge a packet that matches one rule, which is in `lines`
 *
 * A key's slot is one load and one swap away. The clock may be late here; where that matters the general way looks again.
 *
 * Return: the verdict, counted, or LG_LINE_AGAIN and nothing done: the key found no room, or the race for its slot was lost.
 */
static __always_inline int lg_line_hit(struct lg_visit *visit, const struct lg_rule *rule, const struct lg_control *ctl)
{
	struct lg_line_spot spot;
	struct lg_line *line;
	struct lg_ask ask;
	__u64 word;
	__u32 i;
	int r;

	if (rule->key_form)
		lg_key_make(rule, &visit->pkt, &visit->key);
	else
		lg_visit_key(visit, rule);
	spot = lg_line_spot(&visit->key, rule, ctl);
	line = bpf_map_lookup_elem(&lines, &spot.index);

	if (!line)
		return LG_LINE_AGAIN;
	i = lg_line_find(line, spot.tag, &word);
	ask = lg_ask_make(visit, rule);
	r = lg_line_refusal(rule, visit->pkt.packets, &ask);
	if (r == LG_PASS_ADMITTED && i >= LG_LINE_SLOTS) {
		r = lg_line_step(visit, rule, LG_STEP_TAKE, lg_line_at(&spot));
		/* Another CPU made the slot meanwhile, and this packet is its second: it has been charged, once. */
		if (r == (LG_PASS_ADMITTED | LG_STEP_NOTE)) {
			lg_line_note(visit, rule, lg_line_at(&spot));
			r = LG_PASS_ADMITTED;
		}
		return r == LG_PASS_ADMITTED ? (int)lg_conclude(visit, rule, r) : LG_LINE_AGAIN;
	}
	if (r == LG_PASS_ADMITTED) {
		r = lg_line_charge(&line->slot[i], word, lg_rate_now(&rule->rate, ask.now_ns), false, rule, &ask, LG_TAKE_TRIES);
		if (!(word & LG_LINE_NOTED))
			lg_line_note(visit, rule, lg_line_at(&spot));
		if (r == LG_DROP_LIMIT) {
			lg_line_denied(visit, rule, spot.index * LG_LINE_SLOTS + i);
			if (rule->special)
				lg_strike(visit, rule, LG_DROP_LIMIT);
		}
	}
	return r < 0 ? r : (int)lg_conclude(visit, rule, r);
}
