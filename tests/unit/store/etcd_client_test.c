// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The etcd client against a real cluster: calls, what a lost member does to them, watches without a gap, sessions that end in time. */
#include "store/etcd_client.h"

#include "tests/lib/etcd.h"
#include "tests/unit/net/net_test.h"

#define DEADLINE_MS 4000

struct fixture {
	struct etcd_cluster *cluster;
	struct net_loop n;
	struct lg_etcd *etcd;
};

/* What became of one call. */
struct outcome {
	unsigned int n_done;
	int result;
	char why[256];
	int64_t revision;
	bool succeeded;
	size_t n_kvs;
	char first[64];
};

static void noted(void *arg, int result, const char *why, const ProtobufCMessage *answer)
{
	struct outcome *o = arg;

	o->n_done++;
	o->result = result;
	snprintf(o->why, sizeof(o->why), "%s", why);
	if (answer && answer->descriptor == &leasegate__etcd__txn_response__descriptor) {
		const Leasegate__Etcd__TxnResponse *m = (const Leasegate__Etcd__TxnResponse *)answer;

		o->succeeded = m->succeeded;
		o->revision = m->header->revision;
	}
	if (answer && answer->descriptor == &leasegate__etcd__range_response__descriptor) {
		const Leasegate__Etcd__RangeResponse *m = (const Leasegate__Etcd__RangeResponse *)answer;

		o->n_kvs = m->n_kvs;
		o->revision = m->header->revision;
		if (m->n_kvs)
			snprintf(o->first, sizeof(o->first), "%.*s", (int)m->kvs[0]->value.len, (const char *)m->kvs[0]->value.data);
	}
}

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){ strlen(text), (uint8_t *)(uintptr_t)text };
}

/* Puts a key if it is not there yet (or whatever it is), under a lease or not. */
static void put(struct fixture *f, const char *key, const char *value, bool only_new, int64_t lease, struct outcome *o)
{
	Leasegate__Etcd__Compare compare = LEASEGATE__ETCD__COMPARE__INIT, *compares[] = { &compare };
	Leasegate__Etcd__PutRequest request = LEASEGATE__ETCD__PUT_REQUEST__INIT;
	Leasegate__Etcd__RequestOp op = LEASEGATE__ETCD__REQUEST_OP__INIT, *ops[] = { &op };
	Leasegate__Etcd__TxnRequest txn = LEASEGATE__ETCD__TXN_REQUEST__INIT;

	compare.target = LEASEGATE__ETCD__COMPARE_TARGET__COMPARE_TARGET_CREATE;
	compare.target_union_case = LEASEGATE__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
	compare.key = request.key = bytes_of(key);
	request.value = bytes_of(value);
	request.lease = lease;
	op.request_case = LEASEGATE__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
	op.request_put = &request;
	txn.compare = compares;
	txn.n_compare = only_new;
	txn.success = ops;
	txn.n_success = 1;
	*o = (struct outcome){ 0 };
	assert_int_equal(lg_etcd_call(f->etcd, LG_ETCD_TXN, &txn.base, noted, o, NULL), 0);
}

static void range(struct fixture *f, const char *prefix, struct outcome *o)
{
	Leasegate__Etcd__RangeRequest request = LEASEGATE__ETCD__RANGE_REQUEST__INIT;
	uint8_t end[64];

	request.key = bytes_of(prefix);
	request.range_end = (ProtobufCBinaryData){ lg_etcd_prefix_end(prefix, end), end };
	*o = (struct outcome){ 0 };
	assert_int_equal(lg_etcd_call(f->etcd, LG_ETCD_RANGE, &request.base, noted, o, NULL), 0);
}

#define WAIT(f, o) WAIT_FOR((f)->n.loop, (o).n_done == 1)

static struct lg_etcd *client_of(struct fixture *f, size_t n, const char *user, const char *password)
{
	struct lg_etcd_options options = { .n_endpoints = n, .user = user, .password = password, .deadline_ms = DEADLINE_MS };
	struct lg_complaint c = { 0 };
	struct lg_etcd *etcd;

