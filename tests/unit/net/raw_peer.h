/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * A peer that speaks HTTP/2 frame by frame, written from its specification and not with the library under test (which only unpacks
 * header blocks here): it can break every rule. */
#pragma once

#include <fcntl.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>

#include "tests/unit/net/net_test.h"

enum { DATA = 0, HEADERS = 1, PRIORITY = 2, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

struct raw_frame {
	uint32_t len;
	uint8_t type;
	uint8_t flags;
	uint32_t stream;
	uint8_t body[16384];
};

struct raw_peer {
	int fd;
	size_t n_in;
	uint8_t in[1 << 16];
	nghttp2_hd_inflater *inflater;
	char headers[2048];	/* "name: value\n" of all header blocks received */
	size_t n_frames[16];	/* by type */
	size_t data_bytes;
	uint8_t data[4096];	/* the first of them */
	uint32_t goaway_error;	/* ~0: none */
	char goaway_text[256];
	uint32_t reset_error;	/* of the last RST_STREAM; ~0: none */
	bool eof;
};

static inline void raw_init(struct raw_peer *p, int fd)
{
	*p = (struct raw_peer){ .fd = fd, .goaway_error = ~0u, .reset_error = ~0u };
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(nghttp2_hd_inflate_new(&p->inflater), 0);
}

static inline void raw_fini(struct raw_peer *p)
{
	nghttp2_hd_inflate_del(p->inflater);
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Sends as much as the socket takes; a peer that has closed takes nothing. */
static inline void raw_send(struct raw_peer *p, const void *data, size_t len)
{
	ssize_t n = send(p->fd, data, len, MSG_NOSIGNAL);

	if (n < 0 && errno != EPIPE && errno != ECONNRESET && errno != EAGAIN)
		fail_msg("send: %s", strerror(errno));
}

static inline size_t raw_frame_put(uint8_t *to, uint8_t type, uint8_t flags, uint32_t stream, const void *body, size_t len)
{
	const uint8_t head[9] = { (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len, type, flags,
				  (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream };

	memcpy(to, head, sizeof(head));
	if (len)
		memcpy(to + sizeof(head), body, len);
	return sizeof(head) + len;
}

static inline void raw_frame(struct raw_peer *p, uint8_t type, uint8_t flags, uint32_t stream, const void *body, size_t len)
{
	uint8_t wire[16384 + 9];

	raw_send(p, wire, raw_frame_put(wire, type, flags, stream, body, len));
}

static inline void raw_preface(struct raw_peer *p)
{
	raw_send(p, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	raw_frame(p, SETTINGS, 0, 0, NULL, 0);
}

/* Literal fields without indexing: name, value, name, value ... NULL. Values may be longer than 126 bytes. */
static inline size_t raw_fields(uint8_t *to, const char *const *fields)
{
	size_t n = 0;

	for (; fields[0]; fields += 2) {
		size_t name_len = strlen(fields[0]), value_len = strlen(fields[1]);

		to[n++] = 0;
		to[n++] = (uint8_t)name_len;
		memcpy(to + n, fields[0], name_len);
		n += name_len;
		if (value_len < 127) {
			to[n++] = (uint8_t)value_len;
		} else {
			size_t rest = value_len - 127;

			to[n++] = 127;
			for (; rest >= 128; rest >>= 7)
				to[n++] = (uint8_t)(rest % 128 + 128);
			to[n++] = (uint8_t)rest;
		}
		memcpy(to + n, fields[1], value_len);
		n += value_len;
	}
	return n;
}

static inline void raw_headers(struct raw_peer *p, uint32_t stream, uint8_t flags, const char *const *fields)
{
	uint8_t block[16384];

	raw_frame(p, HEADERS, flags | END_HEADERS, stream, block, raw_fields(block, fields));
}

static inline void raw_request(struct raw_peer *p, uint32_t stream, const char *path)
{
	const char *const fields[] = { ":method", "POST", ":scheme", "http", ":path",
				       path, ":authority", "peer", "content-type", "application/grpc",
				       "te", "trailers", NULL };

	raw_headers(p, stream, 0, fields);
}

static inline uint32_t raw_u32(const uint8_t *b)
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline void raw_got_headers(struct raw_peer *p, const uint8_t *block, size_t len)
{
	for (;;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t n = nghttp2_hd_inflate_hd2(p->inflater, &nv, &flags, block, len, 1);
		size_t at = strlen(p->headers);

		assert_true(n >= 0);
		block += n;
		len -= (size_t)n;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			snprintf(p->headers + at, sizeof(p->headers) - at, "%s: %s\n", nv.name, nv.value);
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			break;
	}
	nghttp2_hd_inflate_end_headers(p->inflater);
}

static inline void raw_got_frame(struct raw_peer *p, uint8_t type, const uint8_t *body, size_t len)
{
	if (type < N_ELEMS(p->n_frames))
		p->n_frames[type]++;
	if (type == HEADERS)
		raw_got_headers(p, body, len);
	if (type == RST_STREAM)
		p->reset_error = raw_u32(body);
	if (type == GOAWAY) {
		p->goaway_error = raw_u32(body + 4);
		snprintf(p->goaway_text, sizeof(p->goaway_text), "%.*s", (int)len - 8, body + 8);
	}
	if (type == DATA) {
		if (p->data_bytes + len <= sizeof(p->data))
			memcpy(p->data + p->data_bytes, body, len);
		p->data_bytes += len;
	}
}

/* Takes in what has come. */
static inline void raw_receive(struct raw_peer *p)
{
	for (;;) {
		ssize_t n = recv(p->fd, p->in + p->n_in, sizeof(p->in) - p->n_in, 0);
		size_t at = 0;

		if (n == 0 || (n < 0 && errno == ECONNRESET))
			p->eof = true;
		if (n <= 0)
			return;
		p->n_in += (size_t)n;
		while (p->n_in - at >= 9) {
			const uint8_t *f = p->in + at;
			size_t len = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];

			if (p->n_in - at < 9 + len)
				break;
			raw_got_frame(p, f[3], f + 9, len);
			at += 9 + len;
		}
		memmove(p->in, p->in + at, p->n_in - at);
		p->n_in -= at;
	}
}

/* The value of the last header of a name, or "". */
static inline const char *raw_header(const struct raw_peer *p, const char *name)
{
	static char value[512];
	char key[64];
	const char *at = p->headers, *found = NULL;

	snprintf(key, sizeof(key), "%s: ", name);
	for (; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (strncmp(at, key, strlen(key)) == 0)
			found = at + strlen(key);
	snprintf(value, sizeof(value), "%.*s", found ? (int)strcspn(found, "\n") : 0, found ? found : "");
	return value;
}

/* Receives, turning the loop, until the expression holds. */
#define RAW_WAIT(n, p, expression) WAIT_FOR((n)->loop, (raw_receive(p), expression))
