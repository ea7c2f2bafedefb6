// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A token that was spent comes back to be spent again only after Lambda (terms.h): its report waits for the end of its slot and for
 * ticks, and travels to whoever mints; what that frees waits for a tick and travels back. Meanwhile it is in nobody's hands. From this
 * follows what a region can be served at most:
 *
 *   window   Each token is used once per W + Lambda in place of once per W. A limit of L such tokens is an exchange of L lines, each of
 *            them held for so long by whoever is let through, and Erlang's formula says what part of traffic that comes at random finds
 *            none free: B(L, what arrives in that time). Far above the limit that leaves                W / (W + Lambda)
 *            of what a limiter that sees everything at once serves, and below it more: all, where chance leaves that much room.
 *   bucket   Of what is minted nothing is lost while the level is below the burst. But all that may be out, O = min(B, max_outstanding),
 *            is out for a whole cycle, so no more than O per cycle is spent:                            O / (r x cycle)
 *            (windows too, where little may be out). A cycle is Lambda, and a thirty-second of it while what is worth a message gathers.
 *   fixed    At a boundary all leases of the old window end, half a round trip early at the region, and the first of the new one arrive
 *            half a round trip late: what comes in that gap is lost below the limit,                   1 - RTT / W
 *            and costs nothing above it, where the tokens are spent later in the same window.
 *
 * A sub-limit is minted by the region itself: the same formulas with the round trip between region and host, and without the home's tick;
 * beside so short a round trip a tick more of the host counts in a window, for a reading to be confirmed. It also mints two thousandths
 * slower, or remembers its window so much longer, as its clock may not be the home's. A fixed window is run as a sliding one, and
 * compared with one that is not. Only in steady state: traffic that moves waits until its new region has a part.
 */
#include "lease/forecast.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/num.h"
#include "lease/arith.h"

#define MS 1000000ull
#define S (1000 * MS)

#define HOST_RTT_NS 500000ull /* between a host and its region */
#define LIMIT_PERIOD_NS S     /* a region reports on a limit of its own no oftener */
#define FULL 1000000ull       /* parts in a million */
#define SLOWER_PPM 2000ull    /* a sub-limit, for its clock */
#define WORTH_PPM 5000        /* less unused is no reason for another rule */
#define TAKEOVER_NS (3 * S)   /* from the end of one life of a home to the beginning of the next */
#define LINES_MAX 100000      /* beyond that chance is nothing beside the limit */

/* Round trip to whoever mints. */
static uint64_t mint_rtt_ns(const struct lg_terms *t, uint64_t rtt_ns)
{
	return t->kind == LG_LEASE_LIMIT ? HOST_RTT_NS : rtt_ns;
}

static uint64_t lambda_ns(const struct lg_terms *t, uint64_t rtt_ns)
{
	uint64_t lambda = lg_terms_lambda_ns(t, mint_rtt_ns(t, rtt_ns));

	return t->kind == LG_LEASE_LIMIT ? lambda - t->home_tick_ns + t->host_tick_ns : lambda;
}

/* How long it takes until what is lent can be lent again. */
static uint64_t cycle_ns(const struct lg_terms *t, uint64_t rtt_ns)
{
	uint64_t lambda = lg_terms_lambda_ns(t, mint_rtt_ns(t, rtt_ns));

	return t->kind == LG_LEASE_LIMIT ? lambda - t->home_tick_ns : lambda + lambda / 32;
}

/* What may be out at hosts of one region. */
static uint64_t out_tok(const struct lg_terms *t)
{
	return t->kind == LG_LEASE_LIMIT ? t->budget_tok : lg_min_u64(t->budget_tok, t->max_outstanding_tok);
}

/* The part of the limit that a region with all the traffic can spend of what is lent and comes back. */
static double supply(const struct lg_terms *t, uint64_t rtt_ns)
{
	double minted_tok = (double)t->limit_tok * (double)cycle_ns(t, rtt_ns) / (double)t->per_ns;
	double most = t->kind == LG_LEASE_LIMIT ? 1 - (double)SLOWER_PPM / FULL : 1;

	return fmin((double)out_tok(t) / minted_tok, t->algorithm == LG_TOKEN_BUCKET ? most : 1);
}

