// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "net/grpc_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_FIRST 1024
#define SIZE_KEPT 65536 /* a larger buffer is freed after its message: thousands of idle streams must not keep one each */

void lg_grpc_frames_fini(struct lg_grpc_frames *f)
{
	free(f->buf);
	*f = (struct lg_grpc_frames){ 0 };
}

/* A whole message has been handed out, nothing of the next one has come. */
static bool is_given(const struct lg_grpc_frames *f)
{
	return f->n_prefix == LG_GRPC_PREFIX_LEN && f->len == f->want;
}

bool lg_grpc_frames_is_empty(const struct lg_grpc_frames *f)
{
	return f->n_prefix == 0 || is_given(f);
}

static size_t take(uint8_t *to, size_t room, const uint8_t **data, size_t *len)
{
	size_t n = room < *len ? room : *len;

	memcpy(to, *data, n);
	*data += n;
	*len -= n;
	return n;
}

static int take_prefix(struct lg_grpc_frames *f, const uint8_t **data, size_t *len, size_t max)
{
	f->n_prefix += take(f->prefix + f->n_prefix, LG_GRPC_PREFIX_LEN - f->n_prefix, data, len);
	if (f->n_prefix < LG_GRPC_PREFIX_LEN)
		return 0;
	f->want = (size_t)f->prefix[1] << 24 | (size_t)f->prefix[2] << 16 | (size_t)f->prefix[3] << 8 | f->prefix[4];
	if (f->prefix[0] == 1)
		return -EOPNOTSUPP;
	if (f->prefix[0] != 0)
		return -EPROTO;
	return f->want > max ? -EMSGSIZE : 0;
}

static int reserve(struct lg_grpc_frames *f, size_t more)
{
	size_t need = f->len + more, size = f->size ? f->size : SIZE_FIRST;
	uint8_t *buf;

	while (size < need)
		size *= 2;
	if (size == f->size)
		return 0;
	buf = realloc(f->buf, size);
	if (!buf)
		return -ENOMEM;
	f->buf = buf;
	f->size = size;
	return 0;
}

/* The last message has been used: the next one starts. */
static void begin(struct lg_grpc_frames *f)
{
	if (f->size > SIZE_KEPT) {
		free(f->buf);
		f->buf = NULL;
		f->size = 0;
	}
	f->n_prefix = 0;
	f->len = 0;
}

int lg_grpc_frames_next(struct lg_grpc_frames *f, const uint8_t **data, size_t *len, size_t max, const uint8_t **ret_msg,
			size_t *ret_msg_len)
{
	int r;

	if (is_given(f))
		begin(f);
	if (f->n_prefix < LG_GRPC_PREFIX_LEN) {
		r = take_prefix(f, data, len, max);
		if (r < 0 || f->n_prefix < LG_GRPC_PREFIX_LEN)
			return r;
	}
	r = reserve(f, *len < f->want - f->len ? *len : f->want - f->len);
	if (r < 0)
		return r;
	f->len += take(f->buf + f->len, f->want - f->len, data, len);
	if (f->len < f->want)
		return 0;
	*ret_msg = f->buf;
	*ret_msg_len = f->len;
	return 1;
}

void lg_grpc_prefix(size_t len, uint8_t ret_prefix[LG_GRPC_PREFIX_LEN])
{
	ret_prefix[0] = 0;
	ret_prefix[1] = (uint8_t)(len >> 24);
	ret_prefix[2] = (uint8_t)(len >> 16);
	ret_prefix[3] = (uint8_t)(len >> 8);
	ret_prefix[4] = (uint8_t)len;
}

size_t lg_grpc_message_encode(const char *text, char *buf, size_t size)
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	for (; *text; text++) {
		uint8_t byte = (uint8_t)*text;

		if (byte >= 0x20 && byte <= 0x7e && byte != '%') {
			if (n + 1 > size)
				break;
			buf[n++] = *text;
			continue;
		}
		if (n + 3 > size)
			break;
		buf[n++] = '%';
		buf[n++] = hex[byte >> 4];
		buf[n++] = hex[byte & 15];
	}
	return n;
}

static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

void lg_grpc_message_decode(const uint8_t *text, size_t len, char *buf, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < size; i++) {
		uint8_t byte = text[i];

		if (byte == '%' && len - i > 2 && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
			byte = (uint8_t)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
			i += 2;
		}
		buf[n++] = (char)(byte >= 0x20 && byte <= 0x7e ? byte : '?');
	}
	if (size)
		buf[n] = '\0';
}
