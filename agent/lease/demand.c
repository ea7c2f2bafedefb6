// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A lease must last until the next grant is there. For a host asking takes a tick and a round trip; if the first request is lost, a
 * timeout and a round trip more. What arrives in a time with mean m is below m + 2 sqrt(m) + 1 nearly always, and traffic that comes in
 * bursts is covered by twice the largest burst. That is low water; the target is low water and what one period uses up.
 *
 * A region must hold that for itself, on top of all that its hosts want to hold: were its target the sum of theirs, its pool would
 * always be empty and each renewal of a host would cost a round trip to the home. It holds enough for one round trip: what its hosts hold
 * bridges a request that is lost, unless they need it for bursts. In a long period traffic may grow, so it asks when no more than an eighth
 * of one is left.
 *
 * All of it is bound as long as it is held: reports per second times what is out at worst is 1.5 to 1.8 times arrivals times regions, of
 * which 1.25 is the law (the period of a region, and a quarter of it at the hosts), so each token held here for comfort is one that is
 * missing elsewhere.
 */
#include "lease/demand.h"

#include <math.h>

#include "lease/arith.h"

#define FAST_S 1.0
#define SLOW_S 10.0
#define PEAK_S 30.0
#define LOST_SPARE_S 0.05	/* what a timeout has beyond its round trips */

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void fade(struct lg_demand *d, uint64_t now_ns)
{
	double dt = seconds(lg_sub_floor(now_ns, d->at_ns));
	float fast, slow;

	if (dt <= 0)
		return;
	fast = (float)exp(-dt / FAST_S);
	slow = (float)exp(-dt / SLOW_S);
	d->offered_fast *= fast;
	d->admitted_fast *= fast;
	d->offered_slow *= slow;
	d->admitted_slow *= slow;
	d->peak_tok *= (float)exp(-dt / PEAK_S);
	d->at_ns = now_ns;
}

/* What steady traffic with that mean hardly ever exceeds by chance. */
static double chance(double mean)
{
	return mean + 4 * sqrt(mean);
}

/* Read after a longer time than the interval, the cost of that time seems to have come at once: of it counts what is more than chance. */
static float at_once(const struct lg_demand *d, double offered, uint64_t peak_interval_ns, uint64_t gap_ns)
{
	double rate = (double)d->offered_slow;
	double more = chance(rate * seconds(lg_max_u64(gap_ns, peak_interval_ns))) - chance(rate * seconds(peak_interval_ns));

	return (float)fmax(offered - more, fmin(offered, 1));
}

void lg_demand_add(struct lg_demand *d, uint64_t offered_tok, uint64_t admitted_tok, uint64_t peak_interval_ns, uint64_t gap_ns,
		   uint64_t now_ns)
{
	float offered = (float)offered_tok, admitted = (float)admitted_tok, burst;

	fade(d, now_ns);
	burst = at_once(d, (double)offered, peak_interval_ns, gap_ns);
	d->offered_fast += offered / (float)FAST_S;
	d->offered_slow += offered / (float)SLOW_S;
	d->admitted_fast += admitted / (float)FAST_S;
	d->admitted_slow += admitted / (float)SLOW_S;
	if (!offered_tok)
		return;
	if (lg_sub_floor(now_ns, d->burst_ns) > peak_interval_ns) {
		d->burst_ns = now_ns;
		d->burst_tok = 0;
	}
	d->burst_tok += burst;
	d->peak_tok = fmaxf(d->peak_tok, d->burst_tok);
}

/*
 * The slow average, or the fast one where that is higher by more than chance: in a second of steady traffic with mean m arrive m, two
 * times out of three within sqrt(m / 2) as this average sees it. The larger of the two as they are would be too much nearly all the
 * time: by a tenth at ten a second, by a half at one, for each of many small hosts.
 */
static double rate_of(double fast, double slow)
{
	return fmax(slow, fast - 2 * sqrt(slow / (2 * FAST_S)));
}

uint64_t lg_demand_mtps(struct lg_demand *d, uint64_t floor_mtps, uint64_t now_ns)
{
	double offered, admitted, most;

	fade(d, now_ns);
	offered = rate_of((double)d->offered_fast, (double)d->offered_slow) * 1000;
	admitted = (double)fmaxf(d->admitted_fast, d->admitted_slow) * 1000;
	most = admitted + 2 * fmax(admitted, (double)floor_mtps);
	return (uint64_t)fmin(fmin(offered, most), 0x1p50);
}

