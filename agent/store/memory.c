// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Durable only as long as the process: for tests and for those who accept that. */
#include <errno.h>
#include <string.h>

#include "store/driver.h"
#include "store/mirror.h"

struct memory {
	struct lg_store_own own; /* first */
	struct lg_mirror mirror;
	uint64_t revision; /* of the last commit */
};

static int memory_open(struct lg_loop *loop, const struct lg_store_options *o, const struct lg_store_news *news, void **ret_state,
		       struct lg_complaint *c)
{
	struct memory *m = calloc(1, sizeof(*m));

	(void)loop;
	(void)o;
	(void)news;
	if (!m) {
		lg_complain(c, "not enough memory for a store");
		return -ENOMEM;
	}
	*ret_state = m;
	return 0;
}

static void memory_close(void *state)
{
	struct memory *m = state;

	lg_mirror_fini(&m->mirror);
	free(m);
}

static int memory_get(void *state, const char *key, void *buf, size_t size, size_t *ret_len, uint64_t *ret_revision)
{
	struct memory *m = state;

	return lg_mirror_get(&m->mirror, key, buf, size, ret_len, ret_revision);
}

static int memory_each(void *state, const char *prefix, lg_store_fn *fn, void *arg)
{
	struct memory *m = state;

	return lg_mirror_each(&m->mirror, prefix, fn, arg);
}

static int memory_commit(void *state, const struct lg_store_write *writes, size_t n, lg_store_done *done, void *arg)
{
	struct lg_mirror_entry *entries[LG_STORE_WRITES_MAX] = { 0 };
	struct memory *m = state;
	int r;

	(void)done;
	(void)arg;
	for (size_t i = 0; i < n; i++)
		if (writes[i].if_revision != LG_STORE_REVISION_ANY && writes[i].if_revision != lg_mirror_revision(&m->mirror, writes[i].key))
			return 1;
	r = lg_mirror_reserve(&m->mirror, n);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (writes[i].value && writes[i].how != LG_STORE_CHECK)
			r = lg_mirror_entry_new(writes[i].key, writes[i].value, writes[i].len, m->revision + 1, &entries[i]);
	if (r < 0) {
		for (size_t i = 0; i < n; i++)
			lg_mirror_entry_free(entries[i]);
		return r;
	}
	m->revision++;
	for (size_t i = 0; i < n; i++)
		if (writes[i].how != LG_STORE_CHECK)
			lg_mirror_put(&m->mirror, writes[i].key, entries[i]);
	return 0;
}

const struct lg_store_driver lg_store_memory = {
	.name = "memory",
	.open = memory_open,
	.close = memory_close,
	.is_ready = lg_store_own_is_ready,
	.get = memory_get,
	.each = memory_each,
	.commit = memory_commit,
	.join = lg_store_own_join,
	.here_until_ns = lg_store_own_here_until_ns,
	.here_since = lg_store_own_here_since,
	.is_doubted = lg_store_never_doubted,
	.trust = lg_store_ever_trusted,
};
