// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "leasegate/bounds.h"
#include "net/grpc.h"

#define BYTES_KEPT 65536 /* a larger buffer is freed when it is empty: there may be thousands of idle streams */

struct lg_parcel {
	STAILQ_ENTRY(lg_parcel) link;
	size_t len;
	char bytes[];
};

void lg_batch_init(struct lg_batch *b, size_t waiting_max)
{
	*b = (struct lg_batch){ .waiting_max = waiting_max };
	STAILQ_INIT(&b->waiting);
}

static void drop_first(struct lg_batch *b)
{
	struct lg_parcel *parcel = STAILQ_FIRST(&b->waiting);

	STAILQ_REMOVE_HEAD(&b->waiting, link);
	b->waiting_bytes -= parcel->len;
	free(parcel);
}

void lg_batch_clear(struct lg_batch *b)
{
	lg_text_fini(&b->text);
	b->n_keys = 0;
	while (lg_batch_waits(b))
		drop_first(b);
}

static int put_off(struct lg_batch *b, size_t len)
{
	struct lg_parcel *parcel;

	if (b->waiting_bytes + len > b->waiting_max)
		return -ENOBUFS;
	parcel = malloc(sizeof(*parcel) + len);
	if (!parcel)
		return -ENOMEM;
	parcel->len = len;
	memcpy(parcel->bytes, b->text.s, len);
	STAILQ_INSERT_TAIL(&b->waiting, parcel, link);
	b->waiting_bytes += len;
	return 0;
}

static int send_first(struct lg_batch *b, size_t len, struct lg_grpc_stream *stream)
{
	int r = -ENOBUFS;

	if (!lg_batch_waits(b))
		r = lg_grpc_send(stream, b->text.s, len);
	if (r == -ENOBUFS)
		r = put_off(b, len);
	if (r < 0)
		return r;
	memmove(b->text.s, b->text.s + len, b->text.len - len);
	b->text.len -= len;
	return 0;
}

int lg_batch_added(struct lg_batch *b, size_t mark, struct lg_grpc_stream *stream)
{
	int r;

	if (!lg_text_ok(&b->text))
		return -ENOMEM;
	b->n_keys++;
	if (!mark || (b->n_keys <= LG_BATCH_KEYS_MAX && b->text.len <= LG_MSG_BYTES_MAX))
		return 0;
	r = send_first(b, mark, stream);
	b->n_keys = 1;
	return r;
}

int lg_batch_flush(struct lg_batch *b, struct lg_grpc_stream *stream)
{
	int r;

	if (!lg_text_ok(&b->text))
		return -ENOMEM;
	if (!b->text.len)
		return 0;
	r = send_first(b, b->text.len, stream);
	b->n_keys = 0;
	if (b->text.size > BYTES_KEPT)
		lg_text_fini(&b->text);
	return r;
}

int lg_batch_drain(struct lg_batch *b, struct lg_grpc_stream *stream)
{
	while (lg_batch_waits(b)) {
		const struct lg_parcel *parcel = STAILQ_FIRST(&b->waiting);
		int r = lg_grpc_send(stream, parcel->bytes, parcel->len);

		if (r < 0)
			return r == -ENOBUFS ? 0 : r;
		drop_first(b);
	}
	return 0;
}

const char *lg_batch_why(int error)
{
	switch (error) {
	case -ENOBUFS: return "too much waits for the peer: it reads too slowly";
	case -EPIPE: return "the stream is over";
	case -ENOMEM: return "out of memory";
	}
	return "a message could not be sent";
}
