// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Choosing units. A bucket is one u64, the virtual time at which it is full again, and v(t) moves by rate *
 * unit_per_tok per nanosecond. Two things bound the units from above: a full burst must leave the top bits of the word
 * free (burst * unit < 2^61), and v must not run through half the word while a bucket lies untouched. With rate / per =
 * p / q reduced, p units per nanosecond and q units per token are exact, and that is taken where it fits. Otherwise
 * unit = 2^k, the largest that fits, and v is a product with a fraction mult / 2^shift of 63 bits, cut down: the bucket
 * refills a little late, never early.
 */
#include "rules/rate.h"

#include <errno.h>
#include <stdbool.h>

typedef unsigned __int128 u128;

#define YEAR_NS (31557600ull * 1000000000)
#define UPTIME_NS (30 * YEAR_NS)
#define COARSE_MIN_NS 16000000 /* four ticks of a 250 Hz kernel */

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static int check(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok)
{
	if (!per_ns || per_ns > LG_PER_MAX_NS || rate_tok > LG_BURST_MAX_TOK || burst_tok > LG_BURST_MAX_TOK)
		return -EINVAL;
	if (rate_tok > (u128)per_ns * LG_RATE_MAX_TOK_PER_NS)
		return -EINVAL;
	return 0;
}

static bool fits(u128 units_per_30y, u128 burst_vt)
{
	return units_per_30y < (u128)1 << 62 && burst_vt < (u128)1 << 61;
}

/* mult / 2^shift = units / per_ns, as exact as 63 bits allow and never above it. */
static void set_slope(struct lg_rate *rate, u128 units, uint64_t per_ns)
{
	rate->shift = 0;
	if (units % per_ns) {
		while (rate->shift < 125 && ((units << (rate->shift + 1)) / per_ns) >> 63 == 0 &&
		       units >> (126 - rate->shift) == 0)
			rate->shift++;
	}
	rate->mult = (units << rate->shift) / per_ns;
}

/* The coarse clock steps by 1 to 10 ms: good enough where a burst takes longer than that to refill. */
static uint32_t is_coarse(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok)
{
	return (u128)burst_tok * per_ns >= (u128)COARSE_MIN_NS * rate_tok;
}

int lg_rate_init(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t now_ns, struct lg_rate *ret_rate)
{
	struct lg_rate rate = { .anchor_ns = now_ns, .unit_per_tok = 1 };
	uint64_t divisor, k = 60;
	int r;

	r = check(rate_tok, per_ns, burst_tok);
	if (r < 0)
		return r;

	divisor = gcd(rate_tok, per_ns);
	if (fits((u128)(rate_tok / divisor) * UPTIME_NS, (u128)(per_ns / divisor) * burst_tok)) {
		rate.unit_per_tok = per_ns / divisor;
	} else {
		while (k && !fits(((u128)rate_tok << k) / per_ns * UPTIME_NS, (u128)burst_tok << k))
			k--;
		rate.unit_per_tok = 1ull << k;
	}
	set_slope(&rate, (u128)rate_tok * rate.unit_per_tok, per_ns);
	rate.burst_vt = burst_tok * rate.unit_per_tok;
	rate.coarse = is_coarse(rate_tok, per_ns, burst_tok);
	*ret_rate = rate;
	return 0;
}

/* The same units, from now on at another slope. */
static int change(const struct lg_rate *old, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t now_ns,
		  struct lg_rate *ret_rate)
{
	struct lg_rate rate = { .anchor_ns = now_ns, .unit_per_tok = old->unit_per_tok };
	u128 units = (u128)rate_tok * old->unit_per_tok;
	int r;

	r = check(rate_tok, per_ns, burst_tok);
	if (r < 0)
		return r;
	if (units / per_ns > (1ull << 63) / YEAR_NS || (u128)burst_tok * old->unit_per_tok >> 62)
		return -ERANGE;

	set_slope(&rate, units, per_ns);
	rate.v0 = lg_rate_vt(old, now_ns);
	rate.burst_vt = burst_tok * rate.unit_per_tok;
	rate.coarse = is_coarse(rate_tok, per_ns, burst_tok);
	*ret_rate = rate;
	return 0;
}

/* The largest debt that a slot may have: a burst, or a superframe. */
static u128 line_live_tok(uint64_t burst_tok, uint64_t superframe_tok)
{
	uint64_t live_tok = superframe_tok < LG_LINE_BURST_MAX_TOK ? superframe_tok : LG_LINE_BURST_MAX_TOK;

	return live_tok > burst_tok ? live_tok : burst_tok ? burst_tok : 1;
}

int lg_rate_line_init(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t superframe_tok, uint64_t now_ns,
		      struct lg_rate *ret_rate, __u64 *ret_live_vt)
{
	struct lg_rate rate = { .anchor_ns = now_ns };
	u128 live_tok = line_live_tok(burst_tok, superframe_tok);
	unsigned int k = 16;
	int r;

