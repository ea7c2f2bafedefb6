// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "api/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "leasegate/bounds.h"
#include "loop/loop.h"
#include "net/grpc.h"
#include "net/tls.h"

#define ADDRESS_LEN 128
#define PART_BYTES (256u << 10)
#define ANSWER_BYTES_MAX (LG_QUEUE_BYTES_MAX - PART_BYTES)

/* ---- the server's end ---- */

bool lg_remote_operator(const struct lg_grpc_stream *stream, const char *region, char name[LG_NAME_LEN])
{
	struct lg_tls_name who;

	if (!lg_grpc_identity(stream, &who) || !who.operator_name[0] || strcmp(who.region, region) != 0)
		return false;
	memcpy(name, who.operator_name, LG_NAME_LEN);
	return true;
}

static int answer_send(struct lg_grpc_stream *stream, const char *text, size_t len)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < len; at += PART_BYTES)
		r = lg_grpc_send(stream, text + at, len - at < PART_BYTES ? len - at : PART_BYTES);
	return r;
}

void lg_remote_answer(struct lg_grpc_stream *stream, const char *asker, const void *data, size_t len,
		      json_t *(*fn)(void *arg, const char *asker, const json_t *request), void *arg)
{
	json_t *request = json_loadb(data, len, 0, NULL), *reply = NULL;
	_cleanup_free_ char *text = NULL;
	size_t n;

	if (!json_is_object(request)) {
		json_decref(request);
		lg_grpc_close(stream, LG_GRPC_INVALID_ARGUMENT, "this is no question: one object of JSON is expected");
		return;
	}
	reply = fn(arg, asker, request);
	text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
	json_decref(reply);
	json_decref(request);
	n = text ? strlen(text) : 0;
	if (n > ANSWER_BYTES_MAX)
		lg_grpc_close(stream, LG_GRPC_RESOURCE_EXHAUSTED, "the answer is too long to be told from afar: ask at the machine itself");
	else if (!text || answer_send(stream, text, n) < 0)
		lg_grpc_close(stream, LG_GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		lg_grpc_close(stream, LG_GRPC_OK, "");
}

/* ---- the tool's end ---- */

struct lg_remote {
	struct lg_loop *loop;
	struct lg_source *timer;
	struct lg_tls *tls;
	struct lg_grpc_client *client;
	char address[ADDRESS_LEN], region[LG_NAME_LEN];
	struct lg_text text;		/* of the answer, so far */
	int status;			/* it ended with; -1: it has not */
	char why[256];
};

enum { ANSWERED, TIME_IS_UP };

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct lg_remote *r = arg;

	(void)stream;
	lg_text_add(&r->text, (const char *)data, len);
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct lg_remote *r = arg;

	(void)stream;
	r->status = status;
	snprintf(r->why, sizeof(r->why), "%s", why);
	lg_loop_stop(r->loop, ANSWERED);
}

static void on_time(void *arg)
{
	lg_loop_stop(((struct lg_remote *)arg)->loop, TIME_IS_UP);
}

static int connect_to(struct lg_remote *remote, struct lg_complaint *c)
{
	static const struct lg_grpc_handlers handlers = { .message = on_message, .closed = on_closed };
	struct lg_tls_expect expect = { .host = NULL };
	int r;

	r = lg_grpc_client_new(remote->loop, remote->address, &handlers, remote, &remote->client, c);
	if (r < 0)
		return r;
	memcpy(expect.name.region, remote->region, sizeof(expect.name.region));
	lg_grpc_client_secure(remote->client, remote->tls, &expect);
	return 0;
}

int lg_remote_new(const char *address, const char *region, const struct lg_tls_files *files, struct lg_remote **ret_remote,
		  struct lg_complaint *c)
{
	_cleanup_(lg_remote_free) struct lg_remote *remote = calloc(1, sizeof(*remote));
	int r;

	if (!remote)
		return -ENOMEM;
	snprintf(remote->address, sizeof(remote->address), "%s", address);
	snprintf(remote->region, sizeof(remote->region), "%s", region);
	r = lg_loop_new(&remote->loop);
	if (r == 0)
		r = lg_loop_add_timer(remote->loop, on_time, remote, &remote->timer);
	if (r < 0)
		lg_complain(c, "cannot make an event loop: %s", strerror(-r));
	if (r == 0)
		r = lg_tls_new(files, NULL, &remote->tls, c);
	if (r == 0)
		r = connect_to(remote, c);
	if (r < 0)
		return r;
	*ret_remote = TAKE(remote);
	return 0;
}

struct lg_remote *lg_remote_free(struct lg_remote *remote)
{
	if (!remote)
		return NULL;
	lg_grpc_client_free(remote->client);
	/* What the end of the connection has put off to the loop. */
	if (remote->timer && lg_source_arm(remote->timer, LG_NS_PER_MS) == 0)
		lg_loop_run(remote->loop);
	lg_tls_free(remote->tls);
	lg_source_free(remote->timer);
	lg_loop_free(remote->loop);
	lg_text_fini(&remote->text);
	free(remote);
	return NULL;
}

static int exchange(struct lg_remote *remote, const char *text, size_t len, unsigned timeout_ms)
{
	struct lg_grpc_stream *stream;
	int r;

	lg_text_fini(&remote->text);
	remote->status = -1;
	r = lg_grpc_client_open(remote->client, LG_REMOTE_PATH, &stream);
	if (r == 0)
		r = lg_grpc_send_last(stream, text, len);
	if (r == 0)
		r = lg_source_arm(remote->timer, timeout_ms * LG_NS_PER_MS);
	if (r == 0)
		r = lg_loop_run(remote->loop);
	lg_source_disarm(remote->timer);
	if (r == TIME_IS_UP)
		lg_grpc_close(stream, LG_GRPC_CANCELLED, "");
	return r == TIME_IS_UP ? -ETIMEDOUT : r;
}

static int refused(const struct lg_remote *remote, struct lg_complaint *c)
{
	if (remote->status == LG_GRPC_PERMISSION_DENIED)
		lg_complain(c, "the server at %s refuses: the certificate is none of an operator of region %s", remote->address,
			    remote->region);
	else
		lg_complain(c, "the server at %s gave no answer: %s", remote->address, remote->why);
	return -EPROTO;
}

int lg_remote_ask(struct lg_remote *remote, const json_t *request, unsigned timeout_ms, json_t **ret_reply, struct lg_complaint *c)
{
	_cleanup_free_ char *text = json_dumps(request, JSON_COMPACT);
	json_t *reply;
	int r;

	if (!text)
		return -ENOMEM;
	if (strlen(text) > LG_MSG_BYTES_MAX)
		return lg_complain(c, "the question is longer than %u KiB, which is the most that can be asked from afar: ask at the machine "
				      "itself", LG_MSG_BYTES_MAX >> 10);
	r = exchange(remote, text, strlen(text), timeout_ms);
	if (r == -ETIMEDOUT)
		lg_complain(c, "the server at %s gave no answer within %u ms", remote->address, timeout_ms);
	else if (r < 0)
		lg_complain(c, "cannot ask the server at %s: %s", remote->address, strerror(-r));
	if (r < 0)
		return r;
	if (remote->status != LG_GRPC_OK)
		return refused(remote, c);
	reply = lg_text_ok(&remote->text) ? json_loadb(remote->text.s, remote->text.len, 0, NULL) : NULL;
	if (!json_is_object(reply)) {
		json_decref(reply);
		lg_complain(c, "the server at %s answered with something that is no JSON object", remote->address);
		return -EPROTO;
	}
	*ret_reply = reply;
	return 0;
}
