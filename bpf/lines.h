/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Token buckets of one word, eight to a line of memory (struct lg_line). Pure: time, line and key are arguments.
 *
 * A slot that is not live is a full bucket, so taking it for another key forgets nothing; a live one is never taken. There is
 * nothing to sweep. What that rests on:
 *
 * A key is charged by its rule's clock from its first packet on, late as that may be: of a burst that begins by one clock and goes on by
 * another, which is behind, what the rate mints in between would be missing. But a position that was written with a later clock than ours
 * may lie further ahead of our v than a bucket can owe, and would look like one of long ago: its key would get a fresh burst. A word that
 * lies ahead by more than that (and less than half the ring) is believed only with an exact clock that was read after it.
 *
 * A key has one settled slot. Two CPUs may claim different slots for a new key, as slots die in between. So a claim is written
 * as pending, which nobody charges; then the line is read again; a claimer that sees another slot of its key, pending or
 * settled, withdraws, and settles only if it sees none. Of two claims the later one sees the earlier one, whatever the order
 * of their stores, so at most one settles; where both see each other the lower slot stays and looks again. All this happens to
 * new keys alone: one that has its slot is charged by one compare-and-swap, and a refusal writes nothing.
 *
 * A position has 40 bits. A key that comes back after its rule's virtual time went round the ring meets what is left of its
 * slot as if it had just spent it, with a chance of live_vt / 2^40: it is refused for as long as its bucket takes to refill,
 * never let through for free. Two keys of one line with the same tag, one pair in 2^22, share a bucket: in a region of 2^17 lines, room
 * for a million keys, of which half are in use, one key of a million such.
 */
#pragma once

#include "bucket.h"
#include "classify.h"

#define LG_LINE_HALF (1ull << 39)
#define LG_LINE_TURNS LG_TAKE_TRIES /* looks at a line: a claim takes two */
#define LG_LINE_OWNER (~(LG_LINE_POSITION | LG_LINE_NOTED)) /* the rest of a word: of two words the same only if they are of one key */
#define LG_LINE_MARK_TRIES 16 /* each lost race is a packet of the key that got through */

/* Outcomes beside the reasons, which are not negative. */
enum lg_line_outcome {
	LG_LINE_AGAIN = -1, /* look at the line again, then read the clock again */
	LG_LINE_NEW = -2,   /* the key has no slot */
	LG_LINE_FULL = -3,  /* nor is one free */
};

/* Where a key belongs. */
struct lg_line_spot {
	__u64 tag;   /* in its place in a word */
	__u32 index; /* of its line */
};

/* A claim that is not settled. */
struct lg_line_claim {
	__u64 word; /* as written; 0: there is none */
	__u32 slot;
};

/* What a key finds in its line: bit i is slot i. */
struct lg_line_found {
	__u64 own;     /* settled slots of the key: none or one */
	__u64 word;    /* what stands there */
	__u64 pending; /* claims of the key */
};

/* Both halves of a product, folded: hides either factor from who knows neither. */
static __always_inline __u64 lg_fold(__u64 a, __u64 b)
{
	__u64 high, low = lg_mul_shift(a, b, 0, &high);

	return high ^ low;
}

/**
 * lg_line_hash() - of a whole key but its rule, whose lines are its own
 *
 * Each factor holds a secret word, so nobody can choose keys that meet, or tell from outside which do.
 */
static __always_inline __u64 lg_line_hash(const struct lg_key *key, const struct lg_control *ctl)
{
	const __u64 *a = (const __u64 *)key->a, *b = (const __u64 *)key->b;
	__u64 h = lg_fold(a[0] ^ ctl->line_seed[0], a[1] ^ ctl->line_seed[1]);

	if (b[0] | b[1])
		h ^= lg_fold(b[0] ^ ctl->hash_seed, b[1] ^ ~ctl->line_seed[0]);
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93ull;
	return h ^ h >> 32;
}

static __always_inline struct lg_line_spot lg_line_spot(const struct lg_key *key, const struct lg_rule *rule,
							const struct lg_control *ctl)
{
	__u64 h = lg_line_hash(key, ctl), tag = h >> 42;

	return (struct lg_line_spot){
		.tag = (tag ? tag : 1) << 40,
		.index = rule->first_line + ((__u32)h & (rule->n_lines - 1)),
	};
}

/* A spot in one word, which is never 0. */
static __always_inline __u64 lg_line_at(const struct lg_line_spot *spot)
{
	return spot->tag | spot->index;
}

