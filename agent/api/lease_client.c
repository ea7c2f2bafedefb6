// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The holder's end. Each attempt has a connection of its own: dial, hello, welcome, then UP until something breaks; then DOWN for a while
 * that doubles with each failure. All holders of a lessor lose it at the same moment and find it again within two seconds: so one that had
 * been up is WAITING after the welcome, for a time by chance, before it says anything. Failures found while the role
 * is calling us are put off to the loop: `down` never comes from inside a call of the role.
 */
#include "api/lease_rpc.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/batch.h"
#include "api/codec.h"
#include "base/clock.h"
#include "lease/holding.h"
#include "loop/loop.h"
#include "net/address.h"
#include "net/grpc.h"
#include "net/tls.h"

#define PATH "/leasegate.v1.LeaseService/Hold"
#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 2000
#define BACKOFF_SOON_MS 200	/* of a few holders: a lessor that is back, or another in its place, is found at once */
#define BACKOFF_HOLDER_MS 4	/* that much more with each: 250 attempts a second from all of them */
#define WELCOME_S 10	/* from the start of an attempt; dialling has a shorter limit of its own */
#define STEADY_S 2	/* up for so long, the next failure is a new one */
#define WAITING_MAX (256u << 20)	/* bytes that wait for room in the stream: a million leases named at once */
#define DRAIN_MS 5

enum state { DOWN, CONNECTING, WAITING, UP };

struct lg_lease_client {
	struct lg_loop *loop;
	char address[LG_HOST_LEN + 8];
	struct lg_lease_hello hello;
	struct lg_tls *tls;		/* NULL: clear text */
	struct lg_tls_expect expect;
	struct lg_lease_client_handlers handlers;
	void *arg;
	enum state state;
	struct lg_grpc_client *grpc;
	struct lg_grpc_stream *stream;
	struct lg_batch batch;
	struct lg_source *retry;	/* the next attempt, the end of a failed one, or of waiting */
	bool retry_armed;
	struct lg_source *drain;	/* what waits gets another chance */
	bool drain_armed;
	struct lg_source *ticker;	/* each second: what takes too long */
	uint32_t state_s;
	uint32_t backoff_ms;
	uint32_t n_holders;		/* that the lessor has, as far as is known */
	bool lost;			/* it was up, and is not again yet */
	struct lg_lease_welcome welcome;/* while waiting */
	struct lg_slot_map map;		/* the newest that the lessor has told on this stream */
	bool owes_rules;		/* what hello said of them was overtaken before there was a welcome */
	bool failed;			/* to be taken down from the loop, for `why` */
	char why[256];
};

static uint32_t jittered(uint32_t ms)
{
	return ms / 2 + arc4random_uniform(ms / 2 + 1);
}

static void enter(struct lg_lease_client *client, enum state state)
{
	client->state = state;
	client->state_s = 0;
}

/* Without memory for the timer the ticker does its work, if later. */
static void retry_after(struct lg_lease_client *client, uint32_t ms)
{
	client->retry_armed = lg_source_arm(client->retry, ms * LG_NS_PER_MS) == 0;
}

static uint32_t backoff_max_ms(const struct lg_lease_client *client)
{
	uint64_t ms = (uint64_t)client->n_holders * BACKOFF_HOLDER_MS;

	return ms < BACKOFF_SOON_MS ? BACKOFF_SOON_MS : ms > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : (uint32_t)ms;
}

static void go_down(struct lg_lease_client *client, const char *why)
{
	uint32_t max_ms = backoff_max_ms(client);

	client->lost |= client->state == UP;
	enter(client, DOWN);
	client->failed = false;
	client->stream = NULL;
	client->grpc = lg_grpc_client_free(client->grpc);
	lg_batch_clear(&client->batch);
	retry_after(client, jittered(client->backoff_ms));
	client->backoff_ms = client->backoff_ms * 2 > max_ms ? max_ms : client->backoff_ms * 2;
	client->handlers.down(client->arg, why);
}

