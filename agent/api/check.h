/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Requests asked against rules: who speaks HTTP, gRPC or another protocol to clients makes a struct lg_request of what they say and gets a
 * struct lg_answer. The buckets are those of packets, in the kernel; nothing here waits, but for rules of class `sync`.
 *
 * A request has a domain and descriptors, each a list of entries (key, value). Each descriptor finds its rules (docs/requests.md); a rule
 * and key that several of them find is charged once, the dearest cost. All that was found is charged, or nothing is.
 *
 * One thread. Text is bytes with a length: it needs no NUL, may have one, is compared byte by byte, and is no longer used when the call
 * returns. Costs, limits and remaining amounts are in units of the request: what the rule multiplies by its `cost` is divided by it again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "leasegate/abi.h"

#define LG_CHECK_ENTRIES_MAX 16		/* entries of a descriptor */
#define LG_CHECK_DESCRIPTORS_MAX 32	/* descriptors of a request */
#define LG_CHECK_KEY_BYTES_MAX 63	/* of an entry's key; 1 at least */
#define LG_CHECK_VALUE_BYTES_MAX 1024	/* of an entry's value; 0 is a value, too */
#define LG_CHECK_COST_MAX UINT32_MAX	/* of a request: more is `never` */
#define LG_CHECK_RESERVE_MIN_NS 100000000ull	/* 100 ms */
#define LG_CHECK_RESERVE_MAX_NS 86400000000000ull /* a day */
#define LG_CHECK_RESERVE_DEFAULT_NS 60000000000ull /* a minute */

struct lg_entry {
	const char *key;
	const char *value;
	uint32_t key_len;
	uint32_t value_len;
};

struct lg_descriptor {
	const struct lg_entry *entries;
	uint32_t n;			/* 0: finds the rules of the domain that ask for no entry */
	bool has_cost;			/* else that of the request */
	uint64_t cost;			/* 0: asks without taking, as LG_CHECK_PEEK does, while others of the request take */
	/*
	 * The caller's own limit in place of the rule's, for this descriptor: amount per per_ns; amount 0: none. The rule's burst counts as one
	 * period of its limit. Carried out by weight: a unit costs limit / amount of the rule's, rounded up, so that at most `amount` pass
	 * in the rule's burst and `amount` per per_ns after that.
	 */
	uint64_t limit;
	uint64_t limit_per_ns;
};

enum lg_check_mode {
	LG_CHECK_TAKE = 0,	/* all that is asked from every rule, or nothing at all */
	LG_CHECK_BEST_EFFORT,	/* as much of the cost as every rule has, the same amount from each: see `granted` */
	LG_CHECK_PEEK,		/* what TAKE would answer; nothing is taken, counted or announced */
	LG_CHECK_RESERVE,	/* TAKE of an estimate: see `reservation` */
	LG_CHECK_SETTLE,	/* what a reservation really cost: the rest is given back, what it cost more is taken */
	LG_CHECK_REFUND,	/* gives `cost` back; no bucket holds more than its cap after it */
	_LG_CHECK_MODE_N
};

struct lg_request {
	const char *domain;		/* len 0: "default" */
	uint32_t domain_len;
	const char *rule;		/* len 0: all rules that the descriptors find; else the one of this name, of any domain: each entry that
					 * its key names is looked for in all descriptors */
	uint32_t rule_len;
	const struct lg_descriptor *descriptors;
	uint32_t n_descriptors;		/* 0: as one without entries */
	enum lg_check_mode mode;
	uint64_t cost;			/* 0: as PEEK, and allowed if one unit would be. SETTLE: the real cost, 0 gives all back */
	uint64_t reservation;		/* SETTLE: as the answer to RESERVE said; domain, rule and descriptors are not looked at */
	uint64_t reserve_ns;		/* RESERVE: how long until it lapses, RESERVE_MIN .. RESERVE_MAX; 0: the default */
	uint64_t deadline_ns;		/* how long a `sync` rule may take, a duration; 0: 1 s. Others answer at once */
};

/* In the order of how loud they are: of several rules the loudest decides, but INVALID and UNKNOWN are of the whole request. */
enum lg_check_status {
	LG_STATUS_OK = 0,	/* allowed. Also when no rule was found: n_takes is 0 then */
	LG_STATUS_SOFT,		/* allowed, above the limit of a rule with `action: soft`: the service should do less */
	LG_STATUS_DENIED,	/* above a limit, or banned; retry_after_ns says when it is worth trying again */
	LG_STATUS_OVERLOADED,	/* this service or the table of keys is full: not the caller's fault */
	LG_STATUS_UNREACHABLE,	/* the limit is one of all hosts, the lease has ended, and those who lend are silent */
	LG_STATUS_NEVER,	/* costs more than the rule's burst: cannot pass ever; nothing was taken; there is no retry_after_ns */
	LG_STATUS_INVALID,	/* too many or too long entries, descriptors or rules found, a mode or time out of bounds: `why` says which */
	LG_STATUS_UNKNOWN,	/* no rule of this name, an entry of its key is missing, or no such reservation (any more): `why` says which */
	_LG_STATUS_N
};
/* "ok", "soft", "denied", ... */
const char *lg_check_status_name(enum lg_check_status status);

/* NODE: the limit is this host's own, and remaining is what is left of it. GLOBAL: it is one for all hosts, and remaining is what this one
 * holds of it. */
