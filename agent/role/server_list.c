// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The list of regions says which region is a key's home, so two lists are two answers, and a key with two homes has its limit twice. The
 * list has a version, the same list the same version everywhere, and three things keep a change of it safe:
 *
 *   Who has a newer list than the last life here treats every key as leased out by somebody else: nothing is lent before every region
 *   has said hello under the new list (and so holds nothing of the old homes: a region's new life waits for its hosts), or
 *   the last old lease must be over. The new version becomes durable when that is so.
 *   Who hears of a newer list than its own cannot know which keys are still its own: it lends nothing until it has the newer one.
 *   Who comes with an older list is sent away.
 */
#include "role/server.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define LIST_KEY "regions"

struct lg_server_stored_list lg_list_of(const struct lg_config *config)
{
	return (struct lg_server_stored_list){ .version = config->regions_version, .names = lg_config_regions_names(config) };
}

int lg_list_start(struct lg_server *s, struct lg_complaint *c)
{
	struct lg_server_stored_list stored = { 0 }, ours = lg_list_of(&s->config);
	uint64_t revision;
	size_t len = 0;
	int r;

	r = lg_store_get(s->store, LIST_KEY, &stored, sizeof(stored), &len, &revision);
	if (r < 0 || (r == 0 && len != sizeof(stored)))
		return lg_complain(c, "store: cannot read the version of the region list: %s", r < 0 ? strerror(-r) : "it is damaged");
	if (r == 0 && stored.version > ours.version)
		return lg_complain(c,
				   "regions: this region has worked with version %llu of the list, the configuration has %llu: "
				   "bring the newer list, or one with a higher version",
				   (unsigned long long)stored.version, (unsigned long long)ours.version);
	if (r == 0 && stored.version == ours.version) {
		if (stored.names == ours.names)
			return 0;
		return lg_complain(c, "regions: the list has other regions than before but still version %llu: raise `version` on every host",
				   (unsigned long long)ours.version);
	}
	if (r == 0 || ours.version != 1)
		lg_warn("regions: version %llu of the list is new here: keys are leased out once every region has it, or all older leases are "
			"over",
			(unsigned long long)ours.version);
	return 0;
}

bool lg_list_settle(struct lg_server *s, struct lg_server_stored_list *list, struct lg_store_write *ret_write)
{
	struct lg_server_stored_list stored = { 0 };
	uint64_t revision = 0;
	size_t len = 0;
	int r;

	r = lg_store_get(s->store, LIST_KEY, &stored, sizeof(stored), &len, &revision);
	if (r < 0 || (r == 0 && stored.version >= list->version))
		return false;
	*ret_write = (struct lg_store_write){ .key = LIST_KEY, .value = list, .len = sizeof(*list), .if_revision = r ? 0 : revision };
	return true;
}

int lg_list_hello(struct lg_server *s, const struct lg_lease_hello *hello)
{
	uint64_t ours = s->config.regions_version;

	if (hello->regions_version < ours)
		return 1;
	if (hello->regions_version > ours && hello->regions_version > s->newest_list) {
		s->newest_list = hello->regions_version;
		lg_warn("regions: %s has version %llu of the list, this region %llu: it lends nothing as a home until it has "
			 "the newer list", hello->holder, (unsigned long long)hello->regions_version, (unsigned long long)ours);
	}
	return 0;
}

bool lg_list_is_outdated(const struct lg_server *s)
{
	return s->newest_list > s->config.regions_version;
}
