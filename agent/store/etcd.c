// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A store in an etcd cluster, which others share. What it holds under our prefix is mirrored here: read once, then kept up by a watch, and
 * by our own commits as they are answered. Commits are transactions, one at a time, so that they are carried out in order.
 *
 * Temporary keys are under an etcd lease that ends with the process.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "store/driver.h"
#include "store/etcd_client.h"
#include "store/mirror.h"

#define DEADLINE_MS 5000
#define TTL_S 2		/* a process that is gone is known to be after this */
#define PAGE_KEYS 128		/* of a range: 8 MiB of the largest values */
#define PENDING_MAX 4096

/* A commit on its way, with copies of its writes. */
struct pending {
	STAILQ_ENTRY(pending) link;
	size_t n;
	struct lg_store_write *writes;
	int64_t lease;		/* of its temporary keys */
	lg_store_done *done;
	void *arg;
};

struct etcd {
	char prefix[LG_STORE_KEY_MAX];
	struct lg_etcd *client;
	struct lg_store_news news;

	bool ready;
	struct lg_mirror mirror;	/* keys without the prefix */
	struct lg_mirror loading;	/* of the next mirror, until it is whole */
	char load_from[LG_STORE_KEY_MAX + LG_STORE_KEY_MAX + 1];
	int64_t load_revision;		/* all pages are of one moment */
	struct lg_etcd_call *load;
	struct lg_etcd_watch *watch;
	struct lg_source *retry;	/* loads, or tries to be here, again */

	STAILQ_HEAD(, pending) queue;
	size_t n_pending;
	struct lg_etcd_call *commit;	/* of the first of them */

	bool wants_here;
	uint32_t n_here;		/* leases that we have had */
	struct lg_etcd_session *session;
	char why[256];
};

static void load_begin(struct etcd *e);
static void commit_next(struct etcd *e);

static ProtobufCBinaryData bytes_of(const void *data, size_t len)
{
	return (ProtobufCBinaryData){ len, (uint8_t *)(uintptr_t)data };
}

/* A key as the cluster has it. */
static ProtobufCBinaryData full_key(const struct etcd *e, const char *key, char *buf, size_t size)
{
	snprintf(buf, size, "%s%s", e->prefix, key);
	return bytes_of(buf, strlen(buf));
}

/* The part behind our prefix, or NULL: a key of somebody else, or none that could be ours. */
static const char *own_key(const struct etcd *e, const ProtobufCBinaryData *key, char buf[LG_STORE_KEY_MAX + 1])
{
	size_t prefix_len = strlen(e->prefix);

	if (key->len <= prefix_len || key->len - prefix_len > LG_STORE_KEY_MAX || memcmp(key->data, e->prefix, prefix_len) != 0 ||
	    memchr(key->data, 0, key->len))
		return NULL;
	memcpy(buf, key->data + prefix_len, key->len - prefix_len);
	buf[key->len - prefix_len] = '\0';
	return buf;
}

static void retry_later(struct etcd *e, uint64_t ns)
{
	lg_source_arm(e->retry, ns);
}

/* ---- the mirror ---- */

/* Memory was short, or the cluster has more than fits: what is here is not what is there. */
static void mirror_spoiled(struct etcd *e, int r)
{
	snprintf(e->why, sizeof(e->why), "what the cluster holds cannot be mirrored: %s", strerror(-r));
	e->watch = lg_etcd_watch_free(e->watch);
	e->ready = false;
	retry_later(e, LG_NS_PER_S);
}

static int learn(struct etcd *e, const char *key, const void *value, size_t len, uint64_t revision)
{
	int r = lg_mirror_learn(&e->mirror, key, value, len, revision);

	if (r > 0)
		e->news.seen(e->news.arg, key, value, len, revision);
	return r;
}

static void on_change(void *arg, const Leasegate__Etcd__Event *event)
{
	const Leasegate__Etcd__KeyValue *kv = event->kv;
	bool is_put = event->type == LEASEGATE__ETCD__EVENT_TYPE__EVENT_TYPE_PUT;
	char buf[LG_STORE_KEY_MAX + 1];
	struct etcd *e = arg;
	const char *key = own_key(e, &kv->key, buf);
	int r;

	if (!key)
		return;
	r = learn(e, key, is_put ? (kv->value.len ? (const void *)kv->value.data : "") : NULL, kv->value.len, (uint64_t)kv->mod_revision);
	if (r < 0)
		mirror_spoiled(e, r);
}

static void on_lost(void *arg)
{
	struct etcd *e = arg;

	e->watch = NULL;
	load_begin(e);
}

/* A key of the former mirror that is in the new one no more. */
static int tell_gone(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct etcd *e = arg;

	(void)value;
	(void)len;
	if (!lg_mirror_revision(&e->mirror, key))
		e->news.seen(e->news.arg, key, NULL, 0, revision);
	return 0;
}

