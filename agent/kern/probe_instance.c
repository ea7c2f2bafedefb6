// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kern/facts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kern/internal.h"

void lg_probe_instance(const char *instance, struct lg_instance_facts *ret)
{
	_cleanup_(lg_kern_free) struct lg_kern *kern = NULL, *opened = NULL;
	struct lg_versions versions;
	struct lg_complaint c = { 0 };
	enum lg_kern_fail fail;
	uint32_t prog_id;
	int r;

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->name, sizeof(ret->name), "%s", instance);
	if (lg_kern_new(instance, NULL, &kern, &c) < 0 || lg_versions_look(kern, &versions) < 0)
		return;
	r = lg_attach_count(kern, &prog_id);
	if (r < 0)
		return;
	ret->n_links = (uint32_t)r;
	ret->other_abi = versions.other_abi;
	r = lg_kern_open_pins(instance, NULL, &opened, &fail, &c);
	if (r == 0)
		ret->pinned = LG_PINNED_OURS;
	else if (r == -EPROTONOSUPPORT && !versions.has_own)
		ret->pinned = LG_PINNED_OTHERS;
	else if (r == -EPROTONOSUPPORT)
		ret->pinned = LG_PINNED_MISFIT;
	else if (r == -ENOENT)
		ret->pinned = LG_PINNED_NOTHING;
	snprintf(ret->why, sizeof(ret->why), "%s", c.text);
}
