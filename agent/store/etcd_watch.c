// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A watch: each stream begins right behind the last revision of which all changes were told. */
#include <errno.h>
#include <string.h>

#include "store/etcd_inner.h"

#define PATH "/etcdserverpb.Watch/Watch"

struct lg_etcd_watch {
	struct lg_etcd_guest guest;	/* first */
	struct lg_etcd *etcd;
	char *prefix;
	int64_t next_revision;
	struct lg_etcd_watch_events events;
	void *arg;
	bool busy;			/* an event of ours runs */
	bool over;			/* freed from inside it */
};

size_t lg_etcd_prefix_end(const char *prefix, uint8_t *ret_end)
{
	size_t len = strlen(prefix);

	while (len && (uint8_t)prefix[len - 1] == 0xff)
		len--;
	memcpy(ret_end, prefix, len);
	if (len)
		ret_end[len - 1]++;
	return len;
}

static void watch_begin(struct lg_etcd_guest *guest)
{
	struct lg_etcd_watch *w = (struct lg_etcd_watch *)guest;
	Leasegate__Etcd__WatchCreateRequest create = LEASEGATE__ETCD__WATCH_CREATE_REQUEST__INIT;
	Leasegate__Etcd__WatchRequest request = LEASEGATE__ETCD__WATCH_REQUEST__INIT;
	_cleanup_free_ uint8_t *end = malloc(strlen(w->prefix) + 1);

	if (!end)
		return;
	create.key.data = (uint8_t *)w->prefix;
	create.key.len = strlen(w->prefix);
	create.range_end.data = end;
	create.range_end.len = lg_etcd_prefix_end(w->prefix, end);
	create.start_revision = w->next_revision;
	create.progress_notify = true;
	request.request_case = LEASEGATE__ETCD__WATCH_REQUEST__REQUEST_CREATE_REQUEST;
	request.create_request = &create;
	lg_etcd_open(w->etcd, &w->guest.user, PATH, &request.base, false);
}

static void watch_tick(struct lg_etcd_guest *guest, uint64_t now_ns)
{
	(void)now_ns;
	if (!guest->user.stream && lg_etcd_is_up(((struct lg_etcd_watch *)guest)->etcd, NULL))
		watch_begin(guest);
}

static void watch_delete(struct lg_etcd_watch *w)
{
	lg_etcd_close(&w->guest.user);
	lg_etcd_guest_remove(&w->guest);
	free(w->prefix);
	free(w);
}

/* Tells the changes of one message; true while the watch goes on. */
static bool tell(struct lg_etcd_watch *w, const Leasegate__Etcd__WatchResponse *m)
{
	w->busy = true;
	for (size_t i = 0; i < m->n_events && !w->over; i++)
		if (m->events[i]->kv && m->events[i]->kv->mod_revision >= w->next_revision)
			w->events.change(w->arg, m->events[i]);
	if (m->header && m->header->revision >= w->next_revision)
		w->next_revision = m->header->revision + 1;
	w->busy = false;
	if (w->over)
		watch_delete(w);
	return !w->over;
}

static void watch_message(struct lg_etcd_user *user, const uint8_t *data, size_t len)
{
	struct lg_etcd_watch *w = (struct lg_etcd_watch *)user;
	Leasegate__Etcd__WatchResponse *m = leasegate__etcd__watch_response__unpack(NULL, len, data);

	if (!m) {
		lg_etcd_leave(w->etcd, "its watch cannot be read");
	} else if (m->compact_revision) {
		void (*lost)(void *arg) = w->events.lost;
		void *arg = w->arg;

		watch_delete(w);
		lost(arg);
	} else if (m->canceled) {
		lg_etcd_close(user); /* tried again with the next tick */
	} else if (m->n_events || !m->created) {
		tell(w, m);
	}
	leasegate__etcd__watch_response__free_unpacked(m, NULL);
}

static void watch_closed(struct lg_etcd_user *user, int status, const char *why)
{
	struct lg_etcd_watch *w = (struct lg_etcd_watch *)user;

	(void)status;
	lg_etcd_leave(w->etcd, why);
}

int lg_etcd_watch_new(struct lg_etcd *etcd, const char *prefix, int64_t from_revision, const struct lg_etcd_watch_events *events, void *arg,
		      struct lg_etcd_watch **ret_watch)
{
	struct lg_etcd_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	w->guest.user = (struct lg_etcd_user){ NULL, watch_message, watch_closed };
	w->guest.up = watch_begin;
	w->guest.tick = watch_tick;
	w->etcd = etcd;
	w->next_revision = from_revision;
	w->events = *events;
	w->arg = arg;
	w->prefix = strdup(prefix);
	if (!w->prefix) {
		free(w);
		return -ENOMEM;
	}
	lg_etcd_guest_add(etcd, &w->guest);
	if (lg_etcd_is_up(etcd, NULL))
		watch_begin(&w->guest);
	*ret_watch = w;
	return 0;
}

struct lg_etcd_watch *lg_etcd_watch_free(struct lg_etcd_watch *w)
{
	if (!w)
		return NULL;
	w->over = true;
	if (!w->busy)
		watch_delete(w);
	return NULL;
}