/* One of the new one that the former had otherwise. */
static int tell_new(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct etcd *e = arg;

	if (lg_mirror_revision(&e->loading, key) != revision)
		e->news.seen(e->news.arg, key, value, len, revision);
	return 0;
}

static void load_end(struct etcd *e)
{
	static const struct lg_etcd_watch_events events = { on_change, on_lost };
	struct lg_mirror former = e->mirror;
	int r;

	e->mirror = e->loading;
	e->loading = former;
	lg_mirror_each(&e->loading, "", tell_gone, e);
	lg_mirror_each(&e->mirror, "", tell_new, e);
	lg_mirror_fini(&e->loading);
	r = lg_etcd_watch_new(e->client, e->prefix, e->load_revision + 1, &events, e, &e->watch);
	if (r < 0) {
		mirror_spoiled(e, r);
		return;
	}
	e->ready = true;
	e->news.changed(e->news.arg);
}

static int page_take(struct etcd *e, const Leasegate__Etcd__RangeResponse *m)
{
	char buf[LG_STORE_KEY_MAX + 1];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < m->n_kvs; i++) {
		const Leasegate__Etcd__KeyValue *kv = m->kvs[i];
		const char *key = own_key(e, &kv->key, buf);

		if (key)
			r = lg_mirror_learn(&e->loading, key, kv->value.len ? (const void *)kv->value.data : "", kv->value.len,
					    (uint64_t)kv->mod_revision);
	}
	return r;
}

static void page_ask(struct etcd *e);

static void on_page(void *arg, int result, const char *why, const ProtobufCMessage *answer)
{
	const Leasegate__Etcd__RangeResponse *m = (const Leasegate__Etcd__RangeResponse *)answer;
	struct etcd *e = arg;
	int r = result;

	e->load = NULL;
	snprintf(e->why, sizeof(e->why), "%s", why);
	if (r == 0 && !e->load_revision)
		e->load_revision = m->header->revision;
	if (r == 0)
		r = page_take(e, m);
	if (r < 0) {
		retry_later(e, 200 * LG_NS_PER_MS);
		return;
	}
	if (!m->more || !m->n_kvs) {
		load_end(e);
		return;
	}
	/* Goes on right behind the last key. */
	snprintf(e->load_from, sizeof(e->load_from), "%.*s", (int)m->kvs[m->n_kvs - 1]->key.len, (const char *)m->kvs[m->n_kvs - 1]->key.data);
	page_ask(e);
}

static void page_ask(struct etcd *e)
{
	Leasegate__Etcd__RangeRequest request = LEASEGATE__ETCD__RANGE_REQUEST__INIT;
	uint8_t end[LG_STORE_KEY_MAX];

	/* With its final NUL a key is the next one behind itself. */
	request.key = bytes_of(e->load_from, strlen(e->load_from) + (strcmp(e->load_from, e->prefix) != 0));
	request.range_end = bytes_of(end, lg_etcd_prefix_end(e->prefix, end));
	request.limit = PAGE_KEYS;
	request.revision = e->load_revision;
	if (lg_etcd_call(e->client, LG_ETCD_RANGE, &request.base, on_page, e, &e->load) < 0)
		retry_later(e, 200 * LG_NS_PER_MS);
}

static void load_begin(struct etcd *e)
{
	lg_mirror_fini(&e->loading);
	e->load_revision = 0;
	snprintf(e->load_from, sizeof(e->load_from), "%s", e->prefix);
	page_ask(e);
}

/* ---- being there ---- */

static void on_session(void *arg)
{
	struct etcd *e = arg;

	if (lg_etcd_session_lease(e->session))
		e->n_here++;
	e->news.changed(e->news.arg);
}

static void session_try(struct etcd *e)
{
	if (!e->session && e->wants_here && lg_etcd_session_new(e->client, TTL_S, on_session, e, &e->session) < 0)
		retry_later(e, LG_NS_PER_S);
}

/* Something was put off. */
static void on_retry(void *arg)
{
	struct etcd *e = arg;

	if (!e->watch && !e->load)
		load_begin(e);
	session_try(e);
	commit_next(e);
}

static int etcd_join(void *state)
{
	struct etcd *e = state;

	e->wants_here = true;
	session_try(e);
	return 0;
}

static uint64_t etcd_here_until_ns(const void *state)
{
	const struct etcd *e = state;

	return e->wants_here && e->session ? lg_etcd_session_until_ns(e->session) : 0;
}

static uint32_t etcd_here_since(const void *state)
{
	const struct etcd *e = state;

	return e->n_here;
}

/* ---- commits ---- */

