// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/num.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define MS 1000000ull
#define S 1000000000ull
#define DAY (86400 * S)

static void whole_numbers_are_read_up_to_the_last_one_of_64_bits(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} rows[] = {
		{ "0", 0 },
		{ "7", 7 },
		{ "4294967295", 4294967295ull },
		{ "4294967296", 4294967296ull },
		{ "9223372036854775807", 9223372036854775807ull },
		{ "9223372036854775808", 9223372036854775808ull },
		{ "18446744073709551615", UINT64_MAX },
	};
	struct lg_complaint c = { 0 };

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t value = 1;

		assert_int_equal(lg_num_parse(rows[i].text, 0, UINT64_MAX, &value, &c), 0);
		assert_true(value == rows[i].value);
	}
}

static void whatever_is_no_whole_number_in_range_is_refused_in_words(void **state)
{
	static const struct {
		const char *text;
		uint64_t min, max;
		const char *why;
	} rows[] = {
		{ "", 0, 9, "\"\" is not a whole number, such as 10" },
		{ "-1", 0, 9, "\"-1\" is not a whole number, such as 10" },
		{ "+1", 0, 9, "\"+1\" is not a whole number, such as 10" },
		{ " 1", 0, 9, "\" 1\" is not a whole number, such as 10" },
		{ "1 ", 0, 9, "\"1 \" is not a whole number, such as 10" },
		{ "1.0", 0, 9, "\"1.0\" is not a whole number, such as 10" },
		{ "1e3", 0, 9, "\"1e3\" is not a whole number, such as 10" },
		{ "0x10", 0, 99, "\"0x10\" is not a whole number, such as 10" },
		{ "010", 0, 99, "\"010\" is not a whole number, such as 10" },
		{ "1_000", 0, 9999, "\"1_000\" is not a whole number, such as 10" },
		{ "ten\x01", 0, 9, "\"ten?\" is not a whole number, such as 10" },
		{ "10", 0, 9, "\"10\" is above the maximum, 9" },
		{ "9", 10, 20, "\"9\" is below the minimum, 10" },
		{ "18446744073709551616", 0, UINT64_MAX,
		  "\"18446744073709551616\" is above the maximum, 18446744073709551615" },
		{ "99999999999999999999999999", 0, 5, "\"99999999999999999999999999\" is above the maximum, 5" },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t value = 77;

		assert_int_equal(lg_num_parse(rows[i].text, rows[i].min, rows[i].max, &value, &c), -EINVAL);
		assert_string_equal(c.text, rows[i].why);
		assert_int_equal(value, 77);
	}
}

static void a_long_text_is_cut_in_messages(void **state)
{
	char text[4000];
	struct lg_complaint c;
	uint64_t value;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(lg_num_parse(text, 0, 9, &value, &c), -EINVAL);
	assert_string_equal(
		c.text, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\" is not a whole number, such as 10");
}

static void durations_have_one_unit_and_survive_the_way_back(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
		const char *back;
	} rows[] = {
		{ "1ns", 1, "1ns" },
		{ "1000ns", 1000, "1us" },
		{ "250us", 250000, "250us" },
		{ "100ms", 100 * MS, "100ms" },
		{ "1s", S, "1s" },
		{ "60s", 60 * S, "1m" },
		{ "90s", 90 * S, "90s" },
		{ "5m", 300 * S, "5m" },
		{ "1h", 3600 * S, "1h" },
		{ "36h", 36 * 3600 * S, "36h" },
		{ "1d", DAY, "1d" },
		{ "25d", 25 * DAY, "25d" },
		{ "31d", 31 * DAY, "31d" },
		{ "0s", 0, "0s" },
		{ "1500ms", 1500 * MS, "1500ms" },
	};
	char back[LG_NUM_TEXT_LEN];
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t ns = 1, again = 2;

		assert_int_equal(lg_duration_parse(rows[i].text, 0, 31 * DAY, &ns, &c), 0);
		assert_true(ns == rows[i].ns);
		lg_duration_format(ns, back, sizeof(back));
		assert_string_equal(back, rows[i].back);
		assert_int_equal(lg_duration_parse(back, 0, 31 * DAY, &again, &c), 0);
		assert_true(again == ns);
	}
}

