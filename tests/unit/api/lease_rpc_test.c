// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Both ends of the lease service over TCP; and each end against a peer that only speaks gRPC. */
#include "api/lease_rpc.h"

#include <stdlib.h>

#include "api/codec.h"
#include "leasegate/abi.h"
#include "net/address.h"
#include "net/grpc.h"
#include "tests/unit/net/net_test.h"

#define PATH "/leasegate.v1.LeaseService/Hold"
#define N_KEYS 10000

static const struct lg_lease_hello host_hello = { .holder = "host-1",
						  .region = "eu-west",
						  .incarnation = 42,
						  .regions_version = 7,
						  .max_keys = 65536 };

struct lessor {
	struct lg_lease_server *server;
	struct lg_lease_peer *peer;	/* the last one that said hello */
	unsigned int n_hello, n_asks, n_synced, n_batches, n_gone;
	struct lg_lease_hello hello;
	struct lg_wire_key key;		/* of the last ask */
	struct lg_ask ask;
	char why[256];
	bool refuse;
	bool answer;			/* each ask with a grant */
	bool close_on_ask;
	bool replace;			/* an older peer by a newer */
	bool later;			/* hello is answered later */
	uint64_t rules_version;		/* that the holder has, as it said last after its hello */
	uint64_t seq_sum;
};

struct holder {
	struct lg_lease_client *client;
	unsigned int n_up, n_down, n_grants, n_batches;
	struct lg_lease_welcome welcome;
	struct lg_grant grant;
	struct lg_wire_key key;
	char why[256];
	uint64_t seq_sum;
	bool sync_on_up;
};

/* ---- lessor ---- */

static int on_hello(void *arg, struct lg_lease_peer *peer, const struct lg_lease_hello *hello,
		    struct lg_lease_welcome *welcome, char *why)
{
	struct lessor *l = arg;

	l->n_hello++;
	if (l->refuse) {
		snprintf(why, 128, "region eu-west is not %s", hello->region);
		return -EACCES;
	}
	if (l->replace && l->peer)
		lg_lease_peer_close(l->peer, "replaced by a newer connection");
	l->hello = *hello;
	l->peer = peer;
	*welcome = (struct lg_lease_welcome){ .lessor = "eu-west", .epoch = 3, .regions_version = 7 };
	lg_lease_peer_set_user(peer, l);
	return l->later;
}

static void on_rules(void *arg, struct lg_lease_peer *peer, const struct lg_rules_state *state)
{
	struct lessor *l = arg;

	(void)peer;
	l->rules_version = state->running.counter;
}

static void on_ask(void *arg, struct lg_lease_peer *peer, const struct lg_wire_key *key, const struct lg_ask *ask)
{
	struct lessor *l = arg;
	const struct lg_grant grant = { .ack_seq = ask->seq, .epoch = 3, .generation = 1, .granted_tok = ask->want_tok,
					.ttl_ms = 10000 };

	assert_ptr_equal(lg_lease_peer_user(peer), l);
	l->n_asks++;
	l->seq_sum += ask->seq;
	l->key = *key;
	l->ask = *ask;
	if (l->answer)
		lg_lease_peer_grant(peer, key, &grant);
	if (l->close_on_ask) {
		l->peer = NULL;
		lg_lease_peer_close(peer, "enough");
	}
}

static void on_synced(void *arg, struct lg_lease_peer *peer, uint64_t forgot_age_ms)
{
	struct lessor *l = arg;

	(void)peer;
	assert_true(forgot_age_ms == LG_LEASE_REMEMBERS);
	l->n_synced++;
}

static void on_batch_end(void *arg, struct lg_lease_peer *peer)
{
	struct lessor *l = arg;

	l->n_batches++;
	lg_lease_peer_flush(peer);
}

static void on_gone(void *arg, struct lg_lease_peer *peer, const char *why)
{
	struct lessor *l = arg;

	l->n_gone++;
	snprintf(l->why, sizeof(l->why), "%s", why);
	assert_true(strlen(lg_lease_peer_address(peer)) > 0);
	if (l->peer == peer)
		l->peer = NULL;
}

static const struct lg_lease_server_handlers lessor_handlers = { on_hello, on_ask, on_synced, on_batch_end, on_gone, NULL, NULL, on_rules,
								 NULL, NULL };

/* ---- holder ---- */

