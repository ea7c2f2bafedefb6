// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/num.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define QUOTED_BYTES 48
#define PER_MIN_NS 1000000ull

struct unit {
	const char *name;
	uint64_t scale;
};

static const struct unit durations[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000ull },
	{ "m", 60 * 1000000000ull },
	{ "h", 3600 * 1000000000ull },
	{ "d", 86400 * 1000000000ull },
};

/* Of two spellings of one length the formatter takes the earlier. */
static const struct unit byte_units[] = {
	{ "B", 1 },
	{ "kB", 1000 },
	{ "MB", 1000000 },
	{ "GB", 1000000000ull },
	{ "TB", 1000000000000ull },
	{ "KiB", 1ull << 10 },
	{ "MiB", 1ull << 20 },
	{ "GiB", 1ull << 30 },
	{ "TiB", 1ull << 40 },
};

/* Read only: amounts are kept in bytes and printed so. */
static const struct unit bit_units[] = {
	{ "bit", 1 },
	{ "kbit", 1000 },
	{ "Mbit", 1000000 },
	{ "Gbit", 1000000000ull },
	{ "Tbit", 1000000000000ull },
	{ "Kibit", 1ull << 10 },
	{ "Mibit", 1ull << 20 },
	{ "Gibit", 1ull << 30 },
	{ "Tibit", 1ull << 40 },
};

const char *lg_text_quote(const char *text, char buf[LG_QUOTE_LEN])
{
	size_t n = 0;

	buf[n++] = '"';
	for (; *text && n <= QUOTED_BYTES; text++)
		buf[n++] = isprint((unsigned char)*text) ? *text : '?';
	snprintf(buf + n, LG_QUOTE_LEN - n, "%s\"", *text ? "..." : "");
	return buf;
}

static const struct unit *unit_find(const struct unit *units, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

/*
 * The digits that text begins with, as a number; *ret_rest is what follows them. Too large a number is UINT64_MAX with
 * *ret_over set, so that the caller can name its own maximum. -EINVAL: no digits, or a leading zero.
 */
static int digits_read(const char *text, uint64_t *ret, bool *ret_over, const char **ret_rest)
{
	size_t n = strspn(text, "0123456789");
	uint64_t v = 0;

	if (n == 0 || (n > 1 && text[0] == '0'))
		return -EINVAL;
	*ret_over = false;
	for (size_t i = 0; i < n && !*ret_over; i++)
		*ret_over = __builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v);
	*ret = *ret_over ? UINT64_MAX : v;
	*ret_rest = text + n;
	return 0;
}

int lg_num_parse(const char *text, uint64_t min, uint64_t max, uint64_t *ret, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];
	const char *rest;
	uint64_t v;
	bool over;

	lg_text_quote(text, quoted);
	if (digits_read(text, &v, &over, &rest) < 0 || *rest)
		return lg_complain(c, "%s is not a whole number, such as 10", quoted);
	if (over || v > max)
		return lg_complain(c, "%s is above the maximum, %" PRIu64, quoted, max);
	if (v < min)
		return lg_complain(c, "%s is below the minimum, %" PRIu64, quoted, min);
	*ret = v;
	return 0;
}

/* v scaled; what does not fit becomes UINT64_MAX with *over set. */
static uint64_t scale_up(uint64_t v, uint64_t scale, bool *over)
{
	if (__builtin_mul_overflow(v, scale, &v))
		*over = true;
	return *over ? UINT64_MAX : v;
}

int lg_duration_parse(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN], bound[LG_NUM_TEXT_LEN];
	const struct unit *unit;
	const char *name;
	uint64_t v;
	bool over;

	lg_text_quote(text, quoted);
	if (digits_read(text, &v, &over, &name) < 0)
		return lg_complain(c, "%s is not a duration: write a whole number and a unit, as in 100ms, 90s, 5m", quoted);
	unit = unit_find(durations, N_ELEMS(durations), name);
	if (!unit)
		return lg_complain(c, "%s is not a duration: after the number comes one of ns, us, ms, s, m, h, d", quoted);
	v = scale_up(v, unit->scale, &over);
	lg_duration_format(v < min_ns ? min_ns : max_ns, bound, sizeof(bound));
	if (over || v > max_ns)
		return lg_complain(c, "%s is longer than the longest, %s", quoted, bound);
	if (v < min_ns)
		return lg_complain(c, "%s is shorter than the shortest, %s", quoted, bound);
	*ret_ns = v;
	return 0;
}

/* What is wrong with an amount whose unit is not in the tables. */
static int bytes_complain(const char *quoted, const char *unit, struct lg_complaint *c)
{
	if (!*unit)
		return lg_complain(c, "%s has no unit: write bytes or bits, as in 10MB, 64KiB, 80Mbit", quoted);
	if (*unit == '.')
		return lg_complain(c, "%s: write a whole number of a smaller unit, 1500kB for 1.5MB", quoted);
	if (strcmp(unit, "KB") == 0)
		return lg_complain(c, "%s is ambiguous: write kB for 1000 bytes or KiB for 1024", quoted);
	return lg_complain(c, "%s has no known unit: write B or bit after k, M, G, T (1000s) or Ki, Mi, Gi, Ti (1024s)", quoted);
}

