// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a large fleet says to itself: a thousand hosts in five regions, a million keys, a million requests a second, on virtual time with
 * the core that runs in production.
 *
 * Model. Time goes in milliseconds. Requests are one Poisson stream; each is given to a key by weight, then to one of the key's regions and
 * one of its hosts there, all alike, so what a host sees of a key is a Poisson stream too. A key's hosts are as many as its traffic needs, as
 * behind a balancer that keeps a client with its host. Hosts and regions are called at their ticks, each object at the time it asked for;
 * a host at once when a packet is denied or finds the bucket low. Messages take a millisecond within a region and half the round
 * trip between regions. Clocks are exact and nothing fails: that is what `make sim` is for. The law is checked at every admission of every
 * key, against a bucket that sees all at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/scale_model.h"

#define MS SCALE_NS_PER_MS
#define R SCALE_REGIONS

static const char usage[] =
	"usage: bench-lease-scale [--json] [--quick] [--seconds N] [--curve FILE]\n"
	"\n"
	"A fleet of a thousand hosts in five regions on virtual time: messages at each tier, service, the law, memory; and what the same load\n"
	"would cost in other schemes. Takes a few minutes; says on stderr how far it is. Exits with 1 if the law is broken anywhere.\n"
	"\n"
	"  --json        JSON lines, else the same as text\n"
	"  --quick       a hundredth of the keys and requests, to see that everything works\n"
	"  --seconds N   virtual seconds measured of the large load, after six of warming up (6)\n"
	"  --curve FILE  instead: one hot rule with an rpc_budget for reports every 0.5 .. 20 s; writes the points as JSON\n"
	"\n"
	"Lines. keys_per_s counts each key in a message, messages_per_s what a stream sends: all that is said in a millisecond, up to\n"
	"512 keys.\n"
	"In scale_served, of_limit is what keys above their limit were admitted, of what a limiter admits that sees all at once;\n"
	"below_limit the same of the other keys, with and without the first packet of a key at a host: it finds no lease there and is denied.\n"
	"In scale_compare, A is the number of keys with a request within a period T, R the number of regions, a(k) the number of regions\n"
	"other than its home where key k has some. A message is about one key, from one region to another:\n"
	"\n"
	"  broadcast    A R (R-1) / T   each region tells each other what it counted of every active key, every T\n"
	"  owner        sum a(k) / T    each region tells the key's home alone\n"
	"  leases       measured        reports to homes elsewhere; grants are the same number again, and pushes\n"
	"\n"
	"Of keys in one region, not their home, broadcast costs R (R-1) = 20 times as much as an owner; of keys everywhere R = 5 times.\n"
	"Neither broadcasting nor reporting to an owner keeps the limit: what is admitted before the others know goes above it. Leases do.\n";

static bool is_json;

static int fail(const char *what, int r)
{
	fprintf(stderr, "bench-lease-scale: %s: %s\n", what, strerror(-r));
	return 1;
}

/* A line: its name, then name and value in turns, up to a NULL. Values are doubles. */
static void print_line(const char *name, ...)
{
	const char *key;
	va_list ap;

	va_start(ap, name);
	printf(is_json ? "{\"case\":\"%s\"" : "%-22s", name);
	while ((key = va_arg(ap, const char *))) {
		double value = va_arg(ap, double);
		int digits = value != 0 && value > -100 && value < 100 ? 4 : 0;

		printf(is_json ? ",\"%s\":%.*f" : "  %s %.*f", key, digits, value);
	}
	puts(is_json ? "}" : "");
	va_end(ap);
	fflush(stdout);
}

