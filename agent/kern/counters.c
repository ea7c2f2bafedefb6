// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Single words of the instance, and counters summed over CPUs. */
#include "kern/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static const __u32 zero = 0;

static int read_word(struct lg_kern *kern, enum lg_map map, void *ret)
{
	return bpf_map_lookup_elem(kern->map_fd[map], &zero, ret) < 0 ? -errno : 0;
}

static int write_word(struct lg_kern *kern, enum lg_map map, const void *value)
{
	return bpf_map_update_elem(kern->map_fd[map], &zero, value, BPF_ANY) < 0 ? -errno : 0;
}

int lg_kern_control_read(struct lg_kern *kern, struct lg_control *ret)
{
	return read_word(kern, LG_MAP_CONTROL, ret);
}

int lg_control_words(struct lg_kern *kern, struct lg_control **ret_words)
{
	void *words;

	if (!kern->control) {
		words = mmap(NULL, sizeof(*kern->control), PROT_READ | PROT_WRITE, MAP_SHARED, kern->map_fd[LG_MAP_CONTROL], 0);
		if (words == MAP_FAILED)
			return -errno;
		kern->control = words;
	}
	*ret_words = kern->control;
	return 0;
}

int lg_kern_control_set(struct lg_kern *kern, bool unparsable_drop, bool reachable, const uint8_t nat64[16])
{
	struct lg_control *words;
	int r;

	r = lg_control_words(kern, &words);
	if (r < 0)
		return r;
	__atomic_store_n(&words->unparsable_drop, unparsable_drop, __ATOMIC_RELAXED);
	__atomic_store_n(&words->reachable, reachable, __ATOMIC_RELAXED);
	if (memcmp(words->nat64, nat64, sizeof(words->nat64)) != 0)
		memcpy(words->nat64, nat64, sizeof(words->nat64));
	return 0;
}

bool lg_kern_bypass_is_on(const struct lg_bypass *bypass, uint64_t now_ns)
{
	return bypass->from_ns <= now_ns && now_ns < bypass->until_ns;
}

int lg_kern_bypass_read(struct lg_kern *kern, struct lg_bypass *ret)
{
	return read_word(kern, LG_MAP_BYPASS, ret);
}

int lg_kern_bypass_set(struct lg_kern *kern, const struct lg_bypass *bypass)
{
	return write_word(kern, LG_MAP_BYPASS, bypass);
}

int lg_kern_shared_read(struct lg_kern *kern, struct lg_shared *ret)
{
	return read_word(kern, LG_MAP_SHARED, ret);
}

/* Adds up n counts of each CPU; `from` holds them CPU by CPU. */
static void sum_cpus(const struct lg_count *from, int n_cpus, size_t n, struct lg_count *ret)
{
	memset(ret, 0, n * sizeof(*ret));
	for (int cpu = 0; cpu < n_cpus; cpu++) {
		for (size_t i = 0; i < n; i++, from++) {
			ret[i].packets += from->packets;
			ret[i].bytes += from->bytes;
		}
	}
}

/* Room for one per-CPU value of n counts. */
static int cpu_room(size_t n, struct lg_count **ret_counts, int *ret_n_cpus)
{
	int n_cpus = libbpf_num_possible_cpus();

	if (n_cpus < 0)
		return n_cpus;
	*ret_counts = calloc((size_t)n_cpus * n, sizeof(**ret_counts));
	if (!*ret_counts)
		return -ENOMEM;
	*ret_n_cpus = n_cpus;
	return 0;
}

int lg_kern_verdicts_read(struct lg_kern *kern, struct lg_count ret[_LG_HOOK_N][LG_REASON_SLOTS])
{
	_cleanup_free_ struct lg_count *counts = NULL;
	int r, n_cpus;

	r = cpu_room(1, &counts, &n_cpus);
	if (r < 0)
		return r;
	for (__u32 i = 0; i < _LG_HOOK_N * LG_REASON_SLOTS; i++) {
		if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_VERDICTS], &i, counts) < 0)
			return -errno;
		sum_cpus(counts, n_cpus, 1, &ret[i / LG_REASON_SLOTS][i % LG_REASON_SLOTS]);
	}
	return 0;
}

int lg_kern_later_fragments_read(struct lg_kern *kern, uint64_t ret[_LG_HOOK_N])
{
	int n_cpus = libbpf_num_possible_cpus();
	_cleanup_free_ uint64_t *cpus = NULL;

	if (n_cpus < 0)
		return n_cpus;
	cpus = calloc((size_t)n_cpus, sizeof(*cpus));
	if (!cpus)
		return -ENOMEM;
	for (__u32 hook = 0; hook < _LG_HOOK_N; hook++) {
		if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_LATER_FRAGMENTS], &hook, cpus) < 0)
			return -errno;
		ret[hook] = 0;
		for (int cpu = 0; cpu < n_cpus; cpu++)
			ret[hook] += cpus[cpu];
	}
	return 0;
}

int lg_kern_rule_counts_read(struct lg_kern *kern, uint32_t rule_id, struct lg_rule_counts *ret)
{
	const size_t n = sizeof(*ret) / sizeof(struct lg_count); /* that is all it has */
	_cleanup_free_ struct lg_count *counts = NULL;
	int r, n_cpus;

	if (rule_id == 0 || rule_id > kern->max_rules)
		return -EINVAL;
	r = cpu_room(n, &counts, &n_cpus);
	if (r < 0)
		return r;
	if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_RULE_COUNTS], &rule_id, counts) < 0)
		return -errno;
	sum_cpus(counts, n_cpus, n, (struct lg_count *)ret);
	return 0;
}

static int count_one(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	(void)key;
	(void)bucket;
	++*(uint32_t *)arg;
	return 0;
}

int lg_kern_keys_count(struct lg_kern *kern, uint32_t *ret_max, uint32_t *ret_used)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);
	uint32_t n = 0;
	int r;

	if (bpf_obj_get_info_by_fd(kern->map_fd[LG_MAP_BUCKETS], &info, &len) < 0)
		return -errno;
	r = lg_buckets_walk(kern, count_one, &n);
	if (r < 0)
		return r;
	*ret_max = info.max_entries;
	*ret_used = n;
	return 0;
}
