// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * version (1 byte), writer (8), number of rules (2), their identities (8 each), records, a hash of all that (8). Little-endian. A record is
 * the id and six numbers in base 128, low digits first, the top bit of a byte saying that another one follows.
 */
#include "lease/escrow_page.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#define VERSION 1
#define HASH_LEN 8u
#define HEAD_LEN (1u + 8u + 2u)
#define N_NUMBERS 6u
#define DIGITS_MAX 10u
#define TOK_MAX (1ull << 62)

void lg_escrow_id(uint64_t identity, const uint8_t *bytes, size_t len, uint8_t ret_id[LG_ESCROW_ID_LEN])
{
	XXH128_canonical_t id;

	XXH128_canonicalFromHash(&id, XXH3_128bits_withSeed(bytes, len, identity));
	memcpy(ret_id, id.digest, LG_ESCROW_ID_LEN);
}

static void put_fixed(struct lg_escrow_page *p, uint64_t value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		p->bytes[p->len++] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_fixed(const uint8_t *at, size_t len)
{
	uint64_t value = 0;

	for (size_t i = 0; i < len; i++)
		value |= (uint64_t)at[i] << (8 * i);
	return value;
}

void lg_escrow_page_begin(struct lg_escrow_page *p, uint64_t writer, const uint64_t *covered, size_t n_covered)
{
	p->len = 0;
	put_fixed(p, VERSION, 1);
	put_fixed(p, writer, 8);
	put_fixed(p, n_covered, 2);
	for (size_t i = 0; i < n_covered; i++)
		put_fixed(p, covered[i], 8);
}

static void put_number(struct lg_escrow_page *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		p->bytes[p->len++] = (uint8_t)(value | 0x80);
	p->bytes[p->len++] = (uint8_t)value;
}

bool lg_escrow_page_add(struct lg_escrow_page *p, const struct lg_escrow_record *record)
{
	const struct lg_escrow_mark *m = &record->mark;

	if (p->len + LG_ESCROW_ID_LEN + N_NUMBERS * DIGITS_MAX + HASH_LEN > LG_ESCROW_PAGE_MAX)
		return false;
	memcpy(p->bytes + p->len, record->id, LG_ESCROW_ID_LEN);
	p->len += LG_ESCROW_ID_LEN;
	put_number(p, m->consumed_tok);
	put_number(p, m->out_tok);
	put_number(p, m->next_tok);
	put_number(p, m->window_end_ns);
	put_number(p, m->per_ns);
	put_number(p, record->memory_ms);
	return true;
}

void lg_escrow_page_end(struct lg_escrow_page *p)
{
	put_fixed(p, XXH3_64bits(p->bytes, p->len), HASH_LEN);
}

/* False: it does not end within the page, or is no number of 64 bits. */
static bool get_number(struct lg_escrow_reader *r, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t digit = *r->at++;

		if (shift == 63 && digit > 1)
			return false;
		*ret |= (uint64_t)(digit & 0x7f) << shift;
		if (!(digit & 0x80))
			return true;
	}
	return false;
}

static bool record_read(struct lg_escrow_reader *r, struct lg_escrow_record *ret)
{
	struct lg_escrow_mark *m = &ret->mark;

	if (r->end - r->at < (ptrdiff_t)LG_ESCROW_ID_LEN)
		return false;
	memcpy(ret->id, r->at, LG_ESCROW_ID_LEN);
	r->at += LG_ESCROW_ID_LEN;
	return get_number(r, &m->consumed_tok) && get_number(r, &m->out_tok) && get_number(r, &m->next_tok) &&
	       get_number(r, &m->window_end_ns) && get_number(r, &m->per_ns) && get_number(r, &ret->memory_ms) &&
	       m->consumed_tok <= TOK_MAX && m->out_tok <= TOK_MAX && m->next_tok <= TOK_MAX && m->window_end_ns <= TOK_MAX &&
	       m->per_ns <= TOK_MAX;
}

static int refuse(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EBADMSG;
}

int lg_escrow_page_open(struct lg_escrow_reader *r, const void *bytes, size_t len, const char **ret_why)
{
	struct lg_escrow_record record;
	const uint8_t *first = bytes;

	*r = (struct lg_escrow_reader){ 0 };
	if (len < HEAD_LEN + HASH_LEN || len > LG_ESCROW_PAGE_MAX)
		return refuse(ret_why, "its length is none of a page");
	if (first[0] != VERSION)
		return refuse(ret_why, "a later version of this program has written it");
	if (get_fixed(first + len - HASH_LEN, HASH_LEN) != XXH3_64bits(bytes, len - HASH_LEN))
		return refuse(ret_why, "its bytes have changed since they were written");
	r->writer = get_fixed(first + 1, 8);
	r->n_covered = (size_t)get_fixed(first + 9, 2);
	if (r->n_covered > LG_RULES_MAX || len < HEAD_LEN + 8 * r->n_covered + HASH_LEN)
		return refuse(ret_why, "it names more rules than it can");
	for (size_t i = 0; i < r->n_covered; i++)
		r->covered[i] = get_fixed(first + HEAD_LEN + 8 * i, 8);
	first += HEAD_LEN + 8 * r->n_covered;
	r->at = first;
	r->end = (const uint8_t *)bytes + len - HASH_LEN;
	while (r->at < r->end) {
		if (!record_read(r, &record))
			return refuse(ret_why, "one of its records is none");
		r->n_records++;
	}
	r->at = first;
	return 0;
}

bool lg_escrow_page_next(struct lg_escrow_reader *r, struct lg_escrow_record *ret_record)
{
	return r->at < r->end && record_read(r, ret_record);
}