static double part(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

/* ---- the large load ---- */

static void print_tiers(const struct scale_load *l, const struct scale_result *r)
{
	static const char *const names[_SCALE_TIER_N] = {
		[HOST_TO_REGION] = "scale_host_to_region", [REGION_TO_HOST] = "scale_region_to_host",
		[REGION_TO_HOME] = "scale_region_to_home", [HOME_TO_REGION] = "scale_home_to_region",
		[OWN_ASKS] = "scale_own_asks", [OWN_GRANTS] = "scale_own_grants",
	};

	for (int i = 0; i < _SCALE_TIER_N; i++) {
		const struct scale_traffic *t = &r->tiers[i];

		print_line(names[i], "keys_per_s", part(t->keys, l->run_s), "messages_per_s", part(t->messages, l->run_s), "bytes_per_s",
			   part(t->bytes, l->run_s), "bytes_per_key", part(t->bytes, t->keys), NULL);
	}
}

/* Messages about keys between regions, a second. */
struct compared {
	double broadcast, owner, owner_away, reports, grants;
};

static struct compared compare(const struct scale_load *l, const struct scale_result *r)
{
	double period_s = (double)r->period_ns / 1e9;

	return (struct compared){
		.broadcast = (double)r->active_keys * R * (R - 1) / period_s,
		.owner = (double)r->away_parts / period_s,
		.owner_away = (double)(r->active_parts - r->everywhere_keys) / period_s,
		.reports = part(r->tiers[REGION_TO_HOME].keys, l->run_s),
		.grants = part(r->tiers[HOME_TO_REGION].keys, l->run_s),
	};
}

static void print_compared(const char *name, const struct scale_load *l, const struct scale_result *r)
{
	struct compared c = compare(l, r);

	print_line(name, "active_keys", (double)r->active_keys, "period_s", (double)r->period_ns / 1e9, "broadcast_per_s", c.broadcast,
		   "owner_per_s", c.owner, "lease_reports_per_s", c.reports, "lease_grants_per_s", c.grants, "broadcast_by_owner",
		   c.owner > 0 ? c.broadcast / c.owner : 0, "broadcast_by_owner_elsewhere", c.owner_away > 0 ? c.broadcast / c.owner_away : 0,
		   "broadcast_by_leases", c.reports > 0 ? c.broadcast / (c.reports + c.grants) : 0, NULL);
}

static void print_memory(const struct scale_result *r)
{
	uint64_t n = r->n_lessees + r->n_regions + r->n_homes;

	print_line("scale_memory", "host_keys", (double)r->n_lessees, "region_keys", (double)r->n_regions, "home_keys", (double)r->n_homes,
		   "pool_used_mb", (double)r->pool_used_bytes / 1e6, "pool_held_mb", (double)r->pool_held_bytes / 1e6, "bytes_per_object",
		   part(r->pool_used_bytes, n), "resident_mb", (double)r->resident_bytes / 1e6, "model_mb", (double)r->model_bytes / 1e6, NULL);
}

/* The law: 1 if it is broken. */
static int check_law(const struct scale_result *r)
{
	if (r->worst_over_tok <= 0)
		return 0;
	fprintf(stderr, "bench-lease-scale: %" PRId64 " tokens above the limit were admitted\n", r->worst_over_tok);
	return 1;
}

static int run_large(bool quick, uint32_t seconds)
{
	const struct scale_load l = {
		.n_keys = quick ? 10000 : 1000000,
		.hosts = 200,
		.requests_per_s = quick ? 10000 : 1000000,
		.zipf = 1,
		.key_per_host_per_s = 10,
		.share_two = 0.1,
		.share_all = 0.05,
		.limit_tok = 10000,
		.burst_tok = 10000,
		.warm_s = quick ? 4 : 6,
		.run_s = quick ? 2 : seconds,
		.seed = 1,
	};
	struct scale_result r;
	int err = scale_run(&l, &r);

	if (err < 0)
		return fail("the large load", err);
	print_line("scale_load", "hosts", (double)l.hosts * R, "regions", (double)R, "keys", (double)l.n_keys, "requests_per_s",
		   l.requests_per_s, "virtual_s", (double)l.run_s, "cpu_s_per_virtual_s", r.cpu_s / (l.warm_s + l.run_s), NULL);
	print_tiers(&l, &r);
	print_line("scale_overshoot", "worst_tok", (double)r.worst_over_tok, "admissions", (double)r.admissions, NULL);
	print_line("scale_served", "of_limit", part(r.above_admitted, r.above_perfect), "below_limit", part(r.below_admitted, r.below_perfect),
		   "below_limit_but_first", part(r.below_admitted, r.below_perfect - r.first_denied), NULL);
	print_memory(&r);
	print_compared("scale_compare", &l, &r);
	return check_law(&r);
}

/* ---- smaller loads, each to show one thing ---- */

static struct scale_load small_load(bool quick)
{
	return (struct scale_load){
		.n_keys = quick ? 200 : 20000,
		.hosts = 200,
		.requests_per_s = quick ? 1000 : 100000,
		.limit_tok = 10000,
		.burst_tok = 10000,
		.warm_s = 6,
		.run_s = quick ? 3 : 12,
		.seed = 2,
	};
}

/* Cost follows the keys that are active, not what is asked of them. */
static int run_active(bool quick)
{
	static const struct {
		const char *name;
		double requests, keys;
	} rows[] = { { "scale_active", 1, 1 }, { "scale_twice_requests", 2, 1 }, { "scale_twice_keys", 2, 2 } };
	double base = 0;

	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct scale_load l = small_load(quick);
		struct scale_result r;
		double per_s = 0;
		int err;

		l.requests_per_s *= rows[i].requests;
		l.n_keys = (uint32_t)(l.n_keys * rows[i].keys);
		err = scale_run(&l, &r);
		if (err < 0)
			return fail(rows[i].name, err);
		for (int t = 0; t < _SCALE_TIER_N; t++)
			per_s += part(r.tiers[t].keys, l.run_s);
		base = i ? base : per_s;
		print_line(rows[i].name, "requests_per_s", l.requests_per_s, "active_keys", (double)r.active_keys, "keys_per_s", per_s,
			   "by_first", per_s / base, "served", part(r.below_admitted, r.below_perfect), NULL);
		if (check_law(&r))
			return 1;
	}
	return 0;
}

