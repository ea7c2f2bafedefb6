// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A connection begins with a question: the token of a user, or whether the member has a leader. Once that is answered, calls that waited
 * are sent. When a connection ends, calls that only read wait again; of others nobody knows what became of them, and they are told so.
 */
#include "store/etcd_client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "net/address.h"
#include "net/tls.h"
#include "store/etcd_inner.h"

#define TICK_NS (50 * LG_NS_PER_MS)
#define GREETING_NS (3 * LG_NS_PER_S)	/* from dialling a member to its first answer */
#define PAUSE_MIN_NS (50 * LG_NS_PER_MS)
#define PAUSE_MAX_NS (2 * LG_NS_PER_S)
#define WAITING_MAX 65536		/* calls at one time */
#define TOKEN_LEN 1024
#define WHY_LEN 256

#define MSG(name) (&leasegate__etcd__##name##__descriptor)

static const struct {
	const char *path;
	const ProtobufCMessageDescriptor *answer;
	bool reads_only;
} methods[_LG_ETCD_METHOD_N] = {
	[LG_ETCD_RANGE] = { "/etcdserverpb.KV/Range", MSG(range_response), true },
	[LG_ETCD_TXN] = { "/etcdserverpb.KV/Txn", MSG(txn_response), false },
	[LG_ETCD_COMPACT] = { "/etcdserverpb.KV/Compact", MSG(compaction_response), false },
	[LG_ETCD_LEASE_GRANT] = { "/etcdserverpb.Lease/LeaseGrant", MSG(lease_grant_response), false },
	[LG_ETCD_LEASE_REVOKE] = { "/etcdserverpb.Lease/LeaseRevoke", MSG(lease_revoke_response), false },
	[LG_ETCD_ALARM] = { "/etcdserverpb.Maintenance/Alarm", MSG(alarm_response), false },
};

struct lg_etcd_call {
	struct lg_etcd_user user;
	TAILQ_ENTRY(lg_etcd_call) link;
	struct lg_etcd *etcd;
	enum lg_etcd_method method;
	void *request;
	size_t request_len;
	ProtobufCMessage *answer;
	lg_etcd_done *done;
	void *arg;
	uint64_t deadline_ns;
	bool was_sent;
};
TAILQ_HEAD(calls, lg_etcd_call);

enum state { DOWN, GREETING, UP };

struct lg_etcd {
	struct lg_loop *loop;
	struct lg_source *ticker;
	char *endpoints[LG_ETCD_ENDPOINTS_MAX];
	size_t n_endpoints;
	size_t at;			/* the one we talk to, or try next */
	char *user, *password;		/* NULL: without */
	struct lg_tls *tls;
	uint64_t deadline_ns;

	enum state state;
	bool leaving;			/* the connection is to be given up, from the loop */
	struct lg_grpc_client *grpc;
	struct lg_etcd_user greeter;
	uint64_t since_ns;		/* GREETING: dialled; DOWN: may dial again */
	uint64_t pause_ns;
	char token[TOKEN_LEN];
	char why[WHY_LEN];

	struct calls calls;		/* in the order they were made */
	size_t n_calls;
	LIST_HEAD(, lg_etcd_guest) guests;
};

/* ---- streams ---- */

static void *pack(const ProtobufCMessage *message, size_t *ret_len)
{
	void *bytes;

	*ret_len = protobuf_c_message_get_packed_size(message);
	bytes = malloc(*ret_len + 1);
	if (bytes)
		protobuf_c_message_pack(message, bytes);
	return bytes;
}

static int open_bytes(struct lg_etcd *etcd, struct lg_etcd_user *user, const char *path, const void *bytes, size_t len, bool last)
{
	int r;

	r = lg_grpc_client_open(etcd->grpc, path, &user->stream);
	if (r < 0)
		return r;
	lg_grpc_set_user(user->stream, user);
	r = last ? lg_grpc_send_last(user->stream, bytes, len) : lg_grpc_send(user->stream, bytes, len);
	if (r < 0)
		lg_etcd_close(user);
	return r;
}

