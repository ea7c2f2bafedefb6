// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/batch.h"

#include <errno.h>
#include <string.h>

#include "leasegate/bounds.h"
#include "net/grpc.h"

#define BYTES_KEPT 65536 /* a larger buffer is freed when it is empty: there may be thousands of idle streams */

void lg_batch_fini(struct lg_batch *b)
{
	lg_text_fini(&b->text);
	b->n_keys = 0;
}

static int send_first(struct lg_batch *b, size_t len, struct lg_grpc_stream *stream)
{
	int r;

	r = lg_grpc_send(stream, b->text.s, len);
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

const char *lg_batch_why(int error)
{
	switch (error) {
	case -ENOBUFS: return "too much waits for the peer: it reads too slowly";
	case -EPIPE: return "the stream is over";
	case -ENOMEM: return "out of memory";
	}
	return "a message could not be sent";
}
