// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fastpath_hot.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/if_link.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench_run.h"
#include "fastpath_case.h"

#define WINDOW_NS 40000000ull
#define REST_NS 12000000ull /* the machine is left to others for so long after a window */
#define CHUNK 20000         /* packets between two looks at the clock */
#define PINGS 3000
#define SPIN_MAX_NS 200000000ull
#define NEAR_MAX_NS 60.0
#define FAR_MIN_NS 100.0
#define SAMPLES_MAX 1024
#define LO_IFINDEX 1

static const struct lg_bench_case cases[] = {
	{ "hot2_exact_admit", LG_BENCH_DECIDE, 1, 64, LG_BENCH_EXACT, "    table: exact\n    limit: 1/1s\n    burst: 1000000000000\n",
	  LG_PASS_ADMITTED, XDP_PASS },
	{ "hot2_exact_deny", LG_BENCH_DECIDE, 1, 64, LG_BENCH_EXACT, "    table: exact\n    limit: 1/1h\n", LG_DROP_LIMIT, XDP_DROP },
	{ "hot2_lines_admit", LG_BENCH_DECIDE, 1, 64, LG_BENCH_LINES, "    table: lines\n    limit: 1/1s\n    burst: 200000000000\n",
	  LG_PASS_ADMITTED, XDP_PASS },
	{ "hot2_lines_deny", LG_BENCH_DECIDE, 1, 64, LG_BENCH_LINES, "    table: lines\n    limit: 1/1h\n", LG_DROP_LIMIT, XDP_DROP },
};
#define N_CASES N_ELEMS(cases)

enum distance { NEAR,
		FAR,
		_DISTANCE_N };
static const char *const distance_names[] = { "near", "far" };

struct samples {
	double ratio[SAMPLES_MAX];
	uint32_t n;
};

/* ---- how far apart the CPUs are ---- */

struct pinger {
	_Alignas(64) _Atomic int ball;
	_Alignas(64) _Atomic int is_ready;
};

static void pin(int cpu)
{
	struct sched_param realtime = { .sched_priority = 1 };
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &realtime);
}

static void unpin(void)
{
	struct sched_param usual = { 0 };
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	pthread_setschedparam(pthread_self(), SCHED_OTHER, &usual);
	pthread_setaffinity_np(pthread_self(), sizeof(all), &all);
}

/* Waits until *word is `want`; a real-time thread never spins without an end. */
static bool spin_until(_Atomic int *word, int want)
{
	uint64_t end_ns = 0;

	for (uint32_t i = 0; *word != want; i++) {
		if (i & 0xffff)
			continue;
		if (!end_ns)
			end_ns = lg_clock_now_ns() + SPIN_MAX_NS;
		else if (lg_clock_now_ns() > end_ns)
			return false;
	}
	return true;
}

static void *ping_back(void *arg)
{
	struct pinger *p = arg;

	pin(0);
	p->is_ready = 1;
	for (int i = 0; i < PINGS && spin_until(&p->ball, 1); i++)
		p->ball = 0;
	return NULL;
}

/* ns that a line of memory takes from one CPU to the other, or -1. */
static double ping_ns(void)
{
	struct pinger p = { 0 };
	bool good = true;
	pthread_t thread;
	uint64_t ns;

	if (pthread_create(&thread, NULL, ping_back, &p))
		return -1;
	pin(1); /* not before: a new thread takes over CPU and priority, and would wait for this one for ever */
	good = spin_until(&p.is_ready, 1);
	ns = lg_clock_now_ns();
	for (int i = 0; good && i < PINGS; i++) {
		p.ball = 1;
		good = spin_until(&p.ball, 0);
	}
	ns = lg_clock_now_ns() - ns;
	unpin();
	pthread_join(thread, NULL);
	return good ? (double)ns / (2 * PINGS) : -1;
}

/* -1: neither. */
static int distance_of(double ns)
{
	return ns < 0 ? -1 : ns <= NEAR_MAX_NS ? NEAR
		     : ns >= FAR_MIN_NS        ? FAR
					       : -1;
}

/* ---- a window ---- */

struct worker {
	pthread_t thread;
	const struct lg_bench_case *c;
	const struct fastpath_bpf *skel;
	int cpu;
	_Atomic int *go;
	double per_s;
	int result;
};