int lg_etcd_open(struct lg_etcd *etcd, struct lg_etcd_user *user, const char *path, const ProtobufCMessage *message, bool last)
{
	_cleanup_free_ void *bytes = NULL;
	size_t len;

	bytes = pack(message, &len);
	return bytes ? open_bytes(etcd, user, path, bytes, len, last) : -ENOMEM;
}

int lg_etcd_send(struct lg_etcd_user *user, const ProtobufCMessage *message)
{
	_cleanup_free_ void *bytes = NULL;
	size_t len;

	if (!user->stream)
		return -EPIPE;
	bytes = pack(message, &len);
	return bytes ? lg_grpc_send(user->stream, bytes, len) : -ENOMEM;
}

void lg_etcd_close(struct lg_etcd_user *user)
{
	if (!user->stream)
		return;
	lg_grpc_close(user->stream, LG_GRPC_CANCELLED, "");
	user->stream = NULL;
}

static void on_message(void *arg, struct lg_grpc_stream *stream, const uint8_t *data, size_t len)
{
	struct lg_etcd_user *user = lg_grpc_user(stream);

	(void)arg;
	user->message(user, data, len);
}

static void on_closed(void *arg, struct lg_grpc_stream *stream, int status, const char *why)
{
	struct lg_etcd_user *user = lg_grpc_user(stream);

	(void)arg;
	user->stream = NULL;
	user->closed(user, status, why);
}

/* ---- calls ---- */

static void call_free(struct lg_etcd_call *call)
{
	struct lg_etcd *etcd = call->etcd;

	lg_etcd_close(&call->user);
	TAILQ_REMOVE(&etcd->calls, call, link);
	etcd->n_calls--;
	if (call->answer)
		protobuf_c_message_free_unpacked(call->answer, NULL);
	free(call->request);
	free(call);
}

static void call_end(struct lg_etcd_call *call, int result, const char *why)
{
	lg_etcd_done *done = call->done;
	void *arg = call->arg;
	ProtobufCMessage *answer = TAKE(call->answer);
	char text[WHY_LEN];

	snprintf(text, sizeof(text), "%s", why);
	call_free(call);
	done(arg, result, text, result == 0 ? answer : NULL);
	if (answer)
		protobuf_c_message_free_unpacked(answer, NULL);
}

/* What etcd's refusals mean. Their codes alone do not tell; the texts are part of its API. */
static int result_of(int status, const char *why)
{
	static const struct {
		const char *part;
		int result;
	} texts[] = {
		{ "database space exceeded", -ENOSPC },
		{ "too many requests", -EAGAIN },
		{ "too many operations", -E2BIG },
		{ "request is too large", -EMSGSIZE },
		{ "has been compacted", -ESTALE },
		{ "lease not found", -ENOENT },
		{ "authentication failed", -EACCES },
		{ "permission denied", -EACCES },
		{ "user name", -EACCES },
	};

	for (size_t i = 0; i < N_ELEMS(texts); i++)
		if (strstr(why, texts[i].part))
			return texts[i].result;
	switch (status) {
	case LG_GRPC_INVALID_ARGUMENT: return -EINVAL;
	case LG_GRPC_PERMISSION_DENIED: return -EACCES;
	case LG_GRPC_UNAVAILABLE:
	case LG_GRPC_DEADLINE_EXCEEDED:
	case LG_GRPC_CANCELLED:
	case LG_GRPC_UNAUTHENTICATED: return -ETIMEDOUT;
	}
	return -EIO;
}

static void call_message(struct lg_etcd_user *user, const uint8_t *data, size_t len)
{
	struct lg_etcd_call *call = (struct lg_etcd_call *)user;

	if (call->answer)
		protobuf_c_message_free_unpacked(call->answer, NULL);
	call->answer = protobuf_c_message_unpack(methods[call->method].answer, NULL, len, data);
}

static void call_closed(struct lg_etcd_user *user, int status, const char *why)
{
	struct lg_etcd_call *call = (struct lg_etcd_call *)user;
	struct lg_etcd *etcd = call->etcd;
	int result;

	if (status == LG_GRPC_OK && call->answer) {
		call_end(call, 0, "");
		return;
	}
	result = status == LG_GRPC_OK ? -EIO : result_of(status, why);
	/* The member has lost its leader, or our token ended with its memory of it: another attempt, and another member. */
	if (result == -ETIMEDOUT)
		lg_etcd_leave(etcd, why);
	if (status == LG_GRPC_UNAUTHENTICATED || (result == -ETIMEDOUT && methods[call->method].reads_only)) {
		call->was_sent = false;
		return;
	}
	call_end(call, result, status == LG_GRPC_OK ? "an answer that cannot be read" : why);
}

