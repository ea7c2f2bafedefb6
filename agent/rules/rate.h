/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The virtual time of a rate (struct lg_rate in abi.h): made here, run by the kernel. Pure. */
#pragma once

#include <stdint.h>

#include <leasegate/abi.h>

/**
 * lg_rate_init() - the virtual time of a new rule
 * @rate_tok:  tokens per @per_ns, 0 .. LG_BURST_MAX_TOK; 0 never refills
 * @per_ns:    1 .. LG_PER_MAX_NS; at most LG_RATE_MAX_TOK_PER_NS tokens per nanosecond
 * @burst_tok: 0 .. LG_BURST_MAX_TOK
 * @now_ns:    becomes the anchor, CLOCK_BOOTTIME
 *
 * Exact (shift 0) where the reduced fraction rate / per fits: v below 2^62 for 30 years and a burst below 2^61 units.
 * Else a token is the largest power of two of units that fits, and v is low by less than one unit plus a relative
 * 2^-40. A bucket that lies untouched for 2^63 units would be read as empty: over 60 years up to 4 tokens per
 * nanosecond, 4.5 at the maximum.
 *
 * Return: 0, -EINVAL for numbers outside those bounds.
 */
int lg_rate_init(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t now_ns, struct lg_rate *ret_rate);

#define LG_RATE_MAX_TOK_PER_NS 64 /* 512 Gbit/s in bytes */

/**
 * lg_rate_change() - the virtual time of a rule whose numbers change at @now_ns
 * @old: what was in force until now
 *
 * v goes on from its value of now and a token stays as many units as before, so that every bucket keeps its level: what
 * was spent stays spent, remaining = max(0, new burst - spent).
 *
 * Return: 0, -EINVAL as above, -ERANGE when the new numbers do not fit the units of the old ones (over 292 units per
 * nanosecond, some 70 to 290 times the rate the units were made for, or a burst of 2^62 units): then levels cannot
 * carry over under this rule_id.
 */
int lg_rate_change(const struct lg_rate *old, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t now_ns,
		   struct lg_rate *ret_rate);

/**
 * lg_rate_line_init() - the virtual time of a new rule whose positions have 40 bits (map `lines`)
 * @burst_tok:      below LG_LINE_BURST_MAX_TOK
 * @superframe_tok: what the dearest frame may cost, that passes a full bucket and is charged whole
 * @ret_live_vt:    largest debt of a slot: the larger of both, as far as it fits
 *
 * A token is 2^k units, k at most 16: as long as a unit takes a nanosecond or more and @ret_live_vt stays within 2^26, a 2^14th
 * of the ring, by which a slot of long ago can look as if it had just been spent. v is low by less than one unit plus a
 * relative 2^-60, so a bucket may admit up to one unit more than burst + rate * t in an interval t, and never more on the whole.
 *
 * Return: 0, -EINVAL as lg_rate_init(), -ERANGE for too large a burst.
 */
int lg_rate_line_init(uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok, uint64_t superframe_tok, uint64_t now_ns,
		      struct lg_rate *ret_rate, __u64 *ret_live_vt);
/* As lg_rate_change(). What was live stays live, so *ret_live_vt is @old_live_vt or more. -ERANGE where that does not fit the ring. */
int lg_rate_line_change(const struct lg_rate *old, uint64_t old_live_vt, uint64_t rate_tok, uint64_t per_ns, uint64_t burst_tok,
			uint64_t superframe_tok, uint64_t now_ns, struct lg_rate *ret_rate, __u64 *ret_live_vt);

/* v(@t_ns); a time before the anchor counts as the anchor. Wraps at 2^64: compare two virtual times by their difference. */
uint64_t lg_rate_vt(const struct lg_rate *rate, uint64_t t_ns);

/* ---- windows and logs of host scope ---- */

/**
 * lg_window_change() - the windows of a rule, from @now_ns on
 * @old: what was in force until now, or NULL for a new rule
 *
 * With the same length nothing changes. With another one the window at hand begins anew and keeps its index, so that what was counted
 * in it and in the one before it counts on: what was spent stays spent.
 */
void lg_window_change(const struct lg_window *old, uint64_t length_ns, uint64_t now_ns, struct lg_window *ret_window);

/* Tokens that a bucket of a fixed or sliding window admits at @now_ns. */
uint64_t lg_window_left_tok(const struct lg_rule *rule, const struct lg_bucket *bucket, uint64_t now_ns);

/* The same of a log. */
uint64_t lg_log_left_tok(const struct lg_rule *rule, const struct lg_log *log, uint64_t now_ns);
