/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Messages to one stream, gathered over a turn of the loop and cut so that none is longer than a peer accepts. Inside of api/. */
#pragma once

#include <stddef.h>

#include "base/text.h"

struct lg_grpc_stream;

struct lg_batch {
	struct lg_text text;	/* pieces, one behind the other */
	size_t n_keys;		/* in it */
};

void lg_batch_fini(struct lg_batch *b);

/**
 * lg_batch_added() - a piece about one key was appended to b->text
 * @mark: b->text.len before it
 *
 * Sends what was there before where the piece makes it too long. Return: 0, or what lg_grpc_send() said, -ENOMEM, or -EMSGSIZE for a piece
 * that is too long alone; the stream is to be ended then.
 */
int lg_batch_added(struct lg_batch *b, size_t mark, struct lg_grpc_stream *stream);
/* Sends what is there, if anything. */
int lg_batch_flush(struct lg_batch *b, struct lg_grpc_stream *stream);

/* Why a batch could not be sent, for people. */
const char *lg_batch_why(int error);
