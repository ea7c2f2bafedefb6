// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One message at a time: while an answer is awaited nothing else is sent, but after 1.2 round trips and 50 ms the message counts as lost
 * and the next one goes out (totals: it says everything the lost one said). Whoever got less than it asked for waits for the push instead
 * of asking again; it speaks only when it has spent half of what it would like to hold (so that the lessor learns of room), when
 * it needs half as much again, or at the end of the period. Without that, a hundred hosts above the limit would ask every tick.
 *
 * Where less may be out than is spent in two round trips nobody waits for the answer to tell what was spent: it can be lent again only when
 * it is told, and told once a round trip it would be lent every other one. Such extra messages are a least gap apart, and there are none
 * once the awaited answer is late. The awaited message stays the awaited one, with its time: an answer to an extra one is an answer
 * to it too, and counts from when that one was sent, which is never too late. Then the last extra one is awaited in its place, so that
 * the last news is not lost unnoticed.
 *
 * Only of the last two messages it is known when they were sent. An answer to an older one says nothing about time, so when several in a
 * row stay without an answer the waiting grows beyond any round trip there is: else none would ever be in time.
 */
#include "lease/asker.h"

#include "lease/arith.h"

#define MS 1000000ull
#define RETRY_SPARE_NS (50 * MS)
#define RETRY_MAX_NS (400 * MS)	/* of the growing timeout; a longer round trip still gets its 1.2 */
#define RETRY_FIRST_NS (1000 * MS)
#define RETRY_PATIENT 4		/* after so many in a row it grows further, eightfold */
#define REFUSED_NS (1000 * MS)
#define TRIES_MAX 15
#define EXTRA_MAX 63		/* what the fields of struct lg_asker hold */
#define EXTRA_PART 32		/* worth an extra message: such a part of what it would like to hold */
#define EXTRA_WITHIN_NS (1ull << 30)
#define STALLED_NS (50 * MS)	/* looked at again */

void lg_asker_init(struct lg_asker *a, uint64_t first_seq)
{
	*a = (struct lg_asker){ .life = first_seq + 1 };
}

bool lg_asker_is_behind(const struct lg_asker *a, const struct lg_upstream *u)
{
	return ((uint32_t)a->epoch_high << 16 | a->epoch_low) != u->epoch;
}

void lg_asker_spoke(struct lg_asker *a, uint32_t epoch)
{
	a->epoch_high = epoch >> 16;
	a->epoch_low = (uint16_t)epoch;
}

uint64_t lg_asker_sent_ns(const struct lg_asker *a)
{
	return (uint64_t)a->sent_64ns << 6;
}

static uint64_t last_sent_ns(const struct lg_asker *a)
{
	return lg_asker_sent_ns(a) + (a->n_extra ? (uint64_t)a->extra_gap_16us << 14 : 0);
}

/* The last message is the one whose time is known. */
static void count_from_last(struct lg_asker *a)
{
	if (!a->n_extra)
		return;
	a->sent_64ns = last_sent_ns(a) >> 6;
	a->n_extra = 0;
	a->prev_gap_ms = 0;
}

void lg_asker_up(struct lg_asker *a, const struct lg_upstream *u)
{
	count_from_last(a);
	if (lg_asker_is_behind(a, u))
		a->heard = false;
	lg_asker_spoke(a, u->epoch);
	a->awaits = a->partial = a->refused = false;
	a->n_tries = 0;
}

uint64_t lg_asker_rtt_ns(const struct lg_upstream *u, const struct lg_asker_pace *pace)
{
	return u->rtt_ns ? u->rtt_ns : pace->rtt_guess_ns;
}

static uint64_t last_seq(const struct lg_asker *a)
{
	return a->life + a->n_sent - 1;
}

static uint64_t awaited_seq(const struct lg_asker *a)
{
	return last_seq(a) - a->n_extra;
}

/* Since the last message. The same each time it is asked: nothing to remember. */
static uint64_t jittered_ns(const struct lg_asker *a, const struct lg_upstream *u, uint64_t base_ns)
{
	uint64_t state = last_seq(a) ^ u->rand;

	return lg_rand_jitter(&state, base_ns);
}

