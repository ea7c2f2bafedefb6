// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Questions of one turn of the loop are collected and go to the kernel together at its end. Those about `sync` rules that this node has no
 * tokens for wait until the home has lent some: a refusal has told the agent of the key, so what is left to do is to look again.
 */
#include "api/check.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "api/check_inner.h"
#include "base/clock.h"
#include "base/table.h"
#include "loop/loop.h"

#define RETRY_NS (2 * LG_NS_PER_MS)
#define BEST_TRIES 3 /* races that BEST_EFFORT may lose */

/* ---- the kernel ---- */

int lg_checker_run(struct lg_checker *c, const struct lg_asked *const *asked, uint32_t n, enum lg_check_way way)
{
	struct lg_check *check;

	for (uint32_t i = 0; i < n; i++) {
		check = &c->door.room[i];
		check->way = (uint8_t)way;
		if (asked[i]->mode == LG_CHECK_REFUND)
			check->way = LG_CHECK_WAY_REFUND;
		else if (asked[i]->mode == LG_CHECK_PEEK || asked[i]->mode == LG_CHECK_BEST_EFFORT || !asked[i]->cost)
			check->way = LG_CHECK_WAY_PEEK;
		check->n = (uint8_t)asked[i]->n;
		memcpy(check->charge, asked[i]->charge, asked[i]->n * sizeof(check->charge[0]));
		/* What is above the burst is refused without a look at the bucket, which is all that this is for. */
		for (uint32_t k = 0; asked[i]->mode == LG_CHECK_BEST_EFFORT && k < asked[i]->n; k++)
			check->charge[k].units = 1;
	}
	c->counts.calls++;
	return c->door.run(c->door.arg, n);
}

const struct lg_check *lg_checker_run_one(struct lg_checker *c, const struct lg_charge *charge, uint32_t units, enum lg_check_way way)
{
	struct lg_check *check = &c->door.room[0];

	check->way = (uint8_t)way;
	check->n = 1;
	check->charge[0] = *charge;
	check->charge[0].units = units;
	c->counts.calls++;
	return c->door.run(c->door.arg, 1) < 0 ? NULL : check;
}

/* ---- one answer ---- */

/* As many units as all rules have, taken from all of them at once; what is lost to others meanwhile is asked for anew. */
static void best_effort(struct lg_checker *c, const struct lg_asked *asked, struct lg_answer *ret)
{
	struct lg_asked part = *asked;
	const struct lg_asked *one = &part;
	uint64_t most;

	for (int i = 0; i < BEST_TRIES && asked->n; i++) {
		most = asked->cost;
		for (uint32_t k = 0; k < ret->n_takes; k++)
			if (!ret->takes[k].is_unlimited && !ret->takes[k].is_shadow && ret->takes[k].remaining < most)
				most = ret->takes[k].remaining;
		part.mode = most ? LG_CHECK_TAKE : LG_CHECK_PEEK;
		part.cost = most ? most : 1;
		for (uint32_t k = 0; k < part.n; k++)
			part.charge[k].units = lg_weigh(part.cost, &part.weight[k]);
		if (lg_checker_run(c, &one, 1, LG_CHECK_WAY_TAKE) < 0)
			break;
		lg_answer_make(c->table, &part, &c->door.room[0], ret);
		if (!most || ret->allowed)
			return;
	}
}

static void answer_overloaded(struct lg_answer *ret)
{
	*ret = (struct lg_answer){ .status = LG_STATUS_OVERLOADED, .retry_after_ns = LG_NS_PER_S, .decider = -1 };
}

/* What is more than a look into the kernel's answer. */
static void finish(struct lg_checker *c, const struct lg_asked *asked, const struct lg_check *taken, uint64_t now_ns, struct lg_answer *ret)
{
	if (asked->mode == LG_CHECK_BEST_EFFORT && asked->cost && ret->status != LG_STATUS_INVALID)
		best_effort(c, asked, ret);
	if (asked->mode == LG_CHECK_REFUND)
		ret->granted = 0;
	if (asked->mode == LG_CHECK_RESERVE && ret->allowed && asked->cost) {
		if (lg_reserved_add(c, asked, taken, now_ns, &ret->reservation) == 0) {
			ret->settle_within_ns = asked->reserve_ns;
			return;
		}
		answer_overloaded(ret);
	}
}

static bool needs_kernel(const struct lg_asked *asked)
{
	return !asked->early && asked->n && asked->mode != LG_CHECK_SETTLE;
}

/* Whether something of it must be done by itself, for which the room of all is used anew. */
static bool is_alone(const struct lg_asked *asked)
{
	return asked->mode == LG_CHECK_SETTLE || asked->mode == LG_CHECK_BEST_EFFORT;
}