	for (size_t i = 0; i < n; i++)
		options.endpoints[i] = etcd_endpoint(f->cluster, i);
	if (lg_etcd_new(f->n.loop, &options, &etcd, &c) < 0)
		fail_msg("%s", c.text);
	return etcd;
}

/* One cluster for all tests: to start one takes a second. */
static struct etcd_cluster *cluster;

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct outcome o;

	*state = f;
	f->cluster = cluster;
	f->n = net_loop_new();
	f->etcd = client_of(f, ETCD_MEMBERS_MAX, NULL, NULL);
	for (int tries = 0; tries < 5; tries++) {
		put(f, "ready", "", false, 0, &o);
		WAIT(f, o);
		if (o.result == 0)
			return 0;
	}
	return -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	lg_etcd_free(f->etcd);
	net_loop_free(&f->n);
	free(f);
	return 0;
}

/* ---- calls ---- */

static void a_write_that_compares_is_carried_out_once(void **state)
{
	struct fixture *f = *state;
	struct outcome o;
	int64_t revision;

	put(f, "calls/a", "one", true, 0, &o);
	WAIT(f, o);
	assert_int_equal(o.result, 0);
	assert_true(o.succeeded);
	revision = o.revision;
	put(f, "calls/a", "two", true, 0, &o);
	WAIT(f, o);
	assert_int_equal(o.result, 0);
	assert_false(o.succeeded);
	assert_int_equal(o.revision, revision);
	range(f, "calls/", &o);
	WAIT(f, o);
	assert_int_equal(o.n_kvs, 1);
	assert_string_equal(o.first, "one");
}

static void a_thousand_calls_at_once_are_all_answered(void **state)
{
	static struct outcome all[1000];
	struct fixture *f = *state;
	unsigned int n = 0;
	char key[32];

	for (size_t i = 0; i < N_ELEMS(all); i++) {
		snprintf(key, sizeof(key), "many/%zu", i);
		put(f, key, "x", true, 0, &all[i]);
	}
	for (size_t i = 0; i < N_ELEMS(all); i++) {
		WAIT(f, all[i]);
		n += all[i].result == 0 && all[i].succeeded;
	}
	assert_int_equal(n, N_ELEMS(all));
}

static void what_etcd_refuses_is_told_with_its_reason(void **state)
{
	struct fixture *f = *state;
	Leasegate__Etcd__LeaseRevokeRequest revoke = LEASEGATE__ETCD__LEASE_REVOKE_REQUEST__INIT;
	Leasegate__Etcd__CompactionRequest compact = LEASEGATE__ETCD__COMPACTION_REQUEST__INIT;
	Leasegate__Etcd__RangeRequest old = LEASEGATE__ETCD__RANGE_REQUEST__INIT;
	Leasegate__Etcd__RequestOp op = LEASEGATE__ETCD__REQUEST_OP__INIT, *ops[LG_ETCD_OPS_MAX + 1];
	Leasegate__Etcd__TxnRequest txn = LEASEGATE__ETCD__TXN_REQUEST__INIT;
	struct outcome o = { 0 };
	int64_t revision;

	revoke.id = 12345;
	lg_etcd_call(f->etcd, LG_ETCD_LEASE_REVOKE, &revoke.base, noted, &o, NULL);
	WAIT(f, o);
	assert_int_equal(o.result, -ENOENT);
	op.request_case = LEASEGATE__ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
	op.request_range = &old;
	old.key = bytes_of("ready");
	for (size_t i = 0; i < N_ELEMS(ops); i++)
		ops[i] = &op;
	txn.success = ops;
	for (txn.n_success = LG_ETCD_OPS_MAX; txn.n_success <= LG_ETCD_OPS_MAX + 1; txn.n_success++) {
		o = (struct outcome){ 0 };
		lg_etcd_call(f->etcd, LG_ETCD_TXN, &txn.base, noted, &o, NULL);
		WAIT(f, o);
		assert_int_equal(o.result, txn.n_success > LG_ETCD_OPS_MAX ? -E2BIG : 0);
	}
	range(f, "ready", &o);
	WAIT(f, o);
	revision = o.revision;
	compact.revision = revision;
	o = (struct outcome){ 0 };
	lg_etcd_call(f->etcd, LG_ETCD_COMPACT, &compact.base, noted, &o, NULL);
	WAIT(f, o);
	assert_int_equal(o.result, 0);
	old.revision = revision - 1;
	o = (struct outcome){ 0 };
	lg_etcd_call(f->etcd, LG_ETCD_RANGE, &old.base, noted, &o, NULL);
	WAIT(f, o);
	assert_int_equal(o.result, -ESTALE);
	assert_non_null(strstr(o.why, "compacted"));
}