static void on_up(void *arg, const struct lg_lease_welcome *welcome)
{
	struct holder *h = arg;

	h->n_up++;
	h->welcome = *welcome;
	if (h->sync_on_up) {
		lg_lease_client_synced(h->client, LG_LEASE_REMEMBERS);
		lg_lease_client_flush(h->client);
	}
}

static void on_down(void *arg, const char *why)
{
	struct holder *h = arg;

	h->n_down++;
	snprintf(h->why, sizeof(h->why), "%s", why);
}

static void on_grant(void *arg, const struct lg_wire_key *key, const struct lg_grant *grant)
{
	struct holder *h = arg;

	h->n_grants++;
	h->seq_sum += grant->ack_seq;
	h->key = *key;
	h->grant = *grant;
}

static void on_grants_end(void *arg)
{
	struct holder *h = arg;

	h->n_batches++;
}

static const struct lg_lease_client_handlers holder_handlers = { on_up, on_down, on_grant, on_grants_end, NULL, NULL, NULL };

/* ---- */

struct fixture {
	struct net_loop n;
	struct lessor l;
	struct holder h;
	char address[64];
};

static void start_lessor(struct fixture *f, const char *address)
{
	struct lg_complaint c = { 0 };

	if (lg_lease_server_new(f->n.loop, address, &lessor_handlers, &f->l, &f->l.server, &c) < 0)
		fail_msg("%s", c.text);
	snprintf(f->address, sizeof(f->address), "127.0.0.1:%d", lg_lease_server_port(f->l.server));
}

static void start_holder(struct fixture *f, struct holder *h)
{
	struct lg_complaint c = { 0 };

	if (lg_lease_client_new(f->n.loop, f->address, &host_hello, &holder_handlers, h, &h->client, &c) < 0)
		fail_msg("%s", c.text);
}

static void begin(struct fixture *f)
{
	*f = (struct fixture){ .n = net_loop_new() };
	start_lessor(f, "127.0.0.1:0");
}

static void begin_up(struct fixture *f)
{
	begin(f);
	start_holder(f, &f->h);
	assert_false(lg_lease_client_is_up(f->h.client));
	WAIT_FOR(f->n.loop, f->h.n_up);
	assert_true(lg_lease_client_is_up(f->h.client));
}

static void end(struct fixture *f)
{
	lg_lease_client_free(f->h.client);
	lg_lease_server_free(f->l.server);
	net_loop_free(&f->n);
}

static struct lg_wire_key key_of(uint32_t i)
{
	struct lg_wire_key key = { .rule = "per-user", .fingerprint = 99, .form = LG_FORM_SOURCE };

	memcpy(key.a, &i, sizeof(i));
	return key;
}

static void rules_that_change_before_there_is_a_welcome_are_said_after_it(void **state)
{
	const struct lg_lease_welcome welcome = { .lessor = "eu-west", .epoch = 3, .regions_version = 7 };
	struct lg_rules_state rules = { .running = { .counter = 1, .unix_ms = 5, .region = "eu-west" } };
	struct fixture f;

	(void)state;
	begin(&f);
	f.l.later = true;
	start_holder(&f, &f.h);
	lg_lease_client_rules(f.h.client, &rules);
	WAIT_FOR(f.n.loop, f.l.n_hello);
	assert_int_equal(f.l.hello.rules.running.counter, 1);
	rules.running.counter = 2;
	lg_lease_client_rules(f.h.client, &rules);
	assert_int_equal(f.l.rules_version, 0);
	lg_lease_peer_answer(f.l.peer, &welcome, NULL);
	WAIT_FOR(f.n.loop, f.l.rules_version);
	assert_int_equal(f.l.rules_version, 2);
	assert_int_equal(f.h.n_down, 0);
	end(&f);
}

static void hello_is_answered_by_welcome(void **state)
{
	struct fixture f;

	(void)state;
	begin_up(&f);
	assert_string_equal(f.l.hello.holder, "host-1");
	assert_string_equal(f.l.hello.region, "eu-west");
	assert_int_equal(f.l.hello.incarnation, 42);
	assert_int_equal(f.l.hello.regions_version, 7);
	assert_int_equal(f.l.hello.max_keys, 65536);
	assert_false(f.l.hello.is_region);
	assert_string_equal(f.h.welcome.lessor, "eu-west");
	assert_int_equal(f.h.welcome.epoch, 3);
	assert_int_equal(f.h.welcome.regions_version, 7);
	assert_memory_equal(lg_lease_peer_address(f.l.peer), "127.0.0.1:", 10);
	assert_int_equal(f.h.n_down, 0);
	end(&f);
}

