/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * Inside of the request interface: check.c asks, check_answer.c says what the kernel's words mean, check_reserve.c keeps what is reserved and
 * owed. */
#pragma once

#include "api/check.h"
#include "rules/request.h"

#define LG_RESERVED_MAX 65536	/* reservations at one time: 57 MiB if all are of eight rules */
#define LG_DEBTS_MAX 16384	/* keys in debt at one time */
#define LG_WHEEL_SLOTS 1024
#define LG_WHEEL_TICK_NS 100000000ull

/* One unit of a request is num / den of the rule's, rounded up. */
struct lg_weight {
	uint64_t num, den;
};

/* A cost in the rule's units; what does not fit is more than any burst. */
uint32_t lg_weigh(uint64_t cost, const struct lg_weight *weight);

/* A request as the kernel is asked it. */
struct lg_asked {
	enum lg_check_mode mode;
	enum lg_check_status early;	/* not OK: answered without the kernel */
	const char *why;
	uint64_t cost;
	uint64_t reserve_ns;
	uint64_t reservation;
	uint64_t deadline_ns;		/* a time; sync rules */
	uint32_t n;
	uint32_t rule[LG_MATCHES_MAX];	/* numbers in the table */
	uint8_t descriptor[LG_MATCHES_MAX];
	struct lg_weight weight[LG_MATCHES_MAX];
	struct lg_charge charge[LG_MATCHES_MAX];
};

/* Turns a request into charges. */
void lg_asked_make(const struct lg_request_table *table, const struct lg_request *request, struct lg_asked *ret);

/* check_answer.c: what the kernel said. Pure. */
void lg_answer_make(const struct lg_request_table *table, const struct lg_asked *asked, const struct lg_check *check, struct lg_answer *ret);
/* Units of the request that would pass, by what the bucket said. */
uint64_t lg_charge_remaining(const struct lg_request_rule *rule, const struct lg_charge *charge);

/* One that lapses. */
struct lg_reserved {
	uint64_t id;		/* 0: free */
	uint64_t expires_ns;
	uint64_t cost;
	uint32_t next, prev;	/* in its slot of the wheel, or of those that are free: 1 + place, 0: none */
	uint32_t n;
	struct lg_charge charge[LG_MATCHES_MAX];
};

struct lg_debt {
	struct lg_charge charge; /* units: what is owed */
};

struct lg_table;
struct lg_source;

struct lg_question {
	struct lg_question *next;
	uint64_t ticket;
	lg_check_fn *fn;	/* NULL: forgotten */
	void *arg;
	uint64_t again_ns;	/* parked: when it is asked as at first */
	struct lg_asked asked;
};

struct lg_checker {
	struct lg_checker_door door;
	struct lg_loop *loop;
	struct lg_asked *scratch;	/* LG_CHECKS_MAX of them */
	struct lg_request_table *table;
	struct lg_request_table *retired[2]; /* of before: names in answers of this turn may point there */
	struct lg_checker_counts counts;
	uint64_t random[2];	/* numbers of reservations follow from it */
	uint64_t n_numbers;
	struct {
		struct lg_reserved *v;	/* grows */
		uint32_t n, free;
		uint32_t slot[LG_WHEEL_SLOTS];
		uint64_t turned;	/* ticks that are done */
	} reserved;
	struct lg_table *debts;		/* struct lg_key -> struct lg_debt, owned */
	struct lg_source *flusher, *ticker, *retrier;
	struct lg_question *first, *last;	/* of this turn */
	struct lg_question *parked;		/* of sync rules, in no order */
	uint32_t n_waiting;
	uint64_t n_tickets;
};

/* Runs up to LG_CHECKS_MAX requests; asked[i] stands in room[i]. */
int lg_checker_run(struct lg_checker *checker, const struct lg_asked *const *asked, uint32_t n, enum lg_check_way way);
/* A single charge, by itself: what the kernel said, or NULL. */
const struct lg_check *lg_checker_run_one(struct lg_checker *checker, const struct lg_charge *charge, uint32_t units, enum lg_check_way way);

/* check_reserve.c */
int lg_reserved_add(struct lg_checker *checker, const struct lg_asked *asked, const struct lg_check *taken, uint64_t now_ns, uint64_t *ret_id);
void lg_reserved_settle(struct lg_checker *checker, const struct lg_asked *asked, struct lg_answer *ret);
void lg_debts_pay(struct lg_checker *checker, const struct lg_asked *asked);
void lg_reserves_fini(struct lg_checker *checker);