static void durations_that_are_none_or_out_of_range_are_refused(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "\"\" is not a duration: write a whole number and a unit, as in 100ms, 90s, 5m" },
		{ "s", "\"s\" is not a duration: write a whole number and a unit, as in 100ms, 90s, 5m" },
		{ "10", "\"10\" is not a duration: after the number comes one of ns, us, ms, s, m, h, d" },
		{ "1.5s", "\"1.5s\" is not a duration: after the number comes one of ns, us, ms, s, m, h, d" },
		{ "1M", "\"1M\" is not a duration: after the number comes one of ns, us, ms, s, m, h, d" },
		{ "1h30m", "\"1h30m\" is not a duration: after the number comes one of ns, us, ms, s, m, h, d" },
		{ "1day", "\"1day\" is not a duration: after the number comes one of ns, us, ms, s, m, h, d" },
		{ "999us", "\"999us\" is shorter than the shortest, 1ms" },
		{ "0s", "\"0s\" is shorter than the shortest, 1ms" },
		{ "32d", "\"32d\" is longer than the longest, 31d" },
		{ "365d", "\"365d\" is longer than the longest, 31d" },
		{ "213504d", "\"213504d\" is longer than the longest, 31d" },
		{ "18446744073709551616ns", "\"18446744073709551616ns\" is longer than the longest, 31d" },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t ns = 77;

		assert_int_equal(lg_duration_parse(rows[i].text, MS, 31 * DAY, &ns, &c), -EINVAL);
		assert_string_equal(c.text, rows[i].why);
		assert_int_equal(ns, 77);
	}
}

static void bytes_and_bits_are_exact(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		const char *back;
	} rows[] = {
		{ "1500B", 1500, "1500B" },
		{ "64KiB", 65536, "64KiB" },
		{ "10MB", 10000000, "10MB" },
		{ "80Mbit", 10000000, "10MB" },
		{ "8Mbit", 1000000, "1MB" },
		{ "1MB", 1000000, "1MB" },
		{ "1MiB", 1048576, "1MiB" },
		{ "8bit", 1, "1B" },
		{ "8kbit", 1000, "1kB" },
		{ "8Kibit", 1024, "1KiB" },
		{ "10Gbit", 1250000000ull, "1250MB" },
		{ "25Gbit", 3125000000ull, "3125MB" },
		{ "100Gbit", 12500000000ull, "12500MB" },
		{ "400Gbit", 50000000000ull, "50GB" },
		{ "1TiB", 1ull << 40, "1TiB" },
		{ "0B", 0, "0B" },
	};
	char back[LG_NUM_TEXT_LEN];
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t bytes = 1, again = 2;

		assert_int_equal(lg_bytes_parse(rows[i].text, 0, 1ull << 40, &bytes, &c), 0);
		assert_true(bytes == rows[i].bytes);
		lg_bytes_format(bytes, back, sizeof(back));
		assert_string_equal(back, rows[i].back);
		assert_int_equal(lg_bytes_parse(back, 0, 1ull << 40, &again, &c), 0);
		assert_true(again == bytes);
	}
}

static void bytes_without_a_clear_unit_or_out_of_range_are_refused(void **state)
{
#define UNKNOWN " has no known unit: write B or bit after k, M, G, T (1000s) or Ki, Mi, Gi, Ti (1024s)"
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "", "\"\" is not an amount of bytes, such as 10MB or 80Mbit" },
		{ "MB", "\"MB\" is not an amount of bytes, such as 10MB or 80Mbit" },
		{ "-1MB", "\"-1MB\" is not an amount of bytes, such as 10MB or 80Mbit" },
		{ "1000", "\"1000\" has no unit: write bytes or bits, as in 10MB, 64KiB, 80Mbit" },
		{ "1.5MB", "\"1.5MB\": write a whole number of a smaller unit, 1500kB for 1.5MB" },
		{ "64KB", "\"64KB\" is ambiguous: write kB for 1000 bytes or KiB for 1024" },
		{ "10Mb", "\"10Mb\"" UNKNOWN },
		{ "10mb", "\"10mb\"" UNKNOWN },
		{ "10Mbps", "\"10Mbps\"" UNKNOWN },
		{ "10 MB", "\"10 MB\"" UNKNOWN },
		{ "10M", "\"10M\"" UNKNOWN },
		{ "1bit", "\"1bit\" is not a whole number of bytes: bits must divide by 8" },
		{ "9Kibit", NULL }, /* 1152 bytes */
		{ "9bit", "\"9bit\" is not a whole number of bytes: bits must divide by 8" },
		{ "999B", "\"999B\" is below the minimum, 1kB" },
		{ "1025GiB", "\"1025GiB\" is above the maximum, 1TiB" },
		{ "2TiB", "\"2TiB\" is above the maximum, 1TiB" },
		{ "16777216TiB", "\"16777216TiB\" is above the maximum, 1TiB" },
		{ "18446744073709551615Tbit", "\"18446744073709551615Tbit\" is above the maximum, 1TiB" },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t bytes = 77;

		assert_int_equal(lg_bytes_parse(rows[i].text, 1000, 1ull << 40, &bytes, &c), rows[i].why ? -EINVAL : 0);
		assert_int_equal(bytes, rows[i].why ? 77 : 1152);
		if (rows[i].why)
			assert_string_equal(c.text, rows[i].why);
	}
