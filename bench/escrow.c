// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What homes of strict rules write to a real etcd: a million admitted tokens a second, then two million, over many keys and over few.
 *
 * The homes, their marks, the pages and the store are those that run in production, in real time; the load is virtual: three regions lease each
 * key, spend what they hold at their part of the rate, and report and ask once a period. etcd counts as well: each transaction is a revision.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lease/arith.h"
#include "loop/loop.h"
#include "role/escrow_book.h"
#include "tests/lib/etcd.h"

#define REGIONS 3u
#define RATE 1e6	/* tokens a second, all keys together */
#define WARM_NS (5 * LG_NS_PER_S)
#define RUN_NS (12 * LG_NS_PER_S)
#define TICK_NS (10 * LG_NS_PER_MS)
#define RATIO_MAX 1.1
#define ADMITTED_MIN 0.97

static const char usage[] =
	"usage: bench-escrow [--check]\n"
	"\n"
	"Writes per second to a real etcd (build/etcd, scripts/fetch-etcd) while 1,000,000 and 2,000,000 tokens a second are admitted of\n"
	"strict rules, of 1,000 and of 100 keys: JSON lines. Takes a good minute; wants a network namespace of its own (scripts/sandbox).\n"
	"\n"
	"  --check   exit 1 if they are more than keys / period, or not the same (within a tenth) when the rate doubles\n";

struct region {
	uint64_t seq;
	uint64_t granted_tok, spent_tok;
	uint32_t generation;
	uint64_t at_ns, ask_ns;
	double owed_tok;	/* of the rate: a part of a token */
};

struct bench;

struct key {
	struct bench *bench;
	struct lg_home *home;
	struct lg_escrow_entry entry;
	uint64_t due_ns;
	struct region regions[REGIONS];
};

struct bench {
	uint32_t n_keys;
	double rate;	/* of a region of a key, tokens a second */
	struct lg_terms terms;
	struct lg_lessor lessor;
	struct lg_loop *loop;
	struct lg_store *store;
	struct lg_source *ticker;
	struct lg_escrow_book *book;
	struct key *keys;
	uint64_t rand;
	uint64_t begin_ns, measure_ns;
	uint64_t spent_tok;
	struct lg_escrow_book_counts before;
	uint64_t spent_before_tok, revision_before;
};

struct result {
	double admitted_per_s, writes_per_s, commits_per_s, revisions_per_s, bytes_per_s, bound_per_s;
};

static double chance(struct bench *b)
{
	return (double)(lg_rand_next(&b->rand) >> 11) * 0x1p-53;
}

/* ---- the regions ---- */

static void on_grant(void *arg, uint32_t holder, const struct lg_grant *grant)
{
	struct region *r = &((struct key *)arg)->regions[holder];

	if (grant->generation > r->generation) {
		r->generation = grant->generation;
		r->granted_tok = r->spent_tok = 0;
	}
	if (grant->generation == r->generation)
		r->granted_tok = lg_max_u64(r->granted_tok, grant->granted_tok);
}

static void on_reserve(void *arg)
{
	struct key *k = arg;

	lg_escrow_book_due(k->bench->book, &k->entry);
}

static struct lg_home_effects effects(struct key *k)
{
	return (struct lg_home_effects){ .arg = k, .grant = on_grant, .reserve = on_reserve };
}

static void spend(struct bench *b, struct region *r, uint64_t now_ns)
{
	uint64_t tok;

	r->owed_tok += b->rate * (double)(now_ns - r->at_ns) / 1e9;
	r->at_ns = now_ns;
	tok = lg_min_u64((uint64_t)r->owed_tok, r->granted_tok - r->spent_tok);
	r->spent_tok += tok;
	b->spent_tok += tok;
	r->owed_tok = fmod(r->owed_tok, 1);	/* what finds no token is refused */
}

/* Once a period, give or take a seventh. */
static void ask(struct bench *b, struct key *k, uint32_t i, uint64_t now_ns)
{
	struct lg_home_effects fx = effects(k);
	struct region *r = &k->regions[i];
	struct lg_ask ask = {
		.seq = ++r->seq, .life = 1, .epoch = 1, .generation = r->generation, .request = true, .granted_tok = r->granted_tok,
		.spent_tok = r->spent_tok, .demand_mtps = (uint64_t)(b->rate * 1000),
		.want_tok = (uint64_t)(1.6 * b->rate * (double)b->terms.region_period_ns / 1e9), .kind = LG_LEASE_BLOCK,
	};

	lg_home_ask(k->home, i, 1, &ask, now_ns, &fx);
	r->ask_ns = now_ns + lg_rand_jitter(&b->rand, b->terms.region_period_ns);
}

/* ---- the home ---- */

static void on_marked(void *arg, struct lg_escrow_entry *e, bool is_durable)
{
	struct key *k = (struct key *)((char *)e - offsetof(struct key, entry));
	struct lg_home_effects fx = effects(k);

	(void)arg;
	k->due_ns = lg_home_marked(k->home, is_durable, lg_clock_now_ns(), &fx);
}