/* At most LG_CHECKS_MAX, of which none but the last is_alone(). */
static int answer_some(struct lg_checker *c, const struct lg_asked *const *asked, struct lg_answer *const *answers, uint32_t n)
{
	const struct lg_asked *sent[LG_CHECKS_MAX];
	uint64_t now_ns = lg_clock_now_ns();
	uint32_t n_sent = 0, at = 0;
	int r = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (!needs_kernel(asked[i]))
			continue;
		if (c->counts.in_debt)
			lg_debts_pay(c, asked[i]);
		sent[n_sent++] = asked[i];
	}
	if (n_sent)
		r = lg_checker_run(c, sent, n_sent, LG_CHECK_WAY_TAKE);
	for (uint32_t i = 0; i < n; i++) {
		const struct lg_check *check = needs_kernel(asked[i]) ? &c->door.room[at++] : NULL;

		if (check && r < 0) {
			answer_overloaded(answers[i]);
		} else {
			lg_answer_make(c->table, asked[i], check, answers[i]);
			if (asked[i]->mode == LG_CHECK_SETTLE && !asked[i]->early)
				lg_reserved_settle(c, asked[i], answers[i]);
			else
				finish(c, asked[i], check, now_ns, answers[i]);
		}
		c->counts.by_status[answers[i]->status]++;
	}
	return r < 0 ? -EIO : 0;
}

int lg_check_many(struct lg_checker *c, const struct lg_request *requests, struct lg_answer *answers, size_t n)
{
	const struct lg_asked *asked[LG_CHECKS_MAX];
	struct lg_answer *to[LG_CHECKS_MAX];
	struct lg_asked *made = c->scratch;
	uint32_t some = 0;
	int r = 0, e;

	for (size_t i = 0; i < n; i++) {
		lg_asked_make(c->table, &requests[i], &made[some]);
		asked[some] = &made[some];
		to[some++] = &answers[i];
		if (some < LG_CHECKS_MAX && i + 1 < n && !is_alone(asked[some - 1]))
			continue;
		e = answer_some(c, asked, to, some);
		r = e < 0 ? e : r;
		some = 0;
	}
	return r;
}

/* ---- questions ---- */

static bool is_sync(const struct lg_checker *c, const struct lg_asked *asked, uint32_t rule_id)
{
	for (uint32_t k = 0; k < asked->n; k++)
		if (lg_requests_rule(c->table, asked->rule[k])->rule.rule_id == rule_id)
			return lg_requests_rule(c->table, asked->rule[k])->is_sync;
	return false;
}

/* Is all that refuses a rule whose home may still lend what is asked? */
static bool waits_for_home(const struct lg_checker *c, const struct lg_question *q, const struct lg_answer *answer)
{
	const struct lg_check_take *take;

	if ((q->asked.mode != LG_CHECK_TAKE && q->asked.mode != LG_CHECK_RESERVE) ||
	    (answer->status != LG_STATUS_DENIED && answer->status != LG_STATUS_UNREACHABLE))
		return false;
	for (uint32_t k = 0; k < answer->n_takes; k++) {
		take = &answer->takes[k];
		if (take->status > LG_STATUS_SOFT && (take->reason == LG_DROP_BANNED || !is_sync(c, &q->asked, take->rule_id)))
			return false;
	}
	return true;
}

/* Behind those of this turn. */
static void enqueue(struct lg_checker *c, struct lg_question *q)
{
	q->next = NULL;
	if (c->last)
		c->last->next = q;
	else
		c->first = q;
	c->last = q;
}

static void say(struct lg_checker *c, struct lg_question *q, const struct lg_answer *answer)
{
	c->n_waiting--;
	if (q->fn)
		q->fn(q->arg, answer);
	free(q);
}

static void retired_free(struct lg_checker *c)
{
	for (size_t i = 0; i < N_ELEMS(c->retired); i++) {
		free(c->retired[i]);
		c->retired[i] = NULL;
	}
}

/* The questions of this turn. */
static void on_flush(void *arg)
{
	const struct lg_asked *asked[LG_CHECKS_MAX];
	static struct lg_answer answers[LG_CHECKS_MAX];
	struct lg_answer *to[LG_CHECKS_MAX];
	struct lg_question *some[LG_CHECKS_MAX], *q;
	struct lg_checker *c = arg;
	uint64_t now_ns = lg_clock_now_ns();
	uint32_t n;

	while (c->first) {
		for (n = 0; c->first && n < LG_CHECKS_MAX; n++) {
			q = some[n] = c->first;
			c->first = q->next;
			asked[n] = &q->asked;
			to[n] = &answers[n];
			if (is_alone(asked[n])) {
				n++;
				break;
			}
		}
		if (!c->first)
			c->last = NULL;
		answer_some(c, asked, to, n);
		for (uint32_t i = 0; i < n; i++) {
			q = some[i];
			if (c->table && waits_for_home(c, q, &answers[i]) && now_ns < q->asked.deadline_ns) {
				q->next = c->parked;
				c->parked = q;
				lg_source_arm(c->retrier, RETRY_NS);
			} else {
				say(c, q, &answers[i]);
			}
		}
	}
	retired_free(c);
}

