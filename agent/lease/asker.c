// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One message at a time: while an answer is awaited nothing is sent, but after 1.2 round trips and 50 ms the message counts as lost and
 * the next one goes out (totals: it says everything the lost one said). Whoever got less than it asked for waits for the push instead
 * of asking again; it speaks only when it has spent half of what it would like to hold (so that the lessor learns of room), when
 * it needs half as much again, or at the end of the period. Without that, a hundred hosts above the limit would ask every tick.
 */
#include "lease/asker.h"

#include "lease/arith.h"

#define MS 1000000ull
#define RETRY_SPARE_NS (50 * MS)
#define RETRY_MAX_NS (400 * MS)	/* of the growing timeout; a longer round trip still gets its 1.2 */
#define RETRY_FIRST_NS (1000 * MS)
#define REFUSED_NS (1000 * MS)

void lg_asker_init(struct lg_asker *a, uint64_t first_seq, uint64_t seed)
{
	*a = (struct lg_asker){ .life = first_seq + 1, .seq = first_seq, .answered_seq = first_seq, .rand = seed };
}

bool lg_asker_up(struct lg_asker *a, uint32_t epoch)
{
	if (epoch < a->epoch) {
		a->up = false;
		return false;
	}
	if (epoch > a->epoch) {
		a->epoch = epoch;
		a->heard = false;
	}
	a->up = true;
	a->awaits = a->partial = false;
	a->n_tries = 0;
	a->quiet_ns = 0;
	return true;
}

void lg_asker_down(struct lg_asker *a)
{
	a->up = a->awaits = a->partial = false;
}

uint64_t lg_asker_rtt_ns(const struct lg_asker *a, const struct lg_asker_pace *pace)
{
	return a->rtt_ns ? a->rtt_ns : pace->rtt_guess_ns;
}

static uint64_t timeout_ns(const struct lg_asker *a)
{
	uint64_t base_ns = a->rtt_ns ? a->rtt_ns * 12 / 10 + RETRY_SPARE_NS : RETRY_FIRST_NS;

	return lg_max_u64(base_ns, lg_min_u64(base_ns << lg_min_u64(a->n_tries, 4), RETRY_MAX_NS));
}

/* After a partial answer: reason enough not to wait for the push. */
static bool impatient(const struct lg_asker *a, const struct lg_asker_need *need)
{
	return need->unreported_tok >= lg_max_u64(a->sent_target_tok / 2, 1) ||
	       need->target_tok > a->sent_target_tok + a->sent_target_tok / 2;
}

/* When it will have something to say, nothing changing. */
static uint64_t wish_ns(const struct lg_asker *a, const struct lg_asker_need *need, const struct lg_asker_pace *pace)
{
	bool low = need->target_tok > need->own_tok && (need->own_tok < need->low_tok || need->wanting);

	if (a->flush || (low && (!a->partial || impatient(a, need))))
		return 0;
	if (low || need->news || need->target_tok)
		return a->period_end_ns;
	if (need->own_tok)
		return a->sent_ns + pace->renew_ns;
	return UINT64_MAX;
}

enum lg_say lg_asker_check(struct lg_asker *a, const struct lg_asker_need *need, const struct lg_asker_pace *pace, uint64_t now_ns,
			   uint64_t *ret_due_ns)
{
	uint64_t at_ns;

	*ret_due_ns = UINT64_MAX;
	if (!a->up)
		return LG_SAY_NOTHING;
	if (a->awaits)
		at_ns = a->sent_ns + timeout_ns(a);
	else
		at_ns = lg_max_u64(wish_ns(a, need, pace), a->sent_ns + pace->gap_ns);
	at_ns = lg_max_u64(at_ns, a->quiet_ns);
	if (now_ns < at_ns) {
		*ret_due_ns = at_ns;
		return LG_SAY_NOTHING;
	}
	if (a->awaits && a->n_tries < UINT8_MAX)
		a->n_tries++;
	return need->target_tok ? LG_SAY_REQUEST : LG_SAY_REPORT;
}

void lg_asker_sent(struct lg_asker *a, struct lg_ask *ask, const struct lg_asker_pace *pace, uint64_t target_tok, uint64_t now_ns)
{
	ask->seq = ++a->seq;
	ask->life = a->life;
	ask->epoch = a->epoch;
	a->awaits = true;
	a->flush = a->partial = false;
	a->sent_ns = now_ns;
	a->sent_target_tok = target_tok;
	a->period_end_ns = now_ns + lg_rand_jitter(&a->rand, pace->period_ns);
	a->last_send = (a->last_send + 1) % LG_ASKER_SENDS;
	a->sends[a->last_send].seq = a->seq;
	a->sends[a->last_send].at_ns = now_ns;
	a->n_sends = (uint8_t)lg_min_u64(a->n_sends + 1u, LG_ASKER_SENDS);
}

static uint64_t sent_at(const struct lg_asker *a, uint64_t seq)
{
	for (uint8_t i = 0; i < a->n_sends; i++) {
		uint8_t at = (uint8_t)((a->last_send + LG_ASKER_SENDS - i) % LG_ASKER_SENDS);

		if (a->sends[at].seq == seq)
			return a->sends[at].at_ns;
	}
	return 0;
}

bool lg_asker_is_addressed(const struct lg_asker *a, const struct lg_grant *grant)
{
	return grant->epoch == a->epoch && grant->ack_seq >= a->life;
}

uint64_t lg_asker_answered(struct lg_asker *a, const struct lg_grant *grant, uint64_t now_ns)
{
	uint64_t at_ns = sent_at(a, grant->ack_seq);

	if (grant->ack_seq > a->answered_seq && at_ns) {
		uint64_t sample_ns = lg_max_u64(lg_sub_floor(now_ns, at_ns), 1);

		a->answered_seq = grant->ack_seq;
		a->rtt_ns = a->rtt_ns ? (7 * a->rtt_ns + sample_ns) / 8 : sample_ns;
	}
	if (grant->status == LG_GRANT_OK || grant->status == LG_GRANT_RECOVERING) {
		a->heard = true;
		a->partial = grant->partial || grant->status == LG_GRANT_RECOVERING;
	} else {
		a->quiet_ns = now_ns + REFUSED_NS;
	}
	if (a->answered_seq == a->seq) {
		a->awaits = false;
		a->n_tries = 0;
	}
	return at_ns;
}