	r = check(rate_tok, per_ns, burst_tok);
	if (r < 0)
		return r;
	if (burst_tok >= LG_LINE_BURST_MAX_TOK)
		return -ERANGE;

	while (k && (live_tok << k > 1ull << 26 || (u128)rate_tok << k > per_ns))
		k--;
	rate.unit_per_tok = 1ull << k;
	set_slope(&rate, (u128)rate_tok << k, per_ns);
	rate.burst_vt = burst_tok << k;
	rate.coarse = is_coarse(rate_tok, per_ns, burst_tok);
	*ret_rate = rate;
	*ret_live_vt = (uint64_t)(live_tok << k);
	return 0;
}

int lg_rate_line_change(const struct lg_rate *old, uint64_t old_live_vt, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok,
			uint64_t superframe_tok, uint64_t now_ns, struct lg_rate *ret_rate, __u64 *ret_live_vt)
{
	u128 live_vt = line_live_tok(burst_tok, superframe_tok) * old->unit_per_tok;
	int r;

	if (live_vt > LG_LINE_BURST_MAX_TOK || (u128)burst_tok * old->unit_per_tok >= LG_LINE_BURST_MAX_TOK)
		return -ERANGE;
	r = change(old, rate_tok, per_ns, burst_tok, now_ns, ret_rate);
	if (r == 0)
		*ret_live_vt = live_vt > old_live_vt ? (uint64_t)live_vt : old_live_vt;
	return r;
}

int lg_rate_change(const struct lg_rate *old, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t now_ns,
		   struct lg_rate *ret_rate)
{
	/* A limit of 0 from the start: nothing was ever taken, so no level is lost by better units. */
	if (!old->v0 && !old->mult && !old->burst_vt)
		return lg_rate_init(rate_tok, per_ns, burst_tok, now_ns, ret_rate);
	return change(old, rate_tok, per_ns, burst_tok, now_ns, ret_rate);
}

uint64_t lg_rate_vt(const struct lg_rate *rate, uint64_t t_ns)
{
	uint64_t elapsed_ns = t_ns > rate->anchor_ns ? t_ns - rate->anchor_ns : 0;

	return rate->v0 + (uint64_t)((u128)elapsed_ns * rate->mult >> rate->shift);
}

/* ---- windows and logs ---- */

static uint64_t window_index(const struct lg_window *window, uint64_t now_ns, uint64_t *ret_into_ns)
{
	uint64_t elapsed_ns = now_ns > window->anchor_ns ? now_ns - window->anchor_ns : 0;

	*ret_into_ns = elapsed_ns % window->length_ns;
	return window->index0 + elapsed_ns / window->length_ns;
}

void lg_window_change(const struct lg_window *old, uint64_t length_ns, uint64_t now_ns, struct lg_window *ret_window)
{
	struct lg_window next = { .length_ns = length_ns };
	uint64_t into_ns;

	if (old && old->length_ns == length_ns) {
		next = *old;
	} else if (old && old->length_ns) {
		next.anchor_ns = now_ns;
		next.index0 = window_index(old, now_ns, &into_ns);
	}
	*ret_window = next;
}

/* What a word counts of a window, by the low bits of its index. */
static uint64_t counted_tok(const struct lg_bucket *bucket, uint64_t index)
{
	uint64_t word = bucket->window[index & 1];

	return (word ^ index) & ((1u << LG_WINDOW_INDEX_BITS) - 1) ? 0 : word >> LG_WINDOW_INDEX_BITS;
}

uint64_t lg_window_left_tok(const struct lg_rule *rule, const struct lg_bucket *bucket, uint64_t now_ns)
{
	uint64_t length_ns = rule->window.length_ns, into_ns, index, spent_tok, before_tok;

	index = window_index(&rule->window, now_ns, &into_ns);
	/* Far from its last use the indexes may have come round. */
	if (now_ns > bucket->seen_ns && (now_ns - bucket->seen_ns) / length_ns >= 1u << (LG_WINDOW_INDEX_BITS - 2))
		return rule->rate_tok;
	spent_tok = counted_tok(bucket, index);
	before_tok = rule->algorithm == LG_RULE_SLIDING_WINDOW ? counted_tok(bucket, index - 1) : 0;
	spent_tok += (uint64_t)(((u128)before_tok * (length_ns - into_ns) + length_ns - 1) / length_ns);
	return spent_tok < rule->rate_tok ? rule->rate_tok - spent_tok : 0;
}

uint64_t lg_log_left_tok(const struct lg_rule *rule, const struct lg_log *log, uint64_t now_ns)
{
	uint64_t left_tok = rule->rate_tok, time_ns;

	for (uint64_t i = 1; i <= rule->rate_tok && i <= LG_LOG_SLOTS; i++) {
		time_ns = log->time_ns[(log->head - i) % LG_LOG_SLOTS] & ~(LG_LOG_COST_MAX - 1ull); /* the low bits are a cost */
		left_tok -= time_ns && time_ns + rule->window.length_ns > now_ns;
	}
	return left_tok;
}
