// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/grpc_frame.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define MAX 70000

/* Three messages of 3, 0 and n bytes, one behind the other. */
static uint8_t *three_messages(size_t n, size_t *ret_len)
{
	size_t len = 3 * LG_GRPC_PREFIX_LEN + 3 + n;
	uint8_t *wire = malloc(len), *p = wire;

	assert_non_null(wire);
	lg_grpc_prefix(3, p);
	memcpy(p + 5, "abc", 3);
	lg_grpc_prefix(0, p + 8);
	lg_grpc_prefix(n, p + 13);
	for (size_t i = 0; i < n; i++)
		p[18 + i] = (uint8_t)(i * 7);
	*ret_len = len;
	return wire;
}

static void check_message(size_t i, const uint8_t *msg, size_t len, size_t n)
{
	if (i == 0) {
		assert_int_equal(len, 3);
		assert_memory_equal(msg, "abc", 3);
	} else if (i == 1) {
		assert_int_equal(len, 0);
	} else {
		assert_int_equal(len, n);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(msg[k], (uint8_t)(k * 7));
	}
}

static void messages_are_put_together_from_pieces_of_any_size(void **state)
{
	static const size_t pieces[] = { 1, 2, 3, 4, 5, 6, 7, 13, 100, 4096, 65536, 200000 }, sizes[] = { 1, 1023, 1024, 1025, MAX };

	(void)state;
	for (size_t s = 0; s < N_ELEMS(sizes); s++) {
		size_t total;
		uint8_t *wire = three_messages(sizes[s], &total);

		for (size_t p = 0; p < N_ELEMS(pieces); p++) {
			struct lg_grpc_frames f = { 0 };
			size_t seen = 0;

			for (size_t at = 0; at < total; at += pieces[p]) {
				size_t left = total - at < pieces[p] ? total - at : pieces[p], msg_len;
				const uint8_t *data = wire + at, *msg;

				while (lg_grpc_frames_next(&f, &data, &left, MAX, &msg, &msg_len) == 1)
					check_message(seen++, msg, msg_len, sizes[s]);
				assert_int_equal(left, 0);
			}
			assert_int_equal(seen, 3);
			assert_true(lg_grpc_frames_is_empty(&f));
			lg_grpc_frames_fini(&f);
		}
		free(wire);
	}
}

static int first(const uint8_t prefix[LG_GRPC_PREFIX_LEN])
{
	struct lg_grpc_frames f = { 0 };
	const uint8_t *data = prefix, *msg;
	size_t len = LG_GRPC_PREFIX_LEN, msg_len;
	int r = lg_grpc_frames_next(&f, &data, &len, 1000, &msg, &msg_len);

	lg_grpc_frames_fini(&f);
	return r;
}

static void a_prefix_is_refused_by_flag_and_length(void **state)
{
	static const struct {
		uint8_t prefix[LG_GRPC_PREFIX_LEN];
		int want;
	} rows[] = {
		{ { 0, 0, 0, 0, 0 }, 1 },
		{ { 0, 0, 0, 3, 0xe7 }, 0 },
		{ { 0, 0, 0, 3, 0xe8 }, 0 },		/* 1000: the longest */
		{ { 0, 0, 0, 3, 0xe9 }, -EMSGSIZE },	/* 1001 */
		{ { 0, 0, 1, 0, 0 }, -EMSGSIZE },
		{ { 0, 0xff, 0xff, 0xff, 0xff }, -EMSGSIZE },
		{ { 1, 0, 0, 0, 0 }, -EOPNOTSUPP },
		{ { 1, 0, 0, 0, 9 }, -EOPNOTSUPP },
		{ { 2, 0, 0, 0, 0 }, -EPROTO },
		{ { 0x80, 0, 0, 0, 0 }, -EPROTO },
		{ { 0xff, 0, 0, 0, 1 }, -EPROTO },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++)
		assert_int_equal(first(rows[i].prefix), rows[i].want);
}