static void an_ask_reaches_the_lessor_and_its_grant_the_holder(void **state)
{
	const struct lg_ask ask = { .seq = 5, .life = 4, .epoch = 3, .generation = 1, .request = true, .granted_tok = 100,
				    .spent_tok = 90, .want_tok = 50, .demand_mtps = 1500, .n_slots = 1, .slots = { { 8, 20, 90 } } };
	const struct lg_wire_key key = key_of(7);
	struct fixture f;

	(void)state;
	begin_up(&f);
	f.l.answer = true;
	lg_lease_client_ask(f.h.client, &key, &ask);
	for (int i = 0; i < 5; i++)
		event_base_loop(lg_loop_base(f.n.loop), EVLOOP_ONCE);
	assert_int_equal(f.l.n_asks, 0);	/* nothing leaves before the flush */
	lg_lease_client_flush(f.h.client);
	WAIT_FOR(f.n.loop, f.h.n_grants);
	assert_memory_equal(&f.l.key, &key, sizeof(key));
	assert_int_equal(f.l.ask.seq, 5);
	assert_int_equal(f.l.ask.slots[0].tok, 90);
	assert_int_equal(f.l.ask.demand_mtps, 1500);
	assert_memory_equal(&f.h.key, &key, sizeof(key));
	assert_int_equal(f.h.grant.granted_tok, 50);
	assert_int_equal(f.h.grant.ack_seq, 5);
	assert_int_equal(f.h.n_batches, 1);
	assert_int_equal(f.l.n_batches, 1);
	end(&f);
}

static void an_unasked_grant_is_pushed(void **state)
{
	const struct lg_grant grant = { .ack_seq = 1, .epoch = 3, .generation = 1, .granted_tok = 70, .partial = true };
	const struct lg_wire_key key = key_of(1);
	struct fixture f;

	(void)state;
	begin_up(&f);
	lg_lease_peer_grant(f.l.peer, &key, &grant);
	lg_lease_peer_flush(f.l.peer);
	WAIT_FOR(f.n.loop, f.h.n_grants);
	assert_int_equal(f.h.grant.granted_tok, 70);
	assert_true(f.h.grant.partial);
	end(&f);
}

static void ten_thousand_keys_go_in_batches_of_at_most_512(void **state)
{
	struct fixture f;

	(void)state;
	begin_up(&f);
	f.l.answer = true;
	for (uint32_t i = 0; i < N_KEYS; i++) {
		const struct lg_ask ask = { .seq = i + 1, .request = true, .want_tok = 10 };
		const struct lg_wire_key key = key_of(i);

		lg_lease_client_ask(f.h.client, &key, &ask);
	}
	lg_lease_client_synced(f.h.client, LG_LEASE_REMEMBERS);
	lg_lease_client_flush(f.h.client);
	WAIT_FOR(f.n.loop, f.h.n_grants == N_KEYS);
	assert_int_equal(f.l.n_asks, N_KEYS);
	assert_int_equal(f.l.n_batches, (N_KEYS + LG_BATCH_KEYS_MAX - 1) / LG_BATCH_KEYS_MAX);
	assert_int_equal(f.l.n_synced, 1);
	assert_int_equal(f.l.seq_sum, (uint64_t)N_KEYS * (N_KEYS + 1) / 2);
	assert_int_equal(f.h.seq_sum, f.l.seq_sum);
	assert_int_equal(f.h.n_down, 0);
	end(&f);
}

/* Some 20 MiB in one turn of the loop: more than a stream takes at once, and no sign that the lessor is slow. */
static void as_many_keys_as_a_host_may_have_can_be_named_in_one_turn(void **state)
{
	struct lg_ask ask = { .request = true, .want_tok = 1000, .granted_tok = 1000, .spent_tok = 999, .n_slots = 8 };
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ask.n_slots; i++)
		ask.slots[i] = (struct lg_slot){ 1ull << 40, 100000, 1ull << 30 };
	begin_up(&f);
	f.l.answer = true;
	for (uint32_t i = 0; i < 100000; i++) {
		const struct lg_wire_key key = key_of(i);

		ask.seq = i + 1;
		lg_lease_client_ask(f.h.client, &key, &ask);
	}
	lg_lease_client_synced(f.h.client, LG_LEASE_REMEMBERS);
	lg_lease_client_flush(f.h.client);
	assert_true(lg_lease_client_is_up(f.h.client));
	WAIT_FOR(f.n.loop, f.l.n_synced && f.h.n_grants == 100000);
	assert_int_equal(f.l.n_asks, 100000);
	assert_int_equal(f.l.ask.seq, 100000);	/* in order */
	assert_int_equal(f.h.n_down + f.l.n_gone, 0);
	end(&f);
}

