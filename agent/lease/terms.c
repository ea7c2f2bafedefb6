// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One time scale rules all: the span, how long the limit takes to mint the whole budget (a token bucket's burst / rate) or the
 * window. What a holder spent and has not yet reported stands in nobody's account but still counts as lent, so at rate r a period T
 * binds r (1.6 T + 2 Lambda) of the budget at worst: T must be a small part of the span, a tenth, or a twentieth where the span is long
 * enough to afford it. Half a dozen reports a second of a hot key are the price at the short end.
 */
#include "lease/terms.h"

#include "lease/arith.h"

#define MS 1000000ull
#define S (1000 * MS)

#define FAR_RTT_NS (150 * MS)	/* unless it is configured */
#define PERIOD_MIN_NS (100 * MS)
#define PERIOD_MAX_NS (40 * S)	/* of what is written, and of a key that is hardly used */
#define QUIET_PART 50		/* of the budget: so much nobody misses */
#define COLD_SPAN_MAX_NS (600 * S) /* unless it is written */

/* A share of the budget by span: from long to short, straight lines between. */
struct share {
	uint64_t span_ns;
	uint64_t permille;
};

void lg_fleet_init(const struct lg_config *config, struct lg_fleet *ret_fleet)
{
	*ret_fleet = (struct lg_fleet){
		.regions = (uint32_t)config->n_regions, .hosts = lg_config_hosts(config), .far_rtt_ns = config->far_rtt_ns
	};
}

uint64_t lg_terms_span_ns(const struct lg_terms *t)
{
	return t->algorithm == LG_TOKEN_BUCKET ? lg_mul_div(t->budget_tok, t->per_ns, t->limit_tok) : t->per_ns;
}

/*
 * Each host spends what new keys start with at most once per span, on the home's clock: a host's runs up to a thousandth faster, and knows
 * when it last spent to a third of a second.
 */
uint64_t lg_terms_cold_rest_ns(const struct lg_terms *t)
{
	uint64_t span_ns = lg_min_u64(lg_terms_span_ns(t), UINT64_MAX / 4);

	return span_ns + span_ns / 500 + 1 * S;
}

uint64_t lg_terms_cold_now_tok(const struct lg_terms *t, uint64_t forgot_until_ns, uint64_t now_ns)
{
	if (!forgot_until_ns)
		return t->cold_tok;
	return now_ns >= forgot_until_ns + lg_terms_cold_rest_ns(t) ? t->cold_tok : 0;
}

/* Its report waits for the end of its slot and the ticks of host and region; a round trip and a tick of the home later it is there again. */
uint64_t lg_terms_lambda_ns(const struct lg_terms *t, uint64_t rtt_ns)
{
	return rtt_ns + t->slot_ns + t->home_tick_ns + t->region_tick_ns + t->host_tick_ns;
}

static uint64_t share_permille(const struct share *v, size_t n, uint64_t span_ns)
{
	size_t i = 1;

	if (span_ns >= v[0].span_ns)
		return v[0].permille;
	while (i < n && span_ns < v[i].span_ns)
		i++;
	if (i == n)
		return v[n - 1].permille;
	return v[i].permille - lg_mul_div(v[i].permille - v[i - 1].permille, span_ns - v[i].span_ns, v[i - 1].span_ns - v[i].span_ns);
}

/* What the rate mints in a time. */
static uint64_t minted_tok(const struct lg_terms *t, uint64_t ns)
{
	return lg_mul_div(t->limit_tok, ns, t->per_ns);
}

uint64_t lg_terms_needed_tok(const struct lg_terms *t)
{
	return minted_tok(t, 16 * (t->region_period_ns / 10) + 2 * lg_terms_lambda_ns(t, t->far_rtt_ns));
}

bool lg_terms_is_cramped(const struct lg_terms *t)
{
	return lg_min_u64(t->max_outstanding_tok, t->budget_tok) < minted_tok(t, 2 * lg_terms_lambda_ns(t, t->far_rtt_ns));
}

/*
 * By blocks a window serves W / (W + Lambda), and a bucket what may be out once per Lambda (forecast.c). Parts of a limit serve
 * steady traffic whole, but follow traffic that moves only when what was spent has left the window. Measured over 150 ms, windows of up
 * to 3 s are served better in parts however the traffic moves; of 10 s blocks cost 0.02 at worst, and traffic that hops each second or
 * swells and fades is served 0.93 and 0.95 by them, 0.83 and 0.80 in parts.
 */
bool lg_terms_is_short(const struct lg_terms *t)
{
	if (t->algorithm == LG_TOKEN_BUCKET)
		return lg_terms_is_cramped(t);
	return t->per_ns < 20 * lg_terms_lambda_ns(t, t->far_rtt_ns);
}