static uint64_t timeout_ns(const struct lg_asker *a, const struct lg_upstream *u)
{
	uint64_t base_ns = (u->rtt_ns ? u->rtt_ns * 12 / 10 + RETRY_SPARE_NS : RETRY_FIRST_NS) + u->patience_ns;
	uint64_t most_ns = RETRY_MAX_NS << lg_min_u64(lg_sub_floor(a->n_tries, RETRY_PATIENT), 3);

	return lg_max_u64(base_ns, lg_min_u64(base_ns << lg_min_u64(a->n_tries, 8), most_ns));
}

/* After a partial answer: reason enough not to wait for the push. A lessor that is learning what is out has nothing to push before; a need
 * that merely grew while it was silent is no reason then. */
static bool impatient(const struct lg_asker *a, const struct lg_asker_need *need)
{
	float unreported_tok = (float)need->unreported_tok, sent_tok = a->sent_target_tok;

	return (unreported_tok >= 1 && (unreported_tok >= sent_tok / 2 || (need->part_tok && need->unreported_tok >= need->part_tok))) ||
	       (float)need->target_tok > (a->status == LG_GRANT_RECOVERING ? 4 * sent_tok : sent_tok + sent_tok / 2);
}

static bool is_low(const struct lg_asker_need *need)
{
	return need->target_tok > need->own_tok && (need->own_tok < need->low_tok || need->wanting);
}

/* It may be short only because its lessor has not heard that it has spent so much. */
static bool is_news(const struct lg_asker_need *need)
{
	return need->cramped && need->unreported_tok && need->unreported_tok >= need->target_tok / EXTRA_PART;
}

/* Whether a message would be an extra one. */
static bool is_extra(const struct lg_asker *a, const struct lg_upstream *u, uint64_t now_ns)
{
	return a->awaits && !a->n_tries && a->heard && a->status == LG_GRANT_OK && a->n_extra < EXTRA_MAX &&
	       now_ns - lg_asker_sent_ns(a) < lg_min_u64(timeout_ns(a, u), EXTRA_WITHIN_NS);
}

/* When it will have something to say, nothing changing. */
static uint64_t wish_ns(const struct lg_asker *a, const struct lg_upstream *u, const struct lg_asker_need *need,
			const struct lg_asker_pace *pace)
{
	bool low = is_low(need);

	if (a->flush || (low && (!a->partial || impatient(a, need))))
		return 0;
	if (low || need->news || need->target_tok)
		return lg_asker_sent_ns(a) + jittered_ns(a, u, pace->period_ns);
	if (need->own_tok)
		return lg_asker_sent_ns(a) + jittered_ns(a, u, pace->renew_ns);
	return UINT64_MAX;
}

enum lg_say lg_asker_check(const struct lg_asker *a, const struct lg_upstream *u, const struct lg_asker_need *need,
			   const struct lg_asker_pace *pace, uint64_t now_ns, uint64_t *ret_due_ns)
{
	uint64_t at_ns;

	*ret_due_ns = UINT64_MAX;
	if (!u->up)
		return LG_SAY_NOTHING;
	if (u->stalled) {
		*ret_due_ns = now_ns + STALLED_NS;
		return LG_SAY_NOTHING;
	}
	if (!a->awaits)
		at_ns = lg_max_u64(wish_ns(a, u, need, pace), a->n_sent ? last_sent_ns(a) + pace->gap_ns : 0);
	else if (is_extra(a, u, now_ns) && is_low(need) && is_news(need))
		at_ns = last_sent_ns(a) + pace->gap_ns;
	else
		at_ns = lg_max_u64(lg_asker_sent_ns(a), u->reached_ns) + timeout_ns(a, u);
	if (a->refused)
		at_ns = lg_max_u64(at_ns, lg_asker_sent_ns(a) + jittered_ns(a, u, REFUSED_NS));
	if (now_ns < at_ns) {
		*ret_due_ns = at_ns;
		return LG_SAY_NOTHING;
	}
	return need->target_tok ? LG_SAY_REQUEST : LG_SAY_REPORT;
}