static void synced_after_512_keys_goes_into_a_message_of_its_own(void **state)
{
	const struct lg_wire_key key = key_of(1);
	struct fixture f;

	(void)state;
	begin_up(&f);
	for (int i = 0; i < LG_BATCH_KEYS_MAX; i++)
		lg_lease_client_ask(f.h.client, &key, &(struct lg_ask){ .seq = 1 });
	lg_lease_client_synced(f.h.client, LG_LEASE_REMEMBERS);
	lg_lease_client_flush(f.h.client);
	WAIT_FOR(f.n.loop, f.l.n_synced == 1);
	assert_int_equal(f.l.n_asks, LG_BATCH_KEYS_MAX);
	assert_int_equal(f.l.n_batches, 2);
	end(&f);
}

static void asks_full_of_slots_are_split_by_bytes(void **state)
{
	static struct lg_ask ask = { .n_slots = LG_SLOTS_MAX, .n_history = LG_HISTORY_MAX };
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < LG_SLOTS_MAX; i++)
		ask.slots[i] = (struct lg_slot){ UINT64_MAX - i, LG_WIRE_AGE_MAX_MS, 1ull << 50 };
	for (size_t i = 0; i < LG_HISTORY_MAX; i++)
		ask.history[i] = (struct lg_slot){ UINT64_MAX - i, LG_WIRE_AGE_MAX_MS, 1ull << 50 };
	begin_up(&f);
	for (uint32_t i = 0; i < 600; i++) {
		const struct lg_wire_key key = key_of(i);

		ask.seq = i + 1;
		lg_lease_client_ask(f.h.client, &key, &ask);
	}
	lg_lease_client_flush(f.h.client);
	WAIT_FOR(f.n.loop, f.l.n_asks == 600);
	/* 600 of about 8 KiB are about 5 MiB. */
	assert_true(f.l.n_batches >= 5 && f.l.n_batches <= 7);
	assert_int_equal(f.l.ask.n_history, LG_HISTORY_MAX);
	assert_int_equal(f.h.n_down, 0);
	end(&f);
}

static void a_refused_hello_says_why_and_is_tried_again(void **state)
{
	struct lg_lease_server_counts counts;
	struct fixture f;

	(void)state;
	begin(&f);
	f.l.refuse = true;
	start_holder(&f, &f.h);
	WAIT_FOR(f.n.loop, f.h.n_down == 2);
	assert_string_equal(f.h.why, "region eu-west is not eu-west (status 9)");
	assert_int_equal(f.l.n_gone, 0);
	lg_lease_server_counts(f.l.server, &counts);
	assert_int_equal(counts.refused, 2);
	f.l.refuse = false;
	WAIT_FOR(f.n.loop, f.h.n_up);
	end(&f);
}

static void a_holder_comes_back_after_its_lessor(void **state)
{
	struct fixture f;

	(void)state;
	begin_up(&f);
	f.l.server = lg_lease_server_free(f.l.server);
	assert_int_equal(f.l.n_gone, 0);
	WAIT_FOR(f.n.loop, f.h.n_down);
	assert_string_equal(f.h.why, "the server is shutting down");
	assert_false(lg_lease_client_is_up(f.h.client));
	/* Asks while down go nowhere and do no harm. */
	lg_lease_client_ask(f.h.client, &(struct lg_wire_key){ .rule = "r", .form = 1 }, &(struct lg_ask){ .seq = 1 });
	lg_lease_client_synced(f.h.client, LG_LEASE_REMEMBERS);
	lg_lease_client_flush(f.h.client);
	WAIT_FOR(f.n.loop, f.h.n_down == 2);
	assert_non_null(strstr(f.h.why, "Connection refused"));
	start_lessor(&f, f.address);
	WAIT_FOR(f.n.loop, f.h.n_up == 2);
	assert_int_equal(f.l.n_asks, 0);
	end(&f);
}