/* Without memory for the timer the next message, or the ticker, does its work. */
static void drain_later(struct lg_lease_client *client)
{
	if (!client->drain_armed && lg_batch_waits(&client->batch))
		client->drain_armed = lg_source_arm(client->drain, DRAIN_MS * LG_NS_PER_MS) == 0;
}

static void fail_later(struct lg_lease_client *client, const char *why)
{
	if (client->failed)
		return;
	client->failed = true;
	snprintf(client->why, sizeof(client->why), "%s", why);
	retry_after(client, 0);
}

/* ---- what the stream says ---- */

static void come_up(struct lg_lease_client *client)
{
	enter(client, UP);
	client->lost = false;
	client->handlers.up(client->arg, &client->welcome);
	if (client->handlers.map && client->state == UP)
		client->handlers.map(client->arg, &client->map);
}

/* A lessor that tells of no slots is one server, and has them all. */
static void map_of_one(struct lg_lease_client *client)
{
	struct lg_slot_map *map = &client->map;

	lg_slot_map_init(map);
	map->n = 1;
	memcpy(map->v[0].name, client->welcome.replica, sizeof(map->v[0].name));
	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		map->owner[slot] = 0;
		map->epoch[slot] = client->welcome.epoch;
	}
}

static void say_rules(struct lg_lease_client *client);

static void on_welcome(struct lg_lease_client *client, const struct lg_lease_welcome *welcome, const struct lg_lessor_msg *msg)
{
	uint64_t wait_ns = client->lost ? lg_upstream_spread_ns(client->n_holders, arc4random()) : 0;

	client->welcome = *welcome;
	if (!lg_lessor_msg_map(msg, &client->map))
		map_of_one(client);
	enter(client, WAITING);
	if (client->owes_rules)
		say_rules(client);
	if (wait_ns)
		retry_after(client, (uint32_t)(wait_ns / LG_NS_PER_MS));
	else
		come_up(client);
}

static void on_grants(struct lg_lease_client *client, const struct lg_lessor_msg *msg)
{
	for (size_t i = 0; i < lg_lessor_msg_count(msg); i++) {
		struct lg_wire_key key;
		struct lg_grant grant;

		lg_lessor_msg_grant(msg, i, &key, &grant);
		client->handlers.grant(client->arg, &key, &grant);
	}
	client->handlers.batch_end(client->arg);
}

static void on_news(struct lg_lease_client *client, const struct lg_lessor_msg *msg)
{
	bool has_map = lg_lessor_msg_map(msg, &client->map);

	/* Grants of a lessor that is waited for are as lost: said again to who asks. */
	if (client->state != UP)
		return;
	if (has_map && client->handlers.map)
		client->handlers.map(client->arg, &client->map);
	if (client->state == UP && lg_lessor_msg_count(msg))
		on_grants(client, msg);
}

/* Handlers of grants may say something, but not bring the stream down; neither may this one. */
static void on_rules(struct lg_lease_client *client, const struct lg_lessor_msg *msg)
{
	struct lg_rules_part part;

	if (client->handlers.rules && lg_lessor_msg_rules(msg, &part))
		client->handlers.rules(client->arg, &part);
}

static void on_regions(struct lg_lease_client *client, const struct lg_lessor_msg *msg)
{
	struct lg_region_list list;

	if (client->handlers.regions && lg_lessor_msg_regions(msg, &list))
		client->handlers.regions(client->arg, &list);
}

static void malformed(struct lg_lease_client *client, const char *what)
{
	char why[sizeof(client->why)];

	snprintf(why, sizeof(why), "the lessor sent a malformed message: %.200s", what);
	go_down(client, why);
}

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct lg_lease_client *client = arg;
	_cleanup_(lg_lessor_msg_free) struct lg_lessor_msg *msg = NULL;
	struct lg_lease_welcome welcome;
	struct lg_complaint c;
	int r;

	(void)stream;
	r = lg_lessor_msg_parse(data, len, &msg, &c);
	if (r == -ENOMEM)
		go_down(client, "out of memory");
	else if (r < 0)
		malformed(client, c.text);
	if (r < 0)
		return;
	if (lg_lessor_msg_welcome(msg, &welcome) != (client->state == CONNECTING))
		malformed(client, client->state == CONNECTING ? "no welcome before the first grant" : "a second welcome");
	else if (client->state == CONNECTING)
		on_welcome(client, &welcome, msg);
	else
		on_news(client, msg);
	/* Rules need no leases, and no waiting; nor do regions. */
	if (client->state == UP || client->state == WAITING) {
		on_rules(client, msg);
		on_regions(client, msg);
	}
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct lg_lease_client *client = arg;
	char text[sizeof(client->why)];

	(void)stream;
	snprintf(text, sizeof(text), "%.200s (status %d)", why, status);
	go_down(client, status == LG_GRPC_UNAVAILABLE ? why : text);
}