/* As lg_rule_refusal(): but what is owed must fit the ring, too. */
static __always_inline enum lg_reason lg_line_refusal(const struct lg_rule *rule, __u32 packets, struct lg_ask *ask)
{
	enum lg_reason reason = lg_rule_refusal(rule, packets, ask);

	if (reason == LG_PASS_ADMITTED && ask->may_owe && ask->cost_tok * rule->rate.unit_per_tok > rule->live_vt)
		return LG_DROP_COST;
	return reason;
}

/* How much a slot owes at v: 0 of one that is not live. */
static __always_inline __u64 lg_line_debt(__u64 word, __u64 v, __u64 live_vt)
{
	__u64 ahead = (word - v) & LG_LINE_POSITION;

	return ahead <= live_vt ? ahead : 0;
}

/* Whether a slot that does not seem live may only seem so because v's clock is older than the word. */
static __always_inline _Bool lg_line_is_unsure(__u64 word, __u64 v, __u64 live_vt)
{
	__u64 ahead = (word - v) & LG_LINE_POSITION;

	return ahead > live_vt && ahead < LG_LINE_HALF;
}

/* The settled slot of a tag, or LG_LINE_SLOTS. */
static __always_inline __u32 lg_line_find(const struct lg_line *line, __u64 tag, __u64 *ret_word)
{
	__u32 i;

	for (i = 0; i < LG_LINE_SLOTS; i++) {
		*ret_word = lg_read(line->slot[i]);
		if ((*ret_word & LG_LINE_OWNER) == tag)
			break;
	}
	return i;
}

/**
 * lg_line_charge() - take tokens from a key's settled slot, or only see whether they are there
 * @slot:     the slot
 * @word:     what was read there
 * @v:        virtual time of the rule
 * @is_fresh: v's clock was read after the word
 * @ask:      not refused by lg_line_refusal()
 * @tries:    races that may be lost; 0 tests only
 *
 * Return: LG_PASS_ADMITTED, LG_DROP_LIMIT or LG_LINE_AGAIN.
 */
static __always_inline int lg_line_charge(__u64 *slot, __u64 word, __u64 v, _Bool is_fresh, const struct lg_rule *rule,
					  const struct lg_ask *ask, __u32 tries)
{
	__u64 cost_vt = ask->cost_tok * rule->rate.unit_per_tok, ahead, was;
	__u64 limit_vt = ask->may_owe ? cost_vt : rule->rate.burst_vt;
	__u32 i = 0;

	do {
		ahead = (word - v) & LG_LINE_POSITION;
		if (ahead > rule->live_vt) {
			if (!is_fresh && ahead < LG_LINE_HALF)
				return LG_LINE_AGAIN;
			ahead = 0;
		}
		if (ahead + cost_vt > limit_vt)
			return LG_DROP_LIMIT;
		if (!tries)
			return LG_PASS_ADMITTED;
		was = __sync_val_compare_and_swap(slot, word,
						  (word & ~LG_LINE_POSITION) | ((v + ahead + cost_vt) & LG_LINE_POSITION));
		if (was == word)
			return LG_PASS_ADMITTED;
		if ((was ^ word) & LG_LINE_OWNER)
			return LG_LINE_AGAIN; /* it had died, and is another key's */
		word = was;
		is_fresh = 0;
	} while (++i < tries);
	return LG_LINE_AGAIN;
}

/**
 * lg_line_undo() - give back what the same packet took from a slot
 *
 * Never more than the slot owes, so no bucket ends above its cap. After LG_TAKE_TRIES lost races the tokens stay spent.
 */
static __always_inline void lg_line_undo(__u64 *slot, __u64 word, __u64 v, const struct lg_rule *rule, const struct lg_ask *ask)
{
	__u64 cost_vt = ask->cost_tok * rule->rate.unit_per_tok, debt_vt, was;
	int i;

	for (i = 0; i < LG_TAKE_TRIES; i++) {
		debt_vt = lg_line_debt(word, v, rule->live_vt);
		if (!debt_vt)
			return;
		if (cost_vt > debt_vt)
			cost_vt = debt_vt;
		was = __sync_val_compare_and_swap(slot, word,
						  (word & ~LG_LINE_POSITION) | ((word - cost_vt) & LG_LINE_POSITION));
		if (was == word || (was ^ word) & LG_LINE_OWNER)
			return;
		word = was;
	}
}