/* Of many: 50, 100, 200, 400, 800, 1600 and then 2000 ms, each by half at most earlier. */
static void attempts_become_rarer_with_each_failure(void **state)
{
	struct lg_complaint c = { 0 };
	struct fixture f = { .n = net_loop_new() };
	uint64_t begun_ns, elapsed_ms;
	int fd;

	(void)state;
	assert_int_equal(lg_address_listen("127.0.0.1:0", &fd, &c), 0);
	snprintf(f.address, sizeof(f.address), "127.0.0.1:%d", lg_address_port(fd));
	close(fd);
	begun_ns = lg_clock_now_ns();
	start_holder(&f, &f.h);
	lg_lease_client_crowd(f.h.client, 500);
	WAIT_FOR(f.n.loop, f.h.n_down == 6);
	elapsed_ms = (lg_clock_now_ns() - begun_ns) / LG_NS_PER_MS;
	/* Five pauses: 50 + 100, and no longer than 200 of a lessor of a few. */
	assert_true(elapsed_ms >= 750 / 2);
	assert_true(elapsed_ms < 15000);
	end(&f);
}

static void a_peer_closed_in_its_own_handler_hears_nothing_more(void **state)
{
	struct fixture f;

	(void)state;
	begin_up(&f);
	f.l.close_on_ask = true;
	for (uint32_t i = 0; i < 3; i++) {
		const struct lg_ask ask = { .seq = i + 1 };
		const struct lg_wire_key key = key_of(i);

		lg_lease_client_ask(f.h.client, &key, &ask);
	}
	lg_lease_client_synced(f.h.client, LG_LEASE_REMEMBERS);
	lg_lease_client_flush(f.h.client);
	WAIT_FOR(f.n.loop, f.h.n_down);
	assert_string_equal(f.h.why, "enough");
	assert_int_equal(f.l.n_asks, 1);
	assert_int_equal(f.l.n_synced + f.l.n_batches + f.l.n_gone, 0);
	end(&f);
}

static void a_newer_connection_may_replace_an_older(void **state)
{
	struct holder second = { 0 };
	struct fixture f;

	(void)state;
	begin_up(&f);
	f.l.replace = true;
	start_holder(&f, &second);
	WAIT_FOR(f.n.loop, second.n_up && f.h.n_down);
	assert_string_equal(f.h.why, "replaced by a newer connection");
	assert_int_equal(f.l.n_gone, 0);
	f.h.client = lg_lease_client_free(f.h.client);
	lg_lease_client_free(second.client);
	end(&f);
}

static void a_holder_that_leaves_is_gone(void **state)
{
	struct fixture f;

	(void)state;
	begin_up(&f);
	f.h.client = lg_lease_client_free(f.h.client);
	WAIT_FOR(f.n.loop, f.l.n_gone);
	assert_int_equal(f.h.n_down, 0);
	end(&f);
}

static void synced_may_be_said_in_up(void **state)
{
	struct fixture f;

	(void)state;
	begin(&f);
	f.h.sync_on_up = true;
	start_holder(&f, &f.h);
	WAIT_FOR(f.n.loop, f.l.n_synced);
	assert_int_equal(f.l.n_batches, 1);
	assert_int_equal(f.l.n_asks, 0);
	end(&f);
}

static void a_port_in_use_is_said_so(void **state)
{
	struct lg_complaint c = { 0 };
	struct lg_lease_server *other;
	struct lg_lease_client *client;
	struct fixture f;

	(void)state;
	begin(&f);
	assert_int_equal(lg_lease_server_new(f.n.loop, f.address, &lessor_handlers, &f.l, &other, &c), -EADDRINUSE);
	assert_non_null(strstr(c.text, f.address));
	assert_int_equal(lg_lease_client_new(f.n.loop, "no port", &host_hello, &holder_handlers, &f.h, &client, &c), -EINVAL);
	assert_non_null(strstr(c.text, "no port"));
	end(&f);
}

/* ---- a holder that only speaks gRPC ---- */

struct plain {
	struct lg_grpc_client *client;
	struct lg_grpc_stream *stream;
	unsigned int n_messages, n_closed;
	int status;
	char why[256];
};

static void plain_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct plain *p = arg;

	(void)stream;
	(void)data;
	(void)len;
	p->n_messages++;
}

static void plain_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct plain *p = arg;

	(void)stream;
	p->n_closed++;
	p->status = status;
	snprintf(p->why, sizeof(p->why), "%s", why);
}