int lg_bytes_parse(const char *text, uint64_t min_bytes, uint64_t max_bytes, uint64_t *ret_bytes, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN], bound[LG_NUM_TEXT_LEN];
	const struct unit *unit, *bits;
	const char *name;
	uint64_t v;
	bool over;

	lg_text_quote(text, quoted);
	if (digits_read(text, &v, &over, &name) < 0)
		return lg_complain(c, "%s is not an amount of bytes, such as 10MB or 80Mbit", quoted);
	unit = unit_find(byte_units, N_ELEMS(byte_units), name);
	bits = unit_find(bit_units, N_ELEMS(bit_units), name);
	if (!unit && !bits)
		return bytes_complain(quoted, name, c);
	v = scale_up(v, unit ? unit->scale : bits->scale, &over);
	if (bits && !over) {
		if (v % 8)
			return lg_complain(c, "%s is not a whole number of bytes: bits must divide by 8", quoted);
		v /= 8;
	}
	lg_bytes_format(v < min_bytes ? min_bytes : max_bytes, bound, sizeof(bound));
	if (over || v > max_bytes)
		return lg_complain(c, "%s is above the maximum, %s", quoted, bound);
	if (v < min_bytes)
		return lg_complain(c, "%s is below the minimum, %s", quoted, bound);
	*ret_bytes = v;
	return 0;
}

/* The count before the slash of a limit that is not one of bytes. */
static int count_parse(const char *amount, uint64_t max_tok, uint64_t *ret_tok, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];
	const char *rest;
	uint64_t v;
	bool over;

	if (digits_read(amount, &v, &over, &rest) == 0 && (unit_find(byte_units, N_ELEMS(byte_units), rest) ||
							   unit_find(bit_units, N_ELEMS(bit_units), rest)))
		return lg_complain(c, "%s is an amount of bytes, which needs `unit: bytes`", lg_text_quote(amount, quoted));
	return lg_num_parse(amount, 0, max_tok, ret_tok, c);
}

/* The time after the slash: a duration, or a unit alone for one of it. */
static int per_parse(const char *per, uint64_t max_ns, uint64_t *ret_ns, struct lg_complaint *c)
{
	char one[8];

	if (unit_find(durations, N_ELEMS(durations), per)) {
		snprintf(one, sizeof(one), "1%s", per);
		per = one;
	}
	return lg_duration_parse(per, PER_MIN_NS, max_ns, ret_ns, c);
}

int lg_limit_parse(const char *text, bool bytes, uint64_t max_tok, uint64_t max_ns, uint64_t *ret_tok, uint64_t *ret_per_ns,
		   struct lg_complaint *c)
{
	const char *example = bytes ? "10MB/1s or 80Mbit/s" : "10000/1m";
	char amount[LG_LIMIT_TEXT_LEN], quoted[LG_QUOTE_LEN];
	const char *slash = strchr(text, '/');
	uint64_t tok, per_ns;
	int r;

	lg_text_quote(text, quoted);
	if (!slash)
		return lg_complain(c, "%s says no time: write an amount per duration, such as %s", quoted, example);
	if ((size_t)(slash - text) >= sizeof(amount))
		return lg_complain(c, "%s is not a limit such as %s", quoted, example);
	snprintf(amount, sizeof(amount), "%.*s", (int)(slash - text), text);
	r = bytes ? lg_bytes_parse(amount, 0, max_tok, &tok, c) : count_parse(amount, max_tok, &tok, c);
	if (r < 0)
		return r;
	r = per_parse(slash + 1, max_ns, &per_ns, c);
	if (r < 0)
		return r;
	*ret_tok = tok;
	*ret_per_ns = per_ns;
	return 0;
}

int lg_permille_parse(const char *text, uint32_t min_permille, uint32_t max_permille, uint32_t *ret_permille,
		      struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN];
	const char *rest;
	uint64_t v;
	bool over;

	lg_text_quote(text, quoted);
	if (digits_read(text, &v, &over, &rest) < 0)
		return lg_complain(c, "%s is not a percentage such as 20%%", quoted);
	v = scale_up(v, 10, &over);
	if (!over && rest[0] == '.' && isdigit((unsigned char)rest[1])) {
		over = __builtin_add_overflow(v, (uint64_t)(rest[1] - '0'), &v);
		rest += 2;
	}
	if (strcmp(rest, "%") != 0)
		return lg_complain(c, "%s is not a percentage such as 20%% or 12.5%%", quoted);
	if (over || v < min_permille || v > max_permille)
		return lg_complain(c, "%s is outside %u.%u%% to %u.%u%%", quoted, min_permille / 10, min_permille % 10,
				   max_permille / 10, max_permille % 10);
	*ret_permille = (uint32_t)v;
	return 0;
}

