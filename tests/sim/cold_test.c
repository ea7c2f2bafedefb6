// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What keys start with, while nobody is there to lend: twelve hosts without their regions, a bucket of 96 that is minted in a minute, and
 * four tokens for each host to start with. All of them are asked for far more than that in pulses.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/sim.h"

#define MS 1000000ull
#define S (1000 * MS)
#define REGIONS 3
#define HOSTS 4
#define START_TOK 4
#define PULSE_S 0.5

static double pulse_every_s;

static double rate(const struct sim *s, uint32_t region, uint32_t host, double now_s)
{
	(void)region;
	(void)host;
	return fmod(now_s, pulse_every_s) < PULSE_S ? sim_config_of(s)->rate_max : 0;
}

/* Admitted by all hosts. */
static uint64_t admitted(double every_s, uint64_t end_s)
{
	struct lg_rule_def rule = { .algorithm = LG_TOKEN_BUCKET, .limit_tok = 96, .per_ns = 60 * S, .burst_tok = 96 };
	struct sim_config c = { .seed = 1, .n_regions = REGIONS, .hosts_per_region = HOSTS, .host_rtt_ns = MS, .clock_ppm = 1000 };
	_cleanup_(sim_free) struct sim *s = NULL;

	pulse_every_s = every_s;
	c.end_ns = end_s * S;
	c.rate = rate;
	c.rate_max = 200;
	c.batch = 1;
	c.cost_max_tok = 1;
	rule.lease.cold_start_tok = START_TOK;
	lg_terms_init(&rule, &(struct lg_fleet){ .regions = REGIONS, .hosts = REGIONS * HOSTS }, &c.terms);
	for (uint32_t i = 0; i < REGIONS; i++)
		c.rtt_ns[i] = MS;
	assert_int_equal(sim_new(&c, &s), 0);
	for (uint32_t i = 0; i < REGIONS * HOSTS; i++)
		sim_fault(s, SIM_CUT_HOST, i, 0, c.end_ns);
	sim_run(s);
	assert_string_equal(sim_result_of(s)->broken, "");
	return sim_result_of(s)->admitted;
}

static void keys_in_use_start_once(void **state)
{
	(void)state;
	assert_int_equal(admitted(13, 200), REGIONS * HOSTS * START_TOK);
	assert_int_equal(admitted(60, 200), REGIONS * HOSTS * START_TOK);
}

static void keys_unused_for_a_span_start_again(void **state)
{
	(void)state;
	assert_int_equal(admitted(63, 200), 4 * REGIONS * HOSTS * START_TOK);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_in_use_start_once),
		cmocka_unit_test(keys_unused_for_a_span_start_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
