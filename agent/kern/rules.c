// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two rule sets with their classifiers, one in force. A packet reads control.active_set once and then those entries; a load
 * writes the others and turns the word. A packet that read the word before the last load may still be reading what is now the other
 * entry, so before it is written all packets on their way are waited for. The wait comes before the write, not after
 * the swap: then it holds whoever swapped last, also a process that crashed.
 */
#include "kern/internal.h"

#include <errno.h>
#include <string.h>

static const __u32 zero = 0;

/*
 * Programs at XDP and TC run inside RCU read sections, so one grace period of RCU outlasts all that had begun.
 * Userspace gets one by updating a map of maps: the kernel waits for running programs before that call returns, so that
 * the old inner map is known to be out of use. membarrier() would do as well, but not on machines with nohz_full.
 */
int lg_kern_grace(void)
{
	_cleanup_fd_ int inner = -1;
	_cleanup_fd_ int outer = -1;
	LIBBPF_OPTS(bpf_map_create_opts, opts);

	inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "lg_grace_inner", sizeof(__u32), sizeof(__u32), 1, NULL);
	if (inner < 0)
		return -errno;
	opts.inner_map_fd = (__u32)inner;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "lg_grace", sizeof(__u32), sizeof(__u32), 1, &opts);
	if (outer < 0)
		return -errno;
	return bpf_map_update_elem(outer, &zero, &inner, BPF_ANY) < 0 ? -errno : 0;
}

static int read_active(struct lg_kern *kern, struct lg_control *ret_control, struct lg_ruleset *ret_set)
{
	int r;

	r = lg_kern_control_read(kern, ret_control);
	if (r < 0)
		return r;
	if (ret_control->active_set > 1)
		return -EPROTO;
	return bpf_map_lookup_elem(kern->map_fd[LG_MAP_RULES], &ret_control->active_set, ret_set) < 0 ? -errno : 0;
}

static int read_names(struct lg_kern *kern, struct lg_rule_name *ret_names)
{
	for (__u32 id = 0; id <= LG_RULES_MAX; id++)
		if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_RULE_NAMES], &id, &ret_names[id]) < 0)
			return -errno;
	return 0;
}

int lg_kern_rules_read(struct lg_kern *kern, struct lg_ruleset *ret_set, struct lg_rule_name *ret_names)
{
	struct lg_control control;
	int r;

	r = read_active(kern, &control, ret_set);
	return r < 0 ? r : read_names(kern, ret_names);
}

int lg_kern_classifier_read(struct lg_kern *kern, struct lg_classifier *ret_classifier)
{
	struct lg_control control;
	int r;

	r = lg_kern_control_read(kern, &control);
	if (r < 0)
		return r;
	return bpf_map_lookup_elem(kern->map_fd[LG_MAP_CLASSIFIERS], &control.active_set, ret_classifier) < 0 ? -errno : 0;
}

static bool set_has(const struct lg_ruleset *set, __u32 rule_id)
{
	for (__u32 i = 0; i < set->n_rules && i < LG_RULES_MAX; i++)
		if (set->rules[i].rule_id == rule_id)
			return true;
	return false;
}

/* Nothing is charged to these: the rule is not in force. */
static int zero_overflow(struct lg_kern *kern, __u32 rule_id)
{
	_cleanup_free_ struct lg_bucket *buckets = NULL;
	_cleanup_free_ __u32 *keys = NULL;
	__u32 n = LG_OVERFLOW_BUCKETS;

	buckets = calloc(n, sizeof(*buckets));
	keys = calloc(n, sizeof(*keys));
	if (!buckets || !keys)
		return -ENOMEM;
	for (__u32 i = 0; i < n; i++)
		keys[i] = (rule_id - 1) * LG_OVERFLOW_BUCKETS + i;
	return bpf_map_update_batch(kern->map_fd[LG_MAP_OVERFLOW], keys, buckets, &n, NULL) < 0 ? -errno : 0;
}

