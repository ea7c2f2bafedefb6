// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Buckets: operations through the syscall programs, and walks. A batch costs three system calls: its operations go into
 * map `ops`, the program runs over them, the answers come out.
 */
#include "kern/internal.h"

#include <errno.h>
#include <string.h>

#define WALK_BATCH 1024	     /* entries fetched at a time; grows when a chain of the hash table holds more */
#define EVENTS_PER_READ 4096 /* a flood of events must not keep the loop from its other work; the fd stays readable */

/* Keys of array maps, in order: 0, 1, … */
static void count_up(__u32 *keys, __u32 from, __u32 n)
{
	for (__u32 i = 0; i < n; i++)
		keys[i] = from + i;
}

static int run_batch(struct lg_kern *kern, enum lg_prog prog, struct lg_op *ops, __u32 n)
{
	struct lg_ops_args args = { .n = n };
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &args, .ctx_size_in = sizeof(args));
	__u32 keys[LG_OPS_MAX];
	__u32 count = n;
	__u32 next;

	count_up(keys, 0, n);
	if (bpf_map_update_batch(kern->map_fd[LG_MAP_OPS], keys, ops, &count, NULL) < 0)
		return -errno;
	if (bpf_prog_test_run_opts(kern->prog_fd[prog], &run) < 0)
		return -errno;
	if (run.retval || args.done != n)
		return -EIO;
	count = n;
	/* The batch that ends the map says ENOENT and is whole. */
	if (bpf_map_lookup_batch(kern->map_fd[LG_MAP_OPS], NULL, &next, keys, ops, &count, NULL) < 0 && errno != ENOENT)
		return -errno;
	return count == n ? 0 : -EIO;
}

static int run_ops(struct lg_kern *kern, enum lg_prog prog, struct lg_op *ops, size_t n)
{
	if (kern->prog_fd[prog] < 0)
		return -EOPNOTSUPP;
	while (n) {
		__u32 now = n < LG_OPS_MAX ? (__u32)n : LG_OPS_MAX;
		int r = run_batch(kern, prog, ops, now);

		if (r < 0)
			return r;
		ops += now;
		n -= now;
	}
	return 0;
}

int lg_kern_grant(struct lg_kern *kern, struct lg_op *ops, size_t n)
{
	return run_ops(kern, LG_PROG_GRANT, ops, n);
}

int lg_kern_collect(struct lg_kern *kern, struct lg_op *ops, size_t n)
{
	return run_ops(kern, LG_PROG_COLLECT, ops, n);
}

/* Room for a batch of keys and values. */
struct room {
	char *keys;
	char *values;
	__u32 n;
};

static void room_free(struct room *room)
{
	free(room->keys);
	free(room->values);
}

static int room_grow(struct room *room, __u32 n, size_t key_bytes, size_t value_bytes)
{
	room_free(room);
	room->keys = reallocarray(NULL, n, key_bytes);
	room->values = reallocarray(NULL, n, value_bytes);
	room->n = n;
	return room->keys && room->values ? 0 : -ENOMEM;
}

int lg_map_walk(int fd, size_t key_bytes, size_t value_bytes,
		int (*fn)(void *arg, const void *key, const void *value), void *arg)
{
	__attribute__((cleanup(room_free))) struct room room = { 0 };
	bool first = true;
	bool last = false;
	__u32 at, next;
	int r;

	r = room_grow(&room, WALK_BATCH, key_bytes, value_bytes);
	while (r == 0 && !last) {
		__u32 n = room.n;

		/* Batches go by chains of the hash table: nothing is left out or met twice because of deletions. */
		if (bpf_map_lookup_batch(fd, first ? NULL : &at, &next, room.keys, room.values, &n, NULL) < 0) {
			if (errno == ENOSPC) {
				r = room_grow(&room, room.n * 2, key_bytes, value_bytes);
				continue;
			}
			if (errno != ENOENT)
				return -errno;
			last = true;
		}
		for (__u32 i = 0; i < n && r == 0; i++)
			r = fn(arg, room.keys + i * key_bytes, room.values + i * value_bytes);
		at = next;
		first = false;
	}
	return r;
}

struct each {
	int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket);
	void *arg;
};

static int each_short(void *arg, const void *key, const void *value)
{
	struct lg_key whole = { 0 };
	struct each *each = arg;

	memcpy(&whole, key, sizeof(struct lg_short_key));
	return each->fn(each->arg, &whole, value);
}

static int each_product(void *arg, const void *key, const void *value)
{
	struct each *each = arg;

	return each->fn(each->arg, key, value);
}

int lg_buckets_walk(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg)
{
	struct each each = { .fn = fn, .arg = arg };
	int r;

	r = lg_map_walk(kern->map_fd[LG_MAP_BUCKETS], sizeof(struct lg_short_key), sizeof(struct lg_bucket), each_short, &each);
	if (r)
		return r;
	return lg_map_walk(kern->map_fd[LG_MAP_PRODUCTS], sizeof(struct lg_key), sizeof(struct lg_bucket), each_product, &each);
}

/* Marks ids that have a name or are in force: no other can have been charged. */
static int ids_in_use(struct lg_kern *kern, bool ret_used[LG_RULES_MAX + 1])
{
	_cleanup_free_ struct lg_rule_name *names = NULL;
	_cleanup_free_ struct lg_ruleset *set = NULL;
	int r;

	names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	set = malloc(sizeof(*set));
	if (!names || !set)
		return -ENOMEM;
	r = lg_kern_rules_read(kern, set, names);
	if (r < 0)
		return r;
	for (__u32 id = 0; id <= LG_RULES_MAX; id++)
		ret_used[id] = names[id].name[0];
	for (__u32 i = 0; i < set->n_rules && i < LG_RULES_MAX; i++)
		if (set->rules[i].rule_id <= LG_RULES_MAX)
			ret_used[set->rules[i].rule_id] = true;
	return 0;
}