/* Erlang: what part of random traffic is let through by so many lines, when so much arrives in the time that each is held. */
static double let_through(uint64_t lines, double offered)
{
	double inverse = 1;	/* of the part that finds all lines taken; beyond all bounds where nothing does */

	if (lines > LINES_MAX)
		return fmin((double)lines / offered, 1);
	for (uint64_t n = 1; n <= lines; n++)
		inverse = 1 + (double)n / offered * inverse;
	return 1 - 1 / inverse;
}

/* The same of a fixed window: random traffic varies by the root of its mean, and what is above the limit is lost. */
static double let_through_fixed(uint64_t limit_tok, double offered)
{
	double sd = sqrt(offered), room = (double)limit_tok - offered, z = room / sd;
	double lost = sd * exp(-z * z / 2) / sqrt(2 * M_PI) - room * erfc(z / M_SQRT2) / 2;

	return 1 - fmax(lost, 0) / offered;
}

static double served_of_window(const struct lg_terms *t, double load, uint64_t rtt_ns)
{
	uint64_t held_ns = t->per_ns + lambda_ns(t, rtt_ns) + (t->kind == LG_LEASE_LIMIT ? lg_mul_div(t->per_ns, SLOWER_PPM, FULL) : 0);
	double offered = load * (double)t->limit_tok;
	double perfect = t->algorithm == LG_FIXED_WINDOW ? let_through_fixed(t->limit_tok, offered) : let_through(t->limit_tok, offered);

	return let_through(t->limit_tok, offered * (double)held_ns / (double)t->per_ns) / perfect;
}

static double served(const struct lg_terms *t, double load, uint64_t rtt_ns)
{
	double share = fmin(supply(t, rtt_ns) / fmin(load, 1), 1);

	if (t->algorithm == LG_TOKEN_BUCKET)
		return share;
	if (t->algorithm == LG_FIXED_WINDOW && t->kind == LG_LEASE_BLOCK)
		return load > 1 ? share : fmin(share, fmax(1 - (double)rtt_ns / (double)t->per_ns, 0));
	return fmin(share, served_of_window(t, load, rtt_ns));
}

static uint32_t served_ppm(const struct lg_terms *t, uint32_t load_permille, uint64_t rtt_ns)
{
	return t->limit_tok ? (uint32_t)(served(t, (double)lg_max_u64(load_permille, 1) / 1000, rtt_ns) * FULL + 0.5) : FULL;
}

uint32_t lg_forecast_served(const struct lg_terms *t, uint32_t load_permille, uint64_t rtt_ns)
{
	return (served_ppm(t, load_permille, rtt_ns) + 500) / 1000;
}

/* Straight between the rows; hundredths of a token per host, rising. */
struct small {
	uint32_t tok_x100;
	uint32_t permille;
};

static uint32_t between(const struct small *v, size_t n, uint64_t tok_x100)
{
	size_t i = 1;

	if (tok_x100 <= v[0].tok_x100)
		return (uint32_t)(v[0].permille * tok_x100 / v[0].tok_x100);
	while (i < n && tok_x100 > v[i].tok_x100)
		i++;
	if (i == n)
		return v[n - 1].permille;
	return v[i - 1].permille + (uint32_t)((v[i].permille - v[i - 1].permille) * (tok_x100 - v[i - 1].tok_x100) /
					      (v[i].tok_x100 - v[i - 1].tok_x100));
}

/* Measured, 12 hosts with a twelfth of the traffic each: no formula is known that would say it as well. */
uint32_t lg_forecast_small(const struct lg_terms *t)
{
	static const struct small bucket[] = { { 42, 268 }, { 100, 569 }, { 200, 822 }, { 400, 987 }, { 800, 995 } };
	static const struct small window[] = { { 42, 253 }, { 100, 558 }, { 200, 747 }, { 400, 878 },
					       { 800, 919 }, { 1667, 940 }, { 8000, 975 } };
	uint64_t tok_x100 = 100 * lg_min_u64(t->limit_tok, LG_BURST_MAX_TOK) / t->cost_tok / t->hosts;

	if (!t->limit_tok || t->hosts == 1 || !lg_terms_is_small(t))
		return 1000;
	if (t->algorithm == LG_TOKEN_BUCKET)
		return between(bucket, sizeof(bucket) / sizeof(bucket[0]), tok_x100);
	return between(window, sizeof(window) / sizeof(window[0]), tok_x100);
}