static void *work(void *arg)
{
	uint64_t start_ns, end_ns, n = 0;
	struct worker *w = arg;
	double ns;

	pin(w->cpu);
	if (!spin_until(w->go, 1)) {
		w->result = -1;
		return NULL;
	}
	start_ns = end_ns = lg_clock_now_ns();
	while (!w->result && end_ns - start_ns < WINDOW_NS) {
		w->result = lg_bench_run(w->c, w->skel, CHUNK, (uint32_t)n, &ns);
		n += CHUNK;
		end_ns = lg_clock_now_ns();
	}
	w->per_s = (double)n * 1e9 / (double)(end_ns - start_ns);
	return NULL;
}

/* Packets per second of n CPUs, 0 and up. */
static int run_window(const struct lg_bench_case *c, const struct fastpath_bpf *skel, int n, double *ret_per_s)
{
	struct timespec rest = { .tv_nsec = REST_NS };
	struct worker workers[2];
	_Atomic int go = 0;
	int r = 0, i, made;

	for (made = 0; made < n; made++) {
		workers[made] = (struct worker){ .c = c, .skel = skel, .cpu = made, .go = &go };
		if (pthread_create(&workers[made].thread, NULL, work, &workers[made]))
			break;
	}
	go = 1;
	*ret_per_s = 0;
	for (i = 0; i < made; i++) {
		pthread_join(workers[i].thread, NULL);
		*ret_per_s += workers[i].per_s;
		r |= workers[i].result;
	}
	nanosleep(&rest, NULL);
	return made == n ? r : -1;
}

static int sample(const struct lg_bench_case *c, const struct fastpath_bpf *skel, struct samples samples[_DISTANCE_N])
{
	int before, after, r;
	double one, two;

	before = distance_of(ping_ns());
	r = run_window(c, skel, 1, &one);
	if (!r)
		r = run_window(c, skel, 2, &two);
	after = distance_of(ping_ns());
	if (!r && before >= 0 && before == after && samples[before].n < SAMPLES_MAX)
		samples[before].ratio[samples[before].n++] = two / one;
	return r;
}

/* ---- the run ---- */

static void print_case(const struct lg_bench_case *c, enum distance distance, struct samples *s, bool is_json)
{
	qsort(s->ratio, s->n, sizeof(s->ratio[0]), lg_bench_by_value);
	if (!s->n && is_json)
		printf("{\"case\":\"%s_%s\",\"ratio\":null,\"samples\":0}\n", c->name, distance_names[distance]);
	else if (!s->n)
		printf("%s_%-8s was not seen\n", c->name, distance_names[distance]);
	else if (is_json)
		printf("{\"case\":\"%s_%s\",\"ratio\":%.3f,\"min\":%.3f,\"max\":%.3f,\"samples\":%u}\n", c->name, distance_names[distance],
		       s->ratio[s->n / 2], s->ratio[0], s->ratio[s->n - 1], s->n);
	else
		printf("%s_%-4s %6.2f x one CPU   [%.2f - %.2f]\n", c->name, distance_names[distance], s->ratio[s->n / 2], s->ratio[0],
		       s->ratio[s->n - 1]);
}

int lg_bench_hot(uint32_t rounds, uint32_t seed, bool is_json)
{
	_cleanup_free_ struct samples(*samples)[_DISTANCE_N] = calloc(N_CASES, sizeof(*samples));
	struct fastpath_bpf *skel[N_CASES] = { NULL };
	int r = samples ? 0 : -1;
	size_t i;

	for (i = 0; !r && i < N_CASES; i++)
		r = lg_bench_open(&cases[i], &skel[i]);
	for (uint32_t k = 0; !r && k < rounds * N_CASES; k++) {
		i = (k + seed) % N_CASES;
		r = bpf_xdp_attach(LO_IFINDEX, lg_bench_fd(&cases[i], skel[i]), XDP_FLAGS_SKB_MODE, NULL);
		if (!r)
			r = sample(&cases[i], skel[i], samples[i]);
		bpf_xdp_detach(LO_IFINDEX, XDP_FLAGS_SKB_MODE, NULL);
	}
	for (i = 0; i < N_CASES; i++) {
		if (!r && !lg_bench_is_honest(&cases[i], skel[i])) {
			fprintf(stderr, "bench-fastpath: %s: packets did not go the way the case says\n", cases[i].name);
			r = -1;
		}
		for (enum distance d = NEAR; !r && d < _DISTANCE_N; d++)
			print_case(&cases[i], d, &samples[i][d], is_json);
		lg_bench_close(skel[i]);
	}
	return r ? -1 : 0;
}