static int each_overflow(struct lg_kern *kern, __u32 rule_id, struct room *room, const struct each *each)
{
	__u32 before = (rule_id - 1) * LG_OVERFLOW_BUCKETS - 1; /* a batch of an array starts behind this key */
	const struct lg_bucket *buckets = (const void *)room->values;
	struct lg_key key = { .rule_id = rule_id, .form = LG_FORM_OVERFLOW };
	__u32 n = LG_OVERFLOW_BUCKETS;
	__u32 next;
	int r = 0;

	if (bpf_map_lookup_batch(kern->map_fd[LG_MAP_OVERFLOW], rule_id == 1 ? NULL : &before, &next, room->keys,
				 room->values, &n, NULL) < 0 && errno != ENOENT)
		return -errno;
	for (__u32 i = 0; i < n && r == 0; i++) {
		if (!buckets[i].granted_tok && !buckets[i].spent_tok && !buckets[i].denied_tok)
			continue;
		memcpy(key.a, &i, sizeof(i));
		r = each->fn(each->arg, &key, &buckets[i]);
	}
	return r;
}

int lg_kern_each_bucket(struct lg_kern *kern,
			int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg)
{
	__attribute__((cleanup(room_free))) struct room room = { 0 };
	struct each each = { .fn = fn, .arg = arg };
	bool used[LG_RULES_MAX + 1];
	int r;

	r = lg_buckets_walk(kern, fn, arg);
	if (r)
		return r;
	r = ids_in_use(kern, used);
	if (r == 0)
		r = room_grow(&room, LG_OVERFLOW_BUCKETS, sizeof(__u32), sizeof(struct lg_bucket));
	for (__u32 id = 1; id <= kern->max_rules && r == 0; id++)
		if (used[id])
			r = each_overflow(kern, id, &room, &each);
	return r;
}

int lg_kern_each_denied(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key, uint64_t tok), void *arg)
{
	_cleanup_free_ struct lg_denials *cells = NULL;
	int n_cpus = libbpf_num_possible_cpus(), r = 0;
	__u32 zero = 0;
	int64_t tok;

	if (n_cpus < 0)
		return n_cpus;
	cells = calloc((size_t)n_cpus, sizeof(*cells));
	if (!cells)
		return -ENOMEM;
	if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_DENIALS], &zero, cells) < 0)
		return -errno;
	for (int i = 0; i < n_cpus && r == 0; i++) {
		tok = (int64_t)(cells[i].added_tok - cells[i].booked_tok);
		if (tok > 0 && !(cells[i].turn & 1))
			r = fn(arg, &cells[i].key, (uint64_t)tok);
	}
	return r;
}

/* ---- logs ---- */

int lg_kern_each_log(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key), void *arg)
{
	struct lg_key key, next;
	int fd = kern->map_fd[LG_MAP_LOGS], r = 0;
	bool more = bpf_map_get_next_key(fd, NULL, &next) == 0;

	/* By keys alone, as a log is large. If fn deletes its key the next one is known already. */
	while (more && r == 0) {
		key = next;
		more = bpf_map_get_next_key(fd, &key, &next) == 0;
		r = fn(arg, &key);
	}
	return r;
}

int lg_kern_log_read(struct lg_kern *kern, const struct lg_key *key, struct lg_log *ret)
{
	struct lg_key shared = { .rule_id = key->rule_id, .form = LG_FORM_OVERFLOW };
	int fd = kern->map_fd[LG_MAP_LOGS];

	if (key->form != LG_FORM_OVERFLOW && bpf_map_lookup_elem(fd, key, ret) == 0)
		return 0;
	return bpf_map_lookup_elem(fd, &shared, ret) < 0 ? -errno : 0;
}

/* ---- events ---- */

static int event_one(void *arg, void *data, size_t len_bytes)
{
	struct lg_kern *kern = arg;

	if (len_bytes >= sizeof(struct lg_event))
		kern->event_fn(kern->event_arg, data);
	kern->n_events++;
	return kern->n_events < EVENTS_PER_READ ? 0 : -EAGAIN;
}

/* One process reads the events: the daemon. What another took would be lost to it. */
static int ring_open(struct lg_kern *kern)
{
	if (kern->ring)
		return 0;
	if (kern->lock_fd < 0)
		return -EOPNOTSUPP;
	kern->ring = ring_buffer__new(kern->map_fd[LG_MAP_EVENTS], event_one, kern, NULL);
	return kern->ring ? 0 : -errno;
}

int lg_kern_events_fd(struct lg_kern *kern)
{
	int r = ring_open(kern);

	return r < 0 ? r : ring_buffer__epoll_fd(kern->ring);
}

int lg_kern_events_read(struct lg_kern *kern, void (*fn)(void *arg, const struct lg_event *event), void *arg)
{
	int r;

	r = ring_open(kern);
	if (r < 0)
		return r;
	kern->event_fn = fn;
	kern->event_arg = arg;
	kern->n_events = 0;
	r = ring_buffer__consume(kern->ring);
	kern->event_fn = NULL;
	return r < 0 && r != -EAGAIN ? r : (int)kern->n_events;
}
