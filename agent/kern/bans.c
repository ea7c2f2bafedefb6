// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keys that their rule shuts out. Packets ban; the agent takes away what is over, and both may meet at one key. */
#include "kern/internal.h"

#include <errno.h>
#include <string.h>

struct walk {
	int (*fn)(void *arg, const struct lg_key *key, const struct lg_ban *ban);
	void *arg;
};

static int walk_one(void *arg, const void *key, const void *value)
{
	const struct walk *w = arg;

	return w->fn(w->arg, key, value);
}

int lg_kern_each_ban(struct lg_kern *kern, int (*fn)(void *arg, const struct lg_key *key, const struct lg_ban *ban), void *arg)
{
	struct walk w = { fn, arg };

	return lg_map_walk(kern->map_fd[LG_MAP_BANS], sizeof(struct lg_key), sizeof(struct lg_ban), walk_one, &w);
}

int lg_kern_ban_set(struct lg_kern *kern, const struct lg_key *key, uint64_t now_ns, uint64_t until_ns)
{
	struct lg_ban ban = { .until_ns = until_ns, .since_ns = now_ns, .times = 1, .by_operator = 1 };

	return bpf_map_update_elem(kern->map_fd[LG_MAP_BANS], key, &ban, BPF_ANY) < 0 ? -errno : 0;
}

int lg_kern_ban_remove(struct lg_kern *kern, const struct lg_key *key)
{
	return bpf_map_delete_elem(kern->map_fd[LG_MAP_BANS], key) < 0 ? -errno : 0;
}

struct reap {
	struct lg_kern *kern;
	const struct lg_ruleset *set;
	uint64_t now_ns;
};

/* Until when a ban matters: its end, and for as long after it as the next one would be longer for it. 0: not at all. */
static uint64_t matters_until_ns(const struct lg_ruleset *set, const struct lg_key *key, const struct lg_ban *ban)
{
	for (__u32 i = 0; i < set->n_rules && i < LG_RULES_MAX; i++)
		if (set->rules[i].rule_id == key->rule_id)
			return set->rules[i].special & LG_SPECIAL_BAN ? ban->until_ns + set->rules[i].ban.max_ns : 0;
	return 0;
}

/* What a packet renewed just now is put back, unless another one has banned the key meanwhile. */
static int reap_one(void *arg, const struct lg_key *key, const struct lg_ban *ban)
{
	const struct reap *reap = arg;
	int fd = reap->kern->map_fd[LG_MAP_BANS];
	struct lg_ban gone;

	if (reap->now_ns < matters_until_ns(reap->set, key, ban))
		return 0;
	if (bpf_map_lookup_and_delete_elem(fd, key, &gone) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (reap->now_ns < matters_until_ns(reap->set, key, &gone) && bpf_map_update_elem(fd, key, &gone, BPF_NOEXIST) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

int lg_kern_bans_reap(struct lg_kern *kern, const struct lg_ruleset *set, uint64_t now_ns)
{
	struct reap reap = { kern, set, now_ns };

	return lg_kern_each_ban(kern, reap_one, &reap);
}