#undef UNKNOWN
}

static void limits_are_an_amount_per_duration(void **state)
{
	static const struct {
		const char *text;
		bool bytes;
		uint64_t tok, per_ns;
	} rows[] = {
		{ "10000/1m", false, 10000, 60 * S },
		{ "10000/m", false, 10000, 60 * S },
		{ "10000/10s", false, 10000, 10 * S },
		{ "1/d", false, 1, DAY },
		{ "1/s", false, 1, S },
		{ "7/90s", false, 7, 90 * S },
		{ "0/1s", false, 0, S },
		{ "5/ms", false, 5, MS },
		{ "980000000/10s", false, 980000000, 10 * S },
		{ "4294967295/1s", false, 4294967295ull, S },
		{ "4294967296/1s", false, 4294967296ull, S },
		{ "1099511627776/31d", false, 1ull << 40, 31 * DAY },
		{ "80Mbit/s", true, 10000000, S },
		{ "10MB/s", true, 10000000, S },
		{ "8Mbit/1s", true, 1000000, S },
		{ "400Gbit/s", true, 50000000000ull, S },
		{ "64KiB/100ms", true, 65536, 100 * MS },
		{ "0B/1s", true, 0, S },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t tok = 1, per_ns = 2;

		assert_int_equal(lg_limit_parse(rows[i].text, rows[i].bytes, 1ull << 40, 31 * DAY, &tok, &per_ns, &c),
				 0);
		assert_true(tok == rows[i].tok);
		assert_true(per_ns == rows[i].per_ns);
	}
}

static void limits_that_say_half_or_too_much_are_refused(void **state)
{
	static const struct {
		const char *text;
		bool bytes;
		const char *why;
	} rows[] = {
		{ "10000", false, "\"10000\" says no time: write an amount per duration, such as 10000/1m" },
		{ "80Mbit", true,
		  "\"80Mbit\" says no time: write an amount per duration, such as 10MB/1s or 80Mbit/s" },
		{ "/1m", false, "\"\" is not a whole number, such as 10" },
		{ "10000/", false, "\"\" is not a duration: write a whole number and a unit, as in 100ms, 90s, 5m" },
		{ "1/0s", false, "\"0s\" is shorter than the shortest, 1ms" },
		{ "1/999us", false, "\"999us\" is shorter than the shortest, 1ms" },
		{ "1/ns", false, "\"1ns\" is shorter than the shortest, 1ms" },
		{ "1/day", false, "\"day\" is not a duration: write a whole number and a unit, as in 100ms, 90s, 5m" },
		{ "1/32d", false, "\"32d\" is longer than the longest, 31d" },
		{ "1/1m/1s", false,
		  "\"1m/1s\" is not a duration: after the number comes one of ns, us, ms, s, m, h, d" },
		{ "10MB/s", false, "\"10MB\" is an amount of bytes, which needs `unit: bytes`" },
		{ "8bit/s", false, "\"8bit\" is an amount of bytes, which needs `unit: bytes`" },
		{ "1000/s", true, "\"1000\" has no unit: write bytes or bits, as in 10MB, 64KiB, 80Mbit" },
		{ "1099511627777/s", false, "\"1099511627777\" is above the maximum, 1099511627776" },
		{ "9223372036854775807/s", false, "\"9223372036854775807\" is above the maximum, 1099511627776" },
		{ "18446744073709551615/s", false, "\"18446744073709551615\" is above the maximum, 1099511627776" },
		{ "18446744073709551616/s", false, "\"18446744073709551616\" is above the maximum, 1099511627776" },
		{ "1099511627777B/s", true, "\"1099511627777B\" is above the maximum, 1TiB" },
		{ "00000000000000000000000000000000000000000000000000000000000000001/s", false,
		  "\"000000000000000000000000000000000000000000000000...\" is not a limit such as 10000/1m" },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint64_t tok = 77, per_ns = 78;

		assert_int_equal(lg_limit_parse(rows[i].text, rows[i].bytes, 1ull << 40, 31 * DAY, &tok, &per_ns, &c),
				 -EINVAL);
		assert_string_equal(c.text, rows[i].why);
		assert_int_equal(tok, 77);
		assert_int_equal(per_ns, 78);
	}
}

