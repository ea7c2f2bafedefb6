// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Refusals are counted by key to the packet, whichever CPU adds up which of them: a flood of one key among others, keys that take turns,
 * keys that leave, and the agent booking all the time. Up to a batch a CPU waits to be booked, never more.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "progs_shared.h"

#define N_OTHERS 5

static struct lg_pkt_buf from(uint32_t host)
{
	struct lg_pkt_buf pkt;
	char source[32];

	snprintf(source, sizeof(source), "10.0.0.%u", host);
	lg_pkt_udp4(&pkt, source, "192.0.2.1", 53, 20);
	return pkt;
}

static struct lg_key key_of(uint32_t host)
{
	char source[32];

	snprintf(source, sizeof(source), "10.0.0.%u", host);
	return progs_key(1, source);
}

/* What is booked, without what waits. */
static uint64_t booked_of(uint32_t host, bool in_lines)
{
	struct lg_key key = key_of(host);
	struct lg_line_key note;
	struct lg_bucket bucket;

	if (!in_lines) {
		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.buckets), &key, &bucket), 0);
		return bucket.denied_tok;
	}
	for (uint32_t slot = 0; slot < LG_LINE_SLOTS; slot++) {
		assert_int_equal(bpf_map_lookup_elem(bpf_map__fd(p->skel->maps.line_keys), &slot, &note), 0);
		if (!memcmp(&note.key, &key, sizeof(key)))
			return note.denied_tok;
	}
	fail_msg("10.0.0.%u has no slot", host);
	return 0;
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* A rule of one token: each key's first packet passes. */
static void begin(bool in_lines)
{
	struct lg_rule *rule;

	progs_reset(p);
	rule = progs_rule(p, 1);
	if (in_lines)
		progs_in_lines(p, rule, 1, START_NS);
	progs_publish(p);
	for (uint32_t host = 1; host <= 1 + N_OTHERS; host++) {
		struct lg_pkt_buf pkt = from(host);

		assert_true(progs_run(p, LG_HOOK_XDP, &pkt));
	}
}

static void refuse(uint32_t host, uint32_t n)
{
	struct lg_pkt_buf pkt = from(host);

	for (uint32_t i = 0; i < n; i++)
		assert_false(progs_run(p, LG_HOOK_XDP, &pkt));
}

static void a_flood_of_one_key_is_booked_a_batch_at_a_time(void **state)
{
	(void)state;
	stay_on(0);
	for (int in_lines = 0; in_lines < 2; in_lines++) {
		begin(in_lines);
		/* Until it is known for a flood it is booked at once. */
		refuse(1, LG_DENIALS_MISSES);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES);
		refuse(1, LG_DENIALS_MAX - 1);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES);
		refuse(1, 1);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES + LG_DENIALS_MAX);
		refuse(1, 7);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES + LG_DENIALS_MAX);
		progs_book(p);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES + LG_DENIALS_MAX + 7);
		progs_book(p);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES + LG_DENIALS_MAX + 7);
	}
}

static void others_are_booked_at_once_and_the_flood_goes_on(void **state)
{
	(void)state;
	stay_on(0);
	for (int in_lines = 0; in_lines < 2; in_lines++) {
		begin(in_lines);
		refuse(1, LG_DENIALS_MISSES);
		for (uint32_t i = 0; i < 20; i++) {
			refuse(1, 3);
			refuse(2 + i % N_OTHERS, LG_DENIALS_MISSES - 1);
		}
		for (uint32_t host = 2; host < 2 + N_OTHERS; host++)
			assert_int_equal(booked_of(host, in_lines), 20 / N_OTHERS * (LG_DENIALS_MISSES - 1));
		assert_in_range(booked_of(1, in_lines), LG_DENIALS_MISSES, LG_DENIALS_MISSES + 60);
		progs_book(p);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES + 60);
	}
}

static void what_waits_is_booked_before_another_key_takes_the_place(void **state)
{
	(void)state;
	stay_on(0);
	for (int in_lines = 0; in_lines < 2; in_lines++) {
		begin(in_lines);
		refuse(1, LG_DENIALS_MISSES + 9);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES);
		refuse(2, LG_DENIALS_MISSES);
		assert_int_equal(booked_of(1, in_lines), LG_DENIALS_MISSES + 9);
		refuse(2, 5);
		assert_int_equal(booked_of(2, in_lines), LG_DENIALS_MISSES);
		progs_book(p);
		assert_int_equal(booked_of(2, in_lines), LG_DENIALS_MISSES + 5);
	}
}

static void what_waits_of_a_bucket_that_is_gone_goes_with_it(void **state)
{
	struct lg_key key = key_of(1);
	struct lg_pkt_buf pkt = from(1);

	(void)state;
	stay_on(0);
	begin(false);
	refuse(1, LG_DENIALS_MISSES + 9);
	assert_int_equal(bpf_map_delete_elem(bpf_map__fd(p->skel->maps.buckets), &key), 0);
	progs_book(p);
	assert_true(progs_run(p, LG_HOOK_XDP, &pkt));
	assert_int_equal(booked_of(1, false), 0);
	refuse(1, 3);
	assert_int_equal(progs_bucket(p, &key).denied_tok, 3);
}

/* ---- on all CPUs, while the agent books ---- */

struct flooder {
	pthread_t thread;
	int cpu;
	uint64_t n_of[2];
};

static atomic_bool is_over;

/* Two keys by turns, so that each takes the place again and again. */
static void *flood(void *arg)
{
	struct lg_pkt_buf pkt[2] = { from(1), from(2) };
	struct flooder *f = arg;

	stay_on(f->cpu);
	for (uint32_t i = 0; i < 60000; i++) {
		uint32_t which = (i / 400 + (uint32_t)f->cpu) & 1;

		f->n_of[which] += !progs_run(p, LG_HOOK_TC_INGRESS, &pkt[which]);
	}
	return NULL;
}

static void *book(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_over))
		progs_book(p);
	return NULL;
}

static void nothing_is_lost_or_booked_twice_while_cpus_and_agent_race(void **state)
{
	struct flooder f[2];
	pthread_t agent;

	(void)state;
	for (int in_lines = 0; in_lines < 2; in_lines++) {
		begin(in_lines);
		memset(f, 0, sizeof(f));
		atomic_store(&is_over, false);
		assert_int_equal(pthread_create(&agent, NULL, book, NULL), 0);
		for (int i = 0; i < 2; i++) {
			f[i].cpu = i % p->n_cpus;
			assert_int_equal(pthread_create(&f[i].thread, NULL, flood, &f[i]), 0);
		}
		for (int i = 0; i < 2; i++)
			assert_int_equal(pthread_join(f[i].thread, NULL), 0);
		atomic_store(&is_over, true);
		assert_int_equal(pthread_join(agent, NULL), 0);
		progs_book(p);
		for (uint32_t which = 0; which < 2; which++)
			assert_int_equal(booked_of(1 + which, in_lines), f[0].n_of[which] + f[1].n_of[which]);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_of_one_key_is_booked_a_batch_at_a_time),
		cmocka_unit_test(others_are_booked_at_once_and_the_flood_goes_on),
		cmocka_unit_test(what_waits_is_booked_before_another_key_takes_the_place),
		cmocka_unit_test(what_waits_of_a_bucket_that_is_gone_goes_with_it),
		cmocka_unit_test(nothing_is_lost_or_booked_twice_while_cpus_and_agent_race),
	};

	return cmocka_run_group_tests(tests, load, unload);
}
