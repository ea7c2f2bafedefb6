// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The lessor's end: a peer per stream. Handlers of the role may close any peer, the one they are called for included, so a peer that is
 * `busy` is freed when its handler has returned. Failures found while the role is calling us are put off to the loop: `gone` never comes
 * from inside a call of the role.
 */
#include "api/lease_rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "api/batch.h"
#include "api/codec.h"
#include "api/remote.h"
#include "base/clock.h"
#include "loop/loop.h"
#include "net/address.h"
#include "net/grpc.h"
#include "net/tls.h"

#define PATH "/leasegate.v1.LeaseService/Hold"
#define HELLO_S 5	/* for a new stream to say hello */
#define REGION_WAITING_MAX (64u << 20) /* bytes that wait for room in a region's stream: a home may serve all of its keys in one tick */
#define DRAIN_MS 5

struct lg_lease_peer {
	LIST_ENTRY(lg_lease_peer) link;
	struct lg_lease_server *server;
	struct lg_grpc_stream *stream;	/* NULL once it is over */
	struct lg_batch batch;
	void *user;
	bool greeted;			/* the role knows it */
	bool is_waiting;		/* its hello is to be answered later */
	bool is_region;
	char asker[LG_NAME_LEN];	/* who asks one question; "": it is a holder's stream */
	bool busy;			/* a handler runs for it */
	bool failed;			/* to be ended from the loop, for `why` */
	unsigned int age_s;
	char address[LG_PEER_LEN];
	char why[256];
};

struct lg_lease_server {
	struct lg_grpc_server *grpc;
	struct lg_lease_server_handlers handlers;
	void *arg;
	char operators_of[LG_NAME_LEN];	/* region whose operators may ask; "": nobody may */
	LIST_HEAD(, lg_lease_peer) peers;
	unsigned int n_peers;
	struct lg_source *ticker;
	struct lg_source *drain;	/* what waits for room gets another chance */
	bool drain_armed;
	struct lg_source *reaper;	/* ends peers that failed; the ticker does, too, if there was no memory to arm this */
	struct lg_lease_server_counts counts;
};

static bool is_usable(const struct lg_lease_peer *peer)
{
	return peer->stream && peer->greeted && !peer->failed;
}

/* On its own, or the compiler takes what is behind a handler for a use after it: that a busy peer stays it cannot know. */
__attribute__((noinline)) static void peer_free(struct lg_lease_peer *peer)
{
	LIST_REMOVE(peer, link);
	peer->server->n_peers--;
	lg_batch_clear(&peer->batch);
	free(peer);
}

/* The stream is over; the role hears of it unless it brought it about. */
static void peer_over(struct lg_lease_peer *peer, bool tell, const char *why)
{
	struct lg_lease_server *server = peer->server;
	bool busy = peer->busy;

	peer->stream = NULL;
	peer->busy = true;
	if (tell && (peer->greeted || peer->is_waiting))
		server->handlers.gone(server->arg, peer, why);
	peer->busy = busy;
	if (!busy)
		peer_free(peer);
}

static void peer_end(struct lg_lease_peer *peer, int status, const char *why, bool tell)
{
	if (!peer->stream)
		return;
	lg_grpc_close(peer->stream, status, why);
	peer_over(peer, tell, why);
}

static void fail_later(struct lg_lease_peer *peer, const char *why)
{
	if (peer->failed)
		return;
	peer->failed = true;
	snprintf(peer->why, sizeof(peer->why), "%s", why);
	lg_source_arm(peer->server->reaper, 0);
}

/* Without memory for the timer the next message, or the ticker, does its work. */
static void drain_later(struct lg_lease_server *server)
{
	if (!server->drain_armed)
		server->drain_armed = lg_source_arm(server->drain, DRAIN_MS * LG_NS_PER_MS) == 0;
}

/* ---- what streams say ---- */