/* The longest period for which out_tok are enough. */
static uint64_t period_for(const struct lg_terms *t, uint64_t out_tok)
{
	uint64_t covers_ns = lg_mul_div(out_tok, t->per_ns, t->limit_tok);
	uint64_t period_ns = lg_mul_div(lg_sub_floor(covers_ns, 2 * lg_terms_lambda_ns(t, t->far_rtt_ns)), 10, 16);

	return lg_clamp_u64(period_ns, PERIOD_MIN_NS, PERIOD_MAX_NS);
}

/*
 * max_outstanding fixes how much is lent, rpc_budget how often is reported (never so seldom that half of the budget would not do). Of a
 * sync rule the shortest period; else by span.
 */
static void period_set(struct lg_terms *t, const struct lg_rule_def *rule)
{
	uint64_t span = lg_terms_span_ns(t);

	if (rule->lease.max_outstanding_permille)
		t->region_period_ns = period_for(t, lg_mul_div(t->budget_tok, rule->lease.max_outstanding_permille, 1000));
	else if (rule->lease.rpc_budget_mps)
		t->region_period_ns = lg_clamp_u64(lg_mul_div(t->regions, 1000 * S, rule->lease.rpc_budget_mps), PERIOD_MIN_NS,
						   period_for(t, t->budget_tok / 2));
	else if (rule->class == LG_CLASS_SYNC)
		t->region_period_ns = PERIOD_MIN_NS;
	else
		t->region_period_ns = lg_clamp_u64(span / (span >= 60 * S ? 20 : 10), PERIOD_MIN_NS, 5 * S);
	t->host_period_ns = t->region_period_ns / 4;
}

/*
 * What may be out is what a crash strands and what a successor cannot lend before it has heard of all holders. Unwritten it follows from
 * the class: lease 30 % of the budget, half of it where it is spent within a second; strict and sync less, but what the period needs, and no
 * more than lease. A few tokens for every host where the budget is so small that shares would round to nothing.
 */
static uint64_t max_outstanding_tok(const struct lg_terms *t, const struct lg_rule_def *rule)
{
	static const struct share strict[] = { { 60 * S, 100 }, { 10 * S, 200 }, { 1 * S, 500 } };
	uint64_t span = lg_terms_span_ns(t), most_tok = lg_mul_div(t->budget_tok, span <= S ? 500 : 300, 1000), out_tok = most_tok;

	if (rule->lease.max_outstanding_permille)
		return lg_max_u64(lg_mul_div(t->budget_tok, lg_min_u64(rule->lease.max_outstanding_permille, 1000), 1000), 1);
	if (rule->class == LG_CLASS_STRICT)
		out_tok = lg_mul_div(t->budget_tok, share_permille(strict, sizeof(strict) / sizeof(strict[0]), span), 1000);
	else if (rule->class == LG_CLASS_SYNC)
		out_tok = t->budget_tok / 10;
	out_tok = lg_min_u64(out_tok, most_tok);
	if (rule->lease.rpc_budget_mps)
		out_tok = lg_max_u64(out_tok, lg_min_u64(lg_terms_needed_tok(t), t->budget_tok / 2));
	else
		out_tok = lg_max_u64(out_tok, lg_min_u64(lg_terms_needed_tok(t), most_tok));
	return lg_max_u64(lg_max_u64(out_tok, lg_min_u64(t->budget_tok, 8 * t->cost_tok * t->hosts)), 1);
}

uint64_t lg_terms_quiet_tok(const struct lg_terms *t)
{
	return t->adaptive ? t->budget_tok / QUIET_PART / t->regions : 0;
}

uint64_t lg_terms_quiet_period_ns(const struct lg_terms *t)
{
	uint64_t period_ns = lg_terms_quiet_tok(t) ? lg_min_u64(t->ttl_ns / 3, PERIOD_MAX_NS) : 0;

	return lg_max_u64(period_ns, t->region_period_ns);
}

uint64_t lg_terms_period_ns(const struct lg_terms *t, uint64_t demand_mtps)
{
	uint64_t covers_ns = lg_mul_div(lg_terms_quiet_tok(t), 1000 * S, demand_mtps);

	return lg_clamp_u64(covers_ns, t->region_period_ns, lg_terms_quiet_period_ns(t));
}

bool lg_terms_is_small(const struct lg_terms *t)
{
	return t->limit_tok < (t->algorithm == LG_TOKEN_BUCKET ? 8ull : 80ull) * t->cost_tok * t->hosts;
}

/* A window serves W / (W + Lambda): what it frees waits for the end of its slot, a tick of the home and a round trip. So slot and tick
 * are short beside the round trip, which nothing can shorten. */
static void ticks_set(struct lg_terms *t)
{
	bool bucket = t->algorithm == LG_TOKEN_BUCKET;
	uint64_t span = lg_terms_span_ns(t);

	t->home_tick_ns = lg_clamp_u64(span / (bucket ? 100 : 500), 20 * MS, 100 * MS);
	t->region_tick_ns = span <= S ? 2 * MS : 10 * MS;
	t->host_tick_ns = span <= S ? 5 * MS : 20 * MS;
	t->slot_ns = lg_clamp_u64(span / (bucket ? 200 : 500), 10 * MS, 100 * MS);
}