/* Another message follows, whose answer will be awaited. */
static void remember(struct lg_asker *a, uint64_t now_ns)
{
	/* Rounded up: sent earlier than it was means that a lease ends earlier. */
	uint64_t gap_ms = (now_ns - lg_asker_sent_ns(a) + MS - 1) / MS;

	a->prev_gap_ms = (uint16_t)(a->n_sent && !a->n_extra && gap_ms <= UINT16_MAX ? gap_ms : 0);
	if (a->awaits && a->n_tries < TRIES_MAX)
		a->n_tries++;
	a->prev_open = a->awaits;
	a->awaits = true;
	a->n_extra = 0;
	a->sent_64ns = now_ns >> 6;
}

static void remember_extra(struct lg_asker *a, uint64_t now_ns)
{
	a->prev_open = false;
	a->n_extra++;
	a->extra_gap_16us = (uint16_t)((now_ns - lg_asker_sent_ns(a)) >> 14);
}

void lg_asker_sent(struct lg_asker *a, const struct lg_upstream *u, struct lg_ask *ask, uint64_t target_tok, uint64_t now_ns)
{
	if (is_extra(a, u, now_ns))
		remember_extra(a, now_ns);
	else
		remember(a, now_ns);
	a->flush = a->partial = a->refused = false;
	a->n_sent++;
	a->sent_target_tok = (float)target_tok;
	ask->seq = last_seq(a);
	ask->life = a->life;
	ask->epoch = u->epoch;
}

static uint64_t sent_at(const struct lg_asker *a, uint64_t seq)
{
	if (seq >= awaited_seq(a))
		return lg_asker_sent_ns(a);
	return !a->n_extra && seq + 1 == last_seq(a) && a->prev_gap_ms ? lg_asker_sent_ns(a) - a->prev_gap_ms * MS : 0;
}

bool lg_asker_is_addressed(const struct lg_asker *a, const struct lg_upstream *u, const struct lg_grant *grant)
{
	return grant->epoch == u->epoch && !lg_asker_is_behind(a, u) && grant->ack_seq >= a->life && grant->ack_seq <= last_seq(a);
}

bool lg_grant_is_answer(const struct lg_grant *grant)
{
	return grant->status == LG_GRANT_OK || grant->status == LG_GRANT_RECOVERING || grant->status == LG_GRANT_UNREACHABLE;
}

bool lg_asker_is_cut_off(const struct lg_asker *a, const struct lg_upstream *u)
{
	return !u->up || (a->awaits && a->n_tries >= 2);
}

enum lg_want_reason lg_asker_reason(const struct lg_asker *a, const struct lg_upstream *u)
{
	if (lg_asker_is_cut_off(a, u) || a->status == LG_GRANT_UNREACHABLE)
		return LG_WANT_UNREACHABLE;
	if (a->status == LG_GRANT_OVERLOADED)
		return LG_WANT_OVERLOADED;
	return a->status == LG_GRANT_OK && a->was_partial ? LG_WANT_LIMIT : LG_WANT_PENDING;
}

static void measure(struct lg_upstream *u, uint64_t sent_ns, uint64_t now_ns)
{
	uint64_t sample_ns = lg_max_u64(lg_sub_floor(now_ns, sent_ns), 1);

	u->rtt_ns = u->rtt_ns ? (7 * u->rtt_ns + sample_ns) / 8 : sample_ns;
}

uint64_t lg_asker_answered(struct lg_asker *a, struct lg_upstream *u, const struct lg_grant *grant, uint64_t now_ns)
{
	uint64_t at_ns = sent_at(a, grant->ack_seq), awaited = awaited_seq(a);

	if (at_ns && (grant->ack_seq == awaited ? a->awaits : grant->ack_seq < awaited && a->prev_open))
		measure(u, at_ns, now_ns);
	if (at_ns)
		a->prev_open = false;
	a->status = grant->status;
	a->was_partial = grant->partial;
	a->refused = !lg_grant_is_answer(grant);
	if (!a->refused) {
		a->heard = true;
		a->partial = grant->partial || grant->status == LG_GRANT_RECOVERING;
	}
	if (grant->ack_seq >= awaited) {
		a->awaits = grant->ack_seq < last_seq(a);
		a->n_tries = 0;
		count_from_last(a);
	}
	return at_ns;
}