static void memory_follows_what_arrives_and_not_what_is_announced(void **state)
{
	struct lg_grpc_frames f = { 0 };
	uint8_t wire[LG_GRPC_PREFIX_LEN + 10] = { 0 };
	const uint8_t *data = wire, *msg;
	size_t len = sizeof(wire), msg_len;

	(void)state;
	lg_grpc_prefix(1 << 20, wire);
	assert_int_equal(lg_grpc_frames_next(&f, &data, &len, 1 << 20, &msg, &msg_len), 0);
	assert_int_equal(len, 0);
	assert_true(f.size <= 1024);
	assert_false(lg_grpc_frames_is_empty(&f));
	lg_grpc_frames_fini(&f);
}

static void a_large_buffer_is_not_kept_for_the_next_message(void **state)
{
	struct lg_grpc_frames f = { 0 };
	size_t total, msg_len;
	uint8_t *wire = three_messages(MAX, &total);
	const uint8_t *data = wire, *msg;

	(void)state;
	while (lg_grpc_frames_next(&f, &data, &total, MAX, &msg, &msg_len) == 1)
		continue;
	assert_int_equal(f.size, 0);
	lg_grpc_frames_fini(&f);
	free(wire);
}

static void a_stream_that_ends_inside_a_message_is_not_empty(void **state)
{
	struct lg_grpc_frames f = { 0 };
	const uint8_t wire[] = { 0, 0, 0, 0, 2, 'x' }, *msg;
	size_t msg_len;

	(void)state;
	assert_true(lg_grpc_frames_is_empty(&f));
	for (size_t i = 0; i < sizeof(wire); i++) {
		const uint8_t *data = wire + i;
		size_t len = 1;

		assert_int_equal(lg_grpc_frames_next(&f, &data, &len, MAX, &msg, &msg_len), 0);
		assert_false(lg_grpc_frames_is_empty(&f));
	}
	lg_grpc_frames_fini(&f);
}

static void status_texts_are_percent_encoded(void **state)
{
	static const struct {
		const char *text;
		const char *encoded;
	} rows[] = {
		{ "", "" },
		{ "no such method", "no such method" },
		{ "100%", "100%25" },
		{ "a\nb\tc", "a%0Ab%09c" },
		{ " ~", " ~" },
		{ "\x1f\x7f", "%1F%7F" },
		{ "\xc3\xa9", "%C3%A9" },
	};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		size_t n = lg_grpc_message_encode(rows[i].text, buf, sizeof(buf));

		assert_int_equal(n, strlen(rows[i].encoded));
		assert_memory_equal(buf, rows[i].encoded, n);
	}
	/* Cut off between characters and never within an escape. */
	assert_int_equal(lg_grpc_message_encode("ab%cd", buf, 4), 2);
	assert_int_equal(lg_grpc_message_encode("ab%cd", buf, 5), 5);
	assert_int_equal(lg_grpc_message_encode("ab%cd", buf, 6), 6);
	assert_int_equal(lg_grpc_message_encode("ab", buf, 0), 0);
}

static void received_status_texts_are_decoded_and_made_printable(void **state)
{
	static const struct {
		const char *encoded;
		const char *text;
	} rows[] = {
		{ "", "" },
		{ "100%25", "100%" },
		{ "a%0ab%0Ac", "a?b?c" },
		{ "%C3%A9", "??" },
		{ "%", "%" },
		{ "%4", "%4" },
		{ "%zz", "%zz" },
		{ "%41%4", "A%4" },
		{ "%00x", "?x" },
	};
	char buf[64];

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		lg_grpc_message_decode((const uint8_t *)rows[i].encoded, strlen(rows[i].encoded), buf, sizeof(buf));
		assert_string_equal(buf, rows[i].text);
	}
	lg_grpc_message_decode((const uint8_t *)"abcdef", 6, buf, 4);
	assert_string_equal(buf, "abc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_put_together_from_pieces_of_any_size),
		cmocka_unit_test(a_prefix_is_refused_by_flag_and_length),
		cmocka_unit_test(memory_follows_what_arrives_and_not_what_is_announced),
		cmocka_unit_test(a_large_buffer_is_not_kept_for_the_next_message),
		cmocka_unit_test(a_stream_that_ends_inside_a_message_is_not_empty),
		cmocka_unit_test(status_texts_are_percent_encoded),
		cmocka_unit_test(received_status_texts_are_decoded_and_made_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