static int run_compared(bool quick)
{
	static const struct {
		const char *name;
		double share_all;
	} rows[] = { { "scale_one_region", 0 }, { "scale_everywhere", 1 } };

	for (size_t i = 0; i < N_ELEMS(rows); i++) {
		struct scale_load l = small_load(quick);
		struct scale_result r;
		int err;

		l.share_all = rows[i].share_all;
		l.requests_per_s *= l.share_all > 0 ? 2 : 1;
		err = scale_run(&l, &r);
		if (err < 0)
			return fail(rows[i].name, err);
		print_compared(rows[i].name, &l, &r);
		if (check_law(&r))
			return 1;
	}
	return 0;
}

/* ---- the curve ---- */

static int run_curve(const char *path, bool quick)
{
	static const double periods_s[] = { 0.5, 1, 2, 3, 5, 8, 12, 20 };
	struct scale_load l = { .n_keys = 1, .hosts = 4, .requests_per_s = 150, .key_per_host_per_s = 1, .share_all = 1,
				.limit_tok = 10000, .burst_tok = 40000, .warm_s = 60, .run_s = quick ? 60 : 600, .seed = 3 };
	FILE *f = fopen(path, "we");

	if (!f)
		return fail(path, -errno);
	fprintf(f, "{\"rule\":\"%" PRIu64 "/1m burst %" PRIu64 "\",\"arrival_per_s\":%.0f,\"regions\":%u,\"hosts\":%u,\"points\":[",
		l.limit_tok, l.burst_tok, l.requests_per_s, R, R * l.hosts);
	for (size_t i = 0; i < N_ELEMS(periods_s); i++) {
		struct scale_result r;
		double reports;
		int err;

		l.rpc_budget_mps = (uint32_t)(R * 1000 / periods_s[i]);
		err = scale_run(&l, &r);
		if (err < 0 || check_law(&r)) {
			fclose(f);
			return err < 0 ? fail("the curve", err) : 1;
		}
		reports = part(r.tiers[REGION_TO_HOME].keys + r.tiers[OWN_ASKS].keys, l.run_s);
		fprintf(f,
			"%s\n{\"period_s\":%g,\"reports_per_s\":%.4f,\"worst_outstanding_tok\":%" PRIu64 ",\"product\":%.1f,"
			"\"served\":%.4f}",
			i ? "," : "", (double)r.period_ns / 1e9, reports, r.worst_outstanding_tok, reports * (double)r.worst_outstanding_tok,
			part(r.below_admitted, r.below_perfect));
		print_line("scale_curve", "period_s", (double)r.period_ns / 1e9, "reports_per_s", reports, "worst_outstanding_tok",
			   (double)r.worst_outstanding_tok, "product", reports * (double)r.worst_outstanding_tok, "served",
			   part(r.below_admitted, r.below_perfect), NULL);
	}
	fprintf(f, "\n]}\n");
	return fclose(f) ? fail(path, -errno) : 0;
}

int main(int argc, char **argv)
{
	const char *curve = NULL;
	uint32_t seconds = 6;
	bool quick = false, wrong = false;
	int r;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--help")) {
			fputs(usage, stdout);
			return 0;
		}
		if (!strcmp(argv[i], "--json"))
			is_json = true;
		else if (!strcmp(argv[i], "--quick"))
			quick = true;
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--curve") && i + 1 < argc)
			curve = argv[++i];
		else
			wrong = true;
	}
	if (wrong || !seconds || seconds > 3600) {
		fputs(usage, stderr);
		return 2;
	}
	if (curve)
		return run_curve(curve, quick);
	r = run_large(quick, seconds);
	if (r == 0)
		r = run_active(quick);
	return r ? r : run_compared(quick);
}
