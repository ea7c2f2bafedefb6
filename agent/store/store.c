// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "store/store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "store/driver.h"

/* What a key has become. */
struct change {
	char key[LG_STORE_KEY_MAX + 1];
	void *value;	/* NULL: it was deleted */
	size_t len;
	uint64_t revision;
};

struct changes {
	struct change *v;
	size_t n, room;
};

/* A commit that was carried out at once, and of which somebody is still to be told. */
struct answer {
	STAILQ_ENTRY(answer) link;
	lg_store_done *done;
	void *arg;
	int result;
	struct changes changes;
};

struct watch {
	LIST_ENTRY(watch) link;
	char prefix[LG_STORE_KEY_MAX + 1];
	lg_store_seen *fn;
	void *arg;
	bool is_new;	/* what there is has not been told yet */
};

struct lg_store {
	const struct lg_store_driver *driver;
	void *state;
	unsigned int n_walks;		/* lg_store_each() in progress */
	lg_store_changed *changed;
	void *arg;
	bool is_news;			/* changed() is due */
	STAILQ_HEAD(, answer) answers;
	LIST_HEAD(, watch) watches;
	struct lg_source *timer;	/* tells */
};

static int driver_complain(const char *name, struct lg_complaint *c)
{
	char known[128] = "";
	size_t n = 0;

	for (size_t i = 0; lg_store_driver_at(i) && n < sizeof(known); i++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", lg_store_driver_at(i)->name);
	return lg_complain(c, "no store is called \"%.64s\": there are %s", name, known);
}

/* ---- changes ---- */

static void changes_fini(struct changes *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].value);
	free(c->v);
	*c = (struct changes){ 0 };
}

static int change_add(struct changes *c, const char *key, const void *value, size_t len, uint64_t revision)
{
	size_t room = c->room ? 2 * c->room : 16;
	struct change *v = c->v;
	void *copy;

	if (c->n == c->room) {
		v = realloc(c->v, room * sizeof(*v));
		if (!v)
			return -ENOMEM;
		c->v = v;
		c->room = room;
	}
	copy = value ? malloc(len + 1) : NULL;
	if (value && !copy)
		return -ENOMEM;
	if (copy && len)
		memcpy(copy, value, len);
	v = &c->v[c->n++];
	*v = (struct change){ .value = copy, .len = value ? len : 0, .revision = revision };
	snprintf(v->key, sizeof(v->key), "%s", key);
	return 0;
}

static bool is_within(const char *key, const char *prefix)
{
	return strncmp(key, prefix, strlen(prefix)) == 0;
}

static bool is_watched(const struct lg_store *store, const char *key)
{
	const struct watch *w;

	LIST_FOREACH(w, &store->watches, link)
		if (is_within(key, w->prefix))
			return true;
	return false;
}

/* Room for what a commit will have changed, made before: what happened must be told. */
static int changes_of(const struct lg_store *store, const struct lg_store_write *writes, size_t n, struct changes *ret)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		if (writes[i].how != LG_STORE_CHECK && is_watched(store, writes[i].key))
			r = change_add(ret, writes[i].key, writes[i].value, writes[i].len, 0);
	return r;
}

/* A driver's own: what it wrote has the revision that its keys have now. */
static void changes_revise(struct lg_store *store, struct changes *c)
{
	static uint8_t value[LG_STORE_VALUE_MAX];
	size_t len;

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].value)
			store->driver->get(store->state, c->v[i].key, value, sizeof(value), &len, &c->v[i].revision);
}

static void on_seen(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	struct lg_store *store = arg;
	const struct watch *w;

	LIST_FOREACH(w, &store->watches, link)
		if (!w->is_new && is_within(key, w->prefix))
			w->fn(w->arg, key, value, len, value ? revision : 0);
}

static int note_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	return change_add(arg, key, value, len, revision);
}

/* Tells a new watch what there is: from a copy, as it may use the store. */
static int watch_begin(struct lg_store *store, struct watch *w)
{
	struct changes all = { 0 };
	int r = store->driver->each(store->state, w->prefix, note_one, &all);

	w->is_new = r < 0;
	for (size_t i = 0; r == 0 && i < all.n; i++)
		w->fn(w->arg, all.v[i].key, all.v[i].value, all.v[i].len, all.v[i].revision);
	changes_fini(&all);
	return r;
}

