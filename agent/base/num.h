/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What people write -> numbers, and back: counts, durations, amounts of bytes, limits, addresses and prefixes.
 *
 * Pure. A parser reads the whole text or refuses it: -EINVAL with c->text saying what is wrong and how to write it (the place is
 * the caller's), outputs untouched. Nothing wraps: what does not fit is refused with the bound in the text. A formatter writes
 * the shortest spelling that its parser reads back to the same value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/complaint.h"

#define LG_IP_TEXT_LEN 64	/* holds any address or prefix as text */
#define LG_NUM_TEXT_LEN 32	/* holds any count, duration or amount of bytes as text */
#define LG_LIMIT_TEXT_LEN 64	/* holds any limit as text */

/**
 * lg_num_parse() - a whole number, decimal digits only
 * @min, @max: smallest and largest accepted, inclusive
 *
 * No sign, blank, leading zero, fraction or exponent.
 */
int lg_num_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct lg_complaint *c);

/**
 * lg_duration_parse() - a number and one unit: ns us ms s m h d, as in 100ms or 1d
 */
int lg_duration_parse(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns, struct lg_complaint *c);

/**
 * lg_bytes_parse() - a number and a unit of bytes or bits: 1500B, 10MB, 64KiB, 80Mbit
 *
 * k, M, G, T are powers of 1000 and Ki, Mi, Gi, Ti of 1024, before B or bit. Bits must make whole bytes. A bare number is refused:
 * it is bits to one reader and bytes to the next.
 */
int lg_bytes_parse(const char *text, uint64_t min_bytes, uint64_t max_bytes, uint64_t *ret_bytes, struct lg_complaint *c);

/**
 * lg_limit_parse() - an amount per duration: 10000/1m, 80Mbit/s
 * @bytes:   the amount is one of bytes and needs its unit; else a bare number
 * @max_tok: largest amount accepted; the smallest is 0
 * @max_ns:  longest duration accepted; the shortest is 1 ms. A unit alone means one of it: /s is /1s.
 */
int lg_limit_parse(const char *text, bool bytes, uint64_t max_tok, uint64_t max_ns, uint64_t *ret_tok, uint64_t *ret_per_ns,
		   struct lg_complaint *c);

/**
 * lg_permille_parse() - a percentage with at most one decimal, 20% or 12.5%, as parts in a thousand
 */
int lg_permille_parse(const char *text, uint32_t min_permille, uint32_t max_permille, uint32_t *ret_permille,
		      struct lg_complaint *c);

/**
 * lg_prefix_parse() - an IPv4 or IPv6 prefix; an address alone is its longest prefix
 * @ret_addr:   IPv6, or IPv4 as ::ffff:a.b.c.d
 * @ret_family: 4 or 6
 * @ret_len:    as written: 0 .. 32 or 0 .. 128
 *
 * Bits set below the prefix are refused with the spelling that was probably meant, as are zone ids and IPv4 in IPv6 spelling.
 */
int lg_prefix_parse(const char *text, uint8_t ret_addr[16], uint8_t *ret_family, uint8_t *ret_len, struct lg_complaint *c);

/* Clears what lies below the first `n_bits` (0 .. 128) of addr; makes a mask of all ones into a prefix mask. */
void lg_addr_mask(uint8_t addr[16], unsigned int n_bits);

/* "1m", "90s", "0s" */
void lg_duration_format(uint64_t ns, char *buf, size_t len);
/* "10MB", "64KiB", "1500B" */
void lg_bytes_format(uint64_t bytes, char *buf, size_t len);
/* "192.0.2.7" for a mapped IPv4 address, else IPv6 */
void lg_addr_format(const uint8_t addr[16], char *buf, size_t len);
/* "192.0.2.0/24"; always with its length */
void lg_prefix_format(const uint8_t addr[16], uint8_t family, uint8_t prefix_len, char *buf, size_t len);

/* Is it ::ffff:a.b.c.d? */
bool lg_addr_is_mapped(const uint8_t addr[16]);

/* text in double quotes for a message: cut after 48 bytes, bytes that do not print as '?'. Returns buf. */
#define LG_QUOTE_LEN 64
const char *lg_text_quote(const char *text, char buf[LG_QUOTE_LEN]);
