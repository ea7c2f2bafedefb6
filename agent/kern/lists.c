// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Allow and deny lists: one trie for all. An entry has what the file says and what the operator says, so that neither undoes the
 * other's. Daemon and tool both write, by reading what is there and putting back what it becomes; so they take turns by a lock on the
 * directory of the maps. Packets need none: an entry is replaced as a whole.
 */
#include "kern/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>

#include "base/num.h"
#include "rules/rule.h"

#define BATCH 4096	/* entries of one system call */
#define LOCK_TRIES 100	/* of 10 ms: nobody holds the lock for longer than it takes to load the largest lists */
#define ADDRESS_BITS 128

static const __u32 ipv4_bits = 96; /* that an IPv4 prefix begins with */

struct lg_list_key lg_list_key_of(const struct lg_prefix *prefix)
{
	struct lg_list_key key = { .prefix_len = prefix->len + (prefix->family == 4 ? ipv4_bits : 0) };

	memcpy(key.addr, prefix->addr, sizeof(key.addr));
	return key;
}

void lg_list_prefix_of(const struct lg_list_key *key, struct lg_prefix *ret)
{
	bool is_ip4 = key->prefix_len >= ipv4_bits && lg_addr_is_mapped(key->addr);

	ret->family = is_ip4 ? 4 : 6;
	ret->len = (uint8_t)(key->prefix_len - (is_ip4 ? ipv4_bits : 0));
	memcpy(ret->addr, key->addr, sizeof(ret->addr));
}

enum lg_list_verdict lg_list_entry_verdict(const struct lg_list_entry *entry, uint64_t now_ns)
{
	if (entry->of_operator && (!entry->until_ns || now_ns < entry->until_ns))
		return (enum lg_list_verdict)entry->of_operator;
	return (enum lg_list_verdict)entry->of_file;
}

static int lists_lock(struct lg_kern *kern, int *ret_fd)
{
	_cleanup_fd_ int fd = -1;
	char path[LG_KPATH_LEN];

	lg_pins_map_path(kern, "", path, sizeof(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK || i == LOCK_TRIES)
			return errno == EWOULDBLOCK ? -EBUSY : -errno;
		poll(NULL, 0, 10);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* ---- all rows ---- */

static int row_compare(const void *a, const void *b)
{
	return memcmp(&((const struct lg_list_row *)a)->key, &((const struct lg_list_row *)b)->key, sizeof(struct lg_list_key));
}

struct batch {
	struct lg_list_key keys[BATCH];
	struct lg_list_entry entries[BATCH];
	__u32 n;
};

/* The next BATCH entries behind *at; 1: there are no more. */
static int batch_read(struct lg_kern *kern, struct batch *batch, const struct lg_list_key *at, struct lg_list_key *next)
{
	batch->n = BATCH;
	if (bpf_map_lookup_batch(kern->map_fd[LG_MAP_LISTS], (void *)at, next, batch->keys, batch->entries, &batch->n, NULL) == 0)
		return 0;
	return errno == ENOENT ? 1 : -errno;
}

int lg_kern_lists_read(struct lg_kern *kern, struct lg_list_row **ret_rows, size_t *ret_n)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	_cleanup_free_ struct batch *batch = NULL;
	struct lg_list_key cursors[2];
	struct lg_list_row *more;
	size_t n = 0;
	int r = 0;

	batch = malloc(sizeof(*batch));
	for (unsigned int turn = 0; batch && r == 0; turn++) {
		r = batch_read(kern, batch, turn ? &cursors[turn & 1] : NULL, &cursors[!(turn & 1)]);
		more = r < 0 ? NULL : reallocarray(rows, n + batch->n + 1, sizeof(*rows));
		if (!more)
			return r < 0 ? r : -ENOMEM;
		rows = more;
		for (__u32 i = 0; i < batch->n; i++)
			rows[n++] = (struct lg_list_row){ batch->keys[i], batch->entries[i] };
	}
	if (!batch)
		return -ENOMEM;
	if (n)
		qsort(rows, n, sizeof(*rows), row_compare);
	*ret_rows = TAKE(rows);
	*ret_n = n;
	return 0;
}

/* ---- changes ---- */

static int batch_update(struct lg_kern *kern, struct batch *batch)
{
	__u32 n = batch->n;

	batch->n = 0;
	return n && bpf_map_update_batch(kern->map_fd[LG_MAP_LISTS], batch->keys, batch->entries, &n, NULL) < 0 ? -errno : 0;
}

static int row_put(struct lg_kern *kern, struct batch *batch, const struct lg_list_key *key, struct lg_list_entry entry)
{
	entry.prefix_len = (__u8)key->prefix_len;
	batch->keys[batch->n] = *key;
	batch->entries[batch->n++] = entry;
	return batch->n == BATCH ? batch_update(kern, batch) : 0;
}

static int key_delete(struct lg_kern *kern, const struct lg_list_key *key)
{
	return bpf_map_delete_elem(kern->map_fd[LG_MAP_LISTS], key) < 0 && errno != ENOENT ? -errno : 0;
}

/* Packets look at lists from now on, or no more. */
static int has_lists_set(struct lg_kern *kern, bool has)
{
	struct lg_control *words;
	int r = lg_control_words(kern, &words);

	if (r == 0)
		__atomic_store_n(&words->has_lists, has, __ATOMIC_SEQ_CST);
	return r;
}

static bool is_kept(const struct lg_list_row *row, const struct lg_list_row *wanted, size_t n)
{
	return n && bsearch(row, wanted, n, sizeof(*row), row_compare);
}

/* What the file says now and did not before. `old` and `wanted` are sorted. */
static int rows_add(struct lg_kern *kern, struct batch *batch, const struct lg_list_row *old, size_t n_old,
		    const struct lg_list_row *wanted, size_t n)
{
	size_t o = 0;
	int r = 0;

	batch->n = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct lg_list_entry entry = { 0 };

		while (o < n_old && row_compare(&old[o], &wanted[i]) < 0)
			o++;
		if (o < n_old && row_compare(&old[o], &wanted[i]) == 0)
			entry = old[o].entry;
		if (entry.of_file == wanted[i].entry.of_file)
			continue;
		entry.of_file = wanted[i].entry.of_file;
		r = row_put(kern, batch, &wanted[i].key, entry);
	}
	return r < 0 ? r : batch_update(kern, batch);
}