enum lg_check_scope { LG_CHECK_SCOPE_NODE = 0, LG_CHECK_SCOPE_GLOBAL };
const char *lg_check_scope_name(enum lg_check_scope scope);

/* One rule's part. */
struct lg_check_take {
	const char *rule;		/* its name, while these rules are in force: copy it before the loop goes on */
	uint32_t rule_id;
	uint8_t descriptor;		/* the first descriptor of the request that found it */
	uint8_t status;			/* enum lg_check_status, OK to NEVER */
	uint8_t reason;			/* enum lg_reason */
	uint8_t scope;			/* enum lg_check_scope */
	bool is_shadow;			/* of a rule in shadow mode: would_deny says what it would have done, status is OK */
	bool would_deny;
	bool is_unlimited;		/* bypassed: limit, remaining and times mean nothing */
	uint64_t limit;			/* units per per_ns, as the rule says */
	uint64_t per_ns;
	uint64_t burst;			/* most that can be had at once */
	uint64_t remaining;		/* whole units that would pass now, after this request; of a leased rule: of this node's lease */
	uint64_t reset_ns;		/* from now until the bucket is full again, or the window over; of a lease: until its end */
	uint64_t retry_after_ns;	/* from now until the same request may pass, were it alone; 0: it did, or it never may */
};

struct lg_answer {
	enum lg_check_status status;
	bool allowed;			/* status is OK or SOFT */
	uint64_t granted;		/* units taken: of BEST_EFFORT 0 to cost; of SETTLE the cost that was booked (docs/requests.md: debt) */
	uint64_t retry_after_ns;	/* the longest of the rules that refuse */
	uint64_t reservation;		/* RESERVE that was allowed: never 0, hard to guess */
	uint64_t settle_within_ns;	/* and until when */
	uint64_t debt;			/* SETTLE: units that were not there, which the next requests of the key pay first */
	int decider;			/* index of the take that decided: of a refusal the loudest, of several the one with the longest
					 * retry_after_ns; else the one with the least part remaining; -1: there is none */
	uint32_t n_takes;		/* at most LG_MATCHES_MAX */
	struct lg_check_take takes[LG_MATCHES_MAX]; /* in the order of the rules: most specific first */
	const char *why;		/* INVALID, UNKNOWN: what is wrong, static text; else NULL */
};

struct lg_checker;
struct lg_loop;
struct lg_request_table;

/* The kernel's part: kern/check.h, or in tests something that plays it. */
struct lg_checker_door {
	struct lg_check *room;			/* LG_CHECKS_MAX of them */
	int (*run)(void *arg, uint32_t n);	/* answers the first n; 0 or a negative errno */
	void *arg;
};

/* loop NULL: for lg_check_many() alone; lg_checker_tick() is then the caller's to call, every 100 ms or so. */
int lg_checker_new(const struct lg_checker_door *door, struct lg_loop *loop, struct lg_checker **ret_checker);
/* Questions that wait are not answered any more; what is reserved lapses at once. */
struct lg_checker *lg_checker_free(struct lg_checker *checker);
LG_CLEANUP(struct lg_checker, lg_checker_free)
/* Takes a table, which is asked from now on (rules/request.h). Without one no rule is found. */
void lg_checker_rules(struct lg_checker *checker, struct lg_request_table *table);
/* Reservations that are over lapse, and debts are paid. */
void lg_checker_tick(struct lg_checker *checker, uint64_t now_ns);

/* What it has done so far. */
struct lg_checker_counts {
	uint64_t by_status[_LG_STATUS_N];
	uint64_t calls;			/* of the kernel */
	uint64_t lapsed;		/* reservations that nobody settled */
	uint64_t reserved;		/* now */
	uint64_t in_debt;		/* keys, now */
	uint64_t forgiven;		/* units above the bound of a debt, or without room for it */
};
void lg_checker_counts_read(const struct lg_checker *checker, struct lg_checker_counts *ret);

/**
 * lg_check_many() - n requests at once, in as few calls of the kernel as possible
 * @answers: n of them, all filled
 *
 * Requests are answered in order. Of `sync` rules the tokens at this node alone are looked at.
 *
 * Return: 0; -EIO when the kernel's part failed: all answers are OVERLOADED then.
 */
int lg_check_many(struct lg_checker *checker, const struct lg_request *requests, struct lg_answer *answers, size_t n);

/* Called once, and never before lg_check_ask() returned. The answer is gone when it returns. May ask again; must not free the checker. */
typedef void lg_check_fn(void *arg, const struct lg_answer *answer);

/**
 * lg_check_ask() - a request among others of this turn of the loop: all of them go to the kernel together
 * @ret_ticket: NULL, or where the number of the question stands, by which it can be taken back
 *
 * Return: 0; -EBUSY when LG_CHECK_WAITING_MAX questions wait already (answer "overloaded"), and fn is not called.
 */
int lg_check_ask(struct lg_checker *checker, const struct lg_request *request, lg_check_fn *fn, void *arg, uint64_t *ret_ticket);
/* The client is gone: fn is not called any more. What was taken stays taken. Does nothing for a question that was answered. */
void lg_check_forget(struct lg_checker *checker, uint64_t ticket);
#define LG_CHECK_WAITING_MAX 65536
