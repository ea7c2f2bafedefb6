// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "store/store.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "store/driver.h"

struct lg_store {
	const struct lg_store_driver *driver;
	void *state;
	unsigned int n_walks; /* lg_store_each() in progress */
};

static int driver_complain(const char *name, struct lg_complaint *c)
{
	char known[128] = "";
	size_t n = 0;

	for (size_t i = 0; lg_store_driver_at(i) && n < sizeof(known); i++)
		n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "", lg_store_driver_at(i)->name);
	return lg_complain(c, "no store is called \"%.64s\": there are %s", name, known);
}

int lg_store_open(const char *driver, const char *path, struct lg_store **ret_store, struct lg_complaint *c)
{
	_cleanup_free_ struct lg_store *store = calloc(1, sizeof(*store));
	int r;

	c->file[0] = '\0';
	c->line = c->col = 0;
	if (!store) {
		lg_complain(c, "not enough memory for a store");
		return -ENOMEM;
	}
	for (size_t i = 0; lg_store_driver_at(i) && !store->driver; i++)
		if (strcmp(lg_store_driver_at(i)->name, driver) == 0)
			store->driver = lg_store_driver_at(i);
	if (!store->driver)
		return driver_complain(driver, c);
	r = store->driver->open(path, &store->state, c);
	if (r < 0)
		return r;
	*ret_store = TAKE(store);
	return 0;
}

struct lg_store *lg_store_free(struct lg_store *store)
{
	if (!store)
		return NULL;
	store->driver->close(store->state);
	free(store);
	return NULL;
}

static bool is_key(const char *key)
{
	size_t len = strnlen(key, LG_STORE_KEY_MAX + 1);

	return len >= 1 && len <= LG_STORE_KEY_MAX;
}

int lg_store_get(struct lg_store *store, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	if (!is_key(key))
		return -EINVAL;
	return store->driver->get(store->state, key, buf, size, ret_len, ret_revision);
}

static int key_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Within one commit each key has one state before and one after. */
static int writes_check(const struct lg_store_write *writes, size_t n)
{
	_cleanup_free_ const char **keys = NULL;

	if (n > LG_STORE_WRITES_MAX)
		return -EINVAL;
	keys = calloc(n, sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!is_key(writes[i].key) || (writes[i].value && writes[i].len > LG_STORE_VALUE_MAX))
			return -EINVAL;
		keys[i] = writes[i].key;
	}
	qsort(keys, n, sizeof(*keys), key_compare);
	for (size_t i = 1; i < n; i++)
		if (strcmp(keys[i - 1], keys[i]) == 0)
			return -EINVAL;
	return 0;
}

int lg_store_commit(struct lg_store *store, const struct lg_store_write *writes, size_t n)
{
	int r;

	if (!n)
		return 0;
	if (store->n_walks)
		return -EBUSY;
	r = writes_check(writes, n);
	return r < 0 ? r : store->driver->commit(store->state, writes, n);
}

int lg_store_each(struct lg_store *store, const char *prefix, lg_store_fn *fn, void *arg)
{
	int r;

	if (strnlen(prefix, LG_STORE_KEY_MAX + 1) > LG_STORE_KEY_MAX)
		return -EINVAL;
	store->n_walks++;
	r = store->driver->each(store->state, prefix, fn, arg);
	store->n_walks--;
	return r;
}