/*
 * What is written; else a packet, where all declared hosts together take no more than a hundredth of the budget. Strict rules lend all they
 * have. Nor is it where the span is so long that keys nobody uses would fill the tables of hosts (lg_terms_cold_rest_ns()).
 */
static uint64_t cold_wanted_tok(const struct lg_terms *t, const struct lg_rule_def *rule, uint32_t hosts)
{
	if (rule->lease.cold_start_tok != LG_COLD_START_AUTO)
		return rule->lease.cold_start_tok;
	if (rule->class != LG_CLASS_LEASE || rule->unit == LG_UNIT_BYTES || lg_terms_span_ns(t) > COLD_SPAN_MAX_NS)
		return 0;
	return hosts && t->cost_tok * hosts <= t->budget_tok / 100 ? t->cost_tok : 0;
}

/*
 * What hosts may spend of a new key without asking is theirs from the beginning, so it is taken off what is leased: of a bucket with its
 * part of the rate, as it comes back to a host once per span. Half of the budget must be left to lend on demand.
 */
static void cold_set(struct lg_terms *t, uint64_t wanted_tok)
{
	uint64_t cold_tok = lg_min_u64(wanted_tok, t->budget_tok / 2 / t->hosts), budget_tok, limit_tok;

	if (!cold_tok)
		return;
	budget_tok = t->budget_tok - cold_tok * t->hosts;
	limit_tok = t->algorithm == LG_TOKEN_BUCKET ? lg_mul_div(t->limit_tok, budget_tok, t->budget_tok) : budget_tok;
	if (!limit_tok)
		return;
	t->cold_tok = cold_tok;
	t->budget_tok = budget_tok;
	t->limit_tok = limit_tok;
}

/*
 * Who is cut off takes its share without a word to anybody, of keys it had leased and of keys it had not, and nobody can know of it. So
 * where the limit must hold all the same, all shares are taken off what is leased, from the beginning and for good.
 */
static void shares_set(struct lg_terms *t, const struct lg_rule_def *rule)
{
	uint64_t limit_tok = lg_rule_shares_tok(rule, t->limit_tok), budget_tok = lg_rule_shares_tok(rule, t->budget_tok);

	if (!lg_rule_sets_shares_aside(rule) || !limit_tok || !budget_tok)
		return;
	t->shares_tok = budget_tok;
	t->limit_tok -= limit_tok;
	t->budget_tok -= budget_tok;
}

void lg_terms_init(const struct lg_rule_def *rule, const struct lg_fleet *fleet, struct lg_terms *ret_terms)
{
	struct lg_terms t = {
		.algorithm = rule->algorithm == LG_SLIDING_LOG ? LG_SLIDING_WINDOW : rule->algorithm,
		.far_rtt_ns = fleet->far_rtt_ns ? fleet->far_rtt_ns : FAR_RTT_NS,
		.limit_tok = rule->limit_tok,
		.per_ns = rule->per_ns,
		.cost_tok = lg_max_u64(rule->cost, 1),
		.budget_tok = rule->algorithm == LG_TOKEN_BUCKET ? rule->burst_tok : rule->limit_tok,
		.regions = (uint32_t)lg_max_u64(fleet->regions, 1),
		.hosts = (uint32_t)lg_max_u64(fleet->hosts, 1),
		.low_water_permille = rule->lease.low_water_permille,
		.grace_ns = 1 * S,
	};

	t.rule_limit_tok = t.limit_tok;
	t.rule_budget_tok = t.budget_tok;
	shares_set(&t, rule);
	cold_set(&t, cold_wanted_tok(&t, rule, fleet->hosts));
	t.owner = rule->lease.owner == LG_OWNER_ON || (rule->lease.owner == LG_OWNER_AUTO && lg_terms_is_small(&t));
	ticks_set(&t);
	period_set(&t, rule);
	/* Who writes how much may be out, or how often may be reported, has written the period; and of a sync rule it is to be short. */
	t.adaptive = !rule->lease.max_outstanding_permille && !rule->lease.rpc_budget_mps && rule->class != LG_CLASS_SYNC;
	t.max_outstanding_tok = max_outstanding_tok(&t, rule);
	t.kind = rule->lease.kind;
	if (t.kind == LG_LEASE_AUTO)
		t.kind = lg_terms_is_short(&t) ? LG_LEASE_LIMIT : LG_LEASE_BLOCK;
	t.reserves = t.kind == LG_LEASE_BLOCK && (rule->class == LG_CLASS_STRICT || rule->class == LG_CLASS_SYNC);
	t.escrow_period_ns = lg_clamp_u64(t.region_period_ns, 1 * S, 5 * S);
	/* Long enough to outlive a few lost reports; a holder that is gone strands its lease no longer than that. */
	t.ttl_ns = lg_max_u64(lg_clamp_u64(10 * t.region_period_ns, 10 * S, 30 * S), 3 * t.region_period_ns);
	*ret_terms = t;
}