static void a_cluster_that_is_not_there_ends_calls_at_their_deadline(void **state)
{
	struct fixture *f = *state;
	const struct lg_etcd_options nobody = { .endpoints = { "127.0.0.1:1" }, .n_endpoints = 1, .deadline_ms = 300 };
	struct lg_etcd *etcd = f->etcd;
	struct lg_complaint c;
	struct outcome o;
	const char *why;

	assert_int_equal(lg_etcd_new(f->n.loop, &nobody, &f->etcd, &c), 0);
	put(f, "never", "", true, 0, &o);
	WAIT(f, o);
	assert_int_equal(o.result, -EHOSTUNREACH);
	assert_non_null(strstr(o.why, "127.0.0.1:1: "));
	assert_false(lg_etcd_is_up(f->etcd, &why));
	assert_non_null(strstr(why, "refused"));
	lg_etcd_free(f->etcd);
	f->etcd = etcd;
}

static void members_die_one_after_the_other_and_calls_go_on(void **state)
{
	struct fixture *f = *state;
	struct outcome o;
	unsigned int n_unknown = 0;

	for (size_t member = 0; member < ETCD_MEMBERS_MAX; member++) {
		etcd_kill(f->cluster, member);
		for (int i = 0; i < 3; i++) {
			put(f, "failover/a", "x", false, 0, &o);
			WAIT(f, o);
			n_unknown += o.result == -ETIMEDOUT;
			assert_true(o.result == 0 || o.result == -ETIMEDOUT);
		}
		assert_int_equal(o.result, 0);
		range(f, "failover/", &o);
		WAIT(f, o);
		assert_int_equal(o.result, 0);
		assert_int_equal(o.n_kvs, 1);
		etcd_start(f->cluster, member);
		/* All three again, before the next one goes. */
		for (int tries = 0; tries < 20; tries++)
			if (etcd_ctl(f->cluster, (const char *const[]){ "endpoint", "health", NULL }) == 0)
				break;
	}
	assert_true(n_unknown <= 2 * ETCD_MEMBERS_MAX);
}

static void without_a_majority_a_read_is_not_answered_from_memory(void **state)
{
	struct fixture *f = *state;
	struct outcome o;

	etcd_pause(f->cluster, 1, true);
	etcd_pause(f->cluster, 2, true);
	range(f, "ready", &o);
	WAIT(f, o);
	assert_true(o.result == -ETIMEDOUT || o.result == -EHOSTUNREACH);
	etcd_pause(f->cluster, 1, false);
	etcd_pause(f->cluster, 2, false);
	do {
		range(f, "ready", &o);
		WAIT(f, o);
	} while (o.result < 0);
	assert_int_equal(o.n_kvs, 1);
}

/* ---- watches ---- */

struct seen {
	unsigned int n_puts, n_deletes, n_lost;
	int64_t last_revision;
	char last[64];
};

static void on_change(void *arg, const Leasegate__Etcd__Event *event)
{
	struct seen *seen = arg;

	assert_true(event->kv->mod_revision > seen->last_revision);
	seen->last_revision = event->kv->mod_revision;
	seen->n_puts += event->type == LEASEGATE__ETCD__EVENT_TYPE__EVENT_TYPE_PUT;
	seen->n_deletes += event->type == LEASEGATE__ETCD__EVENT_TYPE__EVENT_TYPE_DELETE;
	snprintf(seen->last, sizeof(seen->last), "%.*s", (int)event->kv->key.len, (const char *)event->kv->key.data);
}