static void plain_open(struct fixture *f, struct plain *p, const char *path)
{
	static const struct lg_grpc_handlers handlers = { NULL, plain_message, plain_closed };
	struct lg_complaint c = { 0 };

	*p = (struct plain){ 0 };
	assert_int_equal(lg_grpc_client_new(f->n.loop, f->address, &handlers, p, &p->client, &c), 0);
	assert_int_equal(lg_grpc_client_open(p->client, path, &p->stream), 0);
}

static void plain_hello(struct fixture *f, struct plain *p)
{
	struct lg_text text = { 0 };

	plain_open(f, p, PATH);
	lg_codec_put_hello(&text, &host_hello);
	assert_int_equal(lg_grpc_send(p->stream, text.s, text.len), 0);
	WAIT_FOR(f->n.loop, p->n_messages == 1);
	lg_text_fini(&text);
}

static void another_method_is_unimplemented(void **state)
{
	struct fixture f;
	struct plain p;

	(void)state;
	begin(&f);
	plain_open(&f, &p, "/leasegate.v1.LeaseService/Keep");
	WAIT_FOR(f.n.loop, p.n_closed);
	assert_int_equal(p.status, LG_GRPC_UNIMPLEMENTED);
	lg_grpc_client_free(p.client);
	end(&f);
}

static void messages_that_break_the_protocol_end_the_stream_and_never_reach_the_core(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool after_hello;
		const char *why;
	} rows[] = {
		{ "\xff\xff\xff", 3, false, "this is no HolderMessage" },
		{ "\xff\xff\xff", 3, true, "this is no HolderMessage" },
		{ "", 0, false, "the first message is no hello" },
		{ "\x1a\x00", 2, false, "the first message is no hello" },
		{ "\x12\x00", 2, true, "ask 1: the usage is missing" },
		{ "\x0a\x00", 2, false, "the holder is no name" },
		{ "\x0a\x06\x0a\x01h\x12\x01r", 8, true, "a second hello" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct lg_lease_server_counts counts;
		struct fixture f;
		struct plain p;

		begin(&f);
		if (rows[i].after_hello)
			plain_hello(&f, &p);
		else
			plain_open(&f, &p, PATH);
		assert_int_equal(lg_grpc_send(p.stream, rows[i].bytes, rows[i].len), 0);
		WAIT_FOR(f.n.loop, p.n_closed);
		assert_int_equal(p.status, LG_GRPC_INVALID_ARGUMENT);
		assert_string_equal(p.why, rows[i].why);
		assert_int_equal(f.l.n_asks + f.l.n_synced + f.l.n_batches, 0);
		assert_int_equal(f.l.n_hello, rows[i].after_hello);
		assert_int_equal(f.l.n_gone, rows[i].after_hello);
		if (rows[i].after_hello)
			assert_string_equal(f.l.why, rows[i].why);
		lg_lease_server_counts(f.l.server, &counts);
		assert_int_equal(counts.malformed, 1);
		lg_grpc_client_free(p.client);
		end(&f);
	}
}

/* The good first half of a batch with a bad second half is not taken. */
static void a_batch_is_taken_whole_or_not_at_all(void **state)
{
	const struct lg_wire_key good = key_of(1), bad = { .rule = "not a name", .form = 1 };
	const struct lg_ask ask = { .seq = 1 };
	struct lg_text text = { 0 };
	struct fixture f;
	struct plain p;

	(void)state;
	begin(&f);
	plain_hello(&f, &p);
	lg_codec_put_ask(&text, &good, &ask);
	lg_codec_put_ask(&text, &bad, &ask);
	assert_int_equal(lg_grpc_send(p.stream, text.s, text.len), 0);
	WAIT_FOR(f.n.loop, p.n_closed);
	assert_string_equal(p.why, "ask 2: the rule is no name");
	assert_int_equal(f.l.n_asks, 0);
	lg_text_fini(&text);
	lg_grpc_client_free(p.client);
	end(&f);
}

static void a_stream_without_hello_is_ended_after_5_s(void **state)
{
	struct lg_lease_server_counts counts;
	struct fixture f;
	struct plain p;

	(void)state;
	begin(&f);
	plain_open(&f, &p, PATH);
	WAIT_FOR(f.n.loop, p.n_closed);
	assert_int_equal(p.status, LG_GRPC_DEADLINE_EXCEEDED);
	assert_int_equal(f.l.n_hello + f.l.n_gone, 0);
	lg_lease_server_counts(f.l.server, &counts);
	assert_int_equal(counts.late, 1);
	lg_grpc_client_free(p.client);
	end(&f);
}