/* What it said before and does not now. */
static int rows_drop(struct lg_kern *kern, struct batch *batch, const struct lg_list_row *old, size_t n_old,
		     const struct lg_list_row *wanted, size_t n)
{
	int r = 0;

	batch->n = 0;
	for (size_t i = 0; i < n_old && r == 0; i++) {
		struct lg_list_entry entry = old[i].entry;

		if (!entry.of_file || is_kept(&old[i], wanted, n))
			continue;
		entry.of_file = LG_LIST_NONE;
		r = entry.of_operator ? row_put(kern, batch, &old[i].key, entry) : key_delete(kern, &old[i].key);
	}
	return r < 0 ? r : batch_update(kern, batch);
}

static size_t operators_count(const struct lg_list_row *old, size_t n_old, const struct lg_list_row *wanted, size_t n)
{
	size_t count = 0;

	for (size_t i = 0; i < n_old; i++)
		count += old[i].entry.of_operator && !is_kept(&old[i], wanted, n);
	return count;
}

/* With the lock. What goes makes room only when what comes is there: so both must have it at once. */
static int load_locked(struct lg_kern *kern, const struct lg_list_row *wanted, size_t n)
{
	_cleanup_free_ struct lg_list_row *old = NULL;
	_cleanup_free_ struct batch *batch = NULL;
	size_t n_old, n_added = 0, n_left;
	int r;

	batch = malloc(sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	r = lg_kern_lists_read(kern, &old, &n_old);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		n_added += !is_kept(&wanted[i], old, n_old);
	n_left = n + operators_count(old, n_old, wanted, n);
	if (n_left > LG_LISTS_MAX)
		return -E2BIG;
	/* Two long lists that have little in common do not fit in beside each other: then the old one goes first. */
	if (n_old + n_added > LG_LISTS_MAX)
		r = rows_drop(kern, batch, old, n_old, wanted, n);
	if (r == 0 && n_left)
		r = has_lists_set(kern, true);
	if (r == 0)
		r = rows_add(kern, batch, old, n_old, wanted, n);
	if (r == 0)
		r = rows_drop(kern, batch, old, n_old, wanted, n);
	return r < 0 || n_left ? r : has_lists_set(kern, false);
}

int lg_kern_lists_load(struct lg_kern *kern, const struct lg_list_row *wanted, size_t n)
{
	_cleanup_free_ struct lg_list_row *sorted = NULL;
	_cleanup_fd_ int lock = -1;
	int r;

	sorted = reallocarray(NULL, n + 1, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	if (n) {
		memcpy(sorted, wanted, n * sizeof(*sorted));
		qsort(sorted, n, sizeof(*sorted), row_compare);
	}
	r = lists_lock(kern, &lock);
	return r < 0 ? r : load_locked(kern, sorted, n);
}

static int entry_write(struct lg_kern *kern, const struct lg_list_key *key, const struct lg_list_entry *entry)
{
	if (!entry->of_operator && !entry->of_file)
		return key_delete(kern, key);
	if (bpf_map_update_elem(kern->map_fd[LG_MAP_LISTS], key, entry, BPF_ANY) == 0)
		return has_lists_set(kern, true);
	return errno == ENOSPC ? -E2BIG : -errno;
}

/* The entry of exactly this prefix: a look-up finds the longest one that the prefix lies in. */
static int entry_read(struct lg_kern *kern, const struct lg_list_key *key, struct lg_list_entry *ret)
{
	struct lg_list_entry entry;

	if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_LISTS], key, &entry) < 0)
		return -errno;
	if (entry.prefix_len != key->prefix_len)
		return -ENOENT;
	*ret = entry;
	return 0;
}