static void on_lost(void *arg)
{
	struct seen *seen = arg;

	seen->n_lost++;
}

static const struct lg_etcd_watch_events events = { on_change, on_lost };

static void a_watch_misses_nothing_and_tells_nothing_twice(void **state)
{
	struct fixture *f = *state;
	struct lg_etcd_watch *watch;
	struct seen seen = { 0 };
	struct outcome o;
	char key[32];

	range(f, "watch/", &o);
	WAIT(f, o);
	assert_int_equal(lg_etcd_watch_new(f->etcd, "watch/", o.revision + 1, &events, &seen, &watch), 0);
	for (int i = 0; i < 30; i++) {
		snprintf(key, sizeof(key), "watch/%d", i);
		if (i % 10 == 5)
			etcd_kill(f->cluster, (size_t)i / 10);
		do {
			put(f, key, "x", true, 0, &o);
			WAIT(f, o);
		} while (o.result < 0);
		put(f, "elsewhere", "x", false, 0, &o);
		WAIT(f, o);
		if (i % 10 == 9) {
			etcd_start(f->cluster, (size_t)i / 10);
			while (etcd_ctl(f->cluster, (const char *const[]){ "endpoint", "health", NULL }) != 0)
				;
		}
	}
	WAIT_FOR(f->n.loop, seen.n_puts == 30);
	assert_string_equal(seen.last, "watch/29");
	assert_int_equal(seen.n_deletes + seen.n_lost, 0);
	lg_etcd_watch_free(watch);
}

static void a_watch_from_before_a_compaction_says_that_it_has_lost(void **state)
{
	struct fixture *f = *state;
	Leasegate__Etcd__CompactionRequest compact = LEASEGATE__ETCD__COMPACTION_REQUEST__INIT;
	struct lg_etcd_watch *watch;
	struct seen seen = { 0 };
	struct outcome o;

	put(f, "lost/a", "x", false, 0, &o);
	WAIT(f, o);
	compact.revision = o.revision;
	o = (struct outcome){ 0 };
	lg_etcd_call(f->etcd, LG_ETCD_COMPACT, &compact.base, noted, &o, NULL);
	WAIT(f, o);
	assert_int_equal(lg_etcd_watch_new(f->etcd, "lost/", 1, &events, &seen, &watch), 0);
	WAIT_FOR(f->n.loop, seen.n_lost == 1);
	assert_int_equal(seen.n_puts, 0);
}

/* ---- sessions ---- */

static void on_session(void *arg)
{
	unsigned int *n = arg;

	(*n)++;
}

static void a_session_keeps_its_keys_and_takes_them_along(void **state)
{
	struct fixture *f = *state;
	struct lg_etcd_session *session;
	unsigned int n_changes = 0;
	struct outcome o;
	uint64_t end_ns, began_ns = lg_clock_now_ns();

	assert_int_equal(lg_etcd_session_new(f->etcd, 2, on_session, &n_changes, &session), 0);
	assert_int_equal(lg_etcd_session_until_ns(session), 0);
	WAIT_FOR(f->n.loop, n_changes == 1);
	end_ns = lg_etcd_session_until_ns(session);
	assert_true(end_ns <= lg_clock_now_ns() + 2 * LG_NS_PER_S && end_ns > began_ns + LG_NS_PER_S);
	put(f, "session/a", "x", true, lg_etcd_session_lease(session), &o);
	WAIT(f, o);
	assert_int_equal(o.result, 0);
	WAIT_FOR(f->n.loop, lg_etcd_session_until_ns(session) >= end_ns + LG_NS_PER_S);
	range(f, "session/", &o);
	WAIT(f, o);
	assert_int_equal(o.n_kvs, 1);
	lg_etcd_session_free(session);
	do {
		range(f, "session/", &o);
		WAIT(f, o);
	} while (o.n_kvs);
	assert_true(lg_clock_now_ns() - began_ns < 4 * LG_NS_PER_S);
	assert_int_equal(n_changes, 1);
}

