// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a request says -> the key of its bucket, as struct lg_key says. Texts are told apart by their lengths, so that no two tuples meet. */
#include <arpa/inet.h>
#include <string.h>

#include "base/num.h"
#include "rules/request.h"

/* ---- SipHash ---- */

static uint64_t rotate(uint64_t x, unsigned int bits)
{
	return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], unsigned int n)
{
	while (n--) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

struct sip {
	uint64_t v[4];
	uint64_t word;	/* bytes that make no whole word yet */
	uint64_t len;	/* of all so far */
	unsigned int rounds;
};

static void sip_begin(struct sip *s, const uint64_t key[2], bool is_secret)
{
	*s = (struct sip){ .v = { key[0] ^ 0x736f6d6570736575ull, key[1] ^ 0x646f72616e646f6dull ^ 0xee, key[0] ^ 0x6c7967656e657261ull,
				  key[1] ^ 0x7465646279746573ull },
			   .rounds = is_secret ? 2 : 1 };
}

static void sip_word(struct sip *s, uint64_t word)
{
	s->v[3] ^= word;
	sip_rounds(s->v, s->rounds);
	s->v[0] ^= word;
}

static void sip_add(struct sip *s, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++) {
		s->word |= (uint64_t)p[i] << (8 * (s->len++ & 7));
		if (s->len & 7)
			continue;
		sip_word(s, s->word);
		s->word = 0;
	}
}

static void sip_end(struct sip *s, uint64_t ret[2])
{
	unsigned int rounds = s->rounds == 2 ? 4 : 3;

	sip_word(s, s->word | s->len << 56);
	s->v[2] ^= 0xee;
	sip_rounds(s->v, rounds);
	ret[0] = s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
	s->v[1] ^= 0xdd;
	sip_rounds(s->v, rounds);
	ret[1] = s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

void lg_siphash(const uint64_t key[2], const void *data, size_t len, bool is_secret, uint64_t ret[2])
{
	struct sip s;

	sip_begin(&s, key, is_secret);
	sip_add(&s, data, len);
	sip_end(&s, ret);
}

/* ---- addresses ---- */

/* An address however it is spelt, IPv4 as a mapped one; a zone does not matter. What is none is ::. */
static void address_parse(struct lg_slice text, uint8_t ret[16])
{
	char buf[INET6_ADDRSTRLEN + 2];
	const char *zone = memchr(text.s, '%', text.len);
	size_t len = zone ? (size_t)(zone - text.s) : text.len, skip = 0;

	memset(ret, 0, 16);
	if (len >= 2 && text.s[0] == '[' && text.s[len - 1] == ']') {
		skip = 1;
		len -= 2;
	}
	if (!len || len >= sizeof(buf) || memchr(text.s + skip, '\0', len))
		return;
	memcpy(buf, text.s + skip, len);
	buf[len] = '\0';
	if (!zone && inet_pton(AF_INET, buf, ret + 12) == 1) {
		ret[10] = ret[11] = 0xff;
		return;
	}
	if (inet_pton(AF_INET6, buf, ret) != 1)
		memset(ret, 0, 16);
}

static void address_mask(const struct lg_rule *rule, bool is_destination, uint8_t addr[16])
{
	bool is4 = lg_addr_is_mapped(addr), is_product = !rule->key_form;
	const uint8_t *mask4 = is_product && is_destination ? rule->destination_mask4 : rule->key_mask4;
	const uint8_t *mask6 = is_product && is_destination ? rule->destination_mask6 : rule->key_mask6;

	for (size_t i = 0; i < 16; i++)
		addr[i] &= (is4 ? mask4 : mask6)[i];
}

/* ---- keys ---- */

/* The hash of a secret key without texts is that of packets. */
static void secret_address(const struct lg_request_rule *r, bool is_destination, const uint8_t addr[16], uint64_t ret[2])
{
	struct {
		struct lg_wide_key wide;
		struct lg_key_narrow narrow;
	} all = { 0 };

	memcpy(is_destination ? all.wide.destination : all.wide.source, addr, 16);
	lg_siphash(r->hash_key, &all, sizeof(all), true, ret);
}

static void texts_hash(const struct lg_request_rule *r, const struct lg_slice *texts, const uint8_t *addr, uint64_t ret[2])
{
	struct sip s;

	sip_begin(&s, r->hash_key, r->rule.product_form & LG_FORM_SECRET);
	if (addr)
		sip_add(&s, addr, 16);
	for (size_t i = 0; i < r->n_texts; i++) {
		uint8_t len[4] = { (uint8_t)texts[i].len, (uint8_t)(texts[i].len >> 8), (uint8_t)(texts[i].len >> 16),
				   (uint8_t)(texts[i].len >> 24) };

		sip_add(&s, len, sizeof(len));
		sip_add(&s, texts[i].s, texts[i].len);
	}
	sip_end(&s, ret);
}

/* The texts themselves, if they fit. */
static bool texts_fit(const struct lg_request_rule *r, const struct lg_slice *texts, uint8_t *to, size_t room)
{
	size_t at = 0;

	for (size_t i = 0; i < r->n_texts; i++) {
		if (texts[i].len >= room - at)
			return false;
		to[at++] = (uint8_t)texts[i].len;
		memcpy(to + at, texts[i].s, texts[i].len);
		at += texts[i].len;
		if (at == room && i + 1 < r->n_texts)
			return false;
	}
	return true;
}

void lg_request_key_make(const struct lg_request_rule *r, const struct lg_slice *texts, struct lg_slice address, struct lg_request_hit *hit)
{
	uint32_t form = r->rule.key_form ? r->rule.key_form : r->rule.product_form, parts = lg_key_parts(form);
	bool is_destination = parts & LG_KEY_DESTINATION, has_texts = parts & LG_KEY_TEXTS;
	uint8_t addr[16] = { 0 }, all[32] = { 0 };
	uint64_t hash[2];

	*hit = (struct lg_request_hit){ .rule = hit->rule, .key = { .rule_id = r->rule.rule_id, .form = form } };
	if (r->has_address) {
		address_parse(address, addr);
		address_mask(&r->rule, is_destination, addr);
		memcpy(hit->source, addr, sizeof(addr));
		memcpy(all, addr, sizeof(addr));
	}
	if (has_texts && !(form & LG_FORM_HASHED) && texts_fit(r, texts, all + (r->has_address ? 16 : 0), r->has_address ? 16 : 32)) {
		memcpy(hit->key.a, all, 16);
		memcpy(hit->key.b, all + 16, 16);
		return;
	}
	if (!has_texts && !(form & LG_FORM_HASHED)) {
		memcpy(hit->key.a, addr, sizeof(addr));
		return;
	}
	if (has_texts)
		texts_hash(r, texts, r->has_address ? addr : NULL, hash);
	else
		secret_address(r, is_destination, addr, hash);
	hit->key.form |= LG_FORM_HASHED;
	memcpy(hit->key.a, hash, sizeof(hash));
}