static void percentages_have_at_most_one_decimal(void **state)
{
	static const struct {
		const char *text;
		uint32_t permille;
		const char *why;
	} rows[] = {
		{ "20%", 200, NULL },
		{ "12.5%", 125, NULL },
		{ "10%", 100, NULL },
		{ "50.0%", 500, NULL },
		{ "9.9%", 0, "\"9.9%\" is outside 10.0% to 50.0%" },
		{ "50.1%", 0, "\"50.1%\" is outside 10.0% to 50.0%" },
		{ "429496750%", 0, "\"429496750%\" is outside 10.0% to 50.0%" },
		{ "18446744073709551616%", 0, "\"18446744073709551616%\" is outside 10.0% to 50.0%" },
		{ "20", 0, "\"20\" is not a percentage such as 20% or 12.5%" },
		{ "0.2", 0, "\"0.2\" is not a percentage such as 20% or 12.5%" },
		{ "12.25%", 0, "\"12.25%\" is not a percentage such as 20% or 12.5%" },
		{ "20 %", 0, "\"20 %\" is not a percentage such as 20% or 12.5%" },
		{ "%", 0, "\"%\" is not a percentage such as 20%" },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint32_t permille = 77;

		assert_int_equal(lg_permille_parse(rows[i].text, 100, 500, &permille, &c), rows[i].why ? -EINVAL : 0);
		assert_int_equal(permille, rows[i].why ? 77 : rows[i].permille);
		if (rows[i].why)
			assert_string_equal(c.text, rows[i].why);
	}
}

static void prefixes_of_every_kind_are_read(void **state)
{
	static const struct {
		const char *text;
		uint8_t family, len;
		const char *back;
	} rows[] = {
		{ "0.0.0.0/0", 4, 0, "0.0.0.0/0" },
		{ "128.0.0.0/1", 4, 1, "128.0.0.0/1" },
		{ "10.0.0.0/31", 4, 31, "10.0.0.0/31" },
		{ "192.0.2.7/32", 4, 32, "192.0.2.7/32" },
		{ "192.0.2.7", 4, 32, "192.0.2.7/32" },
		{ "::/0", 6, 0, "::/0" },
		{ "2001:db8::/63", 6, 63, "2001:db8::/63" },
		{ "2001:db8::/64", 6, 64, "2001:db8::/64" },
		{ "2001:db8:0:0:8000::/65", 6, 65, "2001:db8:0:0:8000::/65" },
		{ "2001:db8::2/127", 6, 127, "2001:db8::2/127" },
		{ "2001:db8::1/128", 6, 128, "2001:db8::1/128" },
		{ "2001:db8::1", 6, 128, "2001:db8::1/128" },
		{ "2001:DB8:0:0::1", 6, 128, "2001:db8::1/128" },
		{ "2001:db8:0:0:0:0:0:1", 6, 128, "2001:db8::1/128" },
		{ "2001:0db8:0000:0000:0000:0000:0000:0001", 6, 128, "2001:db8::1/128" },
		{ "2001:db8::0.0.0.1", 6, 128, "2001:db8::1/128" },
	};
	char back[LG_IP_TEXT_LEN];
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint8_t addr[16], family = 0, len = 0;

		assert_int_equal(lg_prefix_parse(rows[i].text, addr, &family, &len, &c), 0);
		assert_int_equal(family, rows[i].family);
		assert_int_equal(len, rows[i].len);
		lg_prefix_format(addr, family, len, back, sizeof(back));
		assert_string_equal(back, rows[i].back);
	}
}