static int zero_counts(struct lg_kern *kern, __u32 rule_id)
{
	_cleanup_free_ struct lg_rule_counts *counts = NULL;
	int n_cpus = libbpf_num_possible_cpus();

	if (n_cpus < 0)
		return n_cpus;
	counts = calloc((size_t)n_cpus, sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	return bpf_map_update_elem(kern->map_fd[LG_MAP_RULE_COUNTS], &rule_id, counts, BPF_ANY) < 0 ? -errno : 0;
}

static int check_set(const struct lg_kern *kern, const struct lg_ruleset *set)
{
	bool seen[LG_RULES_MAX + 1] = { false };

	if (set->n_rules > LG_RULES_MAX || set->n_pass > LG_RULES_MAX - set->n_rules)
		return -EINVAL;
	for (__u32 i = 0; i < set->n_rules; i++) {
		__u32 id = set->rules[i].rule_id;

		if (id == 0 || id > kern->max_rules || seen[id])
			return -EINVAL;
		seen[id] = true;
	}
	return 0;
}

/*
 * An id that had no name begins with nothing spent. A rule that is known keeps its levels, also across a crash in here:
 * its buckets are zeroed before its name is written.
 */
static int ready_new_rules(struct lg_kern *kern, const struct lg_ruleset *set, const struct lg_ruleset *old)
{
	for (__u32 i = 0; i < set->n_rules; i++) {
		__u32 id = set->rules[i].rule_id;
		struct lg_rule_name name;
		int r;

		if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_RULE_NAMES], &id, &name) < 0)
			return -errno;
		if (name.name[0] || set_has(old, id))
			continue;
		r = zero_overflow(kern, id);
		if (r == 0)
			r = zero_counts(kern, id);
		if (r == 0)
			r = lg_lines_zero(kern, set->rules[i].first_line, set->rules[i].n_lines);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * The log of all keys of a rule that find no room among the logs. It is made when there is room itself, now or at a later load; until
 * then such keys are denied.
 */
static int ready_logs(struct lg_kern *kern, const struct lg_ruleset *set)
{
	_cleanup_free_ struct lg_log *blank = calloc(1, sizeof(*blank));

	if (!blank)
		return -ENOMEM;
	for (__u32 i = 0; i < set->n_rules; i++) {
		struct lg_key key = { .rule_id = set->rules[i].rule_id, .form = LG_FORM_OVERFLOW };

		if (set->rules[i].algorithm != LG_RULE_SLIDING_LOG || set->rules[i].on_full != LG_ON_FULL_OVERFLOW)
			continue;
		if (bpf_map_update_elem(kern->map_fd[LG_MAP_LOGS], &key, blank, BPF_NOEXIST) < 0 && errno != EEXIST && errno != E2BIG)
			return -errno;
	}
	return 0;
}

static int write_names(struct lg_kern *kern, const struct lg_rule_name *names)
{
	for (__u32 id = 0; id <= LG_RULES_MAX; id++)
		if (bpf_map_update_elem(kern->map_fd[LG_MAP_RULE_NAMES], &id, &names[id], BPF_ANY) < 0)
			return -errno;
	return 0;
}

/* Copies the classifier in force into the other entry. A rule that it does not know could never match. */
static int keep_classifier(struct lg_kern *kern, __u32 active, __u32 other, __u32 n_rules)
{
	_cleanup_free_ struct lg_classifier *classifier = NULL;
	int fd = kern->map_fd[LG_MAP_CLASSIFIERS];

	classifier = malloc(sizeof(*classifier));
	if (!classifier)
		return -ENOMEM;
	if (bpf_map_lookup_elem(fd, &active, classifier) < 0)
		return -errno;
	if (classifier->n_rules != n_rules)
		return -EINVAL;
	return bpf_map_update_elem(fd, &other, classifier, BPF_ANY) < 0 ? -errno : 0;
}

/* What packets are decided by, in the entries not in force. */
static int write_other(struct lg_kern *kern, const struct lg_control *control, const struct lg_ruleset *set,
		       const struct lg_classifier *classifier)
{
	__u32 other = !control->active_set;

	__u32 n_known = set->n_rules + set->n_pass;

	if (classifier && classifier->n_rules != n_known)
		return -EINVAL;
	if (bpf_map_update_elem(kern->map_fd[LG_MAP_RULES], &other, set, BPF_ANY) < 0)
		return -errno;
	if (!classifier)
		return keep_classifier(kern, control->active_set, other, n_known);
	return bpf_map_update_elem(kern->map_fd[LG_MAP_CLASSIFIERS], &other, classifier, BPF_ANY) < 0 ? -errno : 0;
}