/* n holders that report once in a period each to lessors that push at each tick while there is less than is wanted. */
static struct lg_forecast_messages messages(uint64_t n, uint64_t period_ns, uint64_t tick_ns)
{
	return (struct lg_forecast_messages){ .reports_mps = n * 1000 * S / period_ns, .pushes_mps = n * 1000 * S / tick_ns };
}

/* A sub-limit is told when it changes, which steady traffic does not make it do. */
static struct lg_forecast_messages home_messages(const struct lg_terms *t)
{
	if (t->kind == LG_LEASE_LIMIT)
		return messages(t->regions, LIMIT_PERIOD_NS, UINT64_MAX);
	return messages(t->regions, t->region_period_ns, t->home_tick_ns);
}

/* Of a key that is hardly used: there is always enough to answer it. */
static struct lg_forecast_messages quiet_messages(const struct lg_terms *t)
{
	return t->kind == LG_LEASE_LIMIT ? home_messages(t) : messages(t->regions, lg_terms_quiet_period_ns(t), UINT64_MAX);
}

static uint64_t quiet_mtps(const struct lg_terms *t)
{
	return t->kind == LG_LEASE_LIMIT ? 0 : lg_mul_div(lg_terms_quiet_tok(t), 1000 * S, lg_terms_quiet_period_ns(t));
}

static struct lg_forecast_messages region_messages(const struct lg_terms *t)
{
	return messages(t->hosts, t->host_period_ns, t->kind == LG_LEASE_LIMIT ? t->host_tick_ns : t->home_tick_ns);
}

static uint32_t unserved_ppm(const struct lg_terms *t)
{
	uint32_t below = served_ppm(t, LG_FORECAST_BELOW_PERMILLE, t->far_rtt_ns);
	uint32_t above = served_ppm(t, LG_FORECAST_ABOVE_PERMILLE, t->far_rtt_ns);

	return (uint32_t)FULL - (below < above ? below : above);
}

/* Whether round trips cost no more than a hundredth by blocks. */
static bool is_wide(const struct lg_terms *t)
{
	if (t->algorithm == LG_TOKEN_BUCKET)
		return !lg_terms_is_short(t);
	return t->per_ns >= 100 * lg_terms_lambda_ns(t, t->far_rtt_ns);
}

/* The same rate over factor times the time. */
static struct lg_forecast_price price_of(const struct lg_rule_def *rule, const struct lg_fleet *fleet, uint64_t factor)
{
	struct lg_rule_def wide = *rule;
	struct lg_terms t;

	wide.limit_tok *= factor;
	wide.per_ns *= factor;
	wide.burst_tok *= factor;
	lg_terms_init(&wide, fleet, &t);
	return (struct lg_forecast_price){ .factor = factor, .span_ns = lg_terms_span_ns(&t), .wide = is_wide(&t),
					   .unserved_ppm = unserved_ppm(&t), .home = home_messages(&t) };
}

static size_t wider(const struct lg_forecast *f)
{
	size_t i = 0;

	if (f->price[0].unserved_ppm < WORTH_PPM)
		return 0;
	while (i < 2 && !f->price[i].wide)
		i++;
	return f->price[i].unserved_ppm < f->price[0].unserved_ppm ? i : 0;
}

/*
 * Spent and not yet reported, renewed ahead of time and on its way; a host keeps at least a token. Sub-limits are told whole: what nobody
 * wants is spread over those who use the key.
 */
static uint64_t worst_out_tok(const struct lg_terms *t)
{
	if (t->kind == LG_LEASE_LIMIT)
		return out_tok(t);
	return lg_min_u64(lg_terms_needed_tok(t) + t->hosts, out_tok(t));
}

/*
 * What is reserved and not lent: two periods' worth (escrow.h), or half of one more where it was lent unevenly. Of that as much as was lent
 * since it was marked has come back, of which a new life knows nothing either, nor of what comes back until it begins. Without marks it is all
 * that there is.
 */
