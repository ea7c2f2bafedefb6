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

/* A commit that was carried out at once, and of which somebody is still to be told. */
struct answer {
	STAILQ_ENTRY(answer) link;
	lg_store_done *done;
	void *arg;
	int result;
};

struct lg_store {
	const struct lg_store_driver *driver;
	void *state;
	unsigned int n_walks;		/* lg_store_each() in progress */
	lg_store_changed *changed;
	void *arg;
	bool is_news;			/* changed() is due */
	STAILQ_HEAD(, answer) answers;
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

static void on_timer(void *arg)
{
	struct lg_store *store = arg;
	struct answer *answer;

	while ((answer = STAILQ_FIRST(&store->answers))) {
		STAILQ_REMOVE_HEAD(&store->answers, link);
		answer->done(answer->arg, answer->result);
		free(answer);
	}
	if (store->is_news) {
		store->is_news = false;
		store->changed(store->arg);
	}
}

static void on_changed(void *arg)
{
	struct lg_store *store = arg;

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
	store->changed = changed;
	store->arg = arg;
	r = lg_loop_add_timer(loop, on_timer, store, &store->timer);
	if (r == 0)
		r = driver->open(loop, o, on_changed, store, &store->state, c);
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

	if (!store)
		return NULL;
	if (store->driver)
		store->driver->close(store->state);
	while ((answer = STAILQ_FIRST(&store->answers))) {
		STAILQ_REMOVE_HEAD(&store->answers, link);
		free(answer);
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
	if (r < 0) {
		free(answer);
		return r;
	}
	r = n ? store->driver->commit(store->state, writes, n, done, arg) : 0;
	if (r == -EINPROGRESS) {
		free(answer);
		return 0;
	}
	*answer = (struct answer){ .done = done, .arg = arg, .result = r };
	STAILQ_INSERT_TAIL(&store->answers, answer, link);
	return 0;
}

/* ---- leading ---- */

int lg_store_lead(struct lg_store *store)
{
	int r = store->driver->lead(store->state);

	return r < 0 ? r : news(store);
}

uint64_t lg_store_leads_until_ns(const struct lg_store *store)
{
	return store->driver->leads_until_ns(store->state);
}

const char *lg_store_leader(struct lg_store *store)
{
	return store->driver->leader(store->state);
}

bool lg_store_own_is_ready(const void *state, const char **ret_why)
{
	(void)state;
	if (ret_why)
		*ret_why = "";
	return true;
}

int lg_store_own_lead(void *state)
{
	struct lg_store_own *own = state;

	own->leads = true;
	return 0;
}

uint64_t lg_store_own_leads_until_ns(const void *state)
{
	const struct lg_store_own *own = state;

	return own->leads ? UINT64_MAX : 0;
}

const char *lg_store_own_leader(void *state)
{
	const struct lg_store_own *own = state;

	return own->leads ? "this process, alone" : "";
}
