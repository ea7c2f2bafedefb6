// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Connections as the kernel's maps have them. Entries change only in the program `track`, so that the agent's hand in them is one more
 * CPU's. A batch costs three system calls, as those of buckets do.
 */
#include "kern/internal.h"

#include <errno.h>
#include <string.h>

static int run_batch(struct lg_kern *kern, struct lg_conn_op *ops, __u32 n)
{
	struct lg_ops_args args = { .n = n };
	LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &args, .ctx_size_in = sizeof(args));
	int fd = kern->map_fd[LG_MAP_CONN_OPS];
	__u32 keys[LG_OPS_MAX], count = n, next;

	for (__u32 i = 0; i < n; i++)
		keys[i] = i;
	if (n && bpf_map_update_batch(fd, keys, ops, &count, NULL) < 0)
		return -errno;
	if (bpf_prog_test_run_opts(kern->prog_fd[LG_PROG_TRACK], &run) < 0)
		return -errno;
	if (run.retval || args.done != n)
		return -EIO;
	count = n;
	/* The batch that ends the map says ENOENT and is whole. */
	if (n && bpf_map_lookup_batch(fd, NULL, &next, keys, ops, &count, NULL) < 0 && errno != ENOENT)
		return -errno;
	return count == n ? 0 : -EIO;
}

int lg_kern_track(struct lg_kern *kern, struct lg_conn_op *ops, size_t n)
{
	int r;

	if (kern->prog_fd[LG_PROG_TRACK] < 0)
		return -EOPNOTSUPP;
	do {
		__u32 now = n < LG_OPS_MAX ? (__u32)n : LG_OPS_MAX;

		r = run_batch(kern, ops, now);
		ops += now;
		n -= now;
	} while (r == 0 && n);
	return r;
}

int lg_kern_conn_terms_set(struct lg_kern *kern, const struct lg_conn_terms *terms)
{
	__u32 zero = 0;

	return bpf_map_update_elem(kern->map_fd[LG_MAP_CONN_TERMS], &zero, terms, BPF_ANY) < 0 ? -errno : 0;
}

void lg_conn_op_make(const struct lg_conn_key *key, uint32_t code, struct lg_conn_op *ret)
{
	*ret = (struct lg_conn_op){ .from_port = key->a_port, .to_port = key->b_port, .protocol = key->protocol, .code = code };
	memcpy(ret->from, key->a, sizeof(ret->from));
	memcpy(ret->to, key->b, sizeof(ret->to));
}

struct each_conn {
	int (*fn)(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn);
	void *arg;
};

static int each_conn_one(void *arg, const void *key, const void *value)
{
	struct each_conn *each = arg;

	return each->fn(each->arg, key, value);
}

int lg_kern_each_conn(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn), void *arg)
{
	struct each_conn each = { fn, arg };

	return lg_map_walk(kern->map_fd[LG_MAP_CONNS], sizeof(struct lg_conn_key), sizeof(struct lg_conn), each_conn_one, &each);
}

struct each_initiated {
	int (*fn)(void *arg, const struct lg_conn_key *key, const struct lg_initiated *side);
	void *arg;
};

static int each_initiated_one(void *arg, const void *key, const void *value)
{
	struct each_initiated *each = arg;

	return each->fn(each->arg, key, value);
}

int lg_kern_each_initiated(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_conn_key *key, const struct lg_initiated *side),
			   void *arg)
{
	struct each_initiated each = { fn, arg };

	return lg_map_walk(kern->map_fd[LG_MAP_INITIATED], sizeof(struct lg_conn_key), sizeof(struct lg_initiated), each_initiated_one,
			   &each);
}

int lg_kern_conns_max(struct lg_kern *kern, uint32_t *ret_max)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(kern->map_fd[LG_MAP_CONNS], &info, &len) < 0)
		return -errno;
	*ret_max = info.max_entries;
	return 0;
}

/* ---- a rule that is forgotten ---- */

struct forgetting {
	struct lg_kern *kern;
	uint32_t rule_id;
	size_t n;
	struct lg_conn_op ops[LG_OPS_MAX];
};

static int forget_flush(struct forgetting *f)
{
	int r = f->n ? lg_kern_track(f->kern, f->ops, f->n) : 0;

	f->n = 0;
	return r;
}

static int forget_one(void *arg, const struct lg_conn_key *key, const struct lg_conn *conn)
{
	struct forgetting *f = arg;
	bool charged = false;

	for (size_t i = 0; i < LG_CONN_CHARGES_MAX; i++)
		charged |= (uint32_t)conn->charge[i].word >> 8 == f->rule_id;
	if (!charged)
		return 0;
	lg_conn_op_make(key, LG_CONN_OP_FORGET, &f->ops[f->n]);
	f->ops[f->n++].rule_id = f->rule_id;
	return f->n == LG_OPS_MAX ? forget_flush(f) : 0;
}

int lg_conns_forget(struct lg_kern *kern, uint32_t rule_id)
{
	_cleanup_free_ struct forgetting *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return -ENOMEM;
	f->kern = kern;
	f->rule_id = rule_id;
	r = lg_kern_each_conn(kern, forget_one, f);
	return r == 0 ? forget_flush(f) : r;
}
