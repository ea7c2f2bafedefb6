/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * The gRPC wire format above HTTP/2, without I/O: messages behind their 5-byte prefix (flag, length), put together from pieces of
 * any size, and the encoding of status texts. Pure, so that tests and fuzzers feed it byte by byte.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LG_GRPC_PREFIX_LEN 5

/* Puts messages together. Zeroed at first. */
struct lg_grpc_frames {
	uint8_t prefix[LG_GRPC_PREFIX_LEN];
	size_t n_prefix;	/* of these, received */
	uint8_t *buf;		/* the message so far */
	size_t len;
	size_t want;		/* its length, known once the prefix is whole */
	size_t size;		/* allocated: grows with what arrives, never with what is announced */
};

void lg_grpc_frames_fini(struct lg_grpc_frames *f);
/* Nothing of a message has been received yet. */
bool lg_grpc_frames_is_empty(const struct lg_grpc_frames *f);

/**
 * lg_grpc_frames_next() - take bytes until a message is whole
 * @data, @len: what has not been taken; moved on
 * @max:        longest message accepted, bytes
 * @ret_msg:    the message; borrowed until the next call
 *
 * Return: 1 with a message (call again, there may be more), 0 when all is taken, -EMSGSIZE for a message above max,
 * -EOPNOTSUPP for a compressed one, -EPROTO for an unknown flag, -ENOMEM. After an error the state is of no use.
 */
int lg_grpc_frames_next(struct lg_grpc_frames *f, const uint8_t **data, size_t *len, size_t max, const uint8_t **ret_msg,
			size_t *ret_msg_len);

/* The prefix of an uncompressed message. len is at most UINT32_MAX. */
void lg_grpc_prefix(size_t len, uint8_t ret_prefix[LG_GRPC_PREFIX_LEN]);

/* Percent-encodes a status text for the header grpc-message; what does not fit into buf is cut off, never within an escape.
 * Returns the length. */
size_t lg_grpc_message_encode(const char *text, char *buf, size_t size);
/* And back; bytes that do not print become '?', broken escapes stay as they are. buf is always terminated. */
void lg_grpc_message_decode(const uint8_t *text, size_t len, char *buf, size_t size);
