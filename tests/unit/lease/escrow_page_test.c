// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "lease/escrow_page.h"

#include <errno.h>
#include <xxhash.h>

#include "tests/unit/lease/lease_test.h"

static struct lg_escrow_page page;

static struct lg_escrow_record record_of(uint8_t name, uint64_t consumed_tok)
{
	struct lg_escrow_record r = {
		.mark = { .consumed_tok = consumed_tok, .out_tok = 150, .next_tok = 70, .window_end_ns = T0, .per_ns = 10 * S },
		.memory_ms = 41000,
	};

	memset(r.id, name, sizeof(r.id));
	return r;
}

static void two_records(void)
{
	static const uint64_t covered[] = { 7, UINT64_MAX };
	struct lg_escrow_record a = record_of(1, 0), b = record_of(2, 1ull << 41);

	lg_escrow_page_begin(&page, 99, covered, 2);
	assert_true(lg_escrow_page_add(&page, &a));
	assert_true(lg_escrow_page_add(&page, &b));
	lg_escrow_page_end(&page);
}

static const char *refused(size_t len)
{
	struct lg_escrow_reader r;
	const char *why = NULL;

	assert_int_equal(lg_escrow_page_open(&r, page.bytes, len, &why), -EBADMSG);
	assert_non_null(why);
	return why;
}

/* What was changed is made to look as if it had been written so. */
static void sign(void)
{
	uint64_t hash = XXH3_64bits(page.bytes, page.len - 8);

	for (size_t i = 0; i < 8; i++)
		page.bytes[page.len - 8 + i] = (uint8_t)(hash >> (8 * i));
}

TEST(a_page_is_read_as_it_was_written)
{
	struct lg_escrow_record a = record_of(1, 0), b = record_of(2, 1ull << 41), read;
	struct lg_escrow_reader r;
	const char *why;

	two_records();
	assert_int_equal(lg_escrow_page_open(&r, page.bytes, page.len, &why), 0);
	assert_int_equal(r.writer, 99);
	assert_int_equal(r.n_covered, 2);
	assert_int_equal(r.covered[0], 7);
	assert_true(r.covered[1] == UINT64_MAX);
	assert_int_equal(r.n_records, 2);
	assert_true(lg_escrow_page_next(&r, &read));
	assert_memory_equal(&read, &a, sizeof(a));
	assert_true(lg_escrow_page_next(&r, &read));
	assert_memory_equal(&read, &b, sizeof(b));
	assert_false(lg_escrow_page_next(&r, &read));
}

TEST(a_page_without_rules_and_keys_is_one)
{
	struct lg_escrow_record read;
	struct lg_escrow_reader r;
	const char *why;

	lg_escrow_page_begin(&page, 0, NULL, 0);
	lg_escrow_page_end(&page);
	assert_int_equal(lg_escrow_page_open(&r, page.bytes, page.len, &why), 0);
	assert_false(lg_escrow_page_next(&r, &read));
	refused(page.len - 1);
}

TEST(no_byte_of_a_page_can_change_unseen)
{
	two_records();
	for (size_t i = 0; i < page.len; i++) {
		page.bytes[i] ^= 0x10;
		refused(page.len);
		page.bytes[i] ^= 0x10;
	}
	for (size_t len = 0; len < page.len; len++)
		refused(len);
	refused(sizeof(page.bytes) + 1);
}

TEST(garbage_that_is_signed_is_refused_and_said_why)
{
	two_records();
	page.bytes[0] = 2;
	sign();
	assert_string_equal(refused(page.len), "a later version of this program has written it");
	two_records();
	page.bytes[10] = 0xff;	/* number of rules */
	sign();
	assert_string_equal(refused(page.len), "it names more rules than it can");
	two_records();
	page.bytes[page.len - 9] |= 0x80;	/* the last number goes on */
	sign();
	assert_string_equal(refused(page.len), "one of its records is none");
	/* more tokens than there can be */
	two_records();
	memset(page.bytes + 11 + 16 + 16, 0xff, 9);
	sign();
	assert_string_equal(refused(page.len), "one of its records is none");
}

TEST(a_full_page_says_so_and_has_all_that_it_took)
{
	struct lg_escrow_record a = record_of(1, 5), read;
	struct lg_escrow_reader r;
	size_t n = 0;
	const char *why;

	lg_escrow_page_begin(&page, 1, NULL, 0);
	while (lg_escrow_page_add(&page, &a))
		n++;
	lg_escrow_page_end(&page);
	assert_true(page.len <= LG_ESCROW_PAGE_MAX);
	assert_true(n > 1300);
	assert_int_equal(lg_escrow_page_open(&r, page.bytes, page.len, &why), 0);
	assert_int_equal(r.n_records, n);
	while (lg_escrow_page_next(&r, &read))
		n--;
	assert_int_equal(n, 0);
}

TEST(a_key_of_a_rule_that_became_another_has_another_id)
{
	uint8_t a[LG_ESCROW_ID_LEN], b[LG_ESCROW_ID_LEN];

	lg_escrow_id(1, (const uint8_t *)"key", 3, a);
	lg_escrow_id(2, (const uint8_t *)"key", 3, b);
	assert_memory_not_equal(a, b, sizeof(a));
	lg_escrow_id(1, (const uint8_t *)"kez", 3, b);
	assert_memory_not_equal(a, b, sizeof(a));
	lg_escrow_id(1, (const uint8_t *)"key", 3, b);
	assert_memory_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_is_read_as_it_was_written),
		cmocka_unit_test(a_page_without_rules_and_keys_is_one),
		cmocka_unit_test(no_byte_of_a_page_can_change_unseen),
		cmocka_unit_test(garbage_that_is_signed_is_refused_and_said_why),
		cmocka_unit_test(a_full_page_says_so_and_has_all_that_it_took),
		cmocka_unit_test(a_key_of_a_rule_that_became_another_has_another_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
