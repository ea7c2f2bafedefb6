// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Entries of a map as one build made it go into the map that another build made instead, in batches of about a megabyte. */
#include "kern/carry.h"

#include <errno.h>
#include <string.h>

#define BATCH_BYTES (1u << 20)

int lg_map_meet(int fd, struct lg_btfs *btfs, struct lg_map_side *ret)
{
	__u32 len = sizeof(ret->info);

	memset(ret, 0, sizeof(*ret));
	ret->fd = fd;
	if (bpf_obj_get_info_by_fd(fd, &ret->info, &len) < 0)
		return -errno;
	return lg_btfs_get(btfs, ret->info.btf_id, &ret->btf);
}

bool lg_map_is_percpu(uint32_t type)
{
	return type == BPF_MAP_TYPE_PERCPU_ARRAY || type == BPF_MAP_TYPE_PERCPU_HASH;
}

static bool is_array(uint32_t type)
{
	return type == BPF_MAP_TYPE_ARRAY || type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

static bool is_carried(uint32_t type)
{
	return is_array(type) || type == BPF_MAP_TYPE_HASH || type == BPF_MAP_TYPE_PERCPU_HASH || type == BPF_MAP_TYPE_LPM_TRIE;
}

int lg_map_compare(const struct lg_map_side *was, const struct bpf_map_info *now, const struct btf *now_btf, struct lg_differences *d,
		   struct lg_carry *ret_carry)
{
	struct lg_plan *key = ret_carry ? &ret_carry->key : NULL, *value = ret_carry ? &ret_carry->value : NULL;
	int r = 0;

	if (was->info.type != now->type)
		lg_differ(d, "type %u, needed %u", was->info.type, now->type);
	if (was->info.key_size != now->key_size)
		lg_differ(d, "key size %u, needed %u", was->info.key_size, now->key_size);
	if (was->info.value_size != now->value_size)
		lg_differ(d, "value size %u, needed %u", was->info.value_size, now->value_size);
	if (was->info.map_flags != now->map_flags)
		lg_differ(d, "flags %u, needed %u", was->info.map_flags, now->map_flags);
	if (was->btf && now_btf && was->info.btf_key_type_id && now->btf_key_type_id)
		r = lg_layout_walk(was->btf, was->info.btf_key_type_id, now_btf, now->btf_key_type_id, "key", d, key);
	if (r == 0 && was->btf && now_btf && was->info.btf_value_type_id && now->btf_value_type_id)
		r = lg_layout_walk(was->btf, was->info.btf_value_type_id, now_btf, now->btf_value_type_id, "", d, value);
	return r;
}

/* ---- copying ---- */

struct copying {
	const struct lg_carry *carry;
	uint32_t from_key_bytes, from_value_bytes, to_key_bytes, to_value_bytes; /* of one entry, over all CPUs */
	uint32_t from_stride, to_stride; /* of one CPU's value */
	uint32_t n_cpus;	/* 1 for values that all share */
	uint32_t room;		/* entries of a batch */
	uint8_t *from_keys, *from_values, *to_keys, *to_values;
	uint64_t n_left_out;
};

static void copying_free(struct copying *c)
{
	free(c->from_keys);
	free(c->from_values);
	free(c->to_keys);
	free(c->to_values);
}

static int room_make(struct copying *c, uint32_t room)
{
	copying_free(c);
	c->room = room;
	c->from_keys = calloc(room, c->from_key_bytes);
	c->from_values = calloc(room, c->from_value_bytes);
	c->to_keys = calloc(room, c->to_key_bytes);
	c->to_values = calloc(room, c->to_value_bytes);
	return c->from_keys && c->from_values && c->to_keys && c->to_values ? 0 : -ENOMEM;
}

static bool is_zero(const uint8_t *at, size_t bytes)
{
	return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

/* Makes entry `i` of what was read entry `at` of what is written. False where there is nothing to write. */
static bool convert(struct copying *c, uint32_t i, uint32_t at)
{
	const uint8_t *from_key = c->from_keys + (size_t)i * c->from_key_bytes;
	const uint8_t *from = c->from_values + (size_t)i * c->from_value_bytes;
	uint8_t *to_key = c->to_keys + (size_t)at * c->to_key_bytes, *to = c->to_values + (size_t)at * c->to_value_bytes;

	if (is_array(c->carry->was.info.type)) {
		uint32_t index;

		memcpy(&index, from_key, sizeof(index));
		if (is_zero(from, c->from_value_bytes))
			return false;
		if (index >= c->carry->now.max_entries) {
			c->n_left_out++;
			return false;
		}
	}
	memset(to_key, 0, c->to_key_bytes);
	memset(to, 0, c->to_value_bytes);
	lg_plan_run(&c->carry->key, from_key, to_key);
	for (uint32_t cpu = 0; cpu < c->n_cpus; cpu++)
		lg_plan_run(&c->carry->value, from + (size_t)cpu * c->from_stride, to + (size_t)cpu * c->to_stride);
	return true;
}

/* One by one behind the entry that found no room: others may replace what is there. */
static int write_each(struct copying *c, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < n; i++) {
		if (bpf_map_update_elem(c->carry->now_fd, c->to_keys + (size_t)i * c->to_key_bytes,
					c->to_values + (size_t)i * c->to_value_bytes, BPF_ANY) == 0)
			continue;
		if (errno != E2BIG && errno != ENOSPC)
			return -errno;
		c->n_left_out++;
	}
	return 0;
}

static int write_batch(struct copying *c, uint32_t n_read)
{
	uint32_t n = 0, done;

	for (uint32_t i = 0; i < n_read; i++)
		n += convert(c, i, n);
	if (!n)
		return 0;
	done = n;
	if (bpf_map_update_batch(c->carry->now_fd, c->to_keys, c->to_values, &done, NULL) == 0)
		return 0;
	return write_each(c, done < n ? done : 0, n);
}

/* The place in a map between two batches: a key, or a number of the hash table's. */
static int copy_all(struct copying *c)
{
	_cleanup_free_ uint8_t *at = calloc(1, c->from_key_bytes + sizeof(uint64_t));
	_cleanup_free_ uint8_t *next = calloc(1, c->from_key_bytes + sizeof(uint64_t));
	bool first = true, last = false;
	int r = 0;

	if (!at || !next)
		return -ENOMEM;
	while (r == 0 && !last) {
		uint32_t n = c->room;

		if (bpf_map_lookup_batch(c->carry->was.fd, first ? NULL : at, next, c->from_keys, c->from_values, &n, NULL) < 0) {
			if (errno == ENOSPC) { /* a chain of the hash table is longer */
				r = room_make(c, c->room * 2);
				continue;
			}
			if (errno != ENOENT)
				return -errno;
			last = true;
		}
		r = write_batch(c, n);
		memcpy(at, next, c->from_key_bytes + sizeof(uint64_t));
		first = false;
	}
	return r;
}

static uint32_t batch_room(const struct copying *c)
{
	uint64_t bytes = (uint64_t)c->from_key_bytes + c->from_value_bytes + c->to_key_bytes + c->to_value_bytes;

	return bytes >= BATCH_BYTES ? 1 : (uint32_t)(BATCH_BYTES / bytes);
}

int lg_carry_run(const struct lg_carry *carry, uint64_t *ret_left_out)
{
	__attribute__((cleanup(copying_free))) struct copying c = { .carry = carry, .n_cpus = 1 };
	bool percpu = lg_map_is_percpu(carry->now.type);
	int n_cpus = libbpf_num_possible_cpus(), r;

	*ret_left_out = 0;
	if (n_cpus < 0)
		return n_cpus;
	if (!is_carried(carry->now.type) || carry->was.info.type != carry->now.type || !carry->value.n)
		return 0;
	if (percpu)
		c.n_cpus = (uint32_t)n_cpus;
	/* Values of CPUs lie at multiples of 8 bytes. */
	c.from_stride = percpu ? (carry->was.info.value_size + 7) / 8 * 8 : carry->was.info.value_size;
	c.to_stride = percpu ? (carry->now.value_size + 7) / 8 * 8 : carry->now.value_size;
	c.from_key_bytes = carry->was.info.key_size;
	c.to_key_bytes = carry->now.key_size;
	c.from_value_bytes = c.from_stride * c.n_cpus;
	c.to_value_bytes = c.to_stride * c.n_cpus;
	r = room_make(&c, batch_room(&c));
	if (r == 0)
		r = copy_all(&c);
	*ret_left_out = c.n_left_out;
	return r;
}

void lg_carry_fini(struct lg_carry *carry)
{
	lg_plan_fini(&carry->key);
	lg_plan_fini(&carry->value);
	if (carry->was.fd >= 0)
		close(carry->was.fd);
	carry->was.fd = -1;
}