static int on_open(void *arg, struct lg_grpc_stream *stream, const char *path)
{
	struct lg_lease_server *server = arg;
	bool is_question = server->operators_of[0] && strcmp(path, LG_REMOTE_PATH) == 0;
	char asker[LG_NAME_LEN] = "";
	struct lg_lease_peer *peer;

	if (strcmp(path, PATH) != 0 && !is_question)
		return LG_GRPC_UNIMPLEMENTED;
	if (is_question && !lg_remote_operator(stream, server->operators_of, asker)) {
		server->counts.refused++;
		return LG_GRPC_PERMISSION_DENIED;
	}
	if (server->n_peers >= LG_GRPC_SESSIONS_MAX)
		return LG_GRPC_RESOURCE_EXHAUSTED;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return LG_GRPC_RESOURCE_EXHAUSTED;
	peer->server = server;
	peer->stream = stream;
	memcpy(peer->asker, asker, sizeof(peer->asker));
	lg_batch_init(&peer->batch, 0);
	LIST_INSERT_HEAD(&server->peers, peer, link);
	server->n_peers++;
	snprintf(peer->address, sizeof(peer->address), "%s", lg_grpc_peer(stream));
	lg_grpc_set_user(stream, peer);
	return LG_GRPC_OK;
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	(void)arg;
	(void)status;
	peer_over(lg_grpc_user(stream), true, why);
}

static int send_welcome(struct lg_lease_peer *peer, const struct lg_lease_welcome *welcome)
{
	_cleanup_text_ struct lg_text text = { 0 };

	lg_codec_put_welcome(&text, welcome);
	return lg_text_ok(&text) ? lg_grpc_send(peer->stream, text.s, text.len) : -ENOMEM;
}

static void hello_answer(struct lg_lease_peer *peer, const struct lg_lease_welcome *welcome, const char *why)
{
	int r;

	if (!welcome) {
		peer->server->counts.refused++;
		peer_end(peer, LG_GRPC_FAILED_PRECONDITION, why, false);
		return;
	}
	peer->greeted = true;
	if (peer->is_region)
		peer->batch.waiting_max = REGION_WAITING_MAX;
	r = send_welcome(peer, welcome);
	if (r < 0)
		fail_later(peer, lg_batch_why(r));
}

static void on_hello(struct lg_lease_peer *peer, const struct lg_lease_hello *hello)
{
	struct lg_lease_server *server = peer->server;
	struct lg_lease_welcome welcome = { 0 };
	char why[256] = "refused";
	int r;

	peer->is_region = hello->is_region;
	r = server->handlers.hello(server->arg, peer, hello, &welcome, why);
	if (!peer->stream)
		return;
	if (r > 0)
		peer->is_waiting = true;
	else
		hello_answer(peer, r < 0 ? NULL : &welcome, why);
}

static void on_rules(struct lg_lease_peer *peer, const struct lg_holder_msg *msg)
{
	const struct lg_lease_server_handlers *handlers = &peer->server->handlers;
	struct lg_rules_state state;

	if (peer->stream && handlers->rules && lg_holder_msg_rules(msg, &state))
		handlers->rules(peer->server->arg, peer, &state);
}

static void on_regions(struct lg_lease_peer *peer, const struct lg_holder_msg *msg)
{
	const struct lg_lease_server_handlers *handlers = &peer->server->handlers;
	struct lg_region_list list;

	if (peer->stream && handlers->regions && lg_holder_msg_regions(msg, &list))
		handlers->regions(peer->server->arg, peer, &list);
}

static void on_batch(struct lg_lease_peer *peer, const struct lg_holder_msg *msg)
{
	const struct lg_lease_server_handlers *handlers = &peer->server->handlers;
	void *arg = peer->server->arg;
	struct lg_slot_part part;
	uint64_t forgot_age_ms;

	for (size_t i = 0; peer->stream && handlers->lives && lg_holder_msg_live(msg, i, &part); i++)
		handlers->lives(arg, peer, &part);
	for (size_t i = 0; peer->stream && i < lg_holder_msg_count(msg); i++) {
		struct lg_wire_key key;
		struct lg_ask ask;

		lg_holder_msg_ask(msg, i, &key, &ask);
		handlers->ask(arg, peer, &key, &ask);
	}
	if (peer->stream && lg_holder_msg_is_synced(msg, &forgot_age_ms)) {
		if (!handlers->synced_slots || !lg_holder_msg_synced_part(msg, 0, &part))
			handlers->synced(arg, peer, forgot_age_ms);
		for (size_t i = 0; peer->stream && handlers->synced_slots && lg_holder_msg_synced_part(msg, i, &part); i++)
			handlers->synced_slots(arg, peer, &part, forgot_age_ms);
	}
	on_rules(peer, msg);
	on_regions(peer, msg);
	if (peer->stream)
		handlers->batch_end(arg, peer);
}