/* Marks a key's settled slot as noted. Returns whether this did it; else another CPU has, or it is another key's by now. */
static __always_inline _Bool lg_line_mark(__u64 *slot, __u64 tag)
{
	__u64 word = lg_read(*slot), was;
	int i;

	for (i = 0; i < LG_LINE_MARK_TRIES; i++) {
		if ((word ^ tag) & ~LG_LINE_POSITION)
			return 0;
		was = __sync_val_compare_and_swap(slot, word, word | LG_LINE_NOTED);
		if (was == word)
			return 1;
		word = was;
	}
	return 0;
}

/* Looks for a key's slots. Arithmetic, as each branch in here would double the ways that the verifier walks. */
static __always_inline struct lg_line_found lg_line_look(const struct lg_line *line, __u64 tag)
{
	struct lg_line_found found = {};
	__u64 word, is_own;
	__u32 i;

	for (i = 0; i < LG_LINE_SLOTS; i++) {
		word = lg_read(line->slot[i]);
		is_own = lg_is_zero((word ^ tag) & LG_LINE_OWNER);
		found.own |= is_own << i;
		found.word |= word & -is_own;
		found.pending |= lg_is_zero((word ^ tag ^ LG_LINE_PENDING) & LG_LINE_OWNER) << i;
	}
	return found;
}

/**
 * lg_line_victim() - which slot a new key gets
 * @ret_word: what stands there
 *
 * One that is not live at v: of these one that was never used, else the one that has been full for the longest time. The others' keys
 * may come again, and find their slots then.
 *
 * Return: the slot, or LG_LINE_SLOTS: all are live.
 */
static __always_inline __u32 lg_line_victim(const struct lg_line *line, __u64 v, __u64 live_vt, __u64 *ret_word)
{
	__u64 word, ahead, untagged, is_free, rank, is_less, best = 0;
	__u32 i;

	for (i = 0; i < LG_LINE_SLOTS; i++) {
		word = lg_read(line->slot[i]);
		ahead = (word - v) & LG_LINE_POSITION;
		untagged = (word >> 40) - 1; /* all ones, if it is */
		/* Negative, top bit set, iff it is too far ahead, or is due now, or has no tag. */
		is_free = (live_vt - ahead) | (ahead - 1) | untagged;
		lg_opaque(is_free);
		is_free >>= 63;
		lg_opaque(is_free);
		/* For how long, then the lowest; at least LG_LINE_SLOTS. */
		rank = ((-ahead & LG_LINE_POSITION) | untagged >> 24) + 1;
		rank = ((rank * LG_LINE_SLOTS + (LG_LINE_SLOTS - 1 - i)) & -is_free) - best;
		is_less = rank >> 63;
		lg_opaque(is_less); /* clang knows the idiom and would make it a branch */
		best += rank & (is_less - 1);
	}
	i = LG_LINE_SLOTS - 1 - (best & (LG_LINE_SLOTS - 1));
	*ret_word = lg_read(line->slot[i & (LG_LINE_SLOTS - 1)]);
	return best ? i : LG_LINE_SLOTS;
}

/* Settles a claim, withdraws it, or leaves it as it is for one more look. */
static __always_inline int lg_line_settle(struct lg_line *line, const struct lg_line_found *found, struct lg_line_claim *claim)
{
	__u64 me = 1ull << (claim->slot & (LG_LINE_SLOTS - 1)), rivals = (found->own | found->pending) & ~me, word = claim->word;

	if (rivals && !found->own && (rivals & -rivals) > me)
		return LG_LINE_AGAIN;
	claim->word = 0;
	/* It is another's where we slept until it died. */
	if (__sync_val_compare_and_swap(&line->slot[claim->slot & (LG_LINE_SLOTS - 1)], word,
					rivals ? 0 : word & ~LG_LINE_PENDING) != word || rivals)
		return LG_LINE_AGAIN;
	claim->word = word;
	return LG_PASS_ADMITTED;
}

/**
 * lg_line_turn() - one turn of a take: what to do about what was found
 * @line:  of the key
 * @found: there, by lg_line_look()
 * @claim: empty at the first turn. After LG_PASS_ADMITTED with a word in it the key has a new slot
 * @v:     virtual time of the rule, from a clock that was read after @found, if lg_line_is_unsure() of an older one
 *
 * Return: LG_PASS_ADMITTED, LG_DROP_LIMIT, LG_LINE_AGAIN, or LG_LINE_NEW: the key has no slot.
 */