int lg_kern_rules_load(struct lg_kern *kern, const struct lg_ruleset *set, const struct lg_classifier *classifier,
		       const struct lg_rule_name *names)
{
	_cleanup_free_ struct lg_ruleset *old = NULL;
	struct lg_control control, *words;
	int r;

	old = malloc(sizeof(*old));
	if (!old)
		return -ENOMEM;
	r = lg_control_words(kern, &words);
	if (r == 0)
		r = check_set(kern, set);
	if (r == 0)
		r = read_active(kern, &control, old);
	if (r == 0)
		r = lg_kern_grace();
	if (r == 0)
		r = ready_new_rules(kern, set, old);
	if (r == 0)
		r = ready_logs(kern, set);
	if (r == 0)
		r = write_names(kern, names);
	if (r == 0)
		r = lg_interfaces_prepare(kern, set, !control.active_set);
	if (r == 0)
		r = write_other(kern, &control, set, classifier);
	if (r < 0)
		return r;
	/* Other CPUs must not see the word turned and the entries still old. The system calls between promise no such
	 * order. */
	__atomic_store_n(&words->active_set, !control.active_set, __ATOMIC_SEQ_CST);
	return 0;
}

/* ---- forgetting a rule ---- */

struct forget {
	struct lg_kern *kern;
	__u32 rule_id;
	size_t n;
	struct lg_op ops[LG_OPS_MAX];
};

static int forget_flush(struct forget *f)
{
	int r;

	r = lg_kern_grant(f->kern, f->ops, f->n);
	for (size_t i = 0; i < f->n && r == 0; i++)
		if (f->ops[i].result < 0 && f->ops[i].result != -ENOENT)
			r = f->ops[i].result;
	f->n = 0;
	return r;
}

static int forget_one(void *arg, const struct lg_key *key, const struct lg_bucket *bucket)
{
	struct forget *f = arg;

	(void)bucket;
	if (key->rule_id != f->rule_id)
		return 0;
	f->ops[f->n++] = (struct lg_op){ .key = *key, .code = LG_OP_FORGET };
	return f->n == LG_OPS_MAX ? forget_flush(f) : 0;
}

static int forget_buckets(struct lg_kern *kern, __u32 rule_id)
{
	_cleanup_free_ struct forget *f = NULL;
	int r;

	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->kern = kern;
	f->rule_id = rule_id;
	r = lg_buckets_walk(kern, forget_one, f);
	return r == 0 && f->n ? forget_flush(f) : r;
}

/* Logs without a bucket: that of the keys without room, and what a packet made while its bucket went. */
static int forget_log(void *arg, const struct lg_key *key)
{
	const struct forget *f = arg;

	if (key->rule_id == f->rule_id && bpf_map_delete_elem(f->kern->map_fd[LG_MAP_LOGS], key) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

int lg_kern_rule_forget(struct lg_kern *kern, uint32_t rule_id)
{
	static const struct lg_rule_name no_name;
	_cleanup_free_ struct lg_ruleset *set = NULL;
	struct lg_control control;
	int r;

	if (rule_id == 0 || rule_id > kern->max_rules)
		return -EINVAL;
	set = malloc(sizeof(*set));
	if (!set)
		return -ENOMEM;
	r = read_active(kern, &control, set);
	if (r < 0)
		return r;
	if (set_has(set, rule_id))
		return -EBUSY;
	/* Packets that still see the set in which the rule was might make a bucket again. */
	r = lg_kern_grace();
	if (r == 0)
		r = lg_conns_forget(kern, rule_id);
	if (r == 0)
		r = forget_buckets(kern, rule_id);
	if (r == 0)
		r = lg_kern_each_log(kern, forget_log, &(struct forget){ .kern = kern, .rule_id = rule_id });
	if (r == 0)
		r = zero_overflow(kern, rule_id);
	if (r == 0)
		r = zero_counts(kern, rule_id);
	/* The name goes last: until then the id is not free, and a forgetting that was cut short is begun again. */
	if (r == 0 && bpf_map_update_elem(kern->map_fd[LG_MAP_RULE_NAMES], &rule_id, &no_name, BPF_ANY) < 0)
		r = -errno;
	return r;
}
