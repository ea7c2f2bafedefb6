// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Map `lines` as people see it. Read in batches while packets change it; which slots are live is told by the rule's virtual time, as
 * it is for packets. Keys are fetched only where one is noted: their map is six times as large.
 */
#include "kern/internal.h"

#include <errno.h>
#include <string.h>

#include "rules/rate.h"

#define CHUNK_LINES 256u

struct chunk {
	__u32 keys[CHUNK_LINES * LG_LINE_SLOTS];
	struct lg_line lines[CHUNK_LINES];
	struct lg_line_key notes[CHUNK_LINES * LG_LINE_SLOTS];
};

int lg_kern_lines_max(struct lg_kern *kern, uint32_t *ret_n_lines)
{
	struct bpf_map_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(kern->map_fd[LG_MAP_LINES], &info, &len) < 0)
		return -errno;
	*ret_n_lines = info.max_entries > 1 ? info.max_entries : 0;
	return 0;
}

int lg_lines_zero(struct lg_kern *kern, uint32_t first_line, uint32_t n_lines)
{
	_cleanup_free_ struct chunk *chunk = NULL;
	__u32 n;

	if (!n_lines)
		return 0;
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	for (uint32_t at = 0; at < n_lines; at += n) {
		n = n_lines - at < CHUNK_LINES ? n_lines - at : CHUNK_LINES;
		for (__u32 i = 0; i < n; i++)
			chunk->keys[i] = first_line + at + i;
		if (bpf_map_update_batch(kern->map_fd[LG_MAP_LINES], chunk->keys, chunk->lines, &n, NULL) < 0)
			return -errno;
	}
	return 0;
}

/* n entries of an array map from index `from` on. */
static int read_array(int fd, __u32 from, __u32 n, __u32 *keys, void *values)
{
	__u32 before = from - 1, got = n, next; /* a batch of an array starts behind this key */

	if (bpf_map_lookup_batch(fd, from ? &before : NULL, &next, keys, values, &got, NULL) < 0 && errno != ENOENT)
		return -errno;
	return got == n ? 0 : -ERANGE;
}

/* What a slot owes, or 0 where it is not live. A claim that is not settled is nobody's yet. */
static uint64_t debt_vt(const struct lg_rule *rule, uint64_t word, uint64_t v)
{
	uint64_t ahead = (word - v) & LG_LINE_POSITION;

	if (word & LG_LINE_PENDING || !(word & ~LG_LINE_POSITION))
		return 0;
	return ahead <= rule->live_vt ? ahead : 0;
}

static int slot_tell(const struct lg_rule *rule, const struct lg_line_key *note, uint64_t debt, uint64_t v,
		     int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg)
{
	struct lg_bucket bucket = {
		.rule_id = rule->rule_id,
		.kind = LG_BUCKET_LINE,
		.spent_tok = (debt + rule->rate.unit_per_tok - 1) / rule->rate.unit_per_tok,
		.full_at_vt = v + debt,
		.denied_tok = note->denied_tok,
		.rate_tok = rule->rate_tok,
		.per_ns = rule->per_ns,
	};

	/* Read before the mark came: the note is still that of the slot's last key, under another rule. */
	return note->key.rule_id == rule->rule_id ? fn(arg, &note->key, &bucket) : 0;
}

/* Adds to *unnoted how many live slots are of keys that are not noted. */
static int chunk_tell(struct lg_kern *kern, struct chunk *chunk, const struct lg_rule *rule, __u32 from, __u32 n, uint64_t v,
		      int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg, uint64_t *unnoted)
{
	bool has_notes = false;
	uint64_t debt, word;
	int r = 0;

	for (__u32 i = 0; i < n * LG_LINE_SLOTS && r == 0; i++) {
		word = chunk->lines[i / LG_LINE_SLOTS].slot[i % LG_LINE_SLOTS];
		debt = debt_vt(rule, word, v);
		*unnoted += debt && !(word & LG_LINE_NOTED);
		if (!debt || !(word & LG_LINE_NOTED))
			continue;
		if (!has_notes)
			r = read_array(kern->map_fd[LG_MAP_LINE_KEYS], from * LG_LINE_SLOTS, n * LG_LINE_SLOTS, chunk->keys,
				       chunk->notes);
		has_notes = true;
		if (r == 0)
			r = slot_tell(rule, &chunk->notes[i], debt, v, fn, arg);
	}
	return r;
}

static int rule_tell(struct lg_kern *kern, struct chunk *chunk, const struct lg_rule *rule, uint64_t now_ns,
		     int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg, uint64_t *unnoted)
{
	uint64_t v = lg_rate_vt(&rule->rate, now_ns);
	__u32 n;
	int r = 0;

	for (__u32 at = 0; at < rule->n_lines && r == 0; at += n) {
		n = rule->n_lines - at < CHUNK_LINES ? rule->n_lines - at : CHUNK_LINES;
		r = read_array(kern->map_fd[LG_MAP_LINES], rule->first_line + at, n, chunk->keys, chunk->lines);
		if (r == 0)
			r = chunk_tell(kern, chunk, rule, rule->first_line + at, n, v, fn, arg, unnoted);
	}
	return r;
}

int lg_kern_each_line(struct lg_kern *kern, uint64_t now_ns,
		      int (*fn)(void *arg, const struct lg_key *key, const struct lg_bucket *bucket), void *arg, uint64_t *ret_unnoted)
{
	_cleanup_free_ struct lg_rule_name *names = NULL;
	_cleanup_free_ struct lg_ruleset *set = NULL;
	_cleanup_free_ struct chunk *chunk = NULL;
	int r;

	names = calloc(LG_RULES_MAX + 1, sizeof(*names));
	set = malloc(sizeof(*set));
	chunk = malloc(sizeof(*chunk));
	if (!names || !set || !chunk)
		return -ENOMEM;
	*ret_unnoted = 0;
	r = lg_kern_rules_read(kern, set, names);
	/* Rules that left the file keep their lines behind those in force, until they are forgotten. */
	for (__u32 i = 0; i < LG_RULES_MAX && r == 0; i++) {
		const struct lg_rule *rule = &set->rules[i];

		if (rule->n_lines && rule->rule_id <= LG_RULES_MAX && names[rule->rule_id].name[0])
			r = rule_tell(kern, chunk, rule, now_ns, fn, arg, ret_unnoted);
	}
	return r;
}

int lg_kern_lines_count(struct lg_kern *kern, const struct lg_rule *rule, uint64_t now_ns, uint32_t *ret_live)
{
	_cleanup_free_ struct chunk *chunk = NULL;
	uint64_t v = lg_rate_vt(&rule->rate, now_ns);
	uint32_t live = 0;
	__u32 n;
	int r = 0;

	chunk = malloc(sizeof(*chunk));
	if (!chunk)
		return -ENOMEM;
	for (__u32 at = 0; at < rule->n_lines && r == 0; at += n) {
		n = rule->n_lines - at < CHUNK_LINES ? rule->n_lines - at : CHUNK_LINES;
		r = read_array(kern->map_fd[LG_MAP_LINES], rule->first_line + at, n, chunk->keys, chunk->lines);
		for (__u32 i = 0; i < n * LG_LINE_SLOTS && r == 0; i++)
			live += debt_vt(rule, chunk->lines[i / LG_LINE_SLOTS].slot[i % LG_LINE_SLOTS], v) != 0;
	}
	if (r == 0)
		*ret_live = live;
	return r;
}
