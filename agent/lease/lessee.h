/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * One key at a host: asks for tokens before they run out, reports what was spent, gives back what is idle. The tokens themselves
 * are in the kernel's bucket; this is told its totals and says what to change there. No I/O, no clock: effects are calls.
 */
#pragma once

#include "base/mem.h"
#include "lease/msg.h"
#include "lease/terms.h"

struct lg_lessee;

/* The bucket's totals since it was made (struct lg_bucket, base_* kept apart), in one reading. */
struct lg_usage {
	uint64_t granted_tok;
	uint64_t spent_tok;	/* taken: by traffic and back by the agent */
	uint64_t returned_tok;
	uint64_t denied_tok;
};

/* A lease found in the kernel by a new agent: goes on as it was. */
struct lg_lessee_resume {
	uint32_t generation;
	uint32_t epoch;
	uint64_t expires_ns;
	struct lg_usage base;	/* totals at the start of the generation */
	struct lg_usage now;
};

struct lg_lessee_effects {
	void *arg;
	/* Send to the lessor. *ask is borrowed for the call. */
	void (*ask)(void *arg, const struct lg_ask *ask);
	/* Add tokens to the bucket (0 allowed: only prolongs), set its end and low water. */
	void (*grant)(void *arg, uint64_t tok, uint64_t expires_ns, uint64_t low_water_tok, uint32_t epoch);
	/* Take back up to tok (UINT64_MAX: all that is left) as a spender would; the bucket's totals after it in *ret_now. */
	void (*take)(void *arg, uint64_t tok, struct lg_usage *ret_now);
	/* Take back all that is left, end the lease now (a new one may end earlier than the old one would have), and note that a new
	 * generation starts at the totals left in *ret_now. */
	void (*generation)(void *arg, uint32_t generation, uint32_t epoch, struct lg_usage *ret_now);
};

/* seed feeds jitter. first_seq: larger than any seq or slot id this holder ever used for the key (a monotonic clock will do).
 * resume NULL: nothing held; `start` are then the totals of the bucket as found. */
int lg_lessee_new(const struct lg_terms *terms, uint64_t now_ns, uint64_t first_seq, uint64_t seed,
		  const struct lg_lessee_resume *resume, const struct lg_usage *start, struct lg_lessee **ret_lessee);
struct lg_lessee *lg_lessee_free(struct lg_lessee *lessee);
LG_CLEANUP(struct lg_lessee, lg_lessee_free)

/* What this host spent of the key before until_ns is not known: the instance's maps were made then and it had an earlier life. A window
 * then counts the whole limit as spent at that time, should a lessor have to learn from its holders. Before the first lg_lessee_up(). */
void lg_lessee_forgot(struct lg_lessee *l, uint64_t until_ns);

/* A rule's numbers changed. */
void lg_lessee_terms(struct lg_lessee *l, const struct lg_terms *terms);

/* The stream to the lessor came up (says hello: a first message with what is held, and history if the epoch is new to us) or
 * went down. */
void lg_lessee_up(struct lg_lessee *l, uint32_t epoch, uint64_t now_ns, const struct lg_lessee_effects *fx);
void lg_lessee_down(struct lg_lessee *l);

/* New totals read from the bucket; then everything that time brings: asks, reports, returns, the end of the lease. Called each
 * host tick, and at once when the kernel announces low water or a denial. Returns when it next wants to be called; a grant in
 * between makes it due at the next tick. */
uint64_t lg_lessee_tick(struct lg_lessee *l, const struct lg_usage *now, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* A grant arrived. Grants of an older epoch or generation are ignored. */
void lg_lessee_grant(struct lg_lessee *l, const struct lg_grant *grant, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* Orderly end: everything unspent goes back, with a last report. */
void lg_lessee_close(struct lg_lessee *l, uint64_t now_ns, const struct lg_lessee_effects *fx);

/* Nothing held, nothing unreported, no spend remembered for a window: may be freed and forgotten. */
bool lg_lessee_is_idle(const struct lg_lessee *l, uint64_t now_ns);

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
};
void lg_lessee_view(const struct lg_lessee *l, uint64_t now_ns, struct lg_lessee_view *ret);