static void pending_free(struct pending *p)
{
	for (size_t i = 0; p->writes && i < p->n; i++) {
		free((void *)(uintptr_t)p->writes[i].key);
		free((void *)(uintptr_t)p->writes[i].value);
	}
	free(p->writes);
	free(p);
}

static int pending_new(const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg, struct pending **ret)
{
	struct pending *p = calloc(1, sizeof(*p));
	void *value;
	char *key;

	if (p)
		p->writes = calloc(n, sizeof(*p->writes));
	if (!p || !p->writes) {
		free(p);
		return -ENOMEM;
	}
	p->done = done;
	p->arg = arg;
	for (; p->n < n; p->n++) {
		key = strdup(writes[p->n].key);
		value = writes[p->n].value ? malloc(writes[p->n].len + 1) : NULL;
		if (value)
			memcpy(value, writes[p->n].value, writes[p->n].len);
		p->writes[p->n] = (struct lg_store_write){ key, value, writes[p->n].len, writes[p->n].if_revision, writes[p->n].how };
		if (!key || (writes[p->n].value && !value)) {
			p->n++;
			pending_free(p);
			return -ENOMEM;
		}
	}
	*ret = p;
	return 0;
}

/* One transaction being written down, all of whose parts lie here. */
struct txn {
	Leasegate__Etcd__TxnRequest request;
	Leasegate__Etcd__Compare compare[LG_STORE_WRITES_MAX], *compares[LG_STORE_WRITES_MAX];
	Leasegate__Etcd__RequestOp op[LG_STORE_WRITES_MAX], *ops[LG_STORE_WRITES_MAX];
	Leasegate__Etcd__PutRequest put[LG_STORE_WRITES_MAX];
	Leasegate__Etcd__DeleteRangeRequest delete[LG_STORE_WRITES_MAX];
	char keys[LG_STORE_WRITES_MAX][2 * LG_STORE_KEY_MAX + 1];
};

static void compare_add(struct txn *t, ProtobufCBinaryData key, bool of_creation, int64_t revision)
{
	Leasegate__Etcd__Compare *c = &t->compare[t->request.n_compare];

	leasegate__etcd__compare__init(c);
	c->key = key;
	if (of_creation) {
		c->target = LEASEGATE__ETCD__COMPARE_TARGET__COMPARE_TARGET_CREATE;
		c->target_union_case = LEASEGATE__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
		c->create_revision = revision;
	} else {
		c->target = LEASEGATE__ETCD__COMPARE_TARGET__COMPARE_TARGET_MOD;
		c->target_union_case = LEASEGATE__ETCD__COMPARE__TARGET_UNION_MOD_REVISION;
		c->mod_revision = revision;
	}
	t->compares[t->request.n_compare++] = c;
}

static void write_add(struct txn *t, ProtobufCBinaryData key, const struct lg_store_write *write, int64_t lease)
{
	size_t i = t->request.n_success;
	Leasegate__Etcd__RequestOp *op = &t->op[i];

	if (write->if_revision != LG_STORE_REVISION_ANY)
		compare_add(t, key, write->if_revision == 0, (int64_t)write->if_revision);
	if (write->how == LG_STORE_CHECK)
		return;

	leasegate__etcd__request_op__init(op);
	if (write->value) {
		leasegate__etcd__put_request__init(&t->put[i]);
		t->put[i].key = key;
		t->put[i].value = bytes_of(write->value, write->len);
		t->put[i].lease = write->how == LG_STORE_TEMPORARY ? lease : 0;
		op->request_case = LEASEGATE__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
		op->request_put = &t->put[i];
	} else {
		leasegate__etcd__delete_range_request__init(&t->delete[i]);
		t->delete[i].key = key;
		op->request_case = LEASEGATE__ETCD__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
		op->request_delete_range = &t->delete[i];
	}
	t->ops[i] = op;
	t->request.n_success++;
}

static void txn_make(const struct etcd *e, const struct pending *p, struct txn *t)
{
	leasegate__etcd__txn_request__init(&t->request);
	t->request.compare = t->compares;
	t->request.success = t->ops;
	for (size_t i = 0; i < p->n; i++)
		write_add(t, full_key(e, p->writes[i].key, t->keys[i], sizeof(t->keys[i])), &p->writes[i], p->lease);
}

static void on_committed(void *arg, int result, const char *why, const ProtobufCMessage *answer)
{
	const Leasegate__Etcd__TxnResponse *m = (const Leasegate__Etcd__TxnResponse *)answer;
	struct etcd *e = arg;
	struct pending *p = STAILQ_FIRST(&e->queue);
	int r = result;

	/* Out of the queue before anybody is told: who is told may commit. */
	STAILQ_REMOVE_HEAD(&e->queue, link);
	e->n_pending--;
	e->commit = NULL;
	snprintf(e->why, sizeof(e->why), "%s", why);
	/* What was written can be read at once, not only when the watch has told of it. */
	for (size_t i = 0; result == 0 && m->succeeded && r >= 0 && i < p->n; i++)
		if (p->writes[i].how != LG_STORE_CHECK)
			r = learn(e, p->writes[i].key, p->writes[i].value, p->writes[i].len, (uint64_t)m->header->revision);
	if (r < 0 && result == 0)
		mirror_spoiled(e, r);
	p->done(p->arg, result < 0 ? result : m->succeeded ? 0 : 1);
	pending_free(p);
	commit_next(e);
}