/* Grants are queued while the loop does not turn, as for a holder that does not read. */
static void a_holder_that_reads_too_slowly_is_closed(void **state)
{
	const struct lg_grant grant = { .ack_seq = UINT64_MAX, .epoch = 3, .granted_tok = 1, .status = LG_GRANT_OK };
	struct lg_lease_server_counts counts;
	const struct lg_wire_key key = key_of(1);
	struct lg_lease_peer *peer;
	struct fixture f;
	struct plain p;

	(void)state;
	begin(&f);
	plain_hello(&f, &p);
	peer = f.l.peer;
	for (int i = 0; i < 300000; i++)
		lg_lease_peer_grant(peer, &key, &grant);
	lg_lease_peer_flush(peer);
	assert_int_equal(f.l.n_gone, 0);	/* not from inside our own call */
	WAIT_FOR(f.n.loop, p.n_closed && f.l.n_gone);
	assert_int_equal(p.status, LG_GRPC_RESOURCE_EXHAUSTED);
	assert_string_equal(f.l.why, "too much waits for the peer: it reads too slowly");
	lg_lease_server_counts(f.l.server, &counts);
	assert_int_equal(counts.slow, 1);
	lg_grpc_client_free(p.client);
	end(&f);
}

/* The same to a region: it may have that many keys. */
static void a_region_is_served_all_its_keys_in_one_turn(void **state)
{
	struct lg_lease_hello region = host_hello;
	struct lg_complaint c = { 0 };
	struct fixture f;

	(void)state;
	begin(&f);
	region.is_region = true;
	assert_int_equal(lg_lease_client_new(f.n.loop, f.address, &region, &holder_handlers, &f.h, &f.h.client, &c), 0);
	WAIT_FOR(f.n.loop, f.h.n_up);
	for (uint32_t i = 0; i < 300000; i++) {
		const struct lg_grant grant = { .ack_seq = i, .epoch = 3, .granted_tok = 1 };
		const struct lg_wire_key key = key_of(i);

		lg_lease_peer_grant(f.l.peer, &key, &grant);
	}
	lg_lease_peer_flush(f.l.peer);
	WAIT_FOR(f.n.loop, f.h.n_grants == 300000);
	assert_int_equal(f.h.grant.ack_seq, 299999);	/* in order */
	assert_int_equal(f.l.n_gone + f.h.n_down, 0);
	end(&f);
}

/* ---- a lessor that only speaks gRPC ---- */

struct plain_lessor {
	struct lg_grpc_server *server;
	struct lg_grpc_stream *stream;
	unsigned int n_messages, n_closed;
	const char *reply;
	size_t len;
};

static int plain_accept(void *arg, struct lg_grpc_stream *stream, const char *path)
{
	struct plain_lessor *p = arg;

	assert_string_equal(path, PATH);
	p->stream = stream;
	return 0;
}

static void plain_reply(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct plain_lessor *p = arg;

	(void)data;
	(void)len;
	p->n_messages++;
	assert_int_equal(lg_grpc_send(stream, p->reply, p->len), 0);
}

static void plain_gone(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct plain_lessor *p = arg;

	(void)stream;
	(void)status;
	(void)why;
	p->n_closed++;
}

static void a_lessor_that_breaks_the_protocol_is_left(void **state)
{
	static const struct lg_grpc_handlers handlers = { plain_accept, plain_reply, plain_gone };
	static const struct {
		const char *bytes;
		size_t len;
		const char *why;
	} rows[] = {
		{ "\xff\xff", 2, "the lessor sent a malformed message: this is no LessorMessage" },
		{ "", 0, "the lessor sent a malformed message: no welcome before the first grant" },
		{ "\x0a\x00", 2, "the lessor sent a malformed message: the epoch is missing" },
		{ "\x12\x00", 2, "the lessor sent a malformed message: grant 1: the key is missing" },
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct plain_lessor p = { .reply = rows[i].bytes, .len = rows[i].len };
		struct fixture f = { .n = net_loop_new() };
		struct lg_complaint c = { 0 };

		assert_int_equal(lg_grpc_server_new(f.n.loop, "127.0.0.1:0", &handlers, &p, &p.server, &c), 0);
		snprintf(f.address, sizeof(f.address), "127.0.0.1:%d", lg_grpc_server_port(p.server));
		start_holder(&f, &f.h);
		WAIT_FOR(f.n.loop, f.h.n_down == 2);
		assert_string_equal(f.h.why, rows[i].why);
		assert_int_equal(f.h.n_up + f.h.n_grants, 0);
		WAIT_FOR(f.n.loop, p.n_closed == 2);
		f.h.client = lg_lease_client_free(f.h.client);
		lg_grpc_server_free(p.server);
		net_loop_free(&f.n);
	}
}