/* Looks whether what was waited for is there. The rest goes on to wait, and is now and then asked as at first: that is what the agent hears. */
static void on_retry(void *arg)
{
	struct lg_question *q, *list;
	struct lg_checker *c = arg;
	const struct lg_asked *one;
	uint64_t now_ns = lg_clock_now_ns();
	struct lg_asked peek;

	list = c->parked;
	c->parked = NULL;
	while ((q = list)) {
		list = q->next;
		peek = q->asked;
		peek.mode = LG_CHECK_PEEK;
		one = &peek;
		if (now_ns < q->asked.deadline_ns && q->fn && now_ns < q->again_ns && lg_checker_run(c, &one, 1, LG_CHECK_WAY_PEEK) == 0 &&
		    c->door.room[0].verdict != LG_PASS_ADMITTED && c->door.room[0].verdict != LG_PASS_FALLBACK) {
			q->next = c->parked;
			c->parked = q;
			continue;
		}
		q->again_ns = now_ns + LG_ANNOUNCE_GAP_NS;
		enqueue(c, q);
	}
	if (c->first)
		on_flush(c);
	if (c->parked)
		lg_source_arm(c->retrier, RETRY_NS);
}

int lg_check_ask(struct lg_checker *c, const struct lg_request *request, lg_check_fn *fn, void *arg, uint64_t *ret_ticket)
{
	struct lg_question *q;
	uint64_t now_ns;

	if (c->n_waiting >= LG_CHECK_WAITING_MAX)
		return -EBUSY;
	q = malloc(sizeof(*q));
	if (!q)
		return -EBUSY;
	lg_asked_make(c->table, request, &q->asked);
	now_ns = lg_clock_now_ns();
	q->asked.deadline_ns += now_ns;
	q->again_ns = now_ns + LG_ANNOUNCE_GAP_NS;
	q->fn = fn;
	q->arg = arg;
	q->ticket = ++c->n_tickets;
	if (ret_ticket)
		*ret_ticket = q->ticket;
	if (!c->first && lg_source_arm(c->flusher, 0) < 0) {
		free(q);
		return -EBUSY;
	}
	enqueue(c, q);
	c->n_waiting++;
	return 0;
}

void lg_check_forget(struct lg_checker *c, uint64_t ticket)
{
	struct lg_question *const lists[] = { c->first, c->parked };

	for (size_t i = 0; i < N_ELEMS(lists); i++)
		for (struct lg_question *q = lists[i]; q; q = q->next)
			if (q->ticket == ticket)
				q->fn = NULL;
}

/* ---- start and end ---- */

static void on_tick(void *arg)
{
	lg_checker_tick(arg, lg_clock_now_ns());
}

int lg_checker_new(const struct lg_checker_door *door, struct lg_loop *loop, struct lg_checker **ret_checker)
{
	_cleanup_(lg_checker_free) struct lg_checker *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->door = *door;
	c->loop = loop;
	c->scratch = calloc(LG_CHECKS_MAX, sizeof(*c->scratch));
	if (!c->scratch)
		return -ENOMEM;
	if (getrandom(c->random, sizeof(c->random), 0) != (ssize_t)sizeof(c->random))
		return -EIO;
	c->reserved.turned = lg_clock_now_ns() / LG_WHEEL_TICK_NS;
	r = lg_table_new(sizeof(struct lg_key), LG_DEBTS_MAX, &c->debts);
	if (r == 0 && loop)
		r = lg_loop_add_timer(loop, on_flush, c, &c->flusher);
	if (r == 0 && loop)
		r = lg_loop_add_timer(loop, on_retry, c, &c->retrier);
	if (r == 0 && loop)
		r = lg_loop_add_ticker(loop, LG_WHEEL_TICK_NS, on_tick, c, &c->ticker);
	if (r < 0)
		return r;
	*ret_checker = TAKE(c);
	return 0;
}

static void questions_free(struct lg_question *list)
{
	struct lg_question *q;

	while ((q = list)) {
		list = q->next;
		free(q);
	}
}

struct lg_checker *lg_checker_free(struct lg_checker *c)
{
	if (!c)
		return NULL;
	lg_source_free(c->flusher);
	lg_source_free(c->retrier);
	lg_source_free(c->ticker);
	questions_free(c->first);
	questions_free(c->parked);
	lg_reserves_fini(c);
	retired_free(c);
	free(c->table);
	free(c->scratch);
	free(c);
	return NULL;
}

/* Questions that were taken apart by the old table have numbers of it: they are answered first. */
void lg_checker_rules(struct lg_checker *c, struct lg_request_table *table)
{
	struct lg_question *q;

	while ((q = c->parked)) {
		c->parked = q->next;
		q->asked.deadline_ns = 0;
		q->next = c->first;
		c->first = q;
		if (!c->last)
			c->last = q;
	}
	if (c->first)
		on_flush(c);
	free(c->retired[1]);
	c->retired[1] = c->retired[0];
	c->retired[0] = c->table;
	c->table = table;
}

void lg_checker_counts_read(const struct lg_checker *c, struct lg_checker_counts *ret)
{
	*ret = c->counts;
}