static size_t on_covers(void *arg, uint32_t slot, uint64_t ret[LG_RULES_MAX])
{
	(void)arg;
	(void)slot;
	(void)ret;
	return 0;
}

static uint64_t newest_revision(struct bench *b)
{
	static uint8_t page[LG_ESCROW_PAGE_MAX];
	uint64_t newest = 0, revision;
	char key[16];
	size_t len;

	for (uint32_t slot = 0; slot < LG_KEY_SLOTS; slot++) {
		snprintf(key, sizeof(key), "escrow/%03u", slot);
		if (lg_store_get(b->store, key, page, sizeof(page), &len, &revision) == 0)
			newest = lg_max_u64(newest, revision);
	}
	return newest;
}

static void key_tick(struct bench *b, struct key *k, uint64_t now_ns)
{
	struct lg_home_effects fx = effects(k);

	for (uint32_t i = 0; i < REGIONS; i++) {
		spend(b, &k->regions[i], now_ns);
		if (now_ns >= k->regions[i].ask_ns)
			ask(b, k, i, now_ns);
	}
	if (now_ns >= k->due_ns)
		k->due_ns = lg_home_tick(k->home, now_ns, &fx);
}

static void on_tick(void *arg)
{
	struct bench *b = arg;
	uint64_t now_ns = lg_clock_now_ns();

	for (uint32_t i = 0; i < b->n_keys; i++)
		key_tick(b, &b->keys[i], now_ns);
	lg_escrow_book_tick(b->book, now_ns);
	if (!b->measure_ns && now_ns >= b->begin_ns + WARM_NS) {
		b->measure_ns = now_ns;
		b->spent_before_tok = b->spent_tok;
		b->revision_before = newest_revision(b);
		lg_escrow_book_counts(b->book, &b->before);
	}
	if (b->measure_ns && now_ns >= b->measure_ns + RUN_NS)
		lg_loop_stop(b->loop, 0);
}

/* ---- begin and end ---- */

static int key_begin(struct bench *b, uint32_t number, uint64_t now_ns)
{
	struct key *k = &b->keys[number];
	struct lg_home_past past = { 0 };
	uint8_t bytes[LG_KEY_BYTES_MAX], a[16] = { 0 }, none[16] = { 0 };
	size_t len;

	memcpy(a, &number, sizeof(number));
	len = lg_key_bytes("bench", 1, a, none, bytes);
	k->bench = b;
	lg_escrow_id(1, bytes, len, k->entry.id);
	k->entry.slot = (uint16_t)lg_slot_of(bytes, len);
	k->entry.lessor = &b->lessor;
	if (lg_home_new_after(&b->lessor, &past, now_ns, &k->home) < 0)
		return -ENOMEM;
	k->entry.home = k->home;
	for (uint32_t i = 0; i < REGIONS; i++) {
		k->regions[i].at_ns = now_ns;
		k->regions[i].ask_ns = now_ns + (uint64_t)(chance(b) * (double)b->terms.region_period_ns);
	}
	lg_escrow_book_add(b->book, &k->entry);
	return 0;
}

static int keys_begin(struct bench *b)
{
	struct lg_escrow_book_options options = { .store = b->store, .writer = 1, .at_ns = lg_clock_now_ns(), .at_unix_ns = lg_clock_unix_ns(),
						  .marked = on_marked, .covers = on_covers, .arg = b };
	struct lg_complaint c = { 0 };
	int r = lg_escrow_book_new(&options, &b->book);

	b->begin_ns = options.at_ns;
	b->keys = calloc(b->n_keys, sizeof(*b->keys));
	if (!b->keys)
		return -ENOMEM;
	for (uint32_t slot = 0; r == 0 && slot < LG_KEY_SLOTS; slot++)
		r = lg_escrow_book_open(b->book, slot, b->begin_ns, &c);
	for (uint32_t i = 0; r == 0 && i < b->n_keys; i++)
		r = key_begin(b, i, b->begin_ns);
	return r < 0 ? r : lg_loop_add_ticker(b->loop, TICK_NS, on_tick, b, &b->ticker);
}

static void on_store(void *arg)
{
	struct bench *b = arg;

	if (!b->book && lg_store_here_until_ns(b->store) > lg_clock_now_ns() && keys_begin(b) < 0)
		lg_loop_stop(b->loop, 1);
}

static void bench_free(struct bench *b)
{
	lg_source_free(b->ticker);
	lg_store_free(b->store);
	for (uint32_t i = 0; b->keys && i < b->n_keys; i++)
		lg_home_free(b->keys[i].home);
	lg_escrow_book_free(b->book);
	free(b->keys);
	lg_loop_free(b->loop);
}