static void call_send(struct lg_etcd_call *call)
{
	int r;

	if (call->was_sent || call->etcd->state != UP || call->etcd->leaving)
		return;
	r = open_bytes(call->etcd, &call->user, methods[call->method].path, call->request, call->request_len, true);
	call->was_sent = r == 0;
}

int lg_etcd_call(struct lg_etcd *etcd, enum lg_etcd_method method, const ProtobufCMessage *request, lg_etcd_done *done, void *arg,
		 struct lg_etcd_call **ret_call)
{
	struct lg_etcd_call *call;

	if (etcd->n_calls >= WAITING_MAX)
		return -ENOBUFS;
	call = calloc(1, sizeof(*call));
	if (!call)
		return -ENOMEM;
	*call = (struct lg_etcd_call){ .user = { NULL, call_message, call_closed }, .etcd = etcd, .method = method, .done = done, .arg = arg };
	call->request = pack(request, &call->request_len);
	if (!call->request) {
		free(call);
		return -ENOMEM;
	}
	call->deadline_ns = lg_clock_now_ns() + etcd->deadline_ns;
	TAILQ_INSERT_TAIL(&etcd->calls, call, link);
	etcd->n_calls++;
	call_send(call);
	if (ret_call)
		*ret_call = call;
	return 0;
}

void lg_etcd_cancel(struct lg_etcd_call *call)
{
	call_free(call);
}

/* Ends calls whose time is over. Each `done` may add and cancel others, so the walk begins anew after it. */
static void calls_expire(struct lg_etcd *etcd, uint64_t now_ns)
{
	struct lg_etcd_call *call;
	char why[WHY_LEN + 64];

again:
	TAILQ_FOREACH(call, &etcd->calls, link) {
		if (now_ns < call->deadline_ns)
			continue;
		snprintf(why, sizeof(why), call->was_sent ? "no answer in time" : "no member of the cluster takes calls: %s", etcd->why);
		call_end(call, call->was_sent ? -ETIMEDOUT : -EHOSTUNREACH, why);
		goto again;
	}
}

static void calls_send(struct lg_etcd *etcd)
{
	struct lg_etcd_call *call;

	TAILQ_FOREACH(call, &etcd->calls, link)
		call_send(call);
}

/* Calls under way on a connection that is given up. */
static void calls_abandon(struct lg_etcd *etcd)
{
	struct lg_etcd_call *call;

again:
	TAILQ_FOREACH(call, &etcd->calls, link) {
		if (!call->was_sent)
			continue;
		lg_etcd_close(&call->user);
		call->was_sent = false;
		if (methods[call->method].reads_only)
			continue;
		call_end(call, -ETIMEDOUT, etcd->why);
		goto again;
	}
}

/* ---- guests ---- */

void lg_etcd_guest_add(struct lg_etcd *etcd, struct lg_etcd_guest *guest)
{
	LIST_INSERT_HEAD(&etcd->guests, guest, link);
}

void lg_etcd_guest_remove(struct lg_etcd_guest *guest)
{
	LIST_REMOVE(guest, link);
}

#define EACH_GUEST(etcd, guest, next)                                                                                 \
	for (guest = LIST_FIRST(&(etcd)->guests); guest && ((next) = LIST_NEXT(guest, link), 1); guest = next)

/* ---- the connection ---- */

static void go_down(struct lg_etcd *etcd, uint64_t now_ns)
{
	struct lg_etcd_guest *guest;

	etcd->state = DOWN;
	etcd->leaving = false;
	lg_etcd_close(&etcd->greeter);
	LIST_FOREACH(guest, &etcd->guests, link)
		lg_etcd_close(&guest->user);
	calls_abandon(etcd);
	etcd->grpc = lg_grpc_client_free(etcd->grpc);
	etcd->token[0] = '\0';
	etcd->at = (etcd->at + 1) % etcd->n_endpoints;
	etcd->since_ns = now_ns + etcd->pause_ns;
	/* A whole round of members without an answer makes the pause longer. */
	if (etcd->at == 0)
		etcd->pause_ns = etcd->pause_ns * 2 > PAUSE_MAX_NS ? PAUSE_MAX_NS : etcd->pause_ns * 2;
}

