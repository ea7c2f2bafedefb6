// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The streams of those who hold leases. A host has one. A region has one from each of its servers, and says of which slots of keys each
 * speaks for it; whoever took a slot over there is a new life of the region in that slot alone.
 */
#include "role/server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

__attribute__((format(printf, 2, 3))) static int refuse_hello(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, 128, fmt, ap);
	va_end(ap);
	return -EACCES;
}

static int hello_check(struct lg_server *s, const struct lg_lease_hello *hello, char *why)
{
	if (!hello->is_region)
		return strcmp(hello->region, s->config.region) == 0 ?
			       0 :
			       refuse_hello(why, "this is region %.60s: a host leases from its own", s->config.region);
	if (strcmp(hello->holder, s->config.region) == 0)
		return refuse_hello(why, "this is region %.60s itself: see the addresses in the list", s->config.region);
	if (lg_list_hello(s, hello))
		return refuse_hello(why, "version %llu of the region list is old: here it is %llu", (unsigned long long)hello->regions_version,
				    (unsigned long long)s->config.regions_version);
	for (size_t i = 0; i < s->config.n_regions; i++)
		if (strcmp(s->names[i], hello->holder) == 0)
			return 0;
	return refuse_hello(why, "region %.60s is not in the list here", hello->holder);
}

/* With TLS a holder may speak for itself alone. */
static int identity_check(struct lg_server *s, const struct lg_lease_peer *peer, const struct lg_lease_hello *hello, char *why)
{
	struct lg_tls_name name;

	if (!s->secure.tls)
		return 0;
	lg_lease_peer_identity(peer, &name);
	if (lg_secure_speaks_for(&name, hello->is_region ? hello->holder : hello->region, hello->is_region ? "" : hello->holder, why))
		return 0;
	s->n_impostors++;
	lg_warn("%s says it is %s %s, and %s: refused", lg_lease_peer_address(peer), hello->is_region ? "region" : "host", hello->holder, why);
	return -EACCES;
}

static void stream_free(struct lg_server_stream *stream)
{
	struct lg_server_holder *h = stream->holder;
	struct lg_server_holders *kind = h->is_region ? &h->server->regions : &h->server->hosts;

	for (uint32_t slot = 0; h->lives && slot < LG_KEY_SLOTS; slot++)
		if (h->lives->stream[slot] == stream)
			h->lives->stream[slot] = NULL;
	if (stream->ready_ns)
		STAILQ_REMOVE(&kind->ready, stream, lg_server_stream, ready);
	LIST_REMOVE(stream, link);
	if (LIST_EMPTY(&h->streams))
		h->gone_ns = lg_clock_now_ns();
	free(stream);
}

void lg_streams_free(struct lg_server_holder *h)
{
	while (!LIST_EMPTY(&h->streams))
		stream_free(LIST_FIRST(&h->streams));
}

static void stream_close(struct lg_server_stream *stream, const char *why)
{
	struct lg_lease_peer *peer = stream->peer;

	stream_free(stream);
	lg_lease_peer_set_user(peer, NULL);
	lg_lease_peer_close(peer, why);
}

/* Those that the new one replaces: of a host all, of a region that of the same server. */
static void replace(struct lg_server_holder *h, const struct lg_server_stream *by)
{
	struct lg_server_stream *stream = LIST_FIRST(&h->streams), *next;

	for (; stream; stream = next) {
		next = LIST_NEXT(stream, link);
		if (stream != by && strcmp(stream->hello.replica, by->hello.replica) == 0)
			stream_close(stream, "replaced by a newer connection of the same name");
	}
}

static void live(struct lg_server_stream *stream, uint32_t slot, uint64_t incarnation)
{
	struct lg_server_lives *lives = stream->holder->lives;

	if (incarnation < lives->incarnation[slot])
		return;
	lives->n_lives[slot] += incarnation > lives->incarnation[slot];
	lives->incarnation[slot] = incarnation;
	lives->stream[slot] = stream;
}