/* A rule that holds 2.5 times the slower rate, so that both are below it. */
static void terms_set(struct bench *b, uint32_t n_keys)
{
	struct lg_rule_def rule = { .scope = LG_SCOPE_GLOBAL, .class = LG_CLASS_STRICT, .algorithm = LG_TOKEN_BUCKET,
				    .limit_tok = (uint64_t)(25 * RATE) / n_keys, .per_ns = 10 * LG_NS_PER_S };

	rule.burst_tok = rule.limit_tok;
	lg_terms_init(&rule, &(struct lg_fleet){ .regions = REGIONS, .hosts = REGIONS }, &b->terms);
	b->lessor = (struct lg_lessor){ .terms = &b->terms, .reserves = true, .epoch = 1, .rand = 7 };
}

static struct result result_of(struct bench *b)
{
	double run_s = (double)(lg_clock_now_ns() - b->measure_ns) / 1e9;
	struct lg_escrow_book_counts now;

	lg_escrow_book_counts(b->book, &now);
	return (struct result){
		.admitted_per_s = (double)(b->spent_tok - b->spent_before_tok) / run_s,
		.writes_per_s = (double)(now.n_pages - b->before.n_pages) / run_s,
		.commits_per_s = (double)(now.n_commits - b->before.n_commits) / run_s,
		.revisions_per_s = (double)(newest_revision(b) - b->revision_before) / run_s,
		.bytes_per_s = (double)(now.n_bytes - b->before.n_bytes) / run_s,
		.bound_per_s = b->n_keys * 1e9 / (double)b->terms.escrow_period_ns,
	};
}

static int run(const struct etcd_cluster *cluster, uint32_t n_keys, double rate, struct result *ret)
{
	char path[64];
	struct bench b = { .n_keys = n_keys, .rate = rate / n_keys / REGIONS, .rand = 42 };
	struct lg_store_options options = { .driver = "etcd", .path = path, .n_endpoints = 1,
					    .endpoints = { etcd_endpoint(cluster, 0) } };
	struct lg_complaint c = { 0 };
	int r;

	snprintf(path, sizeof(path), "/bench/%u/%.0f/", n_keys, rate);
	terms_set(&b, n_keys);
	r = lg_loop_new(&b.loop);
	if (r == 0)
		r = lg_store_open(b.loop, &options, on_store, &b, &b.store, &c);
	if (r == 0)
		r = lg_store_join(b.store);
	if (r == 0)
		r = lg_loop_run(b.loop);
	if (r == 0)
		*ret = result_of(&b);
	bench_free(&b);
	return r;
}

static bool is_good(const struct result *slow, const struct result *fast, double ratio)
{
	return slow->writes_per_s <= slow->bound_per_s && fast->writes_per_s <= fast->bound_per_s && ratio <= RATIO_MAX &&
	       slow->admitted_per_s >= ADMITTED_MIN * RATE && fast->admitted_per_s >= ADMITTED_MIN * 2 * RATE;
}

static bool run_keys(const struct etcd_cluster *cluster, uint32_t n_keys)
{
	struct result results[2];
	double ratio;
	bool good;

	for (int i = 0; i < 2; i++) {
		struct result *r = &results[i];

		if (run(cluster, n_keys, (i + 1) * RATE, r) != 0) {
			fprintf(stderr, "bench-escrow: the run with %u keys failed\n", n_keys);
			return false;
		}
		printf("{\"bench\":\"escrow\",\"keys\":%u,\"admitted_per_s\":%.0f,\"writes_per_s\":%.1f,\"commits_per_s\":%.1f,"
		       "\"etcd_revisions_per_s\":%.1f,\"bytes_per_s\":%.0f,\"bound_per_s\":%.1f}\n",
		       n_keys, r->admitted_per_s, r->writes_per_s, r->commits_per_s, r->revisions_per_s, r->bytes_per_s, r->bound_per_s);
		fflush(stdout);
	}
	ratio = results[1].writes_per_s / results[0].writes_per_s;
	good = is_good(&results[0], &results[1], ratio);
	printf("{\"bench\":\"escrow_doubled\",\"keys\":%u,\"writes_ratio\":%.3f,\"good\":%s}\n", n_keys, ratio, good ? "true" : "false");
	fflush(stdout);
	return good;
}

int main(int argc, char **argv)
{
	bool check = argc == 2 && strcmp(argv[1], "--check") == 0, good;
	struct etcd_cluster *cluster;

	if (argc > 1 && !check) {
		fputs(usage, strcmp(argv[1], "--help") == 0 ? stdout : stderr);
		return strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	cluster = etcd_cluster_new(1, NULL);
	if (!cluster) {
		fprintf(stderr, "bench-escrow: there is no etcd: run scripts/fetch-etcd\n");
		return 77;
	}
	good = run_keys(cluster, 1000);
	good &= run_keys(cluster, 100);
	etcd_cluster_free(cluster);
	return check && !good ? 1 : 0;
}