void lg_etcd_leave(struct lg_etcd *etcd, const char *why)
{
	if (etcd->state == DOWN || etcd->leaving)
		return;
	snprintf(etcd->why, sizeof(etcd->why), "%s: %s", etcd->endpoints[etcd->at], why);
	etcd->leaving = true;
}

static void come_up(struct lg_etcd *etcd)
{
	struct lg_etcd_guest *guest, *next;

	etcd->state = UP;
	etcd->pause_ns = PAUSE_MIN_NS;
	lg_etcd_close(&etcd->greeter);
	lg_grpc_client_token(etcd->grpc, etcd->token[0] ? etcd->token : NULL);
	calls_send(etcd);
	EACH_GUEST(etcd, guest, next)
	guest->up(guest);
}

static struct lg_etcd *of_greeter(struct lg_etcd_user *user)
{
	return (struct lg_etcd *)((char *)user - offsetof(struct lg_etcd, greeter));
}

static void token_take(struct lg_etcd *etcd, const uint8_t *data, size_t len)
{
	Leasegate__Etcd__AuthenticateResponse *answer = leasegate__etcd__authenticate_response__unpack(NULL, len, data);

	if (answer && answer->token[0] && strlen(answer->token) < sizeof(etcd->token)) {
		snprintf(etcd->token, sizeof(etcd->token), "%s", answer->token);
		come_up(etcd);
	} else {
		lg_etcd_leave(etcd, "its answer to user and password cannot be read");
	}
	leasegate__etcd__authenticate_response__free_unpacked(answer, NULL);
}

static void status_take(struct lg_etcd *etcd, const uint8_t *data, size_t len)
{
	Leasegate__Etcd__StatusResponse *answer = leasegate__etcd__status_response__unpack(NULL, len, data);

	if (!answer)
		lg_etcd_leave(etcd, "its status cannot be read");
	else if (!answer->leader)
		lg_etcd_leave(etcd, "it has no leader");
	else
		come_up(etcd);
	leasegate__etcd__status_response__free_unpacked(answer, NULL);
}

static void greeter_message(struct lg_etcd_user *user, const uint8_t *data, size_t len)
{
	struct lg_etcd *etcd = of_greeter(user);

	if (etcd->state != GREETING || etcd->leaving)
		return;
	if (etcd->user)
		token_take(etcd, data, len);
	else
		status_take(etcd, data, len);
}

static void greeter_closed(struct lg_etcd_user *user, int status, const char *why)
{
	(void)status;
	lg_etcd_leave(of_greeter(user), why);
}

static int greet(struct lg_etcd *etcd)
{
	Leasegate__Etcd__AuthenticateRequest who = LEASEGATE__ETCD__AUTHENTICATE_REQUEST__INIT;
	Leasegate__Etcd__StatusRequest status = LEASEGATE__ETCD__STATUS_REQUEST__INIT;

	if (!etcd->user)
		return lg_etcd_open(etcd, &etcd->greeter, "/etcdserverpb.Maintenance/Status", &status.base, true);
	who.name = etcd->user;
	who.password = etcd->password;
	return lg_etcd_open(etcd, &etcd->greeter, "/etcdserverpb.Auth/Authenticate", &who.base, true);
}

static int dial(struct lg_etcd *etcd)
{
	static const struct lg_grpc_handlers handlers = { .message = on_message, .closed = on_closed };
	const char *endpoint = etcd->endpoints[etcd->at];
	struct lg_tls_expect expect = { 0 };
	struct lg_address address;
	struct lg_complaint c;
	int r;

	r = lg_grpc_client_new(etcd->loop, endpoint, &handlers, etcd, &etcd->grpc, &c);
	if (r < 0)
		return r;
	lg_grpc_client_message_max(etcd->grpc, LG_ETCD_ANSWER_BYTES_MAX);
	if (etcd->tls && lg_address_parse(endpoint, true, &address, &c) == 0) {
		expect.host = address.host;
		lg_grpc_client_secure(etcd->grpc, etcd->tls, &expect);
	}
	return greet(etcd);
}