uint64_t lg_demand_told_mtps(uint64_t mtps)
{
	double rate = (double)mtps / 1000;

	return (uint64_t)fmin((rate + sqrt(rate / (2 * FAST_S))) * 1000, 0x1p50);
}

uint64_t lg_demand_floor_mtps(const struct lg_terms *terms)
{
	return lg_max_u64(lg_mul_div(terms->limit_tok, 1000000000000ull, terms->per_ns) / terms->hosts, 1);
}

uint64_t lg_demand_peak_tok(struct lg_demand *d, uint64_t now_ns)
{
	fade(d, now_ns);
	return (uint64_t)ceilf(d->peak_tok);
}

uint64_t lg_demand_interval_ns(const struct lg_terms *terms, uint64_t rtt_ns)
{
	return rtt_ns + terms->region_tick_ns + terms->host_tick_ns;
}

static double reserve(double mean)
{
	return mean + 2 * sqrt(mean) + 1;
}

static struct lg_sizes limited(double low, double target, uint64_t cap_tok)
{
	struct lg_sizes s = {
		.low_tok = (uint64_t)ceil(fmin(low, 0x1p40)),
		.target_tok = (uint64_t)ceil(fmin(target, 0x1p40)),
	};

	if (cap_tok && s.target_tok > cap_tok)
		s.target_tok = cap_tok;
	/* Below the target by enough that one spent token does not make it ask again. */
	s.low_tok = lg_min_u64(s.low_tok, lg_max_u64(s.target_tok - s.target_tok / 4, 1));
	return s;
}

/*
 * What bursts need besides: twice the largest, if it was one. What steady traffic has by chance in a time as long is none, and a little more
 * than that hardly one. One dearer than a twentieth of the budget is not kept at hand.
 */
static double burst_tok(const struct lg_terms *terms, uint64_t peak_tok, double rate, uint64_t interval_ns)
{
	double peak = (double)peak_tok, part = chance(rate * seconds(interval_ns)) / fmax(peak, 1);

	return 2 * fmin(peak * fmax(1 - part * part, 0), (double)terms->budget_tok / 20);
}

struct lg_sizes lg_sizes_of_host(const struct lg_terms *terms, uint64_t demand_mtps, uint64_t peak_tok, uint64_t rtt_ns, uint64_t cap_tok)
{
	/* The first reading in an interval covers the tick before it. */
	uint64_t interval_ns = lg_demand_interval_ns(terms, rtt_ns) + terms->host_tick_ns;
	double ask_s = seconds(terms->host_tick_ns) + 2.2 * seconds(rtt_ns) + LOST_SPARE_S;
	double rate = (double)demand_mtps / 1000;
	double low, target;

	if (!demand_mtps)
		return (struct lg_sizes){ 0 };
	low = reserve(rate * ask_s) + burst_tok(terms, peak_tok, rate, interval_ns);
	target = low + rate * seconds(terms->host_period_ns);
	low = fmax(low, target * terms->low_water_permille / 1000);
	return limited(low, target, cap_tok);
}

struct lg_sizes lg_sizes_of_region(const struct lg_terms *terms, uint64_t demand_mtps, uint64_t host_want_tok, uint64_t peak_tok,
				   uint64_t rtt_ns, uint64_t cap_tok, uint64_t period_ns)
{
	uint64_t interval_ns = lg_demand_interval_ns(terms, 0) + terms->host_tick_ns;
	double ask_s = seconds(terms->region_tick_ns + rtt_ns), retry_s = seconds(rtt_ns) + LOST_SPARE_S;
	double rate = (double)demand_mtps / 1000, period_tok = rate * seconds(period_ns);
	double burst = burst_tok(terms, peak_tok, rate, interval_ns), low, target;

	if (!demand_mtps)
		return limited((double)host_want_tok, (double)host_want_tok, cap_tok);
	low = (double)host_want_tok + reserve(rate * ask_s) + burst + fmin(burst, rate * retry_s);
	target = low + period_tok;
	low = fmax(low, (double)host_want_tok + period_tok / 8);
	low = fmax(low, target * terms->low_water_permille / 1000);
	return limited(low, target, cap_tok);
}