static void watches_begin(struct lg_store *store)
{
	struct watch *w;

	if (!lg_store_is_ready(store, NULL))
		return;
	LIST_FOREACH(w, &store->watches, link)
		if (w->is_new && watch_begin(store, w) < 0)
			lg_source_arm(store->timer, LG_NS_PER_S / 10);
}

static void answer_free(struct answer *answer)
{
	changes_fini(&answer->changes);
	free(answer);
}

static void on_timer(void *arg)
{
	struct lg_store *store = arg;
	struct answer *answer;

	while ((answer = STAILQ_FIRST(&store->answers))) {
		STAILQ_REMOVE_HEAD(&store->answers, link);
		for (size_t i = 0; answer->result == 0 && i < answer->changes.n; i++)
			on_seen(store, answer->changes.v[i].key, answer->changes.v[i].value, answer->changes.v[i].len,
				answer->changes.v[i].revision);
		answer->done(answer->arg, answer->result);
		answer_free(answer);
	}
	watches_begin(store);
	if (store->is_news) {
		store->is_news = false;
		store->changed(store->arg);
	}
}

static void on_changed(void *arg)
{
	struct lg_store *store = arg;

	watches_begin(store);
	store->changed(store->arg);
}

static int news(struct lg_store *store)
{
	store->is_news = true;
	return lg_source_arm(store->timer, 0);
}

int lg_store_open(struct lg_loop *loop, const struct lg_store_options *o, lg_store_changed *changed, void *arg,
		  struct lg_store **ret_store, struct lg_complaint *c)
{
	_cleanup_(lg_store_free) struct lg_store *store = calloc(1, sizeof(*store));
	const struct lg_store_news news_of = { on_changed, on_seen, store };
	const struct lg_store_driver *driver = NULL;
	int r;

	c->file[0] = '\0';
	c->line = c->col = 0;
	if (!store) {
		lg_complain(c, "not enough memory for a store");
		return -ENOMEM;
	}
	for (size_t i = 0; lg_store_driver_at(i) && !driver; i++)
		if (strcmp(lg_store_driver_at(i)->name, o->driver) == 0)
			driver = lg_store_driver_at(i);
	if (!driver)
		return driver_complain(o->driver, c);
	STAILQ_INIT(&store->answers);
	LIST_INIT(&store->watches);
	store->changed = changed;
	store->arg = arg;
	r = lg_loop_add_timer(loop, on_timer, store, &store->timer);
	if (r == 0)
		r = driver->open(loop, o, &news_of, &store->state, c);
	if (r < 0)
		return r;
	store->driver = driver;
	if (driver->is_ready(store->state, NULL))
		r = news(store);
	if (r < 0)
		return r;
	*ret_store = TAKE(store);
	return 0;
}

struct lg_store *lg_store_free(struct lg_store *store)
{
	struct answer *answer;
	struct watch *w;

	if (!store)
		return NULL;
	if (store->driver)
		store->driver->close(store->state);
	while ((answer = STAILQ_FIRST(&store->answers))) {
		STAILQ_REMOVE_HEAD(&store->answers, link);
		answer_free(answer);
	}
	while ((w = LIST_FIRST(&store->watches))) {
		LIST_REMOVE(w, link);
		free(w);
	}
	lg_source_free(store->timer);
	free(store);
	return NULL;
}

bool lg_store_is_ready(const struct lg_store *store, const char **ret_why)
{
	return store->driver->is_ready(store->state, ret_why);
}

/* ---- reading ---- */

static bool is_key(const char *key)
{
	size_t len = strnlen(key, LG_STORE_KEY_MAX + 1);

	return len >= 1 && len <= LG_STORE_KEY_MAX;
}

int lg_store_get(struct lg_store *store, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	if (!is_key(key))
		return -EINVAL;
	if (!lg_store_is_ready(store, NULL))
		return -EAGAIN;
	return store->driver->get(store->state, key, buf, size, ret_len, ret_revision);
}

int lg_store_each(struct lg_store *store, const char *prefix, lg_store_fn *fn, void *arg)
{
	int r;

	if (strnlen(prefix, LG_STORE_KEY_MAX + 1) > LG_STORE_KEY_MAX)
		return -EINVAL;
	if (!lg_store_is_ready(store, NULL))
		return -EAGAIN;
	store->n_walks++;
	r = store->driver->each(store->state, prefix, fn, arg);
	store->n_walks--;
	return r;
}