static void a_session_ends_by_our_own_clock_before_the_cluster_ends_it(void **state)
{
	struct fixture *f = *state;
	struct lg_etcd_session *session;
	unsigned int n_changes = 0;
	struct outcome o;
	int64_t lease;
	uint64_t end_ns;

	assert_int_equal(lg_etcd_session_new(f->etcd, 2, on_session, &n_changes, &session), 0);
	WAIT_FOR(f->n.loop, n_changes == 1);
	lease = lg_etcd_session_lease(session);
	put(f, "ends/a", "x", true, lease, &o);
	WAIT(f, o);
	/* The cluster stands still: nobody tells us anything. */
	for (size_t i = 0; i < ETCD_MEMBERS_MAX; i++)
		etcd_pause(f->cluster, i, true);
	end_ns = lg_etcd_session_until_ns(session);
	WAIT_FOR(f->n.loop, n_changes == 2);
	assert_true(lg_clock_now_ns() >= end_ns && lg_clock_now_ns() < end_ns + LG_NS_PER_S);
	assert_int_equal(lg_etcd_session_lease(session), 0);
	assert_int_equal(lg_etcd_session_until_ns(session), 0);
	for (size_t i = 0; i < ETCD_MEMBERS_MAX; i++)
		etcd_pause(f->cluster, i, false);
	/* Another one begins. */
	WAIT_FOR(f->n.loop, n_changes == 3);
	assert_int_not_equal(lg_etcd_session_lease(session), lease);
	lg_etcd_session_free(session);
}

/* ---- users ---- */

static void users_and_passwords_are_checked(void **state)
{
	struct fixture *f = *state;
	struct lg_etcd *etcd = f->etcd;
	struct outcome o;
	const char *why;

	assert_int_equal(etcd_ctl(f->cluster, (const char *const[]){ "user", "add", "root:secret", NULL }), 0);
	assert_int_equal(etcd_ctl(f->cluster, (const char *const[]){ "user", "grant-role", "root", "root", NULL }), 0);
	assert_int_equal(etcd_ctl(f->cluster, (const char *const[]){ "auth", "enable", NULL }), 0);
	f->etcd = client_of(f, ETCD_MEMBERS_MAX, "root", "secret");
	put(f, "auth/a", "x", false, 0, &o);
	WAIT(f, o);
	assert_int_equal(o.result, 0);
	lg_etcd_free(f->etcd);
	f->etcd = client_of(f, 1, "root", "wrong");
	WAIT_FOR(f->n.loop, !lg_etcd_is_up(f->etcd, &why) && strstr(why, "authentication failed"));
	lg_etcd_free(f->etcd);
	f->etcd = client_of(f, 1, NULL, NULL);
	put(f, "auth/b", "x", false, 0, &o);
	WAIT(f, o);
	assert_int_equal(o.result, -EACCES);
	lg_etcd_free(f->etcd);
	f->etcd = etcd;
	assert_int_equal(etcd_ctl(f->cluster, (const char *const[]){ "--user", "root:secret", "auth", "disable", NULL }), 0);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_write_that_compares_is_carried_out_once),
		TEST(a_thousand_calls_at_once_are_all_answered),
		TEST(what_etcd_refuses_is_told_with_its_reason),
		TEST(a_cluster_that_is_not_there_ends_calls_at_their_deadline),
		TEST(members_die_one_after_the_other_and_calls_go_on),
		TEST(without_a_majority_a_read_is_not_answered_from_memory),
		TEST(a_watch_misses_nothing_and_tells_nothing_twice),
		TEST(a_watch_from_before_a_compaction_says_that_it_has_lost),
		TEST(a_session_keeps_its_keys_and_takes_them_along),
		TEST(a_session_ends_by_our_own_clock_before_the_cluster_ends_it),
		TEST(users_and_passwords_are_checked),
	};
	int failed;

	net_alone();
	cluster = etcd_cluster_new(ETCD_MEMBERS_MAX, NULL);
	if (!cluster) {
		fprintf(stderr, "there is no build/etcd/etcd: run scripts/fetch-etcd\n");
		return 1;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	etcd_cluster_free(cluster);
	return failed;
}