static void prefixes_that_cannot_be_meant_are_refused_with_the_right_spelling(void **state)
{
#define NO_PREFIX " is not a prefix such as 192.0.2.0/24 or 2001:db8::/32"
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "10.0.0.1/8", "\"10.0.0.1/8\" has bits set below its length: write 10.0.0.0/8, or 10.0.0.1/32 for "
				"the one address" },
		{ "10.0.0.1/31", "\"10.0.0.1/31\" has bits set below its length: write 10.0.0.0/31, or 10.0.0.1/32 for "
				 "the one address" },
		{ "0.0.0.1/0",
		  "\"0.0.0.1/0\" has bits set below its length: write 0.0.0.0/0, or 0.0.0.1/32 for the one address" },
		{ "2001:db8::1/64",
		  "\"2001:db8::1/64\" has bits set below its length: write 2001:db8::/64, or 2001:db8::1/128 for the "
		  "one address" },
		{ "2001:db8::1/127",
		  "\"2001:db8::1/127\" has bits set below its length: write 2001:db8::/127, or 2001:db8::1/128 for "
		  "the one address" },
		{ "10.0.0.0/33", "\"10.0.0.0/33\": the length of an IPv4 prefix is 0 to 32" },
		{ "10.0.0.0/", "\"10.0.0.0/\": the length of an IPv4 prefix is 0 to 32" },
		{ "10.0.0.0/-1", "\"10.0.0.0/-1\": the length of an IPv4 prefix is 0 to 32" },
		{ "10.0.0.0/8/8", "\"10.0.0.0/8/8\": the length of an IPv4 prefix is 0 to 32" },
		{ "10.0.0.0/255.0.0.0", "\"10.0.0.0/255.0.0.0\": the length of an IPv4 prefix is 0 to 32" },
		{ "::/129", "\"::/129\": the length of an IPv6 prefix is 0 to 128" },
		{ "::/18446744073709551617", "\"::/18446744073709551617\": the length of an IPv6 prefix is 0 to 128" },
		{ "10.0.0/24", "\"10.0.0/24\"" NO_PREFIX },
		{ "010.0.0.0/8", "\"010.0.0.0/8\"" NO_PREFIX },
		{ "256.0.0.0/8", "\"256.0.0.0/8\"" NO_PREFIX },
		{ "10.0.0.0 /8", "\"10.0.0.0 /8\"" NO_PREFIX },
		{ "anywhere", "\"anywhere\"" NO_PREFIX },
		{ "", "\"\"" NO_PREFIX },
		{ "/8", "\"/8\"" NO_PREFIX },
		{ ":::", "\":::\"" NO_PREFIX },
		{ "2001:db8::1::/64", "\"2001:db8::1::/64\"" NO_PREFIX },
		{ "fe80::1%eth0",
		  "\"fe80::1%eth0\": an address with a zone (after %) cannot be matched: write it without" },
		{ "fe80::%eth0/64",
		  "\"fe80::%eth0/64\": an address with a zone (after %) cannot be matched: write it without" },
		{ "::ffff:192.0.2.7", "\"::ffff:192.0.2.7\" is IPv4 in IPv6 spelling: write 192.0.2.7/32" },
		{ "::ffff:192.0.2.0/120", "\"::ffff:192.0.2.0/120\" is IPv4 in IPv6 spelling: write 192.0.2.0/24" },
		{ "::ffff:0:0/96", "\"::ffff:0:0/96\" is IPv4 in IPv6 spelling: write 0.0.0.0/0" },
		{ "11111111111111111111111111111111111111111111111111111111111111111111111111",
		  "\"111111111111111111111111111111111111111111111111...\"" NO_PREFIX },
	};
	struct lg_complaint c;

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		uint8_t addr[16] = { 7 }, family = 77, len = 78;

		assert_int_equal(lg_prefix_parse(rows[i].text, addr, &family, &len, &c), -EINVAL);
		assert_string_equal(c.text, rows[i].why);
		assert_int_equal(addr[0], 7);
		assert_int_equal(family, 77);
		assert_int_equal(len, 78);
	}
#undef NO_PREFIX
}