static void commit_next(struct etcd *e)
{
	_cleanup_free_ struct txn *t = NULL;
	int r;

	if (STAILQ_EMPTY(&e->queue) || e->commit)
		return;
	t = calloc(1, sizeof(*t));
	r = t ? 0 : -ENOMEM;
	if (r == 0) {
		txn_make(e, STAILQ_FIRST(&e->queue), t);
		r = lg_etcd_call(e->client, LG_ETCD_TXN, &t->request.base, on_committed, e, &e->commit);
	}
	if (r < 0)
		retry_later(e, 0);
}

static int etcd_commit(void *state, const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg)
{
	struct etcd *e = state;
	struct pending *p;
	int r;

	if (e->n_pending >= PENDING_MAX)
		return -ENOBUFS;
	for (size_t i = 0; i < n; i++)
		if (writes[i].how == LG_STORE_TEMPORARY && !etcd_here_until_ns(e))
			return -EHOSTUNREACH;
	r = pending_new(writes, n, done, arg, &p);
	if (r < 0)
		return r;
	p->lease = e->session ? lg_etcd_session_lease(e->session) : 0;
	STAILQ_INSERT_TAIL(&e->queue, p, link);
	e->n_pending++;
	commit_next(e);
	return -EINPROGRESS;
}

/* ---- reading ---- */

static bool etcd_is_ready(const void *state, const char **ret_why)
{
	const struct etcd *e = state;
	const char *why = e->why;

	if (ret_why && !lg_etcd_is_up(e->client, &why))
		*ret_why = why;
	else if (ret_why)
		*ret_why = e->why;
	return e->ready;
}

static int etcd_get(void *state, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	struct etcd *e = state;

	return lg_mirror_get(&e->mirror, key, buf, size, ret_len, ret_revision);
}

static int etcd_each(void *state, const char *prefix, lg_store_fn *fn, void *arg)
{
	struct etcd *e = state;

	return lg_mirror_each(&e->mirror, prefix, fn, arg);
}

/* ---- beginning and end ---- */

static void etcd_close(void *state)
{
	struct etcd *e = state;
	struct pending *p;

	lg_etcd_watch_free(e->watch);
	lg_etcd_session_free(e->session);
	lg_etcd_free(e->client);
	lg_source_free(e->retry);
	while ((p = STAILQ_FIRST(&e->queue))) {
		STAILQ_REMOVE_HEAD(&e->queue, link);
		pending_free(p);
	}
	lg_mirror_fini(&e->mirror);
	lg_mirror_fini(&e->loading);
	free(e);
}

static int etcd_open(struct lg_loop *loop, const struct lg_store_options *o, const struct lg_store_news *news, void **ret_state,
		     struct lg_complaint *c)
{
	struct lg_etcd_options options = { .n_endpoints = o->n_endpoints, .user = o->user, .password = o->password, .tls = o->tls,
					   .deadline_ms = DEADLINE_MS };
	struct etcd *e = calloc(1, sizeof(*e));
	int r;

	if (!e) {
		lg_complain(c, "not enough memory for a store");
		return -ENOMEM;
	}
	STAILQ_INIT(&e->queue);
	e->news = *news;
	snprintf(e->prefix, sizeof(e->prefix), "%s", o->path);
	snprintf(e->why, sizeof(e->why), "reading what the cluster holds");
	for (size_t i = 0; i < o->n_endpoints && i < LG_ETCD_ENDPOINTS_MAX; i++)
		options.endpoints[i] = o->endpoints[i];
	r = lg_etcd_new(loop, &options, &e->client, c);
	if (r == 0)
		r = lg_loop_add_timer(loop, on_retry, e, &e->retry);
	if (r < 0) {
		etcd_close(e);
		return r;
	}
	load_begin(e);
	*ret_state = e;
	return 0;
}

const struct lg_store_driver lg_store_etcd = {
	.name = "etcd",
	.is_shared = true,
	.open = etcd_open,
	.close = etcd_close,
	.is_ready = etcd_is_ready,
	.get = etcd_get,
	.each = etcd_each,
	.commit = etcd_commit,
	.join = etcd_join,
	.here_until_ns = etcd_here_until_ns,
	.here_since = etcd_here_since,
	.is_doubted = lg_store_never_doubted,
	.trust = lg_store_ever_trusted,
};