static void malformed(struct lg_lease_peer *peer, const char *why)
{
	peer->server->counts.malformed++;
	peer_end(peer, LG_GRPC_INVALID_ARGUMENT, why, true);
}

static void on_parsed(struct lg_lease_peer *peer, const struct lg_holder_msg *msg)
{
	struct lg_lease_hello hello;
	bool has_hello = lg_holder_msg_hello(msg, &hello);

	if (has_hello && (peer->greeted || peer->is_waiting))
		malformed(peer, "a second hello");
	else if (has_hello)
		on_hello(peer, &hello);
	else if (!peer->greeted)
		malformed(peer, peer->is_waiting ? "a message before the welcome" : "the first message is no hello");
	else
		on_batch(peer, msg);
}

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct lg_lease_peer *peer = lg_grpc_user(stream);
	_cleanup_(lg_holder_msg_free) struct lg_holder_msg *msg = NULL;
	struct lg_lease_server *server = arg;
	struct lg_complaint c;
	int r;

	if (peer->asker[0]) {
		lg_remote_answer(stream, peer->asker, data, len, server->handlers.question, server->arg);
		peer_over(peer, false, "");
		return;
	}
	peer->busy = true;
	r = lg_holder_msg_parse(data, len, &msg, &c);
	if (r == -ENOMEM)
		peer_end(peer, LG_GRPC_RESOURCE_EXHAUSTED, "out of memory", true);
	else if (r < 0)
		malformed(peer, c.text);
	else
		on_parsed(peer, msg);
	peer->busy = false;
	if (!peer->stream)
		peer_free(peer);
}

/* ---- time ---- */

static struct lg_lease_peer *first_failed(struct lg_lease_server *server)
{
	struct lg_lease_peer *peer;

	LIST_FOREACH(peer, &server->peers, link)
		if (peer->failed)
			return peer;
	return NULL;
}

/* From the start after each: `gone` may close any other peer. */
static void on_reap(void *arg)
{
	struct lg_lease_server *server = arg;
	struct lg_lease_peer *peer;

	while ((peer = first_failed(server))) {
		server->counts.slow++;
		peer_end(peer, LG_GRPC_RESOURCE_EXHAUSTED, peer->why, true);
	}
}

static void on_drain(void *arg)
{
	struct lg_lease_server *server = arg;
	struct lg_lease_peer *peer;

	server->drain_armed = false;
	LIST_FOREACH(peer, &server->peers, link) {
		int r = is_usable(peer) ? lg_batch_drain(&peer->batch, peer->stream) : 0;

		if (r < 0)
			fail_later(peer, lg_batch_why(r));
		if (lg_batch_waits(&peer->batch))
			drain_later(server);
	}
}

static void on_second(void *arg)
{
	struct lg_lease_server *server = arg;
	struct lg_lease_peer *peer = LIST_FIRST(&server->peers), *next;

	for (; peer; peer = next) {
		next = LIST_NEXT(peer, link);
		if (peer->greeted || ++peer->age_s <= HELLO_S)
			continue;
		server->counts.late++;
		peer_end(peer, LG_GRPC_DEADLINE_EXCEEDED, peer->is_waiting ? "the hello was not answered in time" : "no hello within 5 s",
			 peer->is_waiting);
	}
	on_reap(server);
	on_drain(server);
}

/* ---- the role ---- */

int lg_lease_server_new(struct lg_loop *loop, const char *address, const struct lg_lease_server_handlers *handlers,
			void *arg, struct lg_lease_server **ret_server, struct lg_complaint *c)
{
	static const struct lg_grpc_handlers grpc = { .open = on_open, .message = on_message, .closed = on_closed };
	_cleanup_(lg_lease_server_free) struct lg_lease_server *server = NULL;
	int r;

	server = calloc(1, sizeof(*server));
	if (!server)
		return -ENOMEM;
	server->handlers = *handlers;
	server->arg = arg;
	LIST_INIT(&server->peers);
	r = lg_loop_add_timer(loop, on_reap, server, &server->reaper);
	if (r == 0)
		r = lg_loop_add_timer(loop, on_drain, server, &server->drain);
	if (r == 0)
		r = lg_loop_add_ticker(loop, LG_NS_PER_S, on_second, server, &server->ticker);
	if (r == 0)
		r = lg_grpc_server_new(loop, address, &grpc, server, &server->grpc, c);
	if (r < 0)
		return r;
	*ret_server = TAKE(server);
	return 0;
}

