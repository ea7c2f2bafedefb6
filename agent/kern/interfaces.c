// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Rules name interfaces, packets know an index. A name's class is its place in the list of the set, and the map has the class under
 * each of the two sets for each index, so that turning the word that says which set is in force turns the classes with it.
 */
#include "kern/internal.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>

static uint32_t class_of(const struct lg_ruleset *set, const char *ifname)
{
	for (uint32_t i = 1; i < LG_INTERFACE_CLASSES && set->interfaces[i][0]; i++)
		if (strncmp(set->interfaces[i], ifname, sizeof(set->interfaces[i])) == 0)
			return i;
	return 0;
}

static int class_write(struct lg_kern *kern, uint32_t ifindex, uint32_t index, uint32_t class)
{
	int fd = kern->map_fd[LG_MAP_INTERFACES];
	struct lg_interface_class value = { { 0 } };

	if (bpf_map_lookup_elem(fd, &ifindex, &value) < 0 && errno != ENOENT)
		return -errno;
	value.of_set[index] = class;
	/* An index that no set names needs no entry, and one that is gone leaves none behind. */
	if (!value.of_set[0] && !value.of_set[1])
		return bpf_map_delete_elem(fd, &ifindex) < 0 && errno != ENOENT ? -errno : 0;
	return bpf_map_update_elem(fd, &ifindex, &value, BPF_ANY) < 0 ? -errno : 0;
}

struct prepare {
	struct lg_kern *kern;
	const struct lg_ruleset *set;
	uint32_t index;
	size_t n;
	uint32_t known[LG_INTERFACES_KNOWN_MAX];
};

static int note_known(void *arg, const void *key, const void *value)
{
	struct prepare *p = arg;

	(void)value;
	if (p->n < N_ELEMS(p->known))
		memcpy(&p->known[p->n++], key, sizeof(p->known[0]));
	return 0;
}

int lg_interfaces_prepare(struct lg_kern *kern, const struct lg_ruleset *set, uint32_t index)
{
	_cleanup_free_ struct prepare *p = calloc(1, sizeof(*p));
	char ifname[IF_NAMESIZE];
	uint32_t ifindex;
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct prepare){ .kern = kern, .set = set, .index = index };
	r = lg_map_walk(kern->map_fd[LG_MAP_INTERFACES], sizeof(uint32_t), sizeof(struct lg_interface_class), note_known, p);
	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = class_write(kern, p->known[i], index, if_indextoname(p->known[i], ifname) ? class_of(set, ifname) : 0);
	for (uint32_t i = 1; r == 0 && i < LG_INTERFACE_CLASSES && set->interfaces[i][0]; i++) {
		ifindex = if_nametoindex(set->interfaces[i]);
		if (ifindex)
			r = class_write(kern, ifindex, index, i);
	}
	return r;
}

int lg_kern_interface_learn(struct lg_kern *kern, const char *ifname)
{
	_cleanup_free_ struct lg_ruleset *set = malloc(sizeof(*set));
	uint32_t ifindex = if_nametoindex(ifname);
	int r = 0;

	if (!set)
		return -ENOMEM;
	if (!ifindex)
		return -ENODEV;
	for (uint32_t index = 0; r == 0 && index < 2; index++) {
		if (bpf_map_lookup_elem(kern->map_fd[LG_MAP_RULES], &index, set) < 0)
			return -errno;
		r = class_write(kern, ifindex, index, class_of(set, ifname));
	}
	return r;
}

int lg_kern_wide_key(struct lg_kern *kern, const struct lg_key *key, struct lg_wide_key *ret)
{
	return bpf_map_lookup_elem(kern->map_fd[LG_MAP_WIDE_KEYS], key, ret) < 0 ? -errno : 0;
}