static void connect_now(struct lg_etcd *etcd, uint64_t now_ns)
{
	etcd->state = GREETING;
	etcd->since_ns = now_ns;
	if (dial(etcd) < 0)
		lg_etcd_leave(etcd, "out of memory");
}

static void on_tick(void *arg)
{
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_etcd_guest *guest, *next;
	struct lg_etcd *etcd = arg;

	if (etcd->state == GREETING && now_ns - etcd->since_ns > GREETING_NS)
		lg_etcd_leave(etcd, "no answer within 3 s");
	if (etcd->leaving)
		go_down(etcd, now_ns);
	if (etcd->state == DOWN && now_ns >= etcd->since_ns)
		connect_now(etcd, now_ns);
	calls_expire(etcd, now_ns);
	calls_send(etcd);
	EACH_GUEST(etcd, guest, next)
	guest->tick(guest, now_ns);
}

bool lg_etcd_is_up(const struct lg_etcd *etcd, const char **ret_why)
{
	if (ret_why)
		*ret_why = etcd->why;
	return etcd->state == UP && !etcd->leaving;
}

/* ---- beginning and end ---- */

static int options_copy(struct lg_etcd *etcd, const struct lg_etcd_options *o)
{
	for (; etcd->n_endpoints < o->n_endpoints; etcd->n_endpoints++) {
		etcd->endpoints[etcd->n_endpoints] = strdup(o->endpoints[etcd->n_endpoints]);
		if (!etcd->endpoints[etcd->n_endpoints])
			return -ENOMEM;
	}
	if (!o->user)
		return 0;
	etcd->user = strdup(o->user);
	etcd->password = strdup(o->password ? o->password : "");
	return etcd->user && etcd->password ? 0 : -ENOMEM;
}

int lg_etcd_new(struct lg_loop *loop, const struct lg_etcd_options *o, struct lg_etcd **ret_etcd, struct lg_complaint *c)
{
	_cleanup_(lg_etcd_free) struct lg_etcd *etcd = NULL;
	struct lg_address address;
	int r;

	if (!o->n_endpoints || o->n_endpoints > LG_ETCD_ENDPOINTS_MAX)
		return lg_complain(c, "an etcd cluster has 1 to %d endpoints", LG_ETCD_ENDPOINTS_MAX);
	for (size_t i = 0; i < o->n_endpoints; i++) {
		r = lg_address_parse(o->endpoints[i], true, &address, c);
		if (r < 0)
			return r;
	}
	etcd = calloc(1, sizeof(*etcd));
	if (!etcd)
		return -ENOMEM;
	etcd->loop = loop;
	etcd->tls = o->tls;
	etcd->deadline_ns = o->deadline_ms * LG_NS_PER_MS;
	etcd->pause_ns = PAUSE_MIN_NS;
	etcd->greeter = (struct lg_etcd_user){ NULL, greeter_message, greeter_closed };
	snprintf(etcd->why, sizeof(etcd->why), "not connected yet");
	TAILQ_INIT(&etcd->calls);
	LIST_INIT(&etcd->guests);
	r = options_copy(etcd, o);
	if (r == 0)
		r = lg_loop_add_ticker(loop, TICK_NS, on_tick, etcd, &etcd->ticker);
	if (r < 0)
		return r;
	*ret_etcd = TAKE(etcd);
	return 0;
}

struct lg_etcd *lg_etcd_free(struct lg_etcd *etcd)
{
	if (!etcd)
		return NULL;
	while (!TAILQ_EMPTY(&etcd->calls))
		call_free(TAILQ_FIRST(&etcd->calls));
	lg_etcd_close(&etcd->greeter);
	lg_grpc_client_free(etcd->grpc);
	lg_source_free(etcd->ticker);
	for (size_t i = 0; i < etcd->n_endpoints; i++)
		free(etcd->endpoints[i]);
	free(etcd->user);
	if (etcd->password)
		explicit_bzero(etcd->password, strlen(etcd->password));
	free(etcd->password);
	free(etcd);
	return NULL;
}
