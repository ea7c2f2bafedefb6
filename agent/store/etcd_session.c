// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A lease is granted by a call and kept alive over a stream of its own. What we know of its end comes from renewals that were answered, and
 * counts from when they were sent: the answer to one that took long prolongs nothing. Only one renewal is under way at a time, so that an
 * answer is always that of the last.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "store/etcd_inner.h"

#define PATH "/etcdserverpb.Lease/LeaseKeepAlive"
#define RETRY_NS (200 * LG_NS_PER_MS)

struct lg_etcd_session {
	struct lg_etcd_guest guest;	/* first */
	struct lg_etcd *etcd;
	struct lg_etcd_call *grant;	/* under way; NULL: none is */
	uint64_t ttl_ns;
	int64_t lease;			/* 0: none */
	uint64_t sent_ns;		/* when the last request for it, or for its renewal, was sent */
	bool answered;			/* that request was */
	uint64_t until_ns;
	uint64_t retry_ns;		/* not before this is another lease asked for */
	void (*changed)(void *arg);
	void *arg;
};

static uint64_t certain_ns(const struct lg_etcd_session *s)
{
	return s->sent_ns + s->ttl_ns / 10 * 9;
}

static void lose(struct lg_etcd_session *s)
{
	if (!s->lease)
		return;
	s->lease = 0;
	lg_etcd_close(&s->guest.user);
	s->changed(s->arg);
}

static void on_granted(void *arg, int result, const char *why, const ProtobufCMessage *answer)
{
	const Leasegate__Etcd__LeaseGrantResponse *m = (const Leasegate__Etcd__LeaseGrantResponse *)answer;
	struct lg_etcd_session *s = arg;

	(void)why;
	s->grant = NULL;
	s->retry_ns = lg_clock_now_ns() + RETRY_NS;
	if (result < 0 || !m->id || m->ttl <= 0)
		return;
	s->lease = m->id;
	s->answered = true;
	s->until_ns = certain_ns(s);
	s->changed(s->arg);
}

static void ask(struct lg_etcd_session *s, uint64_t now_ns)
{
	Leasegate__Etcd__LeaseGrantRequest request = LEASEGATE__ETCD__LEASE_GRANT_REQUEST__INIT;

	if (s->grant || now_ns < s->retry_ns)
		return;
	request.ttl = (int64_t)(s->ttl_ns / LG_NS_PER_S);
	s->sent_ns = now_ns;
	lg_etcd_call(s->etcd, LG_ETCD_LEASE_GRANT, &request.base, on_granted, s, &s->grant);
}

static void renew(struct lg_etcd_session *s, uint64_t now_ns)
{
	Leasegate__Etcd__LeaseKeepAliveRequest request = LEASEGATE__ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
	int r;

	request.id = s->lease;
	if (s->guest.user.stream)
		r = lg_etcd_send(&s->guest.user, &request.base);
	else
		r = lg_etcd_open(s->etcd, &s->guest.user, PATH, &request.base, false);
	if (r < 0)
		return;
	s->sent_ns = now_ns;
	s->answered = false;
}

static void session_message(struct lg_etcd_user *user, const uint8_t *data, size_t len)
{
	struct lg_etcd_session *s = (struct lg_etcd_session *)user;
	Leasegate__Etcd__LeaseKeepAliveResponse *m = leasegate__etcd__lease_keep_alive_response__unpack(NULL, len, data);
	bool is_over = m && m->ttl <= 0;

	if (!m) {
		lg_etcd_leave(s->etcd, "its answer to a renewal cannot be read");
	} else if (!is_over) {
		s->answered = true;
		s->until_ns = certain_ns(s);
	}
	leasegate__etcd__lease_keep_alive_response__free_unpacked(m, NULL);
	if (is_over)
		lose(s);
}

static void session_closed(struct lg_etcd_user *user, int status, const char *why)
{
	struct lg_etcd_session *s = (struct lg_etcd_session *)user;

	(void)status;
	lg_etcd_leave(s->etcd, why);
}

static void session_tick(struct lg_etcd_guest *guest, uint64_t now_ns)
{
	struct lg_etcd_session *s = (struct lg_etcd_session *)guest;
	bool is_idle = s->answered || !s->guest.user.stream;

	if (s->lease && now_ns >= s->until_ns)
		lose(s);
	else if (!s->lease && lg_etcd_is_up(s->etcd, NULL))
		ask(s, now_ns);
	else if (s->lease && is_idle && lg_etcd_is_up(s->etcd, NULL) && now_ns - s->sent_ns >= s->ttl_ns / 4)
		renew(s, now_ns);
}

static void session_up(struct lg_etcd_guest *guest)
{
	session_tick(guest, lg_clock_now_ns());
}

int lg_etcd_session_new(struct lg_etcd *etcd, uint32_t ttl_s, void (*changed)(void *arg), void *arg, struct lg_etcd_session **ret_session)
{
	struct lg_etcd_session *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->guest.user = (struct lg_etcd_user){ NULL, session_message, session_closed };
	s->guest.up = session_up;
	s->guest.tick = session_tick;
	s->etcd = etcd;
	s->ttl_ns = ttl_s * LG_NS_PER_S;
	s->changed = changed;
	s->arg = arg;
	lg_etcd_guest_add(etcd, &s->guest);
	*ret_session = s;
	return 0;
}

static void on_revoked(void *arg, int result, const char *why, const ProtobufCMessage *answer)
{
	(void)arg;
	(void)result;
	(void)why;
	(void)answer;
}

struct lg_etcd_session *lg_etcd_session_free(struct lg_etcd_session *s)
{
	Leasegate__Etcd__LeaseRevokeRequest request = LEASEGATE__ETCD__LEASE_REVOKE_REQUEST__INIT;

	if (!s)
		return NULL;
	if (s->grant)
		lg_etcd_cancel(s->grant);
	request.id = s->lease;
	if (s->lease && lg_etcd_is_up(s->etcd, NULL))
		lg_etcd_call(s->etcd, LG_ETCD_LEASE_REVOKE, &request.base, on_revoked, NULL, NULL);
	lg_etcd_close(&s->guest.user);
	lg_etcd_guest_remove(&s->guest);
	free(s);
	return NULL;
}

int64_t lg_etcd_session_lease(const struct lg_etcd_session *s)
{
	return s->lease;
}

uint64_t lg_etcd_session_until_ns(const struct lg_etcd_session *s)
{
	return s->lease ? s->until_ns : 0;
}
