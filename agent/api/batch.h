/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Messages to one stream, gathered over a turn of the loop and cut so that none is longer than a peer accepts. Inside of api/.
 *
 * A stream takes only so many unsent bytes. A lessor ends a host's stream at that bound: it reads too slowly. A holder that names a million
 * leases in one turn is no such case, nor a home that serves all keys of a region in one tick: their messages wait here until the stream
 * has room.
 */
#pragma once

#include <stddef.h>
#include <sys/queue.h>

#include "base/text.h"

struct lg_grpc_stream;
struct lg_parcel;

struct lg_batch {
	struct lg_text text;	/* pieces, one behind the other */
	size_t n_keys;		/* in it */
	STAILQ_HEAD(, lg_parcel) waiting;	/* whole messages */
	size_t waiting_bytes;
	size_t waiting_max;
};

/* waiting_max: bytes that may wait for room in the stream; 0 none. */
void lg_batch_init(struct lg_batch *b, size_t waiting_max);
/* Forgets everything; b can be used again. */
void lg_batch_clear(struct lg_batch *b);

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
/* Sends what waits, as far as there is room. To be called again after a little while as long as lg_batch_waits(). */
int lg_batch_drain(struct lg_batch *b, struct lg_grpc_stream *stream);
static inline bool lg_batch_waits(const struct lg_batch *b)
{
	return !STAILQ_EMPTY(&b->waiting);
}

/* Why a batch could not be sent, for people. */
const char *lg_batch_why(int error);