static uint64_t failover_tok(const struct lg_terms *t)
{
	uint64_t ns = 5 * t->escrow_period_ns / 2 + TAKEOVER_NS;

	if (!t->reserves)
		return t->budget_tok;
	return lg_min_u64(lg_mul_div(t->limit_tok, ns, t->per_ns) + 2 * t->cost_tok, t->budget_tok);
}

static uint64_t failover_ns(const struct lg_terms *t)
{
	if (t->kind == LG_LEASE_LIMIT)
		return t->ttl_ns + t->grace_ns;
	if (t->algorithm == LG_TOKEN_BUCKET)
		return lg_mul_div(failover_tok(t), t->per_ns, t->limit_tok);
	return t->algorithm == LG_FIXED_WINDOW ? t->per_ns : t->ttl_ns + t->grace_ns + t->per_ns;
}

void lg_forecast_init(const struct lg_rule_def *rule, const struct lg_fleet *fleet, struct lg_forecast *ret)
{
	static const uint64_t factors[] = { 1, 10, 60 };
	struct lg_terms *t = &ret->terms;

	*ret = (struct lg_forecast){ 0 };
	lg_terms_init(rule, fleet, t);
	ret->lambda_ns = lambda_ns(t, t->far_rtt_ns);
	ret->below_permille = lg_forecast_served(t, LG_FORECAST_BELOW_PERMILLE, t->far_rtt_ns);
	ret->above_permille = lg_forecast_served(t, LG_FORECAST_ABOVE_PERMILLE, t->far_rtt_ns);
	ret->small_permille = lg_forecast_small(t);
	ret->home = home_messages(t);
	ret->region = region_messages(t);
	ret->quiet = quiet_messages(t);
	ret->quiet_mtps = quiet_mtps(t);
	ret->out_tok = worst_out_tok(t);
	ret->stranded_tok = out_tok(t);
	ret->failover_tok = failover_tok(t);
	ret->failover_ns = failover_ns(t);
	for (size_t i = 0; i < 3; i++)
		ret->price[i] = price_of(rule, fleet, factors[i]);
	ret->wider = wider(ret);
}

/* ---- warnings ---- */

static bool rpc_budget_warn(const struct lg_forecast *f, const struct lg_rule_def *rule, char *buf, size_t len)
{
	if (!rule->lease.rpc_budget_mps || f->home.reports_mps <= rule->lease.rpc_budget_mps + rule->lease.rpc_budget_mps / 100)
		return false;
	snprintf(buf, len, "rpc_budget of %g/s cannot be kept: half of the budget covers reports no rarer than %g/s",
		 rule->lease.rpc_budget_mps / 1e3, (double)f->home.reports_mps / 1e3);
	return true;
}

static bool max_outstanding_warn(const struct lg_forecast *f, const struct lg_rule_def *rule, char *buf, size_t len)
{
	if (!rule->lease.max_outstanding_permille || f->terms.kind == LG_LEASE_LIMIT ||
	    lg_terms_needed_tok(&f->terms) <= f->terms.max_outstanding_tok)
		return false;
	snprintf(buf, len, "max_outstanding of %" PRIu64
		 " is less than round trips and the shortest period need: part of the limit stays unused",
		 f->terms.max_outstanding_tok);
	return true;
}

static bool cold_start_warn(const struct lg_forecast *f, const struct lg_rule_def *rule, char *buf, size_t len)
{
	if (rule->lease.cold_start_tok == LG_COLD_START_AUTO || rule->lease.cold_start_tok == f->terms.cold_tok)
		return false;
	snprintf(buf, len, "cold_start of %" PRIu64 " for each of %u hosts is over half of the budget: %" PRIu64 " each are set aside",
		 rule->lease.cold_start_tok, f->terms.hosts, f->terms.cold_tok);
	return true;
}

int lg_forecast_warning(const struct lg_forecast *f, const struct lg_rule_def *rule, size_t i, char *buf, size_t len)
{
	static bool (*const warns[])(const struct lg_forecast *, const struct lg_rule_def *, char *, size_t) = {
		rpc_budget_warn, max_outstanding_warn, cold_start_warn,
	};

	for (size_t w = 0; w < sizeof(warns) / sizeof(warns[0]); w++)
		if (warns[w](f, rule, buf, len) && i-- == 0)
			return 0;
	return 1;
}