struct lg_lease_server *lg_lease_server_free(struct lg_lease_server *server)
{
	if (!server)
		return NULL;
	lg_grpc_server_free(server->grpc);
	while (!LIST_EMPTY(&server->peers))
		peer_free(LIST_FIRST(&server->peers));
	lg_source_free(server->ticker);
	lg_source_free(server->reaper);
	lg_source_free(server->drain);
	free(server);
	return NULL;
}

int lg_lease_server_port(const struct lg_lease_server *server)
{
	return lg_grpc_server_port(server->grpc);
}

void lg_lease_server_counts(const struct lg_lease_server *server, struct lg_lease_server_counts *ret)
{
	*ret = server->counts;
	ret->strangers = lg_grpc_server_strangers(server->grpc);
	ret->displaced = lg_grpc_server_displaced(server->grpc);
}

void lg_lease_server_secure(struct lg_lease_server *server, struct lg_tls *tls)
{
	lg_grpc_server_secure(server->grpc, tls);
}

void lg_lease_server_operators(struct lg_lease_server *server, const char *region)
{
	snprintf(server->operators_of, sizeof(server->operators_of), "%s", region);
}

/* What came of adding to a batch or of flushing it. */
static void sent(struct lg_lease_peer *peer, int r)
{
	if (r < 0)
		fail_later(peer, lg_batch_why(r));
	if (lg_batch_waits(&peer->batch))
		drain_later(peer->server);
}

void lg_lease_peer_answer(struct lg_lease_peer *peer, const struct lg_lease_welcome *welcome, const char *why)
{
	peer->is_waiting = false;
	if (peer->stream && !peer->failed)
		hello_answer(peer, welcome, why);
}

void lg_lease_peer_grant(struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	size_t mark = peer->batch.text.len;

	if (!is_usable(peer))
		return;
	lg_codec_put_grant(&peer->batch.text, key, grant);
	sent(peer, lg_batch_added(&peer->batch, mark, peer->stream));
}

void lg_lease_peer_map(struct lg_lease_peer *peer, const struct lg_slot_map *map)
{
	size_t mark;

	if (!is_usable(peer))
		return;
	/* A message of its own: two maps in one would be read as their sum. */
	lg_lease_peer_flush(peer);
	mark = peer->batch.text.len;
	lg_codec_put_map(&peer->batch.text, map);
	sent(peer, lg_batch_added(&peer->batch, mark, peer->stream));
	lg_lease_peer_flush(peer);
}

void lg_lease_peer_flush(struct lg_lease_peer *peer)
{
	if (is_usable(peer))
		sent(peer, lg_batch_flush(&peer->batch, peer->stream));
}

/* In a message of its own, behind what is in the batch. */
void lg_lease_peer_rules(struct lg_lease_peer *peer, const struct lg_rules_part *part)
{
	lg_lease_peer_flush(peer);
	if (!is_usable(peer))
		return;
	lg_codec_put_rules_part(&peer->batch.text, part);
	lg_lease_peer_flush(peer);
}

void lg_lease_peer_regions(struct lg_lease_peer *peer, const struct lg_region_list *list)
{
	lg_lease_peer_flush(peer);
	if (!is_usable(peer))
		return;
	lg_codec_put_regions_down(&peer->batch.text, list);
	lg_lease_peer_flush(peer);
}

void lg_lease_peer_close(struct lg_lease_peer *peer, const char *why)
{
	peer_end(peer, LG_GRPC_UNAVAILABLE, why, false);
}

void lg_lease_peer_set_user(struct lg_lease_peer *peer, void *user)
{
	peer->user = user;
}

void *lg_lease_peer_user(const struct lg_lease_peer *peer)
{
	return peer->user;
}

const char *lg_lease_peer_address(const struct lg_lease_peer *peer)
{
	return peer->address;
}

bool lg_lease_peer_identity(const struct lg_lease_peer *peer, struct lg_tls_name *ret)
{
	*ret = (struct lg_tls_name){ 0 };
	return peer->stream && lg_grpc_identity(peer->stream, ret);
}