/* ---- attempts ---- */

static int say_hello(struct lg_lease_client *client)
{
	_cleanup_text_ struct lg_text text = { 0 };

	client->owes_rules = false;
	lg_codec_put_hello(&text, &client->hello);
	return lg_text_ok(&text) ? lg_grpc_send(client->stream, text.s, text.len) : -ENOMEM;
}

static void connect_now(struct lg_lease_client *client)
{
	static const struct lg_grpc_handlers handlers = { .message = on_message, .closed = on_closed };
	struct lg_complaint c;
	int r;

	enter(client, CONNECTING);
	r = lg_grpc_client_new(client->loop, client->address, &handlers, client, &client->grpc, &c);
	if (r == 0 && client->tls)
		lg_grpc_client_secure(client->grpc, client->tls, &client->expect);
	if (r == 0)
		r = lg_grpc_client_open(client->grpc, PATH, &client->stream);
	if (r == 0)
		r = say_hello(client);
	if (r < 0)
		go_down(client, "out of memory");
}

static void on_retry(void *arg)
{
	struct lg_lease_client *client = arg;

	client->retry_armed = false;
	if (client->failed)
		go_down(client, client->why);
	else if (client->state == WAITING)
		come_up(client);
	else
		connect_now(client);
}

static void on_drain(void *arg)
{
	struct lg_lease_client *client = arg;
	int r;

	client->drain_armed = false;
	if (!lg_lease_client_is_up(client))
		return;
	r = lg_batch_drain(&client->batch, client->stream);
	if (r < 0)
		fail_later(client, lg_batch_why(r));
	drain_later(client);
}

static void on_second(void *arg)
{
	struct lg_lease_client *client = arg;

	client->state_s++;
	drain_later(client);
	if ((client->failed || client->state == DOWN || client->state == WAITING) && !client->retry_armed)
		on_retry(client);
	else if (client->state == CONNECTING && client->state_s > WELCOME_S)
		go_down(client, "the lessor said no welcome within 10 s");
	else if (client->state == UP && client->state_s > STEADY_S)
		client->backoff_ms = BACKOFF_MIN_MS;
}

int lg_lease_client_new(struct lg_loop *loop, const char *address, const struct lg_lease_hello *hello,
			const struct lg_lease_client_handlers *handlers, void *arg, struct lg_lease_client **ret_client,
			struct lg_complaint *c)
{
	_cleanup_(lg_lease_client_free) struct lg_lease_client *client = NULL;
	struct lg_address parsed;
	int r;

	r = lg_address_parse(address, true, &parsed, c);
	if (r < 0)
		return r;
	client = calloc(1, sizeof(*client));
	if (!client)
		return -ENOMEM;
	client->loop = loop;
	snprintf(client->address, sizeof(client->address), "%s", address);
	client->hello = *hello;
	client->handlers = *handlers;
	client->arg = arg;
	lg_batch_init(&client->batch, WAITING_MAX);
	client->backoff_ms = BACKOFF_MIN_MS;
	r = lg_loop_add_timer(loop, on_retry, client, &client->retry);
	if (r == 0)
		r = lg_loop_add_timer(loop, on_drain, client, &client->drain);
	if (r == 0)
		r = lg_loop_add_ticker(loop, LG_NS_PER_S, on_second, client, &client->ticker);
	if (r < 0)
		return r;
	retry_after(client, 0);
	*ret_client = TAKE(client);
	return 0;
}

