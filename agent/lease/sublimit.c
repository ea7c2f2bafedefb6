// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Token bucket. The law bounds a queue that is fed by what is spent and worked off at r: it is never above B. Cut r and B into parts
 * with sums no larger: each region works its own queue off at r_i and keeps it, with what is out at hosts, below b_i. Parts of a
 * queue worked off apart are together never shorter than the whole worked off at once, so the law holds for the whole.
 * What changes hands is burst, and it always comes empty: the queue grows by as much as the cap. So whoever gives burst back may take
 * as much off its queue (the home, or the next who gets it, has it on theirs), but no more, and not before it is given: tokens that hosts
 * still have are held until they are spent or returned, whatever limit was told.
 *
 * Window. A smaller limit holds at once for what is lent, but what was spent stays in the window until its time is over: that is still
 * held, and shrinks by itself.
 *
 * Clocks. The law is one of the home's clock. Ours and the home's run up to one thousandth fast or slow each, so we mint two thousandths
 * slower and remember two thousandths longer.
 *
 * The rate is told in thousandths of the rule's, and two thousandths less: the queue runs on a unit of time a million times as long, so
 * that nothing is lost by rounding; less than that for limits per month, where the unit would not fit.
 */
#include "lease/sublimit.h"

#include "lease/arith.h"

#define SCALE 1000000ull
#define SLOWER_PERMILLE 998ull
#define WINDOW_SLOTS 512	/* as fine as that: what is spent comes back a slot later */

/* A window that is remembered as long as the home's, by whichever of the two clocks is slower. */
static uint64_t span_ns(const struct lg_terms *terms)
{
	return terms->per_ns + terms->per_ns / 499 + 1;
}

static void set_pace(struct lg_sublimit *s, const struct lg_terms *terms, uint64_t now_ns)
{
	uint64_t scale = lg_clamp_u64(UINT64_MAX / terms->per_ns, 1, SCALE);
	uint64_t limit_tok = lg_mul_div(terms->limit_tok * s->permille * SLOWER_PERMILLE, scale, SCALE);

	lg_queue_pace(&s->queue, limit_tok, terms->per_ns * scale, now_ns);
}

int lg_sublimit_init(struct lg_sublimit *s, const struct lg_terms *terms, uint64_t now_ns)
{
	*s = (struct lg_sublimit){ .bucket = terms->algorithm == LG_TOKEN_BUCKET };
	if (!s->bucket)
		/* A fixed window is run as a sliding one: what holds in any window holds in each of the home's. */
		return lg_slots_init(&s->window, span_ns(terms), 1, WINDOW_SLOTS);
	lg_queue_init(&s->queue, 0, 1, now_ns);
	set_pace(s, terms, now_ns);
	return 0;
}

void lg_sublimit_fini(struct lg_sublimit *s)
{
	if (!s->bucket)
		lg_slots_fini(&s->window);
}

static void set_permille(struct lg_sublimit *s, const struct lg_terms *terms, uint32_t permille, uint64_t now_ns)
{
	if (!s->bucket || permille == s->permille)
		return;
	s->permille = permille;
	set_pace(s, terms, now_ns);
}

static uint64_t consumed_tok(struct lg_sublimit *s, uint64_t now_ns)
{
	return s->bucket ? lg_queue_tok(&s->queue, now_ns) : lg_slots_sum(&s->window, now_ns);
}

/* Burst that neither we are told to have nor hosts do is given back, and with it as much of what was consumed. */
static void settle(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns)
{
	uint64_t burst_tok = lg_max_u64(s->limit_tok, out_tok);

	if (!s->bucket || burst_tok >= s->burst_tok)
		return;
	lg_queue_drop(&s->queue, s->burst_tok - burst_tok, now_ns);
	s->burst_tok = burst_tok;
}

static void set_limit(struct lg_sublimit *s, uint64_t limit_tok, uint64_t out_tok, uint64_t now_ns)
{
	s->limit_tok = limit_tok;
	settle(s, out_tok, now_ns);
	if (!s->bucket || limit_tok <= s->burst_tok)
		return;
	lg_queue_add(&s->queue, limit_tok - s->burst_tok, now_ns, now_ns);
	s->burst_tok = limit_tok;
}

void lg_sublimit_terms(struct lg_sublimit *s, const struct lg_terms *old, const struct lg_terms *terms, uint64_t out_tok, uint64_t now_ns)
{
	if (s->bucket)
		set_pace(s, terms, now_ns);
	else
		lg_slots_reshape(&s->window, span_ns(terms), 1, WINDOW_SLOTS, now_ns);
	if (terms->budget_tok < old->budget_tok)
		set_limit(s, lg_mul_div(s->limit_tok, terms->budget_tok, old->budget_tok), out_tok, now_ns);
}

bool lg_sublimit_follow(struct lg_sublimit *s, const struct lg_terms *terms, const struct lg_grant *grant, uint64_t out_tok,
			uint64_t now_ns)
{
	bool less = grant->limit_tok < s->limit_tok || grant->limit_permille < s->permille;

	if (grant->limit_version <= s->version)
		return false;
	settle(s, out_tok, now_ns);
	s->version = grant->limit_version;
	set_permille(s, terms, (uint32_t)lg_min_u64(grant->limit_permille, 1000), now_ns);
	set_limit(s, lg_min_u64(grant->limit_tok, LG_BURST_MAX_TOK), out_tok, now_ns);
	return less;
}

void lg_sublimit_book(struct lg_sublimit *s, uint64_t tok, uint64_t spent_ns, uint64_t now_ns)
{
	if (s->bucket)
		lg_queue_add(&s->queue, tok, spent_ns, now_ns);
	else
		lg_slots_add(&s->window, spent_ns, tok, now_ns);
}

uint64_t lg_sublimit_free_tok(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns)
{
	settle(s, out_tok, now_ns);
	return lg_sub_floor(s->limit_tok, consumed_tok(s, now_ns) + out_tok);
}

uint64_t lg_sublimit_used_tok(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns)
{
	return consumed_tok(s, now_ns) + out_tok;
}

uint64_t lg_sublimit_held_tok(struct lg_sublimit *s, uint64_t out_tok, uint64_t now_ns)
{
	settle(s, out_tok, now_ns);
	if (s->bucket)
		return s->burst_tok;
	return lg_max_u64(s->limit_tok, consumed_tok(s, now_ns) + out_tok);
}

void lg_sublimit_give_back(struct lg_sublimit *s, const struct lg_terms *terms, uint64_t keep_tok, uint64_t out_tok, uint64_t now_ns)
{
	set_permille(s, terms, 0, now_ns);
	set_limit(s, lg_min_u64(s->limit_tok, keep_tok), out_tok, now_ns);
}

void lg_sublimit_void(struct lg_sublimit *s, const struct lg_terms *terms, struct lg_slots *history, uint64_t now_ns)
{
	s->version = 0;
	s->permille = 0;
	s->limit_tok = s->burst_tok = 0;
	if (s->bucket) {
		lg_queue_init(&s->queue, 0, 1, now_ns);
		set_pace(s, terms, now_ns);
		return;
	}
	lg_slots_add_all(history, &s->window, now_ns);
	lg_slots_clear(&s->window);
}

void lg_sublimit_tell(struct lg_sublimit *s, struct lg_ask *ask, uint64_t out_tok, uint64_t now_ns)
{
	ask->kind = LG_LEASE_LIMIT;
	ask->limit_version = s->version;
	ask->held_tok = lg_sublimit_held_tok(s, out_tok, now_ns);
	ask->held_permille = s->permille;
}