/* It is on the durable list: this is a stream of it from now on. */
static void welcome_fill(struct lg_server *s, struct lg_server_stream *stream, struct lg_lease_welcome *welcome)
{
	struct lg_server_holder *h = stream->holder;

	stream->is_waiting = false;
	replace(h, stream);
	if (!h->is_region) {
		h->n_lives += stream->hello.incarnation > h->incarnation;
		h->incarnation = stream->hello.incarnation;
	}
	/* A region that tells of no slots has one server, which speaks for all. */
	for (uint32_t slot = 0; h->is_region && !stream->hello.replica[0] && slot < LG_KEY_SLOTS; slot++)
		live(stream, slot, stream->hello.incarnation);
	snprintf(welcome->lessor, sizeof(welcome->lessor), "%s", s->config.region);
	snprintf(welcome->replica, sizeof(welcome->replica), "%s", s->slots.name);
	welcome->epoch = s->epoch;
	welcome->regions_version = s->config.regions_version;
	welcome->map = &s->slots.map;
	lg_server_rules_here(stream);
	lg_server_regions_here(stream);
	lg_info("%s %s is here (%s)", h->is_region ? "region" : "host", h->name, lg_lease_peer_address(stream->peer));
}

int lg_streams_hello(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello, struct lg_lease_welcome *welcome, char *why)
{
	struct lg_server *s = arg;
	struct lg_server_stream *stream;
	struct lg_server_holder *h;
	int r;

	r = identity_check(s, peer, hello, why);
	if (r == 0)
		r = hello_check(s, hello, why);
	if (r < 0)
		return r;
	r = lg_holders_get(s, hello->is_region ? &s->regions : &s->hosts, hello->holder, &h);
	if (r < 0)
		return refuse_hello(why, "cannot note a new holder: %.60s", strerror(-r));
	if (!h->is_region && hello->incarnation < h->incarnation)
		return refuse_hello(why, "a newer life of %.60s was here already", h->name);
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return refuse_hello(why, "the server is out of memory");
	stream->holder = h;
	stream->peer = peer;
	stream->hello = *hello;
	stream->is_waiting = true;
	LIST_INSERT_HEAD(&h->streams, stream, link);
	replace(h, stream);
	lg_lease_peer_set_user(peer, stream);
	if (!lg_holder_is_noted(h))
		return 1;
	welcome_fill(s, stream, welcome);
	return 0;
}

void lg_streams_listed(struct lg_server *s, struct lg_server_holder *h, int result)
{
	struct lg_server_stream *stream = LIST_FIRST(&h->streams), *next;

	for (; stream; stream = next) {
		struct lg_lease_peer *peer = stream->peer;
		struct lg_lease_welcome welcome = { 0 };

		next = LIST_NEXT(stream, link);
		if (!stream->is_waiting)
			continue;
		if (result) {
			stream_free(stream);
			lg_lease_peer_set_user(peer, NULL);
			lg_lease_peer_answer(peer, NULL, "a new holder could not be noted: come again");
			continue;
		}
		welcome_fill(s, stream, &welcome);
		lg_lease_peer_answer(peer, &welcome, NULL);
		next = LIST_NEXT(stream, link);
	}
}

void lg_streams_lives(void *arg, struct lg_lease_peer *peer, const struct lg_slot_part *part)
{
	struct lg_server_stream *stream = lg_lease_peer_user(peer);

	(void)arg;
	if (!stream || !stream->holder->is_region)
		return;
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++)
		if (lg_slot_set_has(&part->slots, slot))
			live(stream, slot, part->number);
}

void lg_streams_gone(void *arg, struct lg_lease_peer *peer, const char *why)
{
	struct lg_server_stream *stream = lg_lease_peer_user(peer);
	struct lg_server *s = arg;

	if (!stream)
		return;
	if (s->running && !stream->is_waiting)
		lg_info("%s %s is gone: %s", stream->holder->is_region ? "region" : "host", stream->holder->name, why);
	stream_free(stream);
}

struct lg_server_stream *lg_streams_of(const struct lg_server_holder *h, uint32_t slot)
{
	struct lg_server_stream *stream = h->lives ? h->lives->stream[slot] : LIST_FIRST(&h->streams);

	return stream && !stream->is_waiting ? stream : NULL;
}

uint32_t lg_streams_lives_of(const struct lg_server_holder *h, uint32_t slot)
{
	return h->lives ? h->lives->n_lives[slot] : h->n_lives;
}

static void kind_map(struct lg_server *s, struct lg_server_holders *kind)
{
	for (size_t i = 0; i < kind->n; i++) {
		struct lg_server_stream *stream;

		LIST_FOREACH(stream, &kind->v[i]->streams, link)
			if (!stream->is_waiting)
				lg_lease_peer_map(stream->peer, &s->slots.map);
	}
}

void lg_streams_map(struct lg_server *s)
{
	kind_map(s, &s->hosts);
	kind_map(s, &s->regions);
}