bool lg_addr_is_mapped(const uint8_t addr[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(addr, mapped, sizeof(mapped)) == 0;
}

void lg_addr_mask(uint8_t addr[16], unsigned int n_bits)
{
	for (unsigned int i = n_bits / 8; i < 16; i++)
		addr[i] &= i == n_bits / 8 ? (uint8_t)(0xff00 >> n_bits % 8) : 0;
}

/* The address part alone. */
static int addr_parse(const char *text, uint8_t ret_addr[16], uint8_t *ret_family)
{
	uint8_t addr[16] = { [10] = 0xff, [11] = 0xff };

	*ret_family = strchr(text, ':') ? 6 : 4;
	if (inet_pton(*ret_family == 6 ? AF_INET6 : AF_INET, text, *ret_family == 6 ? addr : addr + 12) != 1)
		return -EINVAL;
	memcpy(ret_addr, addr, sizeof(addr));
	return 0;
}

/* A whole prefix is well formed; is it one that can be meant? */
static int prefix_check(const uint8_t addr[16], uint8_t family, uint8_t len, const char *quoted, struct lg_complaint *c)
{
	char right[LG_IP_TEXT_LEN], alone[LG_IP_TEXT_LEN];
	unsigned int shift = family == 4 ? 96 : 0;
	uint8_t net[16];

	memcpy(net, addr, sizeof(net));
	lg_addr_mask(net, shift + len);
	if (family == 6 && len >= 96 && lg_addr_is_mapped(addr)) {
		lg_prefix_format(net, 4, len - 96, right, sizeof(right));
		return lg_complain(c, "%s is IPv4 in IPv6 spelling: write %s", quoted, right);
	}
	if (memcmp(net, addr, sizeof(net)) == 0)
		return 0;
	lg_prefix_format(net, family, len, right, sizeof(right));
	lg_prefix_format(addr, family, family == 4 ? 32 : 128, alone, sizeof(alone));
	return lg_complain(c, "%s has bits set below its length: write %s, or %s for the one address", quoted, right, alone);
}

int lg_prefix_parse(const char *text, uint8_t ret_addr[16], uint8_t *ret_family, uint8_t *ret_len, struct lg_complaint *c)
{
	char quoted[LG_QUOTE_LEN], addr_text[LG_IP_TEXT_LEN];
	const char *slash = strchrnul(text, '/');
	uint8_t addr[16], family;
	uint64_t len;
	int r;

	lg_text_quote(text, quoted);
	if (strchr(text, '%'))
		return lg_complain(c, "%s: an address with a zone (after %%) cannot be matched: write it without", quoted);
	snprintf(addr_text, sizeof(addr_text), "%.*s", (int)(slash - text < 63 ? slash - text : 63), text);
	if (addr_parse(addr_text, addr, &family) < 0)
		return lg_complain(c, "%s is not a prefix such as 192.0.2.0/24 or 2001:db8::/32", quoted);
	len = family == 4 ? 32 : 128;
	if (*slash && lg_num_parse(slash + 1, 0, len, &len, c) < 0)
		return lg_complain(c, "%s: the length of an IPv%u prefix is 0 to %u", quoted, family, family == 4 ? 32 : 128);
	r = prefix_check(addr, family, (uint8_t)len, quoted, c);
	if (r < 0)
		return r;
	memcpy(ret_addr, addr, sizeof(addr));
	*ret_family = family;
	*ret_len = (uint8_t)len;
	return 0;
}

void lg_duration_format(uint64_t ns, char *buf, size_t len)
{
	size_t i = N_ELEMS(durations) - 1;

	if (ns == 0) {
		snprintf(buf, len, "0s");
		return;
	}
	while (ns % durations[i].scale)
		i--;
	snprintf(buf, len, "%" PRIu64 "%s", ns / durations[i].scale, durations[i].name);
}

void lg_bytes_format(uint64_t bytes, char *buf, size_t len)
{
	char best[LG_NUM_TEXT_LEN], text[LG_NUM_TEXT_LEN];

	snprintf(best, sizeof(best), "%" PRIu64 "B", bytes);
	for (size_t i = 1; bytes && i < N_ELEMS(byte_units); i++) {
		if (bytes % byte_units[i].scale)
			continue;
		snprintf(text, sizeof(text), "%" PRIu64 "%s", bytes / byte_units[i].scale, byte_units[i].name);
		if (strlen(text) < strlen(best))
			memcpy(best, text, sizeof(best));
	}
	snprintf(buf, len, "%s", best);
}

void lg_addr_format(const uint8_t addr[16], char *buf, size_t len)
{
	char text[INET6_ADDRSTRLEN];
	bool mapped = lg_addr_is_mapped(addr);

	inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? addr + 12 : addr, text, sizeof(text));
	snprintf(buf, len, "%s", text);
}

void lg_prefix_format(const uint8_t addr[16], uint8_t family, uint8_t prefix_len, char *buf, size_t len)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(family == 4 ? AF_INET : AF_INET6, family == 4 ? addr + 12 : addr, text, sizeof(text));
	snprintf(buf, len, "%s/%u", text, prefix_len);
}
