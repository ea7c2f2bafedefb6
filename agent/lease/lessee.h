/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One key at a host: asks for tokens before they run out, reports what was spent, gives back what is idle. The tokens themselves
 * are in the kernel's bucket; this is told its totals and says what to change there. No I/O, no clock: effects are calls.
 *
 * A host has many keys and few of them busy, so a key at rest (its lease held, everything reported and acknowledged, no cost for ten
 * seconds, nothing remembered for a window) is LG_LESSEE_BYTES small. What a busy one needs besides comes and goes.
 */
#pragma once

#include "base/mem.h"
#include "lease/asker.h"
#include "lease/holding.h"
#include "lease/msg.h"

#define LG_LESSEE_BYTES 96

struct lg_lessee;

/* The bucket's totals in one reading. Tokens are those of the lease's generation (base_* of struct lg_bucket taken off), of which there
 * may be none yet. */
struct lg_usage {
	uint64_t spent_tok;	/* taken: by traffic and back by the agent */
	uint64_t returned_tok;
	uint64_t denied_tok;	/* since the bucket was made */
};

/* A bucket as it was found in the kernel: new, or with a lease of an earlier agent, which goes on as it was. */
struct lg_lessee_found {
	uint32_t generation;	/* 0: no lease */
	uint32_t epoch;
	uint64_t expires_ns;
	uint64_t granted_tok;	/* within the generation */
	struct lg_usage usage;
	uint64_t traffic_tok;	/* spent by traffic since the bucket was made */
};

struct lg_lessee_effects {
	void *arg;
	/* Send to the lessor. *ask is borrowed for the call. */
	void (*ask)(void *arg, const struct lg_ask *ask);
	/* Add tokens to the bucket (0 allowed: only prolongs), set its end and low water. */
	void (*grant)(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch);
	/* Take back up to tok (UINT64_MAX: all that is left) as a spender would; the bucket's totals after it in *ret_now, which has those
	 * last known and stays as it is when the bucket cannot be reached. */
	void (*take)(void *arg, uint64_t tok, struct lg_usage *ret_now);
	/* Take back all that is left, end the lease now (a new one may end earlier than the old one would have), and note that a new
	 * generation starts: its totals begin at 0. A negative errno: it could not be done, and the old generation goes on. */
	int (*generation)(void *arg, uint32_t generation, uint32_t epoch);
};

/* first_seq: larger than any seq this holder ever used for the key (a monotonic clock will do), and not the same for many keys: their
 * periods would be in step. holding is borrowed for the life of the object. */
int lg_lessee_new(struct lg_holding *holding, uint64_t now_ns, uint64_t first_seq, const struct lg_lessee_found *found,
		  struct lg_lessee **ret_lessee);
struct lg_lessee *lg_lessee_free(struct lg_lessee *lessee);
LG_CLEANUP(struct lg_lessee, lg_lessee_free)

/* What this host spent of the key before until_ns is not known: the instance's maps were made then and it had an earlier life. A window
 * then counts the whole limit as spent at that time, should a lessor have to learn from its holders. Right after lg_lessee_new(). */
void lg_lessee_forgot(struct lg_lessee *l, uint64_t until_ns);

/* The terms of the holding have changed. */
void lg_lessee_terms(struct lg_lessee *l, uint64_t now_ns);

/* The stream to the lessor came up, and lg_upstream_up() was told: says hello, a first message with what is held, and history if
 * the epoch is new to this key. Of a key that is not named so, the next tick says hello if the epoch is new. */
void lg_lessee_up(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* New totals read from the bucket (NULL: it could not be read); then everything that time brings: asks, reports, returns, the end of the
 * lease. Called each host tick, and at once when the kernel announces low water or a denial. Returns when it next wants to be
 * called; a grant in between makes it due at the next tick. */
uint64_t lg_lessee_tick(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* A grant arrived. Grants of an older epoch or generation are ignored. */
void lg_lessee_grant(struct lg_lessee *l, const struct lg_grant *grant, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* Orderly end: everything unspent goes back, with a last report. */
void lg_lessee_close(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* Nothing held, nothing unreported, no spend remembered for a window: may be freed and forgotten. */
bool lg_lessee_is_idle(const struct lg_lessee *l, uint64_t now_ns);

/* Memory of this key beyond LG_LESSEE_BYTES: 0 at rest. */
size_t lg_lessee_busy_bytes(const struct lg_lessee *l);

/* For status and metrics. */
struct lg_lessee_view {
	uint32_t epoch;
	uint32_t generation;
	uint64_t left_tok;
	uint64_t expires_ns;
	uint64_t granted_tok;	/* within the generation */
	uint64_t spent_tok;
	uint64_t returned_tok;
	uint64_t demand_mtps;
	uint64_t target_tok;
	uint64_t low_water_tok;
	uint64_t rtt_ns;
	bool partial;
	enum lg_grant_status status;
	enum lg_want_reason reason;	/* of a refusal for want of leased tokens, as things are */
};
void lg_lessee_view(const struct lg_lessee *l, uint64_t now_ns, struct lg_lessee_view *ret);
