// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A lease must last until the next grant is there. Asking takes a round trip and the ticks at both ends; if the first request is lost,
 * twice that and a timeout. What arrives in a time with mean m is below m + 2 sqrt(m) + 1 nearly always, and traffic that comes in bursts
 * is covered by twice the largest burst seen in one such time. That is low water; the target is low water and what one period uses up.
 *
 * A region must hold that for itself, on top of all that its hosts want to hold: were its target the sum of theirs, its pool would
 * always be empty and each renewal of a host would cost a round trip to the home.
 */
#include "lease/demand.h"

#include <math.h>

#include "lease/arith.h"

#define FAST_S 1.0
#define SLOW_S 10.0
#define PEAK_S 30.0
#define SPARE_S 0.03	/* what a timeout has beyond its round trips */

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

void lg_demand_add(struct lg_demand *d, uint64_t offered_tok, uint64_t admitted_tok, uint64_t peak_interval_ns, uint64_t now_ns)
{
	float offered = (float)offered_tok, admitted = (float)admitted_tok;

	fade(d, now_ns);
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
	d->burst_tok += offered;
	d->peak_tok = fmaxf(d->peak_tok, d->burst_tok);
}

uint64_t lg_demand_mtps(struct lg_demand *d, uint64_t floor_mtps, uint64_t now_ns)
{
	double offered, admitted, most;

	fade(d, now_ns);
	offered = (double)fmaxf(d->offered_fast, d->offered_slow) * 1000;
	admitted = (double)fmaxf(d->admitted_fast, d->admitted_slow) * 1000;
	most = admitted + 2 * fmax(admitted, (double)floor_mtps);
	return (uint64_t)fmin(fmin(offered, most), 0x1p50);
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

static double reserve(double mean)
{
	return mean + 2 * sqrt(mean) + 1;
}

/* What is needed until an answer is there, the first request being lost. */
static double cover_tok(double rate, uint64_t ask_ns)
{
	return reserve(rate * (2 * seconds(ask_ns) + SPARE_S));
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

/* A burst dearer than a twentieth of the budget is not kept at hand. */
static double peak_part(const struct lg_terms *terms, uint64_t peak_tok)
{
	return 2 * fmin((double)peak_tok, (double)terms->budget_tok / 20);
}

struct lg_sizes lg_sizes_of_host(const struct lg_terms *terms, uint64_t demand_mtps, uint64_t peak_tok, uint64_t rtt_ns, uint64_t cap_tok)
{
	double rate = (double)demand_mtps / 1000;
	double low, target;

	if (!demand_mtps)
		return (struct lg_sizes){ 0 };
	low = fmax(cover_tok(rate, rtt_ns + terms->region_tick_ns + terms->host_tick_ns), peak_part(terms, peak_tok));
	target = low + rate * seconds(terms->host_period_ns);
	low = fmax(low, target * terms->low_water_permille / 1000);
	return limited(low, target, cap_tok);
}

struct lg_sizes lg_sizes_of_region(const struct lg_terms *terms, uint64_t demand_mtps, uint64_t host_want_tok, uint64_t peak_tok,
				   uint64_t rtt_ns, uint64_t cap_tok)
{
	double rate = (double)demand_mtps / 1000;
	double low, target;

	if (!demand_mtps)
		return limited((double)host_want_tok, (double)host_want_tok, cap_tok);
	low = (double)host_want_tok + cover_tok(rate, rtt_ns + 2 * terms->home_tick_ns) + peak_part(terms, peak_tok);
	target = low + rate * seconds(terms->region_period_ns);
	low = fmax(low, target * terms->low_water_permille / 1000);
	return limited(low, target, cap_tok);
}