/* xorshift: the same numbers on every machine. */
static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void ten_thousand_random_prefixes_survive_text_and_back(void **state)
{
	uint64_t seed = 0x6c656173656761ull;
	struct lg_complaint c;

	(void)state;
	for (int round = 0; round < 10000; round++) {
		uint8_t family = random_next(&seed) & 1 ? 4 : 6, addr[16], addr_back[16], family_back, len_back;
		uint8_t len = (uint8_t)(random_next(&seed) % (family == 4 ? 33 : 129));
		char text[LG_IP_TEXT_LEN];

		for (size_t i = 0; i < sizeof(addr); i++)
			addr[i] = (uint8_t)(random_next(&seed) >> 32);
		if (family == 4)
			memcpy(addr, (uint8_t[12]){ [10] = 0xff, [11] = 0xff }, 12);
		/* Independent of lg_addr_mask(): bit by bit. */
		for (unsigned int bit = len + (family == 4 ? 96 : 0); bit < 128; bit++)
			addr[bit / 8] &= (uint8_t) ~(0x80 >> bit % 8);
		lg_prefix_format(addr, family, len, text, sizeof(text));
		assert_int_equal(lg_prefix_parse(text, addr_back, &family_back, &len_back, &c), 0);
		assert_int_equal(family_back, family);
		assert_int_equal(len_back, len);
		assert_memory_equal(addr_back, addr, sizeof(addr));
	}
}

static void masks_clear_all_below_and_nothing_above(void **state)
{
	(void)state;
	for (unsigned int n = 0; n <= 128; n++) {
		uint8_t mask[16];

		memset(mask, 0xff, sizeof(mask));
		lg_addr_mask(mask, n);
		for (unsigned int bit = 0; bit < 128; bit++)
			assert_int_equal(mask[bit / 8] >> (7 - bit % 8) & 1, bit < n);
	}
}

static void addresses_print_by_family(void **state)
{
	uint8_t mapped[16] = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 7 };
	uint8_t v6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
	char text[LG_IP_TEXT_LEN];

	(void)state;
	lg_addr_format(mapped, text, sizeof(text));
	assert_string_equal(text, "192.0.2.7");
	assert_true(lg_addr_is_mapped(mapped));
	lg_addr_format(v6, text, sizeof(text));
	assert_string_equal(text, "2001:db8::1");
	assert_false(lg_addr_is_mapped(v6));
}

static void random_amounts_survive_text_and_back(void **state)
{
	static const uint64_t scales[] = { 1, 1000, 1024, 1000000, 1048576, S, 1ull << 30, 60 * S };
	uint64_t seed = 42;
	struct lg_complaint c;
	char text[LG_NUM_TEXT_LEN];

	(void)state;
	for (int round = 0; round < 10000; round++) {
		uint64_t v = random_next(&seed) >> (random_next(&seed) % 64), back = 0;

		v -= v % scales[random_next(&seed) % N_ELEMS(scales)];
		lg_bytes_format(v, text, sizeof(text));
		assert_int_equal(lg_bytes_parse(text, 0, UINT64_MAX, &back, &c), 0);
		assert_true(back == v);
		lg_duration_format(v, text, sizeof(text));
		assert_int_equal(lg_duration_parse(text, 0, UINT64_MAX, &back, &c), 0);
		assert_true(back == v);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_numbers_are_read_up_to_the_last_one_of_64_bits),
		cmocka_unit_test(whatever_is_no_whole_number_in_range_is_refused_in_words),
		cmocka_unit_test(a_long_text_is_cut_in_messages),
		cmocka_unit_test(durations_have_one_unit_and_survive_the_way_back),
		cmocka_unit_test(durations_that_are_none_or_out_of_range_are_refused),
		cmocka_unit_test(bytes_and_bits_are_exact),
		cmocka_unit_test(bytes_without_a_clear_unit_or_out_of_range_are_refused),
		cmocka_unit_test(limits_are_an_amount_per_duration),
		cmocka_unit_test(limits_that_say_half_or_too_much_are_refused),
		cmocka_unit_test(percentages_have_at_most_one_decimal),
		cmocka_unit_test(prefixes_of_every_kind_are_read),
		cmocka_unit_test(prefixes_that_cannot_be_meant_are_refused_with_the_right_spelling),
		cmocka_unit_test(ten_thousand_random_prefixes_survive_text_and_back),
		cmocka_unit_test(masks_clear_all_below_and_nothing_above),
		cmocka_unit_test(addresses_print_by_family),
		cmocka_unit_test(random_amounts_survive_text_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
