/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What a global rule will serve, cost and strand, before any traffic has shown it. Pure arithmetic on its terms. The formulas hold
 * in steady state, over many spans, for requests that cost one token and come at random; tests compare them with the simulation: they
 * are within a hundredth for what rules get unless they say otherwise.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease/terms.h"

/* The loads that are told: in parts of the limit. */
#define LG_FORECAST_BELOW_PERMILLE 950
#define LG_FORECAST_ABOVE_PERMILLE 1500

/* A key that is busy in all regions, thousandths of a message per second. */
struct lg_forecast_messages {
	uint64_t reports_mps;	/* up; as many answers come down */
	uint64_t pushes_mps;	/* down besides, at most, while more is offered than the limit */
};

/* The same rate over a longer time. */
struct lg_forecast_price {
	uint64_t factor;	/* of the time: 1, 10, 60 */
	uint64_t span_ns;	/* what the budget then lasts */
	uint32_t unserved_ppm;	/* part of the limit, at the dearer of the two loads, all of it in the farthest region */
	struct lg_forecast_messages home;
	bool wide;		/* round trips cost no more than a hundredth */
};

struct lg_forecast {
	struct lg_terms terms;
	uint64_t lambda_ns;	/* how long a spent token is in nobody's hands */
	uint32_t below_permille;	/* served of what a limiter that sees everything at once admits, all traffic in the farthest region */
	uint32_t above_permille;
	uint32_t small_permille;	/* the same where all hosts see one key below its limit; 1000 where it is not small for its hosts */
	struct lg_forecast_price price[3];
	size_t wider;		/* in price: the first that is wide, else the widest; 0: this one is wide enough, or nearly as good */
	struct lg_forecast_messages home;	/* all regions to the home of a key */
	struct lg_forecast_messages region;	/* all hosts to their regions */
	struct lg_forecast_messages quiet;	/* all regions to the home of a key of which no region spends more than quiet_mtps */
	uint64_t quiet_mtps;			/* thousandths of a token per second; 0: all keys cost the same */
	uint64_t out_tok;	/* out at worst while the rate of the limit is spent */
	uint64_t stranded_tok;	/* all that may be out */
	uint64_t failover_tok;	/* a new life of the home may have to take so much for out or spent, which is not */
	uint64_t failover_ns;	/* and for so long, when some region never tells; of a bucket, until it is minted again */
};

void lg_forecast_init(const struct lg_rule_def *rule, const struct lg_fleet *fleet, struct lg_forecast *ret_forecast);

/**
 * lg_forecast_served() - the share of its traffic a region gets when it has all of a key's traffic
 * @load_permille: offered, in thousandths of the limit; at least 1
 * @rtt_ns:        between this region and the key's home
 *
 * Return: in thousandths of what a limiter that sees everything at once admits.
 */
uint32_t lg_forecast_served(const struct lg_terms *terms, uint32_t load_permille, uint64_t rtt_ns);

/**
 * lg_forecast_small() - the same while all hosts have an equal part of a key's traffic, at 0.95 times the limit
 *
 * n hosts cannot share fewer than n tokens without one being refused for want of one.
 */
uint32_t lg_forecast_small(const struct lg_terms *terms);

/**
 * lg_forecast_warning() - what the terms make of the rule that its writer may not expect
 * @i: which one, from 0
 *
 * Return: 0 with one line in buf, 1 when there are no more than i.
 */
int lg_forecast_warning(const struct lg_forecast *forecast, const struct lg_rule_def *rule, size_t i, char *buf, size_t len);