int lg_kern_list_set(struct lg_kern *kern, const struct lg_list_key *key, enum lg_list_verdict verdict, uint64_t until_ns)
{
	struct lg_list_entry entry = { 0 };
	_cleanup_fd_ int lock = -1;
	int r;

	r = lists_lock(kern, &lock);
	if (r < 0)
		return r;
	r = entry_read(kern, key, &entry);
	if (r < 0 && r != -ENOENT)
		return r;
	if (verdict == LG_LIST_NONE && !entry.of_operator)
		return -ENOENT;
	entry.of_operator = (__u8)verdict;
	entry.until_ns = verdict == LG_LIST_NONE ? 0 : until_ns;
	entry.prefix_len = (__u8)key->prefix_len;
	return entry_write(kern, key, &entry);
}

int lg_kern_list_find(struct lg_kern *kern, const uint8_t addr[16], int family, uint64_t now_ns, struct lg_list_row *ret_row)
{
	struct lg_list_row row = { .key = { .prefix_len = ADDRESS_BITS } };

	memcpy(row.key.addr, addr, sizeof(row.key.addr));
	for (;;) {
		if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_LISTS], &row.key, &row.entry) < 0)
			return errno == ENOENT ? 0 : -errno;
		row.key.prefix_len = row.entry.prefix_len;
		if (family == 4 && row.key.prefix_len < ipv4_bits)
			return 0;
		if (lg_list_entry_verdict(&row.entry, now_ns) != LG_LIST_NONE)
			break;
		if (!row.key.prefix_len--)
			return 0;
	}
	*ret_row = row;
	return 1;
}

int lg_kern_lists_reap(struct lg_kern *kern, uint64_t now_ns)
{
	_cleanup_free_ struct lg_list_row *rows = NULL;
	_cleanup_fd_ int lock = -1;
	size_t n, n_left = 0;
	int r;

	r = lists_lock(kern, &lock);
	if (r == 0)
		r = lg_kern_lists_read(kern, &rows, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct lg_list_entry *entry = &rows[i].entry;

		n_left++;
		if (!entry->of_operator || !entry->until_ns || now_ns < entry->until_ns)
			continue;
		entry->of_operator = LG_LIST_NONE;
		entry->until_ns = 0;
		n_left -= !entry->of_file;
		r = entry_write(kern, &rows[i].key, entry);
	}
	return r < 0 || n_left ? r : has_lists_set(kern, false);
}