static void a_second_welcome_is_malformed(void **state)
{
	static const struct lg_grpc_handlers handlers = { plain_accept, plain_reply, plain_gone };
	static const char welcome[] = "\x0a\x05\x0a\x01h\x10\x01";
	struct plain_lessor p = { .reply = welcome, .len = sizeof(welcome) - 1 };
	struct fixture f = { .n = net_loop_new() };
	struct lg_complaint c = { 0 };

	(void)state;
	assert_int_equal(lg_grpc_server_new(f.n.loop, "127.0.0.1:0", &handlers, &p, &p.server, &c), 0);
	snprintf(f.address, sizeof(f.address), "127.0.0.1:%d", lg_grpc_server_port(p.server));
	start_holder(&f, &f.h);
	WAIT_FOR(f.n.loop, f.h.n_up);
	assert_int_equal(lg_grpc_send(p.stream, welcome, sizeof(welcome) - 1), 0);
	WAIT_FOR(f.n.loop, f.h.n_down);
	assert_string_equal(f.h.why, "the lessor sent a malformed message: a second welcome");
	f.h.client = lg_lease_client_free(f.h.client);
	lg_grpc_server_free(p.server);
	net_loop_free(&f.n);
}

static void who_lost_a_lessor_of_many_waits_before_it_comes_up_again(void **state)
{
	static const uint32_t crowds[] = { 64, 10000 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fixture f;

		begin_up(&f);
		lg_lease_client_crowd(f.h.client, crowds[i]);
		lg_lease_peer_close(f.l.peer, "restart");
		WAIT_FOR(f.n.loop, f.l.n_hello == 2);
		if (i == 0) {
			WAIT_FOR(f.n.loop, f.h.n_up == 2);
		} else {
			/* up to ten seconds: nothing comes that soon */
			for (int turn = 0; turn < 20; turn++)
				event_base_loop(lg_loop_base(f.n.loop), EVLOOP_NONBLOCK);
			assert_int_equal(f.h.n_up, 1);
			assert_false(lg_lease_client_is_up(f.h.client));
		}
		end(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hello_is_answered_by_welcome),
		cmocka_unit_test(rules_that_change_before_there_is_a_welcome_are_said_after_it),
		cmocka_unit_test(an_ask_reaches_the_lessor_and_its_grant_the_holder),
		cmocka_unit_test(an_unasked_grant_is_pushed),
		cmocka_unit_test(ten_thousand_keys_go_in_batches_of_at_most_512),
		cmocka_unit_test(as_many_keys_as_a_host_may_have_can_be_named_in_one_turn),
		cmocka_unit_test(synced_after_512_keys_goes_into_a_message_of_its_own),
		cmocka_unit_test(asks_full_of_slots_are_split_by_bytes),
		cmocka_unit_test(a_refused_hello_says_why_and_is_tried_again),
		cmocka_unit_test(a_holder_comes_back_after_its_lessor),
		cmocka_unit_test(attempts_become_rarer_with_each_failure),
		cmocka_unit_test(a_peer_closed_in_its_own_handler_hears_nothing_more),
		cmocka_unit_test(a_newer_connection_may_replace_an_older),
		cmocka_unit_test(a_holder_that_leaves_is_gone),
		cmocka_unit_test(synced_may_be_said_in_up),
		cmocka_unit_test(a_port_in_use_is_said_so),
		cmocka_unit_test(another_method_is_unimplemented),
		cmocka_unit_test(messages_that_break_the_protocol_end_the_stream_and_never_reach_the_core),
		cmocka_unit_test(a_batch_is_taken_whole_or_not_at_all),
		cmocka_unit_test(a_stream_without_hello_is_ended_after_5_s),
		cmocka_unit_test(a_holder_that_reads_too_slowly_is_closed),
		cmocka_unit_test(a_region_is_served_all_its_keys_in_one_turn),
		cmocka_unit_test(a_lessor_that_breaks_the_protocol_is_left),
		cmocka_unit_test(a_second_welcome_is_malformed),
		cmocka_unit_test(who_lost_a_lessor_of_many_waits_before_it_comes_up_again),
	};

	net_alone();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