static __always_inline int lg_line_turn(struct lg_line *line, const struct lg_line_found *found, struct lg_line_claim *claim, __u64 v,
					const struct lg_rule *rule, const struct lg_ask *ask, _Bool take)
{
	__u32 i = lg_lowest_bit(found->own) & (LG_LINE_SLOTS - 1);

	if (claim->word)
		return lg_line_settle(line, found, claim);
	if (found->own)
		return lg_line_charge(&line->slot[i], found->word, v, 1, rule, ask, take);
	return found->pending ? LG_LINE_AGAIN : LG_LINE_NEW;
}

/**
 * lg_line_claim() - claim a slot for a key that has none
 * @slot: what lg_line_victim() found, and @word there
 * @v:    from a clock that was read after @word, if lg_line_is_unsure() of an older one
 *
 * Return: LG_LINE_AGAIN, with the claim to be settled or nothing done.
 */
static __always_inline int lg_line_claim(struct lg_line *line, __u32 slot, __u64 word, __u64 tag, __u64 v, const struct lg_rule *rule,
					 const struct lg_ask *ask, struct lg_line_claim *claim)
{
	__u64 cost_vt = ask->cost_tok * rule->rate.unit_per_tok;

	if (word >> 40 && lg_line_debt(word, v, rule->live_vt))
		return LG_LINE_AGAIN;
	claim->slot = slot & (LG_LINE_SLOTS - 1);
	claim->word = LG_LINE_PENDING | tag | ((v + cost_vt) & LG_LINE_POSITION);
	if (__sync_val_compare_and_swap(&line->slot[claim->slot & (LG_LINE_SLOTS - 1)], word, claim->word) != word)
		claim->word = 0;
	return LG_LINE_AGAIN;
}

/* Claims a slot for a key that has none, or only sees whether one is free. *v may be older than what it looks at, and is renewed then. */
static __always_inline int lg_line_enter(struct lg_line *line, __u64 tag, __u64 *v, const struct lg_rule *rule, const struct lg_ask *ask,
					 _Bool take, __u64 (*v_now)(const struct lg_rule *), struct lg_line_claim *claim)
{
	__u64 word;
	__u32 slot = lg_line_victim(line, *v, rule->live_vt, &word);

	if (slot >= LG_LINE_SLOTS)
		return LG_LINE_FULL;
	if (!take)
		return LG_PASS_ADMITTED;
	if (lg_line_is_unsure(word, *v, rule->live_vt))
		*v = v_now(rule);
	return lg_line_claim(line, slot, word, tag, *v, rule, ask, claim);
}

/**
 * lg_line_take() - take tokens from a key's bucket, or only see whether they are there
 * @line:     of the key, and @tag: there (lg_line_spot)
 * @ask:      not refused by lg_line_refusal()
 * @v:        virtual time of the rule, by its own clock, which may be late
 * @take:     0 tests only, and writes nothing
 * @v_now:    gives the virtual time by an exact clock, read now
 * @ret_slot: the slot, if the key had it before and it is not marked as noted; else LG_LINE_SLOTS
 *
 * Return: LG_PASS_ADMITTED, LG_DROP_LIMIT, LG_DROP_CONTENDED or LG_LINE_FULL.
 */
static __always_inline int lg_line_take(struct lg_line *line, __u64 tag, __u64 v, const struct lg_rule *rule, const struct lg_ask *ask,
					_Bool take, __u64 (*v_now)(const struct lg_rule *), __u32 *ret_slot)
{
	struct lg_line_claim claim = {};
	struct lg_line_found found = {};
	int r = LG_LINE_AGAIN, i;

	for (i = 0; i < LG_LINE_TURNS && r == LG_LINE_AGAIN; i++) {
		/* For the verifier: all turns begin alike. */
		claim.slot = lg_forget(claim.slot);
		found = lg_line_look(line, tag);
		if (found.own && lg_line_is_unsure(found.word, v, rule->live_vt))
			v = v_now(rule);
		r = lg_line_turn(line, &found, &claim, v, rule, ask, take);
		if (r == LG_LINE_NEW)
			r = lg_line_enter(line, tag, &v, rule, ask, take, v_now, &claim);
	}
	if (r == LG_LINE_AGAIN) {
		r = LG_DROP_CONTENDED;
		if (claim.word)
			__sync_val_compare_and_swap(&line->slot[claim.slot & (LG_LINE_SLOTS - 1)], claim.word, 0);
		claim.word = 0;
	}
	*ret_slot = found.own && !(found.word & LG_LINE_NOTED) ? lg_lowest_bit(found.own) : LG_LINE_SLOTS;
	return r;
}