void lg_lease_client_secure(struct lg_lease_client *client, struct lg_tls *tls, const char *region)
{
	client->tls = tls;
	snprintf(client->expect.name.region, sizeof(client->expect.name.region), "%s", region);
}

struct lg_lease_client *lg_lease_client_free(struct lg_lease_client *client)
{
	if (!client)
		return NULL;
	lg_grpc_client_free(client->grpc);
	lg_batch_clear(&client->batch);
	lg_source_free(client->retry);
	lg_source_free(client->drain);
	lg_source_free(client->ticker);
	free(client);
	return NULL;
}

/* ---- what the role says ---- */

void lg_lease_client_crowd(struct lg_lease_client *client, uint32_t n_holders)
{
	client->n_holders = n_holders;
}

bool lg_lease_client_is_up(const struct lg_lease_client *client)
{
	return client->state == UP && !client->failed;
}

bool lg_lease_client_is_stalled(const struct lg_lease_client *client)
{
	return lg_lease_client_is_up(client) && lg_grpc_is_stalled(client->stream);
}

/* A piece was put behind what was there before `mark`. */
static void added(struct lg_lease_client *client, size_t mark)
{
	int r = lg_batch_added(&client->batch, mark, client->stream);

	if (r < 0)
		fail_later(client, lg_batch_why(r));
	drain_later(client);
}

void lg_lease_client_ask(struct lg_lease_client *client, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	size_t mark = client->batch.text.len;

	if (!lg_lease_client_is_up(client))
		return;
	lg_codec_put_ask(&client->batch.text, key, ask);
	added(client, mark);
}

void lg_lease_client_synced(struct lg_lease_client *client, uint64_t forgot_age_ms)
{
	size_t mark = client->batch.text.len;

	if (!lg_lease_client_is_up(client))
		return;
	lg_codec_put_synced(&client->batch.text, forgot_age_ms);
	added(client, mark);
}

void lg_lease_client_synced_slots(struct lg_lease_client *client, const struct lg_slot_part *parts, size_t n, uint64_t forgot_age_ms)
{
	size_t mark = client->batch.text.len;

	if (!lg_lease_client_is_up(client))
		return;
	lg_codec_put_synced_slots(&client->batch.text, parts, n, forgot_age_ms);
	added(client, mark);
}

void lg_lease_client_lives(struct lg_lease_client *client, const struct lg_slot_part *parts, size_t n)
{
	size_t mark = client->batch.text.len;

	if (!lg_lease_client_is_up(client))
		return;
	lg_codec_put_lives(&client->batch.text, parts, n);
	added(client, mark);
}

void lg_lease_client_flush(struct lg_lease_client *client)
{
	int r;

	if (!lg_lease_client_is_up(client))
		return;
	r = lg_batch_flush(&client->batch, client->stream);
	if (r < 0)
		fail_later(client, lg_batch_why(r));
	drain_later(client);
}

/* In a message of its own: two of a kind in one would be joined. */
static void say_alone(struct lg_lease_client *client, const struct lg_text *text, const char *what)
{
	int r;

	if ((client->state != UP && client->state != WAITING) || client->failed)
		return;
	r = lg_text_ok(text) ? lg_grpc_send(client->stream, text->s, text->len) : -ENOMEM;
	if (r < 0)
		fail_later(client, r == -ENOBUFS ? what : lg_batch_why(r));
}

static void say_rules(struct lg_lease_client *client)
{
	_cleanup_text_ struct lg_text text = { 0 };

	client->owes_rules = client->state == CONNECTING;
	lg_codec_put_rules_state(&text, &client->hello.rules);
	say_alone(client, &text, "the lessor reads too slowly to be told of rules");
}

void lg_lease_client_rules(struct lg_lease_client *client, const struct lg_rules_state *state)
{
	client->hello.wants_rules = true;
	client->hello.rules = *state;
	say_rules(client);
}

void lg_lease_client_regions(struct lg_lease_client *client, const struct lg_region_list *list)
{
	_cleanup_text_ struct lg_text text = { 0 };

	lg_codec_put_regions_up(&text, list);
	say_alone(client, &text, "the lessor reads too slowly to be told of regions");
}