int lg_store_watch(struct lg_store *store, const char *prefix, lg_store_seen *fn, void *arg)
{
	struct watch *w;
	int r;

	if (strnlen(prefix, LG_STORE_KEY_MAX + 1) > LG_STORE_KEY_MAX)
		return -EINVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	r = lg_source_arm(store->timer, 0);
	if (r < 0) {
		free(w);
		return r;
	}
	snprintf(w->prefix, sizeof(w->prefix), "%s", prefix);
	w->fn = fn;
	w->arg = arg;
	w->is_new = true;
	LIST_INSERT_HEAD(&store->watches, w, link);
	return 0;
}

struct telling {
	lg_store_seen *fn;
	void *arg;
};

static int tell_one(void *arg, const char *key, const void *value, size_t len, uint64_t revision)
{
	const struct telling *t = arg;

	t->fn(t->arg, key, value, len, revision);
	return 0;
}

int lg_store_watch_now(struct lg_store *store, const char *prefix, lg_store_seen *fn, void *arg)
{
	struct telling t = { fn, arg };
	int r = lg_store_each(store, prefix, tell_one, &t);

	return r < 0 ? r : lg_store_watch(store, prefix, fn, arg);
}

/* ---- writing ---- */

/* Within one commit each key has one state before and one after. */
static int writes_check(const struct lg_store_write *writes, size_t n)
{
	size_t bytes = 0;

	if (n > LG_STORE_WRITES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (!is_key(writes[i].key) || (writes[i].value && writes[i].len > LG_STORE_VALUE_MAX))
			return -EINVAL;
		bytes += strlen(writes[i].key) + (writes[i].value ? writes[i].len : 0);
		for (size_t j = 0; j < i; j++)
			if (strcmp(writes[i].key, writes[j].key) == 0)
				return -EINVAL;
	}
	return bytes > LG_STORE_COMMIT_BYTES_MAX ? -EINVAL : 0;
}

int lg_store_commit(struct lg_store *store, const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg)
{
	struct answer *answer;
	int r;

	if (store->n_walks)
		return -EBUSY;
	if (!lg_store_is_ready(store, NULL))
		return -EAGAIN;
	r = writes_check(writes, n);
	if (r < 0)
		return r;
	/* Before it is carried out: what happened must be told. */
	answer = calloc(1, sizeof(*answer));
	if (!answer)
		return -ENOMEM;
	r = lg_source_arm(store->timer, 0);
	if (r == 0 && !store->driver->is_shared)
		r = changes_of(store, writes, n, &answer->changes);
	if (r < 0) {
		answer_free(answer);
		return r;
	}
	r = n ? store->driver->commit(store->state, writes, n, done, arg) : 0;
	if (r == -EINPROGRESS) {
		answer_free(answer);
		return 0;
	}
	answer->done = done;
	answer->arg = arg;
	answer->result = r;
	if (r == 0)
		changes_revise(store, &answer->changes);
	STAILQ_INSERT_TAIL(&store->answers, answer, link);
	return 0;
}

bool lg_store_is_doubted(const struct lg_store *store)
{
	return store->driver->is_doubted(store->state);
}

void lg_store_trust(struct lg_store *store)
{
	store->driver->trust(store->state);
}

/* ---- being there ---- */

bool lg_store_is_shared(const struct lg_store *store)
{
	return store->driver->is_shared;
}

int lg_store_join(struct lg_store *store)
{
	int r = store->driver->join(store->state);

	return r < 0 ? r : news(store);
}

uint64_t lg_store_here_until_ns(const struct lg_store *store)
{
	return store->driver->here_until_ns(store->state);
}

uint32_t lg_store_here_since(const struct lg_store *store)
{
	return store->driver->here_since(store->state);
}

int lg_store_own_join(void *state)
{
	struct lg_store_own *own = state;

	own->is_here = true;
	return 0;
}

uint64_t lg_store_own_here_until_ns(const void *state)
{
	const struct lg_store_own *own = state;

	return own->is_here ? UINT64_MAX : 0;
}

uint32_t lg_store_own_here_since(const void *state)
{
	const struct lg_store_own *own = state;

	return own->is_here;
}

bool lg_store_own_is_ready(const void *state, const char **ret_why)
{
	(void)state;
	if (ret_why)
		*ret_why = "";
	return true;
}

bool lg_store_never_doubted(const void *state)
{
	(void)state;
	return false;
}

void lg_store_ever_trusted(void *state)
{
	(void)state;
}
